/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Raw packet queue pairs and their flows, as programs of other devices use them: capabilities and states; sends by both
 * interfaces; losses of a queue without a receive, or with one that is too short; IP options; VLAN tags; self loopback; sniffers
 * and default flows; several processes; refusals.
 */
#include <infiniband/mlx5dv.h>
#include <signal.h>

#include "frame.h"

static struct vt t;
static uint8_t *mem;
static struct ibv_mr *mr;
static struct ibv_cq *cq, *other_cq;
enum { BYTES = 1 << 16, AT = 1 << 15, JUMBO = 9618 };	/* frames are sent from AT on, and received at 0 */

static const uint8_t mac_a[6] = {2, 0, 0, 0, 0, 0xa}, mac_b[6] = {2, 0, 0, 0, 0, 0xb}, group[6] = {1, 0, 0x5e, 0, 0, 1},
		     broadcast[6] = {255, 255, 255, 255, 255, 255};

/* A frame of no protocol for `to` at AT. Returns its length. */
static uint32_t plain(const uint8_t to[6], unsigned payload)
{
	struct fields f = {.type = 0x88b5, .payload = payload};

	memcpy(f.dst, to, 6);
	memcpy(f.src, mac_a, 6);
	return frame_make(mem + AT, &f, payload);
}

static void post(struct ibv_qp *qp, uint64_t id, uint32_t n)
{
	CHECK(!vt_recv(qp, id, vt_sge(mr, 0, n)), "receive");
}

/* Sends the frame at AT, and expects this status. */
static void send_status(struct ibv_qp *qp, uint32_t len, enum ibv_wc_status status)
{
	CHECK(!vt_send(qp, 77, vt_sge(mr, AT, len), IBV_SEND_SIGNALED), "post");
	struct ibv_wc wc = vt_expect(qp->send_cq, 77, status);
	CHECK(status || wc.opcode == IBV_WC_SEND, "opcode");
}

static void send_to(struct ibv_qp *qp, const uint8_t to[6], unsigned payload)
{
	send_status(qp, plain(to, payload), IBV_WC_SUCCESS);
}

/* The frame that was sent last has arrived as receive `id`. */
static void arrived(struct ibv_cq *at, uint64_t id, uint32_t len)
{
	struct ibv_wc wc = vt_expect(at, id, IBV_WC_SUCCESS);

	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == len && !memcmp(mem, mem + AT, len), "%u bytes of %u", wc.byte_len, len);
	memset(mem, 0, len);
}

static struct ibv_qp *ready(struct ibv_cq *of, uint32_t flags, uint32_t receives)
{
	struct ibv_qp *qp = raw_qp(&t, of, flags, receives);
	raw_ready(qp);
	return qp;
}

static void capabilities(bool ethernet)
{
	struct ibv_device_attr_ex a;
	struct ibv_qp_init_attr i = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .cap = {1, 1, 1, 1, 0}};

	CHECK(!ibv_query_device_ex(t.ctx, NULL, &a), "ibv_query_device_ex");
	CHECK(a.raw_packet_caps == (ethernet ? IBV_RAW_PACKET_CAP_CVLAN_STRIPPING : 0), "raw_packet_caps");
	CHECK(!(a.orig_attr.device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING) == !ethernet, "device_cap_flags");
	CHECK(!a.orig_attr.max_raw_ethy_qp == !ethernet, "max_raw_ethy_qp");
	CHECK(!a.tso_caps.max_tso && !a.rss_caps.supported_qpts && !a.packet_pacing_caps.qp_rate_limit_max && !a.max_wq_type_rq &&
		      !(a.orig_attr.device_cap_flags & IBV_DEVICE_RAW_IP_CSUM), "what the device lacks");
	if (ethernet)
		return;
	CHECK((errno = 0, !ibv_create_qp(t.pd, &i)) && errno == EOPNOTSUPP, "a raw packet queue pair of InfiniBand");
	struct ibv_qp *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	CHECK((errno = 0, !flow_to(ud, rule_mac(0, mac_a))) && errno == EOPNOTSUPP, "a flow of InfiniBand");
	struct ibv_cq_init_attr_ex c = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN};
	CHECK((errno = 0, !ibv_create_cq_ex(t.ctx, &c)) && errno == EOPNOTSUPP, "VLANs of InfiniBand");
	CHECK(!ibv_destroy_qp(ud), "destroy");
}

