/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libmpifort_abi: the Fortran bindings (MPI-5.0 chapter 19) above any implementation of the MPI standard ABI. Nothing but
 * mpi.h's functions is called. A Fortran procedure calls the C function of its kind: mpi_send_ MPI_Send, pmpi_send_ PMPI_Send.
 *
 * Representations, gfortran's with default kinds of 4 bytes: INTEGER is int, LOGICAL an int that is false if
 * zero, TYPE(MPI_Comm) and INTEGER handles the integer of MPI_Comm_toint, TYPE(MPI_Status) and
 * INTEGER(MPI_STATUS_SIZE) the struct MPI_Status. Arguments are addresses; an absent optional argument is NULL;
 * lengths of CHARACTER arguments follow, as size_t.
 */
#ifndef MPIFORT_H
#define MPIFORT_H

#include <mpi.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define MPIFORT_TRUE 1
#define MPIFORT_FALSE 0

#define mpifort_likely(x) __builtin_expect(!!(x), 1)

/* ---- sentinels -------------------------------------------------------------------------------------------- */

/* The common block of the same name in the modules and in mpif.h: constants that are recognized by their addresses. */
struct mpifort_sentinels {
	MPI_Fint bottom, in_place, buffer_automatic, unweighted, weights_empty, errcodes_ignore;
	MPI_Fint status_ignore[MPI_F_STATUS_SIZE], statuses_ignore[MPI_F_STATUS_SIZE];
};
extern struct mpifort_sentinels mpifort_sentinels_ __attribute__((aligned(32)));
extern struct mpifort_sentinelc {
	char argv_null, argvs_null;
} mpifort_sentinelc_ __attribute__((aligned(32)));

void *mpifort_sentinel(const void *address);

/* The C address of a choice buffer. */
static inline void *address_in(const void *address)
{
	if (mpifort_likely((uintptr_t)address - (uintptr_t)&mpifort_sentinels_ >= sizeof(mpifort_sentinels_)))
		return (void *)(uintptr_t)address;
	return mpifort_sentinel(address);
}

static inline MPI_Status *status_in(MPI_Fint *status)
{
	if (mpifort_likely((uintptr_t)status - (uintptr_t)&mpifort_sentinels_ >= sizeof(mpifort_sentinels_)))
		return (MPI_Status *)(void *)status;
	return MPI_STATUS_IGNORE;
}

static inline int *weights_in(const MPI_Fint *weights)
{
	return weights == &mpifort_sentinels_.unweighted ? MPI_UNWEIGHTED :
	       weights == &mpifort_sentinels_.weights_empty ? MPI_WEIGHTS_EMPTY : (int *)(uintptr_t)weights;
}

/* ---- handles ---------------------------------------------------------------------------------------------- */

/* The ABI gives predefined handles, constants below 4096, their own value as an integer (section 20.2). */
#define MPIFORT_PREDEFINED 0x1000u

#define MPIFORT_HANDLE(kind, type, name)						\
static inline type kind##_in(MPI_Fint handle)						\
{											\
	return mpifort_likely((unsigned)handle < MPIFORT_PREDEFINED) ?			\
		(type)(uintptr_t)handle : PMPI_##name##_fromint(handle);			\
}											\
static inline MPI_Fint kind##_out(type handle)						\
{											\
	return (uintptr_t)handle < MPIFORT_PREDEFINED ? (MPI_Fint)(uintptr_t)handle :	\
		PMPI_##name##_toint(handle);						\
}
MPIFORT_HANDLE(comm, MPI_Comm, Comm)
MPIFORT_HANDLE(datatype, MPI_Datatype, Type)
MPIFORT_HANDLE(errhandler, MPI_Errhandler, Errhandler)
MPIFORT_HANDLE(file, MPI_File, File)
MPIFORT_HANDLE(group, MPI_Group, Group)
MPIFORT_HANDLE(info, MPI_Info, Info)
MPIFORT_HANDLE(message, MPI_Message, Message)
MPIFORT_HANDLE(op, MPI_Op, Op)
MPIFORT_HANDLE(session, MPI_Session, Session)
MPIFORT_HANDLE(win, MPI_Win, Win)

extern int mpifort_nkept;

