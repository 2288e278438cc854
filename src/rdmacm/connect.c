/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: the messages between two ids, and what each makes of the receiver's state.
 *
 *     active                              passive
 *     connect(2), REQ     ->              ARRIVING: accept(2), CONNECT_REQUEST
 *     CONNECT_RESPONSE    <-   REP        ACCEPT; or REJ
 *     ACCEPT, RTU         ->              ESTABLISHED
 *     end of the stream: DISCONNECTED on the other side, or REJECTED before the connection was there
 *
 * Of a UD id REQ and REP are SIDR_REQ and SIDR_REP, after which the socket is closed. The end of the stream is all that
 * DISCONNECT, DESTROY_ID and the death of a process send; a sequence of messages is never lost, so there is no DREP.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

#define MSG_VERSION 0x524d4301u		/* "RMC", 1 */
enum msg_type { MSG_REQ = 1, MSG_REP, MSG_RTU, MSG_REJ };

struct msg {
	uint32_t version;
	uint8_t type, qp_type;
	uint8_t private_len;
	uint8_t status;			/* REJ: enum rcm_reason; UD's REP: enum rcm_sidr */
	uint16_t ps, ip;
	uint32_t reserved;
	struct rcm_side side;
	struct rdma_ucm_ece ece;
	struct sockaddr_storage src, dst;	/* REQ */
	uint8_t private_data[RDMA_MAX_PRIVATE_DATA];
};

