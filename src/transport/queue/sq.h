/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: send queues. */
#ifndef HDL_TP_SQ_H
#define HDL_TP_SQ_H

#include <infiniband/mlx5dv.h>
#include <string.h>

#include "transport/mem/mem.h"

struct hdl_ep;
struct hdl_tp;
struct hdl_tp_kind;

/* What to do when a request is finished. */
enum hdl_slot_type {
	HDL_SLOT_NONE = 0,
	HDL_SLOT_BUF,		/* struct hdl_txbuf: one reference less */
	HDL_SLOT_SEND,		/* struct hdl_send: its buffer was read in place; done */
	HDL_SLOT_RNDV,		/* struct hdl_send: a chunk was written */
	HDL_SLOT_READ,		/* number of a fetch: a chunk was read */
	HDL_SLOT_RMA,		/* struct hdl_rma: a part was put or got, or an update made */
	HDL_SLOT_RTU,		/* nothing; it is of the queue's own, and never goes again */
};
struct hdl_slot {
	void *ptr;
	struct hdl_ep *ep;
	uint32_t type;
	uint32_t signaled;	/* 0 or 1 */
};

/* A send completion queue, with room for every request of its send queues (they all complete when flushed). */
struct hdl_scq {
	struct hdl_scq *next;
	struct ibv_cq *cq;
	uint32_t size, used;
	uint32_t pending;	/* signaled requests not seen complete */
};

struct hdl_sq {
	uint32_t head, tail;	/* posted; known to be finished */
	uint32_t mask, depth;	/* depth is a power of two, mask = depth - 1 is how many may be in flight */
	uint32_t signaled;	/* behind the last signaled request */
	uint32_t interval;	/* a request in so many is signaled */
	uint32_t id, max_inline;
	bool dead;
	bool broken;		/* in ERR, and to be reset: there is no room until then */
	const struct hdl_tp_kind *kind;
	struct ibv_qp *qp;
	struct hdl_slot *slot;
	struct hdl_scq *scq;
	char *head_buf;		/* HDL_HEAD_BUF registered bytes per slot, for headers that are gathered */
	uint32_t head_lkey;
	struct hdl_dev *dev;
	struct ibv_qp_ex *qpx;	/* DC */
	struct mlx5dv_qp_ex *mqpx;
	struct hdl_ep *ep;	/* of a queue that is one peer's */
	struct hdl_mem head_mem;
	uint64_t requests, bytes;
	uint64_t stalls;	/* no room when wanted */
	uint32_t users;		/* DC: endpoints bound to it */
	/* of kinds with `reset`, see hdl_sq_reset, and `renew`, see hdl_sq_halt */
	const uint32_t *unfinished;	/* not 0 behind a post: the request is kept */
	uint32_t kept_from, kept_to;	/* the last that were, without a gap */
	struct hdl_replay *again;	/* by slot: what its request is made of */
	void *again_mem;		/* the allocation that again and again_data are in */
	char *again_data;		/* ... and its inline data, if it is longer than a line: */
	uint32_t again_max;		/* so many bytes per slot */
	uint32_t broken_head;		/* broken: requests up to this one go again, ... */
	uint32_t broken_tail;		/* ... from this one on */
	uint32_t flushed;		/* of these, known to be flushed */
	uint32_t resets;		/* since a request was carried out, or refused by its peer */
	uint32_t messages;		/* renew: requests that take a receive of the peer's, since the queue was renewed */
	uint32_t first_again;		/* renew: the request that went again first, ... */
	bool failed_again;		/* ... and had failed by itself before that */
	bool settled;			/* renew: broken, and what the peer had got of it has ended */
	bool exact;			/* broken: by a request that was refused: none behind it was carried out */
};
#define HDL_HEAD_BUF 64u
#define HDL_SQ_RESETS_MAX 256u		/* of a queue, without a request that was carried out: its device ails */

/*
 * The time in which a device has flushed a queue, or never will. It is the device's: this process may be stopped at any moment, or
 * have been kept waiting by the call that broke the queue. So it begins behind that call, and when it is over there is one more
 * look:
 *
 *     for (f = hdl_flush_begin(); !flushed && hdl_flush_waits(&f); )
 *             look
 */
struct hdl_flush {
	uint64_t until;
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

/* The depth of a queue for which this one is wanted. */
uint32_t hdl_sq_depth(uint32_t wanted);
/* Makes slots and takes room in a send CQ; then create the QP on sq->scq->cq and set sq->qp. */
int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, const struct hdl_tp_kind *kind, uint32_t depth);
void hdl_sq_fini(struct hdl_sq *sq);	/* destroys the QP, too */
/*
 * What a queue that breaks needs to go on with, where it can (kinds with `reset` or `renew`): what the requests are made of that the
 * device had not carried out. What is gathered stays where it lies until the request is finished; inline data is copied. Which requests
 * these are the device can tell, if it carries requests out while they are posted (shca_unfinished): it has a word, and
 *
 *     K: a request behind whose post the word is 0 has been carried out, with all before it, and none of them is ever reported as
 *        failed or flushed.
 *
 * So the word is looked at behind each post, while the inline data is the caller's still, and only where it is not 0 is the request
 * kept. From the first request that may not have been carried out to the last one posted the word was never 0: those are the newest
 * run of requests that were kept without a gap, [kept_from, kept_to), and kept_to is the head if there are any. Where the device says
 * nothing, the word is one that is never 0, and all are kept. Nobody but this thread posts, so nobody else's post is looked at; what
 * other threads and processes do to the queue meanwhile, K is about.
 *
 * A send queue that peers share, whose request to one of them has failed, or which was stopped by something else, starts
 * again, so that the others' requests, which the device has flushed and not carried out, go again, once and in their order.
 * Between the first error and the reset, which is where requests may be posted, the queue has no room, and flushes are
 * counted: when all that was posted has been reported nothing more is heard of it.
 */
