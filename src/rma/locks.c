/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks of members (MPI-5.0 section 12.5.3).
 *
 * Mapped windows: the lock word in the owner's state block (lock.h); the owner takes no part. A process draws a ticket, spins for
 * a short while, and then waits as for a message: turns of progress, yields, sleep. A holder that releases while tickets wait
 * sends HDL_AM_WAKE to the waiting members whose `asleep` is not 0.
 *
 *     waiter                                  holder
 *     asleep++ (full fence)                   word = released (full fence)
 *     reads the word: not admitted            reads asleep of the waiters: sends WAKE to those where it is not 0
 *     sleeps
 *
 * One of the two sees the store of the other.
 *
 * Death. A member sets `holds` to HDL_WANTS before it draws a ticket, and clears `holds` after the release. So only a member with
 * `holds` set keeps a ticket from being admitted:
 *
 *     1. A holds the lock and is killed: its `holds` stays
 *     2. B, which waits, checks the processes of all members whose `holds` is set, detects that A has ended, and marks the word
 *        broken
 *     3. B and all other waiting members give up with MPI_ERR_PROC_ABORTED, which names A, and clear their `holds`
 *     4. The next process that wants the lock waits until the `holds` of all living members are clear, and replaces the word by
 *        a free one of the next generation; the `holds` of dead members name the earlier one
 *     5. A process that has not seen the break finds another generation than its own (target->lock_state): it gets
 *        MPI_ERR_PROC_ABORTED once, since the memory that the lock protected may be half written
 *
 * Invariant: a word that is broken is replaced only while no living process has a ticket of it. A process clears its `holds`
 * before it looks at those of other members, so of several members that find the lock broken the last one finds the `holds` of
 * all others clear:
 *
 *     1. C and D want the lock; both set `holds`, then read a broken word
 *     2. C clears its `holds`, looks, finds that of D set, and waits
 *     3. D clears its `holds`, looks, finds none set, mends the lock, and wakes C
 *
 * Other windows: the owner grants, in the order of requests, by messages. When a member dies that holds the lock or waits for
 * it, the owner takes the member's part away, and refuses each member's next request, or the one that waits, once.
 */
#include "rma/failpoint.h"
#include "rma/sync.h"

#include <stdlib.h>

#define SPINS 400u

const struct hdl_win *hdl_rma_waits_win;
const struct hdl_target *hdl_rma_waits_target;

static void says(struct hdl_win *w, struct hdl_target *t, enum hdl_wants wants)
{
	__atomic_store_n(&t->state->member[w->rank].holds, wants ? hdl_lock_holds(ticks(), t->lock_state, wants) : 0,
			 __ATOMIC_SEQ_CST);
}

struct lock_wait {
	struct hdl_win *w;
	struct hdl_target *t;
	uint16_t ticket;
	bool exclusive;
};

static bool is_admitted(const struct lock_wait *l)
{
	return hdl_lock_admits(__atomic_load_n(&l->t->state->lock, __ATOMIC_SEQ_CST), l->ticket, l->exclusive);
}

/* Returns 1 + the rank of a member that has ended and had to do with the lock; 0: none. */
static uint32_t dead_holder(const struct lock_wait *l)
{
	for (int r = 0; r < l->w->size; r++)
		if (r != l->w->rank &&
		    hdl_lock_blocks(__atomic_load_n(&l->t->state->member[r].holds, __ATOMIC_RELAXED), l->t->lock_state) &&
		    hdl_win_has_ended(l->w, r))
			return (uint32_t)r + 1;
	return 0;
}

static bool is_broken(const struct hdl_target *t)
{
	return __atomic_load_n(&t->state->lock, __ATOMIC_SEQ_CST) & HDL_LOCK_BROKEN;
}

static bool lock_ready(const void *arg)
{
	const struct lock_wait *l = arg;

	return is_admitted(l) || is_broken(l->t) || dead_holder(l);
}

/* Makes endpoints of the members that hold the lock or wait for it: the transport then notices that one of them ends. */
static void watch_holders(const struct lock_wait *l)
{
	for (int r = 0; r < l->w->size; r++)
		if (r != l->w->rank && __atomic_load_n(&l->t->state->member[r].holds, __ATOMIC_RELAXED))
			hdl_comm_ep(l->w->comm, r);
}

