/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tap: the side of shcactl, and the marks in the process slots. The executors' side is engine/trace.c.
 *
 * A change of the tap is one store of `on`, and then a mark in each slot: so an executor that finds a mark finds the settings of
 * the tap, too. An executor that finds no mark yet, or one that is about to go, carries the request out as if there were no
 * tap, or asks the tap in vain.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "shca/fabric/fabric.h"

#define LEASE_NS 3000000000ull

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* As shca_port_mark: the last to store has read `on` after the last change. */
void shca_tap_mark(struct shca_member *m, uint32_t slot)
{
	_Atomic uint32_t *word = &m->procs[slot].revoke_epoch;
	bool on;

	do {
		on = shca_tap_on(m);
		if (on)
			atomic_fetch_or(word, SHCA_TAPPED);
		else
			atomic_fetch_and(word, ~SHCA_TAPPED);
	} while (on != shca_tap_on(m));
}

static void mark_all(struct shca_member *m)
{
	uint32_t n = atomic_load(&m->hdr->proc_high);

	for (uint32_t i = 0; i < n && i < SHCA_MAX_PROCS; i++)
		shca_tap_mark(m, i);
	/* common queue pairs */
	shca_tap_mark(m, SHCA_COMMON);
}

/* ---- the tracer --------------------------------------------------------------------------------------------------- */

int shca_trace_start(struct shca_member *m, const uint32_t *queues, uint32_t keep)
{
	struct shca_tap *t = shca_tap_of(m);
	uint32_t n = 0;

	/* a store beyond the file's memory would be a SIGBUS in an executor */
	int err = posix_fallocate(m->fd.n, (off_t)m->hdr->tap, sizeof(*t));
	if (err)
		return -err;
	uint64_t was = atomic_load(&t->until), now = monotonic_ns();
	if ((atomic_load(&t->on) & SHCA_TAP_TRACE && was > now) ||
	    !atomic_compare_exchange_strong(&t->until, &was, now + LEASE_NS))
		return -EBUSY;
	for (; queues && queues[n] && n < SHCA_TRACE_QUEUES; n++)
		atomic_store(&t->queues[n], queues[n]);
	if (n < SHCA_TRACE_QUEUES)
		atomic_store(&t->queues[n], 0);
	atomic_store(&t->keep, keep < SHCA_TRACE_DATA ? keep : SHCA_TRACE_DATA);
	/* records of an earlier trace */
	atomic_store(&t->taken, atomic_load(&t->next));
	atomic_store(&t->lost, 0);
	atomic_fetch_or(&t->on, SHCA_TAP_TRACE);
	mark_all(m);
	return 0;
}

void shca_trace_end(struct shca_member *m)
{
	if (atomic_fetch_and(&shca_tap_of(m)->on, ~SHCA_TAP_TRACE) & SHCA_TAP_TRACE)
		mark_all(m);
}

void shca_trace_stop(struct shca_member *m)
{
	shca_trace_end(m);
	atomic_store(&shca_tap_of(m)->until, 0);
}

bool shca_trace_renew(struct shca_member *m)
{
	struct shca_tap *t = shca_tap_of(m);

	atomic_store(&t->until, monotonic_ns() + LEASE_NS);
	return atomic_load(&t->on) & SHCA_TAP_TRACE;
}

bool shca_trace_take(struct shca_member *m, struct shca_trace_record *r, bool patient)
{
	struct shca_tap *t = shca_tap_of(m);

	for (uint64_t pos = atomic_load(&t->taken); pos != atomic_load_explicit(&t->next, memory_order_acquire); pos++) {
		struct shca_trace_record *at = &t->record[pos % SHCA_TRACE_RECORDS];
		bool done = atomic_load_explicit(&at->seq, memory_order_acquire) == pos + 1;
		if (!done && patient)
			return false;
		if (done)
			memcpy(r, at, sizeof(*r));
		atomic_store(&t->taken, pos + 1);
		if (done)
			return true;
	}
	return false;
}

/* ---- faults -------------------------------------------------------------------------------------------------------- */

static const char *const fates[SHCA_FATES] = { "", "drop", "delay", "rnr", "dup" };

const char *shca_fate_name(unsigned fate)
{
	return fate < SHCA_FATES ? fates[fate] : "?";
}

/* Sets one NAME=VALUE of an entry. */
static int set_one(struct shca_fault *f, const char *s, const char *end)
{
	const char *eq = memchr(s, '=', (size_t)(end - s));
	size_t n = eq ? (size_t)(eq - s) : 0;
	uint32_t v;
	char *stop;

	for (unsigned i = 1; i < SHCA_FATES; i++)
		if (n == strlen(fates[i]) && !strncmp(s, fates[i], n) && shca_probability(eq + 1, end, &v)) {
			atomic_store(&f->odds[i], v);
			return 0;
		}
	uint64_t number = eq ? strtoull(eq + 1, &stop, 0) : 0;
	bool sound = eq && stop == end && stop != eq + 1 && eq[1] != '-';
	if (sound && n == 4 && !strncmp(s, "seed", n)) {
		atomic_store(&f->seed, number);
		atomic_store(&f->drawn, 0);
		return 0;
	}
	if (sound && n == 8 && !strncmp(s, "delay_us", n) && number <= 60000000) {
		atomic_store(&f->delay_us, (uint32_t)number);
		return 0;
	}
	shca_error("fault \"%.*s\" of a queue is not understood: drop=P, dup=P, delay=P, rnr=P with P from 0 to 1, delay_us=N up "
		   "to 60000000, seed=N", (int)(end - s), s);
	return -EINVAL;
}

static struct shca_fault *tap_entry_of(struct shca_tap *t, uint32_t qpn)
{
	struct shca_fault *spare = NULL;

	for (struct shca_fault *f = t->faults; f < t->faults + SHCA_FAULTS; f++) {
		uint32_t has = atomic_load(&f->qpn);
		if (has == qpn)
			return f;
		if (!has && !spare)
			spare = f;
	}
	return spare;
}

int shca_fault_queue(struct shca_member *m, uint32_t qpn, const char *spec)
{
	struct shca_tap *t = shca_tap_of(m);
	int err = posix_fallocate(m->fd.n, (off_t)m->hdr->tap, offsetof(struct shca_tap, next));
	struct shca_fault *f = err ? NULL : tap_entry_of(t, qpn);
	bool any = false;

	if (err)
		return -err;
	if (!f) {
		shca_error("faults of %u queues are set: no more", SHCA_FAULTS);
		return -ENOSPC;
	}
	if (!atomic_load(&f->qpn)) {
		memset(f, 0, sizeof(*f));
		atomic_store(&f->delay_us, 1000);
	}
	for (const char *s = spec; *s && !err;) {
		const char *end = s + strcspn(s, ",");
		err = set_one(f, s, end);
		s = *end ? end + 1 : end;
	}
	for (unsigned i = 1; i < SHCA_FATES; i++)
		any |= atomic_load(&f->odds[i]) != 0;
	atomic_store(&f->qpn, any ? qpn : 0);
	any = false;
	for (unsigned i = 0; i < SHCA_FAULTS; i++)
		any |= atomic_load(&t->faults[i].qpn) != 0;
	if (any)
		atomic_fetch_or(&t->on, SHCA_TAP_FAULTS);
	else
		atomic_fetch_and(&t->on, ~SHCA_TAP_FAULTS);
	mark_all(m);
	return err;
}
