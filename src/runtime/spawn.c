/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting ranks by PMIx_Spawn. The answer, and heddlerun's event about a spawn that has failed, come on PMIx's thread. */
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ask.h"
#include "runtime/exchange.h"
#include "runtime/pmix_fds.h"

struct hdl_spawn {
	struct hdl_spawn *next;
	uint64_t id;
	int refs;			/* under `lock`: the caller's, and the callback's */
	atomic_bool answered, failed;
	bool notified;			/* under `lock`: `why` is the text of heddlerun's event */
	char why[512];			/* complete once `failed` is set */
	char ranks[512];		/* ranks of each program, as heddlerun sends them ahead of the answer; "": all */
	void (*wake)(void);
	pmix_app_t *apps;		/* libpmix's until the answer */
	int napps;
	pmix_info_t *info;
	size_t ninfo;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hdl_spawn *spawns;

/* ---- the request -------------------------------------------------------------------------------------------------- */

static void spawn_list_free(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

/* A copy of the list, with first ahead of it unless NULL. NULL without memory. */
static char **list_copy(const char *first, char *const *list)
{
	size_t n = 0, k = 0;
	char **copy;

	while (list && list[n])
		n++;
	copy = calloc(n + 2, sizeof *copy);
	if (copy && first && !(copy[k++] = strdup(first)))
		goto bad;
	for (size_t i = 0; copy && i < n; i++)
		if (!(copy[k++] = strdup(list[i])))
			goto bad;
	return copy;
bad:
	spawn_list_free(copy);
	return NULL;
}

static void add_text(pmix_info_t *info, size_t *n, const char *key, const char *text)
{
	if (text)
		PMIX_INFO_LOAD(&info[(*n)++], key, text, PMIX_STRING);
}

static int fill_app(pmix_app_t *to, const struct hdl_spawn_app *from)
{
	int ranks = from->maxprocs;

	/* a launcher that does not know the key starts the largest number that is allowed */
	if (from->soft && !hdl_rt_by_heddlerun)
		ranks = hdl_soft_largest(from->soft, ranks);
	to->cmd = strdup(from->command);
	to->argv = list_copy(from->command, from->argv);
	to->env = list_copy(NULL, from->env);
	to->cwd = strdup(from->wdir);
	to->maxprocs = ranks > 0 ? ranks : from->maxprocs;
	to->info = calloc(3, sizeof *to->info);
	if (!to->cmd || !to->argv || !to->env || !to->cwd || !to->info)
		return -ENOMEM;
	add_text(to->info, &to->ninfo, PMIX_HOST, from->host);
	add_text(to->info, &to->ninfo, HDL_SPAWN_SOFT, hdl_rt_by_heddlerun ? from->soft : NULL);
	add_text(to->info, &to->ninfo, HDL_SPAWN_PATH, hdl_rt_by_heddlerun ? from->path : NULL);
	if (!to->ninfo) {	/* libpmix would look for an end mark */
		free(to->info);
		to->info = NULL;
	}
	return 0;
}

static void spawn_free(struct hdl_spawn *s)
{
	for (int a = 0; s->apps && a < s->napps; a++) {
		pmix_app_t *app = &s->apps[a];

		free(app->cmd);
		spawn_list_free(app->argv);
		spawn_list_free(app->env);
		free(app->cwd);
		for (size_t i = 0; i < app->ninfo; i++)
			PMIX_INFO_DESTRUCT(&app->info[i]);
		free(app->info);
	}
	for (size_t i = 0; i < s->ninfo; i++)
		PMIX_INFO_DESTRUCT(&s->info[i]);
	free(s->apps);
	free(s->info);
	free(s);
}

static struct hdl_spawn *spawn_new(const struct hdl_spawn_app *apps, int napps, const struct hdl_spawn_how *how)
{
	static uint64_t last;
	struct hdl_spawn *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->napps = napps;
	s->apps = calloc((size_t)napps, sizeof *s->apps);
	s->info = calloc(4, sizeof *s->info);
	if (!s->apps || !s->info)
		goto bad;
	for (int a = 0; a < napps; a++)
		if (fill_app(&s->apps[a], &apps[a]))
			goto bad;
	pthread_mutex_lock(&lock);
	s->id = (uint64_t)hdl_job.rank << 32 ^ monotonic_ns() ^ ++last;
	pthread_mutex_unlock(&lock);
	if (hdl_rt_by_heddlerun)
		PMIX_INFO_LOAD(&s->info[s->ninfo++], HDL_SPAWN_ID, &s->id, PMIX_UINT64);
	add_text(s->info, &s->ninfo, PMIX_BINDTO, how->bind_to);
	add_text(s->info, &s->ninfo, PMIX_MAPBY, how->map_by);
	if (how->cpus_per_rank) {
		uint32_t cpus = how->cpus_per_rank;

		PMIX_INFO_LOAD(&s->info[s->ninfo++], PMIX_CPUS_PER_PROC, &cpus, PMIX_UINT32);
	}
	return s;
bad:
	spawn_free(s);
	return NULL;
}

/* ---- the answer ----------------------------------------------------------------------------------------------------- */

static void spawn_put(struct hdl_spawn *s)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--s->refs;
	pthread_mutex_unlock(&lock);
	if (last)
		spawn_free(s);
}

/* Describes a refusal, for launchers that send no text. */
static void explain(struct hdl_spawn *s, pmix_status_t status)
{
	if (status == PMIX_ERR_NOT_SUPPORTED || status == PMIX_ERR_NOT_IMPLEMENTED)
		snprintf(s->why, sizeof s->why,
			 "%s offers no PMIx_Spawn, by which processes are started: start the program with heddlerun or "
			 "prterun instead",
			 hdl_job.launcher);
	else
		snprintf(s->why, sizeof s->why, "%s: %s (PMIx_Spawn of %s)", s->apps[0].cmd,
			 status == PMIX_ERR_JOB_EXE_NOT_FOUND ? "no such program" : PMIx_Error_string(status),
			 hdl_job.launcher);
}

static void spawn_done(pmix_status_t status, pmix_nspace_t nspace, void *arg)
{
	struct hdl_spawn *s = arg;

	pthread_mutex_lock(&lock);
	if (status != PMIX_SUCCESS && status != HDL_SPAWN_STARTED) {
		if (!s->notified)
			explain(s, status);
		atomic_store(&s->failed, true);
	}
	atomic_store(&s->answered, true);
	pthread_mutex_unlock(&lock);
	s->wake();
	spawn_put(s);
}

void hdl_rt_spawn_event(uint64_t id, bool failed, const char *text)
{
	void (*wake)(void) = NULL;

	pthread_mutex_lock(&lock);
	for (struct hdl_spawn *s = spawns; s; s = s->next) {
		if (s->id != id || atomic_load(&s->failed))
			continue;
		if (!failed) {
			snprintf(s->ranks, sizeof s->ranks, "%s", text);
			continue;
		}
		snprintf(s->why, sizeof s->why, "%s", text);
		s->notified = true;
		wake = s->wake;
		atomic_store(&s->failed, true);
	}
	pthread_mutex_unlock(&lock);
	if (wake)
		wake();
}

int hdl_rt_spawn(const struct hdl_spawn_app *apps, int napps, const struct hdl_spawn_how *how, void (*wake)(void),
		 struct hdl_spawn **out, char *why, size_t size)
{
	struct hdl_spawn *s = spawn_new(apps, napps, how);
	pmix_status_t rc;

