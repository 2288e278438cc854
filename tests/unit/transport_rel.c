/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliability over a network that loses, duplicates and reorders: two ends of rel.c, packets as numbers, a clock that
 * the test turns. Every packet must come out once, in order, and be given back once.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport/lanes/rel.h"

#define RTO_NS 200000

struct wire {			/* a datagram under way */
	uint32_t psn, ack;
	uint64_t sack;
	enum { ACK, DATA, PROBE } kind;
	uint32_t value;			/* of DATA: the packet's value; of a probe or an answer: the probe's number */
	uint32_t share, base;
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
static uint32_t share, base;	/* share and base that acknowledgements grant; 0: none */
static uint64_t latency = 1000;

static void transmit(struct end *e, struct wire w)
{
	int to = e == &ends[0];
	for (int times = 1 + (drand48() < duplicate); times--;) {
		if (drand48() < loss) {
			lost++;
			continue;
		}
		w.due = now + latency + (drand48() < reorder ? (uint64_t)(drand48() * 200000) : 0);
		net[to] = realloc(net[to], (nnet[to] + 1) * sizeof(*net[to]));
		net[to][nnet[to]++] = w;
	}
}

static void post(struct end *e, uint32_t psn, void *pkt)
{
	struct wire w = { .psn = psn, .kind = DATA, .value = (uint32_t)(uintptr_t)pkt - 1 };
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

static void on_probe(void *arg, uint32_t number)
{
	struct end *e = arg;
	struct wire w = { .kind = PROBE, .value = number };

	cr_assert_neq(number, 0);
	hdl_rel_stamp(&e->rel, &w.ack, &w.sack);
	transmit(e, w);
}

static uint64_t clock_now(void)
{
	return now;
}

static struct hdl_rel_ops ops_of(struct end *e)
{
	return (struct hdl_rel_ops){ .acked = on_acked, .resend = on_resend, .probe = on_probe, .now = clock_now, .arg = e };
}

static bool room(struct end *e)
{
	struct hdl_rel_ops ops = ops_of(e);

	return hdl_rel_room(&e->rel) || hdl_rel_limited(&e->rel, &ops);
}

static void push(struct end *e)
{
	void *pkt = (void *)(uintptr_t)(++e->next_value);
	if (hdl_rel_is_timed(&e->rel))
		hdl_rel_time(&e->rel, now);
	post(e, hdl_rel_push(&e->rel, pkt), pkt);
}

static void answer(struct end *e, uint32_t probe)
{
	struct wire w = { .value = probe, .share = share, .base = base };
	hdl_rel_stamp(&e->rel, &w.ack, &w.sack);
	transmit(e, w);
}

static void ack_now(struct end *e)
{
	answer(e, 0);
}

static void got(struct end *e, uint32_t value)
{
	cr_assert_eq(value, e->delivered, "packet %u is delivered when %u is expected", value, e->delivered);
	e->delivered++;
	/* an acknowledgement from within a delivery must count the received packets rightly */
	if (lrand48() % 4 == 0)
		ack_now(e);
}

static void arrive(struct end *e, const struct wire *w)
{
	struct hdl_rel_ops ops = ops_of(e);
	void *p;

	if (w->share)
		hdl_rel_share(&e->rel, w->share, w->base);
	if (!hdl_rel_ack_one(&e->rel, w->ack, w->sack, &p))
		hdl_rel_ack(&e->rel, w->ack, w->sack, &ops);
	else if (p)
		on_acked(e, p);
	if (w->kind == ACK)
		hdl_rel_answered(&e->rel, w->value, &ops);
	else if (w->kind == PROBE)
		answer(e, w->value);
	if (w->kind != DATA)
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
	hdl_rel_init(&ends[0].rel, first_psn, first_psn, RTO_NS, HDL_REL_WINDOW);
	hdl_rel_init(&ends[1].rel, first_psn, first_psn, RTO_NS, HDL_REL_WINDOW);
	now = 1;
	for (uint64_t step = 0; ends[0].delivered < n1 || ends[1].delivered < n0 || !hdl_rel_idle(&ends[0].rel) ||
	     !hdl_rel_idle(&ends[1].rel); step++) {
		cr_assert_lt(step, 20000000, "does not end: %u of %u and %u of %u delivered", ends[1].delivered, n0,
			     ends[0].delivered, n1);
		for (int i = 0; i < 2; i++) {
			uint32_t n = i ? n1 : n0;
			for (int b = (int)(lrand48() % 8); b-- && ends[i].next_value < n && room(&ends[i]);)
				push(&ends[i]);
		}
		now += 5000;
		run_net();
		if (step % 32 == 0)
			for (int i = 0; i < 2; i++) {
				struct hdl_rel_ops ops = ops_of(&ends[i]);
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

/* The clock is the test's: 5 us a step, timers and acknowledgements every 32. */
Test(rel, heavy_loss_costs_no_long_waits, .timeout = 60)
{
	uint64_t both = 0, one = 0;

	for (long seed = 1; seed < 6; seed++) {
		simulate(3000, 3000, 0, 0.3, 0.3, 0.3, seed);
		both += now;
		simulate(5000, 0, 0, 0.3, 0, 0, seed);
		one += now;
		cr_expect_eq(ends[1].rel.duplicates, 0, "nothing goes again that has come");
	}
	/* Without loss the exchange takes 4.4 and 7.2 ms; with a timeout that doubles until a packet is timed, 92 and 1,347
	 * ms. */
	cr_expect_lt(both, 5 * 25000000, "%lu us", (unsigned long)both / 1000);
	cr_expect_lt(one, 5 * 80000000, "%lu us", (unsigned long)one / 1000);
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
	struct hdl_rel_ops ops = ops_of(&ends[0]);

	memset(ends, 0, sizeof(ends));
	hdl_rel_init(&ends[0].rel, 100, 100, RTO_NS, HDL_REL_WINDOW);
	for (int i = 0; i < 3; i++)
		hdl_rel_push(&ends[0].rel, (void *)1);
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 99, 0, &ops), 0, "behind what was acknowledged");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 104, 0, &ops), 0, "never sent");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 100, ~0ull << 10, &ops), 0, "selects what was never sent");
	cr_expect_eq(hdl_rel_receive(&ends[0].rel, 99), HDL_REL_DUPLICATE);
	cr_expect_eq(hdl_rel_receive(&ends[0].rel, 100 + HDL_REL_WINDOW), HDL_REL_DUPLICATE, "beyond the window");
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 103, 0, &ops), 3);
	/* a late older acknowledgement selects a packet that is the first missing one by now: that packet must not be sent
	 * again */
	for (int i = 0; i < 3; i++)
		hdl_rel_push(&ends[0].rel, (void *)1);
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 105, 0, &ops), 2);
	cr_expect_eq(hdl_rel_ack(&ends[0].rel, 104, 1, &ops), 1);
	cr_expect(hdl_rel_idle(&ends[0].rel));
}

