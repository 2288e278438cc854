/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting: ibv_post_send, ibv_post_recv, ibv_post_srq_recv.
 *
 * An ordinary queue is DIRECT: the request runs here, on the poster's stack, and no WQE is written. It turns SHARED
 * when a request cannot finish (no receive, no answer), and when the queue is cross-channel; then a WQE is written that
 * anyone may run. It turns DIRECT again when nothing is left.
 */
#include <errno.h>
#include <stdlib.h>

#include "shca.h"
#include "shca/verbs/control.h"
#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

#define MAX_DIRECT_SGE 32
/* Longer writes go the general way, which can divide the work. */
#define SHCA_FAST_WRITE_MAX (1u << 20)

static inline struct shca_user_qp *post_lqp_of(struct ibv_qp *qp)
{
	return (struct shca_user_qp *)qp;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Resolves a local segment. false: no such right; the request will complete with IBV_WC_LOC_PROT_ERR. ground, unless NULL: its
 * region, with the version, which is read before the key is found valid: it is counted up behind the key's end. */
static inline __attribute__((always_inline)) bool resolve_local(struct shca_member *m, uint32_t pd, const struct ibv_sge *sge,
								bool write, struct shca_seg *seg, struct shca_ground *ground)
{
	const struct shca_mr *mr = shca_mr_entry(m, sge->lkey >> 8);

	if (unlikely(!mr))
		return false;
	if (ground)
		*ground = (struct shca_ground){.index = sge->lkey >> 8,
					       .version = atomic_load_explicit(&mr->version, memory_order_acquire)};
	if (unlikely(!shca_opens(mr, sge->lkey, pd, write ? IBV_ACCESS_LOCAL_WRITE : 0)) || mr->proc != m->slot)
		return false;
	if (unlikely(!shca_region_at(m, mr, sge->addr, sge->length, seg)))
		return false;
	if (seg->lane != SHCA_LANE_ARENA && mr->access & SHCA_ACCESS_VOUCHED)
		seg->lane = SHCA_LANE_VOUCHED;
	return true;
}

uint8_t shca_resolve_list(struct shca_user_qp *q, const struct ibv_sge *list, int n, bool write, struct shca_seg *segs,
			  uint32_t *len)
{
	uint64_t total = 0;

	uint8_t bad = 0;

	for (int i = 0; i < n; i++) {
		/* a segment of no bytes names nothing: libmlx5 leaves it out */
		if (unlikely(!list[i].length))
			segs[i] = (struct shca_seg){.lane = SHCA_LANE_ARENA};
		else if (!resolve_local(q->m, q->pd_number, &list[i], write, &segs[i], NULL))
			bad = IBV_WC_LOC_PROT_ERR;
		total += list[i].length;
	}
	*len = total < UINT32_MAX ? (uint32_t)total : UINT32_MAX;
	return bad ? bad : total > 1u << 30 ? IBV_WC_LOC_LEN_ERR : 0;
}

/* Inline data needs no key: it is read here and now. */
static void inline_list(const struct ibv_sge *list, int n, struct shca_seg *segs, uint32_t *len)
{
	*len = 0;
	for (int i = 0; i < n; i++) {
		segs[i] = (struct shca_seg){.where = list[i].addr, .len = list[i].length, .lane = SHCA_LANE_CMA};
		*len += list[i].length;
	}
}

/* ---- send queue space ------------------------------------------------------------------------------------------ */

/* Positions below are free again: run, and, if signaled, polled. An executor elsewhere completes a request before it
 * moves head, so what was polled counts even if head is one behind; its slot is not reused before that, for there is one
 * slot more than requests. */
static uint64_t freed(struct shca_user_qp *q)
{
	uint64_t polled = atomic_load_explicit(&q->sh->polled, memory_order_acquire);
	uint64_t run = atomic_load_explicit(&q->sh->shared, memory_order_relaxed) ?
			       atomic_load_explicit(&q->sh->head, memory_order_acquire) : q->pi;
	uint64_t now = q->ignore_overflow || (polled >= q->signaled && run > polled) ? run : polled;

	/* what was free once is free, though a request posted since then may have to be polled first */
	return now > q->freed ? now : q->freed;
}

static inline bool full(struct shca_user_qp *q)
{
	if (likely(q->pi - q->freed < q->max_wr))
		return false;
	q->freed = freed(q);
	return q->pi - q->freed >= q->max_wr;
}

/* Takes the next position for a request that will complete. */
static inline uint64_t take_position(struct shca_user_qp *q, uint64_t wr_id, bool completes)
{
	uint64_t pos = q->pi;

	__atomic_store_n(&q->pi, pos + 1, __ATOMIC_RELAXED);	/* the poller looks at it */
	q->wr_id[pos & q->sq_mask] = wr_id;
	if (completes)
		q->signaled = q->pi;
	return pos;
}

/* ---- SHARED ----------------------------------------------------------------------------------------------------- */

static void to_shared(struct shca_user_qp *q)
{
	/* the positions that DIRECT used are behind us */
	atomic_store_explicit(&q->sh->head, q->pi, memory_order_relaxed);
	/* after head: see run_some in run.c */
	atomic_store_explicit(&q->sh->posted, q->pi, memory_order_release);
	atomic_store_explicit(&q->sh->shared, 1, memory_order_release);
}

/* ---- inline data that does not fit a WQE: a segment of the arena, until its slot is used again or all is done ------- */

void shca_longs_free(struct shca_user_qp *q)
{
	for (uint64_t i = 0; q->nlongs && i <= q->sq_mask; i++) {
		if (!q->longs[i].at)
			continue;
		shca_mem_free(q->m, q->longs[i].at, q->longs[i].bytes);
		q->longs[i].at = 0;
		q->nlongs--;
	}
}

/* Room for the inline data of the request that comes to position pos. 0: no memory. */
static shca_off long_at(struct shca_user_qp *q, uint64_t pos, uint32_t bytes)
{
	if (!q->longs)
		q->longs = calloc(q->sq_mask + 1, sizeof(*q->longs));
	if (!q->longs)
		return 0;
	struct shca_long *l = &q->longs[pos & q->sq_mask];
	if (l->at && l->bytes == bytes)
		return l->at;
	if (l->at) {
		shca_mem_free(q->m, l->at, l->bytes);
		q->nlongs--;
	}
	l->at = shca_mem_alloc(q->m, bytes);
	l->bytes = bytes;
	if (l->at)
		q->nlongs++;
	return l->at;
}

int shca_reserve_operands(struct shca_user_qp *q, uint64_t ahead, uint32_t bytes)
{
	return long_at(q, q->pi + ahead, bytes) ? 0 : shca_no_memory("post_send");
}

int shca_reserve_inline(struct shca_user_qp *q, uint64_t ahead, uint64_t bytes)
{
	if (bytes <= q->sh->sq_stride - sizeof(struct shca_wqe))
		return 0;
	return long_at(q, q->pi + ahead, (uint32_t)bytes) ? 0 : shca_no_memory("post_send");
}

/* Copies the inline data into the WQE, or beside it. false: no memory. */
static bool write_inline(struct shca_thread *thr, struct shca_user_qp *q, uint64_t pos, struct shca_wqe *w,
			 const struct shca_req *req)
{
	char *to = (char *)w->sge;

	w->nsge = 0;
	w->flags |= SHCA_WQE_INLINE;
	if (req->len > q->sh->sq_stride - sizeof(*w)) {
		shca_off at = long_at(q, pos, req->len);
		if (!at)
			return false;
		to = shca_at(thr->base, at);
		w->flags &= ~SHCA_WQE_INLINE;
		w->sge[0] = (struct shca_seg){.where = at, .len = req->len, .lane = SHCA_LANE_ARENA};
		w->nsge = 1;
	}
	for (uint32_t i = 0; i < req->nsge; i++) {
		memcpy(to, (const void *)(uintptr_t)req->sge[i].where, req->sge[i].len);
		to += req->sge[i].len;
	}
	return true;
}

/* Copies an atomic's operands, which lie where the caller says, to one segment of the arena. false: no memory. */
static bool write_operands(struct shca_thread *thr, struct shca_user_qp *q, uint64_t pos, struct shca_wqe *w,
			   const struct shca_req *req)
{
	uint32_t results = req->nsge - req->qkey, bytes = 0;

	for (uint32_t i = results; i < req->nsge; i++)
		bytes += req->sge[i].len;
	shca_off at = long_at(q, pos, bytes);
	if (!at)
		return false;
	memcpy(w->sge, req->sge, results * sizeof(*w->sge));
	w->sge[results] = (struct shca_seg){.where = at, .len = bytes, .lane = SHCA_LANE_ARENA};
	w->nsge = (uint8_t)(results + 1);
	w->qkey = 1;
	char *to = shca_at(thr->base, at);
	for (uint32_t i = results; i < req->nsge; i++) {
		memcpy(to, (const void *)(uintptr_t)req->sge[i].where, req->sge[i].len);
		to += req->sge[i].len;
	}
	return true;
}

/* Copies the request into the queue. Its journal, if it ran partly, stays valid: the position is the queue's head. 0 or
 * ENOMEM: it is not there. */
static int write_wqe(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, const struct shca_req *req)
{
	bool signaled = req->flags & SHCA_WQE_SIGNALED;
	if (unlikely(!q->sh->wqes) && shca_reserve_ring(q))
		return ENOMEM;	/* said: shca_mem_alloc */
	struct shca_wqe *w = shca_wqe_at(thr->base, q->sh, q->pi);

	w->op = req->op;
	w->flags = req->flags & ~(SHCA_WQE_INLINE | SHCA_WQE_OPERANDS_NOW);
	w->nsge = req->nsge;
	w->bad = req->bad;
	w->imm = req->imm;
	w->raddr = req->raddr;
	w->rkey = req->rkey;
	w->dqpn = req->dqpn;
	w->qkey = req->qkey;
	w->len = req->len;
	memcpy(w->arg, req->arg, sizeof(w->arg));
	if (unlikely(req->flags & SHCA_WQE_OPERANDS_NOW)) {
		if (!write_operands(thr, q, q->pi, w, req))
			return shca_no_memory("post_send");
	} else if (!(req->flags & SHCA_WQE_INLINE))
		memcpy(w->sge, req->sge, req->nsge * sizeof(*w->sge));
	else if (!write_inline(thr, q, q->pi, w, req))
		return shca_no_memory("post_send");
	uint64_t pos = take_position(q, wr_id, signaled);
	atomic_store_explicit(&q->sh->posted, pos + 1, memory_order_release);
	return 0;
}

/* The queue is runnable, for this thread's next drain or, where posts only queue, for its owner's helper thread. */
void shca_kick_later(struct shca_thread *thr, struct shca_user_qp *q)
{
	/* the kick reads the lock after the request is visible: pairs with the holder's release in run.c */
	shca_full_fence();
	/* in error there need not be a helper thread: who was never connected has none */
	if (unlikely(thr->m->behave & SHCA_BEHAVE_ASYNC) && !atomic_load(&q->sh->fail))
		shca_timer_add(thr->m, q->sh, monotonic_ns());
	else
		shca_kick(thr, q->off);
}

static void kick_posted(struct shca_thread *thr, struct shca_user_qp *q)
{
	shca_kick_later(thr, q);
	shca_drain(thr);
}

/* SHARED -> DIRECT: nothing is left, nobody runs it. */
static bool try_direct(struct shca_user_qp *q)
{
	if (q->shared_only)
		return false;
	if (atomic_load_explicit(&q->sh->head, memory_order_acquire) != atomic_load_explicit(&q->sh->posted, memory_order_relaxed) ||
	    atomic_load_explicit(&q->sh->lock, memory_order_acquire) & 3)
		return false;
	/* Behind the head: the last request may have failed since the caller looked, and a queue fails before its head moves. */
	if (unlikely(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) != 0))
		return false;
	if (unlikely(q->nlongs != 0))
		shca_longs_free(q);
	atomic_store_explicit(&q->sh->shared, 0, memory_order_relaxed);
	return true;
}

