/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the tests of RDMA CM: the real librdmacm over the software device. The programs are linked with libshca-files and
 * libshca; programs that shcarun runs are in cm_programs.sh. */
#ifndef CM_H
#define CM_H

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "vt.h"

/* A fabric of this test's own, with the device in ibv_get_device_list, where librdmacm looks. */
static inline void cm_start(void)
{
	vt_fabric();
	CHECK(!setenv("SHCA_VISIBLE", "1", 1), "setenv");
}

static inline struct rdma_event_channel *cm_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	CHECK(ch, "rdma_create_event_channel");
	return ch;
}

static inline struct rdma_cm_id *cm_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = NULL;
	CHECK(!rdma_create_id(ch, &id, NULL, ps), "rdma_create_id");
	return id;
}

static inline struct sockaddr_storage cm_addr(const char *ip, uint16_t port)
{
	struct sockaddr_storage s = {.ss_family = strchr(ip, ':') ? AF_INET6 : AF_INET};
	struct sockaddr_in *a4 = (struct sockaddr_in *)&s;
	struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)&s;
	CHECK(inet_pton(s.ss_family, ip, s.ss_family == AF_INET ? (void *)&a4->sin_addr : (void *)&a6->sin6_addr) == 1, "%s", ip);
	if (s.ss_family == AF_INET)
		a4->sin_port = htons(port);
	else
		a6->sin6_port = htons(port);
	return s;
}
#define SA(s) ((struct sockaddr *)&(s))

/* Returns a listener; its port is in rdma_get_src_port. */
static inline struct rdma_cm_id *cm_listen(struct rdma_event_channel *ch, enum rdma_port_space ps, const char *ip, int backlog)
{
	struct rdma_cm_id *id = cm_id(ch, ps);
	struct sockaddr_storage a = cm_addr(ip, 0);
	CHECK(!rdma_bind_addr(id, SA(a)), "rdma_bind_addr %s", ip);
	CHECK(!rdma_listen(id, backlog), "rdma_listen");
	CHECK(rdma_get_src_port(id), "no port");
	return id;
}

/* Returns the next event, which must be of this type and status. */
static inline struct rdma_cm_event *cm_expect(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev = NULL;
	CHECK(!rdma_get_cm_event(ch, &ev), "rdma_get_cm_event, for %s", rdma_event_str(type));
	CHECK(ev->event == type, "%s, status %d, instead of %s", rdma_event_str(ev->event), ev->status, rdma_event_str(type));
	CHECK(ev->status == status, "%s: status %d, not %d", rdma_event_str(type), ev->status, status);
	return ev;
}
static inline void cm_eat(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	CHECK(!rdma_ack_cm_event(cm_expect(ch, type, status)), "rdma_ack_cm_event");
}
/* No event waits, and the descriptor tells that. */
static inline void cm_quiet(struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	struct rdma_cm_event *ev;
	CHECK(!poll(&p, 1, 0), "the channel is readable");
	int flags = fcntl(ch->fd, F_GETFL);
	CHECK(flags >= 0 && !fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK), "fcntl");
	CHECK(rdma_get_cm_event(ch, &ev) == -1 && errno == EAGAIN, "an event of a channel that is not readable");
	CHECK(!fcntl(ch->fd, F_SETFL, flags), "fcntl");
}

/* An id with address and route to ip:port. */
static inline struct rdma_cm_id *cm_resolved(struct rdma_event_channel *ch, enum rdma_port_space ps, const char *ip,
					     uint16_t port)
{
	struct rdma_cm_id *id = cm_id(ch, ps);
	struct sockaddr_storage a = cm_addr(ip, port);
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr %s", ip);
	cm_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(id->verbs && id->pd && id->port_num == 1, "no device");
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->mtu == IBV_MTU_4096, "%d paths", id->route.num_paths);
	return id;
}

static inline void cm_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = {.cap = {8, 8, 1, 1, 0}, .qp_type = type, .sq_sig_all = 1};
	CHECK(!rdma_create_qp(id, NULL, &a), "rdma_create_qp");
}

static inline struct rdma_conn_param cm_param(const void *data, uint8_t n)
{
	return (struct rdma_conn_param){.private_data = data, .private_data_len = n, .responder_resources = 3,
					.initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6};
}

static inline void cm_connect(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = cm_param("hello", 6);
	CHECK(!rdma_connect(id, &p), "rdma_connect");
}

static inline void cm_accept(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = cm_param("welcome", 8);
	/* the depths that cm_connect's request asks for, as this side names them */
	p.responder_resources = 2;
	p.initiator_depth = 3;
	CHECK(!rdma_accept(id, &p), "rdma_accept");
}

/* A request has arrived: returns its id. */
static inline struct rdma_cm_id *cm_request(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = ev->id;
	CHECK(!rdma_ack_cm_event(ev), "rdma_ack_cm_event");
	return id;
}

static inline void cm_destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id), "rdma_destroy_id");
}

/* Two connected ids, the active one on c, the passive one on s. */
struct cm_pair {
	struct rdma_cm_id *active, *passive;
};
static inline struct cm_pair cm_pair(struct rdma_event_channel *c, struct rdma_event_channel *s, uint16_t port)
{
	struct cm_pair p = {.active = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port)};
	cm_qp(p.active, IBV_QPT_RC);
	cm_connect(p.active);
	p.passive = cm_request(s);
	cm_qp(p.passive, IBV_QPT_RC);
	cm_accept(p.passive);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	return p;
}

/* shcactl inject, in this test's fabric. Without shcactl (tests/mutants) the tests that need it are left out. */
static inline bool cm_can_inject(void)
{
	return !access("./shcactl", X_OK);
}
static inline void cm_inject(const char *event)
{
	char line[128];
	snprintf(line, sizeof(line), "./shcactl inject %s >/dev/null", event);
	CHECK(!system(line), "%s", line);
}

#endif
