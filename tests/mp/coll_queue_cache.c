/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of connected queues: communicators are made and freed, and the links and slots of mailbox and
 * tasks go from one to the next.
 *
 *     coll_queue_cache count             a communicator of ranks that had one before creates no object of the device, and freeing
 *                                        one destroys none (the verbs are counted). Two communicators at a time have two sets of
 *                                        queues, communicators of a part of the ranks have separate ones.
 *     coll_queue_cache memory SHCACTL N  a communicator that has offloaded takes at most N KiB of fabric and heap, another one 16
 *     coll_queue_cache mixed             some ranks run the first longer operation before they make a persistent one, the other
 *                                        ranks behind it
 *     coll_queue_cache unfreed           the device has no memory of persistent operations that the program never freed, when the
 *                                        program has ended
 *     coll_queue_cache spoiled           an operation has an error on some ranks, which then offer no set where the other ranks
 *                                        offer theirs
 *     coll_queue_cache again             longer operations for which a rank lacked memory in one communicator work in the next
 *     coll_queue_cache other             ranks offer different sets, by what ran on each set last: all ranks begin with a new set
 *     coll_queue_cache other refused the same, and one rank of three does not get the message: that rank reports an error, and
 *                                        no rank waits for it
 *     coll_queue_cache given             when the transport lacks memory, cached queues are destroyed; a rank that was using such
 *                                        queues goes on without
 *     coll_queue_cache spares            cached scratch memory takes no communicator's queues (the device has 64
 *                                        MiB: SHCA_RESERVE)
 *     coll_queue_cache many              more communicators at a time than sets are cached
 *     coll_queue_cache random [N] [SEED] N steps: communicators of several groups are made, used and freed while other ones are,
 *                                        with operations outstanding, too; each rank begins the operations of several
 *                                        communicators in a random order, and is late at times. All data are checked.
 *
 * HEDDLE_COLL_EXECUTOR forces mailbox or tasks from the first call on.
 */
#include <infiniband/verbs_exp.h>
#include <malloc.h>
#include <sched.h>
#include <shca.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "mpi_test.h"
#include "collectives/internal.h"
#include "collectives/queues/queues.h"
#include "transport/transport.h"

/* ---- counting ------------------------------------------------------------------------------------------------- */

static unsigned made, unmade;

#define COUNTED(counter, type, name, params, args) \
	type __real_##name params; \
	type __wrap_##name params; \
	type __wrap_##name params \
	{ \
		counter++; \
		return __real_##name args; \
	}

COUNTED(made, struct ibv_qp *, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *a), (pd, a))
COUNTED(made, struct ibv_qp *, ibv_exp_create_qp, (struct ibv_context *c, struct ibv_exp_qp_init_attr *a), (c, a))
COUNTED(made, struct ibv_srq *, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *a), (pd, a))
COUNTED(made, struct ibv_cq *, ibv_create_cq, (struct ibv_context * c, int n, void *x, struct ibv_comp_channel *ch, int v),
	(c, n, x, ch, v))
COUNTED(made, struct ibv_cq *, ibv_exp_create_cq, (struct ibv_context *c, int n, void *x, struct ibv_comp_channel *ch, int v,
						   struct ibv_exp_cq_init_attr *a), (c, n, x, ch, v, a))
COUNTED(unmade, int, ibv_destroy_qp, (struct ibv_qp *qp), (qp))
COUNTED(unmade, int, ibv_destroy_srq, (struct ibv_srq *srq), (srq))
COUNTED(unmade, int, ibv_destroy_cq, (struct ibv_cq *cq), (cq))
COUNTED(unmade, int, ibv_dereg_mr, (struct ibv_mr *mr), (mr))

