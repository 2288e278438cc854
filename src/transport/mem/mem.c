/* SPDX-License-Identifier: BSD-3-Clause */
#include <shca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "transport/core/tp.h"

#define PAGE 4096u

static size_t round_page(size_t n)
{
	return align_up(n, PAGE);
}

/* Allocates from the device's arena, or, where the device has none or refuses, from the process's own memory. */
static void *arena_alloc(struct hdl_dev *dev, size_t bytes, bool *arena)
{
	void *p = dev->promises.arena ? shca_alloc(dev->port.ctx, bytes) : NULL;

	*arena = p != NULL;
	if (p)
		return p;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

int hdl_mem_alloc(struct hdl_dev *dev, const char *what, size_t bytes, int access, struct hdl_mem *mem)
{
	*mem = (struct hdl_mem){ .dev = dev, .bytes = round_page(bytes) };
	mem->p = arena_alloc(dev, mem->bytes, &mem->arena);
	if (!mem->p && hdl_memory_again(dev))
		mem->p = arena_alloc(dev, mem->bytes, &mem->arena);
	if (!mem->p) {
		hdl_error("%s: cannot allocate %zu bytes for message buffers (%s): lower HEDDLE_RING_PEERS, "
			  "HEDDLE_RING_SIZE or HEDDLE_SRQ_DEPTH, or raise the memory limit",
			  dev->name, mem->bytes, strerror(errno));
		return -ENOMEM;
	}
	mem->mr = ibv_reg_mr(dev->port.pd, mem->p, mem->bytes, access);
	if (!mem->mr && hdl_memory_again(dev))
		mem->mr = ibv_reg_mr(dev->port.pd, mem->p, mem->bytes, access);
	if (!mem->mr) {
		int err = hdl_register_failed(dev, "message buffers", mem->bytes, errno);
		hdl_mem_free(mem);
		return err;
	}
	hdl_ledger_add(what, mem->p, mem->bytes);
	return 0;
}

void hdl_mem_free(struct hdl_mem *mem)
{
	int err = mem->mr ? ibv_dereg_mr(mem->mr) : 0;

	if (err)
		hdl_warn("%s: ibv_dereg_mr of %p failed (%s)", mem->dev->name, (void *)mem->p, strerror(err));
	if (mem->p) {
		hdl_ledger_drop(mem->p);
		if (mem->arena)
			shca_free(mem->dev->port.ctx, mem->p);
		else
			munmap(mem->p, mem->bytes);
	}
	mem->p = NULL;
	mem->mr = NULL;
}

/* ---- send buffers ------------------------------------------------------------------------------------------ */

struct hdl_bufchunk {
	struct hdl_bufchunk *next;
	struct hdl_mem mem;
	struct hdl_txbuf buf[];
};

void hdl_bufpool_init(struct hdl_bufpool *p, struct hdl_dev *dev, uint32_t size, uint32_t chunk, uint32_t max)
{
	*p = (struct hdl_bufpool){ .dev = dev, .size = (size + 63) & ~63u, .chunk = chunk, .max = max };
}

int hdl_bufpool_grow(struct hdl_bufpool *p)
{
	/* a quarter of a chunk at first; then the pool doubles, by at most a chunk */
	uint32_t n = p->total ? p->total : (p->chunk + 3) / 4;

	if (n > p->chunk)
		n = p->chunk;
	if (n > p->max - p->total)
		n = p->max - p->total;
	if (!n || !hdl_pause_is_over(&p->pause))
		return -EAGAIN;
	size_t bytes = sizeof(struct hdl_bufchunk) + n * sizeof(struct hdl_txbuf);
	struct hdl_bufchunk *c = calloc(1, bytes);
	int err = c ? hdl_mem_alloc(p->dev, "send buffers", (size_t)n * p->size, IBV_ACCESS_LOCAL_WRITE, &c->mem) :
		      hdl_no_memory("send buffers", bytes);
	if (err) {
		free(c);
		hdl_pause_begin(&p->pause);
		return err;
	}
	p->pause.ns = 0;
	for (uint32_t i = n; i--;) {
		struct hdl_txbuf *b = &c->buf[i];
		*b = (struct hdl_txbuf){
			.pool = p, .data = c->mem.p + (size_t)i * p->size, .lkey = c->mem.mr->lkey, .next = p->free
		};
		p->free = b;
	}
	c->next = p->chunks;
	p->chunks = c;
	p->total += n;
	p->nfree += n;
	return 0;
}

int hdl_bufpool_need(struct hdl_bufpool *p)
{
	int err = hdl_bufpool_grow(p);
	char text[160];

	if (err && !p->total && p->pause.ns >= HDL_STARVED_NS) {
		snprintf(text, sizeof(text), "out of memory: there is none for the first send buffers of %s, of %u bytes each",
			 p->dev->name, p->size);
		hdl_rt_abort(1, text);
	}
	return err;
}

void hdl_bufpool_fini(struct hdl_bufpool *p)
{
	struct hdl_bufchunk *c;

	while ((c = p->chunks)) {
		p->chunks = c->next;
		hdl_mem_free(&c->mem);
		free(c);
	}
	p->free = NULL;
	p->total = p->nfree = 0;
}

/* ---- MPI_Alloc_mem ----------------------------------------------------------------------------------------- */

struct hdl_user_mem {
	struct hdl_user_mem *next;
	struct hdl_dev *dev;
	void *p;
	size_t bytes;
	bool arena, shared;		/* shared: of hdl_tp_share, at `where` */
	uint64_t where;
};

static void *user_alloc(struct hdl_tp *tp, size_t bytes, bool share)
{
	struct hdl_user_mem *u = malloc(sizeof(*u));
	struct hdl_dev *dev = tp->dev[0];
	size_t n = round_page(bytes ? bytes : 1);

	if (!u || n < bytes) {
		free(u);
		errno = ENOMEM;
		return NULL;
	}
	*u = (struct hdl_user_mem){ .dev = dev, .bytes = n };
	if (share)
		u->p = hdl_tp_share(tp, n, &u->where);
	u->shared = u->p != NULL;
	if (!u->p)
		u->p = arena_alloc(dev, n, &u->arena);
	if (!u->p && hdl_memory_again(dev))
		u->p = arena_alloc(dev, n, &u->arena);
	if (!u->p) {
		free(u);
		return NULL;
	}
	hdl_ledger_add("MPI_Alloc_mem", u->p, n);
	u->next = tp->user_mems;	/* read late: hdl_memory_again may have taken entries off the list */
	tp->user_mems = u;
	return u->p;
}

void *hdl_tp_alloc(struct hdl_tp *tp, size_t bytes)
{
	return user_alloc(tp, bytes, false);
}

void *hdl_tp_alloc_shared(struct hdl_tp *tp, size_t bytes)
{
	return user_alloc(tp, bytes, true);
}

bool hdl_tp_place_of(struct hdl_tp *tp, const void *p, size_t bytes, uint64_t *where)
{
	for (const struct hdl_user_mem *u = tp->user_mems; u; u = u->next) {
		uintptr_t offset = (uintptr_t)p - (uintptr_t)u->p;

		if (!u->shared || offset > u->bytes || bytes > u->bytes - offset)
			continue;
		*where = u->where + offset;
		return true;
	}
	return false;
}

static void free_user_mem(struct hdl_tp *tp, struct hdl_user_mem *u)
{
	hdl_ledger_drop(u->p);
	if (u->shared)
		hdl_tp_unshare(tp, u->p);
	else if (u->arena)
		shca_free(u->dev->port.ctx, u->p);
	else
		munmap(u->p, u->bytes);
	free(u);
}

bool hdl_tp_free(struct hdl_tp *tp, void *p)
{
	for (struct hdl_user_mem **at = &tp->user_mems; *at; at = &(*at)->next) {
		struct hdl_user_mem *u = *at;
		if (u->p != p)
			continue;
		*at = u->next;
		free_user_mem(tp, u);
		return true;
	}
	return !p;
}

void hdl_mem_close(struct hdl_tp *tp)
{
	struct hdl_user_mem *u;

	while ((u = tp->user_mems)) {
		tp->user_mems = u->next;
		free_user_mem(tp, u);
	}
}
