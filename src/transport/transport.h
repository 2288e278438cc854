/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/transport: moves messages between ranks over verbs queues (RC, UD, XRC, DC), in order and
 * exactly once per peer, whatever lane each of them takes.
 *
 *     p2p ──hdl_ep_send──▶ endpoint ── ring | SRQ eager | rendezvous ──▶ verbs
 *     p2p ◀──upcall────── order (expected, parked) ◀── progress
 *
 * The transport knows peers and bytes; it does not match. It never asks which device it runs on: what the
 * device reports (ibv_query_device_ex, mlx5dv, exp caps) selects.
 */
#ifndef HDL_TRANSPORT_H
#define HDL_TRANSPORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/runtime.h"

struct hdl_tp;			/* an instance of the transport: all that it knows hangs on it */
struct hdl_ep;			/* one peer as an instance of the transport sees it */

/* First 16 bytes of every two-sided message on every lane; little-endian. */
struct hdl_hdr {
	int32_t tag;
	uint16_t context;	/* the communicator's context id, with its class (point-to-point, collective) */
	uint16_t seq;		/* per peer; the receiver delivers in this order */
	uint32_t len;		/* eager: payload bytes; RTS: bytes of the record that follows (see hdl_msg_len) */
	uint16_t reserved;	/* the transport's: srq_credit.h */
	uint8_t kind;		/* enum hdl_kind */
	uint8_t phase;		/* the ring's, last: valid when it matches the lap */
};
_Static_assert(sizeof(struct hdl_hdr) == 16, "the header is one 16-byte granule");

enum hdl_kind {
	HDL_EAGER = 1,		/* payload follows */
	HDL_RTS,		/* the message waits at the sender: payload is the transport's rendezvous record */
	/* Active messages: the tag is the handler's number, the context the bytes of its head. In the order of all messages ... */
	HDL_AM,			/* head, payload */
	HDL_AM_RTS,		/* rendezvous record, head: the payload waits at the sender */
	/* ... and outside of it. */
	HDL_AM_FREE,
	HDL_AM_FREE_RTS,
};

/* A send in flight. Embedded in the caller's request; the transport owns it from hdl_ep_send until done(). */
struct hdl_send {
	/* err: 0 or a negative errno. Of this message only, and the peer's is one, too: -EFAULT: the buffer here cannot be read by the device;
	 * -EREMOTEIO: the peer's cannot be written; -ENOBUFS: the peer has no memory for it. Reported. Of a fetch likewise. */
	void (*done)(struct hdl_send *send, int err);
	/* NULL: the message is one run of bytes, at buf. Else it lies in many places (hdl_ep_send_runs), and this copies n bytes of it,
	 * from its byte `at` on. */
	void (*pack)(const struct hdl_send *send, uint64_t at, void *to, size_t n);
	struct hdl_ep *ep;
	const void *buf;
	size_t len;
	int32_t tag;
	uint16_t context;
	bool sync;
	bool active;		/* it is a struct hdl_am_send's */
	void *next;
	uint64_t priv[6];
};

/* A rendezvous receive in flight. Embedded in the caller's request. */
struct hdl_fetch {
	void (*done)(struct hdl_fetch *fetch, int err);
	/* NULL: it goes to one run of bytes, at buf. Else to many places (hdl_ep_fetch_runs), and this puts n bytes there, which are those
	 * from byte `at` of the message on. */
	void (*unpack)(const struct hdl_fetch *fetch, uint64_t at, const void *from, size_t n);
	struct hdl_ep *ep;
	void *buf;
	size_t len;		/* bytes that arrive: min(buffer, message) */
	void *next;
	uint64_t priv[7];
};

/* What p2p gives at init; context is given back with each call. arrived is called in per-peer order. payload is valid during the call only;
 * for HDL_RTS it is an opaque record of rts_size bytes to be kept and handed to hdl_ep_fetch. */
struct hdl_upcalls {
	void (*arrived)(void *context, int src, const struct hdl_hdr *hdr, const void *payload);
	void (*peer_failed)(void *context, int peer, int err);
	void *context;
	bool unpublished;	/* the runtime tells nobody this instance's address, nor this one others': they are all given
				 * (hdl_peer_add) */
};
#define HDL_RTS_SIZE 32

