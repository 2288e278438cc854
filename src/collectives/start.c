/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and ending the runs of plans: the run gets the communicator's next number, and goes to the host executor or to the
 * queues of mailbox and tasks.
 */
#include "collectives/exec.h"
#include "collectives/host/host.h"
#include "collectives/internal.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

/* The host executor runs a communicator's first blocking collectives, so that queues are made only for communicators in use.
 * Every rank counts the same collectives. Excepted are reductions with exec->own_order (single copy, tasks): each call must give
 * the same bits. */
#define FIRST_FEW 8

bool hdl_plan_is_early(const struct hdl_cc *cc, const struct hdl_plan *plan)
{
	return !cc->queues[hdl_queues_index(plan->executor, plan->pairs)] && cc->seq < FIRST_FEW &&
	       hdl_executor_forced == HDL_FORCED_AUTO &&
	       !(plan->exec->own_order && hdl_coll_reduces((enum hdl_coll)plan->key.coll));
}

void hdl_coll_dispatch(struct hdl_run *run, bool host)
{
	struct hdl_cc *cc = run->comm->coll;

	if (!(run->tag & HDL_PERSISTENT_TAG))
		run->tag = hdl_coll_tag(cc->seq++);
	if (unlikely(cc->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		hdl_run_finish(run);
	} else if (unlikely(run->check))
		hdl_check_start(run);
	else if (host)
		hdl_host_start(run);
	else
		hdl_queues_submit(cc, run);
}

void hdl_coll_number_persistent(struct hdl_run *run)
{
	struct hdl_cc *cc = run->comm->coll;

	run->tag = HDL_PERSISTENT_TAG | hdl_coll_tag(cc->persistent++);
}

void hdl_coll_begin(struct hdl_run *run)
{
	hdl_coll_dispatch(run, true);
}

void hdl_coll_submit(struct hdl_run *run)
{
	hdl_coll_dispatch(run, false);
}

/* Must: nothing touches the communicator after hdl_req_complete, which may free the communicator. */
void hdl_coll_complete(struct hdl_run *run)
{
	struct hdl_req *req = run->req;
	int error = run->error;

	if (unlikely(error))
		hdl_req_reason(req, run->why);
	hdl_plan_run_put(run);
	hdl_req_complete(req, error);
}

void hdl_coll_complete_persistent(struct hdl_run *run)
{
	if (unlikely(run->error))
		hdl_req_reason(run->req, run->why);
	hdl_req_complete(run->req, run->error);
}

static bool coll_is_finished(const void *arg)
{
	return ((const struct hdl_run *)arg)->finished;
}

int hdl_coll_end(struct hdl_run *run)
{
	int rc;

	if (!run->finished) {
		hdl_blocked_comm = run->comm;
		hdl_wait_until(coll_is_finished, run);
		hdl_blocked_comm = NULL;
	}
	rc = run->error;
	if (unlikely(rc)) {
		hdl_ft_progress();	/* members are notified before this rank returns to the program */
		hdl_reason_set("%s", run->why);
	}
	hdl_plan_run_put(run);
	return rc;
}
