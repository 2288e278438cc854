/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages of windows:
 *
 *     WAKE       ends a sleep of the receiver: a store into its state block was made (mapped windows)
 *     SYNC       posted, completed, lock, unlock, granted: windows whose members do not map each other's state blocks
 *     ACC        a piece of an accumulate: whole elements; the target's progress carries it out
 *     RESULT     the answer to ACC, with the old values if they were asked for
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
#include "rma/rma.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Handlers' numbers. Those below HDL_AM_OWN are the transport's, the next 16 are p2p's (p2p/partitioned.h). */
enum { AM_WAKE = HDL_AM_OWN + 16, AM_SYNC, AM_ACC, AM_RESULT };

#define PIECE_BYTES	8192u		/* data of a message, at most (and one element) */
#define PIECE_RUNS	256u
#define WINDOW		16		/* messages of accumulates under way to one target */

struct sync_head {
	uint64_t window;		/* the receiver's struct hdl_win */
	uint64_t nonce;			/* of the receiver's state block */
	uint64_t value;			/* HDL_SYNC_LOCK, HDL_SYNC_LOCK_SHARED: the sender's struct hdl_win */
	int32_t member;			/* the sender's rank in the window */
	uint32_t what;			/* enum hdl_rma_sync */
	int32_t receiver;		/* the receiver's rank in the window */
	uint32_t reserved;
};

struct acc_head {
	uint64_t window, cookie;	/* cookie: the origin's struct hdl_rma_out */
	uint64_t bytes;			/* packed bytes of the elements */
	int32_t member;
	uint32_t runs;
	uint32_t op, type;		/* handles of predefined objects, which are numbers of the ABI */
	uint8_t has_data, has_compare, fetch, bytewise;
	uint32_t nonce;			/* the lower half of that of the receiver's state block */
};
struct result_head {
	uint64_t window, cookie, bytes;
	int32_t error;
	uint32_t reserved;
};
_Static_assert(sizeof(struct sync_head) <= HDL_AM_HEAD_MAX && sizeof(struct acc_head) <= HDL_AM_HEAD_MAX &&
	       sizeof(struct result_head) <= HDL_AM_HEAD_MAX, "fits a head");

/* A message that leaves. */
struct msg {
	struct hdl_am_send am;
	char data[];
};

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
	char compare[32], small[32];	/* small: the origin's element of Fetch_and_op and Compare_and_swap, whose buffer is the
					 * program's again when the call returns only if it is copied */
};
#define MAGIC_OUT 0x48524f55u

/* An answer that waits. Ownership: the accumulate's; while its data is being fetched, the transport's. */
struct result_in {
	struct result_in *next;
	struct hdl_rma_out *of;		/* NULL: the accumulate has ended with an error */
	struct hdl_fetch fetch;
	struct result_head head;
	bool ready;
	size_t len;
	char data[];
};
static struct hdl_pool outs = HDL_POOL(struct hdl_rma_out, 16);

/* A piece at the target that waits for its data, or for an earlier one. */
struct hdl_rma_in {
	struct hdl_rma_in *next;
	struct hdl_win *w;
	struct hdl_target *t;		/* the origin; NULL: the window is gone */
	struct acc_head head;
	struct hdl_fetch fetch;
	bool ready;
	int error;
	size_t len;
	char data[];
};

/* ---- leaving ------------------------------------------------------------------------------------------------------- */

static void msg_done(struct hdl_send *s, int err)
{
	(void)err;	/* the peer has failed: waits for it end by that */
	free(container_of(container_of(s, struct hdl_am_send, send), struct msg, am));
}

static struct msg *msg_new(size_t bytes)
{
	struct msg *m = malloc(sizeof(*m) + bytes);

	if (m)
		m->am.send.done = msg_done;
	return m;
}

static int msg_send(struct msg *m, struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len,
		    size_t bytes)
{
	int r = hdl_am_send(ep, id, flags, head, head_len, bytes ? m->data : NULL, bytes, &m->am);

	if (r)
		free(m);
	return r < 0 ? r : 0;
}

void hdl_rma_wake(struct hdl_win *w, struct hdl_target *t)
{
	struct msg *m;

	(void)w;
	if (!t->ep || !t->state || !__atomic_load_n(&t->state->asleep, __ATOMIC_SEQ_CST))
		return;
	if (!(m = msg_new(0)))
		hdl_out_of_memory("waking a rank that waits for a window", sizeof(*m));
	msg_send(m, t->ep, AM_WAKE, 0, NULL, 0, 0);
}

static void on_wake(void *context, const struct hdl_am *am)
{
	(void)context;
	(void)am;
}