/*
 * The word is `shared`, and rests on this: only who posts to the queue stores there (and who brings it to SQD, ERR or RESET, under the
 * queue's lock). A request that DIRECT runs has been carried out, or makes the queue SHARED before its post returns: if it waits, if it
 * failed, and if it is flushed since the queue is in error. A SHARED queue becomes DIRECT where all that was posted has been run and the
 * queue has not failed, so was carried out. Whoever else makes it fail sets `fail`, which the next post looks at.
 */
int shca_query_unfinished(struct ibv_qp *qp, const uint32_t **word)
{
	const struct shca_user_qp *q = post_lqp_of(qp);
	bool late = q->sh->flags & (SHCA_QP_CROSS | SHCA_QP_MANAGED_SEND) || q->m->behave & SHCA_BEHAVE_ASYNC;

	if (late || (q->type != IBV_QPT_RC && q->type != IBV_QPT_XRC_SEND && q->type != SHCA_QPT_DCI))
		return shca_refuse(EOPNOTSUPP, "shca_unfinished: queue pair %#x of type %u %s", qp->qp_num, q->type,
				   late ? "carries out requests behind their post" : "promises nothing of the kind");
	*word = (const uint32_t *)&q->sh->shared;
	return 0;
}

/* ---- DIRECT ----------------------------------------------------------------------------------------------------- */

