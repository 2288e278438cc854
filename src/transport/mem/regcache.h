/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: registrations of the users' memory, kept for the next message where that is safe. */
#ifndef HDL_REGCACHE_H
#define HDL_REGCACHE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hdl_dev;
struct hdl_tp;

/* Registered memory of the user, whole pages of it. */
struct hdl_region {
	struct ibv_mr *mr;		/* what a user of the region needs of it */
	struct hdl_dev *dev;
	uintptr_t from, to;
	uint32_t refs;			/* operations under way; and one more while it is kept */
	bool kept;			/* in the tree and in the list of the least recently used */
	bool stale;			/* other pages may lie there now: set by the reader thread, under `lock` */
	bool watched;
	uint32_t weight;		/* tree: a heap by this, */
	struct hdl_region *left, *right;	/* and sorted by `from` */
	struct hdl_region *newer, *older;
};

/* Begins to keep registrations for devices without paging on demand. Where that cannot be safe it says so once, and each message
 * is registered for itself; so it is where another instance of this process keeps them. -ENOMEM, reported. */
int hdl_regcache_open(struct hdl_tp *tp);
/* ... and ends; nothing is under way. tp->regcache serves on for what a queue gives back yet, and is to be freed last. */
void hdl_regcache_close(struct hdl_tp *tp);
void hdl_regcache_free(struct hdl_tp *tp);
/* Whether registering the same memory again costs nothing. */
bool hdl_regcache_on(const struct hdl_tp *tp);

/* A registration that contains these bytes, with these rights at least; they are in use until hdl_region_put. NULL with errno. */
struct hdl_region *hdl_region_get(struct hdl_dev *dev, const void *p, size_t n, int access);
void hdl_region_put(struct hdl_region *r);
/* It is kept no more: deregistered with the last operation that uses it. r may be NULL, and is put as any. */
void hdl_region_forget(struct hdl_region *r);
/* Gives up what has become stale, if anything has: pages that nobody can reach any more stay pinned until then. */
void hdl_regcache_tidy(struct hdl_tp *tp);

/* Gives up all that is not in use: where memory cannot be locked, what is kept for later is worth less than what is needed now.
 * False: there was nothing. */
bool hdl_regcache_evict(struct hdl_tp *tp);

/* A verb that makes something has failed. True: for want of memory (errno), and there is some now: to be tried once more. */
bool hdl_memory_again(struct hdl_dev *dev);

struct hdl_regcache_stats {
	uint64_t hits, misses, uncached, stale, evicted;
	size_t entries, bytes;
};
struct hdl_regcache_stats hdl_regcache_stats(const struct hdl_tp *tp);

#endif
