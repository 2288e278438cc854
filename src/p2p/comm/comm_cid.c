/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on context ids and tables: see comm_cid.h. */
#include "p2p/comm/comm_cid.h"
#include "p2p/comm/leader_link.h"
#include "p2p/comm/comm.h"
#include "p2p/comm/group.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"

#include <stdlib.h>
#include <string.h>

#define WORDS	HDL_CID_BITMAP_WORDS
#define IDS	(64 * WORDS)

static uint64_t used[WORDS];
static bool used_is_taken;

unsigned hdl_agreements;
static struct hdl_cid_agreement *under_way;
static struct hdl_cid_agreement *ready_head, **ready_tail = &ready_head;

static bool losses_news;	/* not carried out yet: what follows for the agreements under way */
static bool some_leave;		/* leaders that have failed stand on a bridge */

/* Results of a round. */
enum { AGAIN = -2, NO_ID = -3, LOST = -4, UNEQUAL = -5, REFUSED = -6 };	/* LOST: and who; REFUSED: remote_n is the error class */

static bool comm_cid_is_over(int id)
{
	return id == LOST || id == UNEQUAL || id == REFUSED;
}

enum step { UP, BRIDGE, BRIDGE_SIGN, BRIDGE_TABLE, DOWN, DOWN_TABLES, SPREAD };

static void comm_cid_advance(struct hdl_cid_agreement *a);

/* ---- ids ----------------------------------------------------------------------------------------------- */

void hdl_id_take(unsigned id)
{
	used[id / 64] |= (uint64_t)1 << id % 64;
}

void hdl_id_give(unsigned id)
{
	used[id / 64] &= ~((uint64_t)1 << id % 64);
}

void hdl_id_reset(void)
{
	memset(used, 0, sizeof(used));
	hdl_ft_records_reset();
	losses_news = some_leave = false;
}

static int lowest_free(const uint64_t *mask)
{
	for (int w = 0; w < (int)WORDS; w++)
		if (~mask[w])
			return w * 64 + __builtin_ctzl(~mask[w]);
	return NO_ID;
}

/* Whether this agreement may have the bitmap in this round. */
static bool comm_cid_take(const struct hdl_cid_agreement *a)
{
	if (used_is_taken)
		return false;
	if (!a->number)
		return a->blocking && !hdl_threads && under_way == a && !a->next;
	for (const struct hdl_cid_agreement *b = under_way; b; b = b->next)
		if (b->number && b->number < a->number)
			return false;
	return true;
}

/* ---- messages ------------------------------------------------------------------------------------------ */

/* May be called from within the transport, where nothing may be posted: what follows is for progress. */
static void one_less(struct hdl_cid_agreement *a)
{
	if (--a->pending || a->ready)
		return;
	a->ready = true;
	a->next_ready = NULL;
	*ready_tail = a;
	ready_tail = &a->next_ready;
}

static void comm_cid_failed(struct hdl_cid_agreement *a, int lost)
{
	const char *why = hdl_reason_take();

	if (!a->failed)
		snprintf(a->why, sizeof(a->why), "%s", why);
	a->failed = true;
	a->lost = a->lost ? a->lost : lost;
	some_leave |= a->step == BRIDGE;
}

/* Who is to be named when a message from or to this member fails. */
static int lost_by(struct hdl_comm *comm, int peer, uint16_t context)
{
	int revoked = hdl_recv_revoked(comm, context | 1);

	return revoked ? revoked : 1 + hdl_comm_proc(comm, peer);
}

/* Who is to be named (1 + the process's number), in a message; 0: nobody, or nobody that is known here. */
static struct hdl_cid_named name_lost(int lost)
{
	return lost ? (struct hdl_cid_named){ .job = hdl_proc_job(lost - 1), .place = 1 + (uint32_t)hdl_proc_rank(lost - 1),
						.lives = lost - 1 == hdl_job.rank || hdl_proc_gave_up(lost - 1) } :
		      (struct hdl_cid_named){ 0 };
}

static int lost_named(const struct hdl_cid_named *named)
{
	int proc = named->place ? hdl_proc_of(named->job, named->place - 1) : -1;

	if (proc >= 0 && named->lives)
		hdl_proc_note_gave_up(proc);
	return 1 + proc;
}

