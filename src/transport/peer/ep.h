/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: endpoints, the send path and what arrives. */
#ifndef HDL_TP_EP_H
#define HDL_TP_EP_H

#include "lines/pace.h"
#include "transport/connect/conn.h"
#include "transport/core/dev.h"
#include "transport/peer/order.h"
#include "transport/queue/srq_credit.h"
#include "transport/lanes/rel.h"

struct hdl_tp;

/* What a connected lane is made of, and its making: gone cold once it stands. */
struct hdl_conn_queues {
	const struct hdl_tp_kind *kind;
	struct hdl_sq sq;
	uint32_t psn;			/* of what sq sends first */
	bool counted;			/* among tp->rc_peers */
	uint32_t tries;			/* messages that were sent without an answer */
	uint64_t retry_ns;		/* next time to send it again */
	/* queues that break and are replaced */
	bool away;			/* the lane is not used, until UP: hdl_ep_away */
	bool stopped;			/* nothing comes or goes by the queues, until they are renewed */
	uint32_t messages;		/* that came in pooled receives since the queues were made or renewed */
	uint32_t taken_messages, taken_ring;	/* stopped: what had come by the queues, as the peer is told */
	uint64_t taken_lines;
	struct ibv_wc why;		/* of the request by which it was noticed here, ... */
	int event;			/* ... or an asynchronous event, ... */
	uint64_t since_ns;		/* ... or a proposal of the peer's, and when */
	struct hdl_conn_msg asked;	/* that proposal, while is_asked: it is looked at between turns */
	bool is_asked;
};

struct hdl_ctl {			/* a control message that waits for room */
	struct hdl_ctl *next;
	uint32_t kind, len;
	char body[];
};

/* LOST: the endpoint has failed, and the peer may write into the ring all the same. */
enum hdl_rx_ring { HDL_RX_NONE = 0, HDL_RX_OFFERED, HDL_RX_ACTIVE, HDL_RX_REVOKING, HDL_RX_LOST };

