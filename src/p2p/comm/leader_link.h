/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The leader link: messages between the leaders of the two groups of an agreement (comm_cid.h), in this order:
 *
 *     bitmap		the or of the group's bitmaps, or HDL_CID_FAILED
 *     commit		whether the bitmap is still valid. If both commits are without HDL_CID_FAILED:
 *     data		tables and root data, in the first round
 *
 * A leader may come late or never, because its program got an error elsewhere and skipped the constructor. So a leader whose
 * group fails, or that gets a failure notice for the other leader (fault/fault.h), waits for nothing: the leader sends a commit
 * with HDL_CID_FAILED and detaches the receives of the other leader's bitmap and commit. If the other leader comes late, that
 * leader gets the commit and fails, too; its messages match the detached receives, and not those of the next constructor:
 *
 *     1. Leader A, whose group has failed, returns from the constructor without these receives.
 *     2. A's program starts another constructor with the same tag and peer.
 *     3. Leader B comes to the first constructor. Its bitmap would match A's receive of the second one.
 *
 * A leader that has the other one's bitmap waits for its commit and data: the other leader is in the constructor, or has sent its
 * commit.
 */
#ifndef HDL_P2P_BRIDGE_H
#define HDL_P2P_BRIDGE_H

#include "p2p/comm/comm_cid.h"
#include "p2p/comm/ids.h"

/* Message up the tree: flags, the process that has failed, and the bitmap without the words at its end that are 0. */
enum { HDL_CID_NOT_TAKEN = 1, HDL_CID_FAILED = 2 };
struct hdl_cid_bitmap {
	uint64_t flags;
	struct hdl_cid_named failed;
	uint64_t used[HDL_ID_WORDS];
};
struct hdl_cid_commit {
	uint64_t flags;			/* 0, or HDL_CID_FAILED */
	struct hdl_cid_named failed;
};
struct hdl_leader_link {
	struct hdl_leader_exchange {
		uint64_t number, root_data_bytes;
		int32_t n, entry_bytes, root, reserved;	/* as in struct hdl_cid_agreement */
		struct hdl_cid_bitmap bitmap;
	} ours, theirs;			/* theirs.n is 0 until the other leader's bitmap has arrived */
	struct hdl_cid_commit our_commit, their_commit;
};

/* Detaches the link without waiting. Takes over a->link, and the requests of the bitmaps that are in flight (or NULL).
 * with_commit: sends our_commit. Must: our_commit is set. Must not be called inside of the transport. Without memory the job
 * ends. */
void hdl_leader_link_leave(struct hdl_cid_agreement *a, struct hdl_req *bitmap_recv, struct hdl_req *bitmap_send,
			   bool with_commit);
/* Cancels all detached receives. Must be called before the transport is closed. */
void hdl_leader_links_fini(void);

#endif
