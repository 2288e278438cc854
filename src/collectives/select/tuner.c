/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/select/select.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "runtime/runtime.h"

static bool fits_pow2(const struct hdl_shape *s)
{
	return is_pow2((uint64_t)s->size);
}

/* Bruck's phases read whole blocks from one buffer; with two ranks there is one exchange anyway. */
static bool fits_bruck(const struct hdl_shape *s)
{
	return s->size > 2;
}

static bool fits_hosts(const struct hdl_shape *s)
{
	return s->hosts;
}

/* One request names the operands of all ranks. */
static bool fits_operands(const struct hdl_shape *s)
{
	return s->size <= HDL_TREE_LINKS;
}

const struct hdl_algorithm hdl_host_algorithms[] = {
	{ HDL_BARRIER, "dissemination", hdl_build_barrier_dissemination, NULL },
	{ HDL_BCAST, "binomial", hdl_build_bcast_binomial, NULL },
	{ HDL_BCAST, "scatter-allgather", hdl_build_bcast_scatter_allgather, NULL },
	{ HDL_BCAST, "chain", hdl_build_bcast_chain, NULL },
	{ HDL_REDUCE, "binomial", hdl_build_reduce_binomial, NULL },
	{ HDL_REDUCE, "scatter-gather", hdl_build_reduce_scatter_gather, NULL },
	{ HDL_ALLREDUCE, "recursive-doubling", hdl_build_allreduce_doubling, NULL },
	{ HDL_ALLREDUCE, "rabenseifner", hdl_build_allreduce_rabenseifner, NULL },
	{ HDL_ALLREDUCE, "ring", hdl_build_allreduce_ring, NULL },
	{ HDL_ALLGATHER, "recursive-doubling", hdl_build_allgather_doubling, fits_pow2 },
	{ HDL_ALLGATHER, "bruck", hdl_build_allgather_bruck, NULL },
	{ HDL_ALLGATHER, "ring", hdl_build_allgather_ring, NULL },
	{ HDL_ALLTOALL, "pairwise", hdl_build_alltoall_pairwise, NULL },
	{ HDL_ALLTOALL, "bruck", hdl_build_alltoall_bruck, fits_bruck },
	{ HDL_GATHER, "blocks", hdl_build_of_vcoll, NULL },
	{ HDL_SCATTER, "blocks", hdl_build_of_vcoll, NULL },
	{ HDL_REDUCE_SCATTER, "blocks", hdl_build_of_vcoll, NULL },
	{ HDL_REDUCE_SCATTER, "recursive-halving", hdl_build_reduce_scatter_halving, NULL },
	{ HDL_SCAN, "blocks", hdl_build_of_vcoll, NULL },
	{ HDL_EXSCAN, "blocks", hdl_build_of_vcoll, NULL },
	{ HDL_REDUCE, "in-order", hdl_build_in_order, NULL },
	{ HDL_ALLREDUCE, "in-order", hdl_build_in_order, NULL },
	{ HDL_REDUCE_SCATTER, "in-order", hdl_build_in_order, NULL },
	{ HDL_SCAN, "in-order", hdl_build_in_order, NULL },
	{ HDL_EXSCAN, "in-order", hdl_build_in_order, NULL },
	{ HDL_BARRIER, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_BCAST, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_REDUCE, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_ALLREDUCE, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_ALLGATHER, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_GATHER, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_SCATTER, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_REDUCE_SCATTER, "two-level", hdl_build_hier, fits_hosts },
	{ HDL_COLLS, NULL, NULL, NULL },
};

/*
 * The host executor's algorithms; the first row that fits wins. bytes as in struct hdl_shape: one rank's block for Allgather
 * and Alltoall. If the ranks share one host's cores (OVERSUBSCRIBED), the work of all ranks counts, and each message is a
 * context switch; else (OWN_CORES, on one host or several) the slowest rank's work counts. No size may cost more than 1.3
 * times a larger one: tests/unit/coll_cost.
 */
