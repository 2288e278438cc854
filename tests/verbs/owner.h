/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of keys that an owner gives to its peers, memory windows and indirect memory keys: registered memories, and connected
 * queue pairs of one process.
 */
#ifndef TESTS_VERBS_OWNER_H
#define TESTS_VERBS_OWNER_H

#include "vt.h"

static struct vt t;
static struct ibv_cq *cq;

struct memory {
	char *p;
	struct ibv_mr *mr;
};

/* Two connected queue pairs: the owner's, by which it binds windows or configures keys, and the requester's. */
struct pair {
	struct ibv_qp *owner, *peer;
};

/* For a queue pair whose requests are made by ibv_wr_*(). */
static inline struct ibv_qp_init_attr_ex owner_attr(enum ibv_qp_type type, struct ibv_pd *pd, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
}

static inline void drop(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.owner) && !ibv_destroy_qp(p.peer), "destroy");
}

static inline void memory_make(struct memory *m, bool private, uint32_t len, unsigned access)
{
	m->p = private ? aligned_alloc(4096, len) : shca_alloc(t.ctx, len);
	CHECK(m->p, "memory");
	memset(m->p, 0, len);
	m->mr = vt_mr(&t, m->p, len, access);
}

#endif
