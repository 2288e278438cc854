/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid or late messages of a peer are refused and reported, and change nothing. Over UD, where the packets of a peer arrive in
 * order. Argument:
 *     rndv     control messages about transfers under way: beyond the message, beside the part that was asked for, of another
 *              peer's transfer, or twice; fragments of no message (3 ranks)
 *     packets  packets that claim more bytes than they have, or are of another life of the peer; connections of another life (2
 *              ranks, HEDDLE_TRANSPORT=rc,ud)
 *     numbers  a connection with a queue that breaks: both ends use the same packet numbers, other ones than before, and late
 *              messages about the earlier ones change nothing (2 ranks, RC or XRC; no other test of the software HCA notices,
 *              since the software HCA counts no packets)
 *     sleeps   one rank, RC: an arrival that the last look before a sleep finds prevents the sleep
 *     states   one rank, UD: a late message about an earlier sleep; messages that are sent at once; the last request of a fetch;
 *              the DC initiator that carries a peer's requests
 */
#include <poll.h>
#include <stdio.h>

#include "transport_test.h"
#include "transport/kinds/xrc.h"

enum { IDS = 1, DONE, GO, LONG, ENDS, CROOKED, CONTEXT = 2, SMALL = 100, GUARD = 64, MUCH = 1 << 20 };

static unsigned heard[CROOKED + 1];
static uint32_t ids[2];
static char announced[2][HDL_RTS_SIZE];
static int sends_ended, fetches_ended;
static struct end { uint32_t qpn, dest, psn; } theirs;	/* of a peer's sending queue */

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	if (hdr->tag < IDS || hdr->tag >= CROOKED)
		fail("a message of %u bytes that nobody has sent, tag %d", hdr->len, hdr->tag);
	if (hdr->tag == IDS && hdr->kind == HDL_EAGER)
		memcpy(ids, payload, sizeof(ids));
	if (hdr->tag == ENDS)
		memcpy(&theirs, payload, sizeof(theirs));
	if (hdr->kind == HDL_RTS)
		memcpy(announced[hdr->tag == LONG], payload, HDL_RTS_SIZE);
	heard[hdr->tag]++;
}

static void sent(struct hdl_send *s, int err)
{
	if (err)
		fail("a send has ended with %s", strerror(-err));
	sends_ended++;
}

static void fetched(struct hdl_fetch *f, int err)
{
	if (err)
		fail("a fetch has ended with %s", strerror(-err));
	fetches_ended++;
}

static void hear(int tag, unsigned n)
{
	unsigned idle = 0;

	while (heard[tag] < n)
		turn(&idle);
}

static void say(int to, int tag, const void *data, size_t n)
{
	static struct hdl_send s[16];
	static unsigned next;

	s[next] = (struct hdl_send){ .done = sent };
	if (hdl_ep_send(ep_of(tp, to), tag, CONTEXT, false, data, n, &s[next++]) < 0 || next == 16)
		fail("nothing can be said");
}

/* ---- messages under way ---------------------------------------------------------------------------------------- */

static void data_at(struct hdl_ep *ep, uint32_t rop, uint64_t offset, uint32_t n)
{
	char body[2 * SMALL + sizeof(struct hdl_data_rec)];
	struct hdl_data_rec rec = { .offset = offset, .rop = rop };

	memset(body, 0x33, n);
	memcpy(body + n, &rec, sizeof(rec));
	hdl_ep_ctl(ep, HDL_CTL_DATA, body, n + (uint32_t)sizeof(rec), false);
}

/* About rank 1's transfers, by valid numbers. */
static void anothers(struct hdl_ep *ep)
{
	struct hdl_cts cts = { .len = SMALL, .op = ids[0], .rop = ids[1] };
	struct hdl_fin fin = {.op = ids[0], .len = SMALL}, part = {.op = ids[0], .part = 1},
		       written = {.op = ids[1], .len = SMALL};

	hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &part, sizeof(part), false);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &fin, sizeof(fin), false);
	hdl_ep_ctl(ep, HDL_CTL_REFUSED, &fin, sizeof(fin), false);
	hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &written, sizeof(written), false);
	data_at(ep, ids[1], 0, SMALL);
}

/* Fragments of a message: with more bytes than are left, with fewer than the last fragment must have, of no message, of a
 * message that is too long; and then a whole message. */
