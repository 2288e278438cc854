/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --report-collectives: executor, algorithm and reason of each kind of collective, with counts. Plans count their uses; a plan
 * that is freed adds its counts here.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/exec.h"
#include "collectives/internal.h"
#include "collectives/select/select.h"

struct report_row {
	struct report_row *next;
	enum hdl_coll coll;
	int size_class;			/* 0: no data; n: 2^(n-1) to 2^n - 1 bytes */
	enum hdl_executor executor;
	bool blocking, persistent, node_phase;
	const char *algorithm;
	const char *reducer;
	uint64_t count, late;
	char why[sizeof(((struct hdl_plan *)0)->why)];
};

static struct report_row *report_rows;

static int size_class(size_t bytes)
{
	return bytes ? 64 - __builtin_clzll((unsigned long long)bytes) : 0;
}

static void coll_report_add(const struct hdl_plan *plan, enum hdl_executor executor, const struct hdl_graph *g, const char *why,
		uint64_t count, uint64_t late)
{
	struct report_row **at = &report_rows, *l;
	bool vcoll = hdl_coll_is_vcoll((enum hdl_coll)plan->key.coll);
	int class = vcoll ? 0 : size_class(plan->key.bytes);
	const char *algorithm = g ? g->algorithm : "blocks";

	if (!count || (!g && !vcoll))
		return;
	for (; *at; at = &(*at)->next) {
		l = *at;
		if (l->coll == plan->key.coll && l->size_class == class && l->executor == executor &&
		    l->blocking == plan->key.blocking && l->persistent == plan->key.persistent &&
		    l->node_phase == plan->key.node_phase && l->algorithm == algorithm && !strcmp(l->why, why)) {
			l->count += count;
			l->late += late;
			return;
		}
		if (l->coll > plan->key.coll || (l->coll == plan->key.coll && l->size_class > class))
			break;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return;
	l->coll = (enum hdl_coll)plan->key.coll;
	l->size_class = class;
	l->executor = executor;
	l->blocking = plan->key.blocking;
	l->persistent = plan->key.persistent;
	l->node_phase = plan->key.node_phase;
	l->algorithm = algorithm;
	/* single copy: each rank reduces a part, as on the host */
	l->reducer = hdl_reducer_name(l->coll, executor == plan->executor ? plan->exec->reducer : executor);
	l->count = count;
	l->late = late;
	snprintf(l->why, sizeof(l->why), "%s", why);
	l->next = *at;
	*at = l;
}

void hdl_coll_count(const struct hdl_plan *plan)
{
	if (plan->key.internal)
		return;
	if (plan->executor == HDL_EXEC_HOST) {
		coll_report_add(plan, HDL_EXEC_HOST, plan->graph, plan->why, plan->uses, 0);
		return;
	}
	coll_report_add(plan, plan->executor, plan->offload_graph, plan->why, plan->uses - plan->fallbacks, plan->late);
	coll_report_add(plan, HDL_EXEC_HOST, plan->graph, plan->why_not, plan->fallbacks, 0);
}

static void coll_report_size_text(char *text, size_t n, int class)
{
	if (class == 0)
		snprintf(text, n, "-");
	else if (class == 1)
		snprintf(text, n, "1");
	else
		snprintf(text, n, "%llu-%llu", 1ULL << (class - 1), (1ULL << (class - 1)) * 2 - 1);
}

void hdl_coll_report(FILE *out)
{
	fprintf(out, "heddle: collectives of rank 0, all communicators (bytes: of the buffer; of one rank's block for allgather "
		     "and alltoall)\n");
	fprintf(out, "heddle:   %-18s %-23s %-11s %-9s %-19s %-8s %10s  %s\n", "collective", "bytes", "form", "executor",
		"algorithm", "reduces", "count", "why");
	for (const struct report_row *l = report_rows; l; l = l->next) {
		char size[48];

		coll_report_size_text(size, sizeof(size), l->size_class);
		fprintf(out, "heddle:   %-18s %-23s %-11s %-9s %-19s %-8s %10llu  %s: %s\n", hdl_coll_name(l->coll), size,
			l->node_phase ? "within host" : l->blocking ? "blocking" : l->persistent ? "persistent" : "nonblocking",
			hdl_executor_name(l->executor), l->algorithm, l->reducer, (unsigned long long)l->count,
			hdl_executor_name(l->executor), l->why);
		if (l->late)
			fprintf(out, "heddle:     of these %llu waited in the library for a slot: more operations were "
				"outstanding than HEDDLE_COLL_DEPTH=%d\n", (unsigned long long)l->late, hdl_vars.coll_depth);
	}
	if (!report_rows)
		fprintf(out, "heddle:   none\n");
}

void hdl_coll_report_free(void)
{
	while (report_rows) {
		struct report_row *l = report_rows;

		report_rows = l->next;
		free(l);
	}
}
