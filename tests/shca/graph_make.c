/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes random graphs of requests, and the memory that must result (graph.h). */
#include <stdlib.h>

#include "graph.h"

#define GRANULE 16u
#define GRANULES (GRAPH_MEM / GRANULE)
#define MOST_ACCESSES 12u

/* How requests access memory: accesses of the same mode commute, except WRITES. */
enum mode { READS, ADDS, SETS, WRITES, MODES };

struct access {
	enum mode mode;
	uint32_t member;
	struct graph_seg seg;
};
/* A request under construction, with the accesses of that request. */
struct idea {
	struct graph_req req;
	struct access a[MOST_ACCESSES];
	uint32_t n;
	bool overlaps;			/* the request may overwrite the request's own operands */
};

struct graph_maker {
	struct graph *g;
	uint64_t rng;
	/* by mode, member, granule, queue: the last request of the queue that touched the granule, plus one */
	uint16_t last[MODES][GRAPH_MEMBERS][GRANULES][GRAPH_QUEUES];
	uint16_t ended[GRAPH_QUEUES][GRAPH_OPS][GRAPH_QUEUES];
	struct graph_atomic *atomics;
	uint32_t natomics;
	struct graph_step order[GRAPH_QUEUES * GRAPH_OPS];
};

static uint32_t below(struct graph_maker *k, uint32_t n)
{
	return rig_below(&k->rng, n);
}

/* ---- effects of requests ----------------------------------------------------------------------------------------- */

static uint32_t peer_member(const struct graph *g, uint32_t q)
{
	return g->q[g->q[q].peer].member;
}

static uint32_t gather(const char *mem, const struct graph_seg *seg, uint32_t n, char *to)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < n; len += seg[i++].len)
		memcpy(to + len, mem + seg[i].off, seg[i].len);
	return len;
}

static void scatter(char *mem, const struct graph_seg *seg, const char *from, uint32_t len)
{
	for (uint32_t i = 0; len; i++) {
		uint32_t n = seg[i].len < len ? seg[i].len : len;
		memcpy(mem + seg[i].off, from, n);
		from += n;
		len -= n;
	}
}

/* Writes the bytes of an inline message. */
static void label(uint32_t queue, uint32_t req, char *to)
{
	uint64_t w[2] = {0x1abe100000000000ull | queue, req};

	memcpy(to, w, 16);
}

static void apply_copy(const struct graph *g, struct graph_image *im, uint32_t q, uint32_t i)
{
	const struct graph_req *r = &g->q[q].req[i];
	char *mine = im->mem[g->q[q].member], *theirs = im->mem[peer_member(g, q)];
	char data[GRAPH_MEM + 16], made[GRAPH_MEM + 16];
	uint32_t len;

	if (r->op == GRAPH_READ) {
		memcpy(data, theirs + r->remote.off, len = r->remote.len);
	} else if (r->inl) {
		label(q, i, data);
		len = 16;
	} else {
		len = gather(mine, r->seg, r->nseg, data);
	}
	if (r->calc && r->form.vector) {
		uint32_t unit = r->form.op == SHCA_EXP_CALC_OP_MAXLOC ? 16 : r->form.size, one = r->seg[0].len;
		for (uint32_t at = 0; at < one; at += unit)
			calc_model(&r->form, data + at, r->nseg, one, made + at);
		memcpy(data, made, len = one);
	} else if (r->calc) {
		calc_model(&r->form, data, len / 16, 16, made);
		memcpy(data, made, len = 16);
	}
	if (r->op == GRAPH_READ)
		scatter(mine, r->seg, data, len);
	else
		memcpy(theirs + r->remote.off, data, len);
}

