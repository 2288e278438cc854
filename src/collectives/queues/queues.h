/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the executors mailbox and tasks: one communicator's queues and slots, and compiled graphs.
 *
 * Mailbox, up to HDL_MAILBOX_RANKS ranks: cells. Every rank has an ordinary queue to every other rank and writes its data, with a sequence number,
 * into the peer's memory (cell.c). An operation needs only the CPU of the rank that takes the result.
 *
 * Tasks: links. A link is an RC connection with a receive queue and a receive CQ of its own at each end, so that
 * arrivals on it are counted apart: a WAIT names the CQ of the one edge it waits for, and since every rank posts the
 * communicator's operations in the same order, the n-th arrival on a link belongs to the n-th operation that uses it. No
 * rank that is ahead can be mistaken for one that is late.
 *
 *     tree links     managed send queues at both ends, between ranks at the distances of a k-nomial tree (algorithms.h): their
 *                    requests run when the master queue says so
 *     master queue   one per rank, cross-channel, connected to itself: WAIT (arrivals), SEND_ENABLE (tree links), and what
 *                    the rank writes or adds to itself. All WAITs of a rank stand in this one queue.
 *     pair links   ordinary queues: between rank 0 and the others, for the star, only where the device lacks the extensions
 *                    with which it reduces everything up the tree; or among all ranks, for collectives in which each has
 *                    something else for every other. These have queues and slots of their own, a struct hdl_queues beside the
 *                    tree's, which is wired up by the first of them: what is said of links and slots holds in each by itself.
 *
 * Slots. Operation n uses slot n mod S on every rank: its cells, or an accumulator and the operands of one hop. D, the depth, is the
 * number of operations that a rank may have posted and not retired; S = 3 D. Slot n mod S is free on all ranks when any rank posts n:
 *
 *     (a) A rank posts operation n only after it has retired n - D: its result is copied out, its requests that read the
 *         slot are complete, its accumulator is zero again.
 *     (b) Among any D consecutive operations one synchronizes: it completes nowhere before all ranks have posted it.
 *         In Barrier, Allreduce, Allgather(v), Alltoall(v) and Reduce_scatter every rank waits for a cell of every other rank, even
 *         if that carries no data. Rooted collectives, neighbor collectives, Scan and Exscan do not synchronize (a rank that only sends, or
 *         for which no rank waits, is complete before other ranks have begun): after D - 1 of these in a row every rank inserts a slot barrier.
 *     Rank A posts n. By (a) it has completed everything up to n - D. By (b) a synchronizing y with n - 2D < y <= n - D is
 *     among that, so every rank has posted y, and by (a) has retired everything up to y - D >= n - 3D + 1 > n - S. The
 *     operation that used the slot before was n - S.
 *
 * Without the slot barrier, with D = 2, S = 6:
 *     1. rank 0 posts Bcast 0 as root: it only sends, completes and retires.
 *     2. rank 0 posts Bcasts 1 to 6; rank 1 has not entered Bcast 0.
 *     3. Bcast 6 uses slot 0: its cell overwrites the data of Bcast 0, which rank 1 has not read.
 *
 * A cell that is written after the post (in a Barrier with a leader, the leader answers when all cells have come) goes to a slot whose
 * operation the receiver has posted and not completed, since it waits for that cell.
 *
 * There are classes of slots, for operations of different lengths. The proof holds for each class by itself: n counts the
 * operations of the class, D is the class's depth, and a slot barrier counts in the class for which it is inserted. But the synchronizing
 * operation y may be of any class. Let at most D - 1 of the class's operations stand between two that
 * synchronize, and let y be the last of these up to n - D in the order of all. What A retires it retires in that order, so it has
 * completed y; every rank has posted y, and before that the class's last one before y, which is n - 2D + 1 or later, and has
 * retired what is D before that.
 *
 * Regions. Slots of one size lie in a region of their own, which is allocated and registered when the first operation needs it. The ranks
 * exchange its addresses like the queues' numbers, and that operation, with all behind it, waits for the exchange. It is the same operation
 * on all ranks, and all ranks have the region or none has; if one rank cannot have it, all ranks run such operations on the host executor.
 *
 * So a cell needs neither credit nor acknowledgement, and is never cleared: its sequence number names its operation.
 *
 * Queue cache. When a communicator is freed, its links and slots, a struct hdl_queues, go to the cache that the process keeps (cache.c), and
 * another communicator of the same ranks may take them over. That is safe because the proof is about a struct hdl_queues' operations, of whatever
 * communicator: operations, slots, arrivals and cells are numbered on from one communicator to the next. Two things are needed:
 *
 *     (c) All ranks post the operations in one order: those of a communicator follow each other, and no rank posts an operation of the next
 *         communicator before all ranks have posted and retired all operations of the one before. A rank offers cached queues in the
 *         bring-up of the next communicator; by then it has retired all operations, and the communicator before was freed. Operations
 *         are posted when every rank has offered the same queues. So a rank that is late delays the next communicator's first operation,
 *         and each write that it owes to an earlier operation lands before that one's: it was posted earlier, on the same queue.
 *     (d) All ranks have posted the same operations. They compare their number (bringup.c), and whether each link has carried as many
 *         arrivals; queues on which an operation had an error are not cached.
 *
 * Tasks: no more than D operations of all classes together are between posted and retired, and among any D consecutive operations of all
 * classes one synchronizes: (a) and (b) hold for all together, too, D being the first class's depth. As above, a rank that posts n
 * knows that all others have retired everything up to n - 3 D: no link ever carries more arrivals that its receiver has not
 * accounted for (an operation uses a link once per direction at most). The receiver sees those that only its master waited for when
 * more than D / 2 of them are there, and gives receives back in batches of D / 2, hence 4 D of them.
 */
