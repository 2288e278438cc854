/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The door: finds or makes the plan of a collective (which executor, which graph, and why), binds it to the caller's
 * buffers and hands it to the executor.
 *
 * Executor and algorithm follow from what is the same on all ranks: the collective, its size, the communicator, the
 * configuration, whether ranks outnumber cores. Never from what only one rank knows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/select/check.h"
#include "collectives/internal.h"
#include "collectives/select/tuner.h"

/* ---- plans ----------------------------------------------------------------------------------------------- */

struct hdl_graph *hdl_plan_host_graph(struct hdl_plan *plan, struct hdl_comm *comm)
{
	/* what is mailbox's, but for the first calls, gives the same bits there and here */
	struct hdl_choice choice = { .executor = HDL_EXEC_HOST, .in_order = plan->executor == HDL_EXEC_MAILBOX,
				     .crowded = plan->crowded, .hosts = plan->hosts };

	if (!plan->graph)
		plan->graph = hdl_graph_of(&plan->key, &choice, comm->rank, comm->size);
	return plan->graph;
}

int hdl_run_to_host(struct hdl_run *run)
{
	struct hdl_graph *g = hdl_plan_host_graph(run->plan, run->comm);

	if (!g)
		return -ENOMEM;
	hdl_run_change_graph(run, g);
	return hdl_run_prepare_host(run);
}

void hdl_plan_put(struct hdl_plan *plan)
{
	if (--plan->refs)
		return;
	hdl_coll_count(plan);
	while (plan->spare) {
		struct hdl_run *run = plan->spare;

		plan->spare = run->next;
		hdl_run_free(run);
	}
	hdl_coll_prog_free(plan->prog);
	hdl_graph_free(plan->graph);
	hdl_graph_free(plan->off_graph);
	free(plan);
}

int hdl_plan_choose(const struct hdl_plan_key *key, const struct hdl_comm *comm, struct hdl_comm_props *site, struct hdl_choice *choice)
{
	int err = hdl_comm_props_of(comm, site);

	if (err)
		return err;
	if (comm->size <= HDL_HIER_RANKS && hdl_group_hosts(comm->group, &site->hosts))
		return -ENOMEM;
	return hdl_choose(key, site, choice);
}

/* Whether a call of this plan, a reduction, has to pack its elements. For other collectives is_plan_of checks the types of each call. */
static bool needs_packing(const struct hdl_plan_key *key, int ranks)
{
	MPI_Count blocks = key->coll == HDL_REDUCE_SCATTER ? ranks : 1;

	return key->type && !hdl_type_is_run(key->type, blocks * (MPI_Count)key->bytes / hdl_type_size(key->type));
}

static struct hdl_plan *plan_new(const struct hdl_plan_key *key, struct hdl_comm *comm)
{
	struct hdl_plan *plan = calloc(1, sizeof(*plan));
	struct hdl_choice choice;
	struct hdl_comm_props site;
	int err;

	if (!plan)
		return NULL;
	plan->key = *key;
	plan->refs = 1;
	err = hdl_plan_choose(key, comm, &site, &choice);
	if (err) {
		free(plan);
		errno = -err;
		return NULL;
	}
	plan->executor = choice.executor;
	plan->enc = choice.enc;
	plan->pairs = choice.pairs;
	plan->crowded = choice.crowded;
	plan->hosts = choice.hosts;
	plan->staged = choice.staged;
	plan->leader = hdl_choose_leader(key, &site);
	memcpy(plan->why, choice.why, sizeof(plan->why));
	if (plan->executor != HDL_EXEC_HOST)
		plan->off_graph = hdl_graph_of(key, &choice, comm->rank, comm->size);
	if (plan->executor != HDL_EXEC_HOST ? !plan->off_graph :
	    !hdl_coll_is_vcoll((enum hdl_coll)key->coll) && !hdl_plan_host_graph(plan, comm)) {
		hdl_plan_put(plan);
		return NULL;
	}
	plan->in_order = key->blocking && plan->executor == HDL_EXEC_HOST && !plan->staged && plan->graph && !hdl_vars.check &&
			 hdl_host_can_inline(plan->graph) && !needs_packing(key, comm->size);
	plan->quick = plan->in_order || (plan->executor == HDL_EXEC_MAILBOX && !needs_packing(key, comm->size));
	return plan;
}

