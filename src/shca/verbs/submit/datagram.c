/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path of a datagram: one inline SEND from an idle UD queue into a receive of one segment in the arena. The steps and
 * the journal are those of exec_send (exec.c). Any other request goes to shca_post_list, and nothing of it has happened here.
 *
 * Cache lines that sender and receiver share: the receive's word and bytes are the sender's until the receive is posted again,
 * so an arriving datagram costs its receiver two lines, the completion's and the data's. The next receive is fetched when a
 * datagram is done, before the next datagram asks for it. A waiting receiver reads the completion's line in a loop, and perhaps
 * the data's, so both lie in its cache: the sender fetches both together, as soon as it knows their addresses.
 */
#include <stdlib.h>

#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

#define GRH 40u

/*
 * The look-up of a destination queue, checked once. It holds as an entry of the rkey cache does (fast_write.h): until the
 * destination's process revokes something or begins to die.
 */
struct shca_route {
	uint64_t name;			/* queue pair number | Q_Key << 32; 0: nothing is remembered */
	uint64_t valid_word;
	uint32_t slot;			/* of the process */
	uint16_t mask, stride;		/* of the ring's positions; of rq's receives */
	struct shca_qp *to;
	struct shca_rq *rq;
	struct shca_cq *cq;
	_Atomic uint64_t *ring;		/* of rq */
	char *wqes;
};
_Static_assert(sizeof(struct shca_route) == SHCA_LINE, "one line");
#define ROUTES 64u

static __attribute__((noinline)) bool datagram_find(struct shca_thread *thr, struct shca_user_qp *q, struct shca_route *r,
					   uint64_t name)
{
	uint32_t dqpn = (uint32_t)name, qkey = (uint32_t)(name >> 32);
	/* port 1, a condition of shca_user_ah.fast */
	static const uint64_t ud = SHCA_UD_PATH(0, 0, 0, 0);
	const struct shca_address where = {.dqpn = dqpn, .qkey = qkey, .ud = &ud};
	const struct shca_qp *to = shca_number_get(thr->m, dqpn, SHCA_KIND_QP);
	struct shca_responder rsp = {0};

	r->name = 0;
	if (!to)
		return false;
	uint32_t slot = to->proc & (SHCA_MAX_PROCS - 1);
	/* before the look-up: a revocation during the look-up leaves an older value here, which ends the entry */
	uint64_t valid_word = atomic_load_explicit(&thr->m->procs[slot].valid_word, memory_order_acquire);
	if (shca_responder_find(thr, q->sh, &where, &rsp) || shca_responder_receives(thr, q->sh, &where, &rsp) ||
	    rsp.qp->proc != slot || rsp.number != dqpn || rsp.rq->managed)
		return false;
	uint64_t mask;
	_Atomic uint64_t *ring = shca_rq_ring(thr, rsp.rq, &mask);
	*r = (struct shca_route){.name = name, .valid_word = valid_word, .slot = slot, .mask = (uint16_t)mask,
				 .stride = (uint16_t)rsp.rq->stride, .to = rsp.qp, .rq = rsp.rq, .cq = rsp.rcq, .ring = ring,
				 .wqes = thr->base + rsp.rq->wqes};
	return true;
}

static __attribute__((noinline)) bool routes_new(struct shca_user_qp *q)
{
	if (posix_memalign((void **)&q->routes, SHCA_LINE, ROUTES * sizeof(*q->routes))) {
		q->routes = NULL;
		return false;
	}
	memset(q->routes, 0, ROUTES * sizeof(*q->routes));
	return true;
}

static inline struct shca_rwqe *datagram_rwqe_of(const struct shca_route *r, uint64_t entry)
{
	return (struct shca_rwqe *)(r->wqes + (entry & r->mask) * r->stride);
}

/* The receive that comes next will be written soon. */
static inline void fetch_receive(struct shca_thread *thr, const struct shca_route *r, uint64_t pos, uint64_t mask)
{
	uint64_t e = atomic_load_explicit(&r->ring[pos & mask], memory_order_relaxed);
	struct shca_rwqe *w = datagram_rwqe_of(r, e);

	if (e >> 24 != (pos & SHCA_POS_MASK))
		return;
	lines_fetch_own(w);
#if !defined(SHCA_TSAN)
	/* the receive may have been taken by another sender: then this prefetch is wasted */
	lines_fetch_own(thr->base + (*(volatile uint64_t *)&w->sge[0].where + GRH));
#endif
}

/* Takes the receive at the head of the queue. Returns NULL if no receive is there, or if it has not one segment in the arena. A
 * segment with a wrong key is not in the arena (shca_mkey_seg). */
