/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checks that the tests of files share: a call's error class, and success. A failed check ends the job, unless the includer
 * defines IO_WRONG(line, format, ...) as a function that notes it (io_standard.h).
 */
#ifndef IO_TEST_H
#define IO_TEST_H

#include "mpi_test.h"

#ifndef IO_WRONG
#define IO_WRONG(line, ...) test_fail(__FILE__, line, __VA_ARGS__)
#endif

static inline int class_of(int code)
{
	int class = -1;

	MPI_Error_class(code, &class);
	return class;
}

static inline const char *error_text(int code)
{
	static char text[MPI_MAX_ERROR_STRING + 1];
	int len;

	MPI_Error_string(code, text, &len);
	return text;
}

#define WORKS(call)                                                                                                            \
	do {                                                                                                                   \
		int rc_ = (call);                                                                                              \
		if (rc_ != MPI_SUCCESS)                                                                                        \
			IO_WRONG(__LINE__, "%s: %s", #call, error_text(rc_));                                                  \
	} while (0)
#define FAILS(call, class)                                                                                                     \
	do {                                                                                                                   \
		int rc_ = (call);                                                                                              \
		if (class_of(rc_) != (class))                                                                                  \
			IO_WRONG(__LINE__, "%s: class %d (%s), not %s", #call, class_of(rc_), error_text(rc_), #class);        \
	} while (0)
/* The call fails with one of two classes, where the standard names none. */
#define FAILS_OR(call, class, other)                                                                                           \
	do {                                                                                                                   \
		int rc_ = (call);                                                                                              \
		if (class_of(rc_) != (class) && class_of(rc_) != (other))                                                      \
			IO_WRONG(__LINE__, "%s: class %d (%s), neither %s nor %s", #call, class_of(rc_), error_text(rc_),      \
				 #class, #other);                                                                              \
	} while (0)

/* Sync, barrier, sync (section 14.6.1): a collective write may return while other ranks still write. */
static inline void meet_file(MPI_File f)
{
	WORKS(MPI_File_sync(f));
	meet(sync_comm);
	WORKS(MPI_File_sync(f));
}

#endif
