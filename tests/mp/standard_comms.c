/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups, contexts, communicators, and caching: chapter 7. */
#include "standard.h"

#define WORLD	MPI_COMM_WORLD
#define MAX	8

static int size_of(MPI_Comm c)
{
	int n;

	MPI_Comm_size(c, &n);
	return n;
}

static int rank_of(MPI_Comm c)
{
	int r;

	MPI_Comm_rank(c, &r);
	return r;
}

static int compared(MPI_Comm a, MPI_Comm b)
{
	int result;

	MPI_Comm_compare(a, b, &result);
	return result;
}

/* ---- 7.3: groups -------------------------------------------------------------------------------------------- */

/* Fails unless the group has exactly these ranks of MPI_COMM_WORLD, in this order. */
static void is_group(int line, MPI_Group g, const int *ranks, int n)
{
	int size, mine, all[MAX], there[MAX], want = MPI_UNDEFINED;
	MPI_Group world;

	MPI_Comm_group(WORLD, &world);
	MPI_Group_size(g, &size);
	if (size != n)
		test_fail(__FILE__, line, "%d ranks, not %d", size, n);
	for (int i = 0; i < n; i++) {
		all[i] = i;
		if (ranks[i] == me)
			want = i;
	}
	MPI_Group_translate_ranks(g, n, all, world, there);
	for (int i = 0; i < n; i++)
		if (there[i] != ranks[i])
			test_fail(__FILE__, line, "rank %d is %d of the world, not %d", i, there[i], ranks[i]);
	MPI_Group_rank(g, &mine);
	CHECK_EQ(mine, want);
	MPI_Group_free(&world);
}
#define IS_GROUP(g, ranks, n) is_group(__LINE__, g, ranks, n)

static void group_algebra(void)
{
	MPI_Group world, low, high, g, none;
	int a[MAX], b[MAX], want[MAX], n = 0, nb = 0, result, half = (np + 1) / 2, range[1][3];

	MPI_Comm_group(WORLD, &world);
	for (int i = half; i-- > 0;)	/* the lower half, backwards, and every second */
		a[n++] = i;
	for (int i = 0; i < np; i += 2)
		b[nb++] = i;
	MPI_Group_incl(world, n, a, &low);
	IS_GROUP(low, a, n);
	range[0][0] = 0;
	range[0][1] = np - 1;
	range[0][2] = 2;
	MPI_Group_range_incl(world, 1, range, &high);
	IS_GROUP(high, b, nb);
	/* union: all of the first, then the new ones of the second */
	MPI_Group_union(low, high, &g);
	memcpy(want, a, sizeof(int) * n);
	int k = n;
	for (int i = 0; i < nb; i++)
		if (b[i] >= half)
			want[k++] = b[i];
	IS_GROUP(g, want, k);
	MPI_Group_free(&g);
	/* intersection, difference: in the order of the first */
	MPI_Group_intersection(low, high, &g);
	k = 0;
	for (int i = 0; i < n; i++)
		if (a[i] % 2 == 0)
			want[k++] = a[i];
	IS_GROUP(g, want, k);
	MPI_Group_free(&g);
	MPI_Group_difference(low, high, &g);
	k = 0;
	for (int i = 0; i < n; i++)
		if (a[i] % 2)
			want[k++] = a[i];
	IS_GROUP(g, want, k);
	MPI_Group_compare(g, MPI_GROUP_EMPTY, &result);
	CHECK_EQ(result, k ? MPI_UNEQUAL : MPI_IDENT);
	if (g != MPI_GROUP_EMPTY)
		MPI_Group_free(&g);
	MPI_Group_excl(world, nb, b, &g);
	k = 0;
	for (int i = 1; i < np; i += 2)
		want[k++] = i;
	IS_GROUP(g, want, k);
	if (g != MPI_GROUP_EMPTY)
		MPI_Group_free(&g);
	range[0][0] = np - 1;
	range[0][1] = 0;
	range[0][2] = -1;
	MPI_Group_range_incl(world, 1, range, &g);
	for (int i = 0; i < np; i++)
		want[i] = np - 1 - i;
	IS_GROUP(g, want, np);
	MPI_Group_compare(world, g, &result);
	CHECK_EQ(result, np > 1 ? MPI_SIMILAR : MPI_IDENT);
	MPI_Group_range_excl(g, 1, range, &none);
	MPI_Group_compare(none, MPI_GROUP_EMPTY, &result);
	CHECK_EQ(result, MPI_IDENT);
	/* a rank that is not in the other group becomes MPI_UNDEFINED; MPI_PROC_NULL stays */
	int ask[2] = { np - 1, MPI_PROC_NULL }, got[2];
	MPI_Group_translate_ranks(world, 2, ask, low, got);
	CHECK(got[0] == (np > 1 ? MPI_UNDEFINED : 0) && got[1] == MPI_PROC_NULL);
	MPI_Group_free(&g);
	MPI_Group_free(&low);
	MPI_Group_free(&high);
	MPI_Group_free(&world);
}

