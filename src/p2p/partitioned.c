/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Partitioned communication (MPI-5.0 chapter 4). A pair of requests is named by (context, tag, number): the k-th MPI_Psend_init and
 * the k-th MPI_Precv_init between two processes with one tag of a communicator belong together, so making them is local. Each start
 * of the pair is an epoch.
 *
 *     receiver                                  sender
 *     MPI_Start ── GO(name, epoch, id[, key]) ──▶ keeps id and key; partitions that are ready go
 *                                               MPI_Pready: marks the partition
 *               ◀── DATA(id, epoch, offset)[+ bytes] ── a run of ready partitions
 *     counts the bytes of each of its partitions; all of them are here: the request is done
 *
 * Invariants.
 * 1. Nothing of an epoch leaves the sender before GO of that epoch has come, so nothing lands before the receiver's MPI_Start. GO of
 *    the next epoch follows the end of this one at the receiver, so one number is enough.
 * 2. A run of more than HEDDLE_EAGER_MAX bytes between buffers without holes is put into the receiver's region, whose key came with
 *    the first GO, and DATA follows when the put has ended. Any other run is the payload of DATA.
 * 3. Offsets are those of the packed stream, so the two sides may have different partitions and types.
 *
 * Box. A receive of up to BOX_MOST bytes from a process of the same fabric has a box (part_box.h), whose place GO tells. Then MPI_Pready, once
 * GO has come, stores its partition there, and MPI_Parrived looks at the box and copies the partition out: no lock, no message, by any
 * number of threads at once. The thread that stores the last partition sends DATA(id, epoch), which ends the epoch at the receiver.
 *
 * Threads. Without a box MPI_Pready takes no lock: it marks the partition, enters it into the request's list of marked ones, and the request
 * into the list `dirty`. The thread that finds no other one at it (`draining`) takes the library's lock and sends all of that;
 * other threads return at once. Scenario of a request that is freed meanwhile:
 *     1. Thread 1 marks the last partition. Thread 2, draining, sends it and completes the request.
 *     2. Thread 3 returns from MPI_Wait and frees the request. Thread 1 would enter freed memory into `dirty`.
 * So a caller counts itself (`callers`) ahead of the mark and uncounts itself behind the entry, and part_free waits for them, and
 * then empties `dirty`.
 */
#include "p2p/part_box.h"
#include "p2p/partitioned.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

struct part_go {			/* head of HDL_AM_PART_GO; the payload is the region's key, with the first epoch */
	uint64_t total;
	uint64_t box_at, box_nonce;	/* place of the box in the fabric; 0: there is none */
	int32_t tag;
	uint32_t number, epoch, id;
	uint32_t n;			/* the receiver's partitions */
	uint16_t context;
	uint16_t reserved;
};
_Static_assert(sizeof(struct part_go) <= HDL_AM_HEAD_MAX, "fits a head");

struct part_data {			/* head of HDL_AM_PART_DATA; the payload is the bytes, unless they were put */
	uint64_t offset, len, total;
	uint32_t id, epoch;
	uint32_t put;			/* enum part_put */
	uint32_t reserved;
};
enum part_put { PUT_NOT, PUT_BY_RMA, PUT_IN_BOX };	/* where the bytes are: in the payload, in the buffer, in the box */
_Static_assert(sizeof(struct part_data) <= HDL_AM_HEAD_MAX, "fits a head");

enum mark { UNMARKED, MARKED, TAKEN, SENT };	/* TAKEN, SENT: written under the lock; with a box SENT by any thread */
enum arrival { NOT_HERE, HERE, IS_COPIED };	/* IS_COPIED: a thread copies the partition out of the box */

#define BOX_MOST (1u << 20)		/* bytes */

