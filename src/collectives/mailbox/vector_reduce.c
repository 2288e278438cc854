/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reductions through the cells of v-collectives (vector.c). All ranks know all lengths; the host executor runs longer ones.
 * Each rank with a result combines the cells and the input in the order of the ranks when all cells have come, so the operation
 * need not commute. The operation overwrites the right operand: each rank's cell in turn holds the combination so far.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"

/* Offsets of the ranks' parts in the packed vector; at[size] is its end. */
static void vector_reduce_parts_of(const struct hdl_vector_run *x, const struct hdl_vcoll *a, int size,
				   size_t at[HDL_MAILBOX_RANKS + 1])
{
	at[0] = 0;
	for (int r = 0; r < size; r++)
		at[r + 1] = at[r] + (size_t)(a->counts ? a->counts[r] : a->count) * x->reducer.size;
}

void hdl_vector_add_operands(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	size_t at[HDL_MAILBOX_RANKS + 1];
	bool parts = a->coll == HDL_V_REDUCE_SCATTER, prefix = a->coll == HDL_V_SCAN || a->coll == HDL_V_EXSCAN;
	int me = comm->rank;

	if (parts)
		vector_reduce_parts_of(x, a, comm->size, at);
	x->own_bytes = parts ? at[me + 1] - at[me] : hdl_vcoll_block_bytes(&a->in[0]);
	for (int k = 1; k < comm->size; k++) {
		int peer = (me + k) % comm->size;
		bool gives = a->coll == HDL_V_REDUCE ? peer == a->root : !prefix || peer > me;
		bool gets = a->coll == HDL_V_REDUCE ? me == a->root : !prefix || peer < me;
		struct vblock *p;

		if (gives) {
			p = hdl_vblock_add(x, true, &a->in[0], peer, 0);
			p->in_cell = true;
			p->skip = parts ? at[peer] : 0;
			p->bytes = parts ? at[peer + 1] - at[peer] : x->own_bytes;
		}
		if (gets) {
			p = hdl_vblock_add(x, false, &a->in[0], peer, 0);
			p->in_cell = true;
			p->bytes = x->own_bytes;
		}
	}
}

bool hdl_vector_copy_operand(struct hdl_vector_run *x, const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	size_t at[HDL_MAILBOX_RANKS + 1] = { 0 }, bytes;

	x->unpack_off = (x->own_bytes + 63) & ~(size_t)63;
	bytes = x->unpack_off + (x->reducer.unpacks ? 2 * x->reducer.unpack_bytes : 0) + 64;
	if (bytes > x->own_cap) {
		free(x->own);
		x->own = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
		x->own_cap = x->own ? bytes : 0;
	}
	if (!x->own)
		return false;
	if (a->coll == HDL_V_REDUCE_SCATTER)
		vector_reduce_parts_of(x, a, comm->size, at);
	if (x->own_bytes)
		hdl_pack(x->own, a->in[0].buf, a->in[0].count, a->in[0].type, (MPI_Count)at[comm->rank], x->own_bytes);
	return true;
}

void hdl_vector_reduce(struct hdl_run *run)
{
	struct hdl_vector_run *x = run->vector;
	const struct hdl_vcoll_block *out = x->a.out;
	char *operand[HDL_MAILBOX_RANKS] = { NULL }, *sum = NULL, *to;
	const char *end;

	for (const struct vblock *p = x->recvs, *last = p + x->nrecvs; p < last; p++) {
		hdl_cell_word(run, x->prog, p->peer, &end);
		operand[p->peer] = (char *)end - p->bytes;
	}
	if (x->a.coll != HDL_V_EXSCAN)
		operand[run->comm->rank] = x->own;
	for (int r = 0; r < run->comm->size && x->own_bytes; r++) {
		if (!operand[r])
			continue;
		if (sum)
			hdl_reducer_apply(&x->reducer, sum, operand[r], x->own_bytes, x->own + x->unpack_off);
		sum = operand[r];
	}
	if (!sum || !x->a.nout)
		return;
	to = hdl_vblock_run(out);
	if (to)
		memcpy(to, sum, x->own_bytes);
	else
		hdl_unpack((void *)out->buf, sum, out->count, out->type, 0, x->own_bytes);
}