/* ---- 7.4, 7.5: communicators ---------------------------------------------------------------------------------- */

/* The workers compute among themselves, then all of them with the master. */
static void without_master(void)
{
	static const int master[] = { 0 };
	int sum = me, total = 0;
	MPI_Group world, workers;
	MPI_Comm c;

	MPI_Comm_group(WORLD, &world);
	MPI_Group_excl(world, 1, master, &workers);
	MPI_Comm_create(WORLD, workers, &c);
	CHECK_EQ(c == MPI_COMM_NULL, me == 0);
	if (me) {
		CHECK(size_of(c) == np - 1 && rank_of(c) == me - 1);
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, c);
		CHECK_EQ(sum, np * (np - 1) / 2);
		MPI_Comm_free(&c);
	}
	MPI_Reduce(&sum, &total, 1, MPI_INT, MPI_SUM, 0, WORLD);
	if (!me)
		CHECK_EQ(total, (np - 1) * (np * (np - 1) / 2));
	MPI_Group_free(&workers);
	MPI_Group_free(&world);
}

/* One call makes a communicator for each of several disjoint groups; a rank with an empty group, or in
 * none, gets MPI_COMM_NULL. */
static void several_at_once(void)
{
	int ranks[MAX], n = 0, sum = 1;
	MPI_Group world, mine = MPI_GROUP_EMPTY;
	MPI_Comm c;

	MPI_Comm_group(WORLD, &world);
	for (int i = np; i-- > 0;)
		if (i % 3 == me % 3)
			ranks[n++] = i;
	if (me % 3 != 2)
		MPI_Group_incl(world, n, ranks, &mine);
	MPI_Comm_create(WORLD, mine, &c);
	CHECK_EQ(c == MPI_COMM_NULL, me % 3 == 2);
	if (c != MPI_COMM_NULL) {
		CHECK(size_of(c) == n && ranks[rank_of(c)] == me);
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, c);
		CHECK_EQ(sum, n);
		MPI_Comm_free(&c);
		MPI_Group_free(&mine);
	}
	MPI_Group_free(&world);
}

/* Disjoint parts make their communicators without the other ranks: two at a time with different tags. */
static void by_group(void)
{
	int ranks[MAX], n = 0, sum;
	MPI_Group world, mine;
	MPI_Comm a, b;

	for (int i = me % 3; i < np; i += 3)
		ranks[n++] = i;
	MPI_Comm_group(WORLD, &world);
	MPI_Group_incl(world, n, ranks, &mine);
	MPI_Comm_create_group(WORLD, mine, 5, &a);
	MPI_Comm_create_group(a, mine, 6, &b);
	CHECK_EQ(compared(a, b), MPI_CONGRUENT);
	CHECK(size_of(a) == n && rank_of(a) == me / 3);
	sum = me;
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, b);
	for (int i = 0; i < n; i++)
		sum -= ranks[i];
	CHECK_EQ(sum, 0);
	MPI_Comm_free(&a);
	meet(b);
	MPI_Comm_free(&b);
	MPI_Group_free(&mine);
	MPI_Group_free(&world);
}

/* A library with a private communicator: operations of the library that are pending between calls do not interfere with the
 * program's. */
static struct library {
	MPI_Comm comm;
	MPI_Request r[2];
	int in, out;
} lib;

static void library_begin(int value)
{
	lib.out = value;
	lib.in = -1;
	MPI_Irecv(&lib.in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, lib.comm, &lib.r[0]);
	MPI_Isend(&lib.out, 1, MPI_INT, (me + 1) % np, 0, lib.comm, &lib.r[1]);
}

static int library_end(void)
{
	MPI_Waitall(2, lib.r, MPI_STATUSES_IGNORE);
	return lib.in;
}

