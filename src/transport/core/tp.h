/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of src/transport: the instance, and the functions that its files use of each other. Calls go downwards only, and
 * no two folders call each other in a circle (tests/unit/layers.sh):
 *
 *     core/      init.c        hdl_tp_init, hdl_tp_fini, the hooks
 *     core/      idle.c        spin, yield, sleep
 *     core/      progress.c    turns, timers; async.c: asynchronous events
 *     peer/      drain.c       messages that wait at an endpoint; control.c: control messages that arrive
 *     peer/      send.c        messages: lane, frame, packet or announcement
 *     rma/ rndv/               remote memory, rendezvous; rma/agent_queue.c: atomic operations by a second device
 *     connect/   wireup.c      connections
 *     connect/   conn_send.c   messages about connections that leave
 *     lanes/     ring_poll.c   frames that arrive; ring_offer.c: rings given and revoked; ring_credit.c: credits
 *     peer/      ctl.c         control messages that leave
 *     queue/     post.c        messages as requests of the connected lane
 *     kinds/                   properties and operations of RC, UD, XRC and DC
 *     peer/      arrive.c      order of arriving messages; am.c: handlers of active messages
 *     queue/     sq_restart.c  queues that break: reset, halt, stop; sq.c: slots, posts, completions; replay.c: the replay log
 *     peer/      ep.c          endpoints
 *     core/      done.c        operations that have ended
 *     mem/, connect/address.c, queue/srq.c, queue/qp.c
 *     pure: connect/conn.c, connect/select.c, core/ids.c, lanes/rel.c, lanes/ring.c, peer/order.c, peer/peers.c,
 *           queue/sq_state.h, queue/srq_credit.h, rndv/tune.c
 *
 * A lower file that has to call a higher one does so by a hook (struct hdl_hooks).
 *
 * One thread at a time is inside an instance (runtime/threads.h). Endpoints, devices and regions point to their instance; send
 * queues, pools and buffers to their device; every other function takes the instance as an argument.
 */
#ifndef HDL_TP_H
#define HDL_TP_H

#include <errno.h>
#include <shca.h>

#include "base/base.h"
#include "runtime/autotune.h"
#include "runtime/jobs.h"
#include "runtime/runtime.h"
#include "runtime/threads.h"
#include "transport/peer/ep.h"
#include "transport/core/ids.h"
#include "transport/kinds/kind.h"
#include "transport/peer/peers.h"
#include "transport/rma/rma.h"
#include "transport/rndv/rndv.h"
#include "transport/core/fd_waker.h"
#include "transport/transport.h"

#define HDL_DEVICES 2u		/* devices of an instance, at most */

/* How requests of one slot type end (enum hdl_slot_type). */
struct hdl_request_type {
	/* The request has ended. p: the slot's pointer. */
	void (*done)(struct hdl_tp *tp, void *p, int err);
	/* A completion status that fails the operation only, since its memory or the peer's is at fault: its errno; 0: the
	 * queue or the peer fails. NULL: no status fails the operation only. */
	int (*refusal)(enum ibv_wc_status status);
	/* Returns true if an earlier request of the slot's operation was refused: this one must not be replayed. */
	bool (*refused)(struct hdl_tp *tp, const struct hdl_slot *slot);
};

/* Calls from lower files to higher ones. One table, in core/init.c, to which tp->hooks points; none of these is on the path of
 * a message by the ring. */
struct hdl_hooks {
	const struct hdl_request_type *request;				/* by enum hdl_slot_type */
	void (*control)(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);	/* hdl_control_arrived */
	void (*slow_lane)(struct hdl_ep *ep);		/* HEDDLE_HOT_MESSAGES messages have come by lanes that are no ring */
	void (*refuse)(struct hdl_ep *ep, const void *rts);		/* hdl_ep_refuse */
	int (*connect)(struct hdl_ep *ep);				/* hdl_ep_connect */
	void (*conn_arrived)(struct hdl_ep *ep, const struct hdl_conn_msg *m);	/* hdl_wire_arrived */
	void (*conn_announce)(struct hdl_ep *ep);			/* hdl_wire_announce */
	void (*queue_broke)(struct hdl_ep *ep, const struct ibv_wc *wc);	/* hdl_wire_broke */
	hdl_done_fn queue_reset;					/* hdl_sq_reset, by hdl_done_run */
	hdl_done_fn ep_end;						/* hdl_ep_end, by hdl_done_run */
	bool (*ep_is_silent)(struct hdl_ep *ep, uint64_t silence_ns);	/* hdl_peer_is_silent */
	int (*poll_rcq)(struct hdl_dev *dev);				/* hdl_tp_poll_rcq */
	int (*progress_add)(struct hdl_tp *tp, hdl_progress_fn fn, void *arg);	/* hdl_tp_progress_add */
};

