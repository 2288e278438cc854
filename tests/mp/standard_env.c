/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment and error handling (chapter 9), info objects (chapter 10), the beginning and the end (11.2), generalized
 * requests and statuses (13.2, 13.3).
 */
#include "standard.h"

#include <pthread.h>

#define WORLD	MPI_COMM_WORLD
#define SELF	MPI_COMM_SELF

static int level;		/* of thread support */

/* ---- 9.1, 9.2: the environment --------------------------------------------------------------------------------- */

static void inquiry(void)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING > MPI_MAX_PROCESSOR_NAME ? MPI_MAX_LIBRARY_VERSION_STRING :
									    MPI_MAX_PROCESSOR_NAME];
	int version, subversion, len, flag, *value, r;
	double t = MPI_Wtime();
	MPI_Request q;

	MPI_Get_version(&version, &subversion);
	CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
	MPI_Get_library_version(text, &len);
	CHECK(len > 0 && len < MPI_MAX_LIBRARY_VERSION_STRING && (int)strlen(text) == len);
	MPI_Get_processor_name(text, &len);
	CHECK(len > 0 && len < MPI_MAX_PROCESSOR_NAME && (int)strlen(text) == len);
	MPI_Comm_get_attr(WORLD, MPI_TAG_UB, &value, &flag);
	CHECK(flag && *value >= 32767);
	MPI_Irecv(&r, 1, MPI_INT, 0, *value, SELF, &q);	/* the greatest tag is one */
	MPI_Send(&me, 1, MPI_INT, 0, *value, SELF);
	MPI_Wait(&q, MPI_STATUS_IGNORE);
	CHECK_EQ(r, me);
	MPI_Comm_get_attr(WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
	CHECK(!flag || *value == 0 || *value == 1);
	MPI_Comm_get_attr(WORLD, MPI_IO, &value, &flag);
	CHECK(!flag || *value == MPI_ANY_SOURCE || *value == MPI_PROC_NULL || (*value >= 0 && *value < np));
	MPI_Comm_get_attr(WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
	CHECK(!flag || *value >= np);
	FAILS(MPI_Comm_set_attr(WORLD, MPI_TAG_UB, &r), MPI_ERR_KEYVAL);
	CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1);
	CHECK(MPI_Wtime() >= t);
	MPI_Initialized(&flag);
	CHECK(flag);
	MPI_Finalized(&flag);
	CHECK(!flag);
	MPI_Is_thread_main(&flag);
	CHECK(flag);
	MPI_Query_thread(&flag);
	CHECK_EQ(flag, level);
}

/* Memory of MPI's, with and without hints: as good as any. */
static void memory(void)
{
	float (*a)[100];
	int right = (me + 1) % np, left = (me + np - 1) % np;
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "mpi_minimum_memory_alignment", "128");
	for (int i = 0; i < 2; i++) {
		MPI_Alloc_mem(100 * 100 * sizeof(float), i ? info : MPI_INFO_NULL, &a);
		CHECK(a != NULL);
		if (i)
			CHECK_EQ((uintptr_t)a % 128, 0);
		a[5][3] = (float)me;
		MPI_Sendrecv_replace(&a[5][3], 1, MPI_FLOAT, right, 0, left, 0, WORLD, MPI_STATUS_IGNORE);
		CHECK(a[5][3] == (float)left);
		MPI_Free_mem(a);
	}
	MPI_Info_free(&info);
}

/* ---- 9.3: error handlers -------------------------------------------------------------------------------------------- */

static struct {
	int calls, code;
	MPI_Comm comm;
} seen;

static void handler(MPI_Comm *comm, int *code, ...)
{
	seen.calls++;
	seen.code = *code;
	seen.comm = *comm;
}

/* The handler of the communicator gets the error, and the call returns the error; a duplicate inherits the handler; a freed
 * handler stays in use. */
