/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_first_allocation_fails FORM COLLECTIVE BYTES RANK [+]N | buffers | query: the first communication of a process is a
 * collective, and on RANK the N-th allocation of the calling thread within the call fails, in Heddle or in libshca; with +N, all
 * from there on until the call returns; with `buffers`, all allocations of pools of send buffers; with `query`, the first query
 * of the device's capabilities fails, for want of a descriptor. Each rank prints
 *
 *     RANK FIRST SECOND REFUSED
 *
 * the error classes of the collective and of a Barrier behind it, and whether an allocation failed there. A rank that is in one
 * of the two calls for SECONDS ends with SIGALRM. FORM: blocking, nonblocking, persistent. A collective that reports success must
 * have delivered.
 */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_test.h"
#include "transport/core/tp.h"

#define SECONDS 30

static long left = -1;			/* pieces until one is refused; -1: none is */
static pthread_t caller;
static int refused, for_good, no_buffers, no_query;

static int is_refused(void)
{
	if (left < 0 || !pthread_equal(pthread_self(), caller) || (left && left--))
		return 0;
	left -= !for_good;
	refused = 1;
	errno = ENOMEM;
	return 1;
}

__typeof__(malloc) __real_malloc, __wrap_malloc;
__typeof__(calloc) __real_calloc, __wrap_calloc;
__typeof__(realloc) __real_realloc, __wrap_realloc;
__typeof__(aligned_alloc) __real_aligned_alloc, __wrap_aligned_alloc;
__typeof__(posix_memalign) __real_posix_memalign, __wrap_posix_memalign;
__typeof__(mmap) __real_mmap, __wrap_mmap;

void *__wrap_malloc(size_t n)
{
	return is_refused() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return is_refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return is_refused() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return is_refused() ? NULL : __real_aligned_alloc(align, n);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	return is_refused() ? ENOMEM : __real_posix_memalign(p, align, n);
}

void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off)
{
	return is_refused() ? MAP_FAILED : __real_mmap(addr, n, prot, flags, fd, off);
}

__typeof__(hdl_bufpool_grow) __real_hdl_bufpool_grow, __wrap_hdl_bufpool_grow;
__typeof__(hdl_bufpool_need) __real_hdl_bufpool_need, __wrap_hdl_bufpool_need;

static int without_memory(int (*f)(struct hdl_bufpool *), struct hdl_bufpool *p)
{
	int err, was = for_good;

	if (!no_buffers)
		return f(p);
	left = 0;
	for_good = 1;
	err = f(p);
	left = -1;
	for_good = was;
	return err;
}

int __wrap_hdl_bufpool_grow(struct hdl_bufpool *p)
{
	return without_memory(__real_hdl_bufpool_grow, p);
}

int __wrap_hdl_bufpool_need(struct hdl_bufpool *p)
{
	return without_memory(__real_hdl_bufpool_need, p);
}

__typeof__(ibv_exp_query_device) __real_ibv_exp_query_device, __wrap_ibv_exp_query_device;

int __wrap_ibv_exp_query_device(struct ibv_context *ctx, struct ibv_exp_device_attr *attr)
{
	if (!no_query)
		return __real_ibv_exp_query_device(ctx, attr);
	no_query = 0;
	refused = 1;
	return EMFILE;
}

/* ---- the calls ------------------------------------------------------------------------------------------ */

enum { IN = 7 };			/* every element of every input */

static MPI_Comm world = MPI_COMM_WORLD, ring;
static MPI_Op own;
static int n;				/* elements of a rank's block */
static int *in, *out, *counts, *at, *bytes_at;
static MPI_Datatype *types;

static void add(void *a, void *b, int *len, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *len; i++)
		((int *)b)[i] += ((int *)a)[i];
}

#define FORMS(NAME, ...) \
	static int b_##NAME(void) { return MPI_##NAME(__VA_ARGS__); } \
	static int i_##NAME(MPI_Request *q) { return MPI_I##NAME##_(__VA_ARGS__, q); } \
	static int p_##NAME(MPI_Request *q) { return MPI_##NAME##_init(__VA_ARGS__, MPI_INFO_NULL, q); }
