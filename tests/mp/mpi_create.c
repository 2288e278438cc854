/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors of communicators (MPI-5.0 sections 7.4, 7.6): their members, several under way, intercommunicators, errors. */
#include "mpi_test.h"

#include <limits.h>

static MPI_Group world;

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

/* A ring of messages among a communicator's ranks, which are world[r] of MPI_COMM_WORLD. */
static void check_at(int line, MPI_Comm c, int n, const int *ranks)
{
	int size, r, got;

	MPI_Comm_size(c, &size);
	MPI_Comm_rank(c, &r);
	if (size != n || ranks[r] != me)
		test_fail(__FILE__, line, "%d ranks, mine is %d; %d are wanted", size, r, n);
	MPI_Sendrecv(&me, 1, MPI_INT, (r + 1) % n, line, &got, 1, MPI_INT, MPI_ANY_SOURCE, line, c, MPI_STATUS_IGNORE);
	if (got != ranks[(r + n - 1) % n])
		test_fail(__FILE__, line, "a message from %d instead of %d", got, ranks[(r + n - 1) % n]);
}
#define CHECK_COMM(c, n, ranks) check_at(__LINE__, c, n, ranks)

/* Even ranks backwards, odd ones forwards. */
static int half(int odd, int *ranks)
{
	int n = 0;

	for (int r = odd; r < np; r += 2)
		ranks[n++] = r;
	for (int i = 0; !odd && i < n / 2; i++) {
		int t = ranks[i];

		ranks[i] = ranks[n - 1 - i], ranks[n - 1 - i] = t;
	}
	return n;
}

static void parts(void)
{
	int ranks[16], n = half(me % 2, ranks), even[16], ne = half(0, even);
	MPI_Group g, e;
	MPI_Comm c;

	MPI_Group_incl(world, n, ranks, &g);
	MPI_Group_incl(world, ne, even, &e);
	/* disjoint groups in one call */
	MPI_Comm_create(MPI_COMM_WORLD, g, &c);
	CHECK_COMM(c, n, ranks);
	MPI_Comm_free(&c);
	MPI_Comm_create(MPI_COMM_WORLD, e, &c);
	if (me % 2) {
		CHECK(c == MPI_COMM_NULL);
	} else {
		CHECK_COMM(c, ne, even);
		MPI_Comm_free(&c);
	}
	MPI_Group_free(&e);
	MPI_Group_incl(world, 1, &me, &e);
	MPI_Comm_create(MPI_COMM_WORLD, me ? MPI_GROUP_EMPTY : e, &c);
	CHECK((c == MPI_COMM_NULL) == (me != 0));
	if (!me)
		MPI_Comm_free(&c);
	/* only the members call */
	MPI_Comm_create_group(MPI_COMM_WORLD, g, me % 2, &c);
	CHECK_COMM(c, n, ranks);
	MPI_Comm_free(&c);
	MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_EMPTY, 0, &c);
	CHECK(c == MPI_COMM_NULL);
	for (int i = 0; i < 3; i++) {
		MPI_Comm_create_group(MPI_COMM_WORLD, g, INT_MAX - i, &c);
		CHECK_COMM(c, n, ranks);
		MPI_Comm_free(&c);
	}
	MPI_Comm_create_from_group(g, me % 2 ? "tests.odd" : "tests.even", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c);
	CHECK_COMM(c, n, ranks);
	CHECK_EQ(class_of(MPI_Send(NULL, 0, MPI_INT, n, 0, c)), MPI_ERR_RANK);
	MPI_Comm_free(&c);
	MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "nobody", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c);
	CHECK(c == MPI_COMM_NULL);
	MPI_Group_free(&g);
	MPI_Group_free(&e);
}

