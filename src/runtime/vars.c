/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration variables: everything here is made from runtime/vars.def, and for those of libshca, which libshca itself
 * reads, from shca/fabric/vars.def. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/launched_by.h"
#include "runtime/runtime.h"

extern char **environ;

enum type { BOOL = HDL_VAR_BOOL, INT = HDL_VAR_INT, SIZE = HDL_VAR_SIZE, TIME_US = HDL_VAR_TIME_US, STRING = HDL_VAR_STRING,
	    LIST = HDL_VAR_LIST };
static const char *const type_names[] = { "BOOL", "INT", "SIZE", "TIME", "STRING", "LIST" };

struct hdl_vars hdl_vars = {
#define HDL_VAR(member, name, type, dflt, unit, text) .member = dflt,
#include "runtime/vars.def"
#undef HDL_VAR
};
static const struct hdl_vars defaults = {
#define HDL_VAR(member, name, type, dflt, unit, text) .member = dflt,
#include "runtime/vars.def"
#undef HDL_VAR
};

static const struct row {
	const char *name, *unit, *text;
	enum type type;
	size_t offset;
	const char *shca;	/* libshca's default; NULL: the variable is ours */
	bool alike;		/* on all ranks */
} rows[] = {
#define HDL_VAR(member, name, type, dflt, unit, text) { name, unit, text, type, offsetof(struct hdl_vars, member), NULL, false },
#define HDL_VAR_ALIKE(member, name, type, dflt, unit, text) \
	{ name, unit, text, type, offsetof(struct hdl_vars, member), NULL, true },
#include "runtime/vars.def"
#undef HDL_VAR
#define SHCA_VAR(name, type, dflt, unit, text) { name, unit, text, type, 0, dflt, false },
#include "shca/fabric/vars.def"
#undef SHCA_VAR
};
enum { NROWS = sizeof rows / sizeof rows[0] };

static const struct {
	const char *name, *value, *now;
} renamed[] = {
#define HDL_RENAMED(name, value, now) { name, value, now },
#include "runtime/vars.def"
#undef HDL_RENAMED
};

static const char *const prefixes[] = { "HEDDLE_", "SHCA_" };
enum { NPREFIXES = sizeof prefixes / sizeof prefixes[0] };

/* Begin with HEDDLE_ too, but are read by other parts of Heddle than the library. */
static const char *const elsewhere[] = { "HEDDLE_CC", "HEDDLE_CXX", "HEDDLE_LOCAL_RANK", "HEDDLE_LOCAL_SIZE",
					 "HEDDLE_RANK_PROCESS", "HEDDLE_PARENT_PORT" };
enum { NELSEWHERE = sizeof elsewhere / sizeof elsewhere[0] };

/* The length of the prefix HEDDLE_ or SHCA_ of a name; 0: neither. */
static size_t prefix_of(const char *name)
{
	for (int i = 0; i < NPREFIXES; i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return strlen(prefixes[i]);
	return 0;
}

/* ---- reading a value ------------------------------------------------------------------------------------ */

/* Reads digits that end the text or are followed by letters. *rest: the text behind the digits. */
static bool vars_number(const char *text, uint64_t *v, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)*text))	/* strtoull would accept a sign and blanks */
		return false;
	errno = 0;
	*v = strtoull(text, &end, 10);
	*rest = end;
	return errno == 0;
}

static bool scaled(uint64_t v, uint64_t unit, uint64_t *out)
{
	return !__builtin_mul_overflow(v, unit, out);
}

static bool vars_parse_bool(const char *text, bool *out)
{
	static const char *const yes[] = { "1", "yes", "true", "on" }, *const no[] = { "0", "no", "false", "off" };

	for (int i = 0; i < 4; i++) {
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*out = !strcasecmp(text, yes[i]);
			return true;
		}
	}
	return false;
}

static bool parse_int(const char *text, int *out)
{
	const char *rest;
	uint64_t v;

	if (!vars_number(text, &v, &rest) || *rest || v > INT_MAX)
		return false;
	*out = (int)v;
	return true;
}

bool hdl_parse_size(const char *text, size_t *out)
{
	static const char suffixes[] = "kmg";
	const char *rest, *suffix;
	uint64_t v;

	if (!vars_number(text, &v, &rest))
		return false;
	if (*rest) {
		suffix = strchr(suffixes, tolower((unsigned char)*rest));
		if (!suffix || rest[1] || !scaled(v, 1ull << (10 * (suffix - suffixes + 1)), &v))
			return false;
	}
	*out = v;
	return v <= SIZE_MAX;
}

