/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The eager ring's layout. Sender and receiver in one process; a write is carried out as by a device, byte for byte in ascending
 * order, and the receiver polls after every single byte: the receiver must never see a frame before the last byte of the header
 * is there, and never a frame that was not sent.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport/lanes/ring.h"

struct pair {
	struct hdl_ring_tx tx;
	struct hdl_ring_rx rx;
	char *mem;
	uint64_t dirty[64];
	uint32_t sent, received;	/* frames */
	uint64_t skips, terminators;
	bool sleepy;
	/* a request that is overtaken by the next one (only where the receiver clears) */
	bool late;
	uint64_t late_addr;
	size_t late_n;
	uint8_t late_bytes[30000];
};

/* The receiver clears, and requests overtake each other. */
static bool cleared;

static void setup(struct pair *p, uint32_t lines)
{
	memset(p, 0, sizeof(*p));
	p->mem = aligned_alloc(64, (size_t)lines * HDL_LINE);
	memset(p->mem, 0, (size_t)lines * HDL_LINE);
	hdl_ring_rx_init(&p->rx, p->mem, lines, cleared);
	hdl_ring_tx_init(&p->tx, (uintptr_t)p->mem, 1, lines, cleared ? NULL : p->dirty);
}

/* Hostile contents: bytes that would make a good phase if they were taken for a header. */
static uint8_t byte_of(const struct pair *p, uint32_t frame, size_t i)
{
	return frame % 3 == 0	? p->tx.phase
	       : frame % 3 == 1 ? hdl_ring_next_phase(p->tx.phase)
				: (uint8_t)(frame * 7 + i);
}

struct expect {
	uint32_t len;
	uint8_t data[20000];
};

static struct expect *queue;		/* frames under way, by number */
static uint32_t queue_size;

/* Takes every frame that is there. */
static void look(struct pair *p, uint32_t published, bool consume)
{
	const struct hdl_hdr *h;

	while ((h = hdl_ring_peek(&p->rx))) {
		if (h->kind == HDL_EAGER) {
			struct expect *e = &queue[p->received % queue_size];
			cr_assert_lt(p->received, published, "frame %u is seen before it is written", p->received);
			cr_assert_eq((uint32_t)h->tag, p->received, "frame %d instead of %u", h->tag, p->received);
			cr_assert_eq(h->len, e->len);
			cr_assert(!memcmp((const char *)h - h->len, e->data, e->len), "payload of frame %u",
				  p->received);
			p->received++;
		} else {
			cr_assert_eq(h->kind, 99, "what is seen is not a header");
		}
		uint32_t top = p->rx.line, k = hdl_ring_advance(&p->rx, h->len, h->kind == 99);
		cr_assert(k);
		if (p->rx.clears)
			hdl_ring_clear(&p->rx, top, k);
		p->rx.consumed += k;
		if (!consume)
			break;
	}
}

static void land(struct pair *p, uint64_t addr, const void *src, size_t n)
{
	cr_assert(addr >= (uintptr_t)p->mem && addr + n <= (uintptr_t)p->mem + p->tx.lines * HDL_LINE, "outside of the "
												       "ring");
	/* a receiver that is awake, or one that leaves the ring to fill up */
	bool awake = p->sleepy ? lrand48() % 4 == 0 : true;

	for (size_t i = 0; i < n; i++) {
		((volatile uint8_t *)(uintptr_t)addr)[i] = ((const uint8_t *)src)[i];
		/* before the last byte nothing new may be seen */
		if (i + 1 < n && awake)
			look(p, p->sent, true);
	}
}

static void land_late(struct pair *p)
{
	if (p->late)
		land(p, p->late_addr, p->late_bytes, p->late_n);
	p->late = false;
}

static void write_bytes(struct pair *p, uint64_t addr, const void *src, size_t n)
{
	if (cleared && !p->late && lrand48() % 2) {
		p->late = true;
		p->late_addr = addr;
		p->late_n = n;
		memcpy(p->late_bytes, src, n);
		return;
	}
	land(p, addr, src, n);
	land_late(p);
}

