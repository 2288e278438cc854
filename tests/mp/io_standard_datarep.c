/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Section 14.5: native, internal, external32 (its bytes against the table of 14.5.2), representations of MPI_Register_datarep.
 * io_standard.h
 */
#include "io_standard_kinds.h"

#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <wchar.h>

struct entry {
	const char *name;
	MPI_Datatype type;
	int length; /* in external32 */
	size_t size; /* of the value here */
	const void *value;
	const char *bytes; /* that value in external32, in hexadecimal */
};

static const signed char schar_v = -2;
static const unsigned char uchar_v = 0xf3;
static const char char_v = 'A';
static const wchar_t wchar_v = 0x20ac;
static const short short_v = -2;
static const unsigned short ushort_v = 0xfedc;
static const int int_v = -123456789, true_v = 1;
static const unsigned uint_v = 0xfedcba98u;
static const long long_v = -3;
static const unsigned long ulong_v = 0x12345678ul;
static const long long llong_v = -0x123456789abcdefLL;
static const unsigned long long ullong_v = 0xfedcba9876543210ull;
static const float float_v = -118.625f;
static const double double_v = 0.1;
static const long double ldouble_v = -1.5L;
static const bool bool_v = true;
static const float complex fcomplex_v = 1.0f - 2.0f * I;
static const double complex dcomplex_v = 1.0 - 2.0 * I;
static const long double complex lcomplex_v = 1.0L - 2.0L * I;
static const int8_t i8_v = -8;
static const int16_t i16_v = -300;
static const int32_t i32_v = 0x01020304;
static const int64_t i64_v = 0x0102030405060708;
static const MPI_Aint aint_v = -5;
static const MPI_Offset offset_v = 0x7766554433221100;
static const MPI_Count count_v = 6;
static const double infinity_v = INFINITY, small_v = 4.9406564584124654e-324;
static const long double zero_v = -0.0L, third_v = 1.0L / 3;

#define ENTRY(type, length, value, bytes) { #type, type, length, sizeof(value), &value, bytes }
static int n_entries;
static struct entry table[64];

