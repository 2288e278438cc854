/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of types that are not one run of bytes (MPI-5.0 sections 3.4 to 3.10, 4.1): random layouts on both sides, different
 * ones, of all lengths, in every mode of sending and receiving; checked byte by byte against maps that the test makes for itself.
 * And the memory that a large message takes: at most that of a few pieces.
 *
 *     mpi_streams [messages [seed [largest message]]]
 */
#include <sys/resource.h>
#include <unistd.h>

#include "mpi_test.h"

#define GUARD 0xa5
#define LARGE ((size_t)64 << 20)
#define EXTRA ((size_t)4 << 20)

/* ---- layouts ------------------------------------------------------------------------------------------------------- */

/* A type, and where the bytes of an element lie, in the order of the type map. */
struct layout {
	MPI_Datatype type;
	size_t bytes;
	ptrdiff_t *at, extent;
};

static ptrdiff_t *places(size_t n)
{
	ptrdiff_t *p = malloc((n + 1) * sizeof(*p));

	CHECK(p);
	return p;
}

static void replace(struct layout *l, MPI_Datatype type, ptrdiff_t *at, size_t bytes)
{
	MPI_Aint lb;

	MPI_Type_free(&l->type);
	free(l->at);
	l->type = type;
	l->at = at;
	l->bytes = bytes;
	MPI_Type_get_extent(type, &lb, &l->extent);
}

static void run_of(struct layout *l, size_t n)
{
	MPI_Type_contiguous((int)n, MPI_BYTE, &l->type);
	l->bytes = n;
	l->extent = (ptrdiff_t)n;
	l->at = places(n);
	for (size_t i = 0; i < n; i++)
		l->at[i] = (ptrdiff_t)i;
}

static void blocks_of(struct layout *l, int n, int length, const MPI_Aint *displ, MPI_Datatype type)
{
	ptrdiff_t *at = places((size_t)n * (size_t)length * l->bytes), *p = at;

	for (int b = 0; b < n; b++)
		for (int e = 0; e < length; e++)
			for (size_t i = 0; i < l->bytes; i++)
				*p++ = displ[b] + e * l->extent + l->at[i];
	replace(l, type, at, (size_t)(p - at));
}

static void vector_of(struct layout *l, uint64_t *r)
{
	int n = 1 + (int)(rnd(r) % 6), length = 1 + (int)(rnd(r) % 3), stride = length + (int)(rnd(r) % 3);
	MPI_Aint displ[6];
	MPI_Datatype t;

	for (int i = 0; i < n; i++)
		displ[i] = i * stride * l->extent;
	MPI_Type_vector(n, length, stride, l->type, &t);
	blocks_of(l, n, length, displ, t);
}

/* Blocks in any order. */
static void indexed_of(struct layout *l, uint64_t *r)
{
	int n = 1 + (int)(rnd(r) % 6), length = 1 + (int)(rnd(r) % 2);
	MPI_Aint displ[6];
	MPI_Datatype t;

	for (int i = 0; i < n; i++)
		displ[i] = (MPI_Aint)((size_t)i * ((size_t)length * (size_t)l->extent + rnd(r) % 9));
	for (int i = 1; i < n; i++)		/* gaps add up, so that blocks stay apart */
		if (displ[i] < displ[i - 1] + length * l->extent)
			displ[i] = displ[i - 1] + length * l->extent;
	for (int i = n - 1; i > 0; i--) {
		int k = (int)(rnd(r) % (unsigned)(i + 1));
		MPI_Aint d = displ[i];

		displ[i] = displ[k];
		displ[k] = d;
	}
	MPI_Type_create_hindexed_block(n, length, displ, l->type, &t);
	blocks_of(l, n, length, displ, t);
}

static void resized(struct layout *l, uint64_t *r)
{
	ptrdiff_t end = 0;
	MPI_Datatype t;

	for (size_t i = 0; i < l->bytes; i++)
		if (l->at[i] >= end)
			end = l->at[i] + 1;
	MPI_Type_create_resized(l->type, 0, end + (ptrdiff_t)(rnd(r) % 20), &t);
	ptrdiff_t *at = l->at;
	l->at = NULL;
	replace(l, t, at, l->bytes);
}

static struct layout layout_of(uint64_t *r)
{
	static const size_t runs[] = { 1, 3, 4, 8, 8, 24, 100, 700, 5000, 40000 };
	struct layout l;

