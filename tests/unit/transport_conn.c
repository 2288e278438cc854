/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state machine of a connection, explored from both sides, breadth first: every order in which two processes may want a lane,
 * propose, answer and refuse, over a network that loses, duplicates and reorders messages, while one side may fail or die.
 *
 * In every state that can be reached: queues go through their states in order; no side uses a lane that the peer cannot receive
 * from; no side gives up while both live and the only failures are queues that can be replaced, even if messages are late or
 * duplicated. From every state, when no more failures occur: both sides come to the same lane, or both to none.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/connect/conn.h"

#define UD HDL_QUEUE_BIT(HDL_QUEUE_UD)
#define RC HDL_QUEUE_BIT(HDL_QUEUE_RC)
#define XRC HDL_QUEUE_BIT(HDL_QUEUE_XRC)
#define DC HDL_QUEUE_BIT(HDL_QUEUE_DC)

enum { FLIGHT = 4, MISHAPS = 2, ENDS = 1, STEPS = 64 };

struct msg {
	uint8_t what, to, kind, named, number;
	uint8_t replacing, about;	/* about: number of the queues of which the sender reports received messages */
};
enum { NO_QUEUE = 0, INIT, RTR, RTS };
struct side {
	struct hdl_conn c;
	uint8_t queue, queue_kind, queue_number;	/* made by the actions */
	uint8_t up, dead, rtu;				/* rtu: number of the RTU that is under way to this side; 0: none */
	uint8_t posted;		/* number of the queues that have posted messages which may have to be posted again; 0: none */
	uint8_t taken;		/* number of the queues that stopped last; the received messages of these are
				 * reported to the peer */
};
struct world {
	struct side side[2];		/* 0 has the lower rank */
	struct msg msg[FLIGHT];		/* messages under way, sorted: the network keeps no order */
	uint8_t n, mishaps, ends, breaks;
	uint8_t lost;			/* something has failed for good */
};

/* The parameters of a run. can: mask of kinds of queues. */
struct setting {
	unsigned can;
	int plant;			/* 0: the machine of conn.c; else a planted bug */
	int breaks;			/* how often queues break */
	enum hdl_queue prefer[2];	/* the kind that each side prefers at present: limits on queues come into
					 * force and cease */
};

static const char *broken;		/* the rule that a state has violated, or NULL */
static uint8_t told;			/* `about` of the message that is the event */

/* A lane that needs no agreement. */
static bool by_address(unsigned kind)
{
	return HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, kind);
}

/* ---- the machine, and bugs to be found ------------------------------------------------------------------------------ */

enum { PLANT_SILENT_DC = 1, PLANT_NO_TIE, PLANT_EARLY_UP, PLANT_ANY_REP, PLANT_AGAIN_READY, PLANT_AGAIN_NUMBER,
       PLANT_AGAIN_TIE, PLANT_AGAIN_FORGETS, PLANT_REJ_AGAIN, PLANTS };

static void step(const struct setting *s, int me, struct hdl_conn *c, struct hdl_conn_event e, struct hdl_conn_todo *todo)
{
	struct hdl_conn_self self = { .can = s->can, .prefer = s->prefer[me], .lower = me == 0 };

	if (s->plant == PLANT_NO_TIE)
		self.lower = true;
	if (s->plant == PLANT_ANY_REP && e.what == HDL_CONN_REP) {
		e.number = c->number;
		e.kind = c->kind;
	}
	if (s->plant == PLANT_SILENT_DC && e.what == HDL_CONN_REQ && c->state == HDL_CONN_READY && by_address(c->kind)) {
		todo->n = 0;
		return;
	}
	/* bug: a duplicated refusal ends the lane that was made after the first one */
	if (s->plant == PLANT_REJ_AGAIN && e.what == HDL_CONN_REJ && c->state == HDL_CONN_READY)
		e.kind = HDL_QUEUE_NONE;
	/* bug: a side that has not noticed the break does not answer the side that has */
	if (s->plant == PLANT_AGAIN_READY && e.what == HDL_CONN_REQ && e.replacing && c->state == HDL_CONN_READY) {
		todo->n = 0;
		return;
	}
	if (s->plant == PLANT_AGAIN_TIE && e.what == HDL_CONN_REQ && e.replacing)
		self.lower = false;
	/* bug: the new queues have the number of the broken ones */
	if (s->plant == PLANT_AGAIN_NUMBER && e.what == HDL_CONN_BROKE && c->state == HDL_CONN_READY && c->up) {
		hdl_conn_step(c, &self, &e, todo);
		c->number--;
		return;
	}
	if (s->plant == PLANT_EARLY_UP && e.what == HDL_CONN_REQ && c->state == HDL_CONN_ANSWERED && e.number == c->number)
		e.what = HDL_CONN_RTU;
	hdl_conn_step(c, &self, &e, todo);
	if (s->plant == PLANT_AGAIN_FORGETS && e.what == HDL_CONN_BROKE)
		c->replacing = false;
}

