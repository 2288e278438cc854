/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: context ids, groups, release; two instances of matching. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/comm/comm.h"
#include "p2p/comm/comm_cid.h"
#include "p2p/comm/ids.h"
#include "p2p/comm/leader_link.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"
#include "p2p_ops.h"

TestSuite(p2p_comms, .init = p2p_setup, .fini = p2p_teardown, .timeout = 60);

/* ---- communicators -------------------------------------------------------------------------------------- */

/* The result of a round that the root sent. */
static int id_sent(int i)
{
	int id;

	memcpy(&id, mock_sent[i].data + offsetof(struct hdl_cid_down, id), sizeof(id));
	return id;
}

/* A member's contribution: an error class, and a failed process (job, 1 + rank); then the ids in use. */
#define WORDS_HEAD 3

Test(p2p_comms, dup_names_who_has_failed)
{
	uint64_t one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 };
	uint64_t two[WORDS_HEAD] = { 2, hdl_proc_job(3), 1 + 3 };
	struct hdl_comm *c;

	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, two, sizeof(two));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_ERR_PROC_ABORTED);
	cr_assert_null(c);
	cr_assert(strstr(hdl_reason_take(), "rank 3 "));
	cr_assert_lt(id_sent(0), 0);
	cr_assert_lt(id_sent(1), 0);
	/* the program's error is about rank 3: a leader that learns of it later does not end this rank's constructors */
	cr_assert_eq(hdl_ft_count, 1);
	cr_assert_eq(hdl_ft_list[0].proc, 3);
}

/* As a rank between the root and another one: the root gets the failure of this rank before any rank gets a communicator. */
static void between(void)
{
	mock_job(2, 4);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
}

Test(between, dup_fails_upwards, .init = between, .timeout = 60)
{
	uint64_t words[WORDS_HEAD];
	struct hdl_comm *c;
	struct hdl_req *r;

	mock_peer_failed(3, -ECONNRESET);
	cr_assert_eq(hdl_comm_idup(&hdl_world, &c, &r), 0);
	for (int i = 0; i < 10 && !mock_nsent; i++)
		hdl_tp_progress(hdl_mpi_tp);
	cr_assert_eq(mock_nsent, 1);
	cr_assert_eq(mock_sent[0].dest, 0);
	memcpy(words, mock_sent[0].data, sizeof(words));
	cr_assert_eq(words[0] & 2, 2);
	cr_assert_eq(words[1], hdl_proc_job(3));
	cr_assert_eq((uint32_t)words[2], 1 + 3);
}

Test(p2p_comms, dup_agrees_on_a_free_id)
{
	/* Ranks 1 and 2 hold more ids than this one; rank 3 reaches this one through rank 2. */
	uint64_t one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 }, two[WORDS_HEAD + 2] = { [WORDS_HEAD] = 0xfffffffffffffffbu, 0x1 };
	struct hdl_comm *c;
	int id;

	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, two, sizeof(two));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 65);
	cr_assert_eq(c->size, 4);
	cr_assert_eq(mock_nsent, 2);
	id = id_sent(1);
	cr_assert_eq(id, 65);
	hdl_comm_release(c);
	/* The id is free again here, and now everywhere. */
	mock_later(1, hdl_cid_tag(1), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(1), 1, one, sizeof(one));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 3);
	hdl_comm_release(c);
}

/* Another thread of rank 1 has the bitmap there: all try again. */
Test(p2p_comms, dup_tries_again)
{
	uint64_t busy[WORDS_HEAD] = { 1 }, one[WORDS_HEAD + 1] = { [WORDS_HEAD] = 0x7 };
	struct hdl_comm *c;
	int id;

	mock_later(1, hdl_cid_tag(0), 1, busy, sizeof(busy));
	mock_later(2, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(1, hdl_cid_tag(0), 1, one, sizeof(one));
	mock_later(2, hdl_cid_tag(0), 1, one, sizeof(one));
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_SUCCESS);
	cr_assert_eq(c->context, 2 * 3);
	cr_assert_eq(mock_nsent, 4);
	id = id_sent(0);
	cr_assert_lt(id, 0);
	id = id_sent(3);
	cr_assert_eq(id, 3);
	hdl_comm_release(c);
}

/* The leader of a group of one, over a link to rank 1: a second round, since a constructor that does not block has no bitmap in
 * the first. Returns the number of the agreement in the second round. */
