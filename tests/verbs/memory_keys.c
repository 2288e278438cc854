/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Indirect memory keys (UMR) by mlx5dv, on the device as a ConnectX: random nested layouts against a model, as source and target
 * of every opcode; the order of configuration, use and invalidation, by requests of the owner and by messages; refusals and
 * limits; the deaths of owner and peer.
 */
#include <infiniband/mlx5dv.h>
#include <signal.h>

#include "vt.h"

#define LEN 65536u
#define RIGHTS VT_ACCESS
#define ALL_OPS                                                                                                                \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_WRITE |       \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV)
#define UMR_OPS (MLX5DV_QP_EX_WITH_MR_LIST | MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MKEY_CONFIGURE)
#define INL (IBV_SEND_SIGNALED | IBV_SEND_INLINE)

static struct vt t;
static struct ibv_cq *cq;
/* 0: arena; 1: private; 2: private, registered twice with another address; 3: arena, for the other side */
enum { MEMORIES = 4 };
static struct memory {
	char *p;
	struct ibv_mr *mr;
} mem[MEMORIES];

static struct ibv_qp *queue_of(enum ibv_qp_type type, struct ibv_pd *pd, uint64_t dv_ops)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type, .pd = pd, .send_ops_flags = type == IBV_QPT_UD
		? IBV_QP_EX_WITH_SEND : ALL_OPS, .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128},
	};
	struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS, .send_ops_flags = dv_ops};
	struct ibv_qp *qp = mlx5dv_create_qp(t.ctx, &a, &dv);

	CHECK(qp, "mlx5dv_create_qp");
	return qp;
}

static struct ibv_qp *queue(void)
{
	return queue_of(IBV_QPT_RC, t.pd, UMR_OPS);
}

/* Two connected queue pairs; `owner` configures the keys. */
struct pair {
	struct ibv_qp *owner, *peer;
};
static struct pair pair(void)
{
	struct pair p = {queue(), queue()};

	vt_connect_pair(p.owner, p.peer);
	return p;
}
static void drop(struct pair p)
{
	CHECK(!ibv_destroy_qp(p.owner) && !ibv_destroy_qp(p.peer), "destroy");
}

static struct mlx5dv_mkey *key_of(struct ibv_pd *pd, uint16_t entries)
{
	struct mlx5dv_mkey_init_attr a = {.pd = pd, .create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT, .max_entries = entries};
	struct mlx5dv_mkey *k = mlx5dv_create_mkey(&a);

	CHECK(k && k->lkey && k->lkey == k->rkey, "mlx5dv_create_mkey");
	return k;
}
static struct mlx5dv_mkey *key(uint16_t entries)
{
	return key_of(t.pd, entries);
}
static void end_key(struct mlx5dv_mkey *k)
{
	int err = mlx5dv_destroy_mkey(k);
	CHECK(!err, "mlx5dv_destroy_mkey: %d", err);
}

static struct mlx5dv_qp_ex *begin(struct ibv_qp *qp, uint64_t id, unsigned flags)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = flags;
	return mlx5dv_qp_ex_from_ibv_qp_ex(ex);
}
static int finish(struct ibv_qp *qp)
{
	return ibv_wr_complete(ibv_qp_to_qp_ex(qp));
}

static void umr_done(uint64_t id)
{
	struct ibv_wc wc = vt_expect(cq, id, IBV_WC_SUCCESS);
	CHECK((int)wc.opcode == MLX5DV_WC_UMR, "opcode %d", wc.opcode);
}

static void list(struct ibv_qp *qp, struct mlx5dv_mkey *k, unsigned access, uint16_t n, struct ibv_sge *sge)
{
	mlx5dv_wr_mr_list(begin(qp, 41, INL), k, access, n, sge);
	CHECK(!finish(qp), "mr_list");
	umr_done(41);
}
static void interleaved(struct ibv_qp *qp, struct mlx5dv_mkey *k, unsigned access, uint32_t repeat, uint16_t n,
			struct mlx5dv_mr_interleaved *d)
{
	mlx5dv_wr_mr_interleaved(begin(qp, 42, INL), k, access, repeat, n, d);
	CHECK(!finish(qp), "mr_interleaved");
	umr_done(42);
}
static void invalidated(struct ibv_qp *qp, struct mlx5dv_mkey *k)
{
	begin(qp, 43, IBV_SEND_SIGNALED);
	ibv_wr_local_inv(ibv_qp_to_qp_ex(qp), k->rkey);
	CHECK(!finish(qp), "local_inv");
	vt_expect(cq, 43, IBV_WC_SUCCESS);
}