static void apply_atomic(const struct graph *g, struct graph_image *im, uint32_t q, uint32_t i)
{
	const struct graph_req *r = &g->q[q].req[i];
	const struct graph_atomic *a = r->atomic;
	char *mine = im->mem[g->q[q].member], *target = im->mem[peer_member(g, q)] + r->remote.off;
	bool cas = r->op == GRAPH_CAS || r->op == GRAPH_MCAS;
	uint64_t v[4][ATOMIC_WORDS], old[ATOMIC_WORDS] = {0}, new[ATOMIC_WORDS];
	char operands[4 * 256];

	memcpy(v, a->v, sizeof(v));
	if (a->how == GRAPH_GATHERED) {
		gather(mine, r->seg + 1, r->nseg - 1u, operands);
		memset(v, 0, sizeof(v));
		for (uint32_t k = 0; k < (cas ? 4u : 2u); k++)
			memcpy(v[k], operands + (size_t)k * a->size, a->size);
	}
	/* of 4 bytes: this machine's low half comes first */
	memcpy(old, target, a->size);
	atomic_model(cas, a->size, (const uint64_t (*)[ATOMIC_WORDS])v, old, new);
	memcpy(target, new, a->size);
	memcpy(mine + r->seg[0].off, old, a->size);
}

void graph_apply(const struct graph *g, struct graph_image *image, uint32_t queue, uint32_t req)
{
	switch (g->q[queue].req[req].op) {
	case GRAPH_SEND:
	case GRAPH_WRITE:
	case GRAPH_WRITE_IMM:
	case GRAPH_READ: apply_copy(g, image, queue, req); break;
	case GRAPH_FAA:
	case GRAPH_CAS:
	case GRAPH_MFAA:
	case GRAPH_MCAS: apply_atomic(g, image, queue, req); break;
	default: break;
	}
}

