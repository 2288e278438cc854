/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ibv_wr_* interface: requests are built in a private list between ibv_wr_start and ibv_wr_complete, and submitted
 * together; one bad call refuses the whole list (ibv_wr_post(3)).
 */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"
#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

/* In place of enum shca_wr_op, for a raw WQE: the bytes of the WQE stand in the place of inline data. */
#define OP_RAW 0xff

/* The list is an array of struct shca_send, each followed by its segments and inline bytes (wr_stride_of). Their addresses are
 * set at submission, since the list may move. */

static inline struct shca_user_qp *wr_lqp_of(struct ibv_qp_ex *ex)
{
	return (struct shca_user_qp *)ex;
}

static inline struct shca_seg *segs_of(struct shca_send *b)
{
	return (struct shca_seg *)(b + 1);
}

static inline char *inline_of(struct shca_user_qp *q, struct shca_send *b)
{
	return (char *)(segs_of(b) + q->max_sge);
}

static inline size_t wr_stride_of(const struct shca_user_qp *q)
{
	size_t bytes = q->takes_raw && q->max_inline < SHCA_RAW_MAX ? SHCA_RAW_MAX : q->max_inline;

	return (sizeof(struct shca_send) + q->max_sge * sizeof(struct shca_seg) + bytes + 15) & ~(size_t)15;
}

static inline struct shca_send *build_at(struct shca_user_qp *q, uint32_t i)
{
	return (struct shca_send *)((char *)q->wr + i * wr_stride_of(q));
}

/* Of a queue pair that configures memory keys: the request of mlx5dv_wr_mkey_configure that is being built. */
struct shca_umr {
	uint32_t left;			/* setters to come; 0: no such request */
	struct mlx5dv_mkey *mkey;
	struct shca_mkey_conf conf;
	uint64_t wr_id;
	unsigned int wr_flags;
};

/* Frees the entries of the list's requests that configure keys: submitted requests have copies. Must: the list's lock is held. */
static void umr_forget(struct shca_user_qp *q)
{
	for (uint32_t i = 0; i < q->wr_n; i++) {
		struct shca_send *b = build_at(q, i);
		if (b->req.op == SHCA_OP_UMR)
			free((void *)(uintptr_t)b->req.inl);
	}
	free(q->umr->conf.entry);
	*q->umr = (struct shca_umr){.left = 0};
	q->wr_n = 0;
}

static inline void start_list(struct shca_user_qp *q)
{
	q->wr_n = 0;
	q->wr_err = 0;
	q->wr_last = NULL;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct shca_user_qp *q = wr_lqp_of(ex);

	shca_lock(&q->lock);
	start_list(q);
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	shca_unlock(&wr_lqp_of(ex)->lock);
}

static void point_inline(struct shca_user_qp *q, struct shca_send *b)
{
	b->req.inl = inline_of(q, b);
	segs_of(b)[0] = (struct shca_seg){.where = (uintptr_t)b->req.inl, .len = b->req.len, .lane = SHCA_LANE_CMA};
}

/* Returns true if a request is one unsignaled inline write, which may be plain (fast_write.h). */
static inline bool may_be_fast(const struct shca_user_qp *q, const struct shca_req *req)
{
	return req->op == SHCA_OP_WRITE && req->flags == SHCA_WQE_INLINE && req->len && shca_runs_fast_writes(q);
}

static inline uint64_t dc_key_of(const struct shca_user_qp *q, const struct shca_req *req)
{
	return q->type == SHCA_QPT_DCI ? req->arg[3] : 0;
}

/* The fast write of a request that may_be_fast. false: nothing has happened. */
static inline __attribute__((always_inline)) bool wr_fast_write(struct shca_thread *thr, struct shca_user_qp *q,
							      struct shca_send *b, const bool inside)
{
	const struct shca_req *req = &b->req;
	const struct shca_dest dest = {.name = shca_rkey_cache_name(req->rkey, req->dqpn), .dc_key = dc_key_of(q, req),
				       .addr = req->raddr};
	const struct shca_piece all = {.at = inline_of(q, b), .len = req->len};

