/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: every form of completion, errors in statuses, cancelled operations. */
#include <sched.h>

#include "mpi_ptp.h"

/* ---- section 3.7.5, 3.7.6 ------------------------------------------------------------------------------ */

void completions(void)
{
	int in[8], out[8], count, indices[8], flag, index, got = 0;
	MPI_Request r[8], s[8], copy[8];
	MPI_Status st[8];

	for (int i = 0; i < 8; i++) {
		in[i] = -1;
		out[i] = 10 * me + i;
		MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &r[i]);
	}
	MPI_Request_get_status_any(8, r, &index, &flag, &st[0]);
	CHECK_EQ(flag, 0);
	CHECK_EQ(index, MPI_UNDEFINED);
	MPI_Request_get_status_some(8, r, &count, indices, st);
	CHECK_EQ(count, 0);
	meet(sync_comm);
	for (int i = 7; i >= 0; i--)
		MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &s[i]);
	memcpy(copy, r, sizeof(r));
	do
		MPI_Request_get_status_any(8, r, &index, &flag, &st[0]);
	while (!flag);
	CHECK_STATUS(st[0], left, index, 4);
	do
		MPI_Request_get_status_some(8, r, &count, indices, st);
	while (count < 8);
	CHECK_EQ(count, 8);
	for (int i = 0; i < 8; i++)
		CHECK_STATUS(st[i], left, indices[i], 4);
	MPI_Request_get_status_all(8, r, &flag, st);
	CHECK_EQ(flag, 1);
	for (int i = 0; i < 8; i++)
		CHECK_STATUS(st[i], left, i, 4);
	CHECK(!memcmp(copy, r, sizeof(r)));
	MPI_Testany(8, r, &index, &flag, &st[0]);
	CHECK(flag && r[index] == MPI_REQUEST_NULL);
	got = 1;
	MPI_Waitsome(8, r, &count, indices, st);
	got += count;
	for (int k = 0; k < count; k++)
		CHECK(r[indices[k]] == MPI_REQUEST_NULL);
	CHECK_EQ(got, 8);
	MPI_Waitsome(8, r, &count, indices, st);
	CHECK_EQ(count, MPI_UNDEFINED);
	MPI_Waitall(8, s, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(in[i], 10 * left + i);
	MPI_Waitall(0, NULL, NULL);
	MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE);
	CHECK_EQ(index, MPI_UNDEFINED);
}