/* Bytes of a message as its sender counts them: the payload's, or those of the whole message that an RTS announces
 * (which may exceed 4 GiB). payload: as given to arrived(), or the kept record. */
static inline uint64_t hdl_msg_len(const struct hdl_hdr *hdr, const void *payload)
{
	uint64_t n = hdr->len;
	if (hdr->kind == HDL_RTS)
		__builtin_memcpy(&n, payload, sizeof(n));	/* the record begins with it */
	return n;
}

/* To be called at the very beginning of MPI_Init, when the process often has no other thread yet: it spares
 * hdl_tp_init some milliseconds then. */
void hdl_tp_prepare(void);
/*
 * Makes an instance: opens the device(s) and publishes its addresses. 0 or a negative errno; reported.
 *
 * A process may have several; one of them at most is published. They have nothing in common but the process: variables, job and other
 * jobs, the runtime's connection to its server, the reports' output, where the registrations of messages' memory are kept (one
 * instance does), and runtime/threads.h. With hdl_threads hdl_tp_idle gives that lock up, and takes its sleep for the poller's,
 * whichever instance it is called for: a thread that does not hold the lock must not call it then.
 *
 * One thread at a time may be inside each; two threads may be inside two, but for hdl_tp_init, hdl_tp_fini, hdl_peer_add and the first
 * message to a process whose address the runtime has to be asked for. Who runs two in one thread does not sleep in hdl_tp_idle: what
 * comes for the other instance need not end that.
 */
int hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance);
/* Collective over the job: drains what is in flight, waits for all ranks to have done so (a hdl_rt_fence during which
 * it goes on answering), prints the report when asked, sets *instance to NULL, then closes. *instance may be NULL: nothing is done. Other
 * instances of this thread stand still meanwhile: ranks that wait for what they have sent, and that may be lost, must not be kept by that
 * from coming here. */
int hdl_tp_fini(struct hdl_tp **instance);

/* Processes are named by their numbers here (runtime/jobs.h): those of this job by their ranks. */

/* The endpoint of a process (one's own included); made on first use, connects lazily. NULL with errno if memory is short
 * or the process's address cannot be had. */
struct hdl_ep *hdl_ep(struct hdl_tp *tp, int proc);

/* How this process is reached, for processes to which the runtime cannot tell it: a record, and its length. */
#define HDL_ADDRESS_MAX 288
size_t hdl_tp_address(struct hdl_tp *tp, char record[HDL_ADDRESS_MAX]);
/* Such a record of a process of another job; or, of an instance that is unpublished, of one of this job. From here on there may be
 * messages to it and from it. 0, or a negative errno, reported: EPROTO: it is none, or another process's; EINVAL: that process and this
 * one have different values of variables that must be equal; ESTALE: another life of that rank was met. */
int hdl_peer_add(struct hdl_tp *tp, int proc, const void *record, size_t len);

/* The same if it exists; NULL: nothing ever went to that process, or came from it. */
struct hdl_ep *hdl_ep_find(struct hdl_tp *tp, int proc);
/* Those that exist, in the order in which they were made: the first one (NULL), the one after ep; NULL: there is none. */
struct hdl_ep *hdl_ep_next(struct hdl_tp *tp, const struct hdl_ep *ep);
/* Whether a process of this host has ended: looked at (runtime/alive.c), whatever its queues tell. Of those of other hosts, and of
 * other PID namespaces, what was told (hdl_rt_has_ended): UNKNOWN as long as nobody says anything. */
enum hdl_proc_state hdl_ep_process(struct hdl_tp *tp, int proc);
/* What the layer above keeps with a peer, so that it needs no table of all ranks. */
struct hdl_ep_note {
	int rank;		/* as it was given to hdl_ep */
	int failed;		/* errno, since peer_failed; 0: it has not */
	bool eager_off;		/* it was asked to announce its messages */
	size_t bytes;		/* of its messages that wait for a receive: summed up now and then, or counted */
};
struct hdl_ep_note *hdl_ep_note(struct hdl_ep *ep);

/* Sends len bytes with this matching header (tag, context are the caller's; the rest is filled in).
 * sync: complete only when the receiver has matched (MPI_Ssend).
 * Returns 1: done, the buffer and `send` are the caller's again; 0: in flight, done() follows;
 * negative errno: refused, nothing was sent. */
