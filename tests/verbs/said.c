/* SPDX-License-Identifier: BSD-3-Clause */
/* SHCA_DEBUG=1 says why of every post that is refused: each refusal yields a line on standard error, and a post that is accepted none. */
#include <infiniband/mlx5dv.h>

#include "vt.h"

static int lines, kept;

static int said(void)
{
	char text[4096];
	ssize_t n = pread(lines, text, sizeof text, 0);
	int count = 0;

	for (ssize_t i = 0; i < n; i++)
		count += text[i] == '\n';
	CHECK(!ftruncate(lines, 0) && lseek(lines, 0, SEEK_SET) == 0, "empty the file");
	return count;
}

/* rc of the call: refused with err, and one line */
#define REFUSED(call, err)                                                                                              \
	do {                                                                                                            \
		int rc_ = (call), said_ = said();                                                                       \
		if (rc_ != (err) || said_ != 1) {                                                                       \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: %d, %d lines", #call, rc_, said_);                                            \
		}                                                                                                       \
	} while (0)
#define ACCEPTED(call)                                                                                                  \
	do {                                                                                                            \
		int rc_ = (call), said_ = said();                                                                       \
		if (rc_ || said_) {                                                                                     \
			dup2(kept, 2);                                                                                  \
			CHECK(false, "%s: %d, %d lines", #call, rc_, said_);                                            \
		}                                                                                                       \
	} while (0)

/* what a failed CHECK wrote */
static void show(void)
{
	char text[4096];
	ssize_t n = pread(lines, text, sizeof text, 0);

	if (n > 0 && write(kept, text, (size_t)n) != n)
		_exit(99);
}

static char mem[4096];

static int send_with(struct ibv_qp *qp, enum ibv_wr_opcode op, int nsge, struct ibv_sge *sge, unsigned int flags)
{
	struct ibv_send_wr wr = { .opcode = op, .num_sge = nsge, .sg_list = sge, .send_flags = flags }, *bad = NULL;
	int rc = ibv_post_send(qp, &wr, &bad);

	CHECK(!rc || bad == &wr, "bad_wr");
	return rc;
}

static int recv_with(struct ibv_qp *qp, int nsge, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .num_sge = nsge, .sg_list = sge }, *bad = NULL;
	int rc = ibv_post_recv(qp, &wr, &bad);

	CHECK(!rc || bad == &wr, "bad_wr");
	return rc;
}

static void plain(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16 } };
	struct ibv_qp *a = ibv_create_qp(t->pd, &init), *b = ibv_create_qp(t->pd, &init);
	struct ibv_sge two[64];

	CHECK(a && b, "create_qp");
	for (int i = 0; i < 64; i++)
		two[i] = *sge;
	said();
	REFUSED(recv_with(a, 1, sge), EINVAL);				/* RESET */
	REFUSED(send_with(a, IBV_WR_SEND, 1, sge, 0), EINVAL);
	vt_connect_pair(a, b);
	REFUSED(send_with(a, IBV_WR_SEND, 64, two, 0), EINVAL);
	REFUSED(send_with(a, (enum ibv_wr_opcode)200, 1, sge, 0), EINVAL);
	struct ibv_sge tiny = *sge, large = *sge;
	tiny.length = 4;
	REFUSED(send_with(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, &tiny, 0), EINVAL);
	large.length = 4096;
	REFUSED(send_with(a, IBV_WR_SEND, 1, &large, IBV_SEND_INLINE), EINVAL);
	REFUSED(recv_with(a, 64, two), EINVAL);
	int posted = 0, rc;
	while (!(rc = recv_with(a, 1, sge)) && posted < 64)
		posted++;
	CHECK(rc == ENOMEM && said() == 1, "a full receive queue: %d after %d", rc, posted);
	/* nothing answers: b has no receive */
	posted = 0;
	while (!(rc = send_with(a, IBV_WR_SEND, 1, sge, 0)) && posted < 64)
		posted++;
	CHECK(rc == ENOMEM && said() == 1, "a full send queue: %d after %d", rc, posted);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
}

static void built(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr_ex init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = t->pd,
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND,
					    .cap = { .max_send_wr = 2, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16 } };
	struct ibv_qp *a = ibv_create_qp_ex(t->ctx, &init), *b = vt_qp(t, IBV_QPT_RC, cq, NULL);
	CHECK(a && b, "create_qp_ex");
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
	struct ibv_sge list[64];

	for (int i = 0; i < 64; i++)
		list[i] = *sge;
	vt_connect_pair(a, b);
	said();
	ibv_wr_start(ex);
	ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge_list(ex, 64, list);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, mem, sizeof mem);
	REFUSED(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	for (int i = 0; i < 64; i++) {
		ibv_wr_send(ex);
		ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	}
	REFUSED(ibv_wr_complete(ex), ENOMEM);
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, sge->lkey, sge->addr, 8);
	ACCEPTED(ibv_wr_complete(ex));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
}

static void other_types(struct vt *t, struct ibv_sge *sge)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *ud = vt_qp(t, IBV_QPT_UD, cq, NULL);
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTR };

	CHECK(!vt_init(ud) && !ibv_modify_qp(ud, &rts, IBV_QP_STATE), "UD to RTR");
	rts.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ud, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD to RTS");
	said();
	REFUSED(send_with(ud, IBV_WR_SEND, 1, sge, 0), EINVAL);		/* no address handle */
	REFUSED(send_with(ud, IBV_WR_RDMA_WRITE, 1, sge, 0), EINVAL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t->pd, &a);
	CHECK(srq, "create_srq");
	struct ibv_qp *with = vt_qp(t, IBV_QPT_RC, cq, srq);
	CHECK(!vt_init(with), "init");
	said();
	REFUSED(recv_with(with, 1, sge), EINVAL);
	CHECK(!ibv_destroy_qp(with) && !ibv_destroy_srq(srq) && !ibv_destroy_qp(ud) && !ibv_destroy_cq(cq), "destroy");
}

/* mlx5dv_create_cq with the size of an entry, which nothing shows. */
static void entries(struct vt *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct mlx5dv_cq_init_attr dv = { .comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE };
	static const uint16_t sizes[] = { 64, 128, 0, 32, 96, 256 };

	for (int i = 0; i < 6; i++) {
		dv.cqe_size = sizes[i];
		errno = 0;
		struct ibv_cq_ex *cq = mlx5dv_create_cq(t->ctx, &attr, &dv);
		CHECK(i < 2 ? cq != NULL && said() == 0 : !cq && errno == EINVAL && said() == 1, "entries of %u bytes", sizes[i]);
		CHECK(!cq || !ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "destroy_cq");
	}
	dv.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
	CHECK(!mlx5dv_create_cq(t->ctx, &attr, &dv) && errno == EOPNOTSUPP && said() == 1, "compressed entries");
}

int main(void)
{
	char name[] = "/tmp/said-XXXXXX";

	vt_fabric();
	CHECK(!setenv("SHCA_DEBUG", "1", 1), "setenv");
	lines = mkstemp(name);
	kept = dup(2);
	CHECK(lines >= 0 && kept >= 0 && !unlink(name) && dup2(lines, 2) == 2, "redirect");
	CHECK(!atexit(show), "atexit");
	struct vt t = vt_open();
	struct ibv_mr *mr = vt_mr(&t, mem, sizeof mem, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = vt_sge(mr, 0, 8);

	plain(&t, &sge);
	built(&t, &sge);
	other_types(&t, &sge);
	entries(&t);
	CHECK(!ibv_dereg_mr(mr), "dereg");
	vt_close(&t);
	dup2(kept, 2);
	return 0;
}
