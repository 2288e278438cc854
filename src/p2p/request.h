/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of src/p2p: the whole request (struct hdl_op), unexpected messages, and the functions of the files. match.h
 * has the queues. */
#ifndef HDL_P2P_REQUEST_H
#define HDL_P2P_REQUEST_H

#include <limits.h>

#include "base/base.h"
#include "p2p/p2p.h"
#include "runtime/runtime.h"
#include "runtime/threads.h"


/* Contexts of no communicator (those of the id HDL_ID_GROUPS). HDL_CONTEXT_CANCEL: the library of one rank to that of another;
 * the tag is the sender's number of an announced message to be withdrawn. The RTS of that message arrived before, since messages
 * of a rank arrive in order. */
#define HDL_CONTEXT_CANCEL 4
#define HDL_CONTEXT_GROUPS 5	/* agreements without a communicator (comm/comm_cid.h) */

/* OTHER: of a collective. SEND, RECV: an operation. NONE and above: no operation (MPI_PROC_NULL), made of other requests, or of a
 * layer above (ACCESS: of one process's access to a file or window); reports leave these out. */
enum hdl_req_kind { HDL_REQ_OTHER, HDL_REQ_SEND, HDL_REQ_RECV, HDL_REQ_NONE, HDL_REQ_PAIR, HDL_REQ_PERSISTENT,
		    HDL_REQ_GENERALIZED, HDL_REQ_ACCESS, HDL_REQ_KINDS };

struct hdl_op;

/* Functions in which kinds of requests differ; NULL: no difference. request.c calls the files above it only through this
 * table. */
struct hdl_req_ops {
	void (*cancel)(struct hdl_op *op);	/* hdl_req_cancel of a request that is not done */
	void (*put)(struct hdl_op *op);		/* HDL_REQ_PERSISTENT: the request goes back to the pool; frees the request's
						 * objects */
	void (*free)(struct hdl_op *op);	/* HDL_REQ_GENERALIZED: in place of hdl_op_put */
};
extern const struct hdl_req_ops *hdl_req_ops[HDL_REQ_KINDS];	/* set by hdl_p2p_init; no entry is NULL then */
extern const struct hdl_req_ops hdl_send_ops, hdl_recv_ops, hdl_persistent_ops, hdl_generalized_ops;

/* obj.magic of a request that the program has freed and that is not done. */
#define HDL_MAGIC_DETACHED 0x48444554u

/* A persistent request: follows a new request of an operation at each start, or is completed by a collective. */
struct hdl_persistent {
	int (*start)(struct hdl_op *op, struct hdl_req **inner);	/* sets *inner to NULL if the operation is done */
	/* hdl_collective_init's arguments; begin is NULL for operations */
	int (*begin)(struct hdl_req *req, void *arg);
	void (*put)(void *arg);
	void *arg;
	/* the operation's request, from the start until the completing call; NULL: the operation was done at once */
	struct hdl_req *inner;
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
	void *temp;			/* a copy of the data sent, in pooled memory; NULL: the program's own buffer is sent */
	int npending;
};

/* A send or a receive. Blocking ones have it on the stack, nonblocking ones in the pool. */
struct hdl_op {
	struct hdl_req req;

	/* matching */
	struct hdl_op *next;		/* in the queue, the free list, or a list of its owner */
	struct hdl_op **posted;		/* a posted receive: the pointer to it in its queue; else NULL */
	uint64_t stamp;			/* order of posting: decides between an exact receive and one with a wildcard */
	int32_t src;			/* number of a process (runtime/jobs.h), or MPI_ANY_SOURCE */
	int32_t tag;			/* or MPI_ANY_TAG */
	uint16_t context;
	uint8_t kind;			/* enum hdl_req_kind */
	bool sync;
	int peer;			/* rank in the communicator, as the program passed it; may be MPI_ANY_SOURCE */
	int errnum;			/* errno of the transport (positive), for the explanation; 0: none */

	/* data */
	void *buf;
	MPI_Count count;
	struct hdl_type *type;		/* the type if the data is not one run of bytes, with a reference; else NULL */
	size_t bytes;			/* of the buffer (receive) or of the message (send) */
	size_t arrived;			/* receive: length of the message that matched, set if the two lengths may differ */
	char *why;			/* explanation of an error that the members above do not give; pooled, or NULL */

	union {
		struct hdl_send send;
		struct hdl_fetch fetch;
		/* matched probe: the message until MPI_Mrecv; HDL_SELF send: the message */
		struct hdl_unexpected *message;
		struct hdl_persistent persistent;
		struct hdl_generalized generalized;
		struct hdl_pair pair;
	};
};

_Static_assert(sizeof(struct hdl_op) == HDL_OP_BYTES, "handles are looked up by this size");

/* A message that arrived before a receive that matches it. */
struct hdl_unexpected {
	struct hdl_unexpected *next;		/* in its bucket */
	struct hdl_unexpected **at;		/* the pointer to the message in its bucket; NULL: the message is in no queue */
	struct hdl_unexpected *after, *before;	/* in its context, in the order of arrival */
	struct hdl_match_entry *entries;	/* its two entries in the index of wildcards; NULL: its context is not indexed */
	int32_t src, tag;
	uint16_t context;
	uint8_t kind;			/* enum hdl_kind, or HDL_SELF */
	size_t len;			/* length of the message */
	union {
		size_t heap_bytes;		/* HDL_EAGER: bytes of the heap that the struct takes */
		struct hdl_op *self;	/* HDL_SELF: the send of this rank, which keeps the data */
	};
	char data[];			/* HDL_EAGER: the message; HDL_RTS: the transport's record of HDL_RTS_SIZE bytes */
};
#define HDL_SELF	0xff

