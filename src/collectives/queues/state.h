/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * States of a communicator's queues (struct hdl_queues): two machines, since the ranks agree on the first and not on the second.
 *
 * enum hdl_queues_state: the bring-up (bringup.c), whose outcome is the same on all ranks.
 *
 *     WIRING ──── all ranks have connected ────▶ READY ──── the next communicator takes the queues (cache.c) ────▶ WIRING
 *       └──────── a rank has no queues, or the settings differ ────▶ REFUSED
 *
 *     WIRING     the exchange is under way: operations wait in hdl_queues.queue
 *     READY      operations are posted, if the health permits
 *     REFUSED    all ranks run the operations on the host executor
 *
 * A rank that cannot know the outcome on its peers is READY and BROKEN.
 *
 * enum hdl_queues_health: of this rank's queues; a pure function that tests/unit/coll_queues_state.c explores.
 *
 *               SUSPECT                BREAK              STOP
 *     SOUND ───────────────▶ SUSPECT ─────────▶ BROKEN ─────────▶ STOPPED
 *       ▲ │                    │                  ▲
 *       │ └───── BREAK ────────│──────────────────┘
 *       └─────── RENEW ────────┘
 *
 *     SOUND      no queue has failed
 *     SUSPECT    a queue to a peer has failed, and no member's process is seen to have ended: nothing is posted, until fault.c
 *                sees a member's end or hdl_queues.suspect_until_ns has passed. Either is a BREAK. WIRING: the cached queues are
 *                not taken over; new ones RENEW
 *     BROKEN     a queue has failed, a member is lost, or this rank does not know whether its peers use the queues: operations
 *                end with an error, nothing is posted
 *     STOPPED    mailbox: BROKEN, and the queue pairs are in ERR: no peer reaches this rank's memory through them
 */
#ifndef HDL_QUEUES_STATE_H
#define HDL_QUEUES_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum hdl_queues_state { HDL_QUEUES_WIRING, HDL_QUEUES_READY, HDL_QUEUES_REFUSED };

enum hdl_queues_health { HDL_QUEUES_SOUND, HDL_QUEUES_SUSPECT, HDL_QUEUES_BROKEN, HDL_QUEUES_STOPPED, HDL_QUEUES_HEALTHS };
enum hdl_queues_event {
	HDL_QUEUES_ON_SUSPECT,	/* a queue has failed, and no member's end is seen */
	HDL_QUEUES_ON_BREAK,	/* an error, or a member is lost */
	HDL_QUEUES_ON_STOP,	/* the queue pairs were brought to ERR */
	HDL_QUEUES_ON_RENEW,	/* new queue pairs were created */
	HDL_QUEUES_EVENTS
};

/* Returns the health after an event. An event without an arrow does not change the health. */
static inline enum hdl_queues_health hdl_queues_health_next(enum hdl_queues_health health, enum hdl_queues_event event)
{
	switch (event) {
	case HDL_QUEUES_ON_SUSPECT: return health == HDL_QUEUES_SOUND ? HDL_QUEUES_SUSPECT : health;
	case HDL_QUEUES_ON_BREAK: return health < HDL_QUEUES_BROKEN ? HDL_QUEUES_BROKEN : health;
	case HDL_QUEUES_ON_STOP: return health == HDL_QUEUES_BROKEN ? HDL_QUEUES_STOPPED : health;
	case HDL_QUEUES_ON_RENEW: return health == HDL_QUEUES_SUSPECT ? HDL_QUEUES_SOUND : health;
	default: return health;
	}
}

#endif
