/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliability over a network that loses, duplicates and reorders: two ends of rel.c, packets as numbers, a clock that
 * the test turns. Every packet must come out once, in order, and be given back once.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport/rel.h"

#define RTO_NS 200000

struct wire {			/* a datagram */
	uint32_t psn, ack;
	uint64_t sack;
	bool data;
	uint32_t value;
	uint64_t due;
};

struct end {
	struct hdl_rel rel;
	struct end *peer;
	uint32_t next_value, delivered;	/* values sent and received, in sequence */
	uint32_t given_back;
	bool *held_once;
};

static struct wire *net[2];	/* towards end 0 and end 1 */
static unsigned nnet[2];
static struct end ends[2];
static uint64_t now;
static double loss, duplicate, reorder;
static uint64_t lost;

static void transmit(struct end *e, struct wire w)
{
	int to = e == &ends[0];
	for (int times = 1 + (drand48() < duplicate); times--;) {
		if (drand48() < loss) {
			lost++;
			continue;
		}
		w.due = now + 1000 + (drand48() < reorder ? (uint64_t)(drand48() * 200000) : 0);
		net[to] = realloc(net[to], (nnet[to] + 1) * sizeof(*net[to]));
		net[to][nnet[to]++] = w;
	}
}

static void post(struct end *e, uint32_t psn, void *pkt)
{
	struct wire w = { .psn = psn, .data = true, .value = (uint32_t)(uintptr_t)pkt - 1 };
	hdl_rel_stamp(&e->rel, &w.ack, &w.sack);
	transmit(e, w);
}

static void on_acked(void *arg, void *pkt)
{
	struct end *e = arg;
	cr_assert_not_null(pkt);
	e->given_back++;
}

static void on_resend(void *arg, void *pkt, uint32_t psn)
{
	cr_assert_not_null(pkt, "a packet that was given back is sent again");
	post(arg, psn, pkt);
}

static void push(struct end *e)
{
	void *pkt = (void *)(uintptr_t)(++e->next_value);
	post(e, hdl_rel_push(&e->rel, pkt), pkt);
}

static void ack_now(struct end *e)
{
	struct wire w = { 0 };
	hdl_rel_stamp(&e->rel, &w.ack, &w.sack);
	transmit(e, w);
}

static void got(struct end *e, uint32_t value)
{
	cr_assert_eq(value, e->delivered, "packet %u is delivered when %u is expected", value, e->delivered);
	e->delivered++;
	/* an answer from inside a delivery must not lie about what was received */
	if (lrand48() % 4 == 0)
		ack_now(e);
}

static void arrive(struct end *e, const struct wire *w)
{
	struct hdl_rel_ops ops = { on_acked, on_resend, e };
	void *p;

	hdl_rel_ack(&e->rel, w->ack, w->sack, &ops);
	if (!w->data)
		return;
	switch (hdl_rel_receive(&e->rel, w->psn)) {
	case HDL_REL_DELIVER:
		got(e, w->value);
		while ((p = hdl_rel_next(&e->rel)))
			got(e, (uint32_t)(uintptr_t)p - 1);
		break;
	case HDL_REL_HOLD:
		hdl_rel_hold(&e->rel, w->psn, (void *)(uintptr_t)(w->value + 1));
		break;
	case HDL_REL_DUPLICATE:
		break;
	}
	if (e->rel.owed >= HDL_REL_ACK_EVERY)
		ack_now(e);
}

static void run_net(void)
{
	for (int to = 0; to < 2; to++)
		for (unsigned i = 0; i < nnet[to];) {
			if (net[to][i].due > now) {
				i++;
				continue;
			}
			struct wire w = net[to][i];
			memmove(&net[to][i], &net[to][i + 1], (--nnet[to] - i) * sizeof(w));
			arrive(&ends[to], &w);
			i = 0;
		}
}

