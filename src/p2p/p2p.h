/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door of src/p2p: matching, requests, progress (MPI-5.0 chapter 3), and the communicator object that
 * carries them. Above the transport, below mpi/ and collectives/.
 *
 * One thread at a time: the lock is taken in src/mpi, and given up while a thread waits (runtime/threads.h).
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

/* What p2p sends to and receives from are the ranks of `group`. An intercommunicator's is the remote group, in which this process
 * has no rank; its own group is that of `local`, a communicator of which no handle exists, with the same contexts: messages are
 * told apart by their source. */
struct hdl_comm {
	struct hdl_object obj;		/* one reference for the handle, one for each pending request; magic: the handle is valid */
	struct hdl_comm *next, **link;	/* all that there are, but MPI_COMM_WORLD and _SELF; link: what points here */
	uint16_t context;		/* even: point-to-point; context + 1: collectives */
	int rank, size;			/* in group: of an intercommunicator MPI_UNDEFINED, and the remote group's size */
	bool whole;			/* rank r is rank r of this job, and all are in it */
	hdl_leaf *const *leaf;		/* the group's */
	struct hdl_matching *matching;	/* where its messages meet their receives */
	MPI_Errhandler errhandler;	/* a constant, or a struct hdl_errhandler, of which it has a reference */
	int lent;			/* error handlers that run with the handle, which was freed: it is valid again for them */
	void *coll;			/* the collectives' state of this communicator */
	struct hdl_attrs *attrs;	/* mpi/attr.h: the program's attributes; NULL: none */
	struct hdl_group *group;
	struct hdl_comm *local;		/* of an intercommunicator; else NULL */
	struct hdl_topo *topo;		/* its virtual topology; NULL: none */
	unsigned hints;			/* enum hdl_hint: what the program promises */
	uint32_t agreements;		/* constructors so far: the same number on all ranks */
	int agreeing;			/* constructors under way whose members are reached through it */
	bool unwanted;			/* of MPI_Comm_idup: gone as soon as it is there */
	bool part;			/* another one's `local`: the contexts are that one's */
	struct hdl_bsend_space *bsend;	/* the buffer that was attached to it, or NULL */
	char name[MPI_MAX_OBJECT_NAME];
};

extern struct hdl_comm hdl_world, hdl_self;
extern struct hdl_pool hdl_comms;	/* the others */

/* Behind MPI_Errhandler. A reference for each handle and for each object that has it. Never given back to the heap: handles are
 * valid also when MPI is not initialized. */
struct hdl_errhandler {
	struct hdl_object obj;
	int handles;			/* of the references the program's: while there is one, the magic word is there */
	int kind;			/* mpi/errhandler.c's, and so is the function's type */
	void (*fn)(void);
};
extern struct hdl_pool hdl_errhandlers;
/* Of what an object has: constants are allowed. */
void hdl_errhandler_retain(MPI_Errhandler h);
void hdl_errhandler_release(MPI_Errhandler h);

/* Constructors (sections 7.4.2, 7.6.2): collective over comm, over both groups of an intercommunicator. The new one inherits
 * comm's error handler; attributes, hints and topology are the caller's to see to. They return an MPI error class, with
 * hdl_reason_set: MPI_ERR_OTHER when all context ids are in use somewhere, MPI_ERR_PROC_ABORTED. *out is NULL where this
 * process gets no communicator. */
int hdl_comm_dup(struct hdl_comm *comm, struct hdl_comm **out);
/* Nonblocking. *out exists at once; its handle is valid when the request, which the program gets, is complete, and it is gone
 * if that has an error. */
int hdl_comm_idup(struct hdl_comm *comm, struct hdl_comm **out, struct hdl_req **req);
int hdl_comm_split(struct hdl_comm *comm, int color, int key, struct hdl_comm **out);
/* group: of comm's (local) group, the same on all ranks; or, of an intracommunicator, disjoint ones. */
int hdl_comm_create(struct hdl_comm *comm, struct hdl_group *group, struct hdl_comm **out);
/* Only the group's members call these two; this process is one. */
int hdl_comm_create_group(struct hdl_comm *comm, struct hdl_group *group, int tag, struct hdl_comm **out);
int hdl_comm_create_from_group(struct hdl_group *group, const char *stringtag, MPI_Errhandler errhandler,
			       struct hdl_comm **out);
