/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice between the ways of a rendezvous, by invented clocks. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/tune.h"

#define BOTH (1u << HDL_WAY_STAGE | 1u << HDL_WAY_READ)

static uint64_t now;

/* n messages one after the other, each costing ns[way]; how many went each way. */
static void run(struct hdl_tune *t, size_t len, unsigned n, const uint64_t ns[HDL_WAYS], unsigned went[HDL_WAYS])
{
	for (unsigned i = 0; i < n; i++) {
		enum hdl_way way = hdl_tune_begin(t, len, BOTH, now);
		went[way]++;
		now += ns[way];
		hdl_tune_end(t, len, false, now);
	}
}

Test(tune, finds_the_faster_way)
{
	for (int fast = 0; fast < HDL_WAYS; fast++) {
		struct hdl_tune t = { 0 };
		uint64_t ns[HDL_WAYS] = { 20000, 20000 };
		unsigned went[HDL_WAYS] = { 0 };
		ns[fast] = 10000;
		run(&t, 65536, 20000, ns, went);
		cr_assert(went[!fast] < 20000 / 20, "the slower way was taken %u times of 20000", went[!fast]);
		cr_assert(went[!fast] > 0, "the slower way was never tried");
	}
}

Test(tune, notices_that_the_other_way_became_faster)
{
	struct hdl_tune t = { 0 };
	uint64_t ns[HDL_WAYS] = { 10000, 13000 };
	unsigned went[HDL_WAYS] = { 0 };

	run(&t, 1 << 20, 5000, ns, went);
	ns[HDL_WAY_READ] = 5000;
	memset(went, 0, sizeof(went));
	run(&t, 1 << 20, 20000, ns, went);
	cr_assert(went[HDL_WAY_READ] > 15000, "the way that became faster was taken %u times of 20000", went[HDL_WAY_READ]);
}

/* The first transfers after a change of the way are slow: they must not decide. */
Test(tune, cold_episodes_do_not_count)
{
	struct hdl_tune t = { 0 };
	unsigned since = 0, reads = 0, n = 5000;
	enum hdl_way last = HDL_WAYS;

	for (unsigned i = 0; i < n; i++) {
		enum hdl_way way = hdl_tune_begin(&t, 1 << 20, BOTH, now);
		since = way == last ? since + 1 : 0;
		last = way;
		reads += way == HDL_WAY_READ;
		now += way == HDL_WAY_STAGE ? 100000 : since < 6 ? 400000 : 60000;
		hdl_tune_end(&t, 1 << 20, false, now);
	}
	cr_assert(reads > n * 3 / 4, "the way that is faster once warm was taken %u times of %u", reads, n);
}

/* Overlapping transfers of one class go one way; classes are learned apart. */
Test(tune, episodes_are_of_one_way)
{
	struct hdl_tune t = { 0 };

	for (unsigned round = 0; round < 500; round++) {
		enum hdl_way first = hdl_tune_begin(&t, 100000, BOTH, now);
		for (int i = 1; i < 16; i++)
			cr_assert_eq(hdl_tune_begin(&t, 100000, BOTH, now), first);
		for (int i = 0; i < 16; i++)
			hdl_tune_end(&t, 100000, false, now += first == HDL_WAY_STAGE ? 10000 : 5000);
		cr_assert_eq(t.active, 0);
	}
	cr_assert(t.class[2].cost[HDL_WAY_READ] < t.class[2].cost[HDL_WAY_STAGE]);
	for (int c = 0; c < HDL_TUNE_CLASSES; c++)
		cr_assert(c == 2 || !t.class[c].tried[HDL_WAY_STAGE], "class %d was never used", c);
}

Test(tune, takes_only_what_is_possible)
{
	struct hdl_tune t = { 0 };

	for (unsigned i = 0; i < 1000; i++) {
		unsigned possible = i % 3 ? BOTH : 1u << (i % 2);
		enum hdl_way way = hdl_tune_begin(&t, 1 << (14 + i % 9), possible, now);
		cr_assert(possible & 1u << way);
		hdl_tune_end(&t, 1 << (14 + i % 9), i % 7 == 0, now += 1000);
	}
}

/* A stream without a pause is one endless episode: it is cut. */
Test(tune, endless_streams_are_measured)
{
	struct hdl_tune t = { 0 };
	unsigned reads = 0;
	enum hdl_way way[2];

	way[0] = hdl_tune_begin(&t, 4 << 20, BOTH, now);
	for (unsigned i = 1; i < 20000; i++) {
		way[i & 1] = hdl_tune_begin(&t, 4 << 20, BOTH, now);
		reads += way[i & 1] == HDL_WAY_READ;
		now += way[!(i & 1)] == HDL_WAY_READ ? 200000 : 400000;
		hdl_tune_end(&t, 4 << 20, false, now);
	}
	cr_assert(reads > 15000, "the faster way was taken %u times of 20000", reads);
}
