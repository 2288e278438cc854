/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of the software HCA, by shcactl, and the counts of a collective's graph, by heddle_info. The tools are in the folder of
 * the benchmarks, the folder above, or PATH. Ranks of other MPI libraries have no such device.
 */
#include "bench.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Removes the variables that make a process a rank, or a member of the job's fabric: heddle_info must be neither. */
#define ALONE "unset $(env | sed -n 's/^\\(PMIX_[A-Z_0-9]*\\|PMI_[A-Z_]*\\|HEDDLERUN_[A-Z_]*\\|SHCA_FABRIC[A-Z_]*\\)=.*/\\1/p'); "

static void tool_path(const char *name, char *path, size_t n)
{
	char self[1024];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len > 0) {
		const char *folder;

		self[len] = '\0';
		folder = dirname(self);
		for (int up = 0; up < 2; up++) {
			snprintf(path, n, "%s%s/%s", folder, up ? "/.." : "", name);
			if (!access(path, X_OK))
				return;
		}
	}
	snprintf(path, n, "%s", name);
}

bool hdb_device_is_there(void)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING];
	int n;

	MPI_Get_library_version(version, &n);
	return getenv("SHCA_FABRIC") && !strncasecmp(version, "heddle ", 7);
}

bool hdb_device_counts(struct hdb_counts *sum)
{
	char path[2048], command[2200], line[512];
	bool any = false;
	FILE *f;

	*sum = (struct hdb_counts){0};
	tool_path("shcactl", path, sizeof(path));
	snprintf(command, sizeof(command), "'%s' -o csv totals", path);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		struct hdb_counts c;

		/* type, live, queues, msgs, bytes, foreign, calcs, waits, enables, atomics */
		if (sscanf(line, "%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%*[^,],%lld,%lld,%lld,%lld", &c.calcs, &c.waits, &c.enables,
			   &c.atomics) != 4)
			continue;
		any = true;
		sum->calcs += c.calcs;
		sum->waits += c.waits;
		sum->enables += c.enables;
		sum->atomics += c.atomics;
	}
	return f && pclose(f) == 0 && any;
}

bool hdb_device_explained(const struct hdb_collective *c, size_t size, const char *forced, struct hdb_counts *all, char executor[16])
{
	static const char *const operations[] = {"SUM", "MAX", "MIN", "BAND", "BOR", "BXOR"};
	const char *type = hdb.element == HDB_INT64 ? "INT64_T" : hdb.element == HDB_DOUBLE ? "DOUBLE" : "FLOAT";
	char path[2048], command[3000], line[512];
	FILE *f;

	*all = (struct hdb_counts){0};
	executor[0] = '\0';
	tool_path("heddle_info", path, sizeof(path));
	snprintf(command, sizeof(command), ALONE "%s%s exec '%s' --explain %s --nonblocking --ranks %d --size %zu --type %s --op %s 2>&1",
		 forced ? "HEDDLE_COLL_EXECUTOR=" : "", forced ? forced : "", path, c->name, hdb_ranks, size, type, operations[hdb.op]);
	f = popen(command, "r");
	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "executor %15s", executor);
		sscanf(line, "device all ranks: %*d requests, of these %lld with CALC and %lld masked atomics; %lld WAITs, %lld ENABLEs",
		       &all->calcs, &all->atomics, &all->waits, &all->enables);
	}
	return f && pclose(f) == 0 && executor[0];
}