struct hdl_ep {
	/* hot: what a small send reads and writes */
	_Alignas(64) struct hdl_ring_tx tx;
	struct hdl_sq *sq;		/* the connected lane that is ready, or NULL */
	uint16_t tx_seq;
	bool fast;			/* small messages may take the ring right now */
	bool ring;			/* tx is in use */
	bool direct;			/* sq takes ibv_post_send */
	bool wake_mode;			/* the peer sleeps: use requests that make a completion, not the ring */
	bool hold;			/* the peer has no room for what comes before its receive: announce it */
	struct hdl_credit *credit;
	uint32_t ring_max;		/* largest payload that takes the ring */
	uint32_t ring_most;		/* the same, while copies to the peer are quick: the payload is one run then */
	uint32_t now_max;		/* largest one that is copied while it is posted */
	struct lines_pace pace;		/* of copies into the ring beyond HEDDLE_EAGER_MAX */
	struct ibv_send_wr wr;		/* template of a single-line frame: its payload and its header, inline */
	struct ibv_sge sge[2];
	_Alignas(16) struct hdl_hdr head;
	/* cold, where there is room before the next line */
	struct hdl_ep_note note;
	uint32_t id;			/* its place in tp->peers: what it calls itself in messages to us */
	uint32_t theirs;		/* our id there; HDL_NAMED: not known yet */
	uint32_t src;			/* what messages to it say: `theirs`, with HDL_TELLS until it has heard its id */
	bool told_id;			/* by HDL_CTL_ID */
	bool left;			/* by HDL_CTL_LEAVE: its end is no error */
	uint16_t answered;		/* of in_ring.msgs, when the last message beyond HEDDLE_EAGER_MAX that fits the ring was sent */
	struct hdl_srq_credit *pooled;	/* credits, made on first use of pooled receives */
	/* hot: what a small receive reads and writes */
	_Alignas(64) struct hdl_ring_rx rx;
	uint32_t streak;		/* messages from the ring since the last small one to this peer */
	int rank;			/* the process's number (runtime/jobs.h): of this job's its rank */
	struct hdl_tp *tp;		/* whose peer it is */
	struct hdl_order order;
	uint8_t rx_state;		/* enum hdl_rx_ring */
	bool credit_due;
	bool busy;			/* on tp->busy */
	bool failed;
	int fail_err;
	/* counters: messages and payload bytes, both ways */
	struct hdl_count { uint64_t msgs, bytes; } out_ring, out_srq, out_ud, out_rndv, in_ring, in_srq, in_ud, in_rndv;
	/* waiting */
	struct hdl_ep *busy_next;
	struct hdl_send *pend, *pend_tail;
	struct hdl_ctl_list { struct hdl_ctl *head, *tail; } ctl[2];	/* unordered, ordered: neither waits for the other */
	struct hdl_send *rdma_wait, *rdma_wait_tail;	/* CTS is here, no connected lane yet */
	struct hdl_send *stream, *stream_tail;		/* rendezvous over UD or through the ring */
	struct hdl_fetch *reads, *reads_tail;		/* rendezvous that are read, and not asked for in full */
	/* a lane that may delay messages is not empty: limits how far the new one runs ahead (HDL_ORDER_SPAN) */
	bool reorder_guard_ud, reorder_guard_sq;
	uint16_t reorder_guard_seq;
	uint32_t reorder_guard_idx;
	/* UD */
	struct hdl_rel *rel;		/* made on first use */
	struct ibv_ah *ah;
	struct hdl_ud_parts *parts;	/* of a message in several packets, what has come; or NULL */
	uint32_t refused, refused_una;	/* requests that the device has refused in a row, while rel->una was so */
	uint32_t refused_ms;		/* ... the last one, when */
	bool rel_timer;			/* on tp->timers */
	bool ack_list;
	uint16_t active;		/* period in which the peer was last counted among those that send much by UD */
	struct hdl_ep *timer_next, *ack_next;
	/* connection */
	struct hdl_conn conn;
	struct hdl_conn_queues *queues;
	struct hdl_addr addr;
	struct hdl_name name;
	struct hdl_proc proc;		/* peers of this host; start 0: others */
	char *host;			/* peers of other hosts: its name; or NULL */
	uint64_t heard;			/* what had come from the peer at the last look, ... */
	union {
		uint64_t heard_ns;	/* ... and when that was more than before */
		uint64_t tell_ns;	/* failed: when the peer is told next */
	};
	struct hdl_dev *dev;
	uint64_t sent_msgs;		/* for the selection */
	unsigned can;			/* bit per kind: both devices and the configuration */
	/* DC */
	uint32_t dci_last;
	/* ring, receiver's side */
	uint32_t slow_msgs;		/* arrived by other lanes */
	uint16_t unlooked;		/* sends since we looked at what arrives; looked_sent, of the ring's lines */
	uint8_t tells;			/* failed: so often the peer is told at most, as long as it does not say so, too */
	bool told_failed;		/* it has said so */
	uint64_t rx_mark, rx_rate;	/* traffic since the last look, for taking rings back */
	struct hdl_mem rx_mem;
	uint64_t rx_final;		/* REVOKING: lines that will have been used; UINT64_MAX: not known yet */
	uint64_t peer_credit;		/* address of our struct hdl_credit at the ring's sender */
	uint32_t peer_credit_rkey;
	uint32_t credit_rkey;		/* of ours, at the ring's sender */
	uint64_t *dirty;
	uint32_t rings_out, rings_in;	/* given and got, ever */
	/* what the peer was last told by HOLD, and what it has told us */
	uint32_t hold_told, hold_turn;
	uint64_t looked_sent;
	/* sleep: the turn in which the peer was told, and the one that it confirmed; equal to sleep_turn: in force */
	uint32_t sleep_told, sleep_acked;
};

/* Per peer: this and, for peers that use UD, struct hdl_rel. A job of 100,000 ranks that talks to all multiplies it. */
_Static_assert(sizeof(struct hdl_ep) <= 1024, "an endpoint stays within 1 KiB");
_Static_assert(sizeof(struct hdl_rel) <= 1240, "a reliable stream stays within 1240 bytes");

/* Its queues are being replaced: what is for them waits. */
static inline bool hdl_ep_away(const struct hdl_ep *ep)
{
	return ep->queues && ep->queues->away;
}

/* Nothing has gone to the peer, or come from it, ever: only its process was looked up. One of another job does not know of this one. */
static inline bool hdl_ep_is_unused(const struct hdl_ep *ep)
{
	return ep->conn.state == HDL_CONN_NONE && !ep->rel;
}

