/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving: what arrives goes straight into the buffer of the receive that it matches, or waits for one. */
#include "p2p/comm/comm_cid.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memcheck.h"
#include "lines/lines.h"

_Noreturn void hdl_out_of_memory(const char *what, size_t bytes)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "out of memory: %zu bytes for %s; limit the messages in flight, or give the job more memory",
		 bytes, what);
	hdl_rt_abort(MPI_ERR_NO_MEM, text);
}

int hdl_class_of(int err)
{
	switch (err) {
	case 0:
		return MPI_SUCCESS;
	case ENOMEM:
		return MPI_ERR_NO_MEM;
	case EFAULT:
	case EREMOTEIO:
		return MPI_ERR_BUFFER;
	case ECONNRESET:
	case ECONNABORTED:
	case ENOTCONN:
	case EPIPE:
	case EHOSTUNREACH:
	case EHOSTDOWN:
	case ETIMEDOUT:
		return MPI_ERR_PROC_ABORTED;
	default:
		return MPI_ERR_OTHER;
	}
}

int hdl_op_fail(struct hdl_op *op, int err)
{
	op->errnum = err < 0 ? -err : err;
	return hdl_class_of(op->errnum);
}

/* ---- into the user's buffer ---------------------------------------------------------------------------- */

static inline void set_status(struct hdl_op *op, int src, int tag, size_t bytes)
{
	MPI_Status *s = &op->req.status;

	s->MPI_SOURCE = likely(op->src != MPI_ANY_SOURCE) ? op->peer : hdl_comm_rank_of_member(op->req.comm, src);
	s->MPI_TAG = tag;
	hdl_status_set_bytes(s, bytes, false);
}

static inline void deliver_eager(struct hdl_op *op, int src, int tag, const void *data, size_t len)
{
	size_t n = len;
	int error = MPI_SUCCESS;

	if (unlikely(n > op->bytes)) {
		n = op->bytes;
		op->arrived = len;
		error = MPI_ERR_TRUNCATE;
	}
	if (likely(!op->type)) {
		/* a copy of known size is a move, no call */
		if (n == 8)
			memcpy(op->buf, data, 8);
		else if (n == 4)
			memcpy(op->buf, data, 4);
		else if (n)
			lines_copy_in(op->buf, data, n);
	} else {
		hdl_unpack(op->buf, data, op->count, op->type, 0, n);
		hdl_type_release(op->type);
	}
	set_status(op, src, tag, n);
	hdl_req_complete(&op->req, error);
}

static void fetch_done(struct hdl_fetch *fetch, int err)
{
	struct hdl_op *op = container_of(fetch, struct hdl_op, fetch);
	int error = err ? hdl_op_fail(op, err) : op->arrived > op->bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS;

	if (op->type)
		hdl_type_release(op->type);
	else if (!err)
		memcheck_received(op->buf, op->arrived < op->bytes ? op->arrived : op->bytes);
	hdl_req_complete(&op->req, error);
}

static void recv_unpack(const struct hdl_fetch *fetch, uint64_t at, const void *from, size_t n)
{
	const struct hdl_op *op = container_of(fetch, const struct hdl_op, fetch);

	hdl_unpack(op->buf, from, op->count, op->type, (MPI_Count)at, n);
}

static void deliver_rts(struct hdl_matching *m, struct hdl_op *op, int src, int tag, const void *rts, size_t len)
{
	size_t n = len < op->bytes ? len : op->bytes;
	int rc;

	op->arrived = len;
	set_status(op, src, tag, n);
	op->fetch.done = fetch_done;
	op->fetch.unpack = recv_unpack;
	if (op->type)
		rc = hdl_ep_fetch_runs(hdl_ep(m->tp, src), rts, n, &op->fetch);
	else
		rc = hdl_ep_fetch(hdl_ep(m->tp, src), rts, op->buf, n, &op->fetch);
	if (unlikely(rc < 0))
		fetch_done(&op->fetch, rc);
}

