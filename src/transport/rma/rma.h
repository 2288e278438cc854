/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: remote memory. mr.c: regions and keys; rma.c: operations at their origin; target.c: handlers at the
 * target. */
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
	struct ibv_mr *mr[2];		/* registration by device; NULL: queues of that device do not reach the region */
	struct hdl_rkey *self;		/* HDL_MR_ATOMIC_DEVICE: this process's own handle, made at first use */
};

/* A handle of a peer's region. */
struct hdl_rkey {
	struct hdl_ep *ep;
	uint64_t base, len;
	uint32_t number, rkey;
	uint32_t refs;			/* operations under way */
	uint8_t access;
	bool has_rkey;			/* `rkey` belongs to the device that reaches the peer */
};

/* Operations under way to one peer: the list of all, flushes included, in the order in which they were begun; and the list of
 * those that wait for a queue. */
struct hdl_rma_peer {
	struct hdl_rma *first, *last;
	struct hdl_rma *wait, *wait_last;
	int err;			/* of the first operation that failed since the last flush; 0: none */
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
 * is not valid), -EREMOTEIO (the peer's memory) or -EFAULT (local memory); 0: the queue or the peer is at fault.
 * IBV_WC_REM_INV_REQ_ERR is among the latter: XRC reports it of a peer whose SRQ was destroyed. */
int hdl_rma_refusal(enum ibv_wc_status status);
void hdl_rma_on_done(struct hdl_ep *ep, const struct hdl_rma_done *m);
void hdl_rma_on_got(void *context, const struct hdl_am *am);
void hdl_rma_fail_peer(struct hdl_ep *ep, int err);
/* Computes the new value of an update. */
uint64_t hdl_rma_updated(enum hdl_update update, unsigned width, uint64_t old, uint64_t operand, uint64_t compare);

/* ---- target.c ----- */
int hdl_rma_open_target(struct hdl_tp *tp);

#endif
