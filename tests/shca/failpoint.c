/* SPDX-License-Identifier: BSD-3-Clause */
#include "failpoint.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "shca/engine/engine.h"

struct failpoint_arm *failpoint_arms;

/* Points that have no queue at hand belong to the request that this thread came by last. */
static __thread const struct shca_qp *last_qp;
static __thread int last_op;

static void die_at(struct shca_thread *thr, struct failpoint_arm *a, const char *name, const struct shca_qp *qp, int op)
{
	if (atomic_load(&a->pid) != (int32_t)getpid() || strcmp(a->name, name))
		return;
	bool foreign = thr && qp && qp->proc != thr->m->slot;
	if ((a->op >= 0 && a->op != op) || (a->qpn && (!qp || qp->qpn != a->qpn)) ||
	    (qp && a->who && a->who != (foreign ? FP_THIRD : FP_OWNER)))
		return;
	if (a->skip) {
		a->skip--;
		return;
	}
	atomic_store(&a->hit_op, (uint32_t)op);
	atomic_store(&a->hit_foreign, foreign);
	atomic_store(&a->hit, 1);
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	if (!failpoint_arms)
		return;
	if (qp && op) {
		last_qp = qp;
		last_op = op;
	}
	for (int i = 0; i < FAILPOINT_ARMS; i++)
		die_at(thr, &failpoint_arms[i], name, qp ? qp : last_qp, op ? op : last_op);
}
