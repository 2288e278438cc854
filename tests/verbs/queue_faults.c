/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of chosen queues, set while they run (shcactl set --queue): a request that is lost is sent again until its retries are
 * used up; RNR NAKs count against rnr_retry; a delay delays; datagrams are lost and doubled; the same seed makes the same
 * decisions; other queues notice nothing, and afterwards no queue does.
 */
#include "vt.h"

#define BYTES 65536u
#define MESSAGES 30u

static struct vt t;
static char *mem;
static struct ibv_mr *mr;
static struct ibv_cq *scq, *rcq;
static const char *shcactl;
static unsigned long hits;		/* of the last set() */

/* shcactl set --queue qp SPEC. `hits`: all requests that faults have hit so far. */
static void set(const char *queue, const char *spec)
{
	char command[256], line[512];

	snprintf(command, sizeof command, "'%s' --fabric %s set --queue %s %s", shcactl, getenv("SHCA_FABRIC"), queue, spec);
	FILE *f = popen(command, "r");
	CHECK(f, "popen");
	hits = 0;
	while (fgets(line, sizeof line, f)) {
		unsigned long drop, delay, rnr, dup;
		const char *at = strstr(line, "requests:");
		if (at && sscanf(at, "requests: drop %lu delay %lu rnr %lu dup %lu", &drop, &delay, &rnr, &dup) == 4)
			hits += drop + delay + rnr + dup;
	}
	CHECK(!pclose(f), "%s", command);
}

static void set_qp(const struct ibv_qp *qp, const char *spec)
{
	char number[16];

	snprintf(number, sizeof number, "0x%x", qp->qp_num);
	set(number, spec);
}

struct pair {
	struct ibv_qp *a, *b;
};

/* timeout: 8: 1 ms, and 3 more tries; 16: 268 ms, and 2 s until the retries are used up, for a machine that is busy meanwhile */
static struct pair connect_pair(uint8_t timeout, uint8_t rnr_retry)
{
	struct ibv_qp_attr rts = vt_rts_attr();
	struct pair p = { vt_qp(&t, IBV_QPT_RC, scq, NULL), NULL };
	struct ibv_qp_init_attr i = { .send_cq = rcq, .recv_cq = rcq, .qp_type = IBV_QPT_RC,
				      .cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 } };

	CHECK((p.b = ibv_create_qp(t.pd, &i)), "ibv_create_qp");
	rts.rnr_retry = rnr_retry;
	rts.timeout = timeout;
	rts.retry_cnt = timeout > 8 ? 7 : 3;
	CHECK(!vt_init(p.a) && !vt_init(p.b), "INIT");
	vt_rtr_rts(p.b, p.a->qp_num, vt_rts_attr());
	vt_rtr_rts(p.a, p.b->qp_num, rts);
	return p;
}

static void end_pair(struct pair p)
{
	struct ibv_wc wc;

	CHECK(!ibv_destroy_qp(p.a) && !ibv_destroy_qp(p.b), "destroy");
	while (ibv_poll_cq(scq, 1, &wc) > 0 || ibv_poll_cq(rcq, 1, &wc) > 0)
		;
}

static void write_one(struct pair p, uint64_t id, enum ibv_wc_status status)
{
	*(uint64_t *)mem = id;
	*(uint64_t *)(mem + BYTES / 2) = 0;
	CHECK(!vt_rdma(p.a, IBV_WR_RDMA_WRITE, id, vt_sge(mr, 0, 8), (uintptr_t)mem + BYTES / 2, mr->rkey), "post");
	vt_expect(scq, id, status);
	CHECK((*(uint64_t *)(mem + BYTES / 2) == id) == (status == IBV_WC_SUCCESS), "the data: %lu",
	      (unsigned long)*(uint64_t *)(mem + BYTES / 2));
}

/* All requests of the queue are lost; those of other queues are not. */
static void dropped(void)
{
	struct pair p = connect_pair(8, 7), other = connect_pair(8, 7);

	write_one(p, 1, IBV_WC_SUCCESS);
	set_qp(p.a, "drop=1");
	write_one(other, 2, IBV_WC_SUCCESS);
	write_one(p, 3, IBV_WC_RETRY_EXC_ERR);
	set_qp(p.a, "drop=0");
	end_pair(p);
	end_pair(other);
}

/* Some are: all arrive, in order. Returns how many requests were hit. */
static unsigned long some(const char *spec)
{
	struct pair p = connect_pair(16, 7);

	set_qp(p.a, spec);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		CHECK(!vt_recv(p.b, i, vt_sge(mr, BYTES / 2, 64)), "recv");
		CHECK(!vt_send(p.a, i, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "send");
		vt_expect(scq, i, IBV_WC_SUCCESS);
		vt_expect(rcq, i, IBV_WC_SUCCESS);
	}
	set_qp(p.a, "delay_us=1");
	unsigned long n = hits;
	set_qp(p.a, "drop=0,rnr=0,delay=0,dup=0");
	end_pair(p);
	return n;
}

/* The reason in `shcactl queues` for which the queue waits. */
static void waits_for(const struct ibv_qp *qp, const char *what)
{
	char command[256], line[1024], number[16];
	bool found = false;

	snprintf(command, sizeof command, "'%s' --fabric %s -o csv queues", shcactl, getenv("SHCA_FABRIC"));
	snprintf(number, sizeof number, "0x%06x,", qp->qp_num);
	FILE *f = popen(command, "r");
	CHECK(f, "popen");
	while (fgets(line, sizeof line, f))
		if (!strncmp(line, number, strlen(number))) {
			found = true;
			CHECK(strstr(line, what), "%s: not \"%s\"", line, what);
		}
	CHECK(!pclose(f) && found, "%s", command);
}

