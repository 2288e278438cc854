/* SPDX-License-Identifier: BSD-3-Clause */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void rig_fail(const char *file, int line, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	const char *base = strrchr(file, '/');

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "FAIL: %s:%d: pid %d: %s\n", base ? base + 1 : file, line, (int)getpid(), text);
	fflush(NULL);
	abort();
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static void open_context(struct rig *r)
{
	r->ctx = shca_open_member(r->node);
	CHECK(r->ctx);
	r->pd = shca_alloc_pd(r->ctx);
	CHECK(r->pd);
}

void rig_virtual(struct rig *r, struct rig *first)
{
	memset(r, 0, sizeof(*r));
	r->is_virtual = true;
	r->node = calloc(1, sizeof(*r->node));
	CHECK(r->node);
	r->m = &r->node->m;
	int err = first ? shca_fabric_attach(r->m, first->m) : shca_fabric_anonymous(r->m);
	if (err)
		FAIL("fabric: %s", strerror(-err));
	shca_engine_attach(r->m);
	pthread_mutex_init(&r->node->mutex, NULL);
	r->node->bell = shca_fd_note(shca_bell_open(r->m, r->m->proc->async_addr));
	CHECK(r->node->bell.n >= 0);
	r->m->local = calloc(1, sizeof(struct shca_local));
	CHECK(r->m->local);
	/* one reference more than contexts: the node is ours, not the device's */
	r->node->refs = 2;
	open_context(r);
}

void rig_virtual_leave(struct rig *r)
{
	struct shca_local *local = r->m->local;

	CHECK(!shca_dealloc_pd(r->pd));
	CHECK(!shca_close_device(r->ctx));
	r->m->proc->async_addr[0] = 0;
	shca_fd_close(&r->node->bell);
	shca_engine_leave(r->m);
	for (uint32_t i = 0; i < SHCA_QP_SEGS; i++)
		free(atomic_load(&local->seg[i]));
	free(local);
	free(r->m->cross);
	pthread_mutex_destroy(&r->node->mutex);
	free(r->node);
}

void rig_join(struct rig *r, const char *name)
{
	int n;

	memset(r, 0, sizeof(*r));
	CHECK(!setenv("SHCA_FABRIC", name, 1));
	struct ibv_device **list = shca_own_device_list(&n);
	CHECK(list && n > 0);
	r->ctx = shca_open_device(list[0]);
	CHECK(r->ctx);
	free(list);
	r->node = shca_context_of(r->ctx)->node;
	r->m = &r->node->m;
	r->pd = shca_alloc_pd(r->ctx);
	CHECK(r->pd);
}

void rig_leave(struct rig *r)
{
	CHECK(!shca_dealloc_pd(r->pd));
	CHECK(!shca_close_device(r->ctx));
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

struct ibv_cq *rig_cq(struct rig *r, int entries, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = shca_create_cq(r->ctx, entries, NULL, channel, 0);
	CHECK(cq);
	return cq;
}

struct ibv_qp *rig_qp(struct rig *r, const struct rig_qp_attr *a)
{
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = a->scq, .recv_cq = a->rcq, .srq = a->srq,
		.cap = {.max_send_wr = a->send_wr, .max_recv_wr = a->recv_wr, .max_send_sge = a->sge,
			.max_recv_sge = a->sge, .max_inline_data = a->inl},
		.qp_type = a->type, .sq_sig_all = a->sig_all,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = r->pd,
		.exp_create_flags = a->exp_flags,
	};
	if (a->max_atomic) {
		attr.comp_mask |= IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
		attr.max_atomic_arg = a->max_atomic;
	}
	struct ibv_qp *qp = shca_own_exp_provider.create_qp(r->ctx, &attr);
	CHECK(qp);
	return qp;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	return shca_modify_qp(qp, a, mask | IBV_QP_STATE);
}

static void must(int err, const char *what)
{
	if (err)
		FAIL("modify_qp to %s: %s", what, strerror(err));
}

void rig_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RIG_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	must(modify(qp, &a, IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
	     "INIT");
}

