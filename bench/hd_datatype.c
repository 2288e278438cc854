/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_datatype: MPI_Pack and MPI_Unpack of usual layouts beside loops written by hand, in turns, in one run; -s: messages of them. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One layout at one size: memory, its type, and the loops. */
struct layout {
	MPI_Datatype type;
	int count;		/* elements of the type */
	size_t bytes, span;	/* packed; in memory */
	long n, stride;		/* parameters of the loops */
	int *lengths, *places;
};

/* ---- layouts, with their loops -------------------------------------------------------------------------------------- */

struct particle {
	double x[3];
	float charge;		/* not sent */
	int id;
	short kind;
};

#define BLOCK	4		/* doubles of a vector's blocks */

static void vector_new(struct layout *l, size_t bytes)
{
	l->n = (long)(bytes / sizeof(double));
	l->stride = 3;
	MPI_Type_vector((int)l->n, 1, (int)l->stride, MPI_DOUBLE, &l->type);
	l->bytes = (size_t)l->n * sizeof(double);
	l->span = l->bytes * (size_t)l->stride;
}

static void vector_pack(const struct layout *l, const void *mem, void *packed)
{
	const double *from = mem;
	double *to = packed;

	for (long i = 0; i < l->n; i++)
		to[i] = from[i * l->stride];
}

static void vector_unpack(const struct layout *l, void *mem, const void *packed)
{
	const double *from = packed;
	double *to = mem;

	for (long i = 0; i < l->n; i++)
		to[i * l->stride] = from[i];
}

static void blocks_new(struct layout *l, size_t bytes)
{
	l->n = (long)(bytes / (BLOCK * sizeof(double)));
	l->stride = 3 * BLOCK;
	MPI_Type_vector((int)l->n, BLOCK, (int)l->stride, MPI_DOUBLE, &l->type);
	l->bytes = (size_t)l->n * BLOCK * sizeof(double);
	l->span = l->bytes * 3;
}

static void blocks_pack(const struct layout *l, const void *mem, void *packed)
{
	const double *from = mem;
	double *to = packed;

	for (long i = 0; i < l->n; i++)
		for (int k = 0; k < BLOCK; k++)
			*to++ = from[i * l->stride + k];
}

static void blocks_unpack(const struct layout *l, void *mem, const void *packed)
{
	const double *from = packed;
	double *to = mem;

	for (long i = 0; i < l->n; i++)
		for (int k = 0; k < BLOCK; k++)
			to[i * l->stride + k] = *from++;
}

/* Displacements ascend by 1 to 7 doubles, or by the length of the block before; the same in every run. */
static void places_new(struct layout *l, bool lengths)
{
	uint64_t state = 1;
	int at = 0;

	l->lengths = malloc((size_t)l->n * sizeof(int));
	l->places = malloc((size_t)l->n * sizeof(int));
	if (!l->lengths || !l->places)
		hdb_die("out of memory");
	l->bytes = 0;
	for (long i = 0; i < l->n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		l->lengths[i] = lengths ? 1 + (int)(state >> 40) % 8 : 1;
		l->places[i] = at;
		at += l->lengths[i] + (int)(state >> 50) % 7;
		l->bytes += (size_t)l->lengths[i] * sizeof(double);
	}
	l->span = (size_t)at * sizeof(double);
}

static void gather_new(struct layout *l, size_t bytes)
{
	l->n = (long)(bytes / sizeof(double));
	places_new(l, false);
	MPI_Type_create_indexed_block((int)l->n, 1, l->places, MPI_DOUBLE, &l->type);
}

static void gather_pack(const struct layout *l, const void *mem, void *packed)
{
	const double *from = mem;
	double *to = packed;

	for (long i = 0; i < l->n; i++)
		to[i] = from[l->places[i]];
}

static void gather_unpack(const struct layout *l, void *mem, const void *packed)
{
	const double *from = packed;
	double *to = mem;

	for (long i = 0; i < l->n; i++)
		to[l->places[i]] = from[i];
}

static void indexed_new(struct layout *l, size_t bytes)
{
	l->n = (long)(bytes / (9 * sizeof(double) / 2));
	places_new(l, true);
	MPI_Type_indexed((int)l->n, l->lengths, l->places, MPI_DOUBLE, &l->type);
}

