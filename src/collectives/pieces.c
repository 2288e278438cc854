/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of pieces, each with a buffer, a count and a type of its own, and reductions by any operation: gather(v),
 * scatter(v), allgatherv, alltoallv, alltoallw, reduce_scatter(_block), scan, exscan; reduce and allreduce by operations of
 * programs. Plain algorithms: each piece goes from where it is to where it has to be. The graph is made for the call, runs
 * on the host executor, and goes with it.
 *
 * A piece that is one run of bytes is sent and received where it lies: the graph's spaces SEND and RECV begin at address 0,
 * so that their offsets are addresses. Any other one has a packed copy in the run's scratch.
 *
 * Reductions keep the order of the ranks, whatever the operation: what commutes need not be told apart.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/internal.h"
#include "collectives/userop.h"

struct piece {
	void *buf;
	MPI_Count count;
	const struct hdl_type *type;
	size_t bytes;
	size_t off;			/* in the scratch, if it is packed */
	bool packed;
};

struct hdl_pieces_run {
	struct hdl_run *run;
	struct hdl_graph *g;
	struct hdl_req *req;		/* NULL: blocking */
	struct hdl_reducer reducer;
	size_t places;			/* the reducer's, in the scratch */
	uint32_t nin, nout;
	struct piece *in, *out;		/* what this rank gives, and gets */
	bool finished;
	int error;
	char why[160];
};

/* ---- building ------------------------------------------------------------------------------------------ */

static struct hdl_ref ref_of(const struct piece *p)
{
	return p->packed ? hdl_ref(HDL_SP_TMP, p->off) : hdl_ref(HDL_SP_RECV, (size_t)p->buf);
}

static struct hdl_ref part_of(struct hdl_ref ref, size_t off)
{
	return hdl_ref(ref.space, ref.off + off);
}

/* Where each piece is while the graph runs. copy: not in place, since it changes meanwhile. */
static void place(struct hdl_gb *b, struct piece *p, bool copy)
{
	p->bytes = (size_t)p->count * (size_t)hdl_type_size(p->type);
	p->packed = p->bytes && (copy || (!hdl_type_is_run(p->type, p->count) &&
					  !hdl_type_find_run(p->type, p->count, &p->buf)));
	if (p->packed)
		p->off = hdl_gb_tmp(b, 1, p->bytes);
}

static void send_piece(struct hdl_gb *b, int to, const struct piece *p)
{
	if (p->bytes)
		hdl_gb_send(b, to, 0, ref_of(p), p->bytes);
}

static void recv_piece(struct hdl_gb *b, int from, const struct piece *p)
{
	if (p->bytes)
		hdl_gb_recv(b, from, 0, ref_of(p), p->bytes);
}

/* in: one for each rank this one sends to, out: for each it receives from; own: index of its own, or -1 if it stays. */
static void build_exchange(struct hdl_gb *b, const struct hdl_pieces *a, struct hdl_pieces_run *r, const struct hdl_comm *comm)
{
	int n = comm->size, me = comm->rank;

	for (int k = 1; k < n; k++) {
		int to = (me + k) % n, from = (me - k + n) % n;

		if (r->nin && (a->coll != HDL_P_GATHER || to == a->root))
			send_piece(b, to, &r->in[r->nin > 1 ? to : 0]);
		if (r->nout && (a->coll != HDL_P_SCATTER || from == a->root))
			recv_piece(b, from, &r->out[r->nout > 1 ? from : 0]);
	}
	if (r->nin && r->nout && !a->in_place && (a->coll == HDL_P_EXCHANGE || me == a->root)) {
		const struct piece *in = &r->in[r->nin > 1 ? me : 0], *out = &r->out[r->nout > 1 ? me : 0];

		hdl_gb_copy(b, ref_of(out), ref_of(in), in->bytes < out->bytes ? in->bytes : out->bytes);
	}
}

static struct hdl_ref scratch(struct hdl_gb *b, size_t bytes)
{
	return hdl_ref(HDL_SP_TMP, hdl_gb_tmp(b, 1, bytes));
}

