/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that may not be read or written: the result of ibv_reg_mr, and of requests when a mapping's protection
 * changes after registration, is unmapped, or loses its file. Never a signal. In a process with itself, and between two; with
 * process_vm_readv and without (SHCA_CMA=no).
 */
#include <fcntl.h>
#include <signal.h>
#include <infiniband/verbs_exp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "vt.h"

#define PAGE 4096u

static struct vt t;
static struct ibv_cq *scq, *rcq;

/* ---- registration -------------------------------------------------------------------------------------------------- */

static char *map(size_t bytes, int prot)
{
	char *p = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED, "mmap");
	return p;
}

static char *map_file(size_t file, size_t bytes, int prot, int flags)
{
	int fd = memfd_create("protection", 0);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)file), "memfd");
	if (!(prot & PROT_WRITE)) {
		/* opened for reading only: the mapping cannot be made writable either */
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		int ro = open(path, O_RDONLY);
		CHECK(ro >= 0, "open");
		close(fd);
		fd = ro;
	}
	char *p = mmap(NULL, bytes, prot, flags, fd, 0);
	CHECK(p != MAP_FAILED, "mmap");
	close(fd);
	return p;
}

#define READS IBV_ACCESS_REMOTE_READ
#define WRITES IBV_ACCESS_LOCAL_WRITE

/* Whether a range may be registered for reading and for writing, and is right in itself on demand. */
static void registers(const char *what, char *p, size_t n, bool read, bool write)
{
	const unsigned flags[] = {0, READS, WRITES, WRITES | IBV_ACCESS_REMOTE_WRITE, WRITES | IBV_ACCESS_REMOTE_ATOMIC,
				  IBV_ACCESS_ON_DEMAND | WRITES, IBV_ACCESS_ON_DEMAND | READS,
					  WRITES | IBV_ACCESS_RELAXED_ORDERING};

	for (unsigned i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		bool ok = flags[i] & IBV_ACCESS_ON_DEMAND || (flags[i] & WRITES ? write : read);
		struct ibv_mr *mr = ibv_reg_mr(t.pd, p, n, (int)flags[i]);
		CHECK(ok == !!mr && (mr || errno == EFAULT), "%s, access %#x: %p", what, flags[i], (void *)mr);
		CHECK(!mr || !ibv_dereg_mr(mr), "ibv_dereg_mr");
	}
}

/* pages: in front of, and behind, the page that differs. */
static void registration(size_t pages)
{
	size_t n = (2 * pages + 1) * PAGE, at = pages * PAGE;
	char *p = map(n, PROT_READ | PROT_WRITE);

	registers("ordinary", p, n, true, true);
	registers("ordinary, not whole pages", p + 100, n - 200, true, true);
	CHECK(!mprotect(p + at, PAGE, PROT_READ), "mprotect");
	registers("a page that is read only", p, n, true, false);
	registers("beside a page that is read only", p, at, true, true);
	registers("one byte of a page that is read only", p, at + 1, true, false);
	CHECK(!mprotect(p + at, PAGE, PROT_NONE), "mprotect");
	registers("a page without rights", p, n, false, false);
	CHECK(!munmap(p + at, PAGE), "munmap");
	registers("a hole", p, n, false, false);
	registers("beside a hole", p + at + PAGE, n - at - PAGE, true, true);
	CHECK(!munmap(p, at) && !munmap(p + at + PAGE, n - at - PAGE), "munmap");
	registers("unmapped", p, n, false, false);
	p = map(n, PROT_READ);
	registers("read only", p, n, true, false);
	munmap(p, n);
	p = map_file(n, n, PROT_READ | PROT_WRITE, MAP_SHARED);
	registers("a file", p, n, true, true);
	munmap(p, n);
	p = map_file(n, n, PROT_READ, MAP_SHARED);
	registers("a file mapped for reading", p, n, true, false);
	munmap(p, n);
	p = map_file(n, n, PROT_READ, MAP_PRIVATE);
	registers("a file mapped for reading, privately", p, n, true, false);
	munmap(p, n);
	p = map_file(at + PAGE, n + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	registers("a file, up to its end", p, at + PAGE, true, true);
	registers("a file beyond its end", p, n + PAGE, false, false);
	munmap(p, n + PAGE);
}

static void reregistration(void)
{
	char *p = map(2 * PAGE, PROT_READ), *q = map(PAGE, PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = vt_mr(&t, p, 2 * PAGE, READS);

	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, WRITES) && errno == EFAULT,
	      "rights that the memory has not");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, p, PAGE, WRITES) &&
		      errno == EFAULT,
	      "memory without the rights");
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, NULL, q, PAGE, WRITES),
	      "memory with them");
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PAGE, 0) && errno == EFAULT, "the rights that it had");
	CHECK(!mprotect(p, 2 * PAGE, PROT_READ | PROT_WRITE) &&
		      !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PAGE, 0),
	      "memory that has them by now");
	CHECK(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	munmap(p, 2 * PAGE);
	munmap(q, PAGE);
}