/* Many duplicates under way at a time, of overlapping communicators, and other constructors meanwhile. */
static void nonblocking(void)
{
	enum { N = 8 };
	MPI_Comm base[2], c[2 * N], d;
	MPI_Request r[2 * N];
	int ranks[16], n = half(me % 2, ranks), v, result;

	MPI_Comm_dup(MPI_COMM_WORLD, &base[0]);
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, me % 2 ? me : -me, &base[1]);
	for (int i = 0; i < N; i++) {
		/* the order is the same within one communicator only */
		int first = me % 3 == 1;

		MPI_Comm_idup(base[first], &c[2 * i + first], &r[2 * i + first]);
		MPI_Comm_idup(base[!first], &c[2 * i + !first], &r[2 * i + !first]);
	}
	MPI_Comm_split(base[1], 0, 0, &d);
	CHECK_COMM(d, n, ranks);
	MPI_Comm_free(&d);
	if (me % 2)		/* some wait before, some after the next constructor */
		MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE);
	MPI_Comm_dup(base[1], &d);
	MPI_Comm_free(&d);
	MPI_Waitall(2 * N, r, MPI_STATUSES_IGNORE);
	for (int i = 2 * N - 1; i >= 0; i--) {
		MPI_Comm_compare(base[i % 2], c[i], &result);
		CHECK_EQ(result, MPI_CONGRUENT);
		meet(c[i]);
	}
	/* they are apart */
	for (int i = 0; i < N; i++)
		MPI_Isend((int[]){ i }, 1, MPI_INT, me, 0, c[2 * i], &r[i]);
	for (int i = N - 1; i >= 0; i--) {
		MPI_Recv(&v, 1, MPI_INT, me, MPI_ANY_TAG, c[2 * i], MPI_STATUS_IGNORE);
		CHECK_EQ(v, i);
	}
	MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 2 * N; i++)
		MPI_Comm_free(&c[i]);
	/* the parent may go first */
	MPI_Comm_idup(base[0], &c[0], &r[0]);
	MPI_Comm_free(&base[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	meet(c[0]);
	MPI_Comm_free(&c[0]);
	MPI_Comm_free(&base[1]);
}

/* Context ids come back, after every constructor: 40 times as many as there are at a time, in all. */
static void reuse(int times)
{
	MPI_Comm c, d;
	MPI_Request r;

	for (int i = 0; i < times; i++) {
		MPI_Comm_dup(MPI_COMM_SELF, &c);
		MPI_Comm_idup(c, &d, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		MPI_Comm_free(&c);
		MPI_Comm_disconnect(&d);
		CHECK(d == MPI_COMM_NULL);
	}
}

/* ---- intercommunicators -------------------------------------------------------------------------------- */

/* Remote and local groups, and messages each way. */
static void inter_check_at(int line, MPI_Comm c, int nl, const int *local, int nr, const int *remote)
{
	int size, rsize, r, flag, got, i;
	MPI_Request q[16];
	MPI_Status s;
	MPI_Group g;

	MPI_Comm_size(c, &size);
	MPI_Comm_rank(c, &r);
	MPI_Comm_remote_size(c, &rsize);
	MPI_Comm_test_inter(c, &flag);
	if (size != nl || rsize != nr || local[r] != me || !flag)
		test_fail(__FILE__, line, "%d and %d ranks, mine is %d, flag %d", size, rsize, r, flag);
	MPI_Comm_remote_group(c, &g);
	for (i = 0; i < nr; i++) {
		MPI_Group_translate_ranks(g, 1, &i, world, &got);
		if (got != remote[i])
			test_fail(__FILE__, line, "remote rank %d is %d instead of %d", i, got, remote[i]);
	}
	MPI_Group_free(&g);
	MPI_Comm_group(c, &g);
	MPI_Group_size(g, &got);
	CHECK_EQ(got, nl);
	MPI_Group_free(&g);
	for (i = 0; i < nr; i++)
		MPI_Isend(&me, 1, MPI_INT, i, line, c, &q[i]);
	MPI_Probe(0, line, c, &s);
	for (i = 0; i < nr; i++) {
		MPI_Recv(&got, 1, MPI_INT, i ? MPI_ANY_SOURCE : 0, i % 2 ? MPI_ANY_TAG : line, c, &s);
		if (s.MPI_SOURCE < 0 || s.MPI_SOURCE >= nr || got != remote[s.MPI_SOURCE] || s.MPI_TAG != line)
			test_fail(__FILE__, line, "from rank %d, tag %d: %d", s.MPI_SOURCE, s.MPI_TAG, got);
	}
	MPI_Waitall(nr, q, MPI_STATUSES_IGNORE);
}
#define CHECK_INTER(c, nl, local, nr, remote) inter_check_at(__LINE__, c, nl, local, nr, remote)

static void merges(MPI_Comm inter, int nl, const int *local, int nr, const int *remote)
{
	int both[16], n = 0, result, high = me % 2, size;
	MPI_Comm c, d;

	for (int i = 0; i < (high ? nr : nl); i++)
		both[n++] = high ? remote[i] : local[i];
	for (int i = 0; i < (high ? nl : nr); i++)
		both[n++] = high ? local[i] : remote[i];
	MPI_Intercomm_merge(inter, high, &c);
	CHECK_COMM(c, np, both);
	MPI_Comm_compare(c, inter, &result);
	CHECK_EQ(result, MPI_UNEQUAL);
	MPI_Comm_free(&c);
	MPI_Intercomm_merge(inter, 0, &c);
	MPI_Intercomm_merge(inter, 1, &d);
	meet(c);
	meet(d);
	MPI_Comm_size(d, &size);
	CHECK_EQ(size, np);
	MPI_Comm_free(&c);
	MPI_Comm_free(&d);
}

static void inter_parts(MPI_Comm inter, int nl, const int *local, int nr, const int *remote)
{
	int l[16], r[16], n = 0, m = 0, lr, first = 0;
	MPI_Group g, part;
	MPI_Comm c;

	/* odd places of each side; then the even ones; a rank without a partner gets MPI_COMM_NULL */
	MPI_Comm_rank(inter, &lr);
	MPI_Comm_split(inter, lr % 2, -lr, &c);
	for (int i = nl - 1; i >= 0; i--)
		if (i % 2 == lr % 2)
			l[n++] = local[i];
	for (int i = nr - 1; i >= 0; i--)
		if (i % 2 == lr % 2)
			r[m++] = remote[i];
	if (m) {
		CHECK_INTER(c, n, l, m, r);
		MPI_Comm_free(&c);
	} else {
		CHECK(c == MPI_COMM_NULL);
	}
	MPI_Comm_split(inter, MPI_UNDEFINED, 0, &c);
	CHECK(c == MPI_COMM_NULL);
	/* the first of each side */
	MPI_Comm_group(inter, &g);
	MPI_Group_incl(g, 1, &first, &part);
	MPI_Comm_create(inter, part, &c);
	if (lr) {
		CHECK(c == MPI_COMM_NULL);
	} else {
		CHECK_INTER(c, 1, local, 1, remote);
		MPI_Comm_free(&c);
	}
	MPI_Group_free(&g);
	MPI_Group_free(&part);
}

/* All are on one host: a part has the ranks of each group that pass a type other than MPI_UNDEFINED. */
static void inter_by_hardware(MPI_Comm inter, int nl, const int *local, int nr, const int *remote)
{
	int l[16], r[16], n = 0, m = 0, lr;
	MPI_Comm c;

	MPI_Comm_rank(inter, &lr);
	for (int i = nl - 1; i >= 0; i--)
		l[nl - 1 - i] = local[i];
	for (int i = nr - 1; i >= 0; i--)
		r[nr - 1 - i] = remote[i];
	MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, -lr, MPI_INFO_NULL, &c);
	CHECK_INTER(c, nl, l, nr, r);
	MPI_Comm_free(&c);
	MPI_Comm_split_type(inter, MPI_UNDEFINED, 0, MPI_INFO_NULL, &c);
	CHECK(c == MPI_COMM_NULL);
	for (int i = 0; i < nl; i += 2)
		l[n++] = local[i];
	for (int i = 0; i < nr; i += 2)
		r[m++] = remote[i];
	MPI_Comm_split_type(inter, lr % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &c);
	if (lr % 2) {
		CHECK(c == MPI_COMM_NULL);
	} else {
		CHECK_INTER(c, n, l, m, r);
		MPI_Comm_free(&c);
	}
	/* the parts depend on the launcher's bindings; no rank waits, and a part has a partner part */
	MPI_Comm_split_type(inter, MPI_COMM_TYPE_HW_UNGUIDED, lr, MPI_INFO_NULL, &c);
	if (c != MPI_COMM_NULL) {
		MPI_Comm_remote_size(c, &m);
		CHECK(m >= 1 && m <= nr);
		MPI_Comm_free(&c);
	}
}

/* Arguments that are significant at the leader only: all ranks get the error, none waits. */
static void inter_refused(void)
{
	MPI_Comm c;

	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_WORLD, np - 1, 3, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_WORLD, np - 1, MPI_COMM_WORLD, 0, 3, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_WORLD, np / 2, MPI_COMM_WORLD, np, 3, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_NULL, 0, 3, &c)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Intercomm_create_from_groups(world, np - 1, world, 0, "tests.overlap", MPI_INFO_NULL,
							   MPI_ERRORS_RETURN, &c)), MPI_ERR_GROUP);
	/* the refused call leaves no message behind */
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	meet(c);
	MPI_Comm_free(&c);
}

