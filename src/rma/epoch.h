/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs of a window at one process (MPI-5.0 section 12.5): a pure machine. Calls that the state does not allow are
 * MPI_ERR_RMA_SYNC.
 *
 *                       fence                         start
 *     FENCE ◀──────────────────────────── NONE ──────────────────▶ STARTED ── complete ──▶ NONE
 *       │ operation    fence(NOSUCCEED)   │  │      lock
 *       ▼              ──────────────▶    │  └──────────────────▶ LOCKED ── the last unlock ──▶ NONE
 *     FENCE_USED                          │         lock_all
 *                                         └─────────────────────▶ LOCKED_ALL ── unlock_all ──▶ NONE
 *
 * WAITS: a thread is in a call that begins or ends an epoch, and waits with the library's lock open. Post and wait alone are
 * allowed to the other threads. Without it:
 *
 *     1. Thread A is in MPI_Win_lock_all, and waits for rank 1's lock; the state is NONE
 *     2. Thread B may open another epoch, or free the window under A
 *
 * FENCE allows the same calls as NONE: whether a fence begins an epoch shows by the first operation. FENCE_USED allows operations
 * and fences only. The exposure epoch (post, wait) is a flag beside the state: no fence is allowed during it, and no post in
 * FENCE_USED.
 */
#ifndef HDL_RMA_EPOCH_H
#define HDL_RMA_EPOCH_H

#include <stdbool.h>

enum hdl_epoch { HDL_EPOCH_NONE, HDL_EPOCH_FENCE, HDL_EPOCH_FENCE_USED, HDL_EPOCH_STARTED, HDL_EPOCH_LOCKED, HDL_EPOCH_LOCKED_ALL,
		 HDL_EPOCH_WAITS, HDL_EPOCHS };
/* The calls. FENCE_LAST: fence with MPI_MODE_NOSUCCEED. UNLOCK_LAST: of the last target that is locked. OPERATION: put, get or
 * accumulate. REQUEST: their request forms. FLUSH: flush, flush_local and their forms for all targets. */
enum hdl_epoch_call { HDL_CALL_FENCE, HDL_CALL_FENCE_LAST, HDL_CALL_START, HDL_CALL_COMPLETE, HDL_CALL_LOCK, HDL_CALL_UNLOCK,
		      HDL_CALL_UNLOCK_LAST, HDL_CALL_LOCK_ALL, HDL_CALL_UNLOCK_ALL, HDL_CALL_POST, HDL_CALL_WAIT,
		      HDL_CALL_OPERATION, HDL_CALL_REQUEST, HDL_CALL_FLUSH, HDL_CALL_FREE, HDL_CALLS };

/* Returns the state after the call; -1: not allowed. exposed: an exposure epoch of post is open; the caller sets and clears that
 * flag. */
static inline int hdl_epoch_next(enum hdl_epoch epoch, bool exposed, enum hdl_epoch_call call)
{
	bool none = epoch == HDL_EPOCH_NONE || epoch == HDL_EPOCH_FENCE;
	bool passive = epoch == HDL_EPOCH_LOCKED || epoch == HDL_EPOCH_LOCKED_ALL;

	switch (call) {
	case HDL_CALL_FENCE:
		return !exposed && (none || epoch == HDL_EPOCH_FENCE_USED) ? HDL_EPOCH_FENCE : -1;
	case HDL_CALL_FENCE_LAST:
		return !exposed && (none || epoch == HDL_EPOCH_FENCE_USED) ? HDL_EPOCH_NONE : -1;
	case HDL_CALL_START:
		return none ? HDL_EPOCH_STARTED : -1;
	case HDL_CALL_COMPLETE:
		return epoch == HDL_EPOCH_STARTED ? HDL_EPOCH_NONE : -1;
	case HDL_CALL_LOCK:
		return none || epoch == HDL_EPOCH_LOCKED ? HDL_EPOCH_LOCKED : -1;
	case HDL_CALL_UNLOCK:
		return epoch == HDL_EPOCH_LOCKED ? HDL_EPOCH_LOCKED : -1;
	case HDL_CALL_UNLOCK_LAST:
		return epoch == HDL_EPOCH_LOCKED ? HDL_EPOCH_NONE : -1;
	case HDL_CALL_LOCK_ALL:
		return none ? HDL_EPOCH_LOCKED_ALL : -1;
	case HDL_CALL_UNLOCK_ALL:
		return epoch == HDL_EPOCH_LOCKED_ALL ? HDL_EPOCH_NONE : -1;
	case HDL_CALL_POST:
		return exposed || epoch == HDL_EPOCH_FENCE_USED ? -1 : epoch == HDL_EPOCH_FENCE ? HDL_EPOCH_NONE : (int)epoch;
	case HDL_CALL_WAIT:
		return exposed ? (int)epoch : -1;
	case HDL_CALL_OPERATION:
		if (epoch == HDL_EPOCH_NONE || epoch == HDL_EPOCH_WAITS)
			return -1;
		return epoch == HDL_EPOCH_FENCE ? HDL_EPOCH_FENCE_USED : (int)epoch;
	case HDL_CALL_REQUEST:
	case HDL_CALL_FLUSH:
		return passive ? (int)epoch : -1;
	case HDL_CALL_FREE:
		return !exposed && none ? HDL_EPOCH_NONE : -1;
	case HDL_CALLS:
		break;
	}
	return -1;
}

/* Returns the state of the epochs that forbids a call, for error texts. */
static inline const char *hdl_epoch_text(enum hdl_epoch epoch, bool exposed)
{
	static const char *const text[HDL_EPOCHS] = {
		[HDL_EPOCH_NONE] =
			"no epoch is open (MPI_Win_fence, MPI_Win_start, MPI_Win_lock and MPI_Win_lock_all open one)",
		[HDL_EPOCH_FENCE] = "the epoch is that of MPI_Win_fence",
		[HDL_EPOCH_FENCE_USED] =
			"the epoch of MPI_Win_fence is open, and there were operations: MPI_Win_fence must end it",
		[HDL_EPOCH_STARTED] = "an epoch of MPI_Win_start is open",
		[HDL_EPOCH_LOCKED] = "an epoch of MPI_Win_lock is open",
		[HDL_EPOCH_LOCKED_ALL] = "an epoch of MPI_Win_lock_all is open",
		[HDL_EPOCH_WAITS] = "another thread is in a call that opens or closes an epoch",
	};

	return exposed && (epoch == HDL_EPOCH_NONE || epoch == HDL_EPOCH_FENCE) ? "an exposure epoch of MPI_Win_post is open" :
										  text[epoch];
}

#endif
