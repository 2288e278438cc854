/* SPDX-License-Identifier: BSD-3-Clause */
/* The checks. Each creates objects, reports the first failure, and destroys the objects. */
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#include "hw.h"
#include "verbs_exp/mlx5_cmd.h"
#include "verbs_exp/mlx5_wqe.h"

#define SEND_EN IBV_EXP_WR_SEND_ENABLE
#define RECV_EN IBV_EXP_WR_RECV_ENABLE

static void firmware(struct hw *h)
{
	struct exp_mlx5_caps caps;

	exp_mlx5_query_caps(h->ctx, &caps);
	hw_say(HW_NOTE,
	       "cd %d, masked atomics of sizes %#x, results of 8 bytes in %s order, memory keys of %u entries, %u deep",
	       caps.cross_channel, caps.masked_sizes, caps.host_order ? "the host's" : "network", caps.key_entries,
	       caps.key_depth);
	REQUIRE(caps.key_entries <= 1 || h->attr.exp_device_cap_flags & IBV_EXP_DEVICE_UMR,
		"the firmware has memory keys that requests configure, and no queue pair for them could be made (SHCA_DEBUG=1 "
		"says more)");
	REQUIRE(caps.cross_channel || caps.masked_sizes || caps.key_entries > 1,
		"QUERY_HCA_CAP tells of nothing: DevX is refused, or the adapter has nothing of what is asked for");
	REQUIRE(!caps.cross_channel || h->attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL,
		"the firmware has cross-channel queues, and none could be made (SHCA_DEBUG=1 says more)");
}

/* Of an ordinary queue: a raw request completes, with the request's wr_id. */
static void raw(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, 0, 8) : NULL;
	struct ibv_exp_send_wr wr = hw_wr(1, IBV_EXP_WR_NOP);
	struct ibv_exp_wc wc;

	if (q && !hw_post(q, &wr, 1) && hw_wait(cq, 1, &wc))
		REQUIRE((int)wc.exp_opcode == IBV_WC_DRIVER2, "a NOP completes as opcode %#x", wc.exp_opcode);
}

/* ---- masked atomics ----------------------------------------------------------------------------------------------------- */

static bool in_order(const void *result, const uint64_t *want, uint32_t size, bool host)
{
	uint32_t half;

	if (size == 4) {
		memcpy(&half, result, 4);
		return (host ? half : be32toh(half)) == (uint32_t)want[0];
	}
	for (uint32_t i = 0; i < size / 8; i++) {
		uint64_t word;
		memcpy(&word, (const char *)result + 8 * i, 8);
		if ((host ? word : be64toh(word)) != want[i])
			return false;
	}
	return true;
}

static void masked_size(struct hw *h, uint32_t size, bool host)
{
	struct ibv_cq *cq = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, 0, size < 8 ? 8 : size) : NULL;
	uint64_t *word = (uint64_t *)(h->mem + 1024), old[16], operand[4][16];
	struct ibv_sge sge = {.addr = (uintptr_t)h->mem, .length = size, .lkey = h->mr->lkey};
	struct ibv_exp_send_wr wr = hw_wr(1, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD);
	uint32_t words = size < 8 ? 1 : size / 8;

	if (!q)
		return;
	memset(operand, 0, sizeof(operand));
	for (uint32_t i = 0; i < words; i++) {
		word[i] = old[i] = 0x01020304fffffff0ull + i;
		operand[0][i] = 0x20;			/* carries out of the low half */
		operand[1][i] = 1ull << 31;		/* where a field ends: the carry is lost */
	}
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr.ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(size);
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)word;
	wr.ext_op.masked_atomics.rkey = h->mr->rkey;
