/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs objects of this process: ibv_* structs with the device's private part behind them.
 *
 *     objects/   cq.c CQ, channels waits.c the WAITs for a CQ srq.c SRQ srq_resize.c rq.c memory of a receive queue pd.c PD,
 *                domains mr.c MR, device memory mw.c memory windows rights.c protection of memory to register ah.c AH
 *                local.c objects by number
 *                qp.c QP   qp_modify.c its transitions, by qpstate.c   sq.c memory of its send queue   qp_handle.c its handle
 *                xrc.c XRC's receiving QPs   dct.c experimental DC targets   zombie.c destroyed QPs on RNR lists
 *                mcast.c multicast groups   flow.c flows to raw packet QPs
 *     submit/    post_send.c ibv_post_send   fast_write.c, datagram.c its short cuts   post.c lists, shca_submit   wr.c ibv_wr_*
 *                exp_post.c experimental verbs, task lists   raw.c WQEs of a ConnectX
 *     receive/   post_recv.c ibv_post_recv   poll.c ibv_poll_cq, ibv_start_poll
 *     refuse.c   reasons to refuse a call            events.c  asynchronous events
 *     query.c    capabilities                        files.c   sysfs files of the device
 *     dv.c       mlx5dv (DC)                         devx.c    capabilities of a ConnectX
 *     counters.c the port's counters                 sa.c      path records
 *     exp.c      attributes of the experimental verbs   import.c  second contexts, and their domains and regions
 *     device.c   devices, open, close                child.c   refusals in a forked child
 *
 * Files call downwards (tests/unit/layers.sh): refuse.c, events.c, query.c <- objects/ <- receive/ <- submit/ <- exp.c, device.c
 * <- dv.c. Upper folders come to the lower ones as hooks: struct shca_queue_ops.
 */
#ifndef SHCA_DEVICE_H
#define SHCA_DEVICE_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "shca/engine/engine.h"

/*
 * The lists of a process's queues in shca_proc_slot, as their owner keeps them: doubly linked here, so that add and remove are
 * constant. The links in the fabric, which other processes follow, go forwards only, and each change is one store: the list is
 * whole at every instant, even if the owner dies. Guarded by node->mutex.
 */
