/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internal header of graph/: operations, and task graphs.
 *
 * The task graph of one rank's part in a collective. An algorithm is a sequential program against the builder below. The
 * builder derives the dependences from the memory that the nodes read and write, so an executor may run the nodes in any order
 * that respects them. A graph names no user buffer: a run binds the graph to buffers. A graph may be run any number of times,
 * also by several runs at once.
 *
 *     algorithm ──hdl_gb_*──▶ graph ──▶ host executor (host/by_events.c): nodes over p2p and transport
 *                                  ├──▶ mailbox executor (mailbox/cell.c): RDMA WRITEs
 *                                  └──▶ tasks executor (tasks/compile.c): ibv_exp_post_task lists
 *
 * Matching: messages between two ranks within one collective match by `sub`, and messages of equal `sub` in the order of their
 * nodes. Two messages of one pair and one direction that no dependence orders must have different subs.
 */
#ifndef HDL_GRAPH_H
#define HDL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/collectives.h"
#include "datatype/datatype.h"

/* ---- ops.c: the predefined operations on the predefined types (MPI-5.0 section 6.9.2) ------------------------------------ */

/* A type is reduced by its representation: MPI_INT, MPI_INT32_T and MPI_INTEGER4 share one loop. */

/*
 * inout[i] = in[i] op inout[i] for n packed elements, without gaps: an element of MPI_DOUBLE_INT has 12 bytes here and 16 in
 * memory. Must: in and inout do not overlap. Either may have any alignment.
 */
typedef void (*hdl_op_fn)(const void *in, void *inout, size_t n);

enum hdl_rep {
	HDL_REP_NONE,		/* no operation is defined on the type */
	HDL_REP_I8, HDL_REP_U8, HDL_REP_I16, HDL_REP_U16, HDL_REP_I32, HDL_REP_U32, HDL_REP_I64, HDL_REP_U64,
	HDL_REP_F32, HDL_REP_F64, HDL_REP_FLD,
	HDL_REP_C32, HDL_REP_C64, HDL_REP_CLD,
	HDL_REP_P_F32_INT, HDL_REP_P_F64_INT, HDL_REP_P_LONG_INT, HDL_REP_P_2INT, HDL_REP_P_SHORT_INT,
	HDL_REP_P_FLD_INT, HDL_REP_P_2F32, HDL_REP_P_2F64,
	HDL_REP_I128, HDL_REP_F16, HDL_REP_F128, HDL_REP_C16, HDL_REP_C128,	/* without loops where the compiler lacks the
										 * type */
	HDL_REPS
};

/* The type's class in section 6.9.2, by which an operation is valid on the type. */
enum hdl_class {
	HDL_CLASS_NONE, HDL_CLASS_INT, HDL_CLASS_FINT, HDL_CLASS_FLOAT, HDL_CLASS_LOGICAL, HDL_CLASS_COMPLEX,
	HDL_CLASS_BYTE, HDL_CLASS_MULTI, HDL_CLASS_PAIR,
	HDL_CLASS_CHAR,		/* MPI_CHAR: the standard defines no operation on it */
};

/* Index of a predefined operation; -1 for any other handle. */
enum hdl_op_index {
	HDL_OP_SUM, HDL_OP_MIN, HDL_OP_MAX, HDL_OP_PROD, HDL_OP_BAND, HDL_OP_BOR, HDL_OP_BXOR, HDL_OP_LAND,
	HDL_OP_LOR, HDL_OP_LXOR, HDL_OP_MINLOC, HDL_OP_MAXLOC, HDL_OPS
};

struct hdl_reptype {
	enum hdl_rep rep;
	enum hdl_class cls;
	const char *name;
	MPI_Datatype handle;
};

int hdl_op_index(MPI_Op op);
const char *hdl_op_name(MPI_Op op);
/* Look up by name, with or without the prefix MPI_. Return MPI_OP_NULL, NULL if there is none. */
MPI_Op hdl_op_named(const char *name);
const struct hdl_type *hdl_reptype_named(const char *name);
/* The representation and class of a predefined type. Never NULL: a type without operations has class HDL_CLASS_NONE. */
const struct hdl_reptype *hdl_reptype(const struct hdl_type *type);
/* Returns true if the bits of a result depend on the operands' sides: MIN and MAX of a NaN and a number, or of -0.0 and 0.0,
 * return one operand; a product of complex numbers may be rounded differently. The payload of a NaN is never guaranteed. */
