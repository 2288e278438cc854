/* SPDX-License-Identifier: BSD-3-Clause */
/* Types as objects: memory, handles, references. */
#include "datatype/layout.h"

#include <stdlib.h>
#include <string.h>

/*
 * Objects lie in slabs that are never given back, each twice as large as the one before. So whatever a program hands in
 * as a handle is known to be an object of ours before it is looked at, and one that was freed is still there to say so.
 * Free objects are taken in the order in which they became free: a stale handle names nobody else's type for as long as
 * can be.
 */
#define SLAB_FIRST	64
#define SLABS		32

static struct {
	struct hdl_type *slab[SLABS];
	int slabs;			/* published last: readers do not take the lock */
	struct hdl_type *oldest, *newest;	/* free */
} pool;

static size_t slab_size(int i)
{
	return (size_t)SLAB_FIRST << i;
}

bool hdl_type_is_handle(uintptr_t address)
{
	int n = __atomic_load_n(&pool.slabs, __ATOMIC_ACQUIRE);	/* pairs with slab_new */

	for (int i = n - 1; i >= 0; i--) {
		uintptr_t distance = address - (uintptr_t)pool.slab[i];

		if (distance < slab_size(i) * sizeof(struct hdl_type))
			return distance % sizeof(struct hdl_type) == 0 &&
			       ((struct hdl_type *)address)->obj.magic == HDL_MAGIC_TYPE;
	}
	return false;
}

static void put(struct hdl_type *t)
{
	t->next = NULL;
	if (pool.newest)
		pool.newest->next = t;
	else
		pool.oldest = t;
	pool.newest = t;
}

static bool slab_new(void)
{
	struct hdl_type *slab;

	if (pool.slabs == SLABS)
		return false;
	slab = calloc(slab_size(pool.slabs), sizeof(*slab));
	if (!slab)
		return false;
	for (size_t i = 0; i < slab_size(pool.slabs); i++)
		put(&slab[i]);
	pool.slab[pool.slabs] = slab;
	__atomic_store_n(&pool.slabs, pool.slabs + 1, __ATOMIC_RELEASE);	/* pairs with hdl_type_is_handle */
	return true;
}

struct hdl_type *hdl_type_new(int combiner, bool large, MPI_Count nargs, MPI_Count ntypes)
{
	MPI_Count *args = malloc((size_t)(nargs ? nargs : 1) * sizeof(*args));
	struct hdl_type **types = calloc((size_t)(ntypes ? ntypes : 1), sizeof(struct hdl_type *));
	struct hdl_type *t;

	if (!args || !types || (!pool.oldest && !slab_new())) {
		free(args);
		free(types);
		return NULL;
	}
	t = pool.oldest;
	pool.oldest = t->next;
	if (!pool.oldest)
		pool.newest = NULL;
	*t = (struct hdl_type){
		.obj = { HDL_MAGIC_TYPE, 1 }, .handles = 1, .combiner = (uint8_t)combiner, .large = large,
		.base = MPI_DATATYPE_NULL, .nargs = nargs, .ntypes = ntypes, .args = args, .types = types,
	};
	return t;
}

void hdl_type_retain(struct hdl_type *t)
{
	if (!t->predefined)
		t->obj.refs++;
}

/* A type may be the last reference to another, and so on: a list instead of calls, however long the chain is. */
void hdl_type_release(struct hdl_type *t)
{
	struct hdl_type *dead = NULL, *old;

	if (t->predefined || --t->obj.refs)
		return;
	t->next = NULL;
	for (dead = t; dead; put(t)) {
		t = dead;
		dead = t->next;
		t->obj.magic = 0;
		for (MPI_Count i = 0; i < t->ntypes; i++) {
			old = t->types[i];
			if (!old || old->predefined || --old->obj.refs)
				continue;
			old->next = dead;
			dead = old;
		}
		hdl_layout_release(t->layout);
		hdl_layout_release(t->typed);
		free(t->args);
		free(t->types);
		free(t->name);
	}
}

void hdl_type_each(void (*fn)(struct hdl_type *t))
{
	for (int i = 0; i < pool.slabs; i++)
		for (size_t k = 0; k < slab_size(i); k++)
			if (pool.slab[i][k].obj.magic == HDL_MAGIC_TYPE && !pool.slab[i][k].predefined)
				fn(&pool.slab[i][k]);
}

void hdl_type_open(struct hdl_type *t)
{
	if (t->predefined)
		return;
	t->obj.refs++;
	t->handles++;
	t->obj.magic = HDL_MAGIC_TYPE;
}

void hdl_type_close(struct hdl_type *t)
{
	if (t->predefined)
		return;
	if (!--t->handles)
		t->obj.magic = 0;
	hdl_type_release(t);
}
