/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get, atomic update and flush, at the origin. An operation goes through the connected lane, as RDMA WRITEs, READs or
 * atomic requests, if the region's key has an rkey of the device that reaches the peer. Else the request is an ordered active
 * message to a handler (target.c), whose answer ends the operation; ordered messages arrive once, also when a queue breaks.
 *
 *     put     WRITEs in chunks, all signaled; or PUT(place) + data ──▶, ◀── HDL_CTL_RMA_DONE
 *     get     READs in chunks; or GET(place) ──▶, ◀── GOT + data
 *     update  CMP_AND_SWP or FETCH_AND_ADD, the others as loops of CMP_AND_SWP; or UPDATE ──▶, ◀── HDL_CTL_RMA_DONE(old value)
 *
 * Invariants. An operation is on its peer's list from begin to end. It ends when it waits for no queue, has no request in
 * flight and awaits no answer: from then on nothing reads or writes its local memory. A flush is on the list, too, and ends
 * when it is the first.
 *
 * One agent carries out all updates of a region (transport.h); the region's key names the agent. Where the agent is a device,
 * a peer posts updates to the connected lane if that is of the agent device, else to an agent queue (agent_queue.c); a peer that
 * has neither sends UPDATE, and the owner's handler posts the update to the agent device.
 *
 * Memory that is unmapped or protected fails the operation alone:
 *
 *     1. the origin posts a WRITE to a region whose pages the owner has unmapped
 *     2. the device completes the WRITE with IBV_WC_REM_OP_ERR and moves the queue to ERR on both sides
 *     3. hdl_rma_refusal translates the status to -EREMOTEIO: the send queue fails the operation, not the peer
 *     4. the queue is replaced or reset; requests behind the refused one go again, none of the failed operation (sq_is_lost)
 *
 * By message a CPU copies, and the copy would raise a signal: both sides look at the memory before (hdl_fault_found).
 */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

enum { PUT, GET, UPDATE, FLUSH };
static const char *const names[] = { "put", "get", "atomic operation", "flush" };

#define INLINE_MAX 1024u		/* longer payloads are gathered from their place: a queue with a replay log would copy
					 * them */

/* ---- a peer's operations ------------------------------------------------------------------------------------------ */

static struct hdl_rma_peer *rma_find(const struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	return ep->id < tp->nrma ? tp->rma[ep->id] : NULL;
}

static struct hdl_rma_peer *peer_of(const struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;

	if (ep->id >= tp->nrma) {
		uint32_t n = (ep->id + 16) & ~15u;
		void *p = realloc(tp->rma, n * sizeof(*tp->rma));
		if (!p)
			return NULL;
		tp->rma = p;
		memset(tp->rma + tp->nrma, 0, (n - tp->nrma) * sizeof(*tp->rma));
		tp->nrma = n;
	}
	if (!tp->rma[ep->id])
		tp->rma[ep->id] = calloc(1, sizeof(struct hdl_rma_peer));
	return tp->rma[ep->id];
}

static void rma_append(struct hdl_rma_peer *p, struct hdl_rma *op)
{
	op->next = NULL;
	op->prev = p->last;
	*(p->last ? &p->last->next : &p->first) = op;
	p->last = op;
	op->ep->tp->rma_open++;
}

static void rma_take_out(struct hdl_rma_peer *p, struct hdl_rma *op)
{
	*(op->prev ? &op->prev->next : &p->first) = op->next;
	*(op->next ? &op->next->prev : &p->last) = op->prev;
	op->ep->tp->rma_open--;
}

static void wait_for_queue(struct hdl_rma_peer *p, struct hdl_rma *op)
{
	op->queued = true;
	op->wait_next = NULL;
	*(p->wait ? &p->wait_last->wait_next : &p->wait) = op;
	p->wait_last = op;
}

static void pop_wait(struct hdl_rma_peer *p)
{
	struct hdl_rma *op = p->wait;

	p->wait = op->wait_next;
	op->queued = false;
}

int hdl_rma_refusal(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_ACCESS_ERR ? -EACCES : hdl_rndv_refusal(status);
}

static bool is_refusal(int err)
{
	return err == -EACCES || err == -EREMOTEIO || err == -EFAULT;
}

