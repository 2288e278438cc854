/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/rma: one-sided communication (MPI-5.0 chapter 12). Above p2p, transport, datatype and collectives, below mpi.
 *
 *      MPI_Put ── epoch check ── target ─┬─ MAPPED    stores of this process            (move.c)
 *                                        ├─ DEVICE    RDMA WRITE: hdl_put, of an operation per run
 *                                        └─ HANDLER   active messages, which the target's progress carries out   (msg.c)
 *
 *     win.c      windows: creation, records, targets          sync.c    fence, post/start/complete/wait, flush
 *     locks.c    locks of members, mapped and by message      move.c    put and get
 *     agent.c    accumulates: agents, those by the device     acc.c     accumulates by the origin's CPU
 *                                                             msg.c     active messages: accumulates, locks, wake-ups
 *     regions.c  regions of dynamic windows                   report.c  the report, and the hang report's part
 *     helper.c   progress for a process that computes
 *     pure: lock.h, epoch.h, hashed.h, reach.h                side.h    buffers of the origin
 *
 * All functions return MPI_SUCCESS or an MPI error class with hdl_reason_set. Must: the lock of runtime/threads.h is held.
 */
#ifndef HDL_RMA_DOOR_H
#define HDL_RMA_DOOR_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "collectives/collectives.h"
#include "p2p/p2p.h"
#include "rma/epoch.h"
#include "rma/hashed.h"
#include "rma/lock.h"
#include "rma/reach.h"

/* How put and get reach a target: fixed when the target is first addressed. */
enum hdl_rma_lane { HDL_LANE_NONE, HDL_LANE_MAPPED, HDL_LANE_DEVICE, HDL_LANE_HANDLER };
/* A lock that this process holds at a target, from HDL_HELD_SHARED on. AWAITED: a thread waits in MPI_Win_lock with the library's
 * lock open. NOCHECK: MPI_MODE_NOCHECK, nothing was taken. */
enum hdl_held { HDL_HELD_NONE, HDL_HELD_AWAITED, HDL_HELD_SHARED, HDL_HELD_EXCLUSIVE, HDL_HELD_NOCHECK };

/*
 * The state block of a member: in fabric memory where the device has some, so that every member of the window reads and writes
 * it; else only the member itself does, for messages. Writers are named at each field.
 */
struct hdl_win_state {
	_Alignas(64) uint64_t nonce;	/* written once by the owner: proves that a peer has mapped this block and
					 * no other memory */
	uint32_t asleep;		/* waits of the owner for which a writer must send a wake-up (hdl_rma_wake); owner */
	uint32_t broken;		/* 1 + rank of the member whose death has broken `lock` last; 0: none has. Any member */
	_Alignas(64) uint64_t lock;	/* lock.h; any member */
	/* regions of a dynamic window (regions.c); owner */
	_Alignas(64) uint64_t version;	/* odd while the owner changes the next three */
	uint64_t regions_at;		/* place of the table in the fabric */
	uint64_t regions_n, regions_room;	/* entries in use; entries of the table */
	struct { _Alignas(64) uint32_t word; } hashed[HDL_HASHED];	/* hashed.h; any member */
	struct hdl_win_member {
		uint64_t holds;		/* the member's state at `lock`: hdl_lock_holds; the member */
		uint64_t posted;	/* exposure epochs that the member has posted to the owner; the member */
		uint64_t completed;	/* access epochs of the member on the owner that are complete; the member */
	} member[];			/* by rank in the window */
};
enum hdl_wants { HDL_WANTS_NONE, HDL_WANTS, HDL_HAS_SHARED, HDL_HAS_EXCLUSIVE };

/* A member as the members exchange it at creation. */
struct hdl_win_record {
	uint64_t base, size;		/* address in the owner, bytes */
	uint64_t memory_at, state_at;	/* places in the fabric; 0: not there */
	uint64_t nonce;
	uint64_t window;		/* the owner's struct hdl_win, for messages */
	int64_t disp_unit;
	uint32_t error;			/* class with which the owner's part of the creation has failed */
	uint16_t key_len;		/* 0: the device does not reach the memory */
	uint8_t granule;		/* mpi_accumulate_granularity: its log2 + 1, rounded down; 0: not given */
	uint8_t hints;			/* HDL_WIN_*, as the member gave them, and HDL_WIN_AGENT_QUEUES */
	char key[HDL_RKEY_MAX];
};

