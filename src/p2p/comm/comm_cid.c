/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreement on a context id and a table: the state machine. comm_cid.h draws it. */
#include "p2p/comm/cid_messages.h"
#include "p2p/comm/comm.h"
#include "p2p/fault/fault.h"

#include <stdlib.h>
#include <string.h>

static bool bitmap_is_taken;	/* hdl_ids_used is in a round of the agreement that has_bitmap */

/* Results of a round that are no id. */
enum cid_result {
	CID_AGAIN = -2,			/* another round: a member did not get its bitmap */
	CID_NO_ID = -3,			/* every id is in use on some rank */
	CID_PROC_FAILED = -4,		/* result.failed has failed, or no name is known */
	CID_UNEQUAL = -5,		/* the two groups are in different calls */
	CID_LEADER_ERROR = -6,		/* result.remote_n is the error class */
};

/* Returns true if the result ends the agreement in the first round, so that no data follows. */
static bool cid_is_final_error(int id)
{
	return id == CID_PROC_FAILED || id == CID_UNEQUAL || id == CID_LEADER_ERROR;
}

/* Returns true if this rank may contribute its bitmap in this round of the agreement (rule: comm_cid.h). */
static bool cid_may_take(const struct hdl_cid_agreement *a)
{
	if (bitmap_is_taken)
		return false;
	if (!a->number)
		return a->blocking && !hdl_threads && hdl_cid_under_way == a && !a->next;
	for (const struct hdl_cid_agreement *b = hdl_cid_under_way; b; b = b->next)
		if (b->number && b->number < a->number)
			return false;
	return true;
}

/* ---- messages: along the tree, by position; over the leader link --------------------------------------- */

static void cid_tree_send(struct hdl_cid_agreement *a, const void *data, size_t bytes, int position)
{
	hdl_cid_send(a, data, bytes, hdl_cid_rank_at(a, position), a->tag, a->comm, a->context);
}

static void cid_tree_recv(struct hdl_cid_agreement *a, void *data, size_t bytes, int position)
{
	hdl_cid_recv(a, data, bytes, hdl_cid_rank_at(a, position), a->tag, a->comm, a->context);
}

static struct hdl_req *cid_link_send(struct hdl_cid_agreement *a, const void *data, size_t bytes)
{
	return hdl_cid_send(a, data, bytes, a->link_rank, a->link_tag, a->link_comm, a->link_context);
}

static struct hdl_req *cid_link_recv(struct hdl_cid_agreement *a, void *data, size_t bytes)
{
	return hdl_cid_recv(a, data, bytes, a->link_rank, a->link_tag, a->link_comm, a->link_context);
}

/* Returns the bytes that travel: without the words at the end that are 0. */
static size_t cid_bitmap_bytes(const struct hdl_cid_bitmap *w)
{
	size_t n = HDL_ID_WORDS;

	while (n && !w->used[n - 1])
		n--;
	return offsetof(struct hdl_cid_bitmap, used) + n * sizeof(w->used[0]);
}

static void cid_bitmap_or(struct hdl_cid_bitmap *to, const struct hdl_cid_bitmap *from)
{
	to->flags |= from->flags;
	to->failed = to->failed.rank_plus_1 ? to->failed : from->failed;
	for (size_t w = 0; w < HDL_ID_WORDS; w++)
		to->used[w] |= from->used[w];
}

/* ---- the tree ------------------------------------------------------------------------------------------ */

/* Returns the lowest bit of this member's position that is set: the position without that bit is the parent's. For the root: a
 * power of two that is at least n. */
static int cid_parent_bit(const struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), bit = 1;

	while (bit < a->n && !(position & bit))
		bit <<= 1;
	return bit;
}

/* Returns the number of positions in the subtree of a member whose parent bit is `bit`; they follow its own. */
static int cid_subtree(const struct hdl_cid_agreement *a, int position, int bit)
{
	return bit < a->n - position ? bit : a->n - position;
}

static bool cid_has_table(const struct hdl_cid_agreement *a)
{
	return a->entry_bytes && !a->number;
}

static bool cid_has_root_data(const struct hdl_cid_agreement *a)
{
	return a->result.root_data_bytes && !a->number;
}

static char *cid_table_at(const struct hdl_cid_agreement *a, int position)
{
	return (char *)a->table + (size_t)position * a->entry_bytes;
}

static void cid_new_remote(struct hdl_cid_agreement *a)
{
	a->remote_n = a->result.remote_n;
	a->remote = malloc((size_t)a->remote_n * a->entry_bytes + 1);
	if (!a->remote)
		hdl_out_of_memory("the other group of an intercommunicator", (size_t)a->remote_n * a->entry_bytes);
}

