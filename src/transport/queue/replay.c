/* SPDX-License-Identifier: BSD-3-Clause */
/* The replay log of a send queue: the contents of requests, so that they can be posted again (sq.h). */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

/* Distance of two slots' inline data. One line more than replay_max: else the slots' first lines, which are all that short
 * messages use, would share one set of the first-level cache. */
static size_t replay_bytes(const struct hdl_sq *sq)
{
	return sq->replay_max + HDL_LINE;
}

/* One zeroed allocation for records and inline data: the kernel provides the pages when slots are first used. */
int hdl_replay_open(struct hdl_sq *sq)
{
	sq->replay_max = sq->kind->reset ? HDL_REPLAY_INLINE : HDL_REPLAY_COPIED;
	sq->replay_mem = calloc(1, HDL_LINE + sq->depth * (sizeof(*sq->replay) + replay_bytes(sq)));
	if (!sq->replay_mem)
		return -ENOMEM;
	sq->replay = (struct hdl_replay *)align_up((uintptr_t)sq->replay_mem, HDL_LINE);
	sq->replay_data = (char *)(sq->replay + sq->depth);
	return 0;
}

void hdl_replay_close(struct hdl_sq *sq)
{
	for (uint32_t i = 0; sq->replay && i < sq->depth; i++)
		free(sq->replay[i].heap);
	free(sq->replay_mem);
	sq->replay_mem = NULL;
	sq->replay = NULL;
	sq->replay_data = NULL;
}

void hdl_replay_request(const struct hdl_sq *sq, const struct hdl_replay *a, struct ibv_send_wr *wr, struct ibv_sge *sge,
			char *data)
{
	*wr = (struct ibv_send_wr){ .opcode = a->opcode, .imm_data = a->imm, .sg_list = sge, .num_sge = a->num_sge,
				    .send_flags = a->flags & IBV_SEND_INLINE };
	if (hdl_replay_is_atomic(a)) {
		wr->wr.atomic.remote_addr = a->addr;
		wr->wr.atomic.compare_add = a->operand[0];
		wr->wr.atomic.swap = a->operand[1];
		wr->wr.atomic.rkey = a->rkey;
	} else {
		wr->wr.rdma.remote_addr = a->addr;
		wr->wr.rdma.rkey = a->rkey;
	}
	if (a->flags & IBV_SEND_INLINE) {
		const char *p = a->len <= HDL_REPLAY_COPIED ? memcpy(data, a->data, a->len) : a->data;
		sge[0] = (struct ibv_sge){ .addr = (uintptr_t)p, .length = a->len };
		wr->num_sge = a->len != 0;
	} else {
		memcpy(sge, a->sge, sizeof(a->sge));
	}
}

bool hdl_replay_is_complete(const struct hdl_sq *sq)
{
	return sq->replay_tail == sq->replay_head ||
	       (sq->recorded_to == sq->replay_head && sq->replay_tail - sq->recorded_from < sq->recorded_to - sq->recorded_from);
}

/* Memory for a slot's inline data. NULL: there is none, which is an error only if the request has to be replayed. */
static char *inline_memory(struct hdl_sq *sq, uint32_t slot, uint32_t len, char **heap)
{
	if (len <= sizeof(sq->replay->inline_data))
		return sq->replay[slot].inline_data;
	if (len <= sq->replay_max)
		return sq->replay_data + slot * replay_bytes(sq);
	return *heap = malloc(len);
}

__attribute__((noinline)) void hdl_replay_record_now(struct hdl_sq *sq, const struct ibv_send_wr *wr, uint64_t lines)
{
	uint32_t i = sq->head - 1, slot = i & sq->mask;
	struct hdl_replay *a = &sq->replay[slot];
	char *was = a->heap;	/* the request being replayed may be copied from here: freed at the end */

	if (sq->recorded_to != i)
		sq->recorded_from = i;
	else if (i - sq->recorded_from >= sq->depth)
		sq->recorded_from = i + 1 - sq->depth;	/* the run may never end, and numbers wrap: only the newest `depth`
							 * requests count */
	sq->recorded_to = i + 1;
	a->opcode = (uint8_t)wr->opcode;
	a->flags = (uint8_t)wr->send_flags;
	a->num_sge = (uint8_t)wr->num_sge;
	a->end = lines;
	a->over = false;
	a->imm = wr->imm_data;
	a->addr = wr->wr.rdma.remote_addr;
	a->rkey = wr->wr.rdma.rkey;
	a->len = 0;
	a->data = a->heap = NULL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		for (int n = 0; n < wr->num_sge; n++)
			a->len += wr->sg_list[n].length;
		char *to = a->data = inline_memory(sq, slot, a->len, &a->heap);
		for (int n = 0; to && n < wr->num_sge; n++)
			to = mempcpy(to, (const char *)(uintptr_t)wr->sg_list[n].addr, wr->sg_list[n].length);
	} else if (wr->num_sge) {
		memcpy(a->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(a->sge[0]));
		if (hdl_replay_is_atomic(a)) {
			a->operand[0] = wr->wr.atomic.compare_add;
			a->operand[1] = wr->wr.atomic.swap;
			a->rkey = wr->wr.atomic.rkey;
		}
	}
	free(was);
}
