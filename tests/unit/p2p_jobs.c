/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of several jobs: their numbers, groups of them, and groups as they travel. */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/comm/comm.h"
#include "p2p/comm/group.h"
#include "p2p/fault/fault.h"
#include "p2p_mock.h"
#include "runtime/jobs.h"

static int other, third;	/* the numbers of their ranks 0 */

static void jobs(void)
{
	mock_job(1, 4);
	strcpy(hdl_job.nspace, "own.1");
	other = hdl_job_name("other.1", 1000);
	third = hdl_job_name("third.1", 3);
}

static void clear(void)
{
	hdl_group_fini();
	hdl_jobs_fini();
}

TestSuite(jobs, .init = jobs, .fini = clear, .timeout = 60);

Test(jobs, have_numbers_of_their_own)
{
	cr_assert_eq(hdl_job_name("own.1", 4), 0);
	cr_assert_geq(other, 4);
	cr_assert_geq(third, other + 1000);
	cr_assert_eq(hdl_job_name("other.1", 1000), other, "the same job has the same numbers");
	cr_assert_null(hdl_job_of(3));
	cr_assert_str_eq(hdl_job_of(other)->nspace, "other.1");
	cr_assert_str_eq(hdl_job_of(other + 999)->nspace, "other.1");
	cr_assert_str_eq(hdl_job_of(third + 2)->nspace, "third.1");
	cr_assert_eq(hdl_proc_rank(other + 999), 999);
	cr_assert_eq(hdl_proc_rank(2), 2);
	for (int p = 0; p < third + 3; p += 83)
		if (p < 4 || p >= other)
			cr_assert_eq(hdl_proc_of(hdl_proc_job(p), (uint32_t)hdl_proc_rank(p)), p);
	cr_assert_eq(hdl_proc_of(hdl_job_id("third.1"), 3), -1);
	cr_assert_eq(hdl_proc_of(hdl_job_id("own.1"), 4), -1);
	cr_assert_eq(hdl_proc_of(hdl_job_id("fourth.1"), 0), -1);
	cr_assert_str_eq(hdl_proc_text(third + 2), "rank 2 of job third.1");
	cr_assert_str_eq(hdl_proc_text(2), "rank 2");
}

Test(jobs, that_contradict_are_refused)
{
	cr_assert_eq(hdl_job_name("other.1", 999), -EPROTO);
	cr_assert_eq(hdl_job_name("own.1", 5), -EPROTO);
	cr_assert_eq(hdl_job_name("none.1", 0), -EPROTO);
	cr_assert_eq(hdl_job_name("huge.1", INT_MAX), -ENOSPC);
	cr_assert_geq(hdl_job_name("large.1", INT_MAX / 2), third + 3);
}

Test(jobs, are_in_one_order_for_all)
{
	bool before = hdl_proc_before(0, other);
	uint64_t id = hdl_job_id("other.1"), own = hdl_job_id("own.1");

	cr_assert_eq(before, own < id);
	cr_assert_eq(hdl_proc_before(other, 0), !before);
	cr_assert(hdl_proc_before(other, other + 1));
	cr_assert_not(hdl_proc_before(other, other));
}

Test(jobs, many)
{
	char name[32];
	int first[500];

	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "job.%d", i);
		first[i] = hdl_job_name(name, i + 1);
		cr_assert_geq(first[i], third + 3);
	}
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "job.%d", i);
		cr_assert_str_eq(hdl_job_of(first[i])->nspace, name);
		cr_assert_str_eq(hdl_job_of(first[i] + i)->nspace, name);
		cr_assert_eq(hdl_proc_of(hdl_job_id(name), (uint32_t)i), first[i] + i);
	}
}

static struct hdl_group *table(const int *procs, int n)
{
	int *copy = malloc((size_t)n * sizeof(*copy));

	memcpy(copy, procs, (size_t)n * sizeof(*copy));
	return hdl_group_table(copy, n);
}

