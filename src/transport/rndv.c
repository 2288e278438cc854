/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous: RTS (a matching message) ──▶, ◀── CTS(address, key), RDMA WRITE in chunks ──▶, the last one with an
 * immediate that names the receiver's operation. Chunks of one operation go through one queue, so the immediate comes
 * behind all data. Where no RDMA write is possible, the data goes as packets of the reliable UD stream.
 *
 * Where both processes reach each other's memory without registration, there are three ways more, chosen by what was
 * measured (tune.h):
 *   read    RTS(address, key) ──▶, RDMA READ, ◀── FIN
 *   split   RTS ──▶, ◀── CTS(from), RDMA READ of what lies before `from` while the sender RDMA WRITEs the rest,
 *           ◀── FIN, WRITTEN ──▶: both processors copy, and each has its half in its cache when the buffer is used again
 *   staged  RTS ──▶, ◀── CTS, through the ring in pieces (up to HEDDLE_STAGE_MAX): the sender's processor copies one in
 *           while the receiver's copies the one before out
 */
#include <arpa/inet.h>
#include <string.h>

#include "lines/lines.h"
#include "transport/tp.h"

#define MAX_INFLIGHT 4		/* chunks of one operation; others get their turn between them */
#define SPLIT_MIN 16384
enum { OP_WAIT_CTS = 0, OP_WRITE, OP_STREAM, OP_FAILED };

static void append(struct hdl_send **head, struct hdl_send **tail, struct hdl_send *s)
{
	s->next = NULL;
	if (*head)
		(*tail)->next = s;
	else
		*head = s;
	*tail = s;
}

static void pop(struct hdl_send **head)
{
	struct hdl_send *s = *head;

	*head = s->next;
	s->next = NULL;
}

static void finish_send(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);

	if (op->mr)
		ibv_dereg_mr(op->mr);
	op->mr = NULL;
	hdl_id_free(&hdl_tp.sends, op->id);
	hdl_done_send(s, err);
}

/* Ends an operation of which all was written, and the receiver's part read. */
static void finish_if_all(struct hdl_send *s)
{
	const struct hdl_send_op *op = hdl_send_op(s);

	if (op->state != OP_WAIT_CTS && op->off == op->total && !op->inflight && (op->part_read || !op->split))
		finish_send(s, op->state == OP_FAILED ? -ECONNRESET : 0);
}

/* All bytes have come: what follows is not the way's doing. */
static void measured(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	if (op->tuned)
		hdl_tune_end(&hdl_tp.tune, op->tuned, f->len, err != 0, monotonic_ns());
	op->tuned = 0;
}

static void finish_fetch(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	if (op->mr)
		ibv_dereg_mr(op->mr);
	op->mr = NULL;
	hdl_id_free(&hdl_tp.fetches, op->id);
	measured(f, err);
	if (!err) {
		f->ep->in_rndv.msgs++;
		f->ep->in_rndv.bytes += f->len;
	}
	hdl_done_fetch(f, err);
}

/* ---- the sender -------------------------------------------------------------------------------------------- */

int hdl_rndv_announce(struct hdl_ep *ep, struct hdl_send *send, struct hdl_rts_rec *rec)
{
	struct hdl_send_op *op = hdl_send_op(send);
	uint32_t id;
	int err = hdl_id_new(&hdl_tp.sends, send, &id);

	if (err)
		return err;
	*op = (struct hdl_send_op){ .id = id };
	send->ep = ep;
	*rec = (struct hdl_rts_rec){ .len = send->len, .op = id };
	if (ep->dev->all_read) {
		rec->addr = (uintptr_t)send->buf;
		rec->rkey = ep->dev->all->rkey;
	}
	return 0;
}

