/* SPDX-License-Identifier: BSD-3-Clause */
#include "p2p/comm/hosts.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct host_rank {
	int host, rank;		/* at first its node (hdl_hosts_make), then its lowest rank */
};

static int by_host_and_rank(const void *va, const void *vb)
{
	const struct host_rank *a = va, *b = vb;

	if (a->host != b->host)
		return a->host < b->host ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Sorts the ranks by host, and hosts by their lowest ranks. Returns the number of hosts; *most: ranks of the largest. */
static int hosts_put_in_order(struct host_rank *p, int size, int *most)
{
	int hosts = 0, ranks = 0;

	qsort(p, (size_t)size, sizeof(*p), by_host_and_rank);
	*most = 0;
	for (int i = 0, node = -1, lowest = 0; i < size; i++) {
		if (p[i].host != node) {
			node = p[i].host;
			lowest = p[i].rank;
			hosts++;
			ranks = 0;
		}
		p[i].host = lowest;
		if (++ranks > *most)
			*most = ranks;
	}
	qsort(p, (size_t)size, sizeof(*p), by_host_and_rank);
	return hosts;
}

/* Returns NULL without memory. */
static struct hdl_hosts *map_of(const struct host_rank *p, int size, int hosts, int most)
{
	struct hdl_hosts *h;
	bool blocks = true;
	int k = 0;

	for (int i = 0; i < size; i++)
		blocks &= p[i].rank == i;
	h = malloc(sizeof(*h) + ((size_t)hosts + 1 + (blocks ? 0 : (size_t)size)) * sizeof(int));
	if (!h)
		return NULL;
	h->n = hosts;
	h->most = most;
	h->order = blocks ? NULL : h->first + hosts + 1;
	for (int i = 0; i < size; i++) {
		if (!i || p[i].host != p[i - 1].host)
			h->first[k++] = i;
		if (h->order)
			h->order[i] = p[i].rank;
	}
	h->first[hosts] = size;
	return h;
}

int hdl_hosts_make(int size, int (*node)(const void *arg, int rank), const void *arg, struct hdl_hosts **out)
{
	struct host_rank *p = malloc((size_t)size * sizeof(*p));
	int hosts, most, err = 0;

	*out = NULL;
	if (!p)
		return -ENOMEM;
	for (int r = 0; r < size; r++) {
		p[r] = (struct host_rank){ node(arg, r), r };
		if (p[r].host < 0) {
			err = p[r].host == -ENOMEM ? -ENOMEM : 0;
			goto out;
		}
	}
	hosts = hosts_put_in_order(p, size, &most);
	if (hosts > 1 && most > 1) {
		*out = map_of(p, size, hosts, most);
		err = *out ? 0 : -ENOMEM;
	}
out:
	free(p);
	return err;
}

int hdl_hosts_place(const struct hdl_hosts *h, int rank)
{
	int index = 0;

	if (!h->order)
		return rank;
	while (h->order[index] != rank)
		index++;
	return index;
}

int hdl_hosts_of_place(const struct hdl_hosts *h, int index)
{
	int low = 0, high = h->n - 1;

	while (low < high) {
		int mid = low + (high - low + 1) / 2;

		if (h->first[mid] <= index)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}
