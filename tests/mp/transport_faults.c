/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages by rendezvous from and to buffers that the device cannot reach: unmapped, protected, half mapped, of a file that was
 * truncated. The message fails at both ranks with MPI_ERR_BUFFER; messages that were under way beside the failed one arrive, and
 * the pair exchanges checked messages afterwards. Between each two of three ranks, in both directions. Argument "behind": two
 * ranks, a message with such a send buffer in front of a longer message, 20 times. Argument "collectives": Bcast and Gather by
 * messages (HEDDLE_COLL_EXECUTOR=host) in which one rank has such a buffer: no rank waits for ever, ranks that miss data have
 * errors, and the next collective is right.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_test.h"
#include "collectives/internal.h"
#include "p2p/p2p.h"

enum sort { UNMAPPED, NONE, READ_ONLY, HALF, FRONT, TRUNCATED, SORTS };
static const char *const names[] = {"unmapped", "PROT_NONE", "PROT_READ", "half mapped", "mapped from its half on", "truncated"};
#define ROOM (4u << 20)

/* Maps a buffer of this sort. The bytes that stay mapped are 1. Ownership: the caller unmaps them by drop(). */
static char *make(enum sort sort, size_t n)
{
	int fd = memfd_create("buffer", MFD_CLOEXEC);
	CHECK(fd >= 0 && !ftruncate(fd, ROOM));
	char *p = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, sort == TRUNCATED ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, n);
	if (sort == UNMAPPED)
		munmap(p, ROOM);
	else if (sort == NONE)
		mprotect(p, ROOM, PROT_NONE);
	else if (sort == READ_ONLY)
		mprotect(p, ROOM, PROT_READ);
	else if (sort == HALF)
		munmap(p + (n / 2 & ~4095ul), ROOM - (n / 2 & ~4095ul));
	else if (sort == FRONT)
		munmap(p, n / 2 & ~4095ul);
	else
		CHECK(!ftruncate(fd, (off_t)(n / 2)));
	close(fd);
	return p;
}

static void drop(char *p, enum sort sort, size_t n)
{
	size_t half = n / 2 & ~4095ul;

	if (sort != UNMAPPED)
		munmap(sort == FRONT ? p + half : p, sort == HALF ? half : sort == FRONT ? ROOM - half : ROOM);
}

static int class_of(int rc)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(rc, &class);
	return class;
}

/* Checked messages in both directions, short and long. */
static void exchange(int peer, int seed)
{
	static const int sizes[] = {8, 3000, 8000, 100000, 700000};
	char *out = malloc(700000), *in = malloc(700000);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = (size_t)sizes[i];
		fill(out, n, seed_of(me, peer, seed, (int)n));
		memset(in, 0, n);
		CHECK_EQ(MPI_Sendrecv(out, (int)n, MPI_CHAR, peer, 7, in, (int)n, MPI_CHAR, peer, 7, MPI_COMM_WORLD,
				      MPI_STATUS_IGNORE),
			 MPI_SUCCESS);
		VERIFY(in, n, seed_of(peer, me, seed, (int)n));
	}
	free(out);
	free(in);
}

