/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lock word of a window's member, which MPI_Win_lock of all members takes: fair, shared or exclusive. Pure functions; callers
 * replace the word by compare-and-swap.
 *
 *     63      48 47      32 31      16 15       0
 *     | users  |  unused  |   read   |  write  |
 *
 * users: the next ticket. A process draws a ticket and enters in the order of tickets:
 *
 *     exclusive   when `write` is the ticket: all earlier holders have released
 *     shared      when `read` is the ticket; the entry increments `read`, so that the next ticket may enter, too, if shared
 *
 * The release of a shared lock increments `write`, that of an exclusive one `write` and `read`. The lock is free when write, read
 * and users are equal. Tickets are 16 bits and wrap around: a window has fewer than 65,536 members on one host, and a member waits
 * with one ticket at a time.
 *
 * No process overtakes, so readers do not starve a writer:
 *     1. A and B hold the lock shared: write 0, read 2, users 2
 *     2. C draws 2 for an exclusive lock and waits for write == 2; D draws 3, shared, and waits for read == 3
 *     3. A and B release: write 2, and C enters. C releases: write 3, read 3, and D enters
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

static inline uint64_t hdl_lock_word(uint16_t write, uint16_t read, uint16_t users)
{
	return (uint64_t)users << 48 | (uint64_t)read << 16 | write;
}

/* Whether the holder of a ticket may enter. */
static inline bool hdl_lock_admits(uint64_t word, uint16_t ticket, bool exclusive)
{
	return ticket == (exclusive ? hdl_lock_write(word) : hdl_lock_read(word));
}

/* The word after the entry of an admitted ticket. */
static inline uint64_t hdl_lock_entered(uint64_t word, bool exclusive)
{
	return exclusive ? word : hdl_lock_word(hdl_lock_write(word), (uint16_t)(hdl_lock_read(word) + 1), hdl_lock_users(word));
}

/* The word after a ticket was drawn: *ticket. *entered: the ticket is admitted at once, and the word says so. */
static inline uint64_t hdl_lock_drawn(uint64_t word, bool exclusive, uint16_t *ticket, bool *entered)
{
	uint64_t after = hdl_lock_word(hdl_lock_write(word), hdl_lock_read(word), (uint16_t)(hdl_lock_users(word) + 1));

	*ticket = hdl_lock_users(word);
	*entered = hdl_lock_admits(word, *ticket, exclusive);
	return *entered ? hdl_lock_entered(after, exclusive) : after;
}

static inline uint64_t hdl_lock_released(uint64_t word, bool exclusive)
{
	return hdl_lock_word((uint16_t)(hdl_lock_write(word) + 1), (uint16_t)(hdl_lock_read(word) + exclusive), hdl_lock_users(word));
}

/* Whether some process holds the lock or waits for it. */
static inline bool hdl_lock_in_use(uint64_t word)
{
	return hdl_lock_write(word) != hdl_lock_users(word);
}

/* Whether some process waits. */
static inline bool hdl_lock_has_waiters(uint64_t word)
{
	return hdl_lock_read(word) != hdl_lock_users(word);
}

#endif
