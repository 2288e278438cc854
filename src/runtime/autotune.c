/* SPDX-License-Identifier: BSD-3-Clause */
#include "runtime/autotune.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

#define ONE 1024u	/* a ratio of 1 */

struct hdl_autotune_row {
	const char *subject, *unit;
	const char *candidate[2];
	uint32_t stated;	/* ns per unit of candidate 1; 0: the caller states it, or the row is paired */
	unsigned memory;	/* stated: weight of the mean beside the latest measurement, while candidate 0 is the choice */
	uint64_t again_ns;	/* stated: time until candidate 0 is tried again; 0: by the number of uses */
};

/*
 * Copies between processes. Bytes go from one process to another by memory that both reach, one copy in and one out, or by the
 * kernel (process_vm_readv), one copy in all. The kernel's way costs about the same everywhere, since most of it is looking up
 * pages. The two copies cost the way of the cache lines: some 50 ns for each line where the processors share a cache, in which
 * case the two copies take a third of the kernel's time, and five times as much where they do not, in which case they take twice
 * the kernel's time. A virtual machine's processors may even change from one case to the other while a program runs. So the
 * copying process times its copies in. By measurement: 45 and 120 ns per KiB in the two states of a machine, where the kernel
 * takes some 150 for the whole; HDL_TUNE_COPY_NS lies between.
 */
static const struct hdl_autotune_row rows[HDL_TUNE_SUBJECTS] = {
	/* messages longer than twice HEDDLE_EAGER_MAX, per peer with a ring */
	[HDL_TUNE_RING] = { "eager ring", "KiB", { "ring", "rendezvous" }, .stated = HDL_TUNE_COPY_NS, .memory = 3 },
	/* single copy, per communicator; stated by single_copy/copy_rate.c */
	[HDL_TUNE_STAGING] = { "staging", "KiB", { "staged", "in place" }, .memory = 3 },
	/* per class of sizes (transport/rndv/tune.h) */
	[HDL_TUNE_RENDEZVOUS] = { .subject = "rendezvous", .unit = "MiB", .candidate = { "read", "split" } },
	/*
	 * A wait where each rank has a core. A yield that takes longer than 50 us has let another process run to the end of its
	 * time slice: milliseconds, in which the peer waits for this rank, yields itself, and so on. The scheduler gives the CPU
	 * to a process that is woken. So for 100 ms this process sleeps instead of yielding.
	 */
	[HDL_TUNE_YIELD] = { "waiting", "yield", { "yield", "sleep" }, .stated = 50000, .again_ns = 100000000 },
};

/*
 * The controllers of the process by their ids. Instances of the transport that have a thread each make, use and free controllers
 * at the same time: `lock` guards the table, and hdl_autotune_of takes no lock.
 *
 *     1. Thread A has read `table`, to find a controller of its own
 *     2. Thread B makes a controller; the table is full, so B publishes one of twice the size
 *     3. A reads its entry in the old table. So old tables stay until hdl_autotune_fini, and an entry never changes while the
 *        controller's owner uses the id
 */
struct table {
	struct table *old;
	uint32_t n, most;		/* of the newest table: entries in use, or free again (NULL) */
	struct hdl_autotune *of[];	/* of[0]: shared */
};

static struct hdl_autotune shared = { .row = &rows[HDL_TUNE_RING], .fixed = true };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *table;

static bool controllers_grow(void)
{
	uint32_t most = table ? 2 * table->most : 16;
	struct table *t = malloc(sizeof(*t) + most * sizeof(t->of[0]));

	if (!t)
		return false;
	t->old = table;
	t->n = table ? table->n : 1;
	t->most = most;
	t->of[0] = &shared;
	if (table)
		memcpy(t->of, table->of, table->n * sizeof(t->of[0]));
	__atomic_store_n(&table, t, __ATOMIC_RELEASE);	/* pairs with hdl_autotune_of */
	return true;
}

/* Enters a controller. Returns the id; 0: no memory. Must: the lock is held. */
static uint32_t autotune_enter(struct hdl_autotune *t)
{
	uint32_t id = 1;

	while (table && id < table->n && table->of[id])
		id++;
	if ((!table || id == table->most) && !controllers_grow())
		return 0;
	table->of[id] = t;
	table->n = id < table->n ? table->n : id + 1;
	return id;
}

static void autotune_delete(struct hdl_autotune *t)
{
	free(t->label);
	free(t);
}

