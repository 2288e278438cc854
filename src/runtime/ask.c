/* SPDX-License-Identifier: BSD-3-Clause */
/* PMIx's events that reach this rank, the hang report's questions and ended ranks: the rank's side of runtime/ask.h. */
#include <limits.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ask.h"
#include "runtime/exchange.h"
#include "runtime/jobs.h"
#include "runtime/pmix_fds.h"
#include "runtime/runtime.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* held while `answerer` runs */
static hdl_ask_fn answerer;

/* Processes that have ended. Entries are never removed, so readers need no lock; a thread that notes a process puts the
 * new entry in front. */
struct ended {
	struct ended *next;
	uint64_t job;		/* hdl_job_id: PMIx's thread may not look numbers up */
	uint32_t rank;
};
static _Atomic(struct ended *) ended;
static atomic_uint nended;

unsigned hdl_rt_ended(void)
{
	return atomic_load_explicit(&nended, memory_order_acquire);
}

static bool ended_find(const struct ended *e, uint64_t job, uint32_t rank)
{
	while (e && (e->job != job || e->rank != rank))
		e = e->next;
	return e;
}

bool hdl_rt_has_ended(int proc)
{
	const struct ended *e = atomic_load_explicit(&ended, memory_order_acquire);

	if (!e)
		return false;
	return ended_find(e, hdl_proc_job(proc), (uint32_t)hdl_proc_rank(proc));
}

/* Without memory the end is not noted; callers cannot rely on notes anyway. A process that two threads note at once has
 * two entries. */
static void ended_note(uint64_t job, uint32_t rank)
{
	struct ended *e = ended_find(atomic_load_explicit(&ended, memory_order_acquire), job, rank) ? NULL : malloc(sizeof *e);

	if (!e)
		return;
	*e = (struct ended){ .next = atomic_load_explicit(&ended, memory_order_relaxed), .job = job, .rank = rank };
	while (!atomic_compare_exchange_weak_explicit(&ended, &e->next, e, memory_order_release, memory_order_relaxed))
		;
	atomic_fetch_add_explicit(&nended, 1, memory_order_release);
}

void hdl_rt_note_ended(int proc)
{
	ended_note(hdl_proc_job(proc), (uint32_t)hdl_proc_rank(proc));
}

/* Event from the launcher to the ranks of all hosts and of all of its jobs: a process has failed. Ranks beyond INT_MAX are PMIx's
 * special ones. */
static void rank_ended(const pmix_info_t info[], size_t ninfo)
{
	for (size_t i = 0; i < ninfo; i++) {
		const pmix_proc_t *proc = info[i].value.data.proc;

		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC && proc->rank < INT_MAX)
			ended_note(hdl_job_id(proc->nspace), proc->rank);
	}
}

/* Event from heddlerun: a spawn has failed, or which ranks it has started. */
static void spawn_notified(const pmix_info_t info[], size_t ninfo, bool failed)
{
	const char *why = "";
	uint64_t id = 0;

	for (size_t i = 0; i < ninfo; i++) {
		if (PMIX_CHECK_KEY(&info[i], HDL_SPAWN_ID) && info[i].value.type == PMIX_UINT64)
			id = info[i].value.data.uint64;
		if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_TEXT_MESSAGE) && info[i].value.type == PMIX_STRING)
			why = info[i].value.data.string;
	}
	hdl_rt_spawn_event(id, failed, why);
}

static void asked(bool now)
{
	pthread_mutex_lock(&lock);
	if (answerer)
		answerer(now);
	else if (now)
		hdl_rt_answer("0\nis in MPI_Init\n");
	pthread_mutex_unlock(&lock);
}

/* On PMIx's thread. */
static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
		     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *arg)
{
	if (status == HDL_ASK || status == HDL_ASK_NOW)
		asked(status == HDL_ASK_NOW);
	else if (status == HDL_SPAWN_FAILED || status == HDL_SPAWN_RANKS)
		spawn_notified(info, ninfo, status == HDL_SPAWN_FAILED);
	else
		rank_ended(info, ninfo);
	if (done)
		done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

void hdl_rt_on_ask(hdl_ask_fn fn)
{
	pthread_mutex_lock(&lock);
	answerer = fn;
	pthread_mutex_unlock(&lock);
}

static void answer_free(pmix_info_t *info)
{
	PMIX_INFO_DESTRUCT(info);
	free(info);
}

static void answered(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *arg, pmix_release_cbfunc_t release,
		     void *release_arg)
{
	answer_free(arg);
	if (release)
		release(release_arg);
}

/* Sends heddlerun a text under a key, by job control. */
static void report(const char *key, const char *text)
{
	pmix_info_t *info = calloc(1, sizeof *info);

	if (!info)
		return;		/* heddlerun reports this rank as one that does not answer */
	PMIX_INFO_LOAD(info, key, text, PMIX_STRING);
	hdl_pmix_fds_check("PMIx_Job_control_nb");
	if (PMIx_Job_control_nb(NULL, 0, info, 1, answered, info) != PMIX_SUCCESS)
		answer_free(info);	/* the callback will not come */
}

void hdl_rt_answer(const char *text)
{
	report(HDL_ANSWER, text);
}

static void report_given_up(uint64_t id)
{
	char text[24];

	snprintf(text, sizeof text, "%llu", (unsigned long long)id);
	if (hdl_rt_by_heddlerun)
		report(HDL_SPAWN_GIVEN_UP, text);
}

static void report_connected(const char *nspace, bool more)
{
	if (hdl_rt_joined && hdl_rt_by_heddlerun)
		report(more ? HDL_CONNECTED : HDL_DISCONNECTED, nspace);
}

static void ask_registered(pmix_status_t status, size_t id, void *arg)
{
	if (status != PMIX_SUCCESS)
		hdl_debug("PMIx_Register_event_handler: %s; the launcher cannot ask this rank for the hang report, nor report "
			  "ended ranks", PMIx_Error_string(status));
}

void hdl_rt_listen(enum hdl_listen_form form)
{
	/* the first is heddlerun's, the rest those of other launchers */
	static pmix_status_t ends[] = { HDL_RANK_ENDED, PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_KILLED_BY_CMD,
					PMIX_ERR_EXIT_NONZERO_TERM };
	static pmix_status_t codes[ARRAY_SIZE(ends) + 4] = { HDL_ASK, HDL_ASK_NOW, HDL_SPAWN_FAILED, HDL_SPAWN_RANKS };

	memcpy(codes + 4, ends, sizeof ends);
	hdl_job_on_use = report_connected;
	hdl_rt_on_give_up = report_given_up;
	PMIx_Register_event_handler(hdl_rt_by_heddlerun ? codes : ends, ARRAY_SIZE(ends) + (hdl_rt_by_heddlerun ? 4 : 0), NULL, 0,
				    on_event, form == HDL_LISTEN_BLOCKING ? NULL : ask_registered, NULL);
}
