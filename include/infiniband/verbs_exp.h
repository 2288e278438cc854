/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs of the RDMA Aware Programming manual (rev. 1.7) that upstream rdma-core does not expose:
 * extended atomics (appendix B) and cross-channel communication (appendix D). Names and numbers follow the
 * manual. A program includes this beside <infiniband/verbs.h>.
 *
 * What a device lacks is absent from its capabilities and refused with EOPNOTSUPP; nothing is emulated.
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- device capabilities (B.2.1, D.2.1) ------------------------------------------------------------------ */

enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_DC_TRANSPORT = 1ULL << 0,
	IBV_EXP_DEVICE_EXT_ATOMICS = 1ULL << 1,
	IBV_EXP_DEVICE_CROSS_CHANNEL = 1ULL << 2,
};

enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 0,
	IBV_EXP_DEVICE_ATTR_CALC_CAP = 1 << 1,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 2,
};

enum ibv_exp_calc_op {
	IBV_EXP_CALC_OP_ADD = 0,
	IBV_EXP_CALC_OP_MAXLOC,
	IBV_EXP_CALC_OP_BAND,
	IBV_EXP_CALC_OP_BXOR,
	IBV_EXP_CALC_OP_BOR,
	IBV_EXP_CALC_OP_NUMBER,
};
enum ibv_exp_calc_data_type {
	IBV_EXP_CALC_DATA_TYPE_INT = 0,
	IBV_EXP_CALC_DATA_TYPE_UINT,
	IBV_EXP_CALC_DATA_TYPE_FLOAT,
	IBV_EXP_CALC_DATA_TYPE_NUMBER,
};
enum ibv_exp_calc_data_size {
	IBV_EXP_CALC_DATA_SIZE_64_BIT = 0,
	IBV_EXP_CALC_DATA_SIZE_NUMBER,
};

/* Bit masks by the enumerations above; all zero: no CALC. */
struct ibv_exp_device_calc_cap {
	uint64_t data_types, data_sizes, int_ops, uint_ops, fp_ops;
};

struct ibv_exp_ext_atomics_params {
	uint64_t atomic_arg_sizes;	/* the sizes in bytes, powers of two, ored: 8 is bit 3 */
	uint32_t max_fa_bit_boundary;	/* log2 of the largest fetch-and-add field, in bytes */
	uint32_t log_max_atomic_inline;	/* log2 of the most operand bytes of a request, all operands together */
};

struct ibv_exp_device_attr {
	uint32_t comp_mask;		/* in: which of these are wanted; out: which were filled in */
	uint64_t exp_device_cap_flags;
	struct ibv_exp_device_calc_cap calc_cap;
	struct ibv_exp_ext_atomics_params ext_atom;
	uint32_t max_task_wrs;		/* work requests of one task list; 0: bounded by the queues only */
	uint64_t shca_extensions;	/* enum shca_exp_extension */
	uint32_t shca_calc_vector_max;	/* bytes of a vector of CALC */
};

/* ---- extensions of the software HCA: not in the manual ------------------------------------------------------- */

/* In ibv_exp_device_attr.comp_mask: shca_extensions and shca_calc_vector_max. */
#define SHCA_EXP_DEVICE_ATTR_EXTENSIONS (1u << 31)
enum shca_exp_extension {
	SHCA_EXP_EXTENSION_ATOMIC_GATHER = 1 << 0,	/* extended atomics without IBV_EXP_SEND_EXT_ATOMIC_INLINE */
	SHCA_EXP_EXTENSION_CALC_OPS = 1 << 1,		/* enum shca_exp_calc_op */
	SHCA_EXP_EXTENSION_CALC_SIZES = 1 << 2,		/* enum shca_exp_calc_data_size */
	SHCA_EXP_EXTENSION_CALC_HOST_ORDER = 1 << 3,	/* SHCA_EXP_SEND_CALC_HOST_ORDER */
	SHCA_EXP_EXTENSION_CALC_VECTOR = 1 << 4,	/* SHCA_EXP_SEND_CALC_VECTOR */
};
/* Values of op.calc.calc_op and op.calc.data_size (with a cast); small sizes in vectors only, MAXLOC on 64 bit only. */
enum shca_exp_calc_op {
	SHCA_EXP_CALC_OP_MIN = 0x100, SHCA_EXP_CALC_OP_MAX, SHCA_EXP_CALC_OP_PROD, SHCA_EXP_CALC_OP_MAXLOC,
};
enum shca_exp_calc_data_size {
	SHCA_EXP_CALC_DATA_SIZE_32_BIT = 0x100, SHCA_EXP_CALC_DATA_SIZE_16_BIT, SHCA_EXP_CALC_DATA_SIZE_8_BIT,
};
/* With IBV_EXP_SEND_WITH_CALC. Each segment of the gather list is one operand, a vector of packed values; all are equally
 * long, and so is the result. */
#define SHCA_EXP_SEND_CALC_VECTOR (1ULL << 56)
/* Operands and result are in the host's order. */
#define SHCA_EXP_SEND_CALC_HOST_ORDER (1ULL << 57)

/* Returns 0 or an errno value. */
int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);

/* ---- queues (B.2.3, D.2.2, D.2.3) ------------------------------------------------------------------------- */

enum ibv_exp_cq_create_flags { IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0 };
enum ibv_exp_cq_init_attr_mask { IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0 };
struct ibv_exp_cq_init_attr {
	uint32_t comp_mask;
	uint32_t flags;
};
struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector,
				 struct ibv_exp_cq_init_attr *attr);

