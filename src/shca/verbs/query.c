/* SPDX-License-Identifier: BSD-3-Clause */
/* Capabilities of the device and its port. */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <time.h>

#include <shca.h>
#include "shca/verbs/control.h"

/* The kernel's IB_UVERBS_DEVICE_ATOMIC_WRITE, which headers of libibverbs before 47 lack. */
#define DEVICE_ATOMIC_WRITE (1ull << 40)

static void device_attr(struct ibv_device_attr *a)
{
	*a = (struct ibv_device_attr){
		.node_guid = htobe64(shca_device_guid()),
		.sys_image_guid = htobe64(shca_device_guid()),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = SHCA_VENDOR_ID,
		.vendor_part_id = 1,
		.hw_ver = SHCA_LAYOUT_VERSION,
		.max_qp = 1 << 20,
		.max_qp_wr = SHCA_MAX_QP_WR,
		.device_cap_flags = IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_XRC |
				    IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
				    IBV_DEVICE_SRQ_RESIZE,
		.max_sge = SHCA_MAX_SGE,
		.max_sge_rd = SHCA_MAX_SGE,
		.max_cq = 1 << 20,
		.max_cqe = SHCA_MAX_CQE,
		.max_mr = SHCA_MR_SEG * SHCA_MR_SEGS - 1,
		.max_mw = SHCA_MR_SEG * SHCA_MR_SEGS - 1, /* of the same keys */
		.max_pd = 1 << 24,
		.max_qp_rd_atom = SHCA_MAX_RD_ATOMIC,
		.max_res_rd_atom = SHCA_MAX_RD_ATOMIC * (1 << 20),
		.max_qp_init_rd_atom = SHCA_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = INT32_MAX,
		.max_srq = 1 << 20,
		.max_srq_wr = SHCA_MAX_SRQ_WR,
		.max_srq_sge = SHCA_MAX_SGE,
		.max_mcast_grp = 1 << 16,
		.max_mcast_qp_attach = 1 << 20,
		.max_total_mcast_qp_attach = 1 << 20,
		.max_pkeys = 1,
		.local_ca_ack_delay = 0,
		.phys_port_cnt = (uint8_t)shca_ports(),
	};
	if (shca_ports() == 2)
		a->device_cap_flags |= IBV_DEVICE_AUTO_PATH_MIG;
	if (shca_is_ethernet()) {
		a->device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING;
		a->max_raw_ethy_qp = a->max_qp;
	}
	if (shca_is_connectx()) {
		a->vendor_id = 0x02c9;	/* Mellanox's OUI */
		a->vendor_part_id = 4123;	/* ConnectX-6 */
	}
	snprintf(a->fw_ver, sizeof a->fw_ver, "%u.0", SHCA_LAYOUT_VERSION);
}

int shca_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	device_attr(attr);
	return 0;
}

bool shca_pages_on_demand(struct ibv_context *ctx)
{
	return !(shca_context_of(ctx)->m->behave & SHCA_BEHAVE_NOODP);
}

uint32_t shca_query_promises(struct ibv_context *ctx)
{
	uint32_t behave = shca_context_of(ctx)->m->behave;

	return SHCA_PROMISE_TELLS_END | (behave & SHCA_BEHAVE_ASYNC ? 0 : SHCA_PROMISE_AT_ONCE) |
	       (behave & SHCA_BEHAVE_NOSEQUENCE ? 0 : SHCA_PROMISE_SEQUENCE);
}