#define OPERAND(i) (size > 8 ? (uintptr_t)operand[i] : operand[i][0])
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){.add_val = OPERAND(0), .field_boundary = OPERAND(1)};
	memset(h->mem, 0, size);
	if (hw_post(q, &wr, 1) || !hw_wait(cq, 1, NULL))
		return;
	for (uint32_t i = 0; i < words; i++)
		REQUIRE(word[i] == 0x0102030400000010ull + i, "fetch-and-add of %u bytes: word %u is %#lx", size, i,
			(unsigned long)word[i]);
	REQUIRE(in_order(h->mem, old, size, host),
		"fetch-and-add of %u bytes: the result (first word %#lx) is not the value before in %s order", size,
		(unsigned long)*(uint64_t *)h->mem, host ? "the host's" : "network");
	/* compares the low byte of each word, swaps the one above */
	for (uint32_t i = 0; i < words; i++) {
		old[i] = word[i];
		operand[0][i] = 0xabcdef00 | (word[i] & 0xff);
		operand[1][i] = 0xff;
		operand[2][i] = 0x12345678;
		operand[3][i] = 0xff00;
	}
	wr.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
		.compare_val = OPERAND(0), .compare_mask = OPERAND(1), .swap_val = OPERAND(2), .swap_mask = OPERAND(3)};
	if (hw_post(q, &wr, 1) || !hw_wait(cq, 1, NULL))
		return;
	for (uint32_t i = 0; i < words; i++)
		REQUIRE(word[i] == ((old[i] & ~0xff00ull) | 0x5600), "compare-and-swap of %u bytes: word %u is %#lx", size, i,
			(unsigned long)word[i]);
	REQUIRE(in_order(h->mem, old, size, host), "compare-and-swap of %u bytes: the result is not the value before", size);
}

static void masked(struct hw *h)
{
	uint64_t host = h->attr.masked_atomic.masked_log_atomic_arg_sizes;
	uint64_t network = h->attr.masked_atomic.masked_log_atomic_arg_sizes_network_endianness;

	hw_say(HW_NOTE, "sizes with results in the host's order %#lx, in network order %#lx", (unsigned long)host,
	       (unsigned long)network);
	if (!(host | network))
		hw_say(HW_SKIP, "the device does not say that it can");
	for (uint32_t size = 4; size <= 128; size *= 2)
		if ((host | network) & size)
			masked_size(h, size, host & size);
}

/* ---- memory keys ------------------------------------------------------------------------------------------------------ */

/* RDMA WRITE of n bytes of a key, from byte `at` on. */
static int write_by(struct hw *h, struct ibv_qp *q, const struct ibv_mr *key, uint64_t at, uint32_t n, char *to)
{
	struct ibv_sge sge = {.addr = at, .length = n, .lkey = key->lkey};
	struct ibv_exp_send_wr wr = hw_wr(2, IBV_EXP_WR_RDMA_WRITE);

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = (uintptr_t)to;
	wr.wr.rdma.rkey = h->mr->rkey;
	return hw_post(q, &wr, 1);
}

static struct ibv_mr *hw_key(struct hw *h, uint32_t entries)
{
	struct ibv_exp_create_mr_in in = {.pd = h->pd,
					  .attr = {.max_klm_list_size = entries, .create_flags = IBV_EXP_MR_INDIRECT_KLMS}};
	struct ibv_mr *key = ibv_exp_create_mr(&in);

	if (!key)
		hw_say(HW_FAIL, "ibv_exp_create_mr, %u entries: %s", entries, strerror(errno));
	return key;
}

static struct ibv_exp_send_wr hw_fill(struct ibv_mr *key, uint32_t type, uint32_t n)
{
	struct ibv_exp_send_wr wr = hw_wr(1, IBV_EXP_WR_UMR_FILL);

	wr.exp_send_flags |= IBV_EXP_SEND_INLINE;
	wr.ext_op.umr.umr_type = type;
	wr.ext_op.umr.exp_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	wr.ext_op.umr.modified_mr = key;
	wr.ext_op.umr.num_mrs = n;
	return wr;
}

