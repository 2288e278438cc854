/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups (MPI-5.0 section 7.3): processes, in an order, named by their ranks in MPI_COMM_WORLD. A group never changes, so that
 * communicators and handles share it.
 *
 * Ranks that lie a stride apart need no table. Of the others the table's inverse is made when it is first asked for: a hash
 * table of the group's size, whatever the job's.
 */
#ifndef HDL_P2P_GROUP_H
#define HDL_P2P_GROUP_H

#include <mpi.h>
#include <stdbool.h>

#include "datatype/datatype.h"

struct hdl_group {
	struct hdl_object obj;		/* references: communicators', handles' */
	int handles;			/* of these the program's: while there is one, the magic word is there */
	int size;
	int rank;			/* of this process, or MPI_UNDEFINED */
	int first, stride;		/* rank r is first + r * stride in MPI_COMM_WORLD, if stride */
	int *world;			/* world[r]; NULL while stride does, and no communicator needs it */
	int *hash;			/* the inverse: ranks, or -1; NULL until needed */
	int shift;			/* 32 - log2 of its length */
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

/* n ranks from first on, a stride apart (not 0). NULL without memory, as the next one. */
struct hdl_group *hdl_group_range(int first, int stride, int n);
/* world[0..n-1], which differ; malloc'd, and the group's from here on, also after an error. */
struct hdl_group *hdl_group_table(int *world, int n);
/* world[0..size-1], the group's. A strided one's is made, and kept. NULL: no memory. */
const int *hdl_group_world(struct hdl_group *g);
/* The rank in g of a rank in MPI_COMM_WORLD, or MPI_UNDEFINED. */
int hdl_group_rank_of(struct hdl_group *g, int world);

static inline int hdl_group_world_rank(const struct hdl_group *g, int rank)
{
	return g->stride ? g->first + rank * g->stride : g->world[rank];
}

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