static void indexed_pack(const struct layout *l, const void *mem, void *packed)
{
	const double *from = mem;
	double *to = packed;

	for (long i = 0; i < l->n; i++)
		for (int k = 0; k < l->lengths[i]; k++)
			*to++ = from[l->places[i] + k];
}

static void indexed_unpack(const struct layout *l, void *mem, const void *packed)
{
	const double *from = packed;
	double *to = mem;

	for (long i = 0; i < l->n; i++)
		for (int k = 0; k < l->lengths[i]; k++)
			to[l->places[i] + k] = *from++;
}

enum { PARTICLE = 3 * sizeof(double) + sizeof(int) + sizeof(short) };

static void struct_new(struct layout *l, size_t bytes)
{
	int lengths[3] = {3, 1, 1};
	MPI_Aint places[3] = {offsetof(struct particle, x), offsetof(struct particle, id), offsetof(struct particle, kind)};
	MPI_Datatype types[3] = {MPI_DOUBLE, MPI_INT, MPI_SHORT}, members;

	l->n = l->count = (int)(bytes / PARTICLE);
	MPI_Type_create_struct(3, lengths, places, types, &members);
	MPI_Type_create_resized(members, 0, sizeof(struct particle), &l->type);
	MPI_Type_free(&members);
	l->bytes = (size_t)l->n * PARTICLE;
	l->span = (size_t)l->n * sizeof(struct particle);
}

static void struct_pack(const struct layout *l, const void *mem, void *packed)
{
	const struct particle *p = mem;
	char *to = packed;

	for (long i = 0; i < l->n; i++, to += PARTICLE) {
		memcpy(to, p[i].x, sizeof(p[i].x));
		memcpy(to + sizeof(p[i].x), &p[i].id, sizeof(p[i].id));
		memcpy(to + sizeof(p[i].x) + sizeof(p[i].id), &p[i].kind, sizeof(p[i].kind));
	}
}

static void struct_unpack(const struct layout *l, void *mem, const void *packed)
{
	struct particle *p = mem;
	const char *from = packed;

	for (long i = 0; i < l->n; i++, from += PARTICLE) {
		memcpy(p[i].x, from, sizeof(p[i].x));
		memcpy(&p[i].id, from + sizeof(p[i].x), sizeof(p[i].id));
		memcpy(&p[i].kind, from + sizeof(p[i].x) + sizeof(p[i].id), sizeof(p[i].kind));
	}
}

static long root(size_t bytes)
{
	long n = 1;

	while ((size_t)((n + 1) * (n + 1)) * sizeof(double) <= bytes)
		n++;
	return n;
}

/* A face of a cube of doubles with a rim of one: x is the dimension whose elements lie side by side. */
static void face_new(struct layout *l, size_t bytes, int thin)
{
	int n = (int)root(bytes), sizes[3], subsizes[3], starts[3] = {1, 1, 1};

	/* beyond the cache a cube would not fit anywhere: the dimension that the face does not have is short */
	for (int d = 0; d < 3; d++) {
		sizes[d] = n + 2;
		subsizes[d] = n;
	}
	sizes[thin] = n + 2 < 34 ? n + 2 : 34;
	subsizes[thin] = 1;
	MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &l->type);
	l->n = n;
	l->stride = sizes[2];
	l->bytes = (size_t)n * (size_t)n * sizeof(double);
	l->span = (size_t)sizes[0] * (size_t)sizes[1] * (size_t)sizes[2] * sizeof(double);
}

static void face_yz_new(struct layout *l, size_t bytes)
{
	face_new(l, bytes, 2);
}

static void face_yz_pack(const struct layout *l, const void *mem, void *packed)
{
	const long n = l->n, s = l->stride;
	const double *from = mem;
	double *to = packed;

	for (long z = 1; z <= n; z++)
		for (long y = 1; y <= n; y++)
			*to++ = from[(z * (n + 2) + y) * s + 1];
}

static void face_yz_unpack(const struct layout *l, void *mem, const void *packed)
{
	const long n = l->n, s = l->stride;
	const double *from = packed;
	double *to = mem;

	for (long z = 1; z <= n; z++)
		for (long y = 1; y <= n; y++)
			to[(z * (n + 2) + y) * s + 1] = *from++;
}

static void face_xz_new(struct layout *l, size_t bytes)
{
	face_new(l, bytes, 1);
}

