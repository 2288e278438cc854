/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of the subnet administrator, IBTA 15.2.5: their components, and all of them that the subnet has. A sort of records
 * is listed as a whole, and the administrator compares (sa.c): a subnet has a handful of each.
 */
#include <stdlib.h>

#include "umad/internal.h"

#define EXACTLY 2u		/* a selector */
enum { NODE = 0x11, PORT_INFO = 0x12, SM_INFO = 0x18, LINK = 0x20, GUID_INFO = 0x30, PKEY_TABLE = 0x33, PATH = 0x35 };

/* Appends a zeroed record. Returns it, or NULL without memory. */
static uint8_t *append(struct um_table *t)
{
	uint8_t *more = realloc(t->data, (t->n + 1) * t->stride);

	if (!more)
		return NULL;
	t->data = more;
	return memset(more + t->n++ * t->stride, 0, t->stride);
}

/* Appends a record for each port, which `fill` fills behind the LID. */
static bool each_port(const struct um_subnet *s, struct um_table *t, void (*fill)(const struct um_subnet *, uint32_t, uint8_t *))
{
	for (uint32_t port = 1; port <= s->ports; port++) {
		uint8_t *r = append(t);
		if (!r)
			return false;
		um_put16(r, um_port_at(s, port)->lid);
		fill(s, port, r);
	}
	return true;
}

static void node_fill(const struct um_subnet *s, uint32_t port, uint8_t *r)
{
	um_node_info(s, port, r + 4);
	um_node_description(r + 44);
}

static bool node_list(const struct um_subnet *s, struct um_table *t)
{
	return each_port(s, t, node_fill);
}

static void port_fill(const struct um_subnet *s, uint32_t port, uint8_t *r)
{
	r[2] = (uint8_t)port;
	um_port_info(s, port, r + 4);
}

static bool port_list(const struct um_subnet *s, struct um_table *t)
{
	return each_port(s, t, port_fill);
}

/* The capabilities are compared as a whole, or with the modifier's upper bit each that was asked for. */
static bool port_matches(const uint8_t *record, const uint8_t *asked, uint64_t mask, uint32_t modifier)
{
	uint32_t has = um_32(record + 24), wanted = um_32(asked + 24);

	return !(mask & 1u << 7) || (modifier >> 31 ? (has & wanted) == wanted : has == wanted);
}

static bool sm_list(const struct um_subnet *s, struct um_table *t)
{
	uint8_t *r = append(t);

	if (!r)
		return false;
	um_put16(r, um_port_at(s, 1)->sm_lid);
	um_sm_info(r + 4);
	return true;
}

static bool link_list(const struct um_subnet *s, struct um_table *t)
{
	for (uint32_t port = 1; port <= s->ports; port++) {
		uint32_t peer = um_peer_of(s, port);
		if (um_port_at(s, port)->down || um_port_at(s, peer)->down)
			continue;
		uint8_t *r = append(t);
		if (!r)
			return false;
		um_put16(r, um_port_at(s, port)->lid);
		r[2] = (uint8_t)port;
		r[3] = (uint8_t)peer;
		um_put16(r + 4, um_port_at(s, peer)->lid);
	}
	return true;
}

static void guid_fill(const struct um_subnet *s, uint32_t port, uint8_t *r)
{
	memcpy(r + 8, um_port_at(s, port)->gid + 8, 8);
}

static bool guid_list(const struct um_subnet *s, struct um_table *t)
{
	return each_port(s, t, guid_fill);
}

static void pkey_fill(const struct um_subnet *s, uint32_t port, uint8_t *r)
{
	r[4] = (uint8_t)port;
	um_put16(r + 8, um_port_at(s, port)->pkey);
}

static bool pkey_list(const struct um_subnet *s, struct um_table *t)
{
	return each_port(s, t, pkey_fill);
}

/* Returns true if a port may send to another one: IBTA 10.9.3, of two P_Keys. */
static bool reaches(const struct um_port *a, const struct um_port *b)
{
	uint32_t of_a = a->pkey, of_b = b->pkey;

	return !a->down && !b->down && (of_a & 0x7fff) && !((of_a ^ of_b) & 0x7fff) && ((of_a | of_b) & 0x8000);
}

static bool path_list(const struct um_subnet *s, struct um_table *t)
{
	for (uint32_t from = 1; from <= s->ports; from++)
		for (uint32_t to = 1; to <= s->ports; to++) {
			const struct um_port *a = um_port_at(s, from), *b = um_port_at(s, to);
			if (!reaches(a, b))
				continue;
			uint8_t *r = append(t);
			if (!r)
				return false;
			shca_path_record_fill(r, b->gid, a->gid, b->lid, a->lid, a->pkey);
		}
	return true;
}