/* A region of a dynamic window, in the owner's table. */
struct hdl_win_region {
	uint64_t base, size;
	uint64_t key_len;
	char key[HDL_RKEY_MAX];
};

struct hdl_rma_out;

/* A member that was addressed. */
struct hdl_target {
	/* hot: put and get on MAPPED */
	char *memory;			/* MAPPED: the address here */
	uint64_t size;			/* bytes; UINT64_MAX: a dynamic window */
	int64_t disp_unit;
	uint8_t lane;			/* enum hdl_rma_lane */
	uint8_t held;			/* enum hdl_held */
	bool open;			/* this member may be accessed: MPI_Win_start or MPI_Win_lock named it */
	bool native;			/* aligned elements of up to 8 bytes are updated by atomic instructions: every member has
					 * mapped the memory, and the members asked for no granularity */
	bool atomics;			/* aligned elements of 8 bytes are updated by the device's atomic requests (agent.c) */
	bool alone;			/* no accumulate of another process runs beside this one's: this process holds the
					 * exclusive lock, or is the only member */
	const struct hdl_ep_note *note;	/* of its endpoint; of this process: one that never fails */
	struct hdl_win_state *state;	/* mapped here; NULL: not */
	/* cold */
	uint64_t base;			/* address of the memory in the owner */
	uint64_t pending;		/* operations of this process that are not complete there */
	int error;			/* class of the first operation that has failed since the last flush */
	uint8_t granule;		/* log2 of the bytes that a hashed lock covers */
	unsigned updates, loops;	/* agent.c: requests under way; those that may be repeated */
	int rank, proc;			/* in the window; number of the process */
	struct hdl_ep *ep;		/* NULL: this process */
	struct hdl_rkey *key;		/* of the memory; NULL: no lane and no agent needs the device. This process has
					 * one for atomics */
	uint64_t posts;			/* exposure epochs of the member that MPI_Win_start has used up */
	uint64_t completes;		/* access epochs of the member that MPI_Win_wait has used up */
	/* dynamic: copy of the member's regions */
	uint64_t version;		/* of the copy; 0: none */
	struct hdl_win_region *regions;
	struct hdl_rkey **region_keys;	/* made at first use; else NULL */
	uint64_t nregions;
	/* messages (msg.c) */
	struct hdl_rma_out *out, *out_last;	/* accumulates of this process that are not complete, in their order */
	struct hdl_rma_in *in, *in_last;	/* those of the member that wait for their data */
	int messages;			/* pieces of accumulates under way to the member */
	bool pumping, pump_failed;	/* pump is at work; the member has failed meanwhile */
	uint16_t lock_state;		/* hdl_lock_state of the lock word as this process knows it; its breaks were reported */
	bool granted;			/* the owner has granted the lock */
	int refused;			/* 1 + rank of the member whose death is the reason why it has not;
					 * HDL_REFUSED_GONE; 0 */
	struct hdl_target *lock_next;	/* owner: members whose lock request waits, in their order */
	bool lock_exclusive, lock_waits;
	unsigned lock_breaks;		/* owner: breaks of the lock that were reported to the member */
};

/* A region that this process has attached. */
struct hdl_attached {
	struct hdl_attached *next;
	void *base;
	uint64_t size;
	struct hdl_mr *mr;
};

