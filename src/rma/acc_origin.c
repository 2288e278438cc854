/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates by active messages, at their origin:
 *
 *     origin                                    target
 *     queue of the target's accumulates ─ ACC ─▶ queue of the origin's pieces: in order, also those whose data is announced and
 *       up to WINDOW pieces under way, of        has to be fetched first
 *       one accumulate or several
 *     next piece ◀──────────────────── RESULT ─┘
 *
 * Pieces of one accumulate, and accumulates of one origin, leave and are carried out in the order of the calls. The handler
 * updates memory in progress, where one thread at a time is: so all accumulates of a member's memory are atomic towards each
 * other. That includes those of the member itself, which call hdl_acc_here without a message.
 */
#include "rma/element.h"
#include "rma/message.h"
#include "rma/operation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW		16		/* messages of accumulates under way to one target */

/* An accumulate at its origin. */
struct hdl_rma_out {
	struct hdl_object obj;
	struct hdl_rma_out *next;
	struct hdl_win *w;
	struct hdl_target *t;
	struct hdl_rma_group *g;
	MPI_Op op;
	const struct hdl_type *base;
	struct hdl_type *type, *target_type, *result_type;	/* with references */
	struct hdl_stream *in, *out, *at;	/* NULL: none */
	uint64_t left;			/* bytes that are to be sent */
	int messages;			/* under way */
	int error;
	bool fetch, has_compare;
	struct result_in *results;	/* that wait for their data, or for an earlier one: in the order of the pieces */
	char compare[32], small[32];	/* small: the origin's element of Fetch_and_op and Compare_and_swap, copied here, since
					 * the program may reuse its buffer when the call returns */
};
#define MAGIC_OUT 0x48524f55u

/* An answer that waits. Ownership: the accumulate's; while its data is being fetched, the transport's. */
struct result_in {
	struct result_in *next;
	struct hdl_rma_out *of;		/* NULL: the accumulate has ended with an error */
	struct hdl_fetch fetch;
	struct hdl_result_head head;
	bool ready;
	size_t len;
	char data[];
};
static struct hdl_pool outs = HDL_POOL(struct hdl_rma_out, 16);

static void acc_out_free(struct hdl_rma_out *o)
{
	while (o->results) {
		struct result_in *in = o->results;

		o->results = in->next;
		if (in->ready)
			free(in);
		else
			in->of = NULL;	/* result_fetched frees it */
	}
	if (o->type)
		hdl_type_release(o->type);
	if (o->target_type)
		hdl_type_release(o->target_type);
	if (o->result_type)
		hdl_type_release(o->result_type);
	free(o->in);
	free(o->out);
	free(o->at);
	hdl_pool_put(&outs, o);
}

static struct hdl_stream *acc_stream_new(const void *buf, MPI_Count count, const struct hdl_type *type, struct hdl_type **held)
{
	struct hdl_stream *s = malloc(hdl_stream_bytes(type));

	if (!s)
		return NULL;
	hdl_stream_open(s, buf, count, type, 0);
	*held = (struct hdl_type *)(uintptr_t)type;
	hdl_type_retain(*held);
	return s;
}

/* Sends the next piece of an accumulate: whole elements. Returns 0 or a negative errno. */
static int acc_out_send(struct hdl_rma_out *o)
{
	struct hdl_target *t = o->t;
	size_t element = (size_t)o->base->size, most = HDL_PIECE_BYTES / element * element, got = 0, part;
	struct hdl_acc_run runs[HDL_PIECE_RUNS];
	struct hdl_acc_head h = { .window = o->w->record[t->rank].window, .cookie = (uintptr_t)o, .member = o->w->rank,
			      .nonce = (uint32_t)o->w->record[t->rank].nonce, .op = (uint32_t)(uintptr_t)o->op,
			      .type = (uint32_t)(uintptr_t)hdl_type_handle(o->base),
			      .has_data = o->in != NULL, .has_compare = o->has_compare, .fetch = o->fetch };
	struct hdl_msg *m;
	void *run;
	char *to;
	int r;

	if (most > o->left)
		most = o->left;
	/* the room for runs may end in the middle of an element with holes: such a piece ends before it */
	while (got < most && h.runs < HDL_PIECE_RUNS - 4) {
		part = hdl_stream_next(o->at, most - got, &run);
		runs[h.runs++] = (struct hdl_acc_run){ (uintptr_t)run, part };
		got += part;
	}
	while (got % element) {
		part = hdl_stream_next(o->at, element - got % element, &run);
		runs[h.runs++] = (struct hdl_acc_run){ (uintptr_t)run, part };
		got += part;
	}
	h.bytes = got;
	m = hdl_msg_new(h.runs * sizeof(runs[0]) + (h.has_data ? got : 0) + (h.has_compare ? element : 0));
	if (!m)
		return -ENOMEM;
	to = mempcpy(m->data, runs, h.runs * sizeof(runs[0]));
	if (h.has_data)
		to += hdl_stream_pack(o->in, to, got);
	if (h.has_compare)
		to = mempcpy(to, o->compare, element);
	o->left -= got;
	o->messages++;
	t->messages++;
	r = hdl_msg_send(m, t->ep, HDL_AM_ACC, HDL_AM_ORDERED, &h, sizeof(h), (size_t)(to - m->data));
	if (!r)
		return 0;
	o->messages--;
	t->messages--;
	return r;
}