static void use(MPI_Comm comm, int round)
{
	int n, r;

	MPI_Comm_size(comm, &n);
	MPI_Comm_rank(comm, &r);
	for (int i = 0; i < 20; i++) {
		int64_t x = r + 100 * i + round, all[64], sum = 0;
		MPI_Request req[2];

		MPI_Iallreduce(&x, &sum, 1, MPI_INT64_T, MPI_SUM, comm, &req[0]);
		MPI_Iallgather(&x, 1, MPI_INT64_T, all, 1, MPI_INT64_T, comm, &req[1]);
		MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
		CHECK_EQ(sum, n * (n - 1) / 2 + (int64_t)n * (100 * i + round));
		for (int p = 0; p < n; p++)
			CHECK_EQ(all[p], p + 100 * i + round);
		MPI_Bcast(&x, 1, MPI_INT64_T, i % n, comm);
		CHECK_EQ(x, i % n + 100 * i + round);
		MPI_Reduce(&x, &sum, 1, MPI_INT64_T, MPI_SUM, i % n, comm);
		CHECK(r != i % n || sum == x * n);
	}
}

/* One round: two communicators at a time, and one of some of the ranks, made and freed in an order that depends on the round. */
static void go_round(int round)
{
	MPI_Comm a, b, half;
	unsigned before;

	MPI_Comm_dup(MPI_COMM_WORLD, &a);
	MPI_Comm_dup(MPI_COMM_WORLD, &b);
	MPI_Comm_split(MPI_COMM_WORLD, me & 1, -me, &half);
	use(a, round);
	use(b, round + 1);
	use(half, round + 2);
	use(a, round + 3);
	before = unmade;
	MPI_Comm_free(&b);
	MPI_Comm_free(&half);
	MPI_Comm_free(&a);
	CHECK_EQ(unmade, before);
}