int shca_query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t size)
{
	const uint32_t every = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t reliable = every | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	struct ibv_device_attr_ex a = {
		/* private memory is reached by its address at the time of the transfer: the device pins no memory */
		.odp_caps = {
			.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
			.per_transport_caps = { .rc_odp_caps = reliable, .uc_odp_caps = 0, .ud_odp_caps = every },
		},
		/* no event is held back, so every bound of the time for which events are held back holds */
		.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX},
		.hca_core_clock = 1000000,	/* kHz: ibv_query_rt_values_ex and completions count nanoseconds */
		.completion_timestamp_mask = UINT64_MAX,
		.max_dm_size = SHCA_MAX_DM,
		.raw_packet_caps = shca_is_ethernet() ? IBV_RAW_PACKET_CAP_CVLAN_STRIPPING : 0,
		.xrc_odp_caps = reliable,
		.phys_port_cnt_ex = shca_ports(),
	};

	if (input && input->comp_mask)
		return shca_refuse(EINVAL, "query_device_ex: comp_mask %#x of the input has no bits", input->comp_mask);
	if (size < sizeof attr->orig_attr)
		return shca_refuse(EINVAL, "query_device_ex: room for %zu bytes, at least %zu", size, sizeof attr->orig_attr);
	if (!shca_pages_on_demand(ctx)) {
		memset(&a.odp_caps, 0, sizeof a.odp_caps);
		a.xrc_odp_caps = 0;
	}
	device_attr(&a.orig_attr);
	a.device_cap_flags_ex = a.orig_attr.device_cap_flags | DEVICE_ATOMIC_WRITE;
	if (size > sizeof a)
		memset((char *)attr + sizeof a, 0, size - sizeof a);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

/* The on-demand paging capabilities of DC. */
uint32_t shca_dc_odp_caps(struct ibv_context *ctx)
{
	if (!shca_pages_on_demand(ctx))
		return 0;
	return IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_SRQ_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
	       IBV_ODP_SUPPORT_ATOMIC;
}

static bool port_ok(uint32_t port)
{
	return port >= 1 && port <= shca_ports();
}

int shca_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	const struct shca_port *now = shca_port_of(shca_context_of(ctx)->m, port);
	struct ibv_port_attr a = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1,
		.port_cap_flags = SHCA_PORT_CAPS,
		.max_msg_sz = SHCA_MAX_MSG,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 2,	/* 4X */
		.active_speed = 32,	/* 25 Gbit/s a lane */
		.phys_state = 5,	/* LinkUp */
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	if (!port_ok(port))
		return shca_refuse(EINVAL, "query_port: port %u: the device has %u, numbered from 1 (SHCA_PORTS)", port,
				   shca_ports());
	if (shca_unusable(ctx))
		return errno;
	if (shca_is_ethernet()) {
		a.link_layer = IBV_LINK_LAYER_ETHERNET;
		a.gid_tbl_len = (int)shca_gid_entries();
		a.flags = IBV_QPF_GRH_REQUIRED;
		a.port_cap_flags |= IBV_PORT_IP_BASED_GIDS;
	} else {
		a.lid = (uint16_t)atomic_load(&now->lid);
		a.sm_lid = (uint16_t)atomic_load(&now->sm_lid);
	}
	if (atomic_load(&now->down)) {
		a.state = IBV_PORT_DOWN;
		a.phys_state = 2;	/* Polling: the port looks for another end */
	}
	if (size > sizeof a)
		memset((char *)attr + sizeof a, 0, size - sizeof a);
	memcpy(attr, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

int shca_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	if (!port_ok(port) || (unsigned int)index >= shca_gid_entries()) {
		errno = shca_refuse(EINVAL, "query_gid: port %u index %d", port, index);
		return -1;
	}
	if (shca_unusable(ctx))
		return -1;
	shca_gid_of(shca_context_of(ctx)->m, port, gid->raw);
	return 0;
}

int shca_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, int *type)
{
	if (!port_ok(port) || index >= shca_gid_entries()) {
		errno = shca_refuse(EINVAL, "query_gid_type: port %u index %u", port, index);
		return -1;
	}
	*type = (int)index;	/* as sysfs has them: 0 is IB/RoCE v1, 1 is RoCE v2 */
	return 0;
}

