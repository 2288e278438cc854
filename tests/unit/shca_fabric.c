/* SPDX-License-Identifier: BSD-3-Clause */
/* The fabric's allocator, numbers and keys, names and faults, in one virtual process. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "shca/engine/engine.h"

static struct shca_member m;

static void setup(void)
{
	cr_assert_eq(shca_fabric_anonymous(&m), 0);
}
static void teardown(void)
{
	shca_fabric_leave(&m);
}
TestSuite(shca_fabric, .init = setup, .fini = teardown);

static uint32_t chunks(void)
{
	const _Atomic uint32_t *owner = shca_at(m.base, m.hdr->chunks);
	uint32_t n = 0;
	for (uint32_t i = m.hdr->first_chunk; i < atomic_load(&m.hdr->chunk_high); i++)
		n += atomic_load(&owner[i]) != 0;
	return n;
}

/* Objects that every peer keeps, or that every operation touches, do not grow unnoticed. */
Test(shca_fabric, sizes)
{
	cr_expect_eq(sizeof(struct shca_cqe), 16);
	cr_expect_eq(sizeof(struct shca_wqe), 64);
	cr_expect_eq(sizeof(struct shca_mr), 64);
	cr_expect_leq(sizeof(struct shca_qp), 512);
	cr_expect_leq(sizeof(struct shca_cq), 512);
	cr_expect_leq(sizeof(struct shca_rq), 512);
	cr_expect_leq(sizeof(struct shca_thread_slot), 256);
	cr_expect_leq(sizeof(struct shca_proc_slot), 320);
}

Test(shca_fabric, alignment_and_zero)
{
	for (uint64_t bytes = 1; bytes < 300000; bytes = bytes * 3 / 2 + 1) {
		shca_off off = shca_mem_alloc(&m, bytes);
		cr_assert(off, "%lu bytes", (unsigned long)bytes);
		cr_expect_eq(off % 64, 0);
		if (bytes >= 4096)
			cr_expect_eq(off % 4096, 0);
		char *p = shca_at(m.base, off);
		for (uint64_t i = 0; i < bytes; i++)
			cr_assert_eq(p[i], 0);
		memset(p, 0xff, bytes);
		shca_mem_free(&m, off, bytes);
	}
}

/* A whole chunk that was freed is kept for the next allocation of a chunk, and is as zero as a new one. */
Test(shca_fabric, kept_chunk_is_zero)
{
	shca_off off = shca_mem_alloc(&m, SHCA_CHUNK);

	cr_assert(off);
	memset(shca_at(m.base, off), 0xff, SHCA_CHUNK);
	shca_mem_free(&m, off, SHCA_CHUNK);
	shca_off again = shca_mem_alloc(&m, SHCA_CHUNK);
	cr_expect_eq(again, off);
	const char *p = shca_at(m.base, again);
	for (uint64_t i = 0; i < SHCA_CHUNK; i++)
		cr_assert_eq(p[i], 0);
	shca_mem_free(&m, again, SHCA_CHUNK);
}

Test(shca_fabric, absurd_sizes)
{
	cr_expect_eq(shca_mem_alloc(&m, UINT64_MAX), 0);
	cr_expect_eq(shca_mem_alloc(&m, UINT64_MAX - 62), 0);
	cr_expect_eq(shca_mem_alloc(&m, (uint64_t)1 << 60), 0);
}

/* Blocks of all sizes share chunks, and come together again. */
Test(shca_fabric, buddies)
{
	enum { N = 1024 };
	static shca_off off[N];
	for (int i = 0; i < N; i++)
		cr_assert(off[i] = shca_mem_alloc(&m, 64));
	cr_expect_leq(chunks(), 2, "1024 blocks of 64 bytes fit into a chunk, not %u", chunks());
	for (int i = 0; i < N; i++)
		for (int k = 0; k < i; k++)
			cr_assert_neq(off[i], off[k]);
	for (int i = 0; i < N; i += 2)
		shca_mem_free(&m, off[i], 64);
	for (int i = 1; i < N; i += 2)
		shca_mem_free(&m, off[i], 64);
	shca_off big = shca_mem_alloc(&m, 32768), second = shca_mem_alloc(&m, 32768);
	cr_expect(big && second);
	cr_expect_leq(chunks(), 3);
	shca_mem_free(&m, big, 32768);
	shca_mem_free(&m, second, 32768);
	cr_expect_leq(chunks(), 2, "at most two spare chunks are kept, not %u", chunks());
}

