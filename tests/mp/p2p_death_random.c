/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies at a random moment of point-to-point traffic of all forms among all ranks: every operation with it ends with
 * MPI_ERR_PROC_ABORTED, at each survivor, and every message between survivors comes, once, in order and whole. To be run with
 * heddlerun --on-death=continue.
 *
 *     p2p_death_random DEAD MICROSECONDS SEED MESSAGES THREADS FILE
 *
 * MICROSECONDS: delay of the death. MESSAGES: from each survivor to each other one, of each thread. SEED: of their lengths and
 * forms, the same on all ranks. Threads have a communicator each. FILE: see survivors.h. Each survivor prints a line.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "survivors.h"

#define LONGEST 150000
#define WINDOW 4	/* messages of a stream that are under way at a time, of each side */
#define NOBODY (-1)

/* The forms of the two sides of a message. */
enum { ISEND, ISSEND, SEND_INIT, SEND_FORMS };
enum { IRECV, RECV_INIT, IMPROBE, RECV_FORMS };

struct slot {
	MPI_Request request;
	int number;			/* of the message in its stream; NOBODY: free */
	bool persistent;
	unsigned char *data;
};

/* From or to one peer. */
struct stream {
	struct slot slots[WINDOW];
	int peer, begun, ended;
	bool lost;
};

struct worker {
	pthread_t thread;
	MPI_Comm comm;
	struct stream *out, *in;
	MPI_Request *requests;
	int *which;
};

static int me, all, dead, messages;
static uint64_t seed;