static inline bool same_key(const struct hdl_plan_key *a, const struct hdl_plan_key *b)
{
	return a->bytes == b->bytes && a->op == b->op && a->type == b->type && a->root == b->root && a->coll == b->coll &&
	       a->in_place == b->in_place && a->blocking == b->blocking && a->persistent == b->persistent && a->leader == b->leader && a->between == b->between;
}

/* The first of two. */
static inline struct hdl_plan **plan_slot(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	uint64_t h = key->bytes ^ (uint64_t)key->coll << 56 ^ (uint64_t)key->blocking << 52 ^ (uint64_t)key->in_place << 51 ^
		     (uint64_t)key->persistent << 50 ^ (uint64_t)key->between << 49 ^ (uint64_t)((uint32_t)key->root + key->leader) << 40 ^
		     (uintptr_t)key->op << 32 ^ (uintptr_t)key->type << 16;

	_Static_assert(HDL_PLANS == 2 * 64, "six bits");
	return &cc->plans[h * 0x9e3779b97f4a7c15ULL >> 58 << 1];
}

static __attribute__((noinline)) struct hdl_plan *plan_make(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	struct hdl_plan **slot = plan_slot(cc, key), *plan = plan_new(key, cc->comm);

	if (!plan)
		return NULL;
	memset(cc->last, 0, sizeof(cc->last));
	if (slot[1])
		hdl_plan_put(slot[1]);
	slot[1] = slot[0];
	slot[0] = plan;
	return plan;
}

struct hdl_plan *hdl_plan_of(struct hdl_cc *cc, const struct hdl_plan_key *key)
{
	struct hdl_plan **slot = plan_slot(cc, key);

	for (int i = 0; i < 2; i++)
		if (slot[i] && same_key(&slot[i]->key, key))
			return slot[i];
	return plan_make(cc, key);
}

static __attribute__((noinline)) struct hdl_cc *cc_make(struct hdl_comm *comm)
{
	struct hdl_cc *cc = calloc(1, sizeof(*cc));

	comm->coll = cc;
	if (cc) {
		cc->comm = comm;
		hdl_ft_before(cc);
	}
	return cc;
}

/* The plan for these arguments, or NULL without memory. */
static inline struct hdl_plan *plan_get(struct hdl_comm *comm, const struct hdl_coll_args *a, enum hdl_form_kind form, size_t bytes,
					bool in_place)
{
	struct hdl_cc *cc = comm->coll;
	bool reduction = hdl_coll_reduces(a->coll);
	struct hdl_plan_key key = { .op = reduction ? a->op : MPI_OP_NULL, .type = reduction ? a->recvtype : NULL,
				    .bytes = bytes, .root = hdl_coll_has_root(a->coll) ? a->root : 0,
				    .coll = (uint8_t)a->coll, .in_place = in_place, .blocking = form == HDL_BLOCKS,
				    .persistent = form == HDL_PERSISTS, .within = cc && cc->of };
	struct hdl_plan *plan;

	if (unlikely(!cc)) {
		cc = cc_make(comm);
		if (!cc)
			return NULL;
	}
	key.leader = a->coll == HDL_BARRIER && form == HDL_BLOCKS ? cc->leader : 0;
	plan = cc->last[a->coll];
	if (likely(plan && same_key(&plan->key, &key)))
		return plan;
	plan = hdl_plan_of(cc, &key);
	cc->last[a->coll] = plan;
	return plan;
}

/* ---- arguments ------------------------------------------------------------------------------------------- */

/* What a root sends itself is as long as the place for it. The others' blocks do not depend on it. */
static inline bool fits_itself(const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	return (a->coll != HDL_GATHER && a->coll != HDL_SCATTER) || comm->rank != a->root ||
	       a->sendcount * hdl_type_size(a->sendtype) == a->recvcount * hdl_type_size(a->recvtype);
}

static inline bool is_in_place(const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	if (a->coll == HDL_GATHER || a->coll == HDL_SCATTER)
		return comm->rank == a->root &&
		       ((a->coll == HDL_GATHER ? a->sendbuf : a->recvbuf) == MPI_IN_PLACE || !fits_itself(comm, a));
	return a->coll != HDL_BARRIER && a->coll != HDL_BCAST && a->sendbuf == MPI_IN_PLACE &&
	       (a->coll != HDL_REDUCE || comm->rank == a->root);
}