/* Waits until the ticket is admitted. */
static int lock_wait(const struct lock_wait *l)
{
	uint32_t dead;

	for (unsigned i = 0; i < SPINS && !hdl_job.oversubscribed; i++) {
		if (is_admitted(l))
			return MPI_SUCCESS;
		cpu_relax();
	}
	watch_holders(l);
	hdl_rma_waits_win = l->w;
	hdl_rma_waits_target = l->t;
	hdl_rma_wait(l->w, lock_ready, l);
	hdl_rma_waits_win = NULL;
	if (is_admitted(l))
		return MPI_SUCCESS;
	dead = dead_holder(l);
	if (dead) {
		__atomic_store_n(&l->t->state->broken, dead, __ATOMIC_RELAXED);
		HDL_FAILPOINT("break-named");
		__atomic_fetch_or(&l->t->state->lock, HDL_LOCK_BROKEN, __ATOMIC_SEQ_CST);
	}
	return MPI_ERR_PROC_ABORTED;
}

static int lock_broken(struct hdl_win *w, struct hdl_target *t, uint32_t by)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	hdl_reason_set("the lock of rank %d of %s: rank %d (%s) has failed, and held it or waited for it", t->rank,
		       hdl_win_label(w, label), (int)by - 1, hdl_proc_text_full(hdl_comm_proc(w->comm, (int)by - 1)));
	return MPI_ERR_PROC_ABORTED;
}

/* Wakes members that wait for this lock and sleep. all: also members that wait for the mend, whose `holds` is clear. */
static void wake_waiters(struct hdl_win *w, struct hdl_target *t, bool all)
{
	for (int r = 0; r < w->size; r++) {
		struct hdl_target *waiter;

		if (r == w->rank || (!all && (__atomic_load_n(&t->state->member[r].holds, __ATOMIC_SEQ_CST) & 3) != HDL_WANTS))
			continue;
		waiter = hdl_target_of(w, r);
		if (!waiter)
			hdl_out_of_memory("a rank of a window", sizeof(*waiter));
		hdl_rma_wake(w, waiter);
	}
}

