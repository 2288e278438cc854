/* SPDX-License-Identifier: BSD-3-Clause */
/* Health of a communicator's queues: every sequence of events, up to a length, against the rules on which src/collectives
 * relies. */
#include <criterion/criterion.h>

#include "collectives/queues/state.h"

#define EVENTS_MAX 7

/* The events of a sequence so far, kept beside the machine. */
struct past {
	bool suspected;		/* SUSPECT has come, and no RENEW since */
	bool broke, stopped;	/* BREAK has come; STOP behind it */
};

static bool seen[HDL_QUEUES_HEALTHS];

static void check(enum hdl_queues_health health, struct past p)
{
	cr_assert((health >= HDL_QUEUES_BROKEN) == p.broke, "health %d: a BREAK has come: %d", health, p.broke);
	cr_assert((health == HDL_QUEUES_STOPPED) == p.stopped, "health %d: stopped %d", health, p.stopped);
	cr_assert((health == HDL_QUEUES_SUSPECT) == (p.suspected && !p.broke), "health %d: suspected %d", health, p.suspected);
	cr_assert((health == HDL_QUEUES_SOUND) == (!p.suspected && !p.broke), "requests are posted on queues of health %d",
		  health);
}

static void explore(enum hdl_queues_health health, struct past p, int left)
{
	seen[health] = true;
	check(health, p);
	for (int e = 0; left && e < HDL_QUEUES_EVENTS; e++) {
		struct past q = p;

		switch ((enum hdl_queues_event)e) {
		case HDL_QUEUES_ON_SUSPECT:
			q.suspected = true;
			break;
		case HDL_QUEUES_ON_BREAK:
			q.broke = true;
			break;
		case HDL_QUEUES_ON_STOP:
			q.stopped = p.broke;
			break;
		case HDL_QUEUES_ON_RENEW:
			q.suspected = false;
			break;
		case HDL_QUEUES_EVENTS:
			break;
		}
		explore(hdl_queues_health_next(health, (enum hdl_queues_event)e), q, left - 1);
	}
}

Test(coll_queues_state, every_sequence)
{
	explore(HDL_QUEUES_SOUND, (struct past){ 0 }, EVENTS_MAX);
	for (int s = 0; s < HDL_QUEUES_HEALTHS; s++)
		cr_assert(seen[s], "health %d is never reached", s);
}