static inline MPI_Request request_in(MPI_Fint handle)
{
	return (unsigned)handle < MPIFORT_PREDEFINED ? (MPI_Request)(uintptr_t)handle : PMPI_Request_fromint(handle);
}
static inline MPI_Fint request_out(MPI_Request handle)
{
	return (uintptr_t)handle < MPIFORT_PREDEFINED ? (MPI_Fint)(uintptr_t)handle : PMPI_Request_toint(handle);
}

/* Arrays of handles. x_array allocates n handles, converted from `from`, or 0 if that is NULL; the caller frees them.
 * x_array_out leaves alone those that C did not write. */
int datatype_array(MPI_Datatype **to, const MPI_Fint *from, MPI_Count n);
void datatype_array_out(MPI_Fint *to, const MPI_Datatype *from, MPI_Count n);
int request_array(MPI_Request **to, const MPI_Fint *from, MPI_Count n);
int info_array(MPI_Info **to, const MPI_Fint *from, MPI_Count n);
/* Blocks that a v or w collective has: processes, or neighbors. 0 if `buffer` is MPI_IN_PLACE: types are not significant. */
int mpifort_peers(MPI_Comm comm, int sends, int neighbors, const void *buffer);

/* ---- strings ---------------------------------------------------------------------------------------------- */

/* A C string without the trailing blanks, and without the leading ones if `both`; the caller frees it. Returns "" on its own
 * memory, or NULL if there is none. */
char *mpifort_string(const char *text, size_t len, bool both);
/* Fills a CHARACTER variable, padded with blanks, unless rc is an error. */
void mpifort_string_out(char *text, size_t len, const char *from, int rc);

/* ---- choice buffers --------------------------------------------------------------------------------------- */

/* The members of gfortran's CFI_cdesc_t (TS 29113) that are read here: descriptor.c compares them to ISO_Fortran_binding.h. */
struct mpifort_desc {
	void *base;
	size_t elem_len;
	int version;
	signed char rank;
	char differs[3];
	struct {
		ptrdiff_t lower_bound, extent, sm;
	} dim[15];
};

/* A choice buffer as C takes it. All zero: nothing to give back. */
struct mpifort_buffer {
	void *addr;
	MPI_Count count;
	MPI_Datatype type;
	bool made;		/* type is to be freed */
	bool out;		/* temp is to be copied back */
	void *temp;		/* a contiguous copy of the array */
	const struct mpifort_desc *desc;
};

enum mpifort_mode {
	MPIFORT_IN,		/* the call reads the buffer: a copy may be passed */
	MPIFORT_OUT,		/* the call writes the buffer: the copy is written back when the operation completes */
	MPIFORT_LAYOUT,		/* no copy: the completion is not seen here */
	MPIFORT_IGNORED		/* not significant at this process */
};

bool mpifort_strided(const struct mpifort_desc *d);
int mpifort_elements_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
			     enum mpifort_mode mode);
int mpifort_blocks_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
			   enum mpifort_mode mode);
int mpifort_vector_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Datatype type, enum mpifort_mode mode);
int mpifort_copied_strided(struct mpifort_buffer *b, const struct mpifort_desc *d, enum mpifort_mode mode);
void mpifort_release(struct mpifort_buffer *b);
/* Returns true if this process is the root of a rooted collective. */
bool mpifort_root(MPI_Fint root, MPI_Fint comm);

/* Returns true if elements follow each other without gaps. A scalar's do: an array element stands for the array from
 * there on (section 19.1.12). */
static inline bool mpifort_contiguous(const struct mpifort_desc *d)
{
	return d->rank == 0 || (d->rank == 1 && d->dim[0].sm == (ptrdiff_t)d->elem_len) || !d->base || !mpifort_strided(d);
}

/* count elements of `type` in a buffer. */
static inline int mpifort_elements(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
				   enum mpifort_mode mode)
{
	b->addr = address_in(d->base);
	b->count = count;
	b->type = type;
	return mpifort_likely(mpifort_contiguous(d)) ? MPI_SUCCESS : mpifort_elements_strided(b, d, count, type, mode);
}

/* One block of count elements per process. */
static inline int mpifort_blocks(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Count count, MPI_Datatype type,
				 enum mpifort_mode mode)
{
	b->addr = address_in(d->base);
	b->count = count;
	b->type = type;
	return mpifort_likely(mpifort_contiguous(d)) ? MPI_SUCCESS : mpifort_blocks_strided(b, d, count, type, mode);
}

