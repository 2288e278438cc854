/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/transport: a kind of queue as a table of properties and operations. Only the file of a kind asks which kind a
 * queue is (checked by tests/unit/transport_kinds.sh); the pure functions ask for sets of kinds, which are in select.h.
 */
#ifndef HDL_KIND_H
#define HDL_KIND_H

#include "transport/peer/ep.h"

struct hdl_tp_kind {
	enum hdl_queue queue;
	const char *needs;		/* report text: the capability that a device without this kind lacks */
	enum hdl_pool pool;		/* the receive pool in which messages of this kind arrive */
	bool shares_sq;			/* requests to several peers go through one send queue: an error of one peer's request
					 * stops those of all */
	bool serial_targets;		/* the device begins a request to the next target only when all requests to the one
					 * before are answered */
	bool reports_end;		/* the queue fails when the peer's process ends, also where this process only receives */
	const char *full_text;		/* report text for a send queue that was full at times, or NULL */

	/* Operations on a device. */
	int (*probe)(struct hdl_dev *dev);	/* returns 1: the device supports this kind; 0: not supported; or a negative
						 * errno */
	int (*open)(struct hdl_dev *dev);	/* makes the objects that a process has before there are peers */
	void (*stop)(struct hdl_dev *dev);	/* destroys the send queues that peers share, or NULL */
	void (*close)(struct hdl_dev *dev);	/* undoes open, also where open was not called or failed halfway */
	uint32_t (*receives)(const struct hdl_dev *dev);	/* the largest number of receives that its pool may post */

	/* Operations on a lane, of kinds that are connected. make: creates the queues in INIT. Kinds of HDL_QUEUE_ADDRESSED get
	 * q NULL, and set ep->sq. to_rtr: connects them to the numbers in the peer's message. */
	int (*make)(struct hdl_ep *ep, struct hdl_conn_queues *q);
	int (*to_rtr)(struct hdl_ep *ep, const struct hdl_conn_msg *m);
	int (*renew)(struct hdl_conn_queues *q);	/* brings queues from any state to INIT; NULL: a broken queue is not
							 * replaced */
	void (*rebind)(struct hdl_ep *ep);	/* called when the send queue has no room: may bind the endpoint to another
						 * one; or NULL */

	/* Operations on a request. address: fills in the destination, where the queue does not know the peer; or NULL. post:
	 * NULL means ibv_post_send. */
	void (*address)(const struct hdl_ep *ep, struct ibv_send_wr *wr);
	int (*post)(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr);
	/* Brings a send queue from ERR to RTS. Requests that the device has not carried out are in the replay log
	 * (hdl_replay_record) and go again, except where `repeats` is set. Returns -EINPROGRESS if the kind calls
	 * hdl_done_reset later. NULL: a queue in error stays in error. */
	int (*reset)(struct hdl_sq *sq);
	bool repeats;
	/* Decides about a failed request for ep. Returns true: the request counts as lost on the way, and the peer does not
	 * fail. NULL: the peer fails. */
	bool (*counts_as_lost)(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc);
};

extern const struct hdl_tp_kind hdl_kind_ud, hdl_kind_rc, hdl_kind_xrc, hdl_kind_dc;
/* Tables by enum hdl_queue; NULL for HDL_QUEUE_NONE. */
extern const struct hdl_tp_kind *const hdl_kinds[HDL_QUEUES];

static inline const char *hdl_kind_name(const struct hdl_tp_kind *kind)
{
	return hdl_queue_name(kind ? kind->queue : HDL_QUEUE_NONE);
}

/* ---- qp.c: state transitions that kinds share ----- */
int hdl_qp_init(struct ibv_qp *qp, const struct hdl_port *port, int access);
int hdl_qp_rtr(struct ibv_qp *qp, const struct hdl_dev *dev, const struct hdl_addr *addr, uint32_t qpn, uint32_t psn);
/* Moves a queue pair to RTS. broke: if not NULL, a queue that has gone to ERR since RTR is not an error, and *broke is set. */
int hdl_qp_rts(struct ibv_qp *qp, uint32_t psn, bool *broke);
/* The access flags (IBV_ACCESS_*) that peers have through a queue of this device. */
int hdl_qp_access(const struct hdl_dev *dev);
/* Moves a queue pair from any state to INIT. */
int hdl_qp_renew(struct ibv_qp *qp, const struct hdl_port *port, int access);
/* Moves a queue pair from INIT to RTS towards a queue on a port of the same device. */
int hdl_qp_connect(struct ibv_qp *qp, const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, uint32_t qpn,
		   uint32_t psn);