#define ANY_SIZE SIZE_MAX
enum where { ANYWHERE, OWN_CORES, OWN_CORES_POW2, OVERSUBSCRIBED };	/* OWN_CORES_POW2: and a power of two of ranks */
static const struct {
	enum hdl_coll coll;
	enum where where;
	int min_ranks;
	size_t max_bytes;
	const char *name;
} rows[] = {
	{ HDL_BARRIER, ANYWHERE, 1, ANY_SIZE, "dissemination" },
	/* Two ranks: one message is optimal for every size. */
	{ HDL_BCAST, OVERSUBSCRIBED, 8, 16 << 10, "binomial" },
	{ HDL_BCAST, OVERSUBSCRIBED, 17, 256 << 10, "binomial" },
	{ HDL_BCAST, OVERSUBSCRIBED, 17, ANY_SIZE, "chain" },
	{ HDL_BCAST, OVERSUBSCRIBED, 8, 512 << 10, "scatter-allgather" },
	{ HDL_BCAST, OVERSUBSCRIBED, 3, 64 << 10, "binomial" },
	{ HDL_BCAST, OWN_CORES, 25, 16 << 10, "binomial" },
	{ HDL_BCAST, OWN_CORES, 4, 8 << 10, "binomial" },
	{ HDL_BCAST, OWN_CORES, 12, 2 << 20, "scatter-allgather" },
	{ HDL_BCAST, OWN_CORES, 4, 512 << 10, "scatter-allgather" },
	{ HDL_BCAST, OWN_CORES, 3, 256 << 10, "binomial" },
	{ HDL_BCAST, ANYWHERE, 3, ANY_SIZE, "chain" },
	{ HDL_BCAST, ANYWHERE, 1, ANY_SIZE, "binomial" },
	/* From three ranks on, splitting lets each CPU reduce a part, at the price of a second message. */
	{ HDL_REDUCE, OVERSUBSCRIBED, 3, 256 << 10, "binomial" },
	{ HDL_REDUCE, OWN_CORES, 48, 32 << 10, "binomial" },
	{ HDL_REDUCE, OWN_CORES, 24, 16 << 10, "binomial" },
	{ HDL_REDUCE, OWN_CORES, 5, 8 << 10, "binomial" },
	{ HDL_REDUCE, OWN_CORES, 5, ANY_SIZE, "scatter-gather" },
	{ HDL_REDUCE, OWN_CORES, 3, 128 << 10, "binomial" },
	{ HDL_REDUCE, ANYWHERE, 3, ANY_SIZE, "scatter-gather" },
	{ HDL_REDUCE, ANYWHERE, 1, ANY_SIZE, "binomial" },
	{ HDL_ALLREDUCE, ANYWHERE, 4, 8 << 10, "recursive-doubling" },
	{ HDL_ALLREDUCE, ANYWHERE, 3, 4 << 10, "recursive-doubling" },
	{ HDL_ALLREDUCE, OVERSUBSCRIBED, 4, 512 << 10, "rabenseifner" },
	{ HDL_ALLREDUCE, OVERSUBSCRIBED, 17, ANY_SIZE, "ring" },
	/* in-order: two exchanges; each step of a ring has a context switch */
	{ HDL_ALLREDUCE, OVERSUBSCRIBED, 4, ANY_SIZE, "in-order" },
	{ HDL_ALLREDUCE, OWN_CORES_POW2, 4, 1 << 20, "rabenseifner" },
	{ HDL_ALLREDUCE, OWN_CORES, 32, 64 << 10, "rabenseifner" },
	{ HDL_ALLREDUCE, OWN_CORES, 10, 16 << 10, "rabenseifner" },
	{ HDL_ALLREDUCE, ANYWHERE, 3, ANY_SIZE, "ring" },
	/* Two ranks: each reduces the whole vector, which costs less than a second exchange while the vector fits the caches. */
	{ HDL_ALLREDUCE, ANYWHERE, 1, 512 << 10, "recursive-doubling" },
	{ HDL_ALLREDUCE, ANYWHERE, 1, ANY_SIZE, "ring" },
	{ HDL_ALLGATHER, ANYWHERE, 1, 8 << 10, "recursive-doubling" },
	{ HDL_ALLGATHER, OWN_CORES, 8, 64 << 10, "recursive-doubling" },
	{ HDL_ALLGATHER, OWN_CORES, 12, 8 << 10, "bruck" },
	{ HDL_ALLGATHER, ANYWHERE, 4, 1 << 10, "bruck" },
	{ HDL_ALLGATHER, ANYWHERE, 1, ANY_SIZE, "ring" },
	/* Bruck sends fewer messages, and moves each byte log2(P) / 2 times. */
	{ HDL_ALLTOALL, OVERSUBSCRIBED, 8, 256, "bruck" },
	{ HDL_ALLTOALL, OWN_CORES, 32, 256, "bruck" },
	{ HDL_ALLTOALL, ANYWHERE, 1, ANY_SIZE, "pairwise" },
	/* algorithms/vcoll.c has a table for these. */
	{ HDL_GATHER, ANYWHERE, 1, ANY_SIZE, "blocks" },
	{ HDL_SCATTER, ANYWHERE, 1, ANY_SIZE, "blocks" },
	{ HDL_REDUCE_SCATTER, OVERSUBSCRIBED, 17, 8 << 10, "recursive-halving" },
	{ HDL_REDUCE_SCATTER, OWN_CORES_POW2, 16, 1 << 10, "recursive-halving" },
	{ HDL_REDUCE_SCATTER, OWN_CORES, 24, 256, "recursive-halving" },
	{ HDL_REDUCE_SCATTER, ANYWHERE, 1, ANY_SIZE, "blocks" },
	{ HDL_SCAN, ANYWHERE, 1, ANY_SIZE, "blocks" },
	{ HDL_EXSCAN, ANYWHERE, 1, ANY_SIZE, "blocks" },
};

