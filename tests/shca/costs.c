/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What operations cost as numbers grow, in counted steps (the points "step", "kick" and "rnr-unlink" of the library): with
 * ten times as many objects beside it, an operation takes no more of them. And the lists that other processes follow hold
 * exactly what there is, whatever order it came and went in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rig.h"

static struct rig r;
static uint64_t steps;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	(void)thr;
	(void)qp;
	(void)op;
	steps += !strcmp(name, "step") || !strcmp(name, "kick") || !strcmp(name, "rnr-unlink");
}

static struct ibv_qp *queue(struct ibv_cq *cq, struct ibv_srq *srq, uint32_t flags)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = flags, .scq = cq, .rcq = cq, .srq = srq, .send_wr = 1,
				.recv_wr = srq ? 0 : 1, .sge = 1};
	struct ibv_qp *qp = rig_qp(&r, &a);

	rig_init(qp);
	return qp;
}

static void connect_both(struct ibv_qp *a, struct ibv_qp *b)
{
	struct ibv_qp *end[2] = {a, b};

	for (int i = 0; i < 2; i++) {
		struct rig_path p = {.dest_qpn = end[!i]->qp_num, .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};
		rig_rtr(end[i], &p);
		rig_rts(end[i], &p);
	}
}

/* Steps of an operation among few and among many. */
static void compare(const char *what, uint64_t few, uint64_t many)
{
	printf("%-40s %6lu %6lu\n", what, (unsigned long)few, (unsigned long)many);
	if (many > few + few / 2 + 4)
		FAIL("%s: %lu steps among few, %lu among ten times as many", what, (unsigned long)few, (unsigned long)many);
}

enum { FEW = 20, MANY = 10 * FEW };

/* ---- lists ----------------------------------------------------------------------------------------------------------- */

static uint32_t listed(struct shca_user_qp **qp, uint32_t n)
{
	uint32_t found = 0;

	shca_for_each_qp(r.m, sh, r.m->slot) {
		bool known = false;
		for (uint32_t i = 0; i < n; i++)
			known |= qp[i] && qp[i]->sh == sh;
		if (!known)
			FAIL("a queue that is gone is listed");
		found++;
	}
	return found;
}

static void lists(void)
{
	struct shca_user_qp *qp[64] = {NULL};
	struct ibv_cq *cq = rig_cq(&r, 8, NULL);
	uint64_t rng = 1;
	uint32_t there = 0;

	for (int i = 0; i < 2000; i++) {
		uint32_t k = rig_below(&rng, 64);
		if (qp[k]) {
			CHECK(!shca_destroy_qp(&qp[k]->qp));
			qp[k] = NULL;
			there--;
		} else {
			qp[k] = shca_user_qp_of(queue(cq, NULL, rig_below(&rng, 2) ? IBV_EXP_QP_CREATE_CROSS_CHANNEL : 0));
			there++;
		}
		if (i % 16 == 0 && listed(qp, 64) != there)
			FAIL("%u queues are listed, there are %u", listed(qp, 64), there);
	}
	for (int k = 0; k < 64; k++)
		CHECK(!qp[k] || !shca_destroy_qp(&qp[k]->qp));
	CHECK(!listed(qp, 64) && !shca_destroy_cq(cq) && !r.m->cross_n);
}

static uint64_t destroy_oldest(int n)
{
	struct ibv_cq *cq[MANY];
	struct ibv_qp *qp[MANY];

	for (int i = 0; i < n; i++) {
		cq[i] = rig_cq(&r, 8, NULL);
		qp[i] = queue(cq[i], NULL, IBV_EXP_QP_CREATE_CROSS_CHANNEL);
	}
	steps = 0;
	CHECK(!shca_destroy_qp(qp[0]) && !shca_destroy_cq(cq[0]));
	uint64_t took = steps;
	for (int i = 1; i < n; i++)
		CHECK(!shca_destroy_qp(qp[i]) && !shca_destroy_cq(cq[i]));
	return took;
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

enum { QUEUES = 128, DEPTH = 1024 };

/* KiB of the fabric for each of QUEUES more queues of DEPTH. */
static double footprint(uint32_t before)
{
	return (double)(rig_chunks(r.m, r.m->slot) - before) * (SHCA_CHUNK / 1024.0) / QUEUES;
}

static void memory(void)
{
	struct rig_qp_attr a = {.type = IBV_QPT_RC, .exp_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .send_wr = DEPTH, .recv_wr = DEPTH,
				.sge = 1};
	struct ibv_qp *qp[QUEUES];
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_exp_send_wr nop = {.exp_opcode = IBV_EXP_WR_NOP}, *bad;
	uint32_t before = rig_chunks(r.m, r.m->slot);

	a.scq = a.rcq = cq;
	for (int i = 0; i < QUEUES; i++) {
		qp[i] = rig_qp(&r, &a);
		rig_init(qp[i]);
	}
	double idle = footprint(before);
	for (int i = 0; i < QUEUES; i += 2)
		connect_both(qp[i], qp[i + 1]);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!shca_post_recv(qp[i], &recv, &bad_recv) && !shca_exp_post_send(qp[i], &nop, &bad));
	double used = footprint(before);
	/* of one segment each, and their completions */
	double asked = DEPTH * (double)(128 + 64 + 2 * sizeof(struct shca_cqe)) / 1024;
	printf("a queue of depth %d: %.1f KiB idle, %.1f KiB in use, %.1f asked for\n", DEPTH, idle, used, asked);
	if (idle > 4 || used > 1.25 * asked)
		FAIL("a queue of depth %d: %.1f KiB idle, %.1f KiB in use, %.1f asked for", DEPTH, idle, used, asked);
	for (int i = 0; i < QUEUES; i++)
		CHECK(!shca_destroy_qp(qp[i]));
	CHECK(!shca_destroy_cq(cq));
}

int main(void)
{
	alarm(100);
	rig_virtual(&r, NULL);
	lists();
	memory();
	compare("destroy a queue and its CQ", destroy_oldest(FEW), destroy_oldest(MANY));
	rig_virtual_leave(&r);
	return 0;
}
