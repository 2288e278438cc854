/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pure parts of one-sided communication: the lock word, by every interleaving of some processes; the epochs, by every sequence of
 * calls up to a length; the hashed locks.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "rma/epoch.h"
#include "rma/hashed.h"
#include "rma/lock.h"

/* ---- the lock word ------------------------------------------------------------------------------------------------ */

#define PROCS 4

enum { OUTSIDE, WAITS, INSIDE, LEFT };
struct proc {
	int at;
	bool exclusive;
	uint16_t ticket;
	int order;		/* number of processes that drew before */
};
struct world {
	uint64_t word;
	struct proc p[PROCS];
	int drawn;
};
static long ends, states;

static void lock_check(const struct world *w)
{
	int readers = 0, writers = 0, waiting = 0;

	for (int i = 0; i < PROCS; i++) {
		readers += w->p[i].at == INSIDE && !w->p[i].exclusive;
		writers += w->p[i].at == INSIDE && w->p[i].exclusive;
		waiting += w->p[i].at == WAITS;
	}
	cr_assert(writers <= 1 && (!writers || !readers), "%d writers and %d readers are inside", writers, readers);
	cr_assert(hdl_lock_in_use(w->word) == (readers + writers + waiting > 0));
	cr_assert(!waiting || hdl_lock_has_waiters(w->word), "a process waits, and the word says that none does");
	/* nobody overtakes */
	for (int i = 0; i < PROCS; i++)
		for (int j = 0; j < PROCS; j++)
			if (w->p[i].at == WAITS && w->p[j].at == INSIDE && w->p[j].order > w->p[i].order)
				cr_assert_fail("process %d waits, and %d, which drew later, is inside", i, j);
}

static void lock_explore(struct world w)
{
	bool moved = false, all = true;

	states++;
	lock_check(&w);
	for (int i = 0; i < PROCS; i++) {
		struct world v = w;
		struct proc *p = &v.p[i];
		bool entered;

		all &= p->at == LEFT;
		if (p->at == OUTSIDE) {
			v.word = hdl_lock_drawn(v.word, p->exclusive, &p->ticket, &entered);
			p->at = entered ? INSIDE : WAITS;
			p->order = v.drawn++;
		} else if (p->at == WAITS && hdl_lock_admits(v.word, p->ticket, p->exclusive)) {
			v.word = hdl_lock_entered(v.word, p->exclusive);
			p->at = INSIDE;
		} else if (p->at == INSIDE) {
			v.word = hdl_lock_released(v.word, p->exclusive);
			p->at = LEFT;
		} else {
			continue;
		}
		moved = true;
		lock_explore(v);
	}
	cr_assert(moved || all, "processes wait for ever");
	ends += all;
}

Test(rma_lock, every_interleaving)
{
	/* tickets wrap around in the middle, too */
	for (int start = 0; start < 2; start++)
		for (int mask = 0; mask < 1 << PROCS; mask++) {
			uint16_t t = start ? UINT16_MAX - 1 : 0;
			struct world w = { .word = hdl_lock_word(t, t, t) };

			for (int i = 0; i < PROCS; i++)
				w.p[i].exclusive = mask >> i & 1;
			lock_explore(w);
		}
	cr_assert(ends > 1000 && states > ends);
}

/* ---- epochs --------------------------------------------------------------------------------------------------------- */

/* The rules of section 12.5, written another way: what is open, by what the program has done. */
struct did {
	bool fence, used, started, all, exposed;
	int locks;
};

