/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The experimental verbs of the RDMA Aware Programming manual (rev. 1.7; sections 3.4 and 3.8, appendices A to D) that
 * upstream rdma-core does not have: dynamically connected transport, extended atomics, cross-channel communication, calculation
 * on send, and the extended forms of ordinary verbs. Names and numbers are those of the vendor's header of the same name: programs
 * written for that header compile unchanged, and programs that expect its names in <infiniband/verbs.h> compile with
 * `-include infiniband/verbs_exp.h`.
 *
 * A feature that a device lacks is absent from its capabilities and refused with EOPNOTSUPP; nothing is emulated. Unless a call says
 * otherwise, an int result is 0 or an errno value, and a pointer result is NULL with errno on failure. A structure's `comp_mask` tells
 * which of the later fields the program has filled in; the library ignores the rest.
 *
 * verbs_exp_memory.h: memory and resource domains. verbs_exp_ethernet.h: the names of features that this implementation refuses
 * altogether (packet steering, receive hashing, erasure coding, interfaces by function table). verbs_exp_xrc.h: the manual's older XRC
 * calls (3.4.8 to 3.4.14, 3.6.3).
 */
#ifndef INFINIBAND_VERBS_EXP_H
#define INFINIBAND_VERBS_EXP_H

/*
 * The event of a DC target has a member `element.dct`, which upstream's structure lacks. All members are as long as a pointer, so the
 * structure below has upstream's layout. The header declares it only if <infiniband/verbs.h> was not included before; programs that
 * include that first call ibv_exp_event_dct().
 */
#ifndef INFINIBAND_VERBS_H
#define SHCA_EXP_OWN_ASYNC_EVENT 1
#define ibv_async_event shca_exp_upstream_async_event
#define ibv_get_async_event shca_exp_upstream_get_async_event
#define ibv_ack_async_event shca_exp_upstream_ack_async_event
#endif
#include <infiniband/verbs.h>
#ifdef SHCA_EXP_OWN_ASYNC_EVENT
#undef ibv_async_event
#undef ibv_get_async_event
#undef ibv_ack_async_event
#endif

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of the experimental verbs start behind those of ordinary ones: opcodes and events, and flags of 64 bits. */
__extension__ enum ibv_exp_start_values {
	IBV_EXP_START_ENUM = 0x40,
	IBV_EXP_START_FLAG_LOC = 0x20,
	IBV_EXP_START_FLAG = 1ULL << IBV_EXP_START_FLAG_LOC,
};

/* Beyond upstream's enumerations of these names. */
#define IBV_EXP_QPT_DC_INI ((enum ibv_qp_type)32)
#define IBV_EXP_EVENT_DCT_KEY_VIOLATION ((enum ibv_event_type)32)
#define IBV_EXP_EVENT_DCT_ACCESS_ERR ((enum ibv_event_type)33)	/* never raised: a target refuses the request and stays usable */
#define IBV_EXP_EVENT_DCT_REQ_ERR ((enum ibv_event_type)34)	/* the target is in error: its completion queue was overrun */

struct ibv_exp_dct;
#ifdef SHCA_EXP_OWN_ASYNC_EVENT
struct ibv_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
		struct ibv_exp_dct *dct;
		int port_num;
	} element;
	enum ibv_event_type event_type;
};
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void ibv_ack_async_event(struct ibv_async_event *event);
#endif
/* The target of an IBV_EXP_EVENT_DCT_* event. */
static inline struct ibv_exp_dct *ibv_exp_event_dct(const struct ibv_async_event *event)
{
	return (struct ibv_exp_dct *)(void *)event->element.qp;
}

/* ---- device (3.8.1, A.1.2, B.2.1, C.1.1, D.2.1) -------------------------------------------------------------- */

enum ibv_exp_atomic_cap {
	IBV_EXP_ATOMIC_NONE = IBV_ATOMIC_NONE,
	IBV_EXP_ATOMIC_HCA = IBV_ATOMIC_HCA,
	IBV_EXP_ATOMIC_GLOB = IBV_ATOMIC_GLOB,
	IBV_EXP_ATOMIC_HCA_REPLY_BE = IBV_EXP_START_ENUM,	/* results in network order only: IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY */
};

