/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heddle_info --explain: executor, algorithm, reason and device requests of a collective, by the functions that choose for a
 * communicator (choose.c), build its graph (algorithms/), and compile it (tasks/compile.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/mailbox/mailbox.h"
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

static const char *coll_explain_kind_name(const struct hdl_node *n)
{
	static const char *const names[] = {
		[HDL_N_SEND] = "send", [HDL_N_RECV] = "receive", [HDL_N_COPY] = "copy", [HDL_N_REDUCE] = "reduce",
		[HDL_N_ACCUM] = "accumulate", [HDL_N_PUT] = "put", [HDL_N_ARRIVE] = "arrive", [HDL_N_ENCODE] = "encode",
		[HDL_N_DECODE] = "decode", [HDL_N_STAMP] = "stamp", [HDL_N_CHECK] = "check",
	};

	return n->kind == HDL_N_PUT && n->nsrc > 1 ? "combine" : names[n->kind];
}

static const char *space_name(int space)
{
	static const char *const names[HDL_SPACES + 1] = {
		[HDL_SP_SEND] = "send", [HDL_SP_RECV] = "recv", [HDL_SP_TMP] = "scratch", [HDL_SP_ACC] = "accumulator",
		[HDL_SP_DATA] = "slot", [HDL_SP_CELL] = "cell", [HDL_SP_NONE] = "",
	};

	return names[space];
}

/* ---- the choice --------------------------------------------------------------------------------------------------------- */

/* The bytes of the plan's key. */
static size_t key_bytes(const struct hdl_plan_key *key, const struct hdl_comm_props *props, size_t bytes)
{
	enum hdl_coll coll = (enum hdl_coll)key->coll;

	return coll == HDL_BARRIER ? 0 : hdl_coll_is_vcoll(coll) ? hdl_vector_cell_max(coll, bytes,
	       hdl_vector_copied(props, key->persistent)) : bytes;
}

/* Returns 0 or -ENOMEM. */
static int coll_explain_choose(const struct hdl_plan_key *key, const struct hdl_comm_props *props, struct hdl_choice *out)
{
	int err = hdl_choose(key, props, out);

	if (err)
		return err;
	/* these do not reach hdl_choose in a communicator; parts of different lengths are reduced by a predefined operation
	 * here */
	if (out->executor == HDL_EXEC_HOST ||
	    hdl_vector_reduces_by(hdl_coll_is_vreduce((enum hdl_coll)key->coll) && key->coll != HDL_VREDUCE_SCATTER))
		return 0;
	out->executor = HDL_EXEC_HOST;
	snprintf(out->why, sizeof(out->why), "HEDDLE_REDUCE_ORDER=%s, and a user-defined operation", hdl_vars.reduce_order);
	return 0;
}

/* On the host executor each call of a v-collective has a graph of its own. */
static bool has_graph(const struct hdl_plan_key *key, const struct hdl_choice *choice)
{
	return choice->executor != HDL_EXEC_HOST || !hdl_coll_is_vcoll((enum hdl_coll)key->coll);
}

/* Neighbors are those of a ring. */
static struct hdl_graph *graph_of(const struct hdl_plan_key *key, const struct hdl_choice *choice, int rank, int size)
{
	struct hdl_plan_key own = *key;

	if (key->coll == HDL_NEIGHBORS)
		own.to = own.from = 1u << (rank + 1) % size | 1u << (rank + size - 1) % size;
	return hdl_graph_of(&own, choice, rank, size);
}

/* ---- requests of the device ---------------------------------------------------------------------------------------------- */

struct counts {
	uint64_t requests, calcs, waits, enables, atomics;
};

static void count_tasks(const struct hdl_coll_prog *p, struct counts *c)
{
	for (uint32_t i = 0; i < p->nwrs; i++)
		switch ((enum hdl_step_kind)p->steps[i].kind) {
		case HDL_STEP_ACCUM: c->requests++, c->atomics++; break;
		case HDL_STEP_PUT: c->requests++, c->calcs += p->steps[i].nsrc > 1; break;
		case HDL_STEP_WAIT: c->waits++; break;
		case HDL_STEP_ENABLE: c->enables++; break;
		}
}

/* Adds one rank's requests. Messages of the host executor are not counted: the transport chooses their requests. */
static int count_rank(const struct hdl_plan_key *key, const struct hdl_comm_props *props, const struct hdl_choice *choice,
		      int rank, struct counts *c)
{
	struct hdl_graph *g = graph_of(key, choice, rank, props->size);
	struct hdl_queues *h =
		g ? hdl_queues_sketch(rank, props->size, choice->executor, choice->pairs, props->reduce_caps) : NULL;
	struct hdl_coll_prog *p = NULL;
	int err;

	if (h && key->persistent) {
		struct hdl_slot_region own = { .mr = h->region[0].mr, .cell_bytes = hdl_cell_bytes(key->bytes) };

		hdl_cell_place(&own, props->size, 0, 0);
		p = hdl_mailbox_compile_at(h, g, &own);
	} else if (h) {
		p = hdl_task_compile(h, g, key->bytes, &choice->enc, true);
	}
	err = p ? 0 : errno;

	if (p && !p->mailbox)
		count_tasks(p, c);
	else if (p)
		c->requests += p->requests;
	hdl_coll_prog_free(p);
	if (h)
		hdl_queues_destroy(h);
	hdl_graph_free(g);
	return err;
}

static int print_counts(FILE *out, const struct hdl_plan_key *key, const struct hdl_comm_props *props,
			const struct hdl_choice *choice)
{
	struct counts all = { 0 };

	for (int r = 0; r < props->size; r++) {
		int err = count_rank(key, props, choice, r, &all);

		if (err) {
			hdl_error("the task list of rank %d cannot be made (%s)", r, strerror(err));
			return 1;
		}
	}
	fprintf(out, "device       all ranks: %llu requests, of these %llu with CALC and %llu masked atomics; %llu WAITs, "
		"%llu ENABLEs\n",
		(unsigned long long)all.requests, (unsigned long long)all.calcs, (unsigned long long)all.atomics,
		(unsigned long long)all.waits, (unsigned long long)all.enables);
	return 0;
}

/* ---- sizes at which the choice changes -------------------------------------------------------------------------------- */

static void coll_explain_size_text(char *text, size_t n, size_t bytes)
{
	if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
		snprintf(text, n, "%zum", bytes >> 20);
	else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
		snprintf(text, n, "%zuk", bytes >> 10);
	else
		snprintf(text, n, "%zu", bytes);
}

#define MOST_BYTES ((size_t)4 << 20)

static void choice_text(char *text, size_t n, const struct hdl_plan_key *key, const struct hdl_comm_props *props)
{
	struct hdl_graph *g = NULL;
	struct hdl_choice c;

	if (coll_explain_choose(key, props, &c)) {
		snprintf(text, n, "no memory");
		return;
	}
	if (has_graph(key, &c))
		g = graph_of(key, &c, 0, props->size);
	snprintf(text, n, "%s, %s", hdl_executor_name(c.executor),
		 g ? g->algorithm : has_graph(key, &c) ? "no memory" : "blocks");
	hdl_graph_free(g);
}

/* Prints a row for each size at which the choice of either form changes. */
static void print_crossings(FILE *out, const struct hdl_plan_key *asked, const struct hdl_comm_props *props)
{
	char before[2][64] = { "", "" };
	size_t unit = asked->type ? (size_t)hdl_type_size(asked->type) : 1;

	if (asked->coll == HDL_BARRIER)
		return;
	fprintf(out, "\nfrom bytes   %-31s %s\n", "blocking", "nonblocking");
	for (size_t bytes = 8; bytes <= MOST_BYTES; bytes *= 2) {
		char now[2][64], size[32];

		for (int b = 0; b < 2; b++) {
			struct hdl_plan_key key = *asked;

			key.blocking = !b;
			key.persistent = false;
			key.bytes = key_bytes(&key, props, (bytes + unit - 1) / unit * unit);
			choice_text(now[b], sizeof(now[b]), &key, props);
		}
		if (!strcmp(now[0], before[0]) && !strcmp(now[1], before[1]))
			continue;
		coll_explain_size_text(size, sizeof(size), bytes);
		fprintf(out, "%10s   %-31s %s\n", size, now[0], now[1]);
		memcpy(before, now, sizeof(before));
	}
	if (hdl_coll_is_vcoll((enum hdl_coll)asked->coll))
		return;
	fprintf(out, "nonblocking, tasks rather than mailbox:");
	for (size_t i = 0; i < hdl_ntasks_from; i++) {
		char size[32];

		if (hdl_tasks_from[i].coll != asked->coll)
			continue;
		coll_explain_size_text(size, sizeof(size), hdl_tasks_from[i].min_bytes);
		fprintf(out, " from %d ranks and %s bytes on,", hdl_tasks_from[i].min_ranks, size);
	}
	fprintf(out, " from %d ranks on, and where mailbox cannot\n", HDL_MAILBOX_RANKS + 1);
}

/* ---- a rank's graph ---------------------------------------------------------------------------------------------- */

static void place_text(char *text, size_t n, int space, size_t off)
{
	if (space == HDL_SP_NONE)
		snprintf(text, n, "-");
	else
		snprintf(text, n, "%s+%zu", space_name(space), off);
}

static const char *link_name(const struct hdl_node *n)
{
	static const char *const names[] = {
		[HDL_LINK_PAIR] = "pair", [HDL_LINK_DOWN] = "down", [HDL_LINK_UP] = "up", [HDL_LINK_SELF] = "self",
		[HDL_LINK_MAILBOX] = "mailbox",
	};

	return n->kind == HDL_N_PUT || n->kind == HDL_N_ACCUM || n->kind == HDL_N_ARRIVE ? names[n->link] : "-";
}

static void print_graph(FILE *out, const struct hdl_graph *g, int rank)
{
	fprintf(out, "\nrank %d\n%5s  %-10s %5s  %-7s %8s  %-18s %-18s %s\n", rank, "node", "kind", "peer", "link", "bytes",
		"from", "to", "after");
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct hdl_node *n = &g->nodes[i];
		char from[48], to[48], peer[16] = "-";

		place_text(from, sizeof(from), n->src_space, n->src_off);
		place_text(to, sizeof(to), n->dst_space, n->dst_off);
		if (n->peer >= 0)
			snprintf(peer, sizeof(peer), "%d", n->peer);
		fprintf(out, "%5u  %-10s %5s  %-7s %8zu  %-18s %-18s", i, coll_explain_kind_name(n), peer, link_name(n), n->len,
			from, to);
		for (uint32_t p = 0; p < n->npreds; p++)
			fprintf(out, " %u", g->preds[n->pred0 + p]);
		fprintf(out, "\n");
	}
}

