/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of heddlerun. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

static const char usage[] =
"usage: heddlerun [options] [-n N] program [arguments] [: [options] [-n N] program [arguments]] ...\n"
"\n"
"Starts the ranks of an MPI job on this host. Programs are numbered in the order of the command line.\n"
"\n"
"For the program that follows:\n"
"  -n N, -np N             start N ranks of the program (default 1)\n"
"  -x VAR=VALUE            set a variable in the environment of this program and of the programs after it\n"
"  -x VAR                  the same with heddlerun's value of VAR (no change by itself: all variables are passed)\n"
"  --wdir DIR              run this program, and the programs after it, in DIR\n"
"  --initial-errhandler NAME  mpi_errors_are_fatal (default), mpi_errors_abort or mpi_errors_return: the error handler\n"
"                          of this program, until it sets one, and of the programs after it\n"
"For the job:\n"
"  --bind-to WHERE         none, core, or the whole l3 (cache), numa (node) or socket that the rank's cores are in; default:\n"
"                          core if there are cores for all ranks, else none\n"
"  --cpus-per-rank N       N neighbouring cores for each rank (default 1), for its threads\n"
"  --map-by WHERE          core: rank after rank on the next cores (default); l3, numa, socket: rank after rank on the next\n"
"                          of these\n"
"  --report-bindings       draw where each rank is bound\n"
"  --tag-output            put [rank]<stdout> or [rank]<stderr> in front of each line that a rank prints\n"
"  --output-filename NAME  write the output of rank R to NAME.R.out and NAME.R.err\n"
"  --timeout SECONDS       end the job after this time, with exit code 124 (also by MPIEXEC_TIMEOUT)\n"
"  --kill-after SECONDS    kill ranks that still run so long after they were told to end, by SIGTERM or --timeout\n"
"                          (default 60; 0: never; also by HEDDLERUN_KILL_AFTER)\n"
"  --on-death WHAT         after the death of a rank that has returned from MPI_Init: end (the other ranks, too; the\n"
"                          default), or continue: the other ranks go on, and must handle MPI_ERR_PROC_ABORTED\n"
"                          themselves (MPI_ERRORS_RETURN)\n"
"  --universe N            at most N ranks at a time, with those that MPI_Comm_spawn adds; MPI_UNIVERSE_SIZE\n"
"                          (default: the cores, no limit)\n"
"  --report-transports     at the end, print messages and bytes of each queue, per pair of ranks\n"
"  --report-memory         at the end, print each rank's memory by subsystem: predicted, allocated, touched\n"
"  --report-collectives    at the end, print the executor of each collective, and the reason\n"
"  --report-tuning         at the end, print each rank's choices by the clock, with the measurements\n"
"  --report-hang[=SECONDS] if the job runs longer than this (default 60), print the call in which every rank waits;\n"
"                          SIGUSR1 to heddlerun prints that report at any time, with or without this option\n"
"  --backtrace             print where a rank was when a fatal signal (SIGSEGV, SIGABRT, ...) ends it\n"
"  -v, --verbose           print the started ranks, and where each runs\n"
"  -V, --version           print the version\n"
"  -h, --help              print this\n"
"\n"
"Standard input goes to rank 0. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR2, SIGTSTP and SIGCONT are passed to all processes\n"
"of all ranks, but for those that were ignored when heddlerun was started (nohup); SIGUSR1 to those that handle it. After\n"
"SIGTERM the ranks have the time of --kill-after to end by themselves. The same signal once more within a second is the same\n"
"one (timeout(1) sends it twice); a SIGINT or SIGTERM after that ends the job at once. The exit code is that of the first rank\n"
"that fails (128 + N after signal N), and the other ranks are ended; 127: no such program, 126: the program cannot be executed,\n"
"2: wrong usage.\n"
"\n"
"Options of other launchers: -N, -ppn, -host localhost, -hostfile, --oversubscribe, -genv VAR VALUE, -env VAR VALUE,\n"
"-envall, -l have the same effect as there; other options are refused with heddlerun's equivalent.\n"
"Several hosts: use the cluster's own launcher, srun --mpi=pmix (Slurm) or prterun (PRRTE).\n"
"Ranks reach each other by a fabric of the software HCA that is the job's own, unless -x SHCA_FABRIC=NAME names one.\n"
"Variables of the library: heddle_info --vars.\n";

