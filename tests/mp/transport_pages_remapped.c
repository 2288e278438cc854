/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers whose addresses get other pages between messages: by munmap and mmap, a mapping over the old one, mremap,
 * madvise(MADV_DONTNEED), a heap that shrinks, and beside a forked child. Each of two ranks does that to its own buffer, as
 * sender and as receiver, and checks every byte. On a device that pins pages (tests/vm) a registration that outlives the pages
 * gives wrong bytes; the software HCA accesses the present pages of an address, so there the test also counts registrations:
 * behind a change the first message must have made a new registration, and without a change none.
 *     transport_pages_remapped [ROUNDS [any]]      any: registrations are not counted
 * A thread of each rank unmaps other memory all the while, right before and behind the buffer. Then a thread unmaps the buffer
 * itself, and is kept waiting in munmap; registering fails for want of memory; and a forked child outlives the library.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi_test.h"
#include "transport/core/tp.h"

extern struct hdl_tp *hdl_mpi_tp;	/* p2p/p2p.h and transport/queue/rx.h cannot both be included: each defines hdl_pool */

#define BYTES (1u << 16)
#define ZONE (64u * BYTES)
#define TURNS 3				/* messages before and behind a change */

/* ---- registrations of the buffer ------------------------------------------------------------------------------ */

static char *buf;
static _Atomic unsigned made;		/* registrations that contain the middle of `buf` */
static bool lacks;			/* no more can be registered beside those that are kept */

struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t n, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t n, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t n, uint64_t iova, unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t n, uint64_t iova, unsigned int access);

static void count(const void *p, size_t n)
{
	uintptr_t middle = (uintptr_t)buf + BYTES / 2, at = (uintptr_t)p;

	if (buf && at <= middle && middle - at < n)
		made++;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *p, size_t n, int access)
{
	if (lacks && hdl_regcache_stats(hdl_mpi_tp).entries) {
		errno = ENOMEM;
		return NULL;
	}
	count(p, n);
	return __real_ibv_reg_mr(pd, p, n, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *p, size_t n, uint64_t iova, unsigned int access)
{
	if (lacks && hdl_regcache_stats(hdl_mpi_tp).entries) {
		errno = ENOMEM;
		return NULL;
	}
	count(p, n);
	return __real_ibv_reg_mr_iova2(pd, p, n, iova, access);
}

/* Nor can a queue be made beside them. */
static bool lacks_queues;
static unsigned refused;

static bool refuses(void)
{
	if (!lacks_queues || !hdl_regcache_stats(hdl_mpi_tp).entries)
		return false;
	refused++;
	errno = ENOMEM;
	return true;
}

struct ibv_qp *__real_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a);
struct ibv_cq *__real_ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *chan, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *chan, int vector);
struct ibv_ah *__real_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a);
struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a);

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	return refuses() ? NULL : __real_ibv_create_qp(pd, a);
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *ctx, int n, void *arg, struct ibv_comp_channel *chan, int vector)
{
	return refuses() ? NULL : __real_ibv_create_cq(ctx, n, arg, chan, vector);
}

struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
	return refuses() ? NULL : __real_ibv_create_ah(pd, a);
}

/* LACK_USERFAULTFD: as in a container that forbids userfaultfd. */
long __real_syscall(long n, ...);
long __wrap_syscall(long n, ...);

