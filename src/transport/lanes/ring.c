/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/lanes/ring.h"

_Static_assert(offsetof(struct hdl_hdr, phase) == sizeof(struct hdl_hdr) - 1, "the phase lands last");

void hdl_ring_tx_init(struct hdl_ring_tx *tx, uint64_t base, uint32_t rkey, uint32_t lines, uint64_t *dirty)
{
	*tx = (struct hdl_ring_tx){
		.base = base, .rkey = rkey, .lines = lines, .line = lines - 1, .phase = 1, .dirty = dirty
	};
}

void hdl_ring_rx_init(struct hdl_ring_rx *rx, void *base, uint32_t lines, bool clears)
{
	*rx = (struct hdl_ring_rx){ .base = base, .lines = lines, .line = lines - 1, .phase = 1, .clears = clears };
}

void hdl_ring_mark(struct hdl_ring_tx *tx, uint32_t from, uint32_t n)
{
	uint64_t *dirty = tx->dirty;

	/* a lap from now, and the lines that this frame skips or takes */
	tx->dirty_until = tx->sent + 2ull * tx->lines;
	while (n) {
		uint32_t bit = from & 63, m = 64 - bit < n ? 64 - bit : n;
		uint64_t mask = m == 64 ? ~0ull : ((1ull << m) - 1) << bit;
		dirty[from >> 6] |= mask;
		from += m;
		n -= m;
	}
}

void hdl_ring_clear(struct hdl_ring_rx *rx, uint32_t line, uint32_t k)
{
	for (uint32_t i = 1; i < k; i++)
		memset(rx->base + (size_t)(line - i) * HDL_LINE + HDL_RING_SMALL, 0, sizeof(struct hdl_hdr));
}

static void ring_mark(struct hdl_ring_tx *tx, uint32_t from, uint32_t n)
{
	if (tx->dirty)
		hdl_ring_mark(tx, from, n);
}

static void clean(uint64_t *dirty, uint32_t line)
{
	if (dirty)
		dirty[line >> 6] &= ~(1ull << (line & 63));
}

bool hdl_ring_place(struct hdl_ring_tx *tx, size_t len, struct hdl_ring_place *place)
{
	uint32_t k = hdl_ring_lines(len);
	uint32_t skipped = tx->line + 1 < k ? tx->line + 1 : 0;

	/* R2, with one line more for the terminator */
	if (tx->sent + skipped + k + 1 - tx->acked > tx->lines)
		return false;
	place->skip = skipped != 0;
	if (skipped) {
		place->skip_line = tx->line;
		place->skip_phase = tx->phase;
		clean(tx->dirty, tx->line);
		ring_mark(tx, 0, tx->line);
		tx->line = tx->lines - 1;
		tx->phase = hdl_ring_next_phase(tx->phase);
		tx->sent += skipped;
	}
	uint32_t top = tx->line, low = top + 1 - k;
	uint64_t end = hdl_ring_header_addr(tx, top);

	place->line = top;
	place->phase = tx->phase;
	place->addr = end - len;
	place->lead = 0;
	if (low && tx->dirty && hdl_ring_is_dirty(tx, low - 1)) {
		place->addr = hdl_ring_header_addr(tx, low - 1);
		place->lead = (uint32_t)(end - len - place->addr);
		clean(tx->dirty, low - 1);
	}
	clean(tx->dirty, top);
	if (k > 1)
		ring_mark(tx, low, k - 1);
	tx->sent += k;
	if (low == 0) {
		tx->line = tx->lines - 1;
		tx->phase = hdl_ring_next_phase(tx->phase);
	} else {
		tx->line = low - 1;
	}
	return true;
}