enum id { OPT_N, OPT_X, OPT_WDIR, OPT_TAG, OPT_TIMEOUT, OPT_KILL_AFTER, OPT_DEATH, OPT_ERRORS, OPT_BIND, OPT_MAP, OPT_CPUS,
	  OPT_BINDINGS, OPT_TRANSPORTS, OPT_MEMORY, OPT_COLLECTIVES, OPT_TUNING, OPT_HANG, OPT_BACKTRACE, OPT_VERBOSE,
	  OPT_VERSION, OPT_HELP, OPT_OUTPUT, OPT_ENV, OPT_PER_HOST, OPT_HOSTS, OPT_HOSTFILE, OPT_UNIVERSE, OPT_BEHIND,
	  OPT_NOTHING, OPT_REFUSED };

/* Long names may be written with one dash, as mpiexec of the MPI standard has them (-wdir, -host). Behind ours come
 * names of other launchers: a synonym, ignored (heddlerun behaves so anyway), or refused, with the option that has that
 * effect here. */
static const struct {
	const char *name;
	enum id id;
	enum { NO_VALUE, VALUE, MAYBE, TWO } value;	/* MAYBE: only as --name=value; TWO: NAME VALUE, or NAME=VALUE */
	const char *instead;
} table[] = {
	{ "n", OPT_N, VALUE, NULL }, { "np", OPT_N, VALUE, NULL }, { "x", OPT_X, VALUE, NULL }, { "wdir", OPT_WDIR, VALUE, NULL },
	{ "tag-output", OPT_TAG, NO_VALUE, NULL }, { "output-filename", OPT_OUTPUT, VALUE, NULL },
	{ "timeout", OPT_TIMEOUT, VALUE, NULL }, { "kill-after", OPT_KILL_AFTER, VALUE, NULL },
	{ "on-death", OPT_DEATH, VALUE, NULL }, { "initial-errhandler", OPT_ERRORS, VALUE, NULL },
	{ "bind-to", OPT_BIND, VALUE, NULL }, { "map-by", OPT_MAP, VALUE, NULL }, { "cpus-per-rank", OPT_CPUS, VALUE, NULL },
	{ "report-bindings", OPT_BINDINGS, NO_VALUE, NULL }, { "report-transports", OPT_TRANSPORTS, NO_VALUE, NULL },
	{ "report-memory", OPT_MEMORY, NO_VALUE, NULL }, { "report-tuning", OPT_TUNING, NO_VALUE, NULL },
	{ "report-collectives", OPT_COLLECTIVES, NO_VALUE, NULL }, { "report-hang", OPT_HANG, MAYBE, NULL },
	{ "backtrace", OPT_BACKTRACE, NO_VALUE, NULL }, { "v", OPT_VERBOSE, NO_VALUE, NULL },
	{ "verbose", OPT_VERBOSE, NO_VALUE, NULL }, { "V", OPT_VERSION, NO_VALUE, NULL },
	{ "version", OPT_VERSION, NO_VALUE, NULL }, { "h", OPT_HELP, NO_VALUE, NULL }, { "help", OPT_HELP, NO_VALUE, NULL },
	{ "host", OPT_HOSTS, VALUE, NULL }, { "hostfile", OPT_HOSTFILE, VALUE, NULL },
	{ "oversubscribe", OPT_NOTHING, NO_VALUE, NULL }, { "universe", OPT_UNIVERSE, VALUE, NULL },
	/* names of other launchers */
	{ "wd", OPT_WDIR, VALUE, NULL }, { "l", OPT_TAG, NO_VALUE, NULL }, { "label", OPT_TAG, NO_VALUE, NULL },
	{ "prepend-rank", OPT_TAG, NO_VALUE, NULL }, { "N", OPT_PER_HOST, VALUE, NULL }, { "ppn", OPT_PER_HOST, VALUE, NULL },
	{ "perhost", OPT_PER_HOST, VALUE, NULL }, { "npernode", OPT_PER_HOST, VALUE, NULL }, { "hosts", OPT_HOSTS, VALUE, NULL },
	{ "H", OPT_HOSTS, VALUE, NULL }, { "f", OPT_HOSTFILE, VALUE, NULL }, { "machinefile", OPT_HOSTFILE, VALUE, NULL },
	{ "machine", OPT_HOSTFILE, VALUE, NULL }, { "genv", OPT_X, TWO, NULL }, { "env", OPT_ENV, TWO, NULL },
	{ "cpus-per-task", OPT_CPUS, VALUE, NULL }, { "cpus-per-proc", OPT_CPUS, VALUE, NULL },
	{ "genvall", OPT_NOTHING, NO_VALUE, NULL }, { "envall", OPT_NOTHING, NO_VALUE, NULL },
	{ "genvlist", OPT_NOTHING, VALUE, NULL }, { "envlist", OPT_NOTHING, VALUE, NULL },
	{ "allow-run-as-root", OPT_NOTHING, NO_VALUE, NULL }, { "usize", OPT_UNIVERSE, VALUE, NULL },
	{ "behind", OPT_BEHIND, VALUE, NULL },		/* the library's, for a program without a launcher (behind.c) */
	{ "genvnone", OPT_REFUSED, NO_VALUE,
	  "the ranks get heddlerun's environment; env -i PATH=\"$PATH\" heddlerun ... starts it "
					     "with an empty one" },
	{ "envnone", OPT_REFUSED, NO_VALUE,
	  "the ranks get heddlerun's environment; env -i PATH=\"$PATH\" heddlerun ... starts it "
					    "with an empty one" },
	{ "mca", OPT_REFUSED, NO_VALUE, "parameters of Open MPI; Heddle has variables (heddle_info --vars), which -x NAME=VALUE "
					"sets; HEDDLE_TRANSPORT selects the kinds of queues" },
	{ "gmca", OPT_REFUSED, NO_VALUE, "parameters of Open MPI; Heddle has variables (heddle_info --vars), which -x NAME=VALUE "
					 "sets" },
	{ "pmixmca", OPT_REFUSED, NO_VALUE,
	  "the PMIx library reads its parameters from the environment: -x PMIX_MCA_name=value" },
	{ "c", OPT_REFUSED, VALUE, "-n N starts N ranks, --cpus-per-rank N gives each N cores" },
	{ "cpu-set", OPT_REFUSED, VALUE, "taskset -c LIST heddlerun ... lets it use these CPUs only" },
	{ "cpu-list", OPT_REFUSED, VALUE, "taskset -c LIST heddlerun ... lets it use these CPUs only" },
	{ "rankfile", OPT_REFUSED, VALUE,
	  "a script that calls taskset by HEDDLE_LOCAL_RANK, with --bind-to none, places ranks one "
					  "by one" },
	{ "rank-by", OPT_REFUSED, VALUE, "ranks are numbered in the order in which --map-by places them" },
	{ "iface", OPT_REFUSED, VALUE, "-x HEDDLE_DEVICE=NAME names the device (heddle_info --devices lists them)" },
	{ "bootstrap", OPT_REFUSED, VALUE, "nothing is started on other hosts; there srun --mpi=pmix or prterun does it" },
	{ "launcher", OPT_REFUSED, VALUE, "nothing is started on other hosts; there srun --mpi=pmix or prterun does it" },
	{ "configfile", OPT_REFUSED, VALUE, "several programs are written on the command line, with : between them" },
	{ "outfile-pattern", OPT_REFUSED, VALUE, "--output-filename NAME writes NAME.<rank>.out and NAME.<rank>.err" },
	{ "errfile-pattern", OPT_REFUSED, VALUE, "--output-filename NAME writes NAME.<rank>.out and NAME.<rank>.err" },
	{ "gdb", OPT_REFUSED, NO_VALUE, "heddlerun -n N xterm -e gdb --args program, or gdb -p PID of a rank (heddlerun -v "
					"tells it)" },
};
enum { NTABLE = sizeof table / sizeof table[0], NOURS = 27 };
_Static_assert(NOURS <= NTABLE, "ours are the first");

