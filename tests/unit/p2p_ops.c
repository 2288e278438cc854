/* SPDX-License-Identifier: BSD-3-Clause */
/* Point-to-point operations over a mock transport: this process is rank 0 of 4. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/comm/comm_cid.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"
#include "p2p/comm/comm.h"
#include "p2p_mock.h"

static struct hdl_type *ints, *bytes_t;

/* Committed. */
static struct hdl_type *vector_of_ints(MPI_Count count, MPI_Count blocklength, MPI_Count stride)
{
	struct hdl_type *t = hdl_type_new(MPI_COMBINER_VECTOR, false, 3, 1);

	t->args[0] = count;
	t->args[1] = blocklength;
	t->args[2] = stride;
	t->types[0] = hdl_type_get(MPI_INT);
	cr_assert_eq(hdl_type_finish(t), MPI_SUCCESS);
	cr_assert_eq(hdl_type_commit(t), MPI_SUCCESS);
	return t;
}

static void setup(void)
{
	mock_job(0, 4);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
	bytes_t = hdl_type_get(MPI_BYTE);
}

static void teardown(void)
{
	cr_assert_eq(hdl_pending, 0);
	cr_assert_eq(hdl_p2p_fini(false), 0);
}

TestSuite(p2p, .init = setup, .fini = teardown, .timeout = 60);

static int count_of(const MPI_Status *s)
{
	return (int)hdl_status_bytes(s);
}

/* ---- receive ------------------------------------------------------------------------------------------- */

Test(p2p, recv_expected)
{
	int value = 42, got = 0;
	MPI_Status s = { .MPI_ERROR = 77 };

	mock_later(2, 5, 0, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, 2, 5, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(got, 42);
	cr_assert_eq(s.MPI_SOURCE, 2);
	cr_assert_eq(s.MPI_TAG, 5);
	cr_assert_eq(s.MPI_ERROR, 77, "a single completion leaves MPI_ERROR alone");
	cr_assert_eq(count_of(&s), 4);
	cr_assert(!hdl_status_cancelled(&s));
}

Test(p2p, recv_unexpected_in_order)
{
	int got;

	for (int i = 0; i < 3; i++)
		mock_eager(1, 5, 0, &i, sizeof(i));
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(hdl_recv(&got, 1, ints, 1, i == 1 ? MPI_ANY_TAG : 5, &hdl_world, 0, NULL), MPI_SUCCESS);
		cr_assert_eq(got, i);
	}
	cr_assert_eq(hdl_mpi_matching->nunexpected, 0);
}

Test(p2p, recv_any_source)
{
	int value = 1, got;
	MPI_Status s;

	mock_later(3, 9, 0, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 3);
	cr_assert_eq(s.MPI_TAG, 9);
}

