/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes by number (jobs.h). */
#include "runtime/jobs.h"

#include "base/fnv.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

static struct hdl_other_job **jobs;	/* in the order of their numbers, which is that of their hdl_job_name */
static int njobs, cap;
static int named;			/* numbers that were given to other jobs */
static void *by_id;			/* the same: tsearch(3) */

uint64_t hdl_job_id(const char *nspace)
{
	return fnv1a_64_string(nspace);
}

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = ((const struct hdl_other_job *)a)->id, y = ((const struct hdl_other_job *)b)->id;

	return x < y ? -1 : x > y;
}

static struct hdl_other_job *jobs_find(uint64_t id)
{
	struct hdl_other_job key = { .id = id }, **found = tfind(&key, &by_id, compare_ids);

	return found ? *found : NULL;
}

static int name_new(uint64_t id, const char *nspace, int size)
{
	int first = hdl_job.size + named;
	struct hdl_other_job *j, **more;

	if (size > INT_MAX - first)
		return -ENOSPC;
	if (njobs == cap) {
		more = realloc(jobs, (size_t)(cap ? 2 * cap : 4) * sizeof(*jobs));
		if (!more)
			return -ENOMEM;
		jobs = more;
		cap = cap ? 2 * cap : 4;
	}
	j = malloc(sizeof(*j) + strlen(nspace) + 1);
	if (!j)
		return -ENOMEM;
	*j = (struct hdl_other_job){ .id = id, .first = first, .size = size };
	strcpy(j->nspace, nspace);
	if (!tsearch(j, &by_id, compare_ids)) {
		free(j);
		return -ENOMEM;
	}
	jobs[njobs++] = j;
	named += size;
	return first;
}

int hdl_job_name(const char *nspace, int size)
{
	uint64_t id = hdl_job_id(nspace);
	const struct hdl_other_job *j = jobs_find(id);

	if (size < 1)
		return -EPROTO;
	if (id == hdl_job_id(hdl_job.nspace))
		return strcmp(nspace, hdl_job.nspace) || size != hdl_job.size ? -EPROTO : 0;
	if (j)
		return strcmp(nspace, j->nspace) || size != j->size ? -EPROTO : j->first;
	return name_new(id, nspace, size);
}

const struct hdl_other_job *hdl_job_of(int proc)
{
	static const struct hdl_other_job freed = { .size = INT_MAX, .left = true, .nspace = "(freed)" };
	int low = 0, high = njobs;

	if (hdl_proc_is_ours(proc))
		return NULL;
	while (high - low > 1) {		/* jobs[low]->first <= proc, unless jobs[0] is of a larger number */
		int mid = low + (high - low) / 2;

		if (jobs[mid]->first <= proc)
			low = mid;
		else
			high = mid;
	}
	return low < njobs && proc >= jobs[low]->first && proc - jobs[low]->first < jobs[low]->size ? jobs[low] : &freed;
}

bool hdl_jobs_are_several(void)
{
	return njobs;
}

void hdl_jobs_sweep(bool (*in_use)(const struct hdl_other_job *job))
{
	for (int i = njobs; i-- > 0;) {
		struct hdl_other_job *j = jobs[i];

		if (j->users || in_use(j))
			continue;
		memmove(&jobs[i], &jobs[i + 1], (size_t)(--njobs - i) * sizeof(*jobs));
		tdelete(j, &by_id, compare_ids);
		free(j);
	}
}

void (*hdl_job_on_use)(const char *nspace, bool more);

void hdl_job_use(int proc, int more)
{
	struct hdl_other_job *j = jobs_find(hdl_job_of(proc)->id);

	j->users += more;
	j->left = !j->users;
	if (j->users == (more > 0) && hdl_job_on_use)
		hdl_job_on_use(j->nspace, more > 0);
}

int hdl_proc_of(uint64_t job, uint32_t rank)
{
	const struct hdl_other_job *j;

	if (job == hdl_job_id(hdl_job.nspace))
		return rank < (uint32_t)hdl_job.size ? (int)rank : -1;
	j = jobs_find(job);
	return j && rank < (uint32_t)j->size ? j->first + (int)rank : -1;
}

uint64_t hdl_proc_job(int proc)
{
	return hdl_proc_is_ours(proc) ? hdl_job_id(hdl_job.nspace) : hdl_job_of(proc)->id;
}

bool hdl_proc_before(int a, int b)
{
	uint64_t x, y;

	if (hdl_proc_is_ours(a) && hdl_proc_is_ours(b))
		return a < b;
	x = hdl_proc_job(a);
	y = hdl_proc_job(b);
	return x != y ? x < y : hdl_proc_rank(a) < hdl_proc_rank(b);
}

/* By turns: a struct by value would lie in the frame of the reporting function, which may be on the fast path. Each
 * thread has buffers of its own: two threads that carry an instance of the transport each have no lock in common. */
static const char *jobs_text_of(int proc, const char *ours)
{
	static _Thread_local char texts[4][HDL_PROC_TEXT];
	static _Thread_local unsigned next;
	const struct hdl_other_job *j = hdl_job_of(proc);
	char *text = texts[next++ % 4];

	if (j)
		snprintf(text, sizeof(*texts), "rank %d of job %s", proc - j->first, j->nspace);
	else
		snprintf(text, sizeof(*texts), "rank %d%s", proc, ours);
	return text;
}

const char *hdl_proc_text(int proc)
{
	return jobs_text_of(proc, "");
}

const char *hdl_proc_text_full(int proc)
{
	return jobs_text_of(proc, " of MPI_COMM_WORLD");
}

static void nothing(void *node)
{
	(void)node;
}

void hdl_jobs_fini(void)
{
	tdestroy(by_id, nothing);
	by_id = NULL;
	while (njobs)
		free(jobs[--njobs]);
	free(jobs);
	jobs = NULL;
	cap = named = 0;
}
