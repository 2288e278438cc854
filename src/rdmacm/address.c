/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses and ports.
 *
 * A bound port is an abstract socket name:
 *
 *     shca-cm/<uid>/<hash of fabric>/<service id>/<address>
 *
 * The address is hexadecimal, or "*" for a listener to every address, "*4" or "*6" for one that takes a single family
 * (RDMA_OPTION_ID_AFONLY). The kernel gives a name to one socket, and frees the name with the socket, so that a dead
 * listener refuses at once. Names belong to a network namespace, as ports do. Any process may bind any abstract name: each
 * side of a connection checks the user of the other one (SO_PEERCRED).
 *
 * As with TCP, a port that is bound for all addresses excludes the same port of any single address. An id binds its own name
 * first and then looks whether a conflicting name is there. So of two conflicting ids at least one sees the other.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

#define FIRST_PORT 32768u	/* as Linux's ip_local_port_range begins */
#define PORTS 28232u

static const struct sockaddr_in *v4(const struct sockaddr_storage *a)
{
	return (const struct sockaddr_in *)a;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *a)
{
	return (const struct sockaddr_in6 *)a;
}

static const struct rcm_sockaddr_ib *ib(const struct sockaddr_storage *a)
{
	return (const struct rcm_sockaddr_ib *)a;
}

size_t rcm_address_size(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
	       a->ss_family == AF_IB ? sizeof(struct rcm_sockaddr_ib) : 0;
}

bool rcm_is_any(const struct sockaddr_storage *a)
{
	static const uint8_t none[16];

	return a->ss_family == AF_INET ? v4(a)->sin_addr.s_addr == htonl(INADDR_ANY) :
	       !memcmp(a->ss_family == AF_IB ? ib(a)->gid : v6(a)->sin6_addr.s6_addr, none, sizeof(none));
}

bool rcm_is_loopback(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? ntohl(v4(a)->sin_addr.s_addr) >> 24 == 127 :
	       a->ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(&v6(a)->sin6_addr) ||
					    (IN6_IS_ADDR_V4MAPPED(&v6(a)->sin6_addr) && v6(a)->sin6_addr.s6_addr[12] == 127));
}

/* The port of this process that has the GID; 0: none. */
static uint32_t port_of_gid(const uint8_t *asked)
{
	uint8_t gid[16];

	for (uint32_t port = 1; port <= shca_ports(); port++) {
		shca_port_gid(shca_port_now(port).gid_prefix, port, gid);
		if (!memcmp(asked, gid, sizeof(gid)))
			return port;
	}
	return 0;
}

uint32_t rcm_port_for(const struct sockaddr_storage *a)
{
	uint32_t named = a->ss_family == AF_IB ? port_of_gid(ib(a)->gid) : 0;

	for (uint32_t port = 1; !named && port <= shca_ports(); port++)
		if (!shca_port_now(port).down)
			named = port;
	return named ? named : 1;
}

/* ---- real devices ----------------------------------------------------------------------------------------------- */

#define CLASS "/sys/class/infiniband"

/* Whether a file has this name as its first line; of a GID without a network device there is none. */
static bool file_says(const char *path, const char *name)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	text[strcspn(text, "\n")] = 0;
	return n > 0 && !strcmp(text, name);
}

/* Calls `is` with the path of each entry of a directory, until it returns true. Returns whether it did. */
static bool any_entry(const char *dir, bool (*is)(const char *path, const char *arg), const char *arg)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];
	bool found = false;

	while (d && !found && (e = readdir(d)) != NULL)
		/* a path that is cut leads to nothing */
		if (e->d_name[0] != '.' && strcmp(e->d_name, SHCA_DEVICE_NAME) &&
		    snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < (int)sizeof(path))
			found = is(path, arg);
	if (d)
		closedir(d);
	return found;
}

static bool port_has(const char *port, const char *netdev)
{
	char dir[600];

	snprintf(dir, sizeof(dir), "%s/gid_attrs/ndevs", port);
	return any_entry(dir, file_says, netdev);
}

/* Whether a network device is the device's: of a GID (RoCE, iWARP), or the adapter's own (IPoIB). */
static bool device_has(const char *device, const char *netdev)
{
	char path[600];

	snprintf(path, sizeof(path), "%s/ports", device);
	if (any_entry(path, port_has, netdev))
		return true;
	snprintf(path, sizeof(path), "%s/device/net/%s", device, netdev);
	return !access(path, F_OK);
}

static bool is_device(const char *path, const char *arg)
{
	(void)path;
	(void)arg;
	return true;
}

bool rcm_real_devices(void)
{
	return any_entry(CLASS, is_device, NULL);
}

/* The network device of a local address belongs to a real RDMA device. */
static bool is_real_devices(const struct sockaddr_storage *a)
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !found; i = i->ifa_next) {
		const struct sockaddr_storage *has = (const struct sockaddr_storage *)(const void *)i->ifa_addr;
		if (has && has->ss_family == a->ss_family &&
		    (a->ss_family == AF_INET ? v4(has)->sin_addr.s_addr == v4(a)->sin_addr.s_addr :
					       a->ss_family == AF_INET6 && !memcmp(&v6(has)->sin6_addr, &v6(a)->sin6_addr, 16)))
			found = any_entry(CLASS, device_has, i->ifa_name);
	}
	freeifaddrs(list);
	return found;
}

