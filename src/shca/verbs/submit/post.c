/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of ibv_post_send, and shca_submit, through which every form of posting enters a send queue.
 *
 * An ordinary queue is DIRECT: shca_submit runs the request on the poster's stack and writes no WQE. The queue turns SHARED when
 * a request cannot finish (no receive, no answer); a cross-channel queue is SHARED from the beginning. Of a SHARED queue the
 * WQEs may be run by any thread of the fabric. It turns DIRECT again when all posted requests have been run (try_direct).
 */
#include <errno.h>
#include <stdlib.h>

#include "shca.h"
#include "shca/verbs/control.h"
#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

/* Longer writes go the general way, which can divide the work. */
#define SHCA_FAST_WRITE_MAX (1u << 20)

static inline struct shca_user_qp *post_lqp_of(struct ibv_qp *qp)
{
	return (struct shca_user_qp *)qp;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

uint8_t shca_resolve_list(const struct shca_user_qp *q, const struct ibv_sge *list, int n, bool write, struct shca_seg *segs,
			  uint32_t *len)
{
	uint64_t total = 0;

	uint8_t bad = 0;

	for (int i = 0; i < n; i++) {
		/* an empty segment is skipped, with any address and key, as in libmlx5 */
		if (unlikely(!list[i].length))
			segs[i] = (struct shca_seg){.lane = SHCA_LANE_ARENA};
		else if (unlikely(!shca_resolve_local(q->m, q->pd_number, &list[i], write, &segs[i], NULL))) {
			segs[i] = shca_mkey_seg(&list[i]);
			bad = SHCA_BAD_KEYS;
		}
		total += list[i].length;
	}
	*len = total < UINT32_MAX ? (uint32_t)total : UINT32_MAX;
	return bad ? bad : total > 1u << 30 ? IBV_WC_LOC_LEN_ERR : 0;
}

/* ---- send queue space ------------------------------------------------------------------------------------------ */

/* Returns the position below which the slots are free: their requests have run and, if signaled, were polled. A remote executor
 * completes a request before head moves, so a polled request counts even if head is one behind. The executor's slot is not
 * reused before head has moved: the ring has one slot more than requests. */
static uint64_t freed(struct shca_user_qp *q)
{
	uint64_t polled = atomic_load_explicit(&q->sh->polled, memory_order_acquire);
	uint64_t run = atomic_load_explicit(&q->sh->shared, memory_order_relaxed) ?
			       atomic_load_explicit(&q->sh->head, memory_order_acquire) : q->pi;
	uint64_t now = q->ignore_overflow || (polled >= q->signaled && run > polled) ? run : polled;

	/* a slot that was free once stays free, though a later request may have to be polled first */
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

	__atomic_store_n(&q->pi, pos + 1, __ATOMIC_RELAXED);	/* read by decode_send without a lock */
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

/* Copies the inline data of the request into the WQE, or into a block beside the WQE. false: no memory. */
static bool write_inline(struct shca_thread *thr, struct shca_user_qp *q, uint64_t pos, struct shca_wqe *w,
			 const struct shca_req *req)
{
	char *to = (char *)w->sge;

	w->nsge = 0;
	w->flags |= SHCA_WQE_INLINE;
	if (req->len > q->sh->sq_stride - sizeof(*w)) {
		shca_off at = shca_long_at(q, pos, req->len);
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
	shca_off at = shca_long_at(q, pos, bytes);
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

/* Copies the request into the queue's next WQE. The journal of a request that ran partly stays valid: the position is the
 * queue's head. Returns 0, or ENOMEM: no request was posted. */
static int write_wqe(struct shca_thread *thr, struct shca_user_qp *q, const struct shca_send *send)
{
	const struct shca_req *req = &send->req;
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
	} else if (!(req->flags & SHCA_WQE_INLINE)) {
		for (uint32_t i = 0; i < req->nsge; i++)
			w->sge[i] = req->sge[i];
	} else if (!write_inline(thr, q, q->pi, w, req)) {
		return shca_no_memory("post_send");
	}
	uint64_t pos = take_position(q, send->wr_id, signaled);
	atomic_store_explicit(&q->sh->posted, pos + 1, memory_order_release);
	return 0;
}

/* SHARED -> DIRECT. false: requests are left, or an executor holds the queue. */
static bool try_direct(struct shca_user_qp *q)
{
	if (q->shared_only)
		return false;
	if (atomic_load_explicit(&q->sh->head, memory_order_acquire) !=
		    atomic_load_explicit(&q->sh->posted, memory_order_relaxed) ||
	    atomic_load_explicit(&q->sh->lock, memory_order_acquire) & 3)
		return false;
	/* behind the load of head: the last request may have failed since then, and a queue fails before its head moves */
	if (unlikely(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) != 0))
		return false;
	if (unlikely(q->nlongs != 0))
		shca_longs_free(q);
	atomic_store_explicit(&q->sh->shared, 0, memory_order_relaxed);
	return true;
}

/*
 * *word is `shared`: 0 means that all posted requests have been carried out.
 *
 * Only the queue's poster stores there, and modify (SQD, ERR, RESET) under the queue's lock. A request that DIRECT runs either
 * has been carried out, or turns the queue SHARED before its post returns: when the request waits, fails, or is flushed by a
 * queue in error. A SHARED queue turns DIRECT only when every posted request has run and the queue has not failed, so all were
 * carried out. Any other process that fails the queue sets `fail`, which the next post reads.
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

static int direct_failed(struct shca_thread *thr, struct shca_user_qp *q, const struct shca_send *send, int status)
{
	const struct shca_req *req = &send->req;

	if (status < 0) {
		/* the request waits: any thread may finish it */
		uint32_t step = shca_step_of(q->sh);
		to_shared(q);
		shca_step_to(q->sh, step);
		if (write_wqe(thr, q, send)) {
			/* refused: the receive that the request holds goes back */
			shca_release_receive(thr, q->sh);
			shca_step_to(q->sh, SHCA_STEP_NONE);
			return ENOMEM;	/* said: write_wqe */
		}
		shca_kick_posted(thr, q);
		return 0;
	}
	uint64_t pos = take_position(q, send->wr_id, true);
	/* Before the completion appears: a program that polls the error must find the queue in error. A UD queue goes into SQE
	 * by a local error, which is the error state here, too. */
	shca_qp_failed(thr, q->sh, status);
	if (!shca_complete_send(thr, q->sh, pos, req->op, status, 0))
		shca_qp_event(thr, q->sh, IBV_EVENT_QP_FATAL);
	shca_step_to(q->sh, SHCA_STEP_NONE);
	SHCA_FAILPOINT(thr, "failed", q->sh, req->op);
	to_shared(q);
	shca_kick_posted(thr, q);
	return 0;
}

