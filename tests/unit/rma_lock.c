/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pure parts of one-sided communication: the lock word, by every interleaving of some processes; the epochs, by every sequence of
 * calls up to a length; the hashed locks.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rma/epoch.h"
#include "rma/hashed.h"
#include "rma/lock.h"
#include "rma/reach.h"

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
	/* no process overtakes another one */
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
			struct world w = { .word = hdl_lock_word(t, t, 0, t) };

			for (int i = 0; i < PROCS; i++)
				w.p[i].exclusive = mask >> i & 1;
			lock_explore(w);
		}
	cr_assert(ends > 1000 && states > ends);
}

/* ---- a broken lock ---------------------------------------------------------------------------------------------------- */

/* The steps of src/rma/locks.c, each one access to memory that processes share; any process may die between two of them. */
enum { B_OUTSIDE, B_SAID, B_WAITS, B_GIVES_UP, B_CHANGED, B_MENDS, B_READ, B_INSIDE, B_RELEASED, B_LEFT };
#define BPROCS 3
struct bproc {
	uint64_t read;		/* the word when the process found the lock mendable */
	uint64_t holds;
	uint16_t ticket, state;
	uint8_t at, exclusive, dead, reports;
};
struct bworld {
	uint64_t word;
	struct bproc p[BPROCS];
	uint64_t deaths;
};
#define SEEN (1u << 22)
static uint64_t *seen_worlds;
static unsigned worlds;

static bool seen_before(const struct bworld *w)
{
	const unsigned char *c = (const unsigned char *)w;
	uint64_t h = 0xcbf29ce484222325u;
	unsigned i;

	for (size_t k = 0; k < sizeof(*w); k++)
		h = (h ^ c[k]) * 0x100000001b3u;
	h |= 1;
	for (i = (unsigned)(h >> 40) % SEEN; seen_worlds[i]; i = (i + 1) % SEEN)
		if (seen_worlds[i] == h)
			return true;
	seen_worlds[i] = h;
	cr_assert(++worlds < SEEN / 2);
	return false;
}

static bool dead_blocks(const struct bworld *w, uint16_t state)
{
	for (int i = 0; i < BPROCS; i++)
		if (w->p[i].dead && hdl_lock_blocks(w->p[i].holds, state))
			return true;
	return false;
}

static bool mendable(const struct bworld *w)
{
	for (int i = 0; i < BPROCS; i++)
		if (!w->p[i].dead && w->p[i].holds)
			return false;
	return true;
}

/* One step of a process. Returns false if the process waits. */
static bool broken_step(struct bworld *w, struct bproc *p)
{
	bool entered;

	switch (p->at) {
	case B_OUTSIDE:
		p->holds = hdl_lock_holds(0, p->state, 1);
		p->at = B_SAID;
		return true;
	case B_SAID:
		if (hdl_lock_state(w->word) != p->state) {
			p->at = B_CHANGED;
			return true;
		}
		w->word = hdl_lock_drawn(w->word, p->exclusive, &p->ticket, &entered);
		p->at = entered ? B_INSIDE : B_WAITS;
		return true;
	case B_WAITS:
		if (hdl_lock_admits(w->word, p->ticket, p->exclusive)) {
			w->word = hdl_lock_entered(w->word, p->exclusive);
			p->at = B_INSIDE;
		} else if (w->word & HDL_LOCK_BROKEN || dead_blocks(w, p->state)) {
			w->word |= HDL_LOCK_BROKEN;
			p->at = B_GIVES_UP;
		} else {
			return false;
		}
		return true;
	case B_GIVES_UP:
		p->state = hdl_lock_next(p->state);
		p->reports++;
		p->holds = 0;
		p->at = B_OUTSIDE;
		return true;
	case B_CHANGED:
		p->holds = 0;
		p->at = B_MENDS;
		return true;
	case B_MENDS:
		if (!(w->word & HDL_LOCK_BROKEN)) {
			p->reports += hdl_lock_state(w->word) != p->state;
			p->state = hdl_lock_state(w->word);
			p->at = B_OUTSIDE;
		} else if (mendable(w)) {
			p->read = w->word;
			p->at = B_READ;
		} else {
			return false;
		}
		return true;
	case B_READ:
		if (w->word == p->read)
			w->word = hdl_lock_mended(w->word);
		p->read = 0;
		p->at = B_MENDS;
		return true;
	case B_INSIDE:
		w->word = hdl_lock_released(w->word, p->exclusive);
		p->at = B_RELEASED;
		return true;
	case B_RELEASED:
		p->holds = 0;
		p->at = B_LEFT;
		return true;
	default:
		return false;
	}
}