/* ---- the world ------------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct msg));
}

static void put(struct world *w, struct msg m)
{
	if (w->n == FLIGHT) {
		/* the network may lose any message, so the first one is dropped; a message that is repeated comes again */
		memmove(w->msg, w->msg + 1, (FLIGHT - 1) * sizeof(m));
		w->n--;
	}
	w->msg[w->n++] = m;
	qsort(w->msg, w->n, sizeof(m), by_bytes);
}

static struct msg take(struct world *w, int i)
{
	struct msg m = w->msg[i];

	memmove(w->msg + i, w->msg + i + 1, (size_t)(--w->n - i) * sizeof(m));
	memset(w->msg + w->n, 0, sizeof(m));
	return m;
}

static bool reachable(const struct side *peer, const struct side *me)
{
	return peer->queue >= RTR && peer->queue_kind == me->queue_kind && peer->queue_number == me->queue_number;
}

#define MUST(cond, text) do { if (!(cond) && !broken) broken = text; } while (0)

static void act(struct world *w, int me, enum hdl_conn_do what, const struct hdl_conn_todo *todo)
{
	struct side *s = &w->side[me], *peer = &w->side[!me];
	struct msg m = { .to = (uint8_t)!me, .kind = s->c.kind, .number = (uint8_t)s->c.number, .replacing = s->c.replacing,
			 .about = s->c.replacing ? s->taken : 0 };

	switch (what) {
	case HDL_CONN_DOWN:
		MUST(s->up || s->posted || s->taken, "a lane is taken down that was never up");
		s->up = s->posted = s->taken = 0;
		return;
	case HDL_CONN_DESTROY:
		MUST(s->queue != NO_QUEUE, "queues are destroyed that do not exist");
		MUST(!s->up, "queues are destroyed that are in use");
		MUST(!s->posted, "what was posted is forgotten, and nobody fails");
		s->queue = s->queue_kind = s->queue_number = s->rtu = 0;
		return;
	case HDL_CONN_RENEW:
		MUST(s->queue >= RTR, "queues are renewed that were not used");
		s->taken = s->queue_number;
		s->queue = INIT;
		s->up = s->queue_number = s->rtu = 0;
		return;
	case HDL_CONN_MAKE:
		MUST(s->queue == NO_QUEUE, "queues are made twice");
		s->queue = INIT;
		s->queue_kind = s->c.kind;
		return;
	case HDL_CONN_TO_RTR:
		MUST(s->queue == INIT && s->queue_kind == s->c.kind, "to RTR, but not from INIT");
		s->queue = RTR;
		s->queue_number = (uint8_t)s->c.number;
		/* the peer has reported the received messages: the other ones are posted again, once */
		MUST(!s->posted || !s->c.replacing || s->posted == told,
		     "a side is told what came by other queues than it had posted to");
		s->posted = 0;
		return;
	case HDL_CONN_TO_RTS:
		MUST(s->queue == RTR, "to RTS, but not from RTR");
		s->queue = RTS;
		return;
	case HDL_CONN_SEND_REQ:
		m.what = HDL_CONN_REQ;
		m.named = s->c.named;
		put(w, m);
		return;
	case HDL_CONN_SEND_REP:
		m.what = HDL_CONN_REP;
		put(w, m);
		return;
	case HDL_CONN_SEND_REJ:
		m.what = HDL_CONN_REJ;
		m.kind = (uint8_t)todo->refused.kind;
		m.number = (uint8_t)todo->refused.number;
		put(w, m);
		return;
	case HDL_CONN_SEND_RTU:
		MUST(s->queue == RTS, "a message on a connection that cannot send");
		peer->rtu = s->queue_number;
		return;
	case HDL_CONN_UP:
		s->c.up = true;
		s->c.replacing = false;
		MUST(!s->up, "a lane is taken up twice");
		MUST(!s->posted, "nobody knows what of the former queue came");
		s->posted = by_address(s->c.kind) ? 0 : s->queue_number;
		MUST(by_address(s->c.kind) || s->queue == RTS, "a lane is used that cannot send");
		/* a peer that has failed or died since need not receive; a peer that has stopped this queue for a replacement
		 * will report the received messages */
		MUST(by_address(s->c.kind) || peer->dead || peer->c.state == HDL_CONN_FAILED || reachable(peer, s) ||
		     (peer->c.replacing && peer->taken == s->queue_number),
		     "a lane is used from which the peer cannot receive");
		s->up = 1;
		return;
	case HDL_CONN_GIVE_UP:
		MUST(!s->up && s->queue == NO_QUEUE, "a side has given up and keeps queues");
		return;
	}
}