/* As before Linux 6.11. */
static void forbid_query(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)_IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104), 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {sizeof(f) / sizeof(*f), f};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), "seccomp");
}

static void all_registrations(void)
{
	struct rlimit old, none;

	/* short ones and long ones are looked up in different ways on older kernels */
	registration(1);
	registration(200);
	reregistration();
	CHECK(!getrlimit(RLIMIT_NOFILE, &old), "getrlimit");
	none = old;
	none.rlim_cur = 3;
	char *p = map(PAGE, PROT_READ);
	CHECK(!setrlimit(RLIMIT_NOFILE, &none), "setrlimit");
	registers("read only, without a descriptor to spare", p, PAGE, true, false);
	CHECK(!setrlimit(RLIMIT_NOFILE, &old), "setrlimit");
	forbid_query();
	registration(1);
	registration(200);
}

/* ---- requests ------------------------------------------------------------------------------------------------------ */

enum fault { NO_ACCESS, READ_ONLY, UNMAPPED, TRUNCATED, FAULTS };
static const char *const fault_names[] = {"PROT_NONE", "PROT_READ", "unmapped", "truncated"};

enum op { SEND, SEND_LATE, WRITE, WRITE_PLAIN, WRITE_IMM, READ, FETCH_ADD, OPS };
static const char *const op_names[] = {"SEND", "SEND to a late receive", "WRITE", "unsignaled WRITE", "WRITE with immediate",
				       "READ", "FETCH_AND_ADD"};

/* One case: of which side the memory is bad, and where the other's lies. */
struct job {
	enum op op;
	enum fault fault;
	bool local;			/* the requester's memory is the bad one */
	bool arena;			/* the other's is in the fabric */
	uint32_t len, qpn;
};

struct answer {
	uint64_t addr;
	uint32_t rkey, qpn;
};

struct memory {
	char *p;
	size_t bytes;
	int fd;
	bool arena;
	struct ibv_mr *mr;
};

static struct memory memory_of(uint32_t len, bool arena)
{
	struct memory m = {.bytes = (len + PAGE - 1) / PAGE * PAGE, .fd = -1, .arena = arena};

	if (arena) {
		m.p = shca_alloc(t.ctx, m.bytes);
	} else {
		m.fd = memfd_create("protection", 0);
		CHECK(m.fd >= 0 && !ftruncate(m.fd, (off_t)m.bytes), "memfd");
		m.p = mmap(NULL, m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
	}
	CHECK(m.p && m.p != MAP_FAILED, "memory");
	memset(m.p, 1, m.bytes);
	m.mr = vt_mr(&t, m.p, m.bytes, VT_ACCESS);
	return m;
}

/* Applies the fault to the memory's last page. */
static void spoil(struct memory *m, enum fault fault)
{
	char *last = m->p + m->bytes - PAGE;

	CHECK(fault == NO_ACCESS ? !mprotect(last, PAGE, PROT_NONE) : fault == READ_ONLY ? !mprotect(last, PAGE, PROT_READ) :
	      fault == UNMAPPED ? !munmap(last, PAGE) : !ftruncate(m->fd, (off_t)(m->bytes - PAGE)), "%s", fault_names[fault]);
}

static void release(struct memory *m)
{
	CHECK(!ibv_dereg_mr(m->mr), "ibv_dereg_mr");
	if (m->arena)
		CHECK(!shca_free(t.ctx, m->p), "shca_free");
	else
		CHECK(!munmap(m->p, m->bytes) && !close(m->fd), "munmap");
}

static struct ibv_qp *make(void)
{
	struct ibv_qp_init_attr a = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(t.pd, &a);

