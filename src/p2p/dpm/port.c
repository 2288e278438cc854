/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports (MPI-5.0 section 11.9): a listening socket to which processes of other jobs connect for a handshake (handshake.h). The
 * name has the socket's address, and a secret, without which a process gets no data:
 *
 *     heddle:HOST:PORT:KERNEL:SECRET
 *
 * Processes under the same kernel use the loopback device, unless the port does not listen there (containers).
 *
 * A connection waits beside the others until its hello is complete: a peer that sends nothing delays no other peer.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "p2p/dpm/handshake.h"
#include "runtime/threads.h"

struct connection {
	int fd;
	/* monotonic_ns(); the connection is closed if its hello is not complete by then */
	uint64_t deadline;
};

/* Connections whose hello is not complete. While there are CONNECTIONS_MAX of them, new connections wait in the kernel until the
 * oldest one is closed. */
#define CONNECTIONS_MAX 256

struct port {
	struct port *next;
	struct connection connections[CONNECTIONS_MAX];	/* in the order of accept(2) */
	unsigned nconnections;
	int fd, users;			/* users: threads in hdl_port_accept */
	bool closed;
	uint64_t secret;
	char name[MPI_MAX_PORT_NAME];
};
static struct port *ports;

static int listen_anywhere(int *fd, unsigned *number)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);

	*fd = fd_raise(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (*fd >= 0 && !bind(*fd, (struct sockaddr *)&a, sizeof(a)) && !listen(*fd, SOMAXCONN) &&
	    !getsockname(*fd, (struct sockaddr *)&a, &n)) {
		*number = ntohs(a.sin_port);
		return 0;
	}
	n = (socklen_t)errno;
	if (*fd >= 0)
		close(*fd);
	return -(int)n;
}

int hdl_port_open(char name[MPI_MAX_PORT_NAME])
{
	struct port *p = calloc(1, sizeof(*p));
	unsigned number = 0;
	int err;

	if (!p)
		return -ENOMEM;
	if (getrandom(&p->secret, sizeof(p->secret), 0) != sizeof(p->secret))
		err = -EIO;
	else
		err = listen_anywhere(&p->fd, &number);
	if (err) {
		free(p);
		return err;
	}
	snprintf(p->name, sizeof(p->name), "heddle:%s:%u:%" PRIx64 ":%" PRIx64, hdl_job.hostname, number, hdl_host_id(),
		 p->secret);
	memcpy(name, p->name, strlen(p->name) + 1);
	p->next = ports;
	ports = p;
	return 0;
}

static struct port *port_find(const char *name)
{
	struct port *p = ports;

	while (p && strcmp(p->name, name))
		p = p->next;
	return p;
}

/* Frees a closed port when its last user returns. */
static void port_put(struct port *p)
{
	if (p->users || !p->closed)
		return;
	while (p->nconnections)
		close(p->connections[--p->nconnections].fd);
	close(p->fd);
	free(p);
}

int hdl_port_close(const char *name)
{
	struct port *p = port_find(name), **link = &ports;

	if (!p)
		return -ENOENT;
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	p->closed = true;
	shutdown(p->fd, SHUT_RDWR);	/* wakes threads in hdl_port_accept */
	port_put(p);
	return 0;
}

void hdl_ports_fini(void)
{
	while (ports)
		hdl_port_close(ports->name);
}

static int port_take_connection(struct port *p, unsigned i)
{
	int fd = p->connections[i].fd;

	p->nconnections--;
	memmove(&p->connections[i], &p->connections[i + 1], (p->nconnections - i) * sizeof(p->connections[0]));
	return fd;
}

/* Accepts all connections that wait in the kernel. Returns 0 or a negative errno. */
static int accept_pending(struct port *p)
{
	int fd, least = HDL_HELLO_BYTES;

	while (p->nconnections < CONNECTIONS_MAX) {
		fd = fd_raise(accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : p->closed ? -ENOENT : -errno;
		/* so that poll(2) reports complete hellos only */
		if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least))) {
			hdl_debug("port %s: SO_RCVLOWAT: %s; a connection was closed", p->name, strerror(errno));
			close(fd);
			continue;
		}
		p->connections[p->nconnections++] = (struct connection){ fd, monotonic_ns() + HDL_HELLO_NS };
	}
	return 0;
}

/* Returns the index of the first connection with a complete hello, or that is closed; -1: none. fds: memory for one each. */
static int find_ready(const struct port *p, struct pollfd *fds)
{
	for (unsigned i = 0; i < p->nconnections; i++)
		fds[i] = (struct pollfd){ .fd = p->connections[i].fd, .events = POLLIN };
	if (p->nconnections && poll(fds, p->nconnections, 0) > 0)
		for (unsigned i = 0; i < p->nconnections; i++)
			if (fds[i].revents)
				return (int)i;
	return -1;
}

/* Returns the earlier of two deadlines; 0 is none. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Waits for a connection with a complete hello, or that is closed. *fd is the caller's. limit: the caller's, of this wait; a
 * connection with a complete hello waits without limit. */
