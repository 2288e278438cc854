/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHCA_LINK=ethernet: the port's attributes, addresses with a GRH and without, connections and datagrams by either GID, a peer
 * with the other link layer; and refusals of packet objects: receive work queues, tables. (Flows: raw_packets.c.)
 */
#include <net/if.h>

#include "vt.h"

static struct vt t;
static struct ibv_cq *cq;

static void port(bool ethernet)
{
	struct ibv_port_attr a;
	struct ibv_gid_entry e[4];
	union ibv_gid gid[2];

	CHECK(!ibv_query_port(t.ctx, 1, &a), "ibv_query_port");
	CHECK(a.link_layer == (ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND) &&
		      a.gid_tbl_len == (ethernet ? 2 : 1) && !a.lid == ethernet && !a.sm_lid == ethernet &&
		      a.state == IBV_PORT_ACTIVE,
	      "the port");
	ssize_t n = ibv_query_gid_table(t.ctx, e, 4, 0);
	CHECK(n == a.gid_tbl_len, "%zd entries", n);
	for (int i = 0; i < n; i++) {
		struct ibv_gid_entry one;
		CHECK(!ibv_query_gid(t.ctx, 1, i, &gid[i]) && !memcmp(&gid[i], &e[i].gid, 16) && !memcmp(&gid[i], &gid[0], 16),
		      "GID %d", i);
		CHECK(e[i].gid_index == (uint32_t)i && e[i].port_num == 1 &&
			      e[i].gid_type == (!ethernet ? IBV_GID_TYPE_IB : i ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1) &&
			      e[i].ndev_ifindex == (ethernet ? if_nametoindex("lo") : 0), "entry %d", i);
		CHECK(!ibv_query_gid_ex(t.ctx, 1, (uint32_t)i, &one, 0) && one.gid_type == e[i].gid_type, "ibv_query_gid_ex");
	}
	CHECK(ibv_query_gid(t.ctx, 1, (int)n, &gid[0]) && ibv_query_gid(t.ctx, 1, -1, &gid[0]), "beyond the table");
	CHECK(ibv_query_gid_table(t.ctx, e, (size_t)n - 1, 0) < 0, "less room than the table needs");
}

static int rtr(struct ibv_qp *qp, uint32_t dest, bool global, uint8_t index)
{
	struct ibv_qp_attr a = vt_rtr_attr(dest);

	a.ah_attr.is_global = global;
	a.ah_attr.grh.sgid_index = index;
	a.ah_attr.dlid = global ? 0 : 1;
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &a.ah_attr.grh.dgid), "GID");
	return ibv_modify_qp(qp, &a, vt_rtr_mask(qp));
}

static void connections(void)
{
	static uint64_t memory[2];
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof memory, VT_ACCESS);

	for (uint8_t i = 0; i < 2; i++) {
		struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		struct ibv_qp_attr rts = vt_rts_attr();
		CHECK(!vt_init(a) && !vt_init(b), "INIT");
		CHECK(rtr(a, b->qp_num, false, 0) == EINVAL, "an address without a GRH");
		CHECK(rtr(a, b->qp_num, true, 2) == EINVAL, "a GID index beyond the table");
		CHECK(!rtr(a, b->qp_num, true, i) && !rtr(b, a->qp_num, true, (uint8_t)!i), "RTR");
		CHECK(!ibv_modify_qp(a, &rts, VT_RTS_RC) && !ibv_modify_qp(b, &rts, VT_RTS_RC), "RTS");
		memory[0] = 77 + i;
		CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 8), (uintptr_t)&memory[1], mr->rkey), "post");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(memory[1] == 77u + i, "written");
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
	}
	CHECK(!ibv_dereg_mr(mr), "destroy");
}

