/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ethernet frames whose bytes a receiver can check, and flows to the MAC of a test's member:
 *
 *     destination, source, type 0x88b5 | struct frame_header | header.len bytes of rig_fill, by header.fill
 */
#ifndef TESTS_SHCA_FRAMES_H
#define TESTS_SHCA_FRAMES_H

#include <string.h>

#include "rig.h"

struct frame_header {
	uint32_t from;			/* the sender's number */
	uint32_t gen;			/* of the sender's process, where processes have successors; else 0 */
	uint32_t seq;			/* of the sender's frames */
	uint32_t len, fill;
};
#define FRAME_MACS 14u			/* bytes before the header */
#define FRAME_HEAD (FRAME_MACS + (uint32_t)sizeof(struct frame_header))

static const uint8_t frame_broadcast[6] = {255, 255, 255, 255, 255, 255};

static inline void frame_mac(uint8_t mac[6], uint32_t id)
{
	memcpy(mac, (const uint8_t[6]){2, 0, 0, 0, 0, (uint8_t)id}, 6);
}

/* Writes a frame of FRAME_HEAD + h->len bytes to `at`. */
static inline void frame_write(uint8_t *at, const uint8_t to[6], const struct frame_header *h)
{
	memcpy(at, to, 6);
	frame_mac(at + 6, h->from);
	at[12] = 0x88;
	at[13] = 0xb5;
	memcpy(at + FRAME_MACS, h, sizeof(*h));
	rig_fill(at + FRAME_HEAD, h->len, h->fill);
}

/* Reads the header of a frame of `bytes` bytes. Returns whether the frame is as a member of `members` has written it. */
static inline bool frame_read(const char *at, uint32_t bytes, uint32_t members, struct frame_header *h)
{
	memcpy(h, at + FRAME_MACS, sizeof(*h));
	return h->from < members && bytes == FRAME_HEAD + h->len && rig_check(at + FRAME_HEAD, h->len, h->fill) < 0;
}

/* Creates a flow of frames to a MAC (NULL: of all frames) that come in by a port. Returns NULL with errno. */
static inline struct ibv_flow *frame_flow(struct ibv_qp *qp, enum ibv_flow_attr_type type, uint8_t port, const uint8_t mac[6])
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} f = {.attr = {.type = type, .size = sizeof(f), .num_of_specs = mac != NULL, .port = port},
	       .eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(f.eth)}};

	if (mac) {
		memset(f.eth.mask.dst_mac, 0xff, 6);
		memcpy(f.eth.val.dst_mac, mac, 6);
	}
	return shca_create_flow(qp, &f.attr);
}

#endif
