/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of a group share a host: for collectives that go by hosts. Made once for a group, when it is first asked for, of what the
 * launcher's PMIx server has told of each rank at start, so that nothing is sent, and all ranks have the same.
 *
 * Hosts are counted in the order of their lowest ranks. Where the ranks of each host follow each other, which is how launchers place them,
 * there is one number for each host; else one for each rank, too.
 */
#ifndef HDL_P2P_HOSTS_H
#define HDL_P2P_HOSTS_H

struct hdl_hosts {
	int n;				/* hosts, at least two */
	int most;			/* ranks of the one that has most, at least two */
	int *order;			/* the ranks, host by host, ascending in each; NULL: in the order of the ranks */
	int first[];			/* places in that order: host h's ranks are at first[h] to first[h + 1] - 1 */
};

/* node(rank): a number that the ranks of one host have in common, and others not; below 0: not known, or -ENOMEM. *out: the map, to
 * be freed by free(); NULL where it says nothing that is of use: one host, each rank on a host of its own, or not known. 0 or
 * -ENOMEM. */
int hdl_hosts_make(int size, int (*node)(const void *arg, int rank), const void *arg, struct hdl_hosts **out);

/* The rank at a place. */
static inline int hdl_hosts_rank(const struct hdl_hosts *h, int index)
{
	return h->order ? h->order[index] : index;
}

static inline int hdl_hosts_ranks_of(const struct hdl_hosts *h, int host)
{
	return h->first[host + 1] - h->first[host];
}

/* Where a rank is; linear in the ranks if they do not follow each other. */
int hdl_hosts_place(const struct hdl_hosts *h, int rank);
int hdl_hosts_of_place(const struct hdl_hosts *h, int index);

#endif
