/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of port and device (shcactl inject, here by the function behind that command), seen by several processes: each gets each
 * event once, by poll(2) of async_fd, in every context; traffic stops while the port is down and goes on when the port is up; a
 * stopped process delays no other process. */
#include <endian.h>
#include <fcntl.h>
#include <signal.h>

#include "shca/verbs/control.h"
#include "vt.h"

struct side {
	struct vt t;
	struct ibv_cq *cq;
	struct ibv_qp *rc, *patient, *ud;	/* patient: without a timeout, waits for ever */
	/* a message goes from `out` to the other side's srq, by the queue pair of handle `in`, which belongs to no process;
	 * patient, too */
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *out, *in;
	struct ibv_mr *mr;
	char *mem;			/* of the arena */
};
struct names {
	uint32_t rc, patient, ud, rkey, srq, out, in;
	uint64_t addr;
};

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, ms);
	CHECK(n >= 0, "poll");
	return n > 0;
}

/* The next event of a context, which does not have to be asked again; -1: there is none. */
static int event_of(struct ibv_context *ctx, int ms)
{
	struct ibv_async_event ev;

	if (!readable(ctx->async_fd, ms))
		return -1;
	if (ibv_get_async_event(ctx, &ev))
		return -1;
	CHECK(ev.event_type == IBV_EVENT_DEVICE_FATAL || ev.element.port_num == 1, "port %d", ev.element.port_num);
	ibv_ack_async_event(&ev);
	return (int)ev.event_type;
}

static void open_common(struct side *s, struct names *n)
{
	struct ibv_xrcd_init_attr x = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT,
					.fd = open("/proc/self/exe", O_RDONLY) };
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = s->t.pd, .cq = s->cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_qp_init_attr_ex in = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	s->xrcd = srq.xrcd = in.xrcd = ibv_open_xrcd(s->t.ctx, &x);
	CHECK(x.fd >= 0 && s->xrcd && !close(x.fd), "open_xrcd");
	s->srq = ibv_create_srq_ex(s->t.ctx, &srq);
	s->in = ibv_create_qp_ex(s->t.ctx, &in);
	s->out = vt_qp(&s->t, IBV_QPT_XRC_SEND, s->cq, NULL);
	CHECK(s->srq && s->in && !ibv_get_srq_num(s->srq, &n->srq), "XRC");
	n->out = s->out->qp_num;
	n->in = s->in->qp_num;
}

static struct side open_side(struct names *n)
{
	struct side s = { .t = vt_open() };

	CHECK(!fcntl(s.t.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	s.cq = vt_cq(&s.t, 64, NULL);
	s.rc = vt_qp(&s.t, IBV_QPT_RC, s.cq, NULL);
	s.patient = vt_qp(&s.t, IBV_QPT_RC, s.cq, NULL);
	s.ud = vt_qp(&s.t, IBV_QPT_UD, s.cq, NULL);
	s.mem = shca_alloc(s.t.ctx, 4096);
	CHECK(s.mem, "shca_alloc");
	memset(s.mem, 0, 4096);
	s.mr = vt_mr(&s.t, s.mem, 4096, VT_ACCESS);
	vt_connect(s.ud, 0);
	*n = (struct names){ s.rc->qp_num, s.patient->qp_num, s.ud->qp_num, s.mr->rkey, .addr = (uintptr_t)s.mem };
	open_common(&s, n);
	return s;
}

static void connect_side(struct side *s, const struct names *to)
{
	struct ibv_qp_attr rts = vt_rts_attr();

	vt_connect(s->rc, to->rc);
	CHECK(!vt_init(s->patient), "INIT");
	rts.timeout = 0;
	vt_rtr_rts(s->patient, to->patient, rts);
	CHECK(!vt_init(s->out), "INIT");
	vt_rtr_rts(s->out, to->in, rts);
	vt_connect(s->in, to->out);
}

static void close_side(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->out) && !ibv_destroy_qp(s->in) && !ibv_destroy_srq(s->srq) && !ibv_close_xrcd(s->xrcd), "XRC");
	CHECK(!ibv_destroy_qp(s->rc) && !ibv_destroy_qp(s->patient) && !ibv_destroy_qp(s->ud) && !ibv_destroy_cq(s->cq),
	      "destroy");
	CHECK(!ibv_dereg_mr(s->mr) && !shca_free(s->t.ctx, s->mem), "memory");
	vt_close(&s->t);
}

