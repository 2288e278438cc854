/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA CM: ports and addresses, descriptors of channels, synchronous ids, migration, options, threads. */
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include <rdma/rdma_verbs.h>

#include "cm.h"

/* ---- the library's calls of epoll_ctl ------------------------------------------------------------------------------ */

/* Set by a test for one call of this thread. */
static _Thread_local struct {
	int calls;			/* that go through before the one; -1: none is changed */
	int close;			/* descriptor that the program closes at this moment; -1: the call fails with ENOSPC */
} at_epoll = {.calls = -1};

/* The library's calls come here, because the program is before libc. */
__attribute__((visibility("default"))) int epoll_ctl(int epoll, int op, int fd, struct epoll_event *e)
{
	if (at_epoll.calls >= 0 && !at_epoll.calls--) {
		if (at_epoll.close < 0) {
			errno = ENOSPC;
			return -1;
		}
		CHECK(!syscall(SYS_close, at_epoll.close), "close");
	}
	return (int)syscall(SYS_epoll_ctl, epoll, op, fd, e);
}

/* ---- ports ------------------------------------------------------------------------------------------------------ */

/* Binds a new id. Returns the id, or NULL with errno. */
static struct rdma_cm_id *bound(struct rdma_event_channel *ch, enum rdma_port_space ps, const char *ip, uint16_t port,
				bool af_only, bool reuse)
{
	struct rdma_cm_id *id = cm_id(ch, ps);
	struct sockaddr_storage a = cm_addr(ip, port);
	int one = 1;
	if (af_only)
		CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one)), "AFONLY");
	if (reuse)
		CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)), "REUSEADDR");
	if (!rdma_bind_addr(id, SA(a)))
		return id;
	int err = errno;
	cm_destroy(id);
	errno = err;
	return NULL;
}

static void ports(void)
{
	struct rdma_event_channel *ch = cm_channel();
	static const struct {
		const char *first, *second;
		bool first_only, second_only;	/* AFONLY */
		enum rdma_port_space ps;
		bool together;
	} c[] = {
		{"127.0.0.1", "127.0.0.1", false, false, RDMA_PS_TCP, false},
		{"127.0.0.1", "127.0.0.1", false, false, RDMA_PS_UDP, true},	/* another port space */
		{"127.0.0.1", "127.0.0.2", false, false, RDMA_PS_TCP, true},
		{"127.0.0.1", "::1", false, false, RDMA_PS_TCP, true},
		{"127.0.0.1", "0.0.0.0", false, false, RDMA_PS_TCP, false},
		{"0.0.0.0", "127.0.0.1", false, false, RDMA_PS_TCP, false},
		{"0.0.0.0", "0.0.0.0", false, false, RDMA_PS_TCP, false},
		{"::", "127.0.0.1", false, false, RDMA_PS_TCP, false},
		{"::", "127.0.0.1", true, false, RDMA_PS_TCP, true},
		{"::", "0.0.0.0", true, true, RDMA_PS_TCP, true},
		{"::", "::1", true, false, RDMA_PS_TCP, false},
		{"::1", "::", false, true, RDMA_PS_TCP, false},
		{"0.0.0.0", "::", false, true, RDMA_PS_TCP, false},
	};
	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		struct rdma_cm_id *a = bound(ch, RDMA_PS_TCP, c[i].first, 0, c[i].first_only, false);
		CHECK(a, "%s", c[i].first);
		uint16_t port = ntohs(rdma_get_src_port(a));
		struct rdma_cm_id *b = bound(ch, c[i].ps, c[i].second, port, c[i].second_only, false);
		CHECK(!b == !c[i].together, "row %zu: %s beside %s", i, c[i].second, c[i].first);
		CHECK(b || errno == EADDRINUSE, "row %zu", i);
		if (b)
			cm_destroy(b);
		cm_destroy(a);
		/* the port is free at once */
		b = bound(ch, c[i].ps, c[i].second, port, c[i].second_only, false);
		CHECK(b, "row %zu: the port is not free again", i);
		cm_destroy(b);
	}
	/* of ids with REUSEADDR one may listen */
	struct rdma_cm_id *a = cm_listen(ch, RDMA_PS_TCP, "127.0.0.1", 1);
	uint16_t port = ntohs(rdma_get_src_port(a));
	cm_destroy(a);
	a = bound(ch, RDMA_PS_TCP, "127.0.0.1", port, false, true);
	struct rdma_cm_id *b = bound(ch, RDMA_PS_TCP, "127.0.0.1", port, false, true);
	CHECK(a && b, "REUSEADDR");
	CHECK(!rdma_listen(a, 1), "rdma_listen");
	CHECK(rdma_listen(b, 1) == -1 && errno == EADDRINUSE, "two listeners on a port");
	struct sockaddr_storage sa = cm_addr("127.0.0.1", port);
	CHECK(rdma_bind_addr(a, SA(sa)) == -1 && errno == EINVAL, "bound twice");
	cm_destroy(a);
	CHECK(!rdma_listen(b, 1), "rdma_listen");
	cm_destroy(b);
	/* a listener without address gets a port */
	a = cm_id(ch, RDMA_PS_TCP);
	CHECK(!rdma_listen(a, 1) && rdma_get_src_port(a), "rdma_listen of an id without address");
	cm_destroy(a);
	rdma_destroy_event_channel(ch);
}

