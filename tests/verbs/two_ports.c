/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device with two ports (SHCA_PORTS=2): their attributes, GIDs, files and counters; queues and address handles of either port,
 * paths from a port to the same and to the other one; a port that is down concerns its own paths only, and its events name it. A
 * process with one port beside; Ethernet frames of each port.
 */
#include <endian.h>

#include "frame.h"
#include "ports.h"

static struct vt t;
static struct ibv_cq *cq;
static char *memory;
static struct ibv_mr *mr;

static void attributes(void)
{
	struct ibv_device_attr d;
	struct ibv_gid_entry e[4];
	struct ibv_port_attr p[2];
	union ibv_gid gid[2];
	__be16 pkey;

	CHECK(!ibv_query_device(t.ctx, &d) && d.phys_port_cnt == 2 && d.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG,
	      "the device");
	for (uint8_t i = 0; i < 2; i++) {
		CHECK(!ibv_query_port(t.ctx, i + 1, &p[i]) && p[i].state == IBV_PORT_ACTIVE && p[i].sm_lid == 1, "port %u",
		      i + 1);
		CHECK(!ibv_query_gid(t.ctx, i + 1, 0, &gid[i]) && !ibv_query_pkey(t.ctx, i + 1, 0, &pkey) && pkey == 0xffff,
		      "tables");
		CHECK(!ibv_get_pkey_index(t.ctx, i + 1, pkey), "P_Key");
	}
	CHECK(p[0].lid == 1 && p[1].lid > 1 && memcmp(&gid[0], &gid[1], sizeof(gid[0])), "the ports have one address");
	CHECK(ibv_query_port(t.ctx, 3, &p[0]) == EINVAL && ibv_query_port(t.ctx, 0, &p[0]) == EINVAL, "more ports");
	CHECK(ibv_query_gid_table(t.ctx, e, 4, 0) == 2 && e[0].port_num == 1 && e[1].port_num == 2 &&
		      !memcmp(&e[1].gid, &gid[1], 16),
	      "the table of GIDs");
}

/* The contents of a port's file; "-": there is none. */
static const char *file(unsigned port, const char *name)
{
	static struct shca_file f;
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/infiniband/shca0/ports/%u/%s", port, name);
	if (shca_file_find(path, &f))
		return "-";
	f.text[f.length] = 0;
	return f.text;
}

static void files(void)
{
	struct shca_file a, b;
	char lid[32];

	snprintf(lid, sizeof(lid), "0x%x\n", ports_lid(t.ctx, 2));
	CHECK(!strcmp(file(1, "lid"), "0x1\n") && !strcmp(file(2, "lid"), lid), "%s", file(2, "lid"));
	CHECK(!strcmp(file(2, "state"), "4: ACTIVE\n") && !strcmp(file(3, "state"), "-") && !strcmp(file(2, "states"), "-"),
	      "state");
	char first[64];
	snprintf(first, sizeof(first), "%s", file(1, "gids/0"));
	CHECK(strcmp(first, file(2, "gids/0")) && strlen(first) == strlen(file(2, "gids/0")), "GIDs");
	CHECK(!shca_file_find("/sys/class/infiniband/shca0/ports/1/lid", &a) &&
		      shca_file_find("/sys/class/infiniband/shca0/ports/2/lid/", &b) == -ENOENT &&
		      !shca_file_find("/sys/class/infiniband/shca0//ports/2/lid", &b) && a.path != b.path &&
		      strstr(b.path, "/ports/2/lid"),
	      "paths");
	CHECK(!shca_file_find("/sys/class/infiniband/shca0/ports/2/", &b) && b.kind == SHCA_FILE_DIRECTORY, "a directory");
	CHECK(!setenv("SHCA_PORTS", "1", 1) && !strcmp(file(2, "lid"), "-") && !setenv("SHCA_PORTS", "2", 1),
	      "a process with one port");
}

static unsigned long counter(unsigned port, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "counters/%s", name);
	return strtoul(file(port, path), NULL, 10);
}

