/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a collective of pieces (parcels.c) does not go by a line: messages, and copies that a receiver makes.
 *
 * A piece that a line has no room for: the line has the length alone, and says AS_MESSAGE. Then a message with the operation's tag follows,
 * of the host executor's sort, and its receiver takes that when it has seen the line. So does each edge but the first of several between
 * two neighbors; of these one of no bytes is nothing, as on the host: where only one end thinks so there is no error, but a receive that
 * waits, or a message that nobody takes. A message needs both ranks in the library, as on the host.
 *
 * What is so long that a copy between processes is quicker than a message its receiver reads from where the giver has it, as in reads.c,
 * if the device allows it: then the line has the address, and says IS_SHOWN. Who has read it, or refused it, tells the giver by a message
 * without data, whose tag no other has (HDL_COPIED_TAG). Not of persistent ones: their requests have no place on the communicator's queues.
 * It needs only its receiver there.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/parcels.h"

/* Of what is shown, bytes that are copied before they are unpacked, at most: they stay in the cache. */
#define UNPACKED ((size_t)64 << 10)

/* ---- messages ------------------------------------------------------------------------------------------------------ */

static struct hdl_node node_of(const struct parcel *p, const char *at)
{
	return (struct hdl_node){ .kind = HDL_N_SEND, .src_space = HDL_SP_SEND, .dst_space = HDL_SP_NONE, .peer = p->peer,
				  .sub = hdl_sub(p->edge), .src_off = (uintptr_t)at, .len = p->bytes };
}

static void sent(struct hdl_send *send, int err)
{
	struct parcel *p = container_of(send, struct parcel, send);
	const struct hdl_node n = node_of(p, NULL);

	p->sending = false;
	p->of->pending--;
	if (err)
		hdl_run_error(p->of->run, hdl_run_errno(p->of->run, &n, err));
}

static void send_node(struct hdl_run *run, struct parcel *p, const struct hdl_node *n)
{
	int rc;

	if (hdl_run_send_now(run, n))
		return;
	p->send = (struct hdl_send){ .done = sent };
	p->sending = true;
	p->of->pending++;
	rc = hdl_run_send(run, n, &p->send);
	if (!rc)
		return;
	p->sending = false;
	p->of->pending--;
	if (rc < 0)
		hdl_run_error(run, hdl_run_errno(run, n, rc));
}

char *hdl_parcel_given_at(const struct parcel *p)
{
	return p->copy ? p->copy : p->bytes ? hdl_parcel_run(&p->piece) : NULL;
}

void hdl_parcel_send(struct hdl_run *run, struct parcel *p)
{
	const struct hdl_node n = node_of(p, hdl_parcel_given_at(p));

	send_node(run, p, &n);
}

__attribute__((noinline, cold)) void hdl_parcel_refuse(struct hdl_run *run, const struct parcel *p, uint64_t came)
{
	hdl_reason_set("%llu bytes came from rank %d where %zu were expected: the counts or types of this collective differ between ranks",
		       (unsigned long long)came, p->peer, p->bytes);
	hdl_run_error(run, came > p->bytes ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT);
}

static void end_receive(struct parcel *p, struct hdl_req *req, size_t expected)
{
	struct hdl_run *run = p->of->run;

	if (unlikely(req->error)) {
		if (req->error == MPI_ERR_PROC_ABORTED)
			hdl_coll_lose(run->comm->coll, p->peer);
		hdl_req_explain(req);
		hdl_run_error(run, req->error);
	} else if (!hdl_status_cancelled(&req->status) && unlikely((size_t)hdl_status_bytes(&req->status) != expected)) {
		hdl_parcel_refuse(run, p, (uint64_t)hdl_status_bytes(&req->status));
	}
	hdl_req_free(req);
}

static void received(struct hdl_req *req)
{
	struct parcel *p = req->notify_arg;

	p->req = NULL;
	p->of->pending--;
	end_receive(p, req, p->bytes);
}

static void was_read(struct hdl_req *req)
{
	struct parcel *p = req->notify_arg;

	p->req = NULL;
	p->of->pending--;
	/* who does not say that it has read it may do so yet, unless it cannot */
	if (unlikely(req->error))
		hdl_reads_stop(((struct hdl_cc *)p->of->run->comm->coll)->off[hdl_off_index(HDL_EXEC_DIRECT, false)]);
	end_receive(p, req, 0);
}

static void receive_as(struct hdl_run *run, struct parcel *p, const struct hdl_piece *piece, int32_t tag, void (*notify)(struct hdl_req *))
{
	struct hdl_req *req;
	int rc = hdl_irecv((void *)piece->buf, piece->count, piece->type, p->peer, run->tag | tag, run->comm,
			   (uint16_t)(run->comm->context + 1), &req);

	if (rc) {
		if (rc == MPI_ERR_PROC_ABORTED)
			hdl_coll_lose(run->comm->coll, p->peer);
		hdl_run_error(run, rc);
		return;
	}
	p->req = req;
	p->of->pending++;
	req->notify_arg = p;
	if (req->done)
		notify(req);
	else
		req->notify = notify;
}