	return shca_fast_write(thr, q, dest, &all, 1, req->len, inside);
}

/* umr: the queue pair configures memory keys. Constant. */
static inline __attribute__((always_inline)) int submit_built(struct shca_thread *thr, struct shca_user_qp *q,
							      struct shca_send *b, const bool umr)
{
	if (umr && b->req.op == SHCA_OP_UMR) {
		b->req.sge = segs_of(b);
		return shca_submit(thr, q, b);
	}
	if (may_be_fast(q, &b->req) && wr_fast_write(thr, q, b, true))
		return 0;
	b->req.sge = segs_of(b);
	if (b->req.flags & SHCA_WQE_INLINE)
		point_inline(q, b);
	return shca_submit(thr, q, b);
}

/* Reserves all memory that the i-th request needs if it has to wait. All requests of a list are posted or none, so each is
 * reserved before the first is posted. */
static int reserve_built(struct shca_user_qp *q, const struct shca_send *b, uint32_t i)
{
	if (shca_reserve_ring(q))
		return ENOMEM;	/* said: shca_mem_alloc */
	return b->req.flags & SHCA_WQE_INLINE ? shca_reserve_inline(q, i, b->req.len) : 0;
}

static inline __attribute__((always_inline)) int submit_with(struct shca_user_qp *q, const bool umr)
{
	struct shca_thread *thr = shca_thread_get(q->m);
	int rc = q->wr_err;

	if (!thr)
		rc = shca_no_memory("wr_complete");
	/* all or nothing */
	if (!rc && q->wr_n > shca_send_room(q))
		rc = shca_full(q, q->wr_n);
	for (uint32_t i = 0; q->wr_n > 1 && i < q->wr_n && !rc; i++)
		rc = reserve_built(q, build_at(q, i), i);
	if (!rc) {
		shca_enter_in(thr, shca_epoch_has_peer(q->sh));
		for (uint32_t i = 0; i < q->wr_n && !rc; i++)
			rc = submit_built(thr, q, build_at(q, i), umr);
		shca_leave(thr);
	}
	if (umr)
		umr_forget(q);
	shca_unlock(&q->lock);
	return rc;
}

static __attribute__((noinline)) int submit_list(struct shca_user_qp *q)
{
	return submit_with(q, false);
}

/* ---- queues that configure memory keys ------------------------------------------------------------------------------ */

/* Refuses a list that ends inside of a request of mlx5dv_wr_mkey_configure. */
static void umr_check(struct shca_user_qp *q)
{
	if (q->umr->left && !q->wr_err)
		q->wr_err = shca_refuse(EINVAL, "ibv_wr_complete on queue pair %#x: the mlx5dv_wr_mkey_configure of key %#x "
					"lacks %u of its num_setters (mlx5dv_wr_set_mkey_*)",
					q->qp.qp_num, q->umr->mkey->lkey, q->umr->left);
}

static int umr_complete(struct ibv_qp_ex *ex)
{
	umr_check(wr_lqp_of(ex));
	return submit_with(wr_lqp_of(ex), true);
}

static void umr_abort(struct ibv_qp_ex *ex)
{
	umr_forget(wr_lqp_of(ex));
	wr_abort(ex);
}

/* ---- queues that take raw WQEs: like shca_exp_post_send -------------------------------------------------------------
 *
 * A list is built under `building`, a lock of its own. `cross` would be wrong: other threads and queues need it, and a program
 * may take its time between wr_start and wr_complete, or build lists for several queues at once. */

static struct shca_context *wr_context_of(const struct shca_user_qp *q)
{
	return shca_context_of(q->qp.context);
}

static void raw_start(struct ibv_qp_ex *ex)
{
	shca_lock(&wr_lqp_of(ex)->building);
	start_list(wr_lqp_of(ex));
}

static void raw_abort(struct ibv_qp_ex *ex)
{
	if (wr_lqp_of(ex)->umr)
		umr_forget(wr_lqp_of(ex));
	shca_unlock(&wr_lqp_of(ex)->building);
}

