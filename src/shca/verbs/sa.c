/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small subnet administrator: the path records of the fabric, from its own tables. The ports are on one subnet, and every
 * process is behind each; so there is one path from a port to a port. Programs ask by shca_path_record (shca.h), or by
 * management datagrams (src/umad).
 */
#include <endian.h>
#include <errno.h>

#include "shca/verbs/control.h"

#define EXACTLY 2u		/* a selector, in the upper two bits of its byte */
#define RATE_100_GBPS 16u	/* as the port's rate file says (files.c) */
#define MTU_4096 5u

/* IBTA 15.2.5.16 */
struct path_record {
	uint64_t service_id;
	uint8_t dgid[16], sgid[16];
	uint16_t dlid, slid;
	uint32_t flow_hops;	/* raw traffic:1, reserved:3, flow label:20, hop limit:8 */
	uint8_t traffic_class;
	uint8_t paths;		/* reversible:1, number of paths:7 */
	uint16_t pkey;
	uint16_t qos_sl;	/* QoS class:12, service level:4 */
	uint8_t mtu, rate, life_time;	/* selector:2, value:6 */
	uint8_t preference;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct path_record) == 64, "PathRecord");

void shca_path_record_fill(uint8_t record[64], const uint8_t dgid[16], const uint8_t sgid[16], uint16_t dlid, uint16_t slid,
			   uint16_t pkey)
{
	struct path_record r = {
		.dlid = htobe16(dlid), .slid = htobe16(slid), .paths = 1u << 7 | 1, .pkey = htobe16(pkey),
		.mtu = EXACTLY << 6 | MTU_4096, .rate = EXACTLY << 6 | RATE_100_GBPS, .life_time = EXACTLY << 6,
	};

	memcpy(r.dgid, dgid, sizeof(r.dgid));
	memcpy(r.sgid, sgid, sizeof(r.sgid));
	memcpy(record, &r, sizeof(r));
}

struct question {
	uint8_t port;
	const uint8_t *dgid;
	uint8_t record[64];
	int err;
};

static uint64_t half_of(const uint8_t *gid)
{
	uint64_t be;

	memcpy(&be, gid, sizeof(be));
	return be64toh(be);
}

/* Answers a struct question from the tables of a member's fabric. */
static void path_record_answer(const struct shca_member *m, void *arg)
{
	struct question *q = arg;
	uint32_t to = shca_port_of_gid(m, q->dgid);
	const uint8_t *dgid = q->dgid;
	uint8_t sgid[16];

	shca_gid_of(m, q->port, sgid);
	shca_path_record_fill(q->record, q->dgid, sgid, (uint16_t)shca_lid(m, to), (uint16_t)shca_lid(m, q->port),
			      (uint16_t)atomic_load(&shca_port_of(m, q->port)->pkey));
	if (q->port < 1 || q->port > shca_ports())
		q->err = shca_refuse(EINVAL, "shca_path_record: port %u: the device has %u, numbered from 1 (SHCA_PORTS)",
				     q->port, shca_ports());
	else if (atomic_load(&shca_port_of(m, q->port)->down) || shca_device_broken(m))
		q->err = shca_refuse(ENETDOWN, "shca_path_record: port %u: %s", q->port,
				     shca_device_broken(m) ? "the device has failed (IBV_EVENT_DEVICE_FATAL)" :
							     "the port is down (shcactl inject port-up)");
	else if (!to)
		q->err = shca_refuse(ENOENT,
				     "shca_path_record: GID %016lx:%016lx is no port's of this fabric: the peer is in another "
				     "fabric (SHCA_FABRIC), or the GID an old one (shcactl inject gid-change)",
				     (unsigned long)half_of(dgid), (unsigned long)half_of(dgid + 8));
}

int shca_sa_path_record(struct ibv_context *ctx, uint8_t port, const uint8_t dgid[16], uint8_t record[64])
{
	struct question q = {.port = port, .dgid = dgid};

	if (ctx)
		path_record_answer(shca_context_of(ctx)->m, &q);
	else if (!shca_process_member(path_record_answer, &q))
		q.err = shca_refuse(ENODEV, "shca_path_record without a context: this process has no device open "
				    "(ibv_open_device)");
	if (!q.err)
		memcpy(record, q.record, sizeof(q.record));
	return q.err;
}