void graph_begin(const struct graph *g, struct graph_image *image)
{
	for (uint32_t m = 0; m < g->members; m++)
		rig_fill(image->mem[m], GRAPH_ALL, g->seed * 64 + m);
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

static void join(uint16_t *clock, const uint16_t *other)
{
	for (uint32_t i = 0; i < GRAPH_QUEUES; i++)
		if (clock[i] < other[i])
			clock[i] = other[i];
}

static bool make_enabled(struct graph_maker *k, uint32_t q);
static bool order(struct graph_maker *k, uint32_t from, uint32_t to);

/* Whether a request appended now would be enabled already. */
static bool can_run(const struct graph_queue *q)
{
	return q->n < GRAPH_OPS && (!q->managed_send || q->n < q->enabled);
}

/* Returns the next request of a queue; NULL: there is no room. Must: the queue's clock is joined with the clocks of all requests
 * that the new request must follow. */
static struct graph_req *append(struct graph_maker *k, uint32_t qi, const struct graph_req *r)
{
	struct graph *g = k->g;
	struct graph_queue *q = &g->q[qi];

	if ((!can_run(q) && !make_enabled(k, qi)) || !can_run(q))
		return NULL;
	uint32_t i = q->n++;
	q->req[i] = *r;
	if (q->req[i].signaled)
		q->signals++;
	q->clock[qi] = (uint16_t)q->n;
	memcpy(k->ended[qi][i], q->clock, sizeof(q->clock));
	k->order[g->steps++] = (struct graph_step){(uint16_t)qi, (uint16_t)i};
	graph_apply(g, &g->image, qi, i);
	return &q->req[i];
}

/* Returns a queue of this member that can take a request; GRAPH_QUEUES: none. */
static uint32_t some_queue(struct graph_maker *k, uint32_t member, uint32_t but)
{
	struct graph *g = k->g;
	uint32_t at = below(k, g->queues);

	for (uint32_t n = 0; n < g->queues; n++, at = (at + 1) % g->queues) {
		const struct graph_queue *q = &g->q[at];
		if (at != but && q->member == member && can_run(q))
			return at;
	}
	return GRAPH_QUEUES;
}

/* Whether an ENABLE in queue `by` comes behind the last ENABLE of the same target. An invariant: if the later ENABLE ran first,
 * the requests of the earlier one would be enabled too early. */
static bool behind_enabler(const struct graph_maker *k, const struct graph_enabler *e, uint32_t by)
{
	return k->g->q[by].clock[e->queue] >= e->requests;
}

/* index: of the target's requests, or receives. by: GRAPH_QUEUES: any queue but one. */
static bool append_enable(struct graph_maker *k, enum graph_op op, uint32_t target, uint32_t by, uint32_t but)
{
	struct graph *g = k->g;
	struct graph_queue *t = &g->q[target];
	bool recv = op == GRAPH_RECV_EN;
	struct graph_enabler *e = recv ? &t->recv_enabler : &t->send_enabler;

	if (by == GRAPH_QUEUES)
		by = some_queue(k, t->member, but);
	if (by == GRAPH_QUEUES || (!behind_enabler(k, e, by) && !order(k, e->queue, by)))
		return false;
	/* the append may have enabled the target, or used the enabled requests of the other queue */
	if (recv ? t->nrecv < t->recv_enabled : t->n < t->enabled)
		return true;
	if (!behind_enabler(k, e, by) || !can_run(&g->q[by]))
		return false;
	struct graph_req r = {.op = op, .target = target, .index = (recv ? t->nrecv : t->n) + 1 + below(k, 5),
			      .signaled = below(k, 4) == 0};
	if (!append(k, by, &r))
		return false;
	*e = (struct graph_enabler){by, g->q[by].n};
	*(recv ? &t->recv_enabled : &t->enabled) = (uint32_t)r.index;
	return true;
}

static bool make_enabled(struct graph_maker *k, uint32_t qi)
{
	struct graph_queue *q = &k->g->q[qi];

	if (q->n == GRAPH_OPS || !append_enable(k, GRAPH_SEND_EN, qi, GRAPH_QUEUES, qi))
		return false;
	join(q->clock, k->ended[q->send_enabler.queue][q->send_enabler.requests - 1]);
	return true;
}

/* Appends a message, which takes the peer's next receive. */
static struct graph_req *append_message(struct graph_maker *k, uint32_t qi, const struct graph_req *r, struct graph_seg into)
{
	struct graph_queue *q = &k->g->q[qi], *p = &k->g->q[q->peer];

	if (p->nrecv == GRAPH_OPS - 2)
		return NULL;
	if (p->managed_recv && p->nrecv >= p->recv_enabled &&
	    !append_enable(k, GRAPH_RECV_EN, q->peer, GRAPH_QUEUES, GRAPH_QUEUES))
		return NULL;
	if (!can_run(q) && !make_enabled(k, qi))
		return NULL;
	if (p->managed_recv)
		join(q->clock, k->ended[p->recv_enabler.queue][p->recv_enabler.requests - 1]);
	p->recv[p->nrecv].into = into;
	struct graph_req *there = append(k, qi, r);
	p->nrecv += there != NULL;
	return there;
}

/* Appends a WAIT to queue `to` for the completions that queue `of` has caused so far, the last one by request `req` of that
 * queue. */
static bool append_wait(struct graph_maker *k, uint32_t to, uint32_t cq, uint64_t index, uint32_t of, uint32_t req)
{
	struct graph_req r = {.op = GRAPH_WAIT, .cq = cq, .index = index, .signaled = below(k, 6) == 0};

	if (!can_run(&k->g->q[to]) && !make_enabled(k, to))
		return false;
	/* the requests behind the WAIT follow the request for which the WAIT waits. Joined only here, since without the WAIT they
	 * do not */
	join(k->g->q[to].clock, k->ended[of][req]);
	return append(k, to, &r) != NULL;
}

static bool permitted(const struct graph_maker *k, uint32_t qi, const struct access *a, uint32_t *missing);

/* Appends a message by which the peer knows how far queue `from` has come. */
static bool tell(struct graph_maker *k, uint32_t from)
{
	struct graph_req r = {.op = GRAPH_SEND, .inl = true, .signaled = below(k, 5) == 0};
	struct graph_seg into = {0, 0};
	uint32_t missing;

	/* with stamps, each message that changes memory is followed by an increment; this message must be the last, so this one
	 * changes no memory */
	for (uint32_t tries = 0; tries < 4 && !into.len && !k->g->stamps; tries++) {
		struct access a = {WRITES, peer_member(k->g, from), {1024 + below(k, GRANULES - 64) * GRANULE, 16}};
		if (permitted(k, from, &a, &missing))
			into = a.seg;
	}
	r.remote = into;
	r.inl = into.len;
	struct graph_queue *q = &k->g->q[from];
	if (!append_message(k, from, &r, into))
		return false;
	for (uint32_t i = 0; i < into.len / GRANULE; i++)
		k->last[WRITES][peer_member(k->g, from)][into.off / GRANULE + i][from] = (uint16_t)q->n;
	return true;
}

static uint32_t bridge(struct graph_maker *k, uint32_t from, uint32_t to)
{
	struct graph *g = k->g;
	uint32_t at = below(k, g->queues);

	for (uint32_t n = 0; n < g->queues; n++, at = (at + 1) % g->queues)
		if (g->q[at].member == from && peer_member(g, at) == to && g->q[at].n + 8 < GRAPH_OPS)
			return at;
	return GRAPH_QUEUES;
}

/* Orders the next requests of queue `to` behind the present ones of queue `from`. */
static bool order(struct graph_maker *k, uint32_t from, uint32_t to)
{
	struct graph *g = k->g;
	struct graph_queue *f = &g->q[from], *t = &g->q[to];

	if (t->clock[from] >= f->n)
		return true;
	if (f->member != t->member) {
		uint32_t by = bridge(k, f->member, t->member);
		if (by == GRAPH_QUEUES || !order(k, from, by) || !tell(k, by))
			return false;
		/* the SEND is the last request but for ENABLEs of other queues */
		return append_wait(k, to, 2 * g->q[by].peer + 1, g->q[g->q[by].peer].nrecv, by, g->q[by].n - 1);
	}
	if (t->managed_send && t->n >= t->enabled && can_run(f) && behind_enabler(k, &t->send_enabler, from) && below(k, 2)) {
		if (!append_enable(k, GRAPH_SEND_EN, to, from, to))
			return false;
		join(t->clock, k->ended[from][f->n - 1]);
		return true;
	}
	if (!f->req[f->n - 1].signaled) {
		struct graph_req nop = {.op = GRAPH_NOP, .signaled = true};
		if (below(k, 2)) {
			f->req[f->n - 1].signaled = true;
			f->signals++;
		} else if (!append(k, from, &nop)) {
			return false;
		}
	}
	return append_wait(k, to, 2 * from, f->signals, from, f->n - 1);
}

/* ---- accesses ------------------------------------------------------------------------------------------------------ */

/* *missing: a queue with an access that is not ordered before this one. */
static bool permitted(const struct graph_maker *k, uint32_t qi, const struct access *a, uint32_t *missing)
{
	const uint16_t *clock = k->g->q[qi].clock;

	for (uint32_t at = a->seg.off / GRANULE; a->seg.len && at <= (a->seg.off + a->seg.len - 1) / GRANULE && at < GRANULES;
	     at++)
		for (uint32_t mode = 0; mode < MODES; mode++) {
			if (mode == (uint32_t)a->mode && mode != WRITES)
				continue;
			for (uint32_t o = 0; o < k->g->queues; o++)
				if (k->last[mode][a->member][at][o] > clock[o]) {
					*missing = o;
					return false;
				}
		}
	return true;
}

static bool all_permitted(struct graph_maker *k, uint32_t qi, const struct idea *d)
{
	uint32_t missing;

	for (uint32_t tries = 0; tries < 6; tries++) {
		bool ok = true;
		for (uint32_t i = 0; i < d->n && ok; i++)
			ok = permitted(k, qi, &d->a[i], &missing);
		if (ok)
			return true;
		if (tries == 5 || !order(k, missing, qi))
			return false;
	}
	return false;
}

static void touched(struct graph_maker *k, uint32_t qi, const struct idea *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		const struct access *a = &d->a[i];
		for (uint32_t at = a->seg.off / GRANULE;
		     a->seg.len && at <= (a->seg.off + a->seg.len - 1) / GRANULE && at < GRANULES; at++)
			k->last[a->mode][a->member][at][qi] = (uint16_t)k->g->q[qi].n;
	}
}

