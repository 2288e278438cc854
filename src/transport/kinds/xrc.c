/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * XRC: every request names the XRC SRQ of its destination, so one sending queue pair reaches all processes of a host. SENDs
 * arrive in that SRQ; RDMA and atomics use the protection domain of that SRQ.
 *
 * The other end of a sending queue pair, its *target*, is a receiving queue pair in the XRC domain that the job's processes of
 * that host share. The domain is named by a file (hdl_rt_job_file); a process without one has a domain for itself. Each process
 * publishes a number that is equal where the domain is the same. Peers are grouped by that number, not by host names.
 *
 * Own domain: the process makes both ends and connects them. No peer is asked, and no other process's end affects them.
 *
 * Another domain: one of the peers there, the *maker*, makes the target. The sending queue has no room meanwhile (hdl_sq_hold).
 *
 *       ASK(number, qpn, psn)     ──▶     target to RTR
 *       to RTR, RTS               ◀──     TARGET(number, target's qpn, psn)
 *
 * ASK is repeated, after TRIES times to the next peer, until a peer answers. Targets that slower peers made for the same
 * question are released (HDL_CTL_KEEP with qpn 0). KEEPERS more peers open the target (HDL_CTL_KEEP), so that the target
 * survives its maker. Only the maker modifies it.
 *
 * A queue that breaks is reset as a DC initiator is (hdl_sq_reset), and its target with it, since the target waits for a PSN
 * that will not come. The peer whose request was refused fails. A target that does not answer fails no peer: the sender asks
 * for another target.
 */
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fnv.h"
#include "transport/kinds/xrc.h"

#define KEEPERS 2u
#define TRIES 4u		/* ASKs to one peer before the next one is asked */
#define RETRY_NS 5000000ull
#define RETRY_MAX_NS 200000000ull
#define DOMAIN_BITS 0xffffffffffffull	/* width of the domain's number in struct hdl_addr */

static int xrc_probe(struct hdl_dev *dev)
{
	return dev->srq && dev->attr.orig_attr.device_cap_flags & IBV_DEVICE_XRC;
}

static uint32_t xrc_random_bits(struct hdl_tp *tp)
{
	tp->rng = tp->rng * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(tp->rng >> 40);
}

/* ---- the domain -------------------------------------------------------------------------------------------- */

/* Returns the number of the domain that this file names on this device, equal in all processes; 0: unknown. */
static uint64_t domain_of(const struct hdl_dev *dev, int fd)
{
	uint64_t h = hdl_host_id();	/* inode numbers of two kernels may be equal */
	struct stat st;

	if (!h || fstat(fd, &st))
		return 0;
	h = fnv1a_64(h, &st.st_dev, sizeof(st.st_dev));
	h = fnv1a_64(h, &st.st_ino, sizeof(st.st_ino));
	return fnv1a_64(h, &dev->attr.orig_attr.node_guid, sizeof(dev->attr.orig_attr.node_guid)) & DOMAIN_BITS;
}

static int open_domain(struct hdl_dev *dev)
{
	struct hdl_tp *tp = dev->tp;
	struct ibv_xrcd_init_attr x = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = hdl_rt_job_file(),
					.oflags = O_CREAT };
	int err;

	if (x.fd >= 0) {
		dev->xrc_domain = domain_of(dev, x.fd);
		dev->xrcd = dev->xrc_domain ? ibv_open_xrcd(dev->port.ctx, &x) : NULL;
		close(x.fd);
	}
	if (dev->xrcd)
		return 0;
	hdl_debug("%s: the ranks of this host share no XRC domain: this process has one for itself", dev->name);
	dev->xrc_domain = ((uint64_t)xrc_random_bits(tp) << 24 | xrc_random_bits(tp)) & DOMAIN_BITS;
	x.fd = -1;
	dev->xrcd = ibv_open_xrcd(dev->port.ctx, &x);
	if (dev->xrcd)
		return 0;
	err = errno;
	hdl_error("%s: ibv_open_xrcd failed (%s)", dev->name, strerror(err));
	return -err;
}

