/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA CM on a device with two ports: an id is bound to the first port that is up, on both sides. Then the flow of the manual's
 * program for automatic path migration (8.1): the alternate path is made of the attributes that the queue pair has, both ends
 * load it, the port goes down, and the messages go on; again by IBV_MIG_MIGRATED.
 */
#include <infiniband/ib.h>

#include "cm.h"

static char memory[2][64];
static struct ibv_mr *mr[2];

/* get_alt_port_details and load_alt_path of the manual. The other side's alternate port has the same number. */
static void load_alternate(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_device_attr dev;
	struct ibv_qp_attr a;
	uint16_t lid = 0;

	CHECK(!ibv_query_device(id->verbs, &dev) && dev.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG,
	      "no automatic path migration");
	CHECK(!ibv_query_qp(id->qp, &a, 0, &init), "ibv_query_qp");
	for (uint8_t i = 1; i <= dev.phys_port_cnt; i++) {
		struct ibv_port_attr port;
		CHECK(!ibv_query_port(id->verbs, i, &port), "ibv_query_port");
		if (port.state == IBV_PORT_ACTIVE && i != a.port_num) {
			lid = port.lid;
			a.alt_port_num = i;
		}
	}
	CHECK(lid, "there is no other port that is up");
	memcpy(&a.alt_ah_attr, &a.ah_attr, sizeof(a.ah_attr));
	a.alt_pkey_index = a.pkey_index;
	a.alt_timeout = a.timeout;
	a.path_mig_state = IBV_MIG_REARM;
	a.alt_ah_attr.dlid = lid;
	CHECK(!ibv_modify_qp(id->qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), "load_alt_path");
}

static void message(struct rdma_cm_id *from, struct rdma_cm_id *to, char byte)
{
	memset(memory[0], byte, sizeof(memory[0]));
	memset(memory[1], 0, sizeof(memory[1]));
	CHECK(!vt_recv(to->qp, 2, vt_sge(mr[1], 0, 64)) && !vt_send(from->qp, 1, vt_sge(mr[0], 0, 64), IBV_SEND_SIGNALED),
	      "a message");
	vt_expect(from->send_cq, 1, IBV_WC_SUCCESS);
	vt_expect(to->recv_cq, 2, IBV_WC_SUCCESS);
	CHECK(!memcmp(memory[0], memory[1], sizeof(memory[0])), "a message");
}

static void on_port(const struct cm_pair *p, uint8_t port)
{
	struct rdma_cm_id *both[] = {p->active, p->passive};

	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr a;
		CHECK(!ibv_query_qp(both[i]->qp, &a, 0, &init) && a.port_num == port, "port %u, not %u", a.port_num, port);
	}
}

/* Both queue pairs have migrated. */
static void migrated(struct ibv_context *ctx)
{
	struct ibv_async_event ev;

	for (int n = 0; n < 2;) {
		CHECK(!ibv_get_async_event(ctx, &ev), "ibv_get_async_event");
		ibv_ack_async_event(&ev);
		n += ev.event_type == IBV_EVENT_PATH_MIG;
	}
}

/* The address of family AF_IB that names a port by its GID. */
static struct sockaddr_ib gid_of(struct ibv_context *ctx, uint8_t port, uint16_t at)
{
	struct sockaddr_ib a = {.sib_family = AF_IB,
				.sib_sid_mask = UINT64_MAX,
				.sib_sid = htobe64(RDMA_IB_IP_PS_TCP | (uint64_t)at)};
	union ibv_gid gid;

	CHECK(!ibv_query_gid(ctx, port, 0, &gid), "ibv_query_gid");
	memcpy(&a.sib_addr, &gid, sizeof(gid));
	return a;
}

