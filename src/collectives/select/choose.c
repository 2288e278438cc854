/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses executor and algorithm, and gives the reason: a function of the collective's arguments (struct hdl_plan_key), of the
 * communicator and device (struct hdl_comm_props) and of the configuration, and of nothing that changes. All inputs must be
 * the same on all ranks:
 *
 *     1. Rank 0 and rank 1 see different values of an input, say HEDDLE_COLL_MAILBOX_MAX.
 *     2. Rank 0 chooses mailbox, and polls its cell for rank 1's input.
 *     3. Rank 1 chooses host, and waits for rank 0's message.
 *     4. Both wait for ever.
 *
 * Variables are compared in MPI_Init, and the number of CPUs is the host's. Other values that a rank finds out by itself are
 * compared when queues are brought up (struct hdl_agreed_config); all ranks must begin that. coll.c calls this to run a
 * collective, heddle_info --explain to describe one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "collectives/internal.h"
#include "collectives/mailbox/mailbox.h"
#include "collectives/select/select.h"

enum hdl_executor_choice hdl_executor_forced;

/* HEDDLE_REDUCE_ORDER=fixed: every executor combines in the order of the ranks. */
static bool is_fixed(void)
{
	return *hdl_vars.reduce_order;
}

static const char *forced_algorithm(enum hdl_coll coll)
{
	if (is_fixed() && hdl_coll_reduces(coll))
		return "in-order";
	switch (coll) {
	case HDL_BCAST: return hdl_vars.coll_bcast;
	case HDL_REDUCE: return hdl_vars.coll_reduce;
	case HDL_ALLREDUCE: return hdl_vars.coll_allreduce;
	case HDL_ALLGATHER: return hdl_vars.coll_allgather;
	case HDL_ALLTOALL: return hdl_vars.coll_alltoall;
	case HDL_REDUCE_SCATTER: return hdl_vars.coll_reduce_scatter;
	default: return NULL;
	}
}

/* HEDDLE_COLL_HIERARCHY=2, unless an algorithm is forced. */
static const char *forced_hierarchy(const char *forced)
{
	return hdl_vars.coll_hierarchy == 2 && !(forced && *forced) ? "two-level" : forced;
}

static struct hdl_shape shape_of(const struct hdl_plan_key *key, const struct hdl_choice *choice, int rank, int size)
{
	struct hdl_shape s = { .coll = (enum hdl_coll)key->coll, .to = key->to, .from = key->from, .rank = rank, .size = size,
			       .root = key->root, .oversubscribed = choice->oversubscribed, .in_place = key->in_place,
			       .bytes = key->bytes,
			       .cell_bytes = key->persistent ? hdl_cell_bytes(key->bytes) : hdl_cell_bytes_of(key->bytes),
			       .radix = hdl_vars.coll_radix, .leader = key->leader, .hosts = choice->hosts,
			       .leaders_only = key->leader_phase };

	if (key->type) {
		s.fn = hdl_op_lookup(key->op, key->type);
		s.esize = (size_t)hdl_type_size(key->type);
	}
	return s;
}

struct hdl_graph *hdl_graph_of(const struct hdl_plan_key *key, const struct hdl_choice *choice, int rank, int size)
{
	struct hdl_shape s = shape_of(key, choice, rank, size);

	if (choice->single_copy)
		return hdl_sc_graph();
	if (key->leader_phase)
		return hdl_build_hier(&s);
	if (choice->executor == HDL_EXEC_HOST)
		return hdl_tune_host(&s, choice->in_order && hdl_coll_reduces(s.coll) ? "in-order" :
				     forced_hierarchy(forced_algorithm(s.coll)))->build(&s);
	s.enc = choice->enc.by ? &choice->enc : NULL;
	return hdl_tune_offload(choice->executor, &s)->build(&s);
}

/* ---- the executors' abilities ----------------------------------------------------------------------------------------- */

