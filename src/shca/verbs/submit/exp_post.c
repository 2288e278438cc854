/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting of the experimental verbs: cross-channel requests, extended atomics, task lists (manual, appendices B, D). */
#include <errno.h>
#include <infiniband/verbs_exp.h>
#include <stdlib.h>

#include "shca/engine/calc.h"
#include "shca/verbs/control.h"
#include "shca/verbs/submit/post.h"
#include "verbs_exp/convert.h"

static inline struct shca_user_qp *exp_post_lqp_of(struct ibv_qp *qp)
{
	return (struct shca_user_qp *)qp;
}

static int exp_post_op_of(enum ibv_exp_wr_opcode op)
{
	switch (op) {
	case IBV_EXP_WR_RDMA_WRITE: return SHCA_OP_WRITE;
	case IBV_EXP_WR_RDMA_WRITE_WITH_IMM: return SHCA_OP_WRITE_IMM;
	case IBV_EXP_WR_SEND: return SHCA_OP_SEND;
	case IBV_EXP_WR_SEND_WITH_IMM: return SHCA_OP_SEND_IMM;
	case IBV_EXP_WR_RDMA_READ: return SHCA_OP_READ;
	case IBV_EXP_WR_ATOMIC_CMP_AND_SWP: return SHCA_OP_CAS;
	case IBV_EXP_WR_ATOMIC_FETCH_AND_ADD: return SHCA_OP_FAA;
	case IBV_EXP_WR_SEND_ENABLE: return SHCA_OP_SEND_EN;
	case IBV_EXP_WR_RECV_ENABLE: return SHCA_OP_RECV_EN;
	case IBV_EXP_WR_CQE_WAIT: return SHCA_OP_WAIT;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP: return SHCA_OP_MASKED_CAS;
	case IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD: return SHCA_OP_MASKED_FAA;
	case IBV_EXP_WR_NOP: return SHCA_OP_NOP;
	case IBV_EXP_WR_SEND_WITH_INV: return SHCA_OP_SEND_INV;
	case IBV_EXP_WR_LOCAL_INV: return SHCA_OP_LOCAL_INV;
	case IBV_EXP_WR_BIND_MW: return SHCA_OP_BIND_MW;
	case IBV_EXP_WR_UMR_FILL: return SHCA_OP_UMR;
	case IBV_EXP_WR_UMR_INVALIDATE: return SHCA_OP_LOCAL_INV;
	case IBV_EXP_WR_TSO:
		break;
	}
	return -1;
}

static bool exp_post_is_cross(int op)
{
	return op == SHCA_OP_WAIT || op == SHCA_OP_SEND_EN || op == SHCA_OP_RECV_EN;
}

bool shca_takes_cross(const struct shca_user_qp *q)
{
	return q->sh->flags & SHCA_QP_CROSS;
}

static bool exp_post_is_inline(const struct ibv_exp_send_wr *wr, int op)
{
	return wr->exp_send_flags & IBV_EXP_SEND_INLINE && (op <= SHCA_OP_WRITE_IMM || op == SHCA_OP_SEND_INV);
}

static uint64_t inline_bytes(const struct ibv_exp_send_wr *wr)
{
	uint64_t len = 0;

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	return len;
}

static bool exp_post_is_masked(int op)
{
	return op == SHCA_OP_MASKED_CAS || op == SHCA_OP_MASKED_FAA;
}

/* Operands of a masked atomic, each of so many bytes: compare, compare mask, swap, swap mask; or add, field boundary. */
static uint32_t operands(int op)
{
	return op == SHCA_OP_MASKED_CAS ? 4 : 2;
}
static uint32_t operand_size(const struct ibv_exp_send_wr *wr)
{
	return 1u << (wr->ext_op.masked_atomics.log_arg_sz & 31);
}
/* Where the operands are: in the request; at addresses in the request, read at post; or in memory that sg_list names behind the
 * result. */
static bool operands_inline(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_send_flags & IBV_EXP_SEND_EXT_ATOMIC_INLINE;
}
static bool operands_pointed_to(const struct ibv_exp_send_wr *wr)
{
	return operands_inline(wr) && operand_size(wr) > 8;
}