static void states(void)
{
	struct ibv_qp *qp = raw_qp(&t, cq, 0, 4);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1, .rate_limit = 1000}, got;
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 1000};
	struct ibv_qp_init_attr init;

	CHECK(qp->qp_type == IBV_QPT_RAW_PACKET, "type");
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE) == EINVAL, "INIT without a port");
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY) == EINVAL, "INIT with a Q_Key");
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_RATE_LIMIT) == EOPNOTSUPP, "packet pacing");
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EOPNOTSUPP, "ibv_modify_qp_rate_limit");
	CHECK(vt_recv(qp, 1, vt_sge(mr, 0, 64)) == EINVAL, "a receive in RESET");
	a.port_num = 3;
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT) == EINVAL, "port 3");
	a.port_num = 1;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT) && !vt_recv(qp, 1, vt_sge(mr, 0, 64)), "INIT");
	CHECK(!vt_to(qp, IBV_QPS_RTR) && vt_send(qp, 2, vt_sge(mr, AT, 64), 0) == EINVAL && !vt_to(qp, IBV_QPS_RTS), "RTR, RTS");
	CHECK(!ibv_query_qp(qp, &got, IBV_QP_STATE, &init) && got.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_RAW_PACKET &&
		      got.port_num == 1, "ibv_query_qp");
	CHECK(!vt_to(qp, IBV_QPS_ERR), "ERR");
	vt_expect(cq, 1, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_send(qp, 3, vt_sge(mr, AT, 64), 0), "a request of a queue in error");
	vt_expect(cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
	raw_ready(qp);
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* Lengths, gather lists, inline data, lists of requests, ibv_wr_*, receives of several segments, SRQ. */
static void sends(void)
{
	struct ibv_qp *a = ready(cq, 0, 8), *b = ready(other_cq, 0, 8);
	struct ibv_flow *flow = flow_to(b, rule_mac(0, mac_b));

	CHECK(flow, "ibv_create_flow");
	static const unsigned payload[] = {0, 1, 46, 1500, 4096, JUMBO - 14};
	for (unsigned i = 0; i < sizeof(payload) / sizeof(*payload); i++) {
		post(b, i, JUMBO);
		send_to(a, mac_b, payload[i]);
		arrived(other_cq, i, 14 + payload[i]);
	}
	/* three segments to two, as a list of which the last is signaled */
	uint32_t len = plain(mac_b, 200);
	struct ibv_sge gather[3] = {vt_sge(mr, AT, 3), vt_sge(mr, AT + 3, 100), vt_sge(mr, AT + 103, len - 103)};
	struct ibv_sge scatter[2] = {vt_sge(mr, 0, 50), vt_sge(mr, 50, 500)};
	struct ibv_recv_wr rwr = {.wr_id = 9, .sg_list = scatter, .num_sge = 2}, *rbad;
	struct ibv_send_wr wr[2] = {{.wr_id = 1, .next = &wr[1], .sg_list = gather, .num_sge = 3, .opcode = IBV_WR_SEND},
				    {.wr_id = 2, .sg_list = gather, .num_sge = 3, .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}}, *bad;
	CHECK(!ibv_post_recv(b, &rwr, &rbad) && (rwr.wr_id = 10, !ibv_post_recv(b, &rwr, &rbad)), "receive");
	CHECK(!ibv_post_send(a, wr, &bad), "post");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	vt_none(cq);
	vt_expect(other_cq, 9, IBV_WC_SUCCESS);
	arrived(other_cq, 10, len);
	/* opcodes other than SEND, too many segments, a flag, too much inline data */
	wr[1].send_flags = 0;
	for (int op = 0; op < 12; op++) {
		wr[1].opcode = (enum ibv_wr_opcode)op;
		CHECK(op == IBV_WR_SEND || ibv_post_send(a, &wr[1], &bad) == EINVAL, "opcode %d", op);
	}
	wr[1].opcode = IBV_WR_SEND;
	wr[1].num_sge = 4;
	CHECK(ibv_post_send(a, &wr[1], &bad) == EINVAL, "four segments");
	wr[1].num_sge = 3;
	wr[1].send_flags = IBV_SEND_IP_CSUM;
	CHECK(ibv_post_send(a, &wr[1], &bad) == EINVAL, "IBV_SEND_IP_CSUM");
	gather[2].length = 300;
	wr[1].send_flags = IBV_SEND_INLINE;
	CHECK(ibv_post_send(a, &wr[1], &bad) == EINVAL, "403 bytes inline");
	vt_none(cq);
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");

	/* ibv_wr_*, and a shared receive queue */
	struct ibv_srq_init_attr si = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(t.pd, &si);
	CHECK(srq, "ibv_create_srq");
	struct ibv_qp_init_attr_ex i = {.send_cq = cq,
					.recv_cq = other_cq,
					.srq = srq,
					.qp_type = IBV_QPT_RAW_PACKET,
					.pd = t.pd,
					.cap = {8, 0, 2, 0, 256},
					.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM};
	CHECK((errno = 0, !ibv_create_qp_ex(t.ctx, &i)) && errno == EOPNOTSUPP, "sends with immediate");
	i.send_ops_flags = IBV_QP_EX_WITH_SEND;
	CHECK((a = ibv_create_qp_ex(t.ctx, &i)) && (b = ibv_create_qp_ex(t.ctx, &i)), "ibv_create_qp_ex");
	raw_ready(a);
	raw_ready(b);
	CHECK((flow = flow_to(b, rule_mac(0, mac_b))), "flow");
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
	for (int how = 0; how < 2; how++) {
		CHECK(!vt_srq_recv(srq, 5, vt_sge(mr, 0, JUMBO)), "receive");
		len = plain(mac_b, 100);
		ibv_wr_start(ex);
		ex->wr_id = 6;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(ex);
		if (how)
			ibv_wr_set_inline_data(ex, mem + AT, len);
		else
			ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem + AT, len);
		CHECK(!ibv_wr_complete(ex), "ibv_wr_complete");
		struct ibv_wc wc = vt_expect(cq, 6, IBV_WC_SUCCESS);
		CHECK(wc.opcode == IBV_WC_SEND, "opcode");
		arrived(other_cq, 5, len);
	}
	/* a queue in error takes no receive of the SRQ */
	CHECK(!vt_to(b, IBV_QPS_ERR) && !vt_srq_recv(srq, 7, vt_sge(mr, 0, JUMBO)), "ERR");
	send_to(a, mac_b, 10);
	vt_none(other_cq);
	CHECK(!vt_to(b, IBV_QPS_RESET), "RESET");
	raw_ready(b);
	send_to(a, mac_b, 11);
	arrived(other_cq, 7, 25);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_IP_CSUM;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem + AT, len);
	CHECK(ibv_wr_complete(ex) == EINVAL, "IBV_SEND_IP_CSUM");
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_srq(srq), "destroy");
}