static void libraries(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, v;

	MPI_Comm_dup(WORLD, &lib.comm);
	CHECK_EQ(compared(lib.comm, WORLD), MPI_CONGRUENT);
	for (int i = 0; i < 10; i++) {
		library_begin(1000 * me + i);
		MPI_Sendrecv(&i, 1, MPI_INT, right, 0, &v, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(v, i);
		CHECK_EQ(library_end(), 1000 * left + i);
	}
	MPI_Comm_free(&lib.comm);
}

/* Rows and columns of a grid; a sum along each. */
static void rows_and_columns(void)
{
	int width = np > 3 ? 2 : 1, row = me / width, column = me % width, sum;
	MPI_Comm across, down;

	MPI_Comm_split(WORLD, row, column, &across);
	MPI_Comm_split(WORLD, column, -row, &down);	/* backwards */
	CHECK_EQ(rank_of(across), column);
	CHECK_EQ(rank_of(down), size_of(down) - 1 - row);
	sum = 1;
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, across);
	CHECK_EQ(sum, size_of(across));
	MPI_Scan(&me, &sum, 1, MPI_INT, MPI_SUM, down);
	for (int r = row; r * width + column < np; r++)
		sum -= r * width + column;
	CHECK_EQ(sum, 0);
	MPI_Comm_free(&across);
	MPI_Comm_free(&down);
}

/* A communicator must not be used before MPI_Comm_idup is complete (section 7.4.2). Bindings set the error handler and ask for
 * the group at once, as other MPIs allow: local calls work, and their settings stay; calls that would communicate are refused.
 * Rank 0 calls last, so that the request of no other rank is complete. */
static void duplicate_in_the_making(void)
{
	int dims[1] = { np }, periodic[1] = { 1 }, key, n, flag, rank, topology, v = 0, value = 5;
	char name[MPI_MAX_OBJECT_NAME], text[MPI_MAX_ERROR_STRING];
	MPI_Errhandler handler;
	MPI_Comm line, dup, dup2;
	MPI_Group group;
	MPI_Request q;
	MPI_Info info;
	void *got;

	MPI_Cart_create(WORLD, 1, dims, periodic, 0, &line);
	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(line, key, &value);
	for (int r = 1; r < np && !me; r++)
		MPI_Recv(NULL, 0, MPI_INT, r, 1, WORLD, MPI_STATUS_IGNORE);
	MPI_Comm_idup(line, &dup, &q);
	CHECK_EQ(MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN), MPI_SUCCESS);
	MPI_Comm_get_errhandler(dup, &handler);
	CHECK(handler == MPI_ERRORS_RETURN);
	MPI_Comm_rank(dup, &rank);
	CHECK(rank == me && size_of(dup) == np);
	CHECK_EQ(compared(dup, line), MPI_CONGRUENT);
	MPI_Comm_group(dup, &group);
	MPI_Group_size(group, &n);
	CHECK_EQ(n, np);
	MPI_Group_free(&group);
	MPI_Comm_get_attr(dup, key, &got, &flag);
	CHECK(flag && got == &value);
	MPI_Comm_set_attr(dup, key, &v);
	MPI_Comm_get_attr(dup, MPI_TAG_UB, &got, &flag);
	CHECK(flag);
	MPI_Comm_test_inter(dup, &flag);
	CHECK(!flag);
	MPI_Comm_set_name(dup, "early");
	MPI_Topo_test(dup, &topology);
	CHECK_EQ(topology, MPI_CART);
	MPI_Cart_coords(dup, me, 1, &n);
	CHECK_EQ(n, me);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
	MPI_Comm_set_info(dup, info);
	MPI_Info_free(&info);
	if (me) {
		int rc;

		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
		rc = MPI_Send(&v, 1, MPI_INT, 0, 0, dup);
		MPI_Error_string(rc, text, &n);
		CHECK(class_of(rc) == MPI_ERR_COMM && strstr(text, "MPI_Comm_idup"));
		CHECK_EQ(class_of(MPI_Barrier(dup)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_dup(dup, &dup2)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Cart_sub(dup, (int[]){ 1 }, &dup2)), MPI_ERR_COMM);
		dup2 = dup;
		CHECK_EQ(class_of(MPI_Comm_free(&dup2)), MPI_ERR_COMM);
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
		MPI_Send(NULL, 0, MPI_INT, 0, 1, WORLD);
	}
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	MPI_Comm_get_errhandler(dup, &handler);
	CHECK(handler == MPI_ERRORS_RETURN);
	MPI_Comm_get_attr(dup, key, &got, &flag);
	CHECK(flag && got == &v);
	MPI_Comm_get_name(dup, name, &n);
	CHECK(!strcmp(name, "early"));
	MPI_Comm_get_info(dup, &info);
	MPI_Info_get_string(info, "mpi_assert_allow_overtaking", &(int){ sizeof(text) }, text, &flag);
	CHECK(flag && !strcmp(text, "true"));
	MPI_Info_free(&info);
	MPI_Allreduce(&me, &n, 1, MPI_INT, MPI_SUM, dup);
	CHECK_EQ(n, np * (np - 1) / 2);
	MPI_Comm_free_keyval(&key);
	MPI_Comm_free(&dup);
	MPI_Comm_free(&line);
}

