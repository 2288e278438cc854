/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of processes: see group.h. */
#include "p2p/comm/group.h"

#include <errno.h>
#include <stdlib.h>

#include "runtime/jobs.h"

struct hdl_group hdl_group_empty = {
	.obj = { HDL_MAGIC_GROUP, 1 }, .handles = 1, .rank = MPI_UNDEFINED, .stride = 1,
};

struct hdl_pool hdl_groups = HDL_POOL(struct hdl_group, 32);
struct hdl_pool hdl_sessions = HDL_POOL(struct hdl_session, 8);

void hdl_session_release(struct hdl_session *s)
{
	if (--s->obj.refs)
		return;
	free(s->bsend);
	hdl_pool_put(&hdl_sessions, s);
}

void hdl_group_derive(struct hdl_group *g, struct hdl_session *session)
{
	if (session && !g->session && g != &hdl_group_empty)
		g->session = hdl_session_retain(session);
}

static struct hdl_group *group_new(int n)
{
	struct hdl_group *g = hdl_pool_take(&hdl_groups);

	if (g) {
		g->obj.refs = 1;
		g->size = n;
	}
	return g;
}

struct hdl_group *hdl_group_range(int first, int stride, int n)
{
	struct hdl_group *g;

	if (!n)
		return hdl_group_retain(&hdl_group_empty);
	g = group_new(n);
	if (!g)
		return NULL;
	g->first = first;
	g->stride = n == 1 ? 1 : stride;
	g->rank = hdl_group_rank_of(g, hdl_job.rank);
	return g;
}

struct hdl_group *hdl_group_table(int *procs, int n)
{
	struct hdl_group *g;
	int r = 1;

	/* numbers are below 2^31 and differ: no difference overflows, and none is 0 */
	while (r < n && procs[r] - procs[r - 1] == procs[1] - procs[0])
		r++;
	if (r >= n) {
		g = n > 1 ? hdl_group_range(procs[0], procs[1] - procs[0], n) : hdl_group_range(n ? procs[0] : 0, 1, n);
		free(procs);
		return g;
	}
	g = group_new(n);
	if (!g) {
		free(procs);
		return NULL;
	}
	g->procs = procs;
	g->rank = MPI_UNDEFINED;
	for (r = 0; r < n; r++)
		if (procs[r] == hdl_job.rank)
			g->rank = r;
	return g;
}

static hdl_leaf leaf_none;

hdl_leaf *const *hdl_group_leaves(struct hdl_group *g)
{
	size_t n = ((size_t)g->size + HDL_LEAF - 1) / HDL_LEAF;

	if (!g->leaf && (g->leaf = malloc((n ? n : 1) * sizeof(*g->leaf))))
		for (size_t i = 0; i < n; i++)
			g->leaf[i] = &leaf_none;
	return g->leaf;
}

int hdl_group_meet(struct hdl_group *g, int rank, struct hdl_ep *ep)
{
	unsigned i = (unsigned)rank / HDL_LEAF, n = (unsigned)g->size - i * HDL_LEAF;

	if (g->leaf[i] == &leaf_none) {
		hdl_leaf *leaf = calloc(n < HDL_LEAF ? n : HDL_LEAF, sizeof(ep));

		if (!leaf)
			return -ENOMEM;
		g->leaf[i] = leaf;
	}
	(*g->leaf[i])[(unsigned)rank % HDL_LEAF] = ep;
	return 0;
}

/* Fibonacci hashing. */
static unsigned group_slot_of(const struct hdl_group *g, int proc)
{
	return (unsigned)proc * 0x9e3779b9u >> g->shift;
}

static bool make_hash(struct hdl_group *g)
{
	int bits = 33 - __builtin_clz((unsigned)g->size);	/* at most half full */
	unsigned n = 1u << bits, s;

	g->hash = malloc(n * sizeof(*g->hash));
	if (!g->hash)
		return false;
	g->shift = 32 - bits;
	for (s = 0; s < n; s++)
		g->hash[s] = -1;
	for (int r = 0; r < g->size; r++) {
		for (s = group_slot_of(g, g->procs[r]); g->hash[s] >= 0; s = (s + 1) & (n - 1))
			;
		g->hash[s] = r;
	}
	return true;
}

#define FEW 8		/* groups up to this size are searched linearly, which is faster than hashing */

int hdl_group_rank_of(struct hdl_group *g, int proc)
{
	unsigned mask;

	if (g->stride) {
		long long d = (long long)proc - g->first;

		return d % g->stride || d / g->stride < 0 || d / g->stride >= g->size ? MPI_UNDEFINED : (int)(d / g->stride);
	}
	if (g->size <= FEW || (!g->hash && !make_hash(g))) {
		for (int r = 0; r < g->size; r++)
			if (g->procs[r] == proc)
				return r;
		return MPI_UNDEFINED;
	}
	mask = (1u << (32 - g->shift)) - 1;
	for (unsigned s = group_slot_of(g, proc); g->hash[s] >= 0; s = (s + 1) & mask)
		if (g->procs[g->hash[s]] == proc)
			return g->hash[s];
	return MPI_UNDEFINED;
}

