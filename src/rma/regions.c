/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions of dynamic windows. The owner keeps a table of its regions, with their keys, in fabric memory; an origin reads the
 * table when the version in the owner's state block differs from that of its copy: the target's CPU takes no part.
 *
 *     owner                                       origin
 *     version = odd                               v = version; if odd, or regions_at changes meanwhile: again
 *     the table changes, or another takes over    copy the table
 *     version = even, larger                      if version != v: again
 *
 * A table that was outgrown stays until MPI_Win_free, since an origin may still read it. Where members do not map each other's
 * state blocks, operations on dynamic windows are messages (acc_target.c), and the owner looks at its own list.
 */
#include "rma/target.h"

#include <stdlib.h>
#include <string.h>

/* A table in the fabric: a link for the owner's list of tables, then the entries. */
struct table {
	struct table *next;		/* the owner's */
	struct hdl_win_region region[];
};

static bool table_is_shared(const struct hdl_win *w)
{
	return w->state_shared;
}

static struct table *table_now(const struct hdl_win *w)
{
	return w->region_tables;
}

/* Replaces the table by one with room for more. */
static int regions_grow(struct hdl_win *w)
{
	uint64_t room = w->state->regions_room ? 2 * w->state->regions_room : 16, where = 0;
	struct table *old = table_now(w), *t = hdl_tp_share(hdl_mpi_tp, sizeof(*t) + room * sizeof(t->region[0]), &where);

	if (!t)
		return hdl_rma_no_memory("the regions of a dynamic window");
	if (old)
		memcpy(t->region, old->region, w->state->regions_n * sizeof(t->region[0]));
	t->next = old;
	w->region_tables = t;
	w->state->regions_at = where + offsetof(struct table, region);
	w->state->regions_room = room;
	return MPI_SUCCESS;
}

static void change_begin(struct hdl_win *w)
{
	__atomic_store_n(&w->state->version, w->state->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void change_end(struct hdl_win *w)
{
	__atomic_store_n(&w->state->version, w->state->version + 1, __ATOMIC_SEQ_CST);
}

static int region_publish(struct hdl_win *w, const struct hdl_attached *a)
{
	struct hdl_win_region *r;
	int rc = MPI_SUCCESS;

	if (!table_is_shared(w))
		return MPI_SUCCESS;
	change_begin(w);
	if (w->state->regions_n == w->state->regions_room)
		rc = regions_grow(w);
	if (!rc) {
		r = &table_now(w)->region[w->state->regions_n++];
		*r = (struct hdl_win_region){ .base = (uintptr_t)a->base, .size = a->size };
		r->key_len = hdl_mr_pack(a->mr, r->key);
	}
	change_end(w);
	return rc;
}

static void withdraw(struct hdl_win *w, const struct hdl_attached *a)
{
	struct table *t = table_now(w);

	if (!t)
		return;
	change_begin(w);
	for (uint64_t i = 0; i < w->state->regions_n; i++)
		if (t->region[i].base == (uintptr_t)a->base) {
			t->region[i] = t->region[--w->state->regions_n];
			break;
		}
	change_end(w);
}

int hdl_win_attach(struct hdl_win *w, void *base, MPI_Aint size)
{
	struct hdl_attached *a;
	int rc;

	for (a = w->attached; a; a = a->next)
		if (size && a->size && (uintptr_t)base < (uintptr_t)a->base + a->size &&
		    (uintptr_t)a->base < (uintptr_t)base + (uint64_t)size) {
			hdl_reason_set("%lld bytes at %p overlap with %llu bytes at %p, which are attached", (long long)size,
				       base, (unsigned long long)a->size, a->base);
			return MPI_ERR_RMA_ATTACH;
		}
	if (!(a = calloc(1, sizeof(*a))))
		return hdl_rma_no_memory("a region of a dynamic window");
	*a = (struct hdl_attached){ .base = base, .size = (uint64_t)size };
	/* A region of no bytes is listed for its detach only: a->mr stays NULL, and no peer needs its key. */
	if (size && hdl_mr_register(hdl_mpi_tp, base, (size_t)size, HDL_MR_READ | HDL_MR_WRITE, &a->mr)) {
		free(a);
		return hdl_rma_no_memory("a region of a dynamic window");
	}
	rc = size ? region_publish(w, a) : MPI_SUCCESS;
	if (rc) {
		hdl_mr_deregister(a->mr);
		free(a);
		return rc;
	}
	a->next = w->attached;
	w->attached = a;
	return MPI_SUCCESS;
}

int hdl_win_detach(struct hdl_win *w, const void *base)
{
	for (struct hdl_attached **at = &w->attached; *at; at = &(*at)->next) {
		struct hdl_attached *a = *at;

		if (a->base != base)
			continue;
		if (a->mr) {
			withdraw(w, a);
			hdl_mr_deregister(a->mr);
		}
		*at = a->next;
		free(a);
		return MPI_SUCCESS;
	}
	hdl_reason_set("no region that begins at %p is attached", base);
	return MPI_ERR_RMA_ATTACH;
}

bool hdl_win_has(const struct hdl_win *w, uint64_t base, uint64_t size)
{
	for (const struct hdl_attached *a = w->attached; a; a = a->next)
		if (base >= (uintptr_t)a->base && base - (uintptr_t)a->base <= a->size &&
		    size <= a->size - (base - (uintptr_t)a->base))
			return true;
	return false;
}

void hdl_regions_free(struct hdl_win *w)
{
	struct hdl_attached *a;
	struct table *t;

	while ((a = w->attached)) {
		w->attached = a->next;
		if (a->mr)
			hdl_mr_deregister(a->mr);
		free(a);
	}
	while ((t = w->region_tables)) {
		w->region_tables = t->next;
		hdl_tp_unshare(hdl_mpi_tp, t);
	}
}

/* ---- at the origin --------------------------------------------------------------------------------------------------------- */

void hdl_regions_drop(struct hdl_target *t)
{
	for (uint64_t i = 0; i < t->nregions; i++)
		if (t->region_keys[i])
			hdl_rkey_release(t->region_keys[i]);
	free(t->regions);
	free(t->region_keys);
	t->regions = NULL;
	t->region_keys = NULL;
	t->nregions = t->version = 0;
}

/* Returns true if keys of the copy are in use. */
static bool read_once(struct hdl_target *t, uint64_t version)
{
	uint64_t n = __atomic_load_n(&t->state->regions_n, __ATOMIC_RELAXED);
	uint64_t at = __atomic_load_n(&t->state->regions_at, __ATOMIC_RELAXED);
	const struct hdl_win_region *from = NULL;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&t->state->version, __ATOMIC_RELAXED) != version)
		return false;
	if (n && !(from = hdl_tp_shared_at(hdl_mpi_tp, at, n * sizeof(*from))))
		return true;
	t->regions = malloc((n ? n : 1) * sizeof(*t->regions));
	t->region_keys = calloc(n ? n : 1, sizeof(*t->region_keys));
	if (!t->regions || !t->region_keys)
		return true;
	if (n)
		memcpy(t->regions, from, n * sizeof(*t->regions));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&t->state->version, __ATOMIC_RELAXED) != version) {
		free(t->regions);
		free(t->region_keys);
		t->regions = NULL;
		t->region_keys = NULL;
		return false;
	}
	t->nregions = n;
	t->version = version;
	return true;
}

