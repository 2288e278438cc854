/* SPDX-License-Identifier: BSD-3-Clause */
/* Unexpected messages: back-pressure on the peers that send them, a warning, and the end of a context. */
#include "p2p/unexpected.h"
#include "runtime/events.h"

struct heaviest {
	struct hdl_tp *tp;
	int src;
	size_t bytes;
	size_t self;			/* bytes of messages of this rank to itself, which has no endpoint */
};

static void unexpected_add(const struct hdl_unexpected *u, void *arg)
{
	struct heaviest *h = arg;
	struct hdl_ep *ep = u->src == hdl_job.rank ? NULL : hdl_ep_find(h->tp, u->src);
	size_t *sum = ep ? &hdl_ep_note(ep)->bytes : &h->self;

	*sum += u->kind == HDL_EAGER ? u->heap_bytes : 0;
	if (*sum > h->bytes) {
		h->bytes = *sum;
		h->src = u->src;
	}
}

/* Back-pressure. When the unexpected messages here exceed HEDDLE_UNEXPECTED_MAX, a peer with more than its share gets
 * HDL_CTL_HOLD (hdl_ep_eager_off). From then on the peer announces messages (HDL_RTS); only the announcements wait here, as
 * many as the peer has sends under way. So the memory is bounded without a credit for each message, no message is lost, and a
 * receive finds the message in either place. Messages in flight when the peer gets HDL_CTL_HOLD come on top: a ring's lap, or
 * some receives.
 *
 *     unexpected messages of all peers, of this peer        this peer announces
 *     > HEDDLE_UNEXPECTED_MAX, > its share                   messages longer than HDL_HOLD_LEAST
 *     > short_max(), > its share                             all messages
 *
 * Why only peers above their share, and why short messages have a higher limit. Without these two conditions:
 *     1. Rank 1 floods rank 0. Rank 0 passes the limit and sends HDL_CTL_HOLD to all peers.
 *     2. Rank 2 calls MPI_Send to rank 0 twice. Rank 0 receives the second message first.
 *     3. The first MPI_Send announces and waits for its receive; rank 0 waits for the second message. Neither goes on.
 * A program that sends so much ahead that the higher limit is reached depends on buffers without bound (MPI-5.0 section 3.5). */

/* Programs rely on room for short messages, also under a low HEDDLE_UNEXPECTED_MAX: 130,000 fit. */
#define SHORT_LEAST ((size_t)16 << 20)

static size_t short_max(void)
{
	size_t twice = hdl_vars.unexpected_max > SIZE_MAX / 2 ? SIZE_MAX : 2 * hdl_vars.unexpected_max;

	return twice > SHORT_LEAST ? twice : SHORT_LEAST;
}

static size_t unexpected_share(size_t limit)
{
	return limit / (size_t)hdl_job.size;
}

/* Returns the back-pressure for a peer with `bytes` unexpected bytes here, of which a message of len bytes has arrived. */
static enum hdl_eager_off due(const struct hdl_matching *m, size_t bytes, size_t len)
{
	if (m->unexpected_bytes > short_max() && bytes > unexpected_share(short_max()))
		return HDL_EAGER_NONE;
	return len > HDL_HOLD_LEAST && bytes > unexpected_share(hdl_vars.unexpected_max) ? HDL_EAGER_SHORT : HDL_EAGER_ON;
}

static struct heaviest unexpected_sum(struct hdl_matching *m)
{
	struct heaviest h = { .tp = m->tp };

	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		hdl_ep_note(ep)->bytes = 0;
	hdl_match_each_unexpected(m, unexpected_add, &h);
	return h;
}

void hdl_unexpected_eager_off(struct hdl_matching *m, int src, size_t len)
{
	struct hdl_ep *ep = hdl_ep(m->tp, src);
	struct hdl_ep_note *note = hdl_ep_note(ep);
	enum hdl_eager_off off;

	if (!m->counts_peers) {
		unexpected_sum(m);
		m->counts_peers = true;
	}
	off = due(m, note->bytes, len);
	if (off <= note->eager_off)
		return;
	m->neager_off += !note->eager_off;
	note->eager_off = (uint8_t)off;
	hdl_event_raise(HDL_EVENT_UNEXPECTED_LIMIT, &(const struct hdl_event_peer){ src, m->unexpected_bytes });
	hdl_debug("unexpected messages take %zu KiB: %s has to announce its messages%s", m->unexpected_bytes >> 10,
		  hdl_proc_text(src), off == HDL_EAGER_NONE ? "" : " of more than 32 bytes");
	hdl_ep_eager_off(ep, off);
}

/* Releases a peer below half of the limit or of its share. The distance between the limits avoids frequent messages. */
static void unexpected_release(struct hdl_matching *m, struct hdl_ep *ep)
{
	struct hdl_ep_note *note = hdl_ep_note(ep);

	size_t limit = note->eager_off == HDL_EAGER_NONE ? short_max() : hdl_vars.unexpected_max;

	if (!note->eager_off || (m->unexpected_bytes > limit / 2 && note->bytes > unexpected_share(limit) / 2))
		return;
	note->eager_off = HDL_EAGER_ON;
	m->neager_off--;
	hdl_ep_eager_off(ep, HDL_EAGER_ON);
}

void hdl_unexpected_release_all(struct hdl_matching *m)
{
	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		unexpected_release(m, ep);
}

/* An unexpected message of a process was taken out: releases peers. */
void hdl_unexpected_removed_of(struct hdl_matching *m, int src)
{
	struct hdl_ep *ep = src == hdl_job.rank ? NULL : hdl_ep_find(m->tp, src);

	if (m->unexpected_bytes <= hdl_vars.unexpected_max / 2)
		hdl_unexpected_release_all(m);
	else if (ep)
		unexpected_release(m, ep);
}

/* Prints a warning that names the process with the most unexpected bytes. Unexpected messages cost time and memory. */
void hdl_unexpected_warn(struct hdl_matching *m)
{
	struct heaviest h = unexpected_sum(m);

	m->unexpected_warn = m->unexpected_warn > SIZE_MAX / 2 ? SIZE_MAX : m->unexpected_warn * 2;
	hdl_warn("%zu unexpected messages hold %zu KiB, most of it (%zu KiB) from %s: this rank receives too "
		 "late; post receives earlier, use MPI_Ssend, or lower HEDDLE_EAGER_MAX; from HEDDLE_UNEXPECTED_MAX on "
		 "senders wait",
		 m->nunexpected, m->unexpected_bytes >> 10, h.bytes >> 10, hdl_proc_text(h.src));
}

unsigned hdl_unexpected_purge(struct hdl_matching *m, uint16_t context)
{
	unsigned n;

	/* a sender that has announced a message of a constructor waits for an answer, even if this rank never called the
	 * constructor */
	for (struct hdl_unexpected *u = context & 1 && m->tp ? m->contexts[context].first : NULL; u; u = u->after)
		if (u->kind == HDL_RTS)
			hdl_ep_refuse(hdl_ep(m->tp, u->src), u->data);
	n = hdl_match_purge(m, context);
	if (m->neager_off)
		hdl_unexpected_release_all(m);
	return n;
}

void hdl_unexpected_close(struct hdl_matching *m)
{
	m->tp = NULL;
	m->neager_off = 0;
	m->counts_peers = false;
}