/* The other process carries out an order of one letter at a time, and answers with a number. */
static int64_t obey(struct side *s, char what)
{
	struct ibv_port_attr port;
	struct ibv_wc wc;
	struct ibv_cq *cq;

	switch (what) {
	case 'e': return event_of(s->t.ctx, 60000);
	case 'n': return readable(s->t.ctx->async_fd, 0);
	case 'r': return vt_recv(s->patient, 1, vt_sge(s->mr, 2048, 64));
	case 'i': return vt_recv(s->rc, 2, vt_sge(s->mr, 2048, 64));
	case 'm': return vt_srq_recv(s->srq, 4, vt_sge(s->mr, 1536, 8));
	case 'q': return shca_qp_state(shca_user_qp_of(s->in));	/* which ibv_query_qp refuses on a device that has failed */
	case 'u': return vt_recv(s->ud, 3, vt_sge(s->mr, 1024, 104));
	case 'c': wc = vt_wait(s->cq); return (int64_t)wc.status << 32 | wc.slid;
	case 'z': return ibv_poll_cq(s->cq, 1, &wc);
	case 's': CHECK(!ibv_query_port(s->t.ctx, 1, &port), "query_port"); return port.state | port.lid << 8;
	case 'o': cq = ibv_create_cq(s->t.ctx, 4, NULL, NULL, 0); return cq ? ibv_destroy_cq(cq) : errno;
	case 'v': return *(volatile char *)s->mem;
	default: return 0;
	}
}

static void serve(struct vt_peer *p)
{
	struct names own, other;
	struct side s = open_side(&own);
	char what;

	vt_tell(p, &own, sizeof own);
	vt_hear(p, &other, sizeof other);
	connect_side(&s, &other);
	vt_meet(p);
	do {
		vt_hear(p, &what, 1);
		int64_t v = obey(&s, what);
		vt_tell(p, &v, sizeof v);
	} while (what != 'x');
	close_side(&s);
	exit(0);
}

static int64_t ask(struct vt_peer *p, char what)
{
	int64_t v;

	vt_tell(p, &what, 1);
	vt_hear(p, &v, sizeof v);
	return v;
}

/* A process that is no member of the fabric, as shcactl is none. */
static struct vt_peer injector;

struct order {
	char event[32], value[32];
};

static void carry_out(struct vt_peer *p)
{
	struct shca_fabric_info *list;
	struct shca_member m;
	struct order o;
	size_t n, i;

	while (read(p->fd[0], &o, sizeof o) == sizeof o) {
		CHECK(!shca_fabric_list(&list, &n), "shca_fabric_list");
		for (i = 0; i < n && strcmp(list[i].name, getenv("SHCA_FABRIC")); i++)
			;
		CHECK(i < n && !shca_fabric_map(&m, &list[i], SHCA_MAP_WRITABLE), "the fabric is not there");
		int rc = shca_port_inject(&m, 1, o.event, o.value[0] ? o.value : NULL);
		shca_fabric_unmap(&m);
		free(list);
		vt_tell(p, &rc, sizeof rc);
	}
	exit(0);
}

static int order(const char *event, const char *value)
{
	struct order o = { .event = "" };
	int rc;

	snprintf(o.event, sizeof o.event, "%s", event);
	snprintf(o.value, sizeof o.value, "%s", value);
	vt_tell(&injector, &o, sizeof o);
	vt_hear(&injector, &rc, sizeof rc);
	return rc;
}

static void inject(const char *event, const char *value)
{
	int rc = order(event, value);

	CHECK(!rc, "%s %s: %d", event, value, rc);
}

/* Each context of each process gets the event, once. */
static void seen_by_all(struct side *s, struct ibv_context *second, struct vt_peer *p, enum ibv_event_type type)
{
	int one = event_of(s->t.ctx, 60000), two = event_of(second, 60000);
	int64_t other = ask(p, 'e');

	CHECK(one == (int)type && two == (int)type && other == (int)type, "%s: events %d, %d, %ld", ibv_event_type_str(type),
	      one, two, (long)other);
	CHECK(event_of(s->t.ctx, 0) < 0 && event_of(second, 0) < 0 && !ask(p, 'n'), "one more");
}