void hdl_rndv_on_cts(struct hdl_ep *ep, const struct hdl_cts *cts)
{
	struct hdl_send *s = hdl_id_get(&hdl_tp.sends, cts->op);
	struct hdl_send_op *op = s ? hdl_send_op(s) : NULL;

	if (!s || s->ep != ep || op->state != OP_WAIT_CTS || cts->len > s->len || (cts->len && cts->from >= cts->len)) {
		hdl_error("rank %d asks for %llu bytes of message %#x, which does not exist", ep->rank,
			  (unsigned long long)cts->len, cts->op);
		return;
	}
	ep->out_rndv.msgs++;
	ep->out_rndv.bytes += cts->len;
	if (!cts->len) {
		finish_send(s, 0);
		return;
	}
	op->total = cts->len;
	op->raddr = cts->addr;
	op->rkey = cts->rkey;
	op->rop = cts->rop;
	op->off = cts->from;
	op->split = cts->from != 0;
	bool stage = !op->split && hdl_tp.ways & 1u << HDL_WAY_STAGE && cts->len <= hdl_vars.stage_max && hdl_ep_can_stage(ep);
	if (cts->rdma && hdl_ep_can_rdma(ep) && !stage) {
		op->state = OP_WRITE;
		append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
	} else {
		op->state = OP_STREAM;
		append(&ep->stream, &ep->stream_tail, s);
	}
	if (!hdl_rndv_push(ep) && !hdl_rndv_stream(ep))
		return;
	hdl_ep_busy(ep);
}

/* The key to read the user's memory with: the whole address space's, or a registration for this message. */
static int local_key(struct hdl_dev *dev, struct hdl_send *s, uint32_t *lkey)
{
	struct hdl_send_op *op = hdl_send_op(s);

	if (dev->all) {
		*lkey = dev->all->lkey;
		return 0;
	}
	if (!op->mr) {
		op->mr = ibv_reg_mr(dev->port.pd, (void *)(uintptr_t)s->buf, op->total, IBV_ACCESS_LOCAL_WRITE);
		if (!op->mr) /* constant data lies in read-only pages */
			op->mr = ibv_reg_mr(dev->port.pd, (void *)(uintptr_t)s->buf, op->total, 0);
		if (!op->mr)
			return hdl_register_failed(dev, "a message", op->total, errno);
	}
	*lkey = op->mr->lkey;
	return 0;
}

/* Writes the next chunk of the first operation. 1: posted, 0: nothing to do now. */
static int push_one(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_sq *sq = ep->sq;
	uint64_t n = op->total - op->off;
	uint32_t lkey = 0;
	int err;

	if (op->inflight >= MAX_INFLIGHT || !hdl_sq_room(sq, 1))
		return 0;
	if ((err = local_key(ep->dev, s, &lkey))) {
		/* the receiver waits for this message: nothing less than the connection can tell it */
		hdl_ep_fail(ep, err);
		return 0;
	}
	if (n > hdl_vars.rndv_chunk)
		n = hdl_vars.rndv_chunk;
	if (n > ep->dev->max_msg)
		n = ep->dev->max_msg;
	bool last = op->off + n == op->total;
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf + op->off, .length = (uint32_t)n, .lkey = lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				  .opcode = last && !op->split ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE };
	wr.wr.rdma.remote_addr = op->raddr + op->off;
	wr.wr.rdma.rkey = op->rkey;
	if (last)
		wr.imm_data = htonl(op->rop);
	struct hdl_fin written = { .op = op->rop, .len = op->total };
	bool tell = last && op->split;
	op->inflight++;
	op->off += n;
	if (last)
		pop(&ep->rdma_wait);
	if (hdl_sq_post(sq, ep, &wr, HDL_SLOT_RNDV, s, true, n)) {
		hdl_rndv_chunk_done(s, -ECONNRESET);
		return 0;
	}
	/* behind the data, in the same queue */
	if (tell)
		hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &written, sizeof(written), false);
	return 1;
}

bool hdl_rndv_push(struct hdl_ep *ep)
{
	if (!ep->rdma_wait)
		return false;
	if (!ep->sq) {
		if (hdl_ep_connect(ep)) {
			/* over UD, then */
			struct hdl_send *s;
			while ((s = ep->rdma_wait)) {
				pop(&ep->rdma_wait);
				hdl_send_op(s)->state = OP_STREAM;
				append(&ep->stream, &ep->stream_tail, s);
			}
			return false;
		}
		if (!ep->sq)
			return true;
	}
	while (ep->rdma_wait && push_one(ep))
		;
	return ep->rdma_wait != NULL;
}

