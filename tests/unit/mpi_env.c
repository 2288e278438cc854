/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The environment and info objects (MPI-5.0 chapters 9, 10 and 20) in one process: the rules of the standard's text, and every
 * argument that can be wrong, with the class, and the words that name the call, the argument and its value.
 */
#include <mpi.h>
#include <stdint.h>
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

/* Checks that the code has this class and this text. */
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
	OK(MPI_Info_set(info, "first", "one"));		/* replaces the value, and keeps the key's number */
	OK(MPI_Info_get_nkeys(info, &n));
	CHECK(n == 3);
	OK(MPI_Info_get_nthkey(info, 0, key));
	CHECK(!strcmp(key, "first"));
	OK(MPI_Info_get_nthkey(info, 2, key));
	CHECK(!strcmp(key, "third"));

	/* section 10: buflen counts the terminating zero; the needed length is returned; 0 asks for the length, and the value is
	 * not written */
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
	ERROR(MPI_Info_dup(MPI_INFO_NULL, &(MPI_Info){ info }), MPI_ERR_INFO, "MPI_Info_dup: invalid info");
	ERROR(MPI_Info_create_env(-1, NULL, &(MPI_Info){ info }), MPI_ERR_ARG, "MPI_Info_create_env: invalid argc -1");
	ERROR(MPI_Info_create_env(1, NULL, &(MPI_Info){ info }), MPI_ERR_ARG, "invalid argv");
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

/* ---- chapter 9 ----------------------------------------------------------------------------------------- */

static int last_used_code(void)
{
	int *value, flag = 0;

	OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
	return flag ? *value : -1;
}

static void user_errors(void)
{
	int class, other, code, second, got, len, before = last_used_code();
	char text[MPI_MAX_ERROR_STRING];

	CHECK(before >= MPI_ERR_LASTCODE);
	OK(MPI_Add_error_class(&class));
	CHECK(class > MPI_ERR_LASTCODE);
	OK(MPI_Add_error_code(class, &code));
	OK(MPI_Add_error_code(MPI_ERR_IO, &second));
	CHECK(code > class && second > code && last_used_code() >= second);
	OK(MPI_Error_class(class, &got));
	CHECK(got == class);
	OK(MPI_Error_class(code, &got));
	CHECK(got == class);
	OK(MPI_Error_class(second, &got));
	CHECK(got == MPI_ERR_IO);
	/* without a string the text is empty; a string can be replaced, and removed */
	OK(MPI_Error_string(code, text, &len));
	CHECK(!len && !text[0]);
	OK(MPI_Add_error_string(class, "of my own"));
	OK(MPI_Add_error_string(code, "first"));
	OK(MPI_Add_error_string(code, "the disk is full of mice"));
	ERROR(code, class, "the disk is full of mice");
	ERROR(class, class, "of my own");
	OK(MPI_Remove_error_string(code));
	OK(MPI_Error_string(code, text, &len));
	CHECK(!len && !text[0]);

	ERROR(MPI_Add_error_class(NULL), MPI_ERR_ARG, "MPI_Add_error_class: invalid errorclass");
	ERROR(MPI_Add_error_code(class, NULL), MPI_ERR_ARG, "MPI_Add_error_code: invalid errorcode");
	ERROR(MPI_Add_error_code(code, &got), MPI_ERR_ARG, "MPI_Add_error_code: invalid errorclass");	/* no class */
	ERROR(MPI_Add_error_code(99999, &got), MPI_ERR_ARG, "invalid errorclass 99999");
	ERROR(MPI_Add_error_code(MPI_SUCCESS, &got), MPI_ERR_ARG, "invalid errorclass 0");
	ERROR(MPI_Add_error_string(MPI_ERR_IO, "x"), MPI_ERR_ARG, "MPI_Add_error_string: invalid errorcode 35");
	ERROR(MPI_Add_error_string(code, NULL), MPI_ERR_ARG, "invalid string");
	ERROR(MPI_Add_error_string(code, repeated('x', MPI_MAX_ERROR_STRING)), MPI_ERR_ARG, "invalid string of 512 characters");
	OK(MPI_Add_error_string(code, repeated('x', MPI_MAX_ERROR_STRING - 1)));
	ERROR(MPI_Remove_error_class(class), MPI_ERR_ARG, "it has 1 error code, to be removed first");
	ERROR(MPI_Remove_error_class(MPI_ERR_IO), MPI_ERR_ARG, "MPI_Remove_error_class: invalid errorclass 35");
	ERROR(MPI_Remove_error_class(code), MPI_ERR_ARG, "invalid errorclass");
	ERROR(MPI_Remove_error_code(class), MPI_ERR_ARG, "it is an error class");
	ERROR(MPI_Remove_error_code(MPI_ERR_IO), MPI_ERR_ARG, "MPI_Remove_error_code: invalid errorcode 35");
	ERROR(MPI_Remove_error_string(second), MPI_ERR_ARG, "it has no string");
	ERROR(MPI_Remove_error_string(1), MPI_ERR_ARG, "MPI_Remove_error_string: invalid errorcode 1");

	ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG, "it has an error string, to be removed first");
	OK(MPI_Remove_error_string(code));
	OK(MPI_Remove_error_code(code));
	ERROR(MPI_Error_class(code, &got), MPI_ERR_ARG, "MPI_Error_class: invalid errorcode");
	ERROR(MPI_Error_string(code, text, &len), MPI_ERR_ARG, "MPI_Error_string: invalid errorcode");
	ERROR(MPI_Remove_error_code(code), MPI_ERR_ARG, "or it was removed");
	OK(MPI_Remove_error_class(class));
	OK(MPI_Add_error_class(&other));
	CHECK(other > MPI_ERR_LASTCODE && other != second);
	OK(MPI_Remove_error_code(second));
	OK(MPI_Remove_error_class(other));
	CHECK(last_used_code() == before);
	for (int i = 0; i < 100; i++)
		OK(MPI_Add_error_code(MPI_ERR_IO, &code));
	CHECK(last_used_code() == code);
	OK(MPI_Error_class(code - 50, &got));
	CHECK(got == MPI_ERR_IO);
}

