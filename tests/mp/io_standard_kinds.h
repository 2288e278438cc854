/* SPDX-License-Identifier: BSD-3-Clause */
/* All data accesses of section 14.4 under one signature: three positionings, alone and collective, blocking or not, split. */
#ifndef IO_STANDARD_KINDS_H
#define IO_STANDARD_KINDS_H

#include "io_standard.h"

enum { AT, AT_ALL, I_AT, I_AT_ALL, AT_ALL_BEGIN, POINTER, ALL, I_POINTER, I_ALL, ALL_BEGIN, SHARED, I_SHARED,
	ORDERED, ORDERED_BEGIN, N_KINDS };

static const char *const kind_names[] = { "at", "at_all", "i_at", "i_at_all", "at_all_begin", "pointer", "all", "i_pointer",
	"i_all", "all_begin", "shared", "i_shared", "ordered", "ordered_begin" };

static inline int is_collective(int kind)
{
	return kind == AT_ALL || kind == I_AT_ALL || kind == AT_ALL_BEGIN || kind == ALL || kind == I_ALL ||
	       kind == ALL_BEGIN || kind >= ORDERED;
}

static inline int is_shared(int kind)
{
	return kind >= SHARED;
}

static inline int has_pointer(int kind)
{
	return kind >= POINTER && kind < SHARED;
}

/* An access at an explicit offset, at the individual pointer, which is moved there, or at the shared pointer where that is. */
#define BOTH(name, ...) (write ? MPI_File_write##name(__VA_ARGS__) : MPI_File_read##name(__VA_ARGS__))
#define IBOTH(name, ...) (write ? MPI_File_iwrite##name(__VA_ARGS__) : MPI_File_iread##name(__VA_ARGS__))
#define DEFINE_ACCESS(fn, COUNT, C, CB) \
static inline int fn(int kind, int write, MPI_File f, MPI_Offset at, void *b, COUNT n, MPI_Datatype t, MPI_Status *st) \
{ \
	MPI_Request r = MPI_REQUEST_NULL; \
	int rc; \
	if (has_pointer(kind) && (rc = MPI_File_seek(f, at, MPI_SEEK_SET))) \
		return rc; \
	switch (kind) { \
	case AT: return BOTH(_at##C, f, at, b, n, t, st); \
	case AT_ALL: return BOTH(_at_all##C, f, at, b, n, t, st); \
	case I_AT: rc = IBOTH(_at##C, f, at, b, n, t, &r); break; \
	case I_AT_ALL: rc = IBOTH(_at_all##C, f, at, b, n, t, &r); break; \
	case AT_ALL_BEGIN: rc = BOTH(_at_all_begin##C, f, at, b, n, t); return rc ? rc : BOTH(_at_all_end, f, b, st); \
	case POINTER: return BOTH(C, f, b, n, t, st); \
	case ALL: return BOTH(_all##C, f, b, n, t, st); \
	case I_POINTER: rc = IBOTH(C, f, b, n, t, &r); break; \
	case I_ALL: rc = IBOTH(_all##C, f, b, n, t, &r); break; \
	case ALL_BEGIN: rc = BOTH(_all_begin##C, f, b, n, t); return rc ? rc : BOTH(_all_end, f, b, st); \
	case SHARED: return BOTH(_shared##C, f, b, n, t, st); \
	case I_SHARED: rc = IBOTH(_shared##C, f, b, n, t, &r); break; \
	case ORDERED: return BOTH(_ordered##C, f, b, n, t, st); \
	default: rc = BOTH(_ordered_begin##C, f, b, n, t); return rc ? rc : BOTH(_ordered_end, f, b, st); \
	} \
	return rc ? rc : MPI_Wait(&r, st); \
}
DEFINE_ACCESS(access_file, int, , )
#if MPI_VERSION >= 4
DEFINE_ACCESS(access_file_c, MPI_Count, _c, )
#else
#define access_file_c access_file
#endif

#endif