struct hdl_attrs;
struct hdl_win {
	struct hdl_object obj;		/* magic: set from creation to MPI_Win_free */
	int size, rank;
	struct hdl_target **target;	/* by rank; NULL: not addressed yet */
	bool open_all;			/* all members may be accessed: fence, lock_all */
	uint8_t epoch;			/* enum hdl_epoch */
	bool exposed;			/* between post and wait */
	uint8_t turns;			/* calls that polled nothing since the last turn of progress */
	bool dynamic;
	bool mapped;			/* every member has mapped the state block of every other */
	bool native;			/* ... and every member's memory that is in the fabric */
	bool asks_atomics;		/* this member's memory is registered for atomic requests, or there is none; and its
					 * hint asks for them */
	bool atomics;			/* the members agreed on the agent device (reach.h) */
	int agent_queues;		/* connected agent queues to members of this host */
	bool helped;			/* peers' operations need this process's progress (reach.h) */
	bool begun;			/* hdl_rma_helper_begin was called for this window */
	int flavor, model;		/* MPI_WIN_FLAVOR_*, MPI_WIN_UNIFIED */
	int locks;			/* targets that MPI_Win_lock has named */
	struct hdl_comm *comm;		/* a duplicate without a handle: the window's messages */
	struct hdl_win_record *record;	/* by rank */
	struct hdl_win_state *state;	/* this process's */
	void *base;
	MPI_Aint bytes;
	int disp_unit;			/* MPI_WIN_DISP_UNIT: the program reads it */
	MPI_Count disp_unit_c;
	void *memory;			/* allocated here, or NULL */
	bool memory_shared;		/* by hdl_tp_share, else by hdl_tp_alloc */
	bool state_shared;
	char *segment;			/* a shared window whose members share no fabric: mapped here; the records' places are
					 * offsets in it. NULL: the places are in the fabric */
	size_t segment_bytes;
	struct hdl_mr *mr;
	struct hdl_group *start, *post;	/* of the open epochs, with a reference; or NULL */
	bool start_nocheck, post_nocheck;
	struct hdl_attached *attached;
	void *region_tables;		/* owner: tables that readers may still read, linked by their first word */
	void *bounce;			/* acc.c: two buffers, for memory that is not mapped */
	/* owner, locks by message */
	struct hdl_target *lock_first, *lock_last;	/* requests that wait */
	int lock_shared;		/* holders */
	int lock_exclusive;		/* 1 + the holder's rank; 0: none */
	unsigned lock_breaks;		/* members that have died while they held the lock or waited for it */
	unsigned hints;
	long long granularity;		/* mpi_accumulate_granularity in bytes, on which all members agree; 0: none */
	MPI_Errhandler errhandler;
	struct hdl_attrs *attrs;
	struct hdl_win *next, **link;	/* all windows */
	uint64_t made_ticks, made_ns;	/* ticks() and monotonic_ns() at creation: the rate of ticks, for reports */
	char name[MPI_MAX_OBJECT_NAME];
};
/* Info keys (section 12.2.1; docs/one-sided.md says what each changes). */
enum { HDL_WIN_NO_LOCKS = 1, HDL_WIN_SAME_SIZE = 2, HDL_WIN_SAME_DISP_UNIT = 4, HDL_WIN_NONCONTIG = 8, HDL_WIN_SAME_OP = 16,
       HDL_WIN_ORDER_NONE = 32 };
/* In a record: peers of the member's host reach the device that updates its memory by agent queues (transport.h) only. */
#define HDL_WIN_AGENT_QUEUES 64

/* The least mpi_accumulate_granularity, in bytes, for which a hashed lock is taken once for many elements; a smaller one is
 * served by single elements. */
#define HDL_GRANULE_LEAST 256
/* The largest mpi_accumulate_granularity, in bytes and rounded down to a power of two, that asks for the agent device. */
#define HDL_GRANULE_ATOMIC 8

extern struct hdl_pool hdl_wins;
extern struct hdl_win *hdl_win_list;

static inline struct hdl_win *hdl_win_get(MPI_Win handle)
{
	return hdl_pool_find(&hdl_wins, handle, HDL_MAGIC_WIN, sizeof(struct hdl_win));
}

/* ---- win.c ----------------------------------------------------------------------------------------------------------- */