static int exp_post_check_masked(const struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, int op)
{
	uint32_t size = operand_size(wr);

	if (q->type != IBV_QPT_RC)
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_post_send: extended atomic on queue pair %#x of type %u: RC queue pairs alone "
				   "(IBV_QPT_RC, %d) have them",
				   q->qp.qp_num, q->type, IBV_QPT_RC);
	if (wr->ext_op.masked_atomics.log_arg_sz > 8 || size < 4 || size > q->max_atomic)
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: extended atomic of 2^%u bytes (log_arg_sz), queue pair %#x was created "
				   "for 4 to %u (ibv_exp_create_qp: max_atomic_arg)",
				   wr->ext_op.masked_atomics.log_arg_sz, q->qp.qp_num, q->max_atomic);
	if (size > 8 && operands_inline(wr))
		return wr->num_sge == 1 ? 0 :
			shca_refuse(EINVAL,
				    "ibv_exp_post_send: extended atomic of %u bytes on queue pair %#x with %d segments: with "
				    "IBV_EXP_SEND_EXT_ATOMIC_INLINE sg_list has one, for the result",
				    size, q->qp.qp_num, wr->num_sge);
	if (operands_inline(wr))
		return 0;
	uint64_t given = 0;
	for (int i = 1; i < wr->num_sge; i++)
		given += wr->sg_list[i].length;
	if (wr->num_sge < 2 || given != (uint64_t)operands(op) * size)
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: extended atomic on queue pair %#x with %lu bytes of operands in %d "
				   "segments: without IBV_EXP_SEND_EXT_ATOMIC_INLINE, %u operands of %u bytes stand in sg_list "
				   "behind the segment of the result",
				   q->qp.qp_num, (unsigned long)given, wr->num_sge, operands(op), size);
	return 0;
}

/* Translates a CALC request. false: the device has no such operation, type or size. */
static bool exp_post_calc_of(const struct ibv_exp_send_wr *wr, struct shca_calc *c)
{
	static const uint8_t types[] = {SHCA_CALC_INT, SHCA_CALC_UINT, SHCA_CALC_FLOAT};

	*c = (struct shca_calc){.vector = wr->exp_send_flags & SHCA_EXP_SEND_CALC_VECTOR,
				.host_order = wr->exp_send_flags & SHCA_EXP_SEND_CALC_HOST_ORDER};
	switch ((uint32_t)wr->op.calc.calc_op) {
	case IBV_EXP_CALC_OP_ADD: c->op = SHCA_CALC_ADD; break;
	case IBV_EXP_CALC_OP_BAND: c->op = SHCA_CALC_BAND; break;
	case IBV_EXP_CALC_OP_BXOR: c->op = SHCA_CALC_BXOR; break;
	case IBV_EXP_CALC_OP_BOR: c->op = SHCA_CALC_BOR; break;
	case SHCA_EXP_CALC_OP_MIN: c->op = SHCA_CALC_MIN; break;
	case SHCA_EXP_CALC_OP_MAX: c->op = SHCA_CALC_MAX; break;
	case SHCA_EXP_CALC_OP_PROD: c->op = SHCA_CALC_PROD; break;
	case SHCA_EXP_CALC_OP_MAXLOC: c->op = SHCA_CALC_MAXLOC; break;
	default: return false;
	}
	switch ((uint32_t)wr->op.calc.data_size) {
	case IBV_EXP_CALC_DATA_SIZE_64_BIT: c->size = 8; break;
	case SHCA_EXP_CALC_DATA_SIZE_32_BIT: c->size = 4; break;
	case SHCA_EXP_CALC_DATA_SIZE_16_BIT: c->size = 2; break;
	case SHCA_EXP_CALC_DATA_SIZE_8_BIT: c->size = 1; break;
	default: return false;
	}
	if ((uint32_t)wr->op.calc.data_type > IBV_EXP_CALC_DATA_TYPE_FLOAT)
		return false;
	c->type = types[wr->op.calc.data_type];
	return shca_calc_sound(c);
}

static int exp_post_check_calc(const struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, int op)
{
	struct shca_calc c;
	uint64_t len = 0;

	if (!exp_post_calc_of(wr, &c))
		return shca_refuse(EOPNOTSUPP,
				   "ibv_exp_post_send: CALC with calc_op %#x, data_type %u, data_size %#x, flags %#lx: the "
				   "device does not have these together (calc_cap of ibv_exp_query_device)",
				   wr->op.calc.calc_op, wr->op.calc.data_type, wr->op.calc.data_size,
				   (unsigned long)wr->exp_send_flags);
	if (!shca_takes_cross(q))
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: CALC on queue pair %#x, which was created without "
				   "IBV_EXP_QP_CREATE_CROSS_CHANNEL",
				   q->qp.qp_num);
	if (exp_post_is_inline(wr, op) || wr->num_sge < 1 || (c.vector && op == SHCA_OP_READ))
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: CALC with opcode %#x, %d segments, flags %#lx: operands are in at least "
				   "one segment and not inline (IBV_EXP_SEND_INLINE), and an RDMA READ has no vectors",
				   wr->exp_opcode, wr->num_sge, (unsigned long)wr->exp_send_flags);
	for (int i = 0; i < wr->num_sge; i++) {
		if (c.vector && wr->sg_list[i].length != wr->sg_list[0].length)
			return shca_refuse(EINVAL,
					   "ibv_exp_post_send: CALC of vectors: segment 0 has %u bytes, segment %d has %u; all "
					   "vectors of a request are of one length",
					   wr->sg_list[0].length, i, wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	if (c.vector)
		len = wr->sg_list[0].length;
	if (!len || len % shca_calc_unit(&c) || (c.vector && len > SHCA_CALC_VECTOR_MAX))
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: CALC of %lu bytes in operands of %u: the length must be a multiple of "
				   "these, not 0, and that of a vector at most %u",
				   (unsigned long)len, shca_calc_unit(&c), (unsigned)SHCA_CALC_VECTOR_MAX);
	return 0;
}

