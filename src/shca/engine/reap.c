/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recovery from the death of a process.
 *
 * Two parts. Each process that was connected to the dead process fails its own queues (survivors). One process, the reaper,
 * elected by a CAS on the dead process's slot, does the rest: queues of survivors that the dead process was executing, receives
 * that the dead process had taken, wake-ups that the dead process owed, and the dead process's memory. The reaper may die too:
 * the successor begins with the first stage again, so every stage must be repeatable.
 *
 * The reaper never waits. A stage that needs an executor to leave, or a quiesce, returns false and is tried again later, so that
 * a stopped process delays only the release of the dead process's memory.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "shca/engine/atomic.h"
#include "shca/engine/common.h"

#define PATIENCE 10000u		/* tries of a joiner before the joiner gives the reaping up */
#define L_STATE(w) ((uint32_t)(w)&3)
#define L_THREAD(w) ((uint32_t)((w) >> 3) & 0x1fffff)

#define for_each_qp(thr, qp, proc_slot) shca_for_each_qp((thr)->m, qp, proc_slot)

static bool thread_of(struct shca_thread *thr, uint32_t thread, uint32_t slot)
{
	return shca_thread_owner(thr->m, thread) == slot + 1;
}

static bool live(struct shca_thread *thr, uint32_t slot)
{
	return (atomic_load(&thr->m->procs[slot].state) & 0xff) == SHCA_PROC_LIVE;
}

/* Marks the dead process's own queues: no requester gets an answer, and no executor runs them. */
static void close_gates(struct shca_thread *thr, uint32_t slot)
{
	for_each_qp(thr, qp, slot) {
		uint16_t none = 0;
		atomic_store(&qp->gate, SHCA_GATE_DEAD | SHCA_GATE_ERR);
		atomic_compare_exchange_strong(&qp->fail, &none, IBV_WC_WR_FLUSH_ERR + 1);
	}
	shca_revoke(thr->m, slot);
}

/* Finishes the dead process's queues. A living executor leaves such a queue soon, because the queue has failed. So the reaper
 * leaves a lock that names a living thread alone at first. Returns false if there were such locks. With `quiet` every thread has
 * left the engine since then: a lock that still names a living thread was scribbled over, or taken since by a thread that finds
 * nothing to run (I7). */
static bool finish_own_queues(struct shca_thread *thr, uint32_t slot, bool quiet)
{
	bool all = true;

	for_each_qp(thr, qp, slot) {
		uint64_t w = atomic_load(&qp->lock);
		if (L_STATE(w) != SHCA_L_FREE && !thread_of(thr, L_THREAD(w), slot) && L_THREAD(w) != thr->slot &&
		    !shca_steal(thr, shca_off_of(thr->m, qp))) {
			uint32_t owner = shca_thread_owner(thr->m, L_THREAD(w));
			if (owner && !quiet && !shca_proc_gone(thr->m, owner - 1)) {
				all = false;
				continue;
			}
		}
		shca_release_receive(thr, qp);
		shca_rnr_unlink(thr, qp);
	}
	shca_drain(thr);
	return all;
}

/* Takes over a queue of a survivor that the dead process was executing. */
static void reap_take_over(struct shca_thread *thr, struct shca_qp *qp)
{
	/* Where the queue is DIRECT, the owner is executing and owns the journal, and head == posted here. posted is loaded
	 * first: see run.c. */
	uint64_t posted = atomic_load(&qp->posted), head = atomic_load(&qp->head);

	if (head < posted && shca_step_of(qp) == SHCA_STEP_FINAL) {
		/* the store of a write's last line, or an atomic, may have happened or not: the reaper must not repeat either */
		shca_qp_event(thr, qp, IBV_EVENT_QP_FATAL);
		shca_fail_head(thr, qp, IBV_WC_FATAL_ERR);
	}
	/* the dead executor may have stored a timer's time, and died before it set the timer's bit */
	atomic_store(&qp->due, 0);
	shca_qp_unlock(thr, qp);
}

/* Wakes the sleeping helper threads of all processes: each of these may have been connected to the dead process. */
static void tell_helpers(struct shca_member *m)
{
	uint32_t high = atomic_load(&m->hdr->proc_high);

	for (uint32_t p = 0; p < high; p++)
		if (p != m->slot && (atomic_load(&m->procs[p].state) & 0xff) == SHCA_PROC_LIVE &&
		    atomic_load(&m->procs[p].asleep_until)) {
			atomic_store(&m->procs[p].look, 1);
			shca_helper_call(m, p);
		}
}

