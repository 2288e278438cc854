/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling: ibv_poll_cq, the ibv_start_poll family, notification. */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>

#include "shca/verbs/control.h"

struct polled {
	uint64_t w0, w1, wr_id;
	uint32_t qp_num, src_qp, wc_flags;
	uint32_t from;			/* sender_of a datagram; else 0 */
	uint8_t sl;			/* of a datagram; else 0, for IBTA 11.4.2.1 gives connected queues none */
};

static const uint8_t wc_opcode[] = {
	[SHCA_OP_NOP] = IBV_WC_DRIVER2,		[SHCA_OP_SEND] = IBV_WC_SEND,
	[SHCA_OP_LOCAL_INV] = IBV_WC_LOCAL_INV,	[SHCA_OP_BIND_MW] = IBV_WC_BIND_MW,
	[SHCA_OP_UMR] = IBV_WC_DRIVER1,		[SHCA_OP_FRAME] = IBV_WC_SEND,
	[SHCA_OP_SEND_IMM] = IBV_WC_SEND,	[SHCA_OP_WRITE] = IBV_WC_RDMA_WRITE,
	[SHCA_OP_WRITE_IMM] = IBV_WC_RDMA_WRITE, [SHCA_OP_READ] = IBV_WC_RDMA_READ,
	[SHCA_OP_CAS] = IBV_WC_COMP_SWAP,	[SHCA_OP_FAA] = IBV_WC_FETCH_ADD,
	[SHCA_OP_MASKED_CAS] = IBV_WC_COMP_SWAP, [SHCA_OP_MASKED_FAA] = IBV_WC_FETCH_ADD,
	[SHCA_OP_ATOMIC_WRITE] = IBV_WC_ATOMIC_WRITE,
	[SHCA_OP_WAIT] = IBV_WC_DRIVER2,	[SHCA_OP_SEND_EN] = IBV_WC_DRIVER2,
	[SHCA_OP_RECV_EN] = IBV_WC_DRIVER2,	[SHCA_OP_SEND_INV] = IBV_WC_SEND,
	[SHCA_OP_RECV] = IBV_WC_RECV,		[SHCA_OP_RECV_IMM] = IBV_WC_RECV,
	[SHCA_OP_RECV_WRITE_IMM] = IBV_WC_RECV_RDMA_WITH_IMM, [SHCA_OP_RECV_INV] = IBV_WC_RECV,
};
_Static_assert(IBV_WC_RECV < 256 && IBV_WC_RECV_RDMA_WITH_IMM < 256 && IBV_WC_DRIVER2 < 256, "bytes");
_Static_assert(sizeof(wc_opcode) == SHCA_OPS, "poll_take lets no other operation through");

static inline enum ibv_wc_opcode poll_opcode_of(uint64_t w0)
{
	return wc_opcode[SHCA_CQE_OP(w0)];
}

/* IBV_WC_* of a receive, by its operation. */
static const uint8_t wc_flags_of[] = {
	[SHCA_OP_RECV] = 0, [SHCA_OP_RECV_IMM] = IBV_WC_WITH_IMM, [SHCA_OP_RECV_WRITE_IMM] = IBV_WC_WITH_IMM,
	[SHCA_OP_RECV_INV] = IBV_WC_WITH_INV,
};
_Static_assert(IBV_WC_WITH_IMM < 256 && IBV_WC_WITH_INV < 256, "bytes");
_Static_assert(sizeof(wc_flags_of) == SHCA_OPS, "poll_take lets no other operation through");

static __attribute__((noinline)) const struct shca_rwqe *poll_rwqe_of(const struct shca_user_cq *cq,
								      const struct shca_user_rq *rq, uint32_t index)
{
	const struct shca_rwqe *w =
		(const struct shca_rwqe *)(__atomic_load_n(&rq->wqes, __ATOMIC_ACQUIRE) + (uint64_t)index * rq->sh->stride);
	struct shca_rq *in;

	/* an SRQ's: taken before the ring was replaced */
	if (unlikely((atomic_load_explicit(&w->word, memory_order_relaxed) & 3) != SHCA_R_TAKEN) &&
	    (in = shca_rq_of_index(cq->m, shca_rq_newest(cq->m, rq->sh), index)))
		w = shca_at(cq->m->base, in->wqes + (uint64_t)index * in->stride);
	return w;
}