static void broken_check(const struct bworld *w)
{
	int readers = 0, writers = 0, half = 0;

	for (int i = 0; i < BPROCS; i++) {
		const struct bproc *p = &w->p[i];

		readers += !p->dead && p->at == B_INSIDE && !p->exclusive;
		writers += !p->dead && p->at == B_INSIDE && p->exclusive;
		half += p->dead && p->at == B_INSIDE && p->exclusive;
		cr_assert(p->reports <= w->deaths, "more reports than deaths");
	}
	cr_assert(writers <= 1 && (!writers || !readers), "%d writers and %d readers are inside", writers, readers);
	for (int i = 0; half && i < BPROCS; i++)
		cr_assert(w->p[i].dead || w->p[i].at != B_INSIDE || w->p[i].reports,
			  "a process inside was not told that a writer died");
}

static void broken_explore(const struct bworld *w)
{
	bool moved = false, all = true;

	if (seen_before(w))
		return;
	broken_check(w);
	for (int i = 0; i < BPROCS; i++) {
		struct bworld v = *w;

		if (v.p[i].dead)
			continue;
		all &= v.p[i].at == B_LEFT;
		if (broken_step(&v, &v.p[i])) {
			moved = true;
			broken_explore(&v);
		}
		v = *w;
		if (v.deaths < BPROCS - 1 && v.p[i].at != B_LEFT) {
			v.p[i].dead = 1;
			v.deaths++;
			broken_explore(&v);
		}
	}
	cr_assert(moved || all, "processes wait for ever");
}

Test(rma_lock, broken)
{
	seen_worlds = calloc(SEEN, sizeof(*seen_worlds));
	for (int mask = 0; mask < 1 << BPROCS; mask++) {
		struct bworld w;

		memset(&w, 0, sizeof(w));
		for (int i = 0; i < BPROCS; i++)
			w.p[i].exclusive = mask >> i & 1;
		broken_explore(&w);
	}
	free(seen_worlds);
	cr_assert(worlds > 1000);
}

/* ---- epochs --------------------------------------------------------------------------------------------------------- */

/* The rules of section 12.5, written another way: the open epochs, from the program's calls. */
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
		cr_assert((next >= 0) == may(&d, (enum hdl_epoch_call)c), "call %d in state %d%s: %d", c, epoch,
			  d.exposed ? ", exposed" : "", next);
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

