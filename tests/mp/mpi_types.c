/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of derived types, small and large, to derived and to plain buffers; results and errors of the functions of chapter 5
 * (MPI-5.0 chapters 3 and 5). */
#include "mpi_test.h"

#include <stddef.h>

/* A column block of a row-major matrix goes to the right; the left one's arrives as a plain buffer and as a column. */
static void columns(int rows, int cols, int width)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, n;
	double *a = malloc(sizeof(*a) * rows * cols), *b = malloc(sizeof(*b) * rows * cols);
	double *flat = malloc(sizeof(*flat) * rows * width);
	MPI_Datatype col, two;
	MPI_Request r[4];
	MPI_Status s[4];

	MPI_Type_vector(rows, width, cols, MPI_DOUBLE, &col);
	MPI_Type_commit(&col);
	for (int i = 0; i < rows * cols; i++) {
		a[i] = me * 1e7 + i;
		b[i] = -1;
	}
	MPI_Irecv(flat, rows * width, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &r[0]);
	MPI_Irecv(b + 1, 1, col, left, 2, MPI_COMM_WORLD, &r[1]);
	MPI_Isend(a + cols - width, 1, col, right, 1, MPI_COMM_WORLD, &r[2]);
	MPI_Isend(a + cols - width, 1, col, right, 2, MPI_COMM_WORLD, &r[3]);
	MPI_Type_free(&col);			/* pending operations keep it */
	MPI_Waitall(4, r, s);
	MPI_Get_count(&s[0], MPI_DOUBLE, &n);
	CHECK_EQ(n, rows * width);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < width; j++) {
			double want = left * 1e7 + i * cols + cols - width + j;

			CHECK(flat[i * width + j] == want);
			CHECK(b[i * cols + 1 + j] == want);
		}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++)
			if (j < 1 || j > width)
				CHECK(b[i * cols + j] == -1);
	/* Several elements of a type of types; blocking */
	MPI_Type_contiguous(2, MPI_DOUBLE, &two);
	MPI_Type_vector(rows / 2, 1, 2, two, &col);
	MPI_Type_commit(&col);
	for (int i = 0; i < rows * width; i++)
		flat[i] = me + i * 0.5;
	MPI_Sendrecv(flat, rows / 2 * 2, MPI_DOUBLE, right, 3, b, 1, col, left, 3, MPI_COMM_WORLD, s);
	MPI_Get_count(s, col, &n);
	CHECK_EQ(n, 1);
	MPI_Get_elements(s, col, &n);
	CHECK_EQ(n, rows / 2 * 2);
	for (int i = 0; i < rows / 2; i++)
		CHECK(b[4 * i] == left + i * 2 * 0.5 && b[4 * i + 1] == left + (i * 2 + 1) * 0.5);
	MPI_Type_free(&col);
	MPI_Type_free(&two);
	free(flat);
	free(b);
	free(a);
}

/* Pending collectives keep their types (MPI-5.0 section 5.1.9), too: every other int of the receive buffer is written. */
static void freed_while_pending(int n)
{
	enum { BCAST, ALLGATHER, ALLTOALL, CALLS };
	int *s = malloc(sizeof(*s) * 2 * n * np), *r = malloc(sizeof(*r) * 2 * n * np);

	for (int call = 0; call < CALLS; call++) {
		int blocks = call == BCAST ? 1 : np;
		MPI_Datatype t;
		MPI_Request req;

		for (int i = 0; i < 2 * n * np; i++) {
			s[i] = 1000 * me + i % (2 * n);
			r[i] = call == BCAST && me == np - 1 ? s[i] : -1;
		}
		MPI_Type_vector(n, 1, 2, MPI_INT, &t);
		MPI_Type_commit(&t);
		if (call == BCAST)
			MPI_Ibcast(r, 1, t, np - 1, MPI_COMM_WORLD, &req);
		else
			for (int i = 0; i < np * n; i++)	/* dense, as the type of the sender */
				s[i] = 1000 * me + 2 * (i % n);
		if (call == ALLGATHER)
			MPI_Iallgather(s, n, MPI_INT, r, 1, t, MPI_COMM_WORLD, &req);
		else if (call == ALLTOALL)
			MPI_Ialltoall(s, n, MPI_INT, r, 1, t, MPI_COMM_WORLD, &req);
		MPI_Type_free(&t);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
		for (int b = 0; b < blocks; b++)
			for (int i = 0; i < n; i++) {
				int from = call == BCAST ? np - 1 : b;

				CHECK_EQ(r[b * (2 * n - 1) + 2 * i], 1000 * from + 2 * i);
			}
	}
	free(s);
	free(r);
}