/* The sender of a datagram: queue pair number | SHCA_CQE_UD_*. */
static inline uint32_t sender_of(const struct shca_user_cq *cq, const struct shca_user_rq *rq, uint64_t w0, uint64_t w1)
{
	if (likely(SHCA_CQE_OP(w0) == SHCA_OP_RECV))
		return (uint32_t)(w1 >> 32);
	const struct shca_rwqe *w = poll_rwqe_of(cq, rq, SHCA_CQE_INDEX(w0));
	return w->src_qp | (uint32_t)w->ud_bits << 24;
}

/* The LID that a datagram came from; of any other completion, which has none, port 1's. from: sender_of, read while the
 * completion is decoded: once its receive is polled, another thread may post the receive again, and another datagram come. */
static inline uint16_t slid_of(const struct shca_user_cq *cq, uint32_t from)
{
	return shca_lid(cq->m, from & SHCA_CQE_UD_PORT_2 ? 2 : 1);
}

static inline __attribute__((always_inline)) void decode_receive(struct shca_user_cq *cq, struct polled *p,
								 const struct shca_tagged *t)
{
	uint32_t index = SHCA_CQE_INDEX(p->w0), op = SHCA_CQE_OP(p->w0);
	struct shca_user_rq *rq;

	p->wc_flags = wc_flags_of[op];
	p->qp_num = SHCA_CQE_QPN(p->w0);
	p->src_qp = 0;
	p->from = 0;
	p->sl = 0;
	if (unlikely(t->kind == SHCA_KIND_SRQ)) {
		/* an XRC SRQ's own completion: the receiving queue is in the receive */
		rq = &t->srq->rq;
		p->qp_num = poll_rwqe_of(cq, rq, index)->src_qp;
	} else {
		rq = t->qp->rq;
		if (t->qp->type == IBV_QPT_UD) {
			p->from = sender_of(cq, rq, p->w0, p->w1);
			p->src_qp = p->from & 0xffffff;
			p->sl = SHCA_CQE_UD_SL_OF(p->from);
			if (p->from & SHCA_CQE_UD_GRH)
				p->wc_flags |= IBV_WC_GRH;
		}
	}
	p->wr_id = shca_receive_polled(rq, index);
}

static inline __attribute__((always_inline)) void decode_send(struct polled *p, struct shca_user_qp *qp)
{
	uint32_t index = SHCA_CQE_INDEX(p->w0);
	/* The position of the request, from the low 15 bits in the completion: the latest posted position with these bits, since
	 * less than half as many requests can be outstanding. Counting from the last polled position would be wrong: any number
	 * of unsignaled requests may lie between. */
	uint64_t last = __atomic_load_n(&qp->pi, __ATOMIC_RELAXED) - 1, pos = last - ((last - index) & 0x7fff);

	p->wc_flags = 0;
	p->qp_num = SHCA_CQE_QPN(p->w0);
	p->src_qp = 0;
	p->from = 0;
	p->sl = 0;
	p->wr_id = qp->wr_id[pos & qp->sq_mask];
	atomic_store_explicit(&qp->sh->polled, pos + 1, memory_order_release);
}

static inline bool poll_empty(const struct shca_user_cq *cq)
{
	const struct shca_cqe *e = &cq->ring[cq->ci & ((1ull << cq->log2) - 1)];

	return SHCA_CQE_LAP(atomic_load_explicit(&e->w0, memory_order_acquire)) != shca_cqe_lap(cq->ci, cq->log2);
}

/* I7: whether the object completes here with this operation. Another process may have put a wrong completion in. */
static inline bool completes(const struct shca_user_cq *cq, const struct shca_tagged *t, uint32_t op)
{
	if (op < SHCA_OP_RECV)
		return t->kind == SHCA_KIND_QP && t->qp->scq == cq;
	const struct shca_user_rq *rq = t->kind == SHCA_KIND_QP && t->qp->rcq == cq ? t->qp->rq :
					t->kind == SHCA_KIND_SRQ && t->srq->cq == cq ? &t->srq->rq : NULL;

	/* some receive has been posted there */
	return op < SHCA_OPS && rq && __atomic_load_n(&rq->marks, __ATOMIC_RELAXED);
}