/* A bind that is refused for an id with another address of the port does not wait: the thread does not sleep. */
static void refused_at_once(void)
{
	static const struct {
		const char *first, *second;
	} c[] = {{"0.0.0.0", "127.0.0.1"}, {"127.0.0.1", "0.0.0.0"}, {"::", "127.0.0.1"}};
	enum { BINDS = 30 };
	struct rdma_event_channel *ch = cm_channel();

	for (size_t i = 0; i < sizeof(c) / sizeof(*c); i++) {
		struct rdma_cm_id *a = bound(ch, RDMA_PS_TCP, c[i].first, 0, false, false);
		struct rusage before, after;
		CHECK(a && !getrusage(RUSAGE_THREAD, &before), "%s", c[i].first);
		for (int n = 0; n < BINDS; n++)
			CHECK(!bound(ch, RDMA_PS_TCP, c[i].second, ntohs(rdma_get_src_port(a)), false, false) &&
			      errno == EADDRINUSE, "%s beside %s", c[i].second, c[i].first);
		CHECK(!getrusage(RUSAGE_THREAD, &after), "getrusage");
		long slept = after.ru_nvcsw - before.ru_nvcsw;
		CHECK(slept < BINDS, "%d binds of %s beside %s: the thread has slept %ld times", BINDS, c[i].second, c[i].first,
		      slept);
		cm_destroy(a);
	}
	rdma_destroy_event_channel(ch);
}

/* Threads bind different addresses of one port at once: none of them may see the look of another one for a bound name. */
static _Atomic bool binders_go;
static uint16_t binders_port;

static void *binder(void *arg)
{
	struct rdma_event_channel *ch = cm_channel();

	while (!atomic_load(&binders_go))
		sched_yield();
	for (int i = 0; i < 3000; i++) {
		struct rdma_cm_id *id = bound(ch, RDMA_PS_TCP, arg, binders_port, strchr(arg, ':'), false);
		CHECK(id, "bind %d of %s, which no other id has", i, (char *)arg);
		cm_destroy(id);
	}
	rdma_destroy_event_channel(ch);
	return NULL;
}

static void ports_at_once(void)
{
	static char first[] = "127.0.0.1", second[] = "127.0.0.2", third[] = "127.0.0.3";
	char *const ip[] = {first, second, third};
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *a = bound(ch, RDMA_PS_TCP, "0.0.0.0", 0, false, false);
	pthread_t t[3];

	CHECK(a, "no port");
	binders_port = ntohs(rdma_get_src_port(a));
	cm_destroy(a);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL, binder, ip[i]), "pthread_create");
	atomic_store(&binders_go, true);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(t[i], NULL), "pthread_join");
	rdma_destroy_event_channel(ch);
}

/* Finds the name of a bound port. */
static void name_of_port(uint16_t port, char name[107])
{
	char line[512], service[32];
	FILE *f = fopen("/proc/net/unix", "re");

	CHECK(f, "/proc/net/unix");
	snprintf(service, sizeof(service), "/106%04x/", port);
	name[0] = 0;
	while (!name[0] && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, "@shca-cm/");
		if (at && strstr(at, service))
			snprintf(name, 107, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
	}
	fclose(f);
	CHECK(name[0], "no name of port %u", port);
}

/* Another user listens on the name of every address of a port, also with a full backlog. An id of this user has the port by its
 * own address: clients reach that id. */
static void another_users_name(bool full)
{
	struct rdma_event_channel *ch = cm_channel(), *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 2);
	uint16_t port = ntohs(rdma_get_src_port(l));
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int there[2], stay[2], status;
	char byte;

	if (geteuid()) {
		printf("# needs root to become another user: another_users_name\n");
		return;
	}
	name_of_port(port, a.sun_path + 1);
	strcpy(strrchr(a.sun_path + 1, '/') + 1, "*");
	CHECK(!pipe(there) && !pipe(stay), "pipe");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1));
		close(stay[1]);
		bool ok = !setgid(65534) && !setuid(65534) && !bind(fd, (struct sockaddr *)&a, len);
		ok = ok && !listen(fd, full ? 0 : 100);
		int filled = full ? 0 : -1;
		while (filled >= 0) {
			filled = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
			filled = connect(filled, (struct sockaddr *)&a, len) ? -1 : filled;
		}
		ok = ok && write(there[1], "", 1) == 1 && !read(stay[0], &byte, 1);
		_exit(!ok);
	}
	close(there[1]);
	close(stay[0]);
	CHECK(read(there[0], &byte, 1) == 1, "the other user has no name");
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	CHECK(poll(&p, 1, 20000) == 1, "another user's name keeps requests from this user's listener");
	cm_destroy(cm_request(s));
	cm_eat(ch, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(id);
	cm_destroy(l);
	close(stay[1]);
	close(there[0]);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "status %#x", status);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(s);
}

