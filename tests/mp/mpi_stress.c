/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic. Every rank knows, from one random sequence, every message of a round: sender, receiver, on which communicator,
 * with which tag, how long, by which kind of send (standard, synchronous, persistent, buffered) and receive (posted, persistent,
 * of a matched probe, withdrawn and posted again): many from, and into, memory with gaps. Each message describes itself, and each
 * is received exactly once. A shift in one buffer runs at the same time. Arguments: rounds, seed.
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

/* The receive of a message. */
struct slot {
	char *buf;
	int count, comm, apart, source, tag, complete;
	MPI_Datatype type;
	MPI_Status status;
};

static MPI_Comm comms[COMMS], shift_comm;
static struct message plan[MESSAGES];
static int taken[MESSAGES];
static struct slot slots[MESSAGES];
static MPI_Request receives[MESSAGES], sends[MESSAGES];
static char *send_bufs[MESSAGES], *room;
static int nrecv, nsend;
static int line[8 * MESSAGES], posted;	/* the slots in the order of posting; -1: was withdrawn, and is posted again */

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
	/* No earlier message of the same sender, communicator and tag may still be missing. */
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

/* Returns the type of the first len bytes of a buffer with gaps. */
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

/* Packs such a buffer, and checks the gaps. */
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

enum { PLAIN, PERSISTENT, SPECIAL, BUFFERED };	/* of a send; SPECIAL: a synchronous one */
enum { MATCHED = 2, MATCHED_NOW, WITHDRAWN, WITHDRAWN_PERSISTENT, RECEIVES };	/* of a receive, after PLAIN and PERSISTENT */

/* A message that has arrived is received by a matched probe; otherwise the receive is posted. */
static void receive(int k, int kind)
{
	struct slot *s = &slots[k];
	MPI_Message m;
	int flag = 0;

	line[posted++] = k;
	receives[k] = MPI_REQUEST_NULL;
	if (kind == MATCHED || kind == MATCHED_NOW)
		MPI_Improbe(s->source, s->tag, comms[s->comm], &flag, &m, MPI_STATUS_IGNORE);
	if (flag && kind == MATCHED_NOW) {
		MPI_Mrecv(s->buf, s->count, s->type, &m, &s->status);
		s->complete = 1;
	} else if (flag) {
		MPI_Imrecv(s->buf, s->count, s->type, &m, &receives[k]);
	} else if (kind == PERSISTENT || kind == WITHDRAWN_PERSISTENT) {
		MPI_Recv_init(s->buf, s->count, s->type, s->source, s->tag, comms[s->comm], &receives[k]);
		MPI_Start(&receives[k]);
	} else {
		MPI_Irecv(s->buf, s->count, s->type, s->source, s->tag, comms[s->comm], &receives[k]);
	}
	if (kind == WITHDRAWN || kind == WITHDRAWN_PERSISTENT)
		MPI_Cancel(&receives[k]);
}

/* Posts a cancelled receive again, behind all other receives, and sometimes cancels that one, too. */
static void receive_again(int k, uint64_t *state)
{
	struct slot *s = &slots[k];

	for (int i = 0; i < posted; i++)
		if (line[i] == k)
			line[i] = -1;
	line[posted++] = k;
	if (receives[k] != MPI_REQUEST_NULL)
		MPI_Start(&receives[k]);
	else
		MPI_Irecv(s->buf, s->count, s->type, s->source, s->tag, comms[s->comm], &receives[k]);
	if (posted < 7 * MESSAGES && rnd(state) % 3 == 0)
		MPI_Cancel(&receives[k]);
}

