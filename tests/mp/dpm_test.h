/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of processes that are spawned or connect: the checks, and the collectives of both jobs. */
#ifndef DPM_TEST_H
#define DPM_TEST_H

#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int me, np, failed;
static MPI_Comm parent;

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: rank %d%s: not so: %s\n", __FILE__, __LINE__, me, \
				parent == MPI_COMM_NULL ? "" : " of the children", #cond); \
			failed = 1; \
		} \
	} while (0)

static inline int class_of(int rc)
{
	int class = MPI_SUCCESS;

	MPI_Error_class(rc, &class);
	return class;
}

static inline int says(int rc, const char *text)
{
	char string[MPI_MAX_ERROR_STRING];
	int n;

	MPI_Error_string(rc, string, &n);
	if (strstr(string, text))
		return 1;
	fprintf(stderr, "the error is: %s\n", string);
	return 0;
}

/* ---- what is done together ------------------------------------------------------------------------------ */

/* Every collective on a communicator of parents and children, with data that are checked. */
static inline void collectives(MPI_Comm all)
{
	enum { MOST = 16, LARGE = 40000 };
	int n, r, in[MOST * 4], out[MOST * 4], counts[MOST], displs[MOST], v;
	MPI_Datatype types[MOST];
	double *a, *b;
	MPI_Request req;

	MPI_Comm_size(all, &n);
	MPI_Comm_rank(all, &r);
	if (n > MOST)
		MPI_Abort(all, 2);
	MPI_Barrier(all);
	for (int root = 0; root < n; root++) {
		v = r == root ? root + 7 : -1;
		MPI_Bcast(&v, 1, MPI_INT, root, all);
		CHECK(v == root + 7);
		MPI_Gather(&r, 1, MPI_INT, in, 1, MPI_INT, root, all);
		for (int i = 0; r == root && i < n; i++)
			CHECK(in[i] == i);
		for (int i = 0; i < n; i++)
			out[i] = 100 * root + i;
		MPI_Scatter(out, 1, MPI_INT, &v, 1, MPI_INT, root, all);
		CHECK(v == 100 * root + r);
		MPI_Reduce(&r, &v, 1, MPI_INT, MPI_SUM, root, all);
		CHECK(r != root || v == n * (n - 1) / 2);
	}
	for (int i = 0; i < n; i++) {
		counts[i] = i % 3;
		displs[i] = 2 * i;
		types[i] = MPI_INT;
	}
	for (int i = 0; i < 2 * n; i++)
		out[i] = 1000 * r + i;
	memset(in, -1, sizeof(in));
	MPI_Allgatherv(out, counts[r], MPI_INT, in, counts, displs, MPI_INT, all);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < counts[i]; k++)
			CHECK(in[2 * i + k] == 1000 * i + k);
	MPI_Gatherv(out, counts[r], MPI_INT, in, counts, displs, MPI_INT, n - 1, all);
	MPI_Scatterv(out, counts, displs, MPI_INT, in, counts[r], MPI_INT, n - 1, all);
	for (int k = 0; k < counts[r]; k++)
		CHECK(in[k] == 1000 * (n - 1) + 2 * r + k);
	MPI_Allgather(&r, 1, MPI_INT, in, 1, MPI_INT, all);
	for (int i = 0; i < n; i++)
		CHECK(in[i] == i);
	for (int i = 0; i < n; i++)
		out[i] = 10 * r + i;
	MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, all);
	for (int i = 0; i < n; i++)
		CHECK(in[i] == 10 * i + r);
	for (int i = 0; i < n; i++)
		counts[i] = (i + r) % 3;
	for (int i = 0; i < 2 * n; i++)
		out[i] = 1000 * r + i;
	memset(in, -1, sizeof(in));
	MPI_Alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, all);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < counts[i]; k++)
			CHECK(in[2 * i + k] == 1000 * i + 2 * r + k);
	for (int i = 0; i < n; i++)
		displs[i] *= (int)sizeof(int);
	memset(in, -1, sizeof(in));
	MPI_Alltoallw(out, counts, displs, types, in, counts, displs, types, all);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < counts[i]; k++)
			CHECK(in[2 * i + k] == 1000 * i + 2 * r + k);
	MPI_Scan(&r, &v, 1, MPI_INT, MPI_SUM, all);
	CHECK(v == r * (r + 1) / 2);
	v = 0;
	MPI_Exscan(&r, &v, 1, MPI_INT, MPI_SUM, all);
	CHECK(v == (r ? r * (r - 1) / 2 : 0));
	for (int i = 0; i < n; i++)
		out[i] = r + i;
	MPI_Reduce_scatter_block(out, &v, 1, MPI_INT, MPI_SUM, all);
	CHECK(v == n * (n - 1) / 2 + n * r);
	for (int i = 0; i < n; i++)
		counts[i] = 1;
	MPI_Reduce_scatter(out, &v, counts, MPI_INT, MPI_MAX, all);
	CHECK(v == n - 1 + r);
	MPI_Iallreduce(&r, &v, 1, MPI_INT, MPI_MAX, all, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	CHECK(v == n - 1);
	MPI_Ibarrier(all, &req);
	MPI_Wait(&req, MPI_STATUS_IGNORE);
	a = malloc(2 * LARGE * sizeof(*a));
	b = a + LARGE;
	for (int i = 0; i < LARGE; i++)
		a[i] = r + i;
	MPI_Allreduce(a, b, LARGE, MPI_DOUBLE, MPI_SUM, all);
	for (int i = 0; i < LARGE; i += 999)
		CHECK(b[i] == n * (n - 1) / 2.0 + (double)n * i);
	free(a);
}

static inline void talk(MPI_Comm inter)
{
	int n, v, mine;

	MPI_Comm_rank(inter, &mine);
	MPI_Comm_remote_size(inter, &n);
	for (int r = 0; r < n; r++)
		MPI_Sendrecv(&mine, 1, MPI_INT, r, 3, &v, 1, MPI_INT, r, 3, inter, MPI_STATUS_IGNORE);
	for (int i = 0; i < 2; i++)
		MPI_Barrier(inter);
	CHECK(v == n - 1);
}

static inline void together(MPI_Comm *inter, int high)
{
	MPI_Comm all;

	talk(*inter);
	MPI_Intercomm_merge(*inter, high, &all);
	collectives(all);
	MPI_Comm_disconnect(&all);
	MPI_Comm_disconnect(inter);
}

/* Returns the number of processes whose parent is the launcher. */
static inline int of_launcher(void)
{
	char path[300];
	struct dirent *e;
	int n = 0, pid;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)getppid());
	d = opendir(path);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)getppid(), e->d_name);
		f = fopen(path, "r");
		while (f && fscanf(f, "%d", &pid) == 1)
			n++;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

#endif