static int options_unknown_option(const char *arg)
{
	const char *names[NOURS + 1], *near, *name = arg + strspn(arg, "-");
	char word[64];
	int n = 0;

	for (int i = 0; i < NOURS; i++)
		if (table[i].name[1])
			names[n++] = table[i].name;
	names[n] = NULL;
	snprintf(word, sizeof word, "%.*s", (int)strcspn(name, "="), name);
	near = hdl_nearest(word, names);
	if (near)
		complain("unknown option %s; did you mean %s%s? (heddlerun --help lists all)", arg, strlen(near) > 2 ? "--" : "-",
			 near);
	else
		complain("unknown option %s (heddlerun --help lists all)", arg);
	return EXIT_USAGE;
}

static int refuse_hosts(const char *arg)
{
	complain("%s: heddlerun starts ranks on this host only. For several hosts, start the same program with the cluster's own "
		 "launcher, to which Heddle speaks PMIx: srun --mpi=pmix -n N program (Slurm), or prterun -n N program (PRRTE)",
		 arg);
	return EXIT_USAGE;
}

/* A name of this host, with or without the domain. */
static bool options_is_here(const char *name, size_t len)
{
	static const char *const local[] = { "localhost", "127.0.0.1", "[::1]", "::1" };
	char host[256] = "";
	size_t brief;

	for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
		if (strlen(local[i]) == len && !strncmp(local[i], name, len))
			return true;
	if (gethostname(host, sizeof host - 1))
		return false;
	brief = strcspn(host, ".");
	if (!memchr(name, '.', len) != !host[brief])
		return brief == strcspn(name, ".:,") && !strncmp(host, name, brief);
	return strlen(host) == len && !strncmp(host, name, len);
}

