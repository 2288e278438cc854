/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of UD ids. A group's GID follows from its address as the kernel derives it (cma_set_mgid), its LID from the
 * GID.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdmacm/internal.h"

#define MULTICAST_QPN 0xffffffu

/* The GID of the group that an IP address names, also a unicast address (manual 8.2): IPoIB's, with RDMA CM's signature 0x4001 or
 * 0x6001 in place of IPoIB's. */
static void group_gid(const struct rcm_id *id, uint8_t gid[16], const struct sockaddr_storage *a, bool udp)
{
	uint16_t pkey = htons(shca_port_now(rcm_id_port(id)).pkey);
	uint8_t type = a->ss_family == AF_INET ? 0x40 : 0x60;

	memset(gid, 0, 16);
	if (rcm_is_any(a)) {
		/* a new group */
		if (getrandom(gid + 8, 8, GRND_NONBLOCK) != 8)
			memcpy(gid + 8, &(uint64_t){monotonic_ns()}, 8);
		type = 0xa0;
	} else if (a->ss_family == AF_IB) {
		memcpy(gid, ((const struct rcm_sockaddr_ib *)a)->gid, 16);
		return;
	} else if (a->ss_family == AF_INET) {
		uint32_t host = ((const struct sockaddr_in *)a)->sin_addr.s_addr & htonl(0x0fffffff);
		memcpy(gid + 12, &host, sizeof(host));
	} else {
		const uint8_t *ip = ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr;
		/* ff1x:a01b::, an address that is a GID already */
		if (ip[0] == 0xff && (ip[1] & 0xf0) == 0x10 && ip[2] == 0xa0 && ip[3] == 0x1b) {
			memcpy(gid, ip, 16);
			return;
		}
		memcpy(gid + 6, ip + 6, 10);
	}
	gid[0] = 0xff;
	gid[1] = 0x12;
	gid[2] = type;
	gid[3] = udp ? 0x01 : 0x1b;
	memcpy(gid + 4, &pkey, sizeof(pkey));
}

static struct rcm_event *group_event(struct rcm_id *id, struct rcm_group *g, enum rcm_event_type type, int status)
{
	struct rcm_event *ev = rcm_event_new(id, type, status);

	if (!ev)
		return NULL;
	ev->group = g;
	ev->resp.uid = g->uid;
	ev->resp.id = g->handle;
	return ev;
}

int rcm_join(struct rcm_channel *ch, uint32_t handle, uint64_t uid, const void *addr, size_t size, unsigned flags,
	     struct rdma_ucm_create_id_resp *out)
{
	struct rcm_id *id = rcm_id_find(ch, handle);
	struct sockaddr_storage a = {.ss_family = AF_UNSPEC};

	if (!id)
		return -errno;
	memcpy(&a, addr, size < sizeof(a) ? size : sizeof(a));
	if (!rcm_address_size(&a) || size < rcm_address_size(&a) || flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -shca_refuse(EINVAL, "rdma_join_multicast: an address of family %d and %zu bytes, or flags %u",
				    a.ss_family, size, flags);
	if (!id->on_device || id->qp_type != IBV_QPT_UD)
		return -shca_refuse(EINVAL, "rdma_join_multicast: the id is not bound to a device, or not RDMA_PS_UDP or _IPOIB");
	struct rcm_group *g = calloc(1, sizeof(*g));
	if (!g)
		return -shca_no_memory("rdma_join_multicast");
	g->uid = uid;
	int err = rcm_handle_new(id, RCM_GROUP, &g->handle);
	bool down = shca_port_now(rcm_id_port(id)).down;
	struct rcm_event *ev =
		err ? NULL : group_event(id, g, down ? RCM_MULTICAST_ERROR : RCM_MULTICAST_JOIN, down ? -ENETDOWN : 0);
	if (!ev) {
		if (!err)
			rcm_handle_free(g->handle);
		free(g);
		return err ? err : -ENOMEM;
	}
	group_gid(id, g->gid, &a, id->ps == RDMA_PS_UDP);
	struct rdma_ucm_ud_param *ud = &ev->resp.param.ud;
	ud->qp_num = MULTICAST_QPN;
	ud->qkey = id->local.qkey;
	rcm_address_vector(id, &ud->ah_attr);
	ud->ah_attr.is_global = 1;
	ud->ah_attr.dlid = shca_group_lid(g->gid);
	memcpy(ud->ah_attr.grh.dgid, g->gid, sizeof(g->gid));
	g->next = id->groups;
	id->groups = g;
	rcm_push(ch, ev);
	out->id = g->handle;
	return 0;
}

int rcm_leave(struct rcm_channel *ch, const struct rdma_ucm_destroy_id *c, struct rdma_ucm_destroy_id_resp *out)
{
	struct rcm_id *id = rcm_handle_get(c->id, RCM_GROUP);
	struct rcm_group **at;

	if (!id || atomic_load(&id->channel) != ch)
		return -shca_refuse(id ? EINVAL : ENOENT, "rdma_leave_multicast: no membership %u on this event channel", c->id);
	for (at = &id->groups; *at && (*at)->handle != c->id; at = &(*at)->next)
		;
	struct rcm_group *g = *at;
	if (!g)
		return -shca_refuse(ENOENT, "rdma_leave_multicast: no membership %u", c->id);
	*at = g->next;
	rcm_events_drop(ch, id, g);
	out->events_reported = g->events_reported;
	rcm_handle_free(g->handle);
	free(g);
	return 0;
}

void rcm_groups_lost(struct rcm_id *id)
{
	for (struct rcm_group *g = id->groups; g; g = g->next) {
		struct rcm_event *ev = group_event(id, g, RCM_MULTICAST_ERROR, -ENETRESET);
		if (ev)
			rcm_push(atomic_load(&id->channel), ev);
	}
}
