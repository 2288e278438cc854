/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement: the messages between its members, and failures of members. comm_cid.h explains; the state machine is in
 * comm_cid.c. */
#include "p2p/comm/cid_messages.h"
#include "p2p/fault/fault.h"

#include <stdlib.h>
#include <string.h>

unsigned hdl_agreements;
struct hdl_cid_agreement *hdl_cid_under_way;
struct hdl_cid_news hdl_cid_news;

static struct hdl_cid_agreement *ready_head, **ready_tail = &ready_head;

void hdl_cid_one_less(struct hdl_cid_agreement *a)
{
	if (--a->pending || a->ready)
		return;
	a->ready = true;
	a->next_ready = NULL;
	*ready_tail = a;
	ready_tail = &a->next_ready;
}

struct hdl_cid_agreement *hdl_cid_take_ready(void)
{
	struct hdl_cid_agreement *a = ready_head;

	ready_head = NULL;
	ready_tail = &ready_head;
	return a;
}

void hdl_cid_fail(struct hdl_cid_agreement *a, int failed)
{
	const char *why = hdl_reason_take();

	if (!a->failed)
		snprintf(a->why, sizeof(a->why), "%s", why);
	a->failed = true;
	a->failed_proc = a->failed_proc ? a->failed_proc : failed;
	hdl_cid_news.leaders |= a->state == HDL_CID_EXCHANGE;
}

/* Returns 1 + the process to which a failure of a message from or to this member is attributed. */
static int cid_failed_by(struct hdl_comm *comm, int peer, uint16_t context)
{
	int revoked = hdl_recv_revoked(comm, context | 1);

	return revoked ? revoked : 1 + hdl_comm_proc(comm, peer);
}

struct hdl_cid_named hdl_cid_name(int failed)
{
	struct hdl_cid_named none = { 0 };
	int proc = failed - 1;

	return !failed ? none : (struct hdl_cid_named){ .job = hdl_proc_job(proc),
							.rank_plus_1 = 1 + (uint32_t)hdl_proc_rank(proc),
							.gave_up = proc == hdl_job.rank || hdl_proc_gave_up(proc) };
}

int hdl_cid_named_proc(const struct hdl_cid_named *named)
{
	int proc = named->rank_plus_1 ? hdl_proc_of(named->job, named->rank_plus_1 - 1) : -1;

	if (proc >= 0 && named->gave_up)
		hdl_proc_note_gave_up(proc);
	return 1 + proc;
}

void hdl_cid_forget(struct hdl_cid_agreement *a, const struct hdl_req *req)
{
	a->bitmap_recv = a->bitmap_recv == req ? NULL : a->bitmap_recv;
	a->bitmap_send = a->bitmap_send == req ? NULL : a->bitmap_send;
	for (struct hdl_op **link = &a->sends; *link; link = &(*link)->next)
		if (&(*link)->req == req) {
			*link = (*link)->next;
			break;
		}
}

void hdl_cid_check_bitmap(struct hdl_cid_agreement *a)
{
	const struct hdl_cid_bitmap *theirs = &a->link->theirs.bitmap;

	if (theirs->flags & HDL_CID_FAILED)
		hdl_cid_fail(a, hdl_cid_named_proc(&theirs->failed));
}

/* ---- failed members ------------------------------------------------------------------------------------ */

int hdl_cid_position(const struct hdl_cid_agreement *a)
{
	int position = a->me - a->root;

	return position < 0 ? position + a->n : position;
}

int hdl_cid_rank_at(const struct hdl_cid_agreement *a, int position)
{
	int member = (position + a->root) % a->n;

	return a->group ? hdl_comm_rank_of(a->comm, hdl_group_proc(a->group, member)) : member;
}

/* Returns true if members may have given up this agreement: the agreement's communicator is revoked, and either all members of
 * the communicator call the constructor (group is NULL), or the failed process is one of the group. */
static bool cid_is_revoked(const struct hdl_cid_agreement *a, uint16_t context)
{
	int failed = hdl_recv_revoked(a->comm, context | 1);

	if (likely(!failed))
		return false;
	return !a->group || hdl_group_rank_of((struct hdl_group *)a->group, failed - 1) != MPI_UNDEFINED;
}

/* Returns true if proc's failure ends the wait for messages of this agreement from comm (the communicator of the member's group,
 * or the link's). Only agreements without a communicator (HDL_CONTEXT_GROUPS) are concerned. A failure in the other group
 * concerns messages of the link only, since members of the own group send what they have. */
static bool cid_concerns(const struct hdl_cid_agreement *a, struct hdl_comm *comm, int proc)
{
	if (comm != a->link_comm)
		return a->context == HDL_CONTEXT_GROUPS && hdl_comm_has(comm, proc);
	return a->link_context == HDL_CONTEXT_GROUPS &&
	       (hdl_comm_has(comm, proc) || (a->context == HDL_CONTEXT_GROUPS && hdl_comm_has(a->comm, proc)));
}

