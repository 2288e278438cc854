/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/object.h"

#include <stdlib.h>
#include <string.h>

/* Layout of a free object. */
struct hdl_vacant {
	struct hdl_object obj;		/* without magic */
	struct hdl_vacant *next;
} __attribute__((may_alias));

static size_t slab_objects(const struct hdl_pool *p, int i)
{
	return p->first << i;
}

bool hdl_pool_has_more(const struct hdl_pool *p, uintptr_t address)
{
	int n = __atomic_load_n(&p->slabs, __ATOMIC_ACQUIRE);	/* pairs with grow */

	for (int i = n - 1; i >= 0; i--) {
		uintptr_t distance = address - (uintptr_t)p->slab[i];

		if (distance < slab_objects(p, i) * p->size)
			return distance % p->size == 0;
	}
	return false;
}

static bool object_grow(struct hdl_pool *p)
{
	char *slab = p->slabs < HDL_POOL_SLABS ? calloc(slab_objects(p, p->slabs), p->size) : NULL;

	if (!slab)
		return false;
	p->slab[p->slabs] = slab;
	p->used = 0;
	if (!p->slabs) {
		/* A thread that reads slab0_bytes as 0 calls hdl_pool_has_more. */
		p->slab0 = (uintptr_t)slab;
		/* pairs with hdl_pool_find */
		__atomic_store_n(&p->slab0_bytes, slab_objects(p, 0) * p->size, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&p->slabs, p->slabs + 1, __ATOMIC_RELEASE);	/* pairs with hdl_pool_has_more */
	return true;
}

static bool has_new(const struct hdl_pool *p)
{
	return p->slabs && p->used < slab_objects(p, p->slabs - 1);
}

static void *take_new(struct hdl_pool *p)
{
	return has_new(p) || object_grow(p) ? p->slab[p->slabs - 1] + p->used++ * p->size : NULL;
}

/* Freed objects stay unused while the last slab has objects that were never used. */
static void *object_take(struct hdl_pool *p)
{
	struct hdl_vacant *v = p->oldest;

	if (!v || has_new(p))
		return take_new(p);
	p->oldest = v->next;
	if (!p->oldest)
		p->newest = NULL;
	return memset(v, 0, p->size);
}

void *hdl_pool_take(struct hdl_pool *p)
{
	void *object;

	pthread_mutex_lock(&p->lock);
	object = object_take(p);
	pthread_mutex_unlock(&p->lock);
	return object;
}

void *hdl_pool_take_new(struct hdl_pool *p)
{
	void *object;

	pthread_mutex_lock(&p->lock);
	object = take_new(p);
	pthread_mutex_unlock(&p->lock);
	return object;
}

void hdl_pool_put(struct hdl_pool *p, void *object)
{
	struct hdl_vacant *v = object;

	v->obj.magic = 0;
	v->next = NULL;
	pthread_mutex_lock(&p->lock);
	if (p->newest)
		p->newest->next = v;
	else
		p->oldest = v;
	p->newest = v;
	pthread_mutex_unlock(&p->lock);
}

void hdl_pool_each(struct hdl_pool *p, void (*fn)(void *object, void *arg), void *arg)
{
	for (int i = 0; i < p->slabs; i++)
		for (size_t k = 0; k < slab_objects(p, i); k++)
			if (((struct hdl_object *)(p->slab[i] + k * p->size))->magic)
				fn(p->slab[i] + k * p->size, arg);
}

void hdl_pool_each_referenced(struct hdl_pool *p, void (*fn)(void *object, void *arg), void *arg)
{
	for (int i = 0; i < p->slabs; i++)
		for (size_t k = 0; k < slab_objects(p, i) && (i + 1 < p->slabs || k < p->used); k++)
			if (((struct hdl_object *)(p->slab[i] + k * p->size))->refs)
				fn(p->slab[i] + k * p->size, arg);
}

void hdl_pool_fini(struct hdl_pool *p)
{
	for (int i = 0; i < p->slabs; i++)
		free(p->slab[i]);
	p->slab0 = p->slab0_bytes = 0;
	p->slabs = 0;
	p->oldest = p->newest = NULL;
}
