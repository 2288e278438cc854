/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of strided types, small and large, to strided and to plain buffers (MPI-5.0 chapters 3 and 5). */
#include "mpi_test.h"

/* A column block of a row-major matrix goes to the right; the left one's arrives as a plain buffer and as a column. */
static void columns(int rows, int cols, int width)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, n;
	double *a = malloc(sizeof(*a) * rows * cols), *b = malloc(sizeof(*b) * rows * cols);
	double *flat = malloc(sizeof(*flat) * rows * width);
	MPI_Datatype col, two;
	MPI_Request r[4];
	MPI_Status s[4];

	MPI_Type_vector(rows, width, cols, MPI_DOUBLE, &col);
	MPI_Type_commit(&col);
	for (int i = 0; i < rows * cols; i++) {
		a[i] = me * 1e7 + i;
		b[i] = -1;
	}
	MPI_Irecv(flat, rows * width, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(b + 1, 1, col, left, 2, MPI_COMM_WORLD, &r[1]);
	MPI_Isend(a + cols - width, 1, col, right, 1, MPI_COMM_WORLD, &r[2]);
	MPI_Isend(a + cols - width, 1, col, right, 2, MPI_COMM_WORLD, &r[3]);
	MPI_Type_free(&col);			/* pending operations keep it */
	MPI_Waitall(4, r, s);
	MPI_Get_count(&s[0], MPI_DOUBLE, &n);
	CHECK_EQ(n, rows * width);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < width; j++) {
			double want = left * 1e7 + i * cols + cols - width + j;

			CHECK(flat[i * width + j] == want);
			CHECK(b[i * cols + 1 + j] == want);
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++)
			if (j < 1 || j > width)
				CHECK(b[i * cols + j] == -1);
	/* Several elements of a type of types; blocking */
	MPI_Type_contiguous(2, MPI_DOUBLE, &two);
	MPI_Type_vector(rows / 2, 1, 2, two, &col);
	MPI_Type_commit(&col);
	for (int i = 0; i < rows * width; i++)
		flat[i] = me + i * 0.5;
	MPI_Sendrecv(flat, rows / 2 * 2, MPI_DOUBLE, right, 3, b, 1, col, left, 3, MPI_COMM_WORLD, s);
	MPI_Get_count(s, col, &n);
	CHECK_EQ(n, 1);
	MPI_Get_elements(s, col, &n);
	CHECK_EQ(n, rows / 2 * 2);
	for (int i = 0; i < rows / 2; i++)
		CHECK(b[4 * i] == left + i * 2 * 0.5 && b[4 * i + 1] == left + (i * 2 + 1) * 0.5);
	MPI_Type_free(&col);
	MPI_Type_free(&two);
	free(flat);
	free(b);
	free(a);
}

/* Pending collectives keep their types (MPI-5.0 section 5.1.9), too: every other int of the receive buffer is written. */
static void freed_while_pending(int n)
{
	enum { BCAST, ALLGATHER, ALLTOALL, CALLS };
	int *s = malloc(sizeof(*s) * 2 * n * np), *r = malloc(sizeof(*r) * 2 * n * np);

	for (int call = 0; call < CALLS; call++) {
		int blocks = call == BCAST ? 1 : np;
		MPI_Datatype t;
		MPI_Request req;

		for (int i = 0; i < 2 * n * np; i++) {
			s[i] = 1000 * me + i % (2 * n);
			r[i] = call == BCAST && me == np - 1 ? s[i] : -1;
		}
		MPI_Type_vector(n, 1, 2, MPI_INT, &t);
		MPI_Type_commit(&t);
		if (call == BCAST)
			MPI_Ibcast(r, 1, t, np - 1, MPI_COMM_WORLD, &req);
		else
			for (int i = 0; i < np * n; i++)	/* dense, as the type of the sender */
				s[i] = 1000 * me + 2 * (i % n);
		if (call == ALLGATHER)
			MPI_Iallgather(s, n, MPI_INT, r, 1, t, MPI_COMM_WORLD, &req);
		else if (call == ALLTOALL)
			MPI_Ialltoall(s, n, MPI_INT, r, 1, t, MPI_COMM_WORLD, &req);
		MPI_Type_free(&t);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		for (int b = 0; b < blocks; b++)
			for (int i = 0; i < n; i++) {
				int from = call == BCAST ? np - 1 : b;

				CHECK_EQ(r[b * (2 * n - 1) + 2 * i], 1000 * from + 2 * i);
			}
	}
	free(s);
	free(r);
}

/* Part of a type: a shorter message fills the beginning of the type map. */
static void partial(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, n;
	int v[7] = { 1, 2, 3, 4, 5, 6, 7 }, got[30];
	MPI_Datatype t;
	MPI_Status s;

	MPI_Type_vector(5, 2, 3, MPI_INT, &t);
	MPI_Type_commit(&t);
	memset(got, 0, sizeof(got));
	MPI_Sendrecv(v, 7, MPI_INT, right, 4, got, 2, t, left, 4, MPI_COMM_WORLD, &s);
	MPI_Get_count(&s, t, &n);
	CHECK_EQ(n, MPI_UNDEFINED);
	MPI_Get_elements(&s, t, &n);
	CHECK_EQ(n, 7);
	for (int i = 0, k = 0; i < 30; i++)
		CHECK_EQ(got[i], i % 3 < 2 && k < 7 ? v[k++] : 0);
	MPI_Type_free(&t);
}

static void pairs(void)
{
	struct { short v; int i; } a[100], b[100];
	struct { double v; int i; } c[50], d[50];
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Status s;

	for (int i = 0; i < 100; i++) {
		a[i].v = (short)(me + i);
		a[i].i = -i;
	}
	MPI_Sendrecv(a, 100, MPI_SHORT_INT, right, 5, b, 100, MPI_SHORT_INT, left, 5, MPI_COMM_WORLD, &s);
	for (int i = 0; i < 100; i++)
		CHECK(b[i].v == left + i && b[i].i == -i);
	for (int i = 0; i < 50; i++) {
		c[i].v = me + i * 0.25;
		c[i].i = i;
	}
	MPI_Sendrecv(c, 50, MPI_DOUBLE_INT, right, 6, d, 50, MPI_DOUBLE_INT, left, 6, MPI_COMM_WORLD, &s);
	for (int i = 0; i < 50; i++)
		CHECK(d[i].v == left + i * 0.25 && d[i].i == i);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	for (int i = 0; i < 3; i++) {
		columns(8, 8, 1);
		columns(100, 50, 3);
		columns(1000, 20, 5);
		columns(2000, 300, 64);
		partial();
		pairs();
		freed_while_pending(10);
		freed_while_pending(20000);
	}
	test_done("types");
	return 0;
}