static void parts(struct hdl_ep *ep)
{
	static const struct { uint8_t kind; int32_t tag; uint32_t len; } say[] = {
		{ HDL_CTL_LAST, CROOKED, SMALL }, { HDL_CTL_PART, 0, 0 }, { HDL_CTL_PART, -1, SMALL },
		{ HDL_CTL_PART, SMALL, SMALL }, { HDL_CTL_PART, 1 << 30, SMALL }, { HDL_CTL_PART, 2 * SMALL, SMALL },
		{ HDL_CTL_PART, 2 * SMALL, SMALL + 1 }, { HDL_CTL_PART, 2 * SMALL, SMALL }, { HDL_CTL_LAST, CROOKED, SMALL - 1 },
		{ HDL_CTL_PART, 2 * SMALL, SMALL }, { HDL_CTL_LAST, CROOKED, SMALL + 1 }, { HDL_CTL_LAST, CROOKED, SMALL },
	};
	char body[SMALL + 1] = { 0 };

	for (unsigned i = 0; i < ARRAY_SIZE(say); i++) {
		struct hdl_hdr hdr = { .kind = say[i].kind, .tag = say[i].tag, .len = say[i].len };
		int rc;
		/* the window may be full of packets that the receiver has not acknowledged */
		for (long n = 0; (rc = hdl_ud_send(ep, &hdr, body, hdr.len, NULL, 0)) == -EAGAIN && n < 100000000; n++)
			hdl_tp_progress(tp);
		if (rc)
			fail("no packet leaves");
	}
}

static void wrong(struct hdl_ep *ep)
{
	struct hdl_cts cts[] = {{.len = SMALL + 1, .op = ids[0], .rop = 1},
				{.len = SMALL, .op = ids[0], .rop = 1, .from = SMALL},
				{.len = SMALL, .op = ids[0] + 1, .rop = 1}};
	struct hdl_fin written = { .op = ids[1], .len = SMALL }, unknown = { .op = ids[0] + 1, .len = SMALL };

	for (unsigned i = 0; i < ARRAY_SIZE(cts); i++)
		hdl_ep_ctl(ep, HDL_CTL_CTS, &cts[i], sizeof(cts[i]), false);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &unknown, sizeof(unknown), false);
	hdl_ep_ctl(ep, HDL_CTL_REFUSED, &unknown, sizeof(unknown), false);
	/* no peer writes there: the message arrives in pieces */
	hdl_ep_ctl(ep, HDL_CTL_WRITTEN, &written, sizeof(written), false);
	data_at(ep, ids[1], SMALL - 10, 20);
	data_at(ep, ids[1], 2 * SMALL, 1);
	data_at(ep, ids[1] + 1, 0, SMALL);
}

/* Sends CTS again for a message that is under way, and FIN and REFUSED as if the message had not been matched. */
static void again(struct hdl_ep *ep, const void *rts, const struct hdl_fetch *f)
{
	struct hdl_cts cts = { .len = MUCH, .op = hdl_rts_number(rts), .rop = hdl_fetch_op((struct hdl_fetch *)f)->id };
	struct hdl_fin fin = { .op = cts.op, .len = MUCH };

	hdl_ep_ctl(ep, HDL_CTL_CTS, &cts, sizeof(cts), false);
	hdl_ep_ctl(ep, HDL_CTL_FIN, &fin, sizeof(fin), false);
	hdl_ep_ctl(ep, HDL_CTL_REFUSED, &fin, sizeof(fin), false);
}

static void crooked(void)
{
	static char got[SMALL], all[MUCH];
	struct hdl_fetch f[2] = { { .done = fetched }, { .done = fetched } };
	struct hdl_ep *ep = ep_of(tp, 0);
	unsigned idle = 0;

	hear(IDS, hdl_job.rank == 1 ? 2 : 1);
	if (hdl_job.rank == 2) {
		anothers(ep);
		parts(ep);
		say(0, DONE, NULL, 0);
		return;
	}
	wrong(ep);
	say(0, DONE, NULL, 0);
	hear(GO, 1);
	if (hdl_ep_fetch(ep, announced[0], got, SMALL, &f[0]))
		fail("nothing is fetched");
	data_at(ep, ids[1], 0, SMALL);
	hear(LONG, 1);
	if (hdl_ep_fetch(ep, announced[1], all, MUCH, &f[1]))
		fail("nothing is fetched");
	again(ep, announced[1], &f[1]);
	while (fetches_ended < 2)
		turn(&idle);
	for (int i = 0; i < SMALL; i++)
		if (got[i] != 0x11)
			fail("the short message is damaged");
	for (int i = 0; i < MUCH; i++)
		if (all[i] != (char)(i * 7))
			fail("the long message is damaged");
	wrong(ep);		/* the numbers belong to no transfer now */
	data_at(ep, ids[1], 0, SMALL);
	say(0, DONE, NULL, 0);
}

