/* SPDX-License-Identifier: BSD-3-Clause */
/* Unexpected messages: allocation, and back-pressure on the peers that send them. match.h has the queues. */
#ifndef HDL_P2P_UNEXPECTED_H
#define HDL_P2P_UNEXPECTED_H

#include "p2p/match.h"

/* An HDL_EAGER message of len bytes was queued, and the limit is exceeded: its sender may get HDL_CTL_HOLD. */
void hdl_unexpected_eager_off(struct hdl_matching *m, int src, size_t len);
void hdl_unexpected_release_all(struct hdl_matching *m);
void hdl_unexpected_removed_of(struct hdl_matching *m, int src);
void hdl_unexpected_warn(struct hdl_matching *m);

static inline void hdl_unexpected_removed(struct hdl_matching *m, int src)
{
	if (unlikely(m->neager_off))
		hdl_unexpected_removed_of(m, src);
}

static inline struct hdl_unexpected *hdl_unexpected_new(uint16_t context, int src, int tag, uint8_t kind, size_t len, size_t data)
{
	struct hdl_unexpected *u = hdl_buf_get(sizeof(*u) + data);

	if (!u)
		hdl_out_of_memory("a message that came before its receive", data);
	u->src = src;
	u->tag = tag;
	u->context = context;
	u->kind = kind;
	u->len = len;
	u->heap_bytes = hdl_buf_size(u);
	return u;
}

/* Frees the unexpected messages of a context that is given back. Refuses announced messages of constructors, and releases peers.
 * Returns the number of messages. */
unsigned hdl_unexpected_purge(struct hdl_matching *m, uint16_t context);
/* The transport is closed: no peer gets a message about unexpected ones from here on. */
void hdl_unexpected_close(struct hdl_matching *m);

#endif
