/* SPDX-License-Identifier: BSD-3-Clause */
/* UD: one queue pair per process and device. rel.c makes its packets a reliable stream per peer. Connections are made over UD,
 * too. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define PKT_SMALL 256u
/* The first retransmission timeout of a peer. The longer one is for ranks that share CPUs: the peer must be scheduled before it
 * answers. */
#define RTO_NS 200000u
#define RTO_SHARED_NS 2000000u
#define REFUSED_MAX 8u		/* so many refused requests in a row fail the peer */
#define REFUSED_ROW_MS 1000u	/* refused requests count as consecutive if they are at most this far apart */
#define POOL_FACTOR 4			/* times HEDDLE_SRQ_DEPTH: a datagram without a receive is lost, while a connected
					 * sender waits (RNR) */

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static int ud_probe(struct hdl_dev *dev)
{
	return 1;		/* verbs require UD of every device */
}

static uint32_t ud_receives(const struct hdl_dev *dev)
{
	uint32_t n = hdl_rx_depth(64, dev->attr.orig_attr.max_qp_wr) * POOL_FACTOR;
	int most = dev->attr.orig_attr.max_qp_wr;

	return most > 0 && n > (uint32_t)most ? (uint32_t)most : n;
}

/* Moves the UD queue pair from RESET to RTS, and posts the first receives in INIT. Returns 0 or a negative errno, reported. */
static int ud_start(struct hdl_dev *dev)
{
	struct ibv_qp_attr m = { .qp_state = IBV_QPS_INIT, .port_num = dev->port.port_num, .qkey = dev->qkey };
	struct hdl_rxpool *pool = &dev->rx[HDL_POOL_PACKETS];
	int err;

	if ((err = ibv_modify_qp(dev->ud.qp, &m, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)))
		goto fail;
	pool->stopped = false;
	if ((err = hdl_rxpool_start(pool, 0)) || (err = hdl_rxpool_flush(pool)))
		return err;
	m.qp_state = IBV_QPS_RTR;
	if ((err = ibv_modify_qp(dev->ud.qp, &m, IBV_QP_STATE)))
		goto fail;
	m.qp_state = IBV_QPS_RTS;
	m.sq_psn = 0;
	if ((err = ibv_modify_qp(dev->ud.qp, &m, IBV_QP_STATE | IBV_QP_SQ_PSN)))
		goto fail;
	return 0;
fail:
	hdl_error("%s: cannot bring the UD queue pair to state %d (%s)", dev->name, (int)m.qp_state, strerror(err));
	return -err;
}

/* Brings the UD queue pair to RTS after an error. From SQE (a request's local error) the send queue continues; from ERR all
 * receives are flushed and posted again. The streams retransmit packets that were in the queue. Returns 0 or a negative errno. */
static int ud_reset(struct hdl_sq *sq)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp_init_attr init;
	struct hdl_rxpool *pool = &sq->dev->rx[HDL_POOL_PACKETS];
	struct hdl_flush f;
	int err = ibv_query_qp(sq->qp, &a, IBV_QP_STATE, &init);

	if (err)
		return -err;
	if (a.qp_state == IBV_QPS_SQE) {
		a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
		return -ibv_modify_qp(sq->qp, &a, IBV_QP_STATE);
	}
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR };
	if ((err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)))
		return -err;
	pool->stopped = true;
	f = hdl_flush_begin();
	while (pool->posted && hdl_flush_waits(&f))
		sq->dev->tp->hooks->poll_rcq(sq->dev);
	a.qp_state = IBV_QPS_RESET;
	if (pool->posted)
		return -ETIMEDOUT;
	return (err = ibv_modify_qp(sq->qp, &a, IBV_QP_STATE)) ? -err : ud_start(sq->dev);
}

/*
 * Returns true if a refused request counts as a lost packet, which its stream retransmits.
 *
 * While a link is down a device refuses requests (rxe: no route). HEDDLE_UD_TIMEOUT limits how long that may last. With the
 * port up, the refusals may date from just before, so only REFUSED_MAX of them in a row, with nothing acknowledged in between,
 * fail the peer.
 */
