/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shcactl: looks into the fabrics of this user, and injects faults and events.
 *
 * shcactl is no member of a fabric: shcactl maps the file read-only, with the length of that moment, and checks every
 * offset in the file. The output is a snapshot of memory that the members change meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "config.h"
#include "shca/fabric/fabric.h"

/* ---- output: a table with aligned columns, or comma-separated values --------------------------------------------- */

struct table {
	size_t cols, cells, cap;
	char **cell;		/* the first `cols` are the header */
	bool csv;
};

static void shcactl_out_of_memory(void)
{
	fputs("shcactl: out of memory\n", stderr);
	exit(1);
}

static void shcactl_put(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void shcactl_put(struct table *t, const char *fmt, ...)
{
	va_list ap;
	char *text;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		shcactl_out_of_memory();
	if (t->cells == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 256;
		t->cell = realloc(t->cell, t->cap * sizeof(*t->cell));
		if (!t->cell)
			shcactl_out_of_memory();
	}
	t->cell[t->cells++] = text;
}

/* names: separated by blanks */
static struct table shcactl_table_of(const char *names, bool csv)
{
	struct table t = { .csv = csv };
	for (const char *s = names; *s;) {
		int n = (int)strcspn(s, " ");
		shcactl_put(&t, "%.*s", n, s);
		t.cols++;
		s += n + (s[n] == ' ');
	}
	return t;
}

static void print_table(struct table *t)
{
	for (size_t i = 0; i < t->cells; i += t->cols)
		for (size_t c = 0; c < t->cols; c++) {
			size_t width = 0;
			for (size_t k = c; !t->csv && k < t->cells; k += t->cols)
				if (strlen(t->cell[k]) > width)
					width = strlen(t->cell[k]);
			if (t->csv)
				printf("%s%c", t->cell[i + c], c + 1 == t->cols ? '\n' : ',');
			else if (c + 1 == t->cols)
				printf("%s\n", t->cell[i + c]);
			else
				printf("%-*s  ", (int)width, t->cell[i + c]);
		}
	for (size_t i = 0; i < t->cells; i++)
		free(t->cell[i]);
	free(t->cell);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

static const char *type_name(unsigned type)
{
	switch (type) {
	case IBV_QPT_RC: return "RC";
	case IBV_QPT_UC: return "UC";
	case IBV_QPT_UD: return "UD";
	case IBV_QPT_RAW_PACKET: return "RAW";
	case IBV_QPT_XRC_SEND: return "XRC_SEND";
	case IBV_QPT_XRC_RECV: return "XRC_RECV";
	case SHCA_QPT_DCI: return "DCI";
	case SHCA_QPT_DCT: return "DCT";
	}
	return "?";
}

/* The name of shca_header.retired[i]. */
static const char *total_name(unsigned i)
{
	return i == 12 ? "DCI" : i == 13 ? "DCT" : type_name(i);
}

static const char *shcactl_state_name(unsigned state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	return state < 7 ? names[state] : "?";
}

static const char *lane_name(unsigned lane)
{
	return lane == SHCA_LANE_ARENA ? "arena" : lane == SHCA_LANE_CMA ? "cma" :
	       lane == SHCA_LANE_PROXY ? "proxy" : "?";
}

static struct shca_proc_slot *shcactl_proc_of(const struct shca_member *m, uint32_t slot)
{
	return slot < SHCA_MAX_PROCS ? &m->procs[slot] : NULL;
}

/* slot, pid, program */
static void put_owner(struct table *t, const struct shca_member *m, uint32_t slot)
{
	const struct shca_proc_slot *p = shcactl_proc_of(m, slot);
	if (slot == SHCA_COMMON) {
		shcactl_put(t, "-");
		shcactl_put(t, "-");
		shcactl_put(t, "(its holders)");
		return;
	}
	shcactl_put(t, "%u", slot);
	shcactl_put(t, "%d", p ? p->pid : 0);
	shcactl_put(t, "%.*s", (int)sizeof(p->comm), p && p->comm[0] ? p->comm : "?");
}

/* ---- the sub-commands ---------------------------------------------------------------------------------------------- */

struct options {
	const char *fabric;
	bool csv;
	int argc;
	char **argv;		/* arguments behind the sub-command */
};

static uint64_t chunks_of(const struct shca_member *m, uint32_t slot)
{
	const _Atomic uint32_t *owner = shca_at(m->base, m->hdr->chunks);
	uint32_t n = atomic_load(&m->hdr->chunk_high);
	uint64_t sum = 0;
	for (uint32_t i = m->hdr->first_chunk; i < n && i < m->hdr->nchunks; i++)
		sum += slot == UINT32_MAX ? atomic_load(&owner[i]) != 0 : atomic_load(&owner[i]) == slot + 1;
	return sum;
}

static uint32_t threads_of(const struct shca_member *m, uint32_t slot)
{
	uint32_t n = atomic_load(&m->hdr->thread_high), sum = 0;
	for (uint32_t i = 0; i < n && i < SHCA_MAX_THREADS; i++)
		sum += atomic_load(&m->threads[i].owner) == slot + 1;
	return sum;
}

static const char *proc_state(struct shca_member *m, uint32_t slot)
{
	switch (atomic_load(&m->procs[slot].state) & 255) {
	case SHCA_PROC_JOINING: return shca_proc_alive(m, slot) ? "joining" : "dead";
	case SHCA_PROC_LIVE: return shca_proc_alive(m, slot) ? "live" : "dead";
	case SHCA_PROC_REAPING: return "reaped";
	}
	return NULL;
}

static int show_processes(struct shca_member *m, const struct options *o)
{
	struct table t = shcactl_table_of("slot pid program state threads kib cma sleepers foreign_wqes", o->csv);
	uint32_t n = atomic_load(&m->hdr->proc_high);
	for (uint32_t i = 0; i < n && i < SHCA_MAX_PROCS; i++) {
		const char *state = proc_state(m, i);
		if (!state)
			continue;
		put_owner(&t, m, i);
		shcactl_put(&t, "%s", state);
		shcactl_put(&t, "%u", threads_of(m, i));
		shcactl_put(&t, "%" PRIu64, chunks_of(m, i) * (SHCA_CHUNK >> 10));
		shcactl_put(&t, "%s", m->procs[i].cma ? "yes" : "no");
		shcactl_put(&t, "%u", atomic_load(&m->procs[i].sleepers));
		shcactl_put(&t, "%" PRIu64, atomic_load(&m->procs[i].foreign_wqes));
	}
	print_table(&t);
	return 0;
}

static void put_qp(struct table *t, const struct shca_member *m, const struct shca_qp *qp)
{
	const struct shca_proc_slot *peer = qp->peer_proc ? shcactl_proc_of(m, (qp->peer_proc & 0xffff) - 1) : NULL;
	uint64_t enabled = atomic_load(&qp->enabled);
	shcactl_put(t, "0x%06x", qp->qpn);
	shcactl_put(t, "%s", type_name(qp->type));
	shcactl_put(t, "%s", shcactl_state_name(atomic_load(&qp->qp_state)));
	put_owner(t, m, qp->proc);
	shcactl_put(t, "0x%06x", qp->dest_qpn);
	shcactl_put(t, "%d", peer ? peer->pid : 0);
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->n_msgs));
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->n_bytes));
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->n_recv_msgs));
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->n_foreign));
	shcactl_put(t, "%s", atomic_load(&qp->shared) ? "shared" : "direct");
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->head));
	shcactl_put(t, "%" PRIu64, atomic_load(&qp->posted));
	if (enabled == UINT64_MAX)
		shcactl_put(t, "all");
	else
		shcactl_put(t, "%" PRIu64, enabled);
}