static int direct_failed(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, const struct shca_req *req, int status)
{
	if (status < 0) {
		/* it waits: anyone may finish it */
		uint32_t step = shca_step_of(q->sh);
		to_shared(q);
		shca_step_to(q->sh, step);
		if (write_wqe(thr, q, wr_id, req)) {
			/* refused: what it holds goes back */
			shca_release_receive(thr, q->sh);
			shca_step_to(q->sh, SHCA_STEP_NONE);
			return ENOMEM;	/* said: write_wqe */
		}
		kick_posted(thr, q);
		return 0;
	}
	uint64_t pos = take_position(q, wr_id, true);
	/* Who polls the error finds the queue in error. UD queues survive their requests' local errors only up to here: they go into
	 * SQE, which is error for us too. */
	shca_qp_failed(thr, q->sh, status);
	if (!shca_complete_send(thr, q->sh, pos, req->op, status, 0))
		shca_qp_event(thr, q->sh, IBV_EVENT_QP_FATAL);
	shca_step_to(q->sh, SHCA_STEP_NONE);
	SHCA_FAILPOINT(thr, "failed", q->sh, req->op);
	to_shared(q);
	kick_posted(thr, q);
	return 0;
}

static inline int run_direct(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, const struct shca_req *req)
{
	int status = shca_exec(thr, q->sh, req);
	if (unlikely(status != IBV_WC_SUCCESS))
		return direct_failed(thr, q, wr_id, req, status);
	shca_count_direct(q, req->len);
	if (req->flags & SHCA_WQE_SIGNALED)
		shca_complete_send(thr, q->sh, take_position(q, wr_id, true), shca_completes_as(req->flags, req->op), status,
				   req->len);
	/* nothing is running: the reaper must not take a step of long ago for one that was interrupted */
	shca_step_to(q->sh, SHCA_STEP_NONE);
	if (thr->todo_n)
		shca_drain(thr);
	return 0;
}

