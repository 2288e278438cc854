/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet frames of raw packet queues: the fields that flows compare, and the look-up of a frame's receivers. */
#ifndef SHCA_FLOW_H
#define SHCA_FLOW_H

#include "shca/engine/engine.h"

/* Collects in thr->members the numbers of the queues to which a frame of qp, which leaves by `port`, goes, each once. Returns
 * their count; without memory some are missing, and lose the frame. Must: inside the engine, with a wide epoch; the frame has at
 * least SHCA_FRAME_HEADER bytes. */
uint32_t shca_flow_receivers(struct shca_thread *thr, const struct shca_qp *qp, uint32_t port, const uint8_t *frame,
			     uint32_t len);
/* Appends a queue's number to thr->members, which has n. Returns false without memory. */
bool shca_member_add(struct shca_thread *thr, uint32_t n, uint32_t qpn);
/* Returns whether the frame has a VLAN tag (802.1Q) behind the MACs. */
static inline bool shca_frame_tagged(const uint8_t *frame, uint32_t len)
{
	return len >= SHCA_FRAME_HEADER + 4 && frame[12] == 0x81 && frame[13] == 0x00;
}
/* Returns whether the port of the fabric is up: frames come and go by ports that are. */
static inline bool shca_port_up(const struct shca_member *m, uint32_t port)
{
	return !atomic_load_explicit(&shca_port_of(m, port)->down, memory_order_relaxed);
}

#endif
