/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of single_copy.c, reduce.c and vector.c: large collectives by copies from and to the buffers that ranks show each other. */
#ifndef HDL_COLL_READS_H
#define HDL_COLL_READS_H

#include "collectives/queues/queues.h"
#include "collectives/select/tuner.h"

enum { HDL_SC_RTS, HDL_SC_PROGRESS, HDL_SC_FIN, HDL_SC_CTRLS };

/* A line: one write of 64 bytes. */
struct hdl_sc_ctrl {
	uint64_t in, out;		/* SHOWN: addresses; movement: the first is that of the piece. REACHED: bytes, or a result's address */
	uint64_t bytes;			/* of the piece or vector, as the sender's arguments have it */
	uint64_t failed;		/* REACHED, DONE: the sender has not done all of its part */
	uint64_t reserved[3];
	uint64_t number;		/* of the operation, and 1: last, so that the rest is there when this is */
};
_Static_assert(sizeof(struct hdl_sc_ctrl) == 64, "a line");

struct hdl_sc_reduce {
	uint64_t begin, at, end;	/* of this rank's part, bytes of the vector; from `at` on it is left to do */
	size_t len;			/* of the segment that begins there */
	char *in, *out;			/* this rank's; byte `at` of the result belongs at out + at. out NULL: none of it */
	char *acc, *next;		/* what was combined, and the input that comes next to it */
	char *seg[2];
	char *result;			/* what this rank's part comes to, left behind for those that are to have it; or NULL: it writes it to them */
	uint32_t untold;		/* a bit per rank that is to have the part's result, and does not know that it is there */
	char *whole;			/* the part's result, where it may not go to its place before all have done theirs */
	size_t esize;
	hdl_op_fn fn;
	int k, to;			/* the input, and the rank that a result goes to, that are next */
	bool begun;			/* all have shown their buffers, as long as this rank's */
	bool sided;			/* each operand has its side: see hdl_op_is_sided */
	bool waits;			/* for the request to or from `with` */
	int with;
	enum { HDL_SC_REDUCE_TAKE, HDL_SC_REDUCE_JOIN, HDL_SC_REDUCE_GIVE } step;
};

struct hdl_sc_run {
	uint32_t acts;			/* a bit per rank: whose buffers this one has to copy from or to, before it says DONE there */
	uint32_t hears;			/* a bit per rank: that has to say DONE */
	uint32_t wants;			/* a bit per rank: whose part of the result has not come here */
	char *left;			/* what this rank leaves behind, or NULL */
	uint32_t copying;		/* a bit per rank: a request is under way, */
	uint64_t position[HDL_MAILBOX_RANKS];	/* ... this one of its queue */
	size_t spent;			/* bytes copied in this turn */
	bool failed;			/* somebody's length is another one: nothing is copied that depends on it */
	/* movement */
	bool writes;			/* to what is shown */
	struct {
		char *at;
		uint64_t off, end;
	} piece[HDL_MAILBOX_RANKS];	/* what this rank copies from, or to, each; how far it has come, and where its part ends */
	/* reductions */
	struct hdl_sc_reduce fold;
};

/* HEDDLE_COLL_SINGLE_COPY_MIN says that everything is to go this way, as tests do: then what is divided above some length is divided
 * below, too. */
static inline bool hdl_sc_all(void)
{
	return hdl_vars.coll_single_copy_min && hdl_vars.coll_single_copy_min < 1024;
}

/* Copied in a turn at least, before others that need progress have it; and by one request at most. */
#define HDL_SC_TURN ((size_t)4 << 20)

/*
 * What a rank leaves behind at most. The first is a bound of memory, for the copies' way is the quicker one as far as was measured. The
 * others are by measurement: of blocks for each of them, and of Allreduce, where results are left behind as well, all ranks write
 * copies and read others', and beyond this they put each other's out of the cache.
 */
#define HDL_SC_STAGE_FOR_ALL ((size_t)16 << 20)
#define HDL_SC_STAGE_IN_BLOCKS ((size_t)4 << 20)
#define HDL_SC_STAGE_ONCE ((size_t)256 << 10)	/* where ranks share CPUs, of one reader each, whatever the copy takes */
#define HDL_SC_STAGE_ALLREDUCE ((size_t)4 << 20)

