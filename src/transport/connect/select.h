/* SPDX-License-Identifier: BSD-3-Clause */
/* The kind of queue for a message to a peer: a pure function, whose table tests check. */
#ifndef HDL_SELECT_H
#define HDL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hdl_queue { HDL_QUEUE_NONE = 0, HDL_QUEUE_UD, HDL_QUEUE_RC, HDL_QUEUE_XRC, HDL_QUEUE_DC, HDL_QUEUES };
#define HDL_QUEUE_BIT(queue) (1u << (queue))
#define HDL_QUEUE_ALL (HDL_QUEUE_BIT(HDL_QUEUE_UD) | HDL_QUEUE_CONNECTED)
/* Sets of kinds, for code that must not ask for a kind itself. Connected: a lane to one peer, which carries RDMA writes and keeps
 * the order of posted requests. */
#define HDL_QUEUE_CONNECTED \
	(HDL_QUEUE_BIT(HDL_QUEUE_RC) | HDL_QUEUE_BIT(HDL_QUEUE_XRC) | HDL_QUEUE_BIT(HDL_QUEUE_DC))
/* Connected, by the peer's address alone, without agreement of the peer. */
#define HDL_QUEUE_ADDRESSED (HDL_QUEUE_BIT(HDL_QUEUE_XRC) | HDL_QUEUE_BIT(HDL_QUEUE_DC))
/* Connected, and limited in number per process (HEDDLE_RC_PEERS). */
#define HDL_QUEUE_LIMITED HDL_QUEUE_BIT(HDL_QUEUE_RC)
/* Packets to any peer, without a lane. */
#define HDL_QUEUE_PACKETS HDL_QUEUE_BIT(HDL_QUEUE_UD)
/* Whether a kind is in a set. */
#define HDL_QUEUE_IN(set, queue) (((set) & HDL_QUEUE_BIT(queue)) != 0)

/* Larger jobs prefer kinds whose cost does not grow with the number of peers. UCX has the same limit, 256 endpoints (public
 * source); Heddle has not measured it on a network. */
#define HDL_SELECT_LARGE_JOB 256
/* XRC shares one send queue per node: with fewer ranks on the peer's node there is little to share. */
#define HDL_SELECT_XRC_PPN 16

struct hdl_select {
	bool same_host;		/* the peer is on this host */
	unsigned caps;		/* bit per kind that both devices can do */
	unsigned allowed;	/* bit per kind that the configuration allows */
	int job_size;
	int ppn;		/* ranks on the peer's host */
	int rc_peers;		/* RC connections of this process */
	uint64_t messages;	/* sent to this peer so far */
	uint64_t hot;		/* messages from which on a peer is hot */
	bool rdma;		/* this message needs an RDMA write (rendezvous) */
	int rc_most;		/* RC connections that this process makes by itself; further hot peers share queues
				 * (HEDDLE_RC_PEERS) */
};

/* Selects the kind. HDL_QUEUE_NONE: no allowed kind is possible. *why (may be NULL) is a constant text. */
enum hdl_queue hdl_select_queue(const struct hdl_select *s, const char **why);

/* The kinds that hdl_select_queue may ever return for a job, here or at a peer with another rc_most: their resources are
 * created. */
unsigned hdl_select_possible(unsigned caps, unsigned allowed, int job_size, int ppn, int rc_most);

/* "RC", "UD", ... */
const char *hdl_queue_name(enum hdl_queue queue);
/* " RC UD", each with a blank in front, in text; or " none". */
#define HDL_KINDS_TEXT (8 * HDL_QUEUES)
const char *hdl_kinds_text(unsigned set, char text[HDL_KINDS_TEXT]);
/* Parses "rc,ud" to bits; an empty list or NULL means all. 0; -1: an unknown word, which is copied to bad (bad_size bytes). */
int hdl_queue_parse(const char *list, unsigned *allowed, char *bad, size_t bad_size);

#endif
