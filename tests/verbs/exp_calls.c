/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call of the experimental verbs that other tests do not make, as programs for the vendor's header make it: results,
 * and refusals with their reasons. The header comes by -include alone.
 */
#include "vt.h"

static struct vt t;
static struct ibv_cq *cq;

static void device(void)
{
	struct ibv_exp_device_attr a;
	struct ibv_device_attr o;

	/* a program that sets all bits of comp_mask, and does not clear the structure */
	memset(&a, 0xa5, sizeof a);
	a.comp_mask = IBV_EXP_DEVICE_ATTR_RESERVED - 1;
	CHECK(!ibv_exp_query_device(t.ctx, &a) && !ibv_query_device(t.ctx, &o), "query");
	CHECK(a.comp_mask == IBV_EXP_DEVICE_ATTR_RESERVED - 1, "comp_mask %#x", a.comp_mask);
	CHECK(!strcmp(a.fw_ver, o.fw_ver) && a.node_guid == o.node_guid && a.sys_image_guid == o.sys_image_guid &&
		      a.max_mr_size == o.max_mr_size && a.page_size_cap == o.page_size_cap && a.vendor_id == o.vendor_id &&
		      a.vendor_part_id == o.vendor_part_id && a.hw_ver == o.hw_ver, "the device");
	CHECK(a.max_qp == o.max_qp && a.max_qp_wr == o.max_qp_wr && a.max_sge == o.max_sge && a.max_sge_rd == o.max_sge_rd &&
		      a.max_cq == o.max_cq && a.max_cqe == o.max_cqe && a.max_mr == o.max_mr && a.max_pd == o.max_pd &&
		      a.max_qp_rd_atom == o.max_qp_rd_atom && a.max_res_rd_atom == o.max_res_rd_atom &&
		      a.max_qp_init_rd_atom == o.max_qp_init_rd_atom && a.max_ah == o.max_ah && a.max_srq == o.max_srq &&
		      a.max_srq_wr == o.max_srq_wr && a.max_srq_sge == o.max_srq_sge && a.max_pkeys == o.max_pkeys &&
		      a.phys_port_cnt == o.phys_port_cnt && a.local_ca_ack_delay == o.local_ca_ack_delay, "limits");
	CHECK(a.max_ee_rd_atom == o.max_ee_rd_atom && a.max_mw == o.max_mw && a.max_mcast_grp == o.max_mcast_grp &&
		      !a.reserved && a.max_fmr == o.max_fmr && a.max_rdd == o.max_rdd && a.max_raw_ethy_qp == o.max_raw_ethy_qp,
	      "what there is none of");
	/* results in the host's order are had without IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY: the device is not REPLY_BE */
	CHECK(a.exp_atomic_cap == IBV_EXP_ATOMIC_HCA, "atomics %d", a.exp_atomic_cap);
	const uint64_t have = IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_CROSS_CHANNEL |
			      IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_ODP | IBV_EXP_DEVICE_XRC | IBV_EXP_DEVICE_MR_ALLOCATE |
			      IBV_EXP_DEVICE_MEM_WINDOW | IBV_EXP_DEVICE_UMR;
	const uint64_t have_not = IBV_EXP_DEVICE_QPG | IBV_EXP_DEVICE_UD_RSS | IBV_EXP_DEVICE_EC_OFFLOAD |
				  IBV_EXP_DEVICE_SHARED_MR | IBV_EXP_DEVICE_DC_INFO;
	CHECK((a.exp_device_cap_flags & have) == have && !(a.exp_device_cap_flags & have_not), "flags %#lx",
	      (unsigned long)a.exp_device_cap_flags);
	CHECK((a.exp_device_cap_flags & UINT32_MAX) == o.device_cap_flags, "ordinary flags");
	CHECK(a.calc_cap.int_ops && a.ext_atom.log_atomic_arg_sizes == 508 &&
		      a.masked_atomic.masked_log_atomic_arg_sizes == 508 && a.masked_atomic.max_fa_bit_boundary == 3,
	      "CALC and atomics");
	CHECK(a.max_dct == a.max_qp && a.max_dc_req_rd_atom == a.max_qp_rd_atom && a.max_dc_res_rd_atom == a.max_qp_rd_atom,
	      "DC");
	CHECK(a.odp_caps.general_odp_caps & IBV_EXP_ODP_SUPPORT &&
		      a.odp_caps.per_transport_caps.dc_odp_caps & IBV_EXP_ODP_SUPPORT_WRITE &&
		      a.odp_caps.per_transport_caps.rc_odp_caps & IBV_EXP_ODP_SUPPORT_ATOMIC,
	      "on demand");
	CHECK(a.hca_core_clock == 1000000 && !a.timestamp_mask && !a.inline_recv_sz && !a.max_rss_tbl_sz &&
		      !a.rx_hash_caps.supported_qps && !a.max_wq_type_rq && !a.mp_rq_caps.supported_qps &&
		      !a.wq_vlan_offloads_cap && !a.ec_caps.max_ec_data_vector_count && !a.rx_pad_end_addr_align &&
		      !a.tso_caps.max_tso && !a.packet_pacing_caps.qp_rate_limit_max,
	      "what there is none of");
	CHECK(a.umr_caps.max_klm_list_size == 65535 && a.umr_caps.max_send_wqe_inline_klms == 65535 &&
		      a.umr_caps.max_umr_recursion_depth == 4 && a.umr_caps.max_umr_stride_dimension == 1,
	      "UMR");
	CHECK(a.max_dm_size >= 1 << 20 && a.max_ctx_res_domain > 0 && a.max_device_ctx > 0, "memory, domains, contexts");
	/* the extensions were not asked for: a program that knows the vendor's structure has no room for them */
	CHECK(a.shca_extensions == 0xa5a5a5a5a5a5a5a5, "written beyond the vendor's attributes");

	/* one known bit, and one unknown bit */
	memset(&a, 0xa5, sizeof a);
	a.comp_mask = IBV_EXP_DEVICE_ATTR_MAX_DCT | 1 << 29;
	CHECK(!ibv_exp_query_device(t.ctx, &a) && a.comp_mask == IBV_EXP_DEVICE_ATTR_MAX_DCT, "comp_mask %#x", a.comp_mask);
	CHECK(a.max_dct && !a.exp_device_cap_flags && !a.calc_cap.int_ops && a.max_qp == o.max_qp, "not asked for");
	CHECK(ibv_exp_query_device(NULL, &a) == EINVAL && ibv_exp_query_device(t.ctx, NULL) == EINVAL, "nothing");
}

