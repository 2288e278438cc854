/* SPDX-License-Identifier: BSD-3-Clause */
/* The selection of queue kinds, as a table. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/connect/select.h"

#define UD HDL_QUEUE_BIT(HDL_QUEUE_UD)
#define RC HDL_QUEUE_BIT(HDL_QUEUE_RC)
#define XRC HDL_QUEUE_BIT(HDL_QUEUE_XRC)
#define DC HDL_QUEUE_BIT(HDL_QUEUE_DC)
#define ALL HDL_QUEUE_ALL
#define RC_MOST 256

static const struct {
	const char *name;
	struct hdl_select in;
	enum hdl_queue want;
} table[] = {
	/* first contact */
	{ "first contact is UD", { true, ALL, ALL, 2, 2, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_UD },
	{ "one message short of hot", { true, ALL, ALL, 2, 2, 0, 15, 16, false, RC_MOST }, HDL_QUEUE_UD },
	{ "hot", { true, ALL, ALL, 2, 2, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_RC },
	{ "rendezvous wants RDMA at once", { true, ALL, ALL, 2, 2, 0, 0, 16, true, RC_MOST }, HDL_QUEUE_RC },
	{ "the large job's first contact is UD as well", { false, ALL, ALL, 5000, 64, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_UD },
	/* size of the job */
	{ "hot in a large job", { false, ALL, ALL, 5000, 64, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "the last small job", { false, ALL, ALL, HDL_SELECT_LARGE_JOB, 64, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_RC },
	{ "the first large job", { false, ALL, ALL, HDL_SELECT_LARGE_JOB + 1, 64, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "large job without DC", { false, UD | RC | XRC, ALL, 5000, 64, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_XRC },
	{ "large job without DC, few ranks per node", { false, UD | RC | XRC, ALL, 5000, 2, 0, 16, 16, false, RC_MOST },
	  HDL_QUEUE_RC },
	{ "large job, peer on this host", { true, ALL, ALL, 5000, 64, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_RC },
	{ "only RC and UD in a large job", { false, UD | RC, ALL, 5000, 64, 10, 16, 16, false, RC_MOST }, HDL_QUEUE_RC },
	/* many peers */
	{ "RC peers used up, DC", { true, ALL, ALL, 5000, 64, RC_MOST, 16, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "RC peers used up, XRC", { true, UD | RC | XRC, ALL, 5000, 64, RC_MOST, 16, 16, false, RC_MOST },
	  HDL_QUEUE_XRC },
	{ "RC peers used up, UD", { true, UD | RC, ALL, 5000, 64, RC_MOST, 16, 16, false, RC_MOST }, HDL_QUEUE_UD },
	{ "RC peers used up, nothing else", { true, RC, ALL, 5000, 64, RC_MOST, 16, 16, false, RC_MOST },
	  HDL_QUEUE_RC },
	/* restrictions */
	{ "rc only", { true, ALL, RC, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_RC },
	{ "ud only", { true, ALL, UD, 4, 4, 0, 1000, 16, true, RC_MOST }, HDL_QUEUE_UD },
	{ "xrc only", { true, ALL, XRC, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_XRC },
	{ "dc only", { true, ALL, DC, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "xrc or dc", { true, ALL, XRC | DC, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "ud or dc, hot", { true, ALL, UD | DC, 4, 4, 0, 16, 16, false, RC_MOST }, HDL_QUEUE_DC },
	{ "not possible", { true, RC | UD, DC, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_NONE },
	{ "nothing", { true, 0, ALL, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_NONE },
	/* devices */
	{ "no UD (siw): RC at once", { false, RC, ALL, 4, 4, 0, 0, 16, false, RC_MOST }, HDL_QUEUE_RC },
	{ "UD only device", { false, UD, ALL, 4, 4, 0, 99, 16, true, RC_MOST }, HDL_QUEUE_UD },
};

Test(select, table)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *why = NULL;
		enum hdl_queue got = hdl_select_queue(&table[i].in, &why);
		cr_expect_eq(got, table[i].want, "%s: %s (%s), not %s", table[i].name, hdl_queue_name(got), why,
			     hdl_queue_name(table[i].want));
		cr_expect(why && *why, "%s: no reason is given", table[i].name);
	}
}

/* For all inputs: never a kind that is impossible or not allowed, never none when one is possible. */
Test(select, stays_within_what_is_possible)
{
	for (unsigned caps = 0; caps < 32; caps += 2)
		for (unsigned allowed = 0; allowed < 32; allowed += 2)
			for (int v = 0; v < 64; v++) {
				struct hdl_select s = { .same_host = v & 1,
							.caps = caps,
							.allowed = allowed,
							.job_size = v & 2 ? 10000 : 4,
							.ppn = v & 4 ? 128 : 1,
							.rc_peers = v & 8 ? 1000 : 0,
							.messages = v & 16 ? 100 : 0,
							.hot = 16,
							.rdma = v & 32,
							.rc_most = RC_MOST };
				enum hdl_queue q = hdl_select_queue(&s, NULL);
				if (!(caps & allowed))
					cr_assert_eq(q, HDL_QUEUE_NONE);
				else
					cr_assert(caps & allowed & HDL_QUEUE_BIT(q));
				if (s.rc_peers < s.job_size && q != HDL_QUEUE_NONE)
					cr_assert(hdl_select_possible(caps, allowed, s.job_size, s.ppn, s.rc_most) &
							  HDL_QUEUE_BIT(q),
						  "%s may be chosen but its resources would not exist",
						  hdl_queue_name(q));
			}
}

Test(select, small_jobs_need_no_xrc_and_no_dc)
{
	cr_expect_eq(hdl_select_possible(ALL, ALL, 4, 4, RC_MOST), UD | RC);
	cr_expect_eq(hdl_select_possible(ALL, XRC, 4, 4, RC_MOST), XRC);
	cr_expect_eq(hdl_select_possible(RC | UD, DC, 4, 4, RC_MOST), 0u);
	/* unless few RC connections are wanted */
	cr_expect_eq(hdl_select_possible(ALL, ALL, 4, 4, 2), UD | RC | DC);
	/* or none: peers that have no such limit take RC */
	cr_expect_eq(hdl_select_possible(ALL, ALL, 4, 4, 0), UD | RC | DC);
	cr_expect_eq(hdl_select_possible(ALL, RC | XRC, 4, 4, 0), RC | XRC);
}

/* HEDDLE_RC_PEERS need not be the same on all ranks: two ranks with different limits have a kind in common, and so one to be
 * selected. */
Test(select, any_two_limits_have_a_kind_in_common)
{
	static const int limits[] = { 0, 1, 3, 4, RC_MOST, 20000 };
	const unsigned n = sizeof(limits) / sizeof(limits[0]);

	for (unsigned allowed = 2; allowed < 32; allowed += 2)
		for (int v = 0; v < 8; v++)
			for (unsigned i = 0; i < n * n; i++) {
				int job_size = v & 1 ? 10000 : 4, ppn = v & 2 ? 128 : 1, mine = limits[i / n],
				    theirs = limits[i % n];
				unsigned both = hdl_select_possible(ALL, allowed, job_size, ppn, mine) &
						hdl_select_possible(ALL, allowed, job_size, ppn, theirs);
				struct hdl_select s = { .same_host = v & 4, .caps = both, .allowed = allowed,
							.job_size = job_size, .ppn = ppn, .rc_peers = mine, .messages = 1,
								.hot = 1, .rc_most = mine };

				cr_assert(both, "allowed %#x, %d ranks, %d per host: nothing in common with limits %d and %d",
					  allowed, job_size, ppn, mine, theirs);
				cr_assert_neq(hdl_select_queue(&s, NULL), HDL_QUEUE_NONE);
				if (allowed & HDL_QUEUE_CONNECTED)
					cr_assert(both & HDL_QUEUE_CONNECTED,
						  "allowed %#x, %d ranks, %d per host, limits %d and %d: no RDMA write",
						  allowed, job_size, ppn, mine, theirs);
			}
}

Test(select, lists)
{
	char bad[16];
	unsigned set;

	cr_expect_eq(hdl_queue_parse("", &set, bad, sizeof(bad)), 0);
	cr_expect_eq(set, ALL);
	cr_expect_eq(hdl_queue_parse(NULL, &set, bad, sizeof(bad)), 0);
	cr_expect_eq(set, ALL);
	cr_expect_eq(hdl_queue_parse("rc", &set, bad, sizeof(bad)), 0);
	cr_expect_eq(set, RC);
	cr_expect_eq(hdl_queue_parse("XRC,dc, ud", &set, bad, sizeof(bad)), 0);
	cr_expect_eq(set, XRC | DC | UD);
	cr_expect_eq(hdl_queue_parse("rc,xr", &set, bad, sizeof(bad)), -1);
	cr_expect_str_eq(bad, "xr");
	cr_expect_eq(hdl_queue_parse("none", &set, bad, sizeof(bad)), -1);
	cr_expect_eq(hdl_queue_parse("averyveryverylongword", &set, bad, sizeof(bad)), -1);
	cr_expect_str_eq(bad, "averyveryverylo");
}
