/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport's inside.
 *
 *   device.c  opening a device, what it can do        mem.c    registered memory, arena, buffer pools
 *   active.c  which device, if none is named
 *   select.c  which kind of queue (pure)              sq.c     send queues: slots, posting, completions
 *   conn.c    agreement on the connected lane (pure)
 *   order.c   per-peer order (pure)                   srq.c    receive pools
 *   ring.c    the eager ring's layout (pure)          rc.c ud.c xrc.c dc.c   the kinds
 *   rel.c     reliability over UD (pure)              rndv.c   rendezvous
 *   ep.c      endpoints: the send path, dispatch      wireup.c addresses and connections
 *   post.c    requests on the connected lane
 *   idle.c    waiting                                 report.c --report-transports, --report-hang
 *   alive.c   peers that have died
 *   rings.c   giving rings and taking them back       progress.c  turns, timers, init, fini
 *
 * One thread at a time is inside (runtime/threads.h); all state hangs on hdl_tp.
 */
#ifndef HDL_TP_H
#define HDL_TP_H

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "base/base.h"
#include "runtime/runtime.h"
#include "runtime/threads.h"
#include "transport/conn.h"
#include "transport/order.h"
#include "transport/rel.h"
#include "transport/ring.h"
#include "transport/select.h"
#include "transport/transport.h"
#include "transport/tune.h"


struct hdl_dev;
struct hdl_sq;

/* ---- what travels ------------------------------------------------------------------------------------------ */

/* Control messages: kinds of their own, outside the order of matching messages. */
enum hdl_ctl_kind {
	HDL_CTL_SKIP = 16,	/* ring: go on at the top */
	HDL_CTL_CTS,		/* struct hdl_cts */
	HDL_CTL_FIN,		/* struct hdl_fin: the receiver has read the message */
	HDL_CTL_DATA,		/* bytes, then struct hdl_data_rec: a rendezvous over UD or staged through a ring */
	HDL_CTL_RTU,		/* first message on a connection; the tag is the connection's number */
	HDL_CTL_RING_OFFER,	/* struct hdl_ring_offer */
	HDL_CTL_RING_ACCEPT,	/* struct hdl_ring_accept */
	HDL_CTL_RING_REVOKE,	/* stop using the ring */
	HDL_CTL_RING_RELEASED,	/* struct hdl_ring_released */
	HDL_CTL_CREDIT,		/* struct hdl_credit_rec, instead of an RDMA write that would not wake the peer */
	HDL_CTL_SLEEP,		/* I am about to sleep: struct hdl_sleep_rec */
	HDL_CTL_SLEEP_ACK,	/* understood: what follows will make a completion; the turn of the SLEEP */
	HDL_CTL_AWAKE,		/* the ring may be used again */
	HDL_CTL_HOLD,		/* struct hdl_hold_rec: announce messages instead of sending them eagerly, or no longer */
	HDL_CTL_REFUSED,	/* struct hdl_fin: the message was withdrawn before it matched */
	HDL_CTL_WRITTEN,	/* struct hdl_fin: the sender has written its part, by the queue that this comes by */
};

/* Every message that arrives in a pooled receive of RC, XRC, DC. */
struct hdl_wire {
	uint32_t src;		/* rank */
	uint32_t nonce;		/* low half of the sender's incarnation */
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_wire) == 24, "packed");

enum hdl_ud_type { HDL_UD_DATA = 1, HDL_UD_ACK, HDL_UD_CONN };
struct hdl_udwire {
	uint32_t src, nonce;
	uint32_t psn;
	uint32_t ack;
	uint64_t sack;
	uint32_t type;		/* enum hdl_ud_type; DATA: hdr follows, then payload; CONN: struct hdl_conn_msg */
	uint32_t reserved;
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_udwire) == 48, "packed");
#define HDL_UD_HEAD offsetof(struct hdl_udwire, hdr)
#define HDL_GRH 40u

/* The opaque record of an HDL_RTS. */
struct hdl_rts_rec {
	uint64_t len;
	uint32_t op;		/* the sender's operation */
	uint32_t rkey;		/* where it may be read by RDMA; 0: it may not */
	uint64_t addr;
	uint64_t reserved;
};
_Static_assert(sizeof(struct hdl_rts_rec) == HDL_RTS_SIZE, "the door says so");

struct hdl_cts {
	uint64_t len;		/* bytes wanted; 0: matched, nothing to send */
	uint64_t addr;
	uint32_t rkey;
	uint32_t op;		/* the sender's */
	uint32_t rop;		/* the receiver's */
	uint32_t rdma;		/* 0: no RDMA write is possible, stream it */
	uint64_t from;		/* what lies before this the receiver reads by itself */
};

struct hdl_fin {
	uint32_t op;		/* of whom this goes to */
	uint32_t part;		/* FIN: 1: what the receiver reads of a split message */
	uint64_t len;		/* bytes of the message */
};