#ifndef HDL_QUEUES_H
#define HDL_QUEUES_H

#include <infiniband/verbs_exp.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/internal.h"
#include "lines/pace.h"

#define HDL_SLOTS(depth) (3 * (depth))
/* Reductions by single_copy.c: inputs are read and combined so many bytes at a time. Two of these, and as much of an input and of a result,
 * stay in the second-level cache. */
#define HDL_SC_SEGMENT ((size_t)64 << 10)
#define HDL_SC_STAGED_MAX 8			/* staging buffers in use at a time; a reduction takes up to two. Without one an operation does not detach */
#define HDL_QUEUES_OLD_VALUES 64		/* bytes behind the slots, which receive the old values of atomics; never read */

struct hdl_coll_link {
	struct ibv_qp *qp;
	struct ibv_cq *rcq;		/* NULL: no completions arrive here */
	/* Each link has an SRQ of its own: when the peer dies, the receives of a queue pair are flushed, and a WAIT counts completions in error
	 * like any others, so that the requests behind it would take the operands of an earlier operation. An SRQ's receives are not flushed. */
	struct ibv_srq *srq;
	int peer;
	uint16_t index;			/* in h->links */
	bool managed, open;		/* open: it has receives */
	/* arriving, counted since the beginning */
	uint64_t expected;		/* by operations that were posted here */
	uint64_t waited;		/* the master's WAITs reach to */
	uint64_t seen;			/* polled by the CPU */
	uint64_t given;			/* receives posted again for */
	/* leaving: requests posted, and known complete */
	uint64_t sq_posted, sq_done;
	uint64_t sq_signaled;		/* lines: up to here a completion will tell */
	uint32_t sq_depth, max_inline;
	const uint32_t *unfinished;	/* lines: 0 behind a post: what was posted has been carried out (shca_unfinished) */
};

/* Memory that peers write to: slots of one size, and staging for what is sent from there. Mailbox: one cell per rank and slot. */
enum hdl_region_state { HDL_REGION_NONE, HDL_REGION_WIRING, HDL_REGION_READY, HDL_REGION_REFUSED };
struct hdl_slot_region {
	enum hdl_region_state state;	/* the same on all ranks, except during an exchange */
	bool reported;			/* that there is no memory for it */
	char *mem;
	struct ibv_mr *mr;
	size_t bytes;			/* of all slots; 0: there are no operations for it */
	struct hdl_region_peer {
		uint64_t addr;
		uint32_t rkey;
	} *peers;
	size_t slot_bytes, line_bytes;
	bool wide;			/* the cells' sequence numbers stand in front of all cells, at offset 0 */
	size_t at;			/* offset of the cells of slot 0 */
	size_t staged;			/* offset of the staging for cells that a request does not carry inline; 0: none */
	size_t done_at;			/* offset of the words in which ranks acknowledge that they have read a vblock that was announced by address:
					 * one per slot and rank; 0: none */
};
#define HDL_CELL_HEAD 64
#define HDL_CELL_REQUESTS 2		/* of an operation to a peer, at most */
/* Regions of mailbox; tasks have one per class of slots. The first one comes with the queues. */
enum hdl_cell_size { HDL_CELL_SHORT, HDL_CELL_MEDIUM, HDL_CELL_WIDE, HDL_CELL_SIZES, HDL_REGION_SC = HDL_CELL_SIZES, HDL_REGIONS };