Test(p2p, recv_shorter_and_empty)
{
	int value[2] = { 1, 2 }, got[4] = { 9, 9, 9, 9 };
	MPI_Status s;

	mock_eager(1, 1, 0, value, 8);
	mock_eager(1, 1, 0, NULL, 0);
	cr_assert_eq(hdl_recv(got, 4, ints, 1, 1, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(count_of(&s), 8);
	cr_assert_eq(got[2], 9);
	cr_assert_eq(hdl_recv(NULL, 0, ints, 1, 1, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(count_of(&s), 0);
}

Test(p2p, recv_truncated)
{
	int value[3] = { 1, 2, 3 }, got[2] = { 0, 0 }, guard = 7;
	char text[512];

	mock_later(1, 6, 0, value, sizeof(value));
	cr_assert_eq(hdl_recv(got, 1, ints, 1, 6, &hdl_world, 0, NULL), MPI_ERR_TRUNCATE);
	cr_assert_eq(got[0], 1);
	cr_assert_eq(got[1], 0, "nothing is written behind the buffer");
	snprintf(text, sizeof(text), "%s", hdl_reason_take());
	cr_assert(strstr(text, "12 bytes") && strstr(text, "4 bytes") && strstr(text, "rank 1") && strstr(text,
													  "tag 6"),
		  "%s", text);
	cr_assert_str_eq(hdl_reason_take(), "");
	/* The queue is whole: the next message is received. */
	mock_later(1, 6, 0, &guard, sizeof(guard));
	cr_assert_eq(hdl_recv(got, 1, ints, 1, 6, &hdl_world, 0, NULL), MPI_SUCCESS);
	cr_assert_eq(got[0], 7);
}

Test(p2p, recv_rendezvous)
{
	static int value[100000], got[100000];
	struct hdl_req *req;

	for (int i = 0; i < 100000; i++)
		value[i] = i;
	cr_assert_eq(hdl_irecv(got, 100000, ints, 1, 3, &hdl_world, 0, &req), MPI_SUCCESS);
	mock_rts(1, 3, 0, value, sizeof(value));
	cr_assert(!req->done);
	hdl_req_wait(req);
	cr_assert_eq(memcmp(got, value, sizeof(got)), 0);
	cr_assert_eq(hdl_status_bytes(&req->status), sizeof(value));
	hdl_req_free(req);
	/* Unexpected, into a longer buffer, by the blocking form */
	memset(got, 0, sizeof(got));
	mock_rts(1, 3, 0, value, 5000);
	cr_assert_eq(mock_fetches, 1, "not fetched before it is matched");
	cr_assert_eq(hdl_recv(got, 100000, ints, MPI_ANY_SOURCE, 3, &hdl_world, 0, NULL), MPI_SUCCESS);
	cr_assert_eq(memcmp(got, value, 5000), 0);
	cr_assert_eq(got[1250], 0);
}

Test(p2p, recv_rendezvous_truncated)
{
	static char value[9000], got[101];

	memset(value, 1, sizeof(value));
	mock_rts(1, 3, 0, value, sizeof(value));
	cr_assert_eq(hdl_recv(got, 100, bytes_t, 1, 3, &hdl_world, 0, NULL), MPI_ERR_TRUNCATE);
	cr_assert_eq(got[99], 1);
	cr_assert_eq(got[100], 0);
	cr_assert(strstr(hdl_reason_take(), "9000 bytes"));
	/* No room at all: it is matched all the same. */
	mock_rts(1, 3, 0, value, sizeof(value));
	cr_assert_eq(hdl_recv(NULL, 0, bytes_t, 1, 3, &hdl_world, 0, NULL), MPI_ERR_TRUNCATE);
	cr_assert_eq(mock_fetches, 2);
}

Test(p2p, recv_vector)
{
	int value[6] = { 1, 2, 3, 4, 5, 6 }, got[20];
	static int big[4000], out[12000];
	struct hdl_type *t, *b;
	struct hdl_req *req;

	t = vector_of_ints(3, 2, 5);
	memset(got, 0, sizeof(got));
	mock_later(1, 1, 0, value, sizeof(value));
	cr_assert_eq(hdl_recv(got, 1, t, 1, 1, &hdl_world, 0, NULL), MPI_SUCCESS);
	cr_assert(got[0] == 1 && got[1] == 2 && got[2] == 0 && got[5] == 3 && got[6] == 4 && got[10] == 5 &&
		  got[11] == 6);
	/* By rendezvous; the type is freed while the receive is pending. */
	b = vector_of_ints(4000, 1, 3);
	for (int i = 0; i < 4000; i++)
		big[i] = i + 1;
	cr_assert_eq(hdl_irecv(out, 1, b, 1, 2, &hdl_world, 0, &req), MPI_SUCCESS);
	hdl_type_release(b);
	mock_rts(1, 2, 0, big, sizeof(big));
	hdl_req_wait(req);
	for (int i = 0; i < 12000; i++)
		cr_assert_eq(out[i], i % 3 ? 0 : i / 3 + 1);
	hdl_req_free(req);
	hdl_type_release(t);
}

Test(p2p, recv_proc_null)
{
	MPI_Status s;
	struct hdl_req *req;

	cr_assert_eq(hdl_recv(NULL, 1, ints, MPI_PROC_NULL, 1, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, MPI_PROC_NULL);
	cr_assert_eq(s.MPI_TAG, MPI_ANY_TAG);
	cr_assert_eq(count_of(&s), 0);
	cr_assert_eq(hdl_irecv(NULL, 1, ints, MPI_PROC_NULL, 1, &hdl_world, 0, &req), MPI_SUCCESS);
	cr_assert(req->done);
	cr_assert_eq(req->status.MPI_SOURCE, MPI_PROC_NULL);
	hdl_req_free(req);
	cr_assert_eq(hdl_send(NULL, 1, ints, MPI_PROC_NULL, 1, &hdl_world, 0, false), MPI_SUCCESS);
	cr_assert_eq(hdl_isend(NULL, 1, ints, MPI_PROC_NULL, 1, &hdl_world, 0, true, &req), MPI_SUCCESS);
	cr_assert(req->done);
	hdl_req_free(req);
	cr_assert_eq(mock_nsent, 0);
}

Test(p2p, wildcard_and_exact_by_posting_order)
{
	int v[3] = { 1, 2, 3 }, got[3] = { 0, 0, 0 };
	struct hdl_req *r[3];

	hdl_irecv(&got[0], 1, ints, MPI_ANY_SOURCE, 4, &hdl_world, 0, &r[0]);
	hdl_irecv(&got[1], 1, ints, 1, 4, &hdl_world, 0, &r[1]);
	hdl_irecv(&got[2], 1, ints, 1, MPI_ANY_TAG, &hdl_world, 0, &r[2]);
	for (int i = 0; i < 3; i++)
		mock_eager(1, 4, 0, &v[i], sizeof(int));
	for (int i = 0; i < 3; i++) {
		cr_assert(r[i]->done);
		cr_assert_eq(got[i], i + 1);
		hdl_req_free(r[i]);
	}
}

Test(p2p, cancel)
{
	int got = 5, v = 6;
	struct hdl_req *req;

	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, 4, &hdl_world, 0, &req);
	hdl_req_cancel(req);
	cr_assert(req->done);
	cr_assert(hdl_status_cancelled(&req->status));
	hdl_req_free(req);
	mock_eager(1, 4, 0, &v, sizeof(v));
	cr_assert_eq(got, 5);
	hdl_irecv(&got, 1, ints, 1, 4, &hdl_world, 0, &req);
	hdl_req_cancel(req);		/* too late: it has matched */
	cr_assert(!hdl_status_cancelled(&req->status));
	cr_assert_eq(got, 6);
	hdl_req_free(req);
}

Test(p2p, cancel_a_send_that_did_not_leave)
{
	struct hdl_req *req;
	int v = 1;

	mock_mode = MOCK_LATER;
	cr_assert_eq(hdl_isend(&v, 1, ints, 1, 7, &hdl_world, 0, false, &req), 0);
	hdl_req_cancel(req);
	cr_assert(req->done);
	cr_assert_eq(req->error, MPI_SUCCESS);
	cr_assert(hdl_status_cancelled(&req->status));
	hdl_req_free(req);
}

Test(p2p, cancel_an_announced_send_asks_its_receiver)
{
	struct hdl_req *req;
	int v = 1;

	mock_mode = MOCK_LATER;
	mock_announced = true;
	cr_assert_eq(hdl_isend(&v, 1, ints, 1, 7, &hdl_world, 0, true, &req), 0);
	mock_mode = MOCK_NOW;
	hdl_req_cancel(req);
	cr_assert_not(req->done, "the receiver decides");
	cr_assert_eq(mock_nsent, 2);
	cr_assert_eq(mock_sent[1].dest, 1);
	cr_assert_eq(mock_sent[1].context, HDL_CONTEXT_CANCEL);
	cr_assert_eq(mock_sent[1].tag, 0, "the number of the announced one");
	cr_assert_eq(mock_sent[1].len, 0);
	mock_complete(0, -ECANCELED);
	cr_assert(req->done && !req->error && hdl_status_cancelled(&req->status));
	hdl_req_free(req);
}

Test(p2p, a_withdrawn_message_is_forgotten_unless_it_matched)
{
	static const int data = 5;
	int flag, got = 0;
	MPI_Status s;

	mock_rts(2, 31, 0, &data, 4);		/* its number is its tag */
	mock_rts(1, 31, 0, &data, 4);
	mock_eager(2, 99, HDL_CONTEXT_CANCEL, NULL, 0);
	cr_assert_eq(mock_refused, -1, "no message of this number");
	mock_eager(2, 31, HDL_CONTEXT_CANCEL, NULL, 0);
	cr_assert_eq(mock_refused, 31);
	cr_assert_eq(hdl_mpi_matching->nunexpected, 1);
	cr_assert_eq(hdl_iprobe(2, 31, &hdl_world, 0, &flag, &s), 0);
	cr_assert_not(flag);
	mock_refused = -1;
	cr_assert_eq(hdl_recv(&got, 1, ints, 1, 31, &hdl_world, 0, &s), 0);
	cr_assert_eq(got, 5);
	mock_eager(1, 31, HDL_CONTEXT_CANCEL, NULL, 0);
	cr_assert_eq(mock_refused, -1, "it has matched");
	/* The question itself may be announced: it is fetched, so that its sender is done with it. */
	mock_rts(2, 32, 0, &data, 4);
	mock_rts(2, 32, HDL_CONTEXT_CANCEL, NULL, 0);
	cr_assert_eq(mock_refused, 32);
	cr_assert_eq(mock_fetches, 2);
	hdl_progress();
	cr_assert_eq(hdl_mpi_matching->nunexpected, 0);
}

Test(p2p, cancel_a_message_to_oneself)
{
	struct hdl_req *req;
	int v = 1;

	cr_assert_eq(hdl_isend(&v, 1, ints, 0, 7, &hdl_world, 0, true, &req), 0);
	cr_assert_not(req->done);
	hdl_req_cancel(req);
	cr_assert(req->done && hdl_status_cancelled(&req->status));
	cr_assert_eq(hdl_mpi_matching->nunexpected, 0);
	hdl_req_free(req);
}

Test(p2p, matched_message_counts_until_it_is_received)
{
	struct hdl_message *m, *none;
	size_t before = hdl_mpi_matching->unexpected_bytes;
	int flag, got = 0, value = 3;
	MPI_Status s;

	mock_eager(1, 4, 0, &value, sizeof(value));
	cr_assert_gt(hdl_mpi_matching->unexpected_bytes, before);
	cr_assert_eq(hdl_improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &flag, &m, &s), 0);
	cr_assert(flag && s.MPI_SOURCE == 1 && s.MPI_TAG == 4 && count_of(&s) == 4);
	cr_assert_gt(hdl_mpi_matching->unexpected_bytes, before);
	cr_assert_eq(hdl_improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &flag, &none, &s), 0);
	cr_assert(!flag && !none);
	cr_assert_eq((void *)hdl_message_get((MPI_Message)m), m);
	cr_assert_null(hdl_req_get((MPI_Request)m), "a message is no request");
	cr_assert_eq(hdl_mrecv(&got, 1, ints, m, &s), 0);
	cr_assert_eq(got, 3);
	cr_assert_eq(hdl_mpi_matching->unexpected_bytes, before);
	cr_assert_null(hdl_message_get((MPI_Message)m), "it was received");
}

/* One that was taken before its sender's messages were counted is no message less of those. */
Test(p2p, matched_message_of_before_the_count)
{
	static char big[4096];
	struct hdl_message *m;
	int flag, held;

	mock_eager(1, 1, 0, big, sizeof(big));
	cr_assert_eq(hdl_improbe(1, 1, &hdl_world, 0, &flag, &m, NULL), 0);
	for (int i = 0; i < 520; i++)
		mock_eager(3, i, 0, big, sizeof(big));
	cr_assert_eq(mock_holds[0], 3);
	held = mock_nholds;
	cr_assert_eq(hdl_mrecv(big, sizeof(big), bytes_t, m, NULL), 0);
	mock_eager(1, 2, 0, big, HDL_HOLD_LEAST + 1);
	cr_assert_eq(mock_nholds, held, "rank 1 has sent two, one of which is here");
}

Test(p2p, probe)
{
	int v[2] = { 1, 2 }, flag;
	MPI_Status s;

	cr_assert_eq(hdl_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &flag, &s), MPI_SUCCESS);
	cr_assert(!flag);
	mock_later(2, 8, 0, v, sizeof(v));
	cr_assert_eq(hdl_probe(MPI_ANY_SOURCE, 8, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 2);
	cr_assert_eq(count_of(&s), 8);
	cr_assert_eq(hdl_iprobe(2, MPI_ANY_TAG, &hdl_world, 0, &flag, &s), MPI_SUCCESS);
	cr_assert(flag);
	cr_assert_eq(s.MPI_TAG, 8);
	cr_assert_eq(hdl_iprobe(1, MPI_ANY_TAG, &hdl_world, 0, &flag, &s), MPI_SUCCESS);
	cr_assert(!flag);
	cr_assert_eq(hdl_iprobe(MPI_ANY_SOURCE, 8, &hdl_world, 2, &flag, &s), MPI_SUCCESS);
	cr_assert(!flag, "another context");
	cr_assert_eq(hdl_iprobe(MPI_PROC_NULL, 8, &hdl_world, 0, &flag, &s), MPI_SUCCESS);
	cr_assert(flag && s.MPI_SOURCE == MPI_PROC_NULL);
	mock_rts(3, 1, 0, v, 8);
	cr_assert_eq(hdl_probe(3, 1, &hdl_world, 0, &s), MPI_SUCCESS);
	cr_assert_eq(count_of(&s), 8);
	hdl_recv(v, 2, ints, 3, 1, &hdl_world, 0, NULL);
	hdl_recv(v, 2, ints, 2, 8, &hdl_world, 0, NULL);
}

/* ---- send ---------------------------------------------------------------------------------------------- */

Test(p2p, send_now)
{
	int v = 3;

	cr_assert_eq(hdl_send(&v, 1, ints, 2, 11, &hdl_world, 0, false), MPI_SUCCESS);
	cr_assert_eq(hdl_send(&v, 1, ints, 2, 12, &hdl_world, 0, true), MPI_SUCCESS);
	cr_assert_eq(mock_nsent, 2);
	cr_assert_eq(mock_sent[0].dest, 2);
	cr_assert_eq(mock_sent[0].tag, 11);
	cr_assert_eq(mock_sent[0].len, 4);
	cr_assert(!mock_sent[0].sync && mock_sent[1].sync);
	cr_assert_eq(*(int *)mock_sent[0].data, 3);
}

Test(p2p, isend_later)
{
	int v = 3;
	struct hdl_req *req;

	mock_mode = MOCK_LATER;
	cr_assert_eq(hdl_isend(&v, 1, ints, 1, 1, &hdl_world, 0, false, &req), MPI_SUCCESS);
	cr_assert(!req->done);
	cr_assert_eq(hdl_pending, 1);
	mock_complete(0, 0);
	cr_assert(req->done);
	cr_assert_eq(req->error, MPI_SUCCESS);
	hdl_req_free(req);
}

Test(p2p, freed_request_goes_on)
{
	int v = 3;
	struct hdl_req *req;

	mock_mode = MOCK_LATER;
	hdl_isend(&v, 1, ints, 1, 1, &hdl_world, 0, false, &req);
	hdl_req_free(req);
	cr_assert_eq(hdl_pending, 1);
	mock_complete(0, 0);
	cr_assert_eq(hdl_pending, 0);
}

Test(p2p, freed_request_with_an_error_ends_the_job, .exit_code = MPI_ERR_PROC_ABORTED)
{
	int v = 3;
	struct hdl_req *req;

	mock_mode = MOCK_LATER;
	hdl_isend(&v, 1, ints, 1, 1, &hdl_world, 0, false, &req);
	hdl_req_free(req);
	mock_complete(0, -ECONNRESET);
}

Test(p2p, send_refused)
{
	int v = 3;
	struct hdl_req *req;
	const char *text;

	mock_mode = MOCK_REFUSE;
	cr_assert_eq(hdl_send(&v, 1, ints, 1, 1, &hdl_world, 0, false), MPI_ERR_PROC_ABORTED);
	text = hdl_reason_take();
	cr_assert(strstr(text, "rank 1") && strstr(text, "failed"), "%s", text);
	cr_assert_eq(hdl_isend(&v, 1, ints, 1, 1, &hdl_world, 0, false, &req), MPI_SUCCESS);
	cr_assert(req->done);
	cr_assert_eq(req->error, MPI_ERR_PROC_ABORTED);
	hdl_req_free(req);
}

Test(p2p, send_vector_is_packed)
{
	int v[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 }, want[4] = { 1, 4, 7, 10 };
	struct hdl_type *t;
	struct hdl_req *req;

	t = vector_of_ints(4, 1, 3);
	cr_assert_eq(hdl_send(v, 1, t, 1, 1, &hdl_world, 0, false), MPI_SUCCESS);
	cr_assert_eq(mock_sent[0].len, 16);
	cr_assert_eq(memcmp(mock_sent[0].data, want, 16), 0);
	mock_mode = MOCK_LATER;
	hdl_isend(v, 1, t, 1, 1, &hdl_world, 0, false, &req);
	hdl_type_release(t);
	cr_assert_eq(memcmp(mock_sent[1].data, want, 16), 0);
	mock_complete(1, 0);
	hdl_req_free(req);
}

Test(p2p, count_that_overflows)
{
	struct hdl_req *req;

	cr_assert_eq(hdl_send(NULL, INT64_MAX, ints, 1, 1, &hdl_world, 0, false), MPI_ERR_COUNT);
	cr_assert_eq(hdl_isend(NULL, INT64_MAX, ints, 1, 1, &hdl_world, 0, false, &req), MPI_ERR_COUNT);
	cr_assert_eq(hdl_irecv(NULL, INT64_MAX, ints, 1, 1, &hdl_world, 0, &req), MPI_ERR_COUNT);
	cr_assert_null(req);
}

/* ---- to the rank itself -------------------------------------------------------------------------------- */

Test(p2p, self)
{
	int v = 3, got = 0;
	static int big[10000], in[10000];
	struct hdl_req *r, *s;
	MPI_Status st;

	/* Buffered */
	cr_assert_eq(hdl_send(&v, 1, ints, 0, 1, &hdl_world, 0, false), MPI_SUCCESS);
	v = 4;
	cr_assert_eq(hdl_recv(&got, 1, ints, 0, 1, &hdl_world, 0, &st), MPI_SUCCESS);
	cr_assert_eq(got, 3);
	cr_assert_eq(st.MPI_SOURCE, 0);
	/* To a posted receive */
	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &r);
	cr_assert_eq(hdl_send(&v, 1, ints, 0, 2, &hdl_world, 0, true), MPI_SUCCESS);
	cr_assert(r->done && got == 4 && r->status.MPI_TAG == 2);
	hdl_req_free(r);
	/* Synchronous and large ones wait for their receive. */
	big[9999] = 5;
	hdl_isend(big, 10000, ints, 0, 3, &hdl_world, 0, false, &s);
	cr_assert(!s->done);
	cr_assert_eq(hdl_recv(in, 10000, ints, 0, 3, &hdl_world, 0, NULL), MPI_SUCCESS);
	cr_assert(s->done && in[9999] == 5);
	hdl_req_free(s);
	hdl_isend(&v, 1, ints, 0, 3, &hdl_world, 0, true, &s);
	cr_assert(!s->done);
	hdl_irecv(&got, 1, ints, 0, 3, &hdl_world, 0, &r);
	cr_assert(s->done && r->done);
	hdl_req_free(s);
	hdl_req_free(r);
	cr_assert_eq(mock_nsent, 0);
}

Test(p2p, self_vector_to_vector)
{
	int v[6] = { 1, 2, 3, 4, 5, 6 }, got[9];
	struct hdl_type *a, *b;
	struct hdl_req *s;

	memset(got, 0, sizeof(got));
	a = vector_of_ints(3, 1, 2);
	b = vector_of_ints(3, 1, 3);
	hdl_isend(v, 1, a, 0, 1, &hdl_world, 0, true, &s);
	hdl_type_release(a);
	cr_assert_eq(hdl_recv(got, 1, b, 0, 1, &hdl_world, 0, NULL), MPI_SUCCESS);
	cr_assert(got[0] == 1 && got[3] == 3 && got[6] == 5 && !got[1]);
	cr_assert(s->done);
	hdl_req_free(s);
	hdl_type_release(b);
}

Test(p2p, self_that_could_never_complete)
{
	static int v[100000];

	cr_assert_eq(hdl_send(v, 100000, ints, 0, 1, &hdl_world, 0, false), MPI_ERR_OTHER);
	cr_assert(strstr(hdl_reason_take(), "never complete"));
	cr_assert_eq(hdl_send(v, 1, ints, 0, 1, &hdl_world, 0, true), MPI_ERR_OTHER);
	cr_assert_eq(hdl_recv(v, 1, ints, 0, 1, &hdl_world, 0, NULL), MPI_ERR_OTHER);
}

Test(p2p, self_truncated)
{
	int v[2] = { 1, 2 }, got[2] = { 0, 0 };
	struct hdl_req *r;

	hdl_irecv(got, 1, ints, 0, 1, &hdl_world, 0, &r);
	cr_assert_eq(hdl_send(v, 2, ints, 0, 1, &hdl_world, 0, false), MPI_SUCCESS);
	cr_assert_eq(r->error, MPI_ERR_TRUNCATE);
	cr_assert_eq(got[1], 0);
	hdl_req_free(r);
}

/* ---- failed peers -------------------------------------------------------------------------------------- */

Test(p2p, peer_failed)
{
	int got, v = 1;
	struct hdl_req *a, *b, *c, *d;
	struct hdl_type *t;

	t = vector_of_ints(2, 1, 2);
	hdl_irecv(&got, 1, t, 2, 1, &hdl_world, 0, &a);
	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, 1, &hdl_world, 0, &b);
	hdl_irecv(&got, 1, ints, 1, 1, &hdl_world, 0, &c);
	mock_eager(2, 9, 0, &v, sizeof(v));		/* came before the death: may be received after it */
	mock_peer_failed(2, -ECONNRESET);
	mock_peer_failed(2, -ECONNRESET);
	cr_assert(a->done && a->error == MPI_ERR_PROC_ABORTED);
	cr_assert(b->done && b->error == MPI_ERR_PROC_ABORTED);
	cr_assert(!c->done);
	hdl_req_explain(a);
	cr_assert(strstr(hdl_reason_take(), "rank 2"));
	hdl_irecv(&got, 1, ints, 2, 1, &hdl_world, 0, &d);
	cr_assert(d->done && d->error == MPI_ERR_PROC_ABORTED);
	cr_assert_eq(hdl_recv(&got, 1, ints, 2, 1, &hdl_world, 0, NULL), MPI_ERR_PROC_ABORTED);
	cr_assert(strstr(hdl_reason_take(), "rank 2"));
	cr_assert_eq(hdl_probe(2, 1, &hdl_world, 0, NULL), MPI_ERR_PROC_ABORTED);
	cr_assert_eq(hdl_recv(&got, 1, ints, 2, 9, &hdl_world, 0, NULL), MPI_SUCCESS);
	mock_eager(1, 1, 0, &v, sizeof(v));
	cr_assert(c->done && !c->error);
	hdl_req_free(a);
	hdl_req_free(b);
	hdl_req_free(c);
	hdl_req_free(d);
	hdl_type_release(t);
	/* of a communicator of which it is no member */
	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, 1, &hdl_self, hdl_self.context, &a);
	mock_peer_failed(3, -ECONNRESET);
	cr_assert(!a->done);
	hdl_req_cancel(a);
	hdl_req_free(a);
}

