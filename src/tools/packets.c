/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packets that an HCA would have sent for a request, by IBTA chapters 5 (formats), 7 (LRH, VCRC), 8 (GRH) and 9 (transport):
 * the requester's packets, of one path MTU each, and the responder's answer.
 *
 * InfiniBand:  (ERF)  LRH  [GRH]  BTH  extended headers  data  pad  ICRC  VCRC
 * RoCE v2:     Ethernet  IPv6  UDP (4791)  BTH  extended headers  data  pad  ICRC
 * a frame of a raw packet queue: as it was posted; (ERF)  offset and pad  frame  FCS
 *
 * A record has the first bytes of a message only: packets are cut off behind these, and say how long they were. A packet that is
 * there as a whole has its CRCs. The device itself counts no packets: packet sequence numbers count from 0 for each queue.
 */
#include <endian.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "tools/shcactl.h"

#define ROCE_PORT 4791u
#define ERF_BYTES 16u		/* header of Endace's extensible record format */
#define ERF_ETHERNET 2u
#define ERF_INFINIBAND 21u
#define ERF_VARYING 4u		/* flag: records of varying length */

enum bth_op {
	OP_SEND_FIRST = 0x00, OP_SEND_MIDDLE, OP_SEND_LAST, OP_SEND_LAST_IMM, OP_SEND_ONLY, OP_SEND_ONLY_IMM,
	OP_WRITE_FIRST = 0x06, OP_WRITE_MIDDLE, OP_WRITE_LAST, OP_WRITE_LAST_IMM, OP_WRITE_ONLY, OP_WRITE_ONLY_IMM,
	OP_READ_REQUEST = 0x0c, OP_READ_FIRST, OP_READ_MIDDLE, OP_READ_LAST, OP_READ_ONLY,
	OP_ACK = 0x11, OP_ATOMIC_ACK, OP_CAS, OP_FAA,
	OP_SEND_LAST_INV = 0x16, OP_SEND_ONLY_INV,
	OP_ATOMIC_WRITE = 0x1d,
	/* the vendor's masked atomics have no number in IBTA: the range for manufacturers */
	OP_MASKED_CAS = 0xd3, OP_MASKED_FAA = 0xd4,
};
/* the upper three bits */
#define CLASS_RC 0x00
#define CLASS_UC 0x20
#define CLASS_UD 0x60
#define CLASS_XRC 0xa0

#define SYNDROME_ACK 0x1f	/* no limit of credits */
#define SYNDROME_RNR 0x20
#define SYNDROME_NAK 0x60
#define NAK_INVALID_REQUEST 1
#define NAK_REMOTE_ACCESS 2
#define NAK_REMOTE_OPERATION 3

/* Of a sending queue: the next packet's number, and messages completed. */
struct flow {
	uint32_t qpn, psn, msn;
};

struct packets {
	struct pcapng *out;
	struct packets_port port[2];
	bool roce;
	struct flow *flow;	/* hash table by qpn, linear probing; qpn 0: free */
	uint32_t flows, mask;
	uint32_t crc32[256], crc16[256];
	/* the packet that is being built; an ERF header goes in front of InfiniBand's */
	uint8_t erf[ERF_BYTES];
	uint8_t bytes[1024];
	uint32_t n;
};
_Static_assert(offsetof(struct packets, bytes) == offsetof(struct packets, erf) + ERF_BYTES, "one record");

/* ---- CRCs ---------------------------------------------------------------------------------------------------------- */

/* Both polynomials reflected: bits of a byte go least significant first. */
static void make_tables(struct packets *p)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t a = i, b = i;
		for (int k = 0; k < 8; k++) {
			a = a >> 1 ^ (a & 1 ? 0xedb88320u : 0);
			b = b >> 1 ^ (b & 1 ? 0xd008u : 0);
		}
		p->crc32[i] = a;
		p->crc16[i] = b;
	}
}

static uint32_t crc32(const struct packets *p, uint32_t crc, const uint8_t *s, size_t n)
{
	while (n--)
		crc = crc >> 8 ^ p->crc32[(crc ^ *s++) & 255];
	return crc;
}

