/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider of the experimental verbs for an mlx5: over libmlx5's public interface (mlx5dv), for devices of which
 * mlx5dv_is_supported() is true. No adapter has run it so far; the software HCA, as a ConnectX, runs it in tests
 * (SHCA_EXP_PROVIDER=mlx5). docs/hardware.md says what only hardware can tell.
 *
 *   mlx5.c          the provider's table: capabilities, objects, completions
 *   mlx5_record.c   what is known of objects beyond what ordinary verbs keep
 *   mlx5_post.c     posting, task lists
 *   mlx5_cmd.c      commands to driver and firmware, in bytes
 *   mlx5_wqe.c      work queue elements, in bytes
 */
#ifndef VERBS_EXP_MLX5_H
#define VERBS_EXP_MLX5_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>

#include "verbs_exp/mlx5_cmd.h"

/*
 * Where WAITs for a CQ, or ENABLEs of a queue, count from. A WQE has an absolute index modulo 2^32: completions since the CQ was
 * made; requests since the queue left RESET. The manual's counts are relative to a base that the last one of a group moves.
 *
 * An adapter's send queue consists of blocks of 64 bytes, and whether an ENABLE's index counts those or requests is publicly
 * unknown (the vendor's old library had it count requests, others take it for blocks). So a managed send queue takes requests
 * of one block only: then both are the same (exp_mlx5_fits_managed).
 */
struct exp_mlx5_index {
	uint64_t base;			/* of the next ones */
	uint64_t most;			/* the largest index so far */
	uint64_t list;			/* whose requests are counted ahead, posted or not; another list: as above */
	uint64_t ahead_base, ahead_most;
	uint64_t posted_base, posted_most;	/* as of what was posted: base and most, when the list is done */
};
#define EXP_MLX5_BLOCK 64
static inline bool exp_mlx5_fits_managed(int wqe_bytes)
{
	return wqe_bytes <= EXP_MLX5_BLOCK;
}

/* A raw request whose completion will come, to be told from others by its wr_id: libmlx5 calls all of them IBV_WC_DRIVER2. */
struct exp_mlx5_raw {
	uint64_t wr_id;
	enum ibv_exp_wc_opcode opcode;
};

struct exp_mlx5_qp {
	struct ibv_qp *qp;
	struct exp_mlx5_qp *by_number;	/* the next one of its bucket */
	uint32_t flags;			/* IBV_EXP_QP_CREATE_* */
	bool signal_all;
	struct ibv_qp_cap cap;
	uint32_t max_atomic;		/* bytes of a masked atomic's operand */
	struct exp_mlx5_index send, recv;	/* managed: what is enabled */
	uint64_t sent, received;	/* posted since RESET */
	uint64_t to_send, to_receive;	/* ... and what the task list that is being posted will post */
	struct exp_mlx5_raw *raw;	/* a ring, by position & mask */
	uint64_t raw_first, raw_end, raw_mask;
};

struct exp_mlx5_cq {
	uint32_t number;
	struct exp_mlx5_index waited;
};

struct exp_mlx5_context {
	struct exp_mlx5_caps caps;
	bool calc;			/* SHCA_EXP_CALC */
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);	/* libmlx5's; NULL: in its place */
};

/* Guards all records; held while requests are posted, so that what is counted and what is posted are in one order. */
extern pthread_mutex_t exp_mlx5_mutex;

/* The mutex is held in all that follow. NULL: nothing is known of it. */
struct exp_mlx5_qp *exp_mlx5_qp_of(const struct ibv_qp *qp);
struct exp_mlx5_qp *exp_mlx5_qp_by_number(const struct ibv_context *ctx, uint32_t number);
struct exp_mlx5_context *exp_mlx5_context_of(const struct ibv_context *ctx);
/* Makes it when needed: any CQ can be waited for. NULL with errno. */
struct exp_mlx5_cq *exp_mlx5_cq_of(struct ibv_cq *cq);
/* Enter a new object. 0 or an errno value; of a context that is known already the new one is dropped. */
int exp_mlx5_enter_qp(const struct exp_mlx5_qp *qp);
int exp_mlx5_enter_context(struct ibv_context *ctx, const struct exp_mlx5_context *c);

/* mlx5_post.c, as in struct ibv_exp_provider. */
int exp_mlx5_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
int exp_mlx5_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
/* In place of libmlx5's, of contexts with managed receive queues: counts what is posted. */
int exp_mlx5_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