static struct ibv_sge at_key(const struct mlx5dv_mkey *k, uint64_t addr, uint32_t n)
{
	return (struct ibv_sge){.addr = addr, .length = n, .lkey = k->lkey};
}

/* ---- random layouts against a model ---------------------------------------------------------------------------------- */

/* A key, and the address of each of its bytes. */
struct model {
	struct mlx5dv_mkey *key;
	uint32_t n;
	char **byte;
};

static uint32_t rnd_state = 12345;
static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 1664525u + 1013904223u;
	return (rnd_state >> 8) % n;
}

/* Picks bytes of a memory, or of an inner key: their addresses for a request, and their places. first: the memories of this
 * side. */
static uint32_t pick(const struct model *inner, uint32_t keys, const int memory[2], uint64_t *addr, uint32_t *lkey, uint32_t want,
		     const struct model **of, char **from)
{
	*of = NULL;
	if (keys && rnd(3) == 0) {
		const struct model *m = &inner[rnd(keys)];
		*addr = rnd(m->n);
		*lkey = m->key->lkey;
		*of = m;
		return want < m->n - *addr ? want : m->n - (uint32_t)*addr;
	}
	const struct memory *m = &mem[memory[rnd(2)]];
	uint32_t at = rnd(LEN - want);
	*from = m->p + at;
	*addr = (uintptr_t)m->mr->addr + at;
	*lkey = m->mr->lkey;
	return want;
}

static void add(struct model *m, const struct model *of, uint64_t addr, char *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		m->byte[m->n++] = of ? of->byte[addr + i] : from + i;
}

/* Makes a key over memories and over the keys inner[0, keys). Each byte of memory may be named several times. */
static void make(struct ibv_qp *qp, struct model *m, const struct model *inner, uint32_t keys, const int memory[2])
{
	uint16_t n = (uint16_t)(1 + rnd(6));
	const struct model *of[8];
	uint64_t addr[8];
	uint32_t lkey[8], len[8], skip[8];
	char *from[8];
	bool strided = rnd(2);
	uint32_t repeat = strided ? 1 + rnd(5) : 1;

	m->byte = malloc(16 * LEN * sizeof *m->byte);
	CHECK(m->byte, "malloc");
	m->n = 0;
	m->key = key(n);
	for (uint32_t i = 0; i < n; i++) {
		len[i] = pick(inner, keys, memory, &addr[i], &lkey[i], 1 + rnd(400), &of[i], &from[i]);
		skip[i] = rnd(60);
		/* all repetitions must lie within the key or the memory */
		while (strided && of[i] && addr[i] + (uint64_t)(repeat - 1) * (len[i] + skip[i]) + len[i] > of[i]->n) {
			addr[i] = 0;
			skip[i] = 0;
			if (len[i] > of[i]->n / repeat)
				len[i] = of[i]->n / repeat;
			if (!len[i]) {
				of[i] = NULL;
				len[i] = 1;
				from[i] = mem[memory[0]].p;
				addr[i] = (uintptr_t)mem[memory[0]].mr->addr;
				lkey[i] = mem[memory[0]].mr->lkey;
			}
		}
		if (strided && !of[i]) {
			uint64_t need = (uint64_t)repeat * (len[i] + skip[i]);
			struct memory *in = NULL;
			for (int j = 0; j < 2; j++)
				if (mem[memory[j]].mr->lkey == lkey[i])
					in = &mem[memory[j]];
			CHECK(in, "memory");
			uint64_t over = (uint64_t)(from[i] - in->p) + need;
			if (over > LEN) {
				addr[i] -= over - LEN;
				from[i] -= over - LEN;
			}
		}
	}
	if (strided) {
		struct mlx5dv_mr_interleaved d[8];
		for (uint32_t i = 0; i < n; i++)
			d[i] = (struct mlx5dv_mr_interleaved){.addr = addr[i], .bytes_count = len[i], .bytes_skip = skip[i],
							      .lkey = lkey[i]};
		interleaved(qp, m->key, RIGHTS, repeat, n, d);
	} else {
		struct ibv_sge sge[8];
		for (uint32_t i = 0; i < n; i++)
			sge[i] = (struct ibv_sge){.addr = addr[i], .length = len[i], .lkey = lkey[i]};
		list(qp, m->key, RIGHTS, n, sge);
	}
	for (uint32_t r = 0; r < repeat; r++)
		for (uint32_t i = 0; i < n; i++) {
			uint64_t shift = (uint64_t)r * (len[i] + skip[i]);
			add(m, of[i], addr[i] + shift, of[i] ? NULL : from[i] + shift, len[i]);
		}
}