static void simulate(uint32_t n0, uint32_t n1, uint32_t first_psn, double l, double d, double r, long seed)
{
	loss = l;
	duplicate = d;
	reorder = r;
	lost = now = 0;
	srand48(seed);
	memset(ends, 0, sizeof(ends));
	nnet[0] = nnet[1] = 0;
	hdl_rel_init(&ends[0].rel, first_psn, first_psn, RTO_NS);
	hdl_rel_init(&ends[1].rel, first_psn, first_psn, RTO_NS);
	now = 1;
	for (uint64_t step = 0; ends[0].delivered < n1 || ends[1].delivered < n0 || !hdl_rel_idle(&ends[0].rel) ||
	     !hdl_rel_idle(&ends[1].rel); step++) {
		cr_assert_lt(step, 20000000, "does not end: %u of %u and %u of %u delivered", ends[1].delivered, n0,
			     ends[0].delivered, n1);
		for (int i = 0; i < 2; i++) {
			uint32_t n = i ? n1 : n0;
			for (int b = (int)(lrand48() % 8); b-- && ends[i].next_value < n && hdl_rel_room(&ends[i].rel);)
				push(&ends[i]);
		}
		now += 5000;
		run_net();
		if (step % 32 == 0)
			for (int i = 0; i < 2; i++) {
				struct hdl_rel_ops ops = { on_acked, on_resend, &ends[i] };
				uint64_t due = hdl_rel_timer(&ends[i].rel, now, &ops);
				cr_assert_eq(due == 0, hdl_rel_idle(&ends[i].rel));
				if (ends[i].rel.owed)
					ack_now(&ends[i]);
			}
	}
	cr_assert_eq(ends[0].given_back, n0);
	cr_assert_eq(ends[1].given_back, n1);
	for (int i = 0; i < 2; i++) {
		free(net[i]);
		net[i] = NULL;
	}
}

Test(rel, clean_network_needs_no_resend, .timeout = 60)
{
	simulate(20000, 10, 0, 0, 0, 0, 1);
	cr_expect_eq(ends[0].rel.resends, 0);
	cr_expect_eq(ends[1].rel.duplicates, 0);
}

Test(rel, one_percent, .timeout = 60)
{
	for (long seed = 1; seed < 6; seed++) {
		simulate(20000, 20000, 0, 0.01, 0.01, 0.01, seed);
		cr_expect_gt(ends[0].rel.resends, 0);
		/* holes are filled without waiting for timeouts, nearly always */
		cr_expect_lt(ends[0].rel.timeouts, ends[0].rel.resends);
	}
}

Test(rel, a_third_is_lost, .timeout = 60)
{
	for (long seed = 1; seed < 6; seed++)
		simulate(3000, 3000, 0, 0.33, 0.2, 0.3, seed);
}

Test(rel, numbers_wrap, .timeout = 60)
{
	simulate(5000, 5000, 0xffffff00u, 0.1, 0.1, 0.1, 3);
}

Test(rel, one_way, .timeout = 60)
{
	simulate(20000, 0, 0, 0.05, 0.05, 0.2, 4);
}

Test(rel, nonsense_is_ignored)
{
	struct hdl_rel_ops ops = { on_acked, on_resend, &ends[0] };

	memset(ends, 0, sizeof(ends));
	hdl_rel_init(&ends[0].rel, 100, 100, RTO_NS);
	for (int i = 0; i < 3; i++)
		hdl_rel_push(&ends[0].rel, (void *)1);
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 99, 0, &ops), 0, "behind what was acknowledged");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 104, 0, &ops), 0, "never sent");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 100, ~0ull << 10, &ops), 0, "selects what was never sent");
	cr_expect_eq(hdl_rel_receive(&ends[0].rel, 99), HDL_REL_DUPLICATE);
	cr_expect_eq(hdl_rel_receive(&ends[0].rel, 100 + HDL_REL_WINDOW), HDL_REL_DUPLICATE, "beyond the window");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 103, 0, &ops), 3);
}

