/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that have gone. A program that spawns without end meets jobs without end, so the record of a job (runtime/jobs.h) is freed
 * when nothing in this process has a number of its processes any more:
 *     communicators, requests, windows, files    each counts, by its communicator (hdl_job_use)
 *     groups, of handles and constructors        hdl_groups_name
 *     messages that were not received            each has its source's number
 *     the list of failures                       hdl_ft_keeps: departures in order are removed; a failure keeps the job
 *     endpoints                                  hdl_tp_forget: departed.c frees those of processes that have ended
 *
 * The processes of the job may live: a process with which there was no message has no endpoint. If the job connects again, it has
 * other numbers.
 */
#include "p2p/comm/comm.h"
#include "p2p/comm/group.h"
#include "p2p/fault/fault.h"
#include "p2p/unexpected.h"

#include "runtime/jobs.h"

struct source_search {
	const struct hdl_other_job *job;
	bool found;
};

static void match_source(const struct hdl_unexpected *u, void *arg)
{
	struct source_search *s = arg;

	s->found |= u->src >= s->job->first && u->src - s->job->first < s->job->size;
}

/* If not, also forgets that processes of the job have ended or departed, and the addresses of the rest. */
static bool is_in_use(const struct hdl_other_job *job)
{
	struct source_search s = { .job = job };

	hdl_match_each_unexpected(hdl_mpi_matching, match_source, &s);
	if (s.found || hdl_groups_name(job->first, job->size) || hdl_ft_keeps(job->first, job->size) ||
	    !hdl_tp_forget(hdl_mpi_tp, job->first, job->size))
		return true;
	hdl_ft_forget(job->first, job->size);
	return false;
}

void hdl_jobs_free_gone(void)
{
	hdl_jobs_sweep(is_in_use);
}
