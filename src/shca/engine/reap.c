/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a dead process leaves behind.
 *
 * Two parts. Every process that was connected to it looks after its own queues (survivors). One of them, elected by a
 * CAS on the process slot, looks after the rest: queues that the dead one was executing for others, receives that it had
 * taken, wake-ups that it owed, its memory. Each step may be repeated: a reaper may die too, and its successor begins
 * again.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "shca/engine/engine.h"

#define L_STATE(w) ((uint32_t)(w)&3)
#define L_THREAD(w) ((uint32_t)((w) >> 3) & 0x1fffff)

#define for_each_qp(cpu, qp, proc_slot) shca_for_each_qp((cpu)->m, qp, proc_slot)

static bool thread_of(struct shca_cpu *cpu, uint32_t thread, uint32_t slot)
{
	return atomic_load(&cpu->m->threads[thread].owner) == slot + 1;
}

static bool live(struct shca_cpu *cpu, uint32_t slot)
{
	return (atomic_load(&cpu->m->procs[slot].state) & 0xff) == SHCA_PROC_LIVE;
}

/* The dead one's own queues answer nobody and run no more. */
static void close_gates(struct shca_cpu *cpu, uint32_t slot)
{
	for_each_qp(cpu, qp, slot) {
		uint16_t none = 0;
		atomic_store(&qp->gate, SHCA_GATE_DEAD | SHCA_GATE_ERR);
		atomic_compare_exchange_strong(&qp->fail, &none, IBV_WC_WR_FLUSH_ERR + 1);
	}
	shca_withdraw(cpu->m, slot);
}

/* The dead one's queues: whoever alive runs one of them leaves it soon, because it has failed. */
static void finish_own_queues(struct shca_cpu *cpu, uint32_t slot)
{
	for_each_qp(cpu, qp, slot) {
		uint64_t w;
		while (L_STATE(w = atomic_load(&qp->lock)) != SHCA_L_FREE && !thread_of(cpu, L_THREAD(w), slot)) {
			uint32_t owner = atomic_load(&cpu->m->threads[L_THREAD(w)].owner);
			if (L_THREAD(w) == cpu->slot || (owner && !shca_proc_alive(cpu->m, owner - 1)))
				break;
			/* I may hold others locked myself, that one's thread might wait for */
			shca_drain(cpu);
			if (!shca_steal(cpu, shca_off_of(cpu->m, qp)))
				sched_yield();
		}
		shca_release_receive(cpu, qp);
		shca_rnr_unlink(cpu, qp);
	}
}

/* A queue of a survivor that the dead one was executing. */
static void take_over(struct shca_cpu *cpu, struct shca_qp *qp)
{
	/* A DIRECT queue's journal is its owner's, who is at work: he has posted nothing here. Posted first: see run.c. */
	uint64_t posted = atomic_load(&qp->posted), head = atomic_load(&qp->head);

	if (head < posted && shca_step_of(qp) == SHCA_STEP_FINAL) {
		/* the last line of a write, or an atomic, may have happened or not: nobody may guess */
		shca_qp_event(cpu, qp, IBV_EVENT_QP_FATAL);
		shca_fail_head(cpu, qp, IBV_WC_FATAL_ERR);
	}
	shca_qp_unlock(cpu, qp);
}

static void finish_foreign_queues(struct shca_cpu *cpu, uint32_t slot)
{
	uint32_t high = atomic_load(&cpu->m->hdr->proc_high);

	for (uint32_t p = 0; p < high; p++) {
		if (p == slot || !live(cpu, p))
			continue;
		for_each_qp(cpu, qp, p) {
			uint64_t w = atomic_load(&qp->lock);
			if (L_STATE(w) != SHCA_L_FREE && thread_of(cpu, L_THREAD(w), slot) &&
			    shca_qp_take_over(cpu, qp, w))
				take_over(cpu, qp);
		}
	}
}

/* Completions that the dead one put in, whose waiters it may not have looked at: every waiter looks again. Receives that
 * it was to flush. */
static void kick_waiters(struct shca_cpu *cpu, uint32_t p)
{
	for_each_qp(cpu, qp, p)
		if (atomic_load(&qp->fail) || atomic_load(&qp->peer_dead) ||
		    (atomic_load(&qp->shared) && atomic_load(&qp->head) < atomic_load(&qp->posted)))
			shca_kick(cpu, shca_off_of(cpu->m, qp));
	shca_drain(cpu);
}

