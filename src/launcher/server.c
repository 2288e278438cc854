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

static struct note *server_note(int kind, const pmix_proc_t *proc, int code, const char *text)
{
	struct note *note = must(calloc(1, sizeof *note + strlen(text) + 1));

	note->kind = kind;
	snprintf(note->nspace, sizeof note->nspace, "%s", proc->nspace);
	note->rank = proc->rank == PMIX_RANK_WILDCARD ? -1 : (int)proc->rank;
	note->code = code;
	strcpy(note->text, text);
	return note;
}

static void server_send_note(int kind, const pmix_proc_t *proc, int code, const char *text)
{
	notes_send(server_note(kind, proc, code, text));
}

/* ---- callbacks --------------------------------------------------------------------------------------------------- */

static pmix_status_t client_connected(const pmix_proc_t *proc, void *object, pmix_info_t info[], size_t ninfo,
				      pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_JOINED, proc, 0, "");
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_finalized(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_LEFT, proc, 0, "");
	return PMIX_OPERATION_SUCCEEDED;
}

/* The whole job ends, whichever ranks PMIx_Abort names: no rank can be ended without the rest. */
static pmix_status_t client_abort(const pmix_proc_t *proc, void *object, int status, const char text[],
				  pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t done, void *arg)
{
	server_send_note(NOTE_ABORT, proc, status, text ? text : "");
	return PMIX_OPERATION_SUCCEEDED;
}

