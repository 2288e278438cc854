/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/transport: moves messages between ranks over verbs queues (RC, UD, XRC, DC), in order and exactly once per
 * peer, on any lane.
 *
 *      p2p ──hdl_ep_send──▶ endpoint ── ring | SRQ eager | rendezvous ──▶ verbs
 *      p2p ◀──upcall────── order (expected, parked) ◀── progress
 *
 * The transport has peers and bytes, and no matching. No code depends on the name of the device: the device's report
 * (ibv_query_device_ex, mlx5dv, exp caps) decides.
 */
#ifndef HDL_TRANSPORT_H
#define HDL_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/runtime.h"

struct hdl_tp;			/* an instance of the transport, with all of its state */
struct hdl_ep;			/* one peer of an instance */

/* First 16 bytes of every two-sided message on every lane; little-endian. */
struct hdl_hdr {
	int32_t tag;
	uint16_t context;	/* the communicator's context id, with its class (point-to-point, collective) */
	uint16_t seq;		/* per peer; the receiver delivers in this order */
	uint32_t len;		/* eager: payload bytes; RTS: bytes of the record that follows (see hdl_msg_len) */
	uint16_t reserved;	/* of the transport: srq_credit.h */
	uint8_t kind;		/* enum hdl_kind */
	uint8_t phase;		/* of the ring, which sets it: valid if it is the lap's */
};
_Static_assert(sizeof(struct hdl_hdr) == 16, "the header is one 16-byte granule");

enum hdl_kind {
	HDL_EAGER = 1,		/* payload follows */
	HDL_RTS,		/* announcement: the payload is the transport's rendezvous record, the data stays at the sender */
	/* Active messages: tag is the handler's number, context the bytes of the head. These are in the order of all messages. */
	HDL_AM,			/* head, payload */
	HDL_AM_RTS,		/* announcement: rendezvous record, head; the payload stays at the sender */
	/* Messages outside of the order of sequence numbers. */
	HDL_AM_FREE,
	HDL_AM_FREE_RTS,
};

/* A send in flight. Embedded in the caller's request. Ownership: the transport's from hdl_ep_send until done(). */
struct hdl_send {
	/* err: 0 or a negative errno. An error of this message only, reported, is -EFAULT: the device cannot read the buffer;
	 * -EREMOTEIO: the peer's buffer cannot be written; -ENOBUFS: the peer has no memory for the message. Any other is the
	 * peer's failure. The same for a fetch. */
	void (*done)(struct hdl_send *send, int err);
	/* NULL: the message is one run of bytes, at buf. Otherwise several runs (hdl_ep_send_runs): copies n bytes of the
	 * message, from byte `at` on. */
	void (*pack)(const struct hdl_send *send, uint64_t at, void *to, size_t n);
	struct hdl_ep *ep;
	const void *buf;
	size_t len;
	int32_t tag;
	uint16_t context;
	bool sync;
	bool active;		/* part of a struct hdl_am_send */
	void *next;
	uint64_t priv[6];
};

/* A rendezvous receive in flight. Embedded in the caller's request. Ownership: the transport's from hdl_ep_fetch until done(). */
struct hdl_fetch {
	void (*done)(struct hdl_fetch *fetch, int err);
	/* NULL: the message goes to one run of bytes, at buf. Otherwise to several runs (hdl_ep_fetch_runs): stores n bytes of
	 * the message, from byte `at` on. */
	void (*unpack)(const struct hdl_fetch *fetch, uint64_t at, const void *from, size_t n);
	struct hdl_ep *ep;
	void *buf;
	size_t len;		/* bytes that arrive: min(buffer, message) */
	void *next;
	uint64_t priv[7];
};

/* The functions of the layer above, with the context that each gets. arrived is called in per-peer order. The payload is valid
 * during the call only; the payload of HDL_RTS is an opaque record of HDL_RTS_SIZE bytes, which the layer above must keep and
 * pass to hdl_ep_fetch. */
