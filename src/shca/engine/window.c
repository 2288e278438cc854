/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: bind and invalidate (IBTA 10.6.7, 10.8.4, 11.2.10). The executor of a request that binds or invalidates
 * changes the window's entry (struct shca_mr), which belongs to the owner of the queue.
 *
 * A window of type 2 is of type 2B: its R_Key opens memory to requests that come by the queue pair on which it was bound. So the
 * only executor that can be inside memory through it is that of the connected peer's send queue.
 *   - SEND_WITH_INV is executed by that executor, between its requests: nothing is under way through the window.
 *   - LOCAL_INV, and a bind of a window of type 1 that is bound already, wait for every thread that found the R_Key
 *     valid (I8). The executor is inside the engine, so it waits for microseconds only (shca_quiesce_on); then the
 *     request stalls (SHCA_BUSY).
 * An indirect memory key is open to every queue of its domain. So SEND_WITH_INV of such a key waits as LOCAL_INV does. Step
 * SHCA_STEP_INV follows the copy of the message: a second try copies nothing, since the receive may lie in the ended key.
 */
#include "shca/engine/access.h"
#include "shca/engine/window.h"

struct shca_mr *shca_window_find(const struct shca_member *m, uint32_t rkey, uint32_t pd, uint32_t qpn, uint32_t rights)
{
	struct shca_mr *w = shca_mr_entry(m, rkey >> 8);
	uint32_t kind = w ? SHCA_WINDOW_KIND(atomic_load_explicit(&w->window, memory_order_relaxed)) : SHCA_WINDOW_NONE;

	if ((kind != SHCA_WINDOW_1 && kind != SHCA_WINDOW_2 && kind != SHCA_WINDOW_MKEY) ||
	    atomic_load_explicit(&w->bound, memory_order_acquire) != rkey || w->pd != pd || (w->access & rights) != rights)
		return NULL;
	return kind != SHCA_WINDOW_2 || w->qpn == qpn ? w : NULL;
}

/* Returns the window of type 2, or the indirect memory key, that a request by queue pair `qp` may invalidate; NULL: refused.
 * remote: the request is a SEND_WITH_INV that qp receives. */
static struct shca_mr *to_invalidate(const struct shca_member *m, uint32_t rkey, uint32_t pd, const struct shca_qp *qp,
				     bool remote)
{
	struct shca_mr *w = shca_window_find(m, rkey, pd, qp->qpn, 0);
	uint32_t kind = w ? SHCA_WINDOW_KIND(atomic_load(&w->window)) : SHCA_WINDOW_NONE;

	bool may = kind == SHCA_WINDOW_2 || (kind == SHCA_WINDOW_MKEY && (!remote || w->qpn == SHCA_MKEY_REMOTE_INV));

	return w && may && w->proc == qp->proc ? w : NULL;
}

/* Ends the R_Key (0: whichever the window has). A successor may repeat this. */
static void end_key(struct shca_thread *thr, struct shca_mr *w, uint32_t rkey, uint32_t proc)
{
	if (rkey)
		atomic_compare_exchange_strong(&w->bound, &rkey, 0);
	else
		atomic_store(&w->bound, 0);
	/* behind the R_Key's end, as in mr_close (verbs/objects/mr.c) */
	atomic_fetch_add(&w->version, 1);
	shca_revoke(thr->m, proc);
}

/* The steps of a request that ends an R_Key of the queue's owner: step SHCA_STEP_UNBIND. */
static void unbind_begin(struct shca_qp *qp)
{
	qp->step_to = 0;
	qp->step_index = 0;
	qp->step_pos = 0;
	shca_step_to(qp, SHCA_STEP_UNBIND);
}

/* Returns true when no thread uses the window by an R_Key that has ended; false: call again later. Must: the request is at step
 * SHCA_STEP_UNBIND. */
static bool unbind_on(struct shca_thread *thr, struct shca_qp *qp, struct shca_mr *w, uint32_t rkey)
{
	SHCA_FAILPOINT(thr, "unbind", qp, qp->step_op);
	if (!qp->step_to) {
		end_key(thr, w, rkey, qp->proc);
		/* pairs with the light fence of a thread that enters the engine (shca_enter_in) */
		shca_heavy_fence(thr->m);
		qp->step_to = 1;
		SHCA_FAILPOINT(thr, "unbound", qp, qp->step_op);
	}
	return shca_quiesce_on(thr, qp->proc, &qp->step_index, &qp->step_pos);
}

bool shca_window_unbind(struct shca_thread *thr, struct shca_qp *qp, struct shca_mr *w)
{
	if (shca_step_of(qp) != SHCA_STEP_UNBIND)
		unbind_begin(qp);
	return unbind_on(thr, qp, w, 0);
}

int shca_window_local_inv(struct shca_thread *thr, struct shca_qp *qp, uint32_t rkey)
{
	bool begun = shca_step_of(qp) == SHCA_STEP_UNBIND;
	struct shca_mr *w = begun ? shca_mr_entry(thr->m, rkey >> 8) : to_invalidate(thr->m, rkey, qp->pd, qp, false);

	if (!w)
		return IBV_WC_MW_BIND_ERR;
	if (!begun)
		unbind_begin(qp);
	return unbind_on(thr, qp, w, rkey) ? IBV_WC_SUCCESS : SHCA_BUSY;
}