/* A bare number other than 0 is refused: 30 may mean seconds as well as microseconds. */
static bool parse_time_us(const char *text, uint64_t *out)
{
	const char *rest;
	uint64_t v;

	if (!vars_number(text, &v, &rest))
		return false;
	if (!strcmp(rest, "s"))
		return scaled(v, 1000000, out);
	if (!strcmp(rest, "ms"))
		return scaled(v, 1000, out);
	*out = v;
	return !strcmp(rest, "us") || (!*rest && v == 0);
}

/* Is the word, of len bytes, among the choices that sep separates? */
static bool among(const char *word, size_t len, const char *choices, char sep)
{
	while (*choices) {
		size_t n = strcspn(choices, (char[]){ sep, 0 });

		if (n == len && !strncmp(word, choices, n))
			return true;
		choices += n + (choices[n] != 0);
	}
	return false;
}

/* Checks a STRING with the unit a|b|c, whose value must be one of these, or a LIST with the unit a,b,c, whose values must be some
 * of these. */
static bool parse_string(const struct row *row, const char *text)
{
	return !strchr(row->unit, '|') || among(text, strlen(text), row->unit, '|');
}

static bool parse_list(const struct row *row, const char *text)
{
	if (!strchr(row->unit, ','))
		return true;
	while (*text) {
		size_t n = strcspn(text, ",");

		if (!among(text, n, row->unit, ','))
			return false;
		text += n;
		if (*text && !*++text)
			return false;	/* a comma at the end */
	}
	return true;
}

static void allowed_form(const struct row *row, char *out, size_t size)
{
	switch (row->type) {
	case BOOL:
		snprintf(out, size, "1, yes, true, on, or 0, no, false, off");
		break;
	case INT:
		snprintf(out, size, "a whole number from 0 to %d (%s)", INT_MAX, row->unit);
		break;
	case SIZE:
		snprintf(out, size, "a whole number of %s, with k, m or g for 2^10, 2^20, 2^30 (such as 64k)", row->unit);
		break;
	case TIME_US:
		snprintf(out, size, "a whole number with its unit us, ms or s (such as 500ms), or 0");
		break;
	case STRING:
		snprintf(out, size, "one of %s", row->unit);
		break;
	case LIST:
		snprintf(out, size, "a list, separated by commas, of some of %s", row->unit);
		break;
	}
}

/* Reads text into row's member of *vars. keep: the text of a STRING or LIST is copied, because the member refers to the
 * copy for good. */
static int vars_set(struct hdl_vars *vars, const struct row *row, const char *text, bool keep)
{
	void *member = (char *)vars + row->offset;
	char form[256];
	bool ok = false;

	switch (row->type) {
	case BOOL:
		ok = vars_parse_bool(text, member);
		break;
	case INT:
		ok = parse_int(text, member);
		break;
	case SIZE:
		ok = hdl_parse_size(text, member);
		break;
	case TIME_US:
		ok = parse_time_us(text, member);
		break;
	case STRING:
		ok = parse_string(row, text);
		break;
	case LIST:
		ok = parse_list(row, text);
		break;
	}
	if (!ok) {
		allowed_form(row, form, sizeof form);
		hdl_error("%s=%s: not understood; allowed is %s", row->name, text, form);
		return -EINVAL;
	}
	if (keep && (row->type == STRING || row->type == LIST)) {
		char *copy = strdup(text);

		if (!copy) {
			hdl_error("%s: no memory for its value", row->name);
			return -ENOMEM;
		}
		*(const char **)member = copy;
	}
	return 0;
}

/* ---- the environment ------------------------------------------------------------------------------------- */

static const struct row *vars_find(const char *entry, size_t name_len)
{
	for (int i = 0; i < NROWS; i++)
		if (strlen(rows[i].name) == name_len && !strncmp(rows[i].name, entry, name_len))
			return &rows[i];
	return NULL;
}

static bool is_elsewhere(const char *entry, size_t name_len)
{
	for (int i = 0; i < NELSEWHERE; i++)
		if (strlen(elsewhere[i]) == name_len && !strncmp(elsewhere[i], entry, name_len))
			return true;
	return false;
}

/* Names are compared without their prefixes, which would make all names similar; names with the same prefix come
 * first. */