static inline int run_direct(struct shca_thread *thr, struct shca_user_qp *q, const struct shca_send *send)
{
	const struct shca_req *req = &send->req;
	int status = shca_exec(thr, q->sh, req);
	if (unlikely(status != IBV_WC_SUCCESS))
		return direct_failed(thr, q, send, status);
	shca_count_direct(q, req->len);
	if (req->flags & SHCA_WQE_SIGNALED)
		shca_complete_send(thr, q->sh, take_position(q, send->wr_id, true), shca_completes_as(req->flags, req->op),
				   status, req->len);
	/* nothing is running: the reaper must not take a step of long ago for one that was interrupted */
	shca_step_to(q->sh, SHCA_STEP_NONE);
	if (thr->todo_n)
		shca_drain(thr);
	return 0;
}

int shca_full(struct shca_user_qp *q, uint64_t n)
{
	return shca_refuse(ENOMEM,
			   "post of %lu requests to queue pair %#x, which has room for %lu; max_send_wr is %u. Poll the queue's "
			   "CQ (an unsignaled request frees its place when a later signaled one is polled)",
			   (unsigned long)n, q->qp.qp_num, (unsigned long)shca_send_room(q), q->max_wr);
}

/* Runs or queues one request. 0, or an errno value: refused. */
int shca_submit(struct shca_thread *thr, struct shca_user_qp *q, struct shca_send *send)
{
	struct shca_req *req = &send->req;

	if (unlikely(!q->ready))
		return shca_refuse(
			EINVAL,
			"post to queue pair %#x in state %d: a queue pair takes sends from RTS on (in SQD, SQE and ERR, too)",
			q->qp.qp_num, (int)shca_qp_state(q));
	if (unlikely(full(q)))
		return shca_full(q, 1);
	if (q->sq_sig_all)
		req->flags |= SHCA_WQE_SIGNALED;
	if (unlikely(q->no_reads) && req->op >= SHCA_OP_READ && req->op <= SHCA_OP_ATOMIC_WRITE)
		req->bad = IBV_WC_LOC_QP_OP_ERR;
	if (unlikely(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) != 0)) {
		/* in error: the request is flushed */
		req->flags |= SHCA_WQE_SIGNALED;
		if (!atomic_load_explicit(&q->sh->shared, memory_order_relaxed))
			to_shared(q);
		/* a flushed request's data is never read */
		req->flags &= ~(SHCA_WQE_INLINE | SHCA_WQE_OPERANDS_NOW);
		req->nsge = 0;
		int err = write_wqe(thr, q, send);
		if (!err)
			shca_kick_posted(thr, q);
		return err;
	}
	if (unlikely(q->shared_only || atomic_load_explicit(&q->sh->shared, memory_order_relaxed))) {
		SHCA_FAILPOINT(thr, "behind-others", q->sh, req->op);
		if (!try_direct(q)) {
			int err = write_wqe(thr, q, send);
			if (!err && !q->defer_kick)
				shca_kick_posted(thr, q);
			return err;
		}
	}
	return run_direct(thr, q, send);
}

