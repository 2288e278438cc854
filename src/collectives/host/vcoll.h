/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks and runs of v-collectives by messages (host/vcoll.c) and their algorithms (algorithms/vcoll.c). */
#ifndef HDL_HOST_VCOLL_H
#define HDL_HOST_VCOLL_H

#include "collectives/internal.h"
#include "collectives/graph/userop.h"

struct host_block {
	void *buf;
	MPI_Count count;
	const struct hdl_type *type;
	size_t bytes;
	size_t off;			/* packed: offset of the copy in the run's scratch */
	bool packed;
	uint8_t space;			/* not packed: buf is an offset in this space; in HDL_SP_RECV the offset is an address */
};

struct hdl_vcoll_run {
	struct hdl_run *run;
	struct hdl_graph *g;
	struct hdl_req *req;		/* NULL: blocking */
	struct hdl_run *instead;	/* the run on mailbox that this run replaces, and that finishes with this run; or NULL */
	struct hdl_reducer reducer;
	size_t places;			/* offset of the reducer's two buffers in the scratch */
	uint32_t nin, nout;
	struct host_block *in, *out;	/* blocks that this rank sends, and receives */
	bool refill;			/* parts of `out` that the graph does not write must stay unchanged */
	bool persistent;
	bool finished;
	int error;
	size_t sent, room;		/* bytes of the rank's first block for itself whose place has another length, and of the
					 * place; equal: none */
};

static inline size_t hdl_vcoll_block_bytes(const struct hdl_vcoll_block *p)
{
	return (size_t)p->count * (size_t)hdl_type_size(p->type);
}
/* Returns the bytes of the longest of n blocks. */
static inline size_t hdl_vcoll_most(const struct hdl_vcoll_block *p, int n)
{
	size_t most = 0;

	for (int i = 0; i < n; i++)
		most = hdl_vcoll_block_bytes(&p[i]) > most ? hdl_vcoll_block_bytes(&p[i]) : most;
	return most;
}

/* Returns true if the rank has a block for itself, and sets *in and *out to the block and its place. Blocks of neighborhood
 * collectives do not count: see hdl_edge_own. */
static inline bool hdl_vcoll_own(const struct hdl_vcoll *a, int me, const struct hdl_vcoll_block **in,
				 const struct hdl_vcoll_block **out)
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
/* NEIGHBORS: returns the number of the edge to the k-th destination, or from the k-th source, by which several edges between two
 * ranks are told apart. Grid: a block sent in one direction arrives as from the opposite one. Graph: the i-th edge to a rank is
 * its i-th edge from this rank. */
static inline int hdl_edge_to(const struct hdl_vcoll *a, int k)
{
	return a->grid ? k : hdl_edge_among(a->to, k);
}
static inline int hdl_edge_from(const struct hdl_vcoll *a, int k)
{
	return a->grid ? k ^ 1 : hdl_edge_among(a->from, k);
}
/* NEIGHBORS: finds the next edge from this rank to itself. *to and *from: the edge's indices in a->to and a->from, -1 before the
 * first call. Returns false if there is no more edge. */
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

/* Adds this rank's nodes. Messages of the rank to itself become copies. If there is no memory, the builder fails. */
void hdl_build_vcoll(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm);

/* Collectives with blocks of different lengths by messages, on any communicator. req NULL: blocking. prepare: an inactive
 * persistent request. Return an MPI error class. */
int hdl_host_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req);
int hdl_host_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req);

#endif
