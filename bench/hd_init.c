/* SPDX-License-Identifier: BSD-3-Clause */
/* hd_init: time of MPI_Init in every rank; with --memory also the memory that a rank holds afterwards. */
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* KiB of a field ("Pss:") of this process; -1 where the kernel does not tell. */
static double memory_kib(const char *field)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	double kib = -1;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)) && sscanf(line + strlen(field), "%lf", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/* Rank 0 prints least, most and mean over the ranks. */
static void print(const char *label, double mine, const char *unit)
{
	double least, most, sum;

	MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
	MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (hdb_rank == 0)
		printf("%snprocs: %d, min: %.3f %s, max: %.3f %s, avg: %.3f %s\n", label, hdb_ranks, least, unit, most,
		       unit, sum / hdb_ranks, unit);
}

int main(int argc, char **argv)
{
	static bool memory;
	static const struct hdb_option extra[] = {
		{0, "memory", HDB_FLAG, &memory, 0, NULL, NULL, "also print PSS and RSS per rank after a barrier"},
		{0},
	};
	static const struct hdb_program program = {
		.name = "hd_init", .title = "MPI Init Test", .least_ranks = 1, .initialised = true, .extra = extra,
	};
	int64_t begin = hdb_now(), end;
	double pss, rss;

	MPI_Init(&argc, &argv);
	end = hdb_now();
	hdb_start(argc, argv, &program);
	if (hdb_rank == 0)
		printf("# Heddle %s (%s %s)\n", program.title, program.name, HDB_VERSION);
	print("", (double)(end - begin) / 1e6, "ms");
	MPI_Barrier(MPI_COMM_WORLD);
	if (memory) {
		/* every rank holds its memory between the two barriers: PSS divides shared pages among the ranks */
		pss = memory_kib("Pss:");
		rss = memory_kib("Rss:");
		MPI_Barrier(MPI_COMM_WORLD);
		if (pss < 0)
			hdb_die("/proc/self/smaps_rollup cannot be read (%s): Linux 4.14 or newer tells the memory",
				strerror(errno));
		print("PSS ", pss / 1024, "MiB");
		print("RSS ", rss / 1024, "MiB");
	}
	return hdb_finish(0);
}
