/* SPDX-License-Identifier: BSD-3-Clause */
/* The sources of p2p_ops: point-to-point operations over a mock transport. This process is rank 0 of 4, where
 * a suite has p2p_setup. */
#ifndef P2P_OPS_H
#define P2P_OPS_H

#include "p2p_mock.h"

/* MPI_INT and MPI_BYTE; written by p2p_setup. */
extern struct hdl_type *ints, *bytes_t;

void p2p_setup(void);
void p2p_teardown(void);
/* Returns a committed vector type of MPI_INT. Ownership: the caller releases the type. */
struct hdl_type *vector_of_ints(MPI_Count count, MPI_Count blocklength, MPI_Count stride);

#endif
