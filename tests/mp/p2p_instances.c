/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beside MPI a second instance of the transport in each process, with a separate matching: the same ranks, contexts and tags in
 * both. A message of one instance is matched in that instance's matching and fetched by that instance, expected or unexpected;
 * back-pressure, and the failure of a peer, concern one instance; and MPI goes on when the second instance has ended.
 *
 *     p2p_instances MESSAGES SEED
 *
 * By one thread: both instances use the process's one pool of requests and buffers, which MPI's lock protects.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/mpi_internal.h"
#include "p2p/comm/comm.h"
#include "p2p/match.h"

/* transport/peer/ep.h defines hdl_pool, too, and cannot be included here */
void hdl_ep_fail(struct hdl_ep *ep, int err);

enum { RANKS = 8, MOST = 40000, TAG = 5, LAST = 6, ASIDE = 7 };

struct head {
	uint32_t instance, src, number, len;
};

struct out {
	struct hdl_send send;
	char data[];
};

static struct hdl_tp *second;
static struct hdl_matching *matching;
static struct hdl_comm there;	/* MPI_COMM_WORLD's ranks and contexts in the second one */
static int me, all;
static unsigned sending;
static uint32_t seed;

static _Noreturn void fail(const char *what, long a, long b)
{
	fprintf(stderr, "rank %d: %s (%ld, %ld)\n", me, what, a, b);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

/* The same at both ends: mostly short ones, some that are announced. */
static uint32_t length_of(unsigned instance, int src, int dest, unsigned number)
{
	uint32_t x = (instance * 7919u + (uint32_t)src * 104729u + (uint32_t)dest * 1299709u + number * 15485863u + seed) *
		     2654435761u;

	return (uint32_t)sizeof(struct head) + (x >> 28 ? (x >> 8) % 600 : (x >> 8) % (MOST - 16));
}

static void fill(char *data, unsigned instance, int src, int dest, unsigned number)
{
	struct head h = { instance, (uint32_t)src, number, length_of(instance, src, dest, number) };

	memcpy(data, &h, sizeof(h));
	for (uint32_t i = sizeof(h); i < h.len; i++)
		data[i] = (char)(i * 7 + number * 13 + instance * 101);
}

static void check(const char *data, const MPI_Status *s, unsigned instance, int src, unsigned number)
{
	static char want[MOST];
	struct head h;

	memcpy(&h, data, sizeof(h));
	if (h.instance != instance)
		fail("a receive has got a message of the other instance", h.instance, instance);
	if (s->MPI_SOURCE != src || h.src != (uint32_t)src || h.number != number)
		fail("a message is not the next one", h.number, number);
	fill(want, instance, src, me, number);
	if ((uint64_t)hdl_status_bytes(s) != h.len || memcmp(data, want, h.len))
		fail("a message is damaged", src, number);
}

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("a send of the second instance has failed", err, 0);
	sending--;
	free(container_of(s, struct out, send));
}

static void send_second(int dest, int tag, unsigned number)
{
	uint32_t len = length_of(1, me, dest, number);
	struct out *o = malloc(sizeof(*o) + MOST);
	int r;

	if (!o)
		fail("no memory", 0, 0);
	o->send = (struct hdl_send){ .done = sent };
	fill(o->data, 1, me, dest, number);
	sending++;
	r = hdl_ep_send(hdl_ep(second, dest), tag, there.context, number % 8 == 7, o->data, len, &o->send);
	if (r < 0)
		fail("the second instance does not send", r, dest);
	if (r)
		sent(&o->send, 0);
}

