/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: rendezvous. The protocol is described at the top of rndv.c. */
#ifndef HDL_RNDV_H
#define HDL_RNDV_H

#include "transport/peer/ep.h"
#include "transport/mem/regcache.h"
#include "transport/rndv/tune.h"

/* State of an operation, in struct hdl_send.priv and struct hdl_fetch.priv. Written by the thread that is inside the instance. */
struct hdl_send_op {
	struct hdl_region *region;	/* registration of the buffer, or NULL */
	uint64_t raddr;
	uint64_t posted, total;		/* bytes posted so far; bytes to be posted */
	uint32_t rkey, receiver_op;
	uint32_t id;
	uint16_t inflight;
	uint8_t unread : 1;	/* staged: pieces were posted of which no completion has reported that the buffer was read */
	uint8_t split : 1;	/* the receiver reads the front part */
	uint8_t part_read : 1;	/* split: FIN has arrived. FIN may overtake CTS: the two may travel by different lanes */
	uint8_t written_due : 1;	/* WRITTEN must be sent when the last chunk is known to have been written */
	uint8_t fault : 2;	/* enum hdl_fault of the written part; the operation then stays on rdma_wait until none of its
				 * chunks is in flight */
	uint8_t read_fault : 2;	/* enum hdl_fault of the part that the receiver reads */
	uint8_t state;
};
_Static_assert(sizeof(struct hdl_send_op) <= sizeof(((struct hdl_send *)0)->priv), "fits");
struct hdl_fetch_op {
	struct hdl_region *region;	/* registration of the buffer, or NULL */
	uint64_t got;
	/* of the part that is read by RDMA READ: */
	uint64_t raddr, posted, end;	/* the sender's address; bytes posted so far; bytes to be posted */
	uint32_t rkey, sender_op;	/* number of the sender's operation */
	uint32_t id;
	uint16_t inflight;
	hdl_tuned tuned;
	uint8_t reading : 1, writing : 1;	/* this side's READs, the sender's WRITEs are not finished */
	uint8_t failed : 1;		/* the endpoint has failed: the operation ends with its last request */
	uint8_t fault : 2;		/* enum hdl_fault of either part: the operation fails when both parts have ended */
};
_Static_assert(sizeof(struct hdl_fetch_op) <= sizeof(((struct hdl_fetch *)0)->priv), "fits");
static inline struct hdl_send_op *hdl_send_op(struct hdl_send *s)
{
	return (struct hdl_send_op *)s->priv;
}
static inline struct hdl_fetch_op *hdl_fetch_op(struct hdl_fetch *f)
{
	return (struct hdl_fetch_op *)f->priv;
}

#define HDL_RNDV_INFLIGHT 4		/* chunks of one operation in flight, so that other operations have their turn */
#define HDL_SPLIT_MIN 16384
enum { HDL_OP_WAIT_CTS = 0, HDL_OP_WRITE, HDL_OP_STREAM, HDL_OP_FAILED };	/* of struct hdl_send_op.state */

static inline void hdl_rndv_append(struct hdl_send **head, struct hdl_send **tail, struct hdl_send *s)
{
	s->next = NULL;
	if (*head)
		(*tail)->next = s;
	else
		*head = s;
	*tail = s;
}
static inline void hdl_rndv_pop(struct hdl_send **head)
{
	struct hdl_send *s = *head;

	*head = s->next;
	s->next = NULL;
}

/*
 * ---- fault.c: buffers that cannot be reached ----
 *
 * A request that the device refuses because of a user's buffer (unmapped, protected, of a truncated file) fails its operation
 * on both sides. Other requests of the queue, and the connection, go on: send queues treat the request as refused (sq.c,
 * breaks).
 */
/* Translates the status of a chunk's request. Returns -EFAULT (this process's buffer), -EREMOTEIO (the peer's buffer), or 0:
 * neither. */
int hdl_rndv_refusal(enum ibv_wc_status status);
/* Translates an errno into this side's fault; HDL_FAULT_NONE: the errno is none of a buffer. */
enum hdl_fault hdl_fault_of(int err);
/* Translates a fault of the peer's view into this side's view. */
enum hdl_fault hdl_fault_turned(unsigned fault);
/* Returns the error with which an operation of this fault ends: 0 or a negative errno. */
int hdl_fault_errno(unsigned fault);
/* Reports a fault of this process's buffer, with the page and the reason if the kernel tells; does nothing for other faults.
 * written: the operation writes the buffer. */