/* "localhost:4,name" and the like: the number of slots does not matter where all hosts are this one. */
bool hosts_are_here(const char *list)
{
	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		size_t len = strcspn(p, ",");
		const char *colon = memchr(p, ':', len);

		if (!options_is_here(p, len) && !(colon && options_is_here(p, (size_t)(colon - p))))
			return false;
	}
	return true;
}

static int check_hosts(const char *list)
{
	return hosts_are_here(list) ? -1 : refuse_hosts(list);
}

/* Each line has a host, and behind the name slots in the syntax of several launchers ("slots=4", ":4"). */
static int check_hostfile(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[1024];
	int code = -1;

	if (!f) {
		complain("%s: %s", path, strerror(errno));
		return EXIT_USAGE;
	}
	while (code < 0 && fgets(line, sizeof line, f)) {
		char *host = line + strspn(line, " \t");

		host[strcspn(host, " \t\r\n#")] = 0;
		code = check_hosts(host);
	}
	fclose(f);
	return code;
}

static bool whole_number(const char *text, int *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || v < 1 || v > 1000000)
		return false;
	*out = (int)v;
	return true;
}

static bool seconds(const char *text, double *out)
{
	char *end;

	*out = strtod(text, &end);
	return isdigit((unsigned char)*text) && (!*end || !strcmp(end, "s")) && *out > 0 && *out < 1e9;
}

static bool seconds_or_0(const char *text, double *out)
{
	return seconds(text, out) || (*out == 0 && isdigit((unsigned char)*text) && !text[strspn(text, "0.s")]);
}

