/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous by RDMA WRITE: the sender writes into the receiver's buffer, in chunks; the last one has an immediate. */
#include <arpa/inet.h>

#include "transport/core/tp.h"

/* Sends CTS, with address and key; or without, where the device cannot write the buffer: the message then comes in pieces. */
int hdl_rndv_fetch_written(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_cts cts = { .len = f->len, .op = rec->op, .rop = op->id };
	struct hdl_dev *dev = ep->dev;
	bool rdma = !f->unpack && hdl_ep_can_rdma(ep);

	if (rdma && !dev->promises.pages_written) {
		op->region = hdl_region_get(dev, f->buf, f->len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
		int err = errno;
		if (!op->region && err == EFAULT) {
			hdl_fault_report(ep, HDL_FAULT_MINE, f->buf, f->len, true);
			return -EFAULT;
		}
		if (!op->region && !(ep->can & HDL_QUEUE_PACKETS))
			return hdl_register_failed(dev, "a receive buffer", f->len, err);
	}
	if (!rdma && !f->unpack && hdl_fault_found(f->buf, f->len, true)) {
		hdl_fault_report(ep, HDL_FAULT_MINE, f->buf, f->len, true);
		return -EFAULT;
	}
	if (rdma && (op->region || dev->promises.pages_written)) {
		cts.rdma = 1;
		cts.addr = (uintptr_t)f->buf;
		cts.rkey = op->region ? op->region->mr->rkey : dev->all->rkey;
	}
	hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
	return 0;
}

/* Finds the lkey of the user's buffer: the whole address space's, or of a registration. Returns 0 or a negative errno; all but
 * -EFAULT are reported. */
static int write_local_key(struct hdl_dev *dev, struct hdl_send *s, uint32_t *lkey)
{
	struct hdl_send_op *op = hdl_send_op(s);

	if (dev->all) {
		*lkey = dev->all->lkey;
		return 0;
	}
	if (!op->region) {
		op->region = hdl_region_get(dev, s->buf, op->total, IBV_ACCESS_LOCAL_WRITE);
		if (!op->region) /* constant data lies in read-only pages */
			op->region = hdl_region_get(dev, s->buf, op->total, 0);
		if (!op->region && errno == EFAULT)
			return -EFAULT;
		if (!op->region)
			return hdl_register_failed(dev, "a message", op->total, errno);
	}
	*lkey = op->region->mr->lkey;
	return 0;
}

/* Moves the first operation to the list of staged ones. */
static void stream_instead(struct hdl_ep *ep, struct hdl_send *s)
{
	hdl_rndv_pop(&ep->rdma_wait);
	hdl_send_op(s)->state = HDL_OP_STREAM;
	hdl_rndv_append(&ep->stream, &ep->stream_tail, s);
	hdl_ep_busy(ep);
}

/* Packs and writes the next chunk. The user's buffer is free when all is packed. Returns 1: posted; 0: not now. */
static int push_packed(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);
	uint64_t n = op->total - op->posted;

	if (!hdl_sq_room(ep->sq, 1))
		return 0;
	struct hdl_txbuf *b = hdl_txbuf_get(&ep->dev->bounce);
	if (!b && !ep->dev->bounce.total)
		stream_instead(ep, s);	/* no memory for bounce buffers, and none will be released: the staged way needs none */
	if (!b)
		return 0;
	if (n > ep->dev->bounce.size)
		n = ep->dev->bounce.size;
	bool last = op->posted + n == op->total;
	struct ibv_sge sge = { .addr = (uintptr_t)b->data, .length = (uint32_t)n, .lkey = b->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .imm_data = htonl(op->receiver_op),
				  .opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE };
	wr.wr.rdma.remote_addr = op->raddr + op->posted;
	wr.wr.rdma.rkey = op->rkey;
	s->pack(s, op->posted, b->data, n);
	if (hdl_sq_post(ep->sq, ep, &wr, HDL_SLOT_BUF, b, false, n)) {
		hdl_txbuf_put(b);
		return 0;	/* the endpoint has failed, and hdl_rndv_fail_peer ends the operation */
	}
	op->posted += n;
	if (last) {
		hdl_rndv_pop(&ep->rdma_wait);
		hdl_rndv_finish_if_all(s);
	}
	return 1;
}

static void tell_written(struct hdl_ep *ep, struct hdl_send *s)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_fin written = { .op = op->receiver_op, .len = op->total };

	op->written_due = 0;
	hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &written, sizeof(written), false);
}

