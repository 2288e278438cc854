/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "launcher/launcher.h"
#include "launcher/place.h"

bool place_together(const struct place_core *a, const struct place_core *b, enum domain domain)
{
	switch (domain) {
	case DOMAIN_SOCKET:
		return a->socket == b->socket;
	case DOMAIN_NUMA:
		return a->socket == b->socket && a->numa == b->numa;
	case DOMAIN_L3:
		return a->socket == b->socket && a->numa == b->numa && a->l3 == b->l3;
	case DOMAIN_CORE:
		return a == b;
	case DOMAIN_NONE:
		break;
	}
	return true;
}

/* Seats: the first core of each place for a rank, none of which reaches over the end of a domain of kind `within`. */
struct seats {
	int n, *first, *domain;		/* domain: number of the domain (of kind `by`) of each */
	int domains;
};

static void find_seats(struct seats *s, const struct place_core *cores, int ncores, int each, enum domain within, enum domain by)
{
	int begin = 0;

	s->n = s->domains = 0;
	for (int i = 0; i < ncores; i++) {
		if (i && !place_together(&cores[i - 1], &cores[i], within))
			begin = i;		/* a seat that was begun before is none */
		if (!i || !place_together(&cores[i - 1], &cores[i], by))
			s->domains++;
		if (i - begin + 1 < each)
			continue;
		s->first[s->n] = begin;
		s->domain[s->n++] = s->domains - 1;
		begin = i + 1;
	}
}

bool place(const struct place_core *cores, int ncores, int nranks, int each, enum domain by, int *core)
{
	struct seats s = { .first = must(calloc((size_t)ncores, sizeof(int))),
			   .domain = must(calloc((size_t)ncores, sizeof(int))) };
	bool *taken, enough;
	int free_seats = 0, turn = 0;

	find_seats(&s, cores, ncores, each, DOMAIN_NUMA, by);
	if (s.n < nranks)
		find_seats(&s, cores, ncores, each, DOMAIN_NONE, by);
	enough = s.n >= nranks;
	taken = must(calloc((size_t)s.n, sizeof *taken));
	for (int r = 0; r < nranks; r++) {
		int seat = -1;

		if (!free_seats) {	/* the first round, or one more where ranks share */
			for (int i = 0; i < s.n; i++)
				taken[i] = false;
			free_seats = s.n;
		}
		if (by == DOMAIN_CORE) {
			seat = r % s.n;
		} else {
			for (; seat < 0; turn++)
				for (int i = 0; i < s.n && seat < 0; i++)
					if (!taken[i] && s.domain[i] == turn % s.domains)
						seat = i;
		}
		taken[seat] = true;
		free_seats--;
		for (int i = 0; i < each; i++)
			core[r * each + i] = s.first[seat] + i;
	}
	free(taken);
	free(s.first);
	free(s.domain);
	return enough;
}

void place_draw(const struct place_core *cores, int ncores, const char *mark, char *out)
{
	for (int i = 0; i < ncores; i++) {
		const struct place_core *c = &cores[i], *last = i ? c - 1 : NULL;

		if (!last || !place_together(last, c, DOMAIN_SOCKET)) {
			if (last)
				*out++ = ']';
			*out++ = '[';
		} else if (!place_together(last, c, DOMAIN_NUMA)) {
			*out++ = '|';
		} else if (!place_together(last, c, DOMAIN_L3)) {
			*out++ = ':';
		}
		*out++ = mark[i];
	}
	*out++ = ']';
	*out = 0;
}