/*
 * Ranks on several hosts: a collective with a matching row is two-level; the others use the rows above. Two-level collectives
 * send each byte between hosts once per host, but wait for the leaders and move the byte once more within the host. They must
 * not cost more than one level: tests/unit/coll_cost, in which a host's ranks share a port. Where ranks and hosts are powers
 * of two and the ranks of a host are consecutive, doubling is hierarchical anyway.
 */
enum { BLOCKS = 1, EVEN = 2, TURNS = 4, POW2 = 8, NOT_POW2 = 16 };
/* BLOCKS: the ranks of each host are consecutive; TURNS: they are not; EVEN: all hosts have the same number; POW2: of all
 * ranks */
static const struct {
	enum hdl_coll coll;
	unsigned placed;
	int min_ranks, max_ranks;	/* ranks of the host that has most */
	int min_hosts;
	size_t min_bytes, max_bytes;
} two_level_rows[] = {
	{ HDL_BARRIER, BLOCKS, 2, 8, 2, 0, ANY_SIZE },
	{ HDL_BCAST, 0, 2, INT_MAX, 2, 0, 8 << 10 },
	{ HDL_BCAST, TURNS, 8, INT_MAX, 2, 0, ANY_SIZE },
	{ HDL_REDUCE, 0, 2, INT_MAX, 2, 0, 8 << 10 },
	{ HDL_REDUCE, 0, 8, INT_MAX, 2, 0, 32 << 10 },
	{ HDL_REDUCE, 0, 12, INT_MAX, 2, 0, ANY_SIZE },
	{ HDL_ALLREDUCE, TURNS | NOT_POW2, 2, INT_MAX, 2, 0, 4 << 10 },
	{ HDL_ALLREDUCE, BLOCKS | EVEN, 16, INT_MAX, 2, 4 << 10, 8 << 10 },
	{ HDL_ALLREDUCE, BLOCKS | EVEN, 16, INT_MAX, 2, 16 << 10, ANY_SIZE },
	{ HDL_ALLREDUCE, BLOCKS | EVEN, 8, INT_MAX, 4, 256 << 10, ANY_SIZE },
	{ HDL_ALLGATHER, NOT_POW2 | EVEN, 2, INT_MAX, 3, 0, 256 },
	{ HDL_ALLGATHER, BLOCKS | EVEN | POW2, 16, INT_MAX, 2, 1 << 10, 16 << 10 },
	{ HDL_ALLGATHER, BLOCKS | EVEN | POW2, 8, INT_MAX, 2, 4 << 10, 16 << 10 },
	{ HDL_GATHER, 0, 2, INT_MAX, 3, 0, 128 },
	{ HDL_GATHER, 0, 2, INT_MAX, 6, 0, 1 << 10 },
	{ HDL_SCATTER, 0, 2, INT_MAX, 3, 0, 128 },
	{ HDL_SCATTER, 0, 2, INT_MAX, 6, 0, 1 << 10 },
	{ HDL_REDUCE_SCATTER, 0, 2, INT_MAX, 8, 16 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, 0, 2, INT_MAX, 13, (8 << 10) + 1, ANY_SIZE },	/* a block that is announced (rendezvous) */
	{ HDL_REDUCE_SCATTER, BLOCKS, 4, INT_MAX, 6, 8 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, 0, 4, INT_MAX, 4, 16 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, BLOCKS, 8, INT_MAX, 4, 2 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, 0, 8, INT_MAX, 4, 4 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, 0, 8, INT_MAX, 3, 8 << 10, ANY_SIZE },
	{ HDL_REDUCE_SCATTER, 0, 16, INT_MAX, 2, 2 << 10, ANY_SIZE },
};