static void fail(const char *what, int peer, int number, int rc)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n;

	if (rc)
		MPI_Error_string(rc, text, &n);
	printf("survivor %d: FAILED: %s, rank %d, message %d: %s\n", me, what, peer, number, text);
	fflush(stdout);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint64_t mix(int from, int to, int number, int what)
{
	uint64_t x = seed + (uint64_t)from * 0x9e3779b97f4a7c15u + (uint64_t)to * 0xc2b2ae3d27d4eb4fu +
		     (uint64_t)number * 0x165667b19e3779f9u + (uint64_t)what;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static int length(int from, int to, int number)
{
	uint64_t x = mix(from, to, number, 1);

	return (int)(x % 8 == 0 ? x / 8 % LONGEST : x / 8 % 300);
}

static void fill(unsigned char *data, int from, int to, int number)
{
	int n = length(from, to, number);

	for (int i = 0; i < n; i++)
		data[i] = (unsigned char)(from * 31 + to * 7 + number * 3 + i);
}

static void check(const unsigned char *data, int from, int to, int number, const MPI_Status *status)
{
	int n = length(from, to, number), got;

	MPI_Get_count(status, MPI_BYTE, &got);
	if (got != n)
		fail("a message of another length", from, number, 0);
	for (int i = 0; i < n; i++)
		if (data[i] != (unsigned char)(from * 31 + to * 7 + number * 3 + i))
			fail("a message of other data", from, number, 0);
}

/* A call about the peer has an error: then it is the dead one, and nothing more is begun with it. */
static void lose(struct stream *s, const char *what, int number, int rc)
{
	if (s->peer != dead || !survivors_told(rc))
		fail(what, s->peer, number, rc);
	s->lost = true;
}

static int begin_send(struct worker *w, struct stream *s, struct slot *slot)
{
	int form = (int)(mix(me, s->peer, slot->number, 2) % SEND_FORMS), n = length(me, s->peer, slot->number),
	    tag = slot->number % 1000, rc;

	fill(slot->data, me, s->peer, slot->number);
	slot->persistent = form == SEND_INIT;
	if (form == ISEND)
		return MPI_Isend(slot->data, n, MPI_BYTE, s->peer, tag, w->comm, &slot->request);
	if (form == ISSEND)
		return MPI_Issend(slot->data, n, MPI_BYTE, s->peer, tag, w->comm, &slot->request);
	rc = MPI_Send_init(slot->data, n, MPI_BYTE, s->peer, tag, w->comm, &slot->request);
	return rc ? rc : MPI_Start(&slot->request);
}

/* flag: false, if a probe finds nothing yet. */
static int begin_recv(struct worker *w, struct stream *s, struct slot *slot, int *flag)
{
	int form = (int)(mix(s->peer, me, slot->number, 3) % RECV_FORMS), tag = slot->number % 1000, rc;
	MPI_Message message;

	*flag = 1;
	slot->persistent = form == RECV_INIT;
	if (form == IRECV)
		return MPI_Irecv(slot->data, LONGEST, MPI_BYTE, s->peer, tag, w->comm, &slot->request);
	if (form == RECV_INIT) {
		rc = MPI_Recv_init(slot->data, LONGEST, MPI_BYTE, s->peer, tag, w->comm, &slot->request);
		return rc ? rc : MPI_Start(&slot->request);
	}
	rc = MPI_Improbe(s->peer, tag, w->comm, flag, &message, MPI_STATUS_IGNORE);
	return rc || !*flag ? rc : MPI_Imrecv(slot->data, LONGEST, MPI_BYTE, &message, &slot->request);
}

/* With the one that dies there is no end before that. */
static bool has_more(const struct stream *s)
{
	return !s->lost && (s->begun < messages || s->peer == dead || me == dead);
}

static void begin(struct worker *w, struct stream *s, bool out)
{
	for (int i = 0; i < WINDOW && has_more(s); i++) {
		struct slot *slot = &s->slots[i];
		int flag = 1, rc;

		if (slot->number != NOBODY)
			continue;
		slot->number = s->begun;
		slot->request = MPI_REQUEST_NULL;
		rc = out ? begin_send(w, s, slot) : begin_recv(w, s, slot, &flag);
		if (rc)
			lose(s, out ? "a send begins with" : "a receive begins with", slot->number, rc);
		if (rc || !flag) {
			if (slot->request != MPI_REQUEST_NULL)
				MPI_Request_free(&slot->request);
			slot->number = NOBODY;
			return;
		}
		s->begun++;
	}
}

static void end(struct stream *s, struct slot *slot, bool out, int rc, const MPI_Status *status)
{
	if (rc)
		lose(s, out ? "a send ends with" : "a receive ends with", slot->number, rc);
	else if (!out)
		check(slot->data, s->peer, me, slot->number, status);
	if (slot->persistent)
		MPI_Request_free(&slot->request);
	slot->number = NOBODY;
	s->ended += !rc;
}

/* Whether anything is under way, or is to be begun. */
static bool is_open(const struct stream *s)
{
	for (int i = 0; i < WINDOW; i++)
		if (s->slots[i].number != NOBODY)
			return true;
	return has_more(s);
}

/* Completes some requests, by any of the calls for that. */
static void complete(struct worker *w, int round)
{
	MPI_Status statuses[64];
	int places[64], n = 0, ended = 0, total = 2 * all * WINDOW;

	for (int k = 0; k < total; k++) {
		struct stream *s = k < all * WINDOW ? &w->out[k / WINDOW] : &w->in[k / WINDOW - all];
		struct slot *slot = &s->slots[k % WINDOW];

		if (s->peer == me || slot->number == NOBODY)
			continue;
		w->requests[n] = slot->request;
		w->which[n++] = k;
	}
	if (!n)
		return;
	n = n > 64 ? 64 : n;
	if (round % 3 == 0) {
		statuses[0].MPI_ERROR = MPI_Testany(n, w->requests, places, &ended, statuses);
		ended = ended && places[0] != MPI_UNDEFINED;
	} else if (round % 3 == 1) {
		int rc = MPI_Testsome(n, w->requests, &ended, places, statuses), class;

		MPI_Error_class(rc, &class);
		for (int i = 0; i < ended && class != MPI_ERR_IN_STATUS; i++)
			statuses[i].MPI_ERROR = rc;
	} else {
		int flag;

		places[0] = round / 3 % n;
		statuses[0].MPI_ERROR = MPI_Test(&w->requests[places[0]], &flag, statuses);
		ended = flag || statuses[0].MPI_ERROR;
	}
	for (int i = 0; i < ended; i++) {
		int k = w->which[places[i]];
		struct stream *s = k < all * WINDOW ? &w->out[k / WINDOW] : &w->in[k / WINDOW - all];

		s->slots[k % WINDOW].request = w->requests[places[i]];
		end(s, &s->slots[k % WINDOW], k < all * WINDOW, statuses[i].MPI_ERROR, &statuses[i]);
	}
}

static void *work(void *arg)
{
	struct worker *w = arg;
	time_t limit = time(NULL) + 60;
	bool open = true;

	for (int round = 0; open; round++) {
		open = false;
		for (int r = 0; r < all; r++) {
			if (r == me)
				continue;
			begin(w, &w->out[r], true);
			begin(w, &w->in[r], false);
			open = open || is_open(&w->out[r]) || is_open(&w->in[r]);
		}
		complete(w, round);
		if (time(NULL) > limit)
			for (int r = 0; r < all; r++)
				if (r != me && (is_open(&w->out[r]) || is_open(&w->in[r])))
					fail(is_open(&w->out[r]) ? "a send is never over" : "a receive is never over", r,
					     w->in[r].ended, 0);
	}
	for (int r = 0; r < all; r++)
		if (r != me && r != dead && (w->out[r].ended != messages || w->in[r].ended != messages))
			fail("some messages have not come", r, w->in[r].ended, 0);
	return NULL;
}

static struct stream *streams_new(void)
{
	struct stream *s = calloc((size_t)all, sizeof(*s));

	for (int r = 0; s && r < all; r++) {
		s[r].peer = r;
		for (int i = 0; i < WINDOW; i++) {
			s[r].slots[i].number = NOBODY;
			s[r].slots[i].data = malloc(LONGEST);
		}
	}
	return s;
}

int main(int argc, char **argv)
{
	int provided, threads = argc == 7 ? atoi(argv[5]) : 1, *met;
	struct worker *workers = calloc((size_t)threads, sizeof(*workers));

	MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (argc != 7 || !workers) {
		fprintf(stderr, "usage: p2p_death_random DEAD MICROSECONDS SEED MESSAGES THREADS FILE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	dead = atoi(argv[1]);
	seed = strtoull(argv[3], NULL, 0);
	messages = atoi(argv[4]);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	met = survivors_counters(argv[6]);
	for (int t = 0; t < threads; t++) {
		struct worker *w = &workers[t];

		MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
		w->out = streams_new();
		w->in = streams_new();
		w->requests = calloc((size_t)(2 * all * WINDOW), sizeof(*w->requests));
		w->which = calloc((size_t)(2 * all * WINDOW), sizeof(*w->which));
	}
	survivors_count(&met[0]);
	if (!survivors_await(&met[0], all, 30, true))
		fail("not all come to the death", 0, 0, 0);
	if (me == dead)
		survivors_die_in(1 + atoi(argv[2]));
	for (int t = 1; t < threads; t++)
		if (pthread_create(&workers[t].thread, NULL, work, &workers[t]))
			MPI_Abort(MPI_COMM_WORLD, 2);
	work(&workers[0]);
	for (int t = 1; t < threads; t++)
		pthread_join(workers[t].thread, NULL);
	survivors_count(&met[1]);
	if (!survivors_await(&met[1], all - 1, 60, true))
		fail("not all have got through", 0, 0, 0);
	printf("survivor %d: told after %d and %d messages to and from rank %d\n", me, workers[0].out[dead].ended,
	       workers[0].in[dead].ended, dead);
	fflush(stdout);
	for (int t = 0; t < threads; t++)
		MPI_Comm_free(&workers[t].comm);
	MPI_Finalize();
	return 0;
}