struct hdl_part {
	struct hdl_req *req;
	struct hdl_part *next, **link;	/* all */
	struct hdl_ep *ep;		/* of the peer, from the first start on; NULL: this process, or MPI_PROC_NULL */
	int proc;			/* the peer's number, or MPI_PROC_NULL */
	int peer;			/* its rank */
	int32_t tag;
	uint32_t number, epoch;
	uint16_t context;
	bool sends, active;		/* active: from the start until the request is done */
	void *buf;
	char *run;			/* the first byte, of a buffer without holes; else NULL */
	MPI_Count count;		/* elements in all */
	struct hdl_type *type;
	int n;				/* partitions */
	size_t each, total;		/* bytes of a partition, and of all */
	int error;			/* class of the first error in this epoch */
	unsigned inflight;		/* operations of the transport */
	/* sender */
	uint8_t *marks;			/* enum mark, by partition; atomic */
	int *stack, top;		/* list of marked partitions by index, -1: its end; atomic */
	struct hdl_part *dirty_next;
	bool dirty;			/* on `dirty`; atomic */
	unsigned callers;		/* threads that are about to mark or to enter; atomic */
	uint32_t go, id_there;		/* epoch of the last GO, and its id */
	int nsent;			/* partitions; with a box atomic */
	bool box_closed;		/* all partitions of the epoch are in the box, and DATA was sent */
	uint32_t box_open;		/* epoch of the last GO, with a box; atomic */
	uint32_t box_n;			/* the receiver's partitions */
	struct hdl_rkey *rkey;
	/* receiver */
	uint32_t id;
	uint8_t *arrived;		/* enum arrival, by partition; atomic: HERE when all of its bytes are in the buffer */
	size_t *missing;		/* bytes by partition */
	size_t received;		/* bytes; of partitions without bytes: 1 when DATA has come */
	struct hdl_mr *mr;
	/* both */
	struct hdl_part_box *box;	/* the receiver's, as mapped here; NULL: none. The sender sets it before box_open */
	uint64_t box_at;		/* receiver: its place */
};

/* A GO that came before the first start of its sender. */
struct early {
	struct early *next;
	int proc;
	struct part_go go;
	size_t key_len;
	char key[HDL_RKEY_MAX];
};

/* One message or put. */
struct out {
	struct hdl_am_send am;
	struct hdl_rma rma;
	struct hdl_part *part;
	struct part_data head;
	void *packed;
	char key[HDL_RKEY_MAX];
};

struct in {
	struct hdl_fetch fetch;
	struct hdl_part *part;
	uint64_t offset;
};

static struct hdl_part *parts;
static struct early *earlies;
static struct hdl_part **by_id;		/* receivers' requests by id */
static uint32_t nids;
static struct hdl_part *dirty;		/* atomic */
static bool draining;			/* atomic */

static int part_no_memory(void)
{
	hdl_reason_set("out of memory for a partitioned request");
	return MPI_ERR_NO_MEM;
}

/* ---- ends ------------------------------------------------------------------------------------------------- */

static void part_done(struct hdl_part *p)
{
	p->active = false;
	if (!p->sends && !p->error) {
		p->req->status.MPI_SOURCE = p->peer;
		p->req->status.MPI_TAG = p->tag;
		hdl_status_set_bytes(&p->req->status, (MPI_Count)p->total, false);
	}
	hdl_req_complete(p->req, p->error);
}

static void part_check(struct hdl_part *p)
{
	bool all = p->sends ? (p->box ? p->box_closed : p->nsent == p->n) : p->each ? p->received == p->total : p->received;

	if (p->active && !p->inflight && (p->error || all))
		part_done(p);
}

static void part_fail(struct hdl_part *p, int class, const char *why)
{
	char text[256], label[MPI_MAX_OBJECT_NAME];

	if (!p->error) {
		p->error = class;
		snprintf(text, sizeof(text), "partitioned %s rank %d with tag %d in %s: %s", p->sends ? "send to" : "receive from",
			 p->peer, p->tag, hdl_comm_label(p->req->comm, label), why);
		hdl_req_reason(p->req, text);
	}
	part_check(p);
}

static void part_fail_errno(struct hdl_part *p, int err)
{
	int class = hdl_class_of(-err);

	part_fail(p, class, class == MPI_ERR_PROC_ABORTED ? "that rank has failed or cannot be reached" : strerror(-err));
}

/* ---- sending ---------------------------------------------------------------------------------------------- */

static void out_free(struct out *o)
{
	hdl_buf_put(o->packed);
	hdl_buf_put(o);
}

static void out_sent(struct hdl_send *s, int err)
{
	struct out *o = container_of(container_of(s, struct hdl_am_send, send), struct out, am);
	struct hdl_part *p = o->part;

	p->inflight--;
	out_free(o);
	if (err && err != -ECANCELED)	/* ECANCELED: the receiver refused it, and has the error */
		part_fail_errno(p, err);
	else
		part_check(p);
}

/* Sends DATA. data NULL: without a payload. Takes over o. */
static void out_send(struct hdl_part *p, struct out *o, const void *data, size_t len)
{
	int r;

	o->am.send.done = out_sent;
	r = hdl_am_send(p->ep, HDL_AM_PART_DATA, HDL_AM_ORDERED, &o->head, sizeof(o->head), data, len, &o->am);
	if (!r) {
		p->inflight++;
		return;
	}
	out_free(o);
	if (r < 0)
		part_fail_errno(p, r);
}