static void handlers(void)
{
	MPI_Errhandler h, was;
	MPI_Comm a, b;
	int rc;

	memset(&seen, 0, sizeof(seen));
	MPI_Comm_get_errhandler(WORLD, &was);
	CHECK(was == MPI_ERRORS_ARE_FATAL);
	MPI_Errhandler_free(&was);
	CHECK(was == MPI_ERRHANDLER_NULL);
	MPI_Comm_create_errhandler(handler, &h);
	MPI_Comm_dup(WORLD, &a);
	MPI_Comm_set_errhandler(a, h);
	MPI_Comm_get_errhandler(a, &was);
	CHECK(was == h);
	MPI_Errhandler_free(&was);
	MPI_Errhandler_free(&h);
	rc = MPI_Send(&rc, 1, MPI_INT, np, 0, a);
	CHECK_EQ(class_of(rc), MPI_ERR_RANK);
	CHECK(seen.calls == 1 && seen.code == rc && seen.comm == a);
	MPI_Comm_dup(a, &b);
	rc = MPI_Send(&rc, -1, MPI_INT, 0, 0, b);
	CHECK_EQ(class_of(rc), MPI_ERR_COUNT);
	CHECK(seen.calls == 2 && seen.comm == b);
	MPI_Comm_free(&a);
	rc = MPI_Recv(&rc, 1, MPI_DATATYPE_NULL, 0, 0, b, MPI_STATUS_IGNORE);
	CHECK_EQ(class_of(rc), MPI_ERR_TYPE);
	CHECK_EQ(seen.calls, 3);
	/* called by MPI_Comm_call_errhandler; then replaced by another handler */
	rc = MPI_Comm_call_errhandler(b, MPI_ERR_OTHER);
	CHECK(rc == MPI_SUCCESS && seen.calls == 4 && seen.code == MPI_ERR_OTHER);
	MPI_Comm_set_errhandler(b, MPI_ERRORS_RETURN);
	CHECK_EQ(MPI_Comm_call_errhandler(b, MPI_ERR_OTHER), MPI_SUCCESS);
	rc = MPI_Send(&rc, 1, MPI_INT, 0, -5, b);
	CHECK_EQ(class_of(rc), MPI_ERR_TAG);
	CHECK_EQ(seen.calls, 4);
	MPI_Comm_free(&b);
}

/* The wait for a receive reports the receive's error, by the handler of the communicator. */
static void late_error(void)
{
	int v[4] = { 1, 2, 3, 4 }, got[4], rc;
	MPI_Errhandler h;
	MPI_Request r;
	MPI_Comm c;

	memset(&seen, 0, sizeof(seen));
	MPI_Comm_create_errhandler(handler, &h);
	MPI_Comm_dup(SELF, &c);
	MPI_Comm_set_errhandler(c, h);
	MPI_Irecv(got, 2, MPI_INT, 0, 0, c, &r);
	CHECK_EQ(MPI_Send(v, 4, MPI_INT, 0, 0, c), MPI_SUCCESS);
	CHECK_EQ(seen.calls, 0);
	rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
	CHECK(class_of(rc) == MPI_ERR_TRUNCATE && seen.calls == 1 && seen.code == rc && seen.comm == c);
	MPI_Errhandler_free(&h);
	MPI_Comm_free(&c);
}

/* ---- 9.4, 9.5: classes and codes -------------------------------------------------------------------------------------- */

static int last_code(void)
{
	int *value, flag;

	MPI_Comm_get_attr(WORLD, MPI_LASTUSEDCODE, &value, &flag);
	CHECK(flag);
	return *value;
}