static void shcactl_put_srq(struct table *t, const struct shca_member *m, const struct shca_rq *rq)
{
	shcactl_put(t, "0x%06x", rq->number);
	shcactl_put(t, "%s", rq->xrcd ? "XRC_SRQ" : "SRQ");
	shcactl_put(t, "%s", atomic_load(&rq->dead) ? "DEAD" : "-");
	put_owner(t, m, rq->proc);
	for (int i = 0; i < 7; i++)
		shcactl_put(t, "-");
	shcactl_put(t, "%" PRIu64, atomic_load(&rq->head));
	shcactl_put(t, "%" PRIu64, atomic_load(&rq->tail));
	if (rq->managed)
		shcactl_put(t, "%" PRIu64, atomic_load(&rq->enabled));
	else
		shcactl_put(t, "all");
}

static void put_cq(struct table *t, const struct shca_member *m, const struct shca_cq *cq)
{
	shcactl_put(t, "0x%06x", cq->cqn);
	shcactl_put(t, "CQ");
	shcactl_put(t, "%s", atomic_load(&cq->error) ? "ERR" : atomic_load(&cq->notify) & SHCA_CQ_ARMED ? "ARMED" : "-");
	put_owner(t, m, cq->proc);
	for (int i = 0; i < 7; i++)
		shcactl_put(t, "-");
	shcactl_put(t, "%" PRIu64, atomic_load(&cq->ci));
	shcactl_put(t, "%" PRIu64, atomic_load(&cq->tail));
	shcactl_put(t, "-");
}