/* A duplicate of a held packet is dropped, and acknowledged soon. */
Test(rel, doubled)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops = ops_of(&ends[0]);

	memset(ends, 0, sizeof(ends));
	hdl_rel_init(r, 100, 100, RTO_NS, HDL_REL_WINDOW);
	cr_expect_eq(hdl_rel_receive(r, 102), HDL_REL_HOLD);
	hdl_rel_hold(r, 102, malloc(1));
	r->owed = 0;
	cr_expect_eq(hdl_rel_receive(r, 102), HDL_REL_DUPLICATE);
	cr_expect_geq(r->owed, HDL_REL_ACK_EVERY);
	/* the end: sent buffers return to their pool, and held packets are freed */
	for (int i = 0; i < 3; i++)
		hdl_rel_push(r, (void *)1);
	hdl_rel_clear(r, &ops, free);
	cr_expect_eq(ends[0].given_back, 3);
	cr_expect(hdl_rel_idle(r) && !r->early[102 % HDL_REL_WINDOW]);
}

/* A peer without progress is not flooded: the timeout doubles, and few packets are sent again each time. */
Test(rel, silence_backs_off)
{
	struct hdl_rel_ops ops = ops_of(&ends[0]);
	uint64_t t = 1;

	memset(ends, 0, sizeof(ends));
	loss = 1;
	hdl_rel_init(&ends[0].rel, 0, 0, RTO_NS, HDL_REL_WINDOW);
	for (unsigned i = 0; i < HDL_REL_WINDOW; i++)
		hdl_rel_push(&ends[0].rel, (void *)(uintptr_t)(i + 1));
	cr_expect(!hdl_rel_room(&ends[0].rel));
	for (int i = 0; i < 10000; i++, t += 1000000)		/* ten seconds */
		hdl_rel_timer(&ends[0].rel, t, &ops);
	cr_expect_lt(ends[0].rel.timeouts, 40);
	cr_expect_leq(ends[0].rel.resends, ends[0].rel.timeouts);
}

