/* SPDX-License-Identifier: BSD-3-Clause */
/* The executors' side of the tap: faults of chosen queues, and records of requests for shcactl trace. Nothing here runs while the
 * tap is off. */
#include <time.h>

#include "shca/engine/path.h"
#include "shca/engine/trace.h"

/* ---- faults -------------------------------------------------------------------------------------------------------- */

/* Looks again after this time where the queue's time-out is infinite. */
#define NO_TIMEOUT_NS 4000000ull

/* splitmix64 */
static uint32_t draw(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (uint32_t)((z ^ z >> 31) >> 32);
}

static struct shca_fault *faults_of(const struct shca_member *m, uint32_t qpn)
{
	struct shca_tap *t = shca_tap_of(m);
	struct shca_fault *all = NULL;

	if (!(atomic_load_explicit(&t->on, memory_order_acquire) & SHCA_TAP_FAULTS))
		return NULL;
	for (struct shca_fault *f = t->faults; f < t->faults + SHCA_FAULTS; f++) {
		uint32_t of = atomic_load(&f->qpn);
		if (of == qpn)
			return f;
		if (of == SHCA_FAULT_ALL)
			all = f;
	}
	return all;
}

/* Returns the requester's retransmission delay, in ns. */
static uint64_t wait_of(const struct shca_member *m, const struct shca_qp *qp, const struct shca_fault *f, enum shca_fate fate)
{
	if (fate == SHCA_FATE_DELAY)
		return atomic_load(&f->delay_us) * 1000ull;
	if (fate == SHCA_FATE_RNR) {
		const struct shca_qp *to = shca_number_get(m, qp->dest_qpn, SHCA_KIND_QP);
		return shca_rnr_timer_ns(to ? to->min_rnr_timer : 12);
	}
	uint32_t timeout = shca_path_timeout(qp);

	return timeout ? 4096ull << timeout : NO_TIMEOUT_NS;
}

/*
 * A connected queue's request that is held back makes the queue stall, and the queue is looked at more often than the request is
 * sent: when it turns SHARED, by timers, by kicks. So the decision and its time stand in the queue, and only when the time is
 * over the request is sent: a delayed one for good, else by another decision.
 */
enum shca_fate shca_fate(struct shca_thread *thr, struct shca_qp *qp, bool *held)
{
	bool reliable = !shca_is_datagram(qp) && qp->type != IBV_QPT_UC;
	uint64_t word = atomic_load_explicit(&qp->held, memory_order_relaxed), now = monotonic_ns();
	enum shca_fate fate = (enum shca_fate)(word & 7);
	struct shca_fault *f = faults_of(thr->m, qp->qpn);

	*held = false;
	if (word) {
		if (now < (word & ~7ull)) {
			*held = true;
			thr->again = word & ~7ull;
			return fate;
		}
		atomic_store_explicit(&qp->held, 0, memory_order_relaxed);
		if (fate == SHCA_FATE_DELAY)
			return SHCA_FATE_NONE;
	}
	if (!f)
		return SHCA_FATE_NONE;
	uint64_t seed = atomic_load(&f->seed), n = atomic_fetch_add(&f->drawn, 1) * SHCA_FATES;
	for (fate = SHCA_FATE_DROP; fate < SHCA_FATES; fate++) {
		uint32_t odds = atomic_load(&f->odds[fate]);
		bool applies = reliable || fate == SHCA_FATE_DROP || fate == SHCA_FATE_DUP;
		/* probability 1 is UINT32_MAX */
		if (applies && odds && draw(seed, n + fate) <= odds)
			break;
	}
	if (fate == SHCA_FATES)
		return SHCA_FATE_NONE;
	atomic_fetch_add(&f->hits[fate], 1);
	if (reliable && fate != SHCA_FATE_DUP) {
		thr->again = (now + wait_of(thr->m, qp, f, fate)) | 7;
		atomic_store_explicit(&qp->held, (thr->again & ~7ull) | fate, memory_order_relaxed);
	}
	return fate;
}

/* ---- records ------------------------------------------------------------------------------------------------------- */

static uint64_t realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static uint32_t destination(const struct shca_qp *qp, const struct shca_req *req)
{
	return qp->type == IBV_QPT_UD ? req->dqpn : qp->type == SHCA_QPT_DCI ? req->dqpn & SHCA_QPN_MASK : qp->dest_qpn;
}

/* Returns the port whose address the request's packets have. */
static uint32_t addressed_port(const struct shca_qp *qp, const struct shca_req *req)
{
	if (qp->type == IBV_QPT_UD)
		return req->arg[1] & SHCA_UD_TO_2 ? 2 : 1;
	return qp->type == SHCA_QPT_DCI ? shca_dc_port(req->dqpn) : SHCA_PATH_TO(atomic_load(&qp->path));
}

