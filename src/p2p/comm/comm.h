/* SPDX-License-Identifier: BSD-3-Clause */
/* Making communicators: functions of comm.c (objects) for construct.c (members). */
#ifndef HDL_P2P_COMM_H
#define HDL_P2P_COMM_H

#include "p2p/comm/comm_cid.h"
#include "p2p/match.h"

/* The id whose contexts no communicator has. Agreements without a communicator use the collective context of that id. */
#define HDL_ID_GROUPS	2		/* its contexts: HDL_CONTEXT_CANCEL, HDL_CONTEXT_GROUPS */

/* Makes a communicator without an id, which the program cannot name yet. Takes over a reference to group. Without memory the job
 * ends. */
struct hdl_comm *hdl_comm_new(struct hdl_group *group);
/* Gives a communicator of hdl_comm_new the id that was agreed on, an error handler, the session of its parent (NULL: none) and a
 * valid handle. */
void hdl_comm_begin(struct hdl_comm *comm, int id, MPI_Errhandler errhandler, struct hdl_session *session);
/* Frees a communicator that never got an id, after an error. */
void hdl_comm_forget(struct hdl_comm *comm);

/* Frees the records of other jobs of which nothing in this process has a number (jobs_gone.c). Must: the caller has no number of
 * a process of another job that no group has. */
void hdl_jobs_free_gone(void);

#endif
