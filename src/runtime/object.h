/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects behind handles, in slabs by which a valid handle is distinguished from any other address.
 *
 * Objects of a kind lie in slabs, each twice as large as the one before, that stay as long as handles of the kind may be used.
 * So each address that a program passes is checked to be an object of the pool before the first read, and a freed object stays
 * mapped, without magic. Freed objects are used again in the order in which they became free: a stale handle names no new object
 * for as long as can be. (Requests are the exception: the object freed last is in the cache, and is used next.)
 *
 * The magic word is valid while the program has a handle; references keep the object beyond that.
 */
#ifndef HDL_OBJECT_H
#define HDL_OBJECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Every object behind a handle begins with this. */
enum hdl_magic { HDL_MAGIC_COMM = 0x48434f4d, HDL_MAGIC_REQ = 0x48524551, HDL_MAGIC_TYPE = 0x48545950,
		 HDL_MAGIC_OP = 0x484f5020, HDL_MAGIC_GROUP = 0x48475250, HDL_MAGIC_ERRH = 0x48455252,
		 HDL_MAGIC_INFO = 0x48494e46, HDL_MAGIC_MESSAGE = 0x484d5347, HDL_MAGIC_WIN = 0x4857494e,
		 HDL_MAGIC_FILE = 0x4846494c, HDL_MAGIC_CVAR = 0x48435641, HDL_MAGIC_PVAR = 0x48505641,
		 HDL_MAGIC_PVAR_SESSION = 0x48505653, HDL_MAGIC_REGISTRATION = 0x48524547,
		 HDL_MAGIC_SESSION = 0x48534553,
		 HDL_MAGIC_COMM_BEGUN = 0x48434f42 /* communicator of MPI_Comm_idup, until that is complete */ };
struct hdl_object {
	uint32_t magic;
	int refs;
};

/* Handles below this are the standard ABI's constants, all larger ones are addresses of objects. */
#define HDL_HANDLE_PREDEFINED	0x1000

static inline bool hdl_handle_is_address(const void *handle)
{
	return (uintptr_t)handle >= HDL_HANDLE_PREDEFINED;
}

#define HDL_POOL_SLABS	26	/* 2^26 times the first slab's objects are more than memory holds */

struct hdl_pool {
	size_t size;			/* of an object */
	size_t first;			/* objects of the first slab */
	uintptr_t slab0, slab0_bytes;	/* the first slab, in which most handles lie: address and bytes; 0: there is
					 * none */
	char *slab[HDL_POOL_SLABS];
	int slabs;			/* published last: readers take no lock */
	size_t used;			/* objects of the last slab that were taken at least once: the rest of the slab
					 * is untouched memory */
	struct hdl_vacant *oldest, *newest;
	pthread_mutex_t lock;		/* guards the list of free objects: some kinds are made before MPI is
					 * initialized, by any thread */
};
#define HDL_POOL(type, first_)	{ .size = sizeof(type), .first = (first_), .lock = PTHREAD_MUTEX_INITIALIZER }

/* Takes an object out of the pool, zeroed. NULL: no memory. */
void *hdl_pool_take(struct hdl_pool *p);
/* Frees an object, and clears the magic word. */
void hdl_pool_put(struct hdl_pool *p, void *object);
/* Takes an object that was never used, for callers that keep their free objects themselves. */
void *hdl_pool_take_new(struct hdl_pool *p);
/* Calls fn for each object with a magic word, of those that a handle may have. fn may put the object back. */
void hdl_pool_each(struct hdl_pool *p, void (*fn)(void *object, void *arg), void *arg);
/* The same for each object that has references, with a handle or without. Must: objects of this pool have their last reference
 * taken away ahead of hdl_pool_put. */
void hdl_pool_each_referenced(struct hdl_pool *p, void (*fn)(void *object, void *arg), void *arg);
/* Frees all memory: no handle of the pool is valid afterwards. */
void hdl_pool_fini(struct hdl_pool *p);

/* Returns true if this is the address of an object of the pool, in use or not, beyond the first slab. */
bool hdl_pool_has_more(const struct hdl_pool *p, uintptr_t address);

/* The object behind a handle, or NULL: the handle is null, foreign, of another kind, or was freed. size: the pool's, as
 * a constant. */
static inline __attribute__((always_inline)) void *hdl_pool_find(const struct hdl_pool *p, const void *handle, uint32_t magic,
								 size_t size)
{
	uintptr_t bytes = __atomic_load_n(&p->slab0_bytes, __ATOMIC_ACQUIRE);	/* pairs with grow */
	uintptr_t distance = (uintptr_t)handle - p->slab0;

	if (likely(distance < bytes) ? distance % size : !hdl_pool_has_more(p, (uintptr_t)handle))
		return NULL;
	return likely(((const struct hdl_object *)handle)->magic == magic) ? (void *)handle : NULL;
}

/* ---- objects left at the end (HEDDLE_REPORT_LEAKS) -------------------------------------------------------- */

/* Notes one object of a kind (a constant text, "datatypes not freed"); fmt describes the object. Objects with equal
 * descriptions are counted; of each kind some different descriptions are kept, and all further objects are only
 * counted. */
void hdl_leak(const char *kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints a line for each kind, and clears the notes. */
void hdl_leaks_print(void);

#endif
