/* SPDX-License-Identifier: BSD-3-Clause */
/* The files of management datagrams, by the kernel's interface alone. The program has two ports. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define REGISTER _IOWR(0x1b, 0x01, struct ib_user_mad_reg_req)
#define UNREGISTER _IOW(0x1b, 0x02, uint32_t)
#define ENABLE_PKEY _IO(0x1b, 0x03)
#define REGISTER2 _IOWR(0x1b, 0x04, struct ib_user_mad_reg_req2)
#define CHECK(ok)                                                                        \
	do {                                                                             \
		if (!(ok)) {                                                             \
			fprintf(stderr, "FAIL: line %d: %s, errno %d\n", __LINE__, #ok, errno); \
			exit(1);                                                         \
		}                                                                        \
	} while (0)
#define REFUSED(call, err)                                                               \
	do {                                                                             \
		errno = 0;                                                               \
		CHECK((call) == -1);                                                     \
		CHECK(errno == (err));                                                   \
	} while (0)
#define FOREVER 3600000u	/* ms */

struct datagram {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[4096];
};

static char device[2][64];

/* Finds the file of a port as libibumad does. */
static void find_devices(void)
{
	DIR *d = opendir("/sys/class/infiniband_mad");
	int found = 0;

	CHECK(d);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		char path[320], text[64] = "";
		snprintf(path, sizeof(path), "/sys/class/infiniband_mad/%.200s/ibdev", e->d_name);
		FILE *f = fopen(path, "r");
		if (!f)
			continue;
		bool ours = fgets(text, sizeof(text), f) && !strcmp(text, "shca0\n");
		fclose(f);
		snprintf(path, sizeof(path), "/sys/class/infiniband_mad/%.200s/port", e->d_name);
		f = ours ? fopen(path, "r") : NULL;
		if (!f)
			continue;
		CHECK(fgets(text, sizeof(text), f));
		fclose(f);
		CHECK(atoi(text) == 1 || atoi(text) == 2);
		snprintf(device[atoi(text) - 1], sizeof(device[0]), "/dev/infiniband/%.40s", e->d_name);
		found++;
	}
	CHECK(!closedir(d));
	CHECK(found == 2 && strcmp(device[0], device[1]));
}