/* Whether an action can fail. */
static bool is_work(enum hdl_conn_do what)
{
	return what == HDL_CONN_MAKE || what == HDL_CONN_RENEW || what == HDL_CONN_TO_RTR || what == HDL_CONN_TO_RTS ||
	       what == HDL_CONN_SEND_RTU;
}

/* first_fails: in each event, the number of the action that fails, counted from 1; 0: none. fails: how many
 * actions remain until then. */
static unsigned first_fails, fails;

static void feed(const struct setting *set, struct world *w, int me, struct hdl_conn_event e)
{
	struct hdl_conn_todo todo;

	if (w->side[me].dead)
		return;
	w->lost |= e.what == HDL_CONN_LOST || w->side[!me].dead;
	step(set, me, &w->side[me].c, e, &todo);
	MUST(w->lost || w->side[me].c.state != HDL_CONN_FAILED, "a side gives up, and nothing has failed");
	MUST(todo.n <= HDL_CONN_DO_MAX, "more to do than there is room for");
	for (unsigned i = 0; i < todo.n; i++) {
		if (is_work(todo.what[i]) && fails && !--fails) {
			bool up = w->side[me].up;

			/* DESTROY ends half-made queues */
			if (todo.what[i] == HDL_CONN_MAKE || todo.what[i] == HDL_CONN_RENEW)
				act(w, me, todo.what[i], &todo);
			w->ends++;
			feed(set, w, me, (struct hdl_conn_event){ .what = HDL_CONN_LOST });
			MUST(!up || !w->side[me].up, "a lane is left up");
			return;
		}
		act(w, me, todo.what[i], &todo);
	}
}

static void deliver(const struct setting *set, struct world *w, struct msg m)
{
	struct hdl_conn_event e = {
		.what = m.what, .kind = m.kind, .number = m.number, .named = m.named, .replacing = m.replacing};

	told = m.about;
	feed(set, w, m.to, e);
}

/* The RTU arrives, if the queue that carries the RTU still exists. */
static void deliver_rtu(const struct setting *set, struct world *w, int me)
{
	struct hdl_conn_event e = { .what = HDL_CONN_RTU, .number = w->side[me].rtu };
	bool there = w->side[me].queue >= RTR && w->side[me].queue_number == w->side[me].rtu;

	w->side[me].rtu = 0;
	if (there)
		feed(set, w, me, e);
}

/* A connection without a queue at the other end breaks at the first use. */
static bool breaks(const struct world *w, int me)
{
	const struct side *s = &w->side[me], *peer = &w->side[!me];

	return s->up && !by_address(s->queue_kind) && (peer->dead || !reachable(peer, s));
}

/* A message by DC or XRC reaches a peer that has no lane. */
static bool is_heard(const struct world *w, int me)
{
	return w->side[!me].up && !w->side[!me].dead && by_address(w->side[!me].c.kind) && !w->side[me].dead && !w->side[me].up;
}

/* From here on no failure occurs, and no side changes its preferred kind. The sides must come to rest without messages on the
 * lane, since a side with a lane by address may have none to send; once that side sends one, the peer must get a lane, too.
 * Returns NULL, or the rule that the final state violates. */
