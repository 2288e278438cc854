/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of ports. A bound port is an abstract socket name, of two sockets:
 *
 *     shca-cm/<uid>/<hash of fabric>/<service id>/<address>
 *
 * The address is hexadecimal, or "*" for a listener to every address, "*4" or "*6" for one that takes a single family
 * (RDMA_OPTION_ID_AFONLY). The kernel gives a name to one socket of each type, and frees the name with the socket, so that a
 * dead listener refuses at once. Names belong to a network namespace, as ports do. Any process may bind any abstract name: each
 * side of a connection checks the user of the other one (SO_PEERCRED).
 *
 * The SOCK_SEQPACKET socket listens. The SOCK_DGRAM socket is the mark of the bound name: another id sees the name by connect()
 * to the mark, which works whether the id listens or not, and leaves nothing behind. To see a name by bind() is wrong: 1. A looks
 * for "*", and has bound that name for the moment. 2. B looks, too, and gets EADDRINUSE, though no id has the name.
 *
 * As with TCP, a port that is bound for all addresses excludes the same port of any single address. An id binds its own name
 * first and then looks whether a conflicting name is there. So of two conflicting ids at least one sees the other.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

bool rcm_same_user(int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) && cred.uid == geteuid();
}

/* Writes the part of a name that stands for an address. `a` NULL: every address of this family; AF_UNSPEC: of all. */
static void host_part(char text[40], const struct sockaddr_storage *a, int family)
{
	const uint8_t *bytes = a ? rcm_address_bytes(a) : NULL;

	if (!bytes) {
		strcpy(text, family == AF_INET ? "*4" : family == AF_INET6 ? "*6" : "*");
		return;
	}
	for (int i = 0; i < (a->ss_family == AF_INET ? 4 : 16); i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
}

static socklen_t name_address(struct sockaddr_un *un, uint64_t service, const char *host)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "shca-cm/%u/%s/%llx/%s", (unsigned)geteuid(), rcm_fabric(),
			 (unsigned long long)service, host);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}
_Static_assert(sizeof("shca-cm/") + 10 + 1 + 16 + 1 + 16 + 1 + 32 < sizeof(((struct sockaddr_un *)0)->sun_path),
	       "the longest name");

/* Returns a socket with this name or -errno. */
static int name_bind(uint64_t service, const char *host, int type)
{
	struct sockaddr_un un;
	socklen_t len = name_address(&un, service, host);
	int fd;

	fd = fd_raise(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0 || bind(fd, (struct sockaddr *)&un, len)) {
		int err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	return fd;
}

/* Returns true if an id has the name. Without a descriptor for the question: false. */
static bool name_exists(uint64_t service, const char *host)
{
	struct sockaddr_un un;
	socklen_t len = name_address(&un, service, host);
	int fd = fd_raise(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	bool has = fd >= 0 && !connect(fd, (struct sockaddr *)&un, len);

	if (fd >= 0)
		close(fd);
	return has;
}

/* Returns whether a single address of this family (AF_UNSPEC: of any) has the port. */
static bool any_address_has(uint64_t service, int family)
{
	struct ifaddrs *list, *i;
	bool has = false;
	char host[40];

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !has; i = i->ifa_next) {
		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6) ||
		    (family != AF_UNSPEC && family != i->ifa_addr->sa_family))
			continue;
		host_part(host, (struct sockaddr_storage *)i->ifa_addr, 0);
		has = name_exists(service, host);
	}
	freeifaddrs(list);
	return has;
}

static bool has_conflict(const struct rcm_id *id, uint64_t service)
{
	int family = id->src.ss_family;

	if (!rcm_is_any(&id->src))
		return name_exists(service, "*") || name_exists(service, family == AF_INET ? "*4" : "*6");
	if (id->af_only)
		return name_exists(service, "*") || any_address_has(service, family);
	return name_exists(service, "*4") || name_exists(service, "*6") || any_address_has(service, AF_UNSPEC);
}

int rcm_name_take(struct rcm_id *id)
{
	uint64_t service = rcm_service_id(id, &id->src);
	bool any = rcm_is_any(&id->src);
	char host[40];

	host_part(host, any ? NULL : &id->src, id->af_only ? id->src.ss_family : AF_UNSPEC);
	int fd = name_bind(service, host, SOCK_SEQPACKET);
	if (fd < 0)
		return fd;
	int mark = name_bind(service, host, SOCK_DGRAM), err = mark < 0 ? mark : 0;
	if (!err && has_conflict(id, service))
		err = -EADDRINUSE;
	if (err) {
		close(fd);
		if (mark >= 0)
			close(mark);
		return err;
	}
	id->name = shca_fd_note(fd_raise_over_select(fd));
	id->name_mark = shca_fd_note(fd_raise_over_select(mark));
	return 0;
}

void rcm_name_free(struct rcm_id *id)
{
	shca_fd_close(&id->name);
	shca_fd_close(&id->name_mark);
}

static int port_name_connect(uint64_t service, const char *host)
{
	struct sockaddr_un un;
	socklen_t len = name_address(&un, service, host);
	int fd;

	fd = fd_raise_over_select(fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
	int err = fd >= 0 && !connect(fd, (struct sockaddr *)&un, len) ? 0 : -errno;
	if (!err && rcm_same_user(fd))
		return fd;
	if (!err)
		err = -shca_refuse(ECONNREFUSED, "rdma_connect: another user has bound the name %s", un.sun_path + 1);
	if (fd >= 0)
		close(fd);
	return err;
}

int rcm_name_connect(const struct rcm_id *id)
{
	uint64_t service = rcm_service_id(id, &id->dst);
	char host[40];
	const char *names[] = {"*", host, id->dst.ss_family == AF_INET ? "*4" : "*6"};
	int err = -ECONNREFUSED;

	host_part(host, &id->dst, 0);
	/* A listener of this user has one of the names. Another user may have bound the other ones, and may not answer there. */
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		int fd = port_name_connect(service, names[i]);
		if (fd >= 0 || (fd != -ECONNREFUSED && fd != -EAGAIN))
			return fd;
		if (fd == -EAGAIN)
			err = fd;
	}
	return err;
}
