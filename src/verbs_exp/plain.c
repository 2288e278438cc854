/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Experimental verbs that translate to ordinary ones, on any device: memory, ports, clocks, domains. Requests for which
 * ordinary verbs have no equivalent are refused.
 */
#include "verbs_exp/exported.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "verbs_exp/provider.h"

/* ---- device memory --------------------------------------------------------------------------------------------------- */

struct device_memory {
	struct ibv_exp_dm dm;
	struct ibv_dm *plain;
};

struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr)
{
	struct ibv_alloc_dm_attr plain;
	struct device_memory *dm;

	if (!context || !attr || !attr->length) {
		errno = exp_wrong(context, "a context and a length that is not 0 are needed");
		return NULL;
	}
	dm = malloc(sizeof(*dm));
	if (!dm) {
		errno = exp_no_memory(context);
		return NULL;
	}
	plain = (struct ibv_alloc_dm_attr){.length = attr->length};
	dm->dm.context = context;
	dm->plain = ibv_alloc_dm(context, &plain);
	if (!dm->plain) {
		free(dm);
		return NULL;
	}
	return &dm->dm;
}

int ibv_exp_free_dm(struct ibv_exp_dm *dm)
{
	struct device_memory *d = (struct device_memory *)dm;
	int err = d ? ibv_free_dm(d->plain) : exp_wrong(NULL, "NULL for the device memory");

	if (!err)
		free(d);
	return err;
}

int ibv_exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr)
{
	struct device_memory *d = (struct device_memory *)dm;

	if (!d || !attr || (attr->length && !attr->host_addr))
		return exp_wrong(d ? d->dm.context : NULL, "device memory, attributes and an address of the host are needed");
	switch (attr->memcpy_dir) {
	case IBV_EXP_DM_CPY_TO_DEVICE:
		return ibv_memcpy_to_dm(d->plain, attr->dm_offset, attr->host_addr, attr->length);
	case IBV_EXP_DM_CPY_TO_HOST:
		return ibv_memcpy_from_dm(attr->host_addr, d->plain, attr->dm_offset, attr->length);
	}
	return exp_refuse(d->dm.context, EINVAL, "ibv_exp_memcpy_dm: direction %d", attr->memcpy_dir);
}

/* ---- memory windows ------------------------------------------------------------------------------------------------- */

int ibv_exp_bind_mw(struct ibv_exp_mw_bind *bind)
{
	const uint64_t flags = IBV_EXP_SEND_FENCE | IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_SOLICITED;
	struct ibv_mw_bind plain;

	if (!bind || !bind->qp || !bind->mw)
		return exp_wrong(bind && bind->qp ? bind->qp->context : NULL, "a queue pair and a window are needed");
	if ((bind->exp_send_flags & ~flags) || bind->bind_info.exp_mw_access_flags > UINT32_MAX)
		return exp_refuse(bind->qp->context, EINVAL, "ibv_exp_bind_mw: flags %#lx, access %#lx",
				  (unsigned long)bind->exp_send_flags, (unsigned long)bind->bind_info.exp_mw_access_flags);
	plain = (struct ibv_mw_bind){
		.wr_id = bind->wr_id, .send_flags = (unsigned int)bind->exp_send_flags,
		.bind_info = {.mr = bind->bind_info.mr, .addr = bind->bind_info.addr, .length = bind->bind_info.length,
			      .mw_access_flags = (unsigned int)bind->bind_info.exp_mw_access_flags},
	};
	return ibv_bind_mw(bind->qp, bind->mw, &plain);
}

/* ---- regions --------------------------------------------------------------------------------------------------------- */

/* Returns the rights that ordinary verbs have; the others go to *rest. */
static unsigned int plain_access(uint64_t exp, uint64_t *rest)
{
	const uint64_t same = IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE | IBV_EXP_ACCESS_REMOTE_READ |
			      IBV_EXP_ACCESS_REMOTE_ATOMIC | IBV_EXP_ACCESS_MW_BIND;
	unsigned int plain = (unsigned int)(exp & same);

	if (exp & IBV_EXP_ACCESS_ON_DEMAND)
		plain |= IBV_ACCESS_ON_DEMAND;
	if (exp & IBV_EXP_ACCESS_RELAXED)
		plain |= IBV_ACCESS_RELAXED_ORDERING;
	*rest = exp & ~(same | IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_RELAXED);
	return plain;
}

