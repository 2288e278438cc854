/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitioned communication (MPI-5.0 chapter 4), a case each. Two ranks are the pair; more look on. Runs under any MPI that has
 * the chapter. Arguments: names of cases.
 */
#include "standard.h"

#define WORLD	MPI_COMM_WORLD

static MPI_Request send_init(const void *buf, int n, int count, MPI_Datatype t, int dest, int tag)
{
	MPI_Request q;

	CHECK_EQ(MPI_Psend_init(buf, n, count, t, dest, tag, WORLD, MPI_INFO_NULL, &q), MPI_SUCCESS);
	CHECK(q != MPI_REQUEST_NULL);
	return q;
}

static MPI_Request recv_init(void *buf, int n, int count, MPI_Datatype t, int src, int tag)
{
	MPI_Request q;

	CHECK_EQ(MPI_Precv_init(buf, n, count, t, src, tag, WORLD, MPI_INFO_NULL, &q), MPI_SUCCESS);
	CHECK(q != MPI_REQUEST_NULL);
	return q;
}

static int arrived(MPI_Request q, int i)
{
	int flag = -1;

	CHECK_EQ(MPI_Parrived(q, i, &flag), MPI_SUCCESS);
	CHECK(flag == 0 || flag == 1);
	return flag;
}

/* The pair (n partitions of c) to (m partitions of k), four epochs, partitions in some order. */
static void pair(int n, int c, int m, int k, int tag)
{
	int total = n * c;
	unsigned char *buf = calloc(total + 1, 1);
	MPI_Request q;
	MPI_Status s;

	CHECK_EQ(total, m * k);
	if (me > 1)
		goto out;
	q = me ? recv_init(buf, m, k, MPI_BYTE, 0, tag) : send_init(buf, n, c, MPI_BYTE, 1, tag);
	for (int epoch = 0; epoch < 4; epoch++) {
		uint64_t seed = seed_of(0, 1, tag, epoch);

		if (!me) {
			fill(buf, total, seed);
			MPI_Start(&q);
			for (int i = 0; i < n; i++)
				CHECK_EQ(MPI_Pready(epoch % 2 ? n - 1 - i : i, q), MPI_SUCCESS);
			MPI_Wait(&q, &s);
		} else {
			memset(buf, 0xee, total);
			CHECK(arrived(q, 0));	/* inactive: true */
			MPI_Start(&q);
			if (epoch % 2)
				for (int j = m - 1; j >= 0; j--)
					while (!arrived(q, j))
						;
			if (epoch % 2)
				VERIFY(buf, total, seed);
			MPI_Wait(&q, &s);
			CHECK(s.MPI_SOURCE == 0 && s.MPI_TAG == tag);
			CHECK_EQ(count_of(&s, MPI_BYTE), total);
			VERIFY(buf, total, seed);
		}
		CHECK(q != MPI_REQUEST_NULL);
	}
	MPI_Request_free(&q);
	CHECK(q == MPI_REQUEST_NULL);
out:
	free(buf);
}

static void shapes(void)
{
	pair(1, 1, 1, 1, 0);
	pair(8, 16, 8, 16, 1);
	pair(8, 16, 2, 64, 2);
	pair(2, 64, 8, 16, 3);
	pair(6, 10, 4, 15, 4);
	pair(4, 30000, 4, 30000, 5);
	pair(3, 40000, 5, 24000, 6);
	pair(2, 3000000, 3, 2000000, 7);
	pair(1000, 8, 10, 800, 8);
}

/* Ranges and lists, in the order of the caller. */
static void ready_forms(void)
{
	int buf[16], list[] = { 15, 3, 9, 1 };
	MPI_Request q;

	if (me > 1)
		return;
	for (int i = 0; i < 16; i++)
		buf[i] = me ? -1 : i * i;
	if (me) {
		q = recv_init(buf, 16, 1, MPI_INT, 0, 1);
		MPI_Start(&q);
		while (!arrived(q, 15) || !arrived(q, 1))
			;
		CHECK(buf[15] == 225 && buf[1] == 1);
		MPI_Send(NULL, 0, MPI_INT, 0, 2, WORLD);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		for (int i = 0; i < 16; i++)
			CHECK_EQ(buf[i], i * i);
	} else {
		int flag = -1;

		q = send_init(buf, 16, 1, MPI_INT, 1, 1);
		MPI_Start(&q);
		CHECK_EQ(MPI_Pready_list(4, list, q), MPI_SUCCESS);
		CHECK_EQ(MPI_Pready_list(0, NULL, q), MPI_SUCCESS);
		MPI_Recv(NULL, 0, MPI_INT, 1, 2, WORLD, MPI_STATUS_IGNORE);
		MPI_Test(&q, &flag, MPI_STATUS_IGNORE);
		CHECK(!flag);
		CHECK_EQ(MPI_Pready_range(4, 8, q), MPI_SUCCESS);
		CHECK_EQ(MPI_Pready_range(10, 14, q), MPI_SUCCESS);
		CHECK_EQ(MPI_Pready(2, q), MPI_SUCCESS);
		CHECK_EQ(MPI_Pready_range(0, 0, q), MPI_SUCCESS);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
	}
	MPI_Request_free(&q);
}

