/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The provider mlx5 of the experimental verbs, on the software HCA as a ConnectX: its own behaviour. The behaviour that both
 * providers share is tested by the same programs (exp_mlx5.sh).
 */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>

#include "verbs_exp/mlx5_cmd.h"
#include "vt.h"

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define MANAGED (CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND)

static struct vt t;
static struct ibv_cq *cq;
static uint64_t mem[512];
static struct ibv_mr *mr;

static struct ibv_exp_qp_init_attr attr_of(uint32_t flags)
{
	return (struct ibv_exp_qp_init_attr){
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 100},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS, .pd = t.pd, .exp_create_flags = flags,
	};
}

static struct ibv_qp *loop(uint32_t flags)
{
	struct ibv_exp_qp_init_attr a = attr_of(flags);
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp, flags %#x", flags);
	vt_connect(qp, qp->qp_num);
	return qp;
}

static struct ibv_exp_send_wr nop(uint64_t id)
{
	return (struct ibv_exp_send_wr){.wr_id = id, .exp_opcode = IBV_EXP_WR_NOP, .exp_send_flags = IBV_EXP_SEND_SIGNALED};
}

static struct ibv_exp_send_wr enable(struct ibv_qp *qp, int count, bool last)
{
	struct ibv_exp_send_wr wr = {.wr_id = 90, .exp_opcode = IBV_EXP_WR_SEND_ENABLE,
				     .exp_send_flags = last ? IBV_EXP_SEND_WAIT_EN_LAST : 0};
	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr wr)
{
	struct ibv_exp_send_wr *bad;

	return ibv_exp_post_send(qp, &wr, &bad);
}

/* ---- attributes and refusals ------------------------------------------------------------------------------------------ */

static struct ibv_exp_device_attr device(void)
{
	struct ibv_exp_device_attr a = {.comp_mask = (IBV_EXP_DEVICE_ATTR_RESERVED - 1) | SHCA_EXP_DEVICE_ATTR_EXTENSIONS};

	CHECK(!ibv_exp_query_device(t.ctx, &a), "ibv_exp_query_device");
	return a;
}

static void capabilities(bool calc)
{
	struct ibv_exp_device_attr a = device();
	const uint64_t have = IBV_EXP_DEVICE_CROSS_CHANNEL | IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS |
			      IBV_EXP_DEVICE_NOP | IBV_EXP_DEVICE_UMR;
	const uint64_t have_not = IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_MR_ALLOCATE;

	CHECK(a.vendor_id == 0x02c9 && a.max_qp > 0, "an ordinary attribute");
	CHECK((a.exp_device_cap_flags & (have | have_not)) == have, "flags %#lx", (unsigned long)a.exp_device_cap_flags);
	CHECK(a.ext_atom.atomic_arg_sizes == 8 && a.masked_atomic.masked_log_atomic_arg_sizes == 8 &&
		      a.masked_atomic.masked_log_atomic_arg_sizes_network_endianness == (4 | 16 | 32 | 64 | 128),
	      "sizes: results of 8 bytes are in the host's order");
	CHECK(a.umr_caps.max_klm_list_size == 31 && a.umr_caps.max_send_wqe_inline_klms == 31 &&
		      a.umr_caps.max_umr_recursion_depth == 4 && a.umr_caps.max_umr_stride_dimension == 1,
	      "memory keys");
	CHECK(!a.calc_cap.int_ops == !calc && !a.shca_extensions && !a.max_dct, "CALC, extensions, DC");
}

static void refused(uint32_t flags, enum ibv_qp_type type, uint32_t comp, uint32_t atomic)
{
	struct ibv_exp_qp_init_attr a = attr_of(flags);

	a.qp_type = type;
	a.comp_mask |= comp;
	a.max_atomic_arg = atomic;
	a.max_tso_header = 1;
	CHECK(!ibv_exp_create_qp(t.ctx, &a) && errno == EOPNOTSUPP, "flags %#x, type %d, comp_mask %#x", flags, type, comp);
}

