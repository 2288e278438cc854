/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager ring: memory in the receiver that one sender fills by RDMA WRITE. Pure functions over memory and
 * counters; no verbs here.
 *
 * The ring is walked DOWNWARDS in 64-byte lines. A frame is k whole lines; its header is the top 16 bytes of its top
 * line, its payload ends right below the header:
 *
 *      line t-2 (next header)   line t-1                   line t
 *     |...............[00 .. 00]|....pppppppppppppppppppppp|pppppppppppp..pppp[ header ]|
 *                      ^terminator  ^payload                                   ^tag..phase
 *      addresses ascend ------------------------------------------------------------->
 *
 * A request's bytes land in ascending order (ibv_query_qp_data_in_order), so one RDMA WRITE carries the terminator, the
 * payload and, last, the header whose last byte is the phase: the lap's number, 1..255. The receiver sees a frame when
 * the phase is the lap's; it never clears a line.
 *
 * Invariant R1: at the moment the receiver starts to look at a line, the phase byte there is 0 or the previous lap's.
 * A line of the previous lap that held a header satisfies this by itself. One that held payload, or that was skipped
 * and so holds anything older, is marked in `dirty`; the frame before it writes 16 zero bytes, the terminator, into its
 * header position. So small messages touch one line each, and only a frame that follows payload costs another one.
 * Invariant R2: sent - acked + what is written next, terminator included, never exceeds the ring: only lines that the
 * receiver has given back are written.
 * A terminator stands where the next frame's header goes: so R1 by terminators needs a device on which no write lands later than
 * the next one of its queue. Where that is not promised (`dirty` is NULL) the receiver clears: it zeroes the header positions of
 * the lines that held payload or were skipped, before it gives them back. A frame that lands before the one that precedes it is
 * read behind that one all the same, for only the next header is looked at.
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

/*
 * Fills a header in: one 16-byte store, which the processor can hand to the 16-byte load of whoever copies it next. A
 * load that spans several younger stores would wait until all stores before it have left the core, ring lines included.
 */
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
	uint64_t acked;		/* lines given back by the receiver */
	uint64_t sent;		/* lines used since the ring was made */
	uint64_t base;		/* the receiver's address of line 0 */
	uint64_t *dirty;	/* bit per line: its header position holds no usable phase; NULL: the receiver sees to it */
	uint64_t dirty_until;	/* from this value of `sent` on, no line is: a lap has gone by since one became it */
	uint32_t line;		/* next header line */
	uint32_t lines;
	uint32_t rkey;
	uint8_t phase;
};

/* Where a frame goes. */
struct hdl_ring_place {
	bool skip;		/* first write a skip header into skip_line, with skip_phase */
	uint8_t skip_phase, phase;
	uint32_t skip_line;
	uint32_t line;		/* the frame's top line */
	uint32_t lead;		/* zero bytes before the payload: 0, or the terminator and the gap behind it */
	uint64_t addr;		/* receiver's address of the first byte written */
};

struct hdl_ring_rx {
	uint8_t *base;
	uint32_t line;		/* where the next header appears */
	uint32_t lines;
	uint8_t phase;
	bool clears;		/* what held payload or was skipped (see R1) */
	uint64_t consumed;	/* lines */
	uint64_t reported;	/* of these, known to the sender */
};

static inline uint32_t hdl_ring_lines(size_t len)
{
	return (uint32_t)((sizeof(struct hdl_hdr) + len + HDL_LINE - 1) / HDL_LINE);
}

static inline uint8_t hdl_ring_next_phase(uint8_t phase)
{
	return phase == 255 ? 1 : phase + 1;
}

/* Largest payload of a frame: three eighths of the ring, so that frame, skip (less than the frame) and terminator always
 * fit once the ring is empty, though the receiver may owe the report of a quarter of it (hdl_ring_owes). */
static inline size_t hdl_ring_max(uint32_t lines)
{
	return lines < 8 ? 0 : (size_t)(lines * 3ull / 8) * HDL_LINE - sizeof(struct hdl_hdr);
}

static inline bool hdl_ring_is_dirty(const struct hdl_ring_tx *tx, uint32_t line)
{
	return tx->dirty[line >> 6] >> (line & 63) & 1;
}

/* The receiver's address of a line's header position. */
static inline uint64_t hdl_ring_header_addr(const struct hdl_ring_tx *tx, uint32_t line)
{
	return tx->base + (uint64_t)line * HDL_LINE + HDL_RING_SMALL;
}

/* dirty: zeroed memory of (lines + 63) / 64 words, owned by the caller; NULL: the receiver clears. */
void hdl_ring_tx_init(struct hdl_ring_tx *tx, uint64_t base, uint32_t rkey, uint32_t lines, uint64_t *dirty);
/* base: lines * 64 zeroed bytes, aligned to 64. */
void hdl_ring_rx_init(struct hdl_ring_rx *rx, void *base, uint32_t lines, bool clears);

/* The case that matters: a frame of k lines that needs no skip and no terminator, and for which there is room. True: its
 * top line is tx->line and its phase tx->phase; write it, then hdl_ring_plain_sent. */
static inline bool hdl_ring_plain_ready(const struct hdl_ring_tx *tx, uint32_t k)
{
	return tx->sent + k + 1 - tx->acked <= tx->lines && tx->line + 1 >= k &&
	       (tx->sent >= tx->dirty_until || tx->line + 1 == k || !hdl_ring_is_dirty(tx, tx->line - k));
}
/* Marks lines [from, from + n) as holding payload. */
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

/* Places a frame and moves on. False: no room now. len <= hdl_ring_max. */
bool hdl_ring_place(struct hdl_ring_tx *tx, size_t len, struct hdl_ring_place *place);

/* The receiver has given back lines: its whole counter, from the credit word or a message. A part of it in the frames of
 * the other direction would not do: these may lie unread while the credit word goes on by more than the part counts. */
static inline void hdl_ring_ack(struct hdl_ring_tx *tx, uint64_t consumed)
{
	if (consumed > tx->acked && consumed <= tx->sent)
		tx->acked = consumed;
}

/* Whether the receiver has to tell the sender what it has read; hdl_ring_max counts on it. */
static inline bool hdl_ring_owes(const struct hdl_ring_rx *rx)
{
	return rx->consumed - rx->reported > rx->lines / 4;
}

/* The frame that has arrived, or NULL. Its payload ends where the header begins. */
static inline const struct hdl_hdr *hdl_ring_peek(const struct hdl_ring_rx *rx)
{
	const uint8_t *top = rx->base + (size_t)rx->line * HDL_LINE + HDL_RING_SMALL;
	/* Pairs with the header's last store by the device: all bytes below are there when the phase is. The phase is
	 * the last byte of these 8. */
	uint64_t last = __atomic_load_n((const uint64_t *)(top + 8), __ATOMIC_ACQUIRE);
	uint8_t phase;

	memcpy(&phase, (const char *)&last + 7, 1);
	return phase == rx->phase ? (const struct hdl_hdr *)top : NULL;
}

/* Of a frame of k lines whose top is `line`, read and not yet given back: what is below its header's line. */
void hdl_ring_clear(struct hdl_ring_rx *rx, uint32_t line, uint32_t k);

/* Moves behind a frame of `len` payload bytes (behind the ring's end for a skip frame). Returns its lines, which the
 * caller adds to `consumed` once the payload is no longer needed; 0: the frame does not fit into the ring, so what was
 * read is not a header. */
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
