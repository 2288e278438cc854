/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_open_qp: XRC's receiving queue pair belongs to all processes that opened the queue pair, and stays until the last of them
 * closes it.
 *
 * The first process gives orders to the test's other processes (a struct order, answered), which die by SIGKILL.
 */
#include <fcntl.h>
#include <signal.h>

#include "vt.h"

enum what {
	CREATE, OPEN, INIT, RTR, RTS, MODIFY, QUERY, DESTROY, EVENT, ACK, CLOSE_DOMAIN,	/* handle `slot` */
	SRQ, DESTROY_SRQ, RECEIVE, TAKE,				/* the shared receive queue */
	ARENA, LOOK,							/* memory for RDMA WRITEs */
	SENDER, CONNECT, SEND, SENT, AIM, WRITE,			/* the sending queue pair */
	LEAVE,
};
struct order {
	enum what what;
	uint32_t slot, arg, domain;
};
struct answer {
	int err;
	uint32_t value, more;
};

#define HANDLES 4
#define DOMAINS 3	/* two with files, one that no other process can open */

/* ---- processes that obey --------------------------------------------------------------------------------------------------- */

static struct vt t;
static struct ibv_xrcd *domain[DOMAINS];
static struct ibv_qp *handle[HANDLES], *out;
static struct ibv_srq *srq;
static struct ibv_cq *sent, *received;
static struct ibv_mr *mr;
static struct ibv_async_event last;
static uint64_t mem[64];
/* of ARENA, or where WRITEs go */
static uint64_t *arena;
static uint32_t rkey;

static struct ibv_xrcd *domain_at(uint32_t i)
{
	static const char *const file[] = {"/proc/self/exe", "/bin/sh"};
	int fd = i < 2 ? open(file[i], O_RDONLY) : -1;
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
				       .fd = fd,
				       .oflags = O_CREAT};

	if (!domain[i]) {
		domain[i] = ibv_open_xrcd(t.ctx, &x);
		CHECK(domain[i], "ibv_open_xrcd");
	}
	if (fd >= 0)
		close(fd);
	return domain[i];
}

static int made(const void *p)
{
	return p ? 0 : errno;
}

static struct ibv_qp *open_one(uint32_t number, uint32_t in, void *context)
{
	struct ibv_qp_open_attr a = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = number, .xrcd = domain_at(in), .qp_type = IBV_QPT_XRC_RECV, .qp_context = context,
	};

	return ibv_open_qp(t.ctx, &a);
}

/* The next event: within a minute if there is to be one, else at once. */
static int next_event(bool wait)
{
	struct pollfd p = {.fd = t.ctx->async_fd, .events = POLLIN};

	if (poll(&p, 1, wait ? 60000 : 0) != 1)
		return ETIMEDOUT;
	return ibv_get_async_event(t.ctx, &last) ? errno : 0;
}

static void do_handle(const struct order *o, struct answer *a)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	struct ibv_qp **h = &handle[o->slot];
	struct ibv_qp_attr rtr = vt_rtr_attr(o->arg), rts = vt_rts_attr(), attr;
	struct ibv_qp_init_attr got;

	switch (o->what) {
	case CREATE:
		init.xrcd = domain_at(o->domain);
		*h = ibv_create_qp_ex(t.ctx, &init);
		a->err = made(*h);
		a->value = *h ? (*h)->qp_num : 0;
		break;
	case OPEN:
		*h = open_one(o->arg, o->domain, &mem[o->slot]);
		a->err = made(*h);
		a->value = *h ? (uint32_t)(*h)->state : 0;
		CHECK(!*h || ((*h)->qp_num == o->arg && (*h)->qp_type == IBV_QPT_XRC_RECV && (*h)->qp_context == &mem[o->slot] &&
			      (*h)->context == t.ctx), "what was opened");
		break;
	case INIT: a->err = vt_init(*h); break;
	case RTR: a->err = ibv_modify_qp(*h, &rtr, VT_RTR_RC); break;
	case RTS: a->err = ibv_modify_qp(*h, &rts, vt_rts_mask(*h)); break;
	case MODIFY: a->err = vt_to(*h, (enum ibv_qp_state)o->arg); break;
	case QUERY:
		a->err = ibv_query_qp(*h, &attr, IBV_QP_STATE, &got);
		a->value = (uint32_t)attr.qp_state;
		a->more = attr.dest_qp_num;
		CHECK(got.qp_type == IBV_QPT_XRC_RECV, "type");
		break;
	case DESTROY:
		a->err = ibv_destroy_qp(*h);
		*h = NULL;
		break;
	case EVENT:
		a->err = next_event(o->arg);
		a->value = (uint32_t)last.event_type;
		for (a->more = 0; !a->err && a->more < HANDLES && handle[a->more] != last.element.qp; a->more++)
			;
		if (!a->err)
			ibv_ack_async_event(&last);
		break;
	case CLOSE_DOMAIN:
		a->err = ibv_close_xrcd(domain[o->domain]);
		if (!a->err)
			domain[o->domain] = NULL;
		break;
	default: CHECK(false, "order %d", o->what);
	}
}