static bool may(const struct did *d, enum hdl_epoch_call call)
{
	bool access = d->started || d->all || d->locks || (d->fence && d->used);

	switch (call) {
	case HDL_CALL_FENCE: case HDL_CALL_FENCE_LAST: return !d->started && !d->all && !d->locks && !d->exposed;
	case HDL_CALL_START: case HDL_CALL_LOCK_ALL: return !access;
	case HDL_CALL_LOCK: return !access || d->locks;
	case HDL_CALL_COMPLETE: return d->started;
	case HDL_CALL_UNLOCK: return d->locks;
	case HDL_CALL_UNLOCK_LAST: return d->locks;
	case HDL_CALL_UNLOCK_ALL: return d->all;
	case HDL_CALL_POST: return !d->exposed && !(d->fence && d->used);
	case HDL_CALL_WAIT: return d->exposed;
	case HDL_CALL_OPERATION: return access || d->fence;
	case HDL_CALL_REQUEST: case HDL_CALL_FLUSH: return d->all || d->locks;
	case HDL_CALL_FREE: return !access && !d->exposed;
	default: return false;
	}
}

static void epochs(int epoch, struct did d, int left)
{
	for (int c = 0; left && c < HDL_CALLS; c++) {
		struct did e = d;
		int next;

		/* the caller passes one of the two, by the number of locks */
		if ((c == HDL_CALL_UNLOCK && d.locks == 1) || (c == HDL_CALL_UNLOCK_LAST && d.locks > 1))
			continue;
		next = hdl_epoch_next((enum hdl_epoch)epoch, d.exposed, (enum hdl_epoch_call)c);
		cr_assert((next >= 0) == may(&d, (enum hdl_epoch_call)c), "call %d in state %d%s: %d", c, epoch, d.exposed ? ", exposed" : "",
			  next);
		cr_assert(hdl_epoch_text((enum hdl_epoch)epoch, d.exposed)[0]);
		if (next < 0)
			continue;
		switch (c) {
		case HDL_CALL_FENCE: case HDL_CALL_FENCE_LAST:
			e = (struct did){ .fence = c == HDL_CALL_FENCE };
			break;
		case HDL_CALL_START: e.started = true; e.fence = false; break;
		case HDL_CALL_COMPLETE: e.started = false; break;
		case HDL_CALL_LOCK: e.locks++; e.fence = false; break;
		case HDL_CALL_UNLOCK: case HDL_CALL_UNLOCK_LAST: e.locks--; break;
		case HDL_CALL_LOCK_ALL: e.all = true; e.fence = false; break;
		case HDL_CALL_UNLOCK_ALL: e.all = false; break;
		case HDL_CALL_POST: e.exposed = true; e.fence = false; break;
		case HDL_CALL_WAIT: e.exposed = false; break;
		case HDL_CALL_OPERATION: e.used |= e.fence; break;
		case HDL_CALL_FREE: continue;
		default: break;
		}
		epochs(next, e, left - 1);
	}
}

Test(rma_epoch, every_sequence)
{
	epochs(HDL_EPOCH_NONE, (struct did){ 0 }, 7);
}

/* ---- hashed locks ---------------------------------------------------------------------------------------------------- */

static uint32_t word;
static long counter;

static void *adds(void *arg)
{
	uint32_t self = (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < 20000; i++) {
		while (hdl_hashed_try(&word, self))
			;
		counter++;
		hdl_hashed_release(&word);
	}
	return NULL;
}

Test(rma_hashed, holders)
{
	pthread_t t[3];

	cr_assert(!hdl_hashed_try(&word, 7));
	cr_assert_eq(hdl_hashed_try(&word, 8), 7);
	/* 7 has ended: one of two takes over */
	cr_assert(hdl_hashed_take_over(&word, 7, 8));
	cr_assert(!hdl_hashed_take_over(&word, 7, 9));
	hdl_hashed_release(&word);
	cr_assert(!word);
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, adds, (void *)(i + 1));
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(counter, 60000);
}

/* One element has one lock, and elements are spread. */
Test(rma_hashed, index)
{
	unsigned used = 0;

	for (uint64_t at = 0; at < 1 << 16; at += 1024) {
		cr_assert_eq(hdl_hashed_index(at, 10), hdl_hashed_index(at + 1023, 10));
		cr_assert(hdl_hashed_index(at, 10) < HDL_HASHED);
		used |= 1u << hdl_hashed_index(at, 10);
	}
	cr_assert((unsigned)__builtin_popcount(used) >= HDL_HASHED / 2);
}
