/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CALC (manual, appendix D): the operands of a request's gather list are reduced to one, which is the request's payload. The
 * operands are read when the request runs, so that data which arrived before is included. An RDMA READ reduces the data that it
 * reads.
 *
 * An element of the manual's form has 16 bytes: a value of 8, and 8 that belong to the value (MAXLOC) or are ignored. The vector
 * form is an extension: each segment of the list is one operand, a vector of packed values.
 */
#include <endian.h>
#include <stdlib.h>

#include "shca/engine/calc.h"

/* -O2 vectorises no loop of unknown length. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#define STAGE 16384u		/* operands are read in pieces that stay in the cache */

/* acc = acc op b, element by element. Integers wrap; minimum and maximum of equal or unordered values keep acc's. */
#define LOOP(expr)                                                                                                   \
	for (uint32_t i = 0; i < n; i++)                                                                             \
		a[i] = (expr);                                                                                       \
	break
#define BITS(T)                                                                                                      \
	static void bits_##T(uint32_t op, T *restrict a, const T *restrict b, uint32_t n)                            \
	{                                                                                                            \
		switch (op) {                                                                                        \
		case SHCA_CALC_BAND: LOOP((T)(a[i] & b[i]));                                                         \
		case SHCA_CALC_BXOR: LOOP((T)(a[i] ^ b[i]));                                                         \
		default: LOOP((T)(a[i] | b[i]));                                                                     \
		}                                                                                                    \
	}
/* U: a type in which sums and products are defined for all values. */
#define VALUES(T, U)                                                                                                 \
	static void values_##T(uint32_t op, T *restrict a, const T *restrict b, uint32_t n)                          \
	{                                                                                                            \
		switch (op) {                                                                                        \
		case SHCA_CALC_ADD: LOOP((T)((U)a[i] + (U)b[i]));                                                    \
		case SHCA_CALC_PROD: LOOP((T)((U)a[i] * (U)b[i]));                                                   \
		case SHCA_CALC_MIN: LOOP(b[i] < a[i] ? b[i] : a[i]);                                                 \
		default: LOOP(b[i] > a[i] ? b[i] : a[i]);                                                            \
		}                                                                                                    \
	}
BITS(uint8_t) BITS(uint16_t) BITS(uint32_t) BITS(uint64_t)
VALUES(int8_t, uint32_t) VALUES(uint8_t, uint32_t) VALUES(int16_t, uint32_t) VALUES(uint16_t, uint32_t)
VALUES(int32_t, uint32_t) VALUES(uint32_t, uint32_t) VALUES(int64_t, uint64_t) VALUES(uint64_t, uint64_t)
VALUES(float, float) VALUES(double, double)

static bool is_bitwise(const struct shca_calc *c)
{
	return c->op == SHCA_CALC_BAND || c->op == SHCA_CALC_BXOR || c->op == SHCA_CALC_BOR;
}

/* Not inlined: in a caller the compiler loses `restrict`, which costs a fifth of the time. */
static __attribute__((noinline)) void calc_reduce(const struct shca_calc *c, void *a, const void *b, uint32_t n)
{
	if (is_bitwise(c)) {
		switch (c->size) {
		case 1: bits_uint8_t(c->op, a, b, n); return;
		case 2: bits_uint16_t(c->op, a, b, n); return;
		case 4: bits_uint32_t(c->op, a, b, n); return;
		default: bits_uint64_t(c->op, a, b, n); return;
		}
	}
	switch (c->type << 4 | c->size) {
	case SHCA_CALC_INT << 4 | 1: values_int8_t(c->op, a, b, n); return;
	case SHCA_CALC_INT << 4 | 2: values_int16_t(c->op, a, b, n); return;
	case SHCA_CALC_INT << 4 | 4: values_int32_t(c->op, a, b, n); return;
	case SHCA_CALC_INT << 4 | 8: values_int64_t(c->op, a, b, n); return;
	case SHCA_CALC_UINT << 4 | 1: values_uint8_t(c->op, a, b, n); return;
	case SHCA_CALC_UINT << 4 | 2: values_uint16_t(c->op, a, b, n); return;
	case SHCA_CALC_UINT << 4 | 4: values_uint32_t(c->op, a, b, n); return;
	case SHCA_CALC_UINT << 4 | 8: values_uint64_t(c->op, a, b, n); return;
	case SHCA_CALC_FLOAT << 4 | 4: values_float(c->op, a, b, n); return;
	default: values_double(c->op, a, b, n); return;
	}
}

static bool greater(const struct shca_calc *c, uint64_t x, uint64_t y)
{
	double d, e;

	switch (c->type) {
	case SHCA_CALC_INT: return (int64_t)x > (int64_t)y;
	case SHCA_CALC_UINT: return x > y;
	default:
		memcpy(&d, &x, 8);
		memcpy(&e, &y, 8);
		return d > e;
	}
}

/* Keeps the larger value with its 8 bytes in a; of equal values the one with the lower bytes. */
static void larger(const struct shca_calc *c, uint64_t *a, const uint64_t *b)
{
	if (greater(c, b[0], a[0]) || (!greater(c, a[0], b[0]) && b[1] < a[1])) {
		a[0] = b[0];
		a[1] = b[1];
	}
}

/* Converts between network order and host order, either way; from == to, or apart. */
static inline __attribute__((always_inline)) void turn_words(uint32_t size, void *to, const void *from, uint32_t bytes)
{
	const uint16_t *h = from;
	const uint32_t *w = from;
	const uint64_t *d = from;

	for (uint32_t i = 0; size == 2 && i < bytes / 2; i++)
		((uint16_t *)to)[i] = be16toh(h[i]);
	for (uint32_t i = 0; size == 4 && i < bytes / 4; i++)
		((uint32_t *)to)[i] = be32toh(w[i]);
	for (uint32_t i = 0; size == 8 && i < bytes / 8; i++)
		((uint64_t *)to)[i] = be64toh(d[i]);
}