/* Part of a type: a shorter message fills the beginning of the type map. */
static void partial(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, n;
	int v[7] = { 1, 2, 3, 4, 5, 6, 7 }, got[30];
	MPI_Datatype t;
	MPI_Status s;

	MPI_Type_vector(5, 2, 3, MPI_INT, &t);
	MPI_Type_commit(&t);
	memset(got, 0, sizeof(got));
	MPI_Sendrecv(v, 7, MPI_INT, right, 4, got, 2, t, left, 4, MPI_COMM_WORLD, &s);
	MPI_Get_count(&s, t, &n);
	CHECK_EQ(n, MPI_UNDEFINED);
	MPI_Get_elements(&s, t, &n);
	CHECK_EQ(n, 7);
	for (int i = 0, k = 0; i < 30; i++)
		CHECK_EQ(got[i], i % 3 < 2 && k < 7 ? v[k++] : 0);
	MPI_Type_free(&t);
}

static void pairs(void)
{
	struct { short v; int i; } a[100], b[100];
	struct { double v; int i; } c[50], d[50];
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Status s;

	for (int i = 0; i < 100; i++) {
		a[i].v = (short)(me + i);
		a[i].i = -i;
	}
	MPI_Sendrecv(a, 100, MPI_SHORT_INT, right, 5, b, 100, MPI_SHORT_INT, left, 5, MPI_COMM_WORLD, &s);
	for (int i = 0; i < 100; i++)
		CHECK(b[i].v == left + i && b[i].i == -i);
	for (int i = 0; i < 50; i++) {
		c[i].v = me + i * 0.25;
		c[i].i = i;
	}
	MPI_Sendrecv(c, 50, MPI_DOUBLE_INT, right, 6, d, 50, MPI_DOUBLE_INT, left, 6, MPI_COMM_WORLD, &s);
	for (int i = 0; i < 50; i++)
		CHECK(d[i].v == left + i * 0.25 && d[i].i == i);
}

/* ---- two layouts of one signature ------------------------------------------------------------------------------- */

struct cell {
	char kind;
	double v[2];
	int id;
};

static MPI_Datatype cell_type(void)
{
	int lengths[3] = { 1, 2, 1 };
	MPI_Aint places[3] = { offsetof(struct cell, kind), offsetof(struct cell, v), offsetof(struct cell, id) };
	MPI_Datatype types[3] = { MPI_CHAR, MPI_DOUBLE, MPI_INT }, t;

	MPI_Type_create_struct(3, lengths, places, types, &t);
	return t;
}

