/* SPDX-License-Identifier: BSD-3-Clause */
/* The requests that bind and invalidate memory windows. Must: the caller is the executor of qp (I1), as shca_exec. */
#ifndef SHCA_WINDOW_H
#define SHCA_WINDOW_H

#include "shca/engine/engine.h"

/* LOCAL_INV, BIND_MW. Returns an enum ibv_wc_status, or SHCA_BUSY. */
int shca_window_local_inv(struct shca_thread *thr, struct shca_qp *qp, uint32_t rkey);
int shca_window_bind(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);
/* Ends the key of an indirect memory key that is to be configured anew, and waits for the threads that use the key. Returns
 * false: call again later (SHCA_BUSY). */
bool shca_window_unbind(struct shca_thread *thr, struct shca_qp *qp, struct shca_mr *w);
/* SEND_WITH_INV of qp, whose data is in the receive: invalidates the window or key of the responder `to`, of domain pd. Returns
 * IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR or, of an indirect memory key, SHCA_BUSY. */
int shca_window_remote_inv(struct shca_thread *thr, struct shca_qp *qp, const struct shca_qp *to, uint32_t pd, uint32_t rkey);

#endif
