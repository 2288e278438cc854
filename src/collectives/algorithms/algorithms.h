/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms: each builds one rank's graph of one collective. They do not communicate. Every rank builds from
 * the same shape (its rank apart), so that the graphs of all ranks fit together.
 */
#ifndef HDL_ALGO_H
#define HDL_ALGO_H

#include "base/base.h"
#include "collectives/collectives.h"
#include "collectives/graph/graph.h"
#include "collectives/tasks/encode.h"
#include "p2p/comm/hosts.h"

/* host: messages, by the progress engine. mailbox: RDMA writes into the peers' lines, whose owner reduces when it looks.
 * tasks: lists of requests that the device runs by itself, reductions included. */
enum hdl_executor { HDL_EXEC_HOST, HDL_EXEC_MAILBOX, HDL_EXEC_TASKS, HDL_EXECUTORS };
#define HDL_QUEUE_KINDS 3
/* Of what a communicator has one for mailbox, one for tasks along a tree, and one for tasks among all pairs of ranks. */
static inline int hdl_queues_index(enum hdl_executor e, bool pairs)
{
	return e == HDL_EXEC_MAILBOX ? 0 : 1 + pairs;
}

struct hdl_shape {
	enum hdl_coll coll;
	int rank, size, root;
	bool crowded;		/* all ranks are on one host, and have to share its cores */
	bool in_place;		/* this rank's; for Reduce, Gather and Scatter it can be true at the root only */
	size_t bytes;		/* of the buffer; where ranks have a block each: of one */
	hdl_op_fn fn;		/* of reductions */
	size_t esize;
	size_t line_bytes;	/* of the mailbox graphs' lines; see hdl_cell_data */
	bool messages;		/* mailbox graphs by messages instead, for the host executor: see hdl_build_in_order */
	uint32_t to, from;	/* NEIGHBORS: a bit per rank */
	int leader;		/* Barrier on mailbox: 1 + the rank that goes on first; 0: who comes last */
	int radix;		/* of the tasks graphs' trees */
	const struct hdl_hosts *hosts;	/* who shares a host, where the ranks are on several; NULL: nothing is to be gained by it */
	bool between;		/* two-level: only what is between hosts; what is within them is done apart (hierarchical.c) */
	const struct hdl_enc *enc;	/* tasks: how the device reduces, NULL: it does not */
};

/* NULL with errno ENOMEM. */
typedef struct hdl_graph *(*hdl_build_fn)(const struct hdl_shape *s);

struct hdl_algorithm {
	enum hdl_coll coll;
	const char *name;
	hdl_build_fn build;
	bool (*fits)(const struct hdl_shape *s);	/* NULL: always */
};

/* Of the host executor; ends with a NULL name. */
extern const struct hdl_algorithm hdl_host_algorithms[];