Test(p2p, fetch_fails)
{
	char got[10], v[10];
	struct hdl_req *r;

	hdl_irecv(got, 10, bytes_t, 1, 1, &hdl_world, 0, &r);
	mock_fetch_err = -EIO;
	mock_rts(1, 1, 0, v, 10);
	hdl_req_wait(r);
	cr_assert_eq(r->error, MPI_ERR_OTHER);
	hdl_req_explain(r);
	cr_assert(strstr(hdl_reason_take(), strerror(EIO)));
	hdl_req_free(r);
}

Test(p2p, much_unexpected_names_the_sender)
{
	static char big[4096];

	for (int i = 0; i < 300; i++)
		mock_eager(i % 3 ? 3 : 1, i, 0, big, sizeof(big));
	cr_assert(strstr(mock_last_warning, "rank 3"), "%s", mock_last_warning);
	for (int i = 0; i < 300; i++)
		hdl_recv(big, sizeof(big), bytes_t, MPI_ANY_SOURCE, i, &hdl_world, 0, NULL);
	cr_assert_eq(hdl_mpi_matching->unexpected_bytes, 0);
}

/* Its own setup and end: 0 is read at the start. */
Test(p2p, unexpected_without_warning)
{
	static char big[4096];

	hdl_p2p_fini(false);
	hdl_vars.unexpected_warn = 0;
	hdl_p2p_init();
	mock_last_warning[0] = 0;
	for (int i = 0; i < 300; i++)
		mock_eager(1, i, 0, big, sizeof(big));
	cr_assert_eq(mock_last_warning[0], 0, "%s", mock_last_warning);
	for (int i = 0; i < 300; i++)
		hdl_recv(big, sizeof(big), bytes_t, MPI_ANY_SOURCE, i, &hdl_world, 0, NULL);
}