static int open_xrc(struct hdl_dev *dev)
{
	uint32_t depth = hdl_srq_depth(dev);
	int err = open_domain(dev);

	if (err)
		return err;
	struct ibv_srq_init_attr_ex a = {
		.attr = { .max_wr = depth, .max_sge = 1 },
		.comp_mask =
			IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = dev->xrcd,
		.cq = dev->rcq,
		.pd = dev->port.pd,
	};
	dev->xrc_srq = ibv_create_srq_ex(dev->port.ctx, &a);
	if (!dev->xrc_srq) {
		err = errno;
		hdl_error("%s: cannot create an XRC SRQ of %u receives (%s): lower HEDDLE_SRQ_DEPTH", dev->name, depth,
			  strerror(err));
		return -err;
	}
	err = ibv_get_srq_num(dev->xrc_srq, &dev->xrc_srqn);
	if (err) {
		hdl_error("%s: ibv_get_srq_num failed (%s)", dev->name, strerror(err));
		return -err;
	}
	hdl_rxpool_init(&dev->rx[HDL_POOL_XRC], dev, HDL_QUEUE_XRC, dev->xrc_srq, NULL, hdl_srq_bytes(),
			HDL_SRQ_FIRST(depth), depth);
	/* peers may send to the SRQ without asking, so its pool must have receives now */
	return hdl_rxpool_start(&dev->rx[HDL_POOL_XRC], (uint32_t)hdl_job.size - 1);
}

static void xrc_destroy(struct hdl_dev *dev, struct ibv_qp *qp)
{
	int err = qp ? ibv_destroy_qp(qp) : 0;

	if (err)
		hdl_warn("%s: ibv_destroy_qp of an XRC target failed (%s)", dev->name, strerror(err));
}

static void close_xrc(struct hdl_dev *dev)
{
	struct hdl_xrc_host *h;
	struct hdl_xrc_target *t;

	while ((h = dev->xrc_hosts)) {
		dev->xrc_hosts = h->next;
		hdl_sq_fini(&h->sq);
		xrc_destroy(dev, h->own_target);
		free(h);
	}
	while ((t = dev->xrc_targets)) {
		dev->xrc_targets = t->next;
		xrc_destroy(dev, t->qp);
		free(t);
	}
	int err = dev->xrc_srq ? ibv_destroy_srq(dev->xrc_srq) : 0;

	if (err)
		hdl_warn("%s: ibv_destroy_srq of the XRC SRQ failed (%s)", dev->name, strerror(err));
	dev->xrc_srq = NULL;
	hdl_rxpool_fini(&dev->rx[HDL_POOL_XRC]);
	err = dev->xrcd ? ibv_close_xrcd(dev->xrcd) : 0;
	if (err)
		hdl_warn("%s: ibv_close_xrcd failed (%s)", dev->name, strerror(err));
	dev->xrcd = NULL;
}

static struct ibv_qp *create_target(struct hdl_dev *dev)
{
	struct ibv_qp_init_attr_ex r = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = dev->xrcd };
	struct ibv_qp *qp = ibv_create_qp_ex(dev->port.ctx, &r);

	return qp || !hdl_memory_again(dev) ? qp : ibv_create_qp_ex(dev->port.ctx, &r);
}

/* Connects a target to a peer's sending queue. *psn: in, the PSN proposed; out, the PSN with which the sending queue must
 * begin. Returns 0 or a negative errno, reported. */