/* Calls f with each object that a number names. */
static void each_number(const struct shca_member *m, void (*f)(void *, const struct shca_member *, unsigned, shca_off),
			void *arg)
{
	uint32_t n = shca_segments_used(m, false);
	for (uint32_t i = 0; i < n; i++) {
		const shca_dirent *seg =
			shca_at_checked(m, atomic_load(&m->qp_segs[i]), SHCA_QP_SEG * sizeof(shca_dirent));
		for (uint32_t k = 0; seg && k < SHCA_QP_SEG; k++) {
			uint64_t e = atomic_load(&seg[k]);
			if (e & 7)
				f(arg, m, e & 7, e & ~(uint64_t)7);
		}
	}
}

static void queue_row(void *arg, const struct shca_member *m, unsigned kind, shca_off off)
{
	const void *p;
	if (kind == SHCA_KIND_QP && (p = shca_at_checked(m, off, sizeof(struct shca_qp))))
		put_qp(arg, m, p);
	else if (kind == SHCA_KIND_SRQ && (p = shca_at_checked(m, off, sizeof(struct shca_rq))))
		shcactl_put_srq(arg, m, p);
	else if (kind == SHCA_KIND_CQ && (p = shca_at_checked(m, off, sizeof(struct shca_cq))))
		put_cq(arg, m, p);
}

static int show_queues(struct shca_member *m, const struct options *o)
{
	struct table t = shcactl_table_of("number type state slot pid program peer peer_pid msgs bytes recv_msgs foreign "
				  "mode head posted enabled",
				  o->csv);
	each_number(m, queue_row, &t);
	print_table(&t);
	return 0;
}

struct sums {
	uint64_t live, queues, msgs, bytes, foreign, calcs, waits, enables, atomics;
};

static void queue_sum(void *arg, const struct shca_member *m, unsigned kind, shca_off off)
{
	const struct shca_qp *qp = kind == SHCA_KIND_QP ? shca_at_checked(m, off, sizeof(*qp)) : NULL;
	if (!qp)
		return;
	struct sums *s = (struct sums *)arg + SHCA_TOTAL_OF(qp->type);
	s->live++;
	s->queues++;
	s->msgs += atomic_load(&qp->n_msgs);
	s->bytes += atomic_load(&qp->n_bytes);
	s->foreign += atomic_load(&qp->n_foreign);
	s->calcs += atomic_load(&qp->n_calcs);
	s->waits += atomic_load(&qp->n_waits);
	s->enables += atomic_load(&qp->n_enables);
	s->atomics += atomic_load(&qp->n_atomics);
}

static int show_totals(struct shca_member *m, const struct options *o)
{
	struct table t = shcactl_table_of("type live queues msgs bytes foreign calcs waits enables atomics", o->csv);
	struct sums s[16] = { 0 };
	each_number(m, queue_sum, s);
	for (unsigned i = 0; i < 16; i++) {
		struct shca_total *r = &m->hdr->retired[i];
		s[i].queues += atomic_load(&r->queues);
		s[i].msgs += atomic_load(&r->msgs);
		s[i].bytes += atomic_load(&r->bytes);
		s[i].foreign += atomic_load(&r->foreign);
		s[i].calcs += atomic_load(&r->calcs);
		s[i].waits += atomic_load(&r->waits);
		s[i].enables += atomic_load(&r->enables);
		s[i].atomics += atomic_load(&r->atomics);
		if (!s[i].queues)
			continue;
		shcactl_put(&t, "%s", total_name(i));
		shcactl_put(&t, "%" PRIu64, s[i].live);
		shcactl_put(&t, "%" PRIu64, s[i].queues);
		shcactl_put(&t, "%" PRIu64, s[i].msgs);
		shcactl_put(&t, "%" PRIu64, s[i].bytes);
		shcactl_put(&t, "%" PRIu64, s[i].foreign);
		shcactl_put(&t, "%" PRIu64, s[i].calcs);
		shcactl_put(&t, "%" PRIu64, s[i].waits);
		shcactl_put(&t, "%" PRIu64, s[i].enables);
		shcactl_put(&t, "%" PRIu64, s[i].atomics);
	}
	print_table(&t);
	return 0;
}