struct hdl_data_rec {
	uint64_t offset;
	uint32_t rop;
	uint32_t reserved;
};

struct hdl_ring_offer {
	uint64_t addr;
	uint32_t rkey, lines;
};
struct hdl_ring_accept {
	uint64_t addr;		/* struct hdl_credit of the sender, for this peer */
	uint32_t rkey;
	uint32_t reserved;
};
struct hdl_ring_released {
	uint64_t sent;		/* lines ever used */
};
struct hdl_credit_rec {
	uint64_t consumed;
};
struct hdl_sleep_rec {
	uint32_t turn;
};
struct hdl_hold_rec {
	uint32_t turn;		/* the latest counts: they may overtake each other */
	uint32_t on;
};

/* Written by the peer with RDMA, in memory of the ring's sender. */
struct hdl_credit {
	uint64_t consumed;	/* lines */
	uint64_t reserved[7];
};
_Static_assert(sizeof(struct hdl_credit) == 64, "a line of its own");

/* Published as "hdl.addr": a head, then one entry per device. */
struct hdl_addr {
	uint8_t role;		/* enum hdl_role */
	uint8_t mtu;		/* enum ibv_mtu */
	uint8_t link_layer, reserved;
	uint32_t caps;		/* bit per kind whose resources exist */
	uint32_t qkey, ud_qpn;
	uint32_t xrc_srqn;
	uint32_t dctn;
	uint64_t dc_key;
	uint8_t gid[16];
	uint16_t lid, reserved2[3];
};
struct hdl_addr_head {
	uint32_t version, count;
	uint64_t nonce;
	struct hdl_proc proc;
};
#define HDL_ADDR_VERSION 3u
enum hdl_role { HDL_ROLE_ANY = 0, HDL_ROLE_LOCAL, HDL_ROLE_REMOTE };

struct hdl_conn_msg {
	uint8_t what;		/* HDL_CONN_REQ, HDL_CONN_REP or HDL_CONN_REJ */
	uint8_t kind;		/* enum hdl_queue, see struct hdl_conn_event */
	uint8_t named;
	uint8_t reserved;
	uint32_t number;
	uint64_t nonce;		/* the sender's incarnation */
	uint64_t to;		/* the incarnation it talks to */
	uint32_t qpn;		/* RC: the queue pair; XRC: the sending one */
	uint32_t rqpn;		/* XRC: the receiving one */
	uint32_t psn;
	int32_t reason;		/* REJ that names no kind: errno; ECONNABORTED: the endpoint has failed */
};

/* ---- memory ------------------------------------------------------------------------------------------------ */

/* Registered memory; from the device's arena where it has one. */
struct hdl_mem {
	struct hdl_mem *next;
	struct hdl_dev *dev;
	char *p;
	size_t bytes;
	struct ibv_mr *mr;
	bool arena;
};

/* Reports that the heap has no bytes for something. Returns -ENOMEM. */
int hdl_no_memory(const char *what, size_t bytes);
int hdl_mem_alloc(struct hdl_dev *dev, size_t bytes, int access, struct hdl_mem *mem);
void hdl_mem_free(struct hdl_mem *mem);
/* Reports that memory could not be registered, with what is allowed and how to change it. Returns -err. */
int hdl_register_failed(const struct hdl_dev *dev, const char *what, uint64_t bytes, int err);

/* Send buffers of one size; grows by chunks up to max. */
struct hdl_txbuf {
	struct hdl_txbuf *next;
	struct hdl_bufpool *pool;
	char *data;
	uint32_t lkey;
	uint32_t refs;
	uint32_t len;			/* UD: bytes of the packet */
	uint32_t reserved;
};
struct hdl_bufpool {
	struct hdl_dev *dev;
	uint32_t size, chunk;		/* bytes of a buffer; buffers of a chunk */
	uint32_t total, max, nfree;
	struct hdl_txbuf *free;
	struct hdl_bufchunk *chunks;
};
/* Room in a bounce buffer for what stands around a payload: terminator and gap, record, header. */
#define HDL_BOUNCE_AROUND (2 * HDL_LINE + HDL_HEAD_BUF)
void hdl_bufpool_init(struct hdl_bufpool *p, struct hdl_dev *dev, uint32_t size, uint32_t chunk, uint32_t max);
void hdl_bufpool_fini(struct hdl_bufpool *p);
int hdl_bufpool_grow(struct hdl_bufpool *p);
static inline struct hdl_txbuf *hdl_txbuf_get(struct hdl_bufpool *p)
{
	if (unlikely(!p->free) && hdl_bufpool_grow(p))
		return NULL;
	struct hdl_txbuf *b = p->free;
	p->free = b->next;
	p->nfree--;
	b->refs = 1;
	return b;
}
static inline void hdl_txbuf_put(struct hdl_txbuf *b)
{
	if (--b->refs)
		return;
	b->next = b->pool->free;
	b->pool->free = b;
	b->pool->nfree++;
}

