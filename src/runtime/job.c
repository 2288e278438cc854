/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The job, by PMIx. Two things shape this file. Start-up costs: only keys that are needed are read, and only from the
 * data that the server has sent already (PMIX_OPTIONAL); another rank's values are fetched when they are used (direct
 * modex). And a rank that never comes must not hang the rest: each wait for another rank is bounded, and the error
 * names that rank.
 */
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fnv.h"
#include "runtime/ask.h"
#include "runtime/autotune.h"
#include "runtime/exchange.h"
#include "runtime/jobs.h"
#include "runtime/launched_by.h"
#include "runtime/pmix_fds.h"
#include "runtime/runtime.h"
#include "runtime/watchdog.h"

#ifndef HDL_LIBRARY_VERSION	/* a test builds a second library */
#define HDL_LIBRARY_VERSION PACKAGE_VERSION
#endif
#define COMMON_KEY "hdl.common"
#define VARS_KEY "hdl.vars"

static bool compared;		/* check_common has succeeded in this job */
static int host_leader;		/* the first rank of this host */

/* ---- reading the job data that the server sent at start ---------------------------------------------------- */

/* NULL with errno: ENODATA: the server has not sent the key; ENOMEM: not known. */
static pmix_value_t *job_told(pmix_rank_t rank, const char *key)
{
	pmix_proc_t proc = hdl_rt_proc(rank);
	pmix_value_t *value = NULL;
	pmix_info_t optional;
	pmix_status_t rc;

	PMIX_INFO_LOAD(&optional, PMIX_OPTIONAL, NULL, PMIX_BOOL);
	hdl_pmix_fds_check("PMIx_Get");
	rc = PMIx_Get(&proc, key, &optional, 1, &value);
	PMIX_INFO_DESTRUCT(&optional);
	errno = rc == PMIX_ERR_NOMEM ? ENOMEM : ENODATA;
	return rc == PMIX_SUCCESS ? value : NULL;
}

static bool as_number(pmix_value_t *value, int *out)
{
	pmix_status_t rc;
	int64_t v = 0;

	if (!value)
		return false;
	PMIX_VALUE_GET_NUMBER(rc, value, v, int64_t);
	PMIX_VALUE_RELEASE(value);
	errno = ENODATA;
	if (rc != PMIX_SUCCESS || v < 0 || v > INT32_MAX)
		return false;
	*out = (int)v;
	return true;
}

static bool told_number(pmix_rank_t rank, const char *key, int *out)
{
	return as_number(job_told(rank, key), out);
}

/* Reads a key of one of the programs in the launcher's command. Returns whether the server has sent it. */
static bool told_of_program(int appnum, const char *key, int *out)
{
	pmix_proc_t proc = hdl_rt_proc(PMIX_RANK_WILDCARD);
	uint32_t number = (uint32_t)appnum;
	pmix_value_t *value = NULL;
	pmix_info_t info[3];
	pmix_status_t rc;

	PMIX_INFO_LOAD(&info[0], PMIX_OPTIONAL, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&info[1], PMIX_APP_INFO, NULL, PMIX_BOOL);
	PMIX_INFO_LOAD(&info[2], PMIX_APPNUM, &number, PMIX_UINT32);
	hdl_pmix_fds_check("PMIx_Get");
	rc = PMIx_Get(&proc, key, info, 3, &value);
	for (int i = 0; i < 3; i++)
		PMIX_INFO_DESTRUCT(&info[i]);
	return rc == PMIX_SUCCESS && as_number(value, out);
}

/*
 * Returns the number of ranks of this rank's program. Uses the server's number if plausible: some servers give the size of the
 * last program for all of several programs, or for the first. Otherwise reads the program of each rank.
 */
static int count_program(void)
{
	int programs = 0, all = 0, own = 0, n, of;

	if (!told_number(PMIX_RANK_WILDCARD, PMIX_JOB_NUM_APPS, &programs))
		programs = hdl_job.appnum + 1;
	else if (programs == 1)
		return hdl_job.size;
	for (int a = 0; a < programs && a < hdl_job.size; a++) {
		n = 0;
		if (!told_of_program(a, PMIX_APP_SIZE, &n))
			break;
		all += n;
		own = a == hdl_job.appnum ? n : own;
	}
	if (all == hdl_job.size && own)
		return own;
	own = 0;
	for (int r = 0; r < hdl_job.size; r++)
		own += told_number((pmix_rank_t)r, PMIX_APPNUM, &of) && of == hdl_job.appnum;
	return own ? own : hdl_job.size;
}

