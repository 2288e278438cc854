/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The task graph of one rank's part in a collective. An algorithm is a sequential program against the builder
 * below; the dependences follow from what its nodes read and write, so that an executor may run anything in
 * whatever order the data allow. A graph names no user buffer: it is bound to buffers when it runs, and may be
 * run any number of times, also several times at once.
 *
 *     algorithm ──hdl_gb_*──▶ graph ──▶ host executor (by_events.c): nodes over p2p and transport
 *                                  └──▶ cell.c (plain RDMA writes), compile.c (ibv_exp_post_task lists)
 *
 * Matching: messages between two ranks within one collective match by (sub), and those of equal sub in the
 * order of their nodes; two messages of one pair and one direction that are not ordered by a dependence carry
 * different subs.
 */
#ifndef HDL_GRAPH_H
#define HDL_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/graph/ops.h"

/* Memory that nodes name. All offsets are bytes of packed data. */
enum hdl_space {
	HDL_SP_SEND,		/* the caller's sendbuf, read only; unused with MPI_IN_PLACE */
	HDL_SP_RECV,		/* the caller's recvbuf; Bcast's only buffer */
	HDL_SP_TMP,		/* scratch of the run */
	HDL_SP_ACC,		/* tasks: this rank's accumulator of the operation's slot, zero before */
	HDL_SP_DATA,		/* tasks: this rank's landing buffer of the operation's slot */
	HDL_SP_CELL,		/* mailbox: the operation's lines at this rank, one per sender: see hdl_cell_data */
	HDL_SPACES,
	HDL_SP_NONE = HDL_SPACES,
};

enum hdl_node_kind {
	/* Host executor. */
	HDL_N_SEND,		/* src -> peer */
	HDL_N_RECV,		/* dst <- peer */
	/* Both executors: run on the rank's own CPU. */
	HDL_N_COPY,		/* dst = src */
	HDL_N_REDUCE,		/* dst = src op dst */
	/* Mailbox and tasks. */
	HDL_N_ACCUM,		/* peer's ACC = peer's ACC op src, by masked atomics; encodes (see encode.h) */
	HDL_N_PUT,		/* dst offset in peer's dst space = src, or with nsrc > 1 what the device makes of so many, read when
				 * it runs; then an ARRIVE at the peer. len 0: a signal */
	HDL_N_ARRIVE,		/* the peer's next PUT towards this rank has landed; writes dst */
	HDL_N_ENCODE,		/* dst = the form that the device reduces (see encode.h) of src; run on the CPU */
	HDL_N_DECODE,		/* the reverse */
	HDL_N_STAMP,		/* dst = the operation's number and `stride`, the bytes of the block before it, and if there is room for it
				 * the complement; run on the CPU */
	HDL_N_CHECK,		/* that src is what the sender's STAMP of as many bytes has written: else the block is another's, or
				 * of another length; run on the CPU */
};

/* Which connection to a peer a PUT, ACCUM or ARRIVE travels on: a link is ordered in itself only. DOWN: to a rank ahead, UP:
 * to one behind, at a distance that hdl_knomial_link knows, over the same connections; SELF: to the rank itself. DIRECT: between
 * rank 0 and another. LINE: into a line of the peer's HDL_SP_CELL, where its CPU sees that it is there; the device cannot wait
 * for it. */
enum hdl_link { HDL_LINK_PAIR, HDL_LINK_DOWN, HDL_LINK_UP, HDL_LINK_SELF, HDL_LINK_MAILBOX };

/*
 * A line: what one rank sends another in one operation. The data end 16 bytes before the line does; these hold the data's
 * length and, last, the operation's number, by which the receiver knows that all of it is there. An aligned end keeps the data aligned.
 *
 *     |.............. data][ length, number ]|  bytes: a multiple of 64
 */
#define HDL_CELL_TRAILER 16
static inline size_t hdl_cell_bytes(size_t data)
{
	return (data + HDL_CELL_TRAILER + 63) & ~(size_t)63;
}
/* Offset in HDL_SP_CELL of `len` bytes of data in line `index`, of lines of this size. */
static inline size_t hdl_cell_data(size_t line_bytes, int index, size_t len)
{
	return ((size_t)index + 1) * line_bytes - HDL_CELL_TRAILER - len;
}

#define HDL_SUB_BITS 11		/* of a message's tag: its node's `sub` */
/* The sub of a step, or of an edge, by whose number messages of one collective between two ranks are told apart: as much as fits. */
static inline uint32_t hdl_sub(int number)
{
	return (uint32_t)number & ((1u << HDL_SUB_BITS) - 1);
}

