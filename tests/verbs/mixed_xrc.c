/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC in mixed: a domain with several SRQs, which belong to all threads. A thread takes the lock of one, posts receives, arms the
 * SRQ's limit or resizes SRQ and CQ, sends by its own XRC queue pairs, and takes the messages.
 */
#include "mixed.h"

enum { SRQS = 3 };

static struct ibv_xrcd *xrcd;
static struct common {
	pthread_mutex_t lock;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	uint32_t number;
} srqs[SRQS];

void mixed_xrc_open(void)
{
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};

	xrcd = ibv_open_xrcd(device.ctx, &x);
	CHECK(xrcd, "ibv_open_xrcd");
	for (int i = 0; i < SRQS; i++) {
		struct common *c = &srqs[i];
		pthread_mutex_init(&c->lock, NULL);
		c->cq = vt_cq(&device, 2, NULL);
		struct ibv_srq_init_attr_ex a = {
			.attr = {.max_wr = 4, .max_sge = 1},
			.srq_type = IBV_SRQT_XRC,
			.pd = device.pd,
			.cq = c->cq,
			.xrcd = xrcd,
			.comp_mask =
				IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		};
		c->srq = ibv_create_srq_ex(device.ctx, &a);
		CHECK(c->srq && !ibv_get_srq_num(c->srq, &c->number), "SRQ");
	}
}

void mixed_xrc_close(void)
{
	for (int i = 0; i < SRQS; i++)
		CHECK(!ibv_destroy_srq(srqs[i].srq) && !ibv_destroy_cq(srqs[i].cq), "SRQ");
	CHECK(!ibv_close_xrcd(xrcd), "ibv_close_xrcd");
}

static void xrc_make(struct worker *w)
{
	w->xcq = vt_cq(&device, 2, NULL);
	struct ibv_qp_init_attr_ex out = {.qp_type = IBV_QPT_XRC_SEND,
					  .send_cq = w->xcq,
					  .pd = device.pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .cap = {.max_send_wr = 2, .max_send_sge = 2}};
	struct ibv_qp_init_attr_ex in = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	w->xsend = ibv_create_qp_ex(device.ctx, &out);
	w->xrecv = ibv_create_qp_ex(device.ctx, &in);
	CHECK(w->xsend && w->xrecv, "XRC");
	mixed_connect(w->xrecv, w->xsend->qp_num, 2);
	mixed_connect(w->xsend, w->xrecv->qp_num, 2);
}

static void xrc_end(struct worker *w)
{
	CHECK(!ibv_destroy_qp(w->xsend) && !ibv_destroy_qp(w->xrecv), "destroy");
	CHECK(!ibv_destroy_cq(w->xcq), "destroy_cq");
}

/* Sends n bytes of m[s], which must land in the SRQ's receive `i`, at `landed`. */
static void xrc_message(struct worker *w, struct common *c, int s, uint32_t n, uint32_t i, const char *landed)
{
	struct ibv_sge sge = mixed_flat(w, s, 0, n);
	struct ibv_send_wr wr = {.wr_id = 5,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = SIGNALED,
				 .imm_data = htonl(n + i),
				 .qp_type.xrc.remote_srqn = c->number},
			   *bad;

	if (rnd(&w->r, 4) == 0)
		CHECK(!ibv_resize_cq(c->cq, 2 + (int)rnd(&w->r, 6)), "ibv_resize_cq");
	CHECK(!ibv_post_send(w->xsend, &wr, &bad), "XRC");
	mixed_done(w, w->xcq, 5);
	struct ibv_wc wc = vt_wait(c->cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == n && wc.wr_id == i && ntohl(wc.imm_data) == n + i,
	      "seed %lu: XRC: %s", seed, ibv_wc_status_str(wc.status));
	mixed_equal(w, w->m[s] + HALF, landed, n, "a message by XRC");
}

static void xrc_act(struct worker *w)
{
	struct common *c = &srqs[rnd(&w->r, SRQS)];
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), receives = 1 + rnd(&w->r, 3);
	struct ibv_srq_attr limit = {.srq_limit = 2};

	pthread_mutex_lock(&c->lock);
	fill(&w->r, w->m[s] + HALF, n);
	for (uint32_t i = 0; i < receives; i++)
		CHECK(!vt_srq_recv(c->srq, i, mixed_flat(w, d, MSG * (1 + i), n)), "receive of an SRQ");
	if (rnd(&w->r, 2)) {
		CHECK(!ibv_modify_srq(c->srq, &limit, IBV_SRQ_LIMIT), "limit");
		atomic_fetch_add(&counts.limits_armed, 1);
	}
	if (rnd(&w->r, 8) == 0) {
		struct ibv_srq_attr size = {.max_wr = 4 + rnd(&w->r, 60)};
		CHECK(!ibv_modify_srq(c->srq, &size, IBV_SRQ_MAX_WR), "another size of an SRQ");
	}
	for (uint32_t i = 0; i < receives; i++)
		xrc_message(w, c, s, n, i, w->m[d] + HALF + MSG * (1 + i));
	pthread_mutex_unlock(&c->lock);
}

const struct kind mixed_xrc = {xrc_make, xrc_act, xrc_end};
