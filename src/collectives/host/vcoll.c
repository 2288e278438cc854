/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * V-collectives by messages, with blocks that have a buffer, a count and a type each, and reductions by any operation: gather(v),
 * scatter(v), allgatherv, alltoallv, alltoallw, reduce_scatter(_block), scan, exscan, neighborhood collectives; reduce and
 * allreduce by operations of programs; and all collectives of intercommunicators. The graph is made for the call
 * (algorithms/vcoll.c), runs on the host executor, and is freed with the call; a blocking call with small blocks has no graph
 * (immediate.c). A persistent request keeps graph and run: each start packs, and starts the run.
 *
 * A block that is one run of bytes is sent from and received into the user's buffer: the graph's spaces SEND and RECV begin at
 * address 0, so that offsets are addresses. Any other block has a packed copy in the run's scratch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/host/host.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

/* Decides where the block lies while the graph runs: in the user's buffer, or packed in scratch. copy: the block must be packed,
 * since the graph overwrites the user's buffer. */
static void vcoll_place(struct hdl_gb *b, struct host_block *p, bool copy)
{
	p->bytes = (size_t)p->count * (size_t)hdl_type_size(p->type);
	p->packed = p->bytes && (copy || (!hdl_type_is_run(p->type, p->count) &&
					  !hdl_type_find_run(p->type, p->count, &p->buf)));
	if (p->packed)
		p->off = hdl_gb_tmp(b, 1, p->bytes);
}

/* ---- running ------------------------------------------------------------------------------------------- */

static void release_types(struct hdl_vcoll_run *r)
{
	for (uint32_t i = 0; i < r->nout; i++)
		hdl_type_release((struct hdl_type *)r->out[i].type);
	for (uint32_t i = 0; r->persistent && i < r->nin; i++)
		hdl_type_release((struct hdl_type *)r->in[i].type);
	if (r->reducer.type)
		hdl_type_release((struct hdl_type *)r->reducer.type);
	hdl_op_release(r->reducer.op);
}

static void vcoll_give_up(struct hdl_vcoll_run *r)
{
	release_types(r);
	hdl_run_free(r->run);
	hdl_graph_free(r->g);
	free(r->in);
	free(r->out);
	free(r);
}

static void vcoll_pack(const struct hdl_vcoll_run *r, const struct host_block *p, uint32_t n)
{
	for (const struct host_block *end = p + n; p < end; p++)
		if (p->packed)
			hdl_pack(r->run->base[HDL_SP_TMP] + p->off, p->buf, p->count, p->type, 0, p->bytes);
}

static void vcoll_unpack(const struct hdl_vcoll_run *r)
{
	for (const struct host_block *p = r->out, *end = p + r->nout; p < end; p++)
		if (p->packed)
			hdl_unpack(p->buf, r->run->base[HDL_SP_TMP] + p->off, p->count, p->type, 0, p->bytes);
}

/* Packs the blocks before the graph runs. refill: packs the receive blocks, too, so that parts that the graph does not write are
 * unpacked unchanged: this rank's block in place, the first rank's result of an exscan, blocks of neighbors that send none. */
static void vcoll_load(struct hdl_vcoll_run *r)
{
	vcoll_pack(r, r->in, r->nin);
	if (r->refill)
		vcoll_pack(r, r->out, r->nout);
	/* the run fails before it begins: hdl_host_start makes its sends empty */
	if (unlikely(r->sent != r->room))
		hdl_run_misfit(r->run, r->sent, r->room);
}

static void vcoll_done(struct hdl_run *run)
{
	struct hdl_vcoll_run *r = run->arg;
	struct hdl_req *req = r->req;
	int error;

	if (!run->error)
		vcoll_unpack(r);
	r->error = error = run->error;
	r->finished = true;
	if (r->instead) {
		struct hdl_run *of = r->instead;

		if (error) {
			hdl_reason_set("%s", run->why);
			hdl_run_error(of, error);
		}
		vcoll_give_up(r);
		hdl_run_finish(of);
		return;
	}
	if (!req)
		return;
	if (error)
		hdl_req_reason(req, run->why);
	if (!r->persistent)
		vcoll_give_up(r);
	hdl_req_complete(req, error);
}

static void fill_blocks(struct host_block *to, const struct hdl_vcoll_block *from, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = (struct host_block){ .buf = (void *)from[i].buf, .count = from[i].count, .type = from[i].type,
					     .space = HDL_SP_RECV };
}

static bool vcoll_copy_lists(struct host_block **to, uint32_t *n, const struct hdl_vcoll_block *from, int count)
{
	*to = calloc((size_t)count + 1, sizeof(**to));
	if (!*to)
		return false;
	fill_blocks(*to, from, count);
	*n = (uint32_t)count;
	return true;
}