static void fill_calc(const struct ibv_exp_send_wr *wr, struct shca_req *req)
{
	struct shca_calc c;

	exp_post_calc_of(wr, &c);
	req->flags |= SHCA_WQE_CALC;
	req->arg[0] = shca_calc_word(&c);
	if (req->op != SHCA_OP_READ)
		req->len = c.vector ? wr->sg_list[0].length : 16;
}

static __attribute__((noinline, cold)) int exp_post_refused(const struct shca_user_qp *q, const struct ibv_exp_send_wr *wr,
							    int op)
{
	const struct shca_ask ask = {.opcode = (int)wr->exp_opcode, .op = op, .segments = (uint32_t)wr->num_sge,
				     .inline_bytes = exp_post_is_inline(wr, op) ? inline_bytes(wr) : 0};

	return shca_send_refused(q, "ibv_exp_post_send", &ask);
}

static int exp_post_fill_bind(const struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, struct shca_req *req)
{
	const struct ibv_exp_mw_bind_info *info = &wr->bind_mw.bind_info;
	const struct ibv_mw_bind_info plain = {.mr = info->mr, .addr = info->addr, .length = info->length,
					       .mw_access_flags = (unsigned int)info->exp_mw_access_flags};

	return shca_fill_bind(q, wr->bind_mw.mw, wr->bind_mw.rkey, &plain, req);
}

/* ---- memory keys --------------------------------------------------------------------------------------------------------- */

static bool exp_post_is_key(const struct ibv_exp_send_wr *wr)
{
	return wr->exp_opcode == IBV_EXP_WR_UMR_FILL || wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE;
}

/* The entries of a request that fills a key: into q->key_entries. */
static void key_conf_of(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, struct shca_mkey_conf *conf)
{
	const __typeof__(wr->ext_op.umr) *u = &wr->ext_op.umr;
	const bool repeats = u->umr_type == IBV_EXP_UMR_REPEAT;

	*conf = (struct shca_mkey_conf){
		.access_set = true, .layout_set = true, .access = (uint32_t)u->exp_access, .base = u->base_addr, .n = u->num_mrs,
		.repeat = repeats ? u->mem_list.rb.repeat_count[0] : 1, .entry = q->key_entries,
	};
	for (uint32_t i = 0; i < u->num_mrs; i++) {
		const struct ibv_exp_mem_region *m = &u->mem_list.mem_reg_list[i];
		const struct ibv_exp_mem_repeat_block *b = &u->mem_list.rb.mem_repeat_block_list[i];
		q->key_entries[i] =
			repeats ? (struct shca_mkey_entry){.addr = b->base_addr,
							   .len = b->byte_count[0],
							   .stride = b->stride[0],
							   .lkey = b->mr->lkey} :
				  (struct shca_mkey_entry){.addr = m->base_addr, .len = m->length, .lkey = m->mr->lkey};
	}
}

/* Checks a request that fills or invalidates a key, and takes the memory that its entries need. */
static int check_key(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr)
{
	const __typeof__(wr->ext_op.umr) *u = &wr->ext_op.umr;
	struct shca_mkey_conf conf;
	struct shca_seg seg;
	struct shca_req req = {.op = SHCA_OP_UMR};

	if (!q->fills_keys)
		return shca_refuse(
			EOPNOTSUPP,
			"ibv_exp_post_send: opcode %#x on queue pair %#x, which was created without IBV_EXP_QP_CREATE_UMR "
			"(exp_create_flags)",
			wr->exp_opcode, q->qp.qp_num);
	if (!u->modified_mr || u->modified_mr->context != q->qp.context || !((struct shca_user_mr *)u->modified_mr)->entries)
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: opcode %#x on queue pair %#x with modified_mr %p, which is no memory key "
				   "that ibv_exp_create_mr has made on the queue pair's context",
				   wr->exp_opcode, q->qp.qp_num, (void *)u->modified_mr);
	if (wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
		return 0;
	if (u->num_mrs > SHCA_MKEY_ENTRIES || !exp_key_list_sound(q->qp.context, wr))
		return shca_refuse(
			EINVAL,
			"ibv_exp_post_send: memory key %#x with umr_type %u and a list of %u: the list must name 1 to %u regions "
			"of the queue pair's context, with one dimension of strides if it repeats (stride_dim), and be in the "
			"request (IBV_EXP_SEND_INLINE) or in memory of ibv_exp_alloc_mkey_list_memory for as many",
			u->modified_mr->lkey, u->umr_type, u->num_mrs, SHCA_MKEY_ENTRIES);
	if (u->num_mrs > q->key_cap) {
		struct shca_mkey_entry *more = realloc(q->key_entries, u->num_mrs * sizeof(*more));
		if (!more)
			return shca_no_memory("ibv_exp_post_send");
		q->key_entries = more;
		q->key_cap = u->num_mrs;
	}
	key_conf_of(q, wr, &conf);
	return shca_fill_mkey(q, (struct shca_user_mr *)u->modified_mr, &conf, &req, &seg);
}

