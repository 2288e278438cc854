/* SPDX-License-Identifier: BSD-3-Clause */
/* The roles of the processes of failpoints (failpoints.c), and the state that each must find after the death. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "failpoints.h"

/* T as the engine has it. */
enum { STATE_TEXT = 160 };
static const char *state_of_t(const struct actor *a, char text[STATE_TEXT])
{
	const struct shca_qp *t = shca_number_get(a->r.m, st->qpn[L_T][0], SHCA_KIND_QP);

	if (!t)
		return "there is no T";
	snprintf(text, STATE_TEXT, "T: lock %#lx, next request %lu of %lu, due %lu", (unsigned long)atomic_load(&t->lock),
		 (unsigned long)atomic_load(&t->head), (unsigned long)atomic_load(&t->posted),
		 (unsigned long)atomic_load(&t->due));
	return text;
}

/* Waits until the reaping of the dead process in a role is complete. */
static void want_reaped(struct actor *a, int role)
{
	struct shca_member *m = a->r.m;
	uint32_t slot = st->slot[role];

	UNTIL((atomic_load(&m->procs[slot].state) & 255) == SHCA_PROC_FREE, "the dead process's slot is not free: state %#x",
	      atomic_load(&m->procs[slot].state));
	if (rig_chunks(m, slot))
		FAIL("%u chunks of the dead process are left", rig_chunks(m, slot));
	for (unsigned i = 0; i < SHCA_ATOMIC_LOCKS; i++) {
		uint32_t holder = atomic_load(&m->hdr->atomic_locks[i]);
		uint32_t owner = holder ? atomic_load(&m->threads[holder - 1].owner) : 0;
		/* a second victim is checked after its reaping */
		if (holder && (!owner || owner == slot + 1))
			FAIL("lock %u of private atomics is held by thread %u", i, holder - 1);
	}
	for (uint32_t t = 0; t < atomic_load(&m->hdr->thread_high); t++)
		if (atomic_load(&m->threads[t].owner) == slot + 1)
			FAIL("thread slot %u of the dead process is left", t);
}

