/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams to multicast groups in mixed: each thread has two UD queue pairs, one in each group, which leaves and joins again in
 * between. A datagram carries the seed of its bytes, so that every member can check it.
 */
#include "mixed.h"

enum { GRAMS = 32 }; /* receives of a queue pair; the slot behind those of both is the message to send */
#define QKEY 0x11111111u

static union ibv_gid gid_of(int group)
{
	union ibv_gid g = {.raw = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [15] = (uint8_t)(group + 1)}};
	return g;
}

static void gram_post(struct worker *w, int q, uint64_t slot)
{
	struct ibv_sge s = {(uintptr_t)w->grams + slot * GRAM, GRAM, w->gmr->lkey};

	CHECK(!vt_recv(w->gram[q], slot, s), "receive of a datagram");
}

static struct ibv_qp *gram_queue(struct ibv_cq *cq)
{
	struct ibv_qp_init_attr i = {.send_cq = cq, .recv_cq = cq, .cap = {4, GRAMS, 1, 1, 0}, .qp_type = IBV_QPT_UD};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 2, .qkey = QKEY}, rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp *qp = ibv_create_qp(device.pd, &i);

	CHECK(qp && !ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	CHECK(!vt_to(qp, IBV_QPS_RTR), "RTR");
	CHECK(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	return qp;
}

static void groups_make(struct worker *w)
{
	w->gcq = vt_cq(&device, 2 * GRAMS + 8, NULL);
	w->grams = calloc(2 * GRAMS + 1, GRAM);
	w->gmr = vt_mr(&device, w->grams, (2 * GRAMS + 1) * GRAM, IBV_ACCESS_LOCAL_WRITE);
	for (int q = 0; q < 2; q++) {
		w->gram[q] = gram_queue(w->gcq);
		for (uint64_t k = 0; k < GRAMS; k++)
			gram_post(w, q, (uint64_t)q * GRAMS + k);
	}
	for (int g = 0; g < GROUPS; g++) {
		union ibv_gid gid = gid_of(g);
		struct ibv_ah_attr to = {.is_global = 1, .port_num = 2, .grh = {.dgid = gid, .hop_limit = 1}};
		w->group[g] = ibv_create_ah(device.pd, &to);
		CHECK(w->group[g] && !ibv_attach_mcast(w->gram[g % 2], &gid, 0), "group");
	}
}

static void groups_end(struct worker *w)
{
	for (int g = 0; g < GROUPS; g++) {
		union ibv_gid gid = gid_of(g);
		CHECK(!ibv_detach_mcast(w->gram[g % 2], &gid, 0) && !ibv_destroy_ah(w->group[g]), "group");
	}
	CHECK(!ibv_destroy_qp(w->gram[0]) && !ibv_destroy_qp(w->gram[1]), "destroy");
	CHECK(!ibv_dereg_mr(w->gmr) && !ibv_destroy_cq(w->gcq), "destroy");
	free(w->grams);
}

/* Takes and checks the datagrams that have arrived. sent: the thread's own send has completed, else waits until it has. */
static void grams_take(struct worker *w, bool sent)
{
	uint64_t end = vt_ms() + 60000;
	char want[GRAM];

	for (;;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(w->gcq, 1, &wc);
		CHECK(n >= 0, "ibv_poll_cq");
		if (!n && sent)
			return;
		CHECK(vt_ms() < end, "seed %lu: no completion of a datagram", seed);
		if (!n)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS, "seed %lu: a datagram: %s", seed, ibv_wc_status_str(wc.status));
		if (wc.wr_id == 2 * GRAMS) {
			sent = true;
			continue;
		}
		struct gram *g = (struct gram *)(void *)(w->grams + wc.wr_id * GRAM + GRH);
		CHECK(wc.byte_len == GRH + sizeof(*g) + g->n, "seed %lu: a datagram of %u bytes", seed, wc.byte_len);
		gram_fill(g, want);
		mixed_equal(w, g->data, want, g->n, "a datagram");
		gram_post(w, wc.wr_id >= GRAMS, wc.wr_id);
	}
}

void mixed_groups_take(struct worker *w)
{
	grams_take(w, true);
}

static void groups_act(struct worker *w)
{
	struct gram *g = (struct gram *)(void *)(w->grams + 2 * GRAMS * GRAM);
	int q = (int)rnd(&w->r, 2);

	if (rnd(&w->r, 8) == 0) {
		union ibv_gid gid = gid_of(q);
		CHECK(!ibv_detach_mcast(w->gram[q], &gid, 0) && !ibv_attach_mcast(w->gram[q], &gid, 0), "leave and join");
	}
	g->seed = rnd(&w->r, 1u << 30);
	g->n = rnd(&w->r, GRAM - GRH - sizeof(*g) + 1);
	gram_fill(g, g->data);
	struct ibv_sge s = {(uintptr_t)g, sizeof(*g) + g->n, w->gmr->lkey};
	struct ibv_send_wr wr = {.wr_id = 2 * GRAMS,
				 .sg_list = &s,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = SIGNALED,
				 .wr.ud = {w->group[rnd(&w->r, GROUPS)], 0xffffff, QKEY}},
			   *bad;
	CHECK(!ibv_post_send(w->gram[q], &wr, &bad), "a datagram");
	grams_take(w, false);
}

const struct kind mixed_groups = {groups_make, groups_act, groups_end};