static void make_table(void)
{
	const struct entry all[] = {
		ENTRY(MPI_BYTE, 1, uchar_v, "f3"),
		ENTRY(MPI_CHAR, 1, char_v, "41"),
		ENTRY(MPI_UNSIGNED_CHAR, 1, uchar_v, "f3"),
		ENTRY(MPI_SIGNED_CHAR, 1, schar_v, "fe"),
		ENTRY(MPI_WCHAR, 2, wchar_v, "20ac"),
		ENTRY(MPI_SHORT, 2, short_v, "fffe"),
		ENTRY(MPI_UNSIGNED_SHORT, 2, ushort_v, "fedc"),
		ENTRY(MPI_INT, 4, int_v, "f8a432eb"),
		ENTRY(MPI_UNSIGNED, 4, uint_v, "fedcba98"),
		ENTRY(MPI_LONG, 4, long_v, "fffffffd"),
		ENTRY(MPI_UNSIGNED_LONG, 4, ulong_v, "12345678"),
		ENTRY(MPI_LONG_LONG_INT, 8, llong_v, "fedcba9876543211"),
		ENTRY(MPI_LONG_LONG, 8, llong_v, "fedcba9876543211"),
		ENTRY(MPI_UNSIGNED_LONG_LONG, 8, ullong_v, "fedcba9876543210"),
		ENTRY(MPI_FLOAT, 4, float_v, "c2ed4000"),
		ENTRY(MPI_DOUBLE, 8, double_v, "3fb999999999999a"),
		ENTRY(MPI_DOUBLE, 8, infinity_v, "7ff0000000000000"),
		ENTRY(MPI_DOUBLE, 8, small_v, "0000000000000001"),
		ENTRY(MPI_LONG_DOUBLE, 16, ldouble_v, "bfff8000000000000000000000000000"),
		ENTRY(MPI_LONG_DOUBLE, 16, zero_v, "80000000000000000000000000000000"),
		ENTRY(MPI_LONG_DOUBLE, 16, third_v, "3ffd5555555555555556000000000000"),
		ENTRY(MPI_C_BOOL, 1, bool_v, "01"),
		ENTRY(MPI_C_COMPLEX, 8, fcomplex_v, "3f800000c0000000"),
		ENTRY(MPI_C_FLOAT_COMPLEX, 8, fcomplex_v, "3f800000c0000000"),
		ENTRY(MPI_C_DOUBLE_COMPLEX, 16, dcomplex_v, "3ff0000000000000c000000000000000"),
		ENTRY(MPI_C_LONG_DOUBLE_COMPLEX, 32, lcomplex_v,
		      "3fff0000000000000000000000000000c0000000000000000000000000000000"),
		ENTRY(MPI_INT8_T, 1, i8_v, "f8"),
		ENTRY(MPI_UINT8_T, 1, i8_v, "f8"),
		ENTRY(MPI_INT16_T, 2, i16_v, "fed4"),
		ENTRY(MPI_UINT16_T, 2, i16_v, "fed4"),
		ENTRY(MPI_INT32_T, 4, i32_v, "01020304"),
		ENTRY(MPI_UINT32_T, 4, i32_v, "01020304"),
		ENTRY(MPI_INT64_T, 8, i64_v, "0102030405060708"),
		ENTRY(MPI_UINT64_T, 8, i64_v, "0102030405060708"),
		ENTRY(MPI_AINT, 8, aint_v, "fffffffffffffffb"),
		ENTRY(MPI_OFFSET, 8, offset_v, "7766554433221100"),
		ENTRY(MPI_COUNT, 8, count_v, "0000000000000006"),
		ENTRY(MPI_CHARACTER, 1, char_v, "41"),
		ENTRY(MPI_LOGICAL, 4, true_v, "00000001"),
		ENTRY(MPI_INTEGER, 4, int_v, "f8a432eb"),
		ENTRY(MPI_REAL, 4, float_v, "c2ed4000"),
		ENTRY(MPI_DOUBLE_PRECISION, 8, double_v, "3fb999999999999a"),
		ENTRY(MPI_COMPLEX, 8, fcomplex_v, "3f800000c0000000"),
		ENTRY(MPI_DOUBLE_COMPLEX, 16, dcomplex_v, "3ff0000000000000c000000000000000"),
		ENTRY(MPI_INTEGER1, 1, i8_v, "f8"),
		ENTRY(MPI_INTEGER2, 2, i16_v, "fed4"),
		ENTRY(MPI_INTEGER4, 4, i32_v, "01020304"),
		ENTRY(MPI_INTEGER8, 8, i64_v, "0102030405060708"),
		ENTRY(MPI_REAL4, 4, float_v, "c2ed4000"),
		ENTRY(MPI_REAL8, 8, double_v, "3fb999999999999a"),
		ENTRY(MPI_CXX_BOOL, 1, bool_v, "01"),
		ENTRY(MPI_CXX_FLOAT_COMPLEX, 8, fcomplex_v, "3f800000c0000000"),
		ENTRY(MPI_CXX_DOUBLE_COMPLEX, 16, dcomplex_v, "3ff0000000000000c000000000000000"),
	};

	for (int i = 0; i < (int)(sizeof(all) / sizeof(all[0])); i++)
		if (all[i].type != MPI_DATATYPE_NULL)
			table[n_entries++] = all[i];
}

static const char *hex(const unsigned char *b, int n)
{
	static char text[200];

	text[0] = 0;
	for (int i = 0; i < n && i < 64; i++)
		sprintf(text + 2 * i, "%02x", b[i]);
	return text;
}

