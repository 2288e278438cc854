/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: sections 3.7 to 3.9. */
#include "standard_ptp.h"

/* ---- 3.7: nonblocking ------------------------------------------------------------------------------------- */

/* A stencil on a ring, the halves of which are received while the inner part is computed. */
static void overlap(void)
{
	enum { M = 64, STEPS = 30 };
	double a[M + 2], b[M + 2], sum = 0, want;
	MPI_Request r[4];

	for (int i = 0; i < M + 2; i++)
		a[i] = me * M + i;
	want = np * M * (np * M + 1) / 2.0;
	for (int step = 0; step < STEPS; step++) {
		MPI_Irecv(&a[0], 1, MPI_DOUBLE, left, 1, WORLD, &r[0]);
		MPI_Irecv(&a[M + 1], 1, MPI_DOUBLE, right, 2, WORLD, &r[1]);
		MPI_Isend(&a[M], 1, MPI_DOUBLE, right, 1, WORLD, &r[2]);
		MPI_Isend(&a[1], 1, MPI_DOUBLE, left, 2, WORLD, &r[3]);
		for (int i = 2; i < M; i++)
			b[i] = (a[i - 1] + 2 * a[i] + a[i + 1]) / 4;
		MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
		b[1] = (a[0] + 2 * a[1] + a[2]) / 4;
		b[M] = (a[M - 1] + 2 * a[M] + a[M + 1]) / 4;
		memcpy(a, b, sizeof(a));
	}
	for (int i = 1; i <= M; i++)
		sum += a[i];
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, WORLD);
	CHECK(sum > want - 1e-6 && sum < want + 1e-6);
}

/* Requests of active sends are freed: an answer of the receiver shows that the sends are complete. */
static void freed_sends(void)
{
	enum { N = 50 };
	int out, in;
	MPI_Request r;

	if (me > 1)
		return;
	for (int i = 0; i < N; i++) {
		if (me == 0) {
			out = i;
			MPI_Isend(&out, 1, MPI_INT, 1, 0, WORLD, &r);
			MPI_Request_free(&r);
			CHECK(r == MPI_REQUEST_NULL);
			MPI_Irecv(&in, 1, MPI_INT, 1, 0, WORLD, &r);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
			CHECK_EQ(in, -i);
		} else {
			MPI_Irecv(&in, 1, MPI_INT, 0, 0, WORLD, &r);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
			CHECK_EQ(in, i);
			out = -i;
			MPI_Isend(&out, 1, MPI_INT, 0, 0, WORLD, &r);
			if (i < N - 1)
				MPI_Request_free(&r);
			else
				MPI_Wait(&r, MPI_STATUS_IGNORE);
		}
	}
}

/* A posted receive lets the synchronous send end, although the receiving rank waits in another receive. */
static void progress(void)
{
	MPI_Request r;
	int a = 1, b = 2;

	if (me == 0) {
		MPI_Ssend(&a, 1, MPI_INT, 1, 0, WORLD);
		MPI_Send(&b, 1, MPI_INT, 1, 1, WORLD);
	} else if (me == 1) {
		a = b = 0;
		MPI_Irecv(&a, 1, MPI_INT, 0, 0, WORLD, &r);
		MPI_Recv(&b, 1, MPI_INT, 0, 1, WORLD, MPI_STATUS_IGNORE);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		CHECK(a == 1 && b == 2);
	}
}

/* Section 3.7.4: receives match in the order in which they were started, not in the order of waiting. */
static void order_of_starts(void)
{
	MPI_Request r[2];
	MPI_Status s[2];
	int a = 1, b = 2;

	if (me == 0) {
		MPI_Isend(&a, 1, MPI_INT, 1, 0, WORLD, &r[0]);
		MPI_Isend(&b, 1, MPI_INT, 1, 0, WORLD, &r[1]);
		MPI_Wait(&r[1], MPI_STATUS_IGNORE);
		MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	} else if (me == 1) {
		a = b = 0;
		MPI_Irecv(&a, 1, MPI_INT, 0, MPI_ANY_TAG, WORLD, &r[0]);
		MPI_Irecv(&b, 1, MPI_INT, 0, 0, WORLD, &r[1]);
		MPI_Wait(&r[1], &s[1]);
		CHECK_EQ(b, 2);
		MPI_Wait(&r[0], &s[0]);
		CHECK_EQ(a, 1);
	}
}

