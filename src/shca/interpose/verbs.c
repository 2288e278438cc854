/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported verbs of libibverbs: see interpose.h. */
#include <errno.h>

#include "shca/interpose/interpose.h"
#include "verbs_exp/provider.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* of rdma-core's private driver.h; tools import the function all the same */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

static bool event_is_ours(const struct ibv_async_event *event)
{
	if (event->event_type >= IBV_EXP_EVENT_DCT_KEY_VIOLATION)
		return shca_is_ours(ibv_exp_event_dct(event)->context);
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return shca_is_ours(event->element.cq->context);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return shca_is_ours(event->element.qp->context);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return shca_is_ours(event->element.srq->context);
	default:
		return false;
	}
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_device_name", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return device->name;
	__typeof__(&ibv_get_device_name) f = shca_next_find(&next);
	return f ? f(device) : NULL;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_device_guid", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return htobe64(shca_device_guid());
	__typeof__(&ibv_get_device_guid) f = shca_next_find(&next);
	return f ? f(device) : 0;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_device_index", "IBVERBS_1.9");
	if (shca_is_our_device(device))
		return -1;	/* no kernel device stands behind it */
	__typeof__(&ibv_get_device_index) f = shca_next_find(&next);
	return f ? f(device) : -1;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_open_device", "IBVERBS_1.1");
	if (shca_is_our_device(device))
		return shca_open_device(device);
	__typeof__(&ibv_open_device) f = shca_next_find(&next);
	return f ? f(device) : NULL;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_close_device", "IBVERBS_1.1");
	const struct exp_watch *watch = atomic_load(&exp_watch);
	/* A refused close is not reported to the watcher. The report comes before the close: after it, another context may have
	 * the address. */
	if (shca_is_ours(context) && !shca_can_close(context))
		return -1;
	if (watch)
		watch->closing(context);
	if (shca_is_ours(context))
		return shca_close_device(context);
	__typeof__(&ibv_close_device) f = shca_next_find(&next);
	return f ? f(context) : -1;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_device", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_device(context, attr);
	__typeof__(&ibv_query_device) f = shca_next_find(&next);
	return f ? f(context, attr) : ENOSYS;
}

EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_port", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return context->ops._compat_query_port(context, port, attr);
	__typeof__(&ibv_query_port) f = shca_next_find(&next);
	return f ? f(context, port, attr) : ENOSYS;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_gid", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_gid(context, port, index, gid);
	__typeof__(&ibv_query_gid) f = shca_next_find(&next);
	return f ? f(context, port, index, gid) : -1;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
			     uint32_t flags, size_t size)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "_ibv_query_gid_ex", "IBVERBS_1.11");
	if (shca_is_ours(context))
		return shca_query_gid_ex(context, port, index, entry, flags, size);
	__typeof__(&_ibv_query_gid_ex) f = shca_next_find(&next);
	return f ? f(context, port, index, entry, flags, size) : ENOSYS;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t size)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "_ibv_query_gid_table", "IBVERBS_1.11");
	if (shca_is_ours(context))
		return shca_query_gid_table(context, entries, max, flags, size);
	__typeof__(&_ibv_query_gid_table) f = shca_next_find(&next);
	return f ? f(context, entries, max, flags, size) : -ENOSYS;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	if (shca_is_ours(context))
		return shca_query_gid_type(context, port, index, type);
	__typeof__(&ibv_query_gid_type) f = shca_next_find(&next);
	return f ? f(context, port, index, type) : -1;
}

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_pkey", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_query_pkey(context, port, index, pkey);
	__typeof__(&ibv_query_pkey) f = shca_next_find(&next);
	return f ? f(context, port, index, pkey) : -1;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_pkey_index", "IBVERBS_1.5");
	if (shca_is_ours(context))
		return shca_get_pkey_index(context, port, pkey);
	__typeof__(&ibv_get_pkey_index) f = shca_next_find(&next);
	return f ? f(context, port, pkey) : -1;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_async_event", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_get_async_event(context, event);
	__typeof__(&ibv_get_async_event) f = shca_next_find(&next);
	return f ? f(context, event) : -1;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_ack_async_event", "IBVERBS_1.1");
	if (event_is_ours(event)) {
		shca_ack_async_event(event);
		return;
	}
	__typeof__(&ibv_ack_async_event) f = shca_next_find(&next);
	if (f)
		f(event);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_alloc_pd", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_alloc_pd(context);
	__typeof__(&ibv_alloc_pd) f = shca_next_find(&next);
	return f ? f(context) : NULL;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_dealloc_pd", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_dealloc_pd(pd);
	__typeof__(&ibv_dealloc_pd) f = shca_next_find(&next);
	return f ? f(pd) : ENOSYS;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_reg_mr", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
	__typeof__(&ibv_reg_mr) f = shca_next_find(&next);
	return f ? f(pd, addr, length, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_reg_mr_iova", "IBVERBS_1.7");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, iova, (unsigned int)access);
	__typeof__(&ibv_reg_mr_iova) f = shca_next_find(&next);
	return f ? f(pd, addr, length, iova, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_reg_mr_iova2", "IBVERBS_1.8");
	if (shca_is_ours(pd->context))
		return shca_reg_mr(pd, addr, length, iova, access);
	__typeof__(&ibv_reg_mr_iova2) f = shca_next_find(&next);
	return f ? f(pd, addr, length, iova, access) : NULL;
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
					int access)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
	if (shca_is_ours(pd->context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&ibv_reg_dmabuf_mr) f = shca_next_find(&next);
	return f ? f(pd, offset, length, iova, fd, access) : NULL;
}

EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_rereg_mr", "IBVERBS_1.1");
	if (shca_is_ours(mr->context))
		return shca_rereg_mr(mr, flags, pd, addr, length, access);
	__typeof__(&ibv_rereg_mr) f = shca_next_find(&next);
	return f ? f(mr, flags, pd, addr, length, access) : IBV_REREG_MR_ERR_INPUT;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_dereg_mr", "IBVERBS_1.1");
	const struct exp_watch *watch = atomic_load(&exp_watch);
	int rc;
	if (watch && watch->dereg_key(mr, &rc))
		return rc;
	if (shca_is_ours(mr->context))
		return shca_dereg_mr(mr);
	__typeof__(&ibv_dereg_mr) f = shca_next_find(&next);
	return f ? f(mr) : ENOSYS;
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_comp_channel", "IBVERBS_1.0");
	if (shca_is_ours(context))
		return shca_create_comp_channel(context);
	__typeof__(&ibv_create_comp_channel) f = shca_next_find(&next);
	return f ? f(context) : NULL;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_destroy_comp_channel", "IBVERBS_1.0");
	if (shca_is_ours(channel->context))
		return shca_destroy_comp_channel(channel);
	__typeof__(&ibv_destroy_comp_channel) f = shca_next_find(&next);
	return f ? f(channel) : ENOSYS;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_cq", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_create_cq(context, cqe, cq_context, channel, comp_vector);
	__typeof__(&ibv_create_cq) f = shca_next_find(&next);
	return f ? f(context, cqe, cq_context, channel, comp_vector) : NULL;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_resize_cq", "IBVERBS_1.1");
	if (shca_is_ours(cq->context))
		return shca_resize_cq(cq, cqe);
	__typeof__(&ibv_resize_cq) f = shca_next_find(&next);
	return f ? f(cq, cqe) : ENOSYS;
}

