/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A meeting (meet.h). Both sides say the same, first who they are, then whether they can use what the other one said:
 *
 *     hello, the job's and the rank's description, the address        ◀──▶
 *     verdict                                                         ◀──▶
 *
 * The program may have set the socket to block or not to, and a peer that is slow must not keep this process from answering others.
 */
#include "p2p/meet.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x31746d6c64646568u	/* "heddlmt1" */
#define MOST (1u << 16)			/* bytes of a description of one process */

struct hello {
	uint64_t magic, secret, nonce;
	uint32_t described, address;	/* bytes that follow */
};

/* ---- waiting for a descriptor -------------------------------------------------------------------------- */

struct watch {
	int fd;
	short events;
	int timeout_ms, err;
	atomic_bool ready;
};

static int look(const struct watch *w, int timeout_ms)
{
	struct pollfd p = { .fd = w->fd, .events = w->events };
	int n;

	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n && p.revents & POLLNVAL ? -EBADF : n;
}

/* A thread of its own: this process may sleep until its device tells something, and a socket does not. */
static void *watch(void *arg)
{
	struct watch *w = arg;
	int n = look(w, w->timeout_ms);

	w->err = n < 0 ? n : n ? 0 : -ETIMEDOUT;
	atomic_store(&w->ready, true);
	hdl_tp_wake();
	return NULL;
}

static bool is_ready(const void *arg)
{
	return atomic_load(&((const struct watch *)arg)->ready);
}

int hdl_fd_wait(int fd, short events, int timeout_ms)
{
	struct watch w = { .fd = fd, .events = events, .timeout_ms = timeout_ms };
	pthread_t thread;
	int n = look(&w, 0);

	if (n)
		return n < 0 ? n : 0;
	n = pthread_create(&thread, NULL, watch, &w);
	if (n)
		return -n;
	hdl_wait_until(is_ready, &w);
	pthread_join(thread, NULL);
	return w.err;
}

/* ---- the socket ---------------------------------------------------------------------------------------- */

static int write_all(int fd, const void *data, size_t n, int timeout_ms)
{
	const char *at = data;

	while (n) {
		ssize_t k = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			int err = hdl_fd_wait(fd, POLLOUT, timeout_ms);
			if (err)
				return err;
		} else if (k < 0 && errno != EINTR) {
			return -errno;
		}
		at += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return 0;
}

static int read_all(int fd, void *data, size_t n, int timeout_ms)
{
	char *at = data;

	while (n) {
		ssize_t k = recv(fd, at, n, MSG_DONTWAIT);

		if (!k)
			return -ECONNRESET;
		if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			int err = hdl_fd_wait(fd, POLLIN, timeout_ms);
			if (err)
				return err;
		} else if (k < 0 && errno != EINTR) {
			return -errno;
		}
		at += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return 0;
}

/* ---- the meeting --------------------------------------------------------------------------------------- */

static int say_hello(int fd, const struct hdl_meeting *m, struct hello *mine)
{
	char address[HDL_ADDRESS_MAX];
	size_t described;
	void *self = hdl_group_describe(hdl_self.group, &described);
	int err = self ? 0 : -ENOMEM;

	*mine = (struct hello){ .magic = MAGIC, .secret = m->secret, .described = (uint32_t)described,
				.address = (uint32_t)hdl_tp_address(address) };
	if (!err && getrandom(&mine->nonce, sizeof(mine->nonce), 0) != sizeof(mine->nonce))
		mine->nonce = monotonic_ns() ^ (uint64_t)getpid() << 40;
	if (!err && !(err = write_all(fd, mine, sizeof(*mine), m->timeout_ms)) && !(err = write_all(fd, self, described, m->timeout_ms)))
		err = write_all(fd, address, mine->address, m->timeout_ms);
	free(self);
	return err;
}

/* What the other one has said of himself. *other is NULL where there can be no communication. */
static int hear(int fd, const struct hello *h, int timeout_ms, struct hdl_group **other)
{
	char address[HDL_ADDRESS_MAX], *described;
	int err;

	*other = NULL;
	if (h->described > MOST || h->address > sizeof(address))
		return -EPROTO;
	described = malloc(h->described + 1);
	if (!described)
		return -ENOMEM;
	err = read_all(fd, described, h->described, timeout_ms);
	if (!err)
		err = read_all(fd, address, h->address, timeout_ms);
	if (!err && !(*other = hdl_group_described(described, h->described)))
		err = -errno;
	free(described);
	if (err || ((*other)->size == 1 && !hdl_peer_add(hdl_group_proc(*other, 0), address, h->address)))
		return err;
	hdl_group_release(*other);
	*other = NULL;
	return 0;
}

int hdl_meet(int fd, struct hdl_meeting *m)
{
	struct hello mine, theirs;
	uint8_t can, they_can;
	uint64_t nonce;
	int err;

	m->other = NULL;
	if ((err = say_hello(fd, m, &mine)) || (err = read_all(fd, &theirs, sizeof(theirs), m->timeout_ms)))
		return err;
	if (theirs.magic != MAGIC)
		return -EPROTO;
	if (theirs.secret != m->secret)
		return -EPERM;
	if ((err = hear(fd, &theirs, m->timeout_ms, &m->other)))
		return err;
	can = m->other != NULL;
	if (!(err = write_all(fd, &can, 1, m->timeout_ms)))
		err = read_all(fd, &they_can, 1, m->timeout_ms);
	if (m->other && (err || !they_can)) {
		hdl_group_release(m->other);
		m->other = NULL;
	}
	nonce = mine.nonce ^ theirs.nonce;
	m->tag = (int)((nonce ^ nonce >> 32) & INT32_MAX);
	return err;
}