/* The rest of an allocation's last chunk or block serves later allocations. */
Test(shca_fabric, odd_sizes_share)
{
	shca_off large = shca_mem_alloc(&m, SHCA_CHUNK + 8192), small = shca_mem_alloc(&m, 32768);
	cr_assert(large && small);
	cr_expect_eq(chunks(), 2);
	cr_expect_eq(small / SHCA_CHUNK, large / SHCA_CHUNK + 1);
	shca_off a = shca_mem_alloc(&m, 36864), b = shca_mem_alloc(&m, 16384), c = shca_mem_alloc(&m, 4096);
	cr_assert(a && b && c);
	cr_expect_eq(chunks(), 3);
	shca_mem_free(&m, large, SHCA_CHUNK + 8192);
	memset(shca_at(m.base, small), 1, 32768);	/* it is still backed */
	shca_mem_free(&m, b, 16384);
	shca_mem_free(&m, small, 32768);
	shca_mem_free(&m, a, 36864);
	shca_mem_free(&m, c, 4096);
	cr_expect_leq(chunks(), 2, "at most two spare chunks are kept, not %u", chunks());
}

/* Each is zero when it is handed out, after any earlier use. */
Test(shca_fabric, any_sizes_do_not_overlap)
{
	enum { N = 100, ROUNDS = 20000 };
	static struct { shca_off off; uint64_t bytes; unsigned char fill; } x[N];
	uint64_t rng = 12345;
	for (int i = 0; i < ROUNDS; i++) {
		rng = rng * 6364136223846793005ull + 1442695040888963407ull;
		uint32_t k = (uint32_t)(rng >> 33) % N;
		if (x[k].off) {
			const unsigned char *p = shca_at(m.base, x[k].off);
			cr_assert(p[0] == x[k].fill && p[x[k].bytes / 2] == x[k].fill && p[x[k].bytes - 1] == x[k].fill);
			cr_assert(!memcmp(p, p + 1, x[k].bytes - 1));
			shca_mem_free(&m, x[k].off, x[k].bytes);
			x[k].off = 0;
			continue;
		}
		/* sizes from 1 byte to 3 chunks, as many of each magnitude */
		x[k].bytes = 1 + (rng >> 40) % (64ull << (rng >> 20) % 12);
		x[k].fill = (unsigned char)(i | 1);
		x[k].off = shca_mem_alloc(&m, x[k].bytes);
		cr_assert(x[k].off);
		const unsigned char *fresh = shca_at(m.base, x[k].off);
		cr_assert(!fresh[0] && !memcmp(fresh, fresh + 1, x[k].bytes - 1));
		memset(shca_at(m.base, x[k].off), x[k].fill, x[k].bytes);
	}
	for (int k = 0; k < N; k++)
		shca_mem_free(&m, x[k].off, x[k].bytes);
	cr_expect_leq(chunks(), 2, "at most two spare chunks are kept, not %u", chunks());
}

Test(shca_fabric, freed_chunks_go_back)
{
	shca_off off = shca_mem_alloc(&m, 10 << 20);
	cr_assert(off);
	cr_expect_eq(chunks(), 160);
	shca_mem_free(&m, off, 10 << 20);
	cr_expect_eq(chunks(), 0);
	cr_expect_eq(shca_mem_alloc(&m, 10 << 20), off, "the lowest free chunks are used first");
	shca_mem_free(&m, off, 10 << 20);
}

