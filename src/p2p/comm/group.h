/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups (MPI-5.0 section 7.3): an ordered set of processes, of this job or of several, by their numbers (runtime/jobs.h). A
 * group never changes, so communicators and handles share it.
 *
 * A group whose numbers have a stride needs no table: MPI_COMM_WORLD, parts of it by blocks or in turns, and those of another
 * job. Any other group has a table of numbers, and, once a rank is looked up, its inverse: a hash table of the group's size.
 *
 * A group also has the endpoints by which communicators reach its ranks, so that communicators of one group share them. They lie
 * in leaves of HDL_LEAF ranks. A leaf is allocated when the endpoint of one of its ranks is set; until then the entry points to a
 * shared leaf of NULLs. So a look-up takes one load more than in a flat table, and no branch.
 */
#ifndef HDL_P2P_GROUP_H
#define HDL_P2P_GROUP_H

#include <mpi.h>
#include <stdbool.h>

#include "datatype/datatype.h"
#include "p2p/comm/hosts.h"

struct hdl_ep;
#define HDL_LEAF	256u
typedef struct hdl_ep *hdl_leaf[HDL_LEAF];	/* the last leaf of a group ends with its last rank */

/* A session (section 11.3): the fields that groups and communicators need; src/mpi/session.c has the functions. */
struct hdl_session {
	/* references: one for the handle, one for each group and communicator that was derived from the session. magic: set while
	 * the handle is valid */
	struct hdl_object obj;
	MPI_Errhandler errhandler;	/* a predefined handle, or a struct hdl_errhandler to which a reference is held */
	int level;			/* thread level that was granted */
	struct hdl_bsend_space *bsend;	/* buffer of MPI_Session_attach_buffer; NULL: none */
	char **psets;			/* names of the process sets, in the order of MPI_Session_get_nth_pset */
	int npsets;
};
extern struct hdl_pool hdl_sessions;

static inline struct hdl_session *hdl_session_retain(struct hdl_session *s)
{
	s->obj.refs++;
	return s;
}
void hdl_session_release(struct hdl_session *s);

struct hdl_group {
	struct hdl_object obj;		/* one reference for each communicator and each handle */
	int handles;			/* references that are handles of the program; obj.magic is set while there is one */
	int size;
	int rank;			/* of this process, or MPI_UNDEFINED */
	int first, stride;		/* rank r is process first + r * stride; stride 0: procs has them */
	int *procs;			/* procs[r]; NULL if there is a stride */
	hdl_leaf **leaf;		/* endpoints by rank, NULL for the rank itself; NULL if no communicator has the group */
	int *hash;			/* inverse of procs: ranks, or -1; NULL until the first look-up */
	int shift;			/* 32 - log2 of the hash's length */
	struct hdl_session *session;	/* from which the group was derived, with a reference; NULL: none */
	bool hosts_known;			/* hosts is valid */
	struct hdl_hosts *hosts;	/* ranks by host, or NULL (hdl_group_hosts) */
};

extern struct hdl_group hdl_group_empty;	/* never freed */
extern struct hdl_pool hdl_groups;		/* all others */

/* Returns the object behind a handle, or NULL. */
static inline struct hdl_group *hdl_group_get(MPI_Group handle)
{
	return handle == MPI_GROUP_EMPTY ? &hdl_group_empty :
	       hdl_pool_find(&hdl_groups, handle, HDL_MAGIC_GROUP, sizeof(struct hdl_group));
}
/* Turn the caller's reference into a handle of the program, and back (dropping it). */
void hdl_group_open(struct hdl_group *g);
void hdl_group_close(struct hdl_group *g);
void hdl_group_fini(void);

/* Makes a new group part of the session from which the group was derived; NULL: none. A group that is part of a session already
 * stays there; the empty group is part of none. */
void hdl_group_derive(struct hdl_group *g, struct hdl_session *session);

/* Makes a group of n processes, at a stride that is not 0. Returns NULL without memory, as the next function does. */
struct hdl_group *hdl_group_range(int first, int stride, int n);
/* Makes a group of n different processes. Takes over procs (malloc'd), also after an error. */
struct hdl_group *hdl_group_table(int *procs, int n);
/* Returns the rank of a process, or MPI_UNDEFINED. */
int hdl_group_rank_of(struct hdl_group *g, int proc);

static inline int hdl_group_proc(const struct hdl_group *g, int rank)
{
	return g->stride ? g->first + rank * g->stride : g->procs[rank];
}

/* Returns the leaves, for a communicator; NULL without memory. */
hdl_leaf *const *hdl_group_leaves(struct hdl_group *g);
/* Sets the endpoint of a rank. Returns 0 or -ENOMEM. */
int hdl_group_meet(struct hdl_group *g, int rank, struct hdl_ep *ep);
static inline struct hdl_ep *hdl_leaf_ep(hdl_leaf *const *leaf, int rank)
{
	return (*leaf[(unsigned)rank / HDL_LEAF])[(unsigned)rank % HDL_LEAF];
}

/* hdl_group_describe: returns the group as bytes for a message, malloc'd; NULL without memory. hdl_group_described: makes a group
 * of such bytes; its jobs are known on return. Returns NULL with errno: ENOMEM; EPROTO: invalid; ENOSPC: runtime/jobs.h. */
void *hdl_group_describe(const struct hdl_group *g, size_t *bytes);
struct hdl_group *hdl_group_described(const void *data, size_t bytes);
/* Returns true if a group, of a handle, a communicator or a constructor, keeps a pointer to the endpoint. */
bool hdl_groups_have(const struct hdl_ep *ep);
/* Returns true if a group, of a handle, a communicator or a constructor, has one of the n processes from number `first` on. */
bool hdl_groups_name(int first, int n);
/* Returns true if the processes of both groups together belong to more than one job. */
bool hdl_group_spans_jobs(const struct hdl_group *a, const struct hdl_group *b);

/* Sets *out to the ranks of the group by host; the group owns the result, and keeps it. NULL: not known, of no use (hosts.h), or
 * there are processes of other jobs. Returns 0 or -ENOMEM. */
int hdl_group_hosts(struct hdl_group *g, const struct hdl_hosts **out);

/* Returns true if the group's ranks are all ranks of the job, in the job's order. */
bool hdl_group_is_world(const struct hdl_group *g);
/* Returns MPI_IDENT, MPI_SIMILAR or MPI_UNEQUAL. */
int hdl_group_compare(struct hdl_group *a, struct hdl_group *b);

static inline struct hdl_group *hdl_group_retain(struct hdl_group *g)
{
	g->obj.refs++;
	return g;
}
void hdl_group_release(struct hdl_group *g);

#endif
