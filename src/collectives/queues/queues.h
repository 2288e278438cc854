/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the executors mailbox and tasks: one communicator's queues and slots, and compiled graphs.
 *
 * Mailbox, up to HDL_MAILBOX_RANKS ranks: cells. Every rank has an ordinary queue to every other rank and writes its data, with a
 * sequence number, into the peer's memory (cell.c). An operation needs only the CPU of the rank that takes the result.
 *
 * Tasks: links. A link is an RC connection with a receive queue and a receive CQ of its own at each end, so that the arrivals on
 * each link are counted apart. A WAIT names the CQ of one link. Every rank posts the communicator's operations in the same order,
 * so the n-th arrival on a link belongs to the n-th operation that uses the link, and a rank that is ahead is never mistaken for
 * a late one.
 *
 *     tree links     managed send queues at both ends, between ranks at the distances of a k-nomial tree (algorithms.h): their
 *                    requests run when the master queue enables them
 *     master queue   one per rank, cross-channel, connected to itself: WAIT (arrivals), SEND_ENABLE (tree links), and the
 *                    rank's writes and atomics to itself. All WAITs of a rank stand in this one queue.
 *     pair links     ordinary queues: between rank 0 and each other rank, for the star, only where the device lacks the
 *                    extensions with which it reduces everything up the tree; or among all ranks, for collectives in which each
 *                    rank sends different data to every other. The latter have queues and slots of their own, a struct hdl_queues
 *                    beside the tree's, brought up by the first of these collectives. The rules below hold in each struct by
 *                    itself.
 *
 * Slots. Operation n uses slot n mod S on every rank: its cells, or an accumulator and the operands of one hop. D, the depth, is
 * the number of operations that a rank may have posted and not retired; S = 3 D. SLOTS.md proves that slot n mod S is free on all
 * ranks when any rank posts n, and shows by scenarios what fails without each rule:
 *
 *     (a) A rank posts operation n only after it has retired n - D: the result is copied out, the rank's requests that read the
 *         slot are complete, the accumulator is zero again.
 *     (b) Among any D consecutive operations one is synchronizing: completes nowhere before all ranks have posted that operation
 *         (hdl_coll_synchronizes). After D - 1 operations that do not synchronize every rank inserts a slot barrier. Per class of
 *         slots: at most D - 1 operations of the class stand between two synchronizing operations of any class; D is the class's
 *         depth. A slot barrier counts in the class for which it is inserted.
 *     (c) All ranks post the operations of a struct hdl_queues in one order, and no rank posts an operation of the next
 *         communicator before all ranks have posted and retired all operations of the previous one.
 *     (d) All ranks have posted the same operations when cached queues are taken over.
 *
 * Enforced by:
 *     (a), (b) hdl_queues_has_slot() and hdl_slot_barrier_due(), before queues.c and the fast path of cell.c post
 *              (hdl_queues_can_post).
 *     (c) cache.c and bringup.c: a rank offers cached queues only when the previous communicator was freed, and no rank posts
 *         before all have offered the same queues. A write that a late rank owes to an earlier operation was posted earlier on
 *         the same queue, so the write lands before those of the next communicator.
 *     (d) bringup.c compares the number of operations and of each link's arrivals; cache.c keeps no queues on which an operation
 *         had an error.
 *
 * Consequences: a cell needs neither credit nor acknowledgement, and is never cleared; its sequence number names its operation.
 * The leader of a Barrier answers later than it posts, into a slot whose operation the receiver still waits in (SLOTS.md, "What a
 * rank writes later than it posts").
 *
 * Regions. Slots of one size lie in a region of their own, allocated and registered for the first operation that needs the
 * region. That operation, with all behind it, waits while the ranks exchange the region's addresses. That operation is the same
 * on all ranks. All ranks have the region or none has: if one rank cannot allocate it, all ranks run such operations on the host
 * executor.
 *
 * Tasks: (a) and (b) hold for the operations of all classes together as well, with D the first class's depth. An operation uses a
 * link at most once per direction, so a link carries at most 3 D arrivals for which its receiver has not accounted. The receiver
 * polls arrivals that only its master waited for when more than D / 2 are there, and reposts receives in batches of D / 2. Hence
 * each link has 4 D receives.
 */
#ifndef HDL_QUEUES_H
#define HDL_QUEUES_H

#include <infiniband/verbs_exp.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/internal.h"
#include "collectives/queues/state.h"
#include "runtime/autotune.h"

struct hdl_comm_props;

#define HDL_SLOTS(depth) (3 * (depth))
/* Reductions on single copy read and combine the inputs in segments of this many bytes: two segments, and as much of an input and
 * of a result, stay in the second-level cache. */
#define HDL_SC_SEGMENT ((size_t)64 << 10)
#define HDL_SC_STAGED_MAX 8			/* staging buffers in use at a time; a reduction takes up to two. An operation
						 * that finds none free does not detach */
#define HDL_QUEUES_OLD_VALUES 64		/* bytes behind the slots, which receive the old values of atomics; never read */

struct hdl_coll_link {
	struct ibv_qp *qp;
	struct ibv_cq *rcq;		/* NULL: no completions arrive here */
	/* Each link has an SRQ of its own, whose receives are not flushed. When a peer dies, the receives of a queue pair are
	 * flushed, and a WAIT counts completions in error as arrivals: the requests behind the WAIT would take the operands of an
	 * earlier operation. */
	struct ibv_srq *srq;
	int peer;
	uint16_t index;			/* in h->links */
	bool managed, open;		/* open: receives are posted */
	bool parted;			/* the peer may have ended in order, and its queue is gone (hdl_queues_parted): no request
					 * reaches the peer, and none is missed */
	/* Arrivals, counted since the queues were created. */
	uint64_t expected;		/* arrivals that the operations posted here expect */
	uint64_t waited;		/* arrivals up to which the master queue has posted WAITs */
	uint64_t seen;			/* arrivals that the CPU has polled */
	uint64_t given;			/* arrivals for which receives were posted again */
	/* Send queue: requests posted, and requests known to be complete. */
	uint64_t sq_posted, sq_done;
	uint64_t sq_signaled;		/* mailbox: position of the last signaled request */
	uint32_t sq_depth, max_inline;
	const uint32_t *unfinished;	/* mailbox: 0 after a post: all posted requests have been carried out (shca_unfinished) */
};

/* Memory that peers write to: slots of one size, and staging for payloads sent from there. Mailbox: one cell per rank and
 * slot. */
enum hdl_region_state { HDL_REGION_NONE, HDL_REGION_WIRING, HDL_REGION_READY, HDL_REGION_REFUSED };
struct hdl_slot_region {
	enum hdl_region_state state;	/* the same on all ranks, except during an exchange */
	bool reported;			/* the error "no memory for this region" was printed */
	char *mem;
	struct ibv_mr *mr;
	size_t bytes;			/* of all slots; 0: no operation uses this region */
	struct hdl_region_peer {
		uint64_t addr;
		uint32_t rkey;
	} *peers;
	size_t slot_bytes, cell_bytes;
	bool wide;			/* the cells' sequence numbers stand in front of all cells, at offset 0 */
	size_t at;			/* offset of the cells of slot 0 */
	size_t staging_off;		/* offset of the staging for cells that a request does not carry inline; 0: none */
	size_t done_at;			/* offset of the words in which ranks acknowledge that they have read a vblock that was
					 * announced by address: one per slot and rank; 0: none */
};
#define HDL_CELL_HEAD 64
#define HDL_CELL_REQUESTS 2		/* of an operation to a peer, at most */
/* Regions of mailbox; tasks have one per class of slots. The first one comes with the queues. */
enum hdl_cell_size {
	HDL_CELL_SHORT, HDL_CELL_MEDIUM, HDL_CELL_WIDE, HDL_CELL_SIZES, HDL_REGION_SC = HDL_CELL_SIZES, HDL_REGIONS
};

struct hdl_queues_peer {
	struct hdl_proc proc;
	uint32_t exposed;		/* rkey of all the peer's memory, or 0 */
};

/* A class of slots, and the numbers of its operations posted and retired: at most depth apart. The sizes are of tasks. */
struct hdl_slot_class {
	uint64_t depth;			/* 0: the class has no slots */
	uint64_t posted, retired;
	uint32_t next_slot;		/* of operation `posted` */
	size_t slot_bytes, acc_bytes, data_bytes;
};
/* mailbox: SHORT: short and medium cells, single copy; LONG: wide cells */
enum { HDL_SLOT_SHORT, HDL_SLOT_LONG, HDL_SLOT_LONGER, HDL_SLOT_LONGEST, HDL_SLOT_CLASSES };
_Static_assert((int)HDL_SLOT_CLASSES <= (int)HDL_REGIONS, "each class of tasks has a region");

struct hdl_queues {
	struct hdl_cc *cc;		/* NULL: in the queue cache (cache.c) */
	struct hdl_queues *next, **link;	/* in hdl_queues_active (link: the pointer to this struct; NULL: not listed), or
						 * in the cache */
	enum hdl_queues_state state;
	enum hdl_queues_health health;	/* written by hdl_queues_on */
	int rank, size;
	int radix, tree_links;		/* tree_links: in each direction */
	int index;			/* of hdl_queues_index */
	bool mailbox;			/* mailbox: cells, no links. False: tasks */
	bool star;			/* pair links between rank 0 and each other rank, beside the tree */
	bool pairs;			/* pair links among all, no tree */
	uint64_t depth;			/* of all classes together */
	const struct hdl_port *port;	/* NULL: a sketch, whose links have no queue pairs */
	const struct hdl_reduce_caps *reduce_caps;	/* tasks: the device's reductions */
	char why_refused[256];
	uint64_t id;			/* number of this set of queues, the same on all ranks; 0: not brought up yet */
	bool offered;			/* HDL_QUEUES_WIRING: taken from the cache */
	bool freed_memory;		/* HDL_QUEUES_WIRING: for a rank whose queues got ENOMEM */
	int create_error;		/* HDL_QUEUES_WIRING: of creating this rank's queues: 0 or a negative errno */
	bool unfit;			/* must not serve another communicator: an operation ended with an error, or a peer's
					 * end of a queue has failed (hdl_queues_peer_gone) */
	int *members;			/* processes (hdl_comm_proc) */
	uint64_t suspect_until_ns;	/* HDL_QUEUES_SUSPECT: monotonic_ns() until which fault.c looks for a dead member */
	int wire_error;			/* MPI error class, if BROKEN because bring-up or an exchange failed */

	struct hdl_slot_class class[HDL_SLOT_CLASSES];
	struct hdl_slot_region region[HDL_REGIONS];
	int region_wired;		/* the region whose exchange is under way, with the two fields below */
	struct hdl_region_record *region_records;
	struct hdl_graph *region_graph;
	struct hdl_queues_peer *peers;
	uint32_t cpu_sharers;		/* mailbox: a bit per rank that may need this rank's CPU; 0: not known yet */
	char *segments;			/* two of HDL_SC_SEGMENT bytes, in which the oldest operation reduces; with
					 * HDL_REGION_SC */
	struct hdl_sc_staged {		/* staging buffers of single copy, which peers may read after the operation's end
					 * (staging.c) */
		uint32_t awaiting_fin;		/* a bit per rank whose HDL_SC_FIN is awaited; 0: the entry is free */
		uint64_t opno;
		const char *done;	/* where rank 0 writes its HDL_SC_FIN: a number > opno */
		size_t apart;		/* bytes from one rank's HDL_SC_FIN to the next rank's */
		struct hdl_scratch memory;
	} staging[HDL_SC_STAGED_MAX];
	uint32_t nstaging;		/* number of entries of `staging` that are not free */
	struct hdl_autotune *staging_tune;	/* HDL_TUNE_STAGING; NULL: not yet */
	uint32_t exposed_lkey, exposed_rkey;	/* of all memory of this process: see hdl_tp_exposes */

	struct ibv_cq *local_cq;	/* completions of this rank's own requests: the last of each queue and operation */
	uint64_t local_posted, local_seen, local_room;
	struct hdl_coll_link **pair;	/* [size]; NULL: no such link. Mailbox: the queues through which cells are written */
	struct hdl_coll_link **out, **in;	/* [tree_links]: to the ranks ahead in the tree, from the ranks behind */
	struct hdl_coll_link *master;
	struct hdl_coll_link **links;	/* all of them */
	uint16_t nlinks;

	/* Operations, by number: retired <= completed <= posted; at most depth between the first and the last. */
	uint64_t posted, completed, retired;
	uint32_t since_sync[HDL_SLOT_CLASSES];	/* operations of the class posted after the last synchronizing one of any class */
	uint32_t since_sync_all;	/* tasks: the same, of all classes together */
	uint32_t next_place;		/* of operation `posted` */
	uint32_t oldest;		/* place of operation `retired` */
	uint32_t cell_room;		/* mailbox: number of operations for which every queue has room, at least */
	struct hdl_run **ring;		/* [place] */
	uint64_t *need;			/* [place][nlinks]: the value that `seen` of each watched link must reach */
	struct hdl_run *queue, **queue_tail;	/* accepted, not posted */
	uint64_t queued, late;		/* queued: users' operations in `queue`; late: the first of these that found no slot */
	/* Persistent operations (mailbox/persistent.c); NULL until the first is made. turn: completes all that can be completed;
	 * returns how many operations have ended. clear: called when the queues are destroyed; frees the memory that requests
	 * might have read, and requests never freed. */
	const struct hdl_pcoll_ops {
		int (*turn)(struct hdl_queues *h);
		void (*clear)(struct hdl_queues *h);
	} *pcoll_ops;
	struct hdl_pcoll *started;	/* list of persistent operations that are started and not complete */
	struct hdl_pcoll *pcolls;	/* list of all persistent operations, also of freed ones that requests may still read */
	struct hdl_plan *slot_barrier[HDL_SLOT_CLASSES];	/* the barriers of (b); NULL until the first */

	/* Wire-up. */
	char *records;
	size_t record_bytes;
	struct hdl_graph *wire_graph;
	int32_t *statuses;
	uint32_t wire_seq;
	uint64_t drained_at;		/* tasks: ticks() of the last poll of local_cq for failed requests */
	/* A turn may complete an operation that frees the communicator: then the turn destroys the queues at its end. */
	enum { HDL_TURN_NONE, HDL_TURN_RUNS, HDL_TURN_DESTROYS } turn;
};

/* Largest data of a medium cell, and the longest vblock in a cell where no rank knows all lengths. */
#define HDL_CELL_MEDIUM_DATA 1024
/* Cells of up to this many bytes are inline in the request, so that no operation has to wait for their completion to retire. */
#define HDL_CELL_INLINE 64
#define HDL_CELL_INLINE_LONG 2048	/* used instead if the device takes so much inline */

/* wr_id of signaled requests: HDL_ID_RETIRES: the operation retires by this completion | HDL_ID_RECEIVE: a receive that only an
 * error ends | link:14 | ring place:8 | position in the queue:40. */
#define HDL_ID_RETIRES (1ULL << 63)
#define HDL_ID_RECEIVE (1ULL << 62)
#define HDL_ID_LINK_SHIFT 48
#define HDL_ID_PLACE_SHIFT 40
#define HDL_ID_POSITION ((1ULL << HDL_ID_PLACE_SHIFT) - 1)

/* ---- send queue of a link ------------------------------------------------------------------------------------------------- */

/* One accounting for cells, control records, copies and task lists: code that posts requests on a link adds them to sq_posted,
 * and signals some (hdl_link_signal); the completion of a signaled request implies that all earlier ones are complete, too. */

/* Returns the number of free entries. */
static inline uint64_t hdl_link_room(const struct hdl_coll_link *l)
{
	return l->sq_depth - (l->sq_posted - l->sq_done);
}

/* Returns the wr_id of the last request that was added to sq_posted, which the caller posts signaled. run: the operation that
 * retires by the completion; NULL: none. */
static inline uint64_t hdl_link_signal(struct hdl_queues *h, const struct hdl_coll_link *l, struct hdl_run *run)
{
	uint64_t id = (uint64_t)l->index << HDL_ID_LINK_SHIFT | (l->sq_posted & HDL_ID_POSITION);

	h->local_posted++;
	if (!run)
		return id;
	run->outstanding++;
	return id | HDL_ID_RETIRES | (uint64_t)run->place << HDL_ID_PLACE_SHIFT;
}

/* The same on mailbox, where not every operation is signaled. */
static inline uint64_t hdl_link_signal_cell(struct hdl_queues *h, struct hdl_coll_link *l, struct hdl_run *run)
{
	l->sq_signaled = l->sq_posted;
	return hdl_link_signal(h, l, run);
}

/* Mailbox: returns true if the next request must be signaled, so that the queue has room again when it completes. */
static inline bool hdl_link_signal_due(const struct hdl_coll_link *l)
{
	return l->sq_posted - l->sq_signaled >= l->sq_depth / 2;
}

/* A request with this wr_id has completed without an error. */
static inline void hdl_link_completed(struct hdl_queues *h, struct hdl_coll_link *l, uint64_t wr_id)
{
	h->local_seen++;
	l->sq_done = l->sq_posted - ((l->sq_posted - wr_id) & HDL_ID_POSITION);
	if (wr_id & HDL_ID_RETIRES)
		h->ring[wr_id >> HDL_ID_PLACE_SHIFT & 0xff]->outstanding--;
}

/* ---- operations of a communicator's queues ------------------------------------------------------------------------------- */

static inline uint32_t hdl_ring_after(uint32_t i, uint64_t n)
{
	return i + 1 == n ? 0 : i + 1;
}

/* The run becomes operation `posted`, and gets its number, slot and place. Must: run->class is set; the caller increments
 * h->posted when the requests are posted. */
static inline void hdl_queues_number(struct hdl_queues *h, struct hdl_run *run, bool synchronizes)
{
	struct hdl_slot_class *c = &h->class[run->class];

	c->posted++;
	if (synchronizes)
		memset(h->since_sync, 0, sizeof(h->since_sync));
	else
		h->since_sync[run->class]++;
	run->opno = h->posted;
	run->slot = c->next_slot;
	run->place = h->next_place;
	run->outstanding = 0;
	c->next_slot = hdl_ring_after(run->slot, HDL_SLOTS(c->depth));
	h->next_place = hdl_ring_after(run->place, h->depth);
	h->ring[run->place] = run;
}

/* Returns true if an operation waits for other ranks. */
static inline bool hdl_queues_is_active(const struct hdl_queues *h)
{
	return h->posted != h->retired || h->queue || h->started || h->nstaging;
}

static inline bool hdl_queues_are_broken(const struct hdl_queues *h)
{
	return h->health >= HDL_QUEUES_BROKEN;
}

static inline void hdl_queues_on(struct hdl_queues *h, enum hdl_queues_event event)
{
	h->health = hdl_queues_health_next(h->health, event);
}

/* Returns true if requests may be posted: the queues are brought up, and none has failed. */
static inline bool hdl_queues_take_requests(const struct hdl_queues *h)
{
	return h->state == HDL_QUEUES_READY && h->health == HDL_QUEUES_SOUND;
}

/* Returns true if the queues take requests, and no numbered operation waits to be posted first. */
static inline bool hdl_queues_are_open(const struct hdl_queues *h)
{
	return hdl_queues_take_requests(h) && !h->queue && !h->turn;
}

/* Returns the communicator's queues for this executor, made at the first call; coll: the caller's collective, for the error's
 * text. NULL with errno. */
struct hdl_queues *hdl_queues_make(struct hdl_cc *cc, enum hdl_executor executor, bool pairs, uint8_t coll);
static inline struct hdl_queues *hdl_queues_of(struct hdl_cc *cc, enum hdl_executor executor, bool pairs, uint8_t coll)
{
	struct hdl_queues *h = cc->queues[hdl_queues_index(executor, pairs)];

	return likely(h) ? h : hdl_queues_make(cc, executor, pairs, coll);
}
/* The run fails because the queues are in error. */
void hdl_queues_fail_run(const struct hdl_queues *h, struct hdl_run *run);
/* Puts the queues on the list that progress polls until nothing is outstanding. Must: called before, or right after, an operation
 * is queued or posted. */
void hdl_queues_enlist(struct hdl_queues *h);

/* Retires the oldest operation: this rank needs its slot no more, and its place is free. */
static inline void hdl_queues_retire(struct hdl_queues *h, const struct hdl_run *run)
{
	h->retired++;
	h->class[run->class].retired++;
	h->oldest = hdl_ring_after(h->oldest, h->depth);
}

/* The list that progress polls. */
extern struct hdl_queues *hdl_queues_active;

/* Polls the completions of this rank's own requests. */
void hdl_queues_drain(struct hdl_queues *h);
#define HDL_QUEUES_IN_ERROR "the device's queues for this communicator are in error"
/* ibv_post_send to that peer has failed with err. run: NULL: a request of no operation. */
void hdl_queues_refused(struct hdl_queues *h, const struct hdl_run *run, int peer, int err);
/* After an error: no peer reaches this rank's memory by this communicator's queues any more. */
void hdl_queues_stop(struct hdl_queues *h);

/* ---- operations: queues.c, comm_props.c ---------------------------------------------------------------------------------- */

/* Sets the properties by which hdl_choose decides. Returns 0, or a negative errno if this rank alone cannot determine them: then
 * this rank must not choose. */
int hdl_comm_props_of(const struct hdl_comm *comm, struct hdl_comm_props *props);
/* Returns the HDL_PROMISES_... that all members' devices make to each other, the same on all ranks, or a negative errno of this
 * rank alone. Returns 0 for a communicator of more than HDL_MAILBOX_RANKS, or of several hosts, without looking up a peer: no
 * choice depends on promises there. */
#define HDL_COMM_OVERSUBSCRIBED 0x100u	/* no promise: hdl_comm_props.oversubscribed, in a communicator of several jobs */
int hdl_comm_promises(const struct hdl_comm *comm);
static inline int hdl_comm_cpus(bool oversubscribed, int cores)
{
	return !oversubscribed ? 0 : cores < HDL_MAILBOX_RANKS ? cores : HDL_MAILBOX_RANKS;
}
/* Largest communicator for which a process looks up and keeps the host of each rank. */
#define HDL_HIER_RANKS 4096
/* Returns the bytes of HDL_SP_DATA in the largest slots, of pair links (pairs) or of the tree. */
size_t hdl_queues_data_max(int size, const struct hdl_reduce_caps *caps, bool pairs);
/* Sets *out to the reductions that the port's device offers, or NULL if the device runs no task lists. Returns 0, or a negative
 * errno if this rank could not find out now. */
int hdl_reduce_caps_of(const struct hdl_port *port, const struct hdl_reduce_caps **out);
/* Accepts an operation, which is posted at once or queued until it can be posted. The run finishes in hdl_queues_progress, or in
 * this call. Must: all ranks submit a communicator's operations in the same order. */
void hdl_queues_submit(struct hdl_cc *cc, struct hdl_run *run);
/* Progress of all communicators' queues. Returns the number of operations that moved on. */
int hdl_queues_progress(void);
void hdl_queues_look(struct hdl_req *req, bool waits);	/* this request's communicator only */
void hdl_queues_arm(void);			/* see hdl_tp_on_sleep */
/* The communicator is freed: its queues go to the cache, or are destroyed. Must: nothing is outstanding. May be called while an
 * operation is being completed. */
void hdl_queues_free(struct hdl_cc *cc);
/* Returns true if an operation is posted, accepted or started and has not ended. Staging buffers that peers
 * still read do not count. */
bool hdl_queues_have_operations(void);
/* Destroys the queue pairs and slots of a communicator, whatever is outstanding. The struct hdl_queues stay, because the host
 * executor's runs of the bring-up refer to them. Must: progress calls no function of this folder any more. */
void hdl_queues_abandon(struct hdl_cc *cc);
/* Destroys the cached queues with members of a job with which this process has no communicator any more. Called when a
 * communicator is freed. Other members may still wait for each other in an operation: these members have all data of this
 * process, and a queue's destruction is not reported to its peer. */
void hdl_queue_cache_depart(void);
void hdl_queue_cache_fini(void);		/* destroys all cached queues */
bool hdl_queue_cache_give(void);		/* destroys those of which all writes have left; true: any were. See
						 * hdl_tp_on_shortage */
void hdl_coll_prog_free(struct hdl_coll_prog *prog);

/* ---- compiled graphs -------------------------------------------------------------------------- */

struct hdl_task_step;
struct hdl_task_use;

struct hdl_coll_prog {
	const struct hdl_graph *g;
	struct hdl_mailbox_prog *mailbox;	/* the cells to write and to wait for; NULL: a task list, or single copy */
	struct ibv_exp_task *tasks;	/* linked */
	uint32_t ntasks, nwrs, nuses, narrivals, nwatches;
	struct ibv_exp_send_wr *wrs;
	struct ibv_sge *sges;
	struct hdl_task_step *steps;	/* one per request */
	struct hdl_task_use *uses;	/* queues to which requests are posted */
	struct hdl_coll_link **arrivals;	/* links on which one arrival is due */
	struct hdl_coll_link **watches;	/* complete when the arrivals on these links are there */
	bool watch_master;		/* complete when the master's last request is; then there are no watches */
	uint32_t *prologue, *epilogue;	/* nodes that the CPU carries out before and after the requests */
	uint32_t nprologue, nepilogue;
	uint64_t requests, bytes;	/* of one operation: requests that carry data or signals, and their bytes */
	bool uses_acc, synchronizes;
	bool lasts;			/* of a persistent operation: memory that its requests read does not change before all
					 * ranks have the data */
	uint8_t class;
};

/* (a) above: returns true if this rank has fewer operations posted and not retired than the depth, of the class and of all
 * classes. Only together with (b) does that prove the slot free at the peers. */
static inline bool hdl_queues_has_slot(const struct hdl_queues *h, uint8_t class)
{
	const struct hdl_slot_class *c = &h->class[class];

	return h->posted - h->retired < h->depth && c->posted - c->retired < c->depth;
}

/* (b) above: returns true if a slot barrier must come before the operation. cells: the queues are those of mailbox. */
static inline bool hdl_slot_barrier_due(const struct hdl_queues *h, const struct hdl_coll_prog *prog, bool cells)
{
	return !prog->synchronizes && (h->since_sync[prog->class] >= h->class[prog->class].depth - 1 ||
				       (!cells && h->since_sync_all >= h->depth - 1));
}

/* Returns true if the program's next operation may be posted as soon as the queues have room for its requests (has_room of
 * exec.h). idle: the caller knows that the queues are those of mailbox, and that no operation is outstanding, so that a slot is
 * free. Persistent operations have slots of their own, and need hdl_queues_take_requests only. */
static inline bool hdl_queues_can_post(const struct hdl_queues *h, const struct hdl_coll_prog *prog, bool idle)
{
	return !hdl_slot_barrier_due(h, prog, idle || h->mailbox) && hdl_queues_are_open(h) &&
	       (idle || hdl_queues_has_slot(h, prog->class));
}

/* Returns true if the collective completes at no rank before all ranks have posted it. In Barrier, Allreduce, Allgather(v),
 * Alltoall(v) and Reduce_scatter every rank waits for a cell of every other rank, if only an empty one. In the remaining ones a
 * rank that only sends, or for which no rank waits, completes before other ranks have begun. */
static inline bool hdl_coll_synchronizes(uint8_t coll)
{
	return !hdl_coll_has_root((enum hdl_coll)coll) && coll != HDL_SCAN && coll != HDL_EXSCAN && coll != HDL_NEIGHBORS &&
	       coll != HDL_VSCAN && coll != HDL_VEXSCAN;
}

/* ---- queue cache (cache.c) --------------------------------------------------------------------------------- */

/* Takes cached queues of the communicator's ranks, of this hdl_queues_index. Returns NULL if there are none. */
struct hdl_queues *hdl_queue_cache_take(const struct hdl_comm *comm, int index);
/* Puts the queues into the cache. Returns false if the queues must not be used again: then the caller keeps the ownership. Must:
 * nothing is outstanding. */
bool hdl_queue_cache_keep(struct hdl_queues *h);
/* Destroys the queues that have been cached longest. Returns false if the cache is empty. */
bool hdl_queue_cache_evict(void);
/* Evicts some if the cache holds too many. */
void hdl_queue_cache_trim(void);
/* Flushes and destroys the queues and h; called in queues_turn, h is freed at the end of that turn. Must: nothing is
 * outstanding. */
void hdl_queues_end(struct hdl_queues *h);
/* Waits until all posted requests have left this rank, or the queues are in error. */
void hdl_queues_flush(struct hdl_queues *h);
/* unmake: destroys queues and slots, but not h. free_records: frees the memory of the bring-up's exchange. */
void hdl_queues_unmake(struct hdl_queues *h);
void hdl_queues_free_records(struct hdl_queues *h);

/* ---- wire-up (bringup.c) ------------------------------------------------------------------------------------ */

/* Upper limit of HEDDLE_COLL_DEPTH: the ring place in wr_id has 8 bits. */
#define HDL_QUEUES_DEPTH_MAX 128
/* Creates queues and slots, or takes cached ones, and starts the exchange. state becomes HDL_QUEUES_READY or HDL_QUEUES_REFUSED,
 * the same on all ranks; the health of a rank that lacks the outcome becomes HDL_QUEUES_BROKEN. Returns NULL with errno. */
struct hdl_queues *hdl_queues_new(struct hdl_cc *cc, enum hdl_executor executor, bool pairs);
/* The same layout as by hdl_queues_new, without a device: for compiling only, nothing can be posted. Returns NULL if there
 * is no memory. */
struct hdl_queues *hdl_queues_sketch(int rank, int size, enum hdl_executor executor, bool pairs,
				     const struct hdl_reduce_caps *caps);
void hdl_queues_destroy(struct hdl_queues *h);
/* Notes why the collectives run on the host: `rank` could not do `what`, with this status. The first reason is kept. */
void hdl_queues_note_reason(struct hdl_queues *h, const char *what, int rank, int status);
/* This rank has no memory even for the exchange: breaks the queues, and revokes the communicator, so that the other ranks get
 * failure notices. */
void hdl_queues_bringup_failed(struct hdl_queues *h);
/* Allgather in place of `bytes` per rank on the host executor. done frees the run, and may be called before this returns. If
 * run->error is set, all bytes of each block that did not come are HDL_STATUS_UNKNOWN_BYTE, so that a status in such a block is
 * HDL_STATUS_UNKNOWN. Returns 0 or -ENOMEM. Must: one at a time. */
#define HDL_STATUS_UNKNOWN (-1)
#define HDL_STATUS_UNKNOWN_BYTE 0xff
int hdl_queues_allgather(struct hdl_queues *h, void *buf, size_t bytes, void (*done)(struct hdl_run *), void *arg);
/* The same, with the caller's *graph, which must stay until the caller's next exchange. number: must differ from those of all
 * exchanges under way on the communicator. A region's exchange starts when the turn of its first operation comes, on some ranks
 * before and on others after a persistent operation is made: therefore each region has a number of its own, behind the counted
 * ones. */
#define HDL_COUNTED_NUMBERS ((1u << 18) / HDL_QUEUE_KINDS - HDL_REGIONS)
#define HDL_REGION_NUMBER(k) (HDL_COUNTED_NUMBERS + (uint32_t)(k))
int hdl_queues_allgather_as(struct hdl_queues *h, struct hdl_graph **graph, uint32_t number, void *buf, size_t bytes,
		      void (*done)(struct hdl_run *), void *arg);
/* Posts the link's receives, when the first operation is posted that expects an arrival on the link: receives take much of a
 * communicator's memory, and most programs have one root. An earlier arrival is delayed (RNR) until this rank posts its part.
 * Returns 0 or a negative errno. */
int hdl_link_open(const struct hdl_queues *h, struct hdl_coll_link *l);
/* Number of receives of an open link: 4 D, see the head of this file. */
static inline uint64_t hdl_link_receives(const struct hdl_queues *h)
{
	return 4 * h->depth;
}
/* Status of a rank whose device does not promise the order of a write's bytes: cells cannot be used. The report states the
 * reason; no error is printed. */
#define HDL_NOT_IN_ORDER EILSEQ

/* ---- regions (regions.c) ------------------------------------------------------------------------------------- */

/* A rank's part of the exchange of a region: where the peers write. */
struct hdl_region_record {
	uint64_t addr;
	uint32_t rkey;
	int32_t status;			/* 0 or an errno */
};
/* Sets the sizes of the classes of slots and of the regions. */
void hdl_queues_lay_out(struct hdl_queues *h);
/* Allocates and registers region k of this rank. Returns 0 or a negative errno; then hdl_region_unmake must free the rest. */
int hdl_region_make(struct hdl_queues *h, int k);
void hdl_region_unmake(struct hdl_queues *h, struct hdl_slot_region *a);
/* Another communicator takes the queues: regions that were refused to the one before may be requested again. */
void hdl_regions_retry(struct hdl_queues *h);
/* Starts the exchange of region k, if none was started. Returns the region's state: HDL_REGION_WIRING while the exchange is under
 * way, then the outcome, which is the same on all ranks. */
enum hdl_region_state hdl_region_request(struct hdl_queues *h, int k);

#endif
