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
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "config.h"
#include "shca/engine/engine.h"
#include "tools/shcactl.h"

/* ---- output: a table with aligned columns, comma-separated values, or an array of JSON objects -------------------- */

struct table {
	size_t cols, cells, cap;
	char **cell;		/* the first `cols` are the header */
	enum output output;
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
static struct table shcactl_table_of(const char *names, enum output output)
{
	struct table t = { .output = output };
	for (const char *s = names; *s;) {
		int n = (int)strcspn(s, " ");
		shcactl_put(&t, "%.*s", n, s);
		t.cols++;
		s += n + (s[n] == ' ');
	}
	return t;
}

static void print_aligned(const struct table *t)
{
	for (size_t i = 0; i < t->cells; i += t->cols)
		for (size_t c = 0; c < t->cols; c++) {
			size_t width = 0;
			for (size_t k = c; k < t->cells; k += t->cols)
				if (strlen(t->cell[k]) > width)
					width = strlen(t->cell[k]);
			if (c + 1 == t->cols)
				printf("%s\n", t->cell[i + c]);
			else
				printf("%-*s  ", (int)width, t->cell[i + c]);
		}
}

static void print_csv(const struct table *t)
{
	for (size_t i = 0; i < t->cells; i++)
		printf("%s%c", t->cell[i], (i + 1) % t->cols ? ',' : '\n');
}

static void json_text(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		if ((unsigned char)*s < ' ')
			printf("\\u%04x", (unsigned)*s);
		else
			putchar(*s);
	}
	putchar('"');
}

/* Decimal numbers as numbers, "-" as null, all else as text. In one line. */
static void print_json(const struct table *t)
{
	putchar('[');
	for (size_t i = t->cols; i < t->cells; i++) {
		const char *v = t->cell[i];
		size_t digits = strspn(v, "0123456789");
		printf("%s", i % t->cols ? ", " : i == t->cols ? "{" : "}, {");
		json_text(t->cell[i % t->cols]);
		printf(": ");
		if (*v && !v[digits] && (digits == 1 || *v != '0'))
			printf("%s", v);
		else if (!strcmp(v, "-"))
			printf("null");
		else
			json_text(v);
	}
	printf("%s]\n", t->cells > t->cols ? "}" : "");
}

static void print_table(struct table *t)
{
	if (t->output == OUTPUT_JSON)
		print_json(t);
	else if (t->output == OUTPUT_CSV)
		print_csv(t);
	else
		print_aligned(t);
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

/* job, rank */
static void put_place(struct table *t, const struct shca_member *m, uint32_t slot)
{
	const struct shca_proc_slot *p = slot == SHCA_COMMON ? NULL : shcactl_proc_of(m, slot);
	if (!p || !p->rank) {
		shcactl_put(t, "-");
		shcactl_put(t, "-");
		return;
	}
	shcactl_put(t, "%.*s", (int)SHCA_JOB_NAME, shca_job_of(m, slot));
	shcactl_put(t, "%u", p->rank - 1);
}

/* ---- the sub-commands ---------------------------------------------------------------------------------------------- */

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
	struct table t = shcactl_table_of("slot pid program state threads kib cma sleepers foreign_wqes job rank", o->output);
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
		put_place(&t, m, i);
	}
	print_table(&t);
	return 0;
}

/* A queue's progress, as an earlier look has seen it (queues --watch). */
struct seen {
	uint32_t qpn;
	uint64_t head, since;
};
struct seen_all {
	struct seen *q;
	size_t n, cap;
};
/* NULL: there is one look only. */
static struct seen_all *watch;

/* Returns the time since which the queue's head has been seen at its present position. 0: not known. */
static uint64_t seen_since(uint32_t qpn, uint64_t head, uint64_t now)
{
	if (!watch)
		return 0;
	for (size_t i = 0; i < watch->n; i++) {
		struct seen *s = &watch->q[i];
		if (s->qpn != qpn)
			continue;
		if (s->head != head)
			*s = (struct seen){ qpn, head, now };
		return s->since;
	}
	if (watch->n == watch->cap) {
		watch->cap = watch->cap ? 2 * watch->cap : 64;
		watch->q = realloc(watch->q, watch->cap * sizeof(*watch->q));
		if (!watch->q)
			shcactl_out_of_memory();
	}
	watch->q[watch->n++] = (struct seen){ qpn, head, now };
	return now;
}