/* Section 4.2.1: pairs are made in the order of the init calls; starts may come in any order. Not with other messages. */
static void matching(void)
{
	int a[2] = { -1, -1 }, b[2] = { -1, -1 }, other = -1;
	MPI_Request q[2], r;

	if (me > 1)
		return;
	if (!me) {
		a[0] = 1, a[1] = 2, b[0] = 3, b[1] = 4, other = 9;
		q[0] = send_init(a, 2, 1, MPI_INT, 1, 5);
		q[1] = send_init(b, 2, 1, MPI_INT, 1, 5);
		MPI_Start(&q[1]);
		MPI_Pready_range(0, 1, q[1]);
		MPI_Send(&other, 1, MPI_INT, 1, 5, WORLD);
		MPI_Start(&q[0]);
		MPI_Pready_range(0, 1, q[0]);
	} else {
		q[0] = recv_init(a, 1, 2, MPI_INT, 0, 5);
		q[1] = recv_init(b, 1, 2, MPI_INT, 0, 5);
		MPI_Startall(2, q);
		MPI_Irecv(&other, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		CHECK_EQ(other, 9);
	}
	MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
	CHECK(a[0] == 1 && a[1] == 2 && b[0] == 3 && b[1] == 4);
	MPI_Request_free(&q[0]);
	MPI_Request_free(&q[1]);
}

/* Nothing lands before the receiver's MPI_Start, in the first epoch and in later ones. */
static void not_before_start(void)
{
	enum { N = 4, EACH = 50000 };
	unsigned char *buf = calloc(N, EACH);
	MPI_Request q;

	if (me > 1)
		goto out;
	q = me ? recv_init(buf, N, EACH, MPI_BYTE, 0, 8) : send_init(buf, N, EACH, MPI_BYTE, 1, 8);
	for (int epoch = 0; epoch < 3; epoch++) {
		memset(buf, me ? 0xaa : epoch + 1, N * EACH);
		if (!me) {
			MPI_Start(&q);
			MPI_Pready_range(0, N - 1, q);
			MPI_Send(NULL, 0, MPI_BYTE, 1, 9, WORLD);
		} else {
			MPI_Recv(NULL, 0, MPI_BYTE, 0, 9, WORLD, MPI_STATUS_IGNORE);
			for (int i = 0; i < 1000; i++) {
				int flag;

				MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &flag, MPI_STATUS_IGNORE);
			}
			for (int i = 0; i < N * EACH; i++)
				CHECK_EQ(buf[i], 0xaa);
			MPI_Start(&q);
		}
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		CHECK(buf[0] == epoch + 1 && buf[N * EACH - 1] == epoch + 1);
	}
	MPI_Request_free(&q);
out:
	free(buf);
}

/* The receiver has started, and the sender has received a later message, before the sender's first start. In later epochs the
 * receiver starts ahead of some partitions, and behind the rest. */
