/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to the PMIx server: their admission and their end.
 *
 * Admission. libpmix 4.2 listens on a TCP port of the loopback device, which every user of the host can connect to, and its only
 * thread then reads the first bytes of a new connection without a limit: one silent connection would hold up PMIx_Init,
 * PMIx_Fence and PMIx_Finalize of all ranks. libpmix has no setting for that, and no Unix socket. So its calls of accept() come
 * here (a symbol of the executable is found before libc's): a connection whose other end is not a socket of this user on this
 * host is closed before libpmix sees it.
 *
 * The kernel names the user of that socket (sock_diag(7), a request of one netlink message; else /proc/net/tcp).
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* Address and port of one end, as the kernel's request has them. */
static void set_end(const union address *a, __be32 ip[4], __be16 *port)
{
	if (a->any.sa_family == AF_INET) {
		memcpy(ip, &a->v4.sin_addr, sizeof a->v4.sin_addr);
		*port = a->v4.sin_port;
	} else {
		memcpy(ip, &a->v6.sin6_addr, sizeof a->v6.sin6_addr);
		*port = a->v6.sin6_port;
	}
}

/* Sends the request and reads the answer. 0 and the user of the socket; -ENOENT: this host has no such socket; else a
 * negative errno: the kernel cannot be asked. */
static int ask_kernel(int netlink, const struct inet_diag_req_v2 *what, uid_t *uid)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 what;
	} request = { { sizeof request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0 }, *what };
	union {
		struct nlmsghdr head;
		char room[4096];
	} answer;
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	const struct inet_diag_msg *socket = NLMSG_DATA(&answer.head);
	const struct nlmsgerr *error = NLMSG_DATA(&answer.head);
	ssize_t n;

	if (sendto(netlink, &request, sizeof request, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
		return -errno;
	do
		n = recv(netlink, &answer, sizeof answer, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (answer.head.nlmsg_type == NLMSG_ERROR && n >= (ssize_t)NLMSG_LENGTH(sizeof *error))
		return error->error ? error->error : -EPROTO;
	if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY || n < (ssize_t)NLMSG_LENGTH(sizeof *socket))
		return -EPROTO;
	*uid = socket->idiag_uid;
	return 0;
}

/* An end as /proc/net/tcp has it: the words of the address as this machine reads them, and the port. */
static void accept_text_of(char text[48], int family, const __be32 ip[4], __be16 port)
{
	int n = 0;

	for (int i = 0; i < (family == AF_INET ? 1 : 4); i++)
		n += sprintf(text + n, "%08X", ip[i]);
	sprintf(text + n, ":%04X", ntohs(port));
}

/* Looks the socket up in /proc/net/tcp or tcp6; returns as ask_kernel. */
static int ask_text(const struct inet_diag_req_v2 *what, uid_t *uid)
{
	FILE *f = fopen(what->sdiag_family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
	char want[2][48], local[48], remote[48], line[512];
	unsigned user;
	int err = -ENOENT;

	if (!f)
		return -errno;
	accept_text_of(want[0], what->sdiag_family, what->id.idiag_src, what->id.idiag_sport);
	accept_text_of(want[1], what->sdiag_family, what->id.idiag_dst, what->id.idiag_dport);
	while (err && fgets(line, sizeof line, f)) {
		if (sscanf(line, " %*[^:]: %47s %47s %*s %*s %*s %*s %u", local, remote, &user) != 3 || strcmp(local, want[0]) ||
		    strcmp(remote, want[1]))
			continue;
		*uid = user;
		err = 0;
	}
	fclose(f);
	return err;
}

/* Finds the user of the socket at the other end of this TCP connection; returns as ask_kernel. A kernel without the
 * sock_diag module for TCP answers for every socket that there is none. */
static int other_end(int fd, uid_t *uid)
{
	struct inet_diag_req_v2 what = { .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u };
	union address theirs, ours;
	socklen_t n = sizeof theirs, m = sizeof ours;
	int netlink, err;

	if (getpeername(fd, &theirs.any, &n) || getsockname(fd, &ours.any, &m))
		return -ENOENT;		/* the other end has closed */
	what.sdiag_family = (__u8)theirs.any.sa_family;
	what.id.idiag_cookie[0] = what.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	set_end(&theirs, what.id.idiag_src, &what.id.idiag_sport);
	set_end(&ours, what.id.idiag_dst, &what.id.idiag_dport);
	netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (netlink < 0)
		return ask_text(&what, uid);
	err = ask_kernel(netlink, &what, uid);
	close(netlink);
	return err ? ask_text(&what, uid) : 0;
}

/* For libpmix. For a refused connection the caller sees ECONNABORTED: aborted before it was accepted. Where the kernel does not
 * name the peer's user, every connection is admitted: only libpmix's own check of credentials remains. */
__attribute__((visibility("default"))) int accept(int fd, struct sockaddr *address, socklen_t *restrict length)
{
	int from = accept4(fd, address, length, SOCK_CLOEXEC), domain, err;
	socklen_t n = sizeof domain;
	uid_t uid = 0;

	if (from < 0 || getsockopt(from, SOL_SOCKET, SO_DOMAIN, &domain, &n) || (domain != AF_INET && domain != AF_INET6))
		return from;
	err = other_end(from, &uid);
	if (err == -ENOENT || (!err && uid != geteuid())) {
		close(from);
		errno = ECONNABORTED;
		return -1;
	}
	return from;
}

/*
 * The end. libpmix 4.2 calls shutdown() and close() twice for a connection that it refuses (credentials of another user
 * namespace). Between the two, another thread may open something that gets the number:
 *     1. the server's thread: shutdown(18), close(18)
 *     2. the main thread: signalfd() returns 18
 *     3. the server's thread: shutdown(18), close(18)
 *     4. the ranks end, and no SIGCHLD wakes the main thread
 * So a connection's socket, although shut down, stays open until its thread closes another connection: both calls of close() for
 * one connection come from one callback, so the number is free of libpmix by then.
 */
static _Thread_local int accept_shut = -1;	/* shut down by this thread, close() follows */
static _Thread_local int accept_kept = -1;	/* closed by libpmix, still open */

/* For libpmix; nothing else in heddlerun shuts sockets down. */
__attribute__((visibility("default"))) int shutdown(int fd, int how)
{
	int failed = (int)syscall(SYS_shutdown, fd, how);

	accept_shut = !failed || errno == ENOTCONN ? fd : -1;
	return failed;
}

__attribute__((visibility("default"))) int close(int fd)
{
	bool shut = fd == accept_shut;
	int before = accept_kept;

	accept_shut = -1;
	if (shut && fd == before)
		return 0;
	if (shut)
		accept_kept = fd;
	else if (fd == before)
		accept_kept = -1;
	return shut && before < 0 ? 0 : (int)syscall(SYS_close, shut ? before : fd);
}
