/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the transport by name, for reports and performance variables. Each counter is incremented at the event. */
#include <stddef.h>

#include "transport/core/tp.h"

/* The struct of a counter: endpoint (64 and 32 bits), reliable stream of an endpoint (32 bits), send queues of all kinds or of
 * one, registrations, struct hdl_tp, struct shca_counts. */
enum where { PEER, PEER32, REL, QUEUE, REGISTRATIONS, WHOLE, WHOLE32, DEVICE, QUEUE_OF /* + enum hdl_queue */ };

#define OF_KIND(kind, name)											\
	{ { "requests_" name, "Requests that were posted to " #kind " send queues", false },		\
	  QUEUE_OF + HDL_QUEUE_##kind, offsetof(struct hdl_sq, requests) },					\
	{ { "request_bytes_" name, "Bytes of the requests that were posted to " #kind " send queues", false },	\
	  QUEUE_OF + HDL_QUEUE_##kind, offsetof(struct hdl_sq, bytes) }
#define OF_DEVICE(name, member, text)	{ { name, text, false }, DEVICE, offsetof(struct shca_counts, member) }

static const struct counted {
	struct hdl_counter c;
	unsigned where;			/* enum where */
	size_t at;
} table[] = {
	{ { "ring_messages_sent", "Messages that were written into a peer's eager ring", true },
	  PEER, offsetof(struct hdl_ep, out_ring.msgs) },
	{ { "ring_bytes_sent", "Bytes of the messages that were written into a peer's eager ring", true },
	  PEER, offsetof(struct hdl_ep, out_ring.bytes) },
	{ { "srq_messages_sent", "Messages that were sent into a peer's pooled receives", true },
	  PEER, offsetof(struct hdl_ep, out_srq.msgs) },
	{ { "srq_bytes_sent", "Bytes of the messages that were sent into a peer's pooled receives", true },
	  PEER, offsetof(struct hdl_ep, out_srq.bytes) },
	{ { "ud_messages_sent", "Messages that were sent as UD packets", true }, PEER, offsetof(struct hdl_ep, out_ud.msgs) },
	{ { "ud_bytes_sent", "Bytes of the messages that were sent as UD packets", true },
	  PEER, offsetof(struct hdl_ep, out_ud.bytes) },
	{ { "rendezvous_sent", "Messages that were announced and that their receiver asked for", true },
	  PEER, offsetof(struct hdl_ep, out_rndv.msgs) },
	{ { "rendezvous_bytes_sent", "Bytes of announced messages that their receiver asked for", true },
	  PEER, offsetof(struct hdl_ep, out_rndv.bytes) },
	{ { "ring_messages_received", "Messages that came by an eager ring", true }, PEER,
	  offsetof(struct hdl_ep, in_ring.msgs) },
	{ { "ring_bytes_received", "Bytes of the messages that came by an eager ring", true },
	  PEER, offsetof(struct hdl_ep, in_ring.bytes) },
	{ { "srq_messages_received", "Messages that came in pooled receives", true }, PEER,
	  offsetof(struct hdl_ep, in_srq.msgs) },
	{ { "srq_bytes_received", "Bytes of the messages that came in pooled receives", true },
	  PEER, offsetof(struct hdl_ep, in_srq.bytes) },
	{ { "ud_messages_received", "Messages that came as UD packets", true }, PEER, offsetof(struct hdl_ep, in_ud.msgs) },
	{ { "ud_bytes_received", "Bytes of the messages that came as UD packets", true },
	  PEER, offsetof(struct hdl_ep, in_ud.bytes) },
	{ { "rendezvous_received", "Announced messages that have come", true }, PEER, offsetof(struct hdl_ep, in_rndv.msgs) },
	{ { "rendezvous_bytes_received", "Bytes of announced messages that have come", true },
	  PEER, offsetof(struct hdl_ep, in_rndv.bytes) },
	{ { "ud_packets_sent_again", "UD packets that were lost and sent again", true }, REL, offsetof(struct hdl_rel, resends) },
	{ { "ud_timeouts", "Times that nothing had moved on a UD stream for its timeout", true },
	  REL, offsetof(struct hdl_rel, timeouts) },
	{ { "messages_early", "Messages that came before one that was sent before them, by another lane", true },
	  PEER, offsetof(struct hdl_ep, order.reordered) },
	{ { "messages_twice", "Messages that came a second time, and were dropped", true },
	  PEER, offsetof(struct hdl_ep, order.duplicates) },
	{ { "requests", "Requests that were posted to send queues", false }, QUEUE, offsetof(struct hdl_sq, requests) },
	{ { "request_bytes", "Bytes of the requests that were posted to send queues", false },
	  QUEUE, offsetof(struct hdl_sq, bytes) },
	{ { "queue_full", "Times that a send queue had no room for a request", false }, QUEUE, offsetof(struct hdl_sq, stalls) },
	{ { "rendezvous_read", "Announced messages that this process began to read from their sender's memory", false },
	  WHOLE, offsetof(struct hdl_tp, fetched[HDL_WAY_READ]) },
	{ { "rendezvous_split", "Announced messages that it began to read in part, while the sender writes the rest", false },
	  WHOLE, offsetof(struct hdl_tp, fetched[HDL_WAY_SPLIT]) },
	{ { "rendezvous_written", "Announced messages that it asked their sender to bring, as there was no other way", false },
	  WHOLE, offsetof(struct hdl_tp, fetched[HDL_WAY_WRITE]) },
	{ { "registrations_found", "Messages whose memory was found registered", false },
	  REGISTRATIONS, offsetof(struct hdl_regcache_stats, hits) },
	{ { "registrations_made", "Registrations of messages' memory that were made to be kept", false },
	  REGISTRATIONS, offsetof(struct hdl_regcache_stats, misses) },
	{ { "registrations_once", "Registrations of messages' memory for one message", false },
	  REGISTRATIONS, offsetof(struct hdl_regcache_stats, uncached) },
	{ { "registrations_stale", "Kept registrations whose memory has changed", false },
	  REGISTRATIONS, offsetof(struct hdl_regcache_stats, stale) },
	{ { "registrations_given_up", "Kept registrations that were given up for room", false },
	  REGISTRATIONS, offsetof(struct hdl_regcache_stats, evicted) },
	{ { "rma_by_queue", "Puts, gets and atomic operations that a queue was to carry out", false },
	  WHOLE, offsetof(struct hdl_tp, rma_direct) },
	{ { "rma_by_message", "Puts, gets and atomic operations that the target's handlers were asked for", false },
	  WHOLE, offsetof(struct hdl_tp, rma_asked) },
	{ { "rma_refused", "Puts, gets and atomic operations that their targets have refused", false },
	  WHOLE, offsetof(struct hdl_tp, rma_refused) },
	{ { "peers", "Processes with which there was contact, this one included", false },
	  WHOLE32, offsetof(struct hdl_tp, peers.met) },
	{ { "sleeps", "Times that a waiting thread slept", false }, WHOLE, offsetof(struct hdl_tp, sleeps) },
	{ { "named_messages", "Messages that came with their sender's name", false }, WHOLE, offsetof(struct hdl_tp, names) },
	{ { "connections_refused", "Proposals of connections that were refused, repetitions included", false },
	  WHOLE, offsetof(struct hdl_tp, refused) },
	{ { "messages_stale", "Messages of another job or of another life of a rank, which were dropped", false },
	  WHOLE, offsetof(struct hdl_tp, stale) },
	{ { "holds_sent", "Times that a peer was told to hold messages back, or to go on (HEDDLE_UNEXPECTED_MAX)", true },
	  PEER32, offsetof(struct hdl_ep, eager_off_sent) },
	{ { "holds_received", "Times that a peer told this process to hold messages back, or to go on", true },
	  PEER32, offsetof(struct hdl_ep, eager_off_turn) },
	OF_KIND(RC, "rc"), OF_KIND(XRC, "xrc"), OF_KIND(DC, "dc"), OF_KIND(UD, "ud"),
	OF_DEVICE("device_waits", waits, "WAIT requests of this process that the software HCA has executed"),
	OF_DEVICE("device_enables", enables,
		  "SEND_ENABLE and RECV_ENABLE requests of this process that the software HCA has executed"),
	OF_DEVICE("device_calcs", calcs, "Requests of this process with a CALC that the software HCA has executed"),
	OF_DEVICE("device_foreign", foreign, "Requests of this process that other processes have executed in the software HCA"),
	OF_DEVICE("device_for_others", for_others,
		  "Requests of other processes that this process has executed in the software HCA"),
};

const struct hdl_counter *hdl_counter(unsigned i)
{
	return i < ARRAY_SIZE(table) ? &table[i].c : NULL;
}

bool hdl_counter_of_device(unsigned i)
{
	return table[i].where == DEVICE;
}

static uint64_t count_at(const void *in, size_t at)
{
	return *(const uint64_t *)((const char *)in + at);
}

static uint64_t count32_at(const void *in, size_t at)
{
	return *(const uint32_t *)((const char *)in + at);
}

static uint64_t of_peer(const struct counted *c, const struct hdl_ep *ep)
{
	if (c->where == PEER)
		return count_at(ep, c->at);
	if (c->where == PEER32)
		return count32_at(ep, c->at);
	return c->where == REL && ep->rel ? count32_at(ep->rel, c->at) : 0;
}

static uint64_t of_peers(struct hdl_tp *tp, const struct counted *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < tp->peers.n; i++)
		n += tp->peers.of[i] ? of_peer(c, tp->peers.of[i]) : 0;
	return n;
}

void hdl_counters_move(struct hdl_ep *to, const struct hdl_ep *from)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct counted *c = &table[i];
		char *place = c->where == REL ? (char *)to->rel : (char *)to;

		if (c->where == PEER)
			*(uint64_t *)(place + c->at) += of_peer(c, from);
		else if (c->where == PEER32 || c->where == REL)
			*(uint32_t *)(place + c->at) += (uint32_t)of_peer(c, from);
	}
}

static uint64_t of_queues(struct hdl_tp *tp, const struct counted *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < tp->nsqs; i++)
		if (tp->sqs[i] && (c->where == QUEUE || c->where == QUEUE_OF + (unsigned)tp->sqs[i]->kind->queue))
			n += count_at(tp->sqs[i], c->at);
	for (int d = 0; d < tp->ndev; d++)
		for (int q = 0; q < HDL_QUEUES; q++)
			if (c->where == QUEUE || c->where == QUEUE_OF + (unsigned)q)
				n += count_at(&tp->dev[d]->gone[q], c->at);
	return n;
}