static bool is_ud(const struct rcm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

static uint32_t random_psn(void)
{
	uint32_t psn = 0;

	if (getrandom(&psn, sizeof(psn), GRND_NONBLOCK) != sizeof(psn))
		psn = (uint32_t)monotonic_ns();
	return psn & 0xffffff;
}

/* Returns the bytes of private data that a message has. */
static unsigned private_size(const struct rcm_id *id, enum msg_type type)
{
	unsigned header = id->dst.ss_family == AF_IB ? 0 : RCM_IP_HEADER;

	switch (type) {
	case MSG_REQ:
		return (is_ud(id) ? RCM_SIDR_REQ_PRIVATE : RCM_REQ_PRIVATE) - header;
	case MSG_REP:
		return is_ud(id) ? RCM_SIDR_REP_PRIVATE : RCM_REP_PRIVATE;
	default:
		return is_ud(id) ? RCM_SIDR_REP_PRIVATE : RCM_REJ_PRIVATE;
	}
}

/* Checks and copies private data. Returns 0 or -EINVAL. */
static int private_set(const struct rcm_id *id, struct msg *m, const uint8_t *data, uint8_t n)
{
	unsigned size = private_size(id, (enum msg_type)m->type);

	if (n > size)
		return -shca_refuse(EINVAL, "RDMA CM: %u bytes of private data, this message has %u", n, size);
	memcpy(m->private_data, data, n);
	m->private_len = n;
	return 0;
}

/* Sends a message. A socket holds more messages than a connection has. Returns 0 or -errno. */
static int msg_send(const struct rcm_id *id, struct msg *m)
{
	m->version = MSG_VERSION;
	/* the program may have closed the descriptor */
	if (id->conn.n < 0 || !shca_fd_ours(&id->conn))
		return -EPIPE;
	if (send(id->conn.n, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*m))
		return 0;
	return -errno;
}

/* ---- the active side -------------------------------------------------------------------------------------------- */

int rcm_listen(struct rcm_channel *ch, const struct rdma_ucm_listen *c)
{
	enum { MOST = 1024 };	/* ucma's max_backlog */
	struct rcm_id *id = rcm_id_find(ch, c->id);
	int err = id ? 0 : -errno, backlog = (int)c->backlog;

	if (!err && id->state == RCM_IDLE)
		err = rcm_bind_any(id, AF_INET);
	if (err)
		return err;
	if (id->state != RCM_BOUND)
		return -shca_refuse(EINVAL, "rdma_listen: the id has a destination, or listens");
	if (id->name.n < 0) {
		if (!rcm_port(&id->src))
			rcm_set_port(&id->src, rcm_free_port());
		err = rcm_name_take(id);
		if (err)
			return -shca_refuse(-err, "rdma_listen: port %u", rcm_port(&id->src));
	}
	if (rcm_is_any(&id->src) && !id->has_companion && rcm_real_devices()) {
		err = rcm_kernel_listen(id, c->backlog);
		if (err)
			return err;
	}
	if (!shca_fd_ours(&id->name))
		return -shca_refuse(EBADF, "rdma_listen: the program has closed the library's descriptor");
	if (backlog <= 0 || backlog > MOST)
		backlog = MOST;
	/* the kernel takes one connection more than it is told */
	if (listen(id->name.n, backlog - 1))
		return -errno;
	err = rcm_watch(id, &id->name);
	if (!err)
		id->state = RCM_LISTEN;
	return err;
}

static void side_set(struct rcm_side *side, const struct rdma_ucm_conn_param *p)
{
	side->qpn = p->qp_num & 0xffffff;
	side->psn = random_psn();
	side->responder_resources = p->responder_resources;
	side->initiator_depth = p->initiator_depth;
	side->retry_count = p->retry_count & 7;
	side->rnr_retry_count = p->rnr_retry_count & 7;
	side->flow_control = p->flow_control;
	side->srq = p->srq;
	if (p->qkey)
		side->qkey = p->qkey;
}

/* No listener, or one without room. */
static int connect_refused(struct rcm_id *id, int err)
{
	bool none = err == -ECONNREFUSED;

	if (!none && err != -EAGAIN)
		return -shca_refuse(-err, "rdma_connect");
	id->state = RCM_CLOSED;
	shca_refuse(ECONNREFUSED,
		    none ? "rdma_connect: no id listens on port %u" : "rdma_connect: the backlog of port %u is full",
		    rcm_port(&id->dst));
	if (is_ud(id))
		return rcm_report(id, RCM_UNREACHABLE, none ? RCM_SIDR_UNSUPPORTED : RCM_SIDR_REJECT);
	return rcm_report(id, RCM_REJECTED, none ? RCM_REJ_INVALID_SERVICE_ID : RCM_REJ_CONSUMER);
}

int rcm_connect(struct rcm_channel *ch, const struct rdma_ucm_connect *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);
	struct msg m = {.type = MSG_REQ};

	if (!id)
		return -errno;
	if (id->state != RCM_ROUTE || !c->conn_param.valid)
		return -shca_refuse(EINVAL, "rdma_connect: the route has not been resolved, or the id is connected");
	int err = private_set(id, &m, c->conn_param.private_data, c->conn_param.private_data_len);
	if (!err)
		err = rcm_timer_ready(id, "rdma_connect");
	if (err)
		return err;
	side_set(&id->local, &c->conn_param);
	m.qp_type = id->qp_type;
	m.ps = id->ps;
	m.side = id->local;
	m.ece = c->ece;
	m.src = id->src;
	m.dst = id->dst;
	/* nothing gets through: the answer does not come */
	if (!shca_port_now(rcm_id_port(id)).down) {
		int fd = rcm_name_connect(id);
		if (fd < 0)
			return connect_refused(id, fd);
		id->conn = shca_fd_note(fd);
		err = msg_send(id, &m);
		if (!err)
			err = rcm_conn_watch(id);
		if (err == -EPIPE || err == -ECONNRESET) {
			/* the listener has gone since */
			rcm_hang_up(id);
			return connect_refused(id, -ECONNREFUSED);
		}
		if (err) {
			rcm_hang_up(id);
			return -shca_refuse(-err, "rdma_connect");
		}
	}
	id->active = true;
	id->state = RCM_REQ_SENT;
	rcm_timer_set(id, RCM_RESPONSE);
	return 0;
}

/* ---- the passive side ------------------------------------------------------------------------------------------- */

/* ACCEPT of the active side: librdmacm has brought the queue to RTS. */
static int accept_active(struct rcm_id *id)
{
	struct msg m = {.type = MSG_RTU};
	int err = msg_send(id, &m);

	/* if the passive side has gone, the end of the stream says so by an event */
	if (err && err != -EPIPE && err != -ECONNRESET)
		return -shca_refuse(-err, "rdma_establish");
	id->state = RCM_CONNECTED;
	return 0;
}