/* Graphviz. A message is an arrow from or to a node of the other rank. */
static void print_dot(FILE *out, const struct hdl_graph *g, int rank)
{
	fprintf(out, "digraph rank%d {\n\tnode [shape=box];\n", rank);
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct hdl_node *n = &g->nodes[i];
		bool comes = n->kind == HDL_N_RECV || n->kind == HDL_N_ARRIVE;

		fprintf(out, "\tn%u [label=\"%s\\n%zu bytes\"];\n", i, coll_explain_kind_name(n), n->len);
		if (n->peer >= 0 && n->peer != rank) {
			fprintf(out, "\tr%d [label=\"rank %d\", shape=ellipse];\n", n->peer, n->peer);
			if (comes)
				fprintf(out, "\tr%d -> n%u [style=dashed];\n", n->peer, i);
			else
				fprintf(out, "\tn%u -> r%d [style=dashed];\n", i, n->peer);
		}
		for (uint32_t p = 0; p < n->npreds; p++)
			fprintf(out, "\tn%u -> n%u;\n", g->preds[n->pred0 + p], i);
	}
	fprintf(out, "}\n");
}

/* ---- entry ------------------------------------------------------------------------------------------------------------ */

static const char *reduced_by_text(enum hdl_enc_by by)
{
	static const char *const texts[] = {
		[HDL_ENC_BY_VECTOR] = ", by CALC of vectors", [HDL_ENC_BY_CALC] = ", by CALC of 16-byte elements",
		[HDL_ENC_BY_ATOMICS] = ", by masked atomics",
	};

	return by == HDL_ENC_BY_NONE ? "" : texts[by];
}

