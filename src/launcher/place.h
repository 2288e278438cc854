/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cores a rank gets: arithmetic on a description of the host, which bind.c reads. */
#ifndef HDL_PLACE_H
#define HDL_PLACE_H

#include <stdbool.h>

enum domain { DOMAIN_NONE, DOMAIN_CORE, DOMAIN_L3, DOMAIN_NUMA, DOMAIN_SOCKET };

/* A core that may be used. Cores are sorted by socket, NUMA node, L3 cache; the numbers of each of these are unique in the
 * host. */
struct place_core {
	int socket, numa, l3;
};

/* Returns true if cores a and b are in one domain of that kind. */
bool place_together(const struct place_core *a, const struct place_core *b, enum domain domain);

/* Gives each rank `each` cores, neighbours, of one NUMA node where all ranks have room so. by: DOMAIN_CORE: rank after rank
 * fills the host; else consecutive ranks go to consecutive domains in turn. core[r * each + i] becomes the number of rank
 * r's i-th core. false: ranks share cores, for there are not enough. ncores > 0; each <= ncores. */
bool place(const struct place_core *cores, int ncores, int nranks, int each, enum domain by, int *core);

/* A drawing of the host, one character for each core: "[BB..|....][....|....]", [] around a socket, | between NUMA nodes,
 * : between L3 caches of one. mark[i]: the character of core i. out: at least 3 * ncores + 2 bytes. */
void place_draw(const struct place_core *cores, int ncores, const char *mark, char *out);

#endif
