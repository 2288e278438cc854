/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One process's objects: refusals, after which everything works on; changed regions, from the next request on; where addresses
 * lead; references that hold up a destruction, and threads that a destruction wakes.
 */
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs_exp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "vt.h"

#define HALF 2048
#define XRC_SRQ (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ)

static struct vt t;
static struct ibv_pd *other;			/* another domain than that of a and b */
static struct ibv_cq *cq;
static struct ibv_qp *a, *b;			/* connected to each other */
static _Alignas(64) char mem[2 * HALF], elsewhere[HALF];	/* the first half is sent from, the second is received into */
static struct ibv_mr *mr;

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, 0);

	CHECK(n >= 0, "poll");
	return n > 0;
}

static void connect_again(void)
{
	CHECK(!vt_to(a, IBV_QPS_RESET) && !vt_to(b, IBV_QPS_RESET), "reset");
	vt_connect_pair(a, b);
}

static void works(const char *after)
{
	static char n;

	mem[0] = ++n;
	CHECK(!vt_recv(b, 1, vt_sge(mr, HALF, 8)) && !vt_send(a, 2, vt_sge(mr, 0, 8), 0), "post after %s", after);
	vt_expect(cq, 1, IBV_WC_SUCCESS);
	CHECK(mem[HALF] == n, "wrong data after %s", after);
	vt_none(cq);
}

/* Of a verb that returns an object: 0, or errno. */
static int made(const void *object)
{
	return object ? 0 : errno;
}

/* And of one that returns -1: */
static int done(int rc)
{
	return rc == -1 ? errno : rc;
}

static void refused(const char *what, int err, int expected)
{
	CHECK(err == expected, "%s: %d, expected %d", what, err, expected);
	works(what);
}

/* ---- regions ------------------------------------------------------------------------------------------------- */

/* A write to this address changes `here`. NULL: the write is refused. */
static void writes(const char *what, uint64_t raddr, uint32_t rkey, const char *here)
{
	static char n = 'A';

	mem[0] = n = n == 'Z' ? 'A' : (char)(n + 1);
	memset(mem + 1, n, 7);
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 3, vt_sge(mr, 0, 8), raddr, rkey), "%s: post", what);
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.status == (here ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR), "%s: %s", what, ibv_wc_status_str(wc.status));
	if (here)
		CHECK(!memcmp(here, mem, 8), "%s: not where it belongs", what);
	else
		connect_again();
}

/* A fetch-and-add: both the address in the request and the address of the memory must be aligned. */
static void adds(uint64_t raddr, uint32_t rkey, enum ibv_wc_status status)
{
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 4, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.atomic = { .remote_addr = raddr, .compare_add = 1, .rkey = rkey } }, *bad;

	CHECK(!ibv_post_send(a, &wr, &bad), "post");
	vt_expect(cq, 4, status);
	if (status != IBV_WC_SUCCESS)
		connect_again();
}

static void region_addresses(void)
{
	char *to = mem + HALF;
	struct ibv_mr *zero = ibv_reg_mr(t.pd, to, 64, VT_ACCESS | IBV_ACCESS_ZERO_BASED);
	struct ibv_mr *own = ibv_reg_mr_iova2(t.pd, to, 64, 0x10000, VT_ACCESS);

	CHECK(zero && own, "register");
	writes("zero-based", 8, zero->rkey, to + 8);
	writes("zero-based, by its address", (uintptr_t)to + 8, zero->rkey, NULL);
	writes("an address of the program's choice", 0x10010, own->rkey, to + 16);
	writes("the memory's address", (uintptr_t)to + 8, own->rkey, NULL);
	CHECK(!ibv_dereg_mr(zero) && !ibv_dereg_mr(own), "dereg");
	own = ibv_reg_mr_iova2(t.pd, to, 64, 0x10004, VT_ACCESS);
	CHECK(own, "register");
	adds(0x10004, own->rkey, IBV_WC_REM_INV_REQ_ERR);
	adds(0x10008, own->rkey, IBV_WC_REM_INV_REQ_ERR);
	CHECK(!ibv_dereg_mr(own), "dereg");
	own = ibv_reg_mr_iova2(t.pd, to, 64, 0x10000, VT_ACCESS);
	CHECK(own, "register");
	adds(0x10008, own->rkey, IBV_WC_SUCCESS);
	CHECK(!ibv_dereg_mr(own), "dereg");
	refused("memory of another device", made(ibv_reg_dmabuf_mr(t.pd, 0, 64, (uintptr_t)to, 0, VT_ACCESS)), EOPNOTSUPP);
	refused("a file that is no domain of ours", made(ibv_import_device(0)) == EOPNOTSUPP, 0);
}

/* Source and target of a WRITE overlap in memory that the requester stores into: the bytes in common are undefined (IBTA), all
 * others are right, and nothing is undefined in C (the sanitizers look). */