static void unharmed(const char *in, struct hdl_send *s, const char *when)
{
	uint32_t number;

	if (sends_ended || fetches_ended || !hdl_rndv_announced(s, &number) || number != ids[0])
		fail("%s: an operation has begun, or ended", when);
	for (int i = 0; i < SMALL + GUARD; i++)
		if (in[i] != 0x55)
			fail("%s: byte %d of %d was written", when, i, SMALL);
}

static void rndv(void)
{
	static char out[SMALL], in[SMALL + GUARD], much[MUCH];
	struct hdl_rts_rec nothing = { .len = SMALL, .op = 0xbad };
	struct hdl_send s[2] = { { .done = sent }, { .done = sent } };
	struct hdl_fetch f = { .done = fetched };
	struct hdl_ep *ep = ep_of(tp, 1);
	unsigned idle = 0;

	if (hdl_job.rank) {
		crooked();
		return;
	}
	memset(out, 0x11, sizeof(out));
	memset(in, 0x55, sizeof(in));
	for (int i = 0; i < MUCH; i++)
		much[i] = (char)(i * 7);
	if (hdl_ep_send(ep, IDS, CONTEXT, true, out, SMALL, &s[0]) || hdl_ep_fetch(ep, &nothing, in, SMALL, &f))
		fail("nothing is under way");
	ids[0] = hdl_send_op(&s[0])->id;
	ids[1] = hdl_fetch_op(&f)->id;
	uint32_t told[2] = { ids[0], ids[1] };
	for (int r = 1; r <= 2; r++)
		if (hdl_ep_send(ep_of(tp, r), IDS, CONTEXT, false, told, sizeof(told), &(struct hdl_send){ .done = sent }) != 1)
			fail("a short message does not leave at once");
	hear(DONE, 2);
	unharmed(in, &s[0], "by what must not be said");
	say(1, GO, NULL, 0);
	while (!sends_ended || !fetches_ended)
		turn(&idle);
	for (int i = 0; i < SMALL + GUARD; i++)
		if (in[i] != (i < SMALL ? 0x33 : 0x55))
			fail("what was asked for is not there");
	if (hdl_ep_send(ep, LONG, CONTEXT, true, much, MUCH, &s[1]))
		fail("nothing is under way");
	hear(DONE, 3);
	while (sends_ended < 2)
		turn(&idle);
	if (sends_ended != 2 || fetches_ended != 1 || tp->sends.used || tp->fetches.used)
		fail("an operation has ended twice, or not");
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static void packets(void)
{
	struct { struct hdl_hdr hdr; char body[24]; } claims = { 0 };
	struct hdl_conn_msg m = { .what = HDL_CONN_REQ, .kind = HDL_QUEUE_RC, .number = 1 };
	struct hdl_ep *ep = ep_of(tp, !hdl_job.rank);
	const uint64_t high = 1ull << 40;
	unsigned idle = 0;

	if (!hdl_job.rank) {
		hear(DONE, 1);
		say(1, DONE, NULL, 0);
		hear(GO, 1);
		if (tp->stale != 2)
			fail("%u packets of another life were told from this one's, not 2", (unsigned)tp->stale);
		if (ep->conn.state != HDL_CONN_NONE || tp->refused != 1)
			fail("a connection to another life is not refused: state %d", ep->conn.state);
		say(1, GO, NULL, 0);
		return;
	}
	/* the first packet of the stream; a later packet with the same number is taken for a duplicate */
	hdl_hdr_set(&claims.hdr, CROOKED, CONTEXT, 0, 5000, HDL_EAGER, 0);
	if (hdl_ud_raw(ep, HDL_UD_DATA, &claims, sizeof(claims)))
		fail("no packet leaves");
	hdl_ep_ctl(ep, HDL_CTL_PROBE, NULL, 0, false);
	say(0, DONE, NULL, 0);
	hear(DONE, 1);		/* each side has the other's id now */
	tp->self.incarnation ^= 1;
	hdl_ud_raw(ep, HDL_UD_PROBE, NULL, 0);
	tp->self.incarnation ^= 1 ^ high;
	hdl_wire_send(ep, &m);
	tp->self.incarnation ^= high;
	ep->name.incarnation ^= high;
	hdl_wire_send(ep, &m);
	ep->name.incarnation ^= high;
	while (ep->conn.state != HDL_CONN_FAILED)	/* that is the answer */
		turn(&idle);
	say(0, GO, NULL, 0);
	hear(GO, 1);
}

/* ---- numbers of queues ------------------------------------------------------------------------------------------ */

static struct ibv_qp_attr attr_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (ibv_query_qp(qp, &a, IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_DEST_QPN, &init))
		fail("a queue cannot be asked");
	return a;
}

