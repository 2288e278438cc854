/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching order (MPI-5.0 section 3.5), by itself: against a model that keeps two plain lists; in two instances side by side. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/match.h"
#include "p2p_mock.h"

static struct hdl_unexpected *message(uint16_t context, int src, int tag, int id)
{
	struct hdl_unexpected *u = hdl_buf_get(sizeof(*u) + sizeof(int));

	memset(u, 0, sizeof(*u));
	u->context = context;
	u->src = src;
	u->tag = tag;
	u->kind = HDL_EAGER;
	u->len = sizeof(int);
	u->heap_bytes = hdl_buf_size(u);
	memcpy(u->data, &id, sizeof(id));
	return u;
}

static struct hdl_op *receive(uint16_t context, int src, int tag)
{
	struct hdl_op *op = calloc(1, sizeof(*op));

	op->context = context;
	op->src = src;
	op->tag = tag;
	return op;
}

/* An instance in which these wait, in the order of their posting; NULL is the end. */
static struct hdl_matching *waiting(struct hdl_op *const *op)
{
	struct hdl_matching *m = hdl_matching_new();

	for (; *op; op++)
		hdl_match_post(m, *op);
	return m;
}
#define WAITING(...) waiting((struct hdl_op *[]){ __VA_ARGS__, NULL })

Test(match, same_key_in_order_of_posting)
{
	struct hdl_op *a = receive(0, 1, 7), *b = receive(0, 1, 7), *c = receive(0, 1, 8);
	struct hdl_matching *m = WAITING(a, b, c);

	cr_assert_eq(hdl_match_arrived(m, 0, 1, 8), c);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), a);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), b);
	cr_assert_null(hdl_match_arrived(m, 0, 1, 7));
}

Test(match, context_separates)
{
	struct hdl_op *a = receive(2, 1, 7), *w = receive(4, MPI_ANY_SOURCE, MPI_ANY_TAG);
	struct hdl_matching *m = WAITING(a, w);

	cr_assert_null(hdl_match_arrived(m, 0, 1, 7));
	cr_assert_null(hdl_match_arrived(m, 3, 1, 7));
	cr_assert_eq(hdl_match_arrived(m, 4, 1, 7), w);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), a);
}

/* Two contexts of which one source and tag lie in one bucket. */
Test(match, context_separates_in_a_bucket)
{
	struct hdl_matching *m = hdl_matching_new();
	struct hdl_op *a = receive(0, 1, 7);
	int other = 2;

	while (other < UINT16_MAX && hdl_match_bucket(m, (uint16_t)other, 1, 7) != hdl_match_bucket(m, 0, 1, 7))
		other += 2;
	cr_assert_lt(other, UINT16_MAX);
	hdl_match_post(m, a);
	cr_assert_null(hdl_match_arrived(m, (uint16_t)other, 1, 7));
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), a);
	hdl_match_add(m, message((uint16_t)other, 1, 7, 1));
	cr_assert_null(hdl_match_find(m, 0, 1, 7));
	cr_assert_not_null(hdl_match_find(m, (uint16_t)other, 1, 7));
	hdl_matching_free(m);
	hdl_buf_fini();
}

Test(match, earlier_of_exact_and_wildcard)
{
	struct hdl_op *w = receive(0, MPI_ANY_SOURCE, 7), *e = receive(0, 1, 7), *v = receive(0, 1, MPI_ANY_TAG);
	struct hdl_matching *m = WAITING(w, e, v);

	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), w);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), e);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), v);
}

/* mpi_assert_allow_overtaking: a message matches the exact receive, though wildcard receives were posted before it. */
Test(match, overtaking_takes_the_exact_one)
{
	struct hdl_op *w = receive(0, MPI_ANY_SOURCE, 7), *e = receive(0, 1, 7), *f = receive(2, 1, 7);
	struct hdl_op *x = receive(2, MPI_ANY_SOURCE, 7), *y = receive(2, MPI_ANY_SOURCE, 7);

	struct hdl_matching *m = hdl_matching_new();

	m->overtaking[2] = true;
	hdl_match_post(m, w);
	hdl_match_post(m, e);
	hdl_match_post(m, x);
	hdl_match_post(m, y);
	hdl_match_post(m, f);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), f);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), x);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), y);
	cr_assert_null(hdl_match_arrived(m, 2, 1, 7));
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), w);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), e);
}

