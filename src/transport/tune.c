/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tune.h"

static uint32_t class_of(size_t len)
{
	uint32_t c = 0;

	for (size_t n = 32768; len > n && c < HDL_TUNE_CLASSES - 1; n *= 2)
		c++;
	return c;
}

static bool trial_over(const struct hdl_tune_class *c, uint64_t n)
{
	return (c->term_bytes >= n * HDL_TUNE_TRIAL_BYTES && c->term_episodes >= n * HDL_TUNE_TRIAL_MIN) ||
	       c->term_episodes >= n * HDL_TUNE_TRIAL_MAX;
}

/* The way of the next episode: each in turn until both are known; then the better one, and now and then the other, to see
 * whether it has become better. The worse it is the rarer. */
static void choose(struct hdl_tune_class *c)
{
	enum hdl_way other = c->way == HDL_WAY_READ ? HDL_WAY_STAGE : HDL_WAY_READ;
	uint64_t mine = c->cost[c->way], its = c->cost[other], ratio;

	if (!trial_over(c, c->terms ? c->terms : 1))
		return;
	c->term_bytes = 0;
	c->term_episodes = 0;
	if (!mine || !its || c->terms || its < mine) {
		/* after a term at the better one comes a trial, else the other is (or may be) the better one */
		bool trial = !its || mine <= its;
		ratio = its ? mine / its + 1 : 1;
		c->way = (uint8_t)other;
		c->terms = trial ? 0 : (uint32_t)(HDL_TUNE_TERM * (ratio < 8 ? ratio * ratio : 64));
		return;
	}
	/* the trial shows that this one is the better one */
	ratio = its / mine + 1;
	c->terms = (uint32_t)(HDL_TUNE_TERM * (ratio < 8 ? ratio * ratio : 64));
}

static void episode_starts(struct hdl_tune *t, uint64_t now)
{
	t->since = now;
	t->bytes = 0;
	t->mixed = false;
	choose(&t->class[t->current]);
}

static void episode_ends(struct hdl_tune *t, uint64_t now)
{
	struct hdl_tune_class *c = &t->class[t->current];
	bool cold = c->term_episodes < HDL_TUNE_COLD_MAX && (!c->term_episodes || c->term_bytes < HDL_TUNE_COLD_BYTES);

	c->tried[c->way]++;
	c->term_episodes++;
	c->term_bytes += t->bytes;
	if (t->mixed || !t->bytes || cold)
		return;
	uint64_t cost = (uint64_t)((double)(now - t->since) * (1 << 20) / (double)t->bytes) + 1, known = c->cost[c->way];
	/* quickly down, slowly up: what disturbs an episode (another program, a sender that computes) makes it longer */
	if (!known)
		known = cost;
	else if (cost < known)
		known -= (known - cost) / 2;
	else
		known += ((cost < 2 * known ? cost : 2 * known) - known) / 16;
	c->cost[c->way] = known;
}

enum hdl_way hdl_tune_begin(struct hdl_tune *t, size_t len, unsigned possible, uint64_t now)
{
	uint32_t class = class_of(len);
	enum hdl_way way;

	if (!t->active++) {
		t->current = class;
		episode_starts(t, now);
	}
	if (class == t->current) {
		way = (enum hdl_way)t->class[class].way;
	} else {
		t->mixed = true;
		way = (enum hdl_way)t->class[class].way;
	}
	if (!(possible & 1u << way)) {
		t->mixed = true;
		for (int w = 0; w < HDL_WAYS; w++)
			if (possible & 1u << w)
				way = (enum hdl_way)w;
	}
	return way;
}

void hdl_tune_end(struct hdl_tune *t, size_t len, bool failed, uint64_t now)
{
	t->bytes += len;
	t->mixed |= failed;
	if (--t->active && t->bytes < HDL_TUNE_LONG)
		return;
	episode_ends(t, now);
	if (t->active)
		episode_starts(t, now);
}
