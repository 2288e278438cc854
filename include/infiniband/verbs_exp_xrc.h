/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manual's older XRC calls (3.4.8 to 3.4.14, 3.6.3), implemented by upstream's calls on any device. An XRC domain is an ibv_xrcd. A
 * receive queue pair has type IBV_QPT_XRC_RECV, and these calls name it by its number. Included by <infiniband/verbs_exp.h>.
 *
 * Three fields exist only under upstream's names: the domain of a new queue pair (ibv_qp_init_attr_ex.xrcd, in place of a field of
 * ibv_qp_init_attr), the number of a shared receive queue (ibv_get_srq_num), and the target of a request
 * (ibv_send_wr.qp_type.xrc.remote_srqn).
 */
#ifndef INFINIBAND_VERBS_EXP_XRC_H
#define INFINIBAND_VERBS_EXP_XRC_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ibv_xrc_domain ibv_xrcd
#define IBV_QPT_XRC IBV_QPT_XRC_SEND

/* As ibv_open_xrcd: processes that name the same inode by fd share the domain; fd -1: a domain of this process alone. Returns NULL
 * with errno on failure. */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag);
/* The int calls below return 0, or -1 with errno. */
int ibv_close_xrc_domain(struct ibv_xrc_domain *d);

/* Returns NULL with errno on failure. The granted values are in srq_init_attr->attr. */
struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain, struct ibv_cq *xrc_cq,
				   struct ibv_srq_init_attr *srq_init_attr);

/* Makes a receive queue pair in the domain init_attr->xrcd and registers this process for it. The call ignores the rest of init_attr. */
int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr_ex *init_attr, uint32_t *xrc_rcv_qpn);
/* Any process in the domain may call these two, registered or not. */
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr);
/* Registers this process for a queue pair of another process. The queue pair exists until the last registered process has unregistered
 * or ended. Its messages reach the shared receive queues of all processes in the domain, registered or not. Repeated registrations of
 * one process count once. EINVAL: no such queue pair in this domain. */
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);
/* The last one that is registered destroys the queue pair. EINVAL: this process is not. */
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

#ifdef __cplusplus
}
#endif
#endif