static uint64_t number_of_both(bool theirs_is_lower, uint64_t *ours)
{
	enum { LINK_TAG = INT_MIN + HDL_CID_SEQUENCE + 5 };
	static struct hdl_leader_exchange theirs[2];
	static const struct hdl_cid_commit commit;
	struct hdl_cid_agreement a = { .comm = &hdl_self, .n = 1, .context = (uint16_t)(hdl_self.context + 1), .tag = -3,
				       .inter = true, .link_comm = &hdl_world, .link_rank = 1, .link_tag = LINK_TAG,
				       .link_context = (uint16_t)(hdl_world.context + 1) };
	struct hdl_leader_exchange sent;
	const size_t len = offsetof(struct hdl_leader_exchange, bitmap.used);
	int first = mock_nsent;

	hdl_cid_start(&a);
	for (int i = 0; i < 10 && mock_nsent == first; i++)
		hdl_tp_progress(hdl_mpi_tp);
	cr_assert_eq(mock_nsent, first + 1);
	memcpy(&sent, mock_sent[first].data, len);
	*ours = sent.number;
	for (int round = 0; round < 2; round++) {
		theirs[round] = (struct hdl_leader_exchange){ .number = theirs_is_lower ? 1 : UINT64_MAX, .n = 1 };
		mock_later(1, LINK_TAG, a.link_context, &theirs[round], len);
		mock_later(1, LINK_TAG, a.link_context, &commit, sizeof(commit));
	}
	for (int i = 0; i < 20 && a.state != HDL_CID_DONE; i++)
		hdl_tp_progress(hdl_mpi_tp);
	cr_assert_eq((int)a.state, HDL_CID_DONE);
	cr_assert_eq(a.error, 0);
	cr_assert_eq(mock_nsent, first + 4, "a bitmap and a commit in each round");
	hdl_id_give((unsigned)a.id);
	memcpy(&sent, mock_sent[first + 2].data, len);
	return sent.number;
}

/* Two leaders made a number each. With different numbers each group might give its bitmap to another one of two agreements, in
 * every round. */
Test(p2p_comms, leaders_go_on_with_the_lower_number)
{
	uint64_t ours;

	cr_assert_eq(number_of_both(true, &ours), 1);
	cr_assert_eq(number_of_both(false, &ours), ours);
}

Test(p2p_comms, dup_without_a_free_id)
{
	uint64_t all[WORDS_HEAD + 512] = { 0 };
	struct hdl_comm *c;

	memset(all + WORDS_HEAD, 0xff, sizeof(all) - WORDS_HEAD * 8);
	mock_later(1, hdl_cid_tag(0), 1, all, sizeof(all));
	mock_later(2, hdl_cid_tag(0), 1, all, (WORDS_HEAD + 1) * 8);
	cr_assert_eq(hdl_comm_dup(&hdl_world, &c), MPI_ERR_OTHER);
	cr_assert_null(c);
	cr_assert(strstr(hdl_reason_take(), "32768"));
}

