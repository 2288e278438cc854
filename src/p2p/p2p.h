/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/p2p: matching, requests, progress (MPI-5.0 chapter 3), and the communicator object that both layers above
 * share. Above the transport, below mpi/ and collectives/.
 *
 * One thread at a time: src/mpi takes the lock, and a thread that waits gives it up (runtime/threads.h).
 */
#ifndef HDL_P2P_H
#define HDL_P2P_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "datatype/datatype.h"
#include "p2p/comm/group.h"
#include "p2p/comm/topo.h"
#include "runtime/jobs.h"
#include "runtime/runtime.h"
#include "transport/transport.h"

/* ---- communicators ------------------------------------------------------------------------------------- */

struct hdl_attrs;
struct hdl_req;
struct hdl_matching;		/* p2p/match.h */

/* Counts the partitioned requests with one tag between this process and a peer, one way. */
struct hdl_part_count {
	struct hdl_part_count *next;
	int proc;
	int32_t tag;
	bool sends;
	uint32_t made;
};

/* p2p addresses processes as ranks of `group`. For an intercommunicator that is the remote group, of which this process is no
 * member. The process's own group is then that of `local`, a communicator without a handle that has the same contexts; messages
 * of the two cannot be confused, since they come from different sources. */
struct hdl_comm {
	/* references: one for the handle, one for each pending request. magic: set while the handle is valid */
	struct hdl_object obj;
	/* list of all communicators except MPI_COMM_WORLD and MPI_COMM_SELF; link: the pointer to this one */
	struct hdl_comm *next, **link;
	uint16_t context;		/* even: point-to-point; context + 1: collectives. 2 * id (comm/ids.h) */
	/* this process's rank in group, MPI_UNDEFINED for an intercommunicator; the size of group */
	int rank, size;
	bool whole;			/* rank r is rank r of this job, and all ranks of the job are members */
	hdl_leaf *const *leaf;		/* endpoints by rank: group->leaf */
	struct hdl_matching *matching;	/* the instance in which its messages are matched */
	MPI_Errhandler errhandler;	/* a predefined handle, or a struct hdl_errhandler to which a reference is held */
	/* error handlers running with a handle that was freed meanwhile; the handle is valid again while they run */
	int lent;
	void *coll;			/* state of the collectives, theirs to free (hdl_comm_on_free) */
	struct hdl_attrs *attrs;	/* the program's attributes (mpi/attr.h); NULL: none */
	struct hdl_group *group;
	struct hdl_comm *local;		/* the own group of an intercommunicator; else NULL */
	struct hdl_topo *topo;		/* virtual topology; NULL: none */
	unsigned hints;			/* bits of enum hdl_hint: the program's assertions */
	/* constructors called so far, the same number on all ranks; numbers their messages (hdl_cid_tag) */
	uint32_t agreements;
	int agreeing;			/* agreements under way whose members are reached through this communicator */
	/* differs from that of all communicators before, which may have had this one's handle; hdl_comm_new */
	uint32_t serial;
	/* made by MPI_Comm_idup, and freed by the program before it was complete: freed at completion */
	bool unwanted;
	bool part;			/* `local` of an intercommunicator, which owns the contexts */
	bool uses_jobs;			/* other jobs of its members are counted (hdl_job_use) */
	struct hdl_bsend_space *bsend;	/* buffer of MPI_Comm_attach_buffer; NULL: none */
	struct hdl_part_count *parts;	/* partitioned requests made so far */
	struct hdl_session *session;	/* from which it was derived, with a reference; NULL: the world model's */
	char name[MPI_MAX_OBJECT_NAME];
};

extern struct hdl_comm hdl_world, hdl_self;
extern struct hdl_pool hdl_comms;	/* all but MPI_COMM_WORLD and MPI_COMM_SELF */

/* The object behind an MPI_Errhandler. One reference for each handle and for each object that has it as its error handler. Its
 * memory stays in the pool until the process ends, because handles are valid before MPI_Init and after MPI_Finalize. */
