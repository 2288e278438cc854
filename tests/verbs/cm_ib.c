/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA CM by AF_IB addresses: GIDs and service ids in place of IP addresses and ports. The device has two ports. */
#include <infiniband/ib.h>

#include "cm.h"

static union ibv_gid gids[2];

static struct sockaddr_storage ib_addr(const union ibv_gid *gid, uint64_t ps, uint16_t port)
{
	struct sockaddr_storage s = {.ss_family = AF_IB};
	struct sockaddr_ib *a = (struct sockaddr_ib *)&s;

	a->sib_pkey = htobe16(0xffff);
	if (gid)
		memcpy(&a->sib_addr, gid, sizeof(a->sib_addr));
	a->sib_sid = htobe64(ps << 16 | port);
	a->sib_sid_mask = htobe64(RDMA_IB_IP_PS_MASK | (port ? RDMA_IB_IP_PORT_MASK : 0));
	return s;
}

static const struct sockaddr_ib *ib_of(const struct sockaddr *a)
{
	CHECK(a->sa_family == AF_IB, "family %d", a->sa_family);
	return (const struct sockaddr_ib *)(const void *)a;
}

static uint16_t port_of(struct rdma_cm_id *id)
{
	return (uint16_t)be64toh(ib_of(rdma_get_local_addr(id))->sib_sid);
}

static struct rdma_cm_id *listener(struct rdma_event_channel *ch, enum rdma_port_space ps, const union ibv_gid *gid)
{
	struct rdma_cm_id *id = cm_id(ch, ps);
	struct sockaddr_storage a = ib_addr(gid, ps, 0);

	CHECK(!rdma_bind_addr(id, SA(a)) && !rdma_listen(id, 8), "listen");
	CHECK(port_of(id), "no service id");
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *ch, enum rdma_port_space ps, const union ibv_gid *gid,
				   uint16_t port)
{
	struct rdma_cm_id *id = cm_id(ch, ps);
	struct sockaddr_storage a = ib_addr(gid, ps, port);

	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->verbs && id->route.num_paths == 1, "no device, or no path");
	CHECK(!memcmp(&ib_of(rdma_get_peer_addr(id))->sib_addr, gid, 16), "peer address");
	return id;
}