/* Between two layouts, in pieces that stay in the cache. */
static __attribute__((noinline)) void copy_runs(struct hdl_op *recv, const struct hdl_op *send, size_t n)
{
	char packed[16384];

	for (size_t at = 0, k; at < n; at += k) {
		k = n - at < sizeof(packed) ? n - at : sizeof(packed);
		hdl_pack(packed, send->buf, send->count, send->type, (MPI_Count)at, k);
		hdl_unpack(recv->buf, packed, recv->count, recv->type, (MPI_Count)at, k);
	}
}

/* Between two buffers of this rank: n bytes of the message. */
static void copy_self(struct hdl_op *recv, const struct hdl_op *send, size_t n)
{
	if (!recv->type && !send->type) {
		if (n)
			memmove(recv->buf, send->buf, n);
	} else if (!recv->type) {
		hdl_pack(recv->buf, send->buf, send->count, send->type, 0, n);
	} else if (!send->type) {
		hdl_unpack(recv->buf, send->buf, recv->count, recv->type, 0, n);
	} else {
		copy_runs(recv, send, n);
	}
}

void hdl_recv_deliver_self(struct hdl_op *recv, struct hdl_op *send)
{
	bool truncated = send->bytes > recv->bytes;

	recv->arrived = send->bytes;
	copy_self(recv, send, truncated ? recv->bytes : send->bytes);
	set_status(recv, recv->src == MPI_ANY_SOURCE ? hdl_job.rank : recv->src, send->tag,
		   truncated ? recv->bytes : send->bytes);
	if (recv->type)
		hdl_type_release(recv->type);
	if (send->type)
		hdl_type_release(send->type);
	hdl_req_complete(&recv->req, truncated ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
	hdl_req_complete(&send->req, MPI_SUCCESS);
}

/* ---- what comes before its receive --------------------------------------------------------------------- */

struct heaviest {
	struct hdl_tp *tp;
	int src;
	size_t bytes;
	size_t self;			/* to itself a rank has no endpoint */
};

static void add_bytes(const struct hdl_unexpected *u, void *arg)
{
	struct heaviest *h = arg;
	struct hdl_ep *ep = u->src == hdl_job.rank ? NULL : hdl_ep_find(h->tp, u->src);
	size_t *sum = ep ? &hdl_ep_note(ep)->bytes : &h->self;

	*sum += u->kind == HDL_EAGER ? u->held : 0;
	if (*sum > h->bytes) {
		h->bytes = *sum;
		h->src = u->src;
	}
}

/* Above HEDDLE_UNEXPECTED_MAX a peer whose messages come too early keeps them: it announces them, and only their announcements
 * wait here, as many as the peer has sends under way. So what lies here is bounded, without a credit for each message, and a
 * receive finds its message wherever that is: nothing that was sent is left unread. What is under way when the peer is told comes
 * on top: a ring, or some receives.
 *
 * MPI_Send waits then, and what it waits for may be the very receive that this rank posts after a later message. So only those are
 * told whose own messages take more than their part of the limit, and what is no longer than an announcement comes as it is
 * (HDL_HOLD_LEAST): to keep it back would save nothing. */
static size_t recv_part(void)
{
	return hdl_vars.unexpected_max / (size_t)hdl_job.size;
}

void hdl_unexpected_count_from(struct hdl_matching *m, const struct hdl_unexpected *u, bool more)
{
	struct hdl_ep *ep = u->src == hdl_job.rank ? NULL : hdl_ep_find(m->tp, u->src);

	if (!ep)
		return;
	/* one that was taken by a matched probe was not there to be counted when counting began */
	size_t *bytes = &hdl_ep_note(ep)->bytes;
	*bytes = more ? *bytes + u->held : *bytes > u->held ? *bytes - u->held : 0;
}

static struct heaviest sum_up(struct hdl_matching *m)
{
	struct heaviest h = { .tp = m->tp };

	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		hdl_ep_note(ep)->bytes = 0;
	hdl_match_each_unexpected(m, add_bytes, &h);
	return h;
}

static __attribute__((noinline)) void hold_back(struct hdl_matching *m, int src)
{
	struct hdl_ep *ep = hdl_ep(m->tp, src);

	if (!m->unexpected_counting) {
		sum_up(m);
		m->unexpected_counting = true;
	}
	if (hdl_ep_note(ep)->held || hdl_ep_note(ep)->bytes <= recv_part())
		return;
	hdl_ep_note(ep)->held = true;
	m->nheld++;
	hdl_debug("unexpected messages take %zu KiB: %s is asked to hold its messages back",
		  m->unexpected_bytes >> 10, hdl_proc_text(src));
	hdl_ep_eager_off(ep, true);
}

/* The distance to the limits keeps peers from being told back and forth. */
static void recv_let_go(struct hdl_matching *m, struct hdl_ep *ep)
{
	struct hdl_ep_note *note = hdl_ep_note(ep);

	if (!note->held || (m->unexpected_bytes > hdl_vars.unexpected_max / 2 && note->bytes > recv_part() / 2))
		return;
	note->held = false;
	m->nheld--;
	hdl_ep_eager_off(ep, false);
}

static __attribute__((noinline)) void let_all_go(struct hdl_matching *m)
{
	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		recv_let_go(m, ep);
}

/* After a message of a rank was taken out. */
static __attribute__((noinline)) void fewer_of(struct hdl_matching *m, int src)
{
	struct hdl_ep *ep = src == hdl_job.rank ? NULL : hdl_ep_find(m->tp, src);

	if (m->unexpected_bytes <= hdl_vars.unexpected_max / 2)
		let_all_go(m);
	else if (ep)
		recv_let_go(m, ep);
}

static inline void fewer_unexpected(struct hdl_matching *m, int src)
{
	if (unlikely(m->nheld))
		fewer_of(m, src);
}

/* Say who sends ahead of the receives: it costs time and memory. */
static __attribute__((noinline)) void warn_unexpected(struct hdl_matching *m)
{
	struct heaviest h = sum_up(m);

	m->unexpected_warn = m->unexpected_warn > SIZE_MAX / 2 ? SIZE_MAX : m->unexpected_warn * 2;
	hdl_warn("%zu unexpected messages hold %zu KiB, most of it (%zu KiB) from %s: this rank receives too "
		 "late; post receives earlier, use MPI_Ssend, or lower HEDDLE_EAGER_MAX; from HEDDLE_UNEXPECTED_MAX on "
		 "senders wait",
		 m->nunexpected, m->unexpected_bytes >> 10, h.bytes >> 10, hdl_proc_text(h.src));
}

static struct hdl_unexpected *unexpected_new(uint16_t context, int src, int tag, uint8_t kind, size_t len, size_t data)
{
	struct hdl_unexpected *u = hdl_buf_get(sizeof(*u) + data);

	if (!u)
		hdl_out_of_memory("a message that came before its receive", data);
	u->src = src;
	u->tag = tag;
	u->context = context;
	u->kind = kind;
	u->len = len;
	u->held = hdl_buf_size(u);
	return u;
}

void hdl_recv_deliver(struct hdl_op *op, struct hdl_unexpected *u)
{
	struct hdl_matching *m = op->req.comm->matching;	/* op may be gone when it is done */

	switch (u->kind) {
	case HDL_EAGER:
		deliver_eager(op, u->src, u->tag, u->data, u->len);
		break;
	case HDL_RTS:
		deliver_rts(m, op, u->src, u->tag, u->data, u->len);
		break;
	default:
		hdl_recv_deliver_self(op, u->self);
	}
	int src = u->src;
	hdl_buf_put(u);
	fewer_unexpected(m, src);
}

/* Takes an unexpected message out and gives it to the receive. */
static void deliver_unexpected(struct hdl_matching *m, struct hdl_op *op, struct hdl_unexpected *u)
{
	hdl_match_remove(m, u);
	hdl_recv_deliver(op, u);
}

void hdl_unexpected_self(struct hdl_op *send, bool buffered)
{
	struct hdl_matching *m = send->req.comm->matching;
	struct hdl_unexpected *u;

	if (buffered) {
		u = unexpected_new(send->context, hdl_job.rank, send->tag, HDL_EAGER, send->bytes, send->bytes);
		if (send->type) {
			hdl_pack(u->data, send->buf, send->count, send->type, 0, send->bytes);
			hdl_type_release(send->type);
			send->type = NULL;
		} else if (send->bytes) {
			memcpy(u->data, send->buf, send->bytes);
		}
		hdl_match_add(m, u);
		hdl_req_complete(&send->req, MPI_SUCCESS);
		return;
	}
	u = unexpected_new(send->context, hdl_job.rank, send->tag, HDL_SELF, send->bytes, 0);
	u->self = send;
	send->message = u;
	hdl_match_add(m, u);
}

/* ---- messages that their sender withdraws ---------------------------------------------------------------- */

struct wanted {
	int src;
	uint32_t number;
	struct hdl_unexpected *found;
};

static void is_announced(const struct hdl_unexpected *u, void *arg)
{
	struct wanted *w = arg;

	if (u->kind == HDL_RTS && u->src == w->src && hdl_rts_number(u->data) == w->number)
		w->found = (struct hdl_unexpected *)u;
}

/* The message that asks is itself one to be fetched, if its sender was told to hold. */
static void fetch_nothing(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_op *op = hdl_op_new(&hdl_world, HDL_REQ_RECV);

	if (!op)
		hdl_out_of_memory("a message without data", sizeof(*op));
	op->src = op->peer = src;
	op->tag = hdr->tag;
	op->context = hdr->context;
	op->bytes = 0;
	op->req.detached = true;
	deliver_rts(m, op, src, hdr->tag, payload, 0);
}

/* A sender wants an announced message back. It came before: it is here if it has not matched. If it has, its sender learns
 * so by its completion, and no answer is needed. */
static __attribute__((noinline)) void asked_to_forget(struct hdl_matching *m, int src, const struct hdl_hdr *hdr,
						      const void *payload)
{
	struct wanted w = { .src = src, .number = (uint32_t)hdr->tag };

	if (hdr->kind == HDL_RTS)
		fetch_nothing(m, src, hdr, payload);
	hdl_match_each_unexpected(m, is_announced, &w);
	if (!w.found)
		return;
	hdl_match_remove(m, w.found);
	hdl_ep_refuse(hdl_ep(m->tp, src), w.found->data);
	hdl_buf_put(w.found);
}

/* ---- members that have ended ------------------------------------------------------------------------------- */

void hdl_ft_on_message(bool (*fn)(uint16_t context, int proc, bool told))
{
	hdl_mpi_matching->on_lost = fn;
}

/* Who has ended, as such a message says; -1: nobody that is known here. */
static int lost_in(int src, int tag, size_t len, const void *data)
{
	uint64_t job = hdl_proc_job(src);

	if (len == sizeof(job))
		memcpy(&job, data, sizeof(job));
	return hdl_proc_of(job, (uint32_t)(tag & HDL_LOST_RANK));
}

/* What is said of the process itself holds whatever becomes of the communicator, and when it is not there yet, or no more. True: the
 * message is not needed any longer. */
static __attribute__((noinline)) bool heard_of_loss(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload)
{
	int proc = lost_in(src, hdr->tag, len, payload);

	if (proc >= 0 && hdr->tag & HDL_LOST_ENDED)
		hdl_rt_note_ended(proc);
	if (proc >= 0)
		hdl_proc_note_lost(proc);
	if (proc >= 0 && hdr->tag & HDL_LOST_LIVES)
		hdl_proc_note_gave_up(proc);
	if (hdr->context == HDL_CONTEXT_GROUPS && proc >= 0)
		hdl_cid_heard(proc);
	else if (proc >= 0)
		hdl_cid_forsaken(hdr->context, src, proc);
	return hdr->context == HDL_CONTEXT_GROUPS || (m->on_lost && m->on_lost(hdr->context, proc, true));
}

static void recv_arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload);

