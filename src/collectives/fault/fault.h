/* SPDX-License-Identifier: BSD-3-Clause */
/* Internal header of fault/: failure detection and revocation. */
#ifndef HDL_COLL_FAULT_H
#define HDL_COLL_FAULT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct hdl_cc;
struct hdl_comm;
struct hdl_queues;

extern uint32_t hdl_coll_pending;	/* runs of the host executor that have not finished, of all communicators */
/* A message from or to this member (numbered like nodes' peers) has failed as messages of an ended process do: records the
 * communicator as lost because of a member whose process has ended, or of this member if no member's end is detected. May be
 * called from anywhere. */
void hdl_ft_member_failed(struct hdl_cc *cc, int member);
/* This rank cannot do its part of a collective: records the communicator as lost, as hdl_coll_no_memory does. May be called from
 * anywhere. */
void hdl_ft_give_up(struct hdl_comm *comm, const char *why);
/* The resource that this rank lacks, for error texts, by errno. */
const char *hdl_ft_lacks(int err);
/* A living member has given up a collective: records the communicator as lost if a member's end can be seen. Otherwise a notice
 * will come. */
void hdl_ft_member_gave_up(struct hdl_cc *cc);
/* on_notice: handles a member's notice (hdl_ft_on_message). before: handles a notice that came before the communicator's state
 * was made. */
bool hdl_ft_on_notice(uint16_t context, int proc, bool by_notice);
void hdl_ft_before(struct hdl_cc *cc);
/* Sets the reason of an error (hdl_reason_set) of the collective `name` on a lost communicator. */
void hdl_ft_reason(const struct hdl_cc *cc, const char *name);
/* Revokes lost communicators: notifies members, and ends the operations in flight. Returns 1 if any was lost, else 0. */
int hdl_ft_progress(void);
/* leave: all ranks are in MPI_Finalize, so that a process that has ended is no failure: neither printed, nor sent to members. */
void hdl_ft_ranks_leave(bool leave);
uint64_t hdl_ft_timers(uint64_t now);	/* see hdl_tp_on_timers */

/* A completion in error was polled, of a request to the link's peer or of a receive from there. Returns true if the peer may have
 * ended in order: the communicator's queues are used further, and the caller must count the request as complete. A peer that
 * failed is detected by the check of its process. */
bool hdl_queues_parted(struct hdl_queues *h, struct hdl_coll_link *l, enum ibv_wc_status status);
/* Mailbox: the peer's queue has failed, so the peer's process has ended: the destruction of a queue by a living peer is not
 * reported. */
void hdl_queues_peer_gone(struct hdl_queues *h, int peer);
/* The queues are in error here, which the other ranks may not know: revokes the communicator. May be called anywhere. */
void hdl_queues_break(struct hdl_queues *h, const char *why);
/* A completion in error was polled. */
void hdl_queues_failed(struct hdl_queues *h, const char *what, int peer, enum ibv_wc_status status);

#endif