static void message(struct ibv_qp *from, struct ibv_qp *to, bool comes)
{
	memset(memory + 2048, 0, 64);
	CHECK(!vt_recv(to, 2, vt_sge(mr, 2048, 64)) && !vt_send(from, 1, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "a message");
	if (!comes) {
		vt_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	struct ibv_wc a = vt_wait(cq), b = vt_wait(cq);
	CHECK(a.status == IBV_WC_SUCCESS && b.status == IBV_WC_SUCCESS && a.wr_id + b.wr_id == 3 && memory[2048] == 7,
	      "a message");
}

static void connections(void)
{
	static const struct {
		uint8_t a, a_to, b, b_to;
		bool comes;
	} row[] = {
		{1, 1, 1, 1, true}, {2, 2, 2, 2, true}, {1, 2, 2, 1, true}, {2, 1, 1, 2, true},
		/* one side's address is not the port that the other side is bound to */
		{1, 1, 2, 1, false}, {1, 2, 1, 1, false}, {2, 1, 1, 1, false}, {2, 2, 2, 1, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct ibv_qp *a = vt_qp(&t, IBV_QPT_RC, cq, NULL), *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		unsigned long before = counter(row[i].a, "port_xmit_data"), other = counter(3 - row[i].a, "port_xmit_data");
		ports_connect(a, b->qp_num, row[i].a, row[i].a_to, vt_rts_attr());
		ports_connect(b, a->qp_num, row[i].b, row[i].b_to, vt_rts_attr());
		CHECK(ports_query(a).port_num == row[i].a && ports_query(a).path_mig_state == IBV_MIG_MIGRATED, "port");
		message(a, b, row[i].comes);
		/* of 4 bytes */
		unsigned long more = row[i].comes ? 16 : 0;
		CHECK(counter(row[i].a, "port_xmit_data") == before + more && counter(3 - row[i].a, "port_xmit_data") == other,
		      "row %zu: counters", i);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
		CHECK(counter(row[i].a, "port_xmit_data") == before + more && counter(3 - row[i].a, "port_xmit_data") == other,
		      "row %zu: counters of queues that are gone", i);
		while (ibv_poll_cq(cq, 1, &(struct ibv_wc){0}) > 0)
			;
	}
}

static struct ibv_qp *datagrams(uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .qkey = VT_QKEY};
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_UD, cq, NULL);

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), "INIT");
	vt_rtr_rts(qp, 0, vt_rts_attr());
	return qp;
}

/* A datagram by an address handle of a port; flags: IBV_SEND_INLINE takes the short way. */
static void datagram(struct ibv_qp *from, struct ibv_qp *to, uint8_t port, uint8_t dest, bool global, unsigned int flags)
{
	struct ibv_ah_attr at = {.dlid = ports_lid(t.ctx, dest), .port_num = port, .is_global = global};
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags}, *bad;

	CHECK(!ibv_query_gid(t.ctx, dest, 0, &at.grh.dgid), "GID");
	struct ibv_ah *ah = ibv_create_ah(t.pd, &at);
	CHECK(ah, "ibv_create_ah");
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = to->qp_num;
	wr.wr.ud.remote_qkey = VT_QKEY;
	CHECK(!ibv_post_send(from, &wr, &bad), "post");
	CHECK(!ibv_destroy_ah(ah), "destroy_ah");
}

static void datagram_ways(void)
{
	struct ibv_qp *q[2] = {datagrams(1), datagrams(2)}, *wrong;
	union ibv_gid gid[2];

	CHECK(!ibv_query_gid(t.ctx, 1, 0, &gid[0]) && !ibv_query_gid(t.ctx, 2, 0, &gid[1]), "GIDs");
	for (int from = 0; from < 2; from++)
		for (int to = 0; to < 2; to++)
			for (int way = 0; way < 4; way++) {
				bool global = way & 1;
				struct ibv_qp *dest = q[to];
				if (from == to)
					dest = datagrams((uint8_t)(to + 1));
				CHECK(!vt_recv(dest, 6, vt_sge(mr, 1024, 104)), "receive");
				/* to the port that the queue is not bound to: lost */
				datagram(q[from], dest, (uint8_t)(from + 1), (uint8_t)(2 - to), global,
					 way & 2 ? IBV_SEND_INLINE : 0);
				vt_none(cq);
				datagram(q[from], dest, (uint8_t)(from + 1), (uint8_t)(to + 1), global,
					 way & 2 ? IBV_SEND_INLINE : 0);
				struct ibv_wc wc = vt_expect(cq, 6, IBV_WC_SUCCESS);
				struct ibv_grh *grh = (struct ibv_grh *)(memory + 1024);
				struct ibv_ah_attr back;
				CHECK(wc.slid == ports_lid(t.ctx, (uint8_t)(from + 1)) && wc.src_qp == q[from]->qp_num,
				      "from LID %u", wc.slid);
				CHECK(!(wc.wc_flags & IBV_WC_GRH) == !global, "GRH");
				CHECK(!global || (!memcmp(&grh->sgid, &gid[from], 16) && !memcmp(&grh->dgid, &gid[to], 16)),
				      "GIDs of the GRH");
				CHECK(!ibv_init_ah_from_wc(t.ctx, (uint8_t)(to + 1), &wc, grh, &back) &&
					      back.port_num == to + 1 && back.dlid == wc.slid,
				      "an address from a completion");
				CHECK(!global || ibv_init_ah_from_wc(t.ctx, (uint8_t)(2 - to), &wc, grh, &back) == -1,
				      "the other port's");
				if (from == to)
					CHECK(!ibv_destroy_qp(dest), "destroy");
			}
	/* IBV_DEVICE_UD_AV_PORT_ENFORCE */
	wrong = datagrams(2);
	datagram(wrong, q[0], 1, 1, false, IBV_SEND_SIGNALED);
	vt_expect(cq, 5, IBV_WC_LOC_QP_OP_ERR);
	CHECK(!ibv_destroy_qp(q[0]) && !ibv_destroy_qp(q[1]) && !ibv_destroy_qp(wrong), "destroy");
}

