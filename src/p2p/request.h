/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/p2p: the whole request, and what its files share. The queues are in match.h. */
#ifndef HDL_P2P_REQUEST_H
#define HDL_P2P_REQUEST_H

#include <limits.h>

#include "base/base.h"
#include "p2p/p2p.h"
#include "runtime/runtime.h"
#include "runtime/threads.h"


/* No communicator's (of the id HDL_ID_GROUPS): messages between the p2p of two ranks. The tag is the sender's number of an
 * announced message that it wants to withdraw; it comes after that one, as all messages of a rank come in order. */
#define HDL_CONTEXT_CANCEL 4
#define HDL_CONTEXT_GROUPS 5	/* its odd one: agreements without a communicator (comm_cid.h) */

/* OTHER: a collective. From NONE on, what waits is no operation, or made of others: reports leave it out. */
enum hdl_req_kind { HDL_REQ_OTHER, HDL_REQ_SEND, HDL_REQ_RECV, HDL_REQ_NONE, HDL_REQ_PAIR, HDL_REQ_PERSISTENT,
		    HDL_REQ_GENERALIZED, HDL_REQ_KINDS };

struct hdl_op;

/* Where kinds of requests differ. NULL: nothing to do. request.c calls the files above it by this table only. */
struct hdl_req_ops {
	void (*cancel)(struct hdl_op *op);	/* hdl_req_cancel of a request that is not done */
	void (*put)(struct hdl_op *op);		/* HDL_REQ_PERSISTENT: the request goes back to the pool; frees what it holds */
	void (*free)(struct hdl_op *op);	/* HDL_REQ_GENERALIZED: in place of hdl_op_put */
};
extern const struct hdl_req_ops *hdl_req_ops[HDL_REQ_KINDS];	/* set by hdl_p2p_init; no entry is NULL then */
extern const struct hdl_req_ops hdl_send_ops, hdl_recv_ops, hdl_persistent_ops, hdl_generalized_ops;

/* Freed by its user, and not done. */
#define HDL_MAGIC_DETACHED 0x48444554u

/* A request that follows another one each time it is started; or a collective's, which ends by itself. */
struct hdl_persistent {
	int (*start)(struct hdl_op *op, struct hdl_req **inner);	/* *inner: NULL if it is done */
	/* Of a collective; begin is NULL otherwise. */
	int (*begin)(struct hdl_req *req, void *arg);
	void (*put)(void *arg);
	void *arg;
	struct hdl_req *inner;		/* from its start until the completing call; NULL: it was done at once */
	enum hdl_send_mode mode;
};

struct hdl_generalized {
	MPI_Grequest_query_function *query_fn;
	MPI_Grequest_free_function *free_fn;
	MPI_Grequest_cancel_function *cancel_fn;
	void *extra_state;
};

/* MPI_Isendrecv */
struct hdl_pair {
	struct hdl_req *send, *recv;
	void *temp;			/* the data sent, if not the user's own */
	int npending;
};

/* A send or a receive. Sends and receives that block live on the stack, others in the pool. */
struct hdl_op {
	struct hdl_req req;

	/* matching; src: the number of a process (runtime/jobs.h) */
	struct hdl_op *next;		/* in its bucket */
	struct hdl_op **posted;		/* a receive in a queue: the pointer to it there; else NULL */
	uint64_t stamp;			/* order of posting, to decide between an exact and a wildcard receive */
	int32_t src;			/* or MPI_ANY_SOURCE */
	int32_t tag;			/* or MPI_ANY_TAG */
	uint16_t context;
	uint8_t kind;			/* enum hdl_req_kind */
	bool sync;
	int peer;			/* rank in the communicator, as the user said it */
	int errnum;			/* errno of the transport, for the explanation */

	/* data */
	void *buf;
	MPI_Count count;
	struct hdl_type *type;		/* retained while in use if not one run; else NULL */
	size_t bytes;			/* room (receive) or message (send) */
	size_t arrived;			/* receive: bytes of the message that matched */
	char *why;			/* of an error that is not explained by the above; pooled */

	union {
		struct hdl_send send;
		struct hdl_fetch fetch;
		struct hdl_unexpected *message;		/* between a matched probe and its receive; a send to itself: HDL_SELF */
		struct hdl_persistent persistent;
		struct hdl_generalized generalized;
		struct hdl_pair pair;
	};
};

_Static_assert(sizeof(struct hdl_op) == HDL_OP_BYTES, "handles are looked up by this size");

/* A message that came before its receive. */
struct hdl_unexpected {
	struct hdl_unexpected *next;		/* in its bucket */
	struct hdl_unexpected **at;		/* the pointer to it there; NULL: it is in no queue */
	struct hdl_unexpected *after, *before;	/* in its context, by arrival */
	struct hdl_match_entry *entries;	/* its two in the index of wildcards; NULL: its context has none */
	int32_t src, tag;
	uint16_t context;
	uint8_t kind;			/* enum hdl_kind, or HDL_SELF */
	size_t len;			/* bytes of the message */
	union {
		size_t heap_bytes;		/* HDL_EAGER: memory that it takes here */
		struct hdl_op *self;	/* HDL_SELF: the send that waits, with its data */
	};
	char data[];			/* HDL_EAGER: the message; HDL_RTS: the transport's record */
};
#define HDL_SELF	0xff

/* ---- buffer.c: pooled memory of any size ------------------------------------------------------------------ */

