/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An allreduce (sum of one int64 per rank) up a binary tree and down again, as one task list per rank. Rank r's parent is
 * (r - 1) / 2, its children are 2r + 1 and 2r + 2; the root is its own parent. A rank posts its list, and then polls for the
 * completion of the receive of the result; the device computes and forwards the partial sums.
 *
 *     up        [WAIT from_children]  partial sum to the parent
 *     down[c]    WAIT result          the result to child c
 *
 * In two forms:
 *
 *  -m calc     SENDs with CALC (manual, D): the gather list names this rank's number and the elements received from its children.
 *              The device reads the list when the request runs, after the WAIT. The payload, one element, is an operand of the
 *              parent's SEND.
 *  -m atomics  Masked fetch-and-adds whose operands the device reads from memory when they run (an extension of the software
 *              HCA): this rank's number, and after the WAIT the sum of its children, are added to the parent's sum.
 *
 * Reuse of the buffers is safe because a rank posts round i + 1 only when it has the result of round i:
 *  1. A message of round i + 1 comes from a rank that has the result of round i. That result contains this rank's part of i, so the
 *     device has read this rank's operands of i.
 *  2. This rank may not have posted its list of i + 1 yet. Therefore receives are posted one round ahead, and two sums alternate;
 *     the next sum is zero before a rank posts this round's list.
 *
 *     exp_allreduce [-n ranks] [-r rounds] [-m calc|atomics] [-s]
 */
#include <endian.h>

#include "exp_ranks.h"

enum { CHILDREN = 2 };
enum { UP = 0, DOWN = 1, RESULT = 3, FROM = 4 };	/* indices of this rank's ends: to the parent, to children; from the parent, from children */

/* An operand of CALC: a value in network order, then 8 bytes that the device ignores. */
struct element {
	uint64_t value, ignored;
};
/* Operands of a masked fetch-and-add, in the device's order. */
struct addend {
	uint64_t value, field_boundary;
};

static struct memory {
	_Alignas(64) struct element operand[1 + CHILDREN];	/* mine, then the children's */
	struct addend mine, sum[2];				/* sum: of the children, alternating by round */
	uint64_t total[2];					/* at the root: the sum of all ranks */
	uint64_t before[2];					/* old values that the fetch-and-adds return: unused */
	struct element result;
} *memory;
static struct ibv_mr *mr;
static bool by_atomics;
static int children, parent, as_child;				/* as_child: index of this rank among its parent's children */
static struct ibv_qp *up, *down[CHILDREN], *from_parent, *from_child[CHILDREN];
static struct ibv_cq *done, *sent, *from_children;

static struct ibv_sge at(const void *p, size_t bytes)
{
	return (struct ibv_sge){.addr = (uintptr_t)p, .length = (uint32_t)bytes, .lkey = mr->lkey};
}

/* The receive buffer of child c's part. By atomics the message is empty, and the sum is complete when the message arrives. */
static struct ibv_sge part_of(int c)
{
	return at(&memory->operand[1 + c], by_atomics ? 0 : sizeof(struct element));
}

static void set_up(void)
{
	const uint32_t cross = IBV_EXP_QP_CREATE_CROSS_CHANNEL;

	children = 2 * me + 2 < ranks ? 2 : 2 * me + 1 < ranks ? 1 : 0;
	parent = me ? (me - 1) / 2 : 0;
	as_child = me ? (me - 1) % 2 : 0;
	open_device(IBV_EXP_DEVICE_CROSS_CHANNEL | (by_atomics ? IBV_EXP_DEVICE_EXT_ATOMICS : 0));
	memory = aligned_alloc(4096, 4096);
	if (!memory)
		die("memory");
	memset(memory, 0, sizeof(*memory));
	mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr)
		die("a memory region");
	done = new_cq(8);
	sent = new_cq(32);
	from_children = new_cq(16);
	up = new_qp(cross, sent, sent);
	from_parent = new_qp(0, sent, done);
	offer(UP, up, NULL);
	offer(RESULT, from_parent, NULL);
	post_receive(from_parent, (struct ibv_sge[]){at(&memory->result, sizeof(memory->result))});
	for (int c = 0; c < children; c++) {
		down[c] = new_qp(cross, sent, sent);
		from_child[c] = new_qp(0, sent, from_children);
		offer(DOWN + c, down[c], NULL);
		offer(FROM + c, from_child[c], mr);
		post_receive(from_child[c], (struct ibv_sge[]){part_of(c)});
	}
	meet();
	/* the root's `up` sends the result to the root itself */
	connect_qp(up, &board->end[parent][me ? FROM + as_child : RESULT]);
	connect_qp(from_parent, &board->end[parent][me ? DOWN + as_child : UP]);
	for (int c = 0; c < children; c++) {
		connect_qp(down[c], &board->end[2 * me + 1 + c][RESULT]);
		connect_qp(from_child[c], &board->end[2 * me + 1 + c][UP]);
	}
	meet();
}