static void refusals(void)
{
	struct ibv_exp_dct_init_attr da = {.pd = t.pd, .cq = cq};
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_exp_cq_attr ca = {.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS, .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	struct ibv_exp_cq_init_attr stamp = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS, .flags = IBV_EXP_CQ_TIMESTAMP};
	struct ibv_exp_reg_mr_in in = {.pd = t.pd,
				       .length = 64,
				       .exp_access = IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_LOCAL_WRITE};
	struct ibv_exp_qp_attr qa = {.rate_limit = 5};

	refused(IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW, IBV_QPT_RC, 0, 0);
	refused(0, IBV_EXP_QPT_DC_INI, 0, 0);
	refused(0, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, 256);
	refused(0, IBV_QPT_RC, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER, 8);
	refused(IBV_EXP_QP_CREATE_UMR, IBV_QPT_UC, 0, 0);
	refused(MANAGED | IBV_EXP_QP_CREATE_UMR, IBV_QPT_RC, 0, 0);
	da.srq = ibv_create_srq(t.pd, &sa);
	CHECK(da.srq && !ibv_exp_create_dct(t.ctx, &da) && errno == EOPNOTSUPP, "a target");
	CHECK(!ibv_destroy_srq(da.srq), "destroy");
	CHECK(ibv_exp_modify_cq(cq, &ca, IBV_EXP_CQ_CAP_FLAGS) == EOPNOTSUPP, "IGNORE_OVERRUN");
	ca.cq_cap_flags = 0;
	CHECK(!ibv_exp_modify_cq(cq, &ca, IBV_EXP_CQ_CAP_FLAGS), "not IGNORE_OVERRUN");
	CHECK(!ibv_exp_create_cq(t.ctx, 4, NULL, NULL, 0, &stamp) && errno == EOPNOTSUPP, "timestamps");
	CHECK(!ibv_exp_reg_mr(&in) && errno == EOPNOTSUPP, "memory of the device's");

	struct ibv_qp *q = loop(CROSS), *m = loop(MANAGED), *other = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	CHECK(ibv_exp_modify_qp(q, &qa, IBV_EXP_QP_RATE_LIMIT) == EOPNOTSUPP, "a rate");
	qa.rate_limit = 0;
	CHECK(!ibv_exp_modify_qp(q, &qa, IBV_EXP_QP_RATE_LIMIT), "no rate");
	/* a queue that ibv_create_qp made: requests of ordinary verbs only */
	vt_connect(other, other->qp_num);
	struct ibv_sge sge[4] = {vt_sge(mr, 0, 8), vt_sge(mr, 8, 8), vt_sge(mr, 16, 8), vt_sge(mr, 24, 8)};
	struct ibv_exp_send_wr wr = {.wr_id = 1, .exp_opcode = IBV_EXP_WR_RDMA_WRITE, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .sg_list = sge, .num_sge = 1};
	wr.wr.rdma.remote_addr = (uintptr_t)&mem[100];
	wr.wr.rdma.rkey = mr->rkey;
	CHECK(post(other, nop(1)) == EOPNOTSUPP && !post(other, wr), "a queue that ibv_create_qp made");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	/* managed: of one block. Address, and data of 16 bytes each behind 32 */
	wr.num_sge = 3;
	CHECK(post(m, wr) == EOPNOTSUPP && !post(q, wr), "a request of two blocks");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	wr.num_sge = 2;
	CHECK(!post(m, wr) && !post(q, enable(m, 0, true)), "a request of one block");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	wr.num_sge = 4;
	CHECK(post(m, wr) == EOPNOTSUPP, "32 bytes inline");
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC;
	CHECK(post(q, wr) == EOPNOTSUPP, "CALC, which no capability tells of");
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m) && !ibv_destroy_qp(other), "destroy");
}

/* ---- memory keys ------------------------------------------------------------------------------------------------------ */

