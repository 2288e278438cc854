/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages do not overtake (MPI-5.0 section 3.5), whatever lane each takes: sizes mixed across every protocol. */
#include "mpi_test.h"

#define MESSAGES	400
#define MAX		100000

static int size_of(int from, int n)
{
	static const int kinds[] = { 4, 8, 60, 200, 1000, 4000, 9000, 20000, MAX };
	uint64_t x = mix(from * 1000 + n);

	return kinds[x % 9] - (int)(x >> 20 & 3);
}

/* Every rank sends to every other, all with one tag; the number inside tells the order. */
static void all_to_all(int blocking_receive, int wildcard)
{
	char *out = malloc(MAX), *in = malloc(MAX);
	MPI_Request *req = malloc(np * sizeof(*req));
	int *next = calloc(np, sizeof(int)), *sent = calloc(np, sizeof(int));
	MPI_Request *sends = malloc((size_t)np * MESSAGES * sizeof(*sends));
	char **bufs = malloc((size_t)np * MESSAGES * sizeof(*bufs));
	int nsends = 0;
	MPI_Status s;

	for (int n = 0; n < MESSAGES; n++)
		for (int to = 0; to < np; to++) {
			int len = size_of(me, n);

			if (to == me)
				continue;
			bufs[nsends] = malloc(len < 4 ? 4 : len);
			fill(bufs[nsends], len, seed_of(me, to, 1, n));
			MPI_Isend(bufs[nsends], len, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[nsends]);
			nsends++;
		}
	for (int k = 0; k < MESSAGES * (np - 1); k++) {
		int from, count;

		if (wildcard) {
			MPI_Recv(in, MAX, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
			from = s.MPI_SOURCE;
		} else {
			from = (me + 1 + k % (np - 1)) % np;
			if (blocking_receive) {
				MPI_Recv(in, MAX, MPI_BYTE, from, 1, MPI_COMM_WORLD, &s);
			} else {
				MPI_Request r;

				MPI_Irecv(in, MAX, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
				MPI_Wait(&r, &s);
			}
		}
		MPI_Get_count(&s, MPI_BYTE, &count);
		CHECK_EQ(count, size_of(from, next[from]));
		VERIFY(in, count, seed_of(from, me, 1, next[from]));
		next[from]++;
	}
	MPI_Waitall(nsends, sends, MPI_STATUSES_IGNORE);
	for (int i = 0; i < nsends; i++)
		free(bufs[i]);
	free(bufs);
	free(sends);
	free(sent);
	free(next);
	free(req);
	free(in);
	free(out);
}

/* Receives posted in one order, with and without wildcards, match in the order of posting. */
static void posted_order(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np;
	int values[40], got[40];
	MPI_Request r[80];

	for (int i = 0; i < 40; i++) {
		got[i] = -1;
		MPI_Irecv(&got[i], 1, MPI_INT, i % 3 == 1 ? MPI_ANY_SOURCE : left, i % 5 == 2 ? MPI_ANY_TAG : 3,
			  MPI_COMM_WORLD, &r[i]);
	}
	for (int i = 0; i < 40; i++) {
		values[i] = i;
		MPI_Isend(&values[i], 1, MPI_INT, right, 3, MPI_COMM_WORLD, &r[40 + i]);
	}
	MPI_Waitall(80, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 40; i++)
		CHECK_EQ(got[i], i);
}

/* Out of the order of arrival, by tag: all are unexpected first. */
static void by_tag(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np;
	int value, n = 300;
	MPI_Request *r = malloc(n * sizeof(*r));
	int *v = malloc(n * sizeof(*v));

	for (int i = 0; i < n; i++) {
		v[i] = i;
		MPI_Isend(&v[i], 1, MPI_INT, right, 100 + i, MPI_COMM_WORLD, &r[i]);
	}
	for (int i = n - 1; i >= 0; i--) {
		MPI_Recv(&value, 1, MPI_INT, left, 100 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(value, i);
	}
	MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
	free(r);
	free(v);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	for (int round = 0; round < 3; round++) {
		all_to_all(1, 0);
		meet(sync_comm);		/* the next receives by wildcard */
		all_to_all(0, 1);
		meet(sync_comm);
		all_to_all(0, 0);
		meet(sync_comm);
		posted_order();
		by_tag();
		meet(sync_comm);
	}
	test_done("order");
	return 0;
}
