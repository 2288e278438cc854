/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of the wait policy (runtime/wait.h). */
#include <criterion/criterion.h>

#include "runtime/wait.h"

struct hdl_job hdl_job;
struct hdl_vars hdl_vars = { .spin = 7 };
bool hdl_threads;

static bool may_spin;
static unsigned yields, opens, closes;

bool hdl_waiters_may_spin(void)
{
	return may_spin;
}

unsigned hdl_lock_open_slow(void)
{
	opens++;
	return 3;
}

void hdl_lock_close_slow(unsigned depth)
{
	cr_assert_eq(depth, 3);
	closes++;
}

int sched_yield(void)
{
	yields++;
	return 0;
}

/* Steps until the budget is spent, as text: a number of spins, y for a yield. */
static const char *steps(struct hdl_wait w, bool needed)
{
	static char text[256];
	size_t n = 0;
	unsigned spins = 0;

	yields = 0;
	for (unsigned before = 0; hdl_wait_step(&w, needed); before = yields) {
		cr_assert_eq(w.fresh, !yields);
		if (yields == before) {
			spins++;
			continue;
		}
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u y ", spins);
		spins = 0;
	}
	snprintf(text + n, sizeof(text) - n, "%u", spins);
	cr_assert(!hdl_wait_step(&w, needed) && (hdl_threads || !hdl_wait_step(&w, false)), "a spent budget stays spent");
	return text;
}

Test(wait, own_cpu_spins_and_ends)
{
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_LOCK, false), false), "100");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_CELLS, false), false), "100");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_COPIES, false), false), "400");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_CELLS, false), true), "100", "an own CPU is needed by nobody else");
}

Test(wait, shared_cpu_yields_at_once_if_needed)
{
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_CELLS, true), true), "0 y 0 y 0 y 0");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_COPIES, true), true), "0 y 0 y 0 y 0");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_LOCK, true), false), "0", "a shared CPU: the lock's next owner sleeps");
}

Test(wait, shared_cpu_spins_shortly_if_others_are_missing)
{
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_CELLS, true), false), "10 y 10 y 10 y 0");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_COPIES, true), false), "100 y 100 y 100 y 0");
}

/* needed changes while the wait lasts: the spins of a round are no more than its own. */
Test(wait, a_round_that_is_cut_short)
{
	struct hdl_wait w = hdl_wait_begin(HDL_WAIT_CELLS, true);

	yields = 0;
	for (int i = 0; i < 4; i++)
		cr_assert(hdl_wait_step(&w, false));
	cr_assert(hdl_wait_step(&w, true));
	cr_assert_eq(yields, 1);
	for (int i = 0; i < 10; i++)
		cr_assert(hdl_wait_step(&w, false));
	cr_assert_eq(yields, 1);
	cr_assert(hdl_wait_step(&w, false));
	cr_assert_eq(yields, 2);
}

Test(wait, a_holder_of_the_lock_does_not_yield)
{
	hdl_threads = true;
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_CELLS, true), true), "0");
	cr_assert_str_eq(steps(hdl_wait_begin(HDL_WAIT_COPIES, true), false), "100");
	cr_assert_eq(opens, 0);
}

Test(wait, a_yield_opens_the_lock)
{
	hdl_wait_yield();
	cr_assert(yields == 1 && !opens && !closes, "without threads there is no lock");
	hdl_threads = true;
	hdl_wait_yield();
	cr_assert(yields == 2 && opens == 1 && closes == 1);
}

Test(wait, spins_then_yields_then_sleeps)
{
	cr_assert_eq(hdl_wait_nth(0, 2, 3), HDL_WAIT_SPIN);
	cr_assert_eq(hdl_wait_nth(1, 2, 3), HDL_WAIT_SPIN);
	cr_assert_eq(hdl_wait_nth(2, 2, 3), HDL_WAIT_YIELD);
	cr_assert_eq(hdl_wait_nth(4, 2, 3), HDL_WAIT_YIELD);
	cr_assert_eq(hdl_wait_nth(5, 2, 3), HDL_WAIT_SLEEP);
	cr_assert_eq(hdl_wait_nth(5000, 2, 3), HDL_WAIT_SLEEP);
	cr_assert_eq(hdl_wait_nth(0, 0, 0), HDL_WAIT_SLEEP);
	cr_assert_eq(hdl_wait_nth(0, 0, 1), HDL_WAIT_YIELD);
	cr_assert_eq(hdl_wait_spins(), 0);
	may_spin = true;
	cr_assert_eq(hdl_wait_spins(), 7);
}