static void rma_report_refused(const struct hdl_rma *op)
{
	char where[HDL_FAULT_TEXT];

	op->ep->tp->rma_refused += op->err != -EFAULT;
	if (op->err == -EFAULT)
		hdl_error("the local memory at %p of a %s of %llu bytes cannot be %s%s. This operation fails, and nothing else",
			  op->buf, names[op->type], (unsigned long long)op->len, op->type == PUT ? "read" : "written",
			  hdl_fault_place(where, op->buf, op->len, op->type != PUT));
	else
		hdl_error("a %s of %llu bytes at %#llx of rank %d was refused: %s. This operation fails, and nothing else",
			  names[op->type], (unsigned long long)op->len, (unsigned long long)op->raddr, op->ep->rank,
			  op->err == -EACCES ? "the region is not registered there any more, or does not grant this access" :
					       "the region's memory there is unmapped or protected");
}

/* Returns the error of a refused request. Local memory that the kernel says cannot be reached is -EFAULT: where one process
 * copies for both sides, the device's status may have the other side's view. */
static int judge_refusal(const struct hdl_rma *op, int err)
{
	if (!is_refusal(err) || op->type == UPDATE)
		return err;
	return hdl_fault_found(op->buf, op->len, op->type == GET) ? -EFAULT : err == -EFAULT ? -EREMOTEIO : err;
}

/* Returns true if an agent queue could carry the operation out. */
static bool could_be_direct(const struct hdl_rma *op)
{
	return op->type == UPDATE && op->key->agent_rkey;
}

/* Ends the operation if nothing of it is under way. */
static void end_if_all(struct hdl_rma *op)
{
	struct hdl_rma_peer *p = rma_find(op->ep);
	struct hdl_rma *f;

	if (op->queued || op->inflight || op->awaits_answer)
		return;
	rma_take_out(p, op);
	op->key->refs--;
	hdl_region_put(op->region);
	if (op->landing)
		hdl_txbuf_put(op->landing);
	if (op->id) {
		hdl_id_free(&op->ep->tp->rmas, op->id);
		p->asked -= could_be_direct(op);
	}
	if (op->type == UPDATE && !op->err && op->buf)
		memcpy(op->buf, &op->old, op->width);	/* little-endian, as all records on the wire */
	if (is_refusal(op->err))
		rma_report_refused(op);
	if (!p->err)
		p->err = op->err;
	op->ended = true;
	if (!op->in_call)
		hdl_done_rma(op, op->err);
	while ((f = p->first) && f->type == FLUSH) {
		rma_take_out(p, f);
		hdl_done_rma(f, p->err);
		p->err = 0;
	}
}

static void fails(struct hdl_rma *op, int err)
{
	if (!op->err)
		op->err = err;
}

/* ---- by message ----------------------------------------------------------------------------------------------------- */

static void request_sent(struct hdl_send *s, int err)
{
	struct hdl_rma *op = container_of(container_of(s, struct hdl_am_send, send), struct hdl_rma, am);

	op->inflight--;
	/* The target refused the payload, or one of the two buffers cannot be reached: the answer, which follows, has the
	 * error. */
	if (err && err != -ECANCELED && err != -EFAULT && err != -EREMOTEIO && err != -ENOBUFS) {
		fails(op, err);
		op->awaits_answer = false;
	}
	end_if_all(op);
}

static void by_message(struct hdl_rma *op)
{
	struct hdl_tp *tp = op->ep->tp;
	static const unsigned handler[] = { [PUT] = HDL_AM_PUT, [GET] = HDL_AM_GET, [UPDATE] = HDL_AM_UPDATE };
	struct hdl_rma_request q = { .number = op->key->number, .raddr = op->raddr, .len = op->len, .operand = op->operand,
				     .compare = op->compare, .update = op->update, .width = op->width };
	bool put = op->type == PUT;
	/* the payload of a message is copied by this process's CPU */
	int r = put && hdl_fault_found(op->buf, op->len, false) ? -EFAULT : hdl_id_new(&tp->rmas, op, &op->id);

	tp->rma_asked++;
	if (!r) {
		rma_find(op->ep)->asked += could_be_direct(op);
		q.origin_op = op->id;
		op->awaits_answer = true;
		op->am.send.done = request_sent;
		r = hdl_am_send(op->ep, handler[op->type], HDL_AM_ORDERED, &q, sizeof(q), put ? op->buf : NULL, put ? op->len : 0,
				&op->am);
		op->inflight += r == 0;
	}
	if (r < 0) {
		fails(op, r);
		op->awaits_answer = false;
	}
	end_if_all(op);
}

