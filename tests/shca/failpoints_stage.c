/* SPDX-License-Identifier: BSD-3-Clause */
/* The stage of failpoints: objects, messages, the program of T, where the victim is to die. */
#include <endian.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "failpoints.h"

struct stage *st;
const int ends[LINKS][2] = {{A, B}, {X, A}, {X, B}, {A, B}, {A, B}, {B, A}, {X, Y}, {B, Y}};

/* The opcode of each kind of request. */
static const int req_op[] = {
	SHCA_OP_SEND,    SHCA_OP_SEND_IMM,   SHCA_OP_WRITE,      SHCA_OP_WRITE_IMM,  SHCA_OP_READ, SHCA_OP_CAS,
	SHCA_OP_FAA,     SHCA_OP_MASKED_CAS, SHCA_OP_MASKED_FAA, SHCA_OP_MASKED_FAA, SHCA_OP_WAIT, SHCA_OP_SEND_EN,
	SHCA_OP_RECV_EN, SHCA_OP_SEND,       SHCA_OP_WRITE,      SHCA_OP_SEND,       SHCA_OP_SEND, SHCA_OP_SEND,
	SHCA_OP_SEND,    SHCA_OP_READ,       SHCA_OP_SEND,
};

void nap(void)
{
	struct timespec t = {0, 200000};
	nanosleep(&t, NULL);
}

void barrier(int i)
{
	atomic_fetch_add(&st->at[i], 1);
	UNTIL(atomic_load(&st->at[i]) >= roles(), "barrier %d: only %u are here", i, atomic_load(&st->at[i]));
}

/* ---- objects --------------------------------------------------------------------------------------------------------- */

static void make_end(struct actor *a, int l)
{
	struct end *e = &a->e[l];
	bool tested = l == L_T && a->role == A;
	struct rig_qp_attr q = {.type = IBV_QPT_RC, .send_wr = 16, .recv_wr = RECVS, .sge = 5, .inl = 64};

	e->scq = rig_cq(&a->r, 32, NULL);
	if (l == L_T && a->role == B) {
		a->channel = shca_create_comp_channel(a->r.ctx);
		CHECK(a->channel);
		e->rcq = rig_cq(&a->r, 32, a->channel);
		CHECK(!shca_req_notify_cq(e->rcq, 0));
	} else {
		e->rcq = a->role == A && (l == L_XA || l == L_AB) ? a->wcq : rig_cq(&a->r, 32, NULL);
	}
	q.scq = e->scq;
	q.rcq = e->rcq;
	if (tested && st->req == R_WFAA)
		q.max_atomic = WIDE;
	if (tested && st->ex != E_DIRECT)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL;
	if (l == L_M && a->role == A)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND;
	if (l == L_R && a->role == A)
		q.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_RECV;
	if (l == L_T && a->role == B && st->req == R_SEND_SRQ) {
		struct ibv_srq_init_attr sa = {.attr = {.max_wr = RECVS, .max_sge = 1}};
		a->srq = shca_create_srq(a->r.pd, &sa);
		CHECK(a->srq);
	}
	if (a->srq && (l == L_T || l == L_XB || l == L_AB))
		q.srq = a->srq;
	e->qp = rig_qp(&a->r, &q);
	rig_init(e->qp);
	st->qpn[l][side(a->role, l)] = e->qp->qp_num;
}