struct hdl_queues_peer {
	struct hdl_proc proc;
	uint32_t exposed;		/* rkey of all its memory, or 0 */
};

/* A class of slots, and the number of operations posted and retired in it: at most depth apart. The sizes are of tasks. */
struct hdl_slot_class {
	uint64_t depth;			/* 0: there are none */
	uint64_t posted, retired;
	uint32_t next_slot;		/* of operation `posted` */
	size_t slot_bytes, acc_bytes, data_bytes;
};
enum { HDL_SLOT_SHORT, HDL_SLOT_LONG, HDL_SLOT_LONGER, HDL_SLOT_LONGEST, HDL_SLOT_CLASSES };	/* mailbox: two */
_Static_assert((int)HDL_SLOT_CLASSES <= (int)HDL_REGIONS, "each class of tasks has an area");

enum hdl_queues_state { HDL_QUEUES_WIRING, HDL_QUEUES_READY, HDL_QUEUES_REFUSED };

struct hdl_queues {
	struct hdl_cc *cc;		/* NULL: no communicator has it (cache.c) */
	struct hdl_queues *next, **link;	/* among those that progress looks at (link: what points here, or NULL); or that are kept */
	enum hdl_queues_state state;
	int rank, size;
	int radix, tree_links;		/* tree_links: in each direction */
	int index;			/* of hdl_queues_index */
	bool mailbox;			/* mailbox's: cells, no links. Else tasks' */
	bool star;			/* pair links between rank 0 and the others, beside the tree */
	bool pairs;			/* pair links among all, no tree */
	uint64_t depth;			/* of all classes together */
	const struct hdl_port *port;	/* NULL: a sketch, whose links are no queues */
	const struct hdl_reduce_caps *means;	/* tasks: what the device reduces by */
	char why_refused[256];
	uint64_t set;			/* its number on all ranks; 0: not brought up yet */
	bool offered;			/* WIRING: taken from the cache */
	bool had_error;			/* of an operation: the set is not kept */
	int *members;			/* processes (hdl_comm_proc) */
	bool broken;			/* a completion in error was polled, or this rank does not know whether the other ranks use the queues */
	uint64_t suspect_ns;		/* monotonic_ns() until which fault.c looks for a dead member, since a queue has failed; 0: none has */
	int wire_error;			/* MPI error class, of the latter */

	struct hdl_slot_class class[HDL_SLOT_CLASSES];
	struct hdl_slot_region region[HDL_REGIONS];
	int region_wired;		/* the region whose exchange is under way, with these: */
	struct hdl_region_record *region_records;
	struct hdl_graph *region_graph;
	struct hdl_queues_peer *peers;
	uint32_t cpu_sharers;		/* mailbox: a bit per rank that may need this rank's CPU; 0: not known yet */
	bool queue_gone;		/* mailbox: a peer has destroyed its queue to this rank */
	bool stopped;			/* the queues, after an error */
	char *segments;			/* two of HDL_SC_SEGMENT bytes, in which the oldest operation reduces; with HDL_REGION_SC */
	struct hdl_sc_staged {		/* staging buffers of single copy, which peers read also after the operation has ended here (staging.c) */
		uint32_t hears;		/* a bit per rank whose HDL_SC_FIN is awaited; 0: the entry is free */
		uint64_t opno;
		const char *done;	/* where rank 0 writes its HDL_SC_FIN: a number > opno */
		size_t apart;		/* bytes from there to the next rank's */
		struct hdl_scratch memory;
	} staged[HDL_SC_STAGED_MAX];
	uint32_t nstaged;		/* of these that are not free */
	struct lines_pace pace;		/* of copies to there */
	uint32_t exposed_lkey, exposed_rkey;	/* of all memory of this process: see hdl_tp_exposes */