static void overlapping(void)
{
	enum { BYTES = 8192, FROM = 2048 };
	static const struct {
		int target;				/* offset of the target from FROM */
		uint32_t length;
	} cases[] = {{56, 300}, {-56, 300}, {8, 64}, {64, 4096}, {-64, 4096}, {1, 65}, {0, 1024}, {17, 3000}};
	static const unsigned int flags[] = {IBV_SEND_SIGNALED, IBV_SEND_SIGNALED | IBV_SEND_INLINE};
	unsigned char *at = shca_alloc(t.ctx, BYTES), before[BYTES];
	CHECK(at, "shca_alloc");
	struct ibv_mr *arena = vt_mr(&t, at, BYTES, VT_ACCESS);

	for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
		uint32_t from = FROM, to = (uint32_t)(FROM + cases[i / 2].target), n = cases[i / 2].length;
		struct ibv_sge sge = vt_sge(arena, from, n);
		struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = flags[n <= 64 ? i % 2 : 0],
					  .wr.rdma = { .remote_addr = (uintptr_t)at + to, .rkey = arena->rkey } }, *bad;
		for (uint32_t k = 0; k < BYTES; k++)
			before[k] = at[k] = (unsigned char)(k * 7 + (k >> 8) + i);
		CHECK(!ibv_post_send(a, &wr, &bad), "post");
		vt_expect(cq, 5, IBV_WC_SUCCESS);
		for (uint32_t k = 0; k < BYTES; k++) {
			/* k - to >= n: also of bytes in front of the target */
			bool written = k - to < n;
			uint32_t source = written ? k - to + from : k;
			if (!written || source - to >= n)
				CHECK(at[k] == before[source], "WRITE of %u bytes to its source %+d: byte %u", n,
				      cases[i / 2].target, k);
		}
	}
	CHECK(!ibv_dereg_mr(arena), "dereg");
	shca_free(t.ctx, at);
}

static void region_changes(void)
{
	char *to = mem + HALF;
	struct ibv_mr *r = vt_mr(&t, to, 64, VT_ACCESS);
	uint32_t key = r->rkey;

	writes("as registered", (uintptr_t)to + 56, key, to + 56);
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 64, 0) && r->rkey == key, "move");
	writes("moved", (uintptr_t)elsewhere + 8, key, elsewhere + 8);
	writes("where it was", (uintptr_t)to + 8, key, NULL);
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 16, 0), "shorten");
	writes("shorter", (uintptr_t)elsewhere + 8, key, elsewhere + 8);
	writes("beyond its new end", (uintptr_t)elsewhere + 9, key, NULL);
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
	      "rights");
	writes("a right that was taken away", (uintptr_t)elsewhere, key, NULL);
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, VT_ACCESS), "rights");
	writes("a right that was given back", (uintptr_t)elsewhere, key, elsewhere);
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), "domain");
	writes("of another domain", (uintptr_t)elsewhere, key, NULL);
	CHECK(ibv_dealloc_pd(other) == EBUSY, "the region uses its new domain");
	CHECK(!ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_PD, t.pd, NULL, 0, 0), "domain");
	writes("of this domain again", (uintptr_t)elsewhere, key, elsewhere);

	refused("a change of nothing", done(ibv_rereg_mr(r, 0, NULL, NULL, 0, 0)), EINVAL);
	refused("an unknown change", done(ibv_rereg_mr(r, 1 << 7, NULL, NULL, 0, 0)), EINVAL);
	refused("to no domain", done(ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0)), EINVAL);
	refused("to nowhere", done(ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0)), EINVAL);
	refused("to what is not mapped", done(ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)64, 64, 0)), EFAULT);
	refused("remote without local", done(ibv_rereg_mr(r, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE)),
		EINVAL);
	writes("after what was refused", (uintptr_t)elsewhere + 8, key, elsewhere + 8);
	CHECK(!ibv_dereg_mr(r), "dereg");
}

static int advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, uint32_t lkey, size_t at, uint32_t n)
{
	struct ibv_sge sge = { .addr = (uintptr_t)elsewhere + at, .length = n, .lkey = lkey };

	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

static void advice(void)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	struct ibv_mr *demand = vt_mr(&t, elsewhere, 64, IBV_ACCESS_ON_DEMAND), *pinned = vt_mr(&t, elsewhere, 64, 0);
	uint32_t key = demand->lkey;

	CHECK(!advise(t.pd, read, 0, key, 0, 64) && !advise(t.pd, read, IBV_ADVISE_MR_FLAG_FLUSH, key, 64, 0), "advice");
	refused("advice for another domain", advise(other, read, 0, key, 0, 64), EPERM);
	refused("advice beyond the end", advise(t.pd, read, 0, key, 1, 64), EFAULT);
	refused("advice before the beginning", advise(t.pd, read, 0, key, (size_t)-1, 8), EFAULT);
	refused("advice behind the end", advise(t.pd, read, 0, key, 65, 0), EFAULT);
	refused("advice to write what is read-only", advise(t.pd, write, 0, key, 0, 64), EPERM);
	refused("advice for a region that is no such", advise(t.pd, read, 0, pinned->lkey, 0, 64), EINVAL);
	refused("advice for no region", advise(t.pd, read, 0, key ^ 0xff, 0, 64), ENOENT);
	refused("unknown advice", advise(t.pd, (enum ibv_advise_mr_advice)77, 0, key, 0, 64), EOPNOTSUPP);
	refused("unknown flags", advise(t.pd, read, 1 << 7, key, 0, 64), EINVAL);
	CHECK(!ibv_dereg_mr(demand) && !ibv_dereg_mr(pinned), "dereg");
}

/* ---- XRC ----------------------------------------------------------------------------------------------------- */

static struct ibv_xrcd *domain_of(struct ibv_context *ctx, int fd)
{
	struct ibv_xrcd_init_attr i = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = O_CREAT};
	struct ibv_xrcd *x = ibv_open_xrcd(ctx, &i);

	CHECK(x, "ibv_open_xrcd");
	return x;
}

