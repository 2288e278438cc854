/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives that each rank starts in a different order (section 6.13), several at a time, with other collectives of
 * the same communicator between and beside them, at ranks of random speed: every rank must have the results of a reference. All
 * ranks draw from one sequence the operations that are created, started and freed; each rank draws the orders of starts and of
 * waits, and pauses, from a sequence of that rank.
 *
 *     coll_persistent_starts [rounds [seed [threads [stream]]]]
 *
 * threads: so many, each with separate communicators. stream: of each collective so many starts in a row, behind the rest, at
 * ranks of very different speed.
 *
 * Some requests are freed by one rank early and by another late, so that their memory is given out in different orders; some
 * communicators are freed before their requests are started again. In v-collectives and neighbor collectives the blocks differ in
 * length; some are empty and some longer than a mailbox cell.
 */
#include "mpi_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

/* OWN: by an operation of the program. PARTS: reduce_scatter. */
enum kind { BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN, EXSCAN,
	    GATHERV, SCATTERV, ALLGATHERV, ALLTOALLV, NEIGHBORS, PARTS, OWN_REDUCE, OWN_ALLREDUCE, OWN_SCAN, OWN_EXSCAN, KINDS };
static const char *const names[KINDS] = { "barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall",
					  "reduce_scatter_block", "scan", "exscan", "gatherv", "scatterv", "allgatherv",
					  "alltoallv", "neighbor_alltoallv", "reduce_scatter", "reduce (program's)",
					  "allreduce (program's)", "scan (program's)", "exscan (program's)" };
enum { OPS = 6, COMMS = 2, LEAST = 1, MOST = 140, RANKS = 64 };
#define ROOM ((size_t)(np + 1) * MOST * 2)	/* elements of a buffer; a rank alone has two neighbors */

struct op {
	enum kind kind;
	int n, root, rounds;		/* elements of a block; number of starts */
	bool in_place, holes;
	uint64_t lengths;		/* of pieces */
	int give[RANKS], take[RANKS], at[RANKS];
	int64_t *in, *out;
	MPI_Request req;
};

struct thread {
	pthread_t id;
	int number, rounds;
	uint64_t all, own;		/* states of the random numbers that all ranks draw alike, and of this rank's own */
	struct op ops[OPS];
	MPI_Comm comms[COMMS];
	MPI_Datatype apart;		/* an int64 and a hole as long */
};

static uint64_t step(uint64_t *state)
{
	return *state = mix(*state);
}

static unsigned draw(struct thread *t, unsigned below)
{
	return (unsigned)(step(&t->all) % below);
}

static unsigned draw_own(struct thread *t, unsigned below)
{
	return (unsigned)(step(&t->own) % below);
}

/* Returns element i of rank `from`'s block for rank `to` (0 where there is one block). */
static int64_t value(const struct op *o, int from, int to, int i)
{
	return (int64_t)(mix((uint64_t)from << 40 ^ (uint64_t)to << 20 ^ (uint64_t)i ^ (uint64_t)o->rounds << 50 ^
			     (uint64_t)o->kind) >>
			 16);
}

static bool is_vector(const struct op *o)
{
	return o->kind >= GATHERV && o->kind <= PARTS;
}

/* Elements that rank `from` has for rank, or edge, `to`. */
static int part(const struct op *o, int from, int to)
{
	uint64_t x = mix(o->lengths ^ (uint64_t)(o->kind == PARTS ? 0 : from) << 20 ^ (uint64_t)to);

	return !is_vector(o) ? o->n : x % 4 == 0 ? 0 : x % 4 == 1 ? o->n : (int)(x >> 8 & 0xffff) % (o->n + 1);
}

static int blocks_in(const struct op *o)
{
	return o->kind == ALLTOALL || o->kind == REDUCE_SCATTER || o->kind == SCATTER || o->kind == ALLTOALLV ||
		o->kind == SCATTERV ||
	       o->kind == PARTS ? np : o->kind == NEIGHBORS ? 2 : 1;
}

