/* SPDX-License-Identifier: BSD-3-Clause */
/* The box of a partitioned receive: counts of the receiver's partitions, stored by threads that have other ones. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/part_box.h"

enum { MINE = 6, THEIRS = 4, TOTAL = 6 * 4 * 100, EPOCHS = 200 };

static struct hdl_part_box *box;
static pthread_barrier_t turn;

static void *stores(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg, each = TOTAL / MINE;

	for (int e = 1; e <= EPOCHS; e++) {
		pthread_barrier_wait(&turn);
		hdl_box_data(box, THEIRS)[i * each] = (char)e;
		hdl_box_wrote(box, THEIRS, TOTAL / THEIRS, (uint32_t)e, i * each, each);
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
	}
	return NULL;
}

Test(p2p_part_box, threads)
{
	pthread_t t[MINE];

	box = aligned_alloc(64, align_up(hdl_box_bytes(THEIRS, TOTAL), 64));
	cr_assert(box);
	memset(box, 0, hdl_box_bytes(THEIRS, TOTAL));
	pthread_barrier_init(&turn, NULL, MINE + 1);
	for (size_t i = 0; i < MINE; i++)
		pthread_create(&t[i], NULL, stores, (void *)(uintptr_t)i);
	for (uint32_t e = 1; e <= EPOCHS; e++) {
		for (uint32_t j = 0; j < THEIRS; j++)
			cr_assert(!hdl_box_has(box, THEIRS, TOTAL / THEIRS, j, e));
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
		for (uint32_t j = 0; j < THEIRS; j++)
			cr_assert(hdl_box_has(box, THEIRS, TOTAL / THEIRS, j, e), "partition %u of epoch %u", j, e);
		for (size_t i = 0; i < MINE; i++)
			cr_assert_eq(hdl_box_data(box, THEIRS)[i * (TOTAL / MINE)], (char)e);
		pthread_barrier_wait(&turn);
	}
	for (int i = 0; i < MINE; i++)
		pthread_join(t[i], NULL);
	free(box);
}

/* A partition of the sender lies in two of the receiver: neither is complete before its other part has come. */
Test(p2p_part_box, overlap)
{
	box = aligned_alloc(64, align_up(hdl_box_bytes(2, 12), 64));
	cr_assert(box);
	memset(box, 0, hdl_box_bytes(2, 12));
	hdl_box_wrote(box, 2, 6, 1, 4, 4);
	cr_assert(!hdl_box_has(box, 2, 6, 0, 1) && !hdl_box_has(box, 2, 6, 1, 1));
	hdl_box_wrote(box, 2, 6, 1, 8, 4);
	cr_assert(!hdl_box_has(box, 2, 6, 0, 1) && hdl_box_has(box, 2, 6, 1, 1));
	hdl_box_wrote(box, 2, 6, 1, 0, 4);
	cr_assert(hdl_box_has(box, 2, 6, 0, 1));
	cr_assert(!hdl_box_has(box, 2, 6, 0, 2));
	/* a write that has all of one partition and a part of the next */
	hdl_box_wrote(box, 2, 6, 2, 0, 8);
	cr_assert(hdl_box_has(box, 2, 6, 0, 2) && !hdl_box_has(box, 2, 6, 1, 2));
	hdl_box_wrote(box, 2, 6, 2, 8, 4);
	cr_assert(hdl_box_has(box, 2, 6, 1, 2));
	/* very many partitions: their counts and bytes lie one behind the other */
	cr_assert_eq((char *)hdl_box_count(box, 2000, 1) - (char *)hdl_box_count(box, 2000, 0), 8);
	cr_assert(hdl_box_data(box, 2000) >= (char *)hdl_box_count(box, 2000, 1999) + 8);
	free(box);
}

/* The sender finds GO of its epoch only; the receiver knows whether the sender waits for a message. */
Test(p2p_part_box, go)
{
	struct hdl_part_box b = { .nonce = 77 };

	cr_assert(!hdl_box_may_store(&b, 77, 1));
	cr_assert(hdl_box_go(&b, 1), "a sender that has not mapped the box needs a message");
	cr_assert(hdl_box_may_store(&b, 77, 1) && !hdl_box_may_store(&b, 77, 2) && !hdl_box_may_store(&b, 76, 1));
	b.mapped = 1;
	cr_assert(!hdl_box_go(&b, 2));
	cr_assert(hdl_box_may_store(&b, 77, 2) && !hdl_box_may_store(&b, 77, 1));
	b.asked = 3;
	cr_assert(hdl_box_go(&b, 3), "a sender that has asked needs a message");
	cr_assert(!hdl_box_go(&b, 4));
}