/* peer and remote_leader matter on the leader only; remote too. MPI_ERR_COMM, MPI_ERR_GROUP: the groups overlap. refused, on
 * the leader, where those are not right: the error class that it and all others of the local group get, so that they do not
 * wait for ever; 0: they are right. */
int hdl_intercomm_create(struct hdl_comm *local, int leader, int refused, struct hdl_comm *peer, int remote_leader, int tag,
			 struct hdl_comm **out);
int hdl_intercomm_create_from_groups(struct hdl_group *local, int leader, int refused, struct hdl_group *remote,
				     int remote_leader, const char *stringtag, MPI_Errhandler errhandler,
				     struct hdl_comm **out);
/* With a group of another job, which only the root knows: a process of it that was met, and the tag that was made then (handshake.h). refused:
 * on the root, as above. */
int hdl_intercomm_with(struct hdl_comm *local, int root, int refused, struct hdl_group *other, int tag, struct hdl_comm **out);
int hdl_intercomm_merge(struct hdl_comm *comm, bool high, struct hdl_comm **out);
/* Every rank's entry of `each` bytes, at table + rank * each; one's own is there already. comm is an intracommunicator. */
int hdl_comm_exchange(struct hdl_comm *comm, void *table, size_t each);
/* Entries of `each` bytes for other ranks of an intracommunicator, and one's own: out_count[r] of them for rank r, those for a
 * lower rank first; in likewise, with as many as the others have for this rank. */
int hdl_comm_deliver(struct hdl_comm *comm, size_t each, const void *out, const int *out_count, void *in,
		     const int *in_count);
/* A new communicator of all of comm's ranks (an intracommunicator's) in another order: order[r] is the rank in comm of its rank r. The same
 * on all ranks; n of them are in it. */
int hdl_comm_permute(struct hdl_comm *comm, const int *order, int n, struct hdl_comm **out);

/* What the program promises of its use of a communicator (section 7.4.4). */
enum hdl_hint { HDL_HINT_OVERTAKING = 1 };
/* From now on. (Of one that MPI_Comm_idup is making, comm->hints may be set instead.) */
void hdl_comm_set_hints(struct hdl_comm *comm, unsigned hints);

static inline bool hdl_comm_is_inter(const struct hdl_comm *comm)
{
	return comm->local;
}

/* The communicator of this process's group: comm itself, but for intercommunicators. */
static inline struct hdl_comm *hdl_comm_local(struct hdl_comm *comm)
{
	return comm->local ? comm->local : comm;
}

/* Drops a reference; the last one frees the object and its context id. */
void hdl_comm_release(struct hdl_comm *comm);
/* Drops the handle's: it is invalid from here on, also while operations are pending. */
void hdl_comm_close(struct hdl_comm *comm);
/* Called just before a communicator is freed: the collectives' way to free comm->coll. */
extern void (*hdl_comm_on_free)(struct hdl_comm *comm);
/* All there are. fn may change what belongs to the communicator, not the communicators. */
void hdl_comm_each(void (*fn)(struct hdl_comm *comm));

/* The number of a rank's process (runtime/jobs.h). */
static inline int hdl_comm_proc(const struct hdl_comm *comm, int rank)
{
	return likely(comm->whole) ? rank : hdl_group_proc(comm->group, rank);
}

/* The rank in comm of a member. */
static inline int hdl_comm_rank_of_member(struct hdl_comm *comm, int proc)
{
	return comm->whole ? proc : hdl_group_rank_of(comm->group, proc);
}

/* The same of any process, or MPI_UNDEFINED. */
static inline int hdl_comm_rank_of(struct hdl_comm *comm, int proc)
{
	return hdl_group_rank_of(comm->group, proc);
}

/* Whether a process is in its group, or of an intercommunicator in either. */
static inline bool hdl_comm_has(struct hdl_comm *comm, int proc)
{
	return hdl_comm_rank_of(comm, proc) != MPI_UNDEFINED || (comm->local && hdl_comm_rank_of(comm->local, proc) != MPI_UNDEFINED);
}

