/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow steering: which raw packet queues get an Ethernet frame.
 *
 * The flows of all processes are one table (struct shca_flow). For frames of raw packet queues each port of the fabric is on a
 * segment of Ethernet of its own: a frame meets the flows of the port that it leaves by. (RoCE packets go between the ports.)
 *
 *   1. sniffers get every frame;
 *   2. of the ordinary flows that match, those of the best priority get the frame, and those that do not trap above it. A
 *      multicast frame goes to all that match;
 *   3. if no flow has trapped the frame: the default flows, of which MC_DEFAULT takes multicast frames only.
 *
 * A flow of the sending queue does not match, unless it is a sniffer or the queue was made with self loopback: a port does not
 * send a frame back. Several flows that lead to one queue bring one copy.
 */
#include <endian.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "shca/engine/flow.h"

#define TYPE_VLAN 0x8100u
#define TYPE_SERVICE_VLAN 0x88a8u
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu
#define EXTENSIONS 8u		/* IPv6 extension headers that are skipped, at most */
/* As the kernel's IB_IPV4_*: not the header's order of bits */
#define FLAG_DONT_FRAGMENT 2u
#define FLAG_MORE_FRAGMENTS 4u

/* ---- the fields of a frame --------------------------------------------------------------------------------------------- */

static inline uint32_t be16_at(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static void flow_key_ports(struct shca_flow_key *k, const uint8_t *p, uint32_t len)
{
	if ((k->protocol != IPPROTO_TCP && k->protocol != IPPROTO_UDP) || len < 4)
		return;
	k->layers |= k->protocol == IPPROTO_TCP ? SHCA_LAYER_TCP : SHCA_LAYER_UDP;
	memcpy(&k->src_port, p, 2);
	memcpy(&k->dst_port, p + 2, 2);
}

static void ipv4_of(struct shca_flow_key *k, const uint8_t *p, uint32_t len)
{
	uint32_t head = len ? (p[0] & 15u) * 4 : 0;

	if (head < 20 || len < head || p[0] >> 4 != 4)
		return;
	uint32_t fragment = be16_at(p + 6);
	k->layers |= SHCA_LAYER_IPV4;
	k->tos = p[1];
	k->ip_flags = (uint8_t)((fragment & 0x4000 ? FLAG_DONT_FRAGMENT : 0) | (fragment & 0x2000 ? FLAG_MORE_FRAGMENTS : 0));
	k->ttl = p[8];
	k->protocol = p[9];
	memcpy(k->src_ip, p + 12, 4);
	memcpy(k->dst_ip, p + 16, 4);
	if (!(fragment & 0x1fff))
		flow_key_ports(k, p + head, len - head);
}

static void ipv6_of(struct shca_flow_key *k, const uint8_t *p, uint32_t len)
{
	uint32_t at = 40, next;

	if (len < 40 || p[0] >> 4 != 6)
		return;
	k->layers |= SHCA_LAYER_IPV6;
	k->tos = (uint8_t)(p[0] << 4 | p[1] >> 4);
	k->flow_label = htobe32((p[1] & 15u) << 16 | be16_at(p + 2));
	k->ttl = p[7];
	memcpy(k->src_ip, p + 8, 16);
	memcpy(k->dst_ip, p + 24, 16);
	next = p[6];
	for (unsigned i = 0; i < EXTENSIONS && len >= at + 8; i++) {
		bool fragment = next == IPPROTO_FRAGMENT;
		if (!fragment && next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING && next != IPPROTO_DSTOPTS)
			break;
		bool later = fragment && be16_at(p + at + 2) >> 3;
		next = p[at];
		at += fragment ? 8 : 8 * (p[at + 1] + 1u);
		if (later) {
			k->protocol = (uint8_t)next;
			return;
		}
	}
	k->protocol = (uint8_t)next;
	if (at <= len)
		flow_key_ports(k, p + at, len - at);
}

static void key_of(struct shca_flow_key *k, const uint8_t *frame, uint32_t len)
{
	uint32_t at = 12, type;

	memset(k, 0, sizeof(*k));
	memcpy(k->dst_mac, frame, 6);
	memcpy(k->src_mac, frame + 6, 6);
	while ((type = be16_at(frame + at)) == TYPE_VLAN || type == TYPE_SERVICE_VLAN) {
		if (len < at + 6)
			break;
		if (!(k->layers & SHCA_LAYER_VLAN))
			memcpy(&k->vlan_tag, frame + at + 2, 2);
		k->layers |= SHCA_LAYER_VLAN;
		at += 4;
	}
	memcpy(&k->ether_type, frame + at, 2);
	at += 2;
	if (type == TYPE_IPV4)
		ipv4_of(k, frame + at, len - at);
	else if (type == TYPE_IPV6)
		ipv6_of(k, frame + at, len - at);
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

struct look {
	const struct shca_qp *qp;	/* the sender */
	uint32_t port;			/* the sender's */
	struct shca_flow_key key;
	bool multicast;			/* broadcast, too */
	bool trapped;			/* some ordinary flow traps the frame */
	uint16_t best;			/* of those that do, the first priority */
};

static bool flow_matches(const struct look *l, const struct shca_flow *f)
{
	uint64_t differs = 0;

	for (unsigned i = 0; i < ARRAY_SIZE(f->mask.word); i++)
		differs |= (l->key.word[i] ^ f->value.word[i]) & f->mask.word[i];
	return !differs;
}

/* Returns whether the frame comes to the flow at all: the flow is of the frame's port, and the sender is another queue. */
static bool flow_reached(const struct look *l, const struct shca_flow *f)
{
	if (f->port != l->port)
		return false;
	return f->qpn != l->qp->qpn || f->type == IBV_FLOW_ATTR_SNIFFER ||
	       l->qp->raw & (l->multicast ? SHCA_RAW_LOOP_MC : SHCA_RAW_LOOP_UC);
}

static void flow_rank(struct shca_thread *thr, struct look *l, uint32_t proc)
{
	shca_for_each_listed(thr->m, shca_flow, f, proc, flow_list) {
		if (f->type != IBV_FLOW_ATTR_NORMAL || f->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP || !flow_reached(l, f) ||
		    !flow_matches(l, f))
			continue;
		if (!l->trapped || f->priority < l->best)
			l->best = f->priority;
		l->trapped = true;
	}
}

/* Returns whether the flow takes the frame. Must be called behind flow_rank of every process. */
static bool flow_takes(const struct look *l, const struct shca_flow *f)
{
	switch (f->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return true;
	case IBV_FLOW_ATTR_NORMAL:
		return (!l->trapped || l->multicast || f->priority <= l->best) && flow_matches(l, f);
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		return !l->trapped;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return !l->trapped && l->multicast;
	default:
		return false;
	}
}

bool shca_member_add(struct shca_thread *thr, uint32_t n, uint32_t qpn)
{
	if (n == thr->members_cap) {
		uint32_t cap = n ? 2 * n : 32;
		uint32_t *more = realloc(thr->members, cap * sizeof(*more));
		if (!more)
			return false;
		thr->members = more;
		thr->members_cap = cap;
	}
	thr->members[n] = qpn;
	return true;
}

static bool member_known(const struct shca_thread *thr, uint32_t n, uint32_t qpn)
{
	while (n--)
		if (thr->members[n] == qpn)
			return true;
	return false;
}

/* Flows of a dying process match no frame: the frame is delivered as it will be after the reaper has emptied the list. */
static bool has_flows(struct shca_thread *thr, uint32_t proc)
{
	if (likely(!__atomic_load_n(&thr->m->procs[proc].flow_list, __ATOMIC_ACQUIRE)))
		return false;
	if (!shca_proc_dying(thr->m, proc))
		return true;
	shca_look(thr->m);
	return false;
}

uint32_t shca_flow_receivers(struct shca_thread *thr, const struct shca_qp *qp, uint32_t port, const uint8_t *frame,
			     uint32_t len)
{
	uint32_t high = atomic_load(&thr->m->hdr->proc_high), n = 0;
	struct look l = {.qp = qp, .port = port, .multicast = frame[0] & 1};

	if (high > SHCA_MAX_PROCS)
		high = SHCA_MAX_PROCS;
	key_of(&l.key, frame, len);
	for (uint32_t p = 0; p < high; p++)
		if (has_flows(thr, p))
			flow_rank(thr, &l, p);
	for (uint32_t p = 0; p < high; p++) {
		if (!has_flows(thr, p))
			continue;
		shca_for_each_listed(thr->m, shca_flow, f, p, flow_list) {
			if (!flow_reached(&l, f) || !flow_takes(&l, f) || member_known(thr, n, f->qpn))
				continue;
			if (!shca_member_add(thr, n, f->qpn))
				return n;
			n++;
		}
	}
	return n;
}
