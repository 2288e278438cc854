/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous by RDMA READ: the receiver reads the sender's buffer, or its front part, in chunks, and sends FIN. */
#include "transport/core/tp.h"

void hdl_rndv_begin_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f, uint64_t end)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	op->raddr = rec->addr;
	op->rkey = rec->rkey;
	op->sender_op = rec->op;
	op->end = end;
	op->reading = 1;
	if (ep->reads)
		ep->reads_tail->next = f;
	else
		ep->reads = f;
	ep->reads_tail = f;
}

/* Posts a READ of the next chunk of the first operation. Returns 1: posted; 0: no room now. */
static int rndv_read_one(struct hdl_ep *ep)
{
	struct hdl_fetch *f = ep->reads;
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_sq *sq = ep->sq;
	uint64_t n = op->end - op->posted;

	if (op->inflight >= HDL_RNDV_INFLIGHT || !hdl_sq_room(sq, 1))
		return 0;
	if (n > hdl_vars.rndv_chunk)
		n = hdl_vars.rndv_chunk;
	if (n > ep->dev->max_msg)
		n = ep->dev->max_msg;
	struct ibv_sge sge = { .addr = (uintptr_t)f->buf + op->posted, .length = (uint32_t)n,
			       .lkey = ep->dev->all ? ep->dev->all->lkey : op->region->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	wr.wr.rdma.remote_addr = op->raddr + op->posted;
	wr.wr.rdma.rkey = op->rkey;
	op->inflight++;
	op->posted += n;
	if (op->posted == op->end)
		ep->reads = f->next;
	/* The slot has the number, not the pointer: when an endpoint fails, an operation may end before its requests. */
	if (!hdl_sq_post(sq, ep, &wr, HDL_SLOT_READ, (void *)(uintptr_t)op->id, true, n))
		return 1;
	op->inflight--;
	return 0;
}

void hdl_rndv_fetch_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f)
{
	int events = 0;

	hdl_rndv_begin_read(ep, rec, f, f->len);
	if (hdl_rndv_read(ep, &events))
		hdl_ep_busy(ep);
}

/* Posts one READ per call: where the device copies by this CPU, the peer's next message would wait for all of them. */
bool hdl_rndv_read(struct hdl_ep *ep, int *events)
{
	if (ep->reads && ep->sq && rndv_read_one(ep)) {
		++*events;
		/* on a device that carries requests out while they are posted, the operation ends here */
		hdl_sq_reap(ep->tp, ep->sq->scq);
	}
	return ep->reads != NULL;
}

void hdl_rndv_read_done(struct hdl_tp *tp, uint32_t id, int err)
{
	struct hdl_fetch *f = hdl_id_get(&tp->fetches, id);

	if (!f)
		return;
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	op->inflight--;
	if (hdl_fault_of(err))
		hdl_rndv_read_refused(f, err);
	if (op->failed && !op->inflight)
		hdl_rndv_finish_fetch(f, f->ep->fail_err);
	/* after another error hdl_rndv_fail_peer ends the operation */
	if (op->failed || (err && !op->fault) || op->inflight || op->posted < op->end)
		return;
	if (!op->writing)
		hdl_rndv_measured(f, hdl_fault_errno(op->fault));
	/* deferred to hdl_done_run: the caller may be within a post to the same queue */
	hdl_done_push(tp, hdl_rndv_read_all, (void *)(uintptr_t)id, 0);
}

void hdl_rndv_read_all(struct hdl_tp *tp, void *id, int err)
{
	struct hdl_fetch *f = hdl_id_get(&tp->fetches, (uint32_t)(uintptr_t)id);

	(void)err;

	if (!f)
		return;		/* the endpoint has failed meanwhile */
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_fin fin = { .op = op->sender_op, .part = op->end < f->len, .fault = op->fault, .len = f->len };
	struct hdl_ep *ep = f->ep;
	op->reading = 0;
	if (!op->writing)
		hdl_rndv_finish_fetch(f, 0);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &fin, sizeof(fin), false);
}
