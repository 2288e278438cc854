/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "transport/rndv/tune.h"

static uint32_t tune_class_of(size_t len, bool both)
{
	uint32_t c = 0;

	for (size_t n = 16384; len > n && c < HDL_TUNE_SIZES - 1; n *= 2)
		c++;
	return c + (both ? HDL_TUNE_SIZES : 0);
}

static void segment_starts(struct hdl_tune *t)
{
	t->done = t->counted = t->begun = 0;
	t->ns = t->bytes = t->worst_ns = t->worst_bytes = 0;
}

/* Returns the segment's cost in ns per MiB; 0: nothing was counted. */
static uint64_t tune_cost_of(const struct hdl_tune *t)
{
	uint64_t ns = t->ns, bytes = t->bytes;

	if (t->counted > 2) {
		ns -= t->worst_ns;
		bytes -= t->worst_bytes;
	}
	return bytes ? (uint64_t)((double)ns * (1 << 20) / (double)bytes) + 1 : 0;
}

static void segment_ends(struct hdl_tune *t)
{
	hdl_autotune_segment(t->class[t->current].tune, tune_cost_of(t));
	segment_starts(t);
}

static uint32_t cold(size_t len)
{
	return len >= 1 << 20 ? HDL_TUNE_COLD_LONG : HDL_TUNE_COLD;
}

/* Returns the number of transfers that a trial needs. The first is not counted: the transfer that ended before it went another
 * way. */
static uint32_t trial_length(size_t len)
{
	size_t n = (HDL_TUNE_BYTES + len - 1) / len;

	n = n < HDL_TUNE_COUNT_LONG ? HDL_TUNE_COUNT_LONG : n > HDL_TUNE_COUNT ? HDL_TUNE_COUNT : n;
	return 1 + cold(len) + (uint32_t)n;
}

const char *hdl_tune_class_text(int class, char text[static HDL_TUNE_CLASS_TEXT])
{
	int size = class % HDL_TUNE_SIZES, last = size == HDL_TUNE_SIZES - 1;

	snprintf(text, HDL_TUNE_CLASS_TEXT, "%s %u KiB%s", last ? "beyond" : "up to", 16u << (size - last),
		 class >= HDL_TUNE_SIZES ? ", both ways" : "");
	return text;
}

/* Makes the controller of a class, initialized with the findings of a neighbouring class. */
static struct hdl_autotune *tune_class_new(struct hdl_tune *t, uint32_t class)
{
	char text[HDL_TUNE_CLASS_TEXT];
	struct hdl_autotune *tune = hdl_autotune_new(HDL_TUNE_RENDEZVOUS, 0, "%s", hdl_tune_class_text((int)class, text));
	const struct hdl_autotune *below = class % HDL_TUNE_SIZES ? t->class[class - 1].tune : NULL,
				  *above = (class + 1) % HDL_TUNE_SIZES ? t->class[class + 1].tune : NULL;

	if (below && below->ns)
		hdl_autotune_inherit(tune, below);
	else if (above)
		hdl_autotune_inherit(tune, above);
	return tune;
}

void hdl_tune_fini(struct hdl_tune *t)
{
	for (int i = 0; i < HDL_TUNE_CLASSES; i++)
		hdl_autotune_free(t->class[i].tune);
}

enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, bool both, unsigned possible, uint64_t now, hdl_tuned *tuned)
{
	uint32_t class = tune_class_of(len, both);
	struct hdl_tune_class *c = &t->class[class];

	if (class != t->current && !t->active) {
		t->current = class;
		segment_starts(t);
	}
	if (!c->tune)
		c->tune = tune_class_new(t, class);
	/* a transfer that is not measured is no trial */
	uint8_t way = class != t->current || t->begun >= trial_length(len) ? c->tune->choice : c->tune->now;
	if (!(possible & 1u << way)) {
		hdl_autotune_put_off(c->tune, way);
		way = c->tune->choice;
		for (uint8_t w = 0; w < HDL_WAYS && !(possible & 1u << way); w++)
			way = w;
	}
	if (!t->active && (now - t->since > HDL_TUNE_PAUSE || !t->since)) {
		t->since = now;
		t->pure = true;
	}
	t->active++;
	t->active_way[way]++;
	t->begun += class == t->current && way != c->tune->choice;
	c->tune->of[way].uses++;
	*tuned = (hdl_tuned)(1 + way + HDL_WAYS * class);
	return (enum hdl_way)way;
}

static bool segment_full(const struct hdl_tune *t)
{
	return t->counted >= HDL_TUNE_COUNT || (t->counted >= HDL_TUNE_COUNT_LONG && t->bytes >= HDL_TUNE_BYTES);
}

/* Returns true if a trial ends early: this transfer, or all of the trial's, lose by far. */
static bool hopeless(const struct hdl_tune *t, const struct hdl_tune_class *c, uint64_t ns, size_t len)
{
	if (c->tune->now == c->tune->choice)
		return false;
	if (t->done > 1 && (double)ns * (1 << 20) > (double)HDL_TUNE_HOPELESS * (double)c->tune->ns * (double)len)
		return true;
	return t->counted >= HDL_TUNE_ENOUGH && 2 * tune_cost_of(t) > 3 * c->tune->ns;
}

static void tune_count(struct hdl_tune *t, uint64_t ns, size_t len)
{
	t->counted++;
	t->ns += ns;
	t->bytes += len;
	if ((double)ns * (double)t->worst_bytes >= (double)t->worst_ns * (double)len) {
		t->worst_ns = ns;
		t->worst_bytes = len;
	}
}

void hdl_tune_end(struct hdl_tune *t, hdl_tuned tuned, size_t len, bool failed, uint64_t now)
{
	uint32_t class = (uint32_t)(tuned - 1) / HDL_WAYS, way = (uint32_t)(tuned - 1) % HDL_WAYS;
	struct hdl_tune_class *c = &t->class[class];
	uint64_t ns = now - t->since;

	t->active--;
	t->active_way[way]--;
	c->bytes[way] += len;
	bool mine = class == t->current && way == c->tune->now && !failed;
	bool pure = t->pure && mine;
	t->since = now;
	t->pure = mine;
	bool no_hope = false;
	if (pure) {
		bool warm = t->done++ >= cold(len);
		no_hope = hopeless(t, c, ns, len);
		if (warm || no_hope)
			tune_count(t, ns, len);
	}
	/* all transfers of a trial have begun and ended, and some could not be counted */
	bool spent = class == t->current && t->begun >= trial_length(len) && !t->active_way[c->tune->now];
	if (no_hope || segment_full(t) || spent)
		segment_ends(t);
}

const char *hdl_way_name(enum hdl_way way)
{
	static const char *const name[HDL_WAYS] = {
		[HDL_WAY_READ] = "read", [HDL_WAY_SPLIT] = "split",
	};

	return name[way];
}

unsigned hdl_ways_parse(const char *list)
{
	unsigned bits = 0;

	for (const char *p = list; *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		for (int w = 0; w < HDL_WAYS; w++)
			if (strlen(hdl_way_name((enum hdl_way)w)) == n && !strncasecmp(hdl_way_name((enum hdl_way)w), p, n))
				bits |= 1u << w;
		p += n;
	}
	return *list ? bits : (1u << HDL_WAYS) - 1;
}
