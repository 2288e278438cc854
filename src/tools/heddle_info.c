/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info: version and build, configuration variables, visible devices, and whether the host is fit for Heddle. */
#include <pmix.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"
#include "tools/info.h"

static const char usage[] =
"usage: heddle_info [--devices] [--functions] [--vars] [--doctor] [--version] [--help]\n"
"       heddle_info --explain window [--hosts LIST]\n"
"       heddle_info --explain COLLECTIVE [--ranks N] [--size BYTES] [--type TYPE] [--op OP] [--root R]\n"
"                   [--nonblocking | --persistent] [--rank R] [--dot]\n"
"\n"
"  --devices     the verbs devices of this host, the software HCA among them: ports, queue kinds, capabilities\n"
"  --functions   the functions of MPI 5.0, by chapter, and which of them this version has\n"
"  --vars        all HEDDLE_* and SHCA_* variables: type, default, present value, meaning\n"
"  --doctor      checks limits and settings of this host, with the place to change each; exit code 1 if one must change\n"
"  --explain     executor and algorithm of such a collective, the reason, the requests that the device executes, the sizes at\n"
"                which that changes, and the task graph of --rank (--dot: for Graphviz). --size as 64k; default: a blocking\n"
"                sum of MPI_DOUBLE, 8 bytes, 2 ranks\n"
"  --version     the version, the compiler, and the libraries of the build\n";

static int version(void)
{
	printf("Heddle %s\n", PACKAGE_VERSION);
	printf("    compiler    %s\n", __VERSION__);
#ifdef NDEBUG
	printf("    build       optimised, without assertions\n");
#else
	printf("    build       with assertions (--enable-debug)\n");
#endif
	printf("    PMIx        %s\n", PMIx_Get_version());
	return 0;
}

static int vars(void)
{
	int err = hdl_vars_load();

	hdl_vars_print(stdout);
	return err ? 1 : 0;
}

static int heddle_info_help(void)
{
	fputs(usage, stdout);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} parts[] = {
	{ "--devices", info_devices }, { "--functions", info_functions }, { "--vars", vars }, { "--doctor", info_doctor },
	{ "--version", version }, { "--help", heddle_info_help }, { "-h", heddle_info_help }, { "-V", version },
};
enum { NPARTS = sizeof parts / sizeof parts[0] };
#define EXPLAIN "--explain"

static int heddle_info_unknown(const char *arg)
{
	const char *names[NPARTS + 2], *near;

	for (int i = 0; i < NPARTS; i++)
		names[i] = parts[i].name;
	names[NPARTS] = EXPLAIN;
	names[NPARTS + 1] = NULL;
	near = hdl_nearest(arg, names);
	hdl_error("unknown option %s%s%s (heddle_info --help lists all)", arg, near ? "; did you mean " : "", near ? near : "");
	return 2;
}

int main(int argc, char **argv)
{
	bool last = false;
	int code = 0;

	hdl_diag_program("heddle_info");
	hdl_output_watch();
	if (argc == 1) {
		version();
		printf("\n%s", usage);
		return 0;
	}
	for (int a = 1; a < argc && !last; a++) {
		int i;

		for (i = 0; i < NPARTS && strcmp(parts[i].name, argv[a]); i++)
			;
		if (i == NPARTS && strcmp(argv[a], EXPLAIN))
			return heddle_info_unknown(argv[a]);
		if (a > 1)
			printf("\n");
		/* all further arguments belong to --explain */
		last = i == NPARTS;
		i = last ? info_explain(argc - a - 1, argv + a + 1) : parts[i].run();
		if (i > code)
			code = i;
	}
	if (fflush(stdout) || ferror(stdout)) {
		hdl_error("standard output cannot be written");
		return 1;
	}
	return code;
}
