/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups (MPI-5.0 section 7.3). An empty result is MPI_GROUP_EMPTY. */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <stdlib.h>

/* ---- arguments and results ----------------------------------------------------------------------------- */

int hdl_bad_group(struct hdl_comm *comm, const char *call, const char *arg, MPI_Group handle)
{
	hdl_not_active(call);
	if (handle == MPI_GROUP_NULL)
		return hdl_raise(comm, MPI_ERR_GROUP, call, "invalid %s: MPI_GROUP_NULL", arg);
	return hdl_raise(comm, MPI_ERR_GROUP, call, "invalid %s: handle %p is no group, or was freed", arg, (void *)handle);
}

int hdl_group_return(const char *call, struct hdl_group *g, MPI_Group *newgroup)
{
	if (!g)
		return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory for a group");
	if (g == &hdl_group_empty) {
		hdl_group_release(g);
		*newgroup = MPI_GROUP_EMPTY;
		return MPI_SUCCESS;
	}
	hdl_group_open(g);
	*newgroup = (MPI_Group)g;
	return MPI_SUCCESS;
}

/* Returns hdl_group_return of a group that was made from other groups. */
static int group_derived(const char *call, struct hdl_group *g, struct hdl_session *session, MPI_Group *newgroup)
{
	if (g)
		hdl_group_derive(g, session);
	return hdl_group_return(call, g, newgroup);
}

static int bad_rank(const char *call, const char *arg, int index, int rank, const struct hdl_group *g)
{
	return hdl_raise(NULL, MPI_ERR_RANK, call, "invalid %s[%d] %d: the group has %d rank%s%s", arg, index, rank, g->size,
			 g->size == 1 ? "" : "s", g->size ? " from 0 on" : "");
}

/* Checks the handle and the pointer for the result. */
static int check_one(const char *call, MPI_Group group, const void *out, const char *out_arg)
{
	hdl_check_active(call);
	if (!hdl_group_get(group))
		return hdl_bad_group(NULL, call, "group", group);
	return out ? MPI_SUCCESS : hdl_null_arg(NULL, call, out_arg);
}

static int check_two(const char *call, MPI_Group group1, MPI_Group group2, const void *out, const char *out_arg)
{
	hdl_check_active(call);
	if (!hdl_group_get(group1))
		return hdl_bad_group(NULL, call, "group1", group1);
	if (!hdl_group_get(group2))
		return hdl_bad_group(NULL, call, "group2", group2);
	return out ? MPI_SUCCESS : hdl_null_arg(NULL, call, out_arg);
}

static int group_no_memory(const char *call, size_t bytes)
{
	return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory: %zu bytes for a group", bytes);
}

/* ---- accessors ----------------------------------------------------------------------------------------- */

int PMPI_Group_size(MPI_Group group, int *size)
{
	HDL_NO_LOCK;
	int rc = check_one("MPI_Group_size", group, size, "size");

	if (!rc)
		*size = hdl_group_get(group)->size;
	return rc;
}
HDL_PROFILED(Group_size);

int PMPI_Group_rank(MPI_Group group, int *rank)
{
	HDL_NO_LOCK;
	int rc = check_one("MPI_Group_rank", group, rank, "rank");

	if (!rc)
		*rank = hdl_group_get(group)->rank;
	return rc;
}
HDL_PROFILED(Group_rank);

