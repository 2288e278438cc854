/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point-to-point beyond send and receive (MPI-5.0 chapter 3): sendrecv_replace, matched probe, persistent, buffered, cancelled
 * and generalized operations, every form of completion, and refused arguments. Each rank has a right and a left
 * neighbour, on one rank itself.
 */
#include <sched.h>

#include "mpi_ptp.h"

int right, left;

char *message(int from, int to, int tag, int bytes)
{
	char *buf = malloc(bytes + 1);

	fill(buf, bytes, seed_of(from, to, tag, bytes));
	return buf;
}

/* ---- section 3.10 -------------------------------------------------------------------------------------- */

static void sendrecv_replace(void)
{
	MPI_Request r;
	MPI_Status s;

	for (int i = 0; i < SIZES; i++) {
		int n = sizes[i];
		char *buf = message(me, right, i, n);

		MPI_Sendrecv_replace(buf, n, MPI_BYTE, right, i, left, i, MPI_COMM_WORLD, &s);
		CHECK_STATUS(s, left, i, n);
		VERIFY(buf, n, seed_of(left, me, i, n));
		fill(buf, n, seed_of(me, right, i + 9, n));
		MPI_Isendrecv_replace(buf, n, MPI_BYTE, right, i + 9, left, MPI_ANY_TAG, MPI_COMM_WORLD, &r);
		MPI_Wait(&r, &s);
		CHECK(r == MPI_REQUEST_NULL);
		CHECK_STATUS(s, left, i + 9, n);
		VERIFY(buf, n, seed_of(left, me, i + 9, n));
		free(buf);
	}
	/* MPI_PROC_NULL at both ends */
	int v = 17;
	MPI_Sendrecv_replace(&v, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &s);
	CHECK_EQ(v, 17);
	CHECK_STATUS(s, MPI_PROC_NULL, MPI_ANY_TAG, 0);
	/* an open chain: the ends have one partner */
	v = me;
	MPI_Sendrecv_replace(&v, 1, MPI_INT, me + 1 < np ? me + 1 : MPI_PROC_NULL, 1, me ? me - 1 : MPI_PROC_NULL, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	CHECK_EQ(v, me ? me - 1 : 0);
}

static void replace_holes(void)
{
	MPI_Datatype column;
	int a[6][4];

	MPI_Type_vector(6, 1, 4, MPI_INT, &column);
	MPI_Type_commit(&column);
	for (int i = 0; i < 24; i++)
		a[i / 4][i % 4] = 100 * me + i;
	MPI_Sendrecv_replace(&a[0][1], 1, column, right, 3, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < 24; i++)
		CHECK_EQ(a[i / 4][i % 4], 100 * (i % 4 == 1 ? left : me) + i);
	MPI_Type_free(&column);
}

static void isendrecv(void)
{
	MPI_Request r[SIZES];
	MPI_Status s[SIZES];
	char *out[SIZES], *in[SIZES];

	for (int i = 0; i < SIZES; i++) {
		out[i] = message(me, right, i, sizes[i]);
		in[i] = malloc(sizes[i] + 1);
		MPI_Isendrecv(out[i], sizes[i], MPI_BYTE, right, i, in[i], sizes[i], MPI_BYTE, left, i, MPI_COMM_WORLD, &r[i]);
	}
	MPI_Waitall(SIZES, r, s);
	for (int i = 0; i < SIZES; i++) {
		CHECK_STATUS(s[i], left, i, sizes[i]);
		VERIFY(in[i], sizes[i], seed_of(left, me, i, sizes[i]));
		free(in[i]);
		free(out[i]);
	}
}

/* Section 3.8.4 allows cancelling a send or a receive only: an MPI_Isendrecv goes on as if MPI_Cancel had not been called. */
static void isendrecv_is_not_cancelled(void)
{
	int got = -1, flag = 1, class = MPI_SUCCESS;
	MPI_Request r;
	MPI_Status s;

	MPI_Isendrecv(&me, 1, MPI_INT, right, 77, &got, 1, MPI_INT, left, 77, MPI_COMM_WORLD, &r);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Error_class(MPI_Cancel(&r), &class);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	CHECK_EQ(class, MPI_ERR_REQUEST);
	MPI_Wait(&r, &s);
	MPI_Test_cancelled(&s, &flag);
	CHECK(!flag);
	CHECK_EQ(got, left);
}

/* ---- section 3.8.2 ------------------------------------------------------------------------------------- */

static void matched_probe(void)
{
	MPI_Message m, m2;
	MPI_Request send[2], r;
	MPI_Status s;
	int flag;

	for (int i = 0; i < SIZES; i++) {
		int n = sizes[i];
		char *first = message(me, right, 1, n), *second = message(me, right, 2, n), *in = malloc(n + 1);

		/* Two equal messages: a probe finds the second one while the first is matched and not received. */
		MPI_Isend(first, n, MPI_BYTE, right, 7, MPI_COMM_WORLD, &send[0]);
		MPI_Isend(second, n, MPI_BYTE, right, 7, MPI_COMM_WORLD, &send[1]);
		MPI_Mprobe(left, 7, MPI_COMM_WORLD, &m, &s);
		CHECK(m != MPI_MESSAGE_NULL && m != MPI_MESSAGE_NO_PROC);
		CHECK_STATUS(s, left, 7, n);
		MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &m2, &s);
		CHECK_STATUS(s, left, 7, n);
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK_EQ(flag, 0);
		MPI_Mrecv(in, n, MPI_BYTE, &m2, &s);
		CHECK(m2 == MPI_MESSAGE_NULL);
		CHECK_STATUS(s, left, 7, n);
		VERIFY(in, n, seed_of(left, me, 2, n));
		MPI_Imrecv(in, n, MPI_BYTE, &m, &r);
		CHECK(m == MPI_MESSAGE_NULL);
		MPI_Wait(&r, &s);
		CHECK_STATUS(s, left, 7, n);
		VERIFY(in, n, seed_of(left, me, 1, n));
		MPI_Waitall(2, send, MPI_STATUSES_IGNORE);
		free(first);
		free(second);
		free(in);
		meet(sync_comm);
	}
	MPI_Improbe(left, 7, MPI_COMM_WORLD, &flag, &m, &s);
	CHECK_EQ(flag, 0);
	MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &m, &s);
	CHECK(m == MPI_MESSAGE_NO_PROC);
	CHECK_STATUS(s, MPI_PROC_NULL, MPI_ANY_TAG, 0);
	MPI_Mrecv(NULL, 0, MPI_BYTE, &m, &s);
	CHECK(m == MPI_MESSAGE_NULL);
	CHECK_STATUS(s, MPI_PROC_NULL, MPI_ANY_TAG, 0);
	MPI_Improbe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &m, MPI_STATUS_IGNORE);
	CHECK(flag && m == MPI_MESSAGE_NO_PROC);
	MPI_Imrecv(NULL, 0, MPI_BYTE, &m, &r);
	MPI_Wait(&r, &s);
	CHECK_STATUS(s, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* A synchronous send may complete when its message is matched by a probe, or when it is received. Its data must not be
 * lost when the communicator is freed before. */
static void matched_outlives_comm(void)
{
	MPI_Comm comm;
	MPI_Message m;
	MPI_Request send;
	int v = me, in = -1;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Isend(&v, 1, MPI_INT, right, 1, comm, &send);
	MPI_Mprobe(left, 1, comm, &m, MPI_STATUS_IGNORE);
	MPI_Wait(&send, MPI_STATUS_IGNORE);
	MPI_Comm_free(&comm);
	MPI_Mrecv(&in, 1, MPI_INT, &m, MPI_STATUS_IGNORE);
	CHECK_EQ(in, left);
}

/* ---- section 3.9 --------------------------------------------------------------------------------------- */

enum { STANDARD, SYNC, BUFFERED, READY, MODES };

static void persistent(int mode, int n)
{
	static int (*const init[MODES])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
		MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init
	};
	char *out = malloc(n + 1), *in = malloc(n + 1), *buffer = NULL;
	int bytes = n + MPI_BSEND_OVERHEAD, index, flag, size;
	MPI_Request r[2];
	MPI_Status s[2];

	if (mode == BUFFERED)
		MPI_Buffer_attach(buffer = malloc(bytes), bytes);
	init[mode](out, n, MPI_BYTE, right, 5, MPI_COMM_WORLD, &r[1]);
	MPI_Recv_init(in, n, MPI_BYTE, left, 5, MPI_COMM_WORLD, &r[0]);
	for (int round = 0; round < 5; round++) {
		fill(out, n, seed_of(me, right, round, n));
		if (mode == READY || mode == BUFFERED) {
			MPI_Start(&r[0]);
			meet(sync_comm);
			MPI_Buffer_flush();
			MPI_Start(&r[1]);
		} else {
			MPI_Startall(2, r);
		}
		switch (round) {
		case 0:
			MPI_Waitall(2, r, s);
			CHECK_STATUS(s[0], left, 5, n);
			break;
		case 1:
			for (int k = 0; k < 2; k++) {
				MPI_Waitany(2, r, &index, s);
				CHECK(index == 0 || index == 1);
				if (!index)
					CHECK_STATUS(s[0], left, 5, n);
			}
			break;
		case 2:
			do
				MPI_Testall(2, r, &flag, s);
			while (!flag);
			CHECK_STATUS(s[0], left, 5, n);
			break;
		case 3:
			do
				MPI_Request_get_status(r[0], &flag, s);
			while (!flag);
			CHECK_STATUS(s[0], left, 5, n);
			MPI_Wait(&r[0], s);
			CHECK_STATUS(s[0], left, 5, n);
			MPI_Wait(&r[1], MPI_STATUS_IGNORE);
			break;
		default:
			do
				MPI_Test(&r[0], &flag, s);
			while (!flag);
			CHECK_STATUS(s[0], left, 5, n);
			do
				MPI_Test(&r[1], &flag, MPI_STATUS_IGNORE);
			while (!flag);
		}
		CHECK(r[0] != MPI_REQUEST_NULL && r[1] != MPI_REQUEST_NULL);
		VERIFY(in, n, seed_of(left, me, round, n));
	}
	/* An active persistent request that is freed completes all the same. */
	MPI_Start(&r[0]);
	fill(out, n, seed_of(me, right, 77, n));
	meet(sync_comm);
	MPI_Buffer_flush();
	MPI_Start(&r[1]);
	MPI_Request_free(&r[1]);
	CHECK(r[1] == MPI_REQUEST_NULL);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	VERIFY(in, n, seed_of(left, me, 77, n));
	MPI_Request_free(&r[0]);
	meet(sync_comm);		/* the message has arrived */
	if (mode == BUFFERED) {
		void *p;

		MPI_Buffer_detach(&p, &size);
		CHECK(p == buffer);
		CHECK_EQ(size, bytes);
		free(p);
	}
	free(in);
	free(out);
}