__extension__ enum ibv_exp_device_cap_flags {
	IBV_EXP_DEVICE_RESIZE_MAX_WR = IBV_DEVICE_RESIZE_MAX_WR,
	IBV_EXP_DEVICE_BAD_PKEY_CNTR = IBV_DEVICE_BAD_PKEY_CNTR,
	IBV_EXP_DEVICE_BAD_QKEY_CNTR = IBV_DEVICE_BAD_QKEY_CNTR,
	IBV_EXP_DEVICE_RAW_MULTI = IBV_DEVICE_RAW_MULTI,
	IBV_EXP_DEVICE_AUTO_PATH_MIG = IBV_DEVICE_AUTO_PATH_MIG,
	IBV_EXP_DEVICE_CHANGE_PHY_PORT = IBV_DEVICE_CHANGE_PHY_PORT,
	IBV_EXP_DEVICE_UD_AV_PORT_ENFORCE = IBV_DEVICE_UD_AV_PORT_ENFORCE,
	IBV_EXP_DEVICE_CURR_QP_STATE_MOD = IBV_DEVICE_CURR_QP_STATE_MOD,
	IBV_EXP_DEVICE_SHUTDOWN_PORT = IBV_DEVICE_SHUTDOWN_PORT,
	IBV_EXP_DEVICE_INIT_TYPE = IBV_DEVICE_INIT_TYPE,
	IBV_EXP_DEVICE_PORT_ACTIVE_EVENT = IBV_DEVICE_PORT_ACTIVE_EVENT,
	IBV_EXP_DEVICE_SYS_IMAGE_GUID = IBV_DEVICE_SYS_IMAGE_GUID,
	IBV_EXP_DEVICE_RC_RNR_NAK_GEN = IBV_DEVICE_RC_RNR_NAK_GEN,
	IBV_EXP_DEVICE_SRQ_RESIZE = IBV_DEVICE_SRQ_RESIZE,
	IBV_EXP_DEVICE_N_NOTIFY_CQ = IBV_DEVICE_N_NOTIFY_CQ,
	IBV_EXP_DEVICE_XRC = IBV_DEVICE_XRC,

	IBV_EXP_DEVICE_DC_TRANSPORT = IBV_EXP_START_FLAG << 0,
	IBV_EXP_DEVICE_QPG = IBV_EXP_START_FLAG << 1,
	IBV_EXP_DEVICE_UD_RSS = IBV_EXP_START_FLAG << 2,
	IBV_EXP_DEVICE_UD_TSS = IBV_EXP_START_FLAG << 3,
	IBV_EXP_DEVICE_EXT_ATOMICS = IBV_EXP_START_FLAG << 4,
	IBV_EXP_DEVICE_NOP = IBV_EXP_START_FLAG << 5,
	IBV_EXP_DEVICE_UMR = IBV_EXP_START_FLAG << 6,
	IBV_EXP_DEVICE_ODP = IBV_EXP_START_FLAG << 7,
	IBV_EXP_DEVICE_VXLAN_SUPPORT = IBV_EXP_START_FLAG << 10,
	IBV_EXP_DEVICE_RX_CSUM_TCP_UDP_PKT = IBV_EXP_START_FLAG << 11,
	IBV_EXP_DEVICE_RX_CSUM_IP_PKT = IBV_EXP_START_FLAG << 12,
	IBV_EXP_DEVICE_EC_OFFLOAD = IBV_EXP_START_FLAG << 13,
	IBV_EXP_DEVICE_EXT_MASKED_ATOMICS = IBV_EXP_START_FLAG << 14,
	IBV_EXP_DEVICE_RX_TCP_UDP_PKT_TYPE = IBV_EXP_START_FLAG << 15,
	IBV_EXP_DEVICE_SCATTER_FCS = IBV_EXP_START_FLAG << 16,
	IBV_EXP_DEVICE_MEM_WINDOW = IBV_EXP_START_FLAG << 17,
	IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_DEVICE_DC_INFO = IBV_EXP_START_FLAG << 22,
	IBV_EXP_DEVICE_MW_TYPE_2A = IBV_EXP_START_FLAG << 23,
	IBV_EXP_DEVICE_MW_TYPE_2B = IBV_EXP_START_FLAG << 24,
	IBV_EXP_DEVICE_CROSS_CHANNEL = IBV_EXP_START_FLAG << 28,
	IBV_EXP_DEVICE_MANAGED_FLOW_STEERING = IBV_EXP_START_FLAG << 29,
	IBV_EXP_DEVICE_MR_ALLOCATE = IBV_EXP_START_FLAG << 30,
	IBV_EXP_DEVICE_SHARED_MR = IBV_EXP_START_FLAG << 31,
};

/* Selects fields of ibv_exp_query_device. The fields before comp_mask are always filled in. */
enum ibv_exp_device_attr_comp_mask {
	IBV_EXP_DEVICE_ATTR_CALC_CAP = 1 << 0,
	IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK = 1 << 1,
	IBV_EXP_DEVICE_ATTR_WITH_HCA_CORE_CLOCK = 1 << 2,
	IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS = 1 << 3,
	IBV_EXP_DEVICE_DC_RD_REQ = 1 << 4,
	IBV_EXP_DEVICE_DC_RD_RES = 1 << 5,
	IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ = 1 << 6,
	IBV_EXP_DEVICE_ATTR_RSS_TBL_SZ = 1 << 7,
	IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS = 1 << 8,
	IBV_EXP_DEVICE_ATTR_UMR = 1 << 9,
	IBV_EXP_DEVICE_ATTR_ODP = 1 << 10,
	IBV_EXP_DEVICE_ATTR_MAX_DCT = 1 << 11,
	IBV_EXP_DEVICE_ATTR_MAX_CTX_RES_DOMAIN = 1 << 12,
	IBV_EXP_DEVICE_ATTR_RX_HASH = 1 << 13,
	IBV_EXP_DEVICE_ATTR_MAX_WQ_TYPE_RQ = 1 << 14,
	IBV_EXP_DEVICE_ATTR_MAX_DEVICE_CTX = 1 << 15,
	IBV_EXP_DEVICE_ATTR_MP_RQ = 1 << 16,
	IBV_EXP_DEVICE_ATTR_VLAN_OFFLOADS = 1 << 17,
	IBV_EXP_DEVICE_ATTR_EC_CAPS = 1 << 18,
	IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS = 1 << 19,
	IBV_EXP_DEVICE_ATTR_RX_PAD_END_ALIGN = 1 << 20,
	IBV_EXP_DEVICE_ATTR_TSO_CAPS = 1 << 21,
	IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS = 1 << 22,
	IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE = 1 << 23,
	/* RESERVED - 1 asks for all. The software HCA's extensions are none of those: SHCA_EXP_DEVICE_ATTR_EXTENSIONS. */
	IBV_EXP_DEVICE_ATTR_RESERVED = 1 << 24,
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
	union {
		uint64_t atomic_arg_sizes;	/* the sizes in bytes, powers of two, ored: 8 is bit 3 */
		uint64_t log_atomic_arg_sizes;	/* the same, in the vendor's header */
	};
	uint32_t max_fa_bit_boundary;	/* log2 of the largest fetch-and-add field, in bytes */
	uint32_t log_max_atomic_inline;	/* log2 of the most operand bytes of a request, all operands together */
};

/* The same of masked atomics alone; the last one: with results in network order. */
struct ibv_exp_masked_atomic_params {
	uint32_t max_fa_bit_boundary;
	uint32_t log_max_atomic_inline;
	uint64_t masked_log_atomic_arg_sizes;
	uint64_t masked_log_atomic_arg_sizes_network_endianness;
};

