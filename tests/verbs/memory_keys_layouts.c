/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirect memory keys: random nested layouts against a model, as source and target of every opcode. */
#include "memory_keys.h"

/* ---- random layouts against a model ---------------------------------------------------------------------------------- */

/* A key, and the address of each of its bytes. */
struct model {
	struct mlx5dv_mkey *key;
	uint32_t n;
	char **byte;
};

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

int main(void)
{
	keys_fabric();
	keys_open();
	layouts();
	for (int i = 0; i < 3; i++)
		opcodes(i, i + 1);
	torn_atomic();
	datagrams();
	keys_close();
	return 0;
}