/* Null and inactive requests: every form returns at once, with empty statuses. */
static void nothing_to_wait_for(void)
{
	MPI_Request r[3] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL };
	MPI_Status s[3];
	int index = 0, count = 0, flag = 0, indices[3], v;

	MPI_Recv_init(&v, 1, MPI_INT, left, 1, WORLD, &r[1]);
	memset(s, 0x55, sizeof(s));
	MPI_Wait(&r[0], &s[0]);
	MPI_Wait(&r[1], &s[1]);
	CHECK(is_empty(&s[0]) && is_empty(&s[1]) && r[1] != MPI_REQUEST_NULL);
	memset(s, 0x55, sizeof(s));
	MPI_Test(&r[1], &flag, &s[0]);
	CHECK(flag && is_empty(&s[0]));
	MPI_Waitany(3, r, &index, &s[1]);
	CHECK(index == MPI_UNDEFINED && is_empty(&s[1]));
	MPI_Testany(3, r, &index, &flag, &s[2]);
	CHECK(index == MPI_UNDEFINED && flag && is_empty(&s[2]));
	memset(s, 0x55, sizeof(s));
	MPI_Waitall(3, r, s);
	CHECK(is_empty(&s[0]) && is_empty(&s[1]) && is_empty(&s[2]));
	memset(s, 0x55, sizeof(s));
	flag = 0;
	MPI_Testall(3, r, &flag, s);
	CHECK(flag && is_empty(&s[0]) && is_empty(&s[1]) && is_empty(&s[2]));
	MPI_Waitsome(3, r, &count, indices, s);
	CHECK_EQ(count, MPI_UNDEFINED);
	count = 0;
	MPI_Testsome(3, r, &count, indices, s);
	CHECK_EQ(count, MPI_UNDEFINED);
	memset(s, 0x55, sizeof(s));
	flag = 0;
	MPI_Request_get_status(r[1], &flag, &s[0]);
	CHECK(flag && is_empty(&s[0]));
	memset(s, 0x55, sizeof(s));
	MPI_Request_get_status(r[0], &flag, &s[0]);
	MPI_Request_get_status_any(3, r, &index, &flag, &s[1]);
	CHECK(is_empty(&s[0]) && index == MPI_UNDEFINED && is_empty(&s[1]));
	memset(s, 0x55, sizeof(s));
	MPI_Request_get_status_all(3, r, &flag, s);
	CHECK(flag && is_empty(&s[0]) && is_empty(&s[1]) && is_empty(&s[2]));
	/* of a status that is not empty a call that completes one request leaves MPI_ERROR alone (section 3.2.5) */
	s[0].MPI_ERROR = 4711;
	MPI_Recv(&v, 1, MPI_INT, MPI_PROC_NULL, 0, WORLD, &s[0]);
	CHECK(s[0].MPI_SOURCE == MPI_PROC_NULL && s[0].MPI_ERROR == 4711);
	MPI_Request_free(&r[1]);
	CHECK(r[1] == MPI_REQUEST_NULL);
}

/* One server with a receive for each client; the server waits for any client, or for all that have sent. */
static void clients(int some)
{
	enum { EACH = 15 };
	int job[8][2], next[8] = { 0 }, open = np - 1, index, count, indices[8], v[2];
	MPI_Request r[8];
	MPI_Status s[8];

	if (me) {
		for (int i = 0; i < EACH; i++) {
			v[0] = me;
			v[1] = i;
			MPI_Send(v, 2, MPI_INT, 0, 20 + some, WORLD);
		}
		return;
	}
	for (int i = 0; i < np - 1; i++)
		MPI_Irecv(job[i], 2, MPI_INT, i + 1, 20 + some, WORLD, &r[i]);
	while (open) {
		if (some) {
			MPI_Waitsome(np - 1, r, &count, indices, s);
			CHECK(count > 0);
		} else {
			MPI_Waitany(np - 1, r, &index, s);
			count = 1;
			indices[0] = index;
		}
		for (int k = 0; k < count; k++) {
			index = indices[k];
			CHECK(index >= 0 && index < np - 1);
			CHECK_EQ(s[k].MPI_SOURCE, index + 1);
			CHECK_EQ(job[index][0], index + 1);
			CHECK_EQ(job[index][1], next[index]);
			CHECK(r[index] == MPI_REQUEST_NULL);
			if (++next[index] == EACH)
				open--;
			else
				MPI_Irecv(job[index], 2, MPI_INT, index + 1, 20 + some, WORLD, &r[index]);
		}
	}
	MPI_Waitany(np - 1, r, &index, s);
	CHECK_EQ(index, MPI_UNDEFINED);
}