/* Accesses to scratch memory need no order: these bytes are not compared. */
static bool add_access(struct idea *d, enum mode mode, uint32_t member, struct graph_seg seg)
{
	for (uint32_t i = 0; i < d->n; i++) {
		const struct access *o = &d->a[i];
		bool apart = o->member != member || o->seg.off + o->seg.len <= seg.off || seg.off + seg.len <= o->seg.off;
		if (!apart && !(o->mode == READS && (mode == READS || d->overlaps)))
			return false;
	}
	d->a[d->n++] = (struct access){mode, member, seg};
	return true;
}

/* Returns a random place in the compared memory, behind the cells of additions, within one half. */
static struct graph_seg place(struct graph_maker *k, uint32_t len, uint32_t align)
{
	uint32_t room = GRAPH_HALF - 768 - len;

	return (struct graph_seg){below(k, 2) * GRAPH_HALF + 768 + below(k, room / align + 1) * align, len};
}

static struct graph_seg scratch(struct graph_maker *k, uint32_t len)
{
	return (struct graph_seg){GRAPH_MEM + below(k, (GRAPH_SCRATCH - len) / 8 + 1) * 8, len};
}

/* ---- ideas --------------------------------------------------------------------------------------------------------- */

static void think_calc(struct graph_maker *k, struct idea *d)
{
	static const uint32_t ops[] = {IBV_EXP_CALC_OP_ADD, SHCA_EXP_CALC_OP_PROD, IBV_EXP_CALC_OP_BAND, IBV_EXP_CALC_OP_BXOR,
				       IBV_EXP_CALC_OP_BOR, SHCA_EXP_CALC_OP_MIN, SHCA_EXP_CALC_OP_MAX, SHCA_EXP_CALC_OP_MAXLOC};
	static const uint32_t codes[] = {IBV_EXP_CALC_DATA_SIZE_64_BIT, SHCA_EXP_CALC_DATA_SIZE_32_BIT,
					 SHCA_EXP_CALC_DATA_SIZE_16_BIT, SHCA_EXP_CALC_DATA_SIZE_8_BIT};
	struct calc_form *f = &d->req.form;
	uint32_t op = below(k, 8), code;

	d->req.calc = true;
	f->op = ops[op];
	/* a sum of arbitrary bits as floating point numbers is not determined: a NaN's payload is either operand's */
	f->type = below(k, op < 2 ? 2 : 3);
	f->vector = d->req.op != GRAPH_READ && below(k, 2);
	f->host = below(k, 2);
	code = f->vector && f->op != SHCA_EXP_CALC_OP_MAXLOC ? below(k, f->type == IBV_EXP_CALC_DATA_TYPE_FLOAT ? 2 : 4) : 0;
	f->size_code = codes[code];
	f->size = 8u >> code;
}

