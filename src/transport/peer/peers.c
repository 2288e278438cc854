/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers (peers.h). */
#include "transport/peer/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 16u		/* endpoints of a process in a small job, or with few neighbours */

static void insert(struct hdl_peers *p, int rank, uint32_t id)
{
	uint32_t i = hdl_peers_slot(p, rank);

	while (p->slots[i].id1)
		i = (i + 1) & (UINT32_MAX >> p->shift);
	p->slots[i] = (struct hdl_peer_slot){ rank, id + 1 };
}

static int peers_grow(struct hdl_peers *p)
{
	uint32_t cap = p->cap ? p->cap * 2 : FIRST, nold = p->slots ? 1u << (32 - p->shift) : 0;
	struct hdl_peer_slot *old = p->slots, *slots = calloc(2 * (size_t)cap, sizeof(*slots));
	struct hdl_ep **of = slots ? realloc(p->of, cap * sizeof(*of)) : NULL;

	if (!of) {
		free(slots);
		return -ENOMEM;
	}
	p->of = of;
	p->cap = cap;
	p->slots = slots;
	p->shift = 32 - (uint32_t)__builtin_ctz(2 * cap);
	for (uint32_t i = 0; i < nold; i++)
		if (old[i].id1)
			insert(p, old[i].rank, old[i].id1 - 1);
	free(old);
	return 0;
}

int64_t hdl_peers_add_nameless(struct hdl_peers *p, struct hdl_ep *ep)
{
	if (p->n == p->cap && peers_grow(p))
		return -ENOMEM;
	p->of[p->n] = ep;
	return p->n++;
}

int64_t hdl_peers_add(struct hdl_peers *p, int rank, struct hdl_ep *ep)
{
	int64_t id = hdl_peers_add_nameless(p, ep);

	if (id < 0)
		return id;
	insert(p, rank, (uint32_t)id);
	p->met++;
	p->live++;
	return id;
}

void hdl_peers_replace(struct hdl_peers *p, int rank, uint32_t instead)
{
	uint32_t i = hdl_peers_slot(p, rank);

	while (p->slots[i].rank != rank || !p->slots[i].id1)
		i = (i + 1) & (UINT32_MAX >> p->shift);
	p->of[p->slots[i].id1 - 1] = NULL;
	p->slots[i].id1 = instead + 1;
	p->live--;
}

void hdl_peers_clear(struct hdl_peers *p)
{
	free(p->of);
	free(p->slots);
	memset(p, 0, sizeof(*p));
}