#define MPI_IBarrier_ MPI_Ibarrier
#define MPI_IBcast_ MPI_Ibcast
#define MPI_IReduce_ MPI_Ireduce
#define MPI_IAllreduce_ MPI_Iallreduce
#define MPI_IGather_ MPI_Igather
#define MPI_IScatter_ MPI_Iscatter
#define MPI_IAllgather_ MPI_Iallgather
#define MPI_IAlltoall_ MPI_Ialltoall
#define MPI_IReduce_scatter_block_ MPI_Ireduce_scatter_block
#define MPI_IScan_ MPI_Iscan
#define MPI_IExscan_ MPI_Iexscan
#define MPI_IGatherv_ MPI_Igatherv
#define MPI_IScatterv_ MPI_Iscatterv
#define MPI_IAllgatherv_ MPI_Iallgatherv
#define MPI_IAlltoallv_ MPI_Ialltoallv
#define MPI_IAlltoallw_ MPI_Ialltoallw
#define MPI_IReduce_scatter_ MPI_Ireduce_scatter
#define MPI_INeighbor_allgather_ MPI_Ineighbor_allgather
#define MPI_INeighbor_alltoallv_ MPI_Ineighbor_alltoallv

FORMS(Barrier, world)
FORMS(Bcast, me ? out : in, n, MPI_INT, 0, world)
FORMS(Reduce, in, out, n, MPI_INT, MPI_SUM, 0, world)
FORMS(Allreduce, in, out, n, MPI_INT, MPI_SUM, world)
FORMS(Gather, in, n, MPI_INT, out, n, MPI_INT, 0, world)
FORMS(Scatter, in, n, MPI_INT, out, n, MPI_INT, 0, world)
FORMS(Allgather, in, n, MPI_INT, out, n, MPI_INT, world)
FORMS(Alltoall, in, n, MPI_INT, out, n, MPI_INT, world)
FORMS(Reduce_scatter_block, in, out, n, MPI_INT, MPI_SUM, world)
FORMS(Scan, in, out, n, MPI_INT, MPI_SUM, world)
FORMS(Exscan, in, out, n, MPI_INT, MPI_SUM, world)
FORMS(Gatherv, in, n, MPI_INT, out, counts, at, MPI_INT, 0, world)
FORMS(Scatterv, in, counts, at, MPI_INT, out, n, MPI_INT, 0, world)
FORMS(Allgatherv, in, n, MPI_INT, out, counts, at, MPI_INT, world)
FORMS(Alltoallv, in, counts, at, MPI_INT, out, counts, at, MPI_INT, world)
FORMS(Alltoallw, in, counts, bytes_at, types, out, counts, bytes_at, types, world)
FORMS(Reduce_scatter, in, out, counts, MPI_INT, MPI_SUM, world)
FORMS(Neighbor_allgather, in, n, MPI_INT, out, n, MPI_INT, ring)
FORMS(Neighbor_alltoallv, in, counts, at, MPI_INT, out, counts, at, MPI_INT, ring)
#define MPI_Own(...) MPI_Allreduce(__VA_ARGS__)
#define MPI_IOwn_ MPI_Iallreduce
#define MPI_Own_init MPI_Allreduce_init
FORMS(Own, in, out, n, MPI_INT, own, world)

/* A rank's result: the number of blocks, and the factor by which each element is larger than IN. */
static int all(void) { return np; }
static int one(void) { return 1; }
static int none(void) { return 0; }
static int root_all(void) { return me ? 0 : np; }
static int root_one(void) { return me ? 0 : 1; }
static int not_root(void) { return me ? 1 : 0; }
static int two(void) { return 2; }
static int so_far(void) { return me + 1; }
static int before(void) { return me; }