/* An operation that has ended, or other work that needs posts and stopped queues. */
struct hdl_done {
	hdl_done_fn fn;			/* NULL: cancelled (hdl_done_cancel) */
	void *p;
	int err;
};

struct hdl_tp {
	struct hdl_peers peers;
	struct hdl_ep **rings;		/* endpoints whose ring this process polls */
	int nrings, rings_cap;
	int rings_given;		/* rings that are offered, active or being revoked */
	struct hdl_dev *dev[HDL_DEVICES];
	int ndev;
	struct ibv_context *counting;	/* counters.c: of the device that counts requests (shca_counts); NULL: none does */
	struct shca_counts counts_before;	/* when this instance began */
	const struct hdl_hooks *hooks;
	bool in_progress;		/* progress does not nest */
	unsigned busy_turns;		/* turns of progress that found something */
	uint64_t at;			/* ticks() when the processor's counter was last read */
	uint64_t timers_at;		/* ticks() when the timers last ran */
	uint64_t idle_since;		/* ticks() of the last turn that found nothing before something came */
	uint64_t async_ns;		/* when the devices' asynchronous events were last read */
	struct hdl_ep *busy;		/* endpoints with something to send, linked by busy_next */
	struct hdl_ep *departed;	/* shared endpoint of all processes whose endpoints were freed (departed.c); NULL: none
					 * was freed */
	struct hdl_ep *timers;		/* UD streams that may have packets in flight */
	struct hdl_ep *acks;		/* UD streams that owe an acknowledgement */
	uint32_t connecting;		/* endpoints for which hdl_conn_waits */
	uint32_t announcing;		/* failed endpoints whose peers are sent REJ again (hdl_wire_begin_announcing) */
	uint64_t next_timer_ns;		/* when the next timer is due; 0: none */
	struct hdl_done *done;		/* hdl_done_run takes them */
	uint32_t ndone, done_cap;
	void *zc_probe;			/* struct hdl_send that post_message looks for among completions, or NULL */
	bool zc_done;			/* zc_probe has completed */
	struct hdl_idtab sends, fetches;
	struct hdl_am_handler { hdl_am_fn fn; void *context; } *handlers;	/* HDL_AM_IDS, by number; or NULL */
	struct hdl_idtab mrs, rmas;	/* regions; operations that an answer ends */
	struct hdl_rma_peer **rma;	/* by the peers' ids; NULL: none was begun */
	struct hdl_rma_served *rma_served;	/* peers' operations that handlers have begun (rma.h), linked by next */
	struct hdl_agent_queue *agents;	/* agent queues, linked by next */
	const struct hdl_agent_user *agent_user;
	uint32_t nrma, rma_open;	/* length of rma; operations under way */
	uint64_t rma_direct, rma_asked, rma_refused;	/* operations begun by queue, begun by message, refused by their
							 * targets */
	uint64_t fetched[HDL_WAY_WRITE + 1];	/* fetches by enum hdl_way */
	struct hdl_tune tune;
	unsigned ways;			/* bits of enum hdl_way: HEDDLE_RENDEZVOUS */
	struct hdl_sq **sqs;		/* by sq->id */
	uint32_t nsqs, sqs_cap;
	struct { hdl_progress_fn fn; void *arg; } *extra;	/* hdl_tp_progress_add */
	int nextra;
	struct hdl_upcalls up;
	unsigned allowed;		/* bits of enum hdl_queue: HEDDLE_TRANSPORT */
	struct hdl_name self;
	uint64_t config_hash;		/* hdl_wire_find_alike */
	int rc_peers;			/* RC connections, which HEDDLE_RC_PEERS limits */
	uint32_t ring_max, ring_most;	/* largest payload of a frame, in any ring: see struct hdl_ep */
	void *addresses;		/* hdl_peer_add: addresses of processes without an endpoint; tsearch(3), by process */
	struct hdl_regcache *regcache;
	struct hdl_user_mem *user_mems;	/* of hdl_tp_alloc */
	struct hdl_share *shares;	/* of hdl_tp_share */
	bool leaving;			/* hdl_tp_fini waits for the fence: a peer's end is no error */
	bool parting;			/* hdl_tp_leave sends LEAVE: a peer that leaves at the same time is no error */
	bool stays;			/* hdl_tp_stay was called: ranks of this job end in order, too */
	bool closing;			/* hdl_tp_fini frees the queues: no error of theirs is reported */
	uint32_t sleep_turn;		/* number of the last HDL_CTL_SLEEP, never 0 */
	struct hdl_autotune *yield_tune;	/* HDL_TUNE_YIELD; NULL: not yet */
	int wake_fd;			/* eventfd that hdl_tp_wake makes readable where no device wakes this process */
	bool woken;			/* hdl_tp_wake was called since the last sleep ended; atomic */
	struct hdl_fd_waker fd_waker;	/* watches the second device where the first one wakes on a write */
	void (*on_sleep)(void);		/* hdl_tp_on_sleep */
	uint64_t (*exec_timers)(uint64_t now);	/* hdl_tp_on_timers */
	uint64_t (*p2p_timers)(uint64_t now);	/* hdl_tp_on_p2p_timers */
	bool (*under_way)(bool fenced);	/* hdl_tp_on_close; NULL: the executors have ended */
	void (*end_executors)(void);	/* hdl_tp_on_close */
	bool (*on_shortage)(void);	/* hdl_tp_on_shortage */
	uint64_t rng;
	uint64_t sleeps, refused, stale;	/* sleeps; REJs sent; messages dropped as of another life or job */
	uint64_t names;			/* messages that came with their sender's name */
	uint64_t rings_ns;		/* when hdl_rings_look last ran */
	uint64_t offload_requests, offload_bytes;	/* hdl_tp_count_rc */
	/* Rendezvous of messages that are several runs of bytes at this end, by the lane of the packed bytes: sent in pieces;
	 * sent by RDMA WRITE from bounce buffers; received. */
	struct hdl_packed {
		uint64_t msgs, bytes;
	} packed_staged, packed_written, unpacked;
	uint64_t alive_ns;		/* when peers' processes are looked at next */
	uint32_t alive_next;		/* id of the endpoint with which that begins */
	unsigned ended_seen;		/* hdl_rt_ended() when peers were last compared with that count */
	uint32_t clock_turns;		/* runs of the timers, each at the end of a turn of progress */
	uint32_t cut_short_at;		/* 1 + clock_turns when a turn last left completions of receives for the next; 0: never */
	bool look_soon;			/* a process's end was first seen: its endpoint is looked at again at once (alive.c) */
};