static void cid_new_remote_data(struct hdl_cid_agreement *a)
{
	a->remote_data_bytes = a->result.root_data_bytes;
	a->remote_data = malloc(a->remote_data_bytes);
	if (!a->remote_data)
		hdl_out_of_memory("the other group of an intercommunicator", a->remote_data_bytes);
}

/* ---- into a state: posts its messages ------------------------------------------------------------------ */

static void cid_enter_gather(struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), bits = cid_parent_bit(a), child = 0;

	a->state = HDL_CID_GATHER;
	a->pending = 1;		/* until all of this state's requests are posted */
	a->has_bitmap = !a->no_id && cid_may_take(a);
	bitmap_is_taken |= a->has_bitmap;
	memset(a->bitmaps, 0, sizeof(*a->bitmaps) * (size_t)(a->children + 1));
	if (a->has_bitmap)
		memcpy(a->bitmaps->used, hdl_ids_used, sizeof(hdl_ids_used));
	else if (!a->no_id)
		a->bitmaps->flags = HDL_CID_NOT_TAKEN;
	for (int bit = 1; bit < bits && position + bit < a->n; bit <<= 1) {
		cid_tree_recv(a, &a->bitmaps[++child], sizeof(*a->bitmaps), position + bit);
		if (cid_has_table(a))
			cid_tree_recv(a, cid_table_at(a, position + bit),
				      (size_t)cid_subtree(a, position + bit, bit) * a->entry_bytes, position + bit);
	}
	hdl_cid_one_less(a);
}

static void cid_enter_result(struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), bit = cid_parent_bit(a);

	a->state = HDL_CID_RESULT;
	cid_tree_recv(a, &a->result, sizeof(a->result), position - bit);
	cid_tree_send(a, a->bitmaps, cid_bitmap_bytes(a->bitmaps), position - bit);
	if (cid_has_table(a))
		cid_tree_send(a, cid_table_at(a, position), (size_t)cid_subtree(a, position, bit) * a->entry_bytes,
			      position - bit);
}

static void cid_result_failed(struct hdl_cid_agreement *a)
{
	a->result.id = CID_PROC_FAILED;
	a->result.failed = hdl_cid_name(a->failed_proc);
}

static void cid_enter_bcast(struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), bits = cid_parent_bit(a);

	a->state = HDL_CID_BCAST;
	if (a->failed)
		cid_result_failed(a);
	for (int bit = bits >> 1; bit; bit >>= 1) {
		if (position + bit >= a->n)
			continue;
		cid_tree_send(a, &a->result, sizeof(a->result), position + bit);
		if (cid_has_table(a) && !cid_is_final_error(a->result.id)) {
			cid_tree_send(a, a->table, (size_t)a->n * a->entry_bytes, position + bit);
			if (a->inter)
				cid_tree_send(a, a->remote, (size_t)a->result.remote_n * a->entry_bytes, position + bit);
		}
		if (cid_has_root_data(a) && !cid_is_final_error(a->result.id))
			cid_tree_send(a, a->remote_data, a->remote_data_bytes, position + bit);
	}
}

/* The root has all bitmaps: computes the result. number: the agreement's, for the next round. */
static void cid_decide(struct hdl_cid_agreement *a, uint64_t number)
{
	const struct hdl_cid_bitmap *w = a->bitmaps;
	int lowest = hdl_id_lowest_free(w->used);

	a->result.number = number;
	a->result.id = w->flags & HDL_CID_NOT_TAKEN ? CID_AGAIN : a->no_id ? 0 : lowest < 0 ? CID_NO_ID : lowest;
	a->failed_proc = a->failed_proc ? a->failed_proc : hdl_cid_named_proc(&w->failed);
	if (w->flags & HDL_CID_FAILED)
		cid_result_failed(a);
	cid_enter_bcast(a);
}

static void cid_decide_inter(struct hdl_cid_agreement *a)
{
	const struct hdl_leader_link *b = a->link;

	if (!a->failed)
		cid_bitmap_or(a->bitmaps, &b->theirs.bitmap);
	cid_decide(a, b->ours.number < b->theirs.number || a->failed ? b->ours.number : b->theirs.number);
}

/* Returns a number that no other agreement has, and that is larger than those this rank has made before. Numbers of ranks of
 * several jobs differ by a hash of the job's name, with a negligible probability of a collision. */
static uint64_t cid_new_number(void)
{
	static uint32_t count;

	return (uint64_t)++count << 32 | ((uint32_t)hdl_job.rank ^ (uint32_t)hdl_job_id(hdl_job.nspace));
}