static void out_end(struct hdl_rma_out *o)
{
	struct hdl_target *t = o->t;

	t->out = o->next;
	if (!t->out)
		t->out_last = NULL;
	t->messages -= o->messages;
	hdl_rma_part_ended(t, o->g, o->error);
	acc_out_free(o);
}

static void pump_turn(struct hdl_target *t)
{
	struct hdl_rma_out *o;

	for (o = t->out; o && !o->left; o = o->next)
		;
	while (o && t->messages < WINDOW) {
		int r = acc_out_send(o);

		if (r) {
			o->error = hdl_class_of(-r);
			o->left = 0;
		}
		if (r && r != -ENOMEM) {
			/* the peer has failed, and answers no piece any more */
			t->messages -= o->messages;
			o->messages = 0;
		}
		while (o && !o->left)
			o = o->next;
	}
	while ((o = t->out) && !o->messages && !o->left)
		out_end(o);
}

/*
 * Sends what the window of messages allows, and ends accumulates that are complete. A send may take arrivals in, whose handlers
 * come here again; they leave the sending to the call that is sending, since pieces must leave in their order:
 *     1. acc_out_send takes piece 2 from the stream, and hdl_am_send takes in the answer to piece 0
 *     2. on_result would send piece 3 here, ahead of piece 2
 */
static void pump(struct hdl_target *t)
{
	if (t->pumping)
		return;
	t->pumping = true;
	pump_turn(t);
	t->pumping = false;
	if (unlikely(t->pump_failed))
		hdl_acc_origin_fail(t);
}

/* The accumulate that an answer of this peer names; NULL: none. */
static struct hdl_rma_out *out_of(uint64_t cookie, const struct hdl_ep *ep)
{
	struct hdl_rma_out *o = hdl_pool_find(&outs, (void *)(uintptr_t)cookie, MAGIC_OUT, sizeof(*o));

	return o && o->t->ep == ep && o->messages ? o : NULL;
}

static void result_take(struct hdl_rma_out *o, const void *data, size_t len, int error)
{
	if (!error && o->fetch)
		hdl_stream_unpack(o->out, data, len);
	if (error && !o->error) {
		o->error = error;
		o->left = 0;
	}
	o->messages--;
	o->t->messages--;
	pump(o->t);
}

/*
 * Takes the answers that are ready, in the order of the pieces: `out` is one stream. Out of that order:
 *     1. The target carries out a piece of 8 KiB and one of 1 KiB, and answers both with the old values.
 *     2. The first answer exceeds HEDDLE_EAGER_MAX with its head: it is announced, and this process fetches it.
 *     3. The second one comes eagerly meanwhile, and would be unpacked where the first one belongs.
 */
static void results_take(struct hdl_rma_out *o)
{
	struct result_in *in;

	while ((in = o->results) && in->ready) {
		o->results = in->next;
		result_take(o, in->data, in->len, in->head.error);
		free(in);
		if (!hdl_pool_find(&outs, o, MAGIC_OUT, sizeof(*o)))
			return;		/* that was the last one */
	}
}

static void result_fetched(struct hdl_fetch *f, int err)
{
	struct result_in *in = container_of(f, struct result_in, fetch);

	if (!in->of) {
		free(in);
		return;
	}
	in->ready = true;
	if (err)
		in->head.error = MPI_ERR_OTHER;
	results_take(in->of);
}

static void on_result(void *context, const struct hdl_am *am)
{
	struct hdl_result_head h = { 0 };
	struct result_in *in, **last;
	struct hdl_rma_out *o;

	(void)context;
	memcpy(&h, am->head, am->head_len < sizeof(h) ? am->head_len : sizeof(h));
	o = out_of(h.cookie, am->ep);
	if (!o) {
		hdl_error("%s answers an accumulate that does not exist", hdl_proc_text(hdl_ep_note(am->ep)->rank));
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		return;
	}
	if (!am->rts && !o->results) {
		result_take(o, am->data, am->len, h.error);
		return;
	}
	in = malloc(sizeof(*in) + am->len);
	if (!in)
		hdl_out_of_memory("the answer to an accumulate", sizeof(*in) + am->len);
	*in = (struct result_in){ .of = o, .head = h, .len = am->len, .ready = !am->rts };
	for (last = &o->results; *last; last = &(*last)->next)
		;
	*last = in;
	if (!am->rts) {
		if (am->len)
			memcpy(in->data, am->data, am->len);
		return;
	}
	in->fetch.done = result_fetched;
	in->fetch.ep = am->ep;
	if (hdl_ep_fetch(am->ep, am->rts, in->data, am->len, &in->fetch))
		result_fetched(&in->fetch, -EIO);
}

