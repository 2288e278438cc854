/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of communicators (MPI-5.0 section 7.7): copies and deletions, their time and order; and errors. */
#include "mpi_test.h"

#include <limits.h>

/* Arguments of the calls of the callback functions, in order. */
static struct {
	char what;
	int key;
	void *value, *extra;
	MPI_Comm comm;
} seen[64];
static int nseen, fail_copy, fail_delete;
static int extra;

static void note(char what, MPI_Comm comm, int key, void *value, void *extra_state)
{
	CHECK(nseen < 64);
	seen[nseen].what = what;
	seen[nseen].key = key;
	seen[nseen].value = value;
	seen[nseen].comm = comm;
	seen[nseen++].extra = extra_state;
}

static int copy_fn(MPI_Comm comm, int key, void *extra_state, void *in, void *out, int *flag)
{
	note('c', comm, key, in, extra_state);
	if (fail_copy == key)
		return MPI_ERR_OTHER;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int no_copy_fn(MPI_Comm comm, int key, void *extra_state, void *in, void *out, int *flag)
{
	(void)out;
	note('n', comm, key, in, extra_state);
	*flag = 0;
	return MPI_SUCCESS;
}

static int delete_fn(MPI_Comm comm, int key, void *value, void *extra_state)
{
	note('d', comm, key, value, extra_state);
	return fail_delete == key ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void *value_of(MPI_Comm comm, int key, int want)
{
	void *v = NULL;
	int flag = -1;

	CHECK_EQ(MPI_Comm_get_attr(comm, key, &v, &flag), MPI_SUCCESS);
	CHECK_EQ(flag, want);
	return v;
}

static int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}

static char data[64];

/* Which attributes a copy has, and which functions were called. */
static void copies(void)
{
	int key[4], old;
	MPI_Comm c, d;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_create_keyval(copy_fn, delete_fn, &key[0], &extra);
	MPI_Comm_create_keyval(no_copy_fn, delete_fn, &key[1], NULL);
	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key[2], NULL);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_fn, &key[3], &extra);
	nseen = 0;
	for (int i = 0; i < 4; i++) {
		value_of(c, key[i], 0);
		MPI_Comm_set_attr(c, key[i], &data[10 * i]);
		CHECK(value_of(c, key[i], 1) == &data[10 * i]);
	}
	CHECK_EQ(nseen, 0);
	MPI_Comm_dup(c, &d);
	CHECK(nseen == 2 && seen[0].what == 'c' && seen[1].what == 'n' && seen[0].comm == c && seen[0].value == data);
	CHECK(seen[0].extra == &extra && seen[0].key == key[0] && seen[1].key == key[1]);
	CHECK(value_of(d, key[0], 1) == data + 1);
	value_of(d, key[1], 0);
	CHECK(value_of(d, key[2], 1) == &data[20]);
	value_of(d, key[3], 0);
	/* The value that is replaced goes through its function. */
	nseen = 0;
	MPI_Comm_set_attr(c, key[3], &data[31]);
	CHECK(nseen == 1 && seen[0].what == 'd' && seen[0].value == &data[30] && seen[0].extra == &extra && seen[0].comm == c);
	MPI_Comm_delete_attr(c, key[3]);
	CHECK(nseen == 2 && seen[1].value == &data[31]);
	value_of(c, key[3], 0);
	/* A freed key lives on in its attributes. */
	old = key[0];
	CHECK_EQ(MPI_Comm_free_keyval(&key[0]), MPI_SUCCESS);
	CHECK_EQ(key[0], MPI_KEYVAL_INVALID);
	nseen = 0;
	MPI_Comm_free(&d);
	CHECK(nseen == 1 && seen[0].what == 'd' && seen[0].value == data + 1 && seen[0].key == old);
	nseen = 0;
	MPI_Comm_free(&c);
	CHECK_EQ(nseen, 2);
	for (int i = 1; i < 4; i++)
		MPI_Comm_free_keyval(&key[i]);
	/* A split has no attributes. */
	MPI_Comm_create_keyval(copy_fn, delete_fn, &key[0], NULL);
	MPI_Comm_set_attr(MPI_COMM_WORLD, key[0], data);
	nseen = 0;
	MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &c);
	CHECK_EQ(nseen, 0);
	value_of(c, key[0], 0);
	MPI_Comm_free(&c);
	MPI_Comm_delete_attr(MPI_COMM_WORLD, key[0]);
	MPI_Comm_free_keyval(&key[0]);
}