int shca_full(struct shca_user_qp *q, uint64_t n)
{
	return shca_refuse(ENOMEM, "post of %lu requests to queue pair %#x, which has room for %lu of the %u that it was made for; poll its "
			   "CQ (an unsignaled request is done when a later signaled one is)", (unsigned long)n, q->qp.qp_num,
			   (unsigned long)shca_send_room(q), q->max_wr);
}

/* Runs or queues one request. 0, or an errno value: refused. */
int shca_submit(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, struct shca_req *req)
{
	if (unlikely(!q->ready))
		return shca_refuse(EINVAL, "post to queue pair %#x: it is in state %d, and takes sends from RTS on (one that is SQD, SQE or in error, too)",
				   q->qp.qp_num, (int)shca_qp_state(q));
	if (unlikely(full(q)))
		return shca_full(q, 1);
	if (q->sq_sig_all)
		req->flags |= SHCA_WQE_SIGNALED;
	if (unlikely(q->no_reads) && req->op >= SHCA_OP_READ && req->op <= SHCA_OP_MASKED_FAA)
		req->bad = IBV_WC_LOC_QP_OP_ERR;
	if (unlikely(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) != 0)) {
		/* in error: it is flushed */
		req->flags |= SHCA_WQE_SIGNALED;
		if (!atomic_load_explicit(&q->sh->shared, memory_order_relaxed))
			to_shared(q);
		/* nobody will read it */
		req->flags &= ~(SHCA_WQE_INLINE | SHCA_WQE_OPERANDS_NOW);
		req->nsge = 0;
		int err = write_wqe(thr, q, wr_id, req);
		if (!err)
			kick_posted(thr, q);
		return err;
	}
	if (unlikely(q->shared_only || atomic_load_explicit(&q->sh->shared, memory_order_relaxed))) {
		SHCA_FAILPOINT(thr, "behind-others", q->sh, req->op);
		if (!try_direct(q)) {
			int err = write_wqe(thr, q, wr_id, req);
			if (!err && !q->defer_kick)
				kick_posted(thr, q);
			return err;
		}
	}
	return run_direct(thr, q, wr_id, req);
}

uint64_t shca_send_room(struct shca_user_qp *q)
{
	q->freed = freed(q);
	return q->max_wr - (q->pi - q->freed);
}

/* ---- plain writes (fast_write.h) -------------------------------------------------------------------------------------- */

#define MAX_PLAIN_SGE 4

static inline struct shca_dest dest_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr)
{
	uint32_t srqn = q->type == IBV_QPT_XRC_SEND ? wr->qp_type.xrc.remote_srqn : 0;

	return (struct shca_dest){.name = shca_rkey_cache_name(wr->wr.rdma.rkey, srqn), .addr = wr->wr.rdma.remote_addr};
}

/* Private memory may be gone: the kernel copies it, as one piece. Its length; 0: this is not plain, or it could not be read, which the
 * general way says. */
static __attribute__((noinline)) uint64_t fetch_private(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_send_wr *wr,
							struct shca_piece *piece)
{
	struct shca_seg seg[MAX_PLAIN_SGE];
	uint32_t len;

	if (shca_resolve_list(q, wr->sg_list, wr->num_sge, false, seg, &len) || !len || !shca_fast_write_open(thr, q, dest_of(q, wr), len))
		return 0;
	*piece = (struct shca_piece){shca_fetch(thr, seg, (uint32_t)wr->num_sge, len), len};
	return piece->at ? len : 0;
}

/* From registered memory, of many pieces, or signaled. */
static __attribute__((noinline)) bool write_gathered(struct shca_thread *thr, struct shca_user_qp *q,
						     const struct ibv_send_wr *wr)
{
	struct shca_piece piece[MAX_PLAIN_SGE];
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	uint64_t len = 0;
	int n = wr->num_sge;

	if (n < 1 || n > MAX_PLAIN_SGE)
		return false;
	for (int i = 0; i < n; i++) {
		struct shca_seg seg;
		len += wr->sg_list[i].length;
		piece[i].len = wr->sg_list[i].length;
		piece[i].at = (const void *)(uintptr_t)wr->sg_list[i].addr;
		if (is_inline)
			continue;
		if (!resolve_local(thr->m, q->pd_number, &wr->sg_list[i], false, &seg, NULL))
			return false;
		piece[i].at = seg.lane == SHCA_LANE_VOUCHED ? (const char *)(uintptr_t)seg.where : thr->base + seg.where;
		if (unlikely(seg.lane != SHCA_LANE_ARENA && seg.lane != SHCA_LANE_VOUCHED)) {
			len = fetch_private(thr, q, wr, piece);
			n = 1;
			break;
		}
	}
	if (!len || len > (is_inline ? q->max_inline : SHCA_FAST_WRITE_MAX))
		return false;
	bool signaled = wr->send_flags & IBV_SEND_SIGNALED;
	if (signaled && full(q))
		return false;
	if (!shca_fast_write(thr, q, dest_of(q, wr), piece, n, len, true))
		return false;
	if (signaled) {
		shca_complete_send(thr, q->sh, take_position(q, wr->wr_id, true), SHCA_OP_WRITE, IBV_WC_SUCCESS, (uint32_t)len);
		shca_step_to(q->sh, SHCA_STEP_NONE);
		if (thr->todo_n)
			shca_drain(thr);
	}
	return true;
}

