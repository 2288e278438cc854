/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The work queue elements (WQEs) of an mlx5 for requests of the experimental verbs: segments of 16 bytes, all fields
 * big-endian. <infiniband/mlx5dv.h> names the public ones; those that it lacks are named here.
 *
 *   control     opmod << 24 | WQE index << 8 | opcode;  queue << 8 | DS (segments in all);  signature, 0, 0, fm_ce_se;
 *               immediate
 *   XRC         shared receive queue, 12 reserved           (XRC send queues only; behind the control segment)
 *   address     remote address, remote key, 4 reserved      (RDMA, atomics)
 *   atomic      swap or add, compare                        (8 bytes, not masked)
 *   masked      operands, see mlx5_wqe.c
 *   data        byte count, local key, address              one per entry of the gather or scatter list
 *   inline      byte count | 1 << 31, data                  padded to 16 bytes
 *   wait_en     8 reserved, index, CQ or queue number       (WAIT, SEND_EN, RECV_EN)
 */
#ifndef VERBS_EXP_MLX5_WQE_H
#define VERBS_EXP_MLX5_WQE_H

#include <infiniband/verbs_exp.h>
#include <stdbool.h>

/* Opcodes that MLX5_OPCODE_* lacks. */
#define EXP_MLX5_OPCODE_WAIT 0x0f
#define EXP_MLX5_OPCODE_RECV_EN 0x16
#define EXP_MLX5_OPCODE_SEND_EN 0x17

/* Opcode modifiers of masked atomics; the low bits are log2 of the operand size in units of 4 bytes. */
#define EXP_MLX5_OPMOD_EXT_ATOMIC 0x08
/* Opcode modifiers of SEND, RDMA WRITE and READ: CALC on 64-bit values. The bitwise operations take any type. */
enum exp_mlx5_calc {
	EXP_MLX5_CALC_UINT64_ADD = 1, EXP_MLX5_CALC_FLOAT64_ADD, EXP_MLX5_CALC_UINT64_MAXLOC, EXP_MLX5_CALC_UINT64_AND,
	EXP_MLX5_CALC_UINT64_OR, EXP_MLX5_CALC_UINT64_XOR,
};

#define EXP_MLX5_SEGMENT 16
#define EXP_MLX5_WQE_MAX (63 * EXP_MLX5_SEGMENT)	/* the field DS has 6 bits */

/* Fields of a WQE that the request does not have. */
struct exp_mlx5_place {
	uint32_t qpn;			/* of the queue that executes the WQE */
	enum ibv_qp_type type;
	bool signal_all;		/* sq_sig_all of the queue */
	uint32_t object;		/* WAIT: number of the CQ; ENABLE: number of the queue */
	uint32_t index;			/* WAIT, ENABLE: absolute, modulo 2^32 (mlx5.h) */
};

/*
 * Writes the WQE of a request to `wqe`. Returns its length in bytes, a multiple of 16; bytes behind the length are undefined.
 * The WQE's index is 0: the code that enqueues the WQE sets the index. Returns -EINVAL: the WQE would be too long, or the
 * request is invalid for its opcode; -EOPNOTSUPP: no encoding (an extension of the software HCA, a datagram). Reads the
 * operands and inline data that the request points to.
 */
int exp_mlx5_encode(const struct exp_mlx5_place *at, const struct ibv_exp_send_wr *wr, uint8_t wqe[EXP_MLX5_WQE_MAX]);

#endif
