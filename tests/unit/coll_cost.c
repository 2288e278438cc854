/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No cliffs: the algorithm that the table of the host executor (tuner.c, and `trees` of vcoll.c) chooses for some size costs at
 * most 1.3 times as much as the algorithm chosen for any larger size. A model gives the costs. The graphs of all ranks run
 * against each other: every rank carries out its nodes in their order, on a CPU of its own or on one of a few shared CPUs; a
 * message costs both ends a fixed time and a time for each byte, and has a latency; a message longer than an eager one is
 * announced first.
 *
 *     coll_cost            the test
 *     COLL_COST=1          prints the cost of each size, by the chosen algorithm and by all others
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/select/select.h"

#define CLIFF 1.3

/* Nanoseconds; of bytes nanoseconds for each. */
struct model {
	const char *name;
	double message;		/* at either end */
	double latency;
	double copy, reduce;	/* by the CPU, to memory that is in the cache */
	double announced;	/* the additional cost of a message that is not eager, at the receiver */
	double read, fresh;	/* of such a message, by the receiver's CPU. read: the sender's data are the user's, which may be
				 * in both caches; fresh: the sender has just produced the data, so they are in the sender's
				 * cache */
	double wire;		/* of all messages between two hosts, at the port of either end */
	int cores;		/* number of cores that the ranks share; 0: each rank has a core */
	int per_host;		/* ranks of one host, which share the host's port; 0: the model has no hosts */
	bool by_turns;		/*   rank r is on host r modulo their number, else the first ones are on the first */
	const struct model *inner;	/*   the model within one host */
};

static const struct model models[] = {
	/* as measured, with two ranks on two cores, and four */
	{ "one host", 150, 150, 0.03, 0.03, 1500, 0.04, 0.12, 0, 0, 0, false, NULL },
	{ "one host of two cores", 600, 150, 0.03, 0.03, 1500, 0.04, 0.12, 0, 2, 0, false, NULL },
	{ "a host for each rank", 250, 1500, 0.03, 0.03, 3000, 0, 0, 0.08, 0, 0, false, NULL },
};

#define HOSTS(Name, n, by_turns) { Name, 250, 1500, 0.03, 0.03, 3000, 0, 0, 0.08, 0, n, by_turns, &models[0] }
static const struct model several[] = {
	HOSTS("hosts of 2 ranks", 2, false), HOSTS("hosts of 2 ranks, by turns", 2, true),
	HOSTS("hosts of 4 ranks", 4, false), HOSTS("hosts of 4 ranks, by turns", 4, true),
	HOSTS("hosts of 8 ranks", 8, false), HOSTS("hosts of 8 ranks, by turns", 8, true),
	HOSTS("hosts of 16 ranks", 16, false),
};

#define EAGER 8192
#define MOST_RANKS 64

struct port {
	double sends, receives;		/* times at which each direction is free again */
};

/* State of one rank while the model runs. */
struct rank {
	struct hdl_graph *g;
	uint32_t at;			/* the next node */
	double now, busy;		/* of its CPU */
	struct port *port, own;		/* the host's port, or `own` */
	int host;			/* -1: the rank is alone on its host */
	double *end;			/* of nodes that are done; below 0: an announced send that was not received yet */
	double *there;			/* of sends: time at which the receiver sees the message */
	uint32_t *next;			/* of sends: the next one to the same rank */
	uint32_t first[MOST_RANKS];	/* to each rank that was not received yet */
};

static double later(double a, double b)
{
	return a > b ? a : b;
}

static void work(struct rank *r, double ns)
{
	r->now += ns;
	r->busy += ns;
}

/* The model that applies between two ranks. */
static const struct model *between(const struct model *m, const struct rank *a, const struct rank *b)
{
	return m->per_host && a->host == b->host ? m->inner : m;
}

static void list_sends(struct rank *r)
{
	uint32_t *tail[MOST_RANKS];

	for (int p = 0; p < MOST_RANKS; p++) {
		r->first[p] = HDL_NODE_NONE;
		tail[p] = &r->first[p];
	}
	for (uint32_t i = 0; i < r->g->nnodes; i++)
		if (r->g->nodes[i].kind == HDL_N_SEND) {
			r->next[i] = HDL_NODE_NONE;
			*tail[r->g->nodes[i].peer] = i;
			tail[r->g->nodes[i].peer] = &r->next[i];
		}
}

/* Returns the link to the earliest send of this sub to `to` that was not received. NULL: `from` has not sent such a message
 * yet. */