static void face_xz_pack(const struct layout *l, const void *mem, void *packed)
{
	const long n = l->n, rows = n + 2 < 34 ? n + 2 : 34;
	const double *from = mem;
	double *to = packed;

	for (long z = 1; z <= n; z++)
		for (long x = 1; x <= n; x++)
			*to++ = from[(z * rows + 1) * (n + 2) + x];
}

static void face_xz_unpack(const struct layout *l, void *mem, const void *packed)
{
	const long n = l->n, rows = n + 2 < 34 ? n + 2 : 34;
	const double *from = packed;
	double *to = mem;

	for (long z = 1; z <= n; z++)
		for (long x = 1; x <= n; x++)
			to[(z * rows + 1) * (n + 2) + x] = *from++;
}

static void face_xy_new(struct layout *l, size_t bytes)
{
	face_new(l, bytes, 0);
}

static void face_xy_pack(const struct layout *l, const void *mem, void *packed)
{
	const long n = l->n;
	const double *from = mem;
	double *to = packed;

	for (long y = 1; y <= n; y++)
		for (long x = 1; x <= n; x++)
			*to++ = from[((n + 2) + y) * (n + 2) + x];
}

static void face_xy_unpack(const struct layout *l, void *mem, const void *packed)
{
	const long n = l->n;
	const double *from = packed;
	double *to = mem;

	for (long y = 1; y <= n; y++)
		for (long x = 1; x <= n; x++)
			to[((n + 2) + y) * (n + 2) + x] = *from++;
}

static void transpose_new(struct layout *l, size_t bytes)
{
	MPI_Datatype column, next;
	int n = (int)root(bytes);

	MPI_Type_vector(n, 1, n, MPI_DOUBLE, &column);
	MPI_Type_create_resized(column, 0, sizeof(double), &next);
	MPI_Type_contiguous(n, next, &l->type);
	MPI_Type_free(&column);
	MPI_Type_free(&next);
	l->n = n;
	l->bytes = l->span = (size_t)n * (size_t)n * sizeof(double);
}

static void transpose_pack(const struct layout *l, const void *mem, void *packed)
{
	const double *from = mem;
	double *to = packed;

	for (long i = 0; i < l->n; i++)
		for (long j = 0; j < l->n; j++)
			to[i * l->n + j] = from[j * l->n + i];
}

static void transpose_unpack(const struct layout *l, void *mem, const void *packed)
{
	const double *from = packed;
	double *to = mem;

	for (long i = 0; i < l->n; i++)
		for (long j = 0; j < l->n; j++)
			to[j * l->n + i] = from[i * l->n + j];
}

static const struct pattern {
	const char *name;
	void (*make)(struct layout *l, size_t bytes);
	void (*pack)(const struct layout *l, const void *mem, void *packed);
	void (*unpack)(const struct layout *l, void *mem, const void *packed);
} patterns[] = {
#define PATTERN(name) {#name, name##_new, name##_pack, name##_unpack}
	PATTERN(vector), PATTERN(blocks), PATTERN(gather), PATTERN(indexed), PATTERN(struct), PATTERN(face_xy),
	PATTERN(face_xz), PATTERN(face_yz), PATTERN(transpose),
};
enum { PATTERNS = sizeof(patterns) / sizeof(patterns[0]) };

/* ---- measuring ------------------------------------------------------------------------------------------------------ */

enum { PACK, PACK_BY_HAND, UNPACK, UNPACK_BY_HAND, WAYS };
enum { ROUNDS = 20, LEAST = 64 };

static struct hdb_buffer mem, packed;

static void once(const struct pattern *p, const struct layout *l, int way)
{
	int position = 0;

	switch (way) {
	case PACK:
		MPI_Pack(mem.p, l->count, l->type, packed.p, (int)packed.bytes, &position, MPI_COMM_SELF);
		break;
	case PACK_BY_HAND:
		p->pack(l, mem.p, packed.p);
		break;
	case UNPACK:
		MPI_Unpack(packed.p, (int)l->bytes, &position, mem.p, l->count, l->type, MPI_COMM_SELF);
		break;
	default:
		p->unpack(l, mem.p, packed.p);
	}
}