/* Appends n segments to the local list, of `each` bytes; each is 0: of one to four times `unit` bytes. */
static bool think_list(struct graph_maker *k, struct idea *d, uint32_t member, enum mode mode, uint32_t n, uint32_t unit,
		       uint32_t each)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = each ? each : unit * (1 + below(k, 4));
		d->req.seg[d->req.nseg] = place(k, len, unit < 8 ? 1 : 8);
		if (!add_access(d, mode, member, d->req.seg[d->req.nseg++]))
			return false;
	}
	return true;
}

static uint32_t listed(const struct graph_req *r)
{
	uint32_t len = 0;

	for (uint32_t i = 0; i < r->nseg; i++)
		len += r->seg[i].len;
	return len;
}

static bool think_copy(struct graph_maker *k, uint32_t qi, struct idea *d)
{
	uint32_t mine = k->g->q[qi].member, theirs = peer_member(k->g, qi), unit = 1 + below(k, 40), each = 0, len;
	struct graph_req *r = &d->req;
	bool reads = r->op == GRAPH_READ;

	if (below(k, 2)) {
		think_calc(k, d);
		unit = 16;
		/* an RDMA WRITE may land on the operands of the same request */
		d->overlaps = r->op == GRAPH_WRITE || r->op == GRAPH_WRITE_IMM;
	}
	if (r->calc && r->form.vector)
		each = (r->form.op == SHCA_EXP_CALC_OP_MAXLOC ? 16 : r->form.size) * (1 + below(k, below(k, 4) ? 16 : 32));
	if (r->calc && r->form.vector)
		unit = 8;
	if (!think_list(k, d, mine, reads ? WRITES : READS, 1 + below(k, GRAPH_SEGS), unit, each))
		return false;
	len = r->calc && !reads ? (each ? each : 16) : listed(r);
	r->remote = place(k, len, 1);
	return add_access(d, reads ? READS : WRITES, theirs, r->remote);
}