static void place_all(struct hdl_gb *b, const struct hdl_vcoll *a, struct hdl_vcoll_run *r)
{
	/* An exchange in place sends each block from memory into which the peer's block is received. Without the copy that
	 * receive would wait for the end of the send, and the peer, which does the same, would never receive. */
	bool copies = a->coll == HDL_V_EXCHANGE && a->in_place && r->nin > 1;

	for (uint32_t i = 0; i < r->nin; i++)
		vcoll_place(b, &r->in[i], copies);
	for (uint32_t i = 0; i < r->nout; i++)
		vcoll_place(b, &r->out[i], false);
	if (r->reducer.type && r->reducer.unpacks)
		r->places = hdl_gb_tmp(b, 2, r->reducer.unpack_bytes);
}

static void reduce_node(const struct hdl_run *run, const void *src, void *dst, size_t len)
{
	const struct hdl_vcoll_run *r = run->arg;

	hdl_reducer_apply(&r->reducer, src, dst, len, run->base[HDL_SP_TMP] + r->places);
}

/* Retains types and operation that are used after the call: the user may free them. Send types are used later by persistent
 * requests only, since the send blocks of other calls are packed in the call, or are a run of bytes. */
static void vcoll_retain_types(struct hdl_vcoll_run *r, const struct hdl_vcoll *a)
{
	for (uint32_t i = 0; i < r->nout; i++)
		hdl_type_retain((struct hdl_type *)r->out[i].type);
	for (uint32_t i = 0; r->persistent && i < r->nin; i++)
		hdl_type_retain((struct hdl_type *)r->in[i].type);
	if (a->op == MPI_OP_NULL)
		return;
	hdl_reducer_init(&r->reducer, a->op, a->type);
	hdl_type_retain((struct hdl_type *)a->type);
	hdl_op_retain(r->reducer.op);
}

static bool refills(const struct hdl_vcoll *a)
{
	return a->in_place || a->coll == HDL_V_EXSCAN || a->coll == HDL_V_NEIGHBORS;
}

/* Looks up the ranks' hosts, by which the algorithm for long blocks to all ranks is chosen: on all ranks, or on none. Returns
 * false if there is no memory. */
static bool knows_hosts(struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	const struct hdl_hosts *hosts;

	return a->coll != HDL_V_EXCHANGE || a->nin != 1 || comm->local || comm->size > HDL_HIER_RANKS ||
	       !hdl_group_hosts(comm->group, &hosts);
}

static struct hdl_vcoll_run *vcoll_make(struct hdl_comm *comm, const struct hdl_vcoll *a, enum hdl_form_kind form)
{
	bool persistent = form == HDL_PERSISTS;
	struct hdl_vcoll_run *r = knows_hosts(comm, a) ? calloc(1, sizeof(*r)) : NULL;
	struct hdl_gb *b;

	if (!r)
		return NULL;
	if (!vcoll_copy_lists(&r->in, &r->nin, a->in, a->nin) || !vcoll_copy_lists(&r->out, &r->nout, a->out, a->nout)) {
		free(r->in);
		free(r->out);
		free(r);
		return NULL;
	}
	r->persistent = persistent;
	r->refill = refills(a);
	vcoll_retain_types(r, a);
	b = hdl_gb_new("blocks", NULL, 1);
	if (!b)
		goto fail;
	place_all(b, a, r);
	hdl_build_vcoll(b, a, r, comm);
	r->g = hdl_gb_finish(b);
	r->run = r->g && hdl_coll_state(comm) ? hdl_run_new(r->g, comm) : NULL;
	if (!r->run || hdl_run_prepare_host(r->run))
		goto fail;
	r->run->done = vcoll_done;
	r->run->arg = r;
	r->run->reduce = reduce_node;
	r->run->retain = true;	/* vcoll_done() unpacks from the scratch, behind hdl_run_finish */
	if (unlikely(hdl_vars.check)) {
		r->run->check = hdl_check_vcoll(comm, a, form);
		if (!r->run->check)
			goto fail;
	}
	return r;
fail:
	vcoll_give_up(r);
	return NULL;
}

static bool vcoll_is_finished(const void *arg)
{
	return ((const struct hdl_vcoll_run *)arg)->finished;
}

/* ---- blocking, and small: without a graph --------------------------------------------------------------------- */

#define IMMEDIATE_BLOCKS 256		/* with more blocks a graph is faster: receives are posted before their messages come */

/* Returns true if the rank's block for itself fits its place. If not, a graph is needed, whose messages are empty from the first
 * on, so that the peers learn of the error. */
static bool own_fits(const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	const struct hdl_vcoll_block *in, *out;

	return !hdl_vcoll_own(a, comm->rank, &in, &out) || hdl_vcoll_block_bytes(in) == hdl_vcoll_block_bytes(out);
}

/* Returns true if the call runs without a graph. Each rank decides by itself: the messages are the same. */
static bool runs_immediate(const struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	return !comm->local && !hdl_vars.check && a->coll != HDL_V_NEIGHBORS && a->nin + a->nout <= IMMEDIATE_BLOCKS &&
	       comm->size <= IMMEDIATE_BLOCKS && hdl_vcoll_most(a->in, a->nin) <= hdl_vars.eager_max &&
	       hdl_vcoll_most(a->out, a->nout) <= hdl_vars.eager_max && own_fits(comm, a);
}

