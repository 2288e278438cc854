/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/collectives: runs, plans, and a communicator's state. Each folder has one internal header of its own
 * (queues/queues.h, select/select.h, ...), which declares what the folder's files define; exec.h is the executors' interface. One
 * thread at a time, like p2p: nothing here takes a lock.
 *
 *     comm->coll ─▶ struct hdl_cc ─▶ plans: (collective, shape, form) -> executor, graph, why
 *                                └─▶ struct hdl_queues: queues, slots and outstanding operations of mailbox or tasks
 *     plan ─▶ run: one execution, bound to buffers; the plan keeps it for the next call
 *
 * Files call downwards (tests/unit/layers.sh):
 *
 *     coll.c vcoll.c                       the doors
 *     mailbox/vector_calls.c host/vcoll.c  calls with blocks of different lengths
 *     start.c                              a run gets its number, and goes to its executor
 *     mailbox/persistent.c                 persistent operations on mailbox
 *     queues/queues.c                      order of operations; reaches the executors through exec.h
 *     plan.c select/choose.c               plans
 *     queues/: bringup regions cache exchange teardown
 *     mailbox/ single_copy/ tasks/ host/   executors
 *     queues/completions.c run.c           shared by the executors
 *     fault/fault.c state.c                failures; reach upper files through struct hdl_coll_hooks
 */
#ifndef HDL_COLL_INTERNAL_H
#define HDL_COLL_INTERNAL_H

#include "collectives/algorithms/algorithms.h"
#include "collectives/collectives.h"
#include "collectives/fault/fault.h"
#include "collectives/graph/graph.h"
#include "runtime/events.h"
#include "runtime/runtime.h"

struct hdl_plan;
struct hdl_cc;
struct hdl_queues;
struct hdl_coll_prog;
struct hdl_choice;
struct hdl_comm_props;
struct hdl_vector_run;

/* ---- scratch.c --------------------------------------------------------------------------------------------- */

struct hdl_scratch {
	char *p;
	size_t bytes;
	bool arena;			/* hdl_tp_alloc's, else malloc's */
};
/* Allocates bytes > 0, 64-byte aligned. Returns 0 or -ENOMEM. */
int hdl_scratch_get(struct hdl_scratch *s, size_t bytes);
/* Gives the memory back and clears *s, which may be empty. */
void hdl_scratch_put(struct hdl_scratch *s);
/* Frees all memory that is kept for later runs (see hdl_tp_on_shortage). Returns true if there was any. */
bool hdl_scratch_give(void);
void hdl_scratch_fini(void);

/* ---- runs: run.c --------------------------------------------------------------------------------------- */

/* A node of a running graph. */
struct hdl_run_node {
	struct hdl_send send;		/* SEND in flight */
	struct hdl_req *req;		/* RECV in flight */
	struct hdl_run *run;
	uint32_t waiting;		/* number of predecessors that are not done */
	bool done;
	bool sending;			/* `send` belongs to the transport */
};

/*
 * How a run goes on. run->error keeps the first error.
 *
 *               error of arguments (hdl_is_of_arguments)
 *     NORMAL ──────────────────────────────────────────────▶ EMPTY
 *       ▲ ▲                 another error                     │ ▲
 *       │ └───────────────────────────────────────────────────┘ │
 *       │ the communicator is revoked                           │
 *     ALL ──────────── error of arguments ──────────────────────┘    (another error in EMPTY: back to ALL)
 *
 *     NORMAL  until an error: then no further node starts
 *     EMPTY   host executor: all nodes run, and sends are empty, so that no rank waits for this one, and the receivers have an
 *             error, too. Mailbox: a cell has another length than this rank's arguments promise, and the data are not used
 *     ALL     bring-up (HDL_WIRE_TAG): all nodes run with their data, after any failure, so that no rank waits
 */
enum hdl_run_mode { HDL_RUN_NORMAL, HDL_RUN_EMPTY, HDL_RUN_ALL };

struct hdl_run {
	const struct hdl_graph *g;
	struct hdl_plan *plan;		/* NULL: an internal run, freed by its done() */
	struct hdl_run *next;		/* in plan->spare, the host executor's runnable runs, or hdl_queues.queue */
	struct hdl_comm *comm;
	struct hdl_req *req;		/* the user's; NULL: blocking, or internal */
	void (*done)(struct hdl_run *run);	/* NULL: complete req */
	void *arg;			/* for done() */
	void (*reduce)(const struct hdl_run *run, const void *src, void *dst, size_t len);	/* of a graph without fn */
	char *base[HDL_SPACES];
	int32_t tag;			/* sub is added to it */
	int error;			/* MPI error class of the first error; see hdl_run_error */
	bool finished;			/* set last; then the owner may reuse the run */
	bool runnable;			/* in the list of runnable runs */
	bool retain;			/* persistent or irregular: scratch and packed buffers stay when the run has finished */
	uint8_t mode;			/* enum hdl_run_mode */
	bool no_data;			/* hierarchical: this rank had an error in the phase before; the cells and stamps that
					 * this rank writes are invalid, so that the ranks that take this rank's data have an
					 * error, too */