/* The leader stops waiting on the link, because its own group has failed, or the other one (HDL_CID_FAILED in the other leader's
 * bitmap). */
static void cid_leave_link(struct hdl_cid_agreement *a)
{
	struct hdl_req *in = a->bitmap_recv, *out = a->bitmap_send;

	a->link->our_commit = (struct hdl_cid_commit){ HDL_CID_FAILED, hdl_cid_name(a->failed_proc) };
	if (in)
		hdl_cid_forget(a, in);
	if (out)
		hdl_cid_forget(a, out);
	a->pending -= (in != NULL) + (out != NULL);
	hdl_leader_link_leave(a, in, out, !hdl_cid_is_in_vain(a, a->link_comm, a->link_context, a->link_tag));
}

static void cid_enter_exchange(struct hdl_cid_agreement *a)
{
	struct hdl_leader_exchange *ours = &a->link->ours;

	a->state = HDL_CID_EXCHANGE;
	ours->number = a->number ? a->number : cid_new_number();
	ours->n = a->n;
	ours->entry_bytes = (int32_t)a->entry_bytes;
	ours->root = a->root;
	ours->root_data_bytes = a->root_data_bytes;
	ours->bitmap = *a->bitmaps;
	a->link->theirs.n = 0;
	a->link->theirs.bitmap = (struct hdl_cid_bitmap){ 0 };
	a->bitmap_recv = cid_link_recv(a, &a->link->theirs, sizeof(a->link->theirs));
	a->bitmap_send = cid_link_send(a, ours, offsetof(struct hdl_leader_exchange, bitmap) + cid_bitmap_bytes(a->bitmaps));
	hdl_cid_check_bitmap(a);
	if (a->failed)
		cid_leave_link(a);
}

static void cid_enter_leader_data(struct hdl_cid_agreement *a)
{
	const struct hdl_leader_exchange *theirs = &a->link->theirs;

	a->state = HDL_CID_LEADER_DATA;
	a->result.remote_n = theirs->n;
	if (a->entry_bytes) {
		cid_new_remote(a);
		/* a->remote is in the order of members, the other leader's table in that of positions: members ahead of its root
		 * come last there */
		cid_link_recv(a, a->remote, (size_t)theirs->root * a->entry_bytes);
		cid_link_recv(a, (char *)a->remote + (size_t)theirs->root * a->entry_bytes,
			      (size_t)(theirs->n - theirs->root) * a->entry_bytes);
		cid_link_send(a, cid_table_at(a, a->n - a->root), (size_t)a->root * a->entry_bytes);
		cid_link_send(a, a->table, (size_t)(a->n - a->root) * a->entry_bytes);
	}
	if (theirs->root_data_bytes) {
		a->result.root_data_bytes = theirs->root_data_bytes;
		cid_new_remote_data(a);
		cid_link_recv(a, a->remote_data, a->remote_data_bytes);
		cid_link_send(a, a->root_data, a->root_data_bytes);
	}
}

/* ---- out of a state: all of its requests have completed ------------------------------------------------- */

static void cid_gathered(struct hdl_cid_agreement *a)
{
	for (int c = 1; c <= a->children; c++)
		cid_bitmap_or(a->bitmaps, &a->bitmaps[c]);
	if (a->failed) {
		a->bitmaps->flags |= HDL_CID_FAILED;
		a->bitmaps->failed = hdl_cid_name(a->failed_proc);
	}
	if (cid_parent_bit(a) < a->n) {
		cid_enter_result(a);
	} else if (a->leader_error) {
		a->result.id = CID_LEADER_ERROR;
		a->result.remote_n = a->leader_error;
		cid_enter_bcast(a);
	} else if (!a->inter) {
		cid_decide(a, a->number ? a->number : cid_new_number());
	} else {
		cid_enter_exchange(a);
	}
}

static void cid_got_result(struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), parent = position - cid_parent_bit(a);

	if (!a->failed && a->result.id == CID_PROC_FAILED)
		a->failed_proc = hdl_cid_named_proc(&a->result.failed);
	if (a->failed || !(cid_has_table(a) || cid_has_root_data(a)) || cid_is_final_error(a->result.id)) {
		cid_enter_bcast(a);
		return;
	}
	a->state = HDL_CID_RESULT_DATA;
	if (cid_has_table(a)) {
		cid_tree_recv(a, a->table, (size_t)a->n * a->entry_bytes, parent);
		if (a->inter) {
			cid_new_remote(a);
			cid_tree_recv(a, a->remote, (size_t)a->remote_n * a->entry_bytes, parent);
		}
	}
	if (cid_has_root_data(a)) {
		cid_new_remote_data(a);
		cid_tree_recv(a, a->remote_data, a->remote_data_bytes, parent);
	}
}

