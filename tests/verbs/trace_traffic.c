/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of every kind, for tests/verbs/trace.sh: says "ready NUMBER" (of the queue whose requests are refused), waits for a
 * line, posts, and prints a line for each packet that an adapter would have sent: opcode, destination queue, immediate or "-".
 *
 *     trace_traffic ports
 *
 * with SHCA_PORTS=2: requests from either port to either port, with source LID and destination LID of each packet in place of
 * the immediate, and, of datagrams with a GRH, source GID and destination GID behind them.
 */
#include <arpa/inet.h>
#include <fcntl.h>

#include "ports.h"

#define LONG 10000u			/* three packets of the path MTU, 4096 */
#define BYTES 65536u

static struct vt t;
static char *mem;
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;

static struct ibv_qp *queue(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = { .send_cq = scq, .recv_cq = rcq, .qp_type = type,
				      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 1,
					       .max_inline_data = 64 } };
	struct ibv_qp *qp = ibv_create_qp(t.pd, &a);

	CHECK(qp, "ibv_create_qp %d", type);
	return qp;
}

static void packet(unsigned opcode, uint32_t to)
{
	printf("%u 0x%06x -\n", opcode, to);
}

/* The packets of a message of n: first, middle, last; only. */
static void message(const unsigned op[4], unsigned n, uint32_t to)
{
	for (unsigned i = 0; i < n; i++)
		packet(n == 1 ? op[3] : i == 0 ? op[0] : i + 1 == n ? op[2] : op[1], to);
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t len, struct ibv_send_wr how)
{
	struct ibv_sge sge = vt_sge(mr, 0, len);
	struct ibv_send_wr wr = how, *bad;

	wr.opcode = op;
	wr.sg_list = &sge;
	wr.num_sge = len ? 1 : 0;
	if (op != IBV_WR_SEND && qp->qp_type != IBV_QPT_UD && op != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = (uintptr_t)mem + BYTES / 2;
		wr.wr.rdma.rkey = mr->rkey;
	}
	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)mem + BYTES / 2;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 2;
		wr.wr.atomic.rkey = mr->rkey;
	}
	int err = ibv_post_send(qp, &wr, &bad);
	CHECK(!err, "post %d: %d", op, err);
	if (wr.send_flags & IBV_SEND_SIGNALED)
		vt_expect(scq, wr.wr_id, IBV_WC_SUCCESS);
}
#define SIGNALED { .send_flags = IBV_SEND_SIGNALED }
#define INLINE { .send_flags = IBV_SEND_INLINE }

static void receive(struct ibv_qp *qp)
{
	CHECK(!vt_recv(qp, 1, vt_sge(mr, BYTES / 2, BYTES / 2)), "recv");
}

static void received(void)
{
	vt_expect(rcq, 1, IBV_WC_SUCCESS);
}