static struct ibv_mr *key_of(uint32_t entries)
{
	struct ibv_exp_create_mr_in in = {.pd = t.pd,
					  .attr = {.max_klm_list_size = entries, .create_flags = IBV_EXP_MR_INDIRECT_KLMS}};

	return ibv_exp_create_mr(&in);
}

static void expect(uint64_t id, enum ibv_exp_wc_opcode opcode)
{
	struct ibv_exp_wc wc = vt_exp_wait(cq);

	CHECK(wc.wr_id == id && wc.status == IBV_WC_SUCCESS && wc.exp_opcode == opcode, "%lu: %s, opcode %#x",
	      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status), wc.exp_opcode);
}

static struct ibv_exp_send_wr fill_of(struct ibv_mr *key, uint32_t n)
{
	struct ibv_exp_send_wr wr = {.wr_id = 1,
				     .exp_opcode = IBV_EXP_WR_UMR_FILL,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_INLINE};

	wr.ext_op.umr.exp_access = VT_ACCESS;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = n;
	return wr;
}

static int fill_regions(struct ibv_qp *q, struct ibv_mr *key, struct ibv_exp_mem_region *regions, uint32_t n)
{
	struct ibv_exp_send_wr wr = fill_of(key, n);

	wr.ext_op.umr.umr_type = IBV_EXP_UMR_MR_LIST;
	wr.ext_op.umr.mem_list.mem_reg_list = regions;
	return post(q, wr);
}

/* Blocks of `bytes` at `stride` from the memory's word 0 on. */
static struct ibv_exp_send_wr blocks_of(struct ibv_mr *key, struct ibv_exp_mem_repeat_block *b, uint32_t n, size_t *repeat,
					size_t *bytes, size_t *stride)
{
	struct ibv_exp_send_wr wr = fill_of(key, n);

	for (uint32_t i = 0; i < n; i++)
		b[i] = (struct ibv_exp_mem_repeat_block){.base_addr = (uintptr_t)mem + 8 * i,
							 .mr = mr,
							 .byte_count = bytes,
							 .stride = stride};
	wr.ext_op.umr.umr_type = IBV_EXP_UMR_REPEAT;
	wr.ext_op.umr.mem_list.rb.mem_repeat_block_list = b;
	wr.ext_op.umr.mem_list.rb.repeat_count = repeat;
	wr.ext_op.umr.mem_list.rb.stride_dim = 1;
	return wr;
}

static int write_by(struct ibv_qp *q, struct ibv_mr *key, uint32_t n)
{
	struct ibv_sge sge = {.addr = 0, .length = n, .lkey = key->lkey};
	struct ibv_exp_send_wr wr = {.wr_id = 2,
				     .exp_opcode = IBV_EXP_WR_RDMA_WRITE,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .wr.rdma = {.remote_addr = (uintptr_t)&mem[400], .rkey = mr->rkey}};

	return post(q, wr);
}