enum ibv_odp_general_cap_bits { IBV_EXP_ODP_SUPPORT = 1 << 0, IBV_EXP_ODP_SUPPORT_IMPLICIT = 1 << 1 };
enum ibv_exp_odp_transport_cap_bits {
	IBV_EXP_ODP_SUPPORT_SEND = 1 << 0,
	IBV_EXP_ODP_SUPPORT_RECV = 1 << 1,
	IBV_EXP_ODP_SUPPORT_WRITE = 1 << 2,
	IBV_EXP_ODP_SUPPORT_READ = 1 << 3,
	IBV_EXP_ODP_SUPPORT_ATOMIC = 1 << 4,
	IBV_EXP_ODP_SUPPORT_SRQ_RECV = 1 << 5,
};
/* On-demand paging: supported operations per transport. */
struct ibv_exp_odp_caps {
	uint64_t general_odp_caps;
	struct {
		uint32_t rc_odp_caps, uc_odp_caps, ud_odp_caps, dc_odp_caps, xrc_odp_caps, raw_eth_odp_caps;
	} per_transport_caps;
};

struct ibv_exp_umr_caps {
	uint32_t max_klm_list_size, max_send_wqe_inline_klms, max_umr_recursion_depth, max_umr_stride_dimension;
};
struct ibv_exp_rx_hash_caps {
	uint32_t max_rwq_indirection_tables, max_rwq_indirection_table_size;
	uint8_t supported_hash_functions;
	uint64_t supported_packet_fields;
	uint32_t supported_qps;
};
struct ibv_exp_mp_rq_caps {
	uint32_t supported_qps, allowed_shifts;
	uint8_t min_single_wqe_log_num_of_strides, max_single_wqe_log_num_of_strides;
	uint8_t min_single_stride_log_num_of_bytes, max_single_stride_log_num_of_bytes;
};
struct ibv_exp_ec_caps {
	uint32_t max_ec_data_vector_count, max_ec_calc_inflight_calcs;
};
struct ibv_exp_tso_caps {
	uint32_t max_tso, supported_qpts;
};
struct ibv_exp_packet_pacing_caps {
	uint32_t qp_rate_limit_min, qp_rate_limit_max, supported_qpts, reserved;
};
/* supported_qps of the above: bits. */
enum ibv_exp_supported_qp_types {
	IBV_EXP_QPT_RC = 1 << 0,
	IBV_EXP_QPT_UC = 1 << 1,
	IBV_EXP_QPT_UD = 1 << 2,
	IBV_EXP_QPT_XRC_INIT = 1 << 3,
	IBV_EXP_QPT_XRC_TGT = 1 << 4,
	IBV_EXP_QPT_RAW_PACKET = 1 << 5,
	IBV_EXP_QPT_RESERVED = 1 << 6,
};

struct ibv_exp_device_attr {
	/* always filled in: as struct ibv_device_attr, but exp_atomic_cap */
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	int reserved;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd;
	int max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom, max_qp_init_rd_atom, max_ee_init_rd_atom;
	enum ibv_exp_atomic_cap exp_atomic_cap;
	int max_ee, max_rdd, max_mw, max_raw_ipv6_qp, max_raw_ethy_qp;
	int max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
	int max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
	uint32_t comp_mask;		/* in: which of the fields below are wanted; out: which are filled in */
	struct ibv_exp_device_calc_cap calc_cap;
	uint64_t timestamp_mask;	/* 0: completions carry no time */
	uint64_t hca_core_clock;	/* kHz */
	uint64_t exp_device_cap_flags;
	int max_dc_req_rd_atom, max_dc_res_rd_atom;	/* outstanding RDMA READs and atomics of a DC initiator, and at a target */
	int inline_recv_sz;		/* most bytes of ibv_exp_qp_init_attr.max_inl_recv */
	uint32_t max_rss_tbl_sz;
	struct ibv_exp_ext_atomics_params ext_atom;
	union {
		struct ibv_exp_umr_caps umr_caps;
		__extension__ struct {		/* the manual's names */
			uint32_t max_mkey_klm_list_size, max_send_wqe_inline_klms, max_umr_recursion_depth, max_umr_stride_dimension;
		};
	};
	struct ibv_exp_odp_caps odp_caps;
	int max_dct;
	int max_ctx_res_domain;
	struct ibv_exp_rx_hash_caps rx_hash_caps;
	uint32_t max_wq_type_rq;
	int max_device_ctx;
	struct ibv_exp_mp_rq_caps mp_rq_caps;
	uint16_t wq_vlan_offloads_cap;
	struct ibv_exp_ec_caps ec_caps;
	struct ibv_exp_masked_atomic_params masked_atomic;
	int rx_pad_end_addr_align;
	struct ibv_exp_tso_caps tso_caps;
	struct ibv_exp_packet_pacing_caps packet_pacing_caps;
	uint64_t max_dm_size;		/* bytes of device memory: ibv_exp_alloc_dm */
	/* written only if SHCA_EXP_DEVICE_ATTR_EXTENSIONS was asked for */
	uint32_t max_task_wrs;		/* work requests of one task list; 0: bounded by the queues only */
	uint64_t shca_extensions;	/* enum shca_exp_extension */
	uint32_t shca_calc_vector_max;	/* bytes of a vector of CALC */
};

/* ---- extensions of the software HCA: not in the manual ------------------------------------------------------- */

/* In ibv_exp_device_attr.comp_mask: max_task_wrs and the fields after it. */
#define SHCA_EXP_DEVICE_ATTR_EXTENSIONS (1u << 30)
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

/* Bits of attr->comp_mask that are not known here are answered by their absence. */
int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr);

#include <infiniband/verbs_exp_memory.h>

/* ---- completion queues (D.2.2) -------------------------------------------------------------------------------------- */