static int domain_made(struct ibv_context *ctx, int fd, int oflags, struct ibv_xrcd **x)
{
	struct ibv_xrcd_init_attr i = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = oflags};

	*x = ibv_open_xrcd(ctx, &i);
	return *x ? 0 : errno;
}

static int racing_fd;
static _Atomic uint32_t racing_won, racing_here;

/* So that both go on in the same moment. */
static void race_starts(uint32_t *rounds)
{
	atomic_fetch_add(&racing_here, 1);
	*rounds += 2;
	for (uint32_t spins = 1; atomic_load(&racing_here) < *rounds; spins++)
		if (!(spins & 0xfff))
			sched_yield();
}

static void *race_for_domain(void *ctx)
{
	struct ibv_xrcd *x;
	uint32_t rounds = 0;

	for (int round = 0; round < 3000; round++) {
		race_starts(&rounds);
		int err = domain_made(ctx, racing_fd, O_CREAT | O_EXCL, &x);
		CHECK(!err || err == EINVAL, "an exclusive domain: %d", err);
		racing_won += !err;
		race_starts(&rounds);
		CHECK(racing_won == (uint32_t)round + 1, "%u have opened it exclusively after %d rounds", racing_won, round + 1);
		CHECK(!x || !ibv_close_xrcd(x), "close");
	}
	return NULL;
}

/* O_CREAT and O_EXCL, as the kernel has them for adapters; a domain exists while any living process has the domain open. */
static void domain_flags(void)
{
	struct ibv_context *second = vt_context();
	struct ibv_xrcd *x, *y, *z;
	char file[] = "/tmp/xrcd-XXXXXX";
	int fd = mkstemp(file), status;

	CHECK(fd >= 0 && !unlink(file), "a file");
	CHECK(domain_made(t.ctx, fd, 0, &x) == EAGAIN && domain_made(t.ctx, fd, O_EXCL, &x) == EAGAIN,
	      "a domain that is not there");
	CHECK(!domain_made(t.ctx, fd, O_CREAT | O_EXCL, &x), "a new domain");
	CHECK(domain_made(t.ctx, fd, O_CREAT | O_EXCL, &y) == EINVAL && domain_made(second, fd, O_EXCL, &y) == EINVAL,
	      "exclusively, again");
	CHECK(!domain_made(second, fd, 0, &y) && !domain_made(t.ctx, fd, O_CREAT, &z), "the domain that is there");
	CHECK(!ibv_close_xrcd(x) && domain_made(t.ctx, fd, O_CREAT | O_EXCL, &x) == EINVAL && !ibv_close_xrcd(z),
	      "while others have it");
	/* closing a context destroys all objects of that context */
	CHECK(!ibv_close_device(second) && domain_made(t.ctx, fd, 0, &x) == EAGAIN, "nobody has it");
	/* a file without a domain: there is nothing to find */
	CHECK(!domain_made(t.ctx, -1, 0, &x) && !domain_made(t.ctx, -1, O_CREAT | O_EXCL, &y) && !ibv_close_xrcd(x) &&
		      !ibv_close_xrcd(y),
	      "no file");
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		struct ibv_context *ctx = vt_context();
		CHECK(!domain_made(ctx, fd, O_CREAT, &x), "a domain of another process");
		raise(SIGSTOP);
		_exit(1);
	}
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status), "the other process: %#x", (unsigned)status);
	CHECK(domain_made(t.ctx, fd, O_CREAT | O_EXCL, &x) == EINVAL && !domain_made(t.ctx, fd, 0, &x) && !ibv_close_xrcd(x),
	      "another's");
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, &status, 0) == pid, "kill");
	CHECK(domain_made(t.ctx, fd, 0, &x) == EAGAIN && !domain_made(t.ctx, fd, O_CREAT | O_EXCL, &x) && !ibv_close_xrcd(x),
	      "the dead one's");
	pthread_t th[2];
	racing_fd = fd;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&th[i], NULL, race_for_domain, t.ctx), "thread");
	for (int i = 0; i < 2; i++)
		pthread_join(th[i], NULL);
	close(fd);
}

static struct ibv_srq *xrc_srq(struct vt *v, struct ibv_xrcd *x, struct ibv_cq *c, uint32_t mask)
{
	struct ibv_srq_init_attr_ex i = { .attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = v->pd,
					  .xrcd = x, .cq = c, .comp_mask = mask };

	return ibv_create_srq_ex(v->ctx, &i);
}

static struct ibv_qp *xrc_target(struct vt *v, struct ibv_xrcd *x)
{
	struct ibv_qp_init_attr_ex i = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = x };
	struct ibv_qp *qp = ibv_create_qp_ex(v->ctx, &i);

	CHECK(qp, "XRC_RECV");
	return qp;
}

static int xrc_write(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge, uint32_t srqn, const struct ibv_mr *to)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn,
				  .wr.rdma = { .remote_addr = (uintptr_t)to->addr, .rkey = to->rkey } }, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

static int xrc_send(struct ibv_qp *qp, uint64_t id, struct ibv_sge sge, uint32_t srqn)
{
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn }, *bad;

	return ibv_post_send(qp, &wr, &bad);
}

/* Two processes name one file: a message sent through the queue of the one process arrives in a shared receive queue of the
 * other. */
