/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates by active messages, at their target: progress carries the pieces out, in the order in which each origin has sent
 * them (acc_origin.c has the picture).
 */
#include "rma/element.h"
#include "rma/message.h"
#include "rma/operation.h"

#include <stdlib.h>
#include <string.h>

/* A piece at the target that waits for its data, or for an earlier one. */
struct hdl_rma_in {
	struct hdl_rma_in *next;
	struct hdl_win *w;
	struct hdl_target *t;		/* the origin; NULL: the window is gone */
	struct hdl_acc_head head;
	struct hdl_fetch fetch;
	bool ready;
	int error;
	size_t len;
	char data[];
};

static void acc_answer(const struct hdl_acc_head *to, struct hdl_ep *ep, int error, struct hdl_msg *m, size_t bytes)
{
	struct hdl_result_head h = { .cookie = to->cookie, .bytes = to->bytes, .error = error };

	if (!m && !(m = hdl_msg_new(0)))
		hdl_out_of_memory("the answer to an accumulate", sizeof(*m));
	hdl_msg_send(m, ep, HDL_AM_RESULT, HDL_AM_ORDERED, &h, sizeof(h), bytes);
}

/* Checks the pieces of a message, and makes addresses of offsets. Returns an error class. */
static int pieces_check(const struct hdl_rma_in *in, struct hdl_acc_piece *piece)
{
	const struct hdl_win *w = in->w;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < in->head.runs; i++) {
		struct hdl_acc_run r;

		memcpy(&r, in->data + i * sizeof(r), sizeof(r));
		bytes += r.len;
		if (w->dynamic ? !hdl_win_has(w, r.offset, r.len) :
		    r.offset > (uint64_t)w->bytes || r.len > (uint64_t)w->bytes - r.offset)
			return MPI_ERR_RMA_RANGE;
		piece[i] = (struct hdl_acc_piece){ (w->dynamic ? 0 : (uintptr_t)w->base) + r.offset, r.len };
	}
	return bytes == in->head.bytes && bytes <= HDL_PIECE_BYTES + 64 ? MPI_SUCCESS : MPI_ERR_OTHER;
}

/* The pieces are memory of this process that another rank names: an address that the owner has unmapped or protected would be a
 * signal in any call of the owner that makes progress. Returns MPI_ERR_RMA_RANGE, reported, or MPI_SUCCESS. */
static int pieces_reach(const struct hdl_rma_in *in, const struct hdl_acc_piece *piece)
{
	const uint64_t page = 4096;
	bool writes = (MPI_Op)(uintptr_t)in->head.op != MPI_NO_OP;
	uint64_t looked = 0;			/* end of the page that was looked at last */
	char label[MPI_MAX_OBJECT_NAME + 16];

	for (uint32_t i = 0; i < in->head.runs; i++) {
		uint64_t end = piece[i].at + piece[i].len;

		if (!piece[i].len || (piece[i].at >= looked - page && end <= looked))
			continue;
		looked = align_up(end, page);
		if (!hdl_tp_unreachable((void *)(uintptr_t)piece[i].at, piece[i].len, writes))
			continue;
		hdl_error("%llu bytes at %#llx of %s cannot be %s for rank %d: they are unmapped or protected, or beyond the end "
			  "of their file. The operation fails at its origin, and nothing else",
			  (unsigned long long)piece[i].len, (unsigned long long)piece[i].at, hdl_win_label(in->w, label),
			  writes ? "written" : "read", in->head.member);
		return MPI_ERR_RMA_RANGE;
	}
	return MPI_SUCCESS;
}

