/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports why a request failed, and the remedy. */
#include <string.h>

#include "transport/core/tp.h"

/* Likely cause and remedy of a work completion status (IBTA 11.6.2). */
static const char *tp_report_cause(enum ibv_wc_status status, const struct hdl_tp_kind *kind)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		return "no answer: the peer's process has ended, its host is down, or the path is broken; "
		       "look at the "
		       "peer's output and at the port's state (`heddle_info --devices`)";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "the peer posts no receives: it is stopped, or out of memory";
	case IBV_WC_REM_ACCESS_ERR:
		return "the peer's memory is not registered for this access: it freed a buffer while a message was "
		       "under way, or the "
		       "libraries differ";
	case IBV_WC_REM_INV_REQ_ERR:
		return "the peer's queue does not accept this: a message longer than its receives (HEDDLE_EAGER_MAX "
		       "must be the "
		       "same on all ranks)";
	case IBV_WC_REM_OP_ERR:
		return "the peer's device could not carry it out; look at the peer's log";
	case IBV_WC_LOC_PROT_ERR:
		return "the message's memory is not readable: was the buffer freed before the send was complete?";
	case IBV_WC_LOC_LEN_ERR:
		return "longer than the device allows";
	case IBV_WC_WR_FLUSH_ERR:
		return kind->shares_sq ? "the queue is shared and stopped because of another peer's error" :
					 "the queue was stopped by an earlier error";
	case IBV_WC_FATAL_ERR:
	case IBV_WC_GENERAL_ERR:
		return "the device failed; see the kernel's log";
	default:
		return "see the status";
	}
}

void hdl_report_wc(const struct hdl_sq *sq, const struct hdl_ep *ep, const struct ibv_wc *wc)
{
	char text[HDL_PEER_TEXT];
	const char *peer = ep ? hdl_peer_text(ep, text) : "a peer";

	if (ep && hdl_ep_may_end(ep)) {
		hdl_debug("%s has left", peer);
		return;
	}

	hdl_error("connection to %s failed: %s port %u, %s queue %u: %s (status %d, vendor %#x): %s", peer,
		  sq->dev->name, sq->dev->port.port_num, hdl_kind_name(sq->kind), sq->qp ? sq->qp->qp_num : 0,
		  ibv_wc_status_str(wc->status), wc->status, wc->vendor_err, tp_report_cause(wc->status, sq->kind));
}