/* Returns the target queue pair by which the peer's messages arrive, if this side has created that queue pair or knows its
 * number; else NULL. */
static struct hdl_xrc_target *target_by(const struct hdl_ep *ep, uint32_t qpn)
{
	struct hdl_xrc_target *t = ep->dev->xrc_targets;

	while (t && t->qp->qp_num != qpn)
		t = t->next;
	return t;
}

static struct ibv_qp *receiving(const struct hdl_ep *ep, const struct end *from)
{
	const struct hdl_xrc_target *t = ep->queues ? NULL : target_by(ep, from->dest);

	if (ep->queues ? ep->queues->sq.qp->qp_num != from->dest : !t)
		fail("the peer sends to queue %u, which is none here", from->dest);
	return t ? t->qp : ep->queues->sq.qp;
}

/* Sends the peer the numbers of this side's sending queue, and compares the peer's with the receiving queue. Returns the packet
 * number that the peer began with. */
static uint32_t compare(struct hdl_ep *ep, unsigned round)
{
	struct ibv_qp_attr a = attr_of(ep->sq->qp), at;
	struct end mine = { ep->sq->qp->qp_num, a.dest_qp_num, a.sq_psn };
	const struct hdl_xrc_host *h = ep->queues ? NULL : container_of(ep->sq, struct hdl_xrc_host, sq);

	if (h && h->own_target) {
		at = attr_of(h->own_target);
		if (at.rq_psn != mine.psn || at.dest_qp_num != mine.qpn)
			fail("the own target waits for number %u, and the queue begins with %u", at.rq_psn, mine.psn);
		return mine.psn;
	}
	say(ep->rank, ENDS, &mine, sizeof(mine));
	hear(ENDS, round);
	at = attr_of(receiving(ep, &theirs));
	if (at.rq_psn != theirs.psn || at.dest_qp_num != theirs.qpn)
		fail("round %u: rank %d begins with number %u, and %u is waited for", round, ep->rank, theirs.psn, at.rq_psn);
	return theirs.psn;
}

/* A barrier of two ranks: all earlier messages have arrived on both sides. */
static void meet(int peer, unsigned n)
{
	say(peer, GO, NULL, 0);
	hear(GO, n);
}

static void await_lane(const struct hdl_ep *ep)
{
	unsigned idle = 0;

	while (!ep->sq || hdl_sq_is_broken(ep->sq) || attr_of(ep->sq->qp).qp_state != IBV_QPS_RTS)
		turn(&idle);
}

static void break_queue(struct hdl_ep *ep)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct hdl_xrc_host *h = ep->queues ? NULL : container_of(ep->sq, struct hdl_xrc_host, sq);
	uint32_t before = h ? h->ask_number : 0;

	if (ibv_modify_qp(ep->sq->qp, &a, IBV_QP_STATE))
		fail("the queue cannot be broken");
	if (ep->queues) {
		ep->queues->event = IBV_EVENT_QP_FATAL;
		hdl_wire_broke(ep, NULL);
	} else {
		hdl_sq_probe(ep->sq, ep);	/* the flush of the probe shows the break */
	}
	while (h && !h->own_target && !h->asking)
		hdl_tp_progress(tp);
	if (h && h->asking) {
		/* the answer to the previous request arrives now */
		hdl_xrc_on_ctl(h->maker ? h->maker : ep,
			       &(struct hdl_conn_msg){ .what = HDL_CONN_TARGET, .kind = HDL_QUEUE_XRC, .number = before,
					  .qpn = 0xbad, .psn = 1 });
		if (!h->asking)
			fail("the answer to an earlier question is taken");
	}
	await_lane(ep);
}

