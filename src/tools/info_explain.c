/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info --explain COLLECTIVE: the arguments; what is printed is the library's to say. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"
#include "runtime/runtime.h"
#include "tools/info.h"

static bool number(const char *text, int *out)
{
	char *end;
	long v = strtol(text, &end, 10);

	*out = (int)v;
	return end != text && !*end && v >= 0 && v <= 1 << 20;
}

/* 0: not an option of this part; -1: its value is wrong; else arguments taken. */
static int take(struct hdl_explain *a, const char *option, const char *value)
{
	static const char *const names[] = { "--ranks", "--size", "--type", "--op", "--root", "--rank", "--hosts" };
	bool good = false;
	int i;

	if (!strcmp(option, "--nonblocking"))
		return a->nonblocking = true;
	if (!strcmp(option, "--persistent"))
		return a->persistent = true;
	if (!strcmp(option, "--dot"))
		return a->dot = true;
	for (i = 0; i < 7 && strcmp(names[i], option); i++)
		;
	if (i == 7)
		return 0;
	if (value)
		switch (i) {
		case 0: good = number(value, &a->ranks); break;
		case 1: good = hdl_parse_size(value, &a->bytes); break;
		case 2: a->type = value, good = true; break;
		case 3: a->op = value, good = true; break;
		case 4: good = number(value, &a->root); break;
		case 5: good = number(value, &a->rank); break;
		default: a->hosts = value, good = true; break;
		}
	return good ? 2 : -1;
}

int info_explain(int argc, char **argv)
{
	static const char *const names[] = { "--ranks", "--size", "--type", "--op", "--root", "--rank", "--hosts", "--nonblocking", "--persistent", "--dot", NULL };
	struct hdl_explain a = { .ranks = 2, .bytes = 8, .type = "MPI_DOUBLE", .op = "MPI_SUM" };
	int code;

	if (argc < 1 || argv[0][0] == '-') {
		hdl_error("--explain: of which collective? For example heddle_info --explain allreduce --ranks 13 --size 64K");
		return 2;
	}
	a.collective = argv[0];
	for (int i = 1, n; i < argc; i += n) {
		n = take(&a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
		if (n < 0)
			hdl_error("--explain: %s needs a value that makes sense, not %s", argv[i], i + 1 < argc ? argv[i + 1] : "nothing");
		else if (!n) {
			const char *near = hdl_nearest(argv[i], (const char **)names);

			hdl_error("--explain: unknown option %s%s%s", argv[i], near ? "; did you mean " : "", near ? near : "");
		}
		if (n <= 0)
			return 2;
	}
	/* the device, and the configuration, as a rank sees them */
	if (MPI_Init(NULL, NULL))
		return 1;
	code = hdl_coll_explain(stdout, &a);
	MPI_Finalize();
	return code;
}