struct hdl_upcalls {
	void (*arrived)(void *context, int src, const struct hdl_hdr *hdr, const void *payload);
	/* No message reaches the peer any more: its endpoint has failed, or the peer has departed (hdl_ep_has_departed), which
	 * is no failure: in the fence of hdl_tp_fini, or of another job. Once for each endpoint, behind the end of its
	 * operations. */
	void (*peer_failed)(void *context, int peer, int err);
	/* Returns true if this layer keeps a pointer to the endpoint, whose process has ended, beyond its communicators. NULL:
	 * all endpoints are kept until hdl_tp_fini. */
	bool (*holds)(void *context, const struct hdl_ep *ep);
	void *context;
	bool unpublished;	/* the runtime publishes no address of this instance, and passes no address to the instance:
				 * hdl_peer_add adds all */
};
#define HDL_RTS_SIZE 32

/* Bytes of a message as its sender counts them: of the payload, or of the whole message that an RTS announces (which may exceed 4
 * GiB). payload: as given to arrived(), or the kept record. */
static inline uint64_t hdl_msg_len(const struct hdl_hdr *hdr, const void *payload)
{
	uint64_t n = hdr->len;
	if (hdr->kind == HDL_RTS)
		__builtin_memcpy(&n, payload, sizeof(n));	/* the record begins with the length */
	return n;
}

/* Joins the software HCA early. May be called at the very beginning of MPI_Init, when the process often has no other thread yet:
 * that spares hdl_tp_init some milliseconds. */
void hdl_tp_prepare(void);
/* Writes the name of the software HCA's fabric that this process is in, or would be in. */
#define HDL_FABRIC_NAME 64
void hdl_tp_fabric(char name[HDL_FABRIC_NAME]);
/*
 * Makes an instance: opens the device(s) and publishes its addresses. 0 or a negative errno, reported.
 *
 * A process may have several instances, of which one at most is published. They share the state of the process: variables,
 * the job and other jobs, the runtime's connection to its server, the reports' output, and runtime/threads.h. One of them keeps
 * the registrations of messages' memory.
 *
 * Must: one thread at a time is inside an instance. Two threads may be inside two, except in hdl_tp_init, hdl_tp_fini,
 * hdl_peer_add and the first message to a process whose address the runtime has to be asked for. With hdl_threads hdl_tp_idle
 * releases the lock of runtime/threads.h and sleeps as the poller, whichever instance it is called for: a thread without the
 * lock must not call it. A thread that runs two instances must not sleep in hdl_tp_idle: a message for the other instance need
 * not end that sleep.
 */
int hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance);
/* Ends an instance. Collective over the job: drains what is in flight, waits until all ranks have done so (a hdl_rt_fence during
 * which this rank still answers), prints the report if configured, sets *instance to NULL, and closes. *instance may be NULL:
 * nothing is done. Other instances of this thread make no progress meanwhile: no rank may depend on their progress in order to
 * enter the fence. */
int hdl_tp_fini(struct hdl_tp **instance);
/* Ends an instance without the other ranks: drains what is in flight and sends the peers HDL_CTL_LEAVE, so that this process's
 * end is no error to them. *instance as above. */
void hdl_tp_leave(struct hdl_tp **instance);
/* For a rank that keeps its instance while other ranks end theirs by hdl_tp_fini: the rank must call this function, and enter the
 * fence in place of hdl_tp_fini. From then on the end of another rank is no error. */
void hdl_tp_stay(struct hdl_tp *tp);
/* This process will make no progress for an unknown time: handles and acknowledges the messages that have arrived. */
void hdl_tp_rest(struct hdl_tp *tp);

/* Processes are named by their numbers (runtime/jobs.h): those of this job by their ranks. */

/* Returns the endpoint of a process (this one included), made on first use; the endpoint connects lazily. NULL with errno: no
 * memory, or the process's address is not available. */
struct hdl_ep *hdl_ep(struct hdl_tp *tp, int proc);

/* Writes this process's address as a record, for processes to which the runtime does not give it. Returns its length. */
#define HDL_ADDRESS_MAX 288
size_t hdl_tp_address(struct hdl_tp *tp, char record[HDL_ADDRESS_MAX]);
/* Gives the address of a process of another job, or, to an unpublished instance, of any process. From here on messages to and
 * from that process are possible. Returns 0, or a negative errno, reported: -EPROTO: the record is no address, or another
 * process's; -EINVAL: variables that must be equal differ; -ESTALE: the rank has an address of another incarnation. */
int hdl_peer_add(struct hdl_tp *tp, int proc, const void *record, size_t len);