	/* Host executor. */
	struct hdl_run *after, **link;	/* by events: in cc->runs */
	bool withdrawn;			/* in order: the sends were withdrawn, since a member has ended */
	uint32_t nodes_left, inflight, nready;
	uint32_t *ready;		/* stack of nodes without predecessors that are not done */
	struct hdl_run_node *nodes;
	struct hdl_scratch tmp;

	/* Buffers of noncontiguous types are packed. */
	struct hdl_coll_args args;
	void *packed_send, *packed_recv;
	MPI_Count recv_elems;		/* of args.recvtype in recvbuf: the result, and the input in place */

	char why[320];			/* the explanation of error */
	struct hdl_check *check;	/* HEDDLE_CHECK=1: this rank's record of the call, to be compared (select/check.c) */

	/* Mailbox and tasks. */
	uint64_t opno;			/* operation number: position in the set, all classes counted together */
	uint32_t slot, place;		/* the operation's number in its class modulo slots; opno modulo depth: index in
					 * hdl_queues.ring */
	uint32_t outstanding;		/* completions of this rank's own requests that read the slot */
	uint32_t arrived;		/* mailbox: cells whose sequence number has come, in the program's order */
	const char *numbers;		/* mailbox: the memory of the slot in which the cells' sequence numbers stand */
	uint8_t class;			/* of slots */
	struct hdl_sc_run *sc;		/* single copy; kept with the run */
	struct hdl_pcoll *pcoll;	/* persistent, on mailbox */
	struct hdl_vector_run *vector;	/* v-collectives on mailbox (mailbox/mailbox.h); kept with the run */
};

/* End of an error's text: a peer's data have another length than this rank's arguments promise. */
#define HDL_CALLS_DIFFER                                                                                                       \
	"the ranks call different collectives, or this one with counts or types that differ (HEDDLE_CHECK=1 names both calls)"

struct hdl_run *hdl_run_new(const struct hdl_graph *g, struct hdl_comm *comm);
void hdl_run_free(struct hdl_run *run);
/* Allocates scratch and node states for the host executor, which stay with the run. Returns 0 or -ENOMEM. */
int hdl_run_prepare_host(struct hdl_run *run);
/* Allocates scratch only. Returns 0 or -ENOMEM. */
int hdl_run_prepare_tmp(struct hdl_run *run);
/* Replaces the run's graph by another one of its plan, and frees scratch and node states. */
void hdl_run_change_graph(struct hdl_run *run, const struct hdl_graph *g);
/* bind: points the spaces at the user's buffers and packs noncontiguous ones; returns an MPI error class. repack: packs the send
 * data again, for the next start of a run with `retain`. */
int hdl_run_bind(struct hdl_run *run, const struct hdl_coll_args *args, int ranks, bool in_place);
void hdl_run_repack(struct hdl_run *run);
/* Clears the outcome of the execution before. */
static inline void hdl_run_begin(struct hdl_run *run)
{
	run->error = MPI_SUCCESS;
	run->why[0] = 0;
	run->mode = HDL_RUN_NORMAL;
	run->finished = false;
}
/* Returns true if further nodes of the run are carried out. */
static inline bool hdl_run_goes_on(const struct hdl_run *run)
{
	return !run->error || run->mode != HDL_RUN_NORMAL;
}
void hdl_run_unbind(struct hdl_run *run);	/* frees what binding allocated */
/* Unpacks, marks the run finished and calls done(). Must: the caller does not touch the run afterwards; the owner may reuse or
 * free the run in done(). */
void hdl_run_finish(struct hdl_run *run);
/* The run fails with this error class and the text of the last hdl_reason_set. The first error is kept, except that
 * MPI_ERR_BUFFER replaces MPI_ERR_COUNT. MPI_ERR_NO_MEM revokes the communicator, since the other ranks wait for this rank's
 * part. */
void hdl_run_error(struct hdl_run *run, int error);
/* Errors of lengths, and of buffers that cannot be reached, are the program's: the run continues with empty messages, so that no
 * rank waits for this one. */