static int blocks_out(const struct op *o)
{
	return o->kind == ALLTOALL || o->kind == ALLGATHER || o->kind == GATHER || o->kind == ALLTOALLV ||
		o->kind == ALLGATHERV ||
	       o->kind == GATHERV ? np : o->kind == NEIGHBORS ? 2 : 1;
}

/* A ring: data for the next rank come from the one before, and the other way round. */
static int neighbor(int edge)
{
	return (me + (edge ? 1 : np - 1)) % np;
}

/* Returns the rank that sends this rank's block b. */
static int sender(const struct op *o, int b)
{
	return o->kind == NEIGHBORS ? neighbor(b) : o->kind == SCATTERV ? o->root : b;
}

/* Returns the number of that block at the sender. */
static int its_block(const struct op *o, int b)
{
	return o->kind == NEIGHBORS ? b : o->kind == ALLGATHERV || o->kind == GATHERV ? 0 : me;
}

/* Elements of the buffers are so far apart. */
static int apart(const struct op *o)
{
	return o->holes ? 2 : 1;
}

/* Returns the place of this rank's block for rank `to`. */
static int64_t *given(struct op *o, int to)
{
	bool here = o->in_place && (o->kind != REDUCE || me == o->root) && (o->kind != GATHER || me == o->root);
	size_t before = 0;

	if (o->kind == BCAST)
		return o->out;
	for (int r = 0; o->kind == PARTS && r < to; r++)
		before += part(o, 0, r);
	if (o->kind == PARTS)
		return o->in + before;
	if (!here || o->kind == SCATTER)
		return o->in + (size_t)to * (size_t)(o->n * apart(o));
	return o->out + (size_t)(o->kind == ALLGATHER || o->kind == GATHER ? me : to) * (size_t)(o->n * apart(o));
}

static void load(struct op *o)
{
	bool gives = me == o->root || (o->kind != BCAST && o->kind != SCATTER && o->kind != SCATTERV);

	for (size_t i = 0; i < ROOM; i++)
		o->out[i] = o->in[i] = -7;
	for (int to = 0; to < blocks_in(o); to++)
		for (int i = 0; gives && i < part(o, me, to); i++)
			given(o, to)[i * apart(o)] = value(o, me, to, i);
}

static int64_t sum(const struct op *o, int below, int to, int i)
{
	int64_t s = 0;

	for (int r = 0; r < below; r++)
		s += value(o, r, to, i);
	return s;
}

/* Element i of block b of the result; has: there is one. */
static int64_t wanted(const struct op *o, int b, int i, bool *has)
{
	*has = true;
	switch (o->kind) {
	case BCAST: return value(o, o->root, 0, i);
	case REDUCE: case OWN_REDUCE: *has = me == o->root; return sum(o, np, 0, i);
	case ALLREDUCE: case OWN_ALLREDUCE: return sum(o, np, 0, i);
	case GATHER: *has = me == o->root; return value(o, b, 0, i);
	case ALLGATHER: return value(o, b, 0, i);
	case SCATTER: *has = me != o->root || !o->in_place; return value(o, o->root, me, i);
	case ALLTOALL: return value(o, b, me, i);
	case REDUCE_SCATTER: return sum(o, np, me, i);
	case PARTS: return i < part(o, 0, me) ? sum(o, np, me, i) : -7;
	case GATHERV: *has = me == o->root; /* fallthrough */
	case SCATTERV: case ALLGATHERV: case ALLTOALLV: case NEIGHBORS:
		return i < part(o, sender(o, b), its_block(o, b)) ? value(o, sender(o, b), its_block(o, b), i) : -7;
	case SCAN: case OWN_SCAN: return sum(o, me + 1, 0, i);
	case EXSCAN: case OWN_EXSCAN: *has = me > 0; return sum(o, me, 0, i);
	default: *has = false; return 0;
	}
}

static void look(const struct op *o, const char *form)
{
	bool has;

	for (int b = 0; b < blocks_out(o); b++)
		for (int i = 0; i < o->n; i++) {
			int64_t want = wanted(o, b, i, &has);

			if (has && o->out[(size_t)(b * o->n + i) * (size_t)apart(o)] != want)
				test_fail(__FILE__, __LINE__,
					  "%s %s%s of %d, root %d, start %d: element %d of block %d is %lld, not %lld", form,
					  names[o->kind], o->in_place ? " in place" : "", o->n, o->root, o->rounds, i, b,
					  (long long)o->out[(size_t)(b * o->n + i) * (size_t)apart(o)], (long long)want);
		}
}

