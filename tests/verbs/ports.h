/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the tests of a device with two ports: connections by chosen ports, and a process that injects events, as shcactl
 * does. */
#ifndef PORTS_H
#define PORTS_H

#include <fcntl.h>

#include "shca/verbs/control.h"
#include "vt.h"

static struct vt_peer ports_injector;

struct ports_order {
	uint32_t port;
	char event[32];
};

/* A process that is no member of the fabric, as shcactl is none. Must: before the first open of the device, behind vt_fabric. */
static inline void ports_begin(void)
{
	struct shca_fabric_info *list;
	struct ports_order o;
	struct shca_member m;
	size_t n, i;

	CHECK(!setenv("SHCA_PORTS", "2", 1), "setenv");
	ports_injector = vt_fork();
	if (ports_injector.child)
		return;
	while (read(ports_injector.fd[0], &o, sizeof o) == sizeof o) {
		CHECK(!shca_fabric_list(&list, &n), "shca_fabric_list");
		for (i = 0; i < n && strcmp(list[i].name, getenv("SHCA_FABRIC")); i++)
			;
		CHECK(i < n && !shca_fabric_map(&m, &list[i], SHCA_MAP_WRITABLE), "the fabric is not there");
		int rc = shca_port_inject(&m, o.port, o.event, NULL);
		shca_fabric_unmap(&m);
		free(list);
		vt_tell(&ports_injector, &rc, sizeof rc);
	}
	exit(0);
}

static inline void ports_inject(uint32_t port, const char *event)
{
	struct ports_order o = {.port = port};
	int rc;

	snprintf(o.event, sizeof o.event, "%s", event);
	vt_tell(&ports_injector, &o, sizeof o);
	vt_hear(&ports_injector, &rc, sizeof rc);
	CHECK(!rc, "%s of port %u: %d", event, port, rc);
}

static inline void ports_end(void)
{
	close(ports_injector.fd[1]);
	vt_join(&ports_injector);
}

static inline uint16_t ports_lid(struct ibv_context *ctx, uint8_t port)
{
	struct ibv_port_attr a;

	CHECK(!ibv_query_port(ctx, port, &a) && a.lid, "ibv_query_port");
	return a.lid;
}

/* The connection of qp to `dest`, from port `from` to port `to`. */
static inline void ports_connect(struct ibv_qp *qp, uint32_t dest, uint8_t from, uint8_t to, struct ibv_qp_attr rts)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = from, .qp_access_flags = VT_ACCESS};
	struct ibv_qp_attr rtr = vt_rtr_attr(dest);

	rtr.ah_attr.port_num = from;
	rtr.ah_attr.dlid = ports_lid(qp->context, to);
	CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	CHECK(!ibv_modify_qp(qp, &rtr, vt_rtr_mask(qp)), "RTR");
	CHECK(!ibv_modify_qp(qp, &rts, vt_rts_mask(qp)), "RTS");
}

/* Loads the alternate path from port `from` to port `to`, and sets the migration state. */
static inline int ports_alternate(struct ibv_qp *qp, uint8_t from, uint8_t to, enum ibv_mig_state state)
{
	struct ibv_qp_attr a = {
		.alt_ah_attr = {.dlid = ports_lid(qp->context, to), .port_num = from}, .alt_port_num = from, .alt_timeout = 9,
		.path_mig_state = state,
	};

	return ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static inline int ports_set(struct ibv_qp *qp, enum ibv_mig_state state)
{
	struct ibv_qp_attr a = {.path_mig_state = state};

	return ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE);
}

static inline struct ibv_qp_attr ports_query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_TIMEOUT,
			    &init),
	      "ibv_query_qp");
	return a;
}

/* The context's next event of a queue pair, within ms; 0: none. Events of ports are passed over. */
static inline int ports_event(struct ibv_context *ctx, struct ibv_qp *qp, int ms)
{
	struct pollfd p = {.fd = ctx->async_fd, .events = POLLIN};
	struct ibv_async_event ev;

	for (;;) {
		/* the descriptor is not blocking */
		if (ibv_get_async_event(ctx, &ev)) {
			CHECK(errno == EAGAIN, "ibv_get_async_event");
			if (poll(&p, 1, ms) <= 0)
				return 0;
			continue;
		}
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_PORT_ERR || ev.event_type == IBV_EVENT_PORT_ACTIVE ||
		    ev.event_type == IBV_EVENT_COMM_EST)
			continue;
		CHECK(ev.element.qp == qp, "%s of another queue", ibv_event_type_str(ev.event_type));
		return (int)ev.event_type;
	}
}

#endif