/* Operations by number: index | generation. Numbers travel in messages, so they are checked. */
struct hdl_idtab {
	struct hdl_identry { void *p; uint32_t gen, next; } *e;
	uint32_t n, free;		/* free: index + 1 of the first free entry */
	uint32_t used;
};
#define HDL_ID_BITS 20
int hdl_id_new(struct hdl_idtab *t, void *p, uint32_t *id);
void *hdl_id_get(const struct hdl_idtab *t, uint32_t id);
void hdl_id_free(struct hdl_idtab *t, uint32_t id);

/* ---- receive pools ----------------------------------------------------------------------------------------- */

struct hdl_rxbuf {
	struct ibv_recv_wr wr;		/* wr_id: this */
	struct ibv_sge sge;
	struct hdl_rxpool *pool;
};
struct hdl_rxpool {
	struct hdl_dev *dev;
	enum hdl_queue queue;		/* what arrives: UD: packets behind a GRH; else struct hdl_wire */
	struct ibv_srq *srq;		/* or qp */
	struct ibv_qp *qp;
	uint32_t size;
	uint32_t posted, total, max;	/* posted counts what was given to the device and not seen again */
	uint32_t first;			/* what it begins with */
	uint32_t limit;			/* armed SRQ limit; 0: none */
	bool short_of;			/* the device said that few are left: grow */
	struct hdl_rxbuf *back;		/* to be posted again, linked by wr.next */
	struct hdl_rxbuf *back_tail;
	uint32_t nback;
	struct hdl_rxchunk *chunks;
};
/* Attaches the pool to an SRQ or a UD QP. It has no receives before hdl_rxpool_start. */
void hdl_rxpool_init(struct hdl_rxpool *p, struct hdl_dev *dev, enum hdl_queue queue, struct ibv_srq *srq,
		    struct ibv_qp *qp, uint32_t size, uint32_t first, uint32_t max);
/* Posts its first receives, if that was not done: before anybody is told how to send to it. */
int hdl_rxpool_start(struct hdl_rxpool *p);
void hdl_rxpool_fini(struct hdl_rxpool *p);	/* after the queue is destroyed */
int hdl_rxpool_flush(struct hdl_rxpool *p);
int hdl_rxpool_grow(struct hdl_rxpool *p, uint32_t n);
/* Receives are posted again so many at a time; half as many of UD's when there is nothing else to do. */
#define HDL_RX_BATCH 16
static inline void hdl_rxbuf_back(struct hdl_rxbuf *b)
{
	struct hdl_rxpool *p = b->pool;

	b->wr.next = NULL;
	if (p->back)
		p->back_tail->wr.next = &b->wr;
	else
		p->back = b;
	p->back_tail = b;
	if (++p->nback >= HDL_RX_BATCH)
		hdl_rxpool_flush(p);
}
int hdl_srq_create(struct hdl_dev *dev);	/* for RC and the DCT */
/* A pool of this depth begins with so many receives: a sender that finds none waits, and makes the pool grow. */
#define HDL_SRQ_FIRST(depth) ((depth) / 16 > 16 ? (depth) / 16 : 16)
/* HEDDLE_SRQ_DEPTH within what is useful and what the device allows for a pool of this kind. */
uint32_t hdl_rx_depth(const struct hdl_dev *dev, enum hdl_queue queue);
uint32_t hdl_srq_bytes(void);		/* of a pooled receive of RC, XRC, DC */

/* ---- send queues ------------------------------------------------------------------------------------------- */

/* What to do when a request is finished. */
enum hdl_slot_type {
	HDL_SLOT_NONE = 0,
	HDL_SLOT_BUF,		/* struct hdl_txbuf: one reference less */
	HDL_SLOT_SEND,		/* struct hdl_send: its buffer was read in place; done */
	HDL_SLOT_RNDV,		/* struct hdl_send: a chunk was written */
	HDL_SLOT_READ,		/* number of a fetch: a chunk was read */
};
struct hdl_slot {
	void *ptr;
	struct hdl_ep *ep;
	uint32_t type;
	uint32_t signaled;	/* 0 or 1 */
};

/* A send completion queue, with room for every request of its send queues (they all complete when flushed). */
struct hdl_scq {
	struct hdl_scq *next;
	struct ibv_cq *cq;
	uint32_t size, used;
	uint32_t pending;	/* signaled requests not seen complete */
};