/* Fills the key, sends bytes by that key, and receives by the key as a target. */
static void key_moves(struct hw *h, struct ibv_cq *cq, struct ibv_qp *q, struct ibv_mr *key, struct ibv_exp_send_wr *fill,
		      const uint32_t *place, uint32_t n)
{
	struct ibv_sge back = {.addr = (uintptr_t)h->mem + 3072, .length = n, .lkey = h->mr->lkey};
	struct ibv_exp_send_wr wr = hw_wr(3, IBV_EXP_WR_RDMA_WRITE);
	struct ibv_exp_wc wc;

	for (uint32_t i = 0; i < HW_BYTES; i++)
		h->mem[i] = (char)(i * 7 + i / 256);
	if (hw_post(q, fill, 1) || !hw_wait(cq, 1, &wc))
		return;
	REQUIRE(wc.exp_opcode == IBV_EXP_WC_UMR, "UMR_FILL completes as opcode %#x", wc.exp_opcode);
	if (write_by(h, q, key, 1, n - 1, h->mem + 2048) || !hw_wait(cq, 2, NULL))
		return;
	for (uint32_t i = 1; i < n; i++)
		REQUIRE(h->mem[2048 + i - 1] == h->mem[place[i]], "byte %u of the key is not byte %u of the memory", i,
			place[i]);
	wr.sg_list = &back;
	wr.num_sge = 1;
	wr.wr.rdma.rkey = key->rkey;
	if (hw_post(q, &wr, 1) || !hw_wait(cq, 3, NULL))
		return;
	for (uint32_t i = 0; i < n; i++)
		REQUIRE(h->mem[place[i]] == h->mem[3072 + i], "as a target: byte %u of the key is not byte %u of the memory", i,
			place[i]);
}

static void umr_list(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, IBV_EXP_QP_CREATE_UMR, 8) : NULL;
	struct ibv_mr *key = q ? hw_key(h, 5) : NULL;
	struct ibv_exp_mem_region region[5];
	struct ibv_exp_send_wr fill;
	uint32_t place[5 * 20], n = 0;

	if (!key)
		return;
	for (uint32_t i = 0; i < 5; i++) {
		region[i] = (struct ibv_exp_mem_region){.base_addr = (uintptr_t)h->mem + 1000 - 200 * i,
							.mr = h->mr,
							.length = 4 * (i + 1)};
		for (uint32_t j = 0; j < 4 * (i + 1); j++)
			place[n++] = 1000 - 200 * i + j;
	}
	fill = hw_fill(key, IBV_EXP_UMR_MR_LIST, 5);
	fill.ext_op.umr.mem_list.mem_reg_list = region;
	key_moves(h, cq, q, key, &fill, place, n);
	ibv_dereg_mr(key);
}

static void umr_blocks(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, IBV_EXP_QP_CREATE_UMR, 8) : NULL;
	struct ibv_mr *key = q ? hw_key(h, 2) : NULL;
	size_t repeat = 10, bytes[2] = {12, 4}, stride[2] = {100, 20};
	struct ibv_exp_mem_repeat_block block[2];
	struct ibv_exp_send_wr fill;
	uint32_t place[10 * 16], n = 0;

	if (!key)
		return;
	for (uint32_t i = 0; i < 2; i++)
		block[i] = (struct ibv_exp_mem_repeat_block){.base_addr = (uintptr_t)h->mem + 1200 * i,
							     .mr = h->mr,
							     .byte_count = &bytes[i],
							     .stride = &stride[i]};
	for (uint32_t r = 0; r < 10; r++)
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t j = 0; j < bytes[i]; j++)
				place[n++] = 1200 * i + r * (uint32_t)stride[i] + j;
	fill = hw_fill(key, IBV_EXP_UMR_REPEAT, 2);
	fill.ext_op.umr.mem_list.rb.mem_repeat_block_list = block;
	fill.ext_op.umr.mem_list.rb.repeat_count = &repeat;
	fill.ext_op.umr.mem_list.rb.stride_dim = 1;
	key_moves(h, cq, q, key, &fill, place, n);
	ibv_dereg_mr(key);
}

