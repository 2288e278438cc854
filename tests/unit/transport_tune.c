/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between the ways of a rendezvous, by invented clocks. */
#include <criterion/criterion.h>
#include <string.h>

#include "runtime/runtime.h"
#include "transport/rndv/tune.h"

struct hdl_job hdl_job;
struct hdl_vars hdl_vars = { .tune = "auto" };

#define ALL ((1u << HDL_WAYS) - 1)

static uint64_t now = 1;

/* n messages one after the other, each costing ns[way]; how many went each way. */
static void run(struct hdl_tune *t, size_t len, unsigned n, const uint64_t ns[HDL_WAYS], unsigned went[HDL_WAYS])
{
	for (unsigned i = 0; i < n; i++) {
		hdl_tuned tuned;
		enum hdl_way way = hdl_tune_begin(t, len, false, ALL, now, &tuned);
		went[way]++;
		now += ns[way];
		hdl_tune_end(t, tuned, len, false, now);
	}
}

#define WINDOW 64

/* As many that begin before the first of them ends, each of them ns[way] behind the one before. */
static void run_window(struct hdl_tune *t, size_t len, bool both, const uint64_t ns[HDL_WAYS], unsigned went[HDL_WAYS])
{
	hdl_tuned tuned[WINDOW];
	enum hdl_way way[WINDOW];

	for (int i = 0; i < WINDOW; i++)
		went[way[i] = hdl_tune_begin(t, len, both, ALL, now, &tuned[i])]++;
	for (int i = 0; i < WINDOW; i++)
		hdl_tune_end(t, tuned[i], len, false, now += ns[way[i]]);
}

Test(tune, finds_the_fastest_way)
{
	for (int fast = 0; fast < HDL_WAYS; fast++) {
		struct hdl_tune t = { 0 };
		uint64_t ns[HDL_WAYS] = { 20000, 20000 };
		unsigned went[HDL_WAYS] = { 0 };
		ns[fast] = 10000;
		run(&t, 65536, 20000, ns, went);
		cr_assert(went[fast] > 20000 * 9 / 10, "the fastest way was taken %u times of 20000", went[fast]);
		for (int w = 0; w < HDL_WAYS; w++)
			cr_assert(went[w] > 0, "%s was never tried", hdl_way_name((enum hdl_way)w));
	}
}

Test(tune, notices_that_another_way_became_faster)
{
	struct hdl_tune t = { 0 };
	uint64_t ns[HDL_WAYS] = { 10000, 13000 };
	unsigned went[HDL_WAYS] = { 0 };

	run(&t, 1 << 20, 5000, ns, went);
	ns[HDL_WAY_SPLIT] = 5000;
	memset(went, 0, sizeof(went));
	run(&t, 1 << 20, 20000, ns, went);
	cr_assert(went[HDL_WAY_SPLIT] > 15000, "the way that became faster was taken %u times of 20000", went[HDL_WAY_SPLIT]);
}

/* All ways become slower and faster together, by more than they differ. */
Test(tune, compares_neighbours_in_time)
{
	struct hdl_tune t = { 0 };
	unsigned went[HDL_WAYS] = { 0 };

	for (unsigned i = 0; i < 100; i++) {
		uint64_t speed = i % 2 ? 20 : 7;
		uint64_t ns[HDL_WAYS] = { 1000 * speed, 800 * speed };
		run(&t, 100000, 1500, ns, went);
	}
	cr_assert(went[HDL_WAY_SPLIT] > 150000 * 8 / 10, "the fastest way was taken %u times of 150000", went[HDL_WAY_SPLIT]);
}