struct shca_listed {
	struct shca_listed *before, *after;	/* before NULL: the first */
	shca_off *next;			/* in the shared element: the offset of the next element */
	shca_off off;			/* of the shared element */
};
struct shca_list {
	struct shca_listed *first;
};
static inline void shca_list_add(struct shca_list *l, shca_off *head, struct shca_listed *e, shca_off off, shca_off *next)
{
	*e = (struct shca_listed){.after = l->first, .next = next, .off = off};
	if (l->first)
		l->first->before = e;
	l->first = e;
	__atomic_store_n(next, __atomic_load_n(head, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	__atomic_store_n(head, off, __ATOMIC_RELEASE);
}
/* Must keep the element's own link: a thread that stands on the element goes on by that link. The element may be freed after a
 * quiesce. */
static inline void shca_list_remove(struct shca_list *l, shca_off *head, struct shca_listed *e)
{
	__atomic_store_n(e->before ? e->before->next : head, __atomic_load_n(e->next, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
	if (e->before)
		e->before->after = e->after;
	else
		l->first = e->after;
	if (e->after)
		e->after->before = e->before;
}

/* Allocated with each queue: the queue's destroy may need one, and must not fail (zombie.c). */
struct shca_zombie {
	struct shca_zombie *next;
	struct shca_listed listed;
};

/* A lock that the user may have promised not to need (ibv_td, IBV_CREATE_CQ_ATTR_SINGLE_THREADED). */
struct shca_lock {
	_Atomic uint32_t word;
	bool none;
};
static inline void shca_lock(struct shca_lock *l)
{
	/* the loop stands in the unlikely branch, so that its alignment costs a free lock nothing */
	if (!l->none && unlikely(atomic_exchange_explicit(&l->word, 1, memory_order_acquire)))
		do
			while (atomic_load_explicit(&l->word, memory_order_relaxed))
				cpu_relax();
		while (atomic_exchange_explicit(&l->word, 1, memory_order_acquire));
}
static inline void shca_unlock(struct shca_lock *l)
{
	if (!l->none)
		atomic_store_explicit(&l->word, 0, memory_order_release);
}

struct shca_user_qp;
struct shca_user_cq;
struct shca_user_mw;
/* Functions of submit/ and receive/ that fill in the pointers by which a program posts to a new queue, and polls a new CQ.
 * device.c hands them down to objects/, which calls nothing of those folders. */
struct shca_queue_ops {
	int (*fill_qp)(struct shca_user_qp *qp, uint64_t send_ops_flags, uint64_t dv_flags);	/* shca_wr_ops */
	void (*fill_cq)(struct shca_user_cq *cq);						/* shca_cq_ex_ops */
};

struct shca_context {
	struct shca_member *m;		/* one member per process, shared by the contexts of the process */
	struct verbs_context v;		/* v.context is the ibv_context handed out */
	struct shca_node *node;
	struct shca_context *next;	/* of the node */
	/* device.c; async is the async_fd of ibv_context, cmd the cmd_fd */
	struct shca_fd async, cmd, bell;
	char bell_addr[32];		/* of `bell`: rung when another context's reader found an event of this one */
	pthread_mutex_t mutex;		/* the lists below, which event readers scan */
	struct shca_user_cq *cqs;
	struct shca_user_qp *qps;
	struct shca_user_srq *srqs;
	struct shca_user_mr *mrs;
	struct shca_user_mw *mws;
	struct shca_user_xrcd *xrcds;
	uint64_t port_events;		/* of the port's (shca_port), those before were taken, or came before the context */
	bool plain_connectx;		/* shca_is_plain_connectx */
	void *bufs;			/* tree of arena memory handed out by shca_alloc */
	/* Guards struct shca_index and struct shca_task_count of all queues of the context, and the notes of WAITs (waits.c).
	 * Order: cross, then queues' locks. Only a holder of cross may hold several queues' locks, taken in any order. */
	pthread_mutex_t cross;
	uint64_t tasks;			/* number of the list of requests that is being posted (struct shca_task_count) */
	const struct shca_queue_ops *queue_ops;
};
/* Where the counts of WAITs for a CQ, or of ENABLEs of a queue, begin. Absolute; guarded by the context's `cross`. */
struct shca_index {
	uint64_t base;			/* of the next requests; the last of a group (IBV_EXP_SEND_WAIT_EN_LAST) moves the base */
	uint64_t most;			/* the largest index so far */
};
/* Of a queue, while a task list is posted: the list's requests for this queue. Guarded by the context's `cross`. */
struct shca_task_count {
	uint64_t list;			/* shca_context.tasks; another: nothing counts */
	uint64_t n;			/* requests of the list that are not posted yet */
	uint64_t reserved;		/* ... for which everything is there */
	bool locked;			/* the list holds the queue's lock */
};
#define shca_context_of(ctx) container_of(ctx, struct shca_context, v.context)
/* Returns true if ctx is a context of this device: compares the query_device_ex pointer. */
bool shca_is_ours(const struct ibv_context *ctx);

struct shca_user_pd {
	struct ibv_pd pd;
	struct shca_member *m;
	uint32_t number;		/* fabric-wide */
	struct shca_user_pd *parent;	/* parent domain: of this PD */
	bool td;			/* with a thread domain: no lock */
	struct shca_user_td *ltd;
	_Atomic uint32_t refs;
};

struct shca_user_mr {
	struct ibv_mr mr;
	struct shca_mr *sh;
	bool imported;			/* made by ibv_import_mr: not on the context's list; the process that registered the
					 * region deregisters it */
	uint32_t entries;		/* an indirect memory key (mkey.c): room for entries; 0: a region */
	uint32_t gen;			/* of an indirect key: `gen` of sh when the key was made; the child of a fork has no
					 * fabric */
	struct mlx5dv_mkey dv;		/* ... of mlx5dv_create_mkey */
	void *own;			/* allocated by ibv_exp_reg_mr (IBV_EXP_ACCESS_ALLOCATE_MR); NULL: the program's memory */
	_Atomic unsigned *dm_regions;	/* counts the regions of this region's device memory; NULL: other memory */
	struct shca_user_pd *pd;
	struct shca_user_mr *next, **prev;	/* of the context */
};

struct shca_user_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
	uint64_t path;			/* SHCA_UD_PATH of attr: shca_req.arg[1] of a datagram */
	uint8_t wqe_flags;		/* of a datagram: SHCA_WQE_GRH where attr is global */
	bool nowhere;			/* dlid or dgid is no port of this fabric: packets are lost, unless: */
	bool group;			/* dgid is a multicast GID; nowhere is set, too */
	bool fast;			/* neither nowhere nor global: datagram.c may take the datagram */
	uint32_t dc_number;		/* DC: the bits of a target's number; 0: nowhere */
	uint32_t dc_port;		/* DC: SHCA_DC_TO_2 if the address is port 2's, else 0 */
};

/* shca_req.dqpn of a DC request for target qpn by this address. Number 0: no queue has this number, the packet is lost. */
static inline uint32_t shca_destination(const struct shca_user_ah *ah, uint32_t qpn)
{
	return (qpn & ah->dc_number) | ah->dc_port;
}

/* Fills in the destination of a datagram, and the fields that the packet takes from the address handle. */
static inline void shca_set_ud_address(struct shca_req *req, const struct shca_user_ah *ah, uint32_t qpn, uint32_t qkey)
{
	req->dqpn = qpn;
	req->qkey = qkey;
	req->flags |= ah->wqe_flags;
	req->arg[1] = ah->path;
	if (unlikely(ah->nowhere)) {
		/* 0: no queue has this number, the packet is lost */
		req->dqpn = ah->group && qpn == SHCA_MULTICAST_QPN ? SHCA_MULTICAST : 0;
		memcpy(&req->arg[2], &ah->attr.grh.dgid, sizeof(ah->attr.grh.dgid));
	}
}

/* The memory of a receive queue's ring: offsets. */
struct shca_user_ring {
	struct shca_user_ring *older;	/* of an SRQ whose ring was replaced (engine/rq_move.c) */
	shca_off ring, marks, wqes;
	shca_off sh;			/* the ring's struct shca_rq; 0: none */
	uint32_t size, stride;
};

struct shca_user_rq {			/* the owner's side of a receive queue */
	struct shca_rq *sh;
	struct shca_rq *in;		/* the ring that receives are posted to: sh, or an SRQ's newest one */
	shca_off off;
	struct shca_user_ring *rings;	/* the newest first; NULL: no receive was posted so far */
	/* Of the ring that receives are posted to. Written under `lock`; `marks` and `wqes` by atomic stores. */
	uint64_t *wr_id;		/* by index */
	_Atomic uint64_t *marks;	/* shca_rq.marks */
	char *wqes;			/* shca_rq.wqes */
	uint32_t *fifo;			/* free indexes, first-in first-out */
	uint32_t fifo_head, fifo_tail;	/* count = tail - head */
	uint32_t size, max_sge;		/* size is a power of two */
	uint32_t max_wr;		/* as asked for by the user; <= size */
	struct shca_index enabled;	/* managed: by RECV_ENABLEs */
	struct shca_task_count task;
	struct shca_lock lock;
};

/* Frees the place of a receive whose completion has been polled, or is removed. Returns the receive's wr_id. */
static inline uint64_t shca_receive_polled(struct shca_user_rq *rq, uint32_t index)
{
	/* the lock: another thread may replace the ring */
	shca_lock(&rq->lock);
	index &= rq->size - 1;	/* I7: another process has said which */
	uint64_t id = rq->wr_id[index];
	/* before the completion may be overwritten: from then on its presence proves no more that the completion appeared */
	shca_rq_polled(&rq->marks[index]);
	rq->fifo[rq->fifo_tail & (rq->size - 1)] = index;
	rq->fifo_tail++;
	shca_unlock(&rq->lock);
	return id;
}

/* The WAITs for a CQ: the tables in the fabric, and the position of each WAIT. Guarded by the context's `cross`. */
struct shca_user_waits {
	shca_off tables[SHCA_WAITS_LOG2_MAX + 1];	/* by their log2: two, one behind the other; 0: none so far */
	uint64_t *pos;			/* position in the queue of each WAIT of the table in use */
	uint32_t log2, n;		/* of the table in use: size, entries used */
	uint64_t changes;		/* of the table in use; odd: the second table of this size */
	uint64_t task, reserved;	/* for a list of requests, as shca_task_count */
};

struct shca_user_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct shca_member *m;
	struct shca_cq *sh;
	shca_off off;
	struct shca_cqe *ring;
	uint32_t log2;
	uint64_t ci;			/* consumer index; sh->ci follows */
	pthread_mutex_t resizing;	/* held over ibv_resize_cq, which waits for threads of other processes */
	struct shca_lock lock;
	_Atomic uint32_t vain;		/* looks that found nothing since the last that did: a hint, not counted exactly */
	/* cross-channel, guarded by the context's cross */
	struct shca_index waited;	/* by WAITs */
	struct shca_user_waits waits;
	/* the cursor of start_poll */
	uint64_t w0, w1;
	uint32_t cur_qpn, cur_wc_flags;
	uint32_t cur_from;		/* sender_of (poll.c) of a datagram; else 0 */
	struct shca_user_pd *pd;		/* parent domain */
	uint64_t wc_flags;		/* creation flags */
	bool ex_used;
	bool stamped;			/* completions have a time (SHCA_CQ_STAMPED) */
	struct shca_user_cq *next, **prev;	/* of the context */
	struct shca_listed listed;
	uint32_t events_unacked, async_unacked;
	_Atomic uint32_t refs;		/* queues that complete here */
};

struct shca_user_srq {
	struct ibv_srq srq;
	struct shca_user_rq rq;
	uint32_t number;
	enum ibv_srq_type type;
	struct shca_user_cq *cq;		/* XRC */
	struct shca_user_pd *pd;
	struct shca_user_srq *next, **prev;	/* of the context */
	struct shca_listed listed;
	struct shca_user_xrcd *xrcd;
	pthread_mutex_t resizing;	/* held while the ring is replaced, which waits for threads of other processes */
	uint32_t events_unacked;
	_Atomic uint32_t refs;		/* queue pairs that receive from this SRQ */
};

/* Inline data of a WQE, in the arena. */
struct shca_long {
	shca_off at;
	uint32_t bytes;
};

struct shca_user_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct mlx5dv_qp_ex dv;		/* wr_set_dc_addr, wr_raw_wqe */
	struct shca_member *m;
	struct shca_qp *sh;
	shca_off off;
	uint8_t type;			/* as sh->type */
	bool shared_only;		/* cross-channel, or SHCA_BEHAVE=async: never DIRECT */
	bool fast_write_kind;		/* RC, XRC_SEND or DCI, not cross-channel: a WRITE may be a fast write (fast_write.h) */
	bool ready;			/* RTS: posts are accepted (else EINVAL; ERR: flushed) */
	_Atomic bool fast_writes;	/* ready, fast_write_kind and not sq_sig_all */
	uint32_t pd_number;
	struct shca_user_pd *pd;
	struct shca_user_cq *scq, *rcq;
	struct shca_user_rq *rq;		/* own_rq, that of the SRQ, or NULL */
	struct shca_user_srq *srq;
	struct shca_user_rq own_rq;
	struct shca_rkey_cache *rkey_cache;	/* of fast writes (fast_write.h); a power of two entries */
	uint32_t rkey_cache_mask;
	struct shca_route *routes;	/* of short datagrams (datagram.c); made when first needed */
	uint32_t max_inline, max_sge;
	uint32_t max_atomic;		/* bytes of a masked atomic's operand: ibv_exp_qp_init_attr.max_atomic_arg, at least 8 */
	struct shca_lock lock;
	struct shca_lock building;	/* of wr, where raw work requests are taken (wr.c); before cross and lock */
	bool sq_sig_all;
	bool no_reads;			/* max_rd_atomic 0: READs and atomics fail */
	/* send queue positions, absolute: freed <= head <= pi */
	uint64_t pi;			/* next position */
	uint64_t freed;			/* positions below are known to be free */
	uint64_t sq_mask;		/* of wr_id and longs: a power of two - 1 */
	uint32_t max_wr;		/* requests outstanding at most */
	bool defer_kick;			/* several are being posted: run later */
	struct shca_task_count task;
	uint64_t signaled;		/* behind the last signaled request that was posted */
	uint64_t *wr_id;		/* by position & sq_mask */
	struct shca_long *longs;	/* inline data that did not fit WQEs, by position & sq_mask; made when first needed */
	uint32_t nlongs;
	struct shca_index enabled;	/* managed: by SEND_ENABLEs */
	/* the wr_* builder */
	int wr_err;
	uint32_t wr_n, wr_cap;
	struct shca_send *wr, *wr_last;	/* the list (wr.c) and its last request; NULL: setters have no request */
	/* Held over modify and query. Those may wait for another process, even a stopped one; so this is not qp.mutex, which
	 * guards events_unacked, is taken under the locks of all contexts' events, and must wait for nothing. */
	pthread_mutex_t modifying;
	struct ibv_qp_attr attr;	/* as set, for query */
	int attr_mask;
	struct ibv_qp_init_attr init;
	uint64_t dv_dc_key;
	struct shca_user_qp *next, **prev;	/* of the context */
	struct shca_zombie *zombie;
	uint32_t cross;			/* index in m->cross */
	uint32_t events_unacked;
	/* LAST_WQE_REACHED: the threads that were inside when the event was found; the event is given out when they have left.
	 * Both guarded by the context's mutex. */
	struct shca_quiesce last;
	bool last_seen;
	/* XRC_RECV: sh is the common queue's, holder is this handle's word there */
	struct shca_user_xrcd *xrcd;
	struct shca_common_qp *common;
	_Atomic uint64_t *holder;
	struct ibv_exp_dct *dct;	/* the target of the experimental verbs that events of this queue name */
	bool ignore_overflow;		/* IBV_EXP_QP_CREATE_IGNORE_SQ_OVERFLOW */
	bool has_ex;			/* made by create_qp_ex with send operations */
	bool takes_raw;			/* ... and MLX5DV_QP_EX_WITH_RAW_WQE */
	bool fills_keys;		/* IBV_EXP_QP_CREATE_UMR */
	struct shca_mkey_entry *key_entries;	/* of the request that is being posted (exp_post.c) */
	uint32_t key_cap;
	struct shca_umr *umr;		/* requests that configure memory keys (wr.c); NULL: the queue pair was
					 * not made for them */
	bool mapped;			/* the shared part exists; false after the context was closed */
	struct shca_user_group *groups;	/* multicast; guarded by the node's mutex */
	struct shca_user_flow *flows;	/* that lead to the queue; guarded by the node's mutex */
};

/* A queue's membership in a multicast group (mcast.c). */
struct shca_user_group {
	struct shca_user_group *next;	/* of the queue */
	struct shca_listed listed;
	shca_off off;
};

/* A flow of ibv_create_flow (flow.c). */
struct shca_user_flow {
	struct ibv_flow flow;
	struct shca_user_flow *next;	/* of the queue */
	struct shca_user_qp *qp;	/* NULL: the context was closed, which has ended the flow */
	struct shca_listed listed;
	shca_off off;
};

/* Local objects by number (QP, SRQ, CQ): two levels, m->local -> [number >> 8] -> [number & 255]. */
struct shca_tagged {
	uint32_t kind;			/* enum shca_kind */
	union {
		struct shca_user_qp *qp;
		struct shca_user_srq *srq;
		struct shca_user_cq *cq;
	};
};
struct shca_local {
	struct shca_tagged *_Atomic seg[SHCA_QP_SEGS];
};
static inline struct shca_tagged *shca_local_get(struct shca_member *m, uint32_t number)
{
	struct shca_tagged *seg = atomic_load_explicit(&((struct shca_local *)m->local)->seg[(number >> 8) & 0xffff],
						       memory_order_acquire);
	return seg ? &seg[number & 0xff] : NULL;
}
/* Makes the segment when needed; -ENOMEM. obj NULL: gone. */
int shca_local_set(struct shca_member *m, uint32_t number, enum shca_kind kind, void *obj);
/* Frees the table; NULL: there is none. used: the number of segments that any process of the fabric had. */
void shca_local_free(struct shca_local *local, uint32_t used);

/* submit/post_send.c, receive/post_recv.c */
int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int shca_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int shca_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* Fills the wr_* pointers of qp for these send_ops_flags; EOPNOTSUPP for one that the type lacks. */
int shca_wr_ops(struct shca_user_qp *qp, uint64_t send_ops_flags, uint64_t dv_flags);
/* Makes and frees the poster's side of a receive queue for max_wr requests of max_sge segments. The memory of the receives is
 * made by shca_user_rq_reserve, under rq->lock, when the first receive is posted. 0 or a negative errno. */
int shca_user_rq_reserve(struct shca_member *m, struct shca_user_rq *rq);
/* log2 of the size of a receive queue with room for so many requests. */
static inline uint32_t shca_rq_log2(uint32_t max_wr)
{
	uint32_t log2 = 0;

	while (1u << log2 < max_wr)
		log2++;
	return log2;
}
int shca_user_rq_init(struct shca_member *m, struct shca_user_rq *rq, uint32_t max_wr, uint32_t max_sge);
void shca_user_rq_free(struct shca_member *m, struct shca_user_rq *rq);
/* shca_user_rq_free in a forked child: of the memory that the child has a copy of. */
void shca_user_rq_forget(struct shca_user_rq *rq);
/* Makes and frees the memory of a ring. NULL: no memory. */
struct shca_user_ring *shca_user_ring_new(struct shca_member *m, uint32_t size, uint32_t stride);
void shca_user_ring_free(struct shca_member *m, struct shca_user_ring *ring);
/* Fills in the fields of `sh` that say where the memory of the ring is, but for `ring` itself, whose value is returned. Must:
 * log2 and stride are set. */
uint64_t shca_user_ring_describe(struct shca_member *m, struct shca_rq *sh, const struct shca_user_ring *ring);
/* Returns true if receives may be posted to the queue. In RESET they are refused (IBTA 10.8.3.1), but for queues of the
 * experimental verbs for task lists: programs written for those prepare them before the queue is connected; and with
 * SHCA_LENIENT. */
static inline bool shca_takes_receives(const struct shca_user_qp *q)
{
	return likely(q->rq && !q->srq) &&
	       (likely(atomic_load_explicit(&q->sh->qp_state, memory_order_relaxed) != IBV_QPS_RESET) ||
		q->sh->flags & (SHCA_QP_CROSS | SHCA_QP_MANAGED_SEND | SHCA_QP_MANAGED_RECV) || q->m->lenient);
}
/* The reason why shca_takes_receives is false, for a refusal. */
static inline const char *shca_no_receives(const struct shca_user_qp *q)
{
	return q->srq ? "it has a shared receive queue" : !q->rq ? "its type has no receive queue, or it was made for none" :
	       "it is in RESET: receives are posted from INIT on (SHCA_LENIENT=1 takes them earlier, as an mlx4 does)";
}
/* Posts receives. Must be called inside the engine, with rq->lock. Returns 0; or an errno value: *bad and the receives behind
 * *bad are not posted. */
int shca_receives_post(struct shca_thread *thr, struct shca_user_rq *rq, uint32_t pd, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad);
/* The owner re-posts receives that were returned (rq.returned). */
void shca_user_rq_repost(struct shca_thread *thr, struct shca_user_rq *rq);

/* objects/waits.c. The callers hold the context's `cross`. */
/* Room for one more WAIT for cq, besides those that this list (task) has asked for before. 0 or ENOMEM. */
int shca_wait_reserve(struct shca_user_cq *cq, uint64_t task);
/* Notes that the next request of q is a WAIT for this count. Must be called behind shca_wait_reserve, before the post. */
void shca_wait_note(struct shca_thread *thr, struct shca_user_cq *cq, const struct shca_user_qp *q, uint64_t count);
/* How many WAITs for cq are posted and have yet to run. */
uint64_t shca_waits_posted(const struct shca_user_cq *cq);
/* Frees the tables. Must be called when no thread can read them any more. */
void shca_waits_free(struct shca_user_cq *cq);

/* receive/poll.c */
int shca_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
/* Of a process with two ports: the port from which a datagram came. */
int shca_poll_cq_of_ports(struct ibv_cq *cq, int n, struct ibv_wc *wc);
struct ibv_exp_wc;
int shca_exp_poll_cq(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc);
/* Fills start_poll, next_poll, end_poll, read_* of a CQ of ibv_create_cq_ex. */
void shca_cq_ex_ops(struct shca_user_cq *cq);
int shca_req_notify_cq(struct ibv_cq *cq, int solicited_only);

#endif