static int destroy_cq(struct ibv_cq *cq)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_destroy_cq", "IBVERBS_1.1");
	if (shca_is_ours(cq->context))
		return shca_destroy_cq(cq);
	__typeof__(&ibv_destroy_cq) f = shca_next_find(&next);
	return f ? f(cq) : ENOSYS;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	const struct exp_watch *watch = atomic_load(&exp_watch);
	void *known = watch ? watch->before_destroy(cq) : NULL;
	int rc = destroy_cq(cq);
	if (known)
		watch->after_destroy(known, !rc);
	return rc;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_get_cq_event", "IBVERBS_1.1");
	if (shca_is_ours(channel->context))
		return shca_get_cq_event(channel, cq, cq_context);
	__typeof__(&ibv_get_cq_event) f = shca_next_find(&next);
	return f ? f(channel, cq, cq_context) : -1;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_ack_cq_events", "IBVERBS_1.1");
	if (shca_is_ours(cq->context)) {
		shca_ack_cq_events(cq, n);
		return;
	}
	__typeof__(&ibv_ack_cq_events) f = shca_next_find(&next);
	if (f)
		f(cq, n);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_srq", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_srq(pd, attr);
	__typeof__(&ibv_create_srq) f = shca_next_find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_modify_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_modify_srq(srq, attr, mask);
	__typeof__(&ibv_modify_srq) f = shca_next_find(&next);
	return f ? f(srq, attr, mask) : ENOSYS;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_query_srq(srq, attr);
	__typeof__(&ibv_query_srq) f = shca_next_find(&next);
	return f ? f(srq, attr) : ENOSYS;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_destroy_srq", "IBVERBS_1.1");
	if (shca_is_ours(srq->context))
		return shca_destroy_srq(srq);
	__typeof__(&ibv_destroy_srq) f = shca_next_find(&next);
	return f ? f(srq) : ENOSYS;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_qp", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_qp(pd, attr);
	__typeof__(&ibv_create_qp) f = shca_next_find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_qp_to_qp_ex", "IBVERBS_1.6");
	if (shca_is_ours(qp->context))
		return shca_qp_to_qp_ex(qp);
	__typeof__(&ibv_qp_to_qp_ex) f = shca_next_find(&next);
	return f ? f(qp) : NULL;
}

static int verbs_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_modify_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_modify_qp(qp, attr, mask);
	__typeof__(&ibv_modify_qp) f = shca_next_find(&next);
	return f ? f(qp, attr, mask) : ENOSYS;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	const struct exp_watch *watch = atomic_load(&exp_watch);
	int rc = verbs_modify_qp(qp, attr, mask);
	if (watch && !rc && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		watch->reset(qp);
	return rc;
}

EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_query_qp(qp, attr, mask, init);
	__typeof__(&ibv_query_qp) f = shca_next_find(&next);
	return f ? f(qp, attr, mask, init) : ENOSYS;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_qp_data_in_order", "IBVERBS_1.14");
	if (shca_is_ours(qp->context))
		return shca_query_qp_data_in_order(qp, op, flags);
	__typeof__(&ibv_query_qp_data_in_order) f = shca_next_find(&next);
	return f ? f(qp, op, flags) : 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_destroy_qp", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_destroy_qp(qp);
	__typeof__(&ibv_destroy_qp) f = shca_next_find(&next);
	return f ? f(qp) : ENOSYS;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	const struct exp_watch *watch = atomic_load(&exp_watch);
	void *known = watch ? watch->before_destroy(qp) : NULL;
	int rc = destroy_qp(qp);
	if (known)
		watch->after_destroy(known, !rc);
	return rc;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_query_ece", "IBVERBS_1.10");
	if (shca_is_ours(qp->context))
		return shca_query_ece(qp, ece);
	__typeof__(&ibv_query_ece) f = shca_next_find(&next);
	return f ? f(qp, ece) : ENOSYS;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_set_ece", "IBVERBS_1.10");
	if (shca_is_ours(qp->context))
		return shca_set_ece(qp, ece);
	__typeof__(&ibv_set_ece) f = shca_next_find(&next);
	return f ? f(qp, ece) : ENOSYS;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_ah", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_ah(pd, attr);
	__typeof__(&ibv_create_ah) f = shca_next_find(&next);
	return f ? f(pd, attr) : NULL;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_destroy_ah", "IBVERBS_1.1");
	if (shca_is_ours(ah->context))
		return shca_destroy_ah(ah);
	__typeof__(&ibv_destroy_ah) f = shca_next_find(&next);
	return f ? f(ah) : ENOSYS;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			       struct ibv_ah_attr *attr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_init_ah_from_wc", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_init_ah_from_wc(context, port, wc, grh, attr);
	__typeof__(&ibv_init_ah_from_wc) f = shca_next_find(&next);
	return f ? f(context, port, wc, grh, attr) : -1;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_create_ah_from_wc", "IBVERBS_1.1");
	if (shca_is_ours(pd->context))
		return shca_create_ah_from_wc(pd, wc, grh, port);
	__typeof__(&ibv_create_ah_from_wc) f = shca_next_find(&next);
	return f ? f(pd, wc, grh, port) : NULL;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_attach_mcast", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_attach_mcast(qp, gid, lid);
	__typeof__(&ibv_attach_mcast) f = shca_next_find(&next);
	return f ? f(qp, gid, lid) : ENOSYS;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_detach_mcast", "IBVERBS_1.1");
	if (shca_is_ours(qp->context))
		return shca_detach_mcast(qp, gid, lid);
	__typeof__(&ibv_detach_mcast) f = shca_next_find(&next);
	return f ? f(qp, gid, lid) : ENOSYS;
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_resolve_eth_l2_from_gid", "IBVERBS_1.1");
	if (shca_is_ours(context))
		return shca_resolve_mac(context, attr, eth_mac, vid);
	__typeof__(&ibv_resolve_eth_l2_from_gid) f = shca_next_find(&next);
	return f ? f(context, attr, eth_mac, vid) : -1;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_import_pd", "IBVERBS_1.10");
	if (shca_is_ours(context))
		return shca_import_pd(context, handle);
	__typeof__(&ibv_import_pd) f = shca_next_find(&next);
	return f ? f(context, handle) : NULL;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_unimport_pd", "IBVERBS_1.10");
	if (shca_is_ours(pd->context)) {
		shca_unimport_pd(pd);
		return;
	}
	__typeof__(&ibv_unimport_pd) f = shca_next_find(&next);
	if (f)
		f(pd);
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_import_mr", "IBVERBS_1.10");
	if (shca_is_ours(pd->context))
		return shca_import_mr(pd, handle);
	__typeof__(&ibv_import_mr) f = shca_next_find(&next);
	return f ? f(pd, handle) : NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_unimport_mr", "IBVERBS_1.10");
	if (shca_is_ours(mr->context)) {
		shca_unimport_mr(mr);
		return;
	}
	__typeof__(&ibv_unimport_mr) f = shca_next_find(&next);
	if (f)
		f(mr);
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_import_dm", "IBVERBS_1.13");
	if (shca_is_ours(context)) {
		errno = shca_absent(__func__);
		return NULL;
	}
	__typeof__(&ibv_import_dm) f = shca_next_find(&next);
	return f ? f(context, handle) : NULL;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	static struct shca_next next = NEXT(NEXT_VERBS, "ibv_unimport_dm", "IBVERBS_1.13");
	if (shca_is_ours(dm->context))
		return;
	__typeof__(&ibv_unimport_dm) f = shca_next_find(&next);
	if (f)
		f(dm);
}