static void stuck(void)
{
	struct pair p = connect_pair(31, 7);
	char text[64];

	waits_for(p.a, ",-,-\n");
	CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "send");
	snprintf(text, sizeof text, ",a receive of 0x%06x,", p.b->qp_num);
	waits_for(p.a, text);
	CHECK(!vt_recv(p.b, 2, vt_sge(mr, BYTES / 2, 64)), "recv");
	vt_expect(scq, 1, IBV_WC_SUCCESS);
	waits_for(p.a, ",-,-\n");
	set_qp(p.a, "drop=1");
	CHECK(!vt_send(p.a, 3, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "send");
	waits_for(p.a, ",the tap: drop,");
	set_qp(p.a, "drop=0");
	end_pair(p);
}

static void rnr(void)
{
	struct pair p = connect_pair(8, 2);

	set_qp(p.a, "rnr=1");
	CHECK(!vt_recv(p.b, 1, vt_sge(mr, 0, 64)), "recv");
	CHECK(!vt_send(p.a, 1, vt_sge(mr, 0, 64), IBV_SEND_SIGNALED), "send");
	vt_expect(scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	set_qp(p.a, "rnr=0");
	end_pair(p);
}

static void delayed(void)
{
	struct pair p = connect_pair(16, 7);

	set("all", "delay=1,delay_us=3000");
	uint64_t begin = vt_ms();
	write_one(p, 1, IBV_WC_SUCCESS);
	/* 3 ms, of which a clock of whole ms may see 2 */
	CHECK(vt_ms() - begin >= 2, "delayed by %lu ms", (unsigned long)(vt_ms() - begin));
	set("all", "delay=0");
	end_pair(p);
}

/* A process that joins while faults of all queues are set. */
static void joiner(void)
{
	struct vt_peer peer = vt_fork();

	if (!peer.child) {
		vt_hear(&peer, &(char){ 0 }, 1);
		t = vt_open();
		mem = shca_alloc(t.ctx, BYTES);
		CHECK(mem, "shca_alloc");
		mr = vt_mr(&t, mem, BYTES, VT_ACCESS);
		scq = vt_cq(&t, 64, NULL);
		rcq = vt_cq(&t, 64, NULL);
		struct pair p = connect_pair(8, 7);
		write_one(p, 1, IBV_WC_RETRY_EXC_ERR);
		_exit(0);
	}
	set("all", "drop=1");
	vt_tell(&peer, &(char){ 0 }, 1);
	vt_join(&peer);
	set("all", "drop=0");
}

static void datagrams(void)
{
	struct ibv_qp *a = vt_qp(&t, IBV_QPT_UD, scq, NULL);
	struct pair p = { a, NULL };
	struct ibv_qp_init_attr i = { .send_cq = rcq, .recv_cq = rcq, .qp_type = IBV_QPT_UD,
				      .cap = { .max_send_wr = 4, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_ah_attr near = { .dlid = 1, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(t.pd, &near);

	CHECK(ah && (p.b = ibv_create_qp(t.pd, &i)), "objects");
	vt_connect(p.a, 0);
	vt_connect(p.b, 0);
	for (uint64_t k = 0; k < 8; k++)
		CHECK(!vt_recv(p.b, k, vt_sge(mr, 0, 128)), "recv");
	for (int inl = 0; inl < 2; inl++) {
		struct ibv_sge sge = vt_sge(mr, 0, 16);
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
					  .send_flags = inl ? IBV_SEND_INLINE : IBV_SEND_SIGNALED,
					  .wr.ud = { .ah = ah, .remote_qpn = p.b->qp_num, .remote_qkey = VT_QKEY } }, *bad;
		/* fills the look-up of the short path */
		CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
		vt_wait(rcq);
		set_qp(p.a, "drop=1");
		CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
		vt_none(rcq);
		set_qp(p.a, "drop=0,dup=1");
		CHECK(!ibv_post_send(p.a, &wr, &bad), "post");
		vt_wait(rcq);
		vt_wait(rcq);
		vt_none(rcq);
		set_qp(p.a, "dup=0");
	}
	CHECK(!ibv_destroy_ah(ah), "destroy");
	end_pair(p);
}

int main(int argc, char **argv)
{
	shcactl = argc > 1 ? argv[1] : "./shcactl";
	if (access(shcactl, X_OK))
		return 77;
	vt_fabric();
	t = vt_open();
	mem = shca_alloc(t.ctx, BYTES);
	CHECK(mem, "shca_alloc");
	mr = vt_mr(&t, mem, BYTES, VT_ACCESS);
	scq = vt_cq(&t, 256, NULL);
	rcq = vt_cq(&t, 256, NULL);
	dropped();
	unsigned long first = some("drop=0.1,dup=0.2,seed=7"), again = some("drop=0.1,dup=0.2,seed=7");
	CHECK(first > 4 && first < MESSAGES, "%lu of %u hit", first, MESSAGES);
	CHECK(first == again, "%lu, then %lu hit by the same seed", first, again);
	CHECK(some("rnr=0.3,seed=1") > 4, "few RNR NAKs");
	rnr();
	stuck();
	delayed();
	joiner();
	datagrams();
	CHECK(!ibv_destroy_cq(scq) && !ibv_destroy_cq(rcq) && !ibv_dereg_mr(mr) && !shca_free(t.ctx, mem), "destroy");
	vt_close(&t);
	return 0;
}
