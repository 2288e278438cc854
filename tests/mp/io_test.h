/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks that the tests of files share: a call's error class, and success. */
#ifndef IO_TEST_H
#define IO_TEST_H

#include "mpi_test.h"

static inline int class_of(int code)
{
	int class;

	MPI_Error_class(code, &class);
	return class;
}
#define FAILS(call, class)	CHECK_EQ(class_of(call), class)
#define WORKS(call)		CHECK_EQ(call, MPI_SUCCESS)

#endif
