/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic. Every rank knows, from one random sequence, every message of a round: who sends to whom, on which
 * communicator, with which tag, how long, by which kind of send (standard, synchronous, persistent) and receive (posted,
 * persistent, of a matched probe): many from, and into, memory with gaps. Each message describes itself, and each is
 * received exactly once. Arguments: rounds, seed.
 */
#include "mpi_test.h"

#define MESSAGES	120
#define COMMS		3
#define MAX		300000

struct message {
	int from, to, comm, tag, len;
	int send_kind, recv_kind;
	int send_apart;
	int n;			/* number among the messages of the round */
};

struct header {
	int from, to, comm, tag, len, n, round;
};

struct posted {
	char *buf;
	int comm, any_source, any_tag, src, tag;
};

static MPI_Comm comms[COMMS];
static struct message plan[MESSAGES];
static int taken[MESSAGES];

static int random_len(uint64_t *state)
{
	switch (rnd(state) % 10) {
	case 0: case 1: case 2: case 3: case 4:
		return (int)(rnd(state) % 200);
	case 5: case 6: case 7:
		return (int)(rnd(state) % 9000);
	case 8:
		return (int)(rnd(state) % 70000);
	default:
		return (int)(rnd(state) % (MAX - sizeof(struct header)));
	}
}

static void check_message(const char *buf, const MPI_Status *s, int comm, int round)
{
	struct header h;
	int count;

	MPI_Get_count(s, MPI_BYTE, &count);
	CHECK(count >= (int)sizeof(h));
	memcpy(&h, buf, sizeof(h));
	CHECK_EQ(h.round, round);
	CHECK_EQ(h.to, me);
	CHECK_EQ(h.from, s->MPI_SOURCE);
	CHECK_EQ(h.tag, s->MPI_TAG);
	CHECK_EQ(h.comm, comm);
	CHECK_EQ(h.len, count);
	CHECK(h.n >= 0 && h.n < MESSAGES);
	CHECK_EQ(plan[h.n].from, h.from);
	CHECK_EQ(plan[h.n].len, h.len);
	CHECK(!taken[h.n]);
	taken[h.n] = 1;
	VERIFY(buf + sizeof(h), count - sizeof(h), seed_of(h.from, h.to, h.tag, h.n + 1000 * round));
	/* No message of the same sender, communicator and tag that was sent before it may still be missing. */
	for (int i = 0; i < h.n; i++)
		if (plan[i].from == h.from && plan[i].to == me && plan[i].comm == h.comm && plan[i].tag == h.tag)
			CHECK(taken[i]);
}

/* Memory with gaps: blocks of BLOCK bytes, each APART bytes behind the one before. */
#define BLOCK	48
#define APART	64

static size_t spread(int i)
{
	return (size_t)(i / BLOCK) * APART + (size_t)(i % BLOCK);
}

/* The first len bytes of it. */
static MPI_Datatype spread_type(int len)
{
	int lengths[2] = { 1, len % BLOCK };
	MPI_Aint places[2] = { 0, (MPI_Aint)spread(len / BLOCK * BLOCK) };
	MPI_Datatype types[2] = { MPI_DATATYPE_NULL, MPI_BYTE }, t;

	MPI_Type_create_hvector(len / BLOCK, BLOCK, APART, MPI_BYTE, &types[0]);
	MPI_Type_create_struct(2, lengths, places, types, &t);
	MPI_Type_free(&types[0]);
	MPI_Type_commit(&t);
	return t;
}

/* Moves a message of that length apart; gaps are filled with something that must never be seen. */
static char *spread_out(char *dense, int len)
{
	char *apart = malloc(spread(len) + 1);

	memset(apart, 0xee, spread(len) + 1);
	for (int i = 0; i < len; i++)
		apart[spread(i)] = dense[i];
	free(dense);
	return apart;
}

/* Moves it together, and looks into the gaps. */
static char *gather_in(char *apart, int len)
{
	char *dense = malloc(MAX);

	for (int i = 0; i < len; i++)
		dense[i] = apart[spread(i)];
	for (int i = BLOCK; i < len; i += BLOCK)
		for (size_t k = spread(i - 1) + 1; k < spread(i); k++)
			CHECK_EQ((unsigned char)apart[k], 0xee);
	free(apart);
	return dense;
}

enum { PLAIN, PERSISTENT, SPECIAL };	/* SPECIAL: a synchronous send; a receive of what a matched probe has found */

/* A message that is there is matched and received apart from the others; otherwise the receive is posted. */
static void receive(char *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, int kind,
		    MPI_Request *r)
{
	MPI_Message m;
	int flag = 0;

	if (kind == SPECIAL) {
		MPI_Improbe(source, tag, comm, &flag, &m, MPI_STATUS_IGNORE);
		if (flag)
			MPI_Imrecv(buf, count, type, &m, r);
	}
	if (flag)
		return;
	if (kind == PERSISTENT) {
		MPI_Recv_init(buf, count, type, source, tag, comm, r);
		MPI_Start(r);
	} else {
		MPI_Irecv(buf, count, type, source, tag, comm, r);
	}
}

