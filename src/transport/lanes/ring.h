/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager ring: memory in the receiver that one sender fills by RDMA WRITE. Pure functions over memory and counters; no verbs
 * here. A *line* is 64 aligned bytes, which caches move as one.
 *
 * The ring is walked DOWNWARDS. A frame is k whole lines: the header is the top 16 bytes of the top line, and the payload
 * ends right below the header:
 *
 *     line t-2 (next header)   line t-1                   line t
 *     |...............[00 .. 00]|....pppppppppppppppppppppp|pppppppppppp..pppp[ header ]|
 *                      ^terminator  ^payload                                   ^tag..phase
 *     addresses ascend ------------------------------------------------------------->
 *
 * A request's bytes land in ascending order (ibv_query_qp_data_in_order), so one RDMA WRITE carries the terminator, the payload
 * and, last, the header, whose last byte is the phase: the lap's number, 1..255. A frame has arrived when the phase at its
 * header's place is the lap's; the receiver never clears a line.
 *
 * Invariant R1: when the receiver begins to poll a line, the phase byte there is 0 or the previous lap's. Without R1:
 *
 *     1. lap 3: a frame's payload covers line 9, and the byte at the phase's place is 4
 *     2. lap 4: the receiver polls line 9: the phase is 4, though nothing has arrived
 *
 * A line of the previous lap that held a header satisfies R1. A line that held payload, or was skipped and so holds anything
 * older, is marked in `dirty`; the frame before that line writes 16 zero bytes, the terminator, at the header's place. So a
 * small message touches one line, and only a frame that follows payload costs another.
 *
 * Invariant R2: sent - acked + the lines written next, terminator included, never exceeds the ring: the sender writes only
 * lines that the receiver has given back.
 *
 * A terminator stands at the next frame's header: R1 by terminators needs a device whose writes of one queue land in their
 * order (promises.sequence). On other devices (`dirty` is NULL) the receiver clears: the headers' places of the lines that held
 * payload or were skipped are zeroed before the lines are given back. A frame that lands before its predecessor is still read
 * after the predecessor, since only the next header is polled.
 *
 * A frame never wraps: a skip frame sends the receiver back to the top line, which is a header line on every lap.
 */
#ifndef HDL_RING_H
#define HDL_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/base.h"
#include "transport/transport.h"

#define HDL_LINE 64u
#define HDL_RING_SMALL (HDL_LINE - sizeof(struct hdl_hdr))	/* payload of a single-line frame */

/* Fills a header by one 16-byte store, which the processor can forward to the 16-byte load of the copy that follows. A load that
 * spans several younger stores would wait until all stores before it have left the core, ring lines included. */
static inline void hdl_hdr_set(struct hdl_hdr *h, int32_t tag, uint16_t context, uint16_t seq, uint32_t len, uint8_t kind,
			       uint8_t phase)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	typedef uint64_t words __attribute__((vector_size(16), may_alias));
	*(words *)h = (words){ (uint32_t)tag | (uint64_t)context << 32 | (uint64_t)seq << 48,
			       len | (uint64_t)kind << 48 | (uint64_t)phase << 56 };
#else
	*h = (struct hdl_hdr){ .tag = tag, .context = context, .seq = seq, .len = len, .kind = kind, .phase = phase };
#endif
}

struct hdl_ring_tx {
	uint64_t acked;		/* lines that the receiver has given back */
	uint64_t sent;		/* lines used since the ring was made */
	uint64_t base;		/* the receiver's address of line 0 */
	uint64_t *dirty;	/* bit per line: the header's place holds no usable phase, and needs a terminator; NULL: the
				 * receiver clears */
	uint64_t dirty_until;	/* from this value of `sent` on no line is dirty: a lap has passed since a line became dirty */
	uint32_t line;		/* line of the next header */
	uint32_t lines;
	uint32_t rkey;
	uint8_t phase;
};

/* The place of a frame. */
struct hdl_ring_place {
	bool skip;		/* a skip header must be written first, into skip_line, with skip_phase */
	uint8_t skip_phase, phase;
	uint32_t skip_line;
	uint32_t line;		/* the frame's top line */
	uint32_t lead;		/* zero bytes before the payload: 0, or the terminator and the gap behind it */
	uint64_t addr;		/* the receiver's address of the first byte that is written */
};

struct hdl_ring_rx {
	uint8_t *base;
	uint32_t line;		/* line of the next header */
	uint32_t lines;
	uint8_t phase;
	bool clears;		/* the receiver clears lines that held payload or were skipped (R1) */
	uint64_t consumed;	/* lines read */
	uint64_t reported;	/* of these, reported to the sender */
};

static inline uint32_t hdl_ring_lines(size_t len)
{
	return (uint32_t)((sizeof(struct hdl_hdr) + len + HDL_LINE - 1) / HDL_LINE);
}

static inline uint8_t hdl_ring_next_phase(uint8_t phase)
{
	return phase == 255 ? 1 : phase + 1;
}

