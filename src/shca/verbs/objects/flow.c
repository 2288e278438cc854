/* SPDX-License-Identifier: BSD-3-Clause */
/* Flows of ibv_create_flow (struct shca_flow): made from the specifications of the verb, and ended. engine/flow.c steers. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "shca/verbs/control.h"

/* ---- specifications ------------------------------------------------------------------------------------------------------ */

/* One field of the key: bits of `val` under `mask`. */
static void flow_put(struct shca_flow *f, void *of_value, const void *val, const void *mask, size_t n)
{
	size_t at = (size_t)((char *)of_value - (char *)&f->value);

	for (size_t i = 0; i < n; i++) {
		uint8_t bits = ((const uint8_t *)mask)[i];
		((uint8_t *)&f->value)[at + i] |= ((const uint8_t *)val)[i] & bits;
		((uint8_t *)&f->mask)[at + i] |= bits;
	}
}
#define PUT(f, field, spec, of) flow_put(f, &(f)->value.field, &(spec)->val.of, &(spec)->mask.of, sizeof((spec)->val.of))

/* The frame must have these layers. */
static void put_layers(struct shca_flow *f, uint32_t layers)
{
	flow_put(f, &f->value.layers, &layers, &layers, sizeof(layers));
}

static void put_eth(struct shca_flow *f, const struct ibv_flow_spec_eth *s)
{
	PUT(f, dst_mac, s, dst_mac);
	PUT(f, src_mac, s, src_mac);
	PUT(f, ether_type, s, ether_type);
	PUT(f, vlan_tag, s, vlan_tag);
	if (s->mask.vlan_tag)
		put_layers(f, SHCA_LAYER_VLAN);
}

static void put_ipv4(struct shca_flow *f, const struct ibv_flow_spec_ipv4_ext *s, bool ext)
{
	put_layers(f, SHCA_LAYER_IPV4);
	PUT(f, src_ip, s, src_ip);
	PUT(f, dst_ip, s, dst_ip);
	if (!ext)
		return;
	PUT(f, protocol, s, proto);
	PUT(f, tos, s, tos);
	PUT(f, ttl, s, ttl);
	PUT(f, ip_flags, s, flags);
}

static void put_ipv6(struct shca_flow *f, const struct ibv_flow_spec_ipv6 *s)
{
	put_layers(f, SHCA_LAYER_IPV6);
	PUT(f, src_ip, s, src_ip);
	PUT(f, dst_ip, s, dst_ip);
	PUT(f, flow_label, s, flow_label);
	PUT(f, protocol, s, next_hdr);
	PUT(f, tos, s, traffic_class);
	PUT(f, ttl, s, hop_limit);
}

static void put_ports(struct shca_flow *f, const struct ibv_flow_spec_tcp_udp *s, uint32_t layer)
{
	put_layers(f, layer);
	PUT(f, src_port, s, src_port);
	PUT(f, dst_port, s, dst_port);
}

/* Layers of the specifications: each at most once. */
enum { L2 = 1, L3 = 2, L4 = 4 };
static const struct {
	uint16_t type, size;
	uint8_t layer;
} specs[] = {
	{IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth), L2},
	{IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4), L3},
	{IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext), L3},
	{IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6), L3},
	{IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp), L4},
	{IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp), L4},
};

static int lacking(uint32_t type)
{
	return shca_refuse(EOPNOTSUPP, "create_flow: specification %#x: %s", type,
			   type & IBV_FLOW_SPEC_INNER ? "no tunnel is looked into" :
			   type == IBV_FLOW_SPEC_ACTION_COUNT ? "there are no counters of flows; those of the port are in sysfs" :
			   type >= IBV_FLOW_SPEC_ACTION_TAG ? "a flow steers frames to its queue, and has no other action" :
			   "Ethernet, IPv4, IPv6, TCP and UDP are compared");
}