struct hdl_sq {
	uint32_t head, tail;	/* posted; known to be finished */
	uint32_t mask, depth;	/* depth is a power of two, mask = depth - 1 is how many may be in flight */
	uint32_t signaled;	/* behind the last signaled request */
	uint32_t interval;	/* a request in so many is signaled */
	uint32_t id, max_inline;
	uint8_t queue;		/* enum hdl_queue */
	bool dead;
	struct ibv_qp *qp;
	struct hdl_slot *slot;
	struct hdl_scq *scq;
	char *head_buf;		/* HDL_HEAD_BUF registered bytes per slot, for headers that are gathered */
	uint32_t head_lkey;
	struct hdl_dev *dev;
	struct ibv_qp_ex *qpx;	/* DC */
	struct mlx5dv_qp_ex *mqpx;
	struct hdl_ep *ep;	/* RC, XRC */
	struct hdl_mem head_mem;
	uint64_t requests, bytes;
	uint64_t stalls;	/* no room when wanted */
	uint32_t users;		/* DC: endpoints bound to it */
};
#define HDL_HEAD_BUF 64u

/* Makes slots and takes room in a send CQ; then create the QP on sq->scq->cq and set sq->qp. */
/* The depth of a queue for which this one is wanted. */
uint32_t hdl_sq_depth(uint32_t wanted);
int hdl_sq_init(struct hdl_sq *sq, struct hdl_dev *dev, enum hdl_queue queue, uint32_t depth);
void hdl_sq_fini(struct hdl_sq *sq);	/* destroys the QP, too */
void hdl_sq_reap(struct hdl_scq *scq);
bool hdl_sq_room_slow(struct hdl_sq *sq, uint32_t n);
static inline bool hdl_sq_room(struct hdl_sq *sq, uint32_t n)
{
	return likely(sq->head - sq->tail + n <= sq->mask) || hdl_sq_room_slow(sq, n);
}
/* Posts one request. The caller has made sure of room; wr_id, signaling and addressing are filled in. bytes: of the
 * payload. 0 or a negative errno (reported; the queue is then dead). */
int hdl_sq_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr, enum hdl_slot_type type, void *ptr,
		bool signal, size_t bytes);
static inline char *hdl_sq_head(struct hdl_sq *sq)
{
	return sq->head_buf + (size_t)(sq->head & sq->mask) * HDL_HEAD_BUF;
}
/* A zero-byte request whose completion says that all before it are finished. */
void hdl_sq_flush(struct hdl_sq *sq, struct hdl_ep *ep);

/* ---- devices ----------------------------------------------------------------------------------------------- */

struct hdl_dev {
	struct hdl_port port;
	enum hdl_role role;
	char name[64];
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port_attr;
	struct ibv_pd *root_pd;		/* port.pd is a parent domain of it when the device has thread domains */
	struct ibv_td *td;
	unsigned caps;			/* bit per kind that the device can do */
	unsigned possible;		/* bit per kind that may be selected in this job */
	bool in_order;			/* writes a request's bytes in ascending order */
	bool srq;
	bool arena;			/* shca_alloc works */
	struct ibv_mr *all;		/* the whole address space, to gather from (implicit ODP), or NULL */
	bool all_remote;		/* ... and to be written by peers */
	bool all_read;			/* ... and to be read by them */
	uint32_t max_inline, max_ud;	/* UD: payload of one packet behind hdl_hdr */
	uint32_t max_msg;
	struct ibv_comp_channel *chan;
	struct ibv_cq *rcq;
	uint32_t rcq_unacked;
	struct hdl_scq *scqs;
	struct ibv_srq *basic_srq, *xrc_srq;
	struct hdl_rxpool rx_srq, rx_xrc, rx_ud;
	struct hdl_bufpool bounce, pkt, pkt_small;
	struct hdl_mem zeros;		/* HDL_ZEROS bytes */
	struct hdl_credits *credits;	/* slabs of struct hdl_credit */
	/* UD */
	struct hdl_sq ud;
	struct ibv_send_wr ud_wr;	/* template of a small packet */
	struct ibv_sge ud_sge;
	uint32_t qkey;
	/* XRC */
	struct ibv_xrcd *xrcd;
	uint32_t xrc_srqn;
	/* DC */
	struct ibv_qp *dct;
	uint64_t dc_key;
	struct hdl_sq *dci;
	int ndci;
	struct hdl_addr addr;
};
#define HDL_ZEROS 128u

int hdl_dev_open(struct hdl_dev *dev, const char *name, enum hdl_role role, unsigned allowed);
void hdl_dev_close(struct hdl_dev *dev);
/* Fills ah for a peer's address on this device. */
void hdl_dev_ah(const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, struct ibv_ah_attr *ah);

/* ---- endpoints --------------------------------------------------------------------------------------------- */

/* What a connected lane is made of, and its making: gone cold once it stands. */
struct hdl_conn_queues {
	enum hdl_queue kind;
	struct hdl_sq sq;		/* RC: the QP; XRC: the sending one */
	struct ibv_qp *rqp;		/* XRC: the receiving one */
	uint32_t psn;			/* of what sq sends first */
	bool counted;			/* among hdl_tp.rc_peers */
	uint32_t tries;			/* messages that were sent without an answer */
	uint64_t retry_ns;		/* next time to send it again */
};