/* Every opcode of a connection with opcodes from `class` on. ack: the responder answers. */
static void connected(enum ibv_qp_type type, unsigned class)
{
	const unsigned send[] = {class, class + 1, class + 2, class + 4}, send_imm[] = {class, class + 1, class + 3, class + 5};
	const unsigned write[] = {class + 6, class + 7, class + 8, class + 10},
		       write_imm[] = {class + 6, class + 7, class + 9, class + 11};
	struct ibv_qp *a = queue(type), *b = queue(type);
	bool acked = type == IBV_QPT_RC;

	vt_connect_pair(a, b);
	for (unsigned n = 1; n <= 3; n += 2) {
		uint32_t len = n == 1 ? 10 : LONG;
		receive(b);
		post(a, IBV_WR_SEND, len, n == 1 ? (struct ibv_send_wr)INLINE : (struct ibv_send_wr)SIGNALED);
		received();
		message(send, n, b->qp_num);
		if (acked)
			packet(class + 17, a->qp_num);
		receive(b);
		post(a, IBV_WR_SEND_WITH_IMM, len, (struct ibv_send_wr)SIGNALED);
		received();
		message(send_imm, n, b->qp_num);
		if (acked)
			packet(class + 17, a->qp_num);
		post(a, IBV_WR_RDMA_WRITE, len, n == 1 ? (struct ibv_send_wr)INLINE : (struct ibv_send_wr)SIGNALED);
		message(write, n, b->qp_num);
		if (acked)
			packet(class + 17, a->qp_num);
		receive(b);
		post(a, IBV_WR_RDMA_WRITE_WITH_IMM, n == 1 ? 0 : len, (struct ibv_send_wr)SIGNALED);
		received();
		message(write_imm, n, b->qp_num);
		if (acked)
			packet(class + 17, a->qp_num);
		if (!acked)
			continue;
		post(a, IBV_WR_RDMA_READ, len, (struct ibv_send_wr)SIGNALED);
		packet(class + 12, b->qp_num);
		message((const unsigned[]){ class + 13, class + 14, class + 15, class + 16 }, n, a->qp_num);
	}
	if (acked) {
		post(a, IBV_WR_ATOMIC_CMP_AND_SWP, 8, (struct ibv_send_wr)SIGNALED);
		packet(class + 19, b->qp_num);
		packet(class + 18, a->qp_num);
		post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, (struct ibv_send_wr)SIGNALED);
		packet(class + 20, b->qp_num);
		packet(class + 18, a->qp_num);
		/* ATOMIC WRITE of IBTA 1.6: its value by a segment, and inline; answered by a READ response without data */
		memcpy(mem, "by a seg", 8);
		post(a, IBV_WR_ATOMIC_WRITE, 8, (struct ibv_send_wr)SIGNALED);
		CHECK(!memcmp(mem + BYTES / 2, "by a seg", 8), "ATOMIC_WRITE");
		memcpy(mem, "inline 8", 8);
		post(a, IBV_WR_ATOMIC_WRITE, 8, (struct ibv_send_wr){ .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE });
		CHECK(!memcmp(mem + BYTES / 2, "inline 8", 8), "ATOMIC_WRITE inline");
		memset(mem, 0xa5, 8);
		for (int i = 0; i < 2; i++) {
			packet(class + 29, b->qp_num);
			packet(class + 16, a->qp_num);
		}
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static void datagrams(void)
{
	struct ibv_qp *a = queue(IBV_QPT_UD), *b = queue(IBV_QPT_UD);
	union ibv_gid gid, group = { .raw = { 0xff, 0x12, [15] = 7 } };
	struct ibv_ah_attr near = { .dlid = 1, .port_num = 1, .sl = 3 }, far = { .dlid = 1, .port_num = 1, .is_global = 1 },
			   many = { .dlid = 0xc000, .port_num = 1, .is_global = 1 };

	vt_connect(a, 0);
	vt_connect(b, 0);
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &gid), "gid");
	far.grh.dgid = gid;
	far.grh.hop_limit = 9;
	many.grh.dgid = group;
	struct ibv_ah *ah[3] = { ibv_create_ah(t.pd, &near), ibv_create_ah(t.pd, &far), ibv_create_ah(t.pd, &many) };
	CHECK(ah[0] && ah[1] && ah[2] && !ibv_attach_mcast(b, &group, 0xc000), "address handles");
	for (int i = 0; i < 3; i++) {
		uint32_t to = i == 2 ? 0xffffff : b->qp_num;
		struct ibv_send_wr how = { .send_flags = i == 0 ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
					   .wr.ud = { .ah = ah[i], .remote_qpn = to, .remote_qkey = VT_QKEY } };
		receive(b);
		post(a, i == 1 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, 32, how);
		received();
		packet(i == 1 ? 0x65 : 0x64, to);
	}
	CHECK(!ibv_detach_mcast(b, &group, 0xc000), "detach");
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_destroy_ah(ah[i]), "destroy");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

/* A WRITE with a key that is none: a NAK. */
static void refused(struct ibv_qp *a, struct ibv_qp *b)
{
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 5, vt_sge(mr, 0, 100), (uintptr_t)mem, mr->rkey ^ 0x100), "post");
	vt_expect(scq, 5, IBV_WC_REM_ACCESS_ERR);
	packet(10, b->qp_num);
	packet(17, a->qp_num);
}

/* ---- two ports --------------------------------------------------------------------------------------------------------- */