/* slot, node, l3cache and package are names of other launchers. */
bool domain_parse(const char *text, enum domain *out)
{
	static const struct {
		const char *name;
		enum domain domain;
	} names[] = {
		{ "none", DOMAIN_NONE }, { "core", DOMAIN_CORE }, { "l3", DOMAIN_L3 }, { "numa", DOMAIN_NUMA },
		{ "socket", DOMAIN_SOCKET }, { "slot", DOMAIN_CORE }, { "node", DOMAIN_CORE }, { "l3cache", DOMAIN_L3 },
		{ "package", DOMAIN_SOCKET },
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		*out = names[i].domain;
		if (!strcmp(text, names[i].name))
			return true;
	}
	return false;
}

/* "socket", and Open MPI's form "slot:PE=4". */
bool map_parse(struct options *opt, const char *text)
{
	char *word = must(strdup(text)), *rest = strchr(word, ':');
	bool good;

	if (rest)
		*rest++ = 0;
	good = domain_parse(*word ? word : "core", &opt->map) && opt->map != DOMAIN_NONE;
	for (; good && rest; rest = strchr(rest, ':') ? strchr(rest, ':') + 1 : NULL) {
		size_t n = strcspn(rest, ":");

		if (!strncasecmp(rest, "PE=", 3))
			good = (opt->cpus_per_rank = atoi(rest + 3)) > 0;
		else
			good = n == 13 && !strncasecmp(rest, "oversubscribe", n);
	}
	free(word);
	return good;
}

/* Options that hold from one program to the next. */
struct carried {
	const char *wdir;
	char **set_env;
};

static int set_variable(char ***env, const char *arg)
{
	const char *equals = strchr(arg, '='), *value = equals ? equals + 1 : getenv(arg);
	char *name;

	if (equals == arg || !*arg) {
		complain("-x %s: a variable has a name: -x NAME or -x NAME=VALUE", arg);
		return EXIT_USAGE;
	}
	if (!value) {
		complain("-x %s: there is no variable %s in the environment; -x %s=VALUE sets it", arg, arg, arg);
		return EXIT_USAGE;
	}
	name = must(strndup(arg, equals ? (size_t)(equals - arg) : strlen(arg)));
	env_set(env, name, value);
	free(name);
	return -1;
}

/* Section 11.5 of MPI-5.0. The library reads a variable, which any launcher can set. */
static int options_set_errhandler(char ***env, const char *name)
{
	if (strcmp(name, "mpi_errors_are_fatal") && strcmp(name, "mpi_errors_abort") && strcmp(name, "mpi_errors_return")) {
		complain("--initial-errhandler %s: mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return", name);
		return EXIT_USAGE;
	}
	env_set(env, "HEDDLE_INITIAL_ERRHANDLER", name);
	return -1;
}

