/* SPDX-License-Identifier: BSD-3-Clause */
/* A model of CALC (manual, appendix D, and the extensions): one value at a time. */
#ifndef TESTS_VERBS_CALC_MODEL_H
#define TESTS_VERBS_CALC_MODEL_H

#include <infiniband/verbs_exp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct calc_form {
	uint32_t op, type, size_code, size;
	bool vector, host;
};

static inline uint64_t calc_get(const char *p, const struct calc_form *f)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < f->size; i++) {
		bool first_is_high = !f->host || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
		v |= (uint64_t)(unsigned char)p[i] << 8 * (first_is_high ? f->size - 1 - i : i);
	}
	return v;
}
static inline void calc_put(char *p, const struct calc_form *f, uint64_t v)
{
	for (uint32_t i = 0; i < f->size; i++) {
		bool first_is_high = !f->host || __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
		p[i] = (char)(v >> 8 * (first_is_high ? f->size - 1 - i : i));
	}
}
static inline int64_t calc_extend(uint64_t v, uint32_t size)
{
	return size == 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size);
}
static inline double calc_real(uint64_t v, uint32_t size)
{
	float f;
	double d;
	uint32_t w = (uint32_t)v;

	memcpy(&f, &w, 4);
	memcpy(&d, &v, 8);
	return size == 4 ? (double)f : d;
}
static inline uint64_t calc_unreal(double d, uint32_t size)
{
	float f = (float)d;
	uint32_t w;
	uint64_t v;

	memcpy(&w, &f, 4);
	memcpy(&v, &d, 8);
	return size == 4 ? w : v;
}
static inline bool calc_less(const struct calc_form *f, uint64_t a, uint64_t b)
{
	switch (f->type) {
	case IBV_EXP_CALC_DATA_TYPE_INT: return calc_extend(a, f->size) < calc_extend(b, f->size);
	case IBV_EXP_CALC_DATA_TYPE_UINT: return a < b;
	default: return calc_real(a, f->size) < calc_real(b, f->size);
	}
}
static inline uint64_t calc_combine(const struct calc_form *f, uint64_t a, uint64_t b)
{
	bool is_real = f->type == IBV_EXP_CALC_DATA_TYPE_FLOAT;

	switch (f->op) {
	case IBV_EXP_CALC_OP_ADD: return is_real ? calc_unreal(calc_real(a, f->size) + calc_real(b, f->size), f->size) : a + b;
	case SHCA_EXP_CALC_OP_PROD: return is_real ? calc_unreal(calc_real(a, f->size) * calc_real(b, f->size), f->size) : a * b;
	case IBV_EXP_CALC_OP_BAND: return a & b;
	case IBV_EXP_CALC_OP_BXOR: return a ^ b;
	case IBV_EXP_CALC_OP_BOR: return a | b;
	case SHCA_EXP_CALC_OP_MIN: return calc_less(f, b, a) ? b : a;
	default: return calc_less(f, a, b) ? b : a;
	}
}

/* The n operands at p, `step` bytes apart, to one at r. */
static inline void calc_model(const struct calc_form *f, const char *p, uint32_t n, size_t step, char *r)
{
	uint64_t acc = calc_get(p, f), id = calc_get(p + 8, f);

	for (uint32_t i = 1; i < n; i++) {
		const char *q = p + i * step;
		uint64_t v = calc_get(q, f);
		if (f->op != SHCA_EXP_CALC_OP_MAXLOC) {
			acc = calc_combine(f, acc, v);
		} else if (calc_less(f, acc, v) || (!calc_less(f, v, acc) && calc_get(q + 8, f) < id)) {
			acc = v;
			id = calc_get(q + 8, f);
		}
	}
	calc_put(r, f, acc);
	if (f->op == SHCA_EXP_CALC_OP_MAXLOC)
		calc_put(r + 8, f, id);
	else if (!f->vector)
		memset(r + 8, 0, 8);
}

#endif
