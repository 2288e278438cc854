/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point communication: chapter 3 without requests. */
#include "standard_ptp.h"

int right, left, big[300000], other[300000];

/* ---- 3.2 to 3.5: blocking, and the order of messages ------------------------------------------------------ */

static void greeting(void)
{
	char text[40] = "";
	MPI_Status s;

	if (me == 0) {
		strcpy(text, "from zero");
		MPI_Send(text, (int)strlen(text) + 1, MPI_CHAR, 1, 99, WORLD);
	} else if (me == 1) {
		MPI_Recv(text, sizeof(text), MPI_CHAR, 0, 99, WORLD, &s);
		CHECK(!strcmp(text, "from zero"));
		CHECK_EQ(count_of(&s, MPI_CHAR), 10);
		CHECK_EQ(s.MPI_SOURCE, 0);
		CHECK_EQ(s.MPI_TAG, 99);
	}
}

/* Wildcard receives: source and tag are in the status, and each sender's messages come in order. */
static void wildcards(void)
{
	enum { EACH = 20 };
	int next[8] = { 0 }, v[2];
	MPI_Status s;

	if (me) {
		for (int i = 0; i < EACH; i++) {
			v[0] = me;
			v[1] = i;
			MPI_Send(v, 2, MPI_INT, 0, 100 + i % 3, WORLD);
		}
		return;
	}
	for (int i = 0; i < EACH * (np - 1); i++) {
		MPI_Recv(v, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, WORLD, &s);
		CHECK_EQ(s.MPI_SOURCE, v[0]);
		CHECK_EQ(s.MPI_TAG, 100 + v[1] % 3);
		CHECK_EQ(v[1], next[v[0]]++);
	}
}

/* A message that matches two receives is taken by the first one; a wildcard receive gets the message that was sent first. */
static void not_overtaken(void)
{
	char room[4 * (8 + MPI_BSEND_OVERHEAD)];
	double a = 1.5, b = 2.5;
	MPI_Status s;
	void *p;
	int n;

	if (me == 0) {
		MPI_Buffer_attach(room, sizeof(room));
		MPI_Bsend(&a, 1, MPI_DOUBLE, 1, 5, WORLD);
		MPI_Bsend(&b, 1, MPI_DOUBLE, 1, 5, WORLD);
		MPI_Buffer_detach(&p, &n);
		CHECK(p == room && n == sizeof(room));
	} else if (me == 1) {
		a = b = 0;
		MPI_Recv(&a, 1, MPI_DOUBLE, 0, MPI_ANY_TAG, WORLD, MPI_STATUS_IGNORE);
		MPI_Recv(&b, 1, MPI_DOUBLE, 0, 5, WORLD, &s);
		CHECK(a == 1.5 && b == 2.5);
	}
}

/* Messages of every protocol under one envelope: in order, though the short ones are faster. */
static void order_of_sizes(void)
{
	enum { N = 12 };
	static int out[N][20000];
	MPI_Request r[N];
	MPI_Status s;
	int len;

	if (me == 0) {
		for (int i = 0; i < N; i++) {
			len = i % 3 == 0 ? 20000 : i % 3 == 1 ? 1 : 700;
			fill(out[i], sizeof(int) * len, i);
			MPI_Isend(out[i], len, MPI_INT, 1, 6, WORLD, &r[i]);
		}
		MPI_Waitall(N, r, MPI_STATUSES_IGNORE);
	} else if (me == 1) {
		for (int i = 0; i < N; i++) {
			len = i % 3 == 0 ? 20000 : i % 3 == 1 ? 1 : 700;
			MPI_Recv(out[i], 20000, MPI_INT, i % 2 ? 0 : MPI_ANY_SOURCE, i % 4 > 1 ? 6 : MPI_ANY_TAG, WORLD, &s);
			CHECK_EQ(count_of(&s, MPI_INT), len);
			VERIFY(out[i], sizeof(int) * len, i);
		}
	}
}