/* The data of an inline write of one or two pieces, the first one empty where there is one. Its length; 0: it is neither. */
static inline __attribute__((always_inline)) uint64_t two_pieces(const struct ibv_send_wr *wr, struct shca_piece piece[2])
{
	const struct ibv_sge *sge = wr->sg_list;

	piece[0] = piece[1] = (struct shca_piece){NULL, 0};
	if (wr->num_sge == 2) {
		piece[0] = (struct shca_piece){(const void *)(uintptr_t)sge->addr, sge->length};
		sge++;
	} else if (wr->num_sge != 1) {
		return 0;
	}
	piece[1] = (struct shca_piece){(const void *)(uintptr_t)sge->addr, sge->length};
	return (uint64_t)piece[0].len + piece[1].len;
}

static inline __attribute__((always_inline)) bool write_two(struct shca_thread *thr, struct shca_user_qp *q,
							    const struct ibv_send_wr *wr)
{
	struct shca_piece piece[2];
	uint64_t len = two_pieces(wr, piece);

	return len - 1 < q->max_inline && shca_fast_write(thr, q, dest_of(q, wr), piece, 2, len, true);
}

/* false: not plain. Budget: what a small message costs, docs/style.md. */
static inline __attribute__((always_inline)) bool post_write_plain(struct shca_thread *thr, struct shca_user_qp *q,
							      const struct ibv_send_wr *wr)
{
	if (wr->opcode != IBV_WR_RDMA_WRITE || !shca_runs_fast_writes(q))
		return false;
	if (wr->send_flags != IBV_SEND_INLINE || (unsigned)wr->num_sge - 1 > 1)
		return write_gathered(thr, q, wr);
	if (wr->num_sge == 2)
		return write_two(thr, q, wr);
	const struct shca_piece all = {(const void *)(uintptr_t)wr->sg_list->addr, wr->sg_list->length};
	return all.len - 1 < q->max_inline && shca_fast_write(thr, q, dest_of(q, wr), &all, 1, all.len, true);
}

/* ---- ibv_post_send ---------------------------------------------------------------------------------------------- */

static const uint8_t op_of[] = {
	[IBV_WR_RDMA_WRITE] = SHCA_OP_WRITE + 1,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = SHCA_OP_WRITE_IMM + 1,
	[IBV_WR_SEND] = SHCA_OP_SEND + 1,
	[IBV_WR_SEND_WITH_IMM] = SHCA_OP_SEND_IMM + 1,
	[IBV_WR_RDMA_READ] = SHCA_OP_READ + 1,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = SHCA_OP_CAS + 1,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = SHCA_OP_FAA + 1,
	[IBV_WR_SEND_WITH_INV] = SHCA_OP_SEND_INV + 1,
};

bool shca_op_allowed(const struct shca_user_qp *q, uint8_t op)
{
	switch (q->type) {
	case IBV_QPT_UD:
		return op == SHCA_OP_SEND || op == SHCA_OP_SEND_IMM || op == SHCA_OP_NOP;
	case IBV_QPT_UC:
		return op <= SHCA_OP_WRITE_IMM || op == SHCA_OP_SEND_INV;
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
	case SHCA_QPT_DCI:
		return true;
	default:
		return false;
	}
}

static __attribute__((noinline, cold)) int too_short(const struct shca_req *req)
{
	return shca_refuse(EINVAL, "post_send: an atomic's result has 8 bytes, its segments have %u", req->len);
}

