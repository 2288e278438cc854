/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zombies: the shared parts of destroyed queues that waited for a receive.
 *
 * Such a queue stands on the RNR list of a receive queue (engine/rq.c). All threads push to the list and take from its front,
 * without a lock, so no queue can be taken out of the middle. Emptying the list for each destroyed queue would have all other
 * queues of the list look for a receive and stall again: quadratic when many queues go. So the shared part of the queue stays on
 * the list as a zombie: without a number, without requests. The thread that takes a zombie off runs it in vain, and goes on to
 * the next queue.
 *
 * A zombie also stays in the list of its process's queues, so that a reaper takes it off when this process dies. Zombies that
 * were taken off are freed when other queues are destroyed, two at a time. If too many are left, all lists on which zombies
 * stand are emptied (shca_zombies_clear). That costs as much as there are queues on those lists; the next clear comes after as
 * many further zombies, so the cost of each is constant.
 */
#include <stdlib.h>

#include "shca/verbs/control.h"

#define MAX_ZOMBIES 64u			/* so many may stay in any case */

static struct shca_qp *shared(const struct shca_thread *thr, const struct shca_zombie *h)
{
	return shca_at(thr->base, h->listed.off);
}

/* Takes a zombie out of the list of its process's queues. Must hold node->mutex. The zombie may be freed after a quiesce. */
static void zombie_unlist(struct shca_thread *thr, struct shca_node *node, struct shca_zombie *h)
{
	shca_list_remove(&node->qps, (shca_off *)&thr->m->proc->qp_list, &h->listed);
	shca_number_set(thr->m, shared(thr, h)->qpn, SHCA_KIND_NONE, 0);
}

bool shca_zombie_begin(struct shca_thread *thr, struct shca_node *node, struct shca_zombie *h)
{
	struct shca_qp *sh = shared(thr, h);
	bool stands = atomic_load(&sh->rnr_linked) & 1;

	pthread_mutex_lock(&node->mutex);
	if (!stands)
		zombie_unlist(thr, node, h);
	pthread_mutex_unlock(&node->mutex);
	if (!stands)
		return false;
	shca_number_set(thr->m, sh->qpn, SHCA_KIND_ZOMBIE, h->listed.off);
	/* Without these, threads that visit the queues of this process would fail the zombie for a completion queue's or a
	 * peer's sake, and raise an event that no program can read. */
	__atomic_store_n(&sh->rq, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->rcq, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&sh->scq, 0, __ATOMIC_RELAXED);
	atomic_store_explicit(&sh->peer_proc, 0, memory_order_relaxed);
	return true;
}

void shca_zombie_end(struct shca_thread *thr, struct shca_node *node, struct shca_zombie *h)
{
	struct shca_qp *sh = shared(thr, h);

	atomic_store(&sh->events, 0);
	__atomic_store_n(&sh->wqes, 0, __ATOMIC_RELAXED);
	/* released: the thread that takes the zombie off its list must be able to lock and run it */
	shca_enter(thr);
	shca_qp_unlock(thr, sh);
	shca_leave(thr);
	pthread_mutex_lock(&node->mutex);
	h->next = NULL;
	*(node->zombies.n++ ? &node->zombies.last->next : &node->zombies.first) = h;
	node->zombies.last = h;
	bool many = node->zombies.n > MAX_ZOMBIES && node->zombies.n > node->zombies.beside;
	pthread_mutex_unlock(&node->mutex);
	if (many)
		shca_zombies_clear(thr, node);
}

struct shca_zombie *shca_zombies_done(struct shca_thread *thr, struct shca_node *node)
{
	struct shca_zombies *all = &node->zombies;
	struct shca_zombie *done = NULL;

	pthread_mutex_lock(&node->mutex);
	for (int i = 0; i < 2 && all->n; i++) {
		struct shca_zombie *h = all->first;
		all->first = h->next;
		if (atomic_load(&shared(thr, h)->rnr_linked) & 1) {
			/* the next one's turn */
			h->next = NULL;
			*(all->n > 1 ? &all->last->next : &all->first) = h;
			all->last = h;
			continue;
		}
		all->n--;
		zombie_unlist(thr, node, h);
		h->next = done;
		done = h;
	}
	pthread_mutex_unlock(&node->mutex);
	return done;
}

void shca_zombies_free(struct shca_thread *thr, struct shca_zombie *h)
{
	for (struct shca_zombie *next; h; h = next) {
		next = h->next;
		shca_number_free(thr->m, shared(thr, h)->qpn);
		shca_mem_free(thr->m, h->listed.off, sizeof(struct shca_qp));
		free(h);
	}
}

static void unlink_all(struct shca_thread *thr, const struct shca_zombie *h)
{
	for (; h; h = h->next)
		shca_rnr_unlink(thr, shared(thr, h));
}

void shca_zombies_clear(struct shca_thread *thr, struct shca_node *node)
{
	pthread_mutex_lock(&node->mutex);
	struct shca_zombie *all = node->zombies.first;
	node->zombies = (struct shca_zombies){.beside = node->zombies.beside};
	pthread_mutex_unlock(&node->mutex);
	if (!all)
		return;
	shca_enter(thr);
	unlink_all(thr, all);
	uint32_t beside = thr->todo_n;
	shca_drain(thr);
	shca_leave(thr);
	/* Twice: a thread that was turning the list round puts it back behind the first unlink_all, and another thread may take
	 * it from there, but does not put it back. Behind the second one no living thread has one of these zombies in hands. */
	shca_quiesce(thr, thr->m->slot);
	shca_enter(thr);
	unlink_all(thr, all);
	shca_drain(thr);
	shca_leave(thr);
	pthread_mutex_lock(&node->mutex);
	node->zombies.beside = beside;
	for (struct shca_zombie *h = all; h; h = h->next)
		zombie_unlist(thr, node, h);
	pthread_mutex_unlock(&node->mutex);
	shca_quiesce(thr, thr->m->slot);
	shca_zombies_free(thr, all);
}
