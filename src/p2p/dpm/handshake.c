/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake (handshake.h). Both sides send a hello, and then a verdict: whether they can communicate with the peer that the
 * other's hello describes.
 *
 *     hello, the job's and the rank's description, the address        ◀──▶
 *     verdict                                                         ◀──▶
 *
 * The listener of a port sends each of the two only after it has read the connector's. So a process that does not know the secret
 * gets no data; and a connector that gave up, or was closed because it was too slow, cannot take the handshake for complete,
 * since the listener's verdict comes last.
 *
 * The program may have made the socket blocking or nonblocking, and a slow peer must not keep this process from making progress:
 * each transfer is nonblocking, with a wait in between.
 */
#include "base/fd.h"
#include "p2p/dpm/handshake.h"
#include "runtime/thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC 0x31746d6c64646568u	/* "heddlmt1" */
#define DESCRIPTION_MAX (1u << 16)			/* of the description of one process */

struct hello {
	uint64_t magic, secret, nonce;
	uint32_t description_bytes, address_bytes;	/* lengths of the parts that follow; 0: the secret is wrong */
};
_Static_assert(sizeof(struct hello) == HDL_HELLO_BYTES, "a port waits for this much");

/* ---- waiting for descriptors --------------------------------------------------------------------------- */

struct handshake_watch {
	struct pollfd *fds;		/* the caller's, and one more, which ends the wait */
	unsigned nfds;
	const struct hdl_wait_limit *limit;
	int err;
	atomic_bool ready;
};