struct announced_loss {
	struct hdl_fetch fetch;
	struct hdl_matching *m;
	struct hdl_hdr hdr;
	int src;
	uint64_t job;
};

static void loss_fetched(struct hdl_fetch *fetch, int err)
{
	struct announced_loss *l = container_of(fetch, struct announced_loss, fetch);

	if (!err)
		recv_arrived(l->m, l->src, &l->hdr, &l->job);
	free(l);
}

/* The job's id, where it is longer than HEDDLE_EAGER_MAX: its sender waits for it to be fetched. */
static void fetch_loss(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, const void *rts)
{
	struct announced_loss *l = calloc(1, sizeof(*l));

	if (!l)
		hdl_out_of_memory("a message about a rank that has failed", sizeof(*l));
	l->fetch.done = loss_fetched;
	l->m = m;
	l->src = src;
	l->hdr = *hdr;
	l->hdr.kind = HDL_EAGER;
	l->hdr.len = sizeof(l->job);
	if (hdl_ep_fetch(hdl_ep(m->tp, src), rts, &l->job, sizeof(l->job), &l->fetch))
		free(l);
}

int hdl_recv_lost(struct hdl_comm *comm)
{
	uint16_t context = (uint16_t)(comm->context + 1);

	for (const struct hdl_unexpected *u = comm->matching->contexts[context].first; u; u = u->after) {
		int proc = hdl_tells_loss(context, u->tag) ? lost_in(u->src, u->tag, u->len, u->data) : -1;

		if (proc >= 0 && hdl_comm_has(comm, proc))
			return proc;
	}
	return -1;
}

