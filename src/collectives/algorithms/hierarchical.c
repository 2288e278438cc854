/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two-level collectives of ranks on several hosts, some of which have several ranks. On each host one rank is the leader: the
 * root on its own host, else the lowest rank. The leader phase sends each byte between hosts once per host; the node phases
 * run among the ranks of one host.
 *
 *     ranks      0 1 2 3 | 4 5 6 7        root 5: leaders 0 and 5
 *     Bcast:     5 ─▶ 0 (leader phase), then 0 ─▶ 1 2 3 and 5 ─▶ 4 6 7 (node phases)
 *
 * Each phase is a collective of fewer ranks, with the algorithm that the tuner has for it; hdl_gb_part joins the phases to one
 * graph. The dependences follow from the memory, so a leader passes a segment on within its host while the next segment
 * arrives.
 *
 * Messages of the two phases cannot be confused: no pair of ranks exchanges messages in both. The node phase after the leader
 * phase uses subs from SUB_DOWN on; the one before uses 0 and 1.
 *
 * Blocks travel in the order of the hosts. If the order of the ranks differs (hdl_hosts.order is set), copies convert.
 */
#include "collectives/algorithms/algorithms.h"

#define SUB_DOWN 8

struct hier {
	const struct hdl_shape *s;
	hdl_choose_fn *choose;
	const struct hdl_hosts *h;
	int host, inner;		/* this rank's host; its number among the ranks of that host */
	int ranks;			/* ranks of this host; 1 if the graph has the leader phase only */
	int root_host, root_inner;
	int leader;			/* number of the leader among the ranks of this host */
	bool is_leader;
};

static struct hier hier_of(const struct hdl_shape *s)
{
	struct hier l = { .s = s, .h = s->hosts };
	int place = hdl_hosts_place(l.h, s->rank), root = hdl_hosts_place(l.h, s->root);

	l.host = hdl_hosts_of_place(l.h, place);
	l.inner = place - l.h->first[l.host];
	l.ranks = hdl_hosts_ranks_of(l.h, l.host);
	if (hdl_coll_has_root(s->coll)) {
		l.root_host = hdl_hosts_of_place(l.h, root);
		l.root_inner = root - l.h->first[l.root_host];
	}
	l.leader = l.host == l.root_host ? l.root_inner : 0;
	l.is_leader = l.inner == l.leader;
	if (s->leaders_only)
		l.ranks = 1;
	return l;
}

static int node_rank(const void *arg, int inner)
{
	const struct hier *l = arg;

	return hdl_hosts_rank(l->h, l->h->first[l->host] + inner);
}

static int leader_rank(const void *arg, int host)
{
	const struct hier *l = arg;

	return hdl_hosts_rank(l->h, l->h->first[host] + (host == l->root_host ? l->root_inner : 0));
}

static struct hdl_ref input(const struct hier *l)
{
	return hdl_ref(hdl_input(l->s), 0);
}

/* Adds the collective of one phase. */
static void alg_hier_add(struct hdl_gb *b, const struct hier *l, struct hdl_shape *part, struct hdl_part *where)
{
	part->fn = l->s->fn;
	part->esize = l->s->esize;
	where->arg = l;
	hdl_gb_part(b, l->choose(part, NULL)->build(part), where);
}

static void alg_hier_node_phase(struct hdl_gb *b, const struct hier *l, enum hdl_coll coll, size_t bytes, bool in_place,
				struct hdl_ref send, struct hdl_ref recv, uint32_t sub)
{
	struct hdl_shape part = { .coll = coll, .rank = l->inner, .size = l->ranks, .root = l->leader, .bytes = bytes,
				  .in_place = in_place && (l->is_leader || !hdl_coll_has_root(coll)) };
	struct hdl_part where = { .rank = node_rank, .send = send, .recv = recv, .sub = sub };

	if (l->ranks > 1)
		alg_hier_add(b, l, &part, &where);
}

static void alg_hier_leader_phase(struct hdl_gb *b, const struct hier *l, enum hdl_coll coll, size_t bytes, bool in_place,
				  struct hdl_ref send, struct hdl_ref recv)
{
	struct hdl_shape part = { .coll = coll, .rank = l->host, .size = l->h->n, .root = l->root_host, .bytes = bytes,
				  .in_place = in_place };
	struct hdl_part where = { .rank = leader_rank, .send = send, .recv = recv };

	if (l->is_leader)
		alg_hier_add(b, l, &part, &where);
}