/* Takes the next completion. false: empty. */
static inline __attribute__((always_inline)) bool poll_take(struct shca_user_cq *cq, struct polled *p)
{
	uint64_t mask = (1ull << cq->log2) - 1;

	for (;;) {
		struct shca_cqe *e = &cq->ring[cq->ci & mask];
		p->w0 = atomic_load_explicit(&e->w0, memory_order_acquire);
		if (SHCA_CQE_LAP(p->w0) != shca_cqe_lap(cq->ci, cq->log2))
			return false;
		p->w1 = atomic_load_explicit(&e->w1, memory_order_relaxed);
		cq->ci++;
		const struct shca_tagged *t = shca_local_get(cq->m, SHCA_CQE_QPN(p->w0));
		if (unlikely(SHCA_CQE_OP(p->w0) == SHCA_OP_PURGED || !t || !t->qp || !completes(cq, t, SHCA_CQE_OP(p->w0)))) {
			/* The completion's queue is gone. If no completion follows, no later poll tells the producers of the
			 * space. */
			atomic_store_explicit(&cq->sh->ci, cq->ci, memory_order_release);
			continue;
		}
		if (SHCA_CQE_OP(p->w0) >= SHCA_OP_RECV)
			decode_receive(cq, p, t);
		else
			decode_send(p, t->qp);
		return true;
	}
}

/* The producers' view of the space follows. */
static inline void poll_release(struct shca_user_cq *cq)
{
	atomic_store_explicit(&cq->sh->ci, cq->ci, memory_order_release);
	atomic_store_explicit(&cq->vain, 0, memory_order_relaxed);
}

/* Polls without success before sched_yield. A process that shares its CPU with a poller waits for the end of the poller's time
 * slice: milliseconds, if that process is the other end of a ping-pong. A thread in shca_await_* (m->awaits) decides itself how
 * long to poll: where other processes compute, a yield takes milliseconds, too. */
#define YIELD_POLLS 1024u

static inline void found_nothing(struct shca_user_cq *cq)
{
	uint32_t n = atomic_load_explicit(&cq->vain, memory_order_relaxed) + 1;

	if (unlikely(n >= YIELD_POLLS)) {
		n = 0;
		if (!atomic_load_explicit(&cq->m->awaits, memory_order_relaxed))
			sched_yield();
	}
	atomic_store_explicit(&cq->vain, n, memory_order_relaxed);
}

/* Posts the receives again whose message never came. The lists' elements stay while this thread is inside the engine. */
static void repost_returned(struct shca_thread *thr)
{
	struct shca_member *m = thr->m;

	shca_for_each_listed(m, shca_rq, rq, m->slot, srq_list) {
		struct shca_tagged *t = shca_local_get(m, rq->number);
		if (atomic_load(&rq->returned) && t && t->kind == SHCA_KIND_SRQ && t->srq)
			shca_user_rq_repost(thr, &t->srq->rq);
	}
	shca_for_each_qp(m, qp, m->slot) {
		struct shca_rq *rq = shca_at_checked(m, qp->rq, sizeof(*rq));
		struct shca_tagged *t = shca_local_get(m, qp->qpn);
		if (rq && atomic_load(&rq->returned) && t && t->kind == SHCA_KIND_QP && t->qp && t->qp->rq)
			shca_user_rq_repost(thr, t->qp->rq);
	}
	shca_drain(thr);
}

static inline bool work_to_do(const struct shca_user_cq *cq)
{
	return cq->m->cross_n || atomic_load_explicit(&cq->m->proc->returned, memory_order_relaxed) ||
	       atomic_load_explicit(&cq->m->proc->share, memory_order_relaxed) ||
	       atomic_load_explicit(&cq->m->hdr->some_left, memory_order_relaxed);
}

/* Work for a poller of an empty CQ. Returns how much was done. Runs this process's cross-channel queues that another thread has
 * locked but not begun; posts returned receives again; helps large copies from or to this process's memory. */
static int idle_work(struct shca_user_cq *cq)
{
	struct shca_member *m = cq->m;
	int ran = 0;
	struct shca_thread *thr = shca_thread_get(m);

	if (!thr)
		return 0;
	shca_enter_in(thr, shca_epoch_of(m->slot));
	if (atomic_load_explicit(&m->proc->returned, memory_order_relaxed) && atomic_exchange(&m->proc->returned, 0))
		repost_returned(thr);
	if (atomic_load_explicit(&m->proc->share, memory_order_relaxed))
		ran += shca_share_help(thr);
	if (atomic_load_explicit(&m->hdr->some_left, memory_order_relaxed))
		ran += shca_take_left(thr);
	/* Queues are added and removed under the mutex. A poller must not wait for the mutex, nor run a queue under it: a stolen
	 * queue is locked, so it cannot be destroyed. */
	if (!pthread_mutex_trylock(&m->mutex)) {
		for (uint32_t i = 0; i < m->cross_n; i++)
			ran += shca_steal(thr, m->cross[i]);
		pthread_mutex_unlock(&m->mutex);
	}
	shca_drain(thr);
	shca_leave(thr);
	return ran;
}