/* Bytes of struct hdl_shape. Signatures agree between ranks, so that bytes do, while counts and types need not. */
static inline size_t coll_bytes_of(const struct hdl_coll_args *a)
{
	if (a->coll == HDL_BARRIER)
		return 0;
	if (a->coll == HDL_SCATTER)
		return (size_t)a->sendcount * (size_t)hdl_type_size(a->sendtype);
	return (size_t)a->recvcount * (size_t)hdl_type_size(a->recvtype);
}

struct hdl_run *hdl_plan_run(struct hdl_plan *plan, struct hdl_comm *comm)
{
	struct hdl_run *run = plan->spare;

	if (likely(run)) {
		plan->spare = run->next;
	} else {
		run = hdl_run_new(plan->executor != HDL_EXEC_HOST ? plan->off_graph : plan->graph, comm);
		if (!run)
			return NULL;
		run->plan = plan;
	}
	if (unlikely((plan->executor != HDL_EXEC_HOST ? hdl_run_prepare_tmp(run) : hdl_run_prepare_host(run)) ||
		     (plan->off_graph && plan->off_graph->reads && hdl_sc_prepare(run)))) {
		hdl_run_free(run);
		return NULL;
	}
	plan->refs++;
	plan->uses++;
	run->req = NULL;
	run->done = NULL;
	return run;
}

void hdl_plan_run_put(struct hdl_run *run)
{
	struct hdl_plan *plan = run->plan;

	if (unlikely(run->check)) {
		hdl_check_free(run->check);
		run->check = NULL;
	}
	run->hollow = false;
	run->next = plan->spare;
	plan->spare = run;
	hdl_plan_put(plan);
}

struct hdl_cc *hdl_coll_state(struct hdl_comm *comm)
{
	return comm->coll ? comm->coll : cc_make(comm);
}

void hdl_ft_give_up(struct hdl_comm *comm, const char *why)
{
	struct hdl_cc *cc = hdl_coll_state(comm);

	if (!cc)
		hdl_out_of_memory("telling the other ranks that this one cannot do its part of a collective", sizeof(*cc));
	if (cc->lost)
		return;
	/* the others' texts send the reader here */
	hdl_error("collectives: this rank cannot do its part of one (%s): the others are told so", why);
	hdl_ft_member_failed(cc, hdl_near(comm, hdl_own_rank(comm)));
}

void hdl_coll_no_memory(struct hdl_comm *comm)
{
	hdl_ft_give_up(comm, "no memory");
	hdl_ft_progress();
}

/* MPI error class. */
static int coll_no_memory(struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	hdl_coll_no_memory(comm);
	hdl_reason_set("%s of %zu bytes%s: no memory for its task graph or its scratch", hdl_coll_name(a->coll), coll_bytes_of(a),
		       a->coll >= HDL_ALLGATHER && a->coll <= HDL_REDUCE_SCATTER ? " for a rank" : "");
	return MPI_ERR_NO_MEM;
}

/* The run has failed before it begins; the other ranks have their part of it. */
static __attribute__((noinline, cold)) void say_misfit(struct hdl_run *run, const struct hdl_coll_args *a)
{
	hdl_run_misfit(run, (size_t)a->sendcount * (size_t)hdl_type_size(a->sendtype),
		       (size_t)a->recvcount * (size_t)hdl_type_size(a->recvtype));
	run->spoiled = true;
}

/* MPI error class. */
static int bind(struct hdl_run *run, const struct hdl_coll_args *args, bool in_place, enum hdl_form_kind form)
{
	int rc;

	if (unlikely(hdl_vars.check)) {
		run->check = hdl_check_args(run->comm, args, form);
		if (!run->check)
			return MPI_ERR_NO_MEM;
	}
	rc = hdl_run_bind(run, args, run->comm->size, in_place);
	if (unlikely(!rc && !fits_itself(run->comm, args)))
		say_misfit(run, args);
	return rc;
}

