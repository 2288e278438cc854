/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: rendezvous; the protocol stands at the top of rndv.c. */
#ifndef HDL_RNDV_H
#define HDL_RNDV_H

#include "transport/peer/ep.h"
#include "transport/mem/regcache.h"
#include "transport/rndv/tune.h"

/* The state of an operation in struct hdl_send.priv and struct hdl_fetch.priv. */
struct hdl_send_op {
	struct hdl_region *region;	/* the buffer, registered; or NULL */
	uint64_t raddr;
	uint64_t off, total;		/* written so far, to be written */
	uint32_t rkey, rop;
	uint32_t id;
	uint16_t inflight;
	uint8_t unread : 1;	/* pieces were posted that nobody has reported as read */
	uint8_t split : 1;	/* the receiver reads a part */
	uint8_t part_read : 1;	/* and has said that it is done: perhaps before its CTS arrives, they may go by two lanes */
	uint8_t tells : 1;	/* WRITTEN goes when the last chunk is known to have been written */
	uint8_t fault : 2;	/* enum hdl_fault: of what is written; waits on rdma_wait until nothing of it is in flight */
	uint8_t read_fault : 2;	/* ... of what the receiver reads */
	uint8_t state;
};
_Static_assert(sizeof(struct hdl_send_op) <= sizeof(((struct hdl_send *)0)->priv), "fits");
struct hdl_fetch_op {
	struct hdl_region *region;	/* the buffer, registered; or NULL */
	uint64_t got;
	/* by RDMA READ */
	uint64_t raddr, off, end;	/* asked for so far, to be asked for */
	uint32_t rkey, sop;		/* the sender's operation */
	uint32_t id;
	uint16_t inflight;
	hdl_tuned tuned;
	uint8_t being_read : 1, being_written : 1;	/* by this side, by the sender */
	uint8_t failed : 1;		/* ends with its last request */
	uint8_t fault : 2;		/* enum hdl_fault: of what is read, or written: ends with an error when both have ended */
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

#define HDL_RNDV_INFLIGHT 4		/* chunks of one operation; others get their turn between them */
#define HDL_SPLIT_MIN 16384
enum { HDL_OP_WAIT_CTS = 0, HDL_OP_WRITE, HDL_OP_STREAM, HDL_OP_FAILED };	/* struct hdl_send_op.state */

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
 * A request that the device refuses because of a user's buffer (unmapped, protected, a file that was truncated) fails its operation, on
 * both sides, and neither the queue's others nor the connection: send queues treat it as one that was refused (sq.c, breaks).
 */
/* Translates the status of a chunk's request: 0, -EFAULT (this process's buffer) or -EREMOTEIO (the peer's). */
int hdl_rndv_refusal(enum ibv_wc_status status);
/* The fault that such an errno is, for this side; HDL_FAULT_NONE: none. */
enum hdl_fault hdl_fault_of(int err);
/* A fault that the peer has said, as this side says it. */
enum hdl_fault hdl_fault_turned(unsigned fault);
/* The error with which an operation ends: 0 or a negative errno. */
int hdl_fault_errno(unsigned fault);
/* Says which buffer of this process is at fault, and why if that is seen; says nothing of the peer's. written: by the operation. */
void hdl_fault_report(const struct hdl_ep *ep, enum hdl_fault fault, const void *buf, uint64_t len, bool written);
/* Whether a buffer cannot be read, or written, as far as the kernel tells. A system call, which walks its pages: before this process's CPU
 * moves a message that packets carry, whose copies would be signals; elsewhere behind an error only. */
bool hdl_fault_found(const void *buf, uint64_t len, bool written);
/* Writes ": the page at ADDRESS is REASON" for the first such page, or "" if there is none; returns text. */
#define HDL_FAULT_TEXT 96u
const char *hdl_fault_place(char text[HDL_FAULT_TEXT], const void *buf, uint64_t len, bool written);
/* A chunk of the fetch, or of the send, was refused. */
void hdl_rndv_read_refused(struct hdl_fetch *f, int err);
void hdl_rndv_write_refused(struct hdl_send *s, int err);
/* Ends the first operation, which was refused and has nothing in flight any more, and tells its receiver. */
void hdl_rndv_end_refused(struct hdl_ep *ep);
/* Whether the slot's request belongs to an operation of which a chunk was refused: it must not go again. */
bool hdl_rndv_is_refused(struct hdl_tp *tp, const struct hdl_slot *slot);

/* ---- rndv.c: the protocol ----- */
int hdl_rndv_announce(struct hdl_ep *ep, struct hdl_send *send, struct hdl_rts_rec *rec);
/* ... which could not be sent. */
void hdl_rndv_unannounce(struct hdl_send *send);
void hdl_rndv_on_cts(struct hdl_ep *ep, const struct hdl_cts *cts);
void hdl_rndv_on_fin(struct hdl_ep *ep, const struct hdl_fin *fin);
/* Whether the send waits for its receiver to match: under which number. */
bool hdl_rndv_announced(struct hdl_send *s, uint32_t *number);
void hdl_rndv_on_refused(struct hdl_ep *ep, const struct hdl_fin *fin);
void hdl_rndv_fail_peer(struct hdl_ep *ep, int err);
/* Ends an operation of which all was written, and the receiver's part read. */
void hdl_rndv_finish_if_all(struct hdl_send *s);
void hdl_rndv_finish_fetch(struct hdl_fetch *f, int err);
/* All bytes have come: what follows is not the way's doing. */
void hdl_rndv_measured(struct hdl_fetch *f, int err);
/* All that the sender is to bring has come. */
void hdl_rndv_all_written(struct hdl_fetch *f);

/* ---- write.c ----- */
/* 0, or a negative errno: reported, nothing was asked for. */
int hdl_rndv_fetch_written(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
/* Writes what can be written. True: more waits for room. */
bool hdl_rndv_push(struct hdl_ep *ep);
void hdl_rndv_chunk_done(struct hdl_send *send, int err);
void hdl_rndv_on_imm(struct hdl_tp *tp, uint32_t imm, uint32_t len);

/* ---- read.c ----- */
void hdl_rndv_fetch_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
/* Reads the message, or its part that lies before `end`, when its turn comes. */
void hdl_rndv_begin_read(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f, uint64_t end);
/* Asks for the next part of what is to be read, and counts that as an event. True: there is more. */
bool hdl_rndv_read(struct hdl_ep *ep, int *events);
/* One chunk of a fetch was read; all were (from hdl_done_run). */
void hdl_rndv_read_done(struct hdl_tp *tp, uint32_t id, int err);
void hdl_rndv_read_all(struct hdl_tp *tp, uint32_t id);

/* ---- split.c ----- */
void hdl_rndv_fetch_split(struct hdl_ep *ep, const struct hdl_rts_rec *rec, struct hdl_fetch *f);
void hdl_rndv_on_written(struct hdl_ep *ep, const struct hdl_fin *fin);

/* ---- staged.c ----- */
bool hdl_rndv_stream(struct hdl_ep *ep);
void hdl_rndv_on_data(struct hdl_ep *ep, const struct hdl_data_rec *rec, const void *data, uint32_t len);

#endif