static inline uint32_t vendor_err(uint64_t w0)
{
	return SHCA_CQE_STATUS(w0) ? 0x80 | SHCA_CQE_STATUS(w0) : 0;
}

/* Writes completion p to element i of a program's array. */
typedef void put_fn(struct shca_user_cq *cq, void *wc, int i, const struct polled *p);

static inline void put_wc(struct shca_user_cq *cq, void *wc, int i, const struct polled *p)
{
	struct ibv_wc *w = (struct ibv_wc *)wc + i;

	w->wr_id = p->wr_id;
	w->status = SHCA_CQE_STATUS(p->w0);
	w->opcode = poll_opcode_of(p->w0);
	w->vendor_err = vendor_err(p->w0);
	w->byte_len = (uint32_t)p->w1;
	w->imm_data = (uint32_t)(p->w1 >> 32);
	w->qp_num = p->qp_num;
	w->src_qp = p->src_qp;
	w->wc_flags = p->wc_flags;
	w->pkey_index = 0;
	w->slid = shca_lid(cq->m, 1);
	w->sl = p->sl;
	w->dlid_path_bits = 0;
}

static inline __attribute__((always_inline)) int poll_with(struct shca_user_cq *cq, int n, void *wc, put_fn *put)
{
	struct polled p;
	int got = 0, worked = 0;

	shca_lock(&cq->lock);
again:
	while (got < n && poll_take(cq, &p))
		put(cq, wc, got++, &p);
	if (got)
		poll_release(cq);
	else if (unlikely(work_to_do(cq)) && !worked && (worked = idle_work(cq)))
		goto again;	/* once: a poll is finite, too */
	/* No completion appears behind the error: if this look finds none, none will come. */
	if (unlikely(!got && n > 0 && shca_cq_in_error(cq->sh))) {
		if (!poll_empty(cq))
			goto again;
		got = -EIO;	/* IBTA 11.2.8.1: a CQ that was overrun is in error */
	}
	shca_unlock(&cq->lock);
	if (!got)
		found_nothing(cq);
	return got;
}

static __attribute__((noinline)) int poll_some(struct shca_user_cq *cq, int n, struct ibv_wc *wc)
{
	return poll_with(cq, n, wc, put_wc);
}

/* Most looks find nothing. */
int shca_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct shca_user_cq *cq = (struct shca_user_cq *)ibcq;

	if (cq->lock.none && poll_empty(cq) && !work_to_do(cq) && !shca_cq_in_error(cq->sh)) {
		found_nothing(cq);
		return 0;
	}
	return poll_some(cq, n, wc);
}

static inline void put_wc_of_port(struct shca_user_cq *cq, void *wc, int i, const struct polled *p)
{
	put_wc(cq, wc, i, p);
	((struct ibv_wc *)wc + i)->slid = slid_of(cq, p->from);
}

int shca_poll_cq_of_ports(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	return poll_with((struct shca_user_cq *)ibcq, n, wc, put_wc_of_port);
}

/* ---- the experimental interface ---------------------------------------------------------------------------------- */

static enum ibv_exp_wc_opcode exp_opcode_of(uint64_t w0)
{
	switch (SHCA_CQE_OP(w0)) {
	case SHCA_OP_MASKED_CAS: return IBV_EXP_WC_MASKED_COMP_SWAP;
	case SHCA_OP_MASKED_FAA: return IBV_EXP_WC_MASKED_FETCH_ADD;
	case SHCA_OP_LOCAL_INV: return IBV_EXP_WC_LOCAL_INV;
	case SHCA_OP_UMR: return IBV_EXP_WC_UMR;
	/* the number that ordinary verbs have is a masked atomic's here */
	case SHCA_OP_ATOMIC_WRITE: return IBV_EXP_WC_RDMA_WRITE;
	default: return (enum ibv_exp_wc_opcode)poll_opcode_of(w0);
	}
}

