/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of mlx5 work queue elements, each case written out by hand. Where the layouts are documented:
 *
 *   control, address, atomic, data and inline segments, fm_ce_se    <infiniband/mlx5dv.h>, mlx5dv_wr_raw_wqe(3); the Ethernet
 *                                      adapters' programming manual (PRM) of ConnectX-4 and later, "Send WQE format"
 *   XRC segment                        rdma-core's provider mlx5 (first word: the shared receive queue)
 *   WAIT, SEND_EN, RECV_EN             no public manual; the fields stand in public drivers (DPDK's mlx5, the vendor's old
 *                                      libmlx5), which agree
 *   masked atomics of 4 and 8 bytes    no public manual; UCX and the vendor's old libmlx5 agree. Larger: the latter only
 *   CALC (opcode modifiers)            no public manual; the vendor's old libmlx5 only
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "verbs_exp/mlx5_wqe.h"

static const struct exp_mlx5_place rc = {.qpn = 0xabcdef, .type = IBV_QPT_RC};

static struct ibv_sge sge[2] = {
	{.addr = 0x1122334455667788, .length = 0x10, .lkey = 0xaabbccdd}, {.addr = 0x99, .length = 0x20, .lkey = 0x1},
};

static void golden(const struct exp_mlx5_place *at, const struct ibv_exp_send_wr *wr, const char *hex)
{
	uint8_t want[EXP_MLX5_WQE_MAX], got[EXP_MLX5_WQE_MAX + 16];
	int n = 0;

	for (unsigned v; *hex;) {
		if (*hex == ' ') {
			hex++;
			continue;
		}
		cr_assert_eq(sscanf(hex, "%2x", &v), 1);
		want[n++] = (uint8_t)v;
		hex += 2;
	}
	memset(got, 0xa5, sizeof got);
	cr_assert_eq(exp_mlx5_encode(at, wr, got), n, "%d bytes, %d expected", exp_mlx5_encode(at, wr, got), n);
	for (int i = 0; i < n; i++)
		cr_assert_eq(got[i], want[i], "offset %d: %02x, %02x expected", i, got[i], want[i]);
	for (int i = n; i < n + 16; i++)
		cr_assert_eq(got[i], 0xa5, "offset %d, behind the end, was written", i);
}

static struct ibv_exp_send_wr request(enum ibv_exp_wr_opcode op, uint64_t flags, int num_sge)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0x5a, sizeof wr);	/* fields that an opcode does not use do not appear in the WQE */
	wr.exp_opcode = op;
	wr.exp_send_flags = flags;
	wr.sg_list = sge;
	wr.num_sge = num_sge;
	return wr;
}

Test(mlx5_wqe, wait_and_enable)
{
	struct exp_mlx5_place at = {.qpn = 0x123456, .type = IBV_QPT_RC, .object = 0x89ab, .index = 0xfedcba98};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_CQE_WAIT, IBV_EXP_SEND_WAIT_EN_LAST, 7);

	golden(&at, &wr, "0000000f 12345602 00000000 00000000 0000000000000000 fedcba98 000089ab");
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_FENCE;
	golden(&at, &wr, "0000000f 12345602 00000088 00000000 0000000000000000 fedcba98 000089ab");
	at.index = 3;
	wr = request(IBV_EXP_WR_SEND_ENABLE, 0, 0);
	golden(&at, &wr, "00000017 12345602 00000000 00000000 0000000000000000 00000003 000089ab");
	wr = request(IBV_EXP_WR_RECV_ENABLE, 0, 0);
	golden(&at, &wr, "00000016 12345602 00000000 00000000 0000000000000000 00000003 000089ab");
	/* such requests have no address: any queue takes them */
	at.type = IBV_QPT_UD;
	golden(&at, &wr, "00000016 12345602 00000000 00000000 0000000000000000 00000003 000089ab");
	at.signal_all = true;
	golden(&at, &wr, "00000016 12345602 00000008 00000000 0000000000000000 00000003 000089ab");
}

Test(mlx5_wqe, nop)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_NOP, IBV_EXP_SEND_SIGNALED, 3);

	golden(&rc, &wr, "00000000 abcdef01 00000008 00000000");
}

