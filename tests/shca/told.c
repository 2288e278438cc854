/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events that one process raises for another's queue, when it dies at once behind that: the queue's owner has the event, and
 * the request or the failure of which it tells goes on by whoever comes next. Virtual processes, and threads that are held.
 *
 *     told [CASE]
 */
#include <stdlib.h>

#include "hold.h"

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)qp;
	(void)op;
	hold_here(&hold, thr, name);
}

static struct ibv_cq *cq, *its;
static struct ibv_qp *from, *to;	/* a's, managed; c's, in RTR */

/* b runs a's SEND to c, and dies at the point. */
static void dies_at(const char *point, const struct ibv_sge *what)
{
	struct ibv_exp_send_wr wr = {.sg_list = (struct ibv_sge *)(uintptr_t)what, .num_sge = what != NULL, .exp_opcode = IBV_EXP_WR_SEND,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;

	CHECK(!shca_exp_post_send(from, &wr, &bad));
	hold_at(&b, point);
	atomic_store(&rig_sh(from)->enabled, 1);
	begin(runs, from);
	rig_await(&hold.held, 1);
	shca_fabric_kill(b.m);
	shca_reap(shca_thread_get(a.m), b.m->slot);
	/* b's thread is held for ever: its process is dead */
}

static void connect_up_to_rtr(struct ibv_srq *srq)
{
	struct rig_qp_attr sends = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND,
				    .scq = cq, .rcq = cq, .send_wr = 4, .sge = 1};
	struct rig_qp_attr takes = {.type = IBV_QPT_RC, .scq = its, .rcq = its, .srq = srq, .send_wr = 4, .recv_wr = srq ? 0 : 4, .sge = 1};
	struct rig_path path = {.timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

	from = rig_qp(&a, &sends);
	to = rig_qp(&c, &takes);
	rig_init(from);
	rig_init(to);
	path.dest_qpn = from->qp_num;
	rig_rtr(to, &path);
	path.dest_qpn = to->qp_num;
	rig_rtr(from, &path);
	rig_rts(from, &path);
}

static bool has_event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	while (shca_qp_unread(rig_sh(to))) {
		CHECK(!shca_get_async_event(c.ctx, &event));
		shca_ack_async_event(&event);
		if (event.event_type == type)
			return true;
	}
	return false;
}

/* The first message to a queue in RTR. */
static void first_message(void)
{
	struct ibv_recv_wr rw = {.wr_id = 1}, *bad;

	set_up();
	cq = rig_cq(&a, 8, NULL);
	its = rig_cq(&c, 8, NULL);
	connect_up_to_rtr(NULL);
	CHECK(!shca_post_recv(to, &rw, &bad));
	dies_at("first-message", NULL);
	if (completion(cq) != IBV_WC_SUCCESS || completion(its) != IBV_WC_SUCCESS)
		FAIL("the message does not arrive whose first executor has died");
	if (!has_event(IBV_EVENT_COMM_EST))
		FAIL("nobody tells that the first message has come");
}

/* A message that is too long takes a queue with a shared receive queue to ERR. */
static void last_told(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_recv_wr rw = {.wr_id = 1}, *bad;

	set_up();
	cq = rig_cq(&a, 8, NULL);
	its = rig_cq(&c, 8, NULL);
	struct ibv_srq *srq = shca_create_srq(c.pd, &sa);
	CHECK(srq);
	connect_up_to_rtr(srq);
	CHECK(!shca_post_srq_recv(srq, &rw, &bad));
	char *p = shca_buf_alloc(a.ctx, 64);
	struct ibv_mr *mr = p ? shca_reg_mr(a.pd, p, 64, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE) : NULL;
	CHECK(mr);
	struct ibv_sge all = {(uintptr_t)p, 64, mr->lkey};
	dies_at("last-told", &all);
	if (completion(cq) == IBV_WC_SUCCESS)
		FAIL("a message that does not fit its receive is complete");
	for (int i = 0; !atomic_load(&rig_sh(to)->flushing); i++, rig_nap())
		if (i > 20000)
			FAIL("nobody goes on with a queue whose last event was told by one who died behind that");
	if (!has_event(IBV_EVENT_QP_LAST_WQE_REACHED))
		FAIL("nobody tells that a queue takes no receive of its shared receive queue any more");
}

static const struct rig_case cases[] = {{"first-message", first_message}, {"last-told", last_told}};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