static void receive(int src, int tag)
{
	static char big[4096];

	hdl_recv(big, sizeof(big), bytes_t, src, tag, &hdl_world, 0, NULL);
}

/* Who sends too early is asked to hold back, once, and let go when half is gone: limit 4 MiB, 8 KiB of memory each. Only those are
 * asked of whom more than their part is here, a quarter, and half of that lets them go. */
Test(p2p, much_unexpected_is_held_back)
{
	static char big[4096];
	int n = 0;

	cr_assert_eq(hdl_job.size, 4);
	for (; n < 512; n++)
		mock_eager(1, n, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 0);
	mock_eager(1, 9000, 0, big, HDL_HOLD_LEAST);
	cr_assert_eq(mock_nholds, 0, "a message no longer than an announcement has a higher limit");
	mock_eager(1, n++, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 1);
	cr_assert_eq(mock_holds[0], 1);
	mock_eager(1, n++, 0, big, sizeof(big));
	for (int i = 0; i < 128; i++)
		mock_eager(3, i, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 1, "3 has sent no more than its part");
	mock_eager(3, 128, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 2);
	cr_assert_eq(mock_holds[1], 3);
	mock_rts(2, 9001, 0, big, sizeof(big));
	cr_assert_eq(mock_nholds, 2, "an announcement takes no room");
	for (int i = 0; i < 64; i++)
		receive(3, i);
	cr_assert_eq(mock_nholds, 2);
	receive(3, 64);
	cr_assert_eq(mock_nholds, 3, "a sender whose messages were received is let go, whatever else is here");
	cr_assert_eq(mock_holds[2], -3);
	for (int i = 65; i < 129; i++)
		receive(3, i);
	while (n > 256)
		receive(1, --n);
	cr_assert_eq(mock_nholds, 3);
	receive(1, 9000);
	cr_assert_eq(mock_nholds, 4);
	cr_assert_eq(mock_holds[3], -1);
}

