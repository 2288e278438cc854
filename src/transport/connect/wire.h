/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire format, which all ranks of a job must have in common: HDL_ADDR_VERSION. */
#ifndef HDL_TP_WIRE_H
#define HDL_TP_WIRE_H

#include "runtime/runtime.h"
#include "transport/transport.h"

/* Control messages: types of struct hdl_hdr.kind that have no sequence number. Table of handlers: peer/control.c. */
enum hdl_ctl_kind {
	HDL_CTL_SKIP = 16,	/* ring: the next frame is at the top line */
	HDL_CTL_CTS,		/* struct hdl_cts: the receiver asks for the message */
	HDL_CTL_FIN,		/* struct hdl_fin: the receiver has read the message */
	HDL_CTL_DATA,		/* bytes, then struct hdl_data_rec: a rendezvous over UD or staged through a ring */
	HDL_CTL_RTU,		/* first message on a connection; the tag is the connection's number */
	HDL_CTL_RING_OFFER,	/* struct hdl_ring_offer */
	HDL_CTL_RING_ACCEPT,	/* struct hdl_ring_accept */
	HDL_CTL_RING_REVOKE,	/* the sender must stop using the ring */
	HDL_CTL_RING_RELEASED,	/* struct hdl_ring_released */
	HDL_CTL_CREDIT,		/* struct hdl_credit_rec, where an RDMA write would not wake the peer, or could be overtaken by an
				 * older one */
	HDL_CTL_SLEEP,		/* struct hdl_sleep_rec: the sender of SLEEP is about to sleep */
	HDL_CTL_SLEEP_ACK,	/* struct hdl_sleep_rec of the SLEEP: from here on each message to the sleeper makes a
				 * completion */
	HDL_CTL_AWAKE,		/* the ring may be used again */
	HDL_CTL_HOLD,		/* struct hdl_hold_rec: back-pressure on or off: messages are announced instead of sent eagerly */
	HDL_CTL_REFUSED,	/* struct hdl_fin: the message was withdrawn before it matched */
	HDL_CTL_WRITTEN,	/* struct hdl_fin: the sender has written its part, by the queue on which WRITTEN comes */
	HDL_CTL_PROBE,		/* no record: its acknowledgement shows that the peer lives */
	HDL_CTL_ID,		/* struct hdl_id_rec: the receiver's id at the sender, which the receiver puts into `src` from now
				 * on */
	HDL_CTL_TAKEN,		/* struct hdl_taken_rec: credits for this receiver's pool */
	HDL_CTL_LEAVE,		/* the sender leaves without the receiver: its end is no error */
	HDL_CTL_KEEP,		/* struct hdl_keep_rec */
	HDL_CTL_RMA_DONE,	/* struct hdl_rma_done: an operation of the receiver on the sender's memory has ended */
	HDL_CTL_PART,		/* by UD: bytes of a message in several packets, not its last ones; the tag is its length */
	HDL_CTL_LAST,		/* by UD: the rest of that message, with its tag, context and seq */
	HDL_CTL_STAY,		/* the sender will be in the fence of hdl_tp_fini and goes on afterwards: a receiver that leaves
				 * behind that fence sends LEAVE */
	HDL_CTL_AGENT_ASK,	/* struct hdl_agent_rec: the sender's end of an agent queue */
	HDL_CTL_AGENT_ANSWER,	/* struct hdl_agent_rec: the other end; qpn 0: the sender has no queue */
};

/*
 * Names a process: job, rank there, and incarnation, which tells a restarted rank from the earlier one.
 *
 * A message carries its sender as `src`: the sender's *id* at the receiver, an index into the receiver's endpoints (peers.h),
 * which is found without a search. Ids are exchanged with the first messages:
 *
 *     A ──▶ B    src = HDL_NAMED, A's name (yours = B's id at A)     A does not know its id at B
 *     B ──▶ A    src = B's id | HDL_TELLS, B's name (yours = A's id at B)
 *     A ──▶ B    src = A's id
 *     B ──▶ A    src = B's id                                        a message by id has come from A
 *
 * By UD the first messages are REQ and REP, so that both sides know their ids before there is a connected lane. Where the first
 * message came by a lane that needs no agreement, and no message may go back, HDL_CTL_ID carries the id.
 *
 * An id may be another process's by now; `nonce` shows that a message is not of an earlier incarnation of its sender.
 */