static int opened(int port)
{
	int fd = open(device[port - 1], O_RDWR | O_NONBLOCK | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(!ioctl(fd, ENABLE_PKEY, NULL));
	return fd;
}

static uint32_t agent(int fd, uint8_t class, uint8_t version, uint8_t rmpp)
{
	struct ib_user_mad_reg_req r = {.qpn = class == 0x81 || class == 1 ? 0 : 1,
					.mgmt_class = class,
					.mgmt_class_version = version,
					.rmpp_version = rmpp};

	CHECK(!ioctl(fd, REGISTER, &r));
	return r.id;
}

static void put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static unsigned get16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

/* A request with a transaction id that begins with `tid`. */
static struct datagram request(uint32_t id, uint16_t lid, uint8_t class, uint8_t version, uint8_t method, uint16_t attribute,
			       uint32_t tid)
{
	bool smp = class == 1 || class == 0x81;
	struct datagram d = {.hdr = {.id = id, .timeout_ms = FOREVER, .lid = htons(lid), .qpn = htonl(smp ? 0 : 1),
				     .qkey = htonl(smp ? 0 : 0x80010000u)}};

	d.mad[0] = 1;
	d.mad[1] = class;
	d.mad[2] = version;
	d.mad[3] = method;
	put16(d.mad + 10, 0);
	memcpy(d.mad + 12, &(uint32_t){htonl(tid)}, 4);
	put16(d.mad + 16, attribute);
	if (class == 0x81)
		memset(d.mad + 32, 0xff, 4);
	return d;
}

static bool put(int fd, const struct datagram *d)
{
	return write(fd, d, sizeof(d->hdr) + 256) == (ssize_t)(sizeof(d->hdr) + 256);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Sends and reads the answer, which has to be there at once. Returns its status. */
static unsigned ask(int fd, const struct datagram *d, struct datagram *answer)
{
	CHECK(put(fd, d));
	CHECK(readable(fd));
	CHECK(read(fd, answer, sizeof(answer->hdr) + 256) == (ssize_t)(sizeof(answer->hdr) + 256));
	CHECK(!answer->hdr.status && answer->hdr.id == d->hdr.id && answer->hdr.length == sizeof(answer->hdr) + 256);
	CHECK(!memcmp(answer->mad + 12, d->mad + 12, 4) && answer->mad[3] & 0x80);
	return get16(answer->mad + 4);
}

static void files(void)
{
	struct stat st;
	int fd = opened(1);
	uint32_t c = 0;

	CHECK(!fstat(fd, &st) && S_ISCHR(st.st_mode));
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
	CHECK(!stat(device[0], &st) && S_ISCHR(st.st_mode) && !access(device[0], R_OK | W_OK));
	REFUSED(ioctl(fd, 0x1bff, &c), ENOTTY);
	REFUSED(read(fd, &(struct datagram){0}, sizeof(struct datagram)), EAGAIN);
	CHECK(!readable(fd));
	/* the header's size is fixed by now */
	REFUSED(ioctl(fd, ENABLE_PKEY, NULL), EINVAL);
	CHECK(!close(fd));
	REFUSED(read(fd, &c, sizeof(c)), EBADF);
	CHECK(open("/dev/infiniband/umad77", O_RDWR) < 0);
}

/* Descriptors of the process. */
static unsigned descriptors_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Under each limit on descriptors an open that fails leaves none behind, and the open after it goes on as before. */
static void no_descriptor(void)
{
	struct rlimit all, few;

	CHECK(!getrlimit(RLIMIT_NOFILE, &all));
	few = all;
	for (few.rlim_cur = 3; few.rlim_cur < 40; few.rlim_cur++) {
		unsigned before = descriptors_open();
		CHECK(!setrlimit(RLIMIT_NOFILE, &few));
		int fd = open(device[0], O_RDWR), err = errno;
		CHECK(!setrlimit(RLIMIT_NOFILE, &all));
		CHECK(fd >= 0 || err == EMFILE);
		CHECK(fd < 0 || !close(fd));
		CHECK(descriptors_open() == before);
	}
	CHECK(!close(opened(1)));
}

static void agents(void)
{
	int fd = opened(1);
	struct ib_user_mad_reg_req bad = {.qpn = 2, .mgmt_class = 3, .mgmt_class_version = 2};
	struct ib_user_mad_reg_req2 two = {.qpn = 1, .mgmt_class = 3, .mgmt_class_version = 2, .flags = 6};
	struct datagram d;

	REFUSED(ioctl(fd, REGISTER, &bad), EINVAL);
	bad.qpn = 0;			/* subnet administration is QP 1's */
	REFUSED(ioctl(fd, REGISTER, &bad), EINVAL);
	bad = (struct ib_user_mad_reg_req){.qpn = 1, .mgmt_class = 0x81, .mgmt_class_version = 1};
	REFUSED(ioctl(fd, REGISTER, &bad), EINVAL);
	bad = (struct ib_user_mad_reg_req){.qpn = 1, .mgmt_class = 0x50, .mgmt_class_version = 1};
	REFUSED(ioctl(fd, REGISTER, &bad), EINVAL);
	REFUSED(ioctl(fd, REGISTER2, &two), EINVAL);
	CHECK(two.flags == IB_USER_MAD_USER_RMPP);
	CHECK(!ioctl(fd, REGISTER2, &two));
	for (int i = 1; i < 32; i++)
		agent(fd, 4, 1, 0);
	bad = (struct ib_user_mad_reg_req){.qpn = 1};
	REFUSED(ioctl(fd, REGISTER, &bad), ENOMEM);
	REFUSED(ioctl(fd, UNREGISTER, &(uint32_t){32}), EINVAL);
	CHECK(!ioctl(fd, UNREGISTER, &(uint32_t){7}));
	REFUSED(ioctl(fd, UNREGISTER, &(uint32_t){7}), EINVAL);
	d = request(7, 1, 4, 1, 1, 1, 1);
	REFUSED(write(fd, &d, sizeof(d.hdr) + 256), EINVAL);	/* no such agent */
	d = request(8, 1, 0x81, 1, 1, 0x11, 1);
	REFUSED(write(fd, &d, sizeof(d.hdr) + 256), EINVAL);	/* to QP 0 by an agent of QP 1 */
	d = request(8, 1, 4, 1, 1, 1, 1);
	REFUSED(write(fd, &d, sizeof(d.hdr) + 257), EINVAL);
	REFUSED(write(fd, &d, sizeof(d.hdr) + 35), EINVAL);
	d.hdr.pkey_index = 1;
	REFUSED(write(fd, &d, sizeof(d.hdr) + 256), EINVAL);
	/* an answer that has no place in memory stays */
	d = request(8, 1, 4, 1, 1, 1, 1);
	char *volatile nowhere = NULL;
	REFUSED(write(fd, nowhere, sizeof(d.hdr) + 256), EFAULT);
	CHECK(put(fd, &d));
	REFUSED(read(fd, nowhere, sizeof(d)), EFAULT);
	CHECK(read(fd, &d, sizeof(d)) == (ssize_t)(sizeof(d.hdr) + 256));
	CHECK(!close(fd));
}

/* Two agents of a file, and another file: each gets the answers to its own requests. */
static void addressed(void)
{
	int fd = opened(1), other = opened(2);
	uint32_t smi = agent(fd, 0x81, 1, 0), sa = agent(fd, 3, 2, 0), far = agent(other, 0x81, 1, 0);
	struct datagram d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 5), e = request(sa, 1, 3, 2, 1, 1, 5), a;

	CHECK(put(fd, &d) && put(fd, &e) && !readable(other));
	CHECK(read(fd, &a, sizeof(a)) == (ssize_t)(sizeof(a.hdr) + 256) && a.hdr.id == smi && a.mad[1] == 0x81);
	CHECK(a.mad[64 + 36] == 1);	/* NodeInfo's LocalPortNum */
	CHECK(read(fd, &a, sizeof(a)) == (ssize_t)(sizeof(a.hdr) + 256) && a.hdr.id == sa && a.mad[1] == 3 && a.mad[3] == 0x81);
	REFUSED(read(fd, &a, sizeof(a)), EAGAIN);
	d = request(far, 0xffff, 0x81, 1, 1, 0x11, 5);
	CHECK(ask(other, &d, &a) == 0x8000);	/* the direction; no error */
	CHECK(a.mad[64 + 36] == 2 && !readable(fd));
	/* answers stay when their agent has gone */
	CHECK(put(other, &d) && !ioctl(other, UNREGISTER, &far) && read(other, &a, sizeof(a)) > 0);
	CHECK(!close(fd) && !close(other));
}

static void statuses(void)
{
	int fd = opened(1);
	uint32_t smi = agent(fd, 1, 1, 0), gs = agent(fd, 4, 1, 0), sa = agent(fd, 3, 2, 0);
	static const struct {
		uint8_t class, version, method;
		uint16_t attribute;
		uint32_t modifier;
		unsigned status;
	} cases[] = {
		{1, 1, 1, 0x11, 0, 0}, {1, 2, 1, 0x11, 0, 0x04}, {1, 1, 0x12, 0x11, 0, 0x08}, {1, 1, 2, 0x15, 0, 0x0c},
		{1, 1, 1, 0x12, 0, 0x0c}, {1, 1, 1, 0x15, 2, 0}, {1, 1, 1, 0x15, 3, 0x1c}, {1, 1, 1, 0x16, 0, 0},
		{1, 1, 1, 0x16, 1, 0x1c}, {1, 1, 1, 0x14, 0, 0}, {1, 1, 1, 0x14, 1, 0x1c}, {1, 1, 1, 0x20, 0, 0},
		{1, 1, 1, 0x10, 0, 0}, {4, 1, 1, 1, 0, 0}, {4, 2, 1, 1, 0, 0x04}, {4, 1, 1, 0x10, 0, 0x0c},
		{4, 1, 2, 0x12, 0, 0x0c}, {4, 1, 1, 0x12, 0, 0x1c}, {3, 2, 1, 1, 0, 0}, {3, 1, 1, 1, 0, 0x04},
		{3, 2, 0x14, 0x11, 0, 0x08}, {3, 2, 0x12, 0x31, 0, 0x0c}, {3, 2, 2, 0x31, 0, 0x0c},
		{3, 2, 1, 0x11, 0, 0x0400}, {3, 2, 2, 0x38, 0, 0x0600},
	};
	struct datagram a;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct datagram d = request(cases[i].class == 1 ? smi :
					    cases[i].class == 4 ? gs :
								  sa,
					    1, cases[i].class, cases[i].version, cases[i].method, cases[i].attribute, 100 + i);
		memcpy(d.mad + 20, &(uint32_t){htonl(cases[i].modifier)}, 4);
		unsigned status = ask(fd, &d, &a);
		if (status != cases[i].status) {
			fprintf(stderr, "FAIL: case %u: status %#x, not %#x\n", i, status, cases[i].status);
			exit(1);
		}
	}
	/* a component that no record has */
	struct datagram d = request(sa, 1, 3, 2, 1, 0x30, 1);
	d.mad[48] = 0x80;
	CHECK(ask(fd, &d, &a) == 0x0200);
	/* no record matches: LID 3 */
	d = request(sa, 1, 3, 2, 1, 0x11, 2);
	d.mad[55] = 1;
	put16(d.mad + 56, 3);
	CHECK(ask(fd, &d, &a) == 0x0300);
	put16(d.mad + 56, 257);
	CHECK(ask(fd, &d, &a) == 0 && get16(a.mad + 56) == 257 && a.mad[56 + 4 + 36] == 2);
	/* counters of one port, and of a port that is not there */
	d = request(gs, 257, 4, 1, 1, 0x12, 3);
	d.mad[65] = 2;
	CHECK(ask(fd, &d, &a) == 0 && a.mad[65] == 2);
	d.mad[65] = 255;
	CHECK(ask(fd, &d, &a) == 0);
	CHECK(!close(fd));
}

