/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of kinds/xrc.c, and for tests that count or break queues. */
#ifndef HDL_XRC_H
#define HDL_XRC_H

#include "transport/core/tp.h"

/* The way to all processes of one XRC domain, on whatever host: one sending queue pair. */
struct hdl_xrc_host {
	struct hdl_xrc_host *next;
	uint64_t domain;
	struct hdl_sq sq;
	struct ibv_qp *own;		/* its target, of this process's own domain: made here; else NULL, and: */
	struct hdl_ep *maker;		/* who has made the target; NULL: there is none */
	uint32_t qpn;			/* ... its number, ... */
	uint32_t psn;			/* ... and what it begins with */
	uint32_t keepers;		/* who have opened it beside */
	bool fresh;			/* the queue is not connected to it yet */
	/* while somebody is asked for a target */
	bool asking;
	uint32_t number;		/* of the question: one more than the last */
	uint32_t asked;			/* id of the peer that is asked next */
	uint32_t tries;
	uint64_t since_ns, retry_ns;
};

/* A receiving queue pair of this domain, by which a peer's messages come to any process of it. */
struct hdl_xrc_target {
	struct hdl_xrc_target *next;
	struct hdl_ep *ep;
	struct ibv_qp *qp;
	bool kept;			/* another process has made it */
	bool over;			/* its sender has gone */
	uint32_t number, qpn, psn;	/* made: for this question, connected to this queue */
};

#endif
