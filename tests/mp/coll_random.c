/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random collectives against a serial reference: every collective of chapter 6 and the neighbor collectives, in every form
 * (blocking, nonblocking, persistent, each with int and large counts), on groups, intercommunicators and topologies, several at a
 * time, with types with holes, in place, with all operations on all types. All ranks draw the same numbers, so that each rank
 * knows the expected result; every byte of a receive buffer is checked.
 *
 *     coll_random [batches [seed [only]]]
 *
 * only: names of collectives, with commas in between, as in "gatherv,scan"
 *
 * A failure is printed with seed and batch.
 */
#include "mpi_test.h"

#include <float.h>
#include <stdbool.h>

enum kind { BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE,
	    ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCAN, EXSCAN, N_ALLGATHER, N_ALLGATHERV, N_ALLTOALL, N_ALLTOALLV,
	    N_ALLTOALLW, KINDS };
static const char *const names[KINDS] = {
	"barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv", "alltoall", "alltoallv",
	"alltoallw", "reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan", "neighbor_allgather",
	"neighbor_allgatherv", "neighbor_alltoall", "neighbor_alltoallv", "neighbor_alltoallw",
};
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static uint64_t seed, state;
static long batch;

static unsigned draw(unsigned below)	/* Returns a random number below `below`, the same on all ranks */
{
	return (unsigned)(rnd(&state) % below);
}

/* ---- communicators ------------------------------------------------------------------------------------------- */

#define EDGES 64

/* A communicator, the local and the remote group (of an intracommunicator the same), and this process's neighbors. */
struct place {
	MPI_Comm comm;
	bool inter, topo;
	int rank, size;			/* in the local group */
	int peers;			/* the ranks that roots and lists name */
	bool first;			/* this process is in the first of both groups */
	int nto, nfrom;
	/* neighbors. The block that is sent along edge e is piece (e, 0), so that both ends compute the same bytes */
	int to[EDGES], from[EDGES], to_edge[EDGES], from_edge[EDGES];
};

static void place_group(struct place *p, MPI_Comm comm)
{
	memset(p, 0, sizeof(*p));
	p->comm = comm;
	MPI_Comm_rank(comm, &p->rank);
	MPI_Comm_size(comm, &p->size);
	p->peers = p->size;
}

static bool place_inter(struct place *p)
{
	int first = np > 1 ? 1 + (int)draw((unsigned)np - 1) : 0, mine = me < first;
	MPI_Comm own;

	if (np < 2)
		return false;
	MPI_Comm_split(MPI_COMM_WORLD, mine, me, &own);
	memset(p, 0, sizeof(*p));
	MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, mine ? first : 0, 5, &p->comm);
	MPI_Comm_rank(own, &p->rank);
	MPI_Comm_size(own, &p->size);
	MPI_Comm_remote_size(p->comm, &p->peers);
	MPI_Comm_free(&own);
	p->inter = true;
	p->first = mine;
	return true;
}

/* The edge that leaves rank r in direction k has number r * 64 + k. */
static void place_grid(struct place *p)
{
	int n = 1 + (int)draw(3), dims[3] = { 0 }, periods[3];
	MPI_Comm comm;

	for (int d = 0; d < n; d++)
		periods[d] = (int)draw(2);
	MPI_Dims_create(np, n, dims);
	MPI_Cart_create(MPI_COMM_WORLD, n, dims, periods, 0, &comm);
	place_group(p, comm);
	p->topo = true;
	for (int d = 0; d < n; d++) {
		int below, above;

		MPI_Cart_shift(comm, d, 1, &below, &above);
		p->to[2 * d] = p->from[2 * d] = below;
		p->to[2 * d + 1] = p->from[2 * d + 1] = above;
	}
	p->nto = p->nfrom = 2 * n;
	for (int k = 0; k < 2 * n; k++) {
		p->to_edge[k] = p->rank * 64 + k;
		p->from_edge[k] = p->from[k] * 64 + (k ^ 1);
	}
}

/* Random edges, some of them several times, loops among them. As a graph each edge goes both ways. */
static void place_graph(struct place *p, bool distributed)
{
	int n = (int)draw(2 * (unsigned)np + 2), a[EDGES], b[EDGES];
	MPI_Comm comm;

	n = n > EDGES / 4 ? EDGES / 4 : n;
	for (int e = 0; e < n; e++) {
		a[e] = (int)draw((unsigned)np);
		b[e] = (int)draw((unsigned)np);
		if (e && !draw(4)) {
			a[e] = a[e - 1];
			b[e] = b[e - 1];
		}
		if (!distributed && a[e] == b[e])
			b[e] = (a[e] + 1) % np;
	}
	memset(p, 0, sizeof(*p));
	if (distributed) {
		for (int e = 0; e < n; e++) {
			if (a[e] == me) {
				p->to_edge[p->nto] = e;
				p->to[p->nto++] = b[e];
			}
			if (b[e] == me) {
				p->from_edge[p->nfrom] = e;
				p->from[p->nfrom++] = a[e];
			}
		}
		MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, p->nfrom, p->from, MPI_UNWEIGHTED, p->nto, p->to, MPI_UNWEIGHTED,
					       MPI_INFO_NULL, 0, &comm);
	} else {
		int index[64], edges[2 * EDGES], k = 0;

		for (int r = 0; r < np; r++) {
			for (int e = 0; e < n; e++) {
				if (np == 1 || (a[e] != r && b[e] != r))
					continue;
				edges[k++] = a[e] == r ? b[e] : a[e];
				if (r != me)
					continue;
				p->to[p->nto] = p->from[p->nfrom] = edges[k - 1];
				p->to_edge[p->nto++] = 2 * e + (a[e] == me);
				p->from_edge[p->nfrom++] = 2 * e + (b[e] == me);
			}
			index[r] = k;
		}
		MPI_Graph_create(MPI_COMM_WORLD, np, index, edges, 0, &comm);
	}
	p->comm = comm;
	MPI_Comm_rank(comm, &p->rank);
	MPI_Comm_size(comm, &p->size);
	p->peers = p->size;
	p->topo = true;
}