/* Returns false, with the reason, if no collective of this communicator can run on this executor. */
static bool choose_possible(const struct hdl_comm_props *props, enum hdl_executor executor, char *why, size_t why_size)
{
	if (props->size > hdl_vars.coll_offload_ranks)
		snprintf(why, why_size, "more than HEDDLE_COLL_OFFLOAD_RANKS=%d ranks", hdl_vars.coll_offload_ranks);
	else if (!props->one_host)
		snprintf(why, why_size, "the communicator spans hosts");
	else if (!props->rc)
		snprintf(why, why_size, "HEDDLE_TRANSPORT=%s leaves out RC, which the queues need", hdl_vars.transport);
	else if (!props->device)
		snprintf(why, why_size, "no device port connects the ranks of this host");
	else if (executor == HDL_EXEC_TASKS && !props->reduce_caps)
		snprintf(why, why_size, "device %s has no cross-channel support", props->device);
	else if (executor == HDL_EXEC_TASKS && hdl_knomial_links(hdl_vars.coll_radix, props->size) > HDL_TREE_LINKS)
		snprintf(why, why_size, "a tree of HEDDLE_COLL_RADIX=%d has too many links for %d ranks", hdl_vars.coll_radix,
			 props->size);
	else if (executor == HDL_EXEC_MAILBOX && props->size > HDL_MAILBOX_RANKS)
		snprintf(why, why_size, "more than %d ranks, each of which would write to each other", HDL_MAILBOX_RANKS);
	/* A cell's RDMA WRITE makes no completion at the receiver that could wake a sleeping rank. The promise AT_ONCE covers
	 * the order in which bytes land. */
	else if (executor == HDL_EXEC_MAILBOX && !props->wakes)
		snprintf(why, why_size, "device %s does not wake its process on a write", props->device);
	else if (executor == HDL_EXEC_MAILBOX && !props->at_once)
		snprintf(why, why_size, "device %s does not promise that a write has landed when it was posted", props->device);
	else
		return true;
	return false;
}

/* Most bytes that the executor takes, and the variable that sets them. */
static size_t largest(const struct hdl_plan_key *key, enum hdl_executor executor, const char **variable)
{
	bool from_root = key->coll == HDL_BCAST || key->coll == HDL_SCATTER;

	*variable = executor == HDL_EXEC_TASKS ? "HEDDLE_COLL_TASKS_MAX" :
		    from_root ? "HEDDLE_COLL_BCAST_MAILBOX_MAX" : "HEDDLE_COLL_MAILBOX_MAX";
	return executor == HDL_EXEC_TASKS ? hdl_vars.coll_tasks_max :
	       from_root ? hdl_vars.coll_bcast_mailbox_max : hdl_vars.coll_mailbox_max;
}

/* Returns 1 if all ranks' operands fit a slot, 0 if not, -ENOMEM if this rank cannot tell. */
static int choose_fits_slot(const struct hdl_algorithm *algorithm, const struct hdl_shape *s, const struct hdl_reduce_caps *caps)
{
	struct hdl_graph *g = algorithm->build(s);
	int fits = g ? g->data_bytes <= hdl_queues_data_max(s->size, caps, hdl_tune_pairs(s->coll)) : -ENOMEM;

	hdl_graph_free(g);
	return fits;
}

/* Returns true if the order of the operands cannot change the bits. */
static bool is_exact(const struct hdl_type *type)
{
	const struct hdl_type *base = hdl_type_base(type);

	if (!base)
		return false;
	switch (hdl_reptype(base)->rep) {
	case HDL_REP_I8: case HDL_REP_I16: case HDL_REP_I32: case HDL_REP_I64:
	case HDL_REP_U8: case HDL_REP_U16: case HDL_REP_U32: case HDL_REP_U64:
		return true;
	default:
		return false;
	}
}

