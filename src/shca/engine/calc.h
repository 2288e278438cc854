/* SPDX-License-Identifier: BSD-3-Clause */
/* CALC: many operands become one (calc.c). */
#ifndef SHCA_CALC_H
#define SHCA_CALC_H

#include <errno.h>

#include "shca/engine/engine.h"

#define SHCA_CALC_VECTOR_MAX 65536u

enum shca_calc_op {
	SHCA_CALC_ADD, SHCA_CALC_BAND, SHCA_CALC_BXOR, SHCA_CALC_BOR,
	SHCA_CALC_MIN, SHCA_CALC_MAX, SHCA_CALC_PROD, SHCA_CALC_MAXLOC,
};
enum shca_calc_type { SHCA_CALC_INT, SHCA_CALC_UINT, SHCA_CALC_FLOAT };

/* In struct shca_req.arg[0] as one word. */
struct shca_calc {
	uint8_t op, type, size;		/* size: bytes of a value */
	bool vector, host_order;
};
static inline uint64_t shca_calc_word(const struct shca_calc *c)
{
	return c->op | (uint64_t)c->type << 8 | (uint64_t)c->size << 16 | (uint64_t)c->vector << 24 |
	       (uint64_t)c->host_order << 25;
}
static inline struct shca_calc shca_calc_of(uint64_t w)
{
	return (struct shca_calc){.op = (uint8_t)w, .type = (uint8_t)(w >> 8), .size = (uint8_t)(w >> 16),
				  .vector = w >> 24 & 1, .host_order = w >> 25 & 1};
}
/* Returns whether the combination exists. MAXLOC needs elements of 16 bytes; sizes below 8 bytes are for vectors only. */
static inline bool shca_calc_sound(const struct shca_calc *c)
{
	if (c->op > SHCA_CALC_MAXLOC || c->type > SHCA_CALC_FLOAT)
		return false;
	if (c->size != 8 && (!c->vector || c->op == SHCA_CALC_MAXLOC))
		return false;
	return c->size == 8 || c->size == 4 || (c->type != SHCA_CALC_FLOAT && (c->size == 2 || c->size == 1));
}
/* Bytes of an element, which is never divided. */
static inline uint32_t shca_calc_unit(const struct shca_calc *c)
{
	return !c->vector || c->op == SHCA_CALC_MAXLOC ? 16 : c->size;
}

/* Reduces the operands in src: elements in `len` bytes, or vectors of `len` bytes, one a segment. Returns 0 or a negative errno
 * value, src_err then as shca_copy's. *result: 16 or len bytes, in a buffer of the thread, valid until the thread's next CALC. */
int shca_calc(struct shca_thread *thr, uint64_t what, const struct shca_iov *src, uint64_t len, const void **result,
	      bool *src_err);

#endif