/* A key that was invalidated refuses a WRITE, and may be filled anew. */
static void umr_end(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, IBV_EXP_QP_CREATE_UMR, 8) : NULL;
	struct ibv_mr *key = q ? hw_key(h, 1) : NULL;
	struct ibv_exp_mem_region region = {.base_addr = (uintptr_t)h->mem, .mr = h->mr, .length = 64};
	struct ibv_exp_send_wr fill, end = hw_wr(4, IBV_EXP_WR_UMR_INVALIDATE);
	struct ibv_exp_wc wc;

	if (!key)
		return;
	fill = hw_fill(key, IBV_EXP_UMR_MR_LIST, 1);
	fill.ext_op.umr.mem_list.mem_reg_list = &region;
	end.ext_op.umr.modified_mr = key;
	for (int round = 0; round < 2; round++)
		if (hw_post(q, &fill, 1) || !hw_wait(cq, 1, NULL) || write_by(h, q, key, 0, 64, h->mem + 2048) ||
		    !hw_wait(cq, 2, NULL) || hw_post(q, &end, 1) || !hw_wait(cq, 4, NULL))
			goto end;
	if (write_by(h, q, key, 0, 64, h->mem + 2048))
		goto end;
	for (long looks = 0; looks < 2000000; looks++) {
		int n = ibv_exp_poll_cq(cq, 1, &wc, sizeof(wc));
		if (!n)
			continue;
		if (n != 1 || wc.status == IBV_WC_SUCCESS)
			hw_say(HW_FAIL, "a key that was invalidated is a source: %s",
			       n == 1 ? ibv_wc_status_str(wc.status) : "polling fails");
		goto end;
	}
	hw_say(HW_FAIL, "a WRITE by a key that was invalidated does not complete");
end:
	ibv_dereg_mr(key);
}

/* ---- WAIT ---------------------------------------------------------------------------------------------------------------- */

static void wait_waits(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h), *ticks = hw_cq(h), *other = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, CROSS, 8) : NULL, *tick = q && other ? hw_qp(h, other, ticks, 0, 8) : NULL;

	for (uint64_t i = 1; tick && i < 40; i++) {
		struct ibv_exp_send_wr wr[2] = {hw_wait_for(ticks, 2), hw_wr(i, IBV_EXP_WR_NOP)};
		if (hw_post(q, wr, 2) || (i < 3 && !hw_silent(cq, "it stands behind a WAIT that is not met")) || !hw_tick(tick) ||
		    (i < 3 && !hw_silent(cq, "one of two completions is there")) || !hw_tick(tick) || !hw_wait(cq, i, NULL) ||
		    !hw_wait(ticks, 800, NULL) || !hw_wait(ticks, 800, NULL))
			return;
	}
}

/* Completions that were there before the WAIT was posted, and polled: the WAIT counts all completions that have ever appeared. */
static void wait_late(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h), *ticks = hw_cq(h), *other = hw_cq(h);
	struct ibv_qp *q = cq ? hw_qp(h, cq, cq, CROSS, 8) : NULL, *tick = q && other ? hw_qp(h, other, ticks, 0, 8) : NULL;
	struct ibv_exp_send_wr wr[3] = {hw_wait_for(ticks, 2), hw_wait_for(ticks, 1), hw_wr(1, IBV_EXP_WR_NOP)};

	if (tick && hw_tick(tick) && hw_wait(ticks, 800, NULL) && hw_tick(tick) && hw_wait(ticks, 800, NULL) &&
	    !hw_post(q, wr, 3) && hw_silent(cq, "two of three completions were there") && hw_tick(tick))
		hw_wait(cq, 1, NULL);
}

/* ---- ENABLE -------------------------------------------------------------------------------------------------------------- */