/* It is not the agreement's any more. */
static void comm_cid_forget(struct hdl_cid_agreement *a, const struct hdl_req *req)
{
	a->words_in = a->words_in == req ? NULL : a->words_in;
	a->words_out = a->words_out == req ? NULL : a->words_out;
	for (struct hdl_op **link = &a->sends; *link; link = &(*link)->next)
		if (&(*link)->req == req) {
			*link = (*link)->next;
			break;
		}
}

/* Of the other group, if they have come: then that it has failed is all that is to be known. */
static void hear_words(struct hdl_cid_agreement *a)
{
	const struct hdl_cid_bitmap *theirs = &a->bridges->theirs.words;

	if (theirs->state & HDL_CID_FAILED)
		comm_cid_failed(a, lost_named(&theirs->lost));
}

static void comm_cid_request_done(struct hdl_req *req)
{
	struct hdl_cid_agreement *a = req->notify_arg;

	if (req->error) {
		const struct hdl_op *op = (const struct hdl_op *)req;

		hdl_req_explain(req);
		comm_cid_failed(a, req->error == MPI_ERR_PROC_ABORTED ? lost_by(req->comm, op->peer, op->context) : 0);
	}
	if (req == a->words_in && !req->error)
		hear_words(a);
	comm_cid_forget(a, req);
	hdl_req_free(req);
	one_less(a);
}

/* Whether members may have given up what is agreed on through this context: the communicator was revoked, and this is a collective
 * constructor, or the way to another group, or the rank that has ended is one of the group. */
static bool is_over_for(const struct hdl_cid_agreement *a, uint16_t context)
{
	int lost = hdl_recv_revoked(a->comm, context | 1);

	if (likely(!lost))
		return false;
	return !a->group || hdl_group_rank_of((struct hdl_group *)a->group, lost - 1) != MPI_UNDEFINED;
}

/* Whether nothing is to be waited for any more from the members of this group, the agreement's own or the one across the bridge, when this
 * process has failed. The end of a member across concerns what comes by the bridge only: its own group's members send what they have. */
static bool comm_cid_concerns(const struct hdl_cid_agreement *a, struct hdl_comm *comm, int proc)
{
	if (comm != a->bridge)
		return a->context == HDL_CONTEXT_GROUPS && hdl_comm_has(comm, proc);
	return a->bridge_context == HDL_CONTEXT_GROUPS &&
	       (hdl_comm_has(comm, proc) || (a->context == HDL_CONTEXT_GROUPS && hdl_comm_has(a->comm, proc)));
}

/* 1 + a process that has failed, and whom that concerns; or 0. */
static int dead_of(const struct hdl_cid_agreement *a, struct hdl_comm *comm)
{
	for (unsigned i = 0; i < hdl_nlosses; i++)
		if (hdl_losses[i].fails_groups && comm_cid_concerns(a, comm, hdl_losses[i].proc))
			return 1 + hdl_losses[i].proc;
	return 0;
}

/* The request, while it is under way. */
static struct hdl_req *comm_cid_watch(struct hdl_cid_agreement *a, int rc, struct hdl_req *req)
{
	if (rc) {
		comm_cid_failed(a, 0);
		return NULL;
	}
	a->pending++;
	req->notify_arg = a;
	if (req->done) {
		comm_cid_request_done(req);
		return NULL;
	}
	req->notify = comm_cid_request_done;
	return req;
}

static int comm_cid_rank_of(const struct hdl_cid_agreement *a, int place)
{
	int member = (place + a->root) % a->n;

	return a->group ? hdl_comm_rank_of(a->comm, hdl_group_proc(a->group, member)) : member;
}

/* Whether the receiver may have given up, and would not fetch what is announced to it. It knows who has failed, or is told (tell, and
 * collectives/fault/fault.c), and needs nothing more. What collective constructors send is refused by whoever has given up, and tells the others. */
static bool is_in_vain(const struct hdl_cid_agreement *a, struct hdl_comm *comm, uint16_t context, int tag)
{
	if (a->context == HDL_CONTEXT_GROUPS)
		return dead_of(a, comm);
	return !hdl_cid_is_collective(tag) && is_over_for(a, context);
}

