/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions as users of the library: functions of init.c for session.c. */
#ifndef HDL_MPI_SESSION_H
#define HDL_MPI_SESSION_H

#include "mpi/mpi_internal.h"

/* Held while a user of the library comes or goes. Must be taken before HDL_LOCKED takes its lock. */
void hdl_users_lock(void);
void hdl_users_unlock(void);

/* Under hdl_users_lock and HDL_LOCKED. level: MPI_THREAD_MULTIPLE if several threads may be in the library. hdl_session_begins
 * returns 0 or a negative errno, reported. */
int hdl_session_begins(int level);
void hdl_session_ends(void);

#endif