struct hdl_errhandler {
	struct hdl_object obj;
	int handles;			/* references that are the program's handles; obj.magic is set while there is one */
	int kind;			/* which type fn has: mpi/errhandler.c knows */
	void (*fn)(void);
};
extern struct hdl_pool hdl_errhandlers;
/* For the error handler of an object. A predefined handle has no references. */
void hdl_errhandler_retain(MPI_Errhandler h);
void hdl_errhandler_release(MPI_Errhandler h);

/* Constructors (sections 7.4.2, 7.6.2). Collective over comm, or over both groups of an intercommunicator. The new communicator
 * inherits comm's error handler; the caller copies attributes, hints and topology. Return an MPI error class with hdl_reason_set:
 * MPI_ERR_OTHER if every context id is in use on some rank, MPI_ERR_PROC_ABORTED. *out is NULL if this process is not a member,
 * or after an error. */
int hdl_comm_dup(struct hdl_comm *comm, struct hdl_comm **out);
/* Nonblocking. *out exists on return. Its handle becomes valid when *req, which the program gets, completes; if *req completes
 * with an error, *out is freed. */
int hdl_comm_idup(struct hdl_comm *comm, struct hdl_comm **out, struct hdl_req **req);
int hdl_comm_split(struct hdl_comm *comm, int color, int key, struct hdl_comm **out);
/* group: the same on all ranks, of members of comm's (local) group. On an intracommunicator, ranks may also pass disjoint
 * groups. */
int hdl_comm_create(struct hdl_comm *comm, struct hdl_group *group, struct hdl_comm **out);
/* Only the members of group call these two. Must: this process is a member. */
int hdl_comm_create_group(struct hdl_comm *comm, struct hdl_group *group, int tag, struct hdl_comm **out);
int hdl_comm_create_from_group(struct hdl_group *group, const char *stringtag, MPI_Errhandler errhandler,
			       struct hdl_comm **out);
/* peer, remote_leader and remote are significant on the leader only. MPI_ERR_COMM, MPI_ERR_GROUP: the groups overlap.
 * leader_error: on the leader, the error class of its invalid arguments, or 0; all ranks of the local group return that class.
 * Without it they would wait for the leader for ever. */
int hdl_intercomm_create(struct hdl_comm *local, int leader, int leader_error, struct hdl_comm *peer, int remote_leader, int tag,
			 struct hdl_comm **out);
int hdl_intercomm_create_from_groups(struct hdl_group *local, int leader, int leader_error, struct hdl_group *remote,
				     int remote_leader, const char *stringtag, MPI_Errhandler errhandler,
				     struct hdl_comm **out);
/* With a process of another job, which only the root knows: `other` and `tag` are results of hdl_dpm_handshake. leader_error: on
 * the root, as above. */
int hdl_intercomm_with(struct hdl_comm *local, int root, int leader_error, struct hdl_group *other, int tag,
		       struct hdl_comm **out);
int hdl_intercomm_merge(struct hdl_comm *comm, bool high, struct hdl_comm **out);
/* Allgather: entries of `each` bytes, rank r's at table + r * each. Must: this rank's entry is set; comm is an
 * intracommunicator. */
int hdl_comm_exchange(struct hdl_comm *comm, void *table, size_t each);
/* Alltoallv: entries of `each` bytes. out has out_count[r] entries for rank r, in the order of ranks, `in` gets in_count[r]
 * entries from rank r. Must: the counts of both sides agree; comm is an intracommunicator. */
int hdl_comm_deliver(struct hdl_comm *comm, size_t each, const void *out, const int *out_count, void *in,
		     const int *in_count);
/* A new communicator of n ranks of comm in another order: its rank r is rank order[r] of comm. Collective; n and order must be
 * the same on all ranks, comm an intracommunicator. */