/* A request of a nonblocking collective must not be freed (section 6.12). MPI_Request_free of a complete request frees the
 * request, as a wait would; an active one is refused, and stays active. */
static void freed_collectives(void)
{
	MPI_Request q[2];
	int sum = 0, flag = 0;
	MPI_Comm dup;

	MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, WORLD, &q[0]);
	MPI_Comm_idup(WORLD, &dup, &q[1]);
	while (!flag)
		MPI_Request_get_status_all(2, q, &flag, MPI_STATUSES_IGNORE);
	CHECK_EQ(MPI_Request_free(&q[0]), MPI_SUCCESS);
	CHECK_EQ(MPI_Request_free(&q[1]), MPI_SUCCESS);
	CHECK(q[0] == MPI_REQUEST_NULL && q[1] == MPI_REQUEST_NULL && sum == np * (np - 1) / 2);
	MPI_Comm_free(&dup);
	for (int r = 1; r < np && !me; r++)
		MPI_Recv(NULL, 0, MPI_INT, r, 2, WORLD, MPI_STATUS_IGNORE);
	MPI_Ibarrier(WORLD, &q[0]);
	if (me) {
		FAILS(MPI_Request_free(&q[0]), MPI_ERR_REQUEST);
		CHECK(q[0] != MPI_REQUEST_NULL);
		MPI_Send(NULL, 0, MPI_INT, 0, 2, WORLD);
	}
	MPI_Wait(&q[0], MPI_STATUS_IGNORE);
}

static void other_constructors(void)
{
	MPI_Comm a = MPI_COMM_NULL, b = MPI_COMM_NULL, c, d;
	MPI_Request r[2];
	MPI_Info info, used;
	int v = -1;

	MPI_Comm_idup(WORLD, &a, &r[0]);
	MPI_Comm_idup(WORLD, &b, &r[1]);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	CHECK_EQ(compared(a, b), MPI_CONGRUENT);
	/* two contexts: a receive in one does not match a message of the other */
	MPI_Isend(&me, 1, MPI_INT, (me + 1) % np, 1, a, &r[0]);
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, b, &v, MPI_STATUS_IGNORE);
	CHECK_EQ(v, 0);
	MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, a, MPI_STATUS_IGNORE);
	CHECK_EQ(v, (me + np - 1) % np);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
	MPI_Comm_dup_with_info(WORLD, info, &c);
	MPI_Comm_get_info(c, &used);
	CHECK(used != MPI_INFO_NULL);
	MPI_Info_free(&used);
	MPI_Info_free(&info);
	MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, &d);
	CHECK(size_of(d) <= np);
	CHECK(compared(d, WORLD) == MPI_SIMILAR || size_of(d) < np || np == 1);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
	MPI_Comm_free(&c);
	MPI_Comm_free(&d);
}

/* ---- 7.6: intercommunicators ------------------------------------------------------------------------------------- */

