/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers that programs and their bindings rely on: a second record of the header's constants, and
 * of the members' offsets. */
#include <stddef.h>

#define IS(name, value) _Static_assert((unsigned long long)(name) == (unsigned long long)(value), #name)

IS(IBV_EXP_START_FLAG, 1ull << 32);
IS(IBV_EXP_START_ENUM, 0x40);
IS(IBV_EXP_ATOMIC_HCA_REPLY_BE, 0x40);
IS(IBV_EXP_QPT_DC_INI, 32);
IS(IBV_EXP_EVENT_DCT_KEY_VIOLATION, 32);
IS(IBV_EXP_EVENT_DCT_ACCESS_ERR, 33);
IS(IBV_EXP_EVENT_DCT_REQ_ERR, 34);

IS(IBV_EXP_DEVICE_XRC, 1 << 20);
IS(IBV_EXP_DEVICE_DC_TRANSPORT, 1ull << 32);
IS(IBV_EXP_DEVICE_QPG, 1ull << 33);
IS(IBV_EXP_DEVICE_EXT_ATOMICS, 1ull << 36);
IS(IBV_EXP_DEVICE_NOP, 1ull << 37);
IS(IBV_EXP_DEVICE_UMR, 1ull << 38);
IS(IBV_EXP_DEVICE_ODP, 1ull << 39);
IS(IBV_EXP_DEVICE_EXT_MASKED_ATOMICS, 1ull << 46);
IS(IBV_EXP_DEVICE_CROSS_CHANNEL, 1ull << 60);
IS(IBV_EXP_DEVICE_MR_ALLOCATE, 1ull << 62);
IS(IBV_EXP_DEVICE_SHARED_MR, 1ull << 63);

IS(IBV_EXP_DEVICE_ATTR_CALC_CAP, 1);
IS(IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS, 8);
IS(IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ, 0x40);
IS(IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS, 0x100);
IS(IBV_EXP_DEVICE_ATTR_UMR, 0x200);
IS(IBV_EXP_DEVICE_ATTR_ODP, 0x400);
IS(IBV_EXP_DEVICE_ATTR_MAX_DCT, 0x800);
IS(IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS, 1 << 19);
IS(IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS, 1 << 22);
_Static_assert(!(SHCA_EXP_DEVICE_ATTR_EXTENSIONS & (IBV_EXP_DEVICE_ATTR_RESERVED - 1)), "asked for with everything else");

IS(IBV_EXP_ACCESS_ALLOCATE_MR, 1ull << 37);
IS(IBV_EXP_ACCESS_ON_DEMAND, 1ull << 46);
IS(IBV_EXP_ACCESS_RELAXED, 1ull << 47);

IS(IBV_EXP_WR_SEND_WITH_INV, 0x48);
IS(IBV_EXP_WR_LOCAL_INV, 0x4a);
IS(IBV_EXP_WR_BIND_MW, 0x4e);
IS(IBV_EXP_WR_TSO, 0x4f);
IS(IBV_EXP_WR_SEND_ENABLE, 0x60);
IS(IBV_EXP_WR_RECV_ENABLE, 0x61);
IS(IBV_EXP_WR_CQE_WAIT, 0x62);
IS(IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP, 0x63);
IS(IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 0x64);
IS(IBV_EXP_WR_NOP, 0x65);
IS(IBV_EXP_WR_UMR_FILL, 0x66);
IS(IBV_EXP_WR_UMR_INVALIDATE, 0x67);
IS(IBV_EXP_SEND_IP_CSUM, 1ull << 32);
IS(IBV_EXP_SEND_WITH_CALC, 1ull << 33);
IS(IBV_EXP_SEND_WAIT_EN_LAST, 1ull << 34);
IS(IBV_EXP_SEND_EXT_ATOMIC_INLINE, 1ull << 35);

IS(IBV_EXP_QP_CREATE_CROSS_CHANNEL, 4);
IS(IBV_EXP_QP_CREATE_MANAGED_SEND, 8);
IS(IBV_EXP_QP_CREATE_MANAGED_RECV, 0x10);
IS(IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW, 0x40);
IS(IBV_EXP_QP_CREATE_IGNORE_RQ_OVERFLOW, 0x80);
IS(IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY, 0x100);
IS(IBV_EXP_QP_INIT_ATTR_INL_RECV, 8);
IS(IBV_EXP_QP_INIT_ATTR_QPG, 0x10);
IS(IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, 0x20);
IS(IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS, 0x40);
IS(IBV_EXP_QP_INIT_ATTR_RES_DOMAIN, 0x80);
IS(IBV_EXP_QP_STATE, IBV_QP_STATE);
IS(IBV_EXP_QP_DEST_QPN, IBV_QP_DEST_QPN);
IS(IBV_EXP_QP_DC_KEY, 1ull << 54);
IS(IBV_QP_DC_KEY, 1ull << 54);
IS(IBV_EXP_QP_RATE_LIMIT, 1ull << 57);
IS(IBV_EXP_CQ_CREATE_CROSS_CHANNEL, 1);
IS(IBV_EXP_CQ_TIMESTAMP, 2);
IS(IBV_EXP_CQ_MODERATION, 1);
IS(IBV_EXP_CQ_CAP_FLAGS, 2);
IS(IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS, 2);
IS(IBV_EXP_CALC_OP_ADD, 0);
IS(IBV_EXP_CALC_OP_BOR, 4);
IS(IBV_EXP_WC_MASKED_COMP_SWAP, 9);
IS(IBV_EXP_WC_MASKED_FETCH_ADD, 10);
IS(IBV_EXP_WC_RECV, 1 << 7);
IS(IBV_EXP_WC_QP, 1ull << 39);
IS(IBV_EXP_WC_SRQ, 1ull << 40);
IS(IBV_EXP_WC_DCT, 1ull << 41);
IS(IBV_EXP_TASK_RECV, 1);

/* The one structure that replaces upstream's. */
_Static_assert(sizeof(struct ibv_async_event) == 16 && offsetof(struct ibv_async_event, event_type) == 8,
	       "struct ibv_async_event");
/* A port's attributes under both their names. */
#define SAME(member) \
	_Static_assert(offsetof(struct ibv_exp_port_attr, member) == offsetof(struct ibv_exp_port_attr, port_attr.member),     \
		       #member)
SAME(state);
SAME(active_mtu);
SAME(gid_tbl_len);
SAME(port_cap_flags);
SAME(max_msg_sz);
SAME(qkey_viol_cntr);
SAME(pkey_tbl_len);
SAME(lid);
SAME(lmc);
SAME(init_type_reply);
SAME(active_width);
SAME(link_layer);
/* Constants that have one name in the manual and another in the vendor's header. */
_Static_assert(offsetof(struct ibv_exp_device_attr, ext_atom.atomic_arg_sizes) ==
		       offsetof(struct ibv_exp_device_attr, ext_atom.log_atomic_arg_sizes), "sizes of atomics");
_Static_assert(offsetof(struct ibv_exp_device_attr, max_mkey_klm_list_size) ==
		       offsetof(struct ibv_exp_device_attr, umr_caps.max_klm_list_size), "UMR");
_Static_assert(offsetof(struct ibv_exp_device_attr, max_umr_stride_dimension) ==
		       offsetof(struct ibv_exp_device_attr, umr_caps.max_umr_stride_dimension), "UMR");
_Static_assert(offsetof(struct ibv_exp_send_wr, qp_type.xrc.remote_srqn) ==
		       offsetof(struct ibv_exp_send_wr, xrc_remote_srq_num),
	       "XRC");