/* IBTA 7.8.1, and annex A17: fields that switches and routers change count as ones. bth: its place. */
static uint32_t icrc_of(const struct packets *p, uint32_t bth)
{
	uint8_t head[128];
	uint32_t crc = 0xffffffff;

	memcpy(head, p->bytes, bth + 12);
	head[bth + 4] = 0xff;
	if (p->roce) {
		crc = crc32(p, crc, (const uint8_t *)"\xff\xff\xff\xff\xff\xff\xff\xff", 8);
		uint8_t *ip = head + 14;
		ip[0] |= 0x0f;
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[7] = 0xff;
		ip[46] = ip[47] = 0xff;	/* UDP's checksum */
		crc = crc32(p, crc, ip, bth + 12 - 14);
	} else {
		head[0] |= 0xf0;
		if (bth > 8) {
			head[8] |= 0x0f;
			head[9] = head[10] = head[11] = 0xff;
			head[15] = 0xff;
		}
		crc = crc32(p, crc, head, bth + 12);
	}
	return ~crc32(p, crc, p->bytes + bth + 12, p->n - bth - 12);
}

static uint16_t vcrc_of(const struct packets *p)
{
	uint32_t crc = 0xffff;

	for (uint32_t i = 0; i < p->n; i++)
		crc = crc >> 8 ^ p->crc16[(crc ^ p->bytes[i]) & 255];
	return (uint16_t)~crc;
}

/* ---- fields -------------------------------------------------------------------------------------------------------- */

static void put8(struct packets *p, uint8_t v)
{
	p->bytes[p->n++] = v;
}

static void packets_put16(struct packets *p, uint16_t v)
{
	put8(p, (uint8_t)(v >> 8));
	put8(p, (uint8_t)v);
}

static void packets_put32(struct packets *p, uint32_t v)
{
	packets_put16(p, (uint16_t)(v >> 16));
	packets_put16(p, (uint16_t)v);
}

static void packets_put64(struct packets *p, uint64_t v)
{
	packets_put32(p, (uint32_t)(v >> 32));
	packets_put32(p, (uint32_t)v);
}

static void put_bytes(struct packets *p, const void *s, size_t n)
{
	memcpy(p->bytes + p->n, s, n);
	p->n += (uint32_t)n;
}

/* ---- a packet ------------------------------------------------------------------------------------------------------ */

/* One packet of a request. */
struct packet {
	const struct shca_trace_record *r;
	uint32_t from, to;	/* queues */
	uint8_t op;		/* with its class */
	bool ack_wanted, solicited;
	uint32_t psn;
	uint32_t offset, len;	/* of the data in the message */
	uint8_t syndrome;	/* of an AETH */
	uint32_t msn;
	bool answer;		/* from the responder's port to the requester's */
	uint64_t ns;
	const char *comment;
};

/* The port that the packet leaves by. */
static const struct packets_port *packets_port_of(const struct packets *p, const struct packet *k)
{
	return &p->port[(k->answer ? k->r->to_port : k->r->port) == 2];
}

/* Returns the port whose address the packet has. */
static const struct packets_port *port_to(const struct packets *p, const struct packet *k)
{
	return &p->port[(k->answer ? k->r->port : k->r->to_port) == 2];
}

static bool has_grh(const struct shca_trace_record *r)
{
	return r->type == IBV_QPT_UD && r->flags & SHCA_WQE_GRH;
}

/* tclass:8 | flow:20 of the datagram's address handle */
static uint32_t class_flow(const struct shca_trace_record *r)
{
	return r->type == IBV_QPT_UD ? (uint32_t)r->arg[1] & 0xfffffff : 0;
}

static void put_gids(struct packets *p, const struct packet *k)
{
	put_bytes(p, packets_port_of(p, k)->gid, 16);
	if (k->r->dqpn == SHCA_MULTICAST)
		put_bytes(p, &k->r->arg[2], 16);
	else
		put_bytes(p, port_to(p, k)->gid, 16);
}

/* ip_bytes: bytes behind the IPv6 header. Any process has the same addresses: the UDP port tells the queues apart, as an
 * adapter's does. */
static void put_roce_front(struct packets *p, const struct packet *k, uint32_t ip_bytes)
{
	const struct shca_trace_record *r = k->r;
	uint8_t hops = has_grh(r) ? (uint8_t)(r->arg[1] >> 32) : 64;

	put_bytes(p, "\x02shca\0\x02shca", 11);
	put8(p, 0);
	packets_put16(p, 0x86dd);
	packets_put32(p, 6u << 28 | class_flow(r));
	packets_put16(p, (uint16_t)ip_bytes);
	put8(p, 17);
	put8(p, hops ? hops : 64);
	put_gids(p, k);
	packets_put16(p, (uint16_t)(0xc000 | ((k->from ^ k->to * 31) & 0x3fff)));
	packets_put16(p, ROCE_PORT);
	packets_put16(p, (uint16_t)ip_bytes);
	packets_put16(p, 0);
}

