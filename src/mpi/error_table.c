/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error classes, codes and strings of programs (MPI-5.0 section 9.5); also before MPI_Init and after MPI_Finalize. Numbers
 * start at MPI_ERR_LASTCODE + 1; the highest in use is MPI_LASTUSEDCODE.
 *
 * Any thread may call these functions at any time, whatever the level of thread support. So the table has a lock of its own.
 * No error may be raised under it, since error handlers are the program's.
 */

#include "mpi/error_table.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

static struct user_error {
	int class;			/* a class: its own number; 0: removed */
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

int hdl_user_error_add(int class)
{
	int code;

	pthread_mutex_lock(&lock);
	code = add_locked(class);
	pthread_mutex_unlock(&lock);
	return code;
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

bool hdl_user_error_swap_string(int code, char **string)
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

int hdl_user_class_remove(int errorclass)
{
	struct user_error *e;
	int codes;

	pthread_mutex_lock(&lock);
	e = error_add_get(errorclass);
	codes = e && e->class == errorclass ? e->codes : -1;
	if (!codes)
		take_away(e);
	pthread_mutex_unlock(&lock);
	return codes;
}

int hdl_user_code_remove(int errorcode, bool *has_string)
{
	struct user_error *e;
	int class;

	pthread_mutex_lock(&lock);
	e = error_add_get(errorcode);
	class = e ? e->class : 0;
	*has_string = e && e->string;
	if (e && class != errorcode && !*has_string)
		take_away(e);
	pthread_mutex_unlock(&lock);
	return class;
}