static struct hdl_rma *awaited(struct hdl_ep *ep, uint32_t id)
{
	struct hdl_rma *op = hdl_id_get(&ep->tp->rmas, id);

	if (op && op->ep == ep && op->awaits_answer)
		return op;
	hdl_error("rank %d answers the remote memory operation %#x, which does not exist", ep->rank, id);
	return NULL;
}

void hdl_rma_on_done(struct hdl_ep *ep, const struct hdl_rma_done *m)
{
	struct hdl_rma *op = awaited(ep, m->op);

	if (!op)
		return;
	op->awaits_answer = false;
	op->old = m->old;
	if (m->err)
		fails(op, m->err);
	end_if_all(op);
}

static void got(struct hdl_fetch *f, int err)
{
	struct hdl_rma *op = container_of(f, struct hdl_rma, fetch);

	op->inflight--;
	if (err)
		fails(op, err);
	end_if_all(op);
}

void hdl_rma_on_got(void *context, const struct hdl_am *am)
{
	struct hdl_rma *op;
	uint32_t id = 0;
	int err;

	if (am->head_len == sizeof(id))
		memcpy(&id, am->head, sizeof(id));
	op = awaited(am->ep, id);
	if ((!op || am->len != op->len) && am->rts)
		hdl_ep_refuse(am->ep, am->rts);
	if (!op)
		return;
	op->awaits_answer = false;
	if (am->len != op->len) {
		hdl_error("rank %d answers a get of %llu bytes with %zu: is it another version of the library?", am->ep->rank,
			  (unsigned long long)op->len, am->len);
		fails(op, -EPROTO);
	} else if (am->data && hdl_fault_found(op->buf, op->len, true)) {
		fails(op, -EFAULT);
	} else if (am->data) {
		memcpy(op->buf, am->data, am->len);
	} else {
		op->fetch.done = got;
		op->inflight++;
		if ((err = hdl_ep_fetch(am->ep, am->rts, op->buf, op->len, &op->fetch))) {
			op->inflight--;
			fails(op, err);
		}
	}
	end_if_all(op);
}

/* ---- by queue ------------------------------------------------------------------------------------------------------- */

uint64_t hdl_rma_updated(enum hdl_update update, unsigned width, uint64_t old, uint64_t operand, uint64_t compare)
{
	uint64_t mask = width == 8 ? ~0ull : 0xffffffffu;

	switch (update) {
	case HDL_FETCH_ADD:
		old += operand;
		break;
	case HDL_SWAP:
		old = operand;
		break;
	case HDL_COMPARE_SWAP:
		old = (old & mask) == (compare & mask) ? operand : old;
		break;
	case HDL_AND:
		old &= operand;
		break;
	case HDL_OR:
		old |= operand;
		break;
	case HDL_XOR:
		old ^= operand;
		break;
	}
	return old & mask;
}

/* Returns true if the device carries out the update by one request: fetch-and-add and compare-and-swap of 8 bytes. */
static bool is_native(const struct hdl_rma *op)
{
	return op->width == 8 && (op->update == HDL_FETCH_ADD || op->update == HDL_COMPARE_SWAP);
}

/* Extracts the update's operand from the 8 aligned bytes around. */
static uint64_t rma_part_of(const struct hdl_rma *op, uint64_t word)
{
	return op->width == 8 ? word : (uint32_t)(word >> (op->raddr % 8 * 8));
}

/* Replaces the update's operand in the 8 aligned bytes around. */
static uint64_t with_part(const struct hdl_rma *op, uint64_t word, uint64_t part)
{
	unsigned shift = (unsigned)(op->raddr % 8 * 8);

	return op->width == 8 ? part : (word & ~(0xffffffffull << shift)) | part << shift;
}

/* Fills in the request of an update by this device. Returns 0, or -EAGAIN: there is no buffer for the old value. */
static int update_request(struct hdl_rma *op, struct hdl_dev *dev, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	if (!op->landing && !(op->landing = hdl_txbuf_get(&dev->pkt_small)))
		return -EAGAIN;
	*sge = (struct ibv_sge){ .addr = (uintptr_t)op->landing->data, .length = 8, .lkey = op->landing->lkey };
	wr->wr.atomic.remote_addr = op->raddr & ~7ull;
	wr->wr.atomic.rkey = op->key->agent_is_lane ? op->key->rkey : op->key->agent_rkey;
	wr->opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	if (is_native(op) && op->update == HDL_FETCH_ADD) {
		wr->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.compare_add = op->operand;
	} else if (is_native(op)) {
		wr->wr.atomic.compare_add = op->compare;
		wr->wr.atomic.swap = op->operand;
	} else {
		wr->wr.atomic.compare_add = op->guess;
		wr->wr.atomic.swap =
			with_part(op, op->guess,
				  hdl_rma_updated(op->update, op->width, rma_part_of(op, op->guess), op->operand, op->compare));
	}
	return 0;
}