Test(match, withdraw_keeps_the_rest)
{
	struct hdl_op *op[6];
	struct hdl_matching *m = hdl_matching_new();

	for (int i = 0; i < 6; i++) {
		op[i] = receive(0, i < 3 ? 1 : MPI_ANY_SOURCE, 7);
		hdl_match_post(m, op[i]);
	}
	hdl_match_withdraw(m, op[2]);
	hdl_match_withdraw(m, op[5]);
	hdl_match_withdraw(m, op[0]);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), op[1]);
	hdl_match_post(m, op[2]);
	hdl_match_post(m, op[5]);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), op[3]);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), op[4]);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), op[2]);
	cr_assert_eq(hdl_match_arrived(m, 0, 9, 7), op[5]);
}

Test(match, purge_takes_one_context)
{
	struct hdl_matching *m = hdl_matching_new();

	for (int i = 0; i < 10; i++)
		hdl_match_add(m, message(i % 2 ? 6 : 8, i, i, i));
	cr_assert_eq(hdl_match_purge(m, 6), 5);
	cr_assert_eq(m->nunexpected, 5);
	cr_assert_null(hdl_match_find(m, 6, MPI_ANY_SOURCE, MPI_ANY_TAG));
	cr_assert_not_null(hdl_match_find(m, 8, 4, 4));
	hdl_matching_free(m);
	hdl_buf_fini();
}

/* The same keys in both: a message of one communicator matches no posted receive, and no unexpected message, of the other. */
Test(match, two_instances_share_nothing)
{
	struct hdl_matching *m = hdl_matching_new(), *other = hdl_matching_new();
	struct hdl_op *e = receive(0, 1, 7), *w = receive(0, MPI_ANY_SOURCE, MPI_ANY_TAG), *f = receive(0, 1, 7);

	hdl_match_post(m, e);
	hdl_match_post(m, w);
	cr_assert_null(hdl_match_arrived(other, 0, 1, 7));
	hdl_match_post(other, f);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), e);
	cr_assert_eq(hdl_match_arrived(m, 0, 1, 7), w);
	cr_assert_null(hdl_match_arrived(m, 0, 1, 7));
	cr_assert_eq(hdl_match_arrived(other, 0, 1, 7), f);
	hdl_match_add(m, message(0, 1, 7, 1));
	cr_assert_null(hdl_match_find(other, 0, 1, 7));
	hdl_match_add(other, message(0, 1, 8, 2));	/* else that one need not look */
	cr_assert_null(hdl_match_find(other, 0, 1, 7));
	cr_assert_eq(hdl_match_find(other, 0, MPI_ANY_SOURCE, MPI_ANY_TAG)->tag, 8);
	cr_assert_gt(m->unexpected_bytes, 0);
	cr_assert_eq(hdl_match_purge(m, 0), 1);
	cr_assert_eq(m->unexpected_bytes, 0);
	cr_assert_gt(other->unexpected_bytes, 0);
	hdl_matching_free(m);		/* while the other goes on */
	cr_assert_eq(hdl_match_purge(other, 0), 1);
	hdl_matching_free(other);
	hdl_buf_fini();
}

/* ---- random traffic against the model ------------------------------------------------------------------ */

#define N	20000

struct item {
	int context, src, tag, id;
	void *object;
};
/* One instance of matching, and the model of it. */
static struct side {
	struct hdl_matching *m;
	struct item posted[N], waiting[N];
	int nposted, nwaiting;
} sides[2];

static bool fits(int want, int any, int have)
{
	return want == any || want == have;
}

static void take(struct item *list, int *n, int i)
{
	memmove(&list[i], &list[i + 1], (--*n - i) * sizeof(*list));
}

