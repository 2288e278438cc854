/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs standard_*.c test the rules and examples of the MPI standard, one chapter each: a table of cases, each with a
 * section of MPI-5.0. A case that needs more ranks than there are is skipped, and named. Every case checks the received data, and
 * runs under any MPI. Arguments: the names of the cases to run; all without.
 */
#ifndef STANDARD_H
#define STANDARD_H

#include "mpi_test.h"

struct standard_case {
	const char *section, *name;
	int ranks;			/* at least so many */
	void (*run)(void);
};

static inline int standard_wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return 1;
	return argc < 2;
}

static inline void standard_run(const struct standard_case *cases, int n, int argc, char **argv)
{
	for (int i = 0; i < n; i++) {
		if (!standard_wanted(cases[i].name, argc, argv))
			continue;
		if (np < cases[i].ranks) {
			if (!me)
				printf("section %s, %s: needs %d ranks\n", cases[i].section, cases[i].name, cases[i].ranks);
			continue;
		}
		cases[i].run();
		meet(sync_comm);	/* no operation of a case reaches into the next case */
	}
}

static inline int class_of(int code)
{
	int class = -1;

	MPI_Error_class(code, &class);
	return class;
}

/* The call fails with that class; the communicators that may be blamed return errors. */
#define FAILS(call, class) \
	do { \
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); \
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); \
		int rc_ = (call); \
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL); \
		MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL); \
		CHECK_EQ(class_of(rc_), class); \
	} while (0)

static inline int count_of(const MPI_Status *s, MPI_Datatype type)
{
	int n = -1;

	MPI_Get_count(s, type, &n);
	return n;
}

static inline int was_cancelled(const MPI_Status *s)
{
	int flag = -1;

	MPI_Test_cancelled(s, &flag);
	return flag;
}

/* Section 3.7.3 */
static inline int is_empty(const MPI_Status *s)
{
	return s->MPI_SOURCE == MPI_ANY_SOURCE && s->MPI_TAG == MPI_ANY_TAG && s->MPI_ERROR == MPI_SUCCESS &&
	       !count_of(s, MPI_BYTE) && !was_cancelled(s);
}

#endif