/* Allocates the memory of messages between ranks before the count begins. */
static void warm_up(void)
{
	for (int i = 0; i < 400; i++)
		for (int k = 1; k < np; k++) {
			int to = (me + k) % np, from = (me - k + np) % np, got;

			MPI_Sendrecv(&i, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			CHECK_EQ(got, i);
		}
}

static void count(void)
{
	unsigned before;

	warm_up();
	go_round(0);
	go_round(1);
	meet(sync_comm);
	before = made;
	CHECK(before > 0);
	for (int round = 2; round < 20; round++)
		go_round(round);
	CHECK_EQ(made, before);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

#define MANY 16

/* Returns KiB of the fabric that this process owns, by shcactl. */
static long arena_kib(const char *shcactl)
{
	char command[512], line[1024];
	long kib = -1;
	FILE *f;

	snprintf(command, sizeof(command), "%s processes", shcactl);
	f = popen(command, "r");
	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		long slot, pid, threads, has;

		if (sscanf(line, "%ld %ld %*s %*s %ld %ld", &slot, &pid, &threads, &has) == 4 && pid == getpid())
			kib = has;
	}
	pclose(f);
	CHECK(kib > 0);
	return kib;
}

/* Offloads a reduction and a broadcast of 8 bytes, and barriers. */
static void use_little(MPI_Comm comm)
{
	for (int i = 0; i < 20; i++) {
		int64_t x = me, sum = 0;

		MPI_Allreduce(&x, &sum, 1, MPI_INT64_T, MPI_SUM, comm);
		CHECK_EQ(sum, np * (np - 1) / 2);
		MPI_Bcast(&x, 1, MPI_INT64_T, 0, comm);
		CHECK_EQ(x, 0);
		MPI_Barrier(comm);
	}
}

static void bounded(const char *shcactl, long most)
{
	MPI_Comm comm[MANY + 1];
	size_t heap, idle;
	long arena;

	warm_up();
	idle = mallinfo2().uordblks;
	for (int i = 0; i <= MANY; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	use_little(comm[MANY]);
	meet(sync_comm);
	arena = arena_kib(shcactl);
	heap = mallinfo2().uordblks;
	idle = (heap - idle) / MANY;
	meet(sync_comm);
	for (int i = 0; i < MANY; i++)
		use_little(comm[i]);
	meet(sync_comm);
	arena = (arena_kib(shcactl) - arena) / MANY;
	heap = (mallinfo2().uordblks - heap) / MANY >> 10;
	printf("rank %d of %d: a communicator takes %ld KiB in the fabric, %zu KiB of heap; %zu bytes before it offloads\n", me,
	       np, arena, heap, idle);
	fflush(stdout);
	meet(sync_comm);
	CHECK(idle <= 16384 && arena + (long)heap <= most);
	meet(sync_comm);
	for (int i = 0; i <= MANY; i++)
		MPI_Comm_free(&comm[i]);
}

/* ---- both kinds of exchange ------------------------------------------------------------------------------------- */

#define SMALL 20			/* operations; more than HEDDLE_COLL_DEPTH allows at a time */
#define LONGER 100

/* Rank `late` starts its operations later than the other ranks: rank `late` can post them at once, and the operations of the
 * other ranks wait for rank `late`. */
static void mix_one(MPI_Comm comm, int late)
{
	int64_t one = 1, many[LONGER], sum[SMALL], sums[LONGER], last = 0;
	MPI_Request req[SMALL + 1], start;

	MPI_Allreduce(&one, &last, 1, MPI_INT64_T, MPI_SUM, comm);
	meet(sync_comm);
	if (me == late) {
		struct timespec t = { .tv_nsec = 2000000 };

		nanosleep(&t, NULL);
	}
	for (int i = 0; i < LONGER; i++)
		many[i] = me + i;
	for (int i = 0; i < SMALL; i++)
		MPI_Iallreduce(&one, &sum[i], 1, MPI_INT64_T, MPI_SUM, comm, &req[i]);
	MPI_Iallreduce(many, sums, LONGER, MPI_INT64_T, MPI_SUM, comm, &req[SMALL]);
	MPI_Allreduce_init(&one, &last, 1, MPI_INT64_T, MPI_SUM, comm, MPI_INFO_NULL, &start);
	MPI_Start(&start);
	MPI_Wait(&start, MPI_STATUS_IGNORE);
	CHECK_EQ(last, np);
	MPI_Waitall(SMALL + 1, req, MPI_STATUSES_IGNORE);
	for (int i = 0; i < SMALL; i++)
		CHECK_EQ(sum[i], np);
	for (int i = 0; i < LONGER; i++)
		CHECK_EQ(sums[i], (int64_t)np * (np - 1) / 2 + (int64_t)np * i);
	MPI_Request_free(&start);
}

/* Several communicators exist at a time: each has separate slots, and none for longer operations. */
static void mix_all(void)
{
	MPI_Comm comm[MANY];

	for (int i = 0; i < MANY; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
		mix_one(comm[i], i % np);
	}
	for (int i = 0; i < MANY; i++)
		MPI_Comm_free(&comm[i]);
}

/* Leaves two persistent operations, one that was started and one that was not, with cells for all their starts. */
static void leave_some(void)
{
	static int64_t one = 1, sum;
	MPI_Request req[2];

	MPI_Allreduce_init(&one, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &req[0]);
	MPI_Bcast_init(&one, 1, MPI_INT64_T, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &req[1]);
	MPI_Start(&req[0]);
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	CHECK_EQ(sum, np);
}

static void spoil(void)
{
	for (int i = 0; i < 5; i++) {
		int64_t x[2] = { i, i };
		MPI_Comm a, b;
		int class;

		MPI_Comm_dup(MPI_COMM_WORLD, &a);
		MPI_Comm_dup(MPI_COMM_WORLD, &b);
		MPI_Comm_set_errhandler(a, MPI_ERRORS_RETURN);
		use(a, i);
		use(b, i);
		MPI_Error_class(MPI_Bcast(x, me ? 1 : 2, MPI_INT64_T, 0, a), &class);
		CHECK_EQ(class, me ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
		MPI_Comm_free(&a);
		MPI_Comm_dup(MPI_COMM_WORLD, &a);
		use(a, i + 1);
		MPI_Comm_free(&b);
		use(a, i + 2);
		MPI_Comm_free(&a);
	}
}

static bool refuses;			/* memory that peers write to */
static unsigned asked;

__typeof__(hdl_tp_alloc) __real_hdl_tp_alloc, __wrap_hdl_tp_alloc;

void *__wrap_hdl_tp_alloc(struct hdl_tp *tp, size_t bytes)
{
	asked++;
	return refuses ? NULL : __real_hdl_tp_alloc(tp, bytes);
}

static void use_longer(MPI_Comm comm)
{
	int64_t many[LONGER], sums[LONGER];

	for (int i = 0; i < LONGER; i++)
		many[i] = me + i;
	MPI_Allreduce(many, sums, LONGER, MPI_INT64_T, MPI_SUM, comm);
	for (int i = 0; i < LONGER; i++)
		CHECK_EQ(sums[i], (int64_t)np * (np - 1) / 2 + (int64_t)np * i);
}

static void try_again(void)
{
	unsigned before;
	MPI_Comm comm;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	use(comm, 0);
	refuses = me == 0;
	before = asked;
	use_longer(comm);
	CHECK(asked > before);
	refuses = false;
	before = asked;
	use_longer(comm);
	CHECK_EQ(asked, before);	/* as long as the communicator exists, the ranks do not ask for that memory again */
	MPI_Comm_free(&comm);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	use(comm, 1);
	CHECK_EQ(asked, before);	/* the new communicator has the cached set of the freed one */
	use_longer(comm);
	CHECK(asked > before);
	use(comm, 2);
	use_longer(comm);
	MPI_Comm_free(&comm);
}

/* Bcasts, which do not synchronize the ranks. */
static void cast(MPI_Comm comm, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t x = i + 5 * !me;

		MPI_Bcast(&x, 1, MPI_INT64_T, 0, comm);
		CHECK_EQ(x, i + 5);
	}
}

/* The refused_recv-th next receive of a wire-up fails on this rank. 0: none. */
static int refused_recv;

__typeof__(hdl_irecv) __real_hdl_irecv, __wrap_hdl_irecv;

int __wrap_hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		     uint16_t context, struct hdl_req **req)
{
	if (tag >= HDL_WIRE_TAG && refused_recv && !--refused_recv) {
		hdl_reason_set("the test refuses a receive");
		*req = NULL;
		return MPI_ERR_NO_MEM;
	}
	return __real_hdl_irecv(buf, count, t, src, tag, comm, context, req);
}

/* refused: in the second Allgather of three ranks, rank 1 cannot receive the offers; ranks 0 and 2 learn that all ranks
 * offer different queues. */
static void offer_others(bool refused)
{
	for (int round = 0; round < 4; round++) {
		MPI_Comm a, b;

		MPI_Comm_dup(MPI_COMM_WORLD, &a);
		MPI_Comm_dup(MPI_COMM_WORLD, &b);
		cast(a, 4);
		cast(b, 5 + round);
		MPI_Comm_free(me ? &a : &b);
		MPI_Comm_free(me ? &b : &a);
		MPI_Comm_dup(MPI_COMM_WORLD, &a);
		if (refused && me == 1)
			refused_recv = 4;
		cast(a, 30);
		MPI_Comm_free(&a);
	}
}

bool lack_memory(void);			/* verbs_no_memory.c */

/* Rank 1 has completed its part of a collective and calls MPI_Finalize, so the communicator's queues of rank 1 are gone. The root
 * waits for rank 2, longer than the time after which it checks the members' processes. */
static void leave_early(MPI_Comm comm, bool persistent)
{
	int64_t x = me, all[64];
	MPI_Request req;
	int done = 0;

	use(comm, 0);
	if (persistent)
		MPI_Gather_init(&x, 1, MPI_INT64_T, all, 1, MPI_INT64_T, 0, comm, MPI_INFO_NULL, &req);
	meet(sync_comm);
	if (me == 2)
		MPI_Recv(&done, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (me == 2)
		sleep(2);
	if (persistent) {
		MPI_Start(&req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		MPI_Request_free(&req);
	} else {
		MPI_Gather(&x, 1, MPI_INT64_T, all, 1, MPI_INT64_T, 0, comm);
	}
	for (int r = 0; !me && r < np; r++)
		CHECK_EQ(all[r], r);
	MPI_Comm_free(&comm);
	if (me == 1) {
		unsigned before = unmade;

		CHECK(lack_memory());
		CHECK(unmade > before);
		MPI_Send(&done, 1, MPI_INT, 2, 5, MPI_COMM_WORLD);
	}
}

static void give(void)
{
	MPI_Comm comm[4];

	for (int i = 0; i < 4; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
		use(comm[i], i);
	}
	for (int i = 0; i < 2; i++)
		MPI_Comm_free(&comm[i]);
	meet(sync_comm);
	if (me == 0) {
		CHECK(lack_memory());
		CHECK(!lack_memory());
	}
	meet(sync_comm);
	use(comm[2], 5);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
	use(comm[0], 6);
	use(comm[3], 7);
	MPI_Comm_free(&comm[0]);
	leave_early(comm[2], false);
	leave_early(comm[3], true);
}

#define BEYOND 70

static void more_than_kept(void)
{
	static MPI_Comm comm[BEYOND];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BEYOND; i++) {
			MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
			use(comm[i], round + i);
		}
		for (int i = 0; i < BEYOND; i++)
			MPI_Comm_free(&comm[(i * 3 + round) % BEYOND]);
	}
}

/* ---- at random --------------------------------------------------------------------------------------------------- */

#define COMMS 6
#define OUTSTANDING 5
#define MOST 24576

struct op {
	MPI_Request req;
	int coll, root;
	size_t n;			/* int64_t elements of a rank's block */
	uint64_t seed;
	int64_t *in, *out;
};

static struct used {
	MPI_Comm comm;			/* MPI_COMM_NULL: none */
	int size, rank;
	bool freed;			/* freed while operations are under way */
	struct op op[OUTSTANDING];
	int nops, started;
} used[COMMS];

enum { BARRIER, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, SCAN, COLLS };

static int64_t value(uint64_t seed, int from, int to, size_t i)
{
	return (int64_t)(mix(seed + (uint64_t)from * 1000003 + (uint64_t)to * 7919 + i) >> 8);
}

static size_t blocks(int coll, int size, bool out)
{
	bool many = coll == ALLTOALL || (out ? coll == GATHER || coll == ALLGATHER : coll == SCATTER);

	return many ? (size_t)size : 1;
}

/* Starts an operation. blocks_caller: by the blocking function. */
static void begin(struct used *u, struct op *o, bool blocks_caller)
{
	size_t in = blocks(o->coll, u->size, false) * o->n, out = blocks(o->coll, u->size, true) * o->n;
	int n = (int)o->n;

	o->in = malloc((in + 1) * sizeof(*o->in));
	o->out = malloc((out + 1) * sizeof(*o->out));
	CHECK(o->in && o->out);
	for (size_t i = 0; i < in; i++)
		o->in[i] = value(o->seed, o->coll == BCAST ? o->root : u->rank, (int)(i / o->n), i % o->n);
	memset(o->out, 0xee, (out + 1) * sizeof(*o->out));
	if (o->coll == BCAST && u->rank != o->root)
		memset(o->in, 0xee, in * sizeof(*o->in));
	o->req = MPI_REQUEST_NULL;
#define B(blocking, starting, ...) \
	do { \
		if (blocks_caller) \
			blocking(__VA_ARGS__, u->comm); \
		else \
			starting(__VA_ARGS__, u->comm, &o->req); \
	} while (0)
	switch (o->coll) {
	case BARRIER:
		if (blocks_caller)
			MPI_Barrier(u->comm);
		else
			MPI_Ibarrier(u->comm, &o->req);
		break;
	case BCAST: B(MPI_Bcast, MPI_Ibcast, o->in, n, MPI_INT64_T, o->root); break;
	case REDUCE: B(MPI_Reduce, MPI_Ireduce, o->in, o->out, n, MPI_INT64_T, MPI_BXOR, o->root); break;
	case ALLREDUCE: B(MPI_Allreduce, MPI_Iallreduce, o->in, o->out, n, MPI_INT64_T, MPI_BXOR); break;
	case GATHER: B(MPI_Gather, MPI_Igather, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T, o->root); break;
	case SCATTER: B(MPI_Scatter, MPI_Iscatter, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T, o->root); break;
	case ALLGATHER: B(MPI_Allgather, MPI_Iallgather, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T); break;
	case ALLTOALL: B(MPI_Alltoall, MPI_Ialltoall, o->in, n, MPI_INT64_T, o->out, n, MPI_INT64_T); break;
	default: B(MPI_Scan, MPI_Iscan, o->in, o->out, n, MPI_INT64_T, MPI_BXOR); break;
	}
}

/* Returns element i of block `block` of this rank's result. */
static int64_t expected(const struct used *u, const struct op *o, int block, size_t i)
{
	int64_t x = 0;

	switch (o->coll) {
	case BCAST: return value(o->seed, o->root, 0, i);
	case GATHER:
	case ALLGATHER: return value(o->seed, block, 0, i);
	case SCATTER: return value(o->seed, o->root, u->rank, i);
	case ALLTOALL: return value(o->seed, block, u->rank, i);
	default:
		for (int r = 0; r < (o->coll == SCAN ? u->rank + 1 : u->size); r++)
			x ^= value(o->seed, r, 0, i);
		return x;
	}
}

static void verify(struct used *u, struct op *o)
{
	size_t out = o->coll == BCAST ? 1 : blocks(o->coll, u->size, true);
	const int64_t *at = o->coll == BCAST ? o->in : o->out;

	if (o->coll != BARRIER && (u->rank == o->root || (o->coll != REDUCE && o->coll != GATHER)))
		for (size_t b = 0; b < out; b++)
			for (size_t i = 0; i < o->n; i++)
				if (at[b * o->n + i] != expected(u, o, (int)b, i))
					test_fail(__FILE__, __LINE__,
						  "collective %d of %zu elements, root %d, communicator of %d: element %zu "
						  "of block %zu is wrong",
						  o->coll, o->n, o->root, u->size, i, b);
	free(o->in);
	free(o->out);
}

/* Random numbers of this rank alone. */
static uint64_t own;

static void lag(void)
{
	switch (rnd(&own) % 8) {
	case 0: sched_yield(); break;
	case 1:
		for (volatile unsigned i = 0, n = rnd(&own) % 20000; i < n; i++)
			;
		break;
	case 2:
		if (rnd(&own) % 16 == 0) {
			struct timespec t = { .tv_nsec = (long)(rnd(&own) % 2000000) };

			nanosleep(&t, NULL);
		}
		break;
	default: break;
	}
}

static void finish(struct used *u)
{
	for (int i = 0; i < u->nops; i++) {
		lag();
		MPI_Wait(&u->op[i].req, MPI_STATUS_IGNORE);
		verify(u, &u->op[i]);
	}
	u->nops = u->started = 0;
	if (u->freed)
		u->comm = MPI_COMM_NULL;
}

/* Makes a communicator, by numbers that are the same on all ranks. */
static void make_one(struct used *u, uint64_t *common)
{
	int how = (int)(rnd(common) % 6);

	if (how < 3)
		MPI_Comm_dup(MPI_COMM_WORLD, &u->comm);
	else if (how == 3)
		MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &u->comm);
	else
		MPI_Comm_split(MPI_COMM_WORLD, how == 4 ? me & 1 : me < np / 2, 0, &u->comm);
	MPI_Comm_size(u->comm, &u->size);
	MPI_Comm_rank(u->comm, &u->rank);
	u->freed = false;
	u->nops = u->started = 0;
}

