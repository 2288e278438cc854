/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups (MPI-5.0 section 7.3), against sets of ranks that the test keeps itself; and errors. */
#include "mpi_test.h"

#include <limits.h>

static MPI_Group world;

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

/* The group has these ranks of MPI_COMM_WORLD, in this order. */
static void check_at(int line, MPI_Group g, int n, const int *ranks)
{
	int size, rank, want = MPI_UNDEFINED, back[16], own[16] = { 0 };

	MPI_Group_size(g, &size);
	if (size != n)
		test_fail(__FILE__, line, "size %d instead of %d", size, n);
	for (int i = 0; i < n; i++)
		own[i] = i;
	MPI_Group_translate_ranks(g, n, own, world, back);
	for (int i = 0; i < n; i++) {
		if (back[i] != ranks[i])
			test_fail(__FILE__, line, "rank %d is %d instead of %d", i, back[i], ranks[i]);
		if (ranks[i] == me)
			want = i;
	}
	MPI_Group_rank(g, &rank);
	if (rank != want)
		test_fail(__FILE__, line, "own rank %d instead of %d", rank, want);
	/* the other way round */
	for (int r = 0; r < np; r++) {
		int found = MPI_UNDEFINED;

		MPI_Group_translate_ranks(world, 1, &r, g, back);
		for (int i = 0; i < n; i++)
			if (ranks[i] == r)
				found = i;
		if (back[0] != found)
			test_fail(__FILE__, line, "world rank %d is %d instead of %d", r, back[0], found);
	}
}
#define CHECK_GROUP(g, n, ranks) check_at(__LINE__, g, n, ranks)

/* The members that a bit mask names; in a scrambled order that is the mask's own. */
static int members(unsigned mask, int *ranks)
{
	int n = 0, t, j;

	for (int r = 0; r < np; r++)
		if (mask >> r & 1)
			ranks[n++] = r;
	for (int i = n - 1; i > 0; i--) {
		j = (int)(mix(mask * 100 + i) % (unsigned)(i + 1));
		t = ranks[i], ranks[i] = ranks[j], ranks[j] = t;
	}
	return n;
}

/* All pairs of subsets, up to 5 ranks: results of the set operations, and their order. */
static void sets(void)
{
	unsigned all = 1u << (np < 5 ? np : 5);
	int ra[8], rb[8], want[16], na, nb, n, result, same, order;
	MPI_Group a, b, c;

	for (unsigned ma = 0; ma < all; ma++)
		for (unsigned mb = 0; mb < all; mb++) {
			na = members(ma, ra);
			nb = members(mb, rb);
			MPI_Group_incl(world, na, ra, &a);
			MPI_Group_incl(world, nb, rb, &b);
			if (!mb)
				CHECK_GROUP(a, na, ra);
			for (int op = 0; op < 3; op++) {
				n = 0;
				for (int i = 0; i < na; i++)
					if (op == 0 || (mb >> ra[i] & 1) == (op == 1))
						want[n++] = ra[i];
				for (int i = 0; op == 0 && i < nb; i++)
					if (!(ma >> rb[i] & 1))
						want[n++] = rb[i];
				(op == 0 ? MPI_Group_union : op == 1 ? MPI_Group_intersection : MPI_Group_difference)(a, b, &c);
				CHECK_GROUP(c, n, want);
				if (!n)
					CHECK(c == MPI_GROUP_EMPTY);
				MPI_Group_free(&c);
				CHECK(c == MPI_GROUP_NULL);
			}
			same = ma == mb;
			order = same;
			for (int i = 0; same && i < na; i++)
				order &= ra[i] == rb[i];
			MPI_Group_compare(a, b, &result);
			CHECK_EQ(result, order ? MPI_IDENT : same ? MPI_SIMILAR : MPI_UNEQUAL);
			MPI_Group_free(&a);
			MPI_Group_free(&b);
		}
}

static void similar(void)
{
	int up[2] = { 0, 1 }, down[2] = { 1, 0 }, result;
	MPI_Group a, b;

	if (np < 2)
		return;
	MPI_Group_incl(world, 2, up, &a);
	MPI_Group_incl(world, 2, down, &b);
	MPI_Group_compare(a, b, &result);
	CHECK_EQ(result, MPI_SIMILAR);
	MPI_Group_free(&a);
	MPI_Group_free(&b);
}