	CHECK(qp, "ibv_create_qp");
	return qp;
}

static bool takes_receive(enum op op)
{
	return op == SEND || op == SEND_LATE || op == WRITE_IMM;
}

/* Whether the bad memory is written to. */
static bool stores(const struct job *j)
{
	return j->local ? j->op == READ || j->op == FETCH_ADD : j->op != READ;
}

static bool fails(const struct job *j)
{
	return j->fault != READ_ONLY || stores(j);
}

/* The responder. */
static struct memory target;
static struct ibv_qp *responder;

static void receive(void)
{
	CHECK(!vt_recv(responder, 7, vt_sge(target.mr, 0, (uint32_t)target.bytes)), "receive");
}

static struct answer prepare(const struct job *j)
{
	responder = make();
	target = memory_of(j->len, j->local && j->arena);
	vt_connect(responder, j->qpn);
	if (takes_receive(j->op) && j->op != SEND_LATE)
		receive();
	return (struct answer){(uintptr_t)target.p, target.mr->rkey, responder->qp_num};
}

static void check_receive(const struct job *j)
{
	if (j->op == SEND_LATE)
		receive();
	/* a request that does not leave the requester takes none */
	if (!takes_receive(j->op) || (j->local && fails(j)))
		return;
	bool here = !j->local && fails(j) && j->op != WRITE_IMM;
	struct ibv_wc wc = vt_wait(rcq);
	enum ibv_wc_status want = here ? IBV_WC_LOC_PROT_ERR : fails(j) ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
	CHECK(wc.wr_id == 7 && wc.status == want, "%s, %s: the receive has %s", op_names[j->op], fault_names[j->fault],
	      ibv_wc_status_str(wc.status));
}

static void finish(void)
{
	struct ibv_async_event e;

	CHECK(!ibv_destroy_qp(responder), "destroy");
	release(&target);
	while (!ibv_get_async_event(t.ctx, &e))
		ibv_ack_async_event(&e);
}

static void post(struct ibv_qp *qp, const struct job *j, const struct memory *m, const struct answer *a)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
	/* two pieces, of which the second is bad; or one, as most have */
	uint32_t first = j->len > 4096 && j->len % 2 ? 1000 : 0;
	struct ibv_sge s[2] = {vt_sge(m->mr, 0, first), vt_sge(m->mr, first, j->len - first)};
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = first ? s : s + 1, .num_sge = first ? 2 : 1, .opcode = opcodes[j->op],
				 .send_flags = j->op == WRITE_PLAIN ? 0 : IBV_SEND_SIGNALED}, *bad;

	if (j->op == FETCH_ADD) {
		wr.wr.atomic.remote_addr = a->addr;
		wr.wr.atomic.rkey = a->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = a->addr;
		wr.wr.rdma.rkey = a->rkey;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
}

static void check_request(const struct job *j)
{
	if (j->op == WRITE_PLAIN && !fails(j)) {
		vt_none(scq);
		return;
	}
	enum ibv_wc_status want = !fails(j) ? IBV_WC_SUCCESS : j->local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR;
	struct ibv_wc wc = vt_wait(scq);
	CHECK(wc.wr_id == 3 && wc.status == want, "%s of %u bytes, %s memory %s, the other's %s: %s", op_names[j->op], j->len,
	      j->local ? "local" : "remote", fault_names[j->fault], j->arena ? "in the arena" : "private",
	      ibv_wc_status_str(wc.status));
}