struct hdl_win_args {
	int flavor;
	void *base;
	MPI_Aint size;
	MPI_Count disp_unit;
	unsigned hints;
	long long granularity;		/* 0: not given */
	MPI_Errhandler errhandler;
};
/* Collective over comm, an intracommunicator. MPI_ERR_NO_MEM; MPI_ERR_RMA_SHARED: the members cannot share memory. */
int hdl_win_make(struct hdl_comm *comm, const struct hdl_win_args *args, struct hdl_win **out);
/* Starts the helper thread if the window needs one. Must be the last thing that the constructor does (helper.c). */
void hdl_rma_begun(struct hdl_win *w);
/* Collective. Waits for all members; the object is gone on return, also after an error. */
int hdl_win_end(struct hdl_win *w);
/* Returns the target of a rank, makes it if need be. NULL: no memory. Must: the rank is in range. */
struct hdl_target *hdl_target_make(struct hdl_win *w, int rank);
static inline struct hdl_target *hdl_target_of(struct hdl_win *w, int rank)
{
	struct hdl_target *t = w->target[rank];

	return likely(t != NULL) ? t : hdl_target_make(w, rank);
}
/* Whether all members are on this host. */
bool hdl_win_is_of_host(const struct hdl_win *w);
/* Whether this process and the member need agent queues (transport.h) to each other. */
bool hdl_win_is_agent_peer(const struct hdl_win *w, int rank);
/* Whether the member's process has failed, as far as this process knows; one or two loads while no process of the job has. */
static inline bool hdl_target_failed(const struct hdl_target *t)
{
	return unlikely(t->note->failed) || (unlikely(hdl_rt_ended()) && hdl_rt_has_ended(t->proc));
}
extern const struct hdl_ep_note hdl_rma_gone;	/* of a process that has failed */
/* Sets the reason, and returns MPI_ERR_PROC_ABORTED. */
int hdl_rma_dead(const struct hdl_win *w, int rank, const char *what);
int hdl_rma_no_memory(const char *what);
/* hdl_win_make's counterpart for MPI_Init and MPI_Finalize. */
int hdl_rma_init(void);
void hdl_rma_fini(void);
/* "window \"name\"" or "window #3 of 4 ranks"; in buf. */
const char *hdl_win_label(const struct hdl_win *w, char buf[static MPI_MAX_OBJECT_NAME + 16]);

/* ---- move.c ---------------------------------------------------------------------------------------------------------- */

/* The arguments of an operation; mpi/ has checked them but for the range. */
struct hdl_rma_args {
	void *buf;
	MPI_Count count;
	const struct hdl_type *type;
	MPI_Aint disp;
	MPI_Count target_count;
	const struct hdl_type *target_type;
};
/* The sum of an operation's parts for a request. */
struct hdl_rma_group {
	uint64_t parts;
	int error;
	struct hdl_req *req;
};
/* Checks the displacement. Returns MPI_ERR_DISP or MPI_ERR_RMA_RANGE. *offset: of the target buffer from the member's base. */
int hdl_rma_range(const struct hdl_win *w, const struct hdl_target *t, const struct hdl_rma_args *a, int64_t *offset);
/* g: NULL, or counts the parts of a request. */
int hdl_rma_put(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g);
int hdl_rma_get(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g);
/* A part of an operation has ended. class: an MPI error class. */
void hdl_rma_part_ended(struct hdl_target *t, struct hdl_rma_group *g, int class);
/* Returns the request of an operation. After the operation was begun: hdl_rma_group_seal. NULL: no memory. */
struct hdl_rma_group *hdl_rma_group_new(struct hdl_win *w);
/* rc: of the beginning of the operation. Returns rc; *req is NULL then, or the request. */
int hdl_rma_group_seal(struct hdl_rma_group *g, int rc, struct hdl_req **req);
/* Moves `bytes` between buf and the member's memory at `address` (the owner's) and returns when that is complete; the lock of
 * runtime/threads.h is not opened. */
int hdl_rma_move_now(struct hdl_win *w, struct hdl_target *t, bool put, uint64_t address, void *buf, size_t bytes);
/* Translates an errno of an operation of the transport. */
int hdl_rma_class(int err);

/* ---- regions.c ------------------------------------------------------------------------------------------------------- */