struct hdl_ctl {			/* a control message that waits for room */
	struct hdl_ctl *next;
	uint32_t kind, len;
	char body[];
};

enum hdl_rx_ring { HDL_RX_NONE = 0, HDL_RX_OFFERED, HDL_RX_ACTIVE, HDL_RX_REVOKING };

struct hdl_ep {
	/* hot: what a small send reads and writes */
	_Alignas(64) struct hdl_ring_tx tx;
	struct hdl_sq *sq;		/* the connected lane that is ready, or NULL */
	uint16_t tx_seq;
	bool fast;			/* small messages may take the ring right now */
	bool ring;			/* tx is in use */
	bool direct;			/* sq takes ibv_post_send (not DC) */
	bool wake_mode;			/* the peer sleeps: use requests that make a completion, not the ring */
	bool hold;			/* the peer has no room for what comes before its receive: announce it */
	struct hdl_credit *credit;
	size_t ring_max;		/* largest payload that takes the ring */
	size_t now_max;			/* largest one that is copied while it is posted */
	struct ibv_send_wr wr;		/* template of a single-line frame: its payload and its header, inline */
	struct ibv_sge sge[2];
	_Alignas(16) struct hdl_hdr head;
	/* hot: what a small receive reads and writes */
	_Alignas(64) struct hdl_ring_rx rx;
	uint32_t streak;		/* messages from the ring since the last small one to this peer */
	struct hdl_order order;
	int rank;
	uint8_t rx_state;		/* enum hdl_rx_ring */
	bool credit_due;
	bool busy;			/* on hdl_tp.busy */
	bool failed;
	int fail_err;
	/* counters: messages and payload bytes, both ways */
	struct { uint64_t msgs, bytes; } out_ring, out_srq, out_ud, out_rndv, in_ring, in_srq, in_ud, in_rndv;
	/* waiting */
	struct hdl_ep *busy_next;
	struct hdl_send *pend, *pend_tail;
	struct hdl_ctl_list { struct hdl_ctl *head, *tail; } ctl[2];	/* unordered, ordered: neither waits for the other */
	struct hdl_send *rdma_wait, *rdma_wait_tail;	/* CTS is here, no connected lane yet */
	struct hdl_send *stream, *stream_tail;		/* rendezvous over UD or through the ring */
	struct hdl_fetch *reads, *reads_tail;		/* rendezvous that are read, and not asked for in full */
	/* a lane that may delay messages is not empty: limits how far the new one runs ahead (HDL_ORDER_SPAN) */
	bool guard_ud, guard_sq;
	uint16_t guard_seq;
	uint32_t guard_idx;
	/* UD */
	struct hdl_rel *rel;		/* made on first use */
	struct ibv_ah *ah;
	bool rel_timer;			/* on hdl_tp.timers */
	bool ack_list;
	struct hdl_ep *timer_next, *ack_next;
	/* connection */
	struct hdl_conn conn;
	struct hdl_conn_queues *queues;
	struct hdl_addr addr;
	uint64_t nonce;
	struct hdl_proc proc;		/* peers of this host; start 0: others */
	struct hdl_dev *dev;
	uint64_t sent_msgs;		/* for the selection */
	unsigned can;			/* bit per kind: both devices and the configuration */
	/* DC */
	uint32_t dci_last;
	/* ring, receiver's side */
	uint32_t slow_msgs;		/* arrived by other lanes */
	uint64_t rx_mark, rx_rate;	/* traffic since the last look, for taking rings back */
	struct hdl_mem rx_mem;
	uint64_t rx_final;		/* REVOKING: lines that will have been used; UINT64_MAX: not known yet */
	uint64_t peer_credit;		/* address of our struct hdl_credit at the ring's sender */
	uint32_t peer_credit_rkey;
	uint32_t credit_rkey;		/* of ours, at the ring's sender */
	uint64_t *dirty;
	uint32_t rings_out, rings_in;	/* given and got, ever */
	/* what the peer was last told by HOLD, and what it has told us; sends since we looked at what arrives */
	uint32_t hold_told, hold_turn;
	uint32_t unlooked;
	uint64_t looked_sent;
	/* sleep: the turn in which the peer was told, and the one that it confirmed; equal to sleep_turn: in force */
	uint32_t sleep_told, sleep_acked;
};

/* Per peer: this and, for peers that use UD, struct hdl_rel. A job of 100,000 ranks that talks to all multiplies it. */
_Static_assert(sizeof(struct hdl_ep) <= 1024, "an endpoint stays within 1 KiB");
_Static_assert(sizeof(struct hdl_rel) <= 1152, "a reliable stream stays within 1152 bytes");