static void finish_foreign_queues(struct shca_thread *thr, uint32_t slot)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high);

	for (uint32_t p = 0; p < high; p++) {
		if (p == slot || !live(thr, p))
			continue;
		for_each_qp(thr, qp, p) {
			uint64_t w = atomic_load(&qp->lock);
			if (L_STATE(w) != SHCA_L_FREE && thread_of(thr, L_THREAD(w), slot) &&
			    shca_qp_take_over(thr, qp, w))
				reap_take_over(thr, qp);
		}
	}
}

/* Kicks the queues of process p that are SHARED with requests outstanding, or have failed: the dead process may have put in the
 * completion that one waits for, or failed the queue, and died before the kick or the flush of its receives. */
static void kick_waiters(struct shca_thread *thr, uint32_t p)
{
	for_each_qp(thr, qp, p) {
		if (!atomic_load(&qp->fail) && !atomic_load(&qp->peer_dead) &&
		    (!atomic_load(&qp->shared) || atomic_load(&qp->head) >= atomic_load(&qp->posted)))
			continue;
		/* The dead process may have stored a timer's time without the lock (leave_over), without the timer's bit: an
		 * executor that stalls would rely on that time. An executor that runs the queue now sees MORE, and sets the time
		 * again. */
		atomic_store(&qp->due, 0);
		shca_kick(thr, shca_off_of(thr->m, qp));
	}
	shca_drain(thr);
}

/* Rings for this CQ's event if the dead process, or a thread that has left, owes the ring. */
static void adopt_ring(struct shca_thread *thr, struct shca_cq *cq, uint32_t slot)
{
	uint64_t w = atomic_load(&cq->notify);
	uint32_t by = SHCA_CQ_EVENT_BY(w), state = w & SHCA_CQ_EVENT;

	if ((state == SHCA_CQ_EVENT_OWED || state == SHCA_CQ_EVENT_LOST) &&
	    (thread_of(thr, by, slot) || !shca_thread_owner(thr->m, by)) && shca_ring_adopt(thr, cq, w))
		shca_wake_note(thr, SHCA_WAKE_CHANNEL, shca_off_of(thr->m, cq));
}

/* Repeats the wake-ups that the dead process (slot) may have owed process p: CQ events, returned receives, asynchronous events,
 * sleepers. */
static void wake_again(struct shca_thread *thr, uint32_t slot, uint32_t p)
{
	struct shca_member *m = thr->m;
	struct shca_proc_slot *proc = &m->procs[p];
	bool events = atomic_load(&proc->async_pending);

	shca_for_each_listed(m, shca_cq, cq, p, cq_list) {
		if (shca_cq_in_error(cq))
			shca_cq_fail_users(thr, cq);
		if (atomic_load(&cq->notify) & SHCA_CQ_ARMED && shca_cq_count(thr, cq) > atomic_load(&cq->ci))
			shca_cq_notice_again(thr, cq);
		adopt_ring(thr, cq, slot);
		events |= (atomic_load(&cq->error) & SHCA_ERROR_EVENT) != 0;
	}
	shca_for_each_listed(m, shca_rq, rq, p, srq_list) {
		shca_rq_notice_returned(thr, rq);
		events |= (atomic_load(&rq->limit) & SHCA_LIMIT_EVENT) || (atomic_load(&rq->error) & SHCA_ERROR_EVENT);
	}
	for_each_qp(thr, qp, p) {
		struct shca_rq *rq = shca_at_checked(m, qp->rq, sizeof(*rq));
		if (rq)
			shca_rq_notice_returned(thr, rq);
		events |= shca_qp_unread(qp) != 0;
	}
	/* only with an event to read: poll(2) must not report a readable descriptor without one */
	if (events)
		shca_async_wake(thr, p);
	/* the dead process may have cleared `sleepers`, and died before its FUTEX_WAKE */
	atomic_store(&proc->sleepers, 1);
	shca_wake_note(thr, SHCA_WAKE_FUTEX, p);
	shca_drain(thr);
}

/* Returns whether the user of the slot with these low bits of its generation is dead. The slot may get a new user meanwhile: the
 * generation is counted up before the new user's state becomes LIVE, so the generation must be loaded first. */
