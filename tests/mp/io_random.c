/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random accesses under random views, against a model of the file that each rank keeps, byte for byte.
 *
 * A round: all ranks write through views that are parts of one tiling, so that no two write the same byte; then each rank reads
 * through a view of its own, and compares data, holes of its memory, and the count at the end of the file.
 *
 *     io_random PATH [rounds [seed]]
 */
#include "mpi_test.h"

#include <unistd.h>

#define FILE_MAX	(256 << 10)
#define BLOCKS		24

static unsigned char model[FILE_MAX];
static MPI_Offset model_size;

/* ---- views ------------------------------------------------------------------------------------------------------- */

struct view {
	MPI_Offset disp;
	int unit;			/* bytes of an etype */
	int n;
	int at[BLOCKS], len[BLOCKS];	/* bytes, in a tile */
	int size, extent;		/* of a tile */
};

/* The same on all ranks in a round: section 14.3 wants etypes of one extent. */
static int unit_of(uint64_t seed)
{
	return 1 << mix(seed) % 4;
}

/* The part of rank r of a tiling; the same for all ranks but for the owned blocks. */
static struct view view_part(uint64_t seed, int r, int ranks, int unit)
{
	uint64_t s = seed;
	struct view v = { .unit = unit, .disp = (MPI_Offset)(rnd(&s) % 3000) };
	int blocks = 1 + (int)(rnd(&s) % BLOCKS), at = 0, longest = rnd(&s) % 4 ? 40 : 400;

	for (int i = 0; i < blocks; i++) {
		int len = (1 + (int)(rnd(&s) % longest)) * v.unit;
		int owner = (int)(rnd(&s) % (ranks + 1));

		if (owner == r) {
			v.at[v.n] = at;
			v.len[v.n++] = len;
			v.size += len;
		}
		at += len;
	}
	v.extent = at;
	return v;
}

/* Where byte p of a view's data is in the file. */
static MPI_Offset view_at(const struct view *v, MPI_Offset p)
{
	MPI_Offset tile = p / v->size;
	int rest = (int)(p % v->size), i = 0;

	for (; rest >= v->len[i]; i++)
		rest -= v->len[i];
	return v->disp + tile * v->extent + v->at[i] + rest;
}

static MPI_Datatype etype_of(const struct view *v)
{
	return v->unit == 1 ? MPI_BYTE : v->unit == 2 ? MPI_SHORT : v->unit == 4 ? MPI_INT : MPI_DOUBLE;
}