static void inter(void)
{
	int l[16], r[16], nl = half(me % 2, l), nr = half(1 - me % 2, r), result, lead = nl - 1, other = me % 2 ? nr - 1 : 0;
	MPI_Comm mine, c, d;
	MPI_Request q;
	MPI_Group g, h;

	if (np < 2)
		return;
	/* leaders: of the even ones the last, which is world's 0; of the odd ones the first */
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, me % 2 ? me : -me, &mine);
	MPI_Intercomm_create(mine, me % 2 ? 0 : lead, MPI_COMM_WORLD, me % 2 ? 0 : 1, 17, &c);
	CHECK_INTER(c, nl, l, nr, r);
	MPI_Comm_dup(c, &d);
	MPI_Comm_compare(c, d, &result);
	CHECK_EQ(result, MPI_CONGRUENT);
	MPI_Comm_compare(c, mine, &result);
	CHECK_EQ(result, MPI_UNEQUAL);
	MPI_Comm_free(&c);
	CHECK_INTER(d, nl, l, nr, r);
	MPI_Comm_idup(d, &c, &q);
	merges(d, nl, l, nr, r);
	inter_parts(d, nl, l, nr, r);
	inter_by_hardware(d, nl, l, nr, r);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	CHECK_INTER(c, nl, l, nr, r);
	MPI_Comm_free(&c);
	MPI_Comm_set_errhandler(d, MPI_ERRORS_RETURN);
	CHECK_EQ(class_of(MPI_Barrier(d)), MPI_SUCCESS);
	/* there is no such operation on intercommunicators at all (section 6.2.2) */
	CHECK_EQ(class_of(MPI_Scan(&me, &result, 1, MPI_INT, MPI_SUM, d)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Iexscan(&me, &result, 1, MPI_INT, MPI_SUM, d, &q)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Send(NULL, 0, MPI_INT, nr, 0, d)), MPI_ERR_RANK);
	MPI_Comm_group(d, &g);
	CHECK_EQ(class_of(MPI_Comm_create_group(d, g, 0, &c)), MPI_ERR_COMM);
	MPI_Group_free(&g);
	MPI_Comm_disconnect(&d);
	/* without a parent */
	MPI_Group_incl(world, nl, l, &g);
	MPI_Group_incl(world, nr, r, &h);
	MPI_Intercomm_create_from_groups(g, me % 2 ? 0 : lead, h, other, "tests.inter", MPI_INFO_NULL,
					 MPI_ERRORS_ARE_FATAL, &c);
	MPI_Group_free(&g);
	MPI_Group_free(&h);
	CHECK_INTER(c, nl, l, nr, r);
	MPI_Comm_free(&c);
	MPI_Comm_free(&mine);
}

