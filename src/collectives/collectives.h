/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/collectives (MPI-5.0 chapter 6): a collective is a task graph, built once per (communicator,
 * collective, root, shape) and kept; one of three executors runs the graph: host, mailbox or tasks.
 */
#ifndef HDL_COLLECTIVES_H
#define HDL_COLLECTIVES_H

#include <mpi.h>
#include <stdio.h>

#include "p2p/p2p.h"

/* Up to HDL_COLLS: collectives whose graphs are kept; REDUCE_SCATTER has parts of one size. From HDL_COLLS on: v-collectives on
 * mailbox (vector.c); a rank has its own lengths only, unless hdl_vector_known. ALLTOALLV is alltoallw, too; NEIGHBORS is each
 * neighborhood collective. VREDUCE to VEXSCAN: reductions by operations of programs, or of parts of different lengths. */
enum hdl_coll { HDL_BARRIER, HDL_BCAST, HDL_REDUCE, HDL_ALLREDUCE, HDL_ALLGATHER, HDL_ALLTOALL, HDL_GATHER, HDL_SCATTER,
		HDL_REDUCE_SCATTER, HDL_SCAN, HDL_EXSCAN, HDL_COLLS,
		HDL_GATHERV = HDL_COLLS, HDL_SCATTERV, HDL_ALLGATHERV, HDL_ALLTOALLV, HDL_NEIGHBORS,
		HDL_VREDUCE, HDL_VALLREDUCE, HDL_VREDUCE_SCATTER, HDL_VSCAN, HDL_VEXSCAN, HDL_COLL_KINDS };

/* Returns the name of a collective, as in the reports: "allreduce". */
const char *hdl_coll_name(enum hdl_coll coll);

static inline bool hdl_coll_reduces(enum hdl_coll coll)
{
	return coll == HDL_REDUCE || coll == HDL_ALLREDUCE || (coll >= HDL_REDUCE_SCATTER && coll < HDL_COLLS);
}

static inline bool hdl_coll_has_root(enum hdl_coll coll)
{
	return coll == HDL_BCAST || coll == HDL_REDUCE || coll == HDL_GATHER || coll == HDL_SCATTER || coll == HDL_GATHERV ||
	       coll == HDL_SCATTERV || coll == HDL_VREDUCE;
}

/* Returns true for v-collectives: no graph of the host executor is kept. Lengths: see hdl_vector_known. */
static inline bool hdl_coll_is_vcoll(enum hdl_coll coll)
{
	return coll >= HDL_COLLS;
}

static inline bool hdl_coll_is_vreduce(enum hdl_coll coll)
{
	return coll >= HDL_VREDUCE;
}

/* Returns true for the v-collectives of which every rank knows all lengths. */
static inline bool hdl_vector_known(enum hdl_coll coll)
{
	return coll == HDL_ALLGATHERV || hdl_coll_is_vreduce(coll);
}

struct hdl_coll_args {
	enum hdl_coll coll;
	const void *sendbuf;		/* MPI_IN_PLACE where the standard allows it */
	void *recvbuf;			/* MPI_IN_PLACE at SCATTER's root */
	/* GATHER, SCATTER: arguments that are not significant at this rank hold copies of the significant ones */
	MPI_Count sendcount, recvcount;
	const struct hdl_type *sendtype, *recvtype;
	MPI_Op op;
	int root;
};

/* heddle_info --explain: executor, algorithm, reason, the device's part, and a rank's graph, as text or (dot) for
 * Graphviz. Collectives are called as in the report. */
struct hdl_explain {
	const char *collective, *type, *op;
	int ranks, root, rank;
	const char *hosts;		/* "2x4": ranks on 2 hosts, 4 on each; "3+1": hosts of 3 ranks and of 1; NULL: all on this
					 * host */
	size_t bytes;			/* as HEDDLE_REPORT_COLLECTIVES counts them */
	bool nonblocking, persistent, dot;
};
/* Returns an exit code: 0; 2 for invalid arguments, after an error text; 1 for other failures. */
int hdl_coll_explain(FILE *out, const struct hdl_explain *args);

/* A counter of the collectives, from the start of the process on: names and texts as those of the transport (hdl_counter). NULL:
 * there are not so many. v-collectives that the host executor runs without a plan are not counted. */
const struct hdl_counter *hdl_coll_counter(unsigned i);
uint64_t hdl_coll_counter_read(unsigned i);

int hdl_coll_init(void);
/* Frees every communicator's collectives, and prints the report if configured. Must: before hdl_p2p_fini, whose port the queues
 * use. */
int hdl_coll_fini(void);
/* Returns true if op is defined on type (MPI-5.0 section 6.9.2). */
bool hdl_op_valid(MPI_Op op, const struct hdl_type *type);
/* Computes inout[i] = in[i] op inout[i] for count elements of a predefined type in memory layout: an extent apart, with holes
 * that are not written. */
void hdl_op_apply(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count);