/* Which listener a destination reaches: the one for all addresses, or that of the address. */
static void destinations(void)
{
	struct rdma_event_channel *s = cm_channel(), *c = cm_channel();
	static const struct {
		const char *at;
		bool only;
		const char *to;
		bool reached;
	} d[] = {
		{"127.0.0.1", false, "127.0.0.1", true}, {"127.0.0.1", false, "127.0.0.2", false},
		{"127.0.0.1", false, "0.0.0.0", true}, {"0.0.0.0", false, "127.0.0.7", true}, {"::1", false, "::1", true},
		{"::", false, "::1", true}, {"::", false, "127.0.0.1", true},
		{"::", true, "127.0.0.1", false}, {"::", true, "::1", true}, {"0.0.0.0", true, "::1", false},
	};
	for (size_t i = 0; i < sizeof(d) / sizeof(*d); i++) {
		struct rdma_cm_id *l = bound(s, RDMA_PS_TCP, d[i].at, 0, d[i].only, false);
		CHECK(l && !rdma_listen(l, 1), "%s", d[i].at);
		struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, d[i].to, ntohs(rdma_get_src_port(l)));
		cm_connect(id);
		if (d[i].reached) {
			struct rdma_cm_id *passive = cm_request(s);
			CHECK(rdma_get_peer_addr(passive)->sa_family == rdma_get_local_addr(id)->sa_family, "row %zu: families",
			      i);
			cm_destroy(passive);
			cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
		} else {
			cm_eat(c, RDMA_CM_EVENT_REJECTED, 8);
		}
		cm_destroy(id);
		cm_destroy(l);
	}
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

