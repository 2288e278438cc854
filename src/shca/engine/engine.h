/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: runs send requests on whichever CPU makes them runnable. No globals: everything takes a struct
 * shca_thread (a thread of a member of the fabric). Verbs objects know the engine; the engine does not know them.
 *
 *   exec.c   one request: finds the responder, checks, moves data, completes
 *   run.c    queues: lock, kick, drain, WAIT and ENABLE, stalls and timers
 *   cq.c     completions appear; who waits or sleeps is noticed
 *   rq.c     receives are posted, taken, returned
 *   atomic.c atomic operations on memory
 *   copy.c   lanes
 *   reap.c   what a dead process leaves behind
 *   common.c queue pairs that several processes hold
 */
#ifndef SHCA_ENGINE_H
#define SHCA_ENGINE_H

/* SHCA_NO_SIMD: what other processors get, for a test of it on one that has SSE2. */
#if defined(__SSE2__) && !defined(SHCA_NO_SIMD)
#define SHCA_SSE2 1
#include <emmintrin.h>
#endif
#include <infiniband/verbs.h>

#include "lines/lines.h"
#include "shca/fabric/fabric.h"

/* What a request asks for. DIRECT: on the stack; SHARED: a view of the WQE. */
struct shca_req {
	uint8_t op, flags, nsge, bad;
	uint32_t imm, rkey, dqpn, qkey, len;
	uint64_t raddr;
	uint64_t arg[4];
	const struct shca_seg *sge;	/* of the queue's owner */
	const void *inl;		/* inline bytes, mapped here; NULL: use sge */
};

/* Outcome of running a request: an enum ibv_wc_status, or one of these. */
#define SHCA_RNR (-1)			/* no receive: the queue stalls */
#define SHCA_NOPEER (-2)		/* nobody answers (yet): the queue stalls until its retries are used up */
#define SHCA_UNMET (-3)			/* a WAIT whose completions are not there */

/* exec.c. The caller is the executor of qp (I1). Does everything up to and including the responder's completion;
 * the requester's own completion is shca_complete_send's. Continues from the journal (qp->step) where an earlier
 * executor died. */
int shca_exec(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);
/* Whether an RDMA write would be answered now, and its responder grants it. Inside the engine, anywhere. */
bool shca_write_granted(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);
/* The requester's completion for the request at position pos of its queue. false: it was lost; its queue has failed. */
bool shca_complete_send(struct shca_thread *thr, struct shca_qp *qp, uint64_t pos, uint8_t op, int status, uint32_t bytes);
/* What a completion says that a request was. */
static inline uint8_t shca_completes_as(uint8_t flags, uint8_t op)
{
	return unlikely(flags & SHCA_WQE_RAW) ? SHCA_OP_NOP : op;
}
/* A receive that the running request has taken and will not fill goes back: to its owner, or to be flushed when its
 * queue serves this one only (that queue is in error, or will be). Nothing, if there is none. */
void shca_release_receive(struct shca_thread *thr, struct shca_qp *qp);

/* The journal. A step counts only for the request at head: advancing head clears it in the same store. */
static inline void shca_step_to(struct shca_qp *qp, uint32_t step)
{
	uint32_t head = (uint32_t)atomic_load_explicit(&qp->head, memory_order_relaxed);
	atomic_store_explicit(&qp->step, step | head << 8, memory_order_release);
}
static inline uint32_t shca_step_of(const struct shca_qp *qp)
{
	uint32_t w = atomic_load_explicit(&qp->step, memory_order_relaxed);
	/* what most requests begin with */
	if (likely((w & 0xff) == SHCA_STEP_NONE))
		return SHCA_STEP_NONE;
	uint32_t head = (uint32_t)atomic_load_explicit(&qp->head, memory_order_relaxed);
	return w >> 8 == (head & 0xffffff) ? w & 0xff : SHCA_STEP_NONE;
}

/* run.c */
/* Notes whom qp is connected to, so that his death is noticed. The owner's; peer was found in the directory. */
void shca_peer_known(struct shca_thread *thr, struct shca_qp *qp, const struct shca_qp *peer);
/* qp goes into error: what it has posted is flushed, requests to it are not answered, the event is raised. May be
 * called by any thread inside the engine. */