static inline bool hdl_is_of_arguments(int error)
{
	return error == MPI_ERR_TRUNCATE || error == MPI_ERR_COUNT || error == MPI_ERR_BUFFER;
}
/* The run fails: this rank's block for itself has another length than its place. */
void hdl_run_misfit(struct hdl_run *run, size_t sent, size_t room);
/* Carries out a COPY or REDUCE node. */
void hdl_run_local(const struct hdl_run *run, const struct hdl_node *n);

/* A node's message. send: returns as hdl_ep_send. errno: returns the error class of its negative errno, and sets the reason.
 * recv: blocks; an error becomes the run's. */
int hdl_run_send(struct hdl_run *run, const struct hdl_node *n, struct hdl_send *send);
int hdl_run_errno(const struct hdl_run *run, const struct hdl_node *n, int err);
/* The run gets the error of a failed send; if hdl_is_of_arguments, the run goes on with empty messages. */
void hdl_run_send_failed(struct hdl_run *run, const struct hdl_node *n, int err);
void hdl_run_recv(struct hdl_run *run, const struct hdl_node *n);
/* Sends a node's message within one group if the transport takes it at once. Returns 1: sent; 0: nothing happened. */
static inline int hdl_run_send_now(const struct hdl_run *run, const struct hdl_node *n)
{
	const void *src = n->src_space < HDL_SPACES ? run->base[n->src_space] + n->src_off : NULL;

	return likely(run->mode != HDL_RUN_EMPTY) &&
	       hdl_ep_send_now(hdl_comm_ep(run->comm, n->peer), run->tag | (int32_t)n->sub, run->comm->context + 1, src, n->len);
}

/* ---- plans: plan.c ---------------------------------------------------------------------------------------- */

struct hdl_plan_key {
	MPI_Op op;			/* MPI_OP_NULL but in reductions */
	const struct hdl_type *type;	/* NULL but in reductions */
	size_t bytes;
	int32_t root;
	uint32_t to, from;		/* NEIGHBORS: a bit per destination or source; one value per communicator, not compared */
	uint8_t coll;
	uint8_t in_place;
	uint8_t blocking;
	uint8_t persistent;
	uint8_t internal;		/* a slot barrier, or the leader phase; not in the report */
	uint8_t leader;			/* Barrier: hdl_choose_leader of the collective before it */
	uint8_t leader_phase;		/* the leader phase of a hierarchical collective (host/hierarchical.c) */
	uint8_t node_phase;		/* the communicator is a node_comm: node phase */
};

struct hdl_plan {
	struct hdl_plan_key key;
	struct hdl_plan *next_all, **link_all;	/* list of all plans of the process (counters.c) */
	struct hdl_run *spare;
	struct hdl_graph *graph;	/* of the host executor; other executors' plans: NULL until that runs the plan */
	struct hdl_graph *offload_graph;	/* of mailbox or tasks */
	struct hdl_coll_prog *prog;	/* offload_graph compiled; NULL until the first operation is posted */
	const struct hdl_executor_ops *exec;	/* the executor's table (exec.h) */
	struct hdl_enc enc;
	uint64_t uses, fallbacks;	/* fallbacks: uses of a mailbox or tasks plan that the host executor ran */
	uint64_t late;			/* uses that were posted later than called, for want of a slot */
	uint32_t refs;			/* the table's, and one for each run in use */
	enum hdl_executor executor;
	bool pairs;			/* tasks: on the queues with pair links among all ranks */
	bool oversubscribed;		/* as in struct hdl_choice */
	uint8_t cpus;			/* hdl_comm_props.cpus */
	uint8_t leader;			/* hdl_choose_leader: key.leader of a Barrier that comes next */
	const struct hdl_hosts *hosts;	/* as in struct hdl_choice; owned by the group */
	bool in_phases;			/* as in struct hdl_choice; `graph` does the whole collective by messages all the same */
	char why[112];
	const char *why_not;		/* why the fallbacks ran on the host */
	bool in_order;			/* blocking, host executor, hdl_host_can_inline; packs nothing if it is a reduction */
	bool quick;			/* hdl_coll_run may take its fast path: in_order, or mailbox with blocks of one length and
					 * no reduction that packs */
};

static inline bool hdl_plan_is_of(const struct hdl_plan_key *a, const struct hdl_plan_key *b)
{
	return a->bytes == b->bytes && a->op == b->op && a->type == b->type && a->root == b->root && a->coll == b->coll &&
	       a->in_place == b->in_place && a->blocking == b->blocking && a->persistent == b->persistent &&
	       a->leader == b->leader && a->leader_phase == b->leader_phase;
}