static inline struct shca_rwqe *datagram_take(struct shca_thread *thr, struct shca_qp *qp, const struct shca_route *r,
					      uint64_t pos, uint64_t mask, uint32_t len)
{
	uint64_t e = atomic_load_explicit(&r->ring[pos & mask], memory_order_acquire);
	struct shca_rwqe *w = datagram_rwqe_of(r, e);

	if (e >> 24 != (pos & SHCA_POS_MASK) || !shca_rwqe_posted(w, pos) || w->nsge != 1 ||
	    w->sge[0].lane != SHCA_LANE_ARENA || w->sge[0].len < len + GRH || !shca_fits(thr->m, w->sge[0].where, len + GRH) ||
	    !shca_rwqe_stands(thr->m, r->slot, w, r->stride))
		return NULL;
	lines_fetch_own(thr->base + w->sge[0].where + GRH);
	qp->step_op = SHCA_OP_SEND;
	SHCA_FAILPOINT(thr, "exec", qp, SHCA_OP_SEND);
	qp->step_rq = r->to->rq;
	qp->step_to = (uint32_t)r->name;
	if (shca_rwqe_take(thr, r->rq, w, e & 0xffffff, pos, qp->qpn, qp))
		return w;
	shca_step_to(qp, SHCA_STEP_NONE);
	return NULL;
}

/* The caller is the executor of qp (I1), inside the engine. false: nothing has happened. */
static inline bool datagram_run(struct shca_thread *thr, struct shca_qp *qp, const struct shca_route *r,
				const struct ibv_send_wr *wr, uint32_t len)
{
	struct shca_rq *rq = r->rq;
	uint64_t mask = r->mask, pos = atomic_load_explicit(&rq->head, memory_order_relaxed);
	struct shca_rwqe *w;

	lines_fetch_own(shca_cq_next_slot(thr, r->cq));
	if (atomic_load_explicit(&rq->limit, memory_order_relaxed) || !(w = datagram_take(thr, qp, r, pos, mask, len)))
		return false;
	SHCA_FAILPOINT(thr, "data", qp, SHCA_OP_SEND);
	shca_copy_small(thr->base + w->sge[0].where + GRH, (const void *)(uintptr_t)wr->sg_list->addr, len);
	SHCA_FAILPOINT(thr, "data-done", qp, SHCA_OP_SEND);
	if (!shca_cq_complete(thr, qp, r->cq, SHCA_STEP_RCQE, IBV_WC_SUCCESS,
			      shca_cqe_w0(SHCA_OP_RECV, IBV_WC_SUCCESS, qp->step_index, (uint32_t)r->name),
			      ((const struct shca_user_ah *)wr->wr.ud.ah)->path | (uint64_t)qp->qpn << 32 | (len + GRH),
			      false)) {
		shca_release_receive(thr, qp);
		shca_qp_fail_once(thr, r->to, IBV_EVENT_QP_FATAL);
	}
	atomic_fetch_add_explicit(&r->to->n_recv_msgs, 1, memory_order_relaxed);
	shca_step_to(qp, SHCA_STEP_NONE);
	fetch_receive(thr, r, pos + 1, mask);
	return true;
}

/* Returns true if the route holds (or is found now), no request stands before this one, and no fault is to be injected. */
static inline bool may_run(struct shca_thread *thr, struct shca_user_qp *q, struct shca_route *r, uint64_t name)
{
	const struct shca_header *h = thr->m->hdr;

	if (unlikely(!q->ready || q->sq_sig_all ||
		     (atomic_load_explicit(&q->sh->fail, memory_order_relaxed) |
		      atomic_load_explicit(&q->sh->shared, memory_order_relaxed) |
		      atomic_load_explicit(&h->ud_drop, memory_order_relaxed) |
		      atomic_load_explicit(&h->ud_dup, memory_order_relaxed) |
		      atomic_load_explicit(&h->ud_reorder, memory_order_relaxed)) || thr->late))
		return false;
	return likely(r->name == name &&
		      r->valid_word == atomic_load_explicit(&thr->m->procs[r->slot].valid_word, memory_order_acquire)) ||
	       datagram_find(thr, q, r, name);
}

/* Returns true if one request, not a list, is an inline SEND of one segment that the address handle lets go the short way. */
static inline bool short_one(const struct shca_user_qp *q, const struct ibv_send_wr *wr)
{
	const struct shca_user_ah *ah = (const struct shca_user_ah *)wr->wr.ud.ah;

	return !wr->next && wr->opcode == IBV_WR_SEND && wr->send_flags == IBV_SEND_INLINE && wr->num_sge == 1 &&
	       wr->sg_list->length <= q->max_inline && wr->sg_list->length <= q->sh->mtu && wr->wr.ud.remote_qpn && ah &&
	       ah->fast;
}

int shca_post_datagram(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_thread *thr = shca_tls.thr;
	bool done = false;

	if (likely(shca_tls.id == q->m->id && shca_tls.id && wr && short_one(q, wr))) {
		shca_lock(&q->lock);
		if (likely(q->routes || routes_new(q))) {
			uint32_t len = wr->sg_list->length;
			uint64_t name = (uint64_t)wr->wr.ud.remote_qkey << 32 | wr->wr.ud.remote_qpn;
			struct shca_route *r = &q->routes[name & (ROUTES - 1)];
			shca_enter(thr);
			if (may_run(thr, q, r, name)) {
				shca_epoch_narrow(thr, shca_epoch_of(r->slot));
				done = datagram_run(thr, q->sh, r, wr, len);
			}
			if (done) {
				shca_count_direct(q, len);
				if (unlikely(thr->todo_n != 0))
					shca_drain(thr);
			}
			shca_leave(thr);
		}
		shca_unlock(&q->lock);
	}
	return done ? 0 : shca_post_list(q, wr, bad);
}