/* In a collective context. */
static bool is_revocable(int tag)
{
	return tag >= 0 || hdl_cid_is_collective(tag);
}

static bool recv_is_of_revoked(const struct hdl_op *op, void *arg)
{
	return op->context == *(const uint16_t *)arg && is_revocable(op->tag);
}

/* A list of receives that were taken out of the queue. */
static void fail_all(struct hdl_op *op, int errnum)
{
	struct hdl_op *next;

	for (; op; op = next) {
		next = op->next;
		op->errnum = errnum;
		if (op->type)
			hdl_type_release(op->type);
		hdl_status_empty(&op->req.status, op->peer);
		hdl_req_complete(&op->req, MPI_ERR_PROC_ABORTED);
	}
}

void hdl_recv_fail(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg)
{
	fail_all(hdl_match_sweep(m, fn, arg), ECONNRESET);
}

int hdl_recv_revoked(const struct hdl_comm *comm, uint16_t context)
{
	return comm->matching->revoked[context];
}

/* A message of a collective that this rank has given up. Its sender may wait for it to be fetched, and this rank may be elsewhere
 * for long. */
static void drop(struct hdl_matching *m, int src, uint8_t kind, const void *payload)
{
	if (kind == HDL_RTS)
		hdl_ep_refuse(hdl_ep(m->tp, src), payload);
}

