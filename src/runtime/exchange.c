/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys, values and fences between ranks, by PMIx. A rank that never comes must not hang the other ranks: each wait for another
 * rank is bounded, and the error names that rank.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/home.h"
#include "base/stack.h"
#include "runtime/exchange.h"
#include "runtime/pmix_fds.h"
#include "runtime/watchdog.h"

struct hdl_job hdl_job;
pmix_proc_t hdl_rt_me;
bool hdl_rt_joined;
unsigned hdl_rt_epoch;
bool hdl_rt_by_heddlerun;
static unsigned fences;

const char *hdl_rt_server_uri(void)
{
	static const char *const vars[] = { "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
					    "PMIX_SERVER_URI21", "PMIX_SERVER_URI2" };

	for (size_t i = 0; i < sizeof vars / sizeof vars[0]; i++)
		if (getenv(vars[i]))
			return getenv(vars[i]);
	return "none named in PMIX_SERVER_URI*";
}

pmix_status_t hdl_rt_pmix_init(void)
{
	unsigned reserved = fd_reserve();
	size_t stack = stack_raise();
	pmix_status_t rc;
	bool home;

	home = home_lend();
	rc = PMIx_Init(&hdl_rt_me, NULL, 0);
	home_take_back(home);
	stack_restore(stack);
	fd_release(reserved);
	return rc;
}

/* ---- waiting for PMIx, bounded ----------------------------------------------------------------------------- */

/* Shared with PMIx's thread. A thread that gives up leaves the struct to the callback, which may come at any later
 * time. */
struct waiter {
	pthread_mutex_t lock;
	pthread_cond_t done_cond;
	int refs;
	bool done;
	pmix_status_t status;
	void *data;
	size_t len;
};

static struct waiter *waiter_new(void)
{
	struct waiter *w = calloc(1, sizeof *w);
	pthread_condattr_t attr;

	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->done_cond, &attr);
	pthread_condattr_destroy(&attr);
	w->refs = 2;
	return w;
}

static void waiter_put(struct waiter *w)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	last = --w->refs == 0;
	pthread_mutex_unlock(&w->lock);
	if (!last)
		return;
	pthread_cond_destroy(&w->done_cond);
	pthread_mutex_destroy(&w->lock);
	free(w->data);
	free(w);
}

static void waiter_done(struct waiter *w, pmix_status_t status)
{
	pthread_mutex_lock(&w->lock);
	w->status = status;
	w->done = true;
	pthread_cond_signal(&w->done_cond);
	pthread_mutex_unlock(&w->lock);
	waiter_put(w);
}

static void fence_done(pmix_status_t status, void *arg)
{
	waiter_done(arg, status);
}

static void value_done(pmix_status_t status, pmix_value_t *value, void *arg)
{
	struct waiter *w = arg;

	if (status == PMIX_SUCCESS) {
		if (!value || value->type != PMIX_BYTE_OBJECT) {
			status = PMIX_ERR_TYPE_MISMATCH;
		} else {
			w->len = value->data.bo.size;
			w->data = malloc(w->len ? w->len : 1);
			if (!w->data)
				status = PMIX_ERR_NOMEM;
			else if (w->len)
				memcpy(w->data, value->data.bo.bytes, w->len);
		}
	}
	waiter_done(w, status);
}

/* Until done, or until the clock passes deadline (0: for ever). */
static bool waiter_wait(struct waiter *w, uint64_t deadline)
{
	struct timespec t = { (time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u) };
	int err = 0;
	bool done;

	pthread_mutex_lock(&w->lock);
	while (!w->done && err != ETIMEDOUT)
		err = deadline ? pthread_cond_timedwait(&w->done_cond, &w->lock, &t)
			       : pthread_cond_wait(&w->done_cond, &w->lock);
	done = w->done;
	pthread_mutex_unlock(&w->lock);
	return done;
}

static uint64_t init_deadline(void)
{
	return hdl_vars.init_timeout ? monotonic_ns() + hdl_vars.init_timeout * 1000 : 0;
}

pmix_proc_t hdl_rt_proc(pmix_rank_t rank)
{
	pmix_proc_t proc = hdl_rt_me;

	proc.rank = rank;
	return proc;
}

/* ---- key, value, fence ------------------------------------------------------------------------------------------ */