static void run(struct vt_peer *peer, struct job j)
{
	struct ibv_qp *qp = make();
	struct answer a;

	j.qpn = qp->qp_num;
	if (peer) {
		vt_tell(peer, &j, sizeof(j));
		vt_hear(peer, &a, sizeof(a));
	} else {
		a = prepare(&j);
	}
	struct memory m = memory_of(j.len, !j.local && j.arena);
	vt_connect(qp, a.qpn);
	/* last: a later mapping may take the place of the unmapped one */
	if (j.local)
		spoil(&m, j.fault);
	else if (!peer)
		spoil(&target, j.fault);
	post(qp, &j, &m, &a);
	if (peer)
		vt_meet(peer);
	else
		check_receive(&j);
	check_request(&j);
	CHECK(!ibv_destroy_qp(qp), "destroy");
	if (peer)
		vt_meet(peer);
	else
		finish();
	release(&m);
	struct ibv_wc wc;
	while (ibv_poll_cq(rcq, 1, &wc) > 0)
		;
}

static void requests(struct vt_peer *peer)
{
	static const uint32_t lens[] = {8, 100, 5000, 70001, 700000};

	for (int op = 0; op < OPS; op++)
		for (int fault = 0; fault < FAULTS; fault++)
			for (unsigned k = 0; k < (op == FETCH_ADD ? 1 : sizeof(lens) / sizeof(*lens)); k++)
				for (int way = 0; way < 4; way++)
					run(peer, (struct job){op, fault, way & 1, way & 2, lens[k], 0});
}

static void answer(struct vt_peer *peer)
{
	struct job j;

	for (vt_hear(peer, &j, sizeof(j)); j.op < OPS; vt_hear(peer, &j, sizeof(j))) {
		struct answer a = prepare(&j);
		if (!j.local)
			spoil(&target, j.fault);
		vt_tell(peer, &a, sizeof(a));
		vt_meet(peer);
		check_receive(&j);
		vt_meet(peer);
		finish();
		struct ibv_wc wc;
		while (ibv_poll_cq(rcq, 1, &wc) > 0)
			;
	}
}

/* ---- other requests that read or write private memory -------------------------------------------------------------- */

static struct ibv_qp *exp_qp(void)
{
	struct ibv_exp_qp_init_attr a = {
		.send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_RC, .pd = t.pd, .comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
		IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL, .max_atomic_arg = 64,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 64},
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t.ctx, &a);

	CHECK(qp, "ibv_exp_create_qp");
	return qp;
}

static void post_exp(const char *what, const struct ibv_exp_send_wr *wr, const struct memory *r, enum ibv_wc_status want)
{
	struct ibv_qp *a = exp_qp(), *b = exp_qp();
	struct ibv_exp_send_wr w = *wr, *bad;

	vt_connect_pair(a, b);
	CHECK(!vt_recv(b, 7, vt_sge(r->mr, 0, PAGE)) && !ibv_exp_post_send(a, &w, &bad), "%s: post", what);
	struct ibv_wc wc = vt_wait(scq);
	CHECK(wc.status == want, "%s: %s", what, ibv_wc_status_str(wc.status));
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
	while (ibv_poll_cq(rcq, 1, &wc) > 0)
		;
	struct ibv_async_event e;
	while (!ibv_get_async_event(t.ctx, &e))
		ibv_ack_async_event(&e);
}

