/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose progress the operations on a window need, and whether the device carries accumulates out: pure functions over the
 * findings that the members exchange at creation.
 *
 * The owner of memory must make progress while its program computes, and so has a helper thread, where
 *     - the window is not mapped: locks, accumulates and synchronization are messages
 *     - some member does not map the owner's memory and does not reach it by the device either: put, get, and the moves under a
 *       hashed lock are messages
 *     - some member's queue to the owner is connected at the first operation only: the owner has to answer the request
 *
 *     1. Over UD, rank 0 brings memory of MPI_Alloc_mem, rank 1 memory of malloc. Rank 0's puts to rank 1 are messages; rank 1's
 *        puts to rank 0 are stores
 *     2. Rank 0 knows that it has no queue to rank 1, and that says nothing of rank 0's memory: rank 1 has to have the helper. So
 *        the members exchange their findings, and each checks its own memory
 */
#ifndef HDL_RMA_REACH_H
#define HDL_RMA_REACH_H

#include <stdbool.h>

/* Most ranks of a window whose queues are connected at creation: in a larger window each rank would make more connections than
 * its operations may ever use. */
#define HDL_CONNECT_MOST 64

/* Ways to memory that a member has found, exchanged as a byte. BY_MESSAGES: operations of this member on some other member's
 * memory, of this host, are or may begin with messages. ATOMICS: the member asks for the agent device, and its memory is
 * registered for that, or there is none. */
enum { HDL_HAS_STATES = 1, HDL_HAS_MEMORIES = 2, HDL_BY_MESSAGES = 4, HDL_HAS_ATOMICS = 8 };

/* Returns true if the members connect their queues at creation. */
static inline bool hdl_win_connects(int size)
{
	return size <= HDL_CONNECT_MOST;
}

/* A member's memory in a window. */
enum hdl_win_memory {
	HDL_MEMORY_NONE,		/* no byte */
	HDL_MEMORY_ARENA,		/* in the fabric, where other members may map the memory */
	HDL_MEMORY_PRIVATE,
	HDL_MEMORY_DYNAMIC,		/* attached to a window of MPI_Win_create_dynamic */
};

/* Returns true if this member's memory is moved by the device or by messages, at least for some other member. all, any: findings
 * of all members, and of at least one. */
static inline bool hdl_win_is_far(enum hdl_win_memory mine, unsigned all)
{
	return mine == HDL_MEMORY_ARENA ? !(all & HDL_HAS_MEMORIES) : mine != HDL_MEMORY_NONE;
}

/* Returns true if this member has a helper thread. far: hdl_win_is_far of its own memory. */
static inline bool hdl_win_helped(int size, bool far, unsigned all, unsigned any)
{
	if (size == 1)
		return false;
	return !(all & HDL_HAS_STATES) || (far && (any & HDL_BY_MESSAGES || !(all & HDL_HAS_MEMORIES)));
}

/*
 * Whether the device updates aligned elements of 8 bytes in memory that the members' CPUs do not (struct hdl_target, native).
 * agreed: all members gave the same mpi_accumulate_granularity. One member without HDL_HAS_ATOMICS is enough for no:
 *
 *     1. Rank 0's memory is registered for atomic requests, rank 1's begins at an odd address, and is not
 *     2. Rank 2 may have no key by which the device updates rank 1's memory, and would need another agent for it
 *     3. Whether that agent is the cpu or the handler is known only behind the exchange. So one exchange decides for all targets
 */
static inline bool hdl_win_atomics(int size, bool agreed, unsigned all)
{
	return size > 1 && agreed && all & HDL_HAS_ATOMICS;
}

#endif