/* A table of four paths is more than one segment. */
static void tables(void)
{
	int fd = opened(1);
	uint32_t rmpp = agent(fd, 3, 2, 1), plain = agent(fd, 3, 2, 0);
	struct ib_user_mad_reg_req2 own = {
		.qpn = 1, .mgmt_class = 3, .mgmt_class_version = 2, .flags = IB_USER_MAD_USER_RMPP, .rmpp_version = 1};
	struct datagram d = request(rmpp, 1, 3, 2, 0x12, 0x35, 9), a;
	size_t head = sizeof(d.hdr), all = 56 + 4 * 64;

	CHECK(put(fd, &d));
	memset(&a, 0, sizeof(a));
	REFUSED(read(fd, &a, head + 255), EINVAL);
	REFUSED(read(fd, &a, 10), EINVAL);
	REFUSED(read(fd, &a, head + 256), ENOSPC);
	CHECK(a.hdr.length == head + all && a.mad[3] == 0x92 && readable(fd));
	CHECK(read(fd, &a, sizeof(a)) == (ssize_t)(head + all) && !readable(fd));
	CHECK(get16(a.mad + 44) == 8 && get16(a.mad + 4) == 0);
	unsigned pairs = 0;
	for (int i = 0; i < 4; i++) {
		const uint8_t *r = a.mad + 56 + 64 * i;
		CHECK((get16(r + 40) == 1 || get16(r + 40) == 257) && (get16(r + 42) == 1 || get16(r + 42) == 257));
		pairs |= 1u << ((get16(r + 40) == 257) + 2 * (get16(r + 42) == 257));
	}
	CHECK(pairs == 15);
	/* from LID 1, at most one path, of an MTU greater than 2048 and not greater than itself */
	d = request(rmpp, 1, 3, 2, 0x12, 0x35, 10);
	put16(d.mad + 54, 1u << 12 | 1u << 5);
	put16(d.mad + 56 + 42, 1);
	d.mad[56 + 49] = 1;
	CHECK(put(fd, &d) && read(fd, &a, sizeof(a)) == (ssize_t)(head + 56 + 64) && get16(a.mad + 56 + 42) == 1);
	d = request(rmpp, 1, 3, 2, 0x12, 0x35, 11);
	d.mad[53] = 3;			/* MTU selector and MTU */
	d.mad[56 + 54] = 4;		/* greater than 2048 */
	CHECK(put(fd, &d) && read(fd, &a, sizeof(a)) == (ssize_t)(head + all));
	d.mad[56 + 54] = 5;		/* greater than 4096 */
	CHECK(put(fd, &d) && read(fd, &a, sizeof(a)) == (ssize_t)(head + 56) && get16(a.mad + 4) == 0);
	/* without RMPP, and with the program's own, the first segment */
	d = request(plain, 1, 3, 2, 0x12, 0x35, 12);
	CHECK(put(fd, &d) && read(fd, &a, sizeof(a)) == (ssize_t)(head + 256));
	CHECK(!ioctl(fd, REGISTER2, &own));
	d = request(own.id, 1, 3, 2, 0x12, 0x35, 13);
	CHECK(put(fd, &d) && read(fd, &a, sizeof(a)) == (ssize_t)(head + 256) && a.mad[24] == 1 && a.mad[26] == 3 &&
	      a.mad[35] == 4 * 64 % 256 + 40);
	CHECK(!close(fd));
}

