/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path of a request: the port that it leaves by and the port that it comes to; and path migration (IBTA 17.2.8).
 *
 * An executor comes here only while SHCA_BY_PATH is set for the responder's process: when the fabric has two ports, or when a
 * port does not work. There are no packets, so the executor, which sees both ends, does at once what an HCA does by the MigReq
 * bit of packets. All that concerns a path is one word for each end (shca_qp.path), and each change one compare-and-swap:
 *
 *     MIGRATED ──modify──▶ REARM ──the other end is REARM or ARMED, the path works──▶ ARMED
 *         ▲                                                                             │
 *         └── the path works no more, the other end has migrated, or modify: the alternate path becomes the path
 *
 * The ends of a connection change one after the other. If the executor dies in between, the next request finds one end
 * MIGRATED and the other one ARMED, and moves the latter. The event is owed in the same word (SHCA_PATH_OWED) until it is
 * raised.
 */
#include "shca/engine/access.h"
#include "shca/engine/common.h"
#include "shca/engine/path.h"

/* Returns whether the path of each end leads to the port of the other. */
static bool paths_meet(uint32_t a, uint32_t b)
{
	return SHCA_PATH_TO(a) == SHCA_PATH_PORT(b) && SHCA_PATH_TO(b) == SHCA_PATH_PORT(a);
}

/* Returns whether the alternate path of a, and the path of b, lead to each other. */
static bool alternate_meets(uint32_t a, uint32_t b)
{
	return SHCA_PATH_ALT_TO(a) == SHCA_PATH_PORT(b) && SHCA_PATH_TO(b) == SHCA_PATH_ALT_PORT(a);
}

static bool path_works(const struct shca_thread *thr, uint32_t w)
{
	return shca_ports_connect(&thr->m->hdr->ports, SHCA_PATH_PORT(w), SHCA_PATH_TO(w));
}

static bool alternate_works(const struct shca_thread *thr, uint32_t w)
{
	return shca_ports_connect(&thr->m->hdr->ports, SHCA_PATH_ALT_PORT(w), SHCA_PATH_ALT_TO(w));
}

/* Event before bit: if this thread dies in between, the next one raises the event again. */
static void raise_owed(struct shca_thread *thr, struct shca_qp *qp)
{
	if (!(atomic_load(&qp->path) & SHCA_PATH_OWED))
		return;
	shca_qp_event(thr, qp, IBV_EVENT_PATH_MIG);
	SHCA_FAILPOINT(thr, "path-event", qp, 0);
	atomic_fetch_and(&qp->path, ~SHCA_PATH_OWED);
}

/* Makes the alternate path of qp the path. w: the queue's path word; no effect if the word has changed since. */
static void path_migrate(struct shca_thread *thr, struct shca_qp *qp, uint32_t w)
{
	uint32_t n = SHCA_PATH_SET_STATE(w, IBV_MIG_MIGRATED) & ~SHCA_PATH_REFUSED;

	n = SHCA_PATH_SET_TO(SHCA_PATH_SET_PORT(n, SHCA_PATH_ALT_PORT(w)), SHCA_PATH_ALT_TO(w));
	n = SHCA_PATH_SET_ALT(n, 0, 0, SHCA_PATH_ALT_TIMEOUT(w)) | SHCA_PATH_MOVED | SHCA_PATH_OWED;
	SHCA_FAILPOINT(thr, "path-migrate", qp, 0);
	if (!atomic_compare_exchange_strong(&qp->path, &w, n))
		return;
	SHCA_FAILPOINT(thr, "path-migrated", qp, 0);
	shca_port_moved(thr->m, qp, SHCA_PATH_PORT(w), SHCA_PATH_PORT(n), shca_packets_of(qp));
	raise_owed(thr, qp);
}

/* The alternate path of qp cannot be taken. Event before bit, as raise_owed. */
static void path_refuse(struct shca_thread *thr, struct shca_qp *qp, uint32_t w)
{
	if (w & SHCA_PATH_REFUSED)
		return;
	shca_qp_event(thr, qp, IBV_EVENT_PATH_MIG_ERR);
	atomic_fetch_or(&qp->path, SHCA_PATH_REFUSED);
}