/* One of three is truncated: the other two succeed, and the statuses have the errors. MPI_ERROR is not touched otherwise. */
void errors_in_status(void)
{
	char in[3][64], out[64] = "";
	MPI_Request r[3];
	MPI_Status s[3];
	int rc, class, count, indices[3];

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int form = 0; form < 3; form++) {
		for (int i = 0; i < 3; i++) {
			s[i].MPI_ERROR = 4711;
			MPI_Irecv(in[i], i == 1 ? 10 : 64, MPI_BYTE, left, i, MPI_COMM_WORLD, &r[i]);
		}
		meet(sync_comm);
		for (int i = 0; i < 3; i++)
			MPI_Send(out, 20, MPI_BYTE, right, i, MPI_COMM_WORLD);
		meet(sync_comm);
		meet(sync_comm);
		if (form == 0) {
			CHECK_CLASS(MPI_Waitall(3, r, s), MPI_ERR_IN_STATUS);
		} else if (form == 1) {
			do {
				rc = MPI_Testall(3, r, &count, s);
			} while (!rc && !count);
			CHECK_CLASS(rc, MPI_ERR_IN_STATUS);
		} else {
			rc = MPI_Waitsome(3, r, &count, indices, s);
			CHECK_EQ(count, 3);
			CHECK_CLASS(rc, MPI_ERR_IN_STATUS);
		}
		for (int i = 0; i < 3; i++) {
			CHECK(r[i] == MPI_REQUEST_NULL);
			MPI_Error_class(s[i].MPI_ERROR, &class);
			CHECK_EQ(class, i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
		}
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

void freed(void)
{
	MPI_Request r;
	int out = me, in = -1;

	MPI_Irecv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r);
	MPI_Request_free(&r);
	CHECK(r == MPI_REQUEST_NULL);
	MPI_Issend(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &r);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	meet(sync_comm);
	CHECK_EQ(in, left);
}

/* ---- section 3.8.4 ------------------------------------------------------------------------------------- */

/* Sends without a receive: each is cancelled, MPI_Wait returns, and nothing arrives. */
void cancel_sends(void)
{
	static char big[300000];
	MPI_Request r[3];
	MPI_Status s;
	int flag;

	for (int round = 0; round < 3; round++) {
		MPI_Issend(big, 4, MPI_BYTE, right, 1, MPI_COMM_WORLD, &r[0]);
		MPI_Isend(big, sizeof(big), MPI_BYTE, right, 1, MPI_COMM_WORLD, &r[1]);
		MPI_Ssend_init(big, sizeof(big), MPI_BYTE, right, 1, MPI_COMM_WORLD, &r[2]);
		MPI_Start(&r[2]);
		if (round)
			meet(sync_comm);	/* the announcements may have arrived */
		for (int i = 0; i < 3; i++)
			MPI_Cancel(&r[i]);
		for (int i = 0; i < 3; i++) {
			MPI_Wait(&r[i], &s);
			CHECK_EQ(is_cancelled(&s), 1);
		}
		CHECK(r[0] == MPI_REQUEST_NULL && r[1] == MPI_REQUEST_NULL && r[2] != MPI_REQUEST_NULL);
		MPI_Request_free(&r[2]);
		meet(sync_comm);
		MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		CHECK_EQ(flag, 0);
		meet(sync_comm);
	}
}

/* Sends and receives that meet while they are cancelled: both sides agree on which ones matched, and received data is whole. */
void cancel_races(void)
{
	static char out[100000], in[100000];
	int sent = 0, got = 0, total_sent, total_got, flag;
	MPI_Request r, q;
	MPI_Status s;
	uint64_t state = 77 + me;

	for (int i = 0; i < 60; i++) {
		int n = rnd(&state) % 2 ? (int)sizeof(out) : 30, most = (int)sizeof(in);

		fill(out, n, seed_of(me, right, i, n));
		MPI_Irecv(in, most, MPI_BYTE, left, i, MPI_COMM_WORLD, &q);
		if (n == 30)
			MPI_Issend(out, n, MPI_BYTE, right, i, MPI_COMM_WORLD, &r);
		else
			MPI_Isend(out, n, MPI_BYTE, right, i, MPI_COMM_WORLD, &r);
		for (int k = rnd(&state) % 4; k; k--)
			MPI_Iprobe(MPI_ANY_SOURCE, 99999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
		if (rnd(&state) % 2)
			MPI_Cancel(&r);
		MPI_Wait(&r, &s);
		sent += !is_cancelled(&s);
		/* The neighbour's message is under way or was cancelled: a message under way has arrived after all ranks have
		 * waited. */
		meet(sync_comm);
		MPI_Cancel(&q);
		MPI_Wait(&q, &s);
		if (!is_cancelled(&s)) {
			got++;
			MPI_Get_count(&s, MPI_BYTE, &n);
			VERIFY(in, n, seed_of(left, me, i, n));
		}
	}
	MPI_Allreduce(&sent, &total_sent, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(&got, &total_got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK_EQ(total_sent, total_got);
}

void cancel_receives(void)
{
	MPI_Request r;
	MPI_Message message;
	MPI_Status s;
	int v = -1, out = me;

	/* to itself: one that a matched probe has is received, one that is there is not */
	MPI_Issend(&out, 1, MPI_INT, me, 2, MPI_COMM_WORLD, &r);
	MPI_Mprobe(me, 2, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
	MPI_Cancel(&r);
	MPI_Mrecv(&v, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
	MPI_Wait(&r, &s);
	CHECK_EQ(is_cancelled(&s), 0);
	CHECK_EQ(v, me);
	MPI_Issend(&out, 1, MPI_INT, me, 2, MPI_COMM_WORLD, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	CHECK_EQ(is_cancelled(&s), 1);

	MPI_Irecv(&v, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	CHECK_EQ(is_cancelled(&s), 1);
	MPI_Recv_init(&v, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &r);
	MPI_Start(&r);
	MPI_Cancel(&r);
	MPI_Wait(&r, &s);
	CHECK_EQ(is_cancelled(&s), 1);
	meet(sync_comm);
	MPI_Start(&r);
	MPI_Send(&out, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
	MPI_Wait(&r, &s);
	CHECK_EQ(is_cancelled(&s), 0);
	CHECK_EQ(v, left);
	MPI_Request_free(&r);
	meet(sync_comm);
}

/* "If a request for a receive repeatedly appears in a list of requests passed to MPI_WAITSOME or MPI_TESTSOME, and a matching
 * send has been posted, then the receive will eventually succeed", though another is done each time: one from the rank itself. */
void some_are_fair(int test)
{
	static const int len[] = { 8, 100000 };
	char *in = malloc(len[1]);

	for (int i = 0; i < 6; i++) {
		int n = len[i / 3], one = 0, token, count, index[2], arrived = 0;
		MPI_Request r[2];

		if (me == 1) {
			char *out = message(me, 0, i, n);

			meet(sync_comm);
			MPI_Send(out, n, MPI_BYTE, 0, i, MPI_COMM_WORLD);
			free(out);
		} else if (me) {
			meet(sync_comm);
		} else {
			MPI_Irecv(in, n, MPI_BYTE, 1, i, MPI_COMM_WORLD, &r[1]);
			meet(sync_comm);
			for (int turn = 0; !arrived; turn++) {
				CHECK(turn < 1 << 22);
				MPI_Irecv(&token, 1, MPI_INT, 0, 100, MPI_COMM_WORLD, &r[0]);
				MPI_Send(&one, 1, MPI_INT, 0, 100, MPI_COMM_WORLD);
				if (test)
					MPI_Testsome(2, r, &count, index, MPI_STATUSES_IGNORE);
				else
					MPI_Waitsome(2, r, &count, index, MPI_STATUSES_IGNORE);
				for (int k = 0; k < count; k++)
					arrived |= index[k] == 1;
				MPI_Wait(&r[0], MPI_STATUS_IGNORE);
				sched_yield();
			}
			VERIFY(in, n, seed_of(1, 0, i, n));
		}
	}
	free(in);
	meet(sync_comm);
}
