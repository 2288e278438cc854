/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes by number. A process is identified, for ever and in all processes, by its job (the PMIx namespace) and its
 * rank there. Inside this process each has a number: the ranks of this job are their own numbers, and each other job is
 * given a range of numbers, one for each rank of the job, when the job is first named here. So a process of any job is
 * one int, ranks of a job at a stride are numbers at a stride, and two numbers are equal when, and only when, the
 * processes are.
 *
 * Numbers are valid in this process only: messages carry (job, rank). A range is never given to another job. The record of a job
 * is freed when nothing in this process has a number of the job any more (hdl_jobs_sweep, p2p/comm/jobs_gone.c). If the job is
 * named again after that, it gets another range.
 */
#ifndef HDL_RUNTIME_JOBS_H
#define HDL_RUNTIME_JOBS_H

#include "runtime/runtime.h"

struct hdl_other_job {
	uint64_t id;			/* hdl_job_id(nspace); the struct keeps its address until the job is freed */
	int first, size;		/* rank r of the job has the number first + r */
	int users;			/* communicators with members of the job (hdl_job_use) */
	bool left;			/* there were some, and none is left */
	char nspace[];
};

/* A hash of the namespace, which messages carry in its place. */
uint64_t hdl_job_id(const char *nspace);
/* Names a job, also this one and one that was named before. Returns the number of the job's rank 0, or -ENOMEM;
 * -ENOSPC: no numbers are left; -EPROTO: a job of the same id and of another name or size is known. */
int hdl_job_name(const char *nspace, int size);
/* The job of a process. NULL: this one. "(freed)": the job was freed, and the caller has kept a number that hdl_jobs_sweep did
 * not know of. */
const struct hdl_other_job *hdl_job_of(int proc);
/* The number of a process, or -1: there is no such job, or no such rank in the job. */
int hdl_proc_of(uint64_t job, uint32_t rank);
/* Counts (1) or uncounts (-1) a communicator with members of the job of this process, which is another one. The launcher is told
 * of the first and of the last: jobs with a common communicator are connected (MPI-5.0 section 11.10). */
void hdl_job_use(int proc, int more);
extern void (*hdl_job_on_use)(const char *nspace, bool more);	/* reports to the launcher; NULL: no report */
/* Returns true if another job is known. */
bool hdl_jobs_are_several(void);
/* Frees each other job that no communicator counts (hdl_job_use), and for which in_use returns false: nothing has a number of its
 * processes then. in_use may look numbers up. */
void hdl_jobs_sweep(bool (*in_use)(const struct hdl_other_job *job));
void hdl_jobs_fini(void);

/* Returns true if a process is of this job: then its number is its rank. */
static inline bool hdl_proc_is_ours(int proc)
{
	return likely(proc < hdl_job.size);
}

static inline int hdl_proc_rank(int proc)
{
	return hdl_proc_is_ours(proc) ? proc : proc - hdl_job_of(proc)->first;
}

uint64_t hdl_proc_job(int proc);
/* Returns true if a precedes b in an order that is the same in all processes. */
bool hdl_proc_before(int a, int b);

/* "rank 3", or "rank 3 of job heddlerun.47.1"; valid for some further calls, for the arguments of one message. */
#define HDL_PROC_TEXT 96
const char *hdl_proc_text(int proc);
/* The same, for texts that also name a rank of another communicator: "rank 3 of MPI_COMM_WORLD". */
const char *hdl_proc_text_full(int proc);

#endif