struct hdl_graph *hdl_build_barrier_dissemination(const struct hdl_shape *s);
struct hdl_graph *hdl_build_bcast_binomial(const struct hdl_shape *s);
struct hdl_graph *hdl_build_bcast_scatter_allgather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_bcast_chain(const struct hdl_shape *s);
struct hdl_graph *hdl_build_reduce_binomial(const struct hdl_shape *s);
struct hdl_graph *hdl_build_reduce_scatter_gather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allreduce_doubling(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allreduce_rabenseifner(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allreduce_ring(const struct hdl_shape *s);
struct hdl_graph *hdl_build_reduce_scatter_halving(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allgather_doubling(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allgather_bruck(const struct hdl_shape *s);
struct hdl_graph *hdl_build_allgather_ring(const struct hdl_shape *s);
struct hdl_graph *hdl_build_alltoall_pairwise(const struct hdl_shape *s);
struct hdl_graph *hdl_build_alltoall_bruck(const struct hdl_shape *s);
/* Gather, Scatter, Reduce_scatter, Scan, Exscan: by the algorithms of the collectives of pieces. */
struct hdl_graph *hdl_build_of_vcoll(const struct hdl_shape *s);

/* By hosts (hierarchical.c): all but Alltoall, Scan and Exscan; s->hosts is there. */
struct hdl_graph *hdl_build_hier(const struct hdl_shape *s);

/* Of the mailbox executor (on_mailbox.c): every rank writes a line at every other. */
struct hdl_graph *hdl_build_mailbox_barrier(const struct hdl_shape *s);
/* The lines of a collective of pieces, without data. */
struct hdl_graph *hdl_build_mailbox_vector(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_bcast(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_allreduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_reduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_allgather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_alltoall(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_gather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_scatter(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_reduce_scatter(const struct hdl_shape *s);
/* Exscan, too */
struct hdl_graph *hdl_build_mailbox_scan(const struct hdl_shape *s);

/* Mailbox's graph of a reduction by messages: the same bits on the host executor. */
struct hdl_graph *hdl_build_in_order(const struct hdl_shape *s);

/* Of tasks (on_tasks.c): up a tree to the root, and down again. Star: contributions by atomics to rank 0. */
struct hdl_graph *hdl_build_tasks_barrier(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_bcast(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_reduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allreduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allreduce_star(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_gather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_scatter(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allgather(const struct hdl_shape *s);
/* Every rank writes to every other. */
struct hdl_graph *hdl_build_tasks_alltoall(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_reduce_scatter(const struct hdl_shape *s);

/* ---- shared arithmetic ----------------------------------------------------------------------------------- */

/* Where part i of n parts of `bytes` begins, on element boundaries; part n is the end. */
static inline size_t hdl_part(size_t bytes, size_t esize, int n, int i)
{
	size_t count = bytes / esize, each = count / (size_t)n, more = count % (size_t)n;

	return (each * (size_t)i + ((size_t)i < more ? (size_t)i : more)) * esize;
}

/* A k-nomial tree: ranks, counted from the root, are written in base k; the parent's number has the lowest digit that is not 0
 * cleared. So the distance between parent and child is one of (digit, place), whatever the root: the trees of all roots run over
 * the same links. Links are numbered by their distance: 1, 2, .., k-1, k, 2k, .. */
static inline int hdl_knomial_distance(int radix, int link)
{
	int d = link % (radix - 1) + 1;

	for (int i = link / (radix - 1); i; i--)
		d *= radix;
	return d;
}
/* Links that a tree of so many ranks has in each direction. Beyond HDL_TREE_LINKS nothing is offloaded: a request could not
 * name so many operands. */
#define HDL_TREE_LINKS 30
static inline int hdl_knomial_links(int radix, int size)
{
	int n = 0;

	while (hdl_knomial_distance(radix, n) < size)
		n++;
	return n;
}
/* Most ranks of the subtree at the far end of a link. */
static inline int hdl_knomial_weight(int radix, int link)
{
	int w = 1;

	for (int i = link / (radix - 1); i; i--)
		w *= radix;
	return w;
}
/* The link of a distance, or -1. */
static inline int hdl_knomial_link(int radix, int size, int distance)
{
	int links = hdl_knomial_links(radix, size);

	for (int l = 0; l < links; l++)
		if (hdl_knomial_distance(radix, l) == distance)
			return l;
	return -1;
}

/* The ranks at the two ends of this rank's link. */
static inline int hdl_knomial_ahead(int rank, int size, int radix, int link)
{
	return (rank + hdl_knomial_distance(radix, link)) % size;
}
static inline int hdl_knomial_behind(int rank, int size, int radix, int link)
{
	return (rank - hdl_knomial_distance(radix, link) + size) % size;
}

/* The space that holds this rank's own input of a reduction or a gather. */
static inline enum hdl_space hdl_input(const struct hdl_shape *s)
{
	return s->in_place ? HDL_SP_RECV : HDL_SP_SEND;
}

#endif