/* Adds the specification at `at`, which has no alignment: copies it to *s. */
static int spec_add(struct shca_flow *f, const char *at, struct ibv_flow_spec *s, uint32_t *layers)
{
	size_t i = 0;

	memcpy(s, at, sizeof(s->hdr));
	uint32_t type = s->hdr.type;
	while (i < ARRAY_SIZE(specs) && specs[i].type != type)
		i++;
	if (i == ARRAY_SIZE(specs))
		return lacking(type);
	if (s->hdr.size != specs[i].size)
		return shca_refuse(EINVAL, "create_flow: specification %#x has %u bytes: its struct has %u", type, s->hdr.size,
				   specs[i].size);
	if (*layers & specs[i].layer)
		return shca_refuse(EINVAL, "create_flow: specification %#x: a frame has one header of that layer", type);
	*layers |= specs[i].layer;
	memcpy(s, at, specs[i].size);
	switch (type) {
	case IBV_FLOW_SPEC_ETH: put_eth(f, &s->eth); break;
	case IBV_FLOW_SPEC_IPV4: {
		struct ibv_flow_spec_ipv4_ext ext = {.val = {.src_ip = s->ipv4.val.src_ip, .dst_ip = s->ipv4.val.dst_ip},
						     .mask = {.src_ip = s->ipv4.mask.src_ip, .dst_ip = s->ipv4.mask.dst_ip}};
		put_ipv4(f, &ext, false);
		break;
	}
	case IBV_FLOW_SPEC_IPV4_EXT: put_ipv4(f, &s->ipv4_ext, true); break;
	case IBV_FLOW_SPEC_IPV6: put_ipv6(f, &s->ipv6); break;
	case IBV_FLOW_SPEC_TCP: put_ports(f, &s->tcp_udp, SHCA_LAYER_TCP); break;
	default: put_ports(f, &s->tcp_udp, SHCA_LAYER_UDP); break;
	}
	return 0;
}