static void xrc_processes(void)
{
	int file = open("/proc/self/exe", O_RDONLY), another = open("/dev/null", O_RDONLY);
	struct vt_peer peer = vt_fork();
	struct vt v = vt_open();
	uint32_t mine = 0, theirs = 0, srqn;

	CHECK(file >= 0 && another >= 0, "open");
	struct ibv_xrcd *x = domain_of(v.ctx, file);
	if (!peer.child) {
		struct ibv_qp *in = xrc_target(&v, x);
		mine = in->qp_num;
		vt_tell(&peer, &mine, sizeof mine);
		vt_hear(&peer, &theirs, sizeof theirs);
		vt_connect(in, theirs);
		vt_meet(&peer);
		vt_meet(&peer);
		exit(0);
	}
	struct ibv_xrcd *y = domain_of(v.ctx, another);
	struct ibv_cq *c = vt_cq(&v, 16, NULL);
	struct ibv_srq *srq = xrc_srq(&v, x, c, XRC_SRQ), *foreign = xrc_srq(&v, y, c, XRC_SRQ);
	struct ibv_qp *out = vt_qp(&v, IBV_QPT_XRC_SEND, c, NULL);
	CHECK(srq && foreign, "SRQ");
	mine = out->qp_num;
	vt_tell(&peer, &mine, sizeof mine);
	vt_hear(&peer, &theirs, sizeof theirs);
	vt_connect(out, theirs);
	vt_meet(&peer);
	struct ibv_mr *r = vt_mr(&v, mem, sizeof mem, VT_ACCESS);
	CHECK(!ibv_get_srq_num(srq, &srqn) && !vt_srq_recv(srq, 1, vt_sge(r, HALF, 8)), "receive");
	memcpy(mem, "by file", 8);
	CHECK(!xrc_send(out, 2, vt_sge(r, 0, 8), srqn), "send");
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = vt_wait(c);
		CHECK(wc.status == IBV_WC_SUCCESS, "%lu: %s", (unsigned long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	CHECK(!memcmp(mem + HALF, "by file", 8), "what arrived");
	CHECK(!ibv_get_srq_num(foreign, &srqn) && !xrc_send(out, 3, vt_sge(r, 0, 8), srqn), "to another file's domain");
	struct ibv_wc wc = vt_wait(c);
	CHECK(wc.wr_id == 3 && wc.status != IBV_WC_SUCCESS, "a message crossed into another domain");
	vt_meet(&peer);
	vt_join(&peer);
	CHECK(!ibv_destroy_qp(out) && !ibv_destroy_srq(srq) && !ibv_destroy_srq(foreign) && !ibv_destroy_cq(c) &&
		      !ibv_dereg_mr(r) && !ibv_close_xrcd(x) && !ibv_close_xrcd(y),
	      "destroy");
	vt_close(&v);
	close(file);
	close(another);
}

static void xrc_objects(void)
{
	struct ibv_xrcd *x = domain_of(t.ctx, -1);
	struct ibv_xrcd_init_attr half = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	struct ibv_qp_init_attr i = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1 } };
	uint32_t srqn;

	refused("an XRC domain without flags", made(ibv_open_xrcd(t.ctx, &half)), EINVAL);
	refused("an XRC SRQ without a domain", made(xrc_srq(&t, NULL, cq, XRC_SRQ)), EINVAL);
	refused("an XRC SRQ without a CQ", made(xrc_srq(&t, x, NULL, XRC_SRQ)), EINVAL);
	refused("an XRC SRQ whose CQ is not marked", made(xrc_srq(&t, x, cq, XRC_SRQ & ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ)), EINVAL);
	struct ibv_srq *srq = xrc_srq(&t, x, cq, XRC_SRQ);
	CHECK(srq && !ibv_get_srq_num(srq, &srqn), "SRQ");
	i.srq = srq;
	refused("an XRC SRQ for an ordinary queue", made(ibv_create_qp(t.pd, &i)), EINVAL);
	refused("the domain of an XRC SRQ", ibv_close_xrcd(x), EBUSY);
	struct ibv_qp *in = xrc_target(&t, x), *out = vt_qp(&t, IBV_QPT_XRC_SEND, cq, NULL);
	vt_connect_pair(in, out);

	/* a queue that waits for a receive of the SRQ fails when the SRQ is destroyed */
	CHECK(!xrc_send(out, 4, vt_sge(mr, 0, 8), srqn), "send");
	vt_none(cq);
	CHECK(!ibv_destroy_srq(srq), "destroy");
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.wr_id == 4 && wc.status != IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	refused("the domain of an XRC target", ibv_close_xrcd(x), EBUSY);

	/* nor does a write succeed by that key, although the queue has the region in its rkey cache */
	char *arena = shca_alloc(t.ctx, 4096);
	CHECK(arena, "shca_alloc");
	struct ibv_mr *there = vt_mr(&t, arena, 4096, VT_ACCESS);
	srq = xrc_srq(&t, x, cq, XRC_SRQ);
	CHECK(srq && !ibv_get_srq_num(srq, &srqn), "SRQ");
	CHECK(!vt_to(out, IBV_QPS_RESET) && !vt_to(in, IBV_QPS_RESET), "reset");
	vt_connect_pair(in, out);
	for (int n = 0; n < 2; n++) {
		memcpy(mem, "by way", 6);
		CHECK(!xrc_write(out, 5, vt_sge(mr, 0, 8), srqn, there), "write");
		vt_expect(cq, 5, IBV_WC_SUCCESS);
		CHECK(!memcmp(arena, "by way", 6), "what was written");
	}
	CHECK(!ibv_destroy_srq(srq), "destroy");
	memset(arena, 0, 8);
	CHECK(!xrc_write(out, 6, vt_sge(mr, 0, 8), srqn, there), "write");
	wc = vt_wait(cq);
	CHECK(wc.wr_id == 6 && wc.status != IBV_WC_SUCCESS && !arena[0], "a write by way of what is gone");
	CHECK(!ibv_dereg_mr(there) && !shca_free(t.ctx, arena), "memory");
	CHECK(!ibv_destroy_qp(in) && !ibv_destroy_qp(out) && !ibv_close_xrcd(x), "destroy");
}

