/* SPDX-License-Identifier: BSD-3-Clause */
/* Controllers (runtime/autotune.h) by invented clocks; tests/unit/transport_tune.c drives the paired ones. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/autotune.h"
#include "runtime/runtime.h"

struct hdl_job hdl_job = { .rank = 5 };
struct hdl_vars hdl_vars = { .tune = "auto" };

#define BYTES ((size_t)64 << 10)
#define QUICK (45 * (BYTES >> 10))	/* ns of such a copy */
#define SLOW (120 * (BYTES >> 10))

static struct hdl_autotune *ring(void)
{
	return hdl_autotune_new(HDL_TUNE_RING, 0, "to rank %d", 1);
}

/* So many transfers; returns how many were copied. */
static int transfers(struct hdl_autotune *t, int n, uint64_t ns)
{
	int copied = 0;

	for (int i = 0; i < n; i++)
		if (!hdl_autotune_next(t, 0)) {
			hdl_autotune_copied(t, BYTES, ns);
			copied++;
		}
	return copied;
}

Test(autotune, all_are_copied_while_it_is_quick)
{
	struct hdl_autotune *t = ring();

	cr_assert_eq(transfers(t, 10000, QUICK), 10000);
	cr_assert_leq(t->ns, 45);
	cr_assert_eq(transfers(t, 100, HDL_TUNE_COPY_NS * (BYTES >> 10)), 100, "the bound itself is quick");
}

Test(autotune, one_long_copy_says_nothing)
{
	struct hdl_autotune *t = ring();

	for (int i = 0; i < 100; i++) {
		transfers(t, 10, QUICK);
		cr_assert_eq(transfers(t, 1, 1000000000), 1, "copy %d is not made", i);
		cr_assert(!hdl_autotune_next(t, 0), "what one copy takes longest counts no more than %u",
			  HDL_TUNE_MOST(HDL_TUNE_COPY_NS));
	}
}

Test(autotune, few_are_tried_while_it_is_slow)
{
	struct hdl_autotune *t = ring();
	int first = transfers(t, 64, SLOW), later;

	cr_assert_leq(first, 12, "%d of the first 64", first);
	transfers(t, 1000, SLOW);
	later = transfers(t, 64000, SLOW);
	cr_assert_eq(later, 1000, "%d of 64000: one each %d", later, HDL_TUNE_STATED_RARE + 1);
}

Test(autotune, a_change_is_noticed)
{
	struct hdl_autotune *t = ring();

	for (int i = 0; i < 100; i++) {
		int slow;
		unsigned n = 0;

		slow = transfers(t, 1000, SLOW);
		cr_assert_leq(slow, 30, "%d of 1000 slow ones are copied", slow);
		while (t->choice) {
			transfers(t, 1, QUICK);
			cr_assert_leq(++n, 3 * (HDL_TUNE_STATED_RARE + 1), "not noticed among %u", n);
		}
		cr_assert_eq(transfers(t, 1000, QUICK), 1000);
	}
}

Test(autotune, lengths_count_alike)
{
	struct hdl_autotune *a = ring(), *b = ring();

	for (int i = 0; i < 20; i++) {
		hdl_autotune_copied(a, 9 << 10, 9 * 50);
		hdl_autotune_copied(b, 192 << 10, 192 * 50);
	}
	cr_assert_eq(a->ns, b->ns);
}

Test(autotune, what_is_too_short_to_be_timed_says_nothing)
{
	struct hdl_autotune *t = ring();

	for (int i = 0; i < 100; i++) {
		hdl_autotune_copied(t, 16 << 10, 16 * 45);
		hdl_autotune_copied(t, 8, 40);	/* a segment's rest: the clock itself took so long */
		hdl_autotune_copied(t, 0, 40);
		cr_assert_leq(t->ns, 45, "%u ns each after %d", (unsigned)t->ns, i);
	}
	hdl_autotune_copied(t, HDL_TUNE_LEAST, 1000);
	cr_assert_gt(t->ns, 45, "the shortest that counts does not");
}

/* The caller gives the time that counts as quick: a machine with quick kernel copies takes a shorter one. */
Test(autotune, what_is_quick_is_the_callers_to_say)
{
	struct hdl_autotune *t = hdl_autotune_new(HDL_TUNE_STAGING, 20, "%s", "");
	int n = transfers(t, 64, QUICK);

	cr_assert_leq(n, 12, "%d of 64", n);
	t = hdl_autotune_new(HDL_TUNE_STAGING, 130, "%s", "");
	cr_assert_eq(transfers(t, 1000, SLOW), 1000);
}

/* Trials that go by time: one long yield is followed by none for 100 ms, then by one. */
Test(autotune, a_long_yield_is_followed_by_sleeps)
{
	struct hdl_autotune *t = hdl_autotune_new(HDL_TUNE_YIELD, 0, "%s", "");
	uint64_t now = 1000000000;

	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(hdl_autotune_next(t, now), 0, "yield %d", i);
		hdl_autotune_took(t, 50000, now += 50000);
	}
	cr_assert_eq(hdl_autotune_next(t, now), 0);
	hdl_autotune_took(t, 50001, now += 50001);
	for (int i = 0; i < 3; i++) {
		for (int n = 0; n < 1000; n++)
			cr_assert_eq(hdl_autotune_next(t, now + 99999), 1);
		cr_assert_eq(hdl_autotune_next(t, now + 99999999), 1);
		cr_assert_eq(hdl_autotune_next(t, now += 100000000), 0, "trial %d", i);
		hdl_autotune_took(t, 4000000, now += 4000000);
	}
	cr_assert_eq(hdl_autotune_next(t, now += 100000000), 0);
	hdl_autotune_took(t, 49000, now += 49000);
	cr_assert_eq(hdl_autotune_next(t, now), 0, "one short yield is enough");
}

