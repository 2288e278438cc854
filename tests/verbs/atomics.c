/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended atomics (manual, appendix B): every size, operation and way to give operands, bit by bit against a model; then
 * several processes at once on the same memory, of mixed sizes, where an operation that is lost, torn or
 * done twice changes the sums.
 *
 * atomics [operations per process [seed]]
 */
#include <endian.h>
#include <infiniband/verbs_exp.h>
#include <sys/mman.h>

#include "atomic_model.h"
#include "vt.h"

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define WORDS ATOMIC_WORDS
#define OPERANDS 1024		/* offsets in the local region: result at 0, operands from here on */
#define LOCAL 4096

enum form { IMMEDIATE, POINTER, GATHERED, FORMS };

static uint64_t rng = 1;
static uint64_t draw(void)
{
	rng ^= rng >> 12;
	rng ^= rng << 25;
	rng ^= rng >> 27;
	return rng * 0x2545f4914f6cdd1dull;
}

struct op {
	bool cas;
	uint32_t size;
	enum form form;
	uint64_t v[4][WORDS];		/* compare, compare mask, swap, swap mask; or add, boundary */
};

struct here {
	struct vt t;
	struct ibv_cq *cq;
	char *local;
	struct ibv_mr *mr;
};

static struct ibv_qp *make(struct here *h, uint32_t flags, uint32_t max_atomic)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = h->cq, .recv_cq = h->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 4, .max_recv_sge = 1},
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = h->t.pd, .exp_create_flags = flags, .max_atomic_arg = max_atomic,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(h->t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp");
	return qp;
}

static struct here enter(void)
{
	struct here h = {.t = vt_open()};

	h.cq = vt_cq(&h.t, 256, NULL);
	h.local = aligned_alloc(4096, LOCAL);
	CHECK(h.local, "no memory");
	h.mr = vt_mr(&h.t, h.local, LOCAL, IBV_ACCESS_LOCAL_WRITE);
	return h;
}

/* Carries it out; the value before goes to old. */
static void run(struct here *h, struct ibv_qp *qp, const struct op *op, uint64_t raddr, uint32_t rkey, uint64_t *old)
{
	uint32_t n = op->cas ? 4 : 2, half[4];
	struct ibv_sge sge[3] = {vt_sge(h->mr, 0, op->size)};
	struct ibv_exp_send_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = 1, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				     .exp_opcode = op->cas ? IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP :
							     IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD}, *bad;
	uint64_t p[4];

	memset(h->local, 0xee, LOCAL);
	for (uint32_t i = 0; i < n; i++) {
		half[i] = (uint32_t)op->v[i][0];
		p[i] = op->form == IMMEDIATE ? op->v[i][0] : (uintptr_t)op->v[i];
		memcpy(h->local + OPERANDS + i * op->size, op->size == 4 ? (const void *)&half[i] : op->v[i], op->size);
	}
	if (op->form == GATHERED) {
		/* in two pieces that end inside an operand */
		sge[1] = vt_sge(h->mr, OPERANDS, op->size + 2);
		sge[2] = vt_sge(h->mr, OPERANDS + op->size + 2, (n - 1) * op->size - 2);
		wr.num_sge = 3;
	} else {
		wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
		if (op->cas)
			wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap = (struct ibv_exp_cmp_swap){
				.compare_val = p[0], .compare_mask = p[1], .swap_val = p[2], .swap_mask = p[3]};
		else
			wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
				(struct ibv_exp_fetch_add){.add_val = p[0], .field_boundary = p[1]};
	}
	wr.ext_op.masked_atomics.log_arg_sz = (uint32_t)__builtin_ctz(op->size);
	wr.ext_op.masked_atomics.remote_addr = raddr;
	wr.ext_op.masked_atomics.rkey = rkey;
	int err = ibv_exp_post_send(qp, &wr, &bad);
	CHECK(!err, "%s of %u bytes, form %d: %d", op->cas ? "CAS" : "FAA", op->size, op->form, err);
	vt_expect(h->cq, 1, IBV_WC_SUCCESS);
	for (uint32_t i = op->size; i < OPERANDS; i++)
		CHECK(h->local[i] == (char)0xee, "byte %u behind a result of %u", i, op->size);
	old[0] = 0;
	memcpy(old, h->local, op->size);
	if (op->size == 4)
		old[0] = *(uint32_t *)h->local;
	/* an adapter's result is in the host's order if it has 8 bytes, else in network order */
	if (vt_mlx5() && op->size == 4)
		old[0] = be32toh((uint32_t)old[0]);
	else if (vt_mlx5() && op->size > 8)
		for (uint32_t w = 0; w < op->size / 8; w++)
			old[w] = be64toh(old[w]);
}

