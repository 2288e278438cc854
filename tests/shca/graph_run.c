/* SPDX-License-Identifier: BSD-3-Clause */
/* Random graphs of requests: one member's part on the device. */
#include "graph.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIGN 256u
#define MARGIN 0x5a
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

char *graph_memory(const struct graph_member *m, uint32_t off)
{
	return off < GRAPH_HALF ? m->memory[0] + off : m->memory[1] + (off - GRAPH_HALF);
}

static struct ibv_mr *reg(struct graph_member *m, void *p, size_t bytes)
{
	struct ibv_mr *mr = shca_reg_mr(m->r->pd, p, bytes, (uintptr_t)p, RIGHTS);

	CHECK(mr);
	return mr;
}

static size_t bytes_of(int half)
{
	return half ? GRAPH_ALL - GRAPH_HALF : GRAPH_HALF;
}

/* Checks that no request has written into the margins. */
static void check_margins(const struct graph_member *m)
{
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < ALIGN; k++)
			if (m->memory[i][-1 - (long)k] != MARGIN || m->memory[i][bytes_of(i) + k] != MARGIN)
				FAIL("seed %lu: member %u: %s memory was written to outside of its region: %zu bytes beside it",
				     (unsigned long)m->g->seed, m->id, i ? "private" : "arena", k + 1);
}