/* The groups have used different numbers of context ids, and made different numbers of agreements. */
static void inter_of_unlike(void)
{
	int n[2], ranks[2][16], mine_of = me % 2;
	MPI_Comm mine, c, several[40], d[2];
	MPI_Request q[2];

	if (np < 2)
		return;
	for (int odd = 0; odd < 2; odd++) {
		n[odd] = 0;
		for (int r = odd; r < np; r += 2)
			ranks[odd][n[odd]++] = r;
	}
	MPI_Comm_split(MPI_COMM_WORLD, mine_of, me, &mine);
	for (int i = 0; i < 40; i++)
		several[i] = MPI_COMM_NULL;
	/* rank 0 has the latest numbers, and the even ones the most ids */
	for (int i = 0; i < 40 && !me; i++)
		MPI_Comm_dup(MPI_COMM_SELF, &several[i]);
	MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, me % 2 ? 0 : 1, 18, &c);
	CHECK_INTER(c, n[mine_of], ranks[mine_of], n[!mine_of], ranks[!mine_of]);
	/* one that is of both groups and one that is not: in one order on all, whichever rank gave them their numbers */
	for (int i = 0; i < 20; i++) {
		MPI_Comm_idup(MPI_COMM_WORLD, &d[0], &q[0]);
		MPI_Comm_idup(c, &d[1], &q[1]);
		MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
		CHECK_INTER(d[1], n[mine_of], ranks[mine_of], n[!mine_of], ranks[!mine_of]);
		MPI_Comm_free(&d[0]);
		MPI_Comm_free(&d[1]);
	}
	for (int i = 0; i < 40; i++)
		if (several[i] != MPI_COMM_NULL)
			MPI_Comm_free(&several[i]);
	MPI_Comm_free(&c);
	MPI_Comm_free(&mine);
}

