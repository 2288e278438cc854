/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/core/ids.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define FEW_BITS 20
#define MANY_BITS 28
#define MANY (1u << 31)

static uint32_t ids_number(uint32_t i, uint32_t gen)
{
	return i < HDL_ID_FEW ? gen << FEW_BITS | i : MANY | gen << MANY_BITS | i;
}

static uint32_t ids_index_of(uint32_t id)
{
	return id & (id & MANY ? HDL_ID_MOST - 1 : HDL_ID_FEW - 1);
}

static uint32_t next_gen(uint32_t i, uint32_t gen)
{
	return (gen + 1) & (i < HDL_ID_FEW ? (1u << (31 - FEW_BITS)) - 1 : (1u << (31 - MANY_BITS)) - 1);
}

int hdl_id_new(struct hdl_idtab *t, void *p, uint32_t *id)
{
	if (!t->free) {
		uint32_t n = t->n ? t->n * 2 : 64;
		if (n > HDL_ID_MOST)
			return -ENOMEM;
		void *e = realloc(t->e, n * sizeof(*t->e));
		if (!e)
			return -ENOMEM;
		t->e = e;
		for (uint32_t i = n; i-- > t->n;) {
			t->e[i] = (struct hdl_identry){ .gen = 1, .next = t->free };
			t->free = i + 1;
		}
		t->n = n;
	}
	uint32_t i = t->free - 1;
	t->free = t->e[i].next;
	t->e[i].p = p;
	t->used++;
	*id = ids_number(i, t->e[i].gen);
	return 0;
}

void *hdl_id_get(const struct hdl_idtab *t, uint32_t id)
{
	uint32_t i = ids_index_of(id);

	return i < t->n && ids_number(i, t->e[i].gen) == id ? t->e[i].p : NULL;
}

void hdl_id_free(struct hdl_idtab *t, uint32_t id)
{
	uint32_t i = ids_index_of(id);
	struct hdl_identry *e = &t->e[i];

	e->p = NULL;
	e->gen = next_gen(i, e->gen);
	e->next = t->free;
	t->free = i + 1;
	t->used--;
}