/* Keys of regions and of blocks, their use, lists in the request and in memory, in a list of tasks; invalidation. */
static void keys(void)
{
	struct ibv_qp *q = loop(CROSS | IBV_EXP_QP_CREATE_UMR);
	struct ibv_mr *list = key_of(3), *blocks = key_of(31);
	struct ibv_exp_mkey_list_container_attr la = {.pd = t.pd,
						      .mkey_list_type = IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR,
						      .max_klm_list_size = 31};
	struct ibv_exp_mkey_list_container *room = ibv_exp_alloc_mkey_list_memory(&la);
	struct ibv_exp_mem_region regions[3] = {{(uintptr_t)&mem[10], mr, 8},
						{(uintptr_t)&mem[1], mr, 16},
						{(uintptr_t)&mem[5], mr, 4}};
	struct ibv_exp_mem_repeat_block b[31];
	struct ibv_exp_mkey_attr entries = {.comp_mask = 0};
	size_t repeat = 3, bytes = 4, stride = 256;

	CHECK(list && blocks && room && list->pd == t.pd && list->lkey && list->rkey, "made");
	CHECK(!ibv_exp_query_mkey(list, &entries) && entries.max_klm_list_size == 3 &&
		      ibv_exp_query_mkey(mr, &entries) == EINVAL,
	      "entries");
	for (uint64_t i = 0; i < 512; i++)
		mem[i] = 0x0101010101010101u * (i & 255);
	CHECK(!fill_regions(q, list, regions, 3), "regions");
	expect(1, IBV_EXP_WC_UMR);
	CHECK(!write_by(q, list, 28), "by the key of regions");
	expect(2, IBV_EXP_WC_RDMA_WRITE);
	CHECK(mem[400] == mem[10] && mem[401] == mem[1] && mem[402] == mem[2] && (uint32_t)mem[403] == (uint32_t)mem[5],
	      "regions");
	/* the most blocks that a queue takes unasked, with the list in memory; with their use in a list of tasks */
	struct ibv_exp_send_wr fill = blocks_of(blocks, b, 31, &repeat, &bytes, &stride);
	fill.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	fill.ext_op.umr.memory_objects = room;
	struct ibv_sge sge = {.addr = 4, .length = 3 * 31 * 4 - 4, .lkey = blocks->lkey};
	struct ibv_exp_send_wr write = {.wr_id = 2,
					.exp_opcode = IBV_EXP_WR_RDMA_WRITE,
					.exp_send_flags = IBV_EXP_SEND_SIGNALED,
					.sg_list = &sge,
					.num_sge = 1,
					.wr.rdma = {.remote_addr = (uintptr_t)&mem[400], .rkey = mr->rkey}};
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = q, .send_wr = &fill}}, *bad;
	fill.next = &write;
	CHECK(!ibv_exp_post_task(t.ctx, &task, &bad), "a list of tasks");
	expect(1, IBV_EXP_WC_UMR);
	expect(2, IBV_EXP_WC_RDMA_WRITE);
	for (uint32_t i = 1; i < 3 * 31; i++)
		CHECK(((uint32_t *)&mem[400])[i - 1] == (uint32_t)mem[i / 31 * 32 + i % 31], "block %u", i);
	struct ibv_exp_send_wr end = {.wr_id = 3,
				      .exp_opcode = IBV_EXP_WR_UMR_INVALIDATE,
				      .exp_send_flags = IBV_EXP_SEND_SIGNALED};
	end.ext_op.umr.modified_mr = blocks;
	CHECK(!post(q, end), "UMR_INVALIDATE");
	expect(3, IBV_EXP_WC_LOCAL_INV);
	CHECK(!write_by(q, blocks, 4), "by a key that is invalidated");
	CHECK(vt_exp_wait(cq).status == IBV_WC_LOC_PROT_ERR, "by a key that is invalidated");
	CHECK(!ibv_exp_dealloc_mkey_list_memory(room) && !ibv_destroy_qp(q) && !ibv_dereg_mr(list) && !ibv_dereg_mr(blocks),
	      "destroy");
}