/* Blocks with counts and displacements. */
static inline int mpifort_vector(struct mpifort_buffer *b, const struct mpifort_desc *d, MPI_Datatype type,
				 enum mpifort_mode mode)
{
	b->addr = address_in(d->base);
	b->type = type;
	return mpifort_likely(mpifort_contiguous(d)) ? MPI_SUCCESS : mpifort_vector_strided(b, d, type, mode);
}

/* A buffer that must be contiguous: reductions, packed data. */
static inline int mpifort_copied(struct mpifort_buffer *b, const struct mpifort_desc *d, enum mpifort_mode mode)
{
	b->addr = address_in(d->base);
	return mpifort_likely(mpifort_contiguous(d)) ? MPI_SUCCESS : mpifort_copied_strided(b, d, mode);
}

/* After a blocking call: copies back, and frees. */
static inline void mpifort_done(struct mpifort_buffer *b, int n)
{
	for (int i = 0; i < n; i++)
		if (b[i].made || b[i].temp)
			mpifort_release(&b[i]);
}

/* ---- requests --------------------------------------------------------------------------------------------- */

/*
 * Memory of a request that must stay until the operation completes: copies of buffers that are not contiguous, arrays of C
 * datatypes, and communicators whose integer is known after completion. Wait, Test and Start look such memory up if there is any.
 */
void mpifort_keep_all(int rc, MPI_Request request, struct mpifort_buffer *b, int n, bool persistent, void *types0, void *types1,
		      MPI_Comm *comm, MPI_Fint *to);

static inline void mpifort_keep(int rc, MPI_Request request, struct mpifort_buffer *b, int n, bool persistent)
{
	bool temp = mpifort_nkept > 0;

	for (int i = 0; i < n; i++) {
		if (b[i].made)
			PMPI_Type_free(&b[i].type);
		b[i].made = false;
		temp |= b[i].temp != NULL;
	}
	if (temp)
		mpifort_keep_all(rc, request, b, n, persistent, NULL, NULL, NULL, NULL);
}

static inline void mpifort_keep_types(int rc, MPI_Request request, struct mpifort_buffer *b, int n, bool persistent,
				      MPI_Datatype *types0, MPI_Datatype *types1)
{
	mpifort_keep_all(rc, request, b, n, persistent, types0, types1, NULL, NULL);
}

/* Copies again from the array, or back to it. */
void mpifort_copy_again(struct mpifort_buffer *b, bool back);

/*
 * A call that may free a request takes the request's memory out of the table first, and puts back what it has not freed. Without
 * that the table would name another request:
 *     1. Thread 1: MPI_Wait of the C library frees request R.
 *     2. Thread 2: a nonblocking call is given R again, and its memory goes into the table.
 *     3. Thread 1 looks R up, and copies thread 2's memory back, whose operation is under way.
 * mpifort_take returns NULL if the request has none. [mpifort_nkept > 0]
 */
struct mpifort_kept *mpifort_take(MPI_Request request);
/* Operation and request when the C call has returned. */
enum mpifort_outcome {
	MPIFORT_ACTIVE,			/* the operation is not complete */
	MPIFORT_COMPLETE,
	MPIFORT_FREED,			/* complete, and the C library has freed the request */
};
/* Must follow the C call. */
void mpifort_return(struct mpifort_kept *kept, enum mpifort_outcome outcome);
/* mpifort_return for MPI_Request_free, which succeeded: of an operation that is under way, the memory stays for ever. */
void mpifort_freed(struct mpifort_kept *kept);
/* The operation of a request, which is not freed, is complete. */
void mpifort_completed(MPI_Request request);
/* A persistent request starts: copies are made again. */
void mpifort_started(MPI_Request request);

/* ---- split collectives ------------------------------------------------------------------------------------ */

/*
 * Copies of buffers of split collectives, found by the file's integer: a file has one at most (section 14.4.5), from the begin
 * to the end. mpifort_nsplit counts them; it is read without the lock: a program's begin happens before its end.
 */
extern int mpifort_nsplit;
void mpifort_split_keep(MPI_Fint fh, const struct mpifort_buffer *b);
void *mpifort_split_copy(MPI_Fint fh);
void mpifort_split_release(MPI_Fint fh, bool ended);

