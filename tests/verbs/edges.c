/* SPDX-License-Identifier: BSD-3-Clause */
/* Behaviour at limits: full queues, the last lap, regions and queues that go, queues that wait. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <arpa/inet.h>
#include "vt.h"

#define BYTES 65536u

static struct vt t;
static char *mem;
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;

static struct ibv_qp *make(enum ibv_qp_type type, uint32_t send_wr, uint32_t recv_wr, uint32_t inl, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = scq, .recv_cq = rcq, .srq = srq, .qp_type = type,
		.cap = {.max_send_wr = send_wr, .max_recv_wr = recv_wr, .max_send_sge = 2, .max_recv_sge = 2,
			.max_inline_data = inl},
	};
	struct ibv_qp *qp = ibv_create_qp(t.pd, &a);

	CHECK(qp && a.cap.max_send_wr == send_wr, "ibv_create_qp: %u requests", a.cap.max_send_wr);
	return qp;
}

static struct ibv_srq *shared(uint32_t max_wr)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = max_wr, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(t.pd, &a);

	CHECK(srq && a.attr.max_wr == max_wr, "ibv_create_srq: %u requests", a.attr.max_wr);
	return srq;
}

static int write_8(struct ibv_qp *qp, uint64_t id, uint64_t at, uint32_t rkey, unsigned flags)
{
	struct ibv_sge s = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags,
				 .wr.rdma = {.remote_addr = at, .rkey = rkey}}, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

static void drop(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_wc wc;

	CHECK(!ibv_destroy_qp(a) && (!b || !ibv_destroy_qp(b)), "ibv_destroy_qp");
	while (ibv_poll_cq(scq, 1, &wc) > 0 || ibv_poll_cq(rcq, 1, &wc) > 0)
		;
}

/* ---- room ------------------------------------------------------------------------------------------------------------ */

/* As many requests as were granted, not one more, and again as many as were polled: for three laps, and after RESET. */
static void send_room(void)
{
	struct ibv_qp *a = make(IBV_QPT_RC, 5, 1, 0, NULL), *b = make(IBV_QPT_RC, 5, 1, 0, NULL);

	for (int again = 0; again < 2; again++) {
		uint64_t id = 0, done = 0;
		vt_connect_pair(a, b);
		for (int lap = 0; lap < 20; lap++) {
			while (id < done + 5)
				CHECK(!write_8(a, id++, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "request %lu",
				      (unsigned long)id);
			CHECK(write_8(a, 99, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED) == ENOMEM, "a sixth request");
			for (int i = 0; i < 1 + lap % 5; i++)
				vt_expect(scq, done++, IBV_WC_SUCCESS);
		}
		while (done < id)
			vt_expect(scq, done++, IBV_WC_SUCCESS);
		CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET), "RESET");
	}
	drop(a, b);
}

/* All requests of a list of the builder fit, or none is posted. */
static void builder_room(void)
{
	struct ibv_qp_init_attr_ex x = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 4, .max_send_sge = 1},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = t.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *a = ibv_create_qp_ex(t.ctx, &x), *b = make(IBV_QPT_RC, 1, 1, 0, NULL);
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);

	CHECK(a && ex, "ibv_create_qp_ex");
	vt_connect_pair(a, b);
	for (int fits = 0; fits < 2; fits++) {
		memset(mem + 64, 0, 64);
		memset(mem, 7, 8);
		if (!fits)
			for (int i = 0; i < 2; i++)
				CHECK(!write_8(a, 50, (uintptr_t)mem + 1024, mr->rkey, IBV_SEND_SIGNALED), "post");
		ibv_wr_start(ex);
		for (int i = 0; i < (fits ? 4 : 3); i++) {
			ex->wr_id = (uint64_t)i;
			ex->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)mem + 64 + 8 * (uint64_t)i);
			ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem, 8);
		}
		CHECK(ibv_wr_complete(ex) == (fits ? 0 : ENOMEM), "a list of the builder");
		CHECK(mem[64] == (fits ? 7 : 0), "the refused list was posted in part");
		for (int i = 0; !fits && i < 2; i++)
			vt_expect(scq, 50, IBV_WC_SUCCESS);
		for (uint64_t i = 0; fits && i < 4; i++)
			vt_expect(scq, i, IBV_WC_SUCCESS);
		vt_none(scq);
	}
	drop(a, b);
}

/* A shared receive queue for no requests, as libmlx5 makes it for the attributes' defaults: ibv_query_srq returns the real
 * size. */
static void no_receives_asked(void)
{
	struct ibv_srq_init_attr a = {.attr = {.max_wr = 0}};
	struct ibv_srq *srq = ibv_create_srq(t.pd, &a);
	struct ibv_srq_attr has;

	CHECK(srq && a.attr.max_wr == 1 && !ibv_query_srq(srq, &has) && has.max_wr == 1, "ibv_create_srq for none: %u",
	      a.attr.max_wr);
	CHECK(!vt_srq_recv(srq, 1, vt_sge(mr, 0, 8)) && vt_srq_recv(srq, 2, vt_sge(mr, 0, 8)) == ENOMEM, "its room");
	CHECK(!ibv_destroy_srq(srq), "destroy");
}

