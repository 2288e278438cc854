/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: the wire format, which all ranks of a job must have in common. */
#ifndef HDL_TP_WIRE_H
#define HDL_TP_WIRE_H

#include "runtime/runtime.h"
#include "transport/transport.h"

/* Control messages: kinds of their own, outside the order of matching messages. */
enum hdl_ctl_kind {
	HDL_CTL_SKIP = 16,	/* ring: go on at the top */
	HDL_CTL_CTS,		/* struct hdl_cts */
	HDL_CTL_FIN,		/* struct hdl_fin: the receiver has read the message */
	HDL_CTL_DATA,		/* bytes, then struct hdl_data_rec: a rendezvous over UD or staged through a ring */
	HDL_CTL_RTU,		/* first message on a connection; the tag is the connection's number */
	HDL_CTL_RING_OFFER,	/* struct hdl_ring_offer */
	HDL_CTL_RING_ACCEPT,	/* struct hdl_ring_accept */
	HDL_CTL_RING_REVOKE,	/* stop using the ring */
	HDL_CTL_RING_RELEASED,	/* struct hdl_ring_released */
	HDL_CTL_CREDIT,		/* struct hdl_credit_rec, instead of an RDMA write that would not wake the peer */
	HDL_CTL_SLEEP,		/* I am about to sleep: struct hdl_sleep_rec */
	HDL_CTL_SLEEP_ACK,	/* understood: what follows will make a completion; the turn of the SLEEP */
	HDL_CTL_AWAKE,		/* the ring may be used again */
	HDL_CTL_HOLD,		/* struct hdl_hold_rec: announce messages instead of sending them eagerly, or no longer */
	HDL_CTL_REFUSED,	/* struct hdl_fin: the message was withdrawn before it matched */
	HDL_CTL_WRITTEN,	/* struct hdl_fin: the sender has written its part, by the queue that this comes by */
	HDL_CTL_PROBE,		/* nothing: that it is acknowledged shows that the peer lives */
	HDL_CTL_ID,		/* struct hdl_id_rec: how messages to the sender of this call the receiver of this */
	HDL_CTL_TAKEN,		/* struct hdl_taken_rec: how many messages may be in this receiver's pool */
	HDL_CTL_LEAVE,		/* to a process of another job: the sender is in MPI_Finalize, and its end is none to be told */
	HDL_CTL_KEEP,		/* struct hdl_keep_rec */
	HDL_CTL_RMA_DONE,	/* struct hdl_rma_done: an operation on our memory has ended */
	HDL_CTL_PART,		/* by UD: bytes of a message in several packets, not its last ones; the tag is its length */
	HDL_CTL_LAST,		/* by UD: the rest of that message, whose tag, context and seq these are */
};

/*
 * Names a process, for ever: its job, its rank there, and which life of that rank it is.
 *
 * A message says whom it is from by the *id* that its sender has at the receiver (peers.h): that is found without a search,
 * whatever the job's size. A sender that has not heard its id yet says HDL_NAMED, and sends its name with the message; the
 * receiver's messages have HDL_TELLS set and its name with them, with the other's id in it (`yours`), until one comes by that id.
 * What goes first by UD are REQ and REP, so that both know their ids before there is a connected lane; where the first message came
 * by a lane that needs no agreement, and the answer may never come, HDL_CTL_ID tells the id.
 *
 * What says that a message is not of an earlier life of its sender is `nonce`: an id could be another process's by now.
 */
struct hdl_name {
	uint64_t job;		/* hash of the PMIx namespace */
	uint64_t incarnation;
	uint32_t rank;
	uint32_t yours;		/* with a message: the receiver's id at the sender; else nothing */
};
_Static_assert(sizeof(struct hdl_name) == 24, "packed");
#define HDL_TELLS 0x80000000u	/* a name goes with the message */
#define HDL_NAMED UINT32_MAX

/* An order that all processes see alike. */
static inline bool hdl_name_before(const struct hdl_name *a, const struct hdl_name *b)
{
	return a->job != b->job ? a->job < b->job : a->rank < b->rank;
}

/* Messages into pooled receives that are counted: without a bound of their own (srq_credit.h). */
static inline bool hdl_is_counted(uint8_t kind)
{
	return kind < HDL_CTL_SKIP || kind == HDL_CTL_DATA;
}

/* Every message that arrives in a pooled receive of RC, XRC, DC. HDL_TELLS: struct hdl_name comes next. */
struct hdl_wire {
	uint32_t src;		/* the sender's id at the receiver, perhaps with HDL_TELLS; or HDL_NAMED */
	uint32_t nonce;		/* low half of the sender's incarnation */
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_wire) == 24, "packed");
#define HDL_WIRE_MOST ((uint32_t)(sizeof(struct hdl_wire) + sizeof(struct hdl_name)))

enum hdl_ud_type { HDL_UD_DATA = 1, HDL_UD_ACK, HDL_UD_CONN, HDL_UD_PROBE };
/* HDL_TELLS: struct hdl_name stands at the end of the packet. DATA may have more messages: each begins with its hdr, aligned as that is. */
struct hdl_udwire {
	uint32_t src, nonce;	/* as in struct hdl_wire */
	uint32_t psn;		/* PROBE: its number; ACK: that of the probe to which it is the answer, or 0 */
	uint32_t ack;
	uint64_t sack;
	uint32_t type;		/* enum hdl_ud_type; DATA: hdr follows, then payload; CONN: struct hdl_conn_msg */
	uint16_t share, base;	/* ACK: see hdl_rel_shares */
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_udwire) == 48, "packed");
#define HDL_UD_HEAD offsetof(struct hdl_udwire, hdr)
#define HDL_UD_ALIGN(n) (((n) + 15) & ~15u)

