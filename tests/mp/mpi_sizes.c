/* SPDX-License-Identifier: BSD-3-Clause */
/* Every protocol's sizes, 0 to 4 MiB and around powers of two, between all pairs, by each kind of send and receive. */
#include "mpi_test.h"

#define MAX	((4 << 20) + 1)

static char *out, *in;

static void pair(int from, int to, size_t len, int kind)
{
	uint64_t seed = seed_of(from, to, kind, (int)len);
	MPI_Request r;
	MPI_Status s;
	int n;

	if (me == from) {
		fill(out, len, seed);
		switch (kind) {
		case 0:
			MPI_Send(out, (int)len, MPI_BYTE, to, kind, MPI_COMM_WORLD);
			break;
		case 1:
			MPI_Isend(out, (int)len, MPI_BYTE, to, kind, MPI_COMM_WORLD, &r);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
			break;
		case 2:
			MPI_Ssend(out, (int)len, MPI_BYTE, to, kind, MPI_COMM_WORLD);
			break;
		default:
			MPI_Rsend(out, (int)len, MPI_BYTE, to, kind, MPI_COMM_WORLD);
		}
		/* The buffer is ours again. */
		memset(out, 0xee, len);
	}
	if (me == to) {
		in[len] = 0x77;
		if (kind == 1) {
			MPI_Irecv(in, MAX, MPI_BYTE, from, kind, MPI_COMM_WORLD, &r);
			MPI_Wait(&r, &s);
		} else {
			MPI_Recv(in, kind == 0 ? (int)len : MAX, MPI_BYTE, from, kind, MPI_COMM_WORLD, &s);
		}
		MPI_Get_count(&s, MPI_BYTE, &n);
		CHECK_EQ(n, len);
		CHECK_EQ(s.MPI_SOURCE, from);
		CHECK_EQ(s.MPI_TAG, kind);
		VERIFY(in, len, seed);
		CHECK_EQ(in[len], 0x77);
	}
}

static void exchange(size_t len)
{
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Status s;
	MPI_Request r[4];
	int n;

	fill(out, len, seed_of(me, right, 9, (int)len));
	MPI_Sendrecv(out, (int)len, MPI_BYTE, right, 9, in, (int)len, MPI_BYTE, left, 9, MPI_COMM_WORLD, &s);
	MPI_Get_count(&s, MPI_BYTE, &n);
	CHECK_EQ(n, len);
	VERIFY(in, len, seed_of(left, me, 9, (int)len));
	/* Both directions, nonblocking, receive posted last */
	fill(out, len, seed_of(me, right, 10, (int)len));
	MPI_Isend(out, (int)len, MPI_BYTE, right, 10, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(in, (int)len, MPI_BYTE, left, 10, MPI_COMM_WORLD, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	VERIFY(in, len, seed_of(left, me, 10, (int)len));
}

int main(int argc, char **argv)
{
	size_t sizes[128];
	int n = 0;

	test_init(&argc, &argv);
	out = malloc(MAX + 1);
	in = malloc(MAX + 1);
	CHECK(out && in);
	for (size_t i = 0; i <= 17; i++)
		sizes[n++] = i;
	for (size_t p = 32; p <= 4 << 20; p *= 2) {
		sizes[n++] = p - 1;
		sizes[n++] = p;
		sizes[n++] = p + 1;
	}
	for (int i = 0; i < n; i++)
		exchange(sizes[i]);
	for (int from = 0; from < np; from++)
		for (int to = 0; to < np; to++)
			for (int i = 0; from != to && i < n; i++)
				for (int kind = 0; kind < 3; kind++)
					pair(from, to, sizes[i], kind);
	free(in);
	free(out);
	test_done("sizes");
	return 0;
}
