/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that uses the runtime alone, without MPI. The first argument names the test function. The runtime_*.sh and launcher_*.sh
 * beside this file run the program; they expect its output and exit codes.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/runtime.h"

static int failed(const char *what)
{
	fprintf(stderr, "rank %d: %s failed\n", hdl_job.rank, what);
	return 1;
}

/* Prints this process's place in the job. */
static int do_where(void)
{
	printf("rank %d of %d local %d of %d hosts %d host %d cores %d oversubscribed %d singleton %d launcher %s\n",
	       hdl_job.rank, hdl_job.size, hdl_job.local_rank, hdl_job.local_size, hdl_job.local ? 2 : 1,
	       hdl_job.my_host, hdl_job.ncores, hdl_job.oversubscribed, hdl_job.singleton, hdl_job.launcher);
	return hdl_rt_fence() ? failed("fence") : 0;
}

/* Every rank gets the value of every other rank, lazily, without a fence before. */
static int do_exchange(void)
{
	char mine[64], expected[64];

	snprintf(mine, sizeof mine, "value of %d", hdl_job.rank);
	if (hdl_rt_put("test.key", mine, strlen(mine) + 1) || hdl_rt_commit())
		return failed("put");
	for (int i = 1; i < hdl_job.size; i++) {
		int r = (hdl_job.rank + i) % hdl_job.size;
		size_t len;
		void *data;

		if (hdl_rt_get(r, "test.key", &data, &len))
			return failed("get");
		snprintf(expected, sizeof expected, "value of %d", r);
		if (len != strlen(expected) + 1 || strcmp(data, expected))
			return failed("comparison");
		free(data);
	}
	/* A second round: values that a rank commits later can be fetched, too, although the rank's earlier values are cached. */
	if (hdl_rt_put("test.late", &hdl_job.rank, sizeof hdl_job.rank) || hdl_rt_commit())
		return failed("late put");
	for (int r = 0; r < hdl_job.size; r++) {
		size_t len;
		void *data;

		if (r == hdl_job.rank)
			continue;
		if (hdl_rt_get(r, "test.late", &data, &len) || len != sizeof r || memcmp(data, &r, len))
			return failed("late get");
		free(data);
	}
	if (hdl_rt_fence())
		return failed("fence");
	printf("exchanged %d\n", hdl_job.rank);
	return 0;
}

/* No rank leaves hdl_rt_fence before all ranks have entered: each rank creates a file before the fence, and looks for the files
 * of all ranks after. */
static int do_fences(const char *dir)
{
	for (int round = 0; round < 5; round++) {
		char path[512];
		FILE *f;

		snprintf(path, sizeof path, "%s/%d.%d", dir, round, hdl_job.rank);
		f = fopen(path, "w");
		if (!f || fclose(f))
			return failed("file");
		if (hdl_rt_fence())
			return failed("fence");
		for (int r = 0; r < hdl_job.size; r++) {
			snprintf(path, sizeof path, "%s/%d.%d", dir, round, r);
			if (access(path, F_OK))
				return failed("ordering by the fence");
		}
	}
	printf("fenced %d\n", hdl_job.rank);
	return 0;
}

/* Rank `who` has joined, but never enters the fence: hdl_rt_fence of the other ranks ends with -ETIMEDOUT. */
static int do_absent(int who)
{
	if (hdl_job.rank == who) {
		pause();
		return 0;
	}
	return hdl_rt_fence() == -ETIMEDOUT ? 7 : 1;
}

static int do_get_absent(void)
{
	size_t len;
	void *data;

	if (hdl_job.rank == 1) {
		pause();
		return 0;
	}
	return hdl_rt_get(1, "test.never", &data, &len) == -ETIMEDOUT ? 7 : 1;
}

/*
 * Rank `who` is killed, with so much memory that the kernel takes a while to end the process. The other ranks see PF_EXITING, as
 * a device or another connection would show them the death, and do `how` at once: abort, or exit without hdl_rt_fini.
 */
static int do_mourn(int who, const char *how)
{
	enum { MEMORY = 1 << 29, EXITING = 4 /* PF_EXITING, see proc(5) */ };
	int *pid, mine = getpid();
	unsigned flags = 0;
	char path[64];
	void *data;
	size_t len;

	if (hdl_rt_put("test.pid", &mine, sizeof mine) || hdl_rt_commit() || hdl_rt_get(who, "test.pid", &data, &len))
		return failed("exchange of pids");
	pid = data;
	snprintf(path, sizeof path, "/proc/%d/stat", *pid);
	free(data);
	if (hdl_rt_fence())
		return failed("fence");
	if (hdl_job.rank == who) {
		char *memory = malloc(MEMORY);

		if (!memory)
			return failed("malloc");
		for (size_t i = 0; i < MEMORY; i += 4096)
			memory[i] = 1;
		raise(SIGKILL);
	}
	while (!(flags & EXITING)) {
		FILE *f = fopen(path, "r");
		int n = f ? fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) : 0;

		if (f)
			fclose(f);
		if (n != 1)
			break;	/* the process has been reaped */
	}
	if (!strcmp(how, "abort"))
		hdl_rt_abort(5, "another rank has failed");
	exit(0);
}