size_t hdl_buf_size(const void *buf);	/* what it takes of the heap */
void hdl_buf_fini(void);

/* ---- error.c ------------------------------------------------------------------------------------------- */

/* Keeps the transport's errno (either sign) for the explanation. Returns the error class that goes with it. */
int hdl_op_fail(struct hdl_op *op, int err);

/* ---- request.c ----------------------------------------------------------------------------------------- */

extern struct hdl_op *hdl_free_ops;
bool hdl_op_pool_grow(void);
/* NULL without memory. */
static inline struct hdl_op *hdl_op_new(struct hdl_comm *comm, enum hdl_req_kind kind)
{
	if (unlikely(!hdl_free_ops) && !hdl_op_pool_grow())
		return NULL;
	struct hdl_op *op = hdl_free_ops;
	hdl_free_ops = op->next;
	/* the rest is as it was made, or as op_put left it */
	op->req.obj = (struct hdl_object){ HDL_MAGIC_REQ, 1 };
	op->req.done = 0;
	op->req.error = MPI_SUCCESS;
	op->req.comm = comm;
	op->req.ep = NULL;
	op->kind = kind;
	comm->obj.refs++;
	return op;
}
void hdl_op_each_active(void (*fn)(const struct hdl_op *op, void *arg), void *arg);
void hdl_req_fini(void);
/* Ends the job for an error of a request that nobody holds. */
_Noreturn void hdl_req_orphan_failed(struct hdl_req *req);
/* Follows a request that may be done already: fn is called now or when it is. */
void hdl_req_follow(struct hdl_req *req, void (*fn)(struct hdl_req *req), void *arg);
bool hdl_persistent_sends(const struct hdl_op *op);
/* Whether there is one, and its size; 0: MPI_BUFFER_AUTOMATIC. */
bool hdl_bsend_is_attached(const struct hdl_bsend_space *space, size_t *bytes);
/* For HEDDLE_REPORT_LEAKS (leaks.c). */
void hdl_leaked_message(const struct hdl_unexpected *u, void *arg);
void hdl_op_put(struct hdl_op *op);
void hdl_bsend_fini(void);
/* The rest of hdl_wait_done, when the first turn of progress was not enough. */
void hdl_wait_idle(volatile int *done, struct hdl_ep *ep, const struct hdl_op *op);
/* Progress until *done. op: the blocking operation, for reports; NULL if it is in the pool. */
static inline void hdl_wait_done(volatile int *done, struct hdl_ep *ep, const struct hdl_op *op)
{
	while (likely(!*done)) {
		if ((!(ep ? hdl_tp_progress_peer(ep) : hdl_tp_progress(hdl_mpi_tp)) && !*done) || unlikely(hdl_threads)) {
			hdl_wait_idle(done, ep, op);
			return;
		}
	}
}
/* Requests of the pool that are not done: what MPI_Finalize waits for. */
extern size_t hdl_pending;

/* ---- send.c --------------------------------------------------------------------------------------------- */

/* Of one that is not done: see hdl_req_cancel. */
void hdl_send_cancel(struct hdl_op *op);
/* Sends a message whose request no caller keeps: if its receiver has ended, that is no error. Its data, if any, stays. The receiver may wait
 * for it for ever: without memory for it the job ends. */
void hdl_send_note(int peer, int tag, struct hdl_comm *comm, uint16_t context, const void *data, size_t bytes);

/* ---- recv.c -------------------------------------------------------------------------------------------- */

/* MPI_ERR_COUNT. */
int hdl_recv_fill_buffer(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t);
/* The earliest message that matches, or NULL and in *rc whether a failed rank makes it impossible. */
struct hdl_unexpected *hdl_probe_find(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status, int *rc);
void hdl_probe_wait(int src, int tag, struct hdl_comm *comm, uint16_t context);

/* ---- arrive.c ------------------------------------------------------------------------------------------ */

extern const struct hdl_upcalls hdl_p2p_upcalls;	/* context: the struct hdl_matching */

/* ---- comm.c -------------------------------------------------------------------------------------------- */

int hdl_comm_init(void);
void hdl_comm_fini(void);
/* The communicator's name for people: its own, or "communicator #context". Static or in buf. */
const char *hdl_comm_label(const struct hdl_comm *comm, char buf[static MPI_MAX_OBJECT_NAME]);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* The blocking operation that this rank is in, if it waits; with several threads see hdl_waiters. */
extern const struct hdl_op *hdl_blocked;
/* After a progress that found nothing. *idle starts at 0; set it back to 0 when something was found. Also looks whether
 * a report was asked for. */
void hdl_p2p_idle(unsigned *idle);
int hdl_report_init(void);
int hdl_report_start(void);	/* the transport is there */
/* waits: MPI_Finalize begins to wait for sends; from HEDDLE_FINALIZE_WARN on it prints for which. false: it has ended. Takes the
 * transport's timers (hdl_tp_on_timers). */
void hdl_report_finalizing(bool waits);
/* From here on the rank waits in MPI_Finalize for the others, without coming to hdl_p2p_idle, and who asks does not wake the transport. */
void hdl_report_leaving(void);
/* Since when this rank waits, where it is not hdl_threads (then see hdl_waiters); monotonic_ns(), 0: for a moment only. */
extern uint64_t hdl_blocked_since;
/* Waits are dated after so many looks in vain, so that short ones read no clock. */
extern unsigned hdl_dated_after;
void hdl_report_fini(void);

#endif
