/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous: the end of operations. */
#include "transport/core/tp.h"

void hdl_rndv_finish_send(struct hdl_send *s, int err)
{
	struct hdl_send_op *op = hdl_send_op(s);

	hdl_region_put(op->region);
	op->region = NULL;
	hdl_id_free(&s->ep->tp->sends, op->id);
	hdl_done_send(s, err);
}

void hdl_rndv_finish_if_all(struct hdl_send *s)
{
	const struct hdl_send_op *op = hdl_send_op(s);

	if (op->state != HDL_OP_WAIT_CTS && op->posted == op->total && !op->inflight && !op->written_due &&
	    (op->part_read || !op->split))
		hdl_rndv_finish_send(s, op->state != HDL_OP_FAILED ? hdl_fault_errno(op->fault ? op->fault : op->read_fault) :
			       s->ep->failed ? s->ep->fail_err : -ECONNRESET);
}

void hdl_rndv_measured(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	if (op->tuned)
		hdl_tune_end(&f->ep->tp->tune, op->tuned, f->len, err != 0, monotonic_ns());
	op->tuned = 0;
}

void hdl_rndv_finish_fetch(struct hdl_fetch *f, int err)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	if (!err)
		err = hdl_fault_errno(op->fault);
	/* A peer that does not know yet that its endpoint failed may go on writing. Where the queue is shared, only
	 * deregistration stops it. */
	if (err && !f->ep->queues)
		hdl_region_forget(op->region);
	hdl_region_put(op->region);
	op->region = NULL;
	hdl_id_free(&f->ep->tp->fetches, op->id);
	hdl_rndv_measured(f, err);
	if (!err) {
		f->ep->in_rndv.msgs++;
		f->ep->in_rndv.bytes += f->len;
	}
	hdl_done_fetch(f, err);
}

void hdl_rndv_all_written(struct hdl_fetch *f)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);

	op->writing = 0;
	if (!op->reading)
		hdl_rndv_finish_fetch(f, 0);
}