/* Reports of a rank: an answer to the hang report's question, or the namespaces with which the rank has communicators. */
static pmix_status_t client_reports(const pmix_proc_t *proc, const pmix_proc_t targets[], size_t ntargets,
				    const pmix_info_t directives[], size_t ndirectives, pmix_info_cbfunc_t done, void *arg)
{
	static const struct {
		const char *key;
		int kind;
	} reports[] = { { HDL_ANSWER, NOTE_ANSWER }, { HDL_CONNECTED, NOTE_CONNECTED }, { HDL_DISCONNECTED, NOTE_DISCONNECTED },
			 { HDL_SPAWN_GIVEN_UP, NOTE_GIVEN_UP } };

	for (size_t i = 0; i < ndirectives; i++)
		for (size_t k = 0; k < sizeof reports / sizeof reports[0]; k++) {
			if (!PMIX_CHECK_KEY(&directives[i], reports[k].key) || directives[i].value.type != PMIX_STRING)
				continue;
			server_send_note(reports[k].kind, proc, 0, directives[i].value.data.string);
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

/* Returns true if no process ahead of procs[j] is of the same namespace. */
static bool server_is_first(const pmix_proc_t procs[], size_t j)
{
	for (size_t i = 0; i < j; i++)
		if (PMIX_CHECK_NSPACE(procs[i].nspace, procs[j].nspace))
			return false;
	return true;
}

/* PMIx_Connect, PMIx_Disconnect: all of the named processes have called it. A note for each process and each other namespace. */
static void server_send_pairs(int kind, const pmix_proc_t procs[], size_t nprocs)
{
	for (size_t j = 0; j < nprocs; j++)
		for (size_t i = 0; server_is_first(procs, j) && i < nprocs; i++)
			if (!PMIX_CHECK_NSPACE(procs[i].nspace, procs[j].nspace))
				server_send_note(kind, &procs[i], 0, procs[j].nspace);
}

static pmix_status_t server_connect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
				    pmix_op_cbfunc_t done, void *arg)
{
	server_send_pairs(NOTE_CONNECTED, procs, nprocs);
	done(PMIX_SUCCESS, arg);
	return PMIX_SUCCESS;
}

static pmix_status_t server_disconnect(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
				       pmix_op_cbfunc_t done, void *arg)
{
	server_send_pairs(NOTE_DISCONNECTED, procs, nprocs);
	done(PMIX_SUCCESS, arg);
	return PMIX_SUCCESS;
}

/* ---- PMIx_Spawn ----------------------------------------------------------------------------------------------------- */

static char *server_text(const pmix_info_t *info)
{
	return info->value.type == PMIX_STRING && info->value.data.string ? info->value.data.string : NULL;
}

/* Reads a directive of PMIx_Spawn, for the whole of it (app is NULL) or for one of its programs. */
static void server_directive(struct spawn_request *req, struct app *app, const pmix_info_t *info)
{
	const char *text = server_text(info);
	bool can = true;

	if (PMIX_CHECK_KEY(info, HDL_SPAWN_ID) && info->value.type == PMIX_UINT64)
		req->id = info->value.data.uint64;
	else if (PMIX_CHECK_KEY(info, PMIX_BINDTO) && text)
		can = req->opt.bind_given = domain_parse(text, &req->opt.bind);
	else if (PMIX_CHECK_KEY(info, PMIX_MAPBY) && text)
		can = map_parse(&req->opt, text);
	else if (PMIX_CHECK_KEY(info, PMIX_CPUS_PER_PROC) && info->value.type == PMIX_UINT32)
		req->opt.cpus_per_rank = (int)info->value.data.uint32;
	else if (PMIX_CHECK_KEY(info, PMIX_HOST) && text)
		can = hosts_are_here(text);
	else if (app && PMIX_CHECK_KEY(info, HDL_SPAWN_SOFT) && text)
		app->soft = must(strdup(text));
	else if (app && PMIX_CHECK_KEY(info, HDL_SPAWN_PATH) && text)
		app->dirs = must(strdup(text));
	if (can)
		return;
	snprintf(req->refused, sizeof req->refused, PMIX_CHECK_KEY(info, PMIX_HOST) ?
		 "host %.100s: heddlerun starts ranks on this host only (several hosts: srun --mpi=pmix, prterun)" :
		 "\"%.100s\": core, l3, numa, socket (and none for bind_to) are the places that heddlerun knows", text);
}

static char **server_copy(char **list)
{
	static char *none[] = { NULL };

	return env_copy(list ? list : none);
}

/* Returns false if the description is none. */
static bool server_take_app(struct spawn_request *req, struct app *app, const pmix_app_t *from)
{
	app->spawned = true;
	app->argv = server_copy(from->argv);
	app->set_env = server_copy(from->env);
	app->wdir = from->cwd ? must(strdup(from->cwd)) : NULL;
	app->nranks = from->maxprocs;
	for (size_t i = 0; i < from->ninfo; i++)
		server_directive(req, app, &from->info[i]);
	if (!app->argv[0] || app->nranks < 1 || app->nranks > 1000000)
		return false;
	if (from->cmd) {	/* the program is looked for by argv[0] */
		free(app->argv[0]);
		app->argv[0] = must(strdup(from->cmd));
	}
	return true;
}

/* On the library's thread: the event loop starts the ranks, and answers by server_spawn_answer. */
static pmix_status_t server_spawn(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, const pmix_app_t apps[],
				  size_t napps, pmix_spawn_cbfunc_t done, void *arg)
{
	struct spawn_request *req = must(calloc(1, sizeof *req));
	bool can = napps > 0;
	struct note *note;

	req->done = (void (*)(void))done;
	req->arg = arg;
	snprintf(req->parent, sizeof req->parent, "%s", proc->nspace);
	req->parent_rank = (int)proc->rank;
	req->opt.map = DOMAIN_CORE;
	req->opt.napps = (int)napps;
	req->opt.apps = must(calloc(napps + 1, sizeof *req->opt.apps));
	for (size_t i = 0; i < ninfo; i++)
		server_directive(req, NULL, &info[i]);
	for (size_t a = 0; a < napps; a++)
		can &= server_take_app(req, &req->opt.apps[a], &apps[a]);
	if (!can) {
		apps_free(req->opt.apps, req->opt.napps);
		free(req);
		return PMIX_ERR_BAD_PARAM;
	}
	note = server_note(NOTE_SPAWN, proc, 0, "");
	note->spawn = req;
	notes_send(note);
	return PMIX_SUCCESS;
}

/* ---- published names ------------------------------------------------------------------------------------------------ */

static pmix_status_t server_name_status(int err)
{
	return !err ? PMIX_SUCCESS : err == -EEXIST ? PMIX_ERR_DUPLICATE_KEY : err == -ENOENT ? PMIX_ERR_NOT_FOUND :
	       err == -EPERM ? PMIX_ERR_NO_PERMISSIONS : err == -ENOMEM ? PMIX_ERR_NOMEM : PMIX_ERROR;
}

static bool server_is_directive(const pmix_info_t *info)
{
	return PMIX_CHECK_KEY(info, PMIX_RANGE) || PMIX_CHECK_KEY(info, PMIX_PERSISTENCE) || PMIX_CHECK_KEY(info, PMIX_USERID) ||
	       PMIX_CHECK_KEY(info, PMIX_GRPID) || PMIX_CHECK_KEY(info, PMIX_TIMEOUT);
}

static pmix_status_t server_publish(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t done,
				    void *arg)
{
	pmix_status_t rc = PMIX_SUCCESS;

	for (size_t i = 0; i < ninfo && rc == PMIX_SUCCESS; i++) {
		const char *text = server_text(&info[i]);

		if (server_is_directive(&info[i]))
			continue;
		rc = text ? server_name_status(names_publish(proc->nspace, (int)proc->rank, info[i].key, text)) :
			    PMIX_ERR_NOT_SUPPORTED;
	}
	done(rc, arg);
	return PMIX_SUCCESS;
}

static pmix_status_t server_lookup(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
				   pmix_lookup_cbfunc_t done, void *arg)
{
	pmix_status_t rc = PMIX_ERR_NOT_FOUND;
	size_t n = 0, found = 0;
	pmix_pdata_t *data;

	while (keys && keys[n])
		n++;
	data = must(calloc(n + 1, sizeof *data));
	for (size_t i = 0; i < n; i++) {
		char *value = NULL;
		int err = names_lookup(keys[i], &value, data[found].proc.nspace, sizeof data[found].proc.nspace);

		if (err && err != -ENOENT)
			rc = server_name_status(err);
		if (err)
			continue;
		PMIX_LOAD_KEY(data[found].key, keys[i]);
		data[found].value.type = PMIX_STRING;
		data[found++].value.data.string = value;
	}
	done(found ? PMIX_SUCCESS : rc, data, found, arg);
	for (size_t i = 0; i < found; i++)
		free(data[i].value.data.string);
	free(data);
	return PMIX_SUCCESS;
}

static pmix_status_t server_unpublish(const pmix_proc_t *proc, char **keys, const pmix_info_t info[], size_t ninfo,
				      pmix_op_cbfunc_t done, void *arg)
{
	pmix_status_t rc = PMIX_SUCCESS;

	if (!keys)
		names_drop(proc->nspace, (int)proc->rank);
	for (size_t i = 0; keys && keys[i] && rc == PMIX_SUCCESS; i++)
		rc = server_name_status(names_unpublish(keys[i]));
	done(rc, arg);
	return PMIX_SUCCESS;
}

static pmix_server_module_t callbacks = {
	.client_connected2 = client_connected,
	.client_finalized = client_finalized,
	.abort = client_abort,
	.fence_nb = fence,
	.direct_modex = direct_modex,
	.publish = server_publish,
	.lookup = server_lookup,
	.unpublish = server_unpublish,
	.spawn = server_spawn,
	.connect = server_connect,
	.disconnect = server_disconnect,
	.job_control = client_reports,
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

static void add_app(struct info_list *l, const struct nspace *ns, int a, int first)
{
	const struct app *app = &ns->apps[a];
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
static void add_rank(struct info_list *l, int r, int a)
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

static void add_parent(struct info_list *l, const struct nspace *ns)
{
	pmix_proc_t parent;
	bool spawned = true;

	PMIX_LOAD_PROCID(&parent, ns->parent, (pmix_rank_t)ns->parent_rank);
	server_add(l, PMIX_SPAWNED, &spawned, PMIX_BOOL);
	server_add(l, PMIX_PARENT_ID, &parent, PMIX_PROC);
}

static pmix_status_t describe_job(const struct job *job, const struct nspace *ns, struct info_list *l)
{
	char *list = rank_list(ns->nranks), *nodes = NULL, *ppn = NULL;
	pmix_status_t rc = PMIx_generate_ppn(list, &ppn);

	/* not by PMIx_generate_regex: libpmix 4.2 writes beyond the buffer if the name begins with 50 letters or
	 * more */
	if (asprintf(&nodes, "pmix[%s]", job->host) < 0)
		must(NULL);
	if (rc != PMIX_SUCCESS)
		goto out;
	server_add(l, PMIX_JOBID, ns->name, PMIX_STRING);
	add_number(l, PMIX_UNIV_SIZE, (uint32_t)job->universe);
	add_number(l, PMIX_JOB_SIZE, (uint32_t)ns->nranks);
	add_number(l, PMIX_MAX_PROCS, (uint32_t)ns->nranks);
	add_number(l, PMIX_LOCAL_SIZE, (uint32_t)ns->nranks);
	add_number(l, PMIX_JOB_NUM_APPS, (uint32_t)ns->napps);
	add_number(l, PMIX_NUM_NODES, 1);
	server_add(l, PMIX_LOCAL_PEERS, list, PMIX_STRING);
	server_add(l, PMIX_NODE_MAP, nodes, PMIX_REGEX);
	server_add(l, PMIX_PROC_MAP, ppn, PMIX_REGEX);
	if (ns->number)
		add_parent(l, ns);
	for (int a = 0, first = 0; a < ns->napps; first += ns->apps[a].nranks, a++)
		add_app(l, ns, a, first);
	for (int r = 0; r < ns->nranks; r++)
		add_rank(l, r, (int)(ns->ranks[r].app - ns->apps));
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

static void pending_wait(struct pending *p)
{
	pthread_mutex_lock(&p->lock);
	while (p->n)
		pthread_cond_wait(&p->all_done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

int server_register(struct job *job, struct nspace *ns, char *why, size_t size)
{
	struct pending p = { .lock = PTHREAD_MUTEX_INITIALIZER, .all_done = PTHREAD_COND_INITIALIZER,
			     .n = ns->nranks + 1, .status = PMIX_SUCCESS };
	struct info_list l = { 0 };
	pmix_status_t rc = describe_job(job, ns, &l);
	pmix_proc_t proc;

	if (rc == PMIX_SUCCESS) {
		rc = PMIx_server_register_nspace(ns->name, ns->nranks, l.info, l.n, server_registered, &p);
		if (rc != PMIX_SUCCESS)
			server_registered(rc, &p);
		PMIX_LOAD_NSPACE(proc.nspace, ns->name);
		for (int r = 0; r < ns->nranks; r++) {
			proc.rank = (pmix_rank_t)r;
			rc = PMIx_server_register_client(&proc, getuid(), getgid(), NULL, server_registered, &p);
			if (rc != PMIX_SUCCESS)
				server_registered(rc, &p);
		}
		pending_wait(&p);
		rc = p.status;
	}
	server_clear(&l);
	if (rc == PMIX_SUCCESS)
		return 0;
	snprintf(why, size, "the job of %d ranks cannot be registered with the PMIx server: %s", ns->nranks,
		 PMIx_Error_string(rc));
	return -1;
}

void server_deregister(const struct nspace *ns)
{
	struct pending p = { .lock = PTHREAD_MUTEX_INITIALIZER, .all_done = PTHREAD_COND_INITIALIZER, .n = 1 };

	PMIx_server_deregister_nspace(ns->name, server_registered, &p);
	pending_wait(&p);
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

struct end_event {
	pmix_proc_t proc;
	pmix_info_t info[2];
};

static void free_end_event(pmix_status_t status, void *arg)
{
	struct end_event *t = arg;

	PMIX_INFO_DESTRUCT(&t->info[0]);
	PMIX_INFO_DESTRUCT(&t->info[1]);
	free(t);
}

/* The library keeps the event for ranks that have not registered for it yet. */
void server_notify_end(const struct rank *rank)
{
	struct end_event *t = must(calloc(1, sizeof *t));
	pmix_status_t rc;

	PMIX_LOAD_PROCID(&t->proc, rank->ns->name, (pmix_rank_t)rank->number);
	PMIX_INFO_LOAD(&t->info[0], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&t->info[1], PMIX_EVENT_AFFECTED_PROC, &t->proc, PMIX_PROC);
	rc = PMIx_Notify_event(HDL_RANK_ENDED, NULL, PMIX_RANGE_LOCAL, t->info, 2, free_end_event, t);
	if (rc == PMIX_SUCCESS)
		return;
	free_end_event(rc, t);
	if (rc != PMIX_OPERATION_SUCCEEDED)
		complain("the ranks get no event about the end of %s (PMIx_Notify_event: %s)", rank_name(rank),
			 PMIx_Error_string(rc));
}

struct spawn_event {
	pmix_info_t info[4];
};

static void free_spawn_event(pmix_status_t status, void *arg)
{
	struct spawn_event *t = arg;

	for (int i = 0; i < 4; i++)
		PMIX_INFO_DESTRUCT(&t->info[i]);
	free(t);
}

static void server_spawn_event(pmix_status_t code, uint64_t id, const char *text)
{
	struct spawn_event *t = must(calloc(1, sizeof *t));
	pmix_status_t rc;

	PMIX_INFO_LOAD(&t->info[0], PMIX_EVENT_NON_DEFAULT, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&t->info[1], PMIX_EVENT_DO_NOT_CACHE, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&t->info[2], HDL_SPAWN_ID, &id, PMIX_UINT64);
	PMIX_INFO_LOAD(&t->info[3], PMIX_EVENT_TEXT_MESSAGE, text, PMIX_STRING);
	rc = PMIx_Notify_event(code, NULL, PMIX_RANGE_LOCAL, t->info, 4, free_spawn_event, t);
	if (rc == PMIX_SUCCESS)
		return;
	free_spawn_event(rc, t);
	if (rc != PMIX_OPERATION_SUCCEEDED)
		complain("the rank that spawns gets no event: %s (PMIx_Notify_event: %s)", text, PMIx_Error_string(rc));
}

void server_spawn_failed(uint64_t id, const char *why)
{
	server_spawn_event(HDL_SPAWN_FAILED, id, why);
}

/* With `soft` fewer ranks may have been started than were asked for. */
static void server_spawn_ranks(const struct nspace *ns)
{
	char text[512];
	bool soft = false;
	size_t len = 0;

	for (int a = 0; a < ns->napps && len + 16 < sizeof text; a++) {
		soft |= ns->apps[a].soft != NULL;
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", a ? " " : "", ns->apps[a].nranks);
	}
	if (soft)
		server_spawn_event(HDL_SPAWN_RANKS, ns->spawn_id, text);
}

void server_spawn_answer(struct spawn_request *req, const struct nspace *ns, int exit_code, const char *why)
{
	pmix_status_t status = ns ? PMIX_SUCCESS : exit_code == EXIT_NOT_FOUND ? PMIX_ERR_JOB_EXE_NOT_FOUND :
			       exit_code == EXIT_USAGE ? PMIX_ERR_JOB_ALLOC_FAILED : PMIX_ERR_JOB_FAILED_TO_LAUNCH;
	pmix_nspace_t name = "";

	/* events ahead of the answer, which the library sends in this order */
	if (ns && req->id) {
		server_spawn_ranks(ns);
		status = HDL_SPAWN_STARTED;
	} else if (ns) {
		PMIX_LOAD_NSPACE(name, ns->name);
	} else if (req->id) {
		server_spawn_failed(req->id, why);
	}
	((pmix_spawn_cbfunc_t)req->done)(status, name, req->arg);
	apps_free(req->opt.apps, req->opt.napps);
	free(req);
}

bool server_has(const struct rank *rank, const char *key)
{
	pmix_value_t *value = NULL;
	pmix_status_t rc;
	pmix_info_t here;
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, rank->ns->name, (pmix_rank_t)rank->number);
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
	char limits[160], why[256];
	pmix_status_t rc;
	int err, note_fd;
	bool home;

	if (!hdl_can_map(HDL_PMIX_MEMORY)) {
		complain("the PMIx server cannot be started: there are no %zu KiB for it%s: raise the limit, for example by "
			 "'ulimit -d unlimited; ulimit -v unlimited'",
			 HDL_PMIX_MEMORY >> 10, hdl_memory_limits(limits, sizeof limits));
		return -1;
	}
	note_fd = notes_open();
	if (note_fd < 0) {
		complain("no descriptor is left for the PMIx server: %s (look at ulimit -n)", strerror(-note_fd));
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
	/* PMIx_server_init succeeds where the thread that accepts connections cannot be created, and the ranks would wait in
	 * PMIx_Init; for want of its first thread it fails without the cause. After it a thread of the same size is refused
	 * for the same reason. */
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
	if (server_register(job, job->nspaces, why, sizeof why)) {
		complain("%s", why);
		return -1;
	}
	return note_fd;
}

char **server_rank_env(const struct rank *rank, char *why, size_t size)
{
	char **env = env_copy(rank->app->env);
	pmix_status_t rc;
	pmix_proc_t proc;

	PMIX_LOAD_PROCID(&proc, rank->ns->name, (pmix_rank_t)rank->number);
	rc = PMIx_server_setup_fork(&proc, &env);
	if (rc == PMIX_SUCCESS)
		return env;
	snprintf(why, size, "the environment of %s cannot be made (PMIx_server_setup_fork: %s)", rank_name(rank),
		 PMIx_Error_string(rc));
	env_free(env);
	return NULL;
}