int hdl_rma_msg_sync(struct hdl_win *w, struct hdl_target *t, enum hdl_rma_sync what, uint64_t value)
{
	struct sync_head h = { .window = w->record[t->rank].window, .nonce = w->record[t->rank].nonce, .value = value,
			       .member = w->rank, .what = what, .receiver = t->rank };
	struct msg *m = msg_new(0);

	if (!m)
		return -ENOMEM;
	return msg_send(m, t->ep, AM_SYNC, HDL_AM_ORDERED, &h, sizeof(h), 0);
}

static struct hdl_win *window_of(uint64_t window, int member, const struct hdl_am *am)
{
	struct hdl_win *w = hdl_win_get((MPI_Win)(uintptr_t)window);

	if (w && member >= 0 && member < w->size && hdl_comm_proc(w->comm, member) == hdl_ep_note(am->ep)->rank)
		return w;
	hdl_error("%s sent a message for a window that does not exist here: was it freed while an operation was under way?",
		  hdl_proc_text(hdl_ep_note(am->ep)->rank));
	return NULL;
}

/*
 * Whether a message is the unlock of a window that is gone. HDL_SYNC_UNLOCK has no answer, so
 * MPI_Win_free may end before it comes:
 *     1. Rank 0 unlocks rank 3: HDL_SYNC_UNLOCK waits behind other messages for room. MPI_Win_free: the
 *        barrier ends by way of rank 1
 *     2. Rank 3 frees the window, and makes a new one, whose struct hdl_win has the same address
 *     3. HDL_SYNC_UNLOCK comes, and would release a lock of the new window. Its nonce is the old window's
 */
static bool is_late_unlock(const struct sync_head *h)
{
	const struct hdl_win *w = h->what == HDL_SYNC_UNLOCK ? hdl_win_get((MPI_Win)(uintptr_t)h->window) : NULL;

	return h->what == HDL_SYNC_UNLOCK && (!w || w->state->nonce != h->nonce);
}

/*
 * Answers the request for a lock of a window that is gone. MPI_Win_free waits for all members, unless one has failed:
 *
 *     1. Rank 2 fails. Rank 0 calls MPI_Win_free, whose barrier ends with MPI_ERR_PROC_ABORTED
 *     2. Rank 1 locks rank 0, and would wait for ever: the owner lives, and no longer knows the window
 */
static void say_gone(const struct sync_head *h, const struct hdl_am *am)
{
	struct sync_head answer = { .window = h->value, .member = h->receiver, .what = HDL_SYNC_GONE, .receiver = h->member };
	struct msg *m = msg_new(0);

	if (!m)
		hdl_out_of_memory("an answer for a window that is gone", sizeof(*m));
	msg_send(m, am->ep, AM_SYNC, HDL_AM_ORDERED, &answer, sizeof(answer), 0);
}

static void on_sync(void *context, const struct hdl_am *am)
{
	struct sync_head h = { 0 };
	struct hdl_target *t;
	struct hdl_win *w;

	(void)context;
	memcpy(&h, am->head, am->head_len < sizeof(h) ? am->head_len : sizeof(h));
	if (is_late_unlock(&h))
		return;
	w = window_of(h.window, h.member, am);
	if (!w || (h.what != HDL_SYNC_GONE && w->state->nonce != h.nonce)) {
		if (h.what == HDL_SYNC_LOCK || h.what == HDL_SYNC_LOCK_SHARED)
			say_gone(&h, am);
		return;
	}
	if (!(t = hdl_target_of(w, h.member)))
		hdl_out_of_memory("a rank of a window", sizeof(*t));
	switch ((enum hdl_rma_sync)h.what) {
	case HDL_SYNC_POSTED:
		w->state->member[h.member].posted++;
		break;
	case HDL_SYNC_COMPLETED:
		w->state->member[h.member].completed++;
		break;
	case HDL_SYNC_LOCK:
	case HDL_SYNC_LOCK_SHARED:
		hdl_lock_asked(w, t, h.what == HDL_SYNC_LOCK);
		break;
	case HDL_SYNC_UNLOCK:
		hdl_lock_given_back(w, t);
		break;
	case HDL_SYNC_GRANTED:
		t->granted = true;
		break;
	case HDL_SYNC_REFUSED:
		t->refused = (int)h.value;
		break;
	case HDL_SYNC_GONE:
		t->refused = HDL_REFUSED_GONE;
		break;
	}
}

/* ---- accumulates: origin ------------------------------------------------------------------------------------------- */

static void out_free(struct hdl_rma_out *o)
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