/* Requests without an answer. */
static void timeouts(void)
{
	int fd = opened(1);
	uint32_t smi = agent(fd, 0x81, 1, 0), gs = agent(fd, 4, 1, 0);
	struct datagram d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 1), a;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	/* two links: an adapter forwards no SMP */
	d.mad[7] = 2;
	d.mad[129] = d.mad[130] = 1;
	CHECK(put(fd, &d) && !readable(fd));
	REFUSED(write(fd, &d, sizeof(d.hdr) + 256), EINVAL);	/* the same one is under way */
	/* no such LID; another Q_Key; a class without an agent; no subnet administrator there */
	struct datagram e = request(gs, 9, 4, 1, 1, 1, 2), f = request(gs, 1, 4, 1, 1, 1, 3), g = request(gs, 1, 9, 1, 1, 1, 4),
			h = request(gs, 257, 3, 2, 1, 1, 5);
	f.hdr.qkey = htonl(1);
	h.hdr.timeout_ms = 2;
	h.hdr.retries = 1;
	g.hdr.timeout_ms = 1;
	CHECK(put(fd, &e) && put(fd, &f) && put(fd, &h) && put(fd, &g));
	unsigned classes = 0;
	for (int i = 0; i < 2; i++) {
		CHECK(poll(&p, 1, -1) == 1);
		CHECK(read(fd, &a, sizeof(a)) == (ssize_t)(sizeof(a.hdr) + 24) && a.hdr.status == ETIMEDOUT && a.hdr.id == gs);
		classes |= 1u << a.mad[1];
	}
	CHECK(classes == (1u << 9 | 1u << 3));
	CHECK(!readable(fd));
	/* unregistering an agent cancels that agent's requests: other agents' requests stay under way */
	CHECK(!ioctl(fd, UNREGISTER, &gs));
	REFUSED(write(fd, &d, sizeof(d.hdr) + 256), EINVAL);
	CHECK(agent(fd, 4, 1, 0) == gs && put(fd, &e));
	/* with timeout 0 no timer waits for the answer */
	e = request(gs, 1, 4, 1, 1, 1, 7);
	e.hdr.timeout_ms = 0;
	CHECK(put(fd, &e) && !readable(fd));
	/* a blocking read */
	CHECK(!fcntl(fd, F_SETFL, 0));
	g = request(gs, 1, 9, 1, 1, 1, 8);
	g.hdr.timeout_ms = 1;
	CHECK(put(fd, &g) && read(fd, &a, sizeof(a)) == (ssize_t)(sizeof(a.hdr) + 24) && a.hdr.status == ETIMEDOUT);
	CHECK(!close(fd));
}