static struct hdl_req *send_to(struct hdl_cid_agreement *a, const void *data, size_t bytes, int dest, int tag, struct hdl_comm *comm,
		    uint16_t context)
{
	struct hdl_req *req;
	int rc;

	if (is_in_vain(a, comm, context, tag))
		return NULL;
	rc = hdl_isend(data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), dest, tag, comm, context, false, &req);
	if (!rc && !req->done) {
		struct hdl_op *op = (struct hdl_op *)req;

		op->next = a->sends;
		a->sends = op;
	}
	return comm_cid_watch(a, rc, req);
}

static struct hdl_req *recv_from(struct hdl_cid_agreement *a, void *data, size_t bytes, int src, int tag, struct hdl_comm *comm,
		      uint16_t context)
{
	struct hdl_req *req;
	int rc, lost = context == HDL_CONTEXT_GROUPS ? dead_of(a, comm) : is_over_for(a, context) ? hdl_recv_revoked(comm, context | 1) : 0;

	if (lost) {
		comm_cid_failed(a, lost);
		return NULL;
	}
	rc = hdl_irecv(data, (MPI_Count)bytes, hdl_type_get(MPI_BYTE), src, tag, comm, context, &req);
	return comm_cid_watch(a, rc, req);
}

static int comm_cid_place_of(const struct hdl_cid_agreement *a)
{
	int place = a->me - a->root;

	return place < 0 ? place + a->n : place;
}

/* In the tree: the place of a parent is its child's without the lowest bit. */
static bool are_near(int place, int other)
{
	return (place & (place - 1)) == other || (other & (other - 1)) == place;
}

#define TELL_ALL 64	/* of more members the next ones in the tree are told, who tell theirs */

/* Without a communicator. No step is left that would tell the others: they may have given up likewise, or come to this constructor later. */
static void comm_cid_tell(struct hdl_cid_agreement *a, int proc)
{
	bool ended = hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED;

	for (int place = 0; place < a->n && comm_cid_concerns(a, a->comm, proc); place++) {
		int rank = comm_cid_rank_of(a, place), to = hdl_comm_proc(a->comm, rank);

		if (to != hdl_job.rank && to != proc && (a->n <= TELL_ALL || are_near(place, comm_cid_place_of(a))))
			hdl_send_lost(rank, a->comm, HDL_CONTEXT_GROUPS, proc, ended);
	}
	if (a->bridge && hdl_comm_proc(a->bridge, a->bridge_rank) != hdl_job.rank && hdl_comm_proc(a->bridge, a->bridge_rank) != proc)
		hdl_send_lost(a->bridge_rank, a->bridge, HDL_CONTEXT_GROUPS, proc, ended);
}

static struct hdl_op *take_send(struct hdl_cid_agreement *a)
{
	for (struct hdl_op **link = &a->sends, *op; (op = *link); link = &op->next)
		if (is_in_vain(a, op->req.comm, op->context, op->tag)) {
			*link = op->next;
			return op;
		}
	return NULL;
}

static void comm_cid_withdraw(struct hdl_cid_agreement *a)
{
	struct hdl_op *op;

	while ((op = take_send(a)))
		hdl_send_cancel(op);
}

/* A member has failed without which this cannot be agreed on. */
static void comm_cid_give_up(struct hdl_cid_agreement *a, int proc)
{
	comm_cid_failed(a, 1 + proc);
	if (a->context != HDL_CONTEXT_GROUPS)
		return;
	comm_cid_tell(a, proc);
	comm_cid_withdraw(a);
}

static bool is_concerned(const struct hdl_cid_agreement *a, int proc)
{
	return comm_cid_concerns(a, a->comm, proc) || (a->bridge && comm_cid_concerns(a, a->bridge, proc));
}

static bool is_from_dead(const struct hdl_op *op, void *arg)
{
	return op->req.notify == comm_cid_request_done && op->context == HDL_CONTEXT_GROUPS &&
	       comm_cid_concerns(op->req.notify_arg, op->req.comm, *(int *)arg);
}