static struct ibv_mr *reg_dm(const struct ibv_exp_reg_mr_in *in, unsigned int access)
{
	/* Ordinary verbs address device memory by offset, and a request's address 0 is the beginning of the region. */
	if (in->addr) {
		errno = exp_refuse(in->pd->context, EOPNOTSUPP,
				   "ibv_exp_reg_mr: device memory is registered from address 0, not %p", in->addr);
		return NULL;
	}
	return ibv_reg_dm_mr(in->pd, ((struct device_memory *)in->dm)->plain, 0, in->length, access | IBV_ACCESS_ZERO_BASED);
}

static struct ibv_mr *plain_reg_allocated(const struct ibv_exp_reg_mr_in *in, unsigned int access)
{
	const struct ibv_exp_provider *ops = exp_provider(in->pd->context);

	if (!ops || in->addr || !in->length) {
		errno = ops ? ops->refuse(EINVAL,
					  "ibv_exp_reg_mr: memory is to be allocated, at %p, of %zu bytes: the address has to "
					  "be NULL",
					  in->addr, in->length) :
			      shca_refuse(EOPNOTSUPP, "ibv_exp_reg_mr: the device allocates no memory");
		return NULL;
	}
	return ops->reg_allocated(in->pd, in->length, access);
}

struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	bool dm = in && (in->comp_mask & IBV_EXP_REG_MR_DM);
	unsigned int access;
	uint64_t rest;

	if (!in || !in->pd || (in->comp_mask & ~((uint32_t)IBV_EXP_REG_MR_RESERVED - 1)) || (dm && !in->dm) ||
	    ((in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS) && (in->create_flags & ~(uint32_t)IBV_EXP_REG_MR_CREATE_CONTIG))) {
		errno = exp_refuse(in && in->pd ? in->pd->context : NULL, EINVAL,
				   "ibv_exp_reg_mr: comp_mask %#x, create_flags %#x; a domain is needed, and with "
				   "IBV_EXP_REG_MR_DM device memory",
				   in ? in->comp_mask : 0, in ? in->create_flags : 0);
		return NULL;
	}
	access = plain_access(in->exp_access, &rest);
	if (rest & ~(dm ? 0 : (uint64_t)IBV_EXP_ACCESS_ALLOCATE_MR)) {
		errno = exp_refuse(in->pd->context, EOPNOTSUPP, "ibv_exp_reg_mr: access %#lx, of which the device lacks %#lx",
				   (unsigned long)in->exp_access, (unsigned long)rest);
		return NULL;
	}
	if (dm)
		return reg_dm(in, access);
	if (rest)
		return plain_reg_allocated(in, access);
	return ibv_reg_mr(in->pd, in->addr, in->length, access);
}

int ibv_exp_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, uint64_t exp_access,
		     struct ibv_exp_rereg_mr_attr *attr)
{
	uint64_t rest;
	unsigned int access = plain_access(exp_access, &rest);

	if (!mr)
		return exp_wrong(NULL, "NULL for the region");
	if (!(flags & IBV_EXP_REREG_MR_CHANGE_ACCESS))
		rest = 0;
	if (rest || (flags & IBV_EXP_REREG_MR_KEEP_VALID))
		return exp_refuse(mr->context, EOPNOTSUPP,
				  "ibv_exp_rereg_mr: flags %#x, access %#lx, of which the device lacks %#lx",
				  (unsigned int)flags, (unsigned long)exp_access, (unsigned long)rest);
	errno = 0;
	if (!ibv_rereg_mr(mr, flags, pd, addr, length, (int)access))
		return 0;
	return errno ? errno : exp_wrong(mr->context, "refused by the device, without an errno");
}

int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	uint64_t at, left;

	if (!mr || !attr || (attr->flags & ~(uint32_t)IBV_EXP_PREFETCH_WRITE_ACCESS))
		return exp_refuse(mr ? mr->context : NULL, EINVAL, "ibv_exp_prefetch_mr: flags %#x; a region is needed",
				  attr ? attr->flags : 0);
	/* an ordinary segment has a length of 32 bits */
	at = (uintptr_t)attr->addr;
	left = attr->length;
	do {
		struct ibv_sge part = {.addr = at, .length = left > UINT32_MAX ? 1u << 31 : (uint32_t)left, .lkey = mr->lkey};
		int err = ibv_advise_mr(mr->pd,
					attr->flags & IBV_EXP_PREFETCH_WRITE_ACCESS ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE :
										      IBV_ADVISE_MR_ADVICE_PREFETCH,
					0, &part, 1);

		if (err)
			return err;
		at += part.length;
		left -= part.length;
	} while (left);
	return 0;
}