/* A shuffle of bytes is one instruction for 32 of them where there is AVX2, and none before SSSE3. */
#ifdef __x86_64__
static __attribute__((target("avx2"), noinline)) void turn_wide(uint32_t size, void *to, const void *from, uint32_t bytes)
{
	turn_words(size, to, from, bytes);
}
#endif

static void calc_turn(const struct shca_calc *c, void *to, const void *from, uint32_t bytes)
{
#ifdef __x86_64__
	if (bytes > 64 && __builtin_cpu_supports("avx2")) {
		turn_wide(c->size, to, from, bytes);
		return;
	}
#endif
	turn_words(c->size, to, from, bytes);
}

static int calc_fetch(struct shca_thread *thr, const struct shca_iov *src, uint64_t from, void *to, uint32_t n, bool *src_err)
{
	struct shca_seg here = {.where = (uintptr_t)to, .len = n, .lane = SHCA_LANE_CMA};
	struct shca_iov dst = {.proc = SHCA_HERE, .seg = &here, .n = 1}, s = *src;

	s.skip += from;
	return shca_copy(thr, &dst, &s, n, SHCA_ANY_ORDER, src_err);
}

static int elements(struct shca_thread *thr, const struct shca_calc *c, const struct shca_iov *src, uint64_t len, uint64_t *a,
		    uint64_t *stage, bool *src_err)
{
	for (uint64_t at = 0; at < len;) {
		uint32_t n = len - at < STAGE ? (uint32_t)(len - at) : STAGE;
		int rc = calc_fetch(thr, src, at, stage, n, src_err);
		if (rc)
			return rc;
		if (!c->host_order)
			calc_turn(c, stage, stage, n);
		for (uint32_t i = 0; i < n / 8; i += 2) {
			if (!at && !i)
				memcpy(a, stage, 16);
			else if (c->op == SHCA_CALC_MAXLOC)
				larger(c, a, &stage[i]);
			else
				calc_reduce(c, a, &stage[i], 1);
		}
		at += n;
	}
	if (c->op != SHCA_CALC_MAXLOC)
		a[1] = 0;
	if (!c->host_order)
		calc_turn(c, a, a, 16);
	return 0;
}

/* Returns an operand that can be read in place: in the arena, and aligned; else NULL. */
static const void *in_place(const struct shca_thread *thr, const struct shca_calc *c, const struct shca_seg *seg, uint32_t at)
{
	/* I7 */
	if (seg->lane != SHCA_LANE_ARENA || !shca_fits(thr->m, seg->where, seg->len))
		return NULL;
	const char *p = thr->base + seg->where + at;
	return !((uintptr_t)p & (c->size - 1u)) ? p : NULL;
}

/* net: operands and result have another byte order than the CPU. The result is computed in the CPU's. */
static int vectors(struct shca_thread *thr, const struct shca_calc *c, const struct shca_iov *src, uint32_t len, char *a,
		   uint64_t *stage, bool *src_err)
{
	const bool net = !c->host_order && !is_bitwise(c) && c->size > 1;

	for (uint32_t at = 0; at < len; at += STAGE) {
		uint32_t n = len - at < STAGE ? len - at : STAGE;
		for (uint32_t k = 0; k < src->n; k++) {
			struct shca_iov one = {.proc = src->proc, .seg = &src->seg[k], .n = 1};
			/* the result is made from the first operand's copy: calc_fetch makes that copy, or calc_turn if net */
			const void *operand = (k || net) && at + n <= src->seg[k].len ? in_place(thr, c, &src->seg[k], at) : NULL;
			if (!operand) {
				void *to = k ? (void *)stage : a + at;
				int rc = calc_fetch(thr, &one, at, to, n, src_err);
				if (rc)
					return rc;
				operand = to;
			}
			if (net) {
				calc_turn(c, k ? (void *)stage : a + at, operand, n);
				operand = stage;
			}
			for (uint32_t i = 0; k && c->op == SHCA_CALC_MAXLOC && i < n / 8; i += 2)
				larger(c, (uint64_t *)(void *)(a + at) + i, (const uint64_t *)operand + i);
			if (k && c->op != SHCA_CALC_MAXLOC)
				calc_reduce(c, a + at, operand, n / c->size);
		}
		if (net)
			calc_turn(c, a + at, a + at, n);
	}
	return 0;
}

int shca_calc(struct shca_thread *thr, uint64_t what, const struct shca_iov *src, uint64_t len, const void **result,
	      bool *src_err)
{
	struct shca_calc c = shca_calc_of(what);

	/* I7 */
	if (!shca_calc_sound(&c) || !src->n || !len ||
	    (c.vector ? len > SHCA_CALC_VECTOR_MAX || len % shca_calc_unit(&c) : len % 16))
		return -EINVAL;
	if (!thr->calc && !(thr->calc = malloc(SHCA_CALC_VECTOR_MAX + STAGE)))
		return -ENOMEM;
	uint64_t *stage = (uint64_t *)(void *)(thr->calc + SHCA_CALC_VECTOR_MAX);
	*result = thr->calc;
	return c.vector ? vectors(thr, &c, src, (uint32_t)len, thr->calc, stage, src_err) :
			  elements(thr, &c, src, len, (uint64_t *)(void *)thr->calc, stage, src_err);
}