int hdl_comm_permute(struct hdl_comm *comm, const int *order, int n, struct hdl_comm **out);

/* Assertions of the program on its use of a communicator (section 7.4.4). */
enum hdl_hint { HDL_HINT_OVERTAKING = 1 };
/* Takes effect for messages that are matched from here on. On a communicator that MPI_Comm_idup is making, comm->hints may be set
 * directly. */
void hdl_comm_set_hints(struct hdl_comm *comm, unsigned hints);

static inline bool hdl_comm_is_inter(const struct hdl_comm *comm)
{
	return comm->local;
}

/* Returns the communicator of this process's own group: comm itself, or comm->local of an intercommunicator. */
static inline struct hdl_comm *hdl_comm_local(struct hdl_comm *comm)
{
	return comm->local ? comm->local : comm;
}

/* Drops a reference. The last one frees the object and gives its context id back. */
void hdl_comm_release(struct hdl_comm *comm);
/* Drops the handle's reference. The handle is invalid on return, even if operations are pending. */
void hdl_comm_close(struct hdl_comm *comm);
/* Called just before a communicator is freed. The collectives free comm->coll. */
extern void (*hdl_comm_on_free)(struct hdl_comm *comm);
/* Calls fn for each communicator and each `local`. fn may change the communicator; it must not make or free one. */
void hdl_comm_each(void (*fn)(struct hdl_comm *comm));

/* Returns the number of a rank's process (runtime/jobs.h). */
static inline int hdl_comm_proc(const struct hdl_comm *comm, int rank)
{
	return likely(comm->whole) ? rank : hdl_group_proc(comm->group, rank);
}

/* Returns the rank of a process in comm->group. Must: the process is a member. */
static inline int hdl_comm_rank_of_member(struct hdl_comm *comm, int proc)
{
	return comm->whole ? proc : hdl_group_rank_of(comm->group, proc);
}

/* The same for any process. Returns MPI_UNDEFINED if the process is no member. */
static inline int hdl_comm_rank_of(struct hdl_comm *comm, int proc)
{
	return hdl_group_rank_of(comm->group, proc);
}

/* Returns true if a process is a member of the group, or of either group of an intercommunicator. */
static inline bool hdl_comm_has(struct hdl_comm *comm, int proc)
{
	return hdl_comm_rank_of(comm, proc) != MPI_UNDEFINED ||
	       (comm->local && hdl_comm_rank_of(comm->local, proc) != MPI_UNDEFINED);
}

/* Returns the endpoint of a rank if hdl_comm_ep has made it already; else NULL. NULL for the rank itself. */
static inline struct hdl_ep *hdl_comm_ep_met(const struct hdl_comm *comm, int rank)
{
	return hdl_leaf_ep(comm->leaf, rank);
}

/* Returns the endpoint of a rank, and makes it if needed; NULL for the rank itself. Without memory the job ends. */
struct hdl_ep *hdl_comm_ep_make(struct hdl_comm *comm, int rank);
static inline struct hdl_ep *hdl_comm_ep(struct hdl_comm *comm, int rank)
{
	struct hdl_ep *ep = hdl_comm_ep_met(comm, rank);

	return likely(ep != NULL) ? ep : hdl_comm_ep_make(comm, rank);
}

/* ---- statuses ------------------------------------------------------------------------------------------ */

/* MPI_internal[0..1] hold bytes << 1 | cancelled as one 64-bit number. The other words are not used. */
static inline void hdl_status_set_bytes(MPI_Status *status, MPI_Count bytes, bool cancelled)
{
	uint64_t word = (uint64_t)bytes << 1 | cancelled;

	__builtin_memcpy(status->MPI_internal, &word, sizeof(word));
}

static inline MPI_Count hdl_status_bytes(const MPI_Status *status)
{
	uint64_t word;

	__builtin_memcpy(&word, status->MPI_internal, sizeof(word));
	return (MPI_Count)(word >> 1);
}

