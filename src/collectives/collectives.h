/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/collectives (MPI-5.0 chapter 6): a collective is a task graph, built once per (communicator,
 * collective, root, shape) and kept; one of three executors runs it: host, mailbox or tasks.
 */
#ifndef HDL_COLLECTIVES_H
#define HDL_COLLECTIVES_H

#include <mpi.h>
#include <stdio.h>

#include "p2p/p2p.h"

/* Those whose graphs are kept, REDUCE_SCATTER with parts of one size; and those of pieces that mailbox does (vector.c), of which a rank
 * knows no more than its own lengths: ALLTOALLV is alltoallw, too, and NEIGHBORS all of these. FOLD: reductions by operations of
 * programs, and by parts of different lengths. */
enum hdl_coll { HDL_BARRIER, HDL_BCAST, HDL_REDUCE, HDL_ALLREDUCE, HDL_ALLGATHER, HDL_ALLTOALL, HDL_GATHER, HDL_SCATTER,
		HDL_REDUCE_SCATTER, HDL_SCAN, HDL_EXSCAN, HDL_COLLS,
		HDL_GATHERV = HDL_COLLS, HDL_SCATTERV, HDL_ALLGATHERV, HDL_ALLTOALLV, HDL_NEIGHBORS,
		HDL_VREDUCE, HDL_VALLREDUCE, HDL_VREDUCE_SCATTER, HDL_VSCAN, HDL_VEXSCAN, HDL_COLL_KINDS };

static inline bool hdl_coll_reduces(enum hdl_coll coll)
{
	return coll == HDL_REDUCE || coll == HDL_ALLREDUCE || (coll >= HDL_REDUCE_SCATTER && coll < HDL_COLLS);
}

static inline bool hdl_coll_has_root(enum hdl_coll coll)
{
	return coll == HDL_BCAST || coll == HDL_REDUCE || coll == HDL_GATHER || coll == HDL_SCATTER || coll == HDL_GATHERV ||
	       coll == HDL_SCATTERV || coll == HDL_VREDUCE;
}

/* Of pieces: no rank knows all lengths, and there is no graph of the host executor that could be kept. */
static inline bool hdl_coll_is_vcoll(enum hdl_coll coll)
{
	return coll >= HDL_COLLS;
}

static inline bool hdl_coll_is_vreduce(enum hdl_coll coll)
{
	return coll >= HDL_VREDUCE;
}

/* Of these, those whose lengths all ranks know. */
static inline bool hdl_vector_known(enum hdl_coll coll)
{
	return coll == HDL_ALLGATHERV || hdl_coll_is_vreduce(coll);
}

struct hdl_coll_args {
	enum hdl_coll coll;
	const void *sendbuf;		/* MPI_IN_PLACE where the standard allows it */
	void *recvbuf;			/* and SCATTER's root here */
	/* GATHER, SCATTER: what does not matter at a rank is as what does */
	MPI_Count sendcount, recvcount;
	const struct hdl_type *sendtype, *recvtype;
	MPI_Op op;
	int root;
};

/* heddle_info --explain: executor, algorithm, reason, what the device would do, and a rank's graph, as text or (dot) for Graphviz.
 * Collectives are called as in the report. */
struct hdl_explain {
	const char *collective, *type, *op;
	int ranks, root, rank;
	const char *hosts;		/* "2x4": ranks on 2 hosts, 4 on each; "3+1": hosts of so many; NULL: all are on this one */
	size_t bytes;			/* as HEDDLE_REPORT_COLLECTIVES counts them */
	bool nonblocking, persistent, dot;
};
/* An exit code: 0, 2 for arguments that make no sense, which it has said, 1 for other failures. */
int hdl_coll_explain(FILE *out, const struct hdl_explain *args);

int hdl_coll_init(void);
/* Every communicator's collectives end; prints the report when asked. Before hdl_p2p_fini: their queues use its port. */
int hdl_coll_fini(void);
/* Whether op is defined on type (MPI-5.0 section 6.9.2). */
bool hdl_op_valid(MPI_Op op, const struct hdl_type *type);
/* inout[i] = in[i] op inout[i], count elements of a predefined type, as they lie in memory: an extent apart, and with holes that are left
 * as they are. */