static int post_fill(struct shca_user_qp *q, const struct ibv_send_wr *wr, struct shca_req *req, struct shca_seg *segs)
{
	if (unlikely((unsigned)wr->opcode >= sizeof(op_of) || !op_of[wr->opcode] ||
		     !shca_op_allowed(q, op_of[wr->opcode] - 1)))
		return shca_refuse(EINVAL, "post_send: opcode %d on queue pair %#x of type %u", wr->opcode, q->qp.qp_num, q->type);
	if (unlikely((uint32_t)wr->num_sge > q->max_sge))
		return shca_refuse(EINVAL, "post_send: %d segments, queue pair %#x was made for %u", wr->num_sge, q->qp.qp_num, q->max_sge);
	req->op = op_of[wr->opcode] - 1;
	/* FENCE needs nothing here: a READ or atomic has its result before what is posted behind it runs */
	req->flags = (wr->send_flags & IBV_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0) |
		     (wr->send_flags & IBV_SEND_SOLICITED ? SHCA_WQE_SOLICITED : 0);
	req->nsge = (uint8_t)wr->num_sge;
	req->bad = 0;
	req->imm = wr->imm_data;
	req->inl = NULL;
	req->sge = segs;
	req->raddr = wr->wr.rdma.remote_addr;
	req->rkey = wr->wr.rdma.rkey;
	if (wr->send_flags & IBV_SEND_INLINE && (req->op <= SHCA_OP_WRITE_IMM || req->op == SHCA_OP_SEND_INV)) {
		if (wr->num_sge == 1) {
			req->len = wr->sg_list[0].length;
			req->inl = (const void *)(uintptr_t)wr->sg_list[0].addr;
			segs[0] = (struct shca_seg){.where = wr->sg_list[0].addr, .len = req->len, .lane = SHCA_LANE_CMA};
		} else {
			inline_list(wr->sg_list, wr->num_sge, segs, &req->len);
		}
		if (unlikely(req->len > q->max_inline))
			return shca_refuse(EINVAL, "post_send: %u bytes inline, queue pair %#x was made for %u", req->len, q->qp.qp_num,
					   q->max_inline);
		req->flags |= SHCA_WQE_INLINE;
	} else {
		bool write = req->op >= SHCA_OP_READ && req->op <= SHCA_OP_MASKED_FAA;
		req->bad = shca_resolve_list(q, wr->sg_list, wr->num_sge, write, segs, &req->len);
	}
	if (likely(q->type == IBV_QPT_RC)) {
		if (req->op == SHCA_OP_CAS || req->op == SHCA_OP_FAA) {
			req->raddr = wr->wr.atomic.remote_addr;
			req->rkey = wr->wr.atomic.rkey;
			req->arg[0] = wr->wr.atomic.compare_add;
			req->arg[1] = wr->wr.atomic.swap;
			if (req->len < 8)
				return too_short(req);
		}
		return 0;
	}
	if (q->type == IBV_QPT_UD) {
		const struct shca_user_ah *ah = (const struct shca_user_ah *)wr->wr.ud.ah;
		if (!ah)
			return shca_refuse(EINVAL, "post_send: a UD request without address handle");
		shca_set_ud_address(req, ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
		return 0;
	}
	if (q->type == IBV_QPT_XRC_SEND)
		req->dqpn = wr->qp_type.xrc.remote_srqn;
	else if (q->type == SHCA_QPT_DCI)
		return shca_refuse(EINVAL, "post_send on a DC initiator: only mlx5dv_wr_set_dc_addr names a target");
	if (req->op == SHCA_OP_CAS || req->op == SHCA_OP_FAA) {
		req->raddr = wr->wr.atomic.remote_addr;
		req->rkey = wr->wr.atomic.rkey;
		req->arg[0] = wr->wr.atomic.compare_add;
		req->arg[1] = wr->wr.atomic.swap;
		if (req->len < 8)
			return too_short(req);
	}
	return 0;
}

/* The rest of a list whose first request was found not to be plain. */
static __attribute__((noinline)) int post_list(struct shca_thread *thr, struct shca_user_qp *q, struct ibv_send_wr *wr,
					       struct ibv_send_wr **bad)
{
	struct shca_seg segs[MAX_DIRECT_SGE];

	do {
		struct shca_req req;
		int rc = post_fill(q, wr, &req, segs);
		if (!rc)
			rc = shca_submit(thr, q, wr->wr_id, &req);
		if (unlikely(rc)) {
			*bad = wr;
			return rc;
		}
		do
			wr = wr->next;
		while (wr && post_write_plain(thr, q, wr));
	} while (wr);
	return 0;
}

__attribute__((noinline)) int shca_post_any(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_thread *thr = shca_thread_get(q->m);

	if (unlikely(!thr)) {
		*bad = wr;
		return shca_no_memory("post_send");
	}
	shca_lock(&q->lock);
	shca_enter_in(thr, shca_epoch_has_peer(q->sh));
	while (wr && post_write_plain(thr, q, wr))
		wr = wr->next;
	int rc = wr ? post_list(thr, q, wr, bad) : 0;
	shca_leave(thr);
	shca_unlock(&q->lock);
	return rc;
}

/* The rest of shca_post_send for data of more than a line, which takes calls, and for queues that threads share. */
static __attribute__((noinline)) int post_longer(struct shca_thread *thr, struct shca_user_qp *q, struct ibv_send_wr *wr,
						 struct ibv_send_wr **bad)
{
	struct shca_piece piece[2];
	uint64_t len = two_pieces(wr, piece);

	shca_lock(&q->lock);
	/* again, under the lock: another thread's request may have to be waited for */
	bool done = len - 1 < q->max_inline && shca_runs_fast_writes(q) &&
		    shca_fast_write(thr, q, dest_of(q, wr), piece, 2, len, false);
	shca_unlock(&q->lock);
	return done ? 0 : shca_post_any(q, wr, bad);
}

/*
 * The hottest path of the device: one inline write, of one or two short pieces, to a window that is remembered, by a thread that
 * is outside of the engine. Without a lock it calls nothing; whatever else turns up is shca_post_any's.
 */
int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_user_qp *q = post_lqp_of(qp);

	if (unlikely(!wr || wr->next || wr->opcode != IBV_WR_RDMA_WRITE || wr->send_flags != IBV_SEND_INLINE ||
		     shca_tls.id != q->m->id || !shca_tls.id || !shca_runs_fast_writes(q)))
		return q->type == IBV_QPT_UD ? shca_post_datagram(q, wr, bad) : shca_post_any(q, wr, bad);
	if (!q->lock.none)
		return post_longer(shca_tls.thr, q, wr, bad);
	struct shca_piece piece[2];
	uint64_t len = two_pieces(wr, piece);
	if (len - 1 >= q->max_inline)
		return shca_post_any(q, wr, bad);
	if (piece[0].len > SHCA_LINE || piece[1].len > SHCA_LINE)
		return post_longer(shca_tls.thr, q, wr, bad);
	return shca_fast_write(shca_tls.thr, q, dest_of(q, wr), piece, 2, len, false) ? 0 : shca_post_any(q, wr, bad);
}