static void do_srq(const struct order *o, struct answer *a)
{
	struct ibv_srq_init_attr_ex s = {
		.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_XRC, .pd = t.pd, .cq = received,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_wc wc;

	switch (o->what) {
	case SRQ:
		s.xrcd = domain_at(o->domain);
		srq = ibv_create_srq_ex(t.ctx, &s);
		CHECK(srq && !ibv_get_srq_num(srq, &a->value), "SRQ");
		break;
	case DESTROY_SRQ: a->err = ibv_destroy_srq(srq); break;
	case ARENA:
		arena = shca_alloc(t.ctx, 4096);
		CHECK(arena, "shca_alloc");
		a->value = vt_mr(&t, arena, 4096, VT_ACCESS)->rkey;
		a->more = o->arg ? (uint32_t)((uintptr_t)arena >> 32) : (uint32_t)(uintptr_t)arena;
		break;
	case LOOK: a->value = (uint32_t)*(volatile uint64_t *)arena; break;
	case RECEIVE: a->err = vt_srq_recv(srq, o->arg, vt_sge(mr, 8, 8)); break;
	case TAKE:
		wc = vt_wait(received);
		a->err = wc.status;
		a->value = (uint32_t)mem[1];
		a->more = wc.qp_num;
		CHECK(wc.wr_id == o->arg, "receive %lu", (unsigned long)wc.wr_id);
		break;
	default: CHECK(false, "order %d", o->what);
	}
}

static void do_send(const struct order *o, struct answer *a)
{
	struct ibv_sge sge = vt_sge(mr, 0, 8);
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = o->arg}, *bad;
	struct ibv_qp_attr rts = vt_rts_attr();

	switch (o->what) {
	case SENDER:
		if (!out)
			out = vt_qp(&t, IBV_QPT_XRC_SEND, sent, NULL);
		else
			a->err = vt_to(out, IBV_QPS_RESET);
		a->value = out->qp_num;
		break;
	case CONNECT:
		rts.timeout = o->slot ? 0 : 8;	/* slot 1: an answer is waited for without end */
		rts.retry_cnt = 1;
		CHECK(!vt_init(out), "INIT");
		vt_rtr_rts(out, o->arg, rts);
		break;
	case SEND:
		mem[0] = o->slot;
		a->err = ibv_post_send(out, &wr, &bad);
		break;
	case AIM:
		rkey = o->arg;
		arena = (uint64_t *)((uint64_t)o->slot << 32 | o->domain);
		break;
	case WRITE:
		mem[0] = o->slot;
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.wr.rdma.remote_addr = (uintptr_t)arena;
		wr.wr.rdma.rkey = rkey;
		wr.send_flags = IBV_SEND_INLINE | (o->domain ? IBV_SEND_SIGNALED : 0);
		a->err = ibv_post_send(out, &wr, &bad);
		break;
	case SENT:
		a->err = vt_wait(sent).status;
		break;
	default: CHECK(false, "order %d", o->what);
	}
}

static void obey(struct vt_peer *p)
{
	t = vt_open();
	sent = vt_cq(&t, 16, NULL);
	received = vt_cq(&t, 16, NULL);
	mr = vt_mr(&t, mem, sizeof mem, VT_ACCESS);
	for (;;) {
		struct order o;
		struct answer a = {0};
		vt_hear(p, &o, sizeof o);
		if (o.what == LEAVE) {
			if (o.arg)	/* exits in order, without destroying any object */
				CHECK(!ibv_close_device(t.ctx), "close");
			vt_tell(p, &a, sizeof a);
			exit(0);
		}
		if (o.what <= CLOSE_DOMAIN)
			do_handle(&o, &a);
		else if (o.what <= LOOK)
			do_srq(&o, &a);
		else
			do_send(&o, &a);
		vt_tell(p, &a, sizeof a);
	}
}