static bool ud_lost(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc)
{
	struct ibv_port_attr port;
	uint32_t una = ep->rel ? ep->rel->una : 0;
	uint32_t now = (uint32_t)(monotonic_ns() / 1000000);

	if (!ibv_query_port(sq->dev->port.ctx, sq->dev->port.port_num, &port) && port.state != IBV_PORT_ACTIVE) {
		sq->resets = 0;
		ep->refused = 0;
		return true;
	}
	/* The count restarts after an acknowledgement, or after REFUSED_ROW_MS: a peer that gets acknowledgements only never
	 * moves `una`. */
	if (una != ep->refused_una || now - ep->refused_ms > REFUSED_ROW_MS)
		ep->refused = 0;
	ep->refused_una = una;
	ep->refused_ms = now;
	return ++ep->refused < REFUSED_MAX;
}

bool hdl_ud_flushed(struct hdl_dev *dev, struct hdl_rxpool *pool)
{
	if (!pool->packets || dev->tp->closing || hdl_sq_is_dead(&dev->ud))
		return false;
	pool->stopped = true;
	hdl_sq_broken(&dev->ud);
	return true;
}

static int open_ud(struct hdl_dev *dev)
{
	uint32_t mtu = mtu_bytes(dev->port.mtu);
	uint32_t rx = ud_receives(dev);
	int err = hdl_sq_init(&dev->ud, dev, &hdl_kind_ud, (uint32_t)hdl_vars.sq_depth * 2);

	if (err)
		return err;
	dev->qkey = (uint32_t)(dev->tp->self.incarnation >> 32) & 0x7fffffffu;	/* the high bit is for privileged users */
	dev->max_ud = mtu - (uint32_t)(sizeof(struct hdl_udwire) + sizeof(struct hdl_name));
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_UD, .send_cq = dev->ud.scq->cq, .recv_cq = dev->rcq,
		.cap = { .max_send_wr = dev->ud.mask, .max_send_sge = 1, .max_recv_wr = rx, .max_recv_sge = 1,
			 .max_inline_data = dev->max_inline },
	};
	dev->ud.qp = ibv_create_qp(dev->port.pd, &a);
	if (!dev->ud.qp) {
		err = errno;
		hdl_error("%s: cannot create the UD queue pair (%s; %u requests, %u receives)", dev->name,
			  strerror(err), dev->ud.depth, rx);
		return -err;
	}
	dev->ud.max_inline = a.cap.max_inline_data;
	dev->ud_wr = (struct ibv_send_wr){ .sg_list = &dev->ud_sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					   .send_flags = IBV_SEND_INLINE };
	hdl_bufpool_init(&dev->pkt_small, dev, PKT_SMALL, 64, 1u << 20);
	hdl_bufpool_init(&dev->pkt, dev, mtu, 16, 1u << 18);
	/* the additional line: hdl_rxpool_grow puts the GRH at the end of one */
	hdl_rxpool_init(&dev->rx[HDL_POOL_PACKETS], dev, HDL_QUEUE_UD, NULL, dev->ud.qp, mtu + HDL_LINE,
			rx / POOL_FACTOR / 4, rx);
	return ud_start(dev);
}

static void ud_stop(struct hdl_dev *dev)
{
	hdl_sq_fini(&dev->ud);
}

static void close_ud(struct hdl_dev *dev)
{
	ud_stop(dev);
	hdl_rxpool_fini(&dev->rx[HDL_POOL_PACKETS]);
	hdl_bufpool_fini(&dev->pkt);
	hdl_bufpool_fini(&dev->pkt_small);
}

int hdl_ep_ah(struct hdl_ep *ep)
{
	struct ibv_ah_attr a;

	if (ep->ah)
		return 0;
	hdl_dev_ah(ep->dev, (const union ibv_gid *)ep->addr.gid, ep->addr.lid, &a);
	ep->ah = ibv_create_ah(ep->dev->port.pd, &a);
	if (!ep->ah && hdl_memory_again(ep->dev))
		ep->ah = ibv_create_ah(ep->dev->port.pd, &a);
	if (!ep->ah) {
		int err = errno ? errno : EHOSTUNREACH;
		hdl_error("%s: ibv_create_ah towards %s (lid %u) failed (%s)", ep->dev->name, hdl_proc_text(ep->rank),
			  ep->addr.lid, strerror(err));
		return -err;
	}
	return 0;
}

