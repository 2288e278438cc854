/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitioned communication (MPI-5.0 chapter 4). A pair of requests is named by (context, tag, number): the k-th MPI_Psend_init
 * and the k-th MPI_Precv_init between two processes with one tag of a communicator belong together, so making them is local.
 * Each start of the pair is an epoch.
 *
 *     receiver                                  sender
 *     MPI_Start ── GO(name, epoch, id[, key]) ──▶ keeps id and key; partitions that are ready go
 *                                               MPI_Pready: marks the partition
 *               ◀── DATA(id, epoch, offset)[+ bytes] ── a run of ready partitions
 *     counts the bytes of each of its partitions; all of them are here: the request is done
 *
 * Invariants.
 * 1. Nothing of an epoch leaves the sender before GO of that epoch has come, so nothing lands before the receiver's MPI_Start.
 *    GO of the next epoch follows the end of this one at the receiver, so one number is enough.
 * 2. A run of more than HEDDLE_EAGER_MAX bytes between buffers without holes is put into the receiver's region, whose key came
 *    with the first GO, and DATA follows when the put has ended. Any other run is the payload of DATA.
 * 3. Offsets are those of the packed stream, so the two sides may have different partitions and types.
 *
 * Box. A receive of up to BOX_MOST bytes from a process of the same fabric has a box (part_box.h), whose place the first GO
 * tells. From then on MPI_Start of the receiver is a store, which the sender finds by a load; GO is sent to a sender that has
 * found nothing only. MPI_Pready, once the receiver has started, stores its partition there, and MPI_Parrived looks at the box
 * and copies the partition out: no lock, no message, by any number of threads at once. The receiver's progress looks, too, so it
 * copies while the sender's threads are still storing, and ends the epoch when no partition is missing. The thread that stores
 * the last partition sends DATA(id, epoch), for a receiver that sleeps: it says only that the box is worth a look, since it may
 * arrive when the epoch is over, and the id another request's.
 *
 * Files: part_arrive.c, the receiving half; part_send.c, the sending half; partitioned.c, GO and the life of a request.
 *
 * Threads. Without a box MPI_Pready takes no lock: it marks the partition, enters it into the request's list of marked ones, and
 * the request into the list `dirty`. The thread that finds no other one at it (`draining`) takes the library's lock and sends
 * all of that; other threads return at once. Scenario of a request that is freed meanwhile:
 *     1. Thread 1 marks the last partition. Thread 2, draining, sends it and completes the request.
 *     2. Thread 3 returns from MPI_Wait and frees the request. Thread 1 would enter freed memory into `dirty`.
 * So a caller counts itself (`callers`) ahead of the mark and uncounts itself behind the entry, and part_free waits for them, and
 * then empties `dirty`. A caller that finds the box open does without: the request is not done before its last
 * partition is stored and the thread that has stored it has sent DATA; a caller whose partition was not the last does
 * not look at the request again. (If the peer fails, the request is done earlier. Which threads are still to call
 * MPI_Pready only the program knows then.)
 */
#ifndef HDL_P2P_PART_H
#define HDL_P2P_PART_H

#include "base/base.h"
#include "p2p/part_box.h"
#include "p2p/partitioned.h"

struct part_go {			/* head of HDL_AM_PART_GO; the payload is the region's key, with the first epoch */
	uint64_t total;
	uint64_t box_at, box_nonce;	/* place of the box in the fabric; 0: there is none */
	int32_t tag;
	uint32_t number, epoch, id;
	uint32_t n;			/* the receiver's partitions */
	uint16_t context;
	uint16_t reserved;
};
_Static_assert(sizeof(struct part_go) <= HDL_AM_HEAD_MAX, "fits a head");

struct part_data {			/* head of HDL_AM_PART_DATA; the payload is the bytes, unless they were put */
	uint64_t offset, len, total;
	uint32_t id, epoch;
	uint32_t put;			/* enum part_put */
	/* of the pair, with the context: `id` may be that of a later receive by now (hdl_part_on_data) */
	uint32_t number;
	int32_t tag;
	uint16_t context;
	uint16_t reserved;
};
enum part_put { PUT_NOT, PUT_BY_RMA, PUT_IN_BOX };	/* where the bytes are: in the payload, in the buffer, in the box */
_Static_assert(sizeof(struct part_data) <= HDL_AM_HEAD_MAX, "fits a head");

enum mark { UNMARKED, MARKED, TAKEN, SENT };	/* TAKEN, SENT: written under the lock; with a box SENT by any thread */
enum arrival { NOT_HERE, HERE, IS_COPIED };	/* IS_COPIED: a thread copies the partition out of the box */

