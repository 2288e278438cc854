/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport's inside. Headers by subject: wire.h (what travels), mem.h (memory, send buffers, numbers of operations), rx.h
 * (receive pools), sq.h (send queues), dev.h (devices), ep.h (endpoints), kinds/kind.h, rndv/rndv.h; here the rest.
 *
 *   device.c  opening a device, what it can do        mem.c    registered memory, arena, buffer pools
 *   active.c  which device, if none is named          srq.c    receive pools
 *   select.c  which kind of queue (pure)              sq.c     send queues: slots, posting, completions
 *   conn.c    agreement on the connected lane (pure)  qp.c     states of queue pairs
 *   order.c   per-peer order (pure)                   kinds/   what differs between RC, UD, XRC and DC
 *   ids.c     numbers of operations (pure)
 *   ring.c    the eager ring's layout (pure)          rndv/    rendezvous: the protocol, and a file for each way
 *   rel.c     reliability over UD (pure)              wireup.c connections
 *   ep.c      endpoints: the send path                arrive.c what arrives
 *   post.c    requests on the connected lane          report.c --report-transports, --report-hang
 *   ring_credit.c   giving rings and taking them back       alive.c  peers that have died
 *   idle.c    waiting                                 progress.c  turns, timers, init, fini
 *   srq_credit.h  credits for pooled receives (pure)
 *   peers.c   who was met, by id and by name (pure)
 *   regcache.c registrations that are kept             am.c     active messages
 *   address.c addresses: one's own, others'
 *   counters.c what is counted, by name               fd_waker.c  waking for a second device
 *   rma/      remote memory: regions and keys, put, get, atomics, flush
 *
 * One thread at a time is inside an instance (runtime/threads.h). All state hangs on it: an endpoint, a device and a region know theirs
 * (a send queue, a pool and a buffer by their device), and whatever has none of these is given it.
 */
#ifndef HDL_TP_H
#define HDL_TP_H

#include <errno.h>

#include "base/base.h"
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

#define HDL_DEVICES 2u		/* of an instance, at most */

struct hdl_tp {
	struct hdl_peers peers;
	struct hdl_ep **rings;		/* endpoints whose ring we read */
	int nrings, rings_cap;
	int rings_given;		/* offered, active or being revoked */
	struct hdl_dev *dev[HDL_DEVICES];
	int ndev;
	bool inside;			/* in progress: no nesting */
	unsigned busy_turns;		/* that found something */
	uint64_t at;			/* ticks(), when they were last read; ... */
	uint64_t timers_at;		/* ... when timers were last looked at */
	uint64_t idle_since;		/* ... since when nothing has come */
	uint64_t async_ns;		/* the last look at the devices' events */
	struct hdl_ep *busy;
	struct hdl_ep *timers;		/* UD streams that may have packets in flight */
	struct hdl_ep *acks;		/* UD streams that owe an acknowledgement */
	uint32_t connecting;		/* endpoints for which hdl_conn_waits */
	uint32_t telling;		/* ... that have failed, and whose peers are told again */
	uint64_t next_timer_ns;
	struct {
		void *p;
		int err;
		enum hdl_done_what { HDL_DONE_NONE, HDL_DONE_SEND, HDL_DONE_FETCH, HDL_DONE_READ, HDL_DONE_END, HDL_DONE_RESET,
				     HDL_DONE_BROKE, HDL_DONE_PEER, HDL_DONE_RMA } what;
	} *done;
	uint32_t ndone, done_cap;
	void *zc_probe;			/* a send whose completion is looked for at once */
	bool zc_done;
	struct hdl_idtab sends, fetches;
	struct hdl_am_handler { hdl_am_fn fn; void *context; } *handlers;	/* HDL_AM_IDS, by number; or NULL */
	struct hdl_idtab mrs, rmas;	/* regions; operations that an answer ends */
	struct hdl_rma_peer **rma;	/* by the peers' ids; NULL: none was begun */
	uint32_t nrma, rma_open;	/* ... its length; operations under way */
	uint64_t rma_direct, rma_asked, rma_refused;	/* operations begun by queue and by message; refused by their targets */
	uint64_t fetched[HDL_WAY_WRITE + 1];	/* rendezvous, by the way that they went */
	struct hdl_tune tune;
	unsigned ways;			/* bits of enum hdl_way: HEDDLE_RENDEZVOUS */
	struct hdl_sq **sqs;		/* by sq->id */
	uint32_t nsqs, sqs_cap;
	struct { hdl_progress_fn fn; void *arg; } *extra;
	int nextra;
	struct hdl_upcalls up;
	unsigned allowed;
	struct hdl_name self;
	uint64_t alike;			/* a hash: hdl_wire_find_alike */
	int rc_peers;
	uint32_t ring_max, ring_most;	/* largest payload of a frame, whatever the ring: see struct hdl_ep */
	void *given;			/* addresses of processes that nothing was sent to yet: tsearch(3), by process */
	struct hdl_regcache *regcache;
	struct hdl_user_mem *user_mems;	/* of hdl_tp_alloc */
	bool leaving;			/* all that is to come is that the peers end */
	bool closing;
	uint32_t sleep_turn;
	uint64_t crowded_until;		/* others use this core, as far as is known */
	int wake_fd;			/* hdl_tp_wake makes it readable, on devices that cannot be told to wake us */
	bool woken;			/* hdl_tp_wake was called, and nobody has come back from a sleep since; atomic */
	struct hdl_fd_waker rouser;	/* wakes us for the second device, where the first one wakes on a write */
	void (*arm)(void);		/* an executor's: before each sleep */
	uint64_t (*exec_timers)(uint64_t now);	/* an executor's */
	bool (*give)(void);		/* ... and what it keeps for later */
	uint64_t rng;
	uint64_t sleeps, refused, stale;
	uint64_t names;			/* messages that came with their sender's name */
	uint64_t looked_ns;		/* last look at the rings' traffic */
	uint64_t offload_requests, offload_bytes;	/* hdl_tp_count_rc */
	uint64_t alive_ns;		/* next look at peers' processes */
	uint32_t alive_next;		/* ... and the id with which it begins */
	unsigned ended_seen;		/* hdl_rt_ended() when peers were last looked at for it */
};