uint64_t shca_send_room(struct shca_user_qp *q)
{
	q->freed = freed(q);
	return q->max_wr - (q->pi - q->freed);
}

/* ---- fast writes (fast_write.h) of ibv_post_send ------------------------------------------------------------------------ */

#define MAX_GATHERED_SGE 4

/* Copies the segments, private memory of this process, into a buffer of the thread, as one piece. The kernel copies, since the
 * memory may have been unmapped. Returns the bytes; 0: no fast write is possible, or the memory cannot be read, which
 * shca_submit finds again and completes with the error. */
static __attribute__((noinline)) uint64_t fetch_private(struct shca_thread *thr, struct shca_user_qp *q,
							const struct ibv_send_wr *wr, struct shca_piece *piece)
{
	struct shca_seg seg[MAX_GATHERED_SGE];
	uint32_t len;

	if (shca_resolve_list(q, wr->sg_list, wr->num_sge, false, seg, &len) || !len ||
	    !shca_fast_write_open(thr, q, shca_dest_of(q, wr), len))
		return 0;
	*piece = (struct shca_piece){shca_fetch(thr, seg, (uint32_t)wr->num_sge, len), len};
	return piece->at ? len : 0;
}

/* A fast write from registered memory, of up to four segments, or signaled. false: nothing has happened, the request goes to
 * shca_submit. */
static __attribute__((noinline)) bool write_gathered(struct shca_thread *thr, struct shca_user_qp *q,
						     const struct ibv_send_wr *wr)
{
	struct shca_piece piece[MAX_GATHERED_SGE];
	bool is_inline = wr->send_flags & IBV_SEND_INLINE, done = false;
	uint64_t len = 0;
	int n = wr->num_sge;

	if (n < 1 || n > MAX_GATHERED_SGE)
		goto out;
	for (int i = 0; i < n; i++) {
		struct shca_seg seg;
		len += wr->sg_list[i].length;
		piece[i].len = wr->sg_list[i].length;
		piece[i].at = (const void *)(uintptr_t)wr->sg_list[i].addr;
		if (is_inline)
			continue;
		if (!shca_resolve_local(thr->m, q->pd_number, &wr->sg_list[i], false, &seg, NULL))
			goto out;
		piece[i].at = seg.lane == SHCA_LANE_VOUCHED ? (const char *)(uintptr_t)seg.where : thr->base + seg.where;
		if (unlikely(seg.lane != SHCA_LANE_ARENA && seg.lane != SHCA_LANE_VOUCHED)) {
			len = fetch_private(thr, q, wr, piece);
			n = 1;
			break;
		}
	}
	if (!len || len > (is_inline ? q->max_inline : SHCA_FAST_WRITE_MAX))
		goto out;
	bool signaled = wr->send_flags & IBV_SEND_SIGNALED;
	if (signaled && full(q))
		goto out;
	done = shca_fast_write(thr, q, shca_dest_of(q, wr), piece, n, len, true);
	if (done && signaled) {
		shca_complete_send(thr, q->sh, take_position(q, wr->wr_id, true), SHCA_OP_WRITE, IBV_WC_SUCCESS, (uint32_t)len);
		shca_step_to(q->sh, SHCA_STEP_NONE);
		if (thr->todo_n)
			shca_drain(thr);
	}
out:
	return done;
}