/* Copies blocks from host order to rank order (to_rank) or back, merging blocks that are contiguous in both. */
static void copy_order(struct hdl_gb *b, const struct hier *l, struct hdl_ref by_host, struct hdl_ref by_rank, bool to_rank)
{
	size_t bytes = l->s->bytes;

	for (int p = 0, end; p < l->s->size; p = end) {
		struct hdl_ref hosts = hdl_ref_at(by_host, (size_t)p * bytes);
		struct hdl_ref ranks = hdl_ref_at(by_rank, (size_t)hdl_hosts_rank(l->h, p) * bytes);

		for (end = p + 1; end < l->s->size && hdl_hosts_rank(l->h, end) == hdl_hosts_rank(l->h, end - 1) + 1; end++)
			;
		hdl_gb_copy(b, to_rank ? ranks : hosts, to_rank ? hosts : ranks, (size_t)(end - p) * bytes);
	}
}

/* Offset and length of a host's blocks among the blocks of all ranks, in host order. */
static size_t host_off(const struct hier *l, int host)
{
	return (size_t)l->h->first[host] * l->s->bytes;
}

static size_t host_bytes(const struct hier *l, int host)
{
	return (size_t)hdl_hosts_ranks_of(l->h, host) * l->s->bytes;
}

/* ---- no data, or the same data for all ------------------------------------------------------------------------------- */

static uint32_t after(struct hdl_gb *b, uint32_t node, uint32_t before)
{
	hdl_gb_after(b, node, before);
	return node;
}

static void alg_hier_barrier(struct hdl_gb *b, const struct hier *l)
{
	const struct hdl_ref none = hdl_ref(HDL_SP_NONE, 0);
	uint32_t before = HDL_NODE_NONE, send;
	int bit = 1;

	for (; bit < l->ranks && !(l->inner & bit); bit *= 2)
		if (l->inner + bit < l->ranks)
			before = after(b, hdl_gb_recv(b, node_rank(l, l->inner + bit), 0, none, 0), before);
	if (!l->is_leader) {
		after(b, hdl_gb_send(b, node_rank(l, l->inner - bit), 0, none, 0), before);
		before = after(b, hdl_gb_recv(b, node_rank(l, l->inner - bit), SUB_DOWN, none, 0), before);
	}
	for (int d = 1, k = 0; l->is_leader && d < l->h->n; d *= 2, k++) {
		send = hdl_gb_send(b, leader_rank(l, (l->host + d) % l->h->n), (uint32_t)k, none, 0);
		hdl_gb_after(b, send, before);
		before = after(b, hdl_gb_recv(b, leader_rank(l, (l->host - d + l->h->n) % l->h->n), (uint32_t)k, none, 0),
			       before);
	}
	for (bit /= 2; bit; bit /= 2)
		if (l->inner + bit < l->ranks)
			after(b, hdl_gb_send(b, node_rank(l, l->inner + bit), SUB_DOWN, none, 0), before);
}

static void alg_hier_bcast(struct hdl_gb *b, const struct hier *l)
{
	struct hdl_ref buf = hdl_ref(HDL_SP_RECV, 0);

	alg_hier_leader_phase(b, l, HDL_BCAST, l->s->bytes, false, buf, buf);
	alg_hier_node_phase(b, l, HDL_BCAST, l->s->bytes, false, buf, buf, SUB_DOWN);
}

/* ---- reductions --------------------------------------------------------------------------------------------------- */

static void alg_hier_reduce(struct hdl_gb *b, const struct hier *l)
{
	struct hdl_ref sum = input(l), result = hdl_ref(HDL_SP_RECV, 0);
	bool root = l->s->rank == l->s->root;

	if (l->ranks > 1) {
		if (l->is_leader)
			sum = root ? result : hdl_gb_scratch(b, 1, l->s->bytes);
		alg_hier_node_phase(b, l, HDL_REDUCE, l->s->bytes, l->s->in_place, input(l), sum, 0);
	}
	alg_hier_leader_phase(b, l, HDL_REDUCE, l->s->bytes, root && (l->s->in_place || l->ranks > 1), sum, result);
}

static void alg_hier_allreduce(struct hdl_gb *b, const struct hier *l)
{
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0);

	alg_hier_node_phase(b, l, HDL_REDUCE, l->s->bytes, l->s->in_place, input(l), result, 0);
	alg_hier_leader_phase(b, l, HDL_ALLREDUCE, l->s->bytes, l->s->in_place || l->ranks > 1, input(l), result);
	alg_hier_node_phase(b, l, HDL_BCAST, l->s->bytes, false, result, result, SUB_DOWN);
}