/* The second message is received first: this works at any size only if the first send is buffered. */
static void crossed_pairs(void)
{
	char *room = NULL;
	int n, size;
	void *p;

	for (int i = 0; i < 4; i++) {
		n = sizes[i];
		if (me == 0) {
			MPI_Pack_size(n, MPI_INT, WORLD, &size);
			CHECK(size >= n * (int)sizeof(int));
			room = malloc(size + MPI_BSEND_OVERHEAD);
			MPI_Buffer_attach(room, size + MPI_BSEND_OVERHEAD);
			fill(big, sizeof(int) * n, i);
			MPI_Bsend(big, n, MPI_INT, 1, 1, WORLD);
			fill(big, sizeof(int) * n, 50 + i);
			MPI_Ssend(big, n, MPI_INT, 1, 2, WORLD);
			MPI_Buffer_detach(&p, &size);
			CHECK(p == room);
			free(room);
		} else if (me == 1) {
			MPI_Recv(other, n, MPI_INT, 0, 2, WORLD, MPI_STATUS_IGNORE);
			VERIFY(other, sizeof(int) * n, 50 + i);
			MPI_Recv(other, n, MPI_INT, 0, 1, WORLD, MPI_STATUS_IGNORE);
			VERIFY(other, sizeof(int) * n, i);
		}
	}
}

/* Two that exchange: one sends first and the other receives first; or both send first, and the sends are buffered. */
static void exchange(void)
{
	int peer = me ^ 1, n, size;
	char *room;
	void *p;

	if (peer >= np)
		return;
	for (int i = 0; i < 4; i++) {
		n = sizes[i];
		fill(big, sizeof(int) * n, 10 * me + i);
		if (me < peer) {
			MPI_Send(big, n, MPI_INT, peer, 3, WORLD);
			MPI_Recv(other, n, MPI_INT, peer, 3, WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(other, n, MPI_INT, peer, 3, WORLD, MPI_STATUS_IGNORE);
			MPI_Send(big, n, MPI_INT, peer, 3, WORLD);
		}
		VERIFY(other, sizeof(int) * n, 10 * peer + i);
		MPI_Pack_size(n, MPI_INT, WORLD, &size);
		room = malloc(size + MPI_BSEND_OVERHEAD);
		MPI_Buffer_attach(room, size + MPI_BSEND_OVERHEAD);
		fill(big, sizeof(int) * n, 10 * me + i + 5);
		MPI_Bsend(big, n, MPI_INT, peer, 4, WORLD);
		memset(big, 0, sizeof(int) * n);
		MPI_Recv(other, n, MPI_INT, peer, 4, WORLD, MPI_STATUS_IGNORE);
		VERIFY(other, sizeof(int) * n, 10 * peer + i + 5);
		MPI_Buffer_detach(&p, &size);
		free(room);
	}
}

/* A ready send may start when its receive is posted, which a message the other way confirms. */
static void ready(void)
{
	MPI_Request r, s;

	for (int i = 0; i < 4; i++) {
		int n = sizes[i], token = 0;

		MPI_Irecv(other, n, MPI_INT, left, 7, WORLD, &r);
		MPI_Sendrecv(&me, 1, MPI_INT, left, 8, &token, 1, MPI_INT, right, 8, WORLD, MPI_STATUS_IGNORE);
		CHECK_EQ(token, right);
		fill(big, sizeof(int) * n, me);
		if (i % 2) {
			MPI_Irsend(big, n, MPI_INT, right, 7, WORLD, &s);
			MPI_Waitall(2, (MPI_Request[]){ r, s }, MPI_STATUSES_IGNORE);
		} else {
			MPI_Rsend(big, n, MPI_INT, right, 7, WORLD);
			MPI_Wait(&r, MPI_STATUS_IGNORE);
		}
		VERIFY(other, sizeof(int) * n, left);
		meet(sync_comm);
	}
}

/* ---- 3.6: buffers ---------------------------------------------------------------------------------------- */

/* The communicator's buffer has that communicator's messages, the process's buffer the other ones; detaching returns
 * address and size of each. */
static void two_buffers(void)
{
	enum { COMM = 20000 + MPI_BSEND_OVERHEAD, PROCESS = 10000 + MPI_BSEND_OVERHEAD };
	static char in[20000], out[20000];
	char *of_comm = malloc(COMM), *of_process = malloc(PROCESS);
	MPI_Comm dup;
	int size = 0;
	void *p = NULL;

	MPI_Comm_dup(WORLD, &dup);
	MPI_Comm_attach_buffer(WORLD, of_comm, COMM);
	MPI_Buffer_attach(of_process, PROCESS);
	FAILS(MPI_Comm_attach_buffer(WORLD, of_comm, COMM), MPI_ERR_BUFFER);
	fill(out, 20000, me);
	MPI_Bsend(out, 20000, MPI_CHAR, right, 9, WORLD);
	fill(out, 10000, me + 100);
	MPI_Bsend(out, 10000, MPI_CHAR, right, 9, dup);
	MPI_Recv(in, 10000, MPI_CHAR, left, 9, dup, MPI_STATUS_IGNORE);
	VERIFY(in, 10000, left + 100);
	MPI_Recv(in, 20000, MPI_CHAR, left, 9, WORLD, MPI_STATUS_IGNORE);
	VERIFY(in, 20000, left);
	MPI_Comm_flush_buffer(WORLD);
	MPI_Comm_detach_buffer(WORLD, &p, &size);
	CHECK(p == of_comm && size == COMM);
	MPI_Buffer_detach(&p, &size);
	CHECK(p == of_process && size == PROCESS);
	FAILS(MPI_Bsend(out, 1, MPI_CHAR, right, 9, WORLD), MPI_ERR_BUFFER);
	MPI_Comm_free(&dup);
	free(of_comm);
	free(of_process);
}

/* Automatic buffering of the process and of a communicator: no send waits, and detaching returns MPI_BUFFER_AUTOMATIC. */
static void automatic(void)
{
	enum { N = 30 };
	int n = 5000, out = 0, size, flag;
	MPI_Request r;
	MPI_Count count = 0;
	MPI_Comm dup;
	void *p;

	MPI_Comm_dup(WORLD, &dup);
	for (int of_comm = 0; of_comm < 2; of_comm++) {
		p = NULL;
		if (of_comm)
			MPI_Comm_attach_buffer(dup, MPI_BUFFER_AUTOMATIC, 0);
		else
			MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
		FAILS(of_comm ? MPI_SUCCESS : MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0), of_comm ? MPI_SUCCESS : MPI_ERR_BUFFER);
		for (int i = 0; i < N; i++) {
			fill(big, sizeof(int) * n, 1000 * me + i);
			MPI_Bsend(big, n, MPI_INT, right, i, dup);
		}
		/* the flush does not end before the messages are received */
		if (of_comm)
			MPI_Comm_iflush_buffer(dup, &r);
		else
			MPI_Buffer_iflush(&r);
		for (int i = N; i-- > 0;) {
			MPI_Recv(other, n, MPI_INT, left, i, dup, MPI_STATUS_IGNORE);
			VERIFY(other, sizeof(int) * n, 1000 * left + i);
		}
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (of_comm) {
			MPI_Comm_detach_buffer_c(dup, &p, &count);
		} else {
			MPI_Buffer_flush();
			MPI_Buffer_detach(&p, &size);
		}
		CHECK(p == MPI_BUFFER_AUTOMATIC);
	}
	FAILS(MPI_Bsend(&out, 1, MPI_INT, right, 1, WORLD), MPI_ERR_BUFFER);
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &flag, MPI_STATUS_IGNORE);
	CHECK(!flag);
	MPI_Comm_free(&dup);
}