static void choose_op(struct op *o, const struct used *u, uint64_t *common)
{
	uint64_t how = rnd(common) % 32;

	o->seed = rnd(common);
	o->coll = (int)(rnd(common) % COLLS);
	o->n = how < 20 ? 1 + rnd(common) % 6 : how < 28 ? 1 + rnd(common) % 128 : how < 31 ? 1 + rnd(common) % 1024 :
		1 + rnd(common) % (MOST / 8);
	/* one number is drawn for any size of the group */
	o->root = (int)(rnd(common) % 65536) % u->size;
}

/* Starts the operations of each communicator in their order, and the communicators in an order of this rank's own. */
static void start_all(void)
{
	for (;;) {
		int left = 0, k;

		for (int c = 0; c < COMMS; c++)
			left += used[c].nops - used[c].started;
		if (!left)
			return;
		k = (int)(rnd(&own) % COMMS);
		if (used[k].started == used[k].nops)
			continue;
		lag();
		begin(&used[k], &used[k].op[used[k].started], false);
		used[k].started++;
	}
}

static void step(uint64_t *common)
{
	struct used *u = &used[rnd(common) % COMMS];

	if (u->comm == MPI_COMM_NULL) {
		make_one(u, common);
		return;
	}
	for (int c = 0; c < COMMS; c++)
		for (int i = (int)(rnd(common) % OUTSTANDING); i && used[c].comm != MPI_COMM_NULL; i--)
			choose_op(&used[c].op[used[c].nops++], &used[c], common);
	start_all();
	/* with or without operations under way */
	if (rnd(common) % 4 == 0) {
		MPI_Comm comm = u->comm;

		u->freed = true;
		if (rnd(common) % 2)
			finish(u);
		MPI_Comm_free(&comm);
	}
	for (int c = 0; c < COMMS; c++)
		if (used[c].comm != MPI_COMM_NULL)
			finish(&used[c]);
	if (u->comm != MPI_COMM_NULL && rnd(common) % 2) {
		struct op o;

		choose_op(&o, u, common);
		lag();
		begin(u, &o, true);
		verify(u, &o);
	}
}