	run_of(&l, runs[rnd(r) % 10]);
	for (unsigned depth = (unsigned)(rnd(r) % 4); depth; depth--) {
		if (rnd(r) % 2)
			vector_of(&l, r);
		else
			indexed_of(&l, r);
		if (rnd(r) % 2)
			resized(&l, r);
	}
	resized(&l, r);		/* elements do not lie in each other */
	MPI_Type_commit(&l.type);
	return l;
}

static void layout_free(struct layout *l)
{
	if (l->type != MPI_DATATYPE_NULL)
		MPI_Type_free(&l->type);
	free(l->at);
}

/* Memory of so many elements; all of it is GUARD. */
static unsigned char *memory(const struct layout *l, size_t count, size_t *bytes)
{
	unsigned char *p;

	*bytes = count * (size_t)l->extent + 1;
	p = malloc(*bytes);
	CHECK(p);
	return memset(p, GUARD, *bytes);
}

static unsigned char value(uint64_t seed, size_t i)
{
	return (unsigned char)((seed + i * 0x9e3779b97f4a7c15u) >> 37);
}

static void put(unsigned char *mem, const struct layout *l, size_t count, uint64_t seed)
{
	for (size_t e = 0, i = 0; e < count; e++)
		for (size_t b = 0; b < l->bytes; b++, i++)
			mem[(ptrdiff_t)e * l->extent + l->at[b]] = value(seed, i);
}