enum ibv_exp_cq_create_flags {
	IBV_EXP_CQ_CREATE_CROSS_CHANNEL = 1 << 0,	/* WAIT requests may name the CQ */
	IBV_EXP_CQ_TIMESTAMP = 1 << 1,
	IBV_EXP_CQ_TIMESTAMP_TO_SYS_TIME = 1 << 2,
	IBV_EXP_CQ_COMPRESSED_CQE = 1 << 3,		/* a hint */
	IBV_EXP_CQ_CREATE_FLAGS_MASK = (1 << 4) - 1,
};
enum ibv_exp_cq_init_attr_mask {
	IBV_EXP_CQ_INIT_ATTR_FLAGS = 1 << 0,
	IBV_EXP_CQ_INIT_ATTR_RESERVED = 1 << 1,		/* alias of RES_DOMAIN in older programs */
	IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN = 1 << 1,
	IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT = 1 << 2,
	IBV_EXP_CQ_INIT_ATTR_RESERVED1 = 1 << 3,
};
struct ibv_exp_peer_direct_attr;
struct ibv_exp_cq_init_attr {
	uint32_t comp_mask;
	uint32_t flags;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
};
/* attr may be NULL. */
struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				 struct ibv_comp_channel *channel, int comp_vector,
				 struct ibv_exp_cq_init_attr *attr);

enum ibv_exp_cq_attr_mask { IBV_EXP_CQ_MODERATION = 1 << 0, IBV_EXP_CQ_CAP_FLAGS = 1 << 1 };
enum ibv_exp_cq_attr_comp_mask {
	IBV_EXP_CQ_ATTR_MODERATION = 1 << 0,
	IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS = 1 << 1,
	IBV_EXP_CQ_ATTR_RESERVED = 1 << 2,
};
enum ibv_exp_cq_cap_flags { IBV_EXP_CQ_IGNORE_OVERRUN = 1 << 0, IBV_EXP_CQ_CAP_MASK = 1 };
struct ibv_exp_cq_attr {
	uint32_t comp_mask;
	struct {
		uint16_t cq_count;	/* completions, or ... */
		uint16_t cq_period;	/* ... microseconds, for which an event may be held back */
	} moderation;
	uint32_t cq_cap_flags;
};
/* Must: each attribute to change is set in attr->comp_mask and in attr_mask. */
int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask);

/* ---- queue pairs (3.8.2, A.1.7, B.2.3, C.1.2, D.2.3) ---------------------------------------------------------------- */

enum ibv_exp_qp_create_flags {
	IBV_EXP_QP_CREATE_CROSS_CHANNEL = 1 << 2,	/* WAIT and ENABLE requests may be posted */
	IBV_EXP_QP_CREATE_MANAGED_SEND = 1 << 3,	/* send requests run only when enabled */
	IBV_EXP_QP_CREATE_MANAGED_RECV = 1 << 4,	/* receive requests are taken only when enabled */
	IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW = 1 << 6,	/* a request frees its entry when it is complete, polled or not */
	IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW = 1 << 7,	/* the same for receives */
	IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY = 1 << 8,	/* results of atomics in network order */
	IBV_EXP_QP_CREATE_UMR = 1 << 9,
	IBV_EXP_QP_CREATE_EC_PARITY_EN = 1 << 10,
	IBV_EXP_QP_CREATE_RX_END_PADDING = 1 << 11,
	IBV_EXP_QP_CREATE_SCATTER_FCS = 1 << 12,
	IBV_EXP_QP_CREATE_INTERNAL_USE = 1 << 15,
	IBV_EXP_QP_CREATE_MASK = 0x1fdc,
};
enum ibv_exp_qp_init_attr_comp_mask {
	IBV_EXP_QP_INIT_ATTR_PD = 1 << 0,
	IBV_EXP_QP_INIT_ATTR_XRCD = 1 << 1,
	IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS = 1 << 2,
	IBV_EXP_QP_INIT_ATTR_INL_RECV = 1 << 3,
	IBV_EXP_QP_INIT_ATTR_QPG = 1 << 4,
	IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG = 1 << 5,
	IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS = 1 << 6,
	IBV_EXP_QP_INIT_ATTR_RESERVED = 1 << 7,		/* alias of RES_DOMAIN in older programs */
	IBV_EXP_QP_INIT_ATTR_RES_DOMAIN = 1 << 7,
	IBV_EXP_QP_INIT_ATTR_RX_HASH = 1 << 8,
	IBV_EXP_QP_INIT_ATTR_PORT = 1 << 9,
	IBV_EXP_QP_INIT_ATTR_PEER_DIRECT = 1 << 10,
	IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER = 1 << 11,
	IBV_EXP_QP_INIT_ATTR_RESERVED1 = 1 << 12,
};

/* Groups of queue pairs over which datagrams are spread: only IBV_EXP_QPG_NONE is accepted. */
enum ibv_exp_qpg_type {
	IBV_EXP_QPG_NONE = 0,
	IBV_EXP_QPG_PARENT = 1 << 0,
	IBV_EXP_QPG_CHILD_RX = 1 << 1,
	IBV_EXP_QPG_CHILD_TX = 1 << 2,
};
struct ibv_exp_qpg_init_attrib {
	uint32_t tss_child_count, rss_child_count;
};
struct ibv_exp_qpg {
	uint32_t qpg_type;
	union {
		struct ibv_qp *qpg_parent;
		struct ibv_exp_qpg_init_attrib parent_attrib;
	};
};
struct ibv_exp_rx_hash_conf;

struct ibv_exp_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;	/* or IBV_EXP_QPT_DC_INI */
	int sq_sig_all;
	uint32_t comp_mask;
	struct ibv_pd *pd;
	struct ibv_xrcd *xrcd;
	uint32_t exp_create_flags;
	uint32_t max_inl_recv;		/* bytes; out: the granted value, at most ibv_exp_device_attr.inline_recv_sz */
	struct ibv_exp_qpg qpg;
	uint32_t max_atomic_arg;	/* bytes */
	uint32_t max_inl_send_klms;
	struct ibv_exp_res_domain *res_domain;
	struct ibv_exp_rx_hash_conf *rx_hash_conf;
	uint8_t port_num;
	struct ibv_exp_peer_direct_attr *peer_direct_attrs;
	uint16_t max_tso_header;
};
/* EOPNOTSUPP: the device lacks a requested capability. */
struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);