static void at_random(int steps, uint64_t seed)
{
	uint64_t common = seed;

	own = mix(seed + 77 + (uint64_t)me);
	for (int c = 0; c < COMMS; c++)
		used[c].comm = MPI_COMM_NULL;
	for (int i = 0; i < steps; i++)
		step(&common);
	for (int c = 0; c < COMMS; c++)
		if (used[c].comm != MPI_COMM_NULL)
			MPI_Comm_free(&used[c].comm);
}

static const struct hdl_queues *queues_of(MPI_Comm comm)
{
	const struct hdl_cc *cc = ((const struct hdl_comm *)comm)->coll;

	CHECK(cc->queues[0]);
	return cc->queues[0];
}

/* Runs long operations; the ranks cache the scratch memory of these. */
static void keep_scratch(void)
{
	enum { LONG = 8 << 20 };
	char *buffer = malloc((size_t)6 * LONG);
	MPI_Request q[6];

	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 6; i++)
			MPI_Ibcast(buffer + (size_t)i * LONG, LONG, MPI_CHAR, i % np, MPI_COMM_WORLD, &q[i]);
		MPI_Waitall(6, q, MPI_STATUSES_IGNORE);
	}
	free(buffer);
}

/* The last rank allocates the free memory of the fabric, and begins each communicator's bring-up before the other ranks, which
 * have cached scratch memory: they must give it back, so that the last rank's queues fit. */