int hdl_ep_send(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, const void *buf, size_t len,
		struct hdl_send *send);
/* The same of a message that does not lie in one run: send->pack copies it, a bounded piece at a time, from within this call until done(),
 * or until this has returned 1: nothing is allocated for it. */
int hdl_ep_send_runs(struct hdl_ep *ep, int32_t tag, uint16_t context, bool sync, size_t len, struct hdl_send *send);
/* Takes back a send that is in flight. 1: it never left, and done(-ECANCELED) was called; 0: it was announced to its
 * receiver as *number, and waits; negative: its data is on its way, done() follows. */
int hdl_ep_withdraw(struct hdl_ep *ep, struct hdl_send *send, uint32_t *number);
/* The number of an announced message, among its sender's. */
uint32_t hdl_rts_number(const void *rts);
/* Tells the sender of an announced message that it will not be fetched: its done(-ECANCELED) follows. */
void hdl_ep_refuse(struct hdl_ep *ep, const void *rts);
/* The same without sync, if it can be done at once: 1: sent, the buffer is the caller's again; 0: nothing happened, use hdl_ep_send. */
int hdl_ep_send_now(struct hdl_ep *ep, int32_t tag, uint16_t context, const void *buf, size_t len);

/* Asks the peer to announce its messages (HDL_RTS), so that their data stays with it until it is fetched; or no longer to. What is
 * under way still comes eagerly, and so do messages that are no longer than an announcement. */
#define HDL_HOLD_LEAST HDL_RTS_SIZE
void hdl_ep_eager_off(struct hdl_ep *ep, bool on);

/* Fetches the message announced by an HDL_RTS into buf, at most cap bytes; done() follows (never inside the
 * call). cap may be 0 (matched, truncated or empty). 0, or a negative errno: nothing will follow, and hdl_ep_fetch has answered the
 * sender, so that the caller must not refuse the announcement. */
int hdl_ep_fetch(struct hdl_ep *ep, const void *rts, void *buf, size_t cap, struct hdl_fetch *fetch);

/* The same into memory that is not one run: fetch->unpack gets it piece by piece, each byte once, in any order, until done(). */
int hdl_ep_fetch_runs(struct hdl_ep *ep, const void *rts, size_t cap, struct hdl_fetch *fetch);

/* Runs what is runnable: arrivals, completions, timers that are due. Returns the number of events handled. */
int hdl_tp_progress(struct hdl_tp *tp);
/* The same, looking at one peer's ring first: the latency path of a blocking receive from a known source. */
int hdl_tp_progress_peer(struct hdl_ep *ep);

/* Waiting: call after a progress that found nothing; *idle starts at 0 and is the caller's. Spins, then yields,
 * then sleeps until something arrives for this process; never misses a wake-up. */
void hdl_tp_idle(struct hdl_tp *tp, unsigned *idle);
/* Ends a sleep in hdl_tp_idle. Any thread may call it, without the lock (runtime/threads.h), and a signal handler. tp may be NULL. */
void hdl_tp_wake(struct hdl_tp *tp);

/* ---- active messages ------------------------------------------------------------------------------------------ */

/*
 * A message that is not matched: it names a handler, which runs at the peer when that makes progress. Handlers have numbers, on which
 * all processes of the job agree beforehand. What is sent has a short head, which is always copied, and a payload. A payload that
 * fits an eager message of the lane comes with the head; a longer one, or one that is sent with HDL_AM_ANNOUNCE, is announced, and
 * the handler, or whoever it gives the announcement to, names the buffer into which it is fetched by rendezvous.
 */
#define HDL_AM_HEAD_MAX 64u
#define HDL_AM_IDS 256u			/* handlers' numbers are below this; ... */
#define HDL_AM_OWN 16u			/* ... those below this one are the transport's own */

/* What a handler is given. All of it is valid during the call only; head and data may lie at any address, aligned or not. */
struct hdl_am {
	struct hdl_ep *ep;	/* whom it is from: an answer goes there */
	const void *head, *data;
	size_t head_len;
	size_t len;		/* the payload's */
	const void *rts;	/* NULL: the payload is at data. Else it was announced, by these HDL_RTS_SIZE bytes, which may be kept, and
				 * are to be given to hdl_ep_fetch, hdl_ep_fetch_runs or hdl_ep_refuse, once: the sender waits for it */
};