static void forget_net(void)
{
	for (int i = 0; i < 2; i++) {
		free(net[i]);
		net[i] = NULL;
		nnet[i] = 0;
	}
}

static void begin(uint32_t psn, uint32_t first)
{
	memset(ends, 0, sizeof(ends));
	forget_net();
	loss = duplicate = reorder = 0;
	share = base = 0;
	lost = 0;
	now = 1;
	for (int i = 0; i < 2; i++)
		hdl_rel_init(&ends[i].rel, psn, psn, RTO_NS, first);
}

/* Packets that were lost together, the last one included, are sent again after one timeout; those that are lost again, after the
 * answer to the probe behind them. */
Test(rel, one_probe_fills_all_holes)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;
	unsigned n = 0;

	begin(7, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	for (loss = 1; room(&ends[0]); n++)
		push(&ends[0]);
	cr_assert_eq(n, HDL_REL_FIRST);
	for (uint64_t due; due = hdl_rel_timer(r, now, &ops), !r->timeouts; now = due)
		cr_assert_gt(due, now);
	/* that probe is lost, too; the next one is not */
	loss = 0;
	now += 2 * RTO_NS;
	hdl_rel_timer(r, now, &ops);
	cr_assert_eq(r->timeouts, 2);
	for (int i = 0; i < 8; i++) {
		now += 2000;
		run_net();
		/* every other one of the packets that fill the holes arrives at first */
		for (unsigned p = 0; i == 1 && p < nnet[1];) {
			p++;
			if (p < nnet[1] && net[1][p].kind == DATA)
				memmove(&net[1][p], &net[1][p + 1], (--nnet[1] - p) * sizeof(*net[1]));
		}
	}
	cr_expect_eq(r->timeouts, 2);
	cr_expect_eq(r->resends, n + n / 2);
	cr_expect_eq(ends[1].delivered, n);
	cr_expect(hdl_rel_idle(r));
	cr_expect_eq(ends[0].given_back, n);
	forget_net();
}

/* A packet that is lost a second time counts as lost as soon as a packet that was sent for the first time behind it has arrived:
 * without an answer to a probe, and without a timeout. */
Test(rel, lost_again)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;

	begin(7, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	loss = 1;		/* acknowledgements come by hand */
	for (int i = 0; i < 10; i++)
		push(&ends[0]);
	for (int i = 0; i < 2; i++) {
		hdl_rel_ack(r, 7, 0x1ff, &ops);
		cr_expect_eq(r->resends, 1);
	}
	push(&ends[0]);		/* 17 */
	for (int i = 0; i < 2; i++) {
		hdl_rel_ack(r, 7, 0x3ff, &ops);
		cr_expect_eq(r->resends, 2);
	}
	push(&ends[0]);
	push(&ends[0]);		/* 19, but not 18 */
	for (int i = 0; i < 2; i++) {
		hdl_rel_ack(r, 7, 0xbff, &ops);
		cr_expect_eq(r->resends, 4);
	}
	hdl_rel_ack(r, 7, 0xfff, &ops);
	cr_expect_eq(r->resends, 4);
	hdl_rel_ack(r, 20, 0, &ops);
	cr_expect(hdl_rel_idle(r));
	cr_expect_eq(ends[0].given_back, 13);
	forget_net();
}

static void wait_in_vain(struct hdl_rel *r, const struct hdl_rel_ops *ops, unsigned times)
{
	unsigned before = r->timeouts;
	uint64_t due;

	while (due = hdl_rel_timer(r, now, ops), r->timeouts - before < times)
		now = due;
}

/* A timeout that has grown is reset when a probe is answered in time. A late answer does not reset the timeout: the peer has made
 * no progress, or the network is slow. After a packet was sent again, a whole timeout runs. */
