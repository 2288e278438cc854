/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transports without acknowledgements. UD under injected faults: lost, doubled, late. UC: a message that the responder cannot
 * take is lost, and the requester gets no error. Each datagram's completion has the service level of the address handle.
 */
#include <infiniband/verbs_exp.h>

#include "vt.h"

static char *mem;
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;

/* ---- UD ------------------------------------------------------------------------------------------------------ */

#define SLS 16u
static struct ibv_ah *ah[SLS];		/* by their service level: datagram n goes by n % SLS */
static struct ibv_qp *from, *to;

static struct ibv_qp *create(struct vt *t, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr i = { .send_cq = scq, .recv_cq = rcq, .qp_type = type,
				      .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(t->pd, &i);

	CHECK(qp, "ibv_create_qp %d", type);
	return qp;
}

/* A datagram with this number in the immediate and in the bytes: gathered (two pieces), or inline. */
static void datagram(uint32_t number, bool inl)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = number, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = number, .sg_list = sge,
				  .num_sge = 2, .send_flags = IBV_SEND_SIGNALED | (inl ? IBV_SEND_INLINE : 0),
				  .wr.ud = { .ah = ah[number % SLS], .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY } }, *bad;

	memset(mem, (int)number, 64);
	sge[0] = vt_sge(mr, 0, 16);
	sge[1] = vt_sge(mr, 32, 16);
	CHECK(!ibv_post_send(from, &wr, &bad), "post");
	vt_expect(scq, number, IBV_WC_SUCCESS);
	memset(mem, 0xff, 64);		/* a late datagram carries a copy of the bytes */
}

/* The shortest kind: inline, one piece, no completion. */
static void brief(uint32_t number)
{
	char data[32];
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = sizeof data };
	struct ibv_send_wr wr = { .wr_id = number, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				  .send_flags = IBV_SEND_INLINE,
				  .wr.ud = { .ah = ah[number % SLS], .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY } }, *bad;

	memset(data, (int)number, sizeof data);
	CHECK(!ibv_post_send(from, &wr, &bad), "post");
}

static void arrives(uint32_t number)
{
	struct ibv_wc wc = vt_wait(rcq);
	const char *data = mem + 1024 + wc.wr_id * 128 + 40;

	CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 40 + 32, "%s, %u bytes", ibv_wc_status_str(wc.status), wc.byte_len);
	CHECK(!(wc.wc_flags & IBV_WC_WITH_IMM) || wc.imm_data == number, "datagram %u instead of %u", wc.imm_data, number);
	CHECK(wc.sl == number % SLS && wc.src_qp == from->qp_num && !(wc.wc_flags & IBV_WC_GRH),
	      "datagram %u: service level %u, from %#x, flags %#x", number, wc.sl, wc.src_qp, wc.wc_flags);
	for (int i = 0; i < 32; i++)
		CHECK(data[i] == (char)number, "byte %d of datagram %u", i, number);
}

static void ud(struct vt *t)
{
	from = create(t, IBV_QPT_UD);
	to = create(t, IBV_QPT_UD);
	vt_connect(from, 0);
	vt_connect(to, 0);
	for (uint32_t sl = 0; sl < SLS; sl++) {
		struct ibv_ah_attr where = { .dlid = 1, .port_num = 1, .sl = (uint8_t)sl };
		CHECK((ah[sl] = ibv_create_ah(t->pd, &where)), "ibv_create_ah");
	}
	for (uint64_t i = 0; i < 12; i++)
		CHECK(!vt_recv(to, i, vt_sge(mr, 1024 + i * 128, 128)), "recv");
}

static void ud_end(void)
{
	vt_none(rcq);
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to), "destroy");
	for (uint32_t sl = 0; sl < SLS; sl++)
		CHECK(!ibv_destroy_ah(ah[sl]), "destroy");
}

static void late(struct vt *t)
{
	ud(t);
	for (uint32_t n = 1; n <= 4; n++)
		datagram(n, n & 2);
	/* each other one goes behind the next */
	arrives(2);
	arrives(1);
	arrives(4);
	arrives(3);
	for (uint32_t n = 5; n <= 8; n++)
		brief(n);
	arrives(6);
	arrives(5);
	arrives(8);
	arrives(7);
	/* one that nothing follows is lost */
	datagram(9, false);
	ud_end();
}

static void doubled(struct vt *t)
{
	ud(t);
	datagram(1, false);
	arrives(1);
	arrives(1);
	brief(2);
	arrives(2);
	arrives(2);
	ud_end();
}

static void lost(struct vt *t)
{
	ud(t);
	datagram(1, false);
	brief(2);
	ud_end();
}

/* IBTA 11.4.2.1: a datagram's completion has the service level. In each form of polling; with the answer's address made of the
 * completion. */