/* The bitmaps have crossed, or this leader has left the link. */
static void cid_exchanged(struct hdl_cid_agreement *a)
{
	struct hdl_leader_link *b = a->link;

	if (b && a->failed)
		cid_leave_link(a);
	if (a->failed) {
		cid_decide(a, a->number);
		return;
	}
	a->state = HDL_CID_COMMIT;
	b->our_commit = (struct hdl_cid_commit){ 0 };
	b->their_commit = (struct hdl_cid_commit){ .flags = HDL_CID_FAILED };	/* unless the commit arrives */
	cid_link_recv(a, &b->their_commit, sizeof(b->their_commit));
	cid_link_send(a, &b->our_commit, sizeof(b->our_commit));
}

/* Both commits have crossed. A leader that has sent one without HDL_CID_FAILED must send the data also if its group has failed
 * meanwhile: the other leader waits for the data. */
static void cid_committed(struct hdl_cid_agreement *a)
{
	struct hdl_leader_link *b = a->link;
	const struct hdl_leader_exchange *theirs = &b->theirs;

	if (b->their_commit.flags & HDL_CID_FAILED) {
		a->bitmaps->flags |= HDL_CID_FAILED;
		a->bitmaps->failed = a->bitmaps->failed.rank_plus_1 ? a->bitmaps->failed : b->their_commit.failed;
		cid_decide(a, a->number);
	} else if (b->ours.entry_bytes != theirs->entry_bytes || !b->ours.root_data_bytes != !theirs->root_data_bytes) {
		a->result.id = CID_UNEQUAL;
		cid_enter_bcast(a);
	} else if (a->number || !(a->entry_bytes || theirs->root_data_bytes)) {
		cid_decide_inter(a);
	} else {
		cid_enter_leader_data(a);
	}
}

/* ---- the end ------------------------------------------------------------------------------------------- */

static int cid_progress(void *arg);

static void cid_count(struct hdl_cid_agreement *a, int more)
{
	hdl_cid_outside(a->comm, more);
	if (a->link_comm)
		a->link_comm->agreeing += more;
}

/* This rank has a record of a failed process, and other ranks may wait for members that have given up: reports the process to the
 * collectives (hdl_ft_on_message), which revoke. */
static void cid_report_failed(const struct hdl_cid_agreement *a)
{
	bool (*on_failed)(uint16_t context, int proc, bool by_message) = a->comm->matching->on_failed;

	if (!on_failed)
		return;
	on_failed(a->context, a->failed_proc - 1, false);
	if (a->link_comm)
		on_failed(a->link_context | 1, a->failed_proc - 1, false);
}

/* Returns the error class of the result, and sets why. */
static int cid_class(struct hdl_cid_agreement *a)
{
	char *why = a->why;
	const size_t n = sizeof(a->why);

	switch (a->result.id) {
	case CID_NO_ID:
		snprintf(why, n, "no context id is left: of %u communicators that may exist at a time, every one is "
			 "in use on some rank; free unneeded ones with MPI_Comm_free", HDL_IDS);
		return MPI_ERR_OTHER;
	case CID_PROC_FAILED:
		if (a->failed_proc)
			snprintf(why, n, "%s has failed or cannot be reached by another one: look at its output for why",
				 hdl_proc_text_full(a->failed_proc - 1));
		else if (!why[0])
			snprintf(why, n, "a rank that takes part has failed or cannot be reached by another one");
		return MPI_ERR_PROC_ABORTED;
	case CID_UNEQUAL:
		snprintf(why, n, "the two groups are in different calls");
		return MPI_ERR_OTHER;
	case CID_LEADER_ERROR:
		snprintf(why, n, "the group's leader, rank %d, could not do its part: see its error", a->root);
		return a->result.remote_n;
	default:
		return MPI_SUCCESS;
	}
}

static void cid_finish(struct hdl_cid_agreement *a)
{
	struct hdl_cid_agreement **link = &hdl_cid_under_way;
	struct hdl_comm *comm = a->comm;

	a->id = a->no_id || a->result.id < 0 ? -1 : a->result.id;
	a->error = cid_class(a);
	if (!a->error && a->id >= 0)
		hdl_id_take((unsigned)a->id);
	while (*link != a)
		link = &(*link)->next;
	*link = a->next;
	if (!hdl_cid_under_way)
		hdl_tp_progress_remove(hdl_mpi_tp, cid_progress, NULL);
	cid_count(a, -1);
	free(a->bitmaps);
	free(a->link);
	if (a->result.id == CID_PROC_FAILED && a->failed_proc) {
		hdl_ft_record_failed(a->failed_proc - 1);	/* the error that the program gets next names this process */
		cid_report_failed(a);
	}
	a->state = HDL_CID_DONE;
	if (a->finished)
		a->finished(a);		/* may free *a */
	hdl_comm_release(comm);
}

