/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of this process by number (struct shca_local). */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

int shca_local_set(struct shca_member *m, uint32_t number, enum shca_kind kind, void *obj)
{
	struct shca_local *local = m->local;
	struct shca_tagged *_Atomic *slot = &local->seg[(number >> 8) & (SHCA_QP_SEGS - 1)];
	struct shca_tagged *seg = atomic_load_explicit(slot, memory_order_acquire);
	if (!seg) {
		struct shca_tagged *fresh = calloc(256, sizeof *fresh);
		if (!fresh)
			return -ENOMEM;	/* said: the caller */
		if (atomic_compare_exchange_strong(slot, &seg, fresh))
			seg = fresh;
		else
			free(fresh);
	}
	/* readers learn of the number from a completion, which comes later */
	seg[number & 255].kind = kind;
	__atomic_store_n(&seg[number & 255].qp, obj, __ATOMIC_RELEASE);
	return 0;
}

void shca_local_free(struct shca_local *local, uint32_t used)
{
	for (uint32_t i = 0; local && i < used; i++)
		free(atomic_load(&local->seg[i]));
	free(local);
}