void hdl_parcel_receive(struct hdl_run *run, struct parcel *p)
{
	receive_as(run, p, &p->piece, (int32_t)hdl_sub(p->edge), received);
}

/* ---- copies --------------------------------------------------------------------------------------------------------- */

static bool is_same(const struct hdl_piece *a, const struct hdl_piece *b)
{
	return a->buf == b->buf && a->count == b->count && a->type == b->type;
}

char *hdl_parcel_shown_at(struct hdl_off *h, struct parcel *p)
{
	struct hdl_parcels *x = p->of;
	char *at = hdl_parcel_given_at(p);

	if (p->copy)
		return at;
	/* what all get is copied once */
	if (x->last_left && is_same(&x->last_left->piece, &p->piece))
		return x->last_left->copy;
	if (x->left + p->bytes > HDL_LEFT_IN_BLOCKS ||
	    !hdl_leaving_pays(h, x->run->plan->key.coll == HDL_ALLGATHERV ? 0 : x->left + p->bytes) || !hdl_parcel_get_copy(p, p->bytes))
		return at;
	hdl_leave_copy(h, p->copy, at, p->bytes);
	x->left += p->bytes;
	x->last_left = p;
	return p->copy;
}

void hdl_parcel_await_reader(struct hdl_run *run, struct parcel *p)
{
	const struct hdl_piece nothing = { .type = hdl_type_get(MPI_BYTE) };

	receive_as(run, p, &nothing, HDL_COPIED_TAG, was_read);
}

void hdl_parcel_tell_giver(struct hdl_run *run, struct parcel *p)
{
	struct hdl_node n = node_of(p, NULL);

	n.len = 0;
	n.sub = HDL_COPIED_TAG;
	send_node(run, p, &n);
}

void hdl_parcel_copy(struct hdl_run *run, struct parcel *p, const char *line)
{
	memcpy(&p->at, line - sizeof(p->at), sizeof(p->at));
	if (!hdl_parcel_run(&p->piece) && !hdl_parcel_get_copy(p, p->bytes < UNPACKED ? p->bytes : UNPACKED)) {
		hdl_reason_set("%s: no memory to unpack what rank %d has", hdl_coll_name(run->args.coll), p->peer);
		hdl_run_error(run, MPI_ERR_NO_MEM);
		hdl_parcel_tell_giver(run, p);
		return;
	}
	p->copies = true;
	p->off = 0;
	p->position = 0;
	p->of->pending++;
	p->of->ncopies++;
}

/* As far as it goes now. Whether that is to the end. */
static bool copy_on(struct hdl_off *h, struct hdl_run *run, struct parcel *p)
{
	size_t most = p->copy ? UNPACKED : HDL_READS_TURN;

	while (p->off < p->bytes) {
		size_t left = p->bytes - p->off, len = left < most ? left : most;
		char *to = p->copy ? p->copy : hdl_parcel_run(&p->piece) + p->off;

		if (!p->position && hdl_parcels_more(run))
			return false;
		if (!p->position) {
			p->position = hdl_copy_post(h, run, p->peer, false, to, p->at + p->off, len);
			p->of->spent += p->position ? len : 0;
		}
		if (!p->position || h->broken || !hdl_copy_done(h, p->peer, p->position))
			return false;
		if (p->copy)
			hdl_unpack((void *)p->piece.buf, p->copy, p->piece.count, p->piece.type, (MPI_Count)p->off, len);
		p->position = 0;
		p->off += len;
	}
	return true;
}

void hdl_parcels_copy(struct hdl_off *h, struct hdl_run *run)
{
	struct hdl_parcels *x = run->parcels;

	for (struct parcel *p = x->get, *end = p + x->nget; x->ncopies && p < end; p++)
		if (p->copies && copy_on(h, run, p)) {
			p->copies = false;
			x->ncopies--;
			x->pending--;
			hdl_parcel_tell_giver(run, p);
		}
}

bool hdl_parcels_more(const struct hdl_run *run)
{
	return run->parcels->spent >= HDL_READS_TURN;
}

/* ---- after an error ---------------------------------------------------------------------------------------------------- */

static void withdraw(struct hdl_run *run, struct parcel *p)
{
	if (p->withdrawn || (!p->sending && !p->req))
		return;
	p->withdrawn = true;
	if (p->sending)
		hdl_send_withdraw(&p->send, p->peer, run->comm);
	else
		hdl_req_cancel(p->req);
}

bool hdl_parcels_stop(struct hdl_run *run)
{
	struct hdl_parcels *x = run->parcels;

	for (struct parcel *p = x->give, *end = p + x->ngive; p < end; p++)
		withdraw(run, p);
	for (struct parcel *p = x->get, *end = p + x->nget; p < end; p++) {
		withdraw(run, p);
		x->pending -= p->copies;
		p->copies = false;
	}
	x->ncopies = 0;
	return !x->pending;
}