static size_t star_max(const struct hdl_plan_key *key, const char **variable)
{
	size_t max = largest(key, HDL_EXEC_MAILBOX, variable);

	if (max < HDL_STAR_MAX)
		return max;
	*variable = "the size of its accumulator";
	return HDL_STAR_MAX;
}

/* Returns 1 if the executor (mailbox or tasks) can run the collective; 0, with the reason in out->why, if not; -ENOMEM if this
 * rank cannot tell (tasks only). */
static int offloadable(const struct hdl_plan_key *key, const struct hdl_comm_props *props, enum hdl_executor executor,
		       struct hdl_choice *out)
{
	struct hdl_shape s = shape_of(key, out, 0, props->size);
	const struct hdl_reduce_caps *caps = executor == HDL_EXEC_TASKS ? props->reduce_caps : NULL;
	const struct hdl_algorithm *algorithm;
	const char *variable;
	size_t bytes = key->bytes, max = largest(key, executor, &variable);
	int fits;

	out->enc = (struct hdl_enc){ 0 };
	if (!choose_possible(props, executor, out->why, sizeof(out->why)))
		return false;
	if (executor == HDL_EXEC_TASKS && is_fixed() && hdl_coll_reduces(key->coll) && !is_exact(key->type)) {
		snprintf(out->why, sizeof(out->why), "HEDDLE_REDUCE_ORDER=fixed, and its trees combine in another order");
		return false;
	}
	if (caps && hdl_coll_reduces(key->coll)) {
		if (!hdl_enc_for(key->op, key->type, bytes, caps, &out->enc, out->why, sizeof(out->why)))
			return false;
		s.enc = &out->enc;
		/* the device's form of pairs is longer; the longer form of CALC elements is limited by the slots */
		if (out->enc.by == HDL_ENC_BY_VECTOR)
			bytes = hdl_enc_bytes(&out->enc, bytes);
		else if (out->enc.by == HDL_ENC_BY_ATOMICS)
			max = star_max(key, &variable);
	}
	algorithm = hdl_tune_offload(executor, &s);
	if (!algorithm) {
		snprintf(out->why, sizeof(out->why), "%s has no %s%s", hdl_executor_name(executor), hdl_coll_name(s.coll),
			 out->enc.by == HDL_ENC_BY_ATOMICS ? " by atomics" : "");
		return false;
	}
	if (bytes > max) {
		snprintf(out->why, sizeof(out->why), "larger than %s=%zu", variable, max);
		return false;
	}
	out->pairs = executor == HDL_EXEC_TASKS && hdl_tune_pairs(s.coll);
	if (executor != HDL_EXEC_TASKS)
		return true;
	fits = choose_fits_slot(algorithm, &s, caps);
	if (!fits)
		snprintf(out->why, sizeof(out->why), "the blocks of all ranks are longer than its slots");
	return fits;
}

/* ---- the choice -------------------------------------------------------------------------------------------- */

/* Blocking, each rank has a core: most bytes of the inputs of a rank's peers together for mailbox. */
#define MAILBOX_BYTES 3072
#define MAILBOX_BLOCK 1024		/* and of one input */

uint8_t hdl_choose_leader(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	if (!key->blocking || !props->oversubscribed || props->size < 3 || props->size > HDL_MAILBOX_RANKS)
		return 0;
	switch (key->coll) {
	case HDL_BCAST: case HDL_SCATTER: case HDL_SCATTERV: return (uint8_t)(1 + key->root);
	case HDL_SCAN: case HDL_EXSCAN: case HDL_VSCAN: case HDL_VEXSCAN: return 1;
	default: return 0;
	}
}

/* Returns true if a blocking collective, for which each rank has a core, is faster through cells than by messages. */
static bool better_on_mailbox(const struct hdl_plan_key *key, int size)
{
	return size <= HDL_MAILBOX_RANKS && key->bytes <= MAILBOX_BLOCK && key->bytes <= MAILBOX_BYTES / (size_t)(size - 1);
}

