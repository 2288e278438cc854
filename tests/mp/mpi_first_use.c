/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that all make the first call of functions for which the library initializes something. Before MPI_Init_thread and after
 * MPI_Finalize: the functions that may be called at any time and are always thread-safe (MPI-5.0 section 11.4.1: infos, error
 * classes, codes and strings, error handlers of sessions). With MPI_THREAD_MULTIPLE in between: predefined attributes, names,
 * keyvals, types by precision, external32, operations, hardware.
 */
#include "mpi_test.h"

#include <pthread.h>

enum { THREADS = 8, ERRORS = 400 };

static pthread_barrier_t start;
static int class_of[THREADS][ERRORS], code_of[THREADS][ERRORS];
static int keyval_of[THREADS];
static MPI_Datatype shared_type, precise[THREADS][3];
static void *tag_ub[THREADS];
static char env_command[THREADS][MPI_MAX_INFO_VAL];

static int common_class;

static void at_once(void *(*fn)(void *))
{
	pthread_t thread[THREADS];
	static int number[THREADS];

	CHECK(!pthread_barrier_init(&start, NULL, THREADS));
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		CHECK(!pthread_create(&thread[i], NULL, fn, &number[i]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	pthread_barrier_destroy(&start);
}

static int of_program;		/* ranks of this program, where the job has several: the argument */

static void get_key(MPI_Info info, const char *key, char *value)
{
	int len = MPI_MAX_INFO_VAL, flag = 0;

	CHECK_EQ(MPI_Info_get_string(info, key, &len, value, &flag), MPI_SUCCESS);
	if (!flag)
		value[0] = 0;
}

static void use_infos(int number)
{
	char key[32], value[MPI_MAX_INFO_VAL];
	MPI_Info info, copy;
	int n;

	get_key(MPI_INFO_ENV, "command", env_command[number]);
	CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "key-%d-%d", number, i);
		CHECK_EQ(MPI_Info_set(info, key, key + 4), MPI_SUCCESS);
	}
	CHECK_EQ(MPI_Info_dup(info, &copy), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_get_nkeys(copy, &n), MPI_SUCCESS);
	CHECK_EQ(n, 20);
	get_key(copy, key, value);
	CHECK(!strcmp(value, key + 4));
	CHECK_EQ(MPI_Info_free(&copy), MPI_SUCCESS);
}

static void check_string(int code, const char *wanted)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	CHECK_EQ(MPI_Error_string(code, text, &len), MPI_SUCCESS);
	CHECK(!strcmp(text, wanted));
	CHECK_EQ(len, strlen(wanted));
}

/* One error code with a string that all threads change and read: each thread reads a whole string, or none. */
static void change_strings(int number)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	for (int i = 0; i < 20 * ERRORS; i++) {
		memset(text, 'a' + number, 200);
		text[200] = '\0';
		CHECK_EQ(MPI_Add_error_string(common_class, text), MPI_SUCCESS);
		CHECK_EQ(MPI_Error_string(common_class, text, &len), MPI_SUCCESS);
		CHECK_EQ(len, 200);
		CHECK(!memcmp(text, text + 1, 199));
	}
}

static void add_errors(int number)
{
	char text[64];
	int class;

	for (int i = 0; i < ERRORS; i++) {
		CHECK_EQ(MPI_Add_error_class(&class_of[number][i]), MPI_SUCCESS);
		CHECK_EQ(MPI_Add_error_code(class_of[number][i], &code_of[number][i]), MPI_SUCCESS);
		snprintf(text, sizeof(text), "thread %d, code %d", number, i);
		CHECK_EQ(MPI_Add_error_string(code_of[number][i], text), MPI_SUCCESS);
		check_string(code_of[number][i], text);
		CHECK_EQ(MPI_Error_class(code_of[number][i], &class), MPI_SUCCESS);
		CHECK_EQ(class, class_of[number][i]);
	}
}

/* No number was given twice, and no string got lost. */
static void check_errors(void)
{
	static int seen[2 * THREADS * ERRORS];
	char text[64];
	int n = 0;

	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < ERRORS; i++) {
			seen[n++] = class_of[t][i];
			seen[n++] = code_of[t][i];
			snprintf(text, sizeof(text), "thread %d, code %d", t, i);
			check_string(code_of[t][i], text);
		}
	for (int i = 0; i < n; i++)
		for (int k = 0; k < i; k++)
			CHECK(seen[i] != seen[k]);
}