static double time_of(const struct pattern *p, const struct layout *l, int way, long iterations)
{
	int64_t begin = hdb_now();

	for (long i = 0; i < iterations; i++)
		once(p, l, way);
	return (double)(hdb_now() - begin) / (double)iterations;
}

/* ns of each way: the fastest of rounds in which all take turns, each for a millisecond or two. */
static void measure(const struct pattern *p, const struct layout *l, double *ns)
{
	long iterations[WAYS];

	for (int way = 0; way < WAYS; way++) {
		double t = time_of(p, l, way, 2);

		t = time_of(p, l, way, 1 + (long)(1e5 / (t + 1)));
		iterations[way] = 1 + (long)(1e6 / (t + 1));
		ns[way] = t;
	}
	for (int round = 0; round < ROUNDS; round++)
		for (int way = 0; way < WAYS; way++) {
			double t = time_of(p, l, way, iterations[way]);

			ns[way] = t < ns[way] ? t : ns[way];
		}
}

/* Runs both ways; returns the number of bytes in which their results differ. */
static size_t validate(const struct pattern *p, const struct layout *l)
{
	unsigned char *other = malloc(l->span > l->bytes ? l->span : l->bytes);
	size_t wrong = 0;

	if (!other)
		hdb_die("out of memory");
	hdb_fill(mem.p, l->span, 1);
	once(p, l, PACK);
	memcpy(other, packed.p, l->bytes);
	memset(packed.p, 0, l->bytes);
	once(p, l, PACK_BY_HAND);
	for (size_t i = 0; i < l->bytes; i++)
		wrong += other[i] != packed.p[i];
	hdb_fill(packed.p, l->bytes, 2);
	memset(mem.p, 0, l->span);
	once(p, l, UNPACK);
	memcpy(other, mem.p, l->span);
	memset(mem.p, 0, l->span);
	once(p, l, UNPACK_BY_HAND);
	for (size_t i = 0; i < l->span; i++)
		wrong += other[i] != mem.p[i];
	if (wrong)
		fprintf(stderr, "hd_datatype: %s, %zu bytes: %zu bytes differ\n", p->name, l->bytes, wrong);
	free(other);
	return wrong + hdb_guard(&mem) + hdb_guard(&packed);
}

/* ---- messages ------------------------------------------------------------------------------------------------------- */

enum { TYPED, FROM_HERE, TO_HERE, BY_HAND, SENDS };