void hdl_op_apply(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count);

/* ---- operations of programs (userop.c) ------------------------------------------------------------------- */

struct hdl_user_op;
/* The object behind a handle, or NULL: predefined, null, foreign, freed. */
extern struct hdl_pool hdl_user_ops;
struct hdl_user_op *hdl_op_get(MPI_Op handle);
/* One of the two functions. NULL: no memory. */
struct hdl_user_op *hdl_op_create(MPI_User_function *fn, MPI_User_function_c *fn_c, bool commute);
void hdl_op_free(struct hdl_user_op *op);	/* the handle is gone; the object when no collective needs it */
bool hdl_op_commutes(const struct hdl_user_op *op);
void hdl_op_retain(struct hdl_user_op *op);	/* NULL is allowed, for both */
void hdl_op_release(struct hdl_user_op *op);
/* inout[i] = in[i] op inout[i] in memory, by an operation of either sort. MPI_ERR_OP if it is not defined on the type. */
int hdl_op_reduce_local(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count);

/* ---- collectives of pieces (pieces.c) ---------------------------------------------------------------------- */

struct hdl_vcoll_block {
	const void *buf;
	MPI_Count count;
	const struct hdl_type *type;
};

/* EXCHANGE is the last of those in which each rank has a piece for itself, unless it is in place. */
enum hdl_vcoll_kind { HDL_V_GATHER, HDL_V_SCATTER, HDL_V_EXCHANGE, HDL_V_NEIGHBORS, HDL_V_REDUCE, HDL_V_ALLREDUCE,
		       HDL_V_REDUCE_SCATTER, HDL_V_SCAN, HDL_V_EXSCAN,
		       HDL_V_BARRIER, HDL_V_BCAST };	/* these two of intercommunicators only */

/* What this rank gives and gets; the arrays may go when the call returns. One piece for all ranks, or one for each: GATHER:
 * in 1, or 0 at the root in place; out: at the root each rank's. SCATTER: in: at the root each rank's; out 1, or 0 at the
 * root in place. EXCHANGE: in 1 or each rank's, out each rank's; in place, each rank's pieces in `in`, too, unless one is
 * sent to all. NEIGHBORS: in 1 or one for each of `to`, out one for each of `from`. Reductions: in 1; out 1 where there is a
 * result; in place both name the same buffer.
 * In an intercommunicator "each rank" is each of the remote group, and the counts of REDUCE_SCATTER those of the own one. There a
 * rooted collective has root MPI_ROOT at its root, which has the root's pieces, and MPI_PROC_NULL, and no pieces, at its neighbors. */
struct hdl_vcoll {
	enum hdl_vcoll_kind coll;
	int root;
	bool in_place;
	bool alike;			/* GATHER, SCATTER: all pieces have as many bytes, and so every rank knows them */
	int nin, nout;
	const struct hdl_vcoll_block *in, *out;
	MPI_Op op;			/* MPI_OP_NULL but in reductions */
	const struct hdl_type *type;	/* of reductions */
	MPI_Count count;		/* REDUCE_SCATTER: elements of each part, unless counts says */
	const MPI_Count *counts;
	const int *to, *from;		/* NEIGHBORS: ranks, or MPI_PROC_NULL; nto and nout of them */
	int nto;
	bool grid;			/* two neighbors in each dimension: what goes to one comes from the other one's side */
};
/* req NULL: blocking. MPI error class. */
int hdl_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req);
/* An inactive persistent request. MPI error class. */
int hdl_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req);

/* This rank's arguments were refused, with that class and text, and the call of a collective has failed here. With HEDDLE_CHECK=1 this is
 * its part of the comparison, by which the call fails on all ranks; it waits for them. Without, it does nothing. */
void hdl_coll_refused(struct hdl_comm *comm, int class, const char *text);

/* Start a collective. Strictly nonblocking; arguments were checked by mpi/. Return an MPI error class. */
int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req);
/* The same as an inactive persistent request. */
int hdl_coll_prepare(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req);
/* The blocking form: same graph, and the caller's CPU until it is complete. */
int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args);
/* This rank has no memory for its part of a collective, for which the others would wait: they are told that it has failed. */
void hdl_coll_no_memory(struct hdl_comm *comm);

#endif
