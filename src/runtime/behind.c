/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A launcher behind a program that was started without one: launcher/behind.c draws the exchange. heddlerun becomes a process of
 * its own, no child of the program, whose wait(2) must not see it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pmix.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "runtime/exchange.h"
#include "runtime/pmix_fds.h"

extern char **environ;

static int behind_fd = -1;	/* its end tells heddlerun that this process has left */

/* Writes the path of heddlerun: beside this library, installed or in a build tree. false: not there. */
static bool find_beside(char *path, size_t size)
{
	static const char *const beside[] = { "../bin/heddlerun", "../../bin/heddlerun", "../heddlerun" };
	const char *slash;
	Dl_info self;

	if (!dladdr((void *)&behind_fd, &self) || !self.dli_fname || !(slash = strrchr(self.dli_fname, '/')))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(beside); i++) {
		snprintf(path, size, "%.*s/%s", (int)(slash - self.dli_fname), self.dli_fname, beside[i]);
		if (!access(path, X_OK))
			return true;
	}
	return false;
}

/* Starts heddlerun, which forks and lets its first process end. Returns 0 or a negative errno. */
static int behind_start(const char *path, int fd)
{
	char how[512];
	char *argv[] = { (char *)"heddlerun", (char *)"--bind-to", (char *)"none", (char *)"--behind", how,
			 program_invocation_short_name, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	pid_t pid;
	int err;

	snprintf(how, sizeof how, "%d,%d,%s", fd, (int)getpid(), hdl_job.nspace);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fd, fd);	/* clears FD_CLOEXEC */
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	err = posix_spawnp(&pid, path, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	if (err)
		return -err;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

/* Reads heddlerun's answer, and sets the variables in it that are not set. set: gets their names, one behind the other, with an
 * empty one at the end. Returns 0 or a negative errno. */
static int behind_read(char *set, size_t size)
{
	uint64_t deadline = hdl_vars.init_timeout ? monotonic_ns() + hdl_vars.init_timeout * 1000 : 0;
	static char text[1 << 16];
	size_t n = 0, at = 0;

	while (n < 2 || text[n - 1] || text[n - 2]) {
		uint64_t now = monotonic_ns();
		struct pollfd p = { .fd = behind_fd, .events = POLLIN };
		int ready = poll(&p, 1, !deadline ? -1 : deadline > now ? (int)((deadline - now) / 1000000 + 1) : 0);
		ssize_t k;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return ready ? -errno : -ETIMEDOUT;
		k = read(behind_fd, text + n, sizeof text - n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k ? -errno : -ECONNRESET;
		n += (size_t)k;
	}
	for (char *p = text; *p; p += strlen(p) + 1) {
		char *equals = strchr(p, '=');

		if (!equals || at + (size_t)(equals - p) + 2 > size)
			return -EPROTO;
		*equals = 0;
		if (!getenv(p)) {
			setenv(p, equals + 1, 1);
			strcpy(set + at, p);
			at += strlen(p) + 1;
		}
		*equals = '=';
	}
	set[at] = 0;
	return 0;
}

/* Joins heddlerun's job. The job's variables are not kept in the environment: programs that this program starts are not part of
 * the job. */
static int behind_join(char *why, size_t size)
{
	char set[4096];
	pmix_status_t rc;
	int err = behind_read(set, sizeof set);

	if (err) {
		snprintf(why, size, "the heddlerun that was started behind this program %s",
			 err == -ECONNRESET ? "has ended (look at its message)" :
			 err == -ETIMEDOUT  ? "does not answer (HEDDLE_INIT_TIMEOUT)" :
					      strerror(-err));
		return err;
	}
	rc = hdl_rt_pmix_init();
	if (rc == PMIX_SUCCESS)
		hdl_pmix_fds_note(hdl_rt_server_uri());
	for (char *p = set; *p; p += strlen(p) + 1)
		unsetenv(p);
	if (rc == PMIX_SUCCESS)
		return 0;
	snprintf(why, size, "the PMIx server of the heddlerun behind this program cannot be reached (PMIx_Init: %s)",
		 PMIx_Error_string(rc));
	return -ENOTCONN;
}

int hdl_rt_attach(char *why, size_t size)
{
	char path[4096];
	int fds[2], err;

	if (hdl_rt_joined)
		return 0;
	if (*hdl_vars.launcher)
		snprintf(path, sizeof path, "%s", hdl_vars.launcher);
	else if (!find_beside(path, sizeof path))
		snprintf(path, sizeof path, "heddlerun");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		snprintf(why, size, "no socket for heddlerun: %s", strerror(errno));
		return -errno;
	}
	fds[0] = fd_raise(fds[0]);
	fds[1] = fd_raise(fds[1]);
	behind_fd = fds[0];
	err = fds[0] < 0 || fds[1] < 0 ? -EMFILE : behind_start(path, fds[1]);
	if (fds[1] >= 0)
		close(fds[1]);
	if (err)
		snprintf(why, size,
			 "this program was started without a launcher, and %s cannot be started behind it: %s (HEDDLE_LAUNCHER "
			 "names another path)",
			 path, strerror(-err));
	else
		err = behind_join(why, size);
	if (err) {
		hdl_rt_detach();
		return err;
	}
	hdl_rt_joined = hdl_rt_by_heddlerun = true;
	snprintf(hdl_job.launcher, sizeof hdl_job.launcher, "heddlerun");
	hdl_rt_listen(HDL_LISTEN_BLOCKING);
	return 0;
}

void hdl_rt_detach(void)
{
	if (behind_fd >= 0)
		close(behind_fd);
	behind_fd = -1;
}