bool hdl_op_is_sided(MPI_Op op, const struct hdl_type *type);
/* The loop for op on packed elements of type; NULL if op is not defined on the type. For elements in memory: hdl_op_apply. */
hdl_op_fn hdl_op_lookup(MPI_Op op, const struct hdl_type *type);

/* ---- userop.c: user-defined operations (MPI-5.0 section 6.9.5), and a reduction by any operation on packed data ------------ */

/* An operation on packed elements of a type. */
struct hdl_reducer {
	hdl_op_fn fn;			/* loop of a predefined operation; NULL for a user-defined one */
	struct hdl_user_op *op;
	const struct hdl_type *type;
	size_t size;			/* packed bytes of one element */
	/* a user-defined operation on elements with holes, or with a lower bound that is not 0: `some` elements at a time are
	 * unpacked into two buffers */
	bool unpacks;
	MPI_Count batch;
	size_t unpack_bytes;		/* bytes of one unpack buffer, a multiple of 64 */
	size_t origin;			/* offset of the first element in an unpack buffer */
};

/* Returns false if the operation is not defined on the type. */
bool hdl_reducer_init(struct hdl_reducer *r, MPI_Op op, const struct hdl_type *type);
/* inout[i] = in[i] op inout[i] on packed bytes. unpack_buf: 2 * unpack_bytes, 64-byte aligned; NULL if r->unpacks is false. */
void hdl_reducer_apply(const struct hdl_reducer *r, const void *in, void *inout, size_t bytes, char *unpack_buf);

/* ---- graph.c: graphs --------------------------------------------------------------------------------------------------- */

/* Memory that nodes name. All offsets are bytes of packed data. */
enum hdl_space {
	HDL_SP_SEND,		/* sendbuf, read only; unused with MPI_IN_PLACE */
	HDL_SP_RECV,		/* recvbuf; the buffer of a Bcast */
	HDL_SP_TMP,		/* scratch of the run */
	HDL_SP_ACC,		/* tasks: this rank's accumulator in the operation's slot, zero when the operation begins */
	HDL_SP_DATA,		/* tasks: this rank's landing buffer in the operation's slot */
	HDL_SP_CELL,		/* mailbox: this rank's cells in the operation's slot, one per sender: see hdl_cell_data */
	HDL_SPACES,
	HDL_SP_NONE = HDL_SPACES,
};

enum hdl_node_kind {
	/* Host executor. */
	HDL_N_SEND,		/* src -> peer */
	HDL_N_RECV,		/* dst <- peer */
	/* Every executor: run by the rank's own CPU. */
	HDL_N_COPY,		/* dst = src */
	HDL_N_REDUCE,		/* dst = src op dst */
	/* Mailbox and tasks. */
	HDL_N_ACCUM,		/* the peer's ACC = ACC op src, by masked atomics; encodes src (tasks/tasks.h) */
	HDL_N_PUT,		/* the peer's dst = src, then an arrival at the peer. nsrc > 1: the device combines nsrc
				 * sources when the request runs. len 0: a signal */
	HDL_N_ARRIVE,		/* the peer's next PUT towards this rank has landed in dst */
	HDL_N_ENCODE,		/* dst = src in the form that the device reduces (tasks/tasks.h); run by the CPU */
	HDL_N_DECODE,		/* the inverse of ENCODE */
	HDL_N_STAMP,		/* dst = operation number and `stride`, the length of the block before the stamp; with len
				 * HDL_STAMPS also their complement; run by the CPU */
	HDL_N_CHECK,		/* compares src with the stamp that the sender must have written; a mismatch means another
				 * operation's block or another length; run by the CPU */
};

/*
 * The connection to a peer on which a PUT, ACCUM or ARRIVE travels. Requests are ordered within one link only.
 *
 * PAIR: tasks, an ordinary queue between two ranks. DOWN, UP: tasks, to a rank ahead or behind at a distance that
 * hdl_knomial_link knows; both directions share the connections. SELF: tasks, to the rank itself. MAILBOX: into a cell of the
 * peer's HDL_SP_CELL; the peer's CPU sees the arrival, the device cannot WAIT for it.
 */
enum hdl_link { HDL_LINK_PAIR, HDL_LINK_DOWN, HDL_LINK_UP, HDL_LINK_SELF, HDL_LINK_MAILBOX };