enum ibv_exp_cq_attr_mask { IBV_EXP_CQ_CAP_FLAGS = 1 << 2 };
enum ibv_exp_cq_attr_comp_mask { IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 0 };
enum ibv_exp_cq_cap_flags { IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0 };
struct ibv_exp_cq_attr {
	uint32_t comp_mask;
	uint32_t cq_cap_flags;
};
/* Returns 0 or an errno value. */
int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);

enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = 1 << 2,	/* WAIT and ENABLE requests may be posted */
	IBV_EXP_QP_CREATE_MANAGED_SEND = 1 << 3,	/* send requests run only when enabled */
	IBV_EXP_QP_CREATE_MANAGED_RECV = 1 << 4,	/* receive requests are taken only when enabled */
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = 1 << 6,
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = 1 << 7,
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8,
};
enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 3,
};
struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags;
	uint32_t max_atomic_arg;	/* bytes */
};
/* NULL with errno. EOPNOTSUPP: the device lacks a requested capability. */
struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);

/* ---- work requests (B.2.4, D.3) --------------------------------------------------------------------------- */

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_SEND_ENABLE = 0x60,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
};

/* The low 32 bits are enum ibv_send_flags. */
#define IBV_EXP_SEND_FENCE ((uint64_t)IBV_SEND_FENCE)
#define IBV_EXP_SEND_SIGNALED ((uint64_t)IBV_SEND_SIGNALED)
#define IBV_EXP_SEND_SOLICITED ((uint64_t)IBV_SEND_SOLICITED)
#define IBV_EXP_SEND_INLINE ((uint64_t)IBV_SEND_INLINE)
#define IBV_EXP_SEND_WITH_CALC (1ULL << 33)
#define IBV_EXP_SEND_WAIT_EN_LAST (1ULL << 34)
#define IBV_EXP_SEND_EXT_ATOMIC_INLINE (1ULL << 35)

struct ibv_exp_cmp_swap {
	uint64_t compare_mask, compare_val, swap_val, swap_mask;
};
struct ibv_exp_fetch_add {
	uint64_t add_val;
	uint64_t field_boundary;	/* bit n set: a field ends at bit n, no carry leaves it; bit 63 is implicit */
};

struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	uint64_t exp_send_flags;
	union {
		__be32 imm_data;
		uint32_t invalidate_rkey;
	} ex;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn, remote_qkey;
		} ud;
	} wr;
	union {
		struct {
			uint32_t remote_srqn;
		} xrc;
	} qp_type;
	union {
		/* Done when cq_count further completions, counted from the CQ's wait index, are in cq. Several waits
		 * on one CQ share that base until the one that carries IBV_EXP_SEND_WAIT_EN_LAST, which moves it to the
		 * largest of them: a lone wait must carry it. */
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		/* Enables the next wqe_count requests of qp's queue, counted from the queue's enable index; 0: all that are
		 * posted. Several enables share that base until the one that carries IBV_EXP_SEND_WAIT_EN_LAST, as waits do:
		 * 2, 2 and 2 with the flag enable two. What is enabled may be posted later. */
		struct {
			struct ibv_qp *qp;
			int32_t wqe_count;
		} wqe_enable;
	} task;
	union {
		/* With IBV_EXP_SEND_WITH_CALC, of SEND, RDMA WRITE and READ: the gather list names elements of 16 bytes, a
		 * value of 8 in network order and 8 that are not looked at; they are reduced to one, the payload. */
		struct {
			enum ibv_exp_calc_op calc_op;
			enum ibv_exp_calc_data_type data_type;
			enum ibv_exp_calc_data_size data_size;
		} calc;
	} op;
	union {
		/* The result, the value before the operation, lands in sg_list[0]. With IBV_EXP_SEND_EXT_ATOMIC_INLINE, operands of
		 * 8 bytes are in op, smaller ones in the low bits; of larger ones op has the addresses (as integers) of
		 * log_arg_sz-sized operands, which are read when the request is posted. */
		struct {
			uint32_t log_arg_sz;	/* log2 of the operand, bytes */
			uint64_t remote_addr;
			uint32_t rkey;
			union {
				struct {
					union {
						struct ibv_exp_cmp_swap cmp_swap;
						struct ibv_exp_fetch_add fetch_add;
					} op;
				} inline_data;
			} wr_data;
		} masked_atomics;
	} ext_op;
	uint32_t comp_mask;		/* must be 0: for later use, not looked at */
};

/* Like ibv_post_send, for the requests above. Returns 0 or an errno value, *bad_wr the refused request. */
int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);

enum ibv_exp_task_type { IBV_EXP_TASK_SEND = 0, IBV_EXP_TASK_RECV = 1 };
struct ibv_exp_task {
	enum ibv_exp_task_type task_type;
	struct {
		struct ibv_qp *qp;
		union {
			struct ibv_exp_send_wr *send_wr;
			struct ibv_recv_wr *recv_wr;
		};
	} item;
	struct ibv_exp_task *next;
	uint32_t comp_mask;		/* must be 0: for later use, not looked at */
};
/* Posts a list of tasks (D.3). The list is validated first: on an error nothing of it was posted, *bad_task names
 * the refused task. Returns 0 or an errno value. */
int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);

#ifdef __cplusplus
}
#endif
#endif
