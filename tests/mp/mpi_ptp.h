/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sources of mpi_ptp: requests and their completion are in mpi_ptp_requests.c. */
#ifndef MPI_PTP_H
#define MPI_PTP_H

#include "mpi_test.h"

#define SIZES 4
static const int sizes[SIZES] = { 0, 3, 5000, 200000 };	/* bytes: none, one line, eager, rendezvous */
extern int right, left;

#define CHECK_STATUS(s, source, tag, bytes) \
	do { \
		int n_; \
		CHECK_EQ((s).MPI_SOURCE, source); \
		CHECK_EQ((s).MPI_TAG, tag); \
		MPI_Get_count(&(s), MPI_BYTE, &n_); \
		CHECK_EQ(n_, bytes); \
	} while (0)

#define CHECK_EMPTY(s) \
	do { \
		int flag_; \
		CHECK_STATUS(s, MPI_ANY_SOURCE, MPI_ANY_TAG, 0); \
		MPI_Test_cancelled(&(s), &flag_); \
		CHECK_EQ(flag_, 0); \
	} while (0)

#define CHECK_CLASS(call, class) \
	do { \
		int rc_ = (call), class_; \
		MPI_Error_class(rc_, &class_); \
		CHECK_EQ(class_, class); \
	} while (0)

static inline int is_cancelled(MPI_Status *s)
{
	int flag;

	MPI_Test_cancelled(s, &flag);
	return flag;
}

/* Returns the bytes of the message from one rank to another with this tag. Ownership: the caller frees them. */
char *message(int from, int to, int tag, int bytes);

/* The cases of mpi_ptp_requests.c. */
void completions(void);
void errors_in_status(void);
void freed(void);
void cancel_receives(void);
void cancel_sends(void);
void cancel_races(void);
void some_are_fair(int test);

#endif
