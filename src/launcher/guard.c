/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PR_SET_PDEATHSIG ends a rank when heddlerun dies, but not the processes that the rank has started (a rank is often a
 * shell script). So a small process waits for heddlerun's end, ends the ranks' process groups, then every process that
 * was started with the job's name in its environment (a process may have a group of its own), and removes the temporary
 * directory. The guard costs one fork while heddlerun is still small.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

struct guard {
	pid_t pid;
	int pipe_fd;		/* end of file means that heddlerun has ended */
	int n;
	_Atomic pid_t *pgid;	/* shared with the guard */
	bool *taken;		/* by slot */
};

enum { SPARE = 16384 };		/* slots beside those of the command line's ranks, for spawned ones */

static void guard_remove_at(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool ours = fd < 0 || (!fstat(fd, &st) && st.st_uid == geteuid());
	DIR *dir = fd < 0 || !ours ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		if (ours)	/* else another user has taken the name after the directory was removed */
			unlinkat(parent, name, 0);
		return;
	}
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			guard_remove_at(dirfd(dir), e->d_name);
	closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

void remove_tree(const char *dir)
{
	guard_remove_at(AT_FDCWD, dir);
}

static const char guard_name[] = "hdlguard";

static size_t read_proc(int pid, const char *what, char *text, size_t size)
{
	char path[64];
	size_t len = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && len < size && (n = read(fd, text + len, size - len)) > 0)
		len += (size_t)n;
	if (fd >= 0)
		close(fd);
	return len;
}

bool guard_named(pid_t pid)
{
	char name[32];
	size_t n = read_proc(pid, "comm", name, sizeof name);

	return n == sizeof guard_name && !memcmp(name, guard_name, n - 1);
}

/* Returns true if an environment has the mark, or the mark and .N behind it (a spawned namespace). */
static bool guard_has_mark(const char *env, size_t len, const char *mark)
{
	const char *at = memmem(env, len, mark, strlen(mark));
	size_t end = at ? (size_t)(at - env) + strlen(mark) : 0;

	return at && (end == len || !env[end] || env[end] == '.');
}

/* Sends SIGKILL to each process with `mark` in its environment. Returns how many; without /proc 0. */
static int end_marked(const char *mark)
{
	enum { SIZE = 1 << 20 };	/* of an environment; longer ones are searched up to this size */
	char *env = malloc(SIZE);
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (env && proc && (e = readdir(proc))) {
		int pid = atoi(e->d_name);
		size_t len = pid > 0 && pid != getpid() ? read_proc(pid, "environ", env, SIZE) : 0;

		if (len && guard_has_mark(env, len, mark) && !guard_named(pid))
			n += !kill(pid, SIGKILL);
	}
	if (proc)
		closedir(proc);
	free(env);
	return n;
}

static _Noreturn void run_guard(int fd, const _Atomic pid_t *pgid, int n, const char *tmpdir, const char *nspace)
{
	char c, mark[300];

	/* Not in heddlerun's process group or session: a user kills these to end heddlerun, and then the guard must still run. */
	setsid();
	prctl(PR_SET_NAME, guard_name);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_IGN);
	if (fd != 3)
		dup3(fd, 3, 0);
	/* A pipe of the user's that stayed open here would never reach end of file. */
	if (close_range(4, ~0u, 0))
		for (int i = 4; i < (int)sysconf(_SC_OPEN_MAX); i++)
			close(i);
	for (int i = 0; i < 3; i++)
		close(i);
	open("/dev/null", O_RDWR);
	dup(0);
	dup(0);
	if (chdir("/"))
		errno = 0;	/* some file system stays busy a little longer */

	while (read(3, &c, 1) < 0 && errno == EINTR)
		;
	for (int i = 0; i < n; i++)
		if (pgid[i] > 0)
			kill(-pgid[i], SIGKILL);
	/* again, for one that was being started meanwhile; processes that cannot be killed are not waited for */
	snprintf(mark, sizeof mark, "HEDDLERUN_NAMESPACE=%s", nspace);
	for (int i = 0; i < 50 && end_marked(mark); i++)
		poll(NULL, 0, 2);
	if (tmpdir)
		remove_tree(tmpdir);
	_exit(0);
}

struct guard *guard_start(int nranks, const char *tmpdir, const char *nspace)
{
	struct guard *g = must(calloc(1, sizeof *g));
	int n = nranks + SPARE, fds[2];
	size_t bytes = sizeof(pid_t) * (size_t)n;

	g->n = n;
	g->taken = must(calloc((size_t)n, sizeof *g->taken));
	g->pgid = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g->pgid == MAP_FAILED || pipe2(fds, O_CLOEXEC)) {
		complain("no memory or no descriptor for the guard process: %s", strerror(errno));
		free(g);
		return NULL;
	}
	g->pid = fork();
	if (g->pid == 0) {
		close(fds[1]);
		run_guard(fds[0], g->pgid, n, tmpdir, nspace);
	}
	close(fds[0]);
	if (g->pid < 0) {
		complain("the guard process cannot be started: %s (look at ulimit -u)", strerror(errno));
		close(fds[1]);
		free(g);
		return NULL;
	}
	g->pipe_fd = fds[1];
	return g;
}

int guard_take(struct guard *g)
{
	for (int i = 0; i < g->n; i++)
		if (!g->taken[i]) {
			g->taken[i] = true;
			return i;
		}
	return -1;
}

void guard_put(struct guard *g, int slot)
{
	if (slot < 0)
		return;
	g->pgid[slot] = 0;
	g->taken[slot] = false;
}

void guard_set(struct guard *g, int slot, pid_t pgid)
{
	if (slot >= 0)
		g->pgid[slot] = pgid;
}

bool guard_is(const struct guard *g, pid_t pid)
{
	return g->pid == pid;
}

void guard_stop(struct guard *g)
{
	close(g->pipe_fd);
	while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
		;
	munmap((void *)g->pgid, sizeof(pid_t) * (size_t)g->n);
	free(g->taken);
	free(g);
}