/* Each leader receives its host's blocks of the other leaders' sums, and adds the blocks up. */
static void reduce_scatter_leaders(struct hdl_gb *b, const struct hier *l, struct hdl_ref sums, struct hdl_ref out)
{
	size_t mine = host_bytes(l, l->host);
	struct hdl_ref in[2] = { hdl_gb_scratch(b, 1, mine), hdl_gb_scratch(b, 1, mine) };
	int n = l->h->n;

	for (int k = 1; k < n; k++) {
		int to = (l->host + k) % n, from = (l->host - k + n) % n;

		hdl_gb_send(b, leader_rank(l, to), 0, hdl_ref_at(sums, host_off(l, to)), host_bytes(l, to));
		/* The first vector lands in `out`; later ones in two alternating buffers. */
		hdl_gb_recv(b, leader_rank(l, from), 0, k == 1 ? out : in[k & 1], mine);
		hdl_gb_reduce(b, out, k == 1 ? hdl_ref_at(sums, host_off(l, l->host)) : in[k & 1], mine);
	}
}

static void alg_hier_reduce_scatter(struct hdl_gb *b, const struct hier *l)
{
	size_t n = (size_t)l->s->size, bytes = l->s->bytes;
	struct hdl_ref all = input(l), sums, mine, result = hdl_ref(HDL_SP_RECV, 0);

	if (l->h->order) {
		all = hdl_gb_scratch(b, n, bytes);
		copy_order(b, l, all, input(l), false);
	}
	sums = mine = all;
	if (l->ranks > 1 && l->is_leader)
		sums = hdl_gb_scratch(b, n, bytes);
	alg_hier_node_phase(b, l, HDL_REDUCE, n * bytes, false, all, sums, 0);
	if (l->is_leader) {
		mine = hdl_gb_scratch(b, 1, host_bytes(l, l->host));
		reduce_scatter_leaders(b, l, sums, mine);
	}
	if (l->ranks == 1)
		hdl_gb_copy(b, result, mine, bytes);
	alg_hier_node_phase(b, l, HDL_SCATTER, bytes, false, mine, result, SUB_DOWN);
}

/* ---- blocks ---------------------------------------------------------------------------------------------------------- */

/* Sends or receives the blocks of `count` hosts from `host` on, wrapping around: up to two messages. */
static void exchange_host_blocks(struct hdl_gb *b, const struct hier *l, struct hdl_ref all, int peer, int step, int host,
				 int count, bool send)
{
	for (int run = 0, n; run < 2 && count; run++, host = 0, count -= n) {
		struct hdl_ref ref = hdl_ref_at(all, host_off(l, host));
		size_t len;

		n = host + count < l->h->n ? count : l->h->n - host;
		len = host_off(l, host + n) - host_off(l, host);
		if (send)
			hdl_gb_send(b, leader_rank(l, peer), hdl_sub(2 * step + run), ref, len);
		else
			hdl_gb_recv(b, leader_rank(l, peer), hdl_sub(2 * step + run), ref, len);
	}
}

#define RING_MIN ((size_t)64 << 10)	/* bytes of all blocks: beyond, the leaders use a ring */

/* Allgather among the leaders, each of which starts with its own host's blocks: a ring, or for short vectors doubling from the
 * hosts ahead. */
static void alg_hier_gather_leaders(struct hdl_gb *b, const struct hier *l, struct hdl_ref all)
{
	int n = l->h->n, have = 1;

	if ((size_t)l->s->size * l->s->bytes > RING_MIN) {
		for (int k = 0; k < n - 1; k++) {
			exchange_host_blocks(b, l, all, (l->host + 1) % n, k, (l->host - k + n) % n, 1, true);
			exchange_host_blocks(b, l, all, (l->host - 1 + n) % n, k, (l->host - k - 1 + n) % n, 1, false);
		}
		return;
	}
	for (int k = 0; have < n; k++) {
		int more = have < n - have ? have : n - have;

		exchange_host_blocks(b, l, all, (l->host - have + n) % n, k, l->host, more, true);
		exchange_host_blocks(b, l, all, (l->host + have) % n, k, (l->host + have) % n, more, false);
		have += more;
	}
}

/* Gathers this host's blocks at their place in `all` at the leader; a rank that is alone on its host copies its block. */
static void alg_hier_gather_node(struct hdl_gb *b, const struct hier *l, struct hdl_ref all, struct hdl_ref own)
{
	struct hdl_ref mine = hdl_ref_at(all, host_off(l, l->host));
	bool in_position = hdl_ref_same(own, hdl_ref_at(mine, (size_t)l->inner * l->s->bytes));

	alg_hier_node_phase(b, l, HDL_GATHER, l->s->bytes, in_position, own, mine, 0);
	if (l->ranks == 1 && !in_position)
		hdl_gb_copy(b, mine, own, l->s->bytes);
}

