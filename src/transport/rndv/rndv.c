/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous. The sender announces a message by RTS, a matching message; the receiver answers when a receive matches.
 *
 *     write   RTS ──▶, ◀── CTS(address, key), RDMA WRITEs in chunks ──▶, the last one with an immediate that names the receiver's
 *             operation. All chunks of an operation go through one queue, so the immediate arrives behind all data.
 *     read    RTS(address, key) ──▶, RDMA READs in chunks, ◀── FIN
 *     split   RTS ──▶, ◀── CTS(from), RDMA READ of the bytes before `from` while the sender RDMA WRITEs the rest,
 *             ◀── FIN, WRITTEN ──▶: both CPUs copy, and each has its half in its cache when the buffer is used again
 *     staged  RTS ──▶, ◀── CTS, HDL_CTL_DATA pieces ──▶
 *
 * read and split need memory that peers reach without a registration for this message; tune.h chooses among the ways that are
 * possible, by measurement. staged needs no RDMA.
 *
 * A message that is not one run of bytes, on one side or both, is packed piece by piece into requests and unpacked from where
 * the pieces arrive: through the ring, a pooled receive, or UD packets; and by RDMA WRITE of packed chunks if the receiver has
 * one run, and no ring is in memory that both sides load and store. So such a message takes no memory of its own, whatever its
 * length.
 */
#include <string.h>

#include "transport/core/tp.h"

/* ---- the sender -------------------------------------------------------------------------------------------- */

/* Returns true if a sender without paging on demand registers its buffer before RTS, so that the receiver may read. Only where
 * the registration is kept for later messages, and for messages longer than HEDDLE_EAGER_MAX: a synchronous or held message may
 * be short. */
static bool rndv_readable(const struct hdl_ep *ep, const struct hdl_send *send)
{
	return hdl_regcache_on(ep->tp) && ep->tp->ways & 1u << HDL_WAY_READ && send->len > hdl_vars.eager_max &&
	       hdl_ep_can_rdma(ep);
}

