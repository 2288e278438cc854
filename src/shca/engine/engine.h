/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: runs send requests on whichever CPU makes them runnable. It has no globals: every function takes a struct
 * shca_thread (a thread of a member of the fabric). The verbs layer calls the engine; the engine calls nothing of the verbs
 * layer.
 *
 * Files call downwards (tests/unit/layers.sh), from the highest:
 *
 *   helper.c          the helper thread            guid.c  numbers of the device
 *   qp_lock.c         waiting for a queue's lock   common.c waiting for the lock of a queue pair that several processes hold
 *   reap.c            recovery from the death of a process; common_reap.c: of a holder of common queue pairs
 *   run.c             queues run: drain, WAIT and ENABLE, stalls, flushing
 *   exec.c            one request: finds the responder, checks, moves data, completes; exec_atomic.c: atomics
 *   nak.c             failures in the responder's name, receives that are given back
 *   umr.c             indirect memory keys: configured by requests
 *   window.c          memory windows: bind, invalidate
 *   trace.c           the tap: records of requests, faults of queues
 *   atomic.c, calc.c  atomic operations on memory, CALC
 *   copy.c, share.c   copies, and their division between two processes; copy_piece.c: lanes
 *   mkey.c            indirect memory keys: resolved, run by run, while a request is executed
 *   flow.c            Ethernet frames: the queues to which the flows steer them
 *   cq.c              completions appear; pollers that sleep, channels and WAITs are notified
 *   cq_move.c         a CQ's ring is replaced
 *   rq.c              receives are posted, taken, returned
 *   rq_move.c         a shared receive queue's ring is replaced by a larger one
 *   path.c            ports of a request's path, path migration
 *   qp_fail.c         events and failure of queue pairs
 *   kick.c            queues become runnable
 *   common_holders.c  holders of common queue pairs
 *   calls.c           timers, and calls to the helper thread
 */
#ifndef SHCA_ENGINE_H
#define SHCA_ENGINE_H

/* SHCA_NO_SIMD: compiles the code for processors without SSE2, so that a test can run it on one that has SSE2. */
#if defined(__SSE2__) && !defined(SHCA_NO_SIMD)
#define SHCA_SSE2 1
#include <emmintrin.h>
#endif
#include <infiniband/verbs.h>

#include "lines/lines.h"
#include "shca/fabric/fabric.h"

/* A send request in execution. Of a DIRECT queue: on the poster's stack; of a SHARED one: a view of the WQE. */
struct shca_req {
	uint8_t op, flags, nsge, bad;
	uint32_t imm, rkey, dqpn, qkey, len;
	uint64_t raddr;
	uint64_t arg[4];
	const struct shca_seg *sge;	/* addresses of the queue's owner */
	const void *inl;		/* inline bytes, mapped here; NULL: use sge */
};

/* Outcome of running a request: an enum ibv_wc_status, or one of these. */
#define SHCA_RNR (-1)			/* no receive: the queue stalls */
#define SHCA_NOPEER (-2)		/* no responder answers (yet): the queue stalls until its retries are used up */
#define SHCA_BUSY (-3)			/* some thread may still use a memory window that the request ends: the queue stalls */
#define SHCA_TAP (-4)			/* of a look-up only: the request goes through the tap (exec_tapped) */

/* exec.c. Runs a request up to and including the responder's completion; the requester's own completion is shca_complete_send's.
 * Returns an enum ibv_wc_status, SHCA_RNR, SHCA_NOPEER or SHCA_BUSY. Must: the caller is the executor of qp (I1). Continues from
 * the journal (qp->step) where an earlier executor died. */
int shca_exec(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);
/* Returns whether the responder would answer an RDMA WRITE now and grants the access. Must: inside the engine; leaves the epoch
 * wide. */
bool shca_write_granted(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);
/* Puts the requester's completion of the request at position pos into the send CQ. Returns false if the completion was lost: the
 * queue has failed then. */
bool shca_complete_send(struct shca_thread *thr, struct shca_qp *qp, uint64_t pos, uint8_t op, int status, uint32_t bytes);
/* Returns whether each request of qp names its own receivers, and gets no acknowledgement: UD, RAW_PACKET. */
static inline bool shca_is_datagram(const struct shca_qp *qp)
{
	return qp->type == IBV_QPT_UD || qp->type == IBV_QPT_RAW_PACKET;
}
/* The operation that a completion reports: NOP for a raw request. */
static inline uint8_t shca_completes_as(uint8_t flags, uint8_t op)
{
	return unlikely(flags & SHCA_WQE_RAW) ? SHCA_OP_NOP : op;
}
/* Returns a receive that the running request has taken and will not fill: to the receive's owner, or, where the receive queue
 * serves one queue pair only (which is in error, or will be), to the flusher. No effect if the request holds no receive. */
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
	/* most requests begin with no step */
	if (likely((w & 0xff) == SHCA_STEP_NONE))
		return SHCA_STEP_NONE;
	uint32_t head = (uint32_t)atomic_load_explicit(&qp->head, memory_order_relaxed);
	return w >> 8 == (head & 0xffffff) ? w & 0xff : SHCA_STEP_NONE;
}

