/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wake-ups: none is lost when the sender dies, and poll(2) reports a completion channel as readable only while ibv_get_cq_event
 * has an event to return, even if rings come late, objects are destroyed, or there are more events than a socket holds.
 *
 *     B    sleeps: on a channel, on asynchronous events, or until memory is written
 *     A    sends a datagram to B, and dies on the way to the wake-up
 *     C    joins the fabric again and again, as other processes would: so A's death is found
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"
#include "rig.h"

#define MANY 100

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n = poll(&p, 1, ms);

	CHECK(n >= 0);
	return n > 0;
}

static struct ibv_comp_channel *channel(struct rig *r)
{
	struct ibv_comp_channel *ch = shca_create_comp_channel(r->ctx);

	CHECK(ch);
	CHECK(!fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK));
	return ch;
}

static struct ibv_qp *datagrams(struct rig *r, struct ibv_cq *scq, struct ibv_cq *rcq, struct ibv_srq *srq)
{
	struct rig_qp_attr a = {.type = IBV_QPT_UD, .scq = scq, .rcq = rcq, .srq = srq, .send_wr = 8, .recv_wr = 8, .sge = 1,
				.inl = 64};
	struct ibv_qp *qp = rig_qp(r, &a);
	struct rig_path path = {0};

	rig_init(qp);
	rig_rtr(qp, &path);
	rig_rts(qp, &path);
	return qp;
}

static struct ibv_mr *memory(struct rig *r)
{
	char *p = shca_buf_alloc(r->ctx, 4096);

	CHECK(p);
	struct ibv_mr *mr = shca_reg_mr(r->pd, p, 4096, (uintptr_t)p, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	return mr;
}

static void receive(struct ibv_qp *qp, const struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)mr->addr, 256, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	CHECK(!shca_post_recv(qp, &wr, &bad));
}

static void send_to(struct rig *r, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_ah_attr aa = {.dlid = SHCA_LID, .port_num = 1};
	struct ibv_ah *ah = shca_create_ah(r->pd, &aa);
	struct ibv_sge sge = {(uintptr_t)&aa, 8, 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE,
				 .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = RIG_QKEY}}, *bad;

	CHECK(ah);
	CHECK(!shca_post_send(qp, &wr, &bad));
	CHECK(!shca_destroy_ah(ah));
}

/* The next event, acknowledged; NULL: there is none, and the descriptor says so. */
static struct ibv_cq *event(struct ibv_comp_channel *ch)
{
	bool said = readable(ch->fd, 0);
	struct ibv_cq *cq;
	void *context;

	if (shca_get_cq_event(ch, &cq, &context)) {
		CHECK(errno == EAGAIN);
		if (said)
			FAIL("poll says readable, and there is no event");
		return NULL;
	}
	if (!said)
		FAIL("an event of which poll knows nothing");
	shca_ack_cq_events(cq, 1);
	return cq;
}

/* ---- readable: there is an event ------------------------------------------------------------------------------------ */