Test(mlx5_wqe, send)
{
	struct exp_mlx5_place xrc = {.qpn = 1, .type = IBV_QPT_XRC_SEND};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED, 2);

	golden(&rc, &wr,
	       "0000000a abcdef03 0000000a 00000000 00000010 aabbccdd 1122334455667788 00000020 00000001 0000000000000099");
	wr = request(IBV_EXP_WR_SEND_WITH_IMM, 0, 1);
	wr.ex.imm_data = htobe32(0x01020304);
	golden(&rc, &wr, "0000000b abcdef02 00000000 01020304 00000010 aabbccdd 1122334455667788");
	wr.qp_type.xrc.remote_srqn = 0x778899;
	golden(&xrc, &wr,
	       "0000000b 00000103 00000000 01020304 00778899 00000000 00000000 00000000 00000010 aabbccdd 1122334455667788");
	wr = request(IBV_EXP_WR_SEND, 0, 0);
	golden(&rc, &wr, "0000000a abcdef01 00000000 00000000");
}

/* A length of 0 in a data segment would be 2^31. */
Test(mlx5_wqe, empty_segments)
{
	struct ibv_sge list[3] = {{.addr = 1}, sge[0], {.addr = 2}};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, 0, 3);

	wr.sg_list = list;
	golden(&rc, &wr, "0000000a abcdef02 00000000 00000000 00000010 aabbccdd 1122334455667788");
	wr.exp_send_flags = IBV_EXP_SEND_INLINE;
	wr.num_sge = 1;
	golden(&rc, &wr, "0000000a abcdef01 00000000 00000000");
}

Test(mlx5_wqe, rdma)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, 0, 1);

	wr.wr.rdma.remote_addr = 0xa1a2a3a4a5a6a7a8;
	wr.wr.rdma.rkey = 0xb1b2b3b4;
	golden(&rc, &wr,
	       "00000008 abcdef03 00000000 00000000 a1a2a3a4a5a6a7a8 b1b2b3b4 00000000 00000010 aabbccdd 1122334455667788");
	wr.exp_opcode = IBV_EXP_WR_RDMA_READ;
	golden(&rc, &wr,
	       "00000010 abcdef03 00000000 00000000 a1a2a3a4a5a6a7a8 b1b2b3b4 00000000 00000010 aabbccdd 1122334455667788");
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE_WITH_IMM;
	wr.ex.imm_data = htobe32(7);
	golden(&rc, &wr,
	       "00000009 abcdef03 00000000 00000007 a1a2a3a4a5a6a7a8 b1b2b3b4 00000000 00000010 aabbccdd 1122334455667788");
}

/* The count, with bit 31, stands before the data; the last segment is padded with zeros. */
Test(mlx5_wqe, inline_data)
{
	struct ibv_sge list[2] = {{.addr = (uintptr_t)"abcdefgh", .length = 8}, {.addr = (uintptr_t)"ijklm", .length = 5}};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, IBV_EXP_SEND_INLINE, 1);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	wr.sg_list = list;
	golden(&rc, &wr, "0000000a abcdef02 00000000 00000000 80000008 61626364 65666768 00000000");
	wr.num_sge = 2;
	golden(&rc, &wr,
	       "0000000a abcdef03 00000000 00000000 8000000d 61626364 65666768 696a6b6c 6d000000 00000000 00000000 00000000");
	wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 1;
	wr.wr.rdma.rkey = 2;
	wr.num_sge = 1;
	golden(&rc, &wr,
	       "00000008 abcdef03 00000000 00000000 0000000000000001 00000002 00000000 80000008 61626364 65666768 00000000");
	list[0].length = EXP_MLX5_WQE_MAX;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EINVAL);
	static char long_data[EXP_MLX5_WQE_MAX];
	list[0] = (struct ibv_sge){.addr = (uintptr_t)long_data, .length = 61 * 16 - 4};
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), EXP_MLX5_WQE_MAX);
	cr_assert_eq(wqe[7], 63);
	list[0].length++;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EINVAL);
}