static void device_memory(void)
{
	struct ibv_exp_alloc_dm_attr da = {.length = 4096};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(t.ctx, &da);
	uint64_t host[4] = {11, 12, 13, 14};
	struct ibv_exp_memcpy_dm_attr to = {.memcpy_dir = IBV_EXP_DM_CPY_TO_DEVICE, .host_addr = host, .dm_offset = 64,
					    .length = 32};
	struct ibv_exp_memcpy_dm_attr from = {.memcpy_dir = IBV_EXP_DM_CPY_TO_HOST, .host_addr = host, .dm_offset = 72,
					      .length = 16};

	CHECK(dm && dm->context == t.ctx, "ibv_exp_alloc_dm");
	struct ibv_exp_reg_mr_in in = {
		.pd = t.pd, .length = 4096, .exp_access = VT_ACCESS, .comp_mask = IBV_EXP_REG_MR_DM, .dm = dm};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	CHECK(mr, "ibv_exp_reg_mr of device memory");
	CHECK(!ibv_exp_memcpy_dm(dm, &to), "to the device");
	/* a queue adds to it: addresses of device memory begin at 0 */
	uint64_t got = 0;
	struct ibv_mr *result = vt_mr(&t, &got, sizeof got, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	vt_connect(qp, qp->qp_num);
	struct ibv_sge sge = vt_sge(result, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.atomic = {.remote_addr = 72, .compare_add = 100, .rkey = mr->rkey}}, *bad;
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK(!ibv_exp_memcpy_dm(dm, &from) && got == 12 && host[0] == 112 && host[1] == 13, "%lu %lu %lu", (unsigned long)got,
	      (unsigned long)host[0], (unsigned long)host[1]);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(result), "destroy");

	to.dm_offset = 4090;
	CHECK(ibv_exp_memcpy_dm(dm, &to), "beyond the end");
	in.addr = host;
	CHECK(!ibv_exp_reg_mr(&in) && errno == EOPNOTSUPP, "at an address");
	in.addr = NULL;
	in.length = 4097;
	CHECK(!ibv_exp_reg_mr(&in) && errno == EINVAL, "more than there is");
	CHECK(!ibv_dereg_mr(mr) && !ibv_exp_free_dm(dm), "free");
	da.length = (size_t)1 << 40;
	CHECK(!ibv_exp_alloc_dm(t.ctx, &da) && errno == ENOMEM, "1 TiB");
}

static void regions(void)
{
	static char memory[8192];
	struct ibv_exp_reg_mr_in in = {.pd = t.pd, .addr = memory, .length = sizeof memory,
				       .exp_access =
					       IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_RELAXED};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct ibv_exp_prefetch_attr pa = {.addr = memory + 100, .length = 4096, .flags = IBV_EXP_PREFETCH_WRITE_ACCESS};

	CHECK(mr && mr->addr == memory && mr->length == sizeof memory, "on demand");
	CHECK(!ibv_exp_prefetch_mr(mr, &pa), "prefetch");
	pa.length = sizeof memory;
	CHECK(ibv_exp_prefetch_mr(mr, &pa) == EFAULT, "beyond the end");
	pa.flags = 2;
	CHECK(ibv_exp_prefetch_mr(mr, &pa) == EINVAL, "unknown flags");
	struct ibv_exp_rereg_mr_attr ra = {.comp_mask = 0};
	CHECK(!ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_TRANSLATION | IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, memory, 4096,
				IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE, &ra) && mr->length == 4096, "rereg");
	CHECK(ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_PD | IBV_EXP_REREG_MR_KEEP_VALID, t.pd, NULL, 0, 0, &ra) ==
			      EOPNOTSUPP &&
		      ibv_exp_rereg_mr(mr, IBV_EXP_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_EXP_ACCESS_PHYSICAL_ADDR, &ra) ==
			      EOPNOTSUPP &&
		      ibv_exp_rereg_mr(mr, 0, NULL, NULL, 0, 0, &ra) == EINVAL,
	      "rereg refused");
	CHECK(!ibv_dereg_mr(mr), "dereg");

	/* all memory of the process, and memory that the device allocates */
	in = (struct ibv_exp_reg_mr_in){.pd = t.pd, .length = IBV_EXP_IMPLICIT_MR_SIZE,
					.exp_access = IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_LOCAL_WRITE};
	mr = ibv_exp_reg_mr(&in);
	CHECK(mr && !ibv_dereg_mr(mr), "implicit");
	in = (struct ibv_exp_reg_mr_in){.pd = t.pd, .length = 100000, .comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS,
					.create_flags = IBV_EXP_REG_MR_CREATE_CONTIG,
					.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE};
	mr = ibv_exp_reg_mr(&in);
	CHECK(mr && mr->addr && mr->length == 100000, "allocated");
	memset(mr->addr, 1, mr->length);
	void *own = mr->addr;
	CHECK(!ibv_dereg_mr(mr) && shca_free(t.ctx, own), "dereg frees it, there is nothing left to free");
	in.addr = memory;
	CHECK(!ibv_exp_reg_mr(&in) && errno == EINVAL, "allocated at an address");

	static const uint64_t lacks[] = {
		IBV_EXP_ACCESS_SHARED_MR_USER_READ, IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE, IBV_EXP_ACCESS_NO_RDMA,
		IBV_EXP_ACCESS_MW_ZERO_BASED, IBV_EXP_ACCESS_PHYSICAL_ADDR, IBV_EXP_ACCESS_RESERVED,
	};
	for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
		in = (struct ibv_exp_reg_mr_in){.pd = t.pd, .addr = memory, .length = 10, .exp_access = lacks[i]};
		CHECK(!ibv_exp_reg_mr(&in) && errno == EOPNOTSUPP, "access %#lx", (unsigned long)lacks[i]);
	}
	in = (struct ibv_exp_reg_mr_in){.pd = t.pd, .addr = memory, .length = 10, .comp_mask = 1 << 20};
	CHECK(!ibv_exp_reg_mr(&in) && errno == EINVAL, "unknown fields");
}

