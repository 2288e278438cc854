/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the hd_* benchmarks: OSU's letters and names, checked, with the nearest known one when wrong. */
#include "bench.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hdb_settings hdb;
int hdb_rank, hdb_ranks;

const struct hdb_program *hdb_program;
static bool want_help, want_version;

static const char *const element_names[] = {"char", "float", "double", "int64", NULL};
static const char *const op_names[] = {"sum", "max", "min", "band", "bor", "bxor", NULL};

/* Options that several programs have, with the feature that switches each on. */
static const struct {
	unsigned feature;
	struct hdb_option o;
} shared[] = {
	{HDB_SIZES, {'m', "message-size", HDB_RANGE, &hdb.sizes, 0, NULL, "[MIN:]MAX",
		     "message sizes in bytes, doubling from MIN to MAX (K and M are understood)"}},
	{HDB_SIZES, {'M', "mem-limit", HDB_BYTES, &hdb.memory, 1, NULL, "BYTES",
		     "most memory that one rank's buffers may take; lowers MAX where needed"}},
	{HDB_LOOPS, {'i', "iterations", HDB_PAIR, hdb.iterations, 1, NULL, "N[:LARGE]",
		     "iterations per size (LARGE: of large messages)"}},
	{HDB_LOOPS, {'x', "warmup", HDB_PAIR, hdb.skip, 0, NULL, "N[:LARGE]",
		     "iterations before them that are not counted"}},
	{HDB_BUDGET, {'B', "budget", HDB_REAL, &hdb.budget, 0, NULL, "SECONDS",
		      "fewer iterations where a size would take longer than this (0: never)"}},
	{HDB_FULL, {'f', "full", HDB_FLAG, &hdb.full, 0, NULL, NULL, "also print minimum, maximum and iterations"}},
	{HDB_VALIDATE, {'c', "validation", HDB_FLAG, &hdb.validate, 0, NULL, NULL,
			"check every byte or element of every iteration"}},
	{HDB_WINDOW, {'w', "window-size", HDB_INT, &hdb.window, 1, NULL, "N", "messages in flight"}},
	{HDB_REDUCTION, {'T', "type", HDB_CHOICE, &hdb.element, 0, element_names, "TYPE",
			 "element type: float, double or int64"}},
	{HDB_REDUCTION, {'O', "op", HDB_CHOICE, &hdb.op, 0, op_names, "OP",
			 "operation: sum, max, min; with int64 also band, bor, bxor"}},
	{HDB_TESTS, {'t', "num-test-calls", HDB_INT, &hdb.tests, 0, NULL, "N",
		     "MPI_Test calls during the computation (0: none)"}},
	{HDB_TESTS, {0, "persistent", HDB_FLAG, &hdb.persistent, 0, NULL, NULL, "a persistent request is started each time"}},
	{HDB_SIZES, {0, "alloc-mem", HDB_FLAG, &hdb.alloc_mem, 0, NULL, NULL, "buffers from MPI_Alloc_mem"}},
	{~0u, {0, "binding", HDB_FLAG, &hdb.binding, 0, NULL, NULL, "print the CPUs that each rank may use"}},
	{~0u, {0, "digits", HDB_INT, &hdb.digits, 1, NULL, "N", "digits behind the point (default 2)"}},
	{~0u, {'h', "help", HDB_FLAG, &want_help, 0, NULL, NULL, "print this and exit"}},
	{~0u, {'v', "version", HDB_FLAG, &want_version, 0, NULL, NULL, "print the version and exit"}},
};
enum { NSHARED = sizeof(shared) / sizeof(shared[0]) };

/* All options in one list, the program's own first. NULL at the end. */
static const struct hdb_option *option_at(int i)
{
	int own = 0;

	while (hdb_program->extra && hdb_program->extra[own].name) {
		if (own == i)
			return &hdb_program->extra[own];
		own++;
	}
	for (int s = 0, n = own; s < NSHARED; s++) {
		if (!(shared[s].feature & hdb_program->features) && shared[s].feature != ~0u)
			continue;
		if (n++ == i)
			return &shared[s].o;
	}
	return NULL;
}

