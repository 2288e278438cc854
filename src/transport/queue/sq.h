/* SPDX-License-Identifier: BSD-3-Clause */
/* Send queues: slots, posting, completions, the replay log, restart. States: sq_state.h. */
#ifndef HDL_TP_SQ_H
#define HDL_TP_SQ_H

#include <infiniband/mlx5dv.h>
#include <string.h>

#include "transport/mem/mem.h"
#include "transport/queue/sq_state.h"

struct hdl_ep;
struct hdl_tp;
struct hdl_tp_kind;

/* The owner of a request, to which hdl_sq_release reports the end of the request. */
enum hdl_slot_type {
	HDL_SLOT_NONE = 0,
	HDL_SLOT_BUF,		/* struct hdl_txbuf: one reference less */
	HDL_SLOT_SEND,		/* struct hdl_send, whose buffer the device reads in place: done */
	HDL_SLOT_RNDV,		/* struct hdl_send: a chunk was written */
	HDL_SLOT_READ,		/* number of a fetch: a chunk was read */
	HDL_SLOT_RMA,		/* struct hdl_rma: a part was put or got, or an update made */
	HDL_SLOT_RTU,		/* the RTU of a connection, which is never replayed */
};
#define HDL_SLOT_TYPES (HDL_SLOT_RTU + 1)
struct hdl_slot {
	void *ptr;
	struct hdl_ep *ep;
	uint32_t type;		/* enum hdl_slot_type */
	uint32_t signaled;	/* 0 or 1 */
};

/* A send completion queue of several send queues, with an entry for every request of theirs: a queue that is flushed completes
 * all. */
struct hdl_scq {
	struct hdl_scq *next;
	struct ibv_cq *cq;
	uint32_t size, used;	/* entries; those that send queues have reserved */
	uint32_t pending;	/* signaled requests without a completion yet */
};

struct hdl_sq {
	uint32_t head, tail;	/* requests posted; of these, known to be finished. Without room by state: tail = head - depth */
	uint32_t mask, depth;	/* depth is a power of two, mask = depth - 1 is how many requests may be in flight */
	uint32_t signaled;	/* number behind the last signaled request */
	uint32_t interval;	/* one request in so many is signaled */
	uint32_t id, max_inline;	/* index in tp->sqs, UINT32_MAX: none; bytes of inline data */
	uint8_t state;		/* enum hdl_sq_state; written by hdl_sq_step */
	/* BROKEN by a request that was refused, or on a kind that serves target after target: no later request was begun. If
	 * false, a later atomic request may have been carried out, and is not replayed. */
	bool rest_unstarted;
	bool replay_failed;	/* `renew`: request replay_first had failed, rather than been flushed, before its replay */
	const struct hdl_tp_kind *kind;
	struct ibv_qp *qp;
	struct hdl_slot *slot;
	struct hdl_scq *scq;
	char *head_buf;		/* HDL_HEAD_BUF registered bytes per slot, for headers that are gathered */
	uint32_t head_lkey;
	struct hdl_dev *dev;	/* NULL after hdl_sq_fini */
	struct ibv_qp_ex *qpx;	/* DC */
	struct mlx5dv_qp_ex *mqpx;
	struct hdl_ep *ep;	/* the one peer of this queue; NULL: several peers share the queue */
	struct hdl_mem head_mem;
	uint64_t requests, bytes;	/* counters: posted */
	uint64_t stalls;	/* counter: no room when wanted */
	uint32_t users;		/* DC: endpoints bound to this queue */
	/* replay log, of kinds with `reset` (but not `repeats`) or `renew` */
	const uint32_t *unfinished;	/* the device's word (K): not 0 behind a post: the request is recorded */
	uint32_t recorded_from, recorded_to;	/* the newest run of recorded requests without a gap: [recorded_from,
						 * recorded_to) */
	struct hdl_replay *replay;	/* by slot */
	void *replay_mem;	/* the allocation that replay and replay_data are in */
	char *replay_data;	/* inline data that is longer than a line, replay_max bytes per slot */
	uint32_t replay_max;
	/* BROKEN, SETTLED, STOPPING */
	uint32_t replay_tail, replay_head;	/* requests that are to be posted again: [replay_tail, replay_head) */
	uint32_t flushed;	/* of these, requests whose completion was polled */
	uint32_t resets;	/* breaks since a request was carried out, or refused by its peer; see HDL_SQ_RESETS_MAX */
	uint32_t messages;	/* `renew`: requests that take a receive of the peer's, since the queue was renewed */
	uint32_t replay_first;	/* `renew`: the request that the last hdl_replay_run posted first */
};
#define HDL_HEAD_BUF 64u
#define HDL_SQ_RESETS_MAX 256u	/* more breaks in a row, and no request carried out between: the device ails */