static void alg_hier_allgather(struct hdl_gb *b, const struct hier *l)
{
	size_t n = (size_t)l->s->size, bytes = l->s->bytes;
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0), all = l->h->order ? hdl_gb_scratch(b, n, bytes) : result;

	alg_hier_gather_node(b, l, all, l->s->in_place ? hdl_ref_at(result, (size_t)l->s->rank * bytes) : input(l));
	if (l->is_leader)
		alg_hier_gather_leaders(b, l, all);
	alg_hier_node_phase(b, l, HDL_BCAST, n * bytes, false, all, all, SUB_DOWN);
	if (l->h->order)
		copy_order(b, l, all, result, true);
}

static void alg_hier_gather(struct hdl_gb *b, const struct hier *l)
{
	size_t bytes = l->s->bytes;
	struct hdl_ref result = hdl_ref(HDL_SP_RECV, 0), all = result, own = input(l), mine;

	if (l->s->rank != l->s->root) {
		mine = l->is_leader && l->ranks > 1 ? hdl_gb_scratch(b, (size_t)l->ranks, bytes) : own;
		alg_hier_node_phase(b, l, HDL_GATHER, bytes, false, own, mine, 0);
		if (l->is_leader)
			hdl_gb_send(b, l->s->root, 0, mine, host_bytes(l, l->host));
		return;
	}
	if (l->h->order)
		all = hdl_gb_scratch(b, (size_t)l->s->size, bytes);
	alg_hier_gather_node(b, l, all, l->s->in_place ? hdl_ref_at(result, (size_t)l->s->rank * bytes) : own);
	for (int k = 1; k < l->h->n; k++) {
		int host = (l->host + k) % l->h->n;

		hdl_gb_recv(b, leader_rank(l, host), 0, hdl_ref_at(all, host_off(l, host)), host_bytes(l, host));
	}
	if (l->h->order)
		copy_order(b, l, all, result, true);
}

static void alg_hier_scatter(struct hdl_gb *b, const struct hier *l)
{
	size_t bytes = l->s->bytes;
	struct hdl_ref all = hdl_ref(HDL_SP_SEND, 0), result = hdl_ref(HDL_SP_RECV, 0), mine = result;

	if (l->s->rank != l->s->root) {
		if (l->is_leader && l->ranks > 1)
			mine = hdl_gb_scratch(b, (size_t)l->ranks, bytes);
		if (l->is_leader)
			hdl_gb_recv(b, l->s->root, 0, mine, host_bytes(l, l->host));
		alg_hier_node_phase(b, l, HDL_SCATTER, bytes, false, mine, result, SUB_DOWN);
		return;
	}
	if (l->h->order) {
		all = hdl_gb_scratch(b, (size_t)l->s->size, bytes);
		copy_order(b, l, all, hdl_ref(HDL_SP_SEND, 0), false);
	}
	mine = hdl_ref_at(all, host_off(l, l->host));
	for (int k = 1; k < l->h->n; k++) {
		int host = (l->host + k) % l->h->n;

		hdl_gb_send(b, leader_rank(l, host), 0, hdl_ref_at(all, host_off(l, host)), host_bytes(l, host));
	}
	alg_hier_node_phase(b, l, HDL_SCATTER, bytes, l->s->in_place, mine, result, SUB_DOWN);
	if (l->ranks == 1 && !l->s->in_place)
		hdl_gb_copy(b, result, mine, bytes);
}

struct hdl_graph *hdl_build_hier_by(const struct hdl_shape *s, hdl_choose_fn *choose)
{
	static void (*const builds[HDL_COLLS])(struct hdl_gb *b, const struct hier *l) = {
		[HDL_BARRIER] = alg_hier_barrier,     [HDL_BCAST] = alg_hier_bcast,
		[HDL_REDUCE] = alg_hier_reduce,       [HDL_ALLREDUCE] = alg_hier_allreduce,
		[HDL_ALLGATHER] = alg_hier_allgather, [HDL_GATHER] = alg_hier_gather,
		[HDL_SCATTER] = alg_hier_scatter,     [HDL_REDUCE_SCATTER] = alg_hier_reduce_scatter,
	};
	struct hdl_gb *b = hdl_gb_new("two-level", s->fn, s->esize);
	struct hier l = hier_of(s);

	if (!b)
		return NULL;
	l.choose = choose;
	if (!s->leaders_only || l.is_leader)
		builds[s->coll](b, &l);
	return hdl_gb_finish(b);
}