Test(rel, backoff_is_forgotten)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;

	begin(0, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	loss = 1;
	push(&ends[0]);
	wait_in_vain(r, &ops, 9);
	cr_expect_gt(r->rto_ns, 20 * RTO_NS);
	now += RTO_NS + 1;
	hdl_rel_answered(r, r->probe, &ops);
	cr_expect_eq(r->resends, 1);
	cr_expect_gt(r->rto_ns, 20 * RTO_NS, "%u ns", r->rto_ns);
	cr_expect_eq(hdl_rel_timer(r, now, &ops), now + r->rto_ns);
	/* the probe behind that is lost */
	wait_in_vain(r, &ops, 1);
	now += RTO_NS / 2;
	hdl_rel_answered(r, r->probe, &ops);
	cr_expect_eq(r->resends, 2);
	cr_expect_eq(r->rto_ns, RTO_NS);
	cr_expect_eq(hdl_rel_timer(r, now, &ops), now + RTO_NS);
	hdl_rel_ack(r, 1, 0, &ops);
	forget_net();
}

/* Returns the time that packets take to arrive one way, in ns. The sender can send one each microsecond; a way takes way_ns. */
static uint64_t time_of(uint32_t packets, double l, uint64_t way_ns, long seed)
{
	struct hdl_rel_ops ops;
	uint64_t quiet = 0;
	uint32_t seen = 0;

	begin(1, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	loss = l;
	srand48(seed);
	latency = way_ns;
	while (ends[1].delivered < packets || !hdl_rel_idle(&ends[0].rel)) {
		now += 1000;
		cr_assert_lt(now, 60000000000, "does not end: %u of %u", ends[1].delivered, packets);
		run_net();
		if (ends[0].next_value < packets && room(&ends[0]))
			push(&ends[0]);
		if (now % 50000 < 1000)
			hdl_rel_timer(&ends[0].rel, now, &ops);
		/* the receiver acknowledges after a while without packets */
		quiet = ends[1].rel.owed == seen ? quiet + 1 : 0;
		seen = ends[1].rel.owed;
		if (seen && quiet > 5)
			ack_now(&ends[1]);
	}
	latency = 1000;
	forget_net();
	return now;
}

Test(rel, bandwidth_with_loss, .timeout = 60)
{
	for (long seed = 1; seed < 6; seed++) {
		uint64_t none = time_of(50000, 0, 10000, seed);
		cr_expect_eq(ends[0].rel.resends, 0);
		cr_expect_lt(none, 60000000, "the window is what limits, not the sender");
		uint64_t some = time_of(50000, 0.05, 10000, seed);
		/* each lost packet again, some of them more than once, and no other */
		cr_expect_lt(ends[0].rel.resends, 50000 * 0.06);
		cr_expect_eq(ends[1].rel.duplicates, 0);
		cr_expect_lt(some, 2 * none, "%lu and %lu us", (unsigned long)none / 1000, (unsigned long)some / 1000);
	}
}

/* A timed packet sets the timeout. A packet that is acknowledged after the timeout does not (Karn), nor a packet with an
 * acknowledgement that the sender processed late. */
Test(rel, timeout_follows_the_round_trip)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;
	uint64_t due;

	begin(0, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	loss = 1;		/* acknowledgements come by hand */
	for (uint32_t i = 0; i < 64 * 20; i++) {
		push(&ends[0]);
		cr_assert_eq(hdl_rel_timer(r, now, &ops), now + r->rto_ns);
		now += 10000;
		hdl_rel_ack(r, i + 1, 0, &ops);
		hdl_rel_timer(r, now, &ops);
		now += 1000;
	}
	cr_expect(r->srtt_ns > 9000 && r->srtt_ns < 11000, "%u ns", r->srtt_ns);
	push(&ends[0]);
	due = hdl_rel_timer(r, now, &ops);
	cr_expect_eq(due - now, RTO_NS / HDL_REL_RTO_LESS, "bounded from below");
	/* the peer computes for 0.3 s */
	r->timed = r->next;
	push(&ends[0]);
	for (uint64_t end = now + 300000000; now < end; now += 10000)
		hdl_rel_timer(r, now, &ops);
	cr_expect_gt(r->timeouts, 5);
	hdl_rel_ack(r, r->next, 0, &ops);
	cr_expect_lt(r->srtt_ns, 11000, "%u ns", r->srtt_ns);
	/* the timeout stays doubled, within bounds, until a packet is timed: the next one is */
	hdl_rel_timer(r, now, &ops);
	cr_expect(hdl_rel_is_timed(r));
	push(&ends[0]);
	due = hdl_rel_timer(r, now, &ops) - now;
	cr_expect(due > 1000000 && due <= HDL_REL_RTO_KEEP_NS, "%lu ns", (unsigned long)due);
	now += 10000;
	hdl_rel_ack(r, r->next, 0, &ops);
	hdl_rel_timer(r, now, &ops);
	push(&ends[0]);
	cr_expect_eq(hdl_rel_timer(r, now, &ops) - now, RTO_NS / HDL_REL_RTO_LESS);
	/* a packet that was sent again is not timed: which of the two was acknowledged is unknown */
	hdl_rel_ack(r, r->next, 0, &ops);
	r->timed = r->next;
	push(&ends[0]);
	push(&ends[0]);
	uint32_t was = r->srtt_ns;
	uint64_t again = r->resends;
	now += 30000;
	hdl_rel_ack(r, r->una, 1, &ops);
	cr_expect_eq(r->resends, again + 1);
	now += 10000;
	hdl_rel_ack(r, r->next, 0, &ops);
	cr_expect_eq(r->srtt_ns, was, "%u ns, before %u", r->srtt_ns, was);
	/* the sender made no progress meanwhile */
	hdl_rel_ack(r, r->next, 0, &ops);
	r->timed = r->next;
	push(&ends[0]);
	now += 300000000;
	hdl_rel_ack(r, r->next, 0, &ops);
	cr_expect_lt(r->srtt_ns, 11000, "%u ns", r->srtt_ns);
	forget_net();
}

/* A network slower than the first timeout is timed, and not taken for one that loses packets. */
Test(rel, slow_network, .timeout = 60)
{
	uint64_t t = time_of(5000, 0, 20000000, 1);

	cr_expect_eq(ends[0].rel.resends, 0);
	cr_expect_lt(ends[0].rel.timeouts, 30);
	cr_expect(ends[0].rel.srtt_ns > 39000000 && ends[0].rel.srtt_ns < 50000000, "%u ns", ends[0].rel.srtt_ns);
	/* 5000 packets by windows of 64 in 40 ms each */
	cr_expect_lt(t, 6000000000, "%lu us", (unsigned long)t / 1000);
}

/* The congestion window: halved once for all losses of one window, not below a floor; while the window limits the sender,
 * doubled, then increased by one. */
Test(rel, congestion_window)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;

	begin(0, HDL_REL_WINDOW);
	ops = ops_of(&ends[0]);
	loss = 1;
	for (int i = 0; i < 8; i++) {
		while (room(&ends[0]))
			push(&ends[0]);
		cr_expect_eq(r->next - r->una, r->cwnd);
		hdl_rel_ack(r, r->next, 0, &ops);
	}
	cr_expect_eq(r->cwnd, HDL_REL_WINDOW);
	while (room(&ends[0]))
		push(&ends[0]);
	uint32_t una = r->una;
	hdl_rel_ack(r, una, 1ull << 10, &ops);
	cr_expect_eq(r->resends, 11);
	cr_expect_eq(r->cwnd, HDL_REL_WINDOW / 2);
	hdl_rel_ack(r, una, 3ull << 20, &ops);
	cr_expect_eq(r->cwnd, HDL_REL_WINDOW / 2, "of the same window");
	cr_expect(!room(&ends[0]));
	hdl_rel_ack(r, r->next, 0, &ops);
	for (unsigned windows = 0; windows < 3; windows++) {
		while (room(&ends[0]))
			push(&ends[0]);
		hdl_rel_ack(r, r->next, 0, &ops);
	}
	cr_expect(r->cwnd > HDL_REL_WINDOW / 2 && r->cwnd <= HDL_REL_WINDOW / 2 + 4, "%u", r->cwnd);
	/* no packet waits for the window: the window stays */
	uint32_t was = r->cwnd;
	for (int i = 0; i < 200; i++) {
		push(&ends[0]);
		hdl_rel_ack(r, r->next, 0, &ops);
	}
	cr_expect_eq(r->cwnd, was);
	for (int i = 0; i < 9; i++) {
		while (room(&ends[0]))
			push(&ends[0]);
		hdl_rel_ack(r, r->una, 2, &ops);
		hdl_rel_ack(r, r->next, 0, &ops);
	}
	cr_expect_eq(r->cwnd, HDL_REL_LEAST);
	forget_net();
}

