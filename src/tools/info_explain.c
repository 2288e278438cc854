/* SPDX-License-Identifier: BSD-3-Clause */
/* heddle_info --explain COLLECTIVE: reads the arguments; the library prints the explanation. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"
#include "rma/rma.h"
#include "runtime/runtime.h"
#include "tools/info.h"

static bool info_explain_number(const char *text, int *out)
{
	char *end;
	long v = strtol(text, &end, 10);

	*out = (int)v;
	return end != text && !*end && v >= 0 && v <= 1 << 20;
}

/* Options from NONBLOCKING on have no value. */
enum { RANKS, SIZE, TYPE, OP, ROOT, RANK, HOSTS, NONBLOCKING, PERSISTENT, DOT, OPTIONS };
static const char *names[OPTIONS + 1] = {
	[RANKS] = "--ranks", [SIZE] = "--size", [TYPE] = "--type", [OP] = "--op", [ROOT] = "--root", [RANK] = "--rank",
	[HOSTS] = "--hosts", [NONBLOCKING] = "--nonblocking", [PERSISTENT] = "--persistent", [DOT] = "--dot",
};

/* Returns the number of arguments taken; 0: not an option of this part; -1: the option's value is wrong. */
static int info_explain_take(struct hdl_explain *a, const char *option, const char *value)
{
	int i = 0;

	while (i < OPTIONS && strcmp(names[i], option))
		i++;
	if (i < NONBLOCKING && !value)
		return -1;
	switch (i) {
	case RANKS: return info_explain_number(value, &a->ranks) ? 2 : -1;
	case SIZE: return hdl_parse_size(value, &a->bytes) ? 2 : -1;
	case TYPE: a->type = value; return 2;
	case OP: a->op = value; return 2;
	case ROOT: return info_explain_number(value, &a->root) ? 2 : -1;
	case RANK: return info_explain_number(value, &a->rank) ? 2 : -1;
	case HOSTS: a->hosts = value; return 2;
	case NONBLOCKING: return a->nonblocking = true;
	case PERSISTENT: return a->persistent = true;
	case DOT: return a->dot = true;
	default: return 0;
	}
}

int info_explain(int argc, char **argv)
{
	struct hdl_explain a = { .ranks = 2, .bytes = 8, .type = "MPI_DOUBLE", .op = "MPI_SUM" };
	int code;

	if (argc < 1 || argv[0][0] == '-') {
		hdl_error("--explain: of which collective? For example heddle_info --explain allreduce --ranks 13 --size 64K");
		return 2;
	}
	a.collective = argv[0];
	for (int i = 1, n; i < argc; i += n) {
		n = info_explain_take(&a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
		if (n < 0)
			hdl_error("--explain: %s needs a value that makes sense, not %s", argv[i],
				  i + 1 < argc ? argv[i + 1] : "nothing");
		else if (!n) {
			const char *near = hdl_nearest(argv[i], names);

			hdl_error("--explain: unknown option %s%s%s", argv[i], near ? "; did you mean " : "", near ? near : "");
		}
		if (n <= 0)
			return 2;
	}
	/* the device, and the configuration, as a rank sees them */
	if (MPI_Init(NULL, NULL))
		return 1;
	if (!strcmp(a.collective, "window")) {
		hdl_rma_explain(stdout, a.hosts && strpbrk(a.hosts, "x+") && strncmp(a.hosts, "1x", 2));
		code = 0;
	} else {
		code = hdl_coll_explain(stdout, &a);
	}
	MPI_Finalize();
	return code;
}
