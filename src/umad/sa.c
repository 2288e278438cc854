/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The subnet administrator, IBTA 15: Get and GetTable of the records of record.c by their components, and multicast groups joined
 * and left by Set and Delete of an MCMemberRecord. A join makes nothing: queues that are attached to the group are its members.
 */
#include <stdlib.h>
#include <sys/random.h>

#include "umad/internal.h"

enum { RMPP_VERSION = 24, RMPP_TYPE, RMPP_FLAGS, RMPP_STATUS, RMPP_SEGMENT, RMPP_PAYLOAD = 32, ATTRIBUTE_OFFSET = 44,
       COMPONENT_MASK = 48 };
#define RMPP_DATA 1u
#define RMPP_ACTIVE_FIRST 3u
#define RMPP_LAST 4u
#define SA_HEADER 20u		/* counts as payload of each segment */
#define SEGMENT (UM_MAD_BYTES - UM_SA_DATA)
enum { GET_TABLE_RESP = 0x92, DELETE_RESP = 0x95 };
enum { REQ_INVALID = 0x0200, NO_RECORDS = 0x0300, TOO_MANY = 0x0400, INSUFFICIENT = 0x0600 };
#define PATHS 0x35u
#define NUMB_PATH (1u << 12)	/* component of a PathRecord */

/* Returns true if `width` bits from `bit` on are the same. */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bit, unsigned width)
{
	for (unsigned i = bit; i < bit + width; i++)
		if ((a[i / 8] ^ b[i / 8]) >> (7 - i % 8) & 1)
			return false;
	return true;
}

static bool matches(const struct um_record *kind, const uint8_t *record, const uint8_t *asked, uint64_t mask, uint32_t modifier)
{
	for (unsigned i = 0; i < kind->n_components; i++)
		if (mask >> i & 1 && !same_bits(record, asked, kind->components[i].bit, kind->components[i].width))
			return false;
	return !kind->matches || kind->matches(record, asked, mask, modifier);
}

/* Lists the records that match into t. Returns the status, or -1 without memory. */
static int sa_list_matches(const struct um_question *q, const struct um_record *kind, struct um_table *t)
{
	uint64_t mask = um_64(q->mad + COMPONENT_MASK);
	const uint8_t *asked = q->mad + UM_SA_DATA;
	size_t n = 0, most = SIZE_MAX;

	t->stride = (kind->bytes + 7u) / 8 * 8;
	if (kind->n_components < 64 && mask >> kind->n_components)
		return REQ_INVALID;
	if (!kind->list(q->subnet, t))
		return -1;
	if (kind->attribute == PATHS && mask & NUMB_PATH)
		most = asked[49] & 127;
	for (size_t i = 0; i < t->n; i++) {
		uint8_t *r = t->data + i * t->stride;
		if (n < most && matches(kind, r, asked, mask, um_32(q->mad + UM_MODIFIER)))
			memmove(t->data + n++ * t->stride, r, t->stride);
	}
	t->n = n;
	return UM_OK;
}

/* Stores a table as the answer. Returns false without memory. */
static bool answer_table(struct um_answer *out, const struct um_table *t)
{
	size_t bytes = t->n * t->stride, segments = bytes ? (bytes + SEGMENT - 1) / SEGMENT : 1;
	uint8_t *mad = realloc(out->mad, UM_SA_DATA + (segments * SEGMENT > bytes ? segments * SEGMENT : bytes));

	if (!mad)
		return false;
	out->mad = mad;
	out->bytes = UM_SA_DATA + bytes;
	memset(mad + UM_SA_DATA, 0, segments * SEGMENT);
	if (bytes)
		memcpy(mad + UM_SA_DATA, t->data, bytes);
	mad[UM_METHOD] = GET_TABLE_RESP;
	mad[RMPP_VERSION] = 1;
	mad[RMPP_TYPE] = RMPP_DATA;
	mad[RMPP_FLAGS] = RMPP_ACTIVE_FIRST | (segments == 1 ? RMPP_LAST : 0);
	um_put32(mad + RMPP_SEGMENT, 1);
	um_put32(mad + RMPP_PAYLOAD, bytes + segments * SA_HEADER);
	um_put16(mad + ATTRIBUTE_OFFSET, t->stride / 8);
	return true;
}

