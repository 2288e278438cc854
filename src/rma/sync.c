/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Synchronization of windows (MPI-5.0 section 12.5) but locks.
 *
 *     fence       flush of all targets, then a barrier on the window's communicator
 *     post        adds 1 to `posted` of this process in the state block of every origin of the group
 *     start       waits until every target of the group has posted once more than start has used up
 *     complete    flush of the group, then adds 1 to `completed` of this process in every target's state block
 *     wait, test  until every origin of the group has completed once more
 *
 * Where state blocks are not mapped, the owner adds when the message comes (control.c). A writer wakes an owner that sleeps:
 *
 *     origin                                   owner
 *     member[].completed + 1 (full fence)      asleep + 1 (full fence)
 *     asleep != 0: WAKE                        reads the counters; sleeps
 */
#include "rma/sync.h"

#include <errno.h>

/* ---- fence --------------------------------------------------------------------------------------------------------------- */

int hdl_win_barrier(struct hdl_win *w)
{
	static const struct hdl_coll_args args = { .coll = HDL_BARRIER, .op = MPI_OP_NULL };

	return w->size == 1 ? MPI_SUCCESS : hdl_coll_run(w->comm, &args);
}

int hdl_win_fence(struct hdl_win *w, int assert)
{
	int rc = assert & MPI_MODE_NOPRECEDE ? MPI_SUCCESS : hdl_rma_flush_all(w);
	char why[256];
	int barrier;

	if (!rc) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return hdl_win_barrier(w);
	}
	/* the other members wait in the barrier */
	snprintf(why, sizeof(why), "%s", hdl_reason_take());
	barrier = hdl_win_barrier(w);
	(void)barrier;
	hdl_reason_set("%s", why);
	return rc;
}

/* ---- groups -------------------------------------------------------------------------------------------------------------- */

/* Returns the rank in the window of a rank of a group; -1: no member. */
static int member_of(struct hdl_win *w, const struct hdl_group *g, int rank)
{
	int r = hdl_comm_rank_of(w->comm, hdl_group_proc(g, rank));

	return r == MPI_UNDEFINED ? -1 : r;
}

static int check_group(struct hdl_win *w, const struct hdl_group *g)
{
	for (int i = 0; i < g->size; i++) {
		int r = member_of(w, g, i);

		if (r < 0) {
			hdl_reason_set("invalid group: its rank %d (%s) is no member of the window", i,
				       hdl_proc_text(hdl_group_proc(g, i)));
			return MPI_ERR_GROUP;
		}
		if (!hdl_target_of(w, r))
			return hdl_rma_no_memory("a rank of a window");
	}
	return MPI_SUCCESS;
}

static struct hdl_target *group_target(struct hdl_win *w, const struct hdl_group *g, int i)
{
	return w->target[member_of(w, g, i)];
}

/*
 * Adds 1 to a counter of this process at a member, unless the member has failed. Cannot fail, so that all members of a group get
 * their signal:
 *
 *     1. Rank 0 posts to ranks 1 and 2, of which rank 1 has failed
 *     2. An error at rank 1 would end the call. Rank 2 waits in MPI_Win_start for rank 0, which lives, and so for ever
 *
 * The call that waits for the member, or the flush, returns the error.
 */
static void signal_member(struct hdl_win *w, struct hdl_target *t, bool completed)
{
	struct hdl_win_member *m;

	if (hdl_target_failed(t))
		return;
	if (!t->state) {
		if (hdl_rma_msg_sync(w, t, completed ? HDL_SYNC_COMPLETED : HDL_SYNC_POSTED, 0) == -ENOMEM)
			hdl_out_of_memory("a message to a rank that waits for a window", 1);
		return;
	}
	m = &t->state->member[w->rank];
	__atomic_fetch_add(completed ? &m->completed : &m->posted, 1, __ATOMIC_SEQ_CST);
	hdl_rma_wake(w, t);
}

/* ---- post, start, complete, wait ------------------------------------------------------------------------------------------ */

