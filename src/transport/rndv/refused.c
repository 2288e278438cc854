/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: chunks that the device refused because of a user's buffer (fault.c). */
#include "transport/core/tp.h"

/* Reports a fault at the side whose request was refused; the peer reports why its own buffer cannot be reached. */
static void report_refused(const struct hdl_ep *ep, enum hdl_fault fault, const void *buf, uint64_t theirs, uint64_t len,
			   bool written)
{
	hdl_fault_report(ep, fault, buf, len, written);
	if (fault == HDL_FAULT_YOURS)
		hdl_error("the buffer of %s at %#llx for a message of %llu bytes cannot be %s by the device. The message fails "
			  "at both ranks, and nothing else",
			  hdl_proc_text(ep->rank), (unsigned long long)theirs, (unsigned long long)len,
			  written ? "read" : "written");
}

/* Determines whose buffer is at fault: this process's if the kernel reports that; otherwise by the status. The status may have
 * the other side's view where one process copies for both. */
static enum hdl_fault fault_judge(int err, const void *buf, uint64_t len, bool written)
{
	return hdl_fault_found(buf, len, written) ? HDL_FAULT_MINE : hdl_fault_of(err);
}

void hdl_rndv_read_refused(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_ep *ep = f->ep;
	struct hdl_fetch *before = NULL;

	if (op->fault || op->failed)
		return;
	op->fault = fault_judge(err, f->buf, f->len, true);
	report_refused(ep, op->fault, f->buf, op->raddr, f->len, true);
	/* posts no further READ: takes the operation off the endpoint's list */
	for (struct hdl_fetch *at = ep->reads; at && op->posted < op->end; before = at, at = at->next) {
		if (at != f)
			continue;
		*(before ? (struct hdl_fetch **)&before->next : &ep->reads) = f->next;
		if (ep->reads_tail == f)
			ep->reads_tail = before;
		break;
	}
	op->posted = op->end;
}

void hdl_rndv_write_refused(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_ep *ep = s->ep;

	if (!op->fault && op->state != HDL_OP_FAILED) {
		op->fault = fault_judge(err, s->buf, op->total, false);
		if (!op->read_fault)
			report_refused(ep, op->fault, s->buf, op->raddr, op->total, false);
		if (op->posted == op->total)
			hdl_rndv_append(&ep->rdma_wait, &ep->rdma_wait_tail, s);
		op->posted = 0;
		op->written_due = 0;
	}
	if (op->state == HDL_OP_FAILED)		/* the endpoint has failed */
		hdl_rndv_finish_if_all(s);
	else if (!op->inflight)
		hdl_ep_busy(ep);
}

void hdl_rndv_end_refused(struct hdl_ep *ep)
{
	struct hdl_send *s = ep->rdma_wait;
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_fin fin = { .op = op->receiver_op, .fault = op->fault, .len = op->total };

	hdl_rndv_pop(&ep->rdma_wait);
	op->posted = op->total;
	hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &fin, sizeof(fin), false);
	hdl_rndv_finish_if_all(s);
}

bool hdl_rndv_is_refused(struct hdl_tp *tp, const struct hdl_slot *slot)
{
	struct hdl_fetch *f;

	if (slot->type == HDL_SLOT_RNDV)
		return hdl_send_op(slot->ptr)->fault;
	f = slot->type == HDL_SLOT_READ ? hdl_id_get(&tp->fetches, (uint32_t)(uintptr_t)slot->ptr) : NULL;
	return f && hdl_fetch_op(f)->fault;
}