void hdl_fault_report(const struct hdl_ep *ep, enum hdl_fault fault, const void *buf, uint64_t len, bool written);
/* Returns true if the kernel says that a buffer cannot be read, or written. A system call that walks the buffer's pages. Called
 * before this process's CPU copies (UD packets, handlers of remote memory), where the access would raise a signal; else behind
 * errors only. */
bool hdl_fault_found(const void *buf, uint64_t len, bool written);
/* Writes ": the page at ADDRESS is REASON" for the first bad page, or "" if the kernel finds none. Returns text. */
#define HDL_FAULT_TEXT 96u
const char *hdl_fault_place(char text[HDL_FAULT_TEXT], const void *buf, uint64_t len, bool written);

/* ---- refused.c ---- */
/* A chunk of the fetch, or of the send, was refused. */
void hdl_rndv_read_refused(struct hdl_fetch *f, int err);
void hdl_rndv_write_refused(struct hdl_send *s, int err);
/* Ends the first operation of rdma_wait, which was refused, and sends WRITTEN(fault). Must: none of its chunks is in flight. */
void hdl_rndv_end_refused(struct hdl_ep *ep);
/* Returns true if the slot's request belongs to an operation of which a chunk was refused. Such a request must not go again. */
bool hdl_rndv_is_refused(struct hdl_tp *tp, const struct hdl_slot *slot);

/* ---- rndv.c: the protocol ----- */
int hdl_rndv_announce(struct hdl_ep *ep, struct hdl_send *send, struct hdl_rts_rec *rec);
/* Undoes hdl_rndv_announce: there was no room for RTS. */
void hdl_rndv_unannounce(struct hdl_send *send);
void hdl_rndv_on_cts(struct hdl_ep *ep, const struct hdl_cts *cts);
void hdl_rndv_on_fin(struct hdl_ep *ep, const struct hdl_fin *fin);
/* Returns true if the send waits for CTS or FIN; *number is that of its announcement. */
bool hdl_rndv_announced(struct hdl_send *s, uint32_t *number);
void hdl_rndv_on_refused(struct hdl_ep *ep, const struct hdl_fin *fin);
void hdl_rndv_fail_peer(struct hdl_ep *ep, int err);

/* ---- finish.c ---- */
void hdl_rndv_finish_send(struct hdl_send *s, int err);
/* Ends a send if all of it was written, and, when split, the receiver's part read. */
void hdl_rndv_finish_if_all(struct hdl_send *s);
void hdl_rndv_finish_fetch(struct hdl_fetch *f, int err);
/* Ends the measurement of a transfer: all bytes have come, or err. */
void hdl_rndv_measured(struct hdl_fetch *f, int err);
/* The sender's part has arrived. */
void hdl_rndv_all_written(struct hdl_fetch *f);

/* ---- write.c ----- */
/* Sends CTS. Returns 0, or a negative errno, reported: nothing was sent. */
int hdl_rndv_fetch_written(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
/* Posts chunks of operations on rdma_wait. Returns true: some still wait for room. */
bool hdl_rndv_push(struct hdl_ep *ep);
void hdl_rndv_chunk_done(struct hdl_send *send, int err);
void hdl_rndv_on_imm(struct hdl_tp *tp, uint32_t imm, uint32_t len);

/* ---- read.c ----- */
void hdl_rndv_fetch_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
/* Puts the operation on the list of reads: of the whole message, or of the bytes before `end`. */
void hdl_rndv_begin_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f, uint64_t end);
/* Posts the next READ of the endpoint; each counts as an event. Returns true: more is to be read. */
bool hdl_rndv_read(struct hdl_ep *ep, int *events);
/* A READ of the fetch with this number has ended; all READs have (called by hdl_done_run). */
void hdl_rndv_read_done(struct hdl_tp *tp, uint32_t id, int err);
void hdl_rndv_read_all(struct hdl_tp *tp, void *id, int err);

/* ---- split.c ----- */
void hdl_rndv_fetch_split(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
void hdl_rndv_on_written(struct hdl_ep *ep, const struct hdl_fin *fin);

/* ---- staged.c ----- */
bool hdl_rndv_stream(struct hdl_ep *ep);
void hdl_rndv_on_data(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t len);

#endif
