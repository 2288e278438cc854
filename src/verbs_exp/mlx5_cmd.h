/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an mlx5 is asked through its driver, in bytes: its capabilities (DevX QUERY_HCA_CAP), and a queue pair with creation flags
 * that libibverbs refuses to pass on (the kernel's extended write command).
 */
#ifndef VERBS_EXP_MLX5_CMD_H
#define VERBS_EXP_MLX5_CMD_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- capabilities ----------------------------------------------------------------------------------------------------- */

/*
 * Of commands and answers, fields as (bit, width): bit 0 is the highest of the first byte. An answer has its status in the first
 * byte, 0 if it is one, and capabilities from bit 128 on.
 */
#define EXP_MLX5_IN_OPCODE 0, 16
#define EXP_MLX5_IN_OPMOD 48, 16
#define EXP_MLX5_IN_BYTES 16
#define EXP_MLX5_OUT_STATUS 0, 8
#define EXP_MLX5_OUT_CAPS 128
#define EXP_MLX5_OUT_BYTES (16 + 4096)
#define EXP_MLX5_CMD_QUERY_HCA_CAP 0x100
/* The opcode's modifier: which capabilities, << 1; and 1: those in force, 0: the most that there could be. */
enum { EXP_MLX5_CAPS_GENERAL = 0 << 1 | 1, EXP_MLX5_CAPS_ATOMIC = 3 << 1 | 1 };
/* General. */
#define EXP_MLX5_CAP_CD (EXP_MLX5_OUT_CAPS + 0x22c), 1		/* cross-channel */
/* Of atomics. */
#define EXP_MLX5_CAP_8B_MODE (EXP_MLX5_OUT_CAPS + 0x40), 2	/* order of results of 8 bytes: */
enum { EXP_MLX5_8B_NETWORK = 0, EXP_MLX5_8B_HOST = 1 };
#define EXP_MLX5_CAP_OPERATIONS (EXP_MLX5_OUT_CAPS + 0x90), 16
enum { EXP_MLX5_MASKED_CS = 1 << 2, EXP_MLX5_MASKED_FA = 1 << 3 };
#define EXP_MLX5_CAP_SIZES (EXP_MLX5_OUT_CAPS + 0xb0), 16	/* of operands in bytes, powers of two, ored */

static inline uint32_t exp_mlx5_get(const void *from, uint32_t bit, uint32_t width)
{
	const uint8_t *b = from;
	uint32_t v = 0;

	for (uint32_t i = bit; i < bit + width; i++)
		v = v << 1 | (b[i / 8] >> (7 - i % 8) & 1u);
	return v;
}

static inline void exp_mlx5_put(void *to, uint32_t bit, uint32_t width, uint32_t value)
{
	uint8_t *b = to;

	for (uint32_t i = bit + width; i-- > bit; value >>= 1) {
		uint8_t mask = (uint8_t)(0x80 >> i % 8);
		b[i / 8] = (uint8_t)((b[i / 8] & ~mask) | (value & 1 ? mask : 0));
	}
}

/* 4 to 128 bytes: a work queue element has no room for a compare-and-swap of 256. */
#define EXP_MLX5_SIZES (256u - 4)

/* Of the queries' answers. */
struct exp_mlx5_caps {
	bool cross_channel;
	bool host_order;		/* results of 8 bytes are in the host's order; of other sizes they are in network order */
	uint32_t masked_sizes;		/* of masked atomics, both kinds; 0: there are none */
};
/* What the device cannot be asked for is taken to be absent. */
void exp_mlx5_query_caps(struct ibv_context *ctx, struct exp_mlx5_caps *caps);

/* ---- queue pairs ------------------------------------------------------------------------------------------------------ */

/* The flags that the write command takes for an mlx5: IBV_EXP_QP_CREATE_CROSS_CHANNEL, _MANAGED_SEND, _MANAGED_RECV. */
#define EXP_MLX5_CREATE_FLAGS (7u << 2)

/* The command as the driver hands it to libibverbs: room for these, the driver's own part behind. The kernel wants lengths in
 * units of 8 bytes. */
struct exp_mlx5_create_cmd {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_ex_cmd_hdr ex;
	struct ib_uverbs_ex_create_qp core;
};

/*
 * Stands for libibverbs' ibv_cmd_create_qp_ex2, which libmlx5 calls, where attr->create_flags has EXP_MLX5_CREATE_FLAGS. `qp` is a
 * struct verbs_qp of libibverbs: a struct ibv_qp_ex and a word, its comp_mask. 0 or an errno value.
 */
int exp_mlx5_create_qp_cmd(struct ibv_context *ctx, void *qp, struct ibv_qp_init_attr_ex *attr, struct exp_mlx5_create_cmd *cmd,
			   size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size);

#endif
