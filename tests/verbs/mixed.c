/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once, with checked data. Threads of one process use connections with armed alternate paths, an XRC domain with
 * several SRQs whose limit is 2, memory windows of types 1 and 2B, indirect memory keys (lists, strides, keys of keys), UD
 * multicast and CQs of 2 entries, which are resized in use, on a ConnectX of two Ethernet ports. Meanwhile port 1 goes down and
 * up, a process that the threads read and write is stopped and killed, and peers of RDMA CM are stopped in the middle of
 * rdma_connect, or as listeners.
 *
 *     tests/verbs/mixed [SECONDS [SEED]]       2 seconds, and a seed that is printed
 */
#include <infiniband/mlx5dv.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "cm.h"

enum { THREADS = 3, SRQS = 3, GROUPS = 2, HALF = 8192, LEN = 2 * HALF, MSG = 2048, GRAMS = 32, GRAM = 40 + 256, VRECVS = 4 };
#define ACCESS (VT_ACCESS | IBV_ACCESS_MW_BIND)
#define SIGNALED IBV_SEND_SIGNALED
#define QKEY 0x11111111u

static struct vt t;
static uint64_t seed, end_ms;
static _Atomic bool over;

/* The way from a thread to the process that is stopped and killed (the victim). */
enum { WAY_ASKED = 1, WAY_ANSWERED, WAY_CONNECTED };
struct way {
	_Atomic uint32_t stage;
	uint32_t qpn, victims_qpn, rkey, generation;
	uint32_t threads_rkey; /* of memory that the victim writes and reads */
	uint64_t addr, threads_addr;
};
/* Shared by all processes of the test. */
static struct shared {
	struct way way[THREADS];
	_Atomic uint32_t generation; /* of the victim that lives, or was killed last */
	_Atomic uint32_t killed; /* generation of the victim that was killed last */
	_Atomic uint32_t listens; /* port of a listener that stops */
	_Atomic uint32_t messages; /* requests of victims that were right */
	_Atomic uint32_t wrong; /* a victim has read other bytes than it has written */
	uint16_t port; /* of this process's listener */
} * sh;

struct random {
	uint64_t state;
};
static uint32_t rnd(struct random *r, uint32_t n)
{
	r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(r->state >> 33) % n;
}

static void fill(struct random *r, char *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		p[i] = (char)rnd(r, 256);
}

/* ---- objects -------------------------------------------------------------------------------------------------------- */

static struct ibv_ah_attr address(struct ibv_context *ctx, uint8_t from, uint8_t to)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = from, .grh = {.hop_limit = 1}};

	CHECK(!ibv_query_gid(ctx, to, 0, &a.grh.dgid), "ibv_query_gid");
	return a;
}

static void connect_by(struct ibv_qp *qp, uint32_t dest, uint8_t port)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = port, .qp_access_flags = VT_ACCESS};
	struct ibv_qp_attr rtr = vt_rtr_attr(dest), rts = vt_rts_attr();

	rtr.ah_attr = address(qp->context, port, port);
	rts.timeout = 14;
	rts.retry_cnt = 7;
	CHECK(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS), "INIT");
	CHECK(!ibv_modify_qp(qp, &rtr, vt_rtr_mask(qp)), "RTR");
	CHECK(!ibv_modify_qp(qp, &rts, vt_rts_mask(qp)), "RTS");
}

static struct ibv_qp *queue(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.pd = t.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS,
		.send_ops_flags = MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED,
	};
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &a, &dv);

	CHECK(qp, "mlx5dv_create_qp");
	return qp;
}

static struct mlx5dv_mkey *key_of(uint16_t entries)
{
	struct mlx5dv_mkey_init_attr a = {.pd = t.pd,
					  .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT,
					  .max_entries = entries};
	struct mlx5dv_mkey *k = mlx5dv_create_mkey(&a);

	CHECK(k, "mlx5dv_create_mkey");
	return k;
}

/* SRQs are everybody's; a thread that holds the lock sends to one and takes the message. */
static struct ibv_xrcd *xrcd;
static struct common {
	pthread_mutex_t lock;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	uint32_t number;
} srqs[SRQS];
static _Atomic unsigned limits_armed, limits_seen, migrated, refusals, lost;

struct worker {
	unsigned n;
	struct random r;
	pthread_t thread;
	char *m[2]; /* in the arena; private. First half: pieces of keys; second half: flat */
	struct ibv_mr *mr[2];
	struct ibv_cq *cq, *xcq, *gcq, *vcq;
	struct ibv_qp *a, *b; /* armed, port 1 */
	struct ibv_qp *owner, *peer; /* windows and keys, port 2 */
	struct ibv_qp *xsend, *xrecv;
	struct ibv_mw *mw1, *mw2;
	struct mlx5dv_mkey *key[2];
	struct ibv_qp *gram[2];
	char *grams;
	struct ibv_mr *gmr;
	struct ibv_ah *group[GROUPS];
	struct ibv_qp *victim;
	bool victim_connected;
	char *landing; /* VRECVS receives for the victim's messages; MSG bytes that the victim writes */
	struct ibv_mr *lmr;
};
static struct worker workers[THREADS];

static union ibv_gid group(int n)
{
	union ibv_gid g = {.raw = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [15] = (uint8_t)(n + 1)}};
	return g;
}

static void gram_post(struct worker *w, int q, uint64_t slot)
{
	struct ibv_sge s = {(uintptr_t)w->grams + slot * GRAM, GRAM, w->gmr->lkey};

	CHECK(!vt_recv(w->gram[q], slot, s), "receive of a datagram");
}