/* ---- addresses ----------------------------------------------------------------------------------------------- */

static void datagram(struct ibv_qp *from, struct ibv_ah *ah, const struct ibv_qp *to, uint64_t id)
{
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED,
					  .wr.ud = { .ah = ah, .remote_qpn = to->qp_num, .remote_qkey = VT_QKEY } }, *bad;

	CHECK(!ibv_post_send(from, &wr, &bad), "post");
}

static struct ibv_wc arrived(struct ibv_cq *scq, struct ibv_cq *rcq, uint64_t id)
{
	vt_expect(scq, id, IBV_WC_SUCCESS);
	return vt_expect(rcq, id, IBV_WC_SUCCESS);
}

static struct ibv_qp *datagrams(struct ibv_cq *scq, struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr i = { .send_cq = scq, .recv_cq = rcq, .qp_type = IBV_QPT_UD,
				      .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(t.pd, &i);

	CHECK(qp, "UD");
	vt_connect(qp, 0);
	return qp;
}

static void addresses(void)
{
	struct ibv_cq *scq = vt_cq(&t, 8, NULL), *rcq = vt_cq(&t, 8, NULL);
	struct ibv_qp *from = datagrams(scq, rcq), *to = datagrams(scq, rcq);
	struct ibv_ah_attr local = { .dlid = 1, .port_num = 1 }, far = { .dlid = 2, .port_num = 1 }, answer;
	struct ibv_ah_attr global = { .is_global = 1, .port_num = 1, .dlid = 1, .grh.hop_limit = 1 };

	CHECK(!ibv_query_gid(t.ctx, 1, 0, &global.grh.dgid), "query_gid");
	struct ibv_ah *here = ibv_create_ah(t.pd, &local), *nowhere = ibv_create_ah(t.pd, &far),
		      *routed = ibv_create_ah(t.pd, &global);
	CHECK(here && nowhere && routed, "create_ah");
	CHECK(!vt_recv(to, 2, vt_sge(mr, HALF, 48)), "receive");
	datagram(from, nowhere, to, 1);
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	vt_none(rcq);
	datagram(from, here, to, 2);
	struct ibv_wc wc = arrived(scq, rcq, 2);
	CHECK(!ibv_init_ah_from_wc(t.ctx, 1, &wc, (void *)(mem + HALF), &answer) && !answer.is_global && answer.dlid == 1,
	      "no GRH");

	CHECK(!vt_recv(to, 3, vt_sge(mr, HALF, 48)), "receive");
	datagram(from, routed, to, 3);
	wc = arrived(scq, rcq, 3);
	struct ibv_grh grh;
	memcpy(&grh, mem + HALF, sizeof grh);
	CHECK((wc.wc_flags & IBV_WC_GRH) && !ibv_init_ah_from_wc(t.ctx, 1, &wc, &grh, &answer), "init_ah_from_wc");
	CHECK(answer.is_global && !memcmp(&answer.grh.dgid, &grh.sgid, 16) && answer.grh.sgid_index == 0 && answer.port_num == 1,
	      "the answer does not go where the datagram came from");
	struct ibv_ah *back = ibv_create_ah_from_wc(t.pd, &wc, &grh, 1);
	CHECK(back && !vt_recv(from, 4, vt_sge(mr, HALF, 48)), "the way back");
	datagram(to, back, from, 4);
	CHECK(arrived(scq, rcq, 4).wc_flags & IBV_WC_GRH, "the answer has no GRH");

	grh.dgid.raw[15] ^= 1;
	refused("a header for another port", done(ibv_init_ah_from_wc(t.ctx, 1, &wc, &grh, &answer)), EINVAL);
	refused("an address from a header for another port", made(ibv_create_ah_from_wc(t.pd, &wc, &grh, 1)), EINVAL);
	local.port_num = 2;
	refused("an address of another port", made(ibv_create_ah(t.pd, &local)), EINVAL);
	global.grh.sgid_index = 1;
	refused("an address of another GID", made(ibv_create_ah(t.pd, &global)), EINVAL);
	CHECK(!ibv_destroy_ah(here) && !ibv_destroy_ah(nowhere) && !ibv_destroy_ah(routed) && !ibv_destroy_ah(back),
	      "destroy_ah");
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq), "destroy");
}

/* ---- completion queues ---------------------------------------------------------------------------------------- */