/* The error text, which rank 0 prints. */
static char complaint[512];

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int complain(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(complaint, sizeof(complaint), format, ap);
	va_end(ap);
	return -1;
}

/* Edit distance, each text cut to 40 characters. */
static int distance(const char *a, const char *b)
{
	int row[41], na = (int)strnlen(a, 40), nb = (int)strnlen(b, 40);

	for (int j = 0; j <= nb; j++)
		row[j] = j;
	for (int i = 1; i <= na; i++) {
		int corner = row[0];

		row[0] = i;
		for (int j = 1; j <= nb; j++) {
			int best = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[nb];
}

static int unknown_long(const char *name, int length)
{
	char given[64];
	const struct hdb_option *o, *best = NULL;
	int least = INT_MAX;

	snprintf(given, sizeof(given), "%.*s", length, name);
	for (int i = 0; (o = option_at(i)); i++) {
		int d = distance(given, o->name);

		if (d < least) {
			least = d;
			best = o;
		}
	}
	return complain("unknown option '--%s'; the nearest is '--%s' (-h lists all)", given, best->name);
}

static int unknown_letter(char c)
{
	const struct hdb_option *o;
	char known[64];
	int n = 0;

	for (int i = 0; (o = option_at(i)) && n < (int)sizeof(known) - 4; i++) {
		if (o->letter && tolower((unsigned char)o->letter) == tolower((unsigned char)c))
			return complain("unknown option '-%c'; the nearest is '-%c' (--%s; -h lists all)", c,
					o->letter, o->name);
		if (o->letter)
			n += snprintf(known + n, sizeof(known) - (size_t)n, " -%c", o->letter);
	}
	return complain("unknown option '-%c'; known are%s (-h says what they do)", c, known);
}

static int parse_bytes(const char *text, const char **end, size_t *bytes)
{
	char *e;
	unsigned long long n;
	int shift = 0;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	n = strtoull(text, &e, 10);
	if (*e == 'K' || *e == 'k')
		shift = 10;
	else if (*e == 'M')
		shift = 20;
	else if (*e == 'G')
		shift = 30;
	if (errno || n > (ULLONG_MAX >> shift))
		return -1;
	*bytes = (size_t)n << shift;
	*end = e + (shift != 0);
	return 0;
}

static int parse_range(const char *text, struct hdb_range *r)
{
	const char *p = text;
	size_t n;

	if (*p != ':') {
		if (parse_bytes(p, &p, &n))
			return -1;
		if (*p == '\0') {
			r->max = n;
			if (r->min > r->max)
				r->min = r->max;
			return 0;
		}
		r->min = n;
	}
	if (*p++ != ':')
		return -1;
	if (*p != '\0' && (parse_bytes(p, &p, &r->max) || *p != '\0'))
		return -1;
	return r->min <= r->max ? 0 : -1;
}

static int parse_int(const char *text, long least, char stop, const char **end, int *out)
{
	char *e;
	long n;

	errno = 0;
	n = strtol(text, &e, 10);
	if (e == text || errno || n < least || n > INT_MAX || (*e != '\0' && *e != stop))
		return -1;
	*out = (int)n;
	*end = e;
	return 0;
}

static int set(const struct hdb_option *o, const char *value)
{
	const char *end;
	char *e;

	switch (o->kind) {
	case HDB_FLAG:
		*(bool *)o->out = true;
		return 0;
	case HDB_TEXT:
		*(const char **)o->out = value;
		return 0;
	case HDB_INT:
		if (!parse_int(value, o->least, '\0', &end, o->out))
			return 0;
		return complain("--%s '%s': a whole number of at least %ld is wanted", o->name, value, o->least);
	case HDB_PAIR: {
		int *pair = o->out;

		if (!parse_int(value, o->least, ':', &end, &pair[0])) {
			pair[1] = pair[0];
			if (*end == '\0' || !parse_int(end + 1, o->least, '\0', &end, &pair[1]))
				return 0;
		}
		return complain("--%s '%s': %s is wanted, of at least %ld", o->name, value, o->arg, o->least);
	}
	case HDB_REAL: {
		double d = strtod(value, &e);

		if (e != value && *e == '\0' && d >= (double)o->least && d < 1e18) {
			*(double *)o->out = d;
			return 0;
		}
		return complain("--%s '%s': a number of at least %ld is wanted", o->name, value, o->least);
	}
	case HDB_BYTES: {
		size_t bytes;

		if (!parse_bytes(value, &end, &bytes) && *end == '\0' && bytes >= (size_t)o->least) {
			*(size_t *)o->out = bytes;
			return 0;
		}
		return complain("--%s '%s': a number of bytes is wanted, at least %ld", o->name, value, o->least);
	}
	case HDB_RANGE:
		if (!parse_range(value, o->out))
			return 0;
		return complain("--%s '%s': %s in bytes is wanted", o->name, value, o->arg);
	case HDB_CHOICE: {
		int best = 0;

		for (int i = 0; o->choices[i]; i++) {
			if (!strcmp(o->choices[i], value)) {
				*(int *)o->out = i;
				return 0;
			}
			if (distance(value, o->choices[i]) < distance(value, o->choices[best]))
				best = i;
		}
		return complain("--%s '%s' is unknown; the nearest is '%s'", o->name, value, o->choices[best]);
	}
	}
	return -1;
}

static int parse_long(int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2, *eq = strchr(name, '=');
	int length = eq ? (int)(eq - name) : (int)strlen(name);
	const struct hdb_option *o;

	for (int k = 0; (o = option_at(k)); k++)
		if ((int)strlen(o->name) == length && !strncmp(o->name, name, (size_t)length))
			break;
	if (!o)
		return unknown_long(name, length);
	if (o->kind == HDB_FLAG)
		return eq ? complain("--%s takes no value", o->name) : set(o, NULL);
	if (eq)
		return set(o, eq + 1);
	if (*i + 1 >= argc)
		return complain("--%s needs %s", o->name, o->arg);
	return set(o, argv[++*i]);
}

static int parse_letters(int argc, char **argv, int *i)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		const struct hdb_option *o;

		for (int k = 0; (o = option_at(k)); k++)
			if (o->letter == *p)
				break;
		if (!o)
			return unknown_letter(*p);
		if (o->kind == HDB_FLAG) {
			set(o, NULL);
			continue;
		}
		if (p[1])
			return set(o, p + 1);
		if (*i + 1 >= argc)
			return complain("-%c needs %s", o->letter, o->arg);
		return set(o, argv[++*i]);
	}
	return 0;
}