/* Predefined classes have a text that names them, MPI_T's too, and no code is taken for another. */
static void predefined_errors(void)
{
	int rc;

	ERROR(MPI_ERR_OP, MPI_ERR_OP, "MPI_ERR_OP");
	ERROR(MPI_ERR_ABI, MPI_ERR_ABI, "MPI_ERR_ABI");
	for (int class = MPI_T_ERR_CANNOT_INIT; class <= MPI_T_ERR_PVAR_NO_ATOMIC; class++)
		ERROR(class, class, "MPI_T_ERR_");
	ERROR(MPI_T_ERR_PVAR_NO_ATOMIC, MPI_T_ERR_PVAR_NO_ATOMIC, "MPI_T_ERR_PVAR_NO_ATOMIC");
	for (int i = 0; i < 600; i++) {		/* more than the library keeps texts of */
		rc = MPI_Comm_rank(MPI_COMM_WORLD, NULL);
		ERROR(rc, MPI_ERR_ARG, "MPI_Comm_rank: invalid rank");
	}
	ERROR(MPI_Error_class(-1, &rc), MPI_ERR_ARG, "MPI_Error_class: invalid errorcode -1");
	/* no class, and a text's number without one */
	ERROR(MPI_Error_class(63, &rc), MPI_ERR_ARG, "MPI_Error_class: invalid errorcode 63");
	ERROR(MPI_Error_class(64, &rc), MPI_ERR_ARG, "MPI_Error_class: invalid errorcode 64");
	ERROR(MPI_Error_class(0, NULL), MPI_ERR_ARG, "MPI_Error_class: invalid errorclass");
	ERROR(MPI_Error_string(0, NULL, &rc), MPI_ERR_ARG, "MPI_Error_string: invalid string");
}

static MPI_Comm seen_comm;
static MPI_File seen_file;
static int seen_code, calls;

static void on_comm(MPI_Comm *comm, int *code, ...)
{
	seen_comm = *comm;
	seen_code = *code;
	calls++;
}

static void on_file(MPI_File *file, int *code, ...)
{
	seen_file = *file;
	seen_code = *code;
	calls++;
}

static void on_session(MPI_Session *session, int *code, ...)
{
	(void)session;
	(void)code;
}

static void on_win(MPI_Win *win, int *code, ...)
{
	(void)win;
	(void)code;
}

