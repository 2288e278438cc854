/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The road of a send request. Every form of posting translates its request into a struct shca_send for shca_submit:
 *
 *   ibv_post_send              shca_post_list (post.c)   send_of           \
 *   ibv_wr_*                   submit_list (wr.c)        the setters        > shca_submit: checks the queue's state, runs the
 *   ibv_exp_post_send, _task   post_sends (exp_post.c)   shca_exp_fill      | request here, or writes a WQE and kicks the queue
 *   mlx5dv_wr_raw_wqe          submit_raws (wr.c)        decode (raw.c)    /
 *
 * Two short cuts leave the road before the translation: a fast write (fast_write.h), and a short datagram (datagram.c).
 *
 * Files call downwards: post_send.c (ibv_post_send) -> datagram.c -> post.c; wr.c -> raw.c -> exp_post.c -> post.c. All of them
 * call receive/ and objects/, which call none of them.
 */
#ifndef SHCA_POST_H
#define SHCA_POST_H

#include "shca.h"
#include "shca/engine/access.h"
#include "shca/verbs/device.h"
#include "shca/verbs/objects/mr.h"
#include "shca/verbs/objects/sq.h"

struct shca_send {
	struct shca_req req;
	uint64_t wr_id;
};

/* Runs or queues one request of q. Returns 0, or an errno value: refused. Must be called inside the engine, with q's lock. */
int shca_submit(struct shca_thread *thr, struct shca_user_qp *q, struct shca_send *send);
/* ibv_post_send for any list and queue. */
int shca_post_list(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* The same for a UD queue, short for one short datagram (datagram.c). */
int shca_post_datagram(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* How many further requests q has room for. */
uint64_t shca_send_room(struct shca_user_qp *q);
/* ENOMEM of `n` requests for which q has no room, and why, where SHCA_DEBUG is set. */
int shca_full(struct shca_user_qp *q, uint64_t n);
/* Returns true if queues of q's type take this operation (enum shca_wr_op). */
bool shca_op_allowed(const struct shca_user_qp *q, uint8_t op);
/* The parts of a request that every form of posting is refused for alike. */
struct shca_ask {
	int opcode, op;			/* the form's; enum shca_wr_op, negative: the device has no such operation */
	uint64_t segments, inline_bytes;
	uint32_t result_bytes;		/* of an atomic */
};
/* Prints under SHCA_DEBUG the first wrong part: operation, segments, inline bytes, destination, result. Returns EINVAL. */
int shca_send_refused(const struct shca_user_qp *q, const char *call, const struct shca_ask *ask);

/* Fills in the request to bind a memory window. Returns 0, or EINVAL: refused. */
int shca_fill_bind(const struct shca_user_qp *q, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
		   struct shca_req *req);

/* Fills in the value of an ATOMIC_WRITE, of one segment, which is read now if it is inline. Returns 0, or EINVAL: refused. */
int shca_fill_atomic_write(const struct shca_user_qp *q, const struct ibv_sge *sge, bool is_inline, struct shca_req *req,
			   struct shca_seg *segs);

/* Refuses IBV_SEND_* that a frame cannot have. Returns 0, or EINVAL. */
int shca_frame_allowed(const struct shca_user_qp *q, const char *call, unsigned int flags);

/* Returns true if the operation writes to the requester's segments, which then need IBV_ACCESS_LOCAL_WRITE. */
static inline bool shca_op_writes_here(uint8_t op)
{
	return op >= SHCA_OP_READ && op <= SHCA_OP_MASKED_FAA;
}
/* Inline data needs no key: shca_submit reads the data before it returns. */
static inline void shca_send_inline(struct shca_req *req, const struct ibv_sge *list, int n, struct shca_seg *segs)
{
	req->flags |= SHCA_WQE_INLINE;
	if (n == 1) {
		req->len = list[0].length;
		req->inl = (const void *)(uintptr_t)list[0].addr;
		segs[0] = (struct shca_seg){.where = list[0].addr, .len = req->len, .lane = SHCA_LANE_CMA};
		return;
	}
	req->len = 0;
	for (int i = 0; i < n; i++) {
		segs[i] = (struct shca_seg){.where = list[i].addr, .len = list[i].length, .lane = SHCA_LANE_CMA};
		req->len += list[i].length;
	}
}
static inline void shca_send_atomic(struct shca_req *req, uint64_t raddr, uint32_t rkey, uint64_t compare_add, uint64_t swap)
{
	req->raddr = raddr;
	req->rkey = rkey;
	req->arg[0] = compare_add;
	req->arg[1] = swap;
}

/* Looks a gather or scatter list up. Returns 0 or an enum ibv_wc_status. *len: bytes of the list. */
uint8_t shca_resolve_list(const struct shca_user_qp *q, const struct ibv_sge *list, int n, bool write, struct shca_seg *segs,
			  uint32_t *len);

/* The experimental verbs' posting (exp_post.c), for the operations table of exp.c. */
struct ibv_exp_send_wr;
struct ibv_exp_task;
int shca_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad);
int shca_exp_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad);
/* The same by steps, for raw.c. Such a queue's posts may concern several queues: they hold the context's cross, taken before the
 * queue's lock. */
bool shca_takes_cross(const struct shca_user_qp *q);
/* Checks the request alone, without regard to requests before it. Returns 0 or an errno value. */
int shca_exp_check(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr);
/* Checks the room, and takes all memory that the request may need. Must be called behind shca_exp_check, under the locks. A
 * refusal has changed no index or count. list: the request belongs to a task list, whose earlier requests count. Returns 0 or an
 * errno value. */
int shca_exp_reserve(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, uint64_t ahead, bool list);
/* Makes the request description of a checked and reserved request. index: the absolute index of a WAIT or ENABLE; NULL: wr
 * counts from the base (struct shca_index). segs: SHCA_EXP_SEGS entries; they hold an atomic's operands, too. */
#define SHCA_EXP_SEGS (SHCA_MAX_SGE + 4)
void shca_exp_fill(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, const uint64_t *index,
		   struct shca_req *req, struct shca_seg *segs);
/* Runs the requests that were submitted with q->defer_kick set. */
void shca_run_posted(struct shca_thread *thr, struct shca_user_qp *q);
/* raw.c: a raw WQE of a ConnectX. Refuses one that shca_submit_raw would not take. 0 or an errno value. The WQE's length,
 * which only a sound one has. */
int shca_check_raw(struct shca_user_qp *q, const uint8_t *wqe);
static inline uint32_t shca_raw_bytes(const uint8_t *wqe)
{
	return (wqe[7] & 0x3fu) * 16;
}
#define SHCA_RAW_MAX (63 * 16)
/* Behind that, and under the locks: as shca_exp_reserve and shca_submit. */
int shca_reserve_raw(struct shca_user_qp *q, const uint8_t *wqe, uint64_t ahead, bool list);
int shca_submit_raw(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, const uint8_t *wqe);

#endif