static int open_peer(struct hdl_ep *ep)
{
	uint32_t others = hdl_ep_others(ep), base;
	int err;

	if ((err = hdl_ep_ah(ep)))
		return err;
	if (!ep->rel) {
		ep->rel = malloc(sizeof(*ep->rel));
		if (!ep->rel)
			return hdl_no_memory("the UD state of a peer", sizeof(*ep->rel));
		/* the peer's pool has the size of this process's */
		hdl_rel_shares(ep->dev->rx[HDL_POOL_PACKETS].first, others, others, &base);
		hdl_rel_init(ep->rel, 0, 0, hdl_job.oversubscribed ? RTO_SHARED_NS : RTO_NS, base);
	}
	return 0;
}

static inline void head(struct hdl_udwire *w, struct hdl_ep *ep, enum hdl_ud_type type)
{
	w->nonce = (uint32_t)ep->tp->self.incarnation;
	w->type = type;
	w->share = w->base = 0;
	if (ep->rel) {
		hdl_rel_stamp(ep->rel, &w->ack, &w->sack);
	} else {
		w->ack = 0;
		w->sack = 0;
	}
}

/* Completes a packet with the sender's id or name. A retransmission sends the same bytes. */
static inline void sign(struct hdl_txbuf *pkt, const struct hdl_ep *ep)
{
	((struct hdl_udwire *)pkt->data)->src = ep->src;
	if (unlikely(ep->src & HDL_TELLS)) {
		hdl_ep_name(ep, pkt->data + pkt->len);
		pkt->len += (uint32_t)sizeof(struct hdl_name);
	}
}

static inline void address(const struct hdl_ep *ep, struct ibv_send_wr *wr)
{
	wr->wr.ud.ah = ep->ah;
	wr->wr.ud.remote_qpn = ep->addr.ud_qpn;
	wr->wr.ud.remote_qkey = ep->addr.qkey;
}

/* Posts a packet that fits inline data, unsignaled: the common case. Returns false: nothing was posted. */
static inline __attribute__((always_inline)) bool post_small(struct hdl_ep *ep, struct hdl_txbuf *pkt)
{
	struct hdl_dev *dev = ep->dev;
	struct hdl_sq *sq = &dev->ud;
	struct ibv_send_wr *wr = &dev->ud_wr, *bad;
	uint32_t i = sq->head;

	if (unlikely(pkt->len > sq->max_inline || i + 1 - sq->signaled >= sq->interval || hdl_sq_is_dead(sq)))
		return false;
	dev->ud_sge.addr = (uintptr_t)pkt->data;
	dev->ud_sge.length = pkt->len;
	wr->wr_id = (uint64_t)sq->id << 32 | i;
	address(ep, wr);
	if (unlikely(ibv_post_send(sq->qp, wr, &bad)))
		return false;		/* the caller posts it by ud_post, which reports the error */
	sq->slot[i & sq->mask] = (struct hdl_slot){ .ep = ep };
	sq->head = i + 1;
	sq->requests++;
	sq->bytes += pkt->len;
	return true;
}