static inline bool hdl_status_cancelled(const MPI_Status *status)
{
	return status->MPI_internal[0] & 1;
}

/* The status that functions return without a message: for MPI_PROC_NULL (3.10), and for null requests (3.7.3). */
static inline void hdl_status_empty(MPI_Status *status, int source)
{
	status->MPI_SOURCE = source;
	status->MPI_TAG = MPI_ANY_TAG;
	hdl_status_set_bytes(status, 0, false);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

struct hdl_req {
	struct hdl_object obj;
	volatile int done;		/* set last, but before notify is called */
	int error;			/* MPI error class */
	struct hdl_comm *comm;
	MPI_Status status;
	void (*notify)(struct hdl_req *req);	/* called when the request is done; may free the request. NULL: none */
	void *notify_arg;		/* notify's argument */
	/* Checks whether this request is done, by a cheaper way than a turn of progress. waits: may spin for a short while. NULL:
	 * no such way. */
	void (*look)(struct hdl_req *req, bool waits);
	struct hdl_ep *ep;		/* the peer that progress polls first; NULL: none */
	bool detached;			/* freed by the program before it was done */
	bool pending;			/* counted in hdl_pending, for which MPI_Finalize waits */
	bool special;			/* persistent or generalized: completing calls end it by end_special (mpi/request.c) */
	bool inactive;			/* persistent and not started; done is set, too */
	/* the rest is in struct hdl_op (p2p/request.h) */
};

extern struct hdl_pool hdl_reqs;	/* of struct hdl_op, whose first member is the request */
#define HDL_OP_BYTES	296		/* sizeof(struct hdl_op) */

/* The request of every nonblocking send that was done at once: done, with an empty status. All such sends share it, and
 * hdl_req_free does nothing. Must not get a notify: the request is for the program's handles only. */
extern struct hdl_req hdl_req_sent;

/* Returns the request behind a handle; NULL if there is none (MPI_REQUEST_NULL, a freed or foreign handle). */
static inline struct hdl_req *hdl_req_get(MPI_Request handle)
{
	return handle == (MPI_Request)&hdl_req_sent ? &hdl_req_sent :
	       hdl_pool_find(&hdl_reqs, handle, HDL_MAGIC_REQ, HDL_OP_BYTES);
}

/* One wait in so many makes a full turn of progress even if req->look completes it: other requests, and other ranks, may depend
 * on the turn. */
#define HDL_TURN_EVERY 16

/* Wait and Test call this first. A request that is done on entry, or (waits) becomes done within a short spin, costs no turn of
 * progress. */
static inline void hdl_req_look(struct hdl_req *req, bool waits)
{
	if (!req->done && req->look)
		req->look(req, waits);
}

/* Makes a request for a collective: not done, empty status, with a reference to comm. The caller completes it by
 * hdl_req_complete. NULL: no memory. */
struct hdl_req *hdl_req_new(struct hdl_comm *comm);
/* The same for one process's access to a file or a window: may be freed while it is active, and is not affected by MPI_Cancel. */
struct hdl_req *hdl_req_new_access(struct hdl_comm *comm);
/* error: an MPI error class. The request may be freed on return, if the program has called MPI_Request_free. */
void hdl_req_complete(struct hdl_req *req, int error);
/* Frees a request. A request that is not done goes on, and its completion frees the request. */
void hdl_req_free(struct hdl_req *req);
/* Makes progress until the request is done. */
void hdl_req_wait(struct hdl_req *req);
/* Cancels an operation (section 3.8.4). A receive that has not matched is done on return, with a cancelled status. A send
 * whose data has not left is withdrawn. If the send was announced, the receiver decides: the send is done later, with a
 * cancelled status or as if nothing had been asked. Any other request is not affected. */
void hdl_req_cancel(struct hdl_req *req);
/* Return true if hdl_req_new (the second one: hdl_collective_init) made the request. */
bool hdl_req_is_collective(const struct hdl_req *req);
bool hdl_req_is_persistent_collective(const struct hdl_req *req);
void *hdl_req_collective_arg(const struct hdl_req *req);	/* hdl_collective_init's arg */
/* Persistent collectives that were freed while they were under way. */
extern size_t hdl_detached_collectives;
/* Returns true if hdl_isendrecv made the request. */
bool hdl_req_is_sendrecv(const struct hdl_req *req);
/* Sets the reason (hdl_reason_set) of a request's error. The explanation is used up. */
void hdl_req_explain(struct hdl_req *req);
/* Keeps the explanation of an error with a request of hdl_req_new or hdl_collective_init. Must be called before
 * hdl_req_complete. */
void hdl_req_reason(struct hdl_req *req, const char *why);

/* ---- persistent requests (sections 3.9, 6.13) ------------------------------------------------------------- */

enum hdl_send_mode { HDL_STANDARD, HDL_SYNCHRONOUS, HDL_BUFFERED, HDL_READY };

/* Make an inactive request for a send or receive in the point-to-point context. Return MPI_ERR_NO_MEM without memory. */
int hdl_send_init(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
		  enum hdl_send_mode mode, struct hdl_req **req);
int hdl_recv_init(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		  struct hdl_req **req);
/* Makes an inactive request for a collective (section 6.13). Each start calls begin, which must lead to hdl_req_complete of the
 * request, at once or later; if begin returns an error class, nothing was started. put is called when the request is freed and
 * nothing of it is under way. Returns MPI_ERR_NO_MEM without memory; put is not called then. */
int hdl_collective_init(struct hdl_comm *comm, int (*begin)(struct hdl_req *req, void *arg), void (*put)(void *arg), void *arg,
			struct hdl_req **req);
bool hdl_req_is_persistent(const struct hdl_req *req);
/* Starts an inactive request. After an error class the request is still inactive. */
int hdl_req_start(struct hdl_req *req);
/* Makes a request that is done inactive again. Must: the explanation of an error, if any, was taken. */
void hdl_req_end_persistent(struct hdl_req *req);
/* Returns the number of a communicator's inactive requests, each of which holds a reference to it. Linear in all requests. */
int hdl_persistent_idle(const struct hdl_comm *comm);

/* ---- partitioned communication (chapter 4) ------------------------------------------------------------------------- */

struct hdl_part;
/* Makes an inactive request of n partitions of (count, t) each. peer may be MPI_PROC_NULL. Local. Returns an error class with
 * hdl_reason_set. */
int hdl_part_init(bool sends, void *buf, int n, MPI_Count count, const struct hdl_type *t, int peer, int tag,
		  struct hdl_comm *comm, struct hdl_req **req);
/* The partitioned operation of a request, or NULL. */
struct hdl_part *hdl_req_part(const struct hdl_req *req);
bool hdl_part_sends(const struct hdl_part *p);
int hdl_part_count(const struct hdl_part *p);
bool hdl_part_is_null(const struct hdl_part *p);	/* of MPI_PROC_NULL */
/* Marks partition i of an active send as ready. Any threads, at once, without the lock; between hdl_pready_begin and
 * hdl_pready_end, which sends the marked partitions, or leaves that to a thread that is sending. False: the partition is marked
 * already. */
void hdl_pready_begin(struct hdl_part *p);
bool hdl_pready(struct hdl_part *p, int i);
/* hdl_pready_begin, the mark and hdl_pready_end, for one partition. */
bool hdl_pready_one(struct hdl_part *p, int i);
void hdl_pready_end(struct hdl_part *p);
/* Returns true if partition i of an active receive is in the buffer. Any thread, without the lock. */
bool hdl_parrived(struct hdl_part *p, int i);

/* ---- generalized requests (section 13.2) ------------------------------------------------------------------ */

int hdl_grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
		       MPI_Grequest_cancel_function *cancel_fn, void *extra_state, struct hdl_req **req);
