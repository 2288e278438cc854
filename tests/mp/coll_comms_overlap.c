/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of coll_random.c on several communicators that overlap, made and freed while operations are under way on other
 * communicators. Each rank has a random speed, and waits for outstanding operations in a random order. Every buffer is
 * overwritten and freed as soon as the operation is complete at this rank, also after the last operation, directly before
 * MPI_Finalize.
 *
 *     coll_comms_overlap [operations [seed [only]]]
 */
int random_main(int argc, char **argv);
#define main random_main
#include "coll_random.c"
#undef main

#include <sched.h>
#include <unistd.h>

#define PLACES 4
#define OUTSTANDING 64
#define TOGETHER 12		/* calls from one start of all persistent ones to the next */

static struct place places[PLACES];
static struct op ops[OUTSTANDING];	/* free: p is NULL */
static bool active[OUTSTANDING];
static uint64_t own;

/* An operation of a program that asks about its type. */
static void asking(void *in, void *inout, int *n, MPI_Datatype *type)
{
	MPI_Aint lb, extent;
	int size;

	MPI_Type_size(*type, &size);
	MPI_Type_get_extent(*type, &lb, &extent);
	CHECK(size == 8 && extent == 8 && lb == 0);
	maps(in, inout, n, type);
}

static void dawdle(void)
{
	switch (rnd(&own) % 24) {
	case 0: usleep((useconds_t)(rnd(&own) % 3000)); break;
	case 1:
	case 2: usleep(1); break;
	case 3: sched_yield(); break;
	default: break;
	}
}

static void overwrite(struct list *l)
{
	if (l->buf)
		memset(l->buf, 0xee, l->bytes);
	free(l->buf);
	l->buf = NULL;
}

static void end(struct op *o)
{
	look(o);
	active[o - ops] = false;
	/* it is started again when all ranks do so: else one could wait for it that has to come to another one first */
	if (++o->starts < o->rounds) {
		memset(o->send.buf, 0xee, o->send.bytes);
		memset(o->recv.buf, 0xee, o->recv.bytes);
		return;
	}
	if (o->req != MPI_REQUEST_NULL)
		MPI_Request_free(&o->req);
	overwrite(&o->send);
	overwrite(&o->recv);
	free(o->expect);
	o->p = NULL;
}

/* Of that place, or of all; one, or until there are none. */
static void wait_for(const struct place *p, bool all)
{
	int from = (int)(rnd(&own) % OUTSTANDING);

	for (int i = 0; i < OUTSTANDING; i++) {
		struct op *o = &ops[(from + i) % OUTSTANDING];

		if (!active[o - ops] || (p && o->p != p))
			continue;
		MPI_Wait(&o->req, MPI_STATUS_IGNORE);
		end(o);
		if (!all)
			return;
	}
}

static void test_some(void)
{
	struct op *o = &ops[rnd(&own) % OUTSTANDING];
	int flag;

	if (!active[o - ops])
		return;
	MPI_Test(&o->req, &flag, MPI_STATUS_IGNORE);
	if (flag)
		end(o);
}

static void start_again(const struct place *p)
{
	int from = (int)(rnd(&own) % OUTSTANDING);

	for (int i = 0; i < OUTSTANDING; i++) {
		struct op *o = &ops[(from + i) % OUTSTANDING];

		if (!o->p || (p && o->p != p))
			continue;
		load(o);
		MPI_Start(&o->req);
		active[o - ops] = true;
		dawdle();
	}
}

/* No place's, or that one's. */
static void finish(const struct place *p)
{
	for (int i = 0; i < 4; i++) {
		wait_for(p, true);
		start_again(p);
	}
}

static void make_place(struct place *p)
{
	MPI_Comm part;

	switch (draw(8)) {
	case 0:
		if (place_inter(p))
			break;
		/* fall through */
	case 1:
		MPI_Comm_split(MPI_COMM_WORLD, (int)((unsigned)me % (1 + draw(2))), -me, &part);
		place_group(p, part);
		break;
	case 2: place_grid(p); break;
	case 3: place_graph(p, false); break;
	case 4: place_graph(p, true); break;
	default:
		MPI_Comm_dup(MPI_COMM_WORLD, &part);
		place_group(p, part);
	}
}

/* Of all ranks one has the first free entry at one time, another one at another. */
static struct op *free_entry(void)
{
	for (;;) {
		for (int i = 0; i < OUTSTANDING; i++)
			if (!ops[i].p)
				return &ops[i];
		wait_for(NULL, false);
	}
}

static void one(long id, const char *only)
{
	struct op *o = free_entry(), new;

	make(&new, &places[draw(PLACES)], id, only);
	*o = new;
	load(o);
	dawdle();
	call(o);
	if (o->form == PERSISTENT)
		MPI_Start(&o->req);
	active[o - ops] = true;
	if (o->form == BLOCKING)
		end(o);
	dawdle();
}

int main(int argc, char **argv)
{
	long n;
	const char *only;

	test_init(&argc, &argv);
	n = argc > 1 ? atol(argv[1]) : 300;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	only = argc > 3 ? argv[3] : NULL;
	state = seed;
	own = mix(seed ^ (uint64_t)me * 77);
	make_types();
	make_operations();
	MPI_Op_free(&map_ops[0]);
	MPI_Op_create(asking, 0, &map_ops[0]);
	for (int i = 0; i < PLACES; i++)
		make_place(&places[i]);
	for (batch = 0; batch < n; batch++) {
		if (!draw(30)) {
			struct place *p = &places[draw(PLACES)];

			finish(p);
			MPI_Comm_free(&p->comm);
			make_place(p);
		}
		one(batch, only);
		if (batch % TOGETHER == 0) {
			wait_for(NULL, true);
			start_again(NULL);
		}
		if (!(rnd(&own) % 6))
			wait_for(NULL, rnd(&own) % 2);
		else if (!(rnd(&own) % 3))
			test_some();
	}
	finish(NULL);
	/* readers may be late */
	one(batch, "reduce");
	one(batch + 1, "scatterv");
	one(batch + 2, "reduce");
	finish(NULL);
	printf("ok mixed, rank %d\n", me);
	MPI_Finalize();
	return 0;
}
