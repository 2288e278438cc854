/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for a request or a condition: turns of progress, then hdl_p2p_idle. With MPI_THREAD_MULTIPLE one waiting thread polls
 * (runtime/threads.h). */
#include "p2p/request.h"
#include "runtime/wait.h"

/* One of several waiting threads: polls, or sleeps until its condition holds or a poller is needed. */
static void wait_among_threads(bool (*ready)(const void *arg), const void *arg, struct hdl_ep *ep,
			       const struct hdl_op *op)
{
	const struct hdl_requests requests = hdl_blocked_requests;
	struct hdl_waiter w = { .ready = ready, .arg = arg, .call = hdl_call, .op = op, .comm = hdl_blocked_comm,
				.requests = &requests };
	unsigned idle = 0;

	/* these variables describe this thread's wait; restored at its end */
	hdl_blocked_comm = NULL;
	hdl_blocked_requests.of = NULL;
	hdl_waiter_add(&w);
	while (!ready(arg)) {
		if (!hdl_waiter_polls(&w)) {
			hdl_waiter_sleep(&w);
		} else if (ep ? hdl_tp_progress_peer(ep) : hdl_tp_progress(hdl_mpi_tp)) {
			idle = 0;
			hdl_lock_pass();
		} else {
			if (!w.since && idle >= hdl_dated_after)
				w.since = monotonic_ns();
			hdl_p2p_idle(&idle);
		}
	}
	hdl_waiter_remove(&w);
	hdl_call = w.call;
	hdl_blocked_comm = w.comm;
	hdl_blocked_requests = requests;
}

static void request_wait_for(bool (*ready)(const void *arg), const void *arg, struct hdl_ep *ep, const struct hdl_op *op)
{
	unsigned idle = 0;

	if (unlikely(hdl_threads)) {
		wait_among_threads(ready, arg, ep, op);
		return;
	}
	hdl_blocked = op;
	hdl_blocked_since = 0;
	while (!ready(arg)) {
		if (ep ? hdl_tp_progress_peer(ep) : hdl_tp_progress(hdl_mpi_tp))
			idle = 0;
		else
			hdl_p2p_idle(&idle);
	}
	hdl_blocked = NULL;
}

static bool is_set(const void *arg)
{
	return *(volatile const int *)arg;
}

void hdl_wait_idle(volatile int *done, struct hdl_ep *ep, const struct hdl_op *op)
{
	request_wait_for(is_set, (const void *)done, ep, op);
}

void hdl_wait_until(bool (*ready)(const void *arg), const void *arg)
{
	request_wait_for(ready, arg, NULL, NULL);
}

void hdl_req_wait(struct hdl_req *req)
{
	static unsigned looks;

	if (req->look && ++looks % HDL_TURN_EVERY)
		hdl_req_look(req, true);
	hdl_wait_done(&req->done, req->ep, NULL);
}

void hdl_progress_shared(int found)
{
	static int vain;

	vain = found ? 0 : vain + 1;
	if (vain < HDL_WAIT_POLLS)
		return;
	vain = 0;
	hdl_wait_yield();
}