static bool tenant_is_dead(struct shca_thread *thr, uint32_t slot, uint32_t gen)
{
	struct shca_proc_slot *p = &thr->m->procs[slot];

	if ((atomic_load(&p->gen) & 0xffff) != gen)
		return true;
	return (atomic_load(&p->state) & 0xff) != SHCA_PROC_LIVE || !shca_proc_alive(thr->m, slot);
}

/* Fails this process's queues that were connected to the dead process: the first outstanding request, or the next one that is
 * posted, completes with IBV_WC_RETRY_EXC_ERR; posted receives are flushed, and IBV_EVENT_QP_FATAL is raised. */
static void survivors(struct shca_thread *thr, uint32_t slot)
{
	for_each_qp(thr, qp, thr->m->slot) {
		uint32_t peer = qp->peer_proc;
		if ((peer & 0xffff) != slot + 1 || atomic_load(&qp->peer_dead) || !tenant_is_dead(thr, slot, peer >> 16))
			continue;
		/* An unreliable connection does not notice the death, as on a wire. Asks `fail`, not the gate: the dead process
		 * may have been failing the queue, with the gate closed and `fail` not set. */
		if (atomic_load(&qp->fail) || qp->type == IBV_QPT_UC)
			continue;
		SHCA_FAILPOINT(thr, "survivor", qp, 0);
		atomic_store(&qp->peer_dead, 1);
		atomic_store(&qp->gate, SHCA_GATE_ERR);
		shca_revoke(thr->m, thr->m->slot);
		/* pairs with the light fence of shca_rq_post, behind which the poster asks shca_flushes */
		shca_heavy_fence(thr->m);
		shca_qp_event(thr, qp, IBV_EVENT_QP_FATAL);
		shca_kick(thr, shca_off_of(thr->m, qp));
		shca_drain(thr);
	}
}

/* Releases the locks of atomics and the shares of divided copies that name threads of the dead process. Must: before the thread
 * slots have new users, which would seem to hold them. */
static void release_words(struct shca_thread *thr, uint32_t slot)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high);

	for (uint32_t p = 0; p < high; p++) {
		uint32_t holder = atomic_load(&thr->m->procs[p].share);
		if (holder && thread_of(thr, holder - 1, slot))
			atomic_compare_exchange_strong(&thr->m->procs[p].share, &holder, 0);
	}
	for (uint32_t i = 0; i < SHCA_ATOMIC_LOCKS; i++) {
		uint32_t holder = atomic_load(&thr->m->hdr->atomic_locks[i]);
		if (holder && thread_of(thr, holder - 1, slot))
			shca_atomic_take_over(thr, i, holder);
	}
}

/*
 * Lost links. A thread takes a whole list of queues that wait for a receive, to kick them (rq.c). If the thread dies then, the
 * queues are on no list, and their link words keep them from being linked again.
 *
 * A link passes through three threads at most: T1 links the queue, T2 takes the stack, reverses the stack and puts the rest
 * back, T3 takes the queue off the reversed list. The reaper tells a lost link from one that a thread is still handling:
 *
 *     links_seen    notes all links
 *     quiesce       T1 has stored the link in its list, or died;     links_left empties the list: only T2 can hold the link now
 *     quiesce       T2 has put the rest back, or died;               links_left empties the list: only T3 can
 *     quiesce       T3 has kicked the queue, or died:                a link that is still the same is lost (free_links)
 */
struct link {
	uint32_t qpn, link;
};

/* Collects the links of all living processes' queues, and of the dead process's own, which must be on no list when their memory
 * is freed. Returns false without memory. Ownership: *seen is the caller's. */
static bool links_seen(struct shca_thread *thr, uint32_t slot, struct link **seen, uint32_t *n)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high), cap = 0;
	struct link *links = NULL;

	*n = 0;
	for (uint32_t p = 0; p < high; p++) {
		if (p != slot && !live(thr, p))
			continue;
		for_each_qp(thr, qp, p) {
			uint32_t link = shca_rnr_unlink(thr, qp);
			if (!link)
				continue;
			if (*n == cap) {
				struct link *more = realloc(links, (cap ? 2 * cap : 16) * sizeof(*more));
				if (!more) {
					free(links);
					*n = 0;
					return false;
				}
				links = more;
				cap = cap ? 2 * cap : 16;
			}
			links[(*n)++] = (struct link){.qpn = qp->qpn, .link = link};
		}
		shca_drain(thr);
	}
	*seen = links;
	return true;
}