/* A session that is refused: the error comes by the argument's handler, at any time. */
static int n_refused_sessions;

static void on_refused_session(MPI_Session *session, int *code, ...)
{
	int class;

	CHECK(*session == MPI_SESSION_NULL);
	CHECK_EQ(MPI_Error_class(*code, &class), MPI_SUCCESS);
	CHECK_EQ(class, MPI_ERR_INFO_VALUE);
	n_refused_sessions++;
}

static void no_session(void)
{
	MPI_Session session = (MPI_Session)&n_refused_sessions;
	MPI_Errhandler handler;
	MPI_Info info;
	int class;

	n_refused_sessions = 0;
	CHECK_EQ(MPI_Info_create(&info), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_set(info, "thread_level", "MPI_THREAD_NONE"), MPI_SUCCESS);
	CHECK_EQ(MPI_Error_class(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), &class), MPI_SUCCESS);
	CHECK_EQ(class, MPI_ERR_INFO_VALUE);
	CHECK(session == MPI_SESSION_NULL);
	CHECK_EQ(MPI_Session_create_errhandler(on_refused_session, &handler), MPI_SUCCESS);
	CHECK_EQ(MPI_Error_class(MPI_Session_init(info, handler, &session), &class), MPI_SUCCESS);
	CHECK_EQ(class, MPI_ERR_INFO_VALUE);
	CHECK_EQ(n_refused_sessions, 1);
	CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
}

/* The environment is told with the same keys and values before MPI_Init, in between, and after MPI_Finalize (section 11.2.1). */
static char env_first[8 * MPI_MAX_INFO_VAL];

static void same_environment(int argc, char **argv)
{
	char now[sizeof(env_first)] = "", key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL], wanted[16];
	MPI_Info info;
	int n;

	CHECK_EQ(MPI_Info_create_env(argc, argv, &info), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_get_nkeys(info, &n), MPI_SUCCESS);
	for (int i = 0; i < n; i++) {
		CHECK_EQ(MPI_Info_get_nthkey(info, i, key), MPI_SUCCESS);
		get_key(info, key, value);
		/* another launcher's server is asked for it first */
		if (!strcmp(key, "maxprocs") && !getenv("HEDDLERUN_MAXPROCS"))
			continue;
		snprintf(now + strlen(now), sizeof(now) - strlen(now), "%s=%s\n", key, value);
	}
	get_key(info, "maxprocs", value);
	CHECK(value[0] || (!np && !getenv("HEDDLERUN_MAXPROCS")));
	snprintf(wanted, sizeof(wanted), "%d", of_program ? of_program : np);
	if (np)
		CHECK(!strcmp(value, wanted));
	if (!env_first[0])
		strcpy(env_first, now);
	if (strcmp(env_first, now))
		test_fail(__FILE__, __LINE__, "first\n%sand now\n%s", env_first, now);
	CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
}

static void remove_errors(int number)
{
	for (int i = ERRORS; i--;) {
		CHECK_EQ(MPI_Remove_error_string(code_of[number][i]), MPI_SUCCESS);
		check_string(code_of[number][i], "");
		CHECK_EQ(MPI_Remove_error_code(code_of[number][i]), MPI_SUCCESS);
		CHECK_EQ(MPI_Remove_error_class(class_of[number][i]), MPI_SUCCESS);
	}
}

static void on_session(MPI_Session *session, int *code, ...)
{
	(void)session;
	(void)code;
}

static void use_handlers(void)
{
	MPI_Errhandler handler[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(MPI_Session_create_errhandler(on_session, &handler[i]), MPI_SUCCESS);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(MPI_Errhandler_free(&handler[i]), MPI_SUCCESS);
		CHECK(handler[i] == MPI_ERRHANDLER_NULL);
	}
}

static void *at_any_time(void *arg)
{
	int number = *(int *)arg, major = 0, minor = 0;
	char text[MPI_MAX_LIBRARY_VERSION_STRING];

	pthread_barrier_wait(&start);
	use_infos(number);
	change_strings(number);
	add_errors(number);
	use_handlers();
	CHECK_EQ(MPI_Get_version(&major, &minor), MPI_SUCCESS);
	CHECK_EQ(MPI_Get_library_version(text, &minor), MPI_SUCCESS);
	CHECK_EQ(minor, strlen(text));
	CHECK_EQ(MPI_Abi_get_version(&major, &minor), MPI_SUCCESS);
	return NULL;
}

