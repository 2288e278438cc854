/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of the provider mlx5 to firmware and kernel, against bytes written by hand from their public descriptions. */
#include "verbs_exp/mlx5_cmd.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>
#include <string.h>
#include <unistd.h>

/* ---- QUERY_HCA_CAP ---------------------------------------------------------------------------------------------------- */

static uint8_t general[4112], atomic[4112];	/* the firmware's answer */
static int general_rc, atomic_rc, asked[2];

int mlx5dv_devx_general_cmd(struct ibv_context *ctx, const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
	/* opcode 0x100; modifier: current values of capabilities 0, and of 3 */
	static const uint8_t want_general[16] = {0x01, 0x00, 0, 0, 0, 0, 0x00, 0x01},
			     want_atomic[16] = {0x01, 0x00, 0, 0, 0, 0, 0x00, 0x07};

	cr_assert(in_bytes == 16 && out_bytes == 4112);
	if (!memcmp(in, want_general, 16)) {
		asked[0]++;
		memcpy(out, general, out_bytes);
		return general_rc;
	}
	cr_assert(!memcmp(in, want_atomic, 16), "a command that nobody expects");
	asked[1]++;
	memcpy(out, atomic, out_bytes);
	return atomic_rc;
}

static struct exp_mlx5_caps caps(void)
{
	struct exp_mlx5_caps c;

	memset(&c, 0xff, sizeof(c));
	exp_mlx5_query_caps(NULL, &c);
	return c;
}

Test(exp_mlx5_cmd, capabilities)
{
	struct exp_mlx5_caps c = caps();

	cr_assert(asked[0] == 1 && asked[1] == 1);
	cr_assert(!c.cross_channel && !c.masked_sizes && !c.host_order && !c.key_entries && !c.key_depth,
		  "of a device that has nothing");
	/* bit 0x22c behind 16 bytes: byte 16 + 69, the fifth bit from the left */
	general[85] = 0x08;
	/* order of results 1 in the upper two bits of byte 16 + 8; operations in 16 + 18, 19; sizes in 16 + 22, 23 */
	atomic[24] = 0x40;
	atomic[35] = 0x0f;
	atomic[39] = 0xfc;
	atomic[38] = 0x01;
	/* depth of memory keys in byte 16 + 32; log2 of their entries in the lower 6 bits of 16 + 35 */
	general[48] = 4;
	general[51] = 0xc0 | 12;
	c = caps();
	cr_assert(c.key_entries == 4096 && c.key_depth == 4, "%u entries, depth %u", c.key_entries, c.key_depth);
	general[51] = 16;
	cr_assert(caps().key_entries == 65535, "more than mlx5dv counts");
	cr_assert(c.cross_channel && c.host_order && c.masked_sizes == 0xfc, "%#x: all but 256", c.masked_sizes);
	/* one of the operations is not enough */
	atomic[35] = 0x0b;
	cr_assert(!caps().masked_sizes);
	atomic[35] = 0x0f;
	atomic[24] = 0x80;
	cr_assert(!caps().host_order, "order 2 is nobody's");
	/* the neighbours of the bit */
	general[85] = 0xf7;
	cr_assert(!caps().cross_channel);
	general[85] = 0x08;
	/* a status that is not 0, or no answer at all */
	general[0] = 1;
	cr_assert(!caps().cross_channel && caps().masked_sizes);
	general[0] = 0;
	general_rc = EOPNOTSUPP;
	atomic_rc = EOPNOTSUPP;
	c = caps();
	cr_assert(!c.cross_channel && !c.masked_sizes && !c.host_order);
	/* an error that tells nothing about the adapter is returned to the caller, which keeps its capabilities */
	cr_assert_eq(exp_mlx5_query_caps(NULL, &c), 0);
	atomic_rc = EREMOTEIO;
	general_rc = ENOMEM;
	cr_assert_eq(exp_mlx5_query_caps(NULL, &c), ENOMEM);
	general_rc = 0;
	atomic_rc = EMFILE;
	cr_assert_eq(exp_mlx5_query_caps(NULL, &c), EMFILE);
}

/* ---- the kernel's command --------------------------------------------------------------------------------------------- */

#define DRIVER_IN 40
#define DRIVER_OUT 24
static struct {
	struct exp_mlx5_create_cmd core;
	uint8_t driver[DRIVER_IN];
} cmd;
static struct {
	struct ib_uverbs_ex_create_qp_resp core;
	uint8_t driver[DRIVER_OUT];
} resp;
static struct {
	struct ibv_qp_ex qp;
	uint32_t comp_mask;
} vqp;
static int fds[2];

static int create(struct ibv_qp_init_attr_ex *attr)
{
	static struct ibv_context ctx;

	memset(&cmd, 0, sizeof(cmd));
	memset(cmd.driver, 0xd5, sizeof(cmd.driver));
	vqp.comp_mask = 0xffffffff;
	ctx.cmd_fd = fds[1];
	int rc = exp_mlx5_create_qp_cmd(&ctx, &vqp, attr, &cmd.core, sizeof(cmd), &resp.core, sizeof(resp));
	cr_assert(rc || vqp.qp.qp_base.context == &ctx);
	return rc;
}