static void put_access(struct table *t, uint32_t access)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} bits[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "lw" },     { IBV_ACCESS_REMOTE_WRITE, "rw" }, { IBV_ACCESS_REMOTE_READ, "rr" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "ra" },   { IBV_ACCESS_MW_BIND, "mw" },	  { IBV_ACCESS_ZERO_BASED, "zb" },
		{ IBV_ACCESS_ON_DEMAND, "odp" },      { IBV_ACCESS_RELAXED_ORDERING, "ro" },
	};
	char text[64] = "";
	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		if (access & bits[i].bit) {
			if (text[0])
				strcat(text, "+");
			strcat(text, bits[i].name);
		}
	shcactl_put(t, "%s", text[0] ? text : "-");
}

static int show_regions(struct shca_member *m, const struct options *o)
{
	struct table t = shcactl_table_of("key lane slot pid program pd access iova length where", o->csv);
	uint32_t n = shca_segments_used(m, true);
	for (uint32_t i = 0; i < n; i++) {
		const struct shca_mr *seg = shca_at_checked(m, atomic_load(&m->mr_segs[i]), SHCA_MR_SEG * sizeof(*seg));
		for (uint32_t k = 0; seg && k < SHCA_MR_SEG; k++) {
			const struct shca_mr *mr = &seg[k];
			uint32_t key = atomic_load(&mr->key), bound = atomic_load(&mr->bound);
			if (!(key | bound))
				continue;
			shcactl_put(&t, "0x%08x", key ? key : bound);
			shcactl_put(&t, "%s%s", lane_name(mr->lane), !key ? "(window)" : mr->implicit ? "(implicit)" : "");
			put_owner(&t, m, mr->proc);
			shcactl_put(&t, "%u", mr->pd);
			put_access(&t, mr->access);
			shcactl_put(&t, "0x%" PRIx64, mr->iova);
			shcactl_put(&t, "%" PRIu64, mr->length);
			shcactl_put(&t, "0x%" PRIx64, mr->where);
		}
	}
	print_table(&t);
	return 0;
}

static void show_faults(const struct shca_header *h)
{
	printf("ud_drop=%.6g ud_dup=%.6g ud_reorder=%.6g seed=%" PRIu64 "\n", atomic_load(&h->ud_drop) / 4294967296.0,
	       atomic_load(&h->ud_dup) / 4294967296.0, atomic_load(&h->ud_reorder) / 4294967296.0,
	       atomic_load(&h->fault_seed));
}

static int set_faults(struct shca_member *m, const struct options *o)
{
	for (int i = 0; i < o->argc; i++)
		if (shca_fault_set(m->hdr, o->argv[i]))
			return 2;
	show_faults(m->hdr);
	return 0;
}

/* inject [--port N] EVENT [VALUE] */
static int inject(struct shca_member *m, const struct options *o)
{
	char **v = o->argv;
	int n = o->argc;

	if (n && (!strcmp(v[0], "--port") || !strncmp(v[0], "--port=", 7))) {
		const char *port = v[0][6] ? v[0] + 7 : n > 1 ? v[1] : "";
		if (strcmp(port, "1")) {
			fprintf(stderr, "shcactl: inject: port \"%s\": the device has port 1\n", port);
			return 2;
		}
		n -= v[0][6] ? 1 : 2;
		v += v[0][6] ? 1 : 2;
	}
	if (n < 1 || n > 2) {
		fputs("usage: shcactl [--fabric NAME] inject [--port 1] EVENT [VALUE]\n\n", n ? stderr : stdout);
		shca_port_help(n ? stderr : stdout);
		return n ? 2 : 0;
	}
	return shca_port_inject(m, v[0], n == 2 ? v[1] : NULL) ? 2 : 0;
}