/* Returns 1 + a failed process that concerns messages from comm; 0: there is none. */
static int cid_failed_member(const struct hdl_cid_agreement *a, struct hdl_comm *comm)
{
	for (unsigned i = 0; i < hdl_ft_count; i++)
		if (hdl_ft_list[i].fails_cids && cid_concerns(a, comm, hdl_ft_list[i].proc))
			return 1 + hdl_ft_list[i].proc;
	return 0;
}

/* A receiver that has given up does not fetch announced messages. That receiver has a record of the failed process, or gets a
 * failure notice (cid_send_failed, collectives/fault/fault.c), and needs nothing else. Messages of collective constructors are
 * sent all the same: a receiver that has given up refuses them, and the refusal ends the send. */
bool hdl_cid_is_in_vain(const struct hdl_cid_agreement *a, struct hdl_comm *comm, uint16_t context, int tag)
{
	if (a->context == HDL_CONTEXT_GROUPS)
		return cid_failed_member(a, comm);
	return !hdl_cid_is_collective(tag) && cid_is_revoked(a, context);
}

/* ---- messages ------------------------------------------------------------------------------------------ */

static void cid_request_done(struct hdl_req *req)
{
	struct hdl_cid_agreement *a = req->notify_arg;

	if (req->error) {
		const struct hdl_op *op = (const struct hdl_op *)req;

		hdl_req_explain(req);
		hdl_cid_fail(a, req->error == MPI_ERR_PROC_ABORTED ? cid_failed_by(req->comm, op->peer, op->context) : 0);
	}
	if (req == a->bitmap_recv && !req->error)
		hdl_cid_check_bitmap(a);
	hdl_cid_forget(a, req);
	hdl_req_free(req);
	hdl_cid_one_less(a);
}

static struct hdl_req *cid_watch(struct hdl_cid_agreement *a, int rc, struct hdl_req *req)
{
	if (rc) {
		hdl_cid_fail(a, 0);
		return NULL;
	}
	a->pending++;
	req->notify_arg = a;
	if (req->done) {
		cid_request_done(req);
		return NULL;
	}
	req->notify = cid_request_done;
	return req;
}

struct hdl_req *hdl_cid_send(struct hdl_cid_agreement *a, const void *data, size_t bytes, int dest, int tag,
			     struct hdl_comm *comm, uint16_t context)
{
	struct hdl_req *req;
	int rc;

	if (hdl_cid_is_in_vain(a, comm, context, tag))
		return NULL;
	rc = hdl_isend(data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), dest, tag, comm, context, false, &req);
	if (!rc && !req->done) {
		struct hdl_op *op = (struct hdl_op *)req;

		op->next = a->sends;
		a->sends = op;
	}
	return cid_watch(a, rc, req);
}

struct hdl_req *hdl_cid_recv(struct hdl_cid_agreement *a, void *data, size_t bytes, int src, int tag, struct hdl_comm *comm,
		      uint16_t context)
{
	struct hdl_req *req;
	int rc, failed = context == HDL_CONTEXT_GROUPS ? cid_failed_member(a, comm) :
			 cid_is_revoked(a, context)    ? hdl_recv_revoked(comm, context | 1) :
							 0;

	if (failed) {
		hdl_cid_fail(a, failed);
		return NULL;
	}
	rc = hdl_irecv(data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), src, tag, comm, context, &req);
	return cid_watch(a, rc, req);
}

/* ---- a member fails while an agreement is under way ---------------------------------------------------- */

/* Returns true if one of the two positions is the parent of the other one in the tree: the parent's position is the child's
 * without the child's lowest bit. */
static bool cid_are_neighbors(int position, int other)
{
	return (position & (position - 1)) == other || (other & (other - 1)) == position;
}

/* in larger agreements only the neighbors in the tree get the message, and send it on to their neighbors */
#define FT_DIRECT_MAX 64

/* Names the failed process to the other members of an agreement without a communicator. The agreement's own messages cannot:
 * members may have given up already, or have not called the constructor yet. */
static void cid_send_failed(struct hdl_cid_agreement *a, int proc)
{
	bool ended = hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED;

	for (int position = 0; position < a->n && cid_concerns(a, a->comm, proc); position++) {
		int rank = hdl_cid_rank_at(a, position), to = hdl_comm_proc(a->comm, rank);

		if (to != hdl_job.rank && to != proc &&
		    (a->n <= FT_DIRECT_MAX || cid_are_neighbors(position, hdl_cid_position(a))))
			hdl_ft_send_notice(rank, a->comm, HDL_CONTEXT_GROUPS, proc, ended);
	}
	if (a->link_comm && hdl_comm_proc(a->link_comm, a->link_rank) != hdl_job.rank &&
	    hdl_comm_proc(a->link_comm, a->link_rank) != proc)
		hdl_ft_send_notice(a->link_rank, a->link_comm, HDL_CONTEXT_GROUPS, proc, ended);
}