static void datagrams(void)
{
	static char memory[256];
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	struct ibv_ah_attr local = {.dlid = 1, .port_num = 1},
			   global = {.port_num = 1, .is_global = 1, .grh = {.sgid_index = 1, .hop_limit = 64}};
	uint8_t mac[6];
	uint16_t vid;

	vt_connect(ud, 0);
	CHECK((errno = 0, !ibv_create_ah(t.pd, &local)) && errno == EINVAL, "an address handle without a GRH");
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &global.grh.dgid), "GID");
	struct ibv_ah *ah = ibv_create_ah(t.pd, &global);
	CHECK(ah, "ibv_create_ah");
	CHECK(!ibv_resolve_eth_l2_from_gid(t.ctx, &global, mac, &vid) && vid == 0xffff &&
		      mac[0] == (global.grh.dgid.raw[8] ^ 2) && mac[5] == global.grh.dgid.raw[15],
	      "ibv_resolve_eth_l2_from_gid");
	CHECK(!vt_recv(ud, 1, vt_sge(mr, 0, 128)), "receive");
	struct ibv_sge sge = vt_sge(mr, 128, 8);
	struct ibv_send_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah, .remote_qpn = ud->qp_num, .remote_qkey = VT_QKEY}}, *bad;
	CHECK(!ibv_post_send(ud, &wr, &bad), "post");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id == 2 || wc.wc_flags & IBV_WC_GRH), "datagram");
		if (wc.wr_id != 1)
			continue;
		struct ibv_ah *back = ibv_create_ah_from_wc(t.pd, &wc, (struct ibv_grh *)memory, 1);
		CHECK(back && !ibv_destroy_ah(back), "the way back");
	}
	global.grh.dgid.raw[15] ^= 1;
	CHECK(ibv_resolve_eth_l2_from_gid(t.ctx, &global, mac, &vid) && errno == EINVAL, "another port's GID");
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(ud) && !ibv_dereg_mr(mr), "destroy");
}

static void packets(void)
{
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .size = sizeof flow, .port = 1};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = t.pd, .cq = cq};
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = 1};
	struct ibv_qp_init_attr_ex a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = t.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
					.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, .cap = {.max_send_wr = 1}};

	struct ibv_flow *made = ibv_create_flow(ud, &flow);
	CHECK(made && ibv_destroy_qp(ud) == EBUSY && !ibv_destroy_flow(made), "ibv_create_flow");
	CHECK((errno = 0, !ibv_create_wq(t.ctx, &wq)) && errno == EOPNOTSUPP, "ibv_create_wq");
	CHECK((errno = 0, !ibv_create_rwq_ind_table(t.ctx, &table)) && errno == EOPNOTSUPP, "ibv_create_rwq_ind_table");
	/* as multicast does anyway */
	struct ibv_qp *quiet = ibv_create_qp_ex(t.ctx, &a);
	CHECK(quiet && !ibv_destroy_qp(quiet), "IBV_QP_CREATE_BLOCK_SELF_MCAST_LB");
	a.qp_type = IBV_QPT_RC;
	CHECK((errno = 0, !ibv_create_qp_ex(t.ctx, &a)) && errno == EOPNOTSUPP, "the same of a connected queue");
	CHECK(!ibv_destroy_qp(ud), "destroy");
}

/* The packets of a fabric know no link layer: a process with InfiniBand's attributes reaches one with RoCE's. */
static void mixed(void)
{
	struct vt_peer peer = vt_fork();
	static uint64_t memory;
	struct card { uint32_t qpn, rkey; uint64_t addr; } mine, theirs;

	CHECK(!setenv("SHCA_LINK", peer.child ? "ethernet" : "infiniband", 1), "setenv");
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	port(peer.child);
	struct ibv_mr *mr = vt_mr(&t, &memory, 8, VT_ACCESS);
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	mine = (struct card){qp->qp_num, mr->rkey, (uintptr_t)&memory};
	vt_tell(&peer, &mine, sizeof mine);
	vt_hear(&peer, &theirs, sizeof theirs);
	struct ibv_qp_attr rts = vt_rts_attr();
	CHECK(!vt_init(qp) && !rtr(qp, theirs.qpn, peer.child, 0) && !ibv_modify_qp(qp, &rts, VT_RTS_RC), "connect");
	vt_meet(&peer);
	memory = 0;
	uint64_t value = 9;
	struct ibv_sge sge = {.addr = (uintptr_t)&value, .length = 8};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE, .wr.rdma = {theirs.addr, theirs.rkey}}, *bad;
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_meet(&peer);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	if (!peer.child)
		exit(0);
	vt_join(&peer);
}

int main(void)
{
	vt_fabric();
	mixed();
	CHECK(!setenv("SHCA_LINK", "ethernet", 1), "setenv");
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	port(true);
	connections();
	datagrams();
	packets();
	CHECK(!ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	return 0;
}