/* ---- random requests ---------------------------------------------------------------------------------------------------- */

static uint64_t mask(void)
{
	switch (draw() % 4) {
	case 0: return 0;
	case 1: return UINT64_MAX;
	case 2: return draw() & draw() & draw();
	default: return draw();
	}
}

/* A work queue element has no room for four operands of 256 bytes, and no form for those in memory. */
static uint32_t widest(void)
{
	return vt_mlx5() ? 128 : 256;
}

static uint32_t any_size(void)
{
	return 4u << draw() % (vt_mlx5() ? 6 : 7);
}

static void invent(struct op *op, const char *target)
{
	op->cas = draw() & 1;
	op->size = any_size();
	do
		op->form = (enum form)(draw() % FORMS);
	while ((op->form == IMMEDIATE && op->size > 8) || (op->form == POINTER && op->size <= 8) ||
	       (op->form == GATHERED && vt_mlx5()));
	for (int i = 0; i < 4; i++)
		for (int w = 0; w < WORDS; w++)
			op->v[i][w] = mask();
	/* a comparison that holds, mostly but for one bit */
	if (op->cas && draw() % 4) {
		memcpy(op->v[0], target, op->size);
		if (draw() % 4 == 0)
			op->v[0][draw() % (op->size > 8 ? op->size / 8 : 1)] ^= 1ull << draw() % 32;
	}
}

