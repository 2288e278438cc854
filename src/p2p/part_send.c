/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (part.h): the sending half. MPI_Pready, and the ways of a partition: a box, a put, a
 * message, this process. */
#include "lines/lines.h"
#include "p2p/part.h"

#include <string.h>

static struct hdl_part *dirty;		/* atomic */
static bool draining;			/* atomic */

/* ---- sending ---------------------------------------------------------------------------------------------- */

static void part_out_free(struct part_out *o)
{
	hdl_buf_put(o->packed);
	hdl_buf_put(o);
}

static void out_sent(struct hdl_send *s, int err)
{
	struct part_out *o = container_of(container_of(s, struct hdl_am_send, send), struct part_out, am);
	struct hdl_part *p = o->part;

	p->inflight--;
	part_out_free(o);
	if (err && err != -ECANCELED)	/* ECANCELED: the receiver refused the message, and has the error */
		hdl_part_fail_errno(p, err);
	else
		hdl_part_check(p);
}

/* Sends DATA. data NULL: without a payload. Takes over o. */
static void part_out_send(struct hdl_part *p, struct part_out *o, const void *data, size_t len)
{
	int r;

	o->am.send.done = out_sent;
	r = hdl_am_send(p->ep, HDL_AM_PART_DATA, HDL_AM_ORDERED, &o->head, sizeof(o->head), data, len, &o->am);
	if (!r) {
		p->inflight++;
		return;
	}
	part_out_free(o);
	if (r < 0)
		hdl_part_fail_errno(p, r);
}

static void out_put(struct hdl_rma *rma, int err)
{
	struct part_out *o = container_of(rma, struct part_out, rma);
	struct hdl_part *p = o->part;

	if (!err) {
		part_out_send(p, o, NULL, 0);	/* the put still counts, so p is not done in it */
		p->inflight--;
		hdl_part_check(p);
		return;
	}
	p->inflight--;
	part_out_free(o);
	hdl_part_fail_errno(p, err);
}

static void send_put(struct hdl_part *p, struct part_out *o)
{
	int r;

	o->head.put = PUT_BY_RMA;
	o->rma.done = out_put;
	r = hdl_put(p->rkey, o->head.offset, p->run + o->head.offset, o->head.len, &o->rma);
	if (r > 0) {
		part_out_send(p, o, NULL, 0);
	} else if (!r) {
		p->inflight++;
	} else {
		part_out_free(o);
		hdl_part_fail_errno(p, r);
	}
}

/* Sends `len` bytes of the packed stream. */
static void send_bytes(struct hdl_part *p, uint64_t offset, size_t len)
{
	struct part_out *o = hdl_buf_get(sizeof(*o));

	if (!o) {
		hdl_part_fail(p, MPI_ERR_NO_MEM, "out of memory");
		return;
	}
	o->part = p;
	o->packed = NULL;
	o->head = (struct part_data){ .offset = offset, .len = len, .total = p->total, .id = p->id_there, .epoch = p->epoch,
				      .number = p->number, .tag = p->tag, .context = p->context };
	if (p->rkey && p->run && len > hdl_vars.eager_max) {
		send_put(p, o);
		return;
	}
	if (!p->run && len) {
		o->packed = hdl_buf_get(len);
		if (!o->packed) {
			part_out_free(o);
			hdl_part_fail(p, MPI_ERR_NO_MEM, "out of memory for packing");
			return;
		}
		hdl_pack(o->packed, p->buf, p->count, p->type, (MPI_Count)offset, len);
	}
	part_out_send(p, o, o->packed ? o->packed : p->run + offset, len);
}

/* Fetches the lines that box_store(p, i) will write: the receiver's core has them from the epoch before. */
static inline void box_fetch(const struct hdl_part *p, int i)
{
	size_t offset = (size_t)i * p->each;
	const char *to = hdl_box_data(p->box, p->box_n) + offset;

	for (size_t at = 0; at < p->each && at < LINES_AHEAD; at += 64)
		lines_fetch_own(to + at);
	lines_fetch_own(hdl_box_count(p->box, p->box_n, (uint32_t)(offset / (p->total / p->box_n))));
}