/* Messages no longer than an announcement have a limit, too, 16 MiB here; their sender keeps all messages until half of them are
 * received, or until half of its share is. */
Test(p2p, many_short_unexpected_are_held_back)
{
	static char text[HDL_HOLD_LEAST];
	size_t limit = (size_t)16 << 20;
	int n = 0, sent;

	while (hdl_mpi_matching->unexpected_bytes <= limit) {
		cr_assert_eq(mock_nholds, 0, "after %d messages", n);
		mock_eager(1, n, 0, text, n % 2 ? sizeof(text) : 0);
		n++;
	}
	cr_assert(mock_nholds == 1 && mock_holds[0] == 1 && mock_hold == HDL_EAGER_NONE);
	mock_eager(1, n++, 0, text, sizeof(text));
	mock_eager(2, 0, 0, text, sizeof(text));
	cr_assert_eq(mock_nholds, 1, "told once; 2 has sent no more than its share");
	mock_rts(1, n, 0, text, sizeof(text));
	mock_rts(1, n + 1, 0, NULL, 0);
	receive(1, n);
	receive(1, n + 1);
	cr_assert_eq(mock_fetches, 2);
	for (sent = n; n > sent / 2 + 2; n--)
		receive(1, n - 1);
	cr_assert_eq(mock_nholds, 1);
	while (n > sent / 2 - 2)
		receive(1, --n);
	cr_assert(mock_nholds == 2 && mock_holds[1] == -1 && mock_hold == HDL_EAGER_ON);
}