bool hdl_req_is_generalized(const struct hdl_req *req);
/* Each calls the program's function with the lock open, and returns its code. */
int hdl_grequest_query(struct hdl_req *req, MPI_Status *status);
int hdl_grequest_cancel(struct hdl_req *req);
/* Frees the request, too. Must: it is done. */
int hdl_grequest_free(struct hdl_req *req);

/* ---- operations ---------------------------------------------------------------------------------------- */

int hdl_p2p_init(void);		/* after hdl_rt_init; brings the transport up */
/* Waits for pending sends, then for the other ranks, and closes the transport. leave: does not wait for the other ranks, which
 * may go on. */
int hdl_p2p_fini(bool leave);
/* Waits for pending sends. */
void hdl_p2p_finish(void);
/* Whether MPI_COMM_WORLD and MPI_COMM_SELF are valid handles: from MPI_Init to MPI_Finalize. hdl_p2p_init makes them so. */
void hdl_world_open(bool open);
/* HEDDLE_REPORT_MEMORY: enters the memory of matching and of the transport in the ledger, and prints the ledger. */
void hdl_p2p_memory(void);
/* HEDDLE_REPORT_LEAKS: records requests and buffers that were not freed. hdl_p2p_fini records the messages that were never
 * received, once all have arrived. */
