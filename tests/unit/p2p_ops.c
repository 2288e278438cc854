/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives, sends, messages to the rank itself, requests; the stage of all sources of p2p_ops. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/match.h"
#include "p2p_ops.h"

struct hdl_type *ints, *bytes_t;

struct hdl_type *vector_of_ints(MPI_Count count, MPI_Count blocklength, MPI_Count stride)
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

void p2p_setup(void)
{
	mock_job(0, 4);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
	bytes_t = hdl_type_get(MPI_BYTE);
}

void p2p_teardown(void)
{
	cr_assert_eq(hdl_pending, 0);
	cr_assert_eq(hdl_p2p_fini(false), 0);
}

TestSuite(p2p, .init = p2p_setup, .fini = p2p_teardown, .timeout = 60);

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
	/* No room at all: the message is matched all the same. */
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
	hdl_req_cancel(req);		/* too late: the receive has matched */
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
	/* The question itself may be announced: this rank fetches the question, so that the send completes at its sender. */
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