/* A class of a program's own, with codes and texts; they begin above the predefined ones. */
static void codes(void)
{
	char text[MPI_MAX_ERROR_STRING];
	int class, code, second, len, before = last_code();

	CHECK(before >= MPI_ERR_LASTCODE);
	MPI_Add_error_class(&class);
	CHECK(class > MPI_ERR_LASTCODE && last_code() >= class);
	CHECK_EQ(class_of(class), class);
	MPI_Error_string(class, text, &len);
	CHECK(len == (int)strlen(text));
	MPI_Add_error_code(class, &code);
	MPI_Add_error_code(MPI_ERR_TRUNCATE, &second);
	CHECK(code != class && second != code && last_code() >= second);
	CHECK_EQ(class_of(code), class);
	CHECK_EQ(class_of(second), MPI_ERR_TRUNCATE);
	MPI_Add_error_string(code, "the reactor is cold");
	MPI_Error_string(code, text, &len);
	CHECK(len == 19 && !strcmp(text, "the reactor is cold"));
	MPI_Add_error_string(code, "the reactor is hot");
	MPI_Error_string(code, text, &len);
	CHECK(!strcmp(text, "the reactor is hot"));
	for (int c = MPI_SUCCESS; c <= MPI_ERR_IO; c++) {
		MPI_Error_string(c, text, &len);
		CHECK(len > 0 && len < MPI_MAX_ERROR_STRING && class_of(c) == c);
	}
	/* in the order that is required: a code's string before the code, a class's codes before the class */
	FAILS(MPI_Remove_error_code(code), MPI_ERR_ARG);
	MPI_Error_string(code, text, &len);
	CHECK(!strcmp(text, "the reactor is hot"));
	FAILS(MPI_Remove_error_class(class), MPI_ERR_ARG);
	MPI_Remove_error_code(second);
	/* a code travels through a handler like any other */
	memset(&seen, 0, sizeof(seen));
	MPI_Comm dup;
	MPI_Errhandler h;
	MPI_Comm_dup(SELF, &dup);
	MPI_Comm_create_errhandler(handler, &h);
	MPI_Comm_set_errhandler(dup, h);
	MPI_Comm_call_errhandler(dup, code);
	CHECK(seen.calls == 1 && seen.code == code);
	MPI_Errhandler_free(&h);
	MPI_Comm_free(&dup);
	MPI_Remove_error_string(code);
	MPI_Remove_error_code(code);
	MPI_Remove_error_class(class);
}

/* ---- chapter 10 ------------------------------------------------------------------------------------------------------ */

static void info_objects(void)
{
	char key[MPI_MAX_INFO_KEY + 1], value[MPI_MAX_INFO_VAL + 1], small[4];
	int n, flag, len, found = 0;
	MPI_Info a, b;

	MPI_Info_create(&a);
	MPI_Info_get_nkeys(a, &n);
	CHECK_EQ(n, 0);
	MPI_Info_set(a, "file", "input.dat");
	MPI_Info_set(a, "path", "/a:/b");
	MPI_Info_set(a, "soft", "1:10");
	MPI_Info_set(a, "path", "/c");
	MPI_Info_get_nkeys(a, &n);
	CHECK_EQ(n, 3);
	for (int i = 0; i < n; i++) {
		MPI_Info_get_nthkey(a, i, key);
		found |= !strcmp(key, "file") ? 1 : !strcmp(key, "path") ? 2 : !strcmp(key, "soft") ? 4 : 8;
	}
	CHECK_EQ(found, 7);
	len = sizeof(value);
	MPI_Info_get_string(a, "path", &len, value, &flag);
	CHECK(flag && len == 3 && !strcmp(value, "/c"));
	/* too short a buffer: the value is cut, and the needed length is returned; a buffer of length 0: the length alone */
	len = sizeof(small);
	memset(small, 'z', sizeof(small));
	MPI_Info_get_string(a, "file", &len, small, &flag);
	CHECK(flag && len == 10 && !strcmp(small, "inp"));
	len = 0;
	MPI_Info_get_string(a, "file", &len, NULL, &flag);
	CHECK(flag && len == 10);
	len = sizeof(value);
	strcpy(value, "as it was");
	MPI_Info_get_string(a, "nothing", &len, value, &flag);
	CHECK(!flag && !strcmp(value, "as it was"));
	MPI_Info_dup(a, &b);
	MPI_Info_delete(a, "file");
	MPI_Info_get_nkeys(a, &n);
	CHECK_EQ(n, 2);
	MPI_Info_get_nkeys(b, &n);
	CHECK_EQ(n, 3);
	for (int i = 0; i < n; i++) {
		char again[MPI_MAX_INFO_KEY + 1];

		MPI_Info_get_nthkey(b, i, key);
		MPI_Info_get_nthkey(b, i, again);
		CHECK(!strcmp(key, again));
	}
	FAILS(MPI_Info_delete(a, "file"), MPI_ERR_INFO_NOKEY);
	memset(key, 'k', MPI_MAX_INFO_KEY);
	key[MPI_MAX_INFO_KEY] = 0;
	FAILS(MPI_Info_set(a, key, "v"), MPI_ERR_INFO_KEY);
	key[MPI_MAX_INFO_KEY - 1] = 0;
	MPI_Info_set(a, key, "v");
	FAILS(MPI_Info_set(a, "", "v"), MPI_ERR_INFO_KEY);
	memset(value, 'v', MPI_MAX_INFO_VAL);
	value[MPI_MAX_INFO_VAL] = 0;
	FAILS(MPI_Info_set(a, "k", value), MPI_ERR_INFO_VALUE);
	MPI_Info_free(&a);
	CHECK(a == MPI_INFO_NULL);
	MPI_Info_free(&b);
	MPI_Info_get_nkeys(MPI_INFO_ENV, &n);
	CHECK(n >= 0);
}