/* ---- types with a signature of so many ints ---------------------------------------------------------------------- */

#define TYPES 5
static MPI_Datatype types[TYPES];
static const int ints_in[TYPES] = { 1, 2, 2, 1, 1 };
static MPI_Aint extents[TYPES];

static void make_types(void)
{
	MPI_Aint lb, eight[1] = { 8 };
	MPI_Datatype one;

	types[0] = MPI_INT;
	MPI_Type_contiguous(2, MPI_INT, &types[1]);
	MPI_Type_vector(2, 1, 3, MPI_INT, &types[2]);
	MPI_Type_create_resized(MPI_INT, 0, 8, &types[3]);
	MPI_Type_create_hindexed_block(1, 1, eight, MPI_INT, &one);	/* a lower bound that is not 0 */
	MPI_Type_create_resized(one, 0, 16, &types[4]);
	MPI_Type_free(&one);
	for (int t = 0; t < TYPES; t++) {
		if (t)
			MPI_Type_commit(&types[t]);
		MPI_Type_get_extent(types[t], &lb, &extents[t]);
	}
}

/* ---- one operation -------------------------------------------------------------------------------------------------- */

#define PIECES	64
#define GUARD	0x5a

struct list {			/* the arguments of one side: pieces of a send or receive buffer */
	int n, type;
	/* by piece: the rank or edge that sends the piece, the rank or edge that receives the piece, number of ints */
	int who[PIECES], other[PIECES], len[PIECES];
	MPI_Aint at[PIECES];		/* bytes */
	int ci[PIECES], di[PIECES], kind[PIECES];
	MPI_Count cl[PIECES];
	MPI_Aint dl[PIECES];
	MPI_Datatype t[PIECES];
	size_t bytes;
	char *buf;
};

struct op {
	enum kind kind;
	enum form form;
	bool large, in_place, gives, gets;
	int root, units, count, rounds, starts;
	long id;
	const struct place *p;
	struct list send, recv;
	char *expect;
	MPI_Request req;
	/* reductions */
	MPI_Datatype type;
	MPI_Op op;
	int row, slot;
	MPI_Aint extent;
	int counts[PIECES];
	MPI_Count countsl[PIECES];
	size_t vector;			/* bytes */
	int elements, first, mine;
};

static void *room(size_t n)
{
	void *p = malloc(n + 64);

	CHECK(p != NULL);
	memset(p, GUARD, n + 64);
	return p;
}

static int word(const struct op *o, int who, int other, int i)
{
	return (int)(mix(seed ^ mix((uint64_t)o->id * 64 + (uint64_t)o->starts) ^ mix((uint64_t)who * 8191 + (uint64_t)other)) +
		     (uint64_t)i * 7919);
}

/* Writes piece k of the list into an image of the buffer. */
static void put(const struct op *o, const struct list *l, int k, char *image)
{
	int t = l->kind[k], n = l->len[k], position = 0, *packed = malloc(sizeof(int) * (size_t)(n + 1));

	for (int i = 0; i < n; i++)
		packed[i] = word(o, l->who[k], l->other[k], i);
	if (n)
		MPI_Unpack(packed, n * (int)sizeof(int), &position, image + l->at[k], n / ints_in[t], types[t], MPI_COMM_SELF);
	free(packed);
}

/* Gives each piece a place: in a random order if there are displacements, else in the order of the ranks. */
static void lay_out(struct list *l, bool vector, bool own_types)
{
	int most = 0;
	MPI_Aint slot;

	for (int k = 0; k < l->n; k++) {
		l->kind[k] = own_types ? (l->type + k) % TYPES : l->type;
		most = l->len[k] > most ? l->len[k] : most;
	}
	slot = own_types ? (MPI_Aint)(most + 2) * 16 : (most / ints_in[l->type] + (vector ? 1 : 0)) * extents[l->type];
	for (int k = 0; k < l->n; k++) {
		int place = vector ? l->n - 1 - k : k, t = l->kind[k];

		l->at[k] = place * slot;
		l->ci[k] = l->len[k] / ints_in[t];
		l->cl[k] = l->ci[k];
		l->t[k] = types[t];
		l->dl[k] = own_types ? l->at[k] : l->at[k] / extents[t];
		l->di[k] = (int)l->dl[k];
	}
	l->bytes = (size_t)slot * (size_t)l->n + 64;
	l->buf = room(l->bytes);
}

static void add(struct list *l, int who, int other, int len)
{
	CHECK(l->n < PIECES);
	l->who[l->n] = who;
	l->other[l->n] = other;
	l->len[l->n++] = len;
}

/* Returns the ints of a piece: the same number for all, or one that depends on both ends. */
static int length(const struct op *o, bool vector, int from, int to, bool both_ways)
{
	uint64_t h = both_ways ? mix((uint64_t)(from < to ? from : to)) + mix((uint64_t)(from < to ? to : from)) * 3 :
				 mix((uint64_t)from * 1009 + (uint64_t)to);

	if (!vector)
		return o->units;
	return o->units ? 2 * (int)(mix(h + (uint64_t)o->id) % (unsigned)(o->units / 2 + 1)) : 0;
}