/* Returns the endpoint of a message without HDL_TELLS. The peer knows its id here, so later messages to the peer go without a
 * name. */
static inline struct hdl_ep *hdl_ep_by_id(struct hdl_tp *tp, uint32_t id)
{
	struct hdl_ep *ep = hdl_peers_of(&tp->peers, id);

	if (likely(ep != NULL) && unlikely(ep->src != ep->id_there))
		ep->src = ep->id_there;
	return ep;
}

/* counters.c: adds the counts of an endpoint, about to be freed, to those of another one, which has a stream. */
void hdl_counters_move(struct hdl_ep *to, const struct hdl_ep *from);
/* counters.c: from here on the device's counters count for this instance. Must follow the opening of the devices. */
void hdl_counters_begin(struct hdl_tp *tp);
/* Sends by lanes other than the ring, queued ones included, between two polls for arrivals: HDL_CTL_HOLD may be there. */
#define HDL_UNLOOKED_MAX 32

/* ---- core/done.c ----- */
/* fn(tp, p, err) runs in hdl_done_run. Ends the job if there is no memory: an operation whose done() is never called is a
 * hang. */
void hdl_done_push(struct hdl_tp *tp, hdl_done_fn fn, void *p, int err);
/* Takes back all (fn, p). Must be called before p is freed. */
void hdl_done_cancel(struct hdl_tp *tp, hdl_done_fn fn, const void *p);
void hdl_done_send(struct hdl_send *send, int err);
void hdl_done_fetch(struct hdl_fetch *fetch, int err);
void hdl_done_rma(struct hdl_rma *op, int err);
/* Runs everything that was pushed, also by these functions. Must be called where requests may be posted. */
void hdl_done_run(struct hdl_tp *tp);

/* ---- lanes/ring_credit.c ----- */
/* Reports the lines that were read of the peer's ring: by RDMA WRITE, or by HDL_CTL_CREDIT. Without room in the send queue
 * credit_owed is set. */
void hdl_ring_give_credit(struct hdl_ep *ep);
int hdl_credit_get(struct hdl_dev *dev, struct hdl_credit **credit, uint32_t *rkey);
/* Takes the endpoint's credit back. Must: the peer's process has ended. */
void hdl_credit_put(struct hdl_ep *ep);
void hdl_credits_fini(struct hdl_dev *dev);