/* Stores partition i. Any thread, without the lock. Must: the partition's mark is this thread's. Returns true if partition i is
 * the last of the epoch: the caller must call box_close. If false, p may be freed. */
static bool box_store(struct hdl_part *p, int i)
{
	size_t offset = (size_t)i * p->each;
	size_t theirs = p->total / p->box_n;
	char *to = hdl_box_data(p->box, p->box_n) + offset;

	if (p->run)
		lines_copy(to, p->run + offset, p->each, LINES_AHEAD + 1, true);
	else
		hdl_pack(to, p->buf, p->count, p->type, (MPI_Count)offset, p->each);
	hdl_box_wrote(p->box, p->box_n, theirs, p->epoch, offset, p->each);
	return __atomic_fetch_add(&p->nsent, 1, __ATOMIC_ACQ_REL) == p->n - 1;
}

/* Wakes the receiver: all partitions of the epoch are in the box. Completes the send when no message or put of the send is in
 * flight. Must hold the lock. */
static void box_close(struct hdl_part *p)
{
	struct part_out *o = hdl_buf_get(sizeof(*o));

	if (!o) {
		hdl_part_fail(p, MPI_ERR_NO_MEM, "out of memory");
		return;
	}
	p->box_closed = true;
	o->part = p;
	o->packed = NULL;
	o->head = (struct part_data){ .total = p->total, .id = p->id_there, .epoch = p->epoch, .put = PUT_IN_BOX,
				      .number = p->number, .tag = p->tag, .context = p->context };
	part_out_send(p, o, NULL, 0);
}

/* ---- sending within this process ------------------------------------------------------------------------------- */

/* Copies from a send to a receive of this process. */
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

/* Returns the receive of a send from this process to itself; NULL: the two are not in the same epoch. */
static struct hdl_part *self_receiver(struct hdl_part *p)
{
	struct hdl_part *to = hdl_part_find(false, p->proc, p->context, p->tag, p->number);

	return to && to->active && to->epoch == p->epoch ? to : NULL;
}

static void send_self(struct hdl_part *p, uint64_t offset, size_t len)
{
	struct hdl_part *to = self_receiver(p);

	if (!to)
		return;		/* the send has failed in this epoch */
	if (to->total != p->total) {
		hdl_part_fail(to, MPI_ERR_TRUNCATE, "the sender's partitions have another number of bytes in all");
		return;
	}
	self_copy(to, p, offset, len);
	hdl_part_arrived(to, offset, len);
}

/* Returns true if any thread may store into the box: the receiver has begun the epoch. Without the lock. */
static bool box_is_open(struct hdl_part *p)
{
	struct hdl_part_box *box;

	if (likely(__atomic_load_n(&p->box_open, __ATOMIC_ACQUIRE) == p->epoch))
		return true;
	/* acquire: pairs with the release in part_take_go */
	box = __atomic_load_n(&p->box, __ATOMIC_ACQUIRE);
	if (!box || !hdl_box_may_store(box, p->box_nonce, p->epoch))
		return false;
	__atomic_store_n(&p->box_open, p->epoch, __ATOMIC_RELEASE);
	return true;
}

/* Returns true if the receiver has begun the epoch. Otherwise asks the receiver to send GO as a message (`asked`). */
static bool box_ask(struct hdl_part *p)
{
	/* sequentially consistent, and ahead of the look: part_box.h */
	__atomic_store_n(&p->box->asked, p->epoch, __ATOMIC_SEQ_CST);
	__atomic_store_n(&p->asked, p->epoch, __ATOMIC_SEQ_CST);
	return box_is_open(p);
}

static bool part_may_go(struct hdl_part *p)
{
	if (!p->active || p->error)
		return false;
	if (p->box)
		return box_is_open(p) || box_ask(p);
	return p->ep ? p->go == p->epoch : self_receiver(p) != NULL;
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
	/* partitions without bytes: one DATA message makes all of them ready at the receiver */
	if (!p->each && p->nsent < p->n)
		return;
	if (p->ep)
		send_bytes(p, (uint64_t)low * p->each, (size_t)(high - low + 1) * p->each);
	else
		send_self(p, (uint64_t)low * p->each, (size_t)(high - low + 1) * p->each);
}

