/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events that one process raises for another's queue, and dies right after: the queue's owner has the event, and the
 * next executor goes on with the request or the failure that raised the event. Virtual processes, and threads that are held.
 *
 *     async_event_death [CASE]
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "hold.h"

static struct ibv_cq *cq, *its;
static struct ibv_qp *from, *to;	/* a's, managed; c's, in RTR */

/* b runs a's SEND to c, and dies at the point. */
static void dies_at(const char *point, const struct ibv_sge *what)
{
	struct ibv_exp_send_wr wr = {.sg_list = (struct ibv_sge *)(uintptr_t)what, .num_sge = what != NULL,
				     .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *bad;

	CHECK(!shca_exp_post_send(from, &wr, &bad));
	hold_at(&b, point);
	atomic_store(&rig_sh(from)->enabled, 1);
	begin(runs, from);
	rig_await(&hold.held, 1);
	shca_fabric_kill(b.m);
	shca_reap(shca_thread_get(a.m), b.m->slot);
	/* b's thread is held for ever: the process is dead */
}

static void connect_up_to_rtr(struct ibv_srq *srq)
{
	struct rig_qp_attr sends = {.type = IBV_QPT_RC,
				    .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND,
				    .scq = cq, .rcq = cq, .send_wr = 4, .sge = 1};
	struct rig_qp_attr takes = {
		.type = IBV_QPT_RC, .scq = its, .rcq = its, .srq = srq, .send_wr = 4, .recv_wr = srq ? 0 : 4, .sge = 1};
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

static pthread_t under_way;	/* b, while executing a message of a's to another queue of c, which raises no event when
				 * continued */

static void message_under_way(void)
{
	struct ibv_recv_wr rw = {.wr_id = 1}, *bad;
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED}, *worse;

	connect_up_to_rtr(NULL);
	for (int i = 0; i < 2; i++)
		CHECK(!shca_post_recv(to, &rw, &bad) && !shca_exp_post_send(from, &wr, &worse));
	atomic_store(&rig_sh(from)->enabled, 1);
	run_queue(&a, from);
	if (completion(cq) != IBV_WC_SUCCESS || !has_event(IBV_EVENT_COMM_EST))
		FAIL("the first message does not come");
	hold_at(&b, "found");
	atomic_store(&rig_sh(from)->enabled, 2);
	under_way = begin(runs, from);
	rig_await(&hold.held, 1);
}

static void arrives(void)
{
	let_go();
	joined(under_way);
	if (completion(cq) != IBV_WC_SUCCESS)
		FAIL("a message that was under way does not arrive");
}

/* By a message that is too long, which takes `to` to ERR. */
static void fails_by_itself(struct ibv_srq *srq)
{
	static char text[64];
	struct ibv_recv_wr rw = {.wr_id = 1}, *bad;
	struct ibv_mr *mr = shca_reg_mr(a.pd, text, sizeof(text), (uintptr_t)text, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && !shca_post_srq_recv(srq, &rw, &bad));
	struct ibv_sge all = {(uintptr_t)text, sizeof(text), mr->lkey};
	struct ibv_exp_send_wr wr = {.sg_list = &all, .num_sge = 1, .exp_opcode = IBV_EXP_WR_SEND,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED},
			       *worse;

	CHECK(!shca_exp_post_send(from, &wr, &worse));
	atomic_store(&rig_sh(from)->enabled, 1);
	run_queue(&a, from);
	if (completion(cq) == IBV_WC_SUCCESS)
		FAIL("a message that does not fit its receive is complete");
}

/* Reads all pending events of c. Returns true if IBV_EVENT_QP_LAST_WQE_REACHED of `to` was among them. */
static bool last_is_there(void)
{
	struct ibv_async_event event;
	bool last = false;

	while (!shca_get_async_event(c.ctx, &event)) {
		last |= event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED && event.element.qp == to;
		shca_ack_async_event(&event);
	}
	CHECK(errno == EAGAIN);
	return last;
}

static struct ibv_srq *last_set_up(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};

	set_up();
	cq = rig_cq(&a, 8, NULL);
	its = rig_cq(&c, 8, NULL);
	fcntl(c.ctx->async_fd, F_SETFL, fcntl(c.ctx->async_fd, F_GETFL) | O_NONBLOCK);
	struct ibv_srq *srq = shca_create_srq(c.pd, &sa);
	CHECK(srq);
	return srq;
}

/* c's IBV_EVENT_QP_LAST_WQE_REACHED while b, inside of c's objects, is stopped or has died. */
static void last_late(bool dies)
{
	struct ibv_srq *srq = last_set_up();

	message_under_way();
	connect_up_to_rtr(srq);
	fails_by_itself(srq);
	if (last_is_there())
		FAIL("the last event is given out while somebody is under way in the process's objects");
	if (dies) {
		shca_fabric_kill(b.m);
		shca_reap(shca_thread_get(a.m), b.m->slot);
	} else {
		arrives();
	}
	/* a program that reads only when the descriptor is readable gets the event */
	do {
		struct pollfd fd = {.fd = c.ctx->async_fd, .events = POLLIN};
		if (poll(&fd, 1, 20000) != 1)
			FAIL("nobody says that the last event can be read");
	} while (!last_is_there());
}

static void last_behind_stopped(void)
{
	last_late(false);
}

static void last_behind_dead(void)
{
	last_late(true);
}

/* The queue is reset with the event unread, and fails again while another message is under way. */
static void last_anew(void)
{
	struct ibv_srq *srq = last_set_up();
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	message_under_way();
	connect_up_to_rtr(srq);
	fails_by_itself(srq);
	if (last_is_there())
		FAIL("the last event is given out while somebody is under way in the process's objects");
	arrives();
	struct ibv_qp *again = to;
	CHECK(!shca_modify_qp(again, &reset, IBV_QP_STATE));
	message_under_way();
	connect_up_to_rtr(NULL);
	rig_init(again);
	struct rig_path path = {.dest_qpn = from->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	rig_rtr(again, &path);
	to = again;
	rig_sh(from)->dest_qpn = to->qp_num;
	fails_by_itself(srq);
	if (last_is_there())
		FAIL("the last event is given out for who was under way before the queue was reset");
	arrives();
}

static const struct rig_case cases[] = {
	{"first-message", first_message},
	{"last-told", last_told},
	{"last-behind-stopped", last_behind_stopped},
	{"last-behind-dead", last_behind_dead},
	{"last-anew", last_anew},
};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