/* ---- lanes/ring_offer.c ----- */
/* Begins a new period of the rings' traffic, by which silent rings are found. */
void hdl_rings_look(struct hdl_tp *tp);
/* Offers the peer a ring if enough of its messages came by other lanes, and there is memory. */
void hdl_ring_consider(struct hdl_ep *ep);
/* Lines of a ring that is given to a peer; fewer than HDL_RING_LINES_MIN: no ring is. */
uint32_t hdl_ring_share(void);
#define HDL_RING_LINES_MIN 8
void hdl_ring_on_offer(struct hdl_ep *ep, const struct hdl_ring_offer *m);
void hdl_ring_on_accept(struct hdl_ep *ep, const struct hdl_ring_accept *m);
void hdl_ring_on_revoke(struct hdl_ep *ep);
void hdl_ring_on_released(struct hdl_ep *ep, const struct hdl_ring_released *m);
void hdl_ring_check_final(struct hdl_ep *ep);
void hdl_ring_drop(struct hdl_ep *ep);
/* The endpoint has failed and uses its ring no more: another peer may have one. */
void hdl_ring_lose(struct hdl_ep *ep);

/* ---- lanes/ring_poll.c ----- */
/* Delivers at most max frames of the peer's ring; returns how many. */
int hdl_ring_poll(struct hdl_ep *ep, int max);

/* ---- core/poll.c ----- */
/* Delivers the frames in the rings. Returns the number of frames. */
int hdl_tp_poll_rings(struct hdl_tp *tp);
/* Takes completions of dev->rcq and delivers their messages. Returns how many completions there were. */
int hdl_tp_poll_rcq(struct hdl_dev *dev);
/* Delivers messages that have arrived, and ends no operation of this process: for a sender that never waits, in the middle of
 * a send. */
void hdl_tp_take_in(struct hdl_tp *tp);
/* Takes the completions of all send CQs, whether or not any is expected; returns how many there were. A caller about to sleep
 * must check its condition again if there were any. */
int hdl_tp_reap(struct hdl_tp *tp);

/* ---- core/progress.c ----- */
void hdl_tp_timers(struct hdl_tp *tp, uint64_t now);

/* ---- core/async.c ----- */
/* Reads the device's asynchronous events. */
void hdl_tp_async(struct hdl_dev *dev);

/* ---- connect/address.c ----- */
/* Sets tp->config_hash: of the variables that must be equal among processes which communicate. */
int hdl_wire_find_alike(struct hdl_tp *tp);
int hdl_wire_publish(struct hdl_tp *tp);
/* Fills the endpoint's address in. 0 or a negative errno, reported. */
int hdl_wire_lookup(struct hdl_ep *ep);
/* Drops the addresses that hdl_peer_add gave for n processes, from number `first` on. */
void hdl_wire_forget(struct hdl_tp *tp, int first, int n);
/* Returns true if the address can be had without waiting for a process that may never publish one. */
bool hdl_wire_is_known(struct hdl_tp *tp, int proc);
void hdl_addresses_fini(struct hdl_tp *tp);
/* Kinds that both devices and the configuration have; none is an error, which is reported. */
unsigned hdl_ep_kinds(const struct hdl_ep *ep);

/* ---- connect/conn_send.c ----- */
/* Sends m by UD, which may lose messages; fills in both incarnations. */
void hdl_wire_send(struct hdl_ep *ep, struct hdl_conn_msg *m);
/* Sends REJ of proposal `number`: this side would take `kind`; HDL_QUEUE_NONE: none, because of `reason` (errno). */
void hdl_wire_refuse(struct hdl_ep *ep, uint32_t number, enum hdl_queue kind, int reason);
/* Sends REJ that names no kind: this endpoint has failed. */
void hdl_wire_announce(struct hdl_ep *ep);

/* ---- connect/wireup.c ----- */
/* Makes a connected lane, independent of the traffic. Returns 0: the lane stands or is being made; negative: there can be
 * none. */
int hdl_ep_connect(struct hdl_ep *ep);
/* Makes a lane of this kind unless there is one or one is being made. Returns 0: the lane stands or is being made; negative
 * errno: there can be none. */
int hdl_wire_connect(struct hdl_ep *ep, enum hdl_queue queue);
void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m);
void hdl_wire_on_rtu(struct hdl_ep *ep, uint32_t number);
/* A message has come into this pool by a connected lane that the endpoint does not have. */
void hdl_wire_on_message(struct hdl_ep *ep, enum hdl_pool pool);
/* Handles a failure of the endpoint's own queues. wc: the completion in error, or NULL after an asynchronous event. If the peer
 * lives, the queues are replaced later, where queues may be stopped. */
