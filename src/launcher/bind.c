/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding. The cores that heddlerun may use: the affinity mask, and which of these CPUs are one core's hardware
 * threads. Read from /sys directly: for the same data a topology library reads hundreds of files at every launch.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/launcher.h"
#include "launcher/place.h"
#include "runtime/runtime.h"

struct core {
	struct place_core where;
	int first;		/* the core's lowest CPU, allowed or not: identifies the core */
	cpu_set_t *mask;
};

struct binding {
	struct core *cores;
	struct place_core *where;	/* theirs, as place.h wants them */
	int n, ncpus;
	int limit;		/* CPU numbers are below */
	size_t size;		/* of each mask, bytes */
	enum domain to;
	cpu_set_t **mask;	/* by rank; not with DOMAIN_NONE */
	int nranks, each;	/* cores of each rank */
	int *core;		/* core[r * each + i]: rank r's i-th core; NULL: not bound */
	int *ranks_of;		/* by core: ranks that have it, spawned ones included; of binding_make's alone */
	struct binding *all;	/* of spawned ranks: binding_make's */
};

static int bind_read_number(int cpu, const char *what)
{
	char path[128];
	int v = -1;
	FILE *f;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%d", &v) != 1)
		v = -1;
	fclose(f);
	return v;
}

/* The NUMA node of a CPU, by the link nodeN in the CPU's directory; 0: the kernel has none. */
static int read_node(int cpu)
{
	char path[64];
	struct dirent *e;
	int node = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
	dir = opendir(path);
	while (dir && (e = readdir(dir)))
		if (sscanf(e->d_name, "node%d", &node) == 1)
			break;
	if (dir)
		closedir(dir);
	return node;
}

/* The L3 cache of a CPU, named by the first CPU that shares the cache; -1: there is none. */
static int read_l3(int cpu)
{
	char what[40];

	for (int i = 0; i < 8; i++) {
		snprintf(what, sizeof what, "../cache/index%d/level", i);
		if (bind_read_number(cpu, what) != 3)
			continue;
		snprintf(what, sizeof what, "../cache/index%d/shared_cpu_list", i);
		return bind_read_number(cpu, what);
	}
	return -1;
}

/* Neighbouring ranks on neighbouring cores of one socket. */
static int bind_compare(const void *a, const void *b)
{
	const struct core *x = a, *y = b;
	const int differences[] = { x->where.socket - y->where.socket, x->where.numa - y->where.numa,
				    x->where.l3 - y->where.l3, x->first - y->first };

	for (int i = 0; i < 4; i++)
		if (differences[i])
			return differences[i];
	return 0;
}

/* The affinity mask of this process, in a set that is large enough for the kernel's. */
static cpu_set_t *allowed_cpus(struct binding *set)
{
	for (set->limit = CPU_SETSIZE; set->limit <= CPU_SETSIZE * 64; set->limit *= 2) {
		cpu_set_t *mask = must(CPU_ALLOC(set->limit));

		set->size = CPU_ALLOC_SIZE(set->limit);
		if (!sched_getaffinity(0, set->size, mask))
			return mask;
		CPU_FREE(mask);
	}
	return NULL;
}

static void read_cores(struct binding *set, bool whole)
{
	cpu_set_t *allowed = allowed_cpus(set);

	if (!allowed) {
		complain("the CPUs that may be used cannot be told (sched_getaffinity): ranks are not bound");
		set->ncpus = 1;
		return;
	}
	set->ncpus = CPU_COUNT_S(set->size, allowed);
	set->cores = must(calloc((size_t)set->ncpus, sizeof *set->cores));
	for (int cpu = 0; cpu < set->limit; cpu++) {
		/* The first number of "0-1" or "0,64" names the core. */
		int first, i;

		if (!CPU_ISSET_S(cpu, set->size, allowed))
			continue;
		first = bind_read_number(cpu, "thread_siblings_list");
		if (first < 0)		/* no /sys: each CPU is a core */
			first = cpu;
		for (i = 0; i < set->n && set->cores[i].first != first; i++)
			;
		if (i == set->n) {
			struct core *core = &set->cores[set->n++];

			core->first = first;
			core->where.socket = bind_read_number(cpu, "physical_package_id");
			if (whole) {
				core->where.numa = read_node(cpu);
				core->where.l3 = read_l3(cpu);
			}
			core->mask = must(CPU_ALLOC(set->limit));
			CPU_ZERO_S(set->size, core->mask);
		}
		CPU_SET_S(cpu, set->size, set->cores[i].mask);
	}
	CPU_FREE(allowed);
	qsort(set->cores, (size_t)set->n, sizeof *set->cores, bind_compare);
	set->where = must(calloc((size_t)set->n, sizeof *set->where));
	for (int i = 0; i < set->n; i++)
		set->where[i] = set->cores[i].where;
}