/* Each rank exchanges its rank with the counterpart in the remote group, and checks the sizes of both groups. */
static void across(MPI_Comm inter, int mine, int theirs, int first, int stride)
{
	int flag, local, remote, r, v, peer;
	MPI_Group g, world;
	MPI_Status s;

	MPI_Comm_test_inter(inter, &flag);
	CHECK(flag);
	MPI_Comm_size(inter, &local);
	MPI_Comm_remote_size(inter, &remote);
	MPI_Comm_rank(inter, &r);
	CHECK(local == mine && remote == theirs);
	MPI_Comm_remote_group(inter, &g);
	MPI_Comm_group(WORLD, &world);
	for (int i = 0; i < remote; i++) {
		MPI_Group_translate_ranks(g, 1, &i, world, &v);
		CHECK_EQ(v, first + i * stride);
	}
	MPI_Group_free(&g);
	MPI_Group_free(&world);
	peer = r < remote ? r : MPI_PROC_NULL;
	v = -1;
	MPI_Sendrecv(&me, 1, MPI_INT, peer, 3, &v, 1, MPI_INT, peer, 3, inter, &s);
	CHECK_EQ(s.MPI_SOURCE, peer);
	CHECK_EQ(v, peer == MPI_PROC_NULL ? -1 : first + peer * stride);
}

static int members(int group, int of)
{
	return (np - group + of - 1) / of;
}

/* Three groups; those that are neighbours in the line have an intercommunicator each. */
static void pipeline(void)
{
	int color = me % 3;
	MPI_Comm mine, low = MPI_COMM_NULL, high = MPI_COMM_NULL;

	MPI_Comm_split(WORLD, color, me, &mine);
	if (color == 0)
		MPI_Intercomm_create(mine, 0, WORLD, 1, 1, &high);
	if (color == 1) {
		MPI_Intercomm_create(mine, 0, WORLD, 0, 1, &low);
		MPI_Intercomm_create(mine, 0, WORLD, 2, 12, &high);
	}
	if (color == 2)
		MPI_Intercomm_create(mine, 0, WORLD, 1, 12, &low);
	if (low != MPI_COMM_NULL)
		across(low, members(color, 3), members(color - 1, 3), color - 1, 3);
	if (high != MPI_COMM_NULL)
		across(high, members(color, 3), members(color + 1, 3), color + 1, 3);
	if (low != MPI_COMM_NULL)
		MPI_Comm_free(&low);
	if (high != MPI_COMM_NULL)
		MPI_Comm_free(&high);
	MPI_Comm_free(&mine);
}

/* Three groups in a circle: each makes two, in an order that does not deadlock. */
static void ring(void)
{
	int color = me % 3, n = members(color, 3);
	MPI_Comm mine, to[3];

	for (int i = 0; i < 3; i++)
		to[i] = MPI_COMM_NULL;
	MPI_Comm_split(WORLD, color, me, &mine);
	for (int pair = 0; pair < 3; pair++) {	/* 0 and 1, 0 and 2, 1 and 2 */
		int a = pair == 2, b = pair == 0 ? 1 : 2, other = color == a ? b : a;

		if (color != a && color != b)
			continue;
		MPI_Intercomm_create(mine, 0, WORLD, other, 20 + pair, &to[other]);
	}
	for (int other = 0; other < 3; other++)
		if (other != color)
			across(to[other], n, members(other, 3), other, 3);
	for (int other = 0; other < 3; other++)
		if (other != color)
			MPI_Comm_free(&to[other]);
	MPI_Comm_free(&mine);
}

