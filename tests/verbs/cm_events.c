/* SPDX-License-Identifier: BSD-3-Clause */
/* Each event of RDMA CM (manual 6.3): its cause, its status, private data and parameters; and that rdma_destroy_id and
 * rdma_leave_multicast wait for rdma_ack_cm_event. */
#include "cm.h"

static struct rdma_event_channel *c, *s;
static struct rdma_cm_id *listener;
static uint16_t port;

/* Private data of a field of `size` bytes that begins with `text`; the rest is zeroes. */
static void private_is(const void *data, uint8_t n, const char *text, uint8_t size)
{
	const char *p = data;
	CHECK(n == size, "%u bytes of private data, not %u", n, size);
	CHECK(!strcmp(p, text), "private data \"%s\", not \"%s\"", p, text);
	for (size_t i = strlen(text); i < n; i++)
		CHECK(!p[i], "byte %zu behind the private data", i);
}

static void connection(void)
{
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	cm_quiet(c);

	struct rdma_cm_event *ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *passive = ev->id;
	CHECK(ev->listen_id == listener, "another listener");
	private_is(ev->param.conn.private_data, ev->param.conn.private_data_len, "hello", 56);
	CHECK(ev->param.conn.responder_resources == 2 && ev->param.conn.initiator_depth == 3, "depths %u, %u",
	      ev->param.conn.responder_resources, ev->param.conn.initiator_depth);
	CHECK(ev->param.conn.qp_num == active->qp->qp_num && ev->param.conn.retry_count == 5 &&
		      ev->param.conn.rnr_retry_count == 6,
	      "parameters");
	CHECK(rdma_get_src_port(passive) == htons(port) && rdma_get_dst_port(passive) == rdma_get_src_port(active), "ports");
	CHECK(passive->verbs == active->verbs && passive->route.num_paths == 1, "no device");
	rdma_ack_cm_event(ev);
	cm_qp(passive, IBV_QPT_RC);
	cm_accept(passive);
	cm_quiet(s);

	/* librdmacm makes ESTABLISHED of the response where the id has a queue */
	ev = cm_expect(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	private_is(ev->param.conn.private_data, ev->param.conn.private_data_len, "welcome", 196);
	CHECK(ev->param.conn.qp_num == passive->qp->qp_num && ev->param.conn.responder_resources == 3, "parameters");
	rdma_ack_cm_event(ev);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);

	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	CHECK(!ibv_query_qp(active->qp, &a, IBV_QP_STATE, &i) && a.qp_state == IBV_QPS_RTS &&
		      a.dest_qp_num == passive->qp->qp_num,
	      "active queue");
	CHECK(a.max_rd_atomic == 2 && a.max_dest_rd_atomic == 3 && a.retry_cnt == 5 && a.rnr_retry == 6,
	      "attributes of the active queue");
	uint32_t sq = a.sq_psn, rq = a.rq_psn;
	CHECK(!ibv_query_qp(passive->qp, &a, IBV_QP_STATE, &i) && a.qp_state == IBV_QPS_RTS &&
		      a.dest_qp_num == active->qp->qp_num,
	      "passive queue");
	CHECK(a.sq_psn == rq && a.rq_psn == sq, "packet sequence numbers");
	CHECK(a.rnr_retry == 6 && a.retry_cnt == 5, "attributes of the passive queue");

	CHECK(!rdma_disconnect(active), "rdma_disconnect");
	cm_eat(c, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_disconnect(passive), "rdma_disconnect of a disconnected id");
	cm_eat(c, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_eat(s, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_quiet(c);
	cm_quiet(s);
	cm_destroy(active);
	cm_destroy(passive);
}

/* Without a queue of the id: the program has one of its own, and says rdma_establish. */
static void own_queue(void)
{
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	struct rdma_conn_param p = cm_param("own", 4);
	p.qp_num = 0x123456;
	p.srq = 1;
	CHECK(!rdma_connect(active, &p), "rdma_connect");
	struct rdma_cm_event *ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *passive = ev->id;
	CHECK(ev->param.conn.qp_num == 0x123456 && ev->param.conn.srq == 1, "queue of the program");
	rdma_ack_cm_event(ev);
	p.qp_num = 0x654321;
	CHECK(!rdma_accept(passive, &p), "rdma_accept");
	ev = cm_expect(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(ev->param.conn.qp_num == 0x654321, "queue of the program");
	private_is(ev->param.conn.private_data, ev->param.conn.private_data_len, "own", 196);
	rdma_ack_cm_event(ev);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
	int mask;
	CHECK(!rdma_init_qp_attr(active, &a, &mask) && a.dest_qp_num == 0x654321 && mask & IBV_QP_DEST_QPN, "rdma_init_qp_attr");
	/* a message that comes before the RTU: the passive program may say so, once */
	CHECK(!rdma_notify(passive, IBV_EVENT_COMM_EST), "rdma_notify");
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(rdma_notify(passive, IBV_EVENT_COMM_EST) == -1 && errno == EISCONN, "a second rdma_notify");
	CHECK(rdma_notify(passive, IBV_EVENT_PATH_MIG) == -1 && errno == EINVAL, "rdma_notify of another event");
	CHECK(!rdma_establish(active), "rdma_establish");
	CHECK(rdma_establish(active) == -1 && errno == EINVAL, "a second rdma_establish");
	/* the RTU that comes now is no event */
	struct rdma_cm_event *none;
	CHECK(!fcntl(s->fd, F_SETFL, O_NONBLOCK) && rdma_get_cm_event(s, &none) == -1 && errno == EAGAIN &&
		      !fcntl(s->fd, F_SETFL, 0),
	      "an event behind rdma_notify");
	cm_destroy(active);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(passive);
}

static void address_errors(void)
{
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("192.0.2.1", 1);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	CHECK(rdma_bind_addr(id, SA(a)) == -1, "another host's address was bound");
	cm_destroy(id);
	id = cm_id(c, RDMA_PS_TCP);
	CHECK(rdma_bind_addr(id, SA(a)) == -1 && errno == ENODEV, "another host's address was bound");
	a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	if (cm_can_inject()) {
		cm_inject("port-down");
		CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
		cm_eat(c, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT);
		cm_inject("port-up");
	}
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(rdma_resolve_route(id, 1000) == -1 && errno == EINVAL, "a second rdma_resolve_route");
	cm_destroy(id);
}

static void connect_error(void)
{
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	struct rdma_cm_id *passive = cm_request(s);
	cm_qp(passive, IBV_QPT_RC);
	cm_accept(passive);
	/* the queue cannot be brought to RTR any more */
	CHECK(!ibv_modify_qp(active->qp, &a, IBV_QP_STATE), "ibv_modify_qp");
	cm_eat(c, RDMA_CM_EVENT_CONNECT_ERROR, -1);
	cm_destroy(active);
	cm_eat(s, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(passive);
}

/* Waits for an answer that begin from here on last 300 ms; behind patient(), a minute: a slow machine takes its time. Must: no
 * wait of a minute runs on the same channel, whose timers of a kind expire in the order of their beginnings. */
static void impatient(void)
{
	CHECK(!setenv("SHCA_CM_MS", "300", 1), "setenv");
}
static void patient(void)
{
	CHECK(!unsetenv("SHCA_CM_MS"), "unsetenv");
}

static void unreachable(void)
{
	/* the program behind the listener does not answer: SHCA_CM_MS */
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	impatient();
	cm_connect(active);
	patient();
	cm_eat(c, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	/* its request waits, and can no longer be accepted */
	struct rdma_cm_id *passive = cm_request(s);
	struct rdma_conn_param p = cm_param(NULL, 0);
	p.qp_num = 5;
	CHECK(rdma_accept(passive, &p) == -1 && errno == EINVAL, "a request was accepted whose sender has given up");
	cm_destroy(passive);
	cm_destroy(active);
	/* the port is down */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	if (cm_can_inject()) {
		cm_inject("port-down");
		impatient();
		cm_connect(active);
		patient();
		cm_eat(c, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		cm_inject("port-up");
	}
	cm_destroy(active);
	/* the active side does not answer the response */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	passive = cm_request(s);
	cm_qp(passive, IBV_QPT_RC);
	impatient();
	cm_accept(passive);
	patient();
	cm_eat(s, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	cm_destroy(passive);
	cm_destroy(active);
}

static void rejected(void)
{
	struct rdma_cm_id *active, *passive;
	struct rdma_cm_event *ev;
	char big[200] = "";

	/* no listener on that port */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", (uint16_t)(port + 1));
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 8);
	cm_destroy(active);
	/* the program says no */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	struct rdma_conn_param p = cm_param(big, 57);
	CHECK(rdma_connect(active, &p) == -1 && errno == EINVAL, "57 bytes of private data in a request");
	cm_connect(active);
	passive = cm_request(s);
	CHECK(rdma_reject(passive, big, 149) == -1 && errno == EINVAL, "149 bytes of private data in a rejection");
	CHECK(!rdma_reject(passive, "no", 3), "rdma_reject");
	ev = cm_expect(c, RDMA_CM_EVENT_REJECTED, 28);
	private_is(ev->param.conn.private_data, ev->param.conn.private_data_len, "no", 148);
	rdma_ack_cm_event(ev);
	CHECK(rdma_reject(passive, NULL, 0) == -1 && errno == EINVAL, "a second rdma_reject");
	cm_destroy(passive);
	cm_destroy(active);
	/* the active program says no to the response */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	p = cm_param(NULL, 0);
	p.qp_num = 7;
	CHECK(!rdma_connect(active, &p), "rdma_connect");
	passive = cm_request(s);
	p = cm_param(big, 197);
	p.qp_num = 8;
	CHECK(rdma_accept(passive, &p) == -1 && errno == EINVAL, "197 bytes of private data in a response");
	p.private_data_len = 196;
	CHECK(!rdma_accept(passive, &p), "rdma_accept");
	cm_eat(c, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK(!rdma_reject_ece(active, "never", 6), "rdma_reject_ece");
	ev = cm_expect(s, RDMA_CM_EVENT_REJECTED, 35);
	private_is(ev->param.conn.private_data, ev->param.conn.private_data_len, "never", 148);
	rdma_ack_cm_event(ev);
	cm_destroy(active);
	cm_destroy(passive);
	/* the listener goes with a request that waits */
	struct rdma_cm_id *other = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 4);
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(other)));
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	cm_destroy(other);
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(active);
	cm_quiet(s);
	/* the program destroys a request's id without an answer */
	active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(active, IBV_QPT_RC);
	cm_connect(active);
	cm_destroy(cm_request(s));
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(active);
}

static void backlog(void)
{
	struct rdma_cm_id *two = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 2), *active[4];

	for (int i = 0; i < 4; i++) {
		active[i] = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(two)));
		cm_qp(active[i], IBV_QPT_RC);
		if (i == 3)
			cm_destroy(cm_request(s));	/* makes room for one */
		cm_connect(active[i]);
		if (i == 2)
			cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
		if (i == 3)
			cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);	/* of active[0], since its request was destroyed */
	}
	cm_destroy(cm_request(s));
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(cm_request(s));
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	for (int i = 0; i < 4; i++)
		cm_destroy(active[i]);
	cm_destroy(two);
}