/* ---- the process that orders -------------------------------------------------------------------------------------- */

#define CAST 3
static struct vt_peer cast[CAST];
enum { A, B, C };

static struct answer order(int who, enum what what, uint32_t slot, uint32_t arg, uint32_t in)
{
	struct order o = {what, slot, arg, in};
	struct answer a;

	vt_tell(&cast[who], &o, sizeof o);
	vt_hear(&cast[who], &a, sizeof a);
	return a;
}

static void does(int who, enum what what, uint32_t slot, uint32_t arg)
{
	struct answer a = order(who, what, slot, arg, 0);

	CHECK(!a.err, "process %d, order %d: %s", who, what, strerror(a.err));
}

static uint32_t gives(int who, enum what what, uint32_t slot, uint32_t arg)
{
	struct answer a = order(who, what, slot, arg, 0);

	CHECK(!a.err, "process %d, order %d: %s", who, what, strerror(a.err));
	return a.value;
}

static void refuses(int who, enum what what, uint32_t slot, uint32_t arg, uint32_t in, int err)
{
	struct answer a = order(who, what, slot, arg, in);

	CHECK(a.err == err, "process %d, order %d: %d instead of %d", who, what, a.err, err);
}

static void begin(int n)
{
	for (int i = 0; i < n; i++) {
		cast[i] = vt_fork();
		if (!cast[i].child)
			obey(&cast[i]);
	}
}

static void kills(int who)
{
	int status;

	CHECK(!kill(cast[who].child, SIGKILL) && waitpid(cast[who].child, &status, 0) == cast[who].child, "kill");
	close(cast[who].fd[0]);
	close(cast[who].fd[1]);
}

static void leaves(int who, bool in_order)
{
	does(who, LEAVE, 0, in_order);
	vt_join(&cast[who]);
	close(cast[who].fd[0]);
	close(cast[who].fd[1]);
}

/* A creates the queue pair, C connects to the queue pair. Returns the queue pair's number. */
static uint32_t connected(void)
{
	uint32_t from = gives(C, SENDER, 0, 0), number = gives(A, CREATE, 0, 0);

	does(A, INIT, 0, 0);
	does(A, RTR, 0, from);
	does(C, CONNECT, 0, number);
	return number;
}

/* A message of C's reaches this process's shared receive queue by way of `number`. */
static void arrives(int who, uint32_t srqn, uint32_t number, uint32_t value)
{
	does(who, RECEIVE, 0, value);
	does(C, SEND, value, srqn);
	does(C, SENT, 0, 0);
	struct answer a = order(who, TAKE, 0, value, 0);
	CHECK(!a.err && a.value == value && a.more == number, "what arrived: status %d, %u by way of %#x", a.err, a.value,
	      a.more);
}

/* Expects either of two statuses: which one depends on the moment at which the message arrives. */
static void fails_by(uint32_t srqn, enum ibv_wc_status status, enum ibv_wc_status or)
{
	does(C, SEND, 7, srqn);
	struct answer a = order(C, SENT, 0, 0, 0);
	CHECK(a.err == (int)status || a.err == (int)or, "%s instead of %s", ibv_wc_status_str(a.err), ibv_wc_status_str(status));
}

static void fails(uint32_t srqn, enum ibv_wc_status status)
{
	fails_by(srqn, status, status);
}

static void state_is(int who, uint32_t slot, enum ibv_qp_state state, uint32_t dest)
{
	struct answer a = order(who, QUERY, slot, 0, 0);

	CHECK(!a.err && a.value == state && a.more == dest, "state %u connected to %#x", a.value, a.more);
}

static void event_is(int who, uint32_t slot, enum ibv_event_type type)
{
	struct answer a = order(who, EVENT, 0, 1, 0);

	CHECK(!a.err && a.value == type && a.more == slot, "process %d: error %d, event %u at handle %u", who, a.err, a.value,
	      a.more);
}

/* How a process gives up a handle. */
enum parting { DESTROYS, LEAVES, EXITS, DIES, PARTINGS };

static void parts(int who, uint32_t slot, enum parting how)
{
	switch (how) {
	case DESTROYS: does(who, DESTROY, slot, 0); break;
	case LEAVES: leaves(who, true); break;
	case EXITS: leaves(who, false); break;
	default: kills(who);
	}
}