__extension__ enum ibv_exp_qp_attr_mask {
	IBV_EXP_QP_STATE = IBV_QP_STATE,
	IBV_EXP_QP_CUR_STATE = IBV_QP_CUR_STATE,
	IBV_EXP_QP_EN_SQD_ASYNC_NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	IBV_EXP_QP_ACCESS_FLAGS = IBV_QP_ACCESS_FLAGS,
	IBV_EXP_QP_PKEY_INDEX = IBV_QP_PKEY_INDEX,
	IBV_EXP_QP_PORT = IBV_QP_PORT,
	IBV_EXP_QP_QKEY = IBV_QP_QKEY,
	IBV_EXP_QP_AV = IBV_QP_AV,
	IBV_EXP_QP_PATH_MTU = IBV_QP_PATH_MTU,
	IBV_EXP_QP_TIMEOUT = IBV_QP_TIMEOUT,
	IBV_EXP_QP_RETRY_CNT = IBV_QP_RETRY_CNT,
	IBV_EXP_QP_RNR_RETRY = IBV_QP_RNR_RETRY,
	IBV_EXP_QP_RQ_PSN = IBV_QP_RQ_PSN,
	IBV_EXP_QP_MAX_QP_RD_ATOMIC = IBV_QP_MAX_QP_RD_ATOMIC,
	IBV_EXP_QP_ALT_PATH = IBV_QP_ALT_PATH,
	IBV_EXP_QP_MIN_RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
	IBV_EXP_QP_SQ_PSN = IBV_QP_SQ_PSN,
	IBV_EXP_QP_MAX_DEST_RD_ATOMIC = IBV_QP_MAX_DEST_RD_ATOMIC,
	IBV_EXP_QP_PATH_MIG_STATE = IBV_QP_PATH_MIG_STATE,
	IBV_EXP_QP_CAP = IBV_QP_CAP,
	IBV_EXP_QP_DEST_QPN = IBV_QP_DEST_QPN,
	IBV_EXP_QP_GROUP_RSS = IBV_EXP_START_FLAG << 21,
	IBV_EXP_QP_DC_KEY = IBV_EXP_START_FLAG << 22,
	IBV_EXP_QP_FLOW_ENTROPY = IBV_EXP_START_FLAG << 23,
	IBV_EXP_QP_RATE_LIMIT = IBV_EXP_START_FLAG << 25,
};
#define IBV_QP_DC_KEY IBV_EXP_QP_DC_KEY	/* the manual's name (A.1.7) */
enum ibv_exp_qp_attr_comp_mask { IBV_EXP_QP_ATTR_FLOW_ENTROPY = 1 << 0, IBV_EXP_QP_ATTR_RESERVED = 1 << 1 };

/* As struct ibv_qp_attr; and: */
struct ibv_exp_qp_attr {
	enum ibv_qp_state qp_state, cur_qp_state;
	enum ibv_mtu path_mtu;
	enum ibv_mig_state path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	int qp_access_flags;
	struct ibv_qp_cap cap;
	struct ibv_ah_attr ah_attr, alt_ah_attr;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint64_t dct_key;		/* of a DC initiator; requests carry their own, dc.dct_access_key */
	uint32_t comp_mask;
	uint32_t flow_entropy;
	uint32_t rate_limit;		/* kbit/s; 0: unlimited, and all that the software HCA accepts */
};
/* As ibv_modify_qp; a DC initiator needs no IBV_EXP_QP_SQ_PSN (A.1.7). */
int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask);
/* As ibv_query_qp (named in A.1.1). Fills in init_attr's pd and the fields that ibv_query_qp has; init_attr may be NULL. */
int ibv_exp_query_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask,
		     struct ibv_exp_qp_init_attr *init_attr);

/* ---- shared receive queues ------------------------------------------------------------------------------------------ */

enum ibv_exp_srq_type { IBV_EXP_SRQT_BASIC, IBV_EXP_SRQT_XRC, IBV_EXP_SRQT_TAG_MATCHING };
enum ibv_exp_create_srq_attr_comp_mask {
	IBV_EXP_CREATE_SRQ_CQ = 1 << 0,
	IBV_EXP_CREATE_SRQ_XRCD = 1 << 1,
	IBV_EXP_CREATE_SRQ_TM = 1 << 2,
	IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS = 1 << 3,
	IBV_EXP_CREATE_SRQ_RESERVED = 1 << 4,
};
struct ibv_exp_srq_dc_offload_params {
	uint64_t comp_mask;
	uint16_t pkey_index;
	enum ibv_mtu path_mtu;
	uint8_t sl, max_rd_atomic, min_rnr_timer, timeout, retry_cnt, rnr_retry;
	uint64_t dct_key;
	uint32_t ooo_caps;
};
struct ibv_exp_create_srq_attr {
	struct ibv_srq_init_attr base;
	uint32_t comp_mask;
	enum ibv_exp_srq_type srq_type;	/* TAG_MATCHING is refused */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd;
	struct {
		uint32_t max_num_tags, max_ops;
	} tm_cap;
	struct ibv_exp_srq_dc_offload_params *dc_offload_params;
};
struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr);

/* ---- targets of dynamically connected transport (A.1.3 to A.1.6) ----------------------------------------------------- */

enum ibv_exp_dct_init_attr_comp_mask { IBV_EXP_DCT_INIT_ATTR_RESERVED = 1 << 0 };
enum { IBV_EXP_DCT_CREATE_FLAGS_MASK = 0 };
struct ibv_exp_dct_init_attr {
	struct ibv_pd *pd;
	struct ibv_cq *cq;		/* of receives */
	struct ibv_srq *srq;		/* takes the receives of the target */
	uint64_t dc_key;		/* the target does not answer requests with another key */
	uint8_t port;
	uint32_t access_flags;		/* enum ibv_access_flags */
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t inline_size;		/* in: largest receive, in bytes, that its completion may carry; out: the granted value */
	uint32_t create_flags;		/* none yet */
	uint32_t comp_mask;		/* no bits yet */
};
struct ibv_exp_dct {
	struct ibv_context *context;
	uint32_t handle, dct_num;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};
