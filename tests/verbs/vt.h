/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the tests of verbs on the software device: objects, connections, completions; everything is bounded. */
#ifndef VT_H
#define VT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shca.h"

#define CHECK(cond, ...)                                                                                           \
	do {                                                                                                        \
		if (!(cond))                                                                                         \
			vt_fail(__FILE__, __LINE__, #cond, __VA_ARGS__);                                               \
	} while (0)

static inline __attribute__((noreturn)) void vt_fail(const char *file, int line, const char *cond, const char *fmt, ...)
{
	va_list ap;
	fprintf(stderr, "%s:%d: %s: ", file, line, cond);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (errno %d: %s)\n", errno, strerror(errno));
	exit(1);
}

struct vt {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

/* Each test has a fabric of its own, apart from other tests on this machine. Processes forked later share it. */
static inline void vt_fabric(void)
{
	char name[64];
	snprintf(name, sizeof name, "vt-%d", (int)getpid());
	CHECK(!setenv("SHCA_FABRIC", name, 1), "setenv");
	alarm(120);
}

static inline struct ibv_context *vt_context(void)
{
	int n = 0;
	struct ibv_device **list = shca_get_device_list(&n);
	CHECK(list && n == 1, "%d devices", n);
	struct ibv_context *ctx = ibv_open_device(list[0]);
	CHECK(ctx, "ibv_open_device");
	shca_free_device_list(list);
	return ctx;
}

/* Whether the experimental verbs are the provider mlx5's, which lacks the operations that an adapter lacks
 * (tests/verbs/exp_mlx5.sh). */
static inline bool vt_mlx5(void)
{
	const char *s = getenv("SHCA_EXP_PROVIDER");
	return s && !strcmp(s, "mlx5");
}

static inline struct vt vt_open(void)
{
	struct vt t = { .ctx = vt_context() };
	t.pd = ibv_alloc_pd(t.ctx);
	CHECK(t.pd, "ibv_alloc_pd");
	return t;
}

static inline void vt_close(struct vt *t)
{
	int err = ibv_dealloc_pd(t->pd);
	CHECK(!err, "ibv_dealloc_pd: %d", err);
	CHECK(!ibv_close_device(t->ctx), "ibv_close_device");
}

static inline struct ibv_cq *vt_cq(struct vt *t, int n, struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq = ibv_create_cq(t->ctx, n, NULL, ch, 0);
	CHECK(cq, "ibv_create_cq");
	return cq;
}

static inline struct ibv_qp *vt_qp(struct vt *t, enum ibv_qp_type type, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = type,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4,
				.max_inline_data = 128 },
	};
	struct ibv_qp *qp = ibv_create_qp(t->pd, &a);
	CHECK(qp, "ibv_create_qp %d", type);
	return qp;
}

#define VT_ACCESS                                                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define VT_QKEY 0x1234

static inline int vt_init_access(struct ibv_qp *qp, unsigned int access)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .pkey_index = 0, .qkey = VT_QKEY, .qp_access_flags = access,
	};
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				     (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}
static inline int vt_init(struct ibv_qp *qp)
{
	return vt_init_access(qp, VT_ACCESS);
}

static inline struct ibv_qp_attr vt_rtr_attr(uint32_t dest)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest, .rq_psn = 1,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = { .dlid = 1, .port_num = 1 },
	};
}
#define VT_RTR_RC                                                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
	 IBV_QP_MIN_RNR_TIMER)
#define VT_RTR_UC (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define VT_RTS_RC                                                                                                   \
	(IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static inline int vt_rtr_mask(const struct ibv_qp *qp)
{
	switch (qp->qp_type) {
	case IBV_QPT_UD: return IBV_QP_STATE;
	case IBV_QPT_UC:
	case IBV_QPT_XRC_SEND: return VT_RTR_UC;
	default: return VT_RTR_RC;
	}
}
static inline int vt_rts_mask(const struct ibv_qp *qp)
{
	switch (qp->qp_type) {
	case IBV_QPT_UD:
	case IBV_QPT_UC: return IBV_QP_STATE | IBV_QP_SQ_PSN;
	case IBV_QPT_XRC_RECV: return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	default: return VT_RTS_RC;
	}
}
static inline struct ibv_qp_attr vt_rts_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 1, .timeout = 8, .retry_cnt = 3, .rnr_retry = 7,
				     .max_rd_atomic = 1 };
}

static inline void vt_rtr_rts(struct ibv_qp *qp, uint32_t dest, struct ibv_qp_attr rts)
{
	struct ibv_qp_attr rtr = vt_rtr_attr(dest);
	int err = ibv_modify_qp(qp, &rtr, vt_rtr_mask(qp));
	CHECK(!err, "RTR: %d", err);
	err = ibv_modify_qp(qp, &rts, vt_rts_mask(qp));
	CHECK(!err, "RTS: %d", err);
}