/* Whether the address is one of this host's. */
static bool is_local(const struct sockaddr_storage *a)
{
	struct sockaddr_storage local = *a;

	/* the kernel binds a UDP socket to this host's addresses only */
	rcm_set_port(&local, 0);
	int fd = socket(a->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is = fd >= 0 && !bind(fd, (struct sockaddr *)&local, (socklen_t)rcm_address_size(a));
	if (fd >= 0)
		close(fd);
	return is;
}

enum rcm_owner rcm_owner(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_IB ? port_of_gid(ib(a)->gid) != 0 : rcm_is_loopback(a))
		return RCM_OURS;
	if (!rcm_real_devices())
		return a->ss_family != AF_IB && is_local(a) ? RCM_OURS : RCM_NOBODYS;
	return a->ss_family == AF_IB || !is_local(a) || is_real_devices(a) ? RCM_KERNELS : RCM_OURS;
}

bool rcm_v6_only(void)
{
	char c = '0';
	int fd = open("/proc/sys/net/ipv6/bindv6only", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, &c, 1) != 1)
		c = '0';
	if (fd >= 0)
		close(fd);
	return c == '1';
}

uint16_t rcm_port(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_IB ? (uint16_t)be64toh(ib(a)->sid) :
	       ntohs(a->ss_family == AF_INET ? v4(a)->sin_port : v6(a)->sin6_port);
}

void rcm_set_port(struct sockaddr_storage *a, uint16_t port)
{
	struct rcm_sockaddr_ib *i = (struct rcm_sockaddr_ib *)a;

	if (a->ss_family == AF_INET)
		((struct sockaddr_in *)a)->sin_port = htons(port);
	else if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		i->sid = htobe64((be64toh(i->sid) & ~0xffffull) | port);
}

uint16_t rcm_free_port(void)
{
	static _Atomic uint32_t next;
	uint32_t n = atomic_load(&next), first;

	if (!n) {
		if (getrandom(&first, sizeof(first), GRND_NONBLOCK) != sizeof(first))
			first = (uint32_t)monotonic_ns();
		atomic_compare_exchange_strong(&next, &n, first | 1);
	}
	return (uint16_t)(FIRST_PORT + atomic_fetch_add(&next, 1) % PORTS);
}

uint64_t rcm_service_id(const struct rcm_id *id, const struct sockaddr_storage *a)
{
	return a->ss_family == AF_IB ? be64toh(ib(a)->sid) : (uint64_t)id->ps << 16 | rcm_port(a);
}

bool rcm_same_user(int fd)
{
	struct ucred cred;
	socklen_t n = sizeof(cred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) && cred.uid == geteuid();
}

int rcm_fd_high(int fd)
{
	struct rlimit limit;
	int high;

	if (fd < 0 || fd >= FD_SETSIZE || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur <= 2 * FD_SETSIZE)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Writes the part of a name that stands for an address. `a` NULL: every address of this family; AF_UNSPEC: of all. */
static void host_part(char text[40], const struct sockaddr_storage *a, int family)
{
	const uint8_t *bytes = !a ? NULL : a->ss_family == AF_INET ? (const uint8_t *)&v4(a)->sin_addr :
			       a->ss_family == AF_IB ? ib(a)->gid : v6(a)->sin6_addr.s6_addr;

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
static int name_bind(uint64_t service, const char *host)
{
	struct sockaddr_un un;
	socklen_t len = name_address(&un, service, host);
	int fd;

	fd = fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd < 0 || bind(fd, (struct sockaddr *)&un, len)) {
		int err = -errno;
		if (fd >= 0)
			close(fd);
		return err;
	}
	return fd;
}

static bool name_exists(uint64_t service, const char *host)
{
	int fd = name_bind(service, host);

	if (fd >= 0)
		close(fd);
	return fd == -EADDRINUSE;
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

int rcm_name_take(const struct rcm_id *id)
{
	uint64_t service = rcm_service_id(id, &id->src);
	bool any = rcm_is_any(&id->src);
	char host[40];

	host_part(host, any ? NULL : &id->src, id->af_only ? id->src.ss_family : AF_UNSPEC);
	int fd = name_bind(service, host);
	if (fd >= 0 && has_conflict(id, service)) {
		close(fd);
		return -EADDRINUSE;
	}
	return rcm_fd_high(fd);
}

static int connect_at(uint64_t service, const char *host)
{
	struct sockaddr_un un;
	socklen_t len = name_address(&un, service, host);
	int fd;

	fd = rcm_fd_high(fd_raise(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)));
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&un, len))
		return fd;
	int err = -errno;
	if (fd >= 0)
		close(fd);
	return err;
}

int rcm_name_connect(const struct rcm_id *id)
{
	uint64_t service = rcm_service_id(id, &id->dst);
	char host[40];
	int fd;

	host_part(host, &id->dst, 0);
	fd = connect_at(service, "*");
	if (fd == -ECONNREFUSED)
		fd = connect_at(service, host);
	if (fd == -ECONNREFUSED)
		fd = connect_at(service, id->dst.ss_family == AF_INET ? "*4" : "*6");
	if (fd >= 0 && !rcm_same_user(fd)) {
		close(fd);
		shca_refuse(ECONNREFUSED, "rdma_connect: another user holds the name of the port");
		return -ECONNREFUSED;
	}
	return fd;
}