/* A sender that announces its messages beyond 32 bytes, and goes on with shorter ones, announces all in the end. */
Test(p2p, a_held_sender_of_short_messages_is_held_altogether)
{
	static char big[4096], text[8];
	int n = 0;

	for (; n < 514; n++)
		mock_eager(1, n, 0, big, sizeof(big));
	cr_assert(mock_nholds == 1 && mock_hold == HDL_EAGER_SHORT);
	for (; hdl_mpi_matching->unexpected_bytes <= (size_t)16 << 20; n++)
		mock_eager(1, n, 0, text, sizeof(text));
	cr_assert(mock_nholds == 2 && mock_holds[1] == 1 && mock_hold == HDL_EAGER_NONE);
	cr_assert_eq(hdl_mpi_matching->neager_off, 1);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

static int notified;

static void notify(struct hdl_req *req)
{
	notified++;
	cr_assert(req->done);
	hdl_req_free(req);
}

Test(p2p, notify_may_free)
{
	int v = 1, got;
	struct hdl_req *r;

	hdl_irecv(&got, 1, ints, 1, 1, &hdl_world, 0, &r);
	r->notify = notify;
	mock_eager(1, 1, 0, &v, sizeof(v));
	cr_assert_eq(notified, 1);
	cr_assert_null(hdl_req_get((MPI_Request)r));
}

Test(p2p, pool_reuses)
{
	struct hdl_req *r[200], *first;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 200; i++)
			r[i] = hdl_req_new(&hdl_world);
		cr_assert_eq(hdl_world.obj.refs, 201);
		first = r[0];
		for (int i = 0; i < 200; i++) {
			hdl_req_complete(r[i], MPI_SUCCESS);
			hdl_req_free(r[i]);
		}
	}
	cr_assert_eq(hdl_world.obj.refs, 1);
	cr_assert_null(hdl_req_get((MPI_Request)first));
}

/* ---- communicators -------------------------------------------------------------------------------------- */

/* The result of a round that the root sent. */
static int id_sent(int i)
{
	int id;

	memcpy(&id, mock_sent[i].data + offsetof(struct hdl_cid_down, id), sizeof(id));
	return id;
}

/* Of what a member sends up: what is wrong, and who has failed (job, 1 + rank); then the ids that it uses. */
#define WORDS_HEAD 3

Test(p2p, dup_names_who_has_failed)
{
	uint64_t one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 };
	uint64_t two[WORDS_HEAD] = { 2, hdl_proc_job(3), 1 + 3 };
	struct hdl_comm *c;

	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, two, sizeof(two));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_ERR_PROC_ABORTED);
	cr_assert_null(c);
	cr_assert(strstr(hdl_reason_take(), "rank 3 "));
	cr_assert_lt(id_sent(0), 0);
	cr_assert_lt(id_sent(1), 0);
}

/* As a rank between the root and another one: the root hears that it has failed, before anybody gets a communicator. */
static void between(void)
{
	mock_job(2, 4);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
}

Test(between, dup_fails_upwards, .init = between, .timeout = 60)
{
	uint64_t words[WORDS_HEAD];
	struct hdl_comm *c;
	struct hdl_req *r;

	mock_peer_failed(3, -ECONNRESET);
	cr_assert_eq(hdl_comm_idup(&hdl_world, &c, &r), 0);
	for (int i = 0; i < 10 && !mock_nsent; i++)
		hdl_tp_progress(hdl_mpi_tp);
	cr_assert_eq(mock_nsent, 1);
	cr_assert_eq(mock_sent[0].dest, 0);
	memcpy(words, mock_sent[0].data, sizeof(words));
	cr_assert_eq(words[0] & 2, 2);
	cr_assert_eq(words[1], hdl_proc_job(3));
	cr_assert_eq((uint32_t)words[2], 1 + 3);
}

Test(p2p, dup_agrees_on_a_free_id)
{
	/* Ranks 1 and 2 hold more ids than this one; rank 3 reaches this one through rank 2. */
	uint64_t one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 }, two[WORDS_HEAD + 2] = { [WORDS_HEAD] = 0xfffffffffffffffbu, 0x1 };
	struct hdl_comm *c;
	int id;

	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, two, sizeof(two));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 65);
	cr_assert_eq(c->size, 4);
	cr_assert_eq(mock_nsent, 2);
	id = id_sent(1);
	cr_assert_eq(id, 65);
	hdl_comm_release(c);
	/* The id is free again here, and now everywhere. */
	mock_later(1, hdl_cid_tag(1), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(1), 1, one, sizeof(one));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 3);
	hdl_comm_release(c);
}

