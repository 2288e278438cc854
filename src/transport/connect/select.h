/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which kind of queue a message to a peer goes through: a pure function, so that its table can be tested.
 */
#ifndef HDL_SELECT_H
#define HDL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hdl_queue { HDL_QUEUE_NONE = 0, HDL_QUEUE_UD, HDL_QUEUE_RC, HDL_QUEUE_XRC, HDL_QUEUE_DC, HDL_QUEUES };
#define HDL_QUEUE_BIT(queue) (1u << (queue))
#define HDL_QUEUE_ALL (HDL_QUEUE_BIT(HDL_QUEUE_UD) | HDL_QUEUE_CONNECTED)
/* What kinds have in common, as sets, for all who may not ask which kind it is. A lane to one peer, which carries RDMA writes and
 * keeps the order of what is posted: */
#define HDL_QUEUE_CONNECTED \
	(HDL_QUEUE_BIT(HDL_QUEUE_RC) | HDL_QUEUE_BIT(HDL_QUEUE_XRC) | HDL_QUEUE_BIT(HDL_QUEUE_DC))
/* ... that is had as soon as the peer's address is known, without its agreement: */
#define HDL_QUEUE_ADDRESSED (HDL_QUEUE_BIT(HDL_QUEUE_XRC) | HDL_QUEUE_BIT(HDL_QUEUE_DC))
/* ... of which a process makes only so many by itself (HEDDLE_RC_PEERS): */
#define HDL_QUEUE_LIMITED HDL_QUEUE_BIT(HDL_QUEUE_RC)
/* Packets to any peer, without a lane: */
#define HDL_QUEUE_PACKETS HDL_QUEUE_BIT(HDL_QUEUE_UD)
/* Whether a kind is in a set. */
#define HDL_QUEUE_IN(set, queue) (((set) & HDL_QUEUE_BIT(queue)) != 0)

/* Jobs beyond this many ranks prefer kinds whose cost does not grow with the number of peers. UCX draws the same line:
 * 256 endpoints (public source). Not measured by us on a network. */
#define HDL_SELECT_LARGE_JOB 256
/* XRC pays by sharing one send queue per node: below this many ranks on the peer's node there is little to share. */
#define HDL_SELECT_XRC_PPN 16

struct hdl_select {
	bool same_host;		/* the peer is on this host */
	unsigned caps;		/* bit per kind that both devices can do */
	unsigned allowed;	/* bit per kind that the configuration allows */
	int job_size;
	int ppn;		/* ranks on the peer's host */
	int rc_peers;		/* RC connections that this process has */
	uint64_t messages;	/* sent to this peer so far */
	uint64_t hot;		/* a peer is hot from so many messages on */
	bool rdma;		/* this message wants an RDMA write (rendezvous) */
	int rc_most;		/* RC connections that it makes by itself; further hot peers share queues (HEDDLE_RC_PEERS) */
};

/* HDL_QUEUE_NONE: no allowed kind is possible. *why (may be NULL) is a constant text. */
enum hdl_queue hdl_select_queue(const struct hdl_select *s, const char **why);

/* The kinds that hdl_select_queue may ever return for a job, here or at a peer with another rc_most: whose resources are worth creating. */
unsigned hdl_select_possible(unsigned caps, unsigned allowed, int job_size, int ppn, int rc_most);

/* "RC", "UD", ... */
const char *hdl_queue_name(enum hdl_queue queue);
/* " RC UD", each with a blank in front of it, in text; or " none". */
#define HDL_KINDS_TEXT (8 * HDL_QUEUES)
const char *hdl_kinds_text(unsigned set, char text[HDL_KINDS_TEXT]);
/* "rc,ud": bits. Empty or NULL: all. -1: an unknown word, which is copied to bad (bad_size bytes). */
int hdl_queue_parse(const char *list, unsigned *allowed, char *bad, size_t bad_size);

#endif