static uint32_t *sent(struct rank *from, int to, uint32_t sub)
{
	for (uint32_t *at = &from->first[to]; *at != HDL_NODE_NONE; at = &from->next[*at])
		if (from->g->nodes[*at].sub == sub)
			return *at < from->at ? at : NULL;
	return NULL;
}

static void send(const struct model *m, struct rank *r, uint32_t i)
{
	size_t len = r->g->nodes[i].len;

	/* RTS and FIN of an announced message cost the sender as much as the longest eager message */
	work(r, m->message + (double)(len > EAGER ? EAGER : len) * m->copy);
	if (len > EAGER) {
		r->there[i] = r->now + m->latency;
		r->end[i] = -1;
		return;
	}
	r->end[i] = r->there[i] = r->now;
	if (m->wire > 0)
		r->there[i] = r->port->sends = later(r->port->sends, r->now) + (double)len * m->wire;
	r->there[i] += m->latency;
}

/* begins: time at which the send and the receive are both posted. */
static void receive(const struct model *m, struct rank *r, struct rank *from, uint32_t k, double begins)
{
	size_t len = r->g->nodes[r->at].len;
	bool eager = len <= EAGER;

	if (!eager && m->wire > 0) {
		from->port->sends = r->port->receives =
			later(begins, later(from->port->sends, r->port->receives)) + (double)len * m->wire;
		begins = r->port->receives + m->latency;
	} else if (eager && m->wire > 0) {
		r->port->receives = begins = later(r->port->receives + (double)len * m->wire, begins);
	}
	r->now = later(r->now, begins);
	work(r, m->message + (double)len * (eager ? m->copy : from->g->nodes[k].src_space == HDL_SP_SEND ? m->read : m->fresh));
	if (!eager)
		from->end[k] = r->now + m->latency;
}

#define NEVER 1e30

/* Returns the earliest time at which the next node of a rank can begin. A receive counts as posted once its predecessors have
 * ended, whatever the rank's `now`. */
static double ready(const struct model *m, struct rank *ranks, int me)
{
	struct rank *r = &ranks[me];
	const struct hdl_node *n = &r->g->nodes[r->at];
	const uint32_t *at;
	double t = 0;

	if (r->at == r->g->nnodes)
		return NEVER;
	for (uint32_t p = 0; p < n->npreds; p++) {
		double end = r->end[r->g->preds[n->pred0 + p]];

		if (end < 0)
			return NEVER;
		t = later(t, end);
	}
	if (n->kind != HDL_N_RECV)
		return later(t, r->now);
	at = sent(&ranks[n->peer], me, n->sub);
	return at ? later(t, ranks[n->peer].there[*at]) + (n->len > EAGER ? between(m, r, &ranks[n->peer])->announced : 0) :
		    NEVER;
}

static void step(const struct model *m, struct rank *ranks, int me, double begins)
{
	struct rank *r = &ranks[me];
	const struct hdl_node *n = &r->g->nodes[r->at];

	if (n->kind == HDL_N_RECV) {
		uint32_t *at = sent(&ranks[n->peer], me, n->sub), k = *at;

		*at = ranks[n->peer].next[k];
		receive(between(m, r, &ranks[n->peer]), r, &ranks[n->peer], k, begins);
	} else {
		r->now = begins;
		if (n->kind == HDL_N_SEND)
			send(between(m, r, &ranks[n->peer]), r, r->at);
		else
			work(r, 20 + (double)n->len * (n->kind == HDL_N_REDUCE ? m->reduce : m->copy));
	}
	if (n->kind != HDL_N_SEND)
		r->end[r->at] = r->now;
	r->at++;
}

/* When the last rank is through. The node that can begin first is the next one. */
static double run(const struct model *m, struct rank *ranks, int n)
{
	double last = 0, busy = 0, first;

	do {
		int next = 0;

		first = NEVER;
		for (int r = 0; r < n; r++) {
			double t = ready(m, ranks, r);

			if (t < NEVER && later(t, ranks[r].now) < first) {
				first = later(t, ranks[r].now);
				next = r;
			}
		}
		if (first < NEVER)
			step(m, ranks, next, ready(m, ranks, next));
	} while (first < NEVER);
	for (int r = 0; r < n; r++) {
		cr_assert_eq(ranks[r].at, ranks[r].g->nnodes, "%s: rank %d of %d waits for ever", ranks[r].g->algorithm, r, n);
		last = later(last, ranks[r].now);
		for (uint32_t i = 0; i < ranks[r].g->nnodes; i++)
			last = later(last, ranks[r].end[i]);
		busy += ranks[r].busy;
	}
	return m->cores ? later(last, busy / m->cores) : last;
}