/* ---- kinds/ud.c: datagrams, whatever the kind of the lane ----- */
/* Sends one packet of the reliable stream: header, then payloads a and b. Returns 0, or -EAGAIN: no room. */
int hdl_ud_send(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *a, uint32_t an, const void *b, uint32_t bn);
/* As hdl_ud_send, where the first payload is packed: `an` bytes of send `a`, from its byte `at` on. */
int hdl_ud_send_runs(struct hdl_ep *ep, const struct hdl_hdr *hdr, const struct hdl_send *a, uint64_t at, uint32_t an,
		     const void *b, uint32_t bn);
/* Sends a message in several packets, if all of them have room; buf: NULL if the send is packed. Returns 0, or -EAGAIN: the
 * caller must announce the message. */
int hdl_ud_send_parts(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, uint32_t len, const struct hdl_send *send);
/* Handles HDL_CTL_PART and HDL_CTL_LAST. Returns false: the part does not continue the message under way. */
bool hdl_ud_on_part(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);
/* hdl_ep_send_now for an endpoint that has UD only. Returns 1: sent; 0: not possible this way, or not now. */
int hdl_ud_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len);
/* Between these two calls, hdl_ud_send and hdl_ud_send_runs to ep collect several messages in a packet, and post several
 * packets by one call of the device. Must: for one endpoint at a time; used for messages that wait for room, and for long ones.
 * Collected packets are neither posted nor in flight for ep->rel before hdl_ud_gathered, which may be called twice. */
void hdl_ud_gather(struct hdl_ep *ep);
void hdl_ud_gathered(struct hdl_ep *ep);
/* Sends a datagram outside of the reliable stream. Returns 0 or a negative errno. */
int hdl_ud_raw(struct hdl_ep *ep, enum hdl_ud_type type, const void *body, uint32_t len);
void hdl_ud_arrived(struct hdl_dev *dev, const void *packet, uint32_t len);
void hdl_ud_acks(struct hdl_tp *tp);
/* Handles a flushed receive of this pool. Returns true: hdl_rxpool posts the receive again when the queue has been reset. */
bool hdl_ud_flushed(struct hdl_dev *dev, struct hdl_rxpool *pool);
int hdl_ep_ah(struct hdl_ep *ep);	/* creates ep->ah if there is none */
uint64_t hdl_ud_timers(struct hdl_tp *tp, uint64_t now);
void hdl_ud_drop_peer(struct hdl_ep *ep);
/* The same, and frees the stream and the address handle: the endpoint is freed. */
void hdl_ud_forget_peer(struct hdl_ep *ep);

/* ---- kinds/xrc.c: send queues towards other hosts, and their targets in this host's XRC domain ----- */
void hdl_xrc_on_ctl(struct hdl_ep *ep, const struct hdl_conn_msg *m);
void hdl_xrc_keep(struct hdl_ep *ep, const struct hdl_keep_rec *m);
/* Handles an asynchronous event of a receiving queue pair. Returns true: the queue pair is an XRC target. */
bool hdl_xrc_event(struct hdl_dev *dev, const struct ibv_qp *qp);
void hdl_xrc_tidy(struct hdl_dev *dev);		/* destroys the targets that are marked; Must: behind events, where queues may
						 * be destroyed */
/* The peer has failed: frees objects that serve this peer alone and would add up over many jobs; ep->sq may become NULL. */
void hdl_xrc_lose(struct hdl_ep *ep);
/* Returns true if a queue or a target of XRC names the endpoint. */
bool hdl_xrc_holds(const struct hdl_ep *ep);
uint64_t hdl_xrc_timers(struct hdl_tp *tp, uint64_t now);

#endif