/* The ring that the dead one, or a thread that is gone, owes for this CQ's event. */
static void adopt_ring(struct shca_cpu *cpu, struct shca_cq *cq, uint32_t slot)
{
	uint64_t w = atomic_load(&cq->notify);
	uint32_t by = SHCA_CQ_EVENT_BY(w), state = w & SHCA_CQ_EVENT;

	if ((state == SHCA_CQ_EVENT_OWED || state == SHCA_CQ_EVENT_LOST) && by < SHCA_MAX_THREADS &&
	    (thread_of(cpu, by, slot) || !atomic_load(&cpu->m->threads[by].owner)) && shca_ring_adopt(cpu, cq, w))
		shca_wake_note(cpu, SHCA_WAKE_CHANNEL, shca_off_of(cpu->m, cq));
}

/* Events that the dead one (slot) may have raised for process p, or made due, without telling. */
static void wake_again(struct shca_cpu *cpu, uint32_t slot, uint32_t p)
{
	struct shca_member *m = cpu->m;
	struct shca_proc_slot *proc = &m->procs[p];
	bool events = atomic_load(&proc->async_pending);

	for (struct shca_cq *cq = shca_at_checked(m, proc->cq_list, sizeof(*cq)); cq;
	     cq = shca_at_checked(m, __atomic_load_n(&cq->next, __ATOMIC_ACQUIRE), sizeof(*cq))) {
		if (shca_cq_in_error(cq))
			shca_cq_fail_users(cpu, cq);
		if (atomic_load(&cq->notify) & SHCA_CQ_ARMED && shca_cq_count(cpu, cq) > atomic_load(&cq->ci))
			shca_cq_notice_again(cpu, cq);
		adopt_ring(cpu, cq, slot);
		events |= (atomic_load(&cq->error) & SHCA_ERROR_EVENT) != 0;
	}
	for (struct shca_rq *rq = shca_at_checked(m, proc->srq_list, sizeof(*rq)); rq;
	     rq = shca_at_checked(m, __atomic_load_n(&rq->next, __ATOMIC_ACQUIRE), sizeof(*rq))) {
		shca_rq_notice_returned(cpu, rq);
		events |= (atomic_load(&rq->limit) & SHCA_LIMIT_EVENT) || (atomic_load(&rq->error) & SHCA_ERROR_EVENT);
	}
	for_each_qp(cpu, qp, p) {
		struct shca_rq *rq = shca_at_checked(m, qp->rq, sizeof(*rq));
		if (rq)
			shca_rq_notice_returned(cpu, rq);
		events |= atomic_load(&qp->events) != 0;
	}
	/* none where there is nothing to read: poll(2) would lie */
	if (events)
		shca_async_wake(cpu, p);
	/* it may have taken the flag down and woken nobody */
	atomic_store(&proc->sleepers, 1);
	shca_wake_note(cpu, SHCA_WAKE_FUTEX, p);
	shca_drain(cpu);
}

/* My queues that were connected to it: the first request outstanding, or the next one posted, gets RETRY_EXC; whoever
 * only receives gets an event and its receives back. */
static void survivors(struct shca_cpu *cpu, uint32_t slot)
{
	/* the slot may have a new tenant: then those that were connected to an earlier one are meant */
	uint32_t tenant = live(cpu, slot) && shca_proc_alive(cpu->m, slot) ?
				  (slot + 1) | atomic_load(&cpu->m->procs[slot].gen) << 16 : 0;

	for_each_qp(cpu, qp, cpu->m->slot) {
		if ((qp->peer_proc & 0xffff) != slot + 1 || qp->peer_proc == tenant || atomic_load(&qp->peer_dead))
			continue;
		/* an unreliable connection does not learn of it, as on a wire */
		if (atomic_load(&qp->gate) & SHCA_GATE_ERR || qp->type == IBV_QPT_UC)
			continue;
		atomic_store(&qp->peer_dead, 1);
		atomic_store(&qp->gate, SHCA_GATE_ERR);
		shca_withdraw(cpu->m, cpu->m->slot);
		shca_qp_event(cpu, qp, IBV_EVENT_QP_FATAL);
		shca_kick(cpu, shca_off_of(cpu->m, qp));
		shca_drain(cpu);
	}
}

/* Locks of atomics on private memory, and bells of divided copies. Its successors in the thread slots would seem to hold
 * them for ever. */
static void release_words(struct shca_cpu *cpu, uint32_t slot)
{
	uint32_t high = atomic_load(&cpu->m->hdr->proc_high);

	for (uint32_t p = 0; p < high; p++) {
		uint32_t holder = atomic_load(&cpu->m->procs[p].share);
		if (holder && thread_of(cpu, holder - 1, slot))
			atomic_compare_exchange_strong(&cpu->m->procs[p].share, &holder, 0);
	}
	for (unsigned i = 0; i < 256; i++) {
		uint32_t holder = atomic_load(&cpu->m->hdr->atomic_locks[i]);
		if (holder && thread_of(cpu, holder - 1, slot))
			atomic_compare_exchange_strong(&cpu->m->hdr->atomic_locks[i], &holder, 0);
	}
}