void hdl_wire_broke(struct hdl_ep *ep, const struct ibv_wc *wc);
/* Replaces queues that have broken, or answers the peer's proposal to. Must be called where queues may be stopped; runs in
 * hdl_done_run. */
void hdl_wire_replace(struct hdl_ep *ep);
/* Reports that the queues of a peer are not replaced, and why. */
void hdl_wire_report(const struct hdl_ep *ep, const char *why);
/* hdl_wire_announce, repeated until the peer answers with its own REJ: a peer that only waits for this process sends nothing
 * that would be answered. */
void hdl_wire_begin_announcing(struct hdl_ep *ep);
/* Returns when to call again, in ns; 0: no connection needs another call. */
uint64_t hdl_wire_timers(struct hdl_tp *tp, uint64_t now);
/* Stops the queues of a failed endpoint: nothing reads or writes the users' memory by them any more. Shared queues go on
 * without its requests. */
void hdl_wire_stop(struct hdl_ep *ep);
void hdl_wire_close(struct hdl_ep *ep);

/* ---- peer/arrive.c, peer/am.c ----- */
static inline bool hdl_is_am(const struct hdl_hdr *hdr)
{
	return hdr->kind >= HDL_AM && hdr->kind <= HDL_AM_FREE_RTS;
}
/* Reports a message of an unknown kind, or one that is too short, which is dropped. */
void hdl_bad_message(struct hdl_ep *ep, const struct hdl_hdr *hdr);
/* Runs the handler of an active message that is in order, or has none. */
void hdl_am_arrived(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);

/* ---- peer/control.c ----- */
void hdl_control_arrived(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);

/* ---- peer/srq_arrive.c ----- */
/* A message of RC, XRC or DC has arrived in b. */
void hdl_srq_arrived(struct hdl_rxbuf *b, uint32_t len);

/* ---- peer/alive.c ----- */
/* The peer has not acknowledged packets and sent nothing for this long: the endpoint fails if the peer's process has ended, or if
 * that cannot be known and HEDDLE_UD_TIMEOUT is over. Returns true if the endpoint has failed. */
bool hdl_peer_is_silent(struct hdl_ep *ep, uint64_t silence_ns);
/* Checks, a few at a time, the processes of peers whose death no queue would report. Returns the latest time of the next call, in
 * ns; 0: no such peer. */
uint64_t hdl_peers_look(struct hdl_tp *tp, uint64_t now);

/* ---- peer/departed.c ----- */
/* Frees the endpoints of processes that have ended, of jobs with which this process has no communicator any more. Must be called
 * where no caller holds an endpoint of such a process. */
void hdl_peers_reap(struct hdl_tp *tp);
/* Frees all endpoints. Must: their queues have been closed, and the devices stopped. */
void hdl_peers_free(struct hdl_tp *tp);

/* ---- core/idle.c ----- */
/* Prepares to sleep on the open devices. 0 or a negative errno. */
int hdl_idle_open(struct hdl_tp *tp);
void hdl_idle_on_sleep(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
void hdl_idle_on_sleep_ack(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
/* Sends HDL_CTL_AWAKE: enough of the peer's messages have come by other lanes since HDL_CTL_SLEEP was sent to the peer. */
void hdl_idle_awake(struct hdl_ep *ep);

/* ---- core/report.c ----- */
void hdl_report_transports(struct hdl_tp *tp, FILE *out);

/* ---- queue/sq_error.c ----- */
/* Reports a completion that fails the connection; ep may be NULL. */
void hdl_report_wc(const struct hdl_sq *sq, const struct hdl_ep *ep, const struct ibv_wc *wc);

/* Returns true if the peer's end is expected, and is no error. */
static inline bool hdl_ep_may_end(const struct hdl_ep *ep)
{
	return ep->departed || ep->tp->parting || ep->tp->leaving;
}

/* Returns true if a peer's silence means that its process or its host has ended (HEDDLE_UD_TIMEOUT). In the fence of hdl_tp_fini
 * a peer may have left, and a peer that computes may take as long as it likes. */
static inline bool hdl_tp_gives_up(const struct hdl_tp *tp, uint64_t silence_ns)
{
	return hdl_vars.ud_timeout && !tp->leaving && silence_ns / 1000 >= hdl_vars.ud_timeout;
}

#endif
