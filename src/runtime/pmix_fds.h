/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection of libpmix with the launcher. A program that closes every descriptor after MPI_Init (as a starting
 * daemon does) closes this one, too. libpmix does not notice: requests go into whichever file has the number, the
 * answers never come, and libpmix's thread may report EBADF without end. So this process is ended, with the reason, by
 * the first call into libpmix after that.
 */
#ifndef HDL_PMIX_FDS_H
#define HDL_PMIX_FDS_H

/* After PMIx_Init: finds the connection. uri: the server's (PMIX_SERVER_URI*). If none is found, every check passes. */
void hdl_pmix_fds_note(const char *uri);
/* Ahead of PMIx_Finalize. */
void hdl_pmix_fds_forget(void);
/* Must be called before every call into libpmix between hdl_pmix_fds_note and hdl_pmix_fds_forget. call: for the
 * message. Ends the process if the connection was closed. Any thread. */
void hdl_pmix_fds_check(const char *call);

#endif