#define FORM(Name, name, ...) \
	(lasts ? MPI_##Name##_init(__VA_ARGS__, c, MPI_INFO_NULL, &o->req) : MPI_I##name(__VA_ARGS__, c, &o->req))

static MPI_Op own;

static void add(void *a, void *b, int *n, MPI_Datatype *y)
{
	(void)y;
	for (int i = 0; i < *n; i++)
		((int64_t *)b)[i] = (int64_t)((uint64_t)((int64_t *)b)[i] + (uint64_t)((int64_t *)a)[i]);
}

static void count(struct op *o)
{
	for (int r = 0; r < blocks_in(o); r++)
		o->give[r] = part(o, me, r);
	for (int b = 0; b < blocks_out(o); b++)
		o->take[b] = part(o, sender(o, b), its_block(o, b));
	for (int r = 0; r < np || r < 2; r++)
		o->at[r] = r * o->n;
}

static void call(struct thread *t, struct op *o, MPI_Comm c, bool lasts)
{
	MPI_Datatype y = o->holes ? t->apart : MPI_INT64_T;
	bool root = me == o->root;
	void *in = o->in_place && ((o->kind != REDUCE && o->kind != GATHER) || root) ? MPI_IN_PLACE : o->in;
	void *out = o->kind == SCATTER && o->in_place && root ? MPI_IN_PLACE : o->out;

	count(o);
	switch (o->kind) {
	case BARRIER:
		if (lasts)
			MPI_Barrier_init(c, MPI_INFO_NULL, &o->req);
		else
			MPI_Ibarrier(c, &o->req);
		break;
	case BCAST: FORM(Bcast, bcast, o->out, o->n, y, o->root); break;
	case REDUCE: FORM(Reduce, reduce, in, o->out, o->n, y, MPI_SUM, o->root); break;
	case ALLREDUCE: FORM(Allreduce, allreduce, in, o->out, o->n, y, MPI_SUM); break;
	case GATHER: FORM(Gather, gather, in, o->n, y, o->out, o->n, y, o->root); break;
	case SCATTER: FORM(Scatter, scatter, o->in, o->n, y, out, o->n, y, o->root); break;
	case ALLGATHER: FORM(Allgather, allgather, in, o->n, y, o->out, o->n, y); break;
	case ALLTOALL: FORM(Alltoall, alltoall, in, o->n, y, o->out, o->n, y); break;
	case REDUCE_SCATTER: FORM(Reduce_scatter_block, reduce_scatter_block, in, o->out, o->n, y, MPI_SUM); break;
	case SCAN: FORM(Scan, scan, in, o->out, o->n, y, MPI_SUM); break;
	case GATHERV: FORM(Gatherv, gatherv, in, o->give[0], y, o->out, o->take, o->at, y, o->root); break;
	case SCATTERV: FORM(Scatterv, scatterv, o->in, o->give, o->at, y, o->out, o->take[0], y, o->root); break;
	case ALLGATHERV: FORM(Allgatherv, allgatherv, in, o->give[0], y, o->out, o->take, o->at, y); break;
	case ALLTOALLV: FORM(Alltoallv, alltoallv, in, o->give, o->at, y, o->out, o->take, o->at, y); break;
	case NEIGHBORS: FORM(Neighbor_alltoallv, neighbor_alltoallv, in, o->give, o->at, y, o->out, o->take, o->at, y); break;
	case PARTS: FORM(Reduce_scatter, reduce_scatter, in, o->out, o->give, y, MPI_SUM); break;
	case OWN_REDUCE: FORM(Reduce, reduce, in, o->out, o->n, y, own, o->root); break;
	case OWN_ALLREDUCE: FORM(Allreduce, allreduce, in, o->out, o->n, y, own); break;
	case OWN_SCAN: FORM(Scan, scan, in, o->out, o->n, y, own); break;
	case OWN_EXSCAN: FORM(Exscan, exscan, in, o->out, o->n, y, own); break;
	default: FORM(Exscan, exscan, in, o->out, o->n, y, MPI_SUM); break;
	}
}

static void plan(struct thread *t, struct op *o)
{
	o->kind = (enum kind)draw(t, KINDS);
	o->n = draw(t, 4) ? (int)draw(t, 8) + LEAST : (int)draw(t, MOST) + 1;
	o->root = (int)draw(t, (unsigned)np);
	o->in_place = !draw(t, 3) && o->kind != BARRIER && o->kind != BCAST && !is_vector(o) && o->kind != OWN_REDUCE;
	o->holes = !draw(t, 4) && o->kind != REDUCE && o->kind != ALLREDUCE &&
		   (o->kind < REDUCE_SCATTER || (is_vector(o) && o->kind != PARTS));
	o->lengths = step(&t->all);
	o->rounds = 0;
}

static void pause_a_while(struct thread *t)
{
	switch (draw_own(t, 40)) {
	case 0: usleep(draw_own(t, 300)); break;
	case 1: case 2: case 3: sched_yield(); break;
	default: break;
	}
}

static void shuffle(struct thread *t, int *order, int n)
{
	for (int i = 0; i < n; i++)
		order[i] = i;
	for (int i = n - 1; i > 0; i--) {
		int k = (int)draw_own(t, (unsigned)i + 1), other = order[k];

		order[k] = order[i];
		order[i] = other;
	}
}

/* Completes the operation by a random call: wait or test. */
static void complete(struct thread *t, struct op *o)
{
	int flag = 0;

	pause_a_while(t);
	if (draw_own(t, 2))
		MPI_Wait(&o->req, MPI_STATUS_IGNORE);
	while (!flag)
		MPI_Test(&o->req, &flag, MPI_STATUS_IGNORE);
}

/* Starts operations, the same ones at all ranks, and a nonblocking one among them. */
static void start_some(struct thread *t)
{
	bool which[OPS];
	struct op other = { .in = malloc(sizeof(int64_t) * ROOM), .out = malloc(sizeof(int64_t) * ROOM) };
	int order[OPS], at = (int)draw_own(t, OPS);

	plan(t, &other);
	load(&other);
	for (int k = 0; k < OPS; k++)
		which[k] = draw(t, 3) && t->ops[k].req != MPI_REQUEST_NULL;
	shuffle(t, order, OPS);
	for (int i = 0; i < OPS; i++) {
		struct op *o = &t->ops[order[i]];

		if (i == at)
			call(t, &other, t->comms[0], false);
		if (!which[order[i]])
			continue;
		o->rounds++;
		load(o);
		pause_a_while(t);
		MPI_Start(&o->req);
	}
	if (draw(t, 4) == 0)
		MPI_Barrier(t->comms[0]);
	shuffle(t, order, OPS);
	for (int i = 0; i < OPS; i++)
		if (which[order[i]]) {
			complete(t, &t->ops[order[i]]);
			look(&t->ops[order[i]], "persistent");
		}
	complete(t, &other);
	look(&other, "nonblocking");
	free(other.in);
	free(other.out);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	MPI_Comm more;

	for (int r = 0; r < t->rounds; r++) {
		int k = (int)draw(t, OPS), c = (int)draw(t, COMMS), how = (int)draw(t, 12);

		if (how == 0 && c) {	/* requests of the communicator, if there are any, go on */
			MPI_Comm_free(&t->comms[c]);
			MPI_Comm_dup(t->comms[0], &t->comms[c]);
		} else if (how < 4) {
			struct op *o = &t->ops[k];
			MPI_Request old = o->req;
			bool early = draw_own(t, 2);

			if (early && old != MPI_REQUEST_NULL)
				MPI_Request_free(&old);
			plan(t, o);
			call(t, o, t->comms[c], true);
			if (!early && old != MPI_REQUEST_NULL)
				MPI_Request_free(&old);
		} else if (how == 4) {
			MPI_Comm_dup(t->comms[0], &more);
			MPI_Comm_free(&more);
		} else {
			start_some(t);
		}
	}
	for (int k = 0; k < OPS; k++)
		if (t->ops[k].req != MPI_REQUEST_NULL)
			MPI_Request_free(&t->ops[k].req);
	return NULL;
}

/* Starts of operations with a root, in which ranks run ahead as far as they may. */
static void stream(struct thread *t, int starts)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct op *o = &t->ops[0];

		*o = (struct op){ .kind = (enum kind)kind, .n = 3, .root = kind % np, .in = o->in, .out = o->out };
		call(t, o, t->comms[0], true);
		for (int i = 0; i < starts; i++) {
			unsigned slow = draw(t, (unsigned)np * 4);

			o->rounds++;
			load(o);
			if (slow < (unsigned)np && (int)slow == me)
				usleep(draw_own(t, 50));
			MPI_Start(&o->req);
			MPI_Wait(&o->req, MPI_STATUS_IGNORE);
			look(o, "persistent");
		}
		MPI_Request_free(&o->req);
	}
}