long __wrap_syscall(long n, ...)
{
	va_list ap;
	long a[6];

	if (n == SYS_userfaultfd && getenv("LACK_USERFAULTFD")) {
		errno = EPERM;
		return -1;
	}
	va_start(ap, n);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return __real_syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* While `held` is set, the library's reader of userfaultfd events finds none: threads that unmap wait. */
static _Atomic bool held;
ssize_t __real_read(int fd, void *p, size_t n);
ssize_t __wrap_read(int fd, void *p, size_t n);

ssize_t __wrap_read(int fd, void *p, size_t n)
{
	if (!held || n != sizeof(struct uffd_msg))
		return __real_read(fd, p, n);
	errno = EAGAIN;
	return -1;
}

/* ---- changes ------------------------------------------------------------------------------------------------------ */

static char *zone;			/* contains the buffers, and the memory that the thread unmaps */

static char *fresh(char *at, size_t n)
{
	char *p = mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	CHECK(p != MAP_FAILED && (!at || p == at));
	return p;
}

static void unmaps(void)
{
	CHECK(!munmap(buf, BYTES));
	/* fails if another thread has mapped the addresses meanwhile */
	CHECK(mmap(buf, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == buf);
}

static void maps_over(void)
{
	fresh(buf, BYTES);
}

static void unmaps_a_page(void)
{
	fresh(buf + BYTES / 2, (size_t)sysconf(_SC_PAGESIZE));
}

static void forgets(void)
{
	CHECK(!madvise(buf, BYTES, MADV_DONTNEED));
}

static void frees_lazily(void)
{
	/* gone at once where nothing pins them, else when memory is short: other pages in any case */
	CHECK(!madvise(buf, BYTES, MADV_FREE));
}

static void moves_away(void)
{
	char *to = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(to != MAP_FAILED && mremap(buf, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	fresh(buf, BYTES);
	memset(to, 0xee, BYTES);
	CHECK(!munmap(to, BYTES));
}

/* The mapping stays, and is empty. */
static void moves_pages(void)
{
#ifdef MREMAP_DONTUNMAP
	char *to = mremap(buf, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	if (to != MAP_FAILED) {
		memset(to, 0xcc, BYTES);
		CHECK(!munmap(to, BYTES));
		return;
	}
#endif
	fresh(buf, BYTES);	/* an older kernel */
}

static void moves_in(void)
{
	char *from = fresh(NULL, BYTES);

	memset(from, 0xdd, BYTES);
	CHECK(mremap(from, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, buf) == buf);
}

/* The child lives on while this process writes: copy-on-write gives this process the new pages. */
static void forks(void)
{
	int fd[2];
	char c;

	CHECK(!pipe(fd));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fd[1]);
		buf[0] ^= 1;
		_exit(read(fd[0], &c, 1) != 0);
	}
	close(fd[0]);
	for (size_t i = 0; i < BYTES; i += 1024)
		buf[i]++;
	close(fd[1]);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void nothing(void)
{
}

static const struct change {
	const char *name;
	void (*make)(void);
	bool other_pages;
} changes[] = {
	{ "nothing", nothing, false }, { "munmap, mmap", unmaps, true }, { "mmap over it", maps_over, true },
	/* mremap moves one mapping at a time: the buffer is one here */
	{ "mremap away", moves_away, true }, { "mremap of pages", moves_pages, true },
	{ "mremap in", moves_in, true }, { "one page", unmaps_a_page, true },
	{ "MADV_DONTNEED", forgets, true }, { "MADV_FREE", frees_lazily, true }, { "fork", forks, false },
};
#define CHANGES (sizeof(changes) / sizeof(changes[0]))

/* ---- messages ------------------------------------------------------------------------------------------------------- */

static uint64_t seed_at(int round, size_t change, int turn)
{
	return mix((uint64_t)round << 32 | change << 16 | (uint64_t)turn);
}

/* n bytes of the buffer's middle. */
static void message(int from, size_t n, uint64_t seed)
{
	char *p = buf + (BYTES - n) / 2;
	uint64_t *w = (uint64_t *)(void *)p;

	if (me == from) {
		for (size_t i = 0; i < n / 8; i++)
			w[i] = mix(seed + i);
		MPI_Send(p, (int)n, MPI_BYTE, !from, 1, MPI_COMM_WORLD);
		return;
	}
	MPI_Recv(p, (int)n, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < n / 8; i++)
		if (w[i] != mix(seed + i))
			test_fail(__FILE__, __LINE__, "byte %zu is wrong", 8 * i);
}

static _Atomic bool stop;

/* Odd parts of the zone come and go. */
static void *unmaps_others(void *arg)
{
	for (uint64_t i = 0; !stop; i++) {
		char *part = zone + (2 * (mix(i) % (ZONE / BYTES / 2)) + 1) * BYTES;
		size_t n = BYTES >> mix(i + 77) % 4;
		/* the addresses stay mapped, so that no other mapping comes to lie there */
		CHECK(mmap(part, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part);
		usleep(500);
		memset(fresh(part, n), (int)i, n);
	}
	return arg;
}

static void round_of(int round, bool kept)
{
	for (size_t c = 0; c < CHANGES; c++) {
		const struct change *change = &changes[c];
		for (int from = 0; from < 2; from++) {
			/* a part first: the registration of the whole buffer replaces that of the part */
			for (int i = 0; i < TURNS; i++)
				message(from, BYTES >> (TURNS - 1 - i), seed_at(round, c, i));
			unsigned had = made;
			change->make();
			message(from, BYTES, seed_at(round, c, 100));
			unsigned has = made;
			for (int i = 1; i < TURNS; i++)
				message(from, BYTES, seed_at(round, c, 100 + i));
			if (kept && change->other_pages && has == had)
				test_fail(__FILE__, __LINE__, "round %d, %s: the registration of the old pages was used", round,
					  change->name);
			if (kept && (made != has || (!change->other_pages && has != had)))
				test_fail(__FILE__, __LINE__, "round %d, %s: %u registrations, though nothing has changed",
					  round, change->name, made - had);
		}
	}
}

static void *unmaps_buf(void *arg)
{
	CHECK(!munmap(buf, BYTES));
	return arg;
}

/* The addresses are free, and used by a message, while the thread that has unmapped them still waits for the event to be read. */
static void while_a_thread_waits(bool kept)
{
	pthread_t thread;

	for (int from = 0; from < 2; from++) {
		for (int i = 0; i < TURNS; i++)
			message(from, BYTES, seed_at(from, CHANGES, i));
		unsigned had = made;
		held = true;
		CHECK(!pthread_create(&thread, NULL, unmaps_buf, NULL));
		for (int i = 0;
		     mmap(buf, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != buf;
		     i++) {
			CHECK(errno == EEXIST && i < 100000);
			usleep(100);
		}
		message(from, BYTES, seed_at(from, CHANGES, 100));
		if (kept && made == had)
			test_fail(__FILE__, __LINE__, "the registration of the old pages was used while a thread unmaps them");
		held = false;
		CHECK(!pthread_join(thread, NULL));
		message(from, BYTES, seed_at(from, CHANGES, 101));
	}
}

/* Cached registrations are dropped before an allocation of the library's own memory fails. */
static void in_short_supply(bool kept)
{
	struct hdl_mem m;

	CHECK(!kept || hdl_regcache_stats(hdl_mpi_tp).entries);
	lacks = true;
	CHECK(!hdl_mem_alloc(hdl_mpi_tp->dev[0], "test", BYTES, IBV_ACCESS_LOCAL_WRITE, &m));
	lacks = false;
	hdl_mem_free(&m);
}

/* A lane to the rank itself is made while the cached registrations leave no memory for queues. */
static void queues_in_short_supply(bool kept)
{
	if (!(hdl_ep(hdl_mpi_tp, me)->can & HDL_QUEUE_CONNECTED))	/* UD alone: no queue would be made */
		return;
	message(0, BYTES, seed_at(0, 0, 100));
	CHECK(!kept || hdl_regcache_stats(hdl_mpi_tp).entries);
	lacks_queues = kept;
	CHECK(hdl_ep(hdl_mpi_tp, me) && !hdl_ep_connect(hdl_ep(hdl_mpi_tp, me)));
	lacks_queues = false;
	CHECK(!kept || refused);
}

/* Pages that were watched, and were moved, beside a child that lives longer than the library. */
static void beside_a_child(void)
{
	int fd[2];
	char c, *to = fresh(NULL, BYTES);

	message(0, BYTES, 1);
	message(1, BYTES, 2);
	CHECK(!pipe(fd));
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fd[1]);
		_exit(read(fd[0], &c, 1) != 0);
	}
	close(fd[0]);
	CHECK(mremap(buf, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
	MPI_Finalize();
	alarm(20);	/* the munmap would wait for ever */
	CHECK(!munmap(to, BYTES));
	alarm(0);
	close(fd[1]);
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 4;
	bool kept = argc < 3;
	pthread_t thread;

	test_init(&argc, &argv);
	CHECK_EQ(np, 2);
	zone = fresh(NULL, ZONE);
	CHECK(!pthread_create(&thread, NULL, unmaps_others, NULL));
	for (int i = 0; i < rounds; i++) {
		buf = zone + (size_t)(2 + 2 * (i % 8)) * BYTES;	/* an even part */
		round_of(i, kept);
	}
	while_a_thread_waits(kept);
	in_short_supply(kept);
	queues_in_short_supply(kept);
	buf = NULL;
	/* the heap, which the allocator gives back */
	for (int i = 0; i < 50; i++) {
		size_t n = BYTES / 2 + mix((uint64_t)i) % (4 * BYTES);
		char *p = malloc(n);
		CHECK(p);
		memset(p, me ? 0 : i, n);
		if (!me)
			MPI_Send(p, (int)n, MPI_BYTE, 1, 2, MPI_COMM_WORLD);
		else
			MPI_Recv(p, (int)n, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (size_t k = 0; k < n; k++)
			CHECK(p[k] == (char)i);
		free(p);
	}
	stop = true;
	CHECK(!pthread_join(thread, NULL));
	buf = fresh(NULL, BYTES);
	beside_a_child();
	if (!me)
		printf("ok\n");
	return 0;
}
