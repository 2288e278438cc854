/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous sends, probe, truncation, null process, statuses, cancel, requests that are freed. Ranks in pairs. */
#include "mpi_test.h"

static int peer;		/* even ranks drive, odd ones answer; the last of an odd number looks on */

/* A synchronous send is not complete before its receive has started (section 3.4). */
static void ssend(int len)
{
	char *buf = calloc(1, len + 1);
	MPI_Request r;
	int flag;

	if (me % 2 == 0) {
		MPI_Issend(buf, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &r);
		for (int i = 0; i < 2000; i++) {
			MPI_Test(&r, &flag, MPI_STATUS_IGNORE);
			CHECK(!flag);
		}
		MPI_Send(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		MPI_Ssend(buf, len, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
	} else {
		MPI_Recv(NULL, 0, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Recv(buf, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Recv(buf, len, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	free(buf);
}

/* A receiver that learns the length first, and leaves other messages where they are. */
static void probe(int len)
{
	char *buf = malloc(len + 1);
	MPI_Request r;
	MPI_Status s;
	int n, flag = 0;

	if (me % 2 == 0) {
		fill(buf, len, 5);
		MPI_Isend(buf, len, MPI_BYTE, peer, 11, MPI_COMM_WORLD, &r);
		MPI_Send(&len, 1, MPI_INT, peer, 12, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	} else {
		MPI_Probe(MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, &s);
		CHECK_EQ(s.MPI_SOURCE, peer);
		CHECK_EQ(s.MPI_TAG, 12);
		MPI_Get_count(&s, MPI_INT, &n);
		CHECK_EQ(n, 1);
		/* The message sent before it by the same rank is there too, and is the first of any tag. */
		MPI_Probe(peer, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
		CHECK_EQ(s.MPI_TAG, 11);
		MPI_Get_count(&s, MPI_BYTE, &n);
		CHECK_EQ(n, len);
		MPI_Iprobe(peer, 11, MPI_COMM_WORLD, &flag, &s);
		CHECK(flag);
		MPI_Iprobe(peer, 13, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK(!flag);
		MPI_Recv(&n, 1, MPI_INT, peer, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(n, len);
		MPI_Recv(buf, len, MPI_BYTE, s.MPI_SOURCE, s.MPI_TAG, MPI_COMM_WORLD, &s);
		VERIFY(buf, len, 5);
	}
	free(buf);
}

static void truncation(int len, int room, int posted)
{
	char *buf = malloc(len + 1);
	MPI_Request r = MPI_REQUEST_NULL;
	MPI_Status s;
	int rc, class, value;

	if (me % 2 == 0) {
		if (posted)
			MPI_Recv(NULL, 0, MPI_BYTE, peer, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		fill(buf, len, 6);
		MPI_Send(buf, len, MPI_BYTE, peer, 21, MPI_COMM_WORLD);
		MPI_Send(&len, 1, MPI_INT, peer, 21, MPI_COMM_WORLD);
	} else {
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
		memset(buf, 0x33, len + 1);
		if (posted) {
			MPI_Irecv(buf, room, MPI_BYTE, peer, 21, MPI_COMM_WORLD, &r);
			MPI_Send(NULL, 0, MPI_BYTE, peer, 22, MPI_COMM_WORLD);
			rc = MPI_Wait(&r, &s);
		} else {
			rc = MPI_Recv(buf, room, MPI_BYTE, peer, 21, MPI_COMM_WORLD, &s);
		}
		CHECK(rc != MPI_SUCCESS);
		MPI_Error_class(rc, &class);
		CHECK_EQ(class, MPI_ERR_TRUNCATE);
		for (int i = room; i <= len; i++)
			CHECK_EQ(buf[i], 0x33);
		/* Later messages are not disturbed. */
		CHECK_EQ(MPI_Recv(&value, 1, MPI_INT, peer, 21, MPI_COMM_WORLD, &s), MPI_SUCCESS);
		CHECK_EQ(value, len);
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	}
	free(buf);
}

static void null_process(void)
{
	MPI_Status s;
	MPI_Request r[2];
	int v = 7, n, flag = 0;

	MPI_Send(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	MPI_Recv(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s);
	CHECK_EQ(v, 7);
	CHECK_EQ(s.MPI_SOURCE, MPI_PROC_NULL);
	CHECK_EQ(s.MPI_TAG, MPI_ANY_TAG);
	MPI_Get_count(&s, MPI_INT, &n);
	CHECK_EQ(n, 0);
	MPI_Isend(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	MPI_Sendrecv(&v, 1, MPI_INT, MPI_PROC_NULL, 0, &n, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s);
	CHECK_EQ(s.MPI_SOURCE, MPI_PROC_NULL);
	MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s);
	CHECK_EQ(s.MPI_SOURCE, MPI_PROC_NULL);
	MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &s);
	CHECK(flag);
}

static void to_self(void)
{
	static int a[50000], b[50000];
	MPI_Request r;
	MPI_Status s;
	int v = 5, got = 0;

	MPI_Irecv(b, 50000, MPI_INT, me, 31, MPI_COMM_WORLD, &r);
	fill(a, sizeof(a), 9);
	MPI_Send(a, 50000, MPI_INT, me, 31, MPI_COMM_WORLD);
	MPI_Wait(&r, &s);
	VERIFY(b, sizeof(b), 9);
	CHECK_EQ(s.MPI_SOURCE, me);
	MPI_Isend(&v, 1, MPI_INT, 0, 32, MPI_COMM_SELF, &r);
	MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &s);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK_EQ(got, 5);
	CHECK_EQ(s.MPI_SOURCE, 0);
	MPI_Sendrecv(&v, 1, MPI_INT, me, 33, &got, 1, MPI_INT, me, 33, MPI_COMM_WORLD, &s);
}

static void cancel_and_free(void)
{
	static int v[100];
	int flag, n = 0, got;
	MPI_Request r;
	MPI_Status s;

	MPI_Irecv(&n, 1, MPI_INT, peer, 41, MPI_COMM_WORLD, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &flag);
	CHECK(flag);
	/* Requests that are let go: the messages go all the same. */
	for (int i = 0; i < 100; i++) {
		v[i] = i;
		MPI_Isend(&v[i], 1, MPI_INT, peer, 42, MPI_COMM_WORLD, &r);
		MPI_Request_free(&r);
		CHECK(r == MPI_REQUEST_NULL);
	}
	for (int i = 0; i < 100; i++) {
		MPI_Recv(&got, 1, MPI_INT, peer, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(got, i);
	}
	/* v may be reused only when the peer has it all. */
	MPI_Sendrecv(NULL, 0, MPI_INT, peer, 43, NULL, 0, MPI_INT, peer, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void families(void)
{
	enum { N = 24 };
	static int in[N], out[N];
	MPI_Request r[2 * N];
	MPI_Status s[2 * N];
	int left = N, index, count, indices[2 * N], flag;

	for (int i = 0; i < N; i++)
		MPI_Irecv(&in[i], 1, MPI_INT, peer, 200 + i, MPI_COMM_WORLD, &r[i]);
	for (int i = 0; i < N; i++) {
		out[i] = 1000 * me + i;
		MPI_Isend(&out[i], 1, MPI_INT, peer, 200 + (i * 7) % N, MPI_COMM_WORLD, &r[N + i]);
	}
	for (int k = 0; k < 6; k++) {
		MPI_Waitany(N, r, &index, s);
		CHECK(index >= 0 && index < N && r[index] == MPI_REQUEST_NULL);
		CHECK_EQ(s[0].MPI_TAG, 200 + index);
		CHECK_EQ((in[index] - 1000 * peer) * 7 % N, index);
		left--;
	}
	while (left > N / 2) {
		MPI_Waitsome(N, r, &count, indices, s);
		CHECK(count > 0);
		for (int k = 0; k < count; k++)
			CHECK_EQ(s[k].MPI_TAG, 200 + indices[k]);
		left -= count;
	}
	while (left > 0) {
		MPI_Testany(N, r, &index, &flag, s);
		if (flag) {
			CHECK(index != MPI_UNDEFINED);
			left--;
		}
		MPI_Testsome(N, r, &count, indices, s);
		if (count == MPI_UNDEFINED)
			CHECK_EQ(left, 0);
		else
			left -= count;
	}
	do
		MPI_Testall(N, r + N, &flag, MPI_STATUSES_IGNORE);
	while (!flag);
	for (int i = 0; i < 2 * N; i++)
		CHECK(r[i] == MPI_REQUEST_NULL);
	MPI_Waitany(2 * N, r, &index, s);
	CHECK_EQ(index, MPI_UNDEFINED);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	null_process();
	to_self();
	peer = me ^ 1;
	if (peer < np) {
		for (int i = 0; i < 3; i++) {
			ssend(0);
			ssend(100);
			ssend(100000);
			probe(0);
			probe(1000);
			probe(1000000);
			for (int posted = 0; posted < 2; posted++) {
				truncation(100, 0, posted);
				truncation(100, 99, posted);
				truncation(5000, 4096, posted);
				truncation(1000000, 10, posted);
				truncation(1000000, 0, posted);
			}
			cancel_and_free();
			families();
		}
	}
	test_done("semantics");
	return 0;
}
