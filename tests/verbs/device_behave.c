/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SHCA_BEHAVE: the device no longer promises a guarantee that a word takes away, and really behaves without it. Each word in a
 * process of its own; and no word: then all guarantees are promised, and hold.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <infiniband/verbs_exp.h>

#include "vt.h"

#define TRIES 20000
#define BYTES 16384u

static const char *word;
static struct vt t;
static struct ibv_cq *cq;
static struct ibv_qp *from, *to;
static char source[BYTES];
static char *target;
static struct ibv_mr *target_mr, *source_mr;

static bool told(const char *w)
{
	return !strcmp(word, w);
}

static void drain(void)
{
	CHECK(!vt_rdma(from, IBV_WR_RDMA_WRITE, 9, (struct ibv_sge){ .length = 0 }, (uintptr_t)target, target_mr->rkey), "post");
	vt_expect(cq, 9, IBV_WC_SUCCESS);
}

static struct ibv_send_wr a_write(struct ibv_sge *sge, const void *p, uint32_t n)
{
	*sge = (struct ibv_sge){ .addr = (uintptr_t)p, .length = n };
	return (struct ibv_send_wr){ .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
				     .wr.rdma = { .remote_addr = (uintptr_t)target, .rkey = target_mr->rkey } };
}

/* A post only queues: some write has not landed when its post has returned, and lands all the same. */
static bool is_late(void)
{
	bool late = false;

	for (uint64_t i = 1; i <= TRIES && !late; i++) {
		struct ibv_sge sge;
		struct ibv_send_wr wr = a_write(&sge, &i, 8), *bad;
		CHECK(!ibv_post_send(from, &wr, &bad), "post");
		late = *(volatile uint64_t *)target != i;
		if (i % 32 == 0 || late)
			drain();
		CHECK(!late || *(volatile uint64_t *)target == i, "it has landed by now");
	}
	return late;
}

/* Of two writes to one place the first one stays. */
static bool is_overtaken(void)
{
	for (uint64_t i = 1; i <= TRIES; i++) {
		uint64_t first = 2 * i, second = 2 * i + 1;
		struct ibv_sge sge[2];
		struct ibv_send_wr *bad, wr[2] = { a_write(&sge[0], &first, 8), a_write(&sge[1], &second, 8) };
		wr[0].next = &wr[1];
		CHECK(!ibv_post_send(from, wr, &bad), "post");
		drain();
		uint64_t now = *(volatile uint64_t *)target;
		CHECK(now == first || now == second, "neither has landed");
		if (now == first)
			return true;
	}
	return false;
}

static _Atomic bool disordered, stop;

static void *watch(void *arg)
{
	while (!atomic_load(&stop)) {
		uint32_t end = ((volatile uint32_t *)target)[BYTES / 4 - 1];
		atomic_thread_fence(memory_order_acquire);
		uint32_t begin = *(volatile uint32_t *)target;
		/* laps: the end is ahead of the beginning. Behind it the beginning may be, by any number: this thread may have
		 * been away in between. */
		if (end > begin)
			atomic_store(&disordered, true);
	}
	return arg;
}

/* The end of a write is seen before its beginning. */
static bool is_disordered(void)
{
	pthread_t thread;

	memset(target, 0, BYTES);
	CHECK(!pthread_create(&thread, NULL, watch, NULL), "pthread_create");
	for (uint32_t i = 1; i <= TRIES / 4 && !atomic_load(&disordered); i++) {
		memset(source, (int)i, BYTES);
		memcpy(source, &i, sizeof(i));
		memcpy(source + BYTES - sizeof(i), &i, sizeof(i));
		CHECK(!vt_rdma(from, IBV_WR_RDMA_WRITE, 1, vt_sge(source_mr, 0, BYTES), (uintptr_t)target, target_mr->rkey),
		      "post");
		vt_expect(cq, 1, IBV_WC_SUCCESS);
		CHECK(!memcmp(target, source, BYTES), "all of it has landed");
	}
	atomic_store(&stop, true);
	CHECK(!pthread_join(thread, NULL), "pthread_join");
	return atomic_load(&disordered);
}

