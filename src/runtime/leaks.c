/* SPDX-License-Identifier: BSD-3-Clause */
/* HEDDLE_REPORT_LEAKS: objects left at the end, a line for each kind. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/object.h"
#include "runtime/runtime.h"

#define TOLD	8		/* different ones of a kind that are described */
#define LONGEST	160

struct leaks {
	struct leaks *next;
	const char *kind;
	size_t count, ntexts;
	struct {
		size_t count;
		char text[LONGEST];
	} each[TOLD];
};
static struct leaks *all;

static struct leaks *of_kind(const char *kind)
{
	struct leaks **l = &all;

	while (*l && strcmp((*l)->kind, kind))
		l = &(*l)->next;
	if (!*l && (*l = calloc(1, sizeof(**l))))
		(*l)->kind = kind;
	return *l;
}

void hdl_leak(const char *kind, const char *fmt, ...)
{
	struct leaks *l = of_kind(kind);
	char text[LONGEST];
	va_list ap;
	size_t i;

	if (!l) {
		hdl_warn("HEDDLE_REPORT_LEAKS: out of memory; the list of %s is not complete", kind);
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	l->count++;
	for (i = 0; i < l->ntexts && strcmp(l->each[i].text, text); i++)
		;
	if (i == TOLD)
		return;
	if (i == l->ntexts) {
		l->ntexts++;
		memcpy(l->each[i].text, text, sizeof(text));
	}
	l->each[i].count++;
}

static void print(const struct leaks *l)
{
	char line[TOLD * (LONGEST + 32) + 64] = "";
	size_t n = 0, printed = 0;

	for (size_t i = 0; i < l->ntexts; i++) {
		n += (size_t)snprintf(line + n, sizeof(line) - n, i ? "; " : "");
		if (l->each[i].count > 1)
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%zu times ", l->each[i].count);
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s", l->each[i].text);
		printed += l->each[i].count;
	}
	if (printed < l->count)
		snprintf(line + n, sizeof(line) - n, "; and %zu others", l->count - printed);
	hdl_report("HEDDLE_REPORT_LEAKS: %zu %s: %s", l->count, l->kind, line);
}

void hdl_leaks_print(void)
{
	struct leaks *l;

	while ((l = all)) {
		print(l);
		all = l->next;
		free(l);
	}
}
