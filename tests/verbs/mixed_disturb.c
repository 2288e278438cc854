/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread of mixed that disturbs: every disturbance once, then random ones. By itself it takes port 1 down and up, and
 * checks that the armed connections migrate and come back; it reads the device's asynchronous events.
 */
#include "mixed.h"

void mixed_events_take(void)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(device.ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			atomic_fetch_add(&counts.limits_seen, 1);
		if (ev.event_type == IBV_EVENT_PATH_MIG)
			atomic_fetch_add(&counts.migrated, 1);
		CHECK(ev.event_type != IBV_EVENT_CQ_ERR && ev.event_type != IBV_EVENT_SRQ_ERR &&
			      ev.event_type != IBV_EVENT_DEVICE_FATAL,
		      "seed %lu: %s", seed, ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

/* ---- ports and migration ---------------------------------------------------------------------------------------------- */

static struct ibv_qp_attr path_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(qp, &a, IBV_QP_PORT | IBV_QP_PATH_MIG_STATE, &init), "ibv_query_qp");
	return a;
}

/* Waits until both ends of a thread's armed connection use this port, in this state. */
static void both_on(const struct worker *w, uint8_t port, enum ibv_mig_state state)
{
	uint64_t end = vt_ms() + 60000;

	for (;;) {
		struct ibv_qp_attr a = path_of(w->a), b = path_of(w->b);
		if (a.port_num == port && b.port_num == port && a.path_mig_state == state && b.path_mig_state == state)
			return;
		CHECK(vt_ms() < end, "seed %lu, thread %u: ports %u, %u, states %d, %d instead of port %u, state %d", seed,
		      w->n, a.port_num, b.port_num, a.path_mig_state, b.path_mig_state, port, state);
		sched_yield();
	}
}

/* Port 1 goes down: the armed connections go on by port 2, and come back by hand. */
static void port_down(struct random *r, const struct worker *workers)
{
	struct ibv_qp_attr by_hand = {.path_mig_state = IBV_MIG_MIGRATED};

	cm_inject("--port 1 port-down");
	for (int i = 0; i < THREADS; i++)
		both_on(&workers[i], 2, IBV_MIG_MIGRATED);
	usleep(rnd(r, 3000));
	cm_inject("--port 1 port-up");
	for (int i = 0; i < THREADS; i++) {
		const struct worker *w = &workers[i];
		mixed_arm(w->a, 1, 1);
		mixed_arm(w->b, 1, 1);
		both_on(w, 2, IBV_MIG_ARMED);
		CHECK(!ibv_modify_qp(rnd(r, 2) ? w->a : w->b, &by_hand, IBV_QP_PATH_MIG_STATE), "MIGRATED");
		both_on(w, 1, IBV_MIG_MIGRATED);
		mixed_arm(w->a, 2, 2);
		mixed_arm(w->b, 2, 2);
		both_on(w, 1, IBV_MIG_ARMED);
	}
}

/* ---- all disturbances ------------------------------------------------------------------------------------------------- */

void mixed_disturb(struct random *r, const struct worker *workers, uint64_t end_ms)
{
	enum { PORT, STOP, CONNECTOR, LISTENER, KILL, DISTURBANCES };

	mixed_cm_open();
	mixed_victim_start();
	for (unsigned turn = 0; vt_ms() < end_ms || turn < DISTURBANCES; turn++) {
		switch (turn < DISTURBANCES ? turn : rnd(r, DISTURBANCES)) {
		case PORT:
			if (cm_can_inject())
				port_down(r, workers);
			break;
		case STOP: mixed_victim_stop(r); break;
		case CONNECTOR: mixed_cm_connector(r); break;
		case LISTENER: mixed_cm_listener(r); break;
		case KILL: mixed_victim_kill(); break;
		}
		usleep(rnd(r, 20000));
		mixed_events_take();
	}
	mixed_victim_go_on();
	mixed_cm_close();
}
