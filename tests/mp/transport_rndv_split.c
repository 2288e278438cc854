/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages that both sides copy a part of (HEDDLE_RENDEZVOUS=split), several under way, and short ones between them: when a
 * receive is complete all bytes are there, also on a device that lets a later write land first.
 */
#include "mpi_test.h"

#define WINDOW 6
#define WORDS 12500
#define ROUNDS 120

static uint64_t word(int round, int w, int i)
{
	return (uint64_t)round << 48 | (uint64_t)w << 40 | (uint64_t)i;
}

/* Each of the window has another length. */
static int words(int w)
{
	return WORDS - 37 * w;
}

static void check(const uint64_t *got, int round, int w)
{
	for (int i = 0; i < words(w); i++)
		if (got[i] != word(round, w, i))
			test_fail(__FILE__, __LINE__, "round %d: word %d of %d of message %d is %#llx", round, i, words(w), w,
				  (unsigned long long)got[i]);
}

static void begin(uint64_t *buf, int round, int w, MPI_Request *req)
{
	if (me) {
		memset(buf, 0xee, (size_t)words(w) * sizeof(*buf));
		MPI_Irecv(buf, words(w), MPI_UINT64_T, 0, w, MPI_COMM_WORLD, req);
		return;
	}
	for (int i = 0; i < words(w); i++)
		buf[i] = word(round, w, i);
	MPI_Isend(buf, words(w), MPI_UINT64_T, 1, w, MPI_COMM_WORLD, req);
}

int main(int argc, char **argv)
{
	static uint64_t bufs[WINDOW][WORDS];
	MPI_Request reqs[WINDOW];
	char c = 0;

	test_init(&argc, &argv);
	for (int round = 0; me < 2 && round < ROUNDS; round++) {
		for (int w = 0; w < WINDOW; w++)
			begin(bufs[w], round, w, &reqs[w]);
		for (int k = 0; !me && k < 3; k++)
			MPI_Send(&c, 1, MPI_BYTE, 1, WINDOW, MPI_COMM_WORLD);
		for (int n = 0, w; n < WINDOW; n++) {
			MPI_Waitany(WINDOW, reqs, &w, MPI_STATUS_IGNORE);
			if (me)
				check(bufs[w], round, w);
		}
		for (int k = 0; me && k < 3; k++)
			MPI_Recv(&c, 1, MPI_BYTE, 0, WINDOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Comm_free(&sync_comm);
	MPI_Finalize();
	if (!me)
		puts("ok");
	return 0;
}