	struct ibv_cq *local_cq;	/* completions of this rank's own requests: the last of each queue and operation */
	uint64_t local_posted, local_seen, local_room;
	struct hdl_coll_link **pair;	/* [size]; NULL: no such link. With lines: what they are written through */
	struct hdl_coll_link **out, **in;	/* [levels]: to those ahead, behind */
	struct hdl_coll_link *master;
	struct hdl_coll_link **links;	/* all of them */
	uint16_t nlinks;

	/* Operations, by number: retired <= completed <= posted; at most depth between the first and the last. */
	uint64_t posted, completed, retired;
	uint32_t since_sync[HDL_SLOT_CLASSES];	/* operations of the class posted after the last that synchronizes, of any class */
	uint32_t since_sync_all;	/* tasks: the same, of all together */
	uint32_t next_place;		/* of operation `posted` */
	uint32_t oldest;		/* place of operation `retired` */
	uint32_t cell_room;		/* mailbox: operations that every queue has room for, at least */
	struct hdl_run **ring;		/* [place] */
	uint64_t *need;			/* [place][nlinks]: what `seen` of each watched link must reach */
	struct hdl_run *queue, **queue_tail;	/* accepted, not posted */
	uint64_t queued, late;		/* number of users' operations in `queue`; of the first of these that have found no slot */
	/* Of persistent operations (mailbox/persistent.c), NULL until the first is made. turn: completes what can be; returns how many
	 * operations have ended. clear: the queues are gone; frees the memory that requests might have read, and requests never freed. */
	const struct hdl_pcoll_ops {
		int (*turn)(struct hdl_queues *h);
		void (*clear)(struct hdl_queues *h);
	} *pcoll_ops;
	struct hdl_pcoll *started;	/* list of persistent operations that are started and not complete */
	struct hdl_pcoll *pcolls;	/* list of all, also of freed ones whose memory requests may still read */
	struct hdl_plan *slot_barrier[HDL_SLOT_CLASSES];	/* the barriers of (b); NULL until the first */

	/* Wire-up. */
	char *records;
	size_t record_bytes;
	struct hdl_graph *wire_graph;
	int32_t *statuses;
	uint32_t wire_seq;
	uint64_t drained_at;		/* ticks(): of tasks, the last look at local_cq for what has failed */
	bool busy, doomed;		/* busy: in off_turn; doomed: destroyed when off_turn ends */
};

/* Largest data of a medium cell, and the longest vblock in a cell where no rank knows all lengths. */
#define HDL_CELL_MEDIUM_DATA 1024
/* Payloads of cells up to here are inline in the request: then no operation retires late because of them. */
#define HDL_CELL_INLINE 64
#define HDL_CELL_INLINE_LONG 2048	/* if the device takes so much inline */

/* wr_id of signaled requests: whether the operation retires by it | whether it is a receive that only an error ends |
 * link:14 | ring place:8 | the queue's position:40. */
#define HDL_ID_RETIRES (1ULL << 63)
#define HDL_ID_RECEIVE (1ULL << 62)
#define HDL_ID_LINK_SHIFT 48
#define HDL_ID_PLACE_SHIFT 40
#define HDL_ID_POSITION ((1ULL << HDL_ID_PLACE_SHIFT) - 1)

static inline uint32_t hdl_ring_after(uint32_t i, uint64_t n)
{
	return i + 1 == n ? 0 : i + 1;
}

/* The run becomes operation `posted`, and gets its number, slot and place. Must: run->class is set. */
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
	return h->posted != h->retired || h->queue || h->started || h->nstaged;
}

/* Whether an operation may be posted now, as far as the queues are concerned: they are brought up and not in error, and none waits
 * to be posted before it. Besides it must have a slot, (a) and (b) above, and its executor's requests room. */
static inline bool hdl_queues_are_open(const struct hdl_queues *h)
{
	return h->state == HDL_QUEUES_READY && !h->queue && !h->busy && !h->broken && !h->suspect_ns;
}

