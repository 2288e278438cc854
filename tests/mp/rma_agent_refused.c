/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands between the transport and its queues, for rma_agent_lacking.c. */
#include <errno.h>
#include <string.h>

#include "rma_agent_refused.h"
#include "transport/core/tp.h"

const char *what;
int lacking;
bool refuses;

__typeof__(hdl_tp_init) __real_hdl_tp_init, __wrap_hdl_tp_init;
__typeof__(ibv_create_qp) __real_ibv_create_qp, __wrap_ibv_create_qp;
__typeof__(hdl_qp_connect) __real_hdl_qp_connect, __wrap_hdl_qp_connect;

int __wrap_hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance)
{
	int err = __real_hdl_tp_init(up, instance);

	if (!err && hdl_job.rank == lacking && (!strcmp(what, "device") || !strcmp(what, "absent")))
		(*instance)->dev[(*instance)->ndev - 1]->attr.orig_attr.atomic_cap = IBV_ATOMIC_NONE;
	return err;
}

/* The first two queue pairs, and connections, are of the agent queue to itself. */
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static int n;

	if (refuses && !strcmp(what, "queue") && ++n > 2) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_ibv_create_qp(pd, attr);
}

int __wrap_hdl_qp_connect(struct ibv_qp *qp, const struct hdl_dev *dev, const union ibv_gid *gid, uint16_t lid, uint32_t qpn,
			  uint32_t psn)
{
	static int n;

	if (refuses && !strcmp(what, "connect") && ++n > 2)
		return -ENOMEM;
	return __real_hdl_qp_connect(qp, dev, gid, lid, qpn, psn);
}