/* The same of receives; polling a completion makes room, and so does purging a completion with the queue. */
static void receive_room(void)
{
	struct ibv_srq *srq = shared(3);
	struct ibv_qp *a = make(IBV_QPT_RC, 8, 3, 0, NULL), *b = make(IBV_QPT_RC, 8, 3, 0, NULL),
		      *s = make(IBV_QPT_RC, 8, 0, 0, srq);
	struct ibv_qp *c = make(IBV_QPT_RC, 8, 1, 0, NULL);
	struct ibv_sge three[3] = {vt_sge(mr, 0, 8), vt_sge(mr, 8, 8), vt_sge(mr, 16, 8)};
	struct ibv_recv_wr wr = {.sg_list = three, .num_sge = 3}, *bad;

	vt_connect_pair(a, b);
	vt_connect_pair(c, s);
	for (int lap = 0; lap < 10; lap++) {
		for (uint64_t i = 0; i < 3; i++)
			CHECK(!vt_recv(b, i, vt_sge(mr, 512, 8)) && !vt_srq_recv(srq, i, vt_sge(mr, 512, 8)), "receive");
		CHECK(vt_recv(b, 3, vt_sge(mr, 512, 8)) == ENOMEM && vt_srq_recv(srq, 3, vt_sge(mr, 512, 8)) == ENOMEM,
		      "a fourth receive");
		for (uint64_t i = 0; i < 3; i++) {
			CHECK(!vt_send(a, 9, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
			vt_expect(scq, 9, IBV_WC_SUCCESS);
			CHECK(i || vt_recv(b, 3, vt_sge(mr, 512, 8)) == ENOMEM, "a receive before a completion is polled");
			vt_expect(rcq, i, IBV_WC_SUCCESS);
			CHECK(!vt_send(c, 9, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
			vt_expect(scq, 9, IBV_WC_SUCCESS);
			vt_expect(rcq, i, IBV_WC_SUCCESS);
		}
	}
	CHECK(ibv_post_recv(b, &wr, &bad) == EINVAL && ibv_post_srq_recv(srq, &wr, &bad) == EINVAL,
	      "a receive of three segments");
	/* two arrive and are not polled when their queue goes */
	for (uint64_t i = 0; i < 3; i++)
		CHECK(!vt_srq_recv(srq, i, vt_sge(mr, 512, 8)), "receive");
	for (int i = 0; i < 2; i++) {
		CHECK(!vt_send(c, 9, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
		vt_expect(scq, 9, IBV_WC_SUCCESS);
	}
	drop(c, s);
	CHECK(!vt_srq_recv(srq, 5, vt_sge(mr, 512, 8)) && !vt_srq_recv(srq, 6, vt_sge(mr, 512, 8)), "receives of the purged");
	CHECK(vt_srq_recv(srq, 7, vt_sge(mr, 512, 8)) == ENOMEM, "a fourth receive");
	/* in ERR every receive is flushed, also one posted later */
	CHECK(!vt_to(b, IBV_QPS_ERR) && !vt_recv(b, 8, vt_sge(mr, 512, 8)), "a receive in ERR");
	vt_expect(rcq, 8, IBV_WC_WR_FLUSH_ERR);
	drop(a, b);
	CHECK(!ibv_destroy_srq(srq), "ibv_destroy_srq");
}

/* ---- completion queues ----------------------------------------------------------------------------------------------- */

/* A CQ takes as many completions as it has entries, in order; one more is an overrun, for which the CQ's owner gets
 * IBV_EVENT_CQ_ERR. Destroying a queue frees the entries of the queue's completions. */
static void completion_room(void)
{
	struct ibv_cq *cq = vt_cq(&t, 8, NULL), *other = scq;
	uint64_t n = (uint64_t)cq->cqe;
	struct ibv_async_event e;
	struct ibv_wc wc;

	scq = cq;
	struct ibv_qp *a = make(IBV_QPT_RC, 64, 1, 0, NULL), *b = make(IBV_QPT_RC, 64, 1, 0, NULL);
	vt_connect_pair(a, b);
	for (int lap = 0; lap < 3; lap++) {
		for (uint64_t i = 0; i < n; i++)
			CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
		for (uint64_t i = 0; i < n; i++)
			vt_expect(cq, i, IBV_WC_SUCCESS);
	}
	/* not polled, and gone with the queue */
	for (uint64_t i = 0; i < n; i++)
		CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET), "RESET");
	vt_none(cq);
	vt_connect_pair(a, b);
	vt_none(cq);
	for (uint64_t i = 0; i < n; i++)
		CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	for (uint64_t i = 0; i < n; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	/* behind one that is there still: they make room when that has been polled, and nothing follows */
	struct ibv_qp *c = make(IBV_QPT_RC, 64, 1, 0, NULL), *d = make(IBV_QPT_RC, 64, 1, 0, NULL);
	vt_connect_pair(c, d);
	CHECK(!write_8(a, n, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	for (uint64_t i = 1; i < n; i++)
		CHECK(!write_8(c, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	CHECK(!ibv_destroy_qp(c) && !ibv_destroy_qp(d), "destroy");
	vt_expect(cq, n, IBV_WC_SUCCESS);
	vt_none(cq);
	for (uint64_t i = 0; i < n; i++)
		CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	for (uint64_t i = 0; i < n; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	for (uint64_t i = 0; i <= n; i++)
		CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "post");
	bool told = false;
	while (!ibv_get_async_event(t.ctx, &e)) {
		/* queues of the CQ raise an event as well */
		CHECK(e.event_type == IBV_EVENT_CQ_ERR || e.event_type == IBV_EVENT_QP_FATAL, "event %d", e.event_type);
		told |= e.event_type == IBV_EVENT_CQ_ERR;
		ibv_ack_async_event(&e);
	}
	CHECK(told, "the overrun's event");
	int rc = 0;
	for (uint64_t i = 0; i <= n && (rc = ibv_poll_cq(cq, 1, &wc)) == 1; i++)
		;
	CHECK(rc < 0, "a CQ that was overrun is in error: %d", rc);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
	scq = other;
}

/* The number of laps that a completion can carry is finite: one round of them. */
static void laps(void)
{
	struct ibv_cq *cq = vt_cq(&t, 1, NULL), *other = scq;

	scq = cq;
	struct ibv_qp *a = make(IBV_QPT_RC, 16, 1, 8, NULL), *b = make(IBV_QPT_RC, 16, 1, 0, NULL);
	vt_connect_pair(a, b);
	uint64_t n = 33000ull * ((uint64_t)cq->cqe + 1);
	for (uint64_t i = 0; i < n; i++) {
		CHECK(!write_8(a, i, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED | IBV_SEND_INLINE), "request %lu",
		      (unsigned long)i);
		vt_expect(cq, i, IBV_WC_SUCCESS);
	}
	vt_none(cq);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq), "destroy");
	scq = other;
}

/* ---- failed queues answer no request ---------------------------------------------------------------------------------- */

static void failed_answers_nobody(void)
{
	for (int stalled = 0; stalled < 2; stalled++) {
		struct ibv_qp *a = make(IBV_QPT_RC, 8, 4, 8, NULL), *b = make(IBV_QPT_RC, 8, 4, 8, NULL);
		struct ibv_qp_attr rts = vt_rts_attr();
		struct ibv_wc wc;
		rts.rnr_retry = 0;
		CHECK(!vt_init(a) && !vt_init(b), "INIT");
		vt_rtr_rts(a, b->qp_num, rts);
		vt_rtr_rts(b, a->qp_num, vt_rts_attr());
		struct ibv_sge wrong = vt_sge(mr, 0, 8);
		wrong.lkey ^= 0x5500;
		/* b knows a's window; then a's own request fails, at once or when the retries are used up. The receive is posted
		 * before: with the first one all windows are looked up anew */
		CHECK(!vt_recv(a, 2, vt_sge(mr, 512, 8)), "receive");
		CHECK(!write_8(b, 1, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_INLINE), "write");
		CHECK(!vt_send(a, 3, stalled ? vt_sge(mr, 0, 8) : wrong, 0), "the request that fails");
		vt_expect(scq, 3, stalled ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_LOC_PROT_ERR);
		vt_expect(rcq, 2, IBV_WC_WR_FLUSH_ERR);
		memset(mem + 64, 0x55, 8);
		memset(mem, 1, 8);
		CHECK(!write_8(b, 4, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_INLINE), "write");
		vt_expect(scq, 4, IBV_WC_RETRY_EXC_ERR);
		CHECK(mem[64] == 0x55, "a queue in error let a write in");
		CHECK(!ibv_poll_cq(rcq, 1, &wc), "a receive");
		drop(a, b);
	}
}

/* A request does not overtake an earlier request that waits. */
static void order(void)
{
	struct ibv_qp *a = make(IBV_QPT_RC, 8, 4, 8, NULL), *b = make(IBV_QPT_RC, 8, 4, 8, NULL);

	vt_connect_pair(a, b);
	memset(mem, 3, 8);
	CHECK(!write_8(a, 1, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_INLINE), "write");
	memset(mem + 64, 0x55, 8);
	CHECK(!vt_send(a, 2, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "a SEND without a receive");
	CHECK(!write_8(a, 3, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_INLINE), "write");
	CHECK(mem[64] == 0x55, "the write has overtaken the SEND");
	CHECK(!vt_recv(b, 4, vt_sge(mr, 512, 8)), "receive");
	vt_expect(rcq, 4, IBV_WC_SUCCESS);
	vt_expect(scq, 2, IBV_WC_SUCCESS);
	CHECK(!write_8(a, 5, (uintptr_t)mem + 72, mr->rkey, IBV_SEND_SIGNALED), "write");
	vt_expect(scq, 5, IBV_WC_SUCCESS);
	CHECK(mem[64] == 3, "the write did not come");
	drop(a, b);
}

static void short_atomic(void)
{
	struct ibv_qp *a = make(IBV_QPT_RC, 8, 4, 8, NULL), *b = make(IBV_QPT_RC, 8, 4, 8, NULL);
	struct ibv_sge s = vt_sge(mr, 0, 4);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .wr.atomic = {.remote_addr = (uintptr_t)mem + 64, .rkey = mr->rkey, .compare_add = 1}}, *bad;

	vt_connect_pair(a, b);
	memset(mem + 64, 0, 8);
	CHECK(ibv_post_send(a, &wr, &bad) == EINVAL && mem[64] == 0, "an atomic with room for half its result");
	drop(a, b);
}

/* ---- no bytes ------------------------------------------------------------------------------------------------------- */

/* Segments of no bytes are valid with any address and key: in front of, between and behind segments with bytes, and alone. */
static void empty_segments(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct ibv_qp_init_attr_ex x = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 6, .max_recv_sge = 6},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = t.pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *a = ibv_create_qp_ex(t.ctx, &x), *b = make(IBV_QPT_RC, 8, 4, 8, NULL);
	struct ibv_sge list[6] = {{0, 0, 0}, vt_sge(mr, 0, 4), {~0ull, 0, 0x123}, {0, 0, mr->lkey}, vt_sge(mr, 16, 4), {8, 0, 0}};
	struct ibv_send_wr *bad;

	CHECK(a, "ibv_create_qp_ex");
	vt_connect_pair(a, b);
	for (int alone = 0; alone < 2; alone++)
		for (unsigned i = 0; i < sizeof(ops) / sizeof(*ops); i++)
			for (int late = 0; late < (ops[i] == IBV_WR_SEND ? 2 : 1); late++) {
				struct ibv_send_wr wr = {.wr_id = 1, .sg_list = list, .num_sge = alone ? 1 : 6, .opcode = ops[i],
							 .send_flags = IBV_SEND_SIGNALED,
							 .wr.rdma = {.remote_addr = (uintptr_t)mem + 512, .rkey = mr->rkey}};
				bool takes = ops[i] == IBV_WR_SEND || ops[i] == IBV_WR_RDMA_WRITE_WITH_IMM;
				memset(mem, 0, 1024);
				memcpy(mem, "abcd", 4);
				memcpy(mem + 16, "efgh", 4);
				if (ops[i] == IBV_WR_RDMA_READ)
					memcpy(mem + 512, "ABCDEFGH", 8);
				if (takes && !late)
					CHECK(!vt_recv(b, 2, vt_sge(mr, 512, 8)), "receive");
				CHECK(!ibv_post_send(a, &wr, &bad), "post");
				if (late)
					CHECK(!vt_recv(b, 2, vt_sge(mr, 512, 8)), "receive");
				vt_expect(scq, 1, IBV_WC_SUCCESS);
				if (takes)
					vt_expect(rcq, 2, IBV_WC_SUCCESS);
				if (!alone)
					CHECK(ops[i] == IBV_WR_RDMA_READ ?
						      !memcmp(mem, "ABCD", 4) && !memcmp(mem + 16, "EFGH", 4) :
						      !memcmp(mem + 512, "abcdefgh", 8),
					      "operation %u: other data", i);
			}
	/* unsignaled, and by the builder */
	struct ibv_send_wr plain = {.sg_list = list, .num_sge = 6, .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {.remote_addr = (uintptr_t)mem + 512, .rkey = mr->rkey}};
	memset(mem + 512, 0, 8);
	memcpy(mem, "abcd", 4);
	CHECK(!ibv_post_send(a, &plain, &bad) && !memcmp(mem + 512, "abcd", 4), "an unsignaled write");
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(a);
	memset(mem + 512, 0, 8);
	ibv_wr_start(ex);
	ex->wr_id = 3;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)mem + 512);
	ibv_wr_set_sge_list(ex, 6, list);
	CHECK(!ibv_wr_complete(ex) && !memcmp(mem + 512, "abcd", 4), "a write of the builder");
	vt_expect(scq, 3, IBV_WC_SUCCESS);
	/* a wrong key of a segment that has bytes is wrong all the same */
	list[4].lkey ^= 0x5500;
	plain.wr_id = 4;
	CHECK(!ibv_post_send(a, &plain, &bad), "post");
	vt_expect(scq, 4, IBV_WC_LOC_PROT_ERR);
	drop(a, b);
}

/* Of no bytes neither a READ nor a WRITE looks at the key. */
static void no_bytes_no_key(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	struct ibv_qp *a = make(IBV_QPT_RC, 8, 4, 8, NULL), *b = make(IBV_QPT_RC, 8, 4, 8, NULL);
	struct ibv_sge none = {0};

	vt_connect_pair(a, b);
	for (int i = 0; i < 2; i++)
		for (uint64_t n = 0; n < 2; n++) {
			struct ibv_send_wr wr = {.wr_id = n, .sg_list = &none, .num_sge = (int)n, .opcode = ops[i],
						 .send_flags = IBV_SEND_SIGNALED,
							 .wr.rdma = {.remote_addr = 8, .rkey = 0x666600}}, *bad;
			CHECK(!ibv_post_send(a, &wr, &bad), "post");
			vt_expect(scq, n, IBV_WC_SUCCESS);
		}
	drop(a, b);
}

/* ---- datagrams ------------------------------------------------------------------------------------------------------- */

/* The GRH at mem + 4096 has the fields of the address handle; behind the GRH come headers of 20 bytes, `more`, the padded data
 * and the ICRC. */
static void grh_of(struct ibv_wc *wc, bool full, uint32_t more, uint32_t padded)
{
	struct ibv_grh grh;
	struct ibv_ah_attr back;
	union ibv_gid gid;

	memcpy(&grh, mem + 4096, sizeof(grh));
	CHECK(!ibv_query_gid(t.ctx, 1, 0, &gid) && !memcmp(&grh.sgid, &gid, 16) && !memcmp(&grh.dgid, &gid, 16), "GIDs");
	CHECK(ntohs(grh.paylen) == 20 + more + padded + 4 && grh.next_hdr == 0x1b, "length %u, next header %#x",
	      ntohs(grh.paylen), grh.next_hdr);
	CHECK(!ibv_init_ah_from_wc(t.ctx, 1, wc, &grh, &back) && back.is_global, "ibv_init_ah_from_wc");
	CHECK(wc->sl == (full ? 11 : 0) && back.sl == wc->sl, "service level %u, of the answer %u", wc->sl, back.sl);
	CHECK(back.grh.flow_label == (full ? 0xabcde : 0) && back.grh.traffic_class == (full ? 0x5a : 0) &&
		      back.grh.hop_limit == (full ? 77 : 0) && !memcmp(&back.grh.dgid, &gid, 16),
	      "flow label %#x, traffic class %#x, hop limit %u", back.grh.flow_label, back.grh.traffic_class,
	      back.grh.hop_limit);
}

static void datagrams(void)
{
	struct ibv_srq *srq = shared(8);
	struct ibv_qp *a = make(IBV_QPT_UD, 8, 4, 64, NULL), *b = make(IBV_QPT_UD, 8, 4, 64, NULL),
		      *s = make(IBV_QPT_UD, 8, 0, 64, srq);
	struct ibv_ah_attr here = {.dlid = 1, .port_num = 1}, global = {.dlid = 1, .port_num = 1, .is_global = 1};
	struct ibv_async_event e;

	CHECK(!ibv_query_gid(t.ctx, 1, 0, &global.grh.dgid), "ibv_query_gid");
	struct ibv_ah *ah = ibv_create_ah(t.pd, &here), *gh = ibv_create_ah(t.pd, &global);
	CHECK(ah && gh, "ibv_create_ah");
	struct ibv_sge data = vt_sge(mr, 0, 16), two[2] = {vt_sge(mr, 4096, 44), vt_sge(mr, 5000, 20)};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &data, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
				 .wr.ud = {.ah = ah, .remote_qpn = b->qp_num, .remote_qkey = VT_QKEY}}, *bad;
	struct ibv_recv_wr rwr = {.wr_id = 3, .sg_list = two, .num_sge = 2}, *bad_recv;
	vt_connect(a, 0);
	vt_connect(b, 0);
	vt_connect(s, 0);
	for (int i = 0; i < 16; i++)
		mem[i] = (char)(i + 1);
	memset(mem + 4096, 0, 2000);
	/* a receive of two pieces: the first ends four bytes behind the GRH */
	CHECK(!ibv_post_recv(b, &rwr, &bad_recv) && !ibv_post_send(a, &wr, &bad), "post");
	struct ibv_wc wc = vt_expect(rcq, 3, IBV_WC_SUCCESS);
	CHECK(wc.byte_len == 56 && !(wc.wc_flags & IBV_WC_GRH), "%u bytes, flags %#x", wc.byte_len, wc.wc_flags);
	CHECK(!memcmp(mem + 4096 + 40, mem, 4) && !memcmp(mem + 5000, mem + 4, 12) && !mem[4096 + 44] && !mem[5012],
	      "the pieces");
	/* with a GRH */
	wr.wr.ud.ah = gh;
	CHECK(!vt_recv(b, 4, vt_sge(mr, 4096, 56)) && !ibv_post_send(a, &wr, &bad), "post");
	wc = vt_expect(rcq, 4, IBV_WC_SUCCESS);
	CHECK(wc.wc_flags & IBV_WC_GRH && (mem[4096] & 0xf0) == 0x60, "no GRH: flags %#x", wc.wc_flags);
	grh_of(&wc, false, 0, 16);
	/* the GRH has the fields of the address handle, and ibv_init_ah_from_wc finds them: data of 13 bytes, with an
	 * immediate */
	global.grh.flow_label = 0xabcde;
	global.grh.traffic_class = 0x5a;
	global.grh.hop_limit = 77;
	global.sl = 11;
	struct ibv_ah *full = ibv_create_ah(t.pd, &global);
	CHECK(full, "ibv_create_ah");
	for (int again = 0; again < 2; again++) {
		wr.wr.ud.ah = full;
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.send_flags = 0;
		data.length = 13;
		CHECK(!vt_recv(b, 4, vt_sge(mr, 4096, 56)) && !ibv_post_send(a, &wr, &bad), "post");
		wc = vt_expect(rcq, 4, IBV_WC_SUCCESS);
		grh_of(&wc, true, 4, 16);
	}
	CHECK(!ibv_destroy_ah(full), "ibv_destroy_ah");
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	data.length = 16;
	/* the limit of a shared receive queue */
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = s->qp_num;
	struct ibv_srq_attr limit = {.srq_limit = 3};
	for (uint64_t i = 0; i < 4; i++)
		CHECK(!vt_srq_recv(srq, i, vt_sge(mr, 4096, 56)), "receive");
	CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "limit");
	for (uint64_t i = 0; i < 2; i++) {
		CHECK(!ibv_post_send(a, &wr, &bad), "send");
		vt_expect(rcq, i, IBV_WC_SUCCESS);
	}
	CHECK(!ibv_get_async_event(t.ctx, &e) && e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED, "the limit's event");
	ibv_ack_async_event(&e);
	drop(a, b);
	drop(s, NULL);
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(gh) && !ibv_destroy_srq(srq), "destroy");
}

/* ---- regions that go ------------------------------------------------------------------------------------------------- */

/* A key is reused late: until then no object has that key. */
static void keys(void)
{
	struct ibv_qp *a = NULL, *b = NULL;
	uint32_t first = 0;

	for (int i = 0; i < 3000; i++) {
		struct ibv_mr *r = vt_mr(&t, mem + 128, 64, VT_ACCESS);
		uint32_t key = r->rkey;
		CHECK(i == 0 || key != first, "registration %d has the key of the first again", i);
		if (!i)
			first = key;
		CHECK(!ibv_dereg_mr(r), "ibv_dereg_mr");
	}
	a = make(IBV_QPT_RC, 8, 4, 8, NULL);
	b = make(IBV_QPT_RC, 8, 4, 8, NULL);
	vt_connect_pair(a, b);
	CHECK(!write_8(a, 1, (uintptr_t)mem + 128, first, 0), "post");
	vt_expect(scq, 1, IBV_WC_REM_ACCESS_ERR);
	drop(a, b);
}

#define HEAVY (768u << 10)
static struct ibv_qp *heavy_a, *heavy_b;
static char *heavy_from;
static struct ibv_mr *heavy_mr;
static _Atomic uint32_t heavy_key, heavy_stop;
static char *heavy_to;

static void *heavy_writer(void *arg)
{
	struct ibv_wc wc;
	uint32_t key = 0;

	while (!atomic_load(&heavy_stop)) {
		if (atomic_load(&heavy_key) == key) {
			sched_yield();
			continue;
		}
		key = atomic_load(&heavy_key);
		CHECK(!vt_to(heavy_a, IBV_QPS_RESET) && !vt_to(heavy_b, IBV_QPS_RESET), "RESET");
		vt_connect_pair(heavy_a, heavy_b);
		do {
			struct ibv_sge s = {(uintptr_t)heavy_from, HEAVY, heavy_mr->lkey};
			int err = vt_rdma(heavy_a, IBV_WR_RDMA_WRITE, 1, s, (uintptr_t)heavy_to, key);
			CHECK(!err, "post: %d", err);
			wc = vt_wait(scq);
		} while (wc.status == IBV_WC_SUCCESS);
		CHECK(wc.status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(wc.status));
	}
	return arg;
}

/* When ibv_dereg_mr returns, no peer writes to the region any more, even if a peer was in the middle of a copy. */
static void deregistered(void)
{
	pthread_t thread;

	heavy_a = make(IBV_QPT_RC, 8, 4, 0, NULL);
	heavy_b = make(IBV_QPT_RC, 8, 4, 0, NULL);
	heavy_from = shca_alloc(t.ctx, HEAVY);
	heavy_to = shca_alloc(t.ctx, HEAVY);
	CHECK(heavy_from && heavy_to, "shca_alloc");
	memset(heavy_from, 0x33, HEAVY);
	heavy_mr = vt_mr(&t, heavy_from, HEAVY, VT_ACCESS);
	CHECK(!pthread_create(&thread, NULL, heavy_writer, NULL), "pthread_create");
	for (int i = 0; i < 150; i++) {
		volatile char *last = heavy_to + HEAVY - 1;
		heavy_to[HEAVY - 1] = 0;
		struct ibv_mr *r = vt_mr(&t, heavy_to, HEAVY, VT_ACCESS);
		atomic_store(&heavy_key, r->rkey);
		for (uint64_t end = vt_ms() + 10000; !*last; sched_yield())
			CHECK(vt_ms() < end, "nothing is written");
		CHECK(!ibv_dereg_mr(r), "ibv_dereg_mr");
		memset(heavy_to, 0, HEAVY);
		/* a peer in the middle of a copy gets the time to complete the copy */
		for (int look = 0; look < 3; look++, sched_yield())
			for (uint32_t k = 0; k < HEAVY; k += 64)
				CHECK(!heavy_to[k], "byte %u was written after ibv_dereg_mr", k);
	}
	atomic_store(&heavy_stop, 1);
	CHECK(!pthread_join(thread, NULL), "pthread_join");
	drop(heavy_a, heavy_b);
	CHECK(!ibv_dereg_mr(heavy_mr) && !shca_free(t.ctx, heavy_from) && !shca_free(t.ctx, heavy_to), "free");
}

/* ---- receives that many take ------------------------------------------------------------------------------------------ */

#define TAKEN 64u
static struct ibv_qp *taker[2];
static struct ibv_cq *taker_cq[2];
static _Atomic uint32_t taker_go;

static void *take_many(void *arg)
{
	uintptr_t me = (uintptr_t)arg;

	for (uint32_t round = 1; round <= 400; round++) {
		while (atomic_load(&taker_go) < round)
			sched_yield();
		for (uint32_t i = 0; i < TAKEN / 2; i++)
			CHECK(!vt_send(taker[me], i, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
		for (uint32_t i = 0; i < TAKEN / 2; i++)
			vt_expect(taker_cq[me], i, IBV_WC_SUCCESS);
	}
	return NULL;
}

/* Two senders take receives of one queue at once: each receive gets one message, and none is passed over. */
static void contended(void)
{
	struct ibv_srq *srq = shared(TAKEN);
	struct ibv_qp *to[2];
	pthread_t thread[2];
	struct ibv_cq *mine = scq;

	for (int i = 0; i < 2; i++) {
		scq = taker_cq[i] = vt_cq(&t, TAKEN, NULL);
		taker[i] = make(IBV_QPT_RC, TAKEN, 1, 0, NULL);
		to[i] = make(IBV_QPT_RC, 1, 0, 0, srq);
		vt_connect_pair(taker[i], to[i]);
		CHECK(!pthread_create(&thread[i], NULL, take_many, (void *)(uintptr_t)i), "pthread_create");
	}
	scq = mine;
	for (uint32_t round = 1; round <= 400; round++) {
		bool seen[TAKEN] = {false};
		for (uint64_t i = 0; i < TAKEN; i++)
			CHECK(!vt_srq_recv(srq, i, vt_sge(mr, 512, 8)), "receive");
		atomic_store(&taker_go, round);
		for (uint32_t i = 0; i < TAKEN; i++) {
			struct ibv_wc wc = vt_wait(rcq);
			CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < TAKEN && !seen[wc.wr_id], "receive %lu: %s",
			      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
			seen[wc.wr_id] = true;
		}
	}
	for (int i = 0; i < 2; i++) {
		CHECK(!pthread_join(thread[i], NULL), "pthread_join");
		CHECK(!ibv_destroy_qp(taker[i]) && !ibv_destroy_qp(to[i]) && !ibv_destroy_cq(taker_cq[i]), "destroy");
	}
	CHECK(!ibv_destroy_srq(srq), "ibv_destroy_srq");
}

/* ---- queues that wait ------------------------------------------------------------------------------------------------ */

/* The time of a stall counts from the beginning of that stall: an earlier request has used up none of the budget. */
static void stalls(void)
{
	struct ibv_qp *a = make(IBV_QPT_RC, 8, 4, 0, NULL), *b = make(IBV_QPT_RC, 8, 4, 0, NULL);
	struct ibv_qp_attr rtr = vt_rtr_attr(a->qp_num), rts = vt_rts_attr();
	struct timespec brief = {.tv_nsec = 20000000}, whole = {.tv_nsec = 700000000};

	rtr.min_rnr_timer = 0;		/* 655 ms */
	rts.rnr_retry = 1;
	CHECK(!vt_init(a) && !vt_init(b), "INIT");
	CHECK(!ibv_modify_qp(b, &rtr, VT_RTR_RC) && !ibv_modify_qp(b, &rts, VT_RTS_RC), "b");
	vt_rtr_rts(a, b->qp_num, rts);
	for (uint64_t i = 0; i < 2; i++) {
		CHECK(!vt_send(a, i, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
		nanosleep(&brief, NULL);
		CHECK(!vt_recv(b, 5, vt_sge(mr, 512, 8)), "receive");
		vt_expect(scq, i, IBV_WC_SUCCESS);
		vt_expect(rcq, 5, IBV_WC_SUCCESS);
		if (!i)
			nanosleep(&whole, NULL);
	}
	drop(a, b);
	/* timeout 0: for ever, until the peer is there */
	a = make(IBV_QPT_RC, 8, 4, 0, NULL);
	b = make(IBV_QPT_RC, 8, 4, 0, NULL);
	rts.timeout = 0;
	CHECK(!vt_init(a) && !vt_init(b), "INIT");
	vt_rtr_rts(a, b->qp_num, rts);
	CHECK(!write_8(a, 7, (uintptr_t)mem + 64, mr->rkey, IBV_SEND_SIGNALED), "write");
	nanosleep(&brief, NULL);
	vt_none(scq);
	vt_rtr_rts(b, a->qp_num, vt_rts_attr());
	vt_expect(scq, 7, IBV_WC_SUCCESS);
	drop(a, b);
}

#define QUEUES 3
/* The queues of a process that is stopped wait for receives of another: the process that posts these executes the queues.
 * Twice: a queue that has waited once must be able to wait again. */
static void stopped(void)
{
	struct vt_peer p = vt_fork();
	uint32_t mine[QUEUES], his[QUEUES];
	struct ibv_qp *qp[QUEUES];
	int status;

	t = vt_open();
	mem = shca_alloc(t.ctx, BYTES);
	CHECK(mem, "shca_alloc");
	mr = vt_mr(&t, mem, BYTES, VT_ACCESS);
	scq = vt_cq(&t, 64, NULL);
	rcq = vt_cq(&t, 64, NULL);
	struct ibv_srq *srq = shared(8);
	for (int i = 0; i < QUEUES; i++) {
		qp[i] = make(IBV_QPT_RC, 8, 0, 0, srq);
		mine[i] = qp[i]->qp_num;
	}
	vt_tell(&p, mine, sizeof(mine));
	vt_hear(&p, his, sizeof(his));
	for (int i = 0; i < QUEUES; i++)
		vt_connect(qp[i], his[i]);
	vt_meet(&p);
	for (uint64_t round = 0; round < 3; round++) {
		if (!p.child) {
			for (int i = 0; i < QUEUES; i++)
				CHECK(!vt_send(qp[i], round, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
			vt_meet(&p);
			raise(SIGSTOP);
			for (int i = 0; i < QUEUES; i++)
				vt_expect(scq, round, IBV_WC_SUCCESS);
			continue;
		}
		vt_meet(&p);
		CHECK(waitpid(p.child, &status, WUNTRACED) == p.child && WIFSTOPPED(status), "it was to stop: %#x", status);
		for (uint64_t i = 0; i < QUEUES; i++)
			CHECK(!vt_srq_recv(srq, i, vt_sge(mr, 64 * i + 64, 8)), "receive");
		for (int i = 0; i < QUEUES; i++)
			vt_expect(rcq, (uint64_t)i, IBV_WC_SUCCESS);
		CHECK(!kill(p.child, SIGCONT), "SIGCONT");
	}
	vt_meet(&p);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!ibv_destroy_qp(qp[i]), "ibv_destroy_qp");
	CHECK(!ibv_destroy_srq(srq) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, mem), "destroy");
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq), "ibv_destroy_cq");
	vt_close(&t);
	if (!p.child)
		exit(0);
	vt_join(&p);
}

int main(void)
{
	vt_fabric();
	stopped();
	t = vt_open();
	mem = shca_alloc(t.ctx, BYTES);
	CHECK(mem, "shca_alloc");
	mr = vt_mr(&t, mem, BYTES, VT_ACCESS);
	scq = vt_cq(&t, 256, NULL);
	rcq = vt_cq(&t, 256, NULL);
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "async_fd");
	send_room();
	builder_room();
	no_receives_asked();
	receive_room();
	completion_room();
	laps();
	failed_answers_nobody();
	order();
	short_atomic();
	empty_segments();
	no_bytes_no_key();
	datagrams();
	keys();
	deregistered();
	contended();
	stalls();
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, mem), "destroy");
	vt_close(&t);
	return 0;
}
