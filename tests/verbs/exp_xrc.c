/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manual's older XRC calls (3.4.8 to 3.4.14, 3.6.3), between two processes: one makes the receive queue pair; the other
 * process sends through it to its own shared receive queue in the same domain, registers for the queue pair, and is its last
 * user. The header comes by -include.
 */
#include <fcntl.h>

#include "vt.h"

static struct vt t;

static struct ibv_xrc_domain *domain_of(const char *file)
{
	int fd = open(file, O_RDONLY);
	struct ibv_xrc_domain *d = ibv_open_xrc_domain(t.ctx, fd, O_CREAT);

	CHECK(fd >= 0 && d && d->context == t.ctx, "ibv_open_xrc_domain");
	close(fd);
	return d;
}

/* Processes that are registered for the receive queue pair. */
static void target(struct vt_peer *p)
{
	struct ibv_xrc_domain *d = domain_of("/proc/self/exe"), *other = domain_of("/proc/self/status");
	struct ibv_qp_init_attr_ex init = {.xrcd = d};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = VT_ACCESS}, got;
	struct ibv_qp_init_attr gi;
	uint32_t number = 0, sender;

	CHECK(!ibv_create_xrc_rcv_qp(&init, &number) && number, "ibv_create_xrc_rcv_qp");
	CHECK(!ibv_reg_xrc_rcv_qp(d, number), "it is registered already");
	vt_tell(p, &number, sizeof number);
	vt_hear(p, &sender, sizeof sender);
	CHECK(!ibv_modify_xrc_rcv_qp(d, number, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "INIT");
	a = vt_rtr_attr(sender);
	CHECK(ibv_modify_xrc_rcv_qp(d, number, &a, IBV_QP_STATE) == -1 && errno == EINVAL, "RTR without what it needs");
	CHECK(!ibv_modify_xrc_rcv_qp(d, number, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	CHECK(!ibv_query_xrc_rcv_qp(d, number, &got, IBV_QP_STATE, &gi) && got.qp_state == IBV_QPS_RTR &&
		      got.dest_qp_num == sender && gi.qp_type == IBV_QPT_XRC_RECV,
	      "query");
	/* another domain's, and a number that is none */
	CHECK(ibv_query_xrc_rcv_qp(other, number, &got, IBV_QP_STATE, &gi) == -1 && errno == EINVAL, "of another domain");
	CHECK(ibv_modify_xrc_rcv_qp(d, number + 1, &a, IBV_QP_STATE) == -1 && errno == EINVAL, "another number");
	CHECK(ibv_unreg_xrc_rcv_qp(other, number) == -1 && errno == EINVAL, "unregister from another domain");
	CHECK(ibv_close_xrc_domain(d) == -1 && errno == EBUSY, "closed under a queue pair");
	vt_meet(p);
	/* the other one has sent, and is registered */
	vt_meet(p);
	CHECK(!ibv_query_xrc_rcv_qp(d, number, &got, IBV_QP_STATE, &gi) && got.qp_state == IBV_QPS_RTS,
	      "what the other one made of it");
	CHECK(!ibv_unreg_xrc_rcv_qp(d, number), "ibv_unreg_xrc_rcv_qp");
	CHECK(ibv_unreg_xrc_rcv_qp(d, number) == -1 && errno == EINVAL, "twice");
	/* unregistered, it is in the domain still */
	CHECK(!ibv_query_xrc_rcv_qp(d, number, &got, IBV_QP_STATE, &gi) && got.dest_qp_num == sender, "query");
	CHECK(ibv_modify_xrc_rcv_qp(d, number, &a, IBV_QP_STATE) == -1 && errno == EINVAL, "RTS to RTR");
	CHECK(!ibv_reg_xrc_rcv_qp(d, number) && !ibv_unreg_xrc_rcv_qp(d, number), "once more");
	vt_meet(p);
	vt_meet(p);
	CHECK(ibv_query_xrc_rcv_qp(d, number, &got, IBV_QP_STATE, &gi) == -1 && errno == EINVAL, "it is gone");
	CHECK(ibv_reg_xrc_rcv_qp(d, number) == -1 && errno == EINVAL, "register for what is gone");
	CHECK(!ibv_close_xrc_domain(d) && !ibv_close_xrc_domain(other), "close");
}

static struct ibv_qp *sender(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_XRC,
				     .cap = {.max_send_wr = 4, .max_send_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(t.pd, &a);

	CHECK(qp && !vt_init(qp), "a queue pair that sends");
	return qp;
}

static void send_to(struct ibv_qp *qp, uint32_t srqn, struct ibv_sge sge)
{
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn}, *bad;

	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
}

static void initiator(struct vt_peer *p)
{
	static uint64_t mem[16] = {7};
	struct ibv_xrc_domain *d = domain_of("/proc/self/exe");
	struct ibv_cq *cq = vt_cq(&t, 16, NULL), *received = vt_cq(&t, 16, NULL);
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_xrc_srq(t.pd, d, received, &sa);
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	struct ibv_qp *qp = sender(cq);
	struct ibv_qp_attr rts = vt_rts_attr(), got;
	struct ibv_qp_init_attr gi;
	uint32_t number, srqn;

	CHECK(srq && !ibv_get_srq_num(srq, &srqn), "ibv_create_xrc_srq");
	vt_hear(p, &number, sizeof number);
	vt_tell(p, &qp->qp_num, sizeof qp->qp_num);
	vt_meet(p);
	rts.timeout = 12;
	rts.retry_cnt = 1;
	vt_rtr_rts(qp, number, rts);
	CHECK(!ibv_query_xrc_rcv_qp(d, number, &got, IBV_QP_STATE, &gi) && got.qp_state == IBV_QPS_RTR &&
		      got.dest_qp_num == qp->qp_num,
	      "query of another process's");
	CHECK(ibv_unreg_xrc_rcv_qp(d, number) == -1 && errno == EINVAL, "not registered");
	CHECK(!ibv_reg_xrc_rcv_qp(d, number) && !ibv_reg_xrc_rcv_qp(d, number), "register for another process's");
	CHECK(!ibv_modify_xrc_rcv_qp(d, number, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT), "RTS");
	CHECK(ibv_close_xrc_domain(d) == -1 && errno == EBUSY, "closed under what it is registered for");
	CHECK(!vt_srq_recv(srq, 50, vt_sge(mr, 64, 8)), "receive");
	send_to(qp, srqn, vt_sge(mr, 0, 8));
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_expect(received, 50, IBV_WC_SUCCESS);
	CHECK(mem[8] == 7, "payload");
	vt_meet(p);
	/* its creator has unregistered */
	vt_meet(p);
	CHECK(!vt_srq_recv(srq, 51, vt_sge(mr, 64, 8)), "receive");
	send_to(qp, srqn, vt_sge(mr, 0, 8));
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_expect(received, 51, IBV_WC_SUCCESS);
	CHECK(!ibv_unreg_xrc_rcv_qp(d, number), "the last one");
	send_to(qp, srqn, vt_sge(mr, 0, 8));
	vt_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
	vt_meet(p);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) &&
		      !ibv_destroy_cq(received) && !ibv_close_xrc_domain(d),
	      "destroy");
}