struct hdl_autotune *hdl_autotune_new(enum hdl_autotune_subject subject, uint32_t stated, const char *label, ...)
{
	struct hdl_autotune *t = calloc(1, sizeof(*t));
	va_list args;

	if (!t)
		return &shared;
	t->row = &rows[subject];
	t->stated = stated ? stated : rows[subject].stated;
	t->fixed = !strcmp(hdl_vars.tune, "fixed");
	va_start(args, label);
	if (hdl_vars.report_tuning && vasprintf(&t->label, label, args) < 0)
		t->label = NULL;
	va_end(args);
	pthread_mutex_lock(&lock);
	t->id = autotune_enter(t);
	pthread_mutex_unlock(&lock);
	if (t->id)
		return t;
	autotune_delete(t);
	return &shared;
}

void hdl_autotune_free(struct hdl_autotune *t)
{
	if (!t || t == &shared || hdl_vars.report_tuning)
		return;
	pthread_mutex_lock(&lock);
	table->of[t->id] = NULL;
	pthread_mutex_unlock(&lock);
	autotune_delete(t);
}

struct hdl_autotune *hdl_autotune_of(uint32_t id)
{
	return id ? __atomic_load_n(&table, __ATOMIC_ACQUIRE)->of[id] : &shared;
}

/* ---- stated ------------------------------------------------------------------------------------------------------- */

unsigned hdl_autotune_next(struct hdl_autotune *t, uint64_t now)
{
	unsigned candidate = 0;

	if (t->choice) {
		bool due = t->row->again_ns ? now >= t->again_ns : t->of[0].since >= t->of[0].every;
		candidate = !due;
		t->of[0].since++;
	}
	t->of[candidate].uses++;
	return candidate;
}

void hdl_autotune_took(struct hdl_autotune *t, uint64_t ns, uint64_t now)
{
	struct hdl_autotune_of *o = &t->of[0];
	bool won = ns <= t->stated;

	if (t->fixed)
		return;
	if (ns > HDL_TUNE_MOST(t->stated))
		ns = HDL_TUNE_MOST(t->stated);
	if (t->row->again_ns)
		t->ns = ns;
	else
		t->ns = !t->choice ? (t->row->memory * t->ns + ns) / (t->row->memory + 1) : (t->ns + ns) / 2;
	t->choice = t->ns > t->stated;
	if (!t->choice)
		o->every = 0;
	else if (won)
		o->every /= 2;		/* the machine may have changed its speed: the next trial comes sooner */
	else
		o->every = o->every < HDL_TUNE_STATED_RARE / 2 ? 2 * o->every + 1 : HDL_TUNE_STATED_RARE;
	o->since = 0;
	o->tries++;
	t->again_ns = now + t->row->again_ns;
}

void hdl_autotune_copied(struct hdl_autotune *t, size_t bytes, uint64_t ns)
{
	if (bytes < HDL_TUNE_LEAST)
		return;
	hdl_autotune_took(t, ns * 1024 / bytes, 0);
}

/* ---- paired ------------------------------------------------------------------------------------------------------- */

/* Returns the number of segments until the next trial: few for a candidate that lost by little, many for one that keeps losing by
 * much. The first trials come soon after each other: the start of a program is not typical. */
static uint32_t next_trial(uint32_t ratio, uint32_t every, uint32_t trials)
{
	uint32_t n = ratio < ONE + ONE / 8 ? 10 : ratio < ONE + ONE / 2 ? 32 : every < 64 ? 128 : 2 * every;

	if (trials < 7 && n > 1u << trials)
		n = 1u << trials;
	return n < HDL_TUNE_RARE ? n : HDL_TUNE_RARE;
}

/* Judges a trial by the segments of the choice before and after. */
static void autotune_judge(struct hdl_autotune *t, uint64_t base)
{
	unsigned w = t->trial_of, was = t->choice;
	struct hdl_autotune_of *o = &t->of[w];
	uint64_t r = t->trial * ONE / base + 1;
	uint32_t ratio = r < 64 * ONE ? (uint32_t)r : 64 * ONE, known = o->ratio;

	/* one trial may be an outlier, so the mean with the trials before counts */
	if (known && known < 4 * ONE)
		ratio = (ratio + known) / 2;
	o->ratio = ratio;
	o->trials++;
	if (ratio >= ONE - ONE / 32) {
		o->every = next_trial(ratio, o->every, o->trials);
		return;
	}
	o->ratio = 0;
	t->of[was].ratio = (uint32_t)((uint64_t)ONE * ONE / ratio);
	t->of[was].every = next_trial(t->of[was].ratio, 0, t->of[was].trials);
	t->of[was].since = 0;
	t->choice = (uint8_t)w;
	t->ns = base * ratio / ONE;
}

