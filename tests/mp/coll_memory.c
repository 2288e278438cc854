/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank finds no memory in the middle of a collective, at every place where it allocates some, or its queue takes no requests:
 * the rank gets an error, or goes on, and no rank waits for ever: the other ranks have the result, or MPI_ERR_PROC_ABORTED.
 * Other communicators go on.
 *
 *     coll_memory [places]
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdbool.h>

#include "mpi_test.h"
#include "collectives/internal.h"
#include "collectives/select/select.h"
#include "p2p/p2p.h"

#define BLOCK 8000			/* bytes of a block that is sent at once; five blocks are more than the memory that a
					 * process caches for such calls */

static long left = -1;			/* allocations until one is refused; -1: none is */
static size_t never;			/* an allocation of so many bytes is always refused */

__typeof__(malloc) __real_malloc, __wrap_malloc;
__typeof__(calloc) __real_calloc, __wrap_calloc;
__typeof__(aligned_alloc) __real_aligned_alloc, __wrap_aligned_alloc;

static bool is_refused(size_t n)
{
	bool refused = (never && n == never) || (left >= 0 && left-- == 0);

	if (refused)
		errno = ENOMEM;		/* as malloc does: the caller may use errno */
	return refused;
}

void *__wrap_malloc(size_t n)
{
	return is_refused(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_refused(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return is_refused(n) ? NULL : __real_aligned_alloc(align, n);
}

/* An unexpected message needs memory, else the job ends; on a busy machine any message may be unexpected. So these
 * allocations are never refused. */
__typeof__(hdl_buf_get) __real_hdl_buf_get, __wrap_hdl_buf_get;

void *__wrap_hdl_buf_get(size_t n)
{
	long l = left;
	void *p;

	left = -1;
	p = __real_hdl_buf_get(n);
	left = l;
	return p;
}

/* The memory of a persistent request comes from a pool. */
__typeof__(hdl_collective_init) __real_hdl_collective_init, __wrap_hdl_collective_init;

int __wrap_hdl_collective_init(struct hdl_comm *comm, int (*begin)(struct hdl_req *, void *), void (*put)(void *), void *arg,
			       struct hdl_req **req)
{
	return is_refused(0) ? MPI_ERR_NO_MEM : __real_hdl_collective_init(comm, begin, put, arg, req);
}

static bool refuses_tasks;
__typeof__(ibv_exp_post_task) __real_ibv_exp_post_task, __wrap_ibv_exp_post_task;

int __wrap_ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *tasks, struct ibv_exp_task **bad)
{
	*bad = tasks;
	return refuses_tasks ? ENOMEM : __real_ibv_exp_post_task(context, tasks, bad);
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *n; i++)
		((char *)inout)[i] = (char)(((char *)inout)[i] + ((char *)in)[i]);
}

enum kind { ALLTOALLV, REDUCE_SCATTER, ALLREDUCE, GATHERV, SCAN, PERSISTENT, PERSISTENT_V, PARCELS, SHORT, REDUCED, POSTED,
	    KINDS, LONGER };

static int start(int rc, MPI_Request *q)
{
	if (rc)
		return rc;
	rc = MPI_Start(q);
	if (!rc)
		rc = MPI_Wait(q, MPI_STATUS_IGNORE);
	MPI_Request_free(q);
	return rc;
}

static int run(enum kind kind, MPI_Comm c, MPI_Op op, char *in, char *out, const int *counts, const int *at)
{
	const int *short_counts = counts ? counts + np : NULL;
	MPI_Request q;

	switch (kind) {
	case ALLTOALLV: return MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_CHAR, out, counts, at, MPI_CHAR, c);
	case REDUCE_SCATTER: return MPI_Reduce_scatter(in, out, counts, MPI_CHAR, op, c);
	case ALLREDUCE: return MPI_Allreduce(in, out, BLOCK, MPI_CHAR, op, c);
	case GATHERV: return MPI_Gatherv(in, BLOCK, MPI_CHAR, out, counts, at, MPI_CHAR, 0, c);
	case LONGER: return MPI_Bcast(out, 500, MPI_CHAR, 0, c);
	case SHORT: return MPI_Allgather(in, 8, MPI_CHAR, out, 8, MPI_CHAR, c);
	case SCAN: return MPI_Scan(in, out, BLOCK, MPI_CHAR, op, c);
	case REDUCED: return MPI_Allreduce(in, out, 2, MPI_INT, MPI_SUM, c);
	case POSTED: return MPI_Allgather(in, 4, MPI_CHAR, out, 4, MPI_CHAR, c);
	case PERSISTENT_V:
		return start(MPI_Allgatherv_init(in, BLOCK, MPI_CHAR, out, counts, at, MPI_CHAR, c, MPI_INFO_NULL, &q), &q);
	case PARCELS:		/* no messages, since an unexpected one needs memory */
		return start(MPI_Alltoallv_init(in, short_counts, at, MPI_CHAR, out, short_counts, at, MPI_CHAR, c,
						MPI_INFO_NULL, &q),
			     &q);
	default: return start(MPI_Bcast_init(in, 8, MPI_CHAR, 0, c, MPI_INFO_NULL, &q), &q);
	}
}