int hdl_win_post(struct hdl_win *w, struct hdl_group *g, int assert)
{
	int rc = check_group(w, g);

	if (rc)
		return rc;
	w->post_nocheck = assert & MPI_MODE_NOCHECK;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (int i = 0; i < g->size && !w->post_nocheck; i++)
		signal_member(w, group_target(w, g, i), false);
	w->post = hdl_group_retain(g);
	return MPI_SUCCESS;
}

struct group_wait {
	struct hdl_win *w;
	const struct hdl_group *g;
	bool completed;
};

/* Returns the first rank of the group that has not reached the counter yet, failed processes last. -1: all have. *failed: the
 * result's process has failed. */
static int group_missing(const struct group_wait *q, bool *failed)
{
	int dead = -1;

	*failed = false;
	for (int i = 0; i < q->g->size; i++) {
		const struct hdl_target *t = group_target(q->w, q->g, i);
		const struct hdl_win_member *m = &q->w->state->member[t->rank];

		if (q->completed ? __atomic_load_n(&m->completed, __ATOMIC_ACQUIRE) != t->completes :
				   __atomic_load_n(&m->posted, __ATOMIC_ACQUIRE) != t->posts)
			continue;
		if (!hdl_target_failed(t))
			return t->rank;
		dead = t->rank;
	}
	*failed = dead >= 0;
	return dead;
}

static bool group_ready(const void *arg)
{
	bool failed;

	return group_missing(arg, &failed) < 0 || failed;
}

/* Waits for all of the group, and uses the counters up. */
static int group_wait(const struct group_wait *q, const char *what)
{
	bool failed;
	int dead;

	if (!group_ready(q))
		hdl_rma_wait(q->w, group_ready, q);
	dead = group_missing(q, &failed);
	for (int i = 0; i < q->g->size; i++) {
		struct hdl_target *t = group_target(q->w, q->g, i);

		if (!hdl_target_failed(t) || t->rank != dead)
			(*(q->completed ? &t->completes : &t->posts))++;
	}
	return dead < 0 ? MPI_SUCCESS : hdl_rma_dead(q->w, dead, what);
}

int hdl_win_start(struct hdl_win *w, struct hdl_group *g, int assert)
{
	struct group_wait q = { .w = w, .g = g };
	int rc = check_group(w, g);

	if (rc)
		return rc;
	if (!(assert & MPI_MODE_NOCHECK))
		rc = group_wait(&q, "the exposure epoch of");
	/* no epoch begins: the members that have posted wait in MPI_Win_wait for its end */
	for (int i = 0; i < g->size && rc; i++)
		signal_member(w, group_target(w, g, i), true);
	if (rc)
		return rc;
	for (int i = 0; i < g->size; i++)
		group_target(w, g, i)->open = true;
	w->start = hdl_group_retain(g);
	return MPI_SUCCESS;
}

int hdl_win_complete(struct hdl_win *w)
{
	struct hdl_group *g = w->start;
	int rc = MPI_SUCCESS, one;

	w->start = NULL;
	for (int i = 0; i < g->size; i++) {
		struct hdl_target *t = group_target(w, g, i);

		t->open = false;
		one = hdl_rma_flush(w, t);
		rc = rc ? rc : one;
	}
	for (int i = 0; i < g->size; i++)
		signal_member(w, group_target(w, g, i), true);
	hdl_group_release(g);
	return rc;
}

int hdl_win_wait(struct hdl_win *w, int *flag)
{
	struct group_wait q = { .w = w, .g = w->post, .completed = true };
	struct hdl_group *g = w->post;
	int rc;

	w->post = NULL;		/* this thread's: another one may enter while this one waits */
	if (flag) {
		*flag = group_ready(&q);
		if (!*flag) {
			hdl_progress_test();
			*flag = group_ready(&q);
		}
		if (!*flag) {
			w->post = g;
			return MPI_SUCCESS;
		}
	}
	rc = group_wait(&q, "the access epoch of");
	hdl_group_release(g);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return rc;
}