/* The communicator's, made when first asked for, by this collective. NULL: no memory for it. */
struct hdl_queues *hdl_queues_make(struct hdl_cc *cc, enum hdl_executor executor, bool pairs, uint8_t coll);
static inline struct hdl_queues *hdl_queues_of(struct hdl_cc *cc, enum hdl_executor executor, bool pairs, uint8_t coll)
{
	struct hdl_queues *h = cc->queues[hdl_queues_index(executor, pairs)];

	return likely(h) ? h : hdl_queues_make(cc, executor, pairs, coll);
}
/* The run fails because the queues are in error. */
void hdl_queues_fail_run(const struct hdl_queues *h, struct hdl_run *run);
/* Puts the queues on the list that progress polls until nothing is outstanding. Must: called before, or right after, an operation is queued or
 * posted. */
void hdl_queues_enlist(struct hdl_queues *h);

/* Retires the oldest operation: its slot and place are free again. */
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
/* Mailbox: the peer's queue has failed, which means that its process has ended: a queue that it destroys is not reported. */
void hdl_queues_peer_gone(struct hdl_queues *h, int peer);
/* The queues are in error here, which the other ranks may not know: revokes the communicator. May be called anywhere. */
void hdl_queues_break(struct hdl_queues *h, const char *why);
#define HDL_QUEUES_IN_ERROR "the device's queues for this communicator are in error"
/* ibv_post_send to that peer has failed with err. run: NULL: a request of no operation. */
void hdl_queues_refused(struct hdl_queues *h, const struct hdl_run *run, int peer, int err);
/* After an error: no peer reaches this rank's memory by this communicator's queues any more. */
void hdl_queues_stop(struct hdl_queues *h);
/* A completion in error was polled. */
void hdl_queues_failed(struct hdl_queues *h, const char *what, int peer, enum ibv_wc_status status);

/* ---- compiled graphs (compile.c) -------------------------------------------------------------------------- */

enum hdl_step_kind { HDL_STEP_ACCUM, HDL_STEP_PUT, HDL_STEP_WAIT, HDL_STEP_ENABLE };

/* The part of a request that is filled in before each post. */
struct hdl_task_step {
	uint8_t kind, src_space, dst_space;
	int peer;
	struct hdl_coll_link *link;	/* on which it is posted; WAIT: whose arrival */
	size_t src_off, dst_off, len, stride;
	uint16_t nsrc;			/* PUT: sources */
	bool arrives;			/* PUT: with an arrival at the peer */
	bool stamps;			/* PUT: of stamps, combined by AND */
	uint32_t count;			/* ENABLE: requests */
};

struct hdl_task_use {
	struct hdl_coll_link *link;
	uint32_t wrs;			/* requests of one operation */
	struct ibv_exp_send_wr *last;	/* of them */
	bool reads_slot;		/* some of them read the slot when they run: the operation retires after them */
};

struct hdl_coll_prog {
	const struct hdl_graph *g;
	struct hdl_mailbox_prog *mailbox;	/* the cells that it writes and waits for; NULL: the task list, or single copy */
	struct ibv_exp_task *tasks;	/* linked */
	uint32_t ntasks, nwrs, nuses, narrivals, nwatches;
	struct ibv_exp_send_wr *wrs;
	struct ibv_sge *sges;
	struct hdl_task_step *steps;	/* one per request */
	struct hdl_task_use *uses;	/* queues posted to */
	struct hdl_coll_link **arrivals;	/* links on which one arrival is due */
	struct hdl_coll_link **watches;	/* complete when these arrivals are there ... */
	bool watch_master;		/* ... or when the master's last request is complete */
	uint32_t *prologue, *epilogue;	/* CPU nodes before, after */
	uint32_t nprologue, nepilogue;
	uint64_t requests, bytes;	/* of one operation: those that carry data or signals */
	bool uses_acc, synchronizes;
	bool lasts;			/* a persistent operation's: nothing that its requests read changes before all ranks have it */
	uint8_t class;
};

/* Compiles a graph of a collective of so many bytes for this communicator's queues. NULL with errno: EOPNOTSUPP for a
 * graph whose shape the device cannot run by itself. */
struct hdl_coll_prog *hdl_task_compile(struct hdl_queues *h, const struct hdl_graph *g, size_t bytes, const struct hdl_enc *enc,
				     bool synchronizes);
/* Of lines of a persistent operation, that lie there. */
struct hdl_coll_prog *hdl_mailbox_compile_at(struct hdl_queues *h, const struct hdl_graph *g, const struct hdl_slot_region *area);