/*
 * The sender of a datagram is read with its completion, and not from the receive, which may be another datagram's by the time
 * that the program asks for the LID:
 *
 *   1. the cursor stands on a datagram with immediate from port 2
 *   2. every receive of the queue is posted again, and filled from port 1
 */
static void sender_read_late(void)
{
	struct ibv_cq_init_attr_ex ca = {.cqe = 256, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(t.ctx, &ca);
	struct ibv_qp_init_attr qa = {.send_cq = cq, .qp_type = IBV_QPT_UD,
				      .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = VT_QKEY};
	struct ibv_qp *from[2] = {datagrams(1), datagrams(2)};
	struct ibv_poll_cq_attr pa = {.comp_mask = 0};
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .wr.ud.remote_qkey = VT_QKEY}, *bad;
	struct ibv_ah *ah[2];

	CHECK(ex, "ibv_create_cq_ex");
	qa.recv_cq = ibv_cq_ex_to_cq(ex);
	struct ibv_qp *to = ibv_create_qp(t.pd, &qa);
	CHECK(to && !ibv_modify_qp(to, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), "INIT");
	vt_rtr_rts(to, 0, vt_rts_attr());
	wr.wr.ud.remote_qpn = to->qp_num;
	for (uint8_t i = 0; i < 2; i++) {
		struct ibv_ah_attr at = {.dlid = ports_lid(t.ctx, 1), .port_num = i + 1, .sl = i + 3};
		ah[i] = ibv_create_ah(t.pd, &at);
		CHECK(ah[i], "ibv_create_ah");
	}
	int n = 0;
	for (; !vt_recv(to, (uint64_t)n, vt_sge(mr, 1024, 104)); n++) {
		uint8_t port = n ? 0 : 1;
		wr.wr.ud.ah = ah[port];
		CHECK(!ibv_post_send(from[port], &wr, &bad), "post");
		if (!n)
			CHECK(!ibv_start_poll(ex, &pa) && ex->wr_id == 0, "ibv_start_poll");
	}
	CHECK(n > (int)qa.cap.max_recv_wr, "%d receives", n);
	CHECK(ibv_wc_read_slid(ex) == ports_lid(t.ctx, 2) && ibv_wc_read_src_qp(ex) == from[1]->qp_num && ibv_wc_read_sl(ex) == 4,
	      "from LID %u", ibv_wc_read_slid(ex));
	for (int i = 1; i < n; i++)
		CHECK(!ibv_next_poll(ex) && ex->wr_id == (uint64_t)i && ibv_wc_read_slid(ex) == ports_lid(t.ctx, 1) &&
			      ibv_wc_read_src_qp(ex) == from[0]->qp_num && ibv_wc_read_sl(ex) == 3,
		      "datagram %d from LID %u", i, ibv_wc_read_slid(ex));
	ibv_end_poll(ex);
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_ah(ah[i]) && !ibv_destroy_qp(from[i]), "destroy");
	CHECK(!ibv_destroy_qp(to) && !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), "destroy");
}