/* Addresses that no id can have: of a group, of every host; and a destination of another family than the source's. */
static void refused_addresses(void)
{
	struct rdma_event_channel *ch = cm_channel();
	static const char *const nobodys[] = {"239.1.1.1", "255.255.255.255", "ff05::1", "192.0.2.1"};
	static const struct {
		const char *source, *destination;
	} mixed[] = {{"127.0.0.1", "::1"}, {"::1", "127.0.0.1"}, {"0.0.0.0", "::1"}, {"::", "127.0.0.1"}};

	for (size_t i = 0; i < sizeof(nobodys) / sizeof(*nobodys); i++)
		CHECK(!bound(ch, RDMA_PS_TCP, nobodys[i], 0, false, false) && errno == ENODEV, "bound to %s", nobodys[i]);
	/* a link-local address without the interface */
	CHECK(!bound(ch, RDMA_PS_TCP, "fe80::1", 0, false, false) && errno == EINVAL, "bound to fe80::1");
	struct sockaddr_storage link_local = cm_addr("fe80::1", 0), loopback = cm_addr("::1", 1);
	struct rdma_cm_id *without_scope = cm_id(ch, RDMA_PS_TCP);
	CHECK(rdma_resolve_addr(without_scope, SA(link_local), SA(loopback), 1000) == -1 && errno == EINVAL, "from fe80::1");
	CHECK(!rdma_destroy_id(without_scope), "rdma_destroy_id");
	for (size_t i = 0; i < sizeof(mixed) / sizeof(*mixed); i++) {
		struct sockaddr_storage from = cm_addr(mixed[i].source, 0), to = cm_addr(mixed[i].destination, 1);
		struct rdma_cm_id *id = cm_id(ch, RDMA_PS_TCP);
		CHECK(rdma_resolve_addr(id, SA(from), SA(to), 1000) == -1 && errno == EINVAL, "from %s to %s", mixed[i].source,
		      mixed[i].destination);
		cm_destroy(id);
		id = bound(ch, RDMA_PS_TCP, mixed[i].source, 0, false, false);
		CHECK(id && rdma_resolve_addr(id, NULL, SA(to), 1000) == -1 && errno == EINVAL, "bound to %s, to %s",
		      mixed[i].source, mixed[i].destination);
		/* the id still has its source, and reaches a destination of that family */
		CHECK(!rdma_resolve_addr(id, NULL, SA(from), 1000), "rdma_resolve_addr %s", mixed[i].source);
		cm_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		cm_destroy(id);
	}
	/* a broadcast address is no host's, as a destination either */
	struct rdma_cm_id *id = cm_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage to = cm_addr("255.255.255.255", 1);
	CHECK(!rdma_resolve_addr(id, NULL, SA(to), 1000), "rdma_resolve_addr");
	cm_eat(ch, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	cm_destroy(id);
	rdma_destroy_event_channel(ch);
}

/* In a network namespace of its own: the addresses of a local route of a prefix are this host's; another host's is not, though
 * every address can be bound. Must run before this process opens the device. */
static void local_addresses(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0, "fork");
	if (!pid) {
		if (unshare(CLONE_NEWNET) ||
		    system("exec 2>/dev/null; ip link set lo up && ip route add local 10.9.9.0/24 dev lo && "
			   "echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind"))
			_exit(77);
		struct rdma_event_channel *ch = cm_channel();
		struct rdma_cm_id *id = bound(ch, RDMA_PS_TCP, "10.9.9.7", 0, false, false);
		CHECK(id, "an address of a local route");
		cm_destroy(id);
		CHECK(!bound(ch, RDMA_PS_TCP, "10.9.8.7", 0, false, false) && errno == ENODEV,
		      "bound to another host's address");
		rdma_destroy_event_channel(ch);
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		printf("# needs root, ip and network namespaces: local_addresses\n");
	else
		CHECK(!status, "status %#x", status);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

static void descriptors(void)
{
	struct rdma_event_channel *ch = cm_channel(), *s = cm_channel();
	struct sockaddr_storage a = cm_addr("127.0.0.1", 1);
	struct rdma_cm_id *id = cm_id(ch, RDMA_PS_TCP);
	struct epoll_event e = {.events = EPOLLIN};
	struct stat st;
	char byte;

	CHECK(ch->fd > 2 && !fstat(ch->fd, &st) && S_ISCHR(st.st_mode), "descriptor %d", ch->fd);
	CHECK(fcntl(ch->fd, F_GETFD) & FD_CLOEXEC, "the descriptor goes to other programs");
	CHECK(read(ch->fd, &byte, 1) == -1 && errno == EINVAL, "read");
	CHECK(write(ch->fd, "", 1) == -1 && errno == EINVAL, "a short command");
	uint32_t wrong[8] = {99};
	CHECK(write(ch->fd, wrong, sizeof(wrong)) == -1 && errno == EINVAL, "a wrong command");
	cm_quiet(ch);
	int ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, ch->fd, &e), "epoll");
	CHECK(!epoll_wait(ep, &e, 1, 0), "readable without event");
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	CHECK(epoll_wait(ep, &e, 1, 0) == 1 && epoll_wait(ep, &e, 1, 0) == 1, "not readable with an event");
	cm_eat(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!epoll_wait(ep, &e, 1, 0), "readable behind the event");
	close(ep);
	/* the channel lives by its last descriptor */
	int old = ch->fd, copy = dup(old);
	CHECK(copy >= 0 && !close(old), "dup");
	ch->fd = copy;
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route over the copy");
	cm_eat(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	int third = fcntl(copy, F_DUPFD_CLOEXEC, 100);
	CHECK(third >= 100 && dup2(third, old) == old && !close(copy) && !close(third), "dup2");
	ch->fd = old;
	CHECK(!rdma_destroy_id(id), "rdma_destroy_id over the third copy");
	/* the program closes a channel by the system call, and uses the number for a file: writes to the number must reach that
	 * file */
	int pipes[2];
	CHECK(!pipe(pipes), "pipe");
	CHECK(!syscall(SYS_close, s->fd) && syscall(SYS_dup2, pipes[1], s->fd) == s->fd, "dup2");
	CHECK(write(s->fd, "x", 1) == 1 && read(pipes[0], &byte, 1) == 1 && byte == 'x', "a file that has a channel's number");
	CHECK(!fstat(s->fd, &st) && S_ISFIFO(st.st_mode), "fstat of that file");
	struct rdma_event_channel *again = cm_channel();
	cm_quiet(again);
	rdma_destroy_event_channel(again);
	close(s->fd);
	free(s);
	close(pipes[0]);
	close(pipes[1]);
	rdma_destroy_event_channel(ch);
}

/* A program that closes every descriptor of the library: refused, and nothing of its own is written to. */
static void all_closed(void)
{
	pid_t pid = fork();
	int status;
	CHECK(pid >= 0, "fork");
	if (!pid) {
		struct rdma_event_channel *ch = cm_channel();
		struct rdma_cm_id *l = cm_id(ch, RDMA_PS_TCP), *id = NULL;
		struct sockaddr_storage a = cm_addr("0.0.0.0", 0);
		CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 1), "listener");
		CHECK(!syscall(SYS_close_range, 3, ~0u, 0), "close_range");
		CHECK(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == -1 && errno == EBADF, "an id of a closed channel");
		ch = cm_channel();
		l = cm_id(ch, RDMA_PS_TCP);
		CHECK(!rdma_bind_addr(l, SA(a)) && !rdma_listen(l, 1), "listener behind close_range");
		cm_quiet(ch);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status, "status %#x", status);
}