static bool send(struct pair *p, uint32_t len)
{
	static uint8_t frame[30000];
	struct hdl_ring_place at;
	struct hdl_hdr h = { .tag = (int32_t)p->sent, .len = len, .kind = HDL_EAGER };

	if (!hdl_ring_place(&p->tx, len, &at))
		return false;
	if (at.skip) {
		struct hdl_hdr s = { .kind = 99, .phase = at.skip_phase };
		write_bytes(p, hdl_ring_header_addr(&p->tx, at.skip_line), &s, sizeof(s));
		p->skips++;
	}
	p->terminators += at.lead != 0;
	struct expect *e = &queue[p->sent % queue_size];
	e->len = len;
	for (uint32_t i = 0; i < len; i++)
		e->data[i] = byte_of(p, p->sent, i);
	memset(frame, 0, at.lead);
	memcpy(frame + at.lead, e->data, len);
	h.phase = at.phase;
	memcpy(frame + at.lead + len, &h, sizeof(h));
	/* the frame exists from its last byte on */
	size_t n = at.lead + len + sizeof(h);
	cr_assert_eq(at.addr + n, hdl_ring_header_addr(&p->tx, at.line) + sizeof(h));
	write_bytes(p, at.addr, frame, n);
	p->sent++;
	return true;
}

static void send_and_look(struct pair *p, uint32_t len)
{
	cr_assert(send(p, len));
	look(p, p->sent, true);
	hdl_ring_ack(&p->tx, p->rx.consumed);
	cr_assert_eq(p->received, p->sent);
}

static void traffic(uint32_t lines, unsigned frames, uint32_t max, uint64_t seed, int mode)
{
	struct pair p;

	setup(&p, lines);
	queue_size = lines + 8;
	queue = calloc(queue_size, sizeof(*queue));
	srand48((long)seed);
	p.sleepy = seed % 2;
	for (unsigned i = 0; i < frames;) {
		uint32_t len = 0;
		switch (mode) {
		case 0:		/* small ones */
			len = (uint32_t)(lrand48() % (HDL_RING_SMALL + 1));
			break;
		case 1:		/* anything */
			len = (uint32_t)(lrand48() % (max + 1));
			break;
		case 2:		/* mostly small, some of the largest: lines that were payload become headers */
			len = lrand48() % 5 ? (uint32_t)(lrand48() % (HDL_RING_SMALL + 1)) : max;
			break;
		case 3:		/* only the largest: the end is skipped on every lap, for more laps than phases */
			len = max;
			break;
		}
		if (send(&p, len)) {
			i++;
			if (lrand48() % 3 == 0)
				look(&p, p.sent, lrand48() % 2);
		} else {
			uint64_t before = p.tx.acked;
			land_late(&p);
			look(&p, p.sent, lrand48() % 2);
			hdl_ring_ack(&p.tx, p.rx.consumed);
			cr_assert_gt(p.tx.acked, before, "no room, and nothing to receive");
		}
	}
	land_late(&p);
	look(&p, p.sent, true);
	cr_assert_eq(p.received, frames);
	cr_assert_eq(p.rx.consumed, p.tx.sent);
	cr_assert_null(hdl_ring_peek(&p.rx));
	if (mode == 0)
		cr_assert_eq(p.terminators, 0, "small frames alone need no terminators");
	if (mode == 2)
		cr_assert_eq(p.terminators == 0, cleared);
	if (mode == 3 && lines % hdl_ring_lines(max))
		cr_assert_gt(p.skips, 255);
	free(queue);
	free(p.mem);
}

Test(ring, small_frames, .timeout = 60)
{
	traffic(8, 20000, 0, 1, 0);
	traffic(64, 20000, 0, 2, 0);
	traffic(1024, 20000, 0, 3, 0);
}