static const char *settle(const struct setting *set, struct world w)
{
	bool talk = false;

	for (int i = 0; i < STEPS; i++) {
		bool did = false;

		while (w.n)
			deliver(set, &w, take(&w, 0));
		for (int me = 0; me < 2; me++) {
			/* the lane by which the peer receives a message */
			struct hdl_conn_event e = { .kind = w.side[!me].c.kind };

			if (w.side[me].dead)
				continue;
			if (w.side[me].rtu) {
				deliver_rtu(set, &w, me);
				did = true;
			}
			if (w.side[!me].dead && w.side[me].c.state != HDL_CONN_FAILED)
				e.what = HDL_CONN_LOST;
			else if (talk && breaks(&w, me))
				e.what = HDL_CONN_BROKE;	/* a side with nothing to send does not notice */
			else if (talk && is_heard(&w, me))
				e.what = HDL_CONN_RTU_SEEN;
			else if (hdl_conn_waits(&w.side[me].c))
				e.what = HDL_CONN_TIMER;
			if (e.what) {
				feed(set, &w, me, e);
				did = true;
			}
		}
		if (!did && !w.n && !talk) {
			talk = true;
		} else if (!did && !w.n) {
			const struct hdl_conn *a = &w.side[0].c, *b = &w.side[1].c;

			if (w.side[0].dead || w.side[1].dead)
				return NULL;
			/* a side that never wanted a lane learns that there is none when asking for one */
			if (a->state != b->state && (a->state == HDL_CONN_READY || b->state == HDL_CONN_READY ||
						     (a->state != HDL_CONN_NONE && b->state != HDL_CONN_NONE)))
				return "the sides end in different states";
			/* kinds without agreement: each side sends by the kind of that side */
			if (a->state == HDL_CONN_READY && a->kind != b->kind && !(by_address(a->kind) && by_address(b->kind)))
				return "the sides end with lanes of different kinds";
			if (a->state == HDL_CONN_READY && !by_address(a->kind) && a->number != b->number)
				return "the sides end with different connections";
			return NULL;
		}
	}
	return "the sides never come to rest";
}

/* ---- the search ------------------------------------------------------------------------------------------------------- */

struct search {
	struct world *seen;		/* in the order of discovery */
	size_t n, room;
	uint32_t *slot;			/* open addressing: index + 1 */
	size_t slots;
};

static uint64_t hash(const struct world *w)
{
	const unsigned char *p = (const unsigned char *)w;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < sizeof(*w); i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h ^ h >> 29;
}

static void grow(struct search *s)
{
	s->slots = s->slots ? s->slots * 2 : 1 << 12;
	free(s->slot);
	s->slot = calloc(s->slots, sizeof(*s->slot));
	cr_assert(s->slot);
	for (size_t i = 0; i < s->n; i++) {
		size_t at = hash(&s->seen[i]) & (s->slots - 1);
		while (s->slot[at])
			at = (at + 1) & (s->slots - 1);
		s->slot[at] = (uint32_t)i + 1;
	}
}

static void found(struct search *s, const struct world *w)
{
	fails = first_fails;		/* for the next event */
	if (s->n * 2 >= s->slots)
		grow(s);
	size_t at = hash(w) & (s->slots - 1);
	for (; s->slot[at]; at = (at + 1) & (s->slots - 1))
		if (!memcmp(&s->seen[s->slot[at] - 1], w, sizeof(*w)))
			return;
	if (s->n == s->room) {
		s->room = s->room ? s->room * 2 : 1 << 10;
		s->seen = realloc(s->seen, s->room * sizeof(*w));
		cr_assert(s->seen);
	}
	s->seen[s->n] = *w;
	s->slot[at] = (uint32_t)++s->n;
}