static void connections(enum rdma_port_space ps)
{
	struct rdma_event_channel *c = cm_channel(), *s = cm_channel();
	struct rdma_cm_id *l = listener(s, ps, &gids[0]), *id = resolved(c, ps, &gids[0], port_of(l));
	char data[92];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (char)(i + 1);
	cm_qp(id, IBV_QPT_RC);
	/* no IP header: all of a REQ's private data is the program's */
	struct rdma_conn_param p = cm_param(data, sizeof(data) + 1);
	CHECK(rdma_connect(id, &p) == -1 && errno == EINVAL, "93 bytes of private data");
	p.private_data_len = sizeof(data);
	CHECK(!rdma_connect(id, &p), "rdma_connect");
	struct rdma_cm_event *ev = cm_expect(s, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	CHECK(ev->param.conn.private_data_len == sizeof(data) && !memcmp(ev->param.conn.private_data, data, sizeof(data)),
	      "private data of %u", ev->param.conn.private_data_len);
	struct rdma_cm_id *peer = ev->id;
	CHECK(!rdma_ack_cm_event(ev), "ack");
	CHECK(!memcmp(&ib_of(rdma_get_local_addr(peer))->sib_addr, &gids[0], 16) && peer->port_num == 1, "the new id's address");
	cm_qp(peer, IBV_QPT_RC);
	cm_accept(peer);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	cm_eat(c, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(id);
	cm_destroy(peer);
	cm_destroy(l);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

static void ports(void)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *l = listener(ch, RDMA_PS_IB, &gids[1]), *other = cm_id(ch, RDMA_PS_IB), *any;
	struct sockaddr_storage a = ib_addr(&gids[1], RDMA_PS_IB, port_of(l));
	struct rdma_conn_param p = cm_param("x", 1);

	CHECK(l->port_num == 2 && l->verbs, "port %u", l->port_num);
	CHECK(rdma_bind_addr(other, SA(a)) == -1 && errno == EADDRINUSE, "the same service id at the same GID");
	a = ib_addr(&gids[0], RDMA_PS_IB, port_of(l));
	CHECK(!rdma_bind_addr(other, SA(a)) && other->port_num == 1, "the same service id at the other port");
	/* no listener at that address: `other` is only bound */
	struct rdma_cm_id *id = resolved(ch, RDMA_PS_IB, &gids[0], port_of(l));
	cm_qp(id, IBV_QPT_RC);
	CHECK(!rdma_connect(id, &p), "rdma_connect");
	cm_eat(ch, RDMA_CM_EVENT_REJECTED, 8);
	cm_destroy(id);
	cm_destroy(other);
	/* by another service id; by the right one */
	id = resolved(ch, RDMA_PS_IB, &gids[1], (uint16_t)(port_of(l) ^ 1));
	cm_qp(id, IBV_QPT_RC);
	CHECK(!rdma_connect(id, &p), "rdma_connect");
	cm_eat(ch, RDMA_CM_EVENT_REJECTED, 8);
	cm_destroy(id);
	id = resolved(ch, RDMA_PS_IB, &gids[1], port_of(l));
	cm_qp(id, IBV_QPT_RC);
	CHECK(!rdma_connect(id, &p), "rdma_connect");
	any = cm_request(ch);
	CHECK(any->port_num == 2, "port %u", any->port_num);
	CHECK(!rdma_reject(any, "no", 2), "rdma_reject");
	struct rdma_cm_event *ev = cm_expect(ch, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(!memcmp(ev->param.conn.private_data, "no", 2) && !rdma_ack_cm_event(ev), "private data");
	cm_destroy(any);
	cm_destroy(id);
	cm_destroy(l);
	cm_quiet(ch);
	rdma_destroy_event_channel(ch);
}

/* A GID that no port has. */
static void strangers(void)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *id = cm_id(ch, RDMA_PS_IB);
	union ibv_gid far = gids[0];

	far.raw[15] ^= 0x40;
	struct sockaddr_storage a = ib_addr(&far, RDMA_PS_IB, 5);
	CHECK(rdma_bind_addr(id, SA(a)) == -1 && errno == ENODEV, "a GID of no port: errno %d", errno);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(ch, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	cm_destroy(id);
	rdma_destroy_event_channel(ch);
}

static void datagrams(void)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *l = listener(ch, RDMA_PS_UDP, &gids[0]), *id = resolved(ch, RDMA_PS_UDP, &gids[0], port_of(l));
	char data[216];

	memset(data, 7, sizeof(data));
	cm_qp(id, IBV_QPT_UD);
	struct rdma_conn_param p = cm_param(data, sizeof(data));
	CHECK(!rdma_connect(id, &p), "rdma_connect");
	struct rdma_cm_event *ev = cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *peer = ev->id;
	CHECK(!memcmp(ev->param.ud.private_data, data, sizeof(data)) && !rdma_ack_cm_event(ev), "private data");
	cm_qp(peer, IBV_QPT_UD);
	p = (struct rdma_conn_param){.qp_num = peer->qp->qp_num};
	CHECK(!rdma_accept(peer, &p), "rdma_accept");
	ev = cm_expect(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(ev->id == id && ev->param.ud.qp_num == peer->qp->qp_num && ev->param.ud.ah_attr.dlid == 1, "QP %u",
	      ev->param.ud.qp_num);
	CHECK(!rdma_ack_cm_event(ev), "ack");
	cm_destroy(id);
	cm_destroy(peer);
	cm_destroy(l);
	rdma_destroy_event_channel(ch);
}

/* A UD id of RDMA_PS_IB has the Q_Key of RDMA_PS_UDP, as the kernel gives it. */
static void ib_port_space(void)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_IB, .ai_qp_type = IBV_QPT_UD}, *res;
	struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp_attr a;
	struct rdma_cm_id *id;

	CHECK(!rdma_getaddrinfo("127.0.0.1", "1", &hints, &res), "rdma_getaddrinfo");
	CHECK(!rdma_create_ep(&id, res, NULL, &init), "rdma_create_ep");
	CHECK(!ibv_query_qp(id->qp, &a, IBV_QP_QKEY, &init) && a.qkey == RDMA_UDP_QKEY, "Q_Key %#x", a.qkey);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

/* rdma_getaddrinfo of a GID's text. */
static void getaddrinfo_ib(void)
{
	char text[INET6_ADDRSTRLEN];
	struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | RAI_FAMILY | RAI_PASSIVE,
				      .ai_family = AF_IB,
				      .ai_port_space = RDMA_PS_TCP},
			     *passive, *active;
	struct rdma_event_channel *c = cm_channel(), *s = cm_channel();
	struct rdma_cm_id *l = cm_id(s, RDMA_PS_TCP), *id = cm_id(c, RDMA_PS_TCP);

	CHECK(inet_ntop(AF_INET6, &gids[0], text, sizeof(text)), "inet_ntop");
	CHECK(!rdma_getaddrinfo(text, "7471", &hints, &passive), "rdma_getaddrinfo");
	CHECK(!memcmp(&ib_of(passive->ai_src_addr)->sib_addr, &gids[0], 16), "the GID");
	CHECK(be64toh(ib_of(passive->ai_src_addr)->sib_sid) == (RDMA_IB_IP_PS_TCP | 7471), "the service id");
	hints.ai_flags &= ~RAI_PASSIVE;
	CHECK(!rdma_getaddrinfo(text, "7471", &hints, &active), "rdma_getaddrinfo");
	CHECK(!rdma_bind_addr(l, passive->ai_src_addr) && !rdma_listen(l, 1), "listen");
	CHECK(!rdma_resolve_addr(id, NULL, active->ai_dst_addr, 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	struct rdma_cm_id *peer = cm_request(s);
	cm_qp(peer, IBV_QPT_RC);
	cm_accept(peer);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	rdma_freeaddrinfo(passive);
	rdma_freeaddrinfo(active);
	cm_destroy(id);
	cm_destroy(peer);
	cm_destroy(l);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

int main(void)
{
	cm_start();
	CHECK(!setenv("SHCA_PORTS", "2", 1), "setenv");
	struct vt t = vt_open();
	for (uint8_t i = 0; i < 2; i++)
		CHECK(!ibv_query_gid(t.ctx, i + 1, 0, &gids[i]), "ibv_query_gid");
	connections(RDMA_PS_IB);
	connections(RDMA_PS_TCP);
	ports();
	strangers();
	datagrams();
	ib_port_space();
	getaddrinfo_ib();
	vt_close(&t);
	return 0;
}
