/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: remote memory. mr.c: regions and keys; rma.c: operations at their origin; target.c: handlers at the
 * target; agent_queue.c: atomic operations to peers of this host by the device that reaches other hosts. */
#ifndef HDL_RMA_H
#define HDL_RMA_H

#include "transport/peer/ep.h"

/* A region of this process. */
struct hdl_mr {
	struct hdl_tp *tp;
	char *base;
	uint64_t len;
	unsigned access;
	uint32_t number;		/* index in tp->mrs, and in the region's key */
	uint32_t refs;			/* peers' operations that a handler of this process has not finished */
	struct hdl_dev *agent;		/* HDL_MR_ATOMIC_DEVICE: the device that carries out atomic operations; else NULL */
	struct ibv_mr *mr[2];		/* registration by device; NULL: queues of that device do not reach the region */
	struct hdl_rkey *self;		/* HDL_MR_ATOMIC_DEVICE: this process's own handle, made at first use */
};

/* A handle of a peer's region. */
struct hdl_rkey {
	struct hdl_ep *ep;
	uint64_t base, len;
	uint32_t number, rkey;
	uint32_t refs;			/* operations under way */
	uint32_t agent_rkey;		/* of the owner's agent device, if that is another one than `rkey`'s; else 0 */
	uint8_t access;
	bool has_rkey;			/* `rkey` belongs to the device that reaches the peer */
	bool agent_is_lane;		/* ... and that device carries out atomic operations */
};

/* Updates in order, linked by wait_next. */
struct hdl_agent_list {
	struct hdl_rma *first, *last;	/* last: undefined without first */
};

/* Functions of rma.c for agent queues. */
struct hdl_agent_user {
	/* Fills in the next request of an update. Returns 0, or -EAGAIN: no buffer. */
	int (*fill)(struct hdl_rma *op, struct hdl_dev *dev, struct ibv_send_wr *wr, struct ibv_sge *sge);
	void (*done)(struct hdl_rma *op, int err);	/* hdl_rma_part_done */
	int (*refusal)(enum ibv_wc_status status);	/* hdl_rma_refusal */
	void (*by_message)(struct hdl_rma *op);
	/* Returns true if updates that might go by the peer's queue are under way by message. */
	bool (*asks)(const struct hdl_ep *ep);
};

/* An agent queue (agent_queue.c). */
struct hdl_agent_queue {
	struct hdl_agent_queue *next;	/* tp->agents */
	struct hdl_ep *ep;		/* a peer of this host, or this process */
	struct hdl_dev *dev;
	const struct hdl_agent_user *user;
	struct ibv_cq *cq;
	struct ibv_qp *out, *in;	/* for requests of this process; for the peer's */
	enum { HDL_AGENT_MADE, HDL_AGENT_ASKED, HDL_AGENT_UP, HDL_AGENT_BROKEN, HDL_AGENT_GONE } state;
	uint32_t inflight;		/* requests */
	uint32_t psn;			/* ASKED: of the first request */
	uint16_t turn, turn_in;		/* number of the latest HDL_CTL_AGENT_ASK to the peer; of the peer's */
	bool proven;			/* a request has succeeded since the queue was connected */
	bool held;			/* UP: updates by message may be under way, and requests wait for their end */
	bool rest_unstarted;		/* BROKEN: the flushed requests were not begun */
	bool running;			/* agent_run does not nest */
	struct hdl_agent_list wait, again;	/* updates that wait for room; BROKEN: flushed ones, which go before those */
};

/* Operations under way to one peer: the list of all, flushes included, in the order in which they were begun; and the list of
 * those that wait for a queue. */
struct hdl_rma_peer {
	struct hdl_rma *first, *last;
	struct hdl_rma *wait, *wait_last;
	int err;			/* of the first operation that failed since the last flush; 0: none */
	uint32_t asked;			/* updates under way by message that an agent queue could carry out */
};

/* The transport's own handlers. */
enum { HDL_AM_PUT = 1, HDL_AM_GET, HDL_AM_GOT, HDL_AM_UPDATE };
/* Head of the messages PUT, GET and UPDATE. The head of GOT is the operation's number only. */
struct hdl_rma_request {
	uint32_t origin_op;		/* number of the origin's operation */
	uint32_t number;		/* number of the region */
	uint64_t raddr, len;
	uint64_t operand, compare;
	uint8_t update, width;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct hdl_rma_request) <= HDL_AM_HEAD_MAX, "fits a head");

