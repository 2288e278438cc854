/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/rma: one-sided communication (MPI-5.0 chapter 12). Above p2p, transport, datatype and collectives, below mpi.
 *
 *      MPI_Put ── epoch check ── target ─┬─ MAPPED    stores of this process            (move.c)
 *                                        ├─ DEVICE    RDMA WRITE: hdl_put, of an operation per run
 *                                        └─ HANDLER   active messages, which the target's progress carries out   (acc_target.c)
 *
 * The files, lowest first; a file calls those above it in this list only (tests/unit/layers.sh):
 *
 *     error.c       reasons and error classes           move.c     put and get
 *     target.c      members and the lanes to them       acc.c      accumulates by the origin's CPU
 *     request.c     requests of operations              agent.c    accumulates: agents, those by the device
 *     element.c     operations on elements              locks.c    locks of members, mapped and by message
 *     message.c     active messages                     sync.c     fence, post, start, complete, wait
 *     control.c     WAKE and SYNC: waits, counters      report.c   the report, and the hang report's part
 *     flush.c       completion at the targets           helper.c   progress for a process that computes
 *     regions.c     regions of dynamic windows          win.c      windows: creation, records, the end
 *     acc_origin.c  accumulates by messages: origin
 *     acc_target.c  accumulates by messages: target
 *
 *     inside: target.h, operation.h, element.h, message.h, sync.h; side.h: buffers of the origin
 *     pure: lock.h, epoch.h, hashed.h, reach.h
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

/* How put and get reach a target: fixed when the target is first addressed. */
enum hdl_rma_lane { HDL_LANE_NONE, HDL_LANE_MAPPED, HDL_LANE_DEVICE, HDL_LANE_HANDLER };
/* A lock that this process holds at a target, from HDL_HELD_SHARED on. AWAITED: a thread waits in MPI_Win_lock with the library's
 * lock open. NOCHECK: MPI_MODE_NOCHECK, nothing was taken. */
enum hdl_held { HDL_HELD_NONE, HDL_HELD_AWAITED, HDL_HELD_SHARED, HDL_HELD_EXCLUSIVE, HDL_HELD_NOCHECK };

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

struct hdl_attached;
struct hdl_attrs;
struct hdl_rma_in;
struct hdl_rma_out;
struct hdl_win_region;
struct hdl_win_state;

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
	/* messages (acc_origin.c, acc_target.c), locks (locks.c) */
	struct hdl_rma_out *out, *out_last;	/* accumulates of this process that are not complete, in their order */
	struct hdl_rma_in *in, *in_last;	/* those of the member that wait for their data */
	int messages;			/* pieces of accumulates under way to the member */
	bool pumping, pump_failed;	/* pump is at work; the member has failed meanwhile */
	uint16_t lock_state;		/* hdl_lock_state of the lock word as this process knows it; its breaks were reported */
	bool granted;			/* the owner has granted the lock */
	int refused;			/* why the lock was not granted: 1 + rank of the member that has died; HDL_REFUSED_GONE;
					 * 0: granted, or no answer yet */
	struct hdl_target *lock_next;	/* owner: members whose lock request waits, in their order */
	bool lock_exclusive, lock_waits;
	unsigned lock_breaks;		/* owner: breaks of the lock that were reported to the member */
};

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
	char *segment;			/* segment of a shared window whose members share no fabric, mapped here; the records'
					 * places are offsets in the segment. NULL: the places are in the fabric */
	size_t segment_bytes;
	struct hdl_mr *mr;
	struct hdl_group *start, *post;	/* of the open epochs, with a reference; NULL: none is open, or a thread ends it */
	bool start_nocheck, post_nocheck;
	struct hdl_attached *attached;
	void *region_tables;		/* owner: tables that readers may still read, linked by their first word */
	void *bounce;			/* acc.c: buffers for memory that is not mapped; NULL: none, or a call uses them */
	/* owner, locks by message */
	struct hdl_target *lock_first, *lock_last;	/* requests that wait */
	int lock_shared;		/* holders */
	int lock_exclusive;		/* 1 + the holder's rank; 0: none */
	unsigned lock_breaks;		/* members that have died as holders of the lock or with a ticket */
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
	long align;			/* bytes, a power of two, of memory that the window allocates; 0: any */
	int error;			/* class, with hdl_reason_set: this member's arguments are refused; MPI_SUCCESS */
	MPI_Errhandler errhandler;
};
/* Collective over comm, an intracommunicator: also with args->error, and then no member gets a window. MPI_ERR_NO_MEM;
 * MPI_ERR_RMA_SHARED: the members cannot share memory. */