static void random_traffic(unsigned seed, int sources, int tags, int contexts, int wild_percent, int bias)
{
	int id = 0;

	srandom(seed);
	for (struct side *s = sides; s < sides + 2; s++) {
		s->m = hdl_matching_new();
		s->nposted = s->nwaiting = 0;
	}
	for (int step = 0; step < N; step++) {
		int context = 2 * (random() % contexts), src = random() % sources, tag = random() % tags, i;
		struct side *s = &sides[random() % 2];

		if (s->nposted && random() % 50 == 0) {
			i = (int)(random() % s->nposted);
			hdl_match_withdraw(s->m, s->posted[i].object);
			free(s->posted[i].object);
			take(s->posted, &s->nposted, i);
		} else if (s->nwaiting && random() % 50 == 0) {
			i = (int)(random() % s->nwaiting);	/* a sender takes it back */
			hdl_match_remove(s->m, s->waiting[i].object);
			hdl_buf_put(s->waiting[i].object);
			take(s->waiting, &s->nwaiting, i);
		} else if ((int)(random() % 100) < bias) {
			struct hdl_op *op;
			struct hdl_unexpected *u;

			if ((int)(random() % 100) < wild_percent)
				src = MPI_ANY_SOURCE;
			if ((int)(random() % 100) < wild_percent)
				tag = MPI_ANY_TAG;
			for (i = 0; i < s->nwaiting; i++)
				if (s->waiting[i].context == context && fits(src, MPI_ANY_SOURCE, s->waiting[i].src) &&
				    fits(tag, MPI_ANY_TAG, s->waiting[i].tag))
					break;
			u = hdl_match_find(s->m, context, src, tag);
			if (i < s->nwaiting) {
				cr_assert_eq((void *)u, s->waiting[i].object, "step %d", step);
				hdl_match_remove(s->m, u);
				hdl_buf_put(u);
				take(s->waiting, &s->nwaiting, i);
				continue;
			}
			cr_assert_null(u, "step %d", step);
			op = receive(context, src, tag);
			hdl_match_post(s->m, op);
			s->posted[s->nposted++] = (struct item){ context, src, tag, id++, op };
		} else {
			struct hdl_op *op = hdl_match_arrived(s->m, context, src, tag);

			for (i = 0; i < s->nposted; i++)
				if (s->posted[i].context == context && fits(s->posted[i].src, MPI_ANY_SOURCE, src) &&
				    fits(s->posted[i].tag, MPI_ANY_TAG, tag))
					break;
			if (i < s->nposted) {
				cr_assert_eq((void *)op, s->posted[i].object, "step %d", step);
				free(op);
				take(s->posted, &s->nposted, i);
			} else {
				struct hdl_unexpected *u = message(context, src, tag, id);

				cr_assert_null(op, "step %d", step);
				hdl_match_add(s->m, u);
				s->waiting[s->nwaiting++] = (struct item){ context, src, tag, id++, u };
			}
		}
	}
	for (struct side *s = sides; s < sides + 2; s++) {
		cr_assert_eq(s->m->nunexpected, (size_t)s->nwaiting);
		while (s->nposted) {
			hdl_match_withdraw(s->m, s->posted[0].object);
			free(s->posted[0].object);
			take(s->posted, &s->nposted, 0);
		}
		for (int c = 0; c < contexts; c++)
			hdl_match_purge(s->m, (uint16_t)(2 * c));
		cr_assert_eq(s->m->nunexpected, 0);
		cr_assert_eq(s->m->nentries, 0);
		cr_assert_eq(s->m->unexpected_bytes, 0);
		hdl_matching_free(s->m);
	}
	hdl_buf_fini();
}

Test(match, random_few_keys)
{
	random_traffic(1, 3, 3, 2, 20, 50);
}

Test(match, random_many_keys_grow_the_table)
{
	random_traffic(2, 1000, 1000, 30, 5, 50);
}

Test(match, random_mostly_unexpected)
{
	random_traffic(3, 5, 20, 2, 30, 30);
}

Test(match, random_mostly_posted)
{
	random_traffic(4, 5, 20, 2, 30, 70);
}

Test(match, random_no_wildcards)
{
	random_traffic(5, 4, 4, 1, 0, 50);
}

/* Contexts have an index, lose it when they have no message any more, and get it again. */
Test(match, random_long_queues)
{
	random_traffic(6, 4, 500, 3, 15, 35);
	random_traffic(7, 200, 4, 2, 40, 48);
	random_traffic(8, 30, 30, 1, 60, 50);
}

/* ---- the cost of one among many ------------------------------------------------------------------------ */

#define MANY	50000
#define STEPS	8		/* for each message at most */

/* MANY unexpected messages; key[]: the wildcards and the varying part of the receives that take them in reverse order. */
static void reverse(bool by_tag)
{
	struct hdl_matching *m = hdl_matching_new();

	for (int i = 0; i < MANY; i++)
		hdl_match_add(m, by_tag ? message(0, i % 7, i, i) : message(0, i, i % 7, i));
	for (int i = MANY; i--;) {
		struct hdl_unexpected *u = hdl_match_find(m, 0, by_tag ? MPI_ANY_SOURCE : i, by_tag ? i : MPI_ANY_TAG);

		cr_assert_not_null(u);
		cr_assert_eq(by_tag ? u->tag : u->src, i);
		cr_assert_null(hdl_match_find(m, 0, by_tag ? MPI_ANY_SOURCE : MANY, by_tag ? MANY : MPI_ANY_TAG));
		hdl_match_remove(m, u);
		hdl_buf_put(u);
	}
	cr_expect_leq(m->steps, (size_t)STEPS * MANY, "%zu steps", m->steps);
	cr_expect_null(m->index, "an index of nothing is kept");
	hdl_matching_free(m);
	hdl_buf_fini();
}