/* Section 3.7.3: completion calls treat an inactive request as MPI_REQUEST_NULL, and the request stays inactive. */
static void inactive(void)
{
	int v = 0, index, flag, count, indices[2];
	MPI_Request r[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL }, was;
	MPI_Status s[2];

	for (int round = 0; round < 2; round++) {
		was = r[0];
		MPI_Wait(&r[0], &s[0]);
		CHECK_EMPTY(s[0]);
		MPI_Test(&r[0], &flag, &s[0]);
		CHECK_EQ(flag, 1);
		CHECK_EMPTY(s[0]);
		MPI_Waitany(2, r, &index, &s[0]);
		CHECK_EQ(index, MPI_UNDEFINED);
		CHECK_EMPTY(s[0]);
		MPI_Testany(2, r, &index, &flag, &s[0]);
		CHECK(flag && index == MPI_UNDEFINED);
		CHECK_EMPTY(s[0]);
		MPI_Waitsome(2, r, &count, indices, s);
		CHECK_EQ(count, MPI_UNDEFINED);
		MPI_Testsome(2, r, &count, indices, s);
		CHECK_EQ(count, MPI_UNDEFINED);
		MPI_Request_get_status(r[0], &flag, &s[0]);
		CHECK_EQ(flag, 1);
		CHECK_EMPTY(s[0]);
		MPI_Request_get_status_any(2, r, &index, &flag, &s[0]);
		CHECK(flag && index == MPI_UNDEFINED);
		CHECK_EMPTY(s[0]);
		MPI_Request_get_status_some(2, r, &count, indices, s);
		CHECK_EQ(count, MPI_UNDEFINED);
		memset(s, 1, sizeof(s));
		MPI_Request_get_status_all(2, r, &flag, s);
		CHECK_EQ(flag, 1);
		CHECK_EMPTY(s[0]);
		CHECK_EMPTY(s[1]);
		memset(s, 1, sizeof(s));
		MPI_Testall(2, r, &flag, s);
		CHECK_EQ(flag, 1);
		CHECK_EMPTY(s[1]);
		MPI_Waitall(2, r, s);
		CHECK_EMPTY(s[0]);
		CHECK_EMPTY(s[1]);
		CHECK(r[0] == was && r[1] == MPI_REQUEST_NULL);
		if (!round)
			MPI_Recv_init(&v, 1, MPI_INT, left, 5, MPI_COMM_WORLD, &r[0]);
	}
	/* an inactive request beside an active one is skipped */
	int out = me;
	MPI_Request both[2] = { r[0], MPI_REQUEST_NULL };
	MPI_Irecv(&v, 1, MPI_INT, left, 6, MPI_COMM_WORLD, &both[1]);
	MPI_Send(&out, np > 1, MPI_INT, np > 1 ? right : MPI_PROC_NULL, 6, MPI_COMM_WORLD);
	if (np == 1)
		MPI_Cancel(&both[1]);
	MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
	CHECK_EQ(index, 1);
	CHECK_EQ(v, np > 1 ? left : 0);
	MPI_Request_free(&r[0]);
}

