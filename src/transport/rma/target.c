/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers of active messages for operations on this process's regions. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

/* An operation that a handler has begun and that is not finished when the handler returns. */
struct remote_op {
	struct hdl_mr *mr;
	struct hdl_rma_served served;
	uint32_t op;			/* number of the origin's operation */
	uint64_t old;
	struct hdl_fetch fetch;		/* PUT: fetches the payload */
	struct hdl_am_send answer;	/* GET: sends GOT with the data */
	struct hdl_rma update;
};

static void target_answer(struct hdl_ep *ep, uint32_t op, int err, uint64_t old)
{
	struct hdl_rma_done m = { .op = op, .err = err, .old = old };

	hdl_ep_ctl(ep, HDL_CTL_RMA_DONE, &m, sizeof(m), false);
}

static struct remote_op *remote_op_begin(struct hdl_mr *mr, struct hdl_ep *ep, uint32_t op)
{
	struct remote_op *h = calloc(1, sizeof(*h));

	if (!h) {
		hdl_no_memory("an operation of a peer's on this rank's memory", sizeof(*h));
		return NULL;
	}
	h->mr = mr;
	hdl_rma_serve(&h->served, ep);
	h->op = op;
	mr->refs++;
	return h;
}

static void remote_op_end(struct remote_op *h)
{
	h->mr->refs--;
	hdl_rma_serve_end(&h->served);
	free(h);
}

/* Reads the request and finds its region. Returns 0, or the negative errno for the origin. */
static int target_look(const struct hdl_am *am, unsigned access, struct hdl_rma_request *q, struct hdl_mr **mr)
{
	*q = (struct hdl_rma_request){ 0 };
	if (am->head_len != sizeof(*q)) {
		hdl_error("rank %d sent a request of %zu bytes for this rank's memory: is it another version of the library?",
			  am->ep->rank, am->head_len);
		return -EPROTO;
	}
	memcpy(q, am->head, sizeof(*q));
	*mr = hdl_id_get(&am->ep->tp->mrs, q->number);
	if (!*mr || !((*mr)->access & access))
		return -EACCES;
	uint64_t offset = q->raddr - (uintptr_t)(*mr)->base;
	return offset <= (*mr)->len && q->len <= (*mr)->len - offset ? 0 : -EACCES;
}

/* Translates an error of the rendezvous into the origin's view: -EFAULT here is -EREMOTEIO there, and the other way round. */
static int turned(int err)
{
	return hdl_fault_of(err) ? hdl_fault_errno(hdl_fault_turned(hdl_fault_of(err))) : err;
}

/* Looks whether this process's CPU can read or write these bytes of a region, by a system call: without it the copy would raise
 * a signal.
 * Returns 0, or -EREMOTEIO for the origin; reported. */
static int target_reach(const struct hdl_ep *ep, const struct hdl_rma_request *q, bool written)
{
	char where[HDL_FAULT_TEXT];
	void *at = (void *)(uintptr_t)q->raddr;

	if (!hdl_fault_found(at, q->len, written))
		return 0;
	hdl_error("%llu bytes at %p of a region of this process cannot be %s for rank %d%s. The operation fails at its origin, "
		  "and nothing else", (unsigned long long)q->len, at, written ? "written" : "read", ep->rank,
		  hdl_fault_place(where, at, q->len, written));
	return -EREMOTEIO;
}

static void put_fetched(struct hdl_fetch *f, int err)
{
	struct remote_op *h = container_of(f, struct remote_op, fetch);

	target_answer(h->served.ep, h->op, turned(err), 0);
	remote_op_end(h);
}

static void on_put(void *context, const struct hdl_am *am)
{
	struct hdl_rma_request q;
	struct hdl_mr *mr;
	struct remote_op *h;
	int err = target_look(am, HDL_MR_WRITE, &q, &mr);

	if (!err && am->len != q.len)
		err = -EPROTO;
	if (!err && am->data)
		err = target_reach(am->ep, &q, true);
	if (!err && am->data) {
		memcpy((void *)(uintptr_t)q.raddr, am->data, am->len);
	} else if (!err) {
		if (!(h = remote_op_begin(mr, am->ep, q.origin_op))) {
			err = -ENOMEM;
		} else {
			h->fetch.done = put_fetched;
			err = hdl_ep_fetch(am->ep, am->rts, (void *)(uintptr_t)q.raddr, am->len, &h->fetch);
			if (!err)
				return;
			remote_op_end(h);
			target_answer(am->ep, q.origin_op, turned(err), 0);
			return;
		}
	}
	if (err && am->rts)
		hdl_ep_refuse(am->ep, am->rts);
	target_answer(am->ep, q.origin_op, err, 0);
}