void hdl_recv_revoke(struct hdl_comm *comm, int proc)
{
	struct hdl_matching *m = comm->matching;
	struct hdl_unexpected *u, *after;
	uint16_t context = (uint16_t)(comm->context + 1);

	m->revoked[context] = 1 + proc;
	hdl_recv_fail(m, recv_is_of_revoked, &context);
	for (u = m->contexts[context].first; u; u = after) {
		after = u->after;
		if (!is_revocable(u->tag) || hdl_tells_loss(context, u->tag))
			continue;
		hdl_match_remove(m, u);
		drop(m, u->src, u->kind, u->data);
		hdl_buf_put(u);
	}
	if (m->nheld)
		let_all_go(m);
}

/* ---- the transport's upcalls --------------------------------------------------------------------------- */

static void recv_arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_matching *m = context;
	struct hdl_op *op = hdl_match_arrived(m, hdr->context, src, hdr->tag);
	struct hdl_unexpected *u;
	size_t data, len = hdl_msg_len(hdr, payload);

	if (likely(op != NULL)) {
		if (likely(hdr->kind == HDL_EAGER))
			deliver_eager(op, src, hdr->tag, payload, hdr->len);
		else
			deliver_rts(m, op, src, hdr->tag, payload, len);
		return;
	}
	if (unlikely(hdr->context == HDL_CONTEXT_CANCEL)) {
		asked_to_forget(m, src, hdr, payload);
		return;
	}
	if (unlikely(hdl_tells_loss(hdr->context, hdr->tag))) {
		if (hdr->kind == HDL_RTS) {
			fetch_loss(m, src, hdr, payload);
			return;
		}
		if (heard_of_loss(m, src, hdr, len, payload))
			return;
	}
	if (unlikely(m->revoked[hdr->context]) && is_revocable(hdr->tag)) {
		drop(m, src, hdr->kind, payload);
		return;
	}
	if (unlikely(hdl_ft_records_told) && hdl_cid_is_leader_link(hdr->context, hdr->tag))
		hdl_ft_records_asked();
	data = hdr->kind == HDL_EAGER ? hdr->len : HDL_RTS_SIZE;
	u = unexpected_new(hdr->context, src, hdr->tag, hdr->kind, len, data);
	if (data)
		memcpy(u->data, payload, data);
	hdl_match_add(m, u);
	if (unlikely(m->unexpected_bytes > hdl_vars.unexpected_max) && hdr->kind == HDL_EAGER && hdr->len > HDL_HOLD_LEAST)
		hold_back(m, src);
	if (unlikely(m->unexpected_bytes > m->unexpected_warn))
		warn_unexpected(m);
}

