/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment and info objects (MPI-5.0 chapters 9, 10 and 20) in one process: what the standard's text says, and every
 * argument that can be wrong, with the class, and the words that name the call, the argument and its value.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;

static void fail(int line, const char *what)
{
	printf("FAILED: line %d: %s\n", line, what);
	failures++;
}
#define CHECK(cond)	((cond) ? (void)0 : fail(__LINE__, #cond))
#define OK(call)	CHECK((call) == MPI_SUCCESS)

/* The code is of this class, and its text says so. */
static void check_error(int line, int code, int class, const char *text)
{
	char got[MPI_MAX_ERROR_STRING], what[2 * MPI_MAX_ERROR_STRING + 64];
	int got_class = -1, len = -1;

	MPI_Error_class(code, &got_class);
	MPI_Error_string(code, got, &len);
	if (got_class == class && strstr(got, text) && len == (int)strlen(got))
		return;
	snprintf(what, sizeof(what), "class %d instead of %d, or not \"%s\": %s", got_class, class, text, got);
	fail(line, what);
}
#define ERROR(call, class, text)	check_error(__LINE__, call, class, text)

static void ignore(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	(void)code;
}

static char *repeated(char c, int n)
{
	static char s[2048];

	memset(s, c, (size_t)n);
	s[n] = 0;
	return s;
}

/* ---- chapter 10 ---------------------------------------------------------------------------------------- */