/* The endpoint of a rank of the communicator, if it was asked for before; NULL for the rank itself. */
static inline struct hdl_ep *hdl_comm_ep_met(const struct hdl_comm *comm, int rank)
{
	return hdl_leaf_ep(comm->leaf, rank);
}

/* The endpoint of a rank of the communicator; NULL for the rank itself. Without memory the job ends. */
struct hdl_ep *hdl_comm_ep_make(struct hdl_comm *comm, int rank);
static inline struct hdl_ep *hdl_comm_ep(struct hdl_comm *comm, int rank)
{
	struct hdl_ep *ep = hdl_comm_ep_met(comm, rank);

	return likely(ep != NULL) ? ep : hdl_comm_ep_make(comm, rank);
}

/* ---- statuses ------------------------------------------------------------------------------------------ */

/* MPI_internal[0..1] hold (bytes << 1 | cancelled) as one 64-bit number; the rest is not used. */
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

/* What functions return for no message: MPI_PROC_NULL (3.10), and the empty status of null requests (3.7.3). */
static inline void hdl_status_empty(MPI_Status *status, int source)
{
	status->MPI_SOURCE = source;
	status->MPI_TAG = MPI_ANY_TAG;
	hdl_status_set_bytes(status, 0, false);
}

/* ---- requests ------------------------------------------------------------------------------------------ */

struct hdl_req {
	struct hdl_object obj;
	volatile int done;		/* set last, but for notify */
	int error;			/* MPI error class */
	struct hdl_comm *comm;
	MPI_Status status;
	void (*notify)(struct hdl_req *req);	/* called when the request is done; may free it. NULL: nobody */
	void *notify_arg;		/* the caller's */
	/* Looks whether this one is done, ahead of a whole turn; waits: for a short while. May be NULL. */
	void (*look)(struct hdl_req *req, bool waits);
	struct hdl_ep *ep;		/* progress looks at this peer first; may be NULL */
	bool detached;			/* freed by its user before it was done */
	bool pending;			/* counted in what MPI_Finalize waits for */
	bool special;			/* persistent or generalized: completing calls end it by hdl_req_end */
	bool inactive;			/* persistent, and not started; done, too */
	/* the rest is p2p's own: see p2p/request.h */
};

extern struct hdl_pool hdl_reqs;	/* operations, of which the request is the first member */
#define HDL_OP_BYTES	296		/* their size */

/* What a nonblocking send that is done returns: done, with an empty status; one for all, freeing it does nothing. For
 * users' handles only: nobody may ask it to notify. */
extern struct hdl_req hdl_req_sent;

/* The request behind a handle, or NULL if it is none (MPI_REQUEST_NULL, stale, foreign). */
static inline struct hdl_req *hdl_req_get(MPI_Request handle)
{
	return handle == (MPI_Request)&hdl_req_sent ? &hdl_req_sent :
	       hdl_pool_find(&hdl_reqs, handle, HDL_MAGIC_REQ, HDL_OP_BYTES);
}

/* Operations that were waited for the short way, by looking at what they alone wait for, between those with a turn of progress: others
 * may wait for it. */
#define HDL_TURN_EVERY 16

/* Wait and Test begin with this: what is complete on entry costs no turn of progress, nor, where the caller waits, what is complete
 * soon. */
static inline void hdl_req_look(struct hdl_req *req, bool waits)
{
	if (!req->done && req->look)
		req->look(req, waits);
}

/* A request for the collectives to complete: pooled, not done, empty status, holds a reference to comm. NULL: no
 * memory. */
struct hdl_req *hdl_req_new(struct hdl_comm *comm);
/* error: MPI error class. The request may be gone afterwards, if its user freed it. */
void hdl_req_complete(struct hdl_req *req, int error);
/* Gives the request back; one that is not done goes on and is given back when it is. */
void hdl_req_free(struct hdl_req *req);
/* Progress until the request is done. */
void hdl_req_wait(struct hdl_req *req);
/* Takes a receive that has not matched out of the queue: done, with a cancelled status. Withdraws a send whose data has
 * not left, which the receiver may have to agree to: done sooner or later, with a cancelled status or as if nothing had
 * been asked. Otherwise no effect. */