static void own_pair(struct worker *w)
{
	w->owner = queue(w->cq);
	w->peer = queue(w->cq);
	connect_by(w->owner, w->peer->qp_num, 2);
	connect_by(w->peer, w->owner->qp_num, 2);
	w->mw1 = ibv_alloc_mw(t.pd, IBV_MW_TYPE_1);
	w->mw2 = ibv_alloc_mw(t.pd, IBV_MW_TYPE_2);
	CHECK(w->mw1 && w->mw2, "ibv_alloc_mw");
}

static void own_pair_end(struct worker *w)
{
	CHECK(!ibv_dealloc_mw(w->mw1) && !ibv_dealloc_mw(w->mw2), "ibv_dealloc_mw");
	CHECK(!ibv_destroy_qp(w->owner) && !ibv_destroy_qp(w->peer), "destroy");
	for (struct ibv_wc wc; ibv_poll_cq(w->cq, 1, &wc) > 0;)
		;
}

static void arm(struct ibv_qp *qp, uint8_t from, uint8_t to)
{
	struct ibv_qp_attr a = {.alt_ah_attr = address(t.ctx, from, to),
				.alt_port_num = from,
				.alt_timeout = 14,
				.path_mig_state = IBV_MIG_REARM};

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE), "REARM");
}

static void xrc_make(struct worker *w)
{
	struct ibv_qp_init_attr_ex out = {.qp_type = IBV_QPT_XRC_SEND,
					  .send_cq = w->xcq,
					  .pd = t.pd,
					  .comp_mask = IBV_QP_INIT_ATTR_PD,
					  .cap = {.max_send_wr = 2, .max_send_sge = 2}};
	struct ibv_qp_init_attr_ex in = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

	w->xsend = ibv_create_qp_ex(t.ctx, &out);
	w->xrecv = ibv_create_qp_ex(t.ctx, &in);
	CHECK(w->xsend && w->xrecv, "XRC");
	connect_by(w->xrecv, w->xsend->qp_num, 2);
	connect_by(w->xsend, w->xrecv->qp_num, 2);
}

static void grams_make(struct worker *w)
{
	struct ibv_qp_init_attr i = {.send_cq = w->gcq, .recv_cq = w->gcq, .cap = {4, GRAMS, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 2, .qkey = QKEY};

	w->grams = calloc(2 * GRAMS + 1, GRAM);
	w->gmr = vt_mr(&t, w->grams, (2 * GRAMS + 1) * GRAM, IBV_ACCESS_LOCAL_WRITE);
	for (int q = 0; q < 2; q++) {
		w->gram[q] = ibv_create_qp(t.pd, &i);
		CHECK(w->gram[q] &&
			      !ibv_modify_qp(w->gram[q], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		      "INIT");
		CHECK(!vt_to(w->gram[q], IBV_QPS_RTR), "RTR");
		struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
		CHECK(!ibv_modify_qp(w->gram[q], &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
		for (uint64_t k = 0; k < GRAMS; k++)
			gram_post(w, q, (uint64_t)q * GRAMS + k);
	}
	for (int g = 0; g < GROUPS; g++) {
		union ibv_gid gid = group(g);
		struct ibv_ah_attr to = {.is_global = 1, .port_num = 2, .grh = {.dgid = gid, .hop_limit = 1}};
		w->group[g] = ibv_create_ah(t.pd, &to);
		CHECK(w->group[g] && !ibv_attach_mcast(w->gram[g % 2], &gid, 0), "group");
	}
}

static void worker_make(struct worker *w)
{
	for (int i = 0; i < 2; i++) {
		w->m[i] = i ? aligned_alloc(4096, LEN) : shca_alloc(t.ctx, LEN);
		CHECK(w->m[i], "memory");
		memset(w->m[i], 0, LEN);
		w->mr[i] = vt_mr(&t, w->m[i], LEN, ACCESS);
		w->key[i] = key_of(4);
	}
	w->cq = vt_cq(&t, 2, NULL);
	w->xcq = vt_cq(&t, 2, NULL);
	w->vcq = vt_cq(&t, VRECVS + 2, NULL);
	w->landing = calloc(1, 4096);
	w->lmr = vt_mr(&t, w->landing, 4096, VT_ACCESS);
	w->gcq = vt_cq(&t, 2 * GRAMS + 8, NULL);
	w->a = queue(w->cq);
	w->b = queue(w->cq);
	connect_by(w->a, w->b->qp_num, 1);
	connect_by(w->b, w->a->qp_num, 1);
	arm(w->a, 2, 2);
	arm(w->b, 2, 2);
	own_pair(w);
	xrc_make(w);
	grams_make(w);
}

/* ---- operations of a thread ------------------------------------------------------------------------------------------ */

static void done(struct worker *w, struct ibv_cq *cq, uint64_t id)
{
	struct ibv_wc wc = vt_wait(cq);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id, "seed %lu, thread %u: %s of %lu instead of %lu", seed, w->n,
	      ibv_wc_status_str(wc.status), wc.wr_id, id);
}

static void equal(struct worker *w, const char *a, const char *b, uint32_t n, const char *what)
{
	CHECK(!memcmp(a, b, n), "seed %lu, thread %u: %s of %u bytes", seed, w->n, what, n);
}

/* A piece of the flat half. */
static struct ibv_sge flat(struct worker *w, int m, uint32_t at, uint32_t n)
{
	return vt_sge(w->mr[m], HALF + at, n);
}

static void on_armed(struct worker *w)
{
	struct ibv_qp *from = rnd(&w->r, 2) ? w->a : w->b, *to = from == w->a ? w->b : w->a;
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), at = rnd(&w->r, MSG - n + 1), back = MSG + rnd(&w->r, MSG - n + 1);
	char *source = w->m[s] + HALF + at, *target = w->m[d] + HALF + back;
	enum { SEND, WRITE, READ, ATOMIC, OPS } op = rnd(&w->r, OPS);

	fill(&w->r, source, n);
	fill(&w->r, target, n);
	if (rnd(&w->r, 4) == 0)
		CHECK(!ibv_resize_cq(w->cq, 2 + (int)rnd(&w->r, 30)), "ibv_resize_cq");
	if (op == SEND) {
		CHECK(!vt_recv(to, 1, flat(w, d, back, n)) && !vt_send(from, 2, flat(w, s, at, n), SIGNALED), "SEND");
		/* both completions are in the queue while it gets another size */
		if (rnd(&w->r, 2))
			CHECK(!ibv_resize_cq(w->cq, 2 + (int)rnd(&w->r, 8)), "ibv_resize_cq");
		uint64_t sum = 0;
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc = vt_wait(w->cq);
			CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id != 1 || wc.byte_len == n), "seed %lu: %s", seed,
			      ibv_wc_status_str(wc.status));
			sum += wc.wr_id;
		}
		CHECK(sum == 3, "seed %lu: two completions of one kind", seed);
	} else if (op == ATOMIC) {
		uint64_t *cell = (uint64_t *)(void *)(w->m[d] + HALF + 3 * MSG), before = *cell, add = rnd(&w->r, 1000), got;
		struct ibv_sge sge = flat(w, s, 0, 8);
		struct ibv_send_wr wr = {.wr_id = 3,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .send_flags = SIGNALED,
					 .wr.atomic = {(uintptr_t)cell, add, 0, w->mr[d]->rkey}},
				   *bad;
		CHECK(!ibv_post_send(from, &wr, &bad), "atomic");
		done(w, w->cq, 3);
		memcpy(&got, w->m[s] + HALF, 8);
		CHECK(got == before && *cell == before + add, "seed %lu: an atomic", seed);
		return;
	} else {
		/* READ: from the target to the source */
		CHECK(!vt_rdma(from, op == WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 4, flat(w, s, at, n),
			       (uintptr_t)target, w->mr[d]->rkey),
		      "RDMA");
		done(w, w->cq, 4);
	}
	equal(w, source, target, n, "an armed connection");
}

