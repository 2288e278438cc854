/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/connect/conn.h"

#include "base/base.h"

static void conn_add(struct hdl_conn_todo *todo, enum hdl_conn_do what)
{
	todo->what[todo->n++] = what;
}

static bool conn_possible(const struct hdl_conn_self *self, enum hdl_queue kind)
{
	return self->can & HDL_QUEUE_CONNECTED & HDL_QUEUE_BIT(kind);
}

static void reject(struct hdl_conn_todo *todo, uint32_t number, enum hdl_queue kind)
{
	todo->refused.number = number;
	todo->refused.kind = kind;
	conn_add(todo, HDL_CONN_SEND_REJ);
}

/* Gives up the lane that stands or is being made. */
static void conn_clear(struct hdl_conn *c, struct hdl_conn_todo *todo)
{
	if (c->up || c->replacing)
		conn_add(todo, HDL_CONN_DOWN);
	c->up = c->replacing = false;
	if (c->state == HDL_CONN_ASKED || c->state == HDL_CONN_ANSWERED || c->state == HDL_CONN_READY)
		conn_add(todo, HDL_CONN_DESTROY);
	c->state = HDL_CONN_NONE;
}

static void conn_give_up(struct hdl_conn *c, struct hdl_conn_todo *todo)
{
	conn_clear(c, todo);
	c->state = HDL_CONN_FAILED;
	conn_add(todo, HDL_CONN_GIVE_UP);
}

static void propose(struct hdl_conn *c, struct hdl_conn_todo *todo, enum hdl_queue kind, bool named)
{
	*c = (struct hdl_conn){
		.state = HDL_CONN_ASKED, .kind = (uint8_t)kind, .mine = true, .named = named, .number = c->number + 1
	};
	conn_add(todo, HDL_CONN_MAKE);
	conn_add(todo, HDL_CONN_SEND_REQ);
}

/* Takes a kind that needs no agreement of the peer. */
static void conn_take(struct hdl_conn *c, struct hdl_conn_todo *todo, enum hdl_queue kind)
{
	conn_clear(c, todo);
	c->state = HDL_CONN_READY;
	c->kind = (uint8_t)kind;
	conn_add(todo, HDL_CONN_MAKE);
	conn_add(todo, HDL_CONN_UP);
}

enum { PROPOSED = HDL_QUEUE_CONNECTED & ~HDL_QUEUE_ADDRESSED };	/* kinds that need an agreement of the peer */
_Static_assert(!(PROPOSED & (PROPOSED - 1)), "conn_accept() compares no kinds");

static void conn_accept(struct hdl_conn *c, struct hdl_conn_todo *todo, const struct hdl_conn_event *e)
{
	/* queues in INIT serve the peer's proposal as well as this side's own: only one kind is proposed at all */
	bool made = c->state == HDL_CONN_ASKED;

	if (!made) {
		conn_clear(c, todo);
		conn_add(todo, HDL_CONN_MAKE);
	}
	*c = (struct hdl_conn){ .state = HDL_CONN_ANSWERED, .kind = (uint8_t)e->kind, .number = e->number };
	conn_add(todo, HDL_CONN_TO_RTR);
	conn_add(todo, HDL_CONN_SEND_REP);
}

/* Replaces the queues: those of an earlier number are renewed, those in INIT stay. */
static void conn_renew(struct hdl_conn *c, struct hdl_conn_todo *todo, enum hdl_conn_state state, uint32_t number)
{
	bool made = c->state == HDL_CONN_ASKED;		/* in INIT */

	*c = (struct hdl_conn){ .state = (uint8_t)state, .kind = c->kind, .mine = state == HDL_CONN_ASKED, .replacing = true,
				.number = number };
	if (!made)
		conn_add(todo, HDL_CONN_RENEW);
}

/* A REQ with `replacing`. */
static void on_again(struct hdl_conn *c, const struct hdl_conn_self *self, const struct hdl_conn_event *e,
		     struct hdl_conn_todo *todo)
{
	bool later = e->number > c->number, equal = e->number == c->number;

	/* a side that never had the connection cannot replace the queues, and the other side's requests are lost */
	if (c->state == HDL_CONN_FAILED || c->state == HDL_CONN_NONE) {
		reject(todo, e->number, HDL_QUEUE_NONE);
		return;
	}
	if (later && c->kind != e->kind) {
		conn_give_up(c, todo);
		reject(todo, e->number, HDL_QUEUE_NONE);
		return;
	}
	if (equal && c->state == HDL_CONN_ANSWERED)
		conn_add(todo, HDL_CONN_SEND_REP);
	/* of two proposals with the same number the lower rank's counts */
	if (!later && !(equal && c->state == HDL_CONN_ASKED && c->replacing && !self->lower))
		return;
	conn_renew(c, todo, HDL_CONN_ANSWERED, e->number);
	conn_add(todo, HDL_CONN_TO_RTR);
	conn_add(todo, HDL_CONN_SEND_REP);
}

/* Handles a REQ whose number counts. */
static void consider(struct hdl_conn *c, const struct hdl_conn_self *self, const struct hdl_conn_event *e,
		     struct hdl_conn_todo *todo)
{
	bool can = conn_possible(self, e->kind) && !HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, e->kind);
	bool other = HDL_QUEUE_IN(HDL_QUEUE_LIMITED, e->kind) && self->prefer != e->kind && !e->named;

	if (can && !other) {
		conn_accept(c, todo, e);
		return;
	}
	if (self->prefer == HDL_QUEUE_NONE)
		conn_give_up(c, todo);
	else if (HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, self->prefer))
		conn_take(c, todo, self->prefer);	/* now: a repetition of the proposal must get the same answer */
	reject(todo, e->number, self->prefer);
}