/* While a thread waits in a call that opens or closes an epoch, the others may post and wait. */
Test(rma_epoch, a_thread_waits)
{
	for (int c = 0; c < HDL_CALLS; c++)
		for (int exposed = 0; exposed < 2; exposed++) {
			int next = hdl_epoch_next(HDL_EPOCH_WAITS, exposed, (enum hdl_epoch_call)c);
			bool allowed = c == (exposed ? HDL_CALL_WAIT : HDL_CALL_POST);

			cr_assert_eq(next, allowed ? HDL_EPOCH_WAITS : -1, "call %d: %d", c, next);
		}
	cr_assert(hdl_epoch_text(HDL_EPOCH_WAITS, false)[0]);
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
	cr_assert(!hdl_hashed_release(&word));
	cr_assert(!word);
	/* a process that sleeps is woken by the release, also if the holder that was asked has ended; a word that has changed is
	 * not marked */
	cr_assert(!hdl_hashed_try(&word, 7));
	cr_assert(!hdl_hashed_await(&word, 8));
	cr_assert(hdl_hashed_await(&word, 7));
	cr_assert_eq(hdl_hashed_holder(hdl_hashed_try(&word, 8)), 7);
	cr_assert(hdl_hashed_await(&word, hdl_hashed_try(&word, 9)));
	cr_assert(!hdl_hashed_take_over(&word, 7, 8));
	cr_assert(hdl_hashed_take_over(&word, 7 | HDL_HASHED_AWAITED, 8));
	cr_assert_eq(hdl_hashed_holder(word), 8);
	cr_assert(hdl_hashed_release(&word));
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

/* ---- members with progress that an operation needs ------------------------------------------------------------------ */

/* A member, and the ways in which the members reach each other's memory. */
static unsigned found_by(int size, bool maps, bool rdma, bool others_far)
{
	return (maps ? HDL_HAS_STATES | HDL_HAS_MEMORIES : 0) |
	       (others_far && (!rdma || !hdl_win_connects(size)) ? HDL_BY_MESSAGES : 0);
}

/* Every window of members with memory of each kind, that map each other or not, have connected queues or not, and are few or
 * many: a member without a helper thread is reached by all without its progress. */
Test(rma_reach, helper_where_needed)
{
	static const enum hdl_win_memory last = HDL_MEMORY_DYNAMIC;

	for (int size = 1; size <= 66; size += size == 3 ? 61 : 1)
		for (int ways = 0; ways < 4; ways++)
			for (enum hdl_win_memory mine = 0; mine <= last; mine++)
				for (enum hdl_win_memory other = 0; other <= last; other++) {
					bool maps = ways & 1, rdma = ways & 2;
					bool dynamic = mine == HDL_MEMORY_DYNAMIC || other == HDL_MEMORY_DYNAMIC;
					bool far_mine = dynamic || mine == HDL_MEMORY_PRIVATE,
					     far_other = dynamic || other == HDL_MEMORY_PRIVATE;
					unsigned here = found_by(size, maps, rdma, far_other),
						 there = found_by(size, maps, rdma, far_mine);
					unsigned all = here & there, any = here | there;
					bool far = hdl_win_is_far(dynamic ? HDL_MEMORY_DYNAMIC : mine, all);
					bool helped = hdl_win_helped(size, far, all, any);
					/* an operation on this member's memory waits for this member */
					bool needs = size > 1 && (!maps || (far_mine && (!rdma || size > HDL_CONNECT_MOST)));

					if (needs)
						cr_assert(helped, "size %d, ways %d, memory %d, other %d", size, ways, mine,
							  other);
					/* a member that all other members have mapped, or that has no memory, needs no helper
					 * thread */
					if (size == 1 || (maps && !far_mine))
						cr_assert(!helped, "size %d, ways %d, memory %d, other %d", size, ways, mine,
							  other);
				}
}

/* One member that cannot, or another granularity, is enough for no; a window of one rank needs no atomic request. */
Test(rma_reach, atomics_by_all)
{
	const unsigned can = HDL_HAS_STATES | HDL_HAS_ATOMICS, cannot = HDL_HAS_STATES;

	cr_assert(hdl_win_atomics(2, true, can & can) && !hdl_win_atomics(2, true, can & cannot));
	cr_assert(!hdl_win_atomics(2, false, can) && !hdl_win_atomics(1, true, can));
}

/* A place in the fabric that some member could not map. */
Test(rma_reach, memory_not_mapped_by_all)
{
	cr_assert(hdl_win_is_far(HDL_MEMORY_ARENA, HDL_HAS_STATES) &&
		  !hdl_win_is_far(HDL_MEMORY_ARENA, HDL_HAS_STATES | HDL_HAS_MEMORIES));
	cr_assert(hdl_win_helped(2, true, HDL_HAS_STATES, 0) && !hdl_win_helped(2, false, HDL_HAS_STATES, 0));
	cr_assert(!hdl_win_helped(2, true, HDL_HAS_STATES | HDL_HAS_MEMORIES, 0));
}