enum { IBV_EXP_DCT_STATE_ACTIVE = 0, IBV_EXP_DCT_STATE_DRAINING, IBV_EXP_DCT_STATE_DRAINED };
enum ibv_exp_dct_attr_comp_mask { IBV_EXP_DCT_ATTR_RESERVED = 1 << 0 };
struct ibv_exp_dct_attr {
	uint64_t dc_key;
	uint8_t port;
	uint32_t access_flags;
	uint8_t min_rnr_timer, tclass;
	uint32_t flow_label;
	enum ibv_mtu mtu;
	uint8_t pkey_index, gid_index, hop_limit;
	uint32_t key_violations;	/* packets with another key, since the target was made */
	uint8_t state;			/* IBV_EXP_DCT_STATE_* */
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint32_t comp_mask;
};
enum ibv_exp_arm_attr_comp_mask { IBV_EXP_ARM_ATTR_RESERVED = 1 << 0 };
struct ibv_exp_arm_attr {
	uint32_t comp_mask;		/* no bits yet */
};
/* The target answers requests when the call returns. */
struct ibv_exp_dct *ibv_exp_create_dct(struct ibv_context *context, struct ibv_exp_dct_init_attr *attr);
/* Waits until the program has acknowledged all events of the target. */
int ibv_exp_destroy_dct(struct ibv_exp_dct *dct);
int ibv_exp_query_dct(struct ibv_exp_dct *dct, struct ibv_exp_dct_attr *attr);
/* The next packet with a wrong key raises IBV_EXP_EVENT_DCT_KEY_VIOLATION, once; the program arms the target again after each event. */
int ibv_exp_arm_dct(struct ibv_exp_dct *dct, struct ibv_exp_arm_attr *attr);

/* DC information of the subnet manager. There is none: the call returns -1 with errno. */
enum { IBV_EXP_NUM_DC_INFO_LIDS = 30 };
struct ibv_exp_dc_info_ent {
	uint16_t lid[IBV_EXP_NUM_DC_INFO_LIDS];
	uint32_t seqnum;
};
int ibv_exp_poll_dc_info(struct ibv_context *context, struct ibv_exp_dc_info_ent *ents, int nent, int port);

/* ---- work requests (3.8.3, B.2.4, D.3) ---------------------------------------------------------------------------------- */

enum ibv_exp_wr_opcode {
	IBV_EXP_WR_RDMA_WRITE = IBV_WR_RDMA_WRITE,
	IBV_EXP_WR_RDMA_WRITE_WITH_IMM = IBV_WR_RDMA_WRITE_WITH_IMM,
	IBV_EXP_WR_SEND = IBV_WR_SEND,
	IBV_EXP_WR_SEND_WITH_IMM = IBV_WR_SEND_WITH_IMM,
	IBV_EXP_WR_RDMA_READ = IBV_WR_RDMA_READ,
	IBV_EXP_WR_ATOMIC_CMP_AND_SWP = IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_ATOMIC_FETCH_AND_ADD = IBV_WR_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_SEND_WITH_INV = IBV_EXP_START_ENUM + 8,	/* refused, as are the next three */
	IBV_EXP_WR_LOCAL_INV = IBV_EXP_START_ENUM + 10,
	IBV_EXP_WR_BIND_MW = IBV_EXP_START_ENUM + 14,
	IBV_EXP_WR_TSO = IBV_EXP_START_ENUM + 15,
	IBV_EXP_WR_SEND_ENABLE = IBV_EXP_START_ENUM + 0x20,
	IBV_EXP_WR_RECV_ENABLE,
	IBV_EXP_WR_CQE_WAIT,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP,
	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
	IBV_EXP_WR_NOP,
	IBV_EXP_WR_UMR_FILL,
	IBV_EXP_WR_UMR_INVALIDATE,
};

__extension__ enum ibv_exp_send_flags {
	IBV_EXP_SEND_FENCE = IBV_SEND_FENCE,
	IBV_EXP_SEND_SIGNALED = IBV_SEND_SIGNALED,
	IBV_EXP_SEND_SOLICITED = IBV_SEND_SOLICITED,
	IBV_EXP_SEND_INLINE = IBV_SEND_INLINE,
	IBV_EXP_SEND_IP_CSUM = IBV_EXP_START_FLAG << 0,		/* refused */
	IBV_EXP_SEND_WITH_CALC = IBV_EXP_START_FLAG << 1,
	IBV_EXP_SEND_WAIT_EN_LAST = IBV_EXP_START_FLAG << 2,
	IBV_EXP_SEND_EXT_ATOMIC_INLINE = IBV_EXP_START_FLAG << 3,
};

struct ibv_exp_cmp_swap {
	uint64_t compare_mask, compare_val, swap_val, swap_mask;
};
struct ibv_exp_fetch_add {
	uint64_t add_val;
	uint64_t field_boundary;	/* bit n set: a field ends at bit n, and no carry crosses its end; bit 63 is implicit */
};