/* Returns the queue pair of this number, destroyed ones that are still linked included; or NULL. */
static struct shca_qp *numbered(struct shca_thread *thr, uint32_t qpn)
{
	struct shca_qp *qp = shca_number_get(thr->m, qpn, SHCA_KIND_QP);

	return qp ? qp : shca_number_get(thr->m, qpn, SHCA_KIND_ZOMBIE);
}

/* Keeps the links that have not changed, and empties their lists once more. Returns how many are kept. */
static uint32_t links_left(struct shca_thread *thr, struct link *links, uint32_t n)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct shca_qp *qp = numbered(thr, links[i].qpn);
		if (qp && shca_rnr_unlink(thr, qp) == links[i].link)
			links[left++] = links[i];
	}
	shca_drain(thr);
	return left;
}

static void free_links(struct shca_thread *thr, const struct link *links, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct shca_qp *qp = numbered(thr, links[i].qpn);
		if (qp)
			shca_rnr_lost(thr, qp, links[i].link);
	}
	shca_drain(thr);
}

/* Takes over the survivors' queues that the dead process was executing, and repeats the wake-ups that it owed. */
static void finish_for_others(struct shca_thread *thr, uint32_t slot)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high);

	SHCA_FAILPOINT(thr, "reap-foreign", NULL, 0);
	finish_foreign_queues(thr, slot);
	shca_drain(thr);
	SHCA_FAILPOINT(thr, "reap-waiters", NULL, 0);
	release_words(thr, slot);
	for (uint32_t p = 0; p < high; p++) {
		if (!live(thr, p))
			continue;
		kick_waiters(thr, p);
		wake_again(thr, slot, p);
	}
	shca_commons_wake(thr);
}

/* Frees the dead process's memory and slot. Processes that the dead process was reaping get this one as their reaper first: the
 * slot's next user would seem to be the reaper. */
static void reap_finish(struct shca_thread *thr, uint32_t slot)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high);

	shca_commons_free(thr, slot, true);
	shca_mem_reap(thr->m, slot);
	SHCA_FAILPOINT(thr, "reap-end", NULL, 0);
	for (uint32_t p = 0; p < high; p++)
		if (atomic_load(&thr->m->procs[p].state) == (SHCA_PROC_REAPING | (slot + 1) << 8))
			shca_reap(thr, p);
	shca_proc_reap_end(thr->m, slot);
}

enum stage {
	STAGE_COMMONS, STAGE_PROXIES, STAGE_OWN, STAGE_OTHERS, STAGE_LINKED, STAGE_TURNED, STAGE_LINKS_LEFT, STAGE_CONNECTED,
	STAGE_HIDE, STAGE_COMMONS_LEFT, STAGE_MEMORY,
};

/* A dead process that this thread was elected to clean up after. */
struct shca_reaping {
	struct shca_reaping *next;
	uint32_t slot;
	enum stage stage;
	struct shca_quiesce quiesce;
	bool quiescing;
	struct link *links;
	uint32_t n;
};

/* Begins a quiesce unless one is under way. Returns whether it is over. */
static bool reap_quiet(struct shca_thread *thr, struct shca_reaping *r, uint32_t whose)
{
	if (!r->quiescing && !shca_quiesce_begin(thr, &r->quiesce, whose))
		return false;
	r->quiescing = !shca_quiesced(thr, &r->quiesce);
	return !r->quiescing;
}