/* The opaque record of an HDL_RTS. */
struct hdl_rts_rec {
	uint64_t len;
	uint32_t op;		/* the sender's operation */
	uint32_t rkey;		/* where it may be read by RDMA; 0: it may not */
	uint64_t addr;
	uint64_t reserved;
};
_Static_assert(sizeof(struct hdl_rts_rec) == HDL_RTS_SIZE, "the door says so");

struct hdl_cts {
	uint64_t len;		/* bytes wanted; 0: matched, nothing to send */
	uint64_t addr;
	uint32_t rkey;
	uint32_t op;		/* the sender's */
	uint32_t rop;		/* the receiver's */
	uint32_t rdma;		/* 0: no RDMA write is possible, stream it */
	uint64_t from;		/* what lies before this the receiver reads by itself */
};

/* FIN, WRITTEN: why the bytes have not been moved; as the sender of the control message sees it. */
enum hdl_fault {
	HDL_FAULT_NONE = 0,
	HDL_FAULT_MINE,		/* its user's buffer cannot be read, or written */
	HDL_FAULT_YOURS,	/* the receiver's buffer */
	HDL_FAULT_OTHER,	/* it has no memory, or none that it can register, for the message */
};
struct hdl_fin {
	uint32_t op;		/* of whom this goes to */
	uint16_t part;		/* FIN: 1: what the receiver reads of a split message */
	uint16_t fault;		/* enum hdl_fault: the operation ends with an error, on both sides, and nothing else does */
	uint64_t len;		/* bytes of the message */
};

struct hdl_data_rec {
	uint64_t offset;
	uint32_t rop;
	uint32_t reserved;
};

struct hdl_ring_offer {
	uint64_t addr;
	uint32_t rkey, lines;
	uint32_t cleared;	/* the receiver clears what it has read: the sender writes no terminators */
	uint32_t number;	/* the how-manieth ring that the receiver gives: see struct hdl_conn_msg */
};
struct hdl_ring_accept {
	uint64_t addr;		/* struct hdl_credit of the sender, for this peer */
	uint32_t rkey;
	uint32_t reserved;
};
struct hdl_ring_released {
	uint64_t sent;		/* lines ever used */
};
struct hdl_credit_rec {
	uint64_t consumed;
};
struct hdl_sleep_rec {
	uint32_t turn;
};
struct hdl_id_rec {
	uint32_t id;
};
struct hdl_keep_rec {
	uint32_t qpn;		/* the sender's messages come by this target, which its maker may not outlive: open it, too; 0: do not */
	uint32_t number;	/* the target that the receiver has made for a question up to this number is not used */
};
struct hdl_rma_done {
	uint32_t op;
	int32_t err;
	uint64_t old;		/* of an atomic one: what was there before */
};
struct hdl_hold_rec {
	uint32_t turn;		/* the latest counts: they may overtake each other */
	uint32_t on;
};

/* Written by the peer with RDMA, in memory of the ring's sender. */
struct hdl_credit {
	uint64_t consumed;	/* lines */
	uint64_t reserved[7];
};
_Static_assert(sizeof(struct hdl_credit) == 64, "a line of its own");

#define HDL_HOST_TEXT 64
/* Published as "hdl.addr": a head, then one entry per device. */
struct hdl_addr {
	uint8_t role : 4;	/* enum hdl_role */
	uint8_t mtu : 4;	/* enum ibv_mtu */
	uint8_t promises;	/* HDL_PROMISES_... */
	uint8_t link_layer;
	uint8_t caps;		/* bit per kind whose resources exist */
	uint32_t qkey, ud_qpn;
	uint32_t xrc_srqn;
	uint32_t dctn;
	uint16_t lid;
	uint16_t xrc_domain_high;	/* the same of processes that share one: kinds/xrc.c */
	uint64_t dc_key;
	uint8_t gid[16];
	uint32_t xrc_domain;	/* the low bits */
	uint32_t fabric;	/* of the software HCA: a hash of the fabric's name, since all fabrics have the same port; else 0 */
};
struct hdl_addr_head {
	uint32_t version, count;
	struct hdl_name name;
	struct hdl_proc proc;
	uint64_t machine;	/* hdl_host_id */
	uint64_t alike;		/* hash of the variables that must be equal */
	char host[HDL_HOST_TEXT];	/* for messages to people; ends with a NUL */
};
#define HDL_ADDR_VERSION 14u
enum hdl_role { HDL_ROLE_ANY = 0, HDL_ROLE_LOCAL, HDL_ROLE_REMOTE };

struct hdl_conn_msg {
	uint8_t what;		/* HDL_CONN_REQ, HDL_CONN_REP or HDL_CONN_REJ; HDL_CONN_ASK, HDL_CONN_TARGET */
	uint8_t kind;		/* enum hdl_queue, see struct hdl_conn_event */
	uint8_t named;
	uint8_t again;
	uint32_t number;
	uint64_t nonce;		/* the sender's incarnation */
	uint64_t to;		/* the incarnation it talks to */
	uint32_t qpn;		/* the queue pair: ASK: the sending one, TARGET: the receiving one */
	uint32_t psn;
	int32_t reason;		/* REJ that names no kind, TARGET: errno; ECONNABORTED: the endpoint has failed */
	/* again: what the sender has taken in by the queues that are replaced */
	uint32_t messages;	/* in pooled receives */
	uint32_t ring;		/* the how-manieth ring that it has given, ... */
	uint64_t lines;		/* ... and the lines of it */
};

#endif
