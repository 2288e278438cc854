/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive pools. A pool is empty until a peer can send to that pool, and starts small, so that memory does not grow for peers
 * that never send. The pool grows towards its limit when the device reports that few receives are left (SRQ limit event), or when
 * a turn of progress took most of them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/core/tp.h"

#define PERIOD_NS 10000000ull		/* a peer that has sent little for so long, or twice that, is not active */

struct hdl_rxchunk {
	struct hdl_rxchunk *next;
	struct hdl_mem mem;
	struct hdl_rxbuf buf[];
};

static int srq_arm(struct hdl_rxpool *p)
{
	if (!p->srq || p->total >= p->max)
		return 0;
	p->limit = p->total / 4 ? p->total / 4 : 1;
	struct ibv_srq_attr a = { .srq_limit = p->limit };
	int err = ibv_modify_srq(p->srq, &a, IBV_SRQ_LIMIT);
	if (err) {
		/* the pool still grows by hdl_tp_poll_rcq */
		hdl_debug("%s: ibv_modify_srq(limit %u) failed (%s)", p->dev->name, p->limit, strerror(err));
		p->limit = 0;
	}
	return 0;
}

int hdl_rxpool_flush(struct hdl_rxpool *p)
{
	if (!p->back || p->stopped)
		return 0;
	struct ibv_recv_wr *bad = NULL;
	uint32_t n = p->nback;
	int err = p->srq ? ibv_post_srq_recv(p->srq, &p->back->wr, &bad) : ibv_post_recv(p->qp, &p->back->wr, &bad);

	if (err) {
		hdl_error("%s: cannot post %u receives of the %s pool (%s)", p->dev->name, n, hdl_queue_name(p->queue),
			  strerror(err));
		return -err;
	}
	if (p->last)
		p->last->wr.next = &p->back->wr;
	p->last = p->back_tail;
	p->back = p->back_tail = NULL;
	p->nback = 0;
	p->posted += n;
	return 0;
}

int hdl_rxpool_grow(struct hdl_rxpool *p, uint32_t n)
{
	int err;

	if (n > p->max - p->total)
		n = p->max - p->total;
	if (!n)
		return 0;
	if (!hdl_pause_is_over(&p->pause))
		return -EAGAIN;
	struct hdl_rxchunk *c = calloc(1, sizeof(*c) + n * sizeof(c->buf[0]));
	if (!c && !p->total)
		return hdl_no_memory("the first receives of a pool", sizeof(*c) + n * sizeof(c->buf[0]));
	if ((err = c ? hdl_mem_alloc(p->dev, "receive pools", (size_t)n * p->size, IBV_ACCESS_LOCAL_WRITE, &c->mem) : -ENOMEM)) {
		free(c);
		if (p->total)
			hdl_pause_begin(&p->pause);	/* the pool goes on with the present receives */
		return err;
	}
	p->pause.ns = 0;
	c->next = p->chunks;
	p->chunks = c;
	p->total += n;
	p->batch = p->total / 8 < HDL_RX_BATCH ? p->total / 8 : HDL_RX_BATCH;
	/* a line begins behind the GRH, so that a small packet is one line */
	uint32_t skip = p->packets ? (HDL_LINE - HDL_GRH % HDL_LINE) % HDL_LINE : 0;
	for (uint32_t i = 0; i < n; i++) {
		struct hdl_rxbuf *b = &c->buf[i];
		b->pool = p;
		b->sge = (struct ibv_sge){ .addr = (uintptr_t)(c->mem.p + (size_t)i * p->size + skip),
					   .length = p->size - skip, .lkey = c->mem.mr->lkey };
		b->wr = (struct ibv_recv_wr){ .wr_id = (uintptr_t)b, .sg_list = &b->sge, .num_sge = 1 };
		hdl_rxbuf_back(b);
	}
	if ((err = hdl_rxpool_flush(p)))
		return err;
	p->short_of = false;
	return srq_arm(p);
}