/* Merged, either side first; duplicated; made of a subset of each side, and split. */
static void merge(void)
{
	int side = me >= np / 2, n[2] = { np / 2, np - np / 2 }, first[2] = { 0, np / 2 }, v;
	MPI_Comm mine, inter, dup, all, peers;
	MPI_Group local, few;

	MPI_Comm_split(WORLD, side, 0, &mine);
	MPI_Comm_dup(WORLD, &peers);
	MPI_Intercomm_create(mine, 0, peers, first[!side], 7, &inter);
	MPI_Comm_free(&peers);
	across(inter, n[side], n[!side], first[!side], 1);
	for (int high = 0; high < 2; high++) {
		MPI_Intercomm_merge(inter, side == high, &all);
		CHECK_EQ(size_of(all), np);
		CHECK_EQ(rank_of(all), (side == high ? n[!side] : 0) + me - first[side]);
		v = 1;
		MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, all);
		CHECK_EQ(v, np);
		MPI_Comm_free(&all);
	}
	/* equal `high` on both sides: either side may come first, the same one at all ranks */
	MPI_Intercomm_merge(inter, 0, &all);
	v = rank_of(all) - (me - first[side]);
	CHECK(v == 0 || v == n[!side]);
	v = side == (v != 0);		/* the upper half is last */
	CHECK(v == 0 || v == 1);
	MPI_Allreduce(MPI_IN_PLACE, &v, 1, MPI_INT, MPI_SUM, all);
	CHECK(v == 0 || v == np);
	MPI_Comm_free(&all);
	MPI_Comm_dup(inter, &dup);
	CHECK_EQ(compared(inter, dup), MPI_CONGRUENT);
	across(dup, n[side], n[!side], first[!side], 1);
	MPI_Comm_free(&dup);
	/* the first of each side */
	MPI_Comm_group(inter, &local);
	MPI_Group_incl(local, 1, (int[]){ 0 }, &few);
	MPI_Comm_create(inter, few, &dup);
	CHECK_EQ(dup != MPI_COMM_NULL, me == first[side]);
	if (dup != MPI_COMM_NULL) {
		across(dup, 1, 1, first[!side], 1);
		MPI_Comm_free(&dup);
	}
	MPI_Group_free(&few);
	/* each side backwards: the group's order is the new one's */
	MPI_Group_range_incl(local, 1, (int[1][3]){ { n[side] - 1, 0, -1 } }, &few);
	MPI_Comm_create(inter, few, &dup);
	CHECK_EQ(rank_of(dup), n[side] - 1 - (me - first[side]));
	across(dup, n[side], n[!side], first[!side] + n[!side] - 1, -1);
	MPI_Comm_free(&dup);
	MPI_Group_free(&few);
	MPI_Group_free(&local);
	/* by the parity of the rank in the local group: if the remote group has no rank of that colour, the result is
	 * MPI_COMM_NULL */
	v = (me - first[side]) % 2;
	MPI_Comm_split(inter, v, 0, &dup);
	if (n[0] > v && n[1] > v) {
		across(dup, (n[side] + 1 - v) / 2, (n[!side] + 1 - v) / 2, first[!side] + v, 2);
		MPI_Comm_free(&dup);
	} else {
		CHECK(dup == MPI_COMM_NULL);
	}
	MPI_Comm_free(&inter);
	MPI_Comm_free(&mine);
}

/* Clients each with a server: the servers' side splits an intercommunicator into one for each of them. */
static void multiple_servers(void)
{
	int servers = np / 3, server = me < servers, color, n, remote;
	MPI_Comm mine, inter, service;

	MPI_Comm_split(WORLD, server, me, &mine);
	MPI_Intercomm_create(mine, 0, WORLD, server ? servers : 0, 3, &inter);
	color = server ? rank_of(mine) : rank_of(mine) % servers;
	MPI_Comm_split(inter, color, 0, &service);
	MPI_Comm_remote_size(service, &remote);
	n = size_of(service);
	if (server) {
		int asked = 0, question;
		MPI_Status s;

		CHECK_EQ(n, 1);
		for (int i = 0; i < remote; i++) {
			MPI_Recv(&question, 1, MPI_INT, MPI_ANY_SOURCE, 0, service, &s);
			CHECK_EQ(question, servers + color + s.MPI_SOURCE * servers);
			asked += 1 << s.MPI_SOURCE;
			question = -question;
			MPI_Send(&question, 1, MPI_INT, s.MPI_SOURCE, 1, service);
		}
		CHECK_EQ(asked, (1 << remote) - 1);
	} else {
		int answer = 0;

		CHECK_EQ(remote, 1);
		MPI_Send(&me, 1, MPI_INT, 0, 0, service);
		MPI_Recv(&answer, 1, MPI_INT, 0, 1, service, MPI_STATUS_IGNORE);
		CHECK_EQ(answer, -me);
	}
	MPI_Comm_free(&service);
	MPI_Comm_free(&inter);
	MPI_Comm_free(&mine);
}

/* ---- 7.7: caching --------------------------------------------------------------------------------------------------- */

static int copied, deleted, copy_fails, delete_fails;

static int copy_count(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)key;
	CHECK(extra == &copied);
	copied++;
	if (copy_fails)
		return MPI_ERR_OTHER;
	*(void **)out = (char *)in + 1;		/* one generation on */
	*flag = (intptr_t)in % 10 < 3;
	return MPI_SUCCESS;
}

static int delete_count(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)value;
	CHECK(extra == &copied);
	if (delete_fails)
		return MPI_ERR_OTHER;
	deleted++;
	return MPI_SUCCESS;
}

static intptr_t cached(MPI_Comm c, int key)
{
	void *value;
	int flag;

	MPI_Comm_get_attr(c, key, &value, &flag);
	return flag ? (intptr_t)value : -1;
}