/* Returns the endpoint; NULL: no endpoint, since there was never a message to or from that process. Processes that have ended, of
 * jobs with which there is no communicator any more, share one endpoint, which has failed. */
struct hdl_ep *hdl_ep_find(struct hdl_tp *tp, int proc);
/* Forgets n processes of another job, from number `first` on: their addresses, and that they have ended. Returns false, and
 * nothing is forgotten, while one of them has an endpoint of its own. Must: nothing in the layers above has a number of these
 * processes, and no other instance has their addresses. */
bool hdl_tp_forget(struct hdl_tp *tp, int first, int n);
/* Walks the endpoints in the order in which they were made: the first one (NULL), the one after ep; NULL: there is no other. */
struct hdl_ep *hdl_ep_next(struct hdl_tp *tp, const struct hdl_ep *ep);
/* Returns the state of a process. On this host: by pid and start time (runtime/alive.c), not by errors of its queues. On other
 * hosts and in other PID namespaces: by hdl_rt_has_ended; HDL_PROC_UNKNOWN until that function reports the end. */
enum hdl_proc_state hdl_ep_process(struct hdl_tp *tp, int proc);
/* Returns true if the process has sent HDL_CTL_LEAVE, in MPI_Finalize of another job or at the exit of a program with sessions:
 * the process has done its part of all operations, and its end is no failure. */
bool hdl_ep_has_departed(struct hdl_tp *tp, int proc);
/* Per-peer state of the layer above, so that it needs no table of all ranks. */
struct hdl_ep_note {
	int rank;		/* the number that was given to hdl_ep */
	int failed;		/* errno of peer_failed; 0: not called */
	uint8_t eager_off;	/* enum hdl_eager_off in force: hdl_ep_eager_off's */
	size_t bytes;		/* bytes of the peer's messages that wait for a receive: summed up at intervals, or counted */
};
struct hdl_ep_note *hdl_ep_note(struct hdl_ep *ep);

/* Sends len bytes with this matching header (tag, context; the transport fills the rest). sync: completes only when the receiver
 * has matched (MPI_Ssend). Returns 1: done, the buffer and `send` are the caller's again; 0: in flight, done() follows; negative
 * errno: refused, nothing was sent. */
int hdl_ep_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		struct hdl_send *send);
/* The same for a message that is not one run: send->pack copies it, a bounded piece at a time, within this call and until done().
 * Allocates nothing for it. */
int hdl_ep_send_runs(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, size_t len, struct hdl_send *send);
/* Withdraws a send that is in flight. Returns 1: nothing was sent, and done(-ECANCELED) was called; 0: the message was announced
 * to its receiver as *number, and waits; negative: data are in flight, done() follows. */
int hdl_ep_withdraw(struct hdl_ep *ep, struct hdl_send *send, uint32_t *number);
/* The sender's number of an announced message. */
uint32_t hdl_rts_number(const void *rts);
/* Refuses an announced message: the sender's done(-ECANCELED) follows. */
void hdl_ep_refuse(struct hdl_ep *ep, const void *rts);
/* hdl_ep_send without sync, if the message can be sent at once. Returns 1: sent, the buffer is the caller's again; 0: nothing was
 * sent, use hdl_ep_send. */
int hdl_ep_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len);

/* Back-pressure: which messages the peer announces (HDL_RTS), so that their data stays at the sender until it is fetched, and a
 * blocking send waits for its receive. Messages under way still come eagerly. */
#define HDL_HOLD_LEAST HDL_RTS_SIZE	/* an announcement's length */
enum hdl_eager_off {
	HDL_EAGER_ON,		/* by length, as at first */
	HDL_EAGER_SHORT,	/* those longer than HDL_HOLD_LEAST */
	HDL_EAGER_NONE,		/* all */
};
void hdl_ep_eager_off(struct hdl_ep *ep, enum hdl_eager_off off);

/* Fetches the message announced by an HDL_RTS into buf, at most cap bytes; cap may be 0 (matched, truncated or empty). 0: done()
 * follows, never inside the call. Negative errno: done() does not follow, and the announcement was answered: the caller must not
 * refuse it. */
int hdl_ep_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *fetch);