/* What follows for the agreements under way; how many. */
static int comm_cid_carry_out(void)
{
	int n = 0;

	losses_news = false;
	for (unsigned i = 0; i < hdl_nlosses; i++) {
		int proc = hdl_losses[i].proc;

		if (!hdl_losses[i].fails_groups || hdl_losses[i].carried_out)
			continue;
		hdl_losses[i].carried_out = true;
		/* ahead of the receives, which would name who has not come */
		for (struct hdl_cid_agreement *a = under_way; a; a = a->next)
			if (is_concerned(a, proc)) {
				comm_cid_give_up(a, proc);
				n++;
			}
		hdl_recv_fail(hdl_mpi_matching, is_from_dead, &proc);
	}
	return n;
}

static void post_send(struct hdl_cid_agreement *a, const void *data, size_t bytes, int place)
{
	send_to(a, data, bytes, comm_cid_rank_of(a, place), a->tag, a->comm, a->context);
}

static void post_recv(struct hdl_cid_agreement *a, void *data, size_t bytes, int place)
{
	recv_from(a, data, bytes, comm_cid_rank_of(a, place), a->tag, a->comm, a->context);
}

static struct hdl_req *bridge_send(struct hdl_cid_agreement *a, const void *data, size_t bytes)
{
	return send_to(a, data, bytes, a->bridge_rank, a->bridge_tag, a->bridge, a->bridge_context);
}

static struct hdl_req *bridge_recv(struct hdl_cid_agreement *a, void *data, size_t bytes)
{
	return recv_from(a, data, bytes, a->bridge_rank, a->bridge_tag, a->bridge, a->bridge_context);
}

static size_t words_bytes(const struct hdl_cid_bitmap *w)
{
	size_t n = WORDS;

	while (n && !w->used[n - 1])
		n--;
	return offsetof(struct hdl_cid_bitmap, used) + n * sizeof(w->used[0]);
}

/* ---- the tree ------------------------------------------------------------------------------------------ */

/* The lowest bit of a place that is set leads to its parent; the root has all bits. */
static int parent_bit(const struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), bit = 1;

	while (bit < a->n && !(place & bit))
		bit <<= 1;
	return bit;
}

/* Places from this one on that the subtree has. */
static int subtree(const struct hdl_cid_agreement *a, int place, int bit)
{
	return bit < a->n - place ? bit : a->n - place;
}

static bool has_table(const struct hdl_cid_agreement *a)
{
	return a->each && !a->number;
}

static bool has_heard(const struct hdl_cid_agreement *a)
{
	return a->down.heard && !a->number;
}

static char *comm_cid_table_at(const struct hdl_cid_agreement *a, int place)
{
	return (char *)a->table + (size_t)place * a->each;
}

static void start_round(struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), bits = parent_bit(a), child = 0;

	a->step = UP;
	a->pending = 1;		/* nothing is over while it is begun */
	a->holds = !a->no_id && comm_cid_take(a);
	used_is_taken |= a->holds;
	memset(a->up, 0, sizeof(*a->up) * (size_t)(a->children + 1));
	if (a->holds)
		memcpy(a->up->used, used, sizeof(used));
	else if (!a->no_id)
		a->up->state = HDL_CID_NOT_TAKEN;
	for (int bit = 1; bit < bits && place + bit < a->n; bit <<= 1) {
		post_recv(a, &a->up[++child], sizeof(*a->up), place + bit);
		if (has_table(a))
			post_recv(a, comm_cid_table_at(a, place + bit), (size_t)subtree(a, place + bit, bit) * a->each, place + bit);
	}
	one_less(a);
}

static void or_words(struct hdl_cid_bitmap *to, const struct hdl_cid_bitmap *from)
{
	to->state |= from->state;
	to->lost = to->lost.place ? to->lost : from->lost;
	for (size_t w = 0; w < WORDS; w++)
		to->used[w] |= from->used[w];
}

static void comm_cid_lose(struct hdl_cid_agreement *a)
{
	a->down.id = LOST;
	a->down.lost = name_lost(a->lost);
}