/* The ticket is admitted: admits the next ticket, whose process may sleep. */
static void enter_shared(struct hdl_win *w, struct hdl_target *t)
{
	uint64_t word = __atomic_load_n(&t->state->lock, __ATOMIC_RELAXED), after;

	do
		after = hdl_lock_entered(word, false);
	while (!__atomic_compare_exchange_n(&t->state->lock, &word, after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	if (hdl_lock_has_waiters(after))
		wake_waiters(w, t, false);
}

/* ---- a broken lock ----------------------------------------------------------------------------------------------- */

/* Returns true if the lock is mended, or `holds` is 0 for every living member. */
static bool mend_ready(const void *arg)
{
	const struct lock_wait *l = arg;

	for (int r = 0; is_broken(l->t) && r < l->w->size; r++)
		if (__atomic_load_n(&l->t->state->member[r].holds, __ATOMIC_SEQ_CST) && !hdl_win_has_ended(l->w, r))
			return false;
	return true;
}

/* Waits until a broken lock can be mended, and mends it, unless another member does. Must: this process's `holds` is clear. */
static void lock_mend(struct hdl_win *w, struct hdl_target *t)
{
	struct lock_wait l = { .w = w, .t = t };
	uint64_t word;

	while ((word = __atomic_load_n(&t->state->lock, __ATOMIC_SEQ_CST)) & HDL_LOCK_BROKEN) {
		if (!mend_ready(&l)) {
			watch_holders(&l);
			hdl_rma_waits_win = w;
			hdl_rma_waits_target = t;
			hdl_rma_wait(w, mend_ready, &l);
			hdl_rma_waits_win = NULL;
			continue;
		}
		HDL_FAILPOINT("mend-begins");
		/* fails if another member has mended the lock since: the generation differs */
		__atomic_compare_exchange_n(&t->state->lock, &word, hdl_lock_mended(word), false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED);
		wake_waiters(w, t, true);
	}
}

/* The word's state is not that of this process: mends a broken lock, and reports the break, once. Returns
 * MPI_SUCCESS: the break was reported before. */
static int lock_changed(struct hdl_win *w, struct hdl_target *t)
{
	uint32_t by = __atomic_load_n(&t->state->broken, __ATOMIC_RELAXED);
	uint16_t state;

	says(w, t, HDL_WANTS_NONE);
	lock_mend(w, t);
	state = hdl_lock_state(__atomic_load_n(&t->state->lock, __ATOMIC_RELAXED)) & ~1u;
	if (state == t->lock_state)
		return MPI_SUCCESS;
	t->lock_state = state;
	return lock_broken(w, t, by);
}

/* ---- mapped ------------------------------------------------------------------------------------------------------ */

/* Draws a ticket. Returns false: the word's state is not this process's. */
static bool lock_draw(struct lock_wait *l, bool *entered)
{
	uint64_t word = __atomic_load_n(&l->t->state->lock, __ATOMIC_ACQUIRE), after;	/* `broken` is read behind it */

	do {
		if (unlikely(hdl_lock_state(word) != l->t->lock_state))
			return false;
		after = hdl_lock_drawn(word, l->exclusive, &l->ticket, entered);
	} while (!__atomic_compare_exchange_n(&l->t->state->lock, &word, after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return true;
}

static int lock_mapped(struct hdl_win *w, struct hdl_target *t, bool exclusive)
{
	struct lock_wait l = { .w = w, .t = t, .exclusive = exclusive };
	bool entered;

	says(w, t, HDL_WANTS);
	HDL_FAILPOINT("lock-wanted");
	while (unlikely(!lock_draw(&l, &entered))) {
		int rc;

		t->held = HDL_HELD_AWAITED;
		rc = lock_changed(w, t);

		if (rc)
			return rc;
		says(w, t, HDL_WANTS);
	}
	HDL_FAILPOINT(entered ? "lock-entered" : "lock-drawn");
	if (!entered) {
		t->held = HDL_HELD_AWAITED;
		if (lock_wait(&l)) {
			/* the state after the lock is mended: this break is reported */
			t->lock_state = hdl_lock_next(t->lock_state);
			says(w, t, HDL_WANTS_NONE);
			wake_waiters(w, t, true);
			return lock_broken(w, t, __atomic_load_n(&t->state->broken, __ATOMIC_RELAXED));
		}
		HDL_FAILPOINT("lock-admitted");
		if (!exclusive)
			enter_shared(w, t);
	}
	says(w, t, exclusive ? HDL_HAS_EXCLUSIVE : HDL_HAS_SHARED);
	HDL_FAILPOINT(exclusive ? "lock-exclusive" : "lock-shared");
	return MPI_SUCCESS;
}

static void unlock_mapped(struct hdl_win *w, struct hdl_target *t)
{
	uint64_t word = __atomic_load_n(&t->state->lock, __ATOMIC_RELAXED), after;

	do
		after = hdl_lock_released(word, t->held == HDL_HELD_EXCLUSIVE);
	while (!__atomic_compare_exchange_n(&t->state->lock, &word, after, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	HDL_FAILPOINT("unlock-released");
	says(w, t, HDL_WANTS_NONE);
	HDL_FAILPOINT("unlock-cleared");
	if (unlikely(hdl_lock_in_use(after)) || unlikely(is_broken(t)))
		wake_waiters(w, t, is_broken(t));
}

/* ---- by message: the owner --------------------------------------------------------------------------------------- */

/* Answers a request. The owner's own is a flag. */
static void lock_answer(struct hdl_win *w, struct hdl_target *to, int dead)
{
	if (to->rank != w->rank)
		hdl_rma_msg_sync(w, to, dead ? HDL_SYNC_REFUSED : HDL_SYNC_GRANTED, (uint64_t)dead);
	else if (dead)
		to->refused = dead;
	else
		to->granted = true;
}

static void lock_grant(struct hdl_win *w)
{
	struct hdl_target *t;

	while ((t = w->lock_first)) {
		if (w->lock_exclusive || (t->lock_exclusive && w->lock_shared))
			return;
		w->lock_first = t->lock_next;
		if (!w->lock_first)
			w->lock_last = NULL;
		t->lock_waits = false;
		if (t->lock_exclusive)
			w->lock_exclusive = t->rank + 1;
		else
			w->lock_shared++;
		w->state->member[t->rank].holds =
			hdl_lock_holds(ticks(), 0, t->lock_exclusive ? HDL_HAS_EXCLUSIVE : HDL_HAS_SHARED);
		lock_answer(w, t, 0);
	}
}

/* Reports the last break of the lock to a member, once. */
static void lock_refuse(struct hdl_win *w, struct hdl_target *to)
{
	to->lock_breaks = w->lock_breaks;
	to->lock_waits = false;
	w->state->member[to->rank].holds = 0;
	lock_answer(w, to, (int)w->state->broken);
}

static void lock_asked(struct hdl_win *w, struct hdl_target *from, bool exclusive)
{
	if (from->lock_breaks != w->lock_breaks) {
		lock_refuse(w, from);
		return;
	}
	from->lock_exclusive = exclusive;
	from->lock_waits = true;
	from->lock_next = NULL;
	w->state->member[from->rank].holds = hdl_lock_holds(ticks(), 0, HDL_WANTS);
	*(w->lock_last ? &w->lock_last->lock_next : &w->lock_first) = from;
	w->lock_last = from;
	lock_grant(w);
}

static void lock_given_back(struct hdl_win *w, struct hdl_target *from)
{
	w->state->member[from->rank].holds = 0;
	if (w->lock_exclusive == from->rank + 1)
		w->lock_exclusive = 0;
	else if (w->lock_shared)
		w->lock_shared--;
	lock_grant(w);
}

void hdl_lock_lost(struct hdl_win *w, struct hdl_target *dead)
{
	uint64_t *holds = &w->state->member[dead->rank].holds;
	struct hdl_target *t = w->lock_first;

	if (w->mapped || !*holds)
		return;
	if (w->lock_exclusive == dead->rank + 1)
		w->lock_exclusive = 0;
	else if ((*holds & 3) == HDL_HAS_SHARED)
		w->lock_shared--;
	*holds = 0;
	w->state->broken = (uint32_t)dead->rank + 1;
	w->lock_breaks++;
	w->lock_first = w->lock_last = NULL;
	for (struct hdl_target *next; t; t = next) {
		next = t->lock_next;
		if (t == dead)
			t->lock_waits = false;
		else
			lock_refuse(w, t);
	}
}

void hdl_lock_gone(struct hdl_win *w)
{
	/* taken out of the list first: the death of a member refuses those that are in it (hdl_lock_lost) */
	for (struct hdl_target *t; (t = w->lock_first);) {
		w->lock_first = t->lock_next;
		if (!w->lock_first)
			w->lock_last = NULL;
		t->lock_waits = false;
		if (t->ep)
			hdl_rma_msg_sync(w, t, HDL_SYNC_GONE, 0);
	}
}

const struct hdl_lock_owner hdl_lock_owner = { .asked = lock_asked, .given_back = lock_given_back };

/* ---- by message: the origin -------------------------------------------------------------------------------------- */

static bool grant_ready(const void *arg)
{
	const struct hdl_target *t = arg;

	return t->granted || t->refused || hdl_target_failed(t);
}

static int lock_of_freed(const struct hdl_win *w, const struct hdl_target *t)
{
	char label[MPI_MAX_OBJECT_NAME + 16];

	hdl_reason_set("the lock of rank %d of %s: that rank has freed the window, since another rank has failed", t->rank,
		       hdl_win_label(w, label));
	return MPI_ERR_PROC_ABORTED;
}

static int lock_by_message(struct hdl_win *w, struct hdl_target *t, bool exclusive)
{
	int err = 0;

	t->held = HDL_HELD_AWAITED;
	t->granted = false;
	t->refused = 0;
	if (t->rank == w->rank)
		lock_asked(w, t, exclusive);
	else
		err = hdl_rma_msg_sync(w, t, exclusive ? HDL_SYNC_LOCK : HDL_SYNC_LOCK_SHARED, (uintptr_t)w);
	if (!err) {
		hdl_rma_waits_win = w;
		hdl_rma_waits_target = t;
		hdl_wait_until(grant_ready, t);
		hdl_rma_waits_win = NULL;
	}
	if (t->granted)
		return MPI_SUCCESS;
	if (t->refused == HDL_REFUSED_GONE)
		return lock_of_freed(w, t);
	if (t->refused)
		return lock_broken(w, t, (uint32_t)t->refused);
	return hdl_target_failed(t) ? hdl_rma_dead(w, t->rank, "locking") : hdl_class_of(-err);
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

int hdl_win_lock(struct hdl_win *w, struct hdl_target *t, int lock_type, int assert)
{
	bool exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
	int rc = MPI_SUCCESS;

	if (assert & MPI_MODE_NOCHECK) {
		t->held = HDL_HELD_NOCHECK;
		t->alone |= exclusive;
		return MPI_SUCCESS;
	}
	if (hdl_target_failed(t))
		return hdl_rma_dead(w, t->rank, "locking");
	rc = w->mapped ? lock_mapped(w, t, exclusive) : lock_by_message(w, t, exclusive);
	t->held = rc ? HDL_HELD_NONE : exclusive ? HDL_HELD_EXCLUSIVE : HDL_HELD_SHARED;
	t->alone |= exclusive && !rc;
	return rc;
}

int hdl_win_unlock(struct hdl_win *w, struct hdl_target *t)
{
	enum hdl_held held = t->held;
	int err = 0;

	if (held != HDL_HELD_NOCHECK && w->mapped)
		unlock_mapped(w, t);
	else if (held != HDL_HELD_NOCHECK && t->rank == w->rank)
		lock_given_back(w, t);
	else if (held != HDL_HELD_NOCHECK && !hdl_target_failed(t))
		err = hdl_rma_msg_sync(w, t, HDL_SYNC_UNLOCK, 0);
	t->held = HDL_HELD_NONE;
	t->alone = w->size == 1;
	return err ? hdl_class_of(-err) : MPI_SUCCESS;
}