/* words: from the first byte of the LRH to the last of the ICRC. IBTA 7.7, 8.3. */
static void put_ib_front(struct packets *p, const struct packet *k, uint32_t words)
{
	const struct shca_trace_record *r = k->r;
	bool grh = has_grh(r);
	uint8_t sl = r->type == IBV_QPT_UD ? SHCA_CQE_UD_SL_OF(SHCA_UD_PATH_BITS(r->arg[1])) : 0;

	put8(p, 0);	/* VL 0, version 0 */
	put8(p, (uint8_t)(sl << 4 | (grh ? 3 : 2)));
	packets_put16(p, r->dqpn == SHCA_MULTICAST ? SHCA_MULTICAST_LID : port_to(p, k)->lid);
	packets_put16(p, (uint16_t)words);
	packets_put16(p, packets_port_of(p, k)->lid);
	if (!grh)
		return;
	packets_put32(p, 6u << 28 | class_flow(r));
	packets_put16(p, (uint16_t)(words * 4 - 8 - 40));
	put8(p, 0x1b);
	put8(p, (uint8_t)(r->arg[1] >> 32));
	put_gids(p, k);
}

/* Bytes of the extended headers of an opcode. */
static uint32_t extended_bytes(uint8_t op)
{
	uint32_t xrc = op >> 5 == CLASS_XRC >> 5 ? 4 : 0, n = op >> 5 == CLASS_UD >> 5 ? 8 : 0;

	if (op == OP_MASKED_CAS || op == OP_MASKED_FAA)
		return 28;
	switch (op & 0x1f) {
	case OP_SEND_LAST_IMM: case OP_SEND_ONLY_IMM: case OP_SEND_LAST_INV: case OP_SEND_ONLY_INV: case OP_WRITE_LAST_IMM:
		return n + xrc + 4;
	case OP_WRITE_FIRST: case OP_WRITE_ONLY: case OP_READ_REQUEST: case OP_ATOMIC_WRITE:
		return xrc + 16;
	case OP_WRITE_ONLY_IMM:
		return xrc + 20;
	case OP_CAS: case OP_FAA:
		return xrc + 28;
	case OP_READ_FIRST: case OP_READ_LAST: case OP_READ_ONLY: case OP_ACK:
		return 4;
	case OP_READ_MIDDLE:
		return 0;
	case OP_ATOMIC_ACK:
		return 12;
	}
	return n + xrc;
}

static uint64_t operand(const struct shca_trace_record *r, unsigned i)
{
	return r->flags & SHCA_WQE_OPERANDS ? 0 : r->arg[i];
}

static void put_atomic(struct packets *p, const struct shca_trace_record *r)
{
	bool add = r->op == SHCA_OP_FAA || r->op == SHCA_OP_MASKED_FAA, masked = r->op >= SHCA_OP_MASKED_CAS;

	packets_put64(p, r->raddr);
	packets_put32(p, r->rkey);
	packets_put64(p, add ? operand(r, 0) : operand(r, masked ? 2 : 1));	/* swap, or add */
	packets_put64(p, add ? 0 : operand(r, 0));				/* compare */
}

static void put_extended(struct packets *p, const struct packet *k)
{
	const struct shca_trace_record *r = k->r;
	uint8_t op = k->op & 0x1f;
	uint64_t was = 0;

	if (k->op == OP_MASKED_CAS || k->op == OP_MASKED_FAA) {
		put_atomic(p, r);
		return;
	}
	if (r->type == IBV_QPT_UD) {
		packets_put32(p, r->qkey);
		packets_put32(p, r->qpn);
	}
	if (r->type == IBV_QPT_XRC_SEND && (op < OP_READ_FIRST || op > OP_ATOMIC_ACK))
		packets_put32(p, r->srqn);
	switch (op) {
	case OP_WRITE_FIRST: case OP_WRITE_ONLY: case OP_WRITE_ONLY_IMM: case OP_READ_REQUEST: case OP_ATOMIC_WRITE:
		packets_put64(p, r->raddr);
		packets_put32(p, r->rkey);
		packets_put32(p, r->len);
		break;
	case OP_CAS: case OP_FAA:
		put_atomic(p, r);
		break;
	case OP_READ_FIRST: case OP_READ_LAST: case OP_READ_ONLY: case OP_ACK: case OP_ATOMIC_ACK:
		packets_put32(p, (uint32_t)k->syndrome << 24 | (k->msn & 0xffffff));
		break;
	}
	if (op == OP_ATOMIC_ACK) {
		memcpy(&was, r->data, r->kept < 8 ? r->kept : 8);
		packets_put64(p, was);
	}
	if (op == OP_SEND_LAST_IMM || op == OP_SEND_ONLY_IMM || op == OP_WRITE_LAST_IMM || op == OP_WRITE_ONLY_IMM)
		put_bytes(p, &r->imm, 4);	/* in network order already */
	else if (op == OP_SEND_LAST_INV || op == OP_SEND_ONLY_INV)
		packets_put32(p, r->imm);	/* the key, in host order */
}