/* n completions, of receives that are flushed. */
static struct ibv_qp *flushed(struct ibv_cq *c, uint64_t n)
{
	struct ibv_qp_init_attr i = { .send_cq = cq, .recv_cq = c, .qp_type = IBV_QPT_RC,
				      .cap = { .max_recv_wr = 256, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(t.pd, &i);

	CHECK(qp && !vt_init(qp), "create");
	for (uint64_t k = 0; k < n; k++)
		CHECK(!vt_recv(qp, k, vt_sge(mr, HALF, 8)), "receive");
	CHECK(!vt_to(qp, IBV_QPS_ERR), "to ERR");
	return qp;
}

static void cq_sizes(void)
{
	static const int sizes[] = { 1, 7, 8, 9, 16, 17, 33, 200 };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		struct ibv_cq *c = vt_cq(&t, sizes[k], NULL);
		CHECK(c->cqe >= sizes[k], "%d entries instead of %d", c->cqe, sizes[k]);
		struct ibv_qp *qp = flushed(c, (uint64_t)sizes[k]);
		for (int n = 0; n < sizes[k]; n++)
			vt_expect(c, (uint64_t)n, IBV_WC_WR_FLUSH_ERR);
		vt_none(c);
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(c), "destroy");
	}
}

static void cq_resize(void)
{
	struct ibv_cq *c = vt_cq(&t, 8, NULL);
	struct ibv_qp *qp = flushed(c, 4);

	refused("a CQ smaller than what waits in it", ibv_resize_cq(c, 3), EINVAL);
	refused("a CQ of no entries", ibv_resize_cq(c, 0), EINVAL);
	CHECK(!ibv_resize_cq(c, 4) && !ibv_resize_cq(c, c->cqe), "what it holds already");
	for (int size = 16; size <= 1 << 12; size *= 16)
		CHECK(!ibv_resize_cq(c, size) && c->cqe >= size, "to %d entries: %d", size, c->cqe);
	CHECK(!ibv_resize_cq(c, 8) && c->cqe == 8, "back to 8: %d", c->cqe);
	for (uint64_t n = 0; n < 4; n++)
		vt_expect(c, n, IBV_WC_WR_FLUSH_ERR);
	vt_none(c);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(c), "destroy");
	struct ibv_cq_init_attr_ex ex = {.cqe = 8,
					 .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					 .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct ibv_cq_ex *ignores = ibv_create_cq_ex(t.ctx, &ex);
	CHECK(ignores, "create_cq_ex");
	refused("a CQ that ignores overruns", ibv_resize_cq(ibv_cq_ex_to_cq(ignores), 64), EOPNOTSUPP);
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(ignores)), "destroy");
}

/* Many more completions than the CQ has entries, without a poll. */
static void never_polled(struct ibv_cq *c)
{
	struct ibv_qp_init_attr i = { .send_cq = c, .recv_cq = cq, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 64, .max_send_sge = 1 } };
	struct ibv_qp *out = ibv_create_qp(t.pd, &i), *in = vt_qp(&t, IBV_QPT_RC, cq, NULL);

	CHECK(out, "create");
	vt_connect_pair(out, in);
	for (int n = 0; n < 3 * c->cqe; n++)
		CHECK(!vt_rdma(out, IBV_WR_RDMA_WRITE, 5, vt_sge(mr, 0, 8), (uintptr_t)mem + HALF, mr->rkey), "write %d", n);
	CHECK(vt_state(out) == IBV_QPS_RTS && !readable(t.ctx->async_fd),
	      "the queue failed by an overrun that was to be ignored");
	CHECK(!ibv_destroy_qp(out) && !ibv_destroy_qp(in) && !ibv_destroy_cq(c), "destroy");
}

static void cq_overrun_ignored(void)
{
	struct ibv_cq_init_attr_ex i = {.cqe = 8,
					.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
					.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct ibv_exp_cq_attr e = { .comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS, .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN };
	struct ibv_cq_ex *ex = ibv_create_cq_ex(t.ctx, &i);
	struct ibv_cq *c = vt_cq(&t, 8, NULL);

	CHECK(ex && !ibv_exp_modify_cq(c, &e, IBV_EXP_CQ_CAP_FLAGS), "create");
	never_polled(ibv_cq_ex_to_cq(ex));
	never_polled(c);
}

/* poll(2) reports a channel as readable only while there is an event: not after the CQ was destroyed, and its events with it. */
static void cq_event_goes(void)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t.ctx);
	CHECK(ch, "create_comp_channel");
	struct ibv_cq *c = vt_cq(&t, 8, ch);

	CHECK(!ibv_req_notify_cq(c, 0), "arm");
	struct ibv_qp *qp = flushed(c, 1);
	CHECK(readable(ch->fd), "no event");
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(c), "destroy");
	CHECK(!readable(ch->fd), "the event of a CQ that is gone");
	CHECK(!ibv_destroy_comp_channel(ch), "destroy");
}

/* ---- shared receive queues, queue pairs ----------------------------------------------------------------------- */

static void srq_limit_unread(void)
{
	struct ibv_srq_init_attr i = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t.pd, &i);
	struct ibv_srq_attr at = { .srq_limit = 4 };
	struct ibv_async_event ev;

	CHECK(srq && !ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), "a limit that is crossed already");
	CHECK(readable(t.ctx->async_fd) && !ibv_query_srq(srq, &at) && at.srq_limit == 0, "limit %u before the event is read",
	      at.srq_limit);
	CHECK(!ibv_get_async_event(t.ctx, &ev) && ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && ev.element.srq == srq, "event");
	ibv_ack_async_event(&ev);
	CHECK(!readable(t.ctx->async_fd), "the event is there twice");
	at.srq_limit = 8;
	refused("a limit beyond the queue", ibv_modify_srq(srq, &at, IBV_SRQ_LIMIT), EINVAL);
	refused("an unknown attribute", ibv_modify_srq(srq, &at, 1 << 7), EINVAL);
	CHECK(!ibv_destroy_srq(srq), "destroy");
}