int hdl_win_make(struct hdl_comm *comm, const struct hdl_win_args *args, struct hdl_win **out);
/* Starts the helper thread if the window needs one. Must be the last thing that the constructor does (helper.c). */
void hdl_rma_begun(struct hdl_win *w);
/* Collective. Waits for all members; the object is gone on return, also after an error. */
int hdl_win_end(struct hdl_win *w);
/* hdl_win_make's counterpart for MPI_Init and MPI_Finalize. */
int hdl_rma_init(void);
void hdl_rma_fini(void);

/* ---- target.c, error.c ----------------------------------------------------------------------------------------------- */

/* Returns the target of a rank, makes it if need be. NULL: no memory. Must: the rank is in range. */
struct hdl_target *hdl_target_make(struct hdl_win *w, int rank);
static inline struct hdl_target *hdl_target_of(struct hdl_win *w, int rank)
{
	struct hdl_target *t = w->target[rank];

	return likely(t != NULL) ? t : hdl_target_make(w, rank);
}
/* Returns true if the member's process has failed, as far as this process knows; one or two loads while no process of the job
 * has. */
static inline bool hdl_target_failed(const struct hdl_target *t)
{
	return unlikely(t->note->failed) || (unlikely(hdl_rt_ended()) && hdl_rt_has_ended(t->proc));
}
int hdl_rma_no_memory(const char *what);
/* "window \"name\"" or "window #3 of 4 ranks"; in buf. */
const char *hdl_win_label(const struct hdl_win *w, char buf[static MPI_MAX_OBJECT_NAME + 16]);

/* ---- move.c, request.c ----------------------------------------------------------------------------------------------- */

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
/* g: NULL, or counts the parts of a request. */
int hdl_rma_put(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g);
int hdl_rma_get(struct hdl_win *w, struct hdl_target *t, const struct hdl_rma_args *a, struct hdl_rma_group *g);
/* Returns the request of an operation. After the operation was begun: hdl_rma_group_seal. NULL: no memory. */
struct hdl_rma_group *hdl_rma_group_new(struct hdl_win *w);
/* rc: of the beginning of the operation. Returns rc; *req is NULL then, or the request. */
int hdl_rma_group_seal(struct hdl_rma_group *g, int rc, struct hdl_req **req);

/* ---- regions.c ------------------------------------------------------------------------------------------------------- */

int hdl_win_attach(struct hdl_win *w, void *base, MPI_Aint size);
/* MPI_ERR_RMA_ATTACH: there is no such region. */
int hdl_win_detach(struct hdl_win *w, const void *base);

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

/* Updates n elements of a predefined type at an address here, if atomic instructions do and the operation is defined on the
 * type. Returns false: nothing was done. in NULL: MPI_NO_OP; out NULL: the old values are not wanted. */
bool hdl_acc_native(const struct hdl_target *t, MPI_Op op, const struct hdl_type *type, void *at, const void *in, void *out,
		    size_t n);
/* The same for a compare-and-swap. Must: the type is one of section 12.3.4.4. */
bool hdl_cas_native(const struct hdl_target *t, const struct hdl_type *type, void *at, const void *origin, const void *compare,
		    void *result);

/* ---- locks.c --------------------------------------------------------------------------------------------------------- */

/* lock_type, assert: of MPI_Win_lock. Must: held is HDL_HELD_NONE; a second thread that waits for the same target would share the
 * member's entry in the owner's queue. */
int hdl_win_lock(struct hdl_win *w, struct hdl_target *t, int lock_type, int assert);
/* Must follow the flush of the target. */
int hdl_win_unlock(struct hdl_win *w, struct hdl_target *t);

/* ---- flush.c --------------------------------------------------------------------------------------------------------- */

/* Waits until all operations of this process to the target are complete, and takes their error. */
int hdl_rma_flush(struct hdl_win *w, struct hdl_target *t);
int hdl_rma_flush_all(struct hdl_win *w);

/* ---- sync.c ---------------------------------------------------------------------------------------------------------- */

int hdl_win_fence(struct hdl_win *w, int assert);
int hdl_win_post(struct hdl_win *w, struct hdl_group *group, int assert);
int hdl_win_start(struct hdl_win *w, struct hdl_group *group, int assert);
int hdl_win_complete(struct hdl_win *w);
/* flag NULL: waits. */
int hdl_win_wait(struct hdl_win *w, int *flag);
/* For calls of MAPPED that a program may repeat until another process has written: now and then a turn of progress. */
static inline void hdl_rma_turn(struct hdl_win *w)
{
	if (unlikely(++w->turns >= 16)) {
		w->turns = 0;
		hdl_progress_test();
	}
}

/* ---- report.c -------------------------------------------------------------------------------------------------------- */

/* heddle_info --explain window: lanes and agents of windows whose ranks are on this host, or on several. */
void hdl_rma_explain(FILE *out, bool several_hosts);

#endif