static void clients_any(void)
{
	clients(0);
}

static void clients_some(void)
{
	clients(1);
}

/* Two of five receives are too short: each status has an error code, and the data of the good ones is there. */
static void several_fail(void)
{
	char in[5][32], out[32];
	MPI_Request r[5];
	MPI_Status s[5];
	int rc;

	fill(out, sizeof(out), me);
	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
	r[2] = MPI_REQUEST_NULL;
	for (int i = 0; i < 5; i++)
		if (i != 2)
			MPI_Irecv(in[i], i == 1 || i == 4 ? 7 : 32, MPI_CHAR, left, i, WORLD, &r[i]);
	meet(sync_comm);
	for (int i = 0; i < 5; i++)
		if (i != 2)
			MPI_Send(out, 32, MPI_CHAR, right, i, WORLD);
	memset(s, 0x7f, sizeof(s));
	rc = MPI_Waitall(5, r, s);
	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_ARE_FATAL);
	CHECK_EQ(class_of(rc), MPI_ERR_IN_STATUS);
	for (int i = 0; i < 5; i++) {
		CHECK(r[i] == MPI_REQUEST_NULL);
		CHECK_EQ(class_of(s[i].MPI_ERROR), i == 1 || i == 4 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
		if (i != 2)
			CHECK_EQ(s[i].MPI_TAG, i);
		if (i == 0 || i == 3)
			VERIFY(in[i], 32, left);
	}
	CHECK(is_empty(&s[2]));
}

/* MPI_Waitany and MPI_Testany return the error of the failed request, with its index; MPI_Waitsome returns that error in the
 * status. A persistent request that fails to start is inactive. */
static void one_fails(void)
{
	char in[3][8], out[8] = "";
	int rc, index = -1, count = 0, indices[3], flag = 0;
	MPI_Request r[3];
	MPI_Status s[3];

	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_RETURN);
	for (int form = 0; form < 3; form++) {
		for (int i = 0; i < 3; i++)
			MPI_Irecv(in[i], i == 1 ? 3 : 8, MPI_CHAR, left, i, WORLD, &r[i]);
		meet(sync_comm);
		MPI_Send(out, 8, MPI_CHAR, right, 1, WORLD);
		if (form == 0) {
			rc = MPI_Waitany(3, r, &index, s);
		} else if (form == 1) {
			do
				rc = MPI_Testany(3, r, &index, &flag, s);
			while (!flag);
		} else {
			rc = MPI_Waitsome(3, r, &count, indices, s);
			CHECK(count == 1 && class_of(s[0].MPI_ERROR) == MPI_ERR_TRUNCATE);
			index = indices[0];
		}
		CHECK_EQ(class_of(rc), form == 2 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE);
		CHECK(index == 1 && r[1] == MPI_REQUEST_NULL && s[0].MPI_SOURCE == left && s[0].MPI_TAG == 1);
		meet(sync_comm);	/* all have seen that one only */
		MPI_Send(out, 8, MPI_CHAR, right, 0, WORLD);
		MPI_Send(out, 8, MPI_CHAR, right, 2, WORLD);
		CHECK_EQ(MPI_Waitall(3, r, s), MPI_SUCCESS);
		meet(sync_comm);
	}
	MPI_Bsend_init(out, 8, MPI_CHAR, right, 3, WORLD, &r[0]);
	CHECK_EQ(class_of(MPI_Start(&r[0])), MPI_ERR_BUFFER);
	MPI_Comm_set_errhandler(WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Wait(&r[0], s);
	CHECK(is_empty(&s[0]));
	MPI_Request_free(&r[0]);
}

