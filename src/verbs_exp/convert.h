/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions between structures of ordinary and of experimental verbs, for every provider. */
#ifndef VERBS_EXP_CONVERT_H
#define VERBS_EXP_CONVERT_H

#include <infiniband/verbs.h>
#include <infiniband/verbs_exp.h>
#include <string.h>

/* Bits of queue pair attributes that mean the same in both masks. */
#define EXP_ORDINARY_MASK ((uint64_t)UINT32_MAX)

/* Returns the name of a requested property that no provider has; NULL: none was requested. */
static inline const char *exp_qp_lacking(const struct ibv_exp_qp_init_attr *attr)
{
	uint32_t comp = attr->comp_mask;

	if ((comp & IBV_EXP_QP_INIT_ATTR_QPG) && attr->qpg.qpg_type != IBV_EXP_QPG_NONE)
		return "there are no queue pair groups";
	if ((comp & IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS) && attr->max_inl_send_klms &&
	    !(comp & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS && attr->exp_create_flags & IBV_EXP_QP_CREATE_UMR))
		return "there are no memory keys in a request, for there is no UMR";
	if ((comp & IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER) && attr->max_tso_header)
		return "there are no packet headers in a request, for nothing is segmented";
	if (comp & (IBV_EXP_QP_INIT_ATTR_RX_HASH | IBV_EXP_QP_INIT_ATTR_PEER_DIRECT))
		return "there is no hashing of packets, and no other device takes part";
	return NULL;
}

/* Fills in the attributes that ibv_query_device has. Must: the caller fills in exp_atomic_cap. */
static inline void exp_device_of(struct ibv_exp_device_attr *attr, const struct ibv_device_attr *d)
{
	memcpy(attr->fw_ver, d->fw_ver, sizeof(attr->fw_ver));
	attr->node_guid = d->node_guid;
	attr->sys_image_guid = d->sys_image_guid;
	attr->max_mr_size = d->max_mr_size;
	attr->page_size_cap = d->page_size_cap;
	attr->vendor_id = d->vendor_id;
	attr->vendor_part_id = d->vendor_part_id;
	attr->hw_ver = d->hw_ver;
	attr->max_qp = d->max_qp;
	attr->max_qp_wr = d->max_qp_wr;
	attr->max_sge = d->max_sge;
	attr->max_sge_rd = d->max_sge_rd;
	attr->max_cq = d->max_cq;
	attr->max_cqe = d->max_cqe;
	attr->max_mr = d->max_mr;
	attr->max_pd = d->max_pd;
	attr->max_qp_rd_atom = d->max_qp_rd_atom;
	attr->max_ee_rd_atom = d->max_ee_rd_atom;
	attr->max_res_rd_atom = d->max_res_rd_atom;
	attr->max_qp_init_rd_atom = d->max_qp_init_rd_atom;
	attr->max_ee_init_rd_atom = d->max_ee_init_rd_atom;
	attr->max_ee = d->max_ee;
	attr->max_rdd = d->max_rdd;
	attr->max_mw = d->max_mw;
	attr->max_raw_ipv6_qp = d->max_raw_ipv6_qp;
	attr->max_raw_ethy_qp = d->max_raw_ethy_qp;
	attr->max_mcast_grp = d->max_mcast_grp;
	attr->max_mcast_qp_attach = d->max_mcast_qp_attach;
	attr->max_total_mcast_qp_attach = d->max_total_mcast_qp_attach;
	attr->max_ah = d->max_ah;
	attr->max_fmr = d->max_fmr;
	attr->max_map_per_fmr = d->max_map_per_fmr;
	attr->max_srq = d->max_srq;
	attr->max_srq_wr = d->max_srq_wr;
	attr->max_srq_sge = d->max_srq_sge;
	attr->max_pkeys = d->max_pkeys;
	attr->local_ca_ack_delay = d->local_ca_ack_delay;
	attr->phys_port_cnt = d->phys_port_cnt;
}

/* The flags of memory windows, which ordinary verbs have at other bits. */
static inline uint64_t exp_window_flags(const struct ibv_device_attr *d)
{
	return (d->device_cap_flags & IBV_DEVICE_MEM_WINDOW ? IBV_EXP_DEVICE_MEM_WINDOW : 0) |
	       (d->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS ? IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS : 0) |
	       (d->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B ? IBV_EXP_DEVICE_MW_TYPE_2B : 0);
}