/* run.c */
/* Notes the process of qp's peer in peer_proc and watches that process, so that its death is noticed. No effect unless this
 * process owns qp, or has connected it (a common queue pair). Must: peer was found in the table of numbers. */
void shca_peer_known(struct shca_thread *thr, struct shca_qp *qp, const struct shca_qp *peer);
/* Puts qp in error: posted requests are flushed, requests to qp are not answered, the event is raised. Must: inside the engine;
 * any thread. */
void shca_qp_fatal(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
/* Marks the queue as failed, once: its state is ERR, requests to the queue are not answered. shca_flush does the rest when the
 * queue is kicked. */
void shca_qp_failed(struct shca_thread *thr, struct shca_qp *qp, int status);
/* Raises IBV_EVENT_COMM_EST, once. Must: a message has come to a queue whose gate has SHCA_GATE_FIRST. */
void shca_first_message(struct shca_thread *thr, struct shca_qp *qp);
/* shca_qp_fatal, unless the queue has failed already: then the event has been raised. */
void shca_qp_fail_once(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
/* Makes a SHARED queue run as far as possible; shca_drain runs everything that this makes runnable. Must: top level, between
 * shca_enter and shca_leave. */
void shca_kick(struct shca_thread *thr, shca_off qp);
void shca_drain(struct shca_thread *thr);
/* Puts queues that were left over (run.c), of any process, on this thread's todo list. Returns how many. */
int shca_take_left(struct shca_thread *thr);
/* Steals: puts a queue of this process that another thread holds TODO on this thread's todo list, for shca_drain. A poller that
 * finds no completion does so. Returns 1 if the queue was stolen. */
int shca_steal(struct shca_thread *thr, shca_off qp);
/* Lock qp against executors, for a modify or destroy (waits for the running one). */
void shca_qp_lock(struct shca_thread *thr, struct shca_qp *qp);
void shca_qp_unlock(struct shca_thread *thr, struct shca_qp *qp);
/* Takes the lock of a dead executor. seen: the lock word with that executor. Returns false if another thread has taken the lock
 * since. */
bool shca_qp_take_over(struct shca_thread *thr, struct shca_qp *qp, uint64_t seen);
/* Fails the request at head with this status, and the queue. Must: the caller holds the lock. */
void shca_fail_head(struct shca_thread *thr, struct shca_qp *qp, int status);
/* Flushes a queue in error: completes posted send requests, and receives unless they are an SRQ's, with IBV_WC_WR_FLUSH_ERR.
 * Must: the caller holds the lock. */
void shca_flush(struct shca_thread *thr, struct shca_qp *qp);
/* Returns whether no message will come to qp any more: its receives are flushed, and receives that are posted or returned from
 * then on too. A thread that posts or returns a receive asks behind a light fence, and kicks the queue. That fence pairs with
 * the heavy fence behind the store that made the answer true; the queue is kicked behind that heavy fence as well. */
static inline bool shca_flushes(const struct shca_qp *qp)
{
	return unlikely(atomic_load_explicit(&qp->qp_state, memory_order_relaxed) == IBV_QPS_ERR ||
			atomic_load_explicit(&qp->peer_dead, memory_order_relaxed));
}
/* Reads a WQE as a request; req->inl and req->sge point into the WQE. */
void shca_req_of_wqe(const struct shca_qp *qp, const struct shca_wqe *wqe, struct shca_req *req);
/* I7: returns whether the fields of a send queue about its memory and its requests can be true. */
#define SHCA_SQ_SLOTS_MAX 65536u
#define SHCA_SQ_STRIDE_MAX 0xffc0u
static inline bool shca_sq_sound(const struct shca_member *m, const struct shca_qp *qp, uint64_t head, uint64_t posted)
{
	uint32_t slots = qp->sq_slots, stride = qp->sq_stride;

	if (posted <= head)
		return true;	/* no request is read */
	/* the owner stored wqes before `posted` moved */
	shca_off wqes = qp->wqes;
	return likely(slots && slots <= SHCA_SQ_SLOTS_MAX && qp->sq_magic == UINT64_MAX / slots + 1 &&
		      stride >= sizeof(struct shca_wqe) && stride <= SHCA_SQ_STRIDE_MAX && !((wqes | stride) & 15) &&
		      shca_fits(m, wqes, (uint64_t)stride * slots) && posted - head <= slots);
}
/* Returns whether the segments and inline data of a request fit the WQE. */
static inline bool shca_wqe_sound(const struct shca_qp *qp, const struct shca_wqe *wqe)
{
	uint64_t room = qp->sq_stride - sizeof(*wqe);

	/* an inline request has no segments, but CALC and READ use nsge all the same */
	return wqe->bad < 32 && wqe->nsge * sizeof(struct shca_seg) <= room &&
	       (!(wqe->flags & SHCA_WQE_INLINE) || wqe->len <= room);
}
static inline struct shca_wqe *shca_wqe_at(const char *base, const struct shca_qp *qp, uint64_t pos)
{
	/* pos % sq_slots: exact while pos < 2^64 / sq_slots */
	uint64_t laps = (uint64_t)((unsigned __int128)pos * qp->sq_magic >> 64);

	/* An atomic load: shca_kick prefetches from a queue that may be getting its ring just now (shca_reserve_ring). */
	return (struct shca_wqe *)(base + __atomic_load_n(&qp->wqes, __ATOMIC_RELAXED) +
				   (pos - laps * qp->sq_slots) * qp->sq_stride);
}
/* Makes the helper of qp's owner look at qp again at `due` (CLOCK_MONOTONIC ns). Must: the caller is the executor of qp, or has
 * just been (leave_over), or has posted to qp (shca_kick_later). Of two threads that set a time at once either time stays, and
 * qp is looked at then. */
void shca_timer_add(struct shca_member *m, struct shca_qp *qp, uint64_t due);
/* IBTA table 45: the time of an RNR NAK timer field. */
uint64_t shca_rnr_timer_ns(uint8_t field);
/* A receive was posted: queues that RNR has stopped run in shca_drain, one after the other, while there are receives for them. */
void shca_recv_wake(struct shca_thread *thr, struct shca_rq *rq);
/* Kicks all queues on the list of rq, whether there is a receive or not. */
void shca_recv_kick(struct shca_thread *thr, struct shca_rq *rq);

/* Visits the queues of a process. Must: inside the engine. Only the owner changes the list, and it unlinks, quiesces, then
 * frees. */
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
/* Puts a completion into the CQ. Returns false if there is no room: from then on the CQ is in error, takes no completion, its
 * queues fail, and IBV_EVENT_CQ_ERR is raised (IBTA 11.6.3.1). Must on false: the caller fails the queue whose completion was
 * lost. */
bool shca_cq_push(struct shca_thread *thr, struct shca_cq *cq, const struct shca_cqe_in *in);
/* shca_cq_push of words that are complete but for the lap, from position pos on (a result of shca_cq_count). */
bool shca_cq_put(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, uint64_t w0, uint64_t w1, bool solicited);
/* Fails the queues that complete to a CQ in error and have not failed yet; raises the events. May be repeated. */
void shca_cq_fail_users(struct shca_thread *thr, struct shca_cq *cq);
static inline bool shca_cq_in_error(const struct shca_cq *cq)
{
	return unlikely(atomic_load_explicit(&cq->error, memory_order_acquire) & SHCA_ERROR);
}
/* The device's clock: that of ibv_query_rt_values_ex. */
static inline uint64_t shca_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
/* The times of a ring's completions. */
static inline _Atomic uint64_t *shca_cq_stamps(struct shca_cqe *ring, uint32_t log2)
{
	return (_Atomic uint64_t *)(ring + (1ull << log2));
}
static inline uint64_t shca_cqe_w0(uint8_t op, uint8_t status, uint32_t index, uint32_t qpn)
{
	return (uint64_t)(op & 31) << 44 | (uint64_t)(status & 31) << 39 | (uint64_t)(index & 0x7fff) << 24 | (qpn & 0xffffff);
}
uint64_t shca_cq_count_from(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos);
/* Prefetches the lock of a queue that waits for the next completion, and so will run then. */
void shca_cq_expect(struct shca_thread *thr, struct shca_cq *cq);
/* After a death: repeats the notifications of a completion, which the dead producer may have omitted. */
void shca_cq_notice_again(struct shca_thread *thr, struct shca_cq *cq);
/* Looks for a completion of (qpn, index) in cq at or behind position `from` (low 32 bits), which was free when `from` was
 * journaled. Returns 1: found; 0: not there; -1: the ring went round since, so the completion may have been overwritten. */
int shca_cq_find(struct shca_thread *thr, struct shca_cq *cq, uint32_t from, uint32_t qpn, uint32_t index, bool recv);
#define SHCA_CQE_LAP(w0) ((uint32_t)((w0) >> 49))
#define SHCA_CQE_OP(w0) ((uint32_t)((w0) >> 44) & 31)
#define SHCA_CQE_STATUS(w0) ((uint32_t)((w0) >> 39) & 31)
#define SHCA_CQE_INDEX(w0) ((uint32_t)((w0) >> 24) & 0x7fff)
#define SHCA_CQE_QPN(w0) ((uint32_t)(w0)&0xffffff)
/* The lap of a position: never 0, so that a zeroed ring is empty. */
static inline uint32_t shca_cqe_lap(uint64_t pos, uint32_t log2)
{
	uint64_t lap = pos >> log2;

	if (unlikely(lap >= 0x7fff))
		lap %= 0x7fff;
	return (uint32_t)lap + 1;
}
/* I7: adds a word to a seal. A seal is a polynomial of words: the value changes when a word changes, or two words change
 * places. */
static inline uint64_t shca_seal_of(uint64_t seal, uint64_t word)
{
	return 9 * seal + word;
}
/* I7: seal of a CQ, over its ring, size, number, owner and end. The owner stores the seal, as for a receive queue; each
 * completion compares it. */
_Static_assert(offsetof(struct shca_cq, cqn) == offsetof(struct shca_cq, log2) + 4, "shca_cq_seal");
static inline uint64_t shca_cq_seal(const struct shca_member *m, const struct shca_cq *cq)
{
	uint64_t shape, s = shca_off_of(m, cq);

	memcpy(&shape, &cq->log2, sizeof(shape));
	return shca_seal_of(shca_seal_of(shca_seal_of(shca_seal_of(s, cq->ring), shape), cq->proc), cq->end);
}
/* cq_move.c: the same for a CQ whose seal is not right: while the owner replaces the ring, the seal is that of neither ring. */
bool shca_cq_sound_moving(const struct shca_member *m, const struct shca_cq *cq) __attribute__((cold));
static inline bool shca_cq_sound(const struct shca_member *m, const struct shca_cq *cq)
{
	/* a member under a small RLIMIT_AS has less of the fabric than its owner */
	return likely(cq->seal == shca_cq_seal(m, cq) && cq->end <= m->bytes) || shca_cq_sound_moving(m, cq);
}
/* Returns the completion queue at an offset; NULL: none. */
static inline struct shca_cq *shca_cq_at(const struct shca_member *m, shca_off off)
{
	struct shca_cq *cq = shca_at_checked(m, off, sizeof(*cq));

	return cq && shca_cq_sound(m, cq) ? cq : NULL;
}
static inline struct shca_cqe *shca_cq_ring(const struct shca_thread *thr, const struct shca_cq *cq)
{
	return shca_at(thr->base, cq->ring);
}
/* Returns whether the slot of position pos still holds the previous lap. */
static inline bool shca_cqe_free(uint64_t w0, uint64_t pos, uint32_t log2)
{
	uint32_t lap = shca_cqe_lap(pos, log2), seen = SHCA_CQE_LAP(w0);

	return seen == (likely(lap > 1) ? lap - 1 : pos >> log2 ? 0x7fff : 0);
}
/* Returns how many completions ever appeared in cq. */
static inline uint64_t shca_cq_count(struct shca_thread *thr, struct shca_cq *cq)
{
	uint64_t pos = atomic_load_explicit(&cq->tail, memory_order_acquire);
	struct shca_cqe *e = &shca_cq_ring(thr, cq)[pos & ((1ull << cq->log2) - 1)];

	if (likely(shca_cqe_free(atomic_load_explicit(&e->w0, memory_order_acquire), pos, cq->log2) &&
		   pos >= atomic_load_explicit(&cq->floor, memory_order_relaxed)))
		return pos;
	return shca_cq_count_from(thr, cq, pos);
}
/* The slot of the next completion, probably: a hint. */
static inline struct shca_cqe *shca_cq_next_slot(struct shca_thread *thr, struct shca_cq *cq)
{
	return &shca_cq_ring(thr, cq)[atomic_load_explicit(&cq->tail, memory_order_relaxed) & ((1ull << (cq->log2 & 63)) - 1)];
}
/* cq_move.c: the ring that completions go to while the owner replaces the ring. */
struct shca_cq_move {
	struct shca_cqe *ring;
	uint32_t log2;
	bool spare;			/* the unread completions do not fit the ring that was asked for */
	uint64_t first;			/* position of its first completion: those before are in the old ring */
	uint64_t low;			/* the consumer's index when the move began */
};
/* Returns true and the new ring if the owner replaces the ring; ends the old ring first, if no thread has done so. Returns false
 * if no ring is being replaced, or if nothing of it can be true (I7). Must: inside the engine, or the owner under cq->lock. */
bool shca_cq_moved_to(struct shca_thread *thr, struct shca_cq *cq, struct shca_cq_move *to) __attribute__((cold));
static inline bool shca_cq_moving(const struct shca_cq *cq)
{
	return unlikely(atomic_load_explicit(&cq->floor, memory_order_acquire) & SHCA_CQ_MOVING);
}
/* A snapshot of a slot of a CQ. */
struct shca_cq_spot {
	uint64_t pos;
	struct shca_cqe *e;
	uint64_t w0, w1;
	uint32_t lap;
};
/* Reads the slot of position pos of a ring. Returns false if the slot is filled. */
static inline bool shca_cq_look_at(struct shca_cqe *ring, uint32_t log2, uint64_t pos, struct shca_cq_spot *s)
{
	s->pos = pos;
	s->lap = shca_cqe_lap(pos, log2);
	s->e = &ring[pos & ((1ull << log2) - 1)];
	s->w0 = atomic_load_explicit(&s->e->w0, memory_order_acquire);
	s->w1 = atomic_load_explicit(&s->e->w1, memory_order_relaxed);
	return likely(shca_cqe_free(s->w0, pos, log2)) || !SHCA_CQE_LAP(s->w0);
}
/* Reads the slot of position pos. Returns false if the slot is filled, or perhaps beyond the consumer's released slots (floor),
 * or if pos comes from an old hint, or if the ring is being replaced. */
static inline bool shca_cq_look(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, struct shca_cq_spot *s)
{
	if (!shca_cq_look_at(shca_cq_ring(thr, cq), cq->log2, pos, s))
		return false;
	/* behind the ring and the slot: see cq_move.c */
	return likely(pos - atomic_load_explicit(&cq->floor, memory_order_relaxed) < 1ull << cq->log2);
}
/* Stores a completion into the slot. Returns false if another producer was faster. */
static inline bool shca_cq_fill(const struct shca_cq_spot *s, uint64_t w0, uint64_t w1)
{
	unsigned __int128 old = (unsigned __int128)s->w1 << 64 | s->w0;
	unsigned __int128 new = (unsigned __int128)w1 << 64 | w0 | (uint64_t)s->lap << 49;

	return __sync_bool_compare_and_swap((unsigned __int128 *)s->e, old, new);
}
/* Returns whether a WAIT awaits a count that no producer has looked up (`noticed`). Must: behind the completion, see
 * shca_cq_placed. */
static inline bool shca_cq_awaited(const struct shca_cq *cq)
{
	return unlikely(atomic_load_explicit(&cq->noticed, memory_order_relaxed) <
			atomic_load_explicit(&cq->awaited, memory_order_acquire));
}
/* Notifies of a completion: the completion channel, and queues with a WAIT. */
void shca_cq_notice(struct shca_thread *thr, struct shca_cq *cq, bool solicited);
/* The same of the completion at this position, which gets its time if the CQ has times. */
void shca_cq_notice_at(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, bool solicited);
/* To be called when a completion is visible. The CAS that made the completion visible is a full fence; it pairs with the fence
 * between arming and the second look in shca_req_notify_cq, and with the fence between the note of a WAIT (verbs/objects/waits.c)
 * and the executor's second look (run.c). */
static inline void shca_cq_placed(struct shca_thread *thr, struct shca_cq *cq, uint64_t pos, bool solicited)
{
	/* release: a thread that begins at the hint relies on the slots below */
	atomic_store_explicit(&cq->tail, pos + 1, memory_order_release);
	if (((pos + 1) & (SHCA_LINE / sizeof(struct shca_cqe) - 1)) == 0)
		__builtin_prefetch(&shca_cq_ring(thr, cq)[(pos + 1) & ((1ull << cq->log2) - 1)]);
	SHCA_FAILPOINT(thr, "cqe-visible", NULL, 0);
	if (unlikely(atomic_load_explicit(&cq->notify, memory_order_relaxed) & (SHCA_CQ_ARMED | SHCA_CQ_STAMPED) ||
		     shca_cq_awaited(cq)))
		shca_cq_notice_at(thr, cq, pos, solicited);
	shca_note_write_to(thr, cq->proc);	/* sealed */
}

/* Completes the running request of qp, at the responder (step SHCA_STEP_RCQE) or at the requester (SHCA_STEP_SENT). The step is
 * journaled first, so that a successor looks for the completion (shca_cq_find) before a second try. Returns false if the
 * completion was lost. */
static inline __attribute__((always_inline)) bool shca_cq_complete(struct shca_thread *thr, struct shca_qp *qp,
								   struct shca_cq *cq, uint32_t step, int status, uint64_t w0,
								   uint64_t w1, bool solicited)
{
	if (!shca_cq_sound(thr->m, cq))
		return false;
	struct shca_cq_spot spot;
	bool seen = shca_cq_look(thr, cq, atomic_load_explicit(&cq->tail, memory_order_acquire), &spot);
	/* not the hint: an older completion of the same receive may be behind the hint */
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

/* Resolves an address of a process whose lane is unknown: the arena where the process has the fabric mapped there, else private
 * memory. */
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
 * I7: seal of a receive queue: the fields that describe its memory, number and owner. Every message that takes a receive
 * compares the seal, which the owner has stored: cheaper than to check each field. Overwritten fields do not match, nor do
 * zeroes, nor the fields of another queue, since the queue's own offset is part of the seal. A receive is a line or more. The
 * fields are written once, and the ring is published behind them (release). A thread that reads the fields earlier has seen no
 * ring, and no seal matches that.
 */
_Static_assert(sizeof(struct shca_rwqe) <= SHCA_LINE && offsetof(struct shca_rq, stride) == offsetof(struct shca_rq, log2) + 4 &&
	       offsetof(struct shca_rq, proc) == offsetof(struct shca_rq, number) + 4, "shca_rq_seal");
#define SHCA_RQ_LOG2_MAX 15
static inline uint64_t shca_rq_seal(const struct shca_member *m, const struct shca_rq *rq, uint64_t ring)
{
	typedef uint64_t __attribute__((may_alias)) pair;
	/* atomic: the owner may write `log2` while it replaces the ring, and then `ring` is none */
	uint64_t shape = __atomic_load_n((const pair *)&rq->log2, __ATOMIC_RELAXED), whose, s = shca_off_of(m, rq);

	memcpy(&whose, &rq->number, sizeof(whose));
	s = shca_seal_of(s, ring);
	s = shca_seal_of(s, shape);
	s = shca_seal_of(s, whose);
	s = shca_seal_of(s, __atomic_load_n(&rq->wqes, __ATOMIC_RELAXED));
	s = shca_seal_of(s, __atomic_load_n(&rq->marks, __ATOMIC_RELAXED));
	return shca_seal_of(s, __atomic_load_n(&rq->end, __ATOMIC_RELAXED));
}
/* The same check for a queue to which no receive was posted so far. */
bool shca_rq_empty_sound(const struct shca_member *m, const struct shca_rq *rq, uint64_t ring);
static inline bool shca_rq_sound(const struct shca_member *m, const struct shca_rq *rq)
{
	uint64_t ring = atomic_load_explicit(&rq->ring, memory_order_acquire);

	/* a member under a small RLIMIT_AS has less of the fabric than its owner */
	if (likely(__atomic_load_n(&rq->seal, __ATOMIC_RELAXED) == shca_rq_seal(m, rq, ring)))
		return likely(__atomic_load_n(&rq->end, __ATOMIC_RELAXED) <= m->bytes);
	return shca_rq_empty_sound(m, rq, ring);
}
/* Returns whether the queue has a ring, and so the fields that the seal covers. */
static inline bool shca_rq_made(const struct shca_member *m, const struct shca_rq *rq)
{
	return atomic_load_explicit(&rq->ring, memory_order_acquire) != shca_off_of(m, &rq->none);
}
/* Returns the receive queue at an offset; NULL: there can be none. */
static inline struct shca_rq *shca_rq_at(const struct shca_member *m, shca_off off)
{
	struct shca_rq *rq = shca_at_checked(m, off, sizeof(*rq));

	return rq && shca_rq_sound(m, rq) ? rq : NULL;
}
/* Returns whether the segments of a receive fit its stride. */
static inline bool shca_rwqe_sound(const struct shca_rwqe *w, uint32_t stride)
{
	return sizeof(*w) + w->nsge * (sizeof(struct shca_seg) + sizeof(struct shca_ground)) <= stride;
}
static inline struct shca_ground *shca_rwqe_ground(const struct shca_rwqe *w, uint32_t stride, uint32_t segment)
{
	return (struct shca_ground *)((char *)w + stride) - 1 - segment;
}
/* Returns whether the regions of a receive are those of its post. Must: inside the engine, before data is written to the
 * receive. The process that takes a region away counts up `revoke_epoch` (shca_revoke) before its quiesce (I8). So this thread
 * either reads the new epoch, or the quiesce waits for this thread. */
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
/* Notes that the owner has polled the completion of a receive. Must: called by the owner. */
static inline void shca_rq_polled(_Atomic uint64_t *mark)
{
	atomic_store_explicit(mark, atomic_load_explicit(mark, memory_order_relaxed) | 1, memory_order_release);
}
/* Returns whether the receive that was posted at this position can still be taken. */
static inline bool shca_rwqe_posted(const struct shca_rwqe *w, uint64_t pos)
{
	return atomic_load_explicit(&w->word, memory_order_acquire) == shca_rword(SHCA_R_POSTED, 0, pos);
}
/* Takes this receive for queue qpn. Returns false if another taker was faster. journal: as shca_rq_take's, with step_rq and
 * step_to set. Index and position are journaled before the take: a successor asks shca_rq_taken_at. */
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
/* Takes the next receive for queue qpn. journal: the queue whose running request needs the receive (the caller is the executor),
 * NULL when flushing. Returns the receive's index; -1: none; SHCA_RQ_BROKEN: the ring cannot be right (I7). */
#define SHCA_RQ_BROKEN (-2)
int shca_rq_take(struct shca_thread *thr, struct shca_rq *rq, uint32_t qpn, struct shca_qp *journal);
/* To be called when shca_rq_take has returned a negative value, none: *rq has no receive, unless its ring is being replaced.
 * Takes a receive of the newer ring then, and *rq becomes that ring. Returns as shca_rq_take. */
int shca_rq_take_moved(struct shca_thread *thr, struct shca_rq **rq, int none, uint32_t qpn, struct shca_qp *journal)
	__attribute__((cold));
/* Returns the ring with the receive that was posted at this position, if this queue has taken the receive, whose completion is
 * not polled yet; else NULL. The ring is rq, or a ring of rq (rq_move.c). */
struct shca_rq *shca_rq_taken_at(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
/* Hands a receive that this queue has taken to the flusher (shca_flush). Returns false if neither this queue nor the flusher has
 * the receive. */
bool shca_rq_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
bool shca_rq_in_flush(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* Posts w, the receive at index of ring `in`, which is rq, or the newest ring of rq (rq_move.c). Must: called by the owner; the
 * segments are filled in. */
void shca_rq_post(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *in, struct shca_rwqe *w, uint32_t index);
/* Returns a receive, taken by this queue, whose message will not come: the owner will post it again. rq: the receive queue, or a
 * ring of it. */
void shca_rq_return(struct shca_thread *thr, struct shca_rq *rq, uint32_t index, uint64_t pos, uint32_t qpn);
void shca_rq_notice_returned(struct shca_thread *thr, struct shca_rq *rq);
/* To be called when receives were posted or returned: kicks their queue if it flushes (shca_flushes). */
void shca_rq_notice_posted(struct shca_thread *thr, struct shca_rq *rq);
/* Hands a returned receive to the flusher, which completes it: the owner might never look. Returns false if the receive was not
 * returned. */
bool shca_rq_returned_to_flusher(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* Returns whether the receive at index was returned; makes it IDLE then, in the newest ring. Must: called by the owner. */
bool shca_rq_reclaim(struct shca_thread *thr, struct shca_rq *rq, uint32_t index);
/* Returns whether shca_rq_take would find a receive, or a broken ring. */
bool shca_rq_ready(struct shca_thread *thr, struct shca_rq *rq);
/* Puts qp on the list of queues that run when a receive is posted. A queue is on one list at most. */
void shca_rnr_link(struct shca_thread *thr, struct shca_rq *rq, struct shca_qp *qp);
static inline bool shca_rnr_any(const struct shca_rq *rq)
{
	return (atomic_load_explicit(&rq->rnr, memory_order_relaxed) |
		atomic_load_explicit(&rq->rnr_turn.first, memory_order_relaxed)) != 0;
}
/* Takes the longest-waiting queue off the list. Returns 0 if there is none. */
shca_off shca_rnr_next(struct shca_thread *thr, struct shca_rq *rq);
/* Gets qp off its list, by a kick of that whole list. Returns 0 if qp is on none; else the link (rnr_linked) that another thread
 * is making or holds, or that was lost with a dead thread: only quiesces can tell. Linear: for a reaper, for many zombies
 * (verbs/objects/zombie.c), and for a queue that stalls elsewhere. */
uint32_t shca_rnr_unlink(struct shca_thread *thr, struct shca_qp *qp);
/* Ends a link that no thread holds (reap.c). Must: since the link was seen, three times, every thread has left the engine and
 * then the list was emptied. */
void shca_rnr_lost(struct shca_thread *thr, struct shca_qp *qp, uint32_t link);

/* rq_move.c */
/* Returns the newest ring of a receive queue: rq itself if its ring was never replaced. */
struct shca_rq *shca_rq_newest(const struct shca_member *m, struct shca_rq *rq) __attribute__((cold));
/* Returns the ring in which the receive at index was posted last, from the newest ring on; NULL: none (I7, or no receive was
 * posted). */
struct shca_rq *shca_rq_of_index(const struct shca_member *m, struct shca_rq *newest, uint32_t index) __attribute__((cold));
/* Makes a receive of ring `in` POSTED that is COMING at this position, if the older ring's is MOVED. */
void shca_rwqe_arrive(const struct shca_member *m, struct shca_rq *in, uint32_t index, uint64_t pos) __attribute__((cold));
/* Copies the segments of a receive. Must: neither receive can be taken. */
void shca_rwqe_copy(struct shca_rwqe *to, const struct shca_rwqe *from, uint32_t stride);
/* Puts the receives that are posted in ring `from`, the newest one, into ring `to`, which has its memory, zeroed, and its size.
 * Must: called by the owner, which posts to ring `to` from now on, and whose own tables (wr_id, free indexes) are those of `to`;
 * no receive is posted meanwhile. */
void shca_rq_move(struct shca_thread *thr, struct shca_rq *rq, struct shca_rq *from, struct shca_rq *to);

/* copy.c */
/* as shca_iov.proc: memory that may be loaded and stored: the engine's own, or inline data */
#define SHCA_HERE UINT32_MAX
struct shca_iov {
	uint32_t proc;			/* process of the addresses; or SHCA_HERE */
	const struct shca_seg *seg;
	uint32_t n;
	uint64_t skip;			/* bytes of the list to skip first */
};
/* Moves bytes between segment lists of two processes; stops after len. Returns 0, or -EFAULT (bad memory), -ESRCH (the process
 * has died), -ENOMEM or another negative errno; src_err: whether the source failed. */
int shca_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
	      enum shca_order order, bool *src_err);
/* shca_copy from memory that may be loaded. */
int shca_copy_to(struct shca_thread *thr, const struct shca_iov *dst, const void *src, uint64_t len, enum shca_order order);
/* Reads len bytes of segments of this process into a buffer of the thread. Returns the buffer, valid until the thread's next
 * copy; NULL: more than SHCA_BOUNCE, unreadable segments, or no memory. */
#define SHCA_BOUNCE 65536u
const char *shca_fetch(struct shca_thread *thr, const struct shca_seg *seg, uint32_t n, uint32_t len);
/* Loads and stores at the user's addresses, of any alignment. */
typedef volatile uint64_t shca_any64 __attribute__((aligned(1), may_alias));
typedef volatile uint32_t shca_any32 __attribute__((aligned(1), may_alias));
/* Keeps the stores of shca_store_ordered in order: the compiler may not merge or reorder them; x86 keeps the order of stores,
 * elsewhere a release fence does. Its partner is the acquire by which a reader looks at the last store. */
static inline void shca_store_barrier(void)
{
#if defined(__x86_64__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_release);
#endif
}

/* 16 bytes of any alignment. Stored in one piece, or in two pieces, the lower first: visible in ascending order either way. */
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
	uint64_t low, high;		/* words by address */
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

/* A copy in any order, inlined for lengths that are mostly a line or less. */
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
		/* the most common length: ring entries are lines */
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
		/* tells TSan that readers poll this store */
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

/* share.c: copies a large copy together with the other process: all of it, or all but the last 64 bytes if `order` is
 * SHCA_LAST_LINE_LAST. Returns the bytes copied; 0: the copy is not divisible. rc: 0, or a negative errno. Below SHCA_SHARE_MIN,
 * lines that change cores cost more than the second CPU gains. */
#define SHCA_SHARE_MIN (512u << 10)
uint64_t shca_share_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
			 enum shca_order order, int *rc, bool *src_err);
/* Called by a poller: copies chunks of a copy from or to its process. Returns how many chunks it copied. */
int shca_share_help(struct shca_thread *thr);
/* Counts up the revocation epoch of process `proc`, which has closed a gate or ended a region's key: every poster with a
 * remembered look-up of either looks again (fast_write.h). Must: behind the store that closed or ended, before the quiesce
 * (I8). */
static inline void shca_revoke(const struct shca_member *m, uint32_t proc)
{
	atomic_fetch_add(&m->procs[proc & (SHCA_MAX_PROCS - 1)].revoke_epoch, SHCA_REVOKE_STEP);
}

/* The epoch of a thread that posts to the peer of a connected queue; SHCA_ANYWHERE while there is no peer. */
static inline uint64_t shca_epoch_has_peer(const struct shca_qp *qp)
{
	return (uint64_t)(qp->peer_proc & 0xffff) << 32;
}

/* helper.c */
/* Gives a member the helper thread, which shca_helper_start starts. Must: once, behind joining the fabric; shca_engine_join calls
 * it. */
void shca_engine_attach(struct shca_member *m);
/* Joins the fabric (shca_fabric_join), and reaps dead processes that no member has noticed. */
int shca_engine_join(struct shca_member *m, const char *name);
/* Ends the helper thread and leaves the fabric (shca_fabric_leave). For tests: kills a virtual process (shca_fabric_kill). */
void shca_engine_leave(struct shca_member *m);
void shca_engine_kill(struct shca_member *m);
/* Starts the helper thread of a process that other processes can reach, if it is not running: the thread holds the life word,
 * runs timers, reaps the dead. Returns 0, or -errno with text. */
static inline int shca_helper_start(struct shca_member *m)
{
	return m->helper_start(m);
}
/* calls.c */
/* Watches a process that this one is connected to: on its death the kernel wakes the helper thread, and shca_reap (reap.c) fails
 * the queues. The helper notices other deaths within SHCA_DEATH_MS. Cheap when the process is watched already. */
int shca_watch(struct shca_member *m, uint32_t slot);
/* Makes the helper thread look for dead processes now. */
void shca_look(struct shca_member *m);
/* The device has failed: fails all queues of this process that are not in RESET, without events (the device has the event);
 * their posted requests are flushed. May be repeated. Must: outside of the engine, or inside at top level. */
void shca_fail_all(struct shca_thread *thr);

/* reap.c */
/* Cleans up after a dead process: idempotent, restartable, one reaper at a time. On the helper thread stages that would have to
 * wait are left to shca_reap_on. A joining thread tries these stages here for a while, then gives the reaping up; a virtual
 * process tries until the end. */
void shca_reap(struct shca_thread *thr, uint32_t slot);
/* Continues unfinished reaping. Returns false if none is left. */
bool shca_reap_on(struct shca_thread *thr);
/* Reaps every dead process of the fabric that no member has noticed. */
void shca_proc_sweep(struct shca_thread *thr);
/* Gives this thread's unfinished reaping back, for the next reaper. */
void shca_reap_give_up(struct shca_thread *thr);

/* Asynchronous events. Returns the unread events of a queue. */
static inline uint32_t shca_qp_unread(const struct shca_qp *qp)
{
	return atomic_load(&qp->events) & ~SHCA_DC_ARMED;
}
void shca_qp_event(struct shca_thread *thr, struct shca_qp *qp, enum ibv_event_type event);
void shca_async_wake(struct shca_thread *thr, uint32_t proc);
/* Defers an event that cannot be given out yet: the helper wakes this process in some milliseconds to look again, as a new event
 * would. Returns a negative errno if there is no helper thread, so that no wake-up comes. */
int shca_events_again(struct shca_member *m);

/* Counts for verbs/counters.c. Must: not on a hot path. */
static inline void shca_hw_count(const struct shca_member *m, const struct shca_qp *qp, enum shca_hw_counter which)
{
	struct shca_port *port = shca_port_of(m, SHCA_PATH_PORT(atomic_load_explicit(&qp->path, memory_order_relaxed)));

	atomic_fetch_add_explicit(&port->hw[which], 1, memory_order_relaxed);
}

/* guid.c: the GUID is the same for all processes of a host and does not change; host byte order. A port's GID, as in
 * headers. */
uint64_t shca_device_guid(void);
/* The LID of a multicast group, which follows from its GID, so that all members agree without a subnet administrator. */
uint16_t shca_group_lid(const uint8_t gid[16]);
/* The port of the fabric that has the address; 0: none. */
uint32_t shca_port_of_gid(const struct shca_member *m, const uint8_t gid[16]);
uint32_t shca_port_of_lid(const struct shca_member *m, uint16_t lid);
void shca_port_gid(uint64_t prefix, uint32_t port, uint8_t gid[16]);
static inline void shca_gid_of(const struct shca_member *m, uint32_t port, uint8_t gid[16])
{
	shca_port_gid(atomic_load_explicit(&shca_port_of(m, port)->gid_prefix, memory_order_relaxed), port, gid);
}

#endif
