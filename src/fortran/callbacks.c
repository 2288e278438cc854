/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fortran functions as C callbacks.
 *
 * MPI's operations and error handlers have no argument by which a C function could know the Fortran one behind it. So there is a
 * pool of C functions, each of which calls the Fortran function of its slot. A Fortran function keeps its slot: the same
 * function in a thousand operations takes one.
 */
#include "fortran/mpifort.h"

#include <pthread.h>
#include <stdio.h>

#define SLOTS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Returns the slot of fn in one pool; -1: all slots are taken. */
static int slot_of(mpifort_fn **pool, mpifort_fn *fn)
{
	int i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < SLOTS && pool[i] && pool[i] != fn; i++)
		;
	if (i < SLOTS)
		pool[i] = fn;
	pthread_mutex_unlock(&lock);
	if (i < SLOTS)
		return i;
	fprintf(stderr, "libmpifort_abi: more than %d different Fortran functions as operations or error handlers of one "
		"kind\n", SLOTS);
	mpifort_raise(MPI_ERR_NO_MEM);
	return -1;
}

/* 256 of a macro, which gets the number as two hexadecimal digits. */
#define ROW(m, h) \
	m(h##0) m(h##1) m(h##2) m(h##3) m(h##4) m(h##5) m(h##6) m(h##7) m(h##8) m(h##9) m(h##a) m(h##b) m(h##c) m(h##d) \
	m(h##e) m(h##f)
#define ALL(m) \
	ROW(m, 0) ROW(m, 1) ROW(m, 2) ROW(m, 3) ROW(m, 4) ROW(m, 5) ROW(m, 6) ROW(m, 7) \
	ROW(m, 8) ROW(m, 9) ROW(m, a) ROW(m, b) ROW(m, c) ROW(m, d) ROW(m, e) ROW(m, f)

/* Pool and functions of a kind of callback. `lookup`: the function that returns the C function for a Fortran one, or NULL; each,
 * name: of a slot, the definition of its C function and its name. */
#define CALLBACKS(kind, function, lookup, each, name)						\
static mpifort_fn *kind##_pool[SLOTS];								\
ALL(each)											\
static function *const kind##_functions[SLOTS] = { ALL(name) };					\
function *lookup(mpifort_fn *fn)								\
{												\
	int slot = slot_of(kind##_pool, fn);							\
												\
	return slot < 0 ? NULL : kind##_functions[slot];					\
}

/* ---- operations ------------------------------------------------------------------------------------------- */

/* op: prefix of the pool and of its functions; len: the type of their count */
#define OP(op, len, h)										\
static void op##_##h(void *in, void *inout, len *n, MPI_Datatype *datatype)			\
{												\
	MPI_Fint t = datatype_out(*datatype);							\
												\
	((void (*)(void *, void *, len *, MPI_Fint *))op##_pool[0x##h])(in, inout, n, &t);	\
}
#define OP_INT(h) OP(op, int, h)
#define OP_INT_NAME(h) op_##h,
CALLBACKS(op, MPI_User_function, mpifort_op_function, OP_INT, OP_INT_NAME)
#define OP_COUNT(h) OP(op_c, MPI_Count, h)
#define OP_COUNT_NAME(h) op_c_##h,
CALLBACKS(op_c, MPI_User_function_c, mpifort_op_function_c, OP_COUNT, OP_COUNT_NAME)

/* ---- error handlers --------------------------------------------------------------------------------------- */

typedef void f_errhandler(MPI_Fint *, int *);

#define ERRHANDLER(kind, type, h)								\
static void kind##_##h(type *handle, int *code, ...)						\
{												\
	MPI_Fint f = kind##_out(*handle);							\
												\
	((f_errhandler *)kind##_pool[0x##h])(&f, code);						\
}
#define COMM(h) ERRHANDLER(comm, MPI_Comm, h)
#define COMM_NAME(h) comm_##h,
CALLBACKS(comm, MPI_Comm_errhandler_function, mpifort_comm_errhandler, COMM, COMM_NAME)
#define FILE_(h) ERRHANDLER(file, MPI_File, h)
#define FILE_NAME(h) file_##h,
CALLBACKS(file, MPI_File_errhandler_function, mpifort_file_errhandler, FILE_, FILE_NAME)
#define SESSION(h) ERRHANDLER(session, MPI_Session, h)
#define SESSION_NAME(h) session_##h,
CALLBACKS(session, MPI_Session_errhandler_function, mpifort_session_errhandler, SESSION, SESSION_NAME)
#define WIN(h) ERRHANDLER(win, MPI_Win, h)
#define WIN_NAME(h) win_##h,
CALLBACKS(win, MPI_Win_errhandler_function, mpifort_win_errhandler, WIN, WIN_NAME)

/* ---- generalised requests --------------------------------------------------------------------------------- */

int mpifort_grequest_query(void *extra_state, MPI_Status *status)
{
	struct mpifort_grequest *g = extra_state;
	int rc = MPI_SUCCESS;

	((void (*)(MPI_Aint *, MPI_Fint *, int *))g->query)(&g->extra_state, (MPI_Fint *)(void *)status, &rc);
	return rc;
}

int mpifort_grequest_free(void *extra_state)
{
	struct mpifort_grequest *g = extra_state;
	int rc = MPI_SUCCESS;

	((void (*)(MPI_Aint *, int *))g->free)(&g->extra_state, &rc);
	free(g);
	return rc;
}

int mpifort_grequest_cancel(void *extra_state, int complete)
{
	struct mpifort_grequest *g = extra_state;
	int rc = MPI_SUCCESS, f_complete = complete ? MPIFORT_TRUE : MPIFORT_FALSE;

	((void (*)(MPI_Aint *, int *, int *))g->cancel)(&g->extra_state, &f_complete, &rc);
	return rc;
}

/* ---- data representations --------------------------------------------------------------------------------- */

/* Registered data representations. MPI has no call that ends one, so the list keeps them until the process ends. */
static struct mpifort_datarep *datareps;

struct mpifort_datarep *mpifort_datarep(mpifort_fn *read, mpifort_fn *write, mpifort_fn *extent, MPI_Aint extra_state)
{
	struct mpifort_datarep *r = malloc(sizeof(*r));

	if (!r) {
		mpifort_raise(MPI_ERR_NO_MEM);
		return NULL;
	}
	*r = (struct mpifort_datarep){ .read = read, .write = write, .extent = extent, .extra_state = extra_state };
	pthread_mutex_lock(&lock);
	r->next = datareps;
	datareps = r;
	pthread_mutex_unlock(&lock);
	return r;
}

int mpifort_datarep_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra_state)
{
	struct mpifort_datarep *r = extra_state;
	MPI_Fint t = datatype_out(datatype);
	int rc = MPI_SUCCESS;

	((void (*)(MPI_Fint *, MPI_Aint *, MPI_Aint *, int *))r->extent)(&t, extent, &r->extra_state, &rc);
	return rc;
}

#define CONVERSION(name, which, number)										\
int mpifort_datarep_##name(void *userbuf, MPI_Datatype datatype, number count, void *filebuf,			\
			   MPI_Offset position, void *extra_state)						\
{														\
	struct mpifort_datarep *r = extra_state;								\
	MPI_Fint t = datatype_out(datatype);									\
	int rc = MPI_SUCCESS;											\
														\
	((void (*)(void *, MPI_Fint *, number *, void *, MPI_Offset *, MPI_Aint *, int *))r->which)		\
		(userbuf, &t, &count, filebuf, &position, &r->extra_state, &rc);				\
	return rc;												\
}
CONVERSION(read, read, int)
CONVERSION(write, write, int)
CONVERSION(read_c, read, MPI_Count)
CONVERSION(write_c, write, MPI_Count)