/* The same into memory that is not one run: fetch->unpack gets it piece by piece, each byte once, in any order, until done(). */
int hdl_ep_fetch_runs(struct hdl_ep *ep, const void *rts, size_t cap, struct hdl_fetch *fetch);

/* Handles arrivals, completions, and timers that are due. Returns the number of events. */
int hdl_tp_progress(struct hdl_tp *tp);
/* The same, polling one peer's ring first: the latency path of a blocking receive from a known source. */
int hdl_tp_progress_peer(struct hdl_ep *ep);

/* Returns a number that changes after turns of progress have been made for a fraction of a millisecond. */
uint64_t hdl_tp_turned(const struct hdl_tp *tp);

/* Waits. Must follow a progress that found nothing; *idle starts at 0 and is the caller's. Spins, then yields, then sleeps until
 * something arrives for this process; never misses a wake-up. */
void hdl_tp_idle(struct hdl_tp *tp, unsigned *idle);
/* Ends a sleep in hdl_tp_idle. May be called by any thread, without the lock (runtime/threads.h), and by a signal handler. tp may
 * be NULL. */
void hdl_tp_wake(struct hdl_tp *tp);

/* ---- active messages ------------------------------------------------------------------------------------------ */

/* Active message: a message without matching, whose handler runs at the peer in the peer's progress. A handler must have the same
 * number in all processes of the job. A message has a short head, which is always copied, and a payload. A payload that fits an
 * eager message of the lane comes with the head. A longer payload, or one that is sent with HDL_AM_ANNOUNCE, is announced: the
 * handler, or code to which the handler passes the announcement, names the buffer into which the payload is fetched by
 * rendezvous. */
#define HDL_AM_HEAD_MAX 64u
#define HDL_AM_IDS 256u			/* numbers are below this */
#define HDL_AM_OWN 16u			/* numbers below this are the transport's own */

/* A handler's message. Valid during the call only; head and data may lie at any address, aligned or not. */
struct hdl_am {
	struct hdl_ep *ep;	/* the sender */
	const void *head, *data;
	size_t head_len;
	size_t len;		/* bytes of the payload */
	const void *rts;	/* NULL: the payload is at data. Otherwise the announcement, HDL_RTS_SIZE bytes, which may be kept
				 * and must be passed to hdl_ep_fetch, hdl_ep_fetch_runs or hdl_ep_refuse, once: the sender waits
				 * for one of these */
};

/* A handler, called within progress. May send messages, fetch, put, get and so on. Must not wait for any of them; hdl_tp_progress
 * does nothing in a handler. */
typedef void (*hdl_am_fn)(void *context, const struct hdl_am *am);

/* Registers a handler. Must be called before any progress that could bring a message for it. 0, -EINVAL (no such number), -EEXIST
 * or -ENOMEM; reported. fn NULL removes the handler: a later message with this number is reported as an error with peer and
 * number, and its payload, if announced, is refused. */
int hdl_am_register(struct hdl_tp *tp, unsigned id, hdl_am_fn fn, void *context);

enum {
	HDL_AM_ORDERED = 1,	/* the handler runs behind those of all ordered messages, and behind the arrival of all matching
				 * messages, that were sent to this peer before; without it, when the message arrives */
	HDL_AM_ANNOUNCE = 2,	/* the payload is announced, however short it is */
};

/* An active message in flight. Ownership: the transport's from hdl_am_send until send.done(). */
struct hdl_am_send {
	struct hdl_send send;	/* the caller must set `done` */
	const void *data;
	size_t len;
	unsigned flags, head_len;
	char head[HDL_AM_HEAD_MAX];
};

/* Sends an active message. The head is copied; data is the transport's until the message has left. Without room the message waits
 * in the caller's memory. Returns 1: done, data and `am` are the caller's again; 0: in flight, am->send.done() follows, with
 * -ECANCELED if an announced payload was refused; negative errno: refused, nothing was sent. */
int hdl_am_send(struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len, const void *data, size_t len,
		struct hdl_am_send *am);

/* HEDDLE_REPORT_MEMORY: enters this transport's memory in the ledger (hdl_ledger_heap). */
void hdl_tp_memory(struct hdl_tp *tp);

/* ---- remote memory -------------------------------------------------------------------------------------------- */

