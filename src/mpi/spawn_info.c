/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of MPI_Comm_spawn and MPI_Comm_spawn_multiple at the root: commands, arguments, and the keys of info (MPI-5.0
 * section 11.8.4). */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "mpi/dynamic.h"

/* The value of a key, from info, or else from the file that info names. */
static const char *plan_value(const struct hdl_info *info, const struct hdl_info *file, const char *key)
{
	const char *value = hdl_info_value(info, key);

	return value || !file ? value : hdl_info_value(file, key);
}

/* Reads lines "key = value" (section 11.8.4: the format of `file` is the implementation's). # begins a comment. */
static int read_file(struct hdl_comm *c, const char *call, const char *name, struct hdl_info **out)
{
	FILE *f = fopen(name, "re");
	struct hdl_info *info = f ? hdl_info_new() : NULL;
	char *line = NULL, *key, *value, *end;
	size_t size = 0;
	int number = 0, rc = MPI_SUCCESS;

	if (!f)
		return hdl_raise(c, MPI_ERR_INFO_VALUE, call, "info's key file: %s: %s", name, strerror(errno));
	while (!rc && info && getline(&line, &size, f) > 0) {
		number++;
		key = line + strspn(line, " \t\r\n");
		if (!*key || *key == '#')
			continue;
		value = strchr(key, '=');
		for (end = value ? value : key; end > key && strchr(" \t", end[-1]);)
			end--;
		if (!value || end == key || end - key > MPI_MAX_INFO_KEY || strlen(value) > MPI_MAX_INFO_VAL) {
			rc = hdl_raise(c, MPI_ERR_INFO_VALUE, call, "info's key file: %s, line %d: \"key = value\" is wanted",
				       name, number);
			break;
		}
		*end = 0;
		value += 1 + strspn(value + 1, " \t");
		for (end = value + strlen(value); end > value && strchr(" \t\r\n", end[-1]);)
			*--end = 0;
		if (!hdl_info_set(info, key, value))
			rc = hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory");
	}
	/* a directory can be opened, and not read */
	if (!rc && info && ferror(f))
		rc = hdl_raise(c, MPI_ERR_INFO_VALUE, call, "info's key file: %s cannot be read: %s", name, strerror(errno));
	free(line);
	fclose(f);
	if (!info)
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory");
	*out = info;
	return rc;
}

/* The working directory, absolute: the caller's, or relative to that. NULL with errno. */
static char *spawn_absolute(const char *wdir)
{
	char *here, *path;

	if (wdir && *wdir == '/')
		return strdup(wdir);
	here = getcwd(NULL, 0);
	if (!here || !wdir)
		return here;
	if (asprintf(&path, "%s/%s", here, wdir) < 0)
		path = NULL;
	free(here);
	return path;
}

/* Makes the environment that the call adds. Returns false without memory. */
static bool add_variable(char ***env, int *n, const char *name, const char *value)
{
	char **more = realloc(*env, ((size_t)*n + 2) * sizeof(**env));

	if (!more)
		return false;
	*env = more;
	more[*n] = more[*n + 1] = NULL;
	if (asprintf(&more[*n], "%s%s", name, value) < 0) {
		more[*n] = NULL;
		return false;
	}
	++*n;
	return true;
}

/* The key env: NAME=VALUE, a line each, as in Open MPI. */
static bool add_variables(char ***env, int *n, const char *lines)
{
	while (*lines) {
		size_t len = strcspn(lines, "\n");
		char *line = strndup(lines, len);
		bool ok = line && (!strchr(line, '=') || add_variable(env, n, line, ""));

		free(line);
		if (!ok)
			return false;
		lines += len + (lines[len] == '\n');
	}
	return true;
}

static int check_errhandler(struct hdl_comm *c, const char *call, const char *name)
{
	if (!name || !strcmp(name, "mpi_errors_are_fatal") || !strcmp(name, "mpi_errors_abort") ||
	    !strcmp(name, "mpi_errors_return"))
		return MPI_SUCCESS;
	return hdl_raise(c, MPI_ERR_INFO_VALUE, call, "invalid mpi_initial_errhandler \"%.40s\" in info: mpi_errors_are_fatal, "
			 "mpi_errors_abort or mpi_errors_return is wanted", name);
}

static int check_arch(struct hdl_comm *c, const char *call, const char *arch)
{
	struct utsname here;

	if (!arch || uname(&here) || !strcmp(arch, here.machine))
		return MPI_SUCCESS;
	return hdl_raise(c, MPI_ERR_SPAWN, call, "no process can be started on arch \"%.40s\": this host is %s", arch,
			 here.machine);
}

static int fill_env(struct hdl_comm *c, const char *call, const struct hdl_info *info, const struct hdl_info *file,
		    const char *port, char ***env)
{
	const char *errhandler = plan_value(info, file, "mpi_initial_errhandler"), *lines = plan_value(info, file, "env");
	int n = 0, rc = check_errhandler(c, call, errhandler);
	char fabric[HDL_FABRIC_NAME];

	if (rc)
		return rc;
	hdl_tp_fabric(fabric);		/* the spawned ranks are in the parents' fabric */
	if (!add_variable(env, &n, "HEDDLE_PARENT_PORT=", port) || !add_variable(env, &n, "SHCA_FABRIC=", fabric) ||
	    (errhandler && !add_variable(env, &n, "HEDDLE_INITIAL_ERRHANDLER=", errhandler)) ||
	    (lines && !add_variables(env, &n, lines)))
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory");
	return MPI_SUCCESS;
}