Test(mlx5_wqe, atomics)
{
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_ATOMIC_CMP_AND_SWP, IBV_EXP_SEND_SIGNALED, 1);

	wr.wr.atomic.remote_addr = 0x1000;
	wr.wr.atomic.rkey = 0x20;
	wr.wr.atomic.compare_add = 0x0102030405060708;
	wr.wr.atomic.swap = 0x1112131415161718;
	golden(&rc, &wr, "00000011 abcdef04 00000008 00000000 0000000000001000 00000020 00000000"
			 "1112131415161718 0102030405060708 00000008 aabbccdd 1122334455667788");
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
	golden(&rc, &wr, "00000012 abcdef04 00000008 00000000 0000000000001000 00000020 00000000"
			 "0102030405060708 0000000000000000 00000008 aabbccdd 1122334455667788");
}

static struct ibv_exp_send_wr masked(enum ibv_exp_wr_opcode op, uint32_t log)
{
	struct ibv_exp_send_wr wr = request(op, IBV_EXP_SEND_EXT_ATOMIC_INLINE, 1);

	wr.ext_op.masked_atomics.log_arg_sz = log;
	wr.ext_op.masked_atomics.remote_addr = 0x1000;
	wr.ext_op.masked_atomics.rkey = 0x20;
	return wr;
}

Test(mlx5_wqe, masked_compare_and_swap)
{
	struct ibv_exp_send_wr wr = masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, 2);
	struct ibv_exp_cmp_swap *cs = &wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;

	*cs = (struct ibv_exp_cmp_swap){.compare_mask = 0x4444444444444444, .compare_val = 0x2222222222222222,
					.swap_val = 0x1111111111111111, .swap_mask = 0x3333333333333333};
	golden(&rc, &wr, "08000014 abcdef04 00000000 00000000 0000000000001000 00000020 00000000"
			 "11111111 22222222 33333333 44444444 00000004 aabbccdd 1122334455667788");
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	golden(&rc, &wr,
	       "09000014 abcdef05 00000000 00000000 0000000000001000 00000020 000000001111111111111111 2222222222222222 "
	       "3333333333333333 4444444444444444 00000008 aabbccdd 1122334455667788");
	uint64_t v[4][2] = {{0x01, 0x02}, {0x03, 0x04}, {0x05, 0x06}, {0x07, 0x08}};
	*cs = (struct ibv_exp_cmp_swap){.swap_val = (uintptr_t)v[0], .compare_val = (uintptr_t)v[1], .swap_mask = (uintptr_t)v[2],
					.compare_mask = (uintptr_t)v[3]};
	wr.ext_op.masked_atomics.log_arg_sz = 4;
	golden(&rc, &wr, "0a000014 abcdef07 00000000 00000000 0000000000001000 00000020 00000000"
			 "0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 0000000000000006"
			 "0000000000000007 0000000000000008 00000010 aabbccdd 1122334455667788");
}

Test(mlx5_wqe, masked_fetch_and_add)
{
	struct ibv_exp_send_wr wr = masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 2);
	struct ibv_exp_fetch_add *fa = &wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	*fa = (struct ibv_exp_fetch_add){.add_val = 0x1234567811111111, .field_boundary = 0x8765432122222222};
	golden(&rc, &wr, "08000015 abcdef04 00000000 00000000 0000000000001000 00000020 00000000"
			 "11111111 22222222 00000000 00000000 00000004 aabbccdd 1122334455667788");
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	golden(&rc, &wr, "09000015 abcdef04 00000000 00000000 0000000000001000 00000020 00000000"
			 "1234567811111111 8765432122222222 00000008 aabbccdd 1122334455667788");
	uint64_t add[32] = {0xa1, 0xa2}, boundary[32] = {0xb1, 0xb2};
	*fa = (struct ibv_exp_fetch_add){.add_val = (uintptr_t)add, .field_boundary = (uintptr_t)boundary};
	wr.ext_op.masked_atomics.log_arg_sz = 4;
	golden(&rc, &wr,
	       "0a000015 abcdef05 00000000 00000000 0000000000001000 00000020 0000000000000000000000a1 00000000000000a2 "
	       "00000000000000b1 00000000000000b2 00000010 aabbccdd 1122334455667788");
	/* of 256 bytes two operands fit, four do not */
	wr.ext_op.masked_atomics.log_arg_sz = 8;
	sge[0].length = 256;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), 48 + 512);
	cr_assert_eq(wqe[0], 0x0e);
	wr = masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, 8);
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){.swap_val = (uintptr_t)add,
											     .compare_val = (uintptr_t)add,
											     .swap_mask = (uintptr_t)add,
											     .compare_mask = (uintptr_t)add};
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EINVAL);
	wr.ext_op.masked_atomics.log_arg_sz = 1;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EINVAL);
}