static void completion_queues(void)
{
	struct ibv_exp_res_domain_init_attr ra = {.comp_mask = IBV_EXP_RES_DOMAIN_THREAD_MODEL | IBV_EXP_RES_DOMAIN_MSG_MODEL,
						  .thread_model = IBV_EXP_THREAD_SINGLE, .msg_model = IBV_EXP_MSG_LOW_LATENCY};
	struct ibv_exp_res_domain *domain = ibv_exp_create_res_domain(t.ctx, &ra);
	struct ibv_exp_cq_init_attr a = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS | IBV_EXP_CQ_INIT_ATTR_RES_DOMAIN,
					 .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL | IBV_EXP_CQ_COMPRESSED_CQE,
					 .res_domain = domain};
	int mark;

	CHECK(domain && domain->context == t.ctx, "ibv_exp_create_res_domain");
	struct ibv_cq *one = ibv_exp_create_cq(t.ctx, 16, &mark, NULL, 0, &a);
	CHECK(one && one->cq_context == &mark, "ibv_exp_create_cq");
	struct ibv_exp_cq_attr ca = {.comp_mask = IBV_EXP_CQ_ATTR_MODERATION, .moderation = {.cq_count = 8, .cq_period = 10}};
	CHECK(!ibv_exp_modify_cq(one, &ca, IBV_EXP_CQ_MODERATION), "moderation");
	ca = (struct ibv_exp_cq_attr){.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS | IBV_EXP_CQ_ATTR_MODERATION,
				      .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	CHECK(!ibv_exp_modify_cq(one, &ca, IBV_EXP_CQ_CAP_FLAGS), "ignore overrun");
	ca.comp_mask = IBV_EXP_CQ_ATTR_MODERATION;
	CHECK(ibv_exp_modify_cq(one, &ca, IBV_EXP_CQ_CAP_FLAGS) == EINVAL, "a field that is not said to be valid");
	ca.comp_mask = 7;
	CHECK(ibv_exp_modify_cq(one, &ca, 4) == EINVAL && ibv_exp_modify_cq(one, NULL, 1) == EINVAL, "unknown attributes");

	/* a queue of the same domain: the queue works, and outlives the domain */
	struct ibv_exp_qp_init_attr qa = {
		.send_cq = one, .recv_cq = one, .qp_type = IBV_QPT_RC, .pd = t.pd, .res_domain = domain,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_RES_DOMAIN,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &qa);
	CHECK(qp && !ibv_exp_destroy_res_domain(t.ctx, domain, NULL), "a queue of the domain");
	vt_connect(qp, qp->qp_num);
	CHECK(!vt_recv(qp, 1, (struct ibv_sge){.length = 0}) &&
		      !vt_send(qp, 2, (struct ibv_sge){.length = 0}, IBV_SEND_SIGNALED),
	      "post");
	vt_wait(one);
	vt_wait(one);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(one), "destroy");

	a = (struct ibv_exp_cq_init_attr){.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS, .flags = IBV_EXP_CQ_TIMESTAMP};
	CHECK(!ibv_exp_create_cq(t.ctx, 16, NULL, NULL, 0, &a) && errno == EOPNOTSUPP, "with time");
	a = (struct ibv_exp_cq_init_attr){.comp_mask = IBV_EXP_CQ_INIT_ATTR_PEER_DIRECT};
	CHECK(!ibv_exp_create_cq(t.ctx, 16, NULL, NULL, 0, &a) && errno == EOPNOTSUPP, "of another device");
	a = (struct ibv_exp_cq_init_attr){.comp_mask = IBV_EXP_CQ_INIT_ATTR_RESERVED1};
	CHECK(!ibv_exp_create_cq(t.ctx, 16, NULL, NULL, 0, &a) && errno == EINVAL, "unknown fields");
	ra.thread_model = (enum ibv_exp_thread_model)9;
	CHECK(!ibv_exp_create_res_domain(t.ctx, &ra) && errno == EINVAL &&
		      ibv_exp_destroy_res_domain(t.ctx, NULL, NULL) == EINVAL,
	      "domains");
}

static struct ibv_exp_qp_init_attr queue_attr(void)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .comp_mask = IBV_EXP_QP_INIT_ATTR_PD, .pd = t.pd,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
}

static void refuse_queue(struct ibv_exp_qp_init_attr a, int err, const char *what)
{
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(!qp && errno == err, "%s", what);
}