/* Numbers of ranks that are unique over both groups of an intercommunicator, so that both sides compute the same bytes. */
static int own_name(const struct place *p, int r)
{
	return p->inter && !p->first ? 100 + r : r;
}

static int peer_name(const struct place *p, int r)
{
	return p->inter && p->first ? 100 + r : r;
}

static bool is_vector(enum kind k)
{
	return k == GATHERV || k == SCATTERV || k == ALLGATHERV || k == ALLTOALLV || k == ALLTOALLW || k == N_ALLGATHERV ||
	       k == N_ALLTOALLV || k == N_ALLTOALLW;
}

static void plan_movement(struct op *o)
{
	const struct place *p = o->p;
	bool v = is_vector(o->kind), w = o->kind == ALLTOALLW || o->kind == N_ALLTOALLW;
	bool root = p->inter ? o->root == MPI_ROOT : p->rank == o->root;
	bool out = p->inter && o->root == MPI_PROC_NULL;
	int mine = own_name(p, p->rank);
	int source = root ? mine : peer_name(p, o->root);

	o->send.type = (int)((o->id + p->rank) % TYPES);
	o->recv.type = (int)((o->id / 3 + 2 * p->rank) % TYPES);
	switch (o->kind) {
	case BCAST:
		o->recv.type = o->send.type;
		if (!out)
			add(root ? &o->send : &o->recv, source, 0, o->units);
		break;
	case GATHER:
	case GATHERV:
		if (!out && !(p->inter && root) && !(o->in_place && root))
			add(&o->send, mine, 0, length(o, v, mine, 0, false));
		for (int r = 0; root && r < p->peers; r++)
			add(&o->recv, peer_name(p, r), 0, length(o, v, peer_name(p, r), 0, false));
		break;
	case SCATTER:
	case SCATTERV:
		for (int r = 0; root && r < p->peers; r++)
			add(&o->send, mine, peer_name(p, r), length(o, v, mine, peer_name(p, r), false));
		if (!out && !(p->inter && root) && !(o->in_place && root))
			add(&o->recv, source, mine, length(o, v, source, mine, false));
		break;
	case ALLGATHER:
	case ALLGATHERV:
		if (!o->in_place)
			add(&o->send, mine, 0, length(o, v, mine, 0, false));
		for (int r = 0; r < p->peers; r++)
			add(&o->recv, peer_name(p, r), 0, length(o, v, peer_name(p, r), 0, false));
		break;
	case ALLTOALL:
	case ALLTOALLV:
	case ALLTOALLW:
		for (int r = 0; r < p->peers; r++) {
			if (!o->in_place)
				add(&o->send, mine, peer_name(p, r), length(o, v, mine, peer_name(p, r), o->in_place));
			add(&o->recv, peer_name(p, r), mine, length(o, v, peer_name(p, r), mine, o->in_place));
		}
		break;
	case N_ALLGATHER:
	case N_ALLGATHERV:
		add(&o->send, p->rank, 0, length(o, v, p->rank, 0, false));
		for (int k = 0; k < p->nfrom; k++)
			add(&o->recv, p->from[k], 0, p->from[k] < 0 ? o->units : length(o, v, p->from[k], 0, false));
		break;
	case BARRIER:
		break;
	default:
		for (int k = 0; k < p->nto; k++)
			add(&o->send, p->to_edge[k], 1, p->to[k] < 0 ? o->units : length(o, v, p->to_edge[k], 1, false));
		for (int k = 0; k < p->nfrom; k++)
			add(&o->recv, p->from_edge[k], 1, p->from[k] < 0 ? o->units : length(o, v, p->from_edge[k], 1, false));
		break;
	}
	lay_out(&o->send, v, w);
	lay_out(&o->recv, v, w);
	o->expect = room(o->recv.bytes);
}

/* Before each start: writes the send buffer and the expected receive buffer. Bytes that no rank sends must stay. */
static void load_movement(struct op *o)
{
	struct list *s = &o->send, *r = &o->recv;
	bool grid = o->kind >= N_ALLGATHER;

	memset(s->buf, GUARD, s->bytes);
	memset(r->buf, GUARD, r->bytes);
	memset(o->expect, GUARD, r->bytes);
	for (int k = 0; k < s->n; k++)
		put(o, s, k, s->buf);
	for (int k = 0; k < r->n; k++)
		if (!grid || o->p->from[k] >= 0)
			put(o, r, k, o->expect);
	if (!o->in_place)
		return;
	/* in place: the rank's own contribution is already in the receive buffer */
	for (int k = 0; k < r->n; k++) {
		struct list own = *r;
		int mine = own_name(o->p, o->p->rank);

		if (o->kind == ALLTOALL || o->kind == ALLTOALLV || o->kind == ALLTOALLW) {
			own.who[k] = mine;
			own.other[k] = peer_name(o->p, k);
			put(o, &own, k, r->buf);
		} else if (r->who[k] == mine &&
			   (o->kind == GATHER || o->kind == GATHERV || o->kind == ALLGATHER || o->kind == ALLGATHERV)) {
			put(o, r, k, r->buf);
		}
	}
}

/* ---- reductions ------------------------------------------------------------------------------------------------------ */

enum { INTEGER = 1, REAL = 2, COMPLEX = 4, LOGICAL = 8, BYTES = 16, PAIR = 32, ADDRESS = 64, LETTER = 128 };
enum { AS_INT, AS_FLOAT, AS_DOUBLE, AS_LONG_DOUBLE, AS_BOOL, AS_PAIR };