static void make_memory(struct graph_member *m)
{
	struct graph_image *image = malloc(sizeof(*image));

	m->arena = shca_buf_alloc(m->r->ctx, GRAPH_HALF + 3 * ALIGN);
	m->own = aligned_alloc(ALIGN, GRAPH_ALL - GRAPH_HALF + 2 * ALIGN);
	CHECK(image && m->arena && m->own);
	m->memory[0] = (char *)(((uintptr_t)m->arena + 2 * ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
	m->memory[1] = (char *)m->own + ALIGN;
	for (int i = 0; i < 2; i++) {
		memset(m->memory[i] - ALIGN, MARGIN, ALIGN);
		memset(m->memory[i] + bytes_of(i), MARGIN, ALIGN);
	}
	graph_begin(m->g, image);
	memcpy(m->memory[0], image->mem[m->id], GRAPH_HALF);
	memcpy(m->memory[1], image->mem[m->id] + GRAPH_HALF, GRAPH_ALL - GRAPH_HALF);
	free(image);
	for (int i = 0; i < 2; i++) {
		m->mr[i] = reg(m, m->memory[i], bytes_of(i));
		m->board->m[m->id].addr[i] = (uintptr_t)m->memory[i];
		m->board->m[m->id].rkey[i] = m->mr[i]->rkey;
	}
	if (!m->id) {
		m->stamps = shca_buf_alloc(m->r->ctx, GRAPH_QUEUES * 8);
		CHECK(m->stamps);
		memset((void *)m->stamps, 0, GRAPH_QUEUES * 8);
		m->board->stamps = shca_off_of(m->r->m, m->stamps);
	} else {
		m->stamps = shca_at(m->r->m->base, m->board->stamps);
	}
	m->stamp_mr = reg(m, (void *)m->stamps, GRAPH_QUEUES * 8);
	m->board->m[m->id].stamps = (uintptr_t)m->stamps;
	m->board->m[m->id].stamp_key = m->stamp_mr->rkey;
}

void graph_member_make(struct graph_member *m)
{
	const struct graph *g = m->g;

	make_memory(m);
	for (uint32_t i = 0; i < g->queues; i++) {
		const struct graph_queue *q = &g->q[i];
		if (q->member != m->id)
			continue;
		m->cq[2 * i] = rig_cq(m->r, (int)q->n + 1, NULL);
		m->cq[2 * i + 1] = rig_cq(m->r, (int)q->posted_recv + 1, NULL);
		struct rig_qp_attr a = {
			.type = IBV_QPT_RC, .scq = m->cq[2 * i], .rcq = m->cq[2 * i + 1], .send_wr = q->n + 1,
			.recv_wr = q->posted_recv + 1, .sge = GRAPH_SEGS, .inl = 16, .max_atomic = g->wide ? 256 : 8,
			.exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | (q->managed_send ? IBV_EXP_QP_CREATE_MANAGED_SEND : 0) |
				     (q->managed_recv ? IBV_EXP_QP_CREATE_MANAGED_RECV : 0),
		};
		m->qp[i] = rig_qp(m->r, &a);
		rig_init(m->qp[i]);
		m->board->qpn[i] = m->qp[i]->qp_num;
	}
}

bool graph_member_connect(struct graph_member *m)
{
	for (uint32_t i = 0; i < m->g->queues; i++) {
		/* a timeout: a requester would wait for ever for a queue that has failed while the process lives */
		struct rig_path path = {.dest_qpn = m->board->qpn[m->g->q[i].peer], .timeout = 10, .retry_cnt = 7, .rnr_retry = 7,
					.min_rnr_timer = 1};
		if (m->qp[i] && rig_try_connect(m->qp[i], &path))
			return false;
	}
	return true;
}

/* ---- posting ------------------------------------------------------------------------------------------------------ */

struct posting {
	struct ibv_exp_task task[2 * GRAPH_QUEUES];
	struct ibv_exp_send_wr wr[GRAPH_QUEUES][GRAPH_OPS];
	struct ibv_sge sge[GRAPH_QUEUES][GRAPH_OPS][GRAPH_SEGS], rsge[GRAPH_QUEUES][GRAPH_OPS];
	struct ibv_recv_wr rwr[GRAPH_QUEUES][GRAPH_OPS];
	uint64_t label[GRAPH_QUEUES][GRAPH_OPS][2];
};

static struct ibv_sge local(const struct graph_member *m, struct graph_seg s)
{
	return (struct ibv_sge){(uintptr_t)graph_memory(m, s.off), s.len, m->mr[s.off >= GRAPH_HALF]->lkey};
}

static void remote(const struct graph_member *m, uint32_t qi, uint32_t off, uint64_t *addr, uint32_t *rkey)
{
	uint32_t peer = m->g->q[m->g->q[qi].peer].member, half = off >= GRAPH_HALF;

	*addr = m->board->m[peer].addr[half] + (half ? off - GRAPH_HALF : off);
	*rkey = m->board->m[peer].rkey[half];
}

static void fill_masked(const struct graph_req *r, struct ibv_exp_send_wr *wr)
{
	const struct graph_atomic *a = r->atomic;
	uint64_t v[4];

	wr->exp_opcode =
		r->op == GRAPH_MFAA ? IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD : IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	wr->ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(a->size);
	if (a->how == GRAPH_GATHERED)
		return;
	wr->exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	for (int i = 0; i < 4; i++)
		v[i] = a->how == GRAPH_POINTER ? (uintptr_t)a->v[i] : a->v[i][0];
	if (r->op == GRAPH_MFAA)
		wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
			(struct ibv_exp_fetch_add){.add_val = v[0], .field_boundary = v[1]};
	else
		wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
			.compare_val = v[0], .compare_mask = v[1], .swap_val = v[2], .swap_mask = v[3]};
}

static void fill_data(struct graph_member *m, uint32_t qi, uint32_t i, struct posting *p, struct ibv_exp_send_wr *wr)
{
	static const enum ibv_exp_wr_opcode ops[] = {[GRAPH_SEND] = IBV_EXP_WR_SEND, [GRAPH_WRITE] = IBV_EXP_WR_RDMA_WRITE,
						     [GRAPH_WRITE_IMM] = IBV_EXP_WR_RDMA_WRITE_WITH_IMM,
						     [GRAPH_READ] = IBV_EXP_WR_RDMA_READ};
	const struct graph_req *r = &m->g->q[qi].req[i];

	wr->exp_opcode = ops[r->op];
	if (r->op != GRAPH_SEND)
		remote(m, qi, r->remote.off, &wr->wr.rdma.remote_addr, &wr->wr.rdma.rkey);
	if (r->inl) {
		p->label[qi][i][0] = 0x1abe100000000000ull | qi;
		p->label[qi][i][1] = i;
		p->sge[qi][i][0] = (struct ibv_sge){(uintptr_t)p->label[qi][i], 16, 0};
		wr->num_sge = 1;
		wr->exp_send_flags |= IBV_EXP_SEND_INLINE;
	}
	if (r->calc) {
		wr->exp_send_flags |= IBV_EXP_SEND_WITH_CALC | (r->form.vector ? SHCA_EXP_SEND_CALC_VECTOR : 0) |
				      (r->form.host ? SHCA_EXP_SEND_CALC_HOST_ORDER : 0);
		wr->op.calc.calc_op = (enum ibv_exp_calc_op)r->form.op;
		wr->op.calc.data_type = (enum ibv_exp_calc_data_type)r->form.type;
		wr->op.calc.data_size = (enum ibv_exp_calc_data_size)r->form.size_code;
	}
}

static void fill(struct graph_member *m, uint32_t qi, uint32_t i, struct posting *p)
{
	const struct graph_req *r = &m->g->q[qi].req[i];
	const struct graph_queue *q = &m->g->q[qi];
	struct ibv_exp_send_wr *wr = &p->wr[qi][i];

	*wr = (struct ibv_exp_send_wr){.wr_id = i, .sg_list = p->sge[qi][i], .num_sge = r->nseg,
				       .exp_send_flags = (r->signaled ? IBV_EXP_SEND_SIGNALED : 0) |
							 (r->last ? IBV_EXP_SEND_WAIT_EN_LAST : 0)};
	for (uint32_t k = 0; k < r->nseg; k++)
		p->sge[qi][i][k] = local(m, r->seg[k]);
	switch (r->op) {
	case GRAPH_NOP:
		wr->exp_opcode = IBV_EXP_WR_NOP;
		break;
	case GRAPH_STAMP:
		wr->exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = m->board->m[m->g->q[q->peer].member].stamps + 8 * qi;
		wr->wr.atomic.rkey = m->board->m[m->g->q[q->peer].member].stamp_key;
		wr->wr.atomic.compare_add = 1;
		break;
	case GRAPH_FAA:
	case GRAPH_CAS:
		wr->exp_opcode = r->op == GRAPH_FAA ? IBV_EXP_WR_ATOMIC_FETCH_AND_ADD : IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
		remote(m, qi, r->remote.off, &wr->wr.atomic.remote_addr, &wr->wr.atomic.rkey);
		wr->wr.atomic.compare_add = r->atomic->v[0][0];
		wr->wr.atomic.swap = r->atomic->v[2][0];
		break;
	case GRAPH_MFAA:
	case GRAPH_MCAS:
		remote(m, qi, r->remote.off, &wr->ext_op.masked_atomics.remote_addr, &wr->ext_op.masked_atomics.rkey);
		fill_masked(r, wr);
		break;
	case GRAPH_WAIT:
		wr->exp_opcode = IBV_EXP_WR_CQE_WAIT;
		wr->task.cqe_wait.cq = m->cq[r->cq];
		wr->task.cqe_wait.cq_count = r->count;
		break;
	case GRAPH_SEND_EN:
	case GRAPH_RECV_EN:
		wr->exp_opcode = r->op == GRAPH_SEND_EN ? IBV_EXP_WR_SEND_ENABLE : IBV_EXP_WR_RECV_ENABLE;
		wr->task.wqe_enable.qp = m->qp[r->target];
		wr->task.wqe_enable.wqe_count = r->count;
		break;
	default:
		fill_data(m, qi, i, p, wr);
		break;
	}
}

void graph_member_post(struct graph_member *m, uint32_t list)
{
	const struct graph *g = m->g;
	struct ibv_exp_task *first = NULL, **link = &first, *bad;
	struct posting *p = malloc(sizeof(*p));
	uint32_t t = 0;

	CHECK(p);
	for (uint32_t qi = 0; qi < g->queues; qi++) {
		const struct graph_queue *q = &g->q[qi];
		struct ibv_recv_wr **rl = NULL;
		struct ibv_exp_send_wr **wl = NULL;
		if (q->member != m->id)
			continue;
		for (uint32_t i = 0; i < q->posted_recv; i++) {
			if (q->recv[i].list != list)
				continue;
			p->rsge[qi][i] = local(m, q->recv[i].into);
			p->rwr[qi][i] = (struct ibv_recv_wr){.wr_id = i,
							     .sg_list = &p->rsge[qi][i],
							     .num_sge = q->recv[i].into.len != 0};
			if (!rl) {
				p->task[t] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV, .item.qp = m->qp[qi]};
				rl = &p->task[t].item.recv_wr;
				*link = &p->task[t];
				link = &p->task[t++].next;
			}
			*rl = &p->rwr[qi][i];
			rl = &p->rwr[qi][i].next;
		}
		for (uint32_t i = 0; i < q->n; i++) {
			if (q->req[i].list != list)
				continue;
			fill(m, qi, i, p);
			if (!wl) {
				p->task[t] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item.qp = m->qp[qi]};
				wl = &p->task[t].item.send_wr;
				*link = &p->task[t];
				link = &p->task[t++].next;
			}
			*wl = &p->wr[qi][i];
			wl = &p->wr[qi][i].next;
		}
	}
	int err = first ? shca_exp_post_task(m->r->ctx, first, &bad) : 0;
	if (err)
		FAIL("seed %lu: member %u, list %u: task %d: %s", (unsigned long)g->seed, m->id, list, (int)(bad - p->task),
		     strerror(err));
	free(p);
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

