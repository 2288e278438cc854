/* SPDX-License-Identifier: BSD-3-Clause */
/* The two sources of standard_ptp: sections 3.7 to 3.9 are in standard_ptp_requests.c. */
#ifndef STANDARD_PTP_H
#define STANDARD_PTP_H

#include "standard.h"

#define WORLD	MPI_COMM_WORLD

static const int sizes[] = { 1, 300, 20000, 300000 };	/* of ints: one line, eager, more than eager, rendezvous */
extern int right, left, big[300000], other[300000];

/* The cases of sections 3.7 to 3.9. */
extern const struct standard_case request_cases[];
extern const int nrequest_cases;

#endif