/* Whether a posted receive can only, or may, wait for the rank that failed. */
static bool concerns_peer(const struct hdl_op *op, void *arg)
{
	int peer = *(int *)arg;

	return op->src == peer ||
	       (op->src == MPI_ANY_SOURCE && hdl_comm_rank_of(op->req.comm, peer) != MPI_UNDEFINED);
}

static void peer_failed(void *context, int peer, int err)
{
	struct hdl_matching *m = context;
	struct hdl_ep_note *note = hdl_ep_note(hdl_ep(m->tp, peer));

	if (note->failed)
		return;
	note->failed = err < 0 ? -err : err ? err : ECONNRESET;
	hdl_proc_note_lost(peer);
	m->failed_peers++;
	/* Sends and fetches in flight are the transport's: it ends them by done(). */
	fail_all(hdl_match_sweep(m, concerns_peer, &peer), note->failed);
}

const struct hdl_upcalls hdl_p2p_upcalls = { .arrived = recv_arrived, .peer_failed = peer_failed };

static __attribute__((noinline)) int failed_in(struct hdl_comm *comm, int src)
{
	struct hdl_matching *m = comm->matching;
	struct hdl_ep *ep;

	if (src != MPI_ANY_SOURCE) {
		ep = hdl_ep_find(m->tp, hdl_comm_proc(comm, src));
		return ep ? hdl_ep_note(ep)->failed : 0;
	}
	for (ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep)) {
		struct hdl_ep_note *note = hdl_ep_note(ep);

		if (note->failed && hdl_comm_rank_of(comm, note->rank) != MPI_UNDEFINED)
			return note->failed;
	}
	return 0;
}

bool hdl_proc_is_gone(int proc)
{
	struct hdl_matching *m = hdl_mpi_matching;
	struct hdl_ep *ep = likely(!m->failed_peers) ? NULL : hdl_ep_find(m->tp, proc);

	return (ep && hdl_ep_note(ep)->failed) || hdl_ep_process(m->tp, proc) == HDL_PROC_ENDED;
}

int hdl_check_peer(struct hdl_comm *comm, int src, int *errnum)
{
	int err = likely(!comm->matching->failed_peers) ? 0 : failed_in(comm, src);

	if (likely(!err))
		return MPI_SUCCESS;
	*errnum = err;
	return MPI_ERR_PROC_ABORTED;
}

