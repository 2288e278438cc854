/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: one peer as an instance sees it; the send path. */
#ifndef HDL_TP_EP_H
#define HDL_TP_EP_H

#include "runtime/jobs.h"
#include "transport/connect/conn.h"
#include "transport/core/dev.h"
#include "transport/peer/order.h"
#include "transport/queue/srq_credit.h"
#include "transport/lanes/rel.h"

struct hdl_tp;

/* Queues and handshake of a connected lane; not used on the send path once the lane is up. */
struct hdl_conn_queues {
	const struct hdl_tp_kind *kind;
	struct hdl_sq sq;
	uint32_t psn;			/* packet sequence number of the first request of sq */
	bool counted;			/* among tp->rc_peers */
	uint32_t tries;			/* messages sent without an answer */
	uint64_t retry_ns;		/* when the message is sent again */
	/* queues that break and are replaced */
	bool replaced;			/* the lane is not used until HDL_CONN_UP: hdl_ep_replaced */
	bool stopped;			/* no message is sent or received by the queues until the queues are renewed */
	uint32_t messages;		/* that came in pooled receives since the queues were made or renewed */
	/* stopped: messages and lines that had come by the queues, as REQ and REP report it (struct hdl_conn_msg) */
	uint32_t taken_messages, taken_ring;
	uint64_t taken_lines;
	/* why they broke: a completion, an asynchronous event (enum ibv_event_type), or, if both are 0, the peer's proposal */
	struct ibv_wc why;
	int event;
	uint64_t since_ns;		/* time at which the queues were stopped */
	struct hdl_conn_msg proposal;	/* has_proposal: the peer's proposal to replace them, which replace_queues answers */
	bool has_proposal;
};

struct hdl_ctl {			/* a control message that waits for room */
	struct hdl_ctl *next;
	uint32_t kind, len;
	char body[];
};

/*
 * The ring that this process gives to a peer (lanes/ring_offer.c):
 *
 *     NONE ── OFFER sent ──▶ OFFERED ── ACCEPT ──▶ ACTIVE ── REVOKE sent ──▶ REVOKING ── RELEASED, all read ──▶ NONE
 *                                                    │                          │
 *                                                    └───── endpoint failed ────┴──▶ LOST: the peer may still write
 *
 * The ring is polled from ACTIVE on.
 */
enum hdl_rx_ring { HDL_RX_NONE = 0, HDL_RX_OFFERED, HDL_RX_ACTIVE, HDL_RX_REVOKING, HDL_RX_LOST };

/* Runs in hdl_done_run. */
typedef void (*hdl_done_fn)(struct hdl_tp *tp, void *p, int err);

