/* SPDX-License-Identifier: BSD-3-Clause */
/* Answers about an id: attributes of its queue pair, addresses, GIDs, path records. */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/ib_user_verbs.h>

#include "rdmacm/internal.h"

/* An SA path record as IBTA 15.2.5.16 lays it out, big-endian. */
struct path {
	uint64_t service_id;
	uint8_t dgid[16], sgid[16];
	uint16_t dlid, slid;
	uint32_t flow_hop;
	uint8_t tclass, reversible_numpath;
	uint16_t pkey;
	uint16_t qos_sl;
	uint8_t mtu, rate, life, preference;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct path) == sizeof(((struct ib_path_rec_data *)0)->path_rec), "a path record");

#define EXACTLY (2u << 6)	/* selector of mtu, rate and life */
#define RATE_EDR 16u		/* 100 Gb/s */

static bool has_route(const struct rcm_id *id)
{
	return id->on_device && id->state >= RCM_ROUTE && id->state != RCM_LISTEN;
}

/* The port of the other side. */
static uint32_t peer_port(const struct rcm_id *id)
{
	return id->remote.port ? id->remote.port : rcm_id_port(id);
}

void rcm_address_vector(const struct rcm_id *id, struct ib_uverbs_ah_attr *ah)
{
	uint32_t to = peer_port(id);

	memset(ah, 0, sizeof(*ah));
	ah->port_num = (uint8_t)rcm_id_port(id);
	if (shca_is_ethernet()) {
		ah->is_global = 1;
		shca_port_gid(shca_port_now(to).gid_prefix, to, ah->grh.dgid);
		ah->grh.sgid_index = 1;		/* RoCE v2's */
		ah->grh.hop_limit = 64;
	} else {
		ah->dlid = shca_port_now(to).lid;
	}
}

/* Attributes for INIT. */
static void attr_init(const struct rcm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->port_num = (uint8_t)rcm_id_port(id);
	if (id->qp_type == IBV_QPT_UD) {
		a->qp_attr_mask |= IBV_QP_QKEY;
		a->qkey = id->local.qkey;
		return;
	}
	a->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (id->qp_type != IBV_QPT_UC && (id->local.responder_resources || id->state < RCM_REQ_SENT))
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

static void attr_rtr(const struct rcm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE;
	if (id->qp_type == IBV_QPT_UD)
		return;
	a->qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	rcm_address_vector(id, &a->ah_attr);
	a->path_mtu = IBV_MTU_4096;
	a->dest_qp_num = id->remote.qpn;
	a->rq_psn = id->remote.psn;
	if (id->qp_type == IBV_QPT_RC || id->qp_type == IBV_QPT_XRC_RECV) {
		a->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = id->local.responder_resources;
		a->min_rnr_timer = 0;	/* 655 ms; a receive that is posted ends the wait */
	}
}

static void attr_rts(const struct rcm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = id->local.psn;
	if (id->qp_type == IBV_QPT_UD || id->qp_type == IBV_QPT_UC)
		return;
	a->qp_attr_mask |= IBV_QP_TIMEOUT;
	a->timeout = id->has_ack_timeout ? id->ack_timeout : RCM_LIFE + 1;
	if (id->qp_type == IBV_QPT_XRC_RECV)
		return;
	a->qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	a->retry_cnt = id->active ? id->local.retry_count : id->remote.retry_count;
	a->rnr_retry = id->remote.rnr_retry_count;
	a->max_rd_atomic = id->local.initiator_depth;
}

int rcm_init_qp_attr(struct rcm_channel *ch, const struct rdma_ucm_init_qp_attr *c, struct ib_uverbs_qp_attr *out)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	if (!id->on_device)
		return -shca_refuse(EINVAL, "rdma_init_qp_attr: the id is not bound to a device");
	memset(out, 0, sizeof(*out));
	out->qp_state = c->qp_state;
	switch (c->qp_state) {
	case IBV_QPS_INIT:
		attr_init(id, out);
		return 0;
	case IBV_QPS_RTR:
		attr_rtr(id, out);
		break;
	case IBV_QPS_RTS:
		attr_rts(id, out);
		break;
	default:
		return -shca_refuse(EINVAL, "rdma_init_qp_attr: state %u", c->qp_state);
	}
	if (id->qp_type != IBV_QPT_UD && id->state < RCM_REQ_RECEIVED)
		return -shca_refuse(EINVAL, "rdma_init_qp_attr: the id has no peer yet");
	return 0;
}

/* ---- queries ---------------------------------------------------------------------------------------------------- */

static void path_fill(const struct rcm_id *id, struct path *p)
{
	uint32_t own = rcm_id_port(id), peer = peer_port(id);
	struct shca_port_now port = shca_port_now(own), to = shca_port_now(peer);

	memset(p, 0, sizeof(*p));
	p->service_id = htobe64(rcm_service_id(id, id->active || id->state <= RCM_LISTEN ? &id->dst : &id->src));
	shca_port_gid(port.gid_prefix, own, p->sgid);
	shca_port_gid(to.gid_prefix, peer, p->dgid);
	p->slid = htons(port.lid);
	p->dlid = htons(to.lid);
	p->tclass = id->tos;
	p->reversible_numpath = 0x80 | 1;
	p->pkey = htons(port.pkey);
	p->mtu = EXACTLY | IBV_MTU_4096;
	p->rate = EXACTLY | RATE_EDR;
	p->life = EXACTLY | RCM_LIFE;
}