static void by_xrc(struct worker *w)
{
	struct common *c = &srqs[rnd(&w->r, SRQS)];
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), receives = 1 + rnd(&w->r, 3);
	struct ibv_srq_attr limit = {.srq_limit = 2};

	pthread_mutex_lock(&c->lock);
	fill(&w->r, w->m[s] + HALF, n);
	for (uint32_t i = 0; i < receives; i++)
		CHECK(!vt_srq_recv(c->srq, i, flat(w, d, MSG * (1 + i), n)), "receive of an SRQ");
	if (rnd(&w->r, 2)) {
		CHECK(!ibv_modify_srq(c->srq, &limit, IBV_SRQ_LIMIT), "limit");
		atomic_fetch_add(&limits_armed, 1);
	}
	if (rnd(&w->r, 8) == 0) {
		struct ibv_srq_attr size = {.max_wr = 4 + rnd(&w->r, 60)};
		CHECK(!ibv_modify_srq(c->srq, &size, IBV_SRQ_MAX_WR), "another size of an SRQ");
	}
	for (uint32_t i = 0; i < receives; i++) {
		struct ibv_sge sge = flat(w, s, 0, n);
		struct ibv_send_wr wr = {.wr_id = 5,
					 .sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND_WITH_IMM,
					 .send_flags = SIGNALED,
					 .imm_data = htonl(n + i),
					 .qp_type.xrc.remote_srqn = c->number},
				   *bad;
		if (rnd(&w->r, 4) == 0)
			CHECK(!ibv_resize_cq(c->cq, 2 + (int)rnd(&w->r, 6)), "ibv_resize_cq");
		CHECK(!ibv_post_send(w->xsend, &wr, &bad), "XRC");
		done(w, w->xcq, 5);
		struct ibv_wc wc = vt_wait(c->cq);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == n && wc.wr_id == i && ntohl(wc.imm_data) == n + i,
		      "seed %lu: XRC: %s", seed, ibv_wc_status_str(wc.status));
		equal(w, w->m[s] + HALF, w->m[d] + HALF + MSG * (1 + i), n, "a message by XRC");
	}
	pthread_mutex_unlock(&c->lock);
}

/* A request through a key or window that is no longer there: the queue pairs go to ERR, and are made anew. */
static void refused(struct worker *w, uint64_t addr, uint32_t rkey)
{
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 6, flat(w, 0, 0, 8), addr, rkey), "RDMA");
	struct ibv_wc wc = vt_wait(w->cq);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR, "seed %lu: %s of a key that was invalidated", seed,
	      ibv_wc_status_str(wc.status));
	own_pair_end(w);
	own_pair(w);
	atomic_fetch_add(&refusals, 1);
}