void enter_stage(struct actor *a, int role)
{
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	memset(a, 0, sizeof(*a));
	a->role = role;
	rig_join(&a->r, st->fabric);
	st->slot[role] = a->r.m->slot;
	a->mem[0] = shca_buf_alloc(a->r.ctx, REGION);
	a->mem[1] = aligned_alloc(4096, REGION);
	CHECK(a->mem[0] && a->mem[1]);
	for (int i = 0; i < 2; i++) {
		memset(a->mem[i], 0, REGION);
		a->mr[i] = shca_reg_mr(a->r.pd, a->mem[i], REGION, (uintptr_t)a->mem[i], access);
		CHECK(a->mr[i]);
		rig_fill(a->mem[i] + O_SRC, LEN, 100 + (uint64_t)role);
		*(uint64_t *)(a->mem[i] + O_CELL) = CELL0;
		*(uint64_t *)(a->mem[i] + O_OPERANDS) = htobe64(5);
		*(uint64_t *)(a->mem[i] + O_OPERANDS + 16) = htobe64(7);
		st->addr[role][i] = (uintptr_t)a->mem[i];
		st->rkey[role][i] = a->mr[i]->rkey;
	}
	if (role == A)
		a->wcq = rig_cq(&a->r, 32, NULL);
	for (int l = 0; l < LINKS; l++)
		if (in(role, l))
			make_end(a, l);
	barrier(0);
	for (int l = 0; l < LINKS; l++) {
		struct rig_path path = {.timeout = 0, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		if (!in(role, l))
			continue;
		path.dest_qpn = st->qpn[l][1 - side(role, l)];
		rig_rtr(a->e[l].qp, &path);
		rig_rts(a->e[l].qp, &path);
	}
	barrier(1);
}

char *rx_buffer(struct actor *a, int l, int i)
{
	if (a->e[l].qp->srq)
		l = L_T;
	return a->mem[0] + O_RX + (l * RECVS + i) * ROOM;
}

void post_recv(struct actor *a, int l, int i, uint32_t room)
{
	struct ibv_sge sge = {(uintptr_t)rx_buffer(a, l, i), room, a->mr[0]->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1}, *bad;
	int err = a->e[l].qp->srq ? shca_post_srq_recv(a->e[l].qp->srq, &wr, &bad) : shca_post_recv(a->e[l].qp, &wr, &bad);

	if (err)
		FAIL("post_recv on link %d: %s", l, strerror(err));
}

void post_recvs(struct actor *a, int l)
{
	for (int i = 0; i < RECVS; i++)
		post_recv(a, l, i, st->req == R_SEND_LONG && l == L_T && a->role == B && i == 0 ? 64 : ROOM);
}

void send_msg(struct actor *a, int l, uint64_t number)
{
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MSG);
	struct ibv_sge sge = {(uintptr_t)m, 32, a->mr[0]->lkey};
	struct ibv_send_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE}, *bad;

	m[0] = m[2] = (uint64_t)a->role;
	m[1] = m[3] = number;
	int err = shca_post_send(a->e[l].qp, &wr, &bad);
	if (err)
		FAIL("post_send on link %d: %s", l, strerror(err));
}

void want_send(struct actor *a, int l, enum ibv_wc_status want, enum ibv_wc_status or_else)
{
	struct ibv_wc wc;

	UNTIL(shca_poll_cq(a->e[l].scq, 1, &wc) == 1, "role %d: no send completion on link %d", a->role, l);
	if (wc.status != want && wc.status != or_else)
		FAIL("role %d: send on link %d: %s instead of %s", a->role, l, ibv_wc_status_str(wc.status),
		     ibv_wc_status_str(want));
}

bool poll_recv(struct actor *a, int l)
{
	struct end *e = &a->e[l];
	struct ibv_wc wc;

	if (shca_poll_cq(e->rcq, 1, &wc) != 1)
		return false;
	/* A's wcq serves two links */
	for (int k = 0; k < LINKS; k++)
		if (in(a->role, k) && a->e[k].qp->qp_num == wc.qp_num)
			e = &a->e[k];
	if (wc.wr_id >= RECVS || e->rx_done[wc.wr_id])
		FAIL("role %d: receive %lu of link %d completed twice (%s)", a->role, (unsigned long)wc.wr_id, l,
		     ibv_wc_status_str(wc.status));
	e->rx_done[wc.wr_id] = true;
	e->rx_status[e->rx_n] = wc.status;
	e->rx_wc[e->rx_n++] = wc;
	return true;
}

void want_recvs(struct actor *a, int l, int n)
{
	for (uint64_t end = now() + WITHIN; a->e[l].rx_n < n;) {
		if (!poll_recv(a, l)) {
			if (now() > end)
				FAIL("role %d: link %d has %d of %d receive completions", a->role, l, a->e[l].rx_n, n);
			nap();
		}
	}
}

void no_more_recvs(struct actor *a, int l, int n)
{
	for (int i = 0; i < 5; i++, nap())
		poll_recv(a, l);
	if (a->e[l].rx_n != n)
		FAIL("role %d: link %d has %d receive completions instead of %d", a->role, l, a->e[l].rx_n, n);
}

void check_msg(struct actor *a, int l, int i, int from, uint64_t number)
{
	const struct ibv_wc *wc = &a->e[l].rx_wc[i];
	const uint64_t *m = (const uint64_t *)rx_buffer(a, l, (int)wc->wr_id);

	if (wc->status != IBV_WC_SUCCESS || wc->byte_len != 32 || m[0] != (uint64_t)from || m[2] != m[0] || m[1] != number ||
	    m[3] != m[1])
		FAIL("role %d: link %d, receive %d: %s, %u bytes, message %lu of %lu instead of %lu of %d", a->role, l, i,
		     ibv_wc_status_str(wc->status), wc->byte_len, (unsigned long)m[1], (unsigned long)m[0],
		     (unsigned long)number, from);
}

/* ---- T's program ----------------------------------------------------------------------------------------------------- */