static int options_apply(struct options *opt, struct app *app, struct carried *c, enum id id, const char *value)
{
	switch (id) {
	case OPT_N:
		if (whole_number(value, &app->nranks))
			return -1;
		complain("-n %s: the number of ranks is a whole number from 1 to 1000000", value);
		return EXIT_USAGE;
	case OPT_X:
		return set_variable(&c->set_env, value);
	case OPT_WDIR:
		c->wdir = value;
		return -1;
	case OPT_TAG:
		opt->tag_output = true;
		return -1;
	case OPT_TIMEOUT:
		opt->timeout_by = "--timeout";
		if (seconds(value, &opt->timeout))
			return -1;
		complain("--timeout %s: a positive number of seconds is needed", value);
		return EXIT_USAGE;
	case OPT_KILL_AFTER:
		if (seconds_or_0(value, &opt->kill_after))
			return -1;
		complain("--kill-after %s: a number of seconds is needed, or 0 for never", value);
		return EXIT_USAGE;
	case OPT_BIND:
		opt->bind_given = true;
		if (domain_parse(value, &opt->bind))
			return -1;
		complain("--bind-to %s: none, core, l3, numa or socket", value);
		return EXIT_USAGE;
	case OPT_MAP:
		if (map_parse(opt, value))
			return -1;
		complain("--map-by %s: core, l3, numa or socket; several cores for each rank: --cpus-per-rank N", value);
		return EXIT_USAGE;
	case OPT_CPUS:
		if (whole_number(value, &opt->cpus_per_rank))
			return -1;
		complain("--cpus-per-rank %s: a whole number from 1", value);
		return EXIT_USAGE;
	case OPT_DEATH:
		opt->outlive = !strcmp(value, "continue");
		if (opt->outlive || !strcmp(value, "end"))
			return -1;
		complain("--on-death %s: end or continue", value);
		return EXIT_USAGE;
	case OPT_ERRORS:
		return options_set_errhandler(&c->set_env, value);
	case OPT_BINDINGS:
		opt->report_bindings = true;
		return -1;
	case OPT_TRANSPORTS:
		opt->report_transports = true;
		return -1;
	case OPT_MEMORY:
		opt->report_memory = true;
		return -1;
	case OPT_COLLECTIVES:
		opt->report_collectives = true;
		return -1;
	case OPT_TUNING:
		opt->report_tuning = true;
		return -1;
	case OPT_HANG:
		opt->report_hang = 60;
		if (!value || seconds(value, &opt->report_hang))
			return -1;
		complain("--report-hang=%s: a positive number of seconds is needed", value);
		return EXIT_USAGE;
	case OPT_BACKTRACE:
		opt->backtrace = true;
		return -1;
	case OPT_VERBOSE:
		opt->verbose = true;
		return -1;
	case OPT_VERSION:
		printf("heddlerun (Heddle) %s\n", PACKAGE_VERSION);
		return EXIT_SUCCESS;
	case OPT_HELP:
		fputs(usage, stdout);
		return EXIT_SUCCESS;
	case OPT_HOSTS:
		return check_hosts(value);
	case OPT_HOSTFILE:
		return check_hostfile(value);
	case OPT_PER_HOST:
		if (whole_number(value, &app->per_host))
			return -1;
		complain("%s: the number of ranks on each host is a whole number from 1 (for several hosts: srun --mpi=pmix, "
			 "prterun)", value);
		return EXIT_USAGE;
	case OPT_UNIVERSE:
		if (whole_number(value, &opt->universe))
			return -1;
		complain("--universe %s: a whole number of ranks from 1", value);
		return EXIT_USAGE;
	case OPT_BEHIND:
		opt->behind = value;
		return -1;
	case OPT_OUTPUT:
		opt->output = value;
		return -1;
	case OPT_ENV:
		return set_variable(&app->set_env, value);
	case OPT_NOTHING:
		return -1;
	case OPT_REFUSED:
		break;
	}
	return EXIT_USAGE;
}

/* One option at argv[*i]; leaves *i behind the option. Returns -1 to go on, else the exit code. */
static int parse_option(struct options *opt, struct app *app, struct carried *c, int argc, char **argv, int *i)
{
	const char *arg = argv[*i], *name = arg + strspn(arg, "-"), *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const char *value = equals ? equals + 1 : NULL;

	if (name - arg > 2)
		return options_unknown_option(arg);
	for (int t = 0; t < NTABLE; t++) {
		if (strlen(table[t].name) != len || strncmp(table[t].name, name, len))
			continue;
		if (table[t].id == OPT_REFUSED) {
			complain("%s is not an option of heddlerun: %s", arg, table[t].instead);
			return EXIT_USAGE;
		}
		if (value && table[t].value == NO_VALUE) {
			complain("%.*s takes no value", (int)(equals - arg), arg);
			return EXIT_USAGE;
		}
		++*i;
		if (!value && (table[t].value == VALUE || table[t].value == TWO)) {
			if (*i >= argc) {
				complain("%s needs a value (heddlerun --help)", arg);
				return EXIT_USAGE;
			}
			value = argv[(*i)++];
			if (table[t].value == TWO && !strchr(value, '=') && *i < argc) {
				char *both;

				if (asprintf(&both, "%s=%s", value, argv[(*i)++]) < 0)
					must(NULL);
				value = both;
			}
		}
		return options_apply(opt, app, c, table[t].id, value);
	}
	return options_unknown_option(arg);
}