static struct hdl_op *cid_take_send(struct hdl_cid_agreement *a)
{
	for (struct hdl_op **link = &a->sends, *op; (op = *link); link = &op->next)
		if (hdl_cid_is_in_vain(a, op->req.comm, op->context, op->tag)) {
			*link = op->next;
			return op;
		}
	return NULL;
}

static void cid_withdraw(struct hdl_cid_agreement *a)
{
	struct hdl_op *op;

	while ((op = cid_take_send(a)))
		hdl_send_cancel(op);
}

void hdl_cid_fail_by_member(struct hdl_cid_agreement *a, int proc)
{
	hdl_cid_fail(a, 1 + proc);
	if (a->context != HDL_CONTEXT_GROUPS)
		return;
	cid_send_failed(a, proc);
	cid_withdraw(a);
}

bool hdl_cid_needs(const struct hdl_cid_agreement *a, int proc)
{
	return cid_concerns(a, a->comm, proc) || (a->link_comm && cid_concerns(a, a->link_comm, proc));
}

static bool cid_is_from_failed(const struct hdl_op *op, void *arg)
{
	return op->req.notify == cid_request_done && op->context == HDL_CONTEXT_GROUPS &&
	       cid_concerns(op->req.notify_arg, op->req.comm, *(int *)arg);
}

int hdl_cid_apply_failures(void)
{
	int n = 0;

	hdl_cid_news.failures = false;
	for (unsigned i = 0; i < hdl_ft_count; i++) {
		int proc = hdl_ft_list[i].proc;

		if (!hdl_ft_list[i].fails_cids || hdl_ft_list[i].applied)
			continue;
		hdl_ft_list[i].applied = true;
		/* before the receives fail: their errors would name the source, which may be alive */
		for (struct hdl_cid_agreement *a = hdl_cid_under_way; a; a = a->next)
			if (hdl_cid_needs(a, proc)) {
				hdl_cid_fail_by_member(a, proc);
				n++;
			}
		hdl_recv_fail(hdl_mpi_matching, cid_is_from_failed, &proc);
	}
	return n;
}

void hdl_cid_outside(struct hdl_comm *comm, int more)
{
	comm->agreeing += more;
	hdl_agreements += (unsigned)more;
}

static bool cid_is_of_revoked(const struct hdl_op *op, void *arg)
{
	return (op->context | 1) == *(const uint16_t *)arg && op->req.notify == cid_request_done &&
	       cid_is_revoked(op->req.notify_arg, op->context);
}

void hdl_cid_revoke(uint16_t context)
{
	hdl_recv_fail(hdl_mpi_matching, cid_is_of_revoked, &context);
	for (struct hdl_cid_agreement *a = hdl_cid_under_way; a; a = a->next) {
		cid_withdraw(a);
		/* the leader's own group has failed, and waits for the leader */
		if (a->state == HDL_CID_EXCHANGE && a->context == context && cid_is_revoked(a, context))
			hdl_cid_fail(a, hdl_recv_revoked(a->comm, context));
	}
}

static bool cid_link_leads_to(const struct hdl_cid_agreement *a, uint16_t context, int proc)
{
	return a->link_comm && a->link_context == context && hdl_comm_proc(a->link_comm, a->link_rank) == proc;
}

bool hdl_cid_has_link(uint16_t context, int proc, int tag)
{
	for (const struct hdl_cid_agreement *a = hdl_cid_under_way; a; a = a->next)
		if (cid_link_leads_to(a, context, proc) && a->link_tag == tag)
			return true;
	return false;
}

void hdl_cid_peer_knows(uint16_t context, int proc, int failed)
{
	for (struct hdl_cid_agreement *a = hdl_cid_under_way; a; a = a->next)
		if (a->state == HDL_CID_EXCHANGE && !a->failed && cid_link_leads_to(a, context, proc) &&
		    hdl_cid_is_leader_link(context, a->link_tag) && hdl_ft_record_at(failed) >= a->reported)
			hdl_cid_fail(a, 1 + failed);
}

void hdl_cid_note_failed(int proc)
{
	hdl_ft_record(proc)->fails_cids = true;
	hdl_cid_news.failures = true;
}

void hdl_cid_fail_member(int proc)
{
	hdl_cid_note_failed(proc);
	hdl_cid_apply_failures();
}

static int cid_ended_in(struct hdl_comm *comm)
{
	for (int r = 0; r < comm->size; r++) {
		int proc = hdl_comm_proc(comm, r);

		if (proc != hdl_job.rank && hdl_proc_is_gone(proc))
			return proc;
	}
	return -1;
}

int hdl_cid_find_ended(void)
{
	int proc = -1;

	for (struct hdl_cid_agreement *a = hdl_cid_under_way; a && proc < 0; a = a->next) {
		if (a->context == HDL_CONTEXT_GROUPS)
			proc = cid_ended_in(a->comm);
		if (proc < 0 && a->link_comm && a->link_context == HDL_CONTEXT_GROUPS)
			proc = cid_ended_in(a->link_comm);
	}
	return proc;
}