/* Over a binomial tree to rank 0: a child has the ranks right after those that its parent has so far. */
static void build_reduce(struct hdl_gb *b, const struct hdl_pieces *a, struct hdl_pieces_run *r, const struct hdl_comm *comm)
{
	struct hdl_ref acc = ref_of(&r->in[0]), result = r->nout ? ref_of(&r->out[0]) : acc;
	size_t len = r->in[0].bytes;
	int me = comm->rank, bit;

	for (bit = 1; bit < comm->size && !(me & bit); bit *= 2) {
		struct hdl_ref more;

		if (me + bit >= comm->size)
			continue;
		more = scratch(b, len);
		hdl_gb_recv(b, me + bit, 0, more, len);
		hdl_gb_reduce(b, more, acc, len);
		acc = more;
	}
	if (me)
		hdl_gb_send(b, me & (me - 1), 0, acc, len);
	if (a->coll == HDL_P_REDUCE) {
		if (!me && a->root)
			hdl_gb_send(b, a->root, 1, acc, len);
		else if (!me && (acc.space != result.space || acc.off != result.off))
			hdl_gb_copy(b, result, acc, len);
		else if (me == a->root && me)
			hdl_gb_recv(b, 0, 1, result, len);
		return;
	}
	if (me)
		hdl_gb_recv(b, me & (me - 1), 2, result, len);
	else if (acc.space != result.space || acc.off != result.off)
		hdl_gb_copy(b, result, acc, len);
	for (bit /= 2; bit; bit /= 2)
		if (me + bit < comm->size)
			hdl_gb_send(b, me + bit, 2, result, len);
}

/* Every rank sends part i of its input to rank i, which combines them in the order of the ranks. counts: of elements. */
static void build_reduce_scatter(struct hdl_gb *b, const struct hdl_pieces *a, struct hdl_pieces_run *r,
				 const struct hdl_comm *comm)
{
	struct hdl_ref input = ref_of(&r->in[0]), acc = input;
	size_t off = 0, len = r->out[0].bytes;
	int n = comm->size, me = comm->rank;
	size_t *at = calloc((size_t)n + 1, sizeof(*at));

	if (!at) {
		hdl_gb_tmp(b, SIZE_MAX, 2);	/* the builder fails */
		return;
	}
	for (int i = 0; i < n; i++) {
		at[i] = off;
		off += (size_t)(a->counts ? a->counts[i] : a->count) * r->reducer.size;
	}
	at[n] = off;
	for (int k = 1; k < n; k++) {
		int to = (me + k) % n;

		if (at[to + 1] > at[to])
			hdl_gb_send(b, to, 0, part_of(input, at[to]), at[to + 1] - at[to]);
	}
	for (int s = 0; s < n && len; s++) {
		struct hdl_ref part = scratch(b, len);

		if (s == me)
			hdl_gb_copy(b, part, part_of(input, at[me]), len);
		else
			hdl_gb_recv(b, s, 0, part, len);
		if (s)
			hdl_gb_reduce(b, part, acc, len);
		acc = part;
	}
	hdl_gb_copy(b, ref_of(&r->out[0]), acc, len);
	free(at);
}

/* After step k a rank has the combination of all ranks of its group of 2^(k+1), as far as they exist, for its partners, and
 * that of the ranks before it in the group for itself. */
