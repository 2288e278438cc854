/* SPDX-License-Identifier: BSD-3-Clause */
/* States of a send queue: every sequence of events, up to a length, against the rules on which the rest of the transport
 * relies. */
#include <criterion/criterion.h>

#include "transport/queue/sq_state.h"

#define EVENTS_MAX 6

/* The events of a sequence so far, kept beside the machine. */
struct past {
	bool kept;		/* requests are kept: BREAK has come, and neither RESUME nor their end since */
	bool ended;		/* FAIL or STOP has come */
};

static bool seen[HDL_SQ_STATES];

static void check(enum hdl_sq_state state, struct past p)
{
	cr_assert(hdl_sq_state_is_broken(state) == p.kept, "state %d: kept %d", state, p.kept);
	cr_assert(hdl_sq_state_is_dead(state) == p.ended, "state %d: ended %d", state, p.ended);
	cr_assert((state == HDL_SQ_ACTIVE) == (!p.kept && !p.ended), "requests are posted in a state other than ACTIVE: %d",
		  state);
}

static void explore(enum hdl_sq_state state, struct past p, int left)
{
	seen[state] = true;
	check(state, p);
	for (int e = 0; left && e < HDL_SQ_EVENTS; e++) {
		enum hdl_sq_state next = hdl_sq_next(state, (enum hdl_sq_event)e);
		struct past q = p;

		switch ((enum hdl_sq_event)e) {
		case HDL_SQ_BREAK:
			q.kept = p.kept || !p.ended;
			break;
		case HDL_SQ_SETTLE:
			cr_assert(next == state || (state == HDL_SQ_BROKEN && next == HDL_SQ_SETTLED),
				  "a break is settled twice");
			break;
		case HDL_SQ_RESUME:
			q.kept = p.kept && p.ended;
			break;
		case HDL_SQ_FAIL:
			q = (struct past){ .ended = true };
			break;
		case HDL_SQ_STOP:
			q.ended = true;
			break;
		case HDL_SQ_DRAINED:
			q.kept = p.kept && !p.ended;
			break;
		case HDL_SQ_EVENTS:
			break;
		}
		cr_assert(state != HDL_SQ_DEAD || next == HDL_SQ_DEAD, "a queue that is DEAD becomes %d", next);
		explore(next, q, left - 1);
	}
}

Test(transport_sq_state, every_sequence)
{
	explore(HDL_SQ_ACTIVE, (struct past){ 0 }, EVENTS_MAX);
	for (int s = 0; s < HDL_SQ_STATES; s++)
		cr_assert(seen[s], "state %d is never reached", s);
}