/* ---- 13.2, 13.3 ------------------------------------------------------------------------------------------------------- */

/* A reduction to rank 0 along a tree as an operation of the program: a thread carries it out, a generalized request stands for
 * the operation. */
struct reduction {
	MPI_Comm comm;
	int sum, freed, cancels;
	MPI_Request request;
	pthread_t thread;
};

static int query_reduction(void *extra, MPI_Status *s)
{
	struct reduction *r = extra;

	MPI_Status_set_elements(s, MPI_INT, r->sum);
	MPI_Status_set_cancelled(s, 0);
	s->MPI_SOURCE = MPI_UNDEFINED;
	s->MPI_TAG = 17;
	return MPI_SUCCESS;
}

static int free_reduction(void *extra)
{
	struct reduction *r = extra;

	r->freed++;
	return MPI_SUCCESS;
}

static int cancel_reduction(void *extra, int complete)
{
	struct reduction *r = extra;

	r->cancels += complete ? 100 : 1;
	return MPI_SUCCESS;
}

static void *reduce_in_thread(void *arg)
{
	struct reduction *r = arg;
	int got;

	for (int i = 2 * me + 1; i <= 2 * me + 2 && i < np; i++) {
		MPI_Recv(&got, 1, MPI_INT, i, 0, r->comm, MPI_STATUS_IGNORE);
		r->sum += got;
	}
	if (me)
		MPI_Send(&r->sum, 1, MPI_INT, (me - 1) / 2, 0, r->comm);
	MPI_Grequest_complete(r->request);
	return NULL;
}

static void generalized(void)
{
	struct reduction r = { .sum = me + 1 };
	int in = -1, n;
	MPI_Request both[2];
	MPI_Status s[2];

	if (level < MPI_THREAD_MULTIPLE)
		return;
	MPI_Comm_dup(WORLD, &r.comm);
	MPI_Grequest_start(query_reduction, free_reduction, cancel_reduction, &r, &r.request);
	both[0] = r.request;
	MPI_Irecv(&in, 1, MPI_INT, (me + np - 1) % np, 1, WORLD, &both[1]);
	pthread_create(&r.thread, NULL, reduce_in_thread, &r);
	MPI_Send(&me, 1, MPI_INT, (me + 1) % np, 1, WORLD);
	MPI_Waitall(2, both, s);
	CHECK(both[0] == MPI_REQUEST_NULL && r.freed == 1);
	MPI_Get_elements(&s[0], MPI_INT, &n);
	CHECK(n == r.sum && s[0].MPI_TAG == 17 && s[0].MPI_SOURCE == MPI_UNDEFINED && !was_cancelled(&s[0]));
	CHECK_EQ(in, (me + np - 1) % np);
	if (!me)
		CHECK_EQ(r.sum, np * (np + 1) / 2);
	pthread_join(r.thread, NULL);
	MPI_Comm_free(&r.comm);
}