static int connect_target(struct hdl_dev *dev, struct ibv_qp *target, const struct hdl_addr *addr, uint32_t qpn, uint32_t *psn)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_init_attr init;
	int err;

	/* On a device that carries requests out while they are posted, nothing is on its way to a target in RTR. So the target
	 * keeps its state, with the expected PSN, and there is no wait for requests of other processes through the target. */
	if (dev->promises.at_once && !ibv_query_qp(target, &a, IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_DEST_QPN, &init) &&
	    a.qp_state == IBV_QPS_RTR && a.dest_qp_num == qpn) {
		*psn = a.rq_psn;
		return 0;
	}
	if ((err = hdl_qp_renew(target, &dev->port, hdl_qp_access(dev))))
		return err;
	return hdl_qp_rtr(target, dev, addr, qpn, *psn);
}

/* ---- the sender's side ------------------------------------------------------------------------------------- */

static struct hdl_xrc_host *host_of(const struct hdl_sq *sq)
{
	return container_of(sq, struct hdl_xrc_host, sq);
}

static int connect_sender(struct hdl_xrc_host *h, const struct hdl_addr *addr, uint32_t qpn, uint32_t psn)
{
	struct hdl_dev *dev = h->sq.dev;
	int err = hdl_qp_renew(h->sq.qp, &dev->port, hdl_qp_access(dev));

	if (err || (err = hdl_qp_rtr(h->sq.qp, dev, addr, qpn, 0)))
		return err;
	return hdl_qp_rts(h->sq.qp, psn, NULL);
}

static int join_own(struct hdl_tp *tp, struct hdl_xrc_host *h)
{
	struct hdl_dev *dev = h->sq.dev;
	uint32_t psn = xrc_random_bits(tp);
	int err = connect_target(dev, h->own_target, &dev->addr, h->sq.qp->qp_num, &psn);

	return err ? err : connect_sender(h, &dev->addr, h->own_target->qp_num, psn);
}

static bool uses_sq(const struct hdl_ep *ep, const struct hdl_sq *sq)
{
	return ep && ep->sq == sq;
}

/* Returns the next peer of that domain that has not failed, in turns; NULL: there is none. */
static struct hdl_ep *next_user(struct hdl_tp *tp, struct hdl_xrc_host *h)
{
	uint32_t n = tp->peers.n;

	for (uint32_t i = 0; i < n; i++) {
		struct hdl_ep *ep = tp->peers.of[h->next_ask++ % n];
		if (uses_sq(ep, &h->sq) && !ep->failed)
			return ep;
	}
	return NULL;
}

static void xrc_ask(struct hdl_xrc_host *h, struct hdl_ep *ep, uint64_t now)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_conn_msg m = { .what = HDL_CONN_ASK, .kind = HDL_QUEUE_XRC, .number = h->ask_number, .qpn = h->sq.qp->qp_num,
				  .psn = h->psn };
	uint64_t wait = RETRY_NS << (h->tries < 6 ? h->tries : 6);

	h->tries++;
	if (wait > RETRY_MAX_NS)
		wait = RETRY_MAX_NS;
	h->retry_ns = now + wait + xrc_random_bits(tp) % wait;
	hdl_stirred = true;
	if (!tp->next_timer_ns || h->retry_ns < tp->next_timer_ns)
		tp->next_timer_ns = h->retry_ns;
	hdl_wire_send(ep, &m);
}

static void asking(struct hdl_xrc_host *h, bool on)
{
	h->sq.dev->xrc_asking += on - h->asking;
	h->asking = on;
}

/* Asks a peer of that domain for a target. Returns -EINPROGRESS, or 0 if no peer there is left. */
static int begin_asking(struct hdl_tp *tp, struct hdl_xrc_host *h)
{
	struct hdl_ep *ep = next_user(tp, h);

	h->maker = NULL;
	h->keepers = 0;
	/* without a peer there is nothing to send; the next lane to this domain asks (xrc_make) */
	if (!ep)
		return 0;
	h->ask_number++;
	h->psn = xrc_random_bits(tp);
	h->tries = 0;
	h->since_ns = monotonic_ns();
	asking(h, true);
	xrc_ask(h, ep, h->since_ns);
	return -EINPROGRESS;
}