static void send(const char *buf, int count, MPI_Datatype type, const struct message *m, MPI_Request *r)
{
	if (m->send_kind == SPECIAL) {
		MPI_Issend(buf, count, type, m->to, m->tag, comms[m->comm], r);
	} else if (m->send_kind == BUFFERED) {
		MPI_Ibsend(buf, count, type, m->to, m->tag, comms[m->comm], r);
	} else if (m->send_kind == PERSISTENT) {
		MPI_Send_init(buf, count, type, m->to, m->tag, comms[m->comm], r);
		MPI_Start(r);
	} else {
		MPI_Isend(buf, count, type, m->to, m->tag, comms[m->comm], r);
	}
}

static void make_plan(uint64_t *state)
{
	memset(taken, 0, sizeof(taken));
	for (int i = 0; i < MESSAGES; i++) {
		struct message *m = &plan[i];

		m->n = i;
		m->from = (int)(rnd(state) % np);
		m->to = (int)(rnd(state) % np);
		m->comm = (int)(rnd(state) % COMMS);
		m->tag = (int)(rnd(state) % 4);
		m->len = (int)sizeof(struct header) + random_len(state);
		m->send_kind = (int)(rnd(state) % 4);
		m->recv_kind = (int)(rnd(state) % 3);
		m->send_apart = rnd(state) % 3 == 0;
	}
}

/* The room that the standard's model of a buffer needs for this round's messages, and no more; or an automatic buffer
 * (MPI_BUFFER_AUTOMATIC). */
static void attach_buffer(int round)
{
	size_t bytes = 0;
	int size;

	if (round % 2) {
		MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
		return;
	}
	for (int i = 0; i < MESSAGES; i++) {
		if (plan[i].from != me || plan[i].send_kind != BUFFERED)
			continue;
		MPI_Pack_size(plan[i].len, MPI_BYTE, comms[plan[i].comm], &size);
		bytes += size + MPI_BSEND_OVERHEAD;
	}
	room = malloc(bytes + 1);
	MPI_Buffer_attach(room, (int)bytes);
}

static void detach_buffer(int round)
{
	void *p;
	int size;

	MPI_Buffer_detach(&p, &size);
	CHECK(p == (round % 2 ? MPI_BUFFER_AUTOMATIC : room));
	free(room);
	room = NULL;
}

static void post_receive(const struct message *m, int wild)
{
	struct slot *s = &slots[nrecv];

	*s = (struct slot){ .comm = m->comm, .apart = m->recv_kind == 2, .source = wild ? MPI_ANY_SOURCE : m->from,
			    .tag = wild ? MPI_ANY_TAG : m->tag };
	s->count = s->apart ? 1 : MAX;
	s->type = s->apart ? spread_type(MAX) : MPI_BYTE;
	s->buf = malloc(s->apart ? spread(MAX) : MAX);
	if (s->apart)
		memset(s->buf, 0xee, spread(MAX));
	receive(nrecv++, (m->n + m->tag) % RECEIVES);
}

static void post_send(const struct message *m, int round)
{
	struct header h = { m->from, m->to, m->comm, m->tag, m->len, m->n, round };
	char *buf = malloc(m->len);
	MPI_Datatype type = m->send_apart ? spread_type(m->len) : MPI_BYTE;

	memcpy(buf, &h, sizeof(h));
	fill(buf + sizeof(h), m->len - sizeof(h), seed_of(me, m->to, m->tag, m->n + 1000 * round));
	if (m->send_apart)
		buf = spread_out(buf, m->len);
	send(buf, m->send_apart ? 1 : m->len, type, m, &sends[nsend]);
	if (m->send_kind == BUFFERED)
		memset(buf, 0xdd, m->send_apart ? spread(m->len) : (size_t)m->len);
	if (m->send_apart)
		MPI_Type_free(&type);
	send_bufs[nsend++] = buf;
}

/* All ranks shift by the same distance, in the buffer that is sent; every second one's has gaps. */
struct shift {
	int len, from, round, apart;
	char *buf;
	MPI_Request r;
};