/* Binding by the options; without an option, a core for each rank, if there are enough. */
static void bind_choose(struct binding *b, const struct options *opt)
{
	const char *how = opt->cpus_per_rank ? "--cpus-per-rank" : "--bind-to";
	int each = opt->cpus_per_rank ? opt->cpus_per_rank : 1;
	bool fits = (long long)opt->nranks * each <= b->n;

	b->to = opt->bind_given ? opt->bind : fits ? DOMAIN_CORE : DOMAIN_NONE;
	if (fits || (!opt->bind_given && !opt->cpus_per_rank))
		return;
	if (!opt->bind_given) {
		complain("warning: %d ranks with %d cores each (%s) need %lld cores, there are %d: they are not bound",
			 opt->nranks, each, how, (long long)opt->nranks * each, b->n);
	} else if (b->to == DOMAIN_CORE) {
		complain("warning: %d ranks share %d cores (%s)", opt->nranks, b->n, how);
		if (!b->n)
			b->to = DOMAIN_NONE;
	}
}

/* Gives each rank cores out of `usable`, n indexes of cores. */
static void make_masks(struct binding *b, const struct options *opt, const int *usable, int n)
{
	struct binding *all = b->all ? b->all : b;
	struct place_core *where = must(calloc((size_t)n, sizeof *where));
	int each = opt->cpus_per_rank ? opt->cpus_per_rank : 1;

	for (int i = 0; i < n; i++)
		where[i] = b->where[usable[i]];
	b->each = each = each > n ? n : each;
	b->core = must(calloc((size_t)opt->nranks * (size_t)each, sizeof *b->core));
	place(where, n, opt->nranks, each, opt->map, b->core);
	b->mask = must(calloc((size_t)opt->nranks, sizeof *b->mask));
	for (int r = 0; r < opt->nranks; r++) {
		b->mask[r] = must(CPU_ALLOC(b->limit));
		CPU_ZERO_S(b->size, b->mask[r]);
		for (int i = 0; i < each; i++) {
			int mine = b->core[r * each + i] = usable[b->core[r * each + i]];

			all->ranks_of[mine]++;
			for (int c = 0; c < b->n; c++)
				if (place_together(&b->where[c], &b->where[mine], b->to))
					CPU_OR_S(b->size, b->mask[r], b->mask[r], b->cores[c].mask);
		}
	}
	free(where);
}

struct binding *binding_make(const struct options *opt)
{
	struct binding *b = must(calloc(1, sizeof *b));

	read_cores(b, opt->bind > DOMAIN_CORE || opt->map > DOMAIN_CORE || opt->cpus_per_rank > 1 || opt->report_bindings);
	b->nranks = opt->nranks;
	bind_choose(b, opt);
	if (!b->n)
		b->to = DOMAIN_NONE;
	b->ranks_of = must(calloc((size_t)b->n + 1, sizeof *b->ranks_of));
	if (b->to != DOMAIN_NONE) {
		int *every = must(calloc((size_t)b->n, sizeof *every));

		for (int c = 0; c < b->n; c++)
			every[c] = c;
		make_masks(b, opt, every, b->n);
		free(every);
	}
	return b;
}

struct binding *binding_spawn(struct binding *all, const struct options *opt, int running)
{
	struct binding *b = must(calloc(1, sizeof *b));
	int *usable = must(calloc((size_t)all->n + 1, sizeof *usable)), n = 0, each = opt->cpus_per_rank ? opt->cpus_per_rank : 1;