/* The object of this process that a completion's number belongs to; of a datagram from port 2 (from: sender_of), its LID. */
static void name_object(struct shca_user_cq *cq, struct ibv_exp_wc *w, uint32_t number, uint32_t from)
{
	struct shca_tagged *t = shca_local_get(cq->m, w->qp_num);

	if (t && t->kind == SHCA_KIND_QP && t->qp && t->qp->dct) {
		w->dct = t->qp->dct;
		w->exp_wc_flags |= IBV_EXP_WC_DCT;
	} else if (t && t->kind == SHCA_KIND_QP && t->qp) {
		w->qp = &t->qp->qp;
		w->exp_wc_flags |= IBV_EXP_WC_QP;
	}
	if (!(w->exp_opcode & IBV_EXP_WC_RECV))
		return;
	if (unlikely(from & SHCA_CQE_UD_PORT_2))
		w->slid = slid_of(cq, from);
	/* an XRC receive's completion has the number of the SRQ; qp_num is that of the receiving queue */
	if (number != w->qp_num)
		t = shca_local_get(cq->m, number);
	if (t && t->kind == SHCA_KIND_QP && t->qp && t->qp->srq)
		w->srq = &t->qp->srq->srq;
	else if (t && t->kind == SHCA_KIND_SRQ && t->srq)
		w->srq = &t->srq->srq;
	if (w->srq)
		w->exp_wc_flags |= IBV_EXP_WC_SRQ;
}

static inline void put_exp_wc(struct shca_user_cq *cq, void *wc, int i, const struct polled *p)
{
	const unsigned int same = IBV_WC_GRH | IBV_WC_WITH_IMM;
	struct ibv_exp_wc *w = (struct ibv_exp_wc *)wc + i;

	*w = (struct ibv_exp_wc){
		.wr_id = p->wr_id, .status = SHCA_CQE_STATUS(p->w0), .exp_opcode = exp_opcode_of(p->w0),
		.vendor_err = vendor_err(p->w0), .byte_len = (uint32_t)p->w1, .imm_data = (uint32_t)(p->w1 >> 32),
		.qp_num = p->qp_num, .src_qp = p->src_qp, .slid = shca_lid(cq->m, 1), .sl = p->sl,
		.exp_wc_flags = (p->wc_flags & same) | (p->wc_flags & IBV_WC_WITH_INV ? IBV_EXP_WC_WITH_INV : 0) |
				IBV_EXP_WC_WITH_SL | IBV_EXP_WC_WITH_SLID,
	};
	name_object(cq, w, SHCA_CQE_QPN(p->w0), p->from);
}

int shca_exp_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_exp_wc *wc)
{
	if (unlikely(shca_inherited(ibcq->context)))
		return -errno;
	return poll_with((struct shca_user_cq *)ibcq, n, wc, put_exp_wc);
}

/* ---- the extended interface ------------------------------------------------------------------------------------- */

static inline struct shca_user_cq *lcq_of(struct ibv_cq_ex *ex)
{
	return (struct shca_user_cq *)ex;
}

static inline int ex_take(struct shca_user_cq *cq)
{
	struct polled p;

	if (!poll_take(cq, &p))
		return ENOENT;	/* said: nothing is refused, there is no completion */
	cq->w0 = p.w0;
	cq->w1 = p.w1;
	cq->cur_qpn = p.qp_num;
	cq->cur_from = p.from;
	cq->cur_wc_flags = p.wc_flags;
	cq->ex.wr_id = p.wr_id;
	cq->ex.status = SHCA_CQE_STATUS(p.w0);
	return 0;
}

static int ex_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct shca_user_cq *cq = lcq_of(ex);

	if (attr->comp_mask)
		return shca_refuse(EINVAL, "start_poll: comp_mask %#x has no bits", attr->comp_mask);
	shca_lock(&cq->lock);
	int rc = ex_take(cq);
	if (rc && work_to_do(cq) && idle_work(cq))
		rc = ex_take(cq);
	if (unlikely(rc && shca_cq_in_error(cq->sh)))
		rc = ex_take(cq) ? EIO : 0;	/* said: IBV_EVENT_CQ_ERR */
	if (rc) {
		shca_unlock(&cq->lock);	/* end_poll is not called after a start_poll that found nothing */
		found_nothing(cq);
	}
	return rc;
}

static int ex_next_poll(struct ibv_cq_ex *ex)
{
	return ex_take(lcq_of(ex));
}

static void ex_end_poll(struct ibv_cq_ex *ex)
{
	poll_release(lcq_of(ex));
	shca_unlock(&lcq_of(ex)->lock);
}

static enum ibv_wc_opcode ex_opcode(struct ibv_cq_ex *ex)
{
	return poll_opcode_of(lcq_of(ex)->w0);
}

static uint32_t ex_vendor_err(struct ibv_cq_ex *ex)
{
	return vendor_err(lcq_of(ex)->w0);
}

