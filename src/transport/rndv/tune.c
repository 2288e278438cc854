/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <strings.h>

#include "transport/rndv/tune.h"

#define ONE 1024u	/* a ratio of 1 */

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

/* Returns the number of segments until the next trial: few for a way that lost by little, many for one that keeps losing by
 * much. The first trials come soon after each other: the start of a program is not typical. */
static uint32_t next_trial(uint32_t ratio, uint32_t every, uint32_t trials)
{
	uint32_t n = ratio < ONE + ONE / 8 ? 10 : ratio < ONE + ONE / 2 ? 32 : every < 64 ? 128 : 2 * every;

	if (trials < 7 && n > 1u << trials)
		n = 1u << trials;
	return n < HDL_TUNE_RARE ? n : HDL_TUNE_RARE;
}

/* Judges a trial by the segments of the best way before and after. */
static void tune_judge(struct hdl_tune_class *c, uint64_t base)
{
	uint8_t w = c->trial_way, was = c->best;
	uint64_t r = c->trial * ONE / base + 1;
	uint32_t ratio = r < 64 * ONE ? (uint32_t)r : 64 * ONE, known = c->way[w].ratio;

	/* one trial may be an outlier, so the mean with the trials before counts */
	if (known && known < 4 * ONE)
		ratio = (ratio + known) / 2;
	c->way[w].ratio = ratio;
	c->way[w].trials++;
	if (ratio >= ONE - ONE / 32) {
		c->way[w].every = next_trial(ratio, c->way[w].every, c->way[w].trials);
		return;
	}
	for (int i = 0; i < HDL_WAYS; i++)
		c->way[i].ratio = (uint32_t)((uint64_t)c->way[i].ratio * ONE / ratio);
	c->way[w].ratio = 0;
	c->way[was].ratio = (uint32_t)((uint64_t)ONE * ONE / ratio);
	c->way[was].every = next_trial(c->way[was].ratio, 0, c->way[was].trials);
	c->way[was].since = 0;
	c->best = w;
	c->recent = base * ratio / ONE;
}

static void best_again(struct hdl_tune_class *c, uint64_t cost)
{
	uint64_t before = c->recent, trial = c->trial;

	for (int w = 0; w < HDL_WAYS; w++)
		c->way[w].since++;
	c->recent = before ? (before + cost) / 2 : cost;
	if (!trial)
		return;
	/* else the machine has changed its speed meanwhile: the trial is not judged, and another comes soon */
	if (cost < before + before / 4 && before < cost + cost / 4)
		tune_judge(c, c->recent);
	else
		c->recent = cost;
	c->trial = 0;
}

/* Chooses the way of the next segment: the best one, unless the trial of another is due. */
static void tune_choose(struct hdl_tune_class *c)
{
	uint8_t was = c->now;

	c->now = c->best;
	if (was != c->best)
		return;
	for (uint8_t w = 0; w < HDL_WAYS; w++)
		if (w != c->best && c->recent && c->way[w].since > c->way[w].every) {
			c->now = w;
			return;
		}
}

static void segment_ends(struct hdl_tune *t)
{
	struct hdl_tune_class *c = &t->class[t->current];
	uint64_t cost = tune_cost_of(t);

	if (cost && c->now == c->best)
		best_again(c, cost);
	else if (c->now != c->best) {
		c->trial = cost;
		c->trial_way = c->now;
		c->way[c->now].since = 0;
	}
	tune_choose(c);
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

/* Initializes a class from the neighbouring class, if all ways were tried there: trials of the others come soon, but not at
 * once. Without such a neighbour, the class begins with the way that depends on no sender. */
static void tune_inherit(struct hdl_tune *t, uint32_t class)
{
	struct hdl_tune_class *c = &t->class[class], *from = NULL;
	uint32_t size = class % HDL_TUNE_SIZES;

	if (size && t->class[class - 1].recent)
		from = &t->class[class - 1];
	else if (size + 1 < HDL_TUNE_SIZES && t->class[class + 1].recent)
		from = &t->class[class + 1];
	for (int w = 0; from && w < HDL_WAYS; w++)
		if (w != from->best && !from->way[w].trials)
			from = NULL;
	c->best = c->now = from ? from->best : HDL_WAY_READ;
	if (!from)
		return;
	for (int w = 0; w < HDL_WAYS; w++) {
		c->way[w].ratio = from->way[w].ratio;
		c->way[w].trials = 2;
		c->way[w].every = from->way[w].ratio < ONE + ONE / 4 ? 1 : 4;
	}
}

enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, bool both, unsigned possible, uint64_t now, hdl_tuned *tuned)
{
	uint32_t class = tune_class_of(len, both);
	struct hdl_tune_class *c = &t->class[class];

	if (class != t->current && !t->active) {
		t->current = class;
		segment_starts(t);
	}
	if (!c->used)
		tune_inherit(t, class);
	c->used = true;
	/* a transfer that is not measured is no trial */
	uint8_t way = class != t->current || t->begun >= trial_length(len) ? c->best : c->now;
	if (!(possible & 1u << way)) {
		/* the trial is put off, and other ways are tried first */
		c->way[way].since = 0;
		if (c->way[way].every < HDL_TUNE_LATER)
			c->way[way].every = HDL_TUNE_LATER;
		way = c->now = c->best;
		for (uint8_t w = 0; w < HDL_WAYS && !(possible & 1u << way); w++)
			way = w;
	}
	if (!t->active && (now - t->since > HDL_TUNE_PAUSE || !t->since)) {
		t->since = now;
		t->pure = true;
	}
	t->active++;
	t->active_way[way]++;
	t->begun += class == t->current && way != c->best;
	*tuned = (hdl_tuned)(1 + way + HDL_WAYS * class);
	return (enum hdl_way)way;
}

static bool segment_full(const struct hdl_tune *t)
{
	return t->counted >= HDL_TUNE_COUNT || (t->counted >= HDL_TUNE_COUNT_LONG && t->bytes >= HDL_TUNE_BYTES);
}

/* Whether a trial ends early: this transfer, or all of the trial's, lose by far. */
static bool hopeless(const struct hdl_tune *t, const struct hdl_tune_class *c, uint64_t ns, size_t len)
{
	if (c->now == c->best)
		return false;
	if (t->done > 1 && (double)ns * (1 << 20) > (double)HDL_TUNE_HOPELESS * (double)c->recent * (double)len)
		return true;
	return t->counted >= HDL_TUNE_ENOUGH && 2 * tune_cost_of(t) > 3 * c->recent;
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
	c->way[way].bytes += len;
	bool mine = class == t->current && way == c->now && !failed;
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
	bool spent = class == t->current && t->begun >= trial_length(len) && !t->active_way[c->now];
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
