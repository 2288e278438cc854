/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: registrations of users' memory, kept for later messages where that is safe. */
#ifndef HDL_REGCACHE_H
#define HDL_REGCACHE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hdl_dev;
struct hdl_tp;

/* A registration of whole pages of the user's memory. */
struct hdl_region {
	struct ibv_mr *mr;		/* for the operation that uses the region */
	struct hdl_dev *dev;
	uintptr_t from, to;
	uint32_t refs;			/* operations that use the region; plus one while the cache keeps the region */
	bool kept;			/* in the tree and in the LRU list */
	bool stale;			/* other pages may lie at these addresses; set by the reader thread, under `lock` */
	bool watched;
	uint32_t weight;		/* treap: heap order */
	struct hdl_region *left, *right;	/* treap: sorted by `from` */
	struct hdl_region *newer, *older;
};

/* Begins to keep registrations, for devices without paging on demand. If that cannot be safe (warns once), or another instance
 * of the process keeps them, each message's memory is registered for itself. Returns 0 or -ENOMEM, reported. */
int hdl_regcache_open(struct hdl_tp *tp);
/* Ends the cache. Must: no operation is under way. tp->regcache stays valid for regions that queues put later, until
 * hdl_regcache_free. */
void hdl_regcache_close(struct hdl_tp *tp);
void hdl_regcache_free(struct hdl_tp *tp);
/* Returns true if registering the same memory again costs nothing. */
bool hdl_regcache_on(const struct hdl_tp *tp);

/* Returns a registration that contains these bytes, with at least these rights; NULL with errno. Ownership: the caller's
 * reference, given back by hdl_region_put. */
struct hdl_region *hdl_region_get(struct hdl_dev *dev, const void *p, size_t n, int access);
void hdl_region_put(struct hdl_region *r);
/* Keeps the region no longer: the last hdl_region_put deregisters it. r may be NULL. Must: the caller still puts the region. */
void hdl_region_forget(struct hdl_region *r);
/* Gives up stale entries, if there are any: until then pages stay pinned that the program has unmapped. */
void hdl_regcache_tidy(struct hdl_tp *tp);

/* Gives up all entries that are not in use, when memory cannot be locked for a present need. Returns false: there were none. */
bool hdl_regcache_evict(struct hdl_tp *tp);

/* Called when a verb that creates an object has failed. Returns true: errno was ENOMEM, and memory was released: try again. */
bool hdl_memory_again(struct hdl_dev *dev);

struct hdl_regcache_stats {
	uint64_t hits, misses, uncached, stale, evicted;
	size_t entries, bytes;
};
struct hdl_regcache_stats hdl_regcache_stats(const struct hdl_tp *tp);

#endif
