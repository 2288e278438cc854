/* SPDX-License-Identifier: BSD-3-Clause */
/* hw_mlx5: checks the experimental verbs on an mlx5 adapter, for the owner of the adapter. docs/hardware.md explains the
 * output. */
#include "hw.h"

#include <errno.h>
#include <getopt.h>
#include <infiniband/mlx5dv.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *current = "device";
static int count[4];
static bool said;			/* the check has its verdict */

void hw_say(enum verdict v, const char *fmt, ...)
{
	static const char *words[] = {"ok  ", "FAIL", "skip", "note"};
	va_list ap;

	printf("%s  %s: ", words[v], current);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	count[v]++;
	said |= v != HW_NOTE;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- objects -------------------------------------------------------------------------------------------------------- */

static struct ibv_qp *qps[16];
static struct ibv_cq *cqs[16];
static int nqps, ncqs;

void hw_end_check(void)
{
	/* unpolled completions of a CQ stay in the CQ when the queue pair is gone, if the program has asked for the CQ's number:
	 * so the CQs are destroyed, too */
	while (nqps)
		if (ibv_destroy_qp(qps[--nqps]))
			hw_say(HW_NOTE, "ibv_destroy_qp: %s", strerror(errno));
	while (ncqs)
		if (ibv_destroy_cq(cqs[--ncqs]))
			hw_say(HW_NOTE, "ibv_destroy_cq: %s", strerror(errno));
}

struct ibv_cq *hw_cq(struct hw *h)
{
	struct ibv_cq *cq = ibv_create_cq(h->ctx, 128, NULL, NULL, 0);

	if (cq)
		cqs[ncqs++] = cq;
	else
		hw_say(HW_FAIL, "ibv_create_cq: %s", strerror(errno));
	return cq;
}

static int modify(struct hw *h, struct ibv_qp *qp)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = h->port,
				.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
	int err = ibv_query_port(h->ctx, h->port, &port);

	if (!err)
		err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .dest_qp_num = qp->qp_num,
				 .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
					 .ah_attr = {.dlid = port.lid, .port_num = h->port}};
	if (!err && h->gid_index >= 0) {
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.sgid_index = (uint8_t)h->gid_index;
		a.ah_attr.grh.hop_limit = 64;
		err = ibv_query_gid(h->ctx, h->port, h->gid_index, &a.ah_attr.grh.dgid);
	}
	if (!err)
		err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	if (!err)
		err = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						    IBV_QP_MAX_QP_RD_ATOMIC);
	return err;
}

bool hw_connect(struct hw *h, struct ibv_qp *qp)
{
	int err = modify(h, qp);

	if (err)
		hw_say(HW_FAIL, "connecting queue pair %#x to itself: %s (--gid?)", qp->qp_num, strerror(err));
	return !err;
}

struct ibv_qp *hw_qp(struct hw *h, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t flags, uint32_t max_atomic)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = send_cq, .recv_cq = recv_cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 4, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = h->pd, .exp_create_flags = flags, .max_atomic_arg = max_atomic,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(h->ctx, &a);

	if (!qp) {
		hw_say(HW_FAIL, "ibv_exp_create_qp, flags %#x, atomics of %u: %s", flags, max_atomic, strerror(errno));
		return NULL;
	}
	qps[nqps++] = qp;
	return hw_connect(h, qp) ? qp : NULL;
}

/* ---- requests and completions ------------------------------------------------------------------------------------------ */

bool hw_wait(struct ibv_cq *cq, uint64_t wr_id, struct ibv_exp_wc *wc)
{
	struct ibv_exp_wc one;
	uint64_t end = now_ms() + 5000;
	int n;

	if (!wc)
		wc = &one;
	while (!(n = ibv_exp_poll_cq(cq, 1, wc, sizeof(*wc))) && now_ms() < end)
		sched_yield();
	if (n != 1 || wc->status != IBV_WC_SUCCESS || wc->wr_id != wr_id) {
		if (n == 1)
			hw_say(HW_FAIL, "request %lu was to complete, and %lu did: %s (vendor's error %#x)", (unsigned long)wr_id,
			       (unsigned long)wc->wr_id, ibv_wc_status_str(wc->status), wc->vendor_err);
		else
			hw_say(HW_FAIL, "request %lu did not complete within 5 seconds%s", (unsigned long)wr_id,
			       n ? " (polling fails)" : "");
		return false;
	}
	return true;
}

bool hw_silent(struct ibv_cq *cq, const char *why)
{
	uint64_t end = now_ms() + 200;
	struct ibv_exp_wc wc;

	do {
		int n = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
		if (n) {
			hw_say(HW_FAIL, "request %lu completed (%s): %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status),
			       why);
			return false;
		}
		sched_yield();
	} while (now_ms() < end);
	return true;
}

int hw_post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, int n)
{
	struct ibv_exp_send_wr *bad;

	for (int i = 0; i < n; i++)
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	int err = ibv_exp_post_send(qp, wr, &bad);
	if (err)
		hw_say(HW_FAIL, "ibv_exp_post_send refuses opcode %#x: %s (SHCA_DEBUG=1 says why)", bad->exp_opcode,
		       strerror(err));
	return err;
}