static void fill(void)
{
	for (int m = 0; m < MEMORIES; m++)
		for (uint32_t i = 0; i < LEN; i++)
			mem[m].p[i] = (char)rnd(256);
}

/* One transfer of n bytes between two keys' or a key's and a memory's bytes. Target bytes that are named twice get the last. */
static void transfer(struct pair p, const struct model *from, const struct model *to, enum ibv_wr_opcode op)
{
	uint32_t n = 1 + rnd(from->n < to->n ? from->n : to->n), s = rnd(from->n - n + 1), d = rnd(to->n - n + 1);
	char *want = malloc(n);

	fill();
	for (uint32_t i = 0; i < n; i++)
		want[i] = *from->byte[s + i];
	if (op == IBV_WR_SEND) {
		CHECK(!vt_recv(p.owner, 51, at_key(to->key, d, n + rnd(2) * (to->n - d - n))), "recv");
		CHECK(!vt_send(p.peer, 52, at_key(from->key, s, n), IBV_SEND_SIGNALED), "send");
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc = vt_wait(cq);
			CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id != 51 || wc.byte_len == n), "%lu: %s",
			      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		}
	} else if (op == IBV_WR_RDMA_READ) {
		CHECK(!vt_rdma(p.peer, op, 53, at_key(to->key, d, n), s, from->key->rkey), "read");
		vt_expect(cq, 53, IBV_WC_SUCCESS);
	} else {
		CHECK(!vt_rdma(p.peer, op, 54, at_key(from->key, s, n), d, to->key->rkey), "write");
		vt_expect(cq, 54, IBV_WC_SUCCESS);
	}
	/* backwards: a byte that several positions name has the value of the last */
	for (uint32_t i = n; i-- > 0;) {
		bool later = false;
		for (uint32_t j = i + 1; j < n && !later; j++)
			later = to->byte[d + j] == to->byte[d + i];
		CHECK(later || *to->byte[d + i] == want[i], "opcode %d: byte %u of %u", op, i, n);
	}
	free(want);
}

static void layouts(void)
{
	static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
	/* sources and targets lie in different memories, so that no transfer changes its own source */
	static const int sources[2] = {0, 1}, targets[2] = {2, 3};
	struct pair p = pair();

	for (int round = 0; round < 40; round++) {
		struct model from[4], to[4];
		for (uint32_t i = 0; i < 4; i++) {
			make(p.owner, &from[i], from, i, sources);
			make(p.owner, &to[i], to, i, targets);
		}
		for (int i = 0; i < 6; i++)
			transfer(p, &from[rnd(4)], &to[rnd(4)], ops[i % 3]);
		for (uint32_t i = 4; i-- > 0;) {
			end_key(from[i].key);
			end_key(to[i].key);
			free(from[i].byte);
			free(to[i].byte);
		}
	}
	drop(p);
}

/* ---- opcodes ------------------------------------------------------------------------------------------------------------ */