/* Behind the C call that begins a split collective: frees a datatype, keeps a copy, and frees that of one without an end. */
static inline void mpifort_split_begin(int rc, MPI_Fint fh, struct mpifort_buffer *b)
{
	if (!rc && mpifort_nsplit)
		mpifort_split_release(fh, false);
	if (rc || !b->temp)
		mpifort_done(b, 1);
	else
		mpifort_split_keep(fh, b);
}

/* The buffer that the C call has been given when the split collective began. */
static inline void *mpifort_split_buffer(MPI_Fint fh, void *address)
{
	void *copy = mpifort_nsplit ? mpifort_split_copy(fh) : NULL;

	return copy ? copy : address;
}

/*
 * Behind the C call that ends it: the copy of a read goes to the array. MPI_ERR_REQUEST: the call was the end of another access
 * than the one under way, whose copy stays.
 */
static inline void mpifort_split_end(int rc, MPI_Fint fh)
{
	int class = MPI_SUCCESS;

	if (!mpifort_nsplit)
		return;
	if (rc)
		PMPI_Error_class(rc, &class);
	if (class != MPI_ERR_REQUEST)
		mpifort_split_release(fh, true);
}

/* ---- callbacks -------------------------------------------------------------------------------------------- */

typedef void mpifort_fn(void);

/* C functions that call the Fortran function fn; NULL if there are too many different ones (MPI_ERR_NO_MEM was raised). */
MPI_User_function *mpifort_op_function(mpifort_fn *fn);
MPI_User_function_c *mpifort_op_function_c(mpifort_fn *fn);
MPI_Comm_errhandler_function *mpifort_comm_errhandler(mpifort_fn *fn);
MPI_File_errhandler_function *mpifort_file_errhandler(mpifort_fn *fn);
MPI_Session_errhandler_function *mpifort_session_errhandler(mpifort_fn *fn);
MPI_Win_errhandler_function *mpifort_win_errhandler(mpifort_fn *fn);

/* The extra_state of the C callbacks of a Fortran keyval; kept until the process ends. */
struct mpifort_keyval {
	mpifort_fn *copy, *del;
	MPI_Aint extra_state;
	bool old;		/* of MPI_Keyval_create: INTEGER arguments */
	struct mpifort_keyval *next;
};
struct mpifort_keyval *mpifort_keyval(mpifort_fn *copy, mpifort_fn *del, MPI_Aint extra_state, bool old);
MPI_Comm_copy_attr_function mpifort_comm_copy;
MPI_Comm_delete_attr_function mpifort_comm_delete;
MPI_Type_copy_attr_function mpifort_type_copy;
MPI_Type_delete_attr_function mpifort_type_delete;
MPI_Win_copy_attr_function mpifort_win_copy;
MPI_Win_delete_attr_function mpifort_win_delete;
/* The attribute that C stores for a Fortran integer: the address of a cell with it (section 19.3.7). NULL: out of memory. */
void *mpifort_attribute(MPI_Aint value);
/* The Fortran integer of an attribute that C stores. */
MPI_Aint mpifort_attribute_value(int keyval, const void *attribute);
void mpifort_attribute_free(void *attribute);

struct mpifort_grequest {
	mpifort_fn *query, *free, *cancel;
	MPI_Aint extra_state;
};
MPI_Grequest_query_function mpifort_grequest_query;
MPI_Grequest_free_function mpifort_grequest_free;
MPI_Grequest_cancel_function mpifort_grequest_cancel;

struct mpifort_datarep {
	mpifort_fn *read, *write, *extent;
	MPI_Aint extra_state;
	struct mpifort_datarep *next;
};
struct mpifort_datarep *mpifort_datarep(mpifort_fn *read, mpifort_fn *write, mpifort_fn *extent, MPI_Aint extra_state);
MPI_Datarep_extent_function mpifort_datarep_extent;
MPI_Datarep_conversion_function mpifort_datarep_read, mpifort_datarep_write;
MPI_Datarep_conversion_function_c mpifort_datarep_read_c, mpifort_datarep_write_c;

void mpi_conversion_fn_null_(void);
void mpi_conversion_fn_null_c_(void);

/* MPI_Init: Fortran's properties are set, if the ABI library has none. */
void mpifort_tell_abi(void);

/* An error of this library's own, raised on MPI_COMM_SELF. Returns the code. */
int mpifort_raise(int code);

#endif