/* Another thread of rank 1 has the bitmap there: all try again. */
Test(p2p, dup_tries_again)
{
	uint64_t busy[WORDS_HEAD] = { 1 }, one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 };
	struct hdl_comm *c;
	int id;

	mock_later(1, hdl_cid_tag(0), 1, busy, sizeof(busy));
	mock_later(2, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, one, sizeof(one));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 3);
	cr_assert_eq(mock_nsent, 4);
	id = id_sent(0);
	cr_assert_lt(id, 0);
	id = id_sent(3);
	cr_assert_eq(id, 3);
	hdl_comm_release(c);
}

Test(p2p, dup_without_a_free_id)
{
	uint64_t all[WORDS_HEAD + 512] = { 0 };
	struct hdl_comm *c;

	memset(all + WORDS_HEAD, 0xff, sizeof(all) - WORDS_HEAD * 8);
	mock_later(1, hdl_cid_tag(0), 1, all, sizeof(all));
	mock_later(2, hdl_cid_tag(0), 1, all, (WORDS_HEAD + 1) * 8);
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_ERR_OTHER);
	cr_assert_null(c);
	cr_assert(strstr(hdl_reason_take(), "32768"));
}

Test(p2p, self_comm_dup_until_all_ids_are_used)
{
	struct hdl_comm **c = calloc(32768, sizeof(*c));
	int n = 0;

	while (hdl_comm_dup(&hdl_self, &c[n]) == MPI_SUCCESS)
		n++;
	cr_assert_eq(n, 32765, "world and self have two of 32768, and constructors without a parent one");
	cr_assert_eq(c[n - 1]->context, 65534);
	hdl_comm_release(c[100]);
	cr_assert_eq(hdl_comm_dup(&hdl_self, &c[100]), MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		hdl_comm_release(c[i]);
	free(c);
}

Test(p2p, split_orders_by_key)
{
	uint64_t mask[2] = { 0, 3 };
	int table1[3] = { 1, 5, 1 }, table23[6] = { 1, 3, 2, 2, 0, 3 };
	struct hdl_comm *c;
	int value = 9, got;
	MPI_Status s;

	mock_later(1, hdl_cid_tag(0), 1, mask, sizeof(mask));
	mock_later(1, hdl_cid_tag(0), 1, table1, sizeof(table1));
	mock_later(2, hdl_cid_tag(0), 1, mask, sizeof(mask));
	mock_later(2, hdl_cid_tag(0), 1, table23, sizeof(table23));
	cr_assert_eq(hdl_comm_split(&hdl_world, 1, 4, &c), MPI_SUCCESS);
	cr_assert_eq(c->size,
		     3);			/* ranks 2 (key 3), 0 (key 4), 1 (key 5); rank 3 has another color */
	cr_assert_eq(c->rank, 1);
	cr_assert_eq(hdl_comm_proc(c, 0), 2);
	cr_assert_eq(hdl_comm_proc(c, 2), 1);
	cr_assert_eq(hdl_comm_rank_of(c, 1), 2);
	cr_assert_eq(hdl_comm_rank_of(c, 3), MPI_UNDEFINED);
	mock_later(2, 1, c->context, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, MPI_ANY_SOURCE, 1, c, c->context, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 0);
	mock_later(1, 1, c->context, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, 2, 1, c, c->context, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 2);
	hdl_comm_release(c);
}

Test(p2p, freed_comm_lives_for_its_requests)
{
	struct hdl_comm *c;
	struct hdl_req *r;
	uint16_t context;
	int got = 0, v = 5;

	hdl_comm_dup(&hdl_self, &c);
	context = c->context;
	hdl_irecv(&got, 1, ints, 0, 1, c, context, &r);
	hdl_comm_release(c);
	cr_assert_eq(r->comm->obj.magic, HDL_MAGIC_COMM);
	mock_eager(0, 1, context, &v, sizeof(v));
	cr_assert_eq(got, 5);
	hdl_req_free(r);
	hdl_comm_dup(&hdl_self, &c);
	cr_assert_eq(c->context, context, "the id came back with the last request");
	hdl_comm_release(c);
}

Test(p2p, report)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct hdl_req *r, *s;
	int got, v = 1;

	mock_mode = MOCK_LATER;
	hdl_call = "MPI_Waitall";
	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, 17, &hdl_world, 0, &r);
	hdl_isend(&v, 1, ints, 3, 18, &hdl_world, 0, true, &s);
	hdl_p2p_dump(f);
	fclose(f);
	cr_assert(strstr(text, "MPI_Waitall"), "%s", text);
	cr_assert(strstr(text, "receive from rank any, tag 17, MPI_COMM_WORLD"), "%s", text);
	cr_assert(strstr(text, "send to rank 3, tag 18, MPI_COMM_WORLD"), "%s", text);
	free(text);
	mock_complete(0, 0);
	hdl_req_cancel(r);
	hdl_req_free(r);
	hdl_req_free(s);
}

/* Communicators of 1,000 ranks, whatever form their groups have: everybody is reached as himself, nobody else is met. */
static void reach_all(struct hdl_comm *c)
{
	static const int some[] = { 0, 1, 255, 256, 257, 498, 499 };
	int v = 3;

	for (unsigned i = 0; i < sizeof(some) / sizeof(*some); i++) {
		int r = some[i];

		if (r >= c->size)
			break;
		cr_assert_null(hdl_comm_ep_met(c, r));
		if (r == c->rank) {
			cr_assert_null(hdl_comm_ep(c, r));
			continue;
		}
		cr_assert_eq(hdl_send(&v, 1, ints, r, 1, c, c->context, false), MPI_SUCCESS);
		cr_assert_eq(mock_sent[mock_nsent - 1].dest, hdl_comm_proc(c, r));
		cr_assert_eq(hdl_comm_rank_of(c, hdl_comm_proc(c, r)), r);
		cr_assert_eq(hdl_comm_ep_met(c, r), hdl_ep(hdl_mpi_tp, hdl_comm_proc(c, r)));
	}
	cr_assert_null(hdl_comm_ep_met(c, 300 % c->size));
}

static void thousand(void)
{
	mock_job(600, 1000);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
}

TestSuite(leaves, .init = thousand, .fini = teardown, .timeout = 60);

