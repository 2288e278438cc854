/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that copies a share of another process's READ, and dies or fails; a process that joins while another one is inside
 * the engine and a third is dead. Each case runs in a process of its own, with children.
 *
 *     copy_share_death [CASE]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

static const char *dies_at;			/* the failpoint at which this process kills itself; NULL: none */
static _Atomic uint32_t *helps;			/* 1: the helping process has begun a piece; 2: the reader has copied the
						 * other pieces */
static bool offered;				/* this process has offered a share of its copy */

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	if (dies_at && !strcmp(name, dies_at)) {
		atomic_store(helps, 1);
		rig_await(helps, 2);
		kill(getpid(), SIGKILL);
	}
	if (dies_at || !helps)
		return;
	if (!strcmp(name, "share-waits"))
		atomic_store(helps, 2);
	if (strcmp(name, "share-offered"))
		return;
	/* else this process would have copied all before the other one looks */
	offered = true;
	for (int i = 0; !atomic_load(helps); i++, rig_nap())
		if (i > 20000)
			FAIL("nobody helps to copy");
}

static struct rig a;

static enum ibv_wc_status completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; shca_poll_cq(cq, 1, &wc) != 1; i++, rig_nap())
		if (i > 20000)
			FAIL("a request does not complete");
	return wc.status;
}

/* ---- a divided copy -------------------------------------------------------------------------------------------------- */

enum { LARGE = 8 << 20, TRIES = 20 };

static struct shared {
	char fabric[64];
	struct rig_meeting meeting[TRIES];
	uint64_t addr;
	uint32_t rkey;
	_Atomic uint32_t there, done, helps;
} *st;

static void share_stage(void)
{
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	snprintf(st->fabric, sizeof(st->fabric), "copy_share_death-%d", (int)getpid());
}

/* Registers memory that a peer reads in pieces; while this process polls it copies some of them. */
static struct ibv_cq *readable_memory(struct rig *r, char **at)
{
	char *p = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	rig_join(r, st->fabric);
	CHECK(p != MAP_FAILED);
	rig_fill(p, LARGE, 1);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, LARGE, (uintptr_t)p, IBV_ACCESS_REMOTE_READ);
	CHECK(mr);
	st->addr = (uintptr_t)p;
	st->rkey = mr->rkey;
	*at = p;
	return rig_cq(r, 16, NULL);
}

/* The helping process dies within a piece. */
static void helps_and_dies(void)
{
	struct ibv_wc wc;
	struct rig r;
	char *p;

	struct ibv_cq *cq = readable_memory(&r, &p);
	rig_meet(&r, cq, &st->meeting[0], 0, 2);
	helps = &st->helps;
	dies_at = "share";
	while (!atomic_load(&st->done))
		CHECK(shca_poll_cq(cq, 1, &wc) >= 0);
}

/* The helping process cannot copy the last piece, of which a page is unmapped; the piece's end is mapped. */
static void helps_and_fails(void)
{
	struct ibv_wc wc;
	struct rig r;
	char *p;

	struct ibv_cq *cq = readable_memory(&r, &p);
	CHECK(!munmap(p + LARGE - 3 * 4096, 4096));
	for (uint32_t i = 0; i < TRIES; i++) {
		rig_meet(&r, cq, &st->meeting[i], 0, 2);
		while (atomic_load(&st->done) <= i)
			CHECK(shca_poll_cq(cq, 1, &wc) >= 0);
	}
}

static pid_t begin_copies(void (*other)(void), struct ibv_mr **mr)
{
	char *p = aligned_alloc(4096, LARGE);

	CHECK(p);
	share_stage();
	pid_t pid = rig_child(other);
	rig_join(&a, st->fabric);
	*mr = shca_reg_mr(a.pd, p, LARGE, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	CHECK(*mr);
	return pid;
}

static enum ibv_wc_status read_large(struct ibv_qp *qp, struct ibv_cq *cq, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, LARGE, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = st->addr, .rkey = st->rkey}}, *bad;

	memset(mr->addr, 0, LARGE);
	CHECK(!shca_post_send(qp, &wr, &bad));
	return completion(cq);
}

/* The helping process dies within a piece, and all other pieces are copied: the READ fails, since the missing piece
 * cannot be read any more. */
static void helper_dies(void)
{
	struct ibv_mr *mr;
	pid_t pid = begin_copies(helps_and_dies, &mr);
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	struct ibv_qp *qp = rig_meet(&a, cq, &st->meeting[0], 1, 2);

	helps = &st->helps;
	bool failed = read_large(qp, cq, mr) != IBV_WC_SUCCESS;
	/* SHCA_SHARE=no, or no copies by the kernel */
	if (!offered)
		printf("# skipped: copies are not divided here\n");
	else if (!failed)
		FAIL("a read succeeded whose helper died: %ld is the first byte that was not read",
		     rig_check(mr->addr, LARGE, 1));
	helps = NULL;
	atomic_store(&st->done, 1);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* The helping process could not copy a piece: the READ fails, whichever process copied the rest. */
static void helper_fails(void)
{
	struct ibv_mr *mr;
	pid_t pid = begin_copies(helps_and_fails, &mr);
	struct ibv_cq *cq = rig_cq(&a, 16, NULL);
	int status;

	for (uint32_t i = 0; i < TRIES; i++) {
		struct ibv_qp *qp = rig_meet(&a, cq, &st->meeting[i], 1, 2);
		if (read_large(qp, cq, mr) == IBV_WC_SUCCESS)
			FAIL("a read succeeded of which a page is missing");
		atomic_store(&st->done, i + 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

/* ---- joining ----------------------------------------------------------------------------------------------------------- */

/* As if the process were stopped within any member's objects: the thread does not leave the engine. */
static void is_inside(void)
{
	struct rig r;

	rig_join(&r, st->fabric);
	struct shca_thread *thr = shca_thread_get(r.m);
	shca_enter(thr);
	atomic_fetch_add(&st->there, 1);
	while (!atomic_load(&st->done))
		rig_nap();
	shca_leave(thr);
	rig_leave(&r);
}

static void is_killed(void)
{
	struct rig r;

	rig_join(&r, st->fabric);
	atomic_fetch_add(&st->there, 1);
	for (;;)
		pause();
}

/* Only the joining process looks for deaths, and it cannot free the dead process's memory, since the stopped process may be
 * reading it: the joining process becomes a member nevertheless. */
static void joins_beside(void)
{
	int status;

	share_stage();
	pid_t stays = rig_child(is_inside), dies = rig_child(is_killed);
	rig_await(&st->there, 2);
	CHECK(!kill(dies, SIGKILL) && waitpid(dies, NULL, 0) == dies);
	rig_join(&a, st->fabric);
	atomic_store(&st->done, 1);
	CHECK(waitpid(stays, &status, 0) == stays && !status);
	rig_leave(&a);
}

static const struct rig_case cases[] = {
	{"helper-dies", helper_dies}, {"helper-fails", helper_fails}, {"joins-beside", joins_beside},
};

int main(int argc, char **argv)
{
	setenv("SHCA_DEATH_MS", "20", 0);
	return rig_cases(argc, argv, cases, ARRAY_SIZE(cases), NULL);
}
