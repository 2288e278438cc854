/* SPDX-License-Identifier: BSD-3-Clause */
/* Making communicators: between comm.c (the objects) and construct.c (who is in them). */
#ifndef HDL_P2P_COMM_H
#define HDL_P2P_COMM_H

#include "p2p/comm/comm_cid.h"
#include "p2p/match.h"

/* The id of which no communicator has the contexts: constructors that have no parent use its collective one. */
#define HDL_ID_GROUPS	2		/* its contexts: HDL_CONTEXT_CANCEL, HDL_CONTEXT_GROUPS */

/* Not yet one that the program can name. group: a reference, taken over. Never NULL: without memory the job ends. */
struct hdl_comm *hdl_comm_new(struct hdl_group *group);
/* It exists from here on, with the id that was agreed on. */
void hdl_comm_begin(struct hdl_comm *comm, int id, MPI_Errhandler errhandler);
/* Instead: there was an error. */
void hdl_comm_forget(struct hdl_comm *comm);

#endif