void hdl_p2p_leaks(void);

/* Nonblocking send and receive of (count, t). In the collective context (context + 1) tags from 0 on are the collectives', tags
 * below 0 are p2p's. dest and src may be MPI_PROC_NULL. Return an MPI error class with hdl_reason_set; *req is NULL then. */
int hdl_isend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	      uint16_t context, bool sync, struct hdl_req **req);
int hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	      uint16_t context, struct hdl_req **req);
/* Blocking forms, the latency path: no request from the pool, no allocation. status may be NULL; its MPI_ERROR is not changed. */
int hdl_send(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	     uint16_t context, bool sync);
/* Tries a standard send that completes at once. Returns true if the send is complete; false: nothing was sent. */
static inline bool hdl_send_now(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag,
				struct hdl_comm *comm, uint16_t context)
{
	struct hdl_ep *ep;
	size_t bytes;

	return dest >= 0 && (ep = hdl_comm_ep_met(comm, dest)) && hdl_type_is_run(t, count) &&
	       !__builtin_mul_overflow((size_t)count, (size_t)t->size, &bytes) &&
	       hdl_ep_send_now(ep, tag, context, buf, bytes);
}
int hdl_recv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	     uint16_t context, MPI_Status *status);
int hdl_iprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, MPI_Status *status);
int hdl_probe(int src, int tag, struct hdl_comm *comm, uint16_t context, MPI_Status *status);

/* A matched message (section 3.8.2): out of the queues, so that no other receive or probe finds it. Its bytes count as unexpected
 * until it is received. */
struct hdl_message;
static inline struct hdl_message *hdl_message_get(MPI_Message handle)
{
	return hdl_pool_find(&hdl_reqs, handle, HDL_MAGIC_MESSAGE, HDL_OP_BYTES);
}
struct hdl_comm *hdl_message_comm(const struct hdl_message *m);
/* *m is NULL for MPI_PROC_NULL, and (improbe) if there is no message. */
int hdl_improbe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, struct hdl_message **m,
		MPI_Status *status);
int hdl_mprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, struct hdl_message **m, MPI_Status *status);
/* Receive a matched message, which is freed unless hdl_imrecv returns MPI_ERR_COUNT. */
int hdl_imrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, struct hdl_req **req);
int hdl_mrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, MPI_Status *status);

/* A send and a receive with one request, whose status is the receive's. temp: NULL, or a copy of the data in memory of
 * hdl_buf_get. Takes over temp, also after an error. */