/* The first n bytes are there, and nothing else was written. Uses the memory up. */
static void verify(unsigned char *mem, size_t bytes, const struct layout *l, size_t n, uint64_t seed)
{
	for (size_t e = 0, i = 0; i < n; e++)
		for (size_t b = 0; b < l->bytes && i < n; b++, i++) {
			unsigned char *p = &mem[(ptrdiff_t)e * l->extent + l->at[b]];

			if (*p != value(seed, i))
				test_fail(__FILE__, __LINE__, "byte %zu of %zu is %#x instead of %#x", i, n, *p, value(seed, i));
			*p = GUARD;
		}
	for (size_t i = 0; i < bytes; i++)
		if (mem[i] != GUARD)
			test_fail(__FILE__, __LINE__, "byte %zu of the buffer, which is none of the %zu received, was written",
				  i, n);
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

enum send_mode { SEND, SSEND, ISEND, ISSEND, RSEND, BSEND, PERSISTENT, REPLACE, SEND_MODES };
enum recv_mode { RECV, IRECV, MRECV, RECV_PERSISTENT, RECV_MODES };

/* A message, as both sides draw it. */
struct message {
	struct layout send, recv;
	size_t nsend, nrecv;		/* elements */
	enum send_mode how;
	enum recv_mode where;
	int freed, shorter;		/* types are freed at once; the receive is too short for the message */
	uint64_t seed;
};

static struct message message_of(uint64_t seed, size_t largest)
{
	struct message m = { .seed = seed };
	uint64_t r = seed;
	size_t want;

	m.send = layout_of(&r);
	m.recv = layout_of(&r);
	switch (rnd(&r) % 8) {
	case 0: case 1: case 2:
		want = 200;
		break;
	case 3: case 4:
		want = 20000;
		break;
	case 5: case 6:
		want = largest / 8;
		break;
	default:
		want = largest;
	}
	want = rnd(&r) % (want + 1);
	m.nsend = (want + m.send.bytes - 1) / m.send.bytes;
	m.nrecv = (m.nsend * m.send.bytes + m.recv.bytes - 1) / m.recv.bytes + rnd(&r) % 2;
	m.how = (enum send_mode)(rnd(&r) % SEND_MODES);
	m.where = (enum recv_mode)(rnd(&r) % RECV_MODES);
	m.freed = rnd(&r) % 3 == 0;
	m.shorter = rnd(&r) % 7 == 0 && m.nrecv > 1;
	if (m.shorter)
		m.nrecv /= 2;
	return m;
}

static void message_free(struct message *m)
{
	layout_free(&m->send);
	layout_free(&m->recv);
}

struct half {
	struct message m;
	unsigned char *mem;
	size_t bytes;
	MPI_Request req;
	void *buffer;			/* attached */
};

/* Posts the sends that need no posted receive. */
static void begin_send(struct half *h, uint64_t seed, size_t largest, int to, int tag)
{
	struct message *m = &h->m;
	int n;

	*h = (struct half){ .m = message_of(seed, largest), .req = MPI_REQUEST_NULL };
	n = (int)m->nsend;
	h->mem = memory(&m->send, m->nsend, &h->bytes);
	put(h->mem, &m->send, m->nsend, m->seed);
	switch (m->how) {
	case SSEND:
	case ISSEND:
		MPI_Issend(h->mem, n, m->send.type, to, tag, MPI_COMM_WORLD, &h->req);
		break;
	case BSEND:
		n = (int)(m->nsend * m->send.bytes) + MPI_BSEND_OVERHEAD;
		h->buffer = malloc((size_t)n);
		MPI_Buffer_attach(h->buffer, n);
		MPI_Bsend(h->mem, (int)m->nsend, m->send.type, to, tag, MPI_COMM_WORLD);
		memset(h->mem, 0x11, h->bytes);
		break;
	case PERSISTENT:
		MPI_Send_init(h->mem, n, m->send.type, to, tag, MPI_COMM_WORLD, &h->req);
		MPI_Start(&h->req);
		break;
	case RSEND:
	case REPLACE:
	case SEND:	/* when the other side has posted its receive */
		break;
	default:
		MPI_Isend(h->mem, n, m->send.type, to, tag, MPI_COMM_WORLD, &h->req);
	}
	if (m->freed && h->req != MPI_REQUEST_NULL)
		MPI_Type_free(&m->send.type);
}

static void end_send(struct half *h)
{
	if (h->req != MPI_REQUEST_NULL)
		MPI_Wait(&h->req, MPI_STATUS_IGNORE);
	if (h->req != MPI_REQUEST_NULL)
		MPI_Request_free(&h->req);
	if (h->buffer) {
		void *b;
		int n;

		MPI_Buffer_detach(&b, &n);
		free(h->buffer);
	}
	free(h->mem);
	message_free(&h->m);
}

static int received(struct half *h, int from, int tag, MPI_Status *status)
{
	struct message *m = &h->m;
	MPI_Message found;

	switch (m->where) {
	case RECV:
		return MPI_Recv(h->mem, (int)m->nrecv, m->recv.type, from, tag, MPI_COMM_WORLD, status);
	case MRECV:
		MPI_Mprobe(from, tag, MPI_COMM_WORLD, &found, status);
		return MPI_Mrecv(h->mem, (int)m->nrecv, m->recv.type, &found, status);
	default:
		return MPI_Wait(&h->req, status);
	}
}

/* One message to the next rank, and one from the rank before. */
static void exchange(uint64_t seed, size_t largest, int tag)
{
	int to = (me + 1) % np, from = (me + np - 1) % np, rc, class = MPI_SUCCESS, n;
	struct half out, in = { .m = message_of(mix(seed + (uint64_t)from), largest), .req = MPI_REQUEST_NULL };
	struct message *m = &in.m;
	size_t all = m->nsend * m->send.bytes, room = m->nrecv * m->recv.bytes;
	MPI_Status status;
	uint64_t r = seed;
	int early = rnd(&r) % 2;	/* messages may come before their receives */

	in.mem = memory(&m->recv, m->nrecv, &in.bytes);
	begin_send(&out, mix(seed + (uint64_t)me), largest, to, tag);
	if (early)
		meet(sync_comm);
	if (m->where == RECV_PERSISTENT) {
		MPI_Recv_init(in.mem, (int)m->nrecv, m->recv.type, from, tag, MPI_COMM_WORLD, &in.req);
		MPI_Start(&in.req);
	} else if (m->where == IRECV || m->how == RSEND || m->how == SEND || m->how == REPLACE) {
		m->where = IRECV;
		MPI_Irecv(in.mem, (int)m->nrecv, m->recv.type, from, tag, MPI_COMM_WORLD, &in.req);
	}
	if (m->freed && in.req != MPI_REQUEST_NULL)
		MPI_Type_free(&m->recv.type);
	meet(sync_comm);
	if (out.m.how == RSEND)
		MPI_Rsend(out.mem, (int)out.m.nsend, out.m.send.type, to, tag, MPI_COMM_WORLD);
	else if (out.m.how == REPLACE)	/* the receive is from MPI_PROC_NULL */
		MPI_Sendrecv_replace(out.mem, (int)out.m.nsend, out.m.send.type, to, tag, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
				     MPI_STATUS_IGNORE);
	else if (out.m.how == SEND && to != me && me)
		MPI_Isend(out.mem, (int)out.m.nsend, out.m.send.type, to, tag, MPI_COMM_WORLD, &out.req);
	else if (out.m.how == SEND)
		MPI_Send(out.mem, (int)out.m.nsend, out.m.send.type, to, tag, MPI_COMM_WORLD);
	rc = received(&in, from, tag, &status);
	if (rc)
		MPI_Error_class(rc, &class);
	CHECK_EQ(class, all > room ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
	if (!rc) {
		MPI_Get_count(&status, MPI_BYTE, &n);
		CHECK_EQ(n, all);
	}
	if (in.req != MPI_REQUEST_NULL)
		MPI_Request_free(&in.req);
	verify(in.mem, in.bytes, &m->recv, all < room ? all : room, m->seed);
	free(in.mem);
	message_free(m);
	end_send(&out);
}

/* An announced message of runs is withdrawn before it matches; the next one comes whole. */
static void withdraw(uint64_t seed)
{
	int to = (me + 1) % np, from = (me + np - 1) % np, flag;
	enum { N = 50000 };
	int *a = malloc(2 * N * sizeof(*a)), *b = malloc(2 * N * sizeof(*b));
	MPI_Datatype v;
	MPI_Request s, r;
	MPI_Status status;

	MPI_Type_vector(N, 1, 2, MPI_INT, &v);
	MPI_Type_commit(&v);
	for (int i = 0; i < 2 * N; i++) {
		a[i] = (int)(seed + (uint64_t)i) ^ me;
		b[i] = -1;
	}
	MPI_Isend(a, 1, v, to, 30000, MPI_COMM_WORLD, &s);
	MPI_Cancel(&s);
	MPI_Wait(&s, &status);
	MPI_Test_cancelled(&status, &flag);
	CHECK(flag);
	meet(sync_comm);
	MPI_Irecv(b, 1, v, from, 30000, MPI_COMM_WORLD, &r);
	MPI_Issend(a, 1, v, to, 30000, MPI_COMM_WORLD, &s);
	MPI_Type_free(&v);
	MPI_Wait(&s, MPI_STATUS_IGNORE);
	MPI_Wait(&r, MPI_STATUS_IGNORE);
	for (int i = 0; i < 2 * N; i++)
		CHECK_EQ(b[i], i % 2 || i == 2 * N - 1 ? -1 : (int)(seed + (uint64_t)i) ^ from);
	free(a);
	free(b);
}

#ifdef __SANITIZE_ADDRESS__
#define LIMITED 0	/* the allocator maps more than the program asks for */
#else
#define LIMITED 1
#endif

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static size_t address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Rank 0 sends n doubles to rank 1; every second one in memory, where that side has runs. */
static void pass(const double *mem, size_t n, int send_runs, int recv_runs, MPI_Datatype spread)
{
	int runs = me ? recv_runs : send_runs;

	MPI_Datatype type = runs ? spread : MPI_DOUBLE;
	int rc = me ? MPI_Recv((void *)mem, (int)n, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
		    : MPI_Send(mem, (int)n, type, 1, 1, MPI_COMM_WORLD);

	CHECK_EQ(rc, MPI_SUCCESS);
}

/* A large message within the memory that there is before it, but for a few pieces. */
static void large(int send_runs, int recv_runs)
{
	size_t n = LARGE / sizeof(double), step = (me ? recv_runs : send_runs) ? 2 : 1;
	double *mem = malloc(n * step * sizeof(*mem));
	struct rlimit old, limit;
	MPI_Datatype spread;

	CHECK(mem);
	MPI_Type_create_resized(MPI_DOUBLE, 0, 2 * sizeof(double), &spread);
	MPI_Type_commit(&spread);
	for (size_t i = 0; i < n * step; i++)
		mem[i] = me ? -1 : (double)(i / step);
	for (int i = 0; i < 20; i++)	/* memory of the first use is allocated by then */
		pass(mem, LARGE / 64 / sizeof(double), send_runs, recv_runs, spread);
	meet(sync_comm);
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = address_space() + EXTRA;
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	pass(mem, n, send_runs, recv_runs, spread);
	CHECK(!setrlimit(RLIMIT_AS, &old));
	for (size_t i = 0; me == 1 && i < n * step; i++)
		if (mem[i] != (i % step ? -1 : (double)(i / step)))
			test_fail(__FILE__, __LINE__, "element %zu is %g", i, mem[i]);
	MPI_Type_free(&spread);
	free(mem);
}

int main(int argc, char **argv)
{
	int messages = 60;
	uint64_t seed = 1;
	size_t largest = 400000;

	test_init(&argc, &argv);
	if (argc > 1)
		messages = atoi(argv[1]);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		largest = strtoull(argv[3], NULL, 0);
	if (!me)
		printf("seed %llu\n", (unsigned long long)seed);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; i < messages; i++)
		exchange(mix(seed * 1000003 + (uint64_t)i), largest, i);
	if (np > 1)
		withdraw(seed);
	for (int i = 1; LIMITED && np == 2 && i < 4; i++)
		large(i & 1, i & 2);
	test_done("streams");
	return 0;
}