#define HDL_REPLAY_INLINE 1024u		/* inline data up to here has room in each slot: of a queue that is shared (DC has no longer), */
#define HDL_REPLAY_COPIED 4096u		/* and of another one; what is longer goes to the heap */
struct hdl_replay {
	union {
		_Alignas(64) char line[HDL_LINE];	/* inline data that fits */
		struct { struct ibv_sge sge[3]; uint64_t operand[2]; };	/* not inline; operands of an atomic request */
	};
	char *data;			/* inline data in one piece; NULL: it could not be kept */
	char *heap;			/* ... where it is long; freed when the slot keeps another one */
	uint64_t addr;
	uint32_t rkey;
	__be32 imm;
	uint32_t len;			/* inline */
	uint64_t end;			/* a frame: lines of the ring used with it; 0: it is none */
	uint8_t opcode, num_sge, flags;
	bool over;			/* it ended before the queue broke, or was known to have been carried out */
};
_Static_assert(sizeof(struct hdl_replay) == 128, "two lines");
/* The queue pair was created: asks for its word. Of kinds that keep requests. */
void hdl_sq_ask(struct hdl_sq *sq);
void hdl_sq_reset(struct hdl_sq *sq);
/* A new queue that peers share has no room until its kind's reset has brought it to RTS. */
void hdl_sq_hold(struct hdl_sq *sq);
/* The queue was found in error otherwise than by a request. Of kinds that repeat what was lost. */
void hdl_sq_broken(struct hdl_sq *sq);
/*
 * A send queue of one peer's, in error or about to be replaced: brings it to ERR and waits until all that was posted is accounted
 * for: what was carried out for sure has ended then, the rest is kept ("broken"), and there is no room. 0 or a negative errno.
 */
int hdl_sq_halt(struct hdl_sq *sq);
/* Atomic requests must not be carried out twice, and what one has brought may be lost: those in a queue that broke fail, but if it broke
 * by an earlier request that was refused, since none behind that has been carried out. */
/* The peer has taken so many messages by the queues that were in use when this one broke, and so many lines of the ring that we
 * write (ring: whether it is that one). A peer carries requests out in their order: all up to the last that is known has been,
 * and ends; but what an RDMA READ has brought may be lost all the same. Once for each time that it breaks. */
void hdl_replay_settle(struct hdl_sq *sq, uint32_t messages, bool ring, uint64_t lines);
/* The queue is in RTS again: what is kept goes again. failed: the first of it had failed, rather than that it was flushed. 0 or a negative
 * errno, reported. */
int hdl_replay_run(struct hdl_sq *sq, bool failed);
/* A peer has failed: if the queue has requests to it, which may never end, it is stopped and starts again without them. */
void hdl_sq_abandon(struct hdl_sq *sq, const struct hdl_ep *ep);
/* Brings the queue to ERR and takes all its completions: when this returns 0, no request of it reads or writes memory, and what
 * waited for one knows that it has failed. */
int hdl_sq_stop(struct hdl_sq *sq);
/* Takes completions, and returns how many there were. */
int hdl_sq_reap(struct hdl_tp *tp, struct hdl_scq *scq);
bool hdl_sq_room_slow(struct hdl_sq *sq, uint32_t n);
static inline bool hdl_sq_room(struct hdl_sq *sq, uint32_t n)
{
	return likely(sq->head - sq->tail + n <= sq->mask) || hdl_sq_room_slow(sq, n);
}
/* Posts one request. The caller has made sure of room; wr_id, signaling and addressing are filled in. bytes: of the
 * payload. 0 or a negative errno (reported; the queue is then dead). */
int hdl_sq_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr, enum hdl_slot_type type, void *ptr,
		bool signal, size_t bytes);
/* Posts SENDs of n packets to one peer by one call, for a queue whose requests are not kept; as hdl_sq_post otherwise. A request holds a
 * reference to what it does not copy at once. A device that is told of requests by a system call is told once. */
int hdl_sq_post_packets(struct hdl_sq *sq, struct hdl_ep *ep, struct hdl_txbuf *const *pkt, uint32_t n);
#define HDL_SQ_PACKETS 16u		/* so many at most */
static inline char *hdl_sq_head(struct hdl_sq *sq)
{
	return sq->head_buf + (size_t)(sq->head & sq->mask) * HDL_HEAD_BUF;
}
void hdl_replay_record_now(struct hdl_sq *sq, const struct ibv_send_wr *wr, uint64_t lines);
/* Of the request just posted, whose memory is the caller's still: keeps what it is made of if need be. lines: so many of the ring are
 * used with it; 0: it is no frame. */
static inline __attribute__((always_inline)) void hdl_replay_record(struct hdl_sq *sq, const struct ibv_send_wr *wr, uint64_t lines)
{
	if (unlikely(__atomic_load_n(sq->unfinished, __ATOMIC_ACQUIRE)))
		hdl_replay_record_now(sq, wr, lines);
}
/* Of the request just posted by hdl_sq_post: it is a frame. */
static inline void hdl_replay_record_frame(struct hdl_sq *sq, uint64_t lines)
{
	if (sq->again && sq->kept_to == sq->head)
		sq->again[(sq->head - 1) & sq->mask].end = lines;
}
/* A zero-byte request whose completion says that all before it are finished. */
void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep);
/* The same whatever is in flight: a queue whose peer is gone then ends in error, by itself. Not where there is no room: requests in
 * flight tell as much. */
void hdl_sq_probe(struct hdl_sq *sq, struct hdl_ep *ep);

#endif