/* The share that the peer grants is in force while packets are in flight. A sender that begins has the base, and asks for a
 * share when half of it is in flight. */
Test(rel, share)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;

	begin(0, 6);
	ops = ops_of(&ends[0]);
	loss = 1;
	for (int i = 0; i < 3; i++)
		push(&ends[0]);
	cr_expect_eq(r->probes, 0);
	cr_expect(room(&ends[0]));
	cr_expect_eq(r->probes, 1);
	while (room(&ends[0]))
		push(&ends[0]);
	cr_expect_eq(r->next - r->una, 6);
	hdl_rel_share(r, 20, 4);
	hdl_rel_ack(r, 3, 0, &ops);
	hdl_rel_answered(r, r->probe, &ops);
	while (room(&ends[0]))
		push(&ends[0]);
	cr_expect_eq(r->next - r->una, 20);
	hdl_rel_share(r, 2, 4);
	cr_expect(!room(&ends[0]));
	hdl_rel_ack(r, r->next, 0, &ops);
	while (room(&ends[0]))
		push(&ends[0]);
	cr_expect_eq(r->next - r->una, 4);
	/* nonsense */
	for (unsigned i = 0; i < 4; i++)
		hdl_rel_share(r, (uint32_t[]){0, 65, 5, 5}[i], (uint32_t[]){3, 3, 0, 65}[i]);
	cr_expect_eq(r->base, 4);
	forget_net();
}

