/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitioned communication (part.h): the receiving half. The end of a request's epoch, bytes that arrive. */
#include "p2p/part.h"

#include "lines/lines.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

struct in {
	struct hdl_fetch fetch;
	struct hdl_part *part;
	uint64_t offset;
};

struct hdl_part *hdl_parts;
static struct hdl_part **by_id;		/* receivers' requests by id */
static uint32_t nids;
static struct hdl_part *watched;	/* active receives with a box */
static int nboxes;

#define LOOK_MOST 64		/* most partitions of a box that a turn of progress checks */

/* ---- ends ------------------------------------------------------------------------------------------------- */

static void part_epoch_done(struct hdl_part *p)
{
	p->active = false;
	if (p->look_link) {
		*p->look_link = p->look_next;
		if (p->look_next)
			p->look_next->look_link = p->look_link;
		p->look_link = NULL;
	}
	if (!p->sends && !p->error) {
		p->req->status.MPI_SOURCE = p->peer;
		p->req->status.MPI_TAG = p->tag;
		hdl_status_set_bytes(&p->req->status, (MPI_Count)p->total, false);
	}
	hdl_req_complete(p->req, p->error);
}

void hdl_part_check(struct hdl_part *p)
{
	bool all = p->sends ? (p->box ? p->box_closed : p->nsent == p->n) : p->each ? p->received == p->total : p->received;

	if (p->active && !p->inflight && (p->error || all))
		part_epoch_done(p);
}

void hdl_part_fail(struct hdl_part *p, int class, const char *why)
{
	char text[256], label[MPI_MAX_OBJECT_NAME];

	if (!p->error) {
		p->error = class;
		snprintf(text, sizeof(text), "partitioned %s rank %d with tag %d in %s: %s",
			 p->sends ? "send to" : "receive from", p->peer, p->tag, hdl_comm_label(p->req->comm, label), why);
		hdl_req_reason(p->req, text);
	}
	hdl_part_check(p);
}

void hdl_part_fail_errno(struct hdl_part *p, int err)
{
	int class = hdl_class_of(-err);

	hdl_part_fail(p, class, class == MPI_ERR_PROC_ABORTED ? "that rank has failed or cannot be reached" : strerror(-err));
}

struct hdl_part *hdl_part_find(bool sends, int proc, uint16_t context, int32_t tag, uint32_t number)
{
	struct hdl_part *p = hdl_parts;

	while (p && (p->sends != sends || p->proc != proc || p->context != context || p->tag != tag || p->number != number))
		p = p->next;
	return p;
}

/* ---- ids of receivers -------------------------------------------------------------------------------------- */

bool hdl_part_take_id(struct hdl_part *p)
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

void hdl_part_free_id(struct hdl_part *p)
{
	if (p->id < nids)
		by_id[p->id] = NULL;
}

void hdl_part_forget_ids(void)
{
	watched = NULL;
	nboxes = 0;
	free(by_id);
	by_id = NULL;
	nids = 0;
}

/* ---- receiving -------------------------------------------------------------------------------------------- */

void hdl_part_box_take(struct hdl_part *p, int j)
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
		lines_copy_in(p->run + offset, from, p->each);
	else
		hdl_unpack(p->buf, from, p->count, p->type, (MPI_Count)offset, p->each);
	__atomic_store_n(&p->arrived[j], HERE, __ATOMIC_RELEASE);
}

/* Copies partitions that the box has, of the next `most` that are not HERE, and ends the epoch if that was the last of all.
 * Returns how many were copied. */
static int box_look(struct hdl_part *p, int most)
{
	int found = 0;

	while (p->all_here < p->n && __atomic_load_n(&p->arrived[p->all_here], __ATOMIC_ACQUIRE) == HERE)
		p->all_here++;
	for (int j = p->all_here; j < p->n && most; j++) {
		if (__atomic_load_n(&p->arrived[j], __ATOMIC_ACQUIRE) == HERE)
			continue;
		most--;
		if (hdl_box_has(p->box, (uint32_t)p->n, p->each, (uint32_t)j, p->epoch)) {
			hdl_part_box_take(p, j);
			found++;
		}
	}
	while (p->all_here < p->n && __atomic_load_n(&p->arrived[p->all_here], __ATOMIC_ACQUIRE) == HERE)
		p->all_here++;
	if (p->all_here == p->n) {
		p->received = p->total;
		hdl_part_check(p);
	}
	return found;
}

static int look_at_boxes(void *arg)
{
	int found = 0;

	(void)arg;
	for (struct hdl_part *p = watched, *next; p; p = next) {
		next = p->look_next;
		found += box_look(p, LOOK_MOST);
	}
	return found;
}

void hdl_part_box_watch(struct hdl_part *p)
{
	p->all_here = 0;
	p->look_next = watched;
	p->look_link = &watched;
	if (watched)
		watched->look_link = &p->look_next;
	watched = p;
}

int hdl_part_box_count(int more)
{
	int err = more > 0 && !nboxes ? hdl_tp_progress_add(hdl_mpi_tp, look_at_boxes, NULL) : 0;

	if (err)
		return err;
	nboxes += more;
	if (!nboxes)
		hdl_tp_progress_remove(hdl_mpi_tp, look_at_boxes, NULL);
	return 0;
}

void hdl_part_arrived(struct hdl_part *p, uint64_t offset, size_t len)
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
	hdl_part_check(p);
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
		hdl_part_fail_errno(p, err);
	else if (p->error)
		hdl_part_check(p);
	else
		hdl_part_arrived(p, offset, len);
}

static void part_fetch(struct hdl_part *p, const struct hdl_am *am, uint64_t offset, size_t len)
{
	struct in *in = hdl_buf_get(sizeof(*in));
	int err;

	if (!in) {
		hdl_ep_refuse(am->ep, am->rts);
		hdl_part_fail(p, MPI_ERR_NO_MEM, "out of memory");
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
	hdl_part_fail_errno(p, err);
}

int hdl_part_proc_of(struct hdl_ep *ep)
{
	return hdl_ep_note(ep)->rank;
}

/* Returns true if DATA belongs to this pair. A receive that fails may be freed while DATA is in flight, and its id given to
 * another receive:
 *     1. The sender's total of bytes differs: the receive fails by the first DATA, and the program frees the request.
 *     2. The program makes and starts the receive of another tag, which gets the id.
 *     3. The rest of the first DATA comes, and would be written to the second buffer. */
static bool part_is_of(const struct hdl_part *p, const struct part_data *d)
{
	return p->number == d->number && p->tag == d->tag && p->context == d->context;
}

void hdl_part_on_data(void *context, const struct hdl_am *am)
{
	struct part_data d = { .id = UINT32_MAX };
	struct hdl_part *p;

	(void)context;
	if (am->head_len == sizeof(d))
		memcpy(&d, am->head, sizeof(d));
	p = d.id < nids ? by_id[d.id] : NULL;
	if (!p || !p->active || p->epoch != d.epoch || p->proc != hdl_part_proc_of(am->ep) || p->error ||
	    !part_is_of(p, &d)) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		return;		/* of an epoch that has failed here */
	}
	if (d.put == PUT_IN_BOX) {
		if (p->box)
			box_look(p, p->n);
		return;
	}
	if (d.total != p->total || d.offset > p->total || d.len > p->total - d.offset || (!d.put && am->len != d.len)) {
		if (am->rts)
			hdl_ep_refuse(am->ep, am->rts);
		hdl_part_fail(p, MPI_ERR_TRUNCATE, "the sender's partitions have another number of bytes in all");
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
	hdl_part_arrived(p, d.offset, d.len);
}
