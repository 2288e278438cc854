/* SPDX-License-Identifier: BSD-3-Clause */
/* The programs of chapters 7 and 8 of the RDMA Aware Programming manual (rev. 1.7), as tests: the calls and attributes are the
 * manual's, in its order; a program's two roles are two processes of one fabric. The TCP connection by which the manual's
 * programs meet is a socket pair, ports are free ones, pauses are barriers. */
#ifndef MANUAL_H
#define MANUAL_H

#include <stdint.h>
#include <sys/socket.h>

#include "vt.h"

static int manual_peer = -1;	/* socket to the other role */

/* sock_sync_data: sends n bytes and receives as many. */
static inline void manual_sync(const void *mine, void *theirs, size_t n)
{
	CHECK(send(manual_peer, mine, n, MSG_NOSIGNAL) == (ssize_t)n && recv(manual_peer, theirs, n, MSG_WAITALL) == (ssize_t)n,
	      "the other role has ended");
}

static inline void manual_barrier(void)
{
	char mine = 'R', theirs;
	manual_sync(&mine, &theirs, 1);
}

/* The server's port, which the server tells and the client learns. */
static inline uint16_t manual_port(uint16_t port)
{
	uint16_t other;
	manual_sync(&port, &other, sizeof(port));
	return port ? port : other;
}

/* Runs both roles, each in a process of its own, and returns when both have ended well: a child has none of its parent's devices,
 * so that the test's own process must open none. */
static inline void manual_run(void (*role)(bool server))
{
	int pair[2], status;
	pid_t pid[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0, "fork");
		if (!pid[i]) {
			alarm(120);
			manual_peer = pair[i];
			close(pair[!i]);
			role(!i);
			exit(0);
		}
	}
	close(pair[0]);
	close(pair[1]);
	for (int i = 0; i < 2; i++)
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && !status, "the %s: status %#x", i ? "client" : "server", status);
}

#endif
