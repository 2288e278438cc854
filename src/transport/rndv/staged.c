/* SPDX-License-Identifier: BSD-3-Clause */
/* Staged rendezvous: the sender copies pieces into the ring, pooled receives or UD packets, and the receiver copies them out. */
#include "lines/lines.h"
#include "transport/core/tp.h"

/* Sends one piece of an operation. Returns 1: another piece may follow at once; 0: no room now; or a negative errno. */
static int stream_one(struct hdl_ep *ep, struct hdl_send *s)
{
	struct hdl_send_op *op = hdl_send_op(s);
	struct hdl_data_rec rec = { .offset = op->posted, .rop = op->receiver_op };
	uint64_t left = op->total - op->posted;
	uint32_t piece = hdl_ep_piece(ep, s->pack != NULL), n = left < piece ? (uint32_t)left : piece;
	bool last = n == left;

	op->inflight += last;
	int r = hdl_ep_stage(ep, &rec, s->pack ? NULL : (const char *)s->buf + op->posted, n, s,
			     !last ? HDL_IN_PLACE_MORE : op->unread ? HDL_IN_PLACE_FENCE : HDL_IN_PLACE_LAST);
	if (r)
		op->inflight -= last;
	if (r >= 0)
		op->posted += n;
	op->unread |= r == 0;
	return r == -EAGAIN ? 0 : r < 0 ? r : 1;
}

/* Returns true: pieces wait for room. */
static bool stream(struct hdl_ep *ep)
{
	struct hdl_send *s;

	while ((s = ep->stream)) {
		struct hdl_send_op *op = hdl_send_op(s);
		while (op->posted < op->total) {
			int r = stream_one(ep, s);
			if (r <= 0)
				return r == 0;	/* a negative r: the endpoint has failed */
		}
		hdl_rndv_pop(&ep->stream);
		hdl_rndv_finish_if_all(s);
	}
	return false;
}

bool hdl_rndv_stream(struct hdl_ep *ep)
{
	bool gathers = ep->stream && ep->can & HDL_QUEUE_PACKETS, waits;

	if (gathers)
		hdl_ud_gather(ep);
	waits = stream(ep);
	if (gathers)
		hdl_ud_gathered(ep);
	return waits;
}

void hdl_rndv_on_data(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t len)
{
	struct hdl_fetch *f = hdl_id_get(&ep->tp->fetches, rec->rop);

	if (!f || f->ep != ep || rec->offset > f->len || len > f->len - rec->offset) {
		hdl_error("%s sends %u bytes at %llu of the rendezvous %#x, which does not exist or is shorter",
			  hdl_proc_text(ep->rank), len, (unsigned long long)rec->offset, rec->rop);
		return;
	}
	if (f->unpack)
		f->unpack(f, rec->offset, data, len);
	else
		lines_copy_in((char *)f->buf + rec->offset, data, len);
	hdl_fetch_op(f)->got += len;
	if (hdl_fetch_op(f)->got >= f->len)
		hdl_rndv_all_written(f);
}