static void errhandlers(void)
{
	MPI_Errhandler of_comm, of_file, of_win, of_session, got, freed;
	MPI_Comm dup;
	MPI_Comm child;
	MPI_File file;
	int code, rc, n;

	OK(MPI_Comm_create_errhandler(on_comm, &of_comm));
	OK(MPI_File_create_errhandler(on_file, &of_file));
	OK(MPI_Win_create_errhandler(on_win, &of_win));
	OK(MPI_Session_create_errhandler(on_session, &of_session));
	OK(MPI_Add_error_code(MPI_ERR_OTHER, &code));

	/* on a communicator; a duplicate inherits the handler; the handler lives as long as an object refers to it */
	OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_comm));
	OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
	CHECK(got == of_comm);
	OK(MPI_Errhandler_free(&got));
	CHECK(got == MPI_ERRHANDLER_NULL);
	OK(MPI_Errhandler_free(&of_comm));
	OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
	OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
	rc = MPI_Comm_rank(dup, NULL);
	CHECK(calls == 1 && seen_comm == dup && seen_code == rc);
	ERROR(rc, MPI_ERR_ARG, "MPI_Comm_rank");
	OK(MPI_Comm_call_errhandler(dup, code));
	CHECK(calls == 2 && seen_code == code);
	OK(MPI_Comm_call_errhandler(dup, MPI_ERR_TRUNCATE));
	CHECK(calls == 3 && seen_code == MPI_ERR_TRUNCATE);

	/* an invalid argument is an error on the communicator of the call; the tool interface calls no handlers */
	rc = MPI_Comm_spawn("x", NULL, 0, MPI_INFO_NULL, 0, dup, &child, NULL);
	CHECK(calls == 4 && seen_comm == dup && seen_code == rc);
	ERROR(rc, MPI_ERR_ARG, "MPI_Comm_spawn: invalid maxprocs 0");
	CHECK(MPI_T_cvar_get_num(&n) == MPI_T_ERR_NOT_INITIALIZED && calls == 4);
	OK(MPI_Comm_free(&dup));

	/* on files that are not there: returned, until another handler is set */
	ERROR(MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE,
	      "MPI_File_open: ");
	OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
	CHECK(got == MPI_ERRORS_RETURN);
	OK(MPI_File_set_errhandler(MPI_FILE_NULL, of_file));
	rc = MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
	CHECK(calls == 5 && seen_file == MPI_FILE_NULL && seen_code == rc);
	OK(MPI_File_call_errhandler(MPI_FILE_NULL, code));
	CHECK(calls == 6 && seen_code == code);
	OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
	ERROR(MPI_File_call_errhandler((MPI_File)0x4711, 1), MPI_ERR_FILE, "MPI_File_call_errhandler: invalid fh: handle 0x4711");

	ERROR(MPI_Comm_create_errhandler(NULL, &got), MPI_ERR_ARG, "MPI_Comm_create_errhandler: invalid comm_errhandler_fn");
	ERROR(MPI_Comm_create_errhandler(on_comm, NULL), MPI_ERR_ARG, "invalid errhandler");
	ERROR(MPI_File_create_errhandler(NULL, &got), MPI_ERR_ARG, "MPI_File_create_errhandler: invalid file_errhandler_fn");
	ERROR(MPI_Win_create_errhandler(NULL, &got), MPI_ERR_ARG, "MPI_Win_create_errhandler: invalid win_errhandler_fn");
	ERROR(MPI_Session_create_errhandler(NULL, &got), MPI_ERR_ARG, "invalid session_errhandler_fn");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, of_file), MPI_ERR_ERRHANDLER,
	      "it was made for files, not for communicators");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, of_win), MPI_ERR_ERRHANDLER, "it was made for windows");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, of_session), MPI_ERR_ERRHANDLER, "it was made for sessions");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "MPI_ERRHANDLER_NULL");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_SELF, (MPI_Errhandler)MPI_COMM_WORLD), MPI_ERR_ERRHANDLER, "handle 0x101");
	ERROR(MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN), MPI_ERR_COMM, "MPI_COMM_NULL");
	ERROR(MPI_Comm_get_errhandler(MPI_COMM_SELF, NULL), MPI_ERR_ARG, "MPI_Comm_get_errhandler: invalid errhandler");
	ERROR(MPI_Comm_call_errhandler(MPI_COMM_SELF, 99999), MPI_ERR_ARG, "MPI_Comm_call_errhandler: invalid errorcode 99999");
	ERROR(MPI_Comm_call_errhandler(MPI_COMM_SELF, -1), MPI_ERR_ARG, "invalid errorcode -1");
	ERROR(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "MPI_File_set_errhandler");
	ERROR(MPI_File_get_errhandler(MPI_FILE_NULL, NULL), MPI_ERR_ARG, "invalid errhandler");
	freed = MPI_ERRHANDLER_NULL;
	ERROR(MPI_Errhandler_free(&freed), MPI_ERR_ERRHANDLER, "MPI_Errhandler_free: invalid errhandler: MPI_ERRHANDLER_NULL");
	ERROR(MPI_Errhandler_free(NULL), MPI_ERR_ARG, "invalid errhandler");
	OK(MPI_Errhandler_free(&of_file));
	OK(MPI_Errhandler_free(&of_win));
	OK(MPI_Errhandler_free(&of_session));
}