static const struct row {
	MPI_Datatype type;
	int class, as, size;		/* size: bytes of a number in the element */
} rows[] = {
	{ MPI_INT, INTEGER, AS_INT, 4 }, { MPI_LONG, INTEGER, AS_INT, sizeof(long) }, { MPI_SHORT, INTEGER, AS_INT, 2 },
	{ MPI_UNSIGNED, INTEGER, AS_INT, 4 }, { MPI_UNSIGNED_SHORT, INTEGER, AS_INT, 2 },
	{ MPI_UNSIGNED_LONG, INTEGER, AS_INT, sizeof(long) }, { MPI_LONG_LONG, INTEGER, AS_INT, 8 },
	{ MPI_UNSIGNED_LONG_LONG, INTEGER, AS_INT, 8 }, { MPI_SIGNED_CHAR, INTEGER, AS_INT, 1 },
	{ MPI_UNSIGNED_CHAR, INTEGER, AS_INT, 1 }, { MPI_INT8_T, INTEGER, AS_INT, 1 }, { MPI_INT16_T, INTEGER, AS_INT, 2 },
	{ MPI_INT32_T, INTEGER, AS_INT, 4 }, { MPI_INT64_T, INTEGER, AS_INT, 8 }, { MPI_UINT8_T, INTEGER, AS_INT, 1 },
	{ MPI_UINT16_T, INTEGER, AS_INT, 2 }, { MPI_UINT32_T, INTEGER, AS_INT, 4 }, { MPI_UINT64_T, INTEGER, AS_INT, 8 },
	{ MPI_AINT, ADDRESS, AS_INT, sizeof(MPI_Aint) }, { MPI_COUNT, ADDRESS, AS_INT, sizeof(MPI_Count) },
	{ MPI_OFFSET, ADDRESS, AS_INT, sizeof(MPI_Offset) }, { MPI_CHAR, LETTER, AS_INT, 1 }, { MPI_BYTE, BYTES, AS_INT, 1 },
	{ MPI_FLOAT, REAL, AS_FLOAT, 0 }, { MPI_DOUBLE, REAL, AS_DOUBLE, 0 }, { MPI_LONG_DOUBLE, REAL, AS_LONG_DOUBLE, 0 },
	{ MPI_C_BOOL, LOGICAL, AS_BOOL, sizeof(_Bool) }, { MPI_C_FLOAT_COMPLEX, COMPLEX, AS_FLOAT, 0 },
	{ MPI_C_DOUBLE_COMPLEX, COMPLEX, AS_DOUBLE, 0 }, { MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, AS_LONG_DOUBLE, 0 },
	{ MPI_FLOAT_INT, PAIR, AS_PAIR, 0 }, { MPI_DOUBLE_INT, PAIR, AS_PAIR, 0 }, { MPI_LONG_INT, PAIR, AS_PAIR, 0 },
	{ MPI_2INT, PAIR, AS_PAIR, 0 }, { MPI_SHORT_INT, PAIR, AS_PAIR, 0 }, { MPI_LONG_DOUBLE_INT, PAIR, AS_PAIR, 0 },
};
#define NROWS ((int)(sizeof(rows) / sizeof(rows[0])))

static const struct {
	MPI_Op op;
	int classes;			/* classes of section 6.9.2, and combinations beyond that section that other MPIs accept:
					 * LETTER, logical operations on ADDRESS */
} predefined[] = {
	{ MPI_SUM, INTEGER | REAL | COMPLEX | ADDRESS | LETTER }, { MPI_PROD, INTEGER | REAL | COMPLEX | ADDRESS | LETTER },
	{ MPI_MAX, INTEGER | REAL | ADDRESS | LETTER }, { MPI_MIN, INTEGER | REAL | ADDRESS | LETTER },
	{ MPI_LAND, INTEGER | LOGICAL | ADDRESS }, { MPI_LOR, INTEGER | LOGICAL | ADDRESS },
	{ MPI_LXOR, INTEGER | LOGICAL | ADDRESS }, { MPI_BAND, INTEGER | BYTES | ADDRESS },
	{ MPI_BOR, INTEGER | BYTES | ADDRESS }, { MPI_BXOR, INTEGER | BYTES | ADDRESS },
	{ MPI_MAXLOC, PAIR }, { MPI_MINLOC, PAIR },
};
#define NOPS ((int)(sizeof(predefined) / sizeof(predefined[0])))

/* Affine maps modulo a prime: a user-defined operation that does not commute, on pairs of ints, also with a hole in between. */
#define PRIME 10007
static MPI_Datatype map_types[2];
static MPI_Op map_ops[3];

static void compose(const int *a, int *b, int step)
{
	int first = a[0] * b[0] % PRIME, second = (a[step] * b[0] + b[step]) % PRIME;

	b[0] = first;
	b[step] = second;
}

static void maps(void *in, void *inout, int *n, MPI_Datatype *type)
{
	CHECK(*type == map_types[0]);
	for (int i = 0; i < *n; i++)
		compose((int *)in + 2 * i, (int *)inout + 2 * i, 1);
}

static void maps_c(void *in, void *inout, MPI_Count *n, MPI_Datatype *type)
{
	CHECK(*type == map_types[0]);
	for (MPI_Count i = 0; i < *n; i++)
		compose((int *)in + 2 * i, (int *)inout + 2 * i, 1);
}