struct hdl_name {
	uint64_t job;		/* hash of the PMIx namespace */
	uint64_t incarnation;
	uint32_t rank;
	uint32_t yours;		/* in a message: the receiver's id at the sender; else unused */
};
_Static_assert(sizeof(struct hdl_name) == 24, "packed");
#define HDL_TELLS 0x80000000u	/* flag of src: struct hdl_name of the sender is in the message */
#define HDL_NAMED UINT32_MAX

/* A total order of the processes of all jobs. */
static inline bool hdl_name_before(const struct hdl_name *a, const struct hdl_name *b)
{
	return a->job != b->job ? a->job < b->job : a->rank < b->rank;
}

/* Returns true if a message into a pooled receive is counted against credits (srq_credit.h): such a message has no other
 * bound. */
static inline bool hdl_is_counted(uint8_t kind)
{
	return kind < HDL_CTL_SKIP || kind == HDL_CTL_DATA;
}

/* Head of every message in a pooled receive of RC, XRC, DC. With HDL_TELLS struct hdl_name follows. */
struct hdl_wire {
	uint32_t src;		/* the sender's id at the receiver, with HDL_TELLS or without; or HDL_NAMED */
	uint32_t nonce;		/* low half of the sender's incarnation */
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_wire) == 24, "packed");
#define HDL_WIRE_MOST ((uint32_t)(sizeof(struct hdl_wire) + sizeof(struct hdl_name)))

enum hdl_ud_type { HDL_UD_DATA = 1, HDL_UD_ACK, HDL_UD_CONN, HDL_UD_PROBE };
/* Head of every UD packet. With HDL_TELLS struct hdl_name is at the packet's end. A DATA packet may have more messages, each with
 * its hdr in front, aligned to 16 bytes. */
struct hdl_udwire {
	uint32_t src, nonce;	/* as in struct hdl_wire */
	uint32_t psn;		/* DATA: sequence number; PROBE: its number; ACK: number of the probe that is answered, or 0 */
	uint32_t ack;
	uint64_t sack;
	uint32_t type;		/* enum hdl_ud_type; DATA: hdr follows, then payload; CONN: struct hdl_conn_msg */
	uint16_t share, base;	/* ACK: credits, see hdl_rel_shares */
	struct hdl_hdr hdr;
};
_Static_assert(sizeof(struct hdl_udwire) == 48, "packed");
#define HDL_UD_HEAD offsetof(struct hdl_udwire, hdr)
#define HDL_UD_ALIGN(n) (((n) + 15) & ~15u)

/* The opaque record of an HDL_RTS. */
struct hdl_rts_rec {
	uint64_t len;
	uint32_t op;		/* number of the sender's operation */
	uint32_t rkey;		/* rkey by which RDMA READ reaches the message; 0: not by RDMA READ */
	uint64_t addr;
	uint64_t reserved;
};
_Static_assert(sizeof(struct hdl_rts_rec) == HDL_RTS_SIZE, "the door says so");

struct hdl_cts {
	uint64_t len;		/* bytes wanted; 0: matched, nothing to send */
	uint64_t addr;
	uint32_t rkey;
	uint32_t op;		/* number of the sender's operation */
	uint32_t rop;		/* number of the receiver's operation */
	uint32_t rdma;		/* 0: no RDMA write is possible, the sender streams the data */
	uint64_t from;		/* split: the receiver reads the bytes before this by RDMA READ */
};