/* The plan cache is two-way set-associative: the key's hash is the index of a pair, in which a new plan moves the newer one back
 * and replaces the older one. So a loop over two collectives never makes their plans anew. */
#define HDL_PLANS 128

struct hdl_cc {
	struct hdl_comm *comm;
	struct hdl_plan *plans[HDL_PLANS];
	struct hdl_plan *last[HDL_COLL_KINDS];	/* last plan of each collective, looked up first; v-collectives: last blocking
						 * one */
	uint32_t seq;			/* number of collectives begun, without persistent ones: the same on all ranks */
	uint8_t leader;			/* of the last collective's plan: key.leader of a Barrier that comes next */
	uint32_t persistent;		/* number of persistent collectives made: the same on all ranks */
	uint32_t pending;		/* number of host executor runs that have not finished */
	struct hdl_run *runs;		/* list of those by events */
	/* A member that has ended (fault.c). */
	int lost;			/* 1 + the process number of the lost member; 0: none. If set, no collective is begun on
					 * this communicator */
	bool lost_by_notice;		/* a member's notice has set `lost`; of a node_comm always true: the ranks of the whole
					 * communicator notify the members */
	bool revoked;			/* the operations that were in flight have been ended */
	bool passed_over;		/* fault.c skipped the last check of the members' processes, since seq had moved */
	uint32_t seq_looked;		/* seq at the last check */
	struct hdl_queues *queues[HDL_QUEUE_KINDS];	/* by hdl_queues_index; NULL until the first collective on them */
	/* Ranks on several hosts (hierarchical.c). */
	struct hdl_comm *node_comm;	/* the ranks of this host, without a handle; NULL: not made */
	struct hdl_cc *node_of;		/* of a node_comm: the communicator to which the node_comm belongs */
	bool no_node_comm;		/* the node_comm could not be made, on any rank */
	unsigned promises;		/* HDL_PROMISES_... of all members' devices to each other, and HDL_COMM_OVERSUBSCRIBED;
					 * valid if promises_known */
	bool promises_known;		/* written by find_promises (queues/comm_props.c) */
};

/* The own group of an intercommunicator. A node's peers below comm->size are ranks of the remote group; the ranks of the own
 * group are numbered behind them. */
static inline int hdl_own_rank(const struct hdl_comm *comm)
{
	return comm->local ? comm->local->rank : comm->rank;
}

static inline int hdl_own_size(const struct hdl_comm *comm)
{
	return comm->local ? comm->local->size : comm->size;
}

static inline int hdl_own_peer(const struct hdl_comm *comm, int rank)
{
	return comm->local ? comm->size + rank : rank;
}

/* Translates a node's peer: returns the communicator in which it is rank *peer. */
static inline struct hdl_comm *hdl_peer_comm(struct hdl_comm *comm, int *peer)
{
	if (likely(*peer < comm->size))
		return comm;
	*peer -= comm->size;
	return comm->local;
}

/* Tags: bit 30 for the wire-up of mailbox and tasks; bit 29 for persistent collectives; 18 bits of sequence; 11 bits of sub. */
static inline int32_t hdl_coll_tag(uint32_t seq)
{
	return (int32_t)((seq & 0x3ffff) << HDL_SUB_BITS);
}
#define HDL_WIRE_TAG (1 << 30)
#define HDL_PERSISTENT_TAG (1 << 29)

/* Returns true if the run is an exchange of the bring-up. */
static inline bool hdl_run_wires_up(const struct hdl_run *run)
{
	return run->tag & HDL_WIRE_TAG;
}

/* Calls from lower files to upper ones. The door (coll.c) sets the functions before the first collective. */
struct hdl_coll_hooks {
	void (*state_made)(struct hdl_cc *cc);	/* of a communicator, which may have lost a member before */
	void (*revoke_runs)(struct hdl_cc *cc);	/* a member is lost: the host executor's runs on the communicator fail */
};
extern struct hdl_coll_hooks hdl_coll_hooks;
/* Returns the communicator's state, made when first needed; NULL: no memory. */
struct hdl_cc *hdl_coll_state(struct hdl_comm *comm);
/* Gives a persistent run its tag, one for all its starts: only the calls that make persistent collectives come in one order on
 * all ranks (MPI-5.0 section 6.13), the starts need not. Successive starts of one run are told apart by the order of messages:
 * each start sends a peer the same number of messages of each sub. */