/* Turns of both. */
static void turn(void)
{
	int flag;

	hdl_tp_progress(second);
	MPI_Iprobe(MPI_ANY_SOURCE, ASIDE, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

static void finish(MPI_Request *of_first, struct hdl_req **of_second, int n)
{
	int flag = 0, left = 1;

	while (!flag || left || sending) {
		turn();
		MPI_Testall(n, of_first, &flag, MPI_STATUSES_IGNORE);
		left = 0;
		for (int i = 0; i < n; i++)
			left += of_second[i] && !of_second[i]->done;
	}
}

static void begin(void)
{
	struct { size_t len; char record[HDL_ADDRESS_MAX]; } mine = { 0 }, of[RANKS];
	struct hdl_upcalls up = hdl_p2p_upcalls;

	up.context = matching = hdl_matching_new();
	up.unpublished = true;
	if (!matching || hdl_tp_init(&up, &second))
		fail("there is no second instance", 0, 0);
	matching->tp = second;
	there = hdl_world;
	there.matching = matching;
	mine.len = hdl_tp_address(second, mine.record);
	MPI_Allgather(&mine, sizeof(mine), MPI_BYTE, of, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
	for (int r = 0; r < all; r++)
		if (r != me && hdl_peer_add(second, r, of[r].record, of[r].len))
			fail("an address is not taken", r, 0);
}

/* Every rank sends one message to every rank, in both instances, by the same tag. early: the instance that posts its receives
 * first; the other instance posts its receives when some messages have come. */
static void exchange(unsigned number, int early)
{
	static char got[2][RANKS][MOST], out[RANKS][MOST];
	struct hdl_req *second_req[RANKS];
	MPI_Request req[2 * RANKS];
	MPI_Status status[RANKS];
	int flag;

	for (int half = 0; half < 2; half++) {
		for (int r = 0; r < all; r++) {
			if ((half ^ early) == 0)
				MPI_Irecv(got[0][r], MOST, MPI_BYTE, r, number % 3 ? TAG : MPI_ANY_TAG, MPI_COMM_WORLD, &req[r]);
			else if (hdl_irecv(got[1][r], MOST, hdl_type_get(MPI_BYTE), r, number % 3 ? TAG : MPI_ANY_TAG, &there,
					   there.context, &second_req[r]))
				fail("no receive", r, 0);
		}
		for (int i = 0; i < 20; i++)
			turn();
		for (int r = 0; r < all && !half; r++) {
			fill(out[r], 0, me, r, number);
			MPI_Isend(out[r], (int)length_of(0, me, r, number), MPI_BYTE, r, TAG, MPI_COMM_WORLD, &req[RANKS + r]);
			send_second(r, TAG, number);
		}
		for (int i = 0; i < 20; i++)
			turn();
	}
	for (int r = 0; r < all; r++)
		for (flag = 0; !flag; turn())
			MPI_Test(&req[r], &flag, &status[r]);
	finish(&req[RANKS], second_req, all);
	for (int r = 0; r < all; r++) {
		check(got[0][r], &status[r], 0, r, number);
		check(got[1][r], &second_req[r]->status, 1, r, number);
		hdl_req_free(second_req[r]);
	}
}

/* All ranks come here; both instances go on meanwhile. */
static void come_together(void)
{
	struct hdl_req *none = NULL;
	MPI_Request r;

	MPI_Ibarrier(MPI_COMM_WORLD, &r);
	finish(&r, &none, 1);
}

/* A wildcard receive of MPI does not match messages of the second instance; nor do unexpected messages of one instance match
 * receives of the other. */
static void aside(unsigned messages)
{
	struct hdl_req *req;
	int next = (me + 1) % all, before = (me + all - 1) % all, value = me, got = -1, flag;
	static char data[MOST];
	MPI_Request any;
	MPI_Status s;

	MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any);
	for (unsigned i = 0; i < messages; i++)
		send_second(next, LAST, i);
	for (unsigned i = 0; i < messages; i++) {
		while (!hdl_match_find(matching, there.context, before, LAST))
			turn();
		if (hdl_mpi_matching->contexts[there.context].first)
			fail("what waits in the second instance waits in MPI's", before, i);
		if (hdl_irecv(data, MOST, hdl_type_get(MPI_BYTE), MPI_ANY_SOURCE, LAST, &there, there.context, &req))
			fail("no receive", 0, 0);
		while (!req->done)
			turn();
		check(data, &req->status, 1, before, i);
		hdl_req_free(req);
	}
	MPI_Test(&any, &flag, &s);
	if (flag)
		fail("MPI has received something that it was not sent", s.MPI_SOURCE, s.MPI_TAG);
	while (sending)
		turn();
	come_together();
	MPI_Send(&value, 1, MPI_INT, next, ASIDE, MPI_COMM_WORLD);
	MPI_Wait(&any, &s);
	if (got != before || s.MPI_TAG != ASIDE)
		fail("MPI's message has not come", got, before);
}

/* Rank 0 gives rank 1 up in the second instance. */
static void fails(void)
{
	struct hdl_req *req = NULL;
	int a = -1, b = -1, peer = !me;
	MPI_Request r;

	if (me < 2) {
		MPI_Irecv(&a, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &r);
		if (hdl_irecv(&b, 1, hdl_type_get(MPI_INT), peer, TAG, &there, there.context, &req))
			fail("no receive", peer, 0);
	}
	come_together();
	if (!me)
		hdl_ep_fail(hdl_ep(second, peer), -EIO);
	if (me < 2) {
		while (!req->done)
			turn();
		if (req->error != MPI_ERR_PROC_ABORTED || hdl_mpi_matching->failed_peers)
			fail("a peer of the second instance has failed", req->error, hdl_mpi_matching->failed_peers);
		hdl_req_free(req);
		MPI_Send(&me, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		if (a != peer)
			fail("MPI's message has not come", a, peer);
	}
	come_together();
}

int main(int argc, char **argv)
{
	unsigned messages = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
	int sum = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
	if (all > RANKS || all < 2)
		fail("not 2 to 8 ranks", all, 0);
	begin();
	for (unsigned i = 0; i < messages; i++)
		exchange(i, (int)i % 2);
	come_together();
	aside(messages);
	come_together();
	fails();
	if (hdl_tp_fini(&second))
		fail("the second instance does not end", 0, 0);
	if (matching->nunexpected)
		fail("messages are left", (long)matching->nunexpected, 0);
	hdl_matching_free(matching);
	MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (sum != all * (all - 1) / 2)
		fail("MPI does not go on", sum, all);
	MPI_Finalize();
	if (!me)
		puts("ok");
	return 0;
}