static const struct form {
	const char *name;
	int (*run)(void), (*start)(MPI_Request *), (*init)(MPI_Request *);
	int (*blocks)(void), (*times)(void);
} forms[] = {
#define FORM(name, f, blocks, times) { name, b_##f, i_##f, p_##f, blocks, times }
	FORM("barrier", Barrier, none, one), FORM("bcast", Bcast, not_root, one), FORM("reduce", Reduce, root_one, all),
	FORM("allreduce", Allreduce, one, all), FORM("gather", Gather, root_all, one), FORM("scatter", Scatter, one, one),
	FORM("allgather", Allgather, all, one), FORM("alltoall", Alltoall, all, one),
	FORM("reduce_scatter_block", Reduce_scatter_block, one, all), FORM("scan", Scan, one, so_far),
	FORM("exscan", Exscan, not_root, before), FORM("gatherv", Gatherv, root_all, one), FORM("scatterv", Scatterv, one, one),
	FORM("allgatherv", Allgatherv, all, one), FORM("alltoallv", Alltoallv, all, one), FORM("alltoallw", Alltoallw, all, one),
	FORM("reduce_scatter", Reduce_scatter, one, all), FORM("neighbor_allgather", Neighbor_allgather, two, one),
	FORM("neighbor_alltoallv", Neighbor_alltoallv, two, one), FORM("allreduce_own", Own, one, all),
};

static int complete(int rc, MPI_Request *q, int persistent)
{
	if (!rc && persistent)
		rc = MPI_Start(q);
	if (!rc)
		rc = MPI_Wait(q, MPI_STATUS_IGNORE);
	if (persistent && *q != MPI_REQUEST_NULL)
		MPI_Request_free(q);
	return rc;
}

static int run(const struct form *f, const char *how)
{
	MPI_Request q = MPI_REQUEST_NULL;

	if (!strcmp(how, "blocking"))
		return f->run();
	if (!strcmp(how, "nonblocking"))
		return complete(f->start(&q), &q, 0);
	return complete(f->init(&q), &q, 1);
}

static void prepare(void)
{
	size_t ints = (size_t)np * (size_t)n;
	int periodic = 1;

	in = malloc((ints + 1) * sizeof(int));
	out = calloc(ints + 1, sizeof(int));
	counts = malloc((size_t)np * sizeof(int));
	at = malloc((size_t)np * sizeof(int));
	bytes_at = malloc((size_t)np * sizeof(int));
	types = malloc((size_t)np * sizeof(MPI_Datatype));
	CHECK(in && out && counts && at && bytes_at && types);
	for (size_t i = 0; i < ints; i++)
		in[i] = IN;
	for (int r = 0; r < np; r++) {
		counts[r] = n;
		at[r] = r * n;
		bytes_at[r] = at[r] * (int)sizeof(int);
		types[r] = MPI_INT;
	}
	MPI_Op_create(add, 1, &own);
	MPI_Cart_create(MPI_COMM_SELF, 1, &(int){ 1 }, &periodic, 0, &ring);
}

static int class_of(int rc)
{
	int class;

	MPI_Error_class(rc, &class);
	return class;
}

int main(int argc, char **argv)
{
	const struct form *f = NULL;
	int first, second;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(world, &me);
	MPI_Comm_size(world, &np);
	for (size_t i = 0; argc == 6 && i < sizeof(forms) / sizeof(*forms); i++)
		if (!strcmp(forms[i].name, argv[2]))
			f = &forms[i];
	CHECK(f);
	n = atoi(argv[3]) / (int)sizeof(int);
	prepare();
	if (!strncmp(f->name, "neighbor", 8)) {
		/* its constructor is a communication: the ranks have met */
		int periodic = 1;

		MPI_Comm_free(&ring);
		MPI_Cart_create(world, 1, &np, &periodic, 0, &ring);
	}
	MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
	alarm(SECONDS);
	caller = pthread_self();
	for_good = argv[5][0] == '+';
	no_buffers = me == atoi(argv[4]) && !strcmp(argv[5], "buffers");
	no_query = me == atoi(argv[4]) && !strcmp(argv[5], "query");
	left = me == atoi(argv[4]) && !no_buffers && !no_query ? atol(argv[5]) - 1 : -1;
	first = class_of(run(f, argv[1]));
	left = -1;
	no_buffers = no_query = 0;
	for (int i = 0; !first && i < f->blocks() * n; i++)
		CHECK_EQ(out[i], IN * f->times());
	alarm(SECONDS);
	second = class_of(MPI_Barrier(!strncmp(f->name, "neighbor", 8) ? ring : world));
	printf("%d %d %d %d\n", me, first, second, refused);
	fflush(stdout);
	alarm(SECONDS);
	MPI_Comm_free(&ring);
	MPI_Op_free(&own);
	MPI_Finalize();
	return 0;
}