static void by_window(struct worker *w)
{
	bool two = rnd(&w->r, 2);
	int s = (int)rnd(&w->r, 2), d = (int)rnd(&w->r, 2);
	uint32_t n = 8 + rnd(&w->r, MSG - 8), at = rnd(&w->r, HALF - n), in = rnd(&w->r, n - 7),
		 len = 8 + rnd(&w->r, n - in - 7);
	struct ibv_mw *mw = two ? w->mw2 : w->mw1;
	struct ibv_mw_bind_info info = {.mr = w->mr[d],
					.addr = (uintptr_t)w->m[d] + at,
					.length = n,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	uint32_t was = mw->rkey;

	if (two) {
		struct ibv_send_wr wr = {.wr_id = 7,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = SIGNALED,
					 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(was), .bind_info = info}},
				   *bad;
		CHECK(!ibv_post_send(w->owner, &wr, &bad), "BIND_MW");
		mw->rkey = ibv_inc_rkey(was);
	} else {
		struct ibv_mw_bind b = {.wr_id = 7, .send_flags = SIGNALED, .bind_info = info};
		CHECK(!ibv_bind_mw(w->owner, mw, &b), "ibv_bind_mw");
	}
	done(w, w->cq, 7);
	fill(&w->r, w->m[s] + HALF, len);
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 8, flat(w, s, 0, len), info.addr + in, mw->rkey), "WRITE");
	done(w, w->cq, 8);
	equal(w, w->m[s] + HALF, w->m[d] + at + in, len, "a WRITE through a window");
	CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_READ, 9, flat(w, s, MSG, len), info.addr + in, mw->rkey), "READ");
	done(w, w->cq, 9);
	equal(w, w->m[s] + HALF + MSG, w->m[d] + at + in, len, "a READ through a window");
	if (!two) {
		if (rnd(&w->r, 16) == 0 && was != mw->rkey)
			refused(w, info.addr, was);
		return;
	}
	struct ibv_send_wr inv = {.wr_id = 10, .opcode = IBV_WR_LOCAL_INV, .send_flags = SIGNALED, .invalidate_rkey = mw->rkey},
			   *bad;
	bool by_peer = rnd(&w->r, 2);
	if (by_peer) {
		inv.opcode = IBV_WR_SEND_WITH_INV;
		CHECK(!vt_recv(w->owner, 11, flat(w, s, 0, 8)), "receive");
	}
	CHECK(!ibv_post_send(by_peer ? w->peer : w->owner, &inv, &bad), "invalidate");
	for (int i = 0; i < 1 + by_peer; i++) {
		struct ibv_wc wc = vt_wait(w->cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "seed %lu: invalidate: %s", seed, ibv_wc_status_str(wc.status));
	}
	if (rnd(&w->r, 16) == 0)
		refused(w, info.addr, mw->rkey);
}

/* ---- indirect keys: key[0] is a list of pieces, key[1] strides over key[0] and a piece of its own ------------------------- */

struct model {
	uint32_t n;
	char *byte[3 * MSG];
};

static struct mlx5dv_qp_ex *begin(struct ibv_qp *qp)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = 12;
	ex->wr_flags = SIGNALED | IBV_SEND_INLINE;
	return mlx5dv_qp_ex_from_ibv_qp_ex(ex);
}

static void configured(struct worker *w)
{
	CHECK(!ibv_wr_complete(ibv_qp_to_qp_ex(w->owner)), "a key");
	done(w, w->cq, 12);
}

static void keys_make(struct worker *w, struct model mod[2])
{
	struct ibv_sge sge[3];
	uint32_t pieces = 1 + rnd(&w->r, 3);

	mod[0].n = mod[1].n = 0;
	for (uint32_t i = 0; i < pieces; i++) {
		int m = (int)rnd(&w->r, 2);
		uint32_t at = i * MSG + rnd(&w->r, 1000), n = 1 + rnd(&w->r, 1000);
		sge[i] = vt_sge(w->mr[m], at, n);
		for (uint32_t k = 0; k < n; k++)
			mod[0].byte[mod[0].n++] = w->m[m] + at + k;
	}
	mlx5dv_wr_mr_list(begin(w->owner), w->key[0], VT_ACCESS, (uint16_t)pieces, sge);
	configured(w);
	uint32_t repeat = 1 + rnd(&w->r, 4), step = mod[0].n / repeat;
	while (!step)
		step = mod[0].n / --repeat;
	uint32_t count = 1 + rnd(&w->r, step), own = 1 + rnd(&w->r, 200), skip = rnd(&w->r, 200);
	int m = (int)rnd(&w->r, 2);
	struct mlx5dv_mr_interleaved d[2] = {
		{.addr = 0, .bytes_count = count, .bytes_skip = step - count, .lkey = w->key[0]->lkey},
		{.addr = (uintptr_t)w->m[m] + 3 * MSG, .bytes_count = own, .bytes_skip = skip, .lkey = w->mr[m]->lkey},
	};
	mlx5dv_wr_mr_interleaved(begin(w->owner), w->key[1], VT_ACCESS, repeat, 2, d);
	configured(w);
	for (uint32_t r = 0; r < repeat; r++) {
		for (uint32_t k = 0; k < count; k++)
			mod[1].byte[mod[1].n++] = mod[0].byte[r * step + k];
		for (uint32_t k = 0; k < own; k++)
			mod[1].byte[mod[1].n++] = w->m[m] + 3 * MSG + r * (own + skip) + k;
	}
}