struct hdl_ep {
	/* hot: read and written by a small send */
	_Alignas(64) struct hdl_ring_tx tx;
	struct hdl_sq *sq;		/* the connected lane's, when that is ready; or NULL */
	uint16_t tx_seq;
	bool fast;			/* a small message may take the ring now: hdl_ep_refresh */
	bool ring;			/* tx is in use */
	bool plain_post;		/* sq takes ibv_post_send: its kind has no `post` */
	bool wake_mode;			/* the peer sleeps: use requests that make a completion, not the ring */
	uint8_t eager_off;		/* enum hdl_eager_off: the peer's back-pressure, by HDL_CTL_HOLD */
	uint8_t cores;			/* cold: of the peer's job, as in struct hdl_addr_head, at most UINT8_MAX */
	struct hdl_credit *ring_credit;	/* where the peer reports how many lines of tx were read */
	uint32_t ring_max;		/* largest payload that takes the ring */
	uint32_t ring_most;		/* the same while copies to the peer are quick: the payload is one run then */
	uint32_t now_max;		/* largest payload of hdl_ep_send_now: the device copies the payload during the post */
	uint32_t ring_tune;		/* id of the controller of messages longer than ring_max (HDL_TUNE_RING); 0: none yet */
	struct ibv_send_wr wr;		/* template of a single-line frame: its payload and its header, inline */
	struct ibv_sge sge[2];
	_Alignas(16) struct hdl_hdr head;
	/* cold, in the rest of the line */
	struct hdl_ep_note note;
	uint32_t id;			/* index in tp->peers: the peer's `src` in messages to this process */
	uint32_t id_there;		/* this process's id at the peer; HDL_NAMED: not known yet */
	uint32_t src;			/* `src` of messages to the peer: id_there, with HDL_TELLS until the peer knows `id` */
	bool id_sent;			/* HDL_CTL_ID was sent */
	bool departed : 1;		/* HDL_CTL_LEAVE has come, or the peer is gone when hdl_ep_may_end: no error */
	bool stays : 1;			/* HDL_CTL_STAY has come */
	bool same_kernel : 1;		/* the peer runs under this process's kernel: hdl_host_id */
	bool oversubscribed : 1;	/* the peer's job, as in struct hdl_addr_head */
	uint16_t answered;		/* low bits of in_ring.msgs when the last message beyond HEDDLE_EAGER_MAX that fits the
					 * ring was sent */
	struct hdl_srq_credit *srq_credit;	/* credits for pooled receives, made on first use */
	/* hot: read and written by a small receive */
	_Alignas(64) struct hdl_ring_rx rx;
	uint32_t streak;		/* messages from the ring since the last small one to this peer */
	int rank;			/* the process's number (runtime/jobs.h): of this job's its rank */
	struct hdl_tp *tp;
	struct hdl_order order;
	uint8_t rx_state;		/* enum hdl_rx_ring */
	bool credit_owed;		/* lines read of rx are to be reported, when the send queue has room */
	bool busy;			/* on tp->busy */
	bool failed;
	union {
		int fail_err;		/* failed: negative errno */
		uint32_t ended_at;	/* not failed: 1 + tp->clock_turns at the first detection of the process's end; 0: not
					 * detected */
	};
	/* counters: messages and payload bytes, both ways */
	struct hdl_count { uint64_t msgs, bytes; } out_ring, out_srq, out_ud, out_rndv, in_ring, in_srq, in_ud, in_rndv;
	/* waiting for room: hdl_ep_drain */
	struct hdl_ep *busy_next;
	struct hdl_send *pend, *pend_tail;		/* messages, in their order */
	struct hdl_ctl_list { struct hdl_ctl *head, *tail; } ctl[2];	/* unordered, ordered: neither waits for the other */
	struct hdl_send *rdma_wait, *rdma_wait_tail;	/* CTS has come, and there is no connected lane yet */
	struct hdl_send *stream, *stream_tail;		/* rendezvous over UD or through the ring */
	struct hdl_fetch *reads, *reads_tail;		/* rendezvous by RDMA READ of which chunks are to be posted */
	/* Reorder guard (HDL_ORDER_SPAN): set while a lane that may delay messages, UD or pooled receives, is not empty: the
	 * other lanes may run ahead of that lane by so many messages only. seq: tx_seq when the guard was set; idx: the last
	 * request of sq that may be delayed. */
	bool reorder_guard_ud, reorder_guard_sq;
	uint16_t reorder_guard_seq;
	uint32_t reorder_guard_idx;
	/* UD */
	struct hdl_rel *rel;		/* made on first use */
	struct ibv_ah *ah;
	struct hdl_ud_parts *parts;	/* packets received of a message in several packets; or NULL */
	uint32_t refused, refused_una;	/* requests that the device has refused in a row, and rel->una during them */
	uint32_t refused_ms;		/* when the last of them was */
	bool rel_timer;			/* on tp->timers */
	bool ack_list;			/* on tp->acks */
	uint16_t active;		/* period of the pool in which the peer was last counted as sending much by UD */
	struct hdl_ep *timer_next, *ack_next;
	/* connection */
	struct hdl_conn conn;
	struct hdl_conn_queues *queues;	/* NULL: none, or a lane that is had by address */
	struct hdl_addr addr;
	struct hdl_name name;
	struct hdl_proc proc;		/* peers of this host; start 0: a peer of another host */
	char *host;			/* name of the peer's host, if another one; or NULL */
	uint64_t msgs_seen;		/* messages that had come when alive.c last looked */
	union {
		uint64_t msgs_seen_ns;	/* when that number last grew, or the peer was probed */
		uint64_t announce_ns;	/* failed: when REJ is sent next */
	};
	struct hdl_dev *dev;
	uint64_t sent_msgs;		/* for the selection */
	unsigned can;			/* bit per kind: both devices and the configuration */
	/* DC */
	uint32_t dci_last;		/* number of the last request at its initiator */
	/* ring, receiver's side */
	uint32_t slow_msgs;		/* messages that came by other lanes */
	uint16_t sends_unpolled;	/* sends by other lanes than the ring since this process last polled for arrivals */
	uint8_t announces;		/* failed: how many more REJ are sent at most, until the peer sends its own */
	bool peer_failed;		/* the peer has sent REJ: its endpoint of this process has failed */
	uint64_t rx_mark, rx_rate;	/* rx.consumed at the last hdl_rings_look, lines of the period before: silent rings are
					 * revoked */
	struct hdl_mem rx_mem;
	uint64_t rx_final;		/* REVOKING: lines that will have been used; UINT64_MAX: not known yet */
	uint64_t peer_credit;		/* address of this process's struct hdl_credit at the ring's sender */
	uint32_t peer_credit_rkey;
	uint32_t credit_rkey;		/* of ring_credit */
	uint64_t *dirty;		/* tx.dirty's memory */
	uint32_t rings_out, rings_in;	/* rings given, rings got, ever */
	uint32_t eager_off_sent, eager_off_turn;	/* turn of the last HDL_CTL_HOLD sent to the peer; of the latest
							 * received */
	uint64_t polled_sent;		/* tx.sent when this process last polled in the middle of sends by the ring */
	/* turn of the HDL_CTL_SLEEP sent to the peer, and of the last one that the peer acknowledged: equal: in force; 0: none */
	uint32_t sleep_sent, sleep_acked;
};