/* Executors to try, in order, before host. Returns their number. A nonblocking collective needs an executor that progresses
 * without its owner: tasks may run one that mailbox has not, or not at that length. */
static int candidates(const struct hdl_plan_key *key, int size, enum hdl_executor out[HDL_QUEUE_KINDS])
{
	bool few = size <= HDL_MAILBOX_RANKS, automatic = hdl_executor_forced == HDL_FORCED_AUTO;
	bool tasks_first = hdl_executor_forced == HDL_FORCED_TASKS || (automatic && !few) ||
			   (automatic && !key->blocking && hdl_tune_prefers_tasks((enum hdl_coll)key->coll, size, key->bytes));
	int n = 0;

	if (tasks_first)
		out[n++] = HDL_EXEC_TASKS;
	if (!automatic || few)
		out[n++] = HDL_EXEC_MAILBOX;
	if (!tasks_first && automatic && !key->blocking)
		out[n++] = HDL_EXEC_TASKS;
	return n;
}

/* Returns true if the ranks copy from and to each other's buffers (single_copy/). */
static bool choose_single_copy(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	char why[sizeof(((struct hdl_choice *)0)->why)];

	/* A node phase is short, and a rank may have no data to give (hdl_run.no_data), which only cells and messages
	 * can express. */
	if (key->node_phase || (is_fixed() && hdl_coll_reduces((enum hdl_coll)key->coll) && !is_exact(key->type)))
		return false;
	return props->exposes && hdl_sc_fit(key, props) && choose_possible(props, HDL_EXEC_MAILBOX, why, sizeof(why));
}

/*
 * Mailbox only: ranks may start persistent operations in any order (section 6.13), and a WAIT of tasks counts completions of
 * any operation, so each request would need queues of its own.
 */
static int choose_persistent(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	if (!offloadable(key, props, HDL_EXEC_MAILBOX, out))
		return 0;
	if (key->bytes > HDL_PCOLL_MAX) {
		snprintf(out->why, sizeof(out->why), "persistent, and longer than %d bytes", HDL_PCOLL_MAX);
		return 0;
	}
	out->executor = HDL_EXEC_MAILBOX;
	snprintf(out->why, sizeof(out->why), "persistent%s",
		 hdl_executor_forced == HDL_FORCED_TASKS ? ": not tasks, which all ranks must start in one order" : "");
	return 0;
}

/*
 * V-collectives: a rank knows only its own lengths. The choice depends on the communicator, and for Allgatherv, whose lengths
 * all ranks know, on the longest block: key->bytes, as far as it matters (hdl_vector_begin). A block that does not fit a cell
 * concerns only its two ranks (mailbox/vector_copy.c).
 */
static int choose_vcoll(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	if (!key->bytes) {
		snprintf(out->why, sizeof(out->why), "HEDDLE_COLL_MAILBOX_MAX=0");
		return 0;
	}
	if (key->persistent && key->bytes > HDL_PCOLL_MAX) {
		snprintf(out->why, sizeof(out->why), "persistent, and longer than %d bytes", HDL_PCOLL_MAX);
		return 0;
	}
	if (hdl_executor_forced == HDL_FORCED_AUTO && key->blocking && !props->oversubscribed && key->bytes > MAILBOX_BLOCK) {
		snprintf(out->why, sizeof(out->why), "blocking, and each rank has a core");
		return 0;
	}
	if (!offloadable(key, props, HDL_EXEC_MAILBOX, out))
		return 0;
	out->executor = HDL_EXEC_MAILBOX;
	snprintf(out->why, sizeof(out->why), "%s",
		 hdl_coll_is_vreduce((enum hdl_coll)key->coll) ? "short" : hdl_vector_known((enum hdl_coll)key->coll) ?
		 "short, or long: single copies between the ranks' buffers" : "any lengths: no rank knows them all");
	return 0;
}