/* The descriptors that are open: one byte for each number. */
#define NUMBERS 4096
static void open_numbers(char is[NUMBERS])
{
	for (int fd = 0; fd < NUMBERS; fd++)
		is[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* The descriptor that the library has opened since `before`. `of`: the begin of its link in /proc. Of sockets: the one that
 * listens. */
static int opened_since(const char before[NUMBERS], const char *of)
{
	int found = -1, listens = 1;
	socklen_t size = sizeof(listens);

	for (int fd = 0; fd < NUMBERS; fd++) {
		char path[32], to[64] = "";
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (before[fd] || readlink(path, to, sizeof(to) - 1) < 0 || strncmp(to, of, strlen(of)))
			continue;
		if (!strcmp(of, "socket:") && (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens))
			continue;
		CHECK(found < 0, "both %d and %d are new", found, fd);
		found = fd;
	}
	CHECK(found >= 0, "no new descriptor of %s", of);
	return found;
}

static bool readable_soon(const struct rdma_event_channel *ch)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	return poll(&p, 1, 20000) == 1;
}

/* The program closes a listener's socket by the system call, and the library gives the number to a connection of the same
 * channel: destroying the listener must leave the connection alone. */
static void listener_number_reused(void)
{
	struct rdma_event_channel *ch = cm_channel(), *s = cm_channel();
	struct rdma_cm_id *other = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 2);
	/* the channel has its timer from here on */
	struct rdma_cm_id *first = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(other)));
	cm_connect(first);
	cm_destroy(cm_request(s));
	cm_eat(ch, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(first);
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(other)));
	struct stat st;
	char before[NUMBERS];

	open_numbers(before);
	struct rdma_cm_id *l = cm_listen(ch, RDMA_PS_TCP, "127.0.0.1", 1);
	int number = opened_since(before, "socket:");
	cm_qp(id, IBV_QPT_RC);
	CHECK(!syscall(SYS_close, number), "close");
	cm_connect(id);
	CHECK(!fstat(number, &st) && S_ISSOCK(st.st_mode), "no connection has the number %d", number);
	cm_destroy(l);
	struct rdma_cm_id *to = cm_request(s);
	cm_qp(to, IBV_QPT_RC);
	cm_accept(to);
	CHECK(readable_soon(ch), "the connection that has the number of a destroyed listener is not watched");
	cm_eat(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_destroy(id);
	cm_destroy(to);
	cm_destroy(other);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(s);
}

/* A channel's timer is closed by the system call, and the number is a timer of the program. */
static void timer_number_reused(void)
{
	struct rdma_event_channel *ch = cm_channel(), *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 1);
	struct itimerspec is, an_hour = {.it_value = {3600, 0}};
	char before[NUMBERS];

	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	cm_qp(id, IBV_QPT_RC);
	open_numbers(before);
	cm_connect(id);
	int number = opened_since(before, "anon_inode:[timerfd]"), mine = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	CHECK(mine >= 0 && !timerfd_settime(mine, 0, &an_hour, NULL), "timerfd");
	CHECK(syscall(SYS_dup3, mine, number, O_CLOEXEC) == number, "dup3");
	/* the end of the time in which the answer may come, and TIMEWAIT_EXIT */
	struct rdma_cm_id *to = cm_request(s);
	cm_qp(to, IBV_QPT_RC);
	cm_accept(to);
	cm_eat(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	cm_eat(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!timerfd_gettime(mine, &is) && is.it_value.tv_sec > 1800, "the library has set a timer of the program");
	CHECK(readable_soon(ch), "no TIMEWAIT_EXIT behind a timer that the program has closed");
	cm_eat(ch, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK(!close(number) && !close(mine), "close");
	cm_destroy(id);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(to);
	cm_destroy(l);
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(s);
}

/* A request waits while the process has no descriptor left. */
static void starved(void)
{
	struct rdma_event_channel *s = cm_channel(), *c = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 1);
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	struct rdma_cm_event *ev;
	struct rlimit limit, none;

	cm_connect(id);
	CHECK(!fcntl(s->fd, F_SETFL, O_NONBLOCK) && !getrlimit(RLIMIT_NOFILE, &limit), "fcntl");
	none = (struct rlimit){3, limit.rlim_max};
	CHECK(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
	CHECK(rdma_get_cm_event(s, &ev) == -1 && errno == EAGAIN, "an event without a descriptor for its id");
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit), "setrlimit");
	cm_destroy(cm_request(s));
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(id);
	cm_destroy(l);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

/* ---- synchronous ids, migration, options ------------------------------------------------------------------------ */

static struct rdma_addrinfo *info(const char *port, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *res;
	CHECK(!rdma_getaddrinfo("127.0.0.1", port, &hints, &res), "rdma_getaddrinfo");
	return res;
}

static void *sync_server(void *arg)
{
	struct rdma_cm_id *listener = arg, *id;
	char buf[64];
	CHECK(!rdma_get_request(listener, &id), "rdma_get_request");
	struct ibv_mr *mr = rdma_reg_msgs(id, buf, sizeof(buf));
	CHECK(mr && !rdma_post_recv(id, NULL, buf, sizeof(buf), mr), "rdma_post_recv");
	CHECK(!rdma_accept(id, NULL), "rdma_accept");
	struct ibv_wc wc;
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS && !strcmp(buf, "over"), "rdma_get_recv_comp");
	CHECK(!rdma_post_send(id, NULL, buf, sizeof(buf), mr, 0) && rdma_get_send_comp(id, &wc) == 1 && !wc.status,
	      "rdma_post_send");
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static void synchronous(void)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 16}, .sq_sig_all = 1}, for_client = attr,
				 for_nobody = attr;	/* rdma_create_ep stores the queues that it makes here */
	struct rdma_addrinfo *res = info("0", RAI_PASSIVE);
	struct rdma_cm_id *l, *id;
	char port[16], out[64] = "over", in[64] = "";
	pthread_t t;

	CHECK(!rdma_create_ep(&l, res, NULL, &attr), "rdma_create_ep");
	CHECK(!rdma_listen(l, 0), "rdma_listen");
	rdma_freeaddrinfo(res);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(l)));
	CHECK(!pthread_create(&t, NULL, sync_server, l), "pthread_create");
	res = info(port, 0);
	CHECK(!rdma_create_ep(&id, res, NULL, &for_client), "rdma_create_ep");
	rdma_freeaddrinfo(res);
	struct ibv_mr *so = rdma_reg_msgs(id, out, sizeof(out)), *si = rdma_reg_msgs(id, in, sizeof(in));
	struct ibv_wc wc;
	CHECK(so && si && !rdma_post_recv(id, NULL, in, sizeof(in), si), "rdma_post_recv");
	CHECK(!rdma_connect(id, NULL), "rdma_connect");
	CHECK(!rdma_post_send(id, NULL, out, sizeof(out), so, 0) && rdma_get_send_comp(id, &wc) == 1 && !wc.status,
	      "rdma_post_send");
	CHECK(rdma_get_recv_comp(id, &wc) == 1 && !wc.status && !strcmp(in, "over"), "rdma_get_recv_comp");
	CHECK(!pthread_join(t, NULL), "pthread_join");
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(so);
	rdma_dereg_mr(si);
	rdma_destroy_ep(id);
	/* no listener */
	rdma_destroy_ep(l);
	res = info(port, 0);
	CHECK(!rdma_create_ep(&id, res, NULL, &for_nobody), "rdma_create_ep");
	CHECK(rdma_connect(id, NULL) == -1 && errno == ECONNREFUSED, "rdma_connect to nobody");
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