/* Polls all CQs: a poll executes queues that are left over, since the timers of their owner may be stopped. */
void graph_poll(const struct graph_member *m)
{
	struct ibv_wc wc;

	for (uint32_t i = 0; i < 2 * m->g->queues; i++)
		while (m->cq[i] && shca_poll_cq(m->cq[i], 1, &wc) > 0)
			;
}

void graph_await_all(const struct graph_member *m, double seconds)
{
	const struct graph *g = m->g;
	uint64_t end = monotonic_ns() + (uint64_t)(seconds * 1e9);

	for (uint32_t i = 0; i < g->queues; i++) {
		struct shca_qp *sh = shca_number_get(m->r->m, m->board->qpn[i], SHCA_KIND_QP);
		CHECK(sh);
		/* the release of the lock publishes the effects of the last request */
		while (atomic_load(&sh->head) < g->q[i].n || atomic_load(&sh->lock) & 7) {
			uint64_t head = atomic_load(&sh->head);
			if (atomic_load(&sh->fail) || monotonic_ns() > end)
				FAIL("seed %lu: queue %u of member %u: %lu of %u requests have run (next: kind %d), fail %d, "
				     "lock %#lx",
				     (unsigned long)g->seed, i, g->q[i].member, (unsigned long)head, g->q[i].n,
				     head < g->q[i].n ? (int)g->q[i].req[head].op : -1, atomic_load(&sh->fail),
				     (unsigned long)atomic_load(&sh->lock));
			graph_poll(m);
			sched_yield();
		}
	}
}