static void receiver_first(void)
{
	enum { N = 8, EACH = 100 };
	int buf[N * EACH] = { 0 };
	MPI_Request q;

	if (me > 1)
		return;
	q = me ? recv_init(buf, N, EACH, MPI_INT, 0, 8) : send_init(buf, N, EACH, MPI_INT, 1, 8);
	for (int epoch = 0; epoch < 10; epoch++) {
		for (int i = 0; i < N * EACH; i++)
			buf[i] = me ? -1 : epoch + i;
		if (me) {
			if (epoch)
				MPI_Recv(NULL, 0, MPI_BYTE, 0, 9, WORLD, MPI_STATUS_IGNORE);
			MPI_Start(&q);
			MPI_Send(NULL, 0, MPI_BYTE, 0, 9, WORLD);
		} else {
			if (epoch)
				MPI_Start(&q);
			for (int i = 0; epoch && i < N / 2; i++)
				MPI_Pready(i, q);
			if (epoch)
				MPI_Send(NULL, 0, MPI_BYTE, 1, 9, WORLD);
			MPI_Recv(NULL, 0, MPI_BYTE, 1, 9, WORLD, MPI_STATUS_IGNORE);
			if (!epoch)
				MPI_Start(&q);
			for (int i = epoch ? N / 2 : 0; i < N; i++)
				MPI_Pready(i, q);
		}
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		for (int i = 0; me && i < N * EACH; i++)
			CHECK_EQ(buf[i], epoch + i);
	}
	MPI_Request_free(&q);
}

/* Derived types on either side; a type may be freed when the request is made. */
static void types(void)
{
	enum { N = 6, EACH = 500 };
	static int wide[N * EACH * 2], dense[N * EACH];
	MPI_Datatype every_other;
	MPI_Request q[2];

	if (me > 1)
		return;
	for (int i = 0; i < N * EACH; i++) {
		wide[2 * i] = me ? -1 : i;
		wide[2 * i + 1] = -7;
		dense[i] = me ? -1 : 3 * i;
	}
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_other);
	MPI_Type_commit(&every_other);
	if (!me) {
		q[0] = send_init(wide, N, EACH, every_other, 1, 1);	/* with holes to dense */
		q[1] = send_init(dense, N, EACH, MPI_INT, 1, 2);	/* and back */
	} else {
		q[0] = recv_init(dense, 4, N * EACH / 4, MPI_INT, 0, 1);
		q[1] = recv_init(wide, N, EACH, every_other, 0, 2);
	}
	MPI_Type_free(&every_other);
	for (int epoch = 0; epoch < 2; epoch++) {
		MPI_Startall(2, q);
		for (int i = 0; !me && i < N; i++) {
			MPI_Pready(i, q[1]);
			MPI_Pready(N - 1 - i, q[0]);
		}
		MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
		for (int i = 0; me && i < N * EACH; i++)
			CHECK(dense[i] == i && wide[2 * i] == 3 * i && wide[2 * i + 1] == -7);
	}
	MPI_Request_free(&q[0]);
	MPI_Request_free(&q[1]);
}

/* Partitions without bytes are ready, too, before the receive is done. */
static void empty(void)
{
	MPI_Request q;
	MPI_Status s;
	int flag;

	if (me > 1)
		return;
	q = me ? recv_init(NULL, 3, 0, MPI_INT, 0, 1) : send_init(NULL, 2, 0, MPI_INT, 1, 1);
	for (int epoch = 0; epoch < 2; epoch++) {
		MPI_Start(&q);
		if (!me) {
			MPI_Recv(NULL, 0, MPI_INT, 1, 2, WORLD, MPI_STATUS_IGNORE);	/* the receiver has started */
			MPI_Pready(1, q);
			MPI_Sendrecv(NULL, 0, MPI_INT, 1, 2, NULL, 0, MPI_INT, 1, 2, WORLD, MPI_STATUS_IGNORE);
			MPI_Pready(0, q);
		} else {
			MPI_Sendrecv(NULL, 0, MPI_INT, 0, 2, NULL, 0, MPI_INT, 0, 2, WORLD, MPI_STATUS_IGNORE);
			MPI_Test(&q, &flag, MPI_STATUS_IGNORE);
			CHECK(!flag && !arrived(q, 0));
			MPI_Send(NULL, 0, MPI_INT, 0, 2, WORLD);
			while (!arrived(q, 2))
				;
		}
		MPI_Wait(&q, &s);
		CHECK(!me || count_of(&s, MPI_INT) == 0);
	}
	MPI_Request_free(&q);
}