static void datagrams(void)
{
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_UDP, "127.0.0.1", 4), *passive;
	uint16_t to = ntohs(rdma_get_src_port(l));
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_UDP, "127.0.0.1", to);
	struct rdma_cm_event *ev;

	cm_qp(active, IBV_QPT_UD);
	cm_connect(active);
	ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	private_is(ev->param.ud.private_data, ev->param.ud.private_data_len, "hello", 180);
	passive = ev->id;
	rdma_ack_cm_event(ev);
	cm_qp(passive, IBV_QPT_UD);
	cm_accept(passive);
	ev = cm_expect(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	private_is(ev->param.ud.private_data, ev->param.ud.private_data_len, "welcome", 136);
	CHECK(ev->param.ud.qp_num == passive->qp->qp_num && ev->param.ud.qkey == RDMA_UDP_QKEY &&
		      ev->param.ud.ah_attr.port_num == 1,
	      "parameters");
	struct ibv_ah *ah = ibv_create_ah(active->pd, &ev->param.ud.ah_attr);
	CHECK(ah, "ibv_create_ah");
	ibv_destroy_ah(ah);
	rdma_ack_cm_event(ev);
	cm_quiet(s);
	CHECK(rdma_disconnect(active) == -1 && errno == EINVAL, "rdma_disconnect of a UD id");
	cm_destroy(passive);
	cm_destroy(active);
	/* a request that the listener rejects, and one without a listener */
	active = cm_resolved(c, RDMA_PS_UDP, "127.0.0.1", to);
	cm_connect(active);
	passive = cm_request(s);
	CHECK(!rdma_reject(passive, "no", 3), "rdma_reject");
	ev = cm_expect(c, RDMA_CM_EVENT_UNREACHABLE, 2);
	private_is(ev->param.ud.private_data, ev->param.ud.private_data_len, "no", 136);
	rdma_ack_cm_event(ev);
	cm_destroy(passive);
	cm_destroy(active);
	cm_destroy(l);
	active = cm_resolved(c, RDMA_PS_UDP, "127.0.0.1", to);
	cm_connect(active);
	cm_eat(c, RDMA_CM_EVENT_UNREACHABLE, 1);
	cm_destroy(active);
}