Test(mlx5_wqe, calc)
{
	static const struct {
		int op, type, opmod;
	} table[] = {
		{IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_INT, 1},	  {IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_UINT, 1},
		{IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_FLOAT, 2},
		{IBV_EXP_CALC_OP_MAXLOC, IBV_EXP_CALC_DATA_TYPE_UINT, 3},
		{IBV_EXP_CALC_OP_MAXLOC, IBV_EXP_CALC_DATA_TYPE_INT, 0},
		{IBV_EXP_CALC_OP_MAXLOC, IBV_EXP_CALC_DATA_TYPE_FLOAT, 0}, {IBV_EXP_CALC_OP_BAND, IBV_EXP_CALC_DATA_TYPE_INT, 4},
		{IBV_EXP_CALC_OP_BAND, IBV_EXP_CALC_DATA_TYPE_FLOAT, 4}, {IBV_EXP_CALC_OP_BOR, IBV_EXP_CALC_DATA_TYPE_UINT, 5},
		{IBV_EXP_CALC_OP_BXOR, IBV_EXP_CALC_DATA_TYPE_UINT, 6}, {SHCA_EXP_CALC_OP_MIN, IBV_EXP_CALC_DATA_TYPE_INT, 0},
		{IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_NUMBER, 0},
	};
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, IBV_EXP_SEND_WITH_CALC, 1);
		wr.op.calc.calc_op = (enum ibv_exp_calc_op)table[i].op;
		wr.op.calc.data_type = (enum ibv_exp_calc_data_type)table[i].type;
		wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
		int n = exp_mlx5_encode(&rc, &wr, wqe);
		cr_assert_eq(n, table[i].opmod ? 32 : -EOPNOTSUPP, "case %zu: %d", i, n);
		cr_assert(!table[i].opmod || wqe[0] == table[i].opmod, "case %zu: opmod %d", i, wqe[0]);
	}
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_RDMA_WRITE, IBV_EXP_SEND_WITH_CALC, 1);
	wr.op.calc.calc_op = IBV_EXP_CALC_OP_BXOR;
	wr.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_INT;
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	wr.wr.rdma.remote_addr = 1;
	wr.wr.rdma.rkey = 2;
	golden(&rc, &wr,
	       "06000008 abcdef03 00000000 00000000 0000000000000001 00000002 00000000 00000010 aabbccdd 1122334455667788");
	/* the software HCA's extensions have no encoding */
	wr.exp_send_flags |= SHCA_EXP_SEND_CALC_VECTOR;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EOPNOTSUPP);
	wr.exp_send_flags = IBV_EXP_SEND_WITH_CALC | SHCA_EXP_SEND_CALC_HOST_ORDER;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EOPNOTSUPP);
	wr.exp_send_flags = IBV_EXP_SEND_WITH_CALC;
	wr.op.calc.data_size = (enum ibv_exp_calc_data_size)SHCA_EXP_CALC_DATA_SIZE_32_BIT;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EOPNOTSUPP);
}

Test(mlx5_wqe, refused)
{
	struct exp_mlx5_place ud = {.qpn = 1, .type = IBV_QPT_UD};
	struct ibv_exp_send_wr wr = request(IBV_EXP_WR_SEND, 0, 1);
	struct ibv_sge many[63];
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	cr_assert_eq(exp_mlx5_encode(&ud, &wr, wqe), -EOPNOTSUPP);
	wr.exp_opcode = (enum ibv_exp_wr_opcode)0x55;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EOPNOTSUPP);
	wr = masked(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 3);
	wr.exp_send_flags = 0;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EOPNOTSUPP);
	wr = request(IBV_EXP_WR_SEND, 0, 62);
	for (int i = 0; i < 63; i++)
		many[i] = sge[1];
	wr.sg_list = many;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), EXP_MLX5_WQE_MAX);
	wr.num_sge = 63;
	cr_assert_eq(exp_mlx5_encode(&rc, &wr, wqe), -EINVAL);
}