/* The copy function decides whether a duplicate has the attribute, and with which value; the delete function is called for an
 * attribute that is removed, replaced or freed. */
static void attributes(void)
{
	int key, plain, none, saved;
	MPI_Comm c[6], half;

	copied = deleted = 0;
	MPI_Comm_create_keyval(copy_count, delete_count, &key, &copied);
	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_count, &none, &copied);
	MPI_Comm_dup(WORLD, &c[0]);
	CHECK_EQ(cached(c[0], key), -1);
	MPI_Comm_set_attr(c[0], key, (void *)(intptr_t)20);
	MPI_Comm_set_attr(c[0], plain, &copied);
	MPI_Comm_set_attr(c[0], none, &copied);
	for (int i = 1; i < 6; i++)
		MPI_Comm_dup(c[i - 1], &c[i]);
	CHECK_EQ(copied, 4);
	for (int i = 0; i < 6; i++) {
		CHECK_EQ(cached(c[i], key), i < 4 ? 20 + i : -1);
		CHECK_EQ(cached(c[i], plain), (intptr_t)&copied);
		CHECK_EQ(cached(c[i], none), i ? -1 : (intptr_t)&copied);
	}
	/* MPI_Comm_idup copies attributes at once: an attribute set before completion is not copied */
	MPI_Request r;
	MPI_Comm_idup(c[4], &half, &r);
	MPI_Comm_set_attr(c[4], plain, &deleted);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK_EQ(cached(half, plain), (intptr_t)&copied);
	MPI_Comm_free(&half);
	/* a split communicator has none of the attributes */
	MPI_Comm_split(c[0], 0, 0, &half);
	CHECK(cached(half, key) == -1 && cached(half, plain) == -1 && copied == 4);
	MPI_Comm_free(&half);
	MPI_Comm_set_attr(c[1], key, (void *)(intptr_t)50);
	CHECK(deleted == 1 && cached(c[1], key) == 50);
	MPI_Comm_delete_attr(c[1], key);
	CHECK(deleted == 2 && cached(c[1], key) == -1);
	/* a copy that fails: no duplicate */
	copy_fails = 1;
	MPI_Comm_set_errhandler(c[0], MPI_ERRORS_RETURN);
	half = MPI_COMM_NULL;
	CHECK(MPI_Comm_dup(c[0], &half) != MPI_SUCCESS);
	copy_fails = 0;
	/* a deletion that fails: the attribute stays, and the communicator too */
	delete_fails = 1;
	MPI_Comm_set_errhandler(c[2], MPI_ERRORS_RETURN);
	CHECK(MPI_Comm_delete_attr(c[2], key) != MPI_SUCCESS);
	CHECK_EQ(cached(c[2], key), 22);
	CHECK(MPI_Comm_free(&c[2]) != MPI_SUCCESS);
	CHECK(c[2] != MPI_COMM_NULL);
	delete_fails = 0;
	/* the freed key lives on in attributes */
	saved = key;
	MPI_Comm_free_keyval(&key);
	CHECK_EQ(key, MPI_KEYVAL_INVALID);
	CHECK_EQ(cached(c[3], saved), 23);
	for (int i = 0; i < 6; i++)
		MPI_Comm_free(&c[i]);
	CHECK_EQ(deleted, 2 + 1 + 3);	/* of c[0] two: 20 and the one that is never copied; of c[2], c[3] */
	MPI_Comm_free_keyval(&plain);
	MPI_Comm_free_keyval(&none);
}

/* A library that counts calls on each communicator: made at the first call, freed with the communicator. */
static int sequence_key = MPI_KEYVAL_INVALID, sequences;

static int end_sequence(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)extra;
	free(value);
	sequences--;
	return MPI_SUCCESS;
}

static int next_number(MPI_Comm comm)
{
	int *counter, flag;

	if (sequence_key == MPI_KEYVAL_INVALID)
		MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_sequence, &sequence_key, NULL);
	MPI_Comm_get_attr(comm, sequence_key, &counter, &flag);
	if (!flag) {
		counter = calloc(1, sizeof(*counter));
		MPI_Comm_set_attr(comm, sequence_key, counter);
		sequences++;
	}
	return (*counter)++;
}