/* A key of every other 16 bytes of a memory, `n` times. */
static struct mlx5dv_mkey *comb(struct ibv_qp *qp, const struct memory *m, uint32_t n, unsigned access)
{
	struct mlx5dv_mkey *k = key(1);
	struct mlx5dv_mr_interleaved d = {.addr = (uintptr_t)m->mr->addr, .bytes_count = 16, .bytes_skip = 16,
					  .lkey = m->mr->lkey};

	interleaved(qp, k, access, n, 1, &d);
	return k;
}

static void opcodes(int from_mem, int to_mem)
{
	struct pair p = pair();
	struct mlx5dv_mkey *from = comb(p.owner, &mem[from_mem], 64, RIGHTS), *to = comb(p.owner, &mem[to_mem], 64, RIGHTS);
	struct ibv_send_wr wr = {.wr_id = 61, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 7, .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = 8, .rkey = to->rkey}}, *bad;
	struct ibv_sge sge[3] = {at_key(from, 0, 1000)};

	wr.sg_list = sge;
	fill();
	CHECK(!vt_recv(p.owner, 62, (struct ibv_sge){.length = 0}) && !ibv_post_send(p.peer, &wr, &bad), "WRITE_WITH_IMM");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS && (wc.wr_id != 62 || (wc.byte_len == 1000 && wc.imm_data == 7)),
		      "WRITE_WITH_IMM");
	}
	for (uint32_t i = 0; i < 1000; i++)
		CHECK(mem[to_mem].p[(i + 8) / 16 * 32 + (i + 8) % 16] == mem[from_mem].p[i / 16 * 32 + i % 16], "byte %u", i);
	/* a list of segments, of which one is a key's; inline data into a key */
	fill();
	sge[0] = vt_sge(mem[from_mem].mr, 3000, 10);
	sge[1] = at_key(from, 100, 50);
	sge[2] = vt_sge(mem[from_mem].mr, 4000, 10);
	wr = (struct ibv_send_wr){.wr_id = 63, .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 3,
				  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = {.remote_addr = (uintptr_t)mem[to_mem].mr->addr + 5000,
						      .rkey = mem[to_mem].mr->rkey}};
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "list");
	vt_expect(cq, 63, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 50; i++)
		CHECK(mem[to_mem].p[5010 + i] == mem[from_mem].p[(100 + i) / 16 * 32 + (100 + i) % 16], "list: byte %u", i);
	CHECK(!memcmp(mem[to_mem].p + 5000, mem[from_mem].p + 3000, 10) &&
		      !memcmp(mem[to_mem].p + 5060, mem[from_mem].p + 4000, 10),
	      "list");
	sge[0] = (struct ibv_sge){.addr = (uintptr_t)"0123456789abcdefghijklmnopqrstuv", .length = 32};
	wr = (struct ibv_send_wr){.wr_id = 64, .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					  .wr.rdma = {.remote_addr = 8, .rkey = to->rkey}};
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "inline");
	vt_expect(cq, 64, IBV_WC_SUCCESS);
	CHECK(!memcmp(mem[to_mem].p + 8, "01234567", 8) && !memcmp(mem[to_mem].p + 32, "89abcdefghijklmn", 16) &&
	      !memcmp(mem[to_mem].p + 64, "opqrstuv", 8), "inline");
	CHECK(!vt_recv(p.owner, 65, at_key(to, 8, 64)), "recv");
	wr.opcode = IBV_WR_SEND;
	wr.wr_id = 66;
	memset(mem[to_mem].p, 0, 200);
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "inline SEND");
	for (int i = 0; i < 2; i++)
		CHECK(vt_wait(cq).status == IBV_WC_SUCCESS, "inline SEND");
	CHECK(!memcmp(mem[to_mem].p + 8, "01234567", 8) && !memcmp(mem[to_mem].p + 64, "opqrstuv", 8), "inline SEND");
	/* atomics in a run, their results in a key across two runs */
	*(uint64_t *)(mem[to_mem].p + 32 + 8) = 100;
	wr = (struct ibv_send_wr){.wr_id = 67, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = sge, .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
					  .wr.atomic = {.remote_addr = 24, .rkey = to->rkey, .compare_add = 5}};
	sge[0] = at_key(from, 12, 8);
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "FETCH_AND_ADD");
	vt_expect(cq, 67, IBV_WC_SUCCESS);
	uint64_t old;
	memcpy(&old, mem[from_mem].p + 12, 4);
	memcpy((char *)&old + 4, mem[from_mem].p + 32, 4);
	CHECK(old == 100 && *(uint64_t *)(mem[to_mem].p + 40) == 105, "FETCH_AND_ADD: %lu", (unsigned long)old);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 105;
	wr.wr.atomic.swap = 9;
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "CMP_AND_SWP");
	vt_expect(cq, 67, IBV_WC_SUCCESS);
	CHECK(*(uint64_t *)(mem[to_mem].p + 40) == 9, "CMP_AND_SWP");
	end_key(from);
	end_key(to);
	drop(p);
}