Test(jobs, share_a_group)
{
	int procs[20], n = 0;
	struct hdl_group *g, *own = hdl_group_range(0, 1, 4), *far = hdl_group_range(other, 3, 300);

	for (int r = 0; r < 10; r++)
		procs[n++] = other + 7 * r * r;
	for (int r = 3; r >= 0; r--)
		procs[n++] = r;
	procs[n++] = third + 1;
	g = table(procs, n);
	cr_assert_eq(g->rank, 12, "this process");
	for (int r = 0; r < n; r++)
		cr_assert_eq(hdl_group_rank_of(g, procs[r]), r);
	cr_assert_eq(hdl_group_rank_of(g, third), MPI_UNDEFINED);
	cr_assert_eq(hdl_group_rank_of(g, other + 1), MPI_UNDEFINED);
	cr_assert(hdl_group_is_world(own));
	cr_assert_eq(hdl_group_rank_of(own, other), MPI_UNDEFINED);
	cr_assert_null(far->procs);
	cr_assert_eq(far->rank, MPI_UNDEFINED);
	cr_assert_eq(hdl_group_rank_of(far, other + 300), 100);
	cr_assert_eq(hdl_group_rank_of(far, 0), MPI_UNDEFINED);
	cr_assert(hdl_group_spans_jobs(own, far));
	cr_assert(hdl_group_spans_jobs(g, g));
	cr_assert_not(hdl_group_spans_jobs(far, far));
	cr_assert_not(hdl_group_spans_jobs(own, own));
	hdl_group_release(g);
	hdl_group_release(own);
	hdl_group_release(far);
}

/* Reads this process's description as another process would, which numbers the jobs in another order. */
static void travels(struct hdl_group *g, size_t most)
{
	uint64_t job[32];
	int rank[32];
	size_t bytes;
	void *data = hdl_group_describe(g, &bytes);
	struct hdl_group *read;

	cr_assert_not_null(data);
	cr_assert_leq(bytes, most);
	for (int r = 0; r < g->size && r < 32; r++) {
		job[r] = hdl_proc_job(hdl_group_proc(g, r));
		rank[r] = hdl_proc_rank(hdl_group_proc(g, r));
	}
	hdl_jobs_fini();
	mock_job(0, 3);
	strcpy(hdl_job.nspace, "third.1");
	cr_assert_geq(hdl_job_name("some.1", 5), 3);
	/* a part of it is refused, and nothing is read behind its end */
	for (size_t n = 0; n < bytes; n++) {
		void *part = malloc(n + 1);

		memcpy(part, data, n);
		read = hdl_group_described(part, n);
		cr_assert(!read && errno == EPROTO);
		free(part);
	}
	read = hdl_group_described(data, bytes);
	cr_assert_not_null(read);
	cr_assert_eq(read->size, g->size);
	for (int r = 0; r < g->size && r < 32; r++) {
		cr_assert_eq(hdl_proc_job(hdl_group_proc(read, r)), job[r]);
		cr_assert_eq(hdl_proc_rank(hdl_group_proc(read, r)), rank[r]);
	}
	free(data);
	hdl_group_release(read);
	hdl_group_release(g);
	hdl_jobs_fini();
	jobs();
}

Test(jobs, travel_by_name)
{
	int mixed[] = { third + 2, 1, third, 3, other + 9, other + 8, other + 500, 0, third + 1 };

	travels(hdl_group_range(0, 1, 4), 64);
	travels(hdl_group_range(other + 999, -2, 500), 64);
	travels(table(mixed, 9), 256);
}