/* The peer's previous request arrives once more; and the event of the broken queue is read when the queue has been replaced. */
static void late_words(struct hdl_ep *ep)
{
	struct hdl_xrc_target *t = ep->queues ? NULL : target_by(ep, theirs.dest);

	if (!t)
		return;
	hdl_xrc_on_ctl(ep,
		       &(struct hdl_conn_msg){
			       .what = HDL_CONN_ASK, .kind = HDL_QUEUE_XRC, .number = t->number - 1, .qpn = t->qpn, .psn = 77});
	if (!hdl_xrc_event(ep->dev, t->qp) || t->unused)
		fail("a late event ends a target that is in use");
}

static void numbers(void)
{
	struct hdl_ep *ep = ep_of(tp, !hdl_job.rank);
	uint32_t before, now;

	meet(ep->rank, 1);
	await_lane(ep);
	meet(ep->rank, 2);
	/* the side that breaks the queue checks the local target; and a queue of XRC goes on where the device carries out all
	 * requests at once */
	bool own = !ep->queues && container_of(ep->sq, struct hdl_xrc_host, sq)->own_target;
	bool sees = hdl_job.rank == !own && (ep->queues || !ep->dev->promises.at_once);

	before = compare(ep, 1);
	late_words(ep);
	meet(ep->rank, 3);
	if (!hdl_job.rank)
		break_queue(ep);
	meet(ep->rank, 4);
	await_lane(ep);
	now = compare(ep, 2);
	if (sees && now == before)
		fail("a queue that was broken begins with the number of before");
	late_words(ep);
	compare(ep, 3);
	meet(ep->rank, 5);
}

/* ---- the last look ---------------------------------------------------------------------------------------------- */

/* Goes to sleep as if long after the begin of the wait. */
static bool goes_to_sleep(void)
{
	unsigned idle = 1u << 20;
	uint64_t before = tp->sleeps;

	hdl_tp_idle(tp, &idle);
	return tp->sleeps != before;
}

static uint64_t soon(uint64_t now)
{
	return now + 1000000;
}

static void sleeps(void)
{
	struct hdl_ep *self = ep_of(tp, 0);
	struct pollfd wake = { .fd = tp->wake_fd, .events = POLLIN };

	say(0, GO, NULL, 0);
	hear(GO, 1);
	await_lane(self);
	for (int i = 0; i < 1000; i++)		/* nothing is left of that */
		hdl_tp_progress(tp);
	say(0, DONE, NULL, 0);
	if (goes_to_sleep() || !heard[DONE])
		fail("a message that was there is slept over");
	for (int i = 0; i < 1000; i++)
		hdl_tp_progress(tp);
	hdl_sq_probe(self->sq, self);
	if (goes_to_sleep())
		fail("a completion that was there is slept over");
	if (!goes_to_sleep())
		fail("this rank does not sleep, though there is nothing to do");
	hdl_tp_on_timers(tp, soon);
	hdl_tp_wake(tp);
	if (!tp->dev[0]->promises.wakes && poll(&wake, 1, 0) != 1)
		fail("nothing wakes this rank");
	/* behind the looks of the thread that goes to sleep, and before any part of the sleep has begun */
	if (goes_to_sleep())
		fail("a wake-up that came just before is slept over");
	if (!goes_to_sleep())
		fail("one wake-up keeps this rank from sleeping for good");
}

/* ---- one rank's states ----------------------------------------------------------------------------------------- */

static void is_bound(struct hdl_ep *ep, const struct hdl_sq *want, const char *when)
{
	hdl_kinds[HDL_QUEUE_DC]->rebind(ep);
	if (ep->sq != want)
		fail("%s: another initiator", when);
	if (ep->sq->users != 1)
		fail("%s: the initiator has %u users", when, ep->sq->users);
}