static void comm_cid_spread(struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), bits = parent_bit(a);

	a->step = SPREAD;
	if (a->failed)
		comm_cid_lose(a);
	for (int bit = bits >> 1; bit; bit >>= 1) {
		if (place + bit >= a->n)
			continue;
		post_send(a, &a->down, sizeof(a->down), place + bit);
		if (has_table(a) && !comm_cid_is_over(a->down.id)) {
			post_send(a, a->table, (size_t)a->n * a->each, place + bit);
			if (a->joint)
				post_send(a, a->remote, (size_t)a->down.remote_n * a->each, place + bit);
		}
		if (has_heard(a) && !comm_cid_is_over(a->down.id))
			post_send(a, a->heard, a->heard_bytes, place + bit);
	}
}

/* The root knows all. */
static void decide(struct hdl_cid_agreement *a, uint64_t number)
{
	const struct hdl_cid_bitmap *w = a->up;

	a->down.number = number;
	a->down.id = w->state & HDL_CID_NOT_TAKEN ? AGAIN : a->no_id ? 0 : lowest_free(w->used);
	a->lost = a->lost ? a->lost : lost_named(&w->lost);
	if (w->state & HDL_CID_FAILED)
		comm_cid_lose(a);
	comm_cid_spread(a);
}

/* Unique: the order is by age, as far as one rank can tell. */
static uint64_t new_number(void)
{
	static uint32_t count;

	/* of ranks of several jobs the hash of the job's name tells apart, all but surely */
	return (uint64_t)++count << 32 | ((uint32_t)hdl_job.rank ^ (uint32_t)hdl_job_id(hdl_job.nspace));
}

/* Nothing is waited for on the bridge any more: the group fails, by what is known here, or by what the other one's words say. */
static void leave_bridge(struct hdl_cid_agreement *a)
{
	struct hdl_req *in = a->words_in, *out = a->words_out;

	a->bridges->our_sign = (struct hdl_cid_commit){ HDL_CID_FAILED, name_lost(a->lost) };
	if (in)
		comm_cid_forget(a, in);
	if (out)
		comm_cid_forget(a, out);
	a->pending -= (in != NULL) + (out != NULL);
	hdl_leader_link_leave(a, in, out, !is_in_vain(a, a->bridge, a->bridge_context, a->bridge_tag));
}

static void enter_bridge(struct hdl_cid_agreement *a)
{
	struct hdl_leader_exchange *ours = &a->bridges->ours;

	a->step = BRIDGE;
	ours->number = a->number ? a->number : new_number();
	ours->n = a->n;
	ours->each = (int32_t)a->each;
	ours->root = a->root;
	ours->tells = a->tells_bytes;
	ours->words = *a->up;
	a->bridges->theirs.n = 0;
	a->bridges->theirs.words = (struct hdl_cid_bitmap){ 0 };
	a->words_in = bridge_recv(a, &a->bridges->theirs, sizeof(a->bridges->theirs));
	a->words_out = bridge_send(a, ours, offsetof(struct hdl_leader_exchange, words) + words_bytes(a->up));
	hear_words(a);
	if (a->failed)
		leave_bridge(a);
}

static void go_up(struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), bit = parent_bit(a);

	for (int c = 1; c <= a->children; c++)
		or_words(a->up, &a->up[c]);
	if (a->failed) {
		a->up->state |= HDL_CID_FAILED;
		a->up->lost = name_lost(a->lost);
	}
	if (bit < a->n) {
		a->step = DOWN;
		post_recv(a, &a->down, sizeof(a->down), place - bit);
		post_send(a, a->up, words_bytes(a->up), place - bit);
		if (has_table(a))
			post_send(a, comm_cid_table_at(a, place), (size_t)subtree(a, place, bit) * a->each, place - bit);
	} else if (a->refused) {
		a->down.id = REFUSED;
		a->down.remote_n = a->refused;
		comm_cid_spread(a);
	} else if (!a->joint) {
		decide(a, a->number ? a->number : new_number());
	} else {
		enter_bridge(a);
	}
}

static void make_remote(struct hdl_cid_agreement *a)
{
	a->remote_n = a->down.remote_n;
	a->remote = malloc((size_t)a->remote_n * a->each + 1);
	if (!a->remote)
		hdl_out_of_memory("the other group of an intercommunicator", (size_t)a->remote_n * a->each);
}

