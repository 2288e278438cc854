/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages of windows: WAKE ends a sleep, SYNC writes a counter of the receiver's state block, or asks for a lock, where
 * the members do not map each other's state blocks.
 */
#include "rma/message.h"

#include <errno.h>

struct sync_head {
	uint64_t window;		/* the receiver's struct hdl_win */
	uint64_t nonce;			/* of the receiver's state block */
	uint64_t value;			/* HDL_SYNC_LOCK, HDL_SYNC_LOCK_SHARED: the sender's struct hdl_win */
	int32_t member;			/* the sender's rank in the window */
	uint32_t what;			/* enum hdl_rma_sync */
	int32_t receiver;		/* the receiver's rank in the window */
	uint32_t reserved;
};

_Static_assert(sizeof(struct sync_head) <= HDL_AM_HEAD_MAX, "fits a head");

static const struct hdl_lock_owner *lock_owner;

void hdl_rma_wait(struct hdl_win *w, bool (*ready)(const void *arg), const void *arg)
{
	__atomic_fetch_add(&w->state->asleep, 1, __ATOMIC_SEQ_CST);
	hdl_wait_until(ready, arg);
	__atomic_fetch_sub(&w->state->asleep, 1, __ATOMIC_SEQ_CST);
}

void hdl_rma_wake(struct hdl_win *w, struct hdl_target *t)
{
	struct hdl_msg *m;

	(void)w;
	if (!t->ep || !t->state || !__atomic_load_n(&t->state->asleep, __ATOMIC_SEQ_CST))
		return;
	if (!(m = hdl_msg_new(0)))
		hdl_out_of_memory("waking a rank that waits for a window", sizeof(*m));
	hdl_msg_send(m, t->ep, HDL_AM_WAKE, 0, NULL, 0, 0);
}

void hdl_rma_wake_all(struct hdl_win *w)
{
	for (int r = 0; r < w->size; r++) {
		struct hdl_target *t = r == w->rank ? NULL : hdl_target_of(w, r);

		if (!t && r != w->rank)
			hdl_out_of_memory("a rank of a window", sizeof(*t));
		if (t)
			hdl_rma_wake(w, t);
	}
}

static void on_wake(void *context, const struct hdl_am *am)
{
	(void)context;
	(void)am;
}

int hdl_rma_msg_sync(struct hdl_win *w, struct hdl_target *t, enum hdl_rma_sync what, uint64_t value)
{
	struct sync_head h = { .window = w->record[t->rank].window, .nonce = w->record[t->rank].nonce, .value = value,
			       .member = w->rank, .what = what, .receiver = t->rank };
	struct hdl_msg *m = hdl_msg_new(0);

	if (!m)
		return -ENOMEM;
	return hdl_msg_send(m, t->ep, HDL_AM_SYNC, HDL_AM_ORDERED, &h, sizeof(h), 0);
}

/*
 * Returns true if a message is the unlock of a window that was freed. HDL_SYNC_UNLOCK has no answer, so MPI_Win_free may end
 * before the message arrives:
 *     1. Rank 0 unlocks rank 3: HDL_SYNC_UNLOCK waits behind other messages for room. MPI_Win_free: the
 *        barrier ends by way of rank 1
 *     2. Rank 3 frees the window, and makes a new one, whose struct hdl_win has the same address
 *     3. HDL_SYNC_UNLOCK comes, and would release a lock of the new window. Its nonce is the old window's
 */
static bool is_late_unlock(const struct sync_head *h)
{
	const struct hdl_win *w = h->what == HDL_SYNC_UNLOCK ? hdl_win_get((MPI_Win)(uintptr_t)h->window) : NULL;

	return h->what == HDL_SYNC_UNLOCK && (!w || w->state->nonce != h->nonce);
}

/*
 * Answers the request for a lock of a window that was freed. MPI_Win_free waits for all members, unless one has failed:
 *
 *     1. Rank 2 fails. Rank 0 calls MPI_Win_free, whose barrier ends with MPI_ERR_PROC_ABORTED
 *     2. Rank 1 locks rank 0, and would wait for ever: the owner lives, and no longer knows the window
 */
static void say_gone(const struct sync_head *h, const struct hdl_am *am)
{
	struct sync_head answer = { .window = h->value, .member = h->receiver, .what = HDL_SYNC_GONE, .receiver = h->member };
	struct hdl_msg *m = hdl_msg_new(0);

	if (!m)
		hdl_out_of_memory("an answer for a window that is gone", sizeof(*m));
	hdl_msg_send(m, am->ep, HDL_AM_SYNC, HDL_AM_ORDERED, &answer, sizeof(answer), 0);
}

static void on_sync(void *context, const struct hdl_am *am)
{
	struct sync_head h = { 0 };
	struct hdl_target *t;
	struct hdl_win *w;

	(void)context;
	memcpy(&h, am->head, am->head_len < sizeof(h) ? am->head_len : sizeof(h));
	if (is_late_unlock(&h))
		return;
	w = hdl_msg_window(h.window, h.member, am);
	if (!w || (h.what != HDL_SYNC_GONE && w->state->nonce != h.nonce)) {
		if (h.what == HDL_SYNC_LOCK || h.what == HDL_SYNC_LOCK_SHARED)
			say_gone(&h, am);
		return;
	}
	if (!(t = hdl_target_of(w, h.member)))
		hdl_out_of_memory("a rank of a window", sizeof(*t));
	switch ((enum hdl_rma_sync)h.what) {
	case HDL_SYNC_POSTED:
		w->state->member[h.member].posted++;
		break;
	case HDL_SYNC_COMPLETED:
		w->state->member[h.member].completed++;
		break;
	case HDL_SYNC_LOCK:
	case HDL_SYNC_LOCK_SHARED:
		lock_owner->asked(w, t, h.what == HDL_SYNC_LOCK);
		break;
	case HDL_SYNC_UNLOCK:
		lock_owner->given_back(w, t);
		break;
	case HDL_SYNC_GRANTED:
		t->granted = true;
		break;
	case HDL_SYNC_REFUSED:
		t->refused = (int)h.value;
		break;
	case HDL_SYNC_GONE:
		t->refused = HDL_REFUSED_GONE;
		break;
	}
}

int hdl_control_init(const struct hdl_lock_owner *locks)
{
	int err = hdl_am_register(hdl_mpi_tp, HDL_AM_WAKE, on_wake, NULL);

	lock_owner = locks;
	return err ? err : hdl_am_register(hdl_mpi_tp, HDL_AM_SYNC, on_sync, NULL);
}