static uint64_t guid_of(const struct rcm_id *id)
{
	return id->on_device ? htobe64(shca_device_guid()) : 0;
}

static uint8_t port_num_of(const struct rcm_id *id)
{
	return id->on_device ? (uint8_t)rcm_id_port(id) : 0;
}

static void copy_out(const struct rdma_ucm_query *c, const void *answer, size_t size, size_t out)
{
	memcpy((void *)(uintptr_t)c->response, answer, size < out ? size : out);
}

static int query_addr(const struct rcm_id *id, const struct rdma_ucm_query *c, size_t out)
{
	struct rdma_ucm_query_addr_resp r = {.node_guid = guid_of(id), .port_num = port_num_of(id), .ibdev_index = UINT32_MAX};

	if (out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	r.pkey = id->on_device ? htons(shca_port_now(rcm_id_port(id)).pkey) : 0;
	r.src_size = (uint16_t)rcm_address_size(&id->src);
	r.dst_size = (uint16_t)rcm_address_size(&id->dst);
	memcpy(&r.src_addr, &id->src, r.src_size);
	memcpy(&r.dst_addr, &id->dst, r.dst_size);
	copy_out(c, &r, sizeof(r), out);
	return 0;
}

static int query_gid(const struct rcm_id *id, const struct rdma_ucm_query *c, size_t out)
{
	struct rdma_ucm_query_addr_resp r = {.node_guid = guid_of(id), .port_num = port_num_of(id), .ibdev_index = UINT32_MAX};
	struct rcm_sockaddr_ib sib = {.family = AF_IB};

	if (out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	r.src_size = r.dst_size = sizeof(sib);
	if (id->on_device) {
		sib.pkey = r.pkey = htons(shca_port_now(rcm_id_port(id)).pkey);
		shca_port_gid(shca_port_now(rcm_id_port(id)).gid_prefix, rcm_id_port(id), sib.gid);
	}
	sib.sid = htobe64(rcm_service_id(id, &id->src));
	sib.sid_mask = UINT64_MAX;
	memcpy(&r.src_addr, &sib, sizeof(sib));
	if (id->dst.ss_family) {
		sib.sid = htobe64(rcm_service_id(id, &id->dst));
		memcpy(&r.dst_addr, &sib, sizeof(sib));
	}
	copy_out(c, &r, sizeof(r), out);
	return 0;
}

static int query_path(const struct rcm_id *id, const struct rdma_ucm_query *c, size_t out)
{
	_Alignas(struct rdma_ucm_query_path_resp) char
		answer[sizeof(struct rdma_ucm_query_path_resp) + sizeof(struct ib_path_rec_data)] = {0};
	struct rdma_ucm_query_path_resp *r = (struct rdma_ucm_query_path_resp *)answer;

	if (out < sizeof(*r))
		return -ENOSPC;
	r->num_paths = has_route(id);
	r->path_data[0].flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	path_fill(id, (struct path *)r->path_data[0].path_rec);
	copy_out(c, answer, r->num_paths ? sizeof(answer) : sizeof(*r), out);
	return 0;
}

int rcm_query(struct rcm_channel *ch, const struct rdma_ucm_query *c, size_t out)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);

	if (!id)
		return -errno;
	switch (c->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_addr(id, c, out);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(id, c, out);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(id, c, out);
	default:
		return -shca_refuse(ENOSYS, "RDMA CM: query of %u", c->option);
	}
}

int rcm_query_route(struct rcm_channel *ch, const struct rdma_ucm_query *c, size_t out)
{
	struct rcm_id *id = rcm_id_find(ch, c->id);
	struct rdma_ucm_query_route_resp r = {.ibdev_index = UINT32_MAX};
	struct path p;

	if (!id)
		return -errno;
	if (out < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	r.node_guid = guid_of(id);
	r.port_num = port_num_of(id);
	r.num_paths = has_route(id);
	memcpy(&r.src_addr, &id->src, sizeof(r.src_addr));
	memcpy(&r.dst_addr, &id->dst, sizeof(r.dst_addr));
	if (id->on_device) {
		path_fill(id, &p);
		struct ib_user_path_rec *to = &r.ib_route[0];
		memcpy(to->dgid, p.dgid, sizeof(to->dgid));
		memcpy(to->sgid, p.sgid, sizeof(to->sgid));
		to->dlid = p.dlid;
		to->slid = p.slid;
		to->pkey = p.pkey;
		to->traffic_class = p.tclass;
		to->reversible = to->numb_path = 1;
		to->mtu_selector = to->rate_selector = to->packet_life_time_selector = 2;
		to->mtu = IBV_MTU_4096;
		to->rate = RATE_EDR;
		to->packet_life_time = RCM_LIFE;
	}
	copy_out(c, &r, sizeof(r), out);
	return 0;
}
