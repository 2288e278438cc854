/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of a group by host, for hierarchical collectives. Made from data that the launcher's PMIx server gave each rank at start,
 * so without a message, and equal on all ranks.
 *
 * Hosts are numbered in the order of their lowest ranks. If the ranks of each host are consecutive, as launchers place them,
 * there is one number for each host; else also one for each rank.
 */
#ifndef HDL_P2P_HOSTS_H
#define HDL_P2P_HOSTS_H

struct hdl_hosts {
	int n;				/* number of hosts, at least 2 */
	int most;			/* ranks of the largest host, at least 2 */
	int *order;			/* ranks by host, ascending within each; NULL: the order of ranks */
	int first[];			/* host h has the ranks order[first[h]] to order[first[h + 1] - 1] */
};

/* node(rank) returns a number that is the same for ranks of one host only; negative: not known, or -ENOMEM. Sets *out to the
 * result, which the caller must free(); NULL if all ranks are on one host, each is on a host of its own, or the hosts are not
 * known. Returns 0 or -ENOMEM. */
int hdl_hosts_make(int size, int (*node)(const void *arg, int rank), const void *arg, struct hdl_hosts **out);

/* Returns the rank at an index of the order. */
static inline int hdl_hosts_rank(const struct hdl_hosts *h, int index)
{
	return h->order ? h->order[index] : index;
}

static inline int hdl_hosts_ranks_of(const struct hdl_hosts *h, int host)
{
	return h->first[host + 1] - h->first[host];
}

/* Returns the index of a rank in the order. Linear if ranks of hosts are not consecutive. */
int hdl_hosts_place(const struct hdl_hosts *h, int rank);
int hdl_hosts_of_place(const struct hdl_hosts *h, int index);

#endif