/* Returns 0, or 2 for arguments without meaning, after an error message. */
static int coll_explain_key_of(const struct hdl_explain *a, const struct hdl_comm_props *props, struct hdl_plan_key *key)
{
	const char *names[HDL_COLL_KINDS + 1], *nearest;
	int coll = 0;

	for (int c = 0; c < HDL_COLL_KINDS; c++)
		names[c] = hdl_coll_name((enum hdl_coll)c);
	names[HDL_COLL_KINDS] = NULL;
	while (coll < HDL_COLL_KINDS && strcmp(names[coll], a->collective))
		coll++;
	if (coll == HDL_COLL_KINDS) {
		nearest = hdl_nearest(a->collective, names);
		fprintf(stderr, "known collectives:");
		for (int c = 0; c < HDL_COLL_KINDS; c++)
			fprintf(stderr, strchr(names[c], ' ') ? " '%s'" : " %s", names[c]);
		fprintf(stderr, "; collectives of intercommunicators run on the host executor\n");
		hdl_error("there is no collective %s%s%s", a->collective, nearest ? "; did you mean " : "",
			  nearest ? nearest : "");
		return 2;
	}
	*key = (struct hdl_plan_key){ .coll = (uint8_t)coll, .op = MPI_OP_NULL,
				      .root = hdl_coll_has_root((enum hdl_coll)coll) ? a->root : 0,
				      .blocking = !a->nonblocking && !a->persistent, .persistent = a->persistent };
	key->bytes = key_bytes(key, props, a->bytes);
	if (a->ranks < 1 || a->rank < 0 || a->rank >= a->ranks || a->root < 0 || a->root >= a->ranks) {
		hdl_error("--ranks %d, --rank %d, --root %d: ranks are counted from 0 and fewer than --ranks", a->ranks,
			  a->rank, a->root);
		return 2;
	}
	if (!hdl_coll_reduces(key->coll))
		return 0;
	key->op = hdl_op_named(a->op);
	key->type = hdl_reptype_named(a->type);
	if (!key->type || key->op == MPI_OP_NULL || !hdl_op_valid(key->op, key->type) || !hdl_op_lookup(key->op, key->type)) {
		hdl_error("--op %s --type %s: not an operation of MPI that is defined on a type of MPI (for example SUM on "
			  "DOUBLE)", a->op, a->type);
		return 2;
	}
	if (a->bytes % (size_t)hdl_type_size(key->type)) {
		hdl_error("--size %zu: not a multiple of the %lld bytes of %s", a->bytes, (long long)hdl_type_size(key->type),
			  a->type);
		return 2;
	}
	return 0;
}

