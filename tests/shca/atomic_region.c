/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process dies in the middle of a wide atomic, and the memory is deregistered and reused before any process has completed the
 * store: then nothing may be stored there.
 *
 *     T    has the memory; T's helper thread reaps X, once the memory is reused
 *     X    dies after noting the store in the journal, before storing
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define WIDE 64u
enum { T, X };

static struct stage {
	uint32_t qpn[2], rkey;
	uint64_t addr;
	_Atomic uint32_t ready, there, closed, reused, done;
} *st;
static int role;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	if (!st)
		return;
	if (role == X && !strcmp(name, "atomic-journaled")) {
		atomic_store(&st->there, 1);
		/* T has taken the region's key away and waits for this thread */
		rig_await(&st->closed, 1);
		raise(SIGKILL);
	}
	if (role == T && !strcmp(name, "dereg-closed"))
		atomic_store(&st->closed, 1);
	if (role == T && !strcmp(name, "helper-look") && atomic_load(&st->closed))
		rig_await(&st->reused, 1);
}

static struct ibv_qp *meet(struct rig *r, struct ibv_cq *cq)
{
	struct rig_qp_attr a = {
		.type = IBV_QPT_RC, .max_atomic = WIDE, .scq = cq, .rcq = cq, .send_wr = 4, .recv_wr = 4, .sge = 1};
	struct rig_path p = {.retry_cnt = 7};
	struct ibv_qp *qp = rig_qp(r, &a);

	rig_init(qp);
	st->qpn[role] = qp->qp_num;
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, 2);
	p.dest_qpn = st->qpn[1 - role];
	rig_rtr(qp, &p);
	rig_rts(qp, &p);
	atomic_fetch_add(&st->ready, 1);
	rig_await(&st->ready, 4);
	return qp;
}

static void role_t(struct rig *r, bool arena)
{
	struct ibv_cq *cq = rig_cq(r, 16, NULL);
	char *p = arena ? shca_buf_alloc(r->ctx, 4096) :
			  mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p && p != MAP_FAILED);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	CHECK(mr);
	st->addr = (uintptr_t)p;
	st->rkey = mr->rkey;
	struct ibv_qp *qp = meet(r, cq);

	rig_await(&st->there, 1);
	CHECK(!shca_dereg_mr(mr));
	/* something else */
	memset(p, 0x77, 4096);
	if (!arena)
		CHECK(!mprotect(p, 4096, PROT_READ));
	atomic_store(&st->reused, 1);
	for (uint32_t s = 0, i = 0; s < atomic_load(&r->m->hdr->proc_high); i++, rig_nap()) {
		if (s == r->m->slot || (atomic_load(&r->m->procs[s].state) & 255) == SHCA_PROC_FREE)
			s++;
		if (i > 40000)
			FAIL("nobody clears away what X left");
	}
	for (uint32_t i = 0; i < 4096; i++)
		if (p[i] != 0x77)
			FAIL("byte %u of memory that is not registered any more was written", i);
	for (uint32_t i = 0; i < SHCA_ATOMIC_LOCKS; i++)
		if (atomic_load(&r->m->hdr->atomic_locks[i]))
			FAIL("lock %u is left", i);
	atomic_store(&st->done, 1);
	CHECK(!shca_destroy_qp(qp) && !shca_destroy_cq(cq));
}

static void role_x(struct rig *r)
{
	static uint64_t word[WIDE / 8] __attribute__((aligned(64))), add[WIDE / 8], boundary[WIDE / 8];
	struct ibv_mr *mr = shca_reg_mr(r->pd, word, WIDE, (uintptr_t)word, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = meet(r, rig_cq(r, 16, NULL));
	struct ibv_sge sge = {(uintptr_t)word, WIDE, mr->lkey};
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE}, *bad;

	wr.ext_op.masked_atomics.log_arg_sz = 6;
	wr.ext_op.masked_atomics.remote_addr = st->addr;
	wr.ext_op.masked_atomics.rkey = st->rkey;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){.add_val = (uintptr_t)add, .field_boundary = (uintptr_t)boundary};
	CHECK(!shca_exp_post_send(qp, &wr, &bad));
	FAIL("X lives on");
}

static int play(bool arena)
{
	char name[64];
	pid_t pid[2];
	int status, failed = 0;

	unsetenv("SHCA_FABRIC_FD");
	snprintf(name, sizeof(name), "atomic-region-%d-%d", (int)getpid(), arena);
	memset(st, 0, sizeof(*st));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			struct rig r;
			role = i;
			alarm(120);
			rig_join(&r, name);
			i == T ? role_t(&r, arena) : role_x(&r);
			rig_leave(&r);
			_exit(0);
		}
	}
	CHECK(waitpid(pid[T], &status, 0) == pid[T]);
	if (status || !atomic_load(&st->done)) {
		fprintf(stderr, "FAIL: T, %s memory: status %#x\n", arena ? "arena" : "private", status);
		failed = 1;
		kill(pid[X], SIGKILL);
	}
	CHECK(waitpid(pid[X], &status, 0) == pid[X]);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		fprintf(stderr, "FAIL: X did not die at its point: status %#x\n", status);
		failed = 1;
	}
	return failed;
}

int main(void)
{
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	return play(true) | play(false);
}