static int next_hello(struct port *p, const struct hdl_wait_limit *limit, int *fd)
{
	struct pollfd fds[CONNECTIONS_MAX + 1];
	int ready, err, least = 1;
	bool full;

	for (;;) {
		if (p->closed)
			return -ENOENT;
		if ((err = accept_pending(p)))
			return err;
		ready = find_ready(p, fds);
		if (ready >= 0)
			break;
		if (limit->deadline && limit->deadline <= monotonic_ns())
			return -ETIMEDOUT;
		full = p->nconnections == CONNECTIONS_MAX;
		if (full || (p->nconnections && p->connections[0].deadline <= monotonic_ns())) {
			hdl_debug("port %s: a connection without a hello was closed%s", p->name,
				  full ? ": more processes want to connect" : "");
			close(port_take_connection(p, 0));
			continue;
		}
		fds[p->nconnections] = (struct pollfd){ .fd = p->fd, .events = POLLIN };
		/* other threads may run meanwhile, and use p: all is looked up again */
		err = hdl_fds_wait(fds, p->nconnections + 1, &(struct hdl_wait_limit){
				   earlier(limit->deadline, p->nconnections ? p->connections[0].deadline : 0), limit->comm,
				   limit->ended, limit->ended_arg });
		if (err && err != -ETIMEDOUT)
			return err;
	}
	*fd = port_take_connection(p, (unsigned)ready);
	setsockopt(*fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least));
	return 0;
}

/* Closes connections without the secret, and those of processes with which there can be no communication, and goes on to the
 * next. */
static int port_accept_one(struct port *p, struct hdl_dpm_peer *m)
{
	const struct hdl_wait_limit limit = { m->deadline, m->comm, m->ended, m->ended_arg };
	int err, fd;

	while (!(err = next_hello(p, &limit, &fd))) {
		m->listens = true;
		m->secret = p->secret;
		m->deadline = hdl_vars.init_timeout ? monotonic_ns() + hdl_vars.init_timeout * 1000 : 0;
		err = hdl_dpm_handshake(fd, m);
		close(fd);
		if ((!err && m->other) || err == -EOWNERDEAD)
			return err;
		hdl_debug("port %s: a connection was closed: %s", p->name,
			  err ? strerror(-err) : "there can be no communication with that process");
	}
	return err;
}

int hdl_port_accept(const char *name, struct hdl_dpm_peer *m)
{
	struct port *p = port_find(name);
	int err;

	if (!p)
		return -ENOENT;
	p->users++;
	err = port_accept_one(p, m);
	p->users--;
	port_put(p);
	return err;
}

/* ---- the connector's side ----------------------------------------------------------------------------------- */

static int try_address(const struct addrinfo *a, const struct hdl_wait_limit *limit, int *fd)
{
	socklen_t n = sizeof(int);
	int err = 0;

	*fd = fd_raise(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (*fd < 0)
		return -errno;
	if (connect(*fd, a->ai_addr, a->ai_addrlen))
		err = errno == EINPROGRESS ? hdl_fd_wait(*fd, POLLOUT, limit) : -errno;
	if (!err && !getsockopt(*fd, SOL_SOCKET, SO_ERROR, &err, &n))
		err = -err;
	if (err)
		close(*fd);
	return err;
}

static int dial(const char *host, const char *number, const struct hdl_wait_limit *limit, int *fd)
{
	struct addrinfo want = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list, *a;
	int err = -EHOSTUNREACH, failed;
	unsigned depth;

	depth = hdl_lock_open();	/* name servers may be slow */
	failed = getaddrinfo(host, number, &want, &list);
	hdl_lock_close(depth);
	if (failed)
		return -EHOSTUNREACH;
	for (a = list; a && err; a = a->ai_next)
		err = try_address(a, limit, fd);
	freeaddrinfo(list);
	return err;
}

int hdl_port_connect(const char *name, struct hdl_dpm_peer *m)
{
	const struct hdl_wait_limit limit = { m->deadline, m->comm, m->ended, m->ended_arg };
	char host[256], number[8];
	uint64_t kernel;
	bool same;
	int end = 0, fd = -1, err;

	if (strnlen(name, MPI_MAX_PORT_NAME) == MPI_MAX_PORT_NAME ||
	    sscanf(name, "heddle:%255[^:]:%7[0-9]:%" SCNx64 ":%" SCNx64 "%n", host, number, &kernel, &m->secret, &end) < 4 ||
	    name[end])
		return -EINVAL;
	same = kernel && kernel == hdl_host_id();
	err = dial(same ? "127.0.0.1" : host, number, &limit, &fd);
	/* containers share a kernel, but not the network */
	if (err && same && !dial(host, number, &limit, &fd))
		err = 0;
	if (err)
		return err;
	err = hdl_dpm_handshake(fd, m);	/* the kernel has connected the socket; the listener accepts, closes the port, or ends */
	close(fd);
	return err == -ETIMEDOUT ? -ETIME : err;
}