static void srq_sizes(void)
{
	struct ibv_srq_init_attr i = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t.pd, &i);
	struct ibv_srq_attr at = { .max_wr = 0 };
	struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
	struct ibv_device_attr dev;

	CHECK(srq && !ibv_query_device(t.ctx, &dev), "create");
	refused("no room", ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	at.max_wr = (uint32_t)dev.max_srq_wr + 1;
	refused("more room than there is", ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	at.max_wr = 5;
	CHECK(dev.device_cap_flags & IBV_DEVICE_SRQ_RESIZE && !ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR) &&
		      !ibv_query_srq(srq, &at) && at.max_wr == 5 && at.max_sge == 1,
	      "a size");
	for (int k = 0; k < 6; k++)
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == (k < 5 ? 0 : ENOMEM), "receive %d", k);
	at.max_wr = 4;
	refused("less room than is in use", ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), EINVAL);
	at.max_wr = 100;
	CHECK(!ibv_modify_srq(srq, &at, IBV_SRQ_MAX_WR), "a larger size");
	for (int k = 5; k < 101; k++)
		CHECK(ibv_post_srq_recv(srq, &wr, &bad) == (k < 100 ? 0 : ENOMEM), "receive %d", k);
	CHECK(!ibv_destroy_srq(srq), "destroy");
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr at, int mask)
{
	return ibv_modify_qp(qp, &at, mask);
}

static void qp_values(void)
{
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct mlx5dv_qp_init_attr dv = { .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC, .dc_init_attr.dc_type = MLX5DV_DCTYPE_DCT };
	struct ibv_qp_init_attr_ex dc = {
		.qp_type = IBV_QPT_DRIVER, .send_cq = cq, .recv_cq = cq, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = t.pd};

	refused("a DC target without SRQ", made(mlx5dv_create_qp(t.ctx, &dc, &dv)), EINVAL);
	refused("RESET to ERR", vt_to(qp, IBV_QPS_ERR), EINVAL);
	CHECK(vt_state(qp) == IBV_QPS_RESET && !vt_init(qp), "still in RESET");
	struct ibv_qp_attr rtr = vt_rtr_attr(qp->qp_num), at = rtr;
	at.min_rnr_timer = 32;
	refused("an RNR timer of six bits", modify(qp, at, VT_RTR_RC), EINVAL);
	CHECK(!modify(qp, rtr, VT_RTR_RC), "RTR");
	at = vt_rts_attr();
	at.timeout = 32;
	refused("a timeout of six bits", modify(qp, at, VT_RTS_RC), EINVAL);
	at = vt_rts_attr();
	at.rnr_retry = 8;
	refused("RNR retries of four bits", modify(qp, at, VT_RTS_RC), EINVAL);
	struct ibv_device_attr d;
	CHECK(!ibv_query_device(t.ctx, &d), "query_device");
	at = vt_rts_attr();
	at.max_rd_atomic = (uint8_t)(d.max_qp_init_rd_atom + 1);
	refused("more reads at once than the device has", modify(qp, at, VT_RTS_RC), EINVAL);
	at.max_rd_atomic = (uint8_t)d.max_qp_init_rd_atom;
	at.timeout = 31;
	CHECK(!modify(qp, at, VT_RTS_RC), "as much as there is");
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* No byte more of inline data than was granted, in two pieces that are short each; with a thread domain and without. */
static void qp_inline_granted(void)
{
	struct ibv_td_init_attr ti = { .comp_mask = 0 };
	struct ibv_td *td = ibv_alloc_td(t.ctx, &ti);
	struct ibv_parent_domain_init_attr pi = { .pd = t.pd, .td = td };
	struct ibv_pd *own = td ? ibv_alloc_parent_domain(t.ctx, &pi) : NULL;
	char *arena = shca_alloc(t.ctx, 4096);

	CHECK(own && arena, "create");
	struct ibv_mr *there = vt_mr(&t, arena, 4096, VT_ACCESS);
	for (int k = 0; k < 2; k++) {
		struct ibv_qp_init_attr i = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					      .cap = { .max_send_wr = 4, .max_send_sge = 2, .max_inline_data = 64 } };
		struct ibv_qp *qp = ibv_create_qp(k ? own : t.pd, &i), *peer = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		uint32_t granted = i.cap.max_inline_data;
		CHECK(qp && granted >= 64 && granted < 128, "%u bytes of inline data were granted", granted);
		vt_connect_pair(qp, peer);
		for (uint32_t more = 0; more < 3; more++) {
			uint32_t n = granted + (more == 1);
			struct ibv_sge sge[2] = { { .addr = (uintptr_t)mem, .length = 60 },
						  { .addr = (uintptr_t)mem + 60, .length = n - 60 } };
			struct ibv_send_wr wr = { .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_RDMA_WRITE,
						  .send_flags = IBV_SEND_INLINE,
							  .wr.rdma = { .remote_addr = (uintptr_t)arena, .rkey = there->rkey } },
								  *bad;
			memset(mem, 'a' + (int)more, n);
			memset(arena, 0, n);
			int err = ibv_post_send(qp, &wr, &bad);
			CHECK(err == (more == 1 ? EINVAL : 0), "%u bytes, %u granted: %d", n, granted, err);
			CHECK(more == 1 ? !arena[0] && !arena[n - 1] : !memcmp(arena, mem, n), "%u bytes, %u granted", n,
			      granted);
		}
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(peer), "destroy");
	}
	CHECK(!ibv_dereg_mr(there) && !shca_free(t.ctx, arena) && !ibv_dealloc_pd(own) && !ibv_dealloc_td(td), "destroy");
}