/* The program closes a file's timer by the system call, and the number is a timer of the program. */
static void timer_number_reused(void)
{
	char before[256], path[32], to[64];
	int timer = -1, mine;

	for (int n = 0; n < 256; n++)
		before[n] = fcntl(n, F_GETFD) >= 0;
	int fd = opened(1);
	for (int n = 0; n < 256; n++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", n);
		ssize_t got = before[n] ? -1 : readlink(path, to, sizeof(to) - 1);
		to[got < 0 ? 0 : got] = 0;
		if (!strcmp(to, "anon_inode:[timerfd]"))
			timer = n;
	}
	CHECK(timer >= 0);
	struct itimerspec an_hour = {.it_value = {3600, 0}}, is;
	CHECK((mine = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0 && !timerfd_settime(mine, 0, &an_hour, NULL));
	CHECK(syscall(SYS_dup3, mine, timer, 0) == timer);
	struct datagram d = request(agent(fd, 9, 1, 0), 1, 9, 1, 1, 1, 1), a;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	d.hdr.timeout_ms = 1;
	CHECK(put(fd, &d));
	CHECK(!timerfd_gettime(mine, &is) && is.it_value.tv_sec > 1800);
	CHECK(poll(&p, 1, 20000) == 1);
	CHECK(read(fd, &a, sizeof(a)) == (ssize_t)(sizeof(a.hdr) + 24) && a.hdr.status == ETIMEDOUT);
	CHECK(!close(fd) && !timerfd_gettime(timer, &is) && !close(timer) && !close(mine));
}

/* A thread duplicates a number that another one closes and opens again: the copy may be of a file that is closed, and must not
 * count as one of the file that has the number now. */
static _Atomic int shared_number = -1;
static _Atomic bool copier_ends;

static void *copier(void *arg)
{
	while (!atomic_load(&copier_ends)) {
		int fd = atomic_load(&shared_number), copy = fd < 0 ? -1 : dup(fd);
		if (copy >= 0)
			close(copy);
	}
	return arg;
}

static int numbers_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void copies_of_closed_files(void)
{
	pthread_t t[2];
	int before = numbers_open();

	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&t[i], NULL, copier, NULL));
	for (int i = 0; i < 4000; i++) {
		int fd = opened(1);
		atomic_store(&shared_number, fd);
		sched_yield();
		CHECK(!close(fd));
	}
	atomic_store(&copier_ends, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(t[i], NULL));
	CHECK(numbers_open() == before);
}

