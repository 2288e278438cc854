/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cores that heddlerun may use: its affinity mask, and which of these CPUs are one core's hardware threads. Read
 * from /sys directly: a topology library reads hundreds of files, at every launch, to tell the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

struct core {
	int package, first;
	cpu_set_t *mask;
};

struct core_set {
	struct core *cores;
	int n, ncpus;
	int limit;		/* CPU numbers are below */
	size_t size;		/* of each mask, bytes */
};

static int read_number(int cpu, const char *what)
{
	char path[96];
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

static int compare(const void *a, const void *b)
{
	const struct core *x = a, *y = b;

	return x->package != y->package ? (x->package > y->package) - (x->package < y->package)
					: (x->first > y->first) - (x->first < y->first);
}

/* The affinity mask of this process, in a set that is large enough for the kernel's. */
static cpu_set_t *allowed_cpus(struct core_set *set)
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

struct core_set *cores_read(void)
{
	struct core_set *set = must(calloc(1, sizeof *set));
	cpu_set_t *allowed = allowed_cpus(set);

	if (!allowed) {
		complain("the CPUs that may be used cannot be told (sched_getaffinity): ranks are not bound");
		set->ncpus = 1;
		return set;
	}
	set->ncpus = CPU_COUNT_S(set->size, allowed);
	set->cores = must(calloc((size_t)set->ncpus, sizeof *set->cores));
	for (int cpu = 0; cpu < set->limit; cpu++) {
		/* The first number of "0-1" or "0,64" names the core. */
		int first, i;

		if (!CPU_ISSET_S(cpu, set->size, allowed))
			continue;
		first = read_number(cpu, "thread_siblings_list");
		if (first < 0)		/* no /sys: each CPU is a core */
			first = cpu;
		for (i = 0; i < set->n && set->cores[i].first != first; i++)
			;
		if (i == set->n) {
			struct core *core = &set->cores[set->n++];

			core->first = first;
			core->package = read_number(cpu, "physical_package_id");
			core->mask = must(CPU_ALLOC(set->limit));
			CPU_ZERO_S(set->size, core->mask);
		}
		CPU_SET_S(cpu, set->size, set->cores[i].mask);
	}
	CPU_FREE(allowed);
	/* Neighbouring ranks on neighbouring cores of one package. */
	qsort(set->cores, (size_t)set->n, sizeof *set->cores, compare);
	return set;
}

int cores_count(const struct core_set *cores)
{
	return cores->n;
}

int cores_cpus(const struct core_set *cores)
{
	return cores->ncpus;
}

const cpu_set_t *cores_mask(const struct core_set *cores, int i, size_t *size, int *first)
{
	*size = cores->size;
	for (*first = 0; !CPU_ISSET_S(*first, cores->size, cores->cores[i].mask); ++*first)
		;
	return cores->cores[i].mask;
}
