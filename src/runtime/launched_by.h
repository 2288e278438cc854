/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside src/runtime: the launcher that this process's environment names. */
#ifndef HDL_LAUNCHED_BY_H
#define HDL_LAUNCHED_BY_H

#include <stdbool.h>

struct hdl_launched_by {
	const char *launcher;	/* for people: "mpirun (Open MPI)"; NULL: not known */
	const char *size_var;	/* the variable that promises the size; NULL: no variable does */
	const char *size_text;	/* value of that variable */
	const char *remedy;	/* how this launcher starts PMIx programs: the end of "start it with heddlerun" */
	int size;		/* ranks that the launcher promises; 0: not given */
	int rank;		/* rank that the launcher promises; -1: not given */
	int program_size;	/* ranks of this process's program; < 1: not known before the launcher's server is
				 * asked */
	bool pmix;		/* the launcher offers a PMIx server: PMIX_NAMESPACE is set */
	bool heddlerun;		/* the launcher is heddlerun */
};

struct hdl_launched_by hdl_launched_by_env(void);

/* CPUs that the ranks of this host may use together, as the launcher's own affinity mask shows. */
int hdl_cpus_of_host(int local_size);

#endif
