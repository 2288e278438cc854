/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronization of windows (MPI-5.0 section 12.5): checks of arguments and epochs. */
#include "mpi/win.h"

/* Checks an assertion. Returns the code for the program. */
static int check_assert(struct hdl_win *w, const char *call, int assert, int allowed)
{
	if (likely(!(assert & ~allowed)))
		return MPI_SUCCESS;
	return hdl_win_raise(w, MPI_ERR_ASSERT, call, "invalid assert %d: only some of MPI_MODE_* make sense here", assert);
}

static int sync_done(struct hdl_win *w, const char *call, int rc)
{
	return likely(!rc) ? MPI_SUCCESS : hdl_win_raise_class(w, rc, call);
}

int PMPI_Win_fence(int assert, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_fence";
	struct hdl_win *w = hdl_win_get(win);
	int next, rc;

	if (!w)
		return hdl_bad_win(call, win);
	rc = check_assert(w, call, assert, MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED);
	if (rc)
		return rc;
	next = hdl_epoch_next(w->epoch, w->exposed, assert & MPI_MODE_NOSUCCEED ? HDL_CALL_FENCE_LAST : HDL_CALL_FENCE);
	if (next < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_call = call;
	w->epoch = HDL_EPOCH_WAITS;
	rc = hdl_win_fence(w, assert);
	w->epoch = (uint8_t)next;
	w->open_all = false;	/* until the first operation: only then does a fence begin an epoch */
	hdl_win_help(w);
	return sync_done(w, call, rc);
}
HDL_PROFILED(Win_fence);

/* ---- groups ------------------------------------------------------------------------------------------------ */

/* Finds the group of post and start. */
static int group_arg(struct hdl_win *w, const char *call, MPI_Group group, struct hdl_group **g)
{
	*g = hdl_group_get(group);
	if (*g)
		return MPI_SUCCESS;
	return hdl_win_raise(w, MPI_ERR_GROUP, call, "invalid group: handle %p is none, or was freed", (void *)group);
}

/* The checks of MPI_Win_post and MPI_Win_start. Returns the code for the program, or 0 with the epoch that follows. */
static int group_call(struct hdl_win *w, const char *call, MPI_Group group, int assert, int allowed, enum hdl_epoch_call what,
		      struct hdl_group **g, int *next)
{
	int rc = group_arg(w, call, group, g);

	if (!rc)
		rc = check_assert(w, call, assert, allowed);
	if (rc)
		return rc;
	*next = hdl_epoch_next(w->epoch, w->exposed, what);
	if (*next < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_call = call;
	return MPI_SUCCESS;
}

int PMPI_Win_post(MPI_Group group, int assert, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_post";
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_group *g;
	int next, rc;

	if (!w)
		return hdl_bad_win(call, win);
	rc = group_call(w, call, group, assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT, HDL_CALL_POST, &g, &next);
	if (rc)
		return rc;
	rc = hdl_win_post(w, g, assert);
	if (!rc) {
		w->exposed = true;
		w->epoch = (uint8_t)next;
	}
	hdl_win_help(w);
	return sync_done(w, call, rc);
}
HDL_PROFILED(Win_post);

int PMPI_Win_start(MPI_Group group, int assert, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_start";
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_group *g;
	int next, rc;
	uint8_t was;

	if (!w)
		return hdl_bad_win(call, win);
	rc = group_call(w, call, group, assert, MPI_MODE_NOCHECK, HDL_CALL_START, &g, &next);
	if (rc)
		return rc;
	was = w->epoch;
	w->epoch = HDL_EPOCH_WAITS;
	rc = hdl_win_start(w, g, assert);
	w->epoch = rc ? was : (uint8_t)next;
	return sync_done(w, call, rc);
}
HDL_PROFILED(Win_start);

int PMPI_Win_complete(MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_complete";
	struct hdl_win *w = hdl_win_get(win);
	int next, rc;

	if (!w)
		return hdl_bad_win(call, win);
	next = hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_COMPLETE);
	if (next < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_call = call;
	w->epoch = HDL_EPOCH_WAITS;
	rc = hdl_win_complete(w);
	w->epoch = (uint8_t)next;
	return sync_done(w, call, rc);
}
HDL_PROFILED(Win_complete);

static int win_wait(const char *call, MPI_Win win, bool test, int *flag)
{
	struct hdl_win *w = hdl_win_get(win);
	int rc;

	if (!w)
		return hdl_bad_win(call, win);
	if (test && !flag)
		return hdl_win_raise(w, MPI_ERR_ARG, call, "invalid flag: it is a null pointer");
	if (hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_WAIT) < 0)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "not allowed now: no exposure epoch of MPI_Win_post is open");
	if (!w->post)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call,
				     "not allowed now: another thread waits for the end of the exposure epoch");
	hdl_call = call;
	rc = hdl_win_wait(w, test ? flag : NULL);
	w->exposed = w->post != NULL;
	return sync_done(w, call, rc);
}