/* Returns true if the node phases run as collectives of their own (host/hierarchical.c). */
static bool runs_in_phases(const struct hdl_plan_key *key, const struct hdl_comm_props *props, const struct hdl_choice *choice)
{
	struct hdl_shape s = shape_of(key, choice, 0, props->size);

	return choice->executor == HDL_EXEC_HOST && choice->hosts && hdl_executor_forced != HDL_FORCED_HOST &&
	       !key->leader_phase && hdl_hier_has(key) && hdl_tune_hier(&s, forced_hierarchy(forced_algorithm(s.coll)));
}

static const char by_copies[] = "long: single copies between the ranks' buffers";

static int choose_by_copies(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	(void)key;
	(void)props;
	out->executor = HDL_EXEC_MAILBOX;
	out->single_copy = true;
	return 0;
}

/* Returns the reason for which an executor other than host runs the collective. */
static const char *offload_reason(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	switch (hdl_executor_forced) {
	case HDL_FORCED_TASKS: return "HEDDLE_COLL_EXECUTOR=tasks";
	case HDL_FORCED_MAILBOX: return "HEDDLE_COLL_EXECUTOR=mailbox";
	default: return !key->blocking ? "nonblocking" : props->oversubscribed ? "ranks outnumber cores" : "short";
	}
}

/* The first candidate that can run the collective; then single copy; then host. */
static int choose_candidate(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	enum hdl_executor try[HDL_QUEUE_KINDS];
	char first[sizeof(out->why)] = "";
	int n = candidates(key, props->size, try);

	for (int i = 0; i < n && out->executor == HDL_EXEC_HOST; i++) {
		int can = offloadable(key, props, try[i], out);

		if (can < 0)
			return can;
		if (can) {
			out->executor = try[i];
			continue;
		}
		out->enc = (struct hdl_enc){ 0 };
		out->pairs = false;
		if (!*first)
			snprintf(first, sizeof(first), "not %s: %.*s", hdl_executor_name(try[i]), (int)sizeof(first) - 16,
				 out->why);
	}
	if (out->executor == HDL_EXEC_HOST && choose_single_copy(key, props))
		choose_by_copies(key, props, out);
	snprintf(out->why, sizeof(out->why), "%s", out->single_copy ? by_copies : *first ? first : offload_reason(key, props));
	return 0;
}

static bool is_alone(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)key;
	return props->size == 1;
}

static bool is_checked(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)key;
	(void)props;
	return hdl_vars.check;
}

static bool host_is_forced(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)key;
	(void)props;
	return hdl_executor_forced == HDL_FORCED_HOST;
}

static bool is_vcoll(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)props;
	return hdl_coll_is_vcoll((enum hdl_coll)key->coll);
}

static bool is_persistent(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)props;
	return key->persistent;
}

/* A nonblocking collective tries single copy last (choose_candidate): on tasks it progresses without its owner. */
static bool copies_come_first(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	bool first = hdl_executor_forced == HDL_FORCED_MAILBOX || (key->blocking && hdl_executor_forced != HDL_FORCED_TASKS);

	return first && choose_single_copy(key, props);
}

static bool messages_win_on_cores(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	return hdl_executor_forced == HDL_FORCED_AUTO && key->blocking && !props->oversubscribed &&
	       !better_on_mailbox(key, props->size);
}

static bool messages_win_among_many(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	return hdl_executor_forced == HDL_FORCED_AUTO && key->blocking && props->size > HDL_MAILBOX_RANKS &&
	       !hdl_tune_blocks_on_tasks((enum hdl_coll)key->coll, key->bytes);
}

static bool applies_always(const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	(void)key;
	(void)props;
	return true;
}

/* The first row that applies decides. choose: sets executor and reason; returns 0, or -ENOMEM if this rank cannot tell; NULL: the
 * host executor. why: the reason; NULL: `choose` gives one. */