/* A communicator is freed with messages in its own buffer: they arrive. No call tells when the buffer is the program's again. */
static void free_with_buffer(void)
{
	static char room[sizeof(big) + 2 * MPI_BSEND_OVERHEAD + 4];
	int n = sizes[3] - 1, small = me, token;
	MPI_Request r[2];
	MPI_Comm dup;

	MPI_Comm_dup(WORLD, &dup);
	MPI_Comm_attach_buffer(dup, room, sizeof(room));
	MPI_Irecv(other, n, MPI_INT, left, 1, dup, &r[0]);
	MPI_Irecv(&token, 1, MPI_INT, left, 2, dup, &r[1]);
	fill(big, sizeof(int) * n, me);
	MPI_Bsend(big, n, MPI_INT, right, 1, dup);
	MPI_Bsend(&small, 1, MPI_INT, right, 2, dup);
	MPI_Comm_free(&dup);
	memset(big, 0, sizeof(int) * n);
	MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
	VERIFY(other, sizeof(int) * n, left);
	CHECK_EQ(token, left);
}

/* Section 11.10.4: MPI_Comm_disconnect waits for buffered messages, in the communicator's buffer and in the process's, and for
 * freed requests; inactive persistent requests may stay. */
static void disconnect(void)
{
	int n = sizes[2], out = me, in = -1, size;
	char *room = malloc(sizeof(int) * n + MPI_BSEND_OVERHEAD);
	MPI_Request r[2], freed, idle;
	MPI_Comm dup;
	void *p;

	for (int of_comm = 0; of_comm < 2; of_comm++) {
		MPI_Comm_dup(WORLD, &dup);
		MPI_Send_init(&out, 1, MPI_INT, right, 3, dup, &idle);
		MPI_Start(&idle);
		MPI_Recv(&in, 1, MPI_INT, left, 3, dup, MPI_STATUS_IGNORE);
		CHECK_EQ(in, left);
		MPI_Wait(&idle, MPI_STATUS_IGNORE);
		if (of_comm)
			MPI_Comm_attach_buffer(dup, room, (int)sizeof(int) * n + MPI_BSEND_OVERHEAD);
		else
			MPI_Buffer_attach(room, (int)sizeof(int) * n + MPI_BSEND_OVERHEAD);
		MPI_Irecv(other, n, MPI_INT, left, 1, dup, &r[0]);
		MPI_Irecv(&in, 1, MPI_INT, left, 2, dup, &r[1]);
		fill(big, sizeof(int) * n, me + of_comm);
		MPI_Bsend(big, n, MPI_INT, right, 1, dup);
		MPI_Isend(&out, 1, MPI_INT, right, 2, dup, &freed);
		MPI_Request_free(&freed);
		MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
		MPI_Comm_disconnect(&dup);
		CHECK(dup == MPI_COMM_NULL);
		VERIFY(other, sizeof(int) * n, left + of_comm);
		if (!of_comm) {
			MPI_Buffer_detach(&p, &size);
			CHECK(p == room);
		}
		/* the communicator's buffer is empty now */
		memset(room, 0x5a, sizeof(int) * n + MPI_BSEND_OVERHEAD);
		meet(sync_comm);
	}
	free(room);
}