/* Section 3.7.6: MPI_Request_get_status does not change the request. */
static void looking(void)
{
	int in[3] = { -1, -1, -1 }, out[3], flag = 0, index, count, indices[3];
	MPI_Request r[3];
	MPI_Status s[3];

	for (int i = 0; i < 3; i++) {
		out[i] = 10 * me + i;
		MPI_Irecv(&in[i], 1, MPI_INT, left, 30 + i, WORLD, &r[i]);
	}
	MPI_Request_get_status_all(3, r, &flag, s);
	CHECK(!flag);
	MPI_Request_get_status_any(3, r, &index, &flag, s);
	CHECK(!flag && index == MPI_UNDEFINED);
	MPI_Request_get_status_some(3, r, &count, indices, s);
	CHECK_EQ(count, 0);
	meet(sync_comm);
	MPI_Send(&out[1], 1, MPI_INT, right, 31, WORLD);
	for (flag = 0; !flag;)
		MPI_Request_get_status(r[1], &flag, &s[0]);
	CHECK(s[0].MPI_SOURCE == left && s[0].MPI_TAG == 31 && r[1] != MPI_REQUEST_NULL);
	for (int twice = 0; twice < 2; twice++) {
		MPI_Request_get_status_any(3, r, &index, &flag, &s[1]);
		CHECK(flag && index == 1 && s[1].MPI_TAG == 31);
		MPI_Request_get_status_some(3, r, &count, indices, s);
		CHECK(count == 1 && indices[0] == 1 && s[0].MPI_TAG == 31);
	}
	MPI_Request_get_status_all(3, r, &flag, s);
	CHECK(!flag);
	meet(sync_comm);
	MPI_Send(&out[0], 1, MPI_INT, right, 30, WORLD);
	MPI_Send(&out[2], 1, MPI_INT, right, 32, WORLD);
	for (flag = 0; !flag;)
		MPI_Request_get_status_all(3, r, &flag, s);
	for (int i = 0; i < 3; i++)
		CHECK(s[i].MPI_TAG == 30 + i && r[i] != MPI_REQUEST_NULL);
	MPI_Waitall(3, r, s);
	for (int i = 0; i < 3; i++)
		CHECK(in[i] == 10 * left + i && s[i].MPI_TAG == 30 + i && r[i] == MPI_REQUEST_NULL);
}

/* ---- 3.8: probe and cancel -------------------------------------------------------------------------------- */

/* An int from one and a double from another, in either order: the status of the probe says which receive is right. */
static void probe_types(void)
{
	int i = 7, seen = 0;
	double x = 7.5;
	MPI_Status s;

	if (me == 0)
		MPI_Send(&i, 1, MPI_INT, 2, 0, WORLD);
	else if (me == 1)
		MPI_Send(&x, 1, MPI_DOUBLE, 2, 0, WORLD);
	if (me != 2)
		return;
	i = 0;
	x = 0;
	for (int k = 0; k < 2; k++) {
		MPI_Probe(MPI_ANY_SOURCE, 0, WORLD, &s);
		seen |= 1 << s.MPI_SOURCE;
		if (s.MPI_SOURCE == 0) {
			CHECK_EQ(count_of(&s, MPI_INT), 1);
			MPI_Recv(&i, 1, MPI_INT, 0, 0, WORLD, &s);
		} else {
			CHECK_EQ(count_of(&s, MPI_DOUBLE), 1);
			MPI_Recv(&x, 1, MPI_DOUBLE, s.MPI_SOURCE, 0, WORLD, &s);
		}
	}
	CHECK(seen == 3 && i == 7 && x == 7.5);
}

/* A matched message is found by no other receive or probe, and keeps its place before later messages. */
static void matched(void)
{
	int v[3], flag = 0, n;
	MPI_Message first = MPI_MESSAGE_NULL, second;
	MPI_Request r;
	MPI_Status s;

	for (int round = 0; round < 4; round++) {
		n = sizes[round];
		for (int i = 0; i < 3; i++)
			v[i] = i;
		if (me == 0) {
			fill(big, sizeof(int) * n, round);
			MPI_Isend(big, n, MPI_INT, 1, 40, WORLD, &r);
			MPI_Send(v, 3, MPI_INT, 1, 40, WORLD);
			MPI_Send(v, 2, MPI_INT, 1, 41, WORLD);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		} else if (me == 1) {
			MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &first, &s);
			CHECK_EQ(s.MPI_TAG, 40);
			CHECK_EQ(count_of(&s, MPI_INT), n);
			MPI_Probe(0, 40, WORLD, &s);
			CHECK_EQ(count_of(&s, MPI_INT), 3);
			do
				MPI_Improbe(0, 41, WORLD, &flag, &second, &s);
			while (!flag);
			CHECK_EQ(count_of(&s, MPI_INT), 2);
			MPI_Imrecv(v, 2, MPI_INT, &second, &r);
			CHECK(second == MPI_MESSAGE_NULL);
			MPI_Wait(&r, &s);
			CHECK_EQ(s.MPI_TAG, 41);
			MPI_Recv(v, 3, MPI_INT, 0, MPI_ANY_TAG, WORLD, &s);
			CHECK(s.MPI_TAG == 40 && v[2] == 2);
			MPI_Mrecv(big, n, MPI_INT, &first, &s);
			CHECK(first == MPI_MESSAGE_NULL && s.MPI_SOURCE == 0 && s.MPI_TAG == 40);
			VERIFY(big, sizeof(int) * n, round);
			MPI_Improbe(0, MPI_ANY_TAG, WORLD, &flag, &second, &s);
			CHECK(!flag);
		}
		meet(sync_comm);
	}
}