static int submit_raws(struct shca_thread *thr, struct shca_user_qp *q)
{
	int rc = q->wr_n > shca_send_room(q) ? shca_full(q, q->wr_n) : 0;

	for (uint32_t i = 0; i < q->wr_n && !rc; i++)
		if (build_at(q, i)->req.op == OP_RAW)
			rc = shca_reserve_raw(q, (uint8_t *)inline_of(q, build_at(q, i)), i, q->wr_n > 1);
		else if (q->wr_n > 1)
			rc = reserve_built(q, build_at(q, i), i);
	for (uint32_t i = 0; i < q->wr_n && !rc; i++) {
		struct shca_send *b = build_at(q, i);
		rc = b->req.op == OP_RAW ? shca_submit_raw(thr, q, b->wr_id, (uint8_t *)inline_of(q, b)) :
					   submit_built(thr, q, b, true);
	}
	return rc;
}

static int raw_complete(struct ibv_qp_ex *ex)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_thread *thr = shca_thread_get(q->m);
	bool cross = shca_takes_cross(q);
	int rc;

	if (q->umr)
		umr_check(q);
	rc = q->wr_err;
	if (!rc && !thr)
		rc = shca_no_memory("wr_complete");
	if (rc) {
		raw_abort(ex);
		return rc;
	}
	if (cross)
		pthread_mutex_lock(&wr_context_of(q)->cross);
	shca_lock(&q->lock);
	shca_enter(thr);
	/* Requests posted before may only have to run. This is done before the list, since nothing runs while `cross` is held:
	 * other threads wait for `cross`. */
	if (cross && q->wr_n > shca_send_room(q))
		shca_run_posted(thr, q);
	/* a new list: reservations of a list that was refused count no more */
	if (cross)
		wr_context_of(q)->tasks++;
	q->defer_kick = cross;
	rc = submit_raws(thr, q);
	q->defer_kick = false;
	if (cross) {
		pthread_mutex_unlock(&wr_context_of(q)->cross);
		shca_run_posted(thr, q);
	}
	shca_leave(thr);
	shca_unlock(&q->lock);
	if (q->umr)
		umr_forget(q);
	shca_unlock(&q->building);
	return rc;
}

/* wr_complete's fast path, as shca_post_send's (post.c): one fast write to a region in the rkey cache. */
static int wr_complete(struct ibv_qp_ex *ex)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_send *b = q->wr;

	if (unlikely(q->wr_n != 1 || q->wr_err || !may_be_fast(q, &b->req) || shca_tls.id != q->m->id ||
		     !shca_tls.id))
		return submit_list(q);
	if (!wr_fast_write(shca_tls.thr, q, b, false))
		return submit_list(q);
	shca_unlock(&q->lock);
	return 0;
}

static __attribute__((noinline)) bool grow_list(struct shca_user_qp *q)
{
	uint32_t cap = q->wr_cap ? q->wr_cap * 2 : 4;
	void *wr = realloc(q->wr, cap * wr_stride_of(q));

	if (!wr) {
		q->wr_err = shca_no_memory("wr_*");
		q->wr_last = NULL;
		return false;
	}
	q->wr = wr;
	q->wr_cap = cap;
	return true;
}

_Static_assert(IBV_SEND_SIGNALED == SHCA_WQE_SIGNALED << 1 && IBV_SEND_SOLICITED == SHCA_WQE_SOLICITED, "flags");

/* Begins a request. All fields that no setter fills are zero, except arg. */
static inline struct shca_send *new_request(struct ibv_qp_ex *ex, uint8_t op, uint32_t rkey, uint64_t raddr, uint32_t imm)
{
	struct shca_user_qp *q = wr_lqp_of(ex);

	if (unlikely(q->wr_n == q->wr_cap) && !grow_list(q))
		return NULL;
	struct shca_send *b = q->wr;
	if (unlikely(q->wr_n))
		b = build_at(q, q->wr_n);
	q->wr_n++;
	q->wr_last = b;
	b->wr_id = ex->wr_id;
	b->req.op = op;
	b->req.flags = (uint8_t)((ex->wr_flags >> 1 & SHCA_WQE_SIGNALED) | (ex->wr_flags & SHCA_WQE_SOLICITED));
	b->req.nsge = 0;
	b->req.bad = 0;
	b->req.imm = imm;
	b->req.rkey = rkey;
	b->req.dqpn = 0;
	b->req.qkey = 0;
	b->req.len = 0;
	b->req.raddr = raddr;
	b->req.inl = NULL;
	return b;
}