static void enable_sends(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h), *own = hw_cq(h);
	struct ibv_qp *q = cq && own ? hw_qp(h, own, own, CROSS, 8) : NULL, *m = q ? hw_qp(h, cq, cq, MANAGED_SEND, 8) : NULL;

	if (!m)
		return;
	for (int round = 0; round < 3; round++) {
		struct ibv_exp_send_wr wr[4], en = hw_enable(m, SEND_EN, 1), all = hw_enable(m, SEND_EN, 0);
		for (uint64_t i = 0; i < 4; i++)
			wr[i] = hw_wr(i, IBV_EXP_WR_NOP);
		if (hw_post(m, wr, 4) || !hw_silent(cq, "the queue is managed, and nothing was enabled") ||
		    hw_post(q, &en, 1) || !hw_wait(cq, 0, NULL) || !hw_silent(cq, "one request was enabled") ||
		    hw_post(q, &en, 1) || !hw_wait(cq, 1, NULL) || !hw_silent(cq, "two requests were enabled") ||
		    hw_post(q, &all, 1) || !hw_wait(cq, 2, NULL) || !hw_wait(cq, 3, NULL))
			return;
		/* and so again, without and with a RESET between */
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
		if (round == 1) {
			REQUIRE(!ibv_modify_qp(m, &reset, IBV_QP_STATE), "RESET");
			if (!hw_connect(h, m))
				return;
		}
	}
}

static void enable_receives(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h), *own = hw_cq(h);
	struct ibv_qp *q = cq && own ? hw_qp(h, own, own, CROSS, 8) : NULL, *m = q ? hw_qp(h, own, cq, MANAGED_RECV, 8) : NULL;
	struct ibv_exp_send_wr en = m ? hw_enable(m, RECV_EN, 1) : hw_wr(0, IBV_EXP_WR_NOP);
	struct ibv_send_wr send = {.wr_id = 50, .opcode = IBV_WR_SEND}, *bad_send;
	struct ibv_recv_wr *bad_recv;

	if (!m)
		return;
	for (uint64_t i = 0; i < 3; i++) {
		struct ibv_recv_wr recv = {.wr_id = i};
		REQUIRE(!ibv_post_recv(m, &recv, &bad_recv) && !ibv_post_send(m, &send, &bad_send), "post");
	}
	for (uint64_t i = 0; i < 3; i++)
		if (!hw_silent(cq, "the receive was not enabled") || hw_post(q, &en, 1) || !hw_wait(cq, i, NULL))
			return;
}

/*
 * Bypasses the provider, which refuses this: requests of two blocks of 64 bytes on a managed queue, and an ENABLE to 2. Two run
 * if the ENABLE counts requests, one if the ENABLE counts blocks. Then all: to 3 or to 6.
 */
static bool post_bytes(struct ibv_qp *qp, const struct exp_mlx5_place *at, const struct ibv_exp_send_wr *wr)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	uint8_t wqe[EXP_MLX5_WQE_MAX];

	if (exp_mlx5_encode(at, wr, wqe) < 0)
		return false;
	ibv_wr_start(ex);
	ex->wr_id = wr->wr_id;
	mlx5dv_wr_raw_wqe(mlx5dv_qp_ex_from_ibv_qp_ex(ex), wqe);
	return !ibv_wr_complete(ex);
}

