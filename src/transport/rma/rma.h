/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: remote memory. mr.c: regions and keys; rma.c: operations, at their origin; target.c: what a target's
 * handlers do of them. */
#ifndef HDL_RMA_H
#define HDL_RMA_H

#include "transport/peer/ep.h"

/* A region of this process. */
struct hdl_mr {
	struct hdl_tp *tp;
	char *base;
	uint64_t len;
	unsigned access;
	uint32_t number;		/* among tp->mrs: what its key calls it */
	uint32_t refs;			/* operations of peers that this process helps with */
	struct ibv_mr *mr[2];		/* by device; NULL: its queues do not reach it */
	struct hdl_rkey *self;		/* HDL_MR_ATOMIC_DEVICE: a handle of this process's own; made when it is needed */
};

/* A peer's region. */
struct hdl_rkey {
	struct hdl_ep *ep;
	uint64_t base, len;
	uint32_t number, rkey;
	uint32_t refs;			/* operations under way */
	uint8_t access;
	bool direct;			/* rkey is the one of the device that reaches the peer */
};

/* What is under way to one peer: all of it in the order in which it was begun, flushes among it; and what waits for a queue. */
struct hdl_rma_peer {
	struct hdl_rma *first, *last;
	struct hdl_rma *wait, *wait_last;
	int err;			/* of the first that failed since the last flush */
};

/* Handlers of the transport's own, and what their messages begin with. */
enum { HDL_AM_PUT = 1, HDL_AM_GET, HDL_AM_GOT, HDL_AM_UPDATE };
struct hdl_rma_request {		/* the head of PUT, GET, UPDATE; GOT has the number of the operation only */
	uint32_t op;			/* the origin's operation */
	uint32_t number;		/* the region */
	uint64_t at, len;
	uint64_t operand, compare;
	uint8_t update, width;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct hdl_rma_request) <= HDL_AM_HEAD_MAX, "fits a head");

/* ---- mr.c ----- */
void hdl_mr_close(struct hdl_tp *tp);

/* ---- rma.c ----- */
int hdl_rma_open(struct hdl_tp *tp);
void hdl_rma_close(struct hdl_tp *tp);
/* Posts what waits for the connected lane. True: something still does. */
bool hdl_rma_push(struct hdl_ep *ep);
/* A request of the operation has ended (HDL_SLOT_RMA). */
void hdl_rma_part_done(struct hdl_rma *op, int err);
/* Translates the status of such a request. Returns the errno with which its operation alone fails: -EACCES (the key is no longer valid),
 * -EREMOTEIO (the peer's memory) or -EFAULT (local memory); 0: the queue or the peer is at fault. IBV_WC_REM_INV_REQ_ERR is none of
 * them: XRC reports it of a peer whose SRQ was destroyed. */
int hdl_rma_refusal(enum ibv_wc_status status);
void hdl_rma_on_done(struct hdl_ep *ep, const struct hdl_rma_done *m);
void hdl_rma_on_got(void *context, const struct hdl_am *am);
void hdl_rma_fail_peer(struct hdl_ep *ep, int err);
/* What an update makes of a value of this width. */
uint64_t hdl_rma_updated(enum hdl_update update, unsigned width, uint64_t old, uint64_t operand, uint64_t compare);

/* ---- target.c ----- */
int hdl_rma_open_target(struct hdl_tp *tp);

#endif
