/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical algorithms: the ranks of each host, the messages between hosts, the results. */
#include "coll_graph.h"

struct placement {
	const char *name;
	int n, host[MOST_RANKS];
};

static const struct placement placements[] = {
	{ "2 x 2", 4, { 0, 0, 1, 1 } },
	{ "2 x 2 by turns", 4, { 0, 1, 0, 1 } },
	{ "2 x 4", 8, { 0, 0, 0, 0, 1, 1, 1, 1 } },
	{ "3 + 1", 4, { 0, 0, 0, 1 } },
	{ "1 + 3, numbered the other way round", 4, { 7, 2, 2, 2 } },
	{ "3 x 3 by turns", 9, { 2, 0, 1, 2, 0, 1, 2, 0, 1 } },
	{ "4 x 2 and 1, anyhow", 9, { 3, 1, 0, 3, 2, 1, 2, 0, 5 } },
	{ "5 + 1 + 2", 8, { 0, 0, 0, 0, 0, 1, 2, 2 } },
	{ "5 x 3", 15, { 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4 } },
	{ "7 x 2 by turns", 14, { 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6 } },
};

static int node_of(const void *arg, int rank)
{
	return ((const struct placement *)arg)->host[rank];
}

static struct hdl_hosts *hosts_of(const struct placement *p)
{
	struct hdl_hosts *h;

	cr_assert_eq(hdl_hosts_make(p->n, node_of, p, &h), 0);
	return h;
}

Test(coll_graph_hosts, who_shares_a_host)
{
	static const struct placement alone = { "alone", 3, { 2, 0, 1 } }, one = { "one host", 3, { 4, 4, 4 } },
				      unknown = { "unknown", 3, { 0, 0, -1 } };

	cr_assert_null(hosts_of(&alone));
	cr_assert_null(hosts_of(&one));
	cr_assert_null(hosts_of(&unknown));
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		int last = -1;

		cr_assert_not_null(h);
		cr_assert_eq(h->first[h->n], placements[p].n);
		for (int host = 0, most = 0; host < h->n; host++) {
			int lowest = hdl_hosts_rank(h, h->first[host]), before = -1;

			cr_assert_gt(lowest, last, "%s: hosts are not in the order of their lowest ranks", placements[p].name);
			last = lowest;
			most = hdl_hosts_ranks_of(h, host) > most ? hdl_hosts_ranks_of(h, host) : most;
			cr_assert(host < h->n - 1 || most == h->most);
			for (int place = h->first[host]; place < h->first[host + 1]; place++) {
				int rank = hdl_hosts_rank(h, place);

				cr_assert_gt(rank, before);
				before = rank;
				cr_assert_eq(placements[p].host[rank], placements[p].host[lowest]);
				cr_assert_eq(hdl_hosts_place(h, rank), place);
				cr_assert_eq(hdl_hosts_of_place(h, place), host);
			}
		}
		free(h);
	}
	/* one number for each host is all where ranks follow each other */
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		bool blocks = true;

		for (int place = 0; place < placements[p].n; place++)
			blocks &= hdl_hosts_rank(h, place) == place;
		cr_assert_eq(!h->order, blocks, "%s", placements[p].name);
		free(h);
	}
}

Test(coll_graph_hosts, two_levels)
{
	static const size_t counts[] = { 1, 40, 2000, 40001 };	/* the longer ones in segments, and by other algorithms */

	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);

		for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
			for (int root = 0; by_hosts(a) && root < (hdl_coll_has_root(a->coll) ? placements[p].n : 1); root++)
				for (size_t c = 0; c < (placements[p].n <= 4 ? 4 : root % 4 ? 2 : 3); c++)
					for (int ip = 0; ip < (a->coll == HDL_BCAST || a->coll == HDL_BARRIER ? 1 : 2); ip++) {
						struct job j = { .coll = a->coll, .algo = a, .n = placements[p].n, .root = root,
								 .in_place = ip, .type = rep_of(MPI_INT64_T), .count = counts[c],
								 .hosts = h, .op = hdl_coll_reduces(a->coll) ? MPI_SUM :
									 MPI_OP_NULL };

						if (c < 2)
							run_job(&j, SIM_PROGRAM_ORDER);
						run_job(&j, SIM_ANY_ORDER);
					}
		free(h);
	}
}

