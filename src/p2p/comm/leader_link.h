/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bridge: messages between the leaders of the two groups of an agreement (comm_cid.h), in their order:
 *
 *     words		what the leader's group has come to, or that it has failed
 *     a sign		whether that holds. Then, if both signs say that it does:
 *     tables		in the first round
 *
 * A leader may come late, or never: it has had an error elsewhere, and gone on. So one whose own group fails, or that hears that the other
 * one has given up (fault.h), waits for nothing: it sends the sign behind its words, that they do not hold, and leaves the receives of the
 * other one's words and sign behind. If that one comes after all, it ends, too; and what it sends meets nobody else's receive.
 * Who has the other one's words waits for the sign and the tables: that one is in the constructor, or has sent its sign.
 */
#ifndef HDL_P2P_BRIDGE_H
#define HDL_P2P_BRIDGE_H

#include "p2p/comm/comm_cid.h"

#define HDL_CID_BITMAP_WORDS	((1u << 15) / 64)

/* What travels up: what is wrong, and whose fault that is; then the bitmap, without the zeroes at its end. */
enum { HDL_CID_NOT_TAKEN = 1, HDL_CID_FAILED = 2 };
struct hdl_cid_bitmap {
	uint64_t state;
	struct hdl_cid_named lost;
	uint64_t used[HDL_CID_BITMAP_WORDS];
};
struct hdl_cid_commit {
	uint64_t state;
	struct hdl_cid_named lost;
};
struct hdl_leader_link {
	struct hdl_leader_exchange {
		uint64_t number, tells;
		int32_t n, each, root, reserved;
		struct hdl_cid_bitmap words;
	} ours, theirs;			/* theirs.n is 0 until it has come */
	struct hdl_cid_commit our_sign, their_sign;
};

/* A leader that does not wait: what is left to do on the bridge, which is taken over, as are the requests of the words that are under way
 * (or NULL). says: its sign is sent, which is set. Not inside of the transport. */
void hdl_leader_link_leave(struct hdl_cid_agreement *a, struct hdl_req *words_in, struct hdl_req *words_out, bool says);
/* Before the transport is closed: nobody comes any more. */
void hdl_leader_links_fini(void);

#endif