static void multicast(void)
{
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_UDP);
	struct sockaddr_storage local = cm_addr("127.0.0.1", 0), group = cm_addr("239.1.2.3", 0);
	static const uint8_t gid[16] = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [12] = 0x0f, 1, 2, 3};
	int mark;

	CHECK(rdma_join_multicast(id, SA(group), NULL) == -1 && errno == EINVAL, "joined without a device");
	CHECK(!rdma_bind_addr(id, SA(local)), "rdma_bind_addr");
	CHECK(!rdma_join_multicast(id, SA(group), &mark), "rdma_join_multicast");
	struct rdma_cm_event *ev = cm_expect(c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	CHECK(ev->id == id && ev->param.ud.private_data == &mark && ev->param.ud.qp_num == 0xffffff &&
		      ev->param.ud.qkey == RDMA_UDP_QKEY,
	      "parameters");
	CHECK(ev->param.ud.ah_attr.is_global && !memcmp(ev->param.ud.ah_attr.grh.dgid.raw, gid, 16) &&
		      ev->param.ud.ah_attr.dlid >= 0xc000,
	      "address");
	rdma_ack_cm_event(ev);
	if (cm_can_inject()) {
		cm_inject("sm-change");
		ev = cm_expect(c, RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
		CHECK(ev->id == id && ev->param.ud.private_data == &mark, "parameters");
		rdma_ack_cm_event(ev);
	}
	CHECK(!rdma_leave_multicast(id, SA(group)), "rdma_leave_multicast");
	CHECK(rdma_leave_multicast(id, SA(group)) == -1 && errno == EADDRNOTAVAIL, "left twice");
	cm_destroy(id);
}

/* The Q_Key that a join tells is the one that the id's queue takes messages with. */
static void group_qkeys(void)
{
	static const struct {
		enum rdma_port_space ps;
		uint32_t qkey;
	} of[] = {{RDMA_PS_UDP, RDMA_UDP_QKEY}, {RDMA_PS_IPOIB, 0x0b1b}};
	struct sockaddr_storage local = cm_addr("127.0.0.1", 0), group = cm_addr("239.1.2.5", 0);

	for (size_t i = 0; i < sizeof(of) / sizeof(*of); i++) {
		struct rdma_cm_id *id = cm_id(c, of[i].ps);
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr a;
		CHECK(!rdma_bind_addr(id, SA(local)), "rdma_bind_addr");
		cm_qp(id, IBV_QPT_UD);
		CHECK(!rdma_join_multicast(id, SA(group), NULL), "rdma_join_multicast");
		struct rdma_cm_event *ev = cm_expect(c, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
		CHECK(ev->param.ud.qkey == of[i].qkey, "port space %#x: the group's Q_Key is %#x", of[i].ps, ev->param.ud.qkey);
		rdma_ack_cm_event(ev);
		CHECK(!ibv_query_qp(id->qp, &a, IBV_QP_QKEY, &init) && a.qkey == of[i].qkey,
		      "port space %#x: the queue's Q_Key is %#x", of[i].ps, a.qkey);
		CHECK(!rdma_leave_multicast(id, SA(group)), "rdma_leave_multicast");
		cm_destroy(id);
	}
}

/* ---- acknowledgements ------------------------------------------------------------------------------------------- */

static _Atomic bool acked;

static void *destroyer(void *arg)
{
	CHECK(!rdma_destroy_id(arg), "rdma_destroy_id");
	CHECK(atomic_load(&acked), "rdma_destroy_id did not wait for rdma_ack_cm_event");
	return NULL;
}

static struct sockaddr_storage left_group;
static void *leaver(void *arg)
{
	CHECK(!rdma_leave_multicast(arg, SA(left_group)), "rdma_leave_multicast");
	CHECK(atomic_load(&acked), "rdma_leave_multicast did not wait for rdma_ack_cm_event");
	return NULL;
}

static void held_back(struct rdma_cm_event *ev, void *(*call)(void *), struct rdma_cm_id *id)
{
	pthread_t t;
	atomic_store(&acked, false);
	CHECK(!pthread_create(&t, NULL, call, id), "pthread_create");
	/* the thread has every opportunity to return too early; one that waits for us never does */
	for (int i = 0; i < 200; i++)
		sched_yield();
	usleep(5000);
	atomic_store(&acked, true);
	rdma_ack_cm_event(ev);
	CHECK(!pthread_join(t, NULL), "pthread_join");
}

static void acknowledgements(void)
{
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	held_back(cm_expect(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0), destroyer, id);

	/* a CONNECT_REQUEST holds the listener back, not its new id */
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 4);
	struct rdma_cm_id *active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	cm_connect(active);
	struct rdma_cm_event *ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	cm_destroy(ev->id);
	held_back(ev, destroyer, l);
	held_back(cm_expect(c, RDMA_CM_EVENT_REJECTED, 28), destroyer, active);

	id = cm_id(c, RDMA_PS_UDP);
	a = cm_addr("127.0.0.1", 0);
	left_group = cm_addr("239.1.2.4", 0);
	CHECK(!rdma_bind_addr(id, SA(a)), "rdma_bind_addr");
	CHECK(!rdma_join_multicast(id, SA(left_group), NULL), "rdma_join_multicast");
	held_back(cm_expect(c, RDMA_CM_EVENT_MULTICAST_JOIN, 0), leaver, id);
	/* rdma_destroy_id removes events of the id that were not retrieved */
	CHECK(!rdma_join_multicast(id, SA(left_group), NULL), "rdma_join_multicast");
	cm_destroy(id);
	cm_quiet(c);
}

/* ---- the device ------------------------------------------------------------------------------------------------- */

static void device(void)
{
	struct cm_pair p = cm_pair(c, s, port);
	struct rdma_event_channel *third = cm_channel();
	struct rdma_cm_id *everywhere = cm_listen(third, RDMA_PS_TCP, "0.0.0.0", 4);

	cm_inject("gid-change");
	cm_eat(c, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_eat(s, RDMA_CM_EVENT_ADDR_CHANGE, 0);	/* of the listener and the passive id */
	cm_eat(s, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	cm_quiet(third);				/* bound to no device */
	cm_inject("device-fatal");
	cm_eat(c, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_eat(s, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_eat(s, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	cm_quiet(third);
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", port);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	cm_destroy(id);
	cm_destroy(everywhere);
	cm_destroy(p.active);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(p.passive);
	rdma_destroy_event_channel(third);
}

int main(void)
{
	cm_start();
	c = cm_channel();
	s = cm_channel();
	listener = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 16);
	port = ntohs(rdma_get_src_port(listener));
	connection();
	own_queue();
	address_errors();
	connect_error();
	unreachable();
	rejected();
	backlog();
	datagrams();
	multicast();
	group_qkeys();
	acknowledgements();
	if (cm_can_inject())
		device();
	cm_destroy(listener);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(c);
	return 0;
}