/* ---- section 3.6 --------------------------------------------------------------------------------------- */

/* A buffer of the size that the standard gives for n messages has room for n messages, in any order of their departure. */
static void buffered(MPI_Comm comm, int on_comm, int automatic)
{
	enum { N = 6 };
	static const int len[N] = { 0, 1, 100, 4097, 60000, 150000 };
	int bytes = 0, size = -1, misaligned = 3;
	char *in = malloc(150000), *buffer;
	void *p = NULL;
	MPI_Request r;

	for (int i = 0; i < N; i++)
		bytes += len[i] + MPI_BSEND_OVERHEAD;	/* MPI_Pack_size of bytes is their number */
	buffer = malloc(bytes + misaligned);
	if (automatic)
		bytes = 0;
	p = automatic ? MPI_BUFFER_AUTOMATIC : buffer + misaligned;
	if (on_comm)
		MPI_Comm_attach_buffer(comm, p, bytes);
	else
		MPI_Buffer_attach(p, bytes);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			int k = (i * 5 + round) % N;
			char *out = message(me, right, k, len[k]);

			if (i & 1) {
				MPI_Ibsend(out, len[k], MPI_BYTE, right, k, comm, &r);
				MPI_Wait(&r, MPI_STATUS_IGNORE);
			} else {
				MPI_Bsend(out, len[k], MPI_BYTE, right, k, comm);
			}
			memset(out, 0, len[k]);
			free(out);
		}
		if (on_comm)
			MPI_Comm_iflush_buffer(comm, &r);
		else
			MPI_Buffer_iflush(&r);
		for (int i = 0; i < N; i++) {
			MPI_Recv(in, len[i], MPI_BYTE, left, i, comm, MPI_STATUS_IGNORE);
			VERIFY(in, len[i], seed_of(left, me, i, len[i]));
		}
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (on_comm)
			MPI_Comm_flush_buffer(comm);
		else
			MPI_Buffer_flush();
	}
	if (on_comm)
		MPI_Comm_detach_buffer(comm, &p, &size);
	else
		MPI_Buffer_detach(&p, &size);
	CHECK(p == (automatic ? MPI_BUFFER_AUTOMATIC : buffer + misaligned));
	CHECK(automatic || size == bytes);
	MPI_Buffer_detach(&p, &size);
	CHECK(!p);
	CHECK_EQ(size, 0);
	free(buffer);
	free(in);
}