Test(exp_mlx5_cmd, queue_pair)
{
	struct ibv_pd pd = {.handle = 0x11};
	struct ibv_cq scq = {.handle = 0x22}, rcq = {.handle = 0x33};
	struct ibv_srq srq = {.handle = 0x44};
	struct ibv_qp_init_attr_ex attr = {
		.qp_context = &cmd, .send_cq = &scq, .recv_cq = &rcq, .srq = &srq, .qp_type = IBV_QPT_RC, .sq_sig_all = 7,
		.pd = &pd, .cap = {.max_send_wr = 0x101, .max_recv_wr = 0x202, .max_send_sge = 3, .max_recv_sge = 4,
				   .max_inline_data = 0x55},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND,
	};
	static uint8_t want[] = {
		0x18, 0, 0, 0x80,	/* CREATE_QP, extended */
		8, 0, 5, 0,		/* words of 8 bytes: 64 in, 40 out */
		0, 0, 0, 0, 0, 0, 0, 0,	/* 8: where the answer goes */
		5, 0, 3, 0,		/* the driver's words */
		0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0,	/* 24: the queue pair, in events */
		0x11, 0, 0, 0, 0x22, 0, 0, 0, 0x33, 0, 0, 0, 0x44, 0, 0, 0,
		1, 1, 0, 0, 2, 2, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0x55, 0, 0, 0,
		1, 2, 1, 0,		/* signals all; RC; an SRQ */
		0, 0, 0, 0,
		0x0c, 0, 0, 0,		/* flags: bits 2 and 3 */
		0, 0, 0, 0, 0, 0, 0, 0,
	};
	uint8_t got[512];
	uint64_t p;

	cr_assert(!pipe(fds));
	cr_assert(sizeof(want) == 88 && sizeof(cmd) == 128);
	resp.core.base = (struct ib_uverbs_create_qp_resp){.qp_handle = 77, .qpn = 0x1234, .max_send_wr = 512, .max_recv_wr = 0,
							   .max_send_sge = 5, .max_recv_sge = 6, .max_inline_data = 99};
	cr_assert(!create(&attr));
	cr_assert(read(fds[0], got, sizeof(got)) == 128);
	p = (uintptr_t)&resp;
	memcpy(want + 8, &p, 8);
	p = (uintptr_t)&vqp;
	memcpy(want + 24, &p, 8);
	for (size_t i = 0; i < sizeof(want); i++)
		cr_assert(got[i] == want[i], "byte %zu is %#x, not %#x", i, got[i], want[i]);
	for (size_t i = sizeof(want); i < 128; i++)
		cr_assert(got[i] == 0xd5, "the driver's part is the driver's");
	const struct ibv_qp *qp = &vqp.qp.qp_base;
	cr_assert(qp->handle == 77 && qp->qp_num == 0x1234 && qp->qp_type == IBV_QPT_RC && qp->pd == &pd &&
		  qp->send_cq == &scq && qp->recv_cq == &rcq && qp->srq == &srq && qp->qp_context == &cmd &&
		  qp->state == IBV_QPS_RESET && !vqp.comp_mask);
	cr_assert(attr.cap.max_send_wr == 512 && attr.cap.max_send_sge == 5 && attr.cap.max_recv_sge == 6 &&
		  attr.cap.max_inline_data == 99);

	/* an XRC initiator receives nothing */
	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.recv_cq = NULL;
	attr.srq = NULL;
	attr.sq_sig_all = 0;
	attr.cap.max_recv_wr = 9;
	cr_assert(!create(&attr) && read(fds[0], got, sizeof(got)) == 128);
	static const uint8_t none[4];
	cr_assert(!memcmp(got + 40, none, 4) && !memcmp(got + 44, none, 4) && !memcmp(got + 52, none, 4) &&
		  !memcmp(got + 60, none, 4) && got[68] == 0 && got[69] == IBV_QPT_XRC_SEND && got[70] == 0);
}

Test(exp_mlx5_cmd, queue_pair_refused)
{
	struct ibv_pd pd = {.handle = 1};
	struct ibv_cq cq = {.handle = 2};
	struct ibv_qp_init_attr_ex attr = {.send_cq = &cq, .recv_cq = &cq, .qp_type = IBV_QPT_RC, .pd = &pd,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = 4};

	/* the kernel's errno is returned */
	fds[1] = open("/dev/null", O_RDONLY);
	cr_assert(create(&attr) == EBADF);
	close(fds[1]);
	fds[1] = open("/dev/full", O_WRONLY);
	cr_assert(create(&attr) == ENOSPC);
	attr.comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS;
	cr_assert(create(&attr) == EINVAL, "no domain");
	attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
	attr.recv_cq = NULL;
	cr_assert(create(&attr) == EINVAL, "nowhere for receives to complete");
}
