/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement: what all constructors of communicators do (MPI-5.0 sections 7.4, 7.6). The members of a group, or of two groups,
 * find a context id that is free on every one of them, and learn a table to which each contributed an entry, and of two groups what
 * the other one's root has to tell. Nonblocking.
 *
 * A context id is two 16-bit contexts: 2 * id for point-to-point, 2 * id + 1 for collectives. Each rank keeps a bitmap of the
 * ids that it uses. The bitmaps of all members are ored up a binomial tree; its root takes the lowest id that is free
 * everywhere. Of two groups the roots exchange what they have, and come to the same result. Disjoint communicators may share
 * an id: messages are told apart by their source. A rank gives an id back when its last use is over; the next agreement sees
 * it free only when every member has done so.
 *
 * Several agreements may be under way on a rank: threads, and MPI_Comm_idup. The bitmap is one's at a time; who does not get
 * it says so instead, and all members go another round. Nobody holds it while it waits for a member to come: the first round
 * only makes sure that all are there, unless its caller waits for this agreement and no other is under way on its rank: then
 * nobody here can be waited for meanwhile. With the first round all members learn the agreement's number, which its root made;
 * from then on, where several meet, only the one with the lowest number may take the bitmap: so the lowest of all that are
 * under way gets it on each of its ranks, sooner or later.
 *
 * A member that cannot be reached makes the agreement fail on all that are left, which learn its name; nobody waits for it. And when a
 * communicator is revoked (collectives/fault/fault.c), so do the agreements of its collective constructors, and those that reach another group
 * through it, at any moment: their receives end with an error, here and on all others. Each goes on with the steps that are left, so that
 * members are told which do not know yet. MPI_Comm_create_group goes on: it is how the living make a communicator of their own; but of a group
 * that has the dead one it ends, too, and takes back what it has sent, as none of its members fetches it any more.
 *
 * Of two groups whose leaders meet by a communicator without the dead one, each hears of the other's end over the bridge, or as one who waits
 * there: see leader_link.h and fault.h.
 *
 * Where there is no communicator (MPI_Comm_create_from_group), nothing can be revoked: such an agreement fails on each member that comes to
 * know of a dead one, by looking at the processes of its host (hdl_cid_find_ended) or by what it was told on any communicator. It tells the
 * others, which remember it for all agreements to come, withdraws what it has sent them, and sends nothing more: nobody fetches it.
 */
#ifndef HDL_P2P_AGREE_H
#define HDL_P2P_AGREE_H

#include <limits.h>

#include "p2p/request.h"

/* A process, in a message: its job and 1 + its rank there. */
struct hdl_cid_named {
	uint64_t job;
	uint32_t place;
	uint32_t lives;			/* it is known to have given up only */
};

struct hdl_cid_agreement {
	/* ---- the caller's: set before hdl_cid_start, the rest 0 ---- */
	struct hdl_comm *comm;		/* through which members are reached */
	const struct hdl_group *group;	/* the members, if they are not all of comm. Stays until the end */
	int n, me, root;		/* members; this one; where the tree ends */
	uint16_t context;		/* of its messages */
	int tag;			/* the same on all members, and of no other agreement of this context and these ranks */
	bool blocking;			/* its caller waits for it and does nothing else */
	bool no_id;			/* only the table is wanted, or that all are there */
	bool unable;			/* this member cannot go on, for the reason that is set (hdl_reason_set): it fails on all */
	bool joint;			/* with another group, whose root is: (on the root) */
	struct hdl_comm *bridge;
	int bridge_rank, bridge_tag;
	uint16_t bridge_context;
	const void *tells;		/* on the root of a joint one: what all members of the other group are to hear; or NULL */
	size_t tells_bytes;
	int refused;			/* on the root of a joint one: the error class that all members get, instead of a bridge */
	size_t each;			/* bytes of an entry; the same on all members, of both groups */
	void *table;			/* n entries, those of others to be filled in: see hdl_cid_entry. The caller's */
	void (*finished)(struct hdl_cid_agreement *a);	/* called once, within progress or within hdl_cid_start */
	void *arg;

	/* ---- results ---- */
	int id;				/* in use from now on, and the caller's to give back; -1: an error, or no_id */
	int error;			/* MPI error class */
	char why[200];
	void *remote;			/* the other group's table, in the order of its members; malloc'd, the caller's */
	int remote_n;
	void *heard;			/* what the other group's root tells; malloc'd, the caller's */
	size_t heard_bytes;
	bool done;

	/* ---- comm_cid.c's ---- */
	struct hdl_cid_agreement *next, *next_ready;
	uint64_t number;		/* 0 in the first round */
	bool holds, ready, failed;
	int lost;			/* 1 + the number of the process that has failed, once it is known */
	int step, pending, children;
	struct hdl_op *sends;		/* under way, and not withdrawn */
	struct hdl_cid_bitmap *up;	/* this member's, then one for each child */
	struct hdl_cid_down {
		uint64_t number, heard;
		struct hdl_cid_named lost;
		int32_t id, remote_n;
	} down;
	struct hdl_leader_link *bridges;	/* of the root of a joint one, until it leaves the bridge (leader_link.h) */
	struct hdl_req *words_in, *words_out;	/* there, and under way */
	unsigned known;			/* losses that the program knew of at its beginning (fault.h) */
};

/* Tags of agreements, in collective contexts, below 0 (the collectives' are not). By number, for collective constructors; those of
 * bridges and of constructors of some members, which the program numbers by itself. (Of these, tags that differ by 2^30 - 3, or of
 * bridges by 2^30 - 2^20, are one.) */
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

/* Whether it ends when the context's communicator is revoked: all members call the constructor, or it is the way to another group. */
static inline bool hdl_cid_is_collective(int tag)
{
	return tag < INT_MIN + HDL_CID_REVOCABLE;
}

/* Whether a message is one leader's to another, whose group it cannot know. */
bool hdl_cid_is_leader_link(uint16_t context, int tag);
/* Whether a constructor is under way here that takes what comes from this process over the bridge. */
bool hdl_cid_crosses(uint16_t context, int proc, int tag);
/* Inside of the transport: this process knows of the loss, and may not come to the bridge. */
void hdl_cid_forsaken(uint16_t context, int proc, int lost);

/* The entry of a member in a->table, which lies in the order of the tree: the root's is the first. */
static inline void *hdl_cid_entry(const struct hdl_cid_agreement *a, int member)
{
	int place = member - a->root;

	return (char *)a->table + (size_t)(place < 0 ? place + a->n : place) * a->each;
}

void hdl_cid_start(struct hdl_cid_agreement *a);
/* The same, and waits. Returns a->error, with hdl_reason_set. */
int hdl_cid_agreement(struct hdl_cid_agreement *a);

/* Ids that need no agreement; and giving one back. */
void hdl_id_take(unsigned id);
void hdl_id_give(unsigned id);
void hdl_id_reset(void);

#endif