static void external32_bytes(void)
{
	MPI_File f;
	MPI_Status st;
	unsigned char raw[64], back[64], packed[64];
	int bool_size = (int)sizeof(bool);

	IS(bool_size, 1);
	for (int i = 0; i < n_entries; i++) {
		struct entry *e = table + i;
		MPI_Aint extent = -1, pos = 0, size = -1;

		fresh("external32");
		f = opened(MPI_COMM_WORLD, path, RW);
		WORKS(MPI_File_set_view(f, 1, e->type, e->type, "external32", MPI_INFO_NULL));
		WORKS(MPI_File_get_type_extent(f, e->type, &extent));
		if (extent != e->length)
			is_wrong(__LINE__, "%s: extent in the file %ld, not %d", e->name, (long)extent, e->length);
		WORKS(MPI_File_write_at_all(f, me, e->value, 1, e->type, &st));
		IS(count_of(&st, e->type), 1);
		all_here();
		long long n = bytes_of(path, raw, sizeof(raw));
		if (n != 1 + np * (long long)e->length)
			is_wrong(__LINE__, "%s: the file has %lld bytes", e->name, n);
		if (strcmp(hex(raw + 1, e->length), e->bytes))
			is_wrong(__LINE__, "%s: bytes %s, not %s", e->name, hex(raw + 1, e->length), e->bytes);
		memset(back, 0, sizeof(back));
		WORKS(MPI_File_read_at(f, me, back, 1, e->type, &st));
		IS(count_of(&st, e->type), 1);
		/* the value, not the padding of a long double */
		if (e->type == MPI_LONG_DOUBLE ? memcmp(back, e->value, 10) :
						 e->type != MPI_C_LONG_DOUBLE_COMPLEX && memcmp(back, e->value, e->size))
			is_wrong(__LINE__, "%s: read back as %s", e->name, hex(back, (int)e->size));
		memset(packed, 0, sizeof(packed));
		MPI_Pack_external_size("external32", 1, e->type, &size);
		IS(size, e->length);
		MPI_Pack_external("external32", e->value, 1, e->type, packed, sizeof(packed), &pos);
		IS(pos, e->length);
		if (strcmp(hex(packed, e->length), e->bytes))
			is_wrong(__LINE__, "%s: packed as %s", e->name, hex(packed, e->length));
		WORKS(MPI_File_close(&f));
	}
}

/* Structures: displacements in bytes stay, those that count extents are scaled (section 14.5, and 2.4 of portable datatypes). */
static void external32_types(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Datatype longs, tiled, mem;
	MPI_Aint extent;
	unsigned char raw[400];
	long v[8], back[8], mback[16];
	char fb[64];
	MPI_Aint pos = 0;

	fresh("external32_types");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_vector(2, 1, 3, MPI_LONG, &longs); /* long, hole of two longs, long */
	MPI_Type_commit(&longs);
	MPI_Type_contiguous(2, longs, &tiled);
	MPI_Type_commit(&tiled);
	WORKS(MPI_File_set_view(f, 16 + 400 * me, MPI_LONG, longs, "external32", MPI_INFO_NULL));
	WORKS(MPI_File_get_type_extent(f, longs, &extent));
	IS(extent, 16);
	WORKS(MPI_File_get_type_extent(f, tiled, &extent));
	IS(extent, 32);
	WORKS(MPI_File_get_type_extent(f, MPI_LONG, &extent));
	IS(extent, 4);
	for (int kind = 0; kind < SHARED; kind++) {
		for (int i = 0; i < 8; i++)
			v[i] = kind * 100 + me * 10 + i - 5;
		WORKS(access_file(kind, 1, f, 1, v, 5, MPI_LONG, &st));
		IS(count_of(&st, MPI_LONG), 5);
		if (has_pointer(kind))
			IS(position(f), 6);
		MPI_Type_vector(5, 1, 3, MPI_LONG, &mem);
		MPI_Type_commit(&mem);
		memset(mback, 0x11, sizeof(mback));
		WORKS(access_file(kind, 0, f, 1, mback, 1, mem, &st));
		IS(count_of(&st, mem), 1);
		for (int i = 0; i < 5; i++)
			IS(mback[3 * i], v[i]);
		IS(mback[1], 0x1111111111111111);
		MPI_Type_free(&mem);
	}
	all_here();
	if (!me) {
		bytes_of(path, raw, sizeof(raw));
		MPI_Pack_external("external32", v, 5, MPI_LONG, fb, sizeof(fb), &pos);
		/* elements 1..5 of the view: file offsets 12, 16, 28, 32, 44 behind the displacement */
		static const int where[] = {12, 16, 28, 32, 44};
		for (int i = 0; i < 5; i++)
			IS(memcmp(raw + 16 + where[i], fb + 4 * i, 4), 0);
		IS(raw[16 + 20], 0);
	}
	MPI_Offset byte;
	WORKS(MPI_File_get_byte_offset(f, 5, &byte));
	IS(byte, 16 + 400 * me + 44);
	/* the end of the file: as many as it has */
	all_here();
	if (me == np - 1) {
		WORKS(MPI_File_read_at(f, 4, back, 8, MPI_LONG, &st));
		IS(count_of(&st, MPI_LONG), 2);
		IS(back[1], v[4]);
		WORKS(MPI_File_seek(f, 0, MPI_SEEK_END));
		IS(position(f), 6);
	}
	all_here();
	/* a structure with a displacement in bytes */
	struct {
		char c;
		double d;
		short s;
	} rec = {'r', 0.1, -2}, rec2;
	int lens[3] = {1, 1, 1};
	MPI_Aint disps[3] = {0, 8, 16};
	MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, str;
	MPI_Type_create_struct(3, lens, disps, types, &str);
	MPI_Type_commit(&str);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_view(f, 1000 * me, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
	WORKS(MPI_File_write_at_all(f, 0, &rec, 1, str, &st));
	IS(count_of(&st, str), 1);
	all_here();
	if (!me) {
		bytes_of(path, raw, sizeof(raw));
		/* eleven bytes: the memory's gaps are not in the file, which the view says */
		if (strcmp(hex(raw, 11), "723fb999999999999afffe"))
			is_wrong(__LINE__, "the structure is %s", hex(raw, 11));
	}
	memset(&rec2, 0, sizeof(rec2));
	WORKS(MPI_File_read_all(f, &rec2, 1, str, &st));
	TRUE_THAT(rec2.c == 'r' && rec2.d == 0.1 && rec2.s == -2);
	MPI_Type_free(&str);
	MPI_Type_free(&longs);
	MPI_Type_free(&tiled);
	WORKS(MPI_File_close(&f));
}

static void internal(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Aint extent;
	double v[10], back[10];

	fresh("internal");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_set_view(f, 0, MPI_DOUBLE, MPI_DOUBLE, "internal", MPI_INFO_NULL));
	WORKS(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent));
	TRUE_THAT(extent > 0);
	for (int i = 0; i < 10; i++)
		v[i] = me + i / 3.0;
	WORKS(MPI_File_write_at_all(f, 10 * me, v, 10, MPI_DOUBLE, &st));
	IS(count_of(&st, MPI_DOUBLE), 10);
	all_here();
	IS(size_of(f), extent * 10 * np);
	WORKS(MPI_File_read_at_all(f, 10 * me, back, 10, MPI_DOUBLE, &st));
	IS(memcmp(v, back, sizeof(v)), 0);
	WORKS(MPI_File_close(&f));
}

