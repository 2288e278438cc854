/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport and a runtime for the unit tests of p2p and mpi: this process is one rank of a job, the tests simulate the other
 * ranks by making messages arrive, and check the messages sent.
 */
#ifndef P2P_MOCK_H
#define P2P_MOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "p2p/p2p.h"
#include "runtime/runtime.h"

/* How hdl_ep_send ends. */
enum mock_mode {
	MOCK_NOW,		/* the message has left on return */
	MOCK_LATER,		/* in flight until mock_complete */
	MOCK_REFUSE,		/* -ECONNRESET */
};
extern enum mock_mode mock_mode;

struct mock_sent {
	int dest, tag;
	uint16_t context;
	bool sync;
	size_t len;
	char *data;		/* a copy */
	struct hdl_send *send;	/* in flight */
};
extern struct mock_sent mock_sent[256];
extern int mock_nsent;

/* Called before hdl_p2p_init or MPI_Init: the rank and the job of this process. */
void mock_job(int rank, int size);
/* Ends a send that is in flight; err: 0 or a negative errno. */
void mock_complete(int i, int err);
/* A message arrives now, as from within progress. */
void mock_eager(int src, int tag, uint16_t context, const void *data, size_t len);
/* The same by rendezvous: data must stay until the fetch. The message's number is the tag. */
void mock_rts(int src, int tag, uint16_t context, const void *data, size_t len);
/* A message that the next turn of progress brings; one per turn, in this order. data must stay. */
void mock_later(int src, int tag, uint16_t context, const void *data, size_t len);
void mock_peer_failed(int peer, int err);
extern int mock_departed;	/* the rank that hdl_ep_has_departed names; -1: none */
/* Whether sends in flight are announced, under their index, when they are to be withdrawn; the latest that was refused. */
extern bool mock_announced;
extern int mock_refused;
/* The error with which the next fetches end. */
extern int mock_fetch_err;
extern int mock_fetches;	/* fetches asked for */
extern int mock_fetch_refused;	/* the negative errno with which hdl_ep_fetch refuses; 0: hdl_ep_fetch does not refuse */
extern int mock_holds[16], mock_nholds;	/* hdl_ep_eager_off: rank, or -rank when released */
extern enum hdl_eager_off mock_hold;	/* the latest */
extern bool mock_keeps;		/* hdl_tp_forget refuses */
extern int mock_idles;		/* calls of hdl_tp_idle */
extern bool mock_others;	/* a thread or a socket may end a wait: so the wait lasts */
/* The text of the last hdl_rt_abort; the process ends with the code it was given. */
extern char mock_last_warning[1024];

#endif