static void maps_apart(void *in, void *inout, int *n, MPI_Datatype *type)
{
	CHECK(*type == map_types[1]);
	for (int i = 0; i < *n; i++)
		compose((int *)in + 4 * i, (int *)inout + 4 * i, 2);
}

static void make_operations(void)
{
	MPI_Datatype v;

	MPI_Type_contiguous(2, MPI_INT, &map_types[0]);
	MPI_Type_vector(2, 1, 2, MPI_INT, &v);
	MPI_Type_create_resized(v, 0, 16, &map_types[1]);
	MPI_Type_free(&v);
	MPI_Type_commit(&map_types[0]);
	MPI_Type_commit(&map_types[1]);
	MPI_Op_create(maps, 0, &map_ops[0]);
	MPI_Op_create_c(maps_c, 0, &map_ops[1]);
	MPI_Op_create(maps_apart, 0, &map_ops[2]);
}

static void number(char *at, int as, int size, uint64_t h)
{
	float f = (float)(h % 3 + 1);
	double d = f;
	long double l = f;
	_Bool b = h % 3 != 0;

	switch (as) {
	case AS_INT:
		h = h % 5 ? h : 0;
		memcpy(at, &h, (size_t)size);
		break;
	case AS_FLOAT: memcpy(at, &f, sizeof(f)); break;
	case AS_DOUBLE: memcpy(at, &d, sizeof(d)); break;
	case AS_LONG_DOUBLE: memcpy(at, &l, sizeof(l)); break;
	default: memcpy(at, &b, sizeof(b)); break;
	}
}

/* Writes element i of the contribution of rank `who`. */
static void element(const struct op *o, char *at, int who, int i)
{
	uint64_t h = (uint64_t)(unsigned)word(o, who, 0, i);
	MPI_Datatype t = o->type;
	short s = (short)(h % 7);
	int index = (int)(h / 7 % 50), n = (int)(h % 7);

	if (o->row < 0) {
		((int *)at)[0] = 1 + (int)(h % 97);
		((int *)at)[t == map_types[1] ? 2 : 1] = (int)(h / 97 % 89);
	} else if (rows[o->row].as != AS_PAIR) {
		number(at, rows[o->row].as, rows[o->row].size, h);
		/* in products of complex numbers in general, the order of the factors decides whether a zero is negative */
		if (rows[o->row].class == COMPLEX && o->op == MPI_PROD)
			memset(at + o->extent / 2, 0, (size_t)o->extent / 2);
		else if (rows[o->row].class == COMPLEX)
			number(at + o->extent / 2, rows[o->row].as, 0, h / 3);
	} else if (t == MPI_FLOAT_INT) {
		memcpy(at, &(float){ (float)n }, sizeof(float));
		memcpy(at + 4, &index, 4);
	} else if (t == MPI_DOUBLE_INT) {
		memcpy(at, &(double){ n }, sizeof(double));
		memcpy(at + sizeof(double), &index, 4);
	} else if (t == MPI_LONG_INT) {
		memcpy(at, &(long){ n }, sizeof(long));
		memcpy(at + sizeof(long), &index, 4);
	} else if (t == MPI_2INT) {
		memcpy(at, &n, 4);
		memcpy(at + 4, &index, 4);
	} else if (t == MPI_SHORT_INT) {
		memcpy(at, &s, 2);
		memcpy(at + 4, &index, 4);
	} else {
		memcpy(at, &(long double){ n }, sizeof(long double));
		memcpy(at + sizeof(long double), &index, 4);
	}
}

static void plan_reduction(struct op *o)
{
	const struct place *p = o->p;
	bool root = o->kind != REDUCE || (p->inter ? o->root == MPI_ROOT : p->rank == o->root);
	MPI_Aint lb;
	int n = o->units, k;

	if (!draw(5)) {
		o->row = -1;
		k = (int)draw(3);
		o->op = map_ops[k];
		o->type = map_types[k == 2];
	} else {
		do {
			o->row = (int)draw(NROWS);
			k = (int)draw(NOPS);
		} while (!(predefined[k].classes & rows[o->row].class));
		o->op = predefined[k].op;
		o->type = rows[o->row].type;
	}
	MPI_Type_get_extent(o->type, &lb, &o->extent);
	o->gets = root;
	o->gives = o->kind != REDUCE || !p->inter || o->root >= 0;
	o->elements = o->mine = n;
	/* the blocks of both groups of an intercommunicator must have the same sum */
	if (o->kind == REDUCE_SCATTER_BLOCK && p->inter) {
		int a = p->size, b = p->peers;

		o->mine = n % 8 * b;
		o->elements = n % 8 * a * b;
		o->first = o->mine * p->rank;
	} else if (o->kind == REDUCE_SCATTER_BLOCK) {
		o->elements = n * p->size;
		o->first = n * p->rank;
	} else if (o->kind == REDUCE_SCATTER) {
		int all = 0;

		for (int r = 0; r < p->size; r++) {
			o->counts[r] = p->inter && r == p->size - 1 ?
					       n - all :
					       (int)(mix((uint64_t)(o->id * 77 + r)) % (unsigned)(n / p->size + 1));
			o->countsl[r] = o->counts[r];
			if (r == p->rank)
				o->first = all;
			all += o->counts[r];
		}
		o->elements = all;
		o->mine = o->counts[p->rank];
	}
	o->send.bytes = (size_t)o->elements * (size_t)o->extent + 64;
	/* in place the whole vector stands in recvbuf */
	o->recv.bytes = o->send.bytes;
	o->send.buf = room(o->send.bytes);
	o->recv.buf = room(o->recv.bytes);
	o->expect = room(o->recv.bytes);
}