/* Returns whether every thread of a process is stopped. SIGSTOP reaches the threads one after another. */
static bool is_stopped(int pid)
{
	char path[64], state = 'R';
	struct dirent *e;
	DIR *tasks;
	bool all = true;

	snprintf(path, sizeof path, "/proc/%d/task", pid);
	tasks = opendir(path);
	while (tasks && all && (e = readdir(tasks))) {
		char file[352];
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		snprintf(file, sizeof file, "%s/%s/stat", path, e->d_name);
		f = fopen(file, "r");
		all = f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
		if (f)
			fclose(f);
	}
	if (tasks)
		closedir(tasks);
	return tasks && all;
}

/* Stops the launcher after hdl_rt_init and before hdl_rt_commit. The caller gives the launcher's pid: a shell may be the
 * parent. */
static int do_publish_stopped(int launcher)
{
	if (launcher <= 1 || kill(launcher, SIGSTOP))
		return failed("kill");
	for (int i = 0; i < 5000 && !is_stopped(launcher); i++)
		usleep(1000);
	if (hdl_rt_put("test.key", "x", 1))
		return failed("put");
	hdl_rt_commit();
	return 1;
}

static volatile sig_atomic_t seen;

static void note_signal(int sig)
{
	seen = sig;
}

/* Prints "ready", waits for a signal, and prints the signal's number. */
static int do_signal(void)
{
	static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
	struct sigaction sa = { .sa_handler = note_signal };
	sigset_t block, old;

	sigemptyset(&block);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		sigaction(all[i], &sa, NULL);
		sigaddset(&block, all[i]);
	}
	sigprocmask(SIG_BLOCK, &block, &old);
	printf("ready %d\n", hdl_job.rank);
	fflush(stdout);
	while (!seen)
		sigsuspend(&old);
	printf("rank %d got signal %d\n", hdl_job.rank, (int)seen);
	return 0;
}

/* Runs a command as a child of this rank. Fails unless the command exits with code `want`. */
static int do_start(const char *command, int want)
{
	int status = system(command);

	return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == want ? 0 : failed(command);
}

/* Rank `who` dies in MPI_Init, before it publishes HDL_ADDRESS; the other ranks get that key, which must fail. */
static int do_early(int who)
{
	void *data;
	size_t len;

	if (hdl_job.rank == who)
		raise(SIGKILL);
	return hdl_rt_get(who, HDL_ADDRESS, &data, &len) ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "where", *arg = argc > 2 ? argv[2] : "";
	int code = 2, who = atoi(arg);

	if (!strcmp(what, "late") && getenv("PMIX_RANK") && atoi(getenv("PMIX_RANK")) == who) {
		pause();	/* this rank never joins the job */
		return 0;
	}
	if (hdl_rt_init(true))
		return 9;
	/* as after MPI_Init */
	if (strcmp(what, "early") && (hdl_rt_put(HDL_ADDRESS, "", 1) || hdl_rt_commit()))
		return 9;
	if (!strcmp(what, "where"))
		code = do_where();
	else if (!strcmp(what, "exchange"))
		code = do_exchange();
	else if (!strcmp(what, "fences"))
		code = do_fences(arg);
	else if (!strcmp(what, "absent"))
		code = do_absent(who);
	else if (!strcmp(what, "late"))
		code = hdl_rt_fence() == -ETIMEDOUT ? 7 : 1;
	else if (!strcmp(what, "get-absent"))
		code = do_get_absent();
	else if (!strcmp(what, "publish-stopped"))
		code = do_publish_stopped(who);
	else if (!strcmp(what, "signal"))
		code = do_signal();
	else if (!strcmp(what, "mourn"))
		code = do_mourn(who, argc > 3 ? argv[3] : "exit");
	else if (!strcmp(what, "start"))
		code = do_start(arg, argc > 3 ? atoi(argv[3]) : 0);
	else if (!strcmp(what, "early"))
		code = do_early(who);
	else if (!strcmp(what, "nothing"))
		code = 0;
	else if (!strcmp(what, "abort") && hdl_job.rank == who)
		hdl_rt_abort(argc > 3 ? atoi(argv[3]) : 5, "it was asked to");
	else if (!strcmp(what, "exit") && hdl_job.rank == who)
		exit(argc > 3 ? atoi(argv[3]) : 3);	/* without leaving the job */
	else if (!strcmp(what, "kill") && hdl_job.rank == who)
		raise(argc > 3 ? atoi(argv[3]) : SIGKILL);
	else if (!strcmp(what, "abort") || !strcmp(what, "exit") || !strcmp(what, "kill") || !strcmp(what, "wait")) {
		printf("waiting %d pid %d\n", hdl_job.rank, (int)getpid());
		fflush(stdout);
		for (;;)
			pause();
	}
	if (code == 7)		/* other ranks may never enter the fence of hdl_rt_fini */
		return code;
	if (hdl_rt_fini(code == 0))
		return failed("leaving");
	return code;
}