static struct hdl_stream *stream_new(const void *buf, MPI_Count count, const struct hdl_type *type, struct hdl_type **held)
{
	struct hdl_stream *s = malloc(hdl_stream_bytes(type));

	if (!s)
		return NULL;
	hdl_stream_open(s, buf, count, type, 0);
	*held = (struct hdl_type *)(uintptr_t)type;
	hdl_type_retain(*held);
	return s;
}

struct run {
	uint64_t offset, len;		/* offset: from the target's base; dynamic: address */
};

/* Sends the next piece of an accumulate: whole elements. Returns 0 or a negative errno. */
static int out_send(struct hdl_rma_out *o)
{
	struct hdl_target *t = o->t;
	size_t element = (size_t)o->base->size, most = PIECE_BYTES / element * element, got = 0, part;
	struct run runs[PIECE_RUNS];
	struct acc_head h = { .window = o->w->record[t->rank].window, .cookie = (uintptr_t)o, .member = o->w->rank,
			      .nonce = (uint32_t)o->w->record[t->rank].nonce, .op = (uint32_t)(uintptr_t)o->op,
			      .type = (uint32_t)(uintptr_t)hdl_type_handle(o->base),
			      .has_data = o->in != NULL, .has_compare = o->has_compare, .fetch = o->fetch };
	struct msg *m;
	void *run;
	char *to;
	int r;

	if (most > o->left)
		most = o->left;
	/* the room for runs may end in the middle of an element with holes: such a piece ends before it */
	while (got < most && h.runs < PIECE_RUNS - 4) {
		part = hdl_stream_next(o->at, most - got, &run);
		runs[h.runs++] = (struct run){ (uintptr_t)run, part };
		got += part;
	}
	while (got % element) {
		part = hdl_stream_next(o->at, element - got % element, &run);
		runs[h.runs++] = (struct run){ (uintptr_t)run, part };
		got += part;
	}
	h.bytes = got;
	m = msg_new(h.runs * sizeof(runs[0]) + (h.has_data ? got : 0) + (h.has_compare ? element : 0));
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
	r = msg_send(m, t->ep, AM_ACC, HDL_AM_ORDERED, &h, sizeof(h), (size_t)(to - m->data));
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
	out_free(o);
}