static void migration(void)
{
	struct rdma_event_channel *s = cm_channel(), *c = cm_channel(), *other = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 8), *id = cm_id(c, RDMA_PS_TCP);
	struct sockaddr_storage a = cm_addr("127.0.0.1", ntohs(rdma_get_src_port(l)));

	/* an event that waits goes along */
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	CHECK(!rdma_migrate_id(id, other) && id->channel == other, "rdma_migrate_id");
	cm_quiet(c);
	cm_eat(other, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(!rdma_resolve_route(id, 1000), "rdma_resolve_route");
	cm_eat(other, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	/* a listener, with a request behind it; and both sides in the middle of the connection */
	CHECK(!rdma_migrate_id(l, c), "rdma_migrate_id of a listener");
	struct rdma_cm_id *passive = cm_request(c);
	CHECK(!rdma_migrate_id(passive, s), "rdma_migrate_id of a request");
	cm_qp(passive, IBV_QPT_RC);
	CHECK(!rdma_migrate_id(id, c), "rdma_migrate_id of a connecting id");
	cm_accept(passive);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!rdma_migrate_id(passive, other), "rdma_migrate_id");
	cm_eat(other, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(!rdma_disconnect(id), "rdma_disconnect");
	cm_eat(c, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(!rdma_migrate_id(id, s), "rdma_migrate_id with a timer");
	cm_eat(s, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_eat(other, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_eat(other, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cm_destroy(id);
	cm_destroy(passive);
	/* the migrated listener takes further requests */
	id = cm_resolved(s, RDMA_PS_TCP, "127.0.0.1", ntohs(((struct sockaddr_in *)&a)->sin_port));
	cm_connect(id);
	cm_destroy(cm_request(c));
	cm_eat(s, RDMA_CM_EVENT_REJECTED, 28);
	cm_destroy(id);
	cm_destroy(l);
	rdma_destroy_event_channel(other);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

/* A client whose request has not come goes with the listener. Here the target has no room for a watch of it: the client is
 * refused, as by a listener that is destroyed. */
static void migration_of_arriving(void)
{
	struct rdma_event_channel *s = cm_channel(), *other = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 8);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char byte;

	name_of_port(ntohs(rdma_get_src_port(l)), a.sun_path + 1);
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1));
	CHECK(client >= 0 && !connect(client, (struct sockaddr *)&a, len), "connect");
	struct rdma_cm_event *ev;
	CHECK(!fcntl(s->fd, F_SETFL, O_NONBLOCK) && rdma_get_cm_event(s, &ev) == -1 && errno == EAGAIN, "an event without REQ");
	/* calls before: look at the target, at the source, at the target, the listener's old and new watch, the old watch */
	at_epoll.calls = 6;
	at_epoll.close = -1;
	CHECK(!rdma_migrate_id(l, other) && at_epoll.calls < 0, "rdma_migrate_id of a listener: %s", strerror(errno));
	struct pollfd p = {.fd = client, .events = POLLIN};
	CHECK(poll(&p, 1, 20000) == 1 && recv(client, &byte, 1, 0) == 0, "the client is left without an answer");
	close(client);
	struct rdma_cm_id *id = cm_resolved(s, RDMA_PS_TCP, "127.0.0.1", ntohs(rdma_get_src_port(l)));
	cm_connect(id);
	cm_destroy(cm_request(other));
	cm_destroy(id);
	cm_destroy(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(other);
}

/* A migration that fails leaves the id as it was: with its channel, which reports its events. */
static void migration_fails(void)
{
	struct rdma_event_channel *s = cm_channel(), *c = cm_channel(), *other = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 8);
	uint16_t port = ntohs(rdma_get_src_port(l));
	struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", port);

	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	/* the target has no room for a watch. Calls of epoll_ctl before: look at the target, at the source, at the target, end
	 * the old watch */
	at_epoll.calls = 4;
	at_epoll.close = -1;
	CHECK(rdma_migrate_id(id, other) == -1 && errno == ENOSPC, "rdma_migrate_id: %s", strerror(errno));
	CHECK(at_epoll.calls < 0 && id->channel == c, "the channel of an id that was not migrated");
	at_epoll.calls = 4;
	CHECK(rdma_migrate_id(l, other) == -1 && errno == ENOSPC && at_epoll.calls < 0, "rdma_migrate_id of a listener: %s",
	      strerror(errno));
	/* the listener with its request, and the id with the answer */
	struct pollfd p = {.fd = s->fd, .events = POLLIN};
	CHECK(poll(&p, 1, 20000) == 1, "a listener that was not migrated is not watched");
	cm_destroy(cm_request(s));
	p.fd = c->fd;
	CHECK(poll(&p, 1, 20000) == 1, "an id that was not migrated is not watched");
	cm_eat(c, RDMA_CM_EVENT_REJECTED, 28);
	/* the source is no channel, or is closed; ucma_migrate_id has these errors */
	struct rdma_event_channel none = *c;
	int pipes[2];
	CHECK(!pipe(pipes), "pipe");
	none.fd = pipes[0];
	id->channel = &none;
	CHECK(rdma_migrate_id(id, other) == -1 && errno == EINVAL, "from a pipe: %s", strerror(errno));
	close(pipes[0]);
	close(pipes[1]);
	CHECK(rdma_migrate_id(id, other) == -1 && errno == ENOENT, "from a closed channel: %s", strerror(errno));
	id->channel = c;
	/* the target is closed by another thread meanwhile: third call, behind the looks at the target and at the source */
	at_epoll.calls = 2;
	at_epoll.close = other->fd;
	CHECK(rdma_migrate_id(id, other) == -1 && errno == EBADF, "to a channel that is being closed: %s", strerror(errno));
	CHECK(at_epoll.calls < 0 && id->channel == c, "the channel of an id that was not migrated");
	free(other);
	cm_destroy(id);
	cm_destroy(l);
	rdma_destroy_event_channel(c);
	rdma_destroy_event_channel(s);
}

/* The ack timeout is one of requests that wait for an ACK: not those of UC and UD. */
static void ack_timeout_refused(void)
{
	struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP,
				      .ai_qp_type = IBV_QPT_UC}, *res;
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id *uc, *ud = cm_id(c, RDMA_PS_UDP);
	uint8_t v = 18;

	CHECK(!rdma_getaddrinfo("127.0.0.1", NULL, &hints, &res), "rdma_getaddrinfo");
	CHECK(!rdma_create_ep(&uc, res, NULL, NULL), "rdma_create_ep");
	CHECK(rdma_set_option(uc, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &v, 1) == -1 && errno == EINVAL, "UC");
	CHECK(rdma_set_option(ud, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &v, 1) == -1 && errno == EINVAL, "UD");
	rdma_destroy_ep(uc);
	rdma_freeaddrinfo(res);
	CHECK(!rdma_destroy_id(ud), "rdma_destroy_id");
	rdma_destroy_event_channel(c);
}

static void options(void)
{
	struct rdma_event_channel *c = cm_channel();
	struct rdma_cm_id *id = cm_id(c, RDMA_PS_TCP);
	uint8_t byte = 18, big = 32;
	int one = 1;

	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), "TOS");
	CHECK(!rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), "ACK_TIMEOUT");
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &big, 1) == -1 && errno == EINVAL,
	      "ACK_TIMEOUT 32");
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, sizeof(one)) == -1 && errno == EINVAL,
	      "TOS of 4 bytes");
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 1) == -1 && errno == EFAULT, "TOS without a value");
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, 77, &one, sizeof(one)) == -1 && errno, "option 77");
	CHECK(rdma_set_option(id, 7, 0, &one, sizeof(one)) == -1 && errno == ENOSYS, "level 7");
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 1);
	struct sockaddr_storage a = cm_addr("127.0.0.1", ntohs(rdma_get_src_port(l)));
	CHECK(!rdma_resolve_addr(id, NULL, SA(a), 1000), "rdma_resolve_addr");
	cm_eat(c, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &one, sizeof(one)) == -1 && errno == EINVAL,
	      "AFONLY of a bound id");
	/* path records of the program */
	struct ibv_path_data path = {.flags = IBV_PATH_FLAG_PRIMARY};
	CHECK(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, 5) == -1 && errno == EINVAL,
	      "5 bytes of path records");
	CHECK(!rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), "path record");
	cm_eat(c, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	struct rdma_cm_id *passive = cm_request(s);
	cm_qp(passive, IBV_QPT_RC);
	cm_accept(passive);
	cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	CHECK(!ibv_query_qp(id->qp, &attr, IBV_QP_TIMEOUT, &init) && attr.timeout == byte, "timeout %u", attr.timeout);
	cm_destroy(id);
	cm_eat(s, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_eat(s, RDMA_CM_EVENT_DISCONNECTED, 0);
	cm_destroy(passive);
	cm_destroy(l);
	rdma_destroy_event_channel(s);
	rdma_destroy_event_channel(c);
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static uint16_t threads_port;
static void *connector(void *arg)
{
	for (int i = 0; i < 50; i++) {
		struct rdma_event_channel *c = cm_channel();
		struct rdma_cm_id *id = cm_resolved(c, RDMA_PS_TCP, "127.0.0.1", threads_port);
		cm_qp(id, IBV_QPT_RC);
		cm_connect(id);
		cm_eat(c, RDMA_CM_EVENT_ESTABLISHED, 0);
		cm_destroy(id);
		rdma_destroy_event_channel(c);
	}
	return arg;
}

/* Two threads take the events of one channel. */
static _Atomic int gone;
enum { CONNECTORS = 4, ACCEPTORS = 2 };
static void *acceptor(void *arg)
{
	struct rdma_event_channel *s = arg;
	while (atomic_load(&gone) < CONNECTORS * 50) {
		struct rdma_cm_event *ev;
		struct pollfd p = {.fd = s->fd, .events = POLLIN};
		if (poll(&p, 1, 10) < 1)
			continue;
		if (rdma_get_cm_event(s, &ev)) {
			CHECK(errno == EAGAIN, "rdma_get_cm_event");
			continue;
		}
		struct rdma_cm_id *id = ev->id;
		enum rdma_cm_event_type type = ev->event;
		rdma_ack_cm_event(ev);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			cm_qp(id, IBV_QPT_RC);
			cm_accept(id);
		} else if (type == RDMA_CM_EVENT_DISCONNECTED) {
			cm_destroy(id);
			atomic_fetch_add(&gone, 1);
		} else {
			CHECK(type == RDMA_CM_EVENT_ESTABLISHED, "%s", rdma_event_str(type));
		}
	}
	return NULL;
}

static void threads(void)
{
	struct rdma_event_channel *s = cm_channel();
	struct rdma_cm_id *l = cm_listen(s, RDMA_PS_TCP, "127.0.0.1", 64);
	pthread_t t[CONNECTORS + ACCEPTORS];

	threads_port = ntohs(rdma_get_src_port(l));
	CHECK(!fcntl(s->fd, F_SETFL, O_NONBLOCK), "fcntl");
	for (int i = 0; i < CONNECTORS + ACCEPTORS; i++)
		CHECK(!pthread_create(&t[i], NULL, i < CONNECTORS ? connector : acceptor, i < CONNECTORS ? NULL : s),
		      "pthread_create");
	for (int i = 0; i < CONNECTORS + ACCEPTORS; i++)
		CHECK(!pthread_join(t[i], NULL), "pthread_join");
	cm_destroy(l);
	rdma_destroy_event_channel(s);
}

static char state_of(pid_t pid)
{
	char path[32], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	CHECK(f && fscanf(f, "%*d (%*[^)]) %c", &state) == 1, "%s", path);
	fclose(f);
	return state;
}

/* A process that waits for an event goes on waiting when it was stopped and continued, as with a terminal's Ctrl-Z and fg. */
static void stopped(void)
{
	int port_of[2], status;
	uint16_t port;
	CHECK(!pipe(port_of), "pipe");
	pid_t pid = fork();

	CHECK(pid >= 0, "fork");
	if (!pid) {
		struct rdma_event_channel *ch = cm_channel();
		port = ntohs(rdma_get_src_port(cm_listen(ch, RDMA_PS_TCP, "127.0.0.1", 1)));
		CHECK(write(port_of[1], &port, sizeof(port)) == sizeof(port), "write");
		cm_destroy(cm_request(ch));
		_exit(0);
	}
	CHECK(read(port_of[0], &port, sizeof(port)) == sizeof(port), "read");
	for (int i = 0; i < 20; i++) {
		char state;
		while ((state = state_of(pid)) != 'S') {
			CHECK(state != 'Z', "the waiting process has ended");
			usleep(1000);
		}
		CHECK(!kill(pid, SIGSTOP) && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "stop %d: %#x", i,
		      status);
		CHECK(!kill(pid, SIGCONT) && waitpid(pid, &status, WCONTINUED) == pid && WIFCONTINUED(status), "continue %d: %#x",
		      i, status);
	}
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *id = cm_resolved(ch, RDMA_PS_TCP, "127.0.0.1", port);
	cm_qp(id, IBV_QPT_RC);
	cm_connect(id);
	cm_eat(ch, RDMA_CM_EVENT_REJECTED, 28);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "status %#x", status);
	cm_destroy(id);
	rdma_destroy_event_channel(ch);
	close(port_of[0]);
	close(port_of[1]);
}

int main(void)
{
	cm_start();
	local_addresses();	/* first: a forked child has no device of its parent's */
	all_closed();
	stopped();
	ports();
	refused_at_once();
	ports_at_once();
	another_users_name(false);
	another_users_name(true);
	destinations();
	refused_addresses();
	descriptors();
	listener_number_reused();
	timer_number_reused();
	starved();
	synchronous();
	migration();
	migration_fails();
	migration_of_arriving();
	options();
	ack_timeout_refused();
	threads();
	return 0;
}