/* An atomic whose word is not in one run. */
static void torn_atomic(void)
{
	struct pair p = pair();
	struct mlx5dv_mkey *k = key(2);
	struct ibv_sge halves[2] = {vt_sge(mem[0].mr, 0, 12), vt_sge(mem[0].mr, 64, 12)};
	struct ibv_sge result = vt_sge(mem[1].mr, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 68, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &result, .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
					 .wr.atomic = {.remote_addr = 8, .rkey = k->rkey, .compare_add = 1}}, *bad;

	list(p.owner, k, RIGHTS, 2, halves);
	CHECK(!ibv_post_send(p.peer, &wr, &bad), "atomic");
	vt_expect(cq, 68, IBV_WC_REM_ACCESS_ERR);
	end_key(k);
	drop(p);
}

static void datagrams(void)
{
	struct ibv_qp *from = vt_qp(&t, IBV_QPT_UD, cq, NULL), *to = vt_qp(&t, IBV_QPT_UD, cq, NULL);
	struct pair p = pair();
	struct ibv_ah_attr aa = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(t.pd, &aa);
	struct mlx5dv_mkey *s = comb(p.owner, &mem[0], 16, RIGHTS), *d = comb(p.owner, &mem[1], 16, RIGHTS);
	struct ibv_sge sge = at_key(s, 4, 100);
	struct ibv_send_wr wr = {.wr_id = 71, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
				 .send_flags = IBV_SEND_SIGNALED,
					 .wr.ud = {.ah = ah, .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY}}, *bad;

	vt_connect(from, 0);
	vt_connect(to, 0);
	for (int i = 0; i < 2; i++) {
		fill();
		if (i) {
			sge = (struct ibv_sge){.addr = (uintptr_t)mem[2].p, .length = 100};
			wr.send_flags |= IBV_SEND_INLINE;
		}
		CHECK(!vt_recv(to, 72, at_key(d, 0, 150)) && !ibv_post_send(from, &wr, &bad), "datagram");
		for (int j = 0; j < 2; j++)
			CHECK(vt_wait(cq).status == IBV_WC_SUCCESS, "datagram");
		for (uint32_t j = 0; j < 100; j++)
			CHECK(mem[1].p[(j + 40) / 16 * 32 + (j + 40) % 16] ==
				      (i ? mem[2].p[j] : mem[0].p[(j + 4) / 16 * 32 + (j + 4) % 16]),
			      "datagram %d: byte %u", i, j);
	}
	end_key(s);
	end_key(d);
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(from) && !ibv_destroy_qp(to), "destroy");
	drop(p);
}

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

static enum ibv_wc_status write_by(uint64_t addr, uint32_t n, uint32_t rkey, struct pair p)
{
	CHECK(!vt_rdma(p.peer, IBV_WR_RDMA_WRITE, 1, vt_sge(mem[3].mr, 0, n), addr, rkey), "write");
	return vt_wait(cq).status;
}
static enum ibv_wc_status send_by(uint64_t addr, uint32_t n, const struct mlx5dv_mkey *k, struct pair p)
{
	struct ibv_wc wc;

	CHECK(!vt_recv(p.peer, 2, vt_sge(mem[3].mr, 0, 4096)) && !vt_send(p.owner, 3, at_key(k, addr, n), IBV_SEND_SIGNALED),
	      "send");
	do
		wc = vt_wait(cq);
	while (wc.wr_id != 3);
	return wc.status;
}