static void queues(void)
{
	struct ibv_exp_qp_init_attr a = queue_attr();
	struct ibv_exp_qp_attr q, got;
	struct ibv_exp_qp_init_attr init;

	/* all flags that are accepted, but grant nothing */
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_INL_RECV | IBV_EXP_QP_INIT_ATTR_QPG | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS |
		       IBV_EXP_QP_INIT_ATTR_PORT | IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
	a.max_inl_recv = 64;
	a.qpg.qpg_type = IBV_EXP_QPG_NONE;
	a.port_num = 1;
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);
	CHECK(qp && a.max_inl_recv == 0 && a.cap.max_send_wr >= 4, "granted %u bytes of inline receives", a.max_inl_recv);

	memset(&q, 0, sizeof q);
	q.qp_state = IBV_QPS_INIT;
	q.port_num = 1;
	q.qp_access_flags = VT_ACCESS;
	CHECK(!ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS),
	      "INIT");
	CHECK(!ibv_exp_query_qp(qp, &got, IBV_EXP_QP_STATE, &init) && got.qp_state == IBV_QPS_INIT && got.port_num == 1 &&
		      got.qp_access_flags == (int)VT_ACCESS && init.send_cq == cq && init.qp_type == IBV_QPT_RC &&
		      init.pd == t.pd,
	      "query");
	q.rate_limit = 0;
	CHECK(!ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_RATE_LIMIT), "no limit");
	q.rate_limit = 1000;
	CHECK(ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_RATE_LIMIT) == EOPNOTSUPP, "a limit");
	q.qp_state = IBV_QPS_RTR;
	CHECK(ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_STATE | IBV_EXP_QP_FLOW_ENTROPY) == EOPNOTSUPP &&
		      ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_GROUP_RSS) == EOPNOTSUPP &&
		      ibv_exp_modify_qp(qp, &q, IBV_EXP_QP_STATE) == EINVAL && vt_state(qp) == IBV_QPS_INIT, "refused");
	CHECK(!ibv_destroy_qp(qp), "destroy");

	a = queue_attr();
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
	for (uint32_t bit = 1; bit && bit < 1 << 20; bit <<= 1) {
		const uint32_t can = IBV_EXP_QP_CREATE_CROSS_CHANNEL | IBV_EXP_QP_CREATE_MANAGED_SEND |
				     IBV_EXP_QP_CREATE_MANAGED_RECV | IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW |
				     IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY | IBV_EXP_QP_CREATE_UMR;
		a.exp_create_flags = bit;
		if (!(bit & can))
			refuse_queue(a, bit & (IBV_EXP_QP_CREATE_MASK | IBV_EXP_QP_CREATE_INTERNAL_USE) ? EOPNOTSUPP : EINVAL,
				     "create flags");
	}
	a = queue_attr();
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_QPG;
	a.qpg.qpg_type = IBV_EXP_QPG_PARENT;
	refuse_queue(a, EOPNOTSUPP, "a group");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
	a.max_inl_send_klms = 4;
	refuse_queue(a, EOPNOTSUPP, "UMR");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_RX_HASH;
	refuse_queue(a, EOPNOTSUPP, "hashing");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_PEER_DIRECT;
	refuse_queue(a, EOPNOTSUPP, "another device");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER;
	a.max_tso_header = 64;
	refuse_queue(a, EOPNOTSUPP, "segmentation");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_PORT;
	a.port_num = 3;
	refuse_queue(a, EINVAL, "port 3");
	a.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_RESERVED1;
	refuse_queue(a, EINVAL, "unknown fields");
}

/* Executed requests free their slots, though their completions were not polled. */
static void overflow(void)
{
	struct ibv_cq *unpolled = vt_cq(&t, 256, NULL);
	struct ibv_sge none = {.length = 0};

	for (int ignore = 0; ignore < 2; ignore++) {
		struct ibv_exp_qp_init_attr a = queue_attr();
		a.send_cq = a.recv_cq = unpolled;
		a.comp_mask |= IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
		a.exp_create_flags = ignore ? IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW : 0;
		struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);
		CHECK(qp, "a queue");
		vt_connect(qp, qp->qp_num);
		int posted = 0;
		while (posted < 100 && !vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, none, 0, 0))
			posted++;
		CHECK(posted == (ignore ? 100 : 4), "%d requests, room for 4, flag %d", posted, ignore);
		struct ibv_wc wc;
		int n = 0;
		while (ibv_poll_cq(unpolled, 1, &wc) == 1)
			n += wc.status == IBV_WC_SUCCESS;
		CHECK(n == posted, "%d of %d completed", n, posted);
		CHECK(!ibv_destroy_qp(qp), "destroy");
	}
	CHECK(!ibv_destroy_cq(unpolled), "destroy");
}

static void shared_receive_queues(void)
{
	struct ibv_exp_create_srq_attr a = {.base.attr = {.max_wr = 8, .max_sge = 1}, .srq_type = IBV_EXP_SRQT_BASIC, .pd = t.pd};
	struct ibv_srq *srq = ibv_exp_create_srq(t.ctx, &a);
	struct ibv_xrcd_init_attr xa = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = 0100};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t.ctx, &xa);
	uint32_t number;

	CHECK(srq && !ibv_destroy_srq(srq) && xrcd, "basic");
	a = (struct ibv_exp_create_srq_attr){.base.attr = {.max_wr = 8, .max_sge = 1}, .srq_type = IBV_EXP_SRQT_XRC, .pd = t.pd,
					     .comp_mask = IBV_EXP_CREATE_SRQ_CQ | IBV_EXP_CREATE_SRQ_XRCD, .cq = cq,
						     .xrcd = xrcd};
	srq = ibv_exp_create_srq(t.ctx, &a);
	CHECK(srq && !ibv_get_srq_num(srq, &number) && number && !ibv_destroy_srq(srq), "XRC");
	a.comp_mask = IBV_EXP_CREATE_SRQ_CQ;
	CHECK(!ibv_exp_create_srq(t.ctx, &a) && errno == EINVAL, "XRC without a domain");
	a.srq_type = IBV_EXP_SRQT_TAG_MATCHING;
	CHECK(!ibv_exp_create_srq(t.ctx, &a) && errno == EOPNOTSUPP, "tags");
	CHECK(!ibv_close_xrcd(xrcd), "close");
}