static int spawn_fill_app(struct hdl_comm *c, const char *call, const struct hdl_spawn_args *args, int i, const char *port,
			  struct hdl_spawn_plan *plan)
{
	struct hdl_spawn_app *app = &plan->apps[i];
	const struct hdl_info *info, *file;
	const char *name, *wdir;
	int rc = hdl_info_arg(c, call, args->infos[i], &info);

	if (rc)
		return rc;
	if (!args->commands[i])
		return hdl_null_arg(c, call, "command");
	if (!*args->commands[i])
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid command: the name of the program is empty");
	if (args->maxprocs[i] < 1)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid maxprocs %d: at least 1 process is started", args->maxprocs[i]);
	if (__builtin_add_overflow(plan->total, args->maxprocs[i], &plan->total)) {
		plan->total = 0;	/* no array_of_errcodes has that many entries */
		return hdl_raise(c, MPI_ERR_SPAWN, call, "the sum of array_of_maxprocs is more than %d", INT_MAX);
	}
	name = hdl_info_value(info, "file");
	if (name && (rc = read_file(c, call, name, &plan->files[i])))
		return rc;
	file = plan->files[i];
	wdir = plan_value(info, file, "wdir");
	plan->wdirs[i] = spawn_absolute(wdir);
	if (!plan->wdirs[i])
		return hdl_raise(c, MPI_ERR_SPAWN, call, "the working directory is not known: %s", strerror(errno));
	*app = (struct hdl_spawn_app){ .command = args->commands[i], .argv = args->argvs ? args->argvs[i] : NULL,
				       .maxprocs = args->maxprocs[i], .wdir = plan->wdirs[i],
				       .soft = plan_value(info, file, "soft"), .path = plan_value(info, file, "path"),
					       .host = plan_value(info, file, "host") };
	if (app->soft && hdl_soft_largest(app->soft, app->maxprocs) < 0)
		return hdl_raise(c, MPI_ERR_INFO_VALUE, call,
				 "invalid soft \"%.60s\" in info: numbers and triplets a:b:c are wanted, with commas between "
				 "them",
				 app->soft);
	if (app->soft && !hdl_soft_largest(app->soft, app->maxprocs))
		return hdl_raise(c, MPI_ERR_SPAWN, call, "soft \"%.60s\" in info allows no number from 1 to maxprocs, %d",
				 app->soft, app->maxprocs);
	if ((rc = check_arch(c, call, plan_value(info, file, "arch"))))
		return rc;
	rc = fill_env(c, call, info, file, port, &plan->envs[i]);
	app->env = plan->envs[i];
	return rc;
}

/* Where the ranks run: of all programs together, by the first one's info. */
static int fill_how(struct hdl_comm *c, const char *call, const struct hdl_spawn_args *args, struct hdl_spawn_plan *plan)
{
	const struct hdl_info *info;
	const char *cpus;
	char *end;
	long n;

	if (!hdl_info_find(args->infos[0], &info))
		return MPI_SUCCESS;	/* spawn_fill_app has raised the error */
	plan->how.bind_to = plan_value(info, plan->files[0], "bind_to");
	plan->how.map_by = plan_value(info, plan->files[0], "map_by");
	cpus = plan_value(info, plan->files[0], "cpus_per_rank");
	if (!cpus)
		return MPI_SUCCESS;
	n = strtol(cpus, &end, 10);
	if (end == cpus || *end || n < 1 || n > 1000000)
		return hdl_raise(c, MPI_ERR_INFO_VALUE, call,
				 "invalid cpus_per_rank \"%.40s\" in info: a number from 1 is wanted", cpus);
	plan->how.cpus_per_rank = (unsigned)n;
	return MPI_SUCCESS;
}

int hdl_spawn_plan(struct hdl_comm *c, const char *call, const struct hdl_spawn_args *args, const char *port,
		   struct hdl_spawn_plan *plan)
{
	int rc = MPI_SUCCESS;

	*plan = (struct hdl_spawn_plan){ 0 };
	if (args->count < 1)
		return hdl_raise(c, MPI_ERR_ARG, call, "invalid count %d: at least 1 program is started", args->count);
	if (!args->commands || !args->maxprocs || !args->infos)
		return hdl_null_arg(c, call, !args->commands ? "array_of_commands" : !args->maxprocs ? "array_of_maxprocs" :
				    "array_of_info");
	plan->napps = args->count;
	plan->apps = calloc((size_t)args->count, sizeof(*plan->apps));
	plan->envs = calloc((size_t)args->count, sizeof(*plan->envs));
	plan->wdirs = calloc((size_t)args->count, sizeof(*plan->wdirs));
	plan->files = calloc((size_t)args->count, sizeof(*plan->files));
	if (!plan->apps || !plan->envs || !plan->wdirs || !plan->files)
		return hdl_raise(c, MPI_ERR_NO_MEM, call, "out of memory");
	for (int i = 0; i < args->count && !rc; i++)
		rc = spawn_fill_app(c, call, args, i, port, plan);
	return rc ? rc : fill_how(c, call, args, plan);
}

void hdl_spawn_plan_free(struct hdl_spawn_plan *plan)
{
	for (int i = 0; i < plan->napps; i++) {
		for (char **e = plan->envs ? plan->envs[i] : NULL; e && *e; e++)
			free(*e);
		if (plan->envs)
			free(plan->envs[i]);
		if (plan->wdirs)
			free(plan->wdirs[i]);
		if (plan->files && plan->files[i])
			hdl_info_free(plan->files[i]);
	}
	free(plan->apps);
	free(plan->envs);
	free(plan->wdirs);
	free(plan->files);
}