static void cached_by_library(void)
{
	MPI_Comm a, b;

	MPI_Comm_dup(WORLD, &a);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(next_number(a), i);
	MPI_Comm_dup(a, &b);
	CHECK_EQ(next_number(b), 0);
	CHECK_EQ(next_number(a), 3);
	CHECK_EQ(sequences, 2);
	MPI_Comm_free(&a);
	CHECK_EQ(sequences, 1);
	CHECK_EQ(next_number(b), 1);
	MPI_Comm_free(&b);
	CHECK_EQ(sequences, 0);
	MPI_Comm_free_keyval(&sequence_key);
}

/* Types have attributes like communicators. */
static int type_copied, type_deleted;

static int copy_type(MPI_Datatype t, int key, void *extra, void *in, void *out, int *flag)
{
	(void)t;
	(void)key;
	(void)extra;
	*(void **)out = in;
	*flag = 1;
	type_copied++;
	return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype t, int key, void *value, void *extra)
{
	(void)t;
	(void)key;
	(void)value;
	(void)extra;
	type_deleted++;
	return MPI_SUCCESS;
}

static void type_attributes(void)
{
	MPI_Datatype a, b, c;
	int key, flag;
	void *value;

	MPI_Type_create_keyval(copy_type, delete_type, &key, NULL);
	MPI_Type_contiguous(2, MPI_INT, &a);
	MPI_Type_set_attr(a, key, &key);
	MPI_Type_dup(a, &b);
	MPI_Type_contiguous(2, a, &c);
	MPI_Type_get_attr(b, key, &value, &flag);
	CHECK(flag && value == &key && type_copied == 1);
	MPI_Type_get_attr(c, key, &value, &flag);
	CHECK(!flag);
	MPI_Type_free(&a);
	CHECK_EQ(type_deleted, 1);
	MPI_Type_delete_attr(b, key);
	CHECK_EQ(type_deleted, 2);
	MPI_Type_free(&b);
	MPI_Type_free(&c);
	CHECK_EQ(type_deleted, 2);
	MPI_Type_free_keyval(&key);
}

/* ---- 7.8 ----------------------------------------------------------------------------------------------------------- */

static void names(void)
{
	char name[MPI_MAX_OBJECT_NAME], longest[MPI_MAX_OBJECT_NAME];
	MPI_Comm a, b;
	int len;

	MPI_Comm_get_name(WORLD, name, &len);
	CHECK(!strcmp(name, "MPI_COMM_WORLD"));
	MPI_Comm_get_name(MPI_COMM_SELF, name, &len);
	CHECK(!strcmp(name, "MPI_COMM_SELF") && len == 13);
	MPI_Comm_dup(WORLD, &a);
	MPI_Comm_get_name(a, name, &len);
	CHECK(!len && !*name);
	memset(longest, 'x', sizeof(longest));
	longest[MPI_MAX_OBJECT_NAME - 1] = 0;
	MPI_Comm_set_name(a, longest);
	MPI_Comm_get_name(a, name, &len);
	CHECK(len == MPI_MAX_OBJECT_NAME - 1 && !strcmp(name, longest));
	MPI_Comm_dup(a, &b);
	MPI_Comm_get_name(b, name, &len);
	CHECK_EQ(len, 0);	/* a name is of one object */
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
}

static const struct standard_case cases[] = {
	{ "7.3", "group_algebra", 1, group_algebra },
	{ "7.5.2", "without_master", 2, without_master },
	{ "7.4.2", "several_at_once", 1, several_at_once },
	{ "7.4.2", "by_group", 1, by_group },
	{ "7.5.5", "libraries", 1, libraries },
	{ "7.4.2", "rows_and_columns", 1, rows_and_columns },
	{ "7.4.2", "duplicate_in_the_making", 1, duplicate_in_the_making },
	{ "6.12", "freed_collectives", 1, freed_collectives },
	{ "7.4.2", "other_constructors", 1, other_constructors },
	{ "7.6.3", "pipeline", 3, pipeline },
	{ "7.6.3", "ring", 3, ring },
	{ "7.6.2", "merge", 2, merge },
	{ "7.4.2", "multiple_servers", 3, multiple_servers },
	{ "7.7.2", "attributes", 1, attributes },
	{ "7.7.6", "cached_by_library", 1, cached_by_library },
	{ "7.7.4", "type_attributes", 1, type_attributes },
	{ "7.8", "names", 1, names },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	test_done("comms");
	return 0;
}