static void out_put(struct hdl_rma *rma, int err)
{
	struct out *o = container_of(rma, struct out, rma);
	struct hdl_part *p = o->part;

	if (!err) {
		out_send(p, o, NULL, 0);	/* the put still counts, so p is not done in it */
		p->inflight--;
		part_check(p);
		return;
	}
	p->inflight--;
	out_free(o);
	part_fail_errno(p, err);
}

static void send_put(struct hdl_part *p, struct out *o)
{
	int r;

	o->head.put = PUT_BY_RMA;
	o->rma.done = out_put;
	r = hdl_put(p->rkey, o->head.offset, p->run + o->head.offset, o->head.len, &o->rma);
	if (r > 0) {
		out_send(p, o, NULL, 0);
	} else if (!r) {
		p->inflight++;
	} else {
		out_free(o);
		part_fail_errno(p, r);
	}
}

/* Sends `len` bytes of the packed stream. */
static void send_bytes(struct hdl_part *p, uint64_t offset, size_t len)
{
	struct out *o = hdl_buf_get(sizeof(*o));

	if (!o) {
		part_fail(p, MPI_ERR_NO_MEM, "out of memory");
		return;
	}
	o->part = p;
	o->packed = NULL;
	o->head = (struct part_data){ .offset = offset, .len = len, .total = p->total, .id = p->id_there, .epoch = p->epoch };
	if (p->rkey && p->run && len > hdl_vars.eager_max) {
		send_put(p, o);
		return;
	}
	if (!p->run && len) {
		o->packed = hdl_buf_get(len);
		if (!o->packed) {
			out_free(o);
			part_fail(p, MPI_ERR_NO_MEM, "out of memory for packing");
			return;
		}
		hdl_pack(o->packed, p->buf, p->count, p->type, (MPI_Count)offset, len);
	}
	out_send(p, o, o->packed ? o->packed : p->run + offset, len);
}

/* ---- boxes ------------------------------------------------------------------------------------------------ */

/* Stores partition i. Any thread, without the lock. Must: the partition's mark is this thread's. */
static void box_store(struct hdl_part *p, int i)
{
	size_t offset = (size_t)i * p->each;
	char *to = hdl_box_data(p->box, p->box_n) + offset;

	if (p->run)
		memcpy(to, p->run + offset, p->each);
	else
		hdl_pack(to, p->buf, p->count, p->type, (MPI_Count)offset, p->each);
	hdl_box_wrote(p->box, p->box_n, p->total / p->box_n, offset, p->each);
	__atomic_fetch_add(&p->nsent, 1, __ATOMIC_ACQ_REL);
}

/* Tells the receiver that all partitions of the epoch are in the box. Under the lock. */
static void box_close(struct hdl_part *p)
{
	struct out *o = hdl_buf_get(sizeof(*o));

	if (!o) {
		part_fail(p, MPI_ERR_NO_MEM, "out of memory");
		return;
	}
	p->box_closed = true;
	o->part = p;
	o->packed = NULL;
	o->head = (struct part_data){ .total = p->total, .id = p->id_there, .epoch = p->epoch, .put = PUT_IN_BOX };
	out_send(p, o, NULL, 0);
}

/* Copies partition j out of the box, unless another thread has, or waits for the thread that does. Must: the box has it. */
static void box_take(struct hdl_part *p, int j)
{
	uint8_t was = NOT_HERE;
	size_t offset = (size_t)j * p->each;
	const char *from = hdl_box_data(p->box, (uint32_t)p->n) + offset;

	if (!__atomic_compare_exchange_n(&p->arrived[j], &was, IS_COPIED, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&p->arrived[j], __ATOMIC_ACQUIRE) != HERE)
			sched_yield();
		return;
	}
	if (p->run)
		memcpy(p->run + offset, from, p->each);
	else
		hdl_unpack(p->buf, from, p->count, p->type, (MPI_Count)offset, p->each);
	__atomic_store_n(&p->arrived[j], HERE, __ATOMIC_RELEASE);
}

/* Receiver: makes the box, at the first start. Without one messages have the bytes. */
static void box_make(struct hdl_part *p)
{
	if (!p->each || p->total > BOX_MOST || !hdl_proc_is_ours(p->proc) || !hdl_is_local(p->proc))
		return;
	p->box = hdl_tp_share(hdl_mpi_tp, hdl_box_bytes((uint32_t)p->n, p->total), &p->box_at);
	if (p->box)
		__atomic_store_n(&p->box->nonce, (uint64_t)(uintptr_t)p ^ monotonic_ns() << 20 ^ (uint64_t)hdl_job.rank << 1 ^ 1,
				 __ATOMIC_RELEASE);
}

/* Sender: finds the box of a GO. NULL: this process does not map it. */
static struct hdl_part_box *box_of(const struct hdl_part *p, const struct part_go *go)
{
	struct hdl_part_box *b;