/* Checks the status of a WRITE by a peer and of a SEND by the owner; each on queues of its own, which are gone afterwards. */
static void used(const struct mlx5dv_mkey *k, uint64_t addr, uint32_t n, enum ibv_wc_status remote, enum ibv_wc_status local,
		 const char *why)
{
	struct ibv_wc wc;
	struct pair p = pair();
	enum ibv_wc_status s = write_by(addr, n, k->rkey, p);

	CHECK(s == remote, "%s: a peer's WRITE: %s", why, ibv_wc_status_str(s));
	drop(p);
	p = pair();
	s = send_by(addr, n, k, p);
	CHECK(s == local, "%s: the owner's SEND: %s", why, ibv_wc_status_str(s));
	drop(p);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		;
}
#define REFUSED IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_PROT_ERR
#define GRANTED IBV_WC_SUCCESS, IBV_WC_SUCCESS

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

/* ---- invalidation by messages ------------------------------------------------------------------------------------------ */

static struct mlx5dv_mkey *remote_key(uint16_t entries)
{
	struct mlx5dv_mkey_init_attr a = {
		.pd = t.pd,
		.max_entries = entries,
		.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT | MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE,
	};
	struct mlx5dv_mkey *k = mlx5dv_create_mkey(&a);

	CHECK(k, "mlx5dv_create_mkey with remote invalidation");
	return k;
}

/* A message of 16 bytes from p.peer to p.owner that invalidates the R_Key. */
static void send_inv(struct pair p, uint32_t rkey, bool by_wr)
{
	struct ibv_sge sge = vt_sge(mem[3].mr, 0, 16);
	struct ibv_send_wr wr = {.wr_id = 31,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .invalidate_rkey = rkey,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(p.peer);

	if (!by_wr) {
		CHECK(!ibv_post_send(p.peer, &wr, &bad), "SEND_WITH_INV");
		return;
	}
	ibv_wr_start(ex);
	ex->wr_id = 31;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(ex, rkey);
	ibv_wr_set_sge(ex, sge.lkey, sge.addr, sge.length);
	CHECK(!ibv_wr_complete(ex), "ibv_wr_send_inv");
}

/* The message arrives in `to`, and has invalidated the key. */
static void ended_by_message(struct pair p, const struct mlx5dv_mkey *k, struct ibv_sge to, bool by_wr)
{
	CHECK(!vt_recv(p.owner, 30, to), "recv");
	send_inv(p, k->rkey, by_wr);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == IBV_WC_SUCCESS, "%lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id != 30 || (wc.opcode == IBV_WC_RECV && wc.wc_flags & IBV_WC_WITH_INV &&
					 wc.invalidated_rkey == k->rkey && wc.byte_len == 16),
		      "the receive");
	}
}