static void make_heard(struct hdl_cid_agreement *a)
{
	a->heard_bytes = a->down.heard;
	a->heard = malloc(a->heard_bytes);
	if (!a->heard)
		hdl_out_of_memory("the other group of an intercommunicator", a->heard_bytes);
}

static void decide_joint(struct hdl_cid_agreement *a)
{
	const struct hdl_leader_link *b = a->bridges;

	if (!a->failed)
		or_words(a->up, &b->theirs.words);
	decide(a, b->ours.number < b->theirs.number || a->failed ? b->ours.number : b->theirs.number);
}

/* The words have crossed, or this leader has left. */
static void cross(struct hdl_cid_agreement *a)
{
	struct hdl_leader_link *b = a->bridges;

	if (b && a->failed)
		leave_bridge(a);
	if (a->failed) {
		decide(a, a->number);
		return;
	}
	a->step = BRIDGE_SIGN;
	b->our_sign = (struct hdl_cid_commit){ 0 };
	b->their_sign = (struct hdl_cid_commit){ .state = HDL_CID_FAILED };	/* unless it comes */
	bridge_recv(a, &b->their_sign, sizeof(b->their_sign));
	bridge_send(a, &b->our_sign, sizeof(b->our_sign));
}

/* Both signs have been given. Who has said that it holds does its part, also if its group has failed meanwhile. */
static void take_sign(struct hdl_cid_agreement *a)
{
	struct hdl_leader_link *b = a->bridges;
	const struct hdl_leader_exchange *theirs = &b->theirs;

	if (b->their_sign.state & HDL_CID_FAILED) {
		a->up->state |= HDL_CID_FAILED;
		a->up->lost = a->up->lost.place ? a->up->lost : b->their_sign.lost;
		decide(a, a->number);
		return;
	}
	if (b->ours.each != theirs->each || !b->ours.tells != !theirs->tells) {
		a->down.id = UNEQUAL;
		comm_cid_spread(a);
		return;
	}
	if (a->number || !(a->each || theirs->tells)) {
		decide_joint(a);
		return;
	}
	a->step = BRIDGE_TABLE;
	a->down.remote_n = theirs->n;
	if (a->each) {
		make_remote(a);
		/* by place from member to member: those ahead of the root lie at the end */
		bridge_recv(a, a->remote, (size_t)theirs->root * a->each);
		bridge_recv(a, (char *)a->remote + (size_t)theirs->root * a->each, (size_t)(theirs->n - theirs->root) * a->each);
		bridge_send(a, comm_cid_table_at(a, a->n - a->root), (size_t)a->root * a->each);
		bridge_send(a, a->table, (size_t)(a->n - a->root) * a->each);
	}
	if (theirs->tells) {
		a->down.heard = theirs->tells;
		make_heard(a);
		bridge_recv(a, a->heard, a->heard_bytes);
		bridge_send(a, a->tells, a->tells_bytes);
	}
}

static void go_down(struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), parent = place - parent_bit(a);

	if (!a->failed && a->down.id == LOST)
		a->lost = lost_named(&a->down.lost);
	if (a->failed || !(has_table(a) || has_heard(a)) || comm_cid_is_over(a->down.id)) {
		comm_cid_spread(a);
		return;
	}
	a->step = DOWN_TABLES;
	if (has_table(a)) {
		post_recv(a, a->table, (size_t)a->n * a->each, parent);
		if (a->joint) {
			make_remote(a);
			post_recv(a, a->remote, (size_t)a->remote_n * a->each, parent);
		}
	}
	if (has_heard(a)) {
		make_heard(a);
		post_recv(a, a->heard, a->heard_bytes, parent);
	}
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static int comm_cid_progress(void *arg);

void hdl_cid_outside(struct hdl_comm *comm, int more)
{
	comm->agreeing += more;
	hdl_agreements += (unsigned)more;
}

static void count_agreements(struct hdl_cid_agreement *a, int more)
{
	hdl_cid_outside(a->comm, more);
	if (a->bridge)
		a->bridge->agreeing += more;
}

/* Others may wait for members that have given up, and it is known here who has failed. */
static void say_lost(const struct hdl_cid_agreement *a)
{
	bool (*on_lost)(uint16_t context, int proc, bool told) = a->comm->matching->on_lost;

	if (!on_lost)
		return;
	on_lost(a->context, a->lost - 1, false);
	if (a->bridge)
		on_lost(a->bridge_context | 1, a->lost - 1, false);
}