/*
 * A cell: the memory that one rank writes at one peer in one operation. The data end 16 bytes before the end of the cell; the
 * length of the data follows, and last the operation number. An RDMA WRITE lands in ascending order, so a receiver that reads
 * the expected operation number knows that all of the cell has landed. The fixed end keeps the data aligned.
 *
 *     |.............. data][ length, number ]|  bytes: a multiple of 64
 */
#define HDL_CELL_TRAILER 16
static inline size_t hdl_cell_bytes(size_t data)
{
	return (data + HDL_CELL_TRAILER + 63) & ~(size_t)63;
}
/* Offset in HDL_SP_CELL of `len` bytes of data in the cell with this index. */
static inline size_t hdl_cell_data(size_t cell_bytes, int index, size_t len)
{
	return ((size_t)index + 1) * cell_bytes - HDL_CELL_TRAILER - len;
}

#define HDL_SUB_BITS 11		/* bits of a message's tag that hold its node's `sub` */
/* The sub of step or edge `number`: its low HDL_SUB_BITS bits. */
static inline uint32_t hdl_sub(int number)
{
	return (uint32_t)number & ((1u << HDL_SUB_BITS) - 1);
}

struct hdl_node {
	uint8_t kind, src_space, dst_space, link;
	int32_t peer;
	uint32_t sub;			/* tells messages of one collective between two ranks apart */
	uint32_t npreds;		/* number of predecessors */
	uint32_t pred0, succ0, nsuccs;	/* ranges in graph->preds and graph->succs */
	size_t src_off, dst_off, len;	/* bytes */
	size_t stride;			/* bytes. PUT of several sources: from one source to the next. ENCODE, DECODE: length
					 * of the device's form. STAMP, CHECK: length of the stamped block */
	uint16_t nsrc;			/* PUT: number of sources */
	bool stamped;			/* PUT of several sources: the device also combines the last HDL_STAMPS bytes of each
					 * stride, by AND */
};

/* Bytes of its own rank's memory that a node reads from src_off on, and writes from dst_off on. */
static inline size_t hdl_node_src_len(const struct hdl_node *n)
{
	return n->kind == HDL_N_DECODE ? n->stride : n->stamped ? n->nsrc * n->stride :
	       n->nsrc > 1 ? (n->nsrc - 1u) * n->stride + n->len : n->len;
}
static inline size_t hdl_node_dst_len(const struct hdl_node *n)
{
	return n->kind == HDL_N_ENCODE ? n->stride : n->len;
}

/* Bytes of a stamp, and of a stamp with its complement. The AND of several such pairs is a valid pair only if all stamps are
 * equal. */
#define HDL_STAMP 8
#define HDL_STAMPS 16

struct hdl_graph {
	uint32_t nnodes;
	uint32_t nsends, nrecvs;	/* nodes of kind SEND, RECV */
	struct hdl_node *nodes;		/* in the algorithm's order, which is topological */
	uint32_t *preds, *succs;
	size_t tmp_bytes;
	size_t max_msg;			/* bytes of the longest SEND or RECV */
	size_t acc_bytes, data_bytes;	/* tasks: bytes that the slot must hold, multiples of 8 */
	hdl_op_fn fn;			/* of REDUCE nodes */
	size_t esize;			/* bytes of one element of fn */
	const char *algorithm;
};

/* ---- building -------------------------------------------------------------------------------------------- */

struct hdl_gb;

/* Creates a builder. fn, esize: of REDUCE nodes; NULL and 0 in a graph without them. Returns NULL with errno ENOMEM. */
struct hdl_gb *hdl_gb_new(const char *algorithm, hdl_op_fn fn, size_t esize);
/*
 * Callbacks of a builder that builds no graph: the builder executes each node as the algorithm adds the node. The algorithm's
 * order is topological, so no dependences are needed. The same algorithms serve both, and a call that will not be repeated
 * pays for no graph.
 */