Test(match, any_source_among_many)
{
	reverse(true);
}

Test(match, any_tag_among_many)
{
	reverse(false);
}

/* Messages for MANY posted receives with a wildcard of each kind, in reverse order; the receives of both wildcards come last. */
Test(match, arrivals_among_many)
{
	struct hdl_matching *m = hdl_matching_new();
	static struct hdl_op *tags[MANY], *sources[MANY], *any;

	for (int i = 0; i < MANY; i++) {
		hdl_match_post(m, tags[i] = receive(0, MPI_ANY_SOURCE, MANY + i));
		hdl_match_post(m, sources[i] = receive(0, i, MPI_ANY_TAG));
	}
	hdl_match_post(m, any = receive(0, MPI_ANY_SOURCE, MPI_ANY_TAG));
	for (int i = MANY; i--;) {
		cr_assert_eq(hdl_match_arrived(m, 0, MANY, MANY + i), tags[i]);
		cr_assert_eq(hdl_match_arrived(m, 0, i, 1), sources[i]);
	}
	cr_assert_eq(hdl_match_arrived(m, 0, 3, 1), any);
	cr_assert_null(hdl_match_arrived(m, 0, 3, 1));
	cr_expect_leq(m->steps, (size_t)2 * STEPS * MANY, "%zu steps", m->steps);
	cr_expect_eq(m->nentries, 0);
	hdl_matching_free(m);
}

/* The same rule as overtaking_takes_the_exact_one, where receives with wildcards are many. */
Test(match, overtaking_among_many)
{
	struct hdl_matching *m = hdl_matching_new();
	struct hdl_op *first = receive(2, MPI_ANY_SOURCE, 7), *exact = receive(2, 1, 7);

	m->overtaking[2] = true;
	hdl_match_post(m, first);
	for (unsigned i = 0; i < 2 * HDL_MATCH_WALK; i++)
		hdl_match_post(m, receive(2, MPI_ANY_SOURCE, 100 + (int)i));
	hdl_match_post(m, exact);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), exact);
	cr_assert_eq(hdl_match_arrived(m, 2, 1, 7), first);
}

/* Two contexts of which one key lies in one bucket of the index. */
Test(match, context_separates_in_the_index)
{
	struct hdl_matching *m = hdl_matching_new();
	uint16_t other = 2;

	for (unsigned i = 0; i < HDL_MATCH_WALK; i++)
		hdl_match_add(m, message(0, (int)i, 9, 0));
	hdl_match_find(m, 0, MPI_ANY_SOURCE, 1);
	cr_assert_not_null(m->index);
	cr_assert_eq(m->index_size, 256);
	while (hdl_match_hash(other, MPI_ANY_SOURCE, 9) >> 56 != hdl_match_hash(0, MPI_ANY_SOURCE, 9) >> 56)
		other += 2;
	cr_assert_neq(other, 0);
	for (unsigned i = 0; i < HDL_MATCH_WALK; i++)
		hdl_match_add(m, message(other, (int)i, 8, 0));
	cr_assert_null(hdl_match_find(m, other, MPI_ANY_SOURCE, 9));
	cr_assert_null(hdl_match_find(m, other, MPI_ANY_SOURCE, 9));
	cr_assert_not_null(hdl_match_find(m, other, MPI_ANY_SOURCE, 8));
	hdl_match_purge(m, 0);
	hdl_match_purge(m, other);
	cr_assert_null(m->index);
	hdl_matching_free(m);
	hdl_buf_fini();
}

/* ---- pooled memory -------------------------------------------------------------------------------------- */

Test(buffer, sizes_and_reuse)
{
	static const size_t sizes[] = { 0, 1, 112, 113, 4096, 65520, 65521, 1 << 20 };
	void *p[8];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 8; i++) {
			p[i] = hdl_buf_get(sizes[i]);
			cr_assert_not_null(p[i]);
			cr_assert_eq((uintptr_t)p[i] % 16, 0);
			memset(p[i], i, sizes[i]);
		}
		for (int i = 0; i < 8; i++) {
			for (size_t k = 0; k < sizes[i]; k++)
				cr_assert_eq(((char *)p[i])[k], i);
			hdl_buf_put(p[i]);
		}
	}
	p[0] = hdl_buf_get(100);
	hdl_buf_put(p[0]);
	cr_assert_eq(hdl_buf_get(100), p[0], "a freed buffer is taken again");
	cr_assert_null(hdl_buf_get(SIZE_MAX));
	hdl_buf_put(NULL);
}