static int write_to(struct side *s, const struct names *to, char byte, unsigned int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)&byte, .length = 1 };
	struct ibv_send_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_INLINE | flags,
					  .wr.rdma = { .remote_addr = to->addr, .rkey = to->rkey } }, *bad;
	return ibv_post_send(s->rc, &wr, &bad);
}

static void datagram(struct side *s, const struct names *to, uint16_t lid, unsigned int flags)
{
	struct ibv_ah_attr at = { .dlid = lid, .port_num = 1 };
	struct ibv_ah *ah = ibv_create_ah(s->t.pd, &at);
	struct ibv_sge sge = vt_sge(s->mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags,
				  .wr.ud = { .ah = ah, .remote_qpn = to->ud, .remote_qkey = VT_QKEY } }, *bad;

	CHECK(ah && !ibv_post_send(s->ud, &wr, &bad), "datagram");
	if (flags & IBV_SEND_SIGNALED)
		vt_expect(s->cq, 5, IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_ah(ah), "destroy_ah");
}

/* A process that joins while the port is down sees that state, gets no earlier event, and is cut off, too. */
static void comes_late(struct side *s)
{
	struct vt_peer p = vt_fork();

	if (!p.child) {
		struct names n;
		struct side late = open_side(&n);
		struct ibv_async_event ev;
		CHECK(ibv_get_async_event(late.t.ctx, &ev) == -1 && errno == EAGAIN, "an event of before it came");
		CHECK((obey(&late, 's') & 255) == IBV_PORT_DOWN && !obey(&late, 'n'), "a port that is down");
		CHECK(!obey(&late, 'u'), "receive");
		vt_tell(&p, &n, sizeof n);
		vt_meet(&p);
		CHECK(!obey(&late, 'z'), "a datagram came through");
		close_side(&late);
		exit(0);
	}
	struct names to;
	vt_hear(&p, &to, sizeof to);
	datagram(s, &to, 1, IBV_SEND_SIGNALED);
	vt_meet(&p);
	vt_join(&p);
}

static void down_and_up(struct side *s, struct ibv_context *second, struct vt_peer *p, const struct names *to)
{
	/* the short ways remember where they go */
	CHECK(!write_to(s, to, 1, 0) && ask(p, 'v') == 1, "write");
	CHECK(!ask(p, 'u'), "receive");
	datagram(s, to, 1, IBV_SEND_INLINE);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS, "a datagram");
	inject("port-down", "");
	seen_by_all(s, second, p, IBV_EVENT_PORT_ERR);
	CHECK((obey(s, 's') & 255) == IBV_PORT_DOWN && (ask(p, 's') & 255) == IBV_PORT_DOWN, "state");
	CHECK(!ask(p, 'u'), "receive");
	datagram(s, to, 1, IBV_SEND_INLINE);
	datagram(s, to, 1, IBV_SEND_SIGNALED);
	CHECK(!ask(p, 'z'), "a datagram came through");
	comes_late(s);
	/* a send waits until the port is back; a write gives up */
	CHECK(!ask(p, 'r') && !vt_send(s->patient, 7, vt_sge(s->mr, 0, 8), IBV_SEND_SIGNALED), "send");
	CHECK(!write_to(s, to, 2, IBV_SEND_SIGNALED), "write");
	vt_expect(s->cq, 9, IBV_WC_RETRY_EXC_ERR);
	CHECK(vt_state(s->rc) == IBV_QPS_ERR && ask(p, 'v') == 1 && !ask(p, 'z'), "something came through");
	inject("port-up", "");
	seen_by_all(s, second, p, IBV_EVENT_PORT_ACTIVE);
	CHECK((obey(s, 's') & 255) == IBV_PORT_ACTIVE, "state");
	vt_expect(s->cq, 7, IBV_WC_SUCCESS);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS && !ask(p, 'z'), "what waited comes, what was lost does not");
	datagram(s, to, 1, IBV_SEND_INLINE);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS, "a datagram");
}

static int send_by_common(struct side *s, const struct names *to)
{
	struct ibv_sge sge = vt_sge(s->mr, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = to->srq }, *bad;
	return ibv_post_send(s->out, &wr, &bad);
}