/* ---- buffer.c -------------------------------------------------------------------------------------------- */

size_t hdl_buf_size(const void *buf);	/* bytes of the heap that a buffer takes */
void hdl_buf_fini(void);

/* ---- error.c ------------------------------------------------------------------------------------------- */

/* Keeps an errno of the transport (either sign) for the explanation. Returns the error class of that errno. */
int hdl_op_fail(struct hdl_op *op, int err);

/* ---- request.c ----------------------------------------------------------------------------------------- */

extern struct hdl_op *hdl_free_ops;
bool hdl_op_pool_grow(void);
/* Takes an operation from the pool, with a reference to comm. Returns NULL without memory. */
static inline struct hdl_op *hdl_op_new(struct hdl_comm *comm, enum hdl_req_kind kind)
{
	if (unlikely(!hdl_free_ops) && !hdl_op_pool_grow())
		return NULL;
	struct hdl_op *op = hdl_free_ops;
	hdl_free_ops = op->next;
	/* the other members are as hdl_op_put left them */
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
/* Ends the job: a request that the program has freed has failed. */
_Noreturn void hdl_req_orphan_failed(struct hdl_req *req);
/* Calls fn when the request is done, or now if the request is done already. fn must free the request. */
void hdl_req_follow(struct hdl_req *req, void (*fn)(struct hdl_req *req), void *arg);
bool hdl_persistent_sends(const struct hdl_op *op);
/* Returns true if a buffer is attached. *bytes: its size; 0: MPI_BUFFER_AUTOMATIC. */
bool hdl_bsend_is_attached(const struct hdl_bsend_space *space, size_t *bytes);
/* HEDDLE_REPORT_LEAKS: of hdl_match_each_unexpected. Records a message that was never received. */
void hdl_leaked_message(const struct hdl_unexpected *u, void *arg);
void hdl_op_put(struct hdl_op *op);
void hdl_bsend_fini(void);
/* The rest of hdl_wait_done, when the first turn of progress found nothing. */
void hdl_wait_idle(volatile int *done, struct hdl_ep *ep, const struct hdl_op *op);
/* Makes progress until *done. ep: the peer to poll first, or NULL. op: the blocking operation, for reports; NULL if the operation
 * is in the pool. */
static inline void hdl_wait_done(volatile int *done, struct hdl_ep *ep, const struct hdl_op *op)
{
	while (likely(!*done)) {
		if ((!(ep ? hdl_tp_progress_peer(ep) : hdl_tp_progress(hdl_mpi_tp)) && !*done) || unlikely(hdl_threads)) {
			hdl_wait_idle(done, ep, op);
			return;
		}
	}
}
/* Requests of the pool for which MPI_Finalize waits. */
extern size_t hdl_pending;

/* ---- send.c --------------------------------------------------------------------------------------------- */

/* hdl_req_cancel of a send that is not done. */
void hdl_send_cancel(struct hdl_op *op);
/* Sends a message whose request no caller keeps. The data, if any, must stay valid for good. A receiver that has ended is no
 * error. Ends the job without memory, since the receiver may wait for the message. */
void hdl_send_note(int peer, int tag, struct hdl_comm *comm, uint16_t context, const void *data, size_t bytes);

/* ---- recv.c -------------------------------------------------------------------------------------------- */

/* Sets the buffer of a receive. Returns MPI_ERR_COUNT if its bytes overflow. */
int hdl_recv_fill_buffer(struct hdl_op *op, void *buf, MPI_Count count, const struct hdl_type *t);
/* Returns the earliest message that matches and sets *status, or NULL. *rc: MPI_SUCCESS, or MPI_ERR_PROC_ABORTED if a failed rank
 * makes a match impossible. */
struct hdl_unexpected *hdl_probe_find(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status, int *rc);
void hdl_probe_wait(int src, int tag, struct hdl_comm *comm, uint16_t context);

/* ---- arrive.c ------------------------------------------------------------------------------------------ */

extern const struct hdl_upcalls hdl_p2p_upcalls;	/* context: the struct hdl_matching */

/* ---- comm.c -------------------------------------------------------------------------------------------- */

int hdl_comm_init(void);
void hdl_comm_fini(void);
/* Returns a communicator's name for messages: its own, or "communicator #id". In buf. */
const char *hdl_comm_label(const struct hdl_comm *comm, char buf[static MPI_MAX_OBJECT_NAME]);

/* ---- report.c ------------------------------------------------------------------------------------------ */

/* The blocking operation in which this rank waits; NULL: none. With several threads hdl_waiters has the operations. */
extern const struct hdl_op *hdl_blocked;
/* To be called after a turn of progress that found nothing; spins, yields or sleeps. *idle must be 0 at first and after each turn
 * that found something. Prints a report that was requested. */
void hdl_p2p_idle(unsigned *idle);
int hdl_report_init(void);
int hdl_report_start(void);	/* must be called when the transport is there */
/* waits: MPI_Finalize begins to wait for sends; after HEDDLE_FINALIZE_WARN a report names them. false: the wait has ended. Uses
 * the transport's timers (hdl_tp_on_p2p_timers). */
void hdl_report_finalizing(bool waits);
/* From here on the rank waits in MPI_Finalize for the other ranks without calling hdl_p2p_idle; a request for a report must not
 * wake the transport. */
void hdl_report_leaving(void);
/* When this rank's wait began, in monotonic_ns(); 0: too short to be dated. Without hdl_threads; with it, hdl_waiters has the
 * times. */
extern uint64_t hdl_blocked_since;
/* Turns without a result after which a wait is dated, so that short waits do not read the clock. */
extern unsigned hdl_dated_after;
void hdl_report_fini(void);

#endif