static int accept_passive(struct rcm_id *id, const struct rdma_ucm_accept *c)
{
	struct msg m = {.type = MSG_REP, .status = RCM_SIDR_SUCCESS, .ece = c->ece};
	int err = c->conn_param.valid ? private_set(id, &m, c->conn_param.private_data, c->conn_param.private_data_len) :
		  -shca_refuse(EINVAL, "rdma_accept: without parameters");

	if (!err && !is_ud(id))
		err = rcm_timer_ready(id, "rdma_accept");
	if (err)
		return err;
	uint32_t psn = id->local.psn;
	side_set(&id->local, &c->conn_param);
	/* the queue's send side has this number already: INIT_QP_ATTR comes before ACCEPT */
	id->local.psn = psn;
	m.side = id->local;
	err = msg_send(id, &m);
	if (err)
		return -shca_refuse(err == -EPIPE || err == -ECONNRESET ? EINVAL : -err, "rdma_accept: the peer has given up");
	id->uid = c->uid;
	if (is_ud(id)) {
		id->state = RCM_UD_DONE;
		rcm_hang_up(id);
		return 0;
	}
	err = rcm_conn_watch(id);
	if (err)
		return -shca_refuse(-err, "rdma_accept");
	id->state = RCM_REP_SENT;
	rcm_timer_set(id, RCM_RESPONSE);
	return 0;
}

int rcm_accept(struct rcm_channel *ch, const struct rdma_ucm_accept *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	if (id->state == RCM_REP_RECEIVED)
		return accept_active(id);
	if (id->state == RCM_REQ_RECEIVED)
		return accept_passive(id, c);
	return -shca_refuse(EINVAL, "rdma_accept: the id has no request or response to answer");
}

int rcm_reject(struct rcm_channel *ch, const struct rdma_ucm_reject *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);
	struct msg m = {.type = MSG_REJ};

	if (!id)
		return -errno;
	if (id->state != RCM_REQ_RECEIVED && id->state != RCM_REP_RECEIVED)
		return -shca_refuse(EINVAL, "rdma_reject: the id has no request or response to answer");
	m.status = is_ud(id) ? RCM_SIDR_REJECT : c->reason ? c->reason : RCM_REJ_CONSUMER;
	int err = private_set(id, &m, c->private_data, c->private_data_len);
	if (err)
		return err;
	/* a peer that has gone needs no answer */
	msg_send(id, &m);
	id->state = RCM_CLOSED;
	rcm_hang_up(id);
	return 0;
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

/* The connection is over: the queue's numbers stay reserved for a while, as if packets were still under way. */
static void disconnected(struct rcm_id *id)
{
	rcm_hang_up(id);
	id->state = RCM_CLOSED;
	rcm_report(id, RCM_DISCONNECTED, 0);
	rcm_timer_set(id, RCM_TIMEWAIT);
}

int rcm_disconnect(struct rcm_channel *ch, const struct rdma_ucm_disconnect *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	switch (id->state) {
	case RCM_CONNECTED:
	case RCM_REP_SENT:
	case RCM_REP_RECEIVED:
		disconnected(id);
		return 0;
	case RCM_REQ_SENT:
	case RCM_REQ_RECEIVED:
	case RCM_CLOSED:
		return 0;	/* as the kernel: there is nothing to disconnect */
	default:
		return -shca_refuse(EINVAL, "rdma_disconnect: the id was never connected");
	}
}

int rcm_notify(struct rcm_channel *ch, const struct rdma_ucm_notify *c)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	if (c->event != IBV_EVENT_COMM_EST || is_ud(id))
		return -shca_refuse(EINVAL, "rdma_notify: event %u", c->event);
	if (id->state == RCM_CONNECTED)
		return -shca_refuse(EISCONN, "rdma_notify: the id is connected");
	if (id->state != RCM_REP_SENT)
		return -shca_refuse(EINVAL, "rdma_notify: the id waits for no message of its peer");
	rcm_timer_clear(id);
	id->state = RCM_CONNECTED;
	return rcm_report(id, RCM_ESTABLISHED, 0);
}

