/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of a request before the provider: appendices B and D of the manual, without knowledge of the objects' insides. All
 * functions return 0, or an errno value, which they have reported.
 */
#ifndef VERBS_EXP_VALIDATE_H
#define VERBS_EXP_VALIDATE_H

#include <infiniband/verbs_exp.h>

int exp_check_cq_init(struct ibv_context *ctx, int cqe, const struct ibv_exp_cq_init_attr *attr);
int exp_check_cq_attr(const struct ibv_cq *cq, const struct ibv_exp_cq_attr *attr, int attr_mask);
int exp_check_dct_init(struct ibv_context *ctx, const struct ibv_exp_dct_init_attr *attr);
int exp_check_qp_init(struct ibv_context *ctx, const struct ibv_exp_qp_init_attr *attr);
int exp_check_send_wr(const struct ibv_qp *qp, const struct ibv_exp_send_wr *wr);
int exp_check_task(struct ibv_context *ctx, const struct ibv_exp_task *task);

#endif