/* One program with the program's options, up to ":" or the end. */
static int parse_app(struct options *opt, struct carried *c, int argc, char **argv, int *i)
{
	struct app app = { .set_env = must(calloc(1, sizeof(char *))) };
	int begin;

	while (*i < argc && argv[*i][0] == '-' && argv[*i][1]) {
		int code;

		if (!strcmp(argv[*i], "--")) {
			++*i;
			break;
		}
		code = parse_option(opt, &app, c, argc, argv, i);
		if (code >= 0)
			return code;
	}
	begin = *i;
	while (*i < argc && strcmp(argv[*i], ":"))
		++*i;
	if (*i == begin) {
		complain("%s: no program is named (usage: heddlerun [options] -n N program [arguments])",
			 opt->napps ? "after ':'" : "nothing to start");
		return EXIT_USAGE;
	}
	app.argv = must(calloc((size_t)(*i - begin) + 1, sizeof *app.argv));
	memcpy(app.argv, argv + begin, sizeof *app.argv * (size_t)(*i - begin));
	app.wdir = c->wdir;
	for (char **e = c->set_env; *e; e++) {
		char *name = must(strndup(*e, strcspn(*e, "=")));

		if (!env_get(app.set_env, name))
			env_set(&app.set_env, name, *e + strlen(name) + 1);
		free(name);
	}
	/* Ranks on each host, and there is one host. */
	if (!app.nranks)
		app.nranks = app.per_host ? app.per_host : 1;
	if (app.per_host && app.nranks > app.per_host) {
		complain("%d ranks of %s, %d on each host, need %d hosts, and heddlerun starts ranks on this one only: leave -N "
			 "(-ppn) out, or use srun --mpi=pmix or prterun", app.nranks, app.argv[0], app.per_host,
			 (app.nranks + app.per_host - 1) / app.per_host);
		return EXIT_USAGE;
	}
	opt->apps = must(realloc(opt->apps, sizeof *opt->apps * (size_t)(opt->napps + 1)));
	opt->apps[opt->napps++] = app;
	opt->nranks += app.nranks;
	return -1;
}

/* Defaults, and settings from the environment, which the command line may change. */
static int defaults(struct options *opt)
{
	const char *timeout = getenv("MPIEXEC_TIMEOUT"), *kill_after = getenv("HEDDLERUN_KILL_AFTER");

	opt->kill_after = 60;
	opt->map = DOMAIN_CORE;
	if (timeout && *timeout && !seconds_or_0(timeout, &opt->timeout)) {
		complain("MPIEXEC_TIMEOUT=%s: a positive number of seconds is needed", timeout);
		return EXIT_USAGE;
	}
	opt->timeout_by = "MPIEXEC_TIMEOUT";
	if (kill_after && *kill_after && !seconds_or_0(kill_after, &opt->kill_after)) {
		complain("HEDDLERUN_KILL_AFTER=%s: a number of seconds is needed, or 0 for never", kill_after);
		return EXIT_USAGE;
	}
	return -1;
}

int options_parse(struct options *opt, int argc, char **argv)
{
	struct carried c = { .set_env = must(calloc(1, sizeof(char *))) };
	int i = 1, code = -1;

	memset(opt, 0, sizeof *opt);
	code = defaults(opt);
	if (code >= 0)
		return code;
	do {
		code = parse_app(opt, &c, argc, argv, &i);
	} while (code < 0 && i++ < argc && i <= argc);
	if (code < 0 && opt->output && opt->tag_output) {
		complain("--tag-output and --output-filename are for two uses of the output: one of them");
		code = EXIT_USAGE;
	}
	env_free(c.set_env);
	return code;
}

/* ---- finding the program --------------------------------------------------------------------------------------- */

/* The path as seen from heddlerun's directory; `path` may be relative to the program's working directory. */
static char *seen_from_here(const struct app *app, const char *path)
{
	char *full;

	if (!app->wdir || path[0] == '/')
		return must(strdup(path));
	if (asprintf(&full, "%s/%s", app->wdir, path) < 0)
		must(NULL);
	return full;
}