int hdl_rndv_announce(struct hdl_ep *ep, struct hdl_send *send, struct hdl_rts_rec *rec)
{
	struct hdl_send_op *op = hdl_send_op(send);
	uint32_t id;
	int err = hdl_id_new(&ep->tp->sends, send, &id);

	if (err)
		return err;
	*op = (struct hdl_send_op){ .id = id };
	send->ep = ep;
	*rec = (struct hdl_rts_rec){ .len = send->len, .op = id };
	rec->addr = (uintptr_t)send->buf;
	if (send->pack) {
		/* several runs: the receiver cannot read them */
	} else if (ep->dev->promises.pages_read) {
		rec->rkey = ep->dev->all->rkey;
	} else if (rndv_readable(ep, send)) {
		op->region = hdl_region_get(ep->dev, send->buf, send->len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
		/* a registration that is not kept would be made again each time that RTS finds no room */
		if (op->region && !op->region->kept) {
			hdl_region_put(op->region);
			op->region = NULL;
		}
		if (op->region)
			rec->rkey = op->region->mr->rkey;
	}
	return 0;
}

void hdl_rndv_unannounce(struct hdl_send *s)
{
	hdl_region_put(hdl_send_op(s)->region);
	hdl_id_free(&s->ep->tp->sends, hdl_send_op(s)->id);
}

static void count_packed(struct hdl_packed *p, uint64_t bytes)
{
	p->msgs++;
	p->bytes += bytes;
}

void hdl_rndv_on_cts(struct hdl_ep *ep, const struct hdl_cts *cts)
{
	struct hdl_send *s = hdl_id_get(&ep->tp->sends, cts->op);
	struct hdl_send_op *op = s ? hdl_send_op(s) : NULL;

	if (!s || s->ep != ep || op->state != HDL_OP_WAIT_CTS || cts->len > s->len || (cts->len && cts->from >= cts->len)) {
		hdl_error("%s asks for %llu bytes of message %#x, which does not exist", hdl_proc_text(ep->rank),
			  (unsigned long long)cts->len, cts->op);
		return;
	}
	ep->out_rndv.msgs++;
	ep->out_rndv.bytes += cts->len;
	if (!cts->len) {
		hdl_rndv_finish_send(s, 0);
		return;
	}
	op->total = cts->len;
	op->raddr = cts->addr;
	op->rkey = cts->rkey;
	op->receiver_op = cts->rop;
	op->posted = cts->from;
	op->split = cts->from != 0;
	bool writes = cts->rdma && hdl_ep_can_rdma(ep) && !(s->pack && hdl_ep_can_stage(ep));
	if (s->pack)
		count_packed(writes ? &ep->tp->packed_written : &ep->tp->packed_staged, op->total);
	if (writes) {
		op->state = HDL_OP_WRITE;
		hdl_rndv_append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
	} else if (!s->pack && !hdl_ep_can_rdma(ep) && hdl_fault_found(s->buf, op->total, false)) {
		op->state = HDL_OP_WRITE;
		hdl_rndv_append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
		hdl_rndv_write_refused(s, -EFAULT);
	} else {
		op->state = HDL_OP_STREAM;
		hdl_rndv_append(&ep->stream, &ep->stream_tail, s);
	}
	if (!hdl_rndv_push(ep) && !hdl_rndv_stream(ep))
		return;
	hdl_ep_busy(ep);
}

/* HDL_CTL_FIN: the receiver has read the message, or its part of the message. */
void hdl_rndv_on_fin(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_send *s = hdl_id_get(&ep->tp->sends, fin->op);
	struct hdl_send_op *op = s ? hdl_send_op(s) : NULL;

	if (s && s->ep == ep && fin->fault && !op->fault)
		hdl_fault_report(ep, hdl_fault_turned(fin->fault), s->buf, s->len, false);
	if (s && s->ep == ep && fin->part) {
		op->part_read = 1;
		op->read_fault = hdl_fault_turned(fin->fault);
		hdl_rndv_finish_if_all(s);
		return;
	}
	if (!s || s->ep != ep || op->state != HDL_OP_WAIT_CTS) {
		hdl_error("%s has read message %#x, which does not exist", hdl_proc_text(ep->rank), fin->op);
		return;
	}
	if (!fin->fault) {
		ep->out_rndv.msgs++;
		ep->out_rndv.bytes += fin->len;
	}
	hdl_rndv_finish_send(s, hdl_fault_errno(hdl_fault_turned(fin->fault)));
}

bool hdl_rndv_announced(struct hdl_send *s, uint32_t *number)
{
	*number = hdl_send_op(s)->id;
	return hdl_id_get(&s->ep->tp->sends, *number) == s && hdl_send_op(s)->state == HDL_OP_WAIT_CTS;
}

/* HDL_CTL_REFUSED: the receiver has dropped the announcement, which no receive had matched. */
void hdl_rndv_on_refused(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_send *s = hdl_id_get(&ep->tp->sends, fin->op);

	if (!s || s->ep != ep || hdl_send_op(s)->state != HDL_OP_WAIT_CTS) {
		hdl_error("%s has withdrawn message %#x, which does not exist", hdl_proc_text(ep->rank), fin->op);
		return;
	}
	hdl_rndv_finish_send(s, -ECANCELED);
}

/* ---- the receiver ------------------------------------------------------------------------------------------ */

/* Returns the ways that a message may go, as bits 1 << enum hdl_way; 0: the sender writes. */
static unsigned ways(const struct hdl_ep *ep, const struct hdl_rts_rec *rec, size_t len, bool both)
{
	struct hdl_tp *tp = ep->tp;
	unsigned bits = 0;

	if (!rec->rkey || ep->conn.state != HDL_CONN_READY || !ep->sq || !(ep->dev->all || hdl_regcache_on(ep->tp)))
		return 0;
	bits |= 1u << HDL_WAY_READ;
	/* While this process sends such messages, too, it only reads: both CPUs copy all the time, and the other ways move work
	 * to the peer's CPU. Each process would measure a gain, and both would lose. */
	if (both && tp->ways & 1u << HDL_WAY_READ)
		return 1u << HDL_WAY_READ;
	if (ep->dev->promises.pages_written && len >= HDL_SPLIT_MIN)
		bits |= 1u << HDL_WAY_SPLIT;
	return bits & tp->ways;
}

static int rndv_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *f)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_rts_rec rec;
	int err;

	if (ep->failed)
		return ep->fail_err;
	memcpy(&rec, rts, sizeof(rec));
	f->ep = ep;
	f->buf = buf;
	f->len = rec.len < cap ? (size_t)rec.len : cap;
	f->next = NULL;
	*op = (struct hdl_fetch_op){ 0 };
	if (!f->len) {
		struct hdl_cts cts = { .op = rec.op };
		hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
		hdl_done_fetch(f, 0);
		return 0;
	}
	if ((err = hdl_id_new(&tp->fetches, f, &op->id)))
		goto not_taken;
	bool both = tp->sends.used != 0;
	unsigned possible = f->unpack ? 0 : ways(ep, &rec, f->len, both);
	enum hdl_way way = HDL_WAY_WRITE;
	if (possible)
		way = hdl_tune_begin(&tp->tune, f->len, both, possible, monotonic_ns(), &op->tuned);
	if (way == HDL_WAY_READ && !ep->dev->all)
		op->region = hdl_region_get(ep->dev, buf, f->len, IBV_ACCESS_LOCAL_WRITE);
	if (way == HDL_WAY_READ && !ep->dev->all && !op->region) {
		/* A write may fail for the same reason, and reports that. Reading was not measured: the trial does not
		 * count. */
		hdl_rndv_measured(f, -ENOMEM);
		way = HDL_WAY_WRITE;
	}
	tp->fetched[way]++;
	if (f->unpack)
		count_packed(&tp->unpacked, f->len);
	if (way == HDL_WAY_READ)
		hdl_rndv_fetch_read(ep, &rec, f);
	else if (way == HDL_WAY_SPLIT)
		hdl_rndv_fetch_split(ep, &rec, f);
	else
		err = hdl_rndv_fetch_written(ep, &rec, f);
	if (!err)
		return 0;
	hdl_id_free(&tp->fetches, op->id);
	hdl_rndv_measured(f, err);