void hdl_acc_origin_fail(struct hdl_target *t)
{
	struct hdl_rma_out *o;

	t->pump_failed = t->pumping;	/* then pump, which holds an accumulate, calls again */
	if (t->pumping)
		return;
	while ((o = t->out)) {
		o->error = MPI_ERR_PROC_ABORTED;
		out_end(o);
	}
}

/* An accumulate of this process on its own memory, by the handler's rules. */
static int to_self(struct hdl_win *w, const struct hdl_acc_args *a, const struct hdl_type *base, const void *compare,
		   int64_t offset)
{
	size_t element = (size_t)base->size, left = (size_t)a->at.target_count * (size_t)a->at.target_type->size;
	void *mem = (void *)(w->dynamic ? (uintptr_t)offset : (uintptr_t)w->base + (uint64_t)offset), *run;
	struct hdl_stream *s[3] = { NULL };
	struct hdl_type *held[3] = { NULL };
	char in[HDL_PIECE_BYTES + 64], out[HDL_PIECE_BYTES + 64], packed[32];
	struct hdl_acc_piece piece[16];
	int rc = MPI_SUCCESS;

	if (compare)
		hdl_pack(packed, compare, 1, base, 0, element);
	s[0] = acc_stream_new(mem, a->at.target_count, a->at.target_type, &held[0]);
	if (a->op != MPI_NO_OP)
		s[1] = acc_stream_new(a->at.buf, a->at.count, a->at.type, &held[1]);
	if (a->fetch)
		s[2] = acc_stream_new(a->result, a->result_count, a->result_type, &held[2]);
	if (!s[0] || (a->op != MPI_NO_OP && !s[1]) || (a->fetch && !s[2]))
		rc = hdl_rma_no_memory("an accumulate");
	while (left && !rc) {
		size_t most = HDL_PIECE_BYTES / element * element, got = 0, part;
		unsigned n = 0;

		while (got < most && n < 12 && (part = hdl_stream_next(s[0], most - got, &run))) {
			piece[n++] = (struct hdl_acc_piece){ (uintptr_t)run, part };
			got += part;
		}
		while (got % element && (part = hdl_stream_next(s[0], element - got % element, &run))) {
			piece[n++] = (struct hdl_acc_piece){ (uintptr_t)run, part };
			got += part;
		}
		if (s[1])
			hdl_stream_pack(s[1], in, got);
		hdl_acc_here(piece, n, base, a->op, s[1] ? in : NULL, compare ? packed : NULL, a->fetch ? out : NULL);
		if (s[2])
			hdl_stream_unpack(s[2], out, got);
		left -= got;
	}
	for (int i = 0; i < 3; i++) {
		free(s[i]);
		if (held[i])
			hdl_type_release(held[i]);
	}
	return rc;
}

int hdl_rma_msg_accumulate(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const void *compare,
			   int64_t offset, struct hdl_rma_group *g)
{
	const struct hdl_type *base = hdl_type_base(a->at.target_type);
	const void *from = a->at.buf;
	struct hdl_rma_out *o;
	bool good;

	if (!base)		/* put and get of a mixed type */
		base = hdl_type_get(MPI_BYTE);
	if (t->rank == w->rank)
		return to_self(w, a, base, compare, offset);
	o = hdl_pool_take(&outs);
	if (!o)
		return hdl_rma_no_memory("an accumulate");
	*o = (struct hdl_rma_out){ .obj = { MAGIC_OUT, 1 }, .w = w, .t = t, .g = g, .op = a->op, .base = base, .fetch = a->fetch,
				   .has_compare = compare != NULL,
				   .left = (uint64_t)a->at.target_count * (uint64_t)a->at.target_type->size };
	if (compare)
		hdl_pack(o->compare, compare, 1, base, 0, (size_t)base->size);
	if (a->op != MPI_NO_OP && a->at.count == 1 && hdl_type_is_named(a->at.type) &&
	    (size_t)a->at.type->true_extent <= sizeof(o->small)) {
		memcpy(o->small, from, (size_t)a->at.type->true_extent);	/* the padding behind may be another mapping's */
		from = o->small;
	}
	o->at = acc_stream_new((void *)(uintptr_t)offset, a->at.target_count, a->at.target_type, &o->target_type);
	good = o->at;
	if (a->op != MPI_NO_OP)
		good &= (o->in = acc_stream_new(from, a->at.count, a->at.type, &o->type)) != NULL;
	if (a->fetch)
		good &= (o->out = acc_stream_new(a->result, a->result_count, a->result_type, &o->result_type)) != NULL;
	if (!good) {
		acc_out_free(o);
		return hdl_rma_no_memory("an accumulate");
	}
	*(t->out_last ? &t->out_last->next : &t->out) = o;
	t->out_last = o;
	t->pending++;
	if (g)
		g->parts++;
	pump(t);
	return MPI_SUCCESS;
}

void hdl_acc_origin_drop(struct hdl_target *t)
{
	struct hdl_rma_out *o;

	while ((o = t->out)) {
		t->out = o->next;
		acc_out_free(o);
	}
}

int hdl_acc_origin_init(void)
{
	return hdl_am_register(hdl_mpi_tp, HDL_AM_RESULT, on_result, NULL);
}
