/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of src/transport: a kind of queue as a table of properties and operations. Nobody but a kind's own file asks which
 * kind it is (tests/unit/transport_kinds.sh looks); what the pure functions ask of kinds are the sets in select.h.
 */
#ifndef HDL_KIND_H
#define HDL_KIND_H

#include "transport/peer/ep.h"

struct hdl_tp_kind {
	enum hdl_queue queue;
	const char *needs;		/* what a device lacks that cannot do it */
	enum hdl_pool pool;		/* where its messages arrive */
	bool shares_sq;			/* requests to several peers go through one send queue: one's error stops the others' */
	bool one_by_one;		/* ... and none is sent to the next peer before the one ahead has answered all of its own */
	bool reports_end;		/* its queue fails when the peer's process ends, also where one only receives */
	const char *full;		/* what the report says where there was no room in the send queue at times, or NULL */

	/* Of a device. */
	int (*probe)(struct hdl_dev *dev);	/* 1: it can do this; 0: it cannot; or a negative errno */
	int (*open)(struct hdl_dev *dev);	/* what a process has of it, before there are peers */
	void (*stop)(struct hdl_dev *dev);	/* ends the send queues that peers share, or NULL */
	void (*close)(struct hdl_dev *dev);	/* also of what was not opened, or in part */
	uint32_t (*receives)(const struct hdl_dev *dev);	/* that its pool may post at most */

	/* Of a lane; kinds that are connected. make: in INIT; q is NULL where lanes are had by address (HDL_QUEUE_ADDRESSED), and
	 * then ep->sq is set. to_rtr: with the peer's numbers. */
	int (*make)(struct hdl_ep *ep, struct hdl_conn_queues *q);
	int (*to_rtr)(struct hdl_ep *ep, const struct hdl_conn_msg *m);
	int (*renew)(struct hdl_conn_queues *q);	/* from any state to INIT again; NULL: what breaks stays so */
	void (*full_now)(struct hdl_ep *ep);	/* no room in the send queue: perhaps there is another one; or NULL */

	/* Of a request. address: fills in where it goes, if the queue does not know; or NULL. post: NULL: ibv_post_send. */
	void (*address)(const struct hdl_ep *ep, struct ibv_send_wr *wr);
	int (*post)(struct hdl_sq *sq, struct hdl_ep *ep, struct ibv_send_wr *wr);
	/* Brings a send queue from ERR to RTS again; what was not carried out is kept (hdl_replay_record) and goes again, but where somebody
	 * above repeats what was lost. -EINPROGRESS: not yet, and hdl_done_reset follows. NULL: one in error stays so. */
	int (*reset)(struct hdl_sq *sq);
	bool repeats;
	/* A request for ep has failed. True: as if it had been lost on the way, and the peer does not fail. NULL: it does. */
	bool (*lost)(struct hdl_sq *sq, struct hdl_ep *ep, const struct ibv_wc *wc);
};

extern const struct hdl_tp_kind hdl_kind_ud, hdl_kind_rc, hdl_kind_xrc, hdl_kind_dc;
/* By enum hdl_queue; NULL: HDL_QUEUE_NONE. */
extern const struct hdl_tp_kind *const hdl_kinds[HDL_QUEUES];

static inline const char *hdl_kind_name(const struct hdl_tp_kind *kind)
{
	return hdl_queue_name(kind ? kind->queue : HDL_QUEUE_NONE);
}

/* ---- qp.c: state transitions that kinds share ----- */
int hdl_qp_init(struct ibv_qp *qp, const struct hdl_port *port, int access);
int hdl_qp_rtr(struct ibv_qp *qp, const struct hdl_dev *dev, const struct hdl_addr *addr, uint32_t qpn, uint32_t psn);
/* broke: not NULL: one that has broken since it was in RTR is no failure, and this says so. */
int hdl_qp_rts(struct ibv_qp *qp, uint32_t psn, bool *broke);
/* What peers may do by a queue of this device. */
int hdl_qp_access(const struct hdl_dev *dev);
/* From any state to INIT. */
int hdl_qp_renew(struct ibv_qp *qp, const struct hdl_port *port, int access);
/* From INIT to RTS towards a queue, whose port is the same device's. */
int hdl_qp_connect(struct ibv_qp *qp, const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, uint32_t qpn,
		   uint32_t psn);

/* ---- kinds/ud.c: datagrams, whatever the kind of the lane ----- */
/* Sends one packet of the reliable stream: hdr, then two pieces. -EAGAIN: no room. */
int hdl_ud_send(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *a, uint32_t an, const void *b, uint32_t bn);
/* The same; a: bytes of a send that packs them, from its byte `at` on. */
int hdl_ud_send_runs(struct hdl_ep *ep, const struct hdl_hdr *hdr, const struct hdl_send *a, uint64_t at, uint32_t an, const void *b,
		     uint32_t bn);
/* Sends a message in several packets, if all of them have room now; buf: NULL if it is packed. 0, or -EAGAIN: it is to be announced. */
int hdl_ud_send_parts(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *buf, uint32_t len, const struct hdl_send *send);
/* HDL_CTL_PART, HDL_CTL_LAST. False: it fits nothing that has come. */
bool hdl_ud_on_part(struct hdl_ep *ep, const struct hdl_hdr *hdr, const void *payload);
/* hdl_ep_send_now where there is nothing but UD: 1: sent; 0: not this way, or not now. */
int hdl_ud_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len);
/* What hdl_ud_send and hdl_ud_send_runs send to ep between these two goes several messages in a packet, and several packets in a
 * call of the device: of those that wait for room, and of long ones. Of one endpoint at a time, and nothing of it is on the way, or
 * in flight for ep->rel, before the second, which may be said twice. */
void hdl_ud_gather(struct hdl_ep *ep);
void hdl_ud_gathered(struct hdl_ep *ep);
/* Sends a datagram without reliability. */
int hdl_ud_raw(struct hdl_ep *ep, enum hdl_ud_type type, const void *body, uint32_t len);
void hdl_ud_arrived(struct hdl_dev *dev, const void *packet, uint32_t len);
void hdl_ud_acks(struct hdl_tp *tp);
/* A receive of this pool was flushed. True: it is posted again when its queue has been reset. */
bool hdl_ud_flushed(struct hdl_dev *dev, struct hdl_rxpool *pool);
int hdl_ep_ah(struct hdl_ep *ep);	/* makes ep->ah */
uint64_t hdl_ud_timers(struct hdl_tp *tp, uint64_t now);
void hdl_ud_drop_peer(struct hdl_ep *ep);

/* ---- kinds/xrc.c: queues that a process has towards another host, and what a process there has for them ----- */
void hdl_xrc_on_ctl(struct hdl_ep *ep, const struct hdl_conn_msg *m);
void hdl_xrc_keep(struct hdl_ep *ep, const struct hdl_keep_rec *m);
/* An event of a queue through which peers' messages come. True: it was one. */
bool hdl_xrc_event(struct hdl_dev *dev, const struct ibv_qp *qp);
void hdl_xrc_tidy(struct hdl_dev *dev);		/* behind events, where queues may be destroyed */
/* The peer has failed: what there is for nobody else goes, where it would add up, and ep->sq with it. */
void hdl_xrc_lose(struct hdl_ep *ep);
uint64_t hdl_xrc_timers(struct hdl_tp *tp, uint64_t now);

#endif
