/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unexpected messages must not take memory without bound. Arguments: messages, bytes of each, way, and the memory in KiB by which
 * rank 0 may grow. Every other rank sends so many to rank 0, which computes meanwhile, outside MPI, and then receives them:
 *     reverse   nonblocking sends, a tag for each, received in the reverse order: all but the last are unexpected, while rank 0
 *               is in MPI
 *     order     blocking sends of one tag, received in order
 *     probe     the same, and rank 0 probes for a message that comes last, on another communicator
 *     release   blocking sends of one tag, then one of another, which rank 0 receives from all before the rest
 *     innocent  all but the last rank flood rank 0; the last one sends little, and rank 0 receives that from the end
 * In between and afterwards, small exchanges in both directions.
 */
#include "mpi_test.h"

#include <stdbool.h>
#include <time.h>

static int messages, bytes;

static long peak_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static void compute(void)
{
	struct timespec t = { 0, 300000000 };

	nanosleep(&t, NULL);
}

/* One of so many buffers that neighbours differ. */
enum { KINDS = 61 };
static char *buffers[KINDS];

static void make_buffers(void)
{
	for (int k = 0; k < KINDS; k++) {
		buffers[k] = malloc((size_t)bytes + 1);
		fill(buffers[k], (size_t)bytes, seed_of(me, 0, k, 0));
	}
}

/* Some messages are empty, some short. */
static int length(int i)
{
	return i % 50 == 7 ? 0 : i % 50 == 13 && bytes > 8 ? 8 : bytes;
}

static void check(const char *buf, const MPI_Status *s, int source, int i)
{
	int n;

	MPI_Get_count(s, MPI_BYTE, &n);
	CHECK_EQ(s->MPI_SOURCE, source);
	CHECK_EQ(n, length(i));
	VERIFY(buf, (size_t)n, seed_of(source, 0, i % KINDS, 0));
}

static void reverse(void)
{
	char *in = malloc((size_t)bytes + 1);
	MPI_Request *req;
	MPI_Status s;

	if (me) {
		req = malloc(sizeof(*req) * (size_t)messages);
		for (int i = 0; i < messages; i++)
			MPI_Isend(buffers[i % KINDS], length(i), MPI_BYTE, 0, i, MPI_COMM_WORLD, &req[i]);
		MPI_Waitall(messages, req, MPI_STATUSES_IGNORE);
		free(req);
	} else {
		compute();
		for (int i = messages; i-- > 0;)
			for (int r = 1; r < np; r++) {
				MPI_Recv(in, bytes, MPI_BYTE, r, i, MPI_COMM_WORLD, &s);
				check(in, &s, r, i);
			}
	}
	free(in);
}

static void in_order(bool probe)
{
	char *in = malloc((size_t)bytes + 1);
	MPI_Status s;
	int flag = 0;

	if (me) {
		for (int i = 0; i < messages; i++)
			MPI_Send(buffers[i % KINDS], length(i), MPI_BYTE, 0, 5, MPI_COMM_WORLD);
		MPI_Send(&flag, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
	} else {
		compute();
		/* the probe takes in all that comes */
		for (int i = 0; probe && i < 3000; i++)
			MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &flag, &s);
		/* as many as that do not come by 3000 looks */
		for (double end = MPI_Wtime() + 2; probe && messages > 30000 && !flag && MPI_Wtime() < end;)
			MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &flag, &s);
		CHECK(!flag || messages < 1000 || bytes <= 32);
		for (int i = 0; i < messages; i++)
			for (int r = 1; r < np; r++) {
				MPI_Recv(in, bytes, MPI_BYTE, r, 5, MPI_COMM_WORLD, &s);
				check(in, &s, r, i);
			}
		for (int r = 1; r < np; r++)
			MPI_Recv(&flag, 1, MPI_INT, r, 6, MPI_COMM_WORLD, &s);
	}
	free(in);
}