/* Types over (count) cells that pick all of them, in some order; *order says in which. All have the same signature. */
static MPI_Datatype cells_type(int how, int count, int *order)
{
	MPI_Datatype cell = cell_type(), t, row;
	int *at = malloc(sizeof(*at) * count), *ones = malloc(sizeof(*ones) * count);
	MPI_Aint *far = malloc(sizeof(*far) * count);

	for (int i = 0; i < count; i++) {
		order[i] = how == 1 ? i / 2 + i % 2 * (count / 2) : how == 2 ? count - 1 - i : how == 3 ? (i * 7) % count : i;
		at[i] = order[i];
		far[i] = (MPI_Aint)(order[i] * sizeof(struct cell));
		ones[i] = 1;
	}
	switch (how) {
	case 0:
		MPI_Type_contiguous(count, cell, &t);
		break;
	case 1:		/* a transposition */
		MPI_Type_vector(2, 1, count / 2, cell, &row);
		MPI_Type_create_resized(row, 0, sizeof(struct cell), &t);
		MPI_Type_free(&row);
		row = t;
		MPI_Type_contiguous(count / 2, row, &t);
		MPI_Type_free(&row);
		break;
	case 2:		/* backwards */
		MPI_Type_create_hindexed_block(count, 1, far, cell, &t);
		break;
	case 3:
		MPI_Type_indexed(count, ones, at, cell, &t);
		break;
	default:	/* absolute addresses are next */
		MPI_Type_dup(cell, &row);
		MPI_Type_create_hvector(count, 1, sizeof(struct cell), row, &t);
		MPI_Type_free(&row);
	}
	MPI_Type_free(&cell);
	MPI_Type_commit(&t);
	free(at);
	free(ones);
	free(far);
	return t;
}

/* Any layout to any other; half of them by absolute addresses, from MPI_BOTTOM. */
static void layouts(int count)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, one = 1, n;
	struct cell *a = calloc(count, sizeof(*a)), *b = calloc(count, sizeof(*b));
	int *from = malloc(sizeof(*from) * count), *to = malloc(sizeof(*to) * count);

	for (int k = 0; k < 25; k++) {
		MPI_Datatype s = cells_type(k / 5, count, from), r = cells_type(k % 5, count, to), absolute;
		MPI_Aint where;
		MPI_Request req;
		MPI_Status st;

		for (int i = 0; i < count; i++) {
			a[i] = (struct cell){ (char)(i + me), { i, me + 0.5 }, i * 10 + k };
			memset(&b[i], 0x77, sizeof(b[i]));
		}
		MPI_Get_address(b, &where);
		MPI_Type_create_hindexed(1, &one, &where, r, &absolute);
		MPI_Type_commit(&absolute);
		if (k % 2)
			MPI_Irecv(MPI_BOTTOM, 1, absolute, left, 8, MPI_COMM_WORLD, &req);
		else
			MPI_Irecv(b, 1, r, left, 8, MPI_COMM_WORLD, &req);
		MPI_Type_free(&absolute);
		MPI_Send(a, 1, s, right, 8, MPI_COMM_WORLD);
		MPI_Wait(&req, &st);
		MPI_Get_elements(&st, r, &n);
		CHECK_EQ(n, 4 * count);
		for (int i = 0; i < count; i++) {
			struct cell *got = &b[to[i]];

			CHECK(got->kind == (char)(from[i] + left) && got->v[0] == from[i] && got->v[1] == left + 0.5);
			CHECK_EQ(got->id, from[i] * 10 + k);
			CHECK_EQ(((char *)got)[1], 0x77);
			CHECK_EQ(((char *)got)[sizeof(*got) - 1], 0x77);
		}
		MPI_Type_free(&s);
		MPI_Type_free(&r);
	}
	free(a);
	free(b);
	free(from);
	free(to);
}