/* The queue pair goes on without the creator, which has closed the handle, exited or died; the other holder may modify the queue
 * pair, and ends it. */
static void outlives(enum parting first, enum parting second)
{
	uint32_t number, srqn, from;

	begin(3);
	number = connected();
	srqn = gives(B, SRQ, 0, 0);
	CHECK(gives(B, OPEN, 1, number) == IBV_QPS_RTR, "the state of what was opened");
	arrives(B, srqn, number, 11);
	parts(A, 0, first);
	for (uint32_t i = 0; i < 20; i++)
		arrives(B, srqn, number, 20 + i);
	from = gives(C, SENDER, 0, 0);
	state_is(B, 1, IBV_QPS_RTR, from);
	/* begun anew by the one that is left */
	does(B, MODIFY, 1, IBV_QPS_ERR);
	event_is(B, 1, IBV_EVENT_QP_LAST_WQE_REACHED);
	does(B, MODIFY, 1, IBV_QPS_RESET);
	state_is(B, 1, IBV_QPS_RESET, 0);
	does(B, INIT, 1, 0);
	does(B, RTR, 1, from);
	does(B, RTS, 1, 0);
	/* if the second holder dies, the requester does not wait for an answer */
	does(C, CONNECT, second == DIES, number);
	arrives(B, srqn, number, 12);
	refuses(C, OPEN, 0, number, 1, EINVAL);
	parts(B, 1, second);
	/* A holder that was killed, or ended without closing, holds the queue pair until the reaper has run; the shared receive
	 * queue of that holder, and of a holder that left, is gone before: meanwhile the queue pair refuses a message for such a
	 * shared receive queue. */
	bool reaped = second == DIES || first == DIES || first == EXITS;
	fails_by(srqn, IBV_WC_RETRY_EXC_ERR, reaped ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; reaped && i < 3000 && !order(C, OPEN, 0, number, 0).err; i++) {
		does(C, DESTROY, 0, 0);
		usleep(1000);
	}
	refuses(C, OPEN, 0, number, 0, EINVAL);
	if (first == DESTROYS)
		leaves(A, true);
	if (second == DESTROYS)
		leaves(B, true);
	leaves(C, true);
}

/* RDMA WRITEs to an address in the requester's rkey cache stop when any holder takes the queue pair to a state that does not
 * answer; and go on through a queue pair whose holders do not own the memory. */
static void writes(void)
{
	uint32_t number, srqn, from;

	begin(3);
	number = connected();
	srqn = gives(B, SRQ, 0, 0);
	struct answer at = order(B, ARENA, 0, 1, 0);
	uint32_t high = at.more;
	at = order(B, ARENA, 0, 0, 0);
	CHECK(!order(C, AIM, high, at.value, at.more).err, "aim");
	for (uint32_t way = 0; way < 3; way++) {
		for (uint32_t i = 1; i < 5; i++) {
			does(C, WRITE, 10 * way + i, srqn);
			CHECK(gives(B, LOOK, 0, 0) == 10 * way + i, "what was written");
		}
		if (way == 0)
			does(A, MODIFY, 0, IBV_QPS_ERR);
		else if (way == 1)
			does(A, MODIFY, 0, IBV_QPS_RESET);
		else
			kills(A);
		for (int i = 0; way == 2 && i < 3000 && !order(C, OPEN, 0, number, 0).err; i++) {
			does(C, DESTROY, 0, 0);
			usleep(1000);
		}
		CHECK(!order(C, WRITE, 99, srqn, 1).err, "post");
		struct answer a = order(C, SENT, 0, 0, 0);
		CHECK(a.err == IBV_WC_RETRY_EXC_ERR, "%s", ibv_wc_status_str(a.err));
		CHECK(gives(B, LOOK, 0, 0) == 10 * way + 4, "written through what answers no more");
		if (way == 2)
			break;
		from = gives(C, SENDER, 0, 0);
		does(A, MODIFY, 0, IBV_QPS_RESET);
		does(A, INIT, 0, 0);
		does(A, RTR, 0, from);
		does(C, CONNECT, 0, number);
	}
	leaves(B, true);
	leaves(C, true);
}

