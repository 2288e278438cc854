/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue towards another host breaks at rank 1, which proposes another one while rank 0 computes. Rank 0's requests to the
 * broken queue get no answer (IBV_WC_RETRY_EXC_ERR). When rank 0 makes progress, the proposal has arrived: rank 1 lives, and the
 * queues are replaced. For two ranks that are played on two hosts, with HEDDLE_TRANSPORT=rc and HEDDLE_RING_SIZE=0.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "transport_test.h"

enum { SAY = 100 };

static unsigned said, pending;
static char proposed[200];	/* a file that rank 1 makes when it has sent its proposal */

/* A request without an answer fails after some milliseconds. */
__typeof__(ibv_modify_qp) __real_ibv_modify_qp, __wrap_ibv_modify_qp;
int __wrap_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_TIMEOUT) {
		attr->timeout = 10;
		attr->retry_cnt = 1;
	}
	return __real_ibv_modify_qp(qp, attr, mask);
}

static void on_say(void *context, const struct hdl_am *am)
{
	(void)context;
	(void)am;
	said++;
}

static void sent(struct hdl_send *s, int err)
{
	(void)s;
	if (err)
		fail("a message: %s", strerror(-err));
	pending--;
}

static void say(struct hdl_ep *ep)
{
	static struct hdl_am_send am[8];
	static unsigned n;
	struct hdl_am_send *next = &am[n++];
	int r;

	next->send.done = sent;
	r = hdl_am_send(ep, SAY, HDL_AM_ORDERED, NULL, 0, "x", 1, next);
	if (r < 0)
		fail("a message: %s", strerror(-r));
	pending += r == 0;
}

static void hear(unsigned n)
{
	unsigned idle = 0;

	while (said < n || pending)
		turn(&idle);
}

/* Waits without progress until this rank's queue has failed. */
static void wait_for_break(const struct hdl_ep *ep)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };

	for (int i = 0; i < 100000 && a.qp_state != IBV_QPS_ERR; i++) {
		usleep(1000);
		if (ibv_query_qp(ep->queues->sq.qp, &a, IBV_QP_STATE, &init))
			fail("ibv_query_qp");
	}
}

static void break_queue(struct hdl_ep *ep)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	unsigned idle = 0;

	if (ibv_modify_qp(ep->queues->sq.qp, &a, IBV_QP_STATE))
		fail("the queue cannot be broken");
	/* as a device reports a failed queue */
	ep->queues->event = IBV_EVENT_QP_FATAL;
	hdl_wire_broke(ep, NULL);
	while (ep->conn.state != HDL_CONN_ASKED)
		turn(&idle);
	close(open(proposed, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

int main(void)
{
	static const struct hdl_upcalls up = { .peer_failed = no_peer_fails };
	const char *dir = getenv("TMPDIR");
	unsigned idle = 0;
	struct hdl_ep *ep;

	snprintf(proposed, sizeof(proposed), "%s/transport_replace_asked.%d", dir ? dir : "/tmp", (int)getppid());
	start(&up);
	if (hdl_am_register(tp, SAY, on_say, NULL))
		return 1;
	ep = ep_of(tp, !hdl_job.rank);
	say(ep);
	hear(1);
	while (!ep->conn.up)
		turn(&idle);
	if (hdl_job.rank) {
		hear(2);
		break_queue(ep);
	} else {
		say(ep);
		while (pending)
			turn(&idle);
		while (access(proposed, F_OK))
			usleep(1000);
		unlink(proposed);
		say(ep);
		wait_for_break(ep);
		hdl_tp_reap(tp);	/* as the timers do */
		if (!hdl_sq_is_broken(&ep->queues->sq) || ep->queues->why.status != IBV_WC_RETRY_EXC_ERR)
			fail("the queue has not failed for want of an answer, but by status %d", ep->queues->why.status);
	}
	say(ep);
	hear(hdl_job.rank ? 4 : 2);
	if (!ep->conn.up || ep->conn.number < 2)
		fail("the queue was not replaced");
	return finish();
}
