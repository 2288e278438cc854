/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The PMIx server of the job. The library does the work between local clients: it keeps the values that they put,
 * completes fences once all local participants have come, and answers gets (direct modex) when the asked rank has
 * committed. As all ranks are local, the data in calls to the server's host (these callbacks) are complete already.
 *
 * Callbacks run on the library's thread: they only send a note to the event loop.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <hwloc.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/home.h"
#include "launcher/launcher.h"
#include "runtime/ask.h"
#include "runtime/runtime.h"

static int note_pipe[2] = { -1, -1 };

static void server_send_note(int kind, int rank, int code, const char *text)
{
	struct note *note = must(malloc(sizeof *note + strlen(text) + 1));

	note->kind = kind;
	note->rank = rank;
	note->code = code;
	strcpy(note->text, text);
	/* A pointer is written whole. The pipe may be full for a moment: blocks until the event loop reads. */
	while (write(note_pipe[1], &note, sizeof note) < 0 && errno == EINTR)
		;
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
				      pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_JOINED, (int)proc->rank, 0, "");
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_LEFT, (int)proc->rank, 0, "");
	return PMIX_OPERATION_SUCCEEDED;
}

/* The whole job ends, whichever ranks PMIx_Abort names: no rank can be ended without the rest. */
static pmix_status_t client_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
				  pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_ABORT, (int)proc->rank, status, text ? text : "");
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_answers(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
				    const pmix_info_t directives[], size_t ndirectives, pmix_info_cbfunc_t done, void *arg)
{
	for (size_t i = 0; i < ndirectives; i++) {
		if (!PMIX_CHECK_KEY(&directives[i], HDL_ANSWER) || directives[i].value.type != PMIX_STRING)
			continue;
		server_send_note(NOTE_ANSWER, (int)proc->rank, 0, directives[i].value.data.string);
		return PMIX_OPERATION_SUCCEEDED;
	}
	return PMIX_ERR_NOT_SUPPORTED;
}

/* data: the contributions of the local ranks, which are all ranks. */
static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char *data,
			   size_t ndata, pmix_modex_cbfunc_t done, void *arg)
{
	if (done)
		done(PMIX_SUCCESS, data, ndata, arg, free, data);
	else
		free(data);
	return PMIX_SUCCESS;
}

/* Asked only about ranks that are not on this host: there are none. */
static pmix_status_t direct_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
				  pmix_modex_cbfunc_t done, void *arg)
{
	return PMIX_ERR_NOT_FOUND;
}

static pmix_server_module_t callbacks = {
	.client_connected2 = client_connected,
	.client_finalized = client_finalized,
	.abort = client_abort,
	.fence_nb = fence,
	.direct_modex = direct_modex,
	.job_control = client_answers,
};

/* ---- the job's description ----------------------------------------------------------------------------------------- */

/* A growing array of pmix_info_t. */
struct info_list {
	pmix_info_t *info;
	size_t n, size;
};

static void server_add(struct info_list *l, const char *key, const void *value, pmix_data_type_t type)
{
	if (l->n == l->size) {
		l->size = l->size ? 2 * l->size : 16;
		l->info = must(realloc(l->info, l->size * sizeof *l->info));
	}
	PMIX_INFO_CONSTRUCT(&l->info[l->n]);
	PMIX_INFO_LOAD(&l->info[l->n], key, value, type);
	l->n++;
}

static void add_number(struct info_list *l, const char *key, uint32_t v)
{
	server_add(l, key, &v, PMIX_UINT32);
}

static void add_array(struct info_list *l, const char *key, struct info_list *items)
{
	pmix_data_array_t array = { .type = PMIX_INFO, .size = items->n, .array = items->info };

	server_add(l, key, &array, PMIX_DATA_ARRAY);	/* a copy */
}

static void server_clear(struct info_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		PMIX_INFO_DESTRUCT(&l->info[i]);
	free(l->info);
	memset(l, 0, sizeof *l);
}

/* "0,1,2": all ranks are on this host. */
static char *rank_list(int nranks)
{
	size_t size = 16 * (size_t)nranks + 16, len = 0;
	char *list = must(malloc(size));

	for (int r = 0; r < nranks; r++)
		len += (size_t)snprintf(list + len, size - len, "%s%d", r ? "," : "", r);
	return list;
}

