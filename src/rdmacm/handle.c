/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: the numbers by which commands name cm_ids and multicast groups. */
#include <errno.h>
#include <stdlib.h>

#include "rdmacm/internal.h"

#define LEVEL 1024u
_Static_assert(RCM_HANDLES == LEVEL * LEVEL, "two levels");
struct handle {
	_Atomic uintptr_t id;		/* struct rcm_id | enum rcm_kind; 0: free */
	uint32_t next_free;		/* handle + 1 */
};
static struct handle *_Atomic handles[LEVEL];	/* segments of LEVEL, made when needed */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t handles_made, handle_free;	/* guarded by handles_lock */

int rcm_handle_new(struct rcm_id *id, enum rcm_kind kind, uint32_t *handle)
{
	int err = 0;

	pthread_mutex_lock(&handles_lock);
	if (handle_free) {
		*handle = handle_free - 1;
	} else if (handles_made == LEVEL * LEVEL) {
		err = -EMFILE;		/* said: the caller */
	} else {
		*handle = handles_made;
		struct handle *_Atomic *seg = &handles[*handle / LEVEL];
		if (!atomic_load(seg))
			atomic_store(seg, calloc(LEVEL, sizeof(struct handle)));
		err = atomic_load(seg) ? 0 : -ENOMEM;
		handles_made += !err;
	}
	if (!err) {
		struct handle *h = &atomic_load(&handles[*handle / LEVEL])[*handle % LEVEL];
		if (handle_free)
			handle_free = h->next_free;
		atomic_store(&h->id, (uintptr_t)id | kind);
	}
	pthread_mutex_unlock(&handles_lock);
	return err;
}

static struct handle *handle_at(uint32_t handle)
{
	struct handle *seg = handle < LEVEL * LEVEL ? atomic_load(&handles[handle / LEVEL]) : NULL;

	return seg ? &seg[handle % LEVEL] : NULL;
}

struct rcm_id *rcm_handle_get(uint32_t handle, enum rcm_kind kind)
{
	struct handle *h = handle_at(handle);
	uintptr_t id = h ? atomic_load(&h->id) : 0;

	return (id & 1) == (uintptr_t)kind ? (struct rcm_id *)(id - kind) : NULL;
}

void rcm_handle_free(uint32_t handle)
{
	struct handle *h = handle_at(handle);

	pthread_mutex_lock(&handles_lock);
	atomic_store(&h->id, 0);
	h->next_free = handle_free;
	handle_free = handle + 1;
	pthread_mutex_unlock(&handles_lock);
}