static void autotune_choice_again(struct hdl_autotune *t, uint64_t ns)
{
	uint64_t before = t->ns, trial = t->trial;

	t->of[0].since++;
	t->of[1].since++;
	t->ns = before ? (before + ns) / 2 : ns;
	if (!trial)
		return;
	/* else the machine has changed its speed meanwhile: the trial is not judged, and another comes soon */
	if (ns < before + before / 4 && before < ns + ns / 4)
		autotune_judge(t, t->ns);
	else
		t->ns = ns;
	t->trial = 0;
}

void hdl_autotune_segment(struct hdl_autotune *t, uint64_t ns)
{
	uint8_t was = t->now, other;

	if (t->fixed)
		return;
	t->of[was].tries += ns != 0;
	if (was != t->choice) {
		t->trial = ns;
		t->trial_of = was;
		t->of[was].since = 0;
	} else if (ns) {
		autotune_choice_again(t, ns);
	}
	/* behind a trial the choice gets at least one segment */
	t->now = t->choice;
	other = !t->choice;
	if (was == t->choice && t->ns && t->of[other].since > t->of[other].every)
		t->now = other;
}

void hdl_autotune_put_off(struct hdl_autotune *t, unsigned candidate)
{
	t->of[candidate].since = 0;
	if (t->of[candidate].every < HDL_TUNE_LATER)
		t->of[candidate].every = HDL_TUNE_LATER;
	t->now = t->choice;
}

void hdl_autotune_inherit(struct hdl_autotune *t, const struct hdl_autotune *from)
{
	if (!from->ns || !from->of[!from->choice].trials)
		return;
	t->choice = t->now = from->choice;
	for (int w = 0; w < 2; w++) {
		t->of[w].ratio = from->of[w].ratio;
		t->of[w].trials = 2;
		t->of[w].every = from->of[w].ratio < ONE + ONE / 4 ? 1 : 4;
	}
}

/* ---- the report --------------------------------------------------------------------------------------------------- */

/* Returns the cost of a candidate, ns per unit; 0: not known. */
static uint64_t cost_of(const struct hdl_autotune *t, unsigned candidate)
{
	if (t->stated)
		return candidate ? t->stated : t->ns;
	return candidate == t->choice ? t->ns : t->ns * t->of[candidate].ratio / ONE;
}

static void autotune_print(const struct hdl_autotune *t, FILE *out)
{
	fprintf(out, "heddle: tuning: rank %d: %s%s%s:", hdl_job.rank, t->row->subject, t->label && *t->label ? " " : "",
		t->label ? t->label : "");
	for (unsigned w = 0; w < 2; w++) {
		uint64_t ns = t->fixed ? 0 : cost_of(t, w);

		fprintf(out, " %s", t->row->candidate[w]);
		if (ns)
			fprintf(out, " %" PRIu64 " ns per %s", ns, t->row->unit);
		if (ns && t->stated && w)
			fprintf(out, " (stated)");
		else
			fprintf(out, " (%" PRIu64 " tries)", t->of[w].tries);
		fprintf(out, ", taken %" PRIu64 " times;", t->of[w].uses);
	}
	fprintf(out, " choice %s%s\n", t->row->candidate[t->choice], t->fixed ? " (HEDDLE_TUNE=fixed)" : "");
}

void hdl_autotune_fini(FILE *out)
{
	char *text = NULL;
	size_t len = 0;
	/* one write(2), so that lines of several ranks do not mix */
	FILE *lines = hdl_vars.report_tuning ? open_memstream(&text, &len) : NULL;

	for (uint32_t i = 1; table && i < table->n; i++) {
		if (!table->of[i])
			continue;
		if (lines)
			autotune_print(table->of[i], lines);
		autotune_delete(table->of[i]);
	}
	for (struct table *t; (t = table); free(t))
		table = t->old;
	if (!lines)
		return;
	fclose(lines);
	fwrite(text, 1, len, out);
	fflush(out);
	free(text);
}