static void null_and_self(void)
{
	int out[12] = { 0 }, in[12] = { 0 }, flag;
	MPI_Request q[2];
	MPI_Status s;

	q[0] = send_init(out, 3, 4, MPI_INT, MPI_PROC_NULL, 0);
	q[1] = recv_init(in, 3, 4, MPI_INT, MPI_PROC_NULL, 0);
	MPI_Startall(2, q);
	MPI_Pready_range(0, 2, q[0]);
	CHECK(arrived(q[1], 1));
	MPI_Wait(&q[1], &s);
	CHECK(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG && count_of(&s, MPI_INT) == 0);
	MPI_Wait(&q[0], &s);
	MPI_Request_free(&q[0]);
	MPI_Request_free(&q[1]);
	for (int i = 0; i < 12; i++)
		out[i] = me * 100 + i;
	q[0] = send_init(out, 3, 4, MPI_INT, me, 7);
	q[1] = recv_init(in, 4, 3, MPI_INT, me, 7);
	for (int epoch = 0; epoch < 4; epoch++) {
		MPI_Start(&q[epoch % 2]);
		if (epoch % 2)
			MPI_Start(&q[0]);
		MPI_Pready(0, q[0]);
		if (epoch % 2 == 0)
			MPI_Start(&q[1]);
		MPI_Pready(2, q[0]);
		CHECK(arrived(q[1], 0) && !arrived(q[1], 1) && !arrived(q[1], 2) && arrived(q[1], 3));
		MPI_Testall(2, q, &flag, MPI_STATUSES_IGNORE);
		CHECK(!flag);
		MPI_Pready(1, q[0]);
		MPI_Testall(2, q, &flag, MPI_STATUSES_IGNORE);
		CHECK(flag);
		CHECK(!memcmp(in, out, sizeof in));
		memset(in, 0, sizeof in);
	}
	MPI_Request_free(&q[0]);
	MPI_Request_free(&q[1]);
}

