/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups (MPI-5.0 section 7.3): processes of this job or of several, in an order, named by their numbers (runtime/jobs.h). A group
 * never changes, so that communicators and handles share it.
 *
 * Processes whose numbers lie a stride apart need no table: MPI_COMM_WORLD, and parts of it that a split by blocks or by turns makes; and
 * likewise another job's. Of the others the table's inverse is made when it is first asked for: a hash table of the group's size,
 * whatever the job's.
 *
 * The endpoints by which a communicator reaches its ranks belong to its group, so that communicators of one group share them. They
 * lie in leaves of HDL_LEAF ranks, and a leaf is made when one of its ranks is first met: until then it is hdl_leaf_none, which
 * has nobody, so that looking takes one load more than in a table of all ranks, and no branch.
 */
#ifndef HDL_P2P_GROUP_H
#define HDL_P2P_GROUP_H

#include <mpi.h>
#include <stdbool.h>

#include "datatype/datatype.h"
#include "p2p/comm/hosts.h"

struct hdl_ep;
#define HDL_LEAF	256u
typedef struct hdl_ep *hdl_leaf[HDL_LEAF];	/* the last one of a group ends with its last rank */

struct hdl_group {
	struct hdl_object obj;		/* references: communicators', handles' */
	int handles;			/* of these the program's: while there is one, the magic word is there */
	int size;
	int rank;			/* of this process, or MPI_UNDEFINED */
	int first, stride;		/* rank r is the process first + r * stride, if stride */
	int *procs;			/* procs[r]; NULL where stride does */
	hdl_leaf **leaf;		/* of a communicator's: endpoints, by rank; NULL for the rank itself. Else NULL */
	int *hash;			/* the inverse: ranks, or -1; NULL until needed */
	int shift;			/* 32 - log2 of its length */
	bool hosts_known;			/* it was looked who shares a host, */
	struct hdl_hosts *hosts;	/*   which says it, or NULL */
};

extern struct hdl_group hdl_group_empty;	/* never freed */
extern struct hdl_pool hdl_groups;		/* the others */

/* The object behind a group's handle, or NULL. */
static inline struct hdl_group *hdl_group_get(MPI_Group handle)
{
	return handle == MPI_GROUP_EMPTY ? &hdl_group_empty :
	       hdl_pool_find(&hdl_groups, handle, HDL_MAGIC_GROUP, sizeof(struct hdl_group));
}
/* The caller's reference becomes the program's handle, and the other way round. */
void hdl_group_open(struct hdl_group *g);
void hdl_group_close(struct hdl_group *g);
void hdl_group_fini(void);

/* n processes from first on, a stride apart (not 0). NULL without memory, as the next one. */
struct hdl_group *hdl_group_range(int first, int stride, int n);
/* procs[0..n-1], which differ; malloc'd, and the group's from here on, also after an error. */
struct hdl_group *hdl_group_table(int *procs, int n);
/* The rank in g of a process, or MPI_UNDEFINED. */
int hdl_group_rank_of(struct hdl_group *g, int proc);

static inline int hdl_group_proc(const struct hdl_group *g, int rank)
{
	return g->stride ? g->first + rank * g->stride : g->procs[rank];
}

/* The leaves, for a communicator; NULL: no memory. */
hdl_leaf *const *hdl_group_leaves(struct hdl_group *g);
/* This is the endpoint of that rank. 0 or -ENOMEM. */
int hdl_group_meet(struct hdl_group *g, int rank, struct hdl_ep *ep);
static inline struct hdl_ep *hdl_leaf_ep(hdl_leaf *const *leaf, int rank)
{
	return (*leaf[(unsigned)rank / HDL_LEAF])[(unsigned)rank % HDL_LEAF];
}

/* The group as it travels, of *bytes, malloc'd; NULL: no memory. And such a one: the jobs that it names are known from here on. NULL with
 * errno: ENOMEM; EPROTO: it is none; ENOSPC: runtime/jobs.h. */
void *hdl_group_describe(const struct hdl_group *g, size_t *bytes);
struct hdl_group *hdl_group_described(const void *data, size_t bytes);
/* Whether the processes of both together are of more than one job. */
bool hdl_group_spans_jobs(const struct hdl_group *a, const struct hdl_group *b);

/* Who shares a host, for collectives: communicators of one group have it in common. *out: NULL if nothing is known or to be gained
 * (hosts.h), or there are processes of other jobs. Of processes that are all here, nothing is asked or kept. 0 or -ENOMEM. */
int hdl_group_hosts(struct hdl_group *g, const struct hdl_hosts **out);

/* All ranks of the job, in their order. */
bool hdl_group_is_world(const struct hdl_group *g);
/* MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int hdl_group_compare(struct hdl_group *a, struct hdl_group *b);

static inline struct hdl_group *hdl_group_retain(struct hdl_group *g)
{
	g->obj.refs++;
	return g;
}
void hdl_group_release(struct hdl_group *g);

#endif