/* The record's header: time in units of 2^-32 s, little-endian, as nothing else in it. */
static void put_erf(struct packets *p, uint8_t type, uint64_t ns, uint32_t length)
{
	uint64_t time = htole64((ns / 1000000000) << 32 | ((ns % 1000000000) << 32) / 1000000000);
	uint16_t record = htobe16((uint16_t)(ERF_BYTES + p->n)), wire = htobe16((uint16_t)length);

	memset(p->erf, 0, sizeof(p->erf));
	memcpy(p->erf, &time, 8);
	p->erf[8] = type;
	p->erf[9] = ERF_VARYING;
	memcpy(p->erf + 10, &record, 2);
	memcpy(p->erf + 14, &wire, 2);
}

static void write_packet(struct packets *p, const struct packet *k)
{
	const struct shca_trace_record *r = k->r;
	uint32_t pad = -k->len & 3, ext = extended_bytes(k->op), front = p->roce ? 62 : has_grh(r) ? 48 : 8;
	uint32_t length = front + 12 + ext + k->len + pad + 4;

	p->n = 0;
	if (p->roce)
		put_roce_front(p, k, length - 54);
	else
		put_ib_front(p, k, length / 4);
	put8(p, k->op);
	put8(p, (uint8_t)((k->solicited ? 0x80 : 0) | 0x40 | pad << 4));
	packets_put16(p, packets_port_of(p, k)->pkey);
	packets_put32(p, k->to == SHCA_MULTICAST ? SHCA_MULTICAST_QPN : k->to);
	packets_put32(p, (k->ack_wanted ? 1u << 31 : 0) | (k->psn & 0xffffff));
	put_extended(p, k);
	uint32_t have = k->offset < r->kept ? r->kept - k->offset : 0;
	if (have > k->len)
		have = k->len;
	if (have)
		put_bytes(p, r->data + k->offset, have);
	if (have == k->len) {
		put_bytes(p, "\0\0\0", pad);
		uint32_t icrc = htole32(icrc_of(p, front));
		put_bytes(p, &icrc, 4);
		if (!p->roce) {
			uint16_t vcrc = htole16(vcrc_of(p));
			put_bytes(p, &vcrc, 2);
		}
	}
	if (p->roce) {
		pcapng_packet(p->out, k->ns, p->bytes, p->n, length, k->comment);
		return;
	}
	put_erf(p, ERF_INFINIBAND, k->ns, length + 2);
	pcapng_packet(p->out, k->ns, p->erf, ERF_BYTES + p->n, ERF_BYTES + length + 2, k->comment);
}

/* A frame of a raw packet queue. ERF has two bytes in front of it, and its FCS behind it, if the record has the whole frame. */
static void write_frame(struct packets *p, const struct shca_trace_record *r, const char *comment)
{
	if (p->roce) {
		pcapng_packet(p->out, r->begin, r->data, r->kept, r->len, comment);
		return;
	}
	p->n = 0;
	packets_put16(p, 0);
	put_bytes(p, r->data, r->kept);
	if (r->kept == r->len) {
		uint32_t fcs = htole32(~crc32(p, 0xffffffff, r->data, r->kept));
		put_bytes(p, &fcs, 4);
	}
	put_erf(p, ERF_ETHERNET, r->begin, r->len + 4);
	pcapng_packet(p->out, r->begin, p->erf, ERF_BYTES + p->n, ERF_BYTES + 2 + r->len + 4, comment);
}

