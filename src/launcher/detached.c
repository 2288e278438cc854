/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that have left the ranks' process groups. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

enum { LIMIT_MS = 2000 };	/* milliseconds for a process that got SIGKILL to be gone */

/* setsid(1), or a shell with job control (set -m), puts a process where signals to its rank's group do not reach it.
 * When the parents of such a process have ended, heddlerun is its parent (PR_SET_CHILD_SUBREAPER). Calls fn for each
 * child; the kernel lists them by the thread that they have as parent. Returns the number of children; without /proc: 0. */
static int detached_each(const struct guard *guard, void (*fn)(pid_t pid, int sig), int sig)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *e;
	int n = 0, pid;

	while (threads && (e = readdir(threads))) {
		char path[64];
		FILE *f;

		snprintf(path, sizeof path, "/proc/self/task/%.20s/children", e->d_name);
		f = *e->d_name == '.' ? NULL : fopen(path, "re");
		while (f && fscanf(f, "%d", &pid) == 1) {
			if (guard_is(guard, pid))
				continue;
			n++;
			if (!guard_named(pid))		/* of a heddlerun that a rank has started: that guard ends by
							 * itself */
				fn(pid, sig);
		}
		if (f)
			fclose(f);
	}
	if (threads)
		closedir(threads);
	return n;
}

static void detached_signal(pid_t pid, int sig)
{
	if (!sig)
		return;
	kill(pid, sig);
	if (sig == SIGTERM)
		kill(pid, SIGCONT);
}

/* A process that ends leaves children of its own, so the launcher repeats this until there are none. */
void detached_end(const struct job *job, int signal_fd, bool gently, uint64_t until)
{
	uint64_t end = 0;
	int sig = gently ? SIGTERM : SIGKILL;

	for (;;) {
		struct pollfd p = { .fd = signal_fd, .events = POLLIN };
		struct signalfd_siginfo info;
		uint64_t now = monotonic_ns();

		if (sig != SIGKILL && now >= until && sig != SIGTERM)
			sig = SIGKILL;
		if (sig == SIGKILL && !end)
			end = now + LIMIT_MS * 1000000ull;
		if (!detached_each(job->guard, detached_signal, sig))
			return;
		if (end && now >= end) {
			complain("warning: processes that ranks have started cannot be ended, and are left over");
			return;
		}
		if (sig == SIGTERM)
			sig = 0;	/* once */
		poll(&p, 1, 20);	/* SIGCHLD; a grandchild becomes a child without a signal */
		while (read(signal_fd, &info, sizeof info) == sizeof info)
			if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM)
				until = 0;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
}