int PMPI_Win_wait(MPI_Win win)
{
	HDL_LOCKED;
	return win_wait("MPI_Win_wait", win, false, NULL);
}
HDL_PROFILED(Win_wait);

int PMPI_Win_test(MPI_Win win, int *flag)
{
	HDL_LOCKED;
	return win_wait("MPI_Win_test", win, true, flag);
}
HDL_PROFILED(Win_test);

/* ---- locks ------------------------------------------------------------------------------------------------- */

static cold int locked_already(struct hdl_win *w, const char *call, int rank)
{
	return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call,
			     "rank %d is locked by this process already, or a thread waits for its lock", rank);
}

/*
 * Threads may hold locks of different targets. MPI_Win_lock and MPI_Win_unlock open the library's lock while they wait, and other
 * threads lock and unlock meanwhile: so the epoch follows from `locks` as it is behind the wait.
 *
 *     1. Thread A unlocks rank 1, and waits for its puts; `locks` is 1
 *     2. Thread B locks rank 2: `locks` is 2
 *     3. A's wait ends. The epoch that A found to be the last one would be closed under B
 */
int PMPI_Win_lock(int lock_type, int rank, int assert, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_lock";
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_target *t;
	int next, rc;
	uint8_t was;

	if (unlikely(!w))
		return hdl_bad_win(call, win);
	if (lock_type != MPI_LOCK_EXCLUSIVE && lock_type != MPI_LOCK_SHARED)
		return hdl_win_raise(w, MPI_ERR_LOCKTYPE, call,
				     "invalid lock_type %d: neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED", lock_type);
	if (rank < 0 || rank >= w->size)
		return hdl_win_bad_rank(w, call, "rank", rank);
	rc = check_assert(w, call, assert, MPI_MODE_NOCHECK);
	if (rc)
		return rc;
	next = hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_LOCK);
	if (next < 0)
		return hdl_win_bad_epoch(w, call);
	if (w->hints & HDL_WIN_NO_LOCKS)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "the window's info says no_locks");
	t = hdl_target_of(w, rank);
	if (!t)
		return hdl_win_raise(w, MPI_ERR_NO_MEM, call, "out of memory for a rank of a window");
	if (t->held)
		return locked_already(w, call, rank);
	hdl_call = call;
	was = w->epoch;
	w->locks++;
	w->epoch = (uint8_t)next;
	rc = hdl_win_lock(w, t, lock_type, assert);
	if (unlikely(rc)) {
		if (!--w->locks)
			w->epoch = was == HDL_EPOCH_LOCKED ? HDL_EPOCH_NONE : was;
		return hdl_win_raise_class(w, rc, call);
	}
	t->open = true;
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_lock);

int PMPI_Win_unlock(int rank, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_unlock";
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_target *t;
	int rc, unlocked;

	if (unlikely(!w))
		return hdl_bad_win(call, win);
	if (rank < 0 || rank >= w->size)
		return hdl_win_bad_rank(w, call, "rank", rank);
	if (hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_UNLOCK) < 0)
		return hdl_win_bad_epoch(w, call);
	t = w->target[rank];
	if (!t || t->held <= HDL_HELD_AWAITED)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "rank %d is not locked by this process", rank);
	hdl_call = call;
	rc = hdl_rma_flush(w, t);
	unlocked = hdl_win_unlock(w, t);
	t->open = false;
	if (!--w->locks)
		w->epoch = (uint8_t)hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_UNLOCK_LAST);
	return sync_done(w, call, rc ? rc : unlocked);
}
HDL_PROFILED(Win_unlock);

static int unlock_all(struct hdl_win *w, int below)
{
	int rc = MPI_SUCCESS;

	for (int r = 0; r < below; r++) {
		int one = hdl_win_unlock(w, w->target[r]);

		rc = rc ? rc : one;
	}
	return rc;
}