static void ranges(void)
{
	int all[16], want[16], n = 0, last = np - 1, r3[3][3] = { { last, 0, -2 }, { 0, 0, 5 }, { 0, 0, 1 } };
	MPI_Group g, h;

	for (int i = 0; i < np; i++)
		all[i] = i;
	for (int r = last; r >= 0; r -= 2)
		want[n++] = r;
	MPI_Group_range_incl(world, 1, r3, &g);
	CHECK_GROUP(g, n, want);
	/* of a group that is no range: every second of it, backwards */
	MPI_Group_incl(world, np > 2 ? 3 : 1, (int[]){ last, 0, 1 }, &h);
	MPI_Group_free(&g);
	if (np > 2) {
		MPI_Group_range_incl(h, 2, (int[][3]){ { 2, 1, -1 }, { 0, 0, -7 } }, &g);
		CHECK_GROUP(g, 3, ((int[]){ 1, 0, last }));
		MPI_Group_free(&g);
		MPI_Group_range_excl(h, 1, (int[][3]){ { 0, 2, 2 } }, &g);
		CHECK_GROUP(g, 1, ((int[]){ 0 }));
		MPI_Group_free(&g);
		MPI_Group_excl(h, 1, (int[]){ 1 }, &g);
		CHECK_GROUP(g, 2, ((int[]){ last, 1 }));
		MPI_Group_free(&g);
	}
	MPI_Group_free(&h);
	n = 0;
	for (int r = 0; r < np; r++)
		if ((last - r) % 2)
			want[n++] = r;
	MPI_Group_range_excl(world, 1, r3, &g);
	CHECK_GROUP(g, n, want);
	MPI_Group_free(&g);
	MPI_Group_range_excl(world, 0, r3, &g);
	CHECK_GROUP(g, np, all);
	MPI_Group_free(&g);
	MPI_Group_excl(world, np, all, &g);
	CHECK(g == MPI_GROUP_EMPTY);
	MPI_Group_incl(world, 0, NULL, &g);
	CHECK(g == MPI_GROUP_EMPTY);
	CHECK_GROUP(g, 0, all);
	CHECK_EQ(MPI_Group_free(&g), MPI_SUCCESS);
}

static void of_communicators(void)
{
	int result, in[3] = { MPI_PROC_NULL, 0, MPI_PROC_NULL }, out[3];
	MPI_Group g, h;
	MPI_Comm c;

	MPI_Comm_group(MPI_COMM_SELF, &g);
	CHECK_GROUP(g, 1, &me);
	MPI_Group_translate_ranks(g, 3, in, world, out);
	CHECK(out[0] == MPI_PROC_NULL && out[1] == me && out[2] == MPI_PROC_NULL);
	MPI_Group_free(&g);
	/* The group outlives its communicator, and the communicator the group. */
	MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &c);
	MPI_Comm_group(c, &g);
	MPI_Comm_group(c, &h);
	MPI_Group_free(&h);
	MPI_Comm_free(&c);
	MPI_Group_compare(g, world, &result);
	CHECK_EQ(result, np > 1 ? MPI_SIMILAR : MPI_IDENT);
	MPI_Group_free(&g);
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static void handles(void)
{
	MPI_Group bad[] = { MPI_GROUP_NULL, (MPI_Group)MPI_COMM_WORLD, (MPI_Group)(intptr_t)0x333, (MPI_Group)sync_comm, NULL };
	int n = sizeof(bad) / sizeof(*bad), r = 0, range[1][3] = { { 0, 0, 1 } };
	MPI_Group out;

	for (int i = 0; i < n; i++) {
		MPI_Group g = bad[i];

		CHECK_EQ(class_of(MPI_Group_size(g, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_rank(g, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_compare(world, g, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_compare(g, world, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_union(g, world, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_intersection(world, g, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_difference(g, g, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_incl(g, 1, &r, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_excl(g, 1, &r, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_range_incl(g, 1, range, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_range_excl(g, 1, range, &out)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_translate_ranks(g, 1, &r, world, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_translate_ranks(world, 1, &r, g, &r)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Group_free(&g)), MPI_ERR_GROUP);
	}
}

static void arguments(void)
{
	int twice[2] = { 0, 0 }, beyond[1] = { np }, below[1] = { -1 }, zero[1][3] = { { 0, 0, 0 } };
	int away[1][3] = { { 0, 1, -1 } }, over[1][3] = { { 0, np, 1 } }, both[2][3] = { { 0, 0, 1 }, { 0, 0, 1 } };
	int huge[1][3] = { { INT_MIN, INT_MAX, 1 } }, r = 0, out[2];
	MPI_Group g;

	CHECK_EQ(class_of(MPI_Group_incl(world, 2, twice, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_excl(world, 2, twice, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_incl(world, 1, beyond, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_excl(world, 1, below, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_incl(world, -1, twice, &g)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_incl(world, 1, NULL, &g)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_incl(world, 1, twice, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_range_incl(world, 1, zero, &g)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_range_incl(world, 1, away, &g)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_range_excl(world, 1, over, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_range_incl(world, 2, both, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_range_incl(world, 1, huge, &g)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_translate_ranks(world, 1, beyond, world, out)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Group_translate_ranks(world, -2, &r, world, out)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_translate_ranks(world, 1, NULL, world, out)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_size(world, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_rank(world, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_compare(world, world, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Group_free(NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_group(MPI_COMM_NULL, &g)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Comm_group(MPI_COMM_WORLD, NULL)), MPI_ERR_ARG);
}

/* One handle freed twice is refused, and the communicator keeps its group. */
static void freed_twice(void)
{
	MPI_Group g, copy;
	MPI_Comm c;
	int n;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_group(c, &g);
	MPI_Group_free(&world);		/* the same group: no handle to it is left but g */
	copy = g;
	MPI_Group_free(&g);
	CHECK_EQ(class_of(MPI_Group_free(&copy)), MPI_ERR_GROUP);
	CHECK_EQ(class_of(MPI_Group_size(copy, &n)), MPI_ERR_GROUP);
	MPI_Comm_group(c, &world);
	MPI_Group_size(world, &n);
	CHECK_EQ(n, np);
	MPI_Comm_free(&c);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	sets();
	similar();
	ranges();
	of_communicators();
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	handles();
	arguments();
	freed_twice();
	MPI_Group_free(&world);
	test_done("groups");
	return 0;
}