static unsigned placed(const struct hdl_shape *s)
{
	return (s->hosts->order ? TURNS : BLOCKS) | (s->hosts->most * s->hosts->n == s->size ? EVEN : 0) |
	       (fits_pow2(s) ? POW2 : NOT_POW2);
}

static bool is_two_level(const struct hdl_shape *s)
{
	const struct hdl_hosts *h = s->hosts;

	for (size_t i = 0; h && i < ARRAY_SIZE(two_level_rows); i++)
		if (two_level_rows[i].coll == s->coll && !(two_level_rows[i].placed & ~placed(s)) &&
		    h->most >= two_level_rows[i].min_ranks && h->most <= two_level_rows[i].max_ranks &&
		    h->n >= two_level_rows[i].min_hosts && s->bytes >= two_level_rows[i].min_bytes &&
		    s->bytes <= two_level_rows[i].max_bytes)
			return true;
	return false;
}

static const struct hdl_algorithm mailbox[HDL_COLL_KINDS] = {
	[HDL_BARRIER] = { HDL_BARRIER, "cells", hdl_build_mailbox_barrier, NULL },
	[HDL_BCAST] = { HDL_BCAST, "cells", hdl_build_mailbox_bcast, NULL },
	[HDL_REDUCE] = { HDL_REDUCE, "cells", hdl_build_mailbox_reduce, NULL },
	[HDL_ALLREDUCE] = { HDL_ALLREDUCE, "cells", hdl_build_mailbox_allreduce, NULL },
	[HDL_ALLGATHER] = { HDL_ALLGATHER, "cells", hdl_build_mailbox_allgather, NULL },
	[HDL_ALLTOALL] = { HDL_ALLTOALL, "cells", hdl_build_mailbox_alltoall, NULL },
	[HDL_GATHER] = { HDL_GATHER, "cells", hdl_build_mailbox_gather, NULL },
	[HDL_SCATTER] = { HDL_SCATTER, "cells", hdl_build_mailbox_scatter, NULL },
	[HDL_REDUCE_SCATTER] = { HDL_REDUCE_SCATTER, "cells", hdl_build_mailbox_reduce_scatter, NULL },
	[HDL_SCAN] = { HDL_SCAN, "cells", hdl_build_mailbox_scan, NULL },
	[HDL_EXSCAN] = { HDL_EXSCAN, "cells", hdl_build_mailbox_scan, NULL },
	[HDL_GATHERV] = { HDL_GATHERV, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_SCATTERV] = { HDL_SCATTERV, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_ALLGATHERV] = { HDL_ALLGATHERV, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_ALLTOALLV] = { HDL_ALLTOALLV, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_NEIGHBORS] = { HDL_NEIGHBORS, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_VREDUCE] = { HDL_VREDUCE, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_VALLREDUCE] = { HDL_VALLREDUCE, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_VREDUCE_SCATTER] = { HDL_VREDUCE_SCATTER, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_VSCAN] = { HDL_VSCAN, "vector", hdl_build_mailbox_vector, NULL },
	[HDL_VEXSCAN] = { HDL_VEXSCAN, "vector", hdl_build_mailbox_vector, NULL },
};
static const struct hdl_algorithm tasks[HDL_COLL_KINDS] = {
	[HDL_BARRIER] = { HDL_BARRIER, "tree", hdl_build_tasks_barrier, NULL },
	[HDL_BCAST] = { HDL_BCAST, "tree", hdl_build_tasks_bcast, NULL },
	[HDL_REDUCE] = { HDL_REDUCE, "tree", hdl_build_tasks_reduce, NULL },
	[HDL_ALLREDUCE] = { HDL_ALLREDUCE, "tree", hdl_build_tasks_allreduce, NULL },
	[HDL_ALLGATHER] = { HDL_ALLGATHER, "bruck", hdl_build_tasks_allgather, NULL },
	[HDL_GATHER] = { HDL_GATHER, "tree", hdl_build_tasks_gather, NULL },
	[HDL_SCATTER] = { HDL_SCATTER, "tree", hdl_build_tasks_scatter, NULL },
	[HDL_ALLTOALL] = { HDL_ALLTOALL, "pairwise", hdl_build_tasks_alltoall, NULL },
	[HDL_REDUCE_SCATTER] = { HDL_REDUCE_SCATTER, "pairwise", hdl_build_tasks_reduce_scatter, fits_operands },
};
/* If the device reduces by atomics. */
static const struct hdl_algorithm star = { HDL_ALLREDUCE, "star", hdl_build_tasks_allreduce_star, NULL };