static void by_key(struct worker *w)
{
	static _Thread_local struct model mod[2];
	enum { SOURCE_WRITE, SOURCE_SEND, TARGET_READ, TARGET_WRITE, OPS };

	keys_make(w, mod);
	for (int turn = 0; turn < 3; turn++) {
		int k = (int)rnd(&w->r, 2), f = (int)rnd(&w->r, 2), op = (int)rnd(&w->r, OPS);
		uint32_t n = 1 + rnd(&w->r, mod[k].n), at = rnd(&w->r, mod[k].n - n + 1);
		char *other = w->m[f] + HALF;
		struct ibv_sge sge = {at, n, w->key[k]->lkey};
		for (uint32_t i = 0; i < n; i++)
			*mod[k].byte[at + i] = (char)rnd(&w->r, 256);
		fill(&w->r, other, n);
		switch (op) {
		case SOURCE_WRITE:
			CHECK(!vt_rdma(w->owner, IBV_WR_RDMA_WRITE, 13, sge, (uintptr_t)other, w->mr[f]->rkey), "WRITE");
			break;
		case SOURCE_SEND:
			CHECK(!vt_recv(w->peer, 14, flat(w, f, 0, n)) && !vt_send(w->owner, 13, sge, 0), "SEND");
			break;
		case TARGET_READ:
			CHECK(!vt_rdma(w->owner, IBV_WR_RDMA_READ, 13, sge, (uintptr_t)other, w->mr[f]->rkey), "READ");
			break;
		case TARGET_WRITE:
			CHECK(!vt_rdma(w->peer, IBV_WR_RDMA_WRITE, 13, flat(w, f, 0, n), at, w->key[k]->rkey),
			      "WRITE to a key");
			break;
		}
		done(w, w->cq, op == SOURCE_SEND ? 14 : 13);
		for (uint32_t i = 0; i < n; i++)
			CHECK(*mod[k].byte[at + i] == other[i], "seed %lu, thread %u: key %d, operation %d, byte %u of %u",
			      seed, w->n, k, op, i, n);
	}
	/* the outer key first: the inner one is in use by it */
	for (int k = 1; k >= 0; k--) {
		struct ibv_send_wr inv = {.wr_id = 15,
					  .opcode = IBV_WR_LOCAL_INV,
					  .send_flags = SIGNALED,
					  .invalidate_rkey = w->key[k]->rkey},
				   *bad;
		CHECK(!ibv_post_send(w->owner, &inv, &bad), "LOCAL_INV");
		done(w, w->cq, 15);
	}
	if (rnd(&w->r, 32) == 0)
		refused(w, 0, w->key[rnd(&w->r, 2)]->rkey);
}

/* ---- datagrams to groups --------------------------------------------------------------------------------------------- */

struct gram {
	uint32_t seed, n;
	char data[];
};

static void gram_fill(struct gram *g, char *data)
{
	struct random r = {g->seed};

	fill(&r, data, g->n);
}

/* Takes what has come, until the completion of the send `until` has. */
static void grams_take(struct worker *w, bool until)
{
	uint64_t end = vt_ms() + 60000;
	char want[GRAM];

	for (bool sent = !until;;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(w->gcq, 1, &wc);
		CHECK(n >= 0, "ibv_poll_cq");
		if (!n && sent)
			return;
		CHECK(vt_ms() < end, "seed %lu: no completion of a datagram", seed);
		if (!n)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS, "seed %lu: a datagram: %s", seed, ibv_wc_status_str(wc.status));
		if (wc.wr_id == 2 * GRAMS) {
			sent = true;
			continue;
		}
		struct gram *g = (struct gram *)(void *)(w->grams + wc.wr_id * GRAM + 40);
		CHECK(wc.byte_len == 40 + sizeof(*g) + g->n, "seed %lu: a datagram of %u bytes", seed, wc.byte_len);
		gram_fill(g, want);
		equal(w, g->data, want, g->n, "a datagram");
		gram_post(w, wc.wr_id >= GRAMS, wc.wr_id);
	}
}

static void to_group(struct worker *w)
{
	struct gram *g = (struct gram *)(void *)(w->grams + 2 * GRAMS * GRAM);
	int q = (int)rnd(&w->r, 2);

	if (rnd(&w->r, 8) == 0) {
		union ibv_gid gid = group(q);
		CHECK(!ibv_detach_mcast(w->gram[q], &gid, 0) && !ibv_attach_mcast(w->gram[q], &gid, 0), "leave and join");
	}
	g->seed = rnd(&w->r, 1u << 30);
	g->n = rnd(&w->r, GRAM - 40 - sizeof(*g) + 1);
	gram_fill(g, g->data);
	struct ibv_sge s = {(uintptr_t)g, sizeof(*g) + g->n, w->gmr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2 * GRAMS,
				 .sg_list = &s,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = SIGNALED,
				 .wr.ud = {w->group[rnd(&w->r, GROUPS)], 0xffffff, QKEY}},
			   *bad;
	CHECK(!ibv_post_send(w->gram[q], &wr, &bad), "a datagram");
	grams_take(w, true);
}

/* ---- the process that is stopped and killed --------------------------------------------------------------------------- */

static void victim_lost(struct worker *w, enum ibv_wc_status status)
{
	struct way *y = &sh->way[w->n];

	CHECK(status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_FATAL_ERR || status == IBV_WC_WR_FLUSH_ERR,
	      "seed %lu: %s towards the victim", seed, ibv_wc_status_str(status));
	CHECK(atomic_load(&sh->killed) >= y->generation, "seed %lu: %s towards a process that lives", seed,
	      ibv_wc_status_str(status));
	CHECK(!ibv_destroy_qp(w->victim), "destroy");
	w->victim = NULL;
	w->victim_connected = false;
	for (struct ibv_wc wc; ibv_poll_cq(w->vcq, 1, &wc) > 0;)
		;
	atomic_fetch_add(&lost, 1);
}

static void victims_receive(struct worker *w, uint64_t slot)
{
	struct ibv_sge s = vt_sge(w->lmr, MSG + slot * GRAM, GRAM);

	CHECK(!vt_recv(w->victim, slot, s), "receive of the victim's messages");
}

