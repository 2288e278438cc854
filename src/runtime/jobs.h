/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes by number. What names a process, for ever and for everybody, is its job (the PMIx namespace) and its rank there. Inside this
 * process it has a number: the ranks of this job are their own numbers, and each other job is given a range of numbers, one for each of
 * its ranks, when it is first named here. So a process of any job is one int, ranks of a job at a stride are numbers at a stride, and two
 * numbers are equal when, and only when, the processes are.
 *
 * Numbers are this process's own: what travels is (job, rank). A range is never given to another job.
 */
#ifndef HDL_RUNTIME_JOBS_H
#define HDL_RUNTIME_JOBS_H

#include "runtime/runtime.h"

struct hdl_other_job {
	uint64_t id;			/* hdl_job_id(nspace); stays where it is until hdl_jobs_fini */
	int first, size;		/* its rank r has the number first + r */
	char nspace[];
};

/* What messages say instead of a namespace: a hash of it. */
uint64_t hdl_job_id(const char *nspace);
/* Names a job, also this one and one that was named before. The number of its rank 0, or -ENOMEM, -ENOSPC: no numbers are left;
 * -EPROTO: one of this id and of another name or size is known. */
int hdl_job_name(const char *nspace, int size);
/* NULL: of this one. */
const struct hdl_other_job *hdl_job_of(int proc);
/* The number of a process, or -1: there is no such job, or its rank. */
int hdl_proc_of(uint64_t job, uint32_t rank);
void hdl_jobs_fini(void);

/* A process of this job: its number is its rank. */
static inline bool hdl_proc_is_ours(int proc)
{
	return likely(proc < hdl_job.size);
}

static inline int hdl_proc_rank(int proc)
{
	return hdl_proc_is_ours(proc) ? proc : proc - hdl_job_of(proc)->first;
}

uint64_t hdl_proc_job(int proc);
/* An order that all processes see alike. */
bool hdl_proc_before(int a, int b);

/* "rank 3", or "rank 3 of job heddlerun.47.1"; good until some calls later, for the arguments of a message. */
#define HDL_PROC_TEXT 96
const char *hdl_proc_text(int proc);
/* The same, beside a rank in another communicator: "rank 3 of MPI_COMM_WORLD". */
const char *hdl_proc_text_full(int proc);

#endif