/* The state of an operation in struct hdl_send.priv and struct hdl_fetch.priv. */
struct hdl_send_op {
	struct ibv_mr *mr;
	uint64_t raddr;
	uint64_t off, total;		/* written so far, to be written */
	uint32_t rkey, rop;
	uint32_t id;
	uint16_t inflight;
	uint8_t unread : 1;	/* pieces were posted that nobody has reported as read */
	uint8_t split : 1;	/* the receiver reads a part */
	uint8_t part_read : 1;	/* and has said that it is done: perhaps before its CTS arrives, they may go by two lanes */
	uint8_t state;
};
_Static_assert(sizeof(struct hdl_send_op) <= sizeof(((struct hdl_send *)0)->priv), "fits");
struct hdl_fetch_op {
	struct ibv_mr *mr;
	uint64_t got;
	/* by RDMA READ */
	uint64_t raddr, off, end;	/* asked for so far, to be asked for */
	uint32_t rkey, sop;		/* the sender's operation */
	uint32_t id;
	uint16_t inflight;
	hdl_tuned tuned;
	uint8_t being_read : 1, being_written : 1;	/* by this side, by the sender */
};
_Static_assert(sizeof(struct hdl_fetch_op) <= sizeof(((struct hdl_fetch *)0)->priv), "fits");
static inline struct hdl_send_op *hdl_send_op(struct hdl_send *s)
{
	return (struct hdl_send_op *)s->priv;
}
static inline struct hdl_fetch_op *hdl_fetch_op(struct hdl_fetch *f)
{
	return (struct hdl_fetch_op *)f->priv;
}

struct hdl_tp {
	struct hdl_ep **eps;		/* by rank */
	int neps;
	struct hdl_ep **rings;		/* endpoints whose ring we read */
	int nrings, rings_cap;
	int rings_given;		/* offered, active or being revoked */
	struct hdl_dev *dev[2];
	int ndev;
	bool inside;			/* in progress: no nesting */
	unsigned turn;
	struct hdl_ep *busy;
	struct hdl_ep *timers;		/* UD streams that may have packets in flight */
	struct hdl_ep *acks;		/* UD streams that owe an acknowledgement */
	uint32_t ack_idle;		/* empty turns since one was owed */
	uint32_t connecting;		/* endpoints for which hdl_conn_waits */
	uint64_t next_timer_ns;
	struct { void *p; int err; enum hdl_done_what { HDL_DONE_SEND, HDL_DONE_FETCH, HDL_DONE_READ, HDL_DONE_PEER } what; } *done;
	uint32_t ndone, done_cap;
	void *zc_probe;			/* a send whose completion is looked for at once */
	bool zc_done;
	struct hdl_idtab sends, fetches;
	struct hdl_tune tune;
	unsigned ways;			/* bits of enum hdl_way: HEDDLE_RENDEZVOUS */
	struct hdl_sq **sqs;		/* by sq->id */
	uint32_t nsqs, sqs_cap;
	struct { hdl_progress_fn fn; void *arg; } *extra;
	int nextra;
	struct hdl_upcalls up;
	unsigned allowed;
	uint64_t nonce;
	int rc_peers;
	size_t ring_max;		/* largest payload of a frame, whatever the ring */
	int ppn;			/* ranks per node, at most */
	bool leaving;			/* all that is to come is that the peers end */
	bool closing;
	uint32_t sleep_turn;
	int wake_fd;			/* hdl_tp_wake makes it readable, on devices that cannot be told to wake us */
	void (*arm)(void);		/* an executor's: before each sleep */
	uint64_t rng;
	uint64_t sleeps, refused, stale;
	uint64_t looked_ns;		/* last look at the rings' traffic */
	uint64_t offload_requests, offload_bytes;	/* hdl_tp_count_rc */
	uint64_t alive_ns;		/* next look at peers' processes */
	int alive_next;			/* ... and where it begins */
};
extern struct hdl_tp hdl_tp;

#define HDL_TIMER_TURNS 1024u		/* turns of progress between two looks at the clock */
#define HDL_UNLOOKED_MAX 32	/* sends by slow lanes, waiting ones too, between two looks at what arrives: a peer may ask us to hold */

/* ---- ep.c ----- */
struct hdl_ep *hdl_ep_make(int rank);
/* One arrived message of a slow lane or ring. */
void hdl_ep_dispatch(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, enum hdl_queue lane);
/* Sends a control message, at once or when there is room. ordered: behind what was posted to the connected lane. */
void hdl_ep_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered);
void hdl_ep_busy(struct hdl_ep *ep);
/* Tries what waits. True: something still waits. */
bool hdl_ep_drain(struct hdl_ep *ep, int *events);
void hdl_ep_refresh(struct hdl_ep *ep);		/* recomputes ep->fast */
void hdl_ep_fail(struct hdl_ep *ep, int err);
void hdl_ep_drop_ctl(struct hdl_ep *ep);	/* control messages that wait */
void hdl_done_send(struct hdl_send *send, int err);
void hdl_done_fetch(struct hdl_fetch *fetch, int err);
void hdl_done_read(uint32_t id);
void hdl_done_run(void);
int hdl_ring_poll(struct hdl_ep *ep, int max);

