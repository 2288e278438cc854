/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error classes, codes and strings of programs (MPI-5.0 section 9.5); also before MPI_Init and after MPI_Finalize. Numbers
 * start at MPI_ERR_LASTCODE + 1; the highest in use is MPI_LASTUSEDCODE.
 *
 * Any thread may call these functions at any time, whatever the level of thread support. So the table has a lock of its own.
 * No error may be raised under it, since error handlers are the program's.
 */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct user_error {
	int class;			/* its own number if it is a class; 0: removed */
	int codes;			/* of a class: codes that belong to it, without itself */
	char *string;
} *added;
static int nadded, capacity;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Must hold the lock, also while the result is used: the table moves. */
static struct user_error *error_add_get(int code)
{
	struct user_error *e;

	if (code <= MPI_ERR_LASTCODE || code - MPI_ERR_LASTCODE > nadded)
		return NULL;
	e = &added[code - MPI_ERR_LASTCODE - 1];
	return e->class ? e : NULL;
}

int hdl_last_used_code(void)
{
	int n;

	pthread_mutex_lock(&lock);
	n = nadded;
	pthread_mutex_unlock(&lock);
	return MPI_ERR_LASTCODE + n;
}

int hdl_user_error_class(int code)
{
	struct user_error *e;
	int class;

	pthread_mutex_lock(&lock);
	e = error_add_get(code);
	class = e ? e->class : 0;
	pthread_mutex_unlock(&lock);
	return class;
}

int hdl_user_error_text(int code, char text[MPI_MAX_ERROR_STRING])
{
	struct user_error *e;
	int len;

	pthread_mutex_lock(&lock);
	e = error_add_get(code);
	len = snprintf(text, MPI_MAX_ERROR_STRING, "%s", e && e->string ? e->string : "");
	pthread_mutex_unlock(&lock);
	return len;
}

/* class 0: adds a class. Returns the new number; 0: no memory; -1: the class does not exist any more. */
static int add_locked(int class)
{
	int code = MPI_ERR_LASTCODE + 1 + nadded;
	struct user_error *e;

	if (class > MPI_ERR_LASTCODE && (!(e = error_add_get(class)) || e->class != class))
		return -1;
	if (nadded == capacity) {
		if (nadded >= INT_MAX / 2 - MPI_ERR_LASTCODE ||
		    !(e = realloc(added, (size_t)(capacity ? 2 * capacity : 16) * sizeof(*e))))
			return 0;
		added = e;
		capacity = capacity ? 2 * capacity : 16;
	}
	added[nadded++] = (struct user_error){ .class = class ? class : code };
	if ((e = error_add_get(class)))
		e->codes++;
	return code;
}

static cold int no_class(const char *call, int class)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it is no error class", class);
}

static int error_add_add(const char *call, int class, int *out)
{
	int code;

	pthread_mutex_lock(&lock);
	code = add_locked(class);
	pthread_mutex_unlock(&lock);
	if (!code)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for an error code");
	if (code < 0)
		return no_class(call, class);
	*out = code;
	return MPI_SUCCESS;
}

static void take_away(struct user_error *e)
{
	struct user_error *class = error_add_get(e->class);

	if (class && class != e)
		class->codes--;
	free(e->string);
	*e = (struct user_error){ 0 };
	while (nadded && !added[nadded - 1].class)
		nadded--;
}

static cold int not_added(const char *call, const char *what, int number)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid %s %d: MPI_Add_error_class and MPI_Add_error_code did not return it, "
			 "or it was removed", what, number);
}

int PMPI_Add_error_class(int *errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_class";

	if (!errorclass)
		return hdl_null_arg(NULL, call, "errorclass");
	return error_add_add(call, 0, errorclass);
}
HDL_PROFILED(Add_error_class);

int PMPI_Add_error_code(int errorclass, int *errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_code";

	if (hdl_error_class(errorclass) != errorclass || errorclass == MPI_SUCCESS)
		return no_class(call, errorclass);
	if (!errorcode)
		return hdl_null_arg(NULL, call, "errorcode");
	return error_add_add(call, errorclass, errorcode);
}
HDL_PROFILED(Add_error_code);

/* Sets or clears a code's string, and returns the former one. False: there is no such code. */
static bool swap_string(int code, char **string)
{
	struct user_error *e;

	pthread_mutex_lock(&lock);
	e = error_add_get(code);
	if (e) {
		char *former = e->string;
		e->string = *string;
		*string = former;
	}
	pthread_mutex_unlock(&lock);
	return e;
}

int PMPI_Add_error_string(int errorcode, const char *string)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_string";
	char *copy;

	if (!hdl_user_error_class(errorcode))
		return not_added(call, "errorcode", errorcode);
	if (!string)
		return hdl_null_arg(NULL, call, "string");
	if (strlen(string) >= MPI_MAX_ERROR_STRING)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid string of %zu characters: at most %d are allowed",
				 strlen(string), MPI_MAX_ERROR_STRING - 1);
	copy = strdup(string);
	if (!copy)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	bool there = swap_string(errorcode, &copy);
	free(copy);
	return there ? MPI_SUCCESS : not_added(call, "errorcode", errorcode);
}
HDL_PROFILED(Add_error_string);

int PMPI_Remove_error_class(int errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_class";
	struct user_error *e;
	int codes;

	pthread_mutex_lock(&lock);
	e = error_add_get(errorclass);
	codes = e && e->class == errorclass ? e->codes : -1;
	if (!codes)
		take_away(e);
	pthread_mutex_unlock(&lock);
	if (codes < 0)
		return not_added(call, "errorclass", errorclass);
	if (codes)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it has %d error code%s, to be removed first",
				 errorclass, codes, codes == 1 ? "" : "s");
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_class);

int PMPI_Remove_error_code(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_code";
	struct user_error *e;
	bool has_string;
	int class;

	pthread_mutex_lock(&lock);
	e = error_add_get(errorcode);
	class = e ? e->class : 0;
	has_string = e && e->string;
	if (e && class != errorcode && !has_string)
		take_away(e);
	pthread_mutex_unlock(&lock);
	if (!class)
		return not_added(call, "errorcode", errorcode);
	if (class == errorcode)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it is an error class (MPI_Remove_error_class)",
				 errorcode);
	if (has_string)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it has an error string, to be removed first "
				 "(MPI_Remove_error_string)", errorcode);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_code);

int PMPI_Remove_error_string(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_string";
	char *former = NULL;

	if (!swap_string(errorcode, &former))
		return not_added(call, "errorcode", errorcode);
	if (!former)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it has no string", errorcode);
	free(former);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_string);