/* Members on either port get a group's datagrams, while their ports are up. */
static void multicast(void)
{
	struct ibv_qp *q[3] = {datagrams(1), datagrams(1), datagrams(2)};
	union ibv_gid group = {.raw = {0xff, 0x12, [15] = 9}};
	struct ibv_ah_attr at = {.dlid = 0xc009, .port_num = 1, .is_global = 1, .grh.dgid = group};
	struct ibv_ah *ah = ibv_create_ah(t.pd, &at);
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .wr.ud = {.ah = ah, .remote_qpn = 0xffffff, .remote_qkey = VT_QKEY}}, *bad;

	CHECK(ah, "ibv_create_ah");
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_attach_mcast(q[i], &group, 0xc009), "attach");
	for (int round = 0; round < 3; round++) {
		if (round == 1)
			ports_inject(2, "port-down");
		if (round == 2)
			ports_inject(2, "port-up");
		for (int i = 1; i < 3 && (round < 2 || i == 1); i++)
			CHECK(!vt_recv(q[i], (uint64_t)i, vt_sge(mr, 1024, 104)), "receive");
		CHECK(!ibv_post_send(q[0], &wr, &bad), "post");
		unsigned got = 0, all = round == 1 ? 2 : 6;
		for (int i = 0; i < (round == 1 ? 1 : 2); i++)
			got |= 1u << vt_wait(cq).wr_id;
		CHECK(got == all, "round %d: members %#x", round, got);
		vt_none(cq);
	}
	CHECK(!ibv_destroy_ah(ah), "destroy_ah");
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_destroy_qp(q[i]), "destroy");
}

static void one_down(void)
{
	struct ibv_qp *q[4];
	struct ibv_async_event ev;
	struct ibv_port_attr p;

	while (!ibv_get_async_event(t.ctx, &ev))
		ibv_ack_async_event(&ev);
	for (int i = 0; i < 4; i += 2) {
		q[i] = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		q[i + 1] = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		uint8_t port = (uint8_t)(1 + i / 2);
		ports_connect(q[i], q[i + 1]->qp_num, port, port, vt_rts_attr());
		ports_connect(q[i + 1], q[i]->qp_num, port, port, vt_rts_attr());
		message(q[i], q[i + 1], true);
	}
	/* a fast write remembers where it goes */
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	CHECK(!vt_rdma(q[2], IBV_WR_RDMA_WRITE, 3, sge, (uintptr_t)memory + 512, mr->rkey), "write");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	ports_inject(2, "port-down");
	CHECK(!ibv_get_async_event(t.ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ERR && ev.element.port_num == 2, "event");
	ibv_ack_async_event(&ev);
	CHECK(!ibv_query_port(t.ctx, 2, &p) && p.state == IBV_PORT_DOWN && !ibv_query_port(t.ctx, 1, &p) &&
		      p.state == IBV_PORT_ACTIVE,
	      "state");
	CHECK(!strcmp(file(2, "state"), "1: DOWN\n") && !strcmp(file(1, "state"), "4: ACTIVE\n"), "files");
	message(q[0], q[1], true);
	memory[512] = 0;
	CHECK(!vt_rdma(q[2], IBV_WR_RDMA_WRITE, 3, sge, (uintptr_t)memory + 512, mr->rkey), "write");
	vt_expect(cq, 3, IBV_WC_RETRY_EXC_ERR);
	CHECK(!memory[512], "a write went through a port that is down");
	ports_inject(2, "port-up");
	CHECK(!ibv_get_async_event(t.ctx, &ev) && ev.event_type == IBV_EVENT_PORT_ACTIVE && ev.element.port_num == 2, "event");
	ibv_ack_async_event(&ev);
	for (int i = 0; i < 4; i++)
		CHECK(!ibv_destroy_qp(q[i]), "destroy");
	while (ibv_poll_cq(cq, 1, &(struct ibv_wc){0}) > 0)
		;
}

static void frame_from(struct ibv_qp *qp, uint32_t number)
{
	static const uint8_t macs[12] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8};
	struct ibv_sge sge = vt_sge(mr, 0, 60);
	struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;

	memcpy(memory, macs, sizeof(macs));
	memcpy(memory + 20, &number, sizeof(number));
	CHECK(!ibv_post_send(qp, &wr, &bad), "a frame");
}

