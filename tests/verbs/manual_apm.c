/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual 8.1, automatic path migration: endpoints of rdma_create_ep, the alternate port's LID as private data, the alternate path
 * loaded on both sides, messages to and fro; the path migrates by IBV_MIG_MIGRATED (-m), and when the port goes down. */
#include <rdma/rdma_verbs.h>

#include "cm.h"
#include "manual.h"

enum { MESSAGES = 12, LENGTH = 1000000, MIGRATE_AFTER = 4 };
static bool by_port_down;

struct context {
	bool server;
	uint8_t alt_srcport;
	uint16_t alt_dlid, my_alt_dlid;
	struct rdma_cm_id *id, *listen_id;
	struct ibv_mr *send_mr, *recv_mr;
	char *send_buf, *recv_buf;
};

static uint16_t dlid_of(struct rdma_cm_event *event)
{
	uint16_t lid;
	CHECK(event->param.conn.private_data_len >= 4, "private data of %u bytes", event->param.conn.private_data_len);
	memcpy(&lid, event->param.conn.private_data, sizeof(lid));
	return ntohs(lid);
}

static void create_ep(struct context *ctx)
{
	struct rdma_addrinfo *rai, hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = ctx->server ? RAI_PASSIVE : 0};
	struct ibv_qp_init_attr attr = {.cap = {1, 1, 1, 1, 0}};
	char port[8] = "0";

	if (!ctx->server)
		snprintf(port, sizeof(port), "%u", manual_port(0));
	CHECK(!rdma_getaddrinfo(ctx->server ? NULL : "127.0.0.1", port, &hints, &rai), "rdma_getaddrinfo");
	CHECK(!rdma_create_ep(&ctx->id, rai, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(rai);
	if (!ctx->server)
		return;
	CHECK(!rdma_listen(ctx->id, 4), "rdma_listen");
	ctx->listen_id = ctx->id;
	manual_port(ntohs(rdma_get_src_port(ctx->id)));
	CHECK(!rdma_get_request(ctx->listen_id, &ctx->id) && ctx->id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST,
	      "rdma_get_request");
	ctx->alt_dlid = dlid_of(ctx->id->event);
}

static void get_alt_port_details(struct context *ctx)
{
	struct ibv_qp_init_attr init;
	struct ibv_device_attr dev;
	struct ibv_qp_attr qp;

	CHECK(!ibv_query_device(ctx->id->verbs, &dev) && dev.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, "no APM");
	CHECK(!ibv_query_qp(ctx->id->qp, &qp, 0, &init), "ibv_query_qp");
	for (uint8_t i = 1; i <= dev.phys_port_cnt; i++) {
		struct ibv_port_attr port;
		CHECK(!ibv_query_port(ctx->id->verbs, i, &port), "ibv_query_port");
		if (port.state != IBV_PORT_ACTIVE)
			continue;
		ctx->my_alt_dlid = port.lid;
		ctx->alt_srcport = i;
		if (qp.port_num != i)
			break;
	}
}

static void load_alt_path(struct context *ctx)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qp;

	CHECK(!ibv_query_qp(ctx->id->qp, &qp, 0, &init), "ibv_query_qp");
	memcpy(&qp.alt_ah_attr, &qp.ah_attr, sizeof(qp.ah_attr));
	qp.alt_pkey_index = qp.pkey_index;
	qp.alt_timeout = qp.timeout;
	qp.path_mig_state = IBV_MIG_REARM;
	qp.alt_port_num = ctx->alt_srcport;
	qp.alt_ah_attr.dlid = ctx->alt_dlid;
	CHECK(!ibv_modify_qp(ctx->id->qp, &qp, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), "load_alt_path");
}

static void establish_connection(struct context *ctx)
{
	uint16_t data[2] = {htons(ctx->my_alt_dlid), 0};
	struct rdma_conn_param param = {.private_data = data, .private_data_len = sizeof(data), .responder_resources = 2,
					.initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 5};

	CHECK(!rdma_post_recv(ctx->id, NULL, ctx->recv_buf, LENGTH, ctx->recv_mr), "rdma_post_recv");
	if (ctx->server) {
		CHECK(!rdma_accept(ctx->id, &param), "rdma_accept");
		return;
	}
	CHECK(!rdma_connect(ctx->id, &param) && ctx->id->event->event == RDMA_CM_EVENT_ESTABLISHED, "rdma_connect");
	ctx->alt_dlid = dlid_of(ctx->id->event);
}