static void enable_unit(struct hw *h)
{
	struct ibv_cq *cq = hw_cq(h), *own = hw_cq(h);
	struct ibv_qp *q = cq && own ? hw_qp(h, own, own, CROSS, 8) : NULL, *m = q ? hw_qp(h, cq, cq, MANAGED_SEND, 8) : NULL;
	struct ibv_sge sge[4];
	struct ibv_exp_send_wr en;
	struct ibv_wc wc;
	int ran = 0;

	if (!m)
		return;
	for (int i = 0; i < 4; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)h->mem, .length = 8, .lkey = h->mr->lkey};
	for (uint64_t i = 0; i < 3; i++) {
		struct exp_mlx5_place at = {.qpn = m->qp_num, .type = IBV_QPT_RC};
		struct ibv_exp_send_wr wr = hw_wr(i, IBV_EXP_WR_RDMA_WRITE);
		wr.sg_list = sge;
		wr.num_sge = 4;
		wr.wr.rdma.remote_addr = (uintptr_t)h->mem + 2048;
		wr.wr.rdma.rkey = h->mr->rkey;
		REQUIRE(post_bytes(m, &at, &wr), "posting a request of 96 bytes");
	}
	struct exp_mlx5_place at = {.qpn = q->qp_num, .type = IBV_QPT_RC, .object = m->qp_num, .index = 2};
	en = hw_wr(9, SEND_EN);
	REQUIRE(post_bytes(q, &at, &en), "posting an ENABLE");
	if (!hw_wait(own, 9, NULL) || !hw_wait(cq, 0, NULL))
		return;
	for (long looks = 0; looks < 200000 && !ran; looks++)
		ran = ibv_poll_cq(cq, 1, &wc);
	hw_say(HW_NOTE, "an ENABLE to 2 has let %d requests of two blocks run: it counts %s", 1 + ran,
	       ran ? "requests" : "blocks");
	at.index = ran ? 3 : 6;
	REQUIRE(post_bytes(q, &at, &en), "posting an ENABLE");
	for (uint64_t i = ran ? 2 : 1; i < 3; i++)
		if (!hw_wait(cq, i, NULL))
			return;
}

/* ---- together -------------------------------------------------------------------------------------------------------------- */

/* A chain of queues in one list: each sends when the one before has sent; the owner only polls the end. */
#define HOPS 6
static void list(struct hw *h)
{
	struct ibv_cq *arrived[HOPS + 1], *own = hw_cq(h);
	struct ibv_qp *hop[HOPS], *master = own ? hw_qp(h, own, own, CROSS, 8) : NULL;
	struct ibv_exp_send_wr program[2 * HOPS], send[HOPS];
	struct ibv_recv_wr recv[HOPS];
	struct ibv_exp_task task[2 * HOPS + 1], *bad;
	int n = 0;

	if (!master)
		return;
	for (int i = 0; i < HOPS; i++) {
		arrived[i] = hw_cq(h);
		hop[i] = arrived[i] ? hw_qp(h, own, arrived[i], MANAGED_SEND, 8) : NULL;
		if (!hop[i])
			return;
	}
	for (int i = 0; i < HOPS; i++) {
		program[2 * i] = hw_enable(hop[i], SEND_EN, 1);
		program[2 * i + 1] = hw_wait_for(arrived[i], 1);
		send[i] = (struct ibv_exp_send_wr){.wr_id = 3, .exp_opcode = IBV_EXP_WR_SEND};
		recv[i] = (struct ibv_recv_wr){.wr_id = 100 + (uint64_t)i};
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = hop[i], .send_wr = &send[i]}};
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV, .item = {.qp = hop[i], .recv_wr = &recv[i]}};
	}
	for (int i = 0; i < 2 * HOPS; i++)
		program[i].next = i + 1 < 2 * HOPS ? &program[i + 1] : NULL;
	program[2 * HOPS - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = master, .send_wr = program}};
	for (int i = 0; i < n; i++)
		task[i].next = i + 1 < n ? &task[i + 1] : NULL;
	for (int round = 0; round < 20; round++) {
		int err = ibv_exp_post_task(h->ctx, task, &bad);
		REQUIRE(!err, "ibv_exp_post_task, round %d: %s", round, strerror(err));
		if (!hw_wait(own, 900, NULL))
			return;
		for (int i = 0; i < HOPS; i++)
			if (!hw_wait(arrived[i], 100 + (uint64_t)i, NULL))
				return;
		/* libmlx5 learns that these are done from a completion behind them: the lists of each round are short enough */
	}
}

