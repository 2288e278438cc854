/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stands between the collectives and p2p: on rank LACK_RANK the LACK_RECV-th receive of the offload's wire-up fails for want of
 * memory, or the connection of its queues (LACK_CONNECT), or there is no memory for the LACK_AREA-th area of slots (LACK_AREAS:
 * so many from there on), or every LACK_ALLOC-th one, or the region of all memory is refused (LACK_PAGES), or the rank takes the
 * cores for too few while the other ranks take them for enough, or the reverse (LACK_CORES).
 */
#include <errno.h>
#include <stdlib.h>

#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

int __real_hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		     uint16_t context, struct hdl_req **req);
int __wrap_hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		     uint16_t context, struct hdl_req **req);
__typeof__(hdl_tp_rc_connect) __real_hdl_tp_rc_connect, __wrap_hdl_tp_rc_connect;
__typeof__(hdl_tp_alloc) __real_hdl_tp_alloc, __wrap_hdl_tp_alloc;

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : -1;
}

static bool is_it(void)
{
	return number("LACK_RANK") == hdl_job.rank;
}

int __wrap_hdl_irecv(void *buf, MPI_Count count, const struct hdl_type *t, int src, int tag, struct hdl_comm *comm,
		     uint16_t context, struct hdl_req **req)
{
	static int nth;

	if (tag >= HDL_WIRE_TAG && is_it() && ++nth == number("LACK_RECV")) {
		hdl_reason_set("the test refuses a receive");
		*req = NULL;
		return MPI_ERR_NO_MEM;
	}
	return __real_hdl_irecv(buf, count, t, src, tag, comm, context, req);
}

int __wrap_hdl_tp_rc_connect(struct hdl_tp *tp, struct ibv_qp *qp, const struct hdl_port *port, const union ibv_gid *gid,
			     uint16_t lid, uint32_t qpn, uint32_t psn)
{
	if (is_it() && number("LACK_CONNECT") > 0)
		return -ENOMEM;
	return __real_hdl_tp_rc_connect(tp, qp, port, gid, lid, qpn, psn);
}

#undef ibv_reg_mr
__typeof__(ibv_reg_mr) __real_ibv_reg_mr, __wrap_ibv_reg_mr;
__typeof__(ibv_reg_mr_iova2) __real_ibv_reg_mr_iova2, __wrap_ibv_reg_mr_iova2;

static bool is_refused(size_t length)
{
	if (length != SIZE_MAX || !is_it() || number("LACK_PAGES") <= 0)
		return false;
	errno = ENOMEM;
	return true;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return is_refused(length) ? NULL : __real_ibv_reg_mr(pd, addr, length, access);
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	return is_refused(length) ? NULL : __real_ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

__typeof__(hdl_comm_props_of) __real_hdl_comm_props_of, __wrap_hdl_comm_props_of;

int __wrap_hdl_comm_props_of(const struct hdl_comm *comm, struct hdl_comm_props *site)
{
	int err = __real_hdl_comm_props_of(comm, site);

	if (is_it() && number("LACK_CORES") > 0)
		site->oversubscribed = !site->oversubscribed;
	return err;
}

/* LACK_AREA and the LACK_AREAS - 1 areas behind it. */
static bool lacks_area(int nth)
{
	int first = number("LACK_AREA"), n = number("LACK_AREAS");

	return nth >= first && nth < first + (n > 0 ? n : 1);
}

/* Other allocations of this function are at least 64 KiB long; slot regions of that length are not tested here. */
void *__wrap_hdl_tp_alloc(struct hdl_tp *tp, size_t bytes)
{
	static int nth;

	if (bytes < 65536 && is_it() && (lacks_area(++nth) || (number("LACK_ALLOC") > 0 && nth % number("LACK_ALLOC") == 0))) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_hdl_tp_alloc(tp, bytes);
}