/*
 * Queues that stand on a list which a thread took to kick them (rq.c), and which died with it: nobody would ever kick
 * them, and they cannot be linked again. Such a link is told from one in use thus: it is seen; after a quiesce, whoever
 * made it has put the queue on its list, or died; the list is emptied, and after another quiesce whoever took it before
 * that has done with it, or died. Then a link that is still the same is nobody's.
 */
struct link {
	uint32_t qpn, link;
};

static struct link *links_seen(struct shca_cpu *cpu, uint32_t *n)
{
	uint32_t high = atomic_load(&cpu->m->hdr->proc_high), cap = 0;
	struct link *links = NULL;

	*n = 0;
	for (uint32_t p = 0; p < high; p++) {
		if (!live(cpu, p))
			continue;
		for_each_qp(cpu, qp, p) {
			uint32_t link = shca_rnr_unlink(cpu, qp);
			if (!link)
				continue;
			if (*n == cap) {
				struct link *more = realloc(links, (cap ? 2 * cap : 16) * sizeof(*more));
				if (!more)
					break;	/* timers will run the rest */
				links = more;
				cap = cap ? 2 * cap : 16;
			}
			links[(*n)++] = (struct link){.qpn = qp->qpn, .link = link};
		}
		shca_drain(cpu);
	}
	return links;
}

/* Of these links, those that are still the same, their lists emptied once more. */
static uint32_t links_left(struct shca_cpu *cpu, struct link *links, uint32_t n)
{
	uint32_t left = 0;

	shca_enter(cpu);
	for (uint32_t i = 0; i < n; i++) {
		struct shca_qp *qp = shca_number_get(cpu->m, links[i].qpn, SHCA_KIND_QP);
		if (qp && shca_rnr_unlink(cpu, qp) == links[i].link)
			links[left++] = links[i];
	}
	shca_drain(cpu);
	shca_leave(cpu);
	return left;
}

static void free_links(struct shca_cpu *cpu, struct link *links, uint32_t n)
{
	if (n) {
		shca_quiesce(cpu);
		n = links_left(cpu, links, n);
	}
	if (n) {
		shca_quiesce(cpu);
		shca_enter(cpu);
		for (uint32_t i = 0; i < n; i++) {
			struct shca_qp *qp = shca_number_get(cpu->m, links[i].qpn, SHCA_KIND_QP);
			if (qp)
				shca_rnr_lost(cpu, qp, links[i].link);
		}
		shca_drain(cpu);
		shca_leave(cpu);
	}
	free(links);
}

static void clean_up(struct shca_cpu *cpu, uint32_t slot)
{
	uint32_t n, high = atomic_load(&cpu->m->hdr->proc_high);

	SHCA_FAILPOINT(cpu, "reap-own", NULL, 0);
	finish_own_queues(cpu, slot);
	SHCA_FAILPOINT(cpu, "reap-foreign", NULL, 0);
	finish_foreign_queues(cpu, slot);
	shca_drain(cpu);
	SHCA_FAILPOINT(cpu, "reap-waiters", NULL, 0);
	release_words(cpu, slot);
	for (uint32_t p = 0; p < high; p++) {
		if (!live(cpu, p))
			continue;
		kick_waiters(cpu, p);
		wake_again(cpu, slot, p);
	}
	SHCA_FAILPOINT(cpu, "reap-links", NULL, 0);
	struct link *links = links_seen(cpu, &n);
	shca_leave(cpu);
	free_links(cpu, links, n);
	SHCA_FAILPOINT(cpu, "reap-memory", NULL, 0);
	shca_mem_reap(cpu, slot);
	SHCA_FAILPOINT(cpu, "reap-end", NULL, 0);
	/* Whom it was reaping itself: when its slot has a next user, that one would seem to be at it. */
	for (uint32_t p = 0; p < high; p++)
		if (atomic_load(&cpu->m->procs[p].state) == (SHCA_PROC_REAPING | (slot + 1) << 8))
			shca_reap(cpu, p);
	shca_proc_reap_end(cpu->m, slot);
	shca_enter(cpu);
}

void shca_departed(struct shca_cpu *cpu)
{
	shca_enter(cpu);
	kick_waiters(cpu, cpu->m->slot);
	shca_leave(cpu);
}

void shca_reap(struct shca_cpu *cpu, uint32_t slot)
{
	if (slot == cpu->m->slot)
		return;
	shca_enter(cpu);
	bool elected = shca_proc_reap_begin(cpu->m, slot);
	if (elected) {
		SHCA_FAILPOINT(cpu, "reap-begin", NULL, 0);
		close_gates(cpu, slot);
		shca_respond_cancel(cpu, slot);
	}
	survivors(cpu, slot);
	if (elected)
		clean_up(cpu, slot);
	shca_leave(cpu);
}