static void service_levels(struct vt *t)
{
	struct ibv_cq_init_attr_ex i = { .cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(t->ctx, &i);
	struct ibv_cq *plain = rcq;
	struct ibv_poll_cq_attr none = {};
	struct ibv_exp_wc x = {};

	CHECK(ex, "ibv_create_cq_ex");
	rcq = ibv_cq_ex_to_cq(ex);
	ud(t);
	datagram(3, false);
	datagram(15, true);
	brief(9);
	CHECK(!ibv_start_poll(ex, &none) && ibv_wc_read_sl(ex) == 3 && ibv_wc_read_src_qp(ex) == from->qp_num, "%u",
	      ibv_wc_read_sl(ex));
	CHECK(!ibv_next_poll(ex) && ibv_wc_read_sl(ex) == 15 && ibv_wc_read_src_qp(ex) == from->qp_num, "%u", ibv_wc_read_sl(ex));
	ibv_end_poll(ex);
	CHECK(ibv_exp_poll_cq(rcq, 1, &x, sizeof x) == 1 && x.sl == 9 && x.exp_wc_flags & IBV_EXP_WC_WITH_SL,
	      "service level %u", x.sl);
	brief(14);
	struct ibv_wc wc = vt_wait(rcq);
	struct ibv_ah_attr back;
	CHECK(!ibv_init_ah_from_wc(t->ctx, 1, &wc, NULL, &back) && back.sl == 14 && !back.is_global, "the answer's level %u",
	      back.sl);
	ud_end();
	CHECK(!ibv_destroy_cq(rcq), "destroy");
	rcq = plain;
}

/* ---- UC ------------------------------------------------------------------------------------------------------ */

static struct ibv_qp *uc_a, *uc_b;

static void uc_write(uint64_t id, uint32_t rkey)
{
	CHECK(!vt_rdma(uc_a, IBV_WR_RDMA_WRITE, id, vt_sge(mr, 0, 8), (uintptr_t)mem + 512, rkey), "write");
	vt_expect(scq, id, IBV_WC_SUCCESS);
}

static void uc(struct vt *t)
{
	uc_a = create(t, IBV_QPT_UC);
	uc_b = create(t, IBV_QPT_UC);
	vt_connect_pair(uc_a, uc_b);
	memset(mem, 'u', 8);
	memset(mem + 512, 0, 8);

	/* no receive: lost; the next one finds one */
	CHECK(!vt_send(uc_a, 1, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	CHECK(!vt_recv(uc_b, 10, vt_sge(mr, 1024, 64)), "recv");
	vt_none(rcq);
	CHECK(!vt_send(uc_a, 2, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
	vt_expect(scq, 2, IBV_WC_SUCCESS);
	vt_expect(rcq, 10, IBV_WC_SUCCESS);
	/* a wrong key: nothing is written, and neither side fails */
	uc_write(3, mr->rkey ^ 0x100);
	CHECK(!mem[512], "a write with a wrong key arrived");
	uc_write(4, mr->rkey);
	CHECK(mem[512] == 'u', "a write did not arrive");
	CHECK(vt_state(uc_a) == IBV_QPS_RTS && vt_state(uc_b) == IBV_QPS_RTS, "states %d %d", vt_state(uc_a), vt_state(uc_b));
	/* a local error completes with the error's status */
	struct ibv_sge bad = vt_sge(mr, 0, 8);
	bad.lkey ^= 0x100;
	struct ibv_qp *c = create(t, IBV_QPT_UC);
	vt_connect(c, uc_b->qp_num);
	CHECK(!vt_send(c, 5, bad, IBV_SEND_SIGNALED), "send");
	vt_expect(scq, 5, IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_destroy_qp(c), "destroy");
	/* no queue of that number */
	CHECK(!ibv_destroy_qp(uc_b), "destroy");
	uc_write(6, mr->rkey);
	CHECK(!ibv_destroy_qp(uc_a), "destroy");
}

/* The process of the other end dies: the queue goes on as before. */
static void uc_death(struct vt *t)
{
	struct vt_peer p = vt_fork();
	uint32_t mine, theirs;

	if (!p.child) {
		struct vt own = vt_open();
		scq = rcq = vt_cq(&own, 16, NULL);
		struct ibv_qp *qp = create(&own, IBV_QPT_UC);
		mine = qp->qp_num;
		vt_tell(&p, &mine, sizeof mine);
		vt_hear(&p, &theirs, sizeof theirs);
		vt_connect(qp, theirs);
		vt_meet(&p);
		_exit(0);	/* without closing anything */
	}
	struct ibv_qp *qp = create(t, IBV_QPT_UC);
	mine = qp->qp_num;
	vt_hear(&p, &theirs, sizeof theirs);
	vt_tell(&p, &mine, sizeof mine);
	vt_connect(qp, theirs);
	CHECK(!vt_recv(qp, 1, vt_sge(mr, 0, 8)), "recv");
	vt_meet(&p);
	vt_join(&p);
	/* the death is noticed within SHCA_DEATH_MS; only RC queues would get events */
	for (uint64_t until = vt_ms() + 300; vt_ms() < until;) {
		CHECK(!vt_send(qp, 2, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
		vt_expect(scq, 2, IBV_WC_SUCCESS);
	}
	CHECK(vt_state(qp) == IBV_QPS_RTS, "state %d", vt_state(qp));
	vt_none(rcq);
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

static void with_fault(const char *fault, void (*f)(struct vt *))
{
	CHECK(fault ? !setenv("SHCA_FAULT", fault, 1) : !unsetenv("SHCA_FAULT"), "environment");
	struct vt t = vt_open();
	mem = shca_alloc(t.ctx, 4096);	/* memory of the fabric, for which there are short ways */
	CHECK(mem, "memory");
	mr = vt_mr(&t, mem, 4096, VT_ACCESS);
	scq = vt_cq(&t, 64, NULL);
	rcq = vt_cq(&t, 64, NULL);
	f(&t);
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq) && !ibv_dereg_mr(mr), "destroy");
	CHECK(!shca_free(t.ctx, mem), "shca_free");
	vt_close(&t);		/* the fabric is gone, the next one reads SHCA_FAULT anew */
}

int main(void)
{
	vt_fabric();
	CHECK(!setenv("SHCA_DEATH_MS", "20", 1), "setenv");
	with_fault("ud_reorder=1", late);
	with_fault("ud_dup=1", doubled);
	with_fault("ud_drop=1", lost);
	with_fault(NULL, service_levels);
	with_fault(NULL, uc);
	with_fault(NULL, uc_death);
	return 0;
}