void hdl_rndv_chunk_done(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);

	op->inflight--;
	if (err)
		op->state = OP_FAILED;
	/* one that failed before its last chunk is still on the endpoint's list: hdl_rndv_fail_peer ends it */
	finish_if_all(s);
}

/* One piece of an operation. 1: more of it may follow at once, 0: no room now, negative: failed. */
static int stream_one(struct hdl_ep *ep, struct hdl_send *s)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_data_rec rec = { .offset = op->off, .rop = op->rop };
	uint64_t left = op->total - op->off;
	uint32_t piece = hdl_ep_piece(ep), n = left < piece ? (uint32_t)left : piece;
	bool last = n == left;

	op->inflight += last;
	int r = hdl_ep_stage(ep, &rec, (const char *)s->buf + op->off, n, s, last, op->unread);
	if (r)
		op->inflight -= last;
	if (r >= 0)
		op->off += n;
	op->unread |= r == 0;
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

bool hdl_rndv_stream(struct hdl_ep *ep)
{
	struct hdl_send *s;

	while ((s = ep->stream)) {
		struct hdl_send_op *op = hdl_send_op(s);
		while (op->off < op->total) {
			int r = stream_one(ep, s);
			if (r <= 0)
				return r == 0;	/* else the endpoint has failed */
		}
		pop(&ep->stream);
		finish_if_all(s);
	}
	return false;
}

/* The receiver has read the message, or its part of it. */
void hdl_rndv_on_fin(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_send *s = hdl_id_get(&hdl_tp.sends, fin->op);
	struct hdl_send_op *op = s ? hdl_send_op(s) : NULL;

	if (s && s->ep == ep && fin->part) {
		op->part_read = 1;
		finish_if_all(s);
		return;
	}
	if (!s || s->ep != ep || op->state != OP_WAIT_CTS) {
		hdl_error("rank %d has read message %#x, which does not exist", ep->rank, fin->op);
		return;
	}
	ep->out_rndv.msgs++;
	ep->out_rndv.bytes += fin->len;
	finish_send(s, 0);
}

bool hdl_rndv_announced(struct hdl_send *s, uint32_t *number)
{
	*number = hdl_send_op(s)->id;
	return hdl_id_get(&hdl_tp.sends, *number) == s && hdl_send_op(s)->state == OP_WAIT_CTS;
}

/* The receiver has forgotten the announcement, which nothing had matched. */
void hdl_rndv_on_refused(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_send *s = hdl_id_get(&hdl_tp.sends, fin->op);

	if (!s || s->ep != ep || hdl_send_op(s)->state != OP_WAIT_CTS) {
		hdl_error("rank %d has forgotten message %#x, which does not exist", ep->rank, fin->op);
		return;
	}
	finish_send(s, -ECANCELED);
}

/* ---- the receiver ------------------------------------------------------------------------------------------ */

/* Asks for the next chunk of the first operation. 1: posted, 0: nothing to do now. */
static int read_one(struct hdl_ep *ep)
{
	struct hdl_fetch *f = ep->reads;
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_sq *sq = ep->sq;
	uint64_t n = op->end - op->off;

	if (op->inflight >= MAX_INFLIGHT || !hdl_sq_room(sq, 1))
		return 0;
	if (n > hdl_vars.rndv_chunk)
		n = hdl_vars.rndv_chunk;
	if (n > ep->dev->max_msg)
		n = ep->dev->max_msg;
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf + op->off, .length = (uint32_t)n, .lkey = ep->dev->all->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	wr.wr.rdma.remote_addr = op->raddr + op->off;
	wr.wr.rdma.rkey = op->rkey;
	op->inflight++;
	op->off += n;
	if (op->off == op->end)
		ep->reads = f->next;
	/* by its number: when the endpoint fails the operation ends before its requests do */
	return hdl_sq_post(sq, ep, &wr, HDL_SLOT_READ, (void *)(uintptr_t)op->id, true, n) ? 0 : 1;
}