/* Rank 0 has all messages of the flood before it receives any of them: no sender may wait for that. */
static void release(void)
{
	char *in = malloc((size_t)bytes + 1);
	MPI_Status s;

	if (me) {
		for (int i = 0; i < messages; i++)
			MPI_Send(buffers[i % KINDS], length(i), MPI_BYTE, 0, 5, MPI_COMM_WORLD);
		MPI_Send(NULL, 0, MPI_BYTE, 0, 6, MPI_COMM_WORLD);
	} else {
		compute();
		for (int r = np; --r > 0;)
			MPI_Recv(NULL, 0, MPI_BYTE, r, 6, MPI_COMM_WORLD, &s);
		for (int i = 0; i < messages; i++)
			for (int r = 1; r < np; r++) {
				MPI_Recv(in, bytes, MPI_BYTE, r, 5, MPI_COMM_WORLD, &s);
				check(in, &s, r, i);
			}
	}
	free(in);
}

/* Rank 0 is full of unexpected messages, and holds their senders back (HDL_CTL_HOLD). A rank that sends little must not wait for
 * these. */
static void innocent(void)
{
	enum { FEW = 20 };
	char *in = malloc((size_t)bytes + 1);
	MPI_Request *req = malloc(sizeof(*req) * (size_t)messages);
	int flag, last = np - 1;
	MPI_Status s;

	if (me && me < last) {
		for (int i = 0; i < messages; i++)
			MPI_Isend(buffers[i % KINDS], length(i), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &req[i]);
		MPI_Send(NULL, 0, MPI_BYTE, 0, 6, MPI_COMM_WORLD);
		MPI_Waitall(messages, req, MPI_STATUSES_IGNORE);
	} else if (me) {
		/* twice: received messages count no more */
		for (int turn = 0; turn < 2; turn++) {
			MPI_Recv(NULL, 0, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &s);
			for (int i = 0; i < FEW; i++)
				MPI_Send(buffers[i % KINDS], bytes, MPI_BYTE, 0, 10 + i, MPI_COMM_WORLD);
		}
	} else {
		for (int r = 1; r < last; r++)
			MPI_Recv(NULL, 0, MPI_BYTE, r, 6, MPI_COMM_WORLD, &s);
		for (int turn = 0; turn < 2; turn++) {
			MPI_Send(NULL, 0, MPI_BYTE, last, 7, MPI_COMM_WORLD);
			for (int i = FEW; i-- > 0;) {
				MPI_Recv(in, bytes, MPI_BYTE, last, 10 + i, MPI_COMM_WORLD, &s);
				VERIFY(in, (size_t)bytes, seed_of(last, 0, i, 0));
			}
		}
		MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, &s);
		for (int i = 0; i < messages; i++)
			for (int r = 1; r < last; r++) {
				MPI_Recv(in, bytes, MPI_BYTE, r, 5, MPI_COMM_WORLD, &s);
				check(in, &s, r, i);
			}
	}
	free(req);
	free(in);
}

int main(int argc, char **argv)
{
	const char *way;
	long before, limit;

	test_init(&argc, &argv);
	messages = argc > 1 ? atoi(argv[1]) : 1000;
	bytes = argc > 2 ? atoi(argv[2]) : 1024;
	way = argc > 3 ? argv[3] : "reverse";
	limit = argc > 4 ? atol(argv[4]) : 0;
	make_buffers();
	for (int i = 0; i < 100; i++)	/* so that the memory of the connections is not measured */
		meet(sync_comm);
	before = peak_kib();
	for (int round = 0; round < 2; round++) {
		if (!strcmp(way, "reverse"))
			reverse();
		else if (!strcmp(way, "release"))
			release();
		else if (!strcmp(way, "innocent"))
			innocent();
		else
			in_order(!strcmp(way, "probe"));
		for (int i = 0; i < 20; i++)
			meet(sync_comm);
	}
	if (!me) {
		printf("rank 0 grew by %ld KiB\n", peak_kib() - before);
		if (limit && peak_kib() - before > limit)
			test_fail(__FILE__, __LINE__, "rank 0 may grow by %ld KiB, and grew by %ld", limit,
				  peak_kib() - before);
	}
	for (int k = 0; k < KINDS; k++)
		free(buffers[k]);
	test_done("flood");
	return 0;
}
