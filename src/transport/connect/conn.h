/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connected lane between two processes as one object on which both agree: a pure state machine, which a test explores from
 * both sides (tests/unit/transport_conn.c). wireup.c feeds the events and carries out the actions.
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
 * DC and XRC need no agreement of the peer. WANT(DC) makes NONE READY, and so does a message of the peer that comes by DC. A
 * proposal that meets a lane by DC is refused, naming DC.
 *
 * Any failure on one side (LOST), and REJ ◀ that names no kind, leads to FAILED, for good, on both sides.
 *
 * Queues that break while the peer lives (BROKE) are replaced. READY becomes ASKED by a proposal of the next number with
 * `replacing` set; the peer, which may not have noticed the break, or has proposed the same, answers as to any proposal. The
 * side that sends a proposal has halted its queues and taken all messages from them; the side that accepts one does so before
 * its answer. Both messages report how much that was, and each side replays the rest on the new queues.
 *
 * A proposal's number is one more than the last that its proposer made or accepted. The higher number counts, and of two with
 * the same number the lower rank's: the other side answers that one and forgets its own. REQ and REP are repeated until they are
 * answered, and REJ answers every repetition; RTU travels on the connection, which loses no message. So each message but RTU
 * may be lost, doubled or late:
 *
 *     1. A: REQ(1) ▶ is lost. B: REQ(1) ▶ A.        A has the lower rank: A drops B's, and repeats REQ(1)
 *     2. A: REQ(1) ▶ B: REP(1) ▶ A: RTU ▶            READY
 *     3. B's REQ(1) of step 1 comes again            the number is not later: A drops it
 *
 * A responder that prefers another kind, since its RC queues are used up, names that kind in REJ. A proposal of the kind that was
 * named is not refused for such a reason again, so that two sides that differ agree in the second round.
 */
#ifndef HDL_CONN_H
#define HDL_CONN_H

#include "transport/connect/select.h"

enum hdl_conn_state {
	HDL_CONN_NONE = 0,
	HDL_CONN_ASKED,		/* has proposed: queues in INIT */
	HDL_CONN_ANSWERED,	/* has accepted: queues in RTR, waits for RTU */
	HDL_CONN_READY,		/* has a lane, or will have one at once: see `up` */
	HDL_CONN_FAILED,	/* no connected lane to this peer, for good */
};

/* Messages of the same form about XRC targets, which peers share: the state machine does not get them. */
enum { HDL_CONN_ASK = 32, HDL_CONN_TARGET };

/* One side's state of the connection. */
struct hdl_conn {
	uint8_t state;		/* enum hdl_conn_state */
	uint8_t kind;		/* enum hdl_queue; ASKED: proposed; ANSWERED, READY: agreed */
	bool mine;		/* the latest proposal that was made or accepted was this side's */
	bool named;		/* the latest proposal is of the kind that the peer named */
	bool up;		/* the lane is in use: set by the caller behind the action UP */
	bool replacing;		/* broken queues are being replaced: their requests are kept, not lost. Cleared by the caller with
				 * UP */
	uint32_t number;	/* number of the latest proposal; 0: there was none */
};

/* The side's own part of an event's input. */
struct hdl_conn_self {
	unsigned can;		/* bit per connected kind that is possible with this peer */
	enum hdl_queue prefer;	/* the connected kind that this side would take now; NONE: none is possible */
	bool lower;		/* this side's name is before the peer's (hdl_name_before) */
};

enum hdl_conn_what {
	HDL_CONN_WANT = 1,	/* a lane of kind `kind` is wanted */
	HDL_CONN_REQ,		/* the peer proposes `kind` by number `number`; named: this side named the kind */
	HDL_CONN_REP,		/* the peer accepts number `number` */
	HDL_CONN_REJ,		/* the peer refuses that number and would take `kind`; NONE: the peer's endpoint has FAILED */
	HDL_CONN_RTU,		/* the first message came by the connection of number `number` */
	HDL_CONN_RTU_SEEN,		/* a message came by a lane of `kind` that this side does not have, and that needs no
					 * agreement */
	HDL_CONN_TIMER,		/* no answer for a while */
	HDL_CONN_BROKE,		/* the queues of a lane that is up have broken, and the peer lives */
	HDL_CONN_LOST,		/* an action has failed, or the connection broke for good */
};
struct hdl_conn_event {
	enum hdl_conn_what what;
	enum hdl_queue kind;
	uint32_t number;
	bool named;
	bool replacing;		/* REQ, REP: queues that broke are replaced */
};

/* Actions, in this order. An action that fails is the event LOST, and ends the list. */
enum hdl_conn_do {
	HDL_CONN_DOWN = 1,	/* the lane in use is lost: the endpoint fails */
	HDL_CONN_DESTROY,	/* destroy the queues */
	HDL_CONN_MAKE,		/* make queues of conn->kind, in INIT; DC: an address handle, and an initiator */
	HDL_CONN_RENEW,		/* bring the queues to INIT again; their requests are kept; the lane is not used until UP */
	HDL_CONN_TO_RTR,	/* with the queue numbers of the message that is the event */
	HDL_CONN_TO_RTS,
	HDL_CONN_SEND_REQ,	/* conn->kind, conn->number, conn->named, conn->replacing */
	HDL_CONN_SEND_REP,	/* conn->kind, conn->number, conn->replacing */
	HDL_CONN_SEND_REJ,	/* refused.number, refused.kind */
	HDL_CONN_SEND_RTU,	/* with conn->number, on the connection */
	HDL_CONN_UP,		/* the lane may be used: the caller sets conn->up and clears conn->replacing */
	HDL_CONN_GIVE_UP,	/* there will be no lane */
};
#define HDL_CONN_DO_MAX 6
struct hdl_conn_todo {
	unsigned n;
	enum hdl_conn_do what[HDL_CONN_DO_MAX];
	struct { uint32_t number; enum hdl_queue kind; } refused;
};

/* Changes conn, and fills `todo` with the actions. */
void hdl_conn_step(struct hdl_conn *conn, const struct hdl_conn_self *self, const struct hdl_conn_event *event,
		   struct hdl_conn_todo *todo);

/* Returns true if TIMER must come while there is no answer. */
static inline bool hdl_conn_waits(const struct hdl_conn *conn)
{
	return conn->state == HDL_CONN_ASKED || conn->state == HDL_CONN_ANSWERED;
}

#endif
