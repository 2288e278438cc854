/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs on a device with two ports (SHCA_PORTS=2): the LID of a datagram's sender in a completion, and the
 * addresses of DC requests: a request reaches a target whose port its address handle names, by LID or GID, and no other one.
 */
#include <infiniband/mlx5dv.h>

#include "ports.h"

#define KEY 0x123456789abcull
#define BYTES 4096u

static struct vt t;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static char *memory;
static struct ibv_mr *mr;

/* ---- datagrams ------------------------------------------------------------------------------------------------------------- */

static struct ibv_ah *address(uint8_t from, uint16_t lid, const union ibv_gid *gid)
{
	struct ibv_ah_attr a = {.dlid = lid, .port_num = from};

	if (gid) {
		a.is_global = 1;
		a.grh.dgid = *gid;
	}
	struct ibv_ah *ah = ibv_create_ah(t.pd, &a);
	CHECK(ah, "ibv_create_ah");
	return ah;
}

static struct ibv_qp *datagrams(uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .qkey = VT_QKEY};
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_UD, cq, NULL);

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), "INIT");
	vt_rtr_rts(qp, 0, vt_rts_attr());
	return qp;
}

static void sender_lids(void)
{
	struct ibv_qp *q[2] = {datagrams(1), datagrams(2)}, *to = datagrams(1);

	for (uint8_t from = 1; from <= 2; from++)
		for (int imm = 0; imm < 2; imm++) {
			struct ibv_ah *ah = address(from, ports_lid(t.ctx, 1), NULL);
			struct ibv_sge sge = vt_sge(mr, 0, 8);
			struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
						 .opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
						 .wr.ud = {.ah = ah, .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY}}, *bad;
			CHECK(!vt_recv(to, 6, vt_sge(mr, 1024, 104)) && !ibv_post_send(q[from - 1], &wr, &bad), "a datagram");
			for (int i = 0; i < 2; i++) {
				struct ibv_exp_wc wc = vt_exp_wait(cq);
				uint16_t lid = ports_lid(t.ctx, wc.wr_id == 6 ? from : 1);
				CHECK(wc.status == IBV_WC_SUCCESS && wc.slid == lid && wc.exp_wc_flags & IBV_EXP_WC_WITH_SLID,
				      "request %lu, from port %u: LID %u", (unsigned long)wc.wr_id, from, wc.slid);
			}
			CHECK(!ibv_destroy_ah(ah), "destroy_ah");
		}
	CHECK(!ibv_destroy_qp(q[0]) && !ibv_destroy_qp(q[1]) && !ibv_destroy_qp(to), "destroy");
}

/* ---- DC -------------------------------------------------------------------------------------------------------------------- */

static struct ibv_exp_dct *target(uint8_t port)
{
	struct ibv_exp_dct_init_attr a = {.pd = t.pd, .cq = cq, .srq = srq, .dc_key = KEY, .port = port, .min_rnr_timer = 2,
					  .access_flags = VT_ACCESS, .mtu = IBV_MTU_2048};
	struct ibv_exp_dct *d = ibv_exp_create_dct(t.ctx, &a);

	CHECK(d, "ibv_exp_create_dct");
	return d;
}

static struct ibv_qp *initiator(uint8_t port)
{
	struct ibv_exp_qp_init_attr i = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_EXP_QPT_DC_INI,
					 .cap = {.max_send_wr = 8, .max_send_sge = 2, .max_inline_data = 64},
					 .comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .pd = t.pd};
	struct ibv_exp_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .dct_key = KEY};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &i);

	CHECK(qp, "an initiator");
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_DC_KEY), "INIT");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_2048;
	a.ah_attr.port_num = port;
	a.ah_attr.dlid = 1;
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_PATH_MTU | IBV_EXP_QP_AV), "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 10;
	a.retry_cnt = 1;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	CHECK(!ibv_exp_modify_qp(qp, &a, IBV_EXP_QP_STATE | IBV_EXP_QP_TIMEOUT | IBV_EXP_QP_RETRY_CNT | IBV_EXP_QP_RNR_RETRY |
						 IBV_EXP_QP_MAX_QP_RD_ATOMIC), "RTS");
	return qp;
}

/* A request of 8 bytes; of one that writes, `byte` is in each. */
static void request(struct ibv_qp *qp, enum ibv_exp_wr_opcode op, struct ibv_ah *ah, const struct ibv_exp_dct *to, uint64_t key,
		    char byte)
{
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_exp_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .exp_opcode = op,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED, .ex.imm_data = 77,
				     .dc = {.ah = ah, .dct_access_key = key, .dct_number = to->dct_num}}, *bad;

	memset(memory, byte, 8);
	wr.wr.rdma.remote_addr = (uintptr_t)memory + 512;
	wr.wr.rdma.rkey = mr->rkey;
	if (op == IBV_EXP_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + 512;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 0;
		wr.wr.atomic.rkey = mr->rkey;
	}
	CHECK(!ibv_exp_post_send(qp, &wr, &bad), "ibv_exp_post_send");
}

static uint32_t violations(struct ibv_exp_dct *d)
{
	struct ibv_exp_dct_attr a = {.comp_mask = 0};

	CHECK(!ibv_exp_query_dct(d, &a), "ibv_exp_query_dct");
	return a.key_violations;
}