void hdl_coll_number_persistent(struct hdl_run *run);
/* Starts the run on the host executor as the communicator's next collective; a persistent run keeps its tag. */
void hdl_coll_begin(struct hdl_run *run);
/* The same, on the host executor (host), else on the queues of the plan's executor. */
void hdl_coll_dispatch(struct hdl_run *run, bool host);
/* Prepares a persistent run for another start of its request. */
static inline void hdl_run_again(struct hdl_run *run, struct hdl_req *req)
{
	hdl_run_begin(run);
	run->req = req;
	run->plan->uses++;
}
/* Returns the plan's graph for the host executor, made when first needed; NULL with errno. */
struct hdl_graph *hdl_plan_host_graph(struct hdl_plan *plan, struct hdl_comm *comm);
/* Prepares a run of another executor's plan for the host executor. Returns 0 or -ENOMEM. */
int hdl_run_to_host(struct hdl_run *run);
/* Counts a use of the plan that the host executor runs. */
static inline void hdl_plan_fell_back(struct hdl_plan *plan, const char *why)
{
	const struct hdl_event_coll event = { plan->key.coll };

	plan->fallbacks++;
	plan->why_not = why;
	hdl_event_raise(HDL_EVENT_COLL_ON_HOST, &event);
}
#define HDL_EARLY "among the first of its communicator"
void hdl_plan_put(struct hdl_plan *plan);
/* Chooses executor and algorithm for a key without making a plan. Returns 0 or a negative errno, also in errno: a failure of this
 * rank alone, which must not decide the choice. */
int hdl_plan_choose(const struct hdl_plan_key *key, const struct hdl_comm *comm, struct hdl_comm_props *props,
		    struct hdl_choice *choice);
/* Returns the plan of this key, made if there is none; NULL with errno. */
struct hdl_plan *hdl_plan_of(struct hdl_cc *cc, const struct hdl_plan_key *key);
/* Takes a spare run of the plan, or makes one. Returns NULL with errno. Ownership: hdl_plan_run_put gives it back. */
struct hdl_run *hdl_plan_run(struct hdl_plan *plan, struct hdl_comm *comm);
void hdl_plan_run_put(struct hdl_run *run);
/* Returns true if this blocking use is among the first of its communicator, which the host executor runs. */
bool hdl_plan_is_early(const struct hdl_cc *cc, const struct hdl_plan *plan);
/* Gives the run the communicator's next number and hands it to the queues of mailbox or tasks. */
void hdl_coll_submit(struct hdl_run *run);
/* done() of a run with a request, and of a persistent request's run. */
void hdl_coll_complete(struct hdl_run *run);
void hdl_coll_complete_persistent(struct hdl_run *run);
/* Waits until a blocking run is finished, and gives the run back to the plan. Returns an MPI error class. */
int hdl_coll_end(struct hdl_run *run);
/* The same after a fast path, which used the plan's first spare run. */
static inline int hdl_coll_end_quick(struct hdl_cc *cc, struct hdl_plan *plan)
{
	struct hdl_run *run = plan->spare;

	cc->leader = plan->leader;
	plan->uses++;
	if (unlikely(++cc->seq % HDL_TURN_EVERY == 0))
		hdl_progress();
	/* hdl_progress may have finished the run with an error */
	if (likely(run->finished && !run->error))
		return MPI_SUCCESS;
	plan->spare = run->next;
	plan->refs++;
	return hdl_coll_end(run);
}

/* The address of a node's bytes; NULL: the node has none. */
static inline void *hdl_run_memory(const struct hdl_run *run, uint8_t space, size_t off)
{
	return space < HDL_SPACES ? run->base[space] + off : NULL;
}

/* Records the loss of the node's peer if a message to or from that peer has ended with MPI_ERR_PROC_ABORTED. Returns error. */
static inline int hdl_run_note_loss(const struct hdl_run *run, const struct hdl_node *n, int error)
{
	if (unlikely(error == MPI_ERR_PROC_ABORTED))
		hdl_ft_member_failed(run->comm->coll, n->peer);
	return error;
}

/* Checks that a message has the length that this rank's arguments promise: a shorter one would leave a part of the buffer
 * unwritten. Returns an MPI error class. */
int hdl_run_bad_length(const struct hdl_run *run, const struct hdl_node *n, const MPI_Status *status);
static inline int hdl_run_check_length(const struct hdl_run *run, const struct hdl_node *n, const MPI_Status *status)
{
	return likely((size_t)hdl_status_bytes(status) == n->len) ? MPI_SUCCESS : hdl_run_bad_length(run, n, status);
}

#endif