/* Returns the field boundaries of a word in the cells of additions: by a fixed rule, so that all additions there commute. Bit 31
 * always is one, which keeps the halves of a word apart. */
static uint64_t boundary_at(uint32_t member, uint32_t off)
{
	return ((member * 512 + off / 8 + 1) * 0x9e3779b97f4a7c15ull & 0x4210842110842108ull) | 1ull << 31;
}

static uint32_t atomic_size(struct graph_maker *k, const struct graph *g)
{
	return g->wide ? 4u << below(k, 7) : 4u << below(k, 2);
}

static void operands(struct graph_maker *k, struct graph_atomic *a)
{
	for (uint32_t i = 0; i < 4; i++)
		for (uint32_t w = 0; w < ATOMIC_WORDS; w++)
			a->v[i][w] = rig_rand(&k->rng) & (a->size == 4 ? UINT32_MAX : UINT64_MAX);
}

/* Makes an addition, or a setting of bits, in cells that have no other accesses at that time: these run in any order. */
static bool think_commuting(struct graph_maker *k, uint32_t qi, struct idea *d)
{
	struct graph_atomic *a = d->req.atomic;
	uint32_t theirs = peer_member(k->g, qi), cell = below(k, 3);

	a->size = d->req.op == GRAPH_FAA ? 8 : atomic_size(k, k->g);
	if (cell == 0 && a->size == 4)
		a->size = 8;
	operands(k, a);
	uint32_t off = below(k, 2) * GRAPH_HALF + cell * 256 + below(k, 256 / a->size) * a->size;
	if (cell < 2) {
		d->req.op = cell == 0 && a->size == 8 && below(k, 2) ? GRAPH_FAA : GRAPH_MFAA;
		for (uint32_t w = 0; w < ATOMIC_WORDS; w++) {
			uint64_t ends = boundary_at(theirs, off + 8 * w);
			a->v[1][w] = cell == 0 ? 0 : a->size == 4 ? (uint32_t)(ends >> (off & 4) * 8) : ends;
		}
	} else {
		d->req.op = GRAPH_MCAS;
		memset(a->v[1], 0, sizeof(a->v[0]));
		memset(a->v[2], 0xff, sizeof(a->v[0]));
		for (uint32_t w = 0; a->size == 4 && w < ATOMIC_WORDS; w++)
			a->v[2][w] = UINT32_MAX;
	}
	a->how = a->size > 8 ? GRAPH_POINTER : GRAPH_IMMEDIATE;
	d->req.seg[0] = scratch(k, a->size);
	d->req.nseg = 1;
	d->req.remote = (struct graph_seg){off, a->size};
	return add_access(d, cell < 2 ? ADDS : SETS, theirs, d->req.remote);
}