/* Numbers that libmlx5 would narrow, and requests that fit neither key nor queue. */
static void keys_refused(void)
{
	struct ibv_exp_qp_init_attr a = attr_of(IBV_EXP_QP_CREATE_UMR);
	struct ibv_qp *q = loop(IBV_EXP_QP_CREATE_UMR), *without = loop(CROSS);
	struct ibv_mr *key = key_of(40);
	struct ibv_exp_mem_region region = {(uintptr_t)mem, mr, 8},
				  two[2] = {{(uintptr_t)mem, mr, 1u << 30}, {(uintptr_t)mem, mr, 1u << 30}};
	struct ibv_exp_mem_repeat_block b[41];
	size_t repeat = 2, bytes = 8, stride = 8, large = 65536, none = 0, many = 1ull << 32;
	struct ibv_exp_send_wr wr = blocks_of(key, b, 32, &repeat, &bytes, &stride),
			       end = {.exp_opcode = IBV_EXP_WR_UMR_INVALIDATE};

	CHECK(!key_of(0) && errno == EINVAL && !key_of(32767 + 1) && errno == EINVAL, "keys of no entries, and of too many");
	CHECK(post(q, wr) == EINVAL, "32 blocks and a header in a request for 32 entries");
	wr = blocks_of(key, b, 41, &repeat, &bytes, &stride);
	CHECK(post(q, wr) == EINVAL, "more than the key has");
	wr = blocks_of(key, b, 2, &repeat, &bytes, &large);
	CHECK(post(q, wr) == EOPNOTSUPP, "a stride of more than 16 bits");
	wr = blocks_of(key, b, 2, &repeat, &stride, &(size_t){4});
	CHECK(post(q, wr) == EOPNOTSUPP, "blocks that overlap");
	wr = blocks_of(key, b, 2, &repeat, &none, &stride);
	CHECK(post(q, wr) == EOPNOTSUPP, "an empty block");
	wr = blocks_of(key, b, 2, &none, &bytes, &stride);
	CHECK(post(q, wr) == EINVAL, "no repetition");
	wr = blocks_of(key, b, 2, &many, &bytes, &stride);
	CHECK(post(q, wr) == EINVAL, "repetitions of more than 32 bits");
	wr = blocks_of(key, b, 2, &repeat, &bytes, &stride);
	wr.ext_op.umr.base_addr = 8;
	CHECK(post(q, wr) == EOPNOTSUPP, "a key that does not begin at 0");
	CHECK(fill_regions(q, key, two, 2) == EINVAL && fill_regions(q, mr, &region, 1) == EINVAL,
	      "2^31 bytes; a region for a key");
	CHECK(fill_regions(without, key, &region, 1) == EOPNOTSUPP, "by a queue that was not made for it");
	end.ext_op.umr.modified_mr = mr;
	CHECK(post(q, end) == EINVAL, "the end of a region");
	/* a queue for more */
	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_MAX_INL_KLMS;
	a.max_inl_send_klms = 55;
	CHECK(!ibv_exp_create_qp(t.ctx, &a) && errno == EINVAL, "more than a work queue element holds");
	a.max_inl_send_klms = 40;
	struct ibv_qp *large_q = ibv_exp_create_qp(t.ctx, &a);
	CHECK(large_q, "a queue pair for 40 entries");
	vt_connect(large_q, large_q->qp_num);
	wr = blocks_of(key, b, 40, &repeat, &bytes, &stride);
	CHECK(!post(large_q, wr), "40 blocks");
	expect(1, IBV_EXP_WC_UMR);
	vt_none(cq);
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(without) && !ibv_destroy_qp(large_q) && !ibv_dereg_mr(key), "destroy");
}

/* DevX: commands other than QUERY_HCA_CAP, and answers that do not fit the buffer. */
static void firmware(void)
{
	static uint8_t in[16], out[EXP_MLX5_OUT_BYTES];
	struct mlx5dv_cq numbers;
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &numbers}};

	exp_mlx5_put(in, EXP_MLX5_IN_OPCODE, EXP_MLX5_CMD_QUERY_HCA_CAP);
	CHECK(!mlx5dv_devx_general_cmd(t.ctx, in, sizeof in, out, sizeof out) && out[85] == 0x08, "the most that there could be");
	CHECK(mlx5dv_devx_general_cmd(t.ctx, in, sizeof in, out, sizeof out - 1) == EINVAL, "no room");
	CHECK(mlx5dv_devx_general_cmd(t.ctx, in, 15, out, sizeof out) == EINVAL, "half a command");
	exp_mlx5_put(in, EXP_MLX5_IN_OPMOD, 2);
	CHECK(mlx5dv_devx_general_cmd(t.ctx, in, sizeof in, out, sizeof out) == EOPNOTSUPP, "Ethernet");
	exp_mlx5_put(in, EXP_MLX5_IN_OPCODE, 0x101);
	exp_mlx5_put(in, EXP_MLX5_IN_OPMOD, 1);
	CHECK(mlx5dv_devx_general_cmd(t.ctx, in, sizeof in, out, sizeof out) == EOPNOTSUPP, "QUERY_ADAPTER");
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ) && numbers.cqn && !numbers.buf, "the number of a completion queue");
	CHECK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_PD) == EOPNOTSUPP, "and of a domain");
}

