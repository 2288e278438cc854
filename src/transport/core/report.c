/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of the traffic (--report-transports) and of operations that wait (--report-hang). */
#include <infiniband/verbs_exp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

static bool used(const struct hdl_ep *ep)
{
	return ep->sent_msgs || ep->in_ring.msgs || ep->in_srq.msgs || ep->in_ud.msgs || ep->out_rndv.msgs ||
	       ep->in_rndv.msgs;
}

/* Kinds that carried matching messages, as text. */
static const char *tp_report_kinds(const struct hdl_ep *ep, char *text, size_t n)
{
	bool ud = ep->out_ud.msgs || ep->in_ud.msgs;

	snprintf(text, n, "%s%s%s", ud ? "UD" : "", ud && ep->sq ? "+" : "",
		 ep->sq ? hdl_kind_name(ep->sq->kind) : "");
	return *text ? text : "-";
}

/* The measurements by which rendezvous ways are chosen (tune.h). */
static void report_ways(struct hdl_tp *tp, FILE *out)
{
	for (int i = 0; i < HDL_TUNE_CLASSES; i++) {
		const struct hdl_tune_class *c = &tp->tune.class[i];
		char text[HDL_TUNE_CLASS_TEXT];
		int n = 0;
		for (unsigned w = 0; w < HDL_WAYS; w++) {
			if (!c->bytes[w])
				continue;
			if (!n++)
				fprintf(out, "heddle: transports: rank %d: rendezvous %s:", hdl_job.rank,
					hdl_tune_class_text(i, text));
			fprintf(out, "%s %s %" PRIu64 " bytes", n > 1 ? "," : "", hdl_way_name((enum hdl_way)w), c->bytes[w]);
			if (w == c->tune->choice && c->tune->ns)
				fprintf(out, " (%" PRIu64 " MB/s)", (uint64_t)1048576000 / c->tune->ns);
			else if (w != c->tune->choice && c->tune->of[w].ratio)
				fprintf(out, " (cost x %.2f)", c->tune->of[w].ratio / 1024.0);
		}
		if (n)
			fprintf(out, "\n");
	}
}

void hdl_tp_count_rc(struct hdl_tp *tp, uint64_t requests, uint64_t bytes)
{
	tp->offload_requests += requests;
	tp->offload_bytes += bytes;
}

/* Requests and bytes of the device's queues, per kind. A device that counts requests (shcactl totals) has the same numbers. */
static void report_queues(struct hdl_tp *tp, FILE *out)
{
	const struct hdl_port *local = hdl_tp_local_port(tp);

	for (int d = 0; d < tp->ndev; d++) {
		struct hdl_dev *dev = tp->dev[d];
		uint64_t req[HDL_QUEUES], bytes[HDL_QUEUES], stalls[HDL_QUEUES];
		for (int q = 0; q < HDL_QUEUES; q++) {
			req[q] = dev->gone[q].requests;
			bytes[q] = dev->gone[q].bytes;
			stalls[q] = dev->gone[q].stalls;
		}
		for (uint32_t i = 0; i < tp->nsqs; i++) {
			const struct hdl_sq *sq = tp->sqs[i];
			if (!sq || sq->dev != dev)
				continue;
			req[sq->kind->queue] += sq->requests;
			bytes[sq->kind->queue] += sq->bytes;
			stalls[sq->kind->queue] += sq->stalls;
		}
		for (int q = 1; q < HDL_QUEUES; q++) {
			const char *full = stalls[q] ? hdl_kinds[q]->full_text : NULL;
			if (req[q])
				fprintf(out,
					"heddle: transports: rank %d: %s:%u %s queues: %" PRIu64 " requests %" PRIu64
					" bytes%s%s%s\n",
					hdl_job.rank, dev->name, dev->port.port_num, hdl_queue_name(q), req[q],
					bytes[q], full ? " (" : "", full ? full : "", full ? ")" : "");
		}
		if (dev->promises.refused)
			fprintf(out, "heddle: transports: rank %d: %s " HDL_REFUSED_PAGES "\n", hdl_job.rank, dev->name,
				strerror(dev->promises.refused));
		if (&dev->port == local && tp->offload_requests)
			fprintf(out,
				"heddle: transports: rank %d: %s:%u RC queues of offloaded collectives: %" PRIu64
				" requests %" PRIu64 " bytes\n",
				hdl_job.rank, dev->name, dev->port.port_num, tp->offload_requests,
				tp->offload_bytes);
	}
}

/* Returns true if one of the devices has memory keys that requests configure (UMR). */
static bool has_keys(const struct hdl_tp *tp)
{
	for (int d = 0; d < tp->ndev; d++) {
		struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS};
		if (!ibv_exp_query_device(tp->dev[d]->port.ctx, &attr) && attr.exp_device_cap_flags & IBV_EXP_DEVICE_UMR)
			return true;
	}
	return false;
}

/* Derived types longer than HEDDLE_EAGER_MAX. */
static void report_packed(const struct hdl_tp *tp, FILE *out)
{
	const struct hdl_packed *staged = &tp->packed_staged, *written = &tp->packed_written, *got = &tp->unpacked;

	if (staged->msgs | written->msgs | got->msgs)
		fprintf(out,
			"heddle: transports: rank %d: derived types are packed by the CPU (%s): sent %" PRIu64 " msgs %" PRIu64
			" bytes in pieces, %" PRIu64 " msgs %" PRIu64 " bytes by RDMA WRITE; received %" PRIu64 " msgs %" PRIu64
			" bytes\n",
			hdl_job.rank,
			has_keys(tp) ? "memory keys of the device, UMR, are not used" : "the device has no memory keys, UMR",
			staged->msgs, staged->bytes, written->msgs, written->bytes, got->msgs, got->bytes);
}

