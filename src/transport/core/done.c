/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations that have ended, and other work that must wait until requests may be posted and queues stopped. An operation may
 * end in the middle of a post or while completions are taken; its callback, which may begin the next one, runs in
 * hdl_done_run, once in a turn. */
#include <stdlib.h>

#include "transport/core/tp.h"

void hdl_done_push(struct hdl_tp *tp, hdl_done_fn fn, void *p, int err)
{
	if (tp->ndone == tp->done_cap) {
		uint32_t cap = tp->done_cap ? tp->done_cap * 2 : 64;
		void *q = realloc(tp->done, cap * sizeof(*tp->done));
		if (!q)
			hdl_rt_abort(1, "out of memory while completing a message");
		tp->done = q;
		tp->done_cap = cap;
	}
	tp->done[tp->ndone++] = (struct hdl_done){ .fn = fn, .p = p, .err = err };
}

void hdl_done_cancel(struct hdl_tp *tp, hdl_done_fn fn, const void *p)
{
	for (uint32_t i = 0; i < tp->ndone; i++)
		if (tp->done[i].fn == fn && tp->done[i].p == p)
			tp->done[i].fn = NULL;
}

static void send_done(struct hdl_tp *tp, void *p, int err)
{
	struct hdl_send *send = p;

	(void)tp;
	send->done(send, err);
}

static void fetch_done(struct hdl_tp *tp, void *p, int err)
{
	struct hdl_fetch *fetch = p;

	(void)tp;
	fetch->done(fetch, err);
}

static void rma_done(struct hdl_tp *tp, void *p, int err)
{
	struct hdl_rma *op = p;

	(void)tp;
	op->done(op, err);
}

void hdl_done_send(struct hdl_send *send, int err)
{
	hdl_done_push(send->ep->tp, send_done, send, err);
}

void hdl_done_fetch(struct hdl_fetch *fetch, int err)
{
	hdl_done_push(fetch->ep->tp, fetch_done, fetch, err);
}

void hdl_done_rma(struct hdl_rma *op, int err)
{
	hdl_done_push(op->ep->tp, rma_done, op, err);
}

void hdl_done_run(struct hdl_tp *tp)
{
	/* callbacks may push more, and the array may move */
	for (uint32_t i = 0; i < tp->ndone; i++) {
		struct hdl_done d = tp->done[i];
		if (d.fn)
			d.fn(tp, d.p, d.err);
	}
	tp->ndone = 0;
}