/* ---- the operations ------------------------------------------------------------------------------------ */

static inline __attribute__((always_inline)) int fill_buffer(struct hdl_op *op, void *buf, MPI_Count count,
							     const struct hdl_type *t)
{
	op->buf = buf;
	op->count = count;
	op->type = NULL;
	if (unlikely(__builtin_mul_overflow((size_t)count, (size_t)t->size, &op->bytes))) {
		hdl_reason_set("%lld elements of %lld bytes do not fit the address space", (long long)count,
			       (long long)t->size);
		return MPI_ERR_COUNT;
	}
	if (unlikely(!hdl_type_is_run(t, count)) && !hdl_type_find_run(t, count, &op->buf)) {
		op->type = (struct hdl_type *)t;
		hdl_type_retain(op->type);
	}
	return MPI_SUCCESS;
}

int hdl_recv_fill_buffer(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t)
{
	return fill_buffer(op, buf, count, t);
}

static inline int recv_fill(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag,
			    struct hdl_comm *comm, uint16_t context)
{
	op->src = src == MPI_ANY_SOURCE ? src : hdl_comm_proc(comm, src);
	op->peer = src;
	op->tag = tag;
	op->context = context;
	return fill_buffer(op, buf, count, t);
}

static inline struct hdl_ep *ep_of(struct hdl_comm *comm, int src)
{
	return src < 0 ? NULL : hdl_comm_ep(comm, src);
}

int hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	      uint16_t context, struct hdl_req **req)
{
	struct hdl_op *op = hdl_op_new(comm, HDL_REQ_RECV);
	struct hdl_unexpected *u;
	int rc;

	*req = NULL;
	if (unlikely(!op)) {
		hdl_reason_set("out of memory for requests");
		return MPI_ERR_NO_MEM;
	}
	if (unlikely(src == MPI_PROC_NULL)) {
		op->kind = HDL_REQ_NONE;
		hdl_status_empty(&op->req.status, MPI_PROC_NULL);
		op->req.done = 1;
		*req = &op->req;
		return MPI_SUCCESS;
	}
	rc = recv_fill(op, buf, count, t, src, tag, comm, context);
	if (unlikely(rc)) {
		op->req.done = 1;
		hdl_req_free(&op->req);
		return rc;
	}
	op->req.ep = ep_of(comm, src);
	*req = &op->req;
	u = hdl_match_find(comm->matching, context, op->src, tag);
	if (u) {
		deliver_unexpected(comm->matching, op, u);
		return MPI_SUCCESS;
	}
	rc = hdl_check_peer(comm, src, &op->errnum);
	if (likely(!rc)) {
		hdl_match_post(comm->matching, op);
	} else {
		if (op->type)
			hdl_type_release(op->type);
		hdl_status_empty(&op->req.status, src);
		hdl_req_complete(&op->req, rc);
	}
	return MPI_SUCCESS;
}

