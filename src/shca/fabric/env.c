/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment variables of libshca, which vars.def lists. A value that is not understood is reported, and the default
 * used. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/fnv.h"
#include "shca/fabric/fabric.h"

static const struct {
	const char *name, *dflt;
} vars[] = {
#define SHCA_VAR(name, type, dflt, unit, text) { name, dflt },
#include "shca/fabric/vars.def"
#undef SHCA_VAR
};

/* A name that is not listed has the default "". */
static const char *default_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(vars); i++)
		if (!strcmp(vars[i].name, name))
			return vars[i].dflt;
	return "";
}

/* Returns true if this value of a variable has not been reported yet: some variables are read at each use. */
static bool is_news(const char *name, const char *value)
{
	static _Atomic uint64_t reported[ARRAY_SIZE(vars)];
	uint64_t hash = fnv1a_64_string(value);

	for (size_t i = 0; i < ARRAY_SIZE(vars); i++)
		if (!strcmp(vars[i].name, name))
			return atomic_exchange(&reported[i], hash) != hash;
	return true;
}

static const char *set_text(const char *name)
{
	const char *s = getenv(name);
	return s && *s ? s : NULL;
}

static bool env_parse_bool(const char *s, bool *v)
{
	static const char *const words[][2] = { { "no", "yes" }, { "0", "1" }, { "false", "true" }, { "off", "on" } };
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		*v = !strcasecmp(s, words[i][1]);
		if (*v || !strcasecmp(s, words[i][0]))
			return true;
	}
	return false;
}

bool shca_env_bool(const char *name)
{
	const char *s = set_text(name), *dflt = default_of(name);
	bool v = false;
	if (s && env_parse_bool(s, &v))
		return v;
	env_parse_bool(dflt, &v);
	if (s && is_news(name, s))
		shca_error("%s=%s is neither yes (1, true, on) nor no (0, false, off): using %s", name, s, dflt);
	return v;
}

static bool parse_bytes(const char *s, uint64_t *v)
{
	char *end;
	errno = 0;
	unsigned long long n = strtoull(s, &end, 0);
	unsigned shift = 0;
	switch (tolower((unsigned char)*end)) {
	case 'k': shift = 10; end++; break;
	case 'm': shift = 20; end++; break;
	case 'g': shift = 30; end++; break;
	case 't': shift = 40; end++; break;
	}
	if (errno || end == s || *end || *s == '-' || (shift && n > (ULLONG_MAX >> shift)))
		return false;
	*v = (uint64_t)n << shift;
	return true;
}

uint64_t shca_env_bytes(const char *name, const char *dflt)
{
	const char *s = set_text(name);
	uint64_t v = 0;
	if (s && parse_bytes(s, &v))
		return v;
	if (!dflt)
		dflt = default_of(name);
	parse_bytes(dflt, &v);
	if (s && is_news(name, s))
		shca_error("%s=%s is not a number of bytes (digits, then k, m, g or t): using %s", name, s, dflt);
	return v;
}

static void unknown_word(const char *name, const char *word, int len, const char *const words[], unsigned n)
{
	char known[256] = "";

	for (unsigned i = 0; i < n; i++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "", words[i]);
	shca_error("%s: there is no word \"%.*s\", it is ignored; the words, with commas between: %s", name, len, word, known);
}

uint32_t shca_env_words(const char *name, const char *const words[], unsigned n)
{
	uint32_t bits = 0;

	for (const char *s = set_text(name); s && *s; s += *s == ',') {
		s += strspn(s, " \t");
		size_t all = strcspn(s, ","), len = all;
		unsigned i = 0;
		while (len && strchr(" \t", s[len - 1]))
			len--;
		while (i < n && (strlen(words[i]) != len || strncasecmp(words[i], s, len)))
			i++;
		if (i < n)
			bits |= 1u << i;
		else if (len)
			unknown_word(name, s, (int)len, words, n);
		s += all;
	}
	return bits;
}

uint32_t shca_env_behave(void)
{
	/* in the order of enum shca_behave */
	static const char *const words[] = { "async", "noarena", "noodp", "noorder", "nosequence", "nowake" };
	uint32_t bits = shca_env_words("SHCA_BEHAVE", words, ARRAY_SIZE(words));

	/* a request that runs when posted overtakes nothing */
	return bits & SHCA_BEHAVE_NOSEQUENCE ? bits | SHCA_BEHAVE_ASYNC : bits;
}

uint32_t shca_env_ms(const char *name)
{
	const char *s = set_text(name), *dflt = default_of(name);
	char *end;
	if (s) {
		long v = strtol(s, &end, 10);
		if (!*end && v >= 1 && v <= 3600000)
			return (uint32_t)v;
		if (is_news(name, s))
			shca_error("%s=%s is not a time from 1 to 3600000 ms: using %s", name, s, dflt);
	}
	return (uint32_t)strtol(dflt, &end, 10);
}

bool shca_probability(const char *s, const char *end, uint32_t *out)
{
	char buf[32];
	size_t n = (size_t)(end - s);
	if (!n || n >= sizeof(buf))
		return false;
	memcpy(buf, s, n);
	buf[n] = 0;
	char *e;
	double p = strtod(buf, &e);
	if (*e || !(p >= 0) || p > 1)
		return false;
	*out = p >= 1 ? UINT32_MAX : (uint32_t)(p * 4294967296.0);
	return true;
}