int shca_exp_check(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr)
{
	int op = exp_post_op_of(wr->exp_opcode), rc;

	if (op < 0)
		return shca_refuse(EINVAL, "ibv_exp_post_send: opcode %#x on queue pair %#x: the device does not execute it",
				   wr->exp_opcode, q->qp.qp_num);
	if (!q->ready)
		return shca_refuse(EINVAL,
				   "ibv_exp_post_send: queue pair %#x is in state %d: sends are posted from IBV_QPS_RTS (%d) on",
				   q->qp.qp_num, (int)shca_qp_state(q), IBV_QPS_RTS);
	if (exp_post_is_cross(op)) {
		if (!shca_takes_cross(q))
			return shca_refuse(EINVAL,
					   "ibv_exp_post_send: WAIT or ENABLE on queue pair %#x, which was created without "
					   "IBV_EXP_QP_CREATE_CROSS_CHANNEL, _MANAGED_SEND and _MANAGED_RECV",
					   q->qp.qp_num);
		if (op == SHCA_OP_WAIT)
			return wr->task.cqe_wait.cq && wr->task.cqe_wait.cq->context == q->qp.context &&
			       wr->task.cqe_wait.cq_count > 0 ? 0 :
			       shca_refuse(EINVAL,
					   "ibv_exp_post_send: WAIT on queue pair %#x for %d completions of CQ %p: the count "
					   "begins at 1, and the CQ must be one of the queue pair's context",
					   q->qp.qp_num, wr->task.cqe_wait.cq_count, (void *)wr->task.cqe_wait.cq);
		const struct shca_user_qp *t = (const struct shca_user_qp *)wr->task.wqe_enable.qp;
		if (!t || t->qp.context != q->qp.context || wr->task.wqe_enable.wqe_count < 0 ||
		    (op == SHCA_OP_RECV_EN && (!t->rq || t->srq)))
			return shca_refuse(
				EINVAL,
				"ibv_exp_post_send: %s_ENABLE on queue pair %#x of %d requests of queue pair %p: that one must "
				"be of the same context%s, and the count not negative",
				op == SHCA_OP_SEND_EN ? "SEND" : "RECV", q->qp.qp_num, wr->task.wqe_enable.wqe_count,
				(void *)wr->task.wqe_enable.qp,
				op == SHCA_OP_SEND_EN ? "" : " with a receive queue of its own");
		if (!(t->sh->flags & (op == SHCA_OP_SEND_EN ? SHCA_QP_MANAGED_SEND : SHCA_QP_MANAGED_RECV)))
			return shca_refuse(EINVAL,
					   "ibv_exp_post_send: %s_ENABLE of queue pair %#x, which was created without "
					   "IBV_EXP_QP_CREATE_MANAGED_%s",
					   op == SHCA_OP_SEND_EN ? "SEND" : "RECV", t->qp.qp_num,
					   op == SHCA_OP_SEND_EN ? "SEND" : "RECV");
		return 0;
	}
	/* before the look at sg_list and num_sge, which only requests that move data have */
	if (op >= SHCA_OP_NOP) {
		struct shca_req req;
		if (!shca_op_allowed(q, (uint8_t)op))
			return exp_post_refused(q, wr, op);
		if (exp_post_is_key(wr))
			return check_key(q, wr);
		return op == SHCA_OP_BIND_MW ? exp_post_fill_bind(q, wr, &req) : 0;
	}
	if ((uint32_t)wr->num_sge > q->max_sge)
		return exp_post_refused(q, wr, op);
	if (wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC) {
		rc = exp_post_check_calc(q, wr, op);
		if (rc)
			return rc;
	}
	if (exp_post_is_masked(op))
		return exp_post_check_masked(q, wr, op);
	if ((q->type == SHCA_QPT_DCI && !wr->dc.ah) || !shca_op_allowed(q, (uint8_t)op) ||
	    (q->type == IBV_QPT_UD && !wr->wr.ud.ah) || (exp_post_is_inline(wr, op) && inline_bytes(wr) > q->max_inline))
		return exp_post_refused(q, wr, op);
	return 0;
}

