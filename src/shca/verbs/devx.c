/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device's clock, and DevX commands to the firmware, where SHCA_IDENTITY makes the device a ConnectX: the part
 * of QUERY_HCA_CAP that tells of raw work requests and of memory keys. All other capabilities in an answer are 0,
 * and the device lacks them.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "shca/engine/atomic.h"
#include "shca/verbs/control.h"
#include "verbs_exp/mlx5_cmd.h"

int shca_devx_general_cmd(struct ibv_context *ctx, const void *in, size_t in_bytes, void *out, size_t out_bytes)
{
	uint32_t opcode, opmod;

	if (!shca_is_connectx())
		return shca_refuse(EOPNOTSUPP, "mlx5dv_devx_general_cmd: the device is a ConnectX with SHCA_IDENTITY=connectx");
	if (in_bytes < EXP_MLX5_IN_BYTES || out_bytes < EXP_MLX5_IN_BYTES)
		return shca_refuse(EINVAL,
				   "mlx5dv_devx_general_cmd: a command of %zu bytes, an answer of %zu; both have 16 at least",
				   in_bytes, out_bytes);
	opcode = exp_mlx5_get(in, EXP_MLX5_IN_OPCODE);
	opmod = exp_mlx5_get(in, EXP_MLX5_IN_OPMOD) | 1;	/* current capabilities are answered as maximum ones */
	if (opcode != EXP_MLX5_CMD_QUERY_HCA_CAP || (opmod != EXP_MLX5_CAPS_GENERAL && opmod != EXP_MLX5_CAPS_ATOMIC))
		return shca_refuse(EOPNOTSUPP,
				   "mlx5dv_devx_general_cmd: opcode %#x, modifier %#x: there is QUERY_HCA_CAP (0x100) of "
				   "general capabilities (0) and atomics (6) only",
				   opcode, opmod & ~1u);
	if (out_bytes < EXP_MLX5_OUT_BYTES)
		return shca_refuse(EINVAL, "mlx5dv_devx_general_cmd: capabilities have %d bytes, there is room for %zu",
				   EXP_MLX5_OUT_BYTES, out_bytes);
	memset(out, 0, out_bytes);
	if (opmod == EXP_MLX5_CAPS_GENERAL) {
		exp_mlx5_put(out, EXP_MLX5_CAP_CD, 1);
		exp_mlx5_put(out, EXP_MLX5_CAP_MAX_INDIRECTION, SHCA_MKEY_DEPTH);
		exp_mlx5_put(out, EXP_MLX5_CAP_LOG_KLMS, 15);
		return 0;
	}
	exp_mlx5_put(out, EXP_MLX5_CAP_8B_MODE, EXP_MLX5_8B_HOST);
	exp_mlx5_put(out, EXP_MLX5_CAP_OPERATIONS, 0x3 | EXP_MLX5_MASKED_CS | EXP_MLX5_MASKED_FA);
	exp_mlx5_put(out, EXP_MLX5_CAP_SIZES, 2 * SHCA_ATOMIC_MAX - 4);
	return 0;
}

int shca_clock_info(struct ibv_context *ctx, struct mlx5dv_clock_info *info)
{
	struct timespec wall;

	if (!shca_is_connectx())
		return shca_refuse(EOPNOTSUPP, "mlx5dv_get_clock_info: the device is a ConnectX with SHCA_IDENTITY=connectx");
	if (shca_unusable(ctx))
		return errno;
	clock_gettime(CLOCK_REALTIME, &wall);
	/* a cycle of the device's clock is a nanosecond */
	*info = (struct mlx5dv_clock_info){
		.nsec = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec, .last_cycles = shca_clock_ns(), .mult = 1,
		.mask = UINT64_MAX,
	};
	return 0;
}