/* Detaching waits: the messages are delivered though the buffer is overwritten right after. */
static void detach_waits(void)
{
	int n = 200000, bytes = n + MPI_BSEND_OVERHEAD, size;
	char *buffer = malloc(bytes), *out = message(me, right, 1, n), *in = malloc(n);
	MPI_Request r;
	void *p;

	MPI_Irecv(in, n, MPI_BYTE, left, 1, MPI_COMM_WORLD, &r);
	MPI_Buffer_attach(buffer, bytes);
	MPI_Bsend(out, n, MPI_BYTE, right, 1, MPI_COMM_WORLD);
	MPI_Buffer_detach(&p, &size);
	memset(buffer, 0, bytes);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	VERIFY(in, n, seed_of(left, me, 1, n));
	free(buffer);
	free(out);
	free(in);
}

/* "A circular, contiguous-space allocation policy": of ten units, messages of 4 and 3 are buffered, the first leaves, and 3 and
 * 4 more have room, behind the second and where the first was. */
static void buffer_is_circular(void)
{
	enum { UNIT = 30000, N = 4 };
	static const int units[N] = { 4, 3, 3, 4 };
	int bytes = 10 * UNIT + 3 * MPI_BSEND_OVERHEAD, size, flag;
	char *buffer = malloc(bytes), *in = malloc(4 * UNIT);
	void *p;

	MPI_Buffer_attach(buffer, bytes);
	for (int i = 0; i < N; i++) {
		char *out = message(me, right, i, units[i] * UNIT);

		if (i == 2) {
			/* Synchronous: the received message has left the buffer by then. */
			MPI_Recv(in, 4 * UNIT, MPI_BYTE, left, 0, sync_comm, MPI_STATUS_IGNORE);
			VERIFY(in, 4 * UNIT, seed_of(left, me, 0, 4 * UNIT));
			meet(sync_comm);
			for (int k = 0; k < 1000; k++)
				MPI_Iprobe(MPI_ANY_SOURCE, N, sync_comm, &flag, MPI_STATUS_IGNORE);
		}
		MPI_Bsend(out, units[i] * UNIT, MPI_BYTE, right, i, sync_comm);
		free(out);
	}
	for (int i = 1; i < N; i++) {
		MPI_Recv(in, units[i] * UNIT, MPI_BYTE, left, i, sync_comm, MPI_STATUS_IGNORE);
		VERIFY(in, units[i] * UNIT, seed_of(left, me, i, units[i] * UNIT));
	}
	MPI_Buffer_detach(&p, &size);
	free(buffer);
	free(in);
}

