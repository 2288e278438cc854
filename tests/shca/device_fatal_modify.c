/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device fails (shcactl inject device-fatal) while a queue is being modified: in either order the queue ends in ERR, posted
 * requests are flushed, and shca_modify_qp returns EIO. Virtual processes, and threads that are held. Each case is a separate
 * process.
 *
 *     device_fatal_modify [CASE]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "hold.h"

static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void connected(bool whole)
{
	struct rig_qp_attr at = {.type = IBV_QPT_RC, .send_wr = 4, .recv_wr = 4, .sge = 1};

	set_up();
	at.scq = at.rcq = cq = rig_cq(&a, 16, NULL);
	qp = rig_qp(&a, &at);
	rig_init(qp);
	at.scq = at.rcq = rig_cq(&b, 16, NULL);
	struct ibv_qp *peer = rig_qp(&b, &at);
	rig_init(peer);
	if (whole)
		connect_both(qp, peer);
	else
		CHECK(!shca_helper_start(a.m));
}

/* As shcactl does. When this returns the helper thread has been at all queues. */
static void device_fails(void)
{
	struct shca_qp *sh = rig_sh(qp);

	atomic_store(&a.m->hdr->ports.broken, 1);
	shca_helper_call(a.m, a.m->slot);
	for (int i = 0; !atomic_load(&sh->fail); i++, rig_nap())
		if (i > 20000)
			FAIL("nobody fails the queues of a device that has failed");
}

static void ends_in_error(void)
{
	struct shca_qp *sh = rig_sh(qp);
	struct ibv_recv_wr wr = {.wr_id = 5}, *bad;
	struct ibv_wc wc;

	if (atomic_load(&sh->qp_state) != IBV_QPS_ERR || !atomic_load(&sh->fail) || atomic_load(&sh->gate) & SHCA_GATE_RESPOND)
		FAIL("a queue of a failed device has state %u, fail %d, gate %#x", atomic_load(&sh->qp_state),
		     atomic_load(&sh->fail), atomic_load(&sh->gate));
	CHECK(!shca_post_recv(qp, &wr, &bad));
	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("a receive that is posted to a queue of a failed device is not flushed");
	CHECK(wc.wr_id == 5 && wc.status == IBV_WC_WR_FLUSH_ERR);
}

static void *modifies(void *to)
{
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)(uintptr_t)to, .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
					   .ah_attr = {.dlid = SHCA_LID, .port_num = 1}};
	int mask = IBV_QP_STATE;

	if (attr.qp_state == IBV_QPS_RTR)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER;
	int err = shca_modify_qp(qp, &attr, mask);
	if (err != EIO)
		FAIL("a queue of a device that has failed meanwhile is brought to state %d: %d", attr.qp_state, err);
	return NULL;
}

/* The device fails, and the queue is taken to ERR, before the queue is in the new state. */
static void while_modified(enum ibv_qp_state to, const char *at)
{
	connected(to == IBV_QPS_RESET);
	hold_at(&a, at);
	pthread_t t = begin(modifies, (void *)(uintptr_t)to);
	rig_await(&hold.held, 1);
	device_fails();
	let_go();
	joined(t);
	ends_in_error();
}

static void while_connected(void)
{
	while_modified(IBV_QPS_RTR, "modify-applied");
}

static void while_answering(void)
{
	while_modified(IBV_QPS_RTR, "modify-gate");
}

static void while_reset(void)
{
	while_modified(IBV_QPS_RESET, "reset-stopped");
}

/* The thread that takes the queue to ERR is half done when the reset of the queue continues. */
static void while_both(void)
{
	connected(true);
	hold_at(&a, "reset-stopped");
	pthread_t t = begin(modifies, (void *)(uintptr_t)IBV_QPS_RESET);
	rig_await(&hold.held, 1);
	hold_one_at(&second, &a, "half-failed");
	atomic_store(&a.m->hdr->ports.broken, 1);
	shca_helper_call(a.m, a.m->slot);
	rig_await(&second.held, 1);
	let_go();
	/* the reset may wait for the thread that is held */
	for (int i = 0; i < 100; i++)
		rig_nap();
	atomic_store(&second.m, NULL);
	joined(t);
	ends_in_error();
}

static const struct rig_case cases[] = {
	{"while-connected", while_connected}, {"while-answering", while_answering}, {"while-reset", while_reset},
	{"while-both", while_both},
};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "100000", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