static void experimental(enum fault fault)
{
	struct memory good = memory_of(PAGE, false), bad = memory_of(PAGE, false), r = memory_of(PAGE, false);
	struct ibv_sge ok = vt_sge(good.mr, 0, 16), no = vt_sge(bad.mr, 0, 16), list[2] = {ok, no};

	spoil(&bad, fault);
	for (int size = 4; size <= 16; size *= 2) {
		struct ibv_exp_send_wr wr = {
			.exp_opcode = IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, .sg_list = &ok, .num_sge = 1,
			.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_EXT_ATOMIC_INLINE,
			.ext_op.masked_atomics = {.log_arg_sz = size == 4 ? 2 : size == 8 ? 3 : 4,
						  .remote_addr = (uintptr_t)bad.p, .rkey = bad.mr->rkey},
		};
		uint64_t operands[2][2] = {{1, 0}, {0, 0}};
		if (size > 8) {
			wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = (uintptr_t)operands[0];
			wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.field_boundary = (uintptr_t)operands[1];
		}
		wr.sg_list->length = (uint32_t)size;
		post_exp("a masked atomic", &wr, &r, IBV_WC_REM_OP_ERR);
		wr.sg_list = &no;
		no.length = (uint32_t)size;
		wr.ext_op.masked_atomics.remote_addr = (uintptr_t)good.p;
		wr.ext_op.masked_atomics.rkey = good.mr->rkey;
		post_exp("a masked atomic's result", &wr, &r, IBV_WC_LOC_PROT_ERR);
	}
	ok.length = no.length = 16;
	struct ibv_exp_send_wr calc = {
		.exp_opcode = IBV_EXP_WR_SEND, .sg_list = list, .num_sge = 2,
		.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_WITH_CALC,
		.op.calc = {.calc_op = IBV_EXP_CALC_OP_ADD, .data_type = IBV_EXP_CALC_DATA_TYPE_UINT,
			    .data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT},
	};
	post_exp("an operand of CALC", &calc, &r, fault == READ_ONLY ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	release(&r);
	release(&good);
	release(&bad);
}

static void datagram(enum fault fault)
{
	struct memory bad = memory_of(100, false), good = memory_of(200, false);
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_UD, scq, NULL), *b = vt_qp(&t, IBV_QPT_UD, rcq, NULL);
	struct ibv_ah_attr here = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(t.pd, &here);
	struct ibv_sge s = vt_sge(bad.mr, 0, 100);
	struct ibv_send_wr wr = {.wr_id = 3, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED}, *w;

	CHECK(ah, "ibv_create_ah");
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = b->qp_num;
	wr.wr.ud.remote_qkey = VT_QKEY;
	vt_connect(a, 0);
	vt_connect(b, 0);
	spoil(&bad, fault);
	CHECK(!vt_recv(b, 7, vt_sge(good.mr, 0, 200)) && !ibv_post_send(a, &wr, &w), "post");
	vt_expect(scq, 3, fault == READ_ONLY ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_ah(ah), "destroy");
	release(&bad);
	release(&good);
}

/* Memory on demand is checked when used. */
static void on_demand(bool implicit)
{
	char *p = map(PAGE, PROT_READ);
	struct ibv_mr *mr = vt_mr(&t, implicit ? NULL : p, implicit ? SIZE_MAX : PAGE, VT_ACCESS | IBV_ACCESS_ON_DEMAND);
	struct memory good = memory_of(PAGE, false);

	for (int fine = 0; fine < 2; fine++) {
		struct ibv_qp *a = make(), *b = make();
		vt_connect_pair(a, b);
		CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(good.mr, 0, 64), (uintptr_t)p, mr->rkey), "post");
		vt_expect(scq, 1, fine ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR);
		CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !mprotect(p, PAGE, PROT_READ | PROT_WRITE), "destroy");
	}
	CHECK(!ibv_dereg_mr(mr), "dereg");
	release(&good);
	munmap(p, PAGE);
}

static void open_all(void)
{
	t = vt_open();
	CHECK(!fcntl(t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	scq = vt_cq(&t, 64, NULL);
	rcq = vt_cq(&t, 64, NULL);
}

static void close_all(void)
{
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq), "destroy");
	vt_close(&t);
}

/* Runs each of these in a child process: a signal shows in the exit status. */
static void with_itself(void)
{
	open_all();
	requests(NULL);
	for (int fault = 0; fault < FAULTS; fault++) {
		experimental(fault);
		datagram(fault);
	}
	on_demand(false);
	on_demand(true);
	close_all();
}

