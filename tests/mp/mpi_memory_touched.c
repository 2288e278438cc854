/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a rank of a large job touches: MPI_Init, reductions, a barrier, and some messages. Proportional shares (PSS), by
 * /proc/self/smaps: a page that several ranks map counts in parts. Meant for 64 ranks of one host (show_memory.sh); with fewer
 * the shares of libraries are larger.
 *
 *     the fabric's file   allocations of the ranks, touched or not: receive pools, queues, rings, slots of collectives
 *     the fabric          the touched part of that
 *     all of the process  of which libpmix has some 900 (data of the job, parameters, data of the library)
 */
#include <dirent.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi_test.h"

enum { FILE_KIB = 1600, FABRIC_KIB = 480, ALL_KIB = 2150, MESSAGES = 3 };	/* at most, per rank */

/* KiB of the fabric's file that are allocated, by a descriptor of the file. */
static double file_kib(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	double kib = 0;
	struct stat st;

	while (d && (e = readdir(d))) {
		char name[64] = "";

		if (readlinkat(dirfd(d), e->d_name, name, sizeof(name) - 1) > 0 && strstr(name, "memfd:shca") &&
		    !fstatat(dirfd(d), e->d_name, &st, 0) && (double)st.st_blocks / 2 > kib)
			kib = (double)st.st_blocks / 2;
	}
	if (d)
		closedir(d);
	return kib;
}

/* KiB of the mappings with this text in their line of smaps; "": all mappings. */
static double pss(const char *text)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[512];
	bool counts = false;
	double sum = 0, kib;
	unsigned long from, to;

	if (!f)
		test_fail(__FILE__, __LINE__, "/proc/self/smaps cannot be read");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			counts = strstr(line, text);
		else if (counts && sscanf(line, "Pss: %lf", &kib) == 1)
			sum += kib;
	}
	fclose(f);
	return sum;
}

static void at_most(const char *what, double mine, double limit)
{
	double sum;

	MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	if (!me)
		printf("%s: %.0f KiB per rank\n", what, sum / np);
	if (!me && sum / np > limit)
		test_fail(__FILE__, __LINE__, "%s: %.0f KiB per rank, %.0f are allowed", what, sum / np, limit);
}

int main(int argc, char **argv)
{
	double in = 1, out, file, fabric, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	for (int i = 0; i < 3; i++)
		MPI_Reduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	for (int i = 0; i < MESSAGES; i++)
		MPI_Sendrecv(&in, 1, MPI_DOUBLE, (me + 1) % np, 0, &out, 1, MPI_DOUBLE, (me + np - 1) % np, 0, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	fabric = pss("memfd:shca");
	all = pss("");
	file = file_kib() / np;
	MPI_Barrier(MPI_COMM_WORLD);	/* until here no rank frees memory */
	CHECK(file > 0);
	at_most("the fabric's file", file, FILE_KIB);
	at_most("the fabric", fabric, FABRIC_KIB);
	at_most("all", all, ALL_KIB);
	MPI_Finalize();
	return 0;
}