void graph_blame(const struct graph_member *m, uint32_t off)
{
	const struct graph *g = m->g;

	for (uint32_t s = g->steps; s-- > 0;) {
		const struct graph_queue *q = &g->q[g->order[s].queue];
		const struct graph_req *r = &q->req[g->order[s].req];
		bool theirs = g->q[q->peer].member == m->id && r->op != GRAPH_READ && off - r->remote.off < r->remote.len;
		bool mine = false;
		for (uint32_t i = 0; q->member == m->id && i < r->nseg; i++)
			mine |= (r->op == GRAPH_READ || (r->atomic && !i)) && off - r->seg[i].off < r->seg[i].len;
		if (!theirs && !mine)
			continue;
		fprintf(stderr,
			"last by queue %u, request %u: kind %d, %s; remote %u + %u of member %u; %u segments, the first %u + %u "
			"of member %u",
			g->order[s].queue, g->order[s].req, r->op, mine ? "its list" : "its remote side", r->remote.off,
			r->remote.len, g->q[q->peer].member, r->nseg, r->seg[0].off, r->seg[0].len, q->member);
		if (r->calc)
			fprintf(stderr, "; CALC %#x, type %u, size %u, %s, %s order", r->form.op, r->form.type, r->form.size,
				r->form.vector ? "vector" : "elements", r->form.host ? "host" : "network");
		if (r->atomic)
			fprintf(stderr, "; %u bytes, operands %d", r->atomic->size, r->atomic->how);
		for (uint32_t i = 0; i < r->nseg; i++)
			fprintf(stderr, "; [%u + %u]", r->seg[i].off, r->seg[i].len);
		fprintf(stderr, "\n");
		return;
	}
	fprintf(stderr, "nobody changed it\n");
}

void graph_compare(const struct graph_member *m, const struct graph_image *image)
{
	for (uint32_t q = 0; q < m->g->queues; q++) {
		uint64_t n = 0;
		for (uint32_t i = 0; i < m->g->q[q].n; i++)
			n += m->g->q[q].req[i].op == GRAPH_STAMP;
		if (atomic_load(&m->stamps[q]) != n)
			FAIL("seed %lu: queue %u: %lu increments of its counter, not %lu", (unsigned long)m->g->seed, q,
			     (unsigned long)atomic_load(&m->stamps[q]), (unsigned long)n);
	}
	for (uint32_t off = 0; off < GRAPH_MEM; off++) {
		if (*graph_memory(m, off) == image->mem[m->id][off])
			continue;
		graph_blame(m, off);
		FAIL("seed %lu: member %u: byte %u is %#x, not %#x", (unsigned long)m->g->seed, m->id, off,
		     (unsigned char)*graph_memory(m, off), (unsigned char)image->mem[m->id][off]);
	}
}

void graph_member_unmake(struct graph_member *m)
{
	check_margins(m);
	for (uint32_t i = 0; i < GRAPH_QUEUES; i++)
		if (m->qp[i])
			CHECK(!shca_destroy_qp(m->qp[i]));
	for (uint32_t i = 0; i < 2 * GRAPH_QUEUES; i++)
		if (m->cq[i])
			CHECK(!shca_destroy_cq(m->cq[i]));
	CHECK(!shca_dereg_mr(m->mr[0]) && !shca_dereg_mr(m->mr[1]) && !shca_dereg_mr(m->stamp_mr));
	CHECK(!shca_buf_free(m->r->ctx, m->arena));
	free(m->own);
	if (!m->id)
		CHECK(!shca_buf_free(m->r->ctx, (void *)m->stamps));
}