/* The request that a setter is about. */
static inline struct shca_send *current(struct shca_user_qp *q)
{
	if (unlikely(!q->wr_last)) {
		if (!q->wr_err)
			q->wr_err = shca_refuse(EINVAL,
						"ibv_wr_set_* on queue pair %#x: no request to set; ibv_wr_send, "
						"ibv_wr_rdma_write or another one begins it first",
						q->qp.qp_num);
		return NULL;
	}
	return q->wr_last;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	new_request(ex, SHCA_OP_WRITE, rkey, raddr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	new_request(ex, SHCA_OP_WRITE_IMM, rkey, raddr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	new_request(ex, SHCA_OP_READ, rkey, raddr, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
	new_request(ex, SHCA_OP_SEND, 0, 0, 0);
}

/* A frame, on a raw packet queue pair. */
static void wr_send_frame(struct ibv_qp_ex *ex)
{
	int err = shca_frame_allowed(wr_lqp_of(ex), "wr_send", ex->wr_flags);

	if (err)
		wr_lqp_of(ex)->wr_err = err;
	new_request(ex, SHCA_OP_FRAME, 0, 0, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	new_request(ex, SHCA_OP_SEND_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	new_request(ex, SHCA_OP_SEND_INV, 0, 0, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	new_request(ex, SHCA_OP_LOCAL_INV, 0, 0, rkey);
	/* complete: setters must not change it */
	wr_lqp_of(ex)->wr_last = NULL;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_send *b = new_request(ex, SHCA_OP_BIND_MW, 0, 0, 0);
	int err = b ? shca_fill_bind(q, mw, rkey, info, &b->req) : 0;

	if (err)
		q->wr_err = err;
	q->wr_last = NULL;
}

static void wr_atomic(struct ibv_qp_ex *ex, uint8_t op, uint32_t rkey, uint64_t raddr, uint64_t a, uint64_t b)
{
	struct shca_send *w = new_request(ex, op, rkey, raddr, 0);

	if (!w)
		return;
	w->req.arg[0] = a;
	w->req.arg[1] = b;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t compare, uint64_t swap)
{
	wr_atomic(ex, SHCA_OP_CAS, rkey, raddr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	wr_atomic(ex, SHCA_OP_FAA, rkey, raddr, add, 0);
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, const void *value)
{
	struct shca_send *b = new_request(ex, SHCA_OP_ATOMIC_WRITE, rkey, raddr, 0);

	if (!b)
		return;
	memcpy(&b->req.arg[0], value, 8);
	b->req.len = 8;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_send *b = current(q);

	if (!b)
		return;
	if (n > q->max_sge) {
		q->wr_err = shca_send_refused(q, "wr_set_sge_list", &(struct shca_ask){.op = b->req.op, .segments = n});
		return;
	}
	b->req.nsge = (uint8_t)n;
	b->req.bad = shca_resolve_list(q, list, (int)n, shca_op_writes_here(b->req.op), segs_of(b), &b->req.len);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, length ? 1 : 0, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_send *b = current(q);
	size_t total = 0;

	if (unlikely(!b))
		return;
	char *to = inline_of(q, b);
	for (size_t i = 0; i < n; i++) {
		if (unlikely(list[i].length > q->max_inline - total)) {
			q->wr_err = shca_send_refused(q, "wr_set_inline_data", &(struct shca_ask){.op = b->req.op,
						      .inline_bytes = total + list[i].length});
			return;
		}
		shca_copy_small(to + total, list[i].addr, list[i].length);
		total += list[i].length;
	}
	b->req.len = (uint32_t)total;
	b->req.flags |= SHCA_WQE_INLINE;
	b->req.nsge = 1;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct shca_user_qp *q = wr_lqp_of(ex);
	struct shca_send *b = current(q);

	if (!b)
		return;
	shca_set_ud_address(&b->req, (struct shca_user_ah *)ah, qpn, qkey);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct shca_send *b = current(wr_lqp_of(ex));

	if (b)
		b->req.dqpn = srqn;
}

static void wr_set_dc_addr(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn, uint64_t key)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_send *b = current(q);

	if (!b)
		return;
	b->req.dqpn = shca_destination((struct shca_user_ah *)ah, dctn);
	b->req.arg[3] = key;
}

/* An initiator made without streams, as all are here, sends in one order: the stream's number is not looked at, as by an mlx5. */
static void wr_set_dc_addr_stream(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t dctn, uint64_t key, uint16_t stream)
{
	(void)stream;
	wr_set_dc_addr(dv, ah, dctn, key);
}

static void wr_raw_wqe(struct mlx5dv_qp_ex *dv, const void *wqe)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	bool cross = shca_takes_cross(q);
	int err = q->wr_err;

	if (!err) {
		/* `cross` keeps the queues that the WQE names from being destroyed */
		if (cross)
			pthread_mutex_lock(&wr_context_of(q)->cross);
		err = shca_check_raw(q, wqe);
		if (cross)
			pthread_mutex_unlock(&wr_context_of(q)->cross);
	}
	if (err) {
		q->wr_err = err;
		q->wr_last = NULL;
		return;
	}
	struct shca_send *b = new_request(&q->ex, OP_RAW, 0, 0, 0);
	if (!b)
		return;
	memcpy(inline_of(q, b), wqe, shca_raw_bytes(wqe));
	/* a raw WQE is complete: setters must not change it */
	q->wr_last = NULL;
}

/* ---- requests that configure memory keys ------------------------------------------------------------------------------ */

/* Appends the request. conf->entry becomes the list's. */
static void umr_append(struct shca_user_qp *q, uint64_t id, unsigned int flags, struct mlx5dv_mkey *mkey,
		       struct shca_mkey_conf *conf)
{
	const uint64_t wr_id = q->ex.wr_id;
	const unsigned int wr_flags = q->ex.wr_flags;
	int err = 0;

	if (!(flags & IBV_SEND_INLINE))
		err = shca_refuse(EOPNOTSUPP,
				  "mlx5dv_wr_mr_list, _mr_interleaved, _mkey_configure on queue pair %#x: wr_flags %#x: entries "
				  "are read when the request is posted, so IBV_SEND_INLINE must be set",
				  q->qp.qp_num, flags);
	q->ex.wr_id = id;
	q->ex.wr_flags = flags;
	struct shca_send *b = err ? NULL : new_request(&q->ex, SHCA_OP_UMR, 0, 0, 0);
	q->ex.wr_id = wr_id;
	q->ex.wr_flags = wr_flags;
	if (b)
		err = shca_fill_mkey(q, container_of(mkey, struct shca_user_mr, dv), conf, &b->req, segs_of(b));
	if (!b || err)
		free(conf->entry);
	if (err && !q->wr_err)
		q->wr_err = err;
	/* complete: setters must not change it */
	q->wr_last = NULL;
}

static bool umr_entries(struct shca_user_qp *q, struct shca_mkey_conf *conf, uint32_t n, uint64_t repeat)
{
	free(conf->entry);
	conf->layout_set = true;
	conf->base = 0;
	conf->repeat = repeat;
	conf->n = n;
	conf->entry = calloc(n ? n : 1, sizeof(*conf->entry));
	if (!conf->entry && !q->wr_err)
		q->wr_err = shca_no_memory("mlx5dv_wr_mr_*");
	return conf->entry;
}

static bool umr_list(struct shca_user_qp *q, struct shca_mkey_conf *conf, uint16_t n, const struct ibv_sge *sge)
{
	if (!umr_entries(q, conf, n, 1))
		return false;
	for (uint32_t i = 0; i < n; i++)
		conf->entry[i] = (struct shca_mkey_entry){.addr = sge[i].addr, .len = sge[i].length, .lkey = sge[i].lkey};
	return true;
}

static bool umr_interleaved(struct shca_user_qp *q, struct shca_mkey_conf *conf, uint32_t repeat, uint16_t n,
			    const struct mlx5dv_mr_interleaved *data)
{
	if (!umr_entries(q, conf, n, repeat))
		return false;
	for (uint32_t i = 0; i < n; i++)
		conf->entry[i] = (struct shca_mkey_entry){.addr = data[i].addr, .len = data[i].bytes_count, .lkey = data[i].lkey,
							  .stride = (uint64_t)data[i].bytes_count + data[i].bytes_skip};
	return true;
}

static void wr_mr_list(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint32_t access, uint16_t n, struct ibv_sge *sge)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_mkey_conf conf = {.access_set = true, .access = access};

	if (umr_list(q, &conf, n, sge))
		umr_append(q, q->ex.wr_id, q->ex.wr_flags, mkey, &conf);
}

static void wr_mr_interleaved(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint32_t access, uint32_t repeat, uint16_t n,
			      struct mlx5dv_mr_interleaved *data)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_mkey_conf conf = {.access_set = true, .access = access};

	if (umr_interleaved(q, &conf, repeat, n, data))
		umr_append(q, q->ex.wr_id, q->ex.wr_flags, mkey, &conf);
}

static void wr_mkey_configure(struct mlx5dv_qp_ex *dv, struct mlx5dv_mkey *mkey, uint8_t setters,
			      struct mlx5dv_mkey_conf_attr *attr)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);

	q->wr_last = NULL;
	umr_check(q);
	if (q->wr_err)
		return;
	if (!setters || attr->comp_mask || (attr->conf_flags & ~(uint32_t)MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR)) {
		q->wr_err = shca_refuse(EOPNOTSUPP, "mlx5dv_wr_mkey_configure of key %#x: num_setters %u, conf_flags %#x, "
					"comp_mask %#lx: at least one setter, no flag but MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR "
					"(%#x), and comp_mask 0",
					mkey->lkey, setters, attr->conf_flags, (unsigned long)attr->comp_mask,
					MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR);
		return;
	}
	*q->umr = (struct shca_umr){.left = setters, .mkey = mkey, .wr_id = q->ex.wr_id, .wr_flags = q->ex.wr_flags};
}

/* Begins a setter. Returns the request that is being built; NULL: there is none. */
static struct shca_umr *umr_setter(struct shca_user_qp *q)
{
	if (q->umr->left)
		return q->umr;
	if (!q->wr_err)
		q->wr_err = shca_refuse(EINVAL,
					"mlx5dv_wr_set_mkey_* on queue pair %#x: no mlx5dv_wr_mkey_configure wants a setter; it "
					"comes first, with num_setters for all of its setters",
					q->qp.qp_num);
	return NULL;
}

static void umr_set(struct shca_user_qp *q)
{
	struct shca_umr *u = q->umr;

	if (--u->left)
		return;
	umr_append(q, u->wr_id, u->wr_flags, u->mkey, &u->conf);
	u->conf.entry = NULL;
}

static void wr_set_mkey_access_flags(struct mlx5dv_qp_ex *dv, uint32_t access)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_umr *u = umr_setter(q);

	if (!u)
		return;
	u->conf.access_set = true;
	u->conf.access = access;
	umr_set(q);
}