void shca_qp_fatal(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
/* Marks the queue as failed, once: its state is that of error, requests to it are not answered. Everything else follows in
 * shca_flush, when it is kicked. */
void shca_qp_failed(struct shca_thread *thr, struct shca_qp *qp, int status);
/* A message has come to a queue of whose gate SHCA_GATE_FIRST is set: it is told, once. */
void shca_first_message(struct shca_thread *thr, struct shca_qp *qp);
/* shca_qp_fatal, unless it has failed already: then it was told. */
void shca_qp_fail_once(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
/* Makes a SHARED queue run as far as it can; drains everything that becomes runnable by it. Top level: between
 * shca_enter and shca_leave. */
void shca_kick(struct shca_thread *thr, shca_off qp);
void shca_drain(struct shca_thread *thr);
/* Queues that somebody left over (run.c), of any process: to this thread's list. How many. */
int shca_take_left(struct shca_thread *thr);
/* Takes a queue of this process that another thread holds TODO over to this thread's list, for shca_drain: what a poller
 * does when it finds nothing. */
int shca_steal(struct shca_thread *thr, shca_off qp);
/* Locks out executors of qp for a modify or destroy (waits for the running one). */
void shca_qp_lock(struct shca_thread *thr, struct shca_qp *qp);
void shca_qp_unlock(struct shca_thread *thr, struct shca_qp *qp);
/* Takes the lock of a dead executor, whose lock word was seen. false: it was something else meanwhile. */
bool shca_qp_take_over(struct shca_thread *thr, struct shca_qp *qp, uint64_t seen);
/* The request at head fails with this status, and its queue with it. The caller holds the lock. */
void shca_fail_head(struct shca_thread *thr, struct shca_qp *qp, int status);
/* A queue in error: completes what is posted to it with IBV_WC_WR_FLUSH_ERR (send requests; receives, unless they
 * are an SRQ's). qp is locked by the caller. */
void shca_flush(struct shca_thread *thr, struct shca_qp *qp);
/* Whether no message will come to qp any more: its receives are flushed, also those that are posted, or come back, from now on.
 * Whoever posts one asks behind a light fence, and kicks the queue; it pairs with the heavy fence behind the store that made this true,
 * behind which the queue is kicked as well. */
static inline bool shca_flushes(const struct shca_qp *qp)
{
	return unlikely(atomic_load_explicit(&qp->qp_state, memory_order_relaxed) == IBV_QPS_ERR ||
			atomic_load_explicit(&qp->peer_dead, memory_order_relaxed));
}
/* Reads a WQE as a request; req->inl and req->sge point into the WQE. */
void shca_req_of_wqe(const struct shca_qp *qp, const struct shca_wqe *wqe, struct shca_req *req);
/* I7: whether what a send queue says of its memory and its requests can be true. */
#define SHCA_SQ_SLOTS_MAX 65536u
#define SHCA_SQ_STRIDE_MAX 0xffc0u
static inline bool shca_sq_sound(const struct shca_member *m, const struct shca_qp *qp, uint64_t head, uint64_t posted)
{
	uint32_t slots = qp->sq_slots, stride = qp->sq_stride;

	if (posted <= head)
		return true;	/* nothing of it is read */
	/* the owner stored it before it moved `posted` */
	shca_off wqes = qp->wqes;
	return likely(slots && slots <= SHCA_SQ_SLOTS_MAX && qp->sq_magic == UINT64_MAX / slots + 1 &&
		      stride >= sizeof(struct shca_wqe) && stride <= SHCA_SQ_STRIDE_MAX && !((wqes | stride) & 15) &&
		      shca_fits(m, wqes, (uint64_t)stride * slots) && posted - head <= slots);
}
/* Whether a request has no more data than it has room for. */
static inline bool shca_wqe_sound(const struct shca_qp *qp, const struct shca_wqe *wqe)
{
	uint64_t room = qp->sq_stride - sizeof(*wqe);

	/* one with inline data has no segments; CALC and READ look at these all the same */
	return wqe->bad < 32 && wqe->nsge * sizeof(struct shca_seg) <= room && (!(wqe->flags & SHCA_WQE_INLINE) || wqe->len <= room);
}
static inline struct shca_wqe *shca_wqe_at(const char *base, const struct shca_qp *qp, uint64_t pos)
{
	/* pos % sq_slots: exact while pos < 2^64 / sq_slots */
	uint64_t laps = (uint64_t)((unsigned __int128)pos * qp->sq_magic >> 64);

	/* An atomic load: shca_kick asks ahead of time, of a queue that may be getting its ring (shca_reserve_ring). */
	return (struct shca_wqe *)(base + __atomic_load_n(&qp->wqes, __ATOMIC_RELAXED) + (pos - laps * qp->sq_slots) * qp->sq_stride);
}
/* The helper of qp's owner looks at qp again at `due` (CLOCK_MONOTONIC ns). The caller is its executor, or has just been
 * (leave_over), or has posted to it (shca_kick_later): of two that set it at once either's stays, and qp is looked at then. */
void shca_timer_add(struct shca_member *m, struct shca_qp *qp, uint64_t due);
/* A receive is there: queues that RNR has stopped run in shca_drain, one after the other, while there are receives for them. */
void shca_recv_wake(struct shca_thread *thr, struct shca_rq *rq);
/* All of them are to look again, whether there is one or not. */
void shca_recv_kick(struct shca_thread *thr, struct shca_rq *rq);

/* Visits the queues of a process. Its list is changed by its owner only, which unlinks, quiesces, then frees: whoever is
 * inside the engine may follow it. */
#define shca_for_each_qp(m, qp, slot) shca_for_each_listed(m, shca_qp, qp, slot, qp_list)

static inline void shca_raise(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t old = atomic_load(word);

	while (old < value && !atomic_compare_exchange_weak(word, &old, value))
		;
}

/* cq.c */
struct shca_cqe_in {
	uint32_t qpn, index;		/* index: 15 bits */
	uint32_t byte_len, imm;
	uint8_t op, status;
	bool solicited;
};
/* Makes a completion appear. false: there is no room, and from then on the CQ is in error: nothing appears in it any more,
 * its queues fail, IBV_EVENT_CQ_ERR is raised (IBTA 11.6.3.1). The caller fails the queue whose completion was lost. */
bool shca_cq_push(struct shca_thread *thr, struct shca_cq *cq, const struct shca_cqe_in *in);
/* The same, ready made but for its lap, from position pos on, which shca_cq_count has just told. */
bool shca_cq_put(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, uint64_t w0, uint64_t w1, bool solicited);
/* Fails what completes to a CQ that is in error and has not failed yet; raises the events. May be repeated. */
void shca_cq_fail_users(struct shca_thread *thr, struct shca_cq *cq);
static inline bool shca_cq_in_error(const struct shca_cq *cq)
{
	return unlikely(atomic_load_explicit(&cq->error, memory_order_acquire) & SHCA_ERROR);
}
static inline uint64_t shca_cqe_w0(uint8_t op, uint8_t status, uint32_t index, uint32_t qpn)
{
	return (uint64_t)(op & 31) << 44 | (uint64_t)(status & 31) << 39 | (uint64_t)(index & 0x7fff) << 24 | (qpn & 0xffffff);
}
uint64_t shca_cq_count_from(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos);
/* A queue that waits for the next completion will run then: its lock is fetched meanwhile. */
void shca_cq_expect(struct shca_thread *thr, struct shca_cq *cq);
/* After a death: tells whoever is to be told again, as the dead producer may not have. */
void shca_cq_notice_again(struct shca_thread *thr, struct shca_cq *cq);
/* Whether a completion of (qpn, index) is in cq at or behind position `from` (low 32 bits), which was free when it was
 * journaled. 1: it is; 0: it is not; -1: the ring went round since, it may have been and be overwritten. */
int shca_cq_find(struct shca_thread *thr, struct shca_cq *cq, uint32_t from, uint32_t qpn, uint32_t index, bool recv);
#define SHCA_CQE_LAP(w0) ((uint32_t)((w0) >> 49))
#define SHCA_CQE_OP(w0) ((uint32_t)((w0) >> 44) & 31)
#define SHCA_CQE_STATUS(w0) ((uint32_t)((w0) >> 39) & 31)
#define SHCA_CQE_INDEX(w0) ((uint32_t)((w0) >> 24) & 0x7fff)
#define SHCA_CQE_QPN(w0) ((uint32_t)(w0)&0xffffff)
/* A position's lap: never 0, so that a zeroed ring is empty. */
static inline uint32_t shca_cqe_lap(uint64_t pos, uint32_t log2)
{
	uint64_t lap = pos >> log2;

	if (unlikely(lap >= 0x7fff))
		lap %= 0x7fff;
	return (uint32_t)lap + 1;
}
/* I7: a seal is a polynomial of words, so that it differs when one of them does, or two change places. */
static inline uint64_t shca_seal_of(uint64_t seal, uint64_t word)
{
	return 9 * seal + word;
}
/* I7: whether what a CQ says of its ring and its owner is true: its owner has sealed it, as a receive queue. Asked once for each
 * completion. */
_Static_assert(offsetof(struct shca_cq, cqn) == offsetof(struct shca_cq, log2) + 4, "shca_cq_seal");
static inline uint64_t shca_cq_seal(const struct shca_member *m, const struct shca_cq *cq)
{
	uint64_t shape, s = shca_off_of(m, cq);

	memcpy(&shape, &cq->log2, sizeof(shape));
	return shca_seal_of(shca_seal_of(shca_seal_of(shca_seal_of(s, cq->ring), shape), cq->proc), cq->end);
}
static inline bool shca_cq_sound(const struct shca_member *m, const struct shca_cq *cq)
{
	/* a member under a small RLIMIT_AS has less of the fabric than its owner */
	return likely(cq->seal == shca_cq_seal(m, cq) && cq->end <= m->bytes);
}
/* The completion queue at an offset; NULL: there is none. */
static inline struct shca_cq *shca_cq_at(const struct shca_member *m, shca_off off)
{
	struct shca_cq *cq = shca_at_checked(m, off, sizeof(*cq));

	return cq && shca_cq_sound(m, cq) ? cq : NULL;
}
static inline struct shca_cqe *shca_cq_ring(const struct shca_thread *thr, const struct shca_cq *cq)
{
	return shca_at(thr->base, cq->ring);
}
/* Whether the slot of position pos is as the previous lap left it. */
static inline bool shca_cqe_free(uint64_t w0, uint64_t pos, uint32_t log2)
{
	uint32_t lap = shca_cqe_lap(pos, log2), seen = SHCA_CQE_LAP(w0);

	return seen == (likely(lap > 1) ? lap - 1 : pos >> log2 ? 0x7fff : 0);
}
/* Number of completions that ever appeared in cq. */
static inline uint64_t shca_cq_count(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t pos = atomic_load_explicit(&cq->tail, memory_order_acquire);
	struct shca_cqe *e = &shca_cq_ring(thr, cq)[pos & ((1ull << cq->log2) - 1)];

	if (likely(shca_cqe_free(atomic_load_explicit(&e->w0, memory_order_acquire), pos, cq->log2) &&
		   pos >= atomic_load_explicit(&cq->floor, memory_order_relaxed)))
		return pos;
	return shca_cq_count_from(thr, cq, pos);
}
/* Where the next completion will come, probably: a hint. */
static inline struct shca_cqe *shca_cq_next_slot(struct shca_thread *thr, struct shca_cq *cq)
{
	return &shca_cq_ring(thr, cq)[atomic_load_explicit(&cq->tail, memory_order_relaxed) & ((1ull << (cq->log2 & 63)) - 1)];
}
/* A slot of a CQ, as it was when it was looked at. */
struct shca_cq_spot {
	uint64_t pos;
	struct shca_cqe *e;
	uint64_t w0, w1;
	uint32_t lap;
};
/* Looks at the slot of position pos. false: it is filled, or perhaps beyond what the consumer has released; or the position comes
 * from an old hint. */
static inline bool shca_cq_look(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, struct shca_cq_spot *s)
{
	uint64_t size = 1ull << cq->log2;

	s->pos = pos;
	s->lap = shca_cqe_lap(pos, cq->log2);
	s->e = &shca_cq_ring(thr, cq)[pos & (size - 1)];
	s->w0 = atomic_load_explicit(&s->e->w0, memory_order_acquire);
	s->w1 = atomic_load_explicit(&s->e->w1, memory_order_relaxed);
	if (unlikely(!shca_cqe_free(s->w0, pos, cq->log2)) && SHCA_CQE_LAP(s->w0))
		return false;
	return likely(pos - atomic_load_explicit(&cq->floor, memory_order_relaxed) < size);
}
/* A completion comes there. false: somebody was faster. */
static inline bool shca_cq_fill(const struct shca_cq_spot *s, uint64_t w0, uint64_t w1)
{
	unsigned __int128 old = (unsigned __int128)s->w1 << 64 | s->w0;
	unsigned __int128 new = (unsigned __int128)w1 << 64 | w0 | (uint64_t)s->lap << 49;

	return __sync_bool_compare_and_swap((unsigned __int128 *)s->e, old, new);
}
/* Whether a count is awaited that nobody has looked up. Behind the completion: see shca_cq_placed. */
static inline bool shca_cq_awaited(const struct shca_cq *cq)
{
	return unlikely(atomic_load_explicit(&cq->noticed, memory_order_relaxed) <
			atomic_load_explicit(&cq->awaited, memory_order_acquire));
}
/* Who is to be told of a completion: the channel, queues that wait. */
void shca_cq_notice(struct shca_thread *thr, struct shca_cq *cq, bool solicited);
/* It is there. The CAS that made it visible is a full fence; it pairs with the one between arming and the second look in
 * shca_req_notify_cq, and with that between the note of a WAIT (verbs/submit/waits.c) and its second look (run.c). */
static inline void shca_cq_placed(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, bool solicited)
{
	/* release: whoever begins at the hint relies on the slots below */
	atomic_store_explicit(&cq->tail, pos + 1, memory_order_release);
	if (((pos + 1) & (SHCA_LINE / sizeof(struct shca_cqe) - 1)) == 0)
		__builtin_prefetch(&shca_cq_ring(thr, cq)[(pos + 1) & ((1ull << cq->log2) - 1)]);
	SHCA_FAILPOINT(thr, "cqe-visible", NULL, 0);
	if (unlikely(atomic_load_explicit(&cq->notify, memory_order_relaxed) & SHCA_CQ_ARMED || shca_cq_awaited(cq)))
		shca_cq_notice(thr, cq, solicited);
	shca_note_write_to(thr, cq->proc);	/* sealed */
}

/* The completion of the running request of qp, at its responder (step RCQE) or at itself (SENT): journaled before, so that a
 * successor looks whether it is there (shca_cq_find), and puts it in only if it is not. false: it was lost. */
static inline __attribute__((always_inline)) bool shca_cq_complete(struct shca_thread *thr, struct shca_qp *qp, struct shca_cq *cq, uint32_t step, int status,
				    uint64_t w0, uint64_t w1, bool solicited)
{
	if (!shca_cq_sound(thr->m, cq))
		return false;
	struct shca_cq_spot spot;
	bool seen = shca_cq_look(thr, cq, atomic_load_explicit(&cq->tail, memory_order_acquire), &spot);
	/* not the hint: behind it may stand an older completion of the same receive */
	uint64_t pos = likely(seen) ? spot.pos : shca_cq_count_from(thr, cq, spot.pos);

	qp->step_status = (uint8_t)status;
	qp->step_cq = (uint32_t)pos;
	shca_step_to(qp, step);
	SHCA_FAILPOINT(thr, step == SHCA_STEP_RCQE ? "rcqe" : "scqe", qp, step == SHCA_STEP_RCQE ? qp->step_op : SHCA_CQE_OP(w0));
	bool there = likely(seen && shca_cq_fill(&spot, w0, w1));
	if (there)
		shca_cq_placed(thr, cq, pos, solicited);
	else
		there = shca_cq_put(thr, cq, pos, w0, w1, solicited);
	SHCA_FAILPOINT(thr, step == SHCA_STEP_RCQE ? "rcqe-done" : "scqe-done", qp,
		       step == SHCA_STEP_RCQE ? qp->step_op : SHCA_CQE_OP(w0));
	return there;
}

/* An address of a process that is not known to be in the arena: it may be all the same, where the process has it mapped. */
static inline void shca_resolve_private(const struct shca_member *m, uint32_t proc, uint64_t addr, uint64_t len,
					struct shca_seg *seg)
{
	uint64_t off = addr - m->procs[proc & (SHCA_MAX_PROCS - 1)].base;

	if (off < m->bytes && len <= m->bytes - off) {
		seg->where = off;
		seg->lane = SHCA_LANE_ARENA;
	} else {
		seg->where = addr;
		seg->lane = SHCA_LANE_CMA;
	}
}

/* rq.c */
#define SHCA_POS_MASK ((1ull << 38) - 1)
static inline uint64_t shca_rword(uint32_t state, uint32_t qpn, uint64_t pos)
{
	return state | (uint64_t)(qpn & 0xffffff) << 2 | (pos & SHCA_POS_MASK) << 26;
}
/*
 * I7: whether what a receive queue says of its memory can be true. Asked for every message that takes a receive, so it is not computed
 * anew from all that is said: the owner has sealed it. What was scribbled over does not agree with the seal, nor do zeroes, nor another
 * queue's words, since the queue's own place is part of it. A receive is a line or more. The words are written once, and the ring
 * is published behind them (release). Who reads them earlier has seen no ring, with which no seal agrees.
 */
_Static_assert(sizeof(struct shca_rwqe) <= SHCA_LINE && offsetof(struct shca_rq, stride) == offsetof(struct shca_rq, log2) + 4 &&
	       offsetof(struct shca_rq, proc) == offsetof(struct shca_rq, number) + 4, "shca_rq_seal");
#define SHCA_RQ_LOG2_MAX 15
static inline uint64_t shca_rq_seal(const struct shca_member *m, const struct shca_rq *rq, uint64_t ring)
{
	uint64_t shape, whose, s = shca_off_of(m, rq);

	memcpy(&shape, &rq->log2, sizeof(shape));
	memcpy(&whose, &rq->number, sizeof(whose));
	s = shca_seal_of(s, ring);
	s = shca_seal_of(s, shape);
	s = shca_seal_of(s, whose);
	s = shca_seal_of(s, __atomic_load_n(&rq->wqes, __ATOMIC_RELAXED));
	s = shca_seal_of(s, __atomic_load_n(&rq->marks, __ATOMIC_RELAXED));
	return shca_seal_of(s, __atomic_load_n(&rq->end, __ATOMIC_RELAXED));
}
/* The same of one to which nothing was posted so far. */
bool shca_rq_empty_sound(const struct shca_member *m, const struct shca_rq *rq, uint64_t ring);
static inline bool shca_rq_sound(const struct shca_member *m, const struct shca_rq *rq)
{
	uint64_t ring = atomic_load_explicit(&rq->ring, memory_order_acquire);

	/* a member under a small RLIMIT_AS has less of the fabric than its owner */
	if (likely(__atomic_load_n(&rq->seal, __ATOMIC_RELAXED) == shca_rq_seal(m, rq, ring)))
		return likely(__atomic_load_n(&rq->end, __ATOMIC_RELAXED) <= m->bytes);
	return shca_rq_empty_sound(m, rq, ring);
}
/* Whether there is a ring, with what the seal speaks of. */
static inline bool shca_rq_made(const struct shca_member *m, const struct shca_rq *rq)
{
	return atomic_load_explicit(&rq->ring, memory_order_acquire) != shca_off_of(m, &rq->none);
}
/* The receive queue at an offset; NULL: there can be none. */
static inline struct shca_rq *shca_rq_at(const struct shca_member *m, shca_off off)
{
	struct shca_rq *rq = shca_at_checked(m, off, sizeof(*rq));

	return rq && shca_rq_sound(m, rq) ? rq : NULL;
}
/* Whether a receive has no more segments than it has room for. */
static inline bool shca_rwqe_sound(const struct shca_rwqe *w, uint32_t stride)
{
	return sizeof(*w) + w->nsge * (sizeof(struct shca_seg) + sizeof(struct shca_ground)) <= stride;
}
static inline struct shca_ground *shca_rwqe_ground(const struct shca_rwqe *w, uint32_t stride, uint32_t segment)
{
	return (struct shca_ground *)((char *)w + stride) - 1 - segment;
}
/* Whether the regions of a receive are those of its post. Must be called inside the engine, before data is written to the receive:
 * the process that takes a region away counts up `revoke_epoch` (shca_revoke) before its quiesce (I8). So this thread either reads the
 * new epoch, or the quiesce waits for this thread. */
bool shca_rwqe_regions(const struct shca_member *m, const struct shca_rwqe *w, uint32_t stride);
static inline bool shca_rwqe_stands(const struct shca_member *m, uint32_t proc, const struct shca_rwqe *w, uint32_t stride)
{
	return likely(w->revoke_epoch == atomic_load_explicit(&m->procs[proc].revoke_epoch, memory_order_acquire)) ||
	       shca_rwqe_regions(m, w, stride);
}
static inline struct shca_rwqe *shca_rwqe_at(struct shca_thread *thr, struct shca_rq *rq, uint32_t index)
{
	return shca_at(thr->base, rq->wqes + (uint64_t)index * rq->stride);
}
/* The ring and the mask of its positions, which belong together. */
static inline _Atomic uint64_t *shca_rq_ring(const struct shca_thread *thr, const struct shca_rq *rq, uint64_t *mask)
{
	uint64_t ring = atomic_load_explicit(&rq->ring, memory_order_acquire);

	*mask = (1ull << (ring & 63)) - 1;
	return shca_at(thr->base, ring & ~(uint64_t)63);
}
/* The owner has polled the completion of the receive at index. */
static inline void shca_rq_polled(_Atomic uint64_t *mark)
{
	atomic_store_explicit(mark, atomic_load_explicit(mark, memory_order_relaxed) | 1, memory_order_release);
}
/* Whether the receive that was posted at this position can still be taken. */
static inline bool shca_rwqe_posted(const struct shca_rwqe *w, uint64_t pos)
{
	return atomic_load_explicit(&w->word, memory_order_acquire) == shca_rword(SHCA_R_POSTED, 0, pos);
}
/* Takes it for queue qpn; false: somebody was faster. journal: as shca_rq_take's; step_rq and step_to are set. The aim is
 * journaled before the take: a successor asks shca_rq_taken_at. */
static inline bool shca_rwqe_take(struct shca_thread *thr, struct shca_rq *rq, struct shca_rwqe *w, uint32_t index, uint64_t pos,
				  uint32_t qpn, struct shca_qp *journal)
{
	uint64_t posted = shca_rword(SHCA_R_POSTED, 0, pos);

	if (journal) {
		journal->step_index = index;
		journal->step_pos = pos;
		shca_step_to(journal, SHCA_STEP_TAKE);
		SHCA_FAILPOINT(thr, "take", journal, journal->step_op);
	}
	if (!atomic_compare_exchange_strong(&w->word, &posted, shca_rword(SHCA_R_TAKEN, qpn, pos)))
		return false;
	if (journal) {
		SHCA_FAILPOINT(thr, "taken", journal, journal->step_op);
		shca_step_to(journal, SHCA_STEP_RECV);
	}
	atomic_store_explicit(&rq->head, pos + 1, memory_order_relaxed);
	return true;
}
/* Takes the next receive for queue qpn. journal: the queue whose running request wants it (the caller is its
 * executor), NULL when flushing. Returns the receive's index, or -1: none; SHCA_RQ_BROKEN: the ring cannot be right (I7). */
#define SHCA_RQ_BROKEN (-2)
int shca_rq_take(struct shca_thread *thr, struct shca_rq *rq, uint32_t qpn, struct shca_qp *journal);
/* Whether the receive that was posted at this position is taken by this queue, its completion not polled yet. */
bool shca_rq_taken_at(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
/* Hands a receive that is taken by this queue to the flusher (shca_flush); false: it is neither's. */
bool shca_rq_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
bool shca_rq_in_flush(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* The owner posts the receive at index (its segments are filled in). */
void shca_rq_post(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* A receive taken by this queue whose message will not come: the owner will post it again. */
void shca_rq_return(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
void shca_rq_notice_returned(struct shca_thread *thr, struct shca_rq *rq);
/* Receives were posted or returned: if their queue flushes (shca_flushes), it is kicked. */
void shca_rq_notice_posted(struct shca_thread *thr, struct shca_rq *rq);
/* A returned one goes to the flusher, who completes it; the owner might never look. false: it is not returned. */
bool shca_rq_returned_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* The owner: whether the receive at index was returned; it is IDLE then. */
bool shca_rq_reclaim(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* Whether there is a receive that shca_rq_take could take. */
bool shca_rq_ready(struct shca_thread *thr, struct shca_rq *rq);
/* Puts qp on the list of queues that are run when a receive is posted; it may stand on one list only. */
void shca_rnr_link(struct shca_thread *thr, struct shca_rq *rq, struct shca_qp *qp);
static inline bool shca_rnr_any(const struct shca_rq *rq)
{
	return (atomic_load_explicit(&rq->rnr, memory_order_relaxed) |
		atomic_load_explicit(&rq->rnr_turn.first, memory_order_relaxed)) != 0;
}
/* Takes the queue off that has stood there longest. 0: there is none. */
shca_off shca_rnr_next(struct shca_thread *thr, struct shca_rq *rq);
/* Gets qp off its list: all of that list is kicked. 0: it is on none; else the link (rnr_linked) that another thread is
 * making or has in hands, or that was lost with one: only quiesces tell. Linear: for a reaper, for zombies that have become many
 * (verbs/objects/zombie.c), and for a queue that stalls elsewhere. */
uint32_t shca_rnr_unlink(struct shca_thread *thr, struct shca_qp *qp);
/* The link is nobody's (reap.c): since it was seen, three times, every thread has left the engine and then its list was emptied. */
void shca_rnr_lost(struct shca_thread *thr, struct shca_qp *qp, uint32_t link);

/* copy.c */
/* Moves bytes between segment lists of two processes; stops after len. Returns 0, or -EFAULT: src_err tells which side's
 * memory was not there. */
enum shca_order {
	SHCA_ANY_ORDER,			/* nobody looks at the data before the completion */
	SHCA_LAST_LINE_LAST,		/* data before its last 64 bytes, those before their last 8 (I5) */
};
#define SHCA_HERE UINT32_MAX		/* as shca_iov.proc: memory that may be loaded and stored: the engine's own, or inline data */
struct shca_iov {
	uint32_t proc;			/* whose addresses; or SHCA_HERE */
	const struct shca_seg *seg;
	uint32_t n;
	uint64_t skip;			/* bytes of the list to pass over first */
};
int shca_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
	      enum shca_order order, bool *src_err);
/* The same from memory that may be loaded. */
int shca_copy_to(struct shca_thread *thr, const struct shca_iov *dst, const void *src, uint64_t len);
/* Reads len bytes of segments of this process into a buffer of the thread, valid until its next copy. NULL: more than SHCA_BOUNCE,
 * or they cannot be read, or no memory. */
#define SHCA_BOUNCE 65536u
const char *shca_fetch(struct shca_thread *thr, const struct shca_seg *seg, uint32_t n, uint32_t len);
/* Addresses are the user's: of any alignment. */
typedef volatile uint64_t shca_any64 __attribute__((aligned(1), may_alias));
typedef volatile uint32_t shca_any32 __attribute__((aligned(1), may_alias));
/* Between the stores of shca_store_ordered: the compiler may not merge or reorder them; x86 keeps the order of stores,
 * elsewhere a release fence does. Its partner is the acquire by which a reader looks at the last of them. */
static inline void shca_store_barrier(void)
{
#if defined(__x86_64__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_release);
#endif
}

/* 16 bytes of any alignment. Stored in one piece, or in two, the lower first: to be seen in ascending order, either way. */
#ifdef SHCA_SSE2
typedef __m128i shca_16;
static inline shca_16 shca_load_16(const char *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}
static inline void shca_store_16(char *p, shca_16 v)
{
	_mm_storeu_si128((__m128i *)p, v);
}
#else
typedef struct {
	uint64_t low, high;		/* by address */
} shca_16;
static inline shca_16 shca_load_16(const char *p)
{
	shca_16 v;
	memcpy(&v, p, 16);
	return v;
}
static inline void shca_store_16(char *p, shca_16 v)
{
	*(shca_any64 *)p = v.low;
	shca_store_barrier();
	*(shca_any64 *)(p + 8) = v.high;
}
#endif

/* A copy in any order, for lengths that are mostly a line or less: no call then. */
static inline void shca_copy_small(char *d, const char *s, size_t len)
{
	if (len >= 8 && len <= 16) {
		uint64_t a, b;
		memcpy(&a, s, 8);
		memcpy(&b, s + len - 8, 8);
		memcpy(d, &a, 8);
		memcpy(d + len - 8, &b, 8);
	} else if (len < 4) {
		if (len) {
			char a = s[0], b = s[len / 2], c = s[len - 1];
			d[0] = a;
			d[len / 2] = b;
			d[len - 1] = c;
		}
	} else if (len < 8) {
		uint32_t a, b;
		memcpy(&a, s, 4);
		memcpy(&b, s + len - 4, 4);
		memcpy(d, &a, 4);
		memcpy(d + len - 4, &b, 4);
	} else if (len <= 32) {
		shca_16 a = shca_load_16(s), b = shca_load_16(s + len - 16);
		shca_store_16(d, a);
		shca_store_16(d + len - 16, b);
	} else if (len <= 64) {
		shca_16 a = shca_load_16(s), b = shca_load_16(s + 16);
		shca_16 c = shca_load_16(s + len - 32), e = shca_load_16(s + len - 16);
		shca_store_16(d, a);
		shca_store_16(d + 16, b);
		shca_store_16(d + len - 32, c);
		shca_store_16(d + len - 16, e);
	} else {
		lines_copy_out(d, s, len);
	}
}

/* A store into memory mapped here that obeys I5: ascending stores of 16 bytes, the last ones in a store of their own. */
static inline void shca_store_ordered(void *dst, const void *src, size_t len)
{
	char *d = dst;
	const char *s = src;

	if (len == 64) {
		/* a line: what rings are made of */
		shca_16 a = shca_load_16(s), b = shca_load_16(s + 16);
		shca_16 c = shca_load_16(s + 32);
		shca_store_16(d, a);
		shca_store_barrier();
		shca_store_16(d + 16, b);
		shca_store_barrier();
		shca_store_16(d + 32, c);
		shca_store_barrier();
		d += 48;
		s += 48;
		len = 16;
	} else if (len > 64) {
		size_t body = len - 64;
		lines_copy_out(d, s, body);
		d += body;
		s += body;
		len = 64;
		shca_store_barrier();
	}
	while (unlikely(len > 16)) {
		shca_store_16(d, shca_load_16(s));
		shca_store_barrier();
		d += 16;
		s += 16;
		len -= 16;
	}
	if (len > 8) {
		uint64_t v;
		memcpy(&v, s, 8);
		*(shca_any64 *)d = v;
		shca_store_barrier();
		d += 8;
		s += 8;
		len -= 8;
	}
	if (len == 8) {
		uint64_t v;
		memcpy(&v, s, 8);
#if defined(__SANITIZE_THREAD__)
		/* it has to be told that this is a store that others look at */
		if (!((uintptr_t)d & 7)) {
			__atomic_store_n((uint64_t *)d, v, __ATOMIC_RELEASE);
			return;
		}
#endif
		*(shca_any64 *)d = v;
		return;
	}
	for (; len >= 4; d += 4, s += 4, len -= 4) {
		uint32_t v;
		memcpy(&v, s, 4);
		*(shca_any32 *)d = v;
		shca_store_barrier();
	}
	for (; len; d++, s++, len--) {
		*(volatile char *)d = *s;
		shca_store_barrier();
	}
}


/* share.c: copies all but the last 64 bytes of a large copy together with the other process. Returns how many bytes that
 * were; 0: not such a copy. Below the limit, what two CPUs gain in copying they lose by lines that change cores. */
#define SHCA_SHARE_MIN (512u << 10)
uint64_t shca_share_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
			 enum shca_order order, int *rc, bool *src_err);
/* A poller helps whoever copies from or to its process. Returns how many chunks it copied. */
int shca_share_help(struct shca_thread *thr);
/* Counts up the revocation epoch of process `proc`, which has closed a gate or taken a region's key away: every poster that remembers a
 * look-up of either looks again (fast_write.h). Must: behind the store that took it away, before the quiesce (I8). */
static inline void shca_revoke(const struct shca_member *m, uint32_t proc)
{
	atomic_fetch_add(&m->procs[proc & (SHCA_MAX_PROCS - 1)].revoke_epoch, SHCA_REVOKE_STEP);
}

/* Where a thread is that posts to the peer of a connected queue: SHCA_ANYWHERE while there is none. */
static inline uint64_t shca_epoch_has_peer(const struct shca_qp *qp)
{
	return (uint64_t)(qp->peer_proc & 0xffff) << 32;
}

/* helper.c */
/* Joins the fabric (shca_fabric_join), and cleans up after the dead that nobody has noticed. */
int shca_engine_join(struct shca_member *m, const char *name);
/* Leaves it (shca_fabric_leave), the helper thread before. For tests: kills a virtual process (shca_fabric_kill). */
void shca_engine_leave(struct shca_member *m);
void shca_engine_kill(struct shca_member *m);
/* The helper thread of a process that others can reach: holds its life word, runs its timers, reaps the dead. 0; -errno with
 * text. */
int shca_helper_start(struct shca_member *m);
/* Watches a process that this one is connected to: when it dies, the helper thread learns of it from the kernel, and
 * shca_reap (reap.c) fails the queues; of other deaths it learns within SHCA_DEATH_MS. Cheap when it is watched already. */
int shca_watch(struct shca_member *m, uint32_t slot);
/* Somebody seems to have died: the helper thread looks now. */
void shca_look(struct shca_member *m);
/* The device has failed: so do all queues of this process that are not in RESET; what is posted to them is flushed. Their events
 * are the device's. May be repeated. Outside of the engine, or inside of it at top level. */
void shca_fail_all(struct shca_thread *thr);

/* reap.c */
/* Cleans up after a dead process: idempotent, restartable, one reaper at a time. On the helper thread what has to wait for
 * others is left to shca_reap_on, else it is waited for. */
void shca_reap(struct shca_thread *thr, uint32_t slot);
/* Goes on with what could not be finished. false: nothing is left. */
bool shca_reap_on(struct shca_thread *thr);
/* Reaps every dead process of the fabric that nobody has noticed. */
void shca_proc_sweep(struct shca_thread *thr);
/* This thread will not: gives the dead back to whoever comes next. */
void shca_reap_give_up(struct shca_thread *thr);

/* Asynchronous events. Whether some of a queue are unread. */
static inline uint32_t shca_qp_unread(const struct shca_qp *qp)
{
	return atomic_load(&qp->events) & ~SHCA_DC_ARMED;
}
void shca_qp_event(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
void shca_async_wake(struct shca_thread *thr, uint32_t proc);
/* An event cannot be given out yet: this process is woken in some milliseconds to look again, as if by a new one. A negative errno: by
 * nobody, for there is no helper thread. */
int shca_events_again(struct shca_member *m);

/* guid.c: stable for a host and the same in all its processes; host byte order. The port's GID, as in headers. */
uint64_t shca_device_guid(void);
void shca_port_gid(uint64_t prefix, uint8_t gid[16]);
static inline void shca_gid_of(const struct shca_member *m, uint8_t gid[16])
{
	shca_port_gid(atomic_load_explicit(&m->hdr->port.gid_prefix, memory_order_relaxed), gid);
}

#endif
