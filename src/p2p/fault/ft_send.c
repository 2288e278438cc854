/* SPDX-License-Identifier: BSD-3-Clause */
/* Failure notices (fault.h): sending. */
#include "p2p/fault/fault.h"
#include "p2p/match.h"

/* The tag has the failed process's rank, the data the id of its job; no data: the sender's job. */
void hdl_ft_send_notice(int peer, struct hdl_comm *comm, uint16_t context, int proc, bool ended)
{
	const struct hdl_other_job *job = hdl_job_of(proc);
	int tag = HDL_FT_TAG | (hdl_proc_rank(proc) & HDL_FT_RANK);

	tag |= ended ? HDL_FT_ENDED : proc == hdl_job.rank || hdl_proc_gave_up(proc) ? HDL_FT_ALIVE : 0;
	hdl_send_note(peer, tag, comm, context, job ? &job->id : NULL, job ? sizeof(job->id) : 0);
}