Test(leaves, of_every_form_of_group)
{
	int *table = malloc(500 * sizeof(*table));
	struct hdl_group *groups[5];
	struct hdl_comm *c, *same;

	for (int r = 0; r < 500; r++)
		table[r] = (r * 7 + 601) % 1000;
	groups[0] = hdl_group_retain(hdl_world.group);
	groups[1] = hdl_group_range(400, 1, 500);	/* this process is in the middle of a leaf */
	groups[2] = hdl_group_range(0, 2, 500);
	groups[3] = hdl_group_range(999, -1, 1000);
	groups[4] = hdl_group_table(table, 500);
	for (int i = 0; i < 5; i++) {
		c = hdl_comm_new(groups[i]);
		reach_all(c);
		same = hdl_comm_new(hdl_group_retain(groups[i]));
		cr_assert_eq(same->leaf, c->leaf, "communicators of one group share its leaves");
		hdl_comm_forget(same);
		hdl_comm_forget(c);
	}
}

/* ---- a communicator that is revoked ------------------------------------------------------------------------ */

/* What had come of its collectives, and what comes later, goes: whoever waits for it to be fetched is told. Messages stay, and so does who
 * has ended. */
Test(p2p, what_a_revoked_communicator_gets)
{
	static char big[100];
	struct hdl_req *r;
	int got = 0, value = 7;

	mock_rts(1, 30, 1, big, sizeof(big));
	mock_eager(1, 31, 1, &value, sizeof(value));
	mock_eager(1, HDL_FT_TAG + 2, 1, NULL, 0);
	mock_eager(1, 32, 0, &value, sizeof(value));
	cr_assert_eq(hdl_irecv(&got, 1, ints, 3, 33, &hdl_world, 1, &r), 0);
	hdl_recv_revoke(&hdl_world, 2);
	cr_assert(r->done && r->error == MPI_ERR_PROC_ABORTED);
	hdl_req_free(r);
	cr_assert_eq(mock_refused, 30);
	cr_assert_eq(hdl_mpi_matching->nunexpected, 2);
	cr_assert_eq(hdl_ft_waiting_notice(&hdl_world), 2);
	mock_rts(1, 34, 1, big, sizeof(big));
	cr_assert_eq(mock_refused, 34);
	mock_eager(1, 35, 1, &value, sizeof(value));
	cr_assert_eq(hdl_mpi_matching->nunexpected, 2);
	cr_assert_eq(hdl_recv(&got, 1, ints, 1, 32, &hdl_world, 0, NULL), 0);
	cr_assert_eq(got, 7);
}

/* A message that names a failed process is announced without data if its sender has HDL_CTL_HOLD. */
Test(p2p, announced_message_about_a_failed_rank)
{
	mock_rts(1, HDL_FT_TAG + 2, 1, NULL, 0);
	cr_assert_eq(mock_fetches, 1);
	hdl_progress();
	cr_assert_eq(hdl_ft_waiting_notice(&hdl_world), 2, "a rank of the sender's job");
}

/* It comes once, and a rank may wait for the failed one: it is not dropped. */
Test(p2p, message_about_a_failed_rank_without_memory_for_its_fetch, .exit_code = MPI_ERR_NO_MEM)
{
	mock_fetch_refused = -ENOMEM;
	mock_rts(1, HDL_FT_TAG + 2, 1, NULL, 0);
}

/* ---- instances ------------------------------------------------------------------------------------------- */

static int told;

static bool note_told(uint16_t context, int proc, bool by_message)
{
	(void)context;
	(void)proc;
	(void)by_message;
	told++;
	return true;
}

/* As a second instance of the transport brings it. */
static void arrive_at(struct hdl_matching *m, int src, int tag, uint16_t context, int value)
{
	struct hdl_hdr hdr = { .tag = tag, .context = context, .len = sizeof(value), .kind = HDL_EAGER };

	hdl_p2p_upcalls.arrived(m, src, &hdr, &value);
}

/* Communicators of the same ranks and contexts, in two instances of matching. */
Test(p2p, two_instances_do_not_meet)
{
	struct hdl_matching *second = hdl_matching_new();
	struct hdl_comm there = hdl_world;
	struct hdl_req *r, *q;
	int flag, a = 0, b = 0, value = 1;

	cr_assert_not_null(second);
	second->tp = hdl_mpi_tp;
	there.matching = second;

	cr_assert_eq(hdl_irecv(&a, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &r), 0);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 1, 5, &there, 0, &q), 0);
	mock_eager(1, 5, 0, &value, sizeof(value));
	cr_assert(r->done && !q->done && a == 1 && b == 0);
	hdl_req_free(r);
	cr_assert_eq(hdl_irecv(&a, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &r), 0);
	arrive_at(second, 1, 5, 0, 2);
	cr_assert(!r->done && q->done && a == 1 && b == 2);
	hdl_req_free(q);

	/* what waits, and a receive that is taken back */
	arrive_at(second, 2, 6, 0, 3);
	cr_assert(second->nunexpected == 1 && !hdl_mpi_matching->nunexpected && !hdl_mpi_matching->unexpected_bytes);
	cr_assert_eq(hdl_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &flag, MPI_STATUS_IGNORE), 0);
	cr_assert_not(flag);
	cr_assert_eq(hdl_recv(&b, 1, ints, 2, MPI_ANY_TAG, &there, 0, MPI_STATUS_IGNORE), 0);
	cr_assert_eq(b, 3);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 2, 6, &there, 0, &q), 0);
	hdl_req_cancel(q);
	cr_assert(hdl_status_cancelled(&q->status) && !r->done);
	hdl_req_free(q);

	/* who has ended */
	hdl_ft_on_message(note_told);
	arrive_at(second, 1, HDL_FT_TAG + 2, 1, 0);
	cr_assert_eq(told, 0, "what the collectives ask to be told of is MPI's instance");
	hdl_ft_on_message(NULL);
	hdl_recv_revoke(&there, 2);
	cr_assert_eq(hdl_recv_revoked(&there, 1), 3);
	cr_assert_eq(hdl_recv_revoked(&hdl_world, 1), 0);
	hdl_p2p_upcalls.peer_failed(second, 3, -ECONNRESET);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 3, 6, &there, 0, &q), 0);
	cr_assert(q->done && q->error == MPI_ERR_PROC_ABORTED && !r->done);
	hdl_req_free(q);

	/* one ends while the other goes on */
	hdl_matching_free(second);
	mock_eager(2, 9, 0, &value, sizeof(value));
	cr_assert(r->done && a == 1);
	hdl_req_free(r);
	there.matching = NULL;
}
