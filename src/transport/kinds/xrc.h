/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of kinds/xrc.c; also included by tests that count or break queues. */
#ifndef HDL_XRC_H
#define HDL_XRC_H

#include "transport/core/tp.h"

/* The sending queue pair that reaches all processes of one XRC domain. */
struct hdl_xrc_host {
	struct hdl_xrc_host *next;
	uint64_t domain;
	struct hdl_sq sq;
	struct ibv_qp *own_target;		/* the target, if the domain is this process's own; else NULL, and: */
	struct hdl_ep *maker;		/* the peer that has made the target; NULL: there is no target */
	uint32_t qpn;			/* number of the target */
	uint32_t psn;			/* PSN with which the sending queue begins */
	uint32_t keepers;		/* peers beside the maker that were asked to open the target */
	bool unconnected;			/* a target is known, and the queue is not connected to it yet */
	/* state of asking a peer for a target */
	bool asking;
	uint32_t ask_number;		/* number of the last ASK */
	uint32_t next_ask;			/* id of the peer that is asked next */
	uint32_t tries;
	uint64_t since_ns, retry_ns;
};

/* A target: a receiving queue pair of this process's domain, by which a peer's requests reach any process of the domain. */
struct hdl_xrc_target {
	struct hdl_xrc_target *next;
	struct hdl_ep *ep;
	struct ibv_qp *qp;
	bool opened;			/* opened (ibv_open_qp); another process has made it */
	bool unused;			/* to be destroyed: the sender has ended, or the queue pair is in ERR */
	uint32_t number, qpn, psn;	/* made here: the ASK that it answers, the sender's queue pair, its first PSN */
};

#endif
