/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of agreements (comm_cid.h): functions of cid_messages.c for comm_cid.c, the state machine. */
#ifndef HDL_P2P_CID_MESSAGES_H
#define HDL_P2P_CID_MESSAGES_H

#include "p2p/comm/comm_cid.h"
#include "p2p/comm/leader_link.h"

extern struct hdl_cid_agreement *hdl_cid_under_way;	/* linked by next */
/* Set inside of the transport, where nothing may be posted; progress handles it. */
extern struct hdl_cid_news {
	bool failures;			/* records with fails_cids that are not applied (fault.h) */
	bool leaders;			/* an agreement in HDL_CID_EXCHANGE has failed: its leader must leave the link */
} hdl_cid_news;

/* One request of the state has completed, or all requests of the state are posted. The last one puts the agreement into the ready
 * list. May be called inside of the transport. */
void hdl_cid_one_less(struct hdl_cid_agreement *a);
/* Returns the ready list, linked by next_ready, and empties it. */
struct hdl_cid_agreement *hdl_cid_take_ready(void);
/* Records a failure, with the reason that is set. failed: 1 + the process that has failed, or 0. */
void hdl_cid_fail(struct hdl_cid_agreement *a, int failed);
/* A member has failed without which there can be no agreement: hdl_cid_fail; without a communicator the other members are told,
 * too. */
void hdl_cid_fail_by_member(struct hdl_cid_agreement *a, int proc);
/* Returns true if a failure of process `proc` makes the agreement fail. */
bool hdl_cid_needs(const struct hdl_cid_agreement *a, int proc);
/* Applies the records that are not applied yet to the agreements under way. Returns how many have failed. */
int hdl_cid_apply_failures(void);
/* Fails the agreement if the other leader's bitmap has HDL_CID_FAILED. Must: the bitmap has arrived, or is zero. */
void hdl_cid_check_bitmap(struct hdl_cid_agreement *a);
/* Removes a request of hdl_cid_send or hdl_cid_recv from the agreement, so that the agreement does not wait for that request. */
void hdl_cid_forget(struct hdl_cid_agreement *a, const struct hdl_req *req);

/* failed: 1 + the number of a process, or 0. */
struct hdl_cid_named hdl_cid_name(int failed);
/* Returns 1 + the number of the process; 0: none is named, or none that is known here. */
int hdl_cid_named_proc(const struct hdl_cid_named *named);

/* Members by their position in the tree: the root's is 0. */
int hdl_cid_position(const struct hdl_cid_agreement *a);
/* Returns the rank in a->comm of the member at a position. */
int hdl_cid_rank_at(const struct hdl_cid_agreement *a, int position);

/* Returns true if no process will receive a message of this agreement to comm. */
bool hdl_cid_is_in_vain(const struct hdl_cid_agreement *a, struct hdl_comm *comm, uint16_t context, int tag);
/* Post a message that counts as pending. Return the request, or NULL if the message is already done, was skipped
 * (hdl_cid_is_in_vain), or has failed. */
struct hdl_req *hdl_cid_send(struct hdl_cid_agreement *a, const void *data, size_t bytes, int dest, int tag,
			     struct hdl_comm *comm, uint16_t context);
struct hdl_req *hdl_cid_recv(struct hdl_cid_agreement *a, void *data, size_t bytes, int src, int tag, struct hdl_comm *comm,
			     uint16_t context);

#endif