void hdl_req_cancel(struct hdl_req *req);
/* Whether hdl_req_new made it, for a collective. The other: hdl_collective_init. */
bool hdl_req_is_collective(const struct hdl_req *req);
bool hdl_req_is_persistent_collective(const struct hdl_req *req);
void *hdl_req_collective_arg(const struct hdl_req *req);	/* hdl_collective_init's */
/* Of these, those that were freed and are under way. */
extern size_t hdl_detached_collectives;
/* Whether it is hdl_isendrecv's. */
bool hdl_req_is_sendrecv(const struct hdl_req *req);
/* For an error in a request: leaves its explanation for hdl_reason. Once. */
void hdl_req_explain(struct hdl_req *req);
/* Keeps the explanation of an error with a request of hdl_req_new or hdl_collective_init, ahead of hdl_req_complete. */
void hdl_req_reason(struct hdl_req *req, const char *why);

/* ---- persistent requests (sections 3.9, 6.13) ------------------------------------------------------------- */

enum hdl_send_mode { HDL_STANDARD, HDL_SYNCHRONOUS, HDL_BUFFERED, HDL_READY };

/* An inactive request for such a send or receive in the point-to-point context. MPI_ERR_NO_MEM. */
int hdl_send_init(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
		  enum hdl_send_mode mode, struct hdl_req **req);
int hdl_recv_init(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		  struct hdl_req **req);
/* Of a collective (section 6.13). begin, called by each start, leads to hdl_req_complete of the request, at once or later; an error
 * class: it was not begun. put: the request is gone, and nothing of it is under way. If MPI_ERR_NO_MEM is returned, put was not called. */
int hdl_collective_init(struct hdl_comm *comm, int (*begin)(struct hdl_req *req, void *arg), void (*put)(void *arg), void *arg,
			struct hdl_req **req);
bool hdl_req_is_persistent(const struct hdl_req *req);
/* Starts an inactive one. An error class: it stays inactive. */
int hdl_req_start(struct hdl_req *req);
/* An active one that is done is inactive again; its explanation, if any, was taken. */
void hdl_req_end_persistent(struct hdl_req *req);
/* How many inactive ones the communicator has: each has a reference of it. Looks at every request that there is. */
int hdl_persistent_idle(const struct hdl_comm *comm);

/* ---- generalized requests (section 13.2) ------------------------------------------------------------------ */

int hdl_grequest_start(MPI_Grequest_query_function *query_fn, MPI_Grequest_free_function *free_fn,
		       MPI_Grequest_cancel_function *cancel_fn, void *extra_state, struct hdl_req **req);
bool hdl_req_is_generalized(const struct hdl_req *req);
/* Each calls the user's function with the lock open, and returns its code. */
int hdl_grequest_query(struct hdl_req *req, MPI_Status *status);
int hdl_grequest_cancel(struct hdl_req *req);
/* Of one that is done: frees it, too. */
int hdl_grequest_free(struct hdl_req *req);

/* ---- operations ---------------------------------------------------------------------------------------- */

int hdl_p2p_init(void);		/* after hdl_rt_init; brings the transport up */
/* Completes what is pending, leaves together with the other ranks, closes the transport. */
int hdl_p2p_fini(void);
/* HEDDLE_REPORT_LEAKS: notes requests and buffers. Messages that nobody received are noted by hdl_p2p_fini, when all have come. */
void hdl_p2p_leaks(void);

/* On (count, t) in memory, for the collectives and mpi/. Tags of collectives live in the communicator's
 * collective context (context + 1); there, tags below 0 belong to p2p. dest and src may be MPI_PROC_NULL.
 * Return an MPI error class, with hdl_reason() set. *req is NULL then. */
int hdl_isend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	      uint16_t context, bool sync, struct hdl_req **req);
int hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
	      uint16_t context, struct hdl_req **req);
/* Blocking forms: the latency path; no pooled request, no allocation. status may be NULL; MPI_ERROR in it is not
 * touched. */
int hdl_send(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm,
	     uint16_t context, bool sync);
/* A standard send that can be done at once: true: it is done; false: nothing happened. */
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

/* A matched message (section 3.8.2): out of the queues, no other receive or probe finds it. Its bytes count as unexpected
 * ones until it is received. */