static inline bool hdl_sq_is_broken(const struct hdl_sq *sq)
{
	return hdl_sq_state_is_broken((enum hdl_sq_state)sq->state);
}

static inline bool hdl_sq_is_dead(const struct hdl_sq *sq)
{
	return hdl_sq_state_is_dead((enum hdl_sq_state)sq->state);
}

static inline void hdl_sq_step(struct hdl_sq *sq, enum hdl_sq_event event)
{
	sq->state = (uint8_t)hdl_sq_next((enum hdl_sq_state)sq->state, event);
}

/*
 * A time limit for work of a device, such as flushing a queue. This process may be stopped at any moment, or delayed by the call
 * that broke the queue; so the time begins behind that call, and one more look follows its end:
 *
 *     for (f = hdl_flush_begin(); !flushed && hdl_flush_waits(&f); )
 *             look
 */
struct hdl_flush {
	uint64_t until;		/* ns */
	bool over;
};
#define HDL_FLUSH_NS 1000000000u

static inline struct hdl_flush hdl_flush_begin(void)
{
	return (struct hdl_flush){ .until = monotonic_ns() + HDL_FLUSH_NS };
}

static inline bool hdl_flush_waits(struct hdl_flush *f)
{
	bool was = f->over;

	f->over = monotonic_ns() >= f->until;
	return !was;
}

/* ---- sq.c ----- */
/* The depth of a queue for which `wanted` is asked: a power of two, at least 16. */
uint32_t hdl_sq_depth(uint32_t wanted);
/* Makes slots and reserves entries of a send CQ. 0 or a negative errno, reported. Then the caller must create the QP on
 * sq->scq->cq and set sq->qp. */
int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, const struct hdl_tp_kind *kind, uint32_t depth);
/* Destroys the QP and ends the requests that are left. Does nothing to a queue without hdl_sq_init. */
void hdl_sq_fini(struct hdl_sq *sq);
/* Asks the device for the queue pair's word (K). Must follow the creation of the QP; of kinds with a replay log. */
void hdl_sq_ask(struct hdl_sq *sq);
/* Keeps a new queue that peers share without room until the kind's reset has brought the queue to RTS. */
void hdl_sq_hold(struct hdl_sq *sq);
/* The queue was found in error otherwise than by a completion. Of kinds that repeat lost packets. */
void hdl_sq_broken(struct hdl_sq *sq);
/* Tells the slot's owner that its request has ended. */
void hdl_sq_release(struct hdl_tp *tp, struct hdl_slot *slot, int err);
/* Takes completions; returns how many there were. */
int hdl_sq_reap(struct hdl_tp *tp, struct hdl_scq *scq);
bool hdl_sq_room_slow(struct hdl_sq *sq, uint32_t n);
/* Returns true if n more requests may be posted now. */
static inline bool hdl_sq_room(struct hdl_sq *sq, uint32_t n)
{
	return likely(sq->head - sq->tail + n <= sq->mask) || hdl_sq_room_slow(sq, n);
}
/* Posts one request; fills in wr_id, signaling and addressing. Must: hdl_sq_room. bytes: of the payload, for the counter. 0 or
 * a negative errno, reported: then the queue is DEAD. */
