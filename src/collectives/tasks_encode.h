/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which reductions an extended masked atomic of 8 bytes can do, and how (manual, appendix B):
 *
 *     SUM   of integers: fetch-and-add with a field boundary at the top bit of every element
 *     BXOR  fetch-and-add with a boundary after every bit: addition without carry
 *     BOR   masked swap of the bits to set, with nothing compared
 *     BAND  BOR of the complements; whoever reads the accumulator complements it
 *     LXOR, LOR, LAND  the same on elements that were made 0 or 1
 *
 * The accumulator starts as zero for all of them.
 */
#ifndef HDL_TASKS_ENCODE_H
#define HDL_TASKS_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/ops.h"

enum hdl_enc_atomic { HDL_ENC_ADD, HDL_ENC_SET };
enum hdl_enc_map { HDL_ENC_SAME, HDL_ENC_COMPLEMENT, HDL_ENC_BOOL, HDL_ENC_NOT_BOOL };

struct hdl_enc {
	enum hdl_enc_atomic atomic;
	uint64_t boundary;		/* of ADD */
	enum hdl_enc_map in, out;	/* on the way into the accumulator, and out of it */
	size_t esize;
};

/* Whether the device's masked atomics can do op on type; if not, *why says so (static text or in buf). */
bool hdl_enc_for(MPI_Op op, const struct hdl_type *type, struct hdl_enc *enc, char *why, size_t why_size);
/* The operand for the next 8 bytes at src, of which len are data; the rest of the word is not changed by it. */
uint64_t hdl_enc_word(const struct hdl_enc *enc, const void *src, size_t len);
/* The value of len bytes of accumulator. */
void hdl_enc_decode(const struct hdl_enc *enc, void *dst, const void *acc, size_t len);

#endif