struct hdl_message;
static inline struct hdl_message *hdl_message_get(MPI_Message handle)
{
	return hdl_pool_find(&hdl_reqs, handle, HDL_MAGIC_MESSAGE, HDL_OP_BYTES);
}
struct hdl_comm *hdl_message_comm(const struct hdl_message *m);
/* *m is NULL if there is none (improbe), or for MPI_PROC_NULL. */
int hdl_improbe(int src, int tag, struct hdl_comm *comm, uint16_t context, int *flag, struct hdl_message **m,
		MPI_Status *status);
int hdl_mprobe(int src, int tag, struct hdl_comm *comm, uint16_t context, struct hdl_message **m, MPI_Status *status);
/* The message is gone, unless MPI_ERR_COUNT is returned by hdl_imrecv. */
int hdl_imrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, struct hdl_req **req);
int hdl_mrecv(void *buf, MPI_Count count, const struct hdl_type *t, struct hdl_message *m, MPI_Status *status);

/* Both at once; the request has the receive's status. temp: what hdl_buf_get gave for the data to be sent, or NULL; it is
 * given back in any case. */
int hdl_isendrecv(const void *sendbuf, MPI_Count sendcount, const struct hdl_type *sendtype, int dest, int sendtag,
		  void *recvbuf, MPI_Count recvcount, const struct hdl_type *recvtype, int src, int recvtag,
		  struct hdl_comm *comm, void *temp, struct hdl_req **req);
/* Pooled memory of any size, 16-byte aligned. NULL without memory; NULL may be given back. */
void *hdl_buf_get(size_t bytes);
void hdl_buf_put(void *buf);

/* ---- buffered sends (section 3.6) ------------------------------------------------------------------------- */

/* What MPI_BUFFER_ATTACH associates with the process, a session or a communicator. */
struct hdl_bsend_space;
/* MPI_ERR_BUFFER if one is attached. buffer may be MPI_BUFFER_AUTOMATIC. *space: made if it is NULL. */
int hdl_bsend_attach(struct hdl_bsend_space **space, void *buffer, size_t size);
/* Waits until all messages in the buffer have been sent. NULL and 0 if none is attached. */
void hdl_bsend_detach(struct hdl_bsend_space **space, void **buffer, size_t *size);
void hdl_bsend_flush(struct hdl_bsend_space *space);
/* A request that is done when all messages that are in the buffer now have been sent. MPI_ERR_NO_MEM. */
int hdl_bsend_iflush(struct hdl_bsend_space *space, struct hdl_comm *comm, struct hdl_req **req);
extern struct hdl_bsend_space *hdl_bsend_process;
/* MPI_ERR_BUFFER if there is no room. The communicator's buffer serves, or else the process's. */
int hdl_bsend(const void *buf, MPI_Count count, const struct hdl_type *t, int dest, int tag, struct hdl_comm *comm);

/* MPI's instances of the transport and of matching: from hdl_p2p_init until the end of hdl_p2p_fini, else NULL. */
extern struct hdl_tp *hdl_mpi_tp;
extern struct hdl_matching *hdl_mpi_matching;

/* One turn of the transport. */
static inline int hdl_progress(void)
{
	return hdl_tp_progress(hdl_mpi_tp);
}

/* The same for a call that does not wait (MPI_Test, MPI_Iprobe). Its caller may be in a loop: when ranks outnumber cores,
 * turns that find nothing let the others run now and then, among them the one that this rank polls for. */
void hdl_progress_shared(int found);
static inline void hdl_progress_test(void)
{
	int found = hdl_tp_progress(hdl_mpi_tp);

	if (unlikely(hdl_job.oversubscribed))
		hdl_progress_shared(found);
}

/* ---- communicators of which a member has ended (the collectives' part: collectives/fault/fault.c) ------------------- */

/* Since this process has ended, receives of collectives, and of constructors that all members call, that are posted in the
 * communicator's collective context end with MPI_ERR_PROC_ABORTED, whomever they wait for, and their messages that come, or have
 * come, are dropped; senders of announced ones are told (ECANCELED). For good: the context is never another's. */