static uint32_t ex_byte_len(struct ibv_cq_ex *ex)
{
	return (uint32_t)lcq_of(ex)->w1;
}

static __be32 ex_imm_data(struct ibv_cq_ex *ex)
{
	return (__be32)(lcq_of(ex)->w1 >> 32);
}

static uint32_t ex_qp_num(struct ibv_cq_ex *ex)
{
	return lcq_of(ex)->cur_qpn;
}

static uint32_t ex_src_qp(struct ibv_cq_ex *ex)
{
	return lcq_of(ex)->cur_from & 0xffffff;
}

static unsigned int ex_wc_flags(struct ibv_cq_ex *ex)
{
	return lcq_of(ex)->cur_wc_flags;
}

static uint32_t ex_slid(struct ibv_cq_ex *ex)
{
	return slid_of(lcq_of(ex), lcq_of(ex)->cur_from);
}

static uint8_t ex_sl(struct ibv_cq_ex *ex)
{
	return SHCA_CQE_UD_SL_OF(lcq_of(ex)->cur_from);
}

/* The VLAN tag that a raw packet queue with IBV_QP_CREATE_CVLAN_STRIPPING has taken off the frame; 0: none. */
static uint16_t ex_cvlan(struct ibv_cq_ex *ex)
{
	const struct shca_user_cq *cq = lcq_of(ex);
	const struct shca_tagged *t = shca_local_get(cq->m, SHCA_CQE_QPN(cq->w0));
	bool frame = SHCA_CQE_OP(cq->w0) == SHCA_OP_RECV && t && t->kind == SHCA_KIND_QP && t->qp &&
		     t->qp->type == IBV_QPT_RAW_PACKET;

	return frame ? (uint16_t)(cq->w1 >> 32) : 0;
}

static uint8_t ex_zero8(struct ibv_cq_ex *ex)
{
	return 0;
}

/* The time of the completion at the cursor, whose slot is not released yet. */
static uint64_t ex_completion_ts(struct ibv_cq_ex *ex)
{
	const struct shca_user_cq *cq = lcq_of(ex);
	uint64_t pos = cq->ci - 1, now = shca_clock_ns(), bits = ~0ull >> 15;

	if (!cq->stamped)
		return now;
	uint64_t word =
		atomic_load_explicit(&shca_cq_stamps(cq->ring, cq->log2)[pos & ((1ull << cq->log2) - 1)], memory_order_acquire);
	/* the producer is between its completion and the time, or has died there */
	if (SHCA_STAMP_LAP(word) != shca_cqe_lap(pos, cq->log2))
		return now;
	/* the upper bits are those of now, unless the lower ones have begun anew since */
	uint64_t time = (now & ~bits) | SHCA_STAMP_TIME(word);
	return time > now ? time - bits - 1 : time;
}

static uint64_t ex_completion_wallclock(struct ibv_cq_ex *ex)
{
	uint64_t then = ex_completion_ts(ex);
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - (shca_clock_ns() - then);
}

void shca_cq_ex_ops(struct shca_user_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	ex->start_poll = ex_start_poll;
	ex->next_poll = ex_next_poll;
	ex->end_poll = ex_end_poll;
	ex->read_opcode = ex_opcode;
	ex->read_vendor_err = ex_vendor_err;
	ex->read_byte_len = ex_byte_len;
	ex->read_imm_data = ex_imm_data;
	ex->read_qp_num = ex_qp_num;
	ex->read_src_qp = ex_src_qp;
	ex->read_wc_flags = ex_wc_flags;
	ex->read_slid = ex_slid;
	ex->read_sl = ex_sl;
	ex->read_dlid_path_bits = ex_zero8;
	ex->read_cvlan = ex_cvlan;
	ex->read_completion_ts = ex_completion_ts;
	ex->read_completion_wallclock_ns = ex_completion_wallclock;
}

/* ---- notification ------------------------------------------------------------------------------------------------ */

int shca_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct shca_user_cq *cq = (struct shca_user_cq *)ibcq;

	/* armed for any stays so (IBTA 11.4.2.2) */
	atomic_fetch_or(&cq->sh->notify, solicited_only ? SHCA_CQ_ARM_SOLICITED : SHCA_CQ_ARM_ANY);
	/* pairs with the CAS of shca_cq_fill: a completion that the caller's next poll misses sees armed */
#if !defined(__x86_64__)
	shca_full_fence();
#endif
	return 0;
}