static void comm_cid_finish(struct hdl_cid_agreement *a)
{
	struct hdl_cid_agreement **link = &under_way;
	struct hdl_comm *comm = a->comm;

	a->id = a->no_id || a->down.id < 0 ? -1 : a->down.id;
	switch (a->down.id) {
	case NO_ID:
		snprintf(a->why, sizeof(a->why), "no context id is left: of %u communicators that may exist at a time, every one is "
			 "in use on some rank; free what is not needed with MPI_Comm_free", IDS);
		a->error = MPI_ERR_OTHER;
		break;
	case LOST:
		if (a->lost)
			snprintf(a->why, sizeof(a->why), "%s has failed or cannot be reached by another one: look at its output for why",
				 hdl_proc_text_full(a->lost - 1));
		else if (!a->why[0])
			snprintf(a->why, sizeof(a->why), "a rank that takes part has failed or cannot be reached by another one");
		a->error = MPI_ERR_PROC_ABORTED;
		break;
	case UNEQUAL:
		snprintf(a->why, sizeof(a->why), "the two groups are in different calls");
		a->error = MPI_ERR_OTHER;
		break;
	case REFUSED:
		snprintf(a->why, sizeof(a->why), "the group's leader, rank %d, could not do its part: see its error", a->root);
		a->error = a->down.remote_n;
		break;
	default:
		if (a->id >= 0)
			hdl_id_take((unsigned)a->id);
	}
	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	if (!under_way)
		hdl_tp_progress_remove(hdl_mpi_tp, comm_cid_progress, NULL);
	count_agreements(a, -1);
	free(a->up);
	free(a->bridges);
	if (a->down.id == LOST && a->lost) {
		hdl_proc_note_lost(a->lost - 1);	/* it is what the program is told */
		say_lost(a);
	}
	a->done = true;
	if (a->finished)
		a->finished(a);		/* it may be gone */
	hdl_comm_release(comm);
}

static void end_round(struct hdl_cid_agreement *a)
{
	/* Others have the result: where a member could not be told, they begin the next round, too, and that fails for all. */
	bool again = a->down.id == AGAIN;

	if (!again)
		comm_cid_finish(a);	/* takes the id before another one looks */
	if (!again)
		return;
	a->number = a->down.number;
	start_round(a);
}

static void comm_cid_advance(struct hdl_cid_agreement *a)
{
	if (a->step == SPREAD) {
		if (a->holds)
			used_is_taken = a->holds = false;
		end_round(a);
		return;
	}
	a->pending++;		/* nothing is over while the next step is begun */
	switch (a->step) {
	case UP:
		go_up(a);
		break;
	case BRIDGE:
		cross(a);
		break;
	case BRIDGE_SIGN:
		take_sign(a);
		break;
	case BRIDGE_TABLE:
		decide_joint(a);
		break;
	case DOWN:
		go_down(a);
		break;
	default:
		comm_cid_spread(a);
	}
	one_less(a);
}

/* Leaders that have failed while they wait for the other one's words. */
static int leave_bridges(void)
{
	int n = 0;

	some_leave = false;
	for (struct hdl_cid_agreement *a = under_way; a; a = a->next)
		if (a->step == BRIDGE && a->failed && a->pending) {
			a->pending++;
			leave_bridge(a);
			one_less(a);
			n++;
		}
	return n;
}

static int comm_cid_progress(void *arg)
{
	struct hdl_cid_agreement *a;
	int n = 0;

	(void)arg;
	if (unlikely(losses_news))
		n += comm_cid_carry_out();
	if (unlikely(some_leave))
		n += leave_bridges();
	a = ready_head;
	if (likely(!a))
		return n;
	/* What becomes ready meanwhile waits for the next turn. */
	ready_head = NULL;
	ready_tail = &ready_head;
	while (a) {
		struct hdl_cid_agreement *next = a->next_ready;

		a->ready = false;
		comm_cid_advance(a);
		a = next;
		n++;
	}
	return n;
}