/* Whom a message is from that says so by an id alone: that peer knows its id here. */
static inline struct hdl_ep *hdl_ep_by_id(struct hdl_tp *tp, uint32_t id)
{
	struct hdl_ep *ep = hdl_peers_of(&tp->peers, id);

	if (likely(ep != NULL) && unlikely(ep->src != ep->theirs))
		ep->src = ep->theirs;
	return ep;
}

#define HDL_UNLOOKED_MAX 32	/* sends by slow lanes, waiting ones too, between two looks at what arrives: a peer may ask us to hold */

/* ---- ring_credit.c ----- */
void hdl_ring_give_credit(struct hdl_ep *ep);
void hdl_rings_look(struct hdl_tp *tp);
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
/* The endpoint has failed and uses its ring no more: another peer may have one. */
void hdl_ring_lose(struct hdl_ep *ep);
int hdl_credit_get(struct hdl_dev *dev, struct hdl_credit **credit, uint32_t *rkey);
void hdl_credits_fini(struct hdl_dev *dev);

/* ---- address.c ----- */
/* What the variables come to that must be equal among processes which communicate. */
int hdl_wire_find_alike(struct hdl_tp *tp);
int hdl_wire_publish(struct hdl_tp *tp);
int hdl_wire_lookup(struct hdl_ep *ep);
/* The endpoint stands, and has all that is to be known from the address that was given for that process. */
void hdl_wire_forget(struct hdl_tp *tp, int proc);
/* Whether an address can be had without waiting for a process that was never heard of. */
bool hdl_wire_is_known(struct hdl_tp *tp, int proc);
void hdl_addresses_fini(struct hdl_tp *tp);

/* ---- wireup.c ----- */
/* Asks for a connected lane, if there is none and none is being made. 0: it is being made or stands; negative: cannot.
 */
