/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short way of a datagram: one inline SEND from an idle UD queue into a receive of one piece in the arena. The same
 * steps as exec_send's (exec.c), with the same journal; whatever else turns up has not begun, and goes the general way.
 *
 * Lines that sender and receiver share: the receive's word and its bytes are the sender's until the receive is posted
 * again, so that one arriving datagram costs its receiver the completion's line and the data's. The next receive is
 * fetched when a datagram is done, not when the next one is waited for.
 */
#include "shca/plain.h"
#include "shca/post.h"

#define GRH 40u

/* The receive that comes next will be written soon. */
static inline void fetch_receive(struct shca_cpu *cpu, struct shca_rq *rq, uint64_t pos)
{
	uint64_t e = atomic_load_explicit(&shca_rq_ring(cpu, rq)[pos & ((1ull << rq->log2) - 1)], memory_order_relaxed);
	struct shca_rwqe *w = shca_rwqe_at(cpu, rq, e & 0xffffff);

	if (e >> 24 != (pos & SHCA_POS_MASK))
		return;
	shca_fetch_own(w);
#if !defined(SHCA_TSAN)
	/* it may be another's by now: then this fetches what nobody needs */
	shca_fetch_own(cpu->base + (*(volatile uint64_t *)&w->sge[0].where + GRH));
#endif
}

/* The completion of the receive that the request holds. */
static inline void receive_cqe(struct shca_cpu *cpu, struct shca_qp *qp, const struct shca_qp *to, struct shca_cq *cq, uint32_t len)
{
	struct shca_cqe_in in = {.qpn = to->qpn, .index = qp->step_index, .byte_len = len + GRH, .imm = qp->qpn,
				 .op = SHCA_OP_RECV, .status = IBV_WC_SUCCESS};
	uint64_t pos = shca_cq_count(cpu, cq);

	qp->step_status = IBV_WC_SUCCESS;
	qp->step_cq = (uint32_t)pos;
	shca_step_to(qp, SHCA_STEP_RCQE);
	SHCA_FAILPOINT(cpu, "rcqe", qp, SHCA_OP_SEND);
	shca_cq_push_at(cpu, cq, &in, pos);
	SHCA_FAILPOINT(cpu, "rcqe-done", qp, SHCA_OP_SEND);
}

/* The caller is the executor of qp (I1), inside the engine. false: nothing has happened. */
static inline bool run(struct shca_cpu *cpu, struct shca_qp *qp, uint32_t dqpn, uint32_t qkey, const void *data, uint32_t len)
{
	const struct shca_header *h = cpu->m->hdr;
	struct shca_qp *to = shca_number_get(cpu->m, dqpn, SHCA_KIND_QP);

	if (!to || !(atomic_load_explicit(&to->gate, memory_order_acquire) & SHCA_GATE_RESPOND) ||
	    to->type != IBV_QPT_UD || to->qkey != (qkey >> 31 ? qp->qkey : qkey) || len > qp->mtu ||
	    (atomic_load_explicit(&h->ud_drop, memory_order_relaxed) | atomic_load_explicit(&h->ud_dup, memory_order_relaxed)))
		return false;
	struct shca_rq *rq = shca_at_checked(cpu->m, to->rq, sizeof(*rq));
	struct shca_cq *cq = shca_at_checked(cpu->m, to->rcq, sizeof(*cq));
	if (!rq || !cq || rq->managed || atomic_load_explicit(&rq->limit, memory_order_relaxed))
		return false;
	uint64_t pos = atomic_load_explicit(&rq->head, memory_order_relaxed), posted = shca_rword(SHCA_R_POSTED, 0, pos);
	uint64_t e = atomic_load_explicit(&shca_rq_ring(cpu, rq)[pos & ((1ull << rq->log2) - 1)], memory_order_acquire);
	struct shca_rwqe *w = shca_rwqe_at(cpu, rq, e & 0xffffff);
	if (e >> 24 != (pos & SHCA_POS_MASK) || atomic_load_explicit(&w->word, memory_order_acquire) != posted || w->bad ||
	    w->nsge != 1 || w->sge[0].lane != SHCA_LANE_ARENA || w->sge[0].len < len + GRH)
		return false;

	qp->step_op = SHCA_OP_SEND;
	SHCA_FAILPOINT(cpu, "exec", qp, SHCA_OP_SEND);
	qp->step_rq = to->rq;
	qp->step_to = to->qpn;
	qp->step_index = e & 0xffffff;
	qp->step_pos = pos;
	shca_step_to(qp, SHCA_STEP_TAKE);
	SHCA_FAILPOINT(cpu, "take", qp, SHCA_OP_SEND);
	if (!atomic_compare_exchange_strong(&w->word, &posted, shca_rword(SHCA_R_TAKEN, qp->qpn, pos))) {
		shca_step_to(qp, SHCA_STEP_NONE);
		return false;
	}
	SHCA_FAILPOINT(cpu, "taken", qp, SHCA_OP_SEND);
	shca_step_to(qp, SHCA_STEP_RECV);
	atomic_store_explicit(&rq->head, pos + 1, memory_order_relaxed);
	SHCA_FAILPOINT(cpu, "data", qp, SHCA_OP_SEND);
	shca_copy_small(cpu->base + w->sge[0].where + GRH, data, len);
	SHCA_FAILPOINT(cpu, "data-done", qp, SHCA_OP_SEND);
	receive_cqe(cpu, qp, to, cq, len);
	atomic_fetch_add_explicit(&to->n_recv_msgs, 1, memory_order_relaxed);
	fetch_receive(cpu, rq, pos + 1);
	return true;
}

bool shca_post_datagram(struct shca_lqp *q, const struct ibv_send_wr *wr)
{
	struct shca_cpu *cpu = shca_cpu_get(q->m);
	const struct shca_lah *ah = (const struct shca_lah *)wr->wr.ud.ah;
	const struct ibv_sge *sge = wr->sg_list;
	bool done = false;

	if (!cpu || wr->next || wr->opcode != IBV_WR_SEND || wr->send_flags != IBV_SEND_INLINE || wr->num_sge != 1 ||
	    sge->length > q->max_inline || !ah || ah->nowhere || ah->attr.is_global)
		return false;
	shca_lock(&q->lock);
	shca_enter(cpu);
	if (q->ready && !q->sq_sig_all && !(atomic_load_explicit(&q->sh->fail, memory_order_relaxed) |
					    atomic_load_explicit(&q->sh->shared, memory_order_relaxed)) &&
	    run(cpu, q->sh, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey, (const void *)(uintptr_t)sge->addr, sge->length)) {
		shca_count_direct(q, sge->length);
		shca_step_to(q->sh, SHCA_STEP_NONE);
		if (cpu->todo_n)
			shca_drain(cpu);
		done = true;
	}
	shca_leave(cpu);
	shca_unlock(&q->lock);
	return done;
}
