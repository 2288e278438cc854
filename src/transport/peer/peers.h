/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peers of this process. Nothing here has the size of the job: an endpoint is made when the first message goes to a
 * process or comes from the process, and stays until the end, or until departed.c frees it.
 *
 * An endpoint's *id* is the index in `of`, and never becomes another peer's. A loop over peers must read `n` anew in each round,
 * and keep no pointer into `of`: a call may make an endpoint, and the array may move. Entries of freed endpoints are NULL.
 *
 * `of` has 8 bytes for each endpoint that was ever made. The hash table has the size of the ranks that are in it.
 */
#ifndef HDL_TP_PEERS_H
#define HDL_TP_PEERS_H

#include <stdint.h>

#include "base/base.h"

struct hdl_ep;

struct hdl_peers {
	struct hdl_ep **of;		/* endpoints by id; NULL: freed */
	uint32_t n, cap;
	uint32_t met, live;		/* processes that ever had an endpoint; those that have one */
	/* Hash table by rank, open addressing, at most half full: id + 1, or 0. */
	struct hdl_peer_slot { int rank; uint32_t id1; } *slots;
	uint32_t shift;			/* 32 - log2 of the number of slots */
	uint32_t ranks;			/* ranks in the table */
};

/* The multiplier of Fibonacci hashing: its high bits depend on all bits of the rank. */
static inline uint32_t hdl_peers_slot(const struct hdl_peers *p, int rank)
{
	return ((uint32_t)rank * 0x9e3779b9u) >> p->shift;
}

/* Bytes of a peer in these tables, at least. */
#define HDL_PEER_BYTES (sizeof(struct hdl_ep *) + 2 * sizeof(struct hdl_peer_slot))

/* The endpoint of a rank, or NULL. */
static inline struct hdl_ep *hdl_peers_find(const struct hdl_peers *p, int rank)
{
	if (unlikely(!p->slots))
		return NULL;
	for (uint32_t i = hdl_peers_slot(p, rank);; i = (i + 1) & (UINT32_MAX >> p->shift)) {
		const struct hdl_peer_slot *s = &p->slots[i];

		if (likely(s->rank == rank && s->id1))
			return p->of[s->id1 - 1];
		if (!s->id1)
			return NULL;
	}
}

/* The endpoint of an id, or NULL; any id is allowed, also one whose endpoint was freed. */
static inline struct hdl_ep *hdl_peers_of(const struct hdl_peers *p, uint32_t id)
{
	return likely(id < p->n) ? p->of[id] : NULL;
}

/* Adds a rank that is not in the table. Returns its id, or a negative errno: out of memory, nothing has changed. */
int64_t hdl_peers_add(struct hdl_peers *p, int rank, struct hdl_ep *ep);
/* Adds an endpoint that no rank has. Returns as hdl_peers_add. */
int64_t hdl_peers_add_nameless(struct hdl_peers *p, struct hdl_ep *ep);
/* The endpoint of a rank is about to be freed: from here on the rank has the one of id `instead`, and the entry of its own id is
 * NULL. */
void hdl_peers_replace(struct hdl_peers *p, int rank, uint32_t instead);
/* Takes a rank out of the table, whose endpoint is that of hdl_peers_replace; nothing is done if the rank is not there. */
void hdl_peers_remove(struct hdl_peers *p, int rank);
/* Takes n ranks, from `first` on, out of the table. Returns false, and nothing is done, if one of them has another endpoint than
 * ep. Takes as long as the table is, however many ranks are asked for. */
bool hdl_peers_remove_range(struct hdl_peers *p, int first, int n, const struct hdl_ep *ep);
/* Frees the tables, not the endpoints. */
void hdl_peers_clear(struct hdl_peers *p);

#endif