void hdl_part_push(struct hdl_part *p)
{
	bool last = false;
	int first, i;

	if (!part_may_go(p))
		return;
	/* acquire: pairs with the release in hdl_pready. The partitions' bytes are there. SEQ_CST: pairs with the fence in
	 * hdl_pready_end */
	first = __atomic_exchange_n(&p->top, -1, __ATOMIC_SEQ_CST);
	p->inflight++;		/* p is not done, and freed, in the loops */
	if (p->box) {
		for (i = first; i >= 0; i = p->stack[i]) {
			__atomic_store_n(&p->marks[i], SENT, __ATOMIC_RELAXED);
			last |= box_store(p, i);
		}
		if (last)
			box_close(p);
		first = -1;
	}
	for (i = first; i >= 0; i = p->stack[i])
		__atomic_store_n(&p->marks[i], TAKEN, __ATOMIC_RELAXED);
	for (i = first; i >= 0 && !p->error; i = p->stack[i])
		if (__atomic_load_n(&p->marks[i], __ATOMIC_RELAXED) == TAKEN)
			part_send_run(p, i);
	p->inflight--;
	hdl_part_check(p);
}

void hdl_part_drain(void)
{
	struct hdl_part *p = __atomic_exchange_n(&dirty, NULL, __ATOMIC_ACQUIRE), *next;

	for (; p; p = next) {
		next = p->dirty_next;
		__atomic_store_n(&p->dirty, false, __ATOMIC_SEQ_CST);	/* before the marks are read: the thread of a later mark
									 * enters the request again */
		hdl_part_push(p);
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

/* Marks and stores partition i. Must: the box is open. Returns false if the partition is marked already. */
static inline bool pready_in_box(struct hdl_part *p, int i)
{
	box_fetch(p, i);
	if (__atomic_exchange_n(&p->marks[i], SENT, __ATOMIC_RELAXED) != UNMARKED)
		return false;
	if (likely(!box_store(p, i)))
		return true;
	if (hdl_threads)
		hdl_lock_take();
	p->inflight++;
	box_close(p);
	p->inflight--;
	hdl_part_check(p);
	if (hdl_threads)
		hdl_lock_give();
	return true;
}

bool hdl_pready_one(struct hdl_part *p, int i)
{
	bool once;

	/* partitions that other threads have marked before the box was open are sent first, below */
	if (likely(box_is_open(p) && __atomic_load_n(&p->top, __ATOMIC_RELAXED) < 0))
		return pready_in_box(p, i);
	hdl_pready_begin(p);
	once = hdl_pready(p, i);
	hdl_pready_end(p);
	return once;
}

bool hdl_pready(struct hdl_part *p, int i)
{
	int top;

	if (box_is_open(p))
		return pready_in_box(p, i);
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
	/* Another thread may have marked partitions before GO came: that thread enters the request. */
	if (box_is_open(p) && __atomic_load_n(&p->top, __ATOMIC_RELAXED) < 0) {
		__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELEASE);
		return;
	}
	/* A caller before has asked the receiver for GO, and the box is still not open. So the receiver stores `go` after this
	 * load, and then finds `asked`; the push at the arrival of GO finds this caller's marks. fence: pairs with the
	 * exchange in hdl_part_push */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&p->asked, __ATOMIC_SEQ_CST) == p->epoch && !box_is_open(p)) {
		__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELEASE);
		return;
	}
	if (!hdl_threads) {
		__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELAXED);
		hdl_part_push(p);
		return;
	}
	part_enter_dirty(p);
	__atomic_fetch_sub(&p->callers, 1, __ATOMIC_RELEASE);	/* p may be freed from here on */
	/* Dekker: a thread that enters a request and finds `draining` set has entered it before the drainer looks at
	 * `dirty` for the last time */
	while (__atomic_load_n(&dirty, __ATOMIC_SEQ_CST) && !__atomic_exchange_n(&draining, true, __ATOMIC_SEQ_CST)) {
		hdl_lock_take();
		hdl_part_drain();
		hdl_lock_give();
		__atomic_store_n(&draining, false, __ATOMIC_SEQ_CST);
	}
}