static int parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int bad;

		if (argv[i][0] == '-' && argv[i][1] == '-' && argv[i][2])
			bad = parse_long(argc, argv, &i);
		else if (argv[i][0] == '-' && argv[i][1] && argv[i][1] != '-')
			bad = parse_letters(argc, argv, &i);
		else
			bad = complain("'%s': no arguments are taken but options (-h lists them)", argv[i]);
		if (bad)
			return -1;
	}
	if (want_help || want_version)
		return 0;
	if ((hdb_program->features & HDB_REDUCTION) && hdb.element == HDB_CHAR)
		return complain("--type 'char' cannot be reduced: float, double or int64 is wanted");
	if ((hdb_program->features & HDB_REDUCTION) && hdb.element != HDB_INT64 && hdb.op >= HDB_BAND)
		return complain("--op %s is not defined for %s: add -T int64", op_names[hdb.op],
				element_names[hdb.element]);
	if (hdb.digits > 9)
		return complain("--digits '%d': at most 9, the clock has nanoseconds", hdb.digits);
	if (hdb.sizes.max > INT_MAX)
		return complain("--message-size: at most %d bytes, an int counts them", INT_MAX);
	return 0;
}

static void usage(void)
{
	const struct hdb_option *o;
	char head[64];

	printf("%s: %s\nOptions:\n", hdb_program->name, hdb_program->title);
	for (int i = 0; (o = option_at(i)); i++) {
		int n = o->letter ? snprintf(head, sizeof(head), "-%c, --%s", o->letter, o->name)
				  : snprintf(head, sizeof(head), "    --%s", o->name);

		if (o->arg)
			snprintf(head + n, sizeof(head) - (size_t)n, "%c%s", '=', o->arg);
		printf("  %-30s %s\n", head, o->help);
	}
	if (hdb_program->features & HDB_LOOPS)
		printf("Defaults: %d iterations after %d", hdb_program->defaults.iterations[0],
		       hdb_program->defaults.skip[0]);
	if ((hdb_program->features & HDB_LOOPS) &&
	    hdb_program->defaults.iterations[1] != hdb_program->defaults.iterations[0])
		printf(", %d after %d above %zu bytes", hdb_program->defaults.iterations[1],
		       hdb_program->defaults.skip[1], hdb_program->defaults.large);
	if (hdb_program->features & HDB_SIZES)
		printf("; sizes %zu:%zu", hdb_program->defaults.sizes.min, hdb_program->defaults.sizes.max);
	if (hdb_program->features & HDB_WINDOW)
		printf("; window %d", hdb_program->defaults.window);
	if (hdb_program->features & HDB_REDUCTION)
		printf("; %s %s", element_names[hdb_program->defaults.element], op_names[hdb_program->defaults.op]);
	printf("%s", hdb_program->features & (HDB_LOOPS | HDB_SIZES) ? ".\n" : "");
}