int PMPI_Group_translate_ranks(MPI_Group group1, int n, const int ranks1[], MPI_Group group2, int ranks2[])
{
	HDL_LOCKED;
	static const char call[] = "MPI_Group_translate_ranks";
	struct hdl_group *a = hdl_group_get(group1), *b = hdl_group_get(group2);
	int rc = check_two(call, group1, group2, call, "");

	if (rc)
		return rc;
	if (n < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid n %d: it must not be negative", n);
	if (n && (!ranks1 || !ranks2))
		return hdl_null_arg(NULL, call, ranks1 ? "ranks2" : "ranks1");
	for (int i = 0; i < n; i++)
		if (ranks1[i] != MPI_PROC_NULL && (ranks1[i] < 0 || ranks1[i] >= a->size))
			return bad_rank(call, "ranks1", i, ranks1[i], a);
	for (int i = 0; i < n; i++)
		ranks2[i] = ranks1[i] == MPI_PROC_NULL ? MPI_PROC_NULL :
			    hdl_group_rank_of(b, hdl_group_proc(a, ranks1[i]));
	return MPI_SUCCESS;
}
HDL_PROFILED(Group_translate_ranks);

int PMPI_Group_compare(MPI_Group group1, MPI_Group group2, int *result)
{
	HDL_LOCKED;
	int rc = check_two("MPI_Group_compare", group1, group2, result, "result");

	if (!rc)
		*result = hdl_group_compare(hdl_group_get(group1), hdl_group_get(group2));
	return rc;
}
HDL_PROFILED(Group_compare);

/* ---- set operations: in the order of the first group, then of the second -------------------------------------- */

enum set { UNION, INTERSECTION, DIFFERENCE };

static int set_operation(const char *call, enum set what, MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
	struct hdl_group *a = hdl_group_get(group1), *b = hdl_group_get(group2);
	int rc = check_two(call, group1, group2, newgroup, "newgroup"), *procs, n = 0;
	size_t bytes;

	if (rc)
		return rc;
	bytes = ((size_t)a->size + (what == UNION ? (size_t)b->size : 0) + 1) * sizeof(*procs);
	procs = malloc(bytes);
	if (!procs)
		return group_no_memory(call, bytes);
	for (int r = 0; r < a->size; r++) {
		int w = hdl_group_proc(a, r);

		if (what == UNION || (hdl_group_rank_of(b, w) == MPI_UNDEFINED) == (what == DIFFERENCE))
			procs[n++] = w;
	}
	for (int r = 0; what == UNION && r < b->size; r++) {
		int w = hdl_group_proc(b, r);

		if (hdl_group_rank_of(a, w) == MPI_UNDEFINED)
			procs[n++] = w;
	}
	return group_derived(call, hdl_group_table(procs, n), a->session ? a->session : b->session, newgroup);
}

int PMPI_Group_union(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return set_operation("MPI_Group_union", UNION, group1, group2, newgroup);
}
HDL_PROFILED(Group_union);

int PMPI_Group_intersection(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return set_operation("MPI_Group_intersection", INTERSECTION, group1, group2, newgroup);
}
HDL_PROFILED(Group_intersection);

int PMPI_Group_difference(MPI_Group group1, MPI_Group group2, MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return set_operation("MPI_Group_difference", DIFFERENCE, group1, group2, newgroup);
}
HDL_PROFILED(Group_difference);

/* ---- selections ---------------------------------------------------------------------------------------- */

/* Ranges of ranks: single ranks are ranges of one. */
struct selection {
	const char *call, *arg;
	const struct hdl_group *g;
	int n;
	const int *ranks;		/* or NULL: then ranges */
	const int (*ranges)[3];
};

static void range_at(const struct selection *s, int i, int *first, int *last, int *stride)
{
	*first = s->ranges ? s->ranges[i][0] : s->ranks[i];
	*last = s->ranges ? s->ranges[i][1] : *first;
	*stride = s->ranges ? s->ranges[i][2] : 1;
}

/* Checks that both ends of each range are ranks (the last one as the stride reaches it). *total: ranks of all ranges together. */
static int check_ranges(const struct selection *s, long long *total)
{
	int first, last, stride;

	*total = 0;
	for (int i = 0; i < s->n; i++) {
		range_at(s, i, &first, &last, &stride);
		if (!stride)
			return hdl_raise(NULL, MPI_ERR_ARG, s->call, "invalid ranges[%d] (%d, %d, 0): the stride is 0", i,
					 first, last);
		/* a range is empty if its stride leads away from its end */
		if (stride > 0 ? first > last : first < last)
			return hdl_raise(NULL, MPI_ERR_ARG, s->call,
					 "invalid ranges[%d] (%d, %d, %d): the stride leads away from "
					 "the last rank",
					 i, first, last, stride);
		last = (int)(first + ((long long)last - first) / stride * stride);
		if (first < 0 || first >= s->g->size)
			return bad_rank(s->call, s->arg, i, first, s->g);
		if (last < 0 || last >= s->g->size)
			return bad_rank(s->call, s->arg, i, last, s->g);
		*total += ((long long)last - first) / stride + 1;
	}
	return MPI_SUCCESS;
}

/* Marks the selected ranks in `chosen`. order, if not NULL, gets them in their order. Refuses a rank that is named twice. */
static int group_mark(const struct selection *s, bool *chosen, int *order)
{
	int first, last, stride, k = 0;

	for (int i = 0; i < s->n; i++) {
		range_at(s, i, &first, &last, &stride);
		for (long long r = first; stride > 0 ? r <= last : r >= last; r += stride) {
			if (chosen[r])
				return hdl_raise(NULL, MPI_ERR_RANK, s->call, "invalid %s[%d]: rank %lld is named a second time",
						 s->arg, i, r);
			chosen[r] = true;
			if (order)
				order[k++] = hdl_group_proc(s->g, (int)r);
		}
	}
	return MPI_SUCCESS;
}

static int group_complement(const struct hdl_group *g, const bool *chosen, int *procs)
{
	int k = 0;

	for (int r = 0; r < g->size; r++)
		if (!chosen[r])
			procs[k++] = hdl_group_proc(g, r);
	return k;
}

static int select_ranks(const struct selection *s, bool exclude, MPI_Group *newgroup)
{
	long long total;
	bool *chosen;
	int rc = check_ranges(s, &total), *procs, n = (int)total;

	if (rc)
		return rc;
	if (total > s->g->size)		/* some rank is named twice: find it before `order` overflows */
		n = s->g->size;
	chosen = calloc((size_t)s->g->size + 1, sizeof(*chosen));
	procs = malloc(((size_t)s->g->size + 1) * sizeof(*procs));
	if (!chosen || !procs) {
		rc = group_no_memory(s->call, (size_t)s->g->size * (sizeof(*chosen) + sizeof(*procs)));
		goto fail;
	}
	rc = group_mark(s, chosen, exclude ? NULL : procs);
	if (rc)
		goto fail;
	if (exclude)
		n = group_complement(s->g, chosen, procs);
	free(chosen);
	return group_derived(s->call, hdl_group_table(procs, n), s->g->session, newgroup);
fail:
	free(chosen);
	free(procs);
	return rc;
}

static int check_selection(const char *call, MPI_Group group, int n, const void *list, const char *arg,
			   const MPI_Group *newgroup)
{
	int rc = check_one(call, group, newgroup, "newgroup");

	if (rc)
		return rc;
	if (n < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid n %d: it must not be negative", n);
	return n && !list ? hdl_null_arg(NULL, call, arg) : MPI_SUCCESS;
}

static int select_list(const char *call, MPI_Group group, int n, const int *ranks, bool exclude, MPI_Group *newgroup)
{
	struct selection s = { call, "ranks", hdl_group_get(group), n, ranks, NULL };
	int rc = check_selection(call, group, n, ranks, "ranks", newgroup);

	return rc ? rc : select_ranks(&s, exclude, newgroup);
}

static int select_range(const char *call, MPI_Group group, int n, int ranges[][3], bool exclude, MPI_Group *newgroup)
{
	struct selection s = { call, "ranges", hdl_group_get(group), n, NULL, (const int (*)[3])ranges };
	int rc = check_selection(call, group, n, ranges, "ranges", newgroup);

	return rc ? rc : select_ranks(&s, exclude, newgroup);
}

int PMPI_Group_incl(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return select_list("MPI_Group_incl", group, n, ranks, false, newgroup);
}
HDL_PROFILED(Group_incl);

int PMPI_Group_excl(MPI_Group group, int n, const int ranks[], MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return select_list("MPI_Group_excl", group, n, ranks, true, newgroup);
}
HDL_PROFILED(Group_excl);

int PMPI_Group_range_incl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return select_range("MPI_Group_range_incl", group, n, ranges, false, newgroup);
}
HDL_PROFILED(Group_range_incl);

int PMPI_Group_range_excl(MPI_Group group, int n, int ranges[][3], MPI_Group *newgroup)
{
	HDL_LOCKED;
	HDL_GIVES(newgroup);
	return select_range("MPI_Group_range_excl", group, n, ranges, true, newgroup);
}
HDL_PROFILED(Group_range_excl);

int PMPI_Group_free(MPI_Group *group)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Group_free";
	struct hdl_group *g;

	hdl_check_active(call);
	if (!group)
		return hdl_null_arg(NULL, call, "group");
	g = hdl_group_get(*group);
	if (!g)
		return hdl_bad_group(NULL, call, "group", *group);
	if (g != &hdl_group_empty)
		hdl_group_close(g);
	*group = MPI_GROUP_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Group_free);