static void on_req(struct hdl_conn *c, const struct hdl_conn_self *self, const struct hdl_conn_event *e,
		   struct hdl_conn_todo *todo)
{
	bool later = e->number > c->number;

	if (e->replacing) {
		on_again(c, self, e, todo);
		return;
	}
	if (c->replacing) {
		/* late, or of a peer without the state of the queues that are replaced */
		if (later) {
			conn_give_up(c, todo);
			reject(todo, e->number, HDL_QUEUE_NONE);
		}
		return;
	}
	switch (c->state) {
	case HDL_CONN_FAILED:
		reject(todo, e->number, HDL_QUEUE_NONE);
		return;
	case HDL_CONN_NONE:
		if (later)
			consider(c, self, e, todo);
		return;
	case HDL_CONN_ASKED:
		if (later || (e->number == c->number && !self->lower))
			consider(c, self, e, todo);
		return;
	case HDL_CONN_ANSWERED:
		if (later)
			consider(c, self, e, todo);
		else if (e->number == c->number)
			conn_add(todo, HDL_CONN_SEND_REP);
		return;
	case HDL_CONN_READY:
		if (HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, c->kind)) {
			reject(todo, e->number, c->kind);
		} else if (later) {
			/* the peer does not have the connection any more, and the requests under way are lost */
			conn_give_up(c, todo);
			reject(todo, e->number, HDL_QUEUE_NONE);
		}
		return;
	}
}

static void on_rep(struct hdl_conn *c, const struct hdl_conn_event *e, struct hdl_conn_todo *todo)
{
	if (c->state == HDL_CONN_FAILED) {
		reject(todo, e->number, HDL_QUEUE_NONE);
		return;
	}
	if (c->state != HDL_CONN_ASKED || e->number != c->number || e->kind != c->kind)
		return;		/* a repetition */
	c->state = HDL_CONN_READY;
	conn_add(todo, HDL_CONN_TO_RTR);
	conn_add(todo, HDL_CONN_TO_RTS);
	conn_add(todo, HDL_CONN_SEND_RTU);
	conn_add(todo, HDL_CONN_UP);
}

static void on_rej(struct hdl_conn *c, const struct hdl_conn_self *self, const struct hdl_conn_event *e,
		   struct hdl_conn_todo *todo)
{
	if (c->state == HDL_CONN_FAILED)
		return;
	if (e->kind == HDL_QUEUE_NONE) {
		conn_give_up(c, todo);
		return;
	}
	if (c->state != HDL_CONN_ASKED || e->number != c->number)
		return;		/* a repetition */
	if (c->replacing || !conn_possible(self, e->kind)) {
		conn_give_up(c, todo);
		reject(todo, e->number, HDL_QUEUE_NONE);
	} else if (HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, e->kind)) {
		conn_take(c, todo, e->kind);
	} else {
		conn_clear(c, todo);
		propose(c, todo, e->kind, true);
	}
}

void hdl_conn_step(struct hdl_conn *c, const struct hdl_conn_self *self, const struct hdl_conn_event *e,
		   struct hdl_conn_todo *todo)
{
	todo->n = 0;
	switch (e->what) {
	case HDL_CONN_WANT:
		if (c->state != HDL_CONN_NONE)
			return;
		if (HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, e->kind))
			conn_take(c, todo, e->kind);
		else
			propose(c, todo, e->kind, false);
		return;
	case HDL_CONN_REQ:
		on_req(c, self, e, todo);
		return;
	case HDL_CONN_REP:
		on_rep(c, e, todo);
		return;
	case HDL_CONN_REJ:
		on_rej(c, self, e, todo);
		return;
	case HDL_CONN_RTU:
		if (c->state == HDL_CONN_ANSWERED && e->number == c->number) {
			c->state = HDL_CONN_READY;
			conn_add(todo, HDL_CONN_TO_RTS);
			conn_add(todo, HDL_CONN_UP);
		}
		return;
	case HDL_CONN_RTU_SEEN:
		if (c->state == HDL_CONN_FAILED)
			reject(todo, c->number, HDL_QUEUE_NONE);
		else if (conn_possible(self, e->kind) && !c->replacing &&
			 (c->state == HDL_CONN_NONE || c->state == HDL_CONN_ASKED))
			conn_take(c, todo, e->kind);
		return;
	case HDL_CONN_TIMER:
		if (hdl_conn_waits(c))
			conn_add(todo, c->state == HDL_CONN_ASKED ? HDL_CONN_SEND_REQ : HDL_CONN_SEND_REP);
		return;
	case HDL_CONN_BROKE:
		if (c->state == HDL_CONN_READY && c->up && !HDL_QUEUE_IN(HDL_QUEUE_ADDRESSED, c->kind)) {
			conn_renew(c, todo, HDL_CONN_ASKED, c->number + 1);
			conn_add(todo, HDL_CONN_SEND_REQ);
			return;
		}
		/* fall through */
	case HDL_CONN_LOST:
		if (c->state == HDL_CONN_FAILED)
			return;
		conn_give_up(c, todo);
		reject(todo, c->number, HDL_QUEUE_NONE);
		return;
	}
}
