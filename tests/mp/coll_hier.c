/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives of ranks on several hosts (HOSTS, see hosts_played.c), which are hierarchical: within each host, between
 * the hosts' leaders, within each host. Every root, in place and not, types with holes, lengths on both sides of the limit of
 * hierarchical ones, other operations outstanding meanwhile; ranks with different lengths, and the rank that the error names;
 * communicators that are freed at once.
 *
 *     coll_hier [ids]            ids: with no more context ids to be had
 *     coll_hier dies RANK COLL rank RANK ends itself in collective no. COLL (of dies()); each survivor
 *     prints the error that it gets
 */
#include "standard.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define LONGEST 3000		/* int64_t elements: beyond the limit of hierarchical collectives */

static MPI_Comm comm;
static int *host_of;		/* by rank */
static int64_t *in, *out;

static bool leads(int rank, int root)
{
	if (host_of[rank] == host_of[root])
		return rank == root;
	for (int r = 0; r < rank; r++)
		if (host_of[r] == host_of[rank])
			return false;
	return true;
}

static void read_hosts(void)
{
	const char *p = getenv("HOSTS");

	host_of = calloc((size_t)np, sizeof(*host_of));
	for (int r = 0; r < np && p; r++) {
		host_of[r] = atoi(p);
		p = strchr(p, ',');
		p = p ? p + 1 : NULL;
	}
}

static void set_input(int n, int salt)
{
	for (int i = 0; i < n; i++) {
		in[i] = (int64_t)me * 1000 + i + salt;
		out[i] = -1;
	}
}

static int64_t sum(int i, int salt)
{
	return (int64_t)np * (np - 1) / 2 * 1000 + (int64_t)np * (i + salt);
}