static const struct choose_rule {
	bool (*applies)(const struct hdl_plan_key *key, const struct hdl_comm_props *props);
	int (*choose)(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out);
	const char *why;
} rules[] = {
	{ is_alone, NULL, "one rank" },
	{ is_checked, NULL, "HEDDLE_CHECK=1" },
	{ host_is_forced, NULL, "HEDDLE_COLL_EXECUTOR=host" },
	{ is_vcoll, choose_vcoll, NULL },
	{ is_persistent, choose_persistent, NULL },
	{ copies_come_first, choose_by_copies, by_copies },
	{ messages_win_on_cores, NULL, "blocking, and each rank has a core" },
	{ messages_win_among_many, NULL, "blocking, and messages are faster among so many ranks" },
	{ applies_always, choose_candidate, NULL },
};

int hdl_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	const struct choose_rule *r = rules;
	size_t used;
	int err;

	/* Larger communicators are never oversubscribed here: their props do not cover the placement, and hosts may differ. */
	*out = (struct hdl_choice){ .executor = HDL_EXEC_HOST, .hosts = hdl_vars.coll_hierarchy == 1 ? NULL : props->hosts,
				    .oversubscribed = props->one_host && props->oversubscribed &&
					       props->size <= hdl_vars.coll_offload_ranks };
	while (!r->applies(key, props))
		r++;
	err = r->choose ? r->choose(key, props, out) : 0;
	if (err)
		return err;
	if (r->why)
		snprintf(out->why, sizeof(out->why), "%s", r->why);
	out->in_phases = runs_in_phases(key, props, out);
	used = strlen(out->why);
	if (out->in_phases)
		snprintf(out->why + used, sizeof(out->why) - used, "; node phases on each host, then a leader phase");
	return 0;
}

/* ---- the configuration ------------------------------------------------------------------------------------- */

int hdl_choose_init(void)
{
	static const char *const names[] = { "auto", "host", "mailbox", "tasks", NULL };
	const char *nearest;
	int want = HDL_FORCED_AUTO;

	while (names[want] && strcmp(names[want], hdl_vars.coll_executor))
		want++;
	if (!names[want]) {
		nearest = hdl_nearest(hdl_vars.coll_executor, names);
		hdl_error("HEDDLE_COLL_EXECUTOR=%s: known are auto, host, mailbox and tasks%s%s", hdl_vars.coll_executor,
			  nearest ? "; did you mean " : "", nearest ? nearest : "");
		return -EINVAL;
	}
	hdl_executor_forced = hdl_vars.check ? HDL_FORCED_HOST : (enum hdl_executor_choice)want;
	for (int c = 0; c < HDL_COLLS; c++) {
		const char *forced = forced_algorithm((enum hdl_coll)c);

		if (hdl_tune_check((enum hdl_coll)c, forced, &nearest)) {
			hdl_error("the algorithm of %s cannot be '%s'%s%s: see heddle_info --vars",
				  hdl_coll_name((enum hdl_coll)c), forced, nearest ? "; did you mean " : "",
				  nearest ? nearest : "");
			return -EINVAL;
		}
	}
	if (is_fixed() && strcmp(hdl_vars.reduce_order, "fixed")) {
		hdl_error("HEDDLE_REDUCE_ORDER=%s: fixed, or nothing", hdl_vars.reduce_order);
		return -EINVAL;
	}
	if (hdl_vars.coll_radix < 2 || hdl_vars.coll_radix > 16) {
		hdl_error("HEDDLE_COLL_RADIX=%d: from 2 to 16", hdl_vars.coll_radix);
		return -EINVAL;
	}
	if (hdl_vars.coll_hierarchy < 0 || hdl_vars.coll_hierarchy > 2) {
		hdl_error("HEDDLE_COLL_HIERARCHY=%d: 0 (Heddle selects), 1 or 2", hdl_vars.coll_hierarchy);
		return -EINVAL;
	}
	if (hdl_vars.coll_tasks_max > HDL_TASKS_MAX) {
		hdl_error("HEDDLE_COLL_TASKS_MAX=%zu: at most %d, the most that the device reduces in one request",
			  hdl_vars.coll_tasks_max, HDL_TASKS_MAX);
		return -EINVAL;
	}
	if (hdl_vars.coll_depth < 2 || hdl_vars.coll_depth > 128) {
		hdl_error("HEDDLE_COLL_DEPTH=%d: from 2 to 128", hdl_vars.coll_depth);
		return -EINVAL;
	}
	return 0;
}