/* ---- receives ---------------------------------------------------------------------------------------------------- */

int shca_user_rq_init(struct shca_member *m, struct shca_user_rq *rq, uint32_t max_wr, uint32_t max_sge)
{
	uint32_t size = 1, log2 = 0;

	while (size < max_wr) {
		size *= 2;
		log2++;
	}
	memset(rq, 0, sizeof(*rq));
	rq->off = shca_mem_alloc(m, sizeof(struct shca_rq));
	if (!rq->off)
		return -ENOMEM;	/* said: shca_mem_alloc */
	rq->size = size;
	rq->max_sge = max_sge;
	rq->sh = shca_at(m->base, rq->off);
	rq->sh->log2 = log2;
	rq->sh->stride = (uint32_t)(sizeof(struct shca_rwqe) + max_sge * (sizeof(struct shca_seg) + sizeof(struct shca_ground)) + 63) & ~63u;
	rq->sh->ring = rq->off + offsetof(struct shca_rq, none);	/* of 2^0 entries: a multiple of a line */
	rq->sh->proc = m->slot;
	/* positions begin at the size: a zeroed ring is a lap behind */
	atomic_store(&rq->sh->head, size);
	atomic_store(&rq->sh->tail, size);
	atomic_store(&rq->sh->enabled, size);
	rq->enabled = (struct shca_index){size, size};
	rq->fifo_tail = size;
	return 0;
}

int shca_user_rq_reserve(struct shca_member *m, struct shca_user_rq *rq)
{
	struct shca_rq *sh = rq->sh;
	uint32_t size = rq->size;

	if (sh->wqes)
		return 0;
	shca_off ring = shca_mem_alloc(m, size * sizeof(uint64_t)), marks = shca_mem_alloc(m, size * sizeof(uint64_t));
	shca_off wqes = shca_mem_alloc(m, (uint64_t)size * sh->stride);
	rq->wr_id = calloc(size, sizeof(*rq->wr_id));
	rq->fifo = calloc(size, sizeof(*rq->fifo));
	if (!ring || !marks || !wqes || !rq->wr_id || !rq->fifo) {
		shca_mem_free(m, ring, size * sizeof(uint64_t));
		shca_mem_free(m, marks, size * sizeof(uint64_t));
		shca_mem_free(m, wqes, (uint64_t)size * sh->stride);
		free(rq->wr_id);
		free(rq->fifo);
		rq->wr_id = NULL;
		rq->fifo = NULL;
		return -ENOMEM;	/* said: who asks for it */
	}
	for (uint32_t i = 0; i < size; i++)
		rq->fifo[i] = i;
	rq->marks = shca_at(m->base, marks);
	shca_off end = wqes + (uint64_t)size * sh->stride, bytes = size * sizeof(uint64_t);
	end = end > ring + bytes ? end : ring + bytes;
	end = end > marks + bytes ? end : marks + bytes;
	/* a message may look at them before there is a ring */
	__atomic_store_n(&sh->marks, marks, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->wqes, wqes, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->end, end, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->seal, shca_rq_seal(m, sh, ring | sh->log2), __ATOMIC_RELAXED);
	/* takers find the rest by the ring; and those that remember it (datagram.c) look again */
	atomic_store_explicit(&sh->ring, ring | sh->log2, memory_order_release);
	shca_revoke(m, m->slot);
	return 0;
}