/* Receives that were posted ahead are cancelled, and the messages match other receives. */
static void cancel_receive(void)
{
	int a = -1, b = -1, flag = 0, out = me;
	MPI_Request r, again;
	MPI_Status s;

	MPI_Irecv(&a, 1, MPI_INT, left, 50, WORLD, &r);
	MPI_Cancel(&r);
	CHECK(r != MPI_REQUEST_NULL);
	MPI_Wait(&r, &s);
	CHECK(was_cancelled(&s) && r == MPI_REQUEST_NULL);
	meet(sync_comm);	/* no rank has sent so far */
	MPI_Irecv(&b, 1, MPI_INT, MPI_ANY_SOURCE, 50, WORLD, &r);
	MPI_Send(&out, 1, MPI_INT, right, 50, WORLD);
	MPI_Wait(&r, &s);
	CHECK(!was_cancelled(&s) && a == -1 && b == left);
	/* a complete receive cannot be cancelled any more: the message stays received */
	MPI_Irecv(&a, 1, MPI_INT, left, 50, WORLD, &r);
	MPI_Send(&out, 1, MPI_INT, right, 50, WORLD);
	while (!flag)
		MPI_Request_get_status(r, &flag, MPI_STATUS_IGNORE);
	MPI_Cancel(&r);
	do
		MPI_Test(&r, &flag, &s);
	while (!flag);
	CHECK(!was_cancelled(&s) && a == left);
	/* a persistent one can be started again */
	MPI_Recv_init(&a, 1, MPI_INT, left, 51, WORLD, &again);
	for (int i = 0; i < 3; i++) {
		a = -1;
		MPI_Start(&again);
		if (i != 1) {
			MPI_Send(&out, 1, MPI_INT, right, 51, WORLD);
		} else {
			meet(sync_comm);
			MPI_Cancel(&again);
		}
		MPI_Wait(&again, &s);
		CHECK_EQ(was_cancelled(&s), i == 1);
		CHECK_EQ(a, i == 1 ? -1 : left);
		meet(sync_comm);
	}
	MPI_Request_free(&again);
}

/* A send either is cancelled or arrives; MPI_Wait returns before any rank receives. */
static void cancel_send(void)
{
	int flag, gone[4], come[4];
	MPI_Request r;
	MPI_Status s;

	for (int i = 0; i < 4; i++) {
		MPI_Issend(big, sizes[i], MPI_INT, right, 60 + i, WORLD, &r);
		MPI_Cancel(&r);
		MPI_Wait(&r, &s);
		gone[i] = was_cancelled(&s);
		CHECK(gone[i] == 0 || gone[i] == 1);
	}
	MPI_Sendrecv(gone, 4, MPI_INT, right, 64, come, 4, MPI_INT, left, 64, WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < 4; i++) {
		if (come[i]) {
			MPI_Iprobe(left, 60 + i, WORLD, &flag, MPI_STATUS_IGNORE);
			CHECK(!flag);
		} else {
			MPI_Recv(other, sizes[i], MPI_INT, left, 60 + i, WORLD, MPI_STATUS_IGNORE);
		}
	}
}

/* ---- 3.9: persistent -------------------------------------------------------------------------------------- */