/* The children have the result. A child to which the result could not be sent starts the next round, too, and that round fails
 * for all members. */
static void cid_end_round(struct hdl_cid_agreement *a)
{
	if (a->has_bitmap)
		bitmap_is_taken = a->has_bitmap = false;
	if (a->result.id != CID_AGAIN) {
		cid_finish(a);	/* takes the id before another agreement may read the bitmap */
		return;
	}
	a->number = a->result.number;
	cid_enter_gather(a);
}

static void cid_advance(struct hdl_cid_agreement *a)
{
	static void (*const leave_state[])(struct hdl_cid_agreement *a) = {
		[HDL_CID_GATHER] = cid_gathered,
		[HDL_CID_RESULT] = cid_got_result,
		[HDL_CID_RESULT_DATA] = cid_enter_bcast,
		[HDL_CID_EXCHANGE] = cid_exchanged,
		[HDL_CID_COMMIT] = cid_committed,
		[HDL_CID_LEADER_DATA] = cid_decide_inter,
	};

	if (a->state == HDL_CID_BCAST) {
		cid_end_round(a);
		return;
	}
	a->pending++;		/* until all requests of the next state are posted */
	leave_state[a->state](a);
	hdl_cid_one_less(a);
}

/* Detaches the link of each leader whose agreement has failed in HDL_CID_EXCHANGE. Returns the number of these agreements. */
static int cid_leave_links(void)
{
	int n = 0;

	hdl_cid_news.leaders = false;
	for (struct hdl_cid_agreement *a = hdl_cid_under_way; a; a = a->next)
		if (a->state == HDL_CID_EXCHANGE && a->failed && a->pending) {
			a->pending++;
			cid_leave_link(a);
			hdl_cid_one_less(a);
			n++;
		}
	return n;
}

static int cid_progress(void *arg)
{
	struct hdl_cid_agreement *a;
	int n = 0;

	(void)arg;
	if (unlikely(hdl_cid_news.failures))
		n += hdl_cid_apply_failures();
	if (unlikely(hdl_cid_news.leaders))
		n += cid_leave_links();
	a = hdl_cid_take_ready();	/* agreements that become ready meanwhile wait for the next turn */
	while (a) {
		struct hdl_cid_agreement *next = a->next_ready;

		a->ready = false;
		cid_advance(a);
		a = next;
		n++;
	}
	return n;
}

void hdl_cid_start(struct hdl_cid_agreement *a)
{
	int position = hdl_cid_position(a), bits = cid_parent_bit(a);

	for (int bit = 1; bit < bits && position + bit < a->n; bit <<= 1)
		a->children++;
	a->bitmaps = malloc((size_t)(a->children + 1) * sizeof(*a->bitmaps));
	if (a->inter && a->link_comm)
		a->link = malloc(sizeof(*a->link));
	if (!a->bitmaps || (a->inter && a->link_comm && !a->link))
		hdl_out_of_memory("agreeing on a communicator", (size_t)(a->children + 3) * sizeof(*a->bitmaps));
	if (!hdl_cid_under_way && hdl_tp_progress_add(hdl_mpi_tp, cid_progress, NULL))
		hdl_out_of_memory("agreeing on a communicator", sizeof(void *));
	a->comm->obj.refs++;
	cid_count(a, 1);
	a->next = hdl_cid_under_way;
	hdl_cid_under_way = a;
	a->reported = hdl_ft_reported;
	if (a->unable)
		hdl_cid_fail(a, 0);
	for (unsigned i = 0; i < hdl_ft_count; i++)
		if (hdl_ft_list[i].applied && hdl_cid_needs(a, hdl_ft_list[i].proc))
			hdl_cid_fail_by_member(a, hdl_ft_list[i].proc);
	cid_enter_gather(a);
}

static bool cid_is_done(const void *arg)
{
	return ((const struct hdl_cid_agreement *)arg)->state == HDL_CID_DONE;
}

int hdl_cid_agreement(struct hdl_cid_agreement *a)
{
	a->blocking = true;
	hdl_cid_start(a);
	hdl_wait_until(cid_is_done, a);
	if (a->error)
		hdl_reason_set("%s", a->why);
	return a->error;
}

void hdl_cid_reset(void)
{
	hdl_cid_news = (struct hdl_cid_news){ 0 };
}