/* Does one stage. Returns false if the stage must be tried again. Must: inside the engine. */
static bool do_stage(struct shca_thread *thr, struct shca_reaping *r)
{
	switch (r->stage) {
	case STAGE_COMMONS:
		shca_commons_release(thr, r->slot);
		return true;
	case STAGE_PROXIES:
		return shca_proxy_cancel(thr, r->slot);
	case STAGE_OWN:
		SHCA_FAILPOINT(thr, "reap-own", NULL, 0);
		if (!r->quiescing && finish_own_queues(thr, r->slot, false))
			return true;
		return reap_quiet(thr, r, SHCA_EVERYBODY) && finish_own_queues(thr, r->slot, true);
	case STAGE_OTHERS:
		finish_for_others(thr, r->slot);
		SHCA_FAILPOINT(thr, "reap-links", NULL, 0);
		return links_seen(thr, r->slot, &r->links, &r->n);
	case STAGE_LINKED:
	case STAGE_TURNED:
		if (r->n && !reap_quiet(thr, r, SHCA_NOBODY))
			return false;
		r->n = links_left(thr, r->links, r->n);
		return true;
	case STAGE_LINKS_LEFT:
		if (r->n && !reap_quiet(thr, r, SHCA_NOBODY))
			return false;
		free_links(thr, r->links, r->n);
		return true;
	case STAGE_CONNECTED:
		return shca_commons_fail(thr, r->slot);
	case STAGE_HIDE:
		SHCA_FAILPOINT(thr, "reap-memory", NULL, 0);
		shca_mem_hide(thr->m, r->slot);
		return true;
	case STAGE_COMMONS_LEFT:
		return (!r->quiescing && !shca_commons_ended(thr, r->slot)) || reap_quiet(thr, r, SHCA_NOBODY);
	case STAGE_MEMORY:
		/* threads that found an object of the dead process through a segment of numbers may still access it */
		if (!reap_quiet(thr, r, r->slot))
			return false;
		reap_finish(thr, r->slot);
		return true;
	}
	return true;
}

/* Does stages until one has to wait. Returns whether all are done. */
static bool go_on(struct shca_thread *thr, struct shca_reaping *r)
{
	shca_enter(thr);
	while (r->stage <= STAGE_MEMORY && do_stage(thr, r))
		r->stage++;
	shca_leave(thr);
	return r->stage > STAGE_MEMORY;
}

static void reap_forget(struct shca_reaping *r)
{
	shca_quiesce_end(&r->quiesce);
	free(r->links);
	free(r);
}

bool shca_reap_on(struct shca_thread *thr)
{
	if (thr->in_reap)
		return false;
	thr->in_reap = true;
	/* a reaping that ends may put other reapings at the front of the list (reap_finish) */
	for (struct shca_reaping **p = &thr->reaping, *r; (r = *p);) {
		if (!go_on(thr, r)) {
			p = &r->next;
			continue;
		}
		for (p = &thr->reaping; *p != r; p = &(*p)->next)
			;
		*p = r->next;
		reap_forget(r);
		p = &thr->reaping;
	}
	thr->in_reap = false;
	return thr->reaping != NULL;
}

void shca_reap_give_up(struct shca_thread *thr)
{
	while (thr->reaping) {
		struct shca_reaping *r = thr->reaping;
		thr->reaping = r->next;
		shca_commons_free(thr, r->slot, false);
		shca_proc_reap_give_up(thr->m, r->slot);
		reap_forget(r);
	}
}

void shca_reap(struct shca_thread *thr, uint32_t slot)
{
	struct shca_reaping *r;

	if (slot == thr->m->slot)
		return;
	shca_enter(thr);
	/* without memory the next process that notices the death is elected */
	r = calloc(1, sizeof(*r));
	bool elected = r && shca_proc_reap_begin(thr->m, slot);
	if (elected) {
		SHCA_FAILPOINT(thr, "reap-begin", NULL, 0);
		close_gates(thr, slot);
		r->slot = slot;
		r->next = thr->reaping;
		thr->reaping = r;
		tell_helpers(thr->m);
	} else {
		free(r);
	}
	survivors(thr, slot);
	shca_leave(thr);
	/* A helper thread calls shca_reap_on again later. A joiner tries PATIENCE times: a stopped process may delay a stage,
	 * and then the other processes' helpers find the dead process again. */
	for (uint32_t i = 0; shca_reap_on(thr) && !thr->helper; i++) {
		if (i == PATIENCE && !thr->m->virtual_process) {
			shca_reap_give_up(thr);
			break;
		}
		sched_yield();
	}
}

void shca_proc_sweep(struct shca_thread *thr)
{
	struct shca_member *m = thr->m;
	uint32_t n = atomic_load(&m->hdr->proc_high);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t s = atomic_load(&m->procs[i].state) & 255;
		if (i != m->slot && (s == SHCA_PROC_LIVE || s == SHCA_PROC_REAPING) && !shca_proc_alive(m, i))
			shca_reap(thr, i);
	}
}