static void report_registrations(struct hdl_tp *tp, FILE *out)
{
	struct hdl_regcache_stats s = hdl_regcache_stats(tp);

	if (s.hits | s.misses | s.uncached)
		fprintf(out,
			"heddle: transports: rank %d: registrations: %" PRIu64 " found, %" PRIu64 " made, %" PRIu64 " for one "
			"message; %" PRIu64 " given up for room, %" PRIu64
			" because the memory had changed; %zu bytes in %zu regions at the end\n",
			hdl_job.rank, s.hits, s.misses, s.uncached, s.evicted, s.stale, s.bytes, s.entries);
}

void hdl_report_transports(struct hdl_tp *tp, FILE *out)
{
	char kind[16], *text = NULL;
	size_t text_len = 0;
	FILE *whole = out;

	/* one write(2), so that lines of several ranks do not mix */
	out = open_memstream(&text, &text_len);
	if (!out)
		return;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		const struct hdl_ep *ep = tp->peers.of[i];
		if (!ep || !used(ep))
			continue;
		if (ep == tp->departed)
			fprintf(out, "heddle: transports: rank %d -> processes of jobs that have ended", hdl_job.rank);
		else
			fprintf(out, "heddle: transports: rank %d -> %s: %s:%u %s", hdl_job.rank,
				hdl_proc_text(ep->rank) + strlen("rank "), ep->dev->name, ep->dev->port.port_num,
				tp_report_kinds(ep, kind, sizeof(kind)));
		const struct { const char *name; uint64_t msgs, bytes; } p[] = {
			{ "ring", ep->out_ring.msgs, ep->out_ring.bytes },
			{ "srq", ep->out_srq.msgs, ep->out_srq.bytes },
			{ "ud", ep->out_ud.msgs, ep->out_ud.bytes },
			{ "rendezvous", ep->out_rndv.msgs, ep->out_rndv.bytes },
		};
		for (unsigned k = 0; k < 4; k++)
			if (p[k].msgs)
				fprintf(out, "; %s %" PRIu64 " msgs %" PRIu64 " bytes", p[k].name, p[k].msgs,
					p[k].bytes);
		if (ep->rel && ep->rel->resends)
			fprintf(out, "; %u packets sent again", ep->rel->resends);
		if (ep->rel && ep->rel->timeouts)
			fprintf(out, "; %u timeouts", ep->rel->timeouts);
		if (hdl_autotune_of(ep->ring_tune)->ns)
			fprintf(out, "; copies into its ring take %" PRIu64 " ns per KiB", hdl_autotune_of(ep->ring_tune)->ns);
		if (ep->failed && ep != tp->departed)
			fprintf(out, "; FAILED (%s)", strerror(-ep->fail_err));
		fputc('\n', out);
	}
	report_ways(tp, out);
	report_queues(tp, out);
	report_packed(tp, out);
	report_registrations(tp, out);
	fclose(out);
	fwrite(text, 1, text_len, whole);
	fflush(whole);
	free(text);
}

void hdl_tp_dump(struct hdl_tp *tp, FILE *out)
{
	static const char *const state[] = { "no connection", "asked for a connection", "answered a connection request",
					     "connected", "failed" };

	for (uint32_t i = 0; i < tp->peers.n; i++) {
		const struct hdl_ep *ep = tp->peers.of[i];
		unsigned pend = 0, ctl = 0, wait = 0;

		if (!ep || ep == tp->departed)
			continue;
		for (const struct hdl_send *s = ep->pend; s; s = s->next)
			pend++;
		for (const struct hdl_send *s = ep->rdma_wait; s; s = s->next)
			wait++;
		for (const struct hdl_send *s = ep->stream; s; s = s->next)
			wait++;
		for (int ordered = 0; ordered < 2; ordered++)
			for (const struct hdl_ctl *c = ep->ctl[ordered].head; c; c = c->next)
				ctl++;
		fprintf(out, "rank %d -> %s: %s", hdl_job.rank, hdl_proc_text(ep->rank) + strlen("rank "), state[ep->conn.state]);
		if (ep->sq && ep->sq->qp)
			fprintf(out, ", %s queue %u: %u of %u requests in flight", hdl_kind_name(ep->sq->kind),
				ep->sq->qp->qp_num, ep->sq->head - ep->sq->tail, ep->sq->depth);
		if (ep->ring)
			fprintf(out, ", ring: %" PRIu64 " of %u lines in use%s", ep->tx.sent - ep->tx.acked,
				ep->tx.lines, ep->wake_mode ? " (peer sleeps)" : "");
		if (ep->srq_credit && ep->srq_credit->sent != ep->srq_credit->taken)
			fprintf(out, ", receives: %u of %u messages not taken yet", ep->srq_credit->sent - ep->srq_credit->taken,
				ep->srq_credit->window);
		if (ep->rel)
			fprintf(out, ", UD: %u packets not acknowledged", ep->rel->next - ep->rel->una);
		fprintf(out, "; waiting: %u sends, %u rendezvous, %u control messages", pend, wait, ctl);
		if (ep->eager_off)
			fprintf(out, "; messages wait for their receives, of which the peer has too few posted "
				"(HEDDLE_UNEXPECTED_MAX)");
		if (ep->order.parked)
			fprintf(out, "; message %u is missing, %u behind it are parked", ep->order.expected,
				ep->order.parked);
		fputc('\n', out);
	}
	fprintf(out, "rank %d: %u rendezvous to send, %u to receive, slept %" PRIu64 " times\n", hdl_job.rank,
		tp->sends.used, tp->fetches.used, tp->sleeps);
}