static void ports_and_clocks(void)
{
	struct ibv_exp_port_attr p = {.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1,
				      .mask1 = IBV_EXP_QUERY_PORT_STATE | IBV_EXP_QUERY_PORT_LINK_LAYER};
	struct ibv_port_attr o;
	struct ibv_exp_gid_attr g = {.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE | IBV_EXP_QUERY_GID_ATTR_GID};
	union ibv_gid gid;
	struct ibv_exp_values v, later;

	CHECK(!ibv_exp_query_port(t.ctx, 1, &p) && !ibv_query_port(t.ctx, 1, &o) && p.state == o.state && p.lid == o.lid &&
		      p.link_layer == o.link_layer && p.max_msg_sz == o.max_msg_sz && p.mask1, "port");
	p.comp_mask = 0;
	CHECK(!ibv_exp_query_port(t.ctx, 1, &p) && p.port_attr.state == IBV_PORT_ACTIVE, "all of it");
	CHECK(ibv_exp_query_port(t.ctx, 2, &p) == EINVAL, "port 2");
	p.comp_mask = IBV_EXP_QUERY_PORT_ATTR_RESERVED;
	CHECK(ibv_exp_query_port(t.ctx, 1, &p) == EINVAL, "unknown fields");

	CHECK(!ibv_exp_query_gid_attr(t.ctx, 1, 0, &g) && !ibv_query_gid(t.ctx, 1, 0, &gid) &&
		      !memcmp(&g.gid, &gid, sizeof gid) && g.type == IBV_EXP_IB_ROCE_V1_GID_TYPE,
	      "GID");
	CHECK(ibv_exp_query_gid_attr(t.ctx, 1, 7, &g), "GID 7");

	CHECK(!ibv_exp_query_values(t.ctx, IBV_EXP_VALUES_HW_CLOCK | IBV_EXP_VALUES_HW_CLOCK_NS, &v) && v.comp_mask == 3 &&
		      v.hwclock == v.hwclock_ns, "the clock counts nanoseconds");
	CHECK(!ibv_exp_query_values(t.ctx, IBV_EXP_VALUES_HW_CLOCK, &later) && later.comp_mask == 2 &&
		      later.hwclock >= v.hwclock,
	      "later");
	CHECK(ibv_exp_query_values(t.ctx, 4, &v) == EINVAL, "unknown values");

	struct ibv_exp_ah_attr aa = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_exp_create_ah(t.pd, &aa);
	CHECK(ah && !ibv_destroy_ah(ah), "an address");
	aa.comp_mask = IBV_EXP_AH_ATTR_LL;
	CHECK(!ibv_exp_create_ah(t.pd, &aa) && errno == EOPNOTSUPP, "an Ethernet address");
}

static void polling(void)
{
	/* a program that was built with an earlier header has shorter completions */
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct {
		char bytes[64];
	} shorter[2], untouched;
	struct ibv_exp_wc wc[4];
	struct ibv_sge none = {.length = 0};

	vt_connect(qp, qp->qp_num);
	for (int i = 0; i < 4; i++)
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 10 + (uint64_t)i, none, 0, 0), "post");
	memset(shorter, 0x77, sizeof shorter);
	memset(&untouched, 0x77, sizeof untouched);
	CHECK(ibv_exp_poll_cq(cq, 1, (struct ibv_exp_wc *)shorter, 56) == 1 && *(uint64_t *)shorter == 10 &&
		      !memcmp(shorter[0].bytes + 56, untouched.bytes, 8) && !memcmp(&shorter[1], &untouched, sizeof untouched),
	      "56 bytes of one");
	CHECK(ibv_exp_poll_cq(cq, 4, wc, sizeof *wc) == 3 && wc[2].wr_id == 13 && wc[2].qp == qp && wc[2].qp_num == qp->qp_num,
	      "three");
	CHECK(ibv_exp_poll_cq(cq, 4, wc, sizeof *wc) == 0 && ibv_exp_poll_cq(cq, 4, wc, 56) == 0, "none");
	CHECK(ibv_exp_poll_cq(cq, 1, NULL, sizeof *wc) < 0 && ibv_exp_poll_cq(cq, 1, wc, 0) < 0 &&
		      ibv_exp_poll_cq(NULL, 1, wc, 8) < 0,
	      "nothing");
	CHECK(!ibv_destroy_qp(qp), "destroy");

	drv_exp_post_send_func send = (drv_exp_post_send_func)ibv_exp_get_provider_func(t.ctx, IBV_EXP_POST_SEND_FUNC);
	drv_exp_poll_cq_func poll_exp = (drv_exp_poll_cq_func)ibv_exp_get_provider_func(t.ctx, IBV_EXP_POLL_CQ_FUNC);
	drv_poll_cq_func poll_plain = (drv_poll_cq_func)ibv_exp_get_provider_func(t.ctx, IBV_POLL_CQ_FUNC);
	struct ibv_wc plain;
	CHECK(send && poll_exp && poll_plain && poll_exp(cq, 1, wc, sizeof *wc) == 0 && poll_plain(cq, 1, &plain) == 0 &&
		      ibv_exp_get_provider_func(t.ctx, IBV_POST_SEND_FUNC) &&
		      ibv_exp_get_provider_func(t.ctx, IBV_POST_RECV_FUNC),
	      "functions");
	CHECK(!ibv_exp_get_provider_func(t.ctx, (enum ibv_exp_func_name)99), "function 99");
}