/* CALC of the manual (D.2.1): four operations on 64-bit numbers of any type. */
static inline struct ibv_exp_device_calc_cap exp_calc_cap(void)
{
	const uint64_t ops =
		1u << IBV_EXP_CALC_OP_ADD | 1u << IBV_EXP_CALC_OP_BAND | 1u << IBV_EXP_CALC_OP_BXOR | 1u << IBV_EXP_CALC_OP_BOR;

	return (struct ibv_exp_device_calc_cap){
		.data_types = 1u << IBV_EXP_CALC_DATA_TYPE_INT | 1u << IBV_EXP_CALC_DATA_TYPE_UINT |
			      1u << IBV_EXP_CALC_DATA_TYPE_FLOAT,
		.data_sizes = 1u << IBV_EXP_CALC_DATA_SIZE_64_BIT, .int_ops = ops, .uint_ops = ops, .fp_ops = ops,
	};
}

static inline void exp_qp_attr_to(struct ibv_qp_attr *to, const struct ibv_exp_qp_attr *from)
{
	*to = (struct ibv_qp_attr){
		.qp_state = from->qp_state, .cur_qp_state = from->cur_qp_state, .path_mtu = from->path_mtu,
		.path_mig_state = from->path_mig_state, .qkey = from->qkey, .rq_psn = from->rq_psn, .sq_psn = from->sq_psn,
		.dest_qp_num = from->dest_qp_num, .qp_access_flags = (unsigned int)from->qp_access_flags, .cap = from->cap,
		.ah_attr = from->ah_attr, .alt_ah_attr = from->alt_ah_attr, .pkey_index = from->pkey_index,
		.alt_pkey_index = from->alt_pkey_index, .en_sqd_async_notify = from->en_sqd_async_notify,
		.sq_draining = from->sq_draining, .max_rd_atomic = from->max_rd_atomic,
		.max_dest_rd_atomic = from->max_dest_rd_atomic, .min_rnr_timer = from->min_rnr_timer, .port_num = from->port_num,
		.timeout = from->timeout, .retry_cnt = from->retry_cnt, .rnr_retry = from->rnr_retry,
		.alt_port_num = from->alt_port_num, .alt_timeout = from->alt_timeout,
	};
}

static inline void exp_qp_attr_of(struct ibv_exp_qp_attr *to, const struct ibv_qp_attr *from)
{
	*to = (struct ibv_exp_qp_attr){
		.qp_state = from->qp_state, .cur_qp_state = from->cur_qp_state, .path_mtu = from->path_mtu,
		.path_mig_state = from->path_mig_state, .qkey = from->qkey, .rq_psn = from->rq_psn, .sq_psn = from->sq_psn,
		.dest_qp_num = from->dest_qp_num, .qp_access_flags = (int)from->qp_access_flags, .cap = from->cap,
		.ah_attr = from->ah_attr, .alt_ah_attr = from->alt_ah_attr, .pkey_index = from->pkey_index,
		.alt_pkey_index = from->alt_pkey_index, .en_sqd_async_notify = from->en_sqd_async_notify,
		.sq_draining = from->sq_draining, .max_rd_atomic = from->max_rd_atomic,
		.max_dest_rd_atomic = from->max_dest_rd_atomic, .min_rnr_timer = from->min_rnr_timer, .port_num = from->port_num,
		.timeout = from->timeout, .retry_cnt = from->retry_cnt, .rnr_retry = from->rnr_retry,
		.alt_port_num = from->alt_port_num, .alt_timeout = from->alt_timeout,
	};
}

/* Returns whether the list of a request that fills a memory key (IBV_EXP_WR_UMR_FILL) is there, has one dimension of strides, and
 * names regions of this context. */
static inline bool exp_key_list_sound(const struct ibv_context *ctx, const struct ibv_exp_send_wr *wr)
{
	const __typeof__(wr->ext_op.umr) *u = &wr->ext_op.umr;
	const bool repeats = u->umr_type == IBV_EXP_UMR_REPEAT;

	if (u->umr_type > IBV_EXP_UMR_REPEAT || u->exp_access > UINT32_MAX || !u->num_mrs || !u->mem_list.mem_reg_list ||
	    (repeats && (u->mem_list.rb.stride_dim != 1 || !u->mem_list.rb.repeat_count)))
		return false;
	/* a list that is not in the request is in memory of ibv_exp_alloc_mkey_list_memory */
	if (!(wr->exp_send_flags & IBV_EXP_SEND_INLINE) &&
	    (!u->memory_objects || u->memory_objects->context != ctx || u->memory_objects->max_klm_list_size < u->num_mrs))
		return false;
	for (uint32_t i = 0; i < u->num_mrs; i++) {
		const struct ibv_exp_mem_repeat_block *b = &u->mem_list.rb.mem_repeat_block_list[i];
		const struct ibv_mr *mr = repeats ? b->mr : u->mem_list.mem_reg_list[i].mr;
		if (!mr || mr->context != ctx || (repeats && (!b->byte_count || !b->stride)))
			return false;
	}
	return true;
}

#endif
