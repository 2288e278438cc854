/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: registered memory and send buffers. */
#ifndef HDL_TP_MEM_H
#define HDL_TP_MEM_H

#include <infiniband/verbs.h>

#include "base/base.h"
#include "transport/lanes/ring.h"

struct hdl_dev;
struct hdl_tp;

/* Registered memory; from the device's arena where it has one. */
struct hdl_mem {
	struct hdl_mem *next;
	struct hdl_dev *dev;
	char *p;
	size_t bytes;
	struct ibv_mr *mr;
	bool arena;
};

/* Reports that the heap has no bytes for something. Returns -ENOMEM. */
int hdl_no_memory(const char *what, size_t bytes);
int hdl_mem_alloc(struct hdl_dev *dev, size_t bytes, int access, struct hdl_mem *mem);
void hdl_mem_free(struct hdl_mem *mem);
/* Reports that memory could not be registered, with what is allowed and how to change it. Returns -err. */
int hdl_register_failed(const struct hdl_dev *dev, const char *what, uint64_t bytes, int err);

/* What hdl_tp_alloc gave out and nobody gave back ends; ahead of the devices. */
void hdl_mem_close(struct hdl_tp *tp);

/* A pool for which there was no memory tries again after a while, and every time after twice as long: each message would, and report
 * it again. */
struct hdl_pause {
	uint64_t until_ns, ns;		/* monotonic_ns(); how long it is; 0: there is none */
};
static inline bool hdl_pause_is_over(const struct hdl_pause *p)
{
	return !p->ns || monotonic_ns() >= p->until_ns;
}
#define HDL_PAUSE_FIRST_NS 100000000ull
#define HDL_STARVED_NS (64 * HDL_PAUSE_FIRST_NS)	/* the pause behind the last of seven failures, which together lasted as long */
static inline void hdl_pause_begin(struct hdl_pause *p)
{
	p->ns = p->ns ? 2 * p->ns : HDL_PAUSE_FIRST_NS;
	p->until_ns = monotonic_ns() + p->ns;
}

/* Send buffers of one size; grows by chunks up to max. */
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
	uint32_t size, chunk;		/* bytes of a buffer; buffers of a chunk */
	uint32_t total, max, nfree;
	struct hdl_txbuf *free;
	struct hdl_bufchunk *chunks;
	struct hdl_pause pause;
};
/* Room in a bounce buffer for what stands around a payload: terminator and gap, record, header. */
#define HDL_BOUNCE_AROUND (2 * HDL_LINE + HDL_HEAD_BUF)
void hdl_bufpool_init(struct hdl_bufpool *p, struct hdl_dev *dev, uint32_t size, uint32_t chunk, uint32_t max);
void hdl_bufpool_fini(struct hdl_bufpool *p);
int hdl_bufpool_grow(struct hdl_bufpool *p);
/* As hdl_bufpool_grow, for a caller that can only try again. No buffer comes back to a pool that has none: if memory for its first
 * buffers has been refused for some HDL_STARVED_NS, this ends the job. */
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