/* malloc'd, or NULL. */
static char *told_string(pmix_rank_t rank, const char *key)
{
	pmix_value_t *value = job_told(rank, key);
	char *text = NULL;

	if (value && value->type == PMIX_STRING && value->data.string)
		text = strdup(value->data.string);
	if (value)
		PMIX_VALUE_RELEASE(value);
	return text;
}

static int ascending(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* The peers of this host are a list "0,1,2": returns their number, and in *mine this rank's place. ranks, if not NULL,
 * gets the list. */
static int parse_local_peers(const char *peers, int *ranks, int *mine)
{
	char *next;
	int n = 0;

	*mine = -1;
	for (const char *p = peers; p && *p; p = *next == ',' ? next + 1 : next) {
		int rank = (int)strtol(p, &next, 10);

		if (next == p)
			break;
		if (rank == hdl_job.rank)
			*mine = n;
		if (ranks)
			ranks[n] = rank;
		n++;
	}
	return n;
}

/* Sets the local rank and size, and which ranks are of this host; 0 or a negative errno. *leader: the first of them.
 * Nothing is read about other hosts: the data that a rank reads at start do not grow with the job. */
static int read_local_peers(int *leader)
{
	char *peers = told_string(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS);
	int nodes, n = parse_local_peers(peers, NULL, &hdl_job.local_rank), err = -ENODATA;

	if (hdl_job.local_rank < 0)
		goto out;
	err = 0;
	*leader = (int)strtol(peers, NULL, 10);
	hdl_job.local_size = hdl_job.ppn = n;
	if (n == hdl_job.size)
		goto out;
	hdl_job.local = malloc((size_t)n * sizeof *hdl_job.local);
	if (!hdl_job.local) {
		hdl_error("no memory for the list of the %d ranks of this host", n);
		err = -ENOMEM;
		goto out;
	}
	parse_local_peers(peers, hdl_job.local, &hdl_job.local_rank);
	qsort(hdl_job.local, (size_t)n, sizeof *hdl_job.local, ascending);
	hdl_job.my_host = hdl_job.local[0];
	if (told_number(PMIX_RANK_WILDCARD, PMIX_NUM_NODES, &nodes) && nodes > 1)
		hdl_job.ppn = (hdl_job.size - 1) / nodes + 1;
out:
	free(peers);
	return err;
}

/* By rank: node + NODE_0 of each rank that was asked for: groups share ranks, and PMIx is slow to ask. Pages of ranks
 * that were not asked for are never touched. */
static int *nodes;
enum { NODE_UNASKED, NODE_UNTOLD, NODE_0 };

int hdl_rt_node(int rank)
{
	int node;

	if (hdl_job.singleton)
		return -ENODATA;
	if (!nodes)
		nodes = calloc((size_t)hdl_job.size, sizeof *nodes);
	if (!nodes)
		return -ENOMEM;
	if (nodes[rank] == NODE_UNASKED) {
		if (told_number((pmix_rank_t)rank, PMIX_NODEID, &node) && node <= INT32_MAX - NODE_0)
			nodes[rank] = node + NODE_0;
		else if (errno == ENOMEM)
			return -ENOMEM;
		else
			nodes[rank] = NODE_UNTOLD;
	}
	return nodes[rank] == NODE_UNTOLD ? -ENODATA : nodes[rank] - NODE_0;
}

/* ---- joining -------------------------------------------------------------------------------------------------- */

static int refuse_without_pmix(const struct hdl_launched_by *by)
{
	if (by->rank > 0)	/* one rank's report is enough */
		hdl_error("no PMIx server for %s=%s: see the message of rank 0", by->size_var, by->size_text);
	else
		hdl_error("%s started %s processes (%s=%s), but it offers them no PMIx server, by which Heddle %s joins a job: "
			  "each of them would run alone as rank 0 of 1. Start the program with heddlerun -n %s%s.",
			  by->launcher, by->size_text, by->size_var, by->size_text, HDL_LIBRARY_VERSION, by->size_text,
			  by->remedy);
	return -ENOTCONN;
}

static void become_singleton(void)
{
	hdl_job.size = hdl_job.app_size = hdl_job.local_size = hdl_job.ppn = 1;
	hdl_job.singleton = true;
	hdl_job.appnum = -1;
	snprintf(hdl_job.nspace, sizeof hdl_job.nspace, "singleton.%d.%llx", (int)getpid(),
		 (unsigned long long)monotonic_ns());
	snprintf(hdl_job.launcher, sizeof hdl_job.launcher, "none");
	hdl_diag_rank(-1, hdl_job.hostname);
}

/* Returns true if this process is in another namespace of this kind ("net", "user") than heddlerun. */
static bool foreign_space(const char *kind)
{
	const char *spaces = getenv("HEDDLERUN_SPACES"), *theirs;
	char path[64], mine[64];
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/ns/%s", kind);
	n = readlink(path, mine, sizeof mine - 1);
	if (!spaces || n < 0)
		return false;
	mine[n] = 0;
	theirs = strstr(spaces, kind);
	return theirs && strncmp(theirs, mine, (size_t)n);
}

/* Containers around ranks: which namespace keeps a rank from its launcher on the same host. */
static bool explain_space(const struct hdl_launched_by *by)
{
	if (!by->heddlerun)
		return false;
	if (foreign_space("net") && strstr(hdl_rt_server_uri(), "127.0.0.1"))
		hdl_error("rank %d is in another network namespace (a container?) than heddlerun, and cannot reach its PMIx "
			  "server: start it with the host's network (docker --network=host, apptainer without --net), or start "
			  "heddlerun in the container", by->rank);
	else if (foreign_space("user"))
		hdl_error("rank %d is in another user namespace (a container?) than heddlerun, whose PMIx server does not take "
			  "user %d for its own: start it with the host's users (podman --userns=keep-id), or start heddlerun in "
			  "the container", by->rank, (int)getuid());
	else
		return false;
	return true;
}

/*
 * A program that a rank starts by system() or exec inherits the environment by which that rank has joined, and would
 * join as the same rank once more: both would get the same messages. So a rank that joins sets a variable for its
 * children: its process, namespace and rank.
 */
static const char mark_var[] = "HEDDLE_RANK_PROCESS";

static void mark_text(char *text, size_t room, int pid, const char *nspace, int rank)
{
	snprintf(text, room, "%d %s %d", pid, nspace, rank);
}

static int leave_mark(void)
{
	char text[sizeof hdl_job.nspace + 32];

	mark_text(text, sizeof text, (int)getpid(), hdl_job.nspace, hdl_job.rank);
	if (!setenv(mark_var, text, 1))
		return 0;
	hdl_error("setenv of %s: %s", mark_var, strerror(errno));
	return -errno;
}

static int refuse_second(const struct hdl_launched_by *by)
{
	const char *mark = getenv(mark_var), *nspace = getenv("PMIX_NAMESPACE");
	char text[sizeof hdl_job.nspace + 32];
	int pid = mark ? atoi(mark) : 0;

	mark_text(text, sizeof text, pid, nspace ? nspace : "", by->rank);
	if (!mark || pid == (int)getpid() || strcmp(mark, text))
		return 0;
	hdl_error("this process (%d) was started by rank %d of the job (process %d) and inherited its place there, which a "
		  "second process cannot have. To run it as a job of its own, start it with heddlerun; to run it alone, without "
		  "PMIX_NAMESPACE in its environment (env -u PMIX_NAMESPACE ...)", (int)getpid(), by->rank, pid);
	return -EBUSY;
}

static int job_join(const struct hdl_launched_by *by)
{
	const char *server_version = getenv("PMIX_VERSION");
	int err = refuse_second(by);
	char limits[160];
	pmix_status_t rc;

	if (err)
		return err;
	/* The PMIx library would look for interfaces, and print messages about those missing. */
	if (foreign_space("net") && explain_space(by))
		return -ENOTCONN;
	if (!hdl_can_map(HDL_PMIX_MEMORY)) {
		hdl_error("cannot join the job: there are no %zu KiB for PMIx_Init%s: raise the limit, for example by "
			  "'ulimit -d unlimited; ulimit -v unlimited'",
			  HDL_PMIX_MEMORY >> 10, hdl_memory_limits(limits, sizeof limits));
		return -ENOMEM;
	}
	hdl_watch("joining the job (PMIx_Init; bounded by HEDDLE_INIT_TIMEOUT)", hdl_vars.init_timeout, 1);
	rc = hdl_rt_pmix_init();
	if (rc == PMIX_SUCCESS)
		hdl_pmix_fds_note(hdl_rt_server_uri());
	hdl_watch_pause();	/* until this rank publishes its addresses */
	if (rc != PMIX_SUCCESS && explain_space(by))
		return -ENOTCONN;
	err = rc != PMIX_SUCCESS ? hdl_thread_refused() : 0;
	if (err) {
		hdl_error("no thread can be had for PMIx: %s%s (look at ulimit -u, too: a rank has up to five threads beside the "
			  "program's own)", strerror(err), hdl_memory_limits(limits, sizeof limits));
		return -err;
	}
	if (rc != PMIX_SUCCESS) {
		hdl_error("%s started this process as rank %d of PMIx namespace %s, but its PMIx server (%s; PMIx %s) cannot be "
			  "reached by this side's PMIx (%s): %s. Has the launcher ended, or was its environment inherited by a "
			  "program that it did not start? Then unset PMIX_NAMESPACE, or start the program with heddlerun.",
			  by->launcher, by->rank, getenv("PMIX_NAMESPACE"), hdl_rt_server_uri(),
			  server_version ? server_version : "of unknown version", PMIx_Get_version(), PMIx_Error_string(rc));
		return -ENOTCONN;
	}
	hdl_rt_joined = true;
	hdl_rt_by_heddlerun = by->heddlerun;
	hdl_job.rank = (int)hdl_rt_me.rank;
	snprintf(hdl_job.nspace, sizeof hdl_job.nspace, "%s", hdl_rt_me.nspace);
	snprintf(hdl_job.launcher, sizeof hdl_job.launcher, "%s", by->launcher);
	hdl_diag_rank(hdl_job.rank, hdl_job.hostname);
	hdl_rt_listen(HDL_LISTEN_NONBLOCKING);
	return leave_mark();
}

/* Several launchers, one within the other, that disagree about the job's size. */
static int check_size(const struct hdl_launched_by *by)
{
	if (by->size <= 1 || by->size == hdl_job.size || strncmp(by->launcher, "mpi", 3))
		return 0;
	hdl_error("%s says that the job has %s processes (%s), the PMIx server (%s; namespace %s) says %d: one launcher was "
		  "started by the other, and the inner one offers no PMIx. Start the program with heddlerun -n %s instead of "
		  "the inner one.", by->launcher, by->size_text, by->size_var, hdl_rt_server_uri(), hdl_job.nspace, hdl_job.size,
		  by->size_text);
	return -EPROTO;
}

/* Properties that all ranks of a job must share: the library's version, and a hash (FNV-1a) of the variables that must
 * be the same. Beside them the values that the ranks of one host take from the first of them. */
struct common {
	char version[32];
	uint64_t vars;
	uint64_t ncores;
};

static struct common common_of(const char *vars)
{
	struct common c = { .vars = fnv1a_64_string(vars), .ncores = (uint64_t)hdl_job.ncores };

	snprintf(c.version, sizeof c.version, "%s", HDL_LIBRARY_VERSION);
	return c;
}

static int compare_vars(int with, const char *mine)
{
	char *theirs = NULL;
	size_t len = 0;
	int err = hdl_rt_get(with, VARS_KEY, (void **)&theirs, &len);

	if (err)
		return err;
	if (!len || theirs[len - 1] || !hdl_vars_compare(mine, theirs, with))
		hdl_error("the variables that must be the same on all ranks differ between rank %d and rank %d", hdl_job.rank,
			  with);
	free(theirs);
	return -EPROTO;
}

static int compare_common(int with, const struct common *mine, const char *vars)
{
	struct common *theirs = NULL;
	size_t len = 0;
	int err = hdl_rt_get(with, COMMON_KEY, (void **)&theirs, &len);

	if (err)
		return err;
	if (len < sizeof theirs->version || memcmp(theirs->version, mine->version, sizeof mine->version)) {
		hdl_error("rank %d runs Heddle %s, rank %d runs Heddle %.*s: all ranks of a job must use the same library "
			  "(look at LD_LIBRARY_PATH and at `ldd` of the programs)", hdl_job.rank, HDL_LIBRARY_VERSION, with,
			  (int)(len < sizeof theirs->version ? len : sizeof theirs->version), theirs->version);
		err = -EPROTO;
	} else if (len != sizeof *theirs || theirs->vars != mine->vars) {
		err = compare_vars(with, vars);
	} else if (hdl_job.local_rank) {
		hdl_job.ncores = (int)theirs->ncores;
	}
	free(theirs);
	return err;
}

/* Halves of check_common. */
enum common_halves { COMMON_PUBLISH = 1, COMMON_FETCH = 2 };

/* Ranks that are bound unevenly, or do not see each other's processes, count other numbers of CPUs, and choices that
 * must be the same on all ranks depend on that number: so the first of a host counts for all. Each rank compares with
 * the first of its host, the first of each host with rank 0: one small fetch per rank, and no exchange of all with all.
 * The variables themselves are fetched only where they differ.
 *
 * Only COMMON_FETCH waits for another rank. */
static int check_common(enum common_halves halves)
{
	int with = hdl_job.local_rank == 0 ? 0 : host_leader, err = 0;
	struct common mine;
	char *vars;

	if (hdl_job.size == 1)
		return 0;
	vars = hdl_vars_alike();
	if (!vars) {
		hdl_error("no memory for the variables that are compared");
		return -ENOMEM;
	}
	mine = common_of(vars);
	if (halves & COMMON_PUBLISH && hdl_job.local_rank == 0) {
		err = hdl_rt_put(COMMON_KEY, &mine, sizeof mine);
		if (!err)
			err = hdl_rt_put(VARS_KEY, vars, strlen(vars) + 1);
		if (!err)
			err = hdl_rt_commit();
	}
	if (!err && halves & COMMON_FETCH && with != hdl_job.rank)
		err = compare_common(with, &mine, vars);
	free(vars);
	return err;
}

int hdl_rt_compare(bool (*may_wait)(const void *arg, int rank), const void *arg)
{
	int with = hdl_job.local_rank == 0 ? 0 : host_leader, err;

	if (!may_wait) {
		err = hdl_rt_put(HDL_WORLD, "", 1);
		if (!err)
			err = hdl_rt_commit();
		if (err)
			return err;
	}
	if (compared || (may_wait && !may_wait(arg, with)))
		return 0;
	err = check_common(COMMON_FETCH);
	compared = !err;
	hdl_job.oversubscribed = hdl_job.local_size > hdl_job.ncores;
	return err;
}

static void count_cpus(const struct hdl_launched_by *by)
{
	const char *text = by->heddlerun ? getenv("HEDDLERUN_CPUS") : NULL;

	hdl_job.ncores = text ? atoi(text) : 0;
	if (hdl_job.ncores < 1)
		hdl_job.ncores = hdl_cpus_of_host(hdl_job.local_size);
}

/* properly: this rank finalizes PMIx, by which the launcher learns that the rank has left the job. A rank that fails in
 * between must not do that, so that the launcher treats its end as a failure. */
static void job_leave(bool properly)
{
	hdl_watch_end();
	if (hdl_rt_joined)
		unsetenv(mark_var);
	if (hdl_rt_joined && properly) {
		hdl_pmix_fds_check("PMIx_Finalize");
		hdl_pmix_fds_forget();
		PMIx_Finalize(NULL, 0);
	}
	hdl_pmix_fds_forget();
	hdl_rt_detach();
	hdl_rt_joined = compared = hdl_rt_by_heddlerun = false;
	hdl_jobs_fini();
	free(hdl_job.local);
	free(nodes);
	nodes = NULL;
	memset(&hdl_job, 0, sizeof hdl_job);
}

/* The PMIx library, the devices and the fabric need descriptors, and report a lack of them in many words. */
static bool enough_files(void)
{
	enum { NEEDED = 20 };
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= NEEDED)
		return true;
	hdl_error("too few open files are allowed: the limit is %llu (ulimit -n), a rank needs %d beside the program's own: "
		  "raise it where the job is started (ulimit -n 64)", (unsigned long long)files.rlim_cur, NEEDED);
	return false;
}