void hdl_counters_begin(struct hdl_tp *tp)
{
	for (int d = 0; d < tp->ndev && !tp->counting; d++)
		if (!shca_counts(tp->dev[d]->port.ctx, &tp->counts_before))
			tp->counting = tp->dev[d]->port.ctx;
}

/* The device counts for the whole process, from the first time on that the process opened it. */
static uint64_t of_device(const struct hdl_tp *tp, const struct counted *c)
{
	struct shca_counts now;

	if (!tp->counting || shca_counts(tp->counting, &now))
		return 0;
	return count_at(&now, c->at) - count_at(&tp->counts_before, c->at);
}

uint64_t hdl_counter_read(struct hdl_tp *tp, unsigned i, const struct hdl_ep *ep)
{
	const struct counted *c = &table[i];
	struct hdl_regcache_stats s;

	if (ep)
		return of_peer(c, ep);
	switch (c->where) {
	case PEER:
	case PEER32:
	case REL:
		return of_peers(tp, c);
	case QUEUE:
		return of_queues(tp, c);
	case REGISTRATIONS:
		s = hdl_regcache_stats(tp);
		return count_at(&s, c->at);
	case WHOLE:
		return count_at(tp, c->at);
	case WHOLE32:
		return count32_at(tp, c->at);
	case DEVICE:
		return of_device(tp, c);
	}
	return of_queues(tp, c);
}
