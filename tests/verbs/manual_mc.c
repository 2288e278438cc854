/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual 8.2, multicast by RDMA CM's verbs: rdma_getaddrinfo for a group, an id that is bound to an adapter first or is not, the
 * join, messages with the sender's queue as immediate, and a thread that waits for events of the channel meanwhile. */
#include <rdma/rdma_verbs.h>

#include "cm.h"
#include "manual.h"

enum { MESSAGES = 4, LENGTH = 64, GRH = sizeof(struct ibv_grh) };
static const char *bind_address, *mcast_address;

struct context {
	bool sender;
	struct sockaddr_storage mcast;
	struct rdma_cm_id *id;
	struct rdma_event_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	char *buf;
	struct ibv_ah *ah;
	uint32_t remote_qpn, remote_qkey;
	pthread_t cm_thread;
};

/* Ends with the first event: the test injects one. */
static void *cm_thread(void *arg)
{
	struct context *ctx = arg;
	cm_eat(ctx->channel, RDMA_CM_EVENT_MULTICAST_ERROR, -ENETRESET);
	return NULL;
}

static void resolve_addr(struct context *ctx)
{
	struct rdma_addrinfo *bind_rai = NULL, *mcast_rai, hints = {.ai_port_space = RDMA_PS_UDP};

	if (bind_address) {
		hints.ai_flags = RAI_PASSIVE;
		CHECK(!rdma_getaddrinfo(bind_address, NULL, &hints, &bind_rai), "rdma_getaddrinfo (bind)");
	}
	hints.ai_flags = 0;
	CHECK(!rdma_getaddrinfo(mcast_address, NULL, &hints, &mcast_rai), "rdma_getaddrinfo (mcast)");
	if (bind_rai) {
		CHECK(!rdma_bind_addr(ctx->id, bind_rai->ai_src_addr) && ctx->id->pd, "rdma_bind_addr");
		ctx->pd = ctx->id->pd;
	}
	CHECK(!rdma_resolve_addr(ctx->id, bind_rai ? bind_rai->ai_src_addr : NULL, mcast_rai->ai_dst_addr, 2000),
	      "rdma_resolve_addr");
	cm_eat(ctx->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	memcpy(&ctx->mcast, mcast_rai->ai_dst_addr, mcast_rai->ai_dst_len);
	if (bind_rai)
		rdma_freeaddrinfo(bind_rai);
	rdma_freeaddrinfo(mcast_rai);
}

static void create_resources(struct context *ctx)
{
	struct ibv_port_attr port;
	CHECK(!ibv_query_port(ctx->id->verbs, ctx->id->port_num, &port) && LENGTH <= 1 << (port.active_mtu + 7), "MTU");
	if (!ctx->pd)
		ctx->pd = ibv_alloc_pd(ctx->id->verbs);
	ctx->cq = ibv_create_cq(ctx->id->verbs, 2, NULL, NULL, 0);
	CHECK(ctx->pd && ctx->cq, "ibv_alloc_pd, ibv_create_cq");
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .send_cq = ctx->cq, .recv_cq = ctx->cq,
					.cap = {MESSAGES, MESSAGES, 1, 1, 0}};
	CHECK(!rdma_create_qp(ctx->id, ctx->pd, &attr), "rdma_create_qp");
	ctx->buf = calloc(1, LENGTH + GRH);
	ctx->mr = ibv_reg_mr(ctx->pd, ctx->buf, LENGTH + GRH, IBV_ACCESS_LOCAL_WRITE);
	CHECK(ctx->mr, "rdma_reg_msgs");
}

static void post_send(struct context *ctx)
{
	struct ibv_sge sge = {(uintptr_t)ctx->buf, LENGTH, ctx->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(ctx->id->qp->qp_num)}, *bad;

	memset(ctx->buf, 0x12, LENGTH);
	wr.wr.ud.ah = ctx->ah;
	wr.wr.ud.remote_qpn = ctx->remote_qpn;
	wr.wr.ud.remote_qkey = ctx->remote_qkey;
	CHECK(!ibv_post_send(ctx->id->qp, &wr, &bad), "ibv_post_send");
}

static void get_completion(struct context *ctx)
{
	struct ibv_wc wc;
	int ret;

	do
		ret = ibv_poll_cq(ctx->cq, 1, &wc);
	while (!ret);
	CHECK(ret == 1 && wc.status == IBV_WC_SUCCESS, "completion: %s", ibv_wc_status_str(wc.status));
	if (!ctx->sender)
		CHECK(ntohl(wc.imm_data) == wc.src_qp && wc.byte_len == LENGTH + GRH && ctx->buf[GRH] == 0x12, "the message");
}

static void join(struct context *ctx)
{
	CHECK(!rdma_join_multicast(ctx->id, SA(ctx->mcast), NULL), "rdma_join_multicast");
	struct rdma_cm_event *event = cm_expect(ctx->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	ctx->remote_qpn = event->param.ud.qp_num;
	ctx->remote_qkey = event->param.ud.qkey;
	CHECK(event->param.ud.ah_attr.dlid >= 0xc000, "mlid %#x", event->param.ud.ah_attr.dlid);
	if (ctx->sender) {
		ctx->ah = ibv_create_ah(ctx->pd, &event->param.ud.ah_attr);
		CHECK(ctx->ah, "ibv_create_ah");
	}
	CHECK(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
}

static void role(bool server)
{
	struct context ctx = {.sender = !server, .channel = cm_channel()};

	CHECK(!rdma_create_id(ctx.channel, &ctx.id, NULL, RDMA_PS_UDP), "rdma_create_id");
	resolve_addr(&ctx);
	create_resources(&ctx);
	for (int i = 0; !ctx.sender && i < MESSAGES; i++)
		CHECK(!rdma_post_recv(ctx.id, NULL, ctx.buf, LENGTH + GRH, ctx.mr), "rdma_post_recv");
	join(&ctx);
	CHECK(!pthread_create(&ctx.cm_thread, NULL, cm_thread, &ctx), "pthread_create");
	manual_barrier();
	for (int i = 0; i < MESSAGES; i++) {
		if (ctx.sender)
			post_send(&ctx);
		get_completion(&ctx);
	}
	manual_barrier();
	if (cm_can_inject()) {
		if (server)
			cm_inject("sm-change");
	} else {
		pthread_cancel(ctx.cm_thread);
	}
	CHECK(!pthread_join(ctx.cm_thread, NULL), "pthread_join");
	CHECK(!rdma_leave_multicast(ctx.id, SA(ctx.mcast)), "rdma_leave_multicast");
	if (ctx.ah)
		CHECK(!ibv_destroy_ah(ctx.ah), "ibv_destroy_ah");
	rdma_destroy_qp(ctx.id);
	CHECK(!ibv_destroy_cq(ctx.cq) && !rdma_dereg_mr(ctx.mr), "ibv_destroy_cq, rdma_dereg_mr");
	free(ctx.buf);
	if (ctx.pd != ctx.id->pd)
		CHECK(!ibv_dealloc_pd(ctx.pd), "ibv_dealloc_pd");
	CHECK(!rdma_destroy_id(ctx.id), "rdma_destroy_id");
	rdma_destroy_event_channel(ctx.channel);
	manual_barrier();
}

int main(void)
{
	static const struct {
		const char *bind, *mcast;
	} c[] = {{NULL, "239.1.2.1"}, {"127.0.0.1", "239.1.2.2"}, {"::1", "ff05::77"}, {NULL, "127.0.0.1"}};

	cm_start();
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		bind_address = c[i].bind;
		mcast_address = c[i].mcast;
		manual_run(role);
	}
	return 0;
}