struct sender {
	struct rig r;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void sender(struct sender *s, struct rig *first)
{
	rig_virtual(&s->r, first);
	s->cq = rig_cq(&s->r, 16, NULL);
	s->qp = datagrams(&s->r, s->cq, s->cq, NULL);
}

static void sender_leave(struct sender *s)
{
	CHECK(!shca_destroy_qp(s->qp) && !shca_destroy_cq(s->cq));
	rig_virtual_leave(&s->r);
}

static void rings(void)
{
	struct rig r;
	struct sender late, prompt;

	rig_virtual(&r, NULL);
	sender(&late, &r);
	sender(&prompt, &r);
	struct ibv_mr *mr = memory(&r);
	struct ibv_comp_channel *ch = channel(&r);
	struct ibv_cq *cq[MANY];
	struct ibv_qp *qp[MANY];
	for (int i = 0; i < MANY; i++) {
		cq[i] = rig_cq(&r, 8, ch);
		qp[i] = datagrams(&r, cq[i], cq[i], NULL);
		for (int k = 0; k < 4; k++)
			receive(qp[i], mr);
	}

	/* two CQs on a channel, and a sender that rings late */
	CHECK(!shca_req_notify_cq(cq[0], 0) && !shca_req_notify_cq(cq[1], 0));
	struct shca_thread *thr = shca_thread_get(late.r.m);
	shca_enter(thr);
	send_to(&late.r, late.qp, qp[0]->qp_num);
	send_to(&prompt.r, prompt.qp, qp[1]->qp_num);
	int got[2] = {0};
	for (struct ibv_cq *c; (c = event(ch));)
		got[c == cq[1]]++;
	shca_thread_get(late.r.m);
	shca_leave(thr);
	for (struct ibv_cq *c; (c = event(ch));)
		got[c == cq[1]]++;
	if (got[0] != 1 || got[1] != 1)
		FAIL("%d and %d events, not one each", got[0], got[1]);

	/* armed again before the event is read: one event, one ring */
	for (int k = 0; k < 2; k++) {
		CHECK(!shca_req_notify_cq(cq[0], 0));
		send_to(&prompt.r, prompt.qp, qp[0]->qp_num);
	}
	CHECK(event(ch) == cq[0] && !event(ch));

	/* destroyed with an unread event, among CQs that stay */
	for (int i = 0; i < 3; i++) {
		CHECK(!shca_req_notify_cq(cq[i], 0));
		send_to(&prompt.r, prompt.qp, qp[i]->qp_num);
	}
	CHECK(!shca_destroy_qp(qp[1]) && !shca_destroy_cq(cq[1]));
	struct ibv_cq *first = event(ch), *second = event(ch);
	CHECK(((first == cq[0] && second == cq[2]) || (first == cq[2] && second == cq[0])) && !event(ch));

	/* more events than the socket holds rings */
	for (int i = 2; i < MANY; i++) {
		CHECK(!shca_req_notify_cq(cq[i], 0));
		send_to(&prompt.r, prompt.qp, qp[i]->qp_num);
	}
	for (int i = 2; i < MANY; i++)
		if (!event(ch))
			FAIL("%d events, %d expected", i - 2, MANY - 2);
	CHECK(!event(ch));

	for (int i = 0; i < MANY; i++)
		if (i != 1)
			CHECK(!shca_destroy_qp(qp[i]) && !shca_destroy_cq(cq[i]));
	void *at = mr->addr;
	CHECK(!shca_destroy_comp_channel(ch) && !shca_dereg_mr(mr) && !shca_buf_free(r.ctx, at));
	sender_leave(&late);
	sender_leave(&prompt);
	rig_virtual_leave(&r);
}

/* ---- death on the way to wake ----------------------------------------------------------------------------------------- */

enum sleep { CHANNEL, ASYNC, WRITTEN };

static const struct point {
	const char *name;
	enum sleep sleep;
	bool late;			/* looks when the reaper has been there: two rings, one event */
} points[] = {
	{"event-raised", CHANNEL, false}, {"ring", CHANNEL, false}, {"rung", CHANNEL, false}, {"limit", ASYNC, false},
	{"ring", ASYNC, false}, {"ring", WRITTEN, false}, {"woken", WRITTEN, false}, {"cqe-visible", CHANNEL, false},
	{"rung", CHANNEL, true},
};

static struct stage {
	char fabric[64];
	struct failpoint_arm arm[FAILPOINT_ARMS];
	uint32_t qpn;
	_Atomic uint32_t asleep, dead, done, reaped;
} *st;

/* Raises and reads an asynchronous event: none is left. */
static void reads_an_event(struct rig *r)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_srq *srq = shca_create_srq(r->pd, &sa);
	struct ibv_async_event ev;