int PMPI_Win_lock_all(int assert, MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_lock_all";
	struct hdl_win *w = hdl_win_get(win);
	int next, rc;
	uint8_t was;

	if (!w)
		return hdl_bad_win(call, win);
	rc = check_assert(w, call, assert, MPI_MODE_NOCHECK);
	if (rc)
		return rc;
	next = hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_LOCK_ALL);
	if (next < 0)
		return hdl_win_bad_epoch(w, call);
	if (w->hints & HDL_WIN_NO_LOCKS)
		return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "the window's info says no_locks");
	hdl_call = call;
	was = w->epoch;
	w->epoch = HDL_EPOCH_WAITS;
	for (int r = 0; r < w->size; r++) {
		struct hdl_target *t = hdl_target_of(w, r);

		rc = t ? hdl_win_lock(w, t, MPI_LOCK_SHARED, assert) : hdl_rma_no_memory("a rank of a window");
		if (rc) {
			char why[256];

			snprintf(why, sizeof(why), "%s", hdl_reason_take());
			unlock_all(w, r);
			w->epoch = was;
			return hdl_win_raise(w, rc, call, "%s", why);
		}
	}
	w->open_all = true;
	w->epoch = (uint8_t)next;
	hdl_win_help(w);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_lock_all);

int PMPI_Win_unlock_all(MPI_Win win)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Win_unlock_all";
	struct hdl_win *w = hdl_win_get(win);
	int next, rc, unlocked;

	if (!w)
		return hdl_bad_win(call, win);
	next = hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_UNLOCK_ALL);
	if (next < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_call = call;
	w->epoch = HDL_EPOCH_WAITS;
	rc = hdl_rma_flush_all(w);
	unlocked = unlock_all(w, w->size);
	w->open_all = false;
	w->epoch = (uint8_t)next;
	return sync_done(w, call, rc ? rc : unlocked);
}
HDL_PROFILED(Win_unlock_all);

/* ---- flush ------------------------------------------------------------------------------------------------- */

static cold int flush_refused(const char *call, int rank, MPI_Win win)
{
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (rank < 0 || rank >= w->size)
		return hdl_win_bad_rank(w, call, "rank", rank);
	if (hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_FLUSH) < 0)
		return hdl_win_bad_epoch(w, call);
	return hdl_win_raise(w, MPI_ERR_RMA_SYNC, call, "rank %d is not locked by this process", rank);
}

/* Local completion is completion: an operation that is complete at its target has no local part any more. */
static inline __attribute__((always_inline)) int win_flush(const char *call, int rank, MPI_Win win)
{
	struct hdl_win *w = hdl_win_get(win);
	struct hdl_target *t;

	if (unlikely(!w || (unsigned)rank >= (unsigned)w->size || !(t = w->target[rank]) || t->held <= HDL_HELD_AWAITED))
		return flush_refused(call, rank, win);
	hdl_rma_turn(w);
	if (likely(!t->pending && !t->error && !hdl_target_failed(t))) {
		/* as in hdl_rma_flush */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return MPI_SUCCESS;
	}
	hdl_call = call;
	return sync_done(w, call, hdl_rma_flush(w, t));
}

int PMPI_Win_flush(int rank, MPI_Win win)
{
	HDL_LOCKED;
	return win_flush("MPI_Win_flush", rank, win);
}
HDL_PROFILED(Win_flush);

int PMPI_Win_flush_local(int rank, MPI_Win win)
{
	HDL_LOCKED;
	return win_flush("MPI_Win_flush_local", rank, win);
}
HDL_PROFILED(Win_flush_local);

static int flush_all(const char *call, MPI_Win win)
{
	struct hdl_win *w = hdl_win_get(win);

	if (!w)
		return hdl_bad_win(call, win);
	if (hdl_epoch_next(w->epoch, w->exposed, HDL_CALL_FLUSH) < 0)
		return hdl_win_bad_epoch(w, call);
	hdl_rma_turn(w);
	hdl_call = call;
	return sync_done(w, call, hdl_rma_flush_all(w));
}

int PMPI_Win_flush_all(MPI_Win win)
{
	HDL_LOCKED;
	return flush_all("MPI_Win_flush_all", win);
}
HDL_PROFILED(Win_flush_all);

int PMPI_Win_flush_local_all(MPI_Win win)
{
	HDL_LOCKED;
	return flush_all("MPI_Win_flush_local_all", win);
}
HDL_PROFILED(Win_flush_local_all);

int PMPI_Win_sync(MPI_Win win)
{
	HDL_LOCKED;
	struct hdl_win *w = hdl_win_get(win);

	if (unlikely(!w))
		return hdl_bad_win("MPI_Win_sync", win);
	hdl_rma_turn(w);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return MPI_SUCCESS;
}
HDL_PROFILED(Win_sync);