void hdb_quit(int status, const char *format, ...)
{
	va_list ap;

	if (hdb_rank == 0) {
		fprintf(stderr, "%s: ", hdb_program->name);
		va_start(ap, format);
		vfprintf(stderr, format, ap);
		va_end(ap);
		fputc('\n', stderr);
	}
	MPI_Finalize();
	exit(status);
}

void hdb_die(const char *format, ...)
{
	va_list ap;

	fprintf(stderr, "%s: rank %d: ", hdb_program->name, hdb_rank);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	MPI_Abort(MPI_COMM_WORLD, HDB_FAIL);
	abort();
}

void hdb_start(int argc, char **argv, const struct hdb_program *program)
{
	int bad;

	hdb_program = program;
	hdb = program->defaults;
	if (!hdb.memory)
		hdb.memory = (size_t)512 << 20;
	if (!hdb.digits)
		hdb.digits = 2;
	if (!program->initialised)
		MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &hdb_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &hdb_ranks);
	bad = parse(argc, argv);
	if (bad)
		hdb_quit(HDB_USAGE, "%s", complaint);
	if (want_help || want_version) {
		if (hdb_rank == 0 && want_help)
			usage();
		if (hdb_rank == 0 && want_version)
			printf("%s (Heddle) %s\n", hdb_program->name, HDB_VERSION);
		MPI_Finalize();
		exit(HDB_PASS);
	}
	if (program->exact_ranks && hdb_ranks != program->exact_ranks)
		hdb_quit(HDB_USAGE, "exactly %d ranks are needed, %d given: run it with -n %d", program->exact_ranks,
			 hdb_ranks, program->exact_ranks);
	if (hdb_ranks < program->least_ranks)
		hdb_quit(HDB_USAGE, "at least %d ranks are needed, %d given: run it with -n %d", program->least_ranks,
			 hdb_ranks, program->least_ranks);
	if (program->even_ranks && hdb_ranks % 2)
		hdb_quit(HDB_USAGE, "an even number of ranks is needed, %d given: run it with -n %d", hdb_ranks,
			 hdb_ranks + 1);
}