static void info_pairs(void)
{
	char value[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
	int n, flag, len;
	MPI_Info info, copy;

	OK(MPI_Info_create(&info));
	OK(MPI_Info_get_nkeys(info, &n));
	CHECK(n == 0);
	OK(MPI_Info_set(info, "first", "1"));
	OK(MPI_Info_set(info, "second", ""));
	OK(MPI_Info_set(info, "third", "three"));
	OK(MPI_Info_set(info, "first", "one"));		/* replaces, and keeps its number */
	OK(MPI_Info_get_nkeys(info, &n));
	CHECK(n == 3);
	OK(MPI_Info_get_nthkey(info, 0, key));
	CHECK(!strcmp(key, "first"));
	OK(MPI_Info_get_nthkey(info, 2, key));
	CHECK(!strcmp(key, "third"));

	/* section 10: buflen counts the zero; what is needed comes back; 0 asks for it and writes nothing */
	len = sizeof(value);
	OK(MPI_Info_get_string(info, "first", &len, value, &flag));
	CHECK(flag == 1 && len == 4 && !strcmp(value, "one"));
	len = 3;
	OK(MPI_Info_get_string(info, "third", &len, value, &flag));
	CHECK(flag == 1 && len == 6 && !strcmp(value, "th"));
	len = 0;
	OK(MPI_Info_get_string(info, "third", &len, NULL, &flag));
	CHECK(flag == 1 && len == 6);
	len = 77;
	strcpy(value, "untouched");
	OK(MPI_Info_get_string(info, "fourth", &len, value, &flag));
	CHECK(flag == 0 && len == 77 && !strcmp(value, "untouched"));
	len = 1;
	OK(MPI_Info_get_string(info, "second", &len, value, &flag));
	CHECK(flag == 1 && len == 1 && !value[0]);

	/* the deprecated ones do not count the zero */
	OK(MPI_Info_get_valuelen(info, "third", &len, &flag));
	CHECK(flag == 1 && len == 5);
	OK(MPI_Info_get(info, "third", 5, value, &flag));
	CHECK(flag == 1 && !strcmp(value, "three"));
	OK(MPI_Info_get(info, "third", 2, value, &flag));
	CHECK(flag == 1 && !strcmp(value, "th"));
	len = 9;
	OK(MPI_Info_get_valuelen(info, "none", &len, &flag));
	CHECK(flag == 0 && len == 9);

	OK(MPI_Info_dup(info, &copy));
	OK(MPI_Info_delete(info, "second"));
	OK(MPI_Info_get_nthkey(info, 1, key));
	CHECK(!strcmp(key, "third"));
	OK(MPI_Info_get_nkeys(copy, &n));
	CHECK(n == 3);
	OK(MPI_Info_free(&info));
	CHECK(info == MPI_INFO_NULL);
	OK(MPI_Info_get(copy, "first", 10, value, &flag));
	CHECK(flag == 1 && !strcmp(value, "one"));
	OK(MPI_Info_free(&copy));
}

static void info_many(void)
{
	char key[32], value[32];
	int flag, n;
	MPI_Info info;

	OK(MPI_Info_create(&info));
	for (int i = 0; i < 1000; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		OK(MPI_Info_set(info, key, key + 3));
	}
	for (int i = 0; i < 1000; i += 2) {
		snprintf(key, sizeof(key), "key%d", i);
		OK(MPI_Info_delete(info, key));
	}
	OK(MPI_Info_get_nkeys(info, &n));
	CHECK(n == 500);
	OK(MPI_Info_get(info, "key999", 31, value, &flag));
	CHECK(flag && !strcmp(value, "999"));
	/* the limits themselves are allowed */
	OK(MPI_Info_set(info, repeated('k', MPI_MAX_INFO_KEY - 1), "v"));
	OK(MPI_Info_set(info, "long", repeated('v', MPI_MAX_INFO_VAL - 1)));
	OK(MPI_Info_get_valuelen(info, "long", &n, &flag));
	CHECK(flag && n == MPI_MAX_INFO_VAL - 1);
	OK(MPI_Info_free(&info));
}

static void info_arguments(void)
{
	char value[MPI_MAX_INFO_VAL];
	int n, flag, len = 8, minus = -1;
	MPI_Info info, freed, null = MPI_INFO_NULL, env = MPI_INFO_ENV, comm = (MPI_Info)MPI_COMM_WORLD;
	MPI_Errhandler e;

	OK(MPI_Info_create(&freed));
	OK(MPI_Info_create(&info));
	OK(MPI_Comm_create_errhandler(ignore, &e));
	ERROR(MPI_Info_create(NULL), MPI_ERR_ARG, "MPI_Info_create: invalid info: it is a null pointer");
	ERROR(MPI_Info_set(MPI_INFO_NULL, "k", "v"), MPI_ERR_INFO, "MPI_Info_set: invalid info: MPI_INFO_NULL");
	ERROR(MPI_Info_set(comm, "k", "v"), MPI_ERR_INFO, "MPI_Info_set: invalid info: handle 0x101");
	ERROR(MPI_Info_set((MPI_Info)e, "k", "v"), MPI_ERR_INFO, "is none, or was freed");
	ERROR(MPI_Info_set(MPI_INFO_ENV, "k", "v"), MPI_ERR_INFO, "MPI_INFO_ENV can only be read");
	ERROR(MPI_Info_delete(MPI_INFO_ENV, "command"), MPI_ERR_INFO, "MPI_Info_delete: invalid info: MPI_INFO_ENV");
	ERROR(MPI_Info_free(&env), MPI_ERR_INFO, "MPI_Info_free: invalid info: MPI_INFO_ENV");
	ERROR(MPI_Info_free(&null), MPI_ERR_INFO, "MPI_INFO_NULL");
	ERROR(MPI_Info_free(NULL), MPI_ERR_ARG, "invalid info");
	ERROR(MPI_Info_set(info, NULL, "v"), MPI_ERR_ARG, "invalid key: it is a null pointer");
	ERROR(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY, "MPI_Info_set: invalid key: it is empty");
	ERROR(MPI_Info_set(info, repeated('x', MPI_MAX_INFO_KEY), "v"), MPI_ERR_INFO_KEY, "256 characters");
	ERROR(MPI_Info_set(info, "k", repeated('x', MPI_MAX_INFO_VAL)), MPI_ERR_INFO_VALUE, "1024 characters for key k");
	ERROR(MPI_Info_set(info, "k", NULL), MPI_ERR_ARG, "invalid value: it is a null pointer");
	ERROR(MPI_Info_delete(info, "absent"), MPI_ERR_INFO_NOKEY, "MPI_Info_delete: invalid key absent");
	ERROR(MPI_Info_get_nkeys(info, NULL), MPI_ERR_ARG, "MPI_Info_get_nkeys: invalid nkeys");
	ERROR(MPI_Info_get_nkeys(MPI_INFO_NULL, &n), MPI_ERR_INFO, "MPI_Info_get_nkeys: invalid info");
	ERROR(MPI_Info_get_nthkey(info, 0, value), MPI_ERR_ARG, "MPI_Info_get_nthkey: invalid n 0: the object has 0 keys");
	ERROR(MPI_Info_get_nthkey(info, -1, value), MPI_ERR_ARG, "invalid n -1");
	OK(MPI_Info_set(info, "k", "v"));
	ERROR(MPI_Info_get_nthkey(info, 0, NULL), MPI_ERR_ARG, "invalid key");
	ERROR(MPI_Info_get_string(info, "k", NULL, value, &flag), MPI_ERR_ARG, "MPI_Info_get_string: invalid buflen");
	ERROR(MPI_Info_get_string(info, "k", &minus, value, &flag), MPI_ERR_ARG, "invalid buflen -1");
	ERROR(MPI_Info_get_string(info, "k", &len, NULL, &flag), MPI_ERR_ARG, "invalid value");
	ERROR(MPI_Info_get_string(info, "k", &len, value, NULL), MPI_ERR_ARG, "invalid flag");
	ERROR(MPI_Info_get_string(info, NULL, &len, value, &flag), MPI_ERR_ARG, "invalid key");
	ERROR(MPI_Info_get(info, "k", -1, value, &flag), MPI_ERR_ARG, "MPI_Info_get: invalid valuelen -1");
	ERROR(MPI_Info_get(info, "k", 1, NULL, &flag), MPI_ERR_ARG, "invalid value");
	ERROR(MPI_Info_get_valuelen(info, "k", NULL, &flag), MPI_ERR_ARG, "MPI_Info_get_valuelen: invalid valuelen");
	ERROR(MPI_Info_dup(info, NULL), MPI_ERR_ARG, "MPI_Info_dup: invalid newinfo");
	ERROR(MPI_Info_dup(MPI_INFO_NULL, &info), MPI_ERR_INFO, "MPI_Info_dup: invalid info");
	ERROR(MPI_Info_create_env(-1, NULL, &info), MPI_ERR_ARG, "MPI_Info_create_env: invalid argc -1");
	ERROR(MPI_Info_create_env(1, NULL, &info), MPI_ERR_ARG, "invalid argv");
	ERROR(MPI_Info_create_env(0, NULL, NULL), MPI_ERR_ARG, "invalid info");
	OK(MPI_Info_free(&info));
	OK(MPI_Info_free(&freed));
	OK(MPI_Errhandler_free(&e));
}

static void info_env(int argc, char **argv)
{
	char value[MPI_MAX_INFO_VAL], *some[] = { (char *)"program", (char *)"a b", (char *)"c", NULL }, host[256];
	int flag;
	MPI_Info info, copy;

	OK(MPI_Info_get(MPI_INFO_ENV, "command", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && !strcmp(value, argv[0]));
	OK(MPI_Info_get(MPI_INFO_ENV, "argv", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag == (argc > 1) && (!flag || !strncmp(value, argv[1], strlen(argv[1]))));
	OK(MPI_Info_get(MPI_INFO_ENV, "maxprocs", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && !strcmp(value, "1"));
	OK(MPI_Info_get(MPI_INFO_ENV, "host", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && !gethostname(host, sizeof(host)) && !strcmp(value, host));
	OK(MPI_Info_get(MPI_INFO_ENV, "wdir", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && value[0] == '/');
	OK(MPI_Info_dup(MPI_INFO_ENV, &copy));		/* a copy can be changed */
	OK(MPI_Info_set(copy, "command", "other"));
	OK(MPI_Info_free(&copy));
	OK(MPI_Info_create_env(3, some, &info));
	OK(MPI_Info_get(info, "command", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && !strcmp(value, "program"));
	OK(MPI_Info_get(info, "argv", MPI_MAX_INFO_VAL - 1, value, &flag));
	CHECK(flag && !strcmp(value, "a b c"));
	OK(MPI_Info_free(&info));
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* What section 11.4.1 allows at any time. */
static void any_time(void)
{
	MPI_Info info;

	OK(MPI_Info_create(&info));
	OK(MPI_Info_set(info, "k", "v"));
	OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
	any_time();
	MPI_Init(&argc, &argv);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	info_pairs();
	info_many();
	info_arguments();
	info_env(argc, argv);
	MPI_Finalize();
	any_time();
	return failures != 0;
}
