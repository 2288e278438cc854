/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory keys that requests configure (UMR, appendix C): made, queried; and memory for lists that do not fit a request. */
#include "verbs_exp/exported.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs_exp/provider.h"

/* Returns the provider of a context that has such keys; NULL with errno. */
static const struct ibv_exp_provider *keys_of(struct ibv_context *ctx, const char *call)
{
	const struct ibv_exp_provider *ops = exp_provider(ctx);

	if (ops && ops->create_key)
		return ops;
	errno = exp_refuse(ctx, EOPNOTSUPP, "%s: the device has no memory keys that requests configure (UMR): IBV_EXP_DEVICE_UMR "
			   "is not among its exp_device_cap_flags", call);
	return NULL;
}

struct ibv_mr *ibv_exp_create_mr(struct ibv_exp_create_mr_in *in)
{
	const struct ibv_exp_provider *ops;

	if (!in || !in->pd) {
		errno = exp_wrong(NULL, "a domain is needed");
		return NULL;
	}
	ops = keys_of(in->pd->context, __func__);
	if (!ops)
		return NULL;
	if (in->comp_mask) {
		errno = ops->refuse(EINVAL, "ibv_exp_create_mr: comp_mask %#x: the structure has no optional fields, set 0",
				    in->comp_mask);
		return NULL;
	}
	if (in->attr.create_flags != IBV_EXP_MR_INDIRECT_KLMS) {
		errno = ops->refuse(EOPNOTSUPP, "ibv_exp_create_mr: create_flags %#x: the call makes keys with "
				    "IBV_EXP_MR_INDIRECT_KLMS (%#x) only; ibv_reg_mr registers memory", in->attr.create_flags,
				    IBV_EXP_MR_INDIRECT_KLMS);
		return NULL;
	}
	return ops->create_key(in->pd, in->attr.max_klm_list_size);
}

int ibv_exp_query_mkey(struct ibv_mr *mr, struct ibv_exp_mkey_attr *attr)
{
	const struct ibv_exp_provider *ops;

	if (!mr || !attr)
		return exp_wrong(mr ? mr->context : NULL, "a memory key and its attributes are needed");
	ops = keys_of(mr->context, __func__);
	if (!ops)
		return errno;
	if (attr->comp_mask)
		return ops->refuse(EINVAL, "ibv_exp_query_mkey: comp_mask %#x: the structure has no optional fields, set 0",
				   attr->comp_mask);
	attr->max_klm_list_size = ops->key_entries(mr);
	return attr->max_klm_list_size ? 0 :
		ops->refuse(EINVAL, "ibv_exp_query_mkey: %#x is the key of registered memory, not one of ibv_exp_create_mr",
			    mr->lkey);
}

struct ibv_exp_mkey_list_container *ibv_exp_alloc_mkey_list_memory(struct ibv_exp_mkey_list_container_attr *attr)
{
	struct ibv_exp_mkey_list_container *list;

	if (!attr || !attr->pd) {
		errno = exp_wrong(NULL, "a domain is needed");
		return NULL;
	}
	if (!keys_of(attr->pd->context, __func__))
		return NULL;
	if (attr->comp_mask || attr->mkey_list_type != IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR || !attr->max_klm_list_size) {
		errno = exp_refuse(attr->pd->context, EINVAL,
				   "ibv_exp_alloc_mkey_list_memory: comp_mask %#x, type %u, %u entries: comp_mask must be 0, "
				   "the type IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR (%d), and there must be an entry",
				   attr->comp_mask, attr->mkey_list_type, attr->max_klm_list_size,
				   IBV_EXP_MKEY_LIST_TYPE_INDIRECT_MR);
		return NULL;
	}
	/* the entries are copied when the request is posted: the container only says how many there may be */
	list = malloc(sizeof(*list));
	if (!list) {
		errno = exp_no_memory(attr->pd->context);
		return NULL;
	}
	*list = (struct ibv_exp_mkey_list_container){.max_klm_list_size = attr->max_klm_list_size, .context = attr->pd->context};
	return list;
}

int ibv_exp_dealloc_mkey_list_memory(struct ibv_exp_mkey_list_container *mem)
{
	if (!mem)
		return exp_wrong(NULL, "a list is needed");
	if (!keys_of(mem->context, __func__))
		return errno;
	free(mem);
	return 0;
}
