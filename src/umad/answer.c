/* SPDX-License-Identifier: BSD-3-Clause */
/* The agent that a datagram is addressed to, and its answer. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "umad/internal.h"

#define PERMISSIVE_LID 0xffffu
#define DR_SLID 32u		/* offsets in a directed SMP: IBTA 14.2.1.2 */
#define DR_DLID 34u
#define DR_INITIAL_PATH 128u
#define DR_RETURN_PATH 192u
#define DR_RETURNING 0x8000u	/* the direction, in the status */

/* Returns the port at the end of a directed route, and the port by which the SMP gets there in *entry; 0: nowhere. An adapter
 * forwards no SMP, so that a route has one link at most. */
static uint32_t directed_route(const struct um_subnet *s, uint32_t port, const uint8_t *mad)
{
	uint32_t hops = mad[UM_HOP_COUNT], out = mad[DR_INITIAL_PATH + 1];

	/* a part of the way by LIDs */
	if (um_16(mad + DR_SLID) != PERMISSIVE_LID || um_16(mad + DR_DLID) != PERMISSIVE_LID)
		return 0;
	if (!hops)
		return port;
	if (hops > 1 || out < 1 || out > s->ports || um_port_at(s, out)->down || um_port_at(s, um_peer_of(s, out))->down)
		return 0;
	return um_peer_of(s, out);
}

/* The port that a datagram to QP 1, or a SMP routed by LIDs, comes to; 0: none. The subnet manager's LID may be no port's. */
static uint32_t routed(const struct um_subnet *s, uint32_t port, const struct ib_user_mad_hdr *to, bool *manager)
{
	uint16_t lid = ntohs(to->lid);
	uint32_t at;

	*manager = lid && lid == um_port_at(s, port)->sm_lid;
	if (um_port_at(s, port)->down)
		return 0;
	at = s->ethernet ? (to->grh_present ? um_port_of_gid(s, to->gid) : 0) : um_port_of_lid(s, lid);
	return at && um_port_at(s, at)->down ? 0 : at;
}

/* Returns true if a datagram of this class asks something. Responses, traps and their like get no answer. */
static bool is_request(const uint8_t *mad)
{
	switch (mad[UM_METHOD]) {
	case 0x03:	/* Send */
	case 0x05:	/* Trap */
	case 0x07:	/* TrapRepress */
		return false;
	default:
		return !(mad[UM_METHOD] & UM_RESPONSE);
	}
}

/* Begins an answer: the request, as GetResp with the status. */
static bool answer_begin(const struct um_question *q, struct um_answer *out)
{
	out->mad = malloc(UM_MAD_BYTES);
	out->bytes = UM_MAD_BYTES;
	if (!out->mad)
		return false;
	memcpy(out->mad, q->mad, UM_MAD_BYTES);
	out->mad[UM_METHOD] = UM_GET_RESP;
	return true;
}

/* Answers an attribute of subnet or performance management, which have the attribute at one place. */
static bool answer_attribute(const struct um_question *q, struct um_answer *out,
			     uint16_t (*get)(const struct um_question *, uint8_t *), size_t bytes)
{
	uint8_t data[UM_MAD_BYTES - UM_SMP_DATA] = "";
	uint16_t status;

	if (!answer_begin(q, out))
		return false;
	if (q->mad[UM_BASE_VERSION] != 1 || q->mad[UM_CLASS_VERSION] != 1)
		status = UM_BAD_VERSION;
	else if (q->mad[UM_METHOD] == UM_SET)
		status = UM_BAD_COMBINATION;
	else if (q->mad[UM_METHOD] != UM_GET)
		status = UM_BAD_METHOD;
	else
		status = get(q, data);
	if (!status)
		memcpy(out->mad + UM_SMP_DATA, data, bytes);
	um_put16(out->mad + UM_STATUS, status);
	return true;
}

static bool answer_directed(const struct um_question *q, struct um_answer *out)
{
	if (!answer_attribute(q, out, um_smp_get, 64))
		return false;
	um_put16(out->mad + UM_STATUS, um_16(out->mad + UM_STATUS) | DR_RETURNING);
	out->mad[UM_HOP_POINTER] = 0;
	if (q->mad[UM_HOP_COUNT])
		out->mad[DR_RETURN_PATH + 1] = (uint8_t)q->at;
	return true;
}

bool um_ask(const struct um_subnet *s, uint32_t port, const struct ib_user_mad_hdr *to, const uint8_t mad[UM_MAD_BYTES],
	    struct um_answer *out)
{
	struct um_question q = {.subnet = s, .from = port, .mad = mad};
	uint8_t class = mad[UM_CLASS];
	bool manager, smp = class == UM_SUBN_LID || class == UM_SUBN_DIRECTED;

	if (!is_request(mad) || ntohl(to->qpn) != (smp ? 0 : 1) || (!smp && ntohl(to->qkey) != UM_QP1_QKEY) ||
	    (smp && s->ethernet))
		return false;
	if (class == UM_SUBN_DIRECTED) {
		q.at = directed_route(s, port, mad);
		out->lid = PERMISSIVE_LID;
		return q.at && answer_directed(&q, out);
	}
	q.at = routed(s, port, to, &manager);
	out->lid = ntohs(to->lid);
	switch (class) {
	case UM_SUBN_LID:
		return (q.at || manager) && answer_attribute(&q, out, um_smp_get, 64);
	case UM_PERFORMANCE:
		return q.at && answer_attribute(&q, out, um_perf_get, UM_MAD_BYTES - UM_SMP_DATA);
	case UM_SUBN_ADM:
		return manager && !um_port_at(s, port)->down && answer_begin(&q, out) && um_sa_answer(&q, out);
	default:
		return false;
	}
}