static void xrc_keep(struct hdl_xrc_host *h, struct hdl_ep *ep)
{
	struct hdl_keep_rec m = { .qpn = h->qpn, .number = h->ask_number };

	if (!h->maker || ep == h->maker || h->keepers >= KEEPERS)
		return;
	h->keepers++;
	hdl_ep_ctl(ep, HDL_CTL_KEEP, &m, sizeof(m), false);
}

static int xrc_reset(struct hdl_sq *sq)
{
	struct hdl_tp *tp = sq->dev->tp;
	struct hdl_xrc_host *h = host_of(sq);

	if (h->own_target)
		return join_own(tp, h);
	if (h->asking)
		return -EINPROGRESS;
	if (!h->maker || !h->unconnected)
		return begin_asking(tp, h);
	h->unconnected = false;
	return connect_sender(h, &h->maker->addr, h->qpn, h->psn);
}

static void on_target(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_tp *tp = ep->tp;
	bool has = ep->sq && !ep->failed && ep->sq->kind == &hdl_kind_xrc;
	struct hdl_xrc_host *h = has ? host_of(ep->sq) : NULL;

	if (!h || (ep == h->maker && m->qpn == h->qpn))
		return;		/* a repetition of the answer */
	if (!h->asking || m->number != h->ask_number) {
		struct hdl_keep_rec other = { .number = m->number };
		if (m->qpn)	/* another peer answered first: release this target */
			hdl_ep_ctl(ep, HDL_CTL_KEEP, &other, sizeof(other), false);
		return;
	}
	if (!m->qpn) {
		hdl_error("connection to %s failed: that process cannot make an XRC target (%s); look at its output",
			  hdl_proc_text(ep->rank), strerror(m->reason));
		hdl_ep_fail(ep, -ECONNREFUSED);
		return;
	}
	asking(h, false);
	h->maker = ep;
	h->qpn = m->qpn;
	h->psn = m->psn;
	h->unconnected = true;
	hdl_debug("%s has made XRC target %u for queue %u", hdl_proc_text(ep->rank), h->qpn, h->sq.qp->qp_num);
	hdl_done_reset(&h->sq);
	for (uint32_t i = 0; i < tp->peers.n && h->keepers < KEEPERS; i++)
		if (uses_sq(tp->peers.of[i], &h->sq) && !tp->peers.of[i]->failed)
			xrc_keep(h, tp->peers.of[i]);
}

/* No peer has answered for HEDDLE_UD_TIMEOUT: fails all peers of the domain whose processes are not known to live. */
static void fail_silent_peers(struct hdl_tp *tp, struct hdl_xrc_host *h, uint64_t now)
{
	char text[HDL_PEER_TEXT];

	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		/* a peer whose process is known to live may take longer */
		if (!uses_sq(ep, &h->sq) || ep->failed || hdl_peer_state(ep) != HDL_PROC_UNKNOWN)
			continue;
		hdl_error("connection to %s failed: %s port %u, XRC queue %u has no target, and no process there has answered "
			  "for %.1f s: the peer's process or its host has ended, or it computes for longer than "
			  "HEDDLE_UD_TIMEOUT",
			  hdl_peer_text(ep, text), ep->dev->name, ep->dev->port.port_num, h->sq.qp->qp_num,
			  (double)(now - h->since_ns) / 1e9);
		hdl_ep_fail(ep, -ETIMEDOUT);
	}
}

/* Repeats ASK, or gives up. Returns the time of the next call; 0: none. */
static uint64_t ask_again(struct hdl_tp *tp, struct hdl_xrc_host *h, uint64_t now)
{
	struct hdl_ep *ep;

	if (hdl_tp_gives_up(tp, now - h->since_ns))
		fail_silent_peers(tp, h, now);
	if (now < h->retry_ns)
		return h->retry_ns;
	h->next_ask -= h->tries % TRIES != 0;	/* next_user then returns the same peer */
	if ((ep = next_user(tp, h))) {
		xrc_ask(h, ep, now);
		return h->retry_ns;
	}
	/* all peers have failed: the reset ends their requests */
	asking(h, false);
	hdl_done_reset(&h->sq);
	return 0;
}

