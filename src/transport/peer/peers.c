/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of peers (peers.h). */
#include "transport/peer/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 16u		/* endpoints of a process in a small job, or with few neighbours */

static uint32_t slots_of(const struct hdl_peers *p)
{
	return p->slots ? 1u << (32 - p->shift) : 0;
}

static void insert(struct hdl_peers *p, int rank, uint32_t id)
{
	uint32_t i = hdl_peers_slot(p, rank);

	while (p->slots[i].id1)
		i = (i + 1) & (UINT32_MAX >> p->shift);
	p->slots[i] = (struct hdl_peer_slot){ rank, id + 1 };
}

static int slots_grow(struct hdl_peers *p)
{
	uint32_t nold = slots_of(p), n = nold ? 2 * nold : 2 * FIRST;
	struct hdl_peer_slot *old = p->slots, *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	p->slots = slots;
	p->shift = 32 - (uint32_t)__builtin_ctz(n);
	for (uint32_t i = 0; i < nold; i++)
		if (old[i].id1)
			insert(p, old[i].rank, old[i].id1 - 1);
	free(old);
	return 0;
}

static int ids_grow(struct hdl_peers *p)
{
	uint32_t cap = p->cap ? p->cap * 2 : FIRST;
	struct hdl_ep **of = realloc(p->of, cap * sizeof(*of));

	if (!of)
		return -ENOMEM;
	p->of = of;
	p->cap = cap;
	return 0;
}

int64_t hdl_peers_add_nameless(struct hdl_peers *p, struct hdl_ep *ep)
{
	if (p->n == p->cap && ids_grow(p))
		return -ENOMEM;
	p->of[p->n] = ep;
	return p->n++;
}

int64_t hdl_peers_add(struct hdl_peers *p, int rank, struct hdl_ep *ep)
{
	int64_t id;

	if (2 * (p->ranks + 1) > slots_of(p) && slots_grow(p))
		return -ENOMEM;
	id = hdl_peers_add_nameless(p, ep);
	if (id < 0)
		return id;
	insert(p, rank, (uint32_t)id);
	p->ranks++;
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

void hdl_peers_remove(struct hdl_peers *p, int rank)
{
	uint32_t mask, gap, i;

	if (!hdl_peers_find(p, rank))
		return;
	mask = UINT32_MAX >> p->shift;
	gap = hdl_peers_slot(p, rank);
	while (p->slots[gap].rank != rank || !p->slots[gap].id1)
		gap = (gap + 1) & mask;
	/* a rank behind the gap moves into the gap, unless its search begins behind the gap */
	for (i = (gap + 1) & mask; p->slots[i].id1; i = (i + 1) & mask)
		if (((i - hdl_peers_slot(p, p->slots[i].rank)) & mask) >= ((i - gap) & mask)) {
			p->slots[gap] = p->slots[i];
			gap = i;
		}
	p->slots[gap] = (struct hdl_peer_slot){ 0 };
	p->ranks--;
}

static bool is_in_range(const struct hdl_peer_slot *s, int first, int n)
{
	return s->id1 && s->rank >= first && s->rank - first < n;
}

bool hdl_peers_remove_range(struct hdl_peers *p, int first, int n, const struct hdl_ep *ep)
{
	uint32_t slots = slots_of(p);

	for (uint32_t i = 0; i < slots; i++)
		if (is_in_range(&p->slots[i], first, n) && p->of[p->slots[i].id1 - 1] != ep)
			return false;
	/* another rank of the range may move into the slot of a removed one */
	for (uint32_t i = 0; i < slots;)
		if (is_in_range(&p->slots[i], first, n))
			hdl_peers_remove(p, p->slots[i].rank);
		else
			i++;
	return true;
}

void hdl_peers_clear(struct hdl_peers *p)
{
	free(p->of);
	free(p->slots);
	memset(p, 0, sizeof(*p));
}
