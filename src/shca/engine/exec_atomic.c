/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics: operands, the look-up of the memory, the reply. atomic.c changes the memory. */
#include <endian.h>
#include <string.h>

#include "shca.h"
#include "shca/engine/atomic.h"
#include "shca/engine/exec.h"

/* exec_operands_of of an ATOMIC_WRITE: an unconditional swap. The value is in the request, or in the one segment. */
static __attribute__((noinline)) int exec_written_word(struct shca_thread *thr, const struct shca_qp *qp,
						       const struct shca_req *req, struct shca_atomic *a)
{
	uint64_t value = req->arg[0];
	struct shca_seg here = {.where = (uintptr_t)&value, .len = sizeof(value), .lane = SHCA_LANE_CMA};
	struct shca_iov src = {.proc = qp->proc, .seg = req->sge, .n = 1}, dst = {.proc = SHCA_HERE, .seg = &here, .n = 1};
	bool src_err;

	/* I7 */
	if (req->flags & SHCA_WQE_OPERANDS && (req->nsge != 1 || req->qkey != 1))
		return IBV_WC_LOC_QP_OP_ERR;
	if (req->flags & SHCA_WQE_OPERANDS && shca_copy(thr, &dst, &src, sizeof(value), SHCA_ANY_ORDER, &src_err))
		return IBV_WC_LOC_PROT_ERR;
	a->add = false;
	a->size = sizeof(value);
	a->v[0][0] = a->v[1][0] = 0;
	a->v[2][0] = value;
	a->v[3][0] = UINT64_MAX;
	return 0;
}

/* Fills in the operands of an atomic. Returns 0, or the status with which the request fails. */
static int exec_operands_of(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, struct shca_atomic *a)
{
	bool masked = req->op == SHCA_OP_MASKED_CAS || req->op == SHCA_OP_MASKED_FAA, src_err;
	uint32_t n;

	if (unlikely(req->op == SHCA_OP_ATOMIC_WRITE))
		return exec_written_word(thr, qp, req, a);

	a->add = req->op == SHCA_OP_FAA || req->op == SHCA_OP_MASKED_FAA;
	a->size = masked ? req->imm : 8;
	n = a->add ? 2 : 4;
	/* I7 */
	if (unlikely(a->size < 4 || a->size > SHCA_ATOMIC_MAX || (a->size & (a->size - 1)) ||
		     (a->size > 8 && !(req->flags & SHCA_WQE_OPERANDS))))
		return IBV_WC_LOC_QP_OP_ERR;
	if (likely(!(req->flags & SHCA_WQE_OPERANDS))) {
		a->v[0][0] = req->arg[0];
		a->v[1][0] = masked ? req->arg[1] : a->add ? 0 : UINT64_MAX;
		a->v[2][0] = masked ? req->arg[2] : req->arg[1];
		a->v[3][0] = masked ? req->arg[3] : UINT64_MAX;
		return 0;
	}
	char bytes[4 * SHCA_ATOMIC_MAX];
	struct shca_seg here = {.where = (uintptr_t)bytes, .len = sizeof(bytes), .lane = SHCA_LANE_CMA};
	if (unlikely(req->qkey > req->nsge))
		return IBV_WC_LOC_QP_OP_ERR;
	struct shca_iov src = {.proc = qp->proc, .seg = req->sge + req->nsge - req->qkey, .n = req->qkey};
	struct shca_iov dst = {.proc = SHCA_HERE, .seg = &here, .n = 1};
	int rc = shca_copy(thr, &dst, &src, (uint64_t)n * a->size, SHCA_ANY_ORDER, &src_err);
	if (rc)
		return IBV_WC_LOC_PROT_ERR;
	for (uint32_t i = 0; i < n; i++) {
		a->v[i][0] = 0;
		if (a->size == 4) {
			uint32_t half;
			memcpy(&half, bytes + 4 * i, 4);
			a->v[i][0] = half;
		} else {
			memcpy(a->v[i], bytes + (size_t)i * a->size, a->size);
		}
	}
	return 0;
}

/* Returns true for a raw request for a masked atomic whose result a ConnectX returns in network order: any size but 8
 * bytes. */
static bool is_connectx_reply(const struct shca_req *req, uint32_t size)
{
	return req->flags & SHCA_WQE_RAW && size != 8;
}

/* B.2.2: returns the value before the atomic to the requester: units of 8 bytes (or one of 4), each in host order, or in network
 * order. */
static int reply(struct shca_thread *thr, const struct shca_qp *qp, const struct shca_req *req, uint32_t size, uint64_t *old)
{
	uint32_t n = req->flags & SHCA_WQE_OPERANDS ? req->nsge - req->qkey : req->nsge, half = (uint32_t)old[0];
	struct shca_iov dst = {.proc = qp->proc, .seg = req->sge, .n = n};

	if (!n || unlikely(req->op == SHCA_OP_ATOMIC_WRITE))
		return 0;
	if (qp->flags & SHCA_QP_BE_REPLY || is_connectx_reply(req, size)) {
		half = htobe32(half);
		for (uint32_t i = 0; i < size / 8; i++)
			old[i] = htobe64(old[i]);
	}
	return shca_copy_to(thr, &dst, size == 4 ? (const void *)&half : old, size, SHCA_LAST_LINE_LAST);
}

int shca_exec_atomic(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req, struct shca_responder *r)
{
	uint64_t old[SHCA_ATOMIC_MAX / 8];
	struct shca_atomic a;
	struct shca_atomic_place at;

	int rc = exec_operands_of(thr, qp, req, &a);
	if (rc)
		return rc;
	SHCA_FAILPOINT(thr, "operands", qp, req->op);
	if (unlikely(r->qp->flags & SHCA_QP_NO_READS))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	if (req->raddr & (a.size - 1))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	const struct shca_mr *mr = shca_mr_entry(thr->m, req->rkey >> 8);
	at.ground.index = req->rkey >> 8;
	/* before the look at the key: the version is counted up behind the key's end */
	at.ground.version = mr ? atomic_load_explicit(&mr->version, memory_order_acquire) : 0;
	mr = shca_resolve_remote(thr, r, req->rkey, req->raddr, a.size,
				 req->op == SHCA_OP_ATOMIC_WRITE ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC, &at.seg,
				 &at.ground);
	if (unlikely(!mr))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	at.proc = shca_region_owner(mr);
	if (unlikely(mr->implicit) && at.seg.lane == SHCA_LANE_ARENA && !shca_fits(thr->m, at.seg.where, a.size))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
	/* a region's addresses may differ from those of the memory (ibv_reg_mr_iova) */
	if (unlikely(at.seg.where & (a.size - 1)))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
	shca_step_to(qp, SHCA_STEP_FINAL);
	SHCA_FAILPOINT(thr, "atomic", qp, req->op);
	rc = shca_atomic(thr, &at, &a, old);
	if (unlikely(rc == -ESRCH)) {
		shca_step_to(qp, SHCA_STEP_NONE);
		return shca_nobody(qp);
	}
	if (unlikely(rc))
		return shca_nak(thr, qp, r, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_OP_ERR);
	SHCA_FAILPOINT(thr, "atomic-done", qp, req->op);
	if (at.seg.lane == SHCA_LANE_ARENA || !(mr->access & SHCA_ACCESS_UNPOLLED))
		shca_note_write(thr, at.proc);
	return reply(thr, qp, req, a.size, old) ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}