int op_lane(void)
{
	/* in private memory a write's body is a separate step if a third process executes, and then the end of the write is read
	 * first; an atomic has a lock only for private memory */
	if (!strcmp(st->p.name, "data") && (st->req == R_WRITE || st->req == R_WRITE_IMM) && !third())
		return 0;
	if (!strcmp(st->p.name, "body-done"))
		return 1;
	if (!strcmp(st->p.name, "atomic-locked"))
		return 1;
	/* a word at a time: only where the memory is mapped */
	if (!strcmp(st->p.name, "atomic-half"))
		return 0;
	return lane();
}

static int fill_op(struct actor *a, struct ibv_exp_send_wr *wr, struct ibv_sge *sge)
{
	static uint64_t add[WIDE / 8], top[WIDE / 8];	/* read at the post */
	int l = lane();
	uint64_t to = st->addr[B][op_lane()];
	uint32_t rkey = st->rkey[B][op_lane()];

	*wr = (struct ibv_exp_send_wr){.wr_id = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .sg_list = sge, .num_sge = 5};
	/* five segments: a fast write takes at most four */
	for (int i = 0; i < 5; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_SRC + i * 40, 40, a->mr[l]->lkey};
	if (st->req == R_SEND_LKEY)
		sge[4].lkey = 0xdeadbe00;
	switch (st->req) {
	case R_SEND_IMM:
		wr->exp_opcode = IBV_EXP_WR_SEND_WITH_IMM;
		wr->ex.imm_data = 77;
		break;
	case R_WRITE:
	case R_WRITE_KEY:
		wr->exp_opcode = IBV_EXP_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = to + O_DST;
		wr->wr.rdma.rkey = st->req == R_WRITE ? rkey : 0xdeadbe00;
		break;
	case R_WRITE_IMM:
		wr->exp_opcode = IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
		wr->ex.imm_data = 77;
		wr->wr.rdma.remote_addr = to + O_DST;
		wr->wr.rdma.rkey = rkey;
		break;
	case R_READ:
		wr->exp_opcode = IBV_EXP_WR_RDMA_READ;
		wr->wr.rdma.remote_addr = to + O_SRC;
		wr->wr.rdma.rkey = rkey;
		for (int i = 0; i < 5; i++)
			sge[i].addr = (uintptr_t)a->mem[l] + O_DST + (uint64_t)i * 40;
		break;
	case R_CAS:
	case R_FAA:
		wr->exp_opcode = st->req == R_CAS ? IBV_EXP_WR_ATOMIC_CMP_AND_SWP : IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = to + O_CELL;
		wr->wr.atomic.rkey = rkey;
		wr->wr.atomic.compare_add = st->req == R_CAS ? CELL0 : 3;
		wr->wr.atomic.swap = CELL0 + 3;
		break;
	case R_MCAS:
	case R_MFAA:
		wr->exp_opcode = st->req == R_MCAS ? IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP :
						     IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
		wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
		wr->ext_op.masked_atomics.log_arg_sz = 3;
		wr->ext_op.masked_atomics.remote_addr = to + O_CELL;
		wr->ext_op.masked_atomics.rkey = rkey;
		if (st->req == R_MCAS)
			wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
				.compare_mask = 0xff, .compare_val = CELL0, .swap_val = CELL0 + 3, .swap_mask = 0xff};
		else
			wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
				(struct ibv_exp_fetch_add){.add_val = 3, .field_boundary = 1ull << 31};
		break;
	case R_WFAA:
		for (unsigned i = 0; i < WIDE / 8; i++) {
			add[i] = 3;
			top[i] = 1ull << 31;
		}
		wr->exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD;
		wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
		wr->ext_op.masked_atomics.log_arg_sz = 6;
		wr->ext_op.masked_atomics.remote_addr = to + O_CELL;
		wr->ext_op.masked_atomics.rkey = rkey;
		wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = (uintptr_t)add, .field_boundary = (uintptr_t)top};
		break;
	case R_WAIT:
		wr->exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr->task.cqe_wait.cq = a->wcq;
		/* armed by a third party, which must find the WAIT unmet at first: so the WAIT is the second request that the
		 * third party runs */
		wr->task.cqe_wait.cq_count = third() && waits_in_vain() ? 2 : 1;
		break;
	case R_SEND_EN:
		wr->exp_opcode = IBV_EXP_WR_SEND_ENABLE;
		wr->task.wqe_enable.qp = a->e[L_M].qp;
		wr->task.wqe_enable.wqe_count = 1;
		wr->exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
		break;
	case R_RECV_EN:
		wr->exp_opcode = IBV_EXP_WR_RECV_ENABLE;
		wr->task.wqe_enable.qp = a->e[L_R].qp;
		wr->task.wqe_enable.wqe_count = 1;
		wr->exp_send_flags |= IBV_EXP_SEND_WAIT_EN_LAST;
		break;
	case R_READ_CALC:
		wr->exp_opcode = IBV_EXP_WR_RDMA_READ;
		wr->wr.rdma.remote_addr = to + O_OPERANDS;
		wr->wr.rdma.rkey = rkey;
		wr->num_sge = 1;
		sge[0] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_DST, 32, a->mr[l]->lkey};
		break;
	case R_SEND_CALC:
		/* the message, and an operand that changes nothing */
		wr->exp_opcode = IBV_EXP_WR_SEND;
		wr->exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR;
		wr->num_sge = 2;
		sge[0].length = LEN;
		sge[1] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_ZEROS, LEN, a->mr[l]->lkey};
		break;
	default:
		wr->exp_opcode = IBV_EXP_WR_SEND;
		break;
	}
	if (M_CALC & 1u << st->req) {
		wr->exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
		wr->op.calc.calc_op = st->req == R_SEND_CALC ? IBV_EXP_CALC_OP_BXOR : IBV_EXP_CALC_OP_ADD;
		wr->op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_UINT;
		wr->op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	}
	if (st->req >= R_CAS && st->req <= R_WFAA) {
		sge[0] = (struct ibv_sge){(uintptr_t)a->mem[l] + O_DST, st->req == R_WFAA ? WIDE : 8, a->mr[l]->lkey};
		wr->num_sge = 1;
	} else if (st->req >= R_WAIT && st->req <= R_RECV_EN) {
		wr->num_sge = 0;
	}
	return 0;
}