/* Runs within progress. It may send messages, active ones too, fetch, put, get and so on; it must not wait for any of them, and
 * hdl_tp_progress does nothing in it. */
typedef void (*hdl_am_fn)(void *context, const struct hdl_am *am);

/* Registers a handler; after hdl_tp_init, and before any progress that could bring a message for it. 0, -EINVAL (no such number),
 * -EEXIST or -ENOMEM; reported. fn NULL takes it back: a message that comes for it then is one to a handler that does not exist,
 * which is an error line that names peer and number; a payload that was announced is refused. */
int hdl_am_register(struct hdl_tp *tp, unsigned id, hdl_am_fn fn, void *context);

enum {
	HDL_AM_ORDERED = 1,	/* its handler runs behind those of all ordered ones, and behind the arrival of all matching messages,
				 * that were sent to this peer before; without it, as soon as it comes */
	HDL_AM_ANNOUNCE = 2,	/* the payload is fetched, however short it is */
};

/* An active message in flight; the transport's from hdl_am_send until send.done(). */
struct hdl_am_send {
	struct hdl_send send;	/* done: the caller's to set */
	const void *data;
	size_t len;
	unsigned flags, head_len;
	char head[HDL_AM_HEAD_MAX];
};

/* Sends one: the head is copied, data is the transport's until the message has left. Where there is no room it waits for it, as all
 * eager messages do, in the caller's memory. Returns 1: done, data and `am` are the caller's again; 0: in flight, am->send.done()
 * follows, with -ECANCELED if an announced payload was refused; negative errno: refused, nothing was sent. */
int hdl_am_send(struct hdl_ep *ep, unsigned id, unsigned flags, const void *head, size_t head_len, const void *data, size_t len,
		struct hdl_am_send *am);

/* HEDDLE_REPORT_MEMORY: enters this transport's memory in the ledger (hdl_ledger_heap). */
void hdl_tp_memory(struct hdl_tp *tp);

/* ---- remote memory -------------------------------------------------------------------------------------------- */

/*
 * A region is memory of this process that peers may reach. Its key is bytes that may be sent to any of them, by whatever means; a peer
 * makes a handle of them, by which it puts, gets and updates. Each operation is asynchronous, and ends when it is complete at the
 * target: what it put is there for all to see, what it got is here. A flush ends when all operations to a peer that were begun before
 * have. Operations have no order among themselves, and none with messages, but by their ends.
 *
 * Queues that carry RDMA carry them without the target's help, where the region is registered with the device; elsewhere active
 * messages do, and its owner must make progress (transport/rma). Nobody else sees which.
 *
 * Who updates: atomic operations are atomic towards each other since all of those on a region are carried out by one agent, which the
 * owner chooses when it registers the region, and the key says: its handlers, or its device. They are not atomic towards puts and
 * gets, nor towards the owner's loads and stores: an owner that takes part does it by hdl_atomic on its own key.
 */
enum {
	HDL_MR_READ = 1,
	HDL_MR_WRITE = 2,
	HDL_MR_ATOMIC = 4,		/* by handlers: all operations, 4 and 8 bytes, at any address */
	HDL_MR_ATOMIC_DEVICE = 8,	/* by the device: all operations, 4 and 8 bytes, at multiples of their width; those that the device
					 * does not know are loops of compare-and-swap. Address and length are multiples of 8 */
};
struct hdl_mr;
struct hdl_rkey;

/* Makes a region of len bytes at base, which stay where they are until hdl_mr_deregister. 0; -EINVAL: no such access, or
 * HDL_MR_ATOMIC_DEVICE at a wrong address; -EOPNOTSUPP: the device does not do HDL_MR_ATOMIC_DEVICE, or there is more than one: ask for
 * HDL_MR_ATOMIC; -ENOMEM, reported. A device with which it cannot be registered is no error. */