/* Of the data between hosts a leader sends its own part, and no other rank sends any: the purpose of hierarchical algorithms. */
Test(coll_graph_hosts, only_leaders_send_to_other_hosts)
{
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);

		for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
			for (int rank = 0; by_hosts(a) && rank < placements[p].n; rank++) {
				struct hdl_shape s = { .coll = a->coll, .rank = rank, .size = placements[p].n, .root = 1,
						       .bytes = 4096, .esize = 8,
							       .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)),
								       .hosts = h };
				struct hdl_graph *g = a->build(&s);
				const int *host = placements[p].host;
				bool lowest = true, root = hdl_coll_has_root(a->coll) && host[rank] == host[1];

				for (int r = 0; r < rank; r++)
					lowest &= host[r] != host[rank];
				for (uint32_t i = 0; i < g->nnodes; i++)
					if (g->nodes[i].peer >= 0 && host[g->nodes[i].peer] != host[rank])
						cr_assert(root ? rank == 1 : lowest,
							  "%s, %s: rank %d has to do with rank %d of another host",
							  placements[p].name, hdl_coll_name(a->coll), rank, g->nodes[i].peer);
				hdl_graph_free(g);
			}
		free(h);
	}
}

/* The messages of a graph with ranks of other hosts, or of its own host: a sum of their number and of a hash of each, in any
 * order. */
static uint64_t messages(const struct hdl_graph *g, const int *host, int rank, bool others)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct hdl_node *d = &g->nodes[i];

		if (d->peer >= 0 && (host[d->peer] != host[rank]) == others)
			n += 1 + ((uint64_t)d->kind * 31 + (uint64_t)d->peer * 131 + (uint64_t)d->sub * 7919 + d->len * 65537) *
					 1000;
	}
	return n;
}

/* Stages have the same messages between hosts, and none within. */
Test(coll_graph_hosts, stages_between_hosts_are_those_of_two_levels)
{
	static const enum hdl_coll colls[] = { HDL_BARRIER, HDL_BCAST, HDL_REDUCE, HDL_ALLREDUCE };

	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		const int *host = placements[p].host;

		for (size_t c = 0; c < COUNT(colls); c++)
			for (int rank = 0; rank < placements[p].n; rank++) {
				struct hdl_shape s = { .coll = colls[c], .rank = rank, .size = placements[p].n,
						       .root = placements[p].n - 1, .bytes = 4096, .esize = 8,
						       .fn = hdl_op_lookup(MPI_SUM, hdl_type_get(MPI_INT64_T)), .hosts = h };
				struct hdl_graph *whole = hdl_build_hier(&s), *between;

				s.leaders_only = true;
				between = hdl_build_hier(&s);
				cr_assert_eq(messages(between, host, rank, false), 0);
				cr_assert_eq(messages(between, host, rank, true), messages(whole, host, rank, true),
					     "%s, %s: rank %d", placements[p].name, hdl_coll_name(colls[c]), rank);
				hdl_graph_free(whole);
				hdl_graph_free(between);
			}
		free(h);
	}
}

static uint64_t *says_of(struct hdl_graph *g, uint64_t *says, int to, uint32_t sub)
{
	for (uint32_t i = 0; i < g->nnodes; i++)
		if (g->nodes[i].kind == HDL_N_SEND && g->nodes[i].peer == to && g->nodes[i].sub == sub)
			return &says[i];
	cr_assert_fail("nobody sends rank %d a message of sub %u", to, sub);
	return NULL;
}

Test(coll_graph_hosts, two_level_barriers_wait_for_all)
{
	for (size_t p = 0; p < COUNT(placements); p++) {
		struct hdl_hosts *h = hosts_of(&placements[p]);
		uint64_t says[MOST_RANKS][32] = { 0 };	/* the ranks that must have arrived when a node is complete */
		struct hdl_graph *g[MOST_RANKS];
		int n = placements[p].n;

		for (int r = 0; r < n; r++) {
			g[r] = hdl_build_hier(&(struct hdl_shape){ .coll = HDL_BARRIER, .rank = r, .size = n, .hosts = h });
			cr_assert(g[r] && g[r]->nnodes <= 32);
		}
		for (int turn = 0; turn < 32; turn++)
			for (int r = 0; r < n; r++)
				for (uint32_t i = 0; i < g[r]->nnodes; i++) {
					const struct hdl_node *d = &g[r]->nodes[i];

					says[r][i] |= 1ull << r;
					for (uint32_t k = 0; k < d->npreds; k++)
						says[r][i] |= says[r][g[r]->preds[d->pred0 + k]];
					if (d->kind == HDL_N_RECV)
						says[r][i] |= *says_of(g[d->peer], says[d->peer], r, d->sub);
				}
		for (int r = 0; r < n; r++) {
			uint64_t known = 0;

			for (uint32_t i = 0; i < g[r]->nnodes; i++)
				known |= says[r][i];
			cr_assert_eq(known, (1ull << n) - 1, "%s: rank %d leaves before all are there", placements[p].name, r);
			hdl_graph_free(g[r]);
		}
		free(h);
	}
}