static int program_size;	/* hdl_job.app_size, also when there is no job any more; 0: there has been none */

int hdl_rt_program_size(void)
{
	return program_size ? program_size : hdl_launched_by_env().program_size;
}

int hdl_rt_init(bool compare)
{
	struct hdl_launched_by by = hdl_launched_by_env();
	int err;

	memset(&hdl_job, 0, sizeof hdl_job);
	if (gethostname(hdl_job.hostname, sizeof hdl_job.hostname - 1))
		snprintf(hdl_job.hostname, sizeof hdl_job.hostname, "localhost");
	err = hdl_vars_load();
	if (err)
		return err;
	hdl_output_watch();
	if (!by.pmix) {
		if (by.size > 1)
			return refuse_without_pmix(&by);
		become_singleton();
		count_cpus(&by);
		hdl_job.oversubscribed = hdl_job.local_size > hdl_job.ncores;
		hdl_backtrace_init();
		return 0;
	}

	if (!enough_files())
		return -EMFILE;
	err = job_join(&by);
	if (err) {
		hdl_watch_end();
		return err;
	}
	hdl_backtrace_init();
	err = -ENODATA;
	if (!told_number(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &hdl_job.size) || hdl_job.size <= hdl_job.rank) {
		hdl_error("the PMIx server of %s (%s) tells no job size that holds rank %d (PMIX_JOB_SIZE: %d)", by.launcher,
			  hdl_rt_server_uri(), hdl_job.rank, hdl_job.size);
		goto fail;
	}
	if (!told_number((pmix_rank_t)hdl_job.rank, PMIX_APPNUM, &hdl_job.appnum))
		hdl_job.appnum = 0;
	hdl_job.app_size = program_size = count_program();
	told_number(PMIX_RANK_WILDCARD, PMIX_UNIV_SIZE, &hdl_job.universe);
	err = read_local_peers(&host_leader);
	if (err == -ENODATA)
		hdl_error("the PMIx server of %s (%s) does not tell which ranks share this host (PMIX_LOCAL_PEERS)", by.launcher,
			  hdl_rt_server_uri());
	if (!err)
		err = check_size(&by);
	if (!err) {
		count_cpus(&by);
		/* committed with a later put: the addresses at the latest */
		err = hdl_rt_put(compare ? HDL_WORLD : HDL_SESSION, "", 1);
	}
	if (!err)
		err = check_common(compare ? COMMON_PUBLISH | COMMON_FETCH : COMMON_PUBLISH);
	if (err)
		goto fail;
	compared = compare;
	hdl_job.oversubscribed = hdl_job.local_size > hdl_job.ncores;
	hdl_debug("rank %d of %d, %d of %d on this host with %d CPUs, job %s of %s", hdl_job.rank, hdl_job.size,
		  hdl_job.local_rank, hdl_job.local_size, hdl_job.ncores, hdl_job.nspace, hdl_job.launcher);
	return 0;
fail:
	job_leave(false);
	return err;
}