enum ibv_exp_send_wr_comp_mask { IBV_EXP_SEND_WR_ATTR_RESERVED = 1 << 0 };
struct ibv_exp_send_wr {
	uint64_t wr_id;
	struct ibv_exp_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_exp_wr_opcode exp_opcode;
	int reserved;
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
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;	/* the same */
	};
	union {
		/* the manual has these here, too; they are looked at in `wr` */
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr, compare_add, swap;
			uint32_t rkey;
		} atomic;
		/* Done when cq_count further completions, counted from the CQ's wait index, are in cq. Several waits
		 * on one CQ share that base. The wait with IBV_EXP_SEND_WAIT_EN_LAST moves the base to the largest count
		 * of them; a lone wait must carry the flag. */
		struct {
			struct ibv_cq *cq;
			int32_t cq_count;
		} cqe_wait;
		/* Enables the next wqe_count requests of qp's queue, counted from the queue's enable index; 0: all that are
		 * posted. Several enables share that base until the enable with IBV_EXP_SEND_WAIT_EN_LAST, as waits do:
		 * for example, 2, 2 and 2 with the flag enable two. A request may be enabled before it is posted. */
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
	/* For a DC initiator: address, number and key of the target. */
	struct {
		struct ibv_ah *ah;
		uint64_t dct_access_key;
		uint32_t dct_number;
	} dc;
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_exp_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz, mss;
		} tso;
	};
	uint64_t exp_send_flags;	/* enum ibv_exp_send_flags */
	uint32_t comp_mask;		/* no bits yet: not looked at */
	union {
		struct {
			uint32_t umr_type;
			struct ibv_exp_mkey_list_container *memory_objects;
			uint64_t exp_access;
			struct ibv_mr *modified_mr;
			uint64_t base_addr;
			uint32_t num_mrs;
			union {
				struct ibv_exp_mem_region *mem_reg_list;
				struct {
					struct ibv_exp_mem_repeat_block *mem_repeat_block_list;
					size_t *repeat_count;
					uint32_t stride_dim;
				} rb;
			} mem_list;
		} umr;
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
};

/* Like ibv_post_send, for the requests above. Returns 0 or an errno value, *bad_wr the refused request. */
int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);

enum ibv_exp_task_comp_mask { IBV_EXP_TASK_RESERVED = 1 << 0 };
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
	uint32_t comp_mask;		/* must be 0: reserved */
};
/* Posts a list of tasks (D.3). The library validates the whole list first: on an error no task is posted, and *bad_task is the
 * refused task. Returns 0 or an errno value. */
int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);

/* ---- completions ------------------------------------------------------------------------------------------------------ */

enum ibv_exp_wc_opcode {
	IBV_EXP_WC_SEND = IBV_WC_SEND,
	IBV_EXP_WC_RDMA_WRITE = IBV_WC_RDMA_WRITE,
	IBV_EXP_WC_RDMA_READ = IBV_WC_RDMA_READ,
	IBV_EXP_WC_COMP_SWAP = IBV_WC_COMP_SWAP,
	IBV_EXP_WC_FETCH_ADD = IBV_WC_FETCH_ADD,
	IBV_EXP_WC_BIND_MW = IBV_WC_BIND_MW,
	IBV_EXP_WC_LOCAL_INV = 7,
	IBV_EXP_WC_MASKED_COMP_SWAP = 9,
	IBV_EXP_WC_MASKED_FETCH_ADD = 10,
	IBV_EXP_WC_TSO,
	IBV_EXP_WC_UMR = 0x100,
	IBV_EXP_WC_RECV = IBV_WC_RECV,			/* the bit that tells receives */
	IBV_EXP_WC_RECV_RDMA_WITH_IMM = IBV_WC_RECV_RDMA_WITH_IMM,
};
__extension__ enum ibv_exp_wc_flags {
	IBV_EXP_WC_GRH = IBV_WC_GRH,
	IBV_EXP_WC_WITH_IMM = IBV_WC_WITH_IMM,
	IBV_EXP_WC_WITH_INV = IBV_EXP_START_FLAG << 2,
	IBV_EXP_WC_WITH_SL = IBV_EXP_START_FLAG << 4,
	IBV_EXP_WC_WITH_SLID = IBV_EXP_START_FLAG << 5,
	IBV_EXP_WC_WITH_TIMESTAMP = IBV_EXP_START_FLAG << 6,
	IBV_EXP_WC_QP = IBV_EXP_START_FLAG << 7,	/* qp is valid; so is srq, and dct, by the next two */
	IBV_EXP_WC_SRQ = IBV_EXP_START_FLAG << 8,
	IBV_EXP_WC_DCT = IBV_EXP_START_FLAG << 9,
	IBV_EXP_WC_RX_IP_CSUM_OK = IBV_EXP_START_FLAG << 10,
	IBV_EXP_WC_RX_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 11,
	IBV_EXP_WC_RX_IPV4_PACKET = IBV_EXP_START_FLAG << 12,
	IBV_EXP_WC_RX_IPV6_PACKET = IBV_EXP_START_FLAG << 13,
	IBV_EXP_WC_RX_TUNNEL_PACKET = IBV_EXP_START_FLAG << 14,
	IBV_EXP_WC_RX_OUTER_IP_CSUM_OK = IBV_EXP_START_FLAG << 15,
	IBV_EXP_WC_RX_OUTER_TCP_UDP_CSUM_OK = IBV_EXP_START_FLAG << 16,
	IBV_EXP_WC_RX_OUTER_IPV4_PACKET = IBV_EXP_START_FLAG << 17,
	IBV_EXP_WC_RX_OUTER_IPV6_PACKET = IBV_EXP_START_FLAG << 18,
};
struct ibv_exp_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_exp_wc_opcode exp_opcode;
	uint32_t vendor_err, byte_len;
	__be32 imm_data;
	uint32_t qp_num, src_qp;
	int reserved;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
	uint64_t timestamp;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_exp_dct *dct;
	uint64_t exp_wc_flags;		/* enum ibv_exp_wc_flags */
};
/* As ibv_poll_cq. Returns the number of completions; negative: the queue is in error. wc_size: the program's sizeof(struct ibv_exp_wc);
 * the library writes no byte beyond that size in an element. */
int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size);

/* ---- ports, clocks, the rest ------------------------------------------------------------------------------------------- */

