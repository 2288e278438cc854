/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traffic between virtual processes: every kind of request on RC queues (own receive queues and a shared one per
 * member, whose size changes all the while), datagrams, receivers that are late (RNR). Every byte, the order of each queue and
 * every atomic is checked; members that find nothing sleep on a completion channel, and a wake-up that is lost fails the test.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "vproc.h"

#define MSG 8192u		/* largest ordinary message */
#define BIG (200u << 10)	/* now and then a write */
#define TX 12u			/* requests outstanding per queue */
#define RX 10u			/* receives of a queue's own */
#define SRX 24u			/* of the shared queue */
#define WIN 6u			/* WRITE_WITH_IMM outstanding per direction */
#define UDX 16u
#define HDR 16u

struct header {
	uint32_t seq, len;
	uint64_t seed;
};

enum what { W_SEND, W_SEND_IMM, W_WRITE_IMM, W_WRITE, W_READ, W_FAA, W_CAS, W_BIG, W_UD, W_KINDS };

struct tx {
	enum what what;
	bool busy, signaled;
	uint32_t len;
	uint64_t seed;
	uint64_t compare;
	char *buf;			/* MSG bytes */
};

struct conn {			/* one queue of a member, to one peer */
	struct ibv_qp *qp;
	bool srq;
	struct tx tx[TX];
	uint32_t tx_head, tx_n;	/* first in, first out */
	uint32_t sent, imms;	/* messages that take a receive; those of WRITE_IMM */
	uint32_t got, got_imms;
	bool write_pending;	/* a write that its read has not checked yet */
	uint32_t write_len;
	uint64_t write_seed;
	char *rx[RX];
	bool rx_free[RX];
	_Atomic uint32_t acked;	/* WRITE_IMMs of mine that the peer has looked at */
};

struct vm {
	struct rig r;
	struct traffic *t;
	uint32_t id;
	uint64_t rng;
	pthread_t thread;
	struct ibv_comp_channel *channel;
	struct ibv_cq *scq, *rcq;
	struct ibv_srq *srq;
	struct ibv_qp *ud;
	struct conn *c;			/* by peer */
	char *arena, *priv;		/* two halves of everything */
	size_t arena_bytes, priv_bytes;
	struct ibv_mr *amr, *pmr;
	char *srx[SRX];
	bool srx_free[SRX];
	uint32_t srx_posted, srx_size;	/* receives posted and not polled; the shared queue's size */
	char *udrx[UDX], *udtx;
	uint32_t ud_outstanding, *ud_last, *ud_seq;
	struct ibv_ah *ah;
	uint64_t *cell[2];		/* arena, private: atomics of all hit them */
	char *big[2], *big_dst[2], *big_to;	/* per lane: BIG bytes */
	bool big_busy;
	char *win;			/* [peer][WIN] of MSG: odd peers' in private memory */
	_Atomic bool stopped;		/* sends no more */
	uint64_t received, srq_resized;
};

