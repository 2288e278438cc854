/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: send queues. */
#ifndef HDL_TP_SQ_H
#define HDL_TP_SQ_H

#include <infiniband/mlx5dv.h>

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
};
#define HDL_HEAD_BUF 64u

/* The depth of a queue for which this one is wanted. */
uint32_t hdl_sq_depth(uint32_t wanted);
/* Makes slots and takes room in a send CQ; then create the QP on sq->scq->cq and set sq->qp. */
int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, const struct hdl_tp_kind *kind, uint32_t depth);
void hdl_sq_fini(struct hdl_sq *sq);	/* destroys the QP, too */
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
/* A zero-byte request whose completion says that all before it are finished. */
void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep);

#endif
