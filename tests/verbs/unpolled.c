/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHCA_ACCESS_UNPOLLED: an RDMA WRITE to private memory of such a region wakes no thread that sleeps in shca_await, nor does an
 * atomic; a WRITE_WITH_IMM does, and so do a WRITE to any other region and an atomic on it. The process writes to itself, between
 * shca_await_prepare and shca_await: a sleep that was woken returns at once, another one ends with its time.
 */
#include <errno.h>
#include <shca.h>
#include <string.h>

#include "vt.h"

#define BYTES 4096u

static struct vt t;
static struct ibv_qp *a;
static struct ibv_mr *from;

/* Writes n bytes to the region, or adds 1 to its first word, without a completion of the sender's.
 * Returns shca_await's result. */
static int woken_by(const struct ibv_mr *to, enum ibv_wr_opcode op, uint32_t n)
{
	struct ibv_sge sge = vt_sge(from, 0, n);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = op,
				  .wr.rdma = { .remote_addr = (uintptr_t)to->addr, .rkey = to->rkey } }, *bad;
	uint32_t seen;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)to->addr;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = to->rkey;
	}
	CHECK(!shca_await_prepare(t.ctx, &seen), "the software device can sleep");
	CHECK(!ibv_post_send(a, &wr, &bad), "%u bytes", n);
	return shca_await(t.ctx, seen, 20 * 1000000ull);
}

int main(void)
{
	static const uint32_t sizes[] = { 1, 8, 64, 65, 1000, BYTES };
	static _Alignas(8) char src[BYTES], polled[BYTES], unpolled[BYTES];

	vt_fabric();
	t = vt_open();
	struct ibv_cq *cq = vt_cq(&t, 64, NULL);
	a = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_qp *b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	vt_connect_pair(a, b);
	for (unsigned i = 0; i < BYTES; i++)
		src[i] = (char)(i * 7 + 1);
	from = vt_mr(&t, src, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *plain = vt_mr(&t, polled, BYTES, VT_ACCESS);
	struct ibv_mr *quiet = vt_mr(&t, unpolled, BYTES, VT_ACCESS | (int)SHCA_ACCESS_UNPOLLED);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t n = sizes[i];
		int err = woken_by(plain, IBV_WR_RDMA_WRITE, n);
		CHECK(!err, "%u bytes to a polled region: %d", n, err);
		err = woken_by(quiet, IBV_WR_RDMA_WRITE, n);
		CHECK(err == ETIMEDOUT, "%u bytes to an unpolled region: %d", n, err);
		CHECK(!memcmp(unpolled, src, n), "%u bytes arrived", n);
		struct ibv_sge none = { 0 };
		vt_recv(b, n, none);
		err = woken_by(quiet, IBV_WR_RDMA_WRITE_WITH_IMM, n);
		CHECK(!err, "%u bytes with an immediate: %d", n, err);
		vt_expect(cq, n, IBV_WC_SUCCESS);
	}
	uint64_t word;
	memcpy(&word, unpolled, 8);
	int err = woken_by(plain, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	CHECK(!err, "an atomic on a polled region: %d", err);
	err = woken_by(quiet, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	CHECK(err == ETIMEDOUT, "an atomic on an unpolled region: %d", err);
	CHECK(*(volatile uint64_t *)(void *)unpolled == word + 1, "it was done");
	ibv_dereg_mr(quiet);
	ibv_dereg_mr(plain);
	ibv_dereg_mr(from);
	ibv_destroy_qp(a);
	ibv_destroy_qp(b);
	ibv_destroy_cq(cq);
	vt_close(&t);
	return 0;
}