/* ---- hints, and splitting by hardware ---------------------------------------------------------------------------- */

static int hint(MPI_Comm c, const char *key)
{
	int len = 16, flag;
	char value[16] = "";
	MPI_Info info;

	MPI_Comm_get_info(c, &info);
	MPI_Info_get_string(info, key, &len, value, &flag);
	MPI_Info_free(&info);
	CHECK(flag && (!strcmp(value, "true") || !strcmp(value, "false")));
	return !strcmp(value, "true");
}

/* Given hints hold; those of the original communicator do not; unknown ones are not returned. */
static void hints(void)
{
	static const char key[] = "mpi_assert_allow_overtaking";
	/* these are ignored: MPI_Comm_get_info returns none that it was not told */
	static const char *const others[] = { "mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
					      "heddle_unheard_of" };
	MPI_Info info, got;
	MPI_Comm c, d, e;
	MPI_Request q;
	char value[16];
	int len = 16, flag, a = 1, b = 2, v[2] = { 0 };

	MPI_Info_create(&info);
	CHECK(!hint(MPI_COMM_WORLD, key));
	MPI_Info_set(info, key, "perhaps");
	MPI_Comm_set_info(MPI_COMM_WORLD, info);
	CHECK(!hint(MPI_COMM_WORLD, key));
	MPI_Info_set(info, key, "true");
	for (int i = 0; i < 4; i++)
		MPI_Info_set(info, others[i], "true");
	MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &c);
	MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &e, &q);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	MPI_Comm_dup(c, &d);
	CHECK(hint(c, key) && !hint(d, key) && hint(e, key));
	MPI_Comm_get_info(c, &got);
	for (int i = 0; i < 4; i++) {
		MPI_Info_get_string(got, others[i], &len, value, &flag);
		CHECK(!flag);
	}
	MPI_Info_free(&got);
	/* where messages may overtake, an exact receive still gets its own, and the wildcard the other */
	MPI_Irecv(&v[0], 1, MPI_INT, me, MPI_ANY_TAG, c, &q);
	MPI_Send(&a, 1, MPI_INT, me, 1, c);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	MPI_Irecv(&v[0], 1, MPI_INT, me, 1, c, &q);
	MPI_Send(&b, 1, MPI_INT, me, 1, c);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	CHECK_EQ(v[0], 2);
	MPI_Info_set(info, key, "no value");
	MPI_Comm_set_info(c, info);
	CHECK(hint(c, key));
	MPI_Info_set(info, key, "false");
	MPI_Comm_set_info(c, info);
	CHECK(!hint(c, key));
	MPI_Info_free(&info);
	MPI_Comm_free(&c);
	MPI_Comm_free(&d);
	MPI_Comm_free(&e);
}

/* Parts of one kind: each rank is in at most one, in order of key; those of one host are together. */
static int part(int type, MPI_Info info, int key)
{
	int size = 0, rank, got;
	MPI_Comm c;

	MPI_Comm_split_type(MPI_COMM_WORLD, type, key, info, &c);
	if (c == MPI_COMM_NULL)
		return 0;
	MPI_Comm_size(c, &size);
	MPI_Comm_rank(c, &rank);
	if (rank + 1 < size)
		MPI_Send(&key, 1, MPI_INT, rank + 1, 0, c);
	if (rank) {
		MPI_Recv(&got, 1, MPI_INT, rank - 1, 0, c, MPI_STATUS_IGNORE);
		CHECK(got <= key);
	}
	MPI_Comm_free(&c);
	return size;
}

