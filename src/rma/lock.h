/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock word of a window's member, which MPI_Win_lock of all members takes: fair, shared or exclusive. Pure functions; callers
 * replace the word by compare-and-swap.
 *
 *     63      48 47        33   32    31      16 15       0
 *     | users  | generation | broken |   read   |  write  |
 *
 * users: the next ticket. A process draws a ticket and enters in the order of tickets:
 *
 *     exclusive   when `write` is the ticket: all earlier holders have released
 *     shared      when `read` is the ticket; the entry increments `read`, so that the next ticket may enter, too, if shared
 *
 * The release of a shared lock increments `write`, that of an exclusive one `write` and `read`. The lock is free when write, read
 * and users are equal. Tickets are 16 bits and wrap around: a window has fewer than 65,536 members on one host, and a member
 * waits with one ticket at a time.
 *
 * No process overtakes, so readers do not starve a writer:
 *     1. A and B hold the lock shared: write 0, read 2, users 2
 *     2. C draws 2 for an exclusive lock and waits for write == 2; D draws 3, shared, and waits for read == 3
 *     3. A and B release: write 2, and C enters. C releases: write 3, read 3, and D enters
 *
 * broken: a process that had drawn a ticket, or was about to, has ended. No process draws a ticket of a broken lock, those
 * that wait give up, and when no living process has to do with the lock any more (struct hdl_win_member, holds) the word is
 * replaced by a free one of the next generation, which mends the lock. The generation tells a process that the lock broke
 * since it last drew a ticket.
 */
#ifndef HDL_RMA_LOCK_H
#define HDL_RMA_LOCK_H

#include <stdbool.h>
#include <stdint.h>

static inline uint16_t hdl_lock_write(uint64_t word)
{
	return (uint16_t)word;
}

static inline uint16_t hdl_lock_read(uint64_t word)
{
	return (uint16_t)(word >> 16);
}

static inline uint16_t hdl_lock_users(uint64_t word)
{
	return (uint16_t)(word >> 48);
}

#define HDL_LOCK_BROKEN (1ull << 32)

/* The generation with the broken flag as bit 0. */
static inline uint16_t hdl_lock_state(uint64_t word)
{
	return (uint16_t)(word >> 32);
}

static inline uint64_t hdl_lock_word(uint16_t write, uint16_t read, uint16_t state, uint16_t users)
{
	return (uint64_t)users << 48 | (uint64_t)state << 32 | (uint64_t)read << 16 | write;
}

/* The state of the generation after that of a state, not broken. */
static inline uint16_t hdl_lock_next(uint16_t state)
{
	return (uint16_t)((state | 1u) + 1u);
}

/* The word after the lock was mended: free. */
static inline uint64_t hdl_lock_mended(uint64_t word)
{
	return hdl_lock_word(0, 0, hdl_lock_next(hdl_lock_state(word)), 0);
}

/* Returns true if the holder of a ticket may enter. */
static inline bool hdl_lock_admits(uint64_t word, uint16_t ticket, bool exclusive)
{
	return ticket == (exclusive ? hdl_lock_write(word) : hdl_lock_read(word));
}

/* The word after the entry of an admitted ticket. */
static inline uint64_t hdl_lock_entered(uint64_t word, bool exclusive)
{
	return exclusive ? word : hdl_lock_word(hdl_lock_write(word), (uint16_t)(hdl_lock_read(word) + 1), hdl_lock_state(word),
						hdl_lock_users(word));
}

/* The word after a ticket was drawn: *ticket. *entered: the ticket is admitted at once, and the word says so. */
static inline uint64_t hdl_lock_drawn(uint64_t word, bool exclusive, uint16_t *ticket, bool *entered)
{
	uint64_t after = hdl_lock_word(hdl_lock_write(word), hdl_lock_read(word), hdl_lock_state(word),
				       (uint16_t)(hdl_lock_users(word) + 1));

	*ticket = hdl_lock_users(word);
	*entered = hdl_lock_admits(word, *ticket, exclusive);
	return *entered ? hdl_lock_entered(after, exclusive) : after;
}

static inline uint64_t hdl_lock_released(uint64_t word, bool exclusive)
{
	return hdl_lock_word((uint16_t)(hdl_lock_write(word) + 1), (uint16_t)(hdl_lock_read(word) + exclusive),
			     hdl_lock_state(word), hdl_lock_users(word));
}

/*
 * A member's `holds` (struct hdl_win_member). 0: the member has no ticket and draws none; else
 *
 *     63          18 17     2 1     0
 *     |    since    | state | wants |
 *
 * since: ticks() >> HDL_HOLDS_SHIFT. wants: enum hdl_wants. state: hdl_lock_state of the word of which the member has a ticket,
 * or is about to draw one. A dead member whose state is of an earlier generation has no ticket of the present word:
 *     1. A dies with a ticket; B and C find the lock broken; B mends it
 *     2. D draws a ticket of the new word and dies. C, which still means to mend the old word, must not take D for a part of
 *        that: so no process clears the `holds` of another one, and the state tells that of A from that of D
 */
#define HDL_HOLDS_SHIFT 10u
static inline uint64_t hdl_lock_holds(uint64_t now, uint16_t state, unsigned wants)
{
	return now >> HDL_HOLDS_SHIFT << 18 | (uint64_t)state << 2 | wants;
}

/* Returns true if a member that has ended keeps tickets of a word with this state from being admitted. */
static inline bool hdl_lock_blocks(uint64_t holds, uint16_t state)
{
	return holds && (uint16_t)(holds >> 2) == state;
}

/* Returns true if some process holds the lock or waits for it. */
static inline bool hdl_lock_in_use(uint64_t word)
{
	return hdl_lock_write(word) != hdl_lock_users(word);
}

/* Returns true if some process waits. */
static inline bool hdl_lock_has_waiters(uint64_t word)
{
	return hdl_lock_read(word) != hdl_lock_users(word);
}

#endif
