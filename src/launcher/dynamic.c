/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that PMIx_Spawn asks for: a namespace of their own in the job's fabric. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

int nspace_make_file(struct nspace *ns)
{
	char text[64];
	struct stat st;

	ns->file_fd = memfd_create("heddle-job", MFD_CLOEXEC);
	if (ns->file_fd < 0 || fstat(ns->file_fd, &st))
		return -1;
	snprintf(text, sizeof text, "%d:%llu:%llu", ns->file_fd, (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	for (int a = 0; a < ns->napps; a++)
		env_set(&ns->apps[a].env, "HEDDLERUN_FILE", text);
	return 0;
}

static int count_running(const struct job *job)
{
	int n = 0;

	/* a rank that is past MPI_Finalize is as good as ended */
	for (const struct rank *r = rank_first(job); r; r = rank_next(r))
		n += !r->ended && !r->left;
	return n;
}

/* Decides how many ranks of each program are started: as many as --universe leaves room for, if `soft` allows that. Returns 0 or
 * an exit code. */
static int choose_numbers(const struct job *job, struct spawn_request *req, int running, char *why, size_t size)
{
	int left = job->opt.universe ? job->opt.universe - running : 1000000;

	req->opt.nranks = 0;
	for (int a = 0; a < req->opt.napps; a++) {
		struct app *app = &req->opt.apps[a];
		int most = app->nranks < left ? app->nranks : left, n = app->soft ? hdl_soft_largest(app->soft, most) :
			   most == app->nranks ? most : 0;

		if (n <= 0) {
			snprintf(why, size, "%d rank%s of %s: %d run already, and there may be %d (--universe)%s%.100s",
				 app->nranks, app->nranks == 1 ? "" : "s", app->argv[0], running,
				 job->opt.universe ? job->opt.universe : left, app->soft ? "; soft is " : "",
				 app->soft ? app->soft : "");
			return EXIT_USAGE;
		}
		app->nranks = n;
		req->opt.nranks += n;
		left -= n;
	}
	return 0;
}

/* The environment of the spawned programs: the parent's, with the variables that the call adds. */
static void make_env(const struct rank *parent, struct app *app, const char *name, int cpus)
{
	char number[16];

	app->env = env_copy(parent->app->env);
	env_unset(app->env, "HEDDLE_PARENT_PORT");
	env_unset(app->env, "HEDDLERUN_FILE");
	for (char **e = app->set_env; *e; e++) {
		char *var = must(strndup(*e, strcspn(*e, "=")));

		if ((*e)[strlen(var)])
			env_set(&app->env, var, *e + strlen(var) + 1);
		free(var);
	}
	env_set(&app->env, "HEDDLERUN_NAMESPACE", name);
	snprintf(number, sizeof number, "%d", cpus);
	env_set(&app->env, "HEDDLERUN_CPUS", number);
	snprintf(number, sizeof number, "%d", app->nranks);
	env_set(&app->env, "HEDDLERUN_MAXPROCS", number);
}

/* Finds the programs. Returns 0 or the exit code. */
static int prepare(const struct job *job, struct spawn_request *req, const char *name, char *why, size_t size)
{
	const struct rank *parent = rank_find(job, req->parent, req->parent_rank);
	int running = count_running(job), code, left = job->ncpus > running ? job->ncpus - running : 1;

	if (!parent) {
		snprintf(why, size, "the rank that spawns has ended");
		return EXIT_FAILURE;
	}
	if (req->refused[0]) {
		snprintf(why, size, "%s", req->refused);
		return EXIT_USAGE;
	}
	code = choose_numbers(job, req, running, why, size);
	for (int a = 0; a < req->opt.napps && !code; a++) {
		make_env(parent, &req->opt.apps[a], name, left);
		code = app_find_program(&req->opt.apps[a], why, size);
	}
	return code;
}

struct nspace *dynamic_spawn(struct job *job, struct spawn_request *req, struct nspace **part, int *exit_code, char *why,
			     size_t size)
{
	char name[sizeof job->nspaces->name];
	int running = count_running(job);
	struct nspace *ns;

	*part = NULL;
	snprintf(name, sizeof name, "%.200s.%d", job->nspaces->name, job->nspawned + 1);
	*exit_code = prepare(job, req, name, why, size);
	if (*exit_code)
		return NULL;
	ns = nspace_new(job, name, req->opt.apps, req->opt.napps);
	req->opt.apps = NULL;
	req->opt.napps = 0;
	ns->number = ++job->nspawned;
	ns->spawn_id = req->id;
	ns->met = !req->id;
	ns->bound = req->id;
	snprintf(ns->parent, sizeof ns->parent, "%s", req->parent);
	ns->parent_rank = req->parent_rank;
	nspace_make_file(ns);
	ns->binding = binding_spawn(job->binding, &req->opt, running);
	*exit_code = EXIT_FAILURE;
	if (!server_register(job, ns, why, size))
		*exit_code = spawn_ranks(job, ns, ns->binding, -1, why, size);
	if (!*exit_code)
		return ns;
	*part = ns;
	return NULL;
}
