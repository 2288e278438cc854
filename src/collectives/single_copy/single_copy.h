/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal header of single_copy/: large collectives by RDMA READ and WRITE between the ranks' buffers. */
#ifndef HDL_SINGLE_COPY_H
#define HDL_SINGLE_COPY_H

#include "collectives/queues/queues.h"

/* Returns true if single copy does this collective, and the collective is long enough. */
bool hdl_sc_fit(const struct hdl_plan_key *key, const struct hdl_comm_props *props);
/* Returns a graph without nodes that names single copy as the algorithm; NULL with errno. */
struct hdl_graph *hdl_sc_graph(void);

/* Fewest bytes for which single copy is used, by measurement; some collectives need more. */
#define HDL_SC_LEAST ((size_t)16 << 10)
/* The same for one block of a v-collective between two ranks. Up to HDL_SC_LEAST an eager message is as quick, and the sender
 * need not wait. But where all ranks wait for all (HDL_ALLGATHERV), the single copy is quicker than the message's two. */
static inline size_t hdl_sc_from(enum hdl_coll coll)
{
	return hdl_vars.coll_single_copy_min ? (size_t)hdl_vars.coll_single_copy_min : HDL_SC_LEAST + (coll != HDL_ALLGATHERV);
}
/* Lays out the region of single copy's control records. */
void hdl_sc_lay_out(struct hdl_queues *h);
/* Frees this rank's staging buffers that all readers have acknowledged (HDL_SC_FIN), and all of them if the queues are in error.
 * May release the last reference to the communicator. */
void hdl_sc_staging_reclaim(struct hdl_queues *h);

enum { HDL_SC_RTS, HDL_SC_PROGRESS, HDL_SC_FIN, HDL_SC_CTRLS };

/* A control record; the receiver gets the whole record by one RDMA WRITE of 64 bytes. */
struct hdl_sc_ctrl {
	uint64_t in, out;		/* HDL_SC_RTS: addresses of input and result; movement: `in` alone, the block; Scan: `out`
					 * alone. HDL_SC_PROGRESS: `in` is a number of bytes (Scan), or the staged result's
					 * address (0: the result was written) */
	uint64_t bytes;			/* HDL_SC_RTS, HDL_SC_FIN: length of the block or vector by the sender's arguments */
	uint64_t failed;		/* HDL_SC_PROGRESS, HDL_SC_FIN: nonzero: the sender has not completed its part */
	uint64_t reserved[3];
	uint64_t number;		/* number of the operation, plus 1; the last word, so that the other words have landed
					 * when the number has */
};
_Static_assert(sizeof(struct hdl_sc_ctrl) == 64, "a cache line");

struct hdl_sc_reduce {
	uint64_t begin, at, end;	/* this rank's part, as byte offsets into the vector; [at, end) is still to be reduced */
	size_t len;			/* bytes of the segment at `at` */
	char *in, *out;			/* this rank's input and result: byte `at` of the result belongs at out + at; out NULL:
					 * this rank gets no result */
	char *acc, *next;		/* the combination so far (NULL: none), and the next input */
	char *seg[2];
	char *result;			/* staging buffer of this part's result, which the receivers read; NULL: this rank writes
					 * the result to them */
	uint32_t owes_progress;		/* a bit per rank that gets this part's result, and was not sent HDL_SC_PROGRESS yet */
	char *whole;			/* this part's result, if the receive buffer may be overwritten only at the end
					 * (hdl_sc_reduce_end); else NULL */
	size_t esize;
	hdl_op_fn fn;
	int k, to;			/* rank of the next input, and the next rank to be given the result */
	bool has_all_rts;		/* every rank's HDL_SC_RTS has come; not of Scan */
	bool progress_due;		/* Scan: HDL_SC_PROGRESS of `at` was not sent to the next rank yet */
	bool sided;			/* the operation tells its left operand from its right one: see hdl_op_is_sided */
	bool waits;			/* the copy from or to rank `with` is in flight */
	int with;
	enum { HDL_SC_REDUCE_TAKE, HDL_SC_REDUCE_JOIN, HDL_SC_REDUCE_GIVE } step;
};