/* MPI_Cancel asks the program; free_fn is called when the request is both freed and complete, in either order. */
static void generalized_ends(void)
{
	struct reduction r = { 0 };
	MPI_Request q, copy;
	MPI_Status s;
	int flag;

	MPI_Grequest_start(query_reduction, free_reduction, cancel_reduction, &r, &q);
	MPI_Cancel(&q);
	CHECK_EQ(r.cancels, 1);
	MPI_Test(&q, &flag, &s);
	CHECK(!flag);		/* only MPI_Grequest_complete completes the request */
	MPI_Grequest_complete(q);
	MPI_Cancel(&q);
	CHECK_EQ(r.cancels, 101);
	CHECK_EQ(r.freed, 0);
	MPI_Test(&q, &flag, &s);
	CHECK(flag && r.freed == 1 && q == MPI_REQUEST_NULL);
	MPI_Grequest_start(query_reduction, free_reduction, cancel_reduction, &r, &q);
	copy = q;
	MPI_Request_free(&q);
	CHECK_EQ(r.freed, 1);
	MPI_Grequest_complete(copy);
	CHECK_EQ(r.freed, 2);
	MPI_Grequest_start(query_reduction, free_reduction, cancel_reduction, &r, &q);
	MPI_Grequest_complete(q);
	MPI_Request_free(&q);
	CHECK_EQ(r.freed, 3);
}

static void statuses(void)
{
	MPI_Datatype pair;
	MPI_Status s;
	int n;

	memset(&s, 0, sizeof(s));
	MPI_Type_contiguous(2, MPI_INT, &pair);
	MPI_Type_commit(&pair);
	MPI_Status_set_elements(&s, pair, 6);
	MPI_Status_set_cancelled(&s, 1);
	CHECK(was_cancelled(&s));
	MPI_Status_set_cancelled(&s, 0);
	CHECK(!was_cancelled(&s) && count_of(&s, pair) == 3);
	MPI_Get_elements(&s, pair, &n);
	CHECK_EQ(n, 6);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
	MPI_Status_set_source(&s, 3);
	MPI_Status_set_tag(&s, 4);
	MPI_Status_set_error(&s, MPI_ERR_TRUNCATE);
	MPI_Status_get_source(&s, &n);
	CHECK(n == 3 && s.MPI_SOURCE == 3);
	MPI_Status_get_tag(&s, &n);
	CHECK(n == 4 && s.MPI_TAG == 4);
	MPI_Status_get_error(&s, &n);
	CHECK(n == MPI_ERR_TRUNCATE && s.MPI_ERROR == MPI_ERR_TRUNCATE);
#endif
	MPI_Type_free(&pair);
}

/* ---- 11.2.4: MPI_Finalize deletes the attributes of MPI_COMM_SELF first, the last one first, and MPI still works ---- */

static int ended, works;

static int at_end(MPI_Comm comm, int key, void *value, void *extra)
{
	int flag, v = 5, got = 0;

	(void)comm;
	(void)key;
	(void)extra;
	if ((intptr_t)value != 3 - ended)
		test_fail(__FILE__, __LINE__, "attribute %d is deleted after %d others", (int)(intptr_t)value, ended);
	ended++;
	MPI_Finalized(&flag);
	MPI_Sendrecv(&v, 1, MPI_INT, me, 0, &got, 1, MPI_INT, me, 0, WORLD, MPI_STATUS_IGNORE);
	works += !flag && got == 5;
	return MPI_SUCCESS;
}

static void to_be_deleted(void)
{
	int key;

	for (intptr_t i = 1; i <= 3; i++) {
		MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
		MPI_Comm_set_attr(SELF, key, (void *)i);
		MPI_Comm_free_keyval(&key);
	}
}

static const struct standard_case cases[] = {
	{ "9.1, 9.6, 11.2", "inquiry", 1, inquiry },
	{ "9.2", "memory", 1, memory },
	{ "9.3", "handlers", 1, handlers },
	{ "9.3", "late_error", 1, late_error },
	{ "9.4, 9.5", "codes", 1, codes },
	{ "10", "info_objects", 1, info_objects },
	{ "13.2", "generalized", 1, generalized },
	{ "13.2", "generalized_ends", 1, generalized_ends },
	{ "13.3", "statuses", 1, statuses },
};

int main(int argc, char **argv)
{
	int flag;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(WORLD, &me);
	MPI_Comm_size(WORLD, &np);
	MPI_Comm_dup(WORLD, &sync_comm);
	standard_run(cases, sizeof(cases) / sizeof(*cases), argc, argv);
	to_be_deleted();
	test_done("env");
	MPI_Finalized(&flag);
	return ended == 3 && works == 3 && flag ? 0 : 3;
}