static int show_fabrics(const struct options *o)
{
	struct shca_fabric_info *list;
	size_t n;
	int err = shca_fabric_list(&list, &n);
	if (err) {
		fprintf(stderr, "shcactl: cannot list the fabrics: %s\n", strerror(-err));
		return 1;
	}
	struct table t = shcactl_table_of("name uid processes used_kib span_mib fences found_by", o->csv);
	for (size_t i = 0; i < n; i++) {
		struct shca_member m;
		err = shca_fabric_map(&m, &list[i], false, true);
		if (err == -EPROTO) {
			shcactl_put(&t, "%s", list[i].name);
			shcactl_put(&t, "%u", (unsigned)geteuid());
			for (int k = 0; k < 3; k++)
				shcactl_put(&t, "-");
			shcactl_put(&t, "other-version");
			shcactl_put(&t, "%d", list[i].pid);
		}
		if (err)
			continue;	/* else: ended meanwhile */
		uint32_t high = atomic_load(&m.hdr->proc_high), procs = 0;
		for (uint32_t k = 0; k < high && k < SHCA_MAX_PROCS; k++) {
			const char *state = proc_state(&m, k);
			procs += state && !strcmp(state, "live");
		}
		shcactl_put(&t, "%s", m.hdr->name);
		shcactl_put(&t, "%u", m.hdr->uid);
		shcactl_put(&t, "%u", procs);
		shcactl_put(&t, "%" PRIu64, chunks_of(&m, UINT32_MAX) * (SHCA_CHUNK >> 10));
		shcactl_put(&t, "%" PRIu64, m.hdr->bytes >> 20);
		shcactl_put(&t, "%s", m.hdr->fences ? "full" : "membarrier");
		shcactl_put(&t, "%d", list[i].pid);
		shca_fabric_unmap(&m);
	}
	print_table(&t);
	free(list);
	return 0;
}

/* ---- the command line ---------------------------------------------------------------------------------------------- */

static const struct command {
	const char *name, *args, *text;
	int (*run)(struct shca_member *, const struct options *);
	bool writes;
} commands[] = {
	{ "fabrics", "", "the fabrics of this user", NULL, false },
	{ "processes", "", "who is in the fabric, with memory and work done for others", show_processes, false },
	{ "queues", "", "queue pairs with state and counters, shared receive queues, completion queues", show_queues, false },
	{ "totals", "", "messages and bytes per kind of queue, those that are gone included", show_totals, false },
	{ "regions", "", "registered memory, and by which lane peers reach it", show_regions, false },
	{ "set", "[NAME=VALUE...]", "inject faults: ud_drop, ud_dup, ud_reorder (probabilities), seed; alone: show", set_faults,
	  true },
	{ "inject", "EVENT [VALUE]", "something happens to the port or the device, and all processes learn of it; alone: what there is",
	  inject, true },
};
#define NCOMMANDS ARRAY_SIZE(commands)

static void usage(FILE *out)
{
	fputs("usage: shcactl [--fabric NAME] [-o table|csv] COMMAND\n\n", out);
	for (size_t i = 0; i < NCOMMANDS; i++)
		fprintf(out, "  %-10s%-16s %s\n", commands[i].name, commands[i].args, commands[i].text);
	fputs("\n  --fabric NAME  look into this fabric (default: SHCA_FABRIC, else \"default\", else the only one)\n"
	      "  -o table|csv   aligned columns, or comma-separated values; both with a line of names\n"
	      "  --help, --version\n\n"
	      "mode, head, posted, enabled: \"shared\" queues hold requests that any process may run: they stand at head,\n"
	      "requests below enabled may run, posted have been posted. foreign: requests run by other processes.\n",
	      out);
}

