/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The launcher that started this process, as the environment describes it. The main use: a program that was started by
 * a launcher without PMIx must not run as N times "rank 0 of 1".
 */
#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/launched_by.h"
#include "runtime/runtime.h"

/* Innermost first: heddlerun removes the variables of other launchers from its ranks, so that such a variable beside
 * heddlerun's own was set by a launcher that runs below heddlerun. */
static const struct {
	const char *launcher, *size_var, *rank_var, *remedy;
} known[] = {
	{ "mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
	  ", or with the mpirun of an Open MPI that was built with PMIx" },
	{ "mpiexec (Hydra or another PMI-1/PMI-2 launcher)", "PMI_SIZE", "PMI_RANK",
	  "" },
	{ "srun (Slurm)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", ", or with srun --mpi=pmix" },
	{ "srun (Slurm)", "SLURM_NTASKS", "SLURM_PROCID", ", or with srun --mpi=pmix" },
};

static int positive(const char *text)
{
	char *end;
	long v;

	if (!text || !isdigit((unsigned char)*text))
		return -1;
	v = strtol(text, &end, 10);
	return *end || v > INT_MAX ? -1 : (int)v;
}

/* A batch script, an interactive shell and the extern step of Slurm have step numbers too, from 2^32 - 6 on; they
 * are not launched in parallel. */
static bool in_slurm_step(void)
{
	const char *id = getenv("SLURM_STEP_ID");

	if (!id)
		id = getenv("SLURM_STEPID");
	return id && isdigit((unsigned char)*id) && strtoull(id, NULL, 10) < 4294967290u;
}

/* srun --mpi=pmi2 sets Hydra's variables, too; but Hydra's variables for its control are not there, and the step that
 * srun has started is the job itself, not one of Hydra's proxies. */
static bool is_srun_pmi(const char *size)
{
	const char *tasks = getenv("SLURM_STEP_NUM_TASKS");

	return in_slurm_step() && tasks && !strcmp(tasks, size) && !getenv("HYDI_CONTROL_FD");
}

struct hdl_launched_by hdl_launched_by_env(void)
{
	struct hdl_launched_by by = { .rank = -1 };
	const char *nspace = getenv("PMIX_NAMESPACE"), *ours = getenv("HEDDLERUN_NAMESPACE");

	by.pmix = nspace && *nspace;
	by.heddlerun = by.pmix && ours && !strcmp(ours, nspace);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		bool slurm = !strncmp(known[i].size_var, "SLURM", 5);
		int size = positive(getenv(known[i].size_var));

		if (size <= 0 || (slurm && (by.heddlerun || !in_slurm_step())))
			continue;
		by.launcher = known[i].launcher;
		by.size_var = known[i].size_var;
		by.size_text = getenv(by.size_var);
		by.remedy = known[i].remedy;
		if (!strcmp(by.size_var, "PMI_SIZE") && is_srun_pmi(by.size_text)) {
			by.launcher = "srun (Slurm) with its PMI-1 or PMI-2 plug-in (--mpi=pmi2)";
			by.remedy = ", or with srun --mpi=pmix (instead of --mpi=pmi2)";
		}
		by.size = size;
		by.rank = positive(getenv(known[i].rank_var));
		break;
	}
	if (by.heddlerun && !by.launcher)
		by.launcher = "heddlerun";
	else if (by.pmix && !by.launcher)
		by.launcher = getenv("PRTE_LAUNCHED") ? "prterun (PRRTE)" : "a PMIx launcher";
	if (by.pmix)
		by.rank = positive(getenv("PMIX_RANK"));
	by.program_size = by.heddlerun ? positive(getenv("HEDDLERUN_MAXPROCS")) : by.pmix ? 0 : by.size ? by.size : 1;
	return by;
}

/* The parent and the command name of a process; false when the process is gone or foreign. */
static bool parent_of(pid_t pid, pid_t *parent, char name[32])
{
	char line[512], *fields, *open_paren;
	int ppid;

	if (hdl_proc_stat((uint32_t)pid, line, sizeof line, &fields))
		return false;
	open_paren = strchr(line, '(');
	if (!open_paren || sscanf(fields, "%*c %d", &ppid) != 1)
		return false;
	snprintf(name, 32, "%.*s", (int)(fields - 2 - open_paren - 1), open_paren + 1);
	*parent = ppid;
	return true;
}

static int cpus_of(pid_t pid)
{
	size_t size = sizeof(cpu_set_t);
	int count = 0;

	/* The kernel refuses a mask shorter than its own: grow the mask until the call succeeds. */
	for (int cpus = CPU_SETSIZE; cpus <= CPU_SETSIZE * 64; cpus *= 2) {
		cpu_set_t *set = CPU_ALLOC(cpus);

		if (!set)
			return 0;
		size = CPU_ALLOC_SIZE(cpus);
		if (!sched_getaffinity(pid, size, set))
			count = CPU_COUNT_S(size, set);
		CPU_FREE(set);
		if (count)
			break;
	}
	return count;
}

int hdl_cpus_of_host(int local_size)
{
	static const char *const launchers[] = { "heddlerun", "mpirun", "mpiexec", "orterun", "prterun", "prte",
						 "prted", "orted", "srun", "slurmstepd" };
	int own = cpus_of(0);
	pid_t pid = getpid();
	char name[32];

	if (own < 1)
		own = 1;
	/* Enough for all: binding, if there is any, does not matter. Else each rank may be bound to its share, and the
	 * affinity mask of the launcher, which is not bound, has all CPUs. */
	if (own >= local_size)
		return own;
	if (!parent_of(pid, &pid, name))
		return own;
	for (int depth = 0; depth < 16 && pid > 1; depth++) {
		pid_t parent;

		if (!parent_of(pid, &parent, name))
			break;
		for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
			/* Debian installs mpirun.openmpi and the like. */
			if (!strncmp(name, launchers[i], strlen(launchers[i])) &&
			    !isalnum((unsigned char)name[strlen(launchers[i])])) {
				int theirs = cpus_of(pid);

				return theirs > own ? theirs : own;
			}
		}
		pid = parent;
	}
	return own;
}