/* Whether it completes nowhere before all ranks have posted it. */
static inline bool hdl_coll_synchronizes(uint8_t coll)
{
	return !hdl_coll_has_root((enum hdl_coll)coll) && coll != HDL_SCAN && coll != HDL_EXSCAN && coll != HDL_NEIGHBORS &&
	       coll != HDL_VSCAN && coll != HDL_VEXSCAN;
}
/* The same for the barrier that is inserted in a class. */
struct hdl_coll_prog *hdl_slot_barrier_compile(struct hdl_queues *h, const struct hdl_plan *plan, uint8_t class);
/* The area that the plan's operations need before they are compiled. */
int hdl_task_region_of(const struct hdl_queues *h, const struct hdl_plan *plan);

/* ---- task lists under way (post.c) -------------------------------------------------------------------- */

/* 0 or a negative errno. */
int hdl_link_post_recvs(struct hdl_coll_link *l, uint64_t n);
/* Whether what operations that were posted here expect on the link has arrived, and nothing else. */
bool hdl_link_has_arrived(struct hdl_queues *h, struct hdl_coll_link *l);

/* ---- lines (cell.c) -------------------------------------------------------------------------------------- */

/* Lays the areas out. */
void hdl_cell_areas(struct hdl_queues *h);
enum hdl_cell_size hdl_cell_size(size_t bytes);
/* Of slots, for so many bytes. */
uint8_t hdl_cell_class(size_t bytes);
size_t hdl_cell_least(uint8_t class);
/* Of all. */
size_t hdl_cell_most(void);
/* Bytes that the requests of all queues carry themselves. */
uint32_t hdl_cell_inline(const struct hdl_queues *h);
/* No line carries a number. */
void hdl_cell_clear(struct hdl_slot_region *a);
/* Whether something is sent from the area that the requests do not carry themselves. */
bool hdl_cell_stages(const struct hdl_queues *h, enum hdl_cell_size size);
/* The part between prologue and epilogue. Without area->peers where it begins at the others is told later, by hdl_cell_aim. 0 or an
 * errno. */
int hdl_cell_compile(struct hdl_queues *h, struct hdl_coll_prog *p, const struct hdl_slot_region *area);
void hdl_cell_aim(struct hdl_coll_prog *p, const struct hdl_region_peer *peers);
void hdl_cell_free(struct hdl_mailbox_prog *lines);
/* Sets line_room, and says whether there is some. */
bool hdl_cell_find_room(struct hdl_queues *h);
/* Whether a line that was posted to the peer may not be there yet. */
static inline bool hdl_cell_waits(const struct hdl_coll_link *l)
{
	return __atomic_load_n(l->unfinished, __ATOMIC_ACQUIRE);
}
/* A bit per rank that may need this one's CPU. */
uint32_t hdl_queues_cpu_sharers(struct hdl_queues *h);
/* Now and then a request is signaled, so that the queue has room again. */
static inline bool hdl_cell_signal_due(const struct hdl_coll_link *l)
{
	return l->sq_posted - l->sq_signaled >= l->sq_depth / 2;
}
/* A completion will tell when all that was posted to the peer is there; the operation, if it is one's, retires by it. */
void hdl_cell_follow(struct hdl_queues *h, struct hdl_coll_link *l, struct hdl_run *run);
/* Runs the prologue and writes the lines. An error breaks the communicator's offload. */
void hdl_cell_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* A blocking call looks for what another CPU is about to write so often, some microseconds, before everything else is looked at, too. Where
 * ranks share CPUs it gives its own to the others of it so many times before, and looks between for as long as that takes: whom it waits for may
 * be behind somebody else there, who waits, in turn, for one that is behind this rank. */