int hdl_win_attach(struct hdl_win *w, void *base, MPI_Aint size);
/* MPI_ERR_RMA_ATTACH: there is no such region. */
int hdl_win_detach(struct hdl_win *w, const void *base);
void hdl_regions_free(struct hdl_win *w);
void hdl_regions_drop(struct hdl_target *t);
/* Whether this process has attached all of [base, base + size). */
bool hdl_win_has(const struct hdl_win *w, uint64_t base, uint64_t size);
/* Finds the key of a region of a member that has [address, address + size). *offset: in the region. Returns MPI_ERR_RMA_RANGE if
 * there is none. Must: this thread has no hashed lock, since the lock of runtime/threads.h is opened while a new version of the
 * table waits for operations with keys of the former one. */
int hdl_region_find(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		    uint64_t *offset);
/* The same in the copy as it is: under a hashed lock. Must: hdl_region_find was called for the operation. */
int hdl_region_in_copy(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		       uint64_t *offset);

/* ---- agent.c --------------------------------------------------------------------------------------------------------- */

/* Accumulates (section 12.3.4). fetch: the old values go to (result, result_count, result_type). */
struct hdl_acc_args {
	struct hdl_rma_args at;
	MPI_Op op;
	bool fetch;
	void *result;
	MPI_Count result_count;
	const struct hdl_type *result_type;
};
int hdl_rma_accumulate(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, struct hdl_rma_group *g);
/* Section 12.3.4.4. The element is of a predefined type of `size` bytes. */
int hdl_rma_compare_and_swap(struct hdl_win *w, struct hdl_target *t, const void *origin, const void *compare, void *result,
			     const struct hdl_type *type, MPI_Aint disp);

/* ---- acc.c ----------------------------------------------------------------------------------------------------------- */

/* Carries an accumulate out by this process's CPU. compare: packed; NULL: no compare-and-swap. offset: of the target buffer from
 * the member's base. Must: the window is mapped; of a dynamic window the regions are known (hdl_region_find). */
int hdl_acc_by_cpu(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const struct hdl_type *base,
		   const char *compare, int64_t offset);
/* Whether the operation on elements of this predefined type is an addition of integers of 4 or 8 bytes. */
bool hdl_acc_adds(MPI_Op op, const struct hdl_type *base);
/* Updates n elements of a predefined type at an address here, if atomic instructions do and the operation is defined on the
 * type. Returns false: nothing was done. in NULL: MPI_NO_OP; out NULL: the old values are not wanted. */
bool hdl_acc_native(const struct hdl_target *t, MPI_Op op, const struct hdl_type *type, void *at, const void *in, void *out,
		    size_t n);
/* The same for a compare-and-swap. Must: the type is one of section 12.3.4.4. */
bool hdl_cas_native(const struct hdl_target *t, const struct hdl_type *type, void *at, const void *origin, const void *compare,
		    void *result);
/* Pieces of the target's memory that are one or more whole elements, in the order of the type map. */
struct hdl_acc_piece {
	uint64_t at;			/* the owner's address; msg.c: on the wire the offset from its base */
	uint64_t len;
};
/* Carries out an accumulate at this process's own memory, for a message: in[] packed, out NULL or the old values packed. */
void hdl_acc_here(const struct hdl_win *w, const struct hdl_acc_piece *piece, unsigned n, const struct hdl_type *base, MPI_Op op,
		  const void *in, const void *compare, void *out);

/* ---- msg.c ----------------------------------------------------------------------------------------------------------- */

int hdl_rma_msg_init(void);
/* Wakes the member if it sleeps in a wait. Must follow the store for which it waits, and a full fence. */
void hdl_rma_wake(struct hdl_win *w, struct hdl_target *t);
/* offset: of the target buffer from the member's base (hdl_rma_range). */
int hdl_rma_msg_accumulate(struct hdl_win *w, struct hdl_target *t, const struct hdl_acc_args *a, const void *compare,
			   int64_t offset, struct hdl_rma_group *g);
enum hdl_rma_sync { HDL_SYNC_POSTED, HDL_SYNC_COMPLETED, HDL_SYNC_LOCK, HDL_SYNC_LOCK_SHARED, HDL_SYNC_UNLOCK, HDL_SYNC_GRANTED,
		    HDL_SYNC_REFUSED, HDL_SYNC_GONE };