/* The first transfers after a change of the way are slow: they must not decide. */
Test(tune, cold_transfers_do_not_count)
{
	struct hdl_tune t = { 0 };
	unsigned since = 0, split = 0, n = 5000;
	enum hdl_way last = HDL_WAYS;

	for (unsigned i = 0; i < n; i++) {
		hdl_tuned tuned;
		enum hdl_way way = hdl_tune_begin(&t, 100000, false, ALL, now, &tuned);
		since = way == last ? since + 1 : 0;
		last = way;
		split += way == HDL_WAY_SPLIT;
		now += way != HDL_WAY_SPLIT ? 10000 : since < HDL_TUNE_COLD ? 40000 : 6000;
		hdl_tune_end(&t, tuned, 100000, false, now);
	}
	cr_assert(split > n * 3 / 4, "the way that is faster once warm was taken %u times of %u", split, n);
}

/* Nor the time between two messages, in which the program computes. */
Test(tune, pauses_do_not_count)
{
	struct hdl_tune t = { 0 };
	unsigned went[HDL_WAYS] = { 0 };

	for (unsigned i = 0; i < 20000; i++) {
		hdl_tuned tuned;
		enum hdl_way way = hdl_tune_begin(&t, 65536, false, ALL, now, &tuned);
		went[way]++;
		now += way == HDL_WAY_SPLIT ? 9000 : 10000;
		hdl_tune_end(&t, tuned, 65536, false, now);
		now += way == HDL_WAY_SPLIT ? 1000000 : 100000;
	}
	cr_assert(went[HDL_WAY_SPLIT] > 15000, "the fastest way was taken %u times of 20000", went[HDL_WAY_SPLIT]);
}

/* A way for which the peer does not come is given up at its first transfers, not after a whole segment. */
Test(tune, hopeless_trials_end_early)
{
	struct hdl_tune t = { 0 };
	uint64_t ns[HDL_WAYS] = { 10000, 10000000 };
	unsigned went[HDL_WAYS] = { 0 };

	run(&t, 65536, 20000, ns, went);
	cr_assert(went[HDL_WAY_SPLIT] < 60, "%u times of 20000", went[HDL_WAY_SPLIT]);
}

/* Overlapping transfers: transfers that end as a group are measured as a group; classes are learned apart. */
Test(tune, windows_are_measured)
{
	struct hdl_tune t = { 0 };
	const uint64_t ns[HDL_WAYS] = { [HDL_WAY_READ] = 10000, [HDL_WAY_SPLIT] = 7000 };
	unsigned went[HDL_WAYS] = { 0 };

	for (unsigned round = 0; round < 2000; round++) {
		run_window(&t, 60000, true, ns, went);
		cr_assert_eq(t.active, 0);
		now += 5000;
	}
	cr_assert(went[HDL_WAY_SPLIT] > 2000 * WINDOW * 8 / 10, "%u of 128000", went[HDL_WAY_SPLIT]);
	for (int c = 0; c < HDL_TUNE_CLASSES; c++)
		cr_assert(c == HDL_TUNE_SIZES + 2 || !t.class[c].tune, "class %d was never used", c);
}

/* A trial takes no more transfers than needed, also if many begin before the first of them ends. */
Test(tune, trials_are_short_in_windows)
{
	struct hdl_tune t = { 0 };
	const uint64_t ns[HDL_WAYS] = { [HDL_WAY_READ] = 60000, [HDL_WAY_SPLIT] = 100000 };
	unsigned went[HDL_WAYS] = { 0 };

	for (unsigned round = 0; round < 20; round++) {
		unsigned read = went[HDL_WAY_READ];
		run_window(&t, 1 << 20, false, ns, went);
		unsigned other = WINDOW - (went[HDL_WAY_READ] - read);
		cr_assert(other <= HDL_TUNE_COLD_LONG + HDL_TUNE_COUNT_LONG + 1, "%u of 64 were trials", other);
	}
	cr_assert(went[HDL_WAY_SPLIT]);
}