/* Number of insertions, deletions and replacements between two short words. */
static unsigned shcactl_distance(const char *a, const char *b)
{
	unsigned row[64];
	size_t n = strlen(b);
	if (n > 62)
		return UINT32_MAX;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diag = row[0];
		row[0] = i;
		for (unsigned j = 1; j <= n; j++) {
			unsigned best = diag + (a[i - 1] != b[j - 1]);
			diag = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

static int shcactl_unknown(const char *what, const char *word, const char *const *names, size_t n)
{
	unsigned best = UINT32_MAX;
	const char *near = NULL;
	for (size_t i = 0; i < n; i++) {
		unsigned d = !strncmp(names[i], word, strlen(word)) ? 0 : shcactl_distance(word, names[i]);
		if (d < best) {
			best = d;
			near = names[i];
		}
	}
	if (near && best <= 1 + strlen(word) / 3)
		fprintf(stderr, "shcactl: unknown %s \"%s\": did you mean \"%s\"?\n", what, word, near);
	else
		fprintf(stderr, "shcactl: unknown %s \"%s\": see shcactl --help\n", what, word);
	return 2;
}

/* Maps the fabric that the options mean. 0, or the exit status. */
static int shcactl_choose(struct shca_member *m, const struct options *o, bool writable)
{
	struct shca_fabric_info *list;
	size_t n, at;
	const char *name = o->fabric ? o->fabric : getenv("SHCA_FABRIC");
	const char *wanted = name && *name ? name : "default";
	int err = shca_fabric_list(&list, &n);
	if (err) {
		fprintf(stderr, "shcactl: cannot list the fabrics: %s\n", strerror(-err));
		return 1;
	}
	for (at = 0; at < n && strcmp(list[at].name, wanted); at++)
		;
	if (at == n && (!name || !*name) && n == 1)
		at = 0;
	if (at == n) {
		fprintf(stderr, "shcactl: user %u has no fabric \"%s\"; ", (unsigned)geteuid(), wanted);
		fprintf(stderr, n ? "there is" : "there is none at all\n");
		for (size_t i = 0; i < n; i++)
			fprintf(stderr, " \"%s\"%s", list[i].name, i + 1 == n ? "\n" : ",");
		free(list);
		return 1;
	}
	err = shca_fabric_map(m, &list[at], writable, false);
	if (err)
		fprintf(stderr, "shcactl: cannot look into the fabric \"%s\" of process %d: %s\n", list[at].name, list[at].pid,
			strerror(-err));
	free(list);
	return err ? 1 : 0;
}

static int shcactl_run(const struct command *c, const struct options *o)
{
	struct shca_member m;
	if (o->argc && !c->writes) {
		fprintf(stderr, "shcactl: %s takes no argument, but was given \"%s\"\n", c->name, o->argv[0]);
		return 2;
	}
	if (!c->run)
		return show_fabrics(o);
	int status = shcactl_choose(&m, o, c->writes && o->argc);
	if (status)
		return status;
	status = c->run(&m, o);
	shca_fabric_unmap(&m);
	return status;
}

int main(int argc, char **argv)
{
	static const char *const option_names[] = { "--fabric", "--output", "--help", "--version" };
	const char *names[NCOMMANDS];
	struct options o = { 0 };
	int i = 1;
	for (; i < argc && argv[i][0] == '-'; i++) {
		const char *a = argv[i];
		if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
			usage(stdout);
			return 0;
		} else if (!strcmp(a, "--version")) {
			puts("shcactl " PACKAGE_VERSION);
			return 0;
		} else if (!strncmp(a, "--fabric=", 9)) {
			o.fabric = a + 9;
		} else if (!strcmp(a, "--fabric") || !strcmp(a, "-o") || !strcmp(a, "--output")) {
			if (++i == argc) {
				fprintf(stderr, "shcactl: %s needs an argument\n", a);
				return 2;
			}
			if (!strcmp(a, "--fabric")) {
				o.fabric = argv[i];
			} else if (strcmp(argv[i], "csv") && strcmp(argv[i], "table")) {
				fprintf(stderr, "shcactl: unknown output \"%s\": table or csv\n", argv[i]);
				return 2;
			} else {
				o.csv = !strcmp(argv[i], "csv");
			}
		} else {
			return shcactl_unknown("option", a, option_names, 4);
		}
	}
	if (i == argc) {
		usage(stderr);
		return 2;
	}
	for (size_t k = 0; k < NCOMMANDS; k++) {
		names[k] = commands[k].name;
		if (strcmp(commands[k].name, argv[i]))
			continue;
		o.argc = argc - i - 1;
		o.argv = argv + i + 1;
		int status = shcactl_run(&commands[k], &o);
		if (fflush(stdout) || ferror(stdout)) {
			fprintf(stderr, "shcactl: cannot write: %s\n", strerror(errno));
			return 1;
		}
		return status;
	}
	return shcactl_unknown("command", argv[i], names, NCOMMANDS);
}