int hdl_rt_put(const char *key, const void *data, size_t len)
{
	pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
	pmix_status_t rc;

	if (!hdl_rt_joined)
		return 0;	/* alone: no process reads the value */
	value.data.bo.bytes = (char *)data;
	value.data.bo.size = len;
	hdl_pmix_fds_check("PMIx_Put");
	rc = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (rc == PMIX_SUCCESS)
		return 0;
	hdl_error("PMIx_Put of %s (%zu bytes): %s", key, len, PMIx_Error_string(rc));
	return rc == PMIX_ERR_NOMEM ? -ENOMEM : -EIO;
}

int hdl_rt_commit(void)
{
	pmix_status_t rc;

	if (!hdl_rt_joined)
		return 0;
	hdl_pmix_fds_check("PMIx_Commit");
	hdl_watch("publishing this rank's addresses (PMIx_Commit; bounded by HEDDLE_INIT_TIMEOUT)", hdl_vars.init_timeout, 1);
	rc = PMIx_Commit();
	hdl_watch_end();
	if (rc == PMIX_SUCCESS)
		return 0;
	hdl_error("PMIx_Commit: %s", PMIx_Error_string(rc));
	return -EIO;
}

static void sleep_ms(unsigned ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

/* One question. seconds: how long the server may hold the request back; 0: the server answers at once. On success *data
 * is the caller's. */
static pmix_status_t exchange_ask(const char *nspace, int rank, const char *key, uint32_t seconds, uint64_t deadline,
				  void **data, size_t *len)
{
	pmix_proc_t proc = hdl_rt_proc((pmix_rank_t)rank);
	struct waiter *w = waiter_new();
	pmix_status_t rc = PMIX_ERR_TIMEOUT;
	pmix_info_t how;

	if (!w)
		return PMIX_ERR_NOMEM;
	if (nspace)
		PMIX_LOAD_NSPACE(proc.nspace, nspace);
	if (seconds)
		PMIX_INFO_LOAD(&how, PMIX_TIMEOUT, &seconds, PMIX_UINT32);
	else
		PMIX_INFO_LOAD(&how, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
	hdl_pmix_fds_check("PMIx_Get_nb");
	rc = PMIx_Get_nb(&proc, key, &how, 1, value_done, w);
	PMIX_INFO_DESTRUCT(&how);
	if (rc != PMIX_SUCCESS) {	/* the callback will not come */
		waiter_put(w);
	} else if (!waiter_wait(w, deadline)) {
		rc = PMIX_ERR_TIMEOUT;
	} else {
		rc = w->status;
		*data = w->data;
		*len = w->len;
		w->data = NULL;
	}
	waiter_put(w);
	return rc;
}

int hdl_rt_get(int rank, const char *key, void **data, size_t *len)
{
	return hdl_rt_get_of(NULL, rank, key, data, len);
}

/* Returns for how many seconds the server may hold a question back, of `left`. A server that has been left by a rank
 * answers no question for that rank that was asked before the rank joined again: then the question is asked often. */
static uint32_t held_for(int rank, uint32_t left)
{
	return !hdl_rt_epoch ? left : hdl_is_local(rank) ? 0 : 1;
}

int hdl_rt_get_of(const char *nspace, int rank, const char *key, void **data, size_t *len)
{
	uint64_t deadline = init_deadline();
	pmix_status_t rc = PMIX_ERR_TIMEOUT;
	unsigned pause_ms = 1;
	size_t heap = hdl_ledger_heap_now();

	*data = NULL;
	*len = 0;
	if (!hdl_rt_joined) {
		hdl_error("%s of rank %d was asked for, but this process is alone", key, rank);
		return -ENOTCONN;
	}
	/* The server answers when the rank commits, whether or not the key was committed, or when the server's own time
	 * is up: so "not found" means "not yet" until the deadline. */
	for (;;) {
		uint64_t now = monotonic_ns(), left = deadline > now ? deadline - now : 0;

		if (deadline && !left)
			break;
		rc = exchange_ask(nspace, rank, key, held_for(rank, deadline ? (uint32_t)(left / 1000000000u + 1) : 3600),
				  deadline, data, len);
		if (rc == PMIX_SUCCESS) {
			hdl_ledger_heap_since("heap: libpmix, other ranks' addresses", heap + *len);
			return 0;
		}
		if (rc != PMIX_ERR_NOT_FOUND && rc != PMIX_ERR_TIMEOUT && rc != PMIX_ERR_NOT_AVAILABLE)
			break;
		sleep_ms(pause_ms);
		pause_ms = pause_ms < 50 ? pause_ms * 2 : 50;
	}
	if (rc == PMIX_ERR_NOMEM) {
		hdl_error("no memory to fetch %s of rank %d", key, rank);
		return -ENOMEM;
	}
	if (deadline && monotonic_ns() >= deadline) {
		hdl_error("rank %d has not published %s within %g s (HEDDLE_INIT_TIMEOUT): it has not come to MPI_Init, is "
			  "stopped, or is not a Heddle program", rank, key, (double)hdl_vars.init_timeout / 1e6);
		return -ETIMEDOUT;
	}
	hdl_error("%s of rank %d cannot be had (PMIx_Get: %s)", key, rank, PMIx_Error_string(rc));
	return -EIO;
}

/* Names the ranks that did not leave their mark for this fence. */
static void name_absent(const char *mark)
{
	char list[256] = "";
	int absent = 0;

	for (int r = 0; r < hdl_job.size; r++) {
		bool remote = !hdl_is_local(r);
		uint32_t seconds = remote ? 1 : 0;	/* another host's server has to be asked */
		void *data = NULL;
		size_t len;

		if (r == hdl_job.rank ||
		    exchange_ask(NULL, r, mark, seconds, monotonic_ns() + 2000000000u, &data, &len) == PMIX_SUCCESS) {
			free(data);
			continue;
		}
		if (absent++ < 16) {
			size_t used = strlen(list);

			snprintf(list + used, sizeof list - used, "%s%d", used ? ", " : "", r);
		}
	}
	hdl_error("start-up waited longer than %g s (HEDDLE_INIT_TIMEOUT) for %d of %d ranks: rank %s%s: not in MPI_Init yet, "
		  "stopped, or not a Heddle program", (double)hdl_vars.init_timeout / 1e6, absent, hdl_job.size,
		  absent ? list : "none by its marks; the launcher's PMIx server is at fault", absent > 16 ? ", ..." : "");
}

static int fence_result(pmix_status_t rc)
{
	if (rc == PMIX_SUCCESS)
		return 0;
	if (rc == PMIX_ERR_PARTIAL_SUCCESS || rc == PMIX_ERR_LOST_CONNECTION || rc == PMIX_ERR_PROC_TERM_WO_SYNC)
		hdl_error("another rank has ended before it came to where all ranks meet (PMIx_Fence: %s)",
			  PMIx_Error_string(rc));
	else
		hdl_error("the ranks cannot meet (PMIx_Fence: %s)", PMIx_Error_string(rc));
	return -EIO;
}

/* 0: under way, *out is the caller's; 1: complete at once; or a negative errno. */
static int fence_begin(struct waiter **out)
{
	struct waiter *w = waiter_new();
	pmix_status_t rc;

	if (!w) {
		hdl_error("no memory for a fence");
		return -ENOMEM;
	}
	hdl_pmix_fds_check("PMIx_Fence_nb");
	rc = PMIx_Fence_nb(NULL, 0, NULL, 0, fence_done, w);
	*out = w;
	if (rc == PMIX_SUCCESS)
		return 0;
	waiter_put(w);		/* the callback will not come */
	waiter_put(w);
	*out = NULL;
	return rc == PMIX_OPERATION_SUCCEEDED ? 1 : fence_result(rc);
}

static struct waiter *last_fence;

int hdl_rt_fence_begin(void)
{
	int err;

	if (!hdl_rt_joined || hdl_job.size == 1)
		return 0;
	err = fence_begin(&last_fence);
	return err < 0 ? err : 0;
}

int hdl_rt_fence_wait(uint64_t timeout_us)
{
	pmix_status_t rc;

	if (!last_fence)
		return 1;
	if (!waiter_wait(last_fence, monotonic_ns() + timeout_us * 1000))
		return 0;
	rc = last_fence->status;
	waiter_put(last_fence);
	last_fence = NULL;
	return rc == PMIX_SUCCESS ? 1 : fence_result(rc);
}

int hdl_rt_fence(void)
{
	struct waiter *w;
	pmix_status_t rc;
	char mark[32];
	int err;

	if (!hdl_rt_joined || hdl_job.size == 1)
		return 0;
	/* A fence does not name the missing rank, a key of each rank does. */
	snprintf(mark, sizeof mark, "hdl.fence.%u", fences++);
	err = hdl_rt_put(mark, "", 1);
	if (!err)
		err = hdl_rt_commit();
	if (err)
		return err;
	err = fence_begin(&w);
	if (err)
		return err < 0 ? err : 0;
	if (!waiter_wait(w, init_deadline())) {
		waiter_put(w);
		name_absent(mark);
		return -ETIMEDOUT;
	}
	rc = w->status;
	waiter_put(w);
	return fence_result(rc);
}