/* Where in region HDL_REGION_SC the record of that kind from, or staged for, `rank` lies for the operation. */
static inline size_t hdl_sc_ctrl_at(const struct hdl_queues *h, const struct hdl_run *run, int kind, int rank)
{
	return run->slot * h->region[HDL_REGION_SC].slot_bytes + ((size_t)kind * (size_t)h->size + (size_t)rank) * sizeof(struct hdl_sc_ctrl);
}
/* What rank `peer` has said for this operation, or NULL. */
static inline const struct hdl_sc_ctrl *hdl_sc_ctrl_poll(const struct hdl_queues *h, const struct hdl_run *run, int kind, int peer)
{
	const struct hdl_sc_ctrl *t = (const struct hdl_sc_ctrl *)(h->region[HDL_REGION_SC].mem + hdl_sc_ctrl_at(h, run, kind, peer));

	/* pairs with the write's order: what stands before the number is there */
	return __atomic_load_n(&t->number, __ATOMIC_ACQUIRE) == run->opno + 1 ? t : NULL;
}
/* Memory for so many bytes that the ranks of that mask are to be shown, in place of what is its user's: the operation need not wait until
 * they are done. once: so many bytes have one reader each; 0: they have several. NULL: there is none, or it is not worth it. */
char *hdl_sc_stage(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t hears, size_t once);
/* The same of an operation whose ranks say elsewhere that they are done: `apart` bytes from each other, rank 0 there. */
char *hdl_sc_stage_until(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t hears, size_t once, const char *done, size_t apart);
/* Up to how many ns per KiB a copy into memory that is left behind is quick (lines/pace.h), on this machine. Measured once. */
uint16_t hdl_sc_quick(void);
void hdl_sc_stage_copy(struct hdl_queues *h, char *left, const char *from, size_t bytes);
/* False: the queue has no room now. */
bool hdl_sc_ctrl_send(struct hdl_queues *h, struct hdl_run *run, int peer, int kind, struct hdl_sc_ctrl told);
/* Words of the operation's, whole, to that place of the peer's area: likewise. mine: where that is of what this rank writes to it. */
bool hdl_sc_ctrl_send_at(struct hdl_queues *h, struct hdl_run *run, int peer, const struct hdl_slot_region *a, size_t its, size_t mine, const void *words,
		size_t bytes);
/* Copies by one request to or from the peer's memory: its number on the queue, for the other, which says whether it is complete. 0: the queue
 * has no room now. */
uint64_t hdl_sc_copy_post(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there, size_t len);
static inline bool hdl_sc_copy_done(struct hdl_queues *h, int peer, uint64_t position)
{
	const struct hdl_coll_link *l = h->pair[peer];

	if (l->sq_done < position)
		hdl_queues_drain(h);
	return l->sq_done >= position;
}
/* The same; one at a time for each peer. False: the queue has no room now. */
bool hdl_sc_copy(struct hdl_queues *h, struct hdl_run *run, int peer, bool write, char *here, uint64_t there, size_t len);
/* Whether the peer's request is complete. */
static inline bool hdl_sc_copied(struct hdl_queues *h, struct hdl_sc_run *x, int peer)
{
	if (!hdl_sc_copy_done(h, peer, x->position[peer]))
		return false;
	x->copying &= ~(1u << peer);
	return true;
}
/* A peer's buffer is not as long as this rank's arguments promise: the run has an error. */
void hdl_sc_refuse(struct hdl_run *run, int peer, uint64_t came, uint64_t expected);
/* A peer says that it could not do its part. */
void hdl_sc_hear_failure(struct hdl_run *run, int peer);

/* ---- reductions (reduce.c) ------------------------------------------------------------------------------ */

/* Whether rank p reduces a part of the vector. */
bool hdl_sc_reduce_has_part(const struct hdl_plan *plan, int size, int p);
/* Before it begins: 0 or -ENOMEM. */
int hdl_sc_reduce_prepare(struct hdl_run *run);
/* Shows the buffers. */
void hdl_sc_reduce_begin(struct hdl_queues *h, struct hdl_run *run);
/* Goes on with this rank's part. */
void hdl_sc_reduce_turn(struct hdl_queues *h, struct hdl_run *run);
/* Scan: rank after rank, segment by segment. */
void hdl_sc_scan_begin(struct hdl_queues *h, struct hdl_run *run);
void hdl_sc_scan_turn(struct hdl_queues *h, struct hdl_run *run);
/* Nobody reads this rank's input any more. */
void hdl_sc_reduce_end(struct hdl_queues *h, struct hdl_run *run);

#endif