static int read_table(struct hdl_win *w, struct hdl_target *t)
{
	uint64_t version;

	/* operations under way hold keys of the copy */
	if (t->pending) {
		int rc = hdl_rma_flush(w, t);

		if (rc)
			return rc;
	}
	hdl_regions_drop(t);
	for (unsigned tries = 0; !t->version; tries++) {
		version = __atomic_load_n(&t->state->version, __ATOMIC_ACQUIRE);
		if (!version)
			return MPI_SUCCESS;	/* nothing was ever attached */
		if (version & 1 || !read_once(t, version)) {
			cpu_relax();
			if (tries % 1024 == 1023) {
				hdl_progress_test();
				if (hdl_target_failed(t))
					return hdl_rma_dead(w, t->rank, "reading the regions of");
			}
		} else if (!t->version) {
			hdl_regions_drop(t);
			return hdl_rma_no_memory("the regions of a rank of a dynamic window");
		}
	}
	return MPI_SUCCESS;
}

int hdl_region_find(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		    uint64_t *offset)
{
	int rc = MPI_SUCCESS;

	if (__atomic_load_n(&t->state->version, __ATOMIC_ACQUIRE) != t->version)
		rc = read_table(w, t);
	return rc ? rc : hdl_region_in_copy(w, t, address, size, key, offset);
}

int hdl_region_in_copy(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		       uint64_t *offset)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	for (uint64_t i = 0; i < t->nregions; i++) {
		const struct hdl_win_region *r = &t->regions[i];

		if (address < r->base || address - r->base > r->size || size > r->size - (address - r->base))
			continue;
		if (!t->region_keys[i] && hdl_rkey_unpack(t->ep, r->key, r->key_len, &t->region_keys[i]))
			return hdl_rma_no_memory("the region of a rank of a dynamic window");
		*key = t->region_keys[i];
		*offset = address - r->base;
		return MPI_SUCCESS;
	}
	hdl_reason_set("%llu bytes at %#llx are not attached to %s at rank %d", (unsigned long long)size,
		       (unsigned long long)address, hdl_win_label(w, label), t->rank);
	return MPI_ERR_RMA_RANGE;
}