void hdl_rt_quit(void)
{
	job_leave(true);
}

int hdl_rt_fini(bool fence)
{
	int err = 0;

	hdl_autotune_fini(stderr);
	if (fence) {
		err = hdl_rt_fence_begin();
		while (!err)
			err = hdl_rt_fence_wait(1000000);
		err = err < 0 ? err : 0;
	}
	job_leave(true);
	hdl_rt_epoch++;
	return err;
}

const char *hdl_rt_address_key(void)
{
	static char key[32];

	if (!hdl_rt_epoch)
		return HDL_ADDRESS;
	snprintf(key, sizeof key, HDL_ADDRESS ".%u", hdl_rt_epoch);
	return key;
}

void hdl_rt_abort(int code, const char *text)
{
	static atomic_flag ending = ATOMIC_FLAG_INIT;
	int status = code & 255 ? code & 255 : 1;

	while (atomic_flag_test_and_set(&ending))	/* another thread does this already, and ends the process */
		pause();
	if (text)
		hdl_error("%s", text);
	if (hdl_rt_joined) {
		/* A launcher that does not answer must not keep an aborting rank: then at least this one ends. */
		hdl_pmix_fds_check("PMIx_Abort");
		hdl_watch("ending the job (PMIx_Abort)", 5000000, status);
		PMIx_Abort(status, text ? text : "MPI_Abort", NULL, 0);
		hdl_watch_end();
	}
	_exit(status);
}