struct hdl_node {
	uint8_t kind, src_space, dst_space, link;
	int32_t peer;
	uint32_t sub;			/* matching within the collective */
	uint32_t npreds;		/* nodes that must be done before */
	uint32_t pred0, succ0, nsuccs;	/* ranges in graph->preds and graph->succs */
	size_t src_off, dst_off, len;	/* bytes */
	size_t stride;			/* PUT of more than one source: between them. ENCODE, DECODE: bytes on the device's side. STAMP,
					 * CHECK: see there */
	uint16_t nsrc;			/* PUT */
	bool stamped;			/* PUT of more than one source: the last HDL_STAMPS bytes of each stride go along, combined by
					 * AND */
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

/* A stamp; and with its complement, of which AND leaves the same only if all are the same. */
#define HDL_STAMP 8
#define HDL_STAMPS 16

struct hdl_graph {
	uint32_t nnodes;
	uint32_t nsends, nrecvs;	/* nodes of these kinds */
	struct hdl_node *nodes;		/* in the algorithm's order, which is topological */
	uint32_t *preds, *succs;
	size_t tmp_bytes;
	size_t max_msg;			/* largest SEND, RECV, bytes */
	size_t acc_bytes, data_bytes;	/* tasks: what the slot must hold, multiples of 8 */
	hdl_op_fn fn;			/* for REDUCE */
	size_t esize;			/* bytes of fn's element */
	bool reads;			/* mailbox: no nodes, see single_copy.c */
	const char *algorithm;
};

/* ---- building -------------------------------------------------------------------------------------------- */

struct hdl_gb;

/* NULL with errno ENOMEM. fn and esize may be NULL, 0 in a graph without REDUCE. */
struct hdl_gb *hdl_gb_new(const char *algorithm, hdl_op_fn fn, size_t esize);
/* A builder without a graph: it carries each node out when it is added. Their order is the algorithm's, which is topological, so that
 * dependences need not be known. The same algorithms serve, and a call that will not come again pays for no graph. */
struct hdl_gb_now {
	void (*node)(void *arg, const struct hdl_node *n);
	void *(*tmp)(void *arg, size_t bytes);	/* scratch, 64-byte aligned; its address is its offset. NULL: no memory */
};
struct hdl_gb *hdl_gb_new_now(const struct hdl_gb_now *now, void *arg);
bool hdl_gb_goes_on(const struct hdl_gb *b);	/* there was memory so far */
/* One algorithm is through, another one may follow. False: there was no memory, and from there on nothing was carried out. */
bool hdl_gb_end_now(struct hdl_gb *b);
/* Of a builder without one: a graph without nodes. */
const struct hdl_graph *hdl_gb_graph(const struct hdl_gb *b);
/* Reserves scratch for n pieces of so many bytes, 64-byte aligned. Returns its offset in HDL_SP_TMP. More than can be
 * counted is no memory: hdl_gb_finish fails. */
size_t hdl_gb_tmp(struct hdl_gb *b, size_t n, size_t bytes);

/* The slot must hold so many bytes of HDL_SP_DATA, whatever of them this rank uses: all ranks take a slot of one size. */
void hdl_gb_data(struct hdl_gb *b, size_t bytes);

struct hdl_ref {
	enum hdl_space space;
	size_t off;
};
static inline struct hdl_ref hdl_ref(enum hdl_space space, size_t off)
{
	return (struct hdl_ref){ space, off };
}

/* A place so many bytes behind another one. */
static inline struct hdl_ref hdl_ref_at(struct hdl_ref ref, size_t off)
{
	return hdl_ref(ref.space, ref.off + off);
}
static inline bool hdl_ref_same(struct hdl_ref a, struct hdl_ref b)
{
	return a.space == b.space && a.off == b.off;
}
/* hdl_gb_tmp, as a place. */
static inline struct hdl_ref hdl_gb_scratch(struct hdl_gb *b, size_t n, size_t bytes)
{
	return hdl_ref(HDL_SP_TMP, hdl_gb_tmp(b, n, bytes));
}

/* Each returns the node's number. Memory shortage is remembered and surfaces in hdl_gb_finish. A node of length 0
 * that is no message is left out and returns HDL_NODE_NONE, which hdl_gb_after accepts. */
#define HDL_NODE_NONE UINT32_MAX
uint32_t hdl_gb_send(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref src, size_t len);
uint32_t hdl_gb_recv(struct hdl_gb *b, int peer, uint32_t sub, struct hdl_ref dst, size_t len);
uint32_t hdl_gb_copy(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_reduce(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_accum(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref src, size_t len);
uint32_t hdl_gb_put(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len);
uint32_t hdl_gb_arrive(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, size_t len);
/* What the device makes of n sources, stride apart, goes to the peer's dst. */
uint32_t hdl_gb_combine(struct hdl_gb *b, int peer, enum hdl_link link, struct hdl_ref dst, struct hdl_ref src, size_t len,
			size_t stride, int n, bool stamped);
/* len: of the elements in memory; enc_len: of their form for the device. */
uint32_t hdl_gb_encode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len);
uint32_t hdl_gb_decode(struct hdl_gb *b, struct hdl_ref dst, struct hdl_ref src, size_t len, size_t enc_len);
/* The block ahead of `at` has so many bytes. size: HDL_STAMP, or HDL_STAMPS. `at` is aligned to HDL_STAMP. */
uint32_t hdl_gb_stamp(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size);
uint32_t hdl_gb_check(struct hdl_gb *b, struct hdl_ref at, size_t bytes, size_t size);
/* node runs after on, beyond what their memory says: for messages without data. */
void hdl_gb_after(struct hdl_gb *b, uint32_t node, uint32_t on);

/* A graph of fewer ranks, of the same fn, becomes a part of this one, behind what was added before; it is gone. NULL: there was no
 * memory for it. Its nodes depend on the others by what they read and write; its messages must not be mistaken for others of the
 * same pair. */
struct hdl_part {
	int (*rank)(const void *arg, int peer);		/* of the part's ranks */
	const void *arg;
	struct hdl_ref send, recv;			/* where its buffers are */
	uint32_t sub;					/* added to its messages' */
};
void hdl_gb_part(struct hdl_gb *b, struct hdl_graph *part, const struct hdl_part *where);

/* The graph, and the builder is gone. NULL with errno ENOMEM. Free with hdl_graph_free. */
struct hdl_graph *hdl_gb_finish(struct hdl_gb *b);
void hdl_graph_free(struct hdl_graph *g);
/* It is compiled, and nobody asks for its edges any more, nor (nodes) for its nodes: they are freed. */
void hdl_graph_forget(struct hdl_graph *g, bool nodes);

#endif
