/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every way into another process's memory, and every reason to refuse it. Two processes: the requester posts a valid request,
 * then on the same queue a request that differs in one respect and must be refused, so that an rkey or a destination that the
 * device has cached of the first request cannot let the second in. The completion status, the states of both queues and each byte
 * of the responder's memory around the regions must be as IBTA 9.9 prescribes; an unreliable transport loses a refused request.
 * The last cases: a process that sleeps until its memory is written is woken by each of these ways.
 *
 * Requester and responder take turns, so they share one processor: a turn is then a switch, not the wake-up of another
 * processor, and the 180,000 cases take a third of the time. Each case sets an alarm, which ends a process that hangs.
 *
 *     access [-v] [WORD...] only cases with all these words in the name
 */
#include "access.h"

enum { AT_RESPONDER, AT_RECEIVE, AT_REQUESTER, AT_POST };	/* the side that refuses */

enum why {
	/* the remote region */
	BEFORE, BEHIND, LONGER, WRAPS, KEY_GENERATION, KEY_INDEX, KEY_OWN, OTHER_PD, REGION_GONE, REGION_RIGHT, QUEUE_RIGHT,
	MISALIGNED,
	/* the receive */
	RECV_SHORT, RECV_KEY, RECV_BEFORE, RECV_BEHIND, RECV_PD, RECV_RIGHT, RECV_GONE, RECV_LONGER,
	/* the local region */
	LKEY, LOCAL_PD, LOCAL_BEFORE, LOCAL_BEHIND, LOCAL_LONGER, LOCAL_RIGHT, LKEY_PEER,
	/* queues and addresses */
	PEER_RESET, PEER_INIT, PEER_ERR, PEER_ERR_SINCE, PEER_OTHER, SELF_RESET, SELF_INIT, SELF_RTR, SELF_ERR,
	WRONG_QKEY, WRONG_QPN, NOWHERE, OVER_MTU, WRONG_DC_KEY, WRONG_XRCD, WRONG_SRQN, INLINE_LONG, MANY_SGES,
	/* nothing is refused: a responder that sleeps until its memory is written is woken */
	WAKES,
};

#define CONNECTED (BIT(RC) | BIT(UC) | BIT(XRC))
#define ANY (BIT(TRANSPORTS) - 1)