/* Waits for the request `id`, and takes the victim's messages. Returns false if the victim is gone. */
static bool victims_done(struct worker *w, uint64_t id)
{
	char want[GRAM];

	for (;;) {
		struct ibv_wc wc = vt_wait(w->vcq);
		if (wc.status != IBV_WC_SUCCESS) {
			victim_lost(w, wc.status);
			return false;
		}
		if (wc.wr_id == id)
			return true;
		struct gram *g = (struct gram *)(void *)(w->landing + MSG + wc.wr_id * GRAM);
		CHECK(wc.wr_id < VRECVS && wc.byte_len == sizeof(*g) + g->n, "seed %lu: a message of %u bytes", seed,
		      wc.byte_len);
		gram_fill(g, want);
		equal(w, g->data, want, g->n, "a message of the victim");
		victims_receive(w, wc.wr_id);
	}
}

static void to_victim(struct worker *w)
{
	struct way *y = &sh->way[w->n];

	if (!w->victim) {
		w->victim = queue(w->vcq);
		y->qpn = w->victim->qp_num;
		y->threads_rkey = w->lmr->rkey;
		y->threads_addr = (uintptr_t)w->landing;
		atomic_store(&y->stage, WAY_ASKED);
	}
	if (!w->victim_connected) {
		if (atomic_load(&y->stage) != WAY_ANSWERED)
			return;
		connect_by(w->victim, y->victims_qpn, 2);
		w->victim_connected = true;
		for (uint64_t i = 0; i < VRECVS; i++)
			victims_receive(w, i);
		atomic_store(&y->stage, WAY_CONNECTED);
	}
	int s = (int)rnd(&w->r, 2);
	uint32_t n = 1 + rnd(&w->r, MSG), at = rnd(&w->r, MSG - n + 1);
	fill(&w->r, w->m[s] + HALF, n);
	for (int back = 0; back < 2; back++) {
		enum ibv_wr_opcode op = back ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
		CHECK(!vt_rdma(w->victim, op, 16, flat(w, s, back ? MSG : 0, n), y->addr + at, y->rkey), "RDMA");
		if (!victims_done(w, 16))
			return;
	}
	equal(w, w->m[s] + HALF, w->m[s] + HALF + MSG, n, "the victim's memory");
}

/* One request of the victim's to a thread, and its completion. Returns false if the queue pair has failed. */
static bool victim_request(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wr_opcode op, struct ibv_sge sge, const struct way *y)
{
	struct ibv_wc wc;

	if (op == IBV_WR_SEND ? vt_send(qp, 1, sge, SIGNALED) : vt_rdma(qp, op, 1, sge, y->threads_addr, y->threads_rkey))
		return false;
	/* the thread may take its time to post a receive, or have given the queue pair up */
	wc = vt_wait(cq);
	return wc.status == IBV_WC_SUCCESS;
}

/* A message, or bytes that are written and read back. */
static bool victim_acts(struct random *r, struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr, const struct way *y)
{
	char *m = (char *)mr->addr;
	struct gram *g = (struct gram *)(void *)m;
	uint32_t n = 1 + rnd(r, MSG);

	if (rnd(r, 2)) {
		g->seed = rnd(r, 1u << 30);
		g->n = rnd(r, GRAM - sizeof(*g) + 1);
		gram_fill(g, g->data);
		return victim_request(qp, cq, IBV_WR_SEND, vt_sge(mr, 0, sizeof(*g) + g->n), y);
	}
	fill(r, m, n);
	if (!victim_request(qp, cq, IBV_WR_RDMA_WRITE, vt_sge(mr, 0, n), y) ||
	    !victim_request(qp, cq, IBV_WR_RDMA_READ, vt_sge(mr, MSG, n), y))
		return false;
	if (memcmp(m, m + MSG, n))
		atomic_store(&sh->wrong, 1);
	return true;
}

static void victim(void)
{
	uint32_t generation = atomic_load(&sh->generation);
	struct ibv_qp *qp[THREADS] = {NULL};
	bool works[THREADS] = {false};
	struct random r = {seed + generation};

	t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 16, NULL);
	char *m = generation & 1 ? aligned_alloc(4096, LEN) : shca_alloc(t.ctx, LEN), *own = calloc(2, MSG);
	CHECK(m && own, "memory");
	struct ibv_mr *mr = vt_mr(&t, m, LEN, VT_ACCESS), *own_mr = vt_mr(&t, own, 2 * MSG, VT_ACCESS);
	for (;;) {
		for (int i = 0; i < THREADS; i++) {
			struct way *y = &sh->way[i];
			if (atomic_load(&y->stage) == WAY_ASKED) {
				if (qp[i])
					ibv_destroy_qp(qp[i]);
				qp[i] = queue(cq);
				connect_by(qp[i], y->qpn, 2);
				y->victims_qpn = qp[i]->qp_num;
				y->rkey = mr->rkey;
				y->addr = (uintptr_t)m + (unsigned)i * MSG;
				y->generation = generation;
				atomic_store(&y->stage, WAY_ANSWERED);
				works[i] = true;
			}
			/* to a queue pair that is not connected a request would get no answer */
			if (!works[i] || atomic_load(&y->stage) != WAY_CONNECTED)
				continue;
			works[i] = victim_acts(&r, qp[i], cq, own_mr, y);
			atomic_fetch_add(&sh->messages, works[i]);
		}
		usleep(rnd(&r, 100));
	}
}

/* Connects, and is stopped before the answer is read. */
static void connector(void)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", sh->port);

	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	raise(SIGSTOP);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	_exit(0);
}

/* Listens, and is stopped before a request is read. */
static void listener(void)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 2);

	atomic_store(&sh->listens, ntohs(rdma_get_src_port(l)));
	raise(SIGSTOP);
	cm_destroy(cm_request(s));
	_exit(0);
}