/* Per peer: struct hdl_ep and, for peers that use UD, struct hdl_rel. A job of 100,000 ranks that talks to all multiplies
 * both. */
_Static_assert(sizeof(struct hdl_ep) <= 1024, "an endpoint stays within 1 KiB");
_Static_assert(sizeof(struct hdl_rel) <= 1240, "a reliable stream stays within 1240 bytes");

/* Returns true while the peer's queues are being replaced: requests for them wait. */
static inline bool hdl_ep_replaced(const struct hdl_ep *ep)
{
	return ep->queues && ep->queues->replaced;
}

/* Returns true if no message was ever sent to the peer or received from the peer: then a process of another job does not know of
 * this one. */
static inline bool hdl_ep_is_unused(const struct hdl_ep *ep)
{
	return ep->conn.state == HDL_CONN_NONE && !ep->rel;
}

/* ---- ep.c ----- */
/* Makes the endpoint of a process. NULL with errno, reported. */
struct hdl_ep *hdl_ep_make(struct hdl_tp *tp, int proc);
/* Returns the number of processes that may share a receiver's pool with this one, as both ends compute it before their first
 * exchange. */
uint32_t hdl_ep_others(const struct hdl_ep *ep);
/* The endpoint of a message with HDL_TELLS, whose struct hdl_name is at `name` (any alignment). NULL: an unknown process, or
 * another incarnation of a rank. Without HDL_TELLS: hdl_ep_by_id. */
struct hdl_ep *hdl_ep_on_ctl(struct hdl_tp *tp, uint32_t src, const void *name);
/* Writes the struct hdl_name that goes with a message if ep->src has HDL_TELLS. */
void hdl_ep_name(const struct hdl_ep *ep, void *name);
/* Puts the endpoint on tp->busy: hdl_ep_drain runs in the next turn. */
void hdl_ep_busy(struct hdl_ep *ep);
/* Recomputes fast and now_max. Must follow each change of their inputs. */
void hdl_ep_refresh(struct hdl_ep *ep);
/* The endpoint is used no more. Its operations end with err (negative errno) in the same turn of progress or the next: the
 * caller may be in the middle of a post or of completions. */
void hdl_ep_fail(struct hdl_ep *ep, int err);
/* The kind for the peer, of those allowed. rc_peers: RC connections that this process has with other peers. */
enum hdl_queue hdl_ep_select(const struct hdl_ep *ep, unsigned allowed, bool rdma, int rc_peers);
/* Returns true if any connected kind is possible with this peer. */
bool hdl_ep_can_rdma(const struct hdl_ep *ep);
/* The peer's credits for pooled receives, made if need be. NULL: out of memory, and the endpoint fails. */
struct hdl_srq_credit *hdl_ep_srq_credit(struct hdl_ep *ep, const struct hdl_rxpool *pool);
/* Returns whether the peer's process has ended, as seen on this host or reported by hdl_rt_has_ended. The end of a process of
 * another job counts when all that the process has sent has been taken in: see alive.c. */