static void errors(void)
{
	int buf[4] = { 0 }, flag, other = 1 % np;
	MPI_Request q = MPI_REQUEST_NULL, s, r;

	FAILS(MPI_Psend_init(buf, 0, 1, MPI_INT, other, 0, WORLD, MPI_INFO_NULL, &q), MPI_ERR_ARG);
	FAILS(MPI_Psend_init(buf, 1, -1, MPI_INT, other, 0, WORLD, MPI_INFO_NULL, &q), MPI_ERR_COUNT);
	FAILS(MPI_Psend_init(buf, 1, 1, MPI_INT, np, 0, WORLD, MPI_INFO_NULL, &q), MPI_ERR_RANK);
	FAILS(MPI_Precv_init(buf, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, MPI_INFO_NULL, &q), MPI_ERR_RANK);
	FAILS(MPI_Precv_init(buf, 1, 1, MPI_INT, other, MPI_ANY_TAG, WORLD, MPI_INFO_NULL, &q), MPI_ERR_TAG);
	FAILS(MPI_Psend_init(buf, 1, 1, MPI_INT, other, 0, MPI_COMM_NULL, MPI_INFO_NULL, &q), MPI_ERR_COMM);
	CHECK(q == MPI_REQUEST_NULL);
	s = send_init(buf, 2, 2, MPI_INT, me, 3);
	r = recv_init(buf, 2, 2, MPI_INT, me, 3);
	FAILS(MPI_Pready(0, s), MPI_ERR_REQUEST);	/* not started */
	MPI_Start(&s);
	FAILS(MPI_Pready(2, s), MPI_ERR_ARG);
	FAILS(MPI_Pready(-1, s), MPI_ERR_ARG);
	FAILS(MPI_Pready_range(1, 0, s), MPI_ERR_ARG);
	FAILS(MPI_Pready(0, r), MPI_ERR_REQUEST);
	FAILS(MPI_Parrived(s, 0, &flag), MPI_ERR_REQUEST);
	FAILS(MPI_Parrived(r, 5, &flag), MPI_ERR_ARG);
	FAILS(MPI_Start(&s), MPI_ERR_REQUEST);
	FAILS(MPI_Cancel(&s), MPI_ERR_REQUEST);
	MPI_Start(&r);
	MPI_Pready(0, s);
	FAILS(MPI_Pready(0, s), MPI_ERR_ARG);		/* twice */
	MPI_Pready(1, s);
	MPI_Wait(&s, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Request_free(&s);
	MPI_Request_free(&r);
}

/* Sizes that differ are the receiver's error. */
static void sizes_differ(void)
{
	int buf[8] = { 0 };
	MPI_Request q;

	if (me > 1)
		return;
	q = me ? recv_init(buf, 2, 3, MPI_INT, 0, 4) : send_init(buf, 2, 4, MPI_INT, 1, 4);
	for (int epoch = 0; epoch < 3; epoch++) {
		MPI_Start(&q);
		if (me) {
			FAILS(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
		} else {
			MPI_Pready_range(0, 1, q);
			MPI_Wait(&q, MPI_STATUS_IGNORE);
		}
	}
	MPI_Request_free(&q);
}

/* Partitions of a receive that has failed, and was freed, come behind the start of the next receive. */
static void late_partitions(void)
{
	int buf[8], freed = 0;
	MPI_Request q;

	if (me > 1)
		return;
	for (int i = 0; i < 8; i++)
		buf[i] = me ? 0 : 1;
	q = me ? recv_init(buf, 2, 3, MPI_INT, 0, 5) : send_init(buf, 4, 2, MPI_INT, 1, 5);
	MPI_Start(&q);
	if (me) {
		FAILS(MPI_Wait(&q, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
		MPI_Request_free(&q);
		q = recv_init(buf, 4, 2, MPI_INT, 0, 6);
		MPI_Start(&q);
		MPI_Send(&freed, 1, MPI_INT, 0, 7, WORLD);
	} else {
		MPI_Pready(0, q);
		MPI_Recv(&freed, 1, MPI_INT, 1, 7, WORLD, MPI_STATUS_IGNORE);
		MPI_Pready_range(1, 3, q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		MPI_Request_free(&q);
		for (int i = 0; i < 8; i++)
			buf[i] = 2;
		q = send_init(buf, 4, 2, MPI_INT, 1, 6);
		MPI_Start(&q);
		MPI_Pready_range(0, 3, q);
	}
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(buf[i], 2);
	MPI_Request_free(&q);
}

/* On an intercommunicator ranks are those of the other group. */
static void inter(void)
{
	int half = np / 2, low = me < half, value = me, got = -1, n, r;
	MPI_Comm part, c;
	MPI_Request q;

	MPI_Comm_split(WORLD, low, me, &part);
	MPI_Intercomm_create(part, 0, WORLD, low ? half : 0, 3, &c);
	MPI_Comm_remote_size(c, &n);
	MPI_Comm_rank(c, &r);
	if (low) {
		MPI_Psend_init(&value, 1, 1, MPI_INT, r, 1, c, MPI_INFO_NULL, &q);
		MPI_Start(&q);
		MPI_Pready(0, q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		MPI_Request_free(&q);
	} else if (r < n) {
		MPI_Precv_init(&got, 1, 1, MPI_INT, r, 1, c, MPI_INFO_NULL, &q);
		MPI_Start(&q);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		CHECK_EQ(got, r);
		MPI_Request_free(&q);
	}
	MPI_Comm_free(&c);
	MPI_Comm_free(&part);
}

/* Numbers of pairs begin anew with each communicator, also where the context is used again. */
static void new_comms(void)
{
	int value = me ? -1 : 5;
	MPI_Request q;
	MPI_Comm c;

	for (int i = 0; i < 5; i++) {
		MPI_Comm_dup(WORLD, &c);
		if (me < 2) {
			for (int k = 0; k < i; k++) {	/* never started */
				if (me)
					MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 1, c, MPI_INFO_NULL, &q);
				else
					MPI_Psend_init(&value, 1, 1, MPI_INT, 1, 1, c, MPI_INFO_NULL, &q);
				MPI_Request_free(&q);
			}
			if (me)
				MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 1, c, MPI_INFO_NULL, &q);
			else
				MPI_Psend_init_c(&value, 1, 1, MPI_INT, 1, 1, c, MPI_INFO_NULL, &q);
			MPI_Start(&q);
			if (!me)
				MPI_Pready(0, q);
			MPI_Wait(&q, MPI_STATUS_IGNORE);
			CHECK_EQ(value, 5);
			MPI_Request_free(&q);
		}
		MPI_Comm_free(&c);
	}
}

static const struct standard_case cases[] = {
	{ "4.2", "shapes", 2, shapes }, { "4.2.1", "ready_forms", 2, ready_forms }, { "4.2.1", "matching", 2, matching },
	{ "4.2", "not_before_start", 2, not_before_start }, { "4.2", "receiver_first", 2, receiver_first },
	{ "4.2.1", "types", 2, types }, { "4.2", "empty", 2, empty }, { "4.2", "null_and_self", 1, null_and_self },
	{ "4.2", "errors", 1, errors }, { "4.2", "sizes_differ", 2, sizes_differ },
	{ "4.2", "late_partitions", 2, late_partitions }, { "4.2", "inter", 2, inter }, { "4.2", "new_comms", 2, new_comms },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	standard_run(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
	test_done("partitioned_calls");
	return 0;
}