static void buffer_errors(void)
{
	char buffer[2000], data[4000] = "";
	int size;
	void *p;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK_CLASS(MPI_Bsend(data, 1, MPI_BYTE, right, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
	CHECK_EQ(MPI_Bsend(data, 1, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD), MPI_SUCCESS);
	CHECK_EQ(MPI_Buffer_attach(buffer, sizeof(buffer)), MPI_SUCCESS);
	CHECK_CLASS(MPI_Buffer_attach(buffer, sizeof(buffer)), MPI_ERR_BUFFER);
	CHECK_CLASS(MPI_Bsend(data, sizeof(data), MPI_BYTE, right, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
	MPI_Buffer_detach(&p, &size);
	CHECK_EQ(size, sizeof(buffer));
	CHECK_CLASS(MPI_Buffer_attach(buffer, -1), MPI_ERR_ARG);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* ---- section 13.2 -------------------------------------------------------------------------------------- */

struct general {
	int queries, frees, cancels, complete, order, freed_at, query_rc, free_rc;
};

static int query(void *extra, MPI_Status *s)
{
	struct general *g = extra;

	g->queries++;
	g->order++;
	MPI_Status_set_elements(s, MPI_INT, 3);
	MPI_Status_set_cancelled(s, g->cancels);
	MPI_Status_set_source(s, 11);
	MPI_Status_set_tag(s, 12);
	return g->query_rc;
}

static int general_free(void *extra)
{
	struct general *g = extra;

	g->frees++;
	g->freed_at = ++g->order;
	return g->free_rc;
}

static int general_cancel(void *extra, int complete)
{
	struct general *g = extra;

	g->cancels++;
	g->complete = complete;
	return MPI_SUCCESS;
}

static void generalized(void)
{
	struct general g = { 0 }, h = { 0 };
	MPI_Request r, both[2], copy;
	MPI_Status s[2];
	int flag, class;

	MPI_Grequest_start(query, general_free, general_cancel, &g, &r);
	MPI_Test(&r, &flag, &s[0]);
	CHECK_EQ(flag, 0);
	CHECK_EQ(g.queries, 0);
	MPI_Cancel(&r);
	CHECK_EQ(g.cancels, 1);
	CHECK_EQ(g.complete, 0);
	MPI_Grequest_complete(r);
	MPI_Request_get_status(r, &flag, &s[0]);
	CHECK(flag && g.queries == 1 && !g.frees);
	CHECK_STATUS(s[0], 11, 12, 12);
	MPI_Wait(&r, &s[0]);
	CHECK(r == MPI_REQUEST_NULL);
	CHECK_EQ(g.queries, 2);
	CHECK_EQ(g.frees, 1);
	CHECK_EQ(g.freed_at, 3);
	CHECK_STATUS(s[0], 11, 12, 12);
	CHECK_EQ(is_cancelled(&s[0]), 1);

	/* freed before completion: free_fn comes with the completion, query_fn never */
	MPI_Grequest_start(query, general_free, general_cancel, &h, &r);
	copy = r;
	MPI_Request_free(&r);
	CHECK_EQ(h.frees, 0);
	MPI_Grequest_complete(copy);
	CHECK(h.frees == 1 && h.queries == 0);
	/* and after */
	MPI_Grequest_start(query, general_free, general_cancel, &h, &r);
	MPI_Grequest_complete(r);
	MPI_Request_free(&r);
	CHECK(h.frees == 2 && h.queries == 0 && r == MPI_REQUEST_NULL);

	/* errors of the callbacks: free_fn's counts, since free_fn comes last */
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	g = (struct general){ .query_rc = MPI_ERR_TRUNCATE };
	MPI_Grequest_start(query, general_free, general_cancel, &g, &r);
	MPI_Grequest_complete(r);
	CHECK_CLASS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
	CHECK(g.frees == 1 && r == MPI_REQUEST_NULL);
	g = (struct general){ .query_rc = MPI_ERR_TRUNCATE, .free_rc = MPI_ERR_OTHER };
	h = (struct general){ 0 };
	MPI_Grequest_start(query, general_free, general_cancel, &h, &both[0]);
	MPI_Grequest_start(query, general_free, general_cancel, &g, &both[1]);
	MPI_Grequest_complete(both[0]);
	MPI_Grequest_complete(both[1]);
	CHECK_CLASS(MPI_Waitall(2, both, s), MPI_ERR_IN_STATUS);
	CHECK_EQ(s[0].MPI_ERROR, MPI_SUCCESS);
	MPI_Error_class(s[1].MPI_ERROR, &class);
	CHECK_EQ(class, MPI_ERR_OTHER);
	CHECK(h.queries == 1 && h.frees == 1 && g.queries == 1 && g.frees == 1);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

/* ---- errors ------------------------------------------------------------------------------------------ */

/* The class, and a text that names the call. */
static void refused(const char *file, int line, const char *call, int rc, int want)
{
	char text[MPI_MAX_ERROR_STRING], name[64];
	int class, len;

	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, text, &len);
	snprintf(name, sizeof(name), "%.*s: ", (int)strcspn(call, "("), call);
	if (class != want || strncmp(text, name, strlen(name)))
		test_fail(file, line, "%s: class %d instead of %d, %s", call, class, want, text);
}
#define REFUSED(call, class) refused(__FILE__, __LINE__, #call, call, class)

static void refusals(void)
{
	static char b[64];
	MPI_Request r = MPI_REQUEST_NULL, stale, active[2];
	MPI_Message m = MPI_MESSAGE_NULL, used;
	MPI_Datatype loose;
	MPI_Comm w = MPI_COMM_WORLD, freed;
	MPI_Status s;
	int flag, count, size, index, indices[2];

	MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_dup(w, &freed);
	MPI_Comm copy = freed;
	MPI_Comm_free(&freed);
	MPI_Type_contiguous(2, MPI_INT, &loose);

	REFUSED(MPI_Bsend(b, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
	REFUSED(MPI_Bsend(b, 1, MPI_INT, 0, 0, copy), MPI_ERR_COMM);
	REFUSED(MPI_Bsend(b, -1, MPI_INT, 0, 0, w), MPI_ERR_COUNT);
	REFUSED(MPI_Bsend(b, 1, loose, 0, 0, w), MPI_ERR_TYPE);
	REFUSED(MPI_Bsend(b, 1, MPI_DATATYPE_NULL, 0, 0, w), MPI_ERR_TYPE);
	REFUSED(MPI_Bsend(b, 1, MPI_INT, np, 0, w), MPI_ERR_RANK);
	REFUSED(MPI_Bsend(b, 1, MPI_INT, MPI_ANY_SOURCE, 0, w), MPI_ERR_RANK);
	REFUSED(MPI_Bsend(b, 1, MPI_INT, 0, MPI_ANY_TAG, w), MPI_ERR_TAG);
	REFUSED(MPI_Bsend(NULL, 1, MPI_INT, 0, 0, w), MPI_ERR_BUFFER);
	REFUSED(MPI_Ibsend(b, 1, MPI_INT, 0, 0, w, NULL), MPI_ERR_ARG);
	REFUSED(MPI_Sendrecv_replace(b, 1, MPI_INT, np, 0, 0, 0, w, &s), MPI_ERR_RANK);
	REFUSED(MPI_Sendrecv_replace(b, 1, MPI_INT, 0, 0, np, 0, w, &s), MPI_ERR_RANK);
	REFUSED(MPI_Sendrecv_replace(b, 1, MPI_INT, 0, 0, 0, -7, w, &s), MPI_ERR_TAG);
	REFUSED(MPI_Isendrecv(b, 1, MPI_INT, 0, -1, b + 8, 1, MPI_INT, 0, 0, w, &r), MPI_ERR_TAG);
	REFUSED(MPI_Isendrecv(b, 1, MPI_INT, 0, 0, b + 8, -1, MPI_INT, 0, 0, w, &r), MPI_ERR_COUNT);
	REFUSED(MPI_Isendrecv_replace(b, 1, MPI_INT, 0, 0, 0, 0, w, NULL), MPI_ERR_ARG);
	REFUSED(MPI_Send_init(b, 1, MPI_INT, np, 0, w, &r), MPI_ERR_RANK);
	REFUSED(MPI_Ssend_init(b, 1, loose, 0, 0, w, &r), MPI_ERR_TYPE);
	REFUSED(MPI_Recv_init(b, 1, MPI_INT, 0, -9, w, &r), MPI_ERR_TAG);
	REFUSED(MPI_Recv_init(b, 1, MPI_INT, 0, 0, w, NULL), MPI_ERR_ARG);
	REFUSED(MPI_Start(&r), MPI_ERR_REQUEST);
	REFUSED(MPI_Start(NULL), MPI_ERR_ARG);
	REFUSED(MPI_Startall(-1, NULL), MPI_ERR_COUNT);
	REFUSED(MPI_Startall(1, NULL), MPI_ERR_ARG);
	REFUSED(MPI_Request_free(&r), MPI_ERR_REQUEST);
	REFUSED(MPI_Cancel(&r), MPI_ERR_REQUEST);
	CHECK(r == MPI_REQUEST_NULL);

	MPI_Recv_init(b, 1, MPI_INT, left, 40, w, &r);
	REFUSED(MPI_Cancel(&r), MPI_ERR_REQUEST);
	MPI_Start(&r);
	REFUSED(MPI_Start(&r), MPI_ERR_REQUEST);
	active[0] = active[1] = r;
	REFUSED(MPI_Startall(2, active), MPI_ERR_REQUEST);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	stale = r;
	MPI_Request_free(&r);
	REFUSED(MPI_Start(&stale), MPI_ERR_REQUEST);
	REFUSED(MPI_Wait(&stale, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Request_get_status(stale, &flag, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Request_get_status_any(1, &stale, &index, &flag, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Request_get_status_all(1, &stale, &flag, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Request_get_status_some(1, &stale, &count, indices, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Request_get_status_all(-1, NULL, &flag, &s), MPI_ERR_COUNT);
	REFUSED(MPI_Request_get_status_some(0, NULL, NULL, indices, &s), MPI_ERR_ARG);
	REFUSED(MPI_Grequest_complete(stale), MPI_ERR_REQUEST);
	REFUSED(MPI_Grequest_start(NULL, general_free, general_cancel, NULL, &r), MPI_ERR_ARG);
	MPI_Irecv(b, 1, MPI_INT, left, 41, w, &r);
	REFUSED(MPI_Start(&r), MPI_ERR_REQUEST);
	REFUSED(MPI_Grequest_complete(r), MPI_ERR_REQUEST);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	MPI_Ibarrier(w, &r);
	active[0] = r;
	REFUSED(MPI_Cancel(&r), MPI_ERR_REQUEST);
	CHECK(r == active[0]);
	MPI_Wait(&r, &s);

	REFUSED(MPI_Mprobe(np, 0, w, &m, &s), MPI_ERR_RANK);
	REFUSED(MPI_Mprobe(0, 0, w, NULL, &s), MPI_ERR_ARG);
	REFUSED(MPI_Improbe(0, 0, w, NULL, &m, &s), MPI_ERR_ARG);
	REFUSED(MPI_Improbe(0, 0, MPI_COMM_NULL, &flag, &m, &s), MPI_ERR_COMM);
	REFUSED(MPI_Mrecv(b, 1, MPI_INT, &m, &s), MPI_ERR_REQUEST);
	REFUSED(MPI_Mrecv(b, 1, MPI_INT, NULL, &s), MPI_ERR_ARG);
	MPI_Isend(b, 1, MPI_INT, right, 42, w, &r);
	MPI_Mprobe(left, 42, w, &m, &s);
	used = m;
	REFUSED(MPI_Mrecv(b, -1, MPI_INT, &m, &s), MPI_ERR_COUNT);
	REFUSED(MPI_Imrecv(b, 1, loose, &m, active), MPI_ERR_TYPE);
	REFUSED(MPI_Mrecv(NULL, 1, MPI_INT, &m, &s), MPI_ERR_BUFFER);
	CHECK(m == used);
	REFUSED(MPI_Mrecv(b, 1, MPI_BYTE, &m, &s), MPI_ERR_TRUNCATE);
	CHECK(m == MPI_MESSAGE_NULL);
	REFUSED(MPI_Mrecv(b, 1, MPI_INT, &used, &s), MPI_ERR_REQUEST);
	MPI_Wait(&r, &s);

	REFUSED(MPI_Buffer_attach(NULL, 10), MPI_ERR_BUFFER);
	REFUSED(MPI_Buffer_detach(NULL, &size), MPI_ERR_ARG);
	REFUSED(MPI_Buffer_iflush(NULL), MPI_ERR_ARG);
	REFUSED(MPI_Comm_attach_buffer(MPI_COMM_NULL, b, 10), MPI_ERR_COMM);
	REFUSED(MPI_Comm_flush_buffer(copy), MPI_ERR_COMM);
	MPI_Type_free(&loose);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(w, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	MPI_Comm comm;

	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me - 1 + np) % np;
	sendrecv_replace();
	replace_holes();
	isendrecv();
	isendrecv_is_not_cancelled();
	matched_probe();
	matched_outlives_comm();
	for (int i = 0; i < SIZES; i++)
		for (int mode = 0; mode < MODES; mode++)
			persistent(mode, sizes[i]);
	inactive();
	meet(sync_comm);
	completions();
	errors_in_status();
	freed();
	cancel_receives();
	cancel_sends();
	cancel_races();
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	for (int automatic = 0; automatic < 2; automatic++) {
		buffered(comm, 0, automatic);
		buffered(comm, 1, automatic);
	}
	MPI_Comm_free(&comm);
	if (np > 1) {
		some_are_fair(0);
		some_are_fair(1);
	}
	detach_waits();
	buffer_is_circular();
	buffer_errors();
	generalized();
	refusals();
	test_done("ptp");
	return 0;
}