/* Finds the lkey of the operation's local memory. Returns 0, or -ENOMEM: the memory cannot be registered. */
static int rma_local_key(struct hdl_rma *op, uint32_t *lkey)
{
	struct hdl_dev *dev = op->ep->dev;

	if (dev->all) {
		*lkey = dev->all->lkey;
		return 0;
	}
	if (!op->region)
		op->region = hdl_region_get(dev, op->buf, op->len, IBV_ACCESS_LOCAL_WRITE);
	if (!op->region && op->type == PUT)	/* constant data lies in read-only pages */
		op->region = hdl_region_get(dev, op->buf, op->len, 0);
	if (!op->region)
		return -ENOMEM;
	*lkey = op->region->mr->lkey;
	return 0;
}

/* Fills in the next chunk of a put or a get. Returns 0, or -ENOMEM as rma_local_key. */
static int chunk_request(struct hdl_rma *op, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	const struct hdl_sq *sq = op->ep->sq;
	uint64_t n = op->len - op->posted;
	uint32_t lkey = 0;

	if (n > hdl_vars.rndv_chunk)
		n = hdl_vars.rndv_chunk;
	if (n > op->ep->dev->max_msg)
		n = op->ep->dev->max_msg;
	wr->opcode = op->type == PUT ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	if (op->type == PUT && n <= sq->max_inline && n <= INLINE_MAX)
		wr->send_flags = IBV_SEND_INLINE;
	else if (rma_local_key(op, &lkey))
		return -ENOMEM;
	*sge = (struct ibv_sge){ .addr = (uintptr_t)op->buf + op->posted, .length = (uint32_t)n, .lkey = lkey };
	wr->wr.rdma.remote_addr = op->raddr + op->posted;
	wr->wr.rdma.rkey = op->key->rkey;
	return 0;
}

/* Posts the next request of the first operation that waits. Returns false: no room now, or no operation waits. */
static bool rma_push_one(struct hdl_ep *ep, struct hdl_rma_peer *p)
{
	struct hdl_rma *op = p->wait;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	int err;

	if (op->err) {		/* an earlier chunk has failed */
		pop_wait(p);
		end_if_all(op);
		return true;
	}
	if (op->inflight >= HDL_RNDV_INFLIGHT || !hdl_sq_room(ep->sq, 1)) {
		if (ep->sq->kind->rebind)
			ep->sq->kind->rebind(ep);
		return false;
	}
	err = op->type == UPDATE ? update_request(op, ep->dev, &wr, &sge) : chunk_request(op, &wr, &sge);
	if (err == -EAGAIN)
		return false;
	if (err) {		/* can happen with the first chunk only: the whole buffer is registered, or none of it */
		pop_wait(p);
		by_message(op);
		return true;
	}
	op->posted += sge.length;
	op->inflight++;
	if (op->type == UPDATE || op->posted == op->len)
		pop_wait(p);
	if (hdl_sq_post(ep->sq, ep, &wr, HDL_SLOT_RMA, op, true, sge.length)) {
		op->inflight--;
		fails(op, -ECONNRESET);
		end_if_all(op);
		return false;	/* the endpoint has failed, and hdl_rma_fail_peer ends its operations */
	}
	return true;
}

bool hdl_rma_push(struct hdl_ep *ep)
{
	struct hdl_rma_peer *p = rma_find(ep);

	if (!p || !p->wait || ep->failed)
		return false;
	if (hdl_ep_replaced(ep))
		return true;
	if (!ep->sq && hdl_ep_connect(ep)) {
		for (struct hdl_rma *op; (op = p->wait);) {
			pop_wait(p);
			by_message(op);
		}
		return false;
	}
	while (p->wait && ep->sq && !ep->failed && rma_push_one(ep, p))
		;
	/* on a device that carries requests out while they are posted, operations end here */
	if (ep->sq && ep->sq->scq->pending)
		hdl_sq_reap(ep->tp, ep->sq->scq);
	return p->wait != NULL;
}