static const enum ibv_exp_wr_opcode ops[] = {IBV_EXP_WR_SEND_WITH_IMM, IBV_EXP_WR_RDMA_WRITE, IBV_EXP_WR_RDMA_READ,
					     IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, IBV_EXP_WR_RDMA_WRITE_WITH_IMM};

/* Every operation from port `from`, by an address of port `by` (0: of no port), to the target of port `at`. */
static void operations(struct ibv_exp_dct *d, uint8_t from, uint8_t by, uint8_t at, bool global)
{
	union ibv_gid gid = {.raw = {0xfe, 0x80, [15] = 0x77}};

	if (by)
		CHECK(!ibv_query_gid(t.ctx, by, 0, &gid), "GID");
	struct ibv_ah *ah = address(from, by ? ports_lid(t.ctx, by) : 0x77, global ? &gid : NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		bool receives = ops[i] == IBV_EXP_WR_SEND_WITH_IMM || ops[i] == IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
		struct ibv_qp *qp = initiator(from);
		memset(memory + 512, 0x55, 8);
		request(qp, ops[i], ah, d, KEY, 3);
		if (by != at) {
			struct ibv_exp_wc wc = vt_exp_wait(cq);
			CHECK(wc.wr_id == 1 && wc.status == IBV_WC_RETRY_EXC_ERR, "operation %zu by port %u to port %u: %s",
			      i, by, at, ibv_wc_status_str(wc.status));
			CHECK(memory[512] == 0x55 && memory[0] == 3, "operation %zu: data", i);
		} else {
			bool got = !receives;
			for (int n = receives; n >= 0; n--) {
				struct ibv_exp_wc wc = vt_exp_wait(cq);
				CHECK(wc.status == IBV_WC_SUCCESS, "operation %zu by port %u: %s", i, by,
				      ibv_wc_status_str(wc.status));
				got |= wc.wr_id == 9;
			}
			CHECK(got, "no receive was used");
			if (receives)
				CHECK(!vt_srq_recv(srq, 9, vt_sge(mr, 1024, 64)), "receive");
		}
		vt_none(cq);
		CHECK(!ibv_destroy_qp(qp), "destroy");
	}
	CHECK(!ibv_destroy_ah(ah), "destroy_ah");
}

/* An initiator of mlx5dv, whose writes take the short way. */
static struct ibv_qp *short_initiator(void)
{
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCI};
	struct ibv_qp_init_attr_ex i = {.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .pd = t.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
					.cap = {.max_send_wr = 8, .max_send_sge = 1, .max_inline_data = 64}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &i, &dv);

	CHECK(qp && !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), "an initiator");
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_2048;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PATH_MTU), "RTR");
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 10;
	a.retry_cnt = 1;
	a.rnr_retry = 7;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	return qp;
}

static void short_write(struct ibv_qp *qp, struct ibv_ah *ah, const struct ibv_exp_dct *to, char byte)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_INLINE;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + 512);
	mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(ex), ah, to->dct_num, KEY);
	ibv_wr_set_inline_data(ex, &byte, 1);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_complete");
}

/* The look-up of a region that an initiator remembers is of the address by which the region was found. */
static void remembered(struct ibv_exp_dct *d, uint8_t at)
{
	struct ibv_ah *right = address(1, ports_lid(t.ctx, at), NULL);
	struct ibv_ah *wrong = address(1, ports_lid(t.ctx, (uint8_t)(3 - at)), NULL);
	struct ibv_qp *qp = short_initiator();

	for (char i = 1; i <= 4; i++) {
		short_write(qp, right, d, i);
		CHECK(memory[512] == i, "write %d", i);
	}
	short_write(qp, wrong, d, 9);
	vt_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
	CHECK(memory[512] == 4, "a write by an address of the other port");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_ah(right) && !ibv_destroy_ah(wrong), "destroy");
}

/* A packet for another port comes to no target, which counts no violation then. */
static void keys(struct ibv_exp_dct *d, uint8_t at)
{
	for (uint8_t by = 1; by <= 2; by++) {
		struct ibv_ah *ah = address(1, ports_lid(t.ctx, by), NULL);
		struct ibv_qp *qp = initiator(1);
		uint32_t before = violations(d);
		request(qp, IBV_EXP_WR_RDMA_WRITE, ah, d, KEY + 1, 9);
		vt_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
		CHECK(violations(d) == before + (by == at), "by port %u: %u violations after %u", by, violations(d), before);
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_ah(ah), "destroy");
	}
}

int main(void)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 16, .max_sge = 1}};

	vt_fabric();
	ports_begin();
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	srq = ibv_create_srq(t.pd, &sa);
	memory = shca_alloc(t.ctx, BYTES);
	CHECK(srq && memory, "a shared receive queue, memory");
	memset(memory, 7, BYTES);
	mr = vt_mr(&t, memory, BYTES, VT_ACCESS);
	sender_lids();
	CHECK(!vt_srq_recv(srq, 9, vt_sge(mr, 1024, 64)), "receive");
	for (uint8_t at = 1; at <= 2; at++) {
		struct ibv_exp_dct *d = target(at);
		for (uint8_t from = 1; from <= 2; from++)
			for (uint8_t by = 0; by <= 2; by++) {
				operations(d, from, by, at, false);
				operations(d, from, by, at, true);
			}
		remembered(d, at);
		keys(d, at);
		CHECK(!ibv_exp_destroy_dct(d), "destroy_dct");
	}
	CHECK(!ibv_destroy_srq(srq) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, memory) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	ports_end();
	return 0;
}