/* Whether there is nothing to do, which other ranks need not be told. */
static inline bool is_nothing(const struct hdl_coll_args *args, size_t bytes)
{
	return unlikely(!bytes) && args->coll != HDL_BARRIER && !hdl_vars.check;
}

static void coll_start(struct hdl_run *run, bool host)
{
	struct hdl_cc *cc = run->comm->coll;

	if (!(run->tag & HDL_PERSISTENT_TAG))
		run->tag = hdl_coll_tag(cc->seq++);
	if (unlikely(cc->lost)) {
		hdl_run_error(run, MPI_ERR_PROC_ABORTED);
		hdl_run_finish(run);
	} else if (unlikely(run->check))
		hdl_check_start(run);
	else if (host)
		hdl_host_start(run);
	else
		hdl_queues_submit(cc, run);
}

void hdl_coll_number_persistent(struct hdl_run *run)
{
	struct hdl_cc *cc = run->comm->coll;

	run->tag = HDL_PERSISTENT_TAG | hdl_coll_tag(cc->persistent++);
}

void hdl_coll_begin(struct hdl_run *run)
{
	coll_start(run, true);
}

void hdl_coll_submit(struct hdl_run *run)
{
	coll_start(run, false);
}

/* The last thing that touches the communicator: completing the request may free it. */
void hdl_coll_complete(struct hdl_run *run)
{
	struct hdl_req *req = run->req;
	int error = run->error;

	if (unlikely(error))
		hdl_req_reason(req, run->why);
	hdl_plan_run_put(run);
	hdl_req_complete(req, error);
}

/* ---- the door -------------------------------------------------------------------------------------------- */