/*
 * A region is memory of this process that peers may reach. The region's key is a string of bytes that may be sent to any peer; a
 * peer makes a handle of the key, for its puts, gets and updates. Each operation is asynchronous, and ends when complete at the
 * target: the bytes of a put are visible there, those of a get are here. A flush ends when all earlier operations to a peer have.
 * Operations have no order among themselves or with messages, except by their ends.
 *
 * RDMA queues carry operations without the target's help, if the region is registered with the device. Otherwise active messages
 * carry the operations, and the owner must make progress (transport/rma).
 *
 * Atomic operations are atomic towards each other, since one agent carries out all atomic operations on a region: the owner's
 * handlers, or the owner's device. The owner chooses the agent at registration, and the key names the agent. Atomic operations
 * are not atomic towards puts and gets, nor towards the owner's loads and stores: an owner that updates the region must use
 * hdl_atomic on its own key.
 */
enum {
	HDL_MR_READ = 1,
	HDL_MR_WRITE = 2,
	HDL_MR_ATOMIC = 4,		/* by handlers: all operations, 4 and 8 bytes, at any address */
	HDL_MR_ATOMIC_DEVICE = 8,	/* by the device: all operations, 4 and 8 bytes, at multiples of their width; those that
					 * the device lacks are loops of compare-and-swap. Address and length must be multiples of
					 * 8 */
	HDL_MR_ATOMIC_OF_HOST = 16,	/* with HDL_MR_ATOMIC_DEVICE, of two devices: the agent is the one towards peers of this
					 * host, since no other peer updates the region. Without this flag: the one towards peers
					 * of other hosts */
};
struct hdl_mr;
struct hdl_rkey;

/* Makes a region of len bytes at base, which must stay valid until hdl_mr_deregister. 0; -EINVAL: no such access, or
 * HDL_MR_ATOMIC_DEVICE at a wrong address; -EOPNOTSUPP: the device does not do HDL_MR_ATOMIC_DEVICE: use HDL_MR_ATOMIC;
 * -ENOMEM, reported. A device that refuses the registration is no error. */
int hdl_mr_register(struct hdl_tp *tp, void *base, size_t len, unsigned access, struct hdl_mr **mr);
/* Returns true if there is a device for HDL_MR_ATOMIC_DEVICE, or, of_host, for HDL_MR_ATOMIC_OF_HOST with it: one with connected
 * queues and atomic requests, and RC queues if it is the second one. */
bool hdl_mr_has_atomics(struct hdl_tp *tp, bool of_host);
/* Ends the region: a later operation by the region's key fails (-EACCES) at its origin, alone. Returns 0; -EBUSY, reported: this
 * process is helping with an operation of a peer, and the region stays. The owner cannot see RDMA in flight, which fails in the
 * middle: before this call peers must flush, and notify the owner of the flush. */
int hdl_mr_deregister(struct hdl_mr *mr);

#define HDL_RKEY_MAX 64u
/* Writes the region's key, at most HDL_RKEY_MAX bytes; returns how many. Any process of the job may use it. */
size_t hdl_mr_pack(const struct hdl_mr *mr, void *key);
/* Makes a handle of a key of ep's process. 0; reported: -EINVAL (no key), -ESTALE (of another process, or of an earlier
 * incarnation), -ENOMEM. */
int hdl_rkey_unpack(struct hdl_ep *ep, const void *key, size_t n, struct hdl_rkey **rkey);
/* Returns 0; -EBUSY, reported: an operation that uses the handle is in flight, and the handle stays. */
int hdl_rkey_release(struct hdl_rkey *rkey);

/* An operation in flight. Ownership: the transport's until done(). */
struct hdl_rma {
	void (*done)(struct hdl_rma *op, int err);	/* the caller must set it */
	/* the rest is the transport's */
	struct hdl_ep *ep;
	struct hdl_rma *next, *prev, *wait_next;
	struct hdl_rkey *key;
	void *buf;
	uint64_t raddr, len, posted;	/* offset in the region, bytes, bytes that were posted */
	uint64_t operand, compare, guess, old;
	struct hdl_region *region;
	struct hdl_txbuf *landing;
	uint32_t id;
	int err;
	uint16_t inflight;
	uint8_t type, update, width;
	bool queued, awaits_answer, in_call, ended;
	struct hdl_am_send am;
	struct hdl_fetch fetch;
};