static void wr_set_mkey_layout_list(struct mlx5dv_qp_ex *dv, uint16_t n, const struct ibv_sge *sge)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_umr *u = umr_setter(q);

	if (u && umr_list(q, &u->conf, n, sge))
		umr_set(q);
}

static void wr_set_mkey_layout_interleaved(struct mlx5dv_qp_ex *dv, uint32_t repeat, uint16_t n,
					   const struct mlx5dv_mr_interleaved *data)
{
	struct shca_user_qp *q = container_of(dv, struct shca_user_qp, dv);
	struct shca_umr *u = umr_setter(q);

	if (u && umr_interleaved(q, &u->conf, repeat, n, data))
		umr_set(q);
}

#define UMR_OPS (MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE)

/* Fills in the calls that configure memory keys. Returns 0 or ENOMEM. */
static int umr_ops(struct shca_user_qp *q, uint64_t flags)
{
	q->umr = calloc(1, sizeof(*q->umr));
	if (!q->umr)
		return ENOMEM;	/* said: shca_qp_new */
	if (!q->takes_raw) {
		q->ex.wr_complete = umr_complete;
		q->ex.wr_abort = umr_abort;
	}
	if (flags & MLX5DV_QP_EX_WITH_MR_LIST)
		q->dv.wr_mr_list = wr_mr_list;
	if (flags & MLX5DV_QP_EX_WITH_MR_INTERLEAVED)
		q->dv.wr_mr_interleaved = wr_mr_interleaved;
	if (flags & MLX5DV_QP_EX_WITH_MKEY_CONFIGURE) {
		q->dv.wr_mkey_configure = wr_mkey_configure;
		q->dv.wr_set_mkey_access_flags = wr_set_mkey_access_flags;
		q->dv.wr_set_mkey_layout_list = wr_set_mkey_layout_list;
		q->dv.wr_set_mkey_layout_interleaved = wr_set_mkey_layout_interleaved;
	}
	return 0;
}

