/* SPDX-License-Identifier: BSD-3-Clause */
/* Ethernet frames and raw packet queue pairs, for the tests of these. */
#ifndef FRAME_H
#define FRAME_H

#include <arpa/inet.h>
#include <netinet/in.h>

#include "vt.h"

/* The fields of a frame. */
struct fields {
	uint8_t dst[6], src[6];
	unsigned tags;			/* VLAN tags, at most 2 */
	uint16_t tpid[2], tci[2];
	int l3;				/* 4, 6; 0: `type` */
	uint16_t type;
	uint8_t src_ip[16], dst_ip[16];
	uint8_t tos, ttl;
	bool df, mf, later;		/* IPv4 flags; not the first fragment (4 and 6) */
	uint32_t label;
	bool extended;			/* IPv4: with an option; IPv6: with an extension header */
	uint8_t l4;			/* IPPROTO_TCP, IPPROTO_UDP, another protocol */
	uint16_t src_port, dst_port;
	unsigned payload;
};

static inline uint8_t *frame_put(uint8_t *p, const void *v, size_t n)
{
	memcpy(p, v, n);
	return p + n;
}

static inline uint8_t *frame_put16(uint8_t *p, unsigned v)
{
	*p++ = (uint8_t)(v >> 8);
	*p++ = (uint8_t)v;
	return p;
}

/* Makes the frame; its payload is a sequence that begins with `seed`. Returns its length. */
static inline uint32_t frame_make(uint8_t *to, const struct fields *f, uint32_t seed)
{
	static const uint8_t zero[20];
	uint8_t *p = frame_put(frame_put(to, f->dst, 6), f->src, 6);
	unsigned l4 = f->l4 == IPPROTO_TCP ? 20 : 8, head = f->extended ? f->l3 == 4 ? 4 : 8 : 0;

	for (unsigned i = 0; i < f->tags; i++)
		p = frame_put16(frame_put16(p, f->tpid[i]), f->tci[i]);
	p = frame_put16(p, f->l3 == 4 ? 0x0800 : f->l3 == 6 ? 0x86dd : f->type);
	if (f->l3 == 4) {
		*p++ = (uint8_t)(0x40 | (5 + head / 4));
		*p++ = f->tos;
		p = frame_put16(p, 20 + head + l4 + f->payload);
		p = frame_put16(p, 0);
		p = frame_put16(p, (f->df ? 0x4000 : 0) | (f->mf ? 0x2000 : 0) | (f->later ? 100 : 0));
		*p++ = f->ttl;
		*p++ = f->l4;
		p = frame_put16(p, 0);
		p = frame_put(frame_put(p, f->src_ip, 4), f->dst_ip, 4);
		p = frame_put(p, zero, head);
	} else if (f->l3 == 6) {
		*p++ = (uint8_t)(0x60 | f->tos >> 4);
		*p++ = (uint8_t)(f->tos << 4 | f->label >> 16);
		p = frame_put16(p, f->label & 0xffff);
		p = frame_put16(p, head + (f->later ? 8 : 0) + l4 + f->payload);
		*p++ = f->extended ? IPPROTO_DSTOPTS : f->later ? IPPROTO_FRAGMENT : f->l4;
		*p++ = f->ttl;
		p = frame_put(frame_put(p, f->src_ip, 16), f->dst_ip, 16);
		if (f->extended) {
			*p++ = f->later ? IPPROTO_FRAGMENT : f->l4;
			p = frame_put(p, zero, 7);
		}
		if (f->later) {
			*p++ = f->l4;
			*p++ = 0;
			p = frame_put16(p, 100 << 3);
			p = frame_put(p, zero, 4);
		}
	}
	if (f->l3) {
		p = frame_put16(frame_put16(p, f->src_port), f->dst_port);
		p = frame_put(p, zero, l4 - 4);
	}
	for (unsigned i = 0; i < f->payload; i++)
		*p++ = (uint8_t)(seed + i * 7 + (i >> 8));
	return (uint32_t)(p - to);
}

static inline struct ibv_qp *raw_qp(struct vt *t, struct ibv_cq *cq, uint32_t flags, uint32_t receives)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET, .pd = t->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, .create_flags = flags,
		.cap = {.max_send_wr = 64, .max_recv_wr = receives, .max_send_sge = 3, .max_recv_sge = 3, .max_inline_data = 256},
	};
	struct ibv_qp *qp = ibv_create_qp_ex(t->ctx, &a);
	CHECK(qp, "a raw packet queue pair");
	return qp;
}

static inline void raw_ready_at(struct ibv_qp *qp, uint8_t port)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = port};
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PORT), "INIT");
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTR");
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE), "RTS");
}

static inline void raw_ready(struct ibv_qp *qp)
{
	raw_ready_at(qp, 1);
}

/* The attributes of a flow and its specifications, as ibv_create_flow takes them. */
struct rule {
	struct ibv_flow_attr attr;
	char specs[3 * sizeof(struct ibv_flow_spec_ipv6)];
	unsigned used;
};

static inline struct rule rule_of(enum ibv_flow_attr_type type, uint16_t priority)
{
	return (struct rule){.attr = {.type = type, .priority = priority, .port = 1, .size = sizeof(struct ibv_flow_attr)}};
}

static inline void rule_add(struct rule *r, const void *spec, size_t n)
{
	CHECK(r->used + n <= sizeof(r->specs), "specifications");
	memcpy(r->specs + r->used, spec, n);
	r->used += (unsigned)n;
	r->attr.num_of_specs++;
	r->attr.size = (uint16_t)(sizeof(r->attr) + r->used);
}

static inline struct rule rule_mac(uint16_t priority, const uint8_t mac[6])
{
	struct rule r = rule_of(IBV_FLOW_ATTR_NORMAL, priority);
	struct ibv_flow_spec_eth e = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(e)};
	memcpy(e.val.dst_mac, mac, 6);
	memset(e.mask.dst_mac, 0xff, 6);
	rule_add(&r, &e, sizeof(e));
	return r;
}
_Static_assert(offsetof(struct rule, specs) == sizeof(struct ibv_flow_attr), "the specifications stand behind the attributes");

static inline struct ibv_flow *flow_to(struct ibv_qp *qp, struct rule r)
{
	return ibv_create_flow(qp, &r.attr);
}

#endif
