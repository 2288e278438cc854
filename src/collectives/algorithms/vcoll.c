/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The algorithms of v-collectives: each is a sequential program against the builder, for one rank and one call.
 *
 * In an intercommunicator a peer below comm->size is a rank of the remote group; the ranks of the local group follow
 * (hdl_own_peer). An intercommunicator's collective consists of the local group's part, and of an exchange between the ranks 0 of
 * both groups or between pairs of ranks.
 *
 * Reductions combine in the order of the ranks for every operation, commutative or not.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/host/host.h"

/* Subs of messages of one pair and direction that no dependence orders. */
enum { SUB_DATA, SUB_RESULT, SUB_DOWN };

static struct hdl_ref ref_of(const struct host_block *p)
{
	return p->packed ? hdl_ref(HDL_SP_TMP, p->off) : hdl_ref(p->space, (size_t)p->buf);
}

static void alg_vcoll_fail(struct hdl_gb *b)
{
	hdl_gb_tmp(b, SIZE_MAX, 2);
}

static uint32_t send_block(struct hdl_gb *b, int to, uint32_t sub, const struct host_block *p)
{
	return p->bytes ? hdl_gb_send(b, to, sub, ref_of(p), p->bytes) : HDL_NODE_NONE;
}

static uint32_t recv_block(struct hdl_gb *b, int from, uint32_t sub, const struct host_block *p)
{
	return p->bytes ? hdl_gb_recv(b, from, sub, ref_of(p), p->bytes) : HDL_NODE_NONE;
}

static int alg_vcoll_least(int a, int b)
{
	return a < b ? a : b;
}

/* Copies the rank's block for itself. The first mismatch of the two lengths is recorded in r->sent and r->room. */
static void copy_own(struct hdl_gb *b, struct hdl_vcoll_run *r, const struct host_block *out, const struct host_block *in)
{
	if (r->sent == r->room) {
		r->sent = in->bytes;
		r->room = out->bytes;
	}
	hdl_gb_copy(b, ref_of(out), ref_of(in), in->bytes < out->bytes ? in->bytes : out->bytes);
}

static const struct host_block *in_of(const struct hdl_vcoll_run *r, int i)
{
	return &r->in[r->nin > 1 ? i : 0];
}

static const struct host_block *vcoll_out_of(const struct hdl_vcoll_run *r, int i)
{
	return &r->out[r->nout > 1 ? i : 0];
}

/* ---- choice of the algorithm ------------------------------------------------------------------------------------------ */

/*
 * Small blocks of many ranks travel together along a tree: fewer messages, and each byte is moved several times. Everything
 * else is linear or pairwise: each block travels alone. Must depend only on values that all ranks know. HEDDLE_COLL_VECTOR
 * forces one of the two where both exist.
 */
static const struct {
	enum hdl_vcoll_kind coll;
	int min_ranks;
	size_t max_bytes;		/* GATHER, SCATTER, SCAN: of one block; EXCHANGE with one block for all: of all blocks */
} trees[] = {
	{ HDL_V_GATHER, 24, 256 },
	{ HDL_V_SCATTER, 24, 256 },
	{ HDL_V_EXCHANGE, 4, 4 << 10 },
	{ HDL_V_SCAN, 9, 8 << 10 },
	{ HDL_V_EXSCAN, 9, 8 << 10 },
};