/* Requests of kinds that the device lacks. */
static void requests(void)
{
	static const enum ibv_exp_wr_opcode lacks[] = {
		IBV_EXP_WR_TSO, IBV_EXP_WR_UMR_FILL, IBV_EXP_WR_UMR_INVALIDATE,
	};
	struct ibv_exp_qp_init_attr a = queue_attr();
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	vt_connect(qp, qp->qp_num);
	for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
		struct ibv_exp_send_wr wr = {.exp_opcode = lacks[i]}, *bad = NULL;
		CHECK(ibv_exp_post_send(qp, &wr, &bad) == EOPNOTSUPP && bad == &wr, "opcode %#x", lacks[i]);
	}
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_IP_CSUM}, *bad;
	CHECK(ibv_exp_post_send(qp, &wr, &bad), "checksums");
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

static void exp_expect(uint64_t id, enum ibv_exp_wc_opcode opcode)
{
	struct ibv_exp_wc wc = vt_exp_wait(cq);

	CHECK(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.exp_opcode == opcode, "request %lu: %s, opcode %d",
	      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status), wc.exp_opcode);
}

/* Windows: bound by call and by request, invalidated by request and by message. */
static void windows(void)
{
	static char memory[256];
	struct ibv_exp_qp_init_attr a = queue_attr();
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof memory, VT_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(t.pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(t.pd, IBV_MW_TYPE_2);
	const struct ibv_exp_mw_bind_info info = {.mr = mr, .addr = (uintptr_t)memory, .length = 64,
						  .exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_WRITE};
	struct ibv_exp_mw_bind bind = {
		.qp = qp, .mw = one, .wr_id = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .bind_info = info};
	struct ibv_exp_send_wr wr = {.wr_id = 2, .exp_opcode = IBV_EXP_WR_BIND_MW, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .bind_mw = {.mw = two, .bind_info = info}}, *bad;
	struct ibv_sge sge = vt_sge(mr, 128, 8);

	CHECK(qp && one && two, "windows");
	vt_connect(qp, qp->qp_num);
	uint32_t was = one->rkey;
	CHECK(!ibv_exp_bind_mw(&bind) && one->rkey != was, "ibv_exp_bind_mw");
	exp_expect(1, IBV_EXP_WC_BIND_MW);
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 3, sge, (uintptr_t)memory, one->rkey), "by the window of type 1");
	exp_expect(3, IBV_EXP_WC_RDMA_WRITE);
	for (int i = 0; i < 2; i++) {
		wr.exp_opcode = IBV_EXP_WR_BIND_MW;
		wr.wr_id = 2;
		wr.bind_mw.rkey = two->rkey = ibv_inc_rkey(two->rkey);
		CHECK(!ibv_exp_post_send(qp, &wr, &bad), "BIND_MW");
		exp_expect(2, IBV_EXP_WC_BIND_MW);
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 4, sge, (uintptr_t)memory, two->rkey), "by the window of type 2");
		exp_expect(4, IBV_EXP_WC_RDMA_WRITE);
		struct ibv_exp_send_wr inv = {.wr_id = 5, .exp_opcode = i ? IBV_EXP_WR_SEND_WITH_INV : IBV_EXP_WR_LOCAL_INV,
					      .exp_send_flags = IBV_EXP_SEND_SIGNALED, .ex.invalidate_rkey = two->rkey};
		CHECK(!i || !vt_recv(qp, 6, vt_sge(mr, 192, 8)), "receive");
		CHECK(!ibv_exp_post_send(qp, &inv, &bad), "invalidation");
		for (int k = 0; k <= i; k++) {
			struct ibv_exp_wc wc = vt_exp_wait(cq);
			CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
			if (wc.wr_id == 5)
				CHECK(wc.exp_opcode == (i ? IBV_EXP_WC_SEND : IBV_EXP_WC_LOCAL_INV), "opcode %d", wc.exp_opcode);
			else
				CHECK(wc.exp_wc_flags & IBV_EXP_WC_WITH_INV && wc.imm_data == two->rkey, "flags %#lx",
				      (unsigned long)wc.exp_wc_flags);
		}
	}
	wr.bind_mw.rkey ^= 0x100;
	CHECK(ibv_exp_post_send(qp, &wr, &bad) == EINVAL && bad == &wr, "another index");
	wr.bind_mw.mw = NULL;
	CHECK(ibv_exp_post_send(qp, &wr, &bad) == EINVAL, "no window");
	bind.mw = NULL;
	CHECK(ibv_exp_bind_mw(&bind) == EINVAL && ibv_exp_bind_mw(NULL) == EINVAL, "no window");
	bind.mw = two;
	CHECK(ibv_exp_bind_mw(&bind) == EINVAL, "a window of type 2 by the call");
	CHECK(!ibv_destroy_qp(qp) && !ibv_dealloc_mw(one) && !ibv_dealloc_mw(two) && !ibv_dereg_mr(mr), "destroy");
}