/* First in, first out: a number that was given back is the last to come again. */
Test(shca_fabric, numbers)
{
	uint32_t first = shca_number_alloc(&m), n = 1;
	cr_assert_gt(first, 1u, "0 and 1 are no ordinary queue numbers");
	shca_number_free(&m, first);
	while (n < 1000 && shca_number_alloc(&m) != first)
		n++;
	cr_expect_geq(n, 250, "came again after %u", n);
	shca_off off = shca_mem_alloc(&m, sizeof(struct shca_cq));
	struct shca_cq *cq = shca_at(m.base, off);
	cr_assert(off);
	shca_number_set(&m, first, SHCA_KIND_CQ, off);
	cr_expect_null(shca_number_get(&m, first, SHCA_KIND_CQ), "the object says another number");
	cq->cqn = first;
	cr_expect_eq(shca_number_get(&m, first, SHCA_KIND_CQ), cq);
	cr_expect_null(shca_number_get(&m, first, SHCA_KIND_QP));
	shca_number_free(&m, first);
	cr_expect_null(shca_number_get(&m, first, SHCA_KIND_CQ));
	cr_expect_null(shca_number_get(&m, 0xffffff, SHCA_KIND_QP));
	shca_mem_free(&m, off, sizeof(struct shca_cq));
}

/* A key is another one each time that its entry is used again. */
Test(shca_fabric, keys)
{
	uint32_t key, first = 0, index = 0;
	for (int k = 0; k < 3000; k++) {
		struct shca_mr *mr = shca_mr_alloc(&m, &key);
		cr_assert(mr && key);
		cr_assert_null(shca_mr_get(&m, key), "not valid before its key is set");
		atomic_store(&mr->key, key);
		cr_assert_eq(shca_mr_get(&m, key), mr);
		if (!k) {
			first = key;
			index = key >> 8;
		} else if (key >> 8 == index) {
			cr_expect_neq(key, first);
			cr_expect_null(shca_mr_get(&m, first));
		}
		shca_mr_free(&m, mr);
		cr_assert_null(shca_mr_get(&m, key));
	}
}

Test(shca_fabric, names)
{
	char longest[65];
	memset(longest, 'x', 64);
	longest[64] = 0;
	cr_expect_eq(shca_name_check(longest), -EINVAL);
	longest[63] = 0;
	cr_expect_eq(shca_name_check(longest), 0);
	cr_expect_eq(shca_name_check("heddle-12_a.b:c+d"), 0);
	cr_expect_eq(shca_name_check(""), -EINVAL);
	cr_expect_eq(shca_name_check("a b"), -EINVAL);
	cr_expect_eq(shca_name_check("a/b"), -EINVAL);
}

Test(shca_fabric, faults)
{
	struct shca_header *h = m.hdr;
	cr_expect_eq(shca_fault_set(h, "ud_drop=0.5,ud_dup=1,ud_reorder=0.25,seed=42"), 0);
	cr_expect_eq(atomic_load(&h->ud_drop), 1u << 31);
	cr_expect_eq(atomic_load(&h->ud_dup), UINT32_MAX);
	cr_expect_eq(atomic_load(&h->ud_reorder), 1u << 30);
	cr_expect_eq(atomic_load(&h->fault_seed), 42);
	cr_expect_eq(shca_fault_set(h, "ud_drop=0"), 0);
	cr_expect_eq(atomic_load(&h->ud_drop), 0);
	static const char *const wrong[] = { "ud_drop", "ud_drop=", "ud_drop=1.5", "ud_drop=-1", "ud_drop=x", "drop=0.1",
					     "ud_drop=0.1x", "ud_drop=nan" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_expect_eq(shca_fault_set(h, wrong[i]), -EINVAL, "%s", wrong[i]);
}

Test(shca_fabric, bytes_from_environment)
{
	static const struct {
		const char *text;
		uint64_t value;
	} t[] = { { "123", 123 }, { "4k", 4096 }, { "3M", 3 << 20 }, { "2g", 2ull << 30 }, { "1t", 1ull << 40 },
		  { "", 7 },	  { "x", 7 },	  { "1q", 7 },	       { "-1", 7 },	   { "99999999999999999999", 7 } };
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		setenv("SHCA_TEST_BYTES", t[i].text, 1);
		cr_expect_eq(shca_env_bytes("SHCA_TEST_BYTES", "7"), t[i].value, "%s", t[i].text);
	}
}

