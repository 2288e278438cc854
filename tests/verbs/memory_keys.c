/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indirect memory keys: the order of configuration, use and invalidation by requests of the owner; refusals and limits.
 * Layouts: memory_keys_layouts.c; invalidation by messages, and deaths: memory_keys_remote.c.
 */
#include "memory_keys.h"

/* ---- order --------------------------------------------------------------------------------------------------------------- */

/* Configuration, use, configuration and use in one list; and the same behind a SEND that waits for its receive. */
static void in_order(bool waits)
{
	struct pair p = pair();
	struct mlx5dv_mkey *k = key(4);
	struct ibv_sge first[2] = {vt_sge(mem[0].mr, 0, 16), vt_sge(mem[0].mr, 100, 16)},
		       second[1] = {vt_sge(mem[1].mr, 500, 32)};
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p.owner);
	struct mlx5dv_qp_ex *dv;

	fill();
	if (waits)
		CHECK(!vt_send(p.owner, 80, vt_sge(mem[0].mr, 0, 1), IBV_SEND_SIGNALED), "send");
	dv = begin(p.owner, 81, INL);
	mlx5dv_wr_mr_list(dv, k, RIGHTS, 2, first);
	ex->wr_id = 82;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, mem[2].mr->rkey, (uintptr_t)mem[2].mr->addr);
	ibv_wr_set_sge(ex, k->lkey, 0, 32);
	ex->wr_id = 83;
	ibv_wr_local_inv(ex, k->rkey);
	ex->wr_id = 84;
	ex->wr_flags = INL;
	mlx5dv_wr_mr_list(dv, k, RIGHTS, 1, second);
	ex->wr_id = 85;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, mem[2].mr->rkey, (uintptr_t)mem[2].mr->addr + 64);
	ibv_wr_set_sge(ex, k->lkey, 0, 32);
	/* configured anew without an invalidation */
	ex->wr_id = 86;
	ex->wr_flags = INL;
	mlx5dv_wr_mr_list(dv, k, RIGHTS, 2, first);
	CHECK(!ibv_wr_complete(ex), "list");
	/* the entries were read when the list was posted */
	memset(first, 0, sizeof first);
	memset(second, 0, sizeof second);
	if (waits) {
		vt_none(cq);
		CHECK(!vt_recv(p.peer, 79, vt_sge(mem[3].mr, 0, 8)), "recv");
		for (int i = 0; i < 2; i++)
			CHECK(vt_wait(cq).wr_id <= 80, "the SEND");
	}
	for (uint64_t id = 81; id <= 86; id++)
		vt_expect(cq, id, IBV_WC_SUCCESS);
	CHECK(!memcmp(mem[2].p, mem[0].p, 16) && !memcmp(mem[2].p + 16, mem[0].p + 100, 16) &&
		      !memcmp(mem[2].p + 64, mem[1].p + 500, 32),
	      "the data");
	end_key(k);
	drop(p);
}

