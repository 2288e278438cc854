/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair state machine: which attributes each transition needs and allows (IBTA 10.3.1, table 94). */
#include <errno.h>

#include "shca/verbs/control.h"

enum kind { K_RC, K_UC, K_UD, K_RAW, K_XRC_SEND, K_XRC_RECV, K_DCI, K_DCT, K_N };

static const char *const state_names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

#define PKEY IBV_QP_PKEY_INDEX
#define PORT IBV_QP_PORT
#define ACCESS IBV_QP_ACCESS_FLAGS
#define QKEY IBV_QP_QKEY
#define AV IBV_QP_AV
#define MTU IBV_QP_PATH_MTU
#define DEST IBV_QP_DEST_QPN
#define RQ_PSN IBV_QP_RQ_PSN
#define SQ_PSN IBV_QP_SQ_PSN
#define DEST_RD IBV_QP_MAX_DEST_RD_ATOMIC
#define RD IBV_QP_MAX_QP_RD_ATOMIC
#define RNR IBV_QP_MIN_RNR_TIMER
#define TIMEOUT IBV_QP_TIMEOUT
#define RETRY IBV_QP_RETRY_CNT
#define RNR_RETRY IBV_QP_RNR_RETRY
#define CUR IBV_QP_CUR_STATE
#define ALT IBV_QP_ALT_PATH
#define MIG IBV_QP_PATH_MIG_STATE
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY

struct rule {
	enum ibv_qp_state from, to;
	struct { int need, may; } k[K_N];
};
/* Besides these, every state may go to RESET and to ERR with no attribute. */
static const struct rule rules[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, {
		[K_RC] = { PKEY | PORT | ACCESS, 0 },
		[K_UC] = { PKEY | PORT | ACCESS, 0 },
		[K_UD] = { PKEY | PORT | QKEY, 0 },
		[K_RAW] = { PORT, 0 },
		[K_XRC_SEND] = { PKEY | PORT | ACCESS, 0 },
		[K_XRC_RECV] = { PKEY | PORT | ACCESS, 0 },
		[K_DCI] = { PKEY | PORT, ACCESS },
		[K_DCT] = { PKEY | PORT | ACCESS, 0 } } },
	{ IBV_QPS_INIT, IBV_QPS_INIT, {
		[K_RC] = { 0, PKEY | PORT | ACCESS },
		[K_UC] = { 0, PKEY | PORT | ACCESS },
		[K_UD] = { 0, PKEY | PORT | QKEY },
		[K_RAW] = { 0, PORT },
		[K_XRC_SEND] = { 0, PKEY | PORT | ACCESS },
		[K_XRC_RECV] = { 0, PKEY | PORT | ACCESS },
		[K_DCI] = { 0, PKEY | PORT | ACCESS },
		[K_DCT] = { 0, PKEY | PORT | ACCESS } } },
	{ IBV_QPS_INIT, IBV_QPS_RTR, {
		[K_RC] = { AV | MTU | DEST | RQ_PSN | DEST_RD | RNR, ALT | ACCESS | PKEY },
		[K_UC] = { AV | MTU | DEST | RQ_PSN, ALT | ACCESS | PKEY },
		[K_UD] = { 0, PKEY | QKEY },
		[K_RAW] = { 0, 0 },
		[K_XRC_SEND] = { AV | MTU | DEST | RQ_PSN, ALT | ACCESS | PKEY },
		[K_XRC_RECV] = { AV | MTU | DEST | RQ_PSN | DEST_RD | RNR, ALT | ACCESS | PKEY },
		[K_DCI] = { MTU, PKEY | AV },
		[K_DCT] = { MTU | AV | RNR, PKEY | ACCESS } } },
	{ IBV_QPS_RTR, IBV_QPS_RTS, {
		[K_RC] = { TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD, CUR | ALT | ACCESS | RNR | MIG },
		[K_UC] = { SQ_PSN, CUR | ALT | ACCESS | MIG },
		[K_UD] = { SQ_PSN, CUR | QKEY },
		[K_RAW] = { 0, CUR },
		[K_XRC_SEND] = { TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD, CUR | ALT | ACCESS | MIG },
		[K_XRC_RECV] = { TIMEOUT | SQ_PSN, CUR | ALT | ACCESS | RNR | MIG },
		[K_DCI] = { TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD, CUR | RNR },
		[K_DCT] = { -1, 0 } } },
	{ IBV_QPS_RTS, IBV_QPS_RTS, {
		[K_RC] = { 0, CUR | ACCESS | ALT | MIG | RNR },
		[K_UC] = { 0, CUR | ACCESS | ALT | MIG },
		[K_UD] = { 0, CUR | QKEY },
		[K_RAW] = { 0, CUR },
		[K_XRC_SEND] = { 0, CUR | ACCESS | ALT | MIG },
		[K_XRC_RECV] = { 0, CUR | ACCESS | ALT | MIG | RNR },
		[K_DCI] = { 0, CUR | RNR },
		[K_DCT] = { -1, 0 } } },
	{ IBV_QPS_RTS, IBV_QPS_SQD, {
		[K_RC] = { 0, CUR | NOTIFY },
		[K_UC] = { 0, CUR | NOTIFY },
		[K_UD] = { 0, CUR | NOTIFY },
		[K_RAW] = { 0, CUR | NOTIFY },
		[K_XRC_SEND] = { 0, CUR | NOTIFY },
		[K_XRC_RECV] = { 0, CUR | NOTIFY },
		[K_DCI] = { -1, 0 },
		[K_DCT] = { -1, 0 } } },
	{ IBV_QPS_SQD, IBV_QPS_SQD, {
		[K_RC] = { 0, PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD | DEST_RD | ALT | ACCESS | PKEY | RNR |
				MIG },
		[K_UC] = { 0, AV | ALT | ACCESS | PKEY | MIG },
		[K_UD] = { 0, PKEY | QKEY },
		[K_RAW] = { 0, 0 },
		[K_XRC_SEND] = { 0, PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD | ALT | ACCESS | PKEY | MIG },
		[K_XRC_RECV] = { 0, PORT | AV | TIMEOUT | DEST_RD | ALT | ACCESS | PKEY | RNR | MIG },
		[K_DCI] = { -1, 0 },
		[K_DCT] = { -1, 0 } } },
	{ IBV_QPS_SQD, IBV_QPS_RTS, {
		[K_RC] = { 0, CUR | ALT | ACCESS | RNR | MIG },
		[K_UC] = { 0, CUR | ALT | ACCESS | MIG },
		[K_UD] = { 0, CUR | QKEY },
		[K_RAW] = { 0, CUR },
		[K_XRC_SEND] = { 0, CUR | ALT | ACCESS | MIG },
		[K_XRC_RECV] = { 0, CUR | ALT | ACCESS | RNR | MIG },
		[K_DCI] = { -1, 0 },
		[K_DCT] = { -1, 0 } } },
	{ IBV_QPS_SQE, IBV_QPS_RTS, {
		[K_RC] = { -1, 0 },
		[K_UC] = { 0, CUR | ACCESS },
		[K_UD] = { 0, CUR | QKEY },
		[K_RAW] = { 0, CUR },
		[K_XRC_SEND] = { -1, 0 },
		[K_XRC_RECV] = { -1, 0 },
		[K_DCI] = { -1, 0 },
		[K_DCT] = { -1, 0 } } },
};