static void calc(struct hw *h)
{
	struct ibv_cq *cq;
	struct ibv_qp *q;
	uint64_t *e = (uint64_t *)(h->mem + 2048);
	static const struct {
		enum ibv_exp_calc_op op;
		uint64_t want;
	} ops[] = {{IBV_EXP_CALC_OP_ADD, 0x1f6}, {IBV_EXP_CALC_OP_BAND, 0xf2 & 0x104}, {IBV_EXP_CALC_OP_BOR, 0xf2 | 0x104},
		   {IBV_EXP_CALC_OP_BXOR, 0xf2 ^ 0x104}};

	if (!h->calc) {
		hw_say(HW_SKIP, "--calc tries it");
		return;
	}
	cq = hw_cq(h);
	q = cq ? hw_qp(h, cq, cq, CROSS, 8) : NULL;
	for (size_t i = 0; q && i < sizeof(ops) / sizeof(ops[0]); i++) {
		struct ibv_sge sge = {.addr = (uintptr_t)e, .length = 32, .lkey = h->mr->lkey};
		struct ibv_exp_send_wr wr = hw_wr(i, IBV_EXP_WR_RDMA_WRITE);
		memset(e, 0, 128);
		e[0] = htobe64(0xf2);
		e[2] = htobe64(0x104);
		wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.rdma.remote_addr = (uintptr_t)(e + 8);
		wr.wr.rdma.rkey = h->mr->rkey;
		wr.op.calc.calc_op = ops[i].op;
		wr.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_UINT;
		if (hw_post(q, &wr, 1) || !hw_wait(cq, i, NULL))
			return;
		REQUIRE(be64toh(e[8]) == ops[i].want && !e[10], "operation %d of 0xf2 and 0x104 is %#lx, not %#lx%s", ops[i].op,
			(unsigned long)be64toh(e[8]), (unsigned long)ops[i].want,
			e[10] ? ", and more than 16 bytes were written" : "");
	}
}

const struct hw_check hw_checks[] = {
	{"firmware", "QUERY_HCA_CAP tells what the adapter has, and what it has can be made", 0, firmware},
	{"raw", "a raw NOP completes", 0, raw},
	{"masked", "masked atomics of every size: memory, and the order of results", 0, masked},
	{"umr-list", "a memory key of regions as source and target", IBV_EXP_DEVICE_UMR, umr_list},
	{"umr-blocks", "a memory key of strided blocks as source and target", IBV_EXP_DEVICE_UMR, umr_blocks},
	{"umr-end", "a memory key that was invalidated refuses, and can be filled anew", IBV_EXP_DEVICE_UMR, umr_end},
	{"wait", "a WAIT holds what stands behind it, until as many completions are there", IBV_EXP_DEVICE_CROSS_CHANNEL,
	 wait_waits},
	{"wait-late", "a WAIT counts completions from before it was posted", IBV_EXP_DEVICE_CROSS_CHANNEL, wait_late},
	{"enable", "a SEND_ENABLE lets as many requests run; from 0 again after RESET", IBV_EXP_DEVICE_CROSS_CHANNEL,
	 enable_sends},
	{"enable-recv", "a RECV_ENABLE lets as many receives be taken", IBV_EXP_DEVICE_CROSS_CHANNEL, enable_receives},
	{"enable-unit", "whether a SEND_ENABLE counts requests or blocks of 64 bytes", IBV_EXP_DEVICE_CROSS_CHANNEL,
	 enable_unit},
	{"list", "a list of tasks runs through six queues by itself", IBV_EXP_DEVICE_CROSS_CHANNEL, list},
	{"calc", "CALC: sum, and, or, exclusive or", IBV_EXP_DEVICE_CROSS_CHANNEL, calc},
	{NULL, NULL, 0, NULL},
};