Test(ring, any_frames, .timeout = 60)
{
	for (uint64_t seed = 1; seed < 4; seed++) {
		traffic(8, 3000, (uint32_t)hdl_ring_max(8), seed, 1);
		traffic(37, 3000, (uint32_t)hdl_ring_max(37), seed, 1);
		traffic(64, 3000, (uint32_t)hdl_ring_max(64), seed, 1);
	}
}

Test(ring, payload_lines_become_header_lines, .timeout = 60)
{
	for (uint64_t seed = 1; seed < 4; seed++) {
		traffic(16, 4000, (uint32_t)hdl_ring_max(16), seed, 2);
		traffic(61, 4000, (uint32_t)hdl_ring_max(61), seed, 2);
	}
}

/* The receiver clears: then a frame may land before the one that precedes it. */
Test(ring, cleared_by_the_receiver, .timeout = 60)
{
	cleared = true;
	traffic(8, 20000, 0, 1, 0);
	for (uint64_t seed = 1; seed < 4; seed++) {
		traffic(8, 3000, (uint32_t)hdl_ring_max(8), seed, 1);
		traffic(37, 3000, (uint32_t)hdl_ring_max(37), seed, 1);
		traffic(61, 4000, (uint32_t)hdl_ring_max(61), seed, 2);
	}
	traffic(17, 4000, (uint32_t)hdl_ring_max(17), 1, 3);
}

/* Lines that are skipped for 255 laps carry the phase that is expected then. */
Test(ring, skipped_lines_stay_invisible, .timeout = 60)
{
	struct pair p;

	traffic(17, 4000, (uint32_t)hdl_ring_max(17), 1, 3);

	/* a header is left in line 0 on the first lap, the line is skipped on the next 254 and reached on the one after
	 */
	setup(&p, 11);
	queue_size = 32;
	queue = calloc(queue_size, sizeof(*queue));
	for (int i = 0; i < 11; i++)
		send_and_look(&p, 8);
	for (int lap = 0; lap < 254; lap++)
		for (int i = 0; i < 3; i++)	/* three frames of three lines; the next one skips lines 1 and 0 */
			send_and_look(&p, 2 * HDL_LINE);
	send_and_look(&p, 2 * HDL_LINE);	/* now the phase is the first lap's again */
	for (int i = 0; i < 30; i++)
		send_and_look(&p, 8);
	cr_assert_eq(p.received, p.sent);
	free(queue);
	free(p.mem);
}

/* The fast path moves through the ring as the general one does. */
Test(ring, fast_path_agrees)
{
	struct pair a, b;
	struct hdl_ring_place at;
	uint64_t seed = 99;
	int plain = 0;

	setup(&a, 24);
	setup(&b, 24);
	for (int i = 0; i < 20000; i++) {
		seed = seed * 6364136223846793005ull + 1;
		/* mostly short ones, with laps in between that are all clean */
		size_t len = i / 500 % 2 || seed >> 60 ? 8 : (seed >> 32) % 400;
		uint32_t k = hdl_ring_lines(len);
		bool ready = hdl_ring_plain_ready(&a.tx, k);
		plain += ready;
		if (ready) {
			uint32_t line = a.tx.line;
			uint8_t phase = a.tx.phase;
			hdl_ring_plain_sent(&a.tx, k);
			cr_assert(hdl_ring_place(&b.tx, len, &at));
			cr_assert_eq(at.line, line);
			cr_assert_eq(at.phase, phase);
			cr_assert_eq(at.lead, 0);
			cr_assert(!at.skip);
		} else {
			bool ra = hdl_ring_place(&a.tx, len, &at), rb = hdl_ring_place(&b.tx, len, &at);
			cr_assert_eq(ra, rb);
			if (!ra) {
				hdl_ring_ack(&a.tx, a.tx.sent);
				hdl_ring_ack(&b.tx, b.tx.sent);
			}
		}
		cr_assert_eq(a.tx.line, b.tx.line);
		cr_assert_eq(a.tx.phase, b.tx.phase);
		cr_assert_eq(a.tx.sent, b.tx.sent);
		cr_assert(!memcmp(a.dirty, b.dirty, sizeof(a.dirty)));
	}
	cr_assert(plain > 10000, "the fast path was taken %d times of 20000 only", plain);
	free(a.mem);
	free(b.mem);
}

