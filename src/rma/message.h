/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/rma: active messages of windows.
 *
 *     HDL_AM_WAKE      control.c      ends a sleep of the receiver: a store into its state block was made (mapped windows)
 *     HDL_AM_SYNC      control.c      posted, completed, lock, unlock, granted: windows whose members do not map each other's
 *                                     state blocks
 *     HDL_AM_ACC       acc_origin.c   a piece of an accumulate: whole elements; the target's progress carries it out
 *     HDL_AM_RESULT    acc_target.c   the answer to ACC, with the old values if they were asked for
 */
#ifndef HDL_RMA_MESSAGE_H
#define HDL_RMA_MESSAGE_H

#include "rma/target.h"

/* Handlers' numbers. Those below HDL_AM_OWN are the transport's, the next 16 are p2p's (p2p/partitioned.h). */
enum { HDL_AM_WAKE = HDL_AM_OWN + 16, HDL_AM_SYNC, HDL_AM_ACC, HDL_AM_RESULT };

#define HDL_PIECE_BYTES	8192u		/* data of a message, at most (and one element) */
#define HDL_PIECE_RUNS	256u

/* The head of ACC. The payload: the runs, the data, the value to compare with. */
struct hdl_acc_head {
	uint64_t window, cookie;	/* cookie: the origin's struct hdl_rma_out */
	uint64_t bytes;			/* packed bytes of the elements */
	int32_t member;
	uint32_t runs;
	uint32_t op, type;		/* handles of predefined objects, which are numbers of the ABI */
	uint8_t has_data, has_compare, fetch, bytewise;
	uint32_t nonce;			/* the lower half of that of the receiver's state block */
};
/* The head of RESULT. The payload: the old values. */
struct hdl_result_head {
	uint64_t window, cookie, bytes;
	int32_t error;
	uint32_t reserved;
};
/* A run of the target's memory in ACC. */
struct hdl_acc_run {
	uint64_t offset, len;		/* offset: from the target's base; dynamic: address */
};

/* ---- message.c ------------------------------------------------------------------------------------------------------- */

/* A message that leaves. */
struct hdl_msg {
	struct hdl_am_send am;
	char data[];
};

/* Returns a message with room for so many bytes; hdl_msg_send ends its life. NULL: no memory. */
struct hdl_msg *hdl_msg_new(size_t bytes);
/* Sends a message: flags as hdl_am_send. Ownership: of m passes, also if the call fails. Returns 0 or a negative errno. */
int hdl_msg_send(struct hdl_msg *m, struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len,
		 size_t bytes);
/* Returns the window that a message names, if the sender is that member of it. NULL: reported. */
struct hdl_win *hdl_msg_window(uint64_t window, int member, const struct hdl_am *am);

/* ---- control.c ------------------------------------------------------------------------------------------------------- */

/* Locks by message, at the owner: locks.c, above control.c, has the table. */
struct hdl_lock_owner {
	void (*asked)(struct hdl_win *w, struct hdl_target *from, bool exclusive);
	void (*given_back)(struct hdl_win *w, struct hdl_target *from);
};
/* Registers the handlers of WAKE and SYNC, and the table that serves HDL_SYNC_LOCK, HDL_SYNC_LOCK_SHARED and HDL_SYNC_UNLOCK.
 * Returns 0 or a negative errno. */
int hdl_control_init(const struct hdl_lock_owner *locks);
/* Wakes the member if the member sleeps in a wait. Must follow the store for which the member waits, and a full fence. */
void hdl_rma_wake(struct hdl_win *w, struct hdl_target *t);
/* Wakes all other members that sleep in a wait. Must: as hdl_rma_wake; the members map each other's state blocks. */
void hdl_rma_wake_all(struct hdl_win *w);
/* Waits as hdl_wait_until, with `asleep` set, so that writers into this process's state block send wake-ups. */
void hdl_rma_wait(struct hdl_win *w, bool (*ready)(const void *arg), const void *arg);
enum hdl_rma_sync { HDL_SYNC_POSTED, HDL_SYNC_COMPLETED, HDL_SYNC_LOCK, HDL_SYNC_LOCK_SHARED, HDL_SYNC_UNLOCK, HDL_SYNC_GRANTED,
		    HDL_SYNC_REFUSED, HDL_SYNC_GONE };
/* struct hdl_target, refused: the owner has freed the window, since a member has failed. */
#define HDL_REFUSED_GONE (-1)
/* Sends a message of synchronization, ordered behind all before. Returns 0 or a negative errno. */
int hdl_rma_msg_sync(struct hdl_win *w, struct hdl_target *t, enum hdl_rma_sync what, uint64_t value);

#endif