/* One at a time: memory and result are the model's, and nothing beside is touched. */
static void alone(struct here *h, char *mem, const struct ibv_mr *mr, uint32_t flags, int rounds)
{
	struct ibv_qp *qp = make(h, flags, widest());
	static char before[1024], want[1024];

	vt_connect(qp, qp->qp_num);
	for (int i = 0; i < rounds; i++) {
		struct op op;
		uint64_t old[WORDS] = {0}, new[WORDS] = {0}, got[WORDS];
		for (int k = 0; k < 1024 / 8; k++)
			((uint64_t *)mem)[k] = mask();
		uint32_t at = 0;
		invent(&op, mem);
		at = (uint32_t)(draw() % (1024 / op.size)) * op.size;
		if (op.cas && draw() % 2)
			memcpy(mem + at, op.v[0], op.size);
		memcpy(before, mem, 1024);
		memcpy(want, mem, 1024);
		if (op.size == 4)
			old[0] = *(uint32_t *)(before + at);
		else
			memcpy(old, before + at, op.size);
		atomic_model(op.cas, op.size, op.v, old, new);
		if (op.size == 4)
			*(uint32_t *)(want + at) = (uint32_t)new[0];
		else
			memcpy(want + at, new, op.size);
		run(h, qp, &op, (uintptr_t)mem + at, mr->rkey, got);
		for (uint32_t w = 0; w < (op.size > 8 ? op.size / 8 : 1); w++) {
			if (flags & IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY)
				got[w] = op.size == 4 ? be32toh((uint32_t)got[w]) : be64toh(got[w]);
			CHECK(got[w] == old[w], "%s of %u bytes, form %d: word %u of the result is %#lx, was %#lx",
			      op.cas ? "CAS" : "FAA", op.size, op.form, w, (unsigned long)got[w], (unsigned long)old[w]);
		}
		for (uint32_t k = 0; k < 1024; k++)
			CHECK(mem[k] == want[k], "%s of %u bytes at %u, form %d: byte %u is %#x, not %#x", op.cas ? "CAS" : "FAA",
			      op.size, at, op.form, k, (unsigned char)mem[k], (unsigned char)want[k]);
	}
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refusals(struct here *h, char *mem, const struct ibv_mr *mr)
{
	struct ibv_qp *qp = make(h, 0, 64), *small = make(h, 0, 8);
	struct ibv_sge sge[3] = {vt_sge(h->mr, 0, 256), vt_sge(h->mr, OPERANDS, 128), vt_sge(h->mr, OPERANDS, 1)};
	struct ibv_exp_send_wr good = {.wr_id = 1, .sg_list = sge, .num_sge = 2, .exp_send_flags = IBV_EXP_SEND_SIGNALED,
				       .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD}, wr, *bad;
	struct ibv_exp_qp_init_attr a = {.send_cq = h->cq, .recv_cq = h->cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1},
					 .comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG, .pd = h->t.pd,
					 .max_atomic_arg = 512};

	vt_connect(qp, qp->qp_num);
	vt_connect(small, small->qp_num);
	good.ext_op.masked_atomics.log_arg_sz = 6;
	good.ext_op.masked_atomics.remote_addr = (uintptr_t)mem;
	good.ext_op.masked_atomics.rkey = mr->rkey;
	memset(mem, 0, 256);
	memset(h->local, 0, LOCAL);
	wr = good;
	CHECK(!ibv_exp_post_send(qp, &wr, &bad), "operands in memory");
	vt_expect(h->cq, 1, IBV_WC_SUCCESS);
#define REFUSED(q, change)                                                                                           \
	do {                                                                                                         \
		wr = good;                                                                                           \
		change;                                                                                              \
		CHECK(ibv_exp_post_send(q, &wr, &bad) == EINVAL && bad == &wr, "%s", #change);                       \
	} while (0)
	REFUSED(small, (void)0);
	REFUSED(qp, wr.ext_op.masked_atomics.log_arg_sz = 7);
	REFUSED(qp, wr.ext_op.masked_atomics.log_arg_sz = 1);
	REFUSED(qp, wr.ext_op.masked_atomics.remote_addr += 32);
	REFUSED(qp, wr.num_sge = 1);
	REFUSED(qp, wr.num_sge = 3);
	REFUSED(qp, wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE);
	sge[0].length = 63;
	REFUSED(qp, (void)0);
	sge[0].length = 64;
	errno = 0;
	CHECK(!ibv_exp_create_qp(h->t.ctx, &a) && errno == EOPNOTSUPP, "max_atomic_arg 512");
	/* memory: one byte too far; operands behind a wrong key */
	wr = good;
	wr.ext_op.masked_atomics.remote_addr = (uintptr_t)mr->addr + mr->length;
	CHECK(!ibv_exp_post_send(qp, &wr, &bad), "post");
	vt_expect(h->cq, 1, IBV_WC_REM_ACCESS_ERR);
	/* a region with addresses that are not aligned as the memory */
	struct ibv_mr *odd = ibv_reg_mr_iova(h->t.pd, mem + 4, 256, 0x10000, VT_ACCESS);
	struct ibv_qp *q = make(h, 0, 64);
	CHECK(odd, "ibv_reg_mr_iova");
	vt_connect(q, q->qp_num);
	wr = good;
	wr.ext_op.masked_atomics.remote_addr = 0x10000;
	wr.ext_op.masked_atomics.rkey = odd->rkey;
	CHECK(!ibv_exp_post_send(q, &wr, &bad), "post");
	vt_expect(h->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	CHECK(!ibv_destroy_qp(q) && !ibv_dereg_mr(odd), "destroy");
	sge[1].lkey ^= 0x100;
	CHECK(ibv_exp_post_send(small, &good, &bad) != 0, "post");
	good.ext_op.masked_atomics.log_arg_sz = 3;
	sge[1].length = 16;
	CHECK(!ibv_exp_post_send(small, &good, &bad), "post");
	vt_expect(h->cq, 1, IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(small), "destroy");
}

static void capabilities(struct here *h)
{
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS};

	CHECK(!ibv_exp_query_device(h->t.ctx, &attr), "query");
	CHECK(attr.ext_atom.atomic_arg_sizes == (4 | 8 | 16 | 32 | 64 | 128 | 256), "sizes %#lx",
	      (unsigned long)attr.ext_atom.atomic_arg_sizes);
	CHECK(attr.ext_atom.max_fa_bit_boundary == 3 && attr.ext_atom.log_max_atomic_inline == 10, "units: %u, %u",
	      attr.ext_atom.max_fa_bit_boundary, attr.ext_atom.log_max_atomic_inline);
}

/* Operands at addresses are read at the post; operands in memory when the request runs. */
static void when_read(struct here *h, char *mem, const struct ibv_mr *mr)
{
	struct ibv_cq *other = vt_cq(&h->t, 4, NULL);
	struct ibv_qp *qp = make(h, CROSS, 16), *ticker = vt_qp(&h->t, IBV_QPT_RC, other, NULL);
	uint64_t add[2] = {5, 6}, ends[2] = {0, 0}, *gathered = (uint64_t *)(h->local + OPERANDS);
	struct ibv_sge sge[2] = {vt_sge(h->mr, 0, 16), vt_sge(h->mr, OPERANDS, 32)};
	struct ibv_exp_send_wr wr[3] = {{.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST,
					 .next = &wr[1]}}, *bad;

	vt_connect(qp, qp->qp_num);
	vt_connect(ticker, ticker->qp_num);
	wr[0].task.cqe_wait.cq = other;
	wr[0].task.cqe_wait.cq_count = 1;
	for (int i = 1; i < 3; i++) {
		wr[i] = (struct ibv_exp_send_wr){.wr_id = (uint64_t)i, .sg_list = sge, .num_sge = i, .next = i == 1 ? &wr[2] :
						 NULL, .exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD,
						 .exp_send_flags = IBV_EXP_SEND_SIGNALED};
		wr[i].ext_op.masked_atomics.log_arg_sz = 4;
		wr[i].ext_op.masked_atomics.remote_addr = (uintptr_t)mem + 16 * (uint64_t)i;
		wr[i].ext_op.masked_atomics.rkey = mr->rkey;
	}
	wr[1].exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	wr[1].ext_op.masked_atomics.wr_data.inline_data.op.fetch_add =
		(struct ibv_exp_fetch_add){.add_val = (uintptr_t)add, .field_boundary = (uintptr_t)ends};
	memset(mem, 0, 64);
	memcpy(gathered, (uint64_t[]){5, 6, 0, 0}, 32);
	struct ibv_exp_task task = {.task_type = IBV_EXP_TASK_SEND, .item = {.qp = qp, .send_wr = wr}}, *bad_task;
	CHECK(!ibv_exp_post_task(h->t.ctx, &task, &bad_task), "post");
	(void)bad;
	add[0] = add[1] = gathered[0] = gathered[1] = 100;
	vt_none(h->cq);
	CHECK(!vt_recv(ticker, 1, vt_sge(h->mr, 2048, 8)) && !vt_send(ticker, 2, vt_sge(h->mr, 2056, 8), 0), "tick");
	vt_expect(h->cq, 1, IBV_WC_SUCCESS);
	vt_expect(h->cq, 2, IBV_WC_SUCCESS);
	uint64_t *w = (uint64_t *)mem;
	CHECK(w[2] == 5 && w[3] == 6, "operands at addresses: %lu, %lu", (unsigned long)w[2], (unsigned long)w[3]);
	CHECK(w[4] == 100 && w[5] == 100, "operands in memory: %lu, %lu", (unsigned long)w[4], (unsigned long)w[5]);
	vt_expect(other, 1, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(ticker) && !ibv_destroy_cq(other), "destroy");
}

/* ---- several processes ----------------------------------------------------------------------------------------------- */

#define PEERS 3
#define FIELDS 64		/* of 32 bits in a block */
struct block {
	uint64_t addr;
	uint32_t rkey;
};
struct told {
	uint32_t qpn;
	struct block b[4];		/* mixed sizes, 256 bytes only; in the arena, private */
};
/* The sum that each process has added: to every field of the mixed blocks; in all to each field of the other blocks. */
struct sums {
	uint32_t mixed[2][FIELDS], whole[2];
};

/* Adds to fields of 32 bits by every means: the order does not matter, so the sums must come out. */
static void mixed(struct here *h, struct ibv_qp *qp, const struct block *b, uint32_t *sum)
{
	struct op op = {.size = any_size()};
	uint64_t old[WORDS], new[WORDS];
	uint32_t at = (uint32_t)(draw() % (256 / op.size)) * op.size, n = op.size / 4, delta[FIELDS];

	op.form = op.size > 8 ? POINTER : IMMEDIATE;
	for (uint32_t i = 0; i < n; i++)
		delta[i] = (uint32_t)draw();
	for (uint32_t w = 0; w < (n + 1) / 2; w++) {
		op.v[0][w] = delta[2 * w] | (n > 1 ? (uint64_t)delta[2 * w + 1] << 32 : 0);
		op.v[1][w] = 1ull << 31;
	}
	if (draw() % 3) {
		run(h, qp, &op, b->addr + at, b->rkey, old);
	} else {
		/* the same by compare and swap, repeated until no other process has changed the word between read and swap */
		struct op look = {.size = op.size, .form = op.form}, cas = {.cas = true, .size = op.size, .form = op.form};
		memset(cas.v[1], 0xff, sizeof(cas.v[1]));
		memset(cas.v[3], 0xff, sizeof(cas.v[3]));
		for (run(h, qp, &look, b->addr + at, b->rkey, old);;) {
			atomic_model(op.cas, op.size, op.v, old, new);
			memcpy(cas.v[0], old, sizeof(old));
			memcpy(cas.v[2], new, sizeof(new));
			run(h, qp, &cas, b->addr + at, b->rkey, old);
			if (!memcmp(old, cas.v[0], op.size))
				break;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		sum[at / 4 + i] += delta[i];
}

/* All fields of a block are equal at each read of the whole block. */
static void whole(struct here *h, struct ibv_qp *qp, const struct block *b, uint32_t *sum)
{
	struct op op = {.size = widest(), .form = POINTER};
	uint64_t old[WORDS];
	uint32_t delta = (uint32_t)draw();

	for (uint32_t w = 0; w < WORDS; w++) {
		op.v[0][w] = (uint64_t)delta << 32 | delta;
		op.v[1][w] = 1ull << 31;
	}
	run(h, qp, &op, b->addr, b->rkey, old);
	*sum += delta;
	for (uint32_t w = 0; w < op.size / 8; w++)
		CHECK((uint32_t)old[w] == (uint32_t)old[0] && old[w] >> 32 == (uint32_t)old[0], "word %u is torn: %#lx, %#lx", w,
		      (unsigned long)old[w], (unsigned long)old[0]);
}

static void work(struct here *h, struct ibv_qp *qp, const struct block *b, struct sums *s, int n)
{
	for (int i = 0; i < n; i++) {
		int lane = draw() & 1;
		if (draw() % 4)
			mixed(h, qp, &b[2 * lane], s->mixed[lane]);
		else
			whole(h, qp, &b[2 * lane + 1], &s->whole[lane]);
	}
}

static void child(struct vt_peer *p, int n, int number)
{
	struct here h = enter();
	struct ibv_qp *qp = make(&h, number & 1 ? CROSS : 0, widest());
	struct sums s;
	struct told t;

	memset(&s, 0, sizeof(s));
	rng = 77 + (uint64_t)number;
	vt_tell(p, &qp->qp_num, sizeof(qp->qp_num));
	vt_hear(p, &t, sizeof(t));
	vt_connect(qp, t.qpn);
	vt_meet(p);
	work(&h, qp, t.b, &s, n);
	vt_tell(p, &s, sizeof(s));
	vt_meet(p);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(h.cq) && !ibv_dereg_mr(h.mr), "destroy");
	vt_close(&h.t);
	exit(0);
}

static void together(struct here *h, struct vt_peer *p, char *const mem[2], struct ibv_mr *const mr[2], int n)
{
	struct ibv_qp *qp[PEERS + 1];
	struct sums all, s;
	struct told t;

	memset(mem[0], 0, 1024);
	memset(mem[1], 0, 1024);
	memset(&all, 0, sizeof(all));
	for (int i = 0; i < 4; i++)
		t.b[i] = (struct block){(uintptr_t)mem[i / 2] + 512 * (i & 1), mr[i / 2]->rkey};
	for (int i = 0; i <= PEERS; i++) {
		uint32_t to;
		qp[i] = make(h, 0, widest());
		to = qp[i]->qp_num;
		if (i < PEERS)
			vt_hear(&p[i], &to, sizeof(to));
		vt_connect(qp[i], to);
		t.qpn = qp[i]->qp_num;
		if (i < PEERS)
			vt_tell(&p[i], &t, sizeof(t));
	}
	for (int i = 0; i < PEERS; i++)
		vt_meet(&p[i]);
	work(h, qp[PEERS], t.b, &all, n);
	for (int i = 0; i < PEERS; i++) {
		vt_hear(&p[i], &s, sizeof(s));
		for (int lane = 0; lane < 2; lane++) {
			all.whole[lane] += s.whole[lane];
			for (int k = 0; k < FIELDS; k++)
				all.mixed[lane][k] += s.mixed[lane][k];
		}
	}
	for (int lane = 0; lane < 2; lane++)
		for (int k = 0; k < FIELDS; k++) {
			uint32_t a = ((uint32_t *)mem[lane])[k], b = ((uint32_t *)(mem[lane] + 512))[k];
			CHECK(a == all.mixed[lane][k], "lane %d, field %d: %#x, not %#x", lane, k, a, all.mixed[lane][k]);
			CHECK(b == (4 * (uint32_t)k < widest() ? all.whole[lane] : 0),
			      "lane %d, field %d of the whole: %#x, not %#x", lane, k, b, all.whole[lane]);
		}
	for (int i = 0; i < PEERS; i++) {
		vt_meet(&p[i]);
		vt_join(&p[i]);
	}
	for (int i = 0; i <= PEERS; i++)
		CHECK(!ibv_destroy_qp(qp[i]), "destroy");
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 3000;
	struct vt_peer p[PEERS];
	struct ibv_mr *mr[2];
	char *mem[2];

	vt_fabric();
	for (int i = 0; i < PEERS; i++) {
		p[i] = vt_fork();
		if (!p[i].child)
			child(&p[i], n, i);
	}
	struct here h = enter();
	rng = argc > 2 ? strtoull(argv[2], NULL, 0) | 1 : 4711;
	mem[0] = shca_alloc(h.t.ctx, 4096);
	mem[1] = aligned_alloc(4096, 4096);
	CHECK(mem[0] && mem[1], "no memory");
	for (int i = 0; i < 2; i++) {
		mr[i] = vt_mr(&h.t, mem[i], 4096, VT_ACCESS);
		memset(mem[i], 0, 4096);
	}
	if (!vt_mlx5())
		capabilities(&h);
	for (int i = 0; i < 2; i++) {
		alone(&h, mem[i], mr[i], 0, n);
		if (vt_mlx5())
			continue;
		alone(&h, mem[i], mr[i], CROSS | IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY, n);
		refusals(&h, mem[i], mr[i]);
		when_read(&h, mem[i], mr[i]);
	}
	together(&h, p, mem, mr, n);
	for (int i = 0; i < 2; i++)
		CHECK(!ibv_dereg_mr(mr[i]), "dereg");
	CHECK(!shca_free(h.t.ctx, mem[0]) && !ibv_dereg_mr(h.mr) && !ibv_destroy_cq(h.cq), "free");
	vt_close(&h.t);
	return 0;
}