int hdl_recv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	     uint16_t context, MPI_Status *status)
{
	struct hdl_op op;
	struct hdl_unexpected *u;
	int rc;

	if (unlikely(src == MPI_PROC_NULL)) {
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	op.req.done = 0;
	op.req.comm = comm;
	op.req.notify = NULL;
	op.req.detached = op.req.pending = false;
	op.kind = HDL_REQ_RECV;
	op.why = NULL;
	op.posted = false;
	rc = recv_fill(&op, buf, count, t, src, tag, comm, context);
	if (unlikely(rc))
		return rc;
	u = hdl_match_find(comm->matching, context, op.src, tag);
	if (u) {
		deliver_unexpected(comm->matching, &op, u);
	} else {
		rc = hdl_check_peer(comm, src, &op.errnum);
		if (likely(!rc) && unlikely(src == comm->rank) && !hdl_threads) {
			hdl_reason_set("the rank receives from itself, but has sent itself no message with tag %d: "
				       "this could never complete", tag);
			rc = MPI_ERR_OTHER;
		}
		if (unlikely(rc)) {
			if (op.type)
				hdl_type_release(op.type);
			if (rc == MPI_ERR_PROC_ABORTED) {
				op.req.error = rc;
				hdl_req_explain(&op.req);
			}
			return rc;
		}
		hdl_match_post(comm->matching, &op);
	}
	hdl_wait_done(&op.req.done, ep_of(comm, src), &op);
	if (status) {
		status->MPI_SOURCE = op.req.status.MPI_SOURCE;
		status->MPI_TAG = op.req.status.MPI_TAG;
		hdl_status_set_bytes(status, hdl_status_bytes(&op.req.status), false);
	}
	if (unlikely(op.req.error))
		hdl_req_explain(&op.req);
	return op.req.error;
}

struct hdl_unexpected *hdl_probe_find(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status, int *rc)
{
	int proc = src == MPI_ANY_SOURCE ? src : hdl_comm_proc(comm, src);
	struct hdl_unexpected *u = hdl_match_find(comm->matching, context, proc, tag);
	int errnum;

	*rc = MPI_SUCCESS;
	if (u) {
		if (status) {
			status->MPI_SOURCE = src != MPI_ANY_SOURCE ? src : hdl_comm_rank_of_member(comm, u->src);
			status->MPI_TAG = u->tag;
			hdl_status_set_bytes(status, u->len, false);
		}
		return u;
	}
	*rc = hdl_check_peer(comm, src, &errnum);
	if (*rc)
		hdl_reason_set("%s %d has failed: %s",
			       src == MPI_ANY_SOURCE ? "a rank of the communicator, source" : "rank",
			       src, strerror(errnum));
	return NULL;
}

static int probe_found(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, MPI_Status *status)
{
	int rc;

	*flag = hdl_probe_find(src, tag, comm, context, status, &rc) != NULL;
	return rc;
}

int hdl_iprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, MPI_Status *status)
{
	int rc;

	if (unlikely(src == MPI_PROC_NULL)) {
		*flag = 1;
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	rc = probe_found(src, tag, comm, context, flag, status);
	if (rc || *flag)
		return rc;
	hdl_progress_test();
	return probe_found(src, tag, comm, context, flag, status);
}

struct probe {
	int src, tag;
	struct hdl_comm *comm;
	uint16_t context;
};

static bool probe_is_over(const void *arg)
{
	const struct probe *p = arg;
	int proc = p->src == MPI_ANY_SOURCE ? p->src : hdl_comm_proc(p->comm, p->src), errnum;

	return hdl_match_find(p->comm->matching, p->context, proc, p->tag) || hdl_check_peer(p->comm, p->src, &errnum);
}

void hdl_probe_wait(int src, int tag, struct hdl_comm *comm, uint16_t context)
{
	struct probe p = { .src = src, .tag = tag, .comm = comm, .context = context };

	hdl_wait_until(probe_is_over, &p);
}

int hdl_probe(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status)
{
	int flag;

	if (unlikely(src == MPI_PROC_NULL)) {
		if (status)
			hdl_status_empty(status, MPI_PROC_NULL);
		return MPI_SUCCESS;
	}
	hdl_probe_wait(src, tag, comm, context);
	return probe_found(src, tag, comm, context, &flag, status);
}

unsigned hdl_unexpected_purge(struct hdl_matching *m, uint16_t context)
{
	unsigned n;

	/* who has announced something to a constructor waits for an answer, though this rank has not come there */
	for (struct hdl_unexpected *u = context & 1 && m->tp ? m->contexts[context].first : NULL; u; u = u->after)
		if (u->kind == HDL_RTS)
			hdl_ep_refuse(hdl_ep(m->tp, u->src), u->data);
	n = hdl_match_purge(m, context);
	if (m->nheld)
		let_all_go(m);
	return n;
}

void hdl_unexpected_close(struct hdl_matching *m)
{
	m->tp = NULL;
	m->nheld = 0;
	m->unexpected_counting = false;
}