/* Returns the request that the queue runs next; NULL: not readable. */
static const struct shca_wqe *next_wqe(const struct shca_member *m, const struct shca_qp *qp, uint64_t head, uint64_t posted)
{
	if (!qp->wqes || !shca_sq_sound(m, qp, head, posted))
		return NULL;
	const struct shca_wqe *w = shca_wqe_at(m->base, qp, head);
	return shca_fits(m, (uint64_t)((const char *)w - m->base), sizeof(*w)) ? w : NULL;
}

static void put_wait(struct table *t, const struct shca_member *m, const struct shca_wqe *w)
{
	const struct shca_cq *cq = shca_at_checked(m, w->raddr, sizeof(*cq));

	shcactl_put(t, "WAIT for completion %" PRIu64 " of CQ 0x%06x which has %" PRIu64, w->arg[0], cq ? cq->cqn : 0,
		    cq ? atomic_load(&cq->tail) : 0);
}

/* waits_for, since_ms: why the request at the queue's head does not run. */
static void put_stuck(struct table *t, const struct shca_member *m, const struct shca_qp *qp)
{
	uint64_t posted = atomic_load(&qp->posted), head = atomic_load(&qp->head), now = monotonic_ns();
	uint64_t stalled = atomic_load(&qp->rnr_since), held = atomic_load(&qp->held), since = seen_since(qp->qpn, head, now);
	const struct shca_wqe *w;

	if (!atomic_load(&qp->shared) || head >= posted || atomic_load(&qp->qp_state) == IBV_QPS_ERR) {
		shcactl_put(t, "-");
		shcactl_put(t, "-");
		return;
	}
	if (head >= atomic_load(&qp->enabled))
		shcactl_put(t, "SEND_ENABLE");
	else if (stalled && held > now)
		shcactl_put(t, "the tap: %s", shca_fate_name(held & 7));
	else if (stalled)
		shcactl_put(t, "%s of 0x%06x", atomic_load(&qp->rnr_linked) & 1 ? "a receive" : "an answer", qp->dest_qpn);
	else if ((w = next_wqe(m, qp, head, posted)) && w->op == SHCA_OP_WAIT)
		put_wait(t, m, w);
	else
		shcactl_put(t, "a CPU");
	if (stalled)
		since = stalled;
	if (since && since <= now)
		shcactl_put(t, "%" PRIu64, (now - since) / 1000000);
	else
		shcactl_put(t, "-");
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
	put_place(t, m, qp->proc);
	put_stuck(t, m, qp);
}