/*
 * Nonblocking collectives that both executors can run. For a reduction mailbox moves N * N inputs, and each Wait reduces N;
 * tasks moves N up and down, and no CPU reduces: from these rows on tasks takes no more CPU time in all than mailbox (1.3
 * times is allowed), and its Wait is no longer. Collectives without reduction move as many bytes on both, but on tasks
 * completions cost less than polling many cells. Collectives without a row go to mailbox (the operands of a Reduce_scatter go
 * to their owner either way, and the device waits for each).
 */
const struct hdl_crossing hdl_tasks_from[] = {
	{ HDL_REDUCE, 8, 1 << 10 },
	{ HDL_REDUCE, 4, 16 << 10 },
	{ HDL_ALLREDUCE, 8, 1 << 10 },
	{ HDL_ALLREDUCE, 4, 16 << 10 },
	{ HDL_ALLGATHER, 8, 16 << 10 },
	{ HDL_ALLTOALL, 8, 1 << 10 },
	{ HDL_GATHER, 8, 1 << 10 },
};
const size_t hdl_ntasks_from = ARRAY_SIZE(hdl_tasks_from);

bool hdl_tune_prefers_tasks(enum hdl_coll coll, int size, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(hdl_tasks_from); i++)
		if (hdl_tasks_from[i].coll == coll && size >= hdl_tasks_from[i].min_ranks && bytes >= hdl_tasks_from[i].min_bytes)
			return true;
	return false;
}

/* Blocking collectives of more ranks than mailbox takes, which share cores: up to max_bytes tasks is faster than messages.
 * Without a row: never. */
static const struct {
	enum hdl_coll coll;
	size_t max_bytes;
} tasks_to[] = {
	{ HDL_BARRIER, ANY_SIZE }, { HDL_BCAST, ANY_SIZE }, { HDL_REDUCE, ANY_SIZE }, { HDL_ALLREDUCE, ANY_SIZE },
	{ HDL_ALLGATHER, 4 << 10 }, { HDL_ALLTOALL, 4 << 10 }, { HDL_GATHER, 1 << 10 }, { HDL_SCATTER, 1 << 10 },
};

bool hdl_tune_blocks_on_tasks(enum hdl_coll coll, size_t bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(tasks_to); i++)
		if (tasks_to[i].coll == coll)
			return bytes <= tasks_to[i].max_bytes;
	return false;
}

const char *hdl_executor_name(enum hdl_executor executor)
{
	static const char *const names[HDL_EXECUTORS] = {
		[HDL_EXEC_HOST] = "host", [HDL_EXEC_MAILBOX] = "mailbox", [HDL_EXEC_TASKS] = "tasks",
	};

	return names[executor];
}

const char *hdl_reducer_name(enum hdl_coll coll, enum hdl_executor executor)
{
	if (!hdl_coll_reduces(coll) && !hdl_coll_is_vreduce(coll))
		return "-";
	/* host: each rank reduces a part on the way; mailbox: each receiver of a result reduces all of it, when it takes the
	 * result */
	return executor == HDL_EXEC_HOST ? "ranks" : executor == HDL_EXEC_MAILBOX ? "owner" : "device";
}