static void memory(void)
{
	MPI_Info info;
	char *p;

	OK(MPI_Info_create(&info));
	OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
	OK(MPI_Info_set(info, "unknown_to_all", "x"));
	OK(MPI_Alloc_mem(100000, info, &p));
	CHECK(!((uintptr_t)p & 4095));
	memset(p, 1, 100000);
	OK(MPI_Free_mem(p));
	OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &p));
	OK(MPI_Free_mem(p));
	ERROR(MPI_Free_mem(p), MPI_ERR_BASE, "MPI_Free_mem: invalid base");
	ERROR(MPI_Alloc_mem(-1, MPI_INFO_NULL, &p), MPI_ERR_ARG, "MPI_Alloc_mem: invalid size -1");
	ERROR(MPI_Alloc_mem(8, MPI_INFO_NULL, NULL), MPI_ERR_ARG, "invalid baseptr");
	ERROR(MPI_Alloc_mem(8, (MPI_Info)MPI_COMM_WORLD, &p), MPI_ERR_INFO, "MPI_Alloc_mem: invalid info: handle 0x101");
	ERROR(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &p), MPI_ERR_NO_MEM, "1152921504606846976 bytes cannot be had");
	OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "48"));
	ERROR(MPI_Alloc_mem(8, info, &p), MPI_ERR_INFO_VALUE, "invalid value \"48\" of info key mpi_minimum_memory_alignment");
	OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", "large"));
	ERROR(MPI_Alloc_mem(8, info, &p), MPI_ERR_INFO_VALUE, "\"large\"");
	OK(MPI_Info_free(&info));
}

static void inquiries(void)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING], key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL];
	int a, b, len, n, flag, machine = 0;
	MPI_Info info;

	OK(MPI_Get_version(&a, &b));
	CHECK(a == MPI_VERSION && b == MPI_SUBVERSION);
	OK(MPI_Get_library_version(text, &len));
	CHECK(len == (int)strlen(text) && strstr(text, "heddle"));
	OK(MPI_Get_processor_name(text, &len));
	CHECK(len == (int)strlen(text) && len > 0);
	OK(MPI_Initialized(&a));
	OK(MPI_Finalized(&b));
	CHECK(a && !b);
	OK(MPI_Is_thread_main(&a));
	OK(MPI_Query_thread(&b));
	CHECK(a && b == MPI_THREAD_SINGLE);
	OK(MPI_Pcontrol(0));
	OK(MPI_Pcontrol(2, "anything", 3.0));
	ERROR(MPI_Get_version(NULL, &b), MPI_ERR_ARG, "MPI_Get_version: invalid version");
	ERROR(MPI_Get_library_version(text, NULL), MPI_ERR_ARG, "MPI_Get_library_version: invalid resultlen");
	ERROR(MPI_Get_processor_name(NULL, &len), MPI_ERR_ARG, "MPI_Get_processor_name: invalid name");
	ERROR(MPI_Initialized(NULL), MPI_ERR_ARG, "MPI_Initialized: invalid flag");
	ERROR(MPI_Finalized(NULL), MPI_ERR_ARG, "MPI_Finalized: invalid flag");
	ERROR(MPI_Is_thread_main(NULL), MPI_ERR_ARG, "MPI_Is_thread_main: invalid flag");
	ERROR(MPI_Query_thread(NULL), MPI_ERR_ARG, "MPI_Query_thread: invalid provided");

	OK(MPI_Get_hw_resource_info(&info));
	OK(MPI_Info_get_nkeys(info, &n));
	for (int i = 0; i < n; i++) {
		OK(MPI_Info_get_nthkey(info, i, key));
		OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL - 1, value, &flag));
		CHECK(!strncmp(key, "hwloc://", 8) && flag && (!strcmp(value, "true") || !strcmp(value, "false")));
		if (!strcmp(key, "hwloc://Machine"))
			machine = !strcmp(value, "true");	/* the process runs on one machine */
	}
	CHECK(machine);
	OK(MPI_Info_free(&info));
	ERROR(MPI_Get_hw_resource_info(NULL), MPI_ERR_ARG, "MPI_Get_hw_resource_info: invalid hw_info");
}