not_taken:;
	/* without FIN the sender would wait for ever */
	struct hdl_fin fin = { .op = rec.op, .fault = err == -EFAULT ? HDL_FAULT_MINE : HDL_FAULT_OTHER };
	hdl_ep_ctl(ep, HDL_CTL_FIN, &fin, sizeof(fin), false);
	return err;
}

int hdl_ep_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *f)
{
	f->unpack = NULL;
	return rndv_fetch(ep, rts, buf, cap, f);
}

int hdl_ep_fetch_runs(struct hdl_ep *ep, const void *rts, size_t cap, struct hdl_fetch *f)
{
	return rndv_fetch(ep, rts, NULL, cap, f);
}

uint32_t hdl_rts_number(const void *rts)
{
	struct hdl_rts_rec rec;

	memcpy(&rec, rts, sizeof(rec));
	return rec.op;
}

void hdl_ep_refuse(struct hdl_ep *ep, const void *rts)
{
	struct hdl_fin fin = { .op = hdl_rts_number(rts) };

	hdl_ep_ctl(ep, HDL_CTL_REFUSED, &fin, sizeof(fin), false);
}

void hdl_rndv_fail_peer(struct hdl_ep *ep, int err)
{
	struct hdl_tp *tp = ep->tp;

	ep->rdma_wait = ep->stream = NULL;
	ep->reads = NULL;
	for (uint32_t i = 0; i < tp->sends.n; i++) {
		struct hdl_send *s = tp->sends.e[i].p;
		if (!s || s->ep != ep)
			continue;
		struct hdl_send_op *op = hdl_send_op(s);
		op->state = HDL_OP_FAILED;
		op->posted = op->total;	/* no further chunk is written */
		op->split = op->written_due = 0;
		if (!op->inflight)
			hdl_rndv_finish_send(s, err);
	}
	for (uint32_t i = 0; i < tp->fetches.n; i++) {
		struct hdl_fetch *f = tp->fetches.e[i].p;
		if (!f || f->ep != ep)
			continue;
		hdl_fetch_op(f)->failed = 1;
		/* on a queue that peers share, READs are still in flight: the operation ends with the last of them */
		if (!hdl_fetch_op(f)->inflight)
			hdl_rndv_finish_fetch(f, err);
	}
}