uint64_t hdl_xrc_timers(struct hdl_tp *tp, uint64_t now)
{
	uint64_t first = 0;

	for (int d = 0; d < tp->ndev; d++) {
		if (!tp->dev[d]->xrc_asking)
			continue;
		for (struct hdl_xrc_host *h = tp->dev[d]->xrc_hosts; h; h = h->next) {
			uint64_t at = h->asking ? ask_again(tp, h, now) : 0;
			if (at && (!first || at < first))
				first = at;
		}
	}
	return first;
}

static bool is_used(const struct hdl_tp *tp, const struct hdl_sq *sq)
{
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (uses_sq(tp->peers.of[i], sq) && !tp->peers.of[i]->failed)
			return true;
	return false;
}

/* Destroys the queue to a domain all of whose peers have failed. Its requests end here, and no endpoint keeps a pointer to it. */
static void drop_host(struct hdl_tp *tp, struct hdl_xrc_host *h)
{
	struct hdl_xrc_host **at = &h->sq.dev->xrc_hosts;
	int err;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	asking(h, false);
	if ((err = hdl_sq_stop(&h->sq)))
		hdl_debug("XRC queue %u cannot be stopped (%s)", h->sq.qp->qp_num, strerror(-err));
	hdl_sq_fini(&h->sq);
	hdl_done_forget(tp, &h->sq);
	for (uint32_t i = 0; i < tp->peers.n; i++)
		if (uses_sq(tp->peers.of[i], &h->sq))
			tp->peers.of[i]->sq = NULL;
	free(h);
}

static struct hdl_xrc_host *make_host(struct hdl_dev *dev, uint64_t domain)
{
	struct hdl_xrc_host *h = calloc(1, sizeof(*h));
	int err;

	if (!h) {
		errno = -hdl_no_memory("an XRC queue", sizeof(*h));
		return NULL;
	}
	h->domain = domain;
	if ((err = hdl_sq_init(&h->sq, dev, &hdl_kind_xrc, (uint32_t)hdl_vars.sq_depth)))
		goto none;
	struct ibv_qp_init_attr_ex s = {
		.qp_type = IBV_QPT_XRC_SEND,
		.send_cq = h->sq.scq->cq,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = dev->port.pd,
		.cap = { .max_send_wr = h->sq.depth, .max_send_sge = 3, .max_inline_data = dev->max_inline },
	};
	h->sq.qp = ibv_create_qp_ex(dev->port.ctx, &s);
	if (!h->sq.qp && hdl_memory_again(dev))
		h->sq.qp = ibv_create_qp_ex(dev->port.ctx, &s);
	if (h->sq.qp && domain == dev->xrc_domain)
		h->own_target = create_target(dev);
	if (!h->sq.qp || (domain == dev->xrc_domain && !h->own_target)) {
		err = -errno;
		hdl_error("%s: cannot create an XRC_%s queue pair (%s; %u requests): lower HEDDLE_SQ_DEPTH", dev->name,
			  h->sq.qp ? "RECV" : "SEND", strerror(-err), h->sq.depth);
		goto none;
	}
	h->sq.max_inline = s.cap.max_inline_data;
	hdl_sq_ask(&h->sq);
	if (h->own_target && (err = join_own(dev->tp, h)))
		goto none;
	h->next = dev->xrc_hosts;
	dev->xrc_hosts = h;
	return h;
none:
	hdl_sq_fini(&h->sq);
	xrc_destroy(dev, h->own_target);
	free(h);
	errno = -err;
	return NULL;
}