/* The info has the kind of resource of the split, the same one at all ranks of a part. */
static void unguided(void)
{
	char type[MPI_MAX_INFO_VAL], of_first[MPI_MAX_INFO_VAL];
	int flag, len = sizeof(type), rank, n, known = 0;
	MPI_Info info, kinds;
	MPI_Comm c;

	MPI_Info_create(&info);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &c);
	MPI_Info_get_string(info, "mpi_hw_resource_type", &len, type, &flag);
	CHECK_EQ(flag, c != MPI_COMM_NULL);
	if (c != MPI_COMM_NULL) {
		strcpy(of_first, type);
		MPI_Comm_rank(c, &rank);
		MPI_Bcast(of_first, MPI_MAX_INFO_VAL, MPI_CHAR, 0, c);
		CHECK(!strcmp(type, of_first));
		MPI_Get_hw_resource_info(&kinds);
		len = sizeof(of_first);
		MPI_Info_get_string(kinds, type, &len, of_first, &known);
		CHECK(known);
		MPI_Info_free(&kinds);
		MPI_Comm_size(c, &n);
		CHECK_EQ(part(MPI_UNDEFINED, MPI_INFO_NULL, 0), 0);
		MPI_Comm_free(&c);
	} else {
		CHECK_EQ(part(MPI_UNDEFINED, MPI_INFO_NULL, 0), 0);
	}
	/* that the key is there is no hint to this kind of split, and one that can only be read stays */
	MPI_Info_set(info, "mpi_hw_resource_type", "no such thing");
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &c);
	MPI_Info_get_string(info, "mpi_hw_resource_type", &(int){ sizeof(type) }, type, &flag);
	CHECK_EQ(!strcmp(type, "no such thing"), c == MPI_COMM_NULL);
	if (c != MPI_COMM_NULL)
		MPI_Comm_free(&c);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_ENV, &c);
	if (c != MPI_COMM_NULL)
		MPI_Comm_free(&c);
	MPI_Info_get_string(MPI_INFO_ENV, "mpi_hw_resource_type", &(int){ sizeof(type) }, type, &flag);
	CHECK(!flag);
	MPI_Info_free(&info);
}

