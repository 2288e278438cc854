/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal header of host/: the host executor, which runs collectives by messages. */
#ifndef HDL_COLL_HOST_H
#define HDL_COLL_HOST_H

#include "collectives/internal.h"

/* ---- by_events.c ---------------------------------------------------------------------------------------------- */

/* Starts the run by events; it finishes in hdl_host_progress, or in this call. */
void hdl_host_start(struct hdl_run *run);
/* Starts an internal run as the communicator's next collective, unless it has its tag. */
void hdl_host_begin(struct hdl_run *run);
/* Runs the nodes in their order; receives block. Must: hdl_host_can_inline. Returns an MPI error class. */
int hdl_host_run_inline(struct hdl_run *run);
bool hdl_host_can_inline(const struct hdl_graph *g);
/* Starts the nodes that have become ready. Returns their number. */
int hdl_host_progress(void);
/* A member has ended: the runs by events on this communicator fail, and their receives and sends are withdrawn. */
void hdl_host_revoke(struct hdl_cc *cc);
/* MPI_Finalize: no run is carried on. */
void hdl_host_forget(void);

/* ---- immediate.c ------------------------------------------------------------------------------------------- */

/*
 * A blocking collective whose nodes are carried out while the algorithm emits them, without a graph. Memory is allocated only
 * where a send has to be kept, or scratch does not fit. The messages are those of the graph. Must: an intracommunicator; in the
 * order of the nodes ranks of two groups could wait for each other.
 */
struct hdl_immediate {
	struct hdl_run run;		/* spaces begin at address 0; without nodes */
	struct hdl_gb *gb;
	struct hdl_immediate *next;	/* in the list of spare ones */
	struct hdl_kept *kept;		/* sends handed to the transport and not done */
	struct hdl_more *more;		/* scratch that did not fit */
	char *scratch;
	size_t used, size;
};
/* Begins a collective with the communicator's next number. Returns NULL if there is no memory. Ownership: hdl_immediate_put gives
 * the struct back. */
struct hdl_immediate *hdl_immediate_begin(struct hdl_comm *comm);
/* Allocates 64-byte aligned scratch, valid until hdl_immediate_put. Returns NULL if there is no memory. */
void *hdl_immediate_tmp(struct hdl_immediate *s, size_t bytes);
/* Waits until the sends are done. Returns an MPI error class, which run.why explains. */
int hdl_immediate_end(struct hdl_immediate *s);
void hdl_immediate_put(struct hdl_immediate *s);
void hdl_immediate_fini(void);

/* ---- hierarchical.c: blocking collectives of ranks on several hosts, by phases ---------------------------------------- */

/* Returns true if the collective, done by hosts, has phases that are collectives of their own. */
bool hdl_hier_has(const struct hdl_plan_key *key);
/* Makes the node communicators at the first call, in which all ranks take part. Returns true if there is one. False with *rc
 * MPI_SUCCESS: no rank has one; otherwise *rc is an MPI error class. */
bool hdl_hier_ready(struct hdl_cc *cc, const struct hdl_hosts *hosts, int *rc);
/* The phases of a blocking collective. node: among the ranks of one host. leaders: among the leaders, as the communicator's next
 * collective. error: the error of a length that this rank had in the phase before, or 0. If set, this rank and the ranks that
 * take this rank's data in this phase have such an error, too. Return an MPI error class. */
struct hdl_hier_phases {
	int (*node)(struct hdl_comm *comm, const struct hdl_coll_args *args, int error);
	int (*leaders)(struct hdl_comm *comm, const struct hdl_coll_args *args, int error);
};
/* Runs the phases. Returns an MPI error class. */
int hdl_hier_run(struct hdl_cc *cc, const struct hdl_coll_args *args, const struct hdl_hier_phases *phases);

/* ---- vcoll.c: v-collectives by messages, and their algorithms (algorithms/vcoll.c) ----------------------------------------- */

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
/* Runs the call by messages, with the tag of `run` (host/vcoll.c); `run` finishes when that ends. Returns false if there is no
 * memory. */
bool hdl_vcoll_instead(struct hdl_run *run, const struct hdl_vcoll *a);

#endif