Test(p2p_comms, self_comm_dup_until_all_ids_are_used)
{
	struct hdl_comm **c = calloc(32768, sizeof(*c));
	int n = 0;

	while (hdl_comm_dup(&hdl_self, &c[n]) == MPI_SUCCESS)
		n++;
	cr_assert_eq(n, 32765, "world and self have two of 32768, and constructors without a parent one");
	cr_assert_eq(c[n - 1]->context, 65534);
	hdl_comm_release(c[100]);
	cr_assert_eq(hdl_comm_dup(&hdl_self, &c[100]), MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		hdl_comm_release(c[i]);
	free(c);
}

Test(p2p_comms, split_orders_by_key)
{
	uint64_t mask[2] = { 0, 3 };
	int table1[3] = { 1, 5, 1 }, table23[6] = { 1, 3, 2, 2, 0, 3 };
	struct hdl_comm *c;
	int value = 9, got;
	MPI_Status s;

	mock_later(1, hdl_cid_tag(0), 1, mask, sizeof(mask));
	mock_later(1, hdl_cid_tag(0), 1, table1, sizeof(table1));
	mock_later(2, hdl_cid_tag(0), 1, mask, sizeof(mask));
	mock_later(2, hdl_cid_tag(0), 1, table23, sizeof(table23));
	cr_assert_eq(hdl_comm_split(&hdl_world, 1, 4, &c), MPI_SUCCESS);
	cr_assert_eq(c->size,
		     3);			/* ranks 2 (key 3), 0 (key 4), 1 (key 5); rank 3 has another color */
	cr_assert_eq(c->rank, 1);
	cr_assert_eq(hdl_comm_proc(c, 0), 2);
	cr_assert_eq(hdl_comm_proc(c, 2), 1);
	cr_assert_eq(hdl_comm_rank_of(c, 1), 2);
	cr_assert_eq(hdl_comm_rank_of(c, 3), MPI_UNDEFINED);
	mock_later(2, 1, c->context, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, MPI_ANY_SOURCE, 1, c, c->context, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 0);
	mock_later(1, 1, c->context, &value, sizeof(value));
	cr_assert_eq(hdl_recv(&got, 1, ints, 2, 1, c, c->context, &s), MPI_SUCCESS);
	cr_assert_eq(s.MPI_SOURCE, 2);
	hdl_comm_release(c);
}

Test(p2p_comms, freed_comm_lives_for_its_requests)
{
	struct hdl_comm *c;
	struct hdl_req *r;
	uint16_t context;
	int got = 0, v = 5;

	hdl_comm_dup(&hdl_self, &c);
	context = c->context;
	hdl_irecv(&got, 1, ints, 0, 1, c, context, &r);
	hdl_comm_release(c);
	cr_assert_eq(r->comm->obj.magic, HDL_MAGIC_COMM);
	mock_eager(0, 1, context, &v, sizeof(v));
	cr_assert_eq(got, 5);
	hdl_req_free(r);
	hdl_comm_dup(&hdl_self, &c);
	cr_assert_eq(c->context, context, "the id came back with the last request");
	hdl_comm_release(c);
}

Test(p2p_comms, report)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct hdl_req *r, *s;
	int got, v = 1;

	mock_mode = MOCK_LATER;
	hdl_call = "MPI_Waitall";
	hdl_irecv(&got, 1, ints, MPI_ANY_SOURCE, 17, &hdl_world, 0, &r);
	hdl_isend(&v, 1, ints, 3, 18, &hdl_world, 0, true, &s);
	hdl_p2p_dump(f);
	fclose(f);
	cr_assert(strstr(text, "MPI_Waitall"), "%s", text);
	cr_assert(strstr(text, "receive from rank any, tag 17, MPI_COMM_WORLD"), "%s", text);
	cr_assert(strstr(text, "send to rank 3, tag 18, MPI_COMM_WORLD"), "%s", text);
	free(text);
	mock_complete(0, 0);
	hdl_req_cancel(r);
	hdl_req_free(r);
	hdl_req_free(s);
}

/* Communicators of 1,000 ranks, with groups of every form: each member is reached as its own endpoint, and no other endpoint
 * is made. */
static void reach_all(struct hdl_comm *c)
{
	static const int some[] = { 0, 1, 255, 256, 257, 498, 499 };
	int v = 3;

	for (unsigned i = 0; i < sizeof(some) / sizeof(*some); i++) {
		int r = some[i];

		if (r >= c->size)
			break;
		cr_assert_null(hdl_comm_ep_met(c, r));
		if (r == c->rank) {
			cr_assert_null(hdl_comm_ep(c, r));
			continue;
		}
		cr_assert_eq(hdl_send(&v, 1, ints, r, 1, c, c->context, false), MPI_SUCCESS);
		cr_assert_eq(mock_sent[mock_nsent - 1].dest, hdl_comm_proc(c, r));
		cr_assert_eq(hdl_comm_rank_of(c, hdl_comm_proc(c, r)), r);
		cr_assert_eq(hdl_comm_ep_met(c, r), hdl_ep(hdl_mpi_tp, hdl_comm_proc(c, r)));
	}
	cr_assert_null(hdl_comm_ep_met(c, 300 % c->size));
}

static void thousand(void)
{
	mock_job(600, 1000);
	cr_assert_eq(hdl_p2p_init(), 0);
	ints = hdl_type_get(MPI_INT);
}

TestSuite(leaves, .init = thousand, .fini = p2p_teardown, .timeout = 60);