/* As many handles as there can be. A query or modify of a process that is not registered needs one more handle: ENOMEM, and not
 * the error of a number without a queue pair. */
static void full(void)
{
	struct ibv_xrc_domain *d = ibv_open_xrc_domain(t.ctx, -1, O_CREAT);
	struct ibv_qp_init_attr_ex init = {.xrcd = d};
	struct ibv_qp_open_attr a = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE, .xrcd = d,
				     .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr got;
	struct ibv_qp *handle[1024];
	int n = 0;

	CHECK(d && !ibv_create_xrc_rcv_qp(&init, &a.qp_num), "ibv_create_xrc_rcv_qp");
	while (n < 1023 && (handle[n] = ibv_open_qp(t.ctx, &a)))
		n++;
	CHECK(n < 1023 && errno == ENOMEM, "%d handles", n);
	CHECK(!ibv_unreg_xrc_rcv_qp(d, a.qp_num), "ibv_unreg_xrc_rcv_qp");
	CHECK((handle[n++] = ibv_open_qp(t.ctx, &a)) != NULL, "the place that became free");
	CHECK(ibv_query_xrc_rcv_qp(d, a.qp_num, &attr, IBV_QP_STATE, &got) == -1 && errno == ENOMEM, "query");
	CHECK(ibv_modify_xrc_rcv_qp(d, a.qp_num, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
			      -1 &&
		      errno == ENOMEM,
	      "modify");
	while (n)
		CHECK(!ibv_destroy_qp(handle[--n]), "destroy");
	CHECK(!ibv_close_xrc_domain(d), "close");
}

int main(void)
{
	vt_fabric();
	struct vt_peer p = vt_fork();
	t = vt_open();
	if (p.child)
		initiator(&p);
	else
		target(&p);
	CHECK(ibv_open_xrc_domain(t.ctx, 12345, O_CREAT) == NULL && errno == EBADF, "a descriptor that is none");
	struct ibv_xrc_domain *own = ibv_open_xrc_domain(t.ctx, -1, O_CREAT);
	CHECK(own && !ibv_close_xrc_domain(own) && ibv_close_xrc_domain(NULL) == -1, "a domain of its own");
	full();
	vt_close(&t);
	vt_join(&p);
	return 0;
}