int hdl_mr_register(struct hdl_tp *tp, void *base, size_t len, unsigned access, struct hdl_mr **mr);
/* Ends it: keys of it are good for nothing any more, and what uses one fails (-EACCES) at its origin, alone. -EBUSY, reported: an
 * operation of a peer's is under way that this process helps with; it is a region still. (RDMA that is under way nobody here knows of:
 * it fails in the middle. Peers flush, and say so, before.) */
int hdl_mr_deregister(struct hdl_mr *mr);

#define HDL_RKEY_MAX 64u
/* Writes the region's key, at most HDL_RKEY_MAX bytes; returns how many. Any process of the job may use it. */
size_t hdl_mr_pack(const struct hdl_mr *mr, void *key);
/* Makes a handle of a key of ep's. 0; reported: -EINVAL (that is no key), -ESTALE (of another process, or of an earlier life of it),
 * -ENOMEM. */
int hdl_rkey_unpack(struct hdl_ep *ep, const void *key, size_t n, struct hdl_rkey **rkey);
/* -EBUSY, reported: an operation that uses it is under way; it stays. */
int hdl_rkey_release(struct hdl_rkey *rkey);

/* An operation in flight. The caller's memory, and the transport's until done(). */
struct hdl_rma {
	void (*done)(struct hdl_rma *op, int err);	/* the caller's to set */
	/* the rest is the transport's */
	struct hdl_ep *ep;
	struct hdl_rma *next, *prev, *wait_next;
	struct hdl_rkey *key;
	void *buf;
	uint64_t raddr, len, posted;		/* its place in the peer's memory; bytes, and those that were asked for */
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
 * Operations on `offset` of a region. They return 1: complete, op is the caller's again; 0: under way, op->done() follows, with 0 or
 * what went wrong, and the local memory is the transport's until then; a negative errno: it has failed, done() does not follow.
 * -ERANGE and -EACCES (not within the region; not of these rights), reported; of done(), too:
 *     -EACCES       the region is no more, or does not grant this: the operation has failed, and nothing else. Reported
 *     -EREMOTEIO    the region's memory is unmapped or protected: as above
 *     -EFAULT       the local memory is: as above. (A put of up to 1 KiB that this process's CPU copies is a signal)
 *     -ECONNRESET   an atomic operation whose queue broke: it was carried out once, or not at all, and nobody knows which. (A put or a
 *                   get goes again: a put may be written twice before it ends, with the same bytes)
 *     the peer's    the peer has failed
 */
int hdl_put(struct hdl_rkey *rkey, uint64_t offset, const void *buf, size_t len, struct hdl_rma *op);
int hdl_get(struct hdl_rkey *rkey, uint64_t offset, void *buf, size_t len, struct hdl_rma *op);
enum hdl_update { HDL_FETCH_ADD = 1, HDL_SWAP, HDL_COMPARE_SWAP, HDL_AND, HDL_OR, HDL_XOR };
/* Updates `width` (4 or 8) bytes by an operand of that width, if they equal `compare` (HDL_COMPARE_SWAP only). What was there before is
 * written to `result`, or nowhere (NULL). Operands and results are native integers. -EINVAL: no such update, or HDL_MR_ATOMIC_DEVICE at
 * an address that is not a multiple of the width; reported. */
int hdl_atomic(struct hdl_rkey *rkey, uint64_t offset, enum hdl_update update, unsigned width, uint64_t operand, uint64_t compare,
	       void *result, struct hdl_rma *op);
/* Ends when all operations to this peer that were begun before have ended, each complete or failed, and done() was called for each;
 * err: of the first that failed since the last flush that ended. */
int hdl_flush(struct hdl_ep *ep, struct hdl_rma *op);

/* ---- counters ------------------------------------------------------------------------------------------------- */

/* What the transport counts of itself, from its start on; it cannot be changed from here, and reading costs nobody else anything. */
struct hdl_counter {
	const char *name;	/* lower case, words joined by _; lasts */
	const char *text;	/* what is counted, in a sentence */
	bool per_peer;		/* it can be asked for one peer, too */
};
/* Counter `i`, in an order that does not change while the process runs; NULL: there are no more. */
const struct hdl_counter *hdl_counter(unsigned i);
/* The value now of one that there is: of one peer, of those that are per peer (others: 0); ep NULL: of all of this process. */
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
/* The port over which this process reaches the ranks of its host. NULL if there is none. */
const struct hdl_port *hdl_tp_local_port(struct hdl_tp *tp);
/* Whether HEDDLE_TRANSPORT allows RC queues: the same on all ranks. */
bool hdl_tp_allows_rc(struct hdl_tp *tp);
/* Moves a fresh RC QP to RTS towards (gid, lid, qpn) on the same port, with Heddle's timeouts. */
int hdl_tp_rc_connect(struct hdl_tp *tp, struct ibv_qp *qp, const struct hdl_port *port, const union ibv_gid *gid, uint16_t lid,
		      uint32_t qpn, uint32_t psn);
/* Called by hdl_tp_progress each time; for executors that watch their own CQs. Returns events handled. */
typedef int (*hdl_progress_fn)(void *arg);
int hdl_tp_progress_add(struct hdl_tp *tp, hdl_progress_fn fn, void *arg);
void hdl_tp_progress_remove(struct hdl_tp *tp, hdl_progress_fn fn, void *arg);
/* Completions on an executor's own CQs must wake a process that sleeps in hdl_tp_idle: it creates them on this channel,
 * and arms those it waits for (ibv_req_notify_cq) in `arm`, which is called before each sleep, ahead of the last
 * progress. The transport takes and acknowledges the events. */
struct ibv_comp_channel *hdl_tp_local_channel(struct hdl_tp *tp);
void hdl_tp_on_sleep(struct hdl_tp *tp, void (*arm)(void));
/* Called with the time now and then, and before each sleep: does what is due, without completing anything, and says when it wants
 * to be called next; 0: not for its sake. What it returns may be past: then this process does not sleep before progress has run. */
void hdl_tp_on_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now));
/* Called where a device, or memory, has no room for what the transport needs: gives up what is kept for later, and says whether there was
 * something. */