/* Sends three messages at once, of which the second has a bad buffer: at the sender, or at the receiver. */
static void one(int from, int to, enum sort sort, size_t n, bool at_sender)
{
	int peer = me == from ? to : from, rc[3];
	bool mine = (me == from) == at_sender;
	char *good[2] = {malloc(n), malloc(n)}, *bad = mine ? make(sort, n) : malloc(n);
	MPI_Request r[3];

	if (!mine)
		memset(bad, 1, n);
	for (int i = 0; i < 2; i++)
		fill(good[i], n, seed_of(me, peer, i, (int)n));
	for (int i = 0; i < 3; i++) {
		char *p = i == 1 ? bad : good[i / 2];
		if (me == from)
			MPI_Isend(p, (int)n, MPI_CHAR, to, i, MPI_COMM_WORLD, &r[i]);
		else
			MPI_Irecv(p, (int)n, MPI_CHAR, from, i, MPI_COMM_WORLD, &r[i]);
	}
	for (int i = 0; i < 3; i++)
		rc[i] = class_of(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
	if (rc[0] || rc[1] != MPI_ERR_BUFFER || rc[2])
		test_fail(__FILE__, __LINE__, "%s, %zu bytes from %d to %d, %s buffer: classes %d %d %d", names[sort], n, from,
			  to, at_sender ? "send" : "receive", rc[0], rc[1], rc[2]);
	for (int i = 0; i < 2 && me == to; i++)
		VERIFY(good[i], n, seed_of(peer, me, i, (int)n));
	if (mine)
		drop(bad, sort, n);
	else
		free(bad);
	free(good[0]);
	free(good[1]);
	exchange(peer, (int)n);
}

/* A message with a bad send buffer, and a longer message behind the first. The longer message still has chunks to be written when
 * the device refuses the first message. */
static void behind(int from, int to)
{
	const int n[2] = {200000, 1500000};
	int peer = me == from ? to : from, rc[2];
	char *p[2] = {me == from ? make(NONE, (size_t)n[0]) : malloc((size_t)n[0]), malloc((size_t)n[1])};
	MPI_Request r[2];

	fill(p[1], (size_t)n[1], seed_of(from, to, 0, n[1]));
	if (me == to) {
		memset(p[1], 0, (size_t)n[1]);
		for (int i = 0; i < 2; i++)
			MPI_Irecv(p[i], n[i], MPI_CHAR, from, i, MPI_COMM_WORLD, &r[i]);
	}
	/* the receives are posted before the messages come, so the receiver sends CTS for both at once */
	CHECK_EQ(MPI_Sendrecv(NULL, 0, MPI_CHAR, peer, 8, NULL, 0, MPI_CHAR, peer, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
		 MPI_SUCCESS);
	for (int i = 0; i < 2 && me == from; i++)
		MPI_Isend(p[i], n[i], MPI_CHAR, to, i, MPI_COMM_WORLD, &r[i]);
	for (int i = 0; i < 2; i++)
		rc[i] = class_of(MPI_Wait(&r[i], MPI_STATUS_IGNORE));
	CHECK_EQ(rc[0], MPI_ERR_BUFFER);
	CHECK_EQ(rc[1], MPI_SUCCESS);
	VERIFY(p[1], (size_t)n[1], seed_of(from, to, 0, n[1]));
	if (me == from)
		drop(p[0], NONE, (size_t)n[0]);
	else
		free(p[0]);
	free(p[1]);
	exchange(peer, n[0]);
}

#define BLOCK 1000000

static void bcast(int bad, int root)
{
	char *p = me == bad ? make(UNMAPPED, BLOCK) : malloc(BLOCK);
	int class;

	if (me != bad)
		memset(p, 1, BLOCK);
	class = class_of(MPI_Bcast(p, BLOCK, MPI_CHAR, root, MPI_COMM_WORLD));
	if (me == bad || bad == root)
		CHECK(class != MPI_SUCCESS);
	if (me == bad)
		CHECK_EQ(class, MPI_ERR_BUFFER);
	if (me != bad)
		free(p);
}

static void gather(int bad)
{
	char *p = me == bad ? make(NONE, BLOCK) : malloc(BLOCK), *all = malloc((size_t)np * BLOCK);
	int class;

	if (me != bad)
		memset(p, 1, BLOCK);
	class = class_of(MPI_Gather(p, BLOCK, MPI_CHAR, all, BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD));
	if (me == bad || !me)
		CHECK_EQ(class, MPI_ERR_BUFFER);
	if (me == bad)
		drop(p, NONE, BLOCK);
	else
		free(p);
	free(all);
}

static void next_one(int seed)
{
	char *p = malloc(BLOCK);

	if (!me)
		fill(p, BLOCK, (uint64_t)seed);
	CHECK_EQ(MPI_Bcast(p, BLOCK, MPI_CHAR, 0, MPI_COMM_WORLD), MPI_SUCCESS);
	VERIFY(p, BLOCK, (uint64_t)seed);
	free(p);
}

/* hdl_run_error keeps the first error of a run, but MPI_ERR_BUFFER replaces MPI_ERR_COUNT: an empty message of a peer that went
 * on after MPI_ERR_BUFFER gives MPI_ERR_COUNT here, maybe before this rank has its own MPI_ERR_BUFFER. The text is that of the
 * error that is kept. */
static void orders(void)
{
	static struct hdl_comm comm;
	static const int errors[][3] = {	/* the first error, the second one, the error of the collective */
		{MPI_ERR_COUNT, MPI_ERR_BUFFER, MPI_ERR_BUFFER}, {MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_BUFFER},
		{MPI_ERR_COUNT, MPI_ERR_PROC_ABORTED, MPI_ERR_COUNT},
		{MPI_ERR_PROC_ABORTED, MPI_ERR_BUFFER, MPI_ERR_PROC_ABORTED},
		{MPI_ERR_BUFFER, MPI_ERR_BUFFER, MPI_ERR_BUFFER},
	};

	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		static struct hdl_run run;
		run.comm = &comm;
		hdl_run_begin(&run);
		for (int k = 0; k < 2; k++) {
			hdl_reason_set("the error of class %d", errors[i][k]);
			hdl_run_error(&run, errors[i][k]);
		}
		CHECK_EQ(run.error, errors[i][2]);
		CHECK_EQ(atoi(run.why + sizeof("the error of class")), errors[i][2]);
	}
}

static void collectives(void)
{
	orders();
	for (int bad = 0; bad < np; bad++) {
		for (int root = 0; root < np; root++) {
			bcast(bad, root);
			next_one(bad * np + root);
		}
		if (bad) {
			gather(bad);
			next_one(bad);
		}
	}
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {400000, 1500000};

	test_init(&argc, &argv);
	alarm(100);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	if (argc > 1 && !strcmp(argv[1], "behind"))
		for (int i = 0; i < 20; i++)
			behind(i % 2, !(i % 2));
	else if (argc > 1)
		collectives();
	for (int a = 0; a < np && argc < 2; a++)
		for (int b = 0; b < np; b++) {
			if (a == b || (me != a && me != b))
				continue;
			exchange(me == a ? b : a, 1);
			for (int s = 0; s < SORTS; s++)
				for (int at_sender = 0; at_sender < 2; at_sender++)
					for (int k = 0; k < 2; k++)
						/* a buffer that can be read can be sent */
						if (s != READ_ONLY || !at_sender)
							one(a, b, (enum sort)s, sizes[k], at_sender);
		}
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me)
		printf("ok\n");
	return MPI_Finalize();
}