static void persistent_ring(void)
{
	enum { ROUNDS = 20, MODES = 4 };
	int out[MODES], in[MODES], size;
	char room[MPI_BSEND_OVERHEAD + 64];
	MPI_Request r[2 * MODES];
	MPI_Status s[2 * MODES];
	void *p;

	MPI_Buffer_attach(room, sizeof(room));
	for (int i = 0; i < MODES; i++)
		MPI_Recv_init(&in[i], 1, MPI_INT, left, 70 + i, WORLD, &r[i]);
	MPI_Send_init(&out[0], 1, MPI_INT, right, 70, WORLD, &r[4]);
	MPI_Bsend_init(&out[1], 1, MPI_INT, right, 71, WORLD, &r[5]);
	MPI_Ssend_init(&out[2], 1, MPI_INT, right, 72, WORLD, &r[6]);
	MPI_Rsend_init(&out[3], 1, MPI_INT, right, 73, WORLD, &r[7]);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < MODES; i++)
			out[i] = 1000 * me + 10 * round + i;
		MPI_Startall(MODES, r);
		meet(sync_comm);	/* of the ready one the receive is there */
		MPI_Startall(MODES, r + MODES);
		MPI_Waitall(2 * MODES, r, s);
		for (int i = 0; i < MODES; i++) {
			CHECK_EQ(in[i], 1000 * left + 10 * round + i);
			CHECK(s[i].MPI_SOURCE == left && s[i].MPI_TAG == 70 + i);
			CHECK(r[i] != MPI_REQUEST_NULL && r[MODES + i] != MPI_REQUEST_NULL);
		}
	}
	for (int i = 0; i < 2 * MODES; i++)
		MPI_Request_free(&r[i]);
	MPI_Buffer_detach(&p, &size);
}

/* A persistent send meets an ordinary receive, and the other way round; and one that is freed while active completes. */
static void persistent_mixed(void)
{
	int out = me, in = -1;
	MPI_Request r;
	MPI_Comm dup;

	MPI_Send_init(&out, 1, MPI_INT, right, 80, WORLD, &r);
	MPI_Start(&r);
	MPI_Recv(&in, 1, MPI_INT, left, 80, WORLD, MPI_STATUS_IGNORE);
	CHECK_EQ(in, left);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	MPI_Start(&r);
	MPI_Request_free(&r);
	CHECK(r == MPI_REQUEST_NULL);
	in = -1;
	MPI_Recv_init(&in, 1, MPI_INT, left, 80, WORLD, &r);
	MPI_Start(&r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK_EQ(in, left);
	MPI_Request_free(&r);
	/* section 7.4.3: those of a communicator that was freed go on, also when they were not active then */
	MPI_Comm_dup(WORLD, &dup);
	MPI_Request both[2];
	MPI_Recv_init(&in, 1, MPI_INT, left, 81, dup, &both[0]);
	MPI_Send_init(&out, 1, MPI_INT, right, 81, dup, &both[1]);
	MPI_Comm_free(&dup);
	for (int i = 0; i < 3; i++) {
		out = 10 * me + i;
		in = -1;
		MPI_Startall(2, both);
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
		CHECK_EQ(in, 10 * left + i);
	}
	MPI_Request_free(&both[0]);
	MPI_Request_free(&both[1]);
}

const struct standard_case request_cases[] = {
	{ "3.7", "overlap", 1, overlap },
	{ "3.7.3", "freed_sends", 2, freed_sends },
	{ "3.7.3", "nothing_to_wait_for", 1, nothing_to_wait_for },
	{ "3.7.4", "progress", 2, progress },
	{ "3.7.4", "order_of_starts", 2, order_of_starts },
	{ "3.7.5", "clients_any", 2, clients_any },
	{ "3.7.5", "clients_some", 2, clients_some },
	{ "3.7.5", "several_fail", 1, several_fail },
	{ "3.7.5", "one_fails", 1, one_fails },
	{ "3.7.6", "looking", 1, looking },
	{ "3.8.1", "probe_types", 3, probe_types },
	{ "3.8.2, 3.8.3", "matched", 2, matched },
	{ "3.8.4", "cancel_receive", 1, cancel_receive },
	{ "3.8.4", "cancel_send", 1, cancel_send },
	{ "3.9", "persistent_ring", 1, persistent_ring },
	{ "3.9, 3.7.3", "persistent_mixed", 1, persistent_mixed },
};
const int nrequest_cases = sizeof(request_cases) / sizeof(*request_cases);