static void got_sent(struct hdl_send *s, int err)
{
	struct remote_op *h = container_of(container_of(s, struct hdl_am_send, send), struct remote_op, answer);

	/* the origin has ended the operation already: the announcement was refused, or the rendezvous failed on both sides */
	if (err && err != -ECANCELED && err != -EREMOTEIO && err != -EFAULT && err != -ENOBUFS)
		target_answer(h->served.ep, h->op, err, 0);
	remote_op_end(h);
}

static void on_get(void *context, const struct hdl_am *am)
{
	struct hdl_rma_request q;
	struct hdl_mr *mr;
	struct remote_op *h = NULL;
	int err = target_look(am, HDL_MR_READ, &q, &mr);

	if (!err)
		err = target_reach(am->ep, &q, false);
	if (!err && !(h = remote_op_begin(mr, am->ep, q.origin_op)))
		err = -ENOMEM;
	if (err) {
		target_answer(am->ep, q.origin_op, err, 0);
		return;
	}
	h->answer.send.done = got_sent;
	err = hdl_am_send(am->ep, HDL_AM_GOT, HDL_AM_ORDERED, &q.origin_op, sizeof(q.origin_op), (void *)(uintptr_t)q.raddr,
			  q.len, &h->answer);
	if (err)
		got_sent(&h->answer.send, err < 0 ? err : 0);
}

/* Handlers run one at a time, so updates by handlers are atomic towards each other. */
static uint64_t update_here(const struct hdl_rma_request *q)
{
	uint64_t old = 0, new;

	memcpy(&old, (void *)(uintptr_t)q->raddr, q->width);
	new = hdl_rma_updated(q->update, q->width, old, q->operand, q->compare);
	memcpy((void *)(uintptr_t)q->raddr, &new, q->width);
	return old;
}

static void target_updated(struct hdl_rma *op, int err)
{
	struct remote_op *h = container_of(op, struct remote_op, update);

	target_answer(h->served.ep, h->op, err, h->old);
	remote_op_end(h);
}

/* Posts the update to this process's device, for an origin whose queues do not reach it. Returns 0 or a negative errno. */
static int update_by_device(struct hdl_mr *mr, struct hdl_ep *ep, const struct hdl_rma_request *q)
{
	struct hdl_ep *self = hdl_ep(ep->tp, hdl_job.rank);
	char key[HDL_RKEY_MAX];
	struct remote_op *h;
	int r;

	if (!self || ep == self)
		return -EOPNOTSUPP;
	if (!mr->self && (r = hdl_rkey_unpack(self, key, hdl_mr_pack(mr, key), &mr->self)))
		return r;
	if (!(h = remote_op_begin(mr, ep, q->origin_op)))
		return -ENOMEM;
	h->update.done = target_updated;
	r = hdl_atomic(mr->self, q->raddr - (uintptr_t)mr->base, q->update, q->width, q->operand, q->compare, &h->old,
		       &h->update);
	if (r > 0)
		target_updated(&h->update, 0);
	else if (r < 0)
		remote_op_end(h);
	return r < 0 ? r : 0;
}

static void on_update(void *context, const struct hdl_am *am)
{
	struct hdl_rma_request q;
	struct hdl_mr *mr;
	uint64_t old = 0;
	int err = target_look(am, HDL_MR_ATOMIC | HDL_MR_ATOMIC_DEVICE, &q, &mr);

	if (!err && (q.width != q.len || (q.width != 4 && q.width != 8) || q.update < HDL_FETCH_ADD || q.update > HDL_XOR))
		err = -EPROTO;
	if (!err)
		err = target_reach(am->ep, &q, true);
	if (!err && mr->access & HDL_MR_ATOMIC_DEVICE) {
		if (!(err = update_by_device(mr, am->ep, &q)))
			return;
	} else if (!err) {
		old = update_here(&q);
	}
	target_answer(am->ep, q.origin_op, err, old);
}

int hdl_rma_open_target(struct hdl_tp *tp)
{
	int err = hdl_am_register(tp, HDL_AM_PUT, on_put, NULL);

	if (!err)
		err = hdl_am_register(tp, HDL_AM_GET, on_get, NULL);
	return err ? err : hdl_am_register(tp, HDL_AM_UPDATE, on_update, NULL);
}