/* ARMED needs both ends, and a path on which each has heard of the other's state. */
static void path_arm(struct shca_thread *thr, struct shca_qp *a, uint32_t of_a, struct shca_qp *b, uint32_t of_b)
{
	if (SHCA_PATH_STATE(of_a) == IBV_MIG_MIGRATED || SHCA_PATH_STATE(of_b) == IBV_MIG_MIGRATED || !paths_meet(of_a, of_b) ||
	    !path_works(thr, of_a))
		return;
	if (SHCA_PATH_STATE(of_a) == IBV_MIG_REARM)
		atomic_compare_exchange_strong(&a->path, &of_a, SHCA_PATH_SET_STATE(of_a, IBV_MIG_ARMED));
	SHCA_FAILPOINT(thr, "path-armed", a, 0);
	if (SHCA_PATH_STATE(of_b) == IBV_MIG_REARM)
		atomic_compare_exchange_strong(&b->path, &of_b, SHCA_PATH_SET_STATE(of_b, IBV_MIG_ARMED));
}

/* The end `other` has migrated, and a, which is ARMED, has not: a packet with MigReq comes to a. Returns whether a has moved. */
static bool path_follow(struct shca_thread *thr, struct shca_qp *a, uint32_t of_a, uint32_t of_other)
{
	if (!alternate_meets(of_a, of_other)) {
		path_refuse(thr, a, of_a);
		return false;
	}
	path_migrate(thr, a, of_a);
	return true;
}

/* Returns whether the queues are the two ends of a connection. */
static bool are_ends(const struct shca_qp *a, const struct shca_qp *b)
{
	return a->dest_qpn == b->qpn && b->dest_qpn == a->qpn;
}

static bool path_connected(struct shca_thread *thr, struct shca_qp *qp, struct shca_qp *to)
{
	/* Each end moves once; a modify may change either again and again. */
	for (int round = 0; round < 16; round++) {
		uint32_t a = atomic_load(&qp->path), b = atomic_load(&to->path);
		if ((a | b) & SHCA_PATH_OWED) {
			raise_owed(thr, qp);
			raise_owed(thr, to);
		}
		if (SHCA_PATH_STATE(a) == IBV_MIG_REARM || SHCA_PATH_STATE(b) == IBV_MIG_REARM) {
			path_arm(thr, qp, a, to, b);
			a = atomic_load(&qp->path);
			b = atomic_load(&to->path);
		}
		bool a_armed = SHCA_PATH_STATE(a) == IBV_MIG_ARMED, b_armed = SHCA_PATH_STATE(b) == IBV_MIG_ARMED;
		if (paths_meet(a, b) && path_works(thr, a))
			return true;
		if (a_armed && SHCA_PATH_STATE(b) == IBV_MIG_MIGRATED) {
			if (!path_follow(thr, qp, a, b))
				return false;
		} else if (b_armed && SHCA_PATH_STATE(a) == IBV_MIG_MIGRATED) {
			if (!path_follow(thr, to, b, a))
				return false;
		} else if (a_armed && alternate_works(thr, a)) {
			path_migrate(thr, qp, a);
		} else {
			if (a_armed)
				path_refuse(thr, qp, a);
			return false;
		}
	}
	return false;
}

bool shca_path_leads(struct shca_thread *thr, struct shca_qp *qp, struct shca_qp *to, const struct shca_address *a)
{
	uint32_t from = SHCA_PATH_PORT(atomic_load(&qp->path)), at = SHCA_PATH_PORT(atomic_load(&to->path));

	if (qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC || qp->type == IBV_QPT_XRC_SEND)
		return path_connected(thr, qp, to);
	if (qp->type == IBV_QPT_UD && !(*a->ud & SHCA_UD_TO_GROUP) && at != (*a->ud & SHCA_UD_TO_2 ? 2 : 1))
		return false;
	if (qp->type == IBV_QPT_UD && shca_path_ud_misfit(qp, *a->ud))
		return false;
	if (qp->type == SHCA_QPT_DCI && at != shca_dc_port(a->dqpn))
		return false;
	return shca_ports_connect(&thr->m->hdr->ports, from, at);
}

void shca_path_modified(struct shca_thread *thr, struct shca_qp *qp)
{
	struct shca_qp *to = shca_number_get(thr->m, qp->dest_qpn, SHCA_KIND_QP);

	/* requests between the two that need no look-up are under the old path */
	shca_revoke(thr->m, qp->proc);
	if (!to || !are_ends(qp, to))
		return;
	path_connected(thr, qp, to);
	if (shca_is_common(thr->m, to))
		shca_common_revoke(thr->m, shca_common_of(to));
	else
		shca_revoke(thr->m, to->proc);
}

void shca_path_migrate(struct shca_thread *thr, struct shca_qp *qp)
{
	uint32_t w = atomic_load(&qp->path);

	if (SHCA_PATH_STATE(w) != IBV_MIG_ARMED)
		return;
	if (!alternate_works(thr, w))
		path_refuse(thr, qp, w);
	else
		path_migrate(thr, qp, w);
}