/* Looks at each rank of a table, and at both ends of a range: a range may begin in one job's numbers and end in another's. */
static bool is_of_job(const struct hdl_group *g, const struct hdl_other_job *job)
{
	for (int r = 0; r < g->size; r += g->stride && r < g->size - 1 ? g->size - 1 : 1)
		if (hdl_job_of(hdl_group_proc(g, r)) != job)
			return false;
	return true;
}

bool hdl_group_spans_jobs(const struct hdl_group *a, const struct hdl_group *b)
{
	const struct hdl_other_job *job = hdl_job_of(hdl_group_proc(a, 0));

	return !is_of_job(a, job) || !is_of_job(b, job);
}

static int group_node_of(const void *arg, int rank)
{
	return hdl_rt_node(hdl_group_proc(arg, rank));
}

int hdl_group_hosts(struct hdl_group *g, const struct hdl_hosts **out)
{
	int err = 0;

	if (!g->hosts_known && hdl_job.local && hdl_proc_is_ours(hdl_group_proc(g, 0)) && !hdl_group_spans_jobs(g, g))
		err = hdl_hosts_make(g->size, group_node_of, g, &g->hosts);
	g->hosts_known = !err;
	*out = g->hosts;
	return err;
}

bool hdl_group_is_world(const struct hdl_group *g)
{
	return g->stride == 1 && g->first == 0 && g->size == hdl_job.size;
}

int hdl_group_compare(struct hdl_group *a, struct hdl_group *b)
{
	int result = MPI_IDENT;

	if (a == b)
		return MPI_IDENT;
	if (a->size != b->size)
		return MPI_UNEQUAL;
	for (int r = 0; r < a->size; r++) {
		int other = hdl_group_rank_of(b, hdl_group_proc(a, r));

		if (other == MPI_UNDEFINED)
			return MPI_UNEQUAL;
		if (other != r)
			result = MPI_SIMILAR;
	}
	return result;
}

static void group_clear(struct hdl_group *g)
{
	for (unsigned i = 0; g->leaf && i < ((unsigned)g->size + HDL_LEAF - 1) / HDL_LEAF; i++)
		if (g->leaf[i] != &leaf_none)
			free(g->leaf[i]);
	free(g->leaf);
	free(g->procs);
	free(g->hash);
	free(g->hosts);
	if (g->session)
		hdl_session_release(g->session);
	g->session = NULL;
	g->hosts = NULL;
	g->hosts_known = false;
	g->procs = g->hash = NULL;
	g->leaf = NULL;
}

struct group_search {
	const struct hdl_ep *ep;
	bool found;
};

static void group_search(void *object, void *arg)
{
	const struct hdl_group *g = object;
	struct group_search *s = arg;
	unsigned n = (unsigned)g->size;

	for (unsigned i = 0; g->leaf && i * HDL_LEAF < n && !s->found; i++)
		for (unsigned k = 0; g->leaf[i] != &leaf_none && k < HDL_LEAF && i * HDL_LEAF + k < n; k++)
			s->found |= (*g->leaf[i])[k] == s->ep;
}

bool hdl_groups_have(const struct hdl_ep *ep)
{
	struct group_search s = { .ep = ep };

	hdl_pool_each_referenced(&hdl_groups, group_search, &s);
	return s.found;
}

struct group_range {
	int first, n;
	bool found;
};

static void group_in_range(void *object, void *arg)
{
	const struct hdl_group *g = object;
	struct group_range *s = arg;
	long long last = g->first + (long long)g->stride * (g->size - 1);

	if (g->stride > 0 && (last < s->first || g->first - s->first >= s->n))
		return;
	for (int r = 0; r < g->size && !s->found; r++) {
		int proc = hdl_group_proc(g, r);

		s->found = proc >= s->first && proc - s->first < s->n;
	}
}

bool hdl_groups_name(int first, int n)
{
	struct group_range s = { .first = first, .n = n };

	hdl_pool_each_referenced(&hdl_groups, group_in_range, &s);
	return s.found;
}

void hdl_group_release(struct hdl_group *g)
{
	if (--g->obj.refs)
		return;
	group_clear(g);
	hdl_pool_put(&hdl_groups, g);
}

void hdl_group_open(struct hdl_group *g)
{
	g->handles++;
	g->obj.magic = HDL_MAGIC_GROUP;
}

void hdl_group_close(struct hdl_group *g)
{
	if (!--g->handles)
		g->obj.magic = 0;
	hdl_group_release(g);
}

static void group_lost(void *object, void *arg)
{
	(void)arg;
	group_clear(object);
}

/* Must be called after the last communicator is freed. Frees the groups that the program did not free. */
void hdl_group_fini(void)
{
	hdl_pool_each(&hdl_groups, group_lost, NULL);
	hdl_pool_fini(&hdl_groups);
}