	*b = (struct binding){ .cores = all->cores, .where = all->where, .n = all->n, .ncpus = all->ncpus, .limit = all->limit,
			       .size = all->size, .nranks = opt->nranks, .all = all };
	for (int c = 0; c < all->n; c++)
		if (!all->ranks_of[c])
			usable[n++] = c;
	/* ranks that are not bound need cores, too */
	if ((long long)opt->nranks * each <= n && (long long)opt->nranks * each <= all->n - running) {
		b->to = opt->bind_given ? opt->bind : DOMAIN_CORE;
	} else if (opt->bind_given && opt->bind != DOMAIN_NONE) {
		b->to = opt->bind;
		for (n = 0; n < all->n; n++)
			usable[n] = n;
	}
	if (!n)
		b->to = DOMAIN_NONE;
	if (b->to != DOMAIN_NONE)
		make_masks(b, opt, usable, n);
	free(usable);
	return b;
}

void binding_free(struct binding *b)
{
	if (!b)
		return;
	for (int r = 0; b->mask && r < b->nranks; r++) {
		CPU_FREE(b->mask[r]);
		for (int i = 0; i < b->each; i++)
			b->all->ranks_of[b->core[r * b->each + i]]--;
	}
	free(b->mask);
	free(b->core);
	free(b);
}

int binding_cores(const struct binding *b)
{
	return b->n;
}

int binding_cpus(const struct binding *b)
{
	return b->ncpus;
}

const cpu_set_t *binding_mask(const struct binding *b, int rank, size_t *size)
{
	*size = b->size;
	return b->to == DOMAIN_NONE ? NULL : b->mask[rank];
}

/* ---- telling --------------------------------------------------------------------------------------------------------- */

void binding_name(const struct binding *b, int rank, char *text, size_t size)
{
	size_t len;

	if (b->to == DOMAIN_NONE) {
		snprintf(text, size, "not bound");
		return;
	}
	len = (size_t)snprintf(text, size, "on CPU%s", CPU_COUNT_S(b->size, b->mask[rank]) > 1 ? "s" : "");
	for (int c = 0, first = 1; c < b->limit; c++) {
		int end = c;

		if (!CPU_ISSET_S(c, b->size, b->mask[rank]))
			continue;
		while (end + 1 < b->limit && CPU_ISSET_S(end + 1, b->size, b->mask[rank]))
			end++;
		if (len + 32 > size) {
			snprintf(text + len, size - len, ", ...");
			return;
		}
		len += (size_t)snprintf(text + len, size - len, end > c ? "%s%d-%d" : "%s%d", first ? " " : ",", c, end);
		first = 0;
		c = end;
	}
}

void binding_report(const struct binding *b)
{
	char *mark, *drawn, name[256];

	if (!b->n)
		return;
	mark = must(malloc((size_t)b->n + 1));
	drawn = must(malloc(3 * (size_t)b->n + 2));
	complain("bindings: a character for each core that may be used, B where the rank is; [ ] a socket, | between NUMA nodes, "
		 ": between L3 caches");
	for (int r = 0; r < b->nranks; r++) {
		for (int i = 0; i < b->n; i++) {
			mark[i] = 'B';
			for (int c = 0; b->to != DOMAIN_NONE && c < b->limit; c++)
				if (CPU_ISSET_S(c, b->size, b->cores[i].mask) && !CPU_ISSET_S(c, b->size, b->mask[r]))
					mark[i] = '.';
		}
		place_draw(b->where, b->n, mark, drawn);
		binding_name(b, r, name, sizeof name);
		complain("  rank %d %s %s", r, drawn, name);
	}
	free(mark);
	free(drawn);
}

/* More threads than CPUs in a rank's mask wait for each other: the usual reason for a hybrid job that crawls. */
void binding_check_threads(const struct binding *b, const struct options *opt)
{
	for (int a = 0, first = 0; a < opt->napps && b->to != DOMAIN_NONE; first += opt->apps[a].nranks, a++) {
		const char *text = env_get(opt->apps[a].env, "OMP_NUM_THREADS");
		long threads = text ? strtol(text, NULL, 10) : 0;
		int cpus = CPU_COUNT_S(b->size, b->mask[first]);
		bool room = threads * opt->nranks <= b->n;

		if (threads <= cpus)
			continue;
		complain("warning: OMP_NUM_THREADS=%s, but each rank of %s is bound to %d CPU%s, which its threads will share: "
			 "%s%.0ld", text, opt->apps[a].argv[0], cpus, cpus > 1 ? "s" : "",
			 room ? "give them more by --cpus-per-rank " :
				 "there are too few cores for all; use fewer ranks or threads, or "
			 "--bind-to none", room ? threads : 0);
		return;
	}
}
