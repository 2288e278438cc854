/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider of the experimental verbs for mlx5, over libmlx5's public interface (mlx5dv), for devices of which
 * mlx5dv_is_supported() is true. It has run on no adapter: tests run it on the software HCA, which stands for a ConnectX
 * (SHCA_EXP_PROVIDER=mlx5). docs/hardware.md lists the questions that only hardware can answer.
 *
 * mlx5.c          the provider's table: capabilities, objects, completions mlx5_record.c   state of objects beyond libmlx5's
 * mlx5_post.c     posting, task lists mlx5_cmd.c      commands to driver and firmware, in bytes mlx5_wqe.c      work queue
 * elements, in bytes
 */
#ifndef VERBS_EXP_MLX5_H
#define VERBS_EXP_MLX5_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>

#include "verbs_exp/mlx5_cmd.h"

struct mlx5dv_mkey;

/*
 * The index from which WAITs for a CQ, or ENABLEs of a queue, count. A WQE has an absolute index modulo 2^32: completions since
 * the CQ was created; requests since the queue left RESET. The manual's counts are relative to a base, which the last request
 * of a group moves.
 *
 * An adapter's send queue consists of blocks of 64 bytes. Whether an ENABLE's index counts blocks or requests is publicly
 * unknown (the vendor's old library counts requests, other sources say blocks). So a managed send queue takes requests of one
 * block only: both counts are then equal (exp_mlx5_fits_managed).
 */
struct exp_mlx5_index {
	uint64_t base;			/* of the next requests */
	uint64_t most;			/* the largest index so far */
	uint64_t list_number;		/* number of the list that ahead_base and ahead_most count, posted or not; another list
					 * starts from base and most */
	uint64_t ahead_base, ahead_most;
	uint64_t posted_base, posted_most;	/* of the posted requests: base and most when the list is done */
};
#define EXP_MLX5_BLOCK 64
static inline bool exp_mlx5_fits_managed(int wqe_bytes)
{
	return wqe_bytes <= EXP_MLX5_BLOCK;
}

/* A raw request that will complete. libmlx5 reports all raw requests as IBV_WC_DRIVER2, so wr_id finds the opcode. */
struct exp_mlx5_raw {
	uint64_t wr_id;
	enum ibv_exp_wc_opcode opcode;
};

struct exp_mlx5_qp {
	struct ibv_qp *qp;
	struct exp_mlx5_qp *by_number;	/* next queue pair of the hash bucket */
	uint32_t flags;			/* IBV_EXP_QP_CREATE_* */
	bool signal_all;
	struct ibv_qp_cap cap;
	uint32_t max_atomic;		/* largest operand of a masked atomic, in bytes */
	uint32_t klms;			/* entries in a request that fills a memory key, with the header of blocks; 0: none */
	struct exp_mlx5_index send, recv;	/* managed queues: requests that are enabled */
	uint64_t sent, received;	/* requests posted since RESET */
	uint64_t to_send, to_receive;	/* requests that the task list under way will post */
	struct exp_mlx5_raw *raw;	/* ring, indexed by position & raw_mask */
	uint64_t raw_first, raw_end, raw_mask;
};

/* A memory key that requests configure: mlx5dv's, as a region of the experimental verbs. */
struct exp_mlx5_key {
	struct ibv_mr mr;		/* address and length are 0 */
	struct mlx5dv_mkey *dv;
	uint32_t entries;
};
/*
 * Entries in a request of every queue pair with IBV_EXP_QP_CREATE_UMR: a list of as many regions, or a header and the blocks
 * behind it. mlx5dv knows entries in the request only; IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS asks for more.
 */
#define EXP_MLX5_KLMS 32
#define EXP_MLX5_KLM_BYTES 16
/* The most that a work queue element holds: behind the control segment and 112 bytes of the key's. */
#define EXP_MLX5_KLMS_MAX 55

struct exp_mlx5_cq {
	uint32_t number;
	struct exp_mlx5_index waited;
};

struct exp_mlx5_context {
	struct exp_mlx5_caps caps;
	bool calc;			/* SHCA_EXP_CALC: CALC is taken for granted */
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);	/* libmlx5's function, when
												 * exp_mlx5_post_recv has
												 * replaced it; else NULL */
};

/* ENOMEM: malloc has failed. As exp_no_memory: an mlx5's provider refuses by shca_refuse. */
#define mlx5_no_memory() shca_refuse(ENOMEM, "%s: the process has no memory left", __func__)

/* Guards all records. Held while requests are posted, so that requests are counted in the order in which they are posted. */
extern pthread_mutex_t exp_mlx5_mutex;

/* Must: the mutex is held in all functions below. Return NULL if the object is unknown. */
struct exp_mlx5_qp *exp_mlx5_qp_of(const struct ibv_qp *qp);
struct exp_mlx5_qp *exp_mlx5_qp_by_number(const struct ibv_context *ctx, uint32_t number);
struct exp_mlx5_context *exp_mlx5_context_of(const struct ibv_context *ctx);
struct exp_mlx5_key *exp_mlx5_key_of(const struct ibv_mr *mr);
/* Makes the record at first use, since any CQ can be waited for. Returns NULL with errno. */
struct exp_mlx5_cq *exp_mlx5_cq_of(struct ibv_cq *cq);
/* Enter a new object. Return 0 or an errno value. The record of a known context stays. */
int exp_mlx5_enter_qp(const struct exp_mlx5_qp *qp);
int exp_mlx5_enter_context(struct ibv_context *ctx, const struct exp_mlx5_context *c);
/* Makes the record of a key, which becomes the owner of key->dv: ibv_dereg_mr ends both. Returns the key's region; NULL: no
 * memory. */
struct ibv_mr *exp_mlx5_enter_key(const struct exp_mlx5_key *key);

/* mlx5_post.c; as in struct ibv_exp_provider. */
int exp_mlx5_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
int exp_mlx5_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
/* Replaces libmlx5's function in contexts with managed receive queues, and counts the receives. */
int exp_mlx5_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
