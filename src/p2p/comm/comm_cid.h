/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement on a context id: what every constructor of communicators does (MPI-5.0 sections 7.4, 7.6). The members of a group, or
 * of the two groups of an intercommunicator, find an id that is free on each of them, and exchange a table to which each member
 * contributes one entry, and the data of the other group's root. Nonblocking.
 *
 * A communicator with an id has two 16-bit contexts (ids.h). Each rank keeps a bitmap of the ids that it uses. The bitmaps are
 * or-ed up a binomial tree, whose root takes the lowest id that is free everywhere and sends the result down. The roots of two
 * groups are leaders: they exchange bitmaps (leader_link.h) and compute the same result. Disjoint communicators may share an id,
 * since messages are matched by their source, too. A rank frees an id when its last use is over; the next agreement sees the id
 * free when every member has freed it.
 *
 *                     not the root
 *     start ──▶ GATHER ─────────────▶ RESULT ──▶ RESULT_DATA ───┐
 *                ▲ │ │                  └───────────────────────┤
 *                │ │ └─ root of one group ──────────────────────┤
 *                │ │ leader                                     ▼
 *                │ └──▶ EXCHANGE ──▶ COMMIT ──▶ LEADER_DATA ──▶ BCAST ──▶ DONE
 *                │          └───────────┴───────────────────────▲ │
 *                └─ another round: a member had no bitmap ────────┘
 *
 * RESULT_DATA and LEADER_DATA are skipped after the first round, after an error, and where there is no table or root data;
 * COMMIT is skipped after an error.
 *
 * A state is left when all requests that were posted in it have completed (hdl_cid_agreement.pending is 0). comm_cid.c has the
 * table of transitions. A failure is recorded in any state; it changes the result, not the order of the states, so that each
 * member still sends its children a result.
 *
 * Several agreements may be under way on a rank (threads, MPI_Comm_idup), and only one at a time may use the bitmap. A rank on
 * which another agreement uses the bitmap contributes HDL_CID_NOT_TAKEN instead, and all members start another round. The rule
 * against deadlock: no rank keeps its bitmap while a member may not have called the constructor yet. So the first round is a
 * barrier: no bitmap is used. (Exception: a blocking constructor on a rank where no other is under way takes the bitmap at once;
 * such a rank keeps no other agreement waiting.) The root makes the agreement's number and broadcasts the number in the first
 * round. From the second round on a rank gives the bitmap to the agreement with the lowest number only, so the agreement with the
 * lowest number of all gets the bitmaps of all its ranks:
 *
 *     1. Ranks 0 and 1 run agreements A and B in different threads. Rank 0 gives its bitmap to A, rank 1 to B.
 *     2. A gets NOT_TAKEN from rank 1, B from rank 0: both start another round, and both ranks have both numbers.
 *     3. If A's number is lower, rank 1 refuses B from now on. A's round succeeds; then B's does.
 *
 * Failures. A member that cannot be reached makes the agreement fail on all other members; the result names that member. When a
 * communicator is revoked (collectives/fault/fault.c), its collective constructors fail at any moment, and so do those that reach
 * another group through it: their receives end with an error on each rank. Each member goes through the remaining states, so that
 * its children get the failure as the result. MPI_Comm_create_group on a revoked communicator goes on, since survivors use it to
 * make a communicator of their own. If its group contains the failed process it fails, too, and withdraws the messages that it
 * has sent, because no member will fetch them.
 *
 * Leaders whose link is a communicator without the failed process detect the other group's failure by HDL_CID_FAILED on the link,
 * or by a failure notice of fault/notify.c.
 *
 * MPI_Comm_create_from_group has no communicator that could be revoked. Such an agreement fails on each member that detects the
 * failure, by checking the processes of its host (hdl_cid_find_ended), or gets a failure notice on any communicator. That member
 * sends a failure notice to the other members, which record the failed process for all later agreements; the member withdraws its
 * sends and sends nothing more.
 */
#ifndef HDL_P2P_AGREE_H
#define HDL_P2P_AGREE_H

#include <limits.h>

#include "p2p/request.h"

/* A process, as messages name it. */
struct hdl_cid_named {
	uint64_t job;			/* id of its job (runtime/jobs.h) */
	uint32_t rank_plus_1;		/* 1 + its rank in that job; 0: no process is named */
	uint32_t gave_up;		/* not 0: the process gave a collective up and, as far as the sender knows, is alive */
};

enum hdl_cid_state {
	HDL_CID_GATHER,			/* receives the bitmaps, and parts of the table, of the children */
	HDL_CID_RESULT,			/* not the root: has sent its bitmap, waits for the parent's result */
	/* not the root: receives the tables, and the other root's data, behind a result of the first round */
	HDL_CID_RESULT_DATA,
	HDL_CID_EXCHANGE,		/* leader: bitmaps cross */
	HDL_CID_COMMIT,			/* leader: commits cross */
	HDL_CID_LEADER_DATA,		/* leader: tables and root data cross, in the first round */
	HDL_CID_BCAST,			/* sends the result to the children */
	HDL_CID_DONE,
};

