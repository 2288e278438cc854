/* SPDX-License-Identifier: BSD-3-Clause */
/* UD multicast: several queues of several processes in several groups; delivery and its GRH; members that leave or die. */
#include <arpa/inet.h>
#include <signal.h>

#include "vt.h"

#define QKEY 0x11111111u
enum { RECEIVES = 16, BYTES = 64 + 40 };

struct queue {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[RECEIVES + 1][BYTES];	/* the last: to send from */
};

static void post(struct queue *q, int i)
{
	struct ibv_sge s = {(uintptr_t)q->buf[i], BYTES, q->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &s, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(q->qp, &wr, &bad), "ibv_post_recv");
}

static struct queue *queue(struct vt *t, uint32_t qkey)
{
	struct queue *q = calloc(1, sizeof(*q));
	q->cq = ibv_create_cq(t->ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr i = {
		.send_cq = q->cq, .recv_cq = q->cq, .cap = {8, RECEIVES, 1, 1, 0}, .qp_type = IBV_QPT_UD, .sq_sig_all = 1};
	q->qp = ibv_create_qp(t->pd, &i);
	q->mr = ibv_reg_mr(t->pd, q->buf, sizeof(q->buf), IBV_ACCESS_LOCAL_WRITE);
	CHECK(q->cq && q->qp && q->mr, "queue");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	CHECK(!ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(q->qp, &a, IBV_QP_STATE), "RTR");
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(q->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	for (int k = 0; k < RECEIVES; k++)
		post(q, k);
	return q;
}

static void queue_free(struct queue *q)
{
	CHECK(!ibv_destroy_qp(q->qp) && !ibv_destroy_cq(q->cq) && !ibv_dereg_mr(q->mr), "destroy");
	free(q);
}

static union ibv_gid group(int n)
{
	union ibv_gid g = {.raw = {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, [15] = (uint8_t)n}};
	return g;
}

static void join(struct queue *q, int n)
{
	union ibv_gid g = group(n);
	CHECK(!ibv_attach_mcast(q->qp, &g, 0xc001), "ibv_attach_mcast");
}

static void part(struct queue *q, int n)
{
	union ibv_gid g = group(n);
	CHECK(!ibv_detach_mcast(q->qp, &g, 0xc001), "ibv_detach_mcast");
}

/* Sends a word to a group. */
static void say(struct vt *t, struct queue *q, int n, const char *word, uint32_t qpn)
{
	struct ibv_ah_attr a = {.is_global = 1, .port_num = 1, .dlid = 0xc001, .grh = {.dgid = group(n), .hop_limit = 1}};
	struct ibv_ah *ah = ibv_create_ah(t->pd, &a);
	CHECK(ah, "ibv_create_ah");
	strcpy(q->buf[RECEIVES], word);
	struct ibv_sge s = {(uintptr_t)q->buf[RECEIVES], 64, q->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, qpn, QKEY}}, *bad;
	CHECK(!ibv_post_send(q->qp, &wr, &bad), "ibv_post_send");
	struct ibv_wc wc;
	int k;
	while (!(k = ibv_poll_cq(q->cq, 1, &wc)))
		;
	CHECK(k == 1 && wc.opcode == IBV_WC_SEND && wc.status == IBV_WC_SUCCESS, "completion of the send: status %d", wc.status);
	ibv_destroy_ah(ah);
}

/* The queue has this word, from `from` to group n; NULL: nothing. */
static void hears(struct queue *q, const char *word, struct queue *from, int n)
{
	struct ibv_wc wc;
	int k = ibv_poll_cq(q->cq, 1, &wc);
	if (!word) {
		CHECK(!k, "a datagram from queue 0x%x", wc.src_qp);
		return;
	}
	CHECK(k == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "%d completions", k);
	struct ibv_grh *grh = (struct ibv_grh *)q->buf[wc.wr_id];
	union ibv_gid g = group(n);
	CHECK(wc.byte_len == 104 && wc.wc_flags & IBV_WC_GRH && !memcmp(&grh->dgid, &g, 16), "GRH");
	CHECK(wc.src_qp == from->qp->qp_num && !strcmp(q->buf[wc.wr_id] + 40, word), "\"%s\" instead of \"%s\"",
	      q->buf[wc.wr_id] + 40, word);
	post(q, (int)wc.wr_id);
}

static void one_process(struct vt *t)
{
	struct queue *a = queue(t, QKEY), *b = queue(t, QKEY), *c = queue(t, QKEY + 1);
	union ibv_gid g = group(1), unicast;

	CHECK(!ibv_query_gid(t->ctx, 1, 0, &unicast), "ibv_query_gid");
	CHECK(ibv_attach_mcast(a->qp, &unicast, 1) == EINVAL, "attached to a unicast GID");
	CHECK(ibv_detach_mcast(a->qp, &g, 0xc001) == EINVAL, "detached before the attach");
	static const uint16_t lids[] = {0, 1, 0xbfff, 0xffff};
	for (int i = 0; i < 4; i++)
		CHECK(ibv_attach_mcast(a->qp, &g, lids[i]) == EINVAL, "attached by LID %#x", lids[i]);
	join(a, 1);
	join(b, 1);
	join(b, 1);		/* twice is once */
	join(b, 2);
	join(c, 1);
	say(t, a, 1, "one", 0xffffff);
	hears(b, "one", a, 1);
	hears(b, NULL, NULL, 0);
	hears(a, NULL, NULL, 0);	/* the sender's own queue */
	hears(c, NULL, NULL, 0);	/* another Q_Key */
	say(t, a, 2, "two", 0xffffff);
	hears(b, "two", a, 2);
	say(t, a, 3, "three", 0xffffff);
	say(t, a, 1, "unicast", b->qp->qp_num);	/* IBTA: a multicast packet is for 0xffffff */
	hears(b, NULL, NULL, 0);
	part(b, 1);
	CHECK(ibv_detach_mcast(b->qp, &g, 0xc001) == EINVAL, "detached twice");
	say(t, a, 1, "gone", 0xffffff);
	hears(b, NULL, NULL, 0);
	/* without a receive the datagram is lost for this queue only */
	join(b, 1);
	struct queue *d = queue(t, QKEY);
	join(d, 1);
	for (int i = 0; i < RECEIVES + 1; i++) {
		say(t, a, 1, "many", 0xffffff);
		hears(d, "many", a, 1);
	}
	for (int i = 0; i < RECEIVES; i++)
		hears(b, "many", a, 1);
	hears(b, NULL, NULL, 0);
	uint32_t number = b->qp->qp_num;
	CHECK(ibv_destroy_qp(b->qp) == EBUSY, "destroyed as a member of two groups");
	part(b, 1);
	CHECK(ibv_destroy_qp(b->qp) == EBUSY, "destroyed as a member of a group");
	say(t, a, 2, "member", 0xffffff);
	hears(b, "member", a, 2);
	part(b, 2);
	queue_free(b);
	/* the next queue of that number is in no group */
	bool again = false;
	for (int i = 0; i < 2000 && !again; i++) {
		b = queue(t, QKEY);
		again = b->qp->qp_num == number;
		if (again) {
			say(t, a, 1, "new", 0xffffff);
			hears(d, "new", a, 1);
			hears(b, NULL, NULL, 0);
		}
		queue_free(b);
	}
	CHECK(again, "2,000 queues, and none has the number 0x%x again", number);
	part(a, 1);
	part(c, 1);
	part(d, 1);
	queue_free(d);
	queue_free(c);
	queue_free(a);
}

/* A context that is closed takes its queues out of their groups. */
static void context_closed(struct vt *t)
{
	struct queue *a = queue(t, QKEY), *d = queue(t, QKEY);

	join(d, 1);
	struct vt closed = vt_open();
	struct queue *b = queue(&closed, QKEY);
	join(b, 1);
	say(t, a, 1, "both", 0xffffff);
	hears(b, "both", a, 1);
	hears(d, "both", a, 1);
	uint32_t number = b->qp->qp_num;
	CHECK(!ibv_close_device(closed.ctx), "ibv_close_device");
	free(b);
	say(t, a, 1, "alive", 0xffffff);
	hears(d, "alive", a, 1);
	/* the next queue of that number is in no group */
	bool again = false;
	for (int i = 0; i < 2000 && !again; i++) {
		b = queue(t, QKEY);
		again = b->qp->qp_num == number;
		if (again) {
			say(t, a, 1, "new", 0xffffff);
			hears(d, "new", a, 1);
			hears(b, NULL, NULL, 0);
		}
		queue_free(b);
	}
	CHECK(again, "2,000 queues, and none has the number 0x%x again", number);
	part(d, 1);
	queue_free(d);
	queue_free(a);
}

/* Members in other processes, one of which dies. */
static void processes(void)
{
	enum { CHILDREN = 3 };
	int up[2], status;
	pid_t pid[CHILDREN];
	char byte;

	CHECK(!pipe(up), "pipe");
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0, "fork");
		if (pid[i])
			continue;
		struct vt t = vt_open();
		struct queue *q = queue(&t, QKEY);
		struct ibv_wc wc;
		join(q, 7);
		CHECK(write(up[1], "", 1) == 1, "write");
		for (int n = 0; n < 2; n++) {
			while (!ibv_poll_cq(q->cq, 1, &wc))
				sched_yield();
			CHECK(!strcmp(q->buf[wc.wr_id] + 40, n ? "second" : "first"), "word %d: \"%s\"", n,
			      q->buf[wc.wr_id] + 40);
			CHECK(write(up[1], "", 1) == 1, "write");
		}
		_exit(0);
	}
	struct vt t = vt_open();
	struct queue *q = queue(&t, QKEY);
	for (int i = 0; i < CHILDREN; i++)
		CHECK(read(up[0], &byte, 1) == 1, "read");
	say(&t, q, 7, "first", 0xffffff);
	for (int i = 0; i < CHILDREN; i++)
		CHECK(read(up[0], &byte, 1) == 1, "read");
	CHECK(!kill(pid[0], SIGKILL) && waitpid(pid[0], &status, 0) == pid[0], "kill");
	say(&t, q, 7, "second", 0xffffff);
	for (int i = 1; i < CHILDREN; i++)
		CHECK(waitpid(pid[i], &status, 0) == pid[i] && !status, "child %d: status %#x", i, status);
	say(&t, q, 7, "nobody", 0xffffff);
	queue_free(q);
	vt_close(&t);
}

int main(void)
{
	vt_fabric();
	processes();
	struct vt t = vt_open();
	struct ibv_device_attr a;
	CHECK(!ibv_query_device(t.ctx, &a) && a.max_mcast_grp > 1000 && a.max_mcast_qp_attach > 1000, "capabilities");
	one_process(&t);
	context_closed(&t);
	vt_close(&t);
	return 0;
}