/* Returns true when no thread uses a key that has ended, of process proc; false: call again later. The journal of a request that
 * holds a receive has no place for the progress of the wait, so each call begins anew. */
static bool nobody_inside(struct shca_thread *thr, uint32_t proc)
{
	uint32_t at = 0;
	uint64_t seen = 0;

	/* pairs with the light fence of a thread that enters the engine (shca_enter_in) */
	shca_heavy_fence(thr->m);
	return shca_quiesce_on(thr, proc, &at, &seen);
}

int shca_window_remote_inv(struct shca_thread *thr, struct shca_qp *qp, const struct shca_qp *to, uint32_t pd, uint32_t rkey)
{
	bool begun = shca_step_of(qp) == SHCA_STEP_INV;
	struct shca_mr *w = begun ? shca_mr_entry(thr->m, rkey >> 8) : to_invalidate(thr->m, rkey, pd, to, true);

	if (!w)
		return IBV_WC_REM_INV_REQ_ERR;
	if (!begun)
		shca_step_to(qp, SHCA_STEP_INV);
	SHCA_FAILPOINT(thr, "invalidate", qp, qp->step_op);
	end_key(thr, w, rkey, to->proc);
	SHCA_FAILPOINT(thr, "invalidated", qp, qp->step_op);
	bool waits = SHCA_WINDOW_KIND(atomic_load(&w->window)) == SHCA_WINDOW_MKEY;

	return !waits || nobody_inside(thr, to->proc) ? IBV_WC_SUCCESS : SHCA_BUSY;
}

/* Returns the region that the window is to be bound to, if the region permits the access that the request asks for; NULL:
 * refused. */
static const struct shca_mr *region_of(const struct shca_member *m, const struct shca_qp *qp, const struct shca_req *req)
{
	const uint32_t writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	const struct shca_mr *mr = shca_mr_get(m, req->imm);
	uint64_t len = req->arg[0];

	if (!mr || mr->proc != qp->proc || mr->pd != qp->pd || !(mr->access & IBV_ACCESS_MW_BIND) || atomic_load(&mr->window) ||
	    (req->qkey & writes && !(mr->access & IBV_ACCESS_LOCAL_WRITE)))
		return NULL;
	return mr->implicit                                       ? req->raddr + len >= len ? mr : NULL :
	       shca_within(mr->iova, mr->length, req->raddr, len) ? mr :
								    NULL;
}

/* IBTA 10.6.7.2.2: whether the window may be bound as the request says. */
static bool may_bind(const struct shca_member *m, const struct shca_qp *qp, const struct shca_req *req, const struct shca_mr *w,
		     uint32_t kind)
{
	if (w->pd != qp->pd)
		return false;
	/* a window of type 2 is invalidated before it is bound anew; one of type 1 is unbound by a bind of no bytes */
	if (kind == SHCA_WINDOW_2 && (!req->arg[0] || atomic_load(&w->bound)))
		return false;
	return !req->arg[0] || region_of(m, qp, req);
}

static void write_entry(const struct shca_member *m, const struct shca_qp *qp, const struct shca_req *req,
			const struct shca_mr *mr, struct shca_mr *w, uint32_t kind)
{
	struct shca_seg at = {.where = mr->where + (req->raddr - mr->iova), .lane = mr->lane};

	if (mr->implicit)
		shca_resolve_private(m, mr->proc, req->raddr, req->arg[0], &at);
	w->where = at.where;
	w->lane = (uint8_t)at.lane;
	w->implicit = 0;
	w->iova = req->qkey & IBV_ACCESS_ZERO_BASED ? 0 : req->raddr;
	w->length = req->arg[0];
	w->access = req->qkey & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	w->qpn = qp->qpn;
	atomic_store(&w->window, kind | mr->index << 8);
	atomic_store_explicit(&w->bound, req->rkey, memory_order_release);
}

int shca_window_bind(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req)
{
	struct shca_mr *w = shca_mr_entry(thr->m, req->dqpn);
	uint32_t kind = w ? SHCA_WINDOW_KIND(atomic_load(&w->window)) : SHCA_WINDOW_NONE, step = shca_step_of(qp);
	const struct shca_mr *mr;

	/* the window was freed since the post, and the entry may have another use */
	if ((kind != SHCA_WINDOW_1 && kind != SHCA_WINDOW_2) || w->proc != qp->proc || atomic_load(&w->gen) != req->arg[1])
		return IBV_WC_MW_BIND_ERR;
	if (step != SHCA_STEP_UNBIND && step != SHCA_STEP_BIND) {
		if (!may_bind(thr->m, qp, req, w, kind))
			return IBV_WC_MW_BIND_ERR;
		if (atomic_load(&w->bound)) {
			unbind_begin(qp);
			step = SHCA_STEP_UNBIND;
		}
	}
	if (step == SHCA_STEP_UNBIND && !unbind_on(thr, qp, w, 0))
		return SHCA_BUSY;
	if (!req->arg[0])
		return IBV_WC_SUCCESS;
	/* again: the request may have waited */
	mr = region_of(thr->m, qp, req);
	if (!mr)
		return IBV_WC_MW_BIND_ERR;
	shca_step_to(qp, SHCA_STEP_BIND);
	SHCA_FAILPOINT(thr, "bind", qp, req->op);
	write_entry(thr->m, qp, req, mr, w, kind);
	SHCA_FAILPOINT(thr, "bound", qp, req->op);
	return IBV_WC_SUCCESS;
}