/* Returns the milliseconds until the deadline; -1: none. */
static int left_ms(uint64_t deadline)
{
	uint64_t now = monotonic_ns(), ms = deadline > now ? (deadline - now) / 1000000 + 1 : 0;

	return !deadline ? -1 : ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static int handshake_look(struct pollfd *fds, unsigned nfds, int ms)
{
	int n;

	do
		n = poll(fds, nfds, ms);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Runs in a thread of its own: a sleep in the transport does not end when a socket is readable. */
static void *handshake_watch(void *arg)
{
	struct handshake_watch *w = arg;
	int n = handshake_look(w->fds, w->nfds + 1, left_ms(w->limit->deadline));

	w->err = n < 0 ? n : n ? 0 : -ETIMEDOUT;
	atomic_store(&w->ready, true);
	hdl_tp_wake(hdl_mpi_tp);
	return NULL;
}

/* Returns true if the peer, or a member of the communicator that waits for the result, has failed. */
static bool handshake_is_lost(const struct hdl_wait_limit *p)
{
	if (p->ended && p->ended(p->ended_arg))
		return true;
	return p->comm && hdl_recv_revoked(p->comm, (uint16_t)(p->comm->context + 1));
}

static bool is_ready(const void *arg)
{
	const struct handshake_watch *w = arg;

	return atomic_load(&w->ready) || handshake_is_lost(w->limit);
}

static int wait_watching(struct handshake_watch *w)
{
	pthread_t thread;
	int err = hdl_thread_create(&thread, NULL, handshake_watch, w, NULL);

	if (err)
		return err;
	hdl_wait_until(is_ready, w);
	if (!atomic_load(&w->ready))
		eventfd_write(w->fds[w->nfds].fd, 1);
	pthread_join(thread, NULL);
	return w->err;
}

int hdl_fds_wait(struct pollfd *fds, unsigned nfds, const struct hdl_wait_limit *limit)
{
	struct handshake_watch w = { .nfds = nfds, .limit = limit };
	int n = handshake_is_lost(limit) ? -EOWNERDEAD : handshake_look(fds, nfds, 0), end;

	if (n)
		return n < 0 ? n : 0;
	end = fd_raise(eventfd(0, EFD_CLOEXEC));
	w.fds = end < 0 ? NULL : malloc((nfds + 1) * sizeof(*w.fds));
	if (w.fds) {
		memcpy(w.fds, fds, nfds * sizeof(*fds));
		w.fds[nfds] = (struct pollfd){ .fd = end, .events = POLLIN };
		n = wait_watching(&w);
		memcpy(fds, w.fds, nfds * sizeof(*fds));
	} else {
		n = end < 0 ? -errno : -ENOMEM;
	}
	free(w.fds);
	if (end >= 0)
		close(end);
	return handshake_is_lost(limit) ? -EOWNERDEAD : n;
}

int hdl_fd_wait(int fd, short events, const struct hdl_wait_limit *limit)
{
	struct pollfd p = { .fd = fd, .events = events };
	int err = hdl_fds_wait(&p, 1, limit);

	return !err && p.revents & POLLNVAL ? -EBADF : err;
}

/* ---- the socket ---------------------------------------------------------------------------------------- */

/* Sends (POLLOUT) or receives (POLLIN) all of the data. Returns 0 or a negative errno. */
static int handshake_move_all(int fd, short event, void *data, size_t n, const struct hdl_wait_limit *p)
{
	char *at = data;

	while (n) {
		ssize_t k = event == POLLOUT ? send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, n, MSG_DONTWAIT);

		if (k > 0) {
			at += k;
			n -= (size_t)k;
		} else if (!k) {
			return -ECONNRESET;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			int err = hdl_fd_wait(fd, event, p);
			if (err)
				return err;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

/* ---- hello, verdict -------------------------------------------------------------------------------------- */

static int send_hello(int fd, const struct hdl_dpm_peer *m, const struct hdl_wait_limit *p, uint64_t *nonce)
{
	struct hello mine = { .magic = MAGIC, .secret = m->listens ? 0 : m->secret };
	char address[HDL_ADDRESS_MAX];
	size_t described = 0;
	void *self = hdl_group_describe(hdl_self.group, &described);
	int err = self ? 0 : -ENOMEM;

	if (getrandom(&mine.nonce, sizeof(mine.nonce), 0) != sizeof(mine.nonce))
		mine.nonce = monotonic_ns() ^ (uint64_t)getpid() << 40;
	*nonce ^= mine.nonce;
	mine.description_bytes = (uint32_t)described;
	mine.address_bytes = (uint32_t)hdl_tp_address(hdl_mpi_tp, address);
	if (!err)
		err = handshake_move_all(fd, POLLOUT, &mine, sizeof(mine), p);
	if (!err)
		err = handshake_move_all(fd, POLLOUT, self, described, p);
	if (!err)
		err = handshake_move_all(fd, POLLOUT, address, mine.address_bytes, p);
	free(self);
	return err;
}

/* Returns the group of the process that is described. NULL: *err is set, or there can be no communication with
 * it (*refused, reported). */
static struct hdl_group *parse_peer(const char *described, size_t bytes, const char *address, size_t address_bytes, int *err,
				    int *refused)
{
	struct hdl_group *other = hdl_group_described(described, bytes);

	if (!other)
		*err = -errno;
	else if (other->size != 1)
		*err = -EPROTO;
	else if (!(*refused = hdl_peer_add(hdl_mpi_tp, hdl_group_proc(other, 0), address, address_bytes)))
		return other;
	if (other)
		hdl_group_release(other);
	return NULL;
}

/* Receives the parts behind a hello. Returns 0, or a negative errno if a part was not read whole. Sets m->other to NULL if the
 * two processes cannot communicate, and *peer_err to the errno if that is an error of this process. */
static int recv_peer(int fd, const struct hello *h, const struct hdl_wait_limit *p, struct hdl_dpm_peer *m, int *peer_err)
{
	char address[HDL_ADDRESS_MAX], *described;
	int err;

	if (h->description_bytes > DESCRIPTION_MAX || h->address_bytes > sizeof(address))
		return -EPROTO;
	described = malloc(h->description_bytes + 1);
	if (!described)
		return -ENOMEM;
	err = handshake_move_all(fd, POLLIN, described, h->description_bytes, p);
	if (!err)
		err = handshake_move_all(fd, POLLIN, address, h->address_bytes, p);
	if (!err)
		m->other = parse_peer(described, h->description_bytes, address, h->address_bytes, peer_err, &m->refused);
	free(described);
	return err;
}

static int recv_hello(int fd, const struct hdl_wait_limit *p, struct hdl_dpm_peer *m, uint64_t *nonce, int *peer_err)
{
	struct hdl_wait_limit soon = { monotonic_ns() + HDL_HELLO_NS, p->comm, p->ended, p->ended_arg };
	struct hello refusal = { .magic = MAGIC };
	struct hello theirs;
	int err = handshake_move_all(fd, POLLIN, &theirs, sizeof(theirs), p);

	if (err)
		return err;
	if (theirs.magic != MAGIC)
		return -EPROTO;
	if (m->listens && theirs.secret != m->secret)
		handshake_move_all(fd, POLLOUT, &refusal, sizeof(refusal), &soon);
	if ((m->listens && theirs.secret != m->secret) || !theirs.description_bytes)
		return -EPERM;
	*nonce ^= theirs.nonce;
	return recv_peer(fd, &theirs, p, m, peer_err);
}

static int handshake_verdicts(int fd, const struct hdl_wait_limit *p, const struct hdl_dpm_peer *m, uint8_t *they_can)
{
	uint8_t can = m->other != NULL;
	int err = m->listens ? handshake_move_all(fd, POLLIN, they_can, 1, p) : handshake_move_all(fd, POLLOUT, &can, 1, p);

	if (err)
		return err;
	return m->listens ? handshake_move_all(fd, POLLOUT, &can, 1, p) : handshake_move_all(fd, POLLIN, they_can, 1, p);
}

int hdl_dpm_handshake(int fd, struct hdl_dpm_peer *m)
{
	struct hdl_wait_limit limit = { m->deadline, m->comm, m->ended, m->ended_arg }, *p = &limit;
	uint64_t nonce = 0;
	uint8_t they_can = 0;
	int peer_err = 0, err = 0;

	m->other = NULL;
	m->refused = 0;
	if (!m->listens)
		err = send_hello(fd, m, p, &nonce);
	if (!err)
		err = recv_hello(fd, p, m, &nonce, &peer_err);
	if (!err && m->listens)
		err = send_hello(fd, m, p, &nonce);
	/* The listener has accepted. If the connector gave up between the listener's verdict and its own reading of it, the
	 * listener would have an intercommunicator without a peer. */
	if (!err && !m->listens && p->deadline && p->deadline < monotonic_ns() + HDL_HELLO_NS)
		p->deadline = monotonic_ns() + HDL_HELLO_NS;
	if (!err)
		err = handshake_verdicts(fd, p, m, &they_can);
	if (m->other && !they_can) {
		hdl_group_release(m->other);
		m->other = NULL;
	}
	if (err)
		shutdown(fd, SHUT_RDWR);	/* the peer would wait for the rest */
	m->tag = (int)((nonce ^ nonce >> 32) & INT32_MAX);
	return err ? err : peer_err;
}