enum {
	IBV_EXP_QUERY_PORT_STATE = 1 << 0,
	IBV_EXP_QUERY_PORT_MAX_MTU = 1 << 1,
	IBV_EXP_QUERY_PORT_ACTIVE_MTU = 1 << 2,
	IBV_EXP_QUERY_PORT_GID_TBL_LEN = 1 << 3,
	IBV_EXP_QUERY_PORT_CAP_FLAGS = 1 << 4,
	IBV_EXP_QUERY_PORT_MAX_MSG_SZ = 1 << 5,
	IBV_EXP_QUERY_PORT_BAD_PKEY_CNTR = 1 << 6,
	IBV_EXP_QUERY_PORT_QKEY_VIOL_CNTR = 1 << 7,
	IBV_EXP_QUERY_PORT_PKEY_TBL_LEN = 1 << 8,
	IBV_EXP_QUERY_PORT_LID = 1 << 9,
	IBV_EXP_QUERY_PORT_SM_LID = 1 << 10,
	IBV_EXP_QUERY_PORT_LMC = 1 << 11,
	IBV_EXP_QUERY_PORT_MAX_VL_NUM = 1 << 12,
	IBV_EXP_QUERY_PORT_SM_SL = 1 << 13,
	IBV_EXP_QUERY_PORT_SUBNET_TIMEOUT = 1 << 14,
	IBV_EXP_QUERY_PORT_INIT_TYPE_REPLY = 1 << 15,
	IBV_EXP_QUERY_PORT_ACTIVE_WIDTH = 1 << 16,
	IBV_EXP_QUERY_PORT_ACTIVE_SPEED = 1 << 17,
	IBV_EXP_QUERY_PORT_PHYS_STATE = 1 << 18,
	IBV_EXP_QUERY_PORT_LINK_LAYER = 1 << 19,
	IBV_EXP_QUERY_PORT_STD_MASK = (1 << 20) - 1,
	IBV_EXP_QUERY_PORT_MASK = IBV_EXP_QUERY_PORT_STD_MASK,
};
enum ibv_exp_query_port_attr_comp_mask {
	IBV_EXP_QUERY_PORT_ATTR_MASK1 = 1 << 0,
	IBV_EXP_QUERY_PORT_ATTR_RESERVED = 1 << 1,
	IBV_EXP_QUERY_PORT_ATTR_MASKS = IBV_EXP_QUERY_PORT_ATTR_RESERVED - 1,
};
struct ibv_exp_port_attr {
	union {
		__extension__ struct {
			enum ibv_port_state state;
			enum ibv_mtu max_mtu, active_mtu;
			int gid_tbl_len;
			uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
			uint16_t pkey_tbl_len, lid, sm_lid;
			uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply;
			uint8_t active_width, active_speed, phys_state, link_layer, reserved;
		};
		struct ibv_port_attr port_attr;
	};
	uint32_t comp_mask;		/* IBV_EXP_QUERY_PORT_ATTR_MASK1: mask1 selects the fields; 0: all */
	uint32_t mask1;
};
int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_exp_port_attr *port_attr);

enum ibv_exp_roce_gid_type {
	IBV_EXP_IB_ROCE_V1_GID_TYPE,
	IBV_EXP_ROCE_V2_GID_TYPE,
	IBV_EXP_ROCE_V1_5_GID_TYPE,
};
enum ibv_exp_query_gid_attr {
	IBV_EXP_QUERY_GID_ATTR_TYPE = 1 << 0,
	IBV_EXP_QUERY_GID_ATTR_GID = 1 << 1,
	IBV_EXP_QUERY_GID_ATTR_RESERVED = 1 << 2,
};
struct ibv_exp_gid_attr {
	uint32_t comp_mask;		/* selects the fields */
	enum ibv_exp_roce_gid_type type;
	union ibv_gid gid;
};
int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index, struct ibv_exp_gid_attr *attr);

enum ibv_exp_values_comp_mask {
	IBV_EXP_VALUES_HW_CLOCK_NS = 1 << 0,
	IBV_EXP_VALUES_HW_CLOCK = 1 << 1,
	IBV_EXP_VALUES_RESERVED = 1 << 2,
};
struct ibv_exp_values {
	uint32_t comp_mask;		/* out: which were filled in */
	uint64_t hwclock_ns, hwclock;	/* nanoseconds; ticks of hca_core_clock */
};
/* q_values: enum ibv_exp_values_comp_mask. */
int ibv_exp_query_values(struct ibv_context *context, int q_values, struct ibv_exp_values *values);

/* Ethernet addresses of a destination: refused where they are given. */
enum ibv_exp_ah_attr_attr_comp_mask {
	IBV_EXP_AH_ATTR_LL = 1 << 0,
	IBV_EXP_AH_ATTR_VID = 1 << 1,
	IBV_EXP_AH_ATTR_RESERVED = 1 << 2,
};
enum ll_address_type { LL_ADDRESS_UNKNOWN, LL_ADDRESS_IB, LL_ADDRESS_ETH, LL_ADDRESS_SIZE };
struct ibv_exp_ah_attr {
	struct ibv_global_route grh;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
	uint32_t comp_mask;
	struct {
		enum ll_address_type type;
		uint32_t len;
		char *address;
	} ll_address;
	uint16_t vid;
};
struct ibv_ah *ibv_exp_create_ah(struct ibv_pd *pd, struct ibv_exp_ah_attr *attr);

/* Environment variables of one context's device. The software HCA reads its variables from the process's environment when it is opened:
 * ibv_exp_use_priv_env is refused (-1 with errno), ibv_exp_setenv is setenv(). */
int ibv_exp_use_priv_env(struct ibv_context *context);
int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value, int overwrite);

/* The functions behind verbs, for programs that call them without a look at the context. */
enum ibv_exp_func_name {
	IBV_EXP_POST_SEND_FUNC,
	IBV_EXP_POLL_CQ_FUNC,
	IBV_POST_SEND_FUNC,
	IBV_POLL_CQ_FUNC,
	IBV_POST_RECV_FUNC,
};
typedef int (*drv_exp_post_send_func)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
typedef int (*drv_post_send_func)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
typedef int (*drv_exp_poll_cq_func)(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size);
typedef int (*drv_poll_cq_func)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
typedef int (*drv_post_recv_func)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name);

#ifdef __cplusplus
}
#endif

#include <infiniband/verbs_exp_ethernet.h>
#include <infiniband/verbs_exp_xrc.h>

#endif
