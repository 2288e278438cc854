/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive pools. */
#ifndef HDL_TP_RX_H
#define HDL_TP_RX_H

#include "transport/mem/mem.h"
#include "transport/connect/select.h"

/* The pools of a device. RC and DC share one. */
enum hdl_pool { HDL_POOL_PACKETS = 0, HDL_POOL_SRQ, HDL_POOL_XRC, HDL_POOLS };

#define HDL_GRH 40u		/* bytes of a GRH in front of each packet (IBTA 11.4.1.2) */

struct hdl_rxbuf {
	struct ibv_recv_wr wr;		/* wr_id: the address of this struct */
	struct ibv_sge sge;
	struct hdl_rxpool *pool;
};
struct hdl_rxpool {
	struct hdl_dev *dev;
	enum hdl_queue queue;		/* one of the kinds that use the pool, for error texts */
	bool packets;			/* of UD: a packet behind a GRH arrives; else struct hdl_wire */
	struct ibv_srq *srq;		/* NULL: qp has a receive queue of its own */
	struct ibv_qp *qp;
	uint32_t size;
	uint32_t posted, total, max;	/* receives that the device has; that exist; that may exist */
	uint32_t first;			/* receives with which the pool begins */
	uint32_t limit;			/* armed SRQ limit; 0: none */
	uint32_t batch;			/* receives that are posted by one call */
	uint16_t period;		/* number of the period in which active peers are counted */
	uint32_t active, active_last;	/* peers that sent much in this period, and in the one before */
	uint64_t period_ns;		/* when the next period begins */
	struct hdl_pause pause;
	bool stopped;			/* the pool's queue is in error, and is going to be reset: nothing is posted */
	bool short_of;			/* the SRQ limit was reached: the pool must grow */
	struct hdl_rxbuf *back;		/* receives to be posted again, linked by wr.next */
	struct hdl_rxbuf *back_tail;
	uint32_t nback;
	struct hdl_rxbuf *last;		/* the last posted receive: its wr.next becomes the first one of the next post */
	const void *ahead;		/* where the next message will probably arrive, since receives are used in their order:
					 * prefetched */
	struct hdl_rxchunk *chunks;
};
/* Attaches the pool to an SRQ or a UD QP. There are no receives before hdl_rxpool_start. */
void hdl_rxpool_init(struct hdl_rxpool *p, struct hdl_dev *dev, enum hdl_queue queue, struct ibv_srq *srq,
		    struct ibv_qp *qp, uint32_t size, uint32_t first, uint32_t max);
/* Posts the pool's first receives, if that was not done, and enough for so many peers that begin to send. Must be called before
 * any of these can. Returns 0 or a negative errno. */
int hdl_rxpool_start(struct hdl_rxpool *p, uint32_t peers);
/* Adds receives to the shared pools for a peer of another job: the initial pools are sized for this job's peers. */
void hdl_rxpools_more(struct hdl_dev *dev);
/*
 * Returns the share of a sender: how many receives of the pool its messages may take at a time from now on. *base: how many a
 * sender without a share may take (hdl_rel_shares).
 *
 * much: the sender asks for more, and counts, by *mark, among those that share the pool. since: messages of this sender that have
 * come since its last answer.
 *
 * The pool grows if `since` is at least base, which is a stream, or if so many senders ask that a share is less than base. A
 * sender whose base is two asks with each message that is sent alone; if that were enough, a few messages in a large job would
 * make the pool as large as allowed.
 */
uint32_t hdl_rxpool_share(struct hdl_rxpool *p, uint16_t *mark, bool much, uint32_t since, uint32_t *base);
/* Begins the next period if the present one is over. */
void hdl_rxpool_period(struct hdl_rxpool *p, uint64_t now);
void hdl_rxpool_fini(struct hdl_rxpool *p);	/* after the queue is destroyed */
int hdl_rxpool_flush(struct hdl_rxpool *p);
int hdl_rxpool_grow(struct hdl_rxpool *p, uint32_t n);
/* Receives are posted by so many at a time at most, an eighth of a small pool (`batch`): credits for them are given when they are
 * taken, and those not posted yet are of the quarter of the pool that is not granted. UD posts half as many when there is nothing
 * else to do. */
#define HDL_RX_BATCH 16u
/* The receive has completed. hdl_rxbuf_back must follow. Posted receives are linked by wr.next, across posts by `last`. */
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
/* Opens the SRQ of RC and of the DCT, and its pool. Does nothing the second time. */
int hdl_srq_open(struct hdl_dev *dev);
void hdl_srq_close(struct hdl_dev *dev);
/* With fewer receives a pool cannot take the messages in flight. */
#define HDL_SRQ_LEAST 16
/* The receives with which a pool of this depth begins: a sender that finds none waits, and the pool grows. */
#define HDL_SRQ_FIRST(depth) ((depth) / 16 > HDL_SRQ_LEAST ? (depth) / 16 : HDL_SRQ_LEAST)
/* HEDDLE_SRQ_DEPTH, at least `least`, at most `most`, which is the device's maximum (0: not known). */
uint32_t hdl_rx_depth(int least, int most);
/* The same for a shared receive queue. */
uint32_t hdl_srq_depth(const struct hdl_dev *dev);
uint32_t hdl_srq_bytes(void);		/* bytes of a pooled receive of RC, XRC, DC */
size_t hdl_srq_memory(void);		/* bytes that this process's pool of these may take: its part of a quarter of the host's
					 * memory */
uint64_t hdl_srq_room(void);		/* receives that fit into hdl_srq_memory */

#endif