struct traffic {
	struct vm *vm;
	uint32_t n;
	uint64_t until;
	_Atomic uint64_t adds, swaps, messages;
	_Atomic uint32_t done;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static char *carve(struct vm *v, bool arena, size_t bytes)
{
	size_t *used = arena ? &v->arena_bytes : &v->priv_bytes;
	char *p = (arena ? v->arena : v->priv) + *used;

	*used += (bytes + 63) & ~(size_t)63;
	return p;
}

static struct ibv_mr *mr_of(struct vm *v, const void *p)
{
	const char *a = v->amr->addr;
	return (const char *)p >= a && (const char *)p < a + v->amr->length ? v->amr : v->pmr;
}

static void memory(struct vm *v)
{
	uint32_t n = v->t->n;
	size_t each = (size_t)n * (TX + RX + 2 * WIN + 2) * (MSG + 64) + (SRX + UDX + 4) * (MSG + 64) + 2 * BIG + 65536;
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	v->arena = shca_buf_alloc(v->r.ctx, each);
	v->priv = calloc(1, each);
	CHECK(v->arena && v->priv);
	v->amr = shca_reg_mr(v->r.pd, v->arena, each, (uintptr_t)v->arena, access);
	v->pmr = shca_reg_mr(v->r.pd, v->priv, each, (uintptr_t)v->priv, access);
	CHECK(v->amr && v->pmr);
	for (int lane = 0; lane < 2; lane++) {
		v->cell[lane] = (uint64_t *)carve(v, !lane, 128);	/* [0] FAA, [8] CAS */
		v->big[lane] = carve(v, !lane, BIG);
		v->big_dst[lane] = carve(v, !lane, BIG);
		rig_fill(v->big[lane], BIG, v->id);
	}
	for (uint32_t i = 0; i < SRX; i++)
		v->srx[i] = carve(v, i & 1, MSG);
	for (uint32_t i = 0; i < UDX; i++)
		v->udrx[i] = carve(v, i & 1, MSG);
	v->udtx = carve(v, true, MSG);
	for (uint32_t p = 0; p < n; p++) {
		for (uint32_t i = 0; i < TX; i++)
			v->c[p].tx[i].buf = carve(v, i & 1, MSG);
		for (uint32_t i = 0; i < RX; i++) {
			v->c[p].rx[i] = carve(v, i & 1, MSG);
			v->c[p].rx_free[i] = true;
		}
	}
}

/* Where a peer's writes land here: the plain one, then those with immediate. */
static char *window(struct vm *v, uint32_t peer, uint32_t i)
{
	return v->win + ((size_t)peer * (WIN + 1) + i) * MSG;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------ */

static void queues(struct vm *v)
{
	uint32_t n = v->t->n;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = SRX, .max_sge = 2}};

	v->channel = v->id & 1 ? shca_create_comp_channel(v->r.ctx) : NULL;
	v->scq = rig_cq(&v->r, (int)(n * TX * 2 + 64), v->channel);
	v->rcq = rig_cq(&v->r, (int)(n * RX * 2 + SRX + UDX + 64), v->channel);
	v->srq = shca_create_srq(v->r.pd, &sa);
	CHECK(v->srq);
	v->srx_size = SRX;
	for (uint32_t i = 0; i < SRX; i++)
		v->srx_free[i] = true;
	for (uint32_t p = 0; p < n; p++) {
		v->c[p].srq = (p + v->id) & 1;
		struct rig_qp_attr a = {
			.type = IBV_QPT_RC, .scq = v->scq, .rcq = v->rcq, .srq = v->c[p].srq ? v->srq : NULL,
			.send_wr = TX, .recv_wr = RX, .sge = 3, .inl = 256,
			.exp_flags = (p + v->id) % 3 == 2 ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0,
		};
		v->c[p].qp = rig_qp(&v->r, &a);
		rig_init(v->c[p].qp);
	}
	struct rig_qp_attr ua = {.type = IBV_QPT_UD, .scq = v->scq, .rcq = v->rcq, .send_wr = 8, .recv_wr = UDX, .sge = 1};
	struct ibv_ah_attr ah = {.dlid = SHCA_LID, .port_num = 1};
	v->ud = rig_qp(&v->r, &ua);
	rig_init(v->ud);
	rig_rtr(v->ud, &(struct rig_path){0});
	rig_rts(v->ud, &(struct rig_path){0});
	v->ah = shca_create_ah(v->r.pd, &ah);
	CHECK(v->ah);
}