/* A message that may not invalidate the R_Key. */
static void message_refused(uint32_t rkey, const char *why)
{
	struct pair p = pair();

	CHECK(!vt_recv(p.owner, 30, vt_sge(mem[2].mr, 0, 16)), "recv");
	send_inv(p, rkey, false);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == (wc.wr_id == 30 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR), "%s: %lu: %s", why,
		      (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	drop(p);
}

static void by_messages(void)
{
	struct pair p = pair(), uc = {queue_of(IBV_QPT_UC, t.pd, 0), queue_of(IBV_QPT_UC, t.pd, 0)};
	struct mlx5dv_mkey *k = remote_key(2), *plain = key(1);
	struct ibv_sge halves[2] = {vt_sge(mem[0].mr, 100, 8), vt_sge(mem[1].mr, 200, 100)};

	vt_connect_pair(uc.owner, uc.peer);
	message_refused(k->rkey, "a key that is not configured");
	for (int i = 0; i < 4; i++) {
		list(p.owner, k, RIGHTS, 2, halves);
		used(k, 0, 108, GRANTED, "configured");
		fill();
		/* once into the key that the message ends; once by an unreliable connection */
		ended_by_message(i == 3 ? uc : p, k, i == 1 ? at_key(k, 0, 16) : vt_sge(mem[2].mr, 0, 16), i == 2);
		CHECK(i == 1 ? !memcmp(mem[0].p + 100, mem[3].p, 8) && !memcmp(mem[1].p + 200, mem[3].p + 8, 8) :
			       !memcmp(mem[2].p, mem[3].p, 16),
		      "the message");
		used(k, 0, 8, REFUSED, "invalidated by a message");
		message_refused(k->rkey, "invalidated already");
	}
	list(p.owner, k, RIGHTS, 2, halves);
	message_refused(k->rkey ^ 1, "an R_Key that the key does not have");
	list(p.owner, plain, RIGHTS, 1, halves);
	message_refused(plain->rkey, "a key that was made without remote invalidation");
	used(plain, 0, 8, GRANTED, "refused to a message");
	used(k, 0, 108, GRANTED, "refused to a message");
	/* by a queue of another domain */
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	struct pair other = {queue_of(IBV_QPT_RC, pd, 0), queue()};
	struct ibv_mr *theirs = ibv_reg_mr(pd, mem[2].p, LEN, RIGHTS);
	vt_connect_pair(other.owner, other.peer);
	CHECK(pd && theirs && !vt_recv(other.owner, 30, vt_sge(theirs, 0, 16)), "recv");
	send_inv(other, k->rkey, false);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(cq);
		CHECK(wc.status == (wc.wr_id == 30 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR),
		      "by a queue of another domain: %lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	used(k, 0, 108, GRANTED, "refused to a queue of another domain");
	/* LOCAL_INV by the owner, which a message may follow no more */
	invalidated(p.owner, k);
	message_refused(k->rkey, "invalidated by its owner");
	drop(other);
	drop(p);
	drop(uc);
	CHECK(!ibv_dereg_mr(theirs) && !ibv_dealloc_pd(pd), "destroy");
	end_key(k);
	end_key(plain);
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

/* ---- two processes ------------------------------------------------------------------------------------------------------- */

struct card {
	uint32_t qpn, rkey;
};

/* The owner of a key over arena and private memory: the parent writes and reads by it, and kills the owner. */
static void owner(struct vt_peer *peer)
{
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	char *arena = shca_alloc(t.ctx, LEN), *private = calloc(1, LEN);
	CHECK(arena && private, "memory");
	struct ibv_mr *a = vt_mr(&t, arena, LEN, RIGHTS), *b = vt_mr(&t, private, LEN, RIGHTS);
	struct ibv_qp *qp = queue();
	struct card mine = {.qpn = qp->qp_num}, theirs;
	struct mlx5dv_mkey *k = key(2);
	struct mlx5dv_mr_interleaved d[2] = {
		{.addr = (uintptr_t)arena, .bytes_count = 10, .bytes_skip = 6, .lkey = a->lkey},
		{.addr = (uintptr_t)private, .bytes_count = 20, .bytes_skip = 12, .lkey = b->lkey},
	};

	mine.rkey = k->rkey;
	vt_tell(peer, &mine, sizeof mine);
	vt_hear(peer, &theirs, sizeof theirs);
	vt_connect(qp, theirs.qpn);
	interleaved(qp, k, RIGHTS, 100, 2, d);
	vt_meet(peer);
	vt_meet(peer);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t r = i / 30, o = i % 30;
		char got = o < 10 ? arena[r * 16 + o] : private[r * 32 + o - 10];
		CHECK(got == (char)(i * 7), "byte %u", i);
	}
	memset(arena, 'a', LEN);
	memset(private, 'b', LEN);
	/* a receive by the key, and its end while the peer writes */
	CHECK(!vt_recv(qp, 21, at_key(k, 0, 3000)), "recv");
	vt_meet(peer);
	vt_expect(cq, 21, IBV_WC_SUCCESS);
	vt_meet(peer);
	usleep(20000);
	invalidated(qp, k);
	memset(arena, 'x', LEN);
	memset(private, 'x', LEN);
	vt_meet(peer);
	for (uint32_t i = 0; i < LEN; i++)
		CHECK(arena[i] == 'x' && private[i] == 'x', "written behind the end of the key");
	/* the refusal has failed the queue */
	interleaved(pair().owner, k, RIGHTS, 100, 2, d);
	vt_meet(peer);
	pause();
}

static void two_processes(void)
{
	struct vt_peer peer = vt_fork();

	if (!peer.child) {
		owner(&peer);
		exit(0);
	}
	t = vt_open();
	cq = vt_cq(&t, 64, NULL);
	char *p = shca_alloc(t.ctx, LEN);
	struct ibv_mr *mr = vt_mr(&t, p, LEN, RIGHTS);
	struct ibv_qp *qp = queue();
	struct card mine = {.qpn = qp->qp_num}, theirs;

	vt_hear(&peer, &theirs, sizeof theirs);
	vt_tell(&peer, &mine, sizeof mine);
	vt_connect(qp, theirs.qpn);
	vt_meet(&peer);
	for (uint32_t i = 0; i < 3000; i++)
		p[i] = (char)(i * 7);
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, 3000), 0, theirs.rkey), "write");
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	vt_meet(&peer);
	vt_meet(&peer);
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_READ, 2, vt_sge(mr, 4096, 2999), 1, theirs.rkey), "read");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 2999; i++)
		CHECK(p[4096 + i] == ((i + 1) % 30 < 10 ? 'a' : 'b'), "byte %u", i);
	CHECK(!vt_send(qp, 3, vt_sge(mr, 0, 2000), IBV_SEND_SIGNALED), "send");
	vt_expect(cq, 3, IBV_WC_SUCCESS);
	vt_meet(&peer);
	enum ibv_wc_status s;
	do {
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 4, vt_sge(mr, 0, 3000), 0, theirs.rkey), "write");
		s = vt_wait(cq).status;
	} while (s == IBV_WC_SUCCESS);
	CHECK(s == IBV_WC_REM_ACCESS_ERR, "ended: %s", ibv_wc_status_str(s));
	vt_meet(&peer);
	vt_meet(&peer);
	CHECK(!kill(peer.child, SIGKILL) && waitpid(peer.child, NULL, 0) == peer.child, "kill");
	CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
	vt_connect(qp, theirs.qpn);
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 5, vt_sge(mr, 0, 30), 0, theirs.rkey), "write");
	s = vt_wait(cq).status;
	CHECK(s == IBV_WC_RETRY_EXC_ERR, "the owner has died: %s", ibv_wc_status_str(s));
	/* keys go with their process: through a queue of a process that lives they lead nowhere */
	struct ibv_qp *to = queue();
	CHECK(!vt_to(qp, IBV_QPS_RESET), "RESET");
	vt_connect_pair(qp, to);
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 6, vt_sge(mr, 0, 30), 0, theirs.rkey), "write");
	vt_expect(cq, 6, IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(to) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, p) && !ibv_destroy_cq(cq),
	      "destroy");
	vt_close(&t);
}

int main(void)
{
	CHECK(!setenv("SHCA_IDENTITY", "connectx", 1), "setenv");
	vt_fabric();
	two_processes();

	t = vt_open();
	cq = vt_cq(&t, 256, NULL);
	for (int i = 0; i < MEMORIES; i++) {
		mem[i].p = i == 1 || i == 2 ? aligned_alloc(4096, LEN) : shca_alloc(t.ctx, LEN);
		CHECK(mem[i].p, "memory");
		mem[i].mr = vt_mr(&t, mem[i].p, LEN, RIGHTS);
	}
	layouts();
	for (int i = 0; i < 3; i++)
		opcodes(i, i + 1);
	torn_atomic();
	datagrams();
	in_order(false);
	in_order(true);
	configure();
	refusals();
	by_messages();
	limits();
	/* a context that is closed takes its keys along */
	key(3);
	for (int i = 0; i < MEMORIES; i++)
		CHECK(!ibv_dereg_mr(mem[i].mr), "dereg");
	CHECK(!ibv_destroy_cq(cq), "destroy_cq");
	CHECK(!ibv_close_device(t.ctx), "close");
	return 0;
}