/* ---- agent_queue.c ----- */
/* The queue to a peer of this host; NULL: there is none. */
struct hdl_agent_queue *hdl_agent_of(const struct hdl_ep *ep);
/* Returns true if updates may be given to the queue. */
static inline bool hdl_agent_takes(const struct hdl_agent_queue *q)
{
	return q && (q->state == HDL_AGENT_UP || q->state == HDL_AGENT_BROKEN);
}
/* Carries out an update, or its next request. Must: hdl_agent_takes. */
void hdl_agent_update(struct hdl_agent_queue *q, struct hdl_rma *op);
/* Makes the queue of this process to itself, by which messages of peers without a queue are served. 0 or a negative errno. */
int hdl_agent_to_self(struct hdl_tp *tp);
/* HDL_CTL_AGENT_ASK, HDL_CTL_AGENT_ANSWER. */
void hdl_agent_on_ask(struct hdl_ep *ep, const struct hdl_agent_rec *m);
void hdl_agent_on_answer(struct hdl_ep *ep, const struct hdl_agent_rec *m);
/* The peer has failed: updates that wait are dropped, the requests in flight complete soon. */
void hdl_agent_stop(struct hdl_ep *ep);
/* Returns true if the queue pair is one of an agent queue. */
bool hdl_agent_has(const struct hdl_tp *tp, const struct ibv_qp *qp);
/* Arms the CQs of the device's agent queues that have requests in flight. 0 or an errno. */
int hdl_agents_arm(struct hdl_dev *dev);
void hdl_agents_close(struct hdl_tp *tp);
/* The device that carries out atomic operations on a region: of_host: for peers of this host only; else the device by which
 * peers of other hosts reach this process. NULL: none does. */
struct hdl_dev *hdl_agent_dev(struct hdl_tp *tp, bool of_host);

/* ---- mr.c ----- */
void hdl_mr_close(struct hdl_tp *tp);

/* ---- rma.c ----- */
int hdl_rma_open(struct hdl_tp *tp);
void hdl_rma_close(struct hdl_tp *tp);
/* Posts requests of operations that wait for the connected lane. Returns true: some still wait. */
bool hdl_rma_push(struct hdl_ep *ep);
/* A request of the operation (HDL_SLOT_RMA) has ended, with 0 or a negative errno. */
void hdl_rma_part_done(struct hdl_rma *op, int err);
/* Translates the status of a request of an operation. Returns the errno with which the operation alone fails: -EACCES (the key
 * is not valid), -EREMOTEIO (the peer's memory) or -EFAULT (local memory); 0: the queue or the peer is at fault, also with
 * IBV_WC_REM_INV_REQ_ERR, which XRC reports when the peer's SRQ was destroyed. */
int hdl_rma_refusal(enum ibv_wc_status status);
void hdl_rma_on_done(struct hdl_ep *ep, const struct hdl_rma_done *m);
void hdl_rma_on_got(void *context, const struct hdl_am *am);
void hdl_rma_fail_peer(struct hdl_ep *ep, int err);
/* An operation of a peer on this process's memory, from its beginning by a handler to its answer. Keeps the endpoint:
 *
 *     1. A handler posts a peer's update to this process's own agent queue; the peer's process ends
 *     2. No list has the peer's endpoint: the request and its queue name this process
 *     3. The update completes, and is answered to an endpoint that was freed */
struct hdl_rma_served {
	struct hdl_rma_served *next, **link;
	struct hdl_ep *ep;
};
void hdl_rma_serve(struct hdl_rma_served *s, struct hdl_ep *ep);
void hdl_rma_serve_end(struct hdl_rma_served *s);
/* Frees the state of a peer whose endpoint is about to be freed. Returns false if an operation of this process or of the peer is
 * under way. */
bool hdl_rma_forget_peer(struct hdl_ep *ep);
/* Computes the new value of an update. */
uint64_t hdl_rma_updated(enum hdl_update update, unsigned width, uint64_t old, uint64_t operand, uint64_t compare);

/* ---- target.c ----- */
int hdl_rma_open_target(struct hdl_tp *tp);

#endif