int hdl_isendrecv(const void *sendbuf, MPI_Count sendcount, const struct hdl_type *sendtype, int dest, int sendtag,
		  void *recvbuf, MPI_Count recvcount, const struct hdl_type *recvtype, int src, int recvtag,
		  struct hdl_comm *comm, void *temp, struct hdl_req **req);
/* Pooled memory of any size, aligned to 16 bytes. Returns NULL without memory. hdl_buf_put(NULL) does nothing. */
void *hdl_buf_get(size_t bytes);
void hdl_buf_put(void *buf);

/* ---- buffered sends (section 3.6) ------------------------------------------------------------------------- */

/* A buffer that MPI_Buffer_attach and its like attach to the process, a session or a communicator. */
struct hdl_bsend_space;
/* Returns MPI_ERR_BUFFER if a buffer is attached already. buffer may be MPI_BUFFER_AUTOMATIC. Makes *space if it is NULL. */
int hdl_bsend_attach(struct hdl_bsend_space **space, void *buffer, size_t size);
/* Waits until all messages in the buffer have been sent. Returns NULL and 0 if none is attached. */
void hdl_bsend_detach(struct hdl_bsend_space **space, void **buffer, size_t *size);
void hdl_bsend_flush(struct hdl_bsend_space *space);
/* Makes a request that is done when all messages that are in the buffer on entry have been sent. MPI_ERR_NO_MEM. */
int hdl_bsend_iflush(struct hdl_bsend_space *space, struct hdl_comm *comm, struct hdl_req **req);
extern struct hdl_bsend_space *hdl_bsend_process;
/* Returns MPI_ERR_BUFFER if there is not enough space. Uses the communicator's buffer, or else its session's, or else the
 * process's. */
int hdl_bsend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm);

/* MPI's instances of the transport and of matching: set from hdl_p2p_init until the end of hdl_p2p_fini, else NULL. */
extern struct hdl_tp *hdl_mpi_tp;
extern struct hdl_matching *hdl_mpi_matching;

/* One turn of progress of the transport. */
static inline int hdl_progress(void)
{
	return hdl_tp_progress(hdl_mpi_tp);
}

/* hdl_progress for a call that does not wait (MPI_Test, MPI_Iprobe) but may be called in a loop. When ranks outnumber cores,
 * every few turns that find nothing yield the CPU, so that the rank for which the loop waits can run. */
void hdl_progress_shared(int found);
static inline void hdl_progress_test(void)
{
	int found = hdl_tp_progress(hdl_mpi_tp);

	if (unlikely(hdl_job.oversubscribed))
		hdl_progress_shared(found);
}

/* ---- failed processes, revoked communicators (fault/; the collectives' part is collectives/fault/fault.c) ----------- */

/* Revokes comm's collective context for good, because proc has failed. Posted receives of collectives and of collective
 * constructors end with MPI_ERR_PROC_ABORTED, whichever rank they wait for. Messages in the context are dropped, queued ones and
 * later ones; the sender of an announced message gets ECANCELED. The context is never given to another communicator. */
void hdl_recv_revoke(struct hdl_comm *comm, int proc);
/* The second part of hdl_recv_revoke. Fails the agreements that use the context: collective constructors, those of groups that
 * contain the failed process, and those that reach another group through this communicator or whose own group it is. */
void hdl_cid_revoke(uint16_t context);
/* Called when a process has failed, after the failure is in its endpoint's note; NULL: no layer has set a function. May post,
 * must not wait. */
extern void (*hdl_p2p_on_failed)(int proc);
/* Prints, for the hang report, a line about a wait of a layer above that is no request; NULL: no such layer. */
extern void (*hdl_p2p_on_dump)(FILE *out);
/* Returns true if the process is on this host and has ended, or if messages to the process fail, which is the only sign for a
 * process on another host. */
bool hdl_proc_is_gone(int proc);
/* Checks the members of agreements without a communicator. Returns a process that has ended, or -1. */
int hdl_cid_find_ended(void);
/* Fails all agreements without a communicator, present and future, of which process `proc` is a member. Must not be called inside
 * of the transport. */
