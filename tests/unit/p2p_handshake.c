/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handshakes and ports byte by byte: the other side of the socket is a thread of the test, which sends any bytes in any order,
 * and counts the received ones.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "p2p/comm/group.h"
#include "p2p/dpm/handshake.h"
#include "p2p_mock.h"

#define MAGIC 0x31746d6c64646568u
#define SECRET 0x5ec4e7u

struct hello {
	uint64_t magic, secret, nonce;
	uint32_t described, address;
};

/* The script of the other side: sends the first `says` bytes of hello, description and address; receives the same from this
 * side, if `hears`; sends its verdict, if `judges`. */
struct other {
	pthread_t thread;
	int fd;
	struct hello hello;
	size_t says;
	bool hears, judges;
	uint8_t verdict;
	struct hello heard;
};

static void *self;
static size_t self_bytes;

static void setup(void)
{
	mock_job(0, 4);
	mock_others = true;
	cr_assert_eq(hdl_p2p_init(), 0);
	self = hdl_group_describe(hdl_self.group, &self_bytes);
	cr_assert_not_null(self);
}

static void teardown(void)
{
	free(self);
	cr_assert_eq(hdl_p2p_fini(false), 0);
}

TestSuite(meet, .init = setup, .fini = teardown, .timeout = 20);

static bool hear(int fd, void *to, size_t n)
{
	return recv(fd, to, n, MSG_WAITALL) == (ssize_t)n;
}

static void *play(void *arg)
{
	struct other *o = arg;
	char all[4096], rest[4096];
	size_t n = 0;

	memcpy(all, &o->hello, sizeof(o->hello));
	memcpy(all + sizeof(o->hello), self, self_bytes);
	n = sizeof(o->hello) + self_bytes;
	all[n++] = 0;		/* the mock's address */
	if (o->says < n)
		n = o->says;
	if (send(o->fd, all, n, MSG_NOSIGNAL) != (ssize_t)n)
		return NULL;
	if (o->hears && (!hear(o->fd, &o->heard, sizeof(o->heard)) || !hear(o->fd, rest, o->heard.described + o->heard.address)))
		return NULL;
	if (o->judges)
		send(o->fd, &o->verdict, 1, MSG_NOSIGNAL);
	return NULL;
}

static struct other good(int fd)
{
	return (struct other){ .fd = fd, .hello = { MAGIC, SECRET, 77, (uint32_t)self_bytes, 1 }, .says = SIZE_MAX, .hears = true,
			       .judges = true, .verdict = 1 };
}

/* Runs hdl_dpm_handshake against that script. Returns its result. */
static int meet(struct other *o, bool listens, struct hdl_dpm_peer *m, int timeout_ms)
{
	int fd[2], err;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	o->fd = fd[1];
	*m = (struct hdl_dpm_peer){.listens = listens,
				   .secret = SECRET,
				   .deadline = timeout_ms < 0 ? 0 : monotonic_ns() + (uint64_t)timeout_ms * 1000000};
	pthread_create(&o->thread, NULL, play, o);
	err = hdl_dpm_handshake(fd[0], m);
	pthread_join(o->thread, NULL);
	return err;
}

/* Returns how many bytes are still to be received, with the last of them; *over: the connection is closed behind them. */
static size_t left(const struct other *o, char *last, bool *over)
{
	char text[4096];
	size_t n = 0;
	ssize_t k;

	while ((k = recv(o->fd, text, sizeof(text), MSG_DONTWAIT)) > 0) {
		n += (size_t)k;
		*last = text[k - 1];
	}
	*over = k == 0;
	return n;
}

static void leave(struct hdl_dpm_peer *m)
{
	if (m->other)
		hdl_group_release(m->other);
}

Test(meet, comes_about)
{
	struct hdl_dpm_peer m;
	struct other o = good(-1);
	char last = 9;
	bool over;
	uint64_t nonce;

	cr_assert_eq(meet(&o, true, &m, 10000), 0);
	cr_assert_not_null(m.other);
	cr_assert_eq(m.other->size, 1);
	cr_assert(o.heard.magic == MAGIC && !o.heard.secret && o.heard.described == self_bytes);
	nonce = o.hello.nonce ^ o.heard.nonce;
	cr_assert_eq(m.tag, (int)((nonce ^ nonce >> 32) & INT32_MAX), "both have the tag");
	cr_assert(left(&o, &last, &over) == 1 && last == 1 && !over, "the verdict, and nothing else");
	leave(&m);
	/* a side that cannot use the other side's description sends the verdict 0, which ends the handshake on both sides */
	o = good(-1);
	o.verdict = 0;
	cr_assert_eq(meet(&o, true, &m, 10000), 0);
	cr_assert_null(m.other);
}

Test(meet, strangers_hear_nothing)
{
	struct hdl_dpm_peer m;
	struct other o = good(-1);
	char last;
	bool over;

	o.says = HDL_HELLO_BYTES - 1;
	o.hears = o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 200), -ETIMEDOUT);
	cr_assert_eq(left(&o, &last, &over), 0);
	cr_assert(over, "it would wait for the rest");
	o = good(-1);
	o.hello.secret++;
	o.hears = o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 10000), -EPERM);
	cr_assert_null(m.other);
	cr_assert(hear(o.fd, &o.heard, sizeof(o.heard)) && o.heard.magic == MAGIC && !o.heard.described && !o.heard.address &&
		  !o.heard.nonce);
	cr_assert(left(&o, &last, &over) == 0 && over);
	o = good(-1);
	o.hello.magic++;
	o.hears = o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 10000), -EPROTO);
	cr_assert(left(&o, &last, &over) == 0 && over);
}