	*out = NULL;
	if (!s) {
		snprintf(why, size, "out of memory");
		return -ENOMEM;
	}
	s->wake = wake;
	s->refs = 2;
	pthread_mutex_lock(&lock);
	s->next = spawns;
	spawns = s;
	pthread_mutex_unlock(&lock);
	hdl_pmix_fds_check("PMIx_Spawn_nb");
	rc = PMIx_Spawn_nb(s->info, s->ninfo, s->apps, (size_t)napps, spawn_done, s);
	if (rc == PMIX_SUCCESS) {
		*out = s;
		return 0;
	}
	explain(s, rc);
	snprintf(why, size, "%s", s->why);
	s->refs--;		/* the callback will not come */
	hdl_rt_spawn_end(s);
	return rc == PMIX_ERR_NOT_SUPPORTED ? -ENOSYS : -EIO;
}

bool hdl_rt_spawn_answered(const struct hdl_spawn *s)
{
	return atomic_load(&s->answered);
}

bool hdl_rt_spawn_failed(const struct hdl_spawn *s)
{
	return atomic_load(&s->failed);
}

const char *hdl_rt_spawn_why(const struct hdl_spawn *s)
{
	return s->why;
}

/* Only heddlerun starts another number than spawn_new asks for, and its event says so (HDL_SPAWN_RANKS). */
int hdl_rt_spawn_ranks(const struct hdl_spawn *s, int app)
{
	const char *at = s->ranks;

	for (int i = 0; i < app && *at; i++)
		at += strcspn(at, " ") + 1;
	return *at ? atoi(at) : s->apps[app].maxprocs;
}

void (*hdl_rt_on_give_up)(uint64_t id);

void hdl_rt_spawn_give_up(const struct hdl_spawn *s)
{
	if (hdl_rt_on_give_up)
		hdl_rt_on_give_up(s->id);
}

void hdl_rt_spawn_end(struct hdl_spawn *s)
{
	pthread_mutex_lock(&lock);
	for (struct hdl_spawn **link = &spawns; *link; link = &(*link)->next)
		if (*link == s) {
			*link = s->next;
			break;
		}
	pthread_mutex_unlock(&lock);
	spawn_put(s);
}