/* ---- counts and indexes ------------------------------------------------------------------------------------------------ */

static struct shca_context *exp_post_context_of(const struct shca_user_qp *q)
{
	return shca_context_of(q->qp.context);
}

/* The count of a queue in the task list that is being posted. */
static struct shca_task_count *count_of(const struct shca_context *c, struct shca_task_count *t)
{
	if (t->list != c->tasks)
		*t = (struct shca_task_count){.list = c->tasks};
	return t;
}

static uint64_t to_come(const struct shca_context *c, const struct shca_task_count *t)
{
	return t->list == c->tasks ? t->n : 0;
}

/* The index that an ENABLE of 0 enables up to: all posted requests, and those that the rest of its list will post. */
static uint64_t all_of(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr)
{
	const struct shca_context *c = exp_post_context_of(q);
	struct shca_user_qp *t = (struct shca_user_qp *)wr->task.wqe_enable.qp;

	return wr->exp_opcode == IBV_EXP_WR_SEND_ENABLE ?
		       __atomic_load_n(&t->pi, __ATOMIC_RELAXED) + to_come(c, &t->task) :
		       atomic_load(&t->rq->sh->tail) + to_come(c, &t->rq->task);
}

/* Returns the absolute index of a WAIT or ENABLE of `count`: count from the base, or `all` if count is 0. Requests of one group
 * have the same base; the last of the group (IBV_EXP_SEND_WAIT_EN_LAST) moves the base to the group's largest index. */
static uint64_t exp_post_index_of(struct shca_index *x, const struct ibv_exp_send_wr *wr, uint64_t count, uint64_t all)
{
	uint64_t index = count ? x->base + count : all;

	if (index > x->most)
		x->most = index;
	if (wr->exp_send_flags & IBV_EXP_SEND_WAIT_EN_LAST)
		x->base = x->most;
	return index;
}

int shca_exp_reserve(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, uint64_t ahead, bool list)
{
	int op = exp_post_op_of(wr->exp_opcode);

	/* a single request that finds no memory is refused then; one of a list must not be, nor one that has moved an index */
	if ((list || exp_post_is_cross(op)) && shca_reserve_ring(q))
		return ENOMEM;	/* said: shca_mem_alloc */
	if (op == SHCA_OP_WAIT)
		return shca_wait_reserve((struct shca_user_cq *)wr->task.cqe_wait.cq, exp_post_context_of(q)->tasks);
	if (list && op == SHCA_OP_UMR)
		return shca_reserve_inline(q, ahead, wr->ext_op.umr.num_mrs * sizeof(struct shca_mkey_entry));
	if (list && exp_post_is_masked(op) && operands_pointed_to(wr))
		return shca_reserve_operands(q, ahead, operands(op) * operand_size(wr));
	return list && exp_post_is_inline(wr, op) ? shca_reserve_inline(q, ahead, inline_bytes(wr)) : 0;
}

static void fill_wait(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, const uint64_t *index,
		      struct shca_req *req)
{
	struct shca_user_cq *cq = (struct shca_user_cq *)wr->task.cqe_wait.cq;

	req->raddr = cq->off;
	req->dqpn = cq->sh->cqn;
	req->arg[0] = index ? *index : exp_post_index_of(&cq->waited, wr, (uint64_t)wr->task.cqe_wait.cq_count, 0);
	shca_wait_note(thr, cq, q, req->arg[0]);
}

static void fill_enable(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, const uint64_t *index, struct shca_req *req)
{
	struct shca_user_qp *t = (struct shca_user_qp *)wr->task.wqe_enable.qp;
	struct shca_index *x = req->op == SHCA_OP_SEND_EN ? &t->enabled : &t->rq->enabled;

	req->raddr = t->off;
	req->dqpn = t->sh->qpn;
	req->arg[0] = index ? *index : exp_post_index_of(x, wr, (uint64_t)wr->task.wqe_enable.wqe_count, all_of(q, wr));
}