/* The responder's queue belongs to no process; requests need the port all the same. */
static void common_down_and_up(struct side *s, struct ibv_context *second, struct vt_peer *p, const struct names *to)
{
	CHECK(!ask(p, 'm') && !send_by_common(s, to), "send");
	vt_expect(s->cq, 8, IBV_WC_SUCCESS);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS, "a message");
	inject("port-down", "");
	seen_by_all(s, second, p, IBV_EVENT_PORT_ERR);
	CHECK(!ask(p, 'm') && !send_by_common(s, to), "send");
	CHECK(!ask(p, 'z'), "a message came through");
	inject("port-up", "");
	seen_by_all(s, second, p, IBV_EVENT_PORT_ACTIVE);
	vt_expect(s->cq, 8, IBV_WC_SUCCESS);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS, "it comes when the port is up");
}

static void identities(struct side *s, struct ibv_context *second, struct vt_peer *p, const struct names *to)
{
	union ibv_gid gid;
	__be16 pkey;

	inject("lid-change", "7");
	seen_by_all(s, second, p, IBV_EVENT_LID_CHANGE);
	CHECK(obey(s, 's') >> 8 == 7 && ask(p, 's') >> 8 == 7, "LID");
	CHECK(!ask(p, 'u'), "receive");
	datagram(s, to, 1, 0);
	CHECK(!ask(p, 'z'), "the LID of before is nobody's");
	datagram(s, to, 7, 0);
	CHECK(ask(p, 'c') == ((int64_t)IBV_WC_SUCCESS << 32 | 7), "from the new LID");

	inject("pkey-change", "0x7fff");
	seen_by_all(s, second, p, IBV_EVENT_PKEY_CHANGE);
	CHECK(!ibv_query_pkey(s->t.ctx, 1, 0, &pkey) && pkey == htobe16(0x7fff) && !ibv_get_pkey_index(s->t.ctx, 1, pkey),
	      "P_Key");
	CHECK(!ask(p, 'u'), "receive");
	datagram(s, to, 7, IBV_SEND_SIGNALED);
	CHECK(!ask(p, 'z'), "limited members hear one another");
	inject("pkey-change", "0x8001");
	seen_by_all(s, second, p, IBV_EVENT_PKEY_CHANGE);
	datagram(s, to, 7, IBV_SEND_SIGNALED);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_SUCCESS, "full members do");

	inject("gid-change", "0xfec0000000000001");
	seen_by_all(s, second, p, IBV_EVENT_GID_CHANGE);
	CHECK(!ibv_query_gid(s->t.ctx, 1, 0, &gid) && gid.raw[0] == 0xfe && gid.raw[1] == 0xc0 && gid.raw[7] == 1, "GID");
	inject("sm-change", "12");
	seen_by_all(s, second, p, IBV_EVENT_SM_CHANGE);
	inject("client-reregister", "");
	seen_by_all(s, second, p, IBV_EVENT_CLIENT_REREGISTER);
	/* several, unread: in their order */
	inject("port-down", "");
	inject("sm-change", "");
	inject("port-up", "");
	static const enum ibv_event_type order[] = { IBV_EVENT_PORT_ERR, IBV_EVENT_SM_CHANGE, IBV_EVENT_PORT_ACTIVE };
	for (int i = 0; i < 3; i++) {
		CHECK(event_of(s->t.ctx, 60000) == (int)order[i] && event_of(second, 60000) == (int)order[i], "event %d", i);
		CHECK(ask(p, 'e') == (int)order[i], "event %d of the other process", i);
	}
}

/* A stopped process gets the events when continued, and no other process waits for the stopped one until then. */
static void stopped(struct side *s, struct ibv_context *second, struct vt_peer *p)
{
	int status;

	CHECK(!kill(p->child, SIGSTOP) && waitpid(p->child, &status, WUNTRACED) == p->child && WIFSTOPPED(status), "stop");
	for (int i = 0; i < 40; i++)
		inject("sm-change", "");
	int n = 0;
	while (event_of(s->t.ctx, 0) == IBV_EVENT_SM_CHANGE)
		n++;
	/* as many as are kept; a process that reads in time gets all */
	CHECK(n == 32, "%d events", n);
	for (n = 0; event_of(second, 0) == IBV_EVENT_SM_CHANGE;)
		n++;
	CHECK(n == 32, "%d events of the second context", n);
	CHECK(!kill(p->child, SIGCONT), "go on");
	for (n = 0; n < 32; n++)
		CHECK(ask(p, 'e') == IBV_EVENT_SM_CHANGE, "event %d of the stopped process", n);
	CHECK(!ask(p, 'n'), "one more");
}