/* ---- resource domains ------------------------------------------------------------------------------------------------ */

struct ibv_exp_res_domain *ibv_exp_create_res_domain(struct ibv_context *context, struct ibv_exp_res_domain_init_attr *attr)
{
	enum ibv_exp_thread_model threads = IBV_EXP_THREAD_SAFE;
	struct exp_res_domain *d;

	if (attr && (attr->comp_mask & IBV_EXP_RES_DOMAIN_THREAD_MODEL))
		threads = attr->thread_model;
	if (!context || (attr && (attr->comp_mask & ~((uint32_t)IBV_EXP_RES_DOMAIN_RESERVED - 1))) ||
	    (uint32_t)threads > IBV_EXP_THREAD_SINGLE ||
	    (attr && (attr->comp_mask & IBV_EXP_RES_DOMAIN_MSG_MODEL) &&
	     (uint32_t)attr->msg_model > IBV_EXP_MSG_FORCE_LOW_LATENCY)) {
		errno = exp_refuse(context, EINVAL, "ibv_exp_create_res_domain: comp_mask %#x, thread model %u",
				   attr ? attr->comp_mask : 0, (unsigned int)threads);
		return NULL;
	}
	d = malloc(sizeof(*d));
	if (!d) {
		errno = exp_no_memory(context);
		return NULL;
	}
	d->d.context = context;
	d->single_threaded = threads != IBV_EXP_THREAD_SAFE;
	return &d->d;
}

int ibv_exp_destroy_res_domain(struct ibv_context *context, struct ibv_exp_res_domain *res_dom,
			       struct ibv_exp_destroy_res_domain_attr *attr)
{
	if (!context || !res_dom || res_dom->context != context)
		return exp_wrong(context, "a resource domain of this context is needed");
	free(res_dom);
	return 0;
}

/* ---- shared receive queues, addresses -------------------------------------------------------------------------------- */

struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr)
{
	const uint32_t of_type = IBV_EXP_CREATE_SRQ_TM | IBV_EXP_CREATE_SRQ_DC_OFFLOAD_PARAMS;
	struct ibv_srq_init_attr_ex ex;
	struct ibv_srq *srq;

	if (!context || !attr || !attr->pd || (attr->comp_mask & ~((uint32_t)IBV_EXP_CREATE_SRQ_RESERVED - 1))) {
		errno = exp_refuse(context, EINVAL, "ibv_exp_create_srq: comp_mask %#x; a domain is needed",
				   attr ? attr->comp_mask : 0);
		return NULL;
	}
	if ((attr->comp_mask & of_type) || (attr->srq_type != IBV_EXP_SRQT_BASIC && attr->srq_type != IBV_EXP_SRQT_XRC)) {
		errno = exp_refuse(context, EOPNOTSUPP, "ibv_exp_create_srq: type %d, comp_mask %#x: there is no matching by tag",
				   attr->srq_type, attr->comp_mask);
		return NULL;
	}
	if (attr->srq_type == IBV_EXP_SRQT_BASIC)
		return ibv_create_srq(attr->pd, &attr->base);
	ex = (struct ibv_srq_init_attr_ex){
		.srq_context = attr->base.srq_context, .attr = attr->base.attr, .srq_type = IBV_SRQT_XRC, .pd = attr->pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     (attr->comp_mask & IBV_EXP_CREATE_SRQ_XRCD ? IBV_SRQ_INIT_ATTR_XRCD : 0) |
			     (attr->comp_mask & IBV_EXP_CREATE_SRQ_CQ ? IBV_SRQ_INIT_ATTR_CQ : 0),
		.xrcd = attr->comp_mask & IBV_EXP_CREATE_SRQ_XRCD ? attr->xrcd : NULL,
		.cq = attr->comp_mask & IBV_EXP_CREATE_SRQ_CQ ? attr->cq : NULL,
	};
	srq = ibv_create_srq_ex(context, &ex);
	if (srq)
		attr->base.attr = ex.attr;
	return srq;
}

struct ibv_ah *ibv_exp_create_ah(struct ibv_pd *pd, struct ibv_exp_ah_attr *attr)
{
	struct ibv_ah_attr plain;