/* ---- requests that the provider keeps ----------------------------------------------------------------------------- */

/* Raw requests have their own opcodes again, also behind such as ibv_poll_cq took. */
static void completions(void)
{
	struct ibv_qp *q = loop(CROSS);
	struct ibv_sge sge = vt_sge(mr, 64, 8);
	struct ibv_exp_send_wr faa = {.wr_id = 6, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &sge,
				      .num_sge = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE};
	struct ibv_exp_wc wc;

	mem[0] = 5;
	faa.ext_op.masked_atomics.log_arg_sz = 3;
	faa.ext_op.masked_atomics.remote_addr = (uintptr_t)mem;
	faa.ext_op.masked_atomics.rkey = mr->rkey;
	faa.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 2;
	for (int round = 0; round < 20; round++) {
		CHECK(!post(q, nop(5)) && !post(q, faa), "post");
		CHECK(vt_expect(cq, 5, IBV_WC_SUCCESS).opcode == IBV_WC_DRIVER2, "as ordinary verbs have it");
		wc = vt_exp_wait(cq);
		CHECK(wc.wr_id == 6 && wc.exp_opcode == IBV_EXP_WC_MASKED_FETCH_ADD && wc.qp == q &&
			      wc.exp_wc_flags & IBV_EXP_WC_QP,
		      "opcode %#x", wc.exp_opcode);
	}
	CHECK(mem[0] == 45 && mem[8] == 43, "%lu, %lu", (unsigned long)mem[0], (unsigned long)mem[8]);
	CHECK(!vt_recv(q, 7, vt_sge(mr, 128, 8)) && !vt_send(q, 8, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "a message");
	for (int i = 0; i < 2; i++) {
		wc = vt_exp_wait(cq);
		CHECK(wc.exp_opcode == (wc.wr_id == 7 ? IBV_EXP_WC_RECV : IBV_EXP_WC_SEND) && wc.status == IBV_WC_SUCCESS,
		      "%lu: opcode %#x", (unsigned long)wc.wr_id, wc.exp_opcode);
	}
	CHECK(!ibv_destroy_qp(q), "destroy");
}

/* Counts begin anew in RESET, and with every object, also at the address of an earlier one. */
static void beginnings(void)
{
	struct ibv_qp *q = loop(CROSS), *m = loop(MANAGED);
	struct ibv_exp_send_wr wait = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	for (int round = 0; round < 10; round++) {
		CHECK(!post(m, nop(1)) && !post(m, nop(2)) && !post(q, enable(m, 1, true)), "post");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		vt_none(cq);
		if (round & 1) {
			CHECK(!vt_to(m, IBV_QPS_RESET), "RESET");
			vt_connect(m, m->qp_num);
		} else {
			CHECK(!ibv_destroy_qp(m), "destroy");
			m = loop(MANAGED);
		}
		struct ibv_cq *one = vt_cq(&t, 4, NULL);
		struct ibv_qp *tick = vt_qp(&t, IBV_QPT_RC, one, NULL);
		vt_connect(tick, tick->qp_num);
		wait.task.cqe_wait.cq = one;
		wait.task.cqe_wait.cq_count = 1;
		CHECK(!post(q, wait) && !post(q, nop(3)), "a WAIT");
		vt_none(cq);
		CHECK(!vt_recv(tick, 1, vt_sge(mr, 0, 8)) && !vt_send(tick, 2, vt_sge(mr, 8, 8), 0), "a tick");
		vt_expect(cq, 3, IBV_WC_SUCCESS);
		CHECK(ibv_destroy_cq(one) == EBUSY, "a queue completes there");
		/* ... and it is known still */
		CHECK(!post(q, wait) && !post(q, nop(4)), "a second WAIT");
		vt_none(cq);
		CHECK(!vt_recv(tick, 1, vt_sge(mr, 0, 8)) && !vt_send(tick, 2, vt_sge(mr, 8, 8), 0), "a tick");
		vt_expect(cq, 4, IBV_WC_SUCCESS);
		CHECK(!ibv_destroy_qp(tick) && !ibv_destroy_cq(one), "destroy");
	}
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m), "destroy");
}