static void add_app(struct info_list *l, const struct job *job, int a, int first)
{
	const struct app *app = &job->opt.apps[a];
	struct info_list items = { 0 };
	pmix_rank_t leader = (pmix_rank_t)first;

	add_number(&items, PMIX_APPNUM, (uint32_t)a);
	add_number(&items, PMIX_APP_SIZE, (uint32_t)app->nranks);
	server_add(&items, PMIX_APPLDR, &leader, PMIX_PROC_RANK);
	if (app->wdir)
		server_add(&items, PMIX_WDIR, app->wdir, PMIX_STRING);
	add_array(l, PMIX_APP_INFO_ARRAY, &items);
	server_clear(&items);
}

/* The rank's program number; then the keys that the library would otherwise derive from the maps must be given, too. */
static void add_rank(struct info_list *l, const struct job *job, int r, int a)
{
	struct info_list items = { 0 };
	pmix_rank_t rank = (pmix_rank_t)r;
	uint16_t local = (uint16_t)r;

	server_add(&items, PMIX_RANK, &rank, PMIX_PROC_RANK);
	add_number(&items, PMIX_APPNUM, (uint32_t)a);
	server_add(&items, PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	server_add(&items, PMIX_NODE_RANK, &local, PMIX_UINT16);
	add_number(&items, PMIX_NODEID, 0);
	add_array(l, PMIX_PROC_DATA, &items);
	server_clear(&items);
}

static pmix_status_t describe_job(struct job *job, struct info_list *l)
{
	char *list = rank_list(job->nranks), *nodes = NULL, *ppn = NULL;
	pmix_status_t rc = PMIx_generate_ppn(list, &ppn);

	/* not by PMIx_generate_regex: libpmix 4.2 writes beyond the buffer if the name begins with 50 letters or
	 * more */
	if (asprintf(&nodes, "pmix[%s]", job->host) < 0)
		must(NULL);
	if (rc != PMIX_SUCCESS)
		goto out;
	server_add(l, PMIX_JOBID, job->nspace, PMIX_STRING);
	add_number(l, PMIX_UNIV_SIZE, (uint32_t)job->nranks);
	add_number(l, PMIX_JOB_SIZE, (uint32_t)job->nranks);
	add_number(l, PMIX_MAX_PROCS, (uint32_t)job->nranks);
	add_number(l, PMIX_LOCAL_SIZE, (uint32_t)job->nranks);
	add_number(l, PMIX_JOB_NUM_APPS, (uint32_t)job->opt.napps);
	add_number(l, PMIX_NUM_NODES, 1);
	server_add(l, PMIX_LOCAL_PEERS, list, PMIX_STRING);
	server_add(l, PMIX_NODE_MAP, nodes, PMIX_REGEX);
	server_add(l, PMIX_PROC_MAP, ppn, PMIX_REGEX);
	for (int a = 0, first = 0; a < job->opt.napps; first += job->opt.apps[a].nranks, a++)
		add_app(l, job, a, first);
	for (int r = 0; r < job->nranks; r++)
		add_rank(l, job, r, (int)(job->ranks[r].app - job->opt.apps));
out:
	free(list);
	free(nodes);
	free(ppn);
	return rc;
}

/* ---- registering ---------------------------------------------------------------------------------------------------------- */

/* Counts the library's answers, so that all requests are under way together. */
struct pending {
	pthread_mutex_t lock;
	pthread_cond_t all_done;
	int n;
	pmix_status_t status;
};

static void server_registered(pmix_status_t status, void *arg)
{
	struct pending *p = arg;

	pthread_mutex_lock(&p->lock);
	if (status != PMIX_SUCCESS)
		p->status = status;
	if (--p->n == 0)
		pthread_cond_signal(&p->all_done);
	pthread_mutex_unlock(&p->lock);
}

static pmix_status_t register_job(struct job *job)
{
	struct pending p = { .lock = PTHREAD_MUTEX_INITIALIZER, .all_done = PTHREAD_COND_INITIALIZER,
			     .n = job->nranks + 1, .status = PMIX_SUCCESS };
	struct info_list l = { 0 };
	pmix_status_t rc = describe_job(job, &l);
	pmix_proc_t proc;

	if (rc != PMIX_SUCCESS)
		goto out;
	rc = PMIx_server_register_nspace(job->nspace, job->nranks, l.info, l.n, server_registered, &p);
	if (rc != PMIX_SUCCESS)
		server_registered(rc, &p);
	PMIX_LOAD_NSPACE(proc.nspace, job->nspace);
	for (int r = 0; r < job->nranks; r++) {
		proc.rank = (pmix_rank_t)r;
		rc = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, server_registered, &p);
		if (rc != PMIX_SUCCESS)
			server_registered(rc, &p);
	}
	pthread_mutex_lock(&p.lock);
	while (p.n)
		pthread_cond_wait(&p.all_done, &p.lock);
	pthread_mutex_unlock(&p.lock);
	rc = p.status;
out:
	server_clear(&l);
	return rc;
}