/* The columns that rows of other objects than queue pairs do not have. */
static void put_no_stuck(struct table *t, const struct shca_member *m, uint32_t proc)
{
	put_place(t, m, proc);
	shcactl_put(t, "-");
	shcactl_put(t, "-");
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
	put_no_stuck(t, m, rq->proc);
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
	put_no_stuck(t, m, cq->proc);
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

static void print_queues(struct shca_member *m, const struct options *o)
{
	struct table t = shcactl_table_of("number type state slot pid program peer peer_pid msgs bytes recv_msgs foreign "
				  "mode head posted enabled job rank waits_for since_ms",
				  o->output);
	each_number(m, queue_row, &t);
	print_table(&t);
}

static volatile sig_atomic_t interrupted;
static void shcactl_on_signal(int sig)
{
	interrupted = sig;
}

void shcactl_catch(void)
{
	struct sigaction act = { .sa_handler = shcactl_on_signal };	/* no SA_RESTART: sleeps end */
	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	/* under a limit on the size of files a write fails with EFBIG, and the trace is ended in good order */
	signal(SIGXFSZ, SIG_IGN);
}

bool shcactl_interrupted(void)
{
	return interrupted;
}

void shcactl_nap(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	nanosleep(&t, NULL);
}

bool shcactl_anyone(struct shca_member *m)
{
	uint32_t n = atomic_load(&m->hdr->proc_high);
	for (uint32_t i = 0; i < n && i < SHCA_MAX_PROCS; i++) {
		const char *state = proc_state(m, i);
		if (state && (!strcmp(state, "live") || !strcmp(state, "joining")))
			return true;
	}
	return false;
}

/* queues [--watch[=SECONDS]] */
static int show_queues(struct shca_member *m, const struct options *o)
{
	struct seen_all seen = { 0 };
	double every = 1;
	char *end = NULL;

	if (!o->argc) {
		print_queues(m, o);
		return 0;
	}
	if (!strncmp(o->argv[0], "--watch=", 8))
		every = strtod(o->argv[0] + 8, &end);
	if (o->argc > 1 || (strcmp(o->argv[0], "--watch") && (!end || *end || !(every >= 0.01) || every > 86400))) {
		fprintf(stderr, "shcactl: queues takes no argument but --watch[=SECONDS], but was given \"%s\"\n",
			o->argv[o->argc - 1]);
		return 2;
	}
	watch = &seen;
	shcactl_catch();
	for (bool was = shcactl_anyone(m), is; (is = shcactl_anyone(m)) || !was; was |= is) {
		if (shcactl_interrupted() || shca_fabric_remap(m))
			break;
		if (o->output == OUTPUT_TABLE && isatty(1))
			printf("\033[H\033[2J");
		print_queues(m, o);
		if (fflush(stdout))
			break;
		shcactl_nap(every);
	}
	free(seen.q);
	watch = NULL;
	return 0;
}

uint32_t shcactl_number(const char *s)
{
	char *end;
	errno = 0;
	unsigned long n = strtoul(s, &end, 0);
	return errno || *end || end == s || n > 0xffffff ? 0 : (uint32_t)n;
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
	struct table t = shcactl_table_of("type live queues msgs bytes foreign calcs waits enables atomics", o->output);
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
	struct table t = shcactl_table_of("key lane slot pid program pd access iova length where", o->output);
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

static void show_queue_faults(const struct shca_member *m)
{
	const struct shca_tap *t = shca_tap_of(m);

	for (const struct shca_fault *f = t->faults; f < t->faults + SHCA_FAULTS; f++) {
		uint32_t qpn = atomic_load(&f->qpn);
		if (!qpn)
			continue;
		if (qpn == SHCA_FAULT_ALL)
			printf("queue=all");
		else
			printf("queue=0x%06x", qpn);
		for (unsigned i = 1; i < SHCA_FATES; i++)
			printf(" %s=%.6g", shca_fate_name(i), atomic_load(&f->odds[i]) / 4294967296.0);
		printf(" delay_us=%u seed=%" PRIu64 "; of %" PRIu64 " requests:", atomic_load(&f->delay_us),
		       atomic_load(&f->seed), atomic_load(&f->drawn));
		for (unsigned i = 1; i < SHCA_FATES; i++)
			printf(" %s %" PRIu64, shca_fate_name(i), atomic_load(&f->hits[i]));
		printf("\n");
	}
}

/* set [--queue N|all] [NAME=VALUE...] */
static int set_faults(struct shca_member *m, const struct options *o)
{
	uint32_t qpn = 0;
	int i = 0;

	if (o->argc && !strncmp(o->argv[0], "--queue", 7) && (!o->argv[0][7] || o->argv[0][7] == '=')) {
		const char *which = o->argv[0][7] ? o->argv[0] + 8 : o->argc > 1 ? o->argv[1] : "";
		qpn = !strcmp(which, "all") ? SHCA_FAULT_ALL : shcactl_number(which);
		i = o->argv[0][7] ? 1 : 2;
		if (!qpn || i >= o->argc) {
			fputs("shcactl: set: --queue NUMBER|all, then drop=P, delay=P, rnr=P, dup=P, delay_us=N, seed=N\n",
			      stderr);
			return 2;
		}
	}
	for (; i < o->argc; i++)
		if (qpn ? shca_fault_queue(m, qpn, o->argv[i]) : shca_fault_set(m->hdr, o->argv[i]))
			return 2;
	show_faults(m->hdr);
	show_queue_faults(m);
	return 0;
}

/* inject [--port N] EVENT [VALUE] */
static int inject(struct shca_member *m, const struct options *o)
{
	char **v = o->argv;
	int n = o->argc;
	uint32_t number = 1;

	if (n && (!strcmp(v[0], "--port") || !strncmp(v[0], "--port=", 7))) {
		const char *port = v[0][6] ? v[0] + 7 : n > 1 ? v[1] : "";
		if (strcmp(port, "1") && strcmp(port, "2")) {
			fprintf(stderr, "shcactl: inject: port \"%s\": the device has ports 1 and 2\n", port);
			return 2;
		}
		number = (uint32_t)(*port - '0');
		n -= v[0][6] ? 1 : 2;
		v += v[0][6] ? 1 : 2;
	}
	if (n < 1 || n > 2) {
		fputs("usage: shcactl [--fabric NAME] inject [--port 1|2] EVENT [VALUE]\n\n", n ? stderr : stdout);
		shca_port_help(n ? stderr : stdout);
		return n ? 2 : 0;
	}
	return shca_port_inject(m, number, v[0], n == 2 ? v[1] : NULL) ? 2 : 0;
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
	struct table t = shcactl_table_of("name uid processes used_kib span_mib fences found_by", o->output);
	for (size_t i = 0; i < n; i++) {
		struct shca_member m;
		err = shca_fabric_map(&m, &list[i], SHCA_MAP_QUIET);
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
	bool takes, writes;	/* arguments; the fabric, if there are arguments */
} commands[] = {
	{ "fabrics", "", "the fabrics of this user", NULL, false, false },
	{ "processes", "", "the processes of the fabric, with memory, work done for other processes, job and rank",
	  show_processes, false, false },
	{ "queues", "[--watch[=S]]", "queue pairs with state, counters, and the reason why one waits; shared receive queues, "
				     "completion queues",
	  show_queues, true, false },
	{ "totals", "", "messages and bytes per kind of queue, destroyed queues included", show_totals, false, false },
	{ "regions", "", "registered memory, and the lane by which peers reach each region", show_regions, false, false },
	{ "trace", "-o FILE ...", "writes the packets that an adapter would have sent, for Wireshark; alone: its options",
	  shcactl_trace, true, true },
	{ "set", "[NAME=VALUE...]", "inject faults: ud_drop, ud_dup, ud_reorder (probabilities), seed; alone: show", set_faults,
	  true, true },
	{ "set", "--queue N ...", "faults of a queue's requests (or of all): drop, delay, rnr, dup (probabilities), delay_us, "
				  "seed",
	  set_faults, true, true },
	{ "inject", "EVENT [VALUE]", "an event of the port or the device, which all processes get; alone: the list of "
				     "events",
	  inject, true, true },
};
#define NCOMMANDS ARRAY_SIZE(commands)

static void usage(FILE *out)
{
	fputs("usage: shcactl [--fabric NAME] [-o table|csv|json] COMMAND\n\n", out);
	for (size_t i = 0; i < NCOMMANDS; i++)
		fprintf(out, "  %-10s%-16s %s\n", commands[i].name, commands[i].args, commands[i].text);
	fputs("\n  --fabric NAME  look into this fabric (default: SHCA_FABRIC, else \"default\", else the only one)\n"
	      "  -o FORMAT      table, csv (both with a line of names), or json (an array of objects, in a line)\n"
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
	unsigned uid;
	int pid;
	if (at == n && shca_fabric_of_others(wanted, &uid, &pid)) {
		fprintf(stderr, "shcactl: the fabric \"%s\" is of user %u (process %d), and each user can look into own fabrics "
			"only: run shcactl as that user (setpriv --reuid=%u --clear-groups, or sudo -u '#%u')\n",
			wanted, uid, pid, uid, uid);
		free(list);
		return 1;
	}
	if (at == n) {
		fprintf(stderr, "shcactl: user %u has no fabric \"%s\"; ", (unsigned)geteuid(), wanted);
		fprintf(stderr, n ? "there is" : "there is none at all\n");
		for (size_t i = 0; i < n; i++)
			fprintf(stderr, " \"%s\"%s", list[i].name, i + 1 == n ? "\n" : ",");
		free(list);
		return 1;
	}
	err = shca_fabric_map(m, &list[at], writable ? SHCA_MAP_WRITABLE : SHCA_MAP_READ_ONLY);
	if (err)
		fprintf(stderr, "shcactl: cannot look into the fabric \"%s\" of process %d: %s\n", list[at].name, list[at].pid,
			strerror(-err));
	free(list);
	return err ? 1 : 0;
}

static int shcactl_run(const struct command *c, const struct options *o)
{
	struct shca_member m;
	if (o->argc && !c->takes) {
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
			} else if (strcmp(argv[i], "csv") && strcmp(argv[i], "table") && strcmp(argv[i], "json")) {
				fprintf(stderr, "shcactl: unknown output \"%s\": table, csv or json\n", argv[i]);
				return 2;
			} else {
				o.output = *argv[i] == 'c' ? OUTPUT_CSV : *argv[i] == 'j' ? OUTPUT_JSON : OUTPUT_TABLE;
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