void hdl_cid_fail_member(int proc);
/* Adds the process to the list of failed processes (fault/fault.h). The record alone ends nothing; leaders that wait for this
 * rank are notified once the program has got an error. */
void hdl_ft_record_failed(int proc);
/* The program is about to get an error of class MPI_ERR_PROC_ABORTED, and may skip operations for which other ranks wait. */
void hdl_ft_records_tell_program(void);
/* Records that process `proc` has given up a collective for want of memory. The process is alive, though the communicator is
 * revoked. */
void hdl_proc_note_gave_up(int proc);
bool hdl_proc_gave_up(int proc);
/* Returns 1 + the process for which a collective context of comm's instance was revoked; 0: the context is in use. */
int hdl_recv_revoked(const struct hdl_comm *comm, uint16_t context);
/* Withdraws a send of a collective. Its done() follows, at once or later. */
void hdl_send_withdraw(struct hdl_send *send, int peer, struct hdl_comm *comm);
/* Sends a failure notice, which names a failed process, to a member of comm in a collective context (fault/fault.h has the tag).
 * ended: the process is known to have ended; the receiver then fails its connections with that process at once. */
void hdl_ft_send_notice(int peer, struct hdl_comm *comm, uint16_t context, int proc, bool ended);
/* Sets the function that is called for a failure notice (by_message), and when an agreement has failed here because of proc. The
 * function must notify the other members before returning. fn returns false if no communicator has the context yet: the notice
 * then waits for hdl_ft_waiting_notice. NULL: no function. */
void hdl_ft_on_message(bool (*fn)(uint16_t context, int proc, bool by_message));
extern unsigned hdl_agreements;	/* agreements of constructors that are under way */
/* Counts (1) or uncounts (-1) a member of comm that waits for a process outside of it, as a root at a port does. The processes of
 * comm are checked meanwhile. */
void hdl_cid_outside(struct hdl_comm *comm, int more);
/* Returns the member that a waiting failure notice for comm names, or -1. Notices that name a process outside comm are of a
 * communicator that had the contexts before. */
int hdl_ft_waiting_notice(struct hdl_comm *comm);

/* Makes progress until ready(arg). ready must be short and must not change anything: other threads call it, too
 * (runtime/threads.h). */
void hdl_wait_until(bool (*ready)(const void *arg), const void *arg);

/* Returns the MPI error class of an errno of the transport (positive). */
int hdl_class_of(int err);
/* Ends the job: memory ran out where no error can be returned, as when a message arrives. */
_Noreturn void hdl_out_of_memory(const char *what, size_t bytes);

/* ---- explanations -------------------------------------------------------------------------------------- */

/* The explanation, with values, of the error class that the last function returned; "" if there is none. hdl_reason_take
 * clears the explanation. Must be set and taken without a wait in between, in which other threads would set theirs. */
void hdl_reason_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *hdl_reason_take(void);
/* Sets the reason of a send to a rank of comm that failed with this error class and errno. */
void hdl_send_explain(int error, int errnum, int peer, int tag, const struct hdl_comm *comm, size_t bytes);

/* The MPI function that is running, for reports: one plain store on entry of each function that may block. With several
 * threads, the function of the thread that holds the lock; threads that wait have theirs in struct hdl_waiter. */
extern const char *hdl_call;
/* The communicator of the collective that the thread waits for; NULL: not known. Set around the wait. */
extern const struct hdl_comm *hdl_blocked_comm;
/* The requests that the thread waits for, if there are several, all or any of them; of: NULL otherwise. Set around the wait. */
struct hdl_requests {
	int count;
	const MPI_Request *of;
};
extern struct hdl_requests hdl_blocked_requests;
/* Prints the waits of this rank, one line for each call, peer, tag and communicator; then the transport's part. */
void hdl_p2p_dump(FILE *out);

#endif
