/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The manual's older XRC calls (3.4.8 to 3.4.14, 3.6.3) over those that upstream has: a domain is an ibv_xrcd, a receive queue pair is
 * one of type IBV_QPT_XRC_RECV, which is named by its number here. They work on any device. Included by <infiniband/verbs_exp.h>.
 *
 * Three things have other names upstream, and cannot be had by the old ones: the domain of an ibv_qp_init_attr (ibv_qp_init_attr_ex.xrcd),
 * the number of a shared receive queue (ibv_get_srq_num), and where a request says it (ibv_send_wr.qp_type.xrc.remote_srqn).
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

/* As ibv_open_xrcd: processes that name the same inode by fd share the domain; fd -1: it is this process's. NULL with errno. */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd, int oflag);
/* All of these: 0, or -1 with errno. */
int ibv_close_xrc_domain(struct ibv_xrc_domain *d);

/* NULL with errno. What was granted is in srq_init_attr->attr. */
struct ibv_srq *ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain, struct ibv_cq *xrc_cq,
				   struct ibv_srq_init_attr *srq_init_attr);

/* Makes a receive queue pair in the domain init_attr->xrcd; the rest of init_attr is not looked at. The process is registered for it. */
int ibv_create_xrc_rcv_qp(struct ibv_qp_init_attr_ex *init_attr, uint32_t *xrc_rcv_qpn);
/* By any process in the domain, registered or not. */
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num, struct ibv_qp_attr *attr, int attr_mask,
			 struct ibv_qp_init_attr *init_attr);
/* Registers this process for another's queue pair, which stays until the last one that is registered has unregistered or ended. What
 * arrives there reaches the shared receive queues of all processes in the domain, registered or not. Of one process several
 * registrations are one. EINVAL: no such queue pair in this domain. */
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);
/* The last one that is registered destroys the queue pair. EINVAL: this process is not. */
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

#ifdef __cplusplus
}
#endif
#endif