static void carry_out(struct hdl_rma_in *in)
{
	const struct hdl_acc_head *h = &in->head;
	const struct hdl_type *base = hdl_type_get((MPI_Datatype)(uintptr_t)h->type);
	struct hdl_acc_piece piece[HDL_PIECE_RUNS];
	const char *data = in->data + h->runs * sizeof(struct hdl_acc_run);
	size_t want = h->runs * sizeof(struct hdl_acc_run) + (h->has_data ? h->bytes : 0);
	struct hdl_msg *m = NULL;
	int error = in->error;

	if (!error && (!base || h->runs > HDL_PIECE_RUNS || in->len != want + (h->has_compare && base ? (size_t)base->size : 0)))
		error = MPI_ERR_OTHER;
	if (!error)
		error = pieces_check(in, piece);
	if (!error)
		error = pieces_reach(in, piece);
	if (!error && h->fetch && !(m = hdl_msg_new(h->bytes)))
		error = MPI_ERR_NO_MEM;
	if (!error)
		hdl_acc_here(piece, h->runs, base, (MPI_Op)(uintptr_t)h->op, h->has_data ? data : NULL,
			     h->has_compare ? in->data + want : NULL, m ? m->data : NULL);
	acc_answer(h, in->t->ep, error, m, m ? h->bytes : 0);
}

/* Carries out the pieces of an origin that are ready, in their order. */
static void carry_out_ready(struct hdl_target *t)
{
	struct hdl_rma_in *in;

	while ((in = t->in) && in->ready) {
		t->in = in->next;
		if (!t->in)
			t->in_last = NULL;
		carry_out(in);
		free(in);
	}
}

static void in_fetched(struct hdl_fetch *f, int err)
{
	struct hdl_rma_in *in = container_of(f, struct hdl_rma_in, fetch);

	if (!in->t) {
		free(in);
		return;
	}
	in->ready = true;
	if (err)
		in->error = MPI_ERR_OTHER;
	carry_out_ready(in->t);
}

static void on_acc(void *context, const struct hdl_am *am)
{
	struct hdl_acc_head h = { 0 };
	struct hdl_rma_in *in;
	struct hdl_win *w;

	(void)context;
	memcpy(&h, am->head, am->head_len < sizeof(h) ? am->head_len : sizeof(h));
	w = hdl_msg_window(h.window, h.member, am);
	if (!w || (uint32_t)w->state->nonce != h.nonce) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		acc_answer(&h, am->ep, MPI_ERR_RMA_RANGE, NULL, 0);
		return;
	}
	in = malloc(sizeof(*in) + am->len);
	if (!in)
		hdl_out_of_memory("an accumulate of another rank", sizeof(*in) + am->len);
	*in = (struct hdl_rma_in){ .w = w, .t = hdl_target_of(w, h.member), .head = h, .len = am->len };
	if (!in->t)
		hdl_out_of_memory("a rank of a window", sizeof(*in->t));
	*(in->t->in_last ? &in->t->in_last->next : &in->t->in) = in;
	in->t->in_last = in;
	if (am->data) {
		memcpy(in->data, am->data, am->len);
		in->ready = true;
	} else if (am->rts) {
		in->fetch.done = in_fetched;
		if (hdl_ep_fetch(am->ep, am->rts, in->data, am->len, &in->fetch)) {
			in->ready = true;
			in->error = MPI_ERR_OTHER;
		}
	} else {
		in->ready = true;
	}
	carry_out_ready(in->t);
}

static void in_drop(struct hdl_rma_in *in)
{
	if (in->ready)
		free(in);
	else
		in->t = NULL;	/* in_fetched frees it */
}

void hdl_acc_target_drop(struct hdl_target *t)
{
	struct hdl_rma_in *in;

	while ((in = t->in)) {
		t->in = in->next;
		in_drop(in);
	}
}

void hdl_acc_target_gone(struct hdl_win *w)
{
	for (int r = 0; r < w->size; r++) {
		struct hdl_target *t = w->target[r];
		struct hdl_rma_in *in;

		if (!t || !t->ep)
			continue;
		while ((in = t->in)) {
			struct hdl_acc_head head = in->head;

			t->in = in->next;
			if (!t->in)
				t->in_last = NULL;
			in_drop(in);
			acc_answer(&head, t->ep, MPI_ERR_RMA_RANGE, NULL, 0);
		}
	}
}

int hdl_acc_target_init(void)
{
	return hdl_am_register(hdl_mpi_tp, HDL_AM_ACC, on_acc, NULL);
}
