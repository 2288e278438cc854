/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tool of some 100 lines: prints, at the end of any MPI program, the performance variables that have changed, and the control variables whose
 * values differ from those of a process without settings. By the tool interface (MPI-5.0 chapter 15) and the profiling interface (section
 * 15.2) only, so it works with every implementation of the ABI:
 *
 *     cc -shared -fPIC -o mpit_report.so mpit_report.c        (mpi.h of the ABI)
 *     heddlerun -n 2 -x LD_PRELOAD=$PWD/mpit_report.so ./program
 *
 * MPIT_RANK chooses the rank that prints (0).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct counter {
	MPI_T_pvar_handle handle;
	MPI_Datatype type;
	int index, count;
};

static MPI_T_pvar_session session;
static struct counter *counters;
static int ncounters;

/* Allocates a handle of every variable that is bound to no object. */
static void begin(void)
{
	int provided, n;

	if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) || MPI_T_pvar_get_num(&n) || MPI_T_pvar_session_create(&session))
		return;
	counters = calloc((size_t)n, sizeof(*counters));
	for (int i = 0; counters && i < n; i++) {
		struct counter *c = &counters[ncounters];
		int verbosity, class, bind, readonly, continuous, atomic;
		MPI_T_enum e;

		if (MPI_T_pvar_get_info(i, NULL, NULL, &verbosity, &class, &c->type, &e, NULL, NULL, &bind, &readonly, &continuous, &atomic) ||
		    bind != MPI_T_BIND_NO_OBJECT || MPI_T_pvar_handle_alloc(session, i, NULL, &c->handle, &c->count))
			continue;
		c->index = i;
		ncounters++;
	}
	MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
}

static void print_counter(const struct counter *c)
{
	unsigned long long v[64] = { 0 };
	int verbosity, class, bind, readonly, continuous, atomic, name_len, desc_len;
	char name[128], desc[256];
	MPI_Datatype type;
	MPI_T_enum e;

	name_len = sizeof(name);
	desc_len = sizeof(desc);
	if (c->type != MPI_UNSIGNED_LONG_LONG || c->count > 64 || MPI_T_pvar_read(session, c->handle, v) || !v[0] ||
	    MPI_T_pvar_get_info(c->index, name, &name_len, &verbosity, &class, &type, &e, desc, &desc_len, &bind, &readonly, &continuous, &atomic))
		return;
	printf("  %-28s %14llu  %s\n", name, v[0], desc);
}

static void print_setting(int i)
{
	char name[128], text[4096] = "";
	int name_len, count, verbosity, bind, scope;
	MPI_T_cvar_handle h;
	MPI_Datatype type;
	MPI_T_enum e;

	name_len = sizeof(name);
	if (MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &e, NULL, NULL, &bind, &scope) || !getenv(name) ||
	    MPI_T_cvar_handle_alloc(i, NULL, &h, &count))
		return;
	if (count <= (int)sizeof(text) && !MPI_T_cvar_read(h, text)) {
		if (type == MPI_CHAR)
			printf("  %-28s %14s\n", name, text);
		else if (type == MPI_INT)
			printf("  %-28s %14d\n", name, *(int *)(void *)text);
		else
			printf("  %-28s %14llu\n", name, *(unsigned long long *)(void *)text);
	}
	MPI_T_cvar_handle_free(&h);
}

static void end(void)
{
	const char *wanted = getenv("MPIT_RANK");
	int rank, n = 0;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == (wanted ? atoi(wanted) : 0)) {
		printf("mpit_report: rank %d: performance variables that are not 0\n", rank);
		for (int i = 0; i < ncounters; i++)
			print_counter(&counters[i]);
		printf("mpit_report: rank %d: control variables that were set\n", rank);
		MPI_T_cvar_get_num(&n);
		for (int i = 0; i < n; i++)
			print_setting(i);
		fflush(stdout);
	}
	if (counters)
		MPI_T_pvar_session_free(&session);
	free(counters);
	counters = NULL;
	MPI_T_finalize();
}

int MPI_Init(int *argc, char ***argv)
{
	int rc = PMPI_Init(argc, argv);

	if (!rc)
		begin();
	return rc;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int rc = PMPI_Init_thread(argc, argv, required, provided);

	if (!rc)
		begin();
	return rc;
}

int MPI_Finalize(void)
{
	end();
	return PMPI_Finalize();
}