void hdl_rxpool_init(struct hdl_rxpool *p, struct hdl_dev *dev, enum hdl_queue queue, struct ibv_srq *srq,
		    struct ibv_qp *qp, uint32_t size, uint32_t first, uint32_t max)
{
	*p = (struct hdl_rxpool){
		.dev = dev, .queue = queue, .packets = HDL_QUEUE_IN(HDL_QUEUE_PACKETS, queue), .srq = srq, .qp = qp,
		.size = (size + 63) & ~63u, .first = first, .max = max, .period = 1, .ahead = p
	};
}

/* Returns true if each of so many peers may have its base in the pool (hdl_rel_shares). */
static bool is_enough(const struct hdl_rxpool *p, uint32_t peers)
{
	uint32_t base;

	hdl_rel_shares(p->total, UINT32_MAX, 1, &base);
	return (uint64_t)base * peers <= p->total - p->total / 4;
}

int hdl_rxpool_start(struct hdl_rxpool *p, uint32_t peers)
{
	int err = p->total ? 0 : hdl_rxpool_grow(p, p->first);

	/* with less than that senders wait at times */
	while (!err && p->total < p->max && !is_enough(p, peers))
		if (hdl_rxpool_grow(p, p->total))
			break;
	return err;
}

/* Processes that may send: all of this job, or more with peers of other jobs. */
static uint32_t senders(struct hdl_tp *tp)
{
	uint32_t others = (uint32_t)hdl_job.size - 1;

	return tp->peers.live > others ? tp->peers.live : others;
}

void hdl_rxpools_more(struct hdl_dev *dev)
{
	for (int i = 0; i < HDL_POOLS; i++)
		if (dev->rx[i].srq && dev->rx[i].total)
			hdl_rxpool_start(&dev->rx[i], senders(dev->tp));
}

uint32_t hdl_rxpool_share(struct hdl_rxpool *p, uint16_t *mark, bool much, uint32_t since, uint32_t *base)
{
	uint32_t peers = senders(p->dev->tp), active, share;

	if (much && *mark != p->period) {
		*mark = p->period;
		p->active++;
	}
	active = p->active > p->active_last ? p->active : p->active_last;
	share = hdl_rel_shares(p->total, peers, active, base);
	if (!much || share >= HDL_REL_WINDOW || (since < *base && share >= *base))
		return share;
	hdl_rxpool_grow(p, p->total);
	return hdl_rel_shares(p->total, peers, active, base);
}

void hdl_rxpool_period(struct hdl_rxpool *p, uint64_t now)
{
	if (now < p->period_ns)
		return;
	p->period_ns = now + PERIOD_NS;
	p->active_last = p->active;
	p->active = 0;
	if (!++p->period)
		p->period = 1;
}

void hdl_rxpool_fini(struct hdl_rxpool *p)
{
	struct hdl_rxchunk *c;

	while ((c = p->chunks)) {
		p->chunks = c->next;
		hdl_mem_free(&c->mem);
		free(c);
	}
	p->total = p->posted = 0;
	p->back = p->last = NULL;
	p->ahead = p;
}

uint32_t hdl_srq_bytes(void)
{
	/* control messages need some bytes, too */
	uint32_t n = (uint32_t)hdl_vars.eager_max + HDL_WIRE_MOST;

	return n < 1024 ? 1024 : n;
}

uint32_t hdl_rx_depth(int least, int most)
{
	int depth = hdl_vars.srq_depth > least ? hdl_vars.srq_depth : least;

	return (uint32_t)(most > 0 && depth > most ? most : depth);
}

uint32_t hdl_srq_depth(const struct hdl_dev *dev)
{
	uint32_t depth = hdl_rx_depth(HDL_SRQ_LEAST, dev->attr.orig_attr.max_srq_wr);
	uint64_t room = hdl_srq_room();

	return depth > room ? (uint32_t)room : depth;
}

size_t hdl_srq_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (size_t)pages * (size_t)page / 4 / (size_t)hdl_job.local_size : SIZE_MAX;
}

uint64_t hdl_srq_room(void)
{
	return hdl_srq_memory() / hdl_srq_bytes();
}