/* A frame goes to the flows of the port that it leaves by, whatever port their queue is bound to, while that port is up. */
static void frames(void)
{
	struct ibv_cq *to_cq = vt_cq(&t, 64, NULL);
	struct ibv_qp *from[2], *to[2];
	struct ibv_flow *flow[2];

	CHECK(!setenv("SHCA_LINK", "ethernet", 1), "setenv");
	for (uint8_t i = 0; i < 2; i++) {
		struct rule r = rule_of(IBV_FLOW_ATTR_ALL_DEFAULT, 0);
		from[i] = raw_qp(&t, cq, 0, 4);
		to[i] = raw_qp(&t, to_cq, 0, 16);
		raw_ready_at(from[i], i + 1);
		raw_ready_at(to[i], 2 - i);
		r.attr.port = i + 1;
		flow[i] = flow_to(to[i], r);
		CHECK(flow[i], "ibv_create_flow of port %u", i + 1);
	}
	/* 0: none is down */
	for (uint32_t down = 0; down <= 2; down++) {
		if (down)
			ports_inject(down, "port-down");
		for (uint32_t i = 0; i < 2; i++) {
			uint32_t number = 10 * down + i, got;
			CHECK(!vt_recv(to[0], 0, vt_sge(mr, 1024, 64)) && !vt_recv(to[1], 1, vt_sge(mr, 2048, 64)), "receives");
			frame_from(from[i], number);
			vt_expect(cq, 5, IBV_WC_SUCCESS);
			if (down != i + 1) {
				struct ibv_wc wc = vt_expect(to_cq, i, IBV_WC_SUCCESS);
				memcpy(&got, memory + (i ? 2048 : 1024) + 20, sizeof(got));
				CHECK(wc.qp_num == to[i]->qp_num && wc.byte_len == 60 && got == number, "frame %u of %u", got,
				      number);
			}
			vt_none(to_cq);
		}
		if (down)
			ports_inject(down, "port-up");
	}
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_destroy_flow(flow[i]) && !ibv_destroy_qp(from[i]) && !ibv_destroy_qp(to[i]), "destroy");
	CHECK(!ibv_destroy_cq(to_cq) && !unsetenv("SHCA_LINK"), "destroy");
}

/* A process with one port, in the same fabric. */
static void one_port(void)
{
	struct vt_peer p = vt_fork();
	struct ibv_device_attr d;
	struct ibv_port_attr a;
	uint32_t number, other;

	if (!p.child) {
		CHECK(!unsetenv("SHCA_PORTS"), "unsetenv");
		struct vt own = vt_open();
		struct ibv_cq *c = vt_cq(&own, 8, NULL);
		struct ibv_qp *qp = vt_qp(&own, IBV_QPT_RC, c, NULL);
		char bytes[64];
		struct ibv_mr *r = vt_mr(&own, bytes, sizeof(bytes), VT_ACCESS);
		struct ibv_async_event ev;
		CHECK(!ibv_query_device(own.ctx, &d) && d.phys_port_cnt == 1 &&
			      !(d.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG),
		      "one port");
		CHECK(ibv_query_port(own.ctx, 2, &a) == EINVAL && !ibv_query_port(own.ctx, 1, &a), "port 2");
		number = qp->qp_num;
		vt_tell(&p, &number, sizeof(number));
		vt_hear(&p, &other, sizeof(other));
		struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 2};
		CHECK(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) == EINVAL,
		      "port 2");
		/* its peer is on port 2 */
		struct ibv_qp_attr rtr = vt_rtr_attr(other), rts = vt_rts_attr();
		vt_hear(&p, &rtr.ah_attr.dlid, sizeof(rtr.ah_attr.dlid));
		CHECK(!vt_init(qp) && !ibv_modify_qp(qp, &rtr, VT_RTR_RC) && !ibv_modify_qp(qp, &rts, VT_RTS_RC), "connect");
		CHECK(!vt_recv(qp, 1, vt_sge(r, 0, 64)), "receive");
		CHECK(!fcntl(own.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
		vt_meet(&p);
		vt_expect(c, 1, IBV_WC_SUCCESS);
		vt_meet(&p);
		CHECK(ibv_get_async_event(own.ctx, &ev) == -1 && errno == EAGAIN, "an event of port 2");
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(c) && !ibv_dereg_mr(r), "destroy");
		vt_close(&own);
		exit(0);
	}
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	uint16_t lid = ports_lid(t.ctx, 2);
	number = qp->qp_num;
	vt_hear(&p, &other, sizeof(other));
	vt_tell(&p, &number, sizeof(number));
	vt_tell(&p, &lid, sizeof(lid));
	ports_connect(qp, other, 2, 1, vt_rts_attr());
	vt_meet(&p);
	CHECK(!vt_send(qp, 1, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "send");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	ports_inject(2, "port-down");
	ports_inject(2, "port-up");
	vt_meet(&p);
	vt_join(&p);
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

int main(void)
{
	vt_fabric();
	ports_begin();
	t = vt_open();
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	cq = vt_cq(&t, 64, NULL);
	memory = shca_alloc(t.ctx, 4096);
	CHECK(memory, "shca_alloc");
	memset(memory, 7, 4096);
	mr = vt_mr(&t, memory, 4096, VT_ACCESS);
	attributes();
	files();
	connections();
	datagram_ways();
	sender_read_late();
	multicast();
	one_down();
	frames();
	one_port();
	CHECK(!ibv_dereg_mr(mr) && !shca_free(t.ctx, memory) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	ports_end();
	return 0;
}