int shca_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = { .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB };
	if (flags || !port_ok(port) || index >= shca_gid_entries())
		return shca_refuse(EINVAL, "query_gid_ex: port %u index %u flags %#x", port, index, flags);
	if (shca_unusable(ctx))
		return errno;
	shca_gid_of(shca_context_of(ctx)->m, port, e.gid.raw);
	if (shca_is_ethernet()) {
		e.gid_type = index ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
		e.ndev_ifindex = if_nametoindex(SHCA_NETDEV);
	}
	if (size > sizeof e)
		memset((char *)entry + sizeof e, 0, size - sizeof e);
	memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

ssize_t shca_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
			     size_t size)
{
	if (flags)
		return -shca_refuse(EINVAL, "query_gid_table: flags %#x", flags);
	if (max < shca_ports() * shca_gid_entries())
		return -shca_refuse(EINVAL, "query_gid_table: room for %zu of %u entries", max,
				    shca_ports() * shca_gid_entries());
	ssize_t n = 0;
	for (uint32_t port = 1; port <= shca_ports(); port++)
		for (uint32_t i = 0; i < shca_gid_entries(); i++, n++) {
			struct ibv_gid_entry *e = (struct ibv_gid_entry *)((char *)entries + (size_t)n * size);
			int err = shca_query_gid_ex(ctx, port, i, e, 0, size);
			if (err)
				return -err;
		}
	return n;
}

int shca_resolve_mac(struct ibv_context *ctx, const struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	const uint8_t *g = attr->grh.dgid.raw;

	if (shca_unusable(ctx))
		return -1;
	if (!shca_is_ethernet() || !attr->is_global || !shca_port_of_gid(shca_context_of(ctx)->m, g)) {
		errno = shca_refuse(EINVAL, "resolve_eth_l2_from_gid: the address names no port of RoCE (SHCA_LINK=ethernet)");
		return -1;
	}
	/* the EUI-64 of the GID, without its middle; the bit that tells local addresses is the other way round there */
	memcpy(mac, (const uint8_t[]){g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]}, 6);
	*vid = 0xffff;
	return 0;
}

int shca_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	return shca_refuse(EOPNOTSUPP, "modify_qp_rate_limit: queue pair %#x, %u kbit/s: there is no packet pacing", qp->qp_num,
			   attr->rate_limit);
}

struct ibv_wq *shca_create_wq(struct ibv_context *ctx, struct ibv_wq_init_attr *attr)
{
	errno = shca_refuse(EOPNOTSUPP, "create_wq: %u requests: receives belong to queue pairs and shared receive queues",
			    attr->max_wr);
	return NULL;
}

struct ibv_rwq_ind_table *shca_create_rwq_ind_table(struct ibv_context *ctx, struct ibv_rwq_ind_table_init_attr *attr)
{
	errno = shca_refuse(EOPNOTSUPP, "create_rwq_ind_table: 2^%u entries: packets are not spread by hashing",
			    attr->log_ind_tbl_size);
	return NULL;
}

int shca_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	if (!port_ok(port) || index != 0) {
		errno = shca_refuse(EINVAL, "query_pkey: port %u index %d", port, index);
		return -1;
	}
	if (shca_unusable(ctx))
		return -1;
	*pkey = htobe16((uint16_t)atomic_load(&shca_port_of(shca_context_of(ctx)->m, port)->pkey));
	return 0;
}

int shca_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
	if (shca_unusable(ctx))
		return -1;
	if (!port_ok(port) || pkey != htobe16((uint16_t)atomic_load(&shca_port_of(shca_context_of(ctx)->m, port)->pkey))) {
		errno = shca_refuse(EINVAL, "get_pkey_index: port %u P_Key %#x", port, be16toh(pkey));
		return -1;
	}
	return 0;
}

int shca_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	uint32_t want = values->comp_mask;
	if (want & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return shca_refuse(EINVAL, "query_rt_values: comp_mask %#x: the raw clock is all there is", want);
	if (want & IBV_VALUES_MASK_RAW_CLOCK)
		clock_gettime(CLOCK_MONOTONIC_RAW, &values->raw_clock);	/* as shca_clock_ns */
	return 0;
}