/* The listener's verdict is last: a side without the listener's verdict has no peer. */
Test(meet, listener_judges_last)
{
	struct hdl_dpm_peer m;
	struct other o = good(-1);
	char last;
	bool over;

	o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 200), -ETIMEDOUT);
	cr_assert_null(m.other);
	cr_assert(left(&o, &last, &over) == 0 && over);
}

Test(meet, what_is_too_long_is_not_read)
{
	struct hdl_dpm_peer m;
	struct other o = good(-1);

	o.hello.described = 1u << 17;
	o.hears = o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 5000), -EPROTO);
	o = good(-1);
	o.hello.address = HDL_ADDRESS_MAX + 1;
	o.hears = o.judges = false;
	cr_assert_eq(meet(&o, true, &m, 5000), -EPROTO);
}

Test(meet, visitor)
{
	struct hdl_dpm_peer m;
	struct other o = good(-1);

	o.hello.secret = 0;
	cr_assert_eq(meet(&o, false, &m, 10000), 0);
	cr_assert_not_null(m.other);
	cr_assert_eq(o.heard.secret, SECRET);
	leave(&m);
	/* is sent away */
	o = good(-1);
	o.hello.described = o.hello.address = 0;
	o.says = HDL_HELLO_BYTES;
	o.judges = false;
	cr_assert_eq(meet(&o, false, &m, 10000), -EPERM);
}

static void *leave_at_once(void *arg)
{
	shutdown(*(int *)arg, SHUT_RDWR);
	return NULL;
}

Test(meet, who_goes_is_not_waited_for)
{
	struct hdl_dpm_peer m = { .listens = true, .secret = SECRET };
	pthread_t thread;
	int fd[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	pthread_create(&thread, NULL, leave_at_once, &fd[1]);
	cr_assert_eq(hdl_dpm_handshake(fd[0], &m), -ECONNRESET);
	pthread_join(thread, NULL);
}

/* ---- ports ---------------------------------------------------------------------------------------------------- */

static int dial(const char *name, uint64_t *secret)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	unsigned port;
	unsigned long kernel, word;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_eq(sscanf(name, "heddle:%*[^:]:%u:%lx:%lx", &port, &kernel, &word), 3, "%s", name);
	a.sin_port = htons((uint16_t)port);
	*secret = word;
	cr_assert_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

/* The first client sends nothing, the second stops in the middle of its hello, the third has a wrong secret; then a valid
 * client connects. */
Test(meet, port_waits_for_nobody)
{
	char name[MPI_MAX_PORT_NAME], some[HDL_HELLO_BYTES - 1] = { 0 }, junk[HDL_HELLO_BYTES] = { 0 };
	struct hdl_dpm_peer m = { 0 };
	struct other o;
	uint64_t secret;
	int silent, slow, stranger;

	cr_assert_eq(hdl_port_open(name), 0);
	silent = dial(name, &secret);
	slow = dial(name, &secret);
	cr_assert_eq(send(slow, some, sizeof(some), 0), (ssize_t)sizeof(some));
	stranger = dial(name, &secret);
	cr_assert_eq(send(stranger, junk, sizeof(junk), 0), (ssize_t)sizeof(junk));
	o = good(dial(name, &secret));
	o.hello.secret = secret;
	pthread_create(&o.thread, NULL, play, &o);
	cr_assert_eq(hdl_port_accept(name, &m), 0);
	pthread_join(o.thread, NULL);
	cr_assert_not_null(m.other);
	cr_assert_eq(recv(stranger, junk, sizeof(junk), 0), 0, "a stranger is sent away");
	cr_assert(recv(silent, junk, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN, "who says nothing has some time");
	leave(&m);
	cr_assert_eq(hdl_port_close(name), 0);
	cr_assert_eq(recv(silent, junk, 1, 0), 0, "a port that is closed keeps nobody");
	close(slow);
	cr_assert_eq(hdl_port_close(name), -ENOENT);
	cr_assert_eq(hdl_port_accept(name, &m), -ENOENT);
}

Test(meet, names_of_no_port)
{
	struct hdl_dpm_peer m = { 0 };
	char name[MPI_MAX_PORT_NAME + 1], longest[MPI_MAX_PORT_NAME + 1];

	cr_assert_eq(hdl_port_open(name), 0);
	cr_assert_lt(strlen(name) + 2, MPI_MAX_PORT_NAME);
	strcat(name, ":");
	cr_assert_eq(hdl_port_connect(name, &m), -EINVAL);
	cr_assert_eq(hdl_port_close(name), -ENOENT);
	cr_assert_eq(hdl_port_connect("", &m), -EINVAL);
	cr_assert_eq(hdl_port_connect("heddle:a:1:2", &m), -EINVAL);
	memset(longest, 'f', sizeof(longest));
	memcpy(longest, "heddle:a:1:2:", 13);
	cr_assert_eq(hdl_port_connect(longest, &m), -EINVAL, "it has no end");
	name[strlen(name) - 1] = 0;
	cr_assert_eq(hdl_port_close(name), 0);
}