static void pump_turn(struct hdl_target *t)
{
	struct hdl_rma_out *o;

	for (o = t->out; o && !o->left; o = o->next)
		;
	while (o && t->messages < WINDOW) {
		int r = out_send(o);

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
 *     1. out_send takes piece 2 from the stream, and hdl_am_send takes in the answer to piece 0
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
		hdl_rma_msg_fail(t);
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
	struct result_head h = { 0 };
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

void hdl_rma_msg_fail(struct hdl_target *t)
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
	char in[PIECE_BYTES + 64], out[PIECE_BYTES + 64], packed[32];
	struct hdl_acc_piece piece[16];
	int rc = MPI_SUCCESS;

	if (compare)
		hdl_pack(packed, compare, 1, base, 0, element);
	s[0] = stream_new(mem, a->at.target_count, a->at.target_type, &held[0]);
	if (a->op != MPI_NO_OP)
		s[1] = stream_new(a->at.buf, a->at.count, a->at.type, &held[1]);
	if (a->fetch)
		s[2] = stream_new(a->result, a->result_count, a->result_type, &held[2]);
	if (!s[0] || (a->op != MPI_NO_OP && !s[1]) || (a->fetch && !s[2]))
		rc = hdl_rma_no_memory("an accumulate");
	while (left && !rc) {
		size_t most = PIECE_BYTES / element * element, got = 0, part;
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
		hdl_acc_here(w, piece, n, base, a->op, s[1] ? in : NULL, compare ? packed : NULL, a->fetch ? out : NULL);
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
	o->at = stream_new((void *)(uintptr_t)offset, a->at.target_count, a->at.target_type, &o->target_type);
	good = o->at;
	if (a->op != MPI_NO_OP)
		good &= (o->in = stream_new(from, a->at.count, a->at.type, &o->type)) != NULL;
	if (a->fetch)
		good &= (o->out = stream_new(a->result, a->result_count, a->result_type, &o->result_type)) != NULL;
	if (!good) {
		out_free(o);
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

/* ---- accumulates: target ------------------------------------------------------------------------------------------- */

static void answer(const struct acc_head *to, struct hdl_ep *ep, int error, struct msg *m, size_t bytes)
{
	struct result_head h = { .cookie = to->cookie, .bytes = to->bytes, .error = error };

	if (!m && !(m = msg_new(0)))
		hdl_out_of_memory("the answer to an accumulate", sizeof(*m));
	msg_send(m, ep, AM_RESULT, HDL_AM_ORDERED, &h, sizeof(h), bytes);
}

/* Checks the pieces of a message, and makes addresses of offsets. Returns an error class. */
static int pieces_check(const struct hdl_rma_in *in, struct hdl_acc_piece *piece)
{
	const struct hdl_win *w = in->w;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < in->head.runs; i++) {
		struct run r;

		memcpy(&r, in->data + i * sizeof(r), sizeof(r));
		bytes += r.len;
		if (w->dynamic ? !hdl_win_has(w, r.offset, r.len) :
		    r.offset > (uint64_t)w->bytes || r.len > (uint64_t)w->bytes - r.offset)
			return MPI_ERR_RMA_RANGE;
		piece[i] = (struct hdl_acc_piece){ (w->dynamic ? 0 : (uintptr_t)w->base) + r.offset, r.len };
	}
	return bytes == in->head.bytes && bytes <= PIECE_BYTES + 64 ? MPI_SUCCESS : MPI_ERR_OTHER;
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
	const struct acc_head *h = &in->head;
	const struct hdl_type *base = hdl_type_get((MPI_Datatype)(uintptr_t)h->type);
	struct hdl_acc_piece piece[PIECE_RUNS];
	const char *data = in->data + h->runs * sizeof(struct run);
	size_t want = h->runs * sizeof(struct run) + (h->has_data ? h->bytes : 0);
	struct msg *m = NULL;
	int error = in->error;

	if (!error && (!base || h->runs > PIECE_RUNS || in->len != want + (h->has_compare && base ? (size_t)base->size : 0)))
		error = MPI_ERR_OTHER;
	if (!error)
		error = pieces_check(in, piece);
	if (!error)
		error = pieces_reach(in, piece);
	if (!error && h->fetch && !(m = msg_new(h->bytes)))
		error = MPI_ERR_NO_MEM;
	if (!error)
		hdl_acc_here(in->w, piece, h->runs, base, (MPI_Op)(uintptr_t)h->op, h->has_data ? data : NULL,
			     h->has_compare ? in->data + want : NULL, m ? m->data : NULL);
	answer(h, in->t->ep, error, m, m ? h->bytes : 0);
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
	struct acc_head h = { 0 };
	struct hdl_rma_in *in;
	struct hdl_win *w;

	(void)context;
	memcpy(&h, am->head, am->head_len < sizeof(h) ? am->head_len : sizeof(h));
	w = window_of(h.window, h.member, am);
	if (!w || (uint32_t)w->state->nonce != h.nonce) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		answer(&h, am->ep, MPI_ERR_RMA_RANGE, NULL, 0);
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

void hdl_rma_msg_drop(struct hdl_target *t)
{
	struct hdl_rma_out *o;
	struct hdl_rma_in *in;

	while ((o = t->out)) {
		t->out = o->next;
		out_free(o);
	}
	while ((in = t->in)) {
		t->in = in->next;
		in_drop(in);
	}
}

/* Answers as say_gone, for all that waits here: members that wait for this one go on. A send may take arrivals in, which may
 * carry pieces out. */
void hdl_rma_msg_gone(struct hdl_win *w)
{
	/* taken out of the list first: the death of a member refuses those that are in it (hdl_lock_lost) */
	for (struct hdl_target *t; (t = w->lock_first);) {
		w->lock_first = t->lock_next;
		if (!w->lock_first)
			w->lock_last = NULL;
		t->lock_waits = false;
		if (t->ep)
			hdl_rma_msg_sync(w, t, HDL_SYNC_GONE, 0);
	}
	for (int r = 0; r < w->size; r++) {
		struct hdl_target *t = w->target[r];
		struct hdl_rma_in *in;

		if (!t || !t->ep)
			continue;
		while ((in = t->in)) {
			struct acc_head head = in->head;

			t->in = in->next;
			if (!t->in)
				t->in_last = NULL;
			in_drop(in);
			answer(&head, t->ep, MPI_ERR_RMA_RANGE, NULL, 0);
		}
	}
}

int hdl_rma_msg_init(void)
{
	static const struct { unsigned id; hdl_am_fn fn; } handlers[] = {
		{ AM_WAKE, on_wake }, { AM_SYNC, on_sync }, { AM_ACC, on_acc }, { AM_RESULT, on_result },
	};

	for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
		int err = hdl_am_register(hdl_mpi_tp, handlers[i].id, handlers[i].fn, NULL);

		if (err)
			return err;
	}
	return 0;
}
