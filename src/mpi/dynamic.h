/* SPDX-License-Identifier: BSD-3-Clause */
/* Dynamic processes (MPI-5.0 chapter 11), between the files that have their functions. */
#ifndef HDL_MPI_DYNAMIC_H
#define HDL_MPI_DYNAMIC_H

#include "mpi/info.h"

/* The arguments of MPI_Comm_spawn_multiple, which are significant at the root only. */
struct hdl_spawn_args {
	int count;
	const char *const *commands;
	char *const *const *argvs;	/* NULL: no program has arguments; argvs[i] may be NULL */
	const int *maxprocs;
	const MPI_Info *infos;
};

/* Copies of the arguments, as the runtime takes them. */
struct hdl_spawn_plan {
	struct hdl_spawn_app *apps;
	int napps, total;		/* total: the sum of maxprocs */
	struct hdl_spawn_how how;
	char ***envs;			/* of each program: the environment that the call adds; malloc'd */
	char **wdirs;
	struct hdl_info **files;	/* of each program: the pairs of the file that info's key file names, or NULL */
};

/* Reads and checks the arguments. port: the parents' port, for the programs' environments. Returns MPI_SUCCESS; else the code of
 * the error, which was raised. hdl_spawn_plan_free must be called in any case. */
int hdl_spawn_plan(struct hdl_comm *c, const char *call, const struct hdl_spawn_args *args, const char *port,
		   struct hdl_spawn_plan *plan);
void hdl_spawn_plan_free(struct hdl_spawn_plan *plan);

/* In MPI_Init: a process that was spawned connects with its parents. Collective over MPI_COMM_WORLD. Returns 0, also if there
 * are no parents; a negative errno, reported. */
int hdl_spawn_join(void);

#endif