static void memory(void)
{
	void *p = shca_alloc(t.ctx, 4096);
	CHECK(p ? !told("noarena") : told("noarena") && errno == EOPNOTSUPP, "shca_alloc");
	if (p)
		CHECK(!shca_free(t.ctx, p), "shca_free");
	struct ibv_device_attr_ex a;
	CHECK(!ibv_query_device_ex(t.ctx, NULL, &a), "query");
	CHECK(!(a.odp_caps.general_caps | a.odp_caps.per_transport_caps.rc_odp_caps | a.xrc_odp_caps) == told("noodp"), "caps");
	struct ibv_mr *all = ibv_reg_mr(t.pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(all ? !told("noodp") : told("noodp") && errno == EOPNOTSUPP, "the whole address space");
	if (all)
		CHECK(!ibv_dereg_mr(all), "dereg");
	struct ibv_exp_device_attr exp = { .comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS };
	CHECK(!ibv_exp_query_device(t.ctx, &exp) && !(exp.exp_device_cap_flags & IBV_EXP_DEVICE_ODP) == told("noodp"),
	      "experimental caps");
	static char own[4096];
	struct ibv_mr *mr = vt_mr(&t, own, sizeof own, IBV_ACCESS_LOCAL_WRITE);
	int rc = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	CHECK(rc == (told("noodp") ? IBV_REREG_MR_ERR_INPUT : 0), "rereg_mr: %d", rc);
	CHECK(!ibv_dereg_mr(mr), "dereg");
}

/* Requests of a queue that fails before it was connected are flushed; in a process of which no queue was connected so far. */
static void fails_unconnected(void)
{
	struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, NULL);

	CHECK(!vt_init(qp) && !vt_to(qp, IBV_QPS_ERR), "init, error");
	CHECK(!vt_rdma(qp, IBV_WR_RDMA_WRITE, 3, (struct ibv_sge){ .length = 0 }, 0, 0), "post");
	vt_expect(cq, 3, IBV_WC_WR_FLUSH_ERR);
	CHECK(!ibv_destroy_qp(qp), "destroy");
}

/* Of two writes that wait the second one is refused: the first one succeeds, and the second one says it. The queue has failed
 * then. */
static void refuses_the_second(void)
{
	struct ibv_sge sge[2];
	uint64_t v = 1;
	struct ibv_send_wr *bad, wr[2] = { a_write(&sge[0], &v, 8), a_write(&sge[1], &v, 8) };

	*(volatile uint64_t *)target = 0;
	wr[0].next = &wr[1];
	wr[0].wr_id = 5;
	wr[0].send_flags |= IBV_SEND_SIGNALED;
	wr[1].wr_id = 6;
	wr[1].wr.rdma.rkey ^= 0x80;
	CHECK(!vt_to(from, IBV_QPS_SQD) && !ibv_post_send(from, wr, &bad) && !vt_to(from, IBV_QPS_RTS),
	      "both are there when it runs");
	vt_expect(cq, 5, IBV_WC_SUCCESS);
	CHECK(*(volatile uint64_t *)target == v, "the first one has landed");
	vt_expect(cq, 6, IBV_WC_REM_ACCESS_ERR);
}

static void sleep_and_wake(void)
{
	uint32_t seen;
	int err = shca_await_prepare(t.ctx, &seen);

	CHECK(err == (told("nowake") ? EOPNOTSUPP : 0), "%d", err);
	if (!err)
		shca_await_cancel(t.ctx);
	CHECK(shca_await_wake(t.ctx) == err, "of one mind");
}

static int behaves(const char *w)
{
	word = w;
	CHECK(!setenv("SHCA_BEHAVE", word, 1), "setenv");
	vt_fabric();
	t = vt_open();
	cq = vt_cq(&t, 128, NULL);
	from = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	to = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	CHECK(!vt_init(from) && !vt_init(to), "init");
	fails_unconnected();
	vt_connect_pair(from, to);
	target = aligned_alloc(4096, BYTES);
	CHECK(target, "memory");
	target_mr = vt_mr(&t, target, BYTES, VT_ACCESS);
	source_mr = vt_mr(&t, source, BYTES, VT_ACCESS);
	uint32_t promises = shca_promises(t.ctx);
	bool async = told("async") || told("nosequence");
	CHECK(!(promises & SHCA_PROMISE_AT_ONCE) == async && !(promises & SHCA_PROMISE_SEQUENCE) == told("nosequence") &&
	      promises & SHCA_PROMISE_TELLS_END, "promises %#x", promises);
	CHECK(ibv_query_qp_data_in_order(from, IBV_WR_RDMA_WRITE, 0) == !told("noorder"), "the promise of order");
	const uint32_t *unfinished = NULL;
	CHECK(shca_unfinished(from, &unfinished) == (async ? EOPNOTSUPP : 0) && !unfinished == async,
	      "what may have to be posted again");
	CHECK(is_late() == async, "landed when the post returned");
	CHECK(is_overtaken() == told("nosequence"), "the order of two writes");
	CHECK(is_disordered() == told("noorder"), "the order within a write");
	memory();
	sleep_and_wake();
	refuses_the_second();
	/* connected anew */
	CHECK(!vt_to(from, IBV_QPS_RESET) && !vt_to(to, IBV_QPS_RESET) && !vt_init(from) && !vt_init(to), "reset");
	vt_connect_pair(from, to);
	/* with each word, memory that is not registered is not accessed; the last step, since the queue is in error then */
	static char stranger[64];
	CHECK(!vt_rdma(from, IBV_WR_RDMA_WRITE, 2, (struct ibv_sge){(uintptr_t)stranger, 64, 0}, (uintptr_t)target,
		       target_mr->rkey),
	      "post");
	vt_expect(cq, 2, IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_dereg_mr(target_mr) && !ibv_dereg_mr(source_mr) &&
		      !ibv_destroy_cq(cq),
	      "destroy");
	vt_close(&t);
	return 0;
}

