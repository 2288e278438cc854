/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: send queues. */
#ifndef HDL_TP_SQ_H
#define HDL_TP_SQ_H

#include <infiniband/mlx5dv.h>
#include <string.h>

#include "transport/mem.h"

struct hdl_ep;
struct hdl_tp_kind;

/* What to do when a request is finished. */
enum hdl_slot_type {
	HDL_SLOT_NONE = 0,
	HDL_SLOT_BUF,		/* struct hdl_txbuf: one reference less */
	HDL_SLOT_SEND,		/* struct hdl_send: its buffer was read in place; done */
	HDL_SLOT_RNDV,		/* struct hdl_send: a chunk was written */
	HDL_SLOT_READ,		/* number of a fetch: a chunk was read */
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
	struct hdl_ep *ep;	/* RC, XRC */
	struct hdl_mem head_mem;
	uint64_t requests, bytes;
	uint64_t stalls;	/* no room when wanted */
	uint32_t users;		/* DC: endpoints bound to it */
	/* of kinds with `reset`, see hdl_sq_reset */
	struct hdl_again *again;	/* by slot: what its request is made of */
	uint32_t broken_head;		/* broken: requests up to this one go again, ... */
	uint32_t broken_tail;		/* ... from this one on */
	uint32_t flushed;		/* of these, known to be flushed */
	uint32_t resets;		/* since a request was carried out */
};
#define HDL_HEAD_BUF 64u

/* The depth of a queue for which this one is wanted. */
uint32_t hdl_sq_depth(uint32_t wanted);
/* Makes slots and takes room in a send CQ; then create the QP on sq->scq->cq and set sq->qp. */
int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, const struct hdl_tp_kind *kind, uint32_t depth);
void hdl_sq_fini(struct hdl_sq *sq);	/* destroys the QP, too */
/*
 * A send queue that peers share, whose request to one of them has failed, or which was stopped by something else, starts
 * again, so that the others' requests, which the device has flushed and not carried out, go again, once and in their order.
 * Between the first error and the reset, which is where requests may be posted, the queue has no room, and flushes are
 * counted: when all that was posted has been reported nothing more is heard of it.
 */
#define HDL_AGAIN_INLINE 1024u		/* the longest inline data of such a queue */
struct hdl_again {
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint64_t addr;
	uint32_t rkey;
	__be32 imm;
	int num_sge;			/* not inline */
	uint32_t len;			/* inline */
	struct ibv_sge sge[3];
	char data[HDL_AGAIN_INLINE];
};
void hdl_sq_reset(struct hdl_sq *sq);
/* The queue was found in error otherwise than by a request. Of kinds that repeat what was lost. */
void hdl_sq_broken(struct hdl_sq *sq);
/* A peer has failed: if the queue has requests to it, which may never end, it is stopped and starts again without them. */
void hdl_sq_abandon(struct hdl_sq *sq, const struct hdl_ep *ep);
/* Brings the queue to ERR and takes all its completions: when this returns 0, no request of it reads or writes memory, and what
 * waited for one knows that it has failed. */
int hdl_sq_stop(struct hdl_sq *sq);
void hdl_sq_reap(struct hdl_scq *scq);
bool hdl_sq_room_slow(struct hdl_sq *sq, uint32_t n);
static inline bool hdl_sq_room(struct hdl_sq *sq, uint32_t n)
{
	return likely(sq->head - sq->tail + n <= sq->mask) || hdl_sq_room_slow(sq, n);
}
/* Posts one request. The caller has made sure of room; wr_id, signaling and addressing are filled in. bytes: of the
 * payload. 0 or a negative errno (reported; the queue is then dead). */
int hdl_sq_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr, enum hdl_slot_type type, void *ptr,
		bool signal, size_t bytes);
static inline char *hdl_sq_head(struct hdl_sq *sq)
{
	return sq->head_buf + (size_t)(sq->head & sq->mask) * HDL_HEAD_BUF;
}
/* Keeps what the request at the head is made of, which is about to be posted; of an inline one the data, in one piece. */
static inline struct hdl_again *hdl_sq_keep(struct hdl_sq *sq, const struct ibv_send_wr *wr)
{
	struct hdl_again *a = &sq->again[sq->head & sq->mask];
	char *at = a->data;

	a->opcode = wr->opcode;
	a->flags = wr->send_flags;
	a->imm = wr->imm_data;
	a->addr = wr->wr.rdma.remote_addr;
	a->rkey = wr->wr.rdma.rkey;
	a->num_sge = wr->num_sge;
	for (int i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];
		const char *p = (const char *)(uintptr_t)s->addr;
		if (unlikely(!(wr->send_flags & IBV_SEND_INLINE))) {
			a->sge[i] = *s;
		} else if (likely(s->length - 8 <= 8)) {	/* a header, or a payload as small */
			uint64_t first, last;
			memcpy(&first, p, 8);
			memcpy(&last, p + s->length - 8, 8);
			memcpy(at, &first, 8);
			memcpy(at + s->length - 8, &last, 8);
			at += s->length;
		} else {
			at = mempcpy(at, p, s->length);
		}
	}
	a->len = (uint32_t)(at - a->data);
	return a;
}
/* A zero-byte request whose completion says that all before it are finished. */
void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep);
/* The same whatever is in flight: a queue whose peer is gone then ends in error, by itself. Not where there is no room: requests in
 * flight tell as much. */
void hdl_sq_probe(struct hdl_sq *sq, struct hdl_ep *ep);

#endif