static int n_told;

static int class_of(int rc)
{
	char text[MPI_MAX_ERROR_STRING];
	int class, n;

	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, text, &n);
	/* no rank has died, so the text must not name the rank that lacks memory as failed */
	if (class == MPI_ERR_PROC_ABORTED && strstr(text, "has failed"))
		test_fail(__FILE__, __LINE__, "%s", text);
	n_told += strstr(text, "lives, and could not do its part") != NULL;
	if (class && class != MPI_ERR_PROC_ABORTED && (class != MPI_ERR_NO_MEM || me != np - 1))
		test_fail(__FILE__, __LINE__, "class %d", class);
	return class;
}

/* A communicator's first collectives, which bring its queues up: memory lacks at each place of the bring-up. */
static int bring_up(int places, MPI_Op op, char *in, char *out)
{
	int refused = 0;

	for (int i = 0; i < places; i++) {
		MPI_Comm c;

		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
		meet(sync_comm);
		left = me == np - 1 ? i : -1;
		for (int k = 0; k < 3; k++)
			refused += class_of(run(k == 0 ? SHORT : k == 1 ? REDUCED : LONGER, c, op, in, out, NULL,
						NULL)) == MPI_ERR_NO_MEM;
		left = -1;
		MPI_Comm_free(&c);
	}
	return refused;
}

/* The slot barrier that is due among operations that do not synchronize finds no memory. */
static void lack_barrier(size_t bytes)
{
	int last = MPI_SUCCESS, x = 0;
	MPI_Comm c;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(MPI_Bcast(&x, 1, MPI_INT, 0, c), MPI_SUCCESS);
	meet(sync_comm);
	never = me == np - 1 ? bytes : 0;
	for (int i = 0; i < 40 && !last; i++)
		last = class_of(MPI_Bcast(&x, 1, MPI_INT, 0, c));
	never = 0;
	CHECK_EQ(last, me == np - 1 ? MPI_ERR_NO_MEM : MPI_ERR_PROC_ABORTED);
	CHECK(n_told || me == np - 1);
	MPI_Comm_free(&c);
}

int main(int argc, char **argv)
{
	int places = argc > 1 ? atoi(argv[1]) : 16, class, all = 0, mine = 0, refused = 0, *counts, *at;
	char *in, *out;
	MPI_Comm c;
	MPI_Op op;

	test_init(&argc, &argv);
	in = calloc((size_t)np, BLOCK);
	out = calloc((size_t)np, BLOCK);
	counts = malloc(2 * sizeof(int) * (size_t)np);
	at = malloc(sizeof(int) * (size_t)np);
	for (int i = 0; i < np; i++) {
		counts[i] = BLOCK;
		counts[np + i] = 200;
		at[i] = i * BLOCK;
	}
	MPI_Op_create(add, 1, &op);
	for (int i = 0; i < places * KINDS; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &c);
		MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
		if (i % KINDS >= PERSISTENT) {	/* the communicator has its queues */
			CHECK_EQ(run(PERSISTENT, c, op, in, out, counts, at), MPI_SUCCESS);
			CHECK_EQ(run(POSTED, c, op, in, out, counts, at), MPI_SUCCESS);
		}
		MPI_Barrier(c);
		left = me == np - 1 && i % KINDS != POSTED ? i / KINDS : -1;
		refuses_tasks = me == np - 1 && i % KINDS == POSTED;
		class = run((enum kind)(i % KINDS), c, op, in, out, counts, at);
		left = -1;
		refuses_tasks = false;
		class = class_of(class);
		mine += class == MPI_ERR_NO_MEM;
		refused += class != MPI_SUCCESS;
		if (class && class != MPI_ERR_PROC_ABORTED && (class != MPI_ERR_NO_MEM || me != np - 1))
			test_fail(__FILE__, __LINE__, "kind %d, place %d: class %d", i % KINDS, i / KINDS, class);
		MPI_Comm_free(&c);
	}
	if (hdl_executor_forced == HDL_FORCED_MAILBOX || hdl_executor_forced == HDL_FORCED_TASKS) {
		/* no barrier of this class has run before */
		lack_barrier(sizeof(struct hdl_plan));
		lack_barrier(sizeof(struct hdl_run));
		CHECK(bring_up(6 * places, op, in, out) || me != np - 1);
	}
	MPI_Allreduce(&refused, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	CHECK(me != np - 1 || mine);
	CHECK(me == np - 1 || n_told);
	CHECK(all);
	MPI_Op_free(&op);
	MPI_Finalize();
	return 0;
}