bool shca_traced(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_tap *t = shca_tap_of(thr->m);
	uint32_t to = destination(qp, req);

	if (!(atomic_load_explicit(&t->on, memory_order_acquire) & SHCA_TAP_TRACE))
		return false;
	if (monotonic_ns() > atomic_load(&t->until)) {
		/* the tracer is dead, or stopped */
		shca_trace_end(thr->m);
		return false;
	}
	for (unsigned i = 0; i < SHCA_TRACE_QUEUES; i++) {
		uint32_t q = atomic_load(&t->queues[i]);
		if (!q)
			return i == 0;
		if (q == qp->qpn || q == to)
			return true;
	}
	return false;
}

void shca_trace_begin(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, struct shca_trace_record *r)
{
	uint32_t dqpn = destination(qp, req);
	const struct shca_qp *to = dqpn < SHCA_MULTICAST ? shca_number_get(thr->m, dqpn, SHCA_KIND_QP) : NULL;

	*r = (struct shca_trace_record){
		.begin = realtime_ns(), .raddr = req->raddr, .qpn = qp->qpn, .dqpn = dqpn,
		/* an ATOMIC_WRITE has its value, whatever segments were set */
		.srqn = qp->type == IBV_QPT_XRC_SEND ? req->dqpn : 0, .len = req->op == SHCA_OP_ATOMIC_WRITE ? 8 : req->len,
		.imm = req->imm, .rkey = req->rkey, .qkey = req->qkey >> 31 ? qp->qkey : req->qkey, .mtu = qp->mtu,
		.proc = qp->proc, .executor = (uint16_t)thr->m->slot, .type = qp->type, .op = req->op, .flags = req->flags,
		.to = to ? to->proc : SHCA_MAX_PROCS, .rnr_timer = to ? to->min_rnr_timer : 0,
		.port = (uint8_t)SHCA_PATH_PORT(atomic_load(&qp->path)), .to_port = (uint8_t)addressed_port(qp, req),
	};
	memcpy(r->arg, req->arg, sizeof(r->arg));
}

void shca_trace_keep(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, struct shca_trace_record *r)
{
	uint32_t keep = atomic_load(&shca_tap_of(thr->m)->keep), n = req->nsge;
	bool value = req->op == SHCA_OP_ATOMIC_WRITE && !(req->flags & SHCA_WQE_OPERANDS), src_err;

	/* an ATOMIC_WRITE's operand is its data */
	if (req->flags & SHCA_WQE_OPERANDS && req->op != SHCA_OP_ATOMIC_WRITE)
		n -= req->qkey < n ? req->qkey : n;
	if (keep > SHCA_TRACE_DATA)
		keep = SHCA_TRACE_DATA;
	if (keep > req->len)
		keep = req->len;
	if (!keep)
		return;
	if (req->inl || value) {
		if (value && keep > sizeof(req->arg[0]))
			keep = sizeof(req->arg[0]);
		memcpy(r->data, value ? (const void *)&req->arg[0] : req->inl, keep);
		r->kept = (uint8_t)keep;
		return;
	}
	struct shca_seg here = {.where = (uintptr_t)r->data, .len = keep, .lane = SHCA_LANE_CMA};
	struct shca_iov dst = {.proc = SHCA_HERE, .seg = &here, .n = 1};
	struct shca_iov src = {.proc = req->flags & SHCA_WQE_INLINE ? SHCA_HERE : qp->proc, .seg = req->sge, .n = n};
	if (n && !shca_copy(thr, &dst, &src, keep, SHCA_ANY_ORDER, &src_err))
		r->kept = (uint8_t)keep;
}

void shca_trace_put(struct shca_thread *thr, struct shca_trace_record *r, enum shca_fate fate, int outcome)
{
	struct shca_tap *t = shca_tap_of(thr->m);
	uint64_t pos = atomic_load(&t->next);

	do {
		if (pos - atomic_load(&t->taken) >= SHCA_TRACE_RECORDS) {
			atomic_fetch_add(&t->lost, 1);
			return;
		}
	} while (!atomic_compare_exchange_weak(&t->next, &pos, pos + 1));
	struct shca_trace_record *to = &t->record[pos % SHCA_TRACE_RECORDS];
	r->end = realtime_ns();
	r->fate = (uint8_t)fate;
	r->outcome = (int8_t)outcome;
	memcpy((char *)to + sizeof(to->seq), (char *)r + sizeof(r->seq), sizeof(*r) - sizeof(r->seq));
	atomic_store_explicit(&to->seq, pos + 1, memory_order_release);
}