/* Requests that are freed as soon as they are started go on to their end. Their buffers must stay until MPI_Finalize. */
static void forget(struct thread *t, struct op *all)
{
	for (int kind = 0; kind < KINDS; kind++) {
		struct op *o = &all[kind];

		*o = (struct op){ .kind = (enum kind)kind, .n = MOST, .root = kind % np, .lengths = mix((uint64_t)kind),
				  .in = malloc(sizeof(int64_t) * ROOM), .out = malloc(sizeof(int64_t) * ROOM) };
		call(t, o, t->comms[0], true);
		load(o);
		MPI_Start(&o->req);
		MPI_Request_free(&o->req);
	}
}

static void prepare(struct thread *t, int number, int rounds, uint64_t seed)
{
	const int before[] = { neighbor(0), neighbor(1) }, behind[] = { neighbor(1), neighbor(0) };

	*t = (struct thread){ .number = number, .rounds = rounds, .all = mix(seed + (uint64_t)number),
			      .own = mix(mix(seed) + (uint64_t)(me * 64 + number)) };
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, before, MPI_UNWEIGHTED, 2, behind, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
				       &t->comms[0]);
	for (int c = 1; c < COMMS; c++)
		MPI_Comm_dup(t->comms[0], &t->comms[c]);
	for (int k = 0; k < OPS; k++) {
		t->ops[k].req = MPI_REQUEST_NULL;
		t->ops[k].in = malloc(sizeof(int64_t) * ROOM);
		t->ops[k].out = malloc(sizeof(int64_t) * ROOM);
	}
	MPI_Type_create_resized(MPI_INT64_T, 0, 16, &t->apart);
	MPI_Type_commit(&t->apart);
}