/* A callback that fails makes the call fail, and the call has no effect. */
static void failures(void)
{
	int key[3];
	MPI_Comm c, d;

	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_set_errhandler(c, MPI_ERRORS_RETURN);
	for (int i = 0; i < 3; i++) {
		MPI_Comm_create_keyval(copy_fn, delete_fn, &key[i], NULL);
		MPI_Comm_set_attr(c, key[i], &data[10 * i]);
	}
	fail_copy = key[1];
	nseen = 0;
	d = MPI_COMM_NULL;
	CHECK_EQ(class_of(MPI_Comm_dup(c, &d)), MPI_ERR_OTHER);
	/* attributes that were copied already are deleted */
	CHECK(nseen == 3 && seen[2].what == 'd' && seen[2].value == data + 1 && seen[2].key == key[0]);
	fail_copy = 0;
	fail_delete = key[1];
	CHECK_EQ(class_of(MPI_Comm_set_attr(c, key[1], data)), MPI_ERR_OTHER);
	CHECK(value_of(c, key[1], 1) == &data[10]);
	CHECK_EQ(class_of(MPI_Comm_delete_attr(c, key[1])), MPI_ERR_OTHER);
	CHECK(value_of(c, key[1], 1) == &data[10]);
	CHECK_EQ(class_of(MPI_Comm_free(&c)), MPI_ERR_OTHER);
	CHECK(c != MPI_COMM_NULL);
	CHECK(value_of(c, key[1], 1) == &data[10]);
	fail_delete = 0;
	CHECK_EQ(MPI_Comm_free(&c), MPI_SUCCESS);
	for (int i = 0; i < 3; i++)
		MPI_Comm_free_keyval(&key[i]);
}

static void predefined(void)
{
	int *v, flag;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &v, &flag);
	CHECK(flag && *v >= 32767);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &v, &flag);
	CHECK(!flag || *v == MPI_ANY_SOURCE || *v == MPI_PROC_NULL || (*v >= 0 && *v < np));
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &v, &flag);
	CHECK(flag && (*v == MPI_PROC_NULL || (*v >= 0 && *v < np)));
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &v, &flag);
	CHECK(flag && (*v == 0 || *v == 1));
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &v, &flag);
	CHECK(flag && *v >= MPI_ERR_LASTCODE);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &v, &flag);
	CHECK(!flag || *v >= np);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &v, &flag);
	CHECK(!flag || *v >= 0);
}

/* The order at MPI_Finalize: MPI_COMM_SELF's, the last one set first; MPI still works. */
static int last_key[3], nlast;
static int at_end(MPI_Comm comm, int key, void *value, void *extra_state)
{
	int result, flag;

	(void)value, (void)extra_state;
	CHECK(nlast < 3 && key == last_key[2 - nlast]);
	nlast++;
	MPI_Comm_compare(comm, MPI_COMM_SELF, &result);
	MPI_Finalized(&flag);
	CHECK(result == MPI_IDENT && !flag);
	if (nlast == 3 && me == 0)
		printf("attributes: ok, %d ranks\n", np);
	return MPI_SUCCESS;
}

/* ---- errors ----------------------------------------------------------------------------------------- */

/* Several threads of creation are not needed to see keys come and go: a slot's next key is another number. */
static void stale(void)
{
	int a, b, old, flag;
	void *v;

	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &a, NULL);
	old = a;
	MPI_Comm_free_keyval(&a);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &b, NULL);
	CHECK(old != b);
	CHECK_EQ(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, old, &v, &flag)), MPI_ERR_KEYVAL);
	CHECK_EQ(class_of(MPI_Comm_free_keyval(&old)), MPI_ERR_KEYVAL);
	MPI_Comm_free_keyval(&b);
}

static void refused(void)
{
	static const int bad[] = { MPI_KEYVAL_INVALID, -1, 1, INT_MAX, INT_MIN, 0x1000 + 77, MPI_WIN_BASE };
	int key, flag, k;
	void *v;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CHECK_EQ(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, bad[i], NULL)), MPI_ERR_KEYVAL);
		CHECK_EQ(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, bad[i], &v, &flag)), MPI_ERR_KEYVAL);
		CHECK_EQ(class_of(MPI_Comm_delete_attr(MPI_COMM_WORLD, bad[i])), MPI_ERR_KEYVAL);
		k = bad[i];
		CHECK_EQ(class_of(MPI_Comm_free_keyval(&k)), MPI_ERR_KEYVAL);
		CHECK_EQ(k, bad[i]);
	}
	CHECK_EQ(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL)), MPI_ERR_KEYVAL);
	CHECK_EQ(class_of(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB)), MPI_ERR_KEYVAL);
	CHECK_EQ(class_of(MPI_Comm_delete_attr(MPI_COMM_WORLD, key)), MPI_ERR_KEYVAL);
	CHECK_EQ(class_of(MPI_Comm_set_attr(MPI_COMM_NULL, key, NULL)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Comm_get_attr(MPI_COMM_NULL, key, &v, &flag)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Comm_delete_attr(MPI_COMM_NULL, key)), MPI_ERR_COMM);
	CHECK_EQ(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, key, NULL, &flag)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &v, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, NULL, NULL)), MPI_ERR_ARG);
	CHECK_EQ(class_of(MPI_Comm_free_keyval(NULL)), MPI_ERR_ARG);
	stale();
	MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	copies();
	failures();
	predefined();
	refused();
	meet(sync_comm);
	MPI_Comm_free(&sync_comm);
	for (int i = 0; i < 3; i++) {
		MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &last_key[i], NULL);
		MPI_Comm_set_attr(MPI_COMM_SELF, last_key[i], NULL);
	}
	MPI_Finalize();
	CHECK_EQ(nlast, 3);
	return 0;
}