/* Parses the next element of "2x4" or "3+1": `hosts` hosts of `ranks` ranks. Returns false for anything else. */
static bool next_hosts(const char **text, int *hosts, int *ranks)
{
	int n = 0;

	*hosts = 1;
	if (sscanf(*text, "%5dx%5d%n", hosts, ranks, &n) < 2 || !n) {
		*hosts = 1;
		if (sscanf(*text, "%5d%n", ranks, &n) < 1)
			return false;
	}
	*text += n;
	if (*hosts < 1 || *ranks < 1 || (**text && (*(*text)++ != '+' || !**text)))
		return false;
	return true;
}

static int host_at(const void *hosts, int rank)
{
	return ((const int *)hosts)[rank];
}

/* Makes the placement that --hosts describes. Returns 0, or 1 or 2 after an error message. */
static int parse_hosts(const char *text, int *ranks, int *nhosts, struct hdl_hosts **out)
{
	int host[HDL_HIER_RANKS], n = 0;

	for (const char *p = text; *p;) {
		int hosts, each;

		if (!next_hosts(&p, &hosts, &each) || hosts > HDL_HIER_RANKS || each > (HDL_HIER_RANKS - n) / hosts) {
			hdl_error("--hosts %s: for example 2x4 (two hosts of four ranks) or 3+1 (one of three, one of one), of "
				  "most %d ranks together", text, HDL_HIER_RANKS);
			return 2;
		}
		for (int i = 0; i < hosts * each; i++)
			host[n++] = *nhosts + i / each;
		*nhosts += hosts;
	}
	*ranks = n;
	if (!hdl_hosts_make(n, host_at, host, out))
		return 0;
	hdl_error("no memory for a map of %d ranks", n);
	return 1;
}

/* Prints how a v-collective moves its blocks. */
static void print_vcoll(FILE *out, const struct hdl_plan_key *key, const struct hdl_comm_props *props,
			const struct hdl_choice *choice)
{
	enum hdl_coll coll = (enum hdl_coll)key->coll;

	if (!has_graph(key, choice)) {
		fprintf(out, "graph        one per call\n");
		return;
	}
	if (coll == HDL_NEIGHBORS)
		fprintf(out, "neighbors    of a ring: the rank before and the rank behind\n");
	if (!hdl_coll_is_vcoll(coll))
		return;
	fprintf(out, "cells        have blocks of up to %zu bytes", key->bytes);
	if (!hdl_coll_is_vreduce(coll))
		fprintf(out, "; a longer one follows its cell as a message");
	if (!hdl_coll_is_vreduce(coll) && props->exposes && !key->persistent)
		fprintf(out, ", and from %zu on its receiver copies it by RDMA READ", hdl_sc_from(coll));
	fprintf(out, "\n");
}