/* Errors of the sender, which the sender's completion reports; and losses of the receiver, which it does not. */
static void losses(void)
{
	static const struct { uint32_t len; bool key; } wrong[] = {{13, true}, {JUMBO + 1, true}, {64, false}};
	struct ibv_qp *b = ready(other_cq, 0, 8), *a;
	struct ibv_flow *flow = flow_to(b, rule_mac(0, mac_b));

	CHECK(flow, "flow");
	for (unsigned i = 0; i < 3; i++) {
		a = ready(cq, 0, 1);
		plain(mac_b, 64);
		struct ibv_sge sge = vt_sge(mr, AT, wrong[i].len);
		sge.lkey ^= wrong[i].key ? 0 : 0xff;
		CHECK(!vt_send(a, 1, sge, 0), "post");
		vt_expect(cq, 1, wrong[i].key ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
		CHECK(vt_state(a) == IBV_QPS_ERR && !ibv_destroy_qp(a), "destroy");
	}
	a = ready(cq, 0, 1);
	/* no receive: the sender does not learn of the loss */
	send_to(a, mac_b, 10);
	vt_none(other_cq);
	/* one that is too short is used up */
	post(b, 1, 100);
	post(b, 2, 100);
	send_to(a, mac_b, 87);
	vt_expect(other_cq, 1, IBV_WC_LOC_LEN_ERR);
	send_to(a, mac_b, 86);
	arrived(other_cq, 2, 100);
	CHECK(vt_state(b) == IBV_QPS_RTS, "state");
	/* a queue that is not ready */
	CHECK(!vt_to(b, IBV_QPS_ERR), "ERR");
	send_to(a, mac_b, 10);
	CHECK(!vt_to(b, IBV_QPS_RESET), "RESET");
	send_to(a, mac_b, 10);
	vt_none(other_cq);
	raw_ready(b);
	post(b, 3, 100);
	send_to(a, mac_b, 10);
	arrived(other_cq, 3, 24);
	/* a queue to which flows lead is busy; without the flow the queue gets nothing */
	CHECK(ibv_destroy_qp(b) == EBUSY, "ibv_destroy_qp with a flow");
	CHECK(!ibv_destroy_flow(flow), "ibv_destroy_flow");
	post(b, 4, 100);
	send_to(a, mac_b, 10);
	vt_none(other_cq);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

/* The header of the transport stands behind the options of IPv4 and the extension headers of IPv6. */
static void options(void)
{
	struct ibv_flow_spec_tcp_udp udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(udp), .val = {.dst_port = htons(8000)},
					    .mask = {.dst_port = 0xffff}};
	struct ibv_qp *a = ready(cq, 0, 1), *b = ready(other_cq, 0, 4);
	struct rule r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);

	rule_add(&r, &udp, sizeof(udp));
	struct ibv_flow *flow = flow_to(b, r);
	CHECK(flow, "flow");
	for (int i = 0; i < 4; i++) {
		struct fields f = {.l3 = i & 1 ? 6 : 4, .extended = i & 2, .l4 = IPPROTO_UDP, .src_port = 7000, .dst_port = 8000,
				   .payload = 30};
		memcpy(f.dst, mac_b, 6);
		post(b, (uint64_t)i, 256);
		uint32_t len = frame_make(mem + AT, &f, 0);
		send_status(a, len, IBV_WC_SUCCESS);
		arrived(other_cq, (uint64_t)i, len);
	}
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static void vlans(void)
{
	struct ibv_cq_init_attr_ex c = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(t.ctx, &c);
	CHECK(ex, "ibv_create_cq_ex");
	struct ibv_qp *a = ready(cq, 0, 1), *b = ready(ibv_cq_ex_to_cq(ex), IBV_QP_CREATE_CVLAN_STRIPPING, 4),
		      *d = ready(other_cq, 0, 4);
	struct ibv_flow *fb = flow_to(b, rule_mac(0, mac_b)), *fd = flow_to(d, rule_mac(0, mac_b));
	struct ibv_poll_cq_attr pa = {0};
	uint8_t want[256];

	CHECK(fb && fd, "flows");
	for (unsigned tags = 0; tags < 3; tags++) {
		struct fields f = {
			.tags = tags, .tpid = {0x8100, 0x8100}, .tci = {0xa123, 0x0456}, .type = 0x88b5, .payload = 80};
		memcpy(f.dst, mac_b, 6);
		uint32_t len = frame_make(mem + AT, &f, tags), stripped = tags ? len - 4 : len;
		memcpy(want, mem + AT, 12);
		memcpy(want + 12, mem + AT + (tags ? 16 : 12), stripped - 12);
		CHECK(!vt_recv(b, tags, vt_sge(mr, 1024, 256)), "receive");
		post(d, tags, 256);
		send_status(a, len, IBV_WC_SUCCESS);
		CHECK(!ibv_start_poll(ex, &pa) && ex->status == IBV_WC_SUCCESS && ex->wr_id == tags, "poll");
		CHECK(ibv_wc_read_byte_len(ex) == stripped && ibv_wc_read_cvlan(ex) == (tags ? 0xa123 : 0) &&
			      !memcmp(mem + 1024, want, stripped),
		      "%u tags: VLAN %#x", tags, ibv_wc_read_cvlan(ex));
		ibv_end_poll(ex);
		arrived(other_cq, tags, len);	/* the other queue has the frame unchanged */
	}
	CHECK(!ibv_destroy_flow(fb) && !ibv_destroy_flow(fd) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_qp(d) &&
		      !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "destroy");
}

/* Frames of a queue match flows of the same queue only if the queue was made with self loopback (mlx5dv); sniffers get them. */
static void loopback(void)
{
	static const uint32_t flags[] = {0, MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_UC,
					 MLX5DV_QP_CREATE_TIR_ALLOW_SELF_LOOPBACK_MC};

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr_ex a = {.send_cq = cq, .recv_cq = other_cq, .qp_type = IBV_QPT_RAW_PACKET, .pd = t.pd,
						.comp_mask = IBV_QP_INIT_ATTR_PD, .cap = {8, 8, 1, 1, 0}};
		struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
						 .create_flags = flags[i] | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE};
		struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &a, &dv);
		CHECK(qp, "mlx5dv_create_qp");
		raw_ready(qp);
		struct ibv_flow *unicast = flow_to(qp, rule_mac(0, mac_a)), *multicast = flow_to(qp, rule_mac(0, group)),
				*sniffer;
		CHECK(unicast && multicast, "flows");
		post(qp, 1, 256);
		send_to(qp, mac_a, 10);
		if (i == 1) {
			arrived(other_cq, 1, 24);
			post(qp, 1, 256);
		}
		send_to(qp, group, 11);
		if (i == 2) {
			arrived(other_cq, 1, 25);
			post(qp, 1, 256);
		}
		vt_none(other_cq);
		CHECK((sniffer = flow_to(qp, rule_of(IBV_FLOW_ATTR_SNIFFER, 0))), "sniffer");
		post(qp, 2, 256);
		send_to(qp, mac_a, 12);		/* one copy, by whichever flow */
		arrived(other_cq, 1, 26);
		vt_none(other_cq);
		CHECK(!ibv_destroy_flow(sniffer) && !ibv_destroy_flow(unicast) && !ibv_destroy_flow(multicast) &&
			      !ibv_destroy_qp(qp),
		      "destroy");
	}
	struct ibv_qp_init_attr_ex a = {.send_cq = cq,
					.recv_cq = cq,
					.qp_type = IBV_QPT_RC,
					.pd = t.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD,
					.cap = {8, 8, 1, 1, 0}};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS, .create_flags = flags[1]};
	CHECK((errno = 0, !mlx5dv_create_qp(t.ctx, &a, &dv)) && errno == EOPNOTSUPP, "self loopback of a connected queue");
}