static void configure(void)
{
	struct pair p = pair();
	struct mlx5dv_mkey *k = key(4);
	struct mlx5dv_mkey_conf_attr attr = {.conf_flags = 0};
	struct mlx5dv_mkey_err err;
	struct ibv_sge sge = vt_sge(mem[0].mr, 10, 100);
	struct mlx5dv_mr_interleaved d = {.addr = (uintptr_t)mem[0].mr->addr, .bytes_count = 4, .bytes_skip = 4,
					  .lkey = mem[0].mr->lkey};

	struct mlx5dv_qp_ex *dv = begin(p.owner, 91, INL);
	mlx5dv_wr_mkey_configure(dv, k, 2, &attr);
	mlx5dv_wr_set_mkey_access_flags(dv, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	mlx5dv_wr_set_mkey_layout_list(dv, 1, &sge);
	CHECK(!finish(p.owner), "configure");
	umr_done(91);
	CHECK(!mlx5dv_mkey_check(k, &err) && err.err_type == MLX5DV_MKEY_NO_ERR, "mkey_check");
	fill();
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_READ, 92, vt_sge(mem[2].mr, 0, 100), 0, k->rkey), "read");
	vt_expect(cq, 92, IBV_WC_SUCCESS);
	CHECK(!memcmp(mem[2].p, mem[0].p + 10, 100), "layout");
	/* the layout alone: the rights stay */
	dv = begin(p.owner, 93, INL);
	mlx5dv_wr_mkey_configure(dv, k, 1, &attr);
	mlx5dv_wr_set_mkey_layout_interleaved(dv, 3, 1, &d);
	CHECK(!finish(p.owner), "configure");
	umr_done(93);
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_READ, 92, vt_sge(mem[2].mr, 0, 12), 0, k->rkey), "read");
	vt_expect(cq, 92, IBV_WC_SUCCESS);
	CHECK(!memcmp(mem[2].p + 8, mem[0].p + 16, 4), "interleaved");
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_WRITE, 94, vt_sge(mem[2].mr, 0, 4), 0, k->rkey), "write");
	vt_expect(cq, 94, IBV_WC_REM_ACCESS_ERR);
	drop(p);
	/* the rights alone: the layout stays */
	p = pair();
	dv = begin(p.owner, 95, INL);
	mlx5dv_wr_mkey_configure(dv, k, 1, &attr);
	mlx5dv_wr_set_mkey_access_flags(dv, RIGHTS);
	CHECK(!finish(p.owner), "configure");
	umr_done(95);
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_WRITE, 96, vt_sge(mem[2].mr, 0, 12), 0, k->rkey), "write");
	vt_expect(cq, 96, IBV_WC_SUCCESS);
	end_key(k);
	/* refused as a whole: setters that are missing, or were not announced at creation; without IBV_SEND_INLINE; layouts
	 * that the device lacks */
	k = key(2);
	dv = begin(p.owner, 97, INL);
	mlx5dv_wr_mkey_configure(dv, k, 2, &attr);
	mlx5dv_wr_set_mkey_access_flags(dv, RIGHTS);
	CHECK(finish(p.owner) == EINVAL, "a setter is missing");
	mlx5dv_wr_set_mkey_layout_list(begin(p.owner, 97, INL), 1, &sge);
	CHECK(finish(p.owner) == EINVAL, "a setter of nothing");
	mlx5dv_wr_mr_list(begin(p.owner, 97, IBV_SEND_SIGNALED), k, RIGHTS, 1, &sge);
	CHECK(finish(p.owner) == EOPNOTSUPP, "without IBV_SEND_INLINE");
	attr.conf_flags = 1u << 7;
	mlx5dv_wr_mkey_configure(begin(p.owner, 97, INL), k, 1, &attr);
	CHECK(finish(p.owner) == EOPNOTSUPP, "flags");
	mlx5dv_wr_mr_list(begin(p.owner, 97, INL), k, RIGHTS, 1, &sge);
	ibv_wr_abort(ibv_qp_to_qp_ex(p.owner));
	vt_none(cq);
	end_key(k);
	drop(p);
}

/* ---- refusals -------------------------------------------------------------------------------------------------------------- */