/* A message of one rank to the other, with the type on both sides, on one (the other has one run), or copied by loops. */
static void pass(const struct pattern *p, const struct layout *l, int from, int way)
{
	bool sends = hdb_rank == from, typed = way == TYPED || way == (sends ? FROM_HERE : TO_HERE);
	void *buf = typed ? mem.p : packed.p;
	int count = typed ? l->count : (int)l->bytes;
	MPI_Datatype type = typed ? l->type : MPI_BYTE;

	if (sends && way == BY_HAND)
		p->pack(l, mem.p, packed.p);
	if (sends)
		MPI_Send(buf, count, type, !from, 1, MPI_COMM_WORLD);
	else
		MPI_Recv(buf, count, type, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (!sends && way == BY_HAND)
		p->unpack(l, mem.p, packed.p);
}

static double trips(const struct pattern *p, const struct layout *l, int way, long n)
{
	int64_t begin = hdb_now();

	for (long i = 0; i < n; i++) {
		pass(p, l, 0, way);
		pass(p, l, 1, way);
	}
	return (double)(hdb_now() - begin) / (double)n / 2e3;
}

/* us there, half of there and back; the fastest of rounds in which all ways take turns. */
static void measure_messages(const struct pattern *p, const struct layout *l, double *us)
{
	long n = (long)(((size_t)4 << 20) / l->bytes);

	n = n < 2 ? 2 : n > 200 ? 200 : n;
	for (int round = 0; round < 1 + ROUNDS / 4; round++)
		for (int way = 0; way < SENDS; way++) {
			double t = trips(p, l, way, n);

			us[way] = !round || t < us[way] ? t : us[way];	/* the first one finds cold caches, and no connection */
		}
}

/* Whether data packed by hand and received with the type, or the other way round, is unchanged. */
static size_t validate_messages(const struct pattern *p, const struct layout *l)
{
	size_t wrong = 0;

	for (int way = 0; way < SENDS; way++) {
		hdb_fill(packed.p, l->bytes, hdb_rank ? 2 : 3);
		if (!hdb_rank)
			p->unpack(l, mem.p, packed.p);
		pass(p, l, 0, way);
		if (!hdb_rank)
			continue;
		if (way == TYPED || way == TO_HERE)
			p->pack(l, mem.p, packed.p);
		wrong += hdb_check(packed.p, l->bytes, 3, p->name);
	}
	return wrong + hdb_guard(&mem) + hdb_guard(&packed);
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

static size_t run_messages(const struct pattern *p, const struct layout *l)
{
	double us[SENDS];
	size_t wrong = hdb.validate ? validate_messages(p, l) : 0;

	measure_messages(p, l, us);
	if (!hdb_rank)
		printf("%-10s", p->name);
	hdb_row((long long)l->bytes, us, SENDS);
	return wrong;
}

static size_t run_copies(const struct pattern *p, const struct layout *l)
{
	double ns[WAYS], values[6];
	size_t wrong = hdb.validate ? validate(p, l) : 0;

	measure(p, l, ns);
	for (int way = 0; way < WAYS; way++)
		values[way / 2 * 3 + way % 2] = (double)l->bytes / ns[way];
	values[2] = ns[PACK_BY_HAND] / ns[PACK];
	values[5] = ns[UNPACK_BY_HAND] / ns[UNPACK];
	if (!hdb_rank)
		printf("%-10s", p->name);
	hdb_row((long long)l->bytes, values, 6);
	return wrong;
}

static size_t run(const struct pattern *p, size_t bytes, bool messages)
{
	struct layout l = {.count = 1};
	size_t wrong;

	p->make(&l, bytes);
	MPI_Type_commit(&l.type);
	hdb_buffer_new(&mem, l.span);
	hdb_buffer_new(&packed, l.bytes);
	hdb_fill(mem.p, l.span, 1);
	wrong = messages ? run_messages(p, &l) : run_copies(p, &l);
	hdb_buffer_free(&mem);
	hdb_buffer_free(&packed);
	MPI_Type_free(&l.type);
	free(l.lengths);
	free(l.places);
	return wrong;
}

int main(int argc, char **argv)
{
	static const char *only;
	static bool messages;
	static const struct hdb_option extra[] = {
		{'p', "pattern", HDB_TEXT, &only, 0, NULL, "NAME", "measure this layout alone"},
		{'s', "send", HDB_FLAG, &messages, 0, NULL, NULL, "measure messages between two ranks instead, in us there"},
		{.name = NULL},
	};
	static const struct hdb_program program = {
		.name = "hd_datatype",
		.title = "MPI Datatype Packing Test",
		.features = HDB_SIZES | HDB_VALIDATE,
		.defaults = {.sizes = {1 << 10, 4 << 20}},
		.least_ranks = 1,
		.extra = extra,
	};
	const char *columns[] = {"Layout  Size", "Pack(GB/s)", "By hand(GB/s)", "Ratio", "Unpack(GB/s)", "By hand(GB/s)",
				 "Ratio", NULL};
	const char *sent[] = {"Layout  Size", "Both sides(us)", "Sender(us)", "Receiver(us)", "By hand(us)", NULL};
	const char *notes[] = {"Packed bytes of doubles; struct: 3 doubles, an int and a short of 40 bytes.", NULL};
	size_t wrong = 0;
	bool known = false;

	hdb_start(argc, argv, &program);
	for (int i = 0; i < PATTERNS; i++)
		known |= !only || !strcmp(only, patterns[i].name);
	if (!known)
		hdb_quit(HDB_USAGE, "no layout is called %s: there are vector, blocks, gather, indexed, struct, face_xy, face_xz, "
			 "face_yz, transpose", only);
	if (messages && hdb_ranks != 2)
		hdb_quit(HDB_USAGE, "-s wants two ranks, there are %d", hdb_ranks);
	hdb_header(notes, messages ? sent : columns);
	if (hdb.sizes.min < LEAST)
		hdb.sizes.min = LEAST;
	for (int i = 0; i < PATTERNS; i++)
		for (size_t size = hdb.sizes.min; size <= hdb.sizes.max && (!only || !strcmp(only, patterns[i].name)); size *= 4)
			wrong += run(&patterns[i], size, messages);
	return hdb_finish(wrong);
}