Test(jobs, that_are_none_are_refused)
{
	struct { uint32_t jobs, runs; int32_t size; uint32_t name; char nspace[8]; uint32_t job; int32_t first, stride, n; } d,
		good = {
		1, 1, 1000, 8, "other.1", 0, 10, 2, 3 };
	struct hdl_group *g = hdl_group_described(&good, sizeof(good));

	cr_assert(g && g->size == 3 && hdl_group_proc(g, 2) == other + 14);
	hdl_group_release(g);
#define BAD(change)										\
	do {											\
		d = good;									\
		change;										\
		cr_assert(!hdl_group_described(&d, sizeof(d)) && errno == EPROTO, "%s", #change);	\
	} while (0)
	BAD(d.job = 1);
	BAD(d.first = -1);
	BAD(d.first = 996);
	BAD(d.stride = 0);
	BAD(d.stride = INT_MIN);
	BAD(d.n = 0);
	BAD(d.n = INT_MAX);
	BAD(d.size = 999);
	BAD(d.name = 7);
	BAD(d.name = 0);
	BAD(d.name = UINT32_MAX);
	BAD(d.jobs = UINT32_MAX);
	BAD(d.runs = 2);
	BAD(d.runs = 0);
}

/* ---- jobs that nothing names any more --------------------------------------------------------------------- */

static uint64_t id_of_other;

static bool is_known(int first, const char *name)
{
	return hdl_proc_of(hdl_job_id(name), 0) == first;
}

static void gone(void)
{
	jobs();
	cr_assert_eq(hdl_p2p_init(), 0);
	id_of_other = hdl_job_id("other.1");
}

static void gone_clear(void)
{
	mock_keeps = false;
	cr_assert_eq(hdl_p2p_fini(false), 0);
	hdl_jobs_fini();
}

TestSuite(jobs_gone, .init = gone, .fini = gone_clear, .timeout = 60);

Test(jobs_gone, are_freed)
{
	int fourth = hdl_job_name("fourth.1", 7);

	hdl_job_use(third, 1);
	hdl_jobs_free_gone();
	cr_assert_eq(hdl_proc_of(id_of_other, 0), -1);
	cr_assert(is_known(third, "third.1"), "a communicator counts the job");
	cr_assert_eq(hdl_proc_of(hdl_job_id("fourth.1"), 0), -1);
	cr_assert_str_eq(hdl_job_of(third + 2)->nspace, "third.1");
	cr_assert_str_eq(hdl_proc_text(third), "rank 0 of job third.1");
	/* numbers without a job: below, above, and in no job's place */
	cr_assert_str_eq(hdl_job_of(other)->nspace, "(freed)");
	cr_assert_str_eq(hdl_job_of(fourth + 6)->nspace, "(freed)");
	hdl_job_use(third, -1);
	hdl_jobs_free_gone();
	cr_assert_not(hdl_jobs_are_several());
	cr_assert_str_eq(hdl_job_of(third)->nspace, "(freed)");
	cr_assert_geq(hdl_job_name("other.1", 1000), fourth + 7, "numbers are not given again");
}

Test(jobs_gone, but_for_groups)
{
	int procs[] = { other + 7, 0, third + 2, other + 900 };
	struct hdl_group *g = table(procs, 4);

	hdl_jobs_free_gone();
	cr_assert(is_known(other, "other.1") && is_known(third, "third.1"));
	hdl_group_release(g);
	g = hdl_group_range(third + 2, -2, 2);
	hdl_jobs_free_gone();
	cr_assert(!is_known(other, "other.1") && is_known(third, "third.1"));
	hdl_group_release(g);
	hdl_jobs_free_gone();
	cr_assert_not(is_known(third, "third.1"));
}

/* Groups with the last number of a job, with numbers of a job at their end only, and with none. */
Test(jobs_gone, but_for_the_ends_of_groups)
{
	for (int i = 0; i < 4; i++) {
		struct hdl_group *g;

		other = hdl_job_name("other.1", 1000);
		third = hdl_job_name("third.1", 3);
		g = i == 0 ? hdl_group_range(0, 1, 4) :
		    i == 1 ? hdl_group_range(0, other, 2) :
		    i == 2 ? hdl_group_range(third, 1, 3) :
			     hdl_group_range(other + 999, 1, 1);
		hdl_jobs_free_gone();
		cr_assert_eq(is_known(other, "other.1"), i % 2, "%d", i);
		cr_assert_eq(is_known(third, "third.1"), i == 2, "%d", i);
		hdl_group_release(g);
	}
}

Test(jobs_gone, but_for_messages)
{
	mock_eager(third + 1, 5, 0, "x", 1);
	hdl_jobs_free_gone();
	cr_assert(!is_known(other, "other.1") && is_known(third, "third.1"));
}

Test(jobs_gone, but_for_endpoints)
{
	mock_keeps = true;
	hdl_ft_record_departed(third);
	hdl_jobs_free_gone();
	cr_assert(is_known(other, "other.1") && is_known(third, "third.1"));
	cr_assert_eq(hdl_ft_count, 1, "the list has what it had");
}

Test(jobs_gone, but_for_failures)
{
	hdl_ft_record_departed(other);
	hdl_ft_record_failed(third);
	hdl_ft_record_departed(other + 999);
	hdl_jobs_free_gone();
	cr_assert(!is_known(other, "other.1") && is_known(third, "third.1"));
	cr_assert_eq(hdl_ft_count, 1);
	cr_assert_eq(hdl_ft_list[0].proc, third);
}

/* A departure that is a failure as well, in either order, and one that an error of the program's has covered. */
Test(jobs_gone, but_for_failures_and_departures)
{
	hdl_ft_record_departed(other);
	hdl_ft_record_failed(other);
	hdl_ft_record_failed(third);
	hdl_ft_record_departed(third);
	hdl_jobs_free_gone();
	cr_assert(is_known(other, "other.1") && is_known(third, "third.1"));
}

Test(jobs_gone, but_for_errors)
{
	hdl_ft_record_departed(other);
	hdl_ft_records_tell_program();
	hdl_ft_record_departed(third);
	hdl_jobs_free_gone();
	cr_assert(is_known(other, "other.1") && !is_known(third, "third.1"));
	cr_assert(hdl_ft_count == 1 && hdl_ft_reported == 1 && hdl_ft_list[0].proc == other);
}
