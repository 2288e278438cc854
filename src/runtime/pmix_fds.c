/* SPDX-License-Identifier: BSD-3-Clause */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/pmix_fds.h"
#include "runtime/runtime.h"

static int connection = -1;
static ino_t inode;		/* of the socket: the descriptor may be another file's by now */

/* The port of the process that fd is connected with; 0: fd is no such socket. */
static unsigned tcp_port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} a = { .any.sa_family = AF_UNSPEC };
	socklen_t n = sizeof a;

	if (getpeername(fd, &a.any, &n))
		return 0;
	return a.any.sa_family == AF_INET ? ntohs(a.v4.sin_port) : a.any.sa_family == AF_INET6 ? ntohs(a.v6.sin6_port) : 0;
}

/* libevent's messages. The event loop of libpmix's thread reports EBADF without end when the loop's descriptors are
 * closed. */
static void on_event_log(int severity, const char *text)
{
	static const char *const name[] = { "debug", "msg", "warn", "err" };

	hdl_pmix_fds_check("the PMIx library's thread");
	fprintf(stderr, "[%s] %s\n", severity >= 0 && severity < 4 ? name[severity] : "?", text);
}

static void watch_event_library(void)
{
	void (*set_log)(void (*)(int, const char *));

	*(void **)&set_log = dlsym(RTLD_DEFAULT, "event_set_log_callback");
	if (set_log)
		set_log(on_event_log);
}

void hdl_pmix_fds_note(const char *uri)
{
	enum { MOST = 1024 };
	const char *colon = strrchr(uri, ':');
	unsigned port = colon ? (unsigned)atoi(colon + 1) : 0;
	struct stat st;

	for (int fd = 0; port && fd < MOST; fd++) {
		if (tcp_port_of(fd) != port || fstat(fd, &st))
			continue;
		connection = fd;
		inode = st.st_ino;
		watch_event_library();
		return;
	}
}

void hdl_pmix_fds_forget(void)
{
	connection = -1;
}

void hdl_pmix_fds_check(const char *call)
{
	int fd = connection;
	struct stat st;

	if (fd < 0 || (!fstat(fd, &st) && st.st_ino == inode && S_ISSOCK(st.st_mode)))
		return;
	hdl_error("%s: the program has closed descriptor %d, by which the PMIx library reaches the launcher. After MPI_Init a "
		  "program may close only its own descriptors: a loop that closes all descriptors, as a daemon has it, must run "
		  "ahead of MPI_Init. This process ends", call, fd);
	_exit(EXIT_FAILURE);
}