static void fatal(struct side *s, struct ibv_context *second, struct vt_peer *p)
{
	struct ibv_port_attr port;
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr sa;
	struct ibv_td_init_attr ta = { .comp_mask = 0 };
	struct ibv_parent_domain_init_attr pa = { .pd = s->t.pd };
	struct ibv_srq *srq = ibv_create_srq(s->t.pd, &si);

	CHECK(srq && !ibv_query_srq(srq, &sa), "shared receive queue");
	CHECK(!ask(p, 'i') && !vt_recv(s->patient, 11, vt_sge(s->mr, 0, 8)), "receives");
	inject("device-fatal", "");
	/* also if no process reads the event */
	vt_expect(s->cq, 11, IBV_WC_WR_FLUSH_ERR);
	CHECK(ask(p, 'c') >> 32 == IBV_WC_WR_FLUSH_ERR, "the other process's receive is flushed");
	seen_by_all(s, second, p, IBV_EVENT_DEVICE_FATAL);
	CHECK(obey(s, 'q') == IBV_QPS_ERR && ask(p, 'q') == IBV_QPS_ERR, "a queue pair that is no process's goes on");
	CHECK(ask(p, 'o') == EIO && !ibv_alloc_pd(s->t.ctx) && errno == EIO, "something can be made");
	CHECK(!ibv_alloc_td(s->t.ctx, &ta) && errno == EIO, "alloc_td");
	CHECK(!ibv_alloc_parent_domain(s->t.ctx, &pa) && errno == EIO, "alloc_parent_domain");
	CHECK(ibv_query_port(s->t.ctx, 1, &port) == EIO && vt_to(s->patient, IBV_QPS_RESET) == EIO, "something can be changed");
	CHECK(ibv_query_srq(srq, &sa) == EIO, "query_srq");
	/* posts go on: to a queue in error */
	CHECK(!vt_send(s->patient, 12, vt_sge(s->mr, 0, 8), 0), "post");
	vt_expect(s->cq, 12, IBV_WC_WR_FLUSH_ERR);
	struct ibv_device **list = shca_get_device_list(NULL);
	CHECK(list && !ibv_open_device(list[0]) && errno == EIO, "the device can be opened");
	/* everything can be taken down; when all have, there is a new one */
	ask(p, 'x');
	vt_join(p);
	CHECK(!ibv_close_device(second) && !ibv_destroy_srq(srq), "close");
	close_side(s);
	struct ibv_context *anew = ibv_open_device(list[0]);
	CHECK(anew && !ibv_query_port(anew, 1, &port) && port.state == IBV_PORT_ACTIVE && port.lid == 1, "a new device");
	CHECK(!ibv_close_device(anew), "close");
	shca_free_device_list(list);
}

int main(void)
{
	struct names own, to;

	vt_fabric();
	injector = vt_fork();
	if (!injector.child)
		carry_out(&injector);
	struct vt_peer p = vt_fork();
	if (!p.child)
		serve(&p);
	struct side s = open_side(&own);
	struct ibv_context *second = vt_context();
	CHECK(!fcntl(second->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	vt_hear(&p, &to, sizeof to);
	vt_tell(&p, &own, sizeof own);
	connect_side(&s, &to);
	vt_meet(&p);
	down_and_up(&s, second, &p, &to);
	common_down_and_up(&s, second, &p, &to);
	identities(&s, second, &p, &to);
	stopped(&s, second, &p);
	CHECK(order("port-sideways", "") == -EINVAL && order("lid-change", "0xc000") == -EINVAL &&
		      order("port-up", "1") == -EINVAL,
	      "what there is not");
	CHECK(event_of(s.t.ctx, 0) < 0, "an event of it");
	fatal(&s, second, &p);
	close(injector.fd[1]);
	vt_join(&injector);
	return 0;
}