/* ENABLEs count in the order of the list, though managed queues are filled first; a refused list counts nothing. */
static void order(void)
{
	struct ibv_qp *q = loop(CROSS), *m = loop(MANAGED), *second = loop(MANAGED);
	struct ibv_exp_send_wr a = enable(m, 1, true), b[2] = {nop(20), enable(m, 1, true)}, c = enable(second, 1, true),
			       three[3], many[9];
	struct ibv_exp_task task[4] = {
		{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = q, .send_wr = &a}, .next = &task[1]},
		{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = second, .send_wr = b}, .next = &task[2]},
		{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = m, .send_wr = three}, .next = &task[3]},
		{.task_type = IBV_EXP_TASK_SEND, .item = {.qp = m, .send_wr = many}},
	}, *bad;

	b[0].next = &b[1];
	for (int i = 0; i < 3; i++) {
		three[i] = nop(10 + (uint64_t)i);
		three[i].next = i < 2 ? &three[i + 1] : NULL;
	}
	for (int i = 0; i < 9; i++) {
		many[i] = nop(30);
		many[i].next = i < 8 ? &many[i + 1] : NULL;
	}
	for (int i = 0; i < 3; i++)
		CHECK(ibv_exp_post_task(t.ctx, task, &bad) == ENOMEM && bad == &task[3],
		      "nine more than three in a queue of eight");
	vt_none(cq);
	/* three ENABLEs of one each, of which two are in the list before: beyond the posted requests from the fourth on */
	task[2].next = NULL;
	CHECK(!ibv_exp_post_task(t.ctx, task, &bad), "the list");
	vt_expect(cq, 10, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post(q, c), "the second queue's first");
	vt_expect(cq, 20, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post(q, c), "its ENABLE");
	vt_expect(cq, 11, IBV_WC_SUCCESS);
	vt_none(cq);
	CHECK(!post(q, enable(m, 1, true)), "the last");
	vt_expect(cq, 12, IBV_WC_SUCCESS);
	CHECK(post(q, enable(m, 1, true)) == EINVAL, "nothing is posted that it could enable");
	CHECK(!post(m, nop(13)) && !post(q, enable(m, 1, true)), "what was refused has counted nothing");
	vt_expect(cq, 13, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m) && !ibv_destroy_qp(second), "destroy");
}

