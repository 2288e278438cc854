/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes in Fortran and C (MPI-5.0 section 19.3.7). A Fortran program stores an integer; a C program that looks it up gets
 * the address of that integer. So the library stores the address of a cell. A Fortran program that looks it up gets the integer;
 * if C code stored an address, that address. The two are told apart by a table of cells.
 */
#include "fortran/mpifort.h"

#include <pthread.h>

struct cell {
	MPI_Aint value;			/* first: its address is the attribute */
	struct cell *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cell *cells[256];
static struct mpifort_keyval *keyvals;

static struct cell **cell_find(const void *attribute)
{
	struct cell **at = &cells[((uintptr_t)attribute >> 4 ^ (uintptr_t)attribute >> 12) & 255];

	while (*at && *at != attribute)
		at = &(*at)->next;
	return at;
}

void *mpifort_attribute(MPI_Aint value)
{
	struct cell *c = malloc(sizeof(*c)), **at;

	if (!c) {
		mpifort_raise(MPI_ERR_NO_MEM);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	at = cell_find(c);
	*c = (struct cell){ .value = value };
	*at = c;
	pthread_mutex_unlock(&lock);
	return c;
}

void mpifort_attribute_free(void *attribute)
{
	struct cell **at, *c;

	pthread_mutex_lock(&lock);
	at = cell_find(attribute);
	c = *at;
	if (c)
		*at = c->next;
	pthread_mutex_unlock(&lock);
	free(c);
}

MPI_Aint mpifort_attribute_value(int keyval, const void *attribute)
{
	struct cell *c;
	MPI_Aint value;

	switch (keyval) {
	case MPI_TAG_UB: case MPI_IO: case MPI_HOST: case MPI_WTIME_IS_GLOBAL: case MPI_APPNUM: case MPI_LASTUSEDCODE:
	case MPI_UNIVERSE_SIZE: case MPI_WIN_DISP_UNIT: case MPI_WIN_CREATE_FLAVOR: case MPI_WIN_MODEL:
		return *(const int *)attribute;
	case MPI_WIN_SIZE:
		return *(const MPI_Aint *)attribute;
	}
	pthread_mutex_lock(&lock);
	c = *cell_find(attribute);
	value = c ? c->value : (MPI_Aint)(uintptr_t)attribute;
	pthread_mutex_unlock(&lock);
	return value;
}

struct mpifort_keyval *mpifort_keyval(mpifort_fn *copy, mpifort_fn *del, MPI_Aint extra_state, bool old)
{
	struct mpifort_keyval *k = malloc(sizeof(*k));

	if (!k) {
		mpifort_raise(MPI_ERR_NO_MEM);
		return NULL;
	}
	*k = (struct mpifort_keyval){ .copy = copy, .del = del, .extra_state = extra_state, .old = old };
	pthread_mutex_lock(&lock);
	k->next = keyvals;
	keyvals = k;
	pthread_mutex_unlock(&lock);
	return k;
}

typedef void f_copy(MPI_Fint *, int *, MPI_Aint *, MPI_Aint *, MPI_Aint *, int *, int *);
typedef void f_copy_old(MPI_Fint *, int *, int *, int *, int *, int *, int *);
typedef void f_delete(MPI_Fint *, int *, MPI_Aint *, MPI_Aint *, int *);
typedef void f_delete_old(MPI_Fint *, int *, int *, int *, int *);

static int attribute_copy(MPI_Fint object, int keyval, struct mpifort_keyval *k, void *in, void *out, int *flag)
{
	MPI_Aint from = mpifort_attribute_value(keyval, in), to = 0;
	int rc = MPI_SUCCESS, f_flag = MPIFORT_FALSE, old_from = (int)from, old_to = 0, old_state = (int)k->extra_state;

	if (k->old) {
		((f_copy_old *)k->copy)(&object, &keyval, &old_state, &old_from, &old_to, &f_flag, &rc);
		to = old_to;
	} else
		((f_copy *)k->copy)(&object, &keyval, &k->extra_state, &from, &to, &f_flag, &rc);
	*flag = f_flag != MPIFORT_FALSE;
	if (rc || !*flag)
		return rc;
	*(void **)out = mpifort_attribute(to);
	return *(void **)out ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int attribute_delete(MPI_Fint object, int keyval, void *attribute, struct mpifort_keyval *k)
{
	MPI_Aint value = mpifort_attribute_value(keyval, attribute);
	int rc = MPI_SUCCESS, old_value = (int)value, old_state = (int)k->extra_state;

	if (k->old)
		((f_delete_old *)k->del)(&object, &keyval, &old_value, &old_state, &rc);
	else
		((f_delete *)k->del)(&object, &keyval, &value, &k->extra_state, &rc);
	if (!rc)
		mpifort_attribute_free(attribute);
	return rc;
}

#define CALLBACKS(kind, type, convert)										\
int mpifort_##kind##_copy(type object, int keyval, void *extra_state, void *in, void *out, int *flag)		\
{														\
	return attribute_copy(convert##_out(object), keyval, extra_state, in, out, flag);			\
}														\
int mpifort_##kind##_delete(type object, int keyval, void *attribute, void *extra_state)			\
{														\
	return attribute_delete(convert##_out(object), keyval, attribute, extra_state);				\
}
CALLBACKS(comm, MPI_Comm, comm)
CALLBACKS(type, MPI_Datatype, datatype)
CALLBACKS(win, MPI_Win, win)

/* ---- predefined callbacks ----------------------------------------------------------------------------------- */

#define ALIAS_OF(name, of) extern __typeof__(of) name __attribute__((alias(#of)))

#pragma GCC visibility push(default)
void mpi_comm_dup_fn_(MPI_Fint *, int *, MPI_Aint *, MPI_Aint *, MPI_Aint *, int *, int *);
void mpi_comm_null_copy_fn_(MPI_Fint *, int *, MPI_Aint *, MPI_Aint *, MPI_Aint *, int *, int *);
void mpi_comm_null_delete_fn_(MPI_Fint *, int *, MPI_Aint *, MPI_Aint *, int *);
void mpi_dup_fn_(MPI_Fint *, int *, int *, int *, int *, int *, int *);
void mpi_null_copy_fn_(MPI_Fint *, int *, int *, int *, int *, int *, int *);
void mpi_null_delete_fn_(MPI_Fint *, int *, int *, int *, int *);

void mpi_comm_dup_fn_(MPI_Fint *object, int *keyval, MPI_Aint *extra_state, MPI_Aint *in, MPI_Aint *out, int *flag, int *ierror)
{
	*out = *in;
	*flag = MPIFORT_TRUE;
	*ierror = MPI_SUCCESS;
}
ALIAS_OF(mpi_type_dup_fn_, mpi_comm_dup_fn_);
ALIAS_OF(mpi_win_dup_fn_, mpi_comm_dup_fn_);

void mpi_comm_null_copy_fn_(MPI_Fint *object, int *keyval, MPI_Aint *extra_state, MPI_Aint *in, MPI_Aint *out, int *flag,
			    int *ierror)
{
	*flag = MPIFORT_FALSE;
	*ierror = MPI_SUCCESS;
}
ALIAS_OF(mpi_type_null_copy_fn_, mpi_comm_null_copy_fn_);
ALIAS_OF(mpi_win_null_copy_fn_, mpi_comm_null_copy_fn_);

void mpi_comm_null_delete_fn_(MPI_Fint *object, int *keyval, MPI_Aint *value, MPI_Aint *extra_state, int *ierror)
{
	*ierror = MPI_SUCCESS;
}
ALIAS_OF(mpi_type_null_delete_fn_, mpi_comm_null_delete_fn_);
ALIAS_OF(mpi_win_null_delete_fn_, mpi_comm_null_delete_fn_);

void mpi_dup_fn_(MPI_Fint *object, int *keyval, int *extra_state, int *in, int *out, int *flag, int *ierror)
{
	*out = *in;
	*flag = MPIFORT_TRUE;
	*ierror = MPI_SUCCESS;
}

void mpi_null_copy_fn_(MPI_Fint *object, int *keyval, int *extra_state, int *in, int *out, int *flag, int *ierror)
{
	*flag = MPIFORT_FALSE;
	*ierror = MPI_SUCCESS;
}

void mpi_null_delete_fn_(MPI_Fint *object, int *keyval, int *value, int *extra_state, int *ierror)
{
	*ierror = MPI_SUCCESS;
}

/* Recognized by their addresses, never called. */
void mpi_conversion_fn_null_(void)
{
}

void mpi_conversion_fn_null_c_(void)
{
	/* unlike the one above: two functions that are the same could be made one */
	__asm__ volatile("");
}
#pragma GCC visibility pop