Test(shca_fabric, truth_and_time_from_environment)
{
	static const struct {
		const char *text;
		bool cma;
		uint32_t ms;
	} t[] = {{"0", false, 30000},      {"no", false, 30000}, {"OFF", false, 30000},
		 {"false", false, 30000},  {"1", true, 1},       {"yes", true, 30000},
		 {"", true, 30000},        {"x", true, 30000},   {"3600000", true, 3600000},
		 {"3600001", true, 30000}, {"-1", true, 30000}};
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		setenv("SHCA_CMA", t[i].text, 1);
		setenv("SHCA_JOIN_MS", t[i].text, 1);
		cr_expect_eq(shca_env_bool("SHCA_CMA"), t[i].cma, "%s", t[i].text);
		cr_expect_eq(shca_env_ms("SHCA_JOIN_MS"), t[i].ms, "%s", t[i].text);
	}
	cr_expect_not(shca_env_bool("SHCA_FENCES"));
	cr_expect_eq(shca_env_bytes("SHCA_RESERVE", NULL), 64ull << 30);
}

/* A member that dies leaves numbers, keys, chunks and thread slots to its reaper; its counters stay. */
Test(shca_fabric, reaped)
{
	struct shca_member other;
	uint32_t key;
	cr_assert_eq(shca_fabric_attach(&other, &m), 0);
	struct shca_thread *thr = shca_thread_get(&m), *theirs = shca_thread_new(&other);
	cr_assert(thr && theirs);
	shca_enter(theirs);
	shca_off off = shca_mem_alloc(&other, sizeof(struct shca_qp));
	struct shca_qp *qp = shca_at(m.base, off);
	qp->type = IBV_QPT_UD;
	atomic_store(&qp->n_msgs, 3);
	atomic_store(&qp->n_bytes, 300);
	uint32_t number = shca_number_alloc(&other), slot = other.slot;
	qp->qpn = number;
	shca_number_set(&other, number, SHCA_KIND_QP, off);
	struct shca_mr *mr = shca_mr_alloc(&other, &key);
	atomic_store(&mr->key, key);
	cr_expect_eq(shca_number_get(&m, number, SHCA_KIND_QP), qp);
	cr_expect(!shca_proc_reap_begin(&m, slot), "nobody reaps the living");
	shca_fabric_kill(&other);
	cr_expect(!shca_proc_alive(&m, slot));
	cr_expect(shca_proc_reap_begin(&m, slot));
	cr_expect(!shca_proc_reap_begin(&m, slot), "one reaper");
	for (int i = 0; i < 2; i++) {	/* restartable */
		shca_mem_hide(&m, slot);
		shca_quiesce(thr, slot);
		shca_mem_reap(&m, slot);
	}
	shca_proc_reap_end(&m, slot);
	cr_expect_null(shca_number_get(&m, number, SHCA_KIND_QP));
	cr_expect_null(shca_mr_get(&m, key));
	cr_expect_eq(chunks(), 0);
	cr_expect_eq(atomic_load(&m.hdr->retired[IBV_QPT_UD].msgs), 3);
	cr_expect_eq(atomic_load(&m.hdr->retired[IBV_QPT_UD].bytes), 300);
	for (uint32_t i = 0; i < m.hdr->thread_high; i++)
		cr_expect(i == thr->slot || (!m.threads[i].owner && !(m.threads[i].active & 1)));
	shca_fabric_leave(&other);
}