const char *hdl_coll_name(enum hdl_coll coll)
{
	static const char *const names[HDL_COLL_KINDS] = {
		[HDL_BARRIER] = "barrier", [HDL_BCAST] = "bcast", [HDL_REDUCE] = "reduce",
		[HDL_ALLREDUCE] = "allreduce", [HDL_ALLGATHER] = "allgather", [HDL_ALLTOALL] = "alltoall",
		[HDL_GATHER] = "gather", [HDL_SCATTER] = "scatter", [HDL_REDUCE_SCATTER] = "reduce_scatter",
		[HDL_SCAN] = "scan", [HDL_EXSCAN] = "exscan", [HDL_GATHERV] = "gatherv", [HDL_SCATTERV] = "scatterv",
		[HDL_ALLGATHERV] = "allgatherv", [HDL_ALLTOALLV] = "alltoallv", [HDL_NEIGHBORS] = "neighbors",
		[HDL_VREDUCE] = "reduce (op)", [HDL_VALLREDUCE] = "allreduce (op)",
		[HDL_VREDUCE_SCATTER] = "reduce_scatter (v)", [HDL_VSCAN] = "scan (op)", [HDL_VEXSCAN] = "exscan (op)",
	};

	return names[coll];
}

static const struct hdl_algorithm *tuner_find(const struct hdl_shape *s, const char *name)
{
	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++)
		if (a->coll == s->coll && !strcmp(a->name, name))
			return !a->fits || a->fits(s) ? a : NULL;
	return NULL;
}

static bool where_fits(const struct hdl_shape *s, enum where where)
{
	return where == ANYWHERE ||
	       (s->oversubscribed ? where == OVERSUBSCRIBED : where == OWN_CORES || (where == OWN_CORES_POW2 && fits_pow2(s)));
}

const struct hdl_algorithm *hdl_tune_host(const struct hdl_shape *s, const char *forced)
{
	const struct hdl_algorithm *a = forced && *forced ? tuner_find(s, forced) : NULL;

	if (!a && is_two_level(s))
		a = tuner_find(s, "two-level");
	for (size_t i = 0; !a && i < ARRAY_SIZE(rows); i++)
		if (rows[i].coll == s->coll && s->size >= rows[i].min_ranks && s->bytes <= rows[i].max_bytes &&
		    where_fits(s, rows[i].where))
			a = tuner_find(s, rows[i].name);
	return a;
}

struct hdl_graph *hdl_build_hier(const struct hdl_shape *s)
{
	return hdl_build_hier_by(s, hdl_tune_host);
}

/*
 * A longer collective is one graph, in which a segment is passed on within a host while the next one arrives:
 * bench/results/collectives.md.
 */
#define NODE_PHASE_MAX 8192

bool hdl_tune_hier(const struct hdl_shape *s, const char *forced)
{
	return s->bytes <= NODE_PHASE_MAX && hdl_tune_host(s, forced)->build == hdl_build_hier;
}

/* Mailbox: one hop, each input once per peer. Star: each word added once per rank, at least two hops. */
const struct hdl_algorithm *hdl_tune_offload(enum hdl_executor executor, const struct hdl_shape *s)
{
	const struct hdl_algorithm *a = executor == HDL_EXEC_MAILBOX ? &mailbox[s->coll] : &tasks[s->coll];

	if (executor == HDL_EXEC_TASKS && s->enc && s->enc->by == HDL_ENC_BY_ATOMICS)
		return s->coll == HDL_ALLREDUCE ? &star : NULL;
	return a->build && (!a->fits || a->fits(s)) ? a : NULL;
}

bool hdl_tune_pairs(enum hdl_coll coll)
{
	return coll == HDL_ALLTOALL || coll == HDL_REDUCE_SCATTER;
}

int hdl_tune_check(enum hdl_coll coll, const char *forced, const char **nearest)
{
	const char *names[8];
	int n = 0;

	*nearest = NULL;
	if (!forced || !*forced)
		return 0;
	for (const struct hdl_algorithm *a = hdl_host_algorithms; a->name; a++) {
		if (a->coll != coll)
			continue;
		if (!strcmp(a->name, forced))
			return 0;
		if (n < 7)
			names[n++] = a->name;
	}
	names[n] = NULL;
	*nearest = hdl_nearest(forced, names);
	return -EINVAL;
}