void hdl_cid_start(struct hdl_cid_agreement *a)
{
	int place = comm_cid_place_of(a), bits = parent_bit(a);

	for (int bit = 1; bit < bits && place + bit < a->n; bit <<= 1)
		a->children++;
	a->up = malloc((size_t)(a->children + 1) * sizeof(*a->up));
	if (a->joint && a->bridge)
		a->bridges = malloc(sizeof(*a->bridges));
	if (!a->up || (a->joint && a->bridge && !a->bridges))
		hdl_out_of_memory("agreeing on a communicator", (size_t)(a->children + 3) * sizeof(*a->up));
	if (!under_way && hdl_tp_progress_add(hdl_mpi_tp, comm_cid_progress, NULL))
		hdl_out_of_memory("agreeing on a communicator", sizeof(void *));
	a->comm->obj.refs++;
	count_agreements(a, 1);
	a->next = under_way;
	under_way = a;
	a->known = hdl_ft_records_told;
	if (a->unable)
		comm_cid_failed(a, 0);
	for (unsigned i = 0; i < hdl_nlosses; i++)
		if (hdl_losses[i].carried_out && is_concerned(a, hdl_losses[i].proc))
			comm_cid_give_up(a, hdl_losses[i].proc);
	start_round(a);
}

static bool comm_cid_is_of_revoked(const struct hdl_op *op, void *arg)
{
	return (op->context | 1) == *(const uint16_t *)arg && op->req.notify == comm_cid_request_done &&
	       is_over_for(op->req.notify_arg, op->context);
}

void hdl_cid_revoke(uint16_t context)
{
	hdl_recv_fail(hdl_mpi_matching, comm_cid_is_of_revoked, &context);
	for (struct hdl_cid_agreement *a = under_way; a; a = a->next) {
		comm_cid_withdraw(a);
		/* what has failed is the leader's own group, which waits for it */
		if (a->step == BRIDGE && a->context == context && is_over_for(a, context))
			comm_cid_failed(a, hdl_recv_revoked(a->comm, context));
	}
}

bool hdl_cid_is_leader_link(uint16_t context, int tag)
{
	return context & 1 && context != HDL_CONTEXT_GROUPS && tag >= INT_MIN + HDL_CID_SEQUENCE && tag < INT_MIN + HDL_CID_REVOCABLE;
}

static bool crosses_to(const struct hdl_cid_agreement *a, uint16_t context, int proc)
{
	return a->bridge && a->bridge_context == context && hdl_comm_proc(a->bridge, a->bridge_rank) == proc;
}

bool hdl_cid_crosses(uint16_t context, int proc, int tag)
{
	for (const struct hdl_cid_agreement *a = under_way; a; a = a->next)
		if (crosses_to(a, context, proc) && a->bridge_tag == tag)
			return true;
	return false;
}

void hdl_cid_forsaken(uint16_t context, int proc, int lost)
{
	for (struct hdl_cid_agreement *a = under_way; a; a = a->next)
		if (a->step == BRIDGE && !a->failed && crosses_to(a, context, proc) && hdl_cid_is_leader_link(context, a->bridge_tag) &&
		    hdl_ft_record_at(lost) >= a->known)
			comm_cid_failed(a, 1 + lost);
}

void hdl_cid_heard(int proc)
{
	hdl_ft_record(proc)->fails_groups = true;
	losses_news = true;
}

void hdl_cid_lose(int proc)
{
	hdl_cid_heard(proc);
	comm_cid_carry_out();
}

static int ended_of(struct hdl_comm *comm)
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

	for (struct hdl_cid_agreement *a = under_way; a && proc < 0; a = a->next) {
		if (a->context == HDL_CONTEXT_GROUPS)
			proc = ended_of(a->comm);
		if (proc < 0 && a->bridge && a->bridge_context == HDL_CONTEXT_GROUPS)
			proc = ended_of(a->bridge);
	}
	return proc;
}

static bool is_done(const void *arg)
{
	return ((const struct hdl_cid_agreement *)arg)->done;
}

int hdl_cid_agreement(struct hdl_cid_agreement *a)
{
	a->blocking = true;
	hdl_cid_start(a);
	hdl_wait_until(is_done, a);
	if (a->error)
		hdl_reason_set("%s", a->why);
	return a->error;
}