static const struct refusal {
	enum why why;
	const char *name;
	unsigned ops, transports;
	int who;
	int status;			/* of the request, where the transport is reliable; AT_POST: the result of the call */
	int received;			/* status of the receive; -1: none completes */
	int event;			/* RC: at the responder */
} refusals[] = {
#define RESPONDER(w, n, o) {w, n, o, ANY, AT_RESPONDER, IBV_WC_REM_ACCESS_ERR, -1, IBV_EVENT_QP_ACCESS_ERR}
	RESPONDER(BEFORE, "one byte before the region", OPS_REMOTE),
	RESPONDER(BEHIND, "one byte behind the region", OPS_REMOTE),
	RESPONDER(LONGER, "longer than the region", OPS_REMOTE),
	RESPONDER(WRAPS, "around the end of the address space", OPS_REMOTE),
	RESPONDER(KEY_GENERATION, "rkey of another generation", OPS_REMOTE),
	RESPONDER(KEY_INDEX, "rkey that names nothing", OPS_REMOTE),
	RESPONDER(KEY_OWN, "rkey of the requester's own", OPS_REMOTE),
	RESPONDER(OTHER_PD, "region of another domain", OPS_REMOTE),
	RESPONDER(REGION_GONE, "region deregistered since", OPS_REMOTE),
	RESPONDER(REGION_RIGHT, "region without the right", OPS_REMOTE),
	RESPONDER(QUEUE_RIGHT, "queue without the right", OPS_REMOTE),
	{MISALIGNED, "misaligned", BIT(CAS) | BIT(FAA), ANY, AT_RESPONDER, IBV_WC_REM_INV_REQ_ERR, -1, IBV_EVENT_QP_REQ_ERR},
#define RECEIVE(w, n, s, r) {w, n, OPS_SEND, ANY, AT_RECEIVE, s, r, IBV_EVENT_QP_FATAL}
	RECEIVE(RECV_SHORT, "receive one byte short", IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR),
	RECEIVE(RECV_KEY, "receive with a wrong lkey", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_BEFORE, "receive one byte before its region", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_BEHIND, "receive one byte behind its region", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_PD, "receive of another domain", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_RIGHT, "receive without local write", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_LONGER, "receive longer than its region", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
	RECEIVE(RECV_GONE, "receive whose region is gone", IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR),
#define REQUESTER(w, n, o) {w, n, o, ANY, AT_REQUESTER, IBV_WC_LOC_PROT_ERR, -1, -1}
	REQUESTER(LKEY, "wrong lkey", OPS_ALL),
	REQUESTER(LOCAL_PD, "lkey of another domain", OPS_ALL),
	REQUESTER(LOCAL_BEFORE, "one byte before the local region", OPS_ALL),
	REQUESTER(LOCAL_BEHIND, "one byte behind the local region", OPS_ALL),
	REQUESTER(LOCAL_LONGER, "longer than the local region", OPS_ALL),
	REQUESTER(LOCAL_RIGHT, "result without local write", OPS_RESULT),
	REQUESTER(LKEY_PEER, "lkey of the peer's", OPS_ALL),
	{PEER_RESET, "peer in RESET", OPS_ALL, ANY, AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{PEER_INIT, "peer in INIT", OPS_ALL, ANY, AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{PEER_ERR, "peer in ERR", OPS_ALL, ANY, AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{PEER_ERR_SINCE, "peer in ERR since", OPS_ALL, ANY, AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{PEER_OTHER, "peer of another queue", OPS_ALL, CONNECTED, AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{SELF_RESET, "requester in RESET", OPS_ALL, ANY, AT_POST, EINVAL, -1, -1},
	{SELF_INIT, "requester in INIT", OPS_ALL, ANY, AT_POST, EINVAL, -1, -1},
	{SELF_RTR, "requester in RTR", OPS_ALL, ANY, AT_POST, EINVAL, -1, -1},
	{SELF_ERR, "requester in ERR", OPS_ALL, ANY, AT_REQUESTER, IBV_WC_WR_FLUSH_ERR, -1, -1},
	{WRONG_QKEY, "wrong Q_Key", OPS_SEND, BIT(UD), AT_RESPONDER, IBV_WC_SUCCESS, -1, -1},
	{WRONG_QPN, "no such queue", OPS_ALL, BIT(UD), AT_RESPONDER, IBV_WC_SUCCESS, -1, -1},
	{WRONG_QPN, "no such target", OPS_ALL, BIT(DC), AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{NOWHERE, "address of no port", OPS_SEND, BIT(UD), AT_RESPONDER, IBV_WC_SUCCESS, -1, -1},
	{NOWHERE, "address of no port", OPS_ALL, BIT(DC), AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{OVER_MTU, "longer than the MTU", OPS_SEND, BIT(UD), AT_REQUESTER, IBV_WC_LOC_LEN_ERR, -1, -1},
	{WRONG_DC_KEY, "wrong DC access key", OPS_ALL, BIT(DC), AT_RESPONDER, IBV_WC_RETRY_EXC_ERR, -1, -1},
	{WRONG_XRCD, "SRQ of another XRC domain", OPS_ALL, BIT(XRC), AT_RESPONDER, IBV_WC_REM_INV_REQ_ERR, -1, -1},
	{WRONG_SRQN, "no such SRQ", OPS_ALL, BIT(XRC), AT_RESPONDER, IBV_WC_REM_INV_REQ_ERR, -1, -1},
	{INLINE_LONG, "more inline data than granted", OPS_ALL, ANY, AT_POST, EINVAL, -1, -1},
	{WAKES, "wakes", OPS_ALL & ~BIT(READ), ANY, AT_RESPONDER, IBV_WC_SUCCESS, -1, -1},
	{MANY_SGES, "more segments than granted", OPS_ALL, ANY, AT_POST, EINVAL, -1, -1},
};
#define REFUSALS (sizeof(refusals) / sizeof(*refusals))

static const struct shape shapes[] = {
	{"inline", true, 1, {24}}, {"inline, more than a line", true, 1, {100}}, {"inline in 2", true, 2, {40, 24}},
	{"inline in 3", true, 3, {16, 24, 41}}, {"keyed", false, 1, {64}}, {"keyed in 2", false, 2, {17, 31}},
	{"keyed in 5", false, 5, {8, 16, 24, 33, 40}},
};
#define SHAPES (sizeof(shapes) / sizeof(*shapes))
/* The operand and the result of an atomic. */
static const struct shape word = {"keyed", false, 1, {8}};

/* ---- the requester's memory: one window in each lane ------------------------------------------------------------------ */

#define SRC_AT 4133u
#define SRC_LEN 5000u			/* more than an MTU fits */
static struct side {
	unsigned char *mem;
	struct ibv_mr *mr, *no_write, *other, *small;	/* small: the beginning of the window, shorter than any segment */
} mine[LANES];
static struct requester rq;
static struct ibv_pd *other_pd;
static struct vt_peer peer;
static struct card card;
static bool verbose;
static unsigned cases, failures;

static uint8_t source_byte(uint32_t i)
{
	return (uint8_t)(0x11 + i * 7 % 0x90);
}

static void fill_sources(void)
{
	for (int l = 0; l < LANES; l++)
		for (uint32_t i = 0; i < MEMORY; i++)
			mine[l].mem[i] = source_byte(i);
}

static void set_up(void)
{
	access_open(&rq);
	other_pd = ibv_alloc_pd(rq.t.ctx);
	CHECK(other_pd, "ibv_alloc_pd");
	for (int l = 0; l < LANES; l++) {
		struct side *s = &mine[l];
		s->mem = l == ARENA ? shca_alloc(rq.t.ctx, MEMORY) : aligned_alloc(4096, MEMORY);
		CHECK(s->mem, "memory");
		s->mr = vt_mr(&rq.t, s->mem + SRC_AT, SRC_LEN, VT_ACCESS);
		s->no_write = vt_mr(&rq.t, s->mem + SRC_AT, SRC_LEN, IBV_ACCESS_REMOTE_READ);
		s->small = vt_mr(&rq.t, s->mem + SRC_AT, SMALL_LEN, VT_ACCESS);
		s->other = ibv_reg_mr(other_pd, s->mem + SRC_AT, SRC_LEN, VT_ACCESS);
		CHECK(s->other, "ibv_reg_mr");
	}
}

static void tear_down(void)
{
	for (int l = 0; l < LANES; l++)
		CHECK(!ibv_dereg_mr(mine[l].mr) && !ibv_dereg_mr(mine[l].small) && !ibv_dereg_mr(mine[l].no_write) &&
		      !ibv_dereg_mr(mine[l].other), "ibv_dereg_mr");
	CHECK(!shca_free(rq.t.ctx, mine[ARENA].mem) && !ibv_dealloc_pd(other_pd), "free");
	free(mine[PRIVATE].mem);
	access_close(&rq);
}

/* ---- a case ---------------------------------------------------------------------------------------------------------- */

struct a_case {
	const struct way *w;
	const struct refusal *r;
	enum lane lane;			/* of the responder's memory; the requester's is in the other */
	uint32_t length, max_inline;
	struct ibv_qp *qp;
	struct answer at;		/* the responder's, when it was ready */
	struct request good, bad;
};

static const char *name_of(const struct a_case *c)
{
	static const char *const transport[] = {"RC", "UC", "XRC", "DC", "UD"};
	static const char *const op[] = {"SEND", "SEND_IMM", "WRITE",      "WRITE_IMM", "READ",
					 "CAS",  "FAA",      "MASKED_CAS", "MASKED_FAA"};
	static const char *const api[] = {"post_send", "wr", "exp"};
	static const char *const mode[] = {"td", "locked", "list", "cross-channel", "task"};
	static char text[256];
	const struct way *w = c->w;

	snprintf(text, sizeof(text), "%s %s %s %s %s%s%s to %s: %s", transport[w->transport], api[w->api], mode[w->mode],
		 op[w->op], w->shape->name, w->signaled ? " signaled" : "", w->srq ? " srq" : "",
		 c->lane == ARENA ? "arena" : "private", c->r->name);
	return text;
}

static void complain(const struct a_case *c, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "FAIL: %s: ", name_of(c));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	failures++;
}

static struct answer ask(const struct order *o)
{
	struct answer a;

	vt_tell(&peer, o, sizeof(*o));
	vt_hear(&peer, &a, sizeof(a));
	return a;
}

/* Whether this refusal can be put to this way at all. */
static bool applies(const struct way *w, const struct refusal *r)
{
	if (!(r->ops & BIT(w->op)) || !(r->transports & BIT(w->transport)))
		return false;
	/* exp: refused when posted, which is the validator's own test */
	if (r->why == MISALIGNED && w->api == EXP)
		return false;
	if (r->why == INLINE_LONG)
		return w->shape->inl && w->mode != LIST;
	if (r->why == MANY_SGES)
		return w->op <= READ && w->shape->n > 1 && w->mode != LIST && !(w->api == WR && w->shape->inl);
	if (r->why >= LKEY && r->why <= LKEY_PEER && w->shape->inl)
		return false;
	if (r->why == OVER_MTU && w->shape->inl)
		return false;
	if (r->why == WAKES)
		return w->mode != LIST;
	/* there the two requests are posted at once: nothing happens in between */
	if (w->mode == LIST &&
	    (r->why == REGION_GONE || r->why == PEER_ERR_SINCE || (r->why >= SELF_RESET && r->why <= SELF_ERR)))
		return false;
	return true;
}

static struct order preparation(const struct a_case *c)
{
	static const enum receive receives[] = {
		[RECV_SHORT] = V_SHORT, [RECV_KEY] = V_KEY, [RECV_BEFORE] = V_BEFORE, [RECV_BEHIND] = V_BEHIND,
		[RECV_PD] = V_OTHER_PD, [RECV_RIGHT] = V_NO_WRITE, [RECV_GONE] = V_GONE, [RECV_LONGER] = V_SMALL,
	};
	bool takes = BIT(c->w->op) & OPS_TAKE;
	struct order o = {.what = PREPARE, .transport = c->w->transport, .lane = c->lane, .srq = c->w->srq, .length = c->length,
			  .peer = c->qp->qp_num};

	o.receive[0] = o.receive[1] = takes ? V_GOOD : V_NONE;
	switch (c->r->why) {
	case QUEUE_RIGHT:
		o.answerer = c->w->op == READ ? Q_NO_READ : BIT(c->w->op) & OPS_ATOMIC ? Q_NO_ATOMIC : Q_NO_WRITE;
		break;
	case PEER_RESET: o.answerer = Q_RESET; break;
	case PEER_INIT: o.answerer = Q_INIT; break;
	case PEER_ERR: o.answerer = Q_ERR; break;
	case PEER_OTHER: o.answerer = Q_OTHER_PEER; break;
	default:
		if (c->r->who == AT_RECEIVE)
			o.receive[1] = receives[c->r->why];
		break;
	}
	return o;
}

/* A good request can precede: not where the queues cannot talk at all. */
static bool preceded(const struct a_case *c)
{
	enum why y = c->r->why;
	return !(y == QUEUE_RIGHT || (y >= PEER_RESET && y <= PEER_OTHER && y != PEER_ERR_SINCE));
}

static void make_requests(struct a_case *c)
{
	const struct way *w = c->w;
	struct side *s = &mine[!c->lane];
	struct request *g = &c->good;
	uint32_t at = SRC_AT + 11;

	*g = (struct request){.id = 1, .n = w->shape->n, .inl = w->shape->inl, .signaled = w->signaled,
			      .raddr = card.addr[c->lane] + WIN_GOOD, .rkey = card.rkey[c->lane][G_GOOD], .qpn = c->at.qpn,
			      .srqn = c->at.srqn, .qkey = QKEY, .dc_key = DC_KEY, .ah = rq.ah};
	for (int i = 0; i < g->n; i++) {
		g->sge[i] = (struct ibv_sge){(uintptr_t)s->mem + at, w->shape->len[i], s->mr->lkey};
		at += w->shape->len[i] + 3;
	}
	uint64_t untouched;
	memset(&untouched, UNTOUCHED, 8);
	if (w->op == CAS || w->op == MCAS) {
		g->operand[0] = untouched;
		g->operand[1] = untouched + 1;
		g->operand[2] = g->operand[3] = UINT64_MAX;
	} else {
		g->operand[0] = 1;
	}
	c->bad = *g;
	c->bad.id = 2;
}

/* The defect for which the request must be refused. */
static void spoil(struct a_case *c)
{
	const struct way *w = c->w;
	struct side *s = &mine[!c->lane];
	struct request *b = &c->bad;
	struct ibv_sge *first = &b->sge[0], *last = &b->sge[b->n - 1];
	uint64_t win = card.addr[c->lane] + WIN_AT;
	bool atomic = BIT(w->op) & OPS_ATOMIC;

	/* another word, so that a stray one shows; an atomic compares with the word's value */
	b->raddr += 256;
	switch (c->r->why) {
	case BEFORE: b->raddr = win - 1; break;
	case BEHIND: b->raddr = win + WIN_LEN + 1 - c->length; break;
	case LONGER: b->rkey = card.rkey[c->lane][G_SMALL]; break;
	case WRAPS: b->raddr = atomic ? UINT64_MAX - 7 : UINT64_MAX - 3; break;
	case KEY_GENERATION: b->rkey ^= 1; break;
	case KEY_INDEX: b->rkey ^= 0x155500; break;
	case KEY_OWN: b->rkey = mine[c->lane].mr->rkey; break;
	case OTHER_PD: b->rkey = card.rkey[c->lane][G_OTHER_PD]; break;
	case REGION_GONE: c->good.rkey = b->rkey = c->at.gone_rkey; break;
	case REGION_RIGHT:
		b->rkey = card.rkey[c->lane][w->op == READ ? G_NO_READ : atomic ? G_NO_ATOMIC : G_NO_WRITE];
		break;
	case MISALIGNED: b->raddr += 4; break;
	case LKEY: last->lkey ^= 1; break;
	case LOCAL_PD: last->lkey = s->other->lkey; break;
	case LOCAL_BEFORE: first->addr = (uintptr_t)s->mem + SRC_AT - 1; break;
	case LOCAL_BEHIND: last->addr = (uintptr_t)s->mem + SRC_AT + SRC_LEN + 1 - last->length; break;
	case LOCAL_LONGER: last->lkey = s->small->lkey; last->addr = (uintptr_t)s->mem + SRC_AT; break;
	case LOCAL_RIGHT: last->lkey = s->no_write->lkey; break;
	case LKEY_PEER: last->lkey = card.lkey[c->lane]; last->addr = card.addr[c->lane] + RWIN_AT; break;
	case WRONG_QKEY: b->qkey++; break;
	case WRONG_QPN: b->qpn = 0xfffff0; break;
	case NOWHERE: b->ah = rq.nowhere; break;
	case OVER_MTU: last->addr = (uintptr_t)s->mem + SRC_AT; last->length = 4097 - (c->length - last->length); break;
	case WRONG_DC_KEY: b->dc_key++; break;
	case WRONG_XRCD: b->srqn = c->at.other_srqn; break;
	case WRONG_SRQN: b->srqn = 0xfffff0; break;
	case INLINE_LONG: last->addr = (uintptr_t)s->mem + SRC_AT; last->length =
		c->max_inline + 1 - (c->length - last->length); break;
	case MANY_SGES:
		for (b->n = 0; b->n < 6; b->n++)
			b->sge[b->n] = (struct ibv_sge){(uintptr_t)s->mem + SRC_AT, 8, s->mr->lkey};
		break;
	default: break;
	}
}

/* The responder's bytes after the valid request. */
static void good_result(const struct a_case *c, struct order *o)
{
	const struct request *g = &c->good;
	uint64_t untouched;

	memset(&untouched, UNTOUCHED, 8);
	o->good = c->w->op != READ;
	o->good_takes = BIT(c->w->op) & OPS_TAKE;
	o->good_received = BIT(c->w->op) & OPS_SEND;
	o->at = WIN_GOOD;
	o->n = c->length;
	uint32_t n = 0;
	if (BIT(c->w->op) & OPS_ATOMIC) {
		untouched++;
		memcpy(o->data, &untouched, 8);
		return;
	}
	for (int i = 0; i < g->n; i++)
		for (uint32_t k = 0; k < g->sge[i].length; k++)
			o->data[n++] = source_byte((uint32_t)(g->sge[i].addr - (uintptr_t)mine[!c->lane].mem) + k);
}

/* The requester's own memory: nothing but the results of the good request is new. */
static void check_sources(const struct a_case *c, bool good)
{
	for (int l = 0; l < LANES; l++)
		for (uint32_t i = 0; i < MEMORY; i++) {
			uint8_t want = source_byte(i);
			for (int k = 0; good && l == (int)!c->lane && BIT(c->w->op) & OPS_RESULT && k < c->good.n; k++) {
				uint32_t at = (uint32_t)(c->good.sge[k].addr - (uintptr_t)mine[l].mem);
				if (i >= at && i < at + c->good.sge[k].length)
					want = UNTOUCHED;
			}
			if (mine[l].mem[i] != want) {
				complain(c, "byte %u of the requester's %s memory is %#x instead of %#x", i,
					 l == ARENA ? "arena" : "private", mine[l].mem[i], want);
				fill_sources();
				return;
			}
		}
}

/* The next completion is this one's, with this status. */
static bool completes(const struct a_case *c, uint64_t id, int status)
{
	struct ibv_wc wc;

	for (uint64_t end = vt_ms() + 8000;;) {
		int n = ibv_poll_cq(rq.cq, 1, &wc);
		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			break;
		if (vt_ms() > end) {
			complain(c, "no completion of the %s request", id == 1 ? "good" : "refused");
			exit(1);
		}
		sched_yield();
	}
	if (wc.wr_id == id && (int)wc.status == status)
		return true;
	complain(c, "completion of request %lu: %s; expected request %lu: %s", (unsigned long)wc.wr_id,
		 ibv_wc_status_str(wc.status), (unsigned long)id, ibv_wc_status_str((enum ibv_wc_status)status));
	return false;
}

static bool reliable(const struct way *w)
{
	return w->transport != UC && w->transport != UD;
}

/* Posts both requests and takes their completions. */
static bool play(struct a_case *c, bool good)
{
	const struct way *w = c->w;
	const struct refusal *r = c->r;
	struct request both[2] = {c->good, c->bad};
	bool list = w->mode == LIST && good;
	int status = r->who == AT_REQUESTER || reliable(w) ? r->status : IBV_WC_SUCCESS;

	if (good && !list) {
		int err = access_post(&rq, w, c->qp, &c->good, 1);
		if (err)
			return complain(c, "posting the good request: %s", strerror(err)), false;
		if (w->signaled && !completes(c, 1, IBV_WC_SUCCESS))
			return false;
	}
	if (r->why == REGION_GONE || r->why == PEER_ERR_SINCE) {
		struct order o = {.what = HAPPEN, .event = r->why == REGION_GONE ? E_REGION_GONE : E_QUEUE_ERR};
		ask(&o);
	}
	if (r->why >= SELF_RESET && r->why <= SELF_ERR)
		access_connect(w, c->qp, r->why == SELF_RESET ? IBV_QPS_RESET : r->why == SELF_INIT ? IBV_QPS_INIT :
				r->why == SELF_RTR ? IBV_QPS_RTR : IBV_QPS_ERR, c->at.qpn);
	int err = list ? access_post(&rq, w, c->qp, both, 2) : access_post(&rq, w, c->qp, &c->bad, 1);
	if (err != (r->who == AT_POST ? r->status : 0))
		return complain(c, "posting the request to be refused: %d", err), false;
	if (list && w->signaled && !completes(c, 1, IBV_WC_SUCCESS))
		return false;
	if (r->who != AT_POST && (status != IBV_WC_SUCCESS || w->signaled) && !completes(c, 2, status))
		return false;
	return true;
}

static void check_states(const struct a_case *c)
{
	const struct refusal *r = c->r;
	struct ibv_wc wc;
	bool broken = r->who == AT_REQUESTER || (r->who != AT_POST && reliable(c->w));
	enum ibv_qp_state s = vt_state(c->qp);

	if (r->status == IBV_WC_SUCCESS)
		broken = false;
	if (r->who == AT_POST && r->why >= SELF_RESET && r->why <= SELF_RTR)
		return;
	/* a timer's thread completes the request, then moves the queue */
	for (uint64_t end = vt_ms() + 20000; broken && s == IBV_QPS_RTS && vt_ms() < end; s = vt_state(c->qp))
		sched_yield();
	/* IBTA 10.3.1.6: the send queue of a datagram queue has a state of its own for this */
	if (broken ? s != IBV_QPS_ERR && !(c->w->transport == UD && s == IBV_QPS_SQE) : s != IBV_QPS_RTS)
		complain(c, "the requester's queue is in state %d", s);
	if (ibv_poll_cq(rq.cq, 1, &wc) > 0)
		complain(c, "one more completion: request %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static void run_sleep(struct a_case *c)
{
	struct order o = preparation(c), sleep = {.what = SLEEP};
	struct answer a;

	c->at = ask(&o);
	access_connect(c->w, c->qp, IBV_QPS_RTS, c->at.qpn);
	make_requests(c);
	/* the first one of a queue may take another way */
	for (int i = 0; i < 2; i++) {
		c->good.id = 1;
		ask(&sleep);
		int err = access_post(&rq, c->w, c->qp, &c->good, 1);
		if (err)
			complain(c, "posting: %s", strerror(err));
		vt_hear(&peer, &a, sizeof(a));
		if (a.complaint[0]) {
			complain(c, "%s", a.complaint);
			exit(1);
		}
		if (c->w->signaled)
			completes(c, 1, IBV_WC_SUCCESS);
	}
	if (BIT(c->w->op) & OPS_RESULT)
		fill_sources();
}

static void run(struct a_case *c)
{
	const struct way *w = c->w;
	const struct refusal *r = c->r;
	struct order look = {.what = LOOK, .received = -1, .event_wanted = -1};
	struct ibv_wc wc;
	bool good = preceded(c);

	cases++;
	alarm(ACCESS_CASE_SECONDS);
	if (verbose)
		printf("%s\n", name_of(c));
	c->qp = access_queue(&rq, w, &c->max_inline);
	for (int i = 0; i < w->shape->n; i++)
		c->length += w->shape->len[i];
	if (r->why == WAKES) {
		run_sleep(c);
		return;
	}
	struct order o = preparation(c);
	if (!good) {
		o.receive[1] = o.receive[0];
		o.receive[0] = V_NONE;
	}
	c->at = ask(&o);
	access_connect(w, c->qp, IBV_QPS_RTS, c->at.qpn);
	make_requests(c);
	spoil(c);
	bool played = play(c, good);
	if (played)
		check_states(c);
	if (good)
		good_result(c, &look);
	if (r->who == AT_RECEIVE)
		look.received = r->received;
	look.broken = r->why == PEER_ERR_SINCE || (w->transport == RC && (r->who == AT_RECEIVE ||
			(r->who == AT_RESPONDER && r->event >= 0)));
	if (w->transport == RC)
		look.event_wanted = r->event;
	struct answer a = ask(&look);
	if (a.complaint[0] && played)
		complain(c, "%s", a.complaint);
	check_sources(c, good);
	if (BIT(w->op) & OPS_RESULT)
		fill_sources();
	while (ibv_poll_cq(rq.cq, 1, &wc) > 0)
		;
	if (failures >= 30)
		exit(1);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------ */

static bool wanted(const struct a_case *c, char **words)
{
	const char *name = name_of(c);

	for (; *words; words++)
		if (!strstr(name, *words))
			return false;
	return true;
}

static void run_way(const struct way *w, char **words)
{
	if (!access_possible(w))
		return;
	for (size_t i = 0; i < REFUSALS; i++)
		for (int l = 0; l < LANES; l++) {
			struct a_case c = {.w = w, .r = &refusals[i], .lane = l};
			if (applies(w, c.r) && wanted(&c, words))
				run(&c);
		}
}

static void share_processor(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();

	CHECK(cpu >= 0, "sched_getcpu");
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity to processor %d", cpu);
}

int main(int argc, char **argv)
{
	argv++;
	if (argc > 1 && !strcmp(*argv, "-v")) {
		verbose = true;
		argv++;
	}
	vt_fabric();
	share_processor();
	peer = vt_fork();
	if (!peer.child) {
		access_answer(&peer);
		return 0;
	}
	vt_hear(&peer, &card, sizeof(card));
	set_up();
	fill_sources();
	for (int t = 0; t < TRANSPORTS; t++)
		for (int api = 0; api < APIS; api++)
			for (int mode = 0; mode < MODES; mode++)
				for (int op = 0; op < OPS; op++)
					for (size_t s = 0; s < (BIT(op) & OPS_ATOMIC ? 1 : SHAPES); s++)
						for (int k = 0; k < 4; k++) {
							struct way w = {t, api, mode, op, BIT(op) & OPS_ATOMIC ? &word :
									&shapes[s], k & 1, k >> 1};
							run_way(&w, argv);
						}
	struct order end = {.what = END};
	vt_tell(&peer, &end, sizeof(end));
	tear_down();
	vt_join(&peer);
	printf("%u cases, %u failures\n", cases, failures);
	return failures || !cases;
}