struct ibv_exp_send_wr hw_wr(uint64_t wr_id, enum ibv_exp_wr_opcode op)
{
	return (struct ibv_exp_send_wr){.wr_id = wr_id, .exp_opcode = op, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
}

struct ibv_exp_send_wr hw_wait_for(struct ibv_cq *cq, int n)
{
	struct ibv_exp_send_wr wr = {.wr_id = 900,
				     .exp_opcode = IBV_EXP_WR_CQE_WAIT,
				     .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = n;
	return wr;
}

struct ibv_exp_send_wr hw_enable(struct ibv_qp *qp, enum ibv_exp_wr_opcode op, int n)
{
	struct ibv_exp_send_wr wr = {.wr_id = 901, .exp_opcode = op, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = n;
	return wr;
}

bool hw_tick(struct ibv_qp *qp)
{
	struct ibv_recv_wr recv = {.wr_id = 800}, *bad_recv;
	struct ibv_send_wr send = {.wr_id = 801, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
	int err = ibv_post_recv(qp, &recv, &bad_recv);

	if (!err)
		err = ibv_post_send(qp, &send, &bad_send);
	if (err)
		hw_say(HW_FAIL, "an empty message to itself: %s", strerror(err));
	return !err && hw_wait(qp->send_cq, 801, NULL);
}

/* ---- the program --------------------------------------------------------------------------------------------------------- */

static void usage(FILE *to)
{
	fprintf(to, "usage: hw_mlx5 [-d DEVICE] [-p PORT] [-g GID_INDEX] [--calc] [CHECK...]\n"
		"Checks what an mlx5 adapter does with cross-channel requests and masked atomics, on one port, with itself.\n"
		"  -d, --device DEVICE   default: the first that mlx5dv supports\n"
		"  -p, --port PORT       default: 1; it has to be active (a loopback is enough)\n"
		"  -g, --gid INDEX       address by this GID; needed on Ethernet (default there: 0)\n"
		"      --calc            try CALC, too, for which no capability is publicly known\n"
		"Checks, all by default:\n");
	for (const struct hw_check *c = hw_checks; c->name; c++)
		fprintf(to, "  %-12s %s\n", c->name, c->what);
	fprintf(to, "Exit codes: 0 nothing failed, 1 something did, 2 wrong usage, 77 there is no such device.\n"
		"libshca has to be linked or preloaded in front of libibverbs, as this program has it. docs/hardware.md "
		"explains the answers.\n");
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i] && !ctx; i++)
		if (mlx5dv_is_supported(list[i]) && (!name || !strcmp(name, ibv_get_device_name(list[i]))))
			ctx = ibv_open_device(list[i]);
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static bool prepare(struct hw *h)
{
	struct ibv_port_attr port;

	h->attr.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
	int err = ibv_exp_query_device(h->ctx, &h->attr);
	if (!err)
		err = ibv_query_port(h->ctx, h->port, &port);
	if (err) {
		hw_say(HW_FAIL, "querying it: %s", strerror(err));
		return false;
	}
	printf("%s, vendor %#x, part %u, firmware %s, port %u %s, %s\n", ibv_get_device_name(h->ctx->device), h->attr.vendor_id,
	       h->attr.vendor_part_id, h->attr.fw_ver, h->port, ibv_port_state_str(port.state),
	       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET && h->gid_index < 0)
		h->gid_index = 0;
	h->pd = ibv_alloc_pd(h->ctx);
	h->mem = aligned_alloc(4096, HW_BYTES);
	if (h->pd && h->mem) {
		memset(h->mem, 0, HW_BYTES);
		h->mr = ibv_reg_mr(h->pd, h->mem, HW_BYTES,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					   IBV_ACCESS_REMOTE_ATOMIC);
	}
	if (!h->mr)
		hw_say(HW_FAIL, "a domain and a region: %s", strerror(errno));
	return h->mr;
}

static bool wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strcmp(name, *names))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"device", 1, NULL, 'd'}, {"port", 1, NULL, 'p'}, {"gid", 1, NULL, 'g'},
						{"calc", 0, NULL, 'c'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct hw h = {.port = 1, .gid_index = -1};
	const char *name = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "d:p:g:h", options, NULL)) != -1) {
		switch (c) {
		case 'd': name = optarg; break;
		case 'p': h.port = (uint8_t)atoi(optarg); break;
		case 'g': h.gid_index = atoi(optarg); break;
		case 'c': h.calc = true; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	/* read when the device is first asked */
	setenv("SHCA_EXP_CALC", h.calc ? "yes" : "no", 1);
	h.ctx = open_device(name);
	if (!h.ctx) {
		fprintf(stderr, "hw_mlx5: no device%s%s that mlx5dv supports\n", name ? " " : "", name ? name : "");
		return 77;
	}
	if (!prepare(&h))
		return 1;
	for (const struct hw_check *k = hw_checks; k->name; k++) {
		if (!wanted(k->name, argv + optind))
			continue;
		current = k->name;
		said = false;
		if ((h.attr.exp_device_cap_flags & k->needs) == k->needs)
			k->run(&h);
		else
			hw_say(HW_SKIP, "the device does not say that it can (flags %#lx)",
			       (unsigned long)h.attr.exp_device_cap_flags);
		if (!said)
			hw_say(HW_OK, "%s", k->what);
		hw_end_check();
	}
	ibv_dereg_mr(h.mr);
	free(h.mem);
	ibv_dealloc_pd(h.pd);
	ibv_close_device(h.ctx);
	printf("%d ok, %d failed, %d skipped\n", count[HW_OK], count[HW_FAIL], count[HW_SKIP]);
	return count[HW_FAIL] ? 1 : 0;
}