void shca_user_rq_free(struct shca_member *m, struct shca_user_rq *rq)
{
	if (!rq->off)
		return;
	if (rq->sh->wqes) {
		shca_mem_free(m, rq->sh->ring & ~(uint64_t)63, rq->size * sizeof(uint64_t));
		shca_mem_free(m, rq->sh->marks, rq->size * sizeof(uint64_t));
		shca_mem_free(m, rq->sh->wqes, (uint64_t)rq->size * rq->sh->stride);
	}
	shca_mem_free(m, rq->off, sizeof(struct shca_rq));
	free(rq->wr_id);
	free(rq->fifo);
	memset(rq, 0, sizeof(*rq));
}

/* The caller holds rq->lock. */
static void repost(struct shca_thread *thr, struct shca_user_rq *rq)
{
	if (atomic_exchange(&rq->sh->returned, 0) && rq->wr_id)
		for (uint32_t i = 0; i < rq->size; i++)
			if (shca_rq_reclaim(thr, rq->sh, i))
				shca_rq_post(thr, rq->sh, i);
}

void shca_user_rq_repost(struct shca_thread *thr, struct shca_user_rq *rq)
{
	shca_lock(&rq->lock);
	repost(thr, rq);
	shca_unlock(&rq->lock);
	shca_rq_notice_posted(thr, rq->sh);
}

/* Segments of no length are left out. */
static inline void fill_receive(struct shca_member *m, uint32_t pd, const struct ibv_recv_wr *wr, struct shca_rwqe *w,
				uint32_t stride)
{
	uint8_t n = 0;

	/* before the regions are looked up: a revocation from here on leaves an older value here */
	w->revoke_epoch = atomic_load_explicit(&m->proc->revoke_epoch, memory_order_acquire);
	w->bad = 0;
	for (int i = 0; i < wr->num_sge; i++) {
		if (!wr->sg_list[i].length)
			continue;
		if (unlikely(!resolve_local(m, pd, &wr->sg_list[i], true, &w->sge[n], shca_rwqe_ground(w, stride, n)))) {
			/* it is an error of the message that comes, not of the post (IBTA 11.6.2) */
			w->bad = IBV_WC_LOC_PROT_ERR;
			break;
		}
		n++;
	}
	w->nsge = n;
}

static inline __attribute__((always_inline)) int receives_post(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t pd,
							       struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (unlikely(!rq->wr_id) && shca_user_rq_reserve(thr->m, rq)) {
		*bad = wr;
		return shca_no_memory("post_recv");
	}
	if (unlikely(atomic_load_explicit(&rq->sh->returned, memory_order_relaxed) != 0))
		repost(thr, rq);
	for (; wr; wr = wr->next) {
		int rc = 0;
		if (unlikely((uint32_t)wr->num_sge > rq->max_sge))
			rc = shca_refuse(EINVAL, "post_recv: %d segments, the queue was made for %u", wr->num_sge, rq->max_sge);
		else if (unlikely(rq->fifo_tail - rq->fifo_head <= rq->size - rq->max_wr))
			rc = shca_refuse(ENOMEM, "post_recv: all %u receives that the queue was made for are posted", rq->max_wr);
		if (unlikely(rc)) {
			*bad = wr;
			return rc;
		}
		uint32_t index = rq->fifo[rq->fifo_head & (rq->size - 1)];
		struct shca_rwqe *w = shca_rwqe_at(thr, rq->sh, index);
		fill_receive(thr->m, pd, wr, w, rq->sh->stride);
		rq->wr_id[index] = wr->wr_id;
		rq->fifo_head++;
		shca_rq_post(thr, rq->sh, index);
	}
	return 0;
}

int shca_receives_post(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t pd, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	return receives_post(thr, rq, pd, wr, bad);
}

static int post_receives(struct shca_member *m, struct shca_user_rq *rq, uint32_t pd, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct shca_thread *thr = shca_thread_get(m);

	if (unlikely(!thr)) {
		*bad = wr;
		return shca_no_memory("post_recv");
	}
	shca_enter_in(thr, shca_epoch_of(m->slot));
	shca_lock(&rq->lock);
	int rc = receives_post(thr, rq, pd, wr, bad);
	shca_unlock(&rq->lock);
	shca_drain(thr);
	shca_leave(thr);
	return rc;
}

int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shca_user_qp *q = post_lqp_of(qp);

	if (unlikely(!shca_takes_receives(q))) {
		*bad = wr;
		return shca_refuse(EINVAL, "post_recv to queue pair %#x: %s", q->qp.qp_num, shca_no_receives(q));
	}
	int rc = post_receives(q->m, q->rq, q->pd_number, wr, bad);
	if (shca_flushes(q->sh)) {
		struct shca_thread *thr = shca_thread_get(q->m);
		shca_enter(thr);
		kick_posted(thr, q);
		shca_leave(thr);
	}
	return rc;
}

int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct shca_user_srq *s = (struct shca_user_srq *)srq;

	return post_receives(s->pd->m, &s->rq, s->pd->number, wr, bad);
}