static bool takes_tree(enum hdl_vcoll_kind coll, const struct hdl_comm *comm, size_t bytes)
{
	if (comm->local || comm->size < 3 || !bytes || !strcmp(hdl_vars.coll_vector, "linear"))
		return false;
	if (*hdl_vars.reduce_order && (coll == HDL_V_SCAN || coll == HDL_V_EXSCAN))
		return false;	/* HEDDLE_REDUCE_ORDER=fixed: one operand after the other */
	if (!strcmp(hdl_vars.coll_vector, "tree"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++)
		if (trees[i].coll == coll)
			return comm->size >= trees[i].min_ranks && bytes <= trees[i].max_bytes;
	return false;
}

/* ---- each block from its source to its destination -------------------------------------------------------------------- */

/* Steps whose sends precede the first wait for a receive: more would only fill queues and the peers' memory. */
#define WINDOW	32

/* Allgather of few bytes: after each step a rank has the blocks of twice as many ranks, from its own on, contiguous in `buf`. */
static void allgather_doubling(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm,
		       const size_t *off)
{
	int n = comm->size, me = comm->rank;
	struct hdl_ref buf = hdl_gb_scratch(b, 1, off[n]);
	const struct host_block *in = &r->in[0];

	hdl_gb_copy(b, buf, ref_of(in), in->bytes < off[1] ? in->bytes : off[1]);
	for (int have = 1; have < n; have *= 2) {
		int more = have < n - have ? have : n - have;

		if (off[more])
			hdl_gb_send(b, (me - have + n) % n, SUB_DATA, buf, off[more]);
		if (off[have + more] > off[have])
			hdl_gb_recv(b, (me + have) % n, SUB_DATA, hdl_ref_at(buf, off[have]), off[have + more] - off[have]);
	}
	for (int k = 1; k < n; k++)
		hdl_gb_copy(b, ref_of(&r->out[(me + k) % n]), hdl_ref_at(buf, off[k]), off[k + 1] - off[k]);
	if (!a->in_place)
		copy_own(b, r, &r->out[me], in);
}

#define RING_MIN ((size_t)256 << 10)	/* bytes of all blocks */

/*
 * Returns true if long blocks of an Allgather go along a ring of all ranks, rather than from their source to each other rank.
 * Where the ranks of a host are consecutive, the ring carries each block to a host once, and not once per rank of the host.
 * That pays if the hosts' shared port takes longer for the extra copies than the ring's steps take. A step of the ring costs
 * about 5/2 of one block at the port.
 */
static bool uses_ring(const struct hdl_comm *comm, size_t all)
{
	const struct hdl_hosts *h = comm->group ? comm->group->hosts : NULL;

	if (comm->local || comm->size < 3 || !all)
		return false;
	if (!strcmp(hdl_vars.coll_vector, "ring"))
		return true;
	return h && !h->order && all >= RING_MIN && hdl_vars.coll_hierarchy != 1 && !*hdl_vars.coll_vector &&
	       2ll * h->most * (comm->size - h->most) > 5ll * (comm->size - 1);
}

/* In step k a rank sends the block that it received in step k - 1; in step 0 its own. */
static void allgather_ring(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int n = comm->size, me = comm->rank;

	for (int k = 0; k < n - 1; k++) {
		const struct host_block *from = k ? &r->out[(me - k + n) % n] : &r->in[0];

		send_block(b, (me + 1) % n, hdl_sub(k), from);
		recv_block(b, (me - 1 + n) % n, hdl_sub(k), &r->out[(me - k - 1 + n) % n]);
	}
	if (!a->in_place)
		copy_own(b, r, &r->out[me], &r->in[0]);
}

/* Builds an Allgather of few bytes by doubling, or of many bytes by a ring. Returns false if neither applies. */
static bool build_allgather(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int n = comm->size;
	size_t *off, all = 0;

	for (int i = 0; i < n; i++)
		all += r->out[i].bytes;
	if (r->nin == 1 && uses_ring(comm, all)) {
		allgather_ring(b, a, r, comm);
		return true;
	}
	if (r->nin != 1 || !takes_tree(HDL_V_EXCHANGE, comm, all))
		return false;
	off = calloc((size_t)n + 1, sizeof(*off));
	if (!off) {
		alg_vcoll_fail(b);
		return true;
	}
	for (int k = 0; k < n; k++)
		off[k + 1] = off[k] + r->out[(comm->rank + k) % n].bytes;
	allgather_doubling(b, a, r, comm, off);
	free(off);
	return true;
}

/*
 * In each step one message to a rank and one from another. All sends of a window of steps precede its receives. The send of
 * step k depends on the receive of step k - WINDOW, which keeps the ranks about in step; a step depends on lower steps only,
 * so there is no cycle.
 */
static void build_exchange(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int n = comm->size, me = hdl_own_rank(comm);
	uint32_t before[WINDOW];

	if (build_allgather(b, a, r, comm))
		return;
	for (int i = 0; i < WINDOW; i++)
		before[i] = HDL_NODE_NONE;
	for (int first = comm->local ? 0 : 1, end; first < n; first = end) {
		end = alg_vcoll_least(first + WINDOW, n);
		for (int k = first; k < end; k++) {
			int to = (me + k) % n;

			hdl_gb_after(b, send_block(b, to, SUB_DATA, in_of(r, to)), before[k % WINDOW]);
		}
		for (int k = first; k < end; k++) {
			int from = comm->local ? (me + k) % n : (me - k + n) % n;

			before[k % WINDOW] = recv_block(b, from, SUB_DATA, vcoll_out_of(r, from));
		}
	}
	if (!comm->local && !a->in_place)
		copy_own(b, r, vcoll_out_of(r, me), in_of(r, me));
}

/* Neighborhood collectives (section 8.6). */
static void build_neighbors(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int me = comm->rank;

	for (int k = 0; k < a->nto; k++)
		if (a->to[k] != MPI_PROC_NULL && a->to[k] != me)
			send_block(b, a->to[k], hdl_sub(hdl_edge_to(a, k)), in_of(r, k));
	for (int k = 0; k < a->nout; k++)
		if (a->from[k] != MPI_PROC_NULL && a->from[k] != me)
			recv_block(b, a->from[k], hdl_sub(hdl_edge_from(a, k)), &r->out[k]);
	for (int to = -1, from = -1; hdl_edge_own(a, me, &to, &from);)
		copy_own(b, r, &r->out[from], in_of(r, to));
}

/* ---- one to all, all to one ------------------------------------------------------------------------------------------ */

/* A rank's position in the binomial tree of `root`. The rank has the blocks of `span` ranks from itself on. A child is at a
 * distance bit < reach and has at most `bit` ranks' blocks. */
struct node {
	int n, root, v;			/* v: the rank, counted from the root */
	int reach, span;
};

static struct node alg_vcoll_node_of(const struct hdl_comm *comm, int root)
{
	struct node t = { .n = comm->size, .root = root, .v = (comm->rank - root + comm->size) % comm->size, .reach = 1 };

	while (t.reach < t.n && !(t.v & t.reach))
		t.reach *= 2;
	t.span = alg_vcoll_least(t.reach, t.n - t.v);
	return t;
}

static int alg_vcoll_rank_at(const struct node *t, int v)
{
	return (v + t->root) % t->n;
}

static void gather_tree(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm,
			size_t each)
{
	struct node t = alg_vcoll_node_of(comm, a->root);
	struct hdl_ref buf = t.span > 1 ? hdl_gb_scratch(b, 1, (size_t)t.span * each) : ref_of(&r->in[0]);

	if (t.v && t.span > 1)
		hdl_gb_copy(b, buf, ref_of(&r->in[0]), each);
	for (int bit = 1; bit < t.reach && t.v + bit < t.n; bit *= 2)
		hdl_gb_recv(b, alg_vcoll_rank_at(&t, t.v + bit), SUB_DATA, hdl_ref_at(buf, (size_t)bit * each),
			    (size_t)alg_vcoll_least(bit, t.n - t.v - bit) * each);
	if (t.v) {
		hdl_gb_send(b, alg_vcoll_rank_at(&t, t.v & (t.v - 1)), SUB_DATA, buf, (size_t)t.span * each);
		return;
	}
	for (int v = 1; v < t.n; v++)
		hdl_gb_copy(b, ref_of(&r->out[alg_vcoll_rank_at(&t, v)]), hdl_ref_at(buf, (size_t)v * each), each);
	if (r->nin)
		copy_own(b, r, &r->out[a->root], &r->in[0]);
}

static void scatter_tree(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm,
			 size_t each)
{
	struct node t = alg_vcoll_node_of(comm, a->root);
	struct hdl_ref buf = t.span > 1 ? hdl_gb_scratch(b, 1, (size_t)t.span * each) : ref_of(&r->out[0]);

	if (t.v)
		hdl_gb_recv(b, alg_vcoll_rank_at(&t, t.v & (t.v - 1)), SUB_DATA, buf, (size_t)t.span * each);
	for (int v = 1; !t.v && v < t.n; v++)
		hdl_gb_copy(b, hdl_ref_at(buf, (size_t)v * each), ref_of(&r->in[alg_vcoll_rank_at(&t, v)]), each);
	for (int bit = t.reach / 2; bit; bit /= 2)	/* the child with the longest path first */
		if (t.v + bit < t.n)
			hdl_gb_send(b, alg_vcoll_rank_at(&t, t.v + bit), SUB_DATA, hdl_ref_at(buf, (size_t)bit * each),
				    (size_t)alg_vcoll_least(bit, t.n - t.v - bit) * each);
	if (!t.v && r->nout)
		copy_own(b, r, &r->out[0], &r->in[a->root]);
	else if (t.v && t.span > 1)
		hdl_gb_copy(b, ref_of(&r->out[0]), buf, each);
}

static void build_gather(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int me = comm->local ? MPI_PROC_NULL : comm->rank;
	size_t each = r->nout ? r->out[0].bytes : r->nin ? r->in[0].bytes : 0;

	if (a->alike && takes_tree(a->coll, comm, each)) {
		gather_tree(b, a, r, comm, each);
		return;
	}
	if (!r->nout && r->nin)
		send_block(b, a->root, SUB_DATA, &r->in[0]);
	for (uint32_t i = 0; i < r->nout; i++)
		if ((int)i != me)
			recv_block(b, (int)i, SUB_DATA, &r->out[i]);
		else if (r->nin)
			copy_own(b, r, &r->out[i], &r->in[0]);
}

static void build_scatter(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int me = comm->local ? MPI_PROC_NULL : comm->rank;
	size_t each = r->nin ? r->in[0].bytes : r->nout ? r->out[0].bytes : 0;

	if (a->alike && takes_tree(a->coll, comm, each)) {
		scatter_tree(b, a, r, comm, each);
		return;
	}
	if (!r->nin && r->nout)
		recv_block(b, a->root, SUB_DATA, &r->out[0]);
	for (uint32_t i = 0; i < r->nin; i++)
		if ((int)i != me)
			send_block(b, (int)i, SUB_DATA, &r->in[i]);
	for (uint32_t i = 0; i < r->nin; i++)
		if ((int)i == me && r->nout)
			copy_own(b, r, &r->out[0], &r->in[i]);
}

/* ---- within the local group, to and from its rank 0 ------------------------------------------------------------------ */

/* Combines all ranks' `acc` at rank 0 of the local group. A child has the ranks directly behind those that its parent has so
 * far, which keeps the order. */
static struct hdl_ref reduce_local_group(struct hdl_gb *b, const struct hdl_comm *comm, struct hdl_ref acc, size_t len)
{
	int me = hdl_own_rank(comm), n = hdl_own_size(comm);

	for (int bit = 1; bit < n && !(me & bit); bit *= 2) {
		struct hdl_ref more;

		if (me + bit >= n)
			continue;
		more = hdl_gb_scratch(b, 1, len);
		hdl_gb_recv(b, hdl_own_peer(comm, me + bit), SUB_DATA, more, len);
		hdl_gb_reduce(b, more, acc, len);
		acc = more;
	}
	if (me)
		hdl_gb_send(b, hdl_own_peer(comm, me & (me - 1)), SUB_DATA, acc, len);
	return acc;
}

/* Sends rank 0's data to all other ranks of the local group. */
static void bcast_local_group(struct hdl_gb *b, const struct hdl_comm *comm, struct hdl_ref data, size_t len)
{
	int me = hdl_own_rank(comm), n = hdl_own_size(comm), bit;

	for (bit = 1; bit < n && !(me & bit); bit *= 2)
		;
	if (me)
		hdl_gb_recv(b, hdl_own_peer(comm, me & (me - 1)), SUB_DOWN, data, len);
	for (bit /= 2; bit; bit /= 2)
		if (me + bit < n)
			hdl_gb_send(b, hdl_own_peer(comm, me + bit), SUB_DOWN, data, len);
}

/* ---- reductions --------------------------------------------------------------------------------------------------- */

static void build_reduce(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	int me = comm->rank;
	struct hdl_ref acc;
	size_t len;

	if (comm->local) {
		if (r->nout)
			recv_block(b, 0, SUB_RESULT, &r->out[0]);
		if (!r->nin || !r->in[0].bytes)
			return;
		acc = reduce_local_group(b, comm, ref_of(&r->in[0]), r->in[0].bytes);
		if (!hdl_own_rank(comm))
			hdl_gb_send(b, a->root, SUB_RESULT, acc, r->in[0].bytes);
		return;
	}
	len = r->in[0].bytes;
	if (!len)
		return;
	acc = reduce_local_group(b, comm, ref_of(&r->in[0]), len);
	if (!me && a->root)
		hdl_gb_send(b, a->root, SUB_RESULT, acc, len);
	else if (me == a->root && me)
		hdl_gb_recv(b, 0, SUB_RESULT, ref_of(&r->out[0]), len);
	else if (me == a->root && !hdl_ref_same(acc, ref_of(&r->out[0])))
		hdl_gb_copy(b, ref_of(&r->out[0]), acc, len);
}

static void build_allreduce(struct hdl_gb *b, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	struct hdl_ref acc, result = ref_of(&r->out[0]);
	size_t len = r->in[0].bytes;

	if (!len)
		return;
	acc = reduce_local_group(b, comm, ref_of(&r->in[0]), len);
	if (!hdl_own_rank(comm) && comm->local) {
		hdl_gb_send(b, 0, SUB_RESULT, acc, len);
		hdl_gb_recv(b, 0, SUB_RESULT, result, len);
	} else if (!hdl_own_rank(comm) && !hdl_ref_same(acc, result)) {
		hdl_gb_copy(b, result, acc, len);
	}
	bcast_local_group(b, comm, result, len);
}

/* Offsets of the parts of the vector, and its end; of the local group. Ownership: the caller frees. NULL: no memory. */
static size_t *alg_vcoll_parts_of(const struct hdl_vcoll *a, const struct hdl_vcoll_run *r, int n)
{
	size_t *at = calloc((size_t)n + 1, sizeof(*at));

	for (int i = 0; at && i < n; i++)
		at[i + 1] = at[i] + (size_t)(a->counts ? a->counts[i] : a->count) * r->reducer.size;
	return at;
}

/* Intercommunicator: the ranks 0 exchange their groups' results; each then scatters the other group's result to its own group. */
static void reduce_scatter_inter(struct hdl_gb *b, struct hdl_vcoll_run *r, const struct hdl_comm *comm, const size_t *at, int n)
{
	size_t len = r->in[0].bytes;
	struct hdl_ref acc, theirs;

	if (!len)
		return;
	acc = reduce_local_group(b, comm, ref_of(&r->in[0]), len);
	if (hdl_own_rank(comm)) {
		recv_block(b, hdl_own_peer(comm, 0), SUB_DOWN, &r->out[0]);
		return;
	}
	theirs = hdl_gb_scratch(b, 1, len);
	hdl_gb_send(b, 0, SUB_RESULT, acc, len);
	hdl_gb_recv(b, 0, SUB_RESULT, theirs, len);
	for (int i = 1; i < n; i++)
		if (at[i + 1] > at[i])
			hdl_gb_send(b, hdl_own_peer(comm, i), SUB_DOWN, hdl_ref_at(theirs, at[i]), at[i + 1] - at[i]);
	hdl_gb_copy(b, ref_of(&r->out[0]), theirs, r->out[0].bytes);
}

/* Vectors travel in segments: one segment is combined, in the cache, while other segments are in flight. Each segment has its own
 * sub. */
#define SEGMENT		((size_t)256 << 10)
#define SEGMENTS_MAX	1024

static size_t vcoll_smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Bytes of a segment: whole elements. */
static size_t segment_of(const struct hdl_vcoll_run *r, size_t bytes)
{
	size_t size = r->reducer.size ? r->reducer.size : 1, seg = bytes / SEGMENTS_MAX + 1;

	return ((seg > SEGMENT ? seg : SEGMENT) + size - 1) / size * size;
}

/* Returns true if the operands may swap sides; a user-defined operation always gets them in the order of the ranks. */
static bool commutes(const struct hdl_vcoll_run *r)
{
	return !r->reducer.op;
}

/* Landing buffers, used in turn: the next segment arrives while the last one is combined. */
#define LANDINGS	4
struct landings {
	struct hdl_ref at[LANDINGS];
	size_t bytes;
	int next;
};

static struct hdl_ref next_landing(struct hdl_gb *b, struct landings *p)
{
	int i = p->next++;

	if (i < LANDINGS)
		p->at[i] = hdl_gb_scratch(b, 1, p->bytes);
	return p->at[i % LANDINGS];
}

/* Receives all ranks' parts and combines them with this rank's part `own` in `sum`, in the order of the ranks. `sum` overlaps
 * none of them. */
static void combine(struct hdl_gb *b, const struct hdl_comm *comm, struct hdl_ref sum, struct hdl_ref own, size_t len,
		    uint32_t sub, struct landings *landings)
{
	int me = comm->rank, first = me ? 0 : 1;

	for (int s = 0; s < comm->size; s++) {
		struct hdl_ref part = s == me ? own : s == first ? sum : next_landing(b, landings);

		if (s != me)
			hdl_gb_recv(b, s, sub, part, len);
		if (s > first || (s == first && !me))
			hdl_gb_reduce(b, sum, s == first ? own : part, len);
	}
}

/* The same for an operation that does not commute: the later part must be the right operand, which the operation overwrites. */
static void combine_ordered(struct hdl_gb *b, const struct hdl_comm *comm, struct hdl_ref sum, struct hdl_ref own, size_t len,
			    uint32_t sub, struct landings *landings)
{
	struct hdl_ref acc = own;

	for (int s = 0; s < comm->size; s++) {
		struct hdl_ref part = s == comm->size - 1 ? sum : next_landing(b, landings);

		if (s == comm->rank)
			hdl_gb_copy(b, part, own, len);
		else
			hdl_gb_recv(b, s, sub, part, len);
		if (s)
			hdl_gb_reduce(b, part, acc, len);
		acc = part;
	}
}

static void send_parts(struct hdl_gb *b, const struct hdl_vcoll_run *r, const struct hdl_comm *comm, const size_t *at)
{
	bool more = true;

	for (uint32_t i = 0; more; i++) {
		more = false;
		for (int k = 1; k < comm->size; k++) {
			int to = (comm->rank + k) % comm->size;
			size_t len = at[to + 1] - at[to], seg = segment_of(r, len);

			if (i * seg >= len)
				continue;
			more = true;
			hdl_gb_send(b, to, i, hdl_ref_at(ref_of(&r->in[0]), at[to] + i * seg), vcoll_smaller(seg, len - i * seg));
		}
	}
}

/* Each rank sends part i of its input to rank i. */
static void build_reduce_scatter(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r,
				 const struct hdl_comm *comm)
{
	struct hdl_ref out = ref_of(&r->out[0]), own, sum;
	size_t len = r->out[0].bytes, seg = segment_of(r, len), *at = alg_vcoll_parts_of(a, r, hdl_own_size(comm));
	struct landings landings = { .bytes = vcoll_smaller(seg, len) };

	if (!at) {
		alg_vcoll_fail(b);
		return;
	}
	if (comm->local) {
		reduce_scatter_inter(b, r, comm, at, hdl_own_size(comm));
		free(at);
		return;
	}
	send_parts(b, r, comm, at);
	own = hdl_ref_at(ref_of(&r->in[0]), at[comm->rank]);
	sum = a->in_place && len ? hdl_gb_scratch(b, 1, len) : out;	/* in place: the result overlaps other parts of the
									 * input */
	for (size_t off = 0; off < len && comm->size > 1; off += seg)
		(commutes(r) ? combine : combine_ordered)(b, comm, hdl_ref_at(sum, off), hdl_ref_at(own, off),
							  vcoll_smaller(seg, len - off), (uint32_t)(off / seg), &landings);
	if (comm->size == 1)
		sum = own;
	if (!hdl_ref_same(sum, out))
		hdl_gb_copy(b, out, sum, len);
	free(at);
}

/* ---- prefixes ----------------------------------------------------------------------------------------------------- */

/* Builds one segment. Returns the result of the ranks up to this one, which goes to the next rank. */
static struct hdl_ref vcoll_scan_segment(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, int me, size_t off,
					 size_t len, uint32_t sub, struct landings *landings)
{
	struct hdl_ref in = hdl_ref_at(ref_of(&r->in[0]), off), out = hdl_ref_at(ref_of(&r->out[0]), off), before = out;
	bool copies = !a->in_place;

	if (me && commutes(r) && !a->in_place)
		copies = false;
	else if (me)
		before = next_landing(b, landings);
	if (copies)
		hdl_gb_copy(b, out, in, len);
	if (!me)
		return in;
	hdl_gb_recv(b, me - 1, sub, before, len);
	hdl_gb_reduce(b, out, hdl_ref_same(before, out) ? in : before, len);
	return out;
}

static struct hdl_ref exscan_segment(struct hdl_gb *b, struct hdl_vcoll_run *r, int me, bool last, size_t off, size_t len,
				     uint32_t sub, struct landings *landings)
{
	struct hdl_ref in = hdl_ref_at(ref_of(&r->in[0]), off), out, all = in;

	if (!me)
		return in;
	out = hdl_ref_at(ref_of(&r->out[0]), off);
	if (!last) {
		all = next_landing(b, landings);
		hdl_gb_copy(b, all, in, len);	/* in place: the received segment overwrites the input */
	}
	hdl_gb_recv(b, me - 1, sub, out, len);
	if (!last)
		hdl_gb_reduce(b, all, out, len);
	return all;
}

/* A chain of ranks, pipelined: each byte crosses each link once. */
static void scan_chain(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	size_t bytes = r->in[0].bytes, seg = segment_of(r, bytes);
	struct landings landings = { .bytes = vcoll_smaller(seg, bytes) };
	int me = comm->rank;
	bool last = me == comm->size - 1;
	uint32_t sub = 0;

	for (size_t off = 0; off < bytes; off += seg, sub++) {
		size_t len = vcoll_smaller(seg, bytes - off);
		struct hdl_ref all = a->coll == HDL_V_SCAN ? vcoll_scan_segment(b, a, r, me, off, len, sub, &landings) :
							     exscan_segment(b, r, me, last, off, len, sub, &landings);

		if (!last)
			hdl_gb_send(b, me + 1, sub, all, len);
	}
}

/* Returns true if the combination of the rank's group of 2 * bit ranks is needed by a rank outside the group. */
static bool is_needed_outside(int rank, int bit, int n)
{
	for (bit *= 2; bit < n; bit *= 2) {
		int peer = rank ^ bit;

		if (peer < n && (peer > rank || is_needed_outside(peer, bit, n)))
			return true;
	}
	return false;
}

/* Recursive doubling. After step k `all` is the combination of the rank's group of 2^(k+1) ranks, as far as they exist, for
 * its partners; `result` is that of the ranks up to this one in the group (Exscan: before this one). */
static void scan_doubling(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	struct hdl_ref result = ref_of(r->nout ? &r->out[0] : &r->in[0]), all;	/* unused if the rank has no result */
	size_t len = r->in[0].bytes;
	bool some = a->coll == HDL_V_SCAN;	/* result holds a value */
	int me = comm->rank, n = comm->size;
	uint32_t k = 0;

	all = hdl_gb_scratch(b, 1, len);
	hdl_gb_copy(b, all, ref_of(&r->in[0]), len);
	if (some && !a->in_place)
		hdl_gb_copy(b, result, all, len);
	for (int bit = 1; bit < n; bit *= 2, k++) {
		int peer = me ^ bit;
		struct hdl_ref theirs;

		if (peer >= n)
			continue;
		if (peer > me || is_needed_outside(peer, bit, n))
			hdl_gb_send(b, peer, k, all, len);
		if (peer > me && !is_needed_outside(me, bit, n))
			continue;
		theirs = hdl_gb_scratch(b, 1, len);
		hdl_gb_recv(b, peer, k, theirs, len);
		if (peer > me) {
			hdl_gb_reduce(b, theirs, all, len);
			all = theirs;
			continue;
		}
		if (some)
			hdl_gb_reduce(b, result, theirs, len);
		else
			hdl_gb_copy(b, result, theirs, len);
		some = true;
		if (is_needed_outside(me, bit, n))
			hdl_gb_reduce(b, all, theirs, len);
	}
}

static void build_scan(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	if (!r->in[0].bytes)
		return;
	if (takes_tree(a->coll, comm, r->in[0].bytes))
		scan_doubling(b, a, r, comm);
	else
		scan_chain(b, a, r, comm);
}

/* ---- intercommunicators only; intracommunicators have kept graphs (coll.c) ------------------------------------------ */

static void build_bcast(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	if (r->nin)
		send_block(b, 0, SUB_RESULT, &r->in[0]);
	if (!r->nout || !r->out[0].bytes)
		return;
	if (!hdl_own_rank(comm))
		recv_block(b, a->root, SUB_RESULT, &r->out[0]);
	bcast_local_group(b, comm, ref_of(&r->out[0]), r->out[0].bytes);
}

/* A byte goes up each group's tree, to the other group's rank 0, and down: no rank completes before all ranks of both groups
 * have begun. */
static void build_barrier(struct hdl_gb *b, const struct hdl_comm *comm)
{
	int me = hdl_own_rank(comm), n = hdl_own_size(comm);
	struct hdl_ref byte = hdl_gb_scratch(b, 1, 1);

	for (int bit = 1; bit < n && !(me & bit); bit *= 2)
		if (me + bit < n)
			hdl_gb_recv(b, hdl_own_peer(comm, me + bit), SUB_DATA, byte, 1);
	if (me) {
		hdl_gb_send(b, hdl_own_peer(comm, me & (me - 1)), SUB_DATA, byte, 1);
	} else {
		hdl_gb_send(b, 0, SUB_RESULT, byte, 1);
		hdl_gb_recv(b, 0, SUB_RESULT, byte, 1);
	}
	bcast_local_group(b, comm, byte, 1);
}

void hdl_build_vcoll(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r, const struct hdl_comm *comm)
{
	switch (a->coll) {
	case HDL_V_BARRIER:
		build_barrier(b, comm);
		break;
	case HDL_V_BCAST:
		build_bcast(b, a, r, comm);
		break;
	case HDL_V_GATHER:
		build_gather(b, a, r, comm);
		break;
	case HDL_V_SCATTER:
		build_scatter(b, a, r, comm);
		break;
	case HDL_V_EXCHANGE:
		build_exchange(b, a, r, comm);
		break;
	case HDL_V_NEIGHBORS:
		build_neighbors(b, a, r, comm);
		break;
	case HDL_V_REDUCE:
		build_reduce(b, a, r, comm);
		break;
	case HDL_V_ALLREDUCE:
		build_allreduce(b, r, comm);
		break;
	case HDL_V_REDUCE_SCATTER:
		build_reduce_scatter(b, a, r, comm);
		break;
	case HDL_V_SCAN:
	case HDL_V_EXSCAN:
		build_scan(b, a, r, comm);
		break;
	}
}

/* ---- blocks of one length, in kept graphs ---------------------------------------------------------------------------- */

static struct host_block alg_vcoll_block(enum hdl_space space, int index, size_t bytes)
{
	return (struct host_block){ .buf = (void *)((size_t)index * bytes), .space = (uint8_t)space, .bytes = bytes };
}

struct hdl_graph *hdl_build_of_vcoll(const struct hdl_shape *s)
{
	static const enum hdl_vcoll_kind as[HDL_COLLS] = {
		[HDL_GATHER] = HDL_V_GATHER, [HDL_SCATTER] = HDL_V_SCATTER, [HDL_REDUCE_SCATTER] = HDL_V_REDUCE_SCATTER,
		[HDL_SCAN] = HDL_V_SCAN, [HDL_EXSCAN] = HDL_V_EXSCAN,
	};
	const struct hdl_comm comm = { .rank = s->rank, .size = s->size };
	const struct hdl_vcoll a = { .coll = as[s->coll], .root = s->root, .in_place = s->in_place, .alike = true,
				      .count = (MPI_Count)(s->esize ? s->bytes / s->esize : 0) };
	bool root = s->rank == s->root, gather = s->coll == HDL_GATHER, scatter = s->coll == HDL_SCATTER;
	size_t all = s->coll == HDL_REDUCE_SCATTER ? s->bytes * (size_t)s->size : s->bytes;
	struct host_block in = alg_vcoll_block(hdl_input(s), 0, all), out = alg_vcoll_block(HDL_SP_RECV, 0, s->bytes);
	struct host_block *many = calloc((size_t)s->size, sizeof(*many));
	struct hdl_vcoll_run r = { .reducer.size = s->esize, .in = &in, .out = &out, .nin = 1, .nout = 1 };
	struct hdl_gb *b = many ? hdl_gb_new("blocks", s->fn, s->esize) : NULL;

	for (int i = 0; many && i < s->size; i++)
		many[i] = alg_vcoll_block(gather ? HDL_SP_RECV : HDL_SP_SEND, i, s->bytes);
	if (gather) {
		r.nin = !s->in_place;
		r.out = many;
		r.nout = root ? (uint32_t)s->size : 0;
	} else if (scatter) {
		r.in = many;
		r.nin = root ? (uint32_t)s->size : 0;
		r.nout = !s->in_place;
	} else if (s->coll == HDL_EXSCAN) {
		r.nout = s->rank || s->in_place;
	}
	if (b)
		hdl_build_vcoll(b, &a, &r, &comm);
	free(many);
	return b ? hdl_gb_finish(b) : NULL;
}