int hdl_sq_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr, enum hdl_slot_type type, void *ptr,
		bool signal, size_t bytes);
/* Posts SENDs of n packets to one peer by one call, so that a device whose doorbell is a system call needs one. Must: room for
 * n, at most HDL_SQ_PACKETS; no replay log. A request holds a reference to a packet that the device does not copy at once.
 * Returns as hdl_sq_post. */
int hdl_sq_post_packets(struct hdl_sq *sq, struct hdl_ep *ep, struct hdl_txbuf *const *pkt, uint32_t n);
#define HDL_SQ_PACKETS 16u
static inline char *hdl_sq_head(struct hdl_sq *sq)
{
	return sq->head_buf + (size_t)(sq->head & sq->mask) * HDL_HEAD_BUF;
}
/* Posts a zero-byte request whose completion implies that all earlier requests are finished, unless such a completion is due or
 * nothing is in flight. */
void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep);
/* As hdl_sq_flush, with any requests in flight: a queue whose peer is gone then ends in error. Without room nothing is posted:
 * the requests in flight have the same effect. */
void hdl_sq_probe(struct hdl_sq *sq, struct hdl_ep *ep);
/* hdl_done_reset: hdl_sq_reset runs in hdl_done_run. hdl_done_forget cancels that. */
void hdl_done_reset(struct hdl_sq *sq);
void hdl_done_forget(struct hdl_tp *tp, const struct hdl_sq *sq);

/* ---- replay.c ----- */
/*
 * The replay log: the contents of requests that the device may not have carried out, so that a queue which breaks goes on (kinds
 * with `reset` or `renew`). Gathered memory stays unchanged until the request is finished; inline data is copied. A device that
 * carries requests out while they are posted reports which these are, by a word of the queue pair (shca_unfinished):
 *
 *     K: if the word is 0 behind the post of a request, that request and all earlier ones have been carried out, and none of
 *        them is ever reported as failed or flushed.
 *
 * So the word is read behind each post, while inline data is still the caller's, and the request is recorded only if the word is
 * not 0:
 *
 *     post 7, word 0    7 and all earlier requests are done: the log is empty
 *     post 8, word 1    8 is recorded:         [8, 9)
 *     post 9, word 2    9 is recorded:         [8, 10)
 *     9 fails           8 and 9 are replayed: from the first request that may not have been carried out to the head the word
 *                       was never 0, so they are the newest run without a gap, [recorded_from, recorded_to), and recorded_to
 *                       is the head
 *
 * Of a device without the word every request is recorded (a word that is never 0). Only this thread posts; K covers effects of
 * other threads and processes on the queue.
 */
#define HDL_REPLAY_INLINE 1024u		/* inline data up to here has memory in each slot: of a queue that is shared (DC has no
					 * longer), */
#define HDL_REPLAY_COPIED 4096u		/* and of another one; longer data is on the heap */
struct hdl_replay {
	union {
		_Alignas(64) char inline_data[HDL_LINE];	/* inline data that fits */
		struct { struct ibv_sge sge[3]; uint64_t operand[2]; };	/* not inline; operands of an atomic request */
	};
	char *data;			/* inline data in one piece; NULL: there was no memory */
	char *heap;			/* data, if on the heap; freed when the slot records the next request */
	uint64_t addr;
	uint32_t rkey;
	__be32 imm;
	uint32_t len;			/* bytes of inline data */
	uint64_t end;			/* of a frame: the ring's lines used, this frame's included; 0: no frame */
	uint8_t opcode, num_sge, flags;
	bool over;			/* not replayed: the request ended before the queue broke, or is known to have been
					 * carried out */
};
_Static_assert(sizeof(struct hdl_replay) == 128, "two lines");
/* Makes the log of a queue. 0 or -ENOMEM. */
int hdl_replay_open(struct hdl_sq *sq);
void hdl_replay_close(struct hdl_sq *sq);
void hdl_replay_record_now(struct hdl_sq *sq, const struct ibv_send_wr *wr, uint64_t lines);
/* Records the request just posted, if the device may not have carried it out. Must: the request's memory is still the caller's.
 * lines: the ring's lines used, this frame's included; 0: no frame. */