/* Posts a packet. The request holds a reference to the packet until its completion, unless the packet is inline. */
static int __attribute__((noinline)) ud_post(struct hdl_ep *ep, struct hdl_txbuf *pkt)
{
	struct hdl_sq *sq = &ep->dev->ud;
	struct ibv_sge sge = { .addr = (uintptr_t)pkt->data, .length = pkt->len, .lkey = pkt->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

	if (pkt->len <= sq->max_inline) {
		wr.send_flags = IBV_SEND_INLINE;
		return hdl_sq_post(sq, ep, &wr, HDL_SLOT_NONE, NULL, false, pkt->len);
	}
	pkt->refs++;
	int err = hdl_sq_post(sq, ep, &wr, HDL_SLOT_BUF, pkt, false, pkt->len);
	if (err)
		pkt->refs--;
	return err;
}

/* Posts the collected packets. If other requests have taken the room meanwhile, the packets count as lost. */
static int __attribute__((noinline)) post_filled(struct hdl_dev *dev)
{
	uint32_t n = dev->nfilled;

	dev->nfilled = 0;
	return hdl_sq_room(&dev->ud, n) ? hdl_sq_post_packets(&dev->ud, dev->gather, dev->filled, n) : 0;
}

static void on_acked(void *arg, void *pkt)
{
	hdl_txbuf_put(pkt);
}

static void on_resend(void *arg, void *p, uint32_t psn)
{
	struct hdl_ep *ep = arg;
	struct hdl_txbuf *pkt = p;

	if (!hdl_sq_room(&ep->dev->ud, 1))
		return;		/* the retransmission timer calls again */
	head((struct hdl_udwire *)pkt->data, ep, HDL_UD_DATA);
	ud_post(ep, pkt);
}

/* Sends a datagram outside of the stream. share, base (HDL_UD_ACK only): packets that the peer may have in flight while sending,
 * and at the start of a stream. */
static int raw(struct hdl_ep *ep, enum hdl_ud_type type, uint32_t number, uint32_t share, uint32_t base, const void *body,
	       uint32_t len)
{
	struct hdl_dev *dev = ep->dev;
	int err;

	if ((err = hdl_ep_ah(ep)))
		return err;
	/* a probe and an acknowledgement speak of all packets before, so collected packets must be posted first */
	if (dev->nfilled)
		post_filled(dev);
	if (!hdl_sq_room(&dev->ud, 1))
		return -EAGAIN;
	struct hdl_txbuf *pkt = hdl_txbuf_get(&dev->pkt_small);
	if (!pkt)
		return -EAGAIN;
	struct hdl_udwire *w = (struct hdl_udwire *)pkt->data;
	head(w, ep, type);
	w->psn = number;
	w->share = (uint16_t)share;
	w->base = (uint16_t)base;
	if (len)
		memcpy(pkt->data + HDL_UD_HEAD, body, len);
	pkt->len = (uint32_t)HDL_UD_HEAD + len;
	sign(pkt, ep);
	err = ud_post(ep, pkt);
	hdl_txbuf_put(pkt);
	return err;
}

int hdl_ud_raw(struct hdl_ep *ep, enum hdl_ud_type type, const void *body, uint32_t len)
{
	return raw(ep, type, 0, 0, 0, body, len);
}

/* Acknowledges. much: the peer has sent several packets without an answer, or waits for permission to send more; such peers
 * share the pool, which grows for them. */
static void acknowledge(struct hdl_ep *ep, uint32_t probe, bool much)
{
	uint32_t base, share = hdl_rxpool_share(&ep->dev->rx[HDL_POOL_PACKETS], &ep->active, much, ep->rel->owed, &base);

	raw(ep, HDL_UD_ACK, probe, share, base, NULL, 0);
}

static void ud_on_probe(void *arg, uint32_t number)
{
	raw(arg, HDL_UD_PROBE, number, 0, 0, NULL, 0);
}

static inline struct hdl_rel_ops ops_of(struct hdl_ep *ep)
{
	return (struct hdl_rel_ops){
		.acked = on_acked, .resend = on_resend, .probe = ud_on_probe, .now = monotonic_ns, .arg = ep};
}

static inline void ud_copy(char *to, const void *from, uint32_t n)
{
	if (n >= 8 && n <= 16) {
		uint64_t a, b;
		memcpy(&a, from, 8);
		memcpy(&b, (const char *)from + n - 8, 8);
		memcpy(to, &a, 8);
		memcpy(to + n - 8, &b, 8);
	} else if (n) {
		memcpy(to, from, n);
	}
}

static __attribute__((noinline)) bool ud_has_room(struct hdl_ep *ep)
{
	struct hdl_rel_ops ops = ops_of(ep);

	return hdl_rel_limited(ep->rel, &ops);
}

/* Takes a packet buffer. Returns NULL if the window, the send queue or the pool has no room; *err has the reason. */
static inline __attribute__((always_inline)) struct hdl_txbuf *packet(struct hdl_ep *ep, struct hdl_bufpool *pool, int *err)
{
	if (unlikely(!ep->rel) && (*err = open_peer(ep)))
		return NULL;
	*err = -EAGAIN;
	if (unlikely(!hdl_rel_room(ep->rel)) && !ud_has_room(ep))
		return NULL;
	return hdl_sq_room(&ep->dev->ud, 1 + ep->dev->nfilled) ? hdl_txbuf_get(pool) : NULL;
}

/* Writes header and payloads. packs: `a` is a struct hdl_send, whose `an` bytes from `at` on are packed. */
static inline __attribute__((always_inline)) void ud_put(char *to, const struct hdl_hdr *hdr, bool packs, uint64_t at,
							 const void *a, uint32_t an, const void *b, uint32_t bn)
{
	char *body = to + sizeof(*hdr);

	memcpy(to, hdr, sizeof(*hdr));
	if (packs)
		((const struct hdl_send *)a)->pack(a, at, body, an);
	else
		ud_copy(body, a, an);
	if (bn)
		ud_copy(body + an, b, bn);
}

/* Gives a filled packet its head, its source and the next number of the stream. Must: the window has room. */
static inline __attribute__((always_inline)) void ud_number(struct hdl_ep *ep, struct hdl_txbuf *pkt)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_udwire *w = (struct hdl_udwire *)pkt->data;

	head(w, ep, HDL_UD_DATA);
	sign(pkt, ep);
	if (unlikely(hdl_rel_is_timed(ep->rel)))
		hdl_rel_time(ep->rel, monotonic_ns());
	w->psn = hdl_rel_push(ep->rel, pkt);
	if (!ep->rel_timer) {
		ep->rel_timer = true;
		ep->timer_next = tp->timers;
		tp->timers = ep;
		hdl_stirred = true;
	}
}