static void by_hardware(void)
{
	static const char *const types[] = { "mpi_shared_memory", "hwloc://Machine", "hwloc://Package", "hwloc://NUMANode",
					     "hwloc://Core", "hwloc://PU", "no such thing" };
	int all = part(MPI_COMM_TYPE_SHARED, MPI_INFO_NULL, -me), n;
	MPI_Info info;

	CHECK_EQ(all, np);		/* this test runs on one host */
	CHECK_EQ(part(MPI_UNDEFINED, MPI_INFO_NULL, 0), 0);
	CHECK_EQ(part(me ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, MPI_INFO_NULL, 0), me ? np - 1 : 0);
	n = part(MPI_COMM_TYPE_HW_UNGUIDED, MPI_INFO_NULL, me);
	CHECK(n < np);
	CHECK_EQ(part(MPI_COMM_TYPE_HW_GUIDED, MPI_INFO_NULL, me), 0);
	MPI_Info_create(&info);
	CHECK_EQ(part(MPI_COMM_TYPE_RESOURCE_GUIDED, info, me), 0);
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		MPI_Info_set(info, "mpi_hw_resource_type", types[i]);
		n = part(i % 2 ? MPI_COMM_TYPE_HW_GUIDED : MPI_COMM_TYPE_RESOURCE_GUIDED, info, me);
		CHECK(i < 2 ? n == np : i == 6 ? n == 0 : n <= np);
	}
	MPI_Info_delete(info, "mpi_hw_resource_type");
	MPI_Info_set(info, "mpi_pset_name", "mpi://SELF");
	CHECK_EQ(part(MPI_COMM_TYPE_RESOURCE_GUIDED, info, me), 1);
	MPI_Info_free(&info);
	unguided();
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static void refused(void)
{
	MPI_Comm bad[] = { MPI_COMM_NULL, (MPI_Comm)MPI_INT, (MPI_Comm)(intptr_t)0x444, (MPI_Comm)world, NULL }, c;
	MPI_Group one, empty = MPI_GROUP_EMPTY;
	MPI_Request q;
	int n, zero = 0;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		MPI_Comm b = bad[i];

		CHECK_EQ(class_of(MPI_Comm_dup(b, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_idup(b, &c, &q)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_split(b, 0, 0, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_create(b, world, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_create_group(b, world, 0, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Intercomm_create(b, 0, MPI_COMM_WORLD, 0, 0, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Intercomm_merge(b, 0, &c)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_test_inter(b, &n)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_remote_size(b, &n)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_remote_group(b, &one)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_compare(MPI_COMM_WORLD, b, &n)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_free(&b)), MPI_ERR_COMM);
		CHECK_EQ(class_of(MPI_Comm_disconnect(&b)), MPI_ERR_COMM);
	}
	CHECK_EQ(class_of(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &c)), MPI_ERR_GROUP);
	if (np > 1) {
		CHECK_EQ(class_of(MPI_Comm_create(MPI_COMM_SELF, world, &c)), MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Comm_create_group(MPI_COMM_SELF, world, 0, &c)), MPI_ERR_GROUP);
	}
	CHECK_EQ(class_of(MPI_Comm_create_group(MPI_COMM_WORLD, world, -5, &c)), MPI_ERR_TAG);
	CHECK_EQ(class_of(MPI_Comm_create_group(MPI_COMM_WORLD, world, 0, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_remote_size(MPI_COMM_WORLD, &n)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Comm_remote_group(MPI_COMM_WORLD, &one)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &c)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 1, MPI_COMM_WORLD, 0, 0, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, np, 0, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, me, 0, &c)), MPI_ERR_RANK);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_NULL, 0, 0, &c)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, 0, -1, &c)), MPI_ERR_TAG);
	CHECK_EQ(class_of(MPI_Comm_create_from_group(MPI_GROUP_NULL, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c)), MPI_ERR_GROUP);
	CHECK_EQ(class_of(MPI_Comm_create_from_group(world, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &c)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_create_from_group(world, "x", MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &c)), MPI_ERR_ERRHANDLER);
	if (np > 1) {
		MPI_Group_incl(world, 1, &zero, &one);
		if (me)
			CHECK_EQ(class_of(MPI_Comm_create_from_group(one, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c)),
				 MPI_ERR_GROUP);
		CHECK_EQ(class_of(MPI_Intercomm_create_from_groups(empty, 0, one, 0, "x", MPI_INFO_NULL, MPI_ERRORS_RETURN, &c)),
			 MPI_ERR_GROUP);
		MPI_Group_free(&one);
	}
	CHECK_EQ(class_of(MPI_Comm_split_type(MPI_COMM_WORLD, 77, 0, MPI_INFO_NULL, &c)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, (MPI_Info)MPI_INT, &c)), MPI_ERR_INFO);
	CHECK_EQ(class_of(MPI_Comm_dup_with_info(MPI_COMM_WORLD, (MPI_Info)MPI_INT, &c)), MPI_ERR_INFO);
	CHECK_EQ(class_of(MPI_Comm_set_info(MPI_COMM_WORLD, (MPI_Info)MPI_INT)), MPI_ERR_INFO);
	CHECK_EQ(class_of(MPI_Comm_get_info(MPI_COMM_WORLD, NULL)), MPI_ERR_ARG);
	c = MPI_COMM_SELF;
	CHECK_EQ(class_of(MPI_Comm_disconnect(&c)), MPI_ERR_COMM);
	inter_refused();
	/* a handle that was freed */
	MPI_Comm_dup(MPI_COMM_SELF, &c);
	bad[0] = c;
	MPI_Comm_free(&c);
	CHECK_EQ(class_of(MPI_Comm_size(bad[0], &n)), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	parts();
	nonblocking();
	inter();
	inter_of_unlike();
	hints();
	by_hardware();
	reuse(argc > 1 ? atoi(argv[1]) : 20000);
	refused();
	MPI_Group_free(&world);
	test_done("create");
	return 0;
}
