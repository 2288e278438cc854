/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal header of tasks/: reductions by the device (encode.c), and task lists (compile.c, post.c).
 *
 * The reductions that the device can do, by which of its features, and the form that operands must have.
 *
 *     vector   CALC on vectors in host byte order, libshca's extension: every predefined operation on integers of 8 to 64
 *              bits and floating point of 32 and 64 bits; sums of complex numbers; MINLOC and MAXLOC.
 *     calc     CALC as the manual has it (appendix D), elements of 16 bytes: SUM of integers, one per element (a narrow
 *              integer in the low bits, where the sum modulo its size is right), and of double; bitwise and logical
 *              operations, 8 bytes of operands of any width per element: they do not depend on byte order.
 *     atomics  extended masked atomics of 8 bytes (appendix B), into an accumulator that is zero before:
 *                SUM   of integers: fetch-and-add with a field boundary at the top bit of every element
 *                BXOR  fetch-and-add with a boundary after every bit: addition without carry
 *                BOR   masked swap of the bits to set, with nothing compared
 *                BAND  BOR of the complements; the reader of the accumulator complements it
 *
 * The operands of CALC are read when the request runs, so a rank can pass partial results on; an atomic's operand is read when
 * the request is posted. Logical operations are the bitwise ones on elements that were converted to 0 or 1.
 */
#ifndef HDL_TASKS_H
#define HDL_TASKS_H

#include <infiniband/verbs_exp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/graph/graph.h"

/* The device's features for reductions. */
struct hdl_reduce_caps {
	bool vector, atomics;
	struct ibv_exp_device_calc_cap calc;
};

enum hdl_enc_by { HDL_ENC_BY_NONE, HDL_ENC_BY_VECTOR, HDL_ENC_BY_CALC, HDL_ENC_BY_ATOMICS };
enum hdl_enc_atomic { HDL_ENC_ADD, HDL_ENC_SET };
enum hdl_enc_map { HDL_ENC_SAME, HDL_ENC_COMPLEMENT, HDL_ENC_BOOL, HDL_ENC_NOT_BOOL };
/* Layout of elements for the device: PLAIN as in memory; WORDS 8 bytes of data in each CALC element; WIDE one data element in
 * each; PAIRS value and index as two words of 8 bytes. */
enum hdl_enc_form { HDL_ENC_PLAIN, HDL_ENC_WORDS, HDL_ENC_WIDE, HDL_ENC_PAIRS };

struct hdl_enc {
	enum hdl_enc_by by;
	enum hdl_enc_form form;
	enum hdl_enc_map in, out;	/* conversion before and after the reduction */
	enum hdl_rep rep;
	size_t esize;			/* bytes of the packed element */
	bool mirrored;			/* MINLOC: values are converted so that their order is reversed, and the device does
					 * MAXLOC */
	enum ibv_exp_calc_op calc_op;
	enum ibv_exp_calc_data_type calc_type;
	enum ibv_exp_calc_data_size calc_size;
	enum hdl_enc_atomic atomic;
	uint64_t boundary;		/* ADD: a bit at the top of each field */
};

/* Largest operand of one request, bytes in the device's form. */
#define HDL_TASKS_MAX 65536
/* Bytes of rank 0's accumulator (masked atomics). */
#define HDL_STAR_MAX 1024
#define HDL_CALC_ELEMENT 16
/* Most requests that one hop of a reduction by CALC elements may take: one per element. */
#define HDL_CALC_REQUESTS 128

/* Chooses the form for op on `bytes` of type. Returns false, with the reason in `why`, if the device cannot reduce them. */
bool hdl_enc_for(MPI_Op op, const struct hdl_type *type, size_t bytes, const struct hdl_reduce_caps *caps, struct hdl_enc *enc,
		 char *why, size_t why_size);
/* Bytes in the device's form of `len` bytes of packed elements. */
size_t hdl_enc_bytes(const struct hdl_enc *enc, size_t len);
/* Must: dst has hdl_enc_bytes(enc, len) bytes. */
void hdl_enc_encode(const struct hdl_enc *enc, void *dst, const void *src, size_t len);
/* Writes `len` bytes of packed elements from the device's form. */
void hdl_enc_decode(const struct hdl_enc *enc, void *dst, const void *src, size_t len);
/* The operand of an atomic for the next 8 bytes at src, of which `len` are data; the operation leaves the rest of the word
 * unchanged. */
uint64_t hdl_enc_word(const struct hdl_enc *enc, const void *src, size_t len);
/* Sets opcode and flags of a request with CALC; the caller sets the operands. */
static inline void hdl_enc_calc(const struct hdl_enc *enc, struct ibv_exp_send_wr *wr)
{
	wr->exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	if (enc->by == HDL_ENC_BY_VECTOR)
		wr->exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR | SHCA_EXP_SEND_CALC_HOST_ORDER;
	wr->op.calc.calc_op = enc->calc_op;
	wr->op.calc.data_type = enc->calc_type;
	wr->op.calc.data_size = enc->calc_size;
}

/* ---- compiled task lists (compile.c) --------------------------------------------------------------------------------------- */

struct hdl_coll_link;
struct hdl_coll_prog;
struct hdl_plan;
struct hdl_queues;
struct hdl_slot_region;

enum hdl_step_kind { HDL_STEP_ACCUM, HDL_STEP_PUT, HDL_STEP_WAIT, HDL_STEP_ENABLE };

/* The part of a request that is filled in before each post. */
struct hdl_task_step {
	uint8_t kind, src_space, dst_space;
	int peer;
	struct hdl_coll_link *link;	/* link on which the request is posted; WAIT: link whose arrival is awaited */
	size_t src_off, dst_off, len, stride;
	uint16_t nsrc;			/* PUT: sources */
	bool arrives;			/* PUT: with an arrival at the peer */
	bool stamps;			/* PUT: writes stamps, combined by AND */
	uint32_t count;			/* ENABLE: number of requests */
};

struct hdl_task_use {
	struct hdl_coll_link *link;
	uint32_t wrs;			/* requests of one operation */
	struct ibv_exp_send_wr *last;	/* the last of these requests */
	bool reads_slot;		/* some of these requests read the slot when they run: the operation retires after them */
};

/* Compiles the graph of a collective of `bytes` bytes for this communicator's queues. Returns NULL with errno; EOPNOTSUPP: the
 * device cannot run a graph of this shape by itself. */
struct hdl_coll_prog *hdl_task_compile(struct hdl_queues *h, const struct hdl_graph *g, size_t bytes, const struct hdl_enc *enc,
				     bool synchronizes);
/* The same for a persistent operation on mailbox, whose cells lie in `region`. */
struct hdl_coll_prog *hdl_mailbox_compile_at(struct hdl_queues *h, const struct hdl_graph *g,
					     const struct hdl_slot_region *region);

/* Compiles the slot barrier of a class of slots for tasks. Returns NULL with errno. */
struct hdl_coll_prog *hdl_slot_barrier_compile(struct hdl_queues *h, const struct hdl_plan *plan, uint8_t class);
/* Returns the index of the region that must exist before the plan's operations are compiled. */
int hdl_task_region_of(const struct hdl_queues *h, const struct hdl_plan *plan);

/* ---- task lists under way (post.c) -------------------------------------------------------------------- */

/* Posts n receives. Returns 0 or a negative errno. */
int hdl_link_post_recvs(struct hdl_coll_link *l, uint64_t n);
/* Returns true if exactly the arrivals that the operations posted here expect on the link are there. */
bool hdl_link_has_arrived(struct hdl_queues *h, struct hdl_coll_link *l);

#endif