struct placement {
	const struct model *m;
	int n;
};

static int host_of(const void *arg, int rank)
{
	const struct placement *p = arg;

	return p->m->by_turns ? rank % ((p->n + p->m->per_host - 1) / p->m->per_host) : rank / p->m->per_host;
}

/* NULL: there are none, or all are on one. Kept, for there are few. */
static const struct hdl_hosts *hosts_of(const struct model *m, int n)
{
	static struct {
		const struct model *m;
		int n;
		struct hdl_hosts *hosts;
	} kept[256];
	int i = 0;

	if (!m->per_host)
		return NULL;
	while (kept[i].m && (kept[i].m != m || kept[i].n != n))
		i++;
	if (!kept[i].m) {
		kept[i].m = m;
		kept[i].n = n;
		cr_assert_eq(hdl_hosts_make(n, host_of, &(struct placement){ m, n }, &kept[i].hosts), 0);
	}
	return kept[i].hosts;
}

static struct hdl_shape shape(const struct model *m, enum hdl_coll coll, int n, size_t bytes)
{
	struct hdl_shape s = { .coll = coll, .size = n, .bytes = bytes, .esize = 8, .oversubscribed = m->cores && n > m->cores,
			       .hosts = hosts_of(m, n) };

	if (hdl_coll_reduces(coll))
		s.fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T));
	return s;
}

static double cost(const struct model *m, const struct hdl_algorithm *a, enum hdl_coll coll, int n, size_t bytes)
{
	struct rank *ranks = calloc((size_t)n, sizeof(*ranks));
	struct hdl_shape s = shape(m, coll, n, bytes);
	double ns;

	for (int r = 0; r < n; r++) {
		s.rank = r;
		ranks[r].g = a->build(&s);
		cr_assert_not_null(ranks[r].g);
		ranks[r].end = calloc(ranks[r].g->nnodes + 1, sizeof(double));
		ranks[r].there = calloc(ranks[r].g->nnodes + 1, sizeof(double));
		ranks[r].next = calloc(ranks[r].g->nnodes + 1, sizeof(uint32_t));
		list_sends(&ranks[r]);
		ranks[r].host = m->per_host ? host_of(&(struct placement){ m, n }, r) : -1;
		ranks[r].port = &ranks[r].own;
		for (int k = 0; k < r && m->per_host; k++)
			if (ranks[k].host == ranks[r].host)
				ranks[r].port = ranks[k].port;
	}
	ns = run(m, ranks, n);
	for (int r = 0; r < n; r++) {
		hdl_graph_free(ranks[r].g);
		free(ranks[r].end);
		free(ranks[r].there);
		free(ranks[r].next);
	}
	free(ranks);
	return ns;
}

static void print_others(const struct model *m, enum hdl_coll coll, int n, size_t bytes)
{
	struct hdl_shape s = shape(m, coll, n, bytes);

	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
		if (a->coll == coll && (!a->fits || a->fits(&s)))
			printf("  %s %.1f", a->name, cost(m, a, coll, n, bytes) / 1000);
	printf("\n");
}

/* Powers of two, where all thresholds are, and the next size after each. */
#define SIZES 40
static int sizes(size_t *out, size_t most)
{
	int n = 0;

	for (size_t bytes = 8; bytes <= most && n + 2 <= SIZES; bytes *= 2) {
		out[n++] = bytes;
		out[n++] = bytes + 8;
	}
	return n;
}

/* by_hosts: compares only pairs of which one algorithm is hierarchical. */
static int look(const struct model *m, enum hdl_coll coll, int n, bool by_hosts)
{
	bool blocks = coll == HDL_ALLGATHER || coll == HDL_ALLTOALL || coll == HDL_GATHER || coll == HDL_SCATTER ||
		      coll == HDL_REDUCE_SCATTER;
	double costs[SIZES];
	const struct hdl_algorithm *as[SIZES];
	size_t bytes[SIZES];
	int k = sizes(bytes, blocks ? 256 << 10 : 4 << 20), cliffs = 0;

	for (int i = 0; i < k; i++) {
		struct hdl_shape s = shape(m, coll, n, bytes[i]);

		as[i] = hdl_tune_host(&s, NULL);
		costs[i] = cost(m, as[i], coll, n, bytes[i]);
		if (!getenv("COLL_COST"))
			continue;
		printf("%s, %s, %d ranks, %zu bytes: %s %.1f us;", m->name, hdl_coll_name(coll), n, bytes[i], as[i]->name,
		       costs[i] / 1000);
		print_others(m, coll, n, bytes[i]);
	}
	for (int i = 0; i < k; i++)
		for (int j = i + 1; j < k; j++)
			if (costs[i] > CLIFF * costs[j] &&
			    (!by_hosts || as[i]->build == hdl_build_hier || as[j]->build == hdl_build_hier)) {
				printf("%s: %s of %d ranks: %zu bytes (%s) cost %.1f us, %zu (%s) %.1f us: %.2f times\n", m->name,
				       hdl_coll_name(coll), n, bytes[i], as[i]->name, costs[i] / 1000, bytes[j], as[j]->name,
				       costs[j] / 1000, costs[i] / costs[j]);
				cliffs++;
				break;
			}
	return cliffs;
}

