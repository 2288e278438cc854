/* SPDX-License-Identifier: BSD-3-Clause */
/* Failed peers, fetches that fail, revoked communicators. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "p2p/comm/comm.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"
#include "p2p_ops.h"
#include "runtime/events.h"

TestSuite(p2p_failures, .init = p2p_setup, .fini = p2p_teardown, .timeout = 60);

/* ---- failed peers -------------------------------------------------------------------------------------- */

Test(p2p_failures, peer_failed)
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

static int events;

static void count_event(enum hdl_event event, const void *elements)
{
	cr_assert_eq(event, HDL_EVENT_PEER_FAILED);
	events += ((const struct hdl_event_peer *)elements)->process;
}

Test(p2p_failures, departed_peer_raises_no_event)
{
	struct hdl_req *r;
	int got;

	hdl_event_hook = count_event;
	mock_departed = 2;
	hdl_irecv(&got, 1, ints, 2, 1, &hdl_world, 0, &r);
	mock_peer_failed(2, -ECONNRESET);
	cr_assert(r->done && r->error == MPI_ERR_PROC_ABORTED);
	cr_assert_eq(events, 0);
	mock_peer_failed(3, -ECONNRESET);
	cr_assert_eq(events, 3);
	hdl_req_free(r);
}

Test(p2p_failures, fetch_fails)
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

/* ---- a communicator that is revoked ------------------------------------------------------------------------ */

/* Unexpected collective messages, earlier and later ones, are dropped, and an announced one is refused to its sender.
 * Point-to-point messages stay, and so do notices of ended processes. */
Test(p2p_failures, what_a_revoked_communicator_gets)
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
Test(p2p_failures, announced_message_about_a_failed_rank)
{
	mock_rts(1, HDL_FT_TAG + 2, 1, NULL, 0);
	cr_assert_eq(mock_fetches, 1);
	hdl_progress();
	cr_assert_eq(hdl_ft_waiting_notice(&hdl_world), 2, "a rank of the sender's job");
}

/* The message comes once, and a rank may wait for the failed one: so the message is not dropped. */
Test(p2p_failures, message_about_a_failed_rank_without_memory_for_its_fetch, .exit_code = MPI_ERR_NO_MEM)
{
	mock_fetch_refused = -ENOMEM;
	mock_rts(1, HDL_FT_TAG + 2, 1, NULL, 0);
}