/*
 * Operations on `offset` of a region. Each returns 1: complete, op is the caller's again; 0: in flight, op->done() follows, with
 * 0 or a negative errno, and the local memory is the transport's until then; a negative errno: failed, done() does not follow.
 * -ERANGE and -EACCES (not within the region; not of these rights) are reported. Of done(), too:
 *     -EACCES       the region has ended, or does not grant this: only the operation has failed. Reported
 *     -EREMOTEIO    the region's memory is unmapped or protected: only the operation has failed
 *     -EFAULT       the local memory is unmapped or protected: only the operation has failed. (A put of up to 1 KiB that this
 *                   process's CPU copies is a signal)
 *     -ECONNRESET   an atomic operation whose queue broke: executed once or not at all, and which of the two is unknown. (A put
 *                   or a get is replayed: a put may be written twice before it ends, with the same bytes)
 *     the peer's    the peer has failed
 */
int hdl_put(struct hdl_rkey *rkey, uint64_t offset, const void *buf, size_t len, struct hdl_rma *op);
int hdl_get(struct hdl_rkey *rkey, uint64_t offset, void *buf, size_t len, struct hdl_rma *op);
enum hdl_update { HDL_FETCH_ADD = 1, HDL_SWAP, HDL_COMPARE_SWAP, HDL_AND, HDL_OR, HDL_XOR };
/* Updates `width` (4 or 8) bytes by an operand of that width, if they equal `compare` (HDL_COMPARE_SWAP only). The value before
 * is written to `result`, which may be NULL. Operands and results are native integers. -EINVAL, reported: no such update, or
 * HDL_MR_ATOMIC_DEVICE at an address that is not a multiple of the width. */
int hdl_atomic(struct hdl_rkey *rkey, uint64_t offset, enum hdl_update update, unsigned width, uint64_t operand, uint64_t compare,
	       void *result, struct hdl_rma *op);
/* Ends when all earlier operations to this peer have ended, complete or failed, and done() was called for each. err: of the first
 * that failed since the last flush that ended. */
int hdl_flush(struct hdl_ep *ep, struct hdl_rma *op);

/* Begins to connect a lane that carries operations on remote memory without the peer's help. Without this call the first
 * operation begins the connection, and waits until the peer makes progress. Returns 0: the lane is connected or being connected
 * (hdl_rma_connecting); -EOPNOTSUPP, or another negative errno: no such lane. */
int hdl_rma_connect(struct hdl_ep *ep);
bool hdl_rma_connecting(const struct hdl_ep *ep);

/*
 * Agent queues: this process's queues to peers of its host whose regions have as agent the device that leads to other hosts
 * (transport/rma/agent_queue.c). Without an agent queue an update goes by message, and the owner must make progress.
 */
/* Returns true if the agent of a region of this process does not reach the peers of this host by their lanes. */
bool hdl_mr_has_agent_queues(const struct hdl_mr *mr);
/* Begins to connect the agent queue to a peer of this host, unless connected. Returns 0: the queue is connected, or being
 * connected (hdl_agent_connecting) and the peer must make progress; a negative errno: no such queue. A queue that breaks is
 * connected again. */
int hdl_agent_connect(struct hdl_ep *ep);
bool hdl_agent_connecting(const struct hdl_ep *ep);
bool hdl_agent_stands(const struct hdl_ep *ep);

/* ---- counters ------------------------------------------------------------------------------------------------- */

/* A counter of the transport, counted from the instance's start. Read-only; counting does not depend on reads. */
struct hdl_counter {
	const char *name;	/* lower case, words joined by _; constant */
	const char *text;	/* the counted event, in a sentence */
	bool per_peer;		/* the counter can be read for one peer, too */
};
/* Counter `i`, in an order that does not change while the process runs; NULL: there is none. */
const struct hdl_counter *hdl_counter(unsigned i);
/* Returns true if the device counts it (shca_counts), not the transport; 0 on devices that do not. Must: counter i is there. */
bool hdl_counter_of_device(unsigned i);
/* Reads a counter. ep: of this peer, if the counter is per peer (others: 0); NULL: of this process. */
uint64_t hdl_counter_read(struct hdl_tp *tp, unsigned i, const struct hdl_ep *ep);

