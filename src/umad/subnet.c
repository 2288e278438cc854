/* SPDX-License-Identifier: BSD-3-Clause */
/* A snapshot of the fabric's ports and multicast groups, for the agents. */
#include <stdlib.h>

#include "umad/internal.h"

static void ports_copy(struct um_subnet *s, const struct shca_ports *all)
{
	s->broken = atomic_load(&all->broken);
	s->ports = shca_ports() == 2 || atomic_load(&all->two) ? 2 : 1;
	for (uint32_t i = 0; i < s->ports; i++) {
		const struct shca_port *p = &all->port[i];
		struct um_port *to = &s->port[i];
		to->down = atomic_load(&p->down) || s->broken;
		to->lid = s->ethernet ? 0 : (uint16_t)atomic_load(&p->lid);
		to->sm_lid = s->ethernet ? 0 : (uint16_t)atomic_load(&p->sm_lid);
		to->pkey = (uint16_t)atomic_load(&p->pkey);
		shca_port_gid(atomic_load(&p->gid_prefix), i + 1, to->gid);
	}
}

static void subnet_ports_of(const struct shca_member *m, void *s)
{
	ports_copy(s, &m->hdr->ports);
}

void um_subnet_look(struct um_subnet *s)
{
	struct shca_ports fresh;

	*s = (struct um_subnet){.ethernet = shca_is_ethernet()};
	if (shca_with_fabric(subnet_ports_of, s))
		return;
	shca_port_init(&fresh);
	ports_copy(s, &fresh);
}

struct groups {
	struct um_group *list;
	size_t n, room;
};

static void group_add(struct groups *all, const uint64_t gid[2])
{
	for (size_t i = 0; i < all->n; i++)
		if (!memcmp(all->list[i].gid, gid, sizeof(all->list[i].gid))) {
			all->list[i].queues++;
			return;
		}
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 16;
		struct um_group *more = realloc(all->list, room * sizeof(*more));
		if (!more)
			return;
		all->list = more;
		all->room = room;
	}
	all->list[all->n].queues = 1;
	memcpy(all->list[all->n++].gid, gid, sizeof(all->list->gid));
}

static void groups_of(const struct shca_member *m, void *all)
{
	uint32_t high = atomic_load(&m->hdr->proc_high);

	for (uint32_t p = 0; p < high && p < SHCA_MAX_PROCS; p++)
		shca_for_each_listed(m, shca_group, g, p, group_list)
			group_add(all, g->gid);
}

struct um_group *um_groups_look(size_t *n)
{
	struct groups all = {0};

	shca_with_fabric(groups_of, &all);
	*n = all.n;
	return all.list;
}

uint32_t um_port_of_lid(const struct um_subnet *s, uint16_t lid)
{
	for (uint32_t port = 1; lid && port <= s->ports; port++)
		if (um_port_at(s, port)->lid == lid)
			return port;
	return 0;
}

uint32_t um_port_of_gid(const struct um_subnet *s, const uint8_t gid[16])
{
	for (uint32_t port = 1; port <= s->ports; port++)
		if (!memcmp(um_port_at(s, port)->gid, gid, 16))
			return port;
	return 0;
}