/* Tries a fast write: the one place of ibv_post_send's lists. false: as write_gathered. Must be called inside the engine, with
 * q's lock. Budget: a small message's, docs/style.md. */
static inline __attribute__((always_inline)) bool try_fast_write(struct shca_thread *thr, struct shca_user_qp *q,
							    const struct ibv_send_wr *wr)
{
	struct shca_piece piece[2];

	if (wr->opcode != IBV_WR_RDMA_WRITE || !shca_runs_fast_writes(q))
		return false;
	if (wr->send_flags != IBV_SEND_INLINE || (wr->num_sge != 1 && wr->num_sge != 2))
		return write_gathered(thr, q, wr);
	uint64_t len = shca_inline_pieces(wr, piece);
	return len - 1 < q->max_inline &&
	       (wr->num_sge == 1 ? shca_fast_write(thr, q, shca_dest_of(q, wr), &piece[1], 1, len, true) :
				   shca_fast_write(thr, q, shca_dest_of(q, wr), piece, 2, len, true));
}

/* ---- refusals that all forms of posting share --------------------------------------------------------------------------- */

bool shca_op_allowed(const struct shca_user_qp *q, uint8_t op)
{
	switch (q->type) {
	case IBV_QPT_UD:
		return op == SHCA_OP_SEND || op == SHCA_OP_SEND_IMM || op == SHCA_OP_NOP;
	case IBV_QPT_UC:
		return op <= SHCA_OP_WRITE_IMM || op >= SHCA_OP_SEND_INV;
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return true;
	case SHCA_QPT_DCI:
		return op <= SHCA_OP_NOP && op != SHCA_OP_ATOMIC_WRITE;
	default:
		return false;
	}
}

__attribute__((noinline, cold)) int shca_send_refused(const struct shca_user_qp *q, const char *call, const struct shca_ask *a)
{
	bool frame = q->type == IBV_QPT_RAW_PACKET && a->op == SHCA_OP_SEND;

	if (!frame && (a->op < 0 || !shca_op_allowed(q, (uint8_t)a->op)))
		shca_refuse(EINVAL, "%s: opcode %d on queue pair %#x of type %u", call, a->opcode, q->qp.qp_num, q->type);
	else if (a->segments > q->max_sge)
		shca_refuse(EINVAL, "%s: %lu segments, queue pair %#x was made for %u", call, (unsigned long)a->segments,
			    q->qp.qp_num, q->max_sge);
	else if (a->inline_bytes > q->max_inline)
		shca_refuse(EINVAL, "%s: %lu bytes inline, queue pair %#x was made for %u", call, (unsigned long)a->inline_bytes,
			    q->qp.qp_num, q->max_inline);
	else if (q->type == IBV_QPT_UD)
		shca_refuse(EINVAL, "%s: a UD request without address handle", call);
	else if (q->type == SHCA_QPT_DCI)
		shca_refuse(EINVAL, "%s: a request of DC initiator %#x names no target (dc.ah; or mlx5dv_wr_set_dc_addr)", call,
			    q->qp.qp_num);
	else
		shca_refuse(EINVAL, "%s: the result of an atomic has 8 bytes, the segments have %u", call, a->result_bytes);
	return EINVAL;	/* said: above */
}

/* ---- memory windows ------------------------------------------------------------------------------------------------------ */

int shca_fill_bind(const struct shca_user_qp *q, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
		   struct shca_req *req)
{
	/* local write says nothing of a window, but programs ask for it as they do for a region */
	const uint32_t rights =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const struct ibv_mr *mr = info->mr;

	if (!mw || mw->context != q->qp.context || (mr && mr->context != q->qp.context))
		return shca_refuse(EINVAL, "bind of memory window %p to region %p: both have to be of the queue pair's context",
				   (const void *)mw, (const void *)mr);
	if ((rkey ^ mw->rkey) >> 8)
		return shca_refuse(
			EINVAL,
			"bind of a memory window: R_Key %#x, only the last 8 bits of the window's (%#x) are the program's to "
			"choose",
			rkey, mw->rkey);
	if (info->mw_access_flags & ~(rights | (mw->type == IBV_MW_TYPE_2 ? IBV_ACCESS_ZERO_BASED : 0)))
		return shca_refuse(EINVAL, "bind of a memory window of type %d: access %#x: remote write, read and atomic%s",
				   mw->type, info->mw_access_flags, mw->type == IBV_MW_TYPE_2 ? ", zero-based" : "");
	if (!mr && (info->addr || info->length))
		return shca_refuse(EINVAL, "bind of a memory window: %lu bytes of no region", (unsigned long)info->length);
	req->rkey = rkey;
	req->dqpn = mw->rkey >> 8;
	req->imm = mr ? mr->lkey : 0;
	req->raddr = info->addr;
	req->qkey = info->mw_access_flags;
	req->arg[0] = info->length;
	req->arg[1] = ((const struct shca_user_mw *)mw)->gen;
	return 0;
}