static void send(const char *buf, int count, MPI_Datatype type, const struct message *m, MPI_Request *r)
{
	if (m->send_kind == SPECIAL) {
		MPI_Issend(buf, count, type, m->to, m->tag, comms[m->comm], r);
	} else if (m->send_kind == PERSISTENT) {
		MPI_Send_init(buf, count, type, m->to, m->tag, comms[m->comm], r);
		MPI_Start(r);
	} else {
		MPI_Isend(buf, count, type, m->to, m->tag, comms[m->comm], r);
	}
}

static void run_round(int round, uint64_t *state)
{
	MPI_Request req[2 * MESSAGES];
	char *sbuf[MESSAGES], *rbuf[MESSAGES];
	int rcomm[MESSAGES], rapart[MESSAGES], nsend = 0, nrecv = 0, order[MESSAGES], index, len;
	MPI_Datatype type;
	int wild = rnd(state) % 3 == 0;		/* this round's receives are all by any source and any tag */
	MPI_Status s;

	memset(taken, 0, sizeof(taken));
	for (int i = 0; i < MESSAGES; i++) {
		struct message *m = &plan[i];

		m->n = i;
		m->from = (int)(rnd(state) % np);
		m->to = (int)(rnd(state) % np);
		m->comm = (int)(rnd(state) % COMMS);
		m->tag = (int)(rnd(state) % 4);
		m->len = (int)sizeof(struct header) + random_len(state);
		m->send_kind = (int)(rnd(state) % 3);
		m->recv_kind = (int)(rnd(state) % 3);
		m->send_apart = rnd(state) % 3 == 0;
	}
	/* The receives are posted in an order of this rank's own, some before and some after its sends. For messages
	 * with the same envelope it makes no difference which one is posted for which. */
	for (int i = 0; i < MESSAGES; i++)
		order[i] = i;
	uint64_t own = *state ^ mix(me);
	for (int i = MESSAGES - 1; i > 0; i--) {
		int k = (int)(rnd(&own) % (i + 1)), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (int half = 0; half < 2; half++) {
		for (int i = 0; i < MESSAGES; i++) {
			struct message *m = &plan[order[i]];

			if (m->to != me || (i < MESSAGES / 2) != !half)
				continue;
			rcomm[nrecv] = m->comm;
			rapart[nrecv] = m->recv_kind == 2;
			rbuf[nrecv] = malloc(rapart[nrecv] ? spread(MAX) : MAX);
			type = rapart[nrecv] ? spread_type(MAX) : MPI_BYTE;
			if (rapart[nrecv])
				memset(rbuf[nrecv], 0xee, spread(MAX));
			receive(rbuf[nrecv], rapart[nrecv] ? 1 : MAX, type, wild ? MPI_ANY_SOURCE : m->from,
				wild ? MPI_ANY_TAG : m->tag, comms[m->comm], (m->n + m->tag) % 3, &req[nrecv]);
			if (rapart[nrecv])
				MPI_Type_free(&type);
			nrecv++;
		}
		for (int i = 0; !half && i < MESSAGES; i++) {
			struct message *m = &plan[i];
			struct header h = { m->from, m->to, m->comm, m->tag, m->len, m->n, round };

			if (m->from != me)
				continue;
			sbuf[nsend] = malloc(m->len);
			memcpy(sbuf[nsend], &h, sizeof(h));
			fill(sbuf[nsend] + sizeof(h), m->len - sizeof(h), seed_of(me, m->to, m->tag,
										  m->n + 1000 * round));
			type = m->send_apart ? spread_type(m->len) : MPI_BYTE;
			len = m->send_apart ? 1 : m->len;
			if (m->send_apart)
				sbuf[nsend] = spread_out(sbuf[nsend], m->len);
			send(sbuf[nsend], len, type, m, &req[MESSAGES + nsend]);
			if (m->send_apart)
				MPI_Type_free(&type);
			nsend++;
		}
	}
	/* Receives with one envelope complete in any order, but match in order: check each when all are here. */
	MPI_Status *st = malloc(sizeof(*st) * (nrecv + 1));
	for (int k = 0; k < nrecv; k++) {
		MPI_Waitany(nrecv, req, &index, &s);
		CHECK(index != MPI_UNDEFINED);
		st[index] = s;
	}
	for (int k = 0; k < nrecv; k++) {
		if (req[k] != MPI_REQUEST_NULL)
			MPI_Request_free(&req[k]);
		if (rapart[k]) {
			MPI_Get_count(&st[k], MPI_BYTE, &len);
			rbuf[k] = gather_in(rbuf[k], len);
		}
		check_message(rbuf[k], &st[k], rcomm[k], round);
		free(rbuf[k]);
	}
	free(st);
	MPI_Waitall(nsend, req + MESSAGES, MPI_STATUSES_IGNORE);
	for (int k = 0; k < nsend; k++) {
		if (req[MESSAGES + k] != MPI_REQUEST_NULL)
			MPI_Request_free(&req[MESSAGES + k]);
		free(sbuf[k]);
	}
	for (int i = 0; i < MESSAGES; i++)
		CHECK_EQ(taken[i], plan[i].to == me);
	if (wild)
		meet(sync_comm);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 40;
	uint64_t state = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	test_init(&argc, &argv);
	for (int i = 0; i < COMMS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (int round = 0; round < rounds; round++)
		run_round(round, &state);
	for (int i = 0; i < COMMS; i++)
		MPI_Comm_free(&comms[i]);
	test_done("stress");
	return 0;
}