static inline void vt_connect(struct ibv_qp *qp, uint32_t dest)
{
	int err = vt_init(qp);
	CHECK(!err, "INIT: %d", err);
	vt_rtr_rts(qp, dest, vt_rts_attr());
}

static inline void vt_connect_pair(struct ibv_qp *a, struct ibv_qp *b)
{
	vt_connect(a, b->qp_num);
	vt_connect(b, a->qp_num);
}

static inline enum ibv_qp_state vt_state(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_STATE, &i), "ibv_query_qp");
	return a.qp_state;
}

static inline int vt_to(struct ibv_qp *qp, enum ibv_qp_state s)
{
	struct ibv_qp_attr a = { .qp_state = s };
	return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

static inline uint64_t vt_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The next completion, within a minute. */
static inline struct ibv_wc vt_wait(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	uint64_t end = vt_ms() + 60000;
	for (;;) {
		int n = ibv_poll_cq(cq, 1, &wc);
		CHECK(n >= 0, "ibv_poll_cq: %d", n);
		if (n)
			return wc;
		CHECK(vt_ms() < end, "no completion within a minute");
		sched_yield();
	}
}
#ifdef INFINIBAND_VERBS_EXP_H
static inline struct ibv_exp_wc vt_exp_wait(struct ibv_cq *cq)
{
	struct ibv_exp_wc wc;
	uint64_t end = vt_ms() + 60000;

	for (;;) {
		int n = ibv_exp_poll_cq(cq, 1, &wc, sizeof wc);
		CHECK(n >= 0, "ibv_exp_poll_cq: %d", n);
		if (n)
			return wc;
		CHECK(vt_ms() < end, "no completion within a minute");
		sched_yield();
	}
}
#endif
static inline struct ibv_wc vt_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.wr_id == wr_id && wc.status == status, "got %lu %s, expected %lu %s", (unsigned long)wc.wr_id,
	      ibv_wc_status_str(wc.status), (unsigned long)wr_id, ibv_wc_status_str(status));
	return wc;
}
static inline void vt_none(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(cq, 1, &wc);
	CHECK(n >= 0, "ibv_poll_cq: %d", n);
	CHECK(n == 0, "unexpected completion %lu %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static inline struct ibv_mr *vt_mr(struct vt *t, void *p, size_t n, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(t->pd, p, n, access);
	CHECK(mr, "ibv_reg_mr %p %zu", p, n);
	return mr;
}

static inline struct ibv_sge vt_sge(const struct ibv_mr *mr, size_t offset, uint32_t n)
{
	return (struct ibv_sge){ .addr = (uintptr_t)mr->addr + offset, .length = n, .lkey = mr->lkey };
}

static inline int vt_recv(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0 }, *bad;
	return ibv_post_recv(qp, &wr, &bad);
}
static inline int vt_srq_recv(struct ibv_srq *srq, uint64_t id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0 }, *bad;
	return ibv_post_srq_recv(srq, &wr, &bad);
}
static inline int vt_send(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0, .opcode = IBV_WR_SEND,
				  .send_flags = flags }, *bad;
	return ibv_post_send(qp, &wr, &bad);
}
static inline int vt_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t id, struct ibv_sge sge, uint64_t raddr,
			  uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.length ? 1 : 0, .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = raddr, .rkey = rkey } }, *bad;
	return ibv_post_send(qp, &wr, &bad);
}

/* ---- two processes ------------------------------------------------------------------------------------------ */

struct vt_peer {
	int fd[2];			/* read, write */
	pid_t child;			/* of the parent; 0 in the child */
};

/* Forks; both sides then open the device for themselves. */
static inline struct vt_peer vt_fork(void)
{
	int a[2], b[2];
	CHECK(!pipe(a) && !pipe(b), "pipe");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (pid) {
		close(a[0]);
		close(b[1]);
		return (struct vt_peer){ .fd = { b[0], a[1] }, .child = pid };
	}
	alarm(120);
	close(a[1]);
	close(b[0]);
	return (struct vt_peer){ .fd = { a[0], b[1] } };
}

static inline void vt_tell(struct vt_peer *p, const void *data, size_t n)
{
	CHECK(write(p->fd[1], data, n) == (ssize_t)n, "pipe write");
}
static inline void vt_hear(struct vt_peer *p, void *data, size_t n)
{
	CHECK(read(p->fd[0], data, n) == (ssize_t)n, "pipe read: the other process is gone?");
}
static inline void vt_meet(struct vt_peer *p)
{
	char c = 0;
	vt_tell(p, &c, 1);
	vt_hear(p, &c, 1);
}
/* The child's end: the parent checks its status. */
static inline int vt_join(struct vt_peer *p)
{
	int status;
	if (!p->child)
		return 0;
	CHECK(waitpid(p->child, &status, 0) == p->child, "waitpid");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", status);
	return 0;
}

#endif