static int to_rtr(struct ibv_qp *qp, const struct rig_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = p->dest_qpn,
		.ah_attr = {.dlid = SHCA_LID, .port_num = 1}, .max_dest_rd_atomic = 1,
		.min_rnr_timer = p->min_rnr_timer,
	};
	return modify(qp, &a, qp->qp_type == IBV_QPT_UD ? 0 :
				      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, const struct rig_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS, .timeout = p->timeout, .retry_cnt = p->retry_cnt, .rnr_retry = p->rnr_retry,
		.max_rd_atomic = 1,
	};
	return modify(qp, &a, qp->qp_type == IBV_QPT_UD ? IBV_QP_SQ_PSN :
				      IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC);
}

void rig_rtr(struct ibv_qp *qp, const struct rig_path *p)
{
	must(to_rtr(qp, p), "RTR");
}

void rig_rts(struct ibv_qp *qp, const struct rig_path *p)
{
	must(to_rts(qp, p), "RTS");
}

int rig_try_connect(struct ibv_qp *qp, const struct rig_path *p)
{
	int err = to_rtr(qp, p);
	return err ? err : to_rts(qp, p);
}

void rig_connect(struct ibv_qp *p, struct ibv_qp *q, const struct rig_path *path)
{
	struct rig_path to_q = *path, to_p = *path;

	to_q.dest_qpn = q->qp_num;
	to_p.dest_qpn = p->qp_num;
	rig_init(p);
	rig_init(q);
	rig_rtr(p, &to_q);
	rig_rtr(q, &to_p);
	rig_rts(p, &to_q);
	rig_rts(q, &to_p);
}

struct ibv_qp *rig_raw_qp(struct rig *r, const struct rig_qp_attr *a)
{
	struct ibv_qp_init_attr qa = {
		.send_cq = a->scq, .recv_cq = a->rcq, .srq = a->srq, .qp_type = IBV_QPT_RAW_PACKET,
		.cap = {.max_send_wr = a->send_wr, .max_recv_wr = a->recv_wr, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_qp *qp = shca_create_qp(r->pd, &qa);

	CHECK(qp);
	return qp;
}

void rig_raw_ready(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port};

	CHECK(!shca_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT));
	for (a.qp_state = IBV_QPS_RTR; a.qp_state <= IBV_QPS_RTS; a.qp_state++)
		CHECK(!shca_modify_qp(qp, &a, IBV_QP_STATE));
}

struct ibv_qp *rig_dc_qp(struct rig *r, struct ibv_cq *cq, struct ibv_srq *srq, uint64_t send_ops)
{
	struct ibv_qp_init_attr_ex a = {.qp_type = IBV_QPT_DRIVER, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = r->pd, .send_cq = cq,
					.recv_cq = cq, .srq = srq};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
					 .dc_init_attr = {.dc_type = srq ? MLX5DV_DCTYPE_DCT : MLX5DV_DCTYPE_DCI}};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags =
				   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	if (srq) {
		dv.dc_init_attr.dct_access_key = RIG_DC_KEY;
	} else {
		a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		a.send_ops_flags = send_ops;
		a.cap = (struct ibv_qp_cap){.max_send_wr = 16, .max_send_sge = 1, .max_inline_data = 16};
	}
	struct ibv_qp *qp = shca_dv_create_qp(r->ctx, &a, &dv);
	CHECK(qp && !shca_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (srq ? IBV_QP_ACCESS_FLAGS : 0)));
	return qp;
}