/* Another process's SHCA_BEHAVE changes no promise of this process's device: a queue that waits for a receive goes on in the
 * thread that posts the receive. */
struct place {
	uint64_t addr;
	uint32_t rkey, qpn;
};

static void post_behind_a_send(uint64_t i)
{
	uint64_t first = 2 * i, second = 2 * i + 1;
	struct ibv_sge sge[3];
	struct ibv_send_wr *bad,
		send = {.opcode = IBV_WR_SEND},
		wr[3] = {a_write(&sge[0], &first, 8), a_write(&sge[1], &second, 8), a_write(&sge[2], source, BYTES)};
	uint32_t n = (uint32_t)i;

	memset(source, (int)i, BYTES);
	memcpy(source, &n, sizeof(n));
	memcpy(source + BYTES - sizeof(n), &n, sizeof(n));
	send.next = &wr[0];
	for (int k = 0; k < 2; k++) {
		wr[k].wr.rdma.remote_addr += BYTES;
		wr[k].next = &wr[k + 1];
	}
	sge[2].lkey = source_mr->lkey;
	wr[2].wr_id = i;
	wr[2].send_flags = IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(from, &send, &bad), "post");
}

static int beside(const char *w)
{
	vt_fabric();
	struct vt_peer p = vt_fork();
	struct place mine = { 0 }, theirs;
	pthread_t thread;

	if (!p.child)
		CHECK(!setenv("SHCA_BEHAVE", w, 1), "setenv");
	t = vt_open();
	cq = vt_cq(&t, 128, NULL);
	from = vt_qp(&t, IBV_QPT_RC, cq, NULL);
	target = aligned_alloc(4096, 2 * BYTES);
	CHECK(target, "memory");
	memset(target, 0, 2 * BYTES);
	target_mr = vt_mr(&t, target, 2 * BYTES, VT_ACCESS);
	source_mr = vt_mr(&t, source, BYTES, VT_ACCESS);
	mine = (struct place){ (uintptr_t)target, target_mr->rkey, from->qp_num };
	vt_tell(&p, &mine, sizeof(mine));
	vt_hear(&p, &theirs, sizeof(theirs));
	vt_connect(from, theirs.qpn);
	vt_meet(&p);
	if (!p.child)
		CHECK(!pthread_create(&thread, NULL, watch, NULL), "pthread_create");
	else {	/* as a_write has it */
		target = (char *)(uintptr_t)theirs.addr;
		target_mr->rkey = theirs.rkey;
	}
	for (uint64_t i = 1; i <= TRIES / 40; i++) {
		if (p.child)
			post_behind_a_send(i);
		vt_meet(&p);
		if (!p.child)
			CHECK(!vt_recv(from, i, (struct ibv_sge){ .length = 0 }), "recv");
		vt_expect(cq, i, IBV_WC_SUCCESS);
		vt_meet(&p);
		uint64_t now = *(volatile uint64_t *)(target + BYTES);
		CHECK(p.child || now == 2 * i + 1,
		      "the sender promises the sequence of its writes: %llu behind %llu, a process with SHCA_BEHAVE=%s "
		      "has run its queue",
		      (unsigned long long)now, (unsigned long long)(2 * i + 1), w);
	}
	atomic_store(&stop, true);
	if (!p.child) {
		CHECK(!pthread_join(thread, NULL), "pthread_join");
		CHECK(!atomic_load(&disordered),
		      "the sender promises the order within a write: a process with SHCA_BEHAVE=%s has run its queue", w);
	}
	return vt_join(&p);
}

int main(int argc, char **argv)
{
	static const char *const words[] = { "", "async", "noarena", "noodp", "noorder", "nosequence", "nowake" };
	const size_t n = sizeof words / sizeof *words;

	if (argc > 1)
		return argc > 2 ? beside(argv[1]) : behaves(argv[1]);
	for (size_t i = 0; i < n + 2; i++) {
		int status;
		pid_t pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid)
			exit(i < n ? behaves(words[i]) : beside(i == n ? "noorder" : "nosequence"));
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status), "SHCA_BEHAVE=%s: status %#x",
		      i < n ? words[i] : "of another process", status);
	}
	return 0;
}