/* ---- a request ----------------------------------------------------------------------------------------------------- */

static struct flow *packets_flow_of(struct packets *p, uint32_t qpn)
{
	if (2 * p->flows >= p->mask) {
		uint32_t mask = 2 * p->mask + 1;
		struct flow *more = calloc(mask + 1ul, sizeof(*more));
		if (!more)
			return NULL;
		for (uint32_t i = 0; i <= p->mask && p->flows; i++) {
			uint32_t at = p->flow[i].qpn * 2654435761u;
			while (more[at & mask].qpn)
				at++;
			more[at & mask] = p->flow[i];
		}
		free(p->flow);
		p->flow = more;
		p->mask = mask;
	}
	uint32_t at = qpn * 2654435761u;
	while (p->flow[at & p->mask].qpn && p->flow[at & p->mask].qpn != qpn)
		at++;
	struct flow *f = &p->flow[at & p->mask];
	p->flows += !f->qpn;
	f->qpn = qpn;
	return f;
}

struct packets *packets_new(struct pcapng *out, const struct packets_port port[2], bool roce)
{
	struct packets *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->out = out;
	memcpy(p->port, port, sizeof(p->port));
	p->roce = roce;
	p->mask = 63;
	p->flow = calloc(p->mask + 1ul, sizeof(*p->flow));
	if (!p->flow) {
		free(p);
		return NULL;
	}
	make_tables(p);
	return p;
}

void packets_free(struct packets *p)
{
	free(p->flow);
	free(p);
}

static uint8_t class_of(const struct shca_trace_record *r)
{
	switch (r->type) {
	case IBV_QPT_UC: return CLASS_UC;
	case IBV_QPT_UD: return CLASS_UD;
	case IBV_QPT_XRC_SEND: return CLASS_XRC;
	}
	return CLASS_RC;	/* of DC, whose headers are the vendor's, the part in common with RC */
}

/* Opcode of packet i of n of a message that carries data to the responder. */
static uint8_t message_op(const struct shca_trace_record *r, uint64_t i, uint64_t n)
{
	bool first = i == 0, last = i + 1 == n;

	switch (r->op) {
	case SHCA_OP_ATOMIC_WRITE:
		return OP_ATOMIC_WRITE;
	case SHCA_OP_WRITE:
		return first ? last ? OP_WRITE_ONLY : OP_WRITE_FIRST : last ? OP_WRITE_LAST : OP_WRITE_MIDDLE;
	case SHCA_OP_WRITE_IMM:
		return first ? last ? OP_WRITE_ONLY_IMM : OP_WRITE_FIRST : last ? OP_WRITE_LAST_IMM : OP_WRITE_MIDDLE;
	}
	if (!last)
		return first ? OP_SEND_FIRST : OP_SEND_MIDDLE;
	switch (r->op) {
	case SHCA_OP_SEND_IMM:
		return first ? OP_SEND_ONLY_IMM : OP_SEND_LAST_IMM;
	case SHCA_OP_SEND_INV:
		return first ? OP_SEND_ONLY_INV : OP_SEND_LAST_INV;
	}
	return first ? OP_SEND_ONLY : OP_SEND_LAST;
}

/* The syndrome of the responder's answer; -1: no answer. */
static int syndrome_of(const struct shca_trace_record *r)
{
	if (r->type == IBV_QPT_UC || r->type == IBV_QPT_UD)
		return -1;
	switch (r->outcome) {
	case IBV_WC_SUCCESS: return SYNDROME_ACK;
	case -1: return SYNDROME_RNR | (r->rnr_timer & 31);	/* SHCA_RNR */
	case IBV_WC_REM_INV_REQ_ERR: return SYNDROME_NAK | NAK_INVALID_REQUEST;
	case IBV_WC_REM_ACCESS_ERR: return SYNDROME_NAK | NAK_REMOTE_ACCESS;
	case IBV_WC_REM_OP_ERR: return SYNDROME_NAK | NAK_REMOTE_OPERATION;
	}
	return -1;
}

/* Returns true if the requester's own error kept the request from the wire. */
static bool never_sent(const struct shca_trace_record *r)
{
	return r->outcome == IBV_WC_LOC_PROT_ERR || r->outcome == IBV_WC_LOC_LEN_ERR || r->outcome == IBV_WC_LOC_QP_OP_ERR ||
	       r->op == SHCA_OP_NOP;
}

