/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands to an mlx5, in bytes: a query of capabilities (DevX QUERY_HCA_CAP), and the kernel's extended write command that
 * creates a queue pair with flags which libibverbs refuses.
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
 * Fields of commands and answers as (bit, width); bit 0 is the highest of the first byte. An answer's first byte is the status,
 * 0 for success; capabilities begin at bit 128.
 */
#define EXP_MLX5_IN_OPCODE 0, 16
#define EXP_MLX5_IN_OPMOD 48, 16
#define EXP_MLX5_IN_BYTES 16
#define EXP_MLX5_OUT_STATUS 0, 8
#define EXP_MLX5_OUT_CAPS 128
#define EXP_MLX5_OUT_BYTES (16 + 4096)
#define EXP_MLX5_CMD_QUERY_HCA_CAP 0x100
/* Opcode modifier: the group of capabilities << 1; lowest bit 1: the current values, 0: the maxima. */
enum { EXP_MLX5_CAPS_GENERAL = 0 << 1 | 1, EXP_MLX5_CAPS_ATOMIC = 3 << 1 | 1 };
/* Group of general capabilities. */
#define EXP_MLX5_CAP_MAX_INDIRECTION (EXP_MLX5_OUT_CAPS + 0x100), 8	/* depth of memory keys over memory keys */
#define EXP_MLX5_CAP_LOG_KLMS (EXP_MLX5_OUT_CAPS + 0x11a), 6		/* log2 of the entries of a memory key; 0: no such keys */
#define EXP_MLX5_CAP_CD (EXP_MLX5_OUT_CAPS + 0x22c), 1		/* cross-channel */
/* Group of atomic capabilities. */
#define EXP_MLX5_CAP_8B_MODE (EXP_MLX5_OUT_CAPS + 0x40), 2	/* order of results of 8 bytes: */
enum { EXP_MLX5_8B_NETWORK = 0, EXP_MLX5_8B_HOST = 1 };
#define EXP_MLX5_CAP_OPERATIONS (EXP_MLX5_OUT_CAPS + 0x90), 16
enum { EXP_MLX5_MASKED_CS = 1 << 2, EXP_MLX5_MASKED_FA = 1 << 3 };
#define EXP_MLX5_CAP_SIZES (EXP_MLX5_OUT_CAPS + 0xb0), 16	/* operand sizes in bytes, powers of two, ored */

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

/* 4 to 128 bytes: a compare-and-swap of 256 bytes does not fit a WQE. */
#define EXP_MLX5_SIZES (256u - 4)

/* Results of the queries. */
struct exp_mlx5_caps {
	bool cross_channel;
	bool host_order;		/* results of 8 bytes are in host order; results of other sizes are in network order */
	uint32_t masked_sizes;		/* operand sizes that both masked atomics have; 0: none */
	uint32_t key_entries;		/* entries of a memory key that requests configure (UMR); 0: no such keys */
	uint32_t key_depth;		/* memory keys over memory keys */
};
/* Queries the capabilities. A group that the device refuses counts as absent. Returns 0, or an errno value that says nothing
 * about the device (is_passing_error): *caps is then not to be kept. */
int exp_mlx5_query_caps(struct ibv_context *ctx, struct exp_mlx5_caps *caps);

/* ---- queue pairs ------------------------------------------------------------------------------------------------------ */

/* Creation flags that the write command accepts for an mlx5: IBV_EXP_QP_CREATE_CROSS_CHANNEL, _MANAGED_SEND, _MANAGED_RECV. */
#define EXP_MLX5_CREATE_FLAGS (7u << 2)

/* The command in the driver's buffer: these parts, then the driver's own. The kernel wants lengths in units of 8 bytes. */
struct exp_mlx5_create_cmd {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_ex_cmd_hdr ex;
	struct ib_uverbs_ex_create_qp core;
};

/*
 * Replaces libibverbs' ibv_cmd_create_qp_ex2, which libmlx5 calls, where attr->create_flags has bits of EXP_MLX5_CREATE_FLAGS.
 * `qp` is libibverbs' struct verbs_qp: a struct ibv_qp_ex, then a word, its comp_mask. Returns 0 or an errno value.
 */
int exp_mlx5_create_qp_cmd(struct ibv_context *ctx, void *qp, struct ibv_qp_init_attr_ex *attr, struct exp_mlx5_create_cmd *cmd,
			   size_t cmd_size, struct ib_uverbs_ex_create_qp_resp *resp, size_t resp_size);

#endif