/* Takes the result of an update's request. Returns true: another process changed the word, and the loop must try again. */
static bool rma_updated(struct hdl_rma *op)
{
	uint64_t word;

	memcpy(&word, op->landing->data, sizeof(word));
	op->old = rma_part_of(op, word);
	if (is_native(op) || word == op->guess)
		return false;
	op->guess = word;
	return op->update != HDL_COMPARE_SWAP || op->old == (uint32_t)op->compare;
}

static void update_again(struct hdl_rma *op)
{
	if (op->key->agent_is_lane) {
		wait_for_queue(rma_find(op->ep), op);
		hdl_ep_busy(op->ep);
	} else {
		hdl_agent_update(hdl_agent_of(op->ep), op);
	}
}

void hdl_rma_part_done(struct hdl_rma *op, int err)
{
	op->inflight--;
	if (err)
		fails(op, op->ep->failed ? op->ep->fail_err : op->err ? op->err : judge_refusal(op, err));
	else if (!op->err && op->type == UPDATE && rma_updated(op))
		update_again(op);
	end_if_all(op);
}

/* ---- the door ------------------------------------------------------------------------------------------------------- */

static int rma_check(const struct hdl_rkey *k, uint64_t offset, uint64_t len, unsigned access, int what)
{
	if (offset > k->len || len > k->len - offset) {
		hdl_error("a %s of %llu bytes at offset %llu of a region of rank %d, which has %llu", names[what],
			  (unsigned long long)len, (unsigned long long)offset, k->ep->rank, (unsigned long long)k->len);
		return -ERANGE;
	}
	if (!(k->access & access)) {
		hdl_error("a %s on a region of rank %d, which does not grant that", names[what], k->ep->rank);
		return -EACCES;
	}
	return 0;
}

/* Begins an operation that no lane carries. */
static void begin_without_lane(struct hdl_rma *op)
{
	struct hdl_agent_queue *q = could_be_direct(op) ? hdl_agent_of(op->ep) : NULL;

	if (!hdl_agent_takes(q)) {
		by_message(op);
		return;
	}
	op->ep->tp->rma_direct++;
	hdl_agent_update(q, op);
}

/* Begins an operation. direct: a lane can carry it out. Returns as hdl_put. */
static int rma_begin(struct hdl_rkey *k, uint64_t offset, const void *buf, uint64_t len, int what, bool direct,
		     struct hdl_rma *op)
{
	struct hdl_ep *ep = k->ep;
	struct hdl_rma_peer *p;

	if (ep->failed)
		return ep->fail_err;
	if (!len)
		return 1;
	if (!(p = peer_of(ep)))
		return hdl_no_memory("operations on a peer's memory", sizeof(*p));
	op->ep = ep;
	op->key = k;
	op->buf = (void *)(uintptr_t)buf;
	op->raddr = k->base + offset;
	op->len = len;
	op->posted = op->guess = 0;
	op->region = NULL;
	op->landing = NULL;
	op->id = 0;
	op->err = 0;
	op->inflight = 0;
	op->type = (uint8_t)what;
	op->queued = op->awaits_answer = op->ended = false;
	op->in_call = true;
	k->refs++;
	rma_append(p, op);
	if (direct && k->has_rkey && hdl_ep_can_rdma(ep)) {
		op->ep->tp->rma_direct++;
		wait_for_queue(p, op);
		if (hdl_rma_push(ep))
			hdl_ep_busy(ep);
	} else {
		begin_without_lane(op);
	}
	op->in_call = false;
	return !op->ended ? 0 : op->err ? op->err : 1;
}

int hdl_put(struct hdl_rkey *k, uint64_t offset, const void *buf, size_t len, struct hdl_rma *op)
{
	int err = rma_check(k, offset, len, HDL_MR_WRITE, PUT);

	return err ? err : rma_begin(k, offset, buf, len, PUT, true, op);
}

int hdl_get(struct hdl_rkey *k, uint64_t offset, void *buf, size_t len, struct hdl_rma *op)
{
	int err = rma_check(k, offset, len, HDL_MR_READ, GET);

	return err ? err : rma_begin(k, offset, buf, len, GET, true, op);
}