int main(int argc, char **argv)
{
	static struct thread threads[8];
	static struct op forgotten[KINDS];
	int rounds = argc > 1 ? atoi(argv[1]) : 300, n = argc > 3 ? atoi(argv[3]) : 1, level;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	MPI_Init_thread(&argc, &argv, n > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	n = n > 8 ? 8 : n;
	CHECK(np <= RANKS);
	MPI_Op_create(add, 1, &own);
	for (int i = 0; i < n; i++)
		prepare(&threads[i], i, rounds, seed);
	for (int i = 1; i < n; i++)
		pthread_create(&threads[i].id, NULL, run, &threads[i]);
	run(&threads[0]);
	for (int i = 1; i < n; i++)
		pthread_join(threads[i].id, NULL);
	stream(&threads[0], argc > 4 ? atoi(argv[4]) : 100);
	forget(&threads[0], forgotten);
	for (int i = 0; i < n; i++) {
		for (int c = 0; c < COMMS; c++)
			MPI_Comm_free(&threads[i].comms[c]);
		MPI_Type_free(&threads[i].apart);
		for (int k = 0; k < OPS; k++) {
			free(threads[i].ops[k].in);
			free(threads[i].ops[k].out);
		}
	}
	MPI_Op_free(&own);
	MPI_Finalize();
	for (int k = 0; k < KINDS; k++) {
		look(&forgotten[k], "forgotten");
		free(forgotten[k].in);
		free(forgotten[k].out);
	}
	return 0;
}
