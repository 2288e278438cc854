/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of the management datagrams:
 *
 *     file.c      descriptors, agents, requests under way, datagrams to be read
 *     answer.c    the agent that a datagram is addressed to
 *     smp.c       subnet management: a port's SMA, and the subnet manager's SMInfo
 *     perf.c      performance management
 *     sa.c        subnet administration: tables and components     record.c  the records
 *     subnet.c    a snapshot of the fabric's ports and multicast groups
 *
 * A request is answered by the write() that sends it, in the process that asks: the agents have no state. A request that no agent
 * answers comes back with ETIMEDOUT when its time is over.
 *
 * The subnet: one channel adapter, whose ports are linked to each other, or the only one to itself; no switch. The subnet manager
 * and the administrator have the port's SM LID.
 */
#ifndef UMAD_INTERNAL_H
#define UMAD_INTERNAL_H

#include <endian.h>
#include <linux/types.h>
#include <rdma/ib_user_mad.h>
#include <string.h>

#include "shca/verbs/control.h"
#include "umad/umad.h"

/* Of a MAD: IBTA 13.4.2 */
#define UM_MAD_BYTES 256u
#define UM_HEADER_BYTES 24u
enum { UM_BASE_VERSION, UM_CLASS, UM_CLASS_VERSION, UM_METHOD, UM_STATUS, UM_HOP_POINTER = 6, UM_HOP_COUNT, UM_TID,
       UM_ATTRIBUTE = 16, UM_MODIFIER = 20 };		/* offsets */
enum { UM_SUBN_LID = 0x01, UM_SUBN_ADM = 0x03, UM_PERFORMANCE = 0x04, UM_SUBN_DIRECTED = 0x81 };	/* classes */
enum { UM_GET = 0x01, UM_SET = 0x02, UM_GET_TABLE = 0x12, UM_DELETE = 0x15, UM_GET_RESP = 0x81, UM_RESPONSE = 0x80 };
/* statuses */
enum { UM_OK = 0, UM_BAD_VERSION = 0x04, UM_BAD_METHOD = 0x08, UM_BAD_COMBINATION = 0x0c, UM_BAD_VALUE = 0x1c };
#define UM_SMP_DATA 64u			/* offset of the attribute; of performance management, too */
#define UM_SA_DATA 56u
#define UM_CLASS_PORT_INFO 0x01u
#define UM_QP1_QKEY 0x80010000u

/* Rates and sizes of every port, as its sysfs files and ibv_query_port have them. */
#define UM_RATE_100_GBPS 16u
#define UM_MTU_4096 5u
#define UM_CAP_IS_SM 0x2u
#define UM_CAP_EXTENDED_SPEEDS 0x4000u

struct um_port {
	bool down;
	uint16_t lid, sm_lid, pkey;
	uint8_t gid[16];
};
struct um_subnet {
	uint32_t ports;			/* 1 or 2 */
	struct um_port port[2];		/* port 1 is the first */
	bool ethernet;			/* no subnet manager, no SMPs, no LIDs */
	bool broken;			/* the device has failed */
};
struct um_group {
	uint8_t gid[16];
	uint32_t queues;		/* attached to it */
};

/* ---- subnet.c --------------------------------------------------------------------------------------------------- */

/* The ports of the fabric that this process has joined, or would join; without one, as a new fabric has them. */
void um_subnet_look(struct um_subnet *s);
/* Returns the groups that queues are attached to, in *n; NULL: none, or no memory. The caller frees the array. */
struct um_group *um_groups_look(size_t *n);
/* The port that has the LID or GID; 0: none. */
uint32_t um_port_of_lid(const struct um_subnet *s, uint16_t lid);
uint32_t um_port_of_gid(const struct um_subnet *s, const uint8_t gid[16]);
/* The port at the other end of the link. */
static inline uint32_t um_peer_of(const struct um_subnet *s, uint32_t port)
{
	return s->ports == 2 ? 3 - port : port;
}
static inline const struct um_port *um_port_at(const struct um_subnet *s, uint32_t port)
{
	return &s->port[port - 1];
}

/* ---- answer.c --------------------------------------------------------------------------------------------------- */

/* An answer: a MAD of UM_MAD_BYTES, or the segments of one put together (RMPP): `bytes` from the first segment's header on. */
struct um_answer {
	uint8_t *mad;			/* malloc */
	size_t bytes;
	uint16_t lid;			/* of the port that answers */
};
struct um_question {
	const struct um_subnet *subnet;
	uint32_t from;			/* the port that sends */
	uint32_t at;			/* the port that the datagram has come to */
	const uint8_t *mad;		/* UM_MAD_BYTES */
};
/* Answers a datagram that a port sends. Returns false: no agent answers. */
bool um_ask(const struct um_subnet *s, uint32_t port, const struct ib_user_mad_hdr *to, const uint8_t mad[UM_MAD_BYTES],
	    struct um_answer *out);

/* ---- smp.c, perf.c, sa.c, record.c ------------------------------------------------------------------------------ */

/* Each writes the attribute to data[64], which is zeroed, or of performance management to data[192], and
 * returns the MAD's status. */
uint16_t um_smp_get(const struct um_question *q, uint8_t *data);
uint16_t um_perf_get(const struct um_question *q, uint8_t *data);
/* Attributes that the records of the administrator have, too. */
void um_node_info(const struct um_subnet *s, uint32_t port, uint8_t data[40]);
void um_node_description(uint8_t data[64]);
void um_port_info(const struct um_subnet *s, uint32_t port, uint8_t data[64]);
void um_sm_info(uint8_t data[24]);
/* Answers a datagram of the administrator. Returns false without memory. */
bool um_sa_answer(const struct um_question *q, struct um_answer *out);

/* A table of records. */
struct um_table {
	uint8_t *data;			/* malloc */
	size_t n, stride;		/* stride: a multiple of 8 */
};
/* A component of a record, as bits of the component mask number them: big-endian bits. width 0: matches every record. */
struct um_component {
	uint16_t bit, width;
};
struct um_record {
	uint16_t attribute, bytes;
	const struct um_component *components;
	unsigned n_components;
	/* Appends every record of the subnet. Returns false without memory. */
	bool (*list)(const struct um_subnet *s, struct um_table *t);
	/* Returns true if the components without a width match, of mask `mask`; NULL: they do. */
	bool (*matches)(const uint8_t *record, const uint8_t *asked, uint64_t mask, uint32_t modifier);
};
/* Returns the sort of records; NULL: not served. */
const struct um_record *um_record_find(uint16_t attribute);
#define UM_MCMEMBER 0x38u
#define UM_MCMEMBER_BYTES 52u
void um_mcmember_fill(uint8_t record[UM_MCMEMBER_BYTES], const uint8_t gid[16], uint16_t pkey);

/* ---- numbers in datagrams --------------------------------------------------------------------------------------- */

static inline uint16_t um_16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}
static inline uint32_t um_32(const uint8_t *at)
{
	return (uint32_t)um_16(at) << 16 | um_16(at + 2);
}
static inline uint64_t um_64(const uint8_t *at)
{
	return (uint64_t)um_32(at) << 32 | um_32(at + 4);
}
static inline void um_put16(uint8_t *at, uint64_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}
static inline void um_put32(uint8_t *at, uint64_t v)
{
	um_put16(at, v >> 16);
	um_put16(at + 2, v);
}
static inline void um_put64(uint8_t *at, uint64_t v)
{
	um_put32(at, v >> 32);
	um_put32(at + 4, v);
}

#endif
