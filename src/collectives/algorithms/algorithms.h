/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms: each builds one rank's graph of one collective. Builders do not communicate. All ranks must build from the
 * same shape (but for `rank`), so that their graphs match.
 */
#ifndef HDL_ALGO_H
#define HDL_ALGO_H

#include "base/base.h"
#include "collectives/collectives.h"
#include "collectives/graph/graph.h"
#include "collectives/tasks/tasks.h"
#include "p2p/comm/hosts.h"

/* HOST: messages, run by the progress engine. MAILBOX: RDMA WRITEs into the peers' cells; the owner reduces when it polls.
 * TASKS: task lists that the device runs alone, reductions included. */
enum hdl_executor { HDL_EXEC_HOST, HDL_EXEC_MAILBOX, HDL_EXEC_TASKS, HDL_EXECUTORS };
#define HDL_QUEUE_KINDS 3
/* Most ranks of the mailbox executor, in which each rank writes to each other. */
#define HDL_MAILBOX_RANKS 16
/* Index of a communicator's queues: 0 mailbox, 1 tasks along the tree, 2 tasks among all pairs of ranks. */
static inline int hdl_queues_index(enum hdl_executor e, bool pairs)
{
	return e == HDL_EXEC_MAILBOX ? 0 : 1 + pairs;
}

struct hdl_shape {
	enum hdl_coll coll;
	int rank, size, root;
	bool oversubscribed;		/* all ranks are on one host and share its cores */
	bool in_place;		/* this rank's; of Reduce, Gather and Scatter only the root's can be true */
	size_t bytes;		/* of the buffer; where each rank has a block: of one block */
	hdl_op_fn fn;		/* of reductions */
	size_t esize;
	size_t cell_bytes;	/* mailbox: bytes of a cell; see hdl_cell_data */
	bool by_messages;		/* host executor: a mailbox graph with messages in place of cells; see
					 * hdl_build_in_order */
	uint32_t to, from;	/* NEIGHBORS: destinations and sources, a bit per rank */
	int leader;		/* Barrier on mailbox: 1 + the rank that collects all arrivals and answers; 0: none */
	int radix;		/* tasks: radix of the k-nomial trees */
	const struct hdl_hosts *hosts;	/* the ranks' hosts, if a two-level algorithm may use them; else NULL */
	bool leaders_only;		/* two-level: build the leader phase only; the node phases are collectives of their own
				 * (host/hierarchical.c) */
	const struct hdl_enc *enc;	/* tasks: how the device reduces; NULL: no reduction on the device */
};

/* Returns NULL with errno ENOMEM. */
typedef struct hdl_graph *(*hdl_build_fn)(const struct hdl_shape *s);

struct hdl_algorithm {
	enum hdl_coll coll;
	const char *name;
	hdl_build_fn build;
	bool (*fits)(const struct hdl_shape *s);	/* NULL: fits every shape */
};

/* Chooses the algorithm of a shape; NULL or "": by the table. hdl_tune_host is one. */
typedef const struct hdl_algorithm *hdl_choose_fn(const struct hdl_shape *s, const char *forced);
/* The two-level algorithm; each phase within a host, and among the leaders, is the algorithm that `choose` returns for it. */
struct hdl_graph *hdl_build_hier_by(const struct hdl_shape *s, hdl_choose_fn *choose);
/* The same with hdl_tune_host (select/tuner.c). */
struct hdl_graph *hdl_build_hier(const struct hdl_shape *s);

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
/* Gather, Scatter, Reduce_scatter_block, Scan, Exscan: by the algorithms of v-collectives (algorithms/vcoll.c). */
struct hdl_graph *hdl_build_of_vcoll(const struct hdl_shape *s);

/* Two-level (algorithms/hierarchical.c): all but Alltoall, Scan and Exscan. Must: s->hosts is set. */

/* Mailbox executor (on_mailbox.c): each rank writes a cell at each peer that needs its data. */
struct hdl_graph *hdl_build_mailbox_barrier(const struct hdl_shape *s);
/* The cells of a v-collective, without data: mailbox/vector.c fills them. */
struct hdl_graph *hdl_build_mailbox_vector(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_bcast(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_allreduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_reduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_allgather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_alltoall(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_gather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_scatter(const struct hdl_shape *s);
struct hdl_graph *hdl_build_mailbox_reduce_scatter(const struct hdl_shape *s);
/* Scan and Exscan. */
struct hdl_graph *hdl_build_mailbox_scan(const struct hdl_shape *s);

/* A reduction by messages with the operand order of the mailbox graph: the same bits on the host executor. */
struct hdl_graph *hdl_build_in_order(const struct hdl_shape *s);

/* Tasks (on_tasks.c): up a tree to the root, and down again. Star: contributions by masked atomics to rank 0. */
struct hdl_graph *hdl_build_tasks_barrier(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_bcast(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_reduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allreduce(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allreduce_star(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_gather(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_scatter(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_allgather(const struct hdl_shape *s);
/* Each rank writes to each other rank. */
struct hdl_graph *hdl_build_tasks_alltoall(const struct hdl_shape *s);
struct hdl_graph *hdl_build_tasks_reduce_scatter(const struct hdl_shape *s);

/* ---- shared arithmetic ----------------------------------------------------------------------------------- */

/* Offset of part i of n parts of `bytes`, on element boundaries; part n is the end. */
static inline size_t hdl_part(size_t bytes, size_t esize, int n, int i)
{
	size_t count = bytes / esize, each = count / (size_t)n, more = count % (size_t)n;

	return (each * (size_t)i + ((size_t)i < more ? (size_t)i : more)) * esize;
}

/*
 * A k-nomial tree. A rank's number, counted from the root, is written in base k; the parent's number has the lowest nonzero
 * digit cleared. The distance between parent and child is therefore digit * k^position for every root, and the trees of all
 * roots use the same links. Links are numbered by distance: 1, 2, .., k-1, k, 2k, ..
 */
static inline int hdl_knomial_distance(int radix, int link)
{
	int d = link % (radix - 1) + 1;

	for (int i = link / (radix - 1); i; i--)
		d *= radix;
	return d;
}
/* Links of a tree of `size` ranks in each direction. Beyond HDL_TREE_LINKS no collective is offloaded: a request could not
 * name so many operands. */
#define HDL_TREE_LINKS 30
static inline int hdl_knomial_links(int radix, int size)
{
	int n = 0;

	while (hdl_knomial_distance(radix, n) < size)
		n++;
	return n;
}
/* Largest number of ranks in the subtree at the far end of a link. */
static inline int hdl_knomial_weight(int radix, int link)
{
	int w = 1;

	for (int i = link / (radix - 1); i; i--)
		w *= radix;
	return w;
}
/* The link with this distance, or -1. */
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

/* The space of this rank's input of a reduction or a gather. */
static inline enum hdl_space hdl_input(const struct hdl_shape *s)
{
	return s->in_place ? HDL_SP_RECV : HDL_SP_SEND;
}

#endif