static void refused(void)
{
	struct ibv_qp *qp = ready(cq, 0, 1), *ud = vt_qp(&t, IBV_QPT_UD, cq, NULL), *rc = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_flow_spec_eth eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth)};
	struct ibv_flow_spec_ipv4 ip = {.type = IBV_FLOW_SPEC_IPV4, .size = sizeof(ip)};
	struct ibv_flow_spec_tcp_udp udp = {.type = IBV_FLOW_SPEC_UDP, .size = sizeof(udp)};
	struct ibv_flow *flow;
	struct rule r;
#define REFUSED(err, text) CHECK((errno = 0, !flow_to(qp, r)) && errno == (err), text)

	CHECK((errno = 0, !flow_to(rc, rule_mac(0, mac_a))) && errno == EINVAL, "a flow to an RC queue");
	r = rule_mac(0, mac_a);
	r.attr.port = 2;
	REFUSED(EINVAL, "port 2 of one");
	r.attr.port = 0;
	REFUSED(EINVAL, "port 0");
	r = rule_mac(0, mac_a);
	r.attr.comp_mask = 1;
	REFUSED(EINVAL, "comp_mask");
	r = rule_of((enum ibv_flow_attr_type)4, 0);
	REFUSED(EINVAL, "type 4");
	r = rule_mac(0, mac_a);
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	REFUSED(EOPNOTSUPP, "egress");
	r.attr.flags = 1;
	REFUSED(EINVAL, "flag 1");
	r = rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
	r.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	REFUSED(EINVAL, "DONT_TRAP of a default flow");
	r = rule_mac(0, mac_a);
	r.attr.type = IBV_FLOW_ATTR_SNIFFER;
	REFUSED(EINVAL, "a sniffer with a specification");
	static const struct { uint32_t type; size_t size;
	} lacking[] = {
		{IBV_FLOW_SPEC_ESP, sizeof(struct ibv_flow_spec_esp)},
		{IBV_FLOW_SPEC_VXLAN_TUNNEL, sizeof(struct ibv_flow_spec_tunnel)},
		{IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre)},
		{IBV_FLOW_SPEC_MPLS, sizeof(struct ibv_flow_spec_mpls)},
		{IBV_FLOW_SPEC_ETH | IBV_FLOW_SPEC_INNER, sizeof(eth)},
		{IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
		{IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
		{IBV_FLOW_SPEC_ACTION_HANDLE, sizeof(struct ibv_flow_spec_action_handle)},
		{IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action)},
	};
	for (unsigned i = 0; i < sizeof(lacking) / sizeof(*lacking); i++) {
		struct ibv_flow_spec s = {.hdr = {(enum ibv_flow_spec_type)lacking[i].type, (uint16_t)lacking[i].size}};
		r = rule_mac(0, mac_a);
		rule_add(&r, &s, lacking[i].size);
		CHECK((errno = 0, !flow_to(qp, r)) && errno == EOPNOTSUPP, "specification %#x", lacking[i].type);
	}
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	eth.size = sizeof(eth) - 2;
	rule_add(&r, &eth, sizeof(eth));
	REFUSED(EINVAL, "a specification of a wrong size");
	eth.size = sizeof(eth);
	r = rule_mac(0, mac_a);
	rule_add(&r, &eth, sizeof(eth));
	REFUSED(EINVAL, "two specifications of Ethernet");
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	rule_add(&r, &udp, sizeof(udp));
	udp.type = IBV_FLOW_SPEC_TCP;
	rule_add(&r, &udp, sizeof(udp));
	REFUSED(EINVAL, "UDP and TCP");
	/* in any order */
	r = rule_of(IBV_FLOW_ATTR_NORMAL, 0);
	rule_add(&r, &udp, sizeof(udp));
	rule_add(&r, &ip, sizeof(ip));
	rule_add(&r, &eth, sizeof(eth));
	CHECK((flow = flow_to(qp, r)) && !ibv_destroy_flow(flow), "TCP, IPv4, Ethernet");

	/* a flow to a UD queue takes the frame off the wire; the queue drops the frame, since UD packets have other headers */
	vt_connect(ud, 0);
	CHECK(!vt_recv(ud, 1, vt_sge(mr, 0, 256)), "receive");
	struct ibv_qp *rest = ready(other_cq, 0, 2);
	struct ibv_flow *all = flow_to(rest, rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0));
	CHECK((flow = flow_to(ud, rule_mac(0, mac_b))) && all, "flows");
	post(rest, 2, 256);
	send_to(qp, mac_b, 20);
	vt_none(other_cq);
	vt_none(cq);
	CHECK(!ibv_destroy_flow(flow), "ibv_destroy_flow");
	send_to(qp, mac_b, 20);
	arrived(other_cq, 2, 34);
	CHECK(!ibv_destroy_flow(all) && !ibv_destroy_qp(rest), "destroy");

	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .pd = t.pd, .cap = {1, 1, 1, 1, 0}};
	static const uint32_t mask[] = {IBV_QP_INIT_ATTR_RX_HASH, IBV_QP_INIT_ATTR_IND_TABLE, IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					IBV_QP_INIT_ATTR_CREATE_FLAGS};
	for (unsigned i = 0; i < 4; i++) {
		a.comp_mask = IBV_QP_INIT_ATTR_PD | mask[i];
		a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
		CHECK((errno = 0, !ibv_create_qp_ex(t.ctx, &a)) && errno == EOPNOTSUPP, "comp_mask %#x", a.comp_mask);
	}
	union ibv_gid gid = {.raw = {0xff}};
	CHECK(ibv_attach_mcast(qp, &gid, 0) == EINVAL, "ibv_attach_mcast");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(ud) && !ibv_destroy_qp(rc), "destroy");
}