void hdl_recv_revoke(struct hdl_comm *comm, int proc);
/* Then the same for constructors: of the collective ones, of groups that have that process, and of those that reach another
 * group by that communicator, or whose own group it is. */
void hdl_cid_revoke(uint16_t context);
/* Whether a process of this host has ended, or no message can go to it any more, as of another host's is all that can be known. */
bool hdl_proc_is_gone(int proc);
/* The process of a member of some agreement without a communicator, if it has ended; else -1. */
int hdl_cid_find_ended(void);
/* This process has failed: agreements without a communicator of which it is a member do so, too, these and all to come. Within progress. The
 * other: inside of the transport; the next turn of progress does the rest. */
void hdl_cid_lose(int proc);
void hdl_cid_heard(int proc);
/* It is one of the lost (fault.h): nothing follows but that who waits for this rank at a bridge is told, once the program is. */
void hdl_proc_note_lost(int proc);
/* The program gets an error for a rank that is lost, of class MPI_ERR_PROC_ABORTED, and may leave what others wait for. */
void hdl_ft_records_tell_program(void);
/* This process has given a collective up, or somebody says so, for want of memory: it lives, though its communicator is lost. */
void hdl_proc_note_gave_up(int proc);
bool hdl_proc_gave_up(int proc);
/* 1 + the number of that process; 0: the context, a collective one where comm's messages match, is in use. */
int hdl_recv_revoked(const struct hdl_comm *comm, uint16_t context);
/* Takes back what a send of a collective has not given to its receiver yet: its done() follows, sooner or later. */
void hdl_send_withdraw(struct hdl_send *send, int peer, struct hdl_comm *comm);
/* Tells a member that a process has failed: a message in the collective context with a tag of its own. ended: it is there no more, which is
 * known, and not guessed: who is told fails its connections with it at once. */
void hdl_send_lost(int peer, struct hdl_comm *comm, uint16_t context, int proc, bool ended);
/* Says what is called when a member says so (told), or when a constructor has failed here: then the others are told before it
 * returns. False: there is no such communicator here yet; a message waits, for hdl_recv_lost. NULL: nothing is called. */
void hdl_ft_on_message(bool (*fn)(uint16_t context, int proc, bool by_message));
extern unsigned hdl_agreements;	/* constructors of communicators that are under way */
/* One more, or less (-1), in this communicator, of whose members one waits outside for another process: they are looked at meanwhile. */
void hdl_cid_outside(struct hdl_comm *comm, int more);
/* The member that such a message for this communicator has named, or -1. Others are meant for one that had its contexts before. */
int hdl_recv_lost(struct hdl_comm *comm);

/* Progress until ready(arg), which changes nothing and is short: other threads ask it, too (runtime/threads.h). */
void hdl_wait_until(bool (*ready)(const void *arg), const void *arg);

/* The MPI error class of an errno of the transport (positive). */
int hdl_class_of(int err);
/* Memory ran out where no error can be returned (a message arrives): ends the job. */
_Noreturn void hdl_out_of_memory(const char *what, size_t bytes);

/* ---- explanations -------------------------------------------------------------------------------------- */

/* Why the last function that returned an error class did so, with values; "" if there is nothing to add. Reading
 * takes it: the next call returns "". Set and taken without waiting in between: another thread's would get in. */
void hdl_reason_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *hdl_reason_take(void);
/* Sets the reason of a send to that rank of comm which failed with that error class and errno. */
void hdl_send_explain(int error, int errnum, int peer, int tag, const struct hdl_comm *comm, size_t bytes);

/* The MPI function that runs, for reports of what a rank waits for: one plain store on entry of what may block. (With
 * several threads, of the one that holds the lock; those that wait have theirs in struct hdl_waiter.) */
extern const char *hdl_call;
/* The communicator of a collective that a thread waits for, if that is known: set around the wait. */
extern const struct hdl_comm *hdl_blocked_comm;
/* The requests of which a thread waits for all, or for one, if it waits for several; of: NULL otherwise. Likewise. */
struct hdl_requests {
	int count;
	const MPI_Request *of;
};
extern struct hdl_requests hdl_blocked_requests;
/* What this rank waits for: calls, peers, tags, communicators, one line each; then the transport's part. */
void hdl_p2p_dump(FILE *out);

#endif
