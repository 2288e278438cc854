/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of RDMA CM in mixed: a process that is stopped in the middle of rdma_connect, and one that is stopped as a listener. Each
 * is then killed or goes on, and ends; the test's end must get an event in both cases.
 */
#include "mixed.h"

/* Shared by all processes of the test. */
static struct shared {
	_Atomic uint32_t listens; /* port of a listener that stops */
	uint16_t port; /* of the test's listener */
} * sh;

static struct rdma_event_channel *passive, *active;
static struct rdma_cm_id *id_listens; /* on `passive` */

void mixed_cm_memory(void)
{
	sh = mixed_processes_memory(sizeof(*sh));
}

void mixed_cm_open(void)
{
	passive = cm_channel();
	active = cm_channel();
	id_listens = cm_listen(passive, RDMA_PS_TCP, "127.0.0.1", 4);
	sh->port = ntohs(rdma_get_src_port(id_listens));
}

void mixed_cm_close(void)
{
	cm_destroy(id_listens);
	rdma_destroy_event_channel(passive);
	rdma_destroy_event_channel(active);
}

static void readable(struct rdma_event_channel *ch, const char *why)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	CHECK(poll(&p, 1, 60000) == 1, "seed %lu: no event: %s", seed, why);
}

/* ---- a process that connects ------------------------------------------------------------------------------------------ */

/* Connects, and is stopped before the answer is read. */
static void connector_run(void)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", sh->port);

	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	raise(SIGSTOP);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	_exit(0);
}

void mixed_cm_connector(struct random *r)
{
	pid_t pid = mixed_process(connector_run);
	enum rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_REQUEST;

	readable(passive, "a connection request");
	struct rdma_cm_id *id = cm_request(passive);
	mixed_process_stopped(pid);
	cm_qp(id, IBV_QPT_RC);
	cm_accept(id);
	CHECK(!kill(pid, rnd(r, 2) ? SIGKILL : SIGCONT), "kill");
	while (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED) {
		struct rdma_cm_event *ev;
		readable(passive, "the end of a peer that was stopped in rdma_connect");
		CHECK(!rdma_get_cm_event(passive, &ev) && ev->id == id, "rdma_get_cm_event");
		type = ev->event;
		rdma_ack_cm_event(ev);
	}
	CHECK(type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED, "seed %lu: %s", seed, rdma_event_str(type));
	cm_destroy(id);
}

/* ---- a process that listens ------------------------------------------------------------------------------------------- */

/* Listens, and is stopped before a request is read. */
static void listener_run(void)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 2);

	atomic_store(&sh->listens, ntohs(rdma_get_src_port(l)));
	raise(SIGSTOP);
	cm_destroy(cm_request(s));
	_exit(0);
}

void mixed_cm_listener(struct random *r)
{
	atomic_store(&sh->listens, 0);
	pid_t pid = mixed_process(listener_run);
	uint64_t end = vt_ms() + 60000;

	while (!atomic_load(&sh->listens)) {
		CHECK(vt_ms() < end, "seed %lu: no listener", seed);
		usleep(100);
	}
	mixed_process_stopped(pid);
	struct rdma_cm_id *id = cm_resolved(active, RDMA_PS_TCP, "127.0.0.1", (uint16_t)atomic_load(&sh->listens));
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	/* the descriptor may be readable for an event of the port, which this channel does not report */
	struct rdma_cm_event *ev;
	CHECK(!fcntl(active->fd, F_SETFL, O_NONBLOCK) && rdma_get_cm_event(active, &ev) == -1 && errno == EAGAIN &&
		      !fcntl(active->fd, F_SETFL, 0),
	      "seed %lu: an event of a listener that is stopped", seed);
	CHECK(!kill(pid, rnd(r, 2) ? SIGKILL : SIGCONT), "kill");
	readable(active, "the end of a listener that was stopped");
	cm_eat(active, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(id);
}
