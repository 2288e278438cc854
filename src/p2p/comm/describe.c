/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups as messages carry them: names of jobs, and runs of ranks of one job at a stride. A group of ranks of one job at a stride
 * takes one name and one run, at any size. The receiver need not know the jobs.
 */
#include "p2p/comm/group.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/jobs.h"

struct head {
	uint32_t jobs, runs;		/* number of the struct job that follow, each with its name; of the struct run behind
					 * them */
};
struct job {
	int32_t size;
	uint32_t name;			/* bytes of the name, its NUL included */
};
struct run {
	uint32_t job;			/* index of the job among those above */
	int32_t first, stride, n;
};

struct writer {
	char *jobs, *runs;
	size_t njobs_bytes, nruns_bytes;
	struct head head;
	uint64_t *ids;			/* hdl_proc_job of each job, in the order of jobs */
};

static bool describe_append(char **to, size_t *bytes, const void *data, size_t n)
{
	char *more = realloc(*to, *bytes + n);

	if (!more)
		return false;
	memcpy(more + *bytes, data, n);
	*to = more;
	*bytes += n;
	return true;
}

/* Returns the index of a process's job, which is added if it is new; -1: no memory. */
static int64_t job_index(struct writer *w, int proc)
{
	const struct hdl_other_job *other = hdl_job_of(proc);
	const char *nspace = other ? other->nspace : hdl_job.nspace;
	struct job job = { .size = other ? other->size : hdl_job.size, .name = (uint32_t)strlen(nspace) + 1 };
	uint64_t id = hdl_proc_job(proc);
	size_t ids = w->head.jobs * sizeof(id);

	/* newest first: consecutive ranks are mostly of one job */
	for (uint32_t i = w->head.jobs; i-- > 0;)
		if (w->ids[i] == id)
			return i;
	if (!describe_append(&w->jobs, &w->njobs_bytes, &job, sizeof(job)) ||
	    !describe_append(&w->jobs, &w->njobs_bytes, nspace, job.name) ||
	    !describe_append((char **)&w->ids, &ids, &id, sizeof(id)))
		return -1;
	return w->head.jobs++;
}

/* Returns the number of ranks from r on that form a run: one job, one stride. */
static int run_at(const struct hdl_group *g, int r, int *stride)
{
	int first = hdl_group_proc(g, r), n = 1;

	*stride = 1;
	while (r + n < g->size && hdl_job_of(hdl_group_proc(g, r + n)) == hdl_job_of(first)) {
		int step = hdl_group_proc(g, r + n) - hdl_group_proc(g, r + n - 1);

		if (n == 1)
			*stride = step;
		else if (step != *stride)
			break;
		n++;
	}
	return n;
}

void *hdl_group_describe(const struct hdl_group *g, size_t *bytes)
{
	struct writer w = { 0 };
	char *out = NULL;

	for (int r = 0; r < g->size; w.head.runs++) {
		struct run run = { .first = hdl_proc_rank(hdl_group_proc(g, r)) };
		int64_t job = job_index(&w, hdl_group_proc(g, r));

		run.n = run_at(g, r, &run.stride);
		run.job = (uint32_t)job;
		if (job < 0 || !describe_append(&w.runs, &w.nruns_bytes, &run, sizeof(run)))
			goto end;
		r += run.n;
	}
	*bytes = 0;
	if (describe_append(&out, bytes, &w.head, sizeof(w.head)) && describe_append(&out, bytes, w.jobs, w.njobs_bytes) &&
	    describe_append(&out, bytes, w.runs, w.nruns_bytes))
		goto end;
	free(out);
	out = NULL;
end:
	free(w.jobs);
	free(w.runs);
	free(w.ids);
	return out;
}

/* ---- reading ------------------------------------------------------------------------------------------- */

static bool describe_take(const char **at, size_t *rest, void *to, size_t n)
{
	if (*rest < n)
		return false;
	memcpy(to, *at, n);
	*at += n;
	*rest -= n;
	return true;
}

/* Sets first[i] to the number of the process of rank 0 in job i, and size[i] to its ranks. Returns 0 or a negative errno. */
static int read_jobs(const char **at, size_t *rest, uint32_t n, int *first, int *size)
{
	struct job job;

	for (uint32_t i = 0; i < n; i++) {
		if (!describe_take(at, rest, &job, sizeof(job)) || !job.name || job.name > *rest || (*at)[job.name - 1])
			return -EPROTO;
		first[i] = hdl_job_name(*at, job.size);
		if (first[i] < 0)
			return first[i];
		size[i] = job.size;
		*at += job.name;
		*rest -= job.name;
	}
	return 0;
}

static bool is_run(const struct run *run, uint32_t jobs, const int *size)
{
	int64_t last = run->first + (int64_t)run->stride * (run->n - 1);

	return run->job < jobs && run->stride && run->n > 0 && run->first >= 0 && run->first < size[run->job] && last >= 0 &&
	       last < size[run->job];
}

/* Returns the numbers of *total processes, malloc'd; NULL with errno. */
static int *read_runs(const char *at, size_t rest, const struct head *h, const int *first, const int *size, int *total)
{
	int *procs = NULL, *more;
	struct run run;
	int64_t n = 0;

	for (uint32_t i = 0; i < h->runs; i++) {
		if (!describe_take(&at, &rest, &run, sizeof(run)) || !is_run(&run, h->jobs, size) || n + run.n > INT32_MAX) {
			errno = EPROTO;
			goto bad;
		}
		more = realloc(procs, (size_t)(n + run.n) * sizeof(*procs));
		if (!more)
			goto bad;
		procs = more;
		for (int r = 0; r < run.n; r++)
			procs[n++] = first[run.job] + run.first + r * run.stride;
	}
	*total = (int)n;
	if (n)
		return procs;
	errno = EPROTO;
bad:
	free(procs);
	return NULL;
}

struct hdl_group *hdl_group_described(const void *data, size_t bytes)
{
	const char *at = data;
	struct hdl_group *g = NULL;
	struct head h = { 0 };
	int *jobs, *procs, n, err;

	if (!describe_take(&at, &bytes, &h, sizeof(h)) || h.jobs > bytes / sizeof(struct job)) {
		errno = EPROTO;
		return NULL;
	}
	jobs = calloc(2 * (size_t)h.jobs + 1, sizeof(*jobs));
	if (!jobs)
		return NULL;
	err = read_jobs(&at, &bytes, h.jobs, jobs, jobs + h.jobs);
	if (err)
		errno = -err;
	else if ((procs = read_runs(at, bytes, &h, jobs, jobs + h.jobs, &n)))
		g = hdl_group_table(procs, n);
	free(jobs);
	return g;
}