struct hdl_sc_run {
	uint32_t owes_fin;		/* a bit per rank that this rank owes HDL_SC_FIN, due when the copies from or to that
					 * rank's buffers are done */
	uint32_t awaiting_fin;		/* a bit per rank whose HDL_SC_FIN this rank awaits */
	uint32_t awaiting_result;	/* a bit per rank whose part of the result has not arrived here */
	char *staging;			/* staging buffer of this rank's input (Scan: of this rank's result), or NULL */
	uint32_t copying;		/* a bit per rank: a copy from or to that rank is in flight */
	uint64_t position[HDL_MAILBOX_RANKS];	/* position of that copy's request on the send queue */
	size_t turn_bytes;			/* bytes whose copy began in this turn */
	bool failed;			/* lengths differ, or a peer could not do its part: no copy is made that depends on the
					 * lengths */
	/* movement */
	bool writes;			/* this rank writes into the peers' buffers; false: this rank reads from them */
	struct {
		char *at;
		uint64_t off, end;
	} block[HDL_MAILBOX_RANKS];	/* per peer: the local address, the offset reached, and the offset where this rank's share
					 * ends */
	/* reductions */
	struct hdl_sc_reduce reduce;
};

/* Returns true if HEDDLE_COLL_SINGLE_COPY_MIN sends everything by single copy, as tests do: then blocks are also divided below
 * the length from which they are divided otherwise. */
static inline bool hdl_sc_all(void)
{
	return hdl_vars.coll_single_copy_min && hdl_vars.coll_single_copy_min < 1024;
}

/* Bytes after which a turn ends, so that other progress runs; also the longest copy by one request. */
#define HDL_SC_TURN ((size_t)4 << 20)

/*
 * Upper bounds on the bytes that an operation stages at one rank. STAGE_FOR_ALL, where all readers read the same bytes, bounds
 * memory: staging was the faster way for all lengths measured. The other bounds are measured: with a block for each reader, and
 * in Allreduce, whose results are staged as well, all ranks write staging buffers and read their peers', and above the bound
 * these evict each other from the cache.
 */
#define HDL_SC_STAGE_FOR_ALL ((size_t)16 << 20)
#define HDL_SC_STAGE_IN_BLOCKS ((size_t)4 << 20)
#define HDL_SC_STAGE_ONCE ((size_t)256 << 10)	/* ranks share CPUs and each byte has one reader: staged whatever the copy
						 * takes */
#define HDL_SC_STAGE_ALLREDUCE ((size_t)4 << 20)

/* Offset in region HDL_REGION_SC of the operation's record of this kind from `rank`; in the staging half of the region, of the
 * record for `rank`. */
static inline size_t hdl_sc_ctrl_at(const struct hdl_queues *h, const struct hdl_run *run, int kind, int rank)
{
	return run->slot * h->region[HDL_REGION_SC].slot_bytes +
	       ((size_t)kind * (size_t)h->size + (size_t)rank) * sizeof(struct hdl_sc_ctrl);
}
/* Returns the operation's control record of this kind from `peer`, or NULL if none has come. */
static inline const struct hdl_sc_ctrl *hdl_sc_ctrl_poll(const struct hdl_queues *h, const struct hdl_run *run, int kind,
							 int peer)
{
	const struct hdl_sc_ctrl *t =
		(const struct hdl_sc_ctrl *)(h->region[HDL_REGION_SC].mem + hdl_sc_ctrl_at(h, run, kind, peer));

	/* pairs with the order in which an RDMA WRITE's bytes land: the words before the number are there */
	return __atomic_load_n(&t->number, __ATOMIC_ACQUIRE) == run->opno + 1 ? t : NULL;
}
/* Allocates a staging buffer of `bytes` that the ranks in `readers` read in place of the user's buffer, so that the operation may
 * complete before they have read. once: bytes that have one reader each; 0: all have several. Returns NULL if there is no memory,
 * no free entry, or staging does not pay. */