struct hdl_part {
	struct hdl_req *req;
	struct hdl_part *next, **link;	/* all */
	struct hdl_ep *ep;		/* of the peer, from the first start on; NULL: this process, or MPI_PROC_NULL */
	int proc;			/* the peer's number, or MPI_PROC_NULL */
	int peer;			/* its rank */
	int32_t tag;
	uint32_t number, epoch;
	uint16_t context;
	bool sends, active;		/* active: from the start until the request is done */
	void *buf;
	char *run;			/* the first byte, of a buffer without holes; else NULL */
	MPI_Count count;		/* elements in all */
	struct hdl_type *type;
	int n;				/* partitions */
	size_t each, total;		/* bytes of a partition, and of all */
	int error;			/* class of the first error in this epoch */
	unsigned inflight;		/* operations of the transport */
	/* sender */
	uint8_t *marks;			/* enum mark, by partition; atomic */
	int *stack, top;		/* list of marked partitions by index, -1: its end; atomic */
	struct hdl_part *dirty_next;
	bool dirty;			/* on `dirty`; atomic */
	unsigned callers;		/* threads that are about to mark or to enter; atomic */
	uint32_t go, id_there;		/* epoch of the last GO, and its id */
	int nsent;			/* partitions; with a box atomic */
	bool box_closed;		/* all partitions of the epoch are in the box, and DATA was sent */
	uint32_t box_open;		/* epoch in which a thread last found `go` in the box; atomic */
	uint32_t asked;			/* epoch in which `asked` of the box was last stored; atomic */
	uint32_t box_n;			/* the receiver's partitions */
	uint64_t box_nonce;
	struct hdl_rkey *rkey;
	/* receiver */
	uint32_t id;
	uint8_t *arrived;		/* enum arrival, by partition; atomic: HERE when all of its bytes are in the buffer */
	size_t *missing;		/* bytes by partition */
	size_t received;		/* bytes; of partitions without bytes: 1 when DATA has come */
	struct hdl_mr *mr;
	uint64_t box_at;		/* place of the box in the fabric */
	struct hdl_part *look_next, **look_link;	/* on the list of boxes that progress looks at; link NULL: not on it */
	int all_here;			/* the partitions below this one are HERE */
	/* both */
	struct hdl_part_box *box;	/* the receiver's, as mapped here; NULL: none. At the sender atomic, set after
					 * box_n and box_nonce */
};

/* One message or put. */
struct part_out {
	struct hdl_am_send am;
	struct hdl_rma rma;
	struct hdl_part *part;
	struct part_data head;
	void *packed;
	char key[HDL_RKEY_MAX];
};

/* ---- part_arrive.c: all under the lock, unless otherwise stated ------------------------------------------------------ */

extern struct hdl_part *hdl_parts;	/* all requests of this process */
/* Completes the request if its epoch has ended. */
void hdl_part_check(struct hdl_part *p);
/* Notes the first error of the epoch, with an explanation; the request ends when nothing of it is under way. */
void hdl_part_fail(struct hdl_part *p, int class, const char *why);
void hdl_part_fail_errno(struct hdl_part *p, int err);	/* err: negative */
/* The request of this name; NULL: there is none. */
struct hdl_part *hdl_part_find(bool sends, int proc, uint16_t context, int32_t tag, uint32_t number);
/* Gives a receiver its id. Returns false without memory. */
bool hdl_part_take_id(struct hdl_part *p);
void hdl_part_free_id(struct hdl_part *p);
void hdl_part_forget_ids(void);
/* Copies partition j out of the box, unless another thread has, or waits for the thread that does. Any thread, without the lock.
 * Must: the box has it. */
void hdl_part_box_take(struct hdl_part *p, int j);
/* Adds an active receive to the boxes that progress looks at, until the request is done. */
void hdl_part_box_watch(struct hdl_part *p);
/* Counts (1) or uncounts (-1) a box of this process, and begins or ends to look at boxes. 0, or a negative errno, reported. */
int hdl_part_box_count(int more);
/* Bytes have come into the buffer. */
void hdl_part_arrived(struct hdl_part *p, uint64_t offset, size_t len);
/* The process of an endpoint. */
int hdl_part_proc_of(struct hdl_ep *ep);
void hdl_part_on_data(void *context, const struct hdl_am *am);

/* ---- part_send.c: all under the lock --------------------------------------------------------------------------------- */

/* Sends the marked partitions, if the receiver has started. */
void hdl_part_push(struct hdl_part *p);
/* The same for all requests that threads have left on the list. */
void hdl_part_drain(void);

#endif
