/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual 8.3, shared receive queue: an id without channel that has the SRQ (and listens), four connections that receive by it,
 * one completion queue with a channel for all; the client sends as many messages as the SRQ has receives, and waits for an
 * answer. */
#include <rdma/rdma_verbs.h>

#include "cm.h"
#include "manual.h"

enum { MESSAGES = 100, LENGTH = 100000, QPS = 4, MAX_WR = 64 };

struct context {
	bool server;
	struct rdma_cm_id *srq_id, *conn_id[QPS];
	struct ibv_mr *send_mr, *recv_mr;
	struct ibv_srq *srq;
	struct ibv_cq *srq_cq;
	struct ibv_comp_channel *channel;
	char *send_buf, *recv_buf;
	unsigned from[QPS];		/* messages by connection */
};

static void init_resources(struct context *ctx, struct rdma_addrinfo *rai)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = MAX_WR, .max_sge = 1}};

	CHECK(!rdma_create_id(NULL, &ctx->srq_id, NULL, RDMA_PS_TCP), "rdma_create_id");
	if (ctx->server)
		CHECK(!rdma_bind_addr(ctx->srq_id, rai->ai_src_addr), "rdma_bind_addr");
	else
		CHECK(!rdma_resolve_addr(ctx->srq_id, NULL, rai->ai_dst_addr, 1000), "rdma_resolve_addr");
	ctx->recv_mr = rdma_reg_msgs(ctx->srq_id, ctx->recv_buf, LENGTH);
	ctx->send_mr = rdma_reg_msgs(ctx->srq_id, ctx->send_buf, LENGTH);
	CHECK(ctx->recv_mr && ctx->send_mr, "rdma_reg_msgs");
	CHECK(!rdma_create_srq(ctx->srq_id, NULL, &attr), "rdma_create_srq");
	ctx->srq = ctx->srq_id->srq;
	for (int i = 0; i < MAX_WR; i++)
		CHECK(!rdma_post_recv(ctx->srq_id, NULL, ctx->recv_buf, LENGTH, ctx->recv_mr), "rdma_post_recv");
	ctx->channel = ibv_create_comp_channel(ctx->srq_id->verbs);
	CHECK(ctx->channel, "ibv_create_comp_channel");
	ctx->srq_cq = ibv_create_cq(ctx->srq_id->verbs, MAX_WR, NULL, ctx->channel, 0);
	CHECK(ctx->srq_cq && !ibv_req_notify_cq(ctx->srq_cq, 0), "ibv_create_cq, ibv_req_notify_cq");
}

static void await_completion(struct context *ctx)
{
	struct ibv_cq *ev_cq;
	void *ev_ctx;

	CHECK(!ibv_get_cq_event(ctx->channel, &ev_cq, &ev_ctx) && ev_cq == ctx->srq_cq, "ibv_get_cq_event");
	ibv_ack_cq_events(ev_cq, 1);
	CHECK(!ibv_req_notify_cq(ctx->srq_cq, 0), "ibv_req_notify_cq");
}

/* Takes the completions of the SRQ's queue, and posts their receives again. Returns how many there were. */
static int receive(struct context *ctx)
{
	struct ibv_wc wc;
	int n = 0, ne;

	while ((ne = ibv_poll_cq(ctx->srq_cq, 1, &wc)) != 0) {
		CHECK(ne == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == LENGTH, "%d: %s", ne,
		      ibv_wc_status_str(wc.status));
		for (int i = 0; i < QPS; i++)
			ctx->from[i] += ctx->conn_id[i]->qp->qp_num == wc.qp_num;
		CHECK(!rdma_post_recv(ctx->srq_id, (void *)(uintptr_t)wc.wr_id, ctx->recv_buf, LENGTH, ctx->recv_mr),
		      "rdma_post_recv");
		n++;
	}
	return n;
}