/* A queue that waits for a receive of a queue in ERR fails. */
static void qp_error_wakes(void)
{
	CHECK(!vt_send(a, 6, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");
	vt_none(cq);
	CHECK(!vt_to(b, IBV_QPS_ERR), "to ERR");
	struct ibv_wc wc = vt_wait(cq);
	CHECK(wc.wr_id == 6 && wc.status != IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	connect_again();
	works("an error while somebody waits");
}

static void *acknowledge(void *arg)
{
	struct ibv_async_event *ev = ((void **)arg)[0];
	struct timespec ts = { .tv_nsec = 50000000 };

	nanosleep(&ts, NULL);		/* gives the destruction a chance to be too early; no result depends on the sleep */
	__atomic_store_n((bool *)((void **)arg)[1], true, __ATOMIC_SEQ_CST);
	ibv_ack_async_event(ev);
	return NULL;
}

static void qp_event_unacknowledged(void)
{
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	struct ibv_qp_attr sqd = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event ev;
	bool acked = false;
	pthread_t th;

	vt_connect(qp, qp->qp_num);
	CHECK(!ibv_modify_qp(qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), "to SQD");
	CHECK(readable(t.ctx->async_fd) && !ibv_get_async_event(t.ctx, &ev) && ev.event_type == IBV_EVENT_SQ_DRAINED, "event");
	CHECK(!readable(t.ctx->async_fd), "the event is there twice");
	void *arg[2] = { &ev, &acked };
	CHECK(!pthread_create(&th, NULL, acknowledge, arg) && !ibv_destroy_qp(qp), "destroy");
	CHECK(__atomic_load_n(&acked, __ATOMIC_SEQ_CST), "destroyed before its event was acknowledged");
	pthread_join(th, NULL);
}

/* A queue of a dead peer works with the next peer. */
static void qp_next_peer(void)
{
	int fd[2][2];
	uint32_t theirs = 0;

	CHECK(!pipe(fd[0]) && !pipe(fd[1]), "pipe");
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL), *next = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		alarm(120);
		struct vt v = vt_open();
		struct ibv_cq *c = vt_cq(&v, 8, NULL);
		struct ibv_qp *mine = vt_qp(&v, IBV_QPT_RC, c, NULL);
		vt_connect(mine, qp->qp_num);
		CHECK(write(fd[0][1], &mine->qp_num, 4) == 4 && read(fd[1][0], &theirs, 1) == 1, "pipe");
		raise(SIGKILL);
	}
	CHECK(read(fd[0][0], &theirs, 4) == 4, "pipe");
	vt_connect(qp, theirs);
	CHECK(!vt_send(qp, 7, vt_sge(mr, 0, 8), IBV_SEND_SIGNALED), "send");	/* the SEND waits for a receive */
	vt_none(cq);
	int status;
	CHECK(write(fd[1][1], "", 1) == 1 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "the peer");
	vt_expect(cq, 7, IBV_WC_RETRY_EXC_ERR);
	CHECK(!vt_to(qp, IBV_QPS_RESET), "reset");
	vt_connect_pair(qp, next);
	CHECK(!vt_recv(next, 8, vt_sge(mr, HALF, 8)) && !vt_send(qp, 9, vt_sge(mr, 0, 8), 0), "with the next peer");
	vt_expect(cq, 8, IBV_WC_SUCCESS);
	vt_none(cq);
	/* a request that waits makes the queue one that other processes execute, and these would flush the receives of a queue
	 * with a dead peer */
	CHECK(!vt_recv(qp, 10, vt_sge(mr, HALF, 8)) && !vt_send(qp, 11, vt_sge(mr, 0, 8), 0), "one that waits");
	vt_none(cq);
	CHECK(!vt_recv(next, 12, vt_sge(mr, HALF, 8)), "receive");
	vt_expect(cq, 12, IBV_WC_SUCCESS);
	CHECK(!vt_send(next, 13, vt_sge(mr, 0, 8), 0), "the other way");
	vt_expect(cq, 10, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_qp(next), "destroy");
	for (int i = 0; i < 4; i++)
		close(fd[i / 2][i % 2]);
}

int main(void)
{
	vt_fabric();
	xrc_processes();
	t = vt_open();
	other = ibv_alloc_pd(t.ctx);
	CHECK(other, "alloc_pd");
	cq = vt_cq(&t, 64, NULL);
	mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	a = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	b = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	vt_connect_pair(a, b);
	region_addresses();
	overlapping();
	region_changes();
	advice();
	domain_flags();
	xrc_objects();
	addresses();
	cq_sizes();
	cq_resize();
	cq_overrun_ignored();
	cq_event_goes();
	srq_limit_unread();
	srq_sizes();
	qp_values();
	qp_inline_granted();
	qp_error_wakes();
	qp_event_unacknowledged();
	qp_next_peer();
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(other),
	      "destroy");
	vt_close(&t);
	return 0;
}