int hdl_wire_connect(struct hdl_ep *ep, enum hdl_queue queue);
void hdl_wire_arrived(struct hdl_ep *ep, const struct hdl_conn_msg *m);
void hdl_wire_on_rtu(struct hdl_ep *ep, uint32_t number);
/* A message has come by a connected lane from a peer to which there is none: into this pool. */
void hdl_wire_on_message(struct hdl_ep *ep, enum hdl_pool pool);
/* By UD; may be lost. Fills in from and to whom. */
void hdl_wire_send(struct hdl_ep *ep, struct hdl_conn_msg *m);
/* Its queues, which are its own, do not work any more: by this completion, or by an asynchronous event (wc NULL). They are replaced if
 * the peer lives; where queues may be stopped, not here. */
void hdl_wire_broke(struct hdl_ep *ep, const struct ibv_wc *wc);
void hdl_wire_replace(struct hdl_ep *ep);
/* Reports that a peer whose queues were to be replaced is given up. */
void hdl_wire_report(const struct hdl_ep *ep, const char *why);
/* The endpoint has failed, and so its connection. */
void hdl_wire_failed(struct hdl_ep *ep);
/* ... tells the peer. */
void hdl_wire_announce(struct hdl_ep *ep);
/* ... tells the peer, and again until that has heard: it may live, wait for this process, and send nothing that would be answered. */
void hdl_wire_begin_announcing(struct hdl_ep *ep);
uint64_t hdl_wire_timers(struct hdl_tp *tp, uint64_t now);
/* ... ends the queues that it has for itself: nothing reads or writes the users' memory any more. Those that it shares go on
 * without its requests. */
void hdl_wire_stop(struct hdl_ep *ep);
void hdl_wire_close(struct hdl_ep *ep);

/* ---- progress.c ----- */
void hdl_tp_async(struct hdl_dev *dev);
/* Looks at every send CQ, whether or not anything is expected there; returns how many completions there were. Who goes to sleep has
 * to look again at what it waits for, if there were any. */
int hdl_tp_reap(struct hdl_tp *tp);
void hdl_tp_timers(struct hdl_tp *tp, uint64_t now);
int hdl_tp_poll_rcq(struct hdl_dev *dev);
/* Takes in what has arrived, and ends no operation of its own: for senders that never wait, in the middle of a send. */
void hdl_tp_take_in(struct hdl_tp *tp);

/* ---- am.c ----- */
static inline bool hdl_is_am(const struct hdl_hdr *hdr)
{
	return hdr->kind >= HDL_AM && hdr->kind <= HDL_AM_FREE_RTS;
}
/* An active message whose turn has come. */
void hdl_am_arrived(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);
/* struct hdl_send.pack of an eager one: head and payload, as one run. */
void hdl_am_pack(const struct hdl_send *s, uint64_t at, void *to, size_t n);

/* ---- alive.c ----- */
/* Whether its process has ended: as is seen on this host, or was told (hdl_rt_has_ended). */
enum hdl_proc_state hdl_peer_state(const struct hdl_ep *ep);
/* The peer has not acknowledged packets and given no sign of life for this long: it fails if it is dead, or if nobody can
 * know and HEDDLE_UD_TIMEOUT is over. True: it has failed. */
bool hdl_peer_is_silent(struct hdl_ep *ep, uint64_t silence_ns);
/* Looks, now and then, at the processes of peers whose death no queue would report. Returns when to call again at the latest
 * (0: there are none). */
uint64_t hdl_peers_look(struct hdl_tp *tp, uint64_t now);

/* ---- idle.c ----- */
/* Sleeping is prepared for the devices that have been opened. 0 or a negative errno. */
int hdl_idle_open(struct hdl_tp *tp);
void hdl_idle_on_sleep(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
void hdl_idle_on_sleep_ack(struct hdl_ep *ep, const struct hdl_sleep_rec *m);
/* The peer's messages come by slow lanes because it was told that we sleep; enough of them: tell it that we do not. */
void hdl_idle_awake(struct hdl_ep *ep);

/* ---- report.c ----- */
void hdl_report_transports(struct hdl_tp *tp, FILE *out);
/* "rank 3", or "rank 3 on host" for one of another host, or "rank 3 of job N"; returns text. */
#define HDL_PEER_TEXT (HDL_HOST_TEXT + HDL_PROC_TEXT)
const char *hdl_peer_text(const struct hdl_ep *ep, char text[HDL_PEER_TEXT]);
void hdl_report_wc(const struct hdl_sq *sq, const struct hdl_ep *ep, const struct ibv_wc *wc);

#endif