/* Adds the states that can follow `from`. */
static void expand_once(struct setting *set, struct search *s, const struct world *from)
{
	struct world w;

	for (int i = 0; i < from->n; i++) {
		for (enum hdl_queue prefer = 1; prefer < HDL_QUEUES; prefer++) {
			if (!(set->can & HDL_QUEUE_CONNECTED & HDL_QUEUE_BIT(prefer)))
				continue;
			set->prefer[from->msg[i].to] = prefer;
			w = *from;
			deliver(set, &w, take(&w, i));
			found(s, &w);
			if (from->mishaps == MISHAPS)
				continue;
			w = *from;
			deliver(set, &w, w.msg[i]);
			w.mishaps++;
			found(s, &w);	/* doubled: one comes now, one later */
		}
		if (from->mishaps == MISHAPS)
			continue;
		w = *from;
		take(&w, i);
		w.mishaps++;
		found(s, &w);	/* lost */
	}
	for (int me = 0; me < 2; me++) {
		const struct side *side = &from->side[me];

		if (side->dead)
			continue;
		for (enum hdl_queue kind = 1; kind < HDL_QUEUES && side->c.state == HDL_CONN_NONE; kind++) {
			if (!(set->can & HDL_QUEUE_CONNECTED & HDL_QUEUE_BIT(kind)))
				continue;
			w = *from;
			feed(set, &w, me, (struct hdl_conn_event){ .what = HDL_CONN_WANT, .kind = kind });
			found(s, &w);
		}
		if (side->rtu) {
			w = *from;
			deliver_rtu(set, &w, me);
			found(s, &w);
		}
		if (is_heard(from, me)) {
			w = *from;
			feed(set, &w, me, (struct hdl_conn_event){ .what = HDL_CONN_RTU_SEEN, .kind = from->side[!me].c.kind });
			found(s, &w);
		}
		if (hdl_conn_waits(&side->c) && from->n < FLIGHT) {
			w = *from;
			feed(set, &w, me, (struct hdl_conn_event){ .what = HDL_CONN_TIMER });
			found(s, &w);
		}
		/* queues break by themselves, or because the peer's have */
		if (side->up && !by_address(side->queue_kind) && from->breaks < set->breaks) {
			w = *from;
			w.breaks++;
			feed(set, &w, me, (struct hdl_conn_event){ .what = HDL_CONN_BROKE });
			found(s, &w);
		}
		if (breaks(from, me) || from->ends < ENDS) {
			w = *from;
			w.ends += !breaks(from, me);
			feed(set, &w, me, (struct hdl_conn_event){ .what = HDL_CONN_LOST });
			found(s, &w);
		}
		if (from->ends < ENDS) {
			w = *from;
			w.ends++;
			w.side[me].dead = 1;
			found(s, &w);
		}
	}
}

static void expand(struct setting *set, struct search *s, const struct world *from)
{
	fails = first_fails = 0;
	expand_once(set, s, from);
	/* the same with a failure of the first, second or third action */
	for (first_fails = from->ends < ENDS ? 3 : 0; first_fails; first_fails--) {
		fails = first_fails;
		expand_once(set, s, from);
	}
	fails = 0;
}

/* settle with each pair of preferred kinds. */
static const char *settle_all(struct setting *set, const struct world *w)
{
	const char *wrong = NULL;

	for (enum hdl_queue a = 1; a < HDL_QUEUES; a++)
		for (enum hdl_queue b = 1; b < HDL_QUEUES && !wrong; b++) {
			if (!(set->can & HDL_QUEUE_CONNECTED & HDL_QUEUE_BIT(a)) ||
			    !(set->can & HDL_QUEUE_CONNECTED & HDL_QUEUE_BIT(b)))
				continue;
			set->prefer[0] = a;
			set->prefer[1] = b;
			wrong = settle(set, *w);
		}
	return wrong;
}

/* Returns the number of states that can be reached. *wrong: the rule that one of them violates, or NULL. */
static size_t explore(struct setting *set, const char **wrong)
{
	struct search s = { .n = 0 };
	struct world start;
	size_t n;

	memset(&start, 0, sizeof(start));
	broken = NULL;
	*wrong = NULL;
	found(&s, &start);
	for (size_t i = 0; i < s.n && !*wrong; i++) {
		struct world w = s.seen[i];

		expand(set, &s, &w);
		*wrong = broken;
		if (!*wrong)
			*wrong = settle_all(set, &w);
		if (!*wrong)
			*wrong = broken;
	}
	n = s.n;
	free(s.seen);
	free(s.slot);
	return n;
}

/* Explores with every set of kinds. Returns the number of states; stops at the first violation. */
static size_t explore_all(int plant, const char **wrong, unsigned *can)
{
	static const unsigned cans[] = { RC, DC, XRC, RC | DC, RC | XRC, XRC | DC, RC | XRC | DC };
	size_t all = 0;

	*wrong = NULL;
	for (unsigned i = 0; i < sizeof(cans) / sizeof(*cans) && !*wrong; i++) {
		/* replacing queues does not depend on the other kinds: two breaks where the exploration is short */
		struct setting set = {.can = cans[i] | UD,
				      .plant = plant,
				      .breaks = cans[i] == RC ? 2 : !(cans[i] & HDL_QUEUE_ADDRESSED)};

		*can = cans[i];
		all += explore(&set, wrong);
	}
	return all;
}