/* A process that has no device makes the others. */
static struct vt_peer maker;
static void maker_run(void)
{
	char kind;

	signal(SIGCHLD, SIG_IGN);
	while (read(maker.fd[0], &kind, 1) == 1) {
		pid_t maker_pid = getpid(), pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(0);
			if (getppid() == maker_pid)
				(kind == 'v' ? victim : kind == 'c' ? connector : listener)();
			_exit(1);
		}
		vt_tell(&maker, &pid, sizeof(pid));
	}
	exit(0);
}

static pid_t make(char kind)
{
	pid_t pid;

	vt_tell(&maker, &kind, 1);
	vt_hear(&maker, &pid, sizeof(pid));
	return pid;
}

static void stopped(pid_t pid)
{
	char path[32], state = 0;
	uint64_t end = vt_ms() + 60000;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state != 'T') {
		FILE *f = fopen(path, "re");
		CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && vt_ms() < end,
		      "seed %lu: process %d is not stopped: %c", seed, pid, state);
		fclose(f);
		sched_yield();
	}
}

/* ---- the thread that disturbs ----------------------------------------------------------------------------------------- */

static void events_take(void)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(t.ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			atomic_fetch_add(&limits_seen, 1);
		if (ev.event_type == IBV_EVENT_PATH_MIG)
			atomic_fetch_add(&migrated, 1);
		CHECK(ev.event_type != IBV_EVENT_CQ_ERR && ev.event_type != IBV_EVENT_SRQ_ERR &&
			      ev.event_type != IBV_EVENT_DEVICE_FATAL,
		      "seed %lu: %s", seed, ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

static struct ibv_qp_attr path_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK(!ibv_query_qp(qp, &a, IBV_QP_PORT | IBV_QP_PATH_MIG_STATE, &init), "ibv_query_qp");
	return a;
}

static void both_on(struct worker *w, uint8_t port, enum ibv_mig_state state)
{
	uint64_t end = vt_ms() + 60000;

	for (;;) {
		struct ibv_qp_attr a = path_of(w->a), b = path_of(w->b);
		if (a.port_num == port && b.port_num == port && a.path_mig_state == state && b.path_mig_state == state)
			return;
		CHECK(vt_ms() < end, "seed %lu, thread %u: ports %u, %u, states %d, %d instead of port %u, state %d", seed,
		      w->n, a.port_num, b.port_num, a.path_mig_state, b.path_mig_state, port, state);
		sched_yield();
	}
}

/* Port 1 goes down: the armed connections go on by port 2, and come back by hand. */
static void port_down(struct random *r)
{
	struct ibv_qp_attr by_hand = {.path_mig_state = IBV_MIG_MIGRATED};

	cm_inject("--port 1 port-down");
	for (int i = 0; i < THREADS; i++)
		both_on(&workers[i], 2, IBV_MIG_MIGRATED);
	usleep(rnd(r, 3000));
	cm_inject("--port 1 port-up");
	for (int i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];
		arm(w->a, 1, 1);
		arm(w->b, 1, 1);
		both_on(w, 2, IBV_MIG_ARMED);
		CHECK(!ibv_modify_qp(rnd(r, 2) ? w->a : w->b, &by_hand, IBV_QP_PATH_MIG_STATE), "MIGRATED");
		both_on(w, 1, IBV_MIG_MIGRATED);
		arm(w->a, 2, 2);
		arm(w->b, 2, 2);
		both_on(w, 1, IBV_MIG_ARMED);
	}
}

static void readable(struct rdma_event_channel *ch, const char *why)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	CHECK(poll(&p, 1, 60000) == 1, "seed %lu: no event: %s", seed, why);
}

static void stopped_connector(struct random *r, struct rdma_event_channel *s)
{
	pid_t pid = make('c');
	enum rdma_cm_event_type type = RDMA_CM_EVENT_CONNECT_REQUEST;

	readable(s, "a connection request");
	struct rdma_cm_id *id = cm_request(s);
	stopped(pid);
	cm_qp(id, IBV_QPT_RC);
	cm_accept(id);
	CHECK(!kill(pid, rnd(r, 2) ? SIGKILL : SIGCONT), "kill");
	while (type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED) {
		struct rdma_cm_event *ev;
		readable(s, "the end of a peer that was stopped in rdma_connect");
		CHECK(!rdma_get_cm_event(s, &ev) && ev->id == id, "rdma_get_cm_event");
		type = ev->event;
		rdma_ack_cm_event(ev);
	}
	CHECK(type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED, "seed %lu: %s", seed, rdma_event_str(type));
	cm_destroy(id);
}

static void stopped_listener(struct random *r, struct rdma_event_channel *c)
{
	atomic_store(&sh->listens, 0);
	pid_t pid = make('l');
	uint64_t end = vt_ms() + 60000;

	while (!atomic_load(&sh->listens)) {
		CHECK(vt_ms() < end, "seed %lu: no listener", seed);
		usleep(100);
	}
	stopped(pid);
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", (uint16_t)atomic_load(&sh->listens));
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	/* the descriptor may be readable for an event of the port, which this channel does not report */
	struct rdma_cm_event *ev;
	CHECK(!fcntl(c->fd, F_SETFL, O_NONBLOCK) && rdma_get_cm_event(c, &ev) == -1 && errno == EAGAIN &&
		      !fcntl(c->fd, F_SETFL, 0),
	      "seed %lu: an event of a listener that is stopped", seed);
	CHECK(!kill(pid, rnd(r, 2) ? SIGKILL : SIGCONT), "kill");
	readable(c, "the end of a listener that was stopped");
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(id);
}

static void victim_next(pid_t *pid)
{
	atomic_store(&sh->killed, atomic_load(&sh->generation));
	CHECK(!kill(*pid, SIGKILL), "kill");
	atomic_fetch_add(&sh->generation, 1);
	*pid = make('v');
}