static void reductions(int n, int root, int salt)
{
	set_input(n, salt);
	CHECK_EQ(MPI_Allreduce(in, out, n, MPI_INT64_T, MPI_SUM, comm), MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		CHECK_EQ(out[i], sum(i, salt));
	set_input(n, salt);
	CHECK_EQ(MPI_Allreduce(MPI_IN_PLACE, in, n, MPI_INT64_T, MPI_SUM, comm), MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		CHECK_EQ(in[i], sum(i, salt));
	for (int in_place = 0; in_place < 2; in_place++) {
		set_input(n, salt);
		CHECK_EQ(MPI_Reduce(in_place && me == root ? MPI_IN_PLACE : in, me == root ? in_place ? in : out : NULL, n,
				    MPI_INT64_T, MPI_SUM, root, comm),
			 MPI_SUCCESS);
		for (int i = 0; i < n; i++)
			if (me == root)
				CHECK_EQ((in_place ? in : out)[i], sum(i, salt));
			else
				CHECK_EQ(in[i], (int64_t)me * 1000 + i + salt);
	}
}

/* Elements with holes; the bytes of the holes must not change. */
static void holes(int n, int root)
{
	struct { short value; int rank; } a[64], b[64];
	MPI_Datatype every_other;

	memset(a, 0, sizeof(a));
	memset(b, 0x5a, sizeof(b));
	n = n > 64 ? 64 : n;
	for (int i = 0; i < n; i++)
		a[i].value = (short)((me * 7 + i) % np), a[i].rank = me;
	CHECK_EQ(MPI_Allreduce(a, b, n, MPI_SHORT_INT, MPI_MAXLOC, comm), MPI_SUCCESS);
	for (int i = 0; i < n; i++) {
		int best = 0;

		for (int r = 1; r < np; r++)
			if ((r * 7 + i) % np > (best * 7 + i) % np)
				best = r;
		CHECK_EQ(b[i].rank, best);
		CHECK_EQ(b[i].value, (best * 7 + i) % np);
	}
	MPI_Type_vector(n, 1, 2, MPI_INT64_T, &every_other);
	MPI_Type_commit(&every_other);
	for (int i = 0; i < 2 * n; i++)
		in[i] = me == root ? 70 + i : -3;
	CHECK_EQ(MPI_Bcast(in, 1, every_other, root, comm), MPI_SUCCESS);
	for (int i = 0; i < 2 * n - 1; i++)
		CHECK_EQ(in[i], me == root || i % 2 == 0 ? 70 + i : -3);
	MPI_Type_free(&every_other);
}

static void bcast(int n, int root, int salt)
{
	for (int i = 0; i < n; i++)
		in[i] = me == root ? i * 3 + salt : -1;
	CHECK_EQ(MPI_Bcast(in, n, MPI_INT64_T, root, comm), MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		CHECK_EQ(in[i], i * 3 + salt);
}

static void data(void)
{
	static const int lengths[] = { 1, 2, 7, 64, 200, 1023, 1024, 1025, LONGEST };
	int64_t mine[2] = { me, 1 }, all[2] = { 0, 0 };
	MPI_Request q[2];

	for (int k = 0; k < (int)(sizeof(lengths) / sizeof(*lengths)); k++)
		for (int root = 0; root < np; root++) {
			/* messages of these operations are outstanding while the hierarchical ones run, or later */
			CHECK_EQ(MPI_Iallreduce(mine, all, 2, MPI_INT64_T, MPI_SUM, comm, &q[0]), MPI_SUCCESS);
			CHECK_EQ(MPI_Ibarrier(comm, &q[1]), MPI_SUCCESS);
			reductions(lengths[k], root, k);
			bcast(lengths[k], root, k);
			holes(lengths[k], root);
			CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
			CHECK_EQ(MPI_Waitall(2, q, MPI_STATUSES_IGNORE), MPI_SUCCESS);
			CHECK_EQ(all[0], (int64_t)np * (np - 1) / 2);
			CHECK_EQ(all[1], np);
		}
}

/* No rank returns from a barrier before the last rank has called it. */
static void barrier(void)
{
	int64_t come[64];

	for (int last = 0; last < np && np <= 64; last++) {
		int64_t word = 1;

		memset(come, 0, sizeof(come));
		if (me != last) {
			/* a rank that has returned sends a message to the late rank, which calls when no message
			 * has come for a while */
			CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
			MPI_Send(&word, 1, MPI_INT64_T, last, 5, comm);
			continue;
		}
		for (int i = 0; i < 300; i++) {
			int flag;

			MPI_Iprobe(MPI_ANY_SOURCE, 5, comm, &flag, MPI_STATUS_IGNORE);
			CHECK_EQ(flag, 0);
		}
		CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
		for (int r = 0; r < np - 1; r++)
			MPI_Recv(&come[r], 1, MPI_INT64_T, MPI_ANY_SOURCE, 5, comm, MPI_STATUS_IGNORE);
	}
}

static bool is_length(int rc)
{
	return class_of(rc) == MPI_ERR_COUNT || class_of(rc) == MPI_ERR_TRUNCATE;
}

/* Rank `odd` has one element less, or more, than the other ranks. A rank has an error, too, if its data have passed a rank with
 * an error; no rank has wrong data or waits, and the communicator goes on. */
static void lengths(int odd, int n, int theirs)
{
	int root = (odd + 1) % np, is = me == odd, rc;
	bool through_odd = leads(odd, root) && host_of[me] == host_of[odd];

	set_input(n + 1, 0);
	rc = MPI_Allreduce(in, out, is ? theirs : n, MPI_INT64_T, MPI_SUM, comm);
	if (!is_length(rc))
		test_fail(__FILE__, __LINE__, "allreduce, odd %d, %d for %d: class %d", odd, theirs, n, class_of(rc));
	reductions(n, root, 3);
	for (int i = 0; i <= n; i++)
		in[i] = me == root ? i : -1;
	rc = MPI_Bcast(in, is ? theirs : n, MPI_INT64_T, root, comm);
	if (is || through_odd ? !is_length(rc) : rc != MPI_SUCCESS)
		test_fail(__FILE__, __LINE__, "bcast, odd %d, %d for %d: class %d", odd, theirs, n, class_of(rc));
	for (int i = 0; i < n && !rc; i++)
		CHECK_EQ(in[i], i);
	bcast(n, root, 1);
	set_input(n + 1, 0);
	rc = MPI_Reduce(in, out, is ? theirs : n, MPI_INT64_T, MPI_SUM, root, comm);
	if (me == root ? !is_length(rc) : rc && !is_length(rc))
		test_fail(__FILE__, __LINE__, "reduce, odd %d, %d for %d: class %d", odd, theirs, n, class_of(rc));
	CHECK_EQ(MPI_Barrier(comm), MPI_SUCCESS);
	reductions(n, odd, 5);
}

/* The error's text has the rank in the program's communicator: of each host's first two ranks, the second one sends the
 * wrong length to the first. */
static void names(void)
{
	for (int odd = 2; odd < np; odd++) {
		int first = odd, before = 0, rc, named, n;
		char text[MPI_MAX_ERROR_STRING], *from;
		MPI_Comm c;

		for (int r = odd - 1; r >= 0; r--)
			if (host_of[r] == host_of[odd])
				first = r, before++;
		if (before != 1)
			continue;
		/* the first collectives of a communicator are sent as messages, which have a source */
		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
		set_input(8, 0);
		rc = MPI_Reduce(in, out, me == odd ? 7 : 8, MPI_INT64_T, MPI_SUM, first, c);
		if (me == first) {
			CHECK_EQ(is_length(rc), 1);
			MPI_Error_string(rc, text, &n);
			from = strstr(text, "came from rank ");
			if (from && (sscanf(from, "came from rank %d", &named) != 1 || named != odd))
				test_fail(__FILE__, __LINE__, "rank %d gave less, and the error says: %s", odd, text);
		}
		MPI_Comm_free(&c);
	}
}

static void freed(void)
{
	for (int i = 0; i < 300; i++) {
		int64_t all = 0, one = 1;
		MPI_Comm c;

		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		if (i % 3)
			CHECK_EQ(MPI_Bcast(&one, 1, MPI_INT64_T, i % np, c), MPI_SUCCESS);
		if (i % 2)
			CHECK_EQ(MPI_Allreduce(&one, &all, 1, MPI_INT64_T, MPI_SUM, c), MPI_SUCCESS);
		CHECK_EQ(all, i % 2 ? np : 0);
		MPI_Comm_free(&c);
	}
}

/* No context id is left for the node_comm: the collectives are not hierarchical. */
static void without_ids(void)
{
	MPI_Comm *all = calloc(40000, sizeof(*all));
	int n = 0;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	while (n < 40000 && !MPI_Comm_dup(MPI_COMM_WORLD, &all[n]))
		n++;
	CHECK_EQ(n > 100 && n < 40000, 1);
	comm = all[n - 1];
	data();
	for (int i = 0; i < 3; i++) {
		MPI_Comm_free(&all[--n]);	/* the next communicator gets this context id, and the node_comm of that
						 * communicator none */
		CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &all[n]), MPI_SUCCESS);
		CHECK_EQ(MPI_Barrier(all[n]), MPI_SUCCESS);
		n++;
	}
	for (int i = 0; i < 3; i++) {
		MPI_Comm_free(&all[--n]);
		MPI_Comm_free(&all[--n]);
		CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &all[n]), MPI_SUCCESS);
		CHECK_EQ(MPI_Barrier(all[n]), MPI_SUCCESS);	/* the node_comm has the other one of the two freed ids */
		MPI_Comm_free(&all[n]);
		CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &all[n]), MPI_SUCCESS);
		n++;
		CHECK_EQ(MPI_Comm_dup(MPI_COMM_WORLD, &all[n]), MPI_SUCCESS);
		n++;
	}
	while (n)
		MPI_Comm_free(&all[--n]);
	free(all);
	comm = MPI_COMM_WORLD;
	data();
}