static void between_two(void)
{
	struct vt_peer peer = vt_fork();

	open_all();
	if (peer.child) {
		requests(&peer);
		struct job end = {.op = OPS};
		vt_tell(&peer, &end, sizeof(end));
	} else {
		answer(&peer);
	}
	close_all();
	if (!peer.child)
		exit(0);
	vt_join(&peer);
}

/* Memory for which the owner vouches: if the other side lies in the fabric, the CPU loads and stores that memory; elsewhere
 * nothing changes. */
static void vouched(void)
{
	static const uint32_t lengths[] = {8, 64, 100, 5000, 100000};

	open_all();
	for (int arena = 0; arena < 2; arena++)
		for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
			uint32_t len = lengths[i];
			struct memory far = memory_of(len, arena), near = memory_of(len, false);
			struct ibv_mr *mr = vt_mr(&t, near.p, near.bytes, VT_ACCESS | SHCA_ACCESS_VOUCHED);
			struct ibv_mr *both = vt_mr(&t, far.p, far.bytes, VT_ACCESS | SHCA_ACCESS_VOUCHED);
			struct ibv_qp *a = make(), *b = make();
			vt_connect_pair(a, b);
			for (uint32_t k = 0; k < len; k++)
				near.p[k] = (char)(k * 7 + len);
			CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(mr, 0, len), (uintptr_t)far.p, far.mr->rkey), "write");
			vt_expect(scq, 1, IBV_WC_SUCCESS);
			CHECK(!memcmp(far.p, near.p, len), "WRITE of %u bytes", len);
			memset(near.p, 0, near.bytes);
			CHECK(!vt_rdma(a, IBV_WR_RDMA_READ, 2, vt_sge(mr, 0, len), (uintptr_t)far.p, far.mr->rkey), "read");
			vt_expect(scq, 2, IBV_WC_SUCCESS);
			CHECK(!memcmp(far.p, near.p, len), "READ of %u bytes", len);
			if (!arena) {	/* the kernel copies, and reports which side's memory is at fault */
				spoil(&near, NO_ACCESS);
				uint32_t all = (uint32_t)near.bytes;
				CHECK(!vt_rdma(a, IBV_WR_RDMA_READ, 3, vt_sge(mr, 0, all), (uintptr_t)far.p, far.mr->rkey),
				      "read");
				vt_expect(scq, 3, IBV_WC_LOC_PROT_ERR);
				/* a SEND has vouched memory on both sides: the same */
				CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b), "destroy");
				a = make(), b = make();
				vt_connect_pair(a, b);
				CHECK(!vt_recv(b, 5, vt_sge(both, 0, all)) &&
					      !vt_send(a, 4, vt_sge(mr, 0, all), IBV_SEND_SIGNALED),
				      "send");
				vt_expect(scq, 4, IBV_WC_LOC_PROT_ERR);
			}
			CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_dereg_mr(mr) && !ibv_dereg_mr(both), "destroy");
			release(&far);
			release(&near);
		}
	close_all();
}

/* Memory that was vouched for and is not mapped: a signal. */
static void vouched_wrongly(void)
{
	struct rlimit none = {0, 0};

	CHECK(!setrlimit(RLIMIT_CORE, &none), "setrlimit");
	open_all();
	struct memory far = memory_of(PAGE, true), near = memory_of(PAGE, false);
	struct ibv_mr *mr = vt_mr(&t, near.p, near.bytes, VT_ACCESS | SHCA_ACCESS_VOUCHED);
	struct ibv_qp *a = make(), *b = make();
	vt_connect_pair(a, b);
	spoil(&near, NO_ACCESS);
	vt_rdma(a, IBV_WR_RDMA_READ, 1, vt_sge(mr, 0, 64), (uintptr_t)far.p, far.mr->rkey);
}

/* Memory of shca_alloc is a mapping of the fabric, which the program must not protect. If the program does, registration does not
 * notice; ... */