static void contribution(const struct op *o, char *buf, int who)
{
	for (int i = 0; i < o->elements; i++)
		element(o, buf + i * o->extent, who, i);
}

static void load_reduction(struct op *o)
{
	const struct place *p = o->p;
	char *acc = room(o->send.bytes), *one = room(o->send.bytes);
	int from = 0, to = p->inter ? p->peers : p->size, k = 0, n;

	if (o->kind == SCAN)
		to = p->rank + 1;
	if (o->kind == EXSCAN)
		to = p->rank;
	memset(o->send.buf, GUARD, o->send.bytes);
	memset(o->recv.buf, GUARD, o->recv.bytes);
	contribution(o, o->in_place ? o->recv.buf : o->send.buf, own_name(p, p->rank));
	memcpy(o->expect, o->recv.buf, o->recv.bytes);
	for (int r = to - 1; r >= from; r--) {	/* in the order of the ranks */
		contribution(o, one, p->inter ? peer_name(p, r) : r);
		if (k++)
			MPI_Reduce_local(one, acc, o->elements, o->type, o->op);
		else
			memcpy(acc, one, o->send.bytes);
	}
	n = o->gets && k ? o->mine : 0;
	memcpy(o->expect, acc + o->first * o->extent, (size_t)n * (size_t)o->extent);
	free(acc);
	free(one);
}

/* ---- calls --------------------------------------------------------------------------------------------------------------- */

#define DISPATCH(Name, name, ARGS) \
	switch (o->form * 2 + o->large) { \
	case 0: MPI_##Name(ARGS(i)); break; \
	case 1: MPI_##Name##_c(ARGS(l)); break; \
	case 2: MPI_I##name(ARGS(i), &o->req); break; \
	case 3: MPI_I##name##_c(ARGS(l), &o->req); break; \
	case 4: MPI_##Name##_init(ARGS(i), MPI_INFO_NULL, &o->req); break; \
	default: MPI_##Name##_init_c(ARGS(l), MPI_INFO_NULL, &o->req); break; \
	}

#define ONE_BCAST(x) l->buf, l->ci[0], types[l->type], o->root, c
#define ONE_GATHER(x) sendbuf, s->ci[0], types[s->type], r->buf, r->ci[0], types[r->type], o->root, c
#define ONE_GATHERV(x) sendbuf, s->ci[0], types[s->type], r->buf, r->c##x, r->d##x, types[r->type], o->root, c
#define ONE_SCATTER(x) s->buf, s->ci[0], types[s->type], recvbuf, r->ci[0], types[r->type], o->root, c
#define ONE_SCATTERV(x) s->buf, s->c##x, s->d##x, types[s->type], recvbuf, r->ci[0], types[r->type], o->root, c
#define ALL_GATHER(x) sendbuf, s->ci[0], types[s->type], r->buf, r->ci[0], types[r->type], c
#define ALL_GATHERV(x) sendbuf, s->ci[0], types[s->type], r->buf, r->c##x, r->d##x, types[r->type], c
#define ALL_TOALLV(x) sendbuf, s->c##x, s->d##x, types[s->type], r->buf, r->c##x, r->d##x, types[r->type], c
#define ALL_TOALLW(x) sendbuf, s->c##x, s->d##x, s->t, r->buf, r->c##x, r->d##x, r->t, c
#define NEAR_TOALLW(x) sendbuf, s->c##x, s->dl, s->t, r->buf, r->c##x, r->dl, r->t, c
#define RED_ROOT(x) sendbuf, r->buf, o->elements, o->type, o->op, o->root, c
#define RED_ALL(x) sendbuf, r->buf, o->elements, o->type, o->op, c
#define RED_BLOCK(x) sendbuf, r->buf, o->mine, o->type, o->op, c
#define RED_PARTS(x) sendbuf, r->buf, o->counts##x, o->type, o->op, c
#define countsi counts

static void call(struct op *o)
{
	struct list *s = &o->send, *r = &o->recv, *l = s->n ? s : r;
	MPI_Comm c = o->p->comm;
	bool root = o->p->rank == o->root;
	bool rooted = o->kind == GATHER || o->kind == GATHERV || o->kind == SCATTER || o->kind == SCATTERV || o->kind == REDUCE;
	bool here = o->in_place && (!rooted || root);
	void *sendbuf = here ? MPI_IN_PLACE : s->buf, *recvbuf = here ? MPI_IN_PLACE : r->buf;

	switch (o->kind) {
	case BARRIER:
		if (o->form == BLOCKING)
			MPI_Barrier(c);
		else if (o->form == NONBLOCKING)
			MPI_Ibarrier(c, &o->req);
		else
			MPI_Barrier_init(c, MPI_INFO_NULL, &o->req);
		break;
	case BCAST: DISPATCH(Bcast, bcast, ONE_BCAST) break;
	case GATHER: DISPATCH(Gather, gather, ONE_GATHER) break;
	case GATHERV: DISPATCH(Gatherv, gatherv, ONE_GATHERV) break;
	case SCATTER: DISPATCH(Scatter, scatter, ONE_SCATTER) break;
	case SCATTERV: DISPATCH(Scatterv, scatterv, ONE_SCATTERV) break;
	case ALLGATHER: DISPATCH(Allgather, allgather, ALL_GATHER) break;
	case ALLGATHERV: DISPATCH(Allgatherv, allgatherv, ALL_GATHERV) break;
	case ALLTOALL: DISPATCH(Alltoall, alltoall, ALL_GATHER) break;
	case ALLTOALLV: DISPATCH(Alltoallv, alltoallv, ALL_TOALLV) break;
	case ALLTOALLW: DISPATCH(Alltoallw, alltoallw, ALL_TOALLW) break;
	case REDUCE: DISPATCH(Reduce, reduce, RED_ROOT) break;
	case ALLREDUCE: DISPATCH(Allreduce, allreduce, RED_ALL) break;
	case REDUCE_SCATTER: DISPATCH(Reduce_scatter, reduce_scatter, RED_PARTS) break;
	case REDUCE_SCATTER_BLOCK: DISPATCH(Reduce_scatter_block, reduce_scatter_block, RED_BLOCK) break;
	case SCAN: DISPATCH(Scan, scan, RED_ALL) break;
	case EXSCAN: DISPATCH(Exscan, exscan, RED_ALL) break;
	case N_ALLGATHER: DISPATCH(Neighbor_allgather, neighbor_allgather, ALL_GATHER) break;
	case N_ALLGATHERV: DISPATCH(Neighbor_allgatherv, neighbor_allgatherv, ALL_GATHERV) break;
	case N_ALLTOALL: DISPATCH(Neighbor_alltoall, neighbor_alltoall, ALL_GATHER) break;
	case N_ALLTOALLV: DISPATCH(Neighbor_alltoallv, neighbor_alltoallv, ALL_TOALLV) break;
	default: DISPATCH(Neighbor_alltoallw, neighbor_alltoallw, NEAR_TOALLW) break;
	}
}