/* Revokes the communicator, and sets the reason. Returns MPI_ERR_NO_MEM. */
static int vcoll_no_memory(struct hdl_comm *comm)
{
	hdl_coll_no_memory(comm);
	hdl_reason_set("no memory for the collective's task graph or its scratch");
	return MPI_ERR_NO_MEM;
}

static int run_immediate(struct hdl_comm *comm, const struct hdl_vcoll *a)
{
	struct hdl_vcoll_run r;
	struct hdl_immediate *s = knows_hosts(comm, a) ? hdl_immediate_begin(comm) : NULL;
	int rc;

	if (unlikely(!s))
		return vcoll_no_memory(comm);
	r.nin = (uint32_t)a->nin;
	r.nout = (uint32_t)a->nout;
	r.in = hdl_immediate_tmp(s, (r.nin + r.nout) * sizeof(*r.in));
	if (unlikely(!r.in)) {
		hdl_immediate_put(s);
		return vcoll_no_memory(comm);
	}
	r.out = r.in + r.nin;
	fill_blocks(r.in, a->in, a->nin);
	fill_blocks(r.out, a->out, a->nout);
	r.run = &s->run;
	r.persistent = false;
	r.refill = refills(a);
	r.sent = r.room = 0;
	r.reducer.type = NULL;
	r.reducer.op = NULL;
	vcoll_retain_types(&r, a);
	s->run.arg = &r;
	s->run.reduce = reduce_node;
	place_all(s->gb, a, &r);
	if (likely(hdl_gb_goes_on(s->gb)))
		vcoll_load(&r);
	hdl_build_vcoll(s->gb, a, &r, comm);
	rc = hdl_immediate_end(s);
	if (likely(!rc)) {
		vcoll_unpack(&r);
	} else {
		hdl_ft_progress();
		hdl_reason_set("%s", s->run.why);
	}
	release_types(&r);
	hdl_immediate_put(s);
	return rc;
}

/* ---- with a graph ---------------------------------------------------------------------------------------------------- */

bool hdl_vcoll_instead(struct hdl_run *run, const struct hdl_vcoll *a)
{
	struct hdl_vcoll_run *r = vcoll_make(run->comm, a, HDL_STARTS);

	if (!r)
		return false;
	r->instead = run;
	r->run->tag = run->tag;
	vcoll_load(r);
	hdl_host_start(r->run);
	return true;
}

static int run_graph(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req)
{
	struct hdl_vcoll_run *r = vcoll_make(comm, a, req ? HDL_STARTS : HDL_BLOCKS);
	struct hdl_req *made = NULL;
	int rc;

	if (r && req)
		r->req = made = hdl_req_new(comm);
	if (!r || (req && !made)) {
		if (r)
			vcoll_give_up(r);
		return vcoll_no_memory(comm);
	}
	if (req)
		*req = made;
	vcoll_load(r);
	hdl_coll_begin(r->run);
	if (req)
		return MPI_SUCCESS;
	if (!r->finished)
		hdl_wait_until(vcoll_is_finished, r);
	rc = r->error;
	if (rc) {
		hdl_ft_progress();
		hdl_reason_set("%s", r->run->why);
	}
	vcoll_give_up(r);
	return rc;
}

/* ---- persistent ------------------------------------------------------------------------------------------- */

static int vcoll_begin(struct hdl_req *req, void *arg)
{
	struct hdl_vcoll_run *r = arg;

	r->req = req;
	hdl_run_begin(r->run);
	vcoll_load(r);
	hdl_coll_begin(r->run);
	return MPI_SUCCESS;
}

static void vcoll_put(void *arg)
{
	vcoll_give_up(arg);
}

int hdl_host_vcoll_start(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req)
{
	return !req && runs_immediate(comm, a) ? run_immediate(comm, a) : run_graph(comm, a, req);
}

int hdl_host_vcoll_prepare(struct hdl_comm *comm, const struct hdl_vcoll *a, struct hdl_req **req)
{
	struct hdl_vcoll_run *r;
	struct hdl_check *check;
	int rc = MPI_SUCCESS;

	r = vcoll_make(comm, a, HDL_PERSISTS);
	if (!r)
		return vcoll_no_memory(comm);
	check = r->run->check;
	r->run->check = NULL;
	if (unlikely(check))
		rc = hdl_check_agree(check, comm);
	if (!rc) {
		hdl_coll_number_persistent(r->run);
		if (hdl_collective_init(comm, vcoll_begin, vcoll_put, r, req))
			rc = vcoll_no_memory(comm);	/* peers may have their request, and start it */
	}
	if (rc)
		vcoll_give_up(r);
	return rc;
}