static void *removal(void *arg)
{
	pthread_barrier_wait(&start);
	remove_errors(*(int *)arg);
	return NULL;
}

/* ---- with MPI_THREAD_MULTIPLE --------------------------------------------------------------------------------------- */

static int copy_fn(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)keyval;
	(void)extra;
	*(void **)out = in;
	*flag = 1;
	return MPI_SUCCESS;
}

static void use_attributes(int number)
{
	const int predefined[] = {MPI_TAG_UB,        MPI_IO,     MPI_HOST,        MPI_WTIME_IS_GLOBAL,
				  MPI_UNIVERSE_SIZE, MPI_APPNUM, MPI_LASTUSEDCODE};
	int keyval[20], flag;
	void *value;

	for (size_t i = 0; i < sizeof(predefined) / sizeof(predefined[0]); i++)
		CHECK_EQ(MPI_Comm_get_attr(MPI_COMM_WORLD, predefined[i], i ? (void *)&value : (void *)&tag_ub[number], &flag),
			 MPI_SUCCESS);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(MPI_Comm_create_keyval(copy_fn, MPI_COMM_NULL_DELETE_FN, &keyval[i], NULL), MPI_SUCCESS);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(MPI_Comm_set_attr(MPI_COMM_SELF, keyval[i], &keyval[i]), MPI_SUCCESS);
		CHECK_EQ(MPI_Comm_get_attr(MPI_COMM_SELF, keyval[i], &value, &flag), MPI_SUCCESS);
		CHECK(flag && value == &keyval[i]);
	}
	for (int i = 1; i < 20; i++) {
		CHECK_EQ(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval[i]), MPI_SUCCESS);
		CHECK_EQ(MPI_Comm_free_keyval(&keyval[i]), MPI_SUCCESS);
	}
	keyval_of[number] = keyval[0];
	CHECK_EQ(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval[0]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keyval[1], NULL), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_set_attr(MPI_INT, keyval[1], &keyval[1]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_get_attr(MPI_INT, keyval[1], &value, &flag), MPI_SUCCESS);
	CHECK(flag && value == &keyval[1]);
	CHECK_EQ(MPI_Type_delete_attr(MPI_INT, keyval[1]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_free_keyval(&keyval[1]), MPI_SUCCESS);
}

static void use_names(void)
{
	char text[MPI_MAX_OBJECT_NAME], host[MPI_MAX_PROCESSOR_NAME];
	int len;

	CHECK_EQ(MPI_Type_get_name(MPI_DOUBLE, text, &len), MPI_SUCCESS);
	CHECK(!strcmp(text, "MPI_DOUBLE"));
	CHECK_EQ(MPI_Comm_get_name(MPI_COMM_SELF, text, &len), MPI_SUCCESS);
	CHECK(!strcmp(text, "MPI_COMM_SELF"));
	CHECK_EQ(MPI_Get_processor_name(host, &len), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_get_name(shared_type, text, &len), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_set_name(shared_type, "shared"), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_get_name(shared_type, text, &len), MPI_SUCCESS);
	CHECK(!strcmp(text, "shared"));
}