/* Three handles, two of them of one process, are closed in any order; the remaining ones work. */
static void any_order(const uint32_t *sequence)
{
	static const struct {
		int who;
		uint32_t slot;
	} h[] = {{A, 0}, {B, 0}, {A, 2}};
	uint32_t number, srqn;

	begin(3);
	number = connected();
	srqn = gives(B, SRQ, 0, 0);
	gives(B, OPEN, 0, number);
	gives(A, OPEN, 2, number);
	for (uint32_t i = 0; i < 3; i++) {
		arrives(B, srqn, number, i);
		does(h[sequence[i]].who, DESTROY, h[sequence[i]].slot, 0);
		if (i < 2)
			state_is(h[sequence[2]].who, h[sequence[2]].slot, IBV_QPS_RTR, gives(C, SENDER, 0, 0));
		if (i < 2)
			does(C, CONNECT, 0, number);
	}
	fails(srqn, IBV_WC_RETRY_EXC_ERR);
	for (int i = 0; i < 3; i++) {
		refuses(i, OPEN, 1, number, 0, EINVAL);
		leaves(i, true);
	}
}

/* Every handle gets every event, once. An unread event of one handle is not lost when another handle is opened anew, and is
 * removed with its handle. */
static void events(void)
{
	uint32_t number;

	begin(3);
	number = connected();
	gives(B, OPEN, 0, number);
	gives(B, OPEN, 1, number);
	does(B, MODIFY, 1, IBV_QPS_ERR);
	event_is(A, 0, IBV_EVENT_QP_LAST_WQE_REACHED);
	does(A, MODIFY, 0, IBV_QPS_ERR);	/* the queue pair is in ERR already: no second event */
	refuses(A, EVENT, 0, 0, 0, ETIMEDOUT);
	state_is(A, 0, IBV_QPS_ERR, gives(C, SENDER, 0, 0));
	does(A, MODIFY, 0, IBV_QPS_RESET);
	struct answer a = order(B, EVENT, 0, 1, 0), b = order(B, EVENT, 0, 1, 0);
	CHECK(!a.err && !b.err && a.value == IBV_EVENT_QP_LAST_WQE_REACHED && b.value == a.value && a.more + b.more == 1,
	      "at both");
	refuses(B, EVENT, 0, 0, 0, ETIMEDOUT);
	/* a new handle has no event of an earlier one, read or not */
	does(A, INIT, 0, 0);
	does(B, MODIFY, 1, IBV_QPS_ERR);
	does(A, MODIFY, 0, IBV_QPS_RESET);
	refuses(A, EVENT, 0, 0, 0, ETIMEDOUT);
	for (int i = 0; i < 2; i++)
		CHECK(!order(B, EVENT, 0, 1, 0).err, "at both, again");
	/* the requester's death */
	uint32_t from = gives(C, SENDER, 0, 0);
	does(A, INIT, 0, 0);
	does(B, RTR, 0, from);
	does(C, CONNECT, 0, number);
	kills(C);
	event_is(A, 0, IBV_EVENT_QP_FATAL);
	a = order(B, EVENT, 0, 1, 0);
	CHECK(!a.err && a.value == IBV_EVENT_QP_FATAL, "event %u", a.value);
	/* the other is unread */
	does(B, DESTROY, 1 - a.more, 0);
	refuses(B, EVENT, 0, 0, 0, ETIMEDOUT);
	leaves(A, true);
	leaves(B, true);
}

/* A process with only a shared receive queue in the domain receives, too. When it dies, messages to it fail; messages to other
 * processes go on once the requester, in ERR since the failure, is connected again. */
static void third_party(bool dies)
{
	uint32_t number, mine, other, from;

	begin(3);
	number = connected();
	mine = gives(A, SRQ, 0, 0);
	other = gives(B, SRQ, 0, 0);
	arrives(A, mine, number, 1);
	arrives(B, other, number, 2);
	if (dies)
		kills(B);
	else
		does(B, DESTROY_SRQ, 0, 0);
	fails(other, IBV_WC_REM_INV_REQ_ERR);
	state_is(A, 0, IBV_QPS_RTR, gives(C, SENDER, 0, 0));
	from = gives(C, SENDER, 0, 0);
	does(C, CONNECT, 0, number);
	state_is(A, 0, IBV_QPS_RTR, from);
	arrives(A, mine, number, 3);
	if (!dies)
		leaves(B, true);
	leaves(A, true);
	leaves(C, true);
}