/* A peer that computes is not flooded: the timeout doubles, and few packets go again each time. */
Test(rel, silence_backs_off)
{
	struct hdl_rel_ops ops = { on_acked, on_resend, &ends[0] };
	uint64_t t = 1;

	memset(ends, 0, sizeof(ends));
	loss = 1;
	hdl_rel_init(&ends[0].rel, 0, 0, RTO_NS);
	for (unsigned i = 0; i < HDL_REL_WINDOW; i++)
		hdl_rel_push(&ends[0].rel, (void *)(uintptr_t)(i + 1));
	cr_expect(!hdl_rel_room(&ends[0].rel));
	for (int i = 0; i < 10000; i++, t += 1000000)		/* ten seconds */
		hdl_rel_timer(&ends[0].rel, t, &ops);
	cr_expect_lt(ends[0].rel.timeouts, 40);
	cr_expect_leq(ends[0].rel.resends, ends[0].rel.timeouts);
}

/* Packets that were lost together, the last one with them, come again after one timeout; those lost again, after one more. */
Test(rel, one_probe_fills_all_holes)
{
	struct hdl_rel *r = &ends[0].rel;

	memset(ends, 0, sizeof(ends));
	nnet[0] = nnet[1] = 0;
	now = 1;
	hdl_rel_init(&ends[0].rel, 7, 7, RTO_NS);
	hdl_rel_init(&ends[1].rel, 7, 7, RTO_NS);
	loss = 1;
	while (hdl_rel_room(r))
		push(&ends[0]);
	for (unsigned timeouts = 1; timeouts <= 2; timeouts++) {
		struct hdl_rel_ops ops = { on_acked, on_resend, &ends[0] };
		uint64_t due;
		/* the timer begins, then it has run out */
		while (due = hdl_rel_timer(r, now, &ops), r->timeouts < timeouts) {
			cr_assert_gt(due, now);
			loss = 0;
			now = due;
		}
		for (int i = 0; i < 4; i++) {
			now += 2000;
			run_net();
			/* what the holes' packets meet: the first time only every other one arrives */
			for (unsigned p = 0; timeouts == 1 && i == 1 && p < nnet[1];) {
				p++;
				if (p < nnet[1])
					memmove(&net[1][p], &net[1][p + 1], (--nnet[1] - p) * sizeof(*net[1]));
			}
		}
		ack_now(&ends[1]);
		now += 2000;
		run_net();
	}
	cr_expect_eq(ends[1].delivered, HDL_REL_WINDOW);
	cr_expect(hdl_rel_idle(r));
	cr_expect_eq(ends[0].given_back, HDL_REL_WINDOW);
	for (int i = 0; i < 2; i++) {
		free(net[i]);
		net[i] = NULL;
	}
}

/* What tells a dead peer from one that is slow to acknowledge. */
Test(rel, silence)
{
	struct hdl_rel_ops ops = { .acked = on_acked, .resend = on_resend, .arg = &ends[0] };
	const uint64_t s = 1000000000;
	struct hdl_rel *r = &ends[0].rel;

	hdl_rel_init(r, 0, 0, RTO_NS);
	hdl_rel_timer(r, 1 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 5 * s), 0, "nothing is in flight");
	push(&ends[0]);
	push(&ends[0]);
	hdl_rel_timer(r, 10 * s, &ops);
	for (uint64_t t = 10 * s; t < 13 * s; t += s / 4)
		hdl_rel_timer(r, t, &ops);
	cr_assert_eq(hdl_rel_silence(r, 13 * s), 3 * s);
	hdl_rel_ack(r, 0, 0, &ops);	/* it acknowledges nothing, but lives */
	cr_assert_eq(hdl_rel_silence(r, 13 * s), 0);
	hdl_rel_timer(r, 14 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 14 * s + 5), 5);
	hdl_rel_ack(r, 2, 0, &ops);
	hdl_rel_timer(r, 15 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 20 * s), 0);
}