static void refusals(void)
{
	struct pair p = pair();
	struct mlx5dv_mkey *k = key(3);
	char *own = calloc(1, LEN);
	struct ibv_mr *mr = vt_mr(&t, own, LEN, RIGHTS);
	struct ibv_sge sge[3] = {vt_sge(mr, 0, 100), vt_sge(mem[0].mr, 0, 100), vt_sge(mem[1].mr, 0, 100)};

	used(k, 0, 8, REFUSED, "not configured");
	list(p.owner, k, RIGHTS, 3, sge);
	used(k, 0, 300, GRANTED, "configured");
	used(k, 299, 2, REFUSED, "beyond the end");
	used(k, 1ull << 62, 2, REFUSED, "an address that no key has");
	used(k, 0, 0, GRANTED, "no bytes");
	CHECK(!ibv_dereg_mr(mr), "dereg");
	used(k, 0, 300, REFUSED, "a region is gone");
	used(k, 100, 200, GRANTED, "the others are there");
	invalidated(p.owner, k);
	used(k, 100, 200, REFUSED, "invalidated");
	/* a key that is not configured cannot be invalidated */
	begin(p.owner, 4, 0);
	ibv_wr_local_inv(ibv_qp_to_qp_ex(p.owner), k->rkey);
	CHECK(!finish(p.owner) && vt_wait(cq).status == IBV_WC_MW_BIND_ERR, "invalidated twice");
	drop(p);
	p = pair();
	list(p.owner, k, IBV_ACCESS_LOCAL_WRITE, 1, &sge[1]);
	used(k, 0, 8, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS, "no right for peers");
	list(p.owner, k, 0, 1, &sge[1]);
	CHECK(!vt_recv(p.owner, 5, at_key(k, 0, 50)) && !vt_send(p.peer, 6, vt_sge(mem[3].mr, 0, 8), IBV_SEND_SIGNALED), "send");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == (wc.wr_id == 5 ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR), "%lu: %s", (unsigned long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	}
	drop(p);
	/* memory that may not be written */
	p = pair();
	mr = vt_mr(&t, own, LEN, 0);
	sge[0] = vt_sge(mr, 0, 100);
	list(p.owner, k, RIGHTS, 1, sge);
	used(k, 0, 8, IBV_WC_REM_ACCESS_ERR, IBV_WC_SUCCESS, "a region that may be read only");
	CHECK(!ibv_dereg_mr(mr), "dereg");
	/* domains: of the queue, of the key, of a region */
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct mlx5dv_mkey *other = key_of(pd, 1);
	CHECK(pd && ibv_dealloc_pd(pd) == EBUSY, "a domain with a key");
	struct ibv_mr *theirs = ibv_reg_mr(pd, own, LEN, RIGHTS);
	sge[0] = vt_sge(theirs, 0, 100);
	list(p.owner, k, RIGHTS, 1, sge);
	used(k, 0, 8, REFUSED, "a region of another domain");
	/* (by a queue of its own domain) */
	struct ibv_qp *of_other = queue_of(IBV_QPT_RC, pd, UMR_OPS);
	vt_connect(of_other, of_other->qp_num);
	list(of_other, other, RIGHTS, 1, sge);
	CHECK(!vt_rdma(of_other, IBV_WR_RDMA_WRITE, 15, at_key(other, 0, 8), (uintptr_t)own + 200, theirs->rkey), "write");
	vt_expect(cq, 15, IBV_WC_SUCCESS);
	sge[0] = at_key(other, 0, 8);
	list(p.owner, k, RIGHTS, 1, sge);
	used(k, 0, 8, REFUSED, "a key of another domain");
	used(other, 0, 8, REFUSED, "the queue is of another domain");
	struct pair to_other = pair();
	CHECK(!vt_recv(to_other.peer, 16, at_key(other, 0, 8)) &&
		      !vt_send(to_other.owner, 17, vt_sge(mem[0].mr, 0, 8), IBV_SEND_SIGNALED),
	      "send");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == (wc.wr_id == 16 ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR),
		      "a receive by a key of another domain: %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	drop(to_other);
	CHECK(!ibv_destroy_qp(of_other), "destroy");
	mlx5dv_wr_mr_list(begin(p.owner, 7, INL), other, RIGHTS, 1, &sge[1]);
	CHECK(!finish(p.owner) && vt_wait(cq).status == IBV_WC_MW_BIND_ERR, "configured by a queue of another domain");
	drop(p);
	CHECK(!ibv_dereg_mr(theirs), "dereg");
	end_key(other);
	CHECK(!ibv_dealloc_pd(pd), "dealloc_pd");
	/* a key that is destroyed, while a request that configures it waits */
	p = pair();
	CHECK(!vt_send(p.owner, 8, vt_sge(mem[0].mr, 0, 1), 0), "send");
	mlx5dv_wr_mr_list(begin(p.owner, 9, INL), k, RIGHTS, 1, &sge[1]);
	CHECK(!finish(p.owner), "list");
	end_key(k);
	CHECK(!vt_recv(p.peer, 10, vt_sge(mem[3].mr, 0, 8)), "recv");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == (wc.wr_id == 9 ? IBV_WC_MW_BIND_ERR : IBV_WC_SUCCESS), "%lu: %s", (unsigned long)wc.wr_id,
		      ibv_wc_status_str(wc.status));
	}
	drop(p);
	free(own);
}

static void post_refused(struct ibv_qp *qp, struct mlx5dv_mkey *k, unsigned access, uint32_t repeat, uint16_t n,
			 struct mlx5dv_mr_interleaved *d, const char *why)
{
	mlx5dv_wr_mr_interleaved(begin(qp, 11, INL), k, access, repeat, n, d);
	CHECK(finish(qp) == EINVAL, "%s", why);
}