static void lack(void)
{
	enum { COMMS_MADE = 40, PIECES = 4096 };
	static void *taken[PIECES];
	struct ibv_context *device = hdl_tp_local_port(hdl_mpi_tp)->ctx;
	int64_t one = 1, sum = 0;
	MPI_Comm c[COMMS_MADE];
	int n = 0, last = np - 1;
	MPI_Request q;

	keep_scratch();
	for (int i = 0; i < COMMS_MADE; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &c[i]);
	MPI_Barrier(MPI_COMM_WORLD);
	if (me == last) {
		hdl_scratch_give();
		for (size_t bytes = 4 << 20; bytes >= 4096; bytes /= 2)
			while (n < PIECES && (taken[n] = shca_alloc(device, bytes)))
				n++;
		CHECK(n < PIECES);
	}
	for (int i = 0; i < COMMS_MADE; i++) {
		if (me != last)
			MPI_Recv(NULL, 0, MPI_BYTE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Iallreduce(&one, &sum, 1, MPI_INT64_T, MPI_SUM, c[i], &q);
		for (int r = 0; me == last && r < last; r++)
			MPI_Send(NULL, 0, MPI_BYTE, r, 1, MPI_COMM_WORLD);
		MPI_Wait(&q, MPI_STATUS_IGNORE);
		CHECK_EQ(sum, (int64_t)np);
		CHECK_EQ(queues_of(c[i])->state, HDL_QUEUES_READY);
	}
	while (n)
		shca_free(device, taken[--n]);
	for (int i = 0; i < COMMS_MADE; i++)
		MPI_Comm_free(&c[i]);
}

/* The cached scratch memory of long operations would fill the device. Each communicator must get queues all the same. */
static void spares(void)
{
	enum { WORDS = 500 };
	static int64_t one[WORDS], sum[WORDS];
	MPI_Request q;
	MPI_Comm c[40];

	keep_scratch();
	for (int i = 0; i < WORDS; i++)
		one[i] = i;
	for (int i = 0; i < (int)ARRAY_SIZE(c); i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &c[i]);
		for (int n = 1; n <= WORDS; n += WORDS - 1) {
			MPI_Iallreduce(one, sum, n, MPI_INT64_T, MPI_SUM, c[i], &q);
			MPI_Wait(&q, MPI_STATUS_IGNORE);
			CHECK_EQ(sum[n - 1], (int64_t)np * (n - 1));
		}
		CHECK_EQ(queues_of(c[i])->state, HDL_QUEUES_READY);
	}
	for (int i = 0; i < (int)ARRAY_SIZE(c); i++)
		MPI_Comm_free(&c[i]);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	if (argc > 1 && !strcmp(argv[1], "random"))
		at_random(argc > 2 ? atoi(argv[2]) : 200, argc > 3 ? strtoull(argv[3], NULL, 0) : 1);
	else if (argc > 1 && !strcmp(argv[1], "mixed"))
		mix_all();
	else if (argc > 1 && !strcmp(argv[1], "unfreed"))
		leave_some();
	else if (argc > 1 && !strcmp(argv[1], "spoiled"))
		spoil();
	else if (argc > 1 && !strcmp(argv[1], "again"))
		try_again();
	else if (argc > 1 && !strcmp(argv[1], "other"))
		offer_others(argc > 2);
	else if (argc > 1 && !strcmp(argv[1], "given"))
		give();
	else if (argc > 1 && !strcmp(argv[1], "spares"))
		spares();
	else if (argc > 1 && !strcmp(argv[1], "lack"))
		lack();
	else if (argc > 1 && !strcmp(argv[1], "many"))
		more_than_kept();
	else if (argc > 3 && !strcmp(argv[1], "memory"))
		bounded(argv[2], atol(argv[3]));
	else
		count();
	test_done("coll_queue_cache");
	return 0;
}