#define HDL_LOOKS 100
#define HDL_SHARED_LOOKS 10
#define HDL_COPY_LOOKS 400		/* for what it copies first */
#define HDL_GIVEN_UP 3
/* Who writes the line must have it: looks without a pause take it away time and again (measured: 205 ns an Allreduce, 190 with two). */
static inline void hdl_look_pause(void)
{
	cpu_relax();
	cpu_relax();
}
/* Whether all lines of others are there; or come within the time that others need who have been here at the same time. */
bool hdl_cell_arrived(struct hdl_run *run, const struct hdl_coll_prog *prog);
bool hdl_cell_await(struct hdl_run *run, const struct hdl_coll_prog *prog);
/* Writes the lines that wait for those of others, and runs the epilogue; if a line was of another length, the run has an error. */
void hdl_cell_take(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* Of the tables of fixed.c and vector_calls.c (exec.h). */
bool hdl_cell_poll(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
bool hdl_cell_has_room(struct hdl_queues *h, const struct hdl_coll_prog *prog);
int hdl_cell_region(const struct hdl_queues *h, const struct hdl_plan *plan);
struct hdl_coll_prog *hdl_mailbox_compile(struct hdl_queues *h, const struct hdl_plan *plan);

/* As hdl_cell_post, but for the lines themselves. Then each: put i of the operation has this data, which may change when the operation
 * retires, and says so many bytes, or whatever the word means to its receiver. */
void hdl_cell_begin(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
void hdl_cell_put_vblock(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog, uint32_t i, const void *data, size_t len,
		     uint64_t word);
uint32_t hdl_cell_puts(const struct hdl_coll_prog *prog);
int hdl_cell_put_to(const struct hdl_coll_prog *prog, uint32_t i);
/* Whether the line of that rank has come. */
bool hdl_cell_has_come(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer);
/* The word of the line that has come from that rank; its data end at *end. */
uint64_t hdl_cell_word(const struct hdl_run *run, const struct hdl_coll_prog *prog, int peer, const char **end);

const struct hdl_slot_region *hdl_cell_area(const struct hdl_coll_prog *prog);

/* ---- pieces by lines and messages (vector.c, vector_copy.c) --------------------------------------------------------- */

/* prog: the plan's, or a persistent one's own. */
void hdl_vector_post(struct hdl_queues *h, struct hdl_run *run, const struct hdl_coll_prog *prog);
/* What was posted the short way has not come to its end: the run has lists from here on, by which that is found. There is memory for them,
 * since a spare run has had them before. */
void hdl_vector_go_on(struct hdl_run *run, const struct hdl_vcoll *a);
/* Does what can be done now. Whether that was all. */
bool hdl_vector_turn(struct hdl_queues *h, struct hdl_run *run);
/* Whether the turn ended because it had copied enough: there is more to do at once. */
bool hdl_vector_more(const struct hdl_run *run);
/* Whether some of what it gets is too long for a line. */
bool hdl_vector_await_long(const struct hdl_run *run);
/* Whether nothing that has still to come is a message, as far as is known. */
bool hdl_vector_by_device(const struct hdl_run *run);
/* Where ranks share CPUs: whether it waits for one that may need this one's. */
bool hdl_vector_need_near(struct hdl_queues *h, const struct hdl_run *run);
/* After an error: takes messages back. Whether the user's buffers are nobody's any more, once the queues are stopped. */
bool hdl_vector_stop(struct hdl_run *run);

/* ---- copies from and to shown buffers (single_copy.c) -------------------------------------------------------------------- */

/* From how many bytes on, by measurement; some collectives from more on. */
#define HDL_SC_LEAST ((size_t)16 << 10)
/* The same of one piece between two ranks: what is not longer goes as quickly by an eager message, and its giver need not wait. But where all
 * wait for all, this one copy is quicker than the message's two. */
static inline size_t hdl_sc_from(enum hdl_coll coll)
{
	return hdl_vars.coll_single_copy_min ? (size_t)hdl_vars.coll_single_copy_min : HDL_SC_LEAST + (coll != HDL_ALLGATHERV);
}
/* Lays its lines out. */
void hdl_sc_area(struct hdl_queues *h);
/* Looks whether what this rank has left behind has been read, or never will be, as far as completions have been taken. The communicator may
 * be freed by that. */
void hdl_sc_staging_reclaim(struct hdl_queues *h);
/* ---- sets that no communicator has (cache.c) ------------------------------------------------------------- */

/* One of the communicator's ranks, of this hdl_queues_index; NULL: there is none. */
struct hdl_queues *hdl_queue_cache_take(const struct hdl_comm *comm, int index);
/* Nothing is outstanding. False: it is not fit to be used again. */
bool hdl_queue_cache_keep(struct hdl_queues *h);
/* Destroys the one that has been kept longest. False: there is none. */
bool hdl_queue_cache_evict(void);
/* Of too many some go. */
void hdl_queue_cache_trim(void);
/* What was posted has left; nothing is outstanding: destroys it. */
void hdl_queues_end(struct hdl_queues *h);
/* What was posted has left. */
void hdl_queues_flush(struct hdl_queues *h);
/* Destroys queues and slots, but not h; frees what the exchange needs. */
void hdl_queues_unmake(struct hdl_queues *h);
void hdl_queues_free_records(struct hdl_queues *h);

/* ---- wire-up (bringup.c) ------------------------------------------------------------------------------------ */

/* The depth in use: HEDDLE_COLL_DEPTH within what wr_id can tell apart. */
#define HDL_QUEUES_DEPTH_MAX 128
/* Creates queues and scratch, and starts the exchange; state becomes READY or OFF, on all ranks alike. A rank that cannot
 * know which is broken. */
struct hdl_queues *hdl_queues_new(struct hdl_cc *cc, enum hdl_executor executor, bool pairs);
/* As hdl_queues_new lays it out, but nothing can be posted: for hdl_task_compile only. NULL without memory. */
struct hdl_queues *hdl_queues_sketch(int rank, int size, enum hdl_executor executor, bool pairs, const struct hdl_reduce_caps *means);
void hdl_queues_destroy(struct hdl_queues *h);
/* The first reason why the collectives are the host's: that rank could not do this. */
void hdl_queues_note_reason(struct hdl_queues *h, const char *what, int rank, int status);
/* There is no memory even to tell the others: it ends as in an error, and they are told of that. */
void hdl_queues_bringup_failed(struct hdl_queues *h);
/* An Allgather in place of `bytes` per rank on the host executor: one at a time. done frees the run; it may be called at once. In case of
 * run->error all bytes of what did not come are HDL_UNHEARD_BYTE, and a status there is HDL_UNHEARD. 0 or -ENOMEM. */
#define HDL_UNHEARD (-1)
#define HDL_UNHEARD_BYTE 0xff
int hdl_queues_allgather(struct hdl_queues *h, void *buf, size_t bytes, void (*done)(struct hdl_run *), void *arg);
/* The same. *graph is the caller's for this one, until the next. number: of all that may be under way on the communicator at a time no two
 * have the same: areas are asked for when their first operation's turn comes, on each rank before or after a persistent one is
 * made, so that these have numbers of their own, one each, behind those that are counted. */
#define HDL_COUNTED_NUMBERS ((1u << 18) / HDL_QUEUE_KINDS - HDL_REGIONS)
#define HDL_REGION_NUMBER(k) (HDL_COUNTED_NUMBERS + (uint32_t)(k))
int hdl_queues_allgather_as(struct hdl_queues *h, struct hdl_graph **graph, uint32_t number, void *buf, size_t bytes,
		      void (*done)(struct hdl_run *), void *arg);
/* Something will arrive on it for the first time: receives take much of a communicator's memory, and most programs have one root.
 * What comes before waits (RNR), for no longer than until this rank posts its part. 0 or a negative errno. */
int hdl_link_open(const struct hdl_queues *h, struct hdl_coll_link *l);
/* That a link has posted then: see above. */
static inline uint64_t hdl_link_receives(const struct hdl_queues *h)
{
	return 4 * h->depth;
}
/* The status of a rank whose device does not promise the order of a write's bytes: cells cannot be used, as the report tells, and no error. */
#define HDL_NOT_IN_ORDER EILSEQ

/* ---- areas (regions.c) --------------------------------------------------------------------------------------- */

/* What a rank tells the others of memory that they write to. */
struct hdl_region_record {
	uint64_t addr;
	uint32_t rkey;
	int32_t status;			/* 0 or an errno */
};
/* Classes of slots, and how long the areas are. */
void hdl_queues_lay_out(struct hdl_queues *h);
/* This rank's part of an area. 0 or a negative errno; then hdl_region_unmake frees what there is. */
int hdl_region_make(struct hdl_queues *h, int k);
void hdl_region_unmake(struct hdl_queues *h, struct hdl_slot_region *a);
/* Another communicator has the set: what could not be had for the one before may be there now. */
void hdl_regions_retry(struct hdl_queues *h);
/* Asks for an area, if nobody has: HDL_REGION_WIRING, and it is decided later, or what all ranks have come to. */
enum hdl_region_state hdl_region_request(struct hdl_queues *h, int k);

#endif