static int attr_check(const struct ibv_qp *qp, const struct ibv_flow_attr *a)
{
	if (!shca_is_ethernet())
		return shca_refuse(EOPNOTSUPP,
				   "create_flow: the link layer is InfiniBand: frames are steered with SHCA_LINK=ethernet");
	if (qp->qp_type != IBV_QPT_RAW_PACKET && qp->qp_type != IBV_QPT_UD)
		return shca_refuse(EINVAL,
				   "create_flow: queue pair %#x of type %d: flows lead to raw packet queue pairs (and UD)",
				   qp->qp_num, qp->qp_type);
	if (a->comp_mask)
		return shca_refuse(EINVAL, "create_flow: comp_mask %#x has no bits", a->comp_mask);
	if (a->port < 1 || a->port > shca_ports())
		return shca_refuse(EINVAL, "create_flow: port %u, the device has %u", a->port, shca_ports());
	if (a->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return shca_refuse(EOPNOTSUPP, "create_flow: frames that are sent match no flows (IBV_FLOW_ATTR_FLAGS_EGRESS)");
	if ((a->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP) || (a->flags && a->type != IBV_FLOW_ATTR_NORMAL))
		return shca_refuse(EINVAL,
				   "create_flow: flags %#x of type %d: IBV_FLOW_ATTR_FLAGS_DONT_TRAP of IBV_FLOW_ATTR_NORMAL",
				   a->flags, a->type);
	if (a->type > IBV_FLOW_ATTR_SNIFFER)
		return shca_refuse(EINVAL, "create_flow: type %d", a->type);
	if (a->type != IBV_FLOW_ATTR_NORMAL && a->num_of_specs)
		return shca_refuse(EINVAL, "create_flow: %u specifications: a flow of type %d has none", a->num_of_specs,
				   a->type);
	return 0;
}

/* Fills in a flow. The specifications stand behind the attributes: `size` of these is not looked at, because programs set it to
 * anything. Returns 0, or an errno value. */
static int flow_from_attr(struct shca_flow *f, const struct ibv_qp *qp, const struct ibv_flow_attr *a)
{
	const char *at = (const char *)(a + 1);
	uint32_t layers = 0;
	int err = attr_check(qp, a);

	memset(f, 0, sizeof(*f));
	f->qpn = qp->qp_num;
	f->priority = a->priority;
	f->type = (uint8_t)a->type;
	f->port = a->port;
	f->flags = a->flags;
	for (unsigned i = 0; i < a->num_of_specs && !err; i++) {
		struct ibv_flow_spec s;
		err = spec_add(f, at, &s, &layers);
		at += s.hdr.size;
	}
	return err;
}

/* ---- the verbs ----------------------------------------------------------------------------------------------------------- */

struct ibv_flow *shca_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct shca_user_qp *q = shca_user_qp_of(qp);
	struct shca_context *c = shca_context_of(qp->context);
	struct shca_flow made;

	if (shca_unusable(qp->context))
		return NULL;
	int err = flow_from_attr(&made, qp, attr);
	if (err) {
		errno = err;
		return NULL;
	}
	struct shca_user_flow *u = calloc(1, sizeof(*u));
	shca_off off = u ? shca_mem_alloc(c->m, sizeof(made)) : 0;
	if (!off) {
		free(u);
		errno = shca_no_memory("create_flow");
		return NULL;
	}
	struct shca_flow *sh = shca_at(c->m->base, off);
	memcpy(sh, &made, sizeof(made));
	u->flow.context = qp->context;
	u->qp = q;
	u->off = off;
	pthread_mutex_lock(&c->node->mutex);
	shca_list_add(&c->node->flows, &c->m->proc->flow_list, &u->listed, off, &sh->next);
	u->next = q->flows;
	q->flows = u;
	pthread_mutex_unlock(&c->node->mutex);
	SHCA_FAILPOINT(shca_thread_get(c->m), "flow-listed", q->sh, 0);
	return &u->flow;
}

/* Takes the flow off the lists. The caller must quiesce before it frees the shared part. Must hold the node's mutex. */
static void flow_unlist(struct shca_context *c, struct shca_user_flow *u)
{
	struct shca_user_flow **at = &u->qp->flows;

	while (*at != u)
		at = &(*at)->next;
	*at = u->next;
	shca_list_remove(&c->node->flows, &c->m->proc->flow_list, &u->listed);
}

int shca_destroy_flow(struct ibv_flow *flow)
{
	struct shca_user_flow *u = (struct shca_user_flow *)flow;
	struct shca_context *c = shca_context_of(flow->context);

	if (shca_inherited(flow->context)) {
		free(u);
		return 0;
	}
	struct shca_thread *thr = shca_thread_get(c->m);
	if (!thr)
		return shca_no_thread("destroy_flow");
	pthread_mutex_lock(&c->node->mutex);
	flow_unlist(c, u);
	pthread_mutex_unlock(&c->node->mutex);
	SHCA_FAILPOINT(thr, "flow-unlisted", u->qp->sh, 0);
	shca_quiesce(thr, thr->m->slot);
	shca_mem_free(c->m, u->off, sizeof(struct shca_flow));
	free(u);
	return 0;
}

void shca_flows_end(struct shca_thread *thr, struct shca_user_qp *q)
{
	struct shca_context *c = shca_context_of(q->qp.context);
	struct shca_user_flow *ended = q->flows;

	if (likely(!ended))
		return;
	pthread_mutex_lock(&c->node->mutex);
	while (q->flows)
		flow_unlist(c, q->flows);
	pthread_mutex_unlock(&c->node->mutex);
	shca_quiesce(thr, thr->m->slot);
	/* the structs stay: the program still has pointers to them */
	for (; ended; ended = ended->next)
		shca_mem_free(c->m, ended->off, sizeof(struct shca_flow));
}