static bool think_atomic(struct graph_maker *k, uint32_t qi, struct idea *d)
{
	uint32_t mine = k->g->q[qi].member, theirs = peer_member(k->g, qi), n;
	bool masked = d->req.op == GRAPH_MFAA || d->req.op == GRAPH_MCAS, cas = d->req.op == GRAPH_CAS || d->req.op == GRAPH_MCAS;
	struct graph_atomic *a = d->req.atomic;

	a->size = masked ? atomic_size(k, k->g) : 8;
	operands(k, a);
	d->req.remote = place(k, a->size, a->size);
	/* the cells of additions, too, now and then */
	if (below(k, 4) == 0)
		d->req.remote.off = below(k, 2) * GRAPH_HALF + below(k, 768 / a->size) * a->size;
	/* halves of 4096 bytes, of which 768 are a multiple of 256: aligned all the same */
	if (cas && below(k, 4)) {
		memcpy(a->v[0], k->g->image.mem[theirs] + d->req.remote.off, a->size);
		if (a->size == 4)
			a->v[0][0] &= UINT32_MAX;
	}
	/* an ordinary atomic, as a masked one */
	if (!masked)
		a->v[1][0] = a->v[3][0] = cas ? UINT64_MAX : 0;
	a->how = a->size > 8 ? GRAPH_POINTER : GRAPH_IMMEDIATE;
	d->req.seg[0] = place(k, a->size, 8);
	d->req.nseg = 1;
	if (!add_access(d, WRITES, theirs, d->req.remote) || !add_access(d, WRITES, mine, d->req.seg[0]))
		return false;
	if (!masked || below(k, 2))
		return true;
	a->how = GRAPH_GATHERED;
	n = (cas ? 4 : 2) * a->size;
	/* in two pieces, divided anywhere */
	return think_list(k, d, mine, READS, 1, 1, 1 + below(k, n - 1)) &&
	       think_list(k, d, mine, READS, 1, 1, n - d->req.seg[1].len);
}

static void data_request(struct graph_maker *k, uint32_t qi)
{
	static const enum graph_op ops[] = {GRAPH_SEND, GRAPH_SEND, GRAPH_WRITE, GRAPH_WRITE_IMM, GRAPH_READ, GRAPH_READ,
					    GRAPH_FAA,  GRAPH_CAS,  GRAPH_MFAA,  GRAPH_MFAA,      GRAPH_MCAS, GRAPH_MCAS};
	struct idea d = {.req = {.op = ops[below(k, ARRAY_SIZE(ops))], .signaled = below(k, 3) == 0}};
	bool message = d.req.op == GRAPH_SEND || d.req.op == GRAPH_WRITE_IMM, ok;

	if (d.req.op >= GRAPH_FAA) {
		d.req.atomic = &k->atomics[k->natomics++];
		ok = below(k, 2) ? think_commuting(k, qi, &d) : think_atomic(k, qi, &d);
	} else {
		ok = think_copy(k, qi, &d);
	}
	if (!ok || !all_permitted(k, qi, &d))
		return;
	/* the ENABLE of a request may add to the order, never take from the order */
	struct graph_seg into = d.req.op == GRAPH_SEND ? d.req.remote : (struct graph_seg){0, 0};
	if (message ? !append_message(k, qi, &d.req, into) : !append(k, qi, &d.req))
		return;
	touched(k, qi, &d);
	if (k->g->stamps)
		append(k, qi, &(struct graph_req){.op = GRAPH_STAMP, .nseg = 1, .seg = {scratch(k, 8)}});
}

/* ---- posting ------------------------------------------------------------------------------------------------------- */

/* Sets the counts of the WAITs or ENABLEs of one counter, in the order of posting. */
static void count(struct graph_maker *k, struct graph_req **r, uint32_t n)
{
	uint64_t base = 0, most = 0, *least = calloc(n + 1, sizeof(*least));

	CHECK(least);
	least[n] = UINT64_MAX;
	for (uint32_t i = n; i-- > 0;)
		least[i] = r[i]->index < least[i + 1] ? r[i]->index : least[i + 1];
	for (uint32_t i = 0; i < n; i++) {
		r[i]->count = (int32_t)(r[i]->index - base);
		most = r[i]->index > most ? r[i]->index : most;
		/* the request may be the last of the group if no later one has a smaller index */
		r[i]->last = most < least[i + 1] && below(k, 3);
		if (r[i]->last)
			base = most;
	}
	free(least);
}

/* Requests or receives of a queue in the lists up to this one. */
static uint64_t posted_by(const struct graph_queue *q, uint32_t list, bool recv)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < (recv ? q->posted_recv : q->n); i++)
		n += (recv ? q->recv[i].list : q->req[i].list) <= list;
	return n;
}