void post_program(struct actor *a)
{
	struct ibv_exp_send_wr wr[3], *bad;
	struct ibv_sge sge[5], mark = {(uintptr_t)a->mem[0] + O_MARK, 32, a->mr[0]->lkey};
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MARK);
	int n = 0;

	m[0] = m[2] = A;
	m[1] = m[3] = 9;
	if (third() && (st->req != R_WAIT || waits_in_vain())) {
		wr[n] = (struct ibv_exp_send_wr){.wr_id = 7, .exp_opcode = IBV_EXP_WR_CQE_WAIT};
		wr[n].task.cqe_wait.cq = a->wcq;
		wr[n++].task.cqe_wait.cq_count = 1;
	}
	fill_op(a, &wr[n++], sge);
	wr[n++] = (struct ibv_exp_send_wr){.wr_id = 2, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
					   .sg_list = &mark, .num_sge = 1};
	for (int i = 0; i < n - 1; i++)
		wr[i].next = &wr[i + 1];
	int err = shca_exp_post_send(a->e[L_T].qp, wr, &bad);
	if (err)
		FAIL("posting T's program: request %lu: %s", (unsigned long)bad->wr_id, strerror(err));
}

/* The managed queue's SEND, which SEND_ENABLE enables; receives of the managed receive queue. */
void post_managed(struct actor *a)
{
	struct ibv_sge sge = {(uintptr_t)a->mem[0] + O_MSG, 32, a->mr[0]->lkey};
	struct ibv_exp_send_wr wr = {.wr_id = 3, .exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .sg_list = &sge, .num_sge = 1}, *bad;
	uint64_t *m = (uint64_t *)(a->mem[0] + O_MSG);

	m[0] = m[2] = A;
	m[1] = m[3] = 33;
	int err = shca_exp_post_send(a->e[L_M].qp, &wr, &bad);
	if (err)
		FAIL("posting the managed send: %s", strerror(err));
	post_recvs(a, L_R);
}

/* ---- arming ---------------------------------------------------------------------------------------------------------- */

void arm(int i)
{
	struct failpoint_arm *f = &st->arm[i];
	const struct point *p = &st->p;

	snprintf(f->name, sizeof(f->name), "%s", p->fp);
	f->op = p->where == W_REQ || p->where == W_LAST ? req_op[st->req] : -1;
	f->qpn = 0;
	f->who = 0;
	if (p->where == W_REQ || p->where == W_T) {
		f->qpn = st->qpn[L_T][0];
		f->who = third() ? FP_THIRD : FP_OWNER;
	} else if (p->where == W_XA) {
		f->qpn = st->qpn[L_XA][0];
		f->who = FP_OWNER;
	} else if (p->where == W_TB) {
		f->qpn = st->qpn[L_T][1];
	} else if (p->where == W_RS) {
		/* the queue that an ENABLE makes runnable: A's managed one, or B's, which waits for the receive */
		f->qpn = st->req == R_SEND_EN ? st->qpn[L_M][0] : st->qpn[L_R][0];
	}
	if (p->where == W_ANY)
		f->op = -1;
	f->skip = p->skip;
	if (p->skip && !(M_TAKES & 1u << st->req) && st->req != R_SEND_LONG)
		f->skip = 0;		/* the first completion is that of the request itself */
	atomic_store(&f->pid, (int32_t)getpid());
}