/* The kind for the peer now, of those allowed. rc_peers: RC connections that this process has with others. */
enum hdl_queue hdl_ep_select(const struct hdl_ep *ep, unsigned allowed, bool rdma, int rc_peers);
/* Makes a connected lane whatever the traffic. 0: it stands or is being made; negative: there can be none. */
int hdl_ep_connect(struct hdl_ep *ep);
/* Whether any connected kind is possible with this peer. */
bool hdl_ep_can_rdma(const struct hdl_ep *ep);
/* ---- post.c ----- */
/* Who learns that the payload was read, when it is not copied. */
enum hdl_in_place {
	HDL_IN_PLACE_NO,		/* nobody: copy it */
	HDL_IN_PLACE_DONE,		/* send->done */
	HDL_IN_PLACE_MORE,		/* nobody yet: a later request of the same message tells */
	HDL_IN_PLACE_LAST,		/* that later request, if it is not copied: hdl_rndv_chunk_done */
	HDL_IN_PLACE_FENCE,		/* that later request, copied or not, for there were earlier ones */
};

/* A frame of one line, where ep->fast holds and hdl_ring_plain_ready. Returns 1, or a negative errno: the endpoint failed. */
int hdl_ep_put_line(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len);
/* Puts a message into the connected lane's pooled receives. body: two pieces. -EAGAIN: no room. */
int hdl_ep_post_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len, struct hdl_send *send);
/* A frame whose payload is buf and then `tail`, which is NULL or a struct hdl_data_rec. 1: copied, 0: in flight,
 * -EAGAIN: no room. */
int hdl_post_ring(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_data_rec *tail,
		  struct hdl_send *send, enum hdl_in_place in_place);
/* Whether a rendezvous may go through the ring piece by piece, both processors copying at once: where the ring is
 * memory that both reach by loads and stores, and the users' is not. */
bool hdl_ep_can_stage(const struct hdl_ep *ep);
/* Bytes of the next piece of a message that goes by pieces, by whatever lane is best now. */
uint32_t hdl_ep_piece(const struct hdl_ep *ep);
/* Sends one. 1: copied, 0: in flight (after the last one hdl_rndv_chunk_done follows), negative errno. unread: earlier
 * pieces are in flight, and only the last one can tell that they were read. */
int hdl_ep_stage(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t n, struct hdl_send *send,
		 bool last, bool unread);

/* ---- rings.c ----- */
void hdl_ring_give_credit(struct hdl_ep *ep);
void hdl_rings_look(void);
void hdl_ring_consider(struct hdl_ep *ep);
/* Lines of a ring that is given to a peer; below HDL_RING_LINES_MIN none is. */
uint32_t hdl_ring_share(void);
#define HDL_RING_LINES_MIN 8
void hdl_ring_on_offer(struct hdl_ep *ep, const struct hdl_ring_offer *m);
void hdl_ring_on_accept(struct hdl_ep *ep, const struct hdl_ring_accept *m);
void hdl_ring_on_revoke(struct hdl_ep *ep);
void hdl_ring_on_released(struct hdl_ep *ep, const struct hdl_ring_released *m);
void hdl_ring_check_final(struct hdl_ep *ep);
void hdl_ring_drop(struct hdl_ep *ep);
int hdl_credit_get(struct hdl_dev *dev, struct hdl_credit **credit, uint32_t *rkey);
void hdl_credits_fini(struct hdl_dev *dev);

/* ---- rndv.c ----- */
int hdl_rndv_announce(struct hdl_ep *ep, struct hdl_send *send, struct hdl_rts_rec *rec);
void hdl_rndv_on_cts(struct hdl_ep *ep, const struct hdl_cts *cts);
void hdl_rndv_on_fin(struct hdl_ep *ep, const struct hdl_fin *fin);
/* Whether the send waits for its receiver to match: under which number. */
bool hdl_rndv_announced(struct hdl_send *s, uint32_t *number);
void hdl_rndv_on_refused(struct hdl_ep *ep, const struct hdl_fin *fin);
void hdl_rndv_on_written(struct hdl_ep *ep, const struct hdl_fin *fin);
/* One chunk of a fetch was read; all were (from hdl_done_run). */
void hdl_rndv_read_done(uint32_t id, int err);
void hdl_rndv_read_all(uint32_t id);
/* Asks for the next part of what is to be read, and counts that as an event. True: there is more. */
bool hdl_rndv_read(struct hdl_ep *ep, int *events);
void hdl_rndv_on_data(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t len);
void hdl_rndv_on_imm(uint32_t imm, uint32_t len);
void hdl_rndv_chunk_done(struct hdl_send *send, int err);
/* Writes what can be written. True: more waits for room. */
bool hdl_rndv_push(struct hdl_ep *ep);
bool hdl_rndv_stream(struct hdl_ep *ep);
void hdl_rndv_fail_peer(struct hdl_ep *ep, int err);

