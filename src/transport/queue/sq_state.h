/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * States of a send queue (struct hdl_sq), as a pure function that tests/unit/transport_sq_state.c explores.
 *
 *                 BREAK                      SETTLE
 *     ACTIVE ───────────────▶ BROKEN ───────────────────▶ SETTLED
 *      │  ▲                    │   │                       │   │
 *      │  └────── RESUME ──────┤   └──┐                    │   │
 *      │  └────── RESUME ──────│──────│────────────────────┘   │
 *      │                       │      ├────────────────────────┘
 *      │ FAIL, STOP            │ FAIL │ STOP
 *      ▼                       ▼      ▼
 *     DEAD ◀───────────────────┘   STOPPING ──── DRAINED ────▶ DEAD
 *
 *     ACTIVE     requests are posted
 *     BROKEN     in ERR: there is no room, completions are counted as flushed, and the requests [replay_tail, replay_head) wait
 *                to be posted again: by hdl_sq_reset, or by hdl_replay_run behind the new queue's connection
 *     SETTLED    BROKEN, and the requests that the peer is known to have carried out have ended (hdl_replay_settle)
 *     STOPPING   nothing will be posted again; hdl_sq_stop awaits the flushed requests of a BROKEN queue
 *     DEAD       nothing is posted, ever: requests that complete end with an error
 *
 * A kind without `reset` and `renew` (kinds/kind.h) has ACTIVE and DEAD only. SETTLED is of kinds with `renew`.
 */
#ifndef HDL_SQ_STATE_H
#define HDL_SQ_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum hdl_sq_state { HDL_SQ_ACTIVE = 0, HDL_SQ_BROKEN, HDL_SQ_SETTLED, HDL_SQ_STOPPING, HDL_SQ_DEAD, HDL_SQ_STATES };
enum hdl_sq_event {
	HDL_SQ_BREAK,		/* a request failed, or the queue was found in error; its requests are kept */
	HDL_SQ_SETTLE,		/* the peer has reported the messages and lines that it received by the queue */
	HDL_SQ_RESUME,		/* the queue is in RTS again */
	HDL_SQ_FAIL,		/* the queue cannot be used again, or a post failed */
	HDL_SQ_STOP,		/* the queue's endpoint, or the device, ends */
	HDL_SQ_DRAINED,		/* all kept requests have ended */
	HDL_SQ_EVENTS
};

/* Returns the state after an event. An event without an arrow does not change the state. */
static inline enum hdl_sq_state hdl_sq_next(enum hdl_sq_state state, enum hdl_sq_event event)
{
	/* ACTIVE is 0, so "no arrow" is the state + 1 */
#define TO(state) (HDL_SQ_##state + 1)
	static const uint8_t to[HDL_SQ_STATES][HDL_SQ_EVENTS] = {
		[HDL_SQ_ACTIVE] = { [HDL_SQ_BREAK] = TO(BROKEN), [HDL_SQ_FAIL] = TO(DEAD), [HDL_SQ_STOP] = TO(DEAD) },
		[HDL_SQ_BROKEN] = { [HDL_SQ_SETTLE] = TO(SETTLED), [HDL_SQ_RESUME] = TO(ACTIVE), [HDL_SQ_FAIL] = TO(DEAD),
				    [HDL_SQ_STOP] = TO(STOPPING) },
		[HDL_SQ_SETTLED] = { [HDL_SQ_RESUME] = TO(ACTIVE), [HDL_SQ_FAIL] = TO(DEAD), [HDL_SQ_STOP] = TO(STOPPING) },
		[HDL_SQ_STOPPING] = { [HDL_SQ_FAIL] = TO(DEAD), [HDL_SQ_DRAINED] = TO(DEAD) },
	};
#undef TO
	return to[state][event] ? (enum hdl_sq_state)(to[state][event] - 1) : state;
}

/* Returns true if requests are kept that were not carried out: there is no room, and completions are of flushed requests. */
static inline bool hdl_sq_state_is_broken(enum hdl_sq_state state)
{
	return state != HDL_SQ_ACTIVE && state != HDL_SQ_DEAD;
}

/* Returns true if nothing is posted any more. */
static inline bool hdl_sq_state_is_dead(enum hdl_sq_state state)
{
	return state >= HDL_SQ_STOPPING;
}

#endif