/* The peer of this link died: an event is raised, posted requests fail, and all receives complete, each once. */
static void want_peer_dead(struct actor *a, int l, bool failed_before)
{
	struct ibv_async_event ev;

	int fl = fcntl(a->r.ctx->async_fd, F_GETFL);
	fcntl(a->r.ctx->async_fd, F_SETFL, fl | O_NONBLOCK);
	for (uint64_t end = now() + WITHIN; !a->e[l].told; nap()) {
		while (!shca_get_async_event(a->r.ctx, &ev)) {
			/* those of other links are asked for later */
			for (int k = 0; k < LINKS; k++)
				if (in(a->role, k) && a->e[k].qp == ev.element.qp &&
				    (ev.event_type == IBV_EVENT_QP_FATAL || ev.event_type == IBV_EVENT_QP_ACCESS_ERR ||
				     ev.event_type == IBV_EVENT_QP_REQ_ERR))
					a->e[k].told = true;
			shca_ack_async_event(&ev);
		}
		if (now() > end)
			FAIL("role %d: no event for link %d", a->role, l);
	}
	send_msg(a, l, 50);
	want_send(a, l, IBV_WC_RETRY_EXC_ERR, failed_before ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
}

/* T's receives at B after A's death: those of arrived messages, in order and whole, then flushed ones. */
static void check_owner_died(struct actor *b)
{
	struct end *e = &b->e[L_T];
	int ok = 0, i = 0;

	if (st->req == R_SEND_SRQ)
		return;			/* receives stay in the shared queue: the user of that queue checks that none is lost */
	want_recvs(b, L_T, RECVS);
	if (st->req == R_SEND_LONG && e->rx_wc[0].status == IBV_WC_LOC_LEN_ERR)
		i = 1;
	for (; i < RECVS && e->rx_wc[i].status == IBV_WC_SUCCESS; i++)
		ok++;
	for (int k = i; k < RECVS; k++)
		if (e->rx_wc[k].status != IBV_WC_WR_FLUSH_ERR)
			FAIL("receive %d of T: %s behind flushed ones", k, ibv_wc_status_str(e->rx_wc[k].status));
	if (ok && (M_TAKES & 1u << st->req)) {
		const struct ibv_wc *wc = &e->rx_wc[0];
		const char *data = st->req == R_WRITE_IMM ? b->mem[op_lane()] + O_DST : rx_buffer(b, L_T, (int)wc->wr_id);
		if (wc->byte_len != LEN || rig_check(data, LEN, 100 + A) >= 0)
			FAIL("T's message arrived damaged: %u bytes, first wrong byte %ld", wc->byte_len,
			     rig_check(data, LEN, 100 + A));
	}
	no_more_recvs(b, L_T, RECVS);
}

static uint64_t cell_after(void)
{
	switch (st->req) {
	case R_WFAA:
	case R_MFAA: return 0x500000001ull;	/* no carry leaves the lower 32 bits */
	case R_MCAS: return (CELL0 & ~0xffull) | ((CELL0 + 3) & 0xff);
	default: return CELL0 + 3;
	}
}

/* Fails unless the cell has the value after one execution of the atomic; perhaps: or after none. */
static void check_cell(struct actor *b, bool perhaps)
{
	uint64_t v = *(volatile uint64_t *)(b->mem[op_lane()] + O_CELL);

	if (!(M_ATOMICS & 1u << st->req))
		return;
	if (v != cell_after() && !(perhaps && v == CELL0))
		FAIL("the atomic's cell is %lu", (unsigned long)v);
	/* the rest of a wide one: all or nothing */
	for (unsigned i = 1; st->req == R_WFAA && i < WIDE / 8; i++) {
		uint64_t w = ((volatile uint64_t *)(b->mem[op_lane()] + O_CELL))[i];
		if (w != (v == CELL0 ? 0 : 3))
			FAIL("the wide atomic is torn: its cell is %lu, word %u %lu", (unsigned long)v, i, (unsigned long)w);
	}
}

/* A sleep until T's message comes must end, whichever process delivered the message, or died while delivering. */
static void want_wakeup(struct actor *b)
{
	struct pollfd p = {.fd = b->channel->fd, .events = POLLIN};
	struct shca_cq *sh = shca_user_cq_of(b->e[L_T].rcq)->sh;
	char text[STATE_TEXT];
	struct ibv_cq *cq;
	void *ctx;

	if (poll(&p, 1, 10000) != 1 || shca_get_cq_event(b->channel, &cq, &ctx) || cq != b->e[L_T].rcq)
		FAIL("no completion event for T's message: %lu completions, notify %#lx; %s",
		     (unsigned long)shca_cq_count(shca_thread_get(b->r.m), sh), (unsigned long)atomic_load(&sh->notify),
		     state_of_t(b, text));
	shca_ack_cq_events(cq, 1);
}

/* B, while A is stopped: X's work on T is finished. */
static void check_third_at_b(struct actor *b)
{
	const struct point *p = &st->p;
	int n = 0;

	if (M_OWN & 1u << st->req) {
		no_more_recvs(b, L_T, 0);
		return;
	}
	if (!p->ambiguous)
		want_wakeup(b);

	if (p->ambiguous) {
		check_cell(b, true);
		no_more_recvs(b, L_T, 0);
		return;
	}
	if (M_BAD & 1u << st->req) {
		/* B's end failed, too: the receives are back */
		want_recvs(b, L_T, RECVS);
		for (int i = 0; i < RECVS; i++) {
			int want = st->req == R_SEND_LONG && i == 0 ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR;
			if (b->e[L_T].rx_status[i] != want)
				FAIL("receive %d of T: %s", i, ibv_wc_status_str(b->e[L_T].rx_status[i]));
		}
		return;
	}
	if ((M_TAKES & 1u << st->req) || st->req == R_SEND_RNR || st->req == R_ANY) {
		want_recvs(b, L_T, 1);
		const struct ibv_wc *wc = &b->e[L_T].rx_wc[0];
		const char *data = st->req == R_WRITE_IMM ? b->mem[op_lane()] + O_DST : rx_buffer(b, L_T, (int)wc->wr_id);
		if (wc->status != IBV_WC_SUCCESS || wc->byte_len != LEN || rig_check(data, LEN, 100 + A) >= 0)
			FAIL("T's message: %s, %u bytes, first wrong byte %ld", ibv_wc_status_str(wc->status), wc->byte_len,
			     rig_check(data, LEN, 100 + A));
		n = 1;
	}
	want_recvs(b, L_T, n + 1);
	check_msg(b, L_T, n, A, 9);
	/* in the order in which they were posted: else a receive was lost with the process that had taken the receive */
	for (int i = 0; i <= n; i++)
		if (b->e[L_T].rx_wc[i].wr_id != (uint64_t)i)
			FAIL("T's message %d took receive %lu", i, (unsigned long)b->e[L_T].rx_wc[i].wr_id);
	if (st->req == R_WRITE && rig_check(b->mem[op_lane()] + O_DST, LEN, 100 + A) >= 0)
		FAIL("T's write: first wrong byte %ld", rig_check(b->mem[op_lane()] + O_DST, LEN, 100 + A));
	check_cell(b, false);
	if (st->req == R_SEND_EN) {
		want_recvs(b, L_M, 1);
		check_msg(b, L_M, 0, A, 33);
		no_more_recvs(b, L_M, 1);
	}
	if (st->req == R_RECV_EN)
		want_send(b, L_R, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	no_more_recvs(b, L_T, n + 1);
}

/* Ten messages each way, one at a time. */
static void talk(struct actor *a, int l, bool first)
{
	struct end *e = &a->e[l];
	int other = ends[l][0] == a->role ? ends[l][1] : ends[l][0];

	for (uint64_t k = 0; k < 10; k++) {
		if (first)
			send_msg(a, l, 200 + k);
		want_recvs(a, l, 1);
		check_msg(a, l, 0, other, 200 + k);
		int i = (int)e->rx_wc[0].wr_id;
		e->rx_done[i] = false;
		e->rx_n = 0;
		post_recv(a, l, i, ROOM);
		if (!first)
			send_msg(a, l, 200 + k);
		want_send(a, l, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	}
}

/* Fails if the SRQ has lost a receive: as many messages arrive as receives are not used on T. */
static void check_srq(struct actor *b, int l)
{
	struct end *e = &b->e[l];

	if (!b->srq)
		return;
	while (poll_recv(b, L_T))
		;
	for (int i = 0; i < b->e[L_T].rx_n; i++)
		if (b->e[L_T].rx_wc[i].status != IBV_WC_SUCCESS)
			FAIL("T: shared receive: %s", ibv_wc_status_str(b->e[L_T].rx_wc[i].status));
	int left = RECVS - b->e[L_T].rx_n;
	atomic_store(&st->fill, (uint32_t)left + 1);
	want_recvs(b, l, left);
	for (int i = 0; i < left; i++)
		check_msg(b, l, i, ends[l][0] == B ? ends[l][1] : ends[l][0], 300 + (uint64_t)i);
	e->rx_n = b->e[L_T].rx_n = 0;
	memset(e->rx_done, 0, sizeof(e->rx_done));
	post_recvs(b, l);
}

static void fill_srq(struct actor *a, int l)
{
	if (st->req != R_SEND_SRQ)
		return;
	UNTIL(atomic_load(&st->fill), "B does not say how many receives are left");
	uint32_t left = atomic_load(&st->fill) - 1;
	for (uint32_t i = 0; i < left; i++) {
		send_msg(a, l, 300 + i);
		want_send(a, l, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	}
}

static void leave(struct actor *a)
{
	for (int l = 0; l < LINKS; l++)
		if (in(a->role, l))
			CHECK(!shca_destroy_qp(a->e[l].qp));
	if (a->srq)
		CHECK(!shca_destroy_srq(a->srq));
	for (int l = 0; l < LINKS; l++) {
		if (!in(a->role, l))
			continue;
		CHECK(!shca_destroy_cq(a->e[l].scq));
		if (a->e[l].rcq != a->wcq)
			CHECK(!shca_destroy_cq(a->e[l].rcq));
	}
	if (a->wcq)
		CHECK(!shca_destroy_cq(a->wcq));
	if (a->channel)
		CHECK(!shca_destroy_comp_channel(a->channel));
	for (int i = 0; i < 2; i++)
		CHECK(!shca_dereg_mr(a->mr[i]));
	CHECK(!shca_buf_free(a->r.ctx, a->mem[0]));
	free(a->mem[1]);
	rig_leave(&a->r);
}

static void want_t(struct actor *a, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	UNTIL(shca_poll_cq(a->e[L_T].scq, 1, &wc) == 1, "T: request %lu has no completion", (unsigned long)id);
	if (wc.wr_id != id || wc.status != status)
		FAIL("T: completion of request %lu: %s, instead of request %lu: %s", (unsigned long)wc.wr_id,
		     ibv_wc_status_str(wc.status), (unsigned long)id, ibv_wc_status_str(status));
}

/* A, continued after X's death. */
static void check_third_at_a(struct actor *a)
{
	bool bad = (M_BAD | M_OWN) & 1u << st->req;
	struct ibv_wc wc;
	int l = lane();

	if (st->p.ambiguous) {
		want_t(a, 1, IBV_WC_FATAL_ERR);
		want_t(a, 2, IBV_WC_WR_FLUSH_ERR);
	} else if (bad) {
		want_t(a, 1, st->req == R_SEND_LONG ? IBV_WC_REM_INV_REQ_ERR :
			     st->req == R_SEND_LKEY ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
		want_t(a, 2, IBV_WC_WR_FLUSH_ERR);
	} else {
		want_t(a, 1, IBV_WC_SUCCESS);
		want_t(a, 2, IBV_WC_SUCCESS);
	}
	if (st->p.ambiguous || bad) {
		want_recvs(a, L_T, RECVS);
		for (int i = 0; i < RECVS; i++)
			if (a->e[L_T].rx_status[i] != IBV_WC_WR_FLUSH_ERR)
				FAIL("T's own receive %d: %s", i, ibv_wc_status_str(a->e[L_T].rx_status[i]));
		no_more_recvs(a, L_T, RECVS);
	}
	if (!st->p.ambiguous && st->req == R_READ && rig_check(a->mem[l] + O_DST, LEN, 100 + B) >= 0)
		FAIL("T's read: first wrong byte %ld", rig_check(a->mem[l] + O_DST, LEN, 100 + B));
	if (!st->p.ambiguous && st->req == R_READ_CALC && *(uint64_t *)(a->mem[l] + O_DST) != htobe64(12))
		FAIL("T's read made %#lx", (unsigned long)*(uint64_t *)(a->mem[l] + O_DST));
	if (!st->p.ambiguous && (M_ATOMICS & 1u << st->req) && *(uint64_t *)(a->mem[l] + O_DST) != CELL0)
		FAIL("T's atomic returned %lu", (unsigned long)*(uint64_t *)(a->mem[l] + O_DST));
	if (st->req == R_SEND_EN)
		want_send(a, L_M, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	if (st->req == R_RECV_EN) {
		want_recvs(a, L_R, 1);
		check_msg(a, L_R, 0, B, 44);
		no_more_recvs(a, L_R, 1);
	}
	if (shca_poll_cq(a->e[L_T].scq, 1, &wc) > 0)
		FAIL("T: request %lu completed again: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
}

#define BIG (4u << 20)

static struct ibv_mr *big_region(struct actor *a)
{
	void *p = aligned_alloc(4096, BIG);

	CHECK(p);
	memset(p, a->role, BIG);
	struct ibv_mr *mr = shca_reg_mr(a->r.pd, p, BIG, (uintptr_t)p,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	return mr;
}

/* A writes large blocks to B, or reads them, until B dies while copying a share. */
void help_a(void)
{
	struct actor a;
	struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

	enter_stage(&a, A);
	struct ibv_mr *mr = big_region(&a);
	post_recvs(&a, L_XA);
	barrier(2);
	struct ibv_sge sge = {(uintptr_t)mr->addr, BIG, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
				 .opcode = st->req == R_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE}, *bad;
	wr.wr.rdma.remote_addr = st->big;
	wr.wr.rdma.rkey = st->big_rkey;
	for (int i = 0; wc.status == IBV_WC_SUCCESS; i++) {
		CHECK(!shca_post_send(a.e[L_T].qp, &wr, &bad));
		UNTIL(shca_poll_cq(a.e[L_T].scq, 1, &wc) == 1, "the large request does not complete");
		if (i > 5000)
			FAIL("B does not help");
	}
	if (wc.status != IBV_WC_RETRY_EXC_ERR)
		FAIL("large request: %s", ibv_wc_status_str(wc.status));
	/* the completion reports the death; the event is for queues that only receive */
	want_reaped(&a, B);
	send_msg(&a, L_T, 50);
	want_send(&a, L_T, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR);
	barrier(5);
	talk(&a, L_XA, true);
	barrier(6);
	CHECK(!shca_dereg_mr(mr));
	leave(&a);
}

void help_b(void)
{
	struct actor b;
	struct ibv_wc wc;

	enter_stage(&b, B);
	struct ibv_mr *mr = big_region(&b);
	st->big = (uintptr_t)mr->addr;
	st->big_rkey = mr->rkey;
	arm(0);
	barrier(2);
	for (uint64_t end = now() + WITHIN; now() < end;)
		shca_poll_cq(b.e[L_T].rcq, 1, &wc);
	_exit(3);
}

void help_x(void)
{
	struct actor x;

	enter_stage(&x, X);
	post_recvs(&x, L_XA);
	barrier(2);
	UNTIL(atomic_load(&st->dead), "nobody died");
	want_peer_dead(&x, L_XB, false);
	barrier(5);
	talk(&x, L_XA, false);
	barrier(6);
	leave(&x);
}

/* The victim has posted. Where another thread of the process had the queue locked at that moment, that thread runs the request,
 * and dies. */
static _Noreturn void await_death(struct actor *a)
{
	char text[STATE_TEXT];

	UNTIL(false, "role %d lives on; %s", a->role, state_of_t(a, text));
	_exit(3);
}

void role_a(void)
{
	struct actor a;

	enter_stage(&a, A);
	post_recvs(&a, L_XA);
	post_recvs(&a, L_AB);
	post_recvs(&a, L_T);
	post_managed(&a);
	barrier(2);
	if (!third()) {
		/* the completion that A's WAIT waits for is there already, or never comes */
		if (st->req == R_WAIT && !waits_in_vain())
			UNTIL(shca_cq_count(shca_thread_get(a.r.m), shca_user_cq_of(a.wcq)->sh) > 0, "B's message is not here");
		arm(0);
		post_program(&a);
		await_death(&a);
	}
	post_program(&a);
	barrier(3);
	/* here SIGSTOP comes; not in a library call */
	while (!atomic_load(&st->finish))
		nap();
	check_third_at_a(&a);
	want_peer_dead(&a, L_XA, false);
	while (poll_recv(&a, L_AB))
		;
	/* X's message, if X has sent one, and the flushed receives */
	UNTIL((poll_recv(&a, L_XA), a.e[L_XA].rx_n == RECVS), "A: %d of X's receives are back", a.e[L_XA].rx_n);
	/* the queues between survivors go on; the one after an early message has one receive less */
	for (int i = 0; i < a.e[L_AB].rx_n; i++) {
		post_recv(&a, L_AB, (int)a.e[L_AB].rx_wc[i].wr_id, ROOM);
		a.e[L_AB].rx_done[a.e[L_AB].rx_wc[i].wr_id] = false;
	}
	a.e[L_AB].rx_n = 0;
	barrier(5);
	fill_srq(&a, L_AB);
	talk(&a, L_AB, true);
	barrier(6);
	leave(&a);
}

void role_b(void)
{
	struct actor b;

	enter_stage(&b, B);
	if (b.srq) {
		post_recvs(&b, L_T);
	} else {
		post_recvs(&b, L_AB);
		post_recvs(&b, L_XB);
		if (st->req != R_SEND_RNR)
			post_recvs(&b, L_T);
	}
	post_recvs(&b, L_M);
	/* the SEND waits: A's receives are posted, but not enabled */
	send_msg(&b, L_R, 44);
	if (!third() && st->req == R_WAIT && !waits_in_vain())
		send_msg(&b, L_AB, 200), want_send(&b, L_AB, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	barrier(2);
	if (third())
		barrier(3);
	UNTIL(atomic_load(&st->dead), "nobody died");
	if (third()) {
		if (waits_in_vain())
			send_msg(&b, L_AB, 201);	/* the second completion that T waits for */
		if (st->req == R_SEND_RNR)
			post_recvs(&b, L_T);
		want_reaped(&b, X);
		/* Y may have died while completing an atomic of X's, with the lock held */
		if (st->ex == E_REAPER)
			want_reaped(&b, Y);
		check_third_at_b(&b);
		if (waits_in_vain())
			want_send(&b, L_AB, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
		want_peer_dead(&b, L_XB, false);
		if (st->ex == E_REAPER)
			want_peer_dead(&b, L_BY, false);
		atomic_store(&st->b_done, 1);
		barrier(5);
		check_srq(&b, L_AB);
		talk(&b, L_AB, false);
		barrier(6);
	} else {
		if (st->req == R_SEND_RNR)
			post_recvs(&b, L_T);
		want_reaped(&b, A);
		bool failed = M_BAD & 1u << st->req;
		want_peer_dead(&b, L_T, failed);
		check_owner_died(&b);
		want_peer_dead(&b, L_AB, false);
		atomic_store(&st->b_done, 1);
		barrier(5);
		check_srq(&b, L_XB);
		talk(&b, L_XB, false);
		barrier(6);
	}
	leave(&b);
}

/* Y finds X dead; Y's helper thread dies in the work that follows. */
void role_y(void)
{
	struct actor y;

	enter_stage(&y, Y);
	arm(1);
	barrier(2);
	barrier(3);
	UNTIL(atomic_load(&st->dead), "nobody died");
	_exit(3);
}

void role_x(void)
{
	struct actor x;

	enter_stage(&x, X);
	post_recvs(&x, L_XA);
	post_recvs(&x, L_XB);
	barrier(2);
	if (third()) {
		barrier(3);
		UNTIL(atomic_load(&st->stops.stopped), "the runner does not go on");
		rig_await_outside(&x.r, &st->stops, st->slot, stopped_ends());
		arm(0);
		if (st->ex == E_REAPER) {
			snprintf(st->arm[0].name, sizeof(st->arm[0].name), "claimed");
			st->arm[0].op = -1;
			st->arm[0].qpn = st->qpn[L_T][0];
			st->arm[0].who = FP_THIRD;
			st->arm[0].skip = 0;
		}
		/* A waits for this: so X runs T */
		send_msg(&x, L_XA, 1);
		await_death(&x);
	}
	UNTIL(atomic_load(&st->dead), "nobody died");
	want_peer_dead(&x, L_XA, false);
	barrier(5);
	fill_srq(&x, L_XB);
	talk(&x, L_XB, true);
	barrier(6);
	leave(&x);
}