void server_tune_library(char ***env)
{
	static const char *const settings[][2] = {
		{ "PMIX_MCA_gds", "hash" },		/* no files, so none to leave behind */
		{ "PMIX_MCA_psec", "native" },		/* no munge daemon is looked for */
		{ "PMIX_MCA_pcompress", "^zlib" },	/* the data are too short to compress */
		{ "PMIX_MCA_pcompress_base_silence_warning", "1" },	/* no warning that zlib is missing */
	};

	for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
		if (!env_get(*env, settings[i][0]))
			env_set(env, settings[i][0], settings[i][1]);
}

/*
 * Without a topology from us, the PMIx library reads the host's, with all plug-ins of hwloc (one of them looks for X
 * servers): a tenth of a second on a large host, for a topology that no client asks this server for. (Clients read
 * their topology themselves.) So the library is given one with the number of CPUs, and no more. NULL: then the library
 * reads the host's.
 */
static hwloc_topology_t small_topology(int ncpus)
{
	char *path = getenv("HWLOC_PLUGINS_PATH") ? must(strdup(getenv("HWLOC_PLUGINS_PATH"))) : NULL, description[32];
	hwloc_topology_t topology = NULL;

	snprintf(description, sizeof description, "pu:%d", ncpus);
	setenv("HWLOC_PLUGINS_PATH", "/dev/null", 1);	/* read by hwloc_topology_init */
	if (!hwloc_topology_init(&topology) &&
	    (hwloc_topology_set_synthetic(topology, description) || hwloc_topology_load(topology))) {
		hwloc_topology_destroy(topology);
		topology = NULL;
	}
	if (path)
		setenv("HWLOC_PLUGINS_PATH", path, 1);
	else
		unsetenv("HWLOC_PLUGINS_PATH");
	free(path);
	return topology;
}

static void drop_message(int severity, const char *text)
{
}

/* The event library inside PMIx prints a warning when a rank dies while an answer to that rank is on the way, as is
 * common in a failing job. The failure itself reaches us as a note or as the end of a process. */
static void quiet_event_library(void)
{
	void (*set_log)(void (*)(int, const char *));

	*(void **)&set_log = dlsym(RTLD_DEFAULT, "event_set_log_callback");
	if (set_log)
		set_log(drop_message);
}