char *hdl_sc_stage(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t readers, size_t once);
/* As hdl_sc_stage, where the readers signal the end elsewhere: reader r by a word at done + r * apart that exceeds the
 * operation's number. */
char *hdl_sc_stage_until(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t readers, size_t once, const char *done,
			 size_t apart);
/* Returns the ns per KiB up to which a copy into a staging buffer counts as quick on this machine (HDL_TUNE_STAGING).
 * Measured once per process. */
uint32_t hdl_sc_quick(void);
void hdl_sc_stage_copy(struct hdl_queues *h, char *staging, const char *from, size_t bytes);
/* Sends the control record. Returns false if the send queue is full. */
bool hdl_sc_ctrl_send(struct hdl_queues *h, struct hdl_run *run, int peer, int kind, struct hdl_sc_ctrl ctrl);
/* Writes `words` by one request to offset `remote_off` of the peer's region. copy_off: offset of the copy in the staging half of
 * this rank's region, for devices that do not take so much inline. Returns false if the send queue is full. */
bool hdl_sc_ctrl_send_at(struct hdl_queues *h, struct hdl_run *run, int peer, const struct hdl_slot_region *a, size_t remote_off,
			 size_t copy_off, const void *words, size_t bytes);
/* Posts one RDMA READ or WRITE between `here` and the peer's memory. Returns the position on the send queue, for
 * hdl_sc_copy_done; 0 if the send queue is full. */
uint64_t hdl_sc_copy_post(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there,
			  size_t len);
static inline bool hdl_sc_copy_done(struct hdl_queues *h, int peer, uint64_t position)
{
	const struct hdl_coll_link *l = h->pair[peer];

	if (l->sq_done < position)
		hdl_queues_drain(h);
	return l->sq_done >= position;
}
/* As hdl_sc_copy_post, with the position kept in run->sc. Must: no other copy with this peer is in flight. Returns false if the
 * send queue is full. */
bool hdl_sc_copy(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there, size_t len);
/* Returns true if the copy with `peer` is complete. */
static inline bool hdl_sc_copied(struct hdl_queues *h, struct hdl_sc_run *x, int peer)
{
	if (!hdl_sc_copy_done(h, peer, x->position[peer]))
		return false;
	x->copying &= ~(1u << peer);
	return true;
}
/* Fails the run: the peer's length is not the one that this rank's arguments promise. */
void hdl_sc_refuse(struct hdl_run *run, int peer, uint64_t came, uint64_t expected);
/* Fails the run: the peer has sent `failed`. */
void hdl_sc_peer_failed(struct hdl_run *run, int peer);

/* ---- reductions (reduce.c) ------------------------------------------------------------------------------ */

/* Returns true if rank p reduces a part of the vector. */
bool hdl_sc_reduce_has_part(const struct hdl_plan *plan, int size, int p);
/* Allocates the memory that the operation needs. Returns 0 or -ENOMEM. */
int hdl_sc_reduce_prepare(struct hdl_run *run);
/* Sends HDL_SC_RTS with this rank's buffers to all ranks that have a part. */
void hdl_sc_reduce_begin(struct hdl_queues *h, struct hdl_run *run);
/* Advances this rank's part. */
void hdl_sc_reduce_turn(struct hdl_queues *h, struct hdl_run *run);
/* Scan: a chain of ranks, segment by segment. */
void hdl_sc_scan_begin(struct hdl_queues *h, struct hdl_run *run);
void hdl_sc_scan_turn(struct hdl_queues *h, struct hdl_run *run);
/* Must: no peer reads this rank's input any more. Moves the result to its place. */
void hdl_sc_reduce_end(struct hdl_queues *h, struct hdl_run *run);

#endif