/* Writes the next chunk of the first operation. Returns 1: posted; 0: not now. */
static int write_push_one(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_sq *sq = ep->sq;
	uint64_t n = op->total - op->posted;
	uint32_t lkey = 0;
	int err;

	if (op->inflight >= HDL_RNDV_INFLIGHT || !hdl_sq_room(sq, 1))
		return 0;
	if ((err = write_local_key(ep->dev, s, &lkey)) == -EFAULT) {
		hdl_rndv_write_refused(s, err);
		return 0;
	}
	if (err) {
		/* the receiver waits for this message, and no record reports this error: only the end of the connection does */
		hdl_ep_fail(ep, err);
		return 0;
	}
	if (n > hdl_vars.rndv_chunk)
		n = hdl_vars.rndv_chunk;
	if (n > ep->dev->max_msg)
		n = ep->dev->max_msg;
	bool last = op->posted + n == op->total;
	/* Without `at_once` WRITTEN would wait for the completion of the data: then the last chunk has an immediate. */
	bool tell = last && op->split && ep->dev->promises.at_once;
	struct ibv_sge sge = { .addr = (uintptr_t)s->buf + op->posted, .length = (uint32_t)n, .lkey = lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1,
				  .opcode = last && !tell ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE };
	wr.wr.rdma.remote_addr = op->raddr + op->posted;
	wr.wr.rdma.rkey = op->rkey;
	if (last)
		wr.imm_data = htonl(op->receiver_op);
	op->inflight++;
	op->posted += n;
	if (last)
		hdl_rndv_pop(&ep->rdma_wait);
	if (hdl_sq_post(sq, ep, &wr, HDL_SLOT_RNDV, s, true, n)) {
		hdl_rndv_chunk_done(s, -ECONNRESET);
		return 0;
	}
	/* WRITTEN goes through the same queue behind the data, but only when the data is known to be written: a chunk that
	 * waits may still be refused, while WRITTEN, behind it, would go again in the replaced queue. */
	op->written_due = tell;
	if (tell && !__atomic_load_n(sq->unfinished, __ATOMIC_ACQUIRE))
		tell_written(ep, s);
	return 1;
}

/* Ends the first operation if none of its chunks is in flight, and either it was refused, or its receiver waits for
 * HDL_CTL_WRITTEN. Returns false: chunks are to be posted, or in flight. */
static bool end_one(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);

	if (op->inflight)
		return false;
	if (op->fault) {
		hdl_rndv_end_refused(ep);
		return true;
	}
	if (!op->written_due || op->posted < op->total)
		return false;
	hdl_rndv_pop(&ep->rdma_wait);
	tell_written(ep, s);
	hdl_rndv_finish_if_all(s);
	return true;
}

/* Takes the next step of the first operation. Returns false: none is possible before another event. */
static bool push_step(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;

	if (end_one(ep))
		return true;
	if (hdl_send_op(s)->fault)
		return false;
	if (!ep->sq && hdl_ep_connect(ep)) {
		stream_instead(ep, s);	/* no connected lane is possible: UD carries the pieces */
		return true;
	}
	if (!ep->sq)
		return false;
	return s->pack ? push_packed(ep) : write_push_one(ep);
}

bool hdl_rndv_push(struct hdl_ep *ep)
{
	while (ep->rdma_wait && push_step(ep))
		;
	return ep->rdma_wait != NULL;
}

void hdl_rndv_chunk_done(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_ep *ep = s->ep;

	op->inflight--;
	if (hdl_fault_of(err) || op->fault) {
		hdl_rndv_write_refused(s, err);
		return;
	}
	if (err)
		op->state = HDL_OP_FAILED;
	else if (op->written_due && !op->inflight && op->posted == op->total) {
		/* deferred: the caller may be within a post to the same queue */
		hdl_rndv_append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
		hdl_ep_busy(ep);
		return;
	}
	/* A send that failed before its last chunk is still on the endpoint's list, and hdl_rndv_fail_peer ends it. */
	hdl_rndv_finish_if_all(s);
}

void hdl_rndv_on_imm(struct hdl_tp *tp, uint32_t imm, uint32_t len)
{
	struct hdl_fetch *f = hdl_id_get(&tp->fetches, ntohl(imm));

	if (!f) {
		hdl_error("a peer finished the rendezvous %#x, which does not exist", ntohl(imm));
		return;
	}
	if (f->ep->queues)
		f->ep->queues->messages++;
	if (hdl_fetch_op(f)->writing)
		hdl_rndv_all_written(f);
	else
		hdl_rndv_finish_fetch(f, 0);
}
