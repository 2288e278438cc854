/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose progress the operations on a window need: pure functions over what the members exchange at creation.
 *
 * The owner of memory must make progress while it computes, so it has a helper thread, where
 *     - the window is not mapped: locks, accumulates and synchronization are messages
 *     - some member does not map the owner's memory and does not reach it by the device either: put, get, and the moves under a
 *       hashed lock are messages
 *     - some member's queue to the owner is connected at the first operation only: the owner has to answer the request
 *
 *     1. Over UD, rank 0 brings memory of MPI_Alloc_mem, rank 1 memory of malloc. Rank 0's puts to rank 1 are messages; rank 1's
 *        puts to rank 0 are stores
 *     2. Rank 0 knows that it has no queue to rank 1, and that says nothing of rank 0's memory: rank 1 has to have the helper.
 *        So the members exchange what each finds, and each looks at its own memory
 */
#ifndef HDL_RMA_REACH_H
#define HDL_RMA_REACH_H

#include <stdbool.h>

/* Ranks of a window whose queues are connected at creation: in a larger one each rank would make more connections than its
 * operations may ever use. */
#define HDL_CONNECT_MOST 64

/* What a member has found, exchanged as a byte. BY_MESSAGES: operations of this member on some other member's memory, of this
 * host, are or may begin with messages. */
enum { HDL_HAS_STATES = 1, HDL_HAS_MEMORIES = 2, HDL_BY_MESSAGES = 4 };

/* Whether the members connect their queues at creation. */
static inline bool hdl_win_connects(int size)
{
	return size <= HDL_CONNECT_MOST;
}

/* Whether this member's memory is moved by the device or by messages, at least for some other member. place: the memory is in
 * the fabric. all, any: what all members, and some member, have found. */
static inline bool hdl_win_is_far(bool dynamic, bool has_memory, bool place, unsigned all)
{
	return dynamic || (has_memory && !(place && all & HDL_HAS_MEMORIES));
}

/* Whether this member has a helper thread. far: hdl_win_is_far of its own memory. */
static inline bool hdl_win_helped(int size, bool far, unsigned all, unsigned any)
{
	if (size == 1)
		return false;
	return !(all & HDL_HAS_STATES) || (far && (any & HDL_BY_MESSAGES || !(all & HDL_HAS_MEMORIES)));
}

#endif