/* A representation in which an integer has six bytes: '#', '!', and the value in big endian, each byte with 0x5a. */
struct layout {
	int items, stride, extent; /* item i of the tiled datatype is at (i / items) * extent + (i % items) * stride */
	MPI_Aint type_extent;
	int type_size;
	int n_read, n_write, n_extent, fails;
	long long next; /* the position that is due, -1: any */
};

static int conversion_is_right(struct layout *l, MPI_Datatype type, MPI_Count count, MPI_Offset pos)
{
	MPI_Aint lb, extent;
	int size;

	MPI_Type_get_extent(type, &lb, &extent);
	MPI_Type_size(type, &size);
	if (extent != l->type_extent || size != l->type_size)
		is_wrong(__LINE__, "conversion of a type with size %d, extent %ld; that of the access has %d, %ld", size,
			 (long)extent, l->type_size, (long)l->type_extent);
	if (pos != l->next)
		is_wrong(__LINE__, "conversion at position %lld, %lld is due", (long long)pos, l->next);
	l->next = pos + count;
	return l->fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static unsigned char *item(void *user, const struct layout *l, MPI_Offset i)
{
	return (unsigned char *)user + i / l->items * l->extent + i % l->items * l->stride;
}

static int write_conversion(void *user, MPI_Datatype type, int count, void *filebuf, MPI_Offset pos, void *extra)
{
	struct layout *l = extra;
	unsigned char *to = filebuf;
	int rc = conversion_is_right(l, type, count, pos);

	l->n_write++;
	for (MPI_Offset i = pos; i < pos + count; i++, to += 6) {
		unsigned v;

		memcpy(&v, item(user, l, i), 4);
		to[0] = '#';
		to[1] = '!';
		for (int b = 0; b < 4; b++)
			to[2 + b] = (unsigned char)(v >> (24 - 8 * b)) ^ 0x5a;
	}
	return rc;
}

static int read_conversion(void *user, MPI_Datatype type, int count, void *filebuf, MPI_Offset pos, void *extra)
{
	struct layout *l = extra;
	const unsigned char *from = filebuf;
	int rc = conversion_is_right(l, type, count, pos);

	l->n_read++;
	for (MPI_Offset i = pos; i < pos + count; i++, from += 6) {
		unsigned v = 0;

		if (from[0] != '#' || from[1] != '!')
			is_wrong(__LINE__, "item %lld begins with %02x %02x", (long long)i, from[0], from[1]);
		for (int b = 0; b < 4; b++)
			v = v << 8 | (from[2 + b] ^ 0x5a);
		memcpy(item(user, l, i), &v, 4);
	}
	return rc;
}

static int file_extent(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
	struct layout *l = extra;
	int a, b, c, combiner;

	MPI_Type_get_envelope(type, &a, &b, &c, &combiner);
	IS(combiner, MPI_COMBINER_NAMED);
	l->n_extent++;
	*extent = type == MPI_INT ? 6 : 1;
	return l->fails == 2 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static struct layout layout = {1, 4, 4, 4, 4, 0, 0, 0, 0, 0};

static int converted(int kind, int write, MPI_File f, MPI_Offset at, void *b, int n, MPI_Datatype t, MPI_Status *st)
{
	layout.next = 0;
	return access_file(kind, write, f, at, b, n, t, st);
}

static void user_datarep(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Datatype mem, ft;
	MPI_Aint extent;
	MPI_Offset byte;
	unsigned char raw[2000];
	int v[40], back[40], rc;
	char longest[MPI_MAX_DATAREP_STRING + 50];

	rc = MPI_Register_datarep("six bytes", read_conversion, write_conversion, file_extent, &layout);
	WORKS(rc);
	if (rc)
		return;
	FAILS(MPI_Register_datarep("six bytes", read_conversion, write_conversion, file_extent, &layout), MPI_ERR_DUP_DATAREP);
	FAILS(MPI_Register_datarep("native", read_conversion, write_conversion, file_extent, &layout), MPI_ERR_DUP_DATAREP);
	FAILS(MPI_Register_datarep("external32", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, file_extent, &layout),
	      MPI_ERR_DUP_DATAREP);
	memset(longest, 'r', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	TRUE_THAT(MPI_Register_datarep(longest, read_conversion, write_conversion, file_extent, &layout) != MPI_SUCCESS);
	longest[MPI_MAX_DATAREP_STRING - 1] = 0;
	WORKS(MPI_Register_datarep(longest, MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, file_extent, &layout));

	fresh("user_datarep");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_vector(2, 1, 3, MPI_INT, &ft);
	MPI_Type_commit(&ft);
	MPI_Type_vector(2, 1, 2, MPI_INT, &mem);
	MPI_Type_commit(&mem);
	WORKS(MPI_File_set_view(f, 8 + 200 * me, MPI_INT, ft, "six bytes", MPI_INFO_NULL));
	TRUE_THAT(layout.n_extent > 0);
	WORKS(MPI_File_get_type_extent(f, MPI_INT, &extent));
	IS(extent, 6);
	WORKS(MPI_File_get_type_extent(f, ft, &extent));
	IS(extent, 24);
	WORKS(MPI_File_get_byte_offset(f, 3, &byte));
	IS(byte, 8 + 200 * me + 24 + 18);
	for (int kind = 0; kind < SHARED; kind++) {
		layout.n_write = layout.n_read = 0;
		for (int i = 0; i < 40; i++)
			v[i] = kind * 10000 + me * 100 + i;
		/* six integers of memory: three elements of a type that takes every second one */
		layout.items = 2, layout.stride = 8, layout.extent = 12;
		layout.type_extent = 12, layout.type_size = 8;
		WORKS(converted(kind, 1, f, 2, v, 3, mem, &st));
		IS(count_of(&st, mem), 3);
		TRUE_THAT(layout.n_write > 0);
		IS(layout.next, 6);
		if (has_pointer(kind))
			IS(position(f), 8);
		all_here();
		bytes_of(path, raw, sizeof(raw));
		for (int i = 0; i < 6 && me < 8; i++) {
			int at = 8 + 200 * me + (2 + i) / 2 * 24 + (2 + i) % 2 * 18, from = v[i / 2 * 3 + i % 2 * 2];

			if (raw[at] != '#' || raw[at + 1] != '!' || raw[at + 5] != ((from & 255) ^ 0x5a))
				is_wrong(__LINE__, "write_%s: item %d is %s", kind_names[kind], i, hex(raw + at, 6));
		}
		layout.items = 1, layout.stride = layout.extent = 4;
		layout.type_extent = layout.type_size = 4;
		memset(back, 0, sizeof(back));
		WORKS(converted(kind, 0, f, 3, back, 5, MPI_INT, &st));
		IS(count_of(&st, MPI_INT), 5);
		IS(layout.next, 5);
		for (int i = 0; i < 5; i++)
			IS(back[i], v[(i + 1) / 2 * 3 + (i + 1) % 2 * 2]);
		/* at the end of the file */
		all_here();
		if (np == 1) {
			WORKS(converted(kind, 0, f, 6, back, 5, MPI_INT, &st));
			IS(count_of(&st, MPI_INT), 2);
			IS(layout.next, 2);
		}
		/* a conversion that fails */
		layout.fails = 1;
		FAILS(converted(kind, 1, f, 2, v, 3, MPI_INT, &st), MPI_ERR_CONVERSION);
		FAILS(converted(kind, 0, f, 2, v, 3, MPI_INT, &st), MPI_ERR_CONVERSION);
		layout.fails = 0;
		all_here();
	}
	layout.fails = 2;
	TRUE_THAT(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "six bytes", MPI_INFO_NULL) != MPI_SUCCESS);
	layout.fails = 0;
	MPI_Type_free(&ft);
	MPI_Type_free(&mem);
	/* no functions: the bytes of memory, at the extents that the third function says */
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_set_view(f, 100 * me, MPI_CHAR, MPI_CHAR, longest, MPI_INFO_NULL));
	WORKS(MPI_File_write_at_all(f, 0, "text", 4, MPI_CHAR, &st));
	all_here();
	bytes_of(path, raw, sizeof(raw));
	IS(memcmp(raw, "text", 4), 0);
	WORKS(MPI_File_close(&f));
}

/* A long access: the conversions' positions follow each other to its end. */
static void user_datarep_long(void)
{
	enum { N = 700000 };
	MPI_File f;
	MPI_Status st;
	int *v = malloc(N * sizeof(int)), *back = calloc(N, sizeof(int));

	MPI_Register_datarep("six bytes", read_conversion, write_conversion, file_extent, &layout);
	fresh("user_datarep_long");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "six bytes", MPI_INFO_NULL));
	for (int i = 0; i < N; i++)
		v[i] = (int)mix((uint64_t)i + (uint64_t)me);
	layout.items = 1, layout.stride = layout.extent = 4;
	layout.type_extent = layout.type_size = 4;
	WORKS(converted(AT_ALL, 1, f, (MPI_Offset)N * me, v, N, MPI_INT, &st));
	IS(layout.next, N);
	IS(count_of(&st, MPI_INT), N);
	WORKS(converted(I_AT, 0, f, (MPI_Offset)N * me, back, N, MPI_INT, &st));
	IS(layout.next, N);
	IS(memcmp(v, back, N * sizeof(int)), 0);
	all_here();
	IS(size_of(f), 6LL * N * np);
	WORKS(MPI_File_close(&f));
	free(v);
	free(back);
}

static const struct io_case cases[] = {
	{"14.5.2", "external32_bytes", external32_bytes},
	{"14.5.2", "external32_types", external32_types},
	{"14.5.1", "internal", internal},
	{"14.5.3", "user_datarep", user_datarep},
	{"14.5.3", "user_datarep_long", user_datarep_long},
};

int main(int argc, char **argv)
{
	make_table();
	return io_run("io_standard_datarep", cases, N_CASES(cases), argc, argv);
}