/* ---- ep.c ----- */
struct hdl_ep *hdl_ep_make(struct hdl_tp *tp, int proc);
/* How many may share a receiver's pool with this process, as both see it before they have heard of each other. */
uint32_t hdl_ep_others(const struct hdl_ep *ep);
/* Those that both devices and the configuration have; none is reported. */
unsigned hdl_ep_kinds(const struct hdl_ep *ep);
/* Whom a message with HDL_TELLS is from; name: struct hdl_name, wherever it lies. NULL: nobody who is known here, or another
 * life of a rank. Without HDL_TELLS: hdl_ep_by_id. */
struct hdl_ep *hdl_ep_on_ctl(struct hdl_tp *tp, uint32_t src, const void *name);
/* hdl_am_send, of a send that is filled in: returns what that does. */
int hdl_ep_send_am(struct hdl_ep *ep, struct hdl_am_send *am);
/* What goes with a message if ep->src has HDL_TELLS. */
void hdl_ep_name(const struct hdl_ep *ep, void *name);
/* One arrived message of a lane that is no ring. in: what counts those of this lane. */
void hdl_ep_dispatch(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in);
/* Sends a control message, at once or when there is room. ordered: behind what was posted to the connected lane. */
void hdl_ep_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered);
void hdl_ep_busy(struct hdl_ep *ep);
/* Tries what waits. True: something still waits. */
bool hdl_ep_drain(struct hdl_ep *ep, int *events);
void hdl_ep_refresh(struct hdl_ep *ep);		/* recomputes ep->fast */
/* The endpoint is used no more. What it owns ends with this error in the same turn of progress, or the next: not here, which
 * may be in the middle of a post or of taking completions. */
void hdl_ep_fail(struct hdl_ep *ep, int err);
void hdl_ep_drop_ctl(struct hdl_ep *ep);	/* control messages that wait */
void hdl_done_send(struct hdl_send *send, int err);
void hdl_done_fetch(struct hdl_fetch *fetch, int err);
void hdl_done_read(struct hdl_tp *tp, uint32_t id);
void hdl_done_rma(struct hdl_rma *op, int err);
void hdl_done_broke(struct hdl_ep *ep);		/* hdl_wire_replace follows, where queues may be stopped */
void hdl_done_reset(struct hdl_sq *sq);		/* hdl_sq_reset follows, where requests may be posted */
void hdl_done_forget(struct hdl_tp *tp, const struct hdl_sq *sq);	/* ... and does not: it is no more */
void hdl_done_run(struct hdl_tp *tp);
int hdl_ring_poll(struct hdl_ep *ep, int max);

/* The kind for the peer now, of those allowed. rc_peers: RC connections that this process has with others. */
enum hdl_queue hdl_ep_select(const struct hdl_ep *ep, unsigned allowed, bool rdma, int rc_peers);
/* Makes a connected lane whatever the traffic. 0: it stands or is being made; negative: there can be none. */
int hdl_ep_connect(struct hdl_ep *ep);
/* Whether any connected kind is possible with this peer. */
bool hdl_ep_can_rdma(const struct hdl_ep *ep);
/* Its credits for pooled receives, which are made if need be. NULL: out of memory, and the endpoint fails. */
struct hdl_srq_credit *hdl_ep_srq_credit(struct hdl_ep *ep, const struct hdl_rxpool *pool);
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
/* Puts a message into the connected lane's pooled receives. body: NULL if it is packed (send->pack). -EAGAIN: no room. */
int hdl_ep_post_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len, struct hdl_send *send);
/* The first message on a connection, for which there is always room. */
int hdl_ep_post_rtu(struct hdl_ep *ep, const struct hdl_hdr *hdr);
/* A frame whose payload is buf and then `tail`, which is NULL or a struct hdl_data_rec. 1: copied, 0: in flight,
 * -EAGAIN: no room. */
int hdl_post_ring(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_data_rec *tail,
		  struct hdl_send *send, enum hdl_in_place in_place);
/* Whether a rendezvous may go through the ring piece by piece, both processors copying at once: where the ring is
 * memory that both reach by loads and stores, and the users' is not. */
bool hdl_ep_can_stage(const struct hdl_ep *ep);
/* Bytes of the next piece of a message that goes by pieces, by whatever lane is best now. runs: they are packed. */
uint32_t hdl_ep_piece(const struct hdl_ep *ep, bool runs);
/* Sends one; data: NULL if it is packed (send->pack). 1: copied, 0: in flight (after the last one hdl_rndv_chunk_done follows),
 * negative errno. unread: earlier pieces are in flight, and only the last one can tell that they were read. */
int hdl_ep_stage(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t n, struct hdl_send *send,
		 bool last, bool unread);

#endif