static void arena_registrations(void)
{
	open_all();
	for (unsigned fault = NO_ACCESS; fault <= READ_ONLY; fault++) {
		struct memory m = memory_of(4 * PAGE, true);
		registers("memory of shca_alloc", m.p, m.bytes, true, true);
		spoil(&m, fault);
		registers(fault_names[fault], m.p, m.bytes, true, true);
		CHECK(!mprotect(m.p, m.bytes, PROT_READ | PROT_WRITE), "mprotect");
		release(&m);
	}
	close_all();
}

/* ... a peer reaches that memory by the peer's mapping of the fabric, and is not concerned; ... */
static void arena_between_two(void)
{
	struct vt_peer peer = vt_fork();
	struct { uint64_t addr; uint32_t rkey, qpn; } mine, other;

	open_all();
	struct ibv_qp *qp = make();
	struct memory m = memory_of(4 * PAGE, true);
	mine.addr = (uintptr_t)m.p;
	mine.rkey = m.mr->rkey;
	mine.qpn = qp->qp_num;
	vt_tell(&peer, &mine, sizeof(mine));
	vt_hear(&peer, &other, sizeof(other));
	vt_connect(qp, other.qpn);
	if (!peer.child)
		spoil(&m, NO_ACCESS);
	vt_meet(&peer);
	if (peer.child) {
		memset(m.p, 7, m.bytes);
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 1, vt_sge(m.mr, 0, (uint32_t)m.bytes), other.addr, other.rkey), "write");
		vt_expect(scq, 1, IBV_WC_SUCCESS);
	}
	vt_meet(&peer);
	if (!peer.child) {
		CHECK(!mprotect(m.p, m.bytes, PROT_READ | PROT_WRITE), "mprotect");
		CHECK(m.p[m.bytes - PAGE] == 7, "the peer has written");
	}
	CHECK(!ibv_destroy_qp(qp), "destroy");
	release(&m);
	close_all();
	if (!peer.child)
		exit(0);
	vt_join(&peer);
}

/* ... but a request that the owner executes itself is a load or a store there, and ends the owner. */
static void arena_by_itself(void)
{
	struct rlimit none = {0, 0};

	CHECK(!setrlimit(RLIMIT_CORE, &none), "setrlimit");
	open_all();
	struct memory m = memory_of(PAGE, true), far = memory_of(PAGE, true);
	struct ibv_qp *a = make(), *b = make();
	vt_connect_pair(a, b);
	spoil(&m, NO_ACCESS);
	vt_rdma(a, IBV_WR_RDMA_WRITE, 1, vt_sge(m.mr, 0, 64), (uintptr_t)far.p, far.mr->rkey);
}

static void just_registrations(void)
{
	open_all();
	all_registrations();
	close_all();
}

/* sig: the signal that ends the process; 0: none. */
static void in_process(const char *what, void (*f)(void), int sig)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0, "fork");
	if (!pid) {
		alarm(120);
		f();
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
	CHECK(sig ? WIFSIGNALED(status) && WTERMSIG(status) == sig : WIFEXITED(status) && !WEXITSTATUS(status),
	      "%s: status %#x", what, (unsigned)status);
}

int main(void)
{
	vt_fabric();
	for (int cma = 1; cma >= 0; cma--) {
		CHECK(!setenv("SHCA_CMA", cma ? "yes" : "no", 1), "setenv");
		in_process("registrations", just_registrations, 0);
		in_process("requests of a process to itself", with_itself, 0);
		in_process("requests between two processes", between_two, 0);
		in_process("memory that is vouched for", vouched, 0);
		in_process("memory that is vouched for and protected", vouched_wrongly, SIGSEGV);
		in_process("registrations of protected memory of shca_alloc", arena_registrations, 0);
		in_process("protected memory of shca_alloc, between two processes", arena_between_two, 0);
		in_process("protected memory of shca_alloc, by its owner", arena_by_itself, SIGSEGV);
	}
	return 0;
}