static inline __attribute__((always_inline)) int send_data(struct hdl_ep *ep, const struct hdl_hdr *hdr, bool packs, uint64_t at,
							   const void *a, uint32_t an, const void *b, uint32_t bn)
{
	struct hdl_dev *dev = ep->dev;
	uint32_t len = (uint32_t)sizeof(struct hdl_udwire) + an + bn;
	int err;
	struct hdl_txbuf *pkt = packet(ep, len + sizeof(struct hdl_name) <= PKT_SMALL ? &dev->pkt_small : &dev->pkt, &err);

	if (!pkt)
		return err;
	ud_put(pkt->data + HDL_UD_HEAD, hdr, packs, at, a, an, b, bn);
	pkt->len = len;
	ud_number(ep, pkt);
	return likely(post_small(ep, pkt)) ? 0 : ud_post(ep, pkt);
}

/* ---- several messages in a packet ---- */

void hdl_ud_gather(struct hdl_ep *ep)
{
	ep->dev->gather = ep;
}

/* Closes the packet that is being filled. */
static int gathered(struct hdl_dev *dev)
{
	struct hdl_txbuf *pkt = dev->gather_pkt;

	dev->gather_pkt = NULL;
	if (!pkt)
		return 0;
	ud_number(dev->gather, pkt);
	dev->filled[dev->nfilled++] = pkt;
	return dev->nfilled == ARRAY_SIZE(dev->filled) ? post_filled(dev) : 0;
}

void hdl_ud_gathered(struct hdl_ep *ep)
{
	gathered(ep->dev);
	if (ep->dev->nfilled)
		post_filled(ep->dev);
	ep->dev->gather = NULL;
}

static int ud_add(struct hdl_ep *ep, const struct hdl_hdr *hdr, bool packs, uint64_t at, const void *a, uint32_t an,
		  const void *b, uint32_t bn)
{
	struct hdl_dev *dev = ep->dev;
	struct hdl_txbuf *pkt = dev->gather_pkt;
	uint32_t from = pkt ? HDL_UD_ALIGN(pkt->len) : (uint32_t)HDL_UD_HEAD, end = from + (uint32_t)sizeof(*hdr) + an + bn;
	int err;

	if (pkt && end > sizeof(struct hdl_udwire) + dev->max_ud) {
		if ((err = gathered(dev)))
			return err;
		pkt = NULL;
		end += (uint32_t)HDL_UD_HEAD - from;
		from = (uint32_t)HDL_UD_HEAD;
	}
	if (!pkt && !(pkt = dev->gather_pkt = packet(ep, &dev->pkt, &err)))
		return err;
	ud_put(pkt->data + from, hdr, packs, at, a, an, b, bn);
	pkt->len = end;
	return 0;
}