static inline __attribute__((always_inline)) void hdl_replay_record(struct hdl_sq *sq, const struct ibv_send_wr *wr,
								    uint64_t lines)
{
	if (unlikely(__atomic_load_n(sq->unfinished, __ATOMIC_ACQUIRE)))
		hdl_replay_record_now(sq, wr, lines);
}
/* The request just posted by hdl_sq_post is a frame. */
static inline void hdl_replay_record_frame(struct hdl_sq *sq, uint64_t lines)
{
	if (sq->replay && sq->recorded_to == sq->head)
		sq->replay[(sq->head - 1) & sq->mask].end = lines;
}
/* Returns true if all requests of a broken queue were recorded, as K promises. */
bool hdl_replay_is_complete(const struct hdl_sq *sq);
/* The work request that was recorded as `a`; sge has 3 entries, and inline data of at most HDL_REPLAY_COPIED bytes is copied
 * to `data`. */
void hdl_replay_request(const struct hdl_sq *sq, const struct hdl_replay *a, struct ibv_send_wr *wr, struct ibv_sge *sge,
			char *data);
static inline bool hdl_replay_is_atomic(const struct hdl_replay *a)
{
	return a->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || a->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}
/* Returns true if a request takes a receive of the peer's: SENDs, and the WRITE that has an immediate. */
static inline bool hdl_takes_receive(unsigned opcode)
{
	return opcode - IBV_WR_RDMA_WRITE_WITH_IMM <= IBV_WR_SEND_WITH_IMM - IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* ---- sq_restart.c ----- */
/* Restarts a broken queue that peers share. When a request to one peer has failed, or the queue was stopped from outside, the
 * device flushes the requests to the other peers; these are posted again, once and in their order. Between the break and the
 * reset the queue has no room, and flushed requests are counted: when all are, no completion of the old requests is left. Must be
 * called where requests may be posted (hdl_done_reset). */
void hdl_sq_reset(struct hdl_sq *sq);
/* Brings a peer's own queue to ERR, to be replaced, and waits until all requests posted are accounted for: requests that were
 * carried out for sure have ended, the rest is kept (BROKEN). Returns 0 or a negative errno. */
int hdl_sq_halt(struct hdl_sq *sq);
/*
 * Ends the requests of a BROKEN queue that the peer has carried out, by the peer's proposal or answer: so many messages by the
 * replaced queues, and so many lines of the ring that this process writes (ring: whether the peer means that ring). A peer
 * carries requests out in their order, so all up to the last known one have been. Two kinds are different:
 *     RDMA READ   is replayed: its data may be lost here
 *     atomic      ends with -ECONNRESET: an atomic must not be carried out twice, and its result may be lost; unless
 *                 rest_unstarted
 * Runs once for each break.
 */
void hdl_replay_settle(struct hdl_sq *sq, uint32_t messages, bool ring, uint64_t lines);
/* Posts the kept requests to the queue, which is in RTS again. failed: the first of them had failed, rather than been flushed.
 * 0 or a negative errno, reported. */
int hdl_replay_run(struct hdl_sq *sq, bool failed);
/* A peer has failed: if the queue has requests to that peer, which may never end, the queue is stopped and restarts without
 * them. */
void hdl_sq_abandon(struct hdl_sq *sq, const struct hdl_ep *ep);
/* Brings the queue to ERR and takes all its completions. Returns 0: no request of the queue reads or writes memory any more, and
 * every owner knows that its request has failed; else a negative errno. */
int hdl_sq_stop(struct hdl_sq *sq);

#endif
