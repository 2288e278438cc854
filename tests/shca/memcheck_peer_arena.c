/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under valgrind (valgrind.sh): bytes that an RDMA READ takes out of another process's arena memory are defined, also beside
 * bytes that a copy by the kernel has made accessible for memcheck in the middle of a word. A branch on each byte.
 *
 *     1. READ of [at, at + n) of the peer's memory into private memory: the kernel copies
 *     2. READ of all of the peer's memory into the arena: loads of whole words
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { LEN = 4096, PIECE = 13 };

/* Shared by both processes. */
static struct shared {
	struct rig_meeting meeting;
	uint64_t addr;
	uint32_t rkey;
	_Atomic uint32_t filled, done;
	char name[64];
} * sh;
static volatile int odd;

static struct ibv_mr *arena(struct rig *r)
{
	char *p = shca_buf_alloc(r->ctx, LEN);
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	CHECK(p);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, LEN, (uintptr_t)p, access);
	CHECK(mr);
	return mr;
}

static void peer(void)
{
	struct rig r;

	rig_join(&r, sh->name);
	struct ibv_mr *mr = arena(&r);
	rig_fill(mr->addr, LEN, 1);
	sh->addr = (uintptr_t)mr->addr;
	sh->rkey = mr->rkey;
	rig_meet(&r, rig_cq(&r, 4, NULL), &sh->meeting, 1, 2);
	atomic_store(&sh->filled, 1);
	rig_await(&sh->done, 1);
}

/* An RDMA READ from byte `at` of the peer's memory on. */
static void request(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_sge sge, uint32_t at)
{
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {sh->addr + at, sh->rkey}},
			   *bad;
	struct ibv_wc wc;

	CHECK(!shca_post_send(qp, &wr, &bad));
	for (int k = 0; shca_poll_cq(cq, 1, &wc) != 1; k++, rig_nap())
		if (k > 20000)
			FAIL("no completion");
	if (wc.status != IBV_WC_SUCCESS)
		FAIL("%s", ibv_wc_status_str(wc.status));
}

static void look(const unsigned char *p, uint32_t at)
{
	for (uint32_t i = 0; i < LEN; i++)
		if (p[i] & 1)
			odd++;
	long bad = rig_check(p, LEN, 1);
	if (bad >= 0)
		FAIL("behind a READ from byte %u: byte %ld is wrong", at, bad);
}

int main(void)
{
	struct rig r;
	int status;

	unsetenv("SHCA_FABRIC_FD");
	alarm(300);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(sh != MAP_FAILED);
	snprintf(sh->name, sizeof(sh->name), "peer-arena-%d", (int)getpid());
	pid_t pid = rig_child(peer);
	rig_join(&r, sh->name);
	struct ibv_cq *cq = rig_cq(&r, 4, NULL);
	struct ibv_qp *qp = rig_meet(&r, cq, &sh->meeting, 0, 2);
	struct ibv_mr *landing = arena(&r);
	char *p = malloc(PIECE);
	CHECK(p);
	struct ibv_mr *own = shca_reg_mr(r.pd, p, PIECE, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	CHECK(own);
	rig_await(&sh->filled, 1);
	/* pieces that begin and end at every byte of a word, each in lines of its own */
	for (uint32_t at = 0; at + PIECE <= LEN; at += 128 + 1) {
		request(qp, cq, (struct ibv_sge){(uintptr_t)own->addr, PIECE, own->lkey}, at);
		request(qp, cq, (struct ibv_sge){(uintptr_t)landing->addr, LEN, landing->lkey}, 0);
		look(landing->addr, at);
	}
	atomic_store(&sh->done, 1);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		FAIL("the peer ended with status %#x", (unsigned)status);
	return 0;
}