/* Room for several packets at a time: for all of them or none. More than any window holds is not asked for. */
Test(rel, room_for_several)
{
	struct hdl_rel *r = &ends[0].rel;
	struct hdl_rel_ops ops;

	begin(0, 24);
	ops = ops_of(&ends[0]);
	loss = 1;
	cr_expect(!hdl_rel_has_room_for(r, 25, &ops));
	cr_expect(hdl_rel_has_room_for(r, 12, &ops));
	cr_expect_eq(r->probes, 0);
	for (int i = 0; i < 5; i++)
		push(&ends[0]);
	/* at first half of a small window is available: the peer is asked once, and then the whole window is available */
	for (int i = 0; i < 2; i++)
		cr_expect(hdl_rel_has_room_for(r, 19, &ops));
	cr_expect(!hdl_rel_has_room_for(r, 20, &ops));
	cr_expect_eq(r->probes, 1);
	cr_expect(r->slow & HDL_REL_LIMITED, "the window is what limits");
	for (int i = 0; i < 19; i++) {
		cr_expect(hdl_rel_room(r));
		push(&ends[0]);
	}
	cr_expect(!hdl_rel_room(r));
	forget_net();
}

Test(rel, shares)
{
	for (uint32_t pool = 64; pool <= 4096; pool *= 2)
		for (uint32_t peers = 1; peers < 200; peers++) {
			uint32_t first, again, before = HDL_REL_WINDOW;

			for (uint32_t active = 0; active <= peers + 1; active++) {
				uint32_t s = hdl_rel_shares(pool, peers, active, &first);

				cr_assert(s >= 1 && s <= before && first >= 2 && first <= HDL_REL_WINDOW);
				before = s;
				if (!active || active > peers)
					continue;
				/* the shares of all peers fit into the receives, unless there are more peers than receives */
				if (2 * peers <= pool / 4)
					cr_assert_leq(s * active + first * (peers - active), pool - pool / 4, "%u of %u, pool %u",
						      active, peers, pool);
			}
			hdl_rel_shares(pool, peers, peers, &again);
			cr_assert_eq(again, first);
		}
}

/* The time of silence, by which a dead peer is told from one that is slow to acknowledge. */
Test(rel, silence)
{
	struct hdl_rel_ops ops = ops_of(&ends[0]);
	const uint64_t s = 1000000000;
	struct hdl_rel *r = &ends[0].rel;

	hdl_rel_init(r, 0, 0, RTO_NS, HDL_REL_WINDOW);
	hdl_rel_timer(r, 1 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 5 * s), 0, "nothing is in flight");
	push(&ends[0]);
	push(&ends[0]);
	hdl_rel_timer(r, 10 * s, &ops);
	for (uint64_t t = 10 * s; t < 13 * s; t += s / 4)
		hdl_rel_timer(r, t, &ops);
	cr_assert_eq(hdl_rel_silence(r, 13 * s), 3 * s);
	hdl_rel_ack(r, 0, 0, &ops);	/* the acknowledgement is of no packet, but shows that the peer lives */
	cr_assert_eq(hdl_rel_silence(r, 13 * s), 0);
	hdl_rel_timer(r, 14 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 14 * s + 5), 5);
	hdl_rel_ack(r, 2, 0, &ops);
	hdl_rel_timer(r, 15 * s, &ops);
	cr_assert_eq(hdl_rel_silence(r, 20 * s), 0);
}