static void count_all(struct graph_maker *k, enum graph_op op, uint32_t what)
{
	struct graph *g = k->g;
	uint32_t n = 0, member = g->q[op == GRAPH_WAIT ? what / 2 : what].member;
	struct graph_req **r = malloc(sizeof(*r) * GRAPH_QUEUES * GRAPH_OPS);

	CHECK(r);
	for (uint32_t list = 0; list < g->lists; list++)
		for (uint32_t q = 0; q < g->queues; q++)
			for (uint32_t i = 0; g->q[q].member == member && i < g->q[q].n; i++) {
				struct graph_req *d = &g->q[q].req[i];
				if (d->op == op && d->list == list && (op == GRAPH_WAIT ? d->cq : d->target) == what)
					r[n++] = d;
			}
	count(k, r, n);
	/* 0: all that are posted with this list */
	for (uint32_t i = 0; i < n && op != GRAPH_WAIT; i++)
		if (r[i]->index == posted_by(&g->q[what], r[i]->list, op == GRAPH_RECV_EN) && below(k, 2))
			r[i]->count = 0;
	free(r);
}

static void make_lists(struct graph_maker *k)
{
	struct graph *g = k->g;

	for (uint32_t q = 0; q < g->queues; q++) {
		for (uint32_t i = 0, list = 0; i < g->q[q].n; i++) {
			list += below(k, 20) == 0 && list + 1 < g->lists;
			g->q[q].req[i].list = list;
		}
		/* some receives that no message takes */
		g->q[q].posted_recv = g->q[q].nrecv + below(k, 3);
		for (uint32_t i = 0, list = 0; i < g->q[q].posted_recv; i++) {
			list += below(k, 12) == 0 && list + 1 < g->lists;
			g->q[q].recv[i].list = list;
		}
	}
	for (uint32_t q = 0; q < g->queues; q++) {
		count_all(k, GRAPH_WAIT, 2 * q);
		count_all(k, GRAPH_WAIT, 2 * q + 1);
		count_all(k, GRAPH_SEND_EN, q);
		count_all(k, GRAPH_RECV_EN, q);
	}
}

/* Connects random pairs of queues; a queue that is left over is connected to itself. */
static void make_pairs(struct graph_maker *k)
{
	struct graph *g = k->g;
	uint32_t left[GRAPH_QUEUES], n = g->queues;

	for (uint32_t i = 0; i < n; i++)
		left[i] = i;
	while (n) {
		uint32_t a = left[--n], pick = n ? below(k, n) : 0, b = n ? left[pick] : a;
		if (n)
			left[pick] = left[--n];
		g->q[a].peer = b;
		g->q[b].peer = a;
	}
}

struct graph *graph_make(uint64_t seed, uint32_t members, bool stamps)
{
	struct graph *g = calloc(1, sizeof(*g));
	struct graph_maker *k = calloc(1, sizeof(*k));

	CHECK(g && k && members >= 1 && members <= GRAPH_MEMBERS);
	*g = (struct graph){.seed = seed, .members = members, .stamps = stamps, .maker = k};
	k->g = g;
	k->rng = (seed + 1) * 0x9e3779b97f4a7c15ull + members;
	for (int i = 0; i < 4; i++)
		rig_rand(&k->rng);
	g->order = k->order;
	g->wide = below(k, 2);
	g->lists = 1 + below(k, 3);
	for (uint32_t m = 0; m < members; m++)
		for (uint32_t i = 0, n = 1 + below(k, GRAPH_QUEUES / GRAPH_MEMBERS); i < n; i++) {
			struct graph_queue *q = &g->q[g->queues];
			q->member = m;
			q->ended = k->ended[g->queues++];
			/* each member has a queue that needs no ENABLE */
			q->managed_send = i && below(k, 2);
			q->managed_recv = below(k, 3) == 0;
		}
	make_pairs(k);
	graph_begin(g, &g->image);
	uint32_t all = g->queues * (8 + below(k, 25));
	k->atomics = calloc(all, sizeof(*k->atomics));
	CHECK(k->atomics);
	for (uint32_t i = 0; i < all; i++) {
		uint32_t q = below(k, g->queues);
		if (g->q[q].n < GRAPH_OPS / 2)
			data_request(k, q);
	}
	make_lists(k);
	return g;
}

void graph_free(struct graph *g)
{
	free(g->maker->atomics);
	free(g->maker);
	free(g);
}