/* Repeats a collective until an error, for a minute at most, and returns the error. The bound is no number of calls: a rank
 * that only sends its part of an MPI_Reduce is hundreds of thousands of calls ahead when the death is detected. */
static int dies(int rank, int coll)
{
	double begun = MPI_Wtime();
	int rc = MPI_SUCCESS, class;

	for (int i = 0; !rc && MPI_Wtime() < begun + 60; i++) {
		if (i == 50 && me == rank)
			raise(SIGKILL);
		set_input(8, i);
		switch (coll) {
		case 0: rc = MPI_Barrier(comm); break;
		case 1: rc = MPI_Bcast(in, 8, MPI_INT64_T, (rank + 1) % np, comm); break;
		case 2: rc = MPI_Reduce(in, out, 8, MPI_INT64_T, MPI_SUM, (rank + 1) % np, comm); break;
		case 3: rc = MPI_Bcast(in, 8, MPI_INT64_T, rank, comm); break;
		default: rc = MPI_Allreduce(in, out, 8, MPI_INT64_T, MPI_SUM, comm);
		}
	}
	MPI_Error_class(rc, &class);
	if (class == MPI_ERR_PROC_ABORTED)
		printf("survivor %d: told\n", me);
	else
		printf("survivor %d: class %d\n", me, class);
	fflush(stdout);
	MPI_Finalize();
	return class != MPI_ERR_PROC_ABORTED;
}

int main(int argc, char **argv)
{
	bool ids;

	test_init(&argc, &argv);
	ids = argc > 1 && !strcmp(argv[1], "ids");
	read_hosts();
	in = calloc(LONGEST + 1, sizeof(*in));
	out = calloc(LONGEST + 1, sizeof(*out));
	if (argc > 3) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
		return dies(atoi(argv[2]), atoi(argv[3]));
	}
	if (ids) {
		without_ids();
	} else {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm);
		MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
		data();
		barrier();
		for (int odd = 0; odd < np; odd++)
			for (int n = 1; n < 300; n += 149) {
				lengths(odd, n, n + 1);
				if (n > 1)
					lengths(odd, n, n - 1);
			}
		MPI_Comm_free(&comm);
		names();
		freed();
	}
	free(host_of);
	free(in);
	free(out);
	test_done("stages");
	return 0;
}