/* A new size begins with the result of the neighbouring size, and tries the other values a little later. */
Test(tune, neighbours_are_believed_at_first)
{
	struct hdl_tune t = { 0 };
	uint64_t ns[HDL_WAYS] = { 20000, 10000 };
	unsigned went[HDL_WAYS] = { 0 };

	run(&t, 65536, 2000, ns, went);
	memset(went, 0, sizeof(went));
	run(&t, 131072, 60, ns, went);
	cr_assert_eq(went[HDL_WAY_SPLIT], 60);
	/* but not for ever */
	ns[HDL_WAY_READ] = 5000;
	memset(went, 0, sizeof(went));
	run(&t, 131072, 5000, ns, went);
	cr_assert(went[HDL_WAY_READ] > 4000, "%u of 5000", went[HDL_WAY_READ]);
}

Test(tune, takes_only_what_is_possible)
{
	struct hdl_tune t = { 0 };

	for (unsigned i = 0; i < 3000; i++) {
		unsigned possible = i % 3 ? ALL : 1u << (i / 3 % HDL_WAYS);
		size_t len = (size_t)1 << (14 + i % 9);
		hdl_tuned tuned;
		enum hdl_way way = hdl_tune_begin(&t, len, i % 2, possible, now, &tuned);
		cr_assert(possible & 1u << way);
		cr_assert(tuned);
		hdl_tune_end(&t, tuned, len, i % 7 == 0, now += 1000);
	}
	cr_assert_eq(t.active, 0);
}

/* A stream without a pause, in which the next transfer begins before the one before has ended. */
Test(tune, endless_streams_are_measured)
{
	struct hdl_tune t = { 0 };
	unsigned splits = 0;
	hdl_tuned tuned[2];
	enum hdl_way way[2];

	way[0] = hdl_tune_begin(&t, 4 << 20, false, ALL, now, &tuned[0]);
	for (unsigned i = 1; i < 20000; i++) {
		way[i & 1] = hdl_tune_begin(&t, 4 << 20, false, ALL, now, &tuned[i & 1]);
		splits += way[i & 1] == HDL_WAY_SPLIT;
		now += way[!(i & 1)] == HDL_WAY_SPLIT ? 200000 : 400000;
		hdl_tune_end(&t, tuned[!(i & 1)], 4 << 20, false, now);
	}
	cr_assert(splits > 15000, "the fastest way was taken %u times of 20000", splits);
}

Test(tune, lists_of_ways)
{
	cr_assert_eq(hdl_ways_parse(""), ALL);
	cr_assert_eq(hdl_ways_parse("read"), 1u << HDL_WAY_READ);
	cr_assert_eq(hdl_ways_parse("split,write"), 1u << HDL_WAY_SPLIT);
	cr_assert_eq(hdl_ways_parse("write"), 0);
	cr_assert_eq(hdl_ways_parse("READ"), 1u << HDL_WAY_READ);
}

Test(tune, fixed_reads_whatever_the_clock_says)
{
	struct hdl_tune t = { 0 };
	uint64_t ns[HDL_WAYS] = { [HDL_WAY_READ] = 20000, [HDL_WAY_SPLIT] = 10000 };
	unsigned went[HDL_WAYS] = { 0 };
	hdl_tuned tuned;

	hdl_vars.tune = "fixed";
	run(&t, 65536, 5000, ns, went);
	cr_assert_eq(went[HDL_WAY_READ], 5000);
	cr_assert_eq(hdl_tune_begin(&t, 65536, false, 1u << HDL_WAY_SPLIT, now, &tuned), HDL_WAY_SPLIT,
		     "what is possible comes first");
	hdl_tune_end(&t, tuned, 65536, false, now);
	run(&t, 65536, 100, ns, went);
	cr_assert_eq(went[HDL_WAY_READ], 5100);
	hdl_tune_fini(&t);
}

Test(tune, classes_have_names)
{
	char text[HDL_TUNE_CLASS_TEXT];

	cr_assert_str_eq(hdl_tune_class_text(0, text), "up to 16 KiB");
	cr_assert_str_eq(hdl_tune_class_text(HDL_TUNE_SIZES - 1, text), "beyond 2048 KiB");
	cr_assert_str_eq(hdl_tune_class_text(HDL_TUNE_CLASSES - 1, text), "beyond 2048 KiB, both ways");
}