/* A value against one asked for and its selector: greater than, less than, exactly, the largest. */
static bool selected(uint8_t has, uint8_t asked, bool by_selector)
{
	unsigned value = has & 63, wanted = asked & 63, selector = by_selector ? asked >> 6 : EXACTLY;

	return selector == 0 ? value > wanted : selector == 1 ? value < wanted : selector == 2 ? value == wanted : true;
}

static bool path_matches(const uint8_t *record, const uint8_t *asked, uint64_t mask, uint32_t modifier)
{
	(void)modifier;
	for (unsigned i = 0; i < 3; i++)	/* MTU, rate, life time: selector, value */
		if (mask >> (17 + 2 * i) & 1 && !selected(record[54 + i], asked[54 + i], mask >> (16 + 2 * i) & 1))
			return false;
	return true;
}

void um_mcmember_fill(uint8_t r[UM_MCMEMBER_BYTES], const uint8_t gid[16], uint16_t pkey)
{
	memcpy(r, gid, 16);
	um_put16(r + 36, shca_group_lid(gid));
	r[38] = EXACTLY << 6 | UM_MTU_4096;
	um_put16(r + 40, pkey);
	r[42] = EXACTLY << 6 | UM_RATE_100_GBPS;
	r[43] = EXACTLY << 6;
	r[48] = (uint8_t)((gid[1] & 15) << 4 | 1);	/* scope; a full member */
}

/* Which port a member is behind the fabric does not tell: port 1. */
static bool mcmember_list(const struct um_subnet *s, struct um_table *t)
{
	size_t n;
	struct um_group *groups = um_groups_look(&n);
	bool ok = true;

	for (size_t i = 0; ok && i < n; i++) {
		uint8_t *r = append(t);
		ok = r != NULL;
		if (!ok)
			break;
		um_mcmember_fill(r, groups[i].gid, um_port_at(s, 1)->pkey);
		memcpy(r + 16, um_port_at(s, 1)->gid, 16);
	}
	free(groups);
	return ok;
}

static const struct um_component node_components[] = {
	{0, 16},   {16, 0},   {32, 8},   {40, 8},   {48, 8},  {56, 8},   {64, 64},   {128, 64},
	{192, 64}, {256, 16}, {272, 16}, {288, 32}, {320, 8}, {328, 24}, {352, 512},
};
static const struct um_component port_components[] = {
	{ 0, 16 }, { 16, 8 }, { 24, 8 }, { 32, 64 }, { 96, 64 }, { 160, 16 }, { 176, 16 }, { 192, 0 },
};
static const struct um_component sm_components[] = {
	{ 0, 16 }, { 16, 0 }, { 32, 64 }, { 96, 64 }, { 160, 32 }, { 192, 4 }, { 196, 4 },
};
static const struct um_component link_components[] = { { 0, 16 }, { 16, 8 }, { 24, 8 }, { 32, 16 } };
static const struct um_component guid_components[] = { { 0, 16 }, { 16, 8 } };
static const struct um_component pkey_components[] = { { 0, 16 }, { 16, 16 }, { 32, 8 } };
/* Service id, Reversible, NumbPath and Preference match every path; so do the selectors, which
 * path_matches compares with values. */
static const struct um_component path_components[] = {
	{0, 0}, {0, 0},    {64, 128}, {192, 128}, {320, 16}, {336, 16}, {352, 1}, {0, 0}, {356, 20}, {376, 8}, {384, 8}, {0, 0},
	{0, 0}, {400, 16}, {416, 12}, {428, 4},   {0, 0},    {0, 0},    {0, 0},   {0, 0}, {0, 0},    {0, 0},   {0, 0},
};
static const struct um_component mcmember_components[] = {
	{0, 128}, {128, 128}, {256, 32}, {288, 16}, {0, 0},    {306, 6}, {312, 8}, {320, 16}, {0, 0},
	{338, 6}, {0, 0},     {346, 6},  {352, 4},  {356, 20}, {376, 8}, {384, 4}, {388, 4},  {392, 1},
};
#define COMPONENTS(list) list, ARRAY_SIZE(list)
static const struct um_record records[] = {
	{ NODE, 108, COMPONENTS(node_components), node_list, NULL },
	{ PORT_INFO, 68, COMPONENTS(port_components), port_list, port_matches },
	{ SM_INFO, 28, COMPONENTS(sm_components), sm_list, NULL },
	{ LINK, 6, COMPONENTS(link_components), link_list, NULL },
	{ GUID_INFO, 72, COMPONENTS(guid_components), guid_list, NULL },
	{ PKEY_TABLE, 72, COMPONENTS(pkey_components), pkey_list, NULL },
	{ PATH, 64, COMPONENTS(path_components), path_list, path_matches },
	{ UM_MCMEMBER, UM_MCMEMBER_BYTES, COMPONENTS(mcmember_components), mcmember_list, NULL },
};

const struct um_record *um_record_find(uint16_t attribute)
{
	for (size_t i = 0; i < ARRAY_SIZE(records); i++)
		if (records[i].attribute == attribute)
			return &records[i];
	return NULL;
}
