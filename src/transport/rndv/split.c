/* SPDX-License-Identifier: BSD-3-Clause */
/* Rendezvous from both sides: the receiver reads the front half while the sender writes the rest. */
#include "transport/core/tp.h"

/* Half of the message, rounded up to a page of the sender's memory, so that no page is pinned by both sides. */
static uint64_t split_at(const struct hdl_rts_rec *rec, size_t len)
{
	uint64_t half = len / 2;

	return half + (-(rec->addr + half) & 4095);
}

void hdl_rndv_fetch_split(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f)
{
	struct hdl_fetch_op *op = hdl_fetch_op(f);
	struct hdl_cts cts = { .len = f->len, .addr = (uintptr_t)f->buf, .rkey = ep->dev->all->rkey, .op = rec->op,
			       .rop = op->id, .rdma = 1, .from = split_at(rec, f->len) };

	op->writing = 1;
	op->got = cts.from;
	hdl_rndv_begin_read(ep, rec, f, cts.from);
	hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
	hdl_ep_busy(ep);	/* the READs come later: CTSs of the next messages go first */
}

/* HDL_CTL_WRITTEN: the sender has written its part, or its chunks were refused (fault). */
void hdl_rndv_on_written(struct hdl_ep *ep, const struct hdl_fin *fin)
{
	struct hdl_fetch *f = hdl_id_get(&ep->tp->fetches, fin->op);
	struct hdl_fetch_op *op = f ? hdl_fetch_op(f) : NULL;

	if (f && f->ep == ep && fin->fault) {
		if (!op->fault)
			hdl_fault_report(ep, hdl_fault_turned(fin->fault), f->buf, f->len, true);
		op->fault = hdl_fault_turned(fin->fault);
		hdl_rndv_all_written(f);
		return;
	}
	if (!f || f->ep != ep || !op->writing) {
		hdl_error("%s has written the rendezvous %#x, which does not exist", hdl_proc_text(ep->rank), fin->op);
		return;
	}
	hdl_rndv_all_written(f);
}