static uint64_t packets_of(const struct shca_trace_record *r)
{
	uint32_t mtu = r->mtu >= 256 && r->mtu <= 4096 ? r->mtu : 4096;

	return r->len ? (r->len + (uint64_t)mtu - 1) / mtu : 1;
}

/* Packet i of n with its part of the message. */
static void part(struct packet *k, uint64_t i, uint64_t n)
{
	uint32_t mtu = k->r->mtu >= 256 && k->r->mtu <= 4096 ? k->r->mtu : 4096;

	k->offset = (uint32_t)(i * mtu);
	k->len = i + 1 == n ? k->r->len - k->offset : mtu;
}

/* The answer to a READ or an atomic; that to an ATOMIC_WRITE is a READ response without data. */
static uint64_t write_response(struct packets *p, const struct packet *request, struct packet k, uint64_t most)
{
	const struct shca_trace_record *r = k.r;
	uint8_t class = class_of(r);

	if (r->op == SHCA_OP_ATOMIC_WRITE) {
		k.op = class | OP_READ_ONLY;
		write_packet(p, &k);
		return 1;
	}
	if (r->op != SHCA_OP_READ) {
		k.op = class | OP_ATOMIC_ACK;
		write_packet(p, &k);
		return 1;
	}
	uint64_t n = packets_of(r), i;
	for (i = 0; i < n && i < most; i++) {
		k.op = class | (n == 1 ? OP_READ_ONLY : i == 0 ? OP_READ_FIRST : i + 1 == n ? OP_READ_LAST : OP_READ_MIDDLE);
		k.psn = request->psn + (uint32_t)i;
		part(&k, i, n);
		write_packet(p, &k);
	}
	return i;
}

uint64_t packets_write(struct packets *p, const struct shca_trace_record *r, const char *text, uint64_t most)
{
	struct flow *f = packets_flow_of(p, r->qpn);
	uint8_t class = class_of(r);
	bool answered = r->op >= SHCA_OP_READ && r->op <= SHCA_OP_MASKED_FAA;
	uint64_t n = answered ? 1 : packets_of(r), written = 0;
	struct packet k = {.r = r, .from = r->qpn, .to = r->dqpn, .ns = r->begin, .comment = text};

	if (!f || !most || never_sent(r))
		return 0;
	if (r->type == IBV_QPT_RAW_PACKET) {
		for (; written < most && written < (r->fate == SHCA_FATE_DUP ? 2 : 1); written++)
			write_frame(p, r, written ? NULL : text);
		return written;
	}
	/* a message that is sent twice has the same numbers */
	for (int copies = r->fate == SHCA_FATE_DUP ? 2 : 1; copies; copies--)
		for (uint64_t i = 0; i < n && written < most; i++, written++) {
			bool last = i + 1 == n;
			k.op = class | message_op(r, i, n);
			if (answered)
				k.op = r->op == SHCA_OP_READ ? class | OP_READ_REQUEST : r->op == SHCA_OP_CAS ? class | OP_CAS :
				       r->op == SHCA_OP_FAA ? class | OP_FAA :
				       r->op == SHCA_OP_MASKED_CAS ? OP_MASKED_CAS : OP_MASKED_FAA;
			else
				part(&k, i, n);
			k.psn = f->psn + (uint32_t)i;
			k.ack_wanted = last && class != CLASS_UC && class != CLASS_UD;
			k.solicited = last && r->flags & SHCA_WQE_SOLICITED;
			write_packet(p, &k);
			k.comment = NULL;
		}
	int syndrome = syndrome_of(r);
	bool done = syndrome == SYNDROME_ACK || class == CLASS_UC || class == CLASS_UD;
	struct packet request = k;
	request.psn = f->psn;
	if (syndrome >= 0 && written < most) {
		f->msn += done;
		k = (struct packet){.r = r, .answer = true, .from = r->dqpn, .to = r->qpn, .op = class | OP_ACK,
				    .psn = f->psn + (uint32_t)n - 1, .syndrome = (uint8_t)syndrome, .msn = f->msn, .ns = r->end};
		if ((answered || r->op == SHCA_OP_ATOMIC_WRITE) && done)
			written += write_response(p, &request, k, most - written);
		else {
			write_packet(p, &k);
			written++;
		}
	}
	/* a request without an answer is sent again with the same numbers */
	if (done)
		f->psn += (uint32_t)(r->op == SHCA_OP_READ ? packets_of(r) : n);
	return written;
}