/* Appendix C: a key of regions, one of strided blocks over the first, their use, invalidation, and refusals. */
static void memory_keys(void)
{
	static char memory[4096], copy[256];
	struct ibv_exp_create_mr_in create = {.pd = t.pd,
					      .attr = {.max_klm_list_size = 3, .create_flags = IBV_EXP_MR_INDIRECT_KLMS}};
	struct ibv_exp_mkey_list_container_attr la = {.pd = t.pd, .mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
						      .max_klm_list_size = 2};
	struct ibv_exp_qp_init_attr a = queue_attr();
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
	a.exp_create_flags = IBV_EXP_QP_CREATE_UMR;
	a.max_inl_send_klms = 3;
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof memory, VT_ACCESS), *to = vt_mr(&t, copy, sizeof copy, VT_ACCESS);
	struct ibv_mr *list = ibv_exp_create_mr(&create), *blocks = ibv_exp_create_mr(&create);
	struct ibv_exp_mkey_list_container *room = ibv_exp_alloc_mkey_list_memory(&la);
	struct ibv_exp_mkey_attr mkey = {.comp_mask = 0};
	CHECK(qp && list && blocks && room && room->max_klm_list_size == 2 && room->context == t.ctx, "created");
	CHECK(!ibv_exp_query_mkey(list, &mkey) && mkey.max_klm_list_size == 3 && ibv_exp_query_mkey(mr, &mkey) == EINVAL,
	      "queried");
	vt_connect(qp, qp->qp_num);
	for (int i = 0; i < 4096; i++)
		memory[i] = (char)(i * 11);
	/* three regions, from address 1000 on, in the request */
	struct ibv_exp_mem_region regions[3] = {{(uintptr_t)memory + 100, mr, 10},
						{(uintptr_t)memory, mr, 20},
						{(uintptr_t)memory + 7, mr, 30}};
	struct ibv_exp_send_wr fill = {.wr_id = 1, .exp_opcode = IBV_EXP_WR_UMR_FILL,
				       .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_INLINE,
		.ext_op.umr = {.umr_type = IBV_EXP_UMR_MR_LIST, .exp_access = VT_ACCESS, .modified_mr = list, .base_addr = 1000,
			       .num_mrs = 3, .mem_list.mem_reg_list = regions}}, *bad;
	CHECK(!ibv_exp_post_send(qp, &fill, &bad), "UMR_FILL");
	exp_expect(1, IBV_EXP_WC_UMR);
	/* strided blocks over it, through the container */
	size_t count[1] = {2}, bytes[2] = {5, 1}, stride[2] = {30, 4};
	struct ibv_exp_mem_repeat_block rb[2] = {{1002, list, &bytes[0], &stride[0]},
						 {(uintptr_t)memory + 500, mr, &bytes[1], &stride[1]}};
	struct ibv_exp_send_wr repeat = fill;
	repeat.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	repeat.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	repeat.ext_op.umr.modified_mr = blocks;
	repeat.ext_op.umr.base_addr = 0;
	repeat.ext_op.umr.num_mrs = 2;
	repeat.ext_op.umr.memory_objects = room;
	repeat.ext_op.umr.mem_list.rb.mem_repeat_block_list = rb;
	repeat.ext_op.umr.mem_list.rb.repeat_count = count;
	repeat.ext_op.umr.mem_list.rb.stride_dim = 1;
	struct ibv_sge sge = {.addr = 0, .length = 12, .lkey = blocks->lkey};
	struct ibv_exp_send_wr write = {.wr_id = 2, .exp_opcode = IBV_EXP_WR_RDMA_WRITE, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
					.sg_list = &sge, .num_sge = 1,
						.wr.rdma = {.remote_addr = (uintptr_t)copy, .rkey = to->rkey}};
	repeat.next = &write;
	CHECK(!ibv_exp_post_send(qp, &repeat, &bad), "UMR_FILL and its use");
	exp_expect(1, IBV_EXP_WC_UMR);
	exp_expect(2, IBV_EXP_WC_RDMA_WRITE);
	CHECK(!memcmp(copy, memory + 102, 5) && copy[5] == memory[500] && !memcmp(copy + 6, memory + 9, 5) &&
		      copy[11] == memory[504],
	      "the bytes");
	repeat.next = NULL;
	/* refused when posted */
#define FILL_REFUSED(member, value)                                                                                             \
	do {                                                                                                                    \
		struct ibv_exp_send_wr wrong = repeat;                                                                          \
		wrong.ext_op.umr.member = value;                                                                                \
		CHECK(ibv_exp_post_send(qp, &wrong, &bad) == EINVAL, #member);                                                   \
	} while (0)
	FILL_REFUSED(modified_mr, mr);
	FILL_REFUSED(modified_mr, NULL);
	FILL_REFUSED(num_mrs, 0);
	FILL_REFUSED(num_mrs, 3);
	FILL_REFUSED(umr_type, 2);
	FILL_REFUSED(memory_objects, NULL);
	FILL_REFUSED(exp_access, 1ull << 40);
	FILL_REFUSED(base_addr, UINT64_MAX);
	FILL_REFUSED(mem_list.rb.stride_dim, 2);
	FILL_REFUSED(mem_list.rb.repeat_count, NULL);
	count[0] = 0;
	FILL_REFUSED(base_addr, 0);
	fill.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE;
	fill.ext_op.umr.modified_mr = blocks;
	CHECK(!ibv_exp_post_send(qp, &fill, &bad), "UMR_INVALIDATE");
	exp_expect(1, IBV_EXP_WC_LOCAL_INV);
	CHECK(!ibv_exp_post_send(qp, &write, &bad), "by a key that is invalidated");
	struct ibv_exp_wc wc = vt_exp_wait(cq);
	CHECK(wc.status == IBV_WC_LOC_PROT_ERR, "by a key that is invalidated: %s", ibv_wc_status_str(wc.status));
	la.max_klm_list_size = 0;
	CHECK(!ibv_exp_alloc_mkey_list_memory(&la) && errno == EINVAL, "a list of nothing");
	create.attr.max_klm_list_size = 0;
	CHECK(!ibv_exp_create_mr(&create) && errno == EINVAL, "a key of nothing");
	create.attr.max_klm_list_size = 1;
	create.attr.create_flags |= IBV_EXP_MR_SIGNATURE_EN;
	CHECK(!ibv_exp_create_mr(&create) && errno == EOPNOTSUPP, "signatures");
	CHECK(!ibv_exp_dealloc_mkey_list_memory(room) && !ibv_destroy_qp(qp) && !ibv_dereg_mr(list) && !ibv_dereg_mr(blocks) &&
		      !ibv_dereg_mr(mr) && !ibv_dereg_mr(to), "destroy");
}