static void build_scan(struct hdl_gb *b, const struct hdl_pieces *a, struct hdl_pieces_run *r, const struct hdl_comm *comm)
{
	struct hdl_ref result = ref_of(r->nout ? &r->out[0] : &r->in[0]), all;	/* without a result this is not used */
	size_t len = r->in[0].bytes;
	bool some = a->coll == HDL_P_SCAN;	/* result holds something */
	int me = comm->rank;
	uint32_t k = 0;

	all = scratch(b, len);
	hdl_gb_copy(b, all, ref_of(&r->in[0]), len);
	if (some && !a->in_place)
		hdl_gb_copy(b, result, all, len);
	for (int bit = 1; bit < comm->size; bit *= 2, k++) {
		int peer = me ^ bit;
		struct hdl_ref theirs;

		if (peer >= comm->size)
			continue;
		theirs = scratch(b, len);
		hdl_gb_send(b, peer, k, all, len);
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
		hdl_gb_reduce(b, all, theirs, len);
	}
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void release_types(struct hdl_pieces_run *r)
{
	for (uint32_t i = 0; i < r->nout; i++)
		hdl_type_release((struct hdl_type *)r->out[i].type);
	if (r->reducer.type)
		hdl_type_release((struct hdl_type *)r->reducer.type);
	hdl_op_release(r->reducer.op);
}

static void give_up(struct hdl_pieces_run *r)
{
	release_types(r);
	hdl_run_free(r->run);
	hdl_graph_free(r->g);
	free(r->in);
	free(r->out);
	free(r);
}

static void done(struct hdl_run *run)
{
	struct hdl_pieces_run *r = run->arg;
	struct hdl_req *req = r->req;

	for (uint32_t i = 0; i < r->nout && !run->error; i++) {
		const struct piece *p = &r->out[i];

		if (p->packed)
			hdl_unpack(p->buf, run->base[HDL_SP_TMP] + p->off, p->count, p->type, 0, p->bytes);
	}
	r->error = run->error;
	r->finished = true;
	if (!req)
		return;
	if (r->error)
		hdl_req_reason(req, run->why);
	int error = r->error;
	give_up(r);
	hdl_req_complete(req, error);
}

static bool copy_pieces(struct piece **to, uint32_t *n, const struct hdl_piece *from, int count)
{
	*to = calloc((size_t)count + 1, sizeof(**to));
	if (!*to)
		return false;
	for (int i = 0; i < count; i++)
		(*to)[i] = (struct piece){ .buf = (void *)from[i].buf, .count = from[i].count, .type = from[i].type };
	*n = (uint32_t)count;
	return true;
}

static void build(struct hdl_gb *b, const struct hdl_pieces *a, struct hdl_pieces_run *r, const struct hdl_comm *comm)
{
	bool reduces = r->reducer.type != NULL;
	/* An exchange in place takes each piece from where another one will come. */
	bool copies = a->coll == HDL_P_EXCHANGE && a->in_place && r->nin > 1;

	for (uint32_t i = 0; i < r->nin; i++)
		place(b, &r->in[i], copies);
	for (uint32_t i = 0; i < r->nout; i++)
		place(b, &r->out[i], false);
	if (reduces && r->reducer.unpacks)
		r->places = hdl_gb_tmp(b, 2, r->reducer.room);
	switch (a->coll) {
	case HDL_P_REDUCE:
	case HDL_P_ALLREDUCE:
		build_reduce(b, a, r, comm);
		break;
	case HDL_P_REDUCE_SCATTER:
		build_reduce_scatter(b, a, r, comm);
		break;
	case HDL_P_SCAN:
	case HDL_P_EXSCAN:
		build_scan(b, a, r, comm);
		break;
	default:
		build_exchange(b, a, r, comm);
	}
}

static void reduce_node(const struct hdl_run *run, const void *src, void *dst, size_t len)
{
	const struct hdl_pieces_run *r = run->arg;

	hdl_reducer_apply(&r->reducer, src, dst, len, run->base[HDL_SP_TMP] + r->places);
}

static struct hdl_pieces_run *make(struct hdl_comm *comm, const struct hdl_pieces *a)
{
	struct hdl_pieces_run *r = calloc(1, sizeof(*r));
	struct hdl_gb *b;

	if (!r)
		return NULL;
	if (!copy_pieces(&r->in, &r->nin, a->in, a->nin) || !copy_pieces(&r->out, &r->nout, a->out, a->nout)) {
		free(r->in);
		free(r->out);
		free(r);
		return NULL;
	}
	for (uint32_t i = 0; i < r->nout; i++)
		hdl_type_retain((struct hdl_type *)r->out[i].type);	/* its user may free it meanwhile */
	if (a->op != MPI_OP_NULL) {
		hdl_reducer_init(&r->reducer, a->op, a->type);
		hdl_type_retain((struct hdl_type *)a->type);
		hdl_op_retain(r->reducer.op);
	}
	b = hdl_gb_new("pieces", NULL, 1);
	if (!b)
		goto fail;
	build(b, a, r, comm);
	r->g = hdl_gb_finish(b);
	r->run = r->g && hdl_coll_state(comm) ? hdl_run_new(r->g, comm) : NULL;
	if (!r->run || hdl_run_prepare_host(r->run))
		goto fail;
	r->run->done = done;
	r->run->arg = r;
	r->run->reduce = reduce_node;
	for (uint32_t i = 0; i < r->nin; i++)
		if (r->in[i].packed)
			hdl_pack(r->run->base[HDL_SP_TMP] + r->in[i].off, r->in[i].buf, r->in[i].count, r->in[i].type, 0,
				 r->in[i].bytes);
	/* What the graph leaves as it is comes back as it was: the own piece in place, the first rank's of an exscan. */
	for (uint32_t i = 0; (a->in_place || a->coll == HDL_P_EXSCAN) && i < r->nout; i++)
		if (r->out[i].packed)
			hdl_pack(r->run->base[HDL_SP_TMP] + r->out[i].off, r->out[i].buf, r->out[i].count, r->out[i].type, 0,
				 r->out[i].bytes);
	return r;
fail:
	give_up(r);
	return NULL;
}

static bool is_finished(const void *arg)
{
	return ((const struct hdl_pieces_run *)arg)->finished;
}

int hdl_coll_pieces(struct hdl_comm *comm, const struct hdl_pieces *a, struct hdl_req **req)
{
	struct hdl_pieces_run *r = make(comm, a);
	struct hdl_req *made = NULL;
	int rc;

	if (r && req)
		r->req = made = hdl_req_new(comm);
	if (!r || (req && !made)) {
		if (r)
			give_up(r);
		hdl_reason_set("no memory for the collective's task graph or its scratch");
		return MPI_ERR_NO_MEM;
	}
	if (req)
		*req = made;
	hdl_coll_begin(r->run);
	if (req)
		return MPI_SUCCESS;
	if (!r->finished)
		hdl_wait_until(is_finished, r);
	rc = r->error;
	if (rc)
		hdl_reason_set("%s", r->run->why);
	give_up(r);
	return rc;
}
