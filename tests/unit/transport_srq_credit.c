/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credits for pooled receives: a sender and a receiver with random grants, answers that overtake each other, and messages the
 * other way now and then. A sender without credits must get some without help, and never has more messages in flight than were
 * granted.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/queue/srq_credit.h"

#define SEEDS 2000
#define MESSAGES 400
#define ANSWERS 8		/* under way at most */

static uint64_t state;

static uint32_t any(uint32_t n)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33) % n;
}

struct wire {
	uint16_t marks[64];
	uint32_t n;
	uint16_t back;			/* a message the other way, */
	bool is_back;			/* ... which answers overtake */
	struct hdl_taken_rec answers[ANSWERS];
	uint32_t answers_n;
};

static void take(struct wire *w, struct hdl_srq_credit *rx, uint32_t most)
{
	bool answer = hdl_srq_credit_came(rx, true, w->marks[0]);

	memmove(w->marks, w->marks + 1, --w->n * sizeof(w->marks[0]));
	if (!answer)
		return;
	cr_assert_lt(w->answers_n, ANSWERS);
	w->answers[w->answers_n++] = hdl_srq_credit_answer(rx, 1 + any(most), 1 + any(3));
}

static void hear(struct wire *w, struct hdl_srq_credit *tx)
{
	uint32_t i = any(w->answers_n);
	struct hdl_taken_rec m = w->answers[i];

	w->answers[i] = w->answers[--w->answers_n];
	hdl_srq_credit_on_answer(tx, &m);
}

static void exchange(uint32_t most)
{
	struct hdl_srq_credit tx = { .base = 2, .window = 2, .granted = 2 }, rx = tx;
	struct wire w = { .n = 0 };
	uint32_t sent = 0;

	tx.sent = tx.taken = rx.in = rx.in_reported = 0x7ff0;		/* 15 bits go round */
	while (sent < MESSAGES) {
		uint32_t what = any(8);

		if (what < 3 && hdl_srq_credit_room(&tx)) {
			uint16_t mark = hdl_srq_credit_mark(&tx, true);
			cr_assert_lt(w.n, most > 2 ? most : 2);
			w.marks[w.n++] = mark;
			hdl_srq_credit_sent(&tx, true, mark);
			sent++;
		} else if (what < 6 && w.n && w.answers_n < ANSWERS) {
			take(&w, &rx, most);
		} else if (what == 6 && w.answers_n) {
			hear(&w, &tx);
		} else if (what == 7 && !any(4)) {
			/* a message of the receiver's, which is not counted */
			if (w.is_back) {
				cr_assert_not(hdl_srq_credit_came(&tx, false, w.back));
			} else {
				w.back = hdl_srq_credit_mark(&rx, false);
				hdl_srq_credit_sent(&rx, false, w.back);
			}
			w.is_back = !w.is_back;
		}
		cr_assert_leq(tx.sent - tx.taken, 64);
		/* nothing is under way: all answers have arrived */
		if (!w.n && !w.answers_n && !w.is_back)
			cr_assert(hdl_srq_credit_room(&tx), "nobody tells the sender: %u of %u in flight", tx.sent - tx.taken,
				  tx.window);
	}
}

Test(pooled, goes_on)
{
	for (uint32_t seed = 1; seed <= SEEDS; seed++) {
		state = seed * 0x9e3779b97f4a7c15ull;
		exchange(seed % 2 ? 3 : 64);
	}
}

/* A sender of few messages that is answered by messages gets no separate grant. */
Test(pooled, asks_seldom)
{
	struct hdl_srq_credit a = { .base = 6, .window = 6, .granted = 6 }, b = a;

	for (int i = 0; i < 100; i++) {
		uint16_t mark = hdl_srq_credit_mark(&a, true);
		hdl_srq_credit_sent(&a, true, mark);
		cr_assert_not(hdl_srq_credit_came(&b, true, mark));
		mark = hdl_srq_credit_mark(&b, true);
		hdl_srq_credit_sent(&b, true, mark);
		cr_assert_not(hdl_srq_credit_came(&a, true, mark));
	}
	cr_assert_eq(a.sent, a.taken);
}

/* A message that was carried out twice frees nothing twice. */
Test(pooled, twice)
{
	struct hdl_srq_credit tx = { .base = 2, .window = 2, .granted = 2 }, rx = tx;
	uint16_t mark = hdl_srq_credit_mark(&tx, true);

	hdl_srq_credit_sent(&tx, true, mark);
	hdl_srq_credit_came(&rx, true, mark);
	hdl_srq_credit_came(&rx, true, mark);
	struct hdl_taken_rec m = hdl_srq_credit_answer(&rx, 2, 2);
	hdl_srq_credit_on_answer(&tx, &m);
	cr_assert_eq(tx.sent, tx.taken);
	cr_assert(hdl_srq_credit_room(&tx));
}