	if (!go->box_at || go->total != p->total || !p->each || !go->n || go->total % go->n)
		return NULL;
	b = hdl_tp_shared_at(hdl_mpi_tp, go->box_at, hdl_box_bytes(go->n, go->total));
	return b && __atomic_load_n(&b->nonce, __ATOMIC_ACQUIRE) == go->box_nonce ? b : NULL;
}

/* ---- sending: messages, this process ------------------------------------------------------------------------- */

static void part_arrived(struct hdl_part *p, uint64_t offset, size_t len);

static struct hdl_part *part_find(bool sends, int proc, uint16_t context, int32_t tag, uint32_t number)
{
	struct hdl_part *p = parts;

	while (p && (p->sends != sends || p->proc != proc || p->context != context || p->tag != tag || p->number != number))
		p = p->next;
	return p;
}

/* Copies between two buffers of this process. */
static void self_copy(struct hdl_part *to, struct hdl_part *from, uint64_t offset, size_t len)
{
	char piece[4096];

	if (to->run && from->run) {
		memmove(to->run + offset, from->run + offset, len);
		return;
	}
	for (size_t n; len; offset += n, len -= n) {
		n = len < sizeof(piece) ? len : sizeof(piece);
		hdl_pack(piece, from->buf, from->count, from->type, (MPI_Count)offset, n);
		hdl_unpack(to->buf, piece, to->count, to->type, (MPI_Count)offset, n);
	}
}

/* The receiver of a sender of this process, if both are in the same epoch. */
static struct hdl_part *self_receiver(struct hdl_part *p)
{
	struct hdl_part *to = part_find(false, p->proc, p->context, p->tag, p->number);

	return to && to->active && to->epoch == p->epoch ? to : NULL;
}

static void send_self(struct hdl_part *p, uint64_t offset, size_t len)
{
	struct hdl_part *to = self_receiver(p);

	if (!to)
		return;		/* it has failed in this epoch */
	if (to->total != p->total) {
		part_fail(to, MPI_ERR_TRUNCATE, "the sender's partitions have another number of bytes in all");
		return;
	}
	self_copy(to, p, offset, len);
	part_arrived(to, offset, len);
}

static bool part_may_go(struct hdl_part *p)
{
	return p->active && !p->error && (p->ep ? p->go == p->epoch : self_receiver(p) != NULL);
}

/* Sends a run of TAKEN partitions around partition i. */
static void part_send_run(struct hdl_part *p, int i)
{
	int low = i, high = i;

	while (low > 0 && __atomic_load_n(&p->marks[low - 1], __ATOMIC_RELAXED) == TAKEN)
		low--;
	while (high + 1 < p->n && __atomic_load_n(&p->marks[high + 1], __ATOMIC_RELAXED) == TAKEN)
		high++;
	for (int k = low; k <= high; k++)
		__atomic_store_n(&p->marks[k], SENT, __ATOMIC_RELAXED);
	p->nsent += high - low + 1;
	/* without any bytes one message for all tells the receiver that they are ready */
	if (!p->each && p->nsent < p->n)
		return;
	if (p->ep)
		send_bytes(p, (uint64_t)low * p->each, (size_t)(high - low + 1) * p->each);
	else
		send_self(p, (uint64_t)low * p->each, (size_t)(high - low + 1) * p->each);
}

/* Sends the marked partitions, if the receiver has started. Under the lock. */
static void part_push(struct hdl_part *p)
{
	int first, i;

	if (!part_may_go(p))
		return;
	/* acquire: pairs with the release in hdl_pready. The partitions' bytes are there */
	first = __atomic_exchange_n(&p->top, -1, __ATOMIC_ACQUIRE);
	p->inflight++;		/* p is not done, and freed, in the loops */
	if (p->box) {
		for (i = first; i >= 0; i = p->stack[i]) {
			__atomic_store_n(&p->marks[i], SENT, __ATOMIC_RELAXED);
			box_store(p, i);
		}
		if (!p->box_closed && __atomic_load_n(&p->nsent, __ATOMIC_ACQUIRE) == p->n)
			box_close(p);
		first = -1;
	}
	for (i = first; i >= 0; i = p->stack[i])
		__atomic_store_n(&p->marks[i], TAKEN, __ATOMIC_RELAXED);
	for (i = first; i >= 0 && !p->error; i = p->stack[i])
		if (__atomic_load_n(&p->marks[i], __ATOMIC_RELAXED) == TAKEN)
			part_send_run(p, i);
	p->inflight--;
	part_check(p);
}

