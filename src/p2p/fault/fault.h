/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of processes: the part of p2p. Five files; each calls only files below itself in this list:
 *
 *     ft_recv.c     a message that names a failed process arrives
 *     notify.c      sends such a message to a leader that waits for this rank, which has skipped the constructor
 *     ft_send.c     sending a failure notice
 *     revoke.c      posted receives end with MPI_ERR_PROC_ABORTED; messages of a revoked communicator are dropped
 *     record.c      the list of failed processes
 *
 * The list holds each process that has ended, cannot be reached, or has given a collective up, in the order in which this process
 * recorded them. hdl_ft_reported is the length of the list when the program last got an error of class MPI_ERR_PROC_ABORTED.
 * Records of failures, and all that the program's errors have covered, are never removed; hdl_ft_forget removes the record of a
 * process that only departed in order.
 *
 * Why the reported ones are counted: a rank whose program got such an error may skip an operation for which ranks of other
 * communicators wait, and these communicators have no failed member. The library knows one such operation, the exchange
 * between the two leaders of an intercommunicator (comm/leader_link.h):
 *
 *     1. Rank 2 dies. Rank 1, in a communicator with rank 2, gets MPI_ERR_PROC_ABORTED and skips MPI_Intercomm_create
 *        with leader 0.
 *     2. Leader 0 has no communicator with rank 2. Its bitmap waits on rank 1, where no receive matches.
 *     3. notify.c on rank 1 finds the unmatched bitmap and names rank 2 to leader 0 (hdl_ft_send_notice).
 *     4. Leader 0 ends the constructor if rank 2 was not in the reported part of its own list when the constructor began
 *        (hdl_cid_peer_knows). Otherwise leader 0's program has started the constructor in spite of the failure, and
 *        leader 0 waits on.
 */
#ifndef HDL_P2P_FAULT_H
#define HDL_P2P_FAULT_H

#include "p2p/match.h"

/* ---- record.c -------------------------------------------------------------------------------------------- */

struct hdl_ft_record {
	int proc;			/* number of the process (runtime/jobs.h) */
	bool gave_up;			/* gave a collective up for want of memory, and is alive */
	bool fails_cids;		/* agreements without a communicator fail if this process is a member
					 * (hdl_cid_fail_member) */
	bool applied;			/* fails_cids: agreements that were in progress have failed (hdl_cid_apply_failures) */
	bool departed;			/* the endpoint has failed because the process, of another job, ended in order, and
					 * nothing has recorded a failure of the process */
};
extern struct hdl_ft_record *hdl_ft_list;
extern unsigned hdl_ft_count, hdl_ft_reported;	/* records in the list, and of these the program's errors have covered */

/* Returns the record of a process, and adds one if there is none. Valid until the next record is added. Ends the job without
 * memory. */
struct hdl_ft_record *hdl_ft_record(int proc);
/* The same, by the index in the list. */
unsigned hdl_ft_record_at(int proc);
/* Records that a process has departed in order, unless the list has the process. */
void hdl_ft_record_departed(int proc);
/* Whether the list has one of n processes, from number `first` on, with a record that must stay. */
bool hdl_ft_keeps(int first, int n);
/* Removes the records of these processes. Must: hdl_ft_keeps is false. */
void hdl_ft_forget(int first, int n);
void hdl_ft_records_reset(void);

/* ---- revoke.c -------------------------------------------------------------------------------------------- */

/* Ends the posted receives for which fn returns true with MPI_ERR_PROC_ABORTED (ECONNRESET). */
void hdl_recv_fail(struct hdl_matching *m, bool (*fn)(const struct hdl_op *op, void *arg), void *arg);
/* Upcall of the transport: ends the receives that can only, or may, wait for this peer. */
void hdl_peer_failed(void *context, int peer, int err);
/* Drops a message. If the message was announced, hdl_ep_refuse ends the send, which waits for the fetch. */
void hdl_recv_drop(struct hdl_matching *m, int src, uint8_t kind, const void *payload);
/* Returns true if a revoked communicator drops messages with this tag of its collective context. */
bool hdl_tag_is_revocable(int tag);

/* Returns the errno by which src, or with MPI_ANY_SOURCE any member of comm, has failed; 0: none has. */
int hdl_failed_in(struct hdl_comm *comm, int src);
/* Returns MPI_SUCCESS, or MPI_ERR_PROC_ABORTED with *errnum set for an operation that needs src, which has failed. */
static inline int hdl_check_peer(struct hdl_comm *comm, int src, int *errnum)
{
	int err = likely(!comm->matching->failed_peers) ? 0 : hdl_failed_in(comm, src);

	if (likely(!err))
		return MPI_SUCCESS;
	*errnum = err;
	return MPI_ERR_PROC_ABORTED;
}

/* ---- ft_send.c, ft_recv.c: messages that name a failed process -------------------------------------------- */

/* Tags of failure notices, in collective contexts and in HDL_CONTEXT_GROUPS, lie above those of collectives: HDL_FT_TAG, flags,
 * and the rank of the failed process in its job. Data: the job's id, where that is not the sender's job; else none. */
#define HDL_FT_TAG (3 << 29)
#define HDL_FT_ENDED (1 << 28)		/* flag: the process has ended; detected by a process of its host, or by the launcher */
#define HDL_FT_ALIVE (1 << 27)		/* flag: the process gave a collective up, and is alive */
#define HDL_FT_RANK (HDL_FT_ALIVE - 1)
static inline bool hdl_ft_is_message(uint16_t context, int32_t tag)
{
	return tag >= HDL_FT_TAG && context & 1;
}

/* Handles a failure notice (HDL_EAGER). Returns true if the message is used up; false: the message waits as an unexpected one,
 * for hdl_ft_waiting_notice. */
bool hdl_ft_message(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload);
/* Fetches the data of an announced failure notice (HDL_RTS), and passes the notice to `arrived` as HDL_EAGER. */
void hdl_ft_fetch(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, const void *rts,
		  void (*arrived)(void *context, int src, const struct hdl_hdr *hdr, const void *payload));

/* ---- notify.c -------------------------------------------------------------------------------------------- */

/* A leader's bitmap has arrived and no receive matches. The next turn of progress answers. May be called inside of the
 * transport. */
void hdl_ft_leader_waits(void);
void hdl_ft_notify_reset(void);

#endif
