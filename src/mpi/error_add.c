/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error classes, codes and strings of programs (MPI-5.0 section 9.5), also before MPI is initialized and after it is
 * finalized. They are numbered from MPI_ERR_LASTCODE + 1; the last one that is in use is MPI_LASTUSEDCODE.
 */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static struct user_error {
	int class;			/* its own number: it is a class; 0: removed */
	int codes;			/* of a class: those that have it, itself excepted */
	char *string;
} *added;
static int nadded, room;

static struct user_error *get(int code)
{
	struct user_error *e;

	if (code <= MPI_ERR_LASTCODE || code - MPI_ERR_LASTCODE > nadded)
		return NULL;
	e = &added[code - MPI_ERR_LASTCODE - 1];
	return e->class ? e : NULL;
}

int hdl_last_used_code(void)
{
	return MPI_ERR_LASTCODE + nadded;
}

int hdl_user_error_class(int code)
{
	struct user_error *e = get(code);

	return e ? e->class : 0;
}

const char *hdl_user_error_text(int code)
{
	struct user_error *e = get(code);

	return e && e->string ? e->string : "";
}

/* class 0: a new one. */
static int add(const char *call, int class, int *out)
{
	int code = MPI_ERR_LASTCODE + 1 + nadded;
	struct user_error *e;

	if (nadded == room) {
		if (nadded >= INT_MAX / 2 - MPI_ERR_LASTCODE ||
		    !(e = realloc(added, (size_t)(room ? 2 * room : 16) * sizeof(*e))))
			return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for error code %d", code);
		added = e;
		room = room ? 2 * room : 16;
	}
	added[nadded++] = (struct user_error){ .class = class ? class : code };
	if ((e = get(class)))
		e->codes++;
	*out = code;
	return MPI_SUCCESS;
}

static void take_away(struct user_error *e)
{
	struct user_error *class = get(e->class);

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
	return add(call, 0, errorclass);
}
HDL_PROFILED(Add_error_class);

int PMPI_Add_error_code(int errorclass, int *errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_code";

	if (hdl_error_class(errorclass) != errorclass || errorclass == MPI_SUCCESS)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it is no error class", errorclass);
	if (!errorcode)
		return hdl_null_arg(NULL, call, "errorcode");
	return add(call, errorclass, errorcode);
}
HDL_PROFILED(Add_error_code);

int PMPI_Add_error_string(int errorcode, const char *string)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Add_error_string";
	struct user_error *e = get(errorcode);
	char *copy;

	if (!e)
		return not_added(call, "errorcode", errorcode);
	if (!string)
		return hdl_null_arg(NULL, call, "string");
	if (strlen(string) >= MPI_MAX_ERROR_STRING)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid string of %zu characters: at most %d are allowed", strlen(string),
				 MPI_MAX_ERROR_STRING - 1);
	copy = strdup(string);
	if (!copy)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
	free(e->string);
	e->string = copy;
	return MPI_SUCCESS;
}
HDL_PROFILED(Add_error_string);

int PMPI_Remove_error_class(int errorclass)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_class";
	struct user_error *e = get(errorclass);

	if (!e || e->class != errorclass)
		return not_added(call, "errorclass", errorclass);
	if (e->codes)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorclass %d: it has %d error code%s, to be removed first",
				 errorclass, e->codes, e->codes == 1 ? "" : "s");
	take_away(e);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_class);

int PMPI_Remove_error_code(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_code";
	struct user_error *e = get(errorcode);

	if (!e)
		return not_added(call, "errorcode", errorcode);
	if (e->class == errorcode)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it is an error class (MPI_Remove_error_class)",
				 errorcode);
	take_away(e);
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_code);

int PMPI_Remove_error_string(int errorcode)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Remove_error_string";
	struct user_error *e = get(errorcode);

	if (!e)
		return not_added(call, "errorcode", errorcode);
	if (!e->string)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid errorcode %d: it has no string", errorcode);
	free(e->string);
	e->string = NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Remove_error_string);
