/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way transfers go while the ways of lines get shorter and longer. */
#include <criterion/criterion.h>

#include "lines/pace.h"

#define BYTES ((size_t)64 << 10)
#define QUICK (45 * (BYTES >> 10))	/* ns of such a copy */
#define SLOW (120 * (BYTES >> 10))

/* So many transfers; returns how many were copied. */
static int transfers(struct lines_pace *p, int n, uint64_t ns)
{
	int copied = 0;

	for (int i = 0; i < n; i++)
		if (lines_pace_next(p, LINES_PACE_QUICK)) {
			lines_pace_took(p, BYTES, ns, LINES_PACE_QUICK);
			copied++;
		}
	return copied;
}

Test(pace, all_are_copied_while_it_is_quick)
{
	struct lines_pace p = {0};

	cr_assert_eq(transfers(&p, 10000, QUICK), 10000);
	cr_assert_leq(p.ns, 45);
	cr_assert_eq(transfers(&p, 100, LINES_PACE_QUICK * (BYTES >> 10)), 100, "the bound itself is quick");
}

Test(pace, one_long_copy_says_nothing)
{
	struct lines_pace p = {0};

	for (int i = 0; i < 100; i++) {
		transfers(&p, 10, QUICK);
		cr_assert_eq(transfers(&p, 1, 1000000000), 1, "copy %d is not made", i);
		cr_assert(lines_pace_next(&p, LINES_PACE_QUICK), "what one copy takes longest counts no more than %u", LINES_PACE_MOST(LINES_PACE_QUICK));
	}
}

Test(pace, few_are_tried_while_it_is_slow)
{
	struct lines_pace p = {0};
	int first = transfers(&p, 64, SLOW), later;

	cr_assert_leq(first, 12, "%d of the first 64", first);
	transfers(&p, 1000, SLOW);
	later = transfers(&p, 64000, SLOW);
	cr_assert_eq(later, 1000, "%d of 64000: one each %d", later, LINES_PACE_PAUSE + 1);
}

Test(pace, a_change_is_noticed)
{
	struct lines_pace p = {0};

	for (int i = 0; i < 100; i++) {
		int slow;
		unsigned n = 0;

		slow = transfers(&p, 1000, SLOW);
		cr_assert_leq(slow, 30, "%d of 1000 slow ones are copied", slow);
		while (!lines_pace_next(&p, LINES_PACE_QUICK) || p.ns > LINES_PACE_QUICK) {
			if (!p.wait)
				lines_pace_took(&p, BYTES, QUICK, LINES_PACE_QUICK);
			cr_assert_leq(++n, 3 * (LINES_PACE_PAUSE + 1), "not noticed among %u", n);
		}
		cr_assert_eq(transfers(&p, 1000, QUICK), 1000);
	}
}

Test(pace, lengths_count_alike)
{
	struct lines_pace a = {0}, b = {0};

	for (int i = 0; i < 20; i++) {
		lines_pace_took(&a, 9 << 10, 9 * 50, LINES_PACE_QUICK);
		lines_pace_took(&b, 192 << 10, 192 * 50, LINES_PACE_QUICK);
	}
	cr_assert_eq(a.ns, b.ns);
}

Test(pace, what_is_too_short_to_be_timed_says_nothing)
{
	struct lines_pace p = {0};

	for (int i = 0; i < 100; i++) {
		lines_pace_took(&p, 16 << 10, 16 * 45, LINES_PACE_QUICK);
		lines_pace_took(&p, 8, 40, LINES_PACE_QUICK);	/* a segment's rest: it is the clock that took so long */
		lines_pace_took(&p, 0, 40, LINES_PACE_QUICK);
		cr_assert_leq(p.ns, 45, "%u ns each after %d", p.ns, i);
	}
	lines_pace_took(&p, LINES_PACE_LEAST, 1000, LINES_PACE_QUICK);
	cr_assert_gt(p.ns, 45, "the shortest that counts does not");
}

/* On a machine whose kernel copies quickly what would be quick elsewhere is not. */
Test(pace, what_is_quick_is_the_callers_to_say)
{
	struct lines_pace p = {0};
	int n = 0;

	for (int i = 0; i < 64; i++)
		if (lines_pace_next(&p, 20)) {
			lines_pace_took(&p, BYTES, QUICK, 20);
			n++;
		}
	cr_assert_leq(n, 12, "%d of 64", n);
	p = (struct lines_pace){0};
	for (int i = 0; i < 1000; i++) {
		cr_assert(lines_pace_next(&p, 130));
		lines_pace_took(&p, BYTES, SLOW, 130);
	}
}