static void limits(void)
{
	struct pair p = pair();
	struct mlx5dv_mkey *k[6];
	struct mlx5dv_mr_interleaved d[3];
	struct mlx5dv_mkey_init_attr bad = {.pd = t.pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT};

	CHECK(!mlx5dv_create_mkey(&bad) && errno == EINVAL, "no entries");
	bad.max_entries = 1;
	bad.create_flags |= MLX5DV_MKEY_INIT_ATTR_FLAGS_BLOCK_SIGNATURE;
	CHECK(!mlx5dv_create_mkey(&bad) && errno == EOPNOTSUPP, "signatures");
	for (int i = 0; i < 3; i++)
		d[i] = (struct mlx5dv_mr_interleaved){.addr = (uintptr_t)mem[0].mr->addr,
						      .bytes_count = 64,
						      .lkey = mem[0].mr->lkey};
	for (int i = 0; i < 6; i++)
		k[i] = key(2);
	post_refused(p.owner, k[0], RIGHTS, 1, 3, d, "more entries than the key has");
	post_refused(p.owner, k[0], RIGHTS, 1, 0, d, "no entries");
	post_refused(p.owner, k[0], RIGHTS, 0, 1, d, "no repetition");
	post_refused(p.owner, k[0], IBV_ACCESS_REMOTE_WRITE, 1, 1, d, "remote write without local write");
	post_refused(p.owner, k[0], IBV_ACCESS_MW_BIND | IBV_ACCESS_LOCAL_WRITE, 1, 1, d, "windows");
	d[1].bytes_count = 0;
	post_refused(p.owner, k[0], RIGHTS, 1, 2, d, "an empty entry");
	/* keys over keys: 4 deep, not 5 */
	interleaved(p.owner, k[0], RIGHTS, 1, 1, d);
	for (int i = 1; i < 6; i++) {
		struct ibv_sge inner = at_key(k[i - 1], 0, 64);
		list(p.owner, k[i], RIGHTS, 1, &inner);
	}
	used(k[3], 0, 64, GRANTED, "4 keys deep");
	used(k[4], 0, 64, REFUSED, "5 keys deep");
	/* a key over itself */
	struct ibv_sge self = at_key(k[5], 0, 64);
	list(p.owner, k[5], RIGHTS, 1, &self);
	used(k[5], 0, 8, REFUSED, "a key over itself");
	/* an inner key that is configured anew: the outer one leads to its new memory */
	d[0].addr += 4096;
	fill();
	interleaved(p.owner, k[0], RIGHTS, 1, 1, d);
	CHECK(write_by(0, 64, k[3]->rkey, p) == IBV_WC_SUCCESS && !memcmp(mem[0].p + 4096, mem[3].p, 64),
	      "the inner key is another");
	invalidated(p.owner, k[0]);
	used(k[3], 0, 64, REFUSED, "the inner key is invalidated");
	for (int i = 0; i < 6; i++)
		end_key(k[i]);
	/* the largest key: single bytes, in a request that is longer than any WQE, run at once and later */
	struct mlx5dv_mkey *large = key(65535);
	struct ibv_sge *bytes = calloc(65535, sizeof *bytes);
	for (int later = 0; later < 2; later++) {
		for (uint32_t i = 0; i < 65535; i++)
			bytes[i] = vt_sge(mem[0].mr, 65535 - i, 1);
		if (later)
			CHECK(!vt_send(p.owner, 12, vt_sge(mem[0].mr, 0, 1), 0), "send");
		mlx5dv_wr_mr_list(begin(p.owner, 13, INL), large, RIGHTS, 65535, bytes);
		CHECK(!finish(p.owner), "65535 entries");
		memset(bytes, 0, 65535 * sizeof *bytes);
		if (later) {
			CHECK(!vt_recv(p.peer, 14, vt_sge(mem[3].mr, 0, 8)), "recv");
			CHECK(vt_wait(cq).wr_id == 14, "the SEND");
		}
		umr_done(13);
		fill();
		CHECK(write_by(0, 65535, large->rkey, p) == IBV_WC_SUCCESS, "65535 bytes backwards");
		for (uint32_t i = 0; i < 65535; i++)
			CHECK(mem[0].p[65535 - i] == mem[3].p[i], "byte %u", i);
	}
	free(bytes);
	end_key(large);
	drop(p);
	/* a queue that was not made for keys has none of the calls; a UD queue cannot be */
	struct ibv_qp_init_attr_ex a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = t.pd,
					.comp_mask = IBV_QP_INIT_ATTR_PD,
						.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
							.max_recv_sge = 1}};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS, .send_ops_flags = UMR_OPS};
	CHECK(!mlx5dv_create_qp(t.ctx, &a, &dv) && errno == EOPNOTSUPP, "UD");
}

int main(void)
{
	keys_fabric();
	keys_open();
	in_order(false);
	in_order(true);
	configure();
	refusals();
	limits();
	keys_close();
	return 0;
}