static void fill_masked(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, struct shca_req *req, struct shca_seg *segs)
{
	const struct ibv_exp_cmp_swap *cs = &wr->ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
	const struct ibv_exp_fetch_add *fa = &wr->ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	uint32_t size = operand_size(wr), n = operands(req->op), ignored;
	uint64_t low = size == 4 ? UINT32_MAX : UINT64_MAX;
	int results = operands_inline(wr) ? wr->num_sge : 1;

	req->raddr = wr->ext_op.masked_atomics.remote_addr;
	req->rkey = wr->ext_op.masked_atomics.rkey;
	req->imm = size;
	if (req->op == SHCA_OP_MASKED_CAS) {
		req->arg[0] = cs->compare_val & low;
		req->arg[1] = cs->compare_mask & low;
		req->arg[2] = cs->swap_val & low;
		req->arg[3] = cs->swap_mask & low;
	} else {
		req->arg[0] = fa->add_val & low;
		req->arg[1] = fa->field_boundary & low;
	}
	req->nsge = (uint8_t)results;
	req->bad = shca_resolve_list(q, wr->sg_list, results, true, segs, &req->len);
	req->len = size;
	if (operands_inline(wr) && size <= 8)
		return;
	req->flags |= SHCA_WQE_OPERANDS;
	if (operands_pointed_to(wr)) {
		req->flags |= SHCA_WQE_OPERANDS_NOW;
		for (uint32_t i = 0; i < n; i++)
			segs[results + (int)i] = (struct shca_seg){.where = req->arg[i], .len = size, .lane = SHCA_LANE_CMA};
	} else {
		n = (uint32_t)(wr->num_sge - 1);
		uint8_t bad = shca_resolve_list(q, wr->sg_list + 1, (int)n, false, segs + 1, &ignored);
		if (bad)
			req->bad = bad;
	}
	req->nsge = (uint8_t)(req->nsge + n);
	req->qkey = n;
}

void shca_exp_fill(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, const uint64_t *index,
		   struct shca_req *req, struct shca_seg *segs)
{
	memset(req, 0, sizeof(*req));
	req->op = (uint8_t)exp_post_op_of(wr->exp_opcode);
	req->flags = (wr->exp_send_flags & IBV_EXP_SEND_SIGNALED ? SHCA_WQE_SIGNALED : 0) |
		     (wr->exp_send_flags & IBV_EXP_SEND_SOLICITED ? SHCA_WQE_SOLICITED : 0);
	req->imm = wr->ex.imm_data;
	req->sge = segs;
	if (req->op == SHCA_OP_WAIT) {
		fill_wait(thr, q, wr, index, req);
		return;
	}
	if (exp_post_is_cross(req->op)) {
		fill_enable(q, wr, index, req);
		return;
	}
	if (req->op >= SHCA_OP_NOP) {
		if (req->op == SHCA_OP_BIND_MW)
			exp_post_fill_bind(q, wr, req);
		if (wr->exp_opcode == IBV_EXP_WR_UMR_INVALIDATE)
			req->imm = wr->ext_op.umr.modified_mr->rkey;
		if (req->op == SHCA_OP_UMR) {
			struct shca_mkey_conf conf;
			key_conf_of(q, wr, &conf);
			shca_fill_mkey(q, (struct shca_user_mr *)wr->ext_op.umr.modified_mr, &conf, req, segs);
		}
		return;
	}
	if (exp_post_is_masked(req->op)) {
		fill_masked(q, wr, req, segs);
		return;
	}
	req->nsge = (uint8_t)wr->num_sge;
	if (exp_post_is_inline(wr, req->op)) {
		shca_send_inline(req, wr->sg_list, wr->num_sge, segs);
		req->inl = NULL;	/* a WRITE by segments costs fewer instructions */
	} else
		req->bad = shca_resolve_list(q, wr->sg_list, wr->num_sge, shca_op_writes_here(req->op), segs, &req->len);
	req->raddr = wr->wr.rdma.remote_addr;
	req->rkey = wr->wr.rdma.rkey;
	if (wr->exp_send_flags & IBV_EXP_SEND_WITH_CALC)
		fill_calc(wr, req);
	if (req->op == SHCA_OP_CAS || req->op == SHCA_OP_FAA)
		shca_send_atomic(req, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey, wr->wr.atomic.compare_add,
				 wr->wr.atomic.swap);
	if (q->type == IBV_QPT_UD) {
		const struct shca_user_ah *ah = (const struct shca_user_ah *)wr->wr.ud.ah;
		shca_set_ud_address(req, ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	} else if (q->type == IBV_QPT_XRC_SEND) {
		req->dqpn = wr->qp_type.xrc.remote_srqn;
	} else if (q->type == SHCA_QPT_DCI) {
		const struct shca_user_ah *ah = (const struct shca_user_ah *)wr->dc.ah;
		req->dqpn = shca_destination(ah, wr->dc.dct_number);
		req->arg[3] = wr->dc.dct_access_key;
	}
}

/* One request that was reserved. */
static int exp_post_post_one(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_exp_send_wr *wr)
{
	struct shca_seg segs[SHCA_EXP_SEGS];
	struct shca_send send;

	send.wr_id = wr->wr_id;
	shca_exp_fill(thr, q, wr, NULL, &send.req, segs);
	return shca_submit(thr, q, &send);
}

void shca_run_posted(struct shca_thread *thr, struct shca_user_qp *q)
{
	if (atomic_load(&q->sh->shared))
		shca_kick_later(thr, q);
	shca_drain(thr);
}

/* Posts a list. Must hold q->lock, and `cross` if q takes cross-channel requests. */
static int post_sends(struct shca_thread *thr, struct shca_user_qp *q, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad)
{
	int rc = 0;

	for (; wr; wr = wr->next) {
		*bad = wr;
		rc = shca_exp_check(q, wr);
		if (rc)
			break;
		/* requests posted before may only have to run */
		if (!shca_send_room(q) && q->defer_kick)
			shca_run_posted(thr, q);
		/* before any count changes: a WAIT moves the index of its CQ, an ENABLE that of the enabled queue */
		rc = shca_send_room(q) ? shca_exp_reserve(q, wr, 0, false) : shca_full(q, 1);
		if (!rc)
			rc = exp_post_post_one(thr, q, wr);
		if (rc)
			break;
	}
	return rc;
}

int shca_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad)
{
	struct shca_user_qp *q = exp_post_lqp_of(qp);
	struct shca_context *c = exp_post_context_of(q);

	*bad = wr;
	if (unlikely(shca_inherited(qp->context)))
		return errno;
	struct shca_thread *thr = shca_thread_get(q->m);
	bool cross = shca_takes_cross(q);
	if (!thr)
		return shca_no_memory("ibv_exp_post_send");
	if (cross)
		pthread_mutex_lock(&c->cross);
	shca_lock(&q->lock);
	shca_enter(thr);
	/* nothing runs while `cross` is held: other threads wait for `cross` */
	q->defer_kick = cross;
	int rc = post_sends(thr, q, wr, bad);
	q->defer_kick = false;
	if (cross) {
		pthread_mutex_unlock(&c->cross);
		shca_run_posted(thr, q);
	}
	shca_leave(thr);
	shca_unlock(&q->lock);
	return rc;
}