/* FIN, WRITTEN: why the bytes have not been moved, from the point of view of the sender of the control message. */
enum hdl_fault {
	HDL_FAULT_NONE = 0,
	HDL_FAULT_MINE,		/* the sender's user's buffer cannot be read, or written */
	HDL_FAULT_YOURS,	/* the receiver's buffer cannot */
	HDL_FAULT_OTHER,	/* no memory, or none that can be registered, for the message */
};
struct hdl_fin {
	uint32_t op;		/* number of the operation at the process to which this goes */
	uint16_t part;		/* FIN: 1: of the receiver's part of a split message */
	uint16_t fault;		/* enum hdl_fault: the operation ends with an error on both sides; the connection goes on */
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
	uint32_t cleared;	/* the receiver clears the lines read: the sender writes no terminators (ring.h) */
	uint32_t number;	/* how many rings the receiver has given, this one included: struct hdl_conn_msg.ring */
};
struct hdl_ring_accept {
	uint64_t addr;		/* struct hdl_credit of the sender, for this peer; 0: the sender refuses the ring */
	uint32_t rkey;
	uint32_t reserved;
};
struct hdl_ring_released {
	uint64_t sent;		/* lines used since the ring was made */
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
	uint32_t qpn;		/* the target through which the sender's messages arrive; the receiver must open that target, too,
				 * so that the target outlives the process that created it; 0: none */
	uint32_t number;	/* the target that the receiver has made for a question up to this number is not used */
};
struct hdl_rma_done {
	uint32_t op;
	int32_t err;
	uint64_t old;		/* atomic operation: the previous value */
};
struct hdl_agent_rec {
	uint8_t gid[16];
	uint32_t qpn;
	uint32_t psn;		/* of the first request, 24 bits */
	uint16_t lid;
	uint16_t turn;		/* the latest ASK counts; an ANSWER has the number of its ASK */
};
struct hdl_hold_rec {
	uint32_t turn;		/* the latest turn counts: messages may overtake each other */
	uint32_t off;		/* enum hdl_eager_off */
};

/* The credit word of a ring: the ring's receiver writes the word by RDMA into memory of the ring's sender. */
struct hdl_credit {
	uint64_t consumed;	/* lines read */
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
	uint8_t caps;		/* a bit for each kind whose resources exist */
	uint32_t qkey, ud_qpn;
	uint32_t xrc_srqn;
	uint32_t dctn;
	uint16_t lid;
	uint16_t xrc_domain_high;	/* high bits of xrc_domain */
	uint64_t dc_key;
	uint8_t gid[16];
	uint32_t xrc_domain;	/* low bits of the XRC domain's number: equal at processes that share a domain (kinds/xrc.c) */
	uint32_t fabric;	/* software HCA: hash of the fabric's name, since the ports of all fabrics are alike; else 0 */
};
struct hdl_addr_head {
	uint32_t version, count;
	struct hdl_name name;
	struct hdl_proc proc;
	uint64_t machine;	/* hdl_host_id */
	uint64_t alike;		/* hdl_wire_find_alike: hash of the variables that must be equal */
	uint32_t cores;		/* hdl_job.ncores */
	uint32_t oversubscribed;	/* hdl_job.oversubscribed */
	char host[HDL_HOST_TEXT];	/* for error texts; ends with a NUL */
};
#define HDL_ADDR_VERSION 16u
enum hdl_role { HDL_ROLE_ANY = 0, HDL_ROLE_LOCAL, HDL_ROLE_REMOTE };

struct hdl_conn_msg {
	uint8_t what;		/* HDL_CONN_REQ, HDL_CONN_REP or HDL_CONN_REJ; HDL_CONN_ASK, HDL_CONN_TARGET */
	uint8_t kind;		/* enum hdl_queue: see struct hdl_conn_event */
	uint8_t named;
	uint8_t replacing;	/* REQ, REP: queues that broke are replaced */
	uint32_t number;
	uint64_t nonce;		/* the sender's incarnation */
	uint64_t to;		/* the receiver's incarnation */
	uint32_t qpn;		/* the queue pair: ASK: the sending one, TARGET: the receiving one */
	uint32_t psn;
	int32_t reason;		/* REJ that names no kind, TARGET: errno; ECONNABORTED: the endpoint has failed */
	/* REQ and REP with `replacing`: messages and lines that the sender has received by the replaced queues */
	uint32_t messages;	/* in pooled receives */
	uint32_t ring;		/* number of the ring that the sender has given (struct hdl_ring_offer) */
	uint64_t lines;		/* lines read of that ring */
};

#endif
