/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: their ports and service ids, and whose they are, the software HCA's or a real device's. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

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

const uint8_t *rcm_address_bytes(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? (const uint8_t *)&v4(a)->sin_addr :
	       a->ss_family == AF_IB ? ib(a)->gid : v6(a)->sin6_addr.s6_addr;
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
	       !memcmp(rcm_address_bytes(a), none, sizeof(none));
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

/* Returns true if a file has this name as its first line; of a GID without a network device there is none. */
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

/* Returns true if a network device is the device's: of a GID (RoCE, iWARP), or the adapter's own (IPoIB). */
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

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
	return !memcmp(&v6(a)->sin6_addr, &v6(b)->sin6_addr, 16) &&
	       (!IN6_IS_ADDR_LINKLOCAL(&v6(a)->sin6_addr) || v6(a)->sin6_scope_id == v6(b)->sin6_scope_id);
}

/* Returns true if an interface has the address, and, with real_only, is a real RDMA device's. */
static bool has_interface(const struct sockaddr_storage *a, bool real_only)
{
	struct ifaddrs *list, *i;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (i = list; i && !found; i = i->ifa_next)
		if (i->ifa_addr && same_address(a, (const struct sockaddr_storage *)(const void *)i->ifa_addr))
			found = !real_only || any_entry(CLASS, device_has, i->ifa_name);
	freeifaddrs(list);
	return found;
}

/* Returns true if the network device of a local address belongs to a real RDMA device. */
static bool is_real_devices(const struct sockaddr_storage *a)
{
	return has_interface(a, true);
}

/* Returns true if the address is one of this host's: an interface has the address, or a local route of a prefix leads to it, so
 * that packets to the address have it as their source. bind(2) does not tell: broadcast and multicast addresses can be bound,
 * and every address where the sysctl ip_nonlocal_bind is set, so that other hosts would be taken for this one. */
static bool is_local(const struct sockaddr_storage *a)
{
	struct sockaddr_storage to = *a, from = {.ss_family = AF_UNSPEC};
	socklen_t n = sizeof(from);

	if (has_interface(a, false))
		return true;
	rcm_set_port(&to, 9);		/* no packet is sent */
	int fd = socket(a->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool is = fd >= 0 && !connect(fd, (struct sockaddr *)&to, (socklen_t)rcm_address_size(a)) &&
		  !getsockname(fd, (struct sockaddr *)&from, &n) && same_address(&from, a);
	if (fd >= 0)
		close(fd);
	return is;
}

bool rcm_is_multicast(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? IN_MULTICAST(ntohl(v4(a)->sin_addr.s_addr)) :
	       a->ss_family == AF_INET6 ? IN6_IS_ADDR_MULTICAST(&v6(a)->sin6_addr) : ib(a)->gid[0] == 0xff;
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