void rig_dc_ready(struct ibv_qp *qp, bool target)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
				   .ah_attr = {.dlid = SHCA_LID, .port_num = 1}, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				   .max_rd_atomic = 1};

	CHECK(!shca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU | (target ? IBV_QP_AV | IBV_QP_MIN_RNR_TIMER : 0)));
	attr.qp_state = IBV_QPS_RTS;
	if (!target)
		CHECK(!shca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

struct ibv_qp *rig_small_qp(struct rig *r, enum ibv_qp_type type, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq,
			    uint32_t exp_flags)
{
	struct rig_qp_attr q = {.type = type, .exp_flags = exp_flags, .scq = scq, .rcq = rcq, .srq = srq, .send_wr = 8,
				.recv_wr = srq ? 0 : 8, .sge = 2, .inl = 64};

	return rig_qp(r, &q);
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static inline uint8_t byte_at(uint64_t seed, size_t i)
{
	uint64_t x = (seed + (i >> 3)) * 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	return (uint8_t)(x >> (8 * (i & 7)));
}

void rig_fill(void *p, size_t n, uint64_t seed)
{
	uint8_t *b = p;
	for (size_t i = 0; i < n; i++)
		b[i] = byte_at(seed, i);
}

long rig_check(const void *p, size_t n, uint64_t seed)
{
	const uint8_t *b = p;
	for (size_t i = 0; i < n; i++)
		if (b[i] != byte_at(seed, i))
			return (long)i;
	return -1;
}

uint32_t rig_chunks(const struct shca_member *m, uint32_t slot)
{
	const _Atomic uint32_t *owner = (const _Atomic uint32_t *)(m->base + m->hdr->chunks);
	uint32_t n = 0, high = atomic_load(&m->hdr->chunk_high);

	for (uint32_t i = m->hdr->first_chunk; i < high; i++)
		n += atomic_load(&owner[i]) == slot + 1;
	return n;
}

void rig_nap(void)
{
	struct timespec t = {0, 500000};
	nanosleep(&t, NULL);
}

pid_t rig_child(void (*role)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		alarm(60);
		role();
		_exit(0);
	}
	return pid;
}

void rig_await(_Atomic uint32_t *what, uint32_t value)
{
	for (int i = 0; atomic_load(what) < value; i++, rig_nap())
		if (i > 40000)
			FAIL("a process of the test does not come");
}

bool rig_is_inside(const struct shca_member *m, uint32_t slot)
{
	for (uint32_t i = 0; i < atomic_load(&m->hdr->thread_high); i++)
		if (atomic_load(&m->threads[i].owner) == slot + 1 && atomic_load(&m->threads[i].active) & 1)
			return true;
	return false;
}

void rig_stop_outside(struct rig_stops *s, const pid_t *pid, int n)
{
	int status;

	for (uint32_t times = 1; atomic_load(&s->inside) == times - 1 && times < 100; times++) {
		for (int i = 0; i < n; i++)
			kill(pid[i], SIGCONT);
		rig_nap();
		for (int i = 0; i < n; i++) {
			kill(pid[i], SIGSTOP);
			waitpid(pid[i], &status, WUNTRACED);
		}
		atomic_store(&s->stopped, times);
		for (int i = 0; atomic_load(&s->inside) < times && i < 20000; i++)
			rig_nap();
	}
}

void rig_await_outside(const struct rig *r, struct rig_stops *s, const uint32_t *slot, int n)
{
	bool inside = true;

	for (uint32_t times = 1; inside; times++) {
		rig_await(&s->stopped, times);
		inside = false;
		for (int i = 0; i < n; i++)
			inside |= rig_is_inside(r->m, slot[i]);
		atomic_store(&s->inside, inside ? times : RIG_OUTSIDE);
	}
}

struct ibv_qp *rig_meet(struct rig *r, struct ibv_cq *cq, struct rig_meeting *m, int me, uint32_t all)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	m->qpn[me] = qp->qp_num;
	atomic_fetch_add(&m->joined, 1);
	rig_await(&m->joined, all);
	struct rig_path p = {.dest_qpn = m->qpn[!me], .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	atomic_fetch_add(&m->ready, 1);
	rig_await(&m->ready, 2);
	return qp;
}

/* ---- cases ------------------------------------------------------------------------------------------------------- */

int rig_cases(int argc, char **argv, const struct rig_case *cases, size_t n, void (*before)(const struct rig_case *c))
{
	int failed = 0, ran = 0, status;

	unsetenv("SHCA_FABRIC_FD");
	for (const struct rig_case *c = cases; c < cases + n; c++) {
		if (argc > 1 && strcmp(argv[1], c->name))
			continue;
		if (before)
			before(c);
		fflush(NULL);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			alarm(60);
			c->play();
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		printf("%-20s %s\n", c->name, status ? "FAIL" : "ok");
		if (status)
			fprintf(stderr, "FAIL: %s: status %#x\n", c->name, status);
		failed += status != 0;
		ran++;
	}
	return failed || !ran;
}