/* 0: can be executed; else an errno. */
static int executable(const struct app *app, const char *path)
{
	char *full = seen_from_here(app, path);
	struct stat st;
	int err = 0;

	if (stat(full, &st))
		err = errno;
	else if (S_ISDIR(st.st_mode))
		err = EISDIR;
	else if (access(full, X_OK))
		err = errno;
	free(full);
	return err;
}

/* Returns true if a shell would run a file whose format the kernel does not know: a shell runs text as a script, and nothing
 * else. */
static bool is_text(const struct app *app, const char *path)
{
	char *full = seen_from_here(app, path), head[128];
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);

	if (fd >= 0)
		close(fd);
	free(full);
	return n >= 0 && !memchr(head, 0, (size_t)n) && !memchr(head, 0x7f, (size_t)n);
}

/* Searches for a program in directories with : between them. Returns true if found, with app->path set; *refused: errno of a file
 * that cannot be executed. */
static bool search_dirs(struct app *app, const char *dirs, const char *name, int *refused)
{
	for (const char *dir = dirs; ; dir += strcspn(dir, ":") + 1) {
		size_t len = strcspn(dir, ":");
		char *file;
		int err;

		if (asprintf(&file, "%.*s%s%s", (int)len, dir, len ? "/" : "", name) < 0)
			must(NULL);
		err = executable(app, file);
		if (!err) {
			app->path = file;
			app->text = is_text(app, file);
			return true;
		}
		free(file);
		if (err != ENOENT && err != ENOTDIR && err != EISDIR)
			*refused = err;
		if (!dir[len])
			return false;
	}
}

static int search_path(struct app *app, const char *name, char *why, size_t size)
{
	const char *path = env_get(app->env, "PATH");
	int refused = 0;

	if ((app->dirs && search_dirs(app, app->dirs, name, &refused)) ||
	    search_dirs(app, path ? path : "/usr/local/bin:/usr/bin:/bin", name, &refused))
		return 0;
	if (app->spawned && search_dirs(app, app->wdir ? app->wdir : ".", name, &refused))
		return 0;
	if (refused) {
		snprintf(why, size, "%s: found in PATH, but it cannot be executed: %s", name, strerror(refused));
		return EXIT_CANNOT_RUN;
	}
	if (app->spawned)
		snprintf(why, size, "%s: no such program%s%s, in PATH, or in the working directory", name,
			 app->dirs ? " in " : "", app->dirs ? app->dirs : "");
	else
		snprintf(why, size, "%s: no such program in PATH%s%s", name, executable(app, name) ? "" : "; did you mean ./",
			 executable(app, name) ? "" : name);
	return EXIT_NOT_FOUND;
}

int app_find_program(struct app *app, char *why, size_t size)
{
	const char *name = app->argv[0];
	struct stat st;
	int err;

	if (app->wdir && (stat(app->wdir, &st) || !S_ISDIR(st.st_mode))) {
		snprintf(why, size, "%s %s: %s", app->spawned ? "the working directory" : "--wdir", app->wdir,
			 stat(app->wdir, &st) ? strerror(errno) : "it is not a directory");
		return EXIT_CANNOT_RUN;
	}
	if (!*name) {
		snprintf(why, size, "the name of the program is empty");
		return EXIT_NOT_FOUND;
	}
	if (!strchr(name, '/'))
		return search_path(app, name, why, size);
	err = executable(app, name);
	if (err) {
		snprintf(why, size, "%s%s%s: %s", name, app->wdir ? " in " : "", app->wdir ? app->wdir : "",
			 err == ENOENT ? "no such program" : err == EISDIR ? "it is a directory" :
			 err == EACCES ? "it cannot be executed: permission denied (chmod +x?)" : strerror(err));
		return err == ENOENT || err == ENOTDIR ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	}
	app->path = must(strdup(name));
	app->text = is_text(app, name);
	return 0;
}