static void descriptors(void)
{
	int fd = opened(1), copy = dup(fd), pair[2];
	uint32_t smi = agent(fd, 0x81, 1, 0);
	struct datagram d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 1), a;

	CHECK(copy >= 0 && !close(fd) && ask(copy, &d, &a) == 0x8000);
	CHECK(dup2(copy, fd) == fd && ask(fd, &d, &a) == 0x8000 && fcntl(fd, F_DUPFD_CLOEXEC, 100) >= 100 && !close(copy));
	/* in a child the file is the parent's */
	pid_t child = fork();
	CHECK(child >= 0);
	if (!child)
		_exit(write(fd, &d, sizeof(d.hdr) + 256) == -1 && errno == EIO && read(fd, &a, sizeof(a)) == -1 &&
		      errno == EIO && !close(fd) ? 0 : 1);
	int status;
	CHECK(waitpid(child, &status, 0) == child && !status && ask(fd, &d, &a) == 0x8000);
	/* closed unseen, and the number is another file's */
	CHECK(!syscall(SYS_close, fd) && !pipe(pair) && pair[0] == fd);
	CHECK(write(pair[1], "xyz", 3) == 3 && read(fd, &a, sizeof(a)) == 3 && !memcmp(&a, "xyz", 3));
	CHECK(!close(fd) && !close(pair[1]));
	/* the number as a file of this sort again */
	fd = opened(2);
	smi = agent(fd, 0x81, 1, 0);
	d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 1);
	CHECK(ask(fd, &d, &a) == 0x8000 && a.mad[64 + 36] == 2 && !close(fd));
	/* the header of programs without P_Key indices */
	CHECK((fd = open(device[0], O_RDWR)) >= 0);
	smi = agent(fd, 0x81, 1, 0);
	d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 1);
	memmove((char *)&d + 56, d.mad, 256);
	CHECK(write(fd, &d, 56 + 256) == 56 + 256 && read(fd, &a, sizeof(a)) == 56 + 256 && a.hdr.length == 56 + 256);
	CHECK(((uint8_t *)&a)[56 + 3] == 0x81 && !close(fd));
}