struct hdl_gb_now {
	void (*node)(void *arg, const struct hdl_node *n);
	void *(*tmp)(void *arg, size_t bytes);	/* allocates 64-byte aligned scratch; the address is the offset in HDL_SP_TMP.
						 * Returns NULL if there is no memory */
};
struct hdl_gb *hdl_gb_new_now(const struct hdl_gb_now *now, void *arg);
bool hdl_gb_goes_on(const struct hdl_gb *b);	/* no allocation has failed so far */
/* Ends one algorithm; another may follow. Returns false if an allocation failed: no node was executed from there on. */
bool hdl_gb_end_now(struct hdl_gb *b);
/* The (empty) graph of a builder of hdl_gb_new_now. */
const struct hdl_graph *hdl_gb_graph(const struct hdl_gb *b);
/* Reserves scratch for n blocks of `bytes` bytes, 64-byte aligned. Returns the offset in HDL_SP_TMP. If the size overflows,
 * hdl_gb_finish fails with ENOMEM. */
size_t hdl_gb_tmp(struct hdl_gb *b, size_t n, size_t bytes);

/* Makes the slot hold at least `bytes` bytes of HDL_SP_DATA, also if this rank uses fewer: all ranks must use slots of one
 * size. */
void hdl_gb_data(struct hdl_gb *b, size_t bytes);

struct hdl_ref {
	enum hdl_space space;
	size_t off;
};
static inline struct hdl_ref hdl_ref(enum hdl_space space, size_t off)
{
	return (struct hdl_ref){ space, off };
}

/* The reference `off` bytes behind ref. */
static inline struct hdl_ref hdl_ref_at(struct hdl_ref ref, size_t off)
{
	return hdl_ref(ref.space, ref.off + off);
}
static inline bool hdl_ref_same(struct hdl_ref a, struct hdl_ref b)
{
	return a.space == b.space && a.off == b.off;
}
/* hdl_gb_tmp as a reference. */
static inline struct hdl_ref hdl_gb_scratch(struct hdl_gb *b, size_t n, size_t bytes)
{
	return hdl_ref(HDL_SP_TMP, hdl_gb_tmp(b, n, bytes));
}

/* Add a node and return its number. An allocation failure surfaces in hdl_gb_finish. A local node of length 0 is not added:
 * the return value is HDL_NODE_NONE, which hdl_gb_after accepts. */
#define HDL_NODE_NONE UINT32_MAX
uint32_t hdl_gb_send(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref src, size_t len);
uint32_t hdl_gb_recv(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref dst, size_t len);
uint32_t hdl_gb_copy(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_reduce(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_accum(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref src, size_t len);
uint32_t hdl_gb_put(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_arrive(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, size_t len);
/* A PUT: the device combines n sources, `stride` apart, into the peer's dst. */
uint32_t hdl_gb_combine(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len,
			size_t stride, int n, bool stamped);
/* len: bytes of the packed elements. enc_len: bytes of their form for the device. */
uint32_t hdl_gb_encode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len);
uint32_t hdl_gb_decode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len);
/* A STAMP or CHECK of the block of `bytes` bytes before `at`. size: HDL_STAMP or HDL_STAMPS. `at` must be aligned to
 * HDL_STAMP. */
uint32_t hdl_gb_stamp(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size);
uint32_t hdl_gb_check(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size);
/* Makes `node` depend on `on`, in addition to the dependences by memory: for messages without data. */
void hdl_gb_after(struct hdl_gb *b, uint32_t node, uint32_t on);

/* Appends a graph of fewer ranks, with the same fn, to this one and frees it. part NULL: an allocation failed, and
 * hdl_gb_finish fails. The part's nodes depend on earlier nodes by the memory they access. Must: no message of the part has
 * the pair, direction and sub of another message that no dependence orders. */
struct hdl_part {
	int (*rank)(const void *arg, int peer);		/* rank in this graph of the part's rank `peer` */
	const void *arg;
	struct hdl_ref send, recv;	/* where HDL_SP_SEND and HDL_SP_RECV of the part are */
	uint32_t sub;			/* added to the sub of each message */
};
void hdl_gb_part(struct hdl_gb *b, struct hdl_graph *part, const struct hdl_part *where);

/* Returns the graph and frees the builder. NULL with errno ENOMEM. Ownership: the caller frees the graph with hdl_graph_free. */
struct hdl_graph *hdl_gb_finish(struct hdl_gb *b);
void hdl_graph_free(struct hdl_graph *g);
/* Frees the edges of a compiled graph, and with `nodes` its nodes too. Must: no executor reads them any more. */
void hdl_graph_forget(struct hdl_graph *g, bool nodes);

#endif