static int xrc_make(struct hdl_ep *ep, struct hdl_conn_queues *q)
{
	uint64_t domain = (uint64_t)ep->addr.xrc_domain_high << 32 | ep->addr.xrc_domain;
	struct hdl_xrc_host *h = ep->dev->xrc_hosts;

	while (h && h->domain != domain)
		h = h->next;
	if (!h && !(h = make_host(ep->dev, domain)))
		return -errno;
	if (hdl_sq_is_dead(&h->sq)) {
		hdl_error("%s port %u: no XRC lane to %s: the queue to its host does not work any more", ep->dev->name,
			  ep->dev->port.port_num, hdl_proc_text(ep->rank));
		return -ECONNRESET;
	}
	ep->sq = &h->sq;
	if (!h->own_target && !h->maker && !hdl_sq_is_broken(&h->sq))
		hdl_sq_hold(&h->sq);
	else
		xrc_keep(h, ep);
	return 0;
}

static int xrc_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->qp_type.xrc.remote_srqn = ep->addr.xrc_srqn;
	return ibv_post_send(sq->qp, wr, &bad);
}

/* A target that did not answer counts as a lost request: the peer that the first request was for is not at fault. */
static bool xrc_lost(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_RETRY_EXC_ERR;
}

/* ---- the receiver's side ----------------------------------------------------------------------------------- */

static struct hdl_xrc_target *target_of(const struct hdl_ep *ep, bool kept)
{
	struct hdl_xrc_target *t = ep->dev->xrc_targets;

	while (t && (t->ep != ep || t->opened != kept))
		t = t->next;
	return t;
}

/* Returns NULL with errno; the queue pair is then destroyed. */
static struct hdl_xrc_target *add_target(struct hdl_ep *ep, struct ibv_qp *qp, bool kept)
{
	struct hdl_xrc_target *t = qp ? calloc(1, sizeof(*t)) : NULL;

	if (!t) {
		int err = qp ? ENOMEM : errno;
		xrc_destroy(ep->dev, qp);
		errno = err;
		return NULL;
	}
	*t = (struct hdl_xrc_target){ .next = ep->dev->xrc_targets, .ep = ep, .qp = qp, .opened = kept };
	ep->dev->xrc_targets = t;
	return t;
}

static void xrc_on_ask(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	struct hdl_conn_msg answer = { .what = HDL_CONN_TARGET, .kind = HDL_QUEUE_XRC, .number = m->number };
	struct hdl_xrc_target *t = target_of(ep, false);
	int err = 0;

	if (ep->failed) {
		hdl_wire_announce(ep);
		return;
	}
	if (t && (int32_t)(m->number - t->number) < 0)
		return;		/* an ASK older than the last one */
	if (!t && !(t = add_target(ep, create_target(ep->dev), false))) {
		err = errno;
		hdl_error("%s: cannot create an XRC_RECV queue pair for %s (%s)", ep->dev->name, hdl_proc_text(ep->rank),
			  strerror(err));
	} else if (t->number != m->number || t->unused) {
		t->number = m->number;
		t->qpn = m->qpn;
		t->psn = m->psn;
		err = -connect_target(ep->dev, t->qp, &ep->addr, m->qpn, &t->psn);
		t->unused = err != 0;	/* a repetition of this ASK tries again */
	}
	answer.qpn = err ? 0 : t->qp->qp_num;
	answer.psn = err ? 0 : t->psn;
	answer.reason = err;
	hdl_wire_send(ep, &answer);
}

void hdl_xrc_on_ctl(struct hdl_ep *ep, const struct hdl_conn_msg *m)
{
	if (!ep->dev->xrcd)
		ep->tp->stale++;
	else if (m->what == HDL_CONN_ASK)
		xrc_on_ask(ep, m);
	else
		on_target(ep, m);
}