/* A hierarchical algorithm costs no more than the flat one on the same hosts. */
static int look_at_levels(const struct model *m, enum hdl_coll coll, int n)
{
	bool blocks = coll == HDL_ALLGATHER || coll == HDL_GATHER || coll == HDL_SCATTER || coll == HDL_REDUCE_SCATTER;
	size_t bytes[SIZES];
	int k = sizes(bytes, blocks ? 256 << 10 : 4 << 20), dearer = 0;

	for (int i = 0; i < k; i++) {
		struct hdl_shape s = shape(m, coll, n, bytes[i]), flat = s;
		const struct hdl_algorithm *a = hdl_tune_host(&s, NULL), *other, *by_hosts = hdl_tune_host(&s, "two-level");
		double now, then, two;

		flat.hosts = NULL;
		other = hdl_tune_host(&flat, NULL);
		if (a == other && !getenv("COLL_COST"))
			continue;
		now = cost(m, a, coll, n, bytes[i]);
		then = cost(m, other, coll, n, bytes[i]);
		if (getenv("COLL_COST")) {
			two = cost(m, by_hosts, coll, n, bytes[i]);
			printf("LEVELS %s, %s, %d ranks, %zu bytes: %s; %s %.1f us, two-level %.1f us: %.2f times\n", m->name,
			       hdl_coll_name(coll), n, bytes[i], a->name, other->name, then / 1000, two / 1000, two / then);
		}
		if (now > 1.01 * then) {
			printf("%s: %s of %d ranks, %zu bytes: two-level %.1f us, %s %.1f us\n", m->name, hdl_coll_name(coll),
			       n, bytes[i], now / 1000, other->name, then / 1000);
			dearer++;
		}
	}
	return dearer;
}

Test(coll_cost, two_levels_are_no_dearer)
{
	static const int ranks[] = { 4, 6, 8, 12, 16, 24, 32, 64 };
	int dearer = 0;

	for (size_t m = 0; m < sizeof(several) / sizeof(several[0]); m++)
		for (int coll = HDL_BARRIER; coll <= HDL_REDUCE_SCATTER; coll++)
			for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
				if (coll != HDL_ALLTOALL && hosts_of(&several[m], ranks[r]))
					dearer += look_at_levels(&several[m], (enum hdl_coll)coll, ranks[r]);
	cr_assert_eq(dearer, 0, "%d sizes are dearer in two levels", dearer);
}

Test(coll_cost, no_size_costs_more_than_a_larger_one)
{
	static const int ranks[] = { 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 33, 64 };
	int cliffs = 0;

	for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
		for (int coll = HDL_BCAST; coll < HDL_COLLS; coll++)
			for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
				cliffs += look(&models[m], (enum hdl_coll)coll, ranks[r], false);
	cr_assert_eq(cliffs, 0, "%d sizes cost more than 1.3 times as much as a larger one", cliffs);
}

Test(coll_cost, no_size_costs_more_than_a_larger_one_by_hosts)
{
	static const int ranks[] = { 4, 8, 12, 16, 24, 32 };
	int cliffs = 0;

	for (size_t m = 0; m < sizeof(several) / sizeof(several[0]); m++)
		for (int coll = HDL_BCAST; coll <= HDL_REDUCE_SCATTER; coll++)
			for (size_t r = 0; r < sizeof(ranks) / sizeof(ranks[0]); r++)
				if (coll != HDL_ALLTOALL && hosts_of(&several[m], ranks[r]))
					cliffs += look(&several[m], (enum hdl_coll)coll, ranks[r], true);
	cr_assert_eq(cliffs, 0, "%d sizes cost more than 1.3 times as much as a larger one", cliffs);
}