/* More datagrams than the program reads: the last ones are lost, and the file goes on. */
static void unread(void)
{
	int fd = opened(1), n = 0;
	uint32_t smi = agent(fd, 0x81, 1, 0);
	struct datagram d = request(smi, 0xffff, 0x81, 1, 1, 0x11, 1), a;

	for (int i = 0; i < 5000; i++)
		CHECK(put(fd, &d));
	while (read(fd, &a, sizeof(a)) > 0)
		n++;
	CHECK(errno == EAGAIN && n == 4096 && ask(fd, &d, &a) == 0x8000 && !close(fd));
}

static void joins(void)
{
	int fd = opened(2);
	uint32_t sa = agent(fd, 3, 2, 1), smi = agent(fd, 0x81, 1, 0);
	struct datagram d = request(smi, 0xffff, 0x81, 1, 1, 0x15, 1), a;
	uint8_t gid[16] = "";

	CHECK(ask(fd, &d, &a) == 0x8000);	/* PortInfo: the GID's prefix */
	memcpy(gid, a.mad + 64 + 8, 8);
	d.mad[17] = 0x14;
	CHECK(ask(fd, &d, &a) == 0x8000);	/* GUIDInfo */
	memcpy(gid + 8, a.mad + 64, 8);
	d = request(sa, 1, 3, 2, 2, 0x38, 2);
	d.mad[53] = 1;				/* JoinState */
	d.mad[55] = 7;				/* MGID, PortGID, Q_Key */
	d.mad[56] = 0xff;
	d.mad[57] = 0x15;
	d.mad[71] = 9;
	memcpy(d.mad + 56 + 16, gid, 16);
	d.mad[56 + 35] = 0x77;
	d.mad[56 + 48] = 1;
	CHECK(ask(fd, &d, &a) == 0 && a.mad[3] == 0x81 && get16(a.mad + 56 + 36) >= 0xc000 && a.mad[56 + 35] == 0x77 &&
	      a.mad[56 + 48] == 0x51);
	unsigned lid = get16(a.mad + 56 + 36);
	d.mad[3] = 0x15;
	CHECK(ask(fd, &d, &a) == 0 && a.mad[3] == 0x95 && get16(a.mad + 56 + 36) == lid);
	d.mad[3] = 2;
	d.mad[56 + 48] = 0;
	CHECK(ask(fd, &d, &a) == 0x0200);
	d.mad[56 + 48] = 1;
	d.mad[56] = 0xfe;			/* no group's */
	CHECK(ask(fd, &d, &a) == 0x0200);
	d.mad[56] = 0xff;
	d.mad[56 + 31] ^= 0x40;			/* no port's GID */
	CHECK(ask(fd, &d, &a) == 0x0200);
	d.mad[56 + 31] ^= 0x40;
	d.mad[55] = 6;				/* a group that is made */
	CHECK(ask(fd, &d, &a) == 0 && a.mad[56] == 0xff);
	CHECK(!close(fd));
}

int main(void)
{
	char fabric[32];

	snprintf(fabric, sizeof(fabric), "umad-%d", (int)getpid());
	setenv("SHCA_FABRIC", fabric, 1);
	setenv("SHCA_PORTS", "2", 1);
	find_devices();
	files();
	no_descriptor();
	agents();
	addressed();
	statuses();
	tables();
	timeouts();
	descriptors();
	timer_number_reused();
	copies_of_closed_files();
	unread();
	joins();
	return 0;
}
