/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirect memory keys: invalidation by messages, and an owner in another process, until it dies. */
#include <signal.h>

#include "memory_keys.h"

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
	keys_fabric();
	two_processes();
	keys_open();
	by_messages();
	keys_close();
	return 0;
}