/* ---- for the collectives' HCA executor --------------------------------------------------------------------- */

struct hdl_port {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t port_num;
	uint16_t lid;
	int gid_index;
	union ibv_gid gid;
	enum ibv_mtu mtu;
};
/* The port by which this process reaches the ranks of its host; NULL: none. */
const struct hdl_port *hdl_tp_local_port(struct hdl_tp *tp);
/* Returns true if HEDDLE_TRANSPORT allows RC queues: the same on all ranks. */
bool hdl_tp_allows_rc(struct hdl_tp *tp);
/* Moves a new RC QP to RTS towards (gid, lid, qpn) on the same port, with Heddle's timeouts. 0 or a negative errno. */
int hdl_tp_rc_connect(struct hdl_tp *tp, struct ibv_qp *qp, const struct hdl_port *port, const union ibv_gid *gid, uint16_t lid,
		      uint32_t qpn, uint32_t psn);
/* Called by hdl_tp_progress in each turn; for executors that poll their own CQs. Returns the number of events. */
typedef int (*hdl_progress_fn)(void *arg);
int hdl_tp_progress_add(struct hdl_tp *tp, hdl_progress_fn fn, void *arg);
void hdl_tp_progress_remove(struct hdl_tp *tp, hdl_progress_fn fn, void *arg);
/* Lets completions on an executor's own CQs wake a process that sleeps in hdl_tp_idle: the executor must create these CQs on this
 * channel, and arm (ibv_req_notify_cq) those for which it waits in `arm`, which is called before each sleep, ahead of the last
 * progress. The transport gets and acknowledges the events. */
struct ibv_comp_channel *hdl_tp_local_channel(struct hdl_tp *tp);
void hdl_tp_on_sleep(struct hdl_tp *tp, void (*arm)(void));
/* Sets a function that is called with the time at intervals, and before each sleep. The function carries out the due work,
 * without completing anything, and returns the time of its next call; 0: none. If that time is past, this process does not sleep
 * before progress has run. */
void hdl_tp_on_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now));
/* The same for p2p, beside the executors' function. */
void hdl_tp_on_p2p_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now));
/* For an executor with operations that the program has not completed, called before hdl_tp_fini or hdl_tp_leave.
 * under_way: returns true while an operation is under way; fenced: all ranks have entered MPI_Finalize, so that a process
 * that ends is no failure. end: gives up the operations that are left, and destroys the executor's queues; called once,
 * ahead of the transport's own. */
void hdl_tp_on_close(struct hdl_tp *tp, bool (*under_way)(bool fenced), void (*end)(void));
/* `give` is called when a device, or memory, has no room for the transport: releases cached memory, and returns whether there was
 * any. */
void hdl_tp_on_shortage(struct hdl_tp *tp, bool (*give)(void));
/* Counts, for the report, requests and bytes that an executor posts to its own RC queues. WAIT and ENABLE must not be counted:
 * the device does not count them either. */
void hdl_tp_count_rc(struct hdl_tp *tp, uint64_t requests, uint64_t bytes);

/* Promises of both devices by which this process and another one of its host reach each other: computed from both records, so
 * that both processes get the same result, however unequal their devices are. Negative errno: the address is not available; the
 * caller must not take that for a lacking promise, since the other process may have the promise. */
#define HDL_PROMISES_WAKES 1u	/* hdl_tp_wakes_on_write */
#define HDL_PROMISES_AT_ONCE 2u	/* hdl_tp_writes_at_once */
#define HDL_PROMISES_EXPOSES 4u	/* hdl_tp_can_expose */
int hdl_tp_promises(struct hdl_tp *tp, int proc);

/* The place of a process. All processes under one kernel get the same values for a process. */
struct hdl_place {
	bool here;			/* the process runs under this process's kernel, in the same fabric: the device for this
					 * host reaches the process */
	bool oversubscribed;		/* the ranks of its job outnumber their CPUs there */
	int cores;			/* CPUs of the ranks of its job there, at most UINT8_MAX */
};
/* Returns 0, or a negative errno: the address cannot be had, as for hdl_tp_promises. */
int hdl_tp_place(struct hdl_tp *tp, int proc, struct hdl_place *out);