	if (!pd || !attr) {
		errno = exp_wrong(pd ? pd->context : NULL, "a domain and attributes are needed");
		return NULL;
	}
	if (attr->comp_mask) {
		errno = exp_refuse(pd->context, EOPNOTSUPP, "ibv_exp_create_ah: comp_mask %#x: there are no Ethernet addresses",
				   attr->comp_mask);
		return NULL;
	}
	plain = (struct ibv_ah_attr){
		.grh = attr->grh, .dlid = attr->dlid, .sl = attr->sl, .src_path_bits = attr->src_path_bits,
		.static_rate = attr->static_rate, .is_global = attr->is_global, .port_num = attr->port_num,
	};
	return ibv_create_ah(pd, &plain);
}

/* ---- ports, GIDs, clocks --------------------------------------------------------------------------------------------- */

int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_exp_port_attr *port_attr)
{
	struct ibv_port_attr plain;
	int err;

	/* mask1 counts only if its bit in comp_mask is set */
	if (!context || !port_attr || (port_attr->comp_mask & ~(uint32_t)IBV_EXP_QUERY_PORT_ATTR_MASKS) ||
	    ((port_attr->comp_mask & IBV_EXP_QUERY_PORT_ATTR_MASK1) && (port_attr->mask1 & ~(uint32_t)IBV_EXP_QUERY_PORT_MASK)))
		return exp_refuse(context, EINVAL, "ibv_exp_query_port: comp_mask %#x, mask1 %#x",
				  port_attr ? port_attr->comp_mask : 0, port_attr ? port_attr->mask1 : 0);
	err = ibv_query_port(context, port_num, &plain);
	if (!err)
		port_attr->port_attr = plain;
	return err;
}

int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index, struct ibv_exp_gid_attr *attr)
{
	struct ibv_gid_entry entry;
	int err;

	if (!context || !attr || (attr->comp_mask & ~((uint32_t)IBV_EXP_QUERY_GID_ATTR_RESERVED - 1)))
		return exp_refuse(context, EINVAL, "ibv_exp_query_gid_attr: comp_mask %#x", attr ? attr->comp_mask : 0);
	err = ibv_query_gid_ex(context, port_num, index, &entry, 0);
	if (err)
		return err > 0 ? err : errno ? errno : exp_wrong(context, "refused by the device, without an errno");
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_TYPE)
		attr->type = entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? IBV_EXP_ROCE_V2_GID_TYPE : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_GID)
		attr->gid = entry.gid;
	return 0;
}

int ibv_exp_query_values(struct ibv_context *context, int q_values, struct ibv_exp_values *values)
{
	struct ibv_values_ex plain = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct ibv_device_attr_ex device;
	uint64_t ns;
	int err;

	if (!context || !values || (q_values & ~(IBV_EXP_VALUES_RESERVED - 1)))
		return exp_refuse(context, EINVAL, "ibv_exp_query_values: values %#x", (unsigned int)q_values);
	values->comp_mask = 0;
	if (!q_values)
		return 0;
	err = ibv_query_rt_values_ex(context, &plain);
	if (err)
		return err;
	ns = (uint64_t)plain.raw_clock.tv_sec * 1000000000 + (uint64_t)plain.raw_clock.tv_nsec;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK_NS)
		values->hwclock_ns = ns;
	if (q_values & IBV_EXP_VALUES_HW_CLOCK) {
		err = ibv_query_device_ex(context, NULL, &device);
		if (err)
			return err;
		/* ns * kHz / 10^6; the product alone would exceed 64 bits */
		values->hwclock = ns / 1000000 * device.hca_core_clock + ns % 1000000 * device.hca_core_clock / 1000000;
	}
	values->comp_mask = (uint32_t)q_values;
	return 0;
}

/* ---- the rest -------------------------------------------------------------------------------------------------------- */

int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value, int overwrite)
{
	return setenv(name, value, overwrite);
}

void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	void *f = NULL;

	if (context) {
		switch (name) {
		case IBV_EXP_POST_SEND_FUNC: f = (void *)ibv_exp_post_send; break;
		case IBV_EXP_POLL_CQ_FUNC: f = (void *)ibv_exp_poll_cq; break;
		case IBV_POST_SEND_FUNC: f = (void *)context->ops.post_send; break;
		case IBV_POLL_CQ_FUNC: f = (void *)context->ops.poll_cq; break;
		case IBV_POST_RECV_FUNC: f = (void *)context->ops.post_recv; break;
		}
	}
	if (!f)
		errno = exp_refuse(context, EINVAL, "ibv_exp_get_provider_func: function %d", name);
	return f;
}