Test(transport_conn, every_order_ends_well)
{
	const char *wrong;
	unsigned can;
	size_t n = explore_all(0, &wrong, &can);

	cr_assert_null(wrong, "with the kinds %#x: %s", can, wrong);
	printf("%zu states visited\n", n);
	fflush(stdout);
}

/* The exploration finds each planted bug. */
Test(transport_conn, planted_bugs_are_found)
{
	for (int plant = 1; plant < PLANTS; plant++) {
		const char *wrong;
		unsigned can;

		explore_all(plant, &wrong, &can);
		cr_expect_not_null(wrong, "planted bug %d was not found", plant);
		printf("planted bug %d: %s\n", plant, wrong ? wrong : "not found");
	}
	fflush(stdout);
}

/* A limit may come into force between the peer's naming of a kind and the proposal of that kind: if the peer refused the
 * proposal, the peer would name another kind, and so on without end. */
Test(transport_conn, a_kind_that_was_named_is_taken)
{
	struct hdl_conn_self self = { .can = RC | XRC, .prefer = HDL_QUEUE_XRC };
	struct hdl_conn_event e = { .what = HDL_CONN_REQ, .kind = HDL_QUEUE_RC, .number = 1 };

	for (int named = 0; named < 2; named++) {
		struct hdl_conn c = { 0 };
		struct hdl_conn_todo todo;

		e.named = named;
		hdl_conn_step(&c, &self, &e, &todo);
		cr_assert_eq(c.state == HDL_CONN_ANSWERED, named, "named: %d, state %d", named, (int)c.state);
	}
}

static bool does(const struct hdl_conn_todo *todo, enum hdl_conn_do what)
{
	for (int i = 0; i < (int)todo->n; i++)
		if (todo->what[i] == what)
			return true;
	return false;
}

/* Steps that may be missing without notice by the exploration, since a repetition, or an action of the peer, makes up for the
 * missing step. */
Test(transport_conn, single_steps)
{
	struct hdl_conn_self self = { .can = RC, .prefer = HDL_QUEUE_RC };
	struct hdl_conn_todo todo;
	struct hdl_conn c = { .state = HDL_CONN_ASKED, .kind = HDL_QUEUE_RC, .number = 1, .mine = true };

	hdl_conn_step(&c, &self, &(struct hdl_conn_event){ .what = HDL_CONN_REJ, .kind = HDL_QUEUE_XRC, .number = 1 }, &todo);
	cr_expect_eq((int)c.state, HDL_CONN_FAILED, "the peer names a kind that cannot be");
	cr_expect(does(&todo, HDL_CONN_SEND_REJ), "it is told");

	c = (struct hdl_conn){ .state = HDL_CONN_ANSWERED, .kind = HDL_QUEUE_RC, .number = 2 };
	hdl_conn_step(&c, &self, &(struct hdl_conn_event){ .what = HDL_CONN_RTU, .number = 1 }, &todo);
	cr_expect(c.state == HDL_CONN_ANSWERED && !todo.n, "a message by the queues of before");
	hdl_conn_step(&c, &self, &(struct hdl_conn_event){ .what = HDL_CONN_RTU, .number = 2 }, &todo);
	cr_expect_eq((int)c.state, HDL_CONN_READY);

	hdl_conn_step(&c, &self, &(struct hdl_conn_event){ .what = HDL_CONN_LOST }, &todo);
	cr_expect(c.state == HDL_CONN_FAILED && does(&todo, HDL_CONN_SEND_REJ), "the peer is told of the end");

	c = (struct hdl_conn){ .state = HDL_CONN_NONE };
	hdl_conn_step(&c, &self,
		      &(struct hdl_conn_event){.what = HDL_CONN_REQ, .kind = HDL_QUEUE_RC, .number = 3, .replacing = true},
		      &todo);
	cr_expect(c.state == HDL_CONN_NONE && does(&todo, HDL_CONN_SEND_REJ), "what never was is not replaced");

	c = (struct hdl_conn){ .state = HDL_CONN_ASKED, .kind = HDL_QUEUE_RC, .number = 5, .mine = true, .replacing = true };
	hdl_conn_step(&c, &self, &(struct hdl_conn_event){ .what = HDL_CONN_REQ, .kind = HDL_QUEUE_RC, .number = 6 }, &todo);
	cr_expect(c.state == HDL_CONN_FAILED && does(&todo, HDL_CONN_SEND_REJ),
		  "who begins anew knows nothing of what went by the queues");
}
