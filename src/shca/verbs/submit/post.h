/* SPDX-License-Identifier: BSD-3-Clause */
/* Submitting requests: what post.c, wr.c and exp.c share. */
#ifndef SHCA_POST_H
#define SHCA_POST_H

#include "shca/verbs/device.h"

/* Runs or queues one request of q, whose lock the caller holds, inside the engine. 0, or an errno value. */
int shca_submit(struct shca_thread *thr, struct shca_user_qp *q, uint64_t wr_id, struct shca_req *req);
/* Makes runnable what was submitted with q->defer_kick set; shca_drain then runs it. */
void shca_kick_later(struct shca_thread *thr, struct shca_user_qp *q);
/* ibv_post_send for whatever list and queue. */
int shca_post_any(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* The same for a UD queue, short for one short datagram (datagram.c). */
int shca_post_datagram(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* How many further requests q has room for. */
uint64_t shca_send_room(struct shca_user_qp *q);
/* ENOMEM of `n` requests for which q has no room, and why, where SHCA_DEBUG is set. */
int shca_full(struct shca_user_qp *q, uint64_t n);
/* Room for the inline data of the request that comes `ahead` requests from now, should it have to wait. 0 or ENOMEM. */
int shca_reserve_inline(struct shca_user_qp *q, uint64_t ahead, uint64_t bytes);
/* The same for an atomic's operands that are read when it is posted. */
int shca_reserve_operands(struct shca_user_qp *q, uint64_t ahead, uint32_t bytes);
/* The ring of WQEs, made when the first one is written. 0 or ENOMEM. */
int shca_reserve_ring(struct shca_user_qp *q);
bool shca_op_allowed(const struct shca_user_qp *q, uint8_t op);
/* Resolves a gather or scatter list; 0 or an enum ibv_wc_status. */
uint8_t shca_resolve_list(struct shca_user_qp *q, const struct ibv_sge *list, int n, bool write, struct shca_seg *segs,
			  uint32_t *len);

/* The experimental verbs' posting (exp_post.c), for the operations table of exp.c. */
struct ibv_exp_send_wr;
struct ibv_exp_task;
int shca_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad);
int shca_exp_post_task(struct ibv_context *ctx, struct ibv_exp_task *task, struct ibv_exp_task **bad);
/* The same by steps, for raw.c. Such a queue's posts may concern several queues: they hold the context's cross, taken before the
 * queue's lock. */
bool shca_takes_cross(const struct shca_user_qp *q);
/* What is wrong with the request itself, whatever is posted before it. 0 or an errno value. */
int shca_exp_check(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr);
/* The rest of what may be refused: behind check, under the locks. Takes what memory the request will need; nothing that it
 * counts has changed when it is refused. list: a task list's, whose requests before this one count. */
int shca_exp_reserve(struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, uint64_t ahead, bool list);
/* What was checked and reserved, as the engine sees it. index: the absolute one of a WAIT or ENABLE; NULL: it counts from the
 * base. segs: SHCA_EXP_SEGS of them, an atomic's operands included. */
#define SHCA_EXP_SEGS (SHCA_MAX_SGE + 4)
void shca_exp_fill(struct shca_thread *thr, struct shca_user_qp *q, const struct ibv_exp_send_wr *wr, const uint64_t *index,
		   struct shca_req *req, struct shca_seg *segs);
/* Runs what was submitted with q->defer_kick set. */
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