static int print_all(FILE *out, const struct hdl_explain *a, const struct hdl_plan_key *key, const struct hdl_comm_props *props,
		     const struct hdl_choice *choice, const struct hdl_graph *g)
{
	char where[64] = "one host";
	int code = 0;

	if (a->hosts)
		snprintf(where, sizeof(where), "hosts %.48s", a->hosts);
	fprintf(out, "collective   %s, %zu bytes, %d ranks on %s of %d cores, %s\n", a->collective,
		key->coll == HDL_BARRIER ? 0 : a->bytes, a->ranks, where, hdl_job.ncores,
		key->blocking ? "blocking" : key->persistent ? "persistent" : "nonblocking");
	fprintf(out, "executor     %s\nalgorithm    %s\nreduces      %s%s\nwhy          %s: %s\n",
		hdl_executor_name(choice->executor), g ? g->algorithm : "blocks",
		hdl_reducer_name((enum hdl_coll)key->coll, choice->single_copy ? HDL_EXEC_HOST : choice->executor),
		reduced_by_text(choice->enc.by), hdl_executor_name(choice->executor), choice->why);
	if (choice->in_phases)
		fprintf(out, "phases       %sthe graph below among the leaders%s; a node phase is a collective of one "
			"host's ranks\n",
			key->coll == HDL_BCAST ? "" : "a reduce on each host, ",
			key->coll == HDL_REDUCE ? "" : ", a bcast on each host");
	if (choice->executor != HDL_EXEC_HOST && !choice->single_copy)
		code = print_counts(out, key, props, choice);
	print_vcoll(out, key, props, choice);
	print_crossings(out, key, props);
	if (g)
		print_graph(out, g, a->rank);
	return code;
}

static int coll_explain_explain(FILE *out, const struct hdl_explain *a, struct hdl_comm_props *props)
{
	struct hdl_graph *g = NULL;
	struct hdl_plan_key key;
	struct hdl_choice choice;
	int code = coll_explain_key_of(a, props, &key);

	if (code)
		return code;
	if (coll_explain_choose(&key, props, &choice)) {
		hdl_error("no memory to choose for %s of %zu bytes", a->collective, key.bytes);
		return 1;
	}
	if (has_graph(&key, &choice)) {
		struct hdl_plan_key of_graph = key;

		of_graph.leader_phase = choice.in_phases;
		g = graph_of(&of_graph, &choice, a->rank, a->ranks);
	} else if (a->dot) {
		hdl_error("%s: on the host executor each call has a graph of its own (%s)", a->collective, choice.why);
		return 2;
	}
	if (!g && has_graph(&key, &choice)) {
		hdl_error("no memory for the graph of %s of %zu bytes", a->collective, key.bytes);
		return 1;
	}
	if (a->dot)
		print_dot(out, g, a->rank);
	else
		code = print_all(out, a, &key, props, &choice, g);
	hdl_graph_free(g);
	return code;
}

int hdl_coll_explain(FILE *out, const struct hdl_explain *asked)
{
	struct hdl_explain a = *asked;
	struct hdl_hosts *hosts = NULL;
	struct hdl_comm_props props;
	int promises, err, nhosts = 0, code = a.hosts ? parse_hosts(a.hosts, &a.ranks, &nhosts, &hosts) : 0;

	if (code)
		return code;
	/* the properties of this process's device stand for those of all ranks */
	promises = hdl_tp_promises(hdl_mpi_tp, hdl_job.rank);
	err = promises < 0 ? promises : hdl_comm_props_of(&hdl_world, &props);
	if (err) {
		hdl_error("the promises of the device cannot be queried (%s)", strerror(-err));
		free(hosts);
		return 1;
	}
	props.wakes = promises & HDL_PROMISES_WAKES;
	props.at_once = promises & HDL_PROMISES_AT_ONCE;
	props.exposes = promises & HDL_PROMISES_EXPOSES;
	props.size = a.ranks;
	props.one_host = nhosts <= 1;
	props.hosts = hosts;
	/* a job compares the number of ranks on one host with its cores */
	props.oversubscribed = (hosts ? hosts->most : nhosts > 1 ? 1 : a.ranks) > hdl_job.ncores;
	props.cpus = hdl_comm_cpus(props.oversubscribed, hdl_job.ncores);
	code = coll_explain_explain(out, &a, &props);
	free(hosts);
	return code;
}