Test(ring, acknowledgements_out_of_range_are_ignored)
{
	struct pair p;
	struct hdl_ring_place at;

	setup(&p, 16);
	for (int i = 0; i < 5; i++)
		cr_assert(hdl_ring_place(&p.tx, 8, &at));
	hdl_ring_ack(&p.tx, 3);
	cr_expect_eq(p.tx.acked, 3);
	hdl_ring_ack(&p.tx, 2);
	cr_expect_eq(p.tx.acked, 3, "an old one moves nothing");
	hdl_ring_ack(&p.tx, 9);
	cr_expect_eq(p.tx.acked, 3, "one of lines never sent moves nothing");
	hdl_ring_ack(&p.tx, 6);
	cr_expect_eq(p.tx.acked, 3);
	hdl_ring_ack(&p.tx, 5);
	cr_expect_eq(p.tx.acked, 5);
	free(p.mem);
}

/* Everything is read at once, but reported as late as allowed: the sender is never stuck. */
Test(ring, any_frame_fits_behind_what_is_not_reported)
{
	static const uint32_t sizes[] = { 8, 9, 11, 15, 16, 37, 64, 511, 4096 };

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint64_t dirty[64] = { 0 };
		struct hdl_ring_tx tx;
		struct hdl_ring_rx rx;
		struct hdl_ring_place at;
		size_t max = hdl_ring_max(sizes[s]);

		hdl_ring_tx_init(&tx, 1 << 20, 1, sizes[s], dirty);
		hdl_ring_rx_init(&rx, NULL, sizes[s], false);
		srand48((long)s + 1);
		for (int i = 0; i < 50000; i++) {
			size_t len = lrand48() % 2 ? (size_t)lrand48() % (max + 1) : lrand48() % 2 ? max : 8;
			cr_assert(hdl_ring_place(&tx, len, &at), "%u lines: no room for %zu bytes in line %u", sizes[s], len,
				  tx.line);
			rx.consumed = tx.sent;
			if (hdl_ring_owes(&rx)) {
				rx.reported = rx.consumed;
				hdl_ring_ack(&tx, rx.consumed);
			}
		}
	}
}

/* More than 2^16 lines lie unread, and are given back at once: counters are whole. */
Test(ring, credit_beyond_sixteen_bits)
{
	enum { LINES = 1 << 18, READ = (1 << 16) + 3 };
	struct hdl_ring_tx tx;
	struct hdl_ring_place at;
	uint64_t *dirty = calloc(LINES / 64, sizeof(*dirty)), full;

	hdl_ring_tx_init(&tx, 1 << 20, 1, LINES, dirty);
	while (hdl_ring_place(&tx, 8, &at))
		;
	full = tx.sent;
	cr_assert_gt(full, 3u << 16);
	hdl_ring_ack(&tx, 0);
	cr_expect_eq(tx.acked, 0, "nothing was read");
	cr_expect_not(hdl_ring_place(&tx, 8, &at));
	hdl_ring_ack(&tx, READ);
	cr_expect_eq(tx.acked, READ);
	hdl_ring_ack(&tx, 3);
	cr_expect_eq(tx.acked, READ, "the same in 16 bits, but of long ago");
	while (hdl_ring_place(&tx, 8, &at))
		;
	cr_expect_eq(tx.sent, full + READ, "room for what was read, and for no more");
	free(dirty);
}

Test(ring, a_frame_that_cannot_be_is_refused)
{
	struct pair p;

	setup(&p, 16);
	cr_expect_eq(hdl_ring_advance(&p.rx, UINT32_MAX - 100, false), 0u);
	cr_expect_eq(hdl_ring_advance(&p.rx, 16 * 64 - 15, false), 0u);
	cr_expect_eq(hdl_ring_advance(&p.rx, 16 * 64 - 16, false), 16u);
	free(p.mem);
}