enum hdl_proc_state hdl_peer_state(struct hdl_ep *ep);
/* "rank 3", or "rank 3 on host" for a peer of another host, or "rank 3 of job N"; returns text. */
#define HDL_PEER_TEXT (HDL_HOST_TEXT + HDL_PROC_TEXT)
const char *hdl_peer_text(const struct hdl_ep *ep, char text[HDL_PEER_TEXT]);

/* ---- ctl.c ----- */
/* Sends a control message, now or when there is room; one that cannot be sent fails the endpoint. ordered: behind all
 * earlier posts to the connected lane. */
void hdl_ep_ctl(struct hdl_ep *ep, unsigned kind, const void *body, uint32_t len, bool ordered);
/* Sends the messages of one of the two lists. Returns whether one is left. */
bool hdl_ep_drain_ctl(struct hdl_ep *ep, bool ordered, int *events);
/* Frees the control messages that wait. */
void hdl_ep_drop_ctl(struct hdl_ep *ep);

/* ---- send.c ----- */
/* Sends a message of ep->pend. Returns 1: done; 0: in flight; -EAGAIN: no room; other negative errno: the message has failed. */
int hdl_ep_send_pending(struct hdl_ep *ep, struct hdl_send *send);

/* ---- drain.c ----- */
/* Sends waiting messages. Returns whether one still waits. */
bool hdl_ep_drain(struct hdl_ep *ep, int *events);
/* Ends the operations of a failed endpoint. Must be called where queues may be stopped. */
void hdl_ep_end(struct hdl_ep *ep);

/* ---- arrive.c ----- */
/* Takes in one message of a lane that is no ring. in: the counter of this lane. */
void hdl_ep_dispatch(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload, struct hdl_count *in);

/* ---- post.c ----- */
/* The request whose completion proves that the device has read a payload in place. */
enum hdl_in_place {
	HDL_IN_PLACE_NO,		/* none: the payload is copied */
	HDL_IN_PLACE_DONE,		/* this one: send->done */
	HDL_IN_PLACE_MORE,		/* a later request of the same message */
	HDL_IN_PLACE_LAST,		/* this one, the message's last, unless the payload is copied: hdl_rndv_chunk_done */
	HDL_IN_PLACE_FENCE,		/* this one, the message's last, copied or not, since earlier ones are read in place */
};

/* A frame of one line. Must: ep->fast and hdl_ring_plain_ready. Returns 1, or a negative errno: the endpoint has failed. */
int hdl_ep_put_line(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len);
/* Sends a message into the peer's pooled receives. body: NULL if send->pack copies it. 1: copied; 0: in flight; -EAGAIN: no
 * room. */
int hdl_ep_post_srq(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *body, size_t len, struct hdl_send *send);
/* Sends RTU, the first message on a connection, for which there is always room. */
int hdl_ep_post_rtu(struct hdl_ep *ep, const struct hdl_hdr *hdr);
/* A frame whose payload is buf and then `tail`, which is NULL or a struct hdl_data_rec. 1: copied; 0: in flight; -EAGAIN: no
 * room. */
int hdl_post_ring(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, size_t len, const struct hdl_data_rec *tail,
		  struct hdl_send *send, enum hdl_in_place in_place);
/* Returns true if a rendezvous may go through the ring piece by piece, both processors copying at once: the ring is memory that
 * both reach by loads and stores, and the users' buffers are not. */
bool hdl_ep_can_stage(const struct hdl_ep *ep);
/* Bytes of the next piece of a staged message, by the lane that is best now. runs: send->pack copies them. */
uint32_t hdl_ep_piece(const struct hdl_ep *ep, bool runs);
/* Sends one piece of n bytes; data: NULL if send->pack copies it. in_place: HDL_IN_PLACE_MORE; of the last piece LAST, or
 * FENCE if earlier ones are in flight. 1: copied; 0: in flight (after the last one hdl_rndv_chunk_done follows); negative
 * errno. */
int hdl_ep_stage(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t n, struct hdl_send *send,
		 enum hdl_in_place in_place);

#endif