/* Under the lock. */
static void part_drain(void)
{
	struct hdl_part *p = __atomic_exchange_n(&dirty, NULL, __ATOMIC_ACQUIRE), *next;

	for (; p; p = next) {
		next = p->dirty_next;
		__atomic_store_n(&p->dirty, false, __ATOMIC_SEQ_CST);	/* before the marks are read: a later one enters again */
		part_push(p);
	}
}

static void part_enter_dirty(struct hdl_part *p)
{
	struct hdl_part *head;

	if (__atomic_exchange_n(&p->dirty, true, __ATOMIC_SEQ_CST))
		return;
	head = __atomic_load_n(&dirty, __ATOMIC_RELAXED);
	do
		p->dirty_next = head;
	while (!__atomic_compare_exchange_n(&dirty, &head, p, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

/* Whether any thread may store into the box. */
static bool box_is_open(struct hdl_part *p)
{
	/* acquire: pairs with the release in part_take_go */
	return __atomic_load_n(&p->box_open, __ATOMIC_ACQUIRE) == p->epoch;
}

bool hdl_pready(struct hdl_part *p, int i)
{
	int top;

	if (box_is_open(p)) {
		if (__atomic_exchange_n(&p->marks[i], SENT, __ATOMIC_RELAXED) != UNMARKED)
			return false;
		box_store(p, i);
		return true;
	}
	if (__atomic_exchange_n(&p->marks[i], MARKED, __ATOMIC_RELAXED) != UNMARKED)
		return false;
	top = __atomic_load_n(&p->top, __ATOMIC_RELAXED);
	do
		p->stack[i] = top;
	while (!__atomic_compare_exchange_n(&p->top, &top, i, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	return true;
}

void hdl_pready_begin(struct hdl_part *p)
{
	__atomic_fetch_add(&p->callers, 1, __ATOMIC_RELAXED);
}

void hdl_pready_end(struct hdl_part *p)
{
	/* Another thread may have marked partitions before GO came: it enters them. */
	if (box_is_open(p) && __atomic_load_n(&p->nsent, __ATOMIC_ACQUIRE) < p->n &&
	    __atomic_load_n(&p->top, __ATOMIC_RELAXED) < 0) {
		__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELEASE);
		return;
	}
	if (!hdl_threads) {
		__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELAXED);
		part_push(p);
		return;
	}
	part_enter_dirty(p);
	__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELEASE);	/* p may be freed from here on */
	/* Dekker: a thread that enters a request and finds `draining` set has entered it before the drainer looks at `dirty` for the
	 * last time */
	while (__atomic_load_n(&dirty, __ATOMIC_SEQ_CST) && !__atomic_exchange_n(&draining, true, __ATOMIC_SEQ_CST)) {
		hdl_lock_take();
		part_drain();
		hdl_lock_give();
		__atomic_store_n(&draining, false, __ATOMIC_SEQ_CST);
	}
}

/* ---- receiving -------------------------------------------------------------------------------------------- */

/* Bytes have come into the buffer. */
static void part_arrived(struct hdl_part *p, uint64_t offset, size_t len)
{
	p->received += p->each ? len : 1;
	if (!p->each)
		memset(p->arrived, 1, (size_t)p->n);
	for (size_t j = p->each ? offset / p->each : 0, n; len; j++, offset += n, len -= n) {
		n = (j + 1) * p->each - offset;
		if (n > len)
			n = len;
		p->missing[j] -= n;
		if (!p->missing[j])	/* pairs with the acquire in hdl_parrived */
			__atomic_store_n(&p->arrived[j], 1, __ATOMIC_RELEASE);
	}
	part_check(p);
}

static void in_unpack(const struct hdl_fetch *f, uint64_t at, const void *from, size_t n)
{
	const struct in *in = container_of(f, const struct in, fetch);

	hdl_unpack(in->part->buf, from, in->part->count, in->part->type, (MPI_Count)(in->offset + at), n);
}

static void in_done(struct hdl_fetch *f, int err)
{
	struct in *in = container_of(f, struct in, fetch);
	struct hdl_part *p = in->part;
	uint64_t offset = in->offset;
	size_t len = f->len;

	p->inflight--;
	hdl_buf_put(in);
	if (err)
		part_fail_errno(p, err);
	else if (p->error)
		part_check(p);
	else
		part_arrived(p, offset, len);
}

static void part_fetch(struct hdl_part *p, const struct hdl_am *am, uint64_t offset, size_t len)
{
	struct in *in = hdl_buf_get(sizeof(*in));
	int err;

	if (!in) {
		hdl_ep_refuse(am->ep, am->rts);
		part_fail(p, MPI_ERR_NO_MEM, "out of memory");
		return;
	}
	in->part = p;
	in->offset = offset;
	in->fetch.done = in_done;
	in->fetch.unpack = p->run ? NULL : in_unpack;
	p->inflight++;
	err = p->run ? hdl_ep_fetch(am->ep, am->rts, p->run + offset, len, &in->fetch) :
		       hdl_ep_fetch_runs(am->ep, am->rts, len, &in->fetch);
	if (!err)
		return;
	p->inflight--;
	hdl_buf_put(in);
	part_fail_errno(p, err);
}

static int part_proc_of(struct hdl_ep *ep)
{
	return hdl_ep_note(ep)->rank;
}

static void on_data(void *context, const struct hdl_am *am)
{
	struct part_data d = { .id = UINT32_MAX };
	struct hdl_part *p;

	(void)context;
	if (am->head_len == sizeof(d))
		memcpy(&d, am->head, sizeof(d));
	p = d.id < nids ? by_id[d.id] : NULL;
	if (!p || !p->active || p->epoch != d.epoch || p->proc != part_proc_of(am->ep) || p->error) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		return;		/* of an epoch that has failed here */
	}
	if (d.total != p->total || d.offset > p->total || d.len > p->total - d.offset || (!d.put && am->len != d.len)) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		part_fail(p, MPI_ERR_TRUNCATE, "the sender's partitions have another number of bytes in all");
		return;
	}
	if (d.put == PUT_IN_BOX) {
		for (int j = 0; p->box && j < p->n; j++)
			box_take(p, j);
		p->received = p->total;
		part_check(p);
		return;
	}
	if (am->rts) {
		part_fetch(p, am, d.offset, d.len);
		return;
	}
	if (!d.put && p->run)
		memcpy(p->run + d.offset, am->data, d.len);
	else if (!d.put && d.len)
		hdl_unpack(p->buf, am->data, p->count, p->type, (MPI_Count)d.offset, d.len);
	part_arrived(p, d.offset, d.len);
}