/* RECV_ENABLE of all counts the receives that ibv_post_recv has posted. */
static void receives(void)
{
	struct ibv_qp *q = loop(CROSS), *m = loop(CROSS | IBV_EXP_QP_CREATE_MANAGED_RECV),
		      *plain = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_exp_send_wr all = enable(m, 0, true);
	struct ibv_sge s = vt_sge(mr, 0, 8);

	all.exp_opcode = IBV_EXP_WR_RECV_ENABLE;
	vt_connect(plain, plain->qp_num);
	for (uint64_t i = 1; i < 4; i++)
		CHECK(!vt_recv(m, i, s), "receive");
	for (int i = 0; i < 4; i++)
		CHECK(!vt_send(m, 9, vt_sge(mr, 8, 8), 0), "send");
	vt_none(cq);
	CHECK(!post(q, all), "RECV_ENABLE of all");
	for (uint64_t i = 1; i < 4; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	CHECK(!vt_recv(m, 4, s), "receive");
	vt_none(cq);
	all.task.wqe_enable.wqe_count = 2;
	CHECK(post(q, all) == EINVAL, "two, of which one is posted");
	all.task.wqe_enable.wqe_count = 1;
	CHECK(!post(q, all), "one");
	vt_expect(cq, 4, IBV_WC_SUCCESS);
	/* a full queue: receives that do not fit are not counted */
	for (uint64_t i = 0; i < 8; i++)
		CHECK(!vt_recv(m, i, s), "receive");
	CHECK(vt_recv(m, 8, s) == ENOMEM, "a ninth");
	all.task.wqe_enable.wqe_count = 9;
	CHECK(post(q, all) == EINVAL, "nine, of which eight are posted");
	/* receives of other queues do not count */
	CHECK(!vt_recv(plain, 5, s) && !vt_send(plain, 6, vt_sge(mr, 8, 8), IBV_SEND_SIGNALED), "an ordinary queue");
	struct ibv_wc one = vt_wait(cq), two = vt_wait(cq);
	CHECK(one.wr_id + two.wr_id == 11, "%lu, %lu", (unsigned long)one.wr_id, (unsigned long)two.wr_id);
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_qp(m) && !ibv_destroy_qp(plain), "destroy");
}

/* A queue pair for results in network order accepts atomics with results in network order, and refuses all other atomics. */
static void replies(void)
{
	struct ibv_exp_qp_init_attr a = attr_of(IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY);
	uint64_t add[2] = {1, 2}, boundary[2] = {0, 0};
	struct ibv_sge sge = vt_sge(mr, 32 * 8, 16);
	struct ibv_exp_send_wr wr = {.wr_id = 1, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &sge,
				     .num_sge = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE};

	a.comp_mask |= IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG;
	a.max_atomic_arg = 16;
	struct ibv_qp *q = ibv_exp_create_qp(t.ctx, &a);
	CHECK(q, "a queue pair with IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY");
	vt_connect(q, q->qp_num);
	mem[0] = 5;
	mem[1] = 7;
	wr.ext_op.masked_atomics.log_arg_sz = 4;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mem;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = (uintptr_t)add;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = (uintptr_t)boundary;
	CHECK(!post(q, wr), "16 bytes");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK(mem[0] == 6 && mem[1] == 9 && mem[32] == htobe64(5) && mem[33] == htobe64(7), "%#lx, %#lx", (unsigned long)mem[32],
	      (unsigned long)mem[33]);
	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 1;
	CHECK(post(q, wr) == EOPNOTSUPP && mem[0] == 6, "8 bytes, whose results are in the host's order");
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_FETCH_AND_ADD;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.atomic.remote_addr = (uintptr_t)mem;
	wr.wr.atomic.rkey = mr->rkey;
	wr.wr.atomic.compare_add = 1;
	CHECK(post(q, wr) == EOPNOTSUPP && mem[0] == 6, "an ordinary one");
	CHECK(!ibv_destroy_qp(q), "destroy");
}

/* Handles of closed contexts, which the program has lost: reachable, so that LeakSanitizer does not report them. */
static struct ibv_pd *lost[2];

int main(void)
{
	vt_fabric();
	CHECK(!setenv("SHCA_IDENTITY", "connectx", 1) && !setenv("SHCA_EXP_PROVIDER", "mlx5", 1), "setenv");
	/* twice: a context may come to lie where another one was */
	for (int calc = 1; calc >= 0; calc--) {
		CHECK(!setenv("SHCA_EXP_CALC", calc ? "yes" : "no", 1), "setenv");
		t = vt_open();
		cq = vt_cq(&t, 64, NULL);
		mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
		capabilities(calc);
		if (!calc)
			refusals();
		firmware();
		keys();
		keys_refused();
		completions();
		beginnings();
		order();
		receives();
		replies();
		/* a context that is closed takes its keys along */
		CHECK(key_of(2), "a key");
		lost[calc] = t.pd;
		CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq), "destroy");
		CHECK(!ibv_close_device(t.ctx), "close");
	}
	return 0;
}