int hdl_coll_start(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	bool in_place = is_in_place(comm, args);
	size_t bytes = coll_bytes_of(args);
	struct hdl_plan *plan;
	struct hdl_run *run = NULL;
	int rc;

	*req = hdl_req_new(comm);
	if (!*req)
		return coll_no_memory(comm, args);
	if (is_nothing(args, bytes)) {
		hdl_req_complete(*req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	plan = plan_get(comm, args, HDL_STARTS, bytes, in_place);
	run = plan ? hdl_plan_run(plan, comm) : NULL;
	rc = run ? bind(run, args, in_place, HDL_STARTS) : MPI_ERR_NO_MEM;
	if (rc) {
		if (run)
			hdl_plan_run_put(run);
		hdl_req_complete(*req, rc);
		hdl_req_free(*req);
		*req = NULL;
		return coll_no_memory(comm, args);
	}
	run->req = *req;
	if (plan->executor != HDL_EXEC_HOST)
		run->req->look = hdl_queues_look;
	run->done = hdl_coll_complete;
	coll_start(run, plan->executor == HDL_EXEC_HOST);
	return MPI_SUCCESS;
}

/* ---- persistent: the request keeps a run, bound to its buffers, and with that the plan ------------------------ */

void hdl_coll_complete_persistent(struct hdl_run *run)
{
	if (unlikely(run->error))
		hdl_req_reason(run->req, run->why);
	hdl_req_complete(run->req, run->error);
}

/* run: NULL where there is nothing to move. */
static int begin_persistent(struct hdl_req *req, void *arg)
{
	struct hdl_run *run = arg;

	if (!run) {
		hdl_req_complete(req, MPI_SUCCESS);
		return MPI_SUCCESS;
	}
	hdl_run_again(run, req);
	hdl_run_repack(run);
	if (unlikely(!fits_itself(run->comm, &run->args)))
		say_misfit(run, &run->args);
	if (likely(run->pcoll && !((struct hdl_cc *)run->comm->coll)->lost)) {
		hdl_pcoll_start(run->pcoll);
		return MPI_SUCCESS;
	}
	run->plan->fallbacks += run->plan->executor != HDL_EXEC_HOST;
	coll_start(run, true);
	return MPI_SUCCESS;
}

/* What a start looks at: their user may free them meanwhile. */
static void coll_retain_types(const struct hdl_coll_args *a, bool retain)
{
	struct hdl_type *types[] = { (struct hdl_type *)a->sendtype, (struct hdl_type *)a->recvtype };

	for (int i = 0; i < 2; i++)
		if (types[i])
			(retain ? hdl_type_retain : hdl_type_release)(types[i]);
}

static void coll_put_persistent(void *arg)
{
	struct hdl_run *run = arg;

	if (!run)
		return;
	if (run->pcoll)
		hdl_pcoll_free(run->pcoll);
	run->pcoll = NULL;
	coll_retain_types(&run->args, false);
	hdl_run_unbind(run);
	run->keeps = false;
	hdl_plan_run_put(run);
}

/* A run that is bound to these arguments, NULL: no memory. */
static struct hdl_run *run_for_good(struct hdl_comm *comm, const struct hdl_coll_args *args, size_t bytes)
{
	bool in_place = is_in_place(comm, args);
	struct hdl_plan *plan = plan_get(comm, args, HDL_PERSISTS, bytes, in_place);
	struct hdl_run *run = plan ? hdl_plan_run(plan, comm) : NULL;

	if (!run)
		return NULL;
	plan->uses--;		/* not yet */
	if (bind(run, args, in_place, HDL_PERSISTS)) {
		hdl_plan_run_put(run);
		return NULL;
	}
	run->keeps = true;
	run->done = hdl_coll_complete_persistent;
	coll_retain_types(args, true);
	return run;
}

/* What the plan's executor has to have for it, among all ranks. MPI error class. */
static int make_persistent(struct hdl_run *run)
{
	struct hdl_check *check = run->check;
	int rc;

	/* its arguments are the same at each start */
	run->check = NULL;
	rc = unlikely(check) ? hdl_check_agree(check, run->comm) : MPI_SUCCESS;
	if (rc)
		return rc;
	hdl_coll_number_persistent(run);
	if (run->plan->executor == HDL_EXEC_HOST)
		return MPI_SUCCESS;
	rc = hdl_pcoll_new(run);
	if (rc || run->pcoll)
		return rc;
	return hdl_run_to_host(run) ? coll_no_memory(run->comm, &run->args) : MPI_SUCCESS;
}

int hdl_coll_prepare(struct hdl_comm *comm, const struct hdl_coll_args *args, struct hdl_req **req)
{
	size_t bytes = coll_bytes_of(args);
	struct hdl_run *run = NULL;
	int rc;

	*req = NULL;
	if (!is_nothing(args, bytes)) {
		run = run_for_good(comm, args, bytes);
		if (!run)
			return coll_no_memory(comm, args);
	}
	rc = run ? make_persistent(run) : MPI_SUCCESS;
	if (!rc && hdl_collective_init(comm, begin_persistent, coll_put_persistent, run, req))
		rc = run ? coll_no_memory(comm, args) : MPI_ERR_NO_MEM;	/* the others may have theirs, and start it */
	if (rc)
		coll_put_persistent(run);
	else if (run && run->pcoll)
		(*req)->look = hdl_pcoll_look;
	return rc;
}

static bool coll_is_finished(const void *arg)
{
	return ((const struct hdl_run *)arg)->finished;
}

/* A communicator's queues are made when it turns out to be used: blocking collectives before that are the host's. Every rank counts the
 * same collectives. Not reductions that come in an order of their own, of reads and of the device: each call gives the same bits. */
#define FIRST_FEW 8

bool hdl_plan_is_early(const struct hdl_cc *cc, const struct hdl_plan *plan)
{
	return !cc->off[hdl_queues_index(plan->executor, plan->pairs)] && cc->seq < FIRST_FEW && hdl_executor_forced == HDL_FORCED_AUTO &&
	       !((plan->off_graph->reads || plan->executor == HDL_EXEC_TASKS) && hdl_coll_reduces((enum hdl_coll)plan->key.coll));
}

/* Whether the plan is that of these arguments, whose data need no packing. */
static inline bool coll_is_plan_of(const struct hdl_plan_key *key, const struct hdl_comm *comm, const struct hdl_coll_args *a)
{
	if (!key->blocking)
		return false;
	if (a->coll == HDL_BARRIER)
		return key->leader == ((const struct hdl_cc *)comm->coll)->leader;
	if (!key->bytes || key->bytes != coll_bytes_of(a) || key->in_place != is_in_place(comm, a) ||
	    (hdl_coll_has_root(a->coll) && key->root != a->root))
		return false;
	if (hdl_coll_reduces(a->coll))
		return key->type == a->recvtype && key->op == a->op;
	return hdl_type_is_contiguous(a->recvtype) && hdl_type_is_contiguous(a->sendtype) && fits_itself(comm, a);
}

int hdl_coll_end(struct hdl_run *run)
{
	int rc;

	if (!run->finished) {
		hdl_blocked_comm = run->comm;
		hdl_wait_until(coll_is_finished, run);
		hdl_blocked_comm = NULL;
	}
	rc = run->error;
	if (unlikely(rc)) {
		hdl_ft_progress();	/* the others are told before this rank goes on */
		hdl_reason_set("%s", run->why);
	}
	hdl_plan_run_put(run);
	return rc;
}

/* plan NULL: no memory. error: this rank's, as of hdl_coll_run_node_phase. */
static int run_by(struct hdl_plan *plan, struct hdl_comm *comm, const struct hdl_coll_args *args, bool in_place, int error)
{
	struct hdl_run *run = likely(plan) ? hdl_plan_run(plan, comm) : NULL;
	bool host, early;

	if (unlikely(!run))
		return coll_no_memory(comm, args);
	((struct hdl_cc *)comm->coll)->leader = plan->leader;
	early = plan->executor != HDL_EXEC_HOST && hdl_plan_is_early(comm->coll, plan);
	host = early || plan->executor == HDL_EXEC_HOST;
	if (early)
		hdl_plan_fell_back(plan, HDL_EARLY);
	if (unlikely(bind(run, args, in_place, HDL_BLOCKS) || (early && hdl_run_to_host(run)))) {
		hdl_plan_run_put(run);
		return coll_no_memory(comm, args);
	}
	if (unlikely(error)) {
		hdl_run_error(run, error);
		run->hollow = true;
	}
	if (host && likely(!error && hdl_host_can_inline(run->g) && !run->check && !((struct hdl_cc *)comm->coll)->lost)) {
		run->tag = hdl_coll_tag(((struct hdl_cc *)comm->coll)->seq++);
		hdl_host_run_inline(run);
		hdl_run_finish(run);
	} else {
		coll_start(run, host);
	}
	return hdl_coll_end(run);
}

static __attribute__((noinline)) int run_plan(struct hdl_comm *comm, const struct hdl_coll_args *args)
{
	bool in_place = is_in_place(comm, args);
	size_t bytes = coll_bytes_of(args);
	struct hdl_plan *plan;
	int rc = MPI_SUCCESS;

	if (is_nothing(args, bytes))
		return MPI_SUCCESS;
	plan = plan_get(comm, args, HDL_BLOCKS, bytes, in_place);
	if (plan && plan->staged) {
		if (hdl_hier_ready(comm->coll, plan->hosts, &rc)) {
			plan->uses++;
			return hdl_hier_run(comm->coll, args);
		}
		if (rc)
			return rc;
	}
	return run_by(plan, comm, args, in_place, MPI_SUCCESS);
}

/* What was run before, and needs no packing, in order on the host executor: its run has all but large scratch. */
static inline int run_again(struct hdl_cc *cc, struct hdl_plan *plan, const struct hdl_coll_args *args)
{
	struct hdl_run *run = plan->spare;

	if (unlikely(run->g->tmp_bytes && !run->tmp.p && hdl_run_prepare_tmp(run)))
		return coll_no_memory(cc->comm, args);
	plan->spare = run->next;
	plan->refs++;
	plan->uses++;
	run->req = NULL;
	run->done = NULL;
	run->base[HDL_SP_SEND] = (char *)args->sendbuf;
	run->base[HDL_SP_RECV] = args->recvbuf;
	run->error = MPI_SUCCESS;
	run->spoiled = false;
	run->tag = hdl_coll_tag(cc->seq++);
	hdl_host_run_inline(run);
	hdl_run_finish(run);
	return hdl_coll_end(run);
}

int hdl_coll_run_node_phase(struct hdl_comm *comm, const struct hdl_coll_args *args, int error)
{
	bool in_place = is_in_place(comm, args);

	if (likely(!error))
		return hdl_coll_run(comm, args);
	return run_by(plan_get(comm, args, HDL_BLOCKS, coll_bytes_of(args), in_place), comm, args, in_place, error);
}

int hdl_coll_run_leader_phase(struct hdl_comm *comm, const struct hdl_coll_args *args, int error)
{
	bool in_place = is_in_place(comm, args);
	const struct hdl_plan_key key = { .op = hdl_coll_reduces(args->coll) ? args->op : MPI_OP_NULL,
					  .type = hdl_coll_reduces(args->coll) ? args->recvtype : NULL, .bytes = coll_bytes_of(args),
					  .root = hdl_coll_has_root(args->coll) ? args->root : 0, .coll = (uint8_t)args->coll,
					  .in_place = in_place, .blocking = true, .internal = true, .between = true };
	struct hdl_plan *plan = hdl_plan_of(comm->coll, &key);

	if (likely(plan && plan->in_order && plan->spare && !error && coll_is_plan_of(&key, comm, args)))
		return run_again(comm->coll, plan, args);
	return run_by(plan, comm, args, in_place, error);
}

/* What was run before is run again, with nothing in its way: see hdl_queues_quick. */
int hdl_coll_run(struct hdl_comm *comm, const struct hdl_coll_args *args)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_plan *plan = cc ? cc->last[args->coll] : NULL;
	struct hdl_run *run;

	if (!plan || !plan->spare || unlikely(cc->lost) || !plan->quick ||
	    !coll_is_plan_of(&plan->key, comm, args))
		return run_plan(comm, args);
	if (plan->in_order) {
		cc->leader = plan->leader;
		return run_again(cc, plan, args);
	}
	run = plan->spare;
	run->base[HDL_SP_SEND] = (char *)args->sendbuf;
	run->base[HDL_SP_RECV] = args->recvbuf;
	if (unlikely(!hdl_queues_quick(cc, run)))
		return run_plan(comm, args);
	return hdl_coll_end_quick(cc, plan);
}

static int coll_progress(void *arg)
{
	return hdl_host_progress() + hdl_queues_progress() + hdl_ft_progress();
}

static void comm_release(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;

	if (!cc)
		return;
	/* The plans first: the report quotes the executor's reasons. */
	for (int i = 0; i < HDL_PLANS; i++)
		if (cc->plans[i])
			hdl_plan_put(cc->plans[i]);
	hdl_queues_free(cc);
	if (cc->lost && !cc->revoked)
		hdl_recv_revoke(comm, cc->lost - 1);
	comm->coll = NULL;
	free(cc);
}

static void comm_freed(struct hdl_comm *comm)
{
	struct hdl_cc *cc = comm->coll;
	struct hdl_comm *within = cc ? cc->within : NULL;

	if (within)
		hdl_comm_release(within);
	comm_release(comm);
}

/* Queues of communicators that are gone only where scratch is not enough: they are dearer. */
static bool coll_give(void)
{
	return hdl_scratch_give() || hdl_queue_cache_give();
}

int hdl_coll_init(void)
{
	int err = hdl_choose_init();

	if (err)
		return err;
	hdl_comm_on_free = comm_freed;
	hdl_tp_on_sleep(hdl_mpi_tp, hdl_queues_arm);
	hdl_tp_on_timers(hdl_mpi_tp, hdl_ft_timers);
	hdl_tp_on_shortage(hdl_mpi_tp, coll_give);
	hdl_ft_on_message(hdl_ft_heard);
	return hdl_tp_progress_add(hdl_mpi_tp, coll_progress, NULL);
}

static bool none_is_detached(const void *arg)
{
	return !hdl_detached_collectives;
}

int hdl_coll_fini(void)
{
	/* others wait for this rank's part of them */
	hdl_wait_until(none_is_detached, NULL);
	hdl_comm_on_free = NULL;
	hdl_comm_each(comm_release);
	hdl_tp_on_shortage(hdl_mpi_tp, NULL);
	hdl_queue_cache_fini();
	hdl_tp_progress_remove(hdl_mpi_tp, coll_progress, NULL);
	hdl_tp_on_sleep(hdl_mpi_tp, NULL);
	hdl_tp_on_timers(hdl_mpi_tp, NULL);
	hdl_ft_on_message(NULL);
	if (hdl_vars.report_collectives && hdl_job.rank == 0)
		hdl_coll_report(stderr);
	hdl_coll_report_free();
	hdl_immediate_fini();
	hdl_scratch_fini();
	return 0;
}