/* ---- operations of programs (userop.c) ------------------------------------------------------------------- */

struct hdl_user_op;
/* Returns the object behind a handle, or NULL if the handle is predefined, null, foreign or freed. */
extern struct hdl_pool hdl_user_ops;
struct hdl_user_op *hdl_op_get(MPI_Op handle);
/* Makes an operation of one of the two functions. Returns NULL if there is no memory. */
struct hdl_user_op *hdl_op_create(MPI_User_function *fn, MPI_User_function_c *fn_c, bool commute);
void hdl_op_free(struct hdl_user_op *op);	/* frees the handle at once, the object when no collective needs it */
bool hdl_op_commutes(const struct hdl_user_op *op);
void hdl_op_retain(struct hdl_user_op *op);	/* NULL is allowed, for both */
void hdl_op_release(struct hdl_user_op *op);
/* Computes inout[i] = in[i] op inout[i] in memory, by a predefined or user-defined operation (MPI-5.0 section 6.9.7). Returns an
 * MPI error class; MPI_ERR_OP: not defined on the type. */
int hdl_op_reduce_local(MPI_Op op, const struct hdl_type *type, const void *in, void *inout, MPI_Count count);

/* ---- v-collectives (vcoll.c) ------------------------------------------------------------------------------- */

struct hdl_vcoll_block {
	const void *buf;
	MPI_Count count;
	const struct hdl_type *type;
};

/* Up to EXCHANGE each rank has a block for itself, unless the call is in place. */
enum hdl_vcoll_kind { HDL_V_GATHER, HDL_V_SCATTER, HDL_V_EXCHANGE, HDL_V_NEIGHBORS, HDL_V_REDUCE, HDL_V_ALLREDUCE,
		       HDL_V_REDUCE_SCATTER, HDL_V_SCAN, HDL_V_EXSCAN,
		       HDL_V_BARRIER, HDL_V_BCAST };	/* BARRIER, BCAST: intercommunicators only */

/* Blocks that this rank sends (in) and receives (out). Must: the arrays stay until the call returns. Number of blocks:
 *
 *     GATHER         in 1, or 0 at the root in place; out, at the root: one per rank
 *     SCATTER        in, at the root: one per rank; out 1, or 0 at the root in place
 *     EXCHANGE       in 1 (sent to all ranks) or one per rank; out one per rank. In place the ranks' blocks stand in `in` as
 *                    well, unless one is sent to all
 *     NEIGHBORS      in 1 or one for each of `to`; out one for each of `from`
 *     reductions     in 1; out 1 where there is a result; in place both name the same buffer
 *
 * In an intercommunicator "rank" means a rank of the remote group, and the counts of REDUCE_SCATTER are those of the own group.
 * There, in the root's group, a rooted collective has root MPI_ROOT at the root, with the root's blocks, and MPI_PROC_NULL,
 * without blocks, at the remaining ranks. */
struct hdl_vcoll {
	enum hdl_vcoll_kind coll;
	int root;
	bool in_place;
	bool alike;			/* GATHER, SCATTER: all blocks have as many bytes; therefore every rank knows the
					 * number */
	int nin, nout;
	const struct hdl_vcoll_block *in, *out;
	MPI_Op op;			/* MPI_OP_NULL but in reductions */
	const struct hdl_type *type;	/* of reductions */
	MPI_Count count;		/* REDUCE_SCATTER: elements of each part, if counts is NULL */
	const MPI_Count *counts;
	const int *to, *from;		/* NEIGHBORS: ranks, or MPI_PROC_NULL; to[nto], from[nout] */
	int nto;
	bool grid;			/* two neighbors in each dimension: a message to one comes from the opposite direction */
};
/* Starts a v-collective; req NULL: blocking. Returns an MPI error class. */
int hdl_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req);
/* Makes an inactive persistent request (MPI-5.0 section 6.13). Returns an MPI error class. */
int hdl_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *args, struct hdl_req **req);

/* This rank's arguments of a collective were refused, with this class and text. With HEDDLE_CHECK=1, does this rank's part of the
 * comparison, by which the call fails on all ranks, and waits for the other ranks. Without, does nothing. */
void hdl_coll_refused(struct hdl_comm *comm, int class, const char *text);

/* Starts a collective. Strictly nonblocking. Returns an MPI error class. Must: mpi/ has checked the arguments. */
int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req);
/* Makes an inactive persistent request of the collective (MPI-5.0 section 6.13). Returns an MPI error class. */
int hdl_coll_prepare(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req);
/* The blocking form. Returns an MPI error class. Uses the caller's CPU until the collective is complete. */
int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args);
/* This rank cannot do its part of a collective, for which the other ranks would wait: revokes the communicator. unable: err is
 * the cause, a positive errno; returns its MPI error class. no_memory: the same with ENOMEM. */
int hdl_coll_unable(struct hdl_comm *comm, int err);
void hdl_coll_no_memory(struct hdl_comm *comm);

#endif