/* One at a time: where the device copies by this processor, the peer would wait long for an answer to its next message. */
bool hdl_rndv_read(struct hdl_ep *ep, int *events)
{
	if (ep->reads && read_one(ep)) {
		++*events;
		/* a device that has read by now lets the operation end at once */
		hdl_sq_reap(ep->sq->scq);
	}
	return ep->reads != NULL;
}

void hdl_rndv_read_done(uint32_t id, int err)
{
	struct hdl_fetch *f = hdl_id_get(&hdl_tp.fetches, id);

	/* after an error hdl_rndv_fail_peer ends all of the endpoint's */
	if (!f || err)
		return;
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	if (--op->inflight || op->off < op->end)
		return;
	if (!op->being_written)
		measured(f, 0);
	/* not here: whoever looks at completions may be in the middle of a post */
	hdl_done_read(id);
}

void hdl_rndv_read_all(uint32_t id)
{
	struct hdl_fetch *f = hdl_id_get(&hdl_tp.fetches, id);

	if (!f)
		return;		/* the endpoint has failed meanwhile */
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_fin fin = { .op = op->sop, .part = op->end < f->len, .len = f->len };
	struct hdl_ep *ep = f->ep;
	op->being_read = 0;
	if (!op->being_written)
		finish_fetch(f, 0);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &fin, sizeof(fin), false);
}

/* All that the sender is to bring has come. */
static void all_written(struct hdl_fetch *f)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	op->being_written = 0;
	if (!op->being_read)
		finish_fetch(f, 0);
}

/* The sender has written its part. */
void hdl_rndv_on_written(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_fetch *f = hdl_id_get(&hdl_tp.fetches, fin->op);
	struct hdl_fetch_op *op = f ? hdl_fetch_op(f) : NULL;

	if (!f || f->ep != ep || !op->being_written) {
		hdl_error("rank %d has written the rendezvous %#x, which does not exist", ep->rank, fin->op);
		return;
	}
	all_written(f);
}

/* Bits of the ways that a message could go; 0: only by a CTS and what the sender can do. */
static unsigned ways(const struct hdl_ep *ep, const struct hdl_rts_rec *rec, size_t len, bool both)
{
	unsigned bits = 0;

	if (!rec->rkey || ep->conn.state != HDL_CONN_READY || !ep->sq || !ep->dev->all || !ep->dev->arena)
		return 0;
	bits |= 1u << HDL_WAY_READ;
	/* While this process sends, too, only that: both processors copy all the time, and the other ways make the other one copy
	 * more. Each would measure that it gains, and both lose. */
	if (both && hdl_tp.ways & 1u << HDL_WAY_READ)
		return 1u << HDL_WAY_READ;
	if (ep->dev->all_remote && len >= SPLIT_MIN)
		bits |= 1u << HDL_WAY_SPLIT;
	if (len <= hdl_vars.stage_max && ep->rx_state == HDL_RX_ACTIVE)
		bits |= 1u << HDL_WAY_STAGE;
	return bits & hdl_tp.ways;
}

/* Reads the message, or its front part. */
static void by_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f, uint64_t end)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	op->raddr = rec->addr;
	op->rkey = rec->rkey;
	op->sop = rec->op;
	op->end = end;
	op->being_read = 1;
	if (ep->reads)
		ep->reads_tail->next = f;
	else
		ep->reads = f;
	ep->reads_tail = f;
}

/* Half, by whole pages of the sender's memory: no page is pinned by both. */
static uint64_t split_at(const struct hdl_rts_rec *rec, size_t len)
{
	uint64_t half = len / 2;

	return half + (-(rec->addr + half) & 4095);
}