int hdl_ud_send(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *a, uint32_t an, const void *b, uint32_t bn)
{
	return ep->dev->gather == ep ? ud_add(ep, hdr, false, 0, a, an, b, bn) : send_data(ep, hdr, false, 0, a, an, b, bn);
}

int hdl_ud_send_runs(struct hdl_ep *ep, const struct hdl_hdr *hdr, const struct hdl_send *a, uint64_t at, uint32_t an,
		     const void *b, uint32_t bn)
{
	return ep->dev->gather == ep ? ud_add(ep, hdr, true, at, a, an, b, bn) : send_data(ep, hdr, true, at, a, an, b, bn);
}

/* ---- a message in several packets ---- */

/* Checks that n more packets of full length have room in the window, the queue and the pool. Takes nothing. */
static bool has_room_for(struct hdl_ep *ep, uint32_t n)
{
	struct hdl_dev *dev = ep->dev;
	struct hdl_rel_ops ops = ops_of(ep);

	if (!hdl_rel_has_room_for(ep->rel, n, &ops) || !hdl_sq_room(&dev->ud, n + dev->nfilled))
		return false;
	while (dev->pkt.nfree < n)
		if (hdl_bufpool_need(&dev->pkt))
			return false;
	return true;
}

int hdl_ud_send_parts(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, uint32_t len, const struct hdl_send *send)
{
	struct hdl_dev *dev = ep->dev;
	struct hdl_hdr part = { .kind = HDL_CTL_PART, .tag = (int32_t)len };
	uint32_t n = (len + dev->max_ud - 1) / dev->max_ud;
	bool gathers = dev->gather == ep;
	int err;

	if (n > HDL_SQ_PACKETS)
		return -EAGAIN;
	if ((!ep->rel && (err = open_peer(ep))) || (gathers && (err = gathered(dev))))
		return err;
	if (!has_room_for(ep, n))
		return -EAGAIN;
	if (!gathers)
		hdl_ud_gather(ep);
	for (uint32_t at = 0; !err && at < len; at += part.len) {
		part.len = len - at < dev->max_ud ? len - at : dev->max_ud;
		if (at + part.len == len) {
			part = *hdr;
			part.kind = HDL_CTL_LAST;
			part.len = len - at;
		}
		err = buf ? ud_add(ep, &part, false, 0, (const char *)buf + at, part.len, NULL, 0)
			  : ud_add(ep, &part, true, at, send, part.len, NULL, 0);
	}
	if (!gathers)
		hdl_ud_gathered(ep);
	return err;
}

/* The parts of a message that have arrived. The stream delivers packets in order, and a sender sends one such message behind
 * the other. */
struct hdl_ud_parts {
	uint32_t len, got;
	_Alignas(16) char data[];
};

/* Appends a part. Returns NULL if the part does not continue the message, or if there is no memory: then the endpoint has
 * failed. */
static struct hdl_ud_parts *put_part(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_ud_parts *p = ep->parts;
	uint32_t len = (uint32_t)hdr->tag, left;

	if (!p) {
		if (hdr->kind != HDL_CTL_PART || len > hdl_vars.eager_max)
			return NULL;
		if (!(p = malloc(sizeof(*p) + len))) {
			hdl_ep_fail(ep, hdl_no_memory("a message in several packets", len));
			return NULL;
		}
		*p = (struct hdl_ud_parts){ .len = len };
		ep->parts = p;
	}
	left = p->len - p->got;
	if (hdr->len > left || (hdr->len == left) != (hdr->kind == HDL_CTL_LAST))
		return NULL;
	memcpy(p->data + p->got, payload, hdr->len);
	p->got += hdr->len;
	return p;
}

bool hdl_ud_on_part(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload)
{
	struct hdl_ud_parts *p = put_part(ep, hdr, payload);
	struct hdl_hdr whole = *hdr;

	if (p && hdr->kind == HDL_CTL_PART)
		return true;
	if (p) {
		whole.kind = HDL_EAGER;
		whole.len = p->len;
		hdl_ep_dispatch(ep, &whole, p->data, &ep->in_ud);
	}
	free(ep->parts);
	ep->parts = NULL;
	return p || ep->failed;
}