void hdl_agreed_config_of(const struct hdl_comm_props *props, struct hdl_agreed_config *out)
{
	*out = (struct hdl_agreed_config){
		.mailbox_max = (uint64_t)hdl_vars.coll_mailbox_max,
		.bcast_mailbox_max = (uint64_t)hdl_vars.coll_bcast_mailbox_max,
		.tasks_max = (uint64_t)hdl_vars.coll_tasks_max, .single_copy_min = (uint64_t)hdl_vars.coll_single_copy_min,
		.depth = (uint32_t)hdl_vars.coll_depth, .radix = (uint32_t)hdl_vars.coll_radix,
		.offload_ranks = (uint32_t)hdl_vars.coll_offload_ranks, .executor_forced = (uint8_t)hdl_executor_forced,
		.reduce_order_fixed = is_fixed(), .oversubscribed = props->oversubscribed, .rc = props->rc,
		.wakes = props->wakes, .at_once = props->at_once, .exposes = props->exposes,
		.tasks = props->reduce_caps != NULL,
		.cpus = (uint8_t)props->cpus,
	};
	if (props->reduce_caps) {
		out->calc = props->reduce_caps->calc;
		out->vector = props->reduce_caps->vector;
		out->atomics = props->reduce_caps->atomics;
	}
}

void hdl_agreed_config_difference(const struct hdl_agreed_config *mine, const struct hdl_agreed_config *theirs, char *out,
				  size_t out_size)
{
#define FIELD(field, name) { name, mine->field, theirs->field }
	const struct { const char *name; uint64_t mine, theirs; } fields[] = {
		FIELD(mailbox_max, "HEDDLE_COLL_MAILBOX_MAX"),
		FIELD(bcast_mailbox_max, "HEDDLE_COLL_BCAST_MAILBOX_MAX"),
		FIELD(tasks_max, "HEDDLE_COLL_TASKS_MAX"),
		FIELD(single_copy_min, "HEDDLE_COLL_SINGLE_COPY_MIN"),
		FIELD(depth, "HEDDLE_COLL_DEPTH"),
		FIELD(radix, "HEDDLE_COLL_RADIX"),
		FIELD(offload_ranks, "HEDDLE_COLL_OFFLOAD_RANKS"),
		FIELD(executor_forced, "the number of HEDDLE_COLL_EXECUTOR"),
		FIELD(reduce_order_fixed, "HEDDLE_REDUCE_ORDER=fixed"),
		FIELD(oversubscribed, "whether ranks outnumber CPUs (binding)"),
		FIELD(cpus, "the number of shared CPUs (binding)"),
		FIELD(rc, "RC in HEDDLE_TRANSPORT"),
		FIELD(wakes, "its device's wake-up on a write"),
		FIELD(at_once, "its device's promise of immediate writes"),
		FIELD(exposes, "its device's paging on demand"),
		FIELD(tasks, "its device's cross-channel support"),
		FIELD(vector, "its device's extensions (HEDDLE_COLL_EXTENSIONS)"),
		FIELD(atomics, "its device's atomics"),
	};
#undef FIELD

	snprintf(out, out_size, "agree: its device's reductions, or its slots, differ");
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		if (fields[i].mine != fields[i].theirs) {
			snprintf(out, out_size, "agree: %s is %llu there, and %llu here", fields[i].name,
				 (unsigned long long)fields[i].theirs, (unsigned long long)fields[i].mine);
			return;
		}
}
