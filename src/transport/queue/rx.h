/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: receive pools. */
#ifndef HDL_TP_RX_H
#define HDL_TP_RX_H

#include "transport/mem/mem.h"
#include "transport/connect/select.h"

/* Where messages arrive. RC and DC share one. */
enum hdl_pool { HDL_POOL_PACKETS = 0, HDL_POOL_SRQ, HDL_POOL_XRC, HDL_POOLS };

#define HDL_GRH 40u		/* before each packet */

struct hdl_rxbuf {
	struct ibv_recv_wr wr;		/* wr_id: this */
	struct ibv_sge sge;
	struct hdl_rxpool *pool;
};
struct hdl_rxpool {
	struct hdl_dev *dev;
	enum hdl_queue queue;		/* for its name: one of the kinds that it is for */
	bool packets;			/* what arrives: packets behind a GRH; else struct hdl_wire */
	struct ibv_srq *srq;		/* or qp */
	struct ibv_qp *qp;
	uint32_t size;
	uint32_t posted, total, max;	/* posted counts what was given to the device and not seen again */
	uint32_t first;			/* what it begins with */
	uint32_t limit;			/* armed SRQ limit; 0: none */
	uint32_t batch;			/* receives that are posted again at a time */
	uint16_t period;		/* peers that send much are counted anew in each */
	uint32_t active, active_last;	/* in this one, in the one before */
	uint64_t period_ns;		/* when the next one begins */
	struct hdl_pause pause;
	bool stopped;			/* its queue is in error, and is to be reset: post nothing */
	bool short_of;			/* the device said that few are left: grow */
	struct hdl_rxbuf *back;		/* to be posted again, linked by wr.next */
	struct hdl_rxbuf *back_tail;
	uint32_t nback;
	struct hdl_rxbuf *last;		/* of those that are posted: its wr.next is the first one that is posted behind it */
	const void *ahead;		/* where the next message will come, probably: receives are used in their order */
	struct hdl_rxchunk *chunks;
};
/* Attaches the pool to an SRQ or a UD QP. It has no receives before hdl_rxpool_start. */
void hdl_rxpool_init(struct hdl_rxpool *p, struct hdl_dev *dev, enum hdl_queue queue, struct ibv_srq *srq,
		    struct ibv_qp *qp, uint32_t size, uint32_t first, uint32_t max);
/* Posts its first receives, if that was not done, and enough for so many peers that begin to send: before any of them is told how. */
int hdl_rxpool_start(struct hdl_rxpool *p, uint32_t peers);
/* There is a peer of another job: enough for it, too, in the shared pools that have begun. They began with enough for this job's. */
void hdl_rxpools_more(struct hdl_dev *dev);
/* Returns the share of a sender: how many receives of the pool its messages may take at a time from now on. *base: how many a sender may
 * take that begins (hdl_rel_shares). much: the sender asks for more, and counts, by *mark, among those that share the pool.
 * since: messages of this sender that have come since it was last answered. The pool grows if they are base at least, which is a stream,
 * or if so many senders ask that a share is less than base. A sender whose base is two asks with each message that it sends alone;
 * if that were enough, a few messages in a large job would make the pool as large as it may be. */
uint32_t hdl_rxpool_share(struct hdl_rxpool *p, uint16_t *mark, bool much, uint32_t since, uint32_t *base);
/* Time has passed. */
void hdl_rxpool_period(struct hdl_rxpool *p, uint64_t now);
void hdl_rxpool_fini(struct hdl_rxpool *p);	/* after the queue is destroyed */
int hdl_rxpool_flush(struct hdl_rxpool *p);
int hdl_rxpool_grow(struct hdl_rxpool *p, uint32_t n);
/* Receives are posted again so many at a time at most, an eighth of a small pool (`batch`): what was taken is granted again, and what
 * is not posted yet comes out of the quarter that is left over. Half as many of UD's when there is nothing else to do. */
#define HDL_RX_BATCH 16u
/* It has come, and hdl_rxbuf_back follows. What is posted is linked by wr.next as far as it was posted at a time, and further (`last`). */
static inline void hdl_rxbuf_came(struct hdl_rxbuf *b)
{
	struct hdl_rxpool *p = b->pool;

	if (p->last == b)
		p->last = NULL;
	p->ahead = b->wr.next ? (const char *)(uintptr_t)b->wr.next->sg_list->addr + (p->packets ? HDL_GRH : 0) : (const char *)p;
}
static inline void hdl_rxbuf_back(struct hdl_rxbuf *b)
{
	struct hdl_rxpool *p = b->pool;

	b->wr.next = NULL;
	if (p->back)
		p->back_tail->wr.next = &b->wr;
	else
		p->back = b;
	p->back_tail = b;
	if (++p->nback >= p->batch)
		hdl_rxpool_flush(p);
}
/* The SRQ of RC and of the DCT, and its pool. Once is enough. */
int hdl_srq_open(struct hdl_dev *dev);
void hdl_srq_close(struct hdl_dev *dev);
/* Fewer receives than these could not take in what is under way. */
#define HDL_SRQ_LEAST 16
/* A pool of this depth begins with so many receives: a sender that finds none waits, and makes the pool grow. */
#define HDL_SRQ_FIRST(depth) ((depth) / 16 > HDL_SRQ_LEAST ? (depth) / 16 : HDL_SRQ_LEAST)
/* HEDDLE_SRQ_DEPTH, but not less than what is useful and not more than the device allows (0: it does not say). */
uint32_t hdl_rx_depth(int least, int most);
/* The same for a shared receive queue. */
uint32_t hdl_srq_depth(const struct hdl_dev *dev);
uint32_t hdl_srq_bytes(void);		/* of a pooled receive of RC, XRC, DC */
size_t hdl_srq_memory(void);		/* bytes that this process's pool of them may take: the part of a quarter of the host's memory */
uint64_t hdl_srq_room(void);		/* how many fit */

#endif