static void use_types(int number)
{
	int data[4] = {1, 2, 3, 4}, back[4] = {0};
	MPI_Aint size, at = 0;
	char packed[64];

	CHECK_EQ(MPI_Type_create_f90_real(9, MPI_UNDEFINED, &precise[number][0]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_create_f90_integer(7, &precise[number][1]), MPI_SUCCESS);
	CHECK_EQ(MPI_Type_create_f90_complex(5, 20, &precise[number][2]), MPI_SUCCESS);
	CHECK_EQ(MPI_Pack_external_size("external32", 1, shared_type, &size), MPI_SUCCESS);
	CHECK_EQ(size, 8);
	CHECK_EQ(MPI_Pack_external("external32", data, 1, shared_type, packed, sizeof(packed), &at), MPI_SUCCESS);
	at = 0;
	CHECK_EQ(MPI_Unpack_external("external32", packed, size, &at, back, 1, shared_type), MPI_SUCCESS);
	CHECK(back[0] == 1 && !back[1] && back[2] == 3);
}

static void sum(void *in, void *inout, int *len, MPI_Datatype *type)
{
	(void)type;
	for (int i = 0; i < *len; i++)
		((int *)inout)[i] += ((int *)in)[i];
}

static void use_objects(void)
{
	int one = 1, more = 2, result, n;
	MPI_Errhandler handler;
	MPI_Group world, none;
	MPI_Comm comm;
	MPI_Info info;
	void *memory;
	MPI_Op op;

	CHECK_EQ(MPI_Op_create(sum, 1, &op), MPI_SUCCESS);
	CHECK_EQ(MPI_Reduce_local(&one, &more, 1, MPI_INT, op), MPI_SUCCESS);
	CHECK_EQ(more, 3);
	CHECK_EQ(MPI_Op_free(&op), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler), MPI_SUCCESS);
	CHECK_EQ(MPI_Errhandler_free(&handler), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_group(MPI_COMM_WORLD, &world), MPI_SUCCESS);
	CHECK_EQ(MPI_Group_incl(world, 0, NULL, &none), MPI_SUCCESS);
	CHECK_EQ(MPI_Group_compare(world, none, &result), MPI_SUCCESS);
	CHECK_EQ(result, MPI_UNEQUAL);
	CHECK_EQ(MPI_Group_free(&world), MPI_SUCCESS);
	if (none != MPI_GROUP_EMPTY)
		CHECK_EQ(MPI_Group_free(&none), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_get_info(MPI_COMM_WORLD, &info), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
	CHECK_EQ(MPI_Get_hw_resource_info(&info), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_get_nkeys(info, &n), MPI_SUCCESS);
	CHECK_EQ(MPI_Info_free(&info), MPI_SUCCESS);
	CHECK_EQ(MPI_Alloc_mem(100, MPI_INFO_NULL, &memory), MPI_SUCCESS);
	CHECK_EQ(MPI_Free_mem(memory), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_split_type(MPI_COMM_SELF, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm), MPI_SUCCESS);
	CHECK_EQ(MPI_Comm_free(&comm), MPI_SUCCESS);
}

static void *with_mpi(void *arg)
{
	int number = *(int *)arg;
	char value[MPI_MAX_INFO_VAL], wanted[16];

	pthread_barrier_wait(&start);
	use_attributes(number);
	use_names();
	use_types(number);
	use_objects();
	get_key(MPI_INFO_ENV, "maxprocs", value);
	snprintf(wanted, sizeof(wanted), "%d", of_program ? of_program : np);
	CHECK(!strcmp(value, wanted));
	use_infos(number);
	return NULL;
}

static void check_shared(void)
{
	for (int i = 0; i < THREADS; i++) {
		CHECK_EQ(*(int *)tag_ub[i], *(int *)tag_ub[0]);
		for (int k = 0; k < 3; k++)
			CHECK(precise[i][k] == precise[0][k]);
		for (int k = 0; k < i; k++)
			CHECK(keyval_of[i] != keyval_of[k]);
		CHECK(!strcmp(env_command[i], env_command[0]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(MPI_Comm_free_keyval(&keyval_of[i]), MPI_SUCCESS);
}

/* Another thread may ask at any time whether MPI is initialized, and use MPI from then on. */
static void *wait_for_mpi(void *arg)
{
	int flag = 0, rank = -1;

	(void)arg;
	while (!flag)
		MPI_Initialized(&flag);
	CHECK_EQ(MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_SUCCESS);
	CHECK(rank >= 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t waiter;
	int provided;

	of_program = argc > 1 ? atoi(argv[1]) : 0;
	no_session();
	same_environment(argc, argv);
	CHECK_EQ(MPI_Add_error_class(&common_class), MPI_SUCCESS);
	at_once(at_any_time);
	check_errors();
	at_once(removal);
	CHECK(!pthread_create(&waiter, NULL, wait_for_mpi, NULL));
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	CHECK(!pthread_join(waiter, NULL));
	MPI_Type_vector(2, 1, 2, MPI_INT, &shared_type);
	MPI_Type_commit(&shared_type);
	at_once(with_mpi);
	no_session();
	same_environment(argc, argv);
	check_shared();
	MPI_Type_free(&shared_type);
	test_done("first_use");
	no_session();
	same_environment(argc, argv);
	at_once(at_any_time);
	check_errors();
	at_once(removal);
	return 0;
}