/* ---- chapter 20 ---------------------------------------------------------------------------------------- */

static void abi_info(void)
{
	static const struct {
		const char *key;
		size_t size;
	} sizes[] = { { "mpi_aint_size", sizeof(MPI_Aint) }, { "mpi_count_size", sizeof(MPI_Count) },
		      { "mpi_offset_size", sizeof(MPI_Offset) } };
	int major, minor, flag, is_set = -1, t = 1, f = 0, got_t = 7, got_f = 7;
	char value[MPI_MAX_INFO_VAL];
	MPI_Info info;

	OK(MPI_Abi_get_version(&major, &minor));
	CHECK(major == 1 && minor == 0);
	OK(MPI_Abi_get_info(&info));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		OK(MPI_Info_get(info, sizes[i].key, 10, value, &flag));
		CHECK(flag && strtoul(value, NULL, 10) == sizes[i].size);
	}
	OK(MPI_Info_free(&info));
	ERROR(MPI_Abi_get_info(NULL), MPI_ERR_ARG, "MPI_Abi_get_info: invalid info");
	ERROR(MPI_Abi_get_version(&major, NULL), MPI_ERR_ARG, "MPI_Abi_get_version: invalid abi_minor");

	/* Fortran's properties: gfortran's until they are set, once */
	OK(MPI_Abi_get_fortran_info(&info));
	OK(MPI_Info_get(info, "mpi_double_precision_size", 10, value, &flag));
	CHECK(flag && !strcmp(value, "8"));
	OK(MPI_Info_get(info, "mpi_real2_supported", 10, value, &flag));
	CHECK(flag && !strcmp(value, "false"));
	OK(MPI_Info_free(&info));
	ERROR(MPI_Abi_set_fortran_info(MPI_INFO_NULL), MPI_ERR_INFO, "MPI_Abi_set_fortran_info: invalid info: MPI_INFO_NULL");
	OK(MPI_Info_create(&info));
	OK(MPI_Info_set(info, "mpi_integer_size", "4"));
	OK(MPI_Abi_set_fortran_info(info));
	ERROR(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "set already");
	OK(MPI_Info_free(&info));
	OK(MPI_Abi_get_fortran_info(&info));
	OK(MPI_Info_get(info, "mpi_integer_size", 10, value, &flag));
	CHECK(flag && !strcmp(value, "4"));
	OK(MPI_Info_free(&info));
	ERROR(MPI_Abi_get_fortran_info(NULL), MPI_ERR_ARG, "MPI_Abi_get_fortran_info: invalid info");

	OK(MPI_Abi_get_fortran_booleans(sizeof(int), &got_t, &got_f, &is_set));
	CHECK(is_set == 1 && got_t == 1 && got_f == 0);
	got_t = got_f = 7;
	ERROR(MPI_Abi_set_fortran_booleans(3, &t, &f), MPI_ERR_ARG, "MPI_Abi_set_fortran_booleans: invalid logical_size 3");
	ERROR(MPI_Abi_set_fortran_booleans(4, NULL, &f), MPI_ERR_ARG, "invalid logical_true");
	OK(MPI_Abi_set_fortran_booleans(sizeof(int), &t, &f));
	ERROR(MPI_Abi_set_fortran_booleans(sizeof(int), &t, &f), MPI_ERR_ABI, "set already");
	OK(MPI_Abi_get_fortran_booleans(sizeof(int), &got_t, &got_f, &is_set));
	CHECK(is_set == 1 && got_t == 1 && got_f == 0);
	ERROR(MPI_Abi_get_fortran_booleans(8, &got_t, &got_f, &is_set), MPI_ERR_ARG, "a logical has 4 bytes");
}