int shca_fill_atomic_write(const struct shca_user_qp *q, const struct ibv_sge *sge, bool is_inline, struct shca_req *req,
			   struct shca_seg *segs)
{
	if (sge->length != 8)
		return shca_refuse(EINVAL, "ATOMIC_WRITE of %u bytes: 8 in one segment", sge->length);
	if (is_inline) {
		memcpy(&req->arg[0], (const void *)(uintptr_t)sge->addr, 8);
		return 0;
	}
	req->flags |= SHCA_WQE_OPERANDS;
	req->qkey = req->nsge = 1;
	req->sge = segs;
	req->bad = shca_resolve_list(q, sge, 1, false, segs, &req->len);
	return 0;
}

static int atomic_write_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr, struct shca_req *req,
			   struct shca_seg *segs)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;

	if (wr->num_sge != 1 || (is_inline && q->max_inline < 8))
		return shca_refuse(
			EINVAL,
			"post_send: ATOMIC_WRITE of %d segments%s on queue pair %#x, which was made for %u bytes inline",
			wr->num_sge, is_inline ? " inline" : "", q->qp.qp_num, q->max_inline);
	req->raddr = wr->wr.rdma.remote_addr;
	req->rkey = wr->wr.rdma.rkey;
	req->len = 8;
	if (q->type == IBV_QPT_XRC_SEND)
		req->dqpn = wr->qp_type.xrc.remote_srqn;
	return shca_fill_atomic_write(q, wr->sg_list, is_inline, req, segs);
}

int shca_frame_allowed(const struct shca_user_qp *q, const char *call, unsigned int flags)
{
	if (flags & IBV_SEND_IP_CSUM)
		return shca_refuse(EINVAL,
				   "%s: IBV_SEND_IP_CSUM on queue pair %#x: the device computes no checksums (raw_packet_caps)",
				   call, q->qp.qp_num);
	return 0;
}

/* A SEND of a raw packet queue pair. */
static int frame_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr, struct shca_send *send, struct shca_seg *segs,
		    struct shca_ask *ask)
{
	struct shca_req *req = &send->req;
	int err = shca_frame_allowed(q, "post_send", wr->send_flags);

	if (err)
		return err;
	if (wr->opcode != IBV_WR_SEND || ask->segments > q->max_sge)
		return shca_send_refused(q, "post_send", ask);
	send->wr_id = wr->wr_id;
	*req = (struct shca_req){.op = SHCA_OP_FRAME, .nsge = (uint8_t)wr->num_sge, .sge = segs,
				 .flags = (uint8_t)((wr->send_flags & IBV_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0) |
						    (wr->send_flags & IBV_SEND_SOLICITED ? SHCA_WQE_SOLICITED : 0))};
	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		req->bad = shca_resolve_list(q, wr->sg_list, wr->num_sge, false, segs, &req->len);
		return 0;
	}
	shca_send_inline(req, wr->sg_list, wr->num_sge, segs);
	ask->inline_bytes = req->len;
	return req->len > q->max_inline ? shca_send_refused(q, "post_send", ask) : 0;
}

/* Makes the request description of a work request that send_of does not make. Returns 0, or EINVAL. */
static __attribute__((noinline, cold)) int rare_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr,
						   struct shca_send *send, struct shca_seg *segs, struct shca_ask *ask)
{
	struct shca_req *req = &send->req;

	if (q->type == IBV_QPT_RAW_PACKET)
		return frame_of(q, wr, send, segs, ask);
	switch (wr->opcode) {
	case IBV_WR_LOCAL_INV: ask->op = SHCA_OP_LOCAL_INV; break;
	case IBV_WR_BIND_MW: ask->op = SHCA_OP_BIND_MW; break;
	case IBV_WR_ATOMIC_WRITE: ask->op = SHCA_OP_ATOMIC_WRITE; break;
	default: return shca_send_refused(q, "post_send", ask);
	}
	if (!shca_op_allowed(q, (uint8_t)ask->op))
		return shca_send_refused(q, "post_send", ask);
	send->wr_id = wr->wr_id;
	*req = (struct shca_req){.op = (uint8_t)ask->op, .imm = wr->invalidate_rkey,
				 .flags = wr->send_flags & IBV_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0};
	if (ask->op == SHCA_OP_ATOMIC_WRITE)
		return atomic_write_of(q, wr, req, segs);
	return ask->op == SHCA_OP_LOCAL_INV ? 0 :
					      shca_fill_bind(q, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, req);
}