static void connect_all(struct traffic *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		for (uint32_t p = 0; p < t->n; p++) {
			struct rig_path path = {.dest_qpn = t->vm[p].c[i].qp->qp_num, .timeout = 0, .retry_cnt = 7,
						.rnr_retry = 7, .min_rnr_timer = 1};
			rig_rtr(t->vm[i].c[p].qp, &path);
			rig_rts(t->vm[i].c[p].qp, &path);
		}
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void message(struct vm *v, struct tx *x, uint32_t seq)
{
	x->len = rig_below(&v->rng, 8) ? HDR + rig_below(&v->rng, 300) : HDR + rig_below(&v->rng, MSG - HDR + 1);
	x->seed = rig_rand(&v->rng);
	struct header h = {.seq = seq, .len = x->len, .seed = x->seed};
	memcpy(x->buf, &h, sizeof(h));
	rig_fill(x->buf + HDR, x->len - HDR, x->seed);
}

static int gather(struct vm *v, struct tx *x, struct ibv_sge *sge)
{
	uint32_t cut = rig_below(&v->rng, 3) ? x->len : rig_below(&v->rng, x->len);
	uint32_t key = mr_of(v, x->buf)->lkey;

	sge[0] = (struct ibv_sge){(uintptr_t)x->buf, cut, key};
	if (cut == x->len)
		return 1;
	sge[1] = (struct ibv_sge){(uintptr_t)x->buf + cut, x->len - cut, key};
	return 2;
}

static void remote(struct vm *to, const void *p, uint64_t *addr, uint32_t *rkey)
{
	*addr = (uintptr_t)p;
	*rkey = mr_of(to, p)->rkey;
}

/* One request to a peer; false: it must wait for something. */
static bool send_one(struct vm *v, uint32_t peer)
{
	struct vm *to = &v->t->vm[peer];
	struct conn *c = &v->c[peer];

	if (c->tx_n == TX)
		return false;
	struct tx *x = &c->tx[(c->tx_head + c->tx_n) % TX];
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = {.wr_id = (uint64_t)peer << 32 | ((c->tx_head + c->tx_n) % TX), .sg_list = sge, .num_sge = 1},
			   *bad;
	uint32_t lane = rig_below(&v->rng, 2);

	x->what = (enum what)rig_below(&v->rng, W_UD);
	switch (x->what) {
	case W_SEND:
	case W_SEND_IMM:
		message(v, x, c->sent);
		wr.opcode = x->what == W_SEND ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
		wr.imm_data = c->sent;
		wr.num_sge = gather(v, x, sge);
		break;
	case W_WRITE_IMM:
		if (c->imms - atomic_load(&c->acked) >= WIN)
			return false;
		message(v, x, c->sent);
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = c->sent;
		wr.num_sge = gather(v, x, sge);
		remote(to, window(to, v->id, 1 + c->imms % WIN), &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey);
		break;
	case W_WRITE:
		if (c->write_pending)
			return false;
		message(v, x, 0);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.num_sge = gather(v, x, sge);
		remote(to, window(to, v->id, 0), &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey);
		break;
	case W_READ:
		if (!c->write_pending)
			return false;
		x->len = c->write_len;
		x->seed = c->write_seed;
		memset(x->buf, 0, x->len);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.num_sge = gather(v, x, sge);
		remote(to, window(to, v->id, 0), &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey);
		break;
	case W_FAA:
	case W_CAS:
		x->len = 8;
		sge[0] = (struct ibv_sge){(uintptr_t)x->buf, 8, mr_of(v, x->buf)->lkey};
		wr.opcode = x->what == W_FAA ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
		remote(to, to->cell[lane] + (x->what == W_CAS ? 8 : 0), &wr.wr.atomic.remote_addr, &wr.wr.atomic.rkey);
		/* a guess, by what was there before */
		wr.wr.atomic.compare_add = x->what == W_FAA ? 1 : x->compare;
		wr.wr.atomic.swap = x->compare + 1;
		break;
	default:			/* W_BIG: from either lane to either lane */
		if (v->big_busy || rig_below(&v->rng, 8))
			return false;
		x->len = BIG;
		x->seed = peer;
		v->big_to = v->big_dst[rig_below(&v->rng, 2)];
		v->big_busy = true;
		sge[0] = (struct ibv_sge){(uintptr_t)v->big_to, BIG, mr_of(v, v->big_to)->lkey};
		wr.opcode = IBV_WR_RDMA_READ;
		remote(to, to->big[lane], &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey);
		break;
	}
	x->signaled = x->what >= W_READ || /* their results are looked at */
		      rig_below(&v->rng, 3) || c->tx_n > TX / 2;
	if (x->signaled)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (x->what <= W_WRITE && x->len <= 256 && rig_below(&v->rng, 2))
		wr.send_flags |= IBV_SEND_INLINE;
	if (rig_below(&v->rng, 4) == 0)
		wr.send_flags |= IBV_SEND_SOLICITED;
	int err = shca_post_send(c->qp, &wr, &bad);
	if (err == ENOMEM)
		return false;		/* the queue is full of unsignaled ones that have not run */
	if (err)
		FAIL("post_send to %u, kind %d: %s", peer, x->what, strerror(err));
	x->busy = true;
	c->tx_n++;
	if (x->what <= W_WRITE_IMM)
		c->sent++;
	if (x->what == W_WRITE_IMM)
		c->imms++;
	if (x->what == W_WRITE) {
		c->write_pending = true;
		c->write_len = x->len;
		c->write_seed = x->seed;
	}
	return true;
}

static void send_datagram(struct vm *v, uint32_t peer)
{
	struct vm *to = &v->t->vm[peer];
	struct header h = {.seq = v->ud_seq[peer], .len = HDR + rig_below(&v->rng, 2000), .seed = rig_rand(&v->rng)};
	struct ibv_sge sge = {(uintptr_t)v->udtx, h.len, v->amr->lkey};
	struct ibv_send_wr wr = {.wr_id = UINT64_MAX, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = v->id, .send_flags = IBV_SEND_SIGNALED}, *bad;

	if (v->ud_outstanding)
		return;
	memcpy(v->udtx, &h, HDR);
	rig_fill(v->udtx + HDR, h.len - HDR, h.seed);
	wr.wr.ud.ah = v->ah;
	wr.wr.ud.remote_qpn = to->ud->qp_num;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	if (shca_post_send(v->ud, &wr, &bad))
		FAIL("datagram");
	v->ud_seq[peer]++;
	v->ud_outstanding++;
}

/* ---- completions ------------------------------------------------------------------------------------------------- */

static void retire(struct vm *v, struct conn *c, struct tx *x)
{
	uint64_t old;

	switch (x->what) {
	case W_READ: {
		struct header h;
		memcpy(&h, x->buf, sizeof(h));
		if (h.len != x->len || h.seed != x->seed || rig_check(x->buf + HDR, x->len - HDR, x->seed) >= 0)
			FAIL("member %u: read of %u bytes: header says %u, first wrong byte %ld", v->id, x->len, h.len,
			     rig_check(x->buf + HDR, x->len - HDR, x->seed));
		c->write_pending = false;
		break;
	}
	case W_FAA:
		atomic_fetch_add(&v->t->adds, 1);
		break;
	case W_CAS:
		memcpy(&old, x->buf, 8);
		if (old == x->compare)
			atomic_fetch_add(&v->t->swaps, 1);
		x->compare = old == x->compare ? old + 1 : old;
		break;
	case W_BIG:
		if (x->len && rig_check(v->big_to, BIG, x->seed) >= 0)
			FAIL("member %u: large read, first wrong byte %ld", v->id, rig_check(v->big_to, BIG, x->seed));
		if (x->len)
			v->big_busy = false;
		break;
	default:
		break;
	}
	x->busy = false;
}

static void sent(struct vm *v, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		FAIL("member %u: send completion %s, opcode %d", v->id, ibv_wc_status_str(wc->status), wc->opcode);
	if (wc->wr_id == UINT64_MAX) {
		v->ud_outstanding--;
		return;
	}
	struct conn *c = &v->c[wc->wr_id >> 32];
	uint32_t slot = (uint32_t)wc->wr_id;
	if (c->qp->qp_num != wc->qp_num || slot >= TX || !c->tx[slot].busy || !c->tx[slot].signaled)
		FAIL("member %u: completion of request %u of queue %#x, which is not outstanding", v->id, slot, wc->qp_num);
	/* in order: whatever came before is done too, and was not signaled */
	for (;;) {
		struct tx *x = &c->tx[c->tx_head];
		bool this = c->tx_head == slot;
		if (!this && x->signaled)
			FAIL("member %u: completion of request %u before that of %u", v->id, slot, c->tx_head);
		retire(v, c, x);
		c->tx_head = (c->tx_head + 1) % TX;
		c->tx_n--;
		if (this)
			return;
	}
}

static void check_message(struct vm *v, const char *buf, uint32_t len, uint32_t seq, const char *how)
{
	struct header h;

	memcpy(&h, buf, sizeof(h));
	long bad = h.len >= HDR && h.len <= MSG ? rig_check(buf + HDR, h.len - HDR, h.seed) : 0;
	if (h.seq != seq || h.len != len || bad >= 0)
		FAIL("member %u: %s: message %u of %u bytes instead of %u of %u, first wrong byte %ld", v->id, how, h.seq,
		     h.len, seq, len, bad);
}

static void received(struct vm *v, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		FAIL("member %u: receive completion %s", v->id, ibv_wc_status_str(wc->status));
	v->received++;
	if (wc->qp_num == v->ud->qp_num) {
		uint32_t from = wc->imm_data, i = (uint32_t)wc->wr_id;
		struct header h;
		memcpy(&h, v->udrx[i] + 40, sizeof(h));
		if (from >= v->t->n || wc->src_qp != v->t->vm[from].ud->qp_num || h.seq + 1 <= v->ud_last[from])
			FAIL("member %u: datagram %u of %u behind %u", v->id, h.seq, from, v->ud_last[from]);
		check_message(v, v->udrx[i] + 40, wc->byte_len - 40, h.seq, "datagram");
		v->ud_last[from] = h.seq + 1;
		struct ibv_sge sge = {(uintptr_t)v->udrx[i], MSG, mr_of(v, v->udrx[i])->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
		if (shca_post_recv(v->ud, &wr, &bad))
			FAIL("post_recv of a datagram");
		return;
	}
	uint32_t p;
	for (p = 0; p < v->t->n && v->c[p].qp->qp_num != wc->qp_num; p++)
		;
	if (p == v->t->n)
		FAIL("member %u: completion of queue %#x", v->id, wc->qp_num);
	struct conn *c = &v->c[p];
	uint32_t i = (uint32_t)wc->wr_id, seq = c->got++;
	char *buf = c->srq ? v->srx[i] : c->rx[i];
	bool *is_free = c->srq ? &v->srx_free[i] : &c->rx_free[i];
	if (*is_free)
		FAIL("member %u: receive %u completed twice", v->id, i);
	*is_free = true;
	v->srx_posted -= c->srq;
	if ((wc->wc_flags & IBV_WC_WITH_IMM) && wc->imm_data != seq)
		FAIL("member %u: immediate %u instead of %u", v->id, wc->imm_data, seq);
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		check_message(v, window(v, p, 1 + c->got_imms % WIN), wc->byte_len, seq, "write with immediate");
		c->got_imms++;
		atomic_fetch_add(&v->t->vm[p].c[v->id].acked, 1);
	} else {
		check_message(v, buf, wc->byte_len, seq, c->srq ? "shared receive" : "receive");
	}
	atomic_fetch_add(&v->t->messages, 1);
}

static int poll_all(struct vm *v)
{
	struct ibv_wc wc[8];
	int n, got = 0;

	while ((n = shca_poll_cq(v->scq, 8, wc)) > 0)
		for (int i = 0; i < n; i++, got++)
			sent(v, &wc[i]);
	if (n < 0)
		FAIL("poll of the send queue: %d", n);
	while ((n = shca_poll_cq(v->rcq, 1 + (int)rig_below(&v->rng, 8), wc)) > 0)
		for (int i = 0; i < n; i++, got++)
			received(v, &wc[i]);
	if (n < 0)
		FAIL("poll of the receive queue: %d", n);
	return got;
}

static void post_receives(struct vm *v)
{
	struct ibv_recv_wr *bad;

	for (uint32_t p = 0; p < v->t->n; p++) {
		for (uint32_t i = 0; !v->c[p].srq && i < RX; i++) {
			char *buf = v->c[p].rx[i];
			if (!v->c[p].rx_free[i])
				continue;
			struct ibv_sge sge[2] = {{(uintptr_t)buf, 100, mr_of(v, buf)->lkey},
						 {(uintptr_t)buf + 100, MSG - 100, mr_of(v, buf)->lkey}};
			struct ibv_recv_wr wr = {.wr_id = i, .sg_list = sge, .num_sge = 2};
			v->c[p].rx_free[i] = false;
			int err = shca_post_recv(v->c[p].qp, &wr, &bad);
			if (err)
				FAIL("post_recv: %s", strerror(err));
		}
	}
	for (uint32_t i = 0; i < SRX; i++) {
		if (!v->srx_free[i])
			continue;
		struct ibv_sge sge = {(uintptr_t)v->srx[i], MSG, mr_of(v, v->srx[i])->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};
		int err = shca_post_srq_recv(v->srq, &wr, &bad);
		if (err == ENOMEM && v->srx_posted >= v->srx_size)
			return;
		if (err)
			FAIL("post_srq_recv, %u of %u posted: %s", v->srx_posted, v->srx_size, strerror(err));
		v->srx_free[i] = false;
		v->srx_posted++;
	}
}

/* Another size for the shared queue, while peers' messages take its receives. Receives whose message has come do not count, but
 * are counted here until they are polled. */
static void resize_srq(struct vm *v)
{
	struct ibv_srq_attr a = {.max_wr = 1 + rig_below(&v->rng, 3 * SRX)};
	int err = shca_modify_srq(v->srq, &a, IBV_SRQ_MAX_WR);

	if (err == EINVAL && a.max_wr < v->srx_posted)
		return;
	if (err)
		FAIL("modify_srq: from %u to %u, %u posted: %s", v->srx_size, a.max_wr, v->srx_posted, strerror(err));
	v->srx_size = a.max_wr;
	v->srq_resized++;
}

/* Nothing to do: sleeps until a completion comes. The time limit is there to find a wake-up that was lost. */
static void rest(struct vm *v)
{
	struct pollfd p = {.events = POLLIN};
	struct ibv_cq *cq;
	void *ctx;

	if (!v->channel) {
		sched_yield();
		return;
	}
	shca_req_notify_cq(v->scq, 0);
	shca_req_notify_cq(v->rcq, 0);
	if (poll_all(v))
		return;
	p.fd = v->channel->fd;
	/* everybody may be out of work for a while: that is no fault */
	int got = poll(&p, 1, 20);
	if (got <= 0) {
		if (poll_all(v)) {
			got = poll(&p, 1, 2000);
			if (got <= 0)
				FAIL("member %u: completions came, their wake-up did not", v->id);
		} else {
			return;
		}
	}
	if (shca_get_cq_event(v->channel, &cq, &ctx))
		FAIL("get_cq_event");
	shca_ack_cq_events(cq, 1);
}

static bool all_here(struct vm *v)
{
	for (uint32_t p = 0; p < v->t->n; p++) {
		const struct vm *from = &v->t->vm[p];
		if (v->c[p].tx_n || !atomic_load(&from->stopped) || from->c[v->id].sent != v->c[p].got)
			return false;
	}
	return !v->ud_outstanding;
}

/* A last signaled request, so that the unsignaled ones before it are known to be done. */
static void finish_queue(struct vm *v, uint32_t peer)
{
	struct conn *c = &v->c[peer];
	bool open = false;

	for (uint32_t i = 0; i < c->tx_n; i++)
		open = !c->tx[(c->tx_head + i) % TX].signaled;
	if (!open || c->tx_n == TX)
		return;
	uint32_t slot = (c->tx_head + c->tx_n) % TX;
	struct tx *x = &c->tx[slot];
	struct ibv_send_wr wr = {.wr_id = (uint64_t)peer << 32 | slot, .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED}, *bad;
	int err = shca_post_send(c->qp, &wr, &bad);
	if (err == ENOMEM)
		return;
	if (err)
		FAIL("last request: %s", strerror(err));
	x->what = W_BIG;
	x->len = 0;
	x->busy = x->signaled = true;
	c->tx_n++;
}

static void *member(void *arg)
{
	struct vm *v = arg;
	struct traffic *t = v->t;

	post_receives(v);
	while (vproc_now() < t->until) {
		int did = 0;
		for (uint32_t k = rig_below(&v->rng, 6); k; k--)
			did += send_one(v, rig_below(&v->rng, t->n));
		if (!rig_below(&v->rng, 16))
			send_datagram(v, rig_below(&v->rng, t->n));
		if (!rig_below(&v->rng, 50))
			resize_srq(v);
		did += poll_all(v);
		/* late on purpose */
		if (!rig_below(&v->rng, 5))
			post_receives(v);
		if (!did)
			sched_yield();
	}
	for (uint32_t p = 0; p < t->n; p++)
		while (v->c[p].write_pending || v->c[p].tx_n) {
			finish_queue(v, p);
			if (v->c[p].write_pending && !v->c[p].tx_n)
				v->c[p].write_pending = false;
			if (!poll_all(v))
				rest(v);
			post_receives(v);
		}
	atomic_store(&v->stopped, true);
	while (!all_here(v)) {
		if (!poll_all(v))
			rest(v);
		post_receives(v);
	}
	atomic_fetch_add(&t->done, 1);
	/* the others may still need what this one's polling does: nothing. It is done. */
	return NULL;
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static void tear_down(struct vm *v)
{
	for (uint32_t p = 0; p < v->t->n; p++)
		CHECK(!shca_destroy_qp(v->c[p].qp));
	CHECK(!shca_destroy_qp(v->ud));
	CHECK(!shca_destroy_ah(v->ah));
	CHECK(!shca_destroy_srq(v->srq));
	CHECK(!shca_destroy_cq(v->scq));
	CHECK(!shca_destroy_cq(v->rcq));
	if (v->channel)
		CHECK(!shca_destroy_comp_channel(v->channel));
	CHECK(!shca_dereg_mr(v->amr));
	CHECK(!shca_dereg_mr(v->pmr));
	CHECK(!shca_buf_free(v->r.ctx, v->arena));
	free(v->priv);
	free(v->c);
	free(v->ud_last);
	free(v->ud_seq);
}

static void window_make(struct vm *v)
{
	size_t bytes = (size_t)v->t->n * (WIN + 1) * MSG;
	v->win = carve(v, v->id & 2, bytes);
}

void vproc_traffic(struct rig *rigs, uint32_t n, uint64_t seed, double seconds)
{
	struct traffic t = {.n = n};

	t.vm = calloc(n, sizeof(*t.vm));
	CHECK(t.vm);
	for (uint32_t i = 0; i < n; i++) {
		struct vm *v = &t.vm[i];
		v->r = rigs[i];
		v->t = &t;
		v->id = i;
		v->rng = seed * 0x9e3779b97f4a7c15ull + i + 1;
		v->c = calloc(n, sizeof(*v->c));
		v->ud_last = calloc(n, sizeof(*v->ud_last));
		v->ud_seq = calloc(n, sizeof(*v->ud_seq));
		CHECK(v->c && v->ud_last && v->ud_seq);
		memory(v);
		window_make(v);
		queues(v);
		for (uint32_t k = 0; k < UDX; k++) {
			struct ibv_sge sge = {(uintptr_t)v->udrx[k], MSG, mr_of(v, v->udrx[k])->lkey};
			struct ibv_recv_wr wr = {.wr_id = k, .sg_list = &sge, .num_sge = 1}, *bad;
			CHECK(!shca_post_recv(v->ud, &wr, &bad));
		}
	}
	connect_all(&t);
	t.until = vproc_now() + (uint64_t)(seconds * 1e9);
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_create(&t.vm[i].thread, NULL, member, &t.vm[i]));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_join(t.vm[i].thread, NULL));
	uint64_t adds = 0, swaps = 0, foreign = 0, resized = 0;
	for (uint32_t i = 0; i < n; i++) {
		resized += t.vm[i].srq_resized;
		for (int lane = 0; lane < 2; lane++) {
			adds += t.vm[i].cell[lane][0];
			swaps += t.vm[i].cell[lane][8];
		}
		foreign += atomic_load(&t.vm[i].r.m->proc->foreign_wqes);
	}
	if (adds != atomic_load(&t.adds) || swaps != atomic_load(&t.swaps))
		FAIL("atomics: %lu adds in memory, %lu completed; %lu swaps in memory, %lu won", (unsigned long)adds,
		     (unsigned long)atomic_load(&t.adds), (unsigned long)swaps, (unsigned long)atomic_load(&t.swaps));
	printf("traffic: %u members, %lu messages, %lu adds, %lu swaps, %lu requests run for others, %lu sizes of SRQs\n", n,
	       (unsigned long)atomic_load(&t.messages), (unsigned long)adds, (unsigned long)swaps, (unsigned long)foreign,
	       (unsigned long)resized);
	for (uint32_t i = 0; i < n; i++)
		tear_down(&t.vm[i]);
	free(t.vm);
}