int hdl_atomic(struct hdl_rkey *k, uint64_t offset, enum hdl_update update, unsigned width, uint64_t operand, uint64_t compare,
	       void *result, struct hdl_rma *op)
{
	bool device = k->access & HDL_MR_ATOMIC_DEVICE;
	int err = rma_check(k, offset, width, HDL_MR_ATOMIC | HDL_MR_ATOMIC_DEVICE, UPDATE);

	if (err)
		return err;
	if (update < HDL_FETCH_ADD || update > HDL_XOR || (width != 4 && width != 8) || (device && (k->base + offset) % width)) {
		hdl_error("no atomic operation %d of %u bytes can be done at offset %llu of a region of rank %d%s", (int)update,
			  width, (unsigned long long)offset, k->ep->rank, device ? ", whose device does them" : "");
		return -EINVAL;
	}
	op->update = (uint8_t)update;
	op->width = (uint8_t)width;
	op->operand = width == 8 ? operand : (uint32_t)operand;
	op->compare = width == 8 ? compare : (uint32_t)compare;
	return rma_begin(k, offset, result, width, UPDATE, k->agent_is_lane, op);
}

int hdl_flush(struct hdl_ep *ep, struct hdl_rma *op)
{
	struct hdl_rma_peer *p = rma_find(ep);
	int err;

	if (ep->failed)
		return ep->fail_err;
	op->ep = ep;
	if (!p || !p->first) {
		err = p ? p->err : 0;
		if (p)
			p->err = 0;
		if (!ep->tp->ndone)
			return err ? err : 1;
		hdl_done_rma(op, err);	/* the flush must end behind operations whose done() has not been called yet */
		return 0;
	}
	op->type = FLUSH;
	rma_append(p, op);
	return 0;
}

int hdl_rma_connect(struct hdl_ep *ep)
{
	return ep->failed ? ep->fail_err : ep->sq ? 0 : !hdl_ep_can_rdma(ep) ? -EOPNOTSUPP : hdl_ep_connect(ep);
}

bool hdl_rma_connecting(const struct hdl_ep *ep)
{
	return !ep->failed && !ep->sq && hdl_conn_waits(&ep->conn);
}

/* ---- beginning and end ---------------------------------------------------------------------------------------------- */

void hdl_rma_fail_peer(struct hdl_ep *ep, int err)
{
	struct hdl_rma_peer *p = rma_find(ep);

	if (!p)
		return;
	p->wait = NULL;
	hdl_agent_stop(ep);
	for (struct hdl_rma *op = p->first, *next; op; op = next) {
		/* a flush ends with the operation before it (end_if_all) */
		for (next = op->next; next && next->type == FLUSH; next = next->next)
			;
		fails(op, err);
		op->queued = op->awaits_answer = false;
		/* on a queue that peers share, requests are still in flight: the operation ends with the last of them */
		end_if_all(op);
	}
}

static bool rma_asks(const struct hdl_ep *ep)
{
	return rma_find(ep)->asked;
}

static const struct hdl_agent_user agent_user = { .fill = update_request, .done = hdl_rma_part_done,
						  .refusal = hdl_rma_refusal, .by_message = by_message, .asks = rma_asks };

void hdl_rma_serve(struct hdl_rma_served *s, struct hdl_ep *ep)
{
	struct hdl_rma_served **first = &ep->tp->rma_served;

	*s = (struct hdl_rma_served){ .next = *first, .link = first, .ep = ep };
	if (s->next)
		s->next->link = &s->next;
	*first = s;
}

void hdl_rma_serve_end(struct hdl_rma_served *s)
{
	*s->link = s->next;
	if (s->next)
		s->next->link = s->link;
}

bool hdl_rma_forget_peer(struct hdl_ep *ep)
{
	struct hdl_rma_peer *p = rma_find(ep);

	for (const struct hdl_rma_served *s = ep->tp->rma_served; s; s = s->next)
		if (s->ep == ep)
			return false;
	if (!p)
		return true;
	if (p->first)
		return false;
	free(p);
	ep->tp->rma[ep->id] = NULL;
	return true;
}

int hdl_rma_open(struct hdl_tp *tp)
{
	tp->agent_user = &agent_user;
	return hdl_am_register(tp, HDL_AM_GOT, hdl_rma_on_got, NULL);
}

void hdl_rma_close(struct hdl_tp *tp)
{
	hdl_agents_close(tp);
	hdl_mr_close(tp);
	for (uint32_t i = 0; i < tp->nrma; i++)
		free(tp->rma[i]);
	free(tp->rma);
}