static const char *nearest(const char *entry, size_t name_len)
{
	const char *full[NROWS + NELSEWHERE], *names[NROWS + NELSEWHERE + 1], *near;
	size_t prefix = prefix_of(entry);
	char word[64];
	int n = 0;

	for (int other = 0; other < 2; other++) {
		for (int i = 0; i < NROWS + NELSEWHERE; i++) {
			const char *name = i < NROWS ? rows[i].name : elsewhere[i - NROWS];

			if ((strncmp(name, entry, prefix) != 0) != other)
				continue;
			full[n] = name;
			names[n++] = name + prefix_of(name);
		}
	}
	names[n] = NULL;
	snprintf(word, sizeof word, "%.*s", (int)(name_len - prefix), entry + prefix);
	near = hdl_nearest(word, names);
	for (int i = 0; near && i < n; i++)
		if (names[i] == near)
			return full[i];
	return NULL;
}

static void warn_unknown(const char *entry, size_t name_len)
{
	const char *near = nearest(entry, name_len);

	hdl_warn("%.*s is not a variable of Heddle%s%s%s (heddle_info --vars lists all)", (int)name_len, entry,
		 near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* Refuses the entry if the name, or the variable's value, is an old one. Returns 0 or -EINVAL. */
static int refuse_renamed(const char *entry, const char *equals)
{
	size_t len = (size_t)(equals - entry);

	for (size_t i = 0; i < ARRAY_SIZE(renamed); i++) {
		if (strlen(renamed[i].name) != len || strncmp(renamed[i].name, entry, len) != 0)
			continue;
		if (!renamed[i].value) {
			hdl_error("%s: the variable is called %s: set that instead", entry, renamed[i].now);
			return -EINVAL;
		}
		if (!strcmp(renamed[i].value, equals + 1)) {
			hdl_error("%s: the value is called %s: set that instead", entry, renamed[i].now);
			return -EINVAL;
		}
	}
	return 0;
}

enum env_flags {
	ENV_CHECK = 0,
	ENV_KEEP = 1,			/* as keep of vars_set */
	ENV_WARN = 2,			/* unknown names are reported */
};

/* The environment is nearly always the same for all ranks: rank 0 reports unknown names for the job. */
static enum env_flags env_warning(void)
{
	return hdl_launched_by_env().rank <= 0 ? ENV_WARN : ENV_CHECK;
}

/* Reads the variables of env into *vars. vars NULL: only unknown names are looked for. Returns 0, or the negative errno of the
 * first wrong value. */
static int read_env(char *const *env, struct hdl_vars *vars, enum env_flags flags)
{
	int err = 0, e;

	for (; *env; env++) {
		const char *equals = strchr(*env, '=');
		const struct row *row;
		size_t len;

		if (!equals || !prefix_of(*env))
			continue;
		len = (size_t)(equals - *env);
		row = vars_find(*env, len);
		e = vars ? refuse_renamed(*env, equals) : 0;
		if (!e && row && !row->shca && vars)
			e = vars_set(vars, row, equals + 1, flags & ENV_KEEP);
		if (e) {
			if (!err)
				err = e;
		} else if (!row && flags & ENV_WARN && !is_elsewhere(*env, len)) {
			warn_unknown(*env, len);
		}
	}
	return err;
}

int hdl_vars_load(void)
{
	static bool loaded;
	static int result;

	if (!loaded) {
		loaded = true;
		result = read_env(environ, &hdl_vars, ENV_KEEP | env_warning());
		hdl_diag_debug(hdl_vars.debug);
	}
	return result;
}

int hdl_vars_check(char *const *env)
{
	struct hdl_vars scratch = defaults;

	return read_env(env, &scratch, ENV_CHECK);
}

void hdl_vars_warn(char *const *env)
{
	read_env(env, NULL, env_warning());
}

/* ---- one by one -------------------------------------------------------------------------------------------- */

bool hdl_var_at(unsigned i, struct hdl_var *out)
{
	const struct row *row = i < NROWS ? &rows[i] : NULL;
	const char *set;

	if (!row)
		return false;
	*out = (struct hdl_var){ .name = row->name, .unit = row->unit, .text = row->text, .type = (enum hdl_var_type)row->type,
				 .alike = row->alike, .of_shca = row->shca != NULL };
	if (row->shca) {
		set = getenv(row->name);
		out->type = HDL_VAR_STRING;
		out->value.text = set ? set : row->shca;
		return true;
	}
	memcpy(&out->value, (const char *)&hdl_vars + row->offset,
	       row->type == BOOL ? sizeof(bool) : row->type == INT ? sizeof(int) : sizeof(void *));
	return true;
}

int hdl_var_set(unsigned i, const char *text)
{
	int err;

	if (i >= NROWS || rows[i].shca)
		return -EINVAL;
	err = vars_set(&hdl_vars, &rows[i], text, true);
	hdl_diag_debug(hdl_vars.debug);
	return err;
}

/* ---- printing ---------------------------------------------------------------------------------------------- */

static void print_scaled(char *out, size_t size, uint64_t v, uint64_t step, const char *const *units, int n)
{
	int i = 0;

	while (v && i + 1 < n && v % step == 0) {
		v /= step;
		i++;
	}
	snprintf(out, size, "%llu%s", (unsigned long long)v, units[i]);
}

static void format(const struct hdl_vars *vars, const struct row *row, char *out, size_t size)
{
	static const char *const sizes[] = { "", "k", "m", "g" }, *const times[] = { "us", "ms", "s" };
	const void *member = (const char *)vars + row->offset;

	switch (row->type) {
	case BOOL:
		snprintf(out, size, "%s", *(const bool *)member ? "yes" : "no");
		break;
	case INT:
		snprintf(out, size, "%d", *(const int *)member);
		break;
	case SIZE:
		print_scaled(out, size, *(const size_t *)member, 1024, sizes, 4);
		break;
	case TIME_US:
		print_scaled(out, size, *(const uint64_t *)member, 1000, times, 3);
		break;
	case STRING:
	case LIST:
		snprintf(out, size, "%s", **(const char *const *)member ? *(const char *const *)member : "\"\"");
		break;
	}
}

/* The value that holds now, and the default. */
static void values(const struct row *row, char *now, char *dflt, size_t size)
{
	if (row->shca) {
		const char *text = getenv(row->name);

		snprintf(dflt, size, "%s", *row->shca ? row->shca : "\"\"");
		snprintf(now, size, "%s", text && *text ? text : dflt);
		return;
	}
	format(&hdl_vars, row, now, size);
	format(&defaults, row, dflt, size);
}

void hdl_vars_print(FILE *out)
{
	for (int i = 0; i < NROWS; i++) {
		char now[128], dflt[128];

		values(&rows[i], now, dflt, sizeof now);
		fprintf(out, "%s = %s\n    type %s%s%s, default %s%s%s\n    %s\n", rows[i].name, now,
			type_names[rows[i].type], *rows[i].unit ? ", " : "", rows[i].unit, dflt,
			strcmp(now, dflt) ? " (changed by the environment)" : "",
			rows[i].alike ? ", the same on all ranks" : "", rows[i].text);
	}
}

bool hdl_vars_given(const char *name)
{
	const char *text = getenv(name);

	return text && *text;
}

void hdl_vars_adjusted(const char *name, uint64_t used, const char *why)
{
	const struct row *row = vars_find(name, strlen(name));
	struct hdl_vars scratch = defaults;
	char value[128];

	if (!hdl_vars_given(name) || hdl_launched_by_env().rank > 0)
		return;
	if (row->type == SIZE)
		*(size_t *)((char *)&scratch + row->offset) = used;
	else
		*(int *)((char *)&scratch + row->offset) = (int)used;
	format(&scratch, row, value, sizeof value);
	/* not hdl_warn: each call is a different warning, printed once */
	hdl_error("warning: %s=%s: %s is used: %s", name, getenv(name), value, why);
}

/* ---- among ranks ---------------------------------------------------------------------------------------------- */

/* A list means the same in any order. */
static void in_order_of_unit(const struct row *row, char *value, size_t size)
{
	char given[128];
	size_t used = 0;

	snprintf(given, sizeof given, "%s", value);
	for (const char *word = row->unit; *word; word += strspn(word, ",")) {
		size_t n = strcspn(word, ",");

		if (among(word, n, given, ','))
			used += (size_t)snprintf(value + used, size - used, "%s%.*s", used ? "," : "", (int)n, word);
		word += n;
	}
}

char *hdl_vars_alike(void)
{
	char value[128], *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (int i = 0; i < NROWS; i++) {
		if (!rows[i].alike)
			continue;
		format(&hdl_vars, &rows[i], value, sizeof value);
		if (rows[i].type == LIST)
			in_order_of_unit(&rows[i], value, sizeof value);
		fprintf(out, "%s=%s\n", rows[i].name, value);
	}
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

int hdl_vars_compare(const char *mine, const char *theirs, int with)
{
	int differ = 0;

	while (*mine && *theirs) {
		size_t n = strcspn(mine, "\n"), m = strcspn(theirs, "\n"), name = strcspn(mine, "=") + 1;

		if ((n != m || memcmp(mine, theirs, n)) && m >= name) {
			hdl_error("%.*s here, %.*s on rank %d: this variable must be the same on all ranks (is it set for one "
				  "program of the job only, or on one host?)",
				  (int)n, mine, (int)(m - name), theirs + name, with);
			differ++;
		}
		mine += n + (mine[n] == '\n');
		theirs += m + (theirs[m] == '\n');
	}
	return differ;
}