/* Largest payload of a frame: three eighths of the ring. Then frame, skip (less than the frame) and terminator always fit into an
 * empty ring, of which the receiver may still owe a quarter (hdl_ring_owes). */
static inline size_t hdl_ring_max(uint32_t lines)
{
	return lines < 8 ? 0 : (size_t)(lines * 3ull / 8) * HDL_LINE - sizeof(struct hdl_hdr);
}

static inline bool hdl_ring_is_dirty(const struct hdl_ring_tx *tx, uint32_t line)
{
	return tx->dirty[line >> 6] >> (line & 63) & 1;
}

/* The receiver's address of a line's header. */
static inline uint64_t hdl_ring_header_addr(const struct hdl_ring_tx *tx, uint32_t line)
{
	return tx->base + (uint64_t)line * HDL_LINE + HDL_RING_SMALL;
}

/* dirty: zeroed, (lines + 63) / 64 words; NULL: the receiver clears. Ownership: the caller's. */
void hdl_ring_tx_init(struct hdl_ring_tx *tx, uint64_t base, uint32_t rkey, uint32_t lines, uint64_t *dirty);
/* base: zeroed, lines * 64 bytes, aligned to 64. */
void hdl_ring_rx_init(struct hdl_ring_rx *rx, void *base, uint32_t lines, bool clears);

/* The fast path: returns true if a frame of k lines has room and needs no skip and no terminator. Then the frame's top line is
 * tx->line and the phase tx->phase; the caller must write the frame and call hdl_ring_plain_sent. */
static inline bool hdl_ring_plain_ready(const struct hdl_ring_tx *tx, uint32_t k)
{
	return tx->sent + k + 1 - tx->acked <= tx->lines && tx->line + 1 >= k &&
	       (tx->sent >= tx->dirty_until || tx->line + 1 == k || !hdl_ring_is_dirty(tx, tx->line - k));
}
/* Marks the lines [from, from + n) as dirty. */
void hdl_ring_mark(struct hdl_ring_tx *tx, uint32_t from, uint32_t n);
static inline void hdl_ring_plain_sent(struct hdl_ring_tx *tx, uint32_t k)
{
	uint32_t line = tx->line;

	if (tx->sent < tx->dirty_until)
		tx->dirty[line >> 6] &= ~(1ull << (line & 63));
	if (k > 1 && tx->dirty)
		hdl_ring_mark(tx, line + 1 - k, k - 1);
	tx->sent += k;
	if (unlikely(line + 1 == k)) {
		line = tx->lines + k - 1;
		tx->phase = hdl_ring_next_phase(tx->phase);
	}
	tx->line = line - k;
}

/* Places a frame and moves on. Returns false if there is no room now. Must: len <= hdl_ring_max. */
bool hdl_ring_place(struct hdl_ring_tx *tx, size_t len, struct hdl_ring_place *place);

/* The receiver's report of lines read: the whole counter, from the credit word or HDL_CTL_CREDIT. Low bits of the counter in
 * frames of the other direction would not do: these frames may lie unread while the credit word goes on by more than the bits
 * count. */
static inline void hdl_ring_ack(struct hdl_ring_tx *tx, uint64_t consumed)
{
	if (consumed > tx->acked && consumed <= tx->sent)
		tx->acked = consumed;
}

/* Returns true if the receiver must report the lines read; hdl_ring_max relies on that. */
static inline bool hdl_ring_owes(const struct hdl_ring_rx *rx)
{
	return rx->consumed - rx->reported > rx->lines / 4;
}

/* Returns the frame that has arrived, or NULL. The payload ends where the header begins. */
static inline const struct hdl_hdr *hdl_ring_peek(const struct hdl_ring_rx *rx)
{
	const uint8_t *top = rx->base + (size_t)rx->line * HDL_LINE + HDL_RING_SMALL;
	/* Pairs with the header's last store by the device: all bytes below it are there when the phase is. The phase is the last
	 * of these 8 bytes. */
	uint64_t last = __atomic_load_n((const uint64_t *)(top + 8), __ATOMIC_ACQUIRE);
	uint8_t phase;

	memcpy(&phase, (const char *)&last + 7, 1);
	return phase == rx->phase ? (const struct hdl_hdr *)top : NULL;
}

/* Clears the lines of a frame whose top is `line`, below the header's line. Must: the frame is read, and not yet given back. */
void hdl_ring_clear(struct hdl_ring_rx *rx, uint32_t line, uint32_t k);

/* Moves behind a frame of `len` payload bytes (a skip frame: to the top). Returns the frame's lines, which the caller must add to
 * `consumed` once the payload is no longer needed. 0: the frame does not fit into the ring, so that no header was read. */
static inline uint32_t hdl_ring_advance(struct hdl_ring_rx *rx, uint32_t len, bool skip)
{
	uint32_t k = skip ? rx->line + 1 : hdl_ring_lines(len);

	if (k > rx->line + 1)
		return 0;
	if (rx->line + 1 == k) {
		rx->line = rx->lines - 1;
		rx->phase = hdl_ring_next_phase(rx->phase);
	} else {
		rx->line -= k;
	}
	return k;
}

#endif