void hdl_tp_on_shortage(struct hdl_tp *tp, bool (*give)(void));
/* Counts, for the report, requests that an executor posts to RC queues of its own, and the bytes that they carry. WAIT and
 * ENABLE are none: the device does not count them either. */
void hdl_tp_count_rc(struct hdl_tp *tp, uint64_t requests, uint64_t bytes);

/* What the devices by which this process and another one of its host reach each other both promise: of both records, so that any number
 * of processes find the same for all pairs of them, however unequal their devices are. Or a negative errno, which is no promise that is
 * lacking: the other process would not see it. */
#define HDL_PROMISES_WAKES 1u	/* hdl_tp_wakes_on_write */
#define HDL_PROMISES_AT_ONCE 2u	/* hdl_tp_writes_at_once */
#define HDL_PROMISES_EXPOSES 4u	/* hdl_tp_can_expose */
int hdl_tp_promises(struct hdl_tp *tp, int proc);

/* Whether a plain RDMA write by a peer wakes this process when it sleeps in hdl_tp_idle. */
bool hdl_tp_wakes_on_write(struct hdl_tp *tp);
/* Whether a write to a connected peer of this host has landed when its post has returned, and behind what the queue's write
 * before it has written. */
bool hdl_tp_writes_at_once(struct hdl_tp *tp);
/* Whether peers of this host read and write all memory of this process that is not registered for it, and by which keys; either may be
 * NULL. */
bool hdl_tp_exposes(struct hdl_tp *tp, uint32_t *lkey, uint32_t *rkey);
/* Whether they would, had the device not refused this one process its region of all memory. */
bool hdl_tp_can_expose(struct hdl_tp *tp);
/* Whether the bytes of RDMA writes over this queue, which is in RTS, land in ascending order. */
bool hdl_tp_in_order(struct ibv_qp *qp);

/* What this process waits for: one line per queue and peer, for SIGUSR1 and --report-hang. */
void hdl_tp_dump(struct hdl_tp *tp, FILE *out);

/* MPI_Alloc_mem: memory of the device's arena where it has one (ibv_alloc_dm or the library's own registered
 * pool), so that peers reach it without a copy through the kernel. */
void *hdl_tp_alloc(struct hdl_tp *tp, size_t bytes);
/* False: p is nothing that hdl_tp_alloc gave out. NULL is allowed. */
bool hdl_tp_free(struct hdl_tp *tp, void *p);

#endif