struct hdl_cid_agreement {
	/* ---- arguments: the caller sets them before hdl_cid_start, the rest is 0 ---- */
	struct hdl_comm *comm;		/* the communicator whose messages the members exchange */
	const struct hdl_group *group;	/* the members; NULL: all of comm. Must stay valid until the end */
	int n, me, root;		/* number of members; this member; the root of the tree */
	uint16_t context;		/* of its messages */
	/* tag of the messages: the same on all members, and of no other agreement with this context and these ranks */
	int tag;
	bool blocking;			/* the calling thread waits for this agreement and does nothing else */
	bool no_id;			/* no id is agreed on: the agreement exchanges the table, or is a barrier */
	/* this member cannot go on, for the reason in hdl_reason_set: the agreement fails on all members */
	bool unable;
	bool inter;			/* with another group, whose leader is (set on the root only): */
	struct hdl_comm *link_comm;	/*   rank link_rank of this communicator, by messages with this tag and context */
	int link_rank, link_tag;
	uint16_t link_context;
	const void *root_data;		/* on the root of an inter one: for all members of the other group; or NULL */
	size_t root_data_bytes;
	/* on the root of an inter one: an error class that all members get; nothing is exchanged. Else 0 */
	int leader_error;
	size_t entry_bytes;		/* bytes of an entry of the table; the same on all members of both groups */
	/* n entries (hdl_cid_entry). The caller's memory; this member's entry is set, the others are results */
	void *table;
	void (*finished)(struct hdl_cid_agreement *a);	/* called once, within progress or within hdl_cid_start; may free *a */
	void *arg;			/* the caller's */

	/* ---- results: valid in HDL_CID_DONE ---- */
	int id;				/* taken on this rank, the caller must give it back; -1: an error, or no_id */
	int error;			/* MPI error class */
	char why[200];			/* its explanation */
	void *remote;			/* the other group's table, in the order of its members; malloc'd, the caller's */
	int remote_n;			/* members of the other group */
	void *remote_data;		/* the other root's root_data; malloc'd, the caller's */
	size_t remote_data_bytes;

	/* ---- comm_cid.c's and cid_messages.c's ---- */
	enum hdl_cid_state state;
	struct hdl_cid_agreement *next, *next_ready;	/* in the list of those under way; in the list of those to be advanced */
	uint64_t number;		/* 0 in the first round */
	bool has_bitmap;		/* this agreement uses this rank's bitmap until the end of the round */
	bool ready;			/* in the ready list */
	bool failed;			/* a message or a member failed; why and failed_proc say how */
	int failed_proc;		/* 1 + the number of the process that has failed; 0: not known */
	int pending, children;		/* requests of this state in flight, + 1 while the state posts requests; children in the
					 * tree */
	struct hdl_op *sends;		/* under way, and not withdrawn */
	struct hdl_cid_bitmap *bitmaps;	/* this member's, then one for each child */
	struct hdl_cid_down {		/* result of a round, as sent down the tree */
		uint64_t number, root_data_bytes;	/* root_data_bytes: of the other group's root; 0: none */
		struct hdl_cid_named failed;
		int32_t id, remote_n;	/* id: or an enum cid_result of comm_cid.c */
	} result;
	struct hdl_leader_link *link;	/* root of an agreement of two groups, until hdl_leader_link_leave; else NULL */
	struct hdl_req *bitmap_recv, *bitmap_send;	/* requests on the link while in flight; else NULL */
	unsigned reported;		/* hdl_ft_reported when the agreement began (fault.h) */
};

/* Tags of agreements lie in collective contexts, below 0 (tags of collectives do not). In ascending order: those of collective
 * constructors, by their sequence number on the communicator; those of leader links; those of MPI_Comm_create_group, by the
 * program's tag. Program tags that differ by HDL_CID_REVOCABLE - 3 (or, of links, by HDL_CID_REVOCABLE - HDL_CID_SEQUENCE) map to
 * one. */
#define HDL_CID_SEQUENCE	(1 << 20)
#define HDL_CID_REVOCABLE	(1 << 30)
static inline int hdl_cid_tag(uint32_t number)
{
	return INT_MIN + (int)(number % HDL_CID_SEQUENCE);
}
static inline int hdl_cid_tag_of_leader_link(int tag)
{
	return INT_MIN + HDL_CID_SEQUENCE + tag % (HDL_CID_REVOCABLE - HDL_CID_SEQUENCE);
}
static inline int hdl_cid_tag_of_user(int tag)
{
	return -3 - tag % (HDL_CID_REVOCABLE - 3);
}

/* Returns true if messages with this tag end when the context's communicator is revoked: collective constructors, and leader
 * links. */
static inline bool hdl_cid_is_collective(int tag)
{
	return tag < INT_MIN + HDL_CID_REVOCABLE;
}

/* Returns true if the message is from one leader to another. */
static inline bool hdl_cid_is_leader_link(uint16_t context, int tag)
{
	return context & 1 && context != HDL_CONTEXT_GROUPS && tag >= INT_MIN + HDL_CID_SEQUENCE && hdl_cid_is_collective(tag);
}

/* Returns true if an agreement in progress here receives messages with this tag from this process on its link. */
bool hdl_cid_has_link(uint16_t context, int proc, int tag);
/* Process `proc` has a record of the failure of process `failed`, and may skip the constructor. Ends agreements that wait for
 * proc in HDL_CID_EXCHANGE, unless the program started them after it had got an error for `failed`. May be called inside of the
 * transport. */
void hdl_cid_peer_knows(uint16_t context, int proc, int failed);
/* Records that agreements without a communicator fail if proc is a member; the next turn of progress applies the record. May be
 * called inside of the transport. */
void hdl_cid_note_failed(int proc);

/* The entry of a member in a->table, which lies in the order of the tree: the root's is the first. */
static inline void *hdl_cid_entry(const struct hdl_cid_agreement *a, int member)
{
	int index = member - a->root;

	return (char *)a->table + (size_t)(index < 0 ? index + a->n : index) * a->entry_bytes;
}

void hdl_cid_start(struct hdl_cid_agreement *a);
/* hdl_cid_start, and waits for HDL_CID_DONE. Returns a->error, with hdl_reason_set. */
int hdl_cid_agreement(struct hdl_cid_agreement *a);
void hdl_cid_reset(void);

#endif