static void refusals(void)
{
	struct ibv_qp_open_attr a;
	uint32_t number, own, rc;

	begin(3);
	number = connected();
	own = order(A, CREATE, 1, 0, 2).value;
	rc = gives(C, SENDER, 0, 0);
	refuses(B, OPEN, 0, number, 1, EINVAL);		/* another domain */
	refuses(B, OPEN, 0, number, 2, EINVAL);
	refuses(B, OPEN, 0, number + 1, 0, EINVAL);	/* a number without a queue pair */
	refuses(B, OPEN, 0, 0, 0, EINVAL);
	refuses(B, OPEN, 0, 0xffffffff, 0, EINVAL);
	refuses(B, OPEN, 0, rc, 0, EINVAL);		/* another sort */
	refuses(B, OPEN, 0, own, 2, EINVAL);		/* a domain that no other process can open */
	refuses(A, OPEN, 2, own, 2, 0);
	/* the domain is in use as long as any handle is open, the first or a later one */
	refuses(A, CLOSE_DOMAIN, 0, 0, 2, EBUSY);
	does(A, DESTROY, 1, 0);
	refuses(A, CLOSE_DOMAIN, 0, 0, 2, EBUSY);
	refuses(A, OPEN, 1, own, 2, 0);
	does(A, DESTROY, 1, 0);
	does(A, DESTROY, 2, 0);
	refuses(A, CLOSE_DOMAIN, 0, 0, 2, 0);
	refuses(B, OPEN, 0, number, 0, 0);
	refuses(B, CLOSE_DOMAIN, 0, 0, 0, EBUSY);
	does(B, DESTROY, 0, 0);
	refuses(B, CLOSE_DOMAIN, 0, 0, 0, 0);
	refuses(A, CLOSE_DOMAIN, 0, 0, 0, EBUSY);
	/* the next queue pair inherits nothing from the last one */
	does(A, DESTROY, 0, 0);
	uint32_t again = gives(A, CREATE, 0, 0);
	CHECK(again != number, "the number is used again at once");
	state_is(A, 0, IBV_QPS_RESET, 0);
	refuses(B, OPEN, 0, number, 0, EINVAL);
	refuses(B, OPEN, 0, again, 0, 0);
	refuses(B, RTR, 0, rc, 0, EINVAL);		/* the queue pair is not in INIT */
	for (int i = 0; i < 3; i++)
		leaves(i, true);
	/* the requested attributes */
	t = vt_open();
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = domain_at(0)};
	struct ibv_qp *qp = ibv_create_qp_ex(t.ctx, &init), *more[1000];
	CHECK(qp, "create");
	const uint32_t all = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	const struct ibv_qp_open_attr good = {.comp_mask = all, .qp_num = qp->qp_num, .xrcd = domain[0],
					      .qp_type = IBV_QPT_XRC_RECV};
	for (uint32_t bit = 1; bit < IBV_QP_OPEN_ATTR_RESERVED; bit <<= 1) {
		a = good;
		a.comp_mask = bit & all ? all & ~bit : all | bit;
		more[0] = ibv_open_qp(t.ctx, &a);
		CHECK(bit & all ? !more[0] && errno == EINVAL : more[0] && !ibv_destroy_qp(more[0]), "without or with %#x", bit);
	}
	a = good;
	a.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
	CHECK(!ibv_open_qp(t.ctx, &a) && errno == EINVAL, "an unknown bit");
	a = good;
	a.qp_type = IBV_QPT_RC;
	CHECK(!ibv_open_qp(t.ctx, &a) && errno == EINVAL, "another type");
	/* the number of handles of a queue pair is limited; at the limit the existing handles stay valid */
	uint32_t n = 0;
	a = good;
	while (n < 1000 && (more[n] = ibv_open_qp(t.ctx, &a)))
		n++;
	CHECK(n == 167 && errno == ENOMEM, "%u further handles", n);
	while (n)
		CHECK(!ibv_destroy_qp(more[--n]), "destroy");
	CHECK(!ibv_destroy_qp(qp) && !ibv_close_xrcd(domain[0]), "destroy");
	domain[0] = NULL;
	vt_close(&t);
}

int main(void)
{
	static const uint32_t orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	signal(SIGPIPE, SIG_IGN);
	vt_fabric();
	for (int first = 0; first < PARTINGS; first++)
		for (int second = 0; second < PARTINGS; second++)
			outlives(first, second);
	for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
		any_order(orders[i]);
	events();
	writes();
	third_party(false);
	third_party(true);
	refusals();
	return 0;
}