/* ---- task lists ---------------------------------------------------------------------------------------------------- */

static void lock_once(struct shca_task_count *t, struct shca_lock *l)
{
	if (!t->locked)
		shca_lock(l);
	t->locked = true;
}

static void unlock_once(struct shca_task_count *t, struct shca_lock *l)
{
	if (t->locked)
		shca_unlock(l);
	t->locked = false;
}

/* Locks the queues of the list, each once; *bad: the first task that names none. */
static int lock_list(struct shca_context *c, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	for (; task; task = task->next) {
		*bad = task;
		if (!task->item.qp || task->item.qp->context != &c->v.context)
			return shca_refuse(EINVAL,
					   "ibv_exp_post_task: a task for queue pair %p: a list's queue pairs are all of the "
					   "context that the call has",
					   (void *)task->item.qp);
		struct shca_user_qp *q = exp_post_lqp_of(task->item.qp);
		if (task->task_type == IBV_EXP_TASK_SEND) {
			lock_once(count_of(c, &q->task), &q->lock);
		} else if (task->task_type == IBV_EXP_TASK_RECV) {
			if (!shca_takes_receives(q))
				return shca_refuse(EINVAL, "ibv_exp_post_task: receives for queue pair %#x: %s", q->qp.qp_num,
						   shca_no_receives(q));
			lock_once(count_of(c, &q->rq->task), &q->rq->lock);
		} else {
			return shca_refuse(EINVAL, "ibv_exp_post_task: a task of type %d: IBV_EXP_TASK_SEND (%d) or _RECV (%d)",
					   task->task_type, IBV_EXP_TASK_SEND, IBV_EXP_TASK_RECV);
		}
	}
	return 0;
}

/* end: where lock_list stopped; NULL: nowhere. */
static void unlock_list(struct shca_context *c, struct ibv_exp_task *task, const struct ibv_exp_task *end)
{
	for (; task != end; task = task->next) {
		struct shca_user_qp *q = exp_post_lqp_of(task->item.qp);
		if (task->task_type == IBV_EXP_TASK_SEND && q->task.locked) {
			/* reserved for requests that need not wait */
			if (q->nlongs && !atomic_load(&q->sh->shared))
				shca_longs_free(q);
			unlock_once(&q->task, &q->lock);
		} else if (task->task_type == IBV_EXP_TASK_RECV)
			unlock_once(&q->rq->task, &q->rq->lock);
	}
	/* counts of a refused list end here */
	c->tasks++;
}