static void send_one(struct context *ctx, int by)
{
	struct ibv_wc wc;

	CHECK(!rdma_post_send(ctx->conn_id[by], NULL, ctx->send_buf, LENGTH, ctx->send_mr, IBV_SEND_SIGNALED) &&
	      rdma_get_send_comp(ctx->conn_id[by], &wc) == 1 && wc.status == IBV_WC_SUCCESS, "rdma_post_send");
}

static void run_server(struct context *ctx)
{
	CHECK(!rdma_listen(ctx->srq_id, 4), "rdma_listen");
	manual_port(ntohs(rdma_get_src_port(ctx->srq_id)));
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr attr = {.qp_context = ctx, .qp_type = IBV_QPT_RC, .recv_cq = ctx->srq_cq,
						.srq = ctx->srq, .cap = {MAX_WR, MAX_WR, 1, 1, 0}};
		CHECK(!rdma_get_request(ctx->srq_id, &ctx->conn_id[i]), "rdma_get_request");
		CHECK(!rdma_create_qp(ctx->conn_id[i], NULL, &attr), "rdma_create_qp");
		ctx->conn_id[i]->srq = ctx->srq;
		CHECK(!rdma_accept(ctx->conn_id[i], NULL), "rdma_accept");
	}
	for (int received = 0; received < MESSAGES;) {
		for (int i = 0; i < MAX_WR && received < MESSAGES;) {
			await_completion(ctx);
			int n = receive(ctx);
			i += n;
			received += n;
		}
		send_one(ctx, 0);
	}
	for (int i = 0; i < QPS; i++)
		CHECK(ctx->from[i] == MESSAGES / QPS, "connection %d: %u messages", i, ctx->from[i]);
}

static void run_client(struct context *ctx, struct rdma_addrinfo *rai)
{
	int sent = 0;

	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr attr = {.qp_context = ctx, .recv_cq = ctx->srq_cq, .srq = ctx->srq,
						.cap = {MAX_WR, MAX_WR, 1, 1, 0}};
		CHECK(!rdma_create_ep(&ctx->conn_id[i], rai, NULL, &attr), "rdma_create_ep");
		CHECK(!rdma_connect(ctx->conn_id[i], NULL), "rdma_connect");
	}
	while (sent < MESSAGES) {
		for (int i = 0; i < MAX_WR && sent < MESSAGES; i++)
			send_one(ctx, sent++ % QPS);
		await_completion(ctx);
		receive(ctx);
	}
}

static void role(bool server)
{
	struct context ctx = {.server = server, .send_buf = calloc(1, LENGTH), .recv_buf = calloc(1, LENGTH)};
	struct rdma_addrinfo *rai, hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = server ? RAI_PASSIVE : 0};
	char port[8] = "0";

	if (!server)
		snprintf(port, sizeof(port), "%u", manual_port(0));
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &rai), "rdma_getaddrinfo");
	init_resources(&ctx, rai);
	if (server)
		run_server(&ctx);
	else
		run_client(&ctx, rai);
	rdma_freeaddrinfo(rai);
	manual_barrier();
	for (int i = 0; i < QPS; i++) {
		CHECK(ctx.conn_id[i]->qp->state == IBV_QPS_RTS && !rdma_disconnect(ctx.conn_id[i]), "rdma_disconnect");
		rdma_destroy_qp(ctx.conn_id[i]);
		CHECK(!rdma_destroy_id(ctx.conn_id[i]), "rdma_destroy_id");
	}
	CHECK(!rdma_dereg_mr(ctx.recv_mr) && !rdma_dereg_mr(ctx.send_mr), "rdma_dereg_mr");
	CHECK(!ibv_destroy_cq(ctx.srq_cq) && !ibv_destroy_comp_channel(ctx.channel), "ibv_destroy_cq");
	rdma_destroy_srq(ctx.srq_id);
	CHECK(!rdma_destroy_id(ctx.srq_id), "rdma_destroy_id");
	free(ctx.send_buf);
	free(ctx.recv_buf);
}

int main(void)
{
	cm_start();
	manual_run(role);
	return 0;
}