static void disturb(struct random *r)
{
	struct rdma_event_channel *s = cm_channel(), *c = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 4);
	pid_t pid;

	sh->port = ntohs(rdma_get_src_port(l));
	pid = make('v');
	for (unsigned turn = 0; vt_ms() < end_ms || turn < 5; turn++) {
		switch (turn < 5 ? turn : rnd(r, 5)) {
		case 0:
			if (cm_can_inject())
				port_down(r);
			break;
		case 1:
			CHECK(!kill(pid, SIGSTOP), "kill");
			usleep(rnd(r, 30000));
			if (rnd(r, 2))
				victim_next(&pid);
			else
				CHECK(!kill(pid, SIGCONT), "kill");
			break;
		case 2: stopped_connector(r, s); break;
		case 3: stopped_listener(r, c); break;
		case 4: victim_next(&pid); break;
		}
		usleep(rnd(r, 20000));
		events_take();
	}
	atomic_store(&over, true);
	CHECK(!kill(pid, SIGCONT), "kill");
	cm_destroy(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(c);
}

/* ---- all of it -------------------------------------------------------------------------------------------------------- */

static _Atomic uint64_t operations;
static void *work(void *arg)
{
	static void (*const op[])(struct worker *) = {on_armed, by_xrc, by_window, by_key, to_group, to_victim};
	struct worker *w = arg;

	while (!atomic_load(&over)) {
		op[rnd(&w->r, (uint32_t)(sizeof(op) / sizeof(*op)))](w);
		grams_take(w, false);
		atomic_fetch_add(&operations, 1);
	}
	return NULL;
}

static void worker_end(struct worker *w)
{
	own_pair_end(w);
	for (int g = 0; g < GROUPS; g++) {
		union ibv_gid gid = group(g);
		CHECK(!ibv_detach_mcast(w->gram[g % 2], &gid, 0) && !ibv_destroy_ah(w->group[g]), "group");
	}
	CHECK(!ibv_destroy_qp(w->a) && !ibv_destroy_qp(w->b) && !ibv_destroy_qp(w->xsend) && !ibv_destroy_qp(w->xrecv) &&
		      !ibv_destroy_qp(w->gram[0]) && !ibv_destroy_qp(w->gram[1]) && (!w->victim || !ibv_destroy_qp(w->victim)),
	      "destroy");
	for (int i = 0; i < 2; i++)
		CHECK(!mlx5dv_destroy_mkey(w->key[i]) && !ibv_dereg_mr(w->mr[i]), "a key");
	CHECK(!ibv_dereg_mr(w->gmr) && !ibv_dereg_mr(w->lmr), "dereg");
	free(w->landing);
	CHECK(!ibv_destroy_cq(w->cq) && !ibv_destroy_cq(w->xcq) && !ibv_destroy_cq(w->gcq) && !ibv_destroy_cq(w->vcq),
	      "destroy_cq");
	shca_free(t.ctx, w->m[0]);
	free(w->m[1]);
	free(w->grams);
}

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 2;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() << 20 ^ vt_ms();
	printf("# seed %lu\n", seed);
	fflush(stdout);
	cm_start();
	alarm(seconds + 120);
	CHECK(!setenv("SHCA_LINK", "ethernet", 1) && !setenv("SHCA_IDENTITY", "connectx", 1) && !setenv("SHCA_PORTS", "2", 1),
	      "setenv");
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sh != MAP_FAILED, "mmap");
	atomic_store(&sh->generation, 1);
	maker = vt_fork();
	if (!maker.child)
		maker_run();
	t = vt_open();
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = -1,
				       .oflags = O_CREAT};
	xrcd = ibv_open_xrcd(t.ctx, &x);
	CHECK(xrcd, "ibv_open_xrcd");
	for (int i = 0; i < SRQS; i++) {
		struct common *c = &srqs[i];
		pthread_mutex_init(&c->lock, NULL);
		c->cq = vt_cq(&t, 2, NULL);
		struct ibv_srq_init_attr_ex a = {
			.attr = {.max_wr = 4, .max_sge = 1},
			.srq_type = IBV_SRQT_XRC,
			.pd = t.pd,
			.cq = c->cq,
			.xrcd = xrcd,
			.comp_mask =
				IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		};
		c->srq = ibv_create_srq_ex(t.ctx, &a);
		CHECK(c->srq && !ibv_get_srq_num(c->srq, &c->number), "SRQ");
	}
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].n = i;
		workers[i].r.state = seed * 2654435761u + i;
		worker_make(&workers[i]);
	}
	end_ms = vt_ms() + seconds * 1000;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
	disturb(&(struct random){seed});
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL), "pthread_join");
	events_take();
	for (int i = 0; i < THREADS; i++)
		worker_end(&workers[i]);
	events_take();
	CHECK(!atomic_load(&limits_armed) == !atomic_load(&limits_seen), "seed %lu: %u limits, %u events", seed, limits_armed,
	      limits_seen);
	for (int i = 0; i < SRQS; i++)
		CHECK(!ibv_destroy_srq(srqs[i].srq) && !ibv_destroy_cq(srqs[i].cq), "SRQ");
	CHECK(!ibv_close_xrcd(xrcd), "ibv_close_xrcd");
	vt_close(&t);
	close(maker.fd[1]);
	vt_join(&maker);
	CHECK(!atomic_load(&sh->wrong), "seed %lu: a victim has read other bytes than it has written", seed);
	printf("%lu operations, %u of victims, %u limits of %u, %u migrations, %u refusals, %u times the victim was lost\n",
	       operations, atomic_load(&sh->messages), limits_seen, limits_armed, migrated, refusals, lost);
	return 0;
}