	CHECK(srq && !shca_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	CHECK(readable(r->ctx->async_fd, 0) && !shca_get_async_event(r->ctx, &ev));
	shca_ack_async_event(&ev);
	CHECK(!shca_destroy_srq(srq) && !readable(r->ctx->async_fd, 0));
}

static void sleep_on_channel(const struct rig *r, struct ibv_comp_channel *ch, bool late)
{
	struct ibv_cq *cq;
	void *context;

	if (late)
		rig_await(&st->reaped, 1);
	if (!readable(ch->fd, 20000))
		FAIL("the channel's wake-up was lost");
	/* the ring of a dead sender may be there first, and count for nothing */
	for (int i = 0; shca_get_cq_event(ch, &cq, &context); i++, rig_nap())
		if (i > 40000)
			FAIL("readable for ever, but no event");
	shca_ack_cq_events(cq, 1);
	/* the reaper rings bells only while reaping */
	atomic_store(&st->done, 1);
	rig_await(&st->reaped, 1);
	if (readable(ch->fd, 0))
		FAIL("poll says readable, and there is no event");
	if (readable(r->ctx->async_fd, 0))
		FAIL("a death makes poll say that there is an asynchronous event");
}

static void sleep_on_events(struct rig *r)
{
	struct ibv_async_event ev;

	if (!readable(r->ctx->async_fd, 20000))
		FAIL("the wake-up for an asynchronous event was lost");
	CHECK(!shca_get_async_event(r->ctx, &ev) && ev.event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
	shca_ack_async_event(&ev);
	atomic_store(&st->done, 1);
	rig_await(&st->reaped, 1);
	if (readable(r->ctx->async_fd, 0))
		FAIL("poll says readable, and there is no asynchronous event");
}

static void role_b(const struct point *p)
{
	struct rig r;
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = 2};

	rig_join(&r, st->fabric);
	struct ibv_mr *mr = memory(&r);
	struct ibv_comp_channel *ch = channel(&r);
	struct ibv_cq *cq = rig_cq(&r, 16, ch);
	struct ibv_srq *srq = p->sleep == ASYNC ? shca_create_srq(r.pd, &sa) : NULL;
	struct ibv_qp *qp = datagrams(&r, cq, cq, srq);
	struct ibv_sge sge = {(uintptr_t)mr->addr, 256, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	for (int i = 0; i < 2; i++)
		CHECK(!(srq ? shca_post_srq_recv(srq, &wr, &bad) : shca_post_recv(qp, &wr, &bad)));
	if (srq)
		CHECK(!shca_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	if (p->sleep == CHANNEL) {
		reads_an_event(&r);
		CHECK(!shca_req_notify_cq(cq, 0));
	}
	uint32_t seen = p->sleep == WRITTEN ? shca_sleep_prepare(r.m) : 0;
	st->qpn = qp->qp_num;
	atomic_store(&st->asleep, 1);
	if (p->sleep == CHANNEL) {
		sleep_on_channel(&r, ch, p->late);
	} else if (p->sleep == ASYNC) {
		sleep_on_events(&r);
	} else {
		/* in the kernel when A dies */
		if (shca_sleep_commit(r.m, seen, 20000000000ull))
			FAIL("the wake-up of one who sleeps until it is written to was lost");
		atomic_store(&st->done, 1);
	}
	CHECK(!shca_destroy_qp(qp) && !(srq && shca_destroy_srq(srq)) && !shca_destroy_cq(cq));
	void *at = mr->addr;
	CHECK(!shca_destroy_comp_channel(ch) && !shca_dereg_mr(mr) && !shca_buf_free(r.ctx, at));
	rig_leave(&r);
}

static void role_a(const struct point *p)
{
	struct rig r;

	rig_join(&r, st->fabric);
	struct ibv_cq *cq = rig_cq(&r, 16, NULL);
	struct ibv_qp *qp = datagrams(&r, cq, cq, NULL);
	rig_await(&st->asleep, 1);
	for (int i = 0; i < 20; i++)
		rig_nap();
	snprintf(st->arm[0].name, sizeof(st->arm[0].name), "%s", p->name);
	st->arm[0].op = -1;
	atomic_store(&st->arm[0].pid, (int32_t)getpid());
	send_to(&r, qp, st->qpn);
	FAIL("the point \"%s\" was not reached", p->name);
}

static void role_c(void)
{
	struct rig r;

	rig_join(&r, st->fabric);
	rig_await(&st->dead, 1);
	shca_proc_sweep(shca_thread_get(r.m));
	atomic_store(&st->reaped, 1);
	rig_await(&st->done, 1);
	rig_leave(&r);
}

static void play(const struct point *p)
{
	pid_t pid[3];
	int status;

	memset(st, 0, sizeof(*st));
	snprintf(st->fabric, sizeof(st->fabric), "wakeups-%d", (int)getpid());
	for (int i = 0; i < 3; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			alarm(60);
			i == 0 ? role_a(p) : i == 1 ? role_b(p) : role_c();
			_exit(0);
		}
	}
	waitpid(pid[0], &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		FAIL("%s: A did not die where it should: status %#x", p->name, (unsigned)status);
	atomic_store(&st->dead, 1);
	for (int i = 1; i < 3; i++) {
		waitpid(pid[i], &status, 0);
		if (status) {
			kill(pid[3 - i], SIGKILL);
			FAIL("%s, sleep %d: role %c ended with status %#x", p->name, p->sleep, 'A' + i, (unsigned)status);
		}
	}
}

/* wakeups [WHICH]: all, or one of the points; beyond the last: the rings. */
int main(int argc, char **argv)
{
	const size_t n = sizeof(points) / sizeof(*points), only = argc > 1 ? (size_t)atoi(argv[1]) : SIZE_MAX;

	alarm(300);
	st = mmap(NULL, sizeof(*st), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(st != MAP_FAILED);
	failpoint_arms = st->arm;
	/* before this process is a member: children join for themselves */
	for (size_t i = 0; i < n; i++)
		if (only == SIZE_MAX || only == i)
			play(&points[i]);
	if (only >= n)
		rings();
	return 0;
}