static void set_view(MPI_File f, const struct view *v)
{
	MPI_Datatype blocks, filetype;
	MPI_Aint at[BLOCKS];
	int len[BLOCKS];

	for (int i = 0; i < v->n; i++) {
		at[i] = v->at[i];
		len[i] = v->len[i] / v->unit;
	}
	MPI_Type_create_hindexed(v->n, len, at, etype_of(v), &blocks);
	MPI_Type_create_resized(blocks, 0, v->extent, &filetype);
	MPI_Type_commit(&filetype);
	CHECK_EQ(MPI_File_set_view(f, v->disp, etype_of(v), filetype, "native", MPI_INFO_NULL), MPI_SUCCESS);
	MPI_Type_free(&filetype);
	MPI_Type_free(&blocks);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

#define HOLE 0xa5

/* n etypes in memory, with holes. */
struct memory {
	int unit, n, kind;
	MPI_Datatype type;
	MPI_Count count;
	size_t room;
	unsigned char *buf;
};

/* The offset in memory of byte k of the data. */
static size_t memory_at(const struct memory *m, size_t k)
{
	size_t e = k / (size_t)m->unit, in = k % (size_t)m->unit;

	switch (m->kind) {
	case 0: case 1: return k;
	case 2: return e * 2 * (size_t)m->unit + in;
	case 3: return (3 + e + e / 3 * 2) * (size_t)m->unit + in;
	default: return e * 3 * (size_t)m->unit + in;
	}
}

static struct memory memory_make(uint64_t *s, MPI_Datatype etype, int unit, int n)
{
	struct memory m = { .unit = unit, .n = n, .kind = n ? (int)(rnd(s) % 5) : 0 };
	int *len, groups = (n + 2) / 3;
	MPI_Aint *at;

	m.room = (size_t)(n + 4) * 3 * (size_t)unit;
	m.buf = malloc(m.room);
	memset(m.buf, HOLE, m.room);
	m.count = 1;
	switch (m.kind) {
	case 0:
		m.type = MPI_BYTE;
		m.count = n * unit;
		return m;
	case 1:
		m.type = etype;
		m.count = n;
		return m;
	case 2:
		MPI_Type_vector(n, 1, 2, etype, &m.type);
		break;
	case 3:
		len = malloc((size_t)groups * sizeof(*len));
		at = malloc((size_t)groups * sizeof(*at));
		for (int i = 0; i < groups; i++) {
			len[i] = n - 3 * i < 3 ? n - 3 * i : 3;
			at[i] = (3 + 5 * i) * unit;
		}
		MPI_Type_create_hindexed(groups, len, at, etype, &m.type);
		free(len);
		free(at);
		break;
	default:
		MPI_Type_create_resized(etype, 0, 3 * unit, &m.type);
		m.count = n;
	}
	MPI_Type_commit(&m.type);
	return m;
}

static void memory_free(struct memory *m)
{
	if (m->kind > 1)
		MPI_Type_free(&m->type);
	free(m->buf);
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

enum form { AT, OWN, IAT, IOWN, INDEPENDENT, ALL = INDEPENDENT, AT_ALL, IALL, IAT_ALL, SPLIT, AT_SPLIT, FORMS };

static int forms = FORMS;

static void transfer(MPI_File f, int form, int writes, MPI_Offset offset, const struct memory *m, MPI_Status *status)
{
	MPI_Request r = MPI_REQUEST_NULL;
	int rc = -1, flag, at = form == AT || form == IAT || form == AT_ALL || form == IAT_ALL || form == AT_SPLIT;

	if (!at)
		MPI_File_seek(f, offset, MPI_SEEK_SET);
	switch (form) {
	case AT:
		rc = writes ? MPI_File_write_at_c(f, offset, m->buf, m->count, m->type, status) :
			      MPI_File_read_at_c(f, offset, m->buf, m->count, m->type, status);
		break;
	case OWN:
		rc = writes ? MPI_File_write(f, m->buf, (int)m->count, m->type, status) :
			      MPI_File_read(f, m->buf, (int)m->count, m->type, status);
		break;
	case IAT:
		rc = writes ? MPI_File_iwrite_at(f, offset, m->buf, (int)m->count, m->type, &r) :
			      MPI_File_iread_at(f, offset, m->buf, (int)m->count, m->type, &r);
		break;
	case IOWN:
		rc = writes ? MPI_File_iwrite_c(f, m->buf, m->count, m->type, &r) :
			      MPI_File_iread_c(f, m->buf, m->count, m->type, &r);
		break;
	case ALL:
		rc = writes ? MPI_File_write_all(f, m->buf, (int)m->count, m->type, status) :
			      MPI_File_read_all(f, m->buf, (int)m->count, m->type, status);
		break;
	case AT_ALL:
		rc = writes ? MPI_File_write_at_all_c(f, offset, m->buf, m->count, m->type, status) :
			      MPI_File_read_at_all_c(f, offset, m->buf, m->count, m->type, status);
		break;
	case IALL:
		rc = writes ? MPI_File_iwrite_all_c(f, m->buf, m->count, m->type, &r) :
			      MPI_File_iread_all_c(f, m->buf, m->count, m->type, &r);
		break;
	case IAT_ALL:
		rc = writes ? MPI_File_iwrite_at_all(f, offset, m->buf, (int)m->count, m->type, &r) :
			      MPI_File_iread_at_all(f, offset, m->buf, (int)m->count, m->type, &r);
		break;
	case SPLIT:
		rc = writes ? MPI_File_write_all_begin(f, m->buf, (int)m->count, m->type) :
			      MPI_File_read_all_begin(f, m->buf, (int)m->count, m->type);
		CHECK_EQ(rc, MPI_SUCCESS);
		rc = writes ? MPI_File_write_all_end(f, m->buf, status) : MPI_File_read_all_end(f, m->buf, status);
		break;
	case AT_SPLIT:
		rc = writes ? MPI_File_write_at_all_begin(f, offset, m->buf, (int)m->count, m->type) :
			      MPI_File_read_at_all_begin(f, offset, m->buf, (int)m->count, m->type);
		CHECK_EQ(rc, MPI_SUCCESS);
		rc = writes ? MPI_File_write_at_all_end(f, m->buf, status) : MPI_File_read_at_all_end(f, m->buf, status);
		break;
	}
	CHECK_EQ(rc, MPI_SUCCESS);
	if (r != MPI_REQUEST_NULL) {
		if (offset & 1) {
			rc = MPI_Wait(&r, status);
		} else {
			do
				rc = MPI_Test(&r, &flag, status);
			while (!rc && !flag);
		}
		CHECK_EQ(rc, MPI_SUCCESS);
	}
	if (!at) {
		MPI_Offset position;

		MPI_File_get_position(f, &position);
		CHECK_EQ(position, offset + m->n);
	}
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* The data that one rank writes in a round; every rank has these of all ranks. */
struct part {
	struct view v;
	uint64_t seed;
	MPI_Offset offset;		/* etypes */
	int n;
};

static struct part part_of(uint64_t round_seed, int r)
{
	struct part p = { .v = view_part(round_seed, r, np, unit_of(round_seed)), .seed = seed_of(r, 1, 2, (int)round_seed) };
	uint64_t s = p.seed;

	if (p.v.size) {
		p.offset = (MPI_Offset)(rnd(&s) % (uint64_t)(2 * p.v.size / p.v.unit + 1));
		p.n = (int)(rnd(&s) % (uint64_t)(3 * p.v.size / p.v.unit + 1));
		while (p.n && view_at(&p.v, (p.offset + p.n) * p.v.unit - 1) >= FILE_MAX)
			p.n /= 2;
	}
	return p;
}

static unsigned char value(const struct part *p, int k)
{
	return (unsigned char)mix(p->seed + (uint64_t)k);
}

static void write_round(MPI_File f, uint64_t seed, int form)
{
	struct part mine = part_of(seed, me);
	uint64_t s = seed_of(me, 3, 4, (int)seed);
	struct memory m = memory_make(&s, etype_of(&mine.v), mine.v.unit, mine.n);
	MPI_Status status;
	int bytes;

	for (int k = 0; k < mine.n * mine.v.unit; k++)
		m.buf[memory_at(&m, (size_t)k)] = value(&mine, k);
	set_view(f, &mine.v);
	if (form < INDEPENDENT)
		form = (int)(rnd(&s) % INDEPENDENT);
	transfer(f, form, 1, mine.offset, &m, &status);
	MPI_Get_count(&status, MPI_BYTE, &bytes);
	CHECK_EQ(bytes, mine.n * mine.v.unit);
	memory_free(&m);
	for (int r = 0; r < np; r++) {
		struct part p = part_of(seed, r);

		for (int k = 0; k < p.n * p.v.unit; k++) {
			MPI_Offset at = view_at(&p.v, p.offset * p.v.unit + k);

			model[at] = value(&p, k);
			if (at >= model_size)
				model_size = at + 1;
		}
	}
}

static void read_round(MPI_File f, uint64_t seed, int form)
{
	uint64_t s = seed_of(me, 5, 6, (int)seed);
	struct view v = view_part(rnd(&s), 0, 1, unit_of(seed));
	MPI_Offset offset = 0, expect, size;
	int n = 0, bytes;
	MPI_Status status;
	struct memory m;

	if (v.size) {
		offset = (MPI_Offset)(rnd(&s) % (uint64_t)(2 * v.size / v.unit + 1));
		n = (int)(rnd(&s) % (uint64_t)(4 * v.size / v.unit + 1));
	}
	m = memory_make(&s, etype_of(&v), v.unit, n);
	set_view(f, &v);
	MPI_File_get_size(f, &size);
	CHECK_EQ(size, model_size);
	if (form < INDEPENDENT)
		form = (int)(rnd(&s) % INDEPENDENT);
	transfer(f, form, 0, offset, &m, &status);
	for (expect = 0; expect < n * v.unit && view_at(&v, offset * v.unit + expect) < model_size; expect++)
		;
	MPI_Get_count(&status, MPI_BYTE, &bytes);
	CHECK_EQ(bytes, expect);
	for (int k = 0; k < n * v.unit; k++) {
		unsigned char *p = &m.buf[memory_at(&m, (size_t)k)];
		MPI_Offset at = view_at(&v, offset * v.unit + k);

		if (*p != (k < expect ? model[at] : HOLE))
			test_fail(__FILE__, __LINE__, "byte %d of the data, at %lld in the file: %#x, should be %#x", k,
				  (long long)at, *p, k < expect ? model[at] : HOLE);
		*p = HOLE;
	}
	for (size_t i = 0; i < m.room; i++)
		if (m.buf[i] != HOLE)
			test_fail(__FILE__, __LINE__, "byte %zu of memory, a hole, was written", i);
	memory_free(&m);
}

int main(int argc, char **argv)
{
	int rounds;
	uint64_t seed;
	MPI_File f;
	MPI_Info info;

	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no path");
	rounds = argc > 2 ? atoi(argv[2]) : 60;
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	if (getenv("IO_INDEPENDENT"))
		forms = INDEPENDENT;
	MPI_Info_create(&info);
	MPI_Info_set(info, "ind_rd_buffer_size", seed & 1 ? "4096" : "100000");
	MPI_Info_set(info, "cb_buffer_size", seed & 2 ? "4096" : "20000");
	MPI_Info_set(info, "collective_buffering", seed & 4 ? "true" : "automatic");
	if (seed & 8)
		MPI_Info_set(info, "cb_nodes", "2");
	CHECK_EQ(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &f),
		 MPI_SUCCESS);
	CHECK_EQ(MPI_File_set_size(f, 0), MPI_SUCCESS);
	MPI_Info_free(&info);
	for (int round = 0; round < rounds; round++) {
		uint64_t s = mix(seed * 1000003u + (uint64_t)round), kind = rnd(&s);

		if (round % 4 == 0) {
			/* windows in the exchange of the next one: at all ranks, at none, at some */
			MPI_Info_create(&info);
			MPI_Info_set(info, "heddle_overlap", round % 12 == 0 || (round % 12 == 8 && me & 1) ? "true" : "false");
			CHECK_EQ(MPI_File_set_info(f, info), MPI_SUCCESS);
			MPI_Info_free(&info);
		}
		if (kind % 16 == 0)
			CHECK_EQ(MPI_File_set_atomicity(f, (int)(rnd(&s) & 1)), MPI_SUCCESS);
		if (kind % 16 == 1) {
			MPI_Offset size = (MPI_Offset)(rnd(&s) % FILE_MAX);

			CHECK_EQ(MPI_File_set_size(f, size), MPI_SUCCESS);
			if (size < model_size)
				memset(model + size, 0, (size_t)(model_size - size));
			model_size = size;
		}
		write_round(f, rnd(&s) >> 1, (int)(rnd(&s) % (unsigned)forms));
		MPI_File_sync(f);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_File_sync(f);
		read_round(f, rnd(&s) >> 1, (int)(rnd(&s) % (unsigned)forms));
		MPI_Barrier(MPI_COMM_WORLD);
	}
	CHECK_EQ(MPI_File_close(&f), MPI_SUCCESS);
	/* rank 0 has deleted the file; a client of NFS on another host may know the name for some time */
	CHECK(me || access(argv[1], F_OK));
	if (!me)
		printf("ok: %d ranks, %d rounds\n", np, rounds);
	MPI_Finalize();
	return 0;
}
