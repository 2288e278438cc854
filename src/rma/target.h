/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/rma: members of a window. The state block of a member, its regions, and this process's way to them
 * (error.c, target.c, regions.c).
 */
#ifndef HDL_RMA_TARGET_H
#define HDL_RMA_TARGET_H

#include "rma/hashed.h"
#include "rma/lock.h"
#include "rma/rma.h"

/* State of a member towards a lock, in `holds` (lock.h). */
enum hdl_wants { HDL_WANTS_NONE, HDL_WANTS, HDL_HAS_SHARED, HDL_HAS_EXCLUSIVE };

/*
 * The state block of a member: in fabric memory where the device has some, so that every member of the window reads and writes
 * it; else only the member itself does, for messages. Writers are named at each field.
 */
struct hdl_win_state {
	_Alignas(64) uint64_t nonce;	/* written once by the owner: proves that a peer has mapped this block and
					 * no other memory */
	uint32_t asleep;		/* waits of the owner for which a writer must send a wake-up (hdl_rma_wake); owner */
	uint32_t broken;		/* 1 + rank of the member whose death has broken `lock` last; 0: never broken. Writer: any
					 * member */
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

/* A region of a dynamic window, in the owner's table. */
struct hdl_win_region {
	uint64_t base, size;
	uint64_t key_len;
	char key[HDL_RKEY_MAX];
};

/* A region that this process has attached. */
struct hdl_attached {
	struct hdl_attached *next;
	void *base;
	uint64_t size;
	struct hdl_mr *mr;
};

/* In a record: peers of the member's host reach the device that updates its memory by agent queues (transport.h) only. */
#define HDL_WIN_AGENT_QUEUES 64

/* The least mpi_accumulate_granularity, in bytes, for which a hashed lock is taken once for many elements; a smaller one is
 * served by single elements. */
#define HDL_GRANULE_LEAST 256
/* The largest mpi_accumulate_granularity, in bytes and rounded down to a power of two, that asks for the agent device. */
#define HDL_GRANULE_ATOMIC 8

/* ---- error.c --------------------------------------------------------------------------------------------------------- */

/* Sets the reason, and returns MPI_ERR_PROC_ABORTED. */
int hdl_rma_dead(const struct hdl_win *w, int rank, const char *what);
/* Translates an errno of an operation of the transport. */
int hdl_rma_class(int err);

/* ---- target.c -------------------------------------------------------------------------------------------------------- */

extern const struct hdl_ep_note hdl_rma_gone;	/* of a process that has failed */
/* Returns true if a member is on this host. */
bool hdl_win_is_local(const struct hdl_win *w, int rank);
/* Returns true if all members are on this host. */
bool hdl_win_is_of_host(const struct hdl_win *w);
/* Returns true if this process needs an agent queue (transport.h) to the member. */
bool hdl_win_is_agent_peer(const struct hdl_win *w, int rank);
/* Returns true if the process of a member has ended, as far as this process knows; changes nothing. */
bool hdl_win_has_ended(const struct hdl_win *w, int rank);
/*
 * Sets what depends on the members' agreement. Returns false without memory. For a target that a message of the member has made
 * before this process has seen the agreement, again behind it:
 *
 *     1. Rank 0 has the findings of all members, and asks rank 1 for a lock
 *     2. Rank 1, which still waits for rank 2's finding, makes the target of rank 0 for the lock: w->atomics is not set
 *     3. Rank 1's accumulates to rank 0 would be messages to the handler, those of rank 2 atomic requests of the device
 */
bool hdl_target_settle(struct hdl_win *w, struct hdl_target *t);
/* Returns the state block of a member as mapped here; NULL: this process cannot reach it. */
struct hdl_win_state *hdl_win_state_of(const struct hdl_win *w, int rank);
/* Returns the address here of a member's memory; NULL: not mapped. */
char *hdl_win_memory_of(const struct hdl_win *w, int rank);

/* ---- regions.c ------------------------------------------------------------------------------------------------------- */

void hdl_regions_free(struct hdl_win *w);
void hdl_regions_drop(struct hdl_target *t);
/* Returns true if this process has attached all of [base, base + size). */
bool hdl_win_has(const struct hdl_win *w, uint64_t base, uint64_t size);
/* Finds the key of a region of a member that has [address, address + size). *offset: in the region. Returns MPI_ERR_RMA_RANGE if
 * there is none. Must: this thread has no hashed lock, since a new version of the table waits for operations with keys of the
 * former one. */
int hdl_region_find(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		    uint64_t *offset);
/* The same in the present copy of the regions: under a hashed lock. Must: hdl_region_find was called for the operation. */
int hdl_region_in_copy(struct hdl_win *w, struct hdl_target *t, uint64_t address, uint64_t size, struct hdl_rkey **key,
		       uint64_t *offset);

#endif