int shca_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {.wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags,
				 .bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info}}, *bad;

	if (shca_inherited(qp->context))
		return errno;
	int err = shca_post_list(post_lqp_of(qp), &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

/* ---- ibv_post_send ---------------------------------------------------------------------------------------------- */

/* enum shca_wr_op + 1, by opcode; 0: the device lacks the opcode, or rare_of translates it. */
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

/* Makes the request description of a work request. Returns 0, or EINVAL: refused. */
static inline __attribute__((always_inline)) int send_of(const struct shca_user_qp *q, const struct ibv_send_wr *wr,
							 struct shca_send *send, struct shca_seg *segs)
{
	struct shca_req *req = &send->req;
	struct shca_ask ask = {.opcode = wr->opcode, .segments = (uint32_t)wr->num_sge};
	bool sound = false;

	ask.op = (unsigned)wr->opcode < sizeof(op_of) ? op_of[wr->opcode] - 1 : -1;
	/* RC takes all operations of op_of */
	if (likely(ask.op >= 0 && (q->type == IBV_QPT_RC || shca_op_allowed(q, (uint8_t)ask.op)) && ask.segments <= q->max_sge)) {
		sound = true;
		send->wr_id = wr->wr_id;
		req->op = (uint8_t)ask.op;
		/* IBV_SEND_FENCE needs nothing here: a READ or atomic has its result before the requests behind it run */
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
			shca_send_inline(req, wr->sg_list, wr->num_sge, segs);
			ask.inline_bytes = req->len;
			if (unlikely(req->len > q->max_inline))
				sound = false;
		} else {
			req->bad = shca_resolve_list(q, wr->sg_list, wr->num_sge, shca_op_writes_here(req->op), segs, &req->len);
		}
		if (req->op == SHCA_OP_CAS || req->op == SHCA_OP_FAA) {
			shca_send_atomic(req, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey, wr->wr.atomic.compare_add,
					 wr->wr.atomic.swap);
			ask.result_bytes = req->len;
			if (unlikely(req->len < 8))
				sound = false;
		}
		if (unlikely(q->type != IBV_QPT_RC)) {
			if (q->type == IBV_QPT_XRC_SEND)
				req->dqpn = wr->qp_type.xrc.remote_srqn;
			else if (q->type == SHCA_QPT_DCI || (q->type == IBV_QPT_UD && !wr->wr.ud.ah))
				sound = false;
			else if (q->type == IBV_QPT_UD)
				shca_set_ud_address(req, (const struct shca_user_ah *)wr->wr.ud.ah, wr->wr.ud.remote_qpn,
						    wr->wr.ud.remote_qkey);
		}
	}
	return likely(sound) ? 0 : rare_of(q, wr, send, segs, &ask);
}

/* Posts any list to any queue. Each request is a fast write, or becomes a request description (send_of) for shca_submit. Returns
 * 0; or an errno value: *bad and the requests behind *bad are not posted. */
__attribute__((noinline)) int shca_post_list(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_thread *thr = shca_tls.thr;
	struct shca_seg segs[SHCA_MAX_SGE];
	struct shca_send send;
	int rc = 0;

	if (unlikely(shca_tls.id != q->m->id || !shca_tls.id) && !(thr = shca_thread_get_slow(q->m))) {
		*bad = wr;
		return shca_no_memory("post_send");
	}
	shca_lock(&q->lock);
	shca_enter_in(thr, shca_epoch_has_peer(q->sh));
	while (wr) {
		if (!try_fast_write(thr, q, wr)) {
			rc = send_of(q, wr, &send, segs);
			if (likely(!rc))
				rc = shca_submit(thr, q, &send);
			if (unlikely(rc)) {
				*bad = wr;
				break;
			}
		}
		wr = wr->next;
	}
	shca_leave(thr);
	shca_unlock(&q->lock);
	return rc;
}