/* Whether the device supports the chosen form; all ranks use one device, so all get the same answer. */
static bool supported(void)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_CALC_CAP | SHCA_EXP_DEVICE_ATTR_EXTENSIONS};

	if (ibv_exp_query_device(ctx, &attr))
		die("ibv_exp_query_device");
	if (by_atomics)
		return attr.comp_mask & SHCA_EXP_DEVICE_ATTR_EXTENSIONS && attr.shca_extensions & SHCA_EXP_EXTENSION_ATOMIC_GATHER;
	return attr.comp_mask & IBV_EXP_DEVICE_ATTR_CALC_CAP && attr.calc_cap.int_ops & 1u << IBV_EXP_CALC_OP_ADD;
}

/* ---- the two ways up ------------------------------------------------------------------------------------------------- */

/* Builds a SEND whose payload is the sum of the elements of its gather list. */
static struct ibv_exp_send_wr send_sum(struct ibv_sge *elements)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_SEND, .sg_list = elements, .num_sge = 1,
				     .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC};

	wr.op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
	wr.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_INT;
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	return wr;
}

static int up_by_calc(struct ibv_exp_send_wr *wr, struct ibv_sge *sge)
{
	int n = 0;

	/* this rank's element and the children's are adjacent */
	sge[0] = at(memory->operand, (size_t)(1 + children) * sizeof(struct element));
	if (children)
		wr[n++] = wait_for(from_children, children, NULL);
	wr[n++] = send_sum(&sge[0]);
	return n;
}

/* sge[0]: buffer for the old value; sge[1]: both operands. */
static struct ibv_exp_send_wr add(struct ibv_sge *sge, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = sge, .num_sge = 2};

	wr.ext_op.masked_atomics.log_arg_sz = 3;
	wr.ext_op.masked_atomics.remote_addr = remote_addr;
	wr.ext_op.masked_atomics.rkey = rkey;
	return wr;
}

static int up_by_atomics(uint32_t round, struct ibv_exp_send_wr *wr, struct ibv_sge *sge)
{
	const struct end *to = &board->end[parent][FROM + as_child];
	uint64_t there = me ? to->addr + offsetof(struct memory, sum[round & 1]) : (uintptr_t)&memory->total[round & 1];
	uint32_t rkey = me ? to->rkey : mr->rkey;
	int n = 0;

	for (int i = 0; i < 2; i++)
		sge[2 * i] = at(&memory->before[i], 8);
	sge[1] = at(&memory->mine, sizeof(struct addend));
	sge[3] = at(&memory->sum[round & 1], sizeof(struct addend));
	wr[n++] = add(&sge[0], there, rkey);
	if (children) {
		wr[n++] = wait_for(from_children, children, NULL);
		wr[n++] = add(&sge[2], there, rkey);
	}
	/* The empty SEND notifies the parent. The root sends itself the result; the fence orders the SEND after the additions. */
	sge[4] = at(&memory->total[round & 1], 8);
	wr[n++] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_FENCE,
					   .sg_list = &sge[4], .num_sge = me ? 0 : 1};
	return n;
}

/* ---- a round --------------------------------------------------------------------------------------------------------- */

