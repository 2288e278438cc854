/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators (MPI-5.0 chapter 7): dup, split, free; messages of one never reach another. */
#include "mpi_test.h"

static void isolation(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, got;
	MPI_Comm c[5];
	MPI_Request r[5];
	int v[5], result;

	c[0] = MPI_COMM_WORLD;
	for (int i = 1; i < 5; i++) {
		MPI_Comm_dup(c[i - 1], &c[i]);
		MPI_Comm_compare(c[0], c[i], &result);
		CHECK_EQ(result, MPI_CONGRUENT);
	}
	for (int i = 0; i < 5; i++) {
		v[i] = 100 * me + i;
		MPI_Isend(&v[i], 1, MPI_INT, right, 1, c[i], &r[i]);
	}
	/* The last sent is received first, by wildcards. */
	for (int i = 4; i >= 0; i--) {
		MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, c[i], MPI_STATUS_IGNORE);
		CHECK_EQ(got, 100 * left + i);
	}
	MPI_Waitall(5, r, MPI_STATUSES_IGNORE);
	for (int i = 1; i < 5; i++)
		MPI_Comm_free(&c[i]);
	CHECK(c[1] == MPI_COMM_NULL);
}

static void split(void)
{
	MPI_Comm half, back, none, one;
	int r, n, got, result, hr;
	MPI_Status s;

	/* Odd and even, in reverse order */
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &half);
	MPI_Comm_rank(half, &hr);
	MPI_Comm_size(half, &n);
	CHECK_EQ(n, (np + 1 - me % 2) / 2);
	CHECK_EQ(hr, n - 1 - me / 2);
	if (n > 1) {
		MPI_Sendrecv(&me, 1, MPI_INT, (hr + 1) % n, 2, &got, 1, MPI_INT, MPI_ANY_SOURCE, 2, half, &s);
		CHECK_EQ(s.MPI_SOURCE, (hr + n - 1) % n);
		CHECK_EQ(got, 2 * (n - 1 - s.MPI_SOURCE) + me % 2);
		MPI_Comm_compare(half, MPI_COMM_WORLD, &result);
		CHECK_EQ(result, np == n ? MPI_SIMILAR : MPI_UNEQUAL);
	}
	/* A split of the split */
	MPI_Comm_split(half, 0, me, &back);
	MPI_Comm_rank(back, &r);
	CHECK_EQ(r, me / 2);
	MPI_Comm_compare(half, back, &result);
	CHECK_EQ(result, n > 1 ? MPI_SIMILAR : MPI_CONGRUENT);
	meet(back);
	MPI_Comm_free(&back);
	MPI_Comm_free(&half);
	/* Equal keys keep the order; a rank without color gets none. */
	MPI_Comm_split(MPI_COMM_WORLD, me ? 5 : MPI_UNDEFINED, 0, &none);
	if (!me) {
		CHECK(none == MPI_COMM_NULL);
	} else {
		MPI_Comm_rank(none, &r);
		CHECK_EQ(r, me - 1);
		meet(none);
		MPI_Comm_free(&none);
	}
	MPI_Comm_split(MPI_COMM_WORLD, me, 0, &one);
	MPI_Comm_size(one, &n);
	CHECK_EQ(n, 1);
	MPI_Comm_dup(one, &none);
	MPI_Comm_free(&one);
	MPI_Comm_free(&none);
}

/* Context ids come back: many more communicators than there are ids at a time would never fit. */
static void many(void)
{
	enum { N = 200 };
	MPI_Comm c[N];
	int v, right, left, r, n;

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < N; i++) {
			if (i % 3)
				MPI_Comm_dup(i ? c[i - 1] : MPI_COMM_WORLD, &c[i]);
			else
				MPI_Comm_split(MPI_COMM_WORLD, me < np / 2, i % 2 ? me : -me, &c[i]);
		}
		for (int i = 0; i < N; i++) {
			MPI_Comm_rank(c[i], &r);
			MPI_Comm_size(c[i], &n);
			right = (r + 1) % n;
			left = (r + n - 1) % n;
			MPI_Sendrecv(&i, 1, MPI_INT, right, 0, &v, 1, MPI_INT, left, 0, c[i], MPI_STATUS_IGNORE);
			CHECK_EQ(v, i);
		}
		for (int i = 0; i < N; i++)
			MPI_Comm_free(&c[(i * 7 + round) % N]);
	}
}

/* MPI_Comm_free with operations pending: they complete (section 7.4.3). */
static void free_pending(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, in = -1, out = me;
	MPI_Comm c, d;
	MPI_Request r[2];

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Irecv(&in, 1, MPI_INT, left, 3, c, &r[0]);
	MPI_Comm_dup(c, &d);
	MPI_Isend(&out, 1, MPI_INT, right, 3, c, &r[1]);
	MPI_Comm_free(&c);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	CHECK_EQ(in, left);
	meet(d);
	MPI_Comm_free(&d);
}

static void names(void)
{
	char name[MPI_MAX_OBJECT_NAME];
	MPI_Comm c;
	int n;

	MPI_Comm_get_name(MPI_COMM_WORLD, name, &n);
	CHECK(!strcmp(name, "MPI_COMM_WORLD") && n == 14);
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_name(c, "rows");
	MPI_Comm_get_name(c, name, &n);
	CHECK(!strcmp(name, "rows") && n == 4);
	MPI_Comm_free(&c);
	CHECK_EQ(MPI_Comm_get_name(MPI_COMM_NULL, name, &n), MPI_SUCCESS);
	CHECK(!strcmp(name, "MPI_COMM_NULL") && n == 13);
}

/* MPI_Finalize meets communicators that were never freed, and that did collectives. */
static void left_alive(void)
{
	long in = me, out;
	MPI_Request r;
	MPI_Comm c[3];

	for (int i = 0; i < 3; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &c[i]);
		MPI_Iallreduce(&in, &out, 1, MPI_LONG, MPI_SUM, c[i], &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		CHECK_EQ(out, (long)np * (np - 1) / 2);
	}
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	isolation();
	split();
	many();
	free_pending();
	names();
	isolation();
	left_alive();
	test_done("comms");
	return 0;
}