/* shcactl inject: over a port that is down nothing comes or goes. */
static void inject(const char *event)
{
	char command[256];

	snprintf(command, sizeof(command), "./shcactl --fabric %s inject %s", getenv("SHCA_FABRIC"), event);
	CHECK(!system(command), "%s", command);
}

static void port_down(void)
{
	struct ibv_qp *a = ready(cq, 0, 1), *b = ready(other_cq, 0, 4);
	struct ibv_flow *flow = flow_to(b, rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0));

	CHECK(flow, "flow");
	post(b, 1, 256);
	if (!access("./shcactl", X_OK)) {
		inject("port-down");
		send_to(a, mac_b, 30);
		vt_none(other_cq);
		inject("port-up");
	}
	send_to(a, mac_b, 31);
	arrived(other_cq, 1, 45);
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

/* A sender and two receivers: both get broadcast; the one with the flow gets the unicast frames, and when that process has been
 * killed the one with the default flow. */
static void processes(void)
{
	enum { CHILDREN = 2 };
	struct vt_peer peer[CHILDREN];
	char c = 0;

	for (int i = 0; i < CHILDREN; i++) {
		peer[i] = vt_fork();
		if (peer[i].child)
			continue;
		t = vt_open();
		cq = vt_cq(&t, 16, NULL);
		mr = vt_mr(&t, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
		struct ibv_qp *qp = ready(cq, 0, 8);
		CHECK(flow_to(qp, rule_mac(0, broadcast)) &&
			      flow_to(qp, i ? rule_mac(3, mac_b) : rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0)),
		      "flows");
		for (uint64_t k = 0; k < 4; k++)
			CHECK(!vt_recv(qp, k, vt_sge(mr, k * 256, 256)), "receive");
		vt_tell(&peer[i], &c, 1);
		/* by broadcast: 40 bytes */
		struct ibv_wc wc = vt_expect(cq, 0, IBV_WC_SUCCESS);
		CHECK(wc.byte_len == 54 && !memcmp(mem, broadcast, 6), "broadcast");
		vt_tell(&peer[i], &c, 1);
		if (i)
			for (;;)
				pause();
		/* frames for mac_b have gone to the other child, until that child ended */
		wc = vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(wc.byte_len == 57 && !memcmp(mem + 256, mac_b, 6), "%u bytes", wc.byte_len);
		vt_tell(&peer[i], &c, 1);
		exit(0);		/* without closing anything */
	}
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	other_cq = vt_cq(&t, 16, NULL);
	mr = vt_mr(&t, mem, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = ready(cq, 0, 1);
	for (int i = 0; i < CHILDREN; i++)
		vt_hear(&peer[i], &c, 1);
	send_to(qp, broadcast, 40);
	for (int i = 0; i < CHILDREN; i++)
		vt_hear(&peer[i], &c, 1);
	send_to(qp, mac_b, 41);
	int status;
	CHECK(!kill(peer[1].child, SIGKILL) && waitpid(peer[1].child, &status, 0) == peer[1].child, "kill");
	send_to(qp, mac_b, 43);
	vt_hear(&peer[0], &c, 1);
	vt_join(&peer[0]);
	send_to(qp, broadcast, 44);	/* to no receiver */
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* A flow that the program leaves to a context ends when the context is closed. */
static void context_closed(void)
{
	struct vt left = vt_open();
	struct ibv_cq *left_cq = vt_cq(&left, 16, NULL);
	struct ibv_qp *left_qp = raw_qp(&left, left_cq, 0, 1), *a = ready(cq, 0, 1), *b = ready(other_cq, 0, 4);
	struct ibv_flow *rest = flow_to(b, rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0));

	raw_ready(left_qp);
	CHECK(rest && flow_to(left_qp, rule_mac(0, mac_b)), "flows");
	post(b, 1, 256);
	send_to(a, mac_b, 10);
	vt_none(other_cq);
	CHECK(!ibv_close_device(left.ctx), "ibv_close_device");
	send_to(a, mac_b, 10);
	arrived(other_cq, 1, 24);
	CHECK(!ibv_destroy_flow(rest) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

int main(void)
{
	vt_fabric();
	mem = calloc(1, BYTES);
	CHECK(mem, "memory");
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	capabilities(false);
	CHECK(!ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	CHECK(!setenv("SHCA_LINK", "ethernet", 1), "setenv");
	processes();
	capabilities(true);
	states();
	sends();
	losses();
	options();
	vlans();
	loopback();
	refused();
	port_down();
	context_closed();
	CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_cq(other_cq) && !ibv_dereg_mr(mr), "destroy");
	vt_close(&t);
	free(mem);
	return 0;
}