static void absent(void)
{
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_mr *mr = vt_mr(&t, &t, 8, 0);
	struct ibv_exp_reg_shared_mr_in shared = {.pd = t.pd};
	struct ibv_exp_dc_info_ent info;
	struct ibv_exp_flow_attr flow_attr = {.type = IBV_EXP_FLOW_ATTR_NORMAL};
	struct ibv_exp_flow flow = {.context = t.ctx};
	struct ibv_exp_wq_init_attr wqa = {.wq_type = IBV_EXP_WQT_RQ, .pd = t.pd, .cq = cq};
	struct ibv_exp_wq wq = {.context = t.ctx};
	struct ibv_exp_wq_attr wa = {.attr_mask = IBV_EXP_WQ_ATTR_STATE};
	struct ibv_exp_rwq_ind_table_init_attr ta = {.pd = t.pd};
	struct ibv_exp_rwq_ind_table table = {.context = t.ctx};
	struct ibv_exp_query_intf_params params = {.intf_scope = IBV_EXP_INTF_GLOBAL, .intf = IBV_EXP_INTF_QP_BURST, .obj = qp};
	enum ibv_exp_query_intf_status status = IBV_EXP_INTF_STAT_OK;
	struct ibv_exp_ec_calc_init_attr ea = {.comp_mask = IBV_EXP_EC_CALC_ATTR_K};
	struct ibv_exp_ec_calc ec = {.pd = t.pd};
	struct ibv_exp_ec_mem em = {.block_size = 64};
	struct ibv_exp_ec_comp comp = {.status = IBV_EXP_EC_CALC_FAIL};
	struct ibv_exp_ec_stripe stripe = {.qp = qp};
	uint8_t bytes[8] = {0};

#define REFUSED(call) CHECK((errno = 0, (call) == EOPNOTSUPP), #call)
#define REFUSED_NULL(call) CHECK((errno = 0, !(call) && errno == EOPNOTSUPP), #call)
#define REFUSED_NEGATIVE(call) CHECK((errno = 0, (call) == -1 && errno == EOPNOTSUPP), #call)
	REFUSED_NULL(ibv_exp_reg_shared_mr(&shared));
	REFUSED_NEGATIVE(ibv_exp_poll_dc_info(t.ctx, &info, 1, 1));
	REFUSED_NEGATIVE(ibv_exp_use_priv_env(t.ctx));
	REFUSED_NULL(ibv_exp_create_flow(qp, &flow_attr));
	REFUSED(ibv_exp_destroy_flow(&flow));
	REFUSED_NULL(ibv_exp_create_wq(t.ctx, &wqa));
	REFUSED(ibv_exp_modify_wq(&wq, &wa));
	REFUSED(ibv_exp_destroy_wq(&wq));
	REFUSED_NULL(ibv_exp_create_rwq_ind_table(t.ctx, &ta));
	REFUSED(ibv_exp_destroy_rwq_ind_table(&table));
	REFUSED_NULL(ibv_exp_query_intf(t.ctx, &params, &status));
	CHECK(status == IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED, "status %d", status);
	REFUSED(ibv_exp_release_intf(t.ctx, &params, NULL));
	REFUSED_NULL(ibv_exp_alloc_ec_calc(t.pd, &ea));
	ibv_exp_dealloc_ec_calc(&ec);
	REFUSED(ibv_exp_ec_encode_async(&ec, &em, &comp));
	REFUSED(ibv_exp_ec_encode_sync(&ec, &em));
	REFUSED(ibv_exp_ec_decode_async(&ec, &em, bytes, bytes, &comp));
	REFUSED(ibv_exp_ec_decode_sync(&ec, &em, bytes, bytes));
	REFUSED(ibv_exp_ec_update_async(&ec, &em, bytes, bytes, &comp));
	REFUSED(ibv_exp_ec_update_sync(&ec, &em, bytes, bytes));
	REFUSED_NEGATIVE(ibv_exp_ec_poll(&ec, 1));
	REFUSED(ibv_exp_ec_encode_send(&ec, &em, &stripe, &stripe));
	CHECK(!ibv_exp_setenv(t.ctx, "SHCA_EXP_CALLS_TEST", "1", 1) && getenv("SHCA_EXP_CALLS_TEST"), "setenv");
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr), "destroy");
}

/* SHCA_DEBUG prints the reason of each refusal. */
static void reasons(void)
{
	char text[512] = "";
	int fd[2], old = dup(2);

	CHECK(!pipe(fd) && old >= 0 && dup2(fd[1], 2) == 2, "stderr");
	setenv("SHCA_DEBUG", "1", 1);
	void *wq = ibv_exp_create_wq(t.ctx, NULL);
	unsetenv("SHCA_DEBUG");
	dup2(old, 2);
	close(fd[1]);
	ssize_t n = read(fd[0], text, sizeof text - 1);
	close(fd[0]);
	close(old);
	CHECK(!wq && n > 0 && strstr(text, "ibv_exp_create_wq") && strstr(text, "hashing"), "it says: %s", text);
}

int main(void)
{
	vt_fabric();
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	device();
	device_memory();
	regions();
	completion_queues();
	queues();
	overflow();
	shared_receive_queues();
	ports_and_clocks();
	polling();
	requests();
	windows();
	memory_keys();
	absent();
	reasons();
	CHECK(!ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	return 0;
}