void rcm_expired(struct rcm_id *id, enum rcm_timer kind)
{
	if (kind == RCM_TIMEWAIT) {
		rcm_report(id, RCM_TIMEWAIT_EXIT, 0);
		return;
	}
	rcm_hang_up(id);
	id->state = RCM_CLOSED;
	rcm_report(id, RCM_UNREACHABLE, -ETIMEDOUT);
}

/* The end of the stream. */
static void peer_gone(struct rcm_id *id)
{
	switch (id->state) {
	case RCM_CONNECTED:
		disconnected(id);
		return;
	case RCM_ARRIVING:
		rcm_id_destroy(id);
		return;
	default:
		rcm_timer_clear(id);
		rcm_hang_up(id);
		id->state = RCM_CLOSED;
		if (is_ud(id))
			rcm_report(id, RCM_UNREACHABLE, RCM_SIDR_REJECT);
		else
			rcm_report(id, RCM_REJECTED, RCM_REJ_CONSUMER);
	}
}

/* ---- messages of the peer --------------------------------------------------------------------------------------- */

static void event_private(struct rdma_ucm_event_resp *resp, const struct msg *m, unsigned size, bool ud)
{
	uint8_t *to = ud ? resp->param.ud.private_data : resp->param.conn.private_data;

	memcpy(to, m->private_data, m->private_len);
	/* the whole field of the message, as on the wire: the rest is zeroes */
	if (ud)
		resp->param.ud.private_data_len = (uint8_t)size;
	else
		resp->param.conn.private_data_len = (uint8_t)size;
}

/* Fills in the peer's parameters. Its responder resources bound this side's initiator depth, and the other way round. */
static void event_conn(struct rdma_ucm_event_resp *resp, const struct msg *m)
{
	struct rdma_ucm_conn_param *p = &resp->param.conn;

	p->qp_num = m->side.qpn;
	p->responder_resources = m->side.initiator_depth;
	p->initiator_depth = m->side.responder_resources;
	p->flow_control = m->side.flow_control;
	p->retry_count = m->side.retry_count;
	p->rnr_retry_count = m->side.rnr_retry_count;
	p->srq = m->side.srq;
	p->valid = 1;
	resp->ece = m->ece;
}

static void got_req(struct rcm_id *id, const struct msg *m)
{
	struct rcm_id *listener = id->listener;
	struct rcm_channel *ch = atomic_load(&id->channel);
	uint8_t type = m->qp_type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : m->qp_type;
	bool fits = m->ps == listener->ps && (type == IBV_QPT_UD) == is_ud(listener);
	struct rcm_event *ev = fits ? rcm_event_new(listener, RCM_CONNECT_REQUEST, 0) : NULL;

	if (!ev) {
		struct msg no = {.type = MSG_REJ,
				 .status = type == IBV_QPT_UD ? RCM_SIDR_UNSUPPORTED : RCM_REJ_INVALID_SERVICE_ID};
		msg_send(id, &no);
		rcm_id_destroy(id);
		return;
	}
	id->qp_type = type;
	id->src = m->dst;
	id->dst = m->src;
	id->remote = m->side;
	/* the path's other end */
	id->local.port = m->side.port <= shca_ports() ? m->side.port : 1;
	id->local.psn = random_psn();
	id->local.qkey = listener->local.qkey;
	id->local.responder_resources = m->side.initiator_depth;
	id->local.initiator_depth = m->side.responder_resources;
	id->on_device = true;
	id->state = RCM_REQ_RECEIVED;
	/* a peer that gives up before the program answers is no event: ACCEPT fails */
	rcm_conn_unwatch(id);
	ev->arrived = id;
	ev->resp.id = id->handle;
	if (!is_ud(id))
		event_conn(&ev->resp, m);
	event_private(&ev->resp, m, private_size(id, MSG_REQ), is_ud(id));
	rcm_push(ch, ev);
}

