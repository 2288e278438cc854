/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of unexpected messages: back-pressure on the peers that send them, the warning, and what becomes of a context's when it goes. */
#include "p2p/unexpected.h"

struct heaviest {
	struct hdl_tp *tp;
	int src;
	size_t bytes;
	size_t self;			/* to itself a rank has no endpoint */
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

/* Above HEDDLE_UNEXPECTED_MAX a peer whose messages come too early keeps them: it announces them, and only their announcements
 * wait here, as many as the peer has sends under way. So what lies here is bounded, without a credit for each message, and a
 * receive finds its message wherever that is: nothing that was sent is left unread. What is under way when the peer is told comes
 * on top: a ring, or some receives.
 *
 * MPI_Send waits then, and what it waits for may be the very receive that this rank posts after a later message. So only those are
 * told whose own messages take more than their part of the limit, and what is no longer than an announcement comes as it is
 * (HDL_HOLD_LEAST): to keep it back would save nothing. */
static size_t unexpected_share(void)
{
	return hdl_vars.unexpected_max / (size_t)hdl_job.size;
}

static struct heaviest unexpected_sum(struct hdl_matching *m)
{
	struct heaviest h = { .tp = m->tp };

	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		hdl_ep_note(ep)->bytes = 0;
	hdl_match_each_unexpected(m, unexpected_add, &h);
	return h;
}

void hdl_unexpected_eager_off(struct hdl_matching *m, int src)
{
	struct hdl_ep *ep = hdl_ep(m->tp, src);

	if (!m->counts_peers) {
		unexpected_sum(m);
		m->counts_peers = true;
	}
	if (hdl_ep_note(ep)->eager_off || hdl_ep_note(ep)->bytes <= unexpected_share())
		return;
	hdl_ep_note(ep)->eager_off = true;
	m->neager_off++;
	hdl_debug("unexpected messages take %zu KiB: %s is asked to hold its messages back",
		  m->unexpected_bytes >> 10, hdl_proc_text(src));
	hdl_ep_eager_off(ep, true);
}

/* The distance to the limits keeps peers from being told back and forth. */
static void unexpected_release(struct hdl_matching *m, struct hdl_ep *ep)
{
	struct hdl_ep_note *note = hdl_ep_note(ep);

	if (!note->eager_off || (m->unexpected_bytes > hdl_vars.unexpected_max / 2 && note->bytes > unexpected_share() / 2))
		return;
	note->eager_off = false;
	m->neager_off--;
	hdl_ep_eager_off(ep, false);
}

void hdl_unexpected_release_all(struct hdl_matching *m)
{
	for (struct hdl_ep *ep = hdl_ep_next(m->tp, NULL); ep; ep = hdl_ep_next(m->tp, ep))
		unexpected_release(m, ep);
}

/* After a message of a rank was taken out. */
void hdl_unexpected_removed_of(struct hdl_matching *m, int src)
{
	struct hdl_ep *ep = src == hdl_job.rank ? NULL : hdl_ep_find(m->tp, src);

	if (m->unexpected_bytes <= hdl_vars.unexpected_max / 2)
		hdl_unexpected_release_all(m);
	else if (ep)
		unexpected_release(m, ep);
}

/* Say who sends ahead of the receives: it costs time and memory. */
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

	/* who has announced something to a constructor waits for an answer, though this rank has not come there */
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
