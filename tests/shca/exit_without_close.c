/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two members that exchange messages, from and into memory of the fabric and their own, and then end without having closed
 * anything. For valgrind (valgrind.sh), whose leak check must not walk the fabric's address space.
 *
 *     exit_without_close exit | _exit | signal
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define ROUNDS 20u
#define LEN 3000u

static struct rig_meeting *ab;

static void end(const char *how)
{
	if (!strcmp(how, "exit"))
		exit(0);
	if (!strcmp(how, "_exit"))
		_exit(0);
	raise(SIGTERM);
}

/* Message i of process `from` lies in the arena or not, as does its receive. */
static void exchange(struct rig *r, int me)
{
	struct ibv_cq *cq = rig_cq(r, 64, NULL);
	struct ibv_qp *qp = rig_meet(r, cq, ab, me, 2);
	char *mem[2] = {shca_buf_alloc(r->ctx, 2 * LEN), calloc(2, LEN)};
	struct ibv_mr *mr[2];
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++) {
		CHECK(mem[i]);
		mr[i] = shca_reg_mr(r->pd, mem[i], 2 * LEN, (uintptr_t)mem[i], IBV_ACCESS_LOCAL_WRITE);
		CHECK(mr[i]);
	}
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct ibv_mr *out = mr[i & 1], *in = mr[i >> 1 & 1];
		struct ibv_sge to = {(uintptr_t)in->addr + LEN, LEN, in->lkey}, from = {(uintptr_t)out->addr, LEN, out->lkey};
		struct ibv_recv_wr rwr = {.wr_id = 1, .sg_list = &to, .num_sge = 1}, *bad_recv;
		struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
				   *bad;
		rig_fill(out->addr, LEN, i);
		CHECK(!shca_post_recv(qp, &rwr, &bad_recv) && !shca_post_send(qp, &wr, &bad));
		for (int got = 0; got < 2; got++) {
			for (int k = 0; shca_poll_cq(cq, 1, &wc) != 1; k++, rig_nap())
				if (k > 100000)
					FAIL("message %u never comes", i);
			if (wc.status != IBV_WC_SUCCESS)
				FAIL("message %u: %s", i, ibv_wc_status_str(wc.status));
		}
		if (rig_check((char *)in->addr + LEN, LEN, i) >= 0)
			FAIL("message %u is damaged", i);
	}
}

int main(int argc, char **argv)
{
	char name[64];
	struct rig r;
	int status;

	if (argc != 2)
		return 2;
	unsetenv("SHCA_FABRIC_FD");
	alarm(300);
	ab = mmap(NULL, sizeof(*ab), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(ab != MAP_FAILED);
	snprintf(name, sizeof(name), "ends-early-%d", (int)getpid());
	pid_t pid = fork();
	CHECK(pid >= 0);
	rig_join(&r, name);
	exchange(&r, !pid);
	if (!pid)
		end(argv[1]);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM))
		FAIL("the other process ended with status %#x", (unsigned)status);
	end(argv[1]);
}