static void start_shift(struct shift *s, int round, uint64_t *state)
{
	int by = (int)(rnd(state) % np), to = (me + by) % np;
	MPI_Datatype type = MPI_BYTE;

	*s = (struct shift){ .len = random_len(state), .from = (me + np - by) % np, .round = round, .apart = me % 2 };
	s->buf = malloc(MAX);
	fill(s->buf, s->len, seed_of(me, to, 5, round));
	if (s->apart) {
		s->buf = spread_out(s->buf, s->len);
		type = spread_type(s->len);
	}
	MPI_Isendrecv_replace(s->buf, s->apart ? 1 : s->len, type, to, 5, s->from, 5, shift_comm, &s->r);
	if (s->apart)
		MPI_Type_free(&type);
}

static void end_shift(struct shift *s)
{
	MPI_Wait(&s->r, MPI_STATUS_IGNORE);
	if (s->apart)
		s->buf = gather_in(s->buf, s->len);
	VERIFY(s->buf, s->len, seed_of(s->from, me, 5, s->round));
	free(s->buf);
}

static void wait_receives(uint64_t *own)
{
	int index, left = 0, cancelled;
	MPI_Status s;

	for (int k = 0; k < nrecv; k++)
		left += !slots[k].complete;
	while (left) {
		MPI_Waitany(nrecv, receives, &index, &s);
		CHECK(index != MPI_UNDEFINED);
		MPI_Test_cancelled(&s, &cancelled);
		if (cancelled) {
			receive_again(index, own);
			continue;
		}
		slots[index].status = s;
		left--;
	}
}

/* Receives with one envelope complete in any order, but match in the order of posting. */
static void check_receives(int round)
{
	int len;

	for (int i = 0; i < posted; i++) {
		int k = line[i];
		struct slot *s = k < 0 ? NULL : &slots[k];

		if (!s)
			continue;
		if (receives[k] != MPI_REQUEST_NULL)
			MPI_Request_free(&receives[k]);
		if (s->apart) {
			MPI_Type_free(&s->type);
			MPI_Get_count(&s->status, MPI_BYTE, &len);
			s->buf = gather_in(s->buf, len);
		}
		check_message(s->buf, &s->status, s->comm, round);
		free(s->buf);
	}
}

static void run_round(int round, uint64_t *state)
{
	int wild = rnd(state) % 3 == 0;		/* this round's receives are all by any source and any tag */
	int order[MESSAGES];
	struct shift shift;

	nrecv = nsend = posted = 0;
	make_plan(state);
	attach_buffer(round);
	start_shift(&shift, round, state);
	/* The receives are posted in an order that this rank draws, some before and some after its sends. Messages with the same
	 * envelope may match any of their receives. */
	for (int i = 0; i < MESSAGES; i++)
		order[i] = i;
	uint64_t own = *state ^ mix(me);
	for (int i = MESSAGES - 1; i > 0; i--) {
		int k = (int)(rnd(&own) % (i + 1)), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	for (int half = 0; half < 2; half++) {
		for (int i = half * MESSAGES / 2; i < (half + 1) * MESSAGES / 2; i++)
			if (plan[order[i]].to == me)
				post_receive(&plan[order[i]], wild);
		for (int i = 0; !half && i < MESSAGES; i++)
			if (plan[i].from == me)
				post_send(&plan[i], round);
	}
	wait_receives(&own);
	check_receives(round);
	MPI_Waitall(nsend, sends, MPI_STATUSES_IGNORE);
	for (int k = 0; k < nsend; k++) {
		if (sends[k] != MPI_REQUEST_NULL)
			MPI_Request_free(&sends[k]);
		free(send_bufs[k]);
	}
	end_shift(&shift);
	detach_buffer(round);
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
	MPI_Comm_dup(MPI_COMM_WORLD, &shift_comm);
	for (int round = 0; round < rounds; round++)
		run_round(round, &state);
	for (int i = 0; i < COMMS; i++)
		MPI_Comm_free(&comms[i]);
	MPI_Comm_free(&shift_comm);
	test_done("stress");
	return 0;
}