/* A packet between the ports; grh: with GIDs. */
static void packet_by(unsigned opcode, uint32_t to, uint8_t sport, uint8_t dport, bool grh)
{
	printf("%u 0x%06x %u %u", opcode, to, ports_lid(t.ctx, sport), ports_lid(t.ctx, dport));
	for (int i = 0; i < 2 && grh; i++) {
		char text[INET6_ADDRSTRLEN];
		union ibv_gid gid;
		CHECK(!ibv_query_gid(t.ctx, i ? dport : sport, 0, &gid), "GID");
		printf(" %s", inet_ntop(AF_INET6, &gid, text, sizeof(text)));
	}
	putchar('\n');
}

static void connected_by(uint8_t at, uint8_t other)
{
	struct ibv_qp *a = queue(IBV_QPT_RC), *b = queue(IBV_QPT_RC);

	ports_connect(a, b->qp_num, at, other, vt_rts_attr());
	ports_connect(b, a->qp_num, other, at, vt_rts_attr());
	receive(b);
	post(a, IBV_WR_SEND, 10, (struct ibv_send_wr)SIGNALED);
	received();
	packet_by(0x04, b->qp_num, at, other, false);
	packet_by(0x11, a->qp_num, other, at, false);
	post(a, IBV_WR_RDMA_WRITE, 10, (struct ibv_send_wr)INLINE);
	packet_by(0x0a, b->qp_num, at, other, false);
	packet_by(0x11, a->qp_num, other, at, false);
	post(a, IBV_WR_RDMA_READ, 10, (struct ibv_send_wr)SIGNALED);
	packet_by(0x0c, b->qp_num, at, other, false);
	packet_by(0x10, a->qp_num, other, at, false);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static struct ibv_qp *datagrams_at(uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port, .qkey = VT_QKEY};
	struct ibv_qp *qp = queue(IBV_QPT_UD);

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY), "INIT");
	vt_rtr_rts(qp, 0, vt_rts_attr());
	return qp;
}

static void datagrams_by(uint8_t at, uint8_t other)
{
	struct ibv_qp *a = datagrams_at(at), *b = datagrams_at(other);

	for (int grh = 0; grh < 2; grh++) {
		struct ibv_ah_attr attr = {.dlid = ports_lid(t.ctx, other), .port_num = at, .is_global = (uint8_t)grh};
		CHECK(!ibv_query_gid(t.ctx, other, 0, &attr.grh.dgid), "GID");
		struct ibv_ah *ah = ibv_create_ah(t.pd, &attr);
		CHECK(ah, "ibv_create_ah");
		struct ibv_send_wr how = {.send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = {.ah = ah, .remote_qpn = b->qp_num, .remote_qkey = VT_QKEY}};
		receive(b);
		post(a, IBV_WR_SEND, 32, how);
		received();
		packet_by(0x64, b->qp_num, at, other, grh);
		CHECK(!ibv_destroy_ah(ah), "destroy");
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
}

static void by_ports(void)
{
	for (uint8_t at = 1; at <= 2; at++)
		for (uint8_t other = 1; other <= 2; other++) {
			connected_by(at, other);
			datagrams_by(at, other);
		}
}

int main(int argc, char **argv)
{
	char line[16];

	alarm(120);
	t = vt_open();
	/* arena memory: fast writes and short datagrams need it */
	mem = shca_alloc(t.ctx, BYTES);
	CHECK(mem, "shca_alloc");
	memset(mem, 0xa5, BYTES);
	*(uint64_t *)(mem + BYTES / 2) = 0;
	mr = vt_mr(&t, mem, BYTES, VT_ACCESS);
	scq = vt_cq(&t, 64, NULL);
	rcq = vt_cq(&t, 64, NULL);
	struct ibv_qp *a = queue(IBV_QPT_RC), *b = queue(IBV_QPT_RC);
	vt_connect_pair(a, b);
	printf("ready 0x%06x\n", a->qp_num);
	fflush(stdout);
	CHECK(fgets(line, sizeof(line), stdin), "the script is gone");
	if (argc > 1) {
		by_ports();
	} else {
		connected(IBV_QPT_RC, 0x00);
		connected(IBV_QPT_UC, 0x20);
		datagrams();
		refused(a, b);
	}
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq) && !ibv_dereg_mr(mr),
	      "destroy");
	CHECK(!shca_free(t.ctx, mem), "shca_free");
	vt_close(&t);
	return 0;
}