Test(leaves, of_every_form_of_group)
{
	int *table = malloc(500 * sizeof(*table));
	struct hdl_group *groups[5];
	struct hdl_comm *c, *same;

	for (int r = 0; r < 500; r++)
		table[r] = (r * 7 + 601) % 1000;
	groups[0] = hdl_group_retain(hdl_world.group);
	groups[1] = hdl_group_range(400, 1, 500);	/* this process is in the middle of a leaf */
	groups[2] = hdl_group_range(0, 2, 500);
	groups[3] = hdl_group_range(999, -1, 1000);
	groups[4] = hdl_group_table(table, 500);
	for (int i = 0; i < 5; i++) {
		c = hdl_comm_new(groups[i]);
		reach_all(c);
		same = hdl_comm_new(hdl_group_retain(groups[i]));
		cr_assert_eq(same->leaf, c->leaf, "communicators of one group share its leaves");
		hdl_comm_forget(same);
		hdl_comm_forget(c);
	}
}

/* ---- instances ------------------------------------------------------------------------------------------- */

static int told;

static bool note_told(uint16_t context, int proc, bool by_message)
{
	(void)context;
	(void)proc;
	(void)by_message;
	told++;
	return true;
}

/* As a second instance of the transport brings it. */
static void arrive_at(struct hdl_matching *m, int src, int tag, uint16_t context, int value)
{
	struct hdl_hdr hdr = { .tag = tag, .context = context, .len = sizeof(value), .kind = HDL_EAGER };

	hdl_p2p_upcalls.arrived(m, src, &hdr, &value);
}

/* Communicators of the same ranks and contexts, in two instances of matching. */
Test(p2p_comms, two_instances_do_not_meet)
{
	struct hdl_matching *second = hdl_matching_new();
	struct hdl_comm there = hdl_world;
	struct hdl_req *r, *q;
	int flag, a = 0, b = 0, value = 1;

	cr_assert_not_null(second);
	second->tp = hdl_mpi_tp;
	there.matching = second;

	cr_assert_eq(hdl_irecv(&a, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &r), 0);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 1, 5, &there, 0, &q), 0);
	mock_eager(1, 5, 0, &value, sizeof(value));
	cr_assert(r->done && !q->done && a == 1 && b == 0);
	hdl_req_free(r);
	cr_assert_eq(hdl_irecv(&a, 1, ints, MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &r), 0);
	arrive_at(second, 1, 5, 0, 2);
	cr_assert(!r->done && q->done && a == 1 && b == 2);
	hdl_req_free(q);

	/* unexpected messages, and a cancelled receive */
	arrive_at(second, 2, 6, 0, 3);
	cr_assert(second->nunexpected == 1 && !hdl_mpi_matching->nunexpected && !hdl_mpi_matching->unexpected_bytes);
	cr_assert_eq(hdl_iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, &hdl_world, 0, &flag, MPI_STATUS_IGNORE), 0);
	cr_assert_not(flag);
	cr_assert_eq(hdl_recv(&b, 1, ints, 2, MPI_ANY_TAG, &there, 0, MPI_STATUS_IGNORE), 0);
	cr_assert_eq(b, 3);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 2, 6, &there, 0, &q), 0);
	hdl_req_cancel(q);
	cr_assert(hdl_status_cancelled(&q->status) && !r->done);
	hdl_req_free(q);

	/* the end of a process */
	hdl_ft_on_message(note_told);
	arrive_at(second, 1, HDL_FT_TAG + 2, 1, 0);
	cr_assert_eq(told, 0, "what the collectives ask to be told of is MPI's instance");
	hdl_ft_on_message(NULL);
	hdl_recv_revoke(&there, 2);
	cr_assert_eq(hdl_recv_revoked(&there, 1), 3);
	cr_assert_eq(hdl_recv_revoked(&hdl_world, 1), 0);
	hdl_p2p_upcalls.peer_failed(second, 3, -ECONNRESET);
	cr_assert_eq(hdl_irecv(&b, 1, ints, 3, 6, &there, 0, &q), 0);
	cr_assert(q->done && q->error == MPI_ERR_PROC_ABORTED && !r->done);
	hdl_req_free(q);

	/* one ends while the other goes on */
	hdl_matching_free(second);
	mock_eager(2, 9, 0, &value, sizeof(value));
	cr_assert(r->done && a == 1);
	hdl_req_free(r);
	there.matching = NULL;
}