/* ---- 3.10, 3.11 ------------------------------------------------------------------------------------------ */

static void shift_both(void)
{
	MPI_Request r, two[2];
	MPI_Status s;
	int out, in, n;

	for (int i = 0; i < 4; i++) {
		n = sizes[i];
		fill(big, sizeof(int) * n, me);
		MPI_Sendrecv(big, n, MPI_INT, right, 1, other, n, MPI_INT, left, 1, WORLD, &s);
		VERIFY(other, sizeof(int) * n, left);
		CHECK(s.MPI_SOURCE == left && count_of(&s, MPI_INT) == n);
		MPI_Sendrecv_replace(big, n, MPI_INT, right, 2, left, 2, WORLD, &s);
		VERIFY(big, sizeof(int) * n, left);
		MPI_Isendrecv_replace(big, n, MPI_INT, left, 3, right, 3, WORLD, &r);
		MPI_Wait(&r, &s);
		VERIFY(big, sizeof(int) * n, me);
		CHECK(s.MPI_SOURCE == right && count_of(&s, MPI_INT) == n);
	}
	/* a plain receive takes the message of MPI_Sendrecv, and MPI_Sendrecv that of a plain send */
	out = me;
	in = -1;
	if (me % 2) {
		MPI_Isendrecv(&out, 1, MPI_INT, right, 4, &in, 1, MPI_INT, left, 4, WORLD, &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	} else {
		MPI_Irecv(&in, 1, MPI_INT, left, 4, WORLD, &two[0]);
		MPI_Isend(&out, 1, MPI_INT, right, 4, WORLD, &two[1]);
		MPI_Waitall(2, two, MPI_STATUSES_IGNORE);
	}
	CHECK_EQ(in, left);
}

/* A shift without a ring: at the ends are null processes. */
static void open_ends(void)
{
	int up = me + 1 < np ? me + 1 : MPI_PROC_NULL, down = me ? me - 1 : MPI_PROC_NULL, in = -7, flag = 0;
	MPI_Message m = MPI_MESSAGE_NULL;
	MPI_Request r;
	MPI_Status s;

	MPI_Sendrecv(&me, 1, MPI_INT, up, 1, &in, 1, MPI_INT, down, 1, WORLD, &s);
	CHECK_EQ(in, me ? me - 1 : -7);
	CHECK_EQ(s.MPI_SOURCE, down);
	CHECK_EQ(s.MPI_TAG, me ? 1 : MPI_ANY_TAG);
	CHECK_EQ(count_of(&s, MPI_INT), me ? 1 : 0);
	MPI_Issend(&me, 1, MPI_INT, MPI_PROC_NULL, 1, WORLD, &r);
	MPI_Test(&r, &flag, &s);
	CHECK(flag);
	MPI_Mprobe(MPI_PROC_NULL, 1, WORLD, &m, &s);
	CHECK(m == MPI_MESSAGE_NO_PROC && s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG);
	MPI_Mrecv(&in, 1, MPI_INT, &m, &s);
	CHECK(m == MPI_MESSAGE_NULL && s.MPI_SOURCE == MPI_PROC_NULL && !count_of(&s, MPI_INT));
	MPI_Improbe(MPI_PROC_NULL, 1, WORLD, &flag, &m, &s);
	CHECK(flag && m == MPI_MESSAGE_NO_PROC);
	MPI_Imrecv(&in, 1, MPI_INT, &m, &r);
	MPI_Wait(&r, &s);
	CHECK(s.MPI_SOURCE == MPI_PROC_NULL && s.MPI_TAG == MPI_ANY_TAG);
}

/* Section 11.2.2: buffered messages, and those of freed requests, arrive though their sender is in MPI_Finalize. Odd ranks call
 * it at once, even ones later. */
static void last_messages(void)
{
	static char room[sizeof(big) + 2 * MPI_BSEND_OVERHEAD + sizeof(int)];
	static int in[2][300000];
	int up = me % 2 ? me - 1 : MPI_PROC_NULL, down = me % 2 == 0 && me + 1 < np ? me + 1 : MPI_PROC_NULL, token = me, got,
	    flag;
	MPI_Request r;

	fill(big, sizeof(big), me);
	MPI_Buffer_attach(room, sizeof(room));
	MPI_Isend(big, 300000, MPI_INT, up, 1, WORLD, &r);
	MPI_Request_free(&r);
	MPI_Bsend(big, 300000, MPI_INT, up, 2, WORLD);
	MPI_Bsend(&token, 1, MPI_INT, up, 3, WORLD);
	if (down == MPI_PROC_NULL)
		return;
	for (int i = 0; i < 100; i++)
		MPI_Iprobe(MPI_ANY_SOURCE, 4, WORLD, &flag, MPI_STATUS_IGNORE);
	MPI_Recv(&got, 1, MPI_INT, down, 3, WORLD, MPI_STATUS_IGNORE);
	CHECK_EQ(got, down);
	for (int i = 0; i < 2; i++) {
		MPI_Recv(in[i], 300000, MPI_INT, down, 2 - i, WORLD, MPI_STATUS_IGNORE);
		VERIFY(in[i], sizeof(in[i]), down);
	}
}

static const struct standard_case cases[] = {
	{ "3.2", "greeting", 2, greeting },
	{ "3.2.4", "wildcards", 2, wildcards },
	{ "3.5", "not_overtaken", 2, not_overtaken },
	{ "3.5", "order_of_sizes", 2, order_of_sizes },
	{ "3.5", "crossed_pairs", 2, crossed_pairs },
	{ "3.5", "exchange", 2, exchange },
	{ "3.4", "ready", 1, ready },
	{ "3.6", "two_buffers", 1, two_buffers },
	{ "3.6", "automatic", 1, automatic },
	{ "3.6, 7.4.3", "free_with_buffer", 1, free_with_buffer },
	{ "11.10.4", "disconnect", 1, disconnect },
	{ "3.10", "shift_both", 1, shift_both },
	{ "3.11", "open_ends", 1, open_ends },
};

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	right = (me + 1) % np;
	left = (me + np - 1) % np;
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	standard_run(request_cases, nrequest_cases, argc, argv);
	meet(sync_comm);
	MPI_Comm_free(&sync_comm);
	last_messages();
	if (!me)
		printf("ptp: ok, %d ranks\n", np);
	MPI_Finalize();
	return 0;
}