void hdl_xrc_keep(struct hdl_ep *ep, const struct hdl_keep_rec *m)
{
	struct hdl_dev *dev = ep->dev;
	struct ibv_qp_open_attr a = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
				      .qp_num = m->qpn, .xrcd = dev->xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct hdl_xrc_target *t = target_of(ep, false);

	if (t && (int32_t)(t->number - m->number) <= 0)
		t->unused = true;
	hdl_xrc_tidy(dev);
	t = target_of(ep, true);
	/* a failed peer gets no new target: hdl_xrc_lose has run, and would not free it */
	if (!dev->xrcd || !m->qpn || ep->failed || (t && t->qp->qp_num == m->qpn))
		return;
	struct ibv_qp *qp = ibv_open_qp(dev->port.ctx, &a);
	if (!qp) {
		/* not an error: when the maker ends, the sender asks for another target */
		hdl_debug("%s: XRC target %u of %s cannot be opened (%s)", dev->name, m->qpn, hdl_proc_text(ep->rank),
			  strerror(errno));
	} else if (t) {
		xrc_destroy(dev, t->qp);
		t->qp = qp;
		t->unused = false;
	} else {
		add_target(ep, qp, true);
	}
}

/* Returns whether the queue pair is in ERR. An event may be read after its queue has been renewed. */
static bool is_in_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, &a, IBV_QP_STATE, &init) || a.qp_state == IBV_QPS_ERR;
}

bool hdl_xrc_event(struct hdl_dev *dev, const struct ibv_qp *qp)
{
	for (struct hdl_xrc_host *h = dev->xrc_hosts; h; h = h->next)
		if (h->own_target == qp)
			return true;
	for (struct hdl_xrc_target *t = dev->xrc_targets; t; t = t->next)
		if (t->qp == qp) {
			t->unused |= is_in_error(t->qp);
			return true;
		}
	return false;
}

void hdl_xrc_tidy(struct hdl_dev *dev)
{
	for (struct hdl_xrc_target *t, **at = &dev->xrc_targets; (t = *at);) {
		if (!t->unused) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		xrc_destroy(dev, t->qp);
		free(t);
	}
}

/* Marks the targets of a peer that has left or whose process has ended. A peer that failed for this process only keeps its
 * targets: other processes of this host may receive through them. */
static void drop_targets(struct hdl_ep *ep)
{
	bool has = false;

	for (int kept = 0; kept < 2; kept++) {
		struct hdl_xrc_target *t = target_of(ep, kept);
		if (t && (ep->departed || hdl_peer_state(ep) == HDL_PROC_ENDED))
			has = t->unused = true;
	}
	if (has)
		hdl_xrc_tidy(ep->dev);
}

void hdl_xrc_lose(struct hdl_ep *ep)
{
	struct hdl_sq *sq = ep->sq;

	drop_targets(ep);
	/* Jobs may come and go without limit while this one runs, each with a domain of its own. */
	if (sq && sq->kind == &hdl_kind_xrc && !host_of(sq)->own_target && !hdl_proc_is_ours(ep->rank) && !is_used(ep->tp, sq))
		drop_host(ep->tp, host_of(sq));
}

bool hdl_xrc_holds(const struct hdl_ep *ep)
{
	for (const struct hdl_xrc_host *h = ep->dev->xrc_hosts; h; h = h->next)
		if (h->maker == ep)
			return true;
	for (const struct hdl_xrc_target *t = ep->dev->xrc_targets; t; t = t->next)
		if (t->ep == ep)
			return true;
	return false;
}

const struct hdl_tp_kind hdl_kind_xrc = {
	.queue = HDL_QUEUE_XRC, .needs = "XRC (IBV_DEVICE_XRC)", .pool = HDL_POOL_XRC,
	.shares_sq = true, .full_text = "the queue to a host was full at times",
	.probe = xrc_probe, .open = open_xrc, .close = close_xrc, .receives = hdl_srq_depth, .make = xrc_make, .post = xrc_post,
	.reset = xrc_reset, .counts_as_lost = xrc_lost,
};