int hdl_ep_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *f)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_rts_rec rec;
	struct hdl_cts cts;
	int err;

	if (ep->failed)
		return ep->fail_err;
	memcpy(&rec, rts, sizeof(rec));
	f->ep = ep;
	f->buf = buf;
	f->len = rec.len < cap ? (size_t)rec.len : cap;
	f->next = NULL;
	*op = (struct hdl_fetch_op){ 0 };
	cts = (struct hdl_cts){ .len = f->len, .op = rec.op };
	if (!f->len) {
		hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
		hdl_done_fetch(f, 0);
		return 0;
	}
	if ((err = hdl_id_new(&hdl_tp.fetches, f, &op->id)))
		return err;
	bool both = hdl_tp.sends.used != 0;
	unsigned possible = ways(ep, &rec, f->len, both);
	enum hdl_way way = HDL_WAY_STAGE;
	if (possible)
		way = hdl_tune_begin(&hdl_tp.tune, f->len, both, possible, monotonic_ns(), &op->tuned);
	if (way == HDL_WAY_READ) {
		int events = 0;
		by_read(ep, &rec, f, f->len);
		if (hdl_rndv_read(ep, &events))
			hdl_ep_busy(ep);
		return 0;
	}
	cts.rop = op->id;
	if (way == HDL_WAY_SPLIT) {
		cts.from = split_at(&rec, f->len);
		cts.rdma = 1;
		cts.addr = (uintptr_t)buf;
		cts.rkey = ep->dev->all->rkey;
		op->being_written = 1;
		op->got = cts.from;
		by_read(ep, &rec, f, cts.from);
		hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
		hdl_ep_busy(ep);	/* and read later: the next messages are answered before */
		return 0;
	}
	if (hdl_ep_can_rdma(ep)) {
		if (!ep->dev->all_remote) {
			op->mr = ibv_reg_mr(ep->dev->port.pd, buf, f->len,
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
			err = op->mr ? 0 : errno;
			if (err && !(ep->can & HDL_QUEUE_BIT(HDL_QUEUE_UD))) {
				hdl_register_failed(ep->dev, "a receive buffer", f->len, err);
				hdl_id_free(&hdl_tp.fetches, op->id);
				measured(f, err);
				return -err;
			}
		}
		if (!err) {
			cts.rdma = 1;
			cts.addr = (uintptr_t)buf;
			cts.rkey = op->mr ? op->mr->rkey : ep->dev->all->rkey;
		}
	}
	hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
	return 0;
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

void hdl_rndv_on_imm(uint32_t imm, uint32_t len)
{
	struct hdl_fetch *f = hdl_id_get(&hdl_tp.fetches, ntohl(imm));

	if (!f) {
		hdl_error("a peer finished the rendezvous %#x, which does not exist", ntohl(imm));
		return;
	}
	finish_fetch(f, 0);
}

void hdl_rndv_on_data(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t len)
{
	struct hdl_fetch *f = hdl_id_get(&hdl_tp.fetches, rec->rop);

	if (!f || f->ep != ep || rec->offset > f->len || len > f->len - rec->offset) {
		hdl_error("rank %d sends %u bytes at %llu of the rendezvous %#x, which does not exist or is shorter",
			  ep->rank, len, (unsigned long long)rec->offset, rec->rop);
		return;
	}
	lines_copy_in((char *)f->buf + rec->offset, data, len);
	hdl_fetch_op(f)->got += len;
	if (hdl_fetch_op(f)->got >= f->len)
		all_written(f);
}

void hdl_rndv_fail_peer(struct hdl_ep *ep, int err)
{
	ep->rdma_wait = ep->stream = NULL;
	ep->reads = NULL;
	for (uint32_t i = 0; i < hdl_tp.sends.n; i++) {
		struct hdl_send *s = hdl_tp.sends.e[i].p;
		if (!s || s->ep != ep)
			continue;
		struct hdl_send_op *op = hdl_send_op(s);
		op->state = OP_FAILED;
		op->off = op->total;	/* nothing more is written */
		op->split = 0;
		if (!op->inflight)
			finish_send(s, err);
	}
	for (uint32_t i = 0; i < hdl_tp.fetches.n; i++) {
		struct hdl_fetch *f = hdl_tp.fetches.e[i].p;
		if (f && f->ep == ep)
			finish_fetch(f, err);
	}
}
