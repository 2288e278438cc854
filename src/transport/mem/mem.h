/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: registered memory and send buffers. */
#ifndef HDL_TP_MEM_H
#define HDL_TP_MEM_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "transport/lanes/ring.h"

struct hdl_dev;
struct hdl_tp;

/* Registered memory, from the device's arena where there is one. */
struct hdl_mem {
	struct hdl_mem *next;
	struct hdl_dev *dev;
	char *p;
	size_t bytes;
	struct ibv_mr *mr;
	bool arena;
};

/* Reports that malloc failed for `what`. Returns -ENOMEM. */
int hdl_no_memory(const char *what, size_t bytes);
/* what: for the ledger (hdl_ledger_add). */
int hdl_mem_alloc(struct hdl_dev *dev, const char *what, size_t bytes, int access, struct hdl_mem *mem);
void hdl_mem_free(struct hdl_mem *mem);
/* Reports that memory could not be registered, with the limit and how to raise it. Returns -err. */
int hdl_register_failed(const struct hdl_dev *dev, const char *what, uint64_t bytes, int err);

/* Frees all memory of hdl_tp_alloc that was not freed. Must: before the devices are closed. */
void hdl_mem_close(struct hdl_tp *tp);
/* The same for hdl_tp_share. */
void hdl_share_close(struct hdl_tp *tp);

/* Back-off of a pool that got no memory: without it each message would try, and report, again. Each failure doubles the pause. */
struct hdl_pause {
	uint64_t until_ns, ns;		/* end of the pause by monotonic_ns(); its length, 0: none */
};
static inline bool hdl_pause_is_over(const struct hdl_pause *p)
{
	return !p->ns || monotonic_ns() >= p->until_ns;
}
#define HDL_PAUSE_FIRST_NS 100000000ull
/*
 * A pool without any buffer ends the job after this many refused allocations, with pauses of 0.1, 0.2, ... 3.2 s between them,
 * 6.3 s in all. Bounds, both of the defaults: a shortage that passes (a neighbor's exit, a cgroup that reclaims) does so within
 * some seconds; and other ranks would print lines about this one after 10 s at the earliest (HEDDLE_KEEPALIVE,
 * HEDDLE_FINALIZE_WARN), so the line with the cause is the job's first.
 */
#define HDL_STARVED_TRIES 7
#define HDL_STARVED_NS (HDL_PAUSE_FIRST_NS << (HDL_STARVED_TRIES - 1))	/* the pause that would follow the last of them */
static inline void hdl_pause_begin(struct hdl_pause *p)
{
	p->ns = p->ns ? 2 * p->ns : HDL_PAUSE_FIRST_NS;
	p->until_ns = monotonic_ns() + p->ns;
}

/* A send buffer. All buffers of a pool have one size; the pool grows by chunks, up to `max` buffers. */
struct hdl_txbuf {
	struct hdl_txbuf *next;
	struct hdl_bufpool *pool;
	char *data;
	uint32_t lkey;
	uint32_t refs;
	uint32_t len;			/* UD: bytes of the packet */
	uint32_t reserved;
};
struct hdl_bufpool {
	struct hdl_dev *dev;
	uint32_t size, chunk;		/* bytes of a buffer; buffers per chunk */
	uint32_t total, max, nfree;
	struct hdl_txbuf *free;
	struct hdl_bufchunk *chunks;
	struct hdl_pause pause;
};
/* Bytes of a bounce buffer beside the payload: terminator and gap, record, header. */
#define HDL_BOUNCE_AROUND (2 * HDL_LINE + HDL_HEAD_BUF)
void hdl_bufpool_init(struct hdl_bufpool *p, struct hdl_dev *dev, uint32_t size, uint32_t chunk, uint32_t max);
void hdl_bufpool_fini(struct hdl_bufpool *p);
int hdl_bufpool_grow(struct hdl_bufpool *p);
/* As hdl_bufpool_grow, for a caller that has no other way than to try again. A pool without any buffer gets none back: if
 * memory for its first buffers was refused HDL_STARVED_TRIES times, this function aborts the job. */
int hdl_bufpool_need(struct hdl_bufpool *p);
static inline struct hdl_txbuf *hdl_txbuf_get(struct hdl_bufpool *p)
{
	if (unlikely(!p->free) && hdl_bufpool_need(p))
		return NULL;
	struct hdl_txbuf *b = p->free;
	p->free = b->next;
	p->nfree--;
	b->refs = 1;
	return b;
}
static inline void hdl_txbuf_put(struct hdl_txbuf *b)
{
	if (--b->refs)
		return;
	b->next = b->pool->free;
	b->pool->free = b;
	b->pool->nfree++;
}

#endif
