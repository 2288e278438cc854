/* SPDX-License-Identifier: BSD-3-Clause */
/* Importing a device, a domain and a region: into the same process, and into another one that is sent the descriptor. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "vt.h"

#define LEN 4096u

static struct vt t;
static struct ibv_cq *cq;

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The descriptor that is passed becomes the context's, which closes it (ibv_import_device(3)). */
static void descriptor_owned(void)
{
	int before = descriptors(), fd = dup(t.ctx->cmd_fd), bad = open("/dev/null", O_RDONLY);
	struct ibv_context *ctx = ibv_import_device(fd);

	CHECK(ctx && ctx->cmd_fd == fd, "ibv_import_device");
	CHECK(!ibv_close_device(ctx) && fcntl(fd, F_GETFD) < 0, "the descriptor is open behind ibv_close_device");
	/* of a call that fails: the caller's */
	CHECK(!ibv_import_device(bad) && !close(bad), "a descriptor that is none of the device");
	CHECK(descriptors() == before, "%d descriptors, %d before", descriptors(), before);
	/* not a duplicate, against the manual: the first context keeps its own */
	ctx = ibv_import_device(t.ctx->cmd_fd);
	CHECK(ctx && ctx->cmd_fd != t.ctx->cmd_fd && !ibv_close_device(ctx) && fcntl(t.ctx->cmd_fd, F_GETFD) >= 0,
	      "a descriptor in use");
	CHECK(descriptors() == before, "%d descriptors, %d before", descriptors(), before);
}

static struct ibv_mw *window_on(struct vt *in, struct ibv_qp *qp, struct ibv_mr *mr, char *at)
{
	struct ibv_mw *mw = ibv_alloc_mw(in->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.wr_id = 3, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED, .bind_mw = {.mw = mw}},
			   *bad;

	CHECK(mw, "ibv_alloc_mw");
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr, .addr = (uintptr_t)at, .length = 64,
							 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	CHECK(!ibv_post_send(qp, &wr, &bad), "bind");
	vt_expect(qp->send_cq, 3, IBV_WC_SUCCESS);
	mw->rkey = wr.bind_mw.rkey;
	return mw;
}

/* A window that is bound to another context's region goes when that context is closed: a region with windows would hold it up. */
static void windows_across(void)
{
	struct vt first = vt_open(), second = {.ctx = ibv_import_device(dup(first.ctx->cmd_fd))};

	second.pd = ibv_import_pd(second.ctx, first.pd->handle);
	char *p = shca_alloc(t.ctx, LEN);
	CHECK(second.pd && p, "import");
	struct ibv_mr *mr = vt_mr(&first, p, LEN, VT_ACCESS | IBV_ACCESS_MW_BIND), *src = vt_mr(&second, p, LEN, VT_ACCESS);
	struct ibv_mr *same = ibv_import_mr(second.pd, mr->handle), *own = vt_mr(&second, p, LEN, VT_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_cq *cq2 = vt_cq(&second, 16, NULL);
	struct ibv_qp *a = vt_qp(&second, IBV_QPT_RC, cq2, NULL), *b = vt_qp(&second, IBV_QPT_RC, cq2, NULL);
	vt_connect_pair(a, b);
	struct ibv_mw *mw = window_on(&second, b, same, p), *other = window_on(&second, b, own, p);
	CHECK(ibv_dereg_mr(mr) == EBUSY, "a region with a window");
	CHECK(!ibv_close_device(first.ctx), "ibv_close_device");
	/* the window to the second context's own region stays */
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 4, vt_sge(src, 256, 8), (uintptr_t)p, other->rkey), "post");
	vt_expect(cq2, 4, IBV_WC_SUCCESS);
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 5, vt_sge(src, 256, 8), (uintptr_t)p, mw->rkey), "post");
	vt_expect(cq2, 5, IBV_WC_REM_ACCESS_ERR);
	ibv_unimport_mr(same);
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(other) && !ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq2) &&
	      !ibv_dereg_mr(src) && !ibv_dereg_mr(own), "destroy");
	ibv_unimport_pd(second.pd);
	CHECK(!ibv_close_device(second.ctx) && !shca_free(t.ctx, p), "destroy");
}

