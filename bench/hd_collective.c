/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One program for all collectives: hd_allreduce, hd_iallreduce and so on. The name of the program selects the collective:
 * hd_NAME measures the blocking form, hd_iNAME the nonblocking one alone and beside a computation.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* NULL: no collective has that name. */
static const struct hdb_collective *called(const char *name, bool *nonblocking)
{
	const struct hdb_collective *c;

	if (strncmp(name, "hd_", 3))
		return NULL;
	c = hdb_collective_named(name + 3);
	*nonblocking = !c && name[3] == 'i';
	return *nonblocking ? hdb_collective_named(name + 4) : c;
}

static int unknown(const char *name)
{
	fprintf(stderr, "%s: the program's name says what it measures: hd_NAME, or hd_iNAME for the nonblocking form; known are",
		name);
	for (size_t i = 0; hdb_collective_at(i); i++)
		fprintf(stderr, " %s", hdb_collective_at(i)->name);
	fprintf(stderr, "\n");
	return HDB_USAGE;
}

int main(int argc, char **argv)
{
	static char title[80];
	static struct hdb_program program = {.title = title, .least_ranks = 2};
	struct hdb_settings *d = &program.defaults;
	bool nonblocking;
	const struct hdb_collective *c = called(program_invocation_short_name, &nonblocking);

	if (!c)
		return unknown(program_invocation_short_name);
	snprintf(title, sizeof(title), "MPI %s%s Latency Test", nonblocking ? "Non-blocking " : "", c->title);
	program.name = program_invocation_short_name;
	program.features = HDB_LOOPS | HDB_FULL | HDB_VALIDATE | HDB_BUDGET | (c->sized ? HDB_SIZES : 0) |
		(c->reduction ? HDB_REDUCTION : 0) | (nonblocking ? HDB_TESTS : 0);
	/* OSU's reductions use floats; an HCA reduces 64-bit elements by the manual's verbs. */
	*d = (struct hdb_settings){
		.sizes = {c->reduction ? 4 : 1, 1 << 20}, .iterations = {1000, c->sized ? 100 : 1000},
		.skip = {100, c->sized ? 10 : 100}, .large = 8192,
		.element = nonblocking ? HDB_INT64 : HDB_FLOAT, .op = HDB_SUM,
	};
	hdb_start(argc, argv, &program);
	if (!c->sized && hdb.validate && !hdb_one_host())
		hdb_quit(HDB_USAGE, "-c compares clocks: all ranks must be on one host");
	if (hdb.persistent && !c->make)
		hdb_quit(HDB_USAGE, "--persistent: this MPI is older than 4.0, and has no persistent collectives");
	return hdb_finish(nonblocking ? hdb_nonblocking_main(c) : hdb_blocking_main(c));
}