int hdl_ud_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len)
{
	_Alignas(16) struct hdl_hdr hdr;

	if (ep->can != HDL_QUEUE_BIT(HDL_QUEUE_UD) || ep->pend || ep->failed || ep->eager_off || len > ep->dev->max_ud ||
	    len > (size_t)hdl_vars.eager_max || ++ep->sends_unpolled >= HDL_UNLOOKED_MAX)
		return 0;
	hdl_hdr_set(&hdr, tag, context, ep->tx_seq, (uint32_t)len, HDL_EAGER, 0);
	if (send_data(ep, &hdr, false, 0, buf, (uint32_t)len, NULL, 0))
		return 0;
	ep->tx_seq++;
	ep->sent_msgs++;
	ep->out_ud.msgs++;
	ep->out_ud.bytes += len;
	return 1;
}

static __attribute__((noinline)) void bad_packet(const struct hdl_ep *ep, const struct hdl_hdr *hdr, uint32_t left)
{
	hdl_error("%s sent a UD packet whose last %u bytes claim %u bytes of payload: dropped", hdl_proc_text(ep->rank), left,
		  hdr->len);
}

static inline void ud_deliver(struct hdl_ep *ep, const struct hdl_udwire *w, uint32_t len)
{
	const struct hdl_hdr *hdr = &w->hdr;
	uint32_t left = len - (uint32_t)HDL_UD_HEAD;

	for (;;) {
		if (unlikely(hdr->len > left - sizeof(*hdr))) {
			bad_packet(ep, hdr, left);
			return;
		}
		uint32_t used = HDL_UD_ALIGN((uint32_t)sizeof(*hdr) + hdr->len);
		hdl_ep_dispatch(ep, hdr, hdr + 1, &ep->in_ud);
		if (likely(left < used + sizeof(*hdr)) || ep->failed)
			return;
		left -= used;
		hdr = (const struct hdl_hdr *)((const char *)hdr + used);
	}
}

struct held {
	uint32_t len;
	_Alignas(16) char data[];
};

static inline void data_arrived(struct hdl_ep *ep, const struct hdl_udwire *w, uint32_t len)
{
	struct hdl_tp *tp = ep->tp;
	struct hdl_rel *r = ep->rel;
	struct held *h;

	switch (hdl_rel_receive(r, w->psn)) {
	case HDL_REL_DELIVER:
		ud_deliver(ep, w, len);
		while ((h = hdl_rel_next(r))) {
			ud_deliver(ep, (const struct hdl_udwire *)h->data, h->len);
			free(h);
		}
		break;
	case HDL_REL_HOLD:
		h = malloc(sizeof(*h) + len);
		if (!h)
			return;		/* counts as lost: the sender retransmits the packet */
		h->len = len;
		memcpy(h->data, w, len);
		hdl_rel_hold(r, w->psn, h);
		break;
	case HDL_REL_DUPLICATE:
		break;
	}
	if (r->owed >= HDL_REL_ACK_EVERY)
		acknowledge(ep, 0, true);
	else if (r->owed && !ep->ack_list) {
		ep->ack_list = true;
		ep->ack_next = tp->acks;
		tp->acks = ep;
	}
}

/* Finds the endpoint of a packet's sender. *len becomes the length of the packet without the sender's name. */
static inline struct hdl_ep *sender(struct hdl_tp *tp, const struct hdl_udwire *w, uint32_t *len)
{
	if (likely(!(w->src & HDL_TELLS)))
		return hdl_ep_by_id(tp, w->src);
	if (*len < HDL_UD_HEAD + sizeof(struct hdl_name))
		return NULL;
	*len -= (uint32_t)sizeof(struct hdl_name);
	return hdl_ep_on_ctl(tp, w->src, (const char *)w + *len);
}

static __attribute__((noinline)) void acknowledged(struct hdl_ep *ep, const struct hdl_udwire *w)
{
	struct hdl_rel_ops ops = ops_of(ep);

	hdl_rel_ack(ep->rel, w->ack, w->sack, &ops);
}