#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPS (UD_OPS | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV)
/* of queue pairs by which windows are bound */
#define WINDOW_OPS (IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW)
#define RC_OPS (UC_OPS | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

int shca_wr_ops(struct shca_user_qp *q, uint64_t ops, uint64_t dv_flags)
{
	struct ibv_qp_ex *ex = &q->ex;
	uint64_t can = q->type == IBV_QPT_UD ? UD_OPS : q->type == IBV_QPT_UC ? UC_OPS | WINDOW_OPS :
		       q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_SEND ? RC_OPS | WINDOW_OPS | IBV_QP_EX_WITH_ATOMIC_WRITE :
		       q->type == SHCA_QPT_DCI ? RC_OPS : q->type == IBV_QPT_RAW_PACKET ? IBV_QP_EX_WITH_SEND : 0;
	bool frames = q->type == IBV_QPT_RAW_PACKET;

	if ((ops & ~can) || (dv_flags & ~(uint64_t)(MLX5DV_QP_EX_WITH_RAW_WQE | UMR_OPS)) ||
	    (dv_flags && (!can || q->type == SHCA_QPT_DCI || frames)) || (dv_flags & UMR_OPS && q->type == IBV_QPT_UD))
		return EOPNOTSUPP;	/* said: shca_qp_new */
	/* libmlx5 has all calls of the type, asked for or not: rdma-core's test of remote invalidation asks for SEND alone */
	if (dv_flags)
		ops = can;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	q->takes_raw = dv_flags & MLX5DV_QP_EX_WITH_RAW_WQE;
	if (q->takes_raw) {
		ex->wr_start = raw_start;
		ex->wr_complete = raw_complete;
		ex->wr_abort = raw_abort;
		q->dv.wr_raw_wqe = wr_raw_wqe;
	}
	if (dv_flags & UMR_OPS && umr_ops(q, dv_flags))
		return ENOMEM;	/* said: shca_qp_new */
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = frames ? wr_send_frame : wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (ops & IBV_QP_EX_WITH_LOCAL_INV)
		ex->wr_local_inv = wr_local_inv;
	if (ops & IBV_QP_EX_WITH_BIND_MW)
		ex->wr_bind_mw = wr_bind_mw;
	if (ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (q->type == IBV_QPT_UD)
		ex->wr_set_ud_addr = wr_set_ud_addr;
	if (q->type == IBV_QPT_XRC_SEND)
		ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	if (q->type == SHCA_QPT_DCI) {
		q->dv.wr_set_dc_addr = wr_set_dc_addr;
		q->dv.wr_set_dc_addr_stream = wr_set_dc_addr_stream;
	}
	return 0;
}