/* ---- drawing, running, looking ----------------------------------------------------------------------------------- */

static bool is_reduction(enum kind k)
{
	return k >= REDUCE && k <= EXSCAN;
}

static bool wanted(const char *only, enum kind k)
{
	const char *at = only;
	size_t n = strlen(names[k]);

	for (; only && (at = strstr(at, names[k])); at += n)
		if ((at == only || at[-1] == ',') && (!at[n] || at[n] == ','))
			return true;
	return !only;
}

static void make(struct op *o, const struct place *p, long id, const char *only)
{
	static const int sizes[] = { 0, 2, 4, 6, 10, 20, 64, 250, 300, 1000, 4000, 30000 };

	memset(o, 0, sizeof(*o));
	o->p = p;
	o->id = id;
	do
		o->kind = (enum kind)draw(KINDS);
	while (!wanted(only, o->kind) || (o->kind >= N_ALLGATHER && !p->topo) ||
	       (p->inter && (o->kind == SCAN || o->kind == EXSCAN)));
	o->form = (enum form)draw(3);
	o->large = draw(2);
	o->units = sizes[draw(draw(6) ? 9 : 12)];
	o->root = (int)draw((unsigned)(p->inter ? np : p->size));
	o->in_place = !p->inter && o->kind < N_ALLGATHER && o->kind != BARRIER && o->kind != BCAST && !draw(3);
	o->req = MPI_REQUEST_NULL;
	o->rounds = o->form == PERSISTENT ? 1 + (int)draw(3) : 1;
	if (p->inter) {		/* the number names a rank of both groups */
		int first = p->first ? p->size : p->peers;
		bool here = (o->root < first) == p->first;
		int root = o->root < first ? o->root : o->root - first;

		o->root = !here ? root : p->rank == root ? MPI_ROOT : MPI_PROC_NULL;
	}
	if (is_reduction(o->kind))
		plan_reduction(o);
	else
		plan_movement(o);
	if (o->in_place &&
	    (o->kind == GATHER || o->kind == GATHERV || o->kind == SCATTER || o->kind == SCATTERV || o->kind == REDUCE) &&
	    p->rank != o->root)
		o->in_place = false;
}

static void load(struct op *o)
{
	if (is_reduction(o->kind))
		load_reduction(o);
	else
		load_movement(o);
}

/* The rest of a long double is padding. */
#define LONG_DOUBLE_BYTES (LDBL_MANT_DIG == 64 ? 10 : sizeof(long double))

static void look(const struct op *o)
{
	static const char *const forms[] = { "blocking", "nonblocking", "persistent" };
	size_t n = o->recv.bytes, at = 0;

	if (is_reduction(o->kind) && o->in_place && o->kind >= REDUCE_SCATTER && o->kind <= REDUCE_SCATTER_BLOCK)
		n = (size_t)o->mine * (size_t)o->extent;	/* in place, the input stands behind the result */
	if (is_reduction(o->kind) && o->row >= 0 && rows[o->row].as == AS_LONG_DOUBLE) {
		for (; at < n && (o->recv.buf[at] == o->expect[at] || at % sizeof(long double) >= LONG_DOUBLE_BYTES); at++)
			;
		n = at < n;
	} else if (is_reduction(o->kind) && o->row >= 0 && rows[o->row].as == AS_PAIR) {
		/* pairs have holes with undefined bytes */
		for (size_t e = 0; e < n / (size_t)o->extent && at == 0; e++) {
			char a[32], b[32];
			int pa = 0, pb = 0;

			MPI_Pack(o->recv.buf + e * (size_t)o->extent, 1, o->type, a, 32, &pa, MPI_COMM_SELF);
			MPI_Pack(o->expect + e * (size_t)o->extent, 1, o->type, b, 32, &pb, MPI_COMM_SELF);
			if (o->type == MPI_LONG_DOUBLE_INT)
				memset(a + LONG_DOUBLE_BYTES, 0, sizeof(long double) - LONG_DOUBLE_BYTES),
				memset(b + LONG_DOUBLE_BYTES, 0, sizeof(long double) - LONG_DOUBLE_BYTES);
			if (memcmp(a, b, (size_t)pa))
				at = e + 1;
		}
		n = at;
	} else {
		for (; at < n && o->recv.buf[at] == o->expect[at]; at++)
			;
		n = at < n;
	}
	if (n)
		test_fail(__FILE__, __LINE__,
			  "seed %llu, batch %ld, operation %ld: %s %s%s%s, %s%s, root %d, %d units, in place %d, start %d, "
			  "row %d: wrong at %zu of %zu",
			  (unsigned long long)seed, batch, o->id, forms[o->form], names[o->kind], o->large ? "_c" : "", "",
			  o->p->inter ? "inter" : "intra", o->p->topo ? ", topology" : "", o->root, o->units, o->in_place,
			  o->starts, o->row, at, o->recv.bytes);
}