/* Handles datagrams outside of the stream: HDL_UD_ACK, HDL_UD_PROBE. */
static __attribute__((noinline)) void other_arrived(struct hdl_ep *ep, const struct hdl_udwire *w)
{
	struct hdl_rel_ops ops = ops_of(ep);

	if (w->type == HDL_UD_ACK)
		hdl_rel_share(ep->rel, w->share, w->base);
	hdl_rel_ack(ep->rel, w->ack, w->sack, &ops);
	if (w->type == HDL_UD_PROBE)
		acknowledge(ep, w->psn, true);
	else if (w->type == HDL_UD_ACK)
		hdl_rel_answered(ep->rel, w->psn, &ops);
}

void hdl_ud_arrived(struct hdl_dev *dev, const void *packet, uint32_t len)
{
	struct hdl_tp *tp = dev->tp;
	const struct hdl_udwire *w = packet;
	struct hdl_ep *ep;

	if (len < HDL_UD_HEAD || !(ep = sender(tp, w, &len)) || w->nonce != (uint32_t)ep->name.incarnation) {
		tp->stale++;		/* from another job, or from an earlier process of this rank */
		return;
	}
	if (w->type == HDL_UD_CONN) {
		if (len >= HDL_UD_HEAD + sizeof(struct hdl_conn_msg))
			tp->hooks->conn_arrived(ep, (const struct hdl_conn_msg *)((const char *)packet + HDL_UD_HEAD));
		return;
	}
	if (unlikely(ep->failed)) {
		/* the datagram that told the peer of the failure may have been lost */
		tp->hooks->conn_announce(ep);
		return;
	}
	if (unlikely(!ep->rel) && open_peer(ep))
		return;
	void *pkt;
	if (unlikely(w->type != HDL_UD_DATA)) {
		other_arrived(ep, w);
		return;
	}
	if (unlikely(!hdl_rel_ack_one(ep->rel, w->ack, w->sack, &pkt)))
		acknowledged(ep, w);
	else if (pkt)
		hdl_txbuf_put(pkt);
	if (len >= sizeof(*w))
		data_arrived(ep, w, len);
}

void hdl_ud_acks(struct hdl_tp *tp)
{
	struct hdl_ep *ep = tp->acks, *next;

	tp->acks = NULL;
	for (; ep; ep = next) {
		next = ep->ack_next;
		ep->ack_list = false;
		if (ep->rel && ep->rel->owed && !ep->failed)
			acknowledge(ep, 0, false);
	}
}

uint64_t hdl_ud_timers(struct hdl_tp *tp, uint64_t now)
{
	struct hdl_ep **at = &tp->timers, *ep;
	uint64_t first = 0;

	while ((ep = *at)) {
		struct hdl_rel_ops ops = ops_of(ep);
		uint32_t before = ep->rel ? ep->rel->timeouts : 0;
		uint64_t t = ep->rel && !ep->failed ? hdl_rel_timer(ep->rel, now, &ops) : 0;
		if (t && ep->rel->timeouts != before && tp->hooks->ep_is_silent(ep, hdl_rel_silence(ep->rel, now)))
			t = 0;
		if (!t) {
			ep->rel_timer = false;
			*at = ep->timer_next;
			continue;
		}
		if (!first || t < first)
			first = t;
		at = &ep->timer_next;
	}
	return first;
}

void hdl_ud_drop_peer(struct hdl_ep *ep)
{
	struct hdl_rel_ops ops = ops_of(ep);

	if (ep->rel)
		hdl_rel_clear(ep->rel, &ops, free);
	free(ep->parts);
	ep->parts = NULL;
}

void hdl_ud_forget_peer(struct hdl_ep *ep)
{
	hdl_ud_drop_peer(ep);
	free(ep->rel);
	ep->rel = NULL;
	if (ep->ah)
		ibv_destroy_ah(ep->ah);
	ep->ah = NULL;
}

const struct hdl_tp_kind hdl_kind_ud = {
	.queue = HDL_QUEUE_UD, .needs = "UD queue pairs", .pool = HDL_POOL_PACKETS, .shares_sq = true,
	.probe = ud_probe, .open = open_ud, .stop = ud_stop, .close = close_ud, .receives = ud_receives, .address = address,
	.reset = ud_reset, .repeats = true, .counts_as_lost = ud_lost,
};