static void post_allreduce(uint32_t round)
{
	struct ibv_exp_send_wr upwards[4], downwards[CHILDREN][2];
	struct ibv_recv_wr receive[1 + CHILDREN] = {0};
	struct ibv_sge sge[5], into[1 + CHILDREN], result = at(&memory->result, sizeof(memory->result));
	struct ibv_exp_task task[2 + 3 * CHILDREN];
	int n = 0, m = by_atomics ? up_by_atomics(round, upwards, sge) : up_by_calc(upwards, sge);

	for (int i = 0; i + 1 < m; i++)
		upwards[i].next = &upwards[i + 1];
	task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = up, .send_wr = upwards}};
	for (int c = 0; c < children; c++) {
		downwards[c][0] = wait_for(done, 1, &downwards[c][1]);
		/* all children wait for the same completion: only the last of them moves the base */
		if (c + 1 < children)
			downwards[c][0].exp_send_flags &= ~IBV_EXP_SEND_WAIT_EN_LAST;
		downwards[c][1] = (struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
							   .sg_list = &result, .num_sge = 1};
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_SEND, .item = {.qp = down[c], .send_wr = downwards[c]}};
	}
	/* the next round's receives */
	for (int i = 0; i < 1 + children; i++) {
		into[i] = i ? part_of(i - 1) : result;
		receive[i] = (struct ibv_recv_wr){.sg_list = &into[i], .num_sge = 1};
		task[n++] = (struct ibv_exp_task){.task_type = IBV_EXP_TASK_RECV,
						  .item = {.qp = i ? from_child[i - 1] : from_parent, .recv_wr = &receive[i]}};
	}
	post_list(task, n);
}

/* A rank's operand in a round: large, of either sign. */
static int64_t number(int rank, uint32_t round)
{
	return (int64_t)((uint64_t)(rank + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)round * 0xc2b2ae3d27d4eb4full) >> 8;
}

static void one_allreduce(uint32_t round)
{
	int64_t wanted = 0, got;

	memory->operand[0].value = htobe64((uint64_t)number(me, round));
	memory->mine.value = (uint64_t)number(me, round);
	memory->sum[(round + 1) & 1].value = memory->total[(round + 1) & 1] = 0;
	before_posting(round);
	post_allreduce(round);
	behind_posting(round, done);
	poll_for_the_end(round, done);
	got = (int64_t)(by_atomics ? memory->result.value : be64toh(memory->result.value));
	for (int r = 0; r < ranks; r++)
		wanted += number(r, round);
	if (got != wanted)
		die("round %u: the sum is %lld, not %lld", round, (long long)got, (long long)wanted);
	/* slots for the next lists */
	poll_for(sent, 1 + children);
	poll_for(from_children, children);
}

int main(int argc, char **argv)
{
	const char *way = "calc";
	int c;

	while ((c = getopt(argc, argv, "n:r:m:s")) != -1) {
		switch (c) {
		case 'n': ranks = atoi(optarg); break;
		case 'r': rounds = atoi(optarg); break;
		case 'm': way = optarg; break;
		case 's': stopping = true; break;
		default: ranks = 0; break;
		}
	}
	by_atomics = !strcmp(way, "atomics");
	if (ranks < 2 || ranks > MAX_RANKS || rounds < 1 || optind < argc || (!by_atomics && strcmp(way, "calc"))) {
		fprintf(stderr, "usage: exp_allreduce [-n ranks, 2 to %d] [-r rounds] [-m calc|atomics] [-s: all ranks but one stop]\n",
			MAX_RANKS);
		return 2;
	}
	start_ranks();
	set_up();
	if (!supported())
		die("the device has no %s", by_atomics ? "atomics with operands in memory" : "CALC");
	for (uint32_t round = 0; round < (uint32_t)rounds; round++)
		one_allreduce(round);
	meet();
	if (!me)
		printf("%d sums of %d ranks by %s%s\n", rounds, ranks, way, stopping ? ", all but one of which were stopped" : "");
	return 0;
}