/* ---- the kinds ----- */
int hdl_rc_caps(struct hdl_dev *dev);		/* probes: inline limit, in-order writes */
int hdl_rc_create(struct hdl_ep *ep, struct hdl_conn_queues *c);
int hdl_qp_init(struct ibv_qp *qp, const struct hdl_port *port, int access);
int hdl_qp_rtr(struct ibv_qp *qp, const struct hdl_dev *dev, const struct hdl_addr *addr, uint32_t qpn, uint32_t psn);
int hdl_qp_rts(struct ibv_qp *qp, uint32_t psn);
int hdl_xrc_open(struct hdl_dev *dev);
void hdl_xrc_close(struct hdl_dev *dev);
int hdl_xrc_create(struct hdl_ep *ep, struct hdl_conn_queues *c);
int hdl_dc_open(struct hdl_dev *dev);
void hdl_dc_close(struct hdl_dev *dev);
bool hdl_dc_probe(struct hdl_dev *dev);
/* Binds the endpoint to a DCI; 0 or -EAGAIN. */
int hdl_dc_bind(struct hdl_ep *ep);
int hdl_dc_post(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr);
int hdl_ud_open(struct hdl_dev *dev);
void hdl_ud_close(struct hdl_dev *dev);
/* Sends one packet of the reliable stream: hdr, then two pieces. -EAGAIN: no room. */
int hdl_ud_send(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *a, uint32_t an, const void *b, uint32_t bn);
/* hdl_ep_send_now where there is nothing but UD: 1: sent; 0: not this way, or not now. */
int hdl_ud_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len);
/* Sends a datagram without reliability. */
int hdl_ud_raw(struct hdl_ep *ep, enum hdl_ud_type type, const void *body, uint32_t len);
void hdl_ud_arrived(struct hdl_dev *dev, const void *packet, uint32_t len);
void hdl_ud_acks(void);
int hdl_ep_ah(struct hdl_ep *ep);	/* makes ep->ah */
uint64_t hdl_ud_timers(uint64_t now);
void hdl_ud_drop_peer(struct hdl_ep *ep);

/* ---- wireup.c ----- */
int hdl_wire_publish(void);
int hdl_wire_lookup(struct hdl_ep *ep);
/* Asks for a connected lane, if there is none and none is being made. 0: it is being made or stands; negative: cannot.
 */
int hdl_wire_connect(struct hdl_ep *ep, enum hdl_queue queue);
void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m);
void hdl_wire_on_rtu(struct hdl_ep *ep, uint32_t number);
/* A message has come by a connected lane from a peer to which there is none. */
void hdl_wire_heard(struct hdl_ep *ep);
/* The endpoint has failed, and so its connection. */
void hdl_wire_failed(struct hdl_ep *ep);
/* ... tells the peer. */
void hdl_wire_tell(struct hdl_ep *ep);
uint64_t hdl_wire_timers(uint64_t now);
void hdl_wire_close(struct hdl_ep *ep);

/* ---- progress.c ----- */
void hdl_tp_async(struct hdl_dev *dev);
void hdl_tp_reap(void);		/* looks at every send CQ, whether or not anything is expected there */
void hdl_tp_timers(uint64_t now);
int hdl_tp_poll_rcq(struct hdl_dev *dev);
/* Takes in what has arrived, and ends no operation of its own: for senders that never wait, in the middle of a send. */
void hdl_tp_take_in(void);

/* ---- alive.c ----- */
/* The peer has not acknowledged packets and given no sign of life for this long: it fails if it is dead, or if nobody can
 * know and HEDDLE_UD_TIMEOUT is over. True: it has failed. */
bool hdl_peer_is_silent(struct hdl_ep *ep, uint64_t silence_ns);
/* Looks, now and then, at the processes of peers whose death no queue would report. Returns when to call again at the latest
 * (0: there are none). */
uint64_t hdl_peers_look(uint64_t now);

/* ---- idle.c ----- */
void hdl_idle_on_sleep(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
void hdl_idle_on_sleep_ack(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
/* The peer's messages come by slow lanes because it was told that we sleep; enough of them: tell it that we do not. */
void hdl_idle_awake(struct hdl_ep *ep);

/* ---- report.c ----- */
void hdl_report_transports(FILE *out);
void hdl_report_wc(const struct hdl_sq *sq, const struct hdl_ep *ep, const struct ibv_wc *wc);

#endif