/* A connection by the GID of a port is through that port on both sides, though both are up. */
static void by_gid(struct rdma_event_channel *c, struct rdma_event_channel *s, struct ibv_context *ctx, uint8_t port)
{
	struct sockaddr_ib a = gid_of(ctx, port, 0);
	struct rdma_cm_id *listener = cm_id(s, RDMA_PS_TCP), *id = cm_id(c, RDMA_PS_TCP);
	struct cm_pair p = {.active = id};
	struct ibv_port_attr attr;

	CHECK(!ibv_query_port(ctx, port, &attr), "ibv_query_port");
	for (uint16_t at = 40000; at < 60000; at++) {
		a = gid_of(ctx, port, at);
		if (!rdma_bind_addr(listener, (struct sockaddr *)&a))
			break;
		CHECK(errno == EADDRINUSE, "rdma_bind_addr to the GID of port %u: %s", port, strerror(errno));
	}
	CHECK(listener->verbs && listener->port_num == port, "the GID of port %u: port %u", port, listener->port_num);
	CHECK(!rdma_listen(listener, 1) && !rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->port_num == port && id->route.path_rec->dlid == htons(attr.lid), "port %u", id->port_num);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	p.passive = cm_request(s);
	CHECK(p.passive->port_num == port, "the passive side: port %u", p.passive->port_num);
	cm_qp(p.passive, IBV_QPT_RC);
	cm_accept(p.passive);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	on_port(&p, port);
	struct rdma_cm_id *ids[] = {p.active, p.passive, listener};
	for (int i = 0; i < 3; i++)
		cm_destroy(ids[i]);
}

int main(void)
{
	struct rdma_event_channel *c, *s;

	cm_start();
	CHECK(!setenv("SHCA_PORTS", "2", 1), "setenv");
	c = cm_channel();
	s = cm_channel();
	/* the id's device joins the fabric, in which shcactl finds it */
	struct rdma_cm_id *listener = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 4);
	uint16_t at = ntohs(rdma_get_src_port(listener));
	struct cm_pair one = cm_pair(c, s, at);
	CHECK(one.active->port_num == 1 && one.passive->port_num == 1, "ports %u, %u", one.active->port_num,
	      one.passive->port_num);
	on_port(&one, 1);
	by_gid(c, s, one.active->verbs, 1);
	by_gid(c, s, one.active->verbs, 2);
	if (!cm_can_inject())
		return 0;
	cm_inject("--port 1 port-down");
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", at);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->port_num == 2 && id->route.path_rec->dlid == id->route.path_rec->slid && id->route.path_rec->dlid != htons(1),
	      "port %u", id->port_num);
	struct cm_pair two = {.active = id};
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	two.passive = cm_request(s);
	CHECK(two.passive->port_num == 2, "port %u", two.passive->port_num);
	cm_qp(two.passive, IBV_QPT_RC);
	cm_accept(two.passive);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	on_port(&two, 2);
	mr[0] = ibv_reg_mr(id->pd, memory[0], sizeof(memory[0]), IBV_ACCESS_LOCAL_WRITE);
	mr[1] = ibv_reg_mr(two.passive->pd, memory[1], sizeof(memory[1]), IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr[0] && mr[1], "ibv_reg_mr");
	message(two.active, two.passive, 1);
	cm_inject("--port 1 port-up");
	load_alternate(two.active);
	load_alternate(two.passive);
	message(two.active, two.passive, 2);
	cm_inject("--port 2 port-down");
	message(two.active, two.passive, 3);
	migrated(id->verbs);
	on_port(&two, 1);
	cm_inject("--port 2 port-up");
	load_alternate(two.active);
	load_alternate(two.passive);
	struct ibv_qp_attr by_hand = {.path_mig_state = IBV_MIG_MIGRATED};
	CHECK(!ibv_modify_qp(two.active->qp, &by_hand, IBV_QP_PATH_MIG_STATE), "MIGRATED");
	message(two.active, two.passive, 4);
	migrated(id->verbs);
	on_port(&two, 2);
	CHECK(!ibv_dereg_mr(mr[0]) && !ibv_dereg_mr(mr[1]), "ibv_dereg_mr");
	/* the test does not wait for the DISCONNECTED events */
	struct rdma_cm_id *ids[] = {two.active, two.passive, one.active, one.passive, listener};
	for (int i = 0; i < 5; i++)
		cm_destroy(ids[i]);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
	return 0;
}
