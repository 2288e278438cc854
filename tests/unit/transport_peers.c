/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: found by rank for any set of ranks, with ids in the order of their creation. */
#include <criterion/criterion.h>
#include <limits.h>
#include <malloc.h>

#include "transport/peer/peers.h"

/* Endpoints are not looked into. */
static struct hdl_ep *nth(uint32_t i)
{
	return (struct hdl_ep *)(uintptr_t)(0x1000 + 16 * (uintptr_t)i);
}

static void check(int (*rank_of)(uint32_t i), uint32_t n)
{
	struct hdl_peers p = { 0 };

	cr_assert_null(hdl_peers_find(&p, rank_of(0)));
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_null(hdl_peers_find(&p, rank_of(i)));
		cr_assert_eq(hdl_peers_add(&p, rank_of(i), nth(i)), i);
		cr_assert_eq(hdl_peers_find(&p, rank_of(i)), nth(i));
		cr_assert_eq(hdl_peers_find(&p, rank_of(i / 2)), nth(i / 2));
	}
	cr_assert_eq(p.n, n);
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_eq(p.of[i], nth(i));
		cr_assert_eq(hdl_peers_find(&p, rank_of(i)), nth(i));
	}
	for (uint32_t i = n; i < 2 * n; i++)
		cr_assert_null(hdl_peers_find(&p, rank_of(i)));
	hdl_peers_clear(&p);
	cr_assert_null(hdl_peers_find(&p, rank_of(0)));
}

Test(peers, replaced)
{
	enum { N = 100 };
	struct hdl_peers p = { 0 };

	for (uint32_t i = 0; i < N; i++)
		hdl_peers_add(&p, (int)i, nth(i));
	cr_assert_eq(hdl_peers_add_nameless(&p, nth(N)), N);
	cr_assert(p.met == N && p.live == N && p.n == N + 1);
	for (uint32_t i = 0; i < N; i += 2)
		hdl_peers_replace(&p, (int)i, N);
	cr_assert(p.met == N && p.live == N / 2);
	/* ids go on, and the tables grow */
	for (uint32_t i = N; i < 2 * N; i++)
		cr_assert_eq(hdl_peers_add(&p, (int)i, nth(i + 1)), i + 1);
	for (uint32_t i = 0; i < 2 * N; i++) {
		cr_assert_eq(hdl_peers_find(&p, (int)i), i >= N ? nth(i + 1) : i % 2 ? nth(i) : nth(N));
		cr_assert_eq(hdl_peers_of(&p, i), i < N && i % 2 == 0 ? NULL : nth(i));
	}
	hdl_peers_clear(&p);
}

/* Ranks come and go, in an order that mixes the chains of the hash table, which does not grow with what has gone. */
Test(peers, removed)
{
	enum { LIVE = 50, ROUNDS = 4000 };
	struct hdl_peers p = { 0 };
	int ranks[LIVE];

	hdl_peers_remove(&p, 5);
	cr_assert_eq(hdl_peers_add_nameless(&p, nth(0)), 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		int *rank = &ranks[i * 7 % LIVE];

		if (i >= LIVE) {
			hdl_peers_replace(&p, *rank, 0);
			cr_assert_eq(hdl_peers_find(&p, *rank), nth(0));
			hdl_peers_remove(&p, *rank);
			cr_assert_null(hdl_peers_find(&p, *rank));
			hdl_peers_remove(&p, *rank);
		}
		*rank = (int)((i + 1) * (i + 7) * (i + 1000003u) % 1000003u);	/* not spread evenly by the hash */
		cr_assert_eq(hdl_peers_add(&p, *rank, nth(i + 1)), i + 1);
		for (uint32_t k = i < LIVE ? i : LIVE; k-- > 0;)
			cr_assert_eq(hdl_peers_find(&p, ranks[(i - k) * 7 % LIVE]), nth(i - k + 1));
	}
	cr_assert_eq(p.ranks, LIVE);
	cr_assert_leq(1u << (32 - p.shift), 4 * LIVE);
	hdl_peers_clear(&p);
}

/* Ranges go, and the ranks around them stay, in a table with long chains: the squares modulo a prime are no even sequence. */
Test(peers, removed_by_range)
{
	enum { PRIME = 1201, N = PRIME / 2, APART = 65521, STEP = 300 * APART };
	struct hdl_peers p = { 0 };
	int ranks[N];

	cr_assert(hdl_peers_remove_range(&p, 0, INT_MAX, NULL));
	cr_assert_eq(hdl_peers_add_nameless(&p, nth(0)), 0);
	for (int i = 0; i < N; i++) {
		ranks[i] = (i + 1) * (i + 1) % PRIME * APART;
		hdl_peers_add(&p, ranks[i], nth((uint32_t)i + 1));
	}
	for (int first = 0; first < PRIME * APART; first += STEP) {
		cr_assert_not(hdl_peers_remove_range(&p, first, STEP, nth(0)));
		for (int i = 0; i < N; i++)
			if (ranks[i] >= first && ranks[i] - first < STEP) {
				cr_assert_eq(hdl_peers_find(&p, ranks[i]), nth((uint32_t)i + 1));
				hdl_peers_replace(&p, ranks[i], 0);
			}
		cr_assert(hdl_peers_remove_range(&p, first, STEP, nth(0)));
		for (int i = 0; i < N; i++)
			cr_assert_eq(hdl_peers_find(&p, ranks[i]), ranks[i] - first < STEP ? NULL : nth((uint32_t)i + 1));
	}
	cr_assert_eq(p.ranks, 0);
	cr_assert(hdl_peers_remove_range(&p, 0, INT_MAX, NULL));
	hdl_peers_clear(&p);
}

static int in_order(uint32_t i)
{
	return (int)i;		/* rank 0 is no empty slot */
}

static int neighbours(uint32_t i)
{
	return 500000 + (int)((i + 1) / 2) * (i % 2 ? 1 : -1);
}

static int powers(uint32_t i)
{
	return (int)(i * 65536u & INT32_MAX) + (int)(i >> 15);
}

static int far(uint32_t i)
{
	return INT32_MAX - (int)i * 1024;
}

Test(peers, in_order)
{
	check(in_order, 5000);
}

Test(peers, neighbours)
{
	check(neighbours, 5000);
}

Test(peers, powers_of_two)
{
	check(powers, 5000);
}

Test(peers, far)
{
	check(far, 5000);
}

Test(peers, as_large_as_what_was_met)
{
	struct hdl_peers p = { 0 };
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;

	for (uint32_t i = 0; i < 100; i++)
		hdl_peers_add(&p, (int)i * 10000000, nth(i));
	cr_assert_leq(mallinfo2().uordblks + mallinfo2().hblkhd - before, 100 * 80, "%zu bytes for 100 peers",
		      mallinfo2().uordblks + mallinfo2().hblkhd - before);
	hdl_peers_clear(&p);
}