Test(autotune, fixed_takes_the_default_whatever_the_clock_says)
{
	struct hdl_autotune *t[3];
	static const enum hdl_autotune_subject stated[] = { HDL_TUNE_RING, HDL_TUNE_STAGING, HDL_TUNE_YIELD };

	hdl_vars.tune = "fixed";
	for (int i = 0; i < 3; i++) {
		t[i] = hdl_autotune_new(stated[i], 20, "%s", "");
		for (int n = 0; n < 1000; n++) {
			cr_assert_eq(hdl_autotune_next(t[i], 1), 0, "subject %d", i);
			hdl_autotune_took(t[i], 1000000000, 1);
		}
	}
	hdl_vars.tune = "auto";
	cr_assert_eq(transfers(t[0], 100, SLOW), 100, "a controller stays as it was made");
}

Test(autotune, ids_lead_to_their_controllers)
{
	struct hdl_autotune *t[100];

	for (int i = 0; i < 100; i++) {
		t[i] = ring();
		cr_assert_eq(hdl_autotune_of(t[i]->id), t[i]);
	}
	for (int i = 0; i < 100; i += 2)
		hdl_autotune_free(t[i]);
	for (int i = 0; i < 100; i += 2)
		cr_assert_leq((t[i] = ring())->id, 100, "the place of one that was freed is used again");
	for (int i = 0; i < 100; i++)
		cr_assert_eq(hdl_autotune_of(t[i]->id), t[i]);
	cr_assert_eq(hdl_autotune_next(hdl_autotune_of(0), 0), 0, "whatever has no controller takes the default");
	hdl_autotune_took(hdl_autotune_of(0), 1000000000, 0);
	cr_assert_eq(hdl_autotune_next(hdl_autotune_of(0), 0), 0);
	hdl_autotune_fini(stderr);
	cr_assert_eq(hdl_autotune_next(hdl_autotune_of(0), 0), 0);
	cr_assert_eq(ring()->id, 1);
}

static char *report(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	hdl_autotune_fini(out);
	fclose(out);
	return text;
}

Test(autotune, the_report_has_costs_tries_and_choices)
{
	struct hdl_autotune *t;

	hdl_vars.report_tuning = true;
	t = ring();
	transfers(t, 10, QUICK);
	hdl_autotune_free(t);	/* is kept for the report */
	t = hdl_autotune_new(HDL_TUNE_STAGING, 20, "of %s", "MPI_COMM_WORLD");
	transfers(t, 4, SLOW);
	t = hdl_autotune_new(HDL_TUNE_RENDEZVOUS, 0, "up to %d KiB", 64);
	for (int i = 0; i < 3; i++) {
		t->of[t->now].uses += 4;
		hdl_autotune_segment(t, t->now ? 200000 : 100000);
	}
	hdl_vars.tune = "fixed";
	t = hdl_autotune_new(HDL_TUNE_YIELD, 0, "%s", "");
	hdl_autotune_next(t, 1);
	hdl_autotune_took(t, 1000, 2);
	cr_assert_str_eq(report(),
		"heddle: tuning: rank 5: eager ring to rank 1: ring 41 ns per KiB (10 tries), taken 10 times; "
		"rendezvous 75 ns per KiB (stated), taken 0 times; choice ring\n"
		"heddle: tuning: rank 5: staging of MPI_COMM_WORLD: staged 22 ns per KiB (3 tries), taken 3 times; "
		"in place 20 ns per KiB (stated), taken 1 times; choice in place\n"
		"heddle: tuning: rank 5: rendezvous up to 64 KiB: read 100000 ns per MiB (2 tries), taken 8 times; "
		"split 200097 ns per MiB (1 tries), taken 4 times; choice read\n"
		"heddle: tuning: rank 5: waiting: yield (0 tries), taken 1 times; sleep (0 tries), taken 0 times; "
		"choice yield (HEDDLE_TUNE=fixed)\n");
	cr_assert_str_empty(report(), "once is enough");
}

Test(autotune, no_report_unless_asked_for)
{
	hdl_autotune_free(ring());
	ring();
	cr_assert_str_empty(report());
}

/* A thread makes controllers, finds each by its id, and frees them, while others do the same. */
static void *makes_and_frees(void *arg)
{
	enum { ROUNDS = 2000, EACH = 40 };
	struct hdl_autotune *t[EACH];

	for (int r = 0; r < ROUNDS; r++) {
		for (int i = 0; i < EACH; i++)
			t[i] = ring();
		for (int i = 0; i < EACH; i++) {
			if (!t[i]->id || hdl_autotune_of(t[i]->id) != t[i])
				*(bool *)arg = true;
			hdl_autotune_free(t[i]);
		}
	}
	return NULL;
}

Test(autotune, threads_have_controllers_of_their_own)
{
	enum { THREADS = 4 };
	pthread_t thread[THREADS];
	bool wrong[THREADS] = { false };

	for (int i = 0; i < THREADS; i++)
		cr_assert(!pthread_create(&thread[i], NULL, makes_and_frees, &wrong[i]));
	for (int i = 0; i < THREADS; i++) {
		cr_assert(!pthread_join(thread[i], NULL));
		cr_expect(!wrong[i], "thread %d found another controller by an id", i);
	}
	hdl_autotune_fini(stderr);
}
