/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which reductions the device can do, by which of its means, and the form that operands have for it.
 *
 *     vector   CALC of vectors in the host's order, libshca's extension: every predefined operation on integers of 8 to 64
 *              bits and on floating point of 32 and 64; sums of complex numbers; MINLOC and MAXLOC.
 *     calc     CALC as the manual has it (appendix D), elements of 16 bytes: SUM of integers, each in an element of its own
 *              (a narrow one in the low bits, where the sum modulo its size is right), and of double; the bitwise and the
 *              logical operations, 8 bytes of elements of whatever width together: the order of bytes is nothing to them.
 *     atomics  extended masked atomics of 8 bytes (appendix B), into an accumulator that is zero before:
 *                SUM   of integers: fetch-and-add with a field boundary at the top bit of every element
 *                BXOR  fetch-and-add with a boundary after every bit: addition without carry
 *                BOR   masked swap of the bits to set, with nothing compared
 *                BAND  BOR of the complements; whoever reads the accumulator complements it
 *
 * Operands of CALC are read when the request runs, so partial sums can be passed on; those of an atomic when it is posted.
 * Logical operations are the bitwise ones on elements that were made 0 or 1.
 */
#ifndef HDL_TASKS_ENCODE_H
#define HDL_TASKS_ENCODE_H

#include <infiniband/verbs_exp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/graph/ops.h"

/* What the device has of it. */
struct hdl_reduce_caps {
	bool vector, atomics;
	struct ibv_exp_device_calc_cap calc;
};

enum hdl_enc_by { HDL_ENC_BY_NONE, HDL_ENC_BY_VECTOR, HDL_ENC_BY_CALC, HDL_ENC_BY_ATOMICS };
enum hdl_enc_atomic { HDL_ENC_ADD, HDL_ENC_SET };
enum hdl_enc_map { HDL_ENC_SAME, HDL_ENC_COMPLEMENT, HDL_ENC_BOOL, HDL_ENC_NOT_BOOL };
/* How elements lie for the device: as in memory; 8 bytes of them in each element of CALC; one in each; a pair as two words of 8. */
enum hdl_enc_form { HDL_ENC_PLAIN, HDL_ENC_WORDS, HDL_ENC_WIDE, HDL_ENC_PAIRS };

struct hdl_enc {
	enum hdl_enc_by means;
	enum hdl_enc_form form;
	enum hdl_enc_map in, out;	/* on the way to the device, and back */
	enum hdl_rep rep;
	size_t esize;			/* of the packed element */
	bool mirrored;			/* of pairs: the values' order is turned round */
	enum ibv_exp_calc_op calc_op;
	enum ibv_exp_calc_data_type calc_type;
	enum ibv_exp_calc_data_size calc_size;
	enum hdl_enc_atomic atomic;
	uint64_t boundary;		/* of ADD */
};

/* Most bytes that the device reduces in one request, as they are for it. */
#define HDL_TASKS_MAX 65536
/* By atomics to rank 0, whose accumulators have this size. */
#define HDL_STAR_MAX 1024
#define HDL_CALC_ELEMENT 16
/* Requests that one hop of a reduction by CALC's elements may have: one for each. */
#define HDL_CALC_REQUESTS 128

/* Whether the device can do op on `bytes` of type; if not, *why says so. */
bool hdl_enc_for(MPI_Op op, const struct hdl_type *type, size_t bytes, const struct hdl_reduce_caps *means, struct hdl_enc *enc,
		 char *why, size_t why_size);
/* Bytes that len bytes of elements have for the device. */
size_t hdl_enc_bytes(const struct hdl_enc *enc, size_t len);
/* dst: hdl_enc_bytes(enc, len). */
void hdl_enc_encode(const struct hdl_enc *enc, void *dst, const void *src, size_t len);
/* The elements, of len bytes, from what the device made. */
void hdl_enc_decode(const struct hdl_enc *enc, void *dst, const void *src, size_t len);
/* The operand of an atomic for the next 8 bytes at src, of which len are data; the rest of the word is not changed by it. */
uint64_t hdl_enc_word(const struct hdl_enc *enc, const void *src, size_t len);
/* What a request of CALC needs of opcode and flags besides its operands. */
static inline void hdl_enc_calc(const struct hdl_enc *enc, struct ibv_exp_send_wr *wr)
{
	wr->exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	if (enc->means == HDL_ENC_BY_VECTOR)
		wr->exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR | SHCA_EXP_SEND_CALC_HOST_ORDER;
	wr->op.calc.calc_op = enc->calc_op;
	wr->op.calc.data_type = enc->calc_type;
	wr->op.calc.data_size = enc->calc_size;
}

#endif