static void part_take_go(struct hdl_part *p, const struct part_go *go, const void *key, size_t key_len)
{
	p->go = go->epoch;
	p->id_there = go->id;
	if (!p->box && go->epoch == 1 && (p->box = box_of(p, go)))
		p->box_n = go->n;
	/* The receiver refuses the bytes of a sender that has another total, and may free its buffer then: no put may be under way.
	 * Without the key, messages have the bytes. */
	if (!p->box && key_len && go->total == p->total && !p->rkey && hdl_rkey_unpack(p->ep, key, key_len, &p->rkey))
		p->rkey = NULL;
	if (p->box)
		__atomic_store_n(&p->box_open, go->epoch, __ATOMIC_RELEASE);
	part_push(p);
}

static void on_go(void *context, const struct hdl_am *am)
{
	struct part_go go;
	struct hdl_part *p;
	struct early *e;
	int proc = part_proc_of(am->ep);
	size_t n = am->data && am->len <= HDL_RKEY_MAX ? am->len : 0;

	(void)context;
	if (am->rts)
		hdl_ep_refuse(am->ep, am->rts);
	if (am->head_len != sizeof(go))
		return;
	memcpy(&go, am->head, sizeof(go));
	p = part_find(true, proc, go.context, go.tag, go.number);
	if (p && p->epoch) {
		part_take_go(p, &go, am->data, n);
		return;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		hdl_out_of_memory("a partitioned receive that has no send yet", sizeof(*e));
	e->next = earlies;
	e->proc = proc;
	e->go = go;
	e->key_len = n;
	memcpy(e->key, am->data, n);
	earlies = e;
}

static void go_sent(struct hdl_send *s, int err)
{
	struct out *o = container_of(container_of(s, struct hdl_am_send, send), struct out, am);
	struct hdl_part *p = o->part;

	p->inflight--;
	hdl_buf_put(o);
	if (err && err != -ECANCELED)
		part_fail_errno(p, err);
	else
		part_check(p);
}

static int send_go(struct hdl_part *p)
{
	struct part_go go = { .total = p->total, .tag = p->tag, .number = p->number, .epoch = p->epoch, .id = p->id, .context = p->context,
			      .n = (uint32_t)p->n };
	struct out *o = hdl_buf_get(sizeof(*o));
	size_t n = 0;
	int r;

	if (!o)
		return part_no_memory();
	if (p->epoch == 1 && !p->box)
		box_make(p);
	if (p->box) {
		go.box_at = p->box_at;
		go.box_nonce = p->box->nonce;
	}
	o->part = p;
	o->am.send.done = go_sent;
	if (p->epoch == 1 && p->run && p->total > hdl_vars.eager_max && !p->mr &&
	    !hdl_mr_register(hdl_mpi_tp, p->run, p->total, HDL_MR_WRITE, &p->mr))
		n = hdl_mr_pack(p->mr, o->key);
	r = hdl_am_send(p->ep, HDL_AM_PART_GO, HDL_AM_ORDERED, &go, sizeof(go), n ? o->key : NULL, n, &o->am);
	if (!r) {
		p->inflight++;
		return MPI_SUCCESS;
	}
	hdl_buf_put(o);
	if (r > 0)
		return MPI_SUCCESS;
	hdl_reason_set("partitioned receive from rank %d with tag %d: %s", p->peer, p->tag, strerror(-r));
	return hdl_class_of(-r);
}

/* A GO for this sender may have come ahead of its first start. */
static void part_take_early(struct hdl_part *p)
{
	for (struct early **e = &earlies, *found; (found = *e); e = &found->next) {
		if (found->proc != p->proc || found->go.context != p->context || found->go.tag != p->tag || found->go.number != p->number)
			continue;
		*e = found->next;
		part_take_go(p, &found->go, found->key, found->key_len);
		free(found);
		return;
	}
}

/* ---- starting, making, freeing ------------------------------------------------------------------------------- */

static int part_begin(struct hdl_req *req, void *arg)
{
	struct hdl_part *p = arg;
	int rc, failed;

	if (p->proc == MPI_PROC_NULL) {
		hdl_status_empty(&req->status, MPI_PROC_NULL);
		hdl_req_complete(req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	if (!p->ep && p->proc != hdl_job.rank)
		p->ep = hdl_comm_ep(req->comm, p->peer);	/* not in hdl_part_init, which is local: the peer may not be there yet */
	failed = p->ep ? hdl_ep_note(p->ep)->failed : 0;
	if (failed) {
		hdl_reason_set("partitioned %s rank %d with tag %d: that rank has failed or cannot be reached",
			       p->sends ? "send to" : "receive from", p->peer, p->tag);
		return MPI_ERR_PROC_ABORTED;
	}
	p->epoch++;
	p->error = MPI_SUCCESS;
	p->active = true;
	req->ep = p->ep;
	if (p->sends) {
		p->nsent = 0;
		p->box_closed = false;
		memset(p->marks, UNMARKED, (size_t)p->n);
		__atomic_store_n(&p->top, -1, __ATOMIC_RELEASE);
		if (p->ep && p->epoch == 1)
			part_take_early(p);
		return MPI_SUCCESS;
	}
	p->received = 0;
	memset(p->arrived, 0, (size_t)p->n);
	for (int i = 0; i < p->n; i++)
		p->missing[i] = p->each;
	rc = p->ep ? send_go(p) : MPI_SUCCESS;
	if (rc) {
		p->active = false;
		p->epoch--;
		return rc;
	}
	if (!p->ep) {
		struct hdl_part *from = part_find(true, p->proc, p->context, p->tag, p->number);

		if (from)
			part_push(from);
	}
	return MPI_SUCCESS;
}

static void part_free_memory(struct hdl_part *p)
{
	if (p->id < nids)
		by_id[p->id] = NULL;
	free(p->marks);
	free(p->stack);
	free(p->arrived);
	free(p->missing);
	free(p);
}

static void part_free(void *arg)
{
	struct hdl_part *p = arg;

	while (__atomic_load_n(&p->callers, __ATOMIC_ACQUIRE))
		sched_yield();
	part_drain();
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	if (p->rkey)
		hdl_rkey_release(p->rkey);
	if (p->mr)
		hdl_mr_deregister(p->mr);
	if (p->box && !p->sends)
		hdl_tp_unshare(hdl_mpi_tp, p->box);
	hdl_type_release(p->type);
	part_free_memory(p);
}

/* Gives a receiver its id. Returns false without memory. */
static bool part_take_id(struct hdl_part *p)
{
	struct hdl_part **more;
	uint32_t i = 0;

	while (i < nids && by_id[i])
		i++;
	if (i == nids) {
		more = realloc(by_id, (nids + 64) * sizeof(*by_id));
		if (!more)
			return false;
		by_id = more;
		memset(by_id + nids, 0, 64 * sizeof(*by_id));
		nids += 64;
	}
	by_id[i] = p;
	p->id = i;
	return true;
}

/* Returns the counter of the requests with one tag, peer and direction; NULL without memory. */
static struct hdl_part_count *part_counter(const struct hdl_part *p, struct hdl_comm *comm)
{
	struct hdl_part_count *c = comm->parts;

	while (c && (c->proc != p->proc || c->tag != p->tag || c->sends != p->sends))
		c = c->next;
	if (c || !(c = malloc(sizeof(*c))))
		return c;
	*c = (struct hdl_part_count){ comm->parts, p->proc, p->tag, p->sends, 0 };
	comm->parts = c;
	return c;
}

/* Fills in buffer and sizes. Returns an error class with hdl_reason_set. */
static int part_set_buffer(struct hdl_part *p, void *buf, int n, MPI_Count count, struct hdl_type *t)
{
	void *first = buf;

	p->n = n;
	p->buf = buf;
	p->type = t;
	if (__builtin_mul_overflow((MPI_Count)n, count, &p->count) || __builtin_mul_overflow((size_t)count, (size_t)t->size, &p->each) ||
	    __builtin_mul_overflow(p->each, (size_t)n, &p->total)) {
		hdl_reason_set("%d partitions of %lld elements of %lld bytes do not fit the address space", n, (long long)count,
			       (long long)t->size);
		return MPI_ERR_COUNT;
	}
	if (hdl_type_is_run(t, p->count) || hdl_type_find_run(t, p->count, &first))
		p->run = first;
	return MPI_SUCCESS;
}

static bool part_alloc(struct hdl_part *p)
{
	size_t n = (size_t)p->n;

	if (p->sends)
		return (p->marks = calloc(n, 1)) && (p->stack = calloc(n, sizeof(*p->stack)));
	return (p->arrived = calloc(n, 1)) && (p->missing = calloc(n, sizeof(*p->missing)));
}

int hdl_part_init(bool sends, void *buf, int n, MPI_Count count, const struct hdl_type *t, int peer, int tag, struct hdl_comm *comm,
		  struct hdl_req **req)
{
	struct hdl_part *p = calloc(1, sizeof(*p));
	struct hdl_part_count *count_of = NULL;
	int rc;

	*req = NULL;
	if (!p)
		return part_no_memory();
	p->sends = sends;
	p->peer = peer;
	p->tag = tag;
	p->context = comm->context;
	p->proc = peer == MPI_PROC_NULL ? peer : hdl_comm_proc(comm, peer);
	p->top = -1;
	p->id = UINT32_MAX;
	rc = part_set_buffer(p, buf, n, count, (struct hdl_type *)t);
	if (!rc && (!part_alloc(p) || !(count_of = part_counter(p, comm)) || (!sends && !part_take_id(p))))
		rc = part_no_memory();
	if (!rc)
		rc = hdl_collective_init(comm, part_begin, part_free, p, req);
	if (rc) {
		part_free_memory(p);
		return rc;
	}
	p->number = count_of->made++;
	hdl_type_retain(p->type);
	p->req = *req;
	p->next = parts;
	p->link = &parts;
	if (parts)
		parts->link = &p->next;
	parts = p;
	return MPI_SUCCESS;
}

/* ---- inquiry ---------------------------------------------------------------------------------------------- */

struct hdl_part *hdl_req_part(const struct hdl_req *req)
{
	return hdl_req_is_persistent_collective(req) && ((const struct hdl_op *)req)->persistent.begin == part_begin ?
	       hdl_req_collective_arg(req) : NULL;
}

bool hdl_part_sends(const struct hdl_part *p)
{
	return p->sends;
}

int hdl_part_count(const struct hdl_part *p)
{
	return p->n;
}

bool hdl_part_is_null(const struct hdl_part *p)
{
	return p->proc == MPI_PROC_NULL;
}

bool hdl_parrived(struct hdl_part *p, int i)
{
	if (__atomic_load_n(&p->arrived[i], __ATOMIC_ACQUIRE) == HERE)
		return true;
	if (!p->box || !hdl_box_has(p->box, (uint32_t)p->n, p->each, (uint32_t)i, p->epoch))
		return false;
	box_take(p, i);
	return true;
}

/* ---- the library's beginning and end --------------------------------------------------------------------------- */

void hdl_partitioned_peer_failed(int proc)
{
	for (struct hdl_part *p = parts, *next; p; p = next) {
		next = p->next;
		if (p->proc == proc && p->active)
			part_fail(p, MPI_ERR_PROC_ABORTED, "that rank has failed or cannot be reached");
	}
}

int hdl_partitioned_open(struct hdl_tp *tp)
{
	int err = hdl_am_register(tp, HDL_AM_PART_GO, on_go, NULL);

	return err ? err : hdl_am_register(tp, HDL_AM_PART_DATA, on_data, NULL);
}

void hdl_partitioned_close(void)
{
	for (struct early *e = earlies, *next; e; e = next) {
		next = e->next;
		free(e);
	}
	earlies = NULL;
	free(by_id);
	by_id = NULL;
	nids = 0;
	parts = NULL;		/* requests that the program did not free */
}
