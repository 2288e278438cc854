/* SPDX-License-Identifier: BSD-3-Clause */
/* Manual 7.2, RDMA_RC_example: SEND from the server, RDMA READ and RDMA WRITE by the client, queues of one request and a
 * completion queue of one entry; addresses by LID, then by GID. */
#include <arpa/inet.h>
#include <endian.h>

#include "manual.h"

#define MSG "SEND operation "
#define RDMAMSGR "RDMA read operation "
#define RDMAMSGW "RDMA write operation"
enum { MSG_SIZE = sizeof(RDMAMSGW) };

static int gid_idx = -1;

struct cm_con_data {
	uint64_t addr;
	uint32_t rkey, qp_num;
	uint16_t lid;
	uint8_t gid[16];
} __attribute__((packed));

struct resources {
	struct ibv_port_attr port_attr;
	struct cm_con_data remote;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
};

static void poll_completion(struct resources *res)
{
	struct ibv_wc wc;
	uint64_t until = vt_ms() + 60000;
	int n;

	do
		n = ibv_poll_cq(res->cq, 1, &wc);
	while (!n && vt_ms() < until);
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS, "%d completions, %s", n, n == 1 ? ibv_wc_status_str(wc.status) : "");
}

static void post_send(struct resources *res, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = {.addr = (uintptr_t)res->buf, .length = MSG_SIZE, .lkey = res->mr->lkey};
	struct ibv_send_wr sr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (opcode != IBV_WR_SEND) {
		sr.wr.rdma.remote_addr = res->remote.addr;
		sr.wr.rdma.rkey = res->remote.rkey;
	}
	CHECK(!ibv_post_send(res->qp, &sr, &bad), "ibv_post_send of opcode %d", opcode);
}

static void post_receive(struct resources *res)
{
	struct ibv_sge sge = {.addr = (uintptr_t)res->buf, .length = MSG_SIZE, .lkey = res->mr->lkey};
	struct ibv_recv_wr rr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!ibv_post_recv(res->qp, &rr, &bad), "ibv_post_recv");
}

static void resources_create(struct resources *res, bool server)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n > 0 && !strcmp(ibv_get_device_name(list[0]), "shca0"), "%d devices", n);
	res->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(res->ctx && !ibv_query_port(res->ctx, 1, &res->port_attr), "ibv_open_device, ibv_query_port");
	res->pd = ibv_alloc_pd(res->ctx);
	/* each side will send only one WR, so Completion Queue with 1 entry is enough */
	res->cq = ibv_create_cq(res->ctx, 1, NULL, NULL, 0);
	res->buf = calloc(1, MSG_SIZE);
	CHECK(res->pd && res->cq && res->buf, "ibv_alloc_pd, ibv_create_cq");
	if (server)
		strcpy(res->buf, MSG);
	res->mr = ibv_reg_mr(res->pd, res->buf, MSG_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .send_cq = res->cq, .recv_cq = res->cq,
					.cap = {1, 1, 1, 1, 0}};
	res->qp = ibv_create_qp(res->pd, &attr);
	CHECK(res->mr && res->qp, "ibv_reg_mr, ibv_create_qp");
}

static void modify_qp(struct resources *res)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_WRITE};
	CHECK(!ibv_modify_qp(res->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	post_receive(res);
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = res->remote.qp_num,
				  .max_dest_rd_atomic = 1, .min_rnr_timer = 0x12,
				  .ah_attr = {.dlid = res->remote.lid, .port_num = 1}};
	if (gid_idx >= 0) {
		rtr.ah_attr.is_global = 1;
		memcpy(&rtr.ah_attr.grh.dgid, res->remote.gid, 16);
		rtr.ah_attr.grh.hop_limit = 1;
		rtr.ah_attr.grh.sgid_index = (uint8_t)gid_idx;
	}
	CHECK(!ibv_modify_qp(res->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 0x12, .retry_cnt = 6, .max_rd_atomic = 1};
	CHECK(!ibv_modify_qp(res->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void connect_qp(struct resources *res)
{
	union ibv_gid gid = {.raw = {0}};
	if (gid_idx >= 0)
		CHECK(!ibv_query_gid(res->ctx, 1, gid_idx, &gid), "ibv_query_gid");
	struct cm_con_data mine = {htobe64((uintptr_t)res->buf), htonl(res->mr->rkey), htonl(res->qp->qp_num),
				   htons(res->port_attr.lid), {0}}, theirs;
	memcpy(mine.gid, &gid, 16);
	manual_sync(&mine, &theirs, sizeof(mine));
	res->remote = theirs;
	res->remote.addr = be64toh(theirs.addr);
	res->remote.rkey = ntohl(theirs.rkey);
	res->remote.qp_num = ntohl(theirs.qp_num);
	res->remote.lid = ntohs(theirs.lid);
	modify_qp(res);
	manual_barrier();
}

static void role(bool server)
{
	struct resources res = {.buf = NULL};

	resources_create(&res, server);
	connect_qp(&res);
	if (server)
		post_send(&res, IBV_WR_SEND);
	poll_completion(&res);
	if (server)
		strcpy(res.buf, RDMAMSGR);
	else
		CHECK(!strcmp(res.buf, MSG), "the client received '%s'", res.buf);
	manual_barrier();
	if (!server) {
		post_send(&res, IBV_WR_RDMA_READ);
		poll_completion(&res);
		CHECK(!strcmp(res.buf, RDMAMSGR), "the client read '%s'", res.buf);
		strcpy(res.buf, RDMAMSGW);
		post_send(&res, IBV_WR_RDMA_WRITE);
		poll_completion(&res);
	}
	manual_barrier();
	if (server)
		CHECK(!strcmp(res.buf, RDMAMSGW), "the server has '%s'", res.buf);
	CHECK(!ibv_destroy_qp(res.qp) && !ibv_dereg_mr(res.mr) && !ibv_destroy_cq(res.cq) && !ibv_dealloc_pd(res.pd) &&
	      !ibv_close_device(res.ctx), "resources_destroy");
	free(res.buf);
}

int main(void)
{
	vt_fabric();
	CHECK(!setenv("SHCA_VISIBLE", "1", 1), "setenv");
	for (; gid_idx <= 0; gid_idx++)
		manual_run(role);
	return 0;
}