static int qpstate_kind_of(uint8_t type)
{
	switch (type) {
	case IBV_QPT_RC: return K_RC;
	case IBV_QPT_UC: return K_UC;
	case IBV_QPT_UD: return K_UD;
	case IBV_QPT_RAW_PACKET: return K_RAW;
	case IBV_QPT_XRC_SEND: return K_XRC_SEND;
	case IBV_QPT_XRC_RECV: return K_XRC_RECV;
	case SHCA_QPT_DCI: return K_DCI;
	case SHCA_QPT_DCT: return K_DCT;
	default: return -1;
	}
}

static const char *qpstate_name_of(enum ibv_qp_state s)
{
	return s <= IBV_QPS_ERR ? state_names[s] : "?";
}

int shca_qp_transition(uint8_t type, enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	int k = qpstate_kind_of(type), given = mask & ~IBV_QP_STATE;

	if (mask & IBV_QP_RATE_LIMIT)
		return shca_refuse(EOPNOTSUPP, "modify_qp: IBV_QP_RATE_LIMIT: there is no packet pacing");
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
		if (to == IBV_QPS_ERR && from == IBV_QPS_RESET)
			return shca_refuse(EINVAL, "modify_qp: RESET to ERR");
		if (given & ~CUR)
			return shca_refuse(EINVAL, "modify_qp: %s to %s takes no attributes, mask %#x", qpstate_name_of(from),
					   qpstate_name_of(to), mask);
		return 0;
	}
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		if (rules[i].from != from || rules[i].to != to || k < 0 || rules[i].k[k].need < 0)
			continue;
		int missing = rules[i].k[k].need & ~given;
		int extra = given & ~(rules[i].k[k].need | rules[i].k[k].may);
		if (missing || extra)
			return shca_refuse(EINVAL,
					"modify_qp: %s to %s, type %u: attributes missing %#x, not allowed %#x",
					   qpstate_name_of(from), qpstate_name_of(to), type, missing, extra);
		return 0;
	}
	return shca_refuse(EINVAL, "modify_qp: no transition %s to %s for type %u", qpstate_name_of(from), qpstate_name_of(to),
			   type);
}