static int exp_post_count_task(struct ibv_exp_task *task)
{
	struct shca_user_qp *q = exp_post_lqp_of(task->item.qp);

	if (task->task_type == IBV_EXP_TASK_RECV) {
		struct shca_user_rq *rq = q->rq;
		if (shca_user_rq_reserve(q->m, rq))
			return shca_no_memory("ibv_exp_post_task");
		for (struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next) {
			if ((uint32_t)wr->num_sge > rq->max_sge)
				return shca_refuse(EINVAL,
						   "ibv_exp_post_task: a receive of %d segments, queue pair %#x was created for "
						   "%u (max_recv_sge)",
						   wr->num_sge, q->qp.qp_num, rq->max_sge);
			rq->task.n++;
		}
		uint64_t room = rq->max_wr - (rq->size - (rq->fifo_tail - rq->fifo_head));
		return rq->task.n <= room ? 0 :
		       shca_refuse(ENOMEM,
				   "ibv_exp_post_task: %lu receives, queue pair %#x has room for %lu of %u (max_recv_wr): poll "
				   "completions of earlier ones first",
				   (unsigned long)rq->task.n, q->qp.qp_num, (unsigned long)room, rq->max_wr);
	}
	for (struct ibv_exp_send_wr *wr = task->item.send_wr; wr; wr = wr->next) {
		int rc = shca_exp_check(q, wr);
		if (rc)
			return rc;
		q->task.n++;
	}
	return q->task.n > shca_send_room(q) ? shca_full(q, q->task.n) : 0;
}

/* Refuses here everything that can be refused: nothing is posted yet. First every task counts, since an ENABLE may stand before
 * the requests that it enables; then each request is reserved. */
static int check_list(struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	int rc = 0;

	for (struct ibv_exp_task *t = task; t && !rc; t = t->next) {
		*bad = t;
		rc = exp_post_count_task(t);
	}
	for (struct ibv_exp_task *t = task; t && !rc; t = t->next) {
		if (t->task_type != IBV_EXP_TASK_SEND)
			continue;
		*bad = t;
		for (struct ibv_exp_send_wr *wr = t->item.send_wr; wr && !rc; wr = wr->next) {
			struct shca_user_qp *q = exp_post_lqp_of(t->item.qp);
			rc = shca_exp_reserve(q, wr, q->task.reserved++, true);
		}
	}
	return rc;
}

static int exp_post_post_list(struct shca_thread *thr, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	int rc = 0;

	for (; task && !rc; task = task->next) {
		struct shca_user_qp *q = exp_post_lqp_of(task->item.qp);
		*bad = task;
		if (task->task_type == IBV_EXP_TASK_RECV) {
			struct ibv_recv_wr *bad_recv;
			for (struct ibv_recv_wr *wr = task->item.recv_wr; wr; wr = wr->next)
				q->rq->task.n--;
			rc = shca_receives_post(thr, q->rq, q->pd_number, task->item.recv_wr, &bad_recv);
			continue;
		}
		q->defer_kick = true;
		for (struct ibv_exp_send_wr *wr = task->item.send_wr; wr && !rc; wr = wr->next) {
			rc = exp_post_post_one(thr, q, wr);
			/* behind the post: an ENABLE of its own queue counts itself as posted */
			q->task.n--;
		}
		q->defer_kick = false;
	}
	return rc;
}

/* Makes the posted sends runnable, and the flush of receives whose queue is in error. */
static void kick_list(struct shca_thread *thr, const struct ibv_exp_task *task)
{
	for (; task; task = task->next) {
		struct shca_user_qp *q = exp_post_lqp_of(task->item.qp);
		if (task->task_type == IBV_EXP_TASK_SEND ? atomic_load(&q->sh->shared) != 0 :
							   shca_flushes(q->sh))
			shca_kick_later(thr, q);
	}
	shca_drain(thr);
}

/* ibv_exp_post_task. Holds the locks of all queues of the list from the check to the post: requests of other threads cannot take
 * the room that was found. */
int shca_exp_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad)
{
	struct shca_context *c = shca_context_of(ctx);

	*bad = task;
	if (unlikely(shca_inherited(ctx)))
		return errno;
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return shca_no_memory("ibv_exp_post_task");
	pthread_mutex_lock(&c->cross);
	shca_enter(thr);
	int rc = lock_list(c, task, bad);
	const struct ibv_exp_task *locked = rc ? *bad : NULL;
	if (!rc)
		rc = check_list(task, bad);
	bool posts = !rc;
	if (posts)
		rc = exp_post_post_list(thr, task, bad);
	unlock_list(c, task, locked);
	pthread_mutex_unlock(&c->cross);
	if (posts)
		kick_list(thr, task);
	shca_leave(thr);
	return rc;
}