/* struct hdl_target, refused: the owner has freed the window, since a member has failed. */
#define HDL_REFUSED_GONE (-1)
/* Sends a message of synchronization, ordered behind all before. Returns 0 or a negative errno. */
int hdl_rma_msg_sync(struct hdl_win *w, struct hdl_target *t, enum hdl_rma_sync what, uint64_t value);
/* MPI_Win_free of this process ends though a member has failed: answers what other members still wait for. */
void hdl_rma_msg_gone(struct hdl_win *w);
void hdl_rma_msg_drop(struct hdl_target *t);	/* frees the state of messages at a target */
void hdl_rma_msg_fail(struct hdl_target *t);	/* the target's process has failed: ends its accumulates */

/* ---- locks.c --------------------------------------------------------------------------------------------------------- */

/* nocheck: MPI_MODE_NOCHECK. Must: held is HDL_HELD_NONE; a second thread that waits for the same target would share the
 * member's entry in the owner's queue. */
int hdl_win_lock(struct hdl_win *w, struct hdl_target *t, bool exclusive, bool nocheck);
/* Must follow the flush of the target. */
int hdl_win_unlock(struct hdl_win *w, struct hdl_target *t);
/* Owner, locks by message. */
void hdl_lock_asked(struct hdl_win *w, struct hdl_target *from, bool exclusive);
void hdl_lock_given_back(struct hdl_win *w, struct hdl_target *from);
void hdl_lock_lost(struct hdl_win *w, struct hdl_target *dead);

/* ---- sync.c ---------------------------------------------------------------------------------------------------------- */

int hdl_win_fence(struct hdl_win *w, int assert);
int hdl_win_post(struct hdl_win *w, struct hdl_group *group, int assert);
int hdl_win_start(struct hdl_win *w, struct hdl_group *group, int assert);
int hdl_win_complete(struct hdl_win *w);
/* flag NULL: waits. */
int hdl_win_wait(struct hdl_win *w, int *flag);
/* Waits until all operations of this process to the target are complete, and takes their error. */
int hdl_rma_flush(struct hdl_win *w, struct hdl_target *t);
int hdl_rma_flush_all(struct hdl_win *w);
int hdl_win_barrier(struct hdl_win *w);
/* For calls of MAPPED that a program may repeat until another process has written: now and then a turn of progress. */
static inline void hdl_rma_turn(struct hdl_win *w)
{
	if (unlikely(++w->turns >= 16)) {
		w->turns = 0;
		hdl_progress_test();
	}
}
/* Waits as hdl_wait_until, with `asleep` set, so that writers into this process's state block send wake-ups. */
void hdl_rma_wait(struct hdl_win *w, bool (*ready)(const void *arg), const void *arg);

/* ---- helper.c -------------------------------------------------------------------------------------------------------- */

/* Starts the helper thread for one more window. Must be the last thing that a call of MPI does: from here on the lock of
 * runtime/threads.h is in use, and a call that began without the lock goes on without it. So an attribute
 * callback of MPI_Comm_dup that makes a window must not start the thread (hdl_win_help in mpi/win.h). */
void hdl_rma_helper_begin(void);
/* Must follow hdl_rma_helper_begin once. Opens the lock while it waits for the thread. */
void hdl_rma_helper_end(void);

/* ---- report.c -------------------------------------------------------------------------------------------------------- */

/* Prints a line for each window (HEDDLE_REPORT_TRANSPORTS). */
void hdl_win_report(const struct hdl_win *w);
/* heddle_info --explain window: lanes and agents of windows whose ranks are on this host, or on several. */
void hdl_rma_explain(FILE *out, bool several_hosts);
/* Prints the holder of the lock for which this process waits, and since when: for hang reports. */
void hdl_rma_dump(FILE *out);
/* The lock for which this process waits; NULL: none. */
extern const struct hdl_win *hdl_rma_waits_win;
extern const struct hdl_target *hdl_rma_waits_target;

#endif