#define AT_ONCE 6

/* Waits for the active operations, in an order of this rank's own, for some of them in one call. */
static void complete(struct op *ops, int n, uint64_t *own)
{
	MPI_Request reqs[AT_ONCE];
	int flag = 0;

	for (int i = 0; i < n; i++)
		reqs[i] = ops[i].req;
	if (rnd(own) % 3 == 0) {
		for (int k = (int)(rnd(own) % (unsigned)n), i = 0; i < n; i++)
			MPI_Wait(&reqs[(i + k) % n], MPI_STATUS_IGNORE);
	} else if (rnd(own) % 2) {
		MPI_Waitall(n, reqs, MPI_STATUSES_IGNORE);
	} else {
		while (!flag)
			MPI_Testall(n, reqs, &flag, MPI_STATUSES_IGNORE);
	}
	for (int i = 0; i < n; i++) {
		CHECK((reqs[i] == MPI_REQUEST_NULL) == (ops[i].form != PERSISTENT));
		ops[i].req = reqs[i];
	}
}

/* Starts persistent operations in an order of this rank's own (section 6.13). */
static void start_persistent(const struct op *ops, int n, int round, bool together, uint64_t *own)
{
	MPI_Request start[AT_ONCE] = { MPI_REQUEST_NULL };
	int k = 0;

	for (int i = 0; i < n; i++)
		if (round < ops[i].rounds && ops[i].form == PERSISTENT) {
			int at = (int)(rnd(own) % (unsigned)(k + 1));

			start[k++] = start[at];
			start[at] = ops[i].req;
		}
	if (together)
		MPI_Startall(k, start);
	for (int i = 0; !together && i < k; i++)
		MPI_Start(&start[i]);
}

static void run_batch(const struct place *p, long *id, uint64_t *own, const char *only)
{
	static struct op ops[AT_ONCE];
	int n = 1 + (int)draw(AT_ONCE), most = 1;
	bool together = draw(2);

	for (int i = 0; i < n; i++) {
		make(&ops[i], p, (*id)++, only);
		most = ops[i].rounds > most ? ops[i].rounds : most;
		if (ops[i].form == PERSISTENT)
			call(&ops[i]);
	}
	for (int round = 0; round < most; round++) {
		bool late = rnd(own) % 2;

		for (int i = 0; i < n; i++) {
			ops[i].starts = round;
			if (round < ops[i].rounds)
				load(&ops[i]);
		}
		if (!late)
			start_persistent(ops, n, round, together, own);
		for (int i = 0; i < n; i++)
			if (round < ops[i].rounds && ops[i].form != PERSISTENT)
				call(&ops[i]);
		if (late)
			start_persistent(ops, n, round, together, own);
		complete(ops, n, own);
		for (int i = 0; i < n; i++)
			if (round < ops[i].rounds)
				look(&ops[i]);
	}
	for (int i = 0; i < n; i++) {
		if (ops[i].req != MPI_REQUEST_NULL)
			MPI_Request_free(&ops[i].req);
		free(ops[i].send.buf);
		free(ops[i].recv.buf);
		free(ops[i].expect);
	}
}

int main(int argc, char **argv)
{
	long batches, id = 0;
	uint64_t own;

	test_init(&argc, &argv);
	batches = argc > 1 ? atol(argv[1]) : 100;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	state = seed;
	own = mix(seed ^ (uint64_t)me * 77);
	CHECK(np <= 64);
	if (!me)
		printf("seed %llu\n", (unsigned long long)seed);
	make_types();
	make_operations();
	for (batch = 0; batch < batches; batch++) {
		struct place p;
		MPI_Comm part;
		bool world = false;

		switch (draw(6)) {
		case 0:
			if (place_inter(&p))
				break;
			/* fall through */
		case 1:
			MPI_Comm_split(MPI_COMM_WORLD, me < (np + 1) / 2, -me, &part);
			place_group(&p, part);
			break;
		case 2: place_grid(&p); break;
		case 3: place_graph(&p, false); break;
		case 4: place_graph(&p, true); break;
		default:
			place_group(&p, MPI_COMM_WORLD);
			world = true;
		}
		for (int k = 0; k < 3; k++)
			run_batch(&p, &id, &own, argc > 3 ? argv[3] : NULL);
		if (!world)
			MPI_Comm_free(&p.comm);
	}
	for (int i = 0; i < 3; i++)
		MPI_Op_free(&map_ops[i]);
	for (int i = 0; i < 2; i++)
		MPI_Type_free(&map_types[i]);
	for (int t = 1; t < TYPES; t++)
		MPI_Type_free(&types[t]);
	if (!me)
		printf("%ld operations\n", id);
	test_done("random");
	return 0;
}