/* Sections 5.2 and 5.3: one rank packs and sends as MPI_PACKED; another rank unpacks, or receives with the original type. */
static void packed(void)
{
	int right = (me + 1) % np, left = (me + np - 1) % np, size, more, position = 0, n = 3, order[64];
	MPI_Datatype t = cells_type(2, 20, order);
	struct cell a[20], b[20];
	char buf[1000], external[1000];
	MPI_Aint at = 0, room;
	MPI_Status st;

	for (int i = 0; i < 20; i++)
		a[i] = (struct cell){ (char)i, { i * 0.5, me }, -i };
	MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &size);
	MPI_Pack_size(1, t, MPI_COMM_WORLD, &more);
	CHECK(size + more <= (int)sizeof(buf));
	CHECK_EQ(MPI_Pack_size(INT32_MAX, MPI_INT, MPI_COMM_WORLD, &more), MPI_SUCCESS);	/* fits no int */
	CHECK_EQ(more, MPI_UNDEFINED);
	MPI_Pack(&n, 1, MPI_INT, buf, sizeof(buf), &position, MPI_COMM_WORLD);
	MPI_Pack(a, 1, t, buf, sizeof(buf), &position, MPI_COMM_WORLD);
	MPI_Sendrecv_replace(buf, position, MPI_PACKED, right, 9, left, 9, MPI_COMM_WORLD, &st);
	position = 0;
	MPI_Unpack(buf, sizeof(buf), &position, &n, 1, MPI_INT, MPI_COMM_WORLD);
	MPI_Unpack(buf, sizeof(buf), &position, b, 1, t, MPI_COMM_WORLD);
	CHECK_EQ(n, 3);
	for (int i = 0; i < 20; i++)
		CHECK(b[i].kind == i && b[i].v[0] == i * 0.5 && b[i].v[1] == left && b[i].id == -i);
	MPI_Pack_external_size("external32", 1, t, &room);
	CHECK_EQ(room, 20 * (1 + 16 + 4));
	MPI_Pack_external("external32", a, 1, t, external, sizeof(external), &at);
	CHECK_EQ(at, room);
	CHECK_EQ(external[0], 19);		/* the last cell first */
	CHECK_EQ((unsigned char)external[20], (unsigned char)-19);
	at = 0;
	memset(b, 0, sizeof(b));
	MPI_Unpack_external("external32", external, room, &at, b, 1, t);
	for (int i = 0; i < 20; i++)
		CHECK(b[i].kind == i && b[i].v[0] == i * 0.5 && b[i].v[1] == me && b[i].id == -i);
	MPI_Type_free(&t);
}

/* ---- contents of types, names, attributes --------------------------------------------------------------------- */

static void contents(void)
{
	MPI_Datatype cell = cell_type(), t, in[3];
	int ni, na, nt, combiner, ints[4];
	MPI_Count ci, ca, cl, ct;
	MPI_Aint places[3];
	MPI_Count large[3];

	MPI_Type_get_envelope(cell, &ni, &na, &nt, &combiner);
	CHECK(ni == 4 && na == 3 && nt == 3 && combiner == MPI_COMBINER_STRUCT);
	MPI_Type_get_contents(cell, 4, 3, 3, ints, places, in);
	CHECK(ints[0] == 3 && ints[2] == 2 && places[1] == 8 && in[0] == MPI_CHAR && in[2] == MPI_INT);
	MPI_Type_vector_c(2, 1, 3, cell, &t);
	MPI_Type_free(&cell);
	MPI_Type_get_envelope_c(t, &ci, &ca, &cl, &ct, &combiner);
	CHECK(ci == 0 && ca == 0 && cl == 3 && ct == 1 && combiner == MPI_COMBINER_VECTOR);
	MPI_Type_get_contents_c(t, 0, 0, 3, 1, NULL, NULL, large, in);
	CHECK(large[0] == 2 && large[1] == 1 && large[2] == 3);
	MPI_Type_free(&t);
	MPI_Type_get_envelope(in[0], &ni, &na, &nt, &combiner);		/* the inner type is ours, and still exists */
	CHECK_EQ(combiner, MPI_COMBINER_STRUCT);
	MPI_Type_free(&in[0]);
	MPI_Type_get_envelope(MPI_INT, &ni, &na, &nt, &combiner);
	CHECK(combiner == MPI_COMBINER_NAMED && ni == 0 && na == 0 && nt == 0);
	MPI_Type_create_f90_real(6, MPI_UNDEFINED, &t);
	MPI_Type_get_envelope(t, &ni, &na, &nt, &combiner);
	CHECK(combiner == MPI_COMBINER_F90_REAL && ni == 2 && nt == 0);
	MPI_Type_get_contents(t, 2, 0, 0, ints, NULL, NULL);
	CHECK(ints[0] == 6 && ints[1] == MPI_UNDEFINED);
}

static int copied, deleted;

