/* SPDX-License-Identifier: BSD-3-Clause */
/* Per-peer order: parked, delivered once, duplicates dropped, numbers that wrap. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport/peer/order.h"

/* Receives one message; appends the delivered messages to out. */
static unsigned receive(struct hdl_order *o, uint32_t value, uint32_t *out)
{
	struct hdl_parked *p;
	unsigned n = 0;

	switch (hdl_order_check(o, (uint16_t)value)) {
	case HDL_ORDER_DELIVER:
		out[n++] = value;
		while ((p = hdl_order_next(o))) {
			memcpy(&out[n++], p->data, 4);
			free(p);
		}
		break;
	case HDL_ORDER_PARK:
		cr_assert(hdl_order_park(o, (uint16_t)value, &value, 2, (char *)&value + 2, 2) >= 0);
		break;
	case HDL_ORDER_DROP:
		break;
	}
	return n;
}

Test(order, in_sequence)
{
	struct hdl_order o = { 0 };
	uint32_t out[4];

	for (uint32_t i = 0; i < 200000; i++) {
		cr_assert_eq(receive(&o, i, out), 1);
		cr_assert_eq(out[0], i);
	}
	cr_assert_null(o.head);
}

Test(order, ahead_is_parked_and_comes_in_order)
{
	struct hdl_order o = { 0 };
	uint32_t out[8];

	cr_assert_eq(receive(&o, 3, out), 0);
	cr_assert_eq(receive(&o, 1, out), 0);
	cr_assert_eq(receive(&o, 2, out), 0);
	cr_assert_eq(o.parked, 3);
	cr_assert_eq(receive(&o, 2, out), 0);	/* a duplicate of a parked one */
	cr_assert_eq(o.parked, 3);
	cr_assert_eq(receive(&o, 0, out), 4);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(out[i], i);
	cr_assert_eq(receive(&o, 3, out), 0);	/* of a delivered one */
	cr_assert_eq(o.duplicates, 2);
	cr_assert_eq(o.parked, 0);
}

/* Random displacement and duplication, over several wraps of the 16-bit number. */
Test(order, shuffled)
{
	enum { N = 300000, SPAN = 2000 };
	struct hdl_order o = { 0 };
	uint32_t *seq = malloc(N * sizeof(*seq)), *out = malloc((SPAN * 4) * sizeof(*out)), next = 0;

	srand48(7);
	for (uint32_t i = 0; i < N; i++)
		seq[i] = i;
	/* swaps within blocks keep every message within SPAN of its place */
	for (uint32_t i = 0; i < N; i++) {
		uint32_t block = i / SPAN * SPAN, end = block + SPAN < N ? block + SPAN : N;
		uint32_t j = block + (uint32_t)(lrand48() % (end - block)), t = seq[i];
		seq[i] = seq[j];
		seq[j] = t;
	}
	for (uint32_t i = 0; i < N; i++) {
		for (unsigned times = 1 + (lrand48() % 10 == 0); times--;) {
			unsigned n = receive(&o, seq[i], out);
			for (unsigned k = 0; k < n; k++, next++)
				cr_assert_eq(out[k], next, "message %u comes when %u is expected", out[k], next);
		}
	}
	cr_assert_eq(next, N);
	cr_assert_eq(o.parked, 0);
	cr_assert_gt(o.duplicates, 0);
	cr_assert_gt(o.reordered, 0);
	free(seq);
	free(out);
}

Test(order, clear_frees)
{
	struct hdl_order o = { 0 };
	uint32_t out[1];

	for (uint32_t i = 1; i < 10; i++)
		receive(&o, i, out);
	cr_assert_eq(o.parked, 9);
	hdl_order_clear(&o);
	cr_assert_null(o.head);
	cr_assert_eq(o.parked, 0);
}