static void send_msg(struct context *ctx, int i)
{
	struct ibv_wc wc;
	memset(ctx->send_buf, i + 1, LENGTH);
	CHECK(!rdma_post_send(ctx->id, NULL, ctx->send_buf, LENGTH, ctx->send_mr, IBV_SEND_SIGNALED) &&
	      rdma_get_send_comp(ctx->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "message %d: sent", i);
}

static void recv_msg(struct context *ctx, int i)
{
	struct ibv_wc wc;
	CHECK(rdma_get_recv_comp(ctx->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == LENGTH &&
	      ctx->recv_buf[0] == i + 1 && ctx->recv_buf[LENGTH - 1] == i + 1, "message %d: received", i);
	CHECK(!rdma_post_recv(ctx->id, NULL, ctx->recv_buf, LENGTH, ctx->recv_mr), "rdma_post_recv");
}

static void migrate(struct context *ctx)
{
	struct ibv_qp_attr qp = {.path_mig_state = IBV_MIG_MIGRATED};
	if (by_port_down)
		cm_inject("--port 1 port-down");
	else
		CHECK(!ibv_modify_qp(ctx->id->qp, &qp, IBV_QP_PATH_MIG_STATE), "IBV_MIG_MIGRATED");
}

/* The event thread of the manual, here a loop behind the messages: the path has migrated, once. */
static void async_events(struct context *ctx)
{
	struct ibv_async_event event;
	do {
		CHECK(!ibv_get_async_event(ctx->id->verbs, &event), "ibv_get_async_event");
		CHECK(event.event_type != IBV_EVENT_PATH_MIG_ERR && event.event_type != IBV_EVENT_QP_FATAL, "event %s",
		      ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_PATH_MIG);
}

static void role(bool server)
{
	struct context ctx = {.server = server};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qp;

	create_ep(&ctx);
	get_alt_port_details(&ctx);
	CHECK(ctx.alt_srcport == 2 && ctx.my_alt_dlid, "the alternate port is %u", ctx.alt_srcport);
	ctx.send_buf = calloc(1, LENGTH);
	ctx.recv_buf = calloc(1, LENGTH);
	ctx.send_mr = rdma_reg_msgs(ctx.id, ctx.send_buf, LENGTH);
	ctx.recv_mr = rdma_reg_msgs(ctx.id, ctx.recv_buf, LENGTH);
	CHECK(ctx.send_mr && ctx.recv_mr, "rdma_reg_msgs");
	establish_connection(&ctx);
	load_alt_path(&ctx);
	manual_barrier();
	for (int i = 0; i < MESSAGES; i++) {
		if (server)
			recv_msg(&ctx, i);
		send_msg(&ctx, i);
		if (!server)
			recv_msg(&ctx, i);
		if (!server && i == MIGRATE_AFTER)
			migrate(&ctx);
	}
	async_events(&ctx);
	CHECK(!ibv_query_qp(ctx.id->qp, &qp, 0, &init) && qp.port_num == 2, "the path is by port %u", qp.port_num);
	manual_barrier();
	CHECK(!rdma_disconnect(ctx.id), "rdma_disconnect");
	CHECK(!rdma_dereg_mr(ctx.send_mr) && !rdma_dereg_mr(ctx.recv_mr), "rdma_dereg_mr");
	rdma_destroy_ep(ctx.id);
	if (ctx.listen_id)
		rdma_destroy_ep(ctx.listen_id);
	free(ctx.send_buf);
	free(ctx.recv_buf);
}

int main(void)
{
	cm_start();
	CHECK(!setenv("SHCA_PORTS", "2", 1), "setenv");
	manual_run(role);
	by_port_down = true;
	if (cm_can_inject())
		manual_run(role);
	return 0;
}