static int copy_attribute(MPI_Datatype t, int key, void *extra, void *value, void *out, int *flag)
{
	(void)t, (void)key;
	copied++;
	*(void **)out = (char *)value + *(int *)extra;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_attribute(MPI_Datatype t, int key, void *value, void *extra)
{
	(void)t, (void)key, (void)value, (void)extra;
	deleted++;
	return MPI_SUCCESS;
}

static void names_and_attributes(void)
{
	MPI_Datatype t, u;
	char name[MPI_MAX_OBJECT_NAME];
	int len, key, flag, extra = 5;
	static char memory[10];
	void *value;

	MPI_Type_get_name(MPI_DOUBLE, name, &len);
	CHECK(!strcmp(name, "MPI_DOUBLE") && len == 10);
	MPI_Type_contiguous(2, MPI_INT, &t);
	MPI_Type_get_name(t, name, &len);
	CHECK(!name[0] && !len);
	MPI_Type_set_name(t, "two");
	MPI_Type_get_name(t, name, &len);
	CHECK(!strcmp(name, "two") && len == 3);
	copied = deleted = 0;
	MPI_Type_create_keyval(copy_attribute, delete_attribute, &key, &extra);
	MPI_Type_get_attr(t, key, &value, &flag);
	CHECK(!flag);
	MPI_Type_set_attr(t, key, memory);
	MPI_Type_dup(t, &u);
	CHECK_EQ(copied, 1);
	MPI_Type_get_attr(u, key, &value, &flag);
	CHECK(flag && value == memory + 5);
	MPI_Type_delete_attr(u, key);
	CHECK_EQ(deleted, 1);
	MPI_Type_free(&u);
	CHECK_EQ(deleted, 1);
	MPI_Type_free_keyval(&key);
	MPI_Type_free(&t);
	CHECK_EQ(deleted, 2);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void refused_at(int line, int code, int want, const char *call, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int class, len;

	MPI_Error_class(code, &class);
	MPI_Error_string(code, text, &len);
	if (class != want || !strstr(text, call) || !strstr(text, what))
		test_fail(__FILE__, line, "class %d instead of %d, or no \"%s\" and \"%s\" in: %s", class, want, call, what,
			  text);
}
#define REFUSED(class, what, name, ...) refused_at(__LINE__, MPI_##name(__VA_ARGS__), class, "MPI_" #name ": ", what)

static void refused(void)
{
	const int one[2] = { 1, 1 }, minus[2] = { 1, -2 }, zero[2] = { 0, 0 }, big[2] = { 5, 5 }, none = 1;
	const int block[2] = { MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK }, dflt[2] = { MPI_DISTRIBUTE_DFLT_DARG,
											  MPI_DISTRIBUTE_DFLT_DARG };
	const MPI_Aint places[2] = { 0, 64 };
	MPI_Datatype ints[2] = { MPI_INT, MPI_INT }, bad[2] = { MPI_INT, MPI_DATATYPE_NULL }, t, stale, u = MPI_INT;
	MPI_Count large[4], c1, c2, c3, c4;
	int v[4] = { 0 }, position = 0, a, b, d, e;
	MPI_Aint at = 0, where[2];
	char buf[16];
	MPI_Status st = { 0 };

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Type_vector(2, 1, 2, MPI_INT, &t);
	REFUSED(MPI_ERR_TYPE, "not committed", Send, v, 1, t, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_TYPE, "not committed", Recv, v, 1, t, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &st);
	REFUSED(MPI_ERR_TYPE, "not committed", Pack, v, 1, t, buf, 16, &position, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_TYPE, "not committed", Bcast, v, 1, t, 0, MPI_COMM_WORLD);
	MPI_Type_commit(&t);
	stale = t;
	REFUSED(MPI_ERR_OP, "MPI_SUM is not defined on a derived datatype", Allreduce, v, v + 2, 1, t, MPI_SUM, MPI_COMM_SELF);
	REFUSED(MPI_ERR_COUNT, "count -1", Type_contiguous, -1, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "newtype", Type_contiguous, 1, MPI_INT, NULL);
	REFUSED(MPI_ERR_TYPE, "oldtype", Type_contiguous_c, 1, MPI_DATATYPE_NULL, &u);
	REFUSED(MPI_ERR_COUNT, "count -3", Type_vector, -3, 1, 1, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "blocklength -2", Type_vector_c, 1, -2, 1, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "blocklength -2", Type_create_hvector, 1, -2, 1, MPI_INT, &u);
	REFUSED(MPI_ERR_VALUE_TOO_LARGE, "63 bits", Type_create_hvector_c, INT64_MAX, 1, 3, MPI_INT, &u);
	REFUSED(MPI_ERR_COUNT, "count -1", Type_indexed, -1, one, one, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_blocklengths[1] -2", Type_indexed, 2, minus, one, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_blocklengths", Type_indexed, 2, NULL, one, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_displacements", Type_create_hindexed, 2, one, NULL, MPI_INT, &u);
	REFUSED(MPI_ERR_TYPE, "oldtype", Type_create_hindexed, 2, one, places, MPI_DATATYPE_NULL, &u);
	REFUSED(MPI_ERR_ARG, "blocklength -1", Type_create_indexed_block, 2, -1, one, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "blocklength -1", Type_create_hindexed_block, 2, -1, places, MPI_INT, &u);
	REFUSED(MPI_ERR_TYPE, "array_of_types[1]: MPI_DATATYPE_NULL", Type_create_struct, 2, one, places, bad, &u);
	REFUSED(MPI_ERR_ARG, "array_of_types", Type_create_struct, 2, one, places, NULL, &u);
	REFUSED(MPI_ERR_ARG, "array_of_blocklengths[1] -2", Type_create_struct, 2, minus, places, ints, &u);
	REFUSED(MPI_ERR_VALUE_TOO_LARGE, "63 bits", Type_create_resized, MPI_INT, INT64_MAX, 1, &u);
	REFUSED(MPI_ERR_DIMS, "ndims 0", Type_create_subarray, 0, one, one, zero, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_sizes[0] 0", Type_create_subarray, 2, zero, one, zero, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_subsizes[0] 5", Type_create_subarray, 2, one, big, zero, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_starts[0] 1", Type_create_subarray, 2, one, one, one, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "order 7", Type_create_subarray, 2, one, one, zero, 7, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "size 3", Type_create_darray, 3, 0, 2, big, block, dflt, one, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_RANK, "rank 1", Type_create_darray, 1, 1, 2, big, block, dflt, one, MPI_ORDER_C, MPI_INT, &u);
	REFUSED(MPI_ERR_ARG, "array_of_distribs[0] 1", Type_create_darray, 1, 0, 2, big, one, dflt, one, MPI_ORDER_C, MPI_INT,
		&u);
	REFUSED(MPI_ERR_ARG, "array_of_dargs[0] 1", Type_create_darray, 1, 0, 1, big, block, &none, one, MPI_ORDER_C, MPI_INT,
		&u);
	REFUSED(MPI_ERR_ARG, "p and r", Type_create_f90_real, MPI_UNDEFINED, MPI_UNDEFINED, &u);
	REFUSED(MPI_ERR_ARG, "no type", Type_create_f90_complex, 99, 3, &u);
	REFUSED(MPI_ERR_ARG, "no type", Type_create_f90_integer, 99, &u);
	REFUSED(MPI_ERR_ARG, "typeclass 3", Type_match_size, 3, 4, &u);
	REFUSED(MPI_ERR_ARG, "size 3", Type_match_size, MPI_TYPECLASS_REAL, 3, &u);
	REFUSED(MPI_ERR_TYPE, "index_type", Type_get_value_index, MPI_INT, MPI_DATATYPE_NULL, &u);
	REFUSED(MPI_ERR_TYPE, "MPI_INT is predefined", Type_get_contents, MPI_INT, 9, 9, 9, v, where, &u);
	REFUSED(MPI_ERR_ARG, "max_integers 2", Type_get_contents, t, 2, 0, 1, v, where, &u);
	REFUSED(MPI_ERR_ARG, "max_datatypes 0", Type_get_contents_c, t, 3, 0, 0, 0, v, where, large, &u);
	REFUSED(MPI_ERR_ARG, "combiner", Type_get_envelope, t, &a, &b, &d, NULL);
	REFUSED(MPI_ERR_ARG, "num_large_counts", Type_get_envelope_c, t, &c1, &c2, NULL, &c4, &e);
	REFUSED(MPI_ERR_ARG, "extent", Type_get_extent, t, where, NULL);
	REFUSED(MPI_ERR_ARG, "size", Type_size, t, NULL);
	REFUSED(MPI_ERR_ARG, "address", Get_address, v, NULL);
	REFUSED(MPI_ERR_COUNT, "count -1", Status_set_elements, &st, t, -1);
	REFUSED(MPI_ERR_COUNT, "incount -1", Pack, v, -1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_TRUNCATE, "outsize 3", Pack, v, 1, MPI_INT, buf, 3, &position, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_BUFFER, "inbuf", Pack, NULL, 1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_TRUNCATE, "insize 7", Unpack, buf, 7, &position, v, 2, MPI_INT, MPI_COMM_WORLD);
	position = 17;
	REFUSED(MPI_ERR_ARG, "position 17", Pack, v, 1, MPI_INT, buf, 16, &position, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_COMM, "MPI_COMM_NULL", Pack_size, 1, MPI_INT, MPI_COMM_NULL, &a);
	REFUSED(MPI_ERR_ARG, "\"native\"", Pack_external, "native", v, 1, MPI_INT, buf, 16, &at);
	REFUSED(MPI_ERR_TRUNCATE, "outsize 3", Pack_external, "external32", v, 1, MPI_INT, buf, 3, &at);
	REFUSED(MPI_ERR_ARG, "type_name", Type_set_name, t, NULL);
	REFUSED(MPI_ERR_KEYVAL, "keyval", Type_set_attr, t, MPI_KEYVAL_INVALID, NULL);
	REFUSED(MPI_ERR_TYPE, "MPI_INT is predefined", Type_free, &(MPI_Datatype){ MPI_INT });
	MPI_Type_vector_c(2, 1, 2, MPI_INT, &u);
	REFUSED(MPI_ERR_TYPE, "MPI_Type_get_envelope_c", Type_get_envelope, u, &a, &b, &d, &e);
	REFUSED(MPI_ERR_TYPE, "MPI_Type_get_contents_c", Type_get_contents, u, 9, 9, 9, v, where, bad);
	MPI_Type_free(&u);
	/* freed, of another kind, and invalid */
	MPI_Type_free(&t);
	REFUSED(MPI_ERR_TYPE, "or was freed", Type_commit, &stale);
	REFUSED(MPI_ERR_TYPE, "or was freed", Type_free, &stale);
	REFUSED(MPI_ERR_TYPE, "or was freed", Send, v, 1, stale, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
	REFUSED(MPI_ERR_TYPE, "no datatype", Type_size_c, (MPI_Datatype)MPI_COMM_WORLD, &c3);
	REFUSED(MPI_ERR_TYPE, "no datatype", Type_size_c, (MPI_Datatype)sync_comm, &c3);
	REFUSED(MPI_ERR_TYPE, "no datatype", Type_size_c, (MPI_Datatype)v, &c3);
	REFUSED(MPI_ERR_TYPE, "no datatype", Type_size_c, (MPI_Datatype)0x123456789abcdef8, &c3);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	contents();
	names_and_attributes();
	refused();
	packed();
	layouts(10);
	layouts(3000);
	for (int i = 0; i < 3; i++) {
		columns(8, 8, 1);
		columns(100, 50, 3);
		columns(1000, 20, 5);
		columns(2000, 300, 64);
		partial();
		pairs();
		freed_while_pending(10);
		freed_while_pending(20000);
	}
	test_done("types");
	return 0;
}