void server_ask(bool now)
{
	static pmix_info_t info[2];	/* in use by the library: for ever */
	static bool made;
	pmix_status_t rc;

	if (!made) {
		PMIX_INFO_LOAD(&info[0], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
		PMIX_INFO_LOAD(&info[1], PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
		made = true;
	}
	rc = PMIx_Notify_event(now ? HDL_ASK_NOW : HDL_ASK, NULL, PMIX_RANGE_LOCAL, info, 2, NULL, NULL);
	if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED)
		complain("the ranks cannot be asked (PMIx_Notify_event: %s)", PMIx_Error_string(rc));
}

struct told {
	pmix_proc_t proc;
	pmix_info_t info[2];
};

static void free_told(pmix_status_t status, void *arg)
{
	struct told *t = arg;

	PMIX_INFO_DESTRUCT(&t->info[0]);
	PMIX_INFO_DESTRUCT(&t->info[1]);
	free(t);
}

/* The library keeps the event for ranks that have not registered for it yet. */
void server_tell_end(const struct job *job, int rank)
{
	struct told *t = must(calloc(1, sizeof *t));
	pmix_status_t rc;

	PMIX_LOAD_PROCID(&t->proc, job->nspace, (pmix_rank_t)rank);
	PMIX_INFO_LOAD(&t->info[0], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&t->info[1], PMIX_EVENT_AFFECTED_PROC, &t->proc, PMIX_PROC);
	rc = PMIx_Notify_event(HDL_RANK_ENDED, NULL, PMIX_RANGE_LOCAL, t->info, 2, free_told, t);
	if (rc == PMIX_SUCCESS)
		return;
	free_told(rc, t);
	if (rc != PMIX_OPERATION_SUCCEEDED)
		complain("the ranks cannot be told that rank %d has ended (PMIx_Notify_event: %s)", rank, PMIx_Error_string(rc));
}

bool server_has(const struct job *job, int rank, const char *key)
{
	pmix_value_t *value = NULL;
	pmix_status_t rc;
	pmix_info_t here;
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, job->nspace, (pmix_rank_t)rank);
	PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, NULL, PMIX_BOOL);	/* only from the library's store, without a request to a
								 * rank */
	rc = PMIx_Get(&proc, key, &here, 1, &value);
	if (rc == PMIX_SUCCESS)
		PMIX_VALUE_RELEASE(value);
	return rc == PMIX_SUCCESS;
}

int server_start(struct job *job)
{
	pmix_topology_t topology = { .source = (char *)"hwloc", .topology = small_topology(job->ncpus) };
	struct info_list l = { 0 };
	char limits[160];
	pmix_status_t rc;
	bool home;
	int err;

	if (!hdl_memory_left(HDL_PMIX_MEMORY)) {
		complain("the PMIx server cannot be started: there are no %zu KiB for it%s: raise the limit, for example by "
			 "'ulimit -d unlimited; ulimit -v unlimited'", HDL_PMIX_MEMORY >> 10, hdl_memory_limits(limits, sizeof limits));
		return -1;
	}
	if (pipe2(note_pipe, O_CLOEXEC)) {
		complain("no descriptor is left for the PMIx server: %s (look at ulimit -n)", strerror(errno));
		return -1;
	}
	server_add(&l, PMIX_SERVER_NSPACE, "heddlerun", PMIX_STRING);
	server_add(&l, PMIX_SERVER_TMPDIR, job->tmpdir, PMIX_STRING);
	server_add(&l, PMIX_SYSTEM_TMPDIR, job->tmpdir, PMIX_STRING);
	if (topology.topology)
		server_add(&l, PMIX_TOPOLOGY2, &topology, PMIX_TOPO);
	quiet_event_library();
	home = home_lend();
	rc = PMIx_server_init(&callbacks, l.info, l.n);
	home_take_back(home);
	server_clear(&l);
	/* PMIx_server_init succeeds where the thread that accepts connections cannot be created, and the ranks would wait in PMIx_Init;
	 * for want of its first thread it fails without the cause. After it a thread of the same size is refused for the same reason. */
	err = hdl_thread_refused();
	if (err) {
		complain("no thread can be had for the PMIx server: %s%s (look at ulimit -u, too)", strerror(err),
			 hdl_memory_limits(limits, sizeof limits));
		return -1;
	}
	if (rc != PMIX_SUCCESS) {
		complain("the PMIx server cannot be started (PMIx_server_init of PMIx %s: %s)%s", PMIx_Get_version(),
			 PMIx_Error_string(rc), hdl_memory_limits(limits, sizeof limits));
		return -1;
	}
	rc = register_job(job);
	if (rc != PMIX_SUCCESS) {
		complain("the job of %d ranks cannot be registered with the PMIx server: %s", job->nranks,
			 PMIx_Error_string(rc));
		return -1;
	}
	return note_pipe[0];
}

char **server_rank_env(struct job *job, int rank)
{
	char **env = env_copy(job->ranks[rank].app->env);
	pmix_status_t rc;
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, job->nspace, (pmix_rank_t)rank);
	rc = PMIx_server_setup_fork(&proc, &env);
	if (rc == PMIX_SUCCESS)
		return env;
	complain("the environment of rank %d cannot be made (PMIx_server_setup_fork: %s)", rank, PMIx_Error_string(rc));
	env_free(env);
	return NULL;
}