/* Returns the status, or -1 without memory. */
static int sa_get(const struct um_question *q, struct um_answer *out, bool table)
{
	const struct um_record *kind = um_record_find(um_16(q->mad + UM_ATTRIBUTE));
	struct um_table t = {0};

	if (!kind)
		return UM_BAD_COMBINATION;
	int status = sa_list_matches(q, kind, &t);
	if (!status && table)
		status = answer_table(out, &t) ? UM_OK : -1;
	else if (!status && t.n != 1)
		status = t.n ? TOO_MANY : NO_RECORDS;
	else if (!status)
		memcpy(out->mad + UM_SA_DATA, t.data, t.stride);
	if (!status)
		um_put16(out->mad + ATTRIBUTE_OFFSET, t.stride / 8);
	free(t.data);
	return status;
}

/* Set and Delete of an MCMemberRecord: IBTA 15.2.5.17. */
static int join_or_leave(const struct um_question *q, struct um_answer *out, bool join)
{
	enum { MGID = 1 << 0, PORT_GID = 1 << 1, QKEY = 1 << 2, SL = 1 << 12, JOIN_STATE = 1 << 16 };
	static const uint8_t none[16];
	const uint8_t *asked = q->mad + UM_SA_DATA;
	uint64_t mask = um_64(q->mad + COMPONENT_MASK);
	uint8_t r[UM_MCMEMBER_BYTES] = "", gid[16] = {0xff, 0x12, 0xa0, 0x1b};
	uint32_t port = um_port_of_gid(q->subnet, asked + 16);
	bool named = mask & MGID && memcmp(asked, none, sizeof(none));

	if (!(mask & PORT_GID) || !(mask & JOIN_STATE) || (!named && !join))
		return INSUFFICIENT;
	if (!port || !(asked[48] & 15) || (named && asked[0] != 0xff))
		return REQ_INVALID;
	if (named)
		memcpy(gid, asked, sizeof(gid));
	else if (getrandom(gid + 8, 8, GRND_NONBLOCK) != 8)
		um_put64(gid + 8, monotonic_ns());
	um_mcmember_fill(r, gid, um_port_at(q->subnet, port)->pkey);
	memcpy(r + 16, asked + 16, 16);
	if (mask & QKEY)
		memcpy(r + 32, asked + 32, 4);
	r[39] = asked[39];		/* traffic class */
	if (mask & SL)
		memcpy(r + 44, asked + 44, 4);
	r[48] = (uint8_t)((r[48] & 0xf0) | (asked[48] & 15));
	memcpy(out->mad + UM_SA_DATA, r, sizeof(r));
	um_put16(out->mad + ATTRIBUTE_OFFSET, (UM_MCMEMBER_BYTES + 7) / 8);
	if (!join)
		out->mad[UM_METHOD] = DELETE_RESP;
	return UM_OK;
}

static void sa_class_port_info(uint8_t *data)
{
	data[0] = 1;
	data[1] = 2;
	data[7] = 16;		/* RespTimeValue: 268 ms */
}

/* Returns the status, or -1 without memory. */
static int sa_answer(const struct um_question *q, struct um_answer *out)
{
	uint16_t attribute = um_16(q->mad + UM_ATTRIBUTE);

	if (q->mad[UM_BASE_VERSION] != 1 || q->mad[UM_CLASS_VERSION] != 2)
		return UM_BAD_VERSION;
	switch (q->mad[UM_METHOD]) {
	case UM_GET:
		if (attribute != UM_CLASS_PORT_INFO)
			return sa_get(q, out, false);
		memset(out->mad + UM_SA_DATA, 0, SEGMENT);
		sa_class_port_info(out->mad + UM_SA_DATA);
		return UM_OK;
	case UM_GET_TABLE:
		return sa_get(q, out, true);
	case UM_SET:
	case UM_DELETE:
		return attribute == UM_MCMEMBER ? join_or_leave(q, out, q->mad[UM_METHOD] == UM_SET) : UM_BAD_COMBINATION;
	default:
		return UM_BAD_METHOD;
	}
}

bool um_sa_answer(const struct um_question *q, struct um_answer *out)
{
	/* the request's is 0 mostly; of an answer that is one MAD */
	memset(out->mad + RMPP_VERSION, 0, 12);
	out->mad[UM_METHOD] = q->mad[UM_METHOD] == UM_SET ? UM_GET_RESP : (uint8_t)(q->mad[UM_METHOD] | UM_RESPONSE);
	int status = sa_answer(q, out);
	if (status < 0) {
		free(out->mad);
		out->mad = NULL;
		return false;
	}
	um_put16(out->mad + UM_STATUS, (uint64_t)status);
	return true;
}
