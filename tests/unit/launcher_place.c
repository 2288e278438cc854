/* SPDX-License-Identifier: BSD-3-Clause */
/* Which cores ranks get, on hosts that are not here. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launcher.h"
#include "launcher/place.h"

void *must(void *p)
{
	cr_assert(p);
	return p;
}

/* sockets x nodes x caches x cores */
static int host(struct place_core *c, int sockets, int nodes, int caches, int cores)
{
	int n = 0;

	for (int s = 0; s < sockets; s++)
		for (int m = 0; m < nodes; m++)
			for (int l = 0; l < caches; l++)
				for (int i = 0; i < cores; i++)
					c[n++] = (struct place_core){ s, s * nodes + m, (s * nodes + m) * caches + l };
	return n;
}

/* "0 1 2 3": the first core of each rank. */
static const char *firsts(const struct place_core *c, int n, int nranks, int each, enum domain by, bool enough)
{
	static char text[1024];
	int core[256], len = 0;

	cr_expect_eq(place(c, n, nranks, each, by, core), enough);
	for (int r = 0; r < nranks; r++) {
		len += sprintf(text + len, "%s%d", r ? " " : "", core[r * each]);
		for (int i = 1; i < each; i++)
			cr_expect_eq(core[r * each + i], core[r * each] + i, "neighbours");
	}
	return text;
}

Test(place, one_after_the_other)
{
	struct place_core c[64];
	int n = host(c, 2, 1, 2, 2);

	cr_expect_str_eq(firsts(c, n, 5, 1, DOMAIN_CORE, true), "0 1 2 3 4");
	cr_expect_str_eq(firsts(c, n, 3, 2, DOMAIN_CORE, true), "0 2 4");
	cr_expect_str_eq(firsts(c, n, 10, 1, DOMAIN_CORE, false), "0 1 2 3 4 5 6 7 0 1");
	cr_expect_str_eq(firsts(c, n, 3, 4, DOMAIN_CORE, false), "0 4 0");
}

Test(place, in_turn)
{
	struct place_core c[64];
	int n = host(c, 2, 2, 1, 2);

	cr_expect_str_eq(firsts(c, n, 8, 1, DOMAIN_SOCKET, true), "0 4 1 5 2 6 3 7");
	cr_expect_str_eq(firsts(c, n, 5, 1, DOMAIN_NUMA, true), "0 2 4 6 1");
	cr_expect_str_eq(firsts(c, n, 4, 2, DOMAIN_SOCKET, true), "0 4 2 6");
	cr_expect_str_eq(firsts(c, n, 9, 1, DOMAIN_SOCKET, false), "0 4 1 5 2 6 3 7 0");
}

/* A rank's threads stay in one NUMA node where there is room for all ranks so, and only there. */
Test(place, not_across_nodes)
{
	struct place_core c[64];
	int n = host(c, 2, 1, 1, 6);

	cr_expect_str_eq(firsts(c, n, 2, 4, DOMAIN_CORE, true), "0 6");
	cr_expect_str_eq(firsts(c, n, 3, 4, DOMAIN_CORE, true), "0 4 8");
	cr_expect_str_eq(firsts(c, n, 2, 6, DOMAIN_SOCKET, true), "0 6");
	cr_expect_str_eq(firsts(c, n, 1, 12, DOMAIN_SOCKET, true), "0");
	cr_expect_str_eq(firsts(c, n, 2, 4, DOMAIN_L3, true), "0 6");
}

/* Domains of different sizes: when the small domain is full, the other domains get its turns. */
Test(place, unequal)
{
	struct place_core c[] = { { 0, 0, 0 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } };

	cr_expect_str_eq(firsts(c, 4, 4, 1, DOMAIN_SOCKET, true), "0 1 2 3");
	cr_expect_str_eq(firsts(c, 4, 2, 2, DOMAIN_SOCKET, true), "0 2");
	cr_expect_str_eq(firsts(c, 4, 1, 4, DOMAIN_NUMA, true), "0");
	cr_expect_str_eq(firsts(c, 1, 3, 1, DOMAIN_NUMA, false), "0 0 0");
}

Test(place, drawing)
{
	struct place_core c[64];
	char out[200];
	int n = host(c, 2, 2, 2, 2);

	place_draw(c, n, "BB..............", out);
	cr_expect_str_eq(out, "[BB:..|..:..][..:..|..:..]");
	place_draw(c, 1, "B", out);
	cr_expect_str_eq(out, "[B]");
}