static void same_process(void)
{
	char *p = shca_alloc(t.ctx, LEN);
	struct ibv_mr *mr = vt_mr(&t, p, LEN, VT_ACCESS);
	struct ibv_context *ctx = ibv_import_device(dup(t.ctx->cmd_fd));
	struct ibv_device_attr d;

	CHECK(ctx && ctx != t.ctx && !ibv_query_device(ctx, &d), "ibv_import_device");
	struct vt other = {.ctx = ctx, .pd = ibv_import_pd(ctx, t.pd->handle)};
	CHECK(other.pd && other.pd->context == ctx && other.pd->handle == t.pd->handle, "ibv_import_pd");
	struct ibv_mr *same = ibv_import_mr(other.pd, mr->handle);
	CHECK(same && same->context == ctx && same->lkey == mr->lkey && same->rkey == mr->rkey && same->length == LEN &&
		      !same->addr,
	      "ibv_import_mr");
	/* its keys, both, on queue pairs of the imported domain */
	struct ibv_cq *cq2 = vt_cq(&other, 16, NULL);
	struct ibv_qp *a = vt_qp(&other, IBV_QPT_RC, cq2, NULL), *b = vt_qp(&other, IBV_QPT_RC, cq2, NULL);
	vt_connect_pair(a, b);
	memset(p, 7, 64);
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = 64, .lkey = same->lkey};
	CHECK(!vt_rdma(a, IBV_WR_RDMA_WRITE, 1, sge, (uintptr_t)p + 128, same->rkey), "post");
	vt_expect(cq2, 1, IBV_WC_SUCCESS);
	CHECK(p[128 + 63] == 7, "the data");
	/* refusals */
	CHECK(ibv_dereg_mr(same) == EINVAL, "an imported region");
	CHECK((errno = 0, !ibv_import_mr(other.pd, mr->handle + 1)) && errno == ENOENT, "no such region");
	CHECK((errno = 0, !ibv_import_pd(ctx, 0)) && errno == ENOENT && !ibv_import_pd(ctx, 0xfffffff), "no such domain");
	struct ibv_pd *pd = ibv_alloc_pd(t.ctx);
	CHECK((errno = 0, !ibv_import_mr(pd, mr->handle)) && errno == ENOENT, "a region of another domain");
	CHECK(!ibv_dealloc_pd(pd), "destroy");
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(cq2), "destroy");
	CHECK(ibv_dealloc_pd(other.pd) == EBUSY, "an imported region in the domain");
	ibv_unimport_mr(same);
	ibv_unimport_mr(mr);		/* not imported: stays */
	ibv_unimport_pd(other.pd);
	CHECK(!ibv_close_device(ctx), "ibv_close_device");
	/* the originals are as they were */
	struct ibv_qp *c = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	vt_connect(c, c->qp_num);
	CHECK(!vt_rdma(c, IBV_WR_RDMA_WRITE, 2, vt_sge(mr, 0, 8), (uintptr_t)p + 256, mr->rkey), "post");
	vt_expect(cq, 2, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(c) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, p), "destroy");
}

struct card {
	uint32_t qpn, pd, mr;
	uint64_t addr;
};

static int receive_descriptor(int sock)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd;

	CHECK(recvmsg(sock, &m, 0) == 1 && CMSG_FIRSTHDR(&m), "recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
	return fd;
}

static void send_descriptor(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	CHECK(sendmsg(sock, &m, 0) == 1, "sendmsg");
}

/* The importer writes to the exporter's memory by the exporter's domain and region. */
static void other_process(void)
{
	int pair[2];
	struct card card;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socketpair");
	struct vt_peer peer = vt_fork();
	if (!peer.child) {
		/* of no fabric, until the descriptor says which */
		unsetenv("SHCA_FABRIC");
		t.ctx = ibv_import_device(receive_descriptor(pair[1]));
		CHECK(t.ctx, "ibv_import_device");
		vt_hear(&peer, &card, sizeof card);
		t.pd = ibv_import_pd(t.ctx, card.pd);
		struct ibv_mr *mr = ibv_import_mr(t.pd, card.mr);
		CHECK(t.pd && mr, "import");
		cq = vt_cq(&t, 16, NULL);
		struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
		vt_tell(&peer, &qp->qp_num, sizeof qp->qp_num);
		vt_connect(qp, card.qpn);
		vt_meet(&peer);
		uint64_t value = 42;
		struct ibv_sge sge = {.addr = (uintptr_t)&value, .length = 8};
		struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					 .wr.rdma = {.remote_addr = card.addr, .rkey = mr->rkey}}, *bad;
		CHECK(!ibv_post_send(qp, &wr, &bad), "post");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		/* the memory is not this process's: its key is no local one here */
		struct ibv_sge theirs = {.addr = card.addr, .length = 8, .lkey = mr->lkey};
		CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 2, theirs, card.addr, mr->rkey), "post");
		vt_expect(cq, 2, IBV_WC_LOC_PROT_ERR);
		vt_meet(&peer);
		CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
		ibv_unimport_mr(mr);
		ibv_unimport_pd(t.pd);
		CHECK(!ibv_close_device(t.ctx), "ibv_close_device");
		exit(0);
	}
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	static uint64_t memory[8];
	struct ibv_mr *mr = vt_mr(&t, memory, sizeof memory, VT_ACCESS);
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	uint32_t theirs;
	send_descriptor(pair[0], t.ctx->cmd_fd);
	card = (struct card){.qpn = qp->qp_num, .pd = t.pd->handle, .mr = mr->handle, .addr = (uintptr_t)memory};
	vt_tell(&peer, &card, sizeof card);
	vt_hear(&peer, &theirs, sizeof theirs);
	vt_connect(qp, theirs);
	vt_meet(&peer);
	vt_meet(&peer);
	CHECK(memory[0] == 42, "written");
	vt_join(&peer);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
}

int main(void)
{
	alarm(60);
	vt_fabric();
	other_process();
	t = vt_open();
	cq = vt_cq(&t, 16, NULL);
	same_process();
	descriptor_owned();
	windows_across();
	CHECK(!ibv_destroy_cq(cq), "destroy");
	vt_close(&t);
	return 0;
}
