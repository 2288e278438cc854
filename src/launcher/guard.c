/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PR_SET_PDEATHSIG ends a rank when heddlerun dies, but not what the rank has started itself (a rank is often a
 * shell script). So a small process waits for heddlerun's end, ends the ranks' process groups, and removes the
 * temporary directory. It costs one fork while heddlerun is still small.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
	int pipe_fd;		/* its end is heddlerun's end */
	int n;
	_Atomic pid_t *pgid;	/* shared with the guard */
};

static void remove_at(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	bool ours = fd < 0 || (!fstat(fd, &st) && st.st_uid == geteuid());
	DIR *dir = fd < 0 || !ours ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		if (ours)	/* else another user has taken the name after its directory went */
			unlinkat(parent, name, 0);
		return;
	}
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			remove_at(dirfd(dir), e->d_name);
	closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

void remove_tree(const char *dir)
{
	remove_at(AT_FDCWD, dir);
}

static _Noreturn void be_guard(int fd, const _Atomic pid_t *pgid, int n, const char *tmpdir)
{
	char c;

	/* Not in heddlerun's process group or session: who kills these means heddlerun, and then there is work here. */
	setsid();
	prctl(PR_SET_NAME, "hdlguard");
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_IGN);
	if (fd != 3)
		dup3(fd, 3, 0);
	/* A pipe of the user's that stayed open here would never come to its end. */
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
	if (tmpdir)
		remove_tree(tmpdir);
	_exit(0);
}

struct guard *guard_start(int nranks, const char *tmpdir)
{
	struct guard *g = must(calloc(1, sizeof *g));
	size_t bytes = sizeof(pid_t) * (size_t)nranks;
	int fds[2];

	g->n = nranks;
	g->pgid = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g->pgid == MAP_FAILED || pipe2(fds, O_CLOEXEC)) {
		complain("no memory or no descriptor for the guard process: %s", strerror(errno));
		free(g);
		return NULL;
	}
	g->pid = fork();
	if (g->pid == 0) {
		close(fds[1]);
		be_guard(fds[0], g->pgid, nranks, tmpdir);
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

void guard_set(struct guard *g, int rank, pid_t pgid)
{
	g->pgid[rank] = pgid;
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
	free(g);
}
