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

#endif
