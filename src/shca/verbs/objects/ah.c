/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles, and the check of the addresses that queue pairs and address handles name. */
#include <errno.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

uint32_t shca_address_port(const struct ibv_context *ctx, const struct ibv_ah_attr *attr)
{
	const struct shca_member *m = shca_context_of(ctx)->m;

	return attr->is_global ? shca_port_of_gid(m, attr->grh.dgid.raw) : shca_port_of_lid(m, attr->dlid);
}

int shca_address_check(const struct ibv_ah_attr *attr)
{
	if (attr->port_num < 1 || attr->port_num > shca_ports())
		return shca_refuse(EINVAL, "address: port %u: the device has %u, numbered from 1 (SHCA_PORTS)", attr->port_num,
				   shca_ports());
	if (attr->is_global && attr->grh.sgid_index >= shca_gid_entries())
		return shca_refuse(EINVAL, "address: source GID index %u, the table has %u entries", attr->grh.sgid_index,
				   shca_gid_entries());
	if (!attr->is_global && shca_is_ethernet())
		return shca_refuse(EINVAL, "address: without GRH: RoCE (SHCA_LINK=ethernet) has no LIDs");
	return 0;
}

struct ibv_ah *shca_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (shca_unusable(pd->context))
		return NULL;
	int err = shca_address_check(attr);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_ah *ah = calloc(1, sizeof *ah);
	if (!ah) {
		errno = shca_no_memory("create_ah");
		return NULL;
	}
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->attr = *attr;
	ah->path = SHCA_UD_PATH(0, 0, 0, SHCA_CQE_UD_SL(attr->sl));
	if (attr->is_global) {
		ah->wqe_flags = SHCA_WQE_GRH;
		ah->path |= SHCA_UD_PATH(attr->grh.flow_label, attr->grh.traffic_class, attr->grh.hop_limit, SHCA_CQE_UD_GRH);
	}
	uint32_t to = shca_address_port(pd->context, attr);
	ah->nowhere = !to;
	ah->group = attr->is_global && attr->grh.dgid.raw[0] == 0xff;
	ah->path |= (to == 2 ? SHCA_UD_TO_2 : 0) | (ah->group ? SHCA_UD_TO_GROUP : 0) |
		    (attr->port_num == 2 ? SHCA_UD_PATH(0, 0, 0, SHCA_CQE_UD_PORT_2) : 0);
	ah->dc_number = ah->nowhere ? 0 : SHCA_QPN_MASK;
	ah->dc_port = to == 2 ? SHCA_DC_TO_2 : 0;
	/* datagram.c looks at no port */
	ah->fast = !ah->nowhere && !attr->is_global && to == 1 && attr->port_num == 1;
	atomic_fetch_add(&shca_user_pd_of(pd)->refs, 1);
	return &ah->ah;
}

int shca_destroy_ah(struct ibv_ah *ibah)
{
	atomic_fetch_sub(&shca_user_pd_of(ibah->pd)->refs, 1);
	free((struct shca_user_ah *)ibah);
	return 0;
}

int shca_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
			 struct ibv_ah_attr *attr)
{
	if (shca_unusable(ctx))
		return -1;
	memset(attr, 0, sizeof *attr);
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port;
	if (wc->wc_flags & IBV_WC_GRH) {
		union ibv_gid ours;
		uint32_t flow = be32toh(grh->version_tclass_flow);
		shca_gid_of(shca_context_of(ctx)->m, port, ours.raw);
		if (memcmp(&ours, &grh->dgid, sizeof ours)) {
			errno = shca_refuse(EINVAL, "init_ah_from_wc: the header's destination is not this port");
			return -1;
		}
		attr->is_global = 1;
		attr->grh.dgid = grh->sgid;
		attr->grh.sgid_index = 0;
		attr->grh.flow_label = flow & 0xfffff;
		attr->grh.traffic_class = (flow >> 20) & 0xff;
		attr->grh.hop_limit = grh->hop_limit;
	}
	return 0;
}

struct ibv_ah *shca_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	return shca_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : shca_create_ah(pd, &attr);
}
