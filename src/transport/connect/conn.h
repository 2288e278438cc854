/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connected lane between two processes as one object on which both agree: a state machine, pure, so that a test can
 * explore it from both sides (tests/unit/transport_conn.c). wireup.c feeds it and carries out what it says.
 *
 *                     WANT: REQ ▶            REP ◀: RTU ▶
 *              NONE ──────────────▶ ASKED ──────────────────▶ READY
 *               │ ▲                  │ ▲ REJ ◀, naming a kind: REQ ▶
 *               │ │                  │ └─┘                      ▲
 *               │ └ REQ ◀, refused: REJ ▶, naming a kind        │ RTU ◀
 *               │                    │ REQ ◀ that counts        │
 *               │ REQ ◀: REP ▶       ▼                          │
 *               └────────────────▶ ANSWERED ────────────────────┘
 *
 *     DC and XRC need no agreement of the peer's: WANT(DC) makes NONE READY, and so does a message of the peer's that comes by DC; a
 *     proposal that meets a lane by DC is refused, naming DC.
 *     Whatever fails on one side (LOST), or REJ ◀ naming nothing: FAILED, for good, on both sides.
 *
 *     Queues that break while the peer lives (BROKE) are replaced: READY becomes ASKED, by a proposal of the next number that
 *     says so (again), and the peer, which may not have noticed, or has proposed the same, answers it as any other. Who sends
 *     one has stopped its queues and taken what had come by them; so has who accepts one, before the answer. Both messages
 *     say how much that was, so that each knows what is to go again when the new queues stand.
 *
 * A proposal has a number, one more than the last that its proposer made or accepted. The higher number counts, and of two
 * with the same number the lower rank's: the other side answers it and forgets its own. REQ and REP are repeated until they
 * are answered, REJ answers every repetition; RTU travels on the connection itself, which does not lose it. So each message
 * but RTU may be lost, doubled or late.
 *
 * A responder that would rather have another kind (its RC queues are used up) names it; a proposal of the kind that was
 * named is not refused for such a reason again, so that two who differ agree in the second round.
 */
#ifndef HDL_CONN_H
#define HDL_CONN_H

#include "transport/connect/select.h"

enum hdl_conn_state {
	HDL_CONN_NONE = 0,
	HDL_CONN_ASKED,		/* has proposed: queues in INIT */
	HDL_CONN_ANSWERED,	/* has accepted: can receive (RTR), waits for the first message */
	HDL_CONN_READY,		/* has a lane, or is about to: see up */
	HDL_CONN_FAILED,	/* no connected lane to this peer, for good */
};

/* Messages of the same form about what peers share: what stands between two processes does not hear of them. */
enum { HDL_CONN_ASK = 32, HDL_CONN_TARGET };

/* What one side knows of the connection. */
struct hdl_conn {
	uint8_t state;		/* enum hdl_conn_state */
	uint8_t kind;		/* enum hdl_queue; ASKED: proposed; ANSWERED, READY: agreed */
	bool mine;		/* the latest proposal that was made or accepted was this side's */
	bool named;		/* it is of the kind that the peer named */
	bool up;		/* UP was carried out: whoever does that says so here, ... */
	bool again;		/* ... and here that it is so no more: queues are replaced, and what went by them is not lost yet */
	uint32_t number;	/* ... its number; 0: there was none */
};

/* What does not change, or is asked for anew with each event. */
struct hdl_conn_self {
	unsigned can;		/* bit per connected kind that is possible with this peer */
	enum hdl_queue prefer;	/* the connected kind that this side would take now; NONE: none is possible */
	bool lower;		/* this side has the lower rank */
};

enum hdl_conn_what {
	HDL_CONN_WANT = 1,	/* a lane is wanted: of kind `kind` */
	HDL_CONN_REQ,		/* the peer proposes `kind` by number `number`; named: at this side's wish */
	HDL_CONN_REP,		/* the peer accepts number `number` */
	HDL_CONN_REJ,		/* the peer refuses it and would take `kind`; NONE: it has FAILED */
	HDL_CONN_RTU,		/* the first message came by the connection of number `number` */
	HDL_CONN_RTU_SEEN,		/* a message came by a lane that this side does not have: of `kind`, one that needs no agreement */
	HDL_CONN_TIMER,		/* no answer for a while */
	HDL_CONN_BROKE,		/* the queues of a lane that is up do not work any more, and the peer lives */
	HDL_CONN_LOST,		/* what was to be done failed, or the connection broke for good */
};
struct hdl_conn_event {
	enum hdl_conn_what what;
	enum hdl_queue kind;
	uint32_t number;
	bool named;
	bool again;		/* REQ, REP: queues are replaced */
};

/* What is to be done, in this order, as long as nothing fails; what fails is the event LOST, and ends the list. */
enum hdl_conn_do {
	HDL_CONN_DOWN = 1,	/* the lane is not used any more */
	HDL_CONN_DESTROY,	/* the queues */
	HDL_CONN_MAKE,		/* queues of conn->kind, in INIT; DC: what its initiator needs */
	HDL_CONN_RENEW,		/* the queues again as after MAKE; what was posted to them is kept; the lane is not used until UP */
	HDL_CONN_TO_RTR,	/* with the numbers of the message that is the event */
	HDL_CONN_TO_RTS,
	HDL_CONN_SEND_REQ,	/* conn->kind, conn->number, conn->named, conn->again */
	HDL_CONN_SEND_REP,	/* conn->kind, conn->number, conn->again */
	HDL_CONN_SEND_REJ,	/* refused.number, refused.kind */
	HDL_CONN_SEND_RTU,	/* conn->number, on the connection */
	HDL_CONN_UP,		/* the lane may be used: sets conn->up, clears conn->again */
	HDL_CONN_GIVE_UP,	/* there will be none */
};
#define HDL_CONN_DO_MAX 6
struct hdl_conn_todo {
	unsigned n;
	enum hdl_conn_do what[HDL_CONN_DO_MAX];
	struct { uint32_t number; enum hdl_queue kind; } refused;
};

/* Changes conn and says what is to be done for it. */
void hdl_conn_step(struct hdl_conn *conn, const struct hdl_conn_self *self, const struct hdl_conn_event *event,
		   struct hdl_conn_todo *todo);

/* Whether TIMER is to come while there is no answer. */
static inline bool hdl_conn_waits(const struct hdl_conn *conn)
{
	return conn->state == HDL_CONN_ASKED || conn->state == HDL_CONN_ANSWERED;
}

#endif