static void integers(void)
{
	MPI_Info info[300];
	MPI_Comm comm;
	int n[300];

	CHECK(MPI_Comm_toint(MPI_COMM_WORLD) == 0x101 && MPI_Comm_fromint(0x101) == MPI_COMM_WORLD);
	CHECK(MPI_Type_toint(MPI_DOUBLE) == 0x214 && MPI_Type_fromint(0x214) == MPI_DOUBLE);
	CHECK(MPI_Op_toint(MPI_SUM) == 0x21 && MPI_Op_fromint(0x21) == MPI_SUM);
	CHECK(MPI_Group_toint(MPI_GROUP_EMPTY) == 0x109 && MPI_Group_fromint(0x109) == MPI_GROUP_EMPTY);
	CHECK(MPI_Errhandler_toint(MPI_ERRORS_RETURN) == 0x143 && MPI_Errhandler_fromint(0x143) == MPI_ERRORS_RETURN);
	CHECK(MPI_Request_toint(MPI_REQUEST_NULL) == 0x180 && MPI_Request_fromint(0x180) == MPI_REQUEST_NULL);
	CHECK(MPI_Message_toint(MPI_MESSAGE_NO_PROC) == 0x129 && MPI_Message_fromint(0x129) == MPI_MESSAGE_NO_PROC);
	CHECK(MPI_Win_toint(MPI_WIN_NULL) == 0x110 && MPI_Win_fromint(0x110) == MPI_WIN_NULL);
	CHECK(MPI_File_toint(MPI_FILE_NULL) == 0x118 && MPI_File_fromint(0x118) == MPI_FILE_NULL);
	CHECK(MPI_Session_toint(MPI_SESSION_NULL) == 0x120 && MPI_Session_fromint(0x120) == MPI_SESSION_NULL);
	/* objects: converted to an integer and back, each to a distinct one, also after many */
	OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
	CHECK(MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
	for (int i = 0; i < 300; i++) {
		OK(MPI_Info_create(&info[i]));
		n[i] = MPI_Info_toint(info[i]);
		CHECK(n[i] >= 0x1000 && n[i] != MPI_Comm_toint(comm) && (!i || n[i] != n[i - 1]));
	}
	for (int i = 0; i < 300; i++) {
		CHECK(MPI_Info_fromint(n[i]) == info[i] && MPI_Info_toint(info[i]) == n[i]);
		OK(MPI_Info_free(&info[i]));
	}
	CHECK(MPI_Info_fromint(-5) == MPI_INFO_NULL && MPI_Info_fromint(1 << 30) == MPI_INFO_NULL);
	OK(MPI_Comm_free(&comm));
}

/* ---- all ----------------------------------------------------------------------------------------------- */

/* Calls that section 11.4.1 allows at any time. */
static void any_time(void)
{
	MPI_Errhandler e;
	MPI_Info info;
	int class, code, flag;

	OK(MPI_Info_create(&info));
	OK(MPI_Info_set(info, "k", "v"));
	OK(MPI_Info_free(&info));
	OK(MPI_Add_error_class(&class));
	OK(MPI_Add_error_code(class, &code));
	OK(MPI_Add_error_string(code, "early or late"));
	ERROR(code, class, "early or late");
	OK(MPI_Remove_error_string(code));
	OK(MPI_Remove_error_code(code));
	OK(MPI_Remove_error_class(class));
	OK(MPI_Session_create_errhandler(on_session, &e));
	OK(MPI_Errhandler_free(&e));
	OK(MPI_Initialized(&flag));
	OK(MPI_Finalized(&flag));
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
	predefined_errors();
	user_errors();
	errhandlers();
	memory();
	inquiries();
	abi_info();
	integers();
	MPI_Finalize();
	any_time();
	return failures != 0;
}