/* Control messages that are shorter than their record, or late. */
static void control(struct hdl_ep *self)
{
	char record[64] = { 1 };
	uint32_t id = self->id_there;

	hdl_control_arrived(self, &(struct hdl_hdr){ .kind = HDL_CTL_ID, .len = sizeof(struct hdl_id_rec) - 1 }, record);
	if (self->id_there != id)
		fail("a control message is taken that is shorter than its record");
	hdl_control_arrived(self, &(struct hdl_hdr){ .kind = HDL_CTL_SKIP, .len = sizeof(record) }, record);
	hdl_control_arrived(self, &(struct hdl_hdr){ .kind = 255, .len = sizeof(record) }, record);
	struct hdl_srq_credit *credit = self->srq_credit;
	self->srq_credit = NULL;
	hdl_control_arrived(self, &(struct hdl_hdr){ .kind = HDL_CTL_TAKEN, .len = sizeof(record) }, record);
	self->srq_credit = credit;
}

static void states(void)
{
	struct hdl_sq dci[2] = { { .tail = 0 } };
	struct hdl_dev dev = { .dci = dci, .ndci = 2 };
	struct hdl_ep *ep = calloc(2, sizeof(*ep)), *other = ep + 1, *self = ep_of(tp, 0);
	struct hdl_send waits = { .done = sent };
	struct hdl_fetch reads = { .done = fetched };

	if (!ep)
		fail("no memory");
	control(self);
	self->sleep_sent = 6;
	hdl_idle_on_sleep_ack(self, &(struct hdl_sleep_rec){ .turn = 5 });
	if (self->sleep_acked)
		fail("the word for an earlier sleep is taken for that for this one");
	hdl_idle_on_sleep_ack(self, &(struct hdl_sleep_rec){ .turn = 6 });
	if (self->sleep_acked != 6)
		fail("a sleep is not confirmed");
	self->sleep_sent = self->sleep_acked = 0;

	self->eager_off = true;
	if (hdl_ep_send_now(self, GO, CONTEXT, "", 0))
		fail("what is to be announced is sent");
	self->eager_off = false;
	self->pend = self->pend_tail = &waits;
	if (hdl_ep_send_now(self, GO, CONTEXT, "", 0))
		fail("a message overtakes one that waits");
	self->pend = NULL;
	if (!hdl_ep_send_now(self, GO, CONTEXT, "", 0))
		fail("nothing is sent");
	hear(GO, 1);

	*hdl_fetch_op(&reads) = (struct hdl_fetch_op){ .inflight = 2, .posted = 10, .end = 10, .reading = 1 };
	reads.ep = self;
	if (hdl_id_new(&tp->fetches, &reads, &hdl_fetch_op(&reads)->id))
		fail("no memory");
	hdl_rndv_read_done(tp, hdl_fetch_op(&reads)->id, 0);
	if (tp->ndone || hdl_fetch_op(&reads)->inflight != 1)
		fail("all is asked for, and one request is under way: that is taken for all");
	hdl_id_free(&tp->fetches, hdl_fetch_op(&reads)->id);

	hdl_vars.dci_policy = "lru";
	ep->dev = other->dev = &dev;
	is_bound(ep, &dci[0], "both are idle");
	dci[0].head = 5;
	dci[0].tail = 2;
	ep->dci_last = 4;
	is_bound(ep, &dci[0], "its requests are under way");
	dci[0].tail = 4;
	is_bound(ep, &dci[1], "only others' are");
	if (dci[0].users)
		fail("an initiator has users that have left it");
	dci[0].tail = 5;
	dci[1].tail = UINT32_MAX - 1;
	dci[1].head = 3;
	ep->dci_last = 2;
	is_bound(ep, &dci[1], "its requests are under way, and their numbers have gone round");
	dci[1].tail = 3;
	dci[1].head = 8;
	dci[0].state = HDL_SQ_DEAD;
	is_bound(ep, &dci[1], "the other one is dead");
	dci[1].users = 0;
	is_bound(other, &dci[1], "a new one, and the idle one is dead");
	free(ep);
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	const char *mode = argc > 1 ? argv[1] : "";

	start(&up);
	if (!strcmp(mode, "rndv"))
		rndv();
	else if (!strcmp(mode, "packets"))
		packets();
	else if (!strcmp(mode, "numbers"))
		numbers();
	else if (!strcmp(mode, "sleeps"))
		sleeps();
	else
		states();
	return finish();
}
