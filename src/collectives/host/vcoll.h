/* SPDX-License-Identifier: BSD-3-Clause */
/* What the collectives of pieces (pieces.c) and their algorithms (vcoll.c) share. */
#ifndef HDL_COLL_PIECES_H
#define HDL_COLL_PIECES_H

#include "collectives/internal.h"
#include "collectives/graph/userop.h"

struct piece {
	void *buf;
	MPI_Count count;
	const struct hdl_type *type;
	size_t bytes;
	size_t off;			/* in the scratch, if it is packed */
	bool packed;
	uint8_t space;			/* else: buf is an offset in this space, in RECV an address */
};

struct hdl_vcoll_run {
	struct hdl_run *run;
	struct hdl_graph *g;
	struct hdl_req *req;		/* NULL: blocking */
	struct hdl_run *instead;	/* of this one, which was mailbox's and ends when this does; or NULL */
	struct hdl_reducer reducer;
	size_t places;			/* the reducer's, in the scratch */
	uint32_t nin, nout;
	struct piece *in, *out;		/* what this rank gives, and gets */
	bool refill;			/* what the graph leaves of `out` must come back as it was */
	bool persistent;
	bool finished;
	int error;
	size_t sent, room;		/* of the first piece for the rank itself whose place has another length, or equal */
};

static inline size_t hdl_vcoll_block_bytes(const struct hdl_vcoll_block *p)
{
	return (size_t)p->count * (size_t)hdl_type_size(p->type);
}
/* Of the longest. */
static inline size_t hdl_vcoll_most(const struct hdl_vcoll_block *p, int n)
{
	size_t most = 0;

	for (int i = 0; i < n; i++)
		most = hdl_vcoll_block_bytes(&p[i]) > most ? hdl_vcoll_block_bytes(&p[i]) : most;
	return most;
}

/* Whether the rank has a piece for itself, but for those that are edges of a graph, and which. */
static inline bool hdl_vcoll_own(const struct hdl_vcoll *a, int me, const struct hdl_vcoll_block **in, const struct hdl_vcoll_block **out)
{
	if (a->in_place || a->coll > HDL_V_EXCHANGE || !a->nin || !a->nout)
		return false;
	*in = &a->in[a->nin > 1 ? me : 0];
	*out = &a->out[a->nout > 1 ? me : 0];
	return true;
}

static inline int hdl_edge_among(const int *ranks, int k)
{
	int n = 0;

	for (int i = 0; i < k; i++)
		n += ranks[i] == ranks[k];
	return n;
}
/* NEIGHBORS: the number of the edge to the k-th destination, or from the k-th source, among several between two ranks: on a grid what
 * goes in one direction comes from the other one; of graphs the first edge's is the first one's. */
static inline int hdl_edge_to(const struct hdl_vcoll *a, int k)
{
	return a->grid ? k : hdl_edge_among(a->to, k);
}
static inline int hdl_edge_from(const struct hdl_vcoll *a, int k)
{
	return a->grid ? k ^ 1 : hdl_edge_among(a->from, k);
}
/* NEIGHBORS: the next edge from this rank to itself, by its places in a->to and a->from, which begin at -1. False: there is none. */
static inline bool hdl_edge_own(const struct hdl_vcoll *a, int me, int *to, int *from)
{
	do {
		if (++*to >= a->nto)
			return false;
	} while (a->to[*to] != me);
	if (a->grid) {
		*from = *to ^ 1;
		return true;
	}
	while (++*from < a->nout && a->from[*from] != me)
		;
	return *from < a->nout;
}

/* The nodes of this rank. Those of messages that the rank would send to itself are copies. Memory shortage fails the builder. */
void hdl_build_vcoll(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm);

/* Collectives with blocks of different lengths by messages, on any communicator. req NULL: blocking. prepare: an inactive persistent
 * request. Return an MPI error class. */
int hdl_host_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req);
int hdl_host_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req);

#endif