/* Returns true if an RDMA write by a peer wakes this process when it sleeps in hdl_tp_idle. */
bool hdl_tp_wakes_on_write(struct hdl_tp *tp);
/* Returns true if a write to a connected peer of this host has landed when its post has returned, and behind the queue's write
 * before it. */
bool hdl_tp_writes_at_once(struct hdl_tp *tp);
/* Returns true if peers of this host read and write all memory of this process without registration, and by which keys; either
 * may be NULL. */
bool hdl_tp_exposes(struct hdl_tp *tp, uint32_t *lkey, uint32_t *rkey);
/* The same, had the device not refused this one process its region of all memory. */
bool hdl_tp_can_expose(struct hdl_tp *tp);
/* Returns true if the bytes of RDMA writes by this queue land in ascending order. Must: it is in RTS. */
bool hdl_tp_in_order(struct ibv_qp *qp);

/* Prints the waits of this process, a line per queue and peer, for SIGUSR1 and --report-hang. */
void hdl_tp_dump(struct hdl_tp *tp, FILE *out);

/*
 * Memory that the processes of one host and fabric load and store in place. The memory outlives the process that allocated it: a
 * peer's store after that process's death changes no memory of a third process. Whole pages, zeroed, and reserved: no access
 * raises SIGBUS.
 *
 * hdl_tp_share returns NULL with errno: EOPNOTSUPP, the device has no such memory (peers reach this process by requests only);
 * ENOMEM. *where: the memory's place in the fabric, for peers. hdl_tp_unshare frees the memory; must: no peer uses the memory any
 * more.
 */
void *hdl_tp_share(struct hdl_tp *tp, size_t bytes, uint64_t *where);
void hdl_tp_unshare(struct hdl_tp *tp, void *p);
/* Returns the address here of a peer's memory of hdl_tp_share. NULL: this process does not map it. A peer of another fabric has
 * other memory at the same place: before the first store the caller must check known contents. */
void *hdl_tp_shared_at(struct hdl_tp *tp, uint64_t where, size_t bytes);

/* Shared memory of processes of one host, without a device (mem/segment.c): the maker allocates the
 * segment, its peers open it. */
enum hdl_segment_how { HDL_SEGMENT_ANONYMOUS, HDL_SEGMENT_NAMED };
struct hdl_segment {			/* as the processes exchange it: no padding */
	uint64_t bytes, nonce;
	int32_t pid, fd;		/* the maker's */
	uint32_t how, reserved;		/* enum hdl_segment_how */
};
/* Makes a segment of zeroed bytes, reserved as above. Returns the address, or NULL with errno; ENOMEM: there is not enough
 * memory. Must be followed by hdl_segment_opened when all peers have opened it, or have failed to. bytes must not be 0. */
void *hdl_segment_make(enum hdl_segment_how how, size_t bytes, struct hdl_segment *s);
void hdl_segment_opened(struct hdl_segment *s);
/* Maps a peer's segment. NULL with errno: this process cannot. */
void *hdl_segment_open(const struct hdl_segment *s);
void hdl_segment_unmap(void *p, size_t bytes);

/* Returns true if some of these bytes cannot be read, or written: a page is unmapped, protected, or beyond the end of its file.
 * False also where the kernel cannot report it. One system call if all bytes are accessible. */
bool hdl_tp_unreachable(const void *p, uint64_t bytes, bool written);

/* MPI_Alloc_mem: memory of the device's arena if there is one (ibv_alloc_dm or the library's own registered pool), so that peers
 * reach it without a copy through the kernel. */
void *hdl_tp_alloc(struct hdl_tp *tp, size_t bytes);
/* hdl_tp_alloc by hdl_tp_share, where there is such memory: peers load and store in place, and the memory outlives the process
 * that allocated it. */
void *hdl_tp_alloc_shared(struct hdl_tp *tp, size_t bytes);
/* The place of memory of hdl_tp_alloc_shared, as hdl_tp_share has it. False: the bytes do not lie in such memory. */
bool hdl_tp_place_of(struct hdl_tp *tp, const void *p, size_t bytes, uint64_t *where);
/* Frees memory of hdl_tp_alloc and hdl_tp_alloc_shared; NULL is allowed. False: p is of neither. */
bool hdl_tp_free(struct hdl_tp *tp, void *p);

#endif
