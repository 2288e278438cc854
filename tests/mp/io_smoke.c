/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: open and its errors, sizes, views, pointers, the end of the file, error handlers, requests. Any number of ranks.
 *
 *     io_smoke DIRECTORY
 */
#include "io_test.h"

#include <sys/stat.h>
#include <unistd.h>

static char path[512];

static MPI_File open_file(int amode)
{
	MPI_File f;

	WORKS(MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &f));
	return f;
}

static void test_open(const char *dir)
{
	char other[600];
	MPI_File f;
	int amode;

	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f), MPI_ERR_NO_SUCH_FILE);
	CHECK(f == MPI_FILE_NULL);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
	FAILS(MPI_File_open(MPI_COMM_WORLD, dir, MPI_MODE_RDONLY, MPI_INFO_NULL, &f), MPI_ERR_BAD_FILE);
	snprintf(other, sizeof(other), "%s/none/file", dir);
	FAILS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_NO_SUCH_FILE);
	snprintf(other, sizeof(other), "%s/%0300d", dir, 0);
	FAILS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_BAD_FILE);
	if (np > 1) {
		FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | (me ? MPI_MODE_RDWR : MPI_MODE_WRONLY),
				    MPI_INFO_NULL, &f),
		      MPI_ERR_NOT_SAME);
		CHECK(access(path, F_OK));
		FAILS(MPI_File_open(MPI_COMM_WORLD, path, me ? MPI_MODE_RDONLY : 0, MPI_INFO_NULL, &f), MPI_ERR_AMODE);
	}
	FAILS(MPI_File_open(MPI_COMM_NULL, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f), MPI_ERR_COMM);
	f = open_file(MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
	WORKS(MPI_File_get_amode(f, &amode));
	CHECK_EQ(amode, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
	WORKS(MPI_File_close(&f));
	CHECK(f == MPI_FILE_NULL);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &f),
	      MPI_ERR_FILE_EXISTS);
	FAILS(MPI_File_close(&f), MPI_ERR_FILE);
	meet(sync_comm);
	snprintf(other, sizeof(other), "%s%s", me & 1 ? "ufs:" : "", path);
	WORKS(MPI_File_open(MPI_COMM_SELF, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
	WORKS(MPI_File_close(&f));
	meet(sync_comm);
	if (!me)
		WORKS(MPI_File_delete(path, MPI_INFO_NULL));
	meet(sync_comm);
	FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
	meet(sync_comm);
}

static void test_sizes(void)
{
	MPI_File f = open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
	MPI_Offset size;

	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 0);
	WORKS(MPI_File_set_size(f, 1000));
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 1000);
	WORKS(MPI_File_preallocate(f, 500));
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 1000);
	meet(sync_comm);
	WORKS(MPI_File_preallocate(f, 5000));
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 5000);
	FAILS(MPI_File_set_size(f, -1), MPI_ERR_ARG);
	if (np > 1)
		FAILS(MPI_File_set_size(f, me), MPI_ERR_NOT_SAME);
	meet(sync_comm);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_close(&f));
	f = open_file(MPI_MODE_RDONLY);
	FAILS(MPI_File_set_size(f, 1), MPI_ERR_READ_ONLY);
	FAILS(MPI_File_write_at(f, 0, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
	WORKS(MPI_File_close(&f));
	f = open_file(MPI_MODE_WRONLY);
	FAILS(MPI_File_read_at(f, 0, &size, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
	WORKS(MPI_File_close(&f));
}

static void test_data(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR);
	int v[64], n, value;
	MPI_Offset at, size;
	MPI_Status status;
	MPI_Request r[3];

	for (int i = 0; i < 64; i++)
		v[i] = 1000 * me + i;
	WORKS(MPI_File_write_at(f, me * (MPI_Offset)sizeof(v), v, 64, MPI_INT, &status));
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK_EQ(n, 64);
	meet_file(f);
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, np * (MPI_Offset)sizeof(v));
	WORKS(MPI_File_read_at(f, (np - 1) * (MPI_Offset)sizeof(v) + 40, v, 64, MPI_INT, &status));
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK_EQ(n, 54);
	CHECK_EQ(v[0], 1000 * (np - 1) + 10);
	WORKS(MPI_File_read_at(f, size, v, 64, MPI_INT, &status));
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK_EQ(n, 0);
	/* pointers, in etypes */
	WORKS(MPI_File_set_view(f, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, 0);
	WORKS(MPI_File_read(f, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
	CHECK_EQ(value, 2);
	WORKS(MPI_File_seek(f, 2, MPI_SEEK_CUR));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, 3);
	WORKS(MPI_File_get_byte_offset(f, at, &at));
	CHECK_EQ(at, 8 + 3 * 4);
	WORKS(MPI_File_seek(f, -1, MPI_SEEK_END));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, size / 4 - 2 - 1);
	WORKS(MPI_File_read(f, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
	CHECK_EQ(value, 1000 * (np - 1) + 63);
	FAILS(MPI_File_seek(f, -1, MPI_SEEK_SET), MPI_ERR_ARG);
	FAILS(MPI_File_seek(f, 0, 77), MPI_ERR_ARG);
	WORKS(MPI_File_iread_at(f, 0, &v[0], 1, MPI_INT, &r[0]));
	WORKS(MPI_File_iread_at(f, 1, &v[1], 2, MPI_INT, &r[1]));
	WORKS(MPI_File_iread_at(f, size, &v[3], 2, MPI_INT, &r[2]));
	WORKS(MPI_Waitany(3, r, &n, &status));
	MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
	CHECK(v[0] == 2 && v[1] == 3 && v[2] == 4);
	FAILS(MPI_File_read_at(f, -1, v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	FAILS(MPI_File_read_at(f, 0, v, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
	FAILS(MPI_File_read_at(f, 0, v, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
	FAILS(MPI_File_read_at(f, 0, v, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
	WORKS(MPI_File_close(&f));
}

static void test_views(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR | MPI_MODE_APPEND);
	MPI_Datatype etype, filetype, mine;
	char datarep[MPI_MAX_DATAREP_STRING];
	int n, a, d, combiner, rc;
	MPI_Offset disp, at, size;
	MPI_Aint extent;

	WORKS(MPI_File_get_size(f, &size));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, size);
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, size);
	WORKS(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
	CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && !strcmp(datarep, "native"));
	MPI_Type_vector(3, 1, 2, MPI_INT, &mine);
	MPI_Type_commit(&mine);
	WORKS(MPI_File_set_view(f, 4, MPI_INT, mine, "native", MPI_INFO_NULL));
	MPI_Type_free(&mine);
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 0);
	WORKS(MPI_File_get_view(f, &disp, &etype, &filetype, datarep));
	CHECK(disp == 4 && etype == MPI_INT);
	MPI_Type_get_envelope(filetype, &n, &a, &d, &combiner);
	CHECK_EQ(combiner, MPI_COMBINER_VECTOR);
	WORKS(MPI_File_get_byte_offset(f, 1, &at));
	CHECK_EQ(at, 4 + 8);
	WORKS(MPI_File_get_byte_offset(f, 3, &at));
	CHECK_EQ(at, 4 + 20);
	WORKS(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent));
	CHECK_EQ(extent, 8);
	FAILS(MPI_File_set_view(f, -2, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
	FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	FAILS(MPI_File_set_view(f, 0, MPI_DATATYPE_NULL, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "unheard of", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
	FAILS(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
	if (np > 1)
		FAILS(MPI_File_set_view(f, me ? 0 : -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
	/* etypes of one size, whose extents differ: section 14.3 */
	MPI_Type_create_resized(MPI_INT, 0, me ? 4 : 8, &mine);
	MPI_Type_commit(&mine);
	for (int i = 0; i < 2; i++) {
		rc = MPI_File_set_view(f, 0, mine, MPI_INT, i ? "external32" : "native", MPI_INFO_NULL);
		CHECK_EQ(class_of(rc), np > 1 ? MPI_ERR_NOT_SAME : MPI_SUCCESS);
	}
	MPI_Type_free(&mine);
	if (np == 1)
		WORKS(MPI_File_set_view(f, 4, etype, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	/* no failed call has changed the view */
	WORKS(MPI_File_get_byte_offset(f, 1, &at));
	CHECK_EQ(at, 4 + 8);
	WORKS(MPI_File_close(&f));
}

/* Each rank appends records at the shared pointer: each is there once. */
static void test_shared(void)
{
	enum { EACH = 20 };
	MPI_File f = open_file(MPI_MODE_RDWR);
	int record[2], *seen = calloc((size_t)np, sizeof(*seen));
	MPI_Offset at;

	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_view(f, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	for (int i = 0; i < EACH; i++) {
		MPI_Request r;

		record[0] = me;
		record[1] = i;
		if (i & 1) {
			WORKS(MPI_File_iwrite_shared(f, record, 2, MPI_INT, &r));
			WORKS(MPI_Wait(&r, MPI_STATUS_IGNORE));
		} else {
			WORKS(MPI_File_write_shared(f, record, 2, MPI_INT, MPI_STATUS_IGNORE));
		}
	}
	meet_file(f);
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 2 * EACH * np);
	for (int i = 0; i < EACH * np; i++) {
		WORKS(MPI_File_read_at(f, 2 * i, record, 2, MPI_INT, MPI_STATUS_IGNORE));
		CHECK(record[0] >= 0 && record[0] < np);
		CHECK_EQ(record[1], seen[record[0]]++);
	}
	meet(sync_comm);
	WORKS(MPI_File_seek_shared(f, 4, MPI_SEEK_SET));
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 4);
	meet(sync_comm);
	WORKS(MPI_File_seek_shared(f, -2, MPI_SEEK_END));
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 2 * EACH * np - 2);
	meet(sync_comm);
	WORKS(MPI_File_seek_shared(f, -2, MPI_SEEK_CUR));
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 2 * EACH * np - 4);
	if (np > 1)
		FAILS(MPI_File_seek_shared(f, me, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
	FAILS(MPI_File_seek_shared(f, -1, MPI_SEEK_SET), MPI_ERR_ARG);
	WORKS(MPI_File_close(&f));
	free(seen);
	/* sequential */
	f = open_file(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
	record[0] = 1;
	FAILS(MPI_File_write(f, record, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
	FAILS(MPI_File_seek(f, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
	WORKS(MPI_File_write_shared(f, record, 1, MPI_INT, MPI_STATUS_IGNORE));
	meet(sync_comm);
	WORKS(MPI_File_set_view(f, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	if (me == np - 1) {
		MPI_Datatype e, t;
		char rep[MPI_MAX_DATAREP_STRING];

		WORKS(MPI_File_get_view(f, &at, &e, &t, rep));
		CHECK_EQ(at, 4 * np);
	}
	WORKS(MPI_File_close(&f));
}

/* Ordered accesses of different lengths: in the order of ranks. */
static void test_ordered(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR);
	int v[64], n, before = 0;
	MPI_Offset at;
	MPI_Status status;

	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i <= me; i++)
			v[i] = 100 * round + 10 * me + i;
		if (round == 1) {
			WORKS(MPI_File_write_ordered_begin(f, v, me + 1, MPI_INT));
			WORKS(MPI_File_write_ordered_end(f, v, &status));
		} else {
			WORKS(MPI_File_write_ordered(f, v, me + 1, MPI_INT, &status));
		}
		MPI_Get_count(&status, MPI_INT, &n);
		CHECK_EQ(n, me + 1);
	}
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, 3 * np * (np + 1) / 2);
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	for (int round = 0; round < 3; round++) {
		if (round == 2) {
			WORKS(MPI_File_read_ordered_begin(f, v, me + 1, MPI_INT));
			WORKS(MPI_File_read_ordered_end(f, v, &status));
		} else {
			WORKS(MPI_File_read_ordered_c(f, v, me + 1, MPI_INT, &status));
		}
		for (int i = 0; i <= me; i++)
			CHECK_EQ(v[i], 100 * round + 10 * me + i);
	}
	for (int r = 0; r < me; r++)
		before += r + 1;
	WORKS(MPI_File_read_at(f, before, v, 1, MPI_INT, MPI_STATUS_IGNORE));
	CHECK_EQ(v[0], 10 * me);
	if (np > 1) {
		FAILS(MPI_File_read_ordered(f, v, me ? 1 : -1, MPI_INT, &status), MPI_ERR_COUNT);
		FAILS(MPI_File_read_all(f, v, me ? 1 : -1, MPI_INT, &status), MPI_ERR_COUNT);
	}
	WORKS(MPI_File_close(&f));
}

/* Several nonblocking collectives at a time; split ones. */
static void test_collective(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR);
	MPI_Datatype filetype;
	MPI_Request r[3];
	MPI_Status status[3];
	int v[3][30], w[30], n;

	WORKS(MPI_File_set_size(f, 0));
	MPI_Type_create_resized(MPI_INT, 0, np * (MPI_Aint)sizeof(int), &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, me * (MPI_Offset)sizeof(int), MPI_INT, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	for (int k = 0; k < 3; k++) {
		for (int i = 0; i < 30; i++)
			v[k][i] = 10000 * k + 100 * me + i;
		WORKS(MPI_File_iwrite_all(f, v[k], 30, MPI_INT, &r[k]));
	}
	WORKS(MPI_File_write_all(f, v[0], 30, MPI_INT, MPI_STATUS_IGNORE));
	WORKS(MPI_Waitall(3, r, status));
	MPI_Get_count(&status[2], MPI_INT, &n);
	CHECK_EQ(n, 30);
	meet_file(f);
	WORKS(MPI_File_read_at_all_begin(f, 60, w, 30, MPI_INT));
	FAILS(MPI_File_read_all(f, w, 30, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
	FAILS(MPI_File_read_all_end(f, w, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
	WORKS(MPI_File_read_at(f, 0, v[1], 30, MPI_INT, MPI_STATUS_IGNORE));
	CHECK(!memcmp(v[0], v[1], sizeof(w)));
	WORKS(MPI_File_read_at_all_end(f, w, status));
	MPI_Get_count(status, MPI_INT, &n);
	CHECK_EQ(n, 30);
	CHECK(!memcmp(v[2], w, sizeof(w)));
	FAILS(MPI_File_read_at_all_end(f, w, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
	/* the end of the file: 120 of each rank; the last rank lacks the last one */
	meet_file(f);
	WORKS(MPI_File_set_size(f, 120 * np * (MPI_Offset)sizeof(int) - 1));
	WORKS(MPI_File_read_at_all(f, 110, w, 30, MPI_INT, status));
	MPI_Get_count(status, MPI_BYTE, &n);
	CHECK_EQ(n, 40 - (me == np - 1));
	WORKS(MPI_File_close(&f));
}

/* "external32": big-endian, and a long has 4 bytes. The filetype is scaled. */
static void test_external32(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR);
	MPI_Datatype every_second, pair;
	unsigned char raw[16];
	long v[4] = { 1, -2, 0x01020304, 5 }, w[6];
	struct { double d; short s; } p = { 1.5, 7 }, q = { 0, 0 };
	MPI_Aint extent;
	MPI_Offset at;
	MPI_Status status;
	int n;

	WORKS(MPI_File_set_size(f, 0));
	MPI_Type_vector(2, 1, 2, MPI_LONG, &every_second);
	MPI_Type_commit(&every_second);
	WORKS(MPI_File_set_view(f, 1000 * me, MPI_LONG, every_second, "external32", MPI_INFO_NULL));
	WORKS(MPI_File_get_type_extent(f, every_second, &extent));
	CHECK_EQ(extent, 12);
	WORKS(MPI_File_get_byte_offset(f, 1, &at));
	CHECK_EQ(at, 1000 * me + 8);
	WORKS(MPI_File_write_all(f, v, 4, MPI_LONG, &status));
	MPI_Get_count(&status, MPI_LONG, &n);
	CHECK_EQ(n, 4);
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, 4);
	memset(w, 0, sizeof(w));
	WORKS(MPI_File_read_at(f, 1, w, 3, MPI_LONG, &status));
	CHECK(w[0] == v[1] && w[1] == v[2] && w[2] == v[3]);
	meet_file(f);
	WORKS(MPI_File_set_view(f, 1000 * me, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	WORKS(MPI_File_read_at(f, 12, raw, 4, MPI_BYTE, MPI_STATUS_IGNORE));
	CHECK(raw[0] == 1 && raw[1] == 2 && raw[2] == 3 && raw[3] == 4);
	MPI_Type_free(&every_second);
	/* the end of the file in the middle of an element */
	meet_file(f);
	WORKS(MPI_File_set_size(f, 14));
	WORKS(MPI_File_set_view(f, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL));
	w[3] = 99;
	WORKS(MPI_File_read_at_all(f, 0, w, 6, MPI_LONG, &status));
	MPI_Get_count(&status, MPI_LONG, &n);
	CHECK_EQ(n, 3);
	CHECK(w[0] == v[0] && w[2] == v[1] && w[3] == 99);
	/* mixed types */
	MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, (char *)&p.s - (char *)&p},
			       (MPI_Datatype[]){MPI_DOUBLE, MPI_SHORT}, &pair);
	MPI_Type_commit(&pair);
	WORKS(MPI_File_set_view(f, 5000 + 100 * me, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
	WORKS(MPI_File_write_at(f, 0, &p, 1, pair, MPI_STATUS_IGNORE));
	WORKS(MPI_File_read_at(f, 0, &q, 1, pair, &status));
	CHECK(q.d == p.d && q.s == p.s);
	MPI_Type_free(&pair);
	WORKS(MPI_File_close(&f));
}

/* A representation of the program's: an int has 8 bytes, its digits in octal. */
static int calls_of_reader;

static int octal_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
	(void)state;
	*extent = type == MPI_INT ? 8 : 1;
	return MPI_SUCCESS;
}

static int octal_write(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
	char text[16];

	(void)type;
	CHECK(state == &calls_of_reader && position == 0);
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%08o", (unsigned)((int *)user)[i]);
		memcpy((char *)file + 8 * i, text, 8);
	}
	return MPI_SUCCESS;
}

static int octal_read(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
	char text[9] = "";

	(void)type;
	(void)position;
	++*(int *)state;
	for (int i = 0; i < count; i++) {
		memcpy(text, (char *)file + 8 * i, 8);
		((int *)user)[i] = (int)strtol(text, NULL, 8);
	}
	return count == 13 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void test_datarep(void)
{
	MPI_File f = open_file(MPI_MODE_RDWR);
	int v[20], w[20], n;
	char raw[17] = "";
	MPI_Aint extent;
	MPI_Request r;
	MPI_Status status;

	WORKS(MPI_Register_datarep("octal", octal_read, octal_write, octal_extent, &calls_of_reader));
	FAILS(MPI_Register_datarep("octal", octal_read, octal_write, octal_extent, NULL), MPI_ERR_DUP_DATAREP);
	FAILS(MPI_Register_datarep("native", octal_read, octal_write, octal_extent, NULL), MPI_ERR_DUP_DATAREP);
	FAILS(MPI_Register_datarep("other", octal_read, octal_write, NULL, NULL), MPI_ERR_ARG);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_view(f, 160 * me, MPI_INT, MPI_INT, "octal", MPI_INFO_NULL));
	WORKS(MPI_File_get_type_extent(f, MPI_INT, &extent));
	CHECK_EQ(extent, 8);
	for (int i = 0; i < 20; i++)
		v[i] = 100 * me + i;
	WORKS(MPI_File_write_at_all(f, 0, v, 20, MPI_INT, MPI_STATUS_IGNORE));
	WORKS(MPI_File_iread_at(f, 2, w, 10, MPI_INT, &r));
	WORKS(MPI_Wait(&r, &status));
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK_EQ(n, 10);
	CHECK(!memcmp(w, v + 2, 10 * sizeof(int)) && calls_of_reader == 1);
	FAILS(MPI_File_read_at(f, 0, w, 13, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION);
	WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	if (!me) {
		WORKS(MPI_File_read_at(f, 8 * 8, raw, 16, MPI_BYTE, MPI_STATUS_IGNORE));
		CHECK(!strcmp(raw, "0000001000000011"));
	}
	WORKS(MPI_File_close(&f));
}

/* A device that is always full. */
static void test_full(void)
{
	MPI_File f;
	char c[10] = "";
	MPI_Request r;

	if (access("/dev/full", W_OK))
		return;
	WORKS(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
	FAILS(MPI_File_write_at(f, 0, c, 10, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
	WORKS(MPI_File_iwrite_at(f, 0, c, 10, MPI_CHAR, &r));
	FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
	/* all write the same bytes: one aggregator fails, and all ranks know */
	FAILS(MPI_File_write_at_all(f, 0, c, 10, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
	WORKS(MPI_File_close(&f));
}

/* Atomic mode: an access of many runs is one. Each rank writes its number over all runs, or reads them. */
static void test_atomic(void)
{
	enum { RUNS = 10000 };
	MPI_File f = open_file(MPI_MODE_RDWR);
	MPI_Datatype filetype;
	static int v[RUNS];
	int flag;

	WORKS(MPI_File_get_atomicity(f, &flag));
	CHECK(!flag);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_atomicity(f, 1));
	MPI_Type_create_resized(MPI_INT, 0, 64, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, 0, MPI_INT, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	for (int i = 0; i < RUNS; i++)
		v[i] = 0;
	WORKS(MPI_File_write_at_all(f, 0, v, RUNS, MPI_INT, MPI_STATUS_IGNORE));
	meet(sync_comm);
	for (int round = 0; round < 12; round++) {
		if ((round + me) & 1) {
			for (int i = 0; i < RUNS; i++)
				v[i] = 1000 * me + round;
			WORKS(MPI_File_write_at(f, 0, v, RUNS, MPI_INT, MPI_STATUS_IGNORE));
		} else {
			WORKS(MPI_File_read_at(f, 0, v, RUNS, MPI_INT, MPI_STATUS_IGNORE));
			for (int i = 1; i < RUNS; i++)
				CHECK_EQ(v[i], v[0]);
		}
	}
	WORKS(MPI_File_close(&f));
}

/* Offsets beyond 2^31 and 2^32, in a file of holes. */
static void test_far(void)
{
	const MPI_Offset gib = (MPI_Offset)1 << 30;
	MPI_File f = open_file(MPI_MODE_RDWR);
	MPI_Datatype filetype;
	MPI_Offset at;
	MPI_Status status;
	int v[8], n;

	WORKS(MPI_File_set_size(f, 0));
	MPI_Type_create_resized(MPI_INT, 0, gib, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, me * 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	for (int i = 0; i < 8; i++)
		v[i] = 100 * me + i;
	WORKS(MPI_File_write_all(f, v, 8, MPI_INT, MPI_STATUS_IGNORE));
	meet_file(f);
	WORKS(MPI_File_get_size(f, &at));
	CHECK_EQ(at, 7 * gib + 4 * np);
	WORKS(MPI_File_get_byte_offset(f, 6, &at));
	CHECK_EQ(at, 6 * gib + 4 * me);
	WORKS(MPI_File_seek(f, -2, MPI_SEEK_END));
	WORKS(MPI_File_read(f, v, 8, MPI_INT, &status));
	MPI_Get_count(&status, MPI_INT, &n);
	CHECK(n == 2 && v[0] == 100 * me + 6 && v[1] == 100 * me + 7);
	meet(sync_comm);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_close(&f));
}

static MPI_File handled_file;
static int handled, handled_class;

static void handler(MPI_File *f, int *code, ...)
{
	handled_file = *f;
	handled++;
	MPI_Error_class(*code, &handled_class);
}

static void test_handlers(void)
{
	MPI_Errhandler mine, other;
	MPI_File f, none;
	MPI_Request r;
	char c = 0;

	f = open_file(MPI_MODE_WRONLY);
	MPI_File_get_errhandler(f, &other);
	CHECK(other == MPI_ERRORS_RETURN);
	MPI_File_create_errhandler(handler, &mine);
	WORKS(MPI_File_set_errhandler(f, mine));
	FAILS(MPI_File_read_at(f, 0, &c, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
	CHECK(handled == 1 && handled_file == f && handled_class == MPI_ERR_ACCESS);
	WORKS(MPI_File_call_errhandler(f, MPI_ERR_IO));
	CHECK(handled == 2 && handled_class == MPI_ERR_IO);
	/* the error of a request: a write beyond the largest offset */
	WORKS(MPI_File_iwrite_at(f, INT64_MAX - 1, &c, 1, MPI_CHAR, &r));
	FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_IO);
	CHECK(handled == 3 && handled_file == f && handled_class == MPI_ERR_IO);
	/* the handler of MPI_FILE_NULL: open's, and that of new files */
	WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
	FAILS(MPI_File_open(MPI_COMM_SELF, "/none/none", MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
	CHECK(handled == 4 && handled_file == MPI_FILE_NULL);
	WORKS(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &none));
	MPI_File_get_errhandler(none, &other);
	CHECK(other == mine);
	MPI_Errhandler_free(&other);
	WORKS(MPI_File_close(&none));
	WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
	MPI_Errhandler_free(&mine);
	/* a request that is freed */
	WORKS(MPI_File_iwrite_at(f, 100 + me, &c, 1, MPI_CHAR, &r));
	WORKS(MPI_Request_free(&r));
	WORKS(MPI_File_close(&f));
}

static void test_info(void)
{
	MPI_File f;
	MPI_Info info;
	MPI_Group group, world;
	char value[64];
	struct stat s;
	int flag, len = sizeof(value), same;

	MPI_Info_create(&info);
	MPI_Info_set(info, "file_perm", "0640");
	MPI_Info_set(info, "access_style", "read_mostly");
	MPI_Info_set(info, "no such hint", "1");
	meet(sync_comm);
	if (!me)
		MPI_File_delete(path, MPI_INFO_NULL);
	meet(sync_comm);
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &f));
	MPI_Info_free(&info);
	CHECK(!stat(path, &s) && (s.st_mode & 0777) == 0640);
	WORKS(MPI_File_get_info(f, &info));
	MPI_Info_get_string(info, "access_style", &len, value, &flag);
	CHECK(flag && !strcmp(value, "read_mostly"));
	len = sizeof(value);
	MPI_Info_get_string(info, "no such hint", &len, value, &flag);
	CHECK(!flag);
	MPI_Info_free(&info);
	WORKS(MPI_File_get_group(f, &group));
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_compare(group, world, &same);
	CHECK_EQ(same, MPI_IDENT);
	MPI_Group_free(&group);
	MPI_Group_free(&world);
	WORKS(MPI_File_set_atomicity(f, 1));
	WORKS(MPI_File_get_atomicity(f, &flag));
	CHECK(flag);
	WORKS(MPI_File_write_at(f, me, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
	CHECK(me || access(path, F_OK));	/* rank 0 has deleted it */
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	snprintf(path, sizeof(path), "%s/io_smoke", argv[1]);
	if (!me)
		unlink(path);	/* of a run that was ended */
	meet(sync_comm);
	test_open(argv[1]);
	test_sizes();
	test_data();
	test_views();
	test_shared();
	test_ordered();
	test_collective();
	test_atomic();
	test_far();
	test_external32();
	test_datarep();
	test_full();
	test_handlers();
	test_info();
	test_done("io_smoke");
	return 0;
}