static void got_rep(struct rcm_id *id, const struct msg *m)
{
	struct rcm_event *ev = rcm_event_new(id, is_ud(id) ? RCM_ESTABLISHED : RCM_CONNECT_RESPONSE, 0);

	if (!ev)
		return;
	rcm_timer_clear(id);
	id->remote = m->side;
	event_private(&ev->resp, m, private_size(id, MSG_REP), is_ud(id));
	if (is_ud(id)) {
		ev->resp.param.ud.qp_num = m->side.qpn;
		ev->resp.param.ud.qkey = m->side.qkey;
		rcm_address_vector(id, &ev->resp.param.ud.ah_attr);
		id->state = RCM_UD_DONE;
		rcm_hang_up(id);
	} else {
		event_conn(&ev->resp, m);
		id->local.responder_resources = m->side.initiator_depth;
		id->local.initiator_depth = m->side.responder_resources;
		id->state = RCM_REP_RECEIVED;
	}
	rcm_push(atomic_load(&id->channel), ev);
}

static void got_rej(struct rcm_id *id, const struct msg *m)
{
	struct rcm_event *ev = id->uid ? rcm_event_new(id, is_ud(id) ? RCM_UNREACHABLE : RCM_REJECTED, m->status) : NULL;

	rcm_timer_clear(id);
	rcm_hang_up(id);
	id->state = RCM_CLOSED;
	if (!ev)
		return;
	event_private(&ev->resp, m, private_size(id, MSG_REJ), is_ud(id));
	rcm_push(atomic_load(&id->channel), ev);
}

/* A message that does not fit the state is none of this library's: the connection ends. */
static void got_msg(struct rcm_id *id, const struct msg *m)
{
	if (m->type == MSG_REQ && id->state == RCM_ARRIVING) {
		got_req(id, m);
	} else if (m->type == MSG_REP && id->state == RCM_REQ_SENT) {
		got_rep(id, m);
	} else if (m->type == MSG_RTU && id->state == RCM_REP_SENT) {
		rcm_timer_clear(id);
		id->state = RCM_CONNECTED;
		rcm_report(id, RCM_ESTABLISHED, 0);
	} else if (m->type == MSG_RTU && id->state == RCM_CONNECTED) {
		return;		/* rdma_notify came before */
	} else if (m->type == MSG_REJ && (id->state == RCM_REQ_SENT || id->state == RCM_REP_SENT)) {
		got_rej(id, m);
	} else {
		peer_gone(id);
	}
}

/* Accepts one connection: a program that retrieves one event makes room for one in the backlog. Returns NULL with errno EAGAIN:
 * no connection any more; else: no descriptor or memory. */
static struct rcm_id *accept_one(struct rcm_id *listener)
{
	static _Atomic bool reported;
	struct rcm_channel *ch = atomic_load(&listener->channel);
	int fd = fd_raise_over_select(fd_raise(accept4(listener->name.n, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)));
	struct rcm_id *id = fd >= 0 && rcm_same_user(fd) ? rcm_id_new(ch, 0, listener->ps, listener->qp_type) : NULL;

	if (!id) {
		bool starved = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
		if (fd >= 0)
			close(fd);
		else if (starved && !atomic_exchange(&reported, true))
			shca_error(
				"RDMA CM: a connection request waits: no descriptor is left (limit on descriptors: ulimit -n)");
		errno = fd < 0 && starved ? ENOMEM : EAGAIN;	/* said: above */
		return NULL;
	}
	id->conn = shca_fd_note(fd);
	id->listener = listener;
	id->state = RCM_ARRIVING;
	if (!rcm_conn_watch(id))
		return id;
	rcm_id_destroy(id);
	errno = EAGAIN;
	return NULL;
}

bool rcm_readable(struct rcm_id *id)
{
	struct msg m;
	ssize_t n;

	if (id->state == RCM_LISTEN && !(id = accept_one(id)))
		return errno == EAGAIN;
	if (id->conn.n < 0)
		return true;
	n = recv(id->conn.n, &m, sizeof(m), MSG_DONTWAIT);
	/* the peer closed its end with a message of ours unread: its own messages come behind this error */
	if (n < 0 && errno == ECONNRESET)
		n = recv(id->conn.n, &m, sizeof(m), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n == sizeof(m) && m.version == MSG_VERSION)
		got_msg(id, &m);
	else
		peer_gone(id);
	return true;
}
