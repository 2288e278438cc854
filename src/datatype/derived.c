/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes: constructors and bounds (MPI-5.0 sections 5.1.2, 5.1.7). */
#include "datatype/datatype.h"

#include <stdlib.h>
#include <string.h>

/* lb and ub of n copies of [*lb, *ub), each `stride` bytes after the one before. */
static bool bounds_repeat(MPI_Aint *lb, MPI_Aint *ub, MPI_Count n, MPI_Aint stride)
{
	MPI_Aint last;

	if (__builtin_mul_overflow(n - 1, stride, &last))
		return false;
	return !__builtin_add_overflow(last < 0 ? last : 0, *lb, lb) &&
	       !__builtin_add_overflow(last > 0 ? last : 0, *ub, ub);
}

/* Puts one more loop around t. */
static bool loop_around(struct hdl_type *t, MPI_Count count, MPI_Aint stride)
{
	MPI_Aint ub = t->lb + t->extent, true_ub = t->true_lb + t->true_extent;
	MPI_Count inner = t->size;

	if (__builtin_mul_overflow(t->size, count, &t->size) || !bounds_repeat(&t->lb, &ub, count, stride) ||
	    !bounds_repeat(&t->true_lb, &true_ub, count, stride) || __builtin_sub_overflow(ub, t->lb, &t->extent) ||
	    __builtin_sub_overflow(true_ub, t->true_lb, &t->true_extent))
		return false;
	if (count == 1)
		return true;
	if (t->nloops == 0 && t->nruns == 1 && stride == t->run[0].bytes) {
		t->run[0].bytes *= count;	/* the copies abut: a longer run */
		return true;
	}
	if (t->nloops > 0 && stride == t->loop[0].count * t->loop[0].stride) {
		t->loop[0].count *= count;	/* continues the loop within */
		return true;
	}
	memmove(t->loop + 1, t->loop, t->nloops * sizeof(*t->loop));
	t->loop[0] = (struct hdl_type_loop){ .count = count, .stride = stride, .bytes = inner };
	t->nloops++;
	return true;
}

/* A copy of old, not committed, with room for two more loops. */
static struct hdl_type *type_copy(const struct hdl_type *old)
{
	struct hdl_type *t = malloc(sizeof(*t) + (old->nloops + 2) * sizeof(*t->loop));

	if (!t)
		return NULL;
	*t = *old;
	t->obj.refs = 1;
	t->committed = t->predefined = false;
	t->name = NULL;
	t->loop = (struct hdl_type_loop *)(t + 1);
	if (old->nloops)
		memcpy(t->loop, old->loop, old->nloops * sizeof(*t->loop));
	return t;
}

int hdl_type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, const struct hdl_type *old,
		    struct hdl_type **out)
{
	struct hdl_type *t = type_copy(old);
	MPI_Aint bytes;

	if (!t)
		return MPI_ERR_NO_MEM;
	if (!count || !blocklength || !old->size) {
		/* An empty type map has no bounds but 0 (section 5.1.7). An empty base keeps its own: nothing moves. */
		if (!count || !blocklength)
			t->lb = t->extent = t->true_lb = t->true_extent = 0;
		t->size = 0;
		t->nloops = 0;
		t->nruns = 1;
		t->run[0] = (struct hdl_type_run){ 0, 0 };
	} else if (__builtin_mul_overflow(stride, old->extent, &bytes) ||
		   !loop_around(t, blocklength, old->extent) || !loop_around(t, count, bytes)) {
		free(t);
		return MPI_ERR_VALUE_TOO_LARGE;
	}
	t->one_run = t->nloops == 0 && t->nruns == 1;
	t->contiguous = !t->size || (t->one_run && t->size == t->extent && !t->lb);
	*out = t;
	return MPI_SUCCESS;
}

int hdl_type_contiguous(MPI_Count count, const struct hdl_type *old, struct hdl_type **out)
{
	return hdl_type_vector(1, count, count, old, out);
}

void hdl_type_commit(struct hdl_type *t)
{
	t->committed = true;
}

void hdl_type_retain(struct hdl_type *t)
{
	if (!t->predefined)
		t->obj.refs++;
}

void hdl_type_release(struct hdl_type *t)
{
	if (t->predefined || --t->obj.refs)
		return;
	t->obj.magic = 0;	/* a handle used after this is told apart as long as the memory is not reused */
	free(t);
}

MPI_Count hdl_type_elements(const struct hdl_type *t, MPI_Count bytes)
{
	MPI_Count leaf = 0, n;

	for (int i = 0; i < t->nelems; i++)
		leaf += t->elem_bytes[i];
	n = bytes / leaf * t->nelems;
	bytes %= leaf;
	for (int i = 0; bytes > 0; i++) {
		bytes -= t->elem_bytes[i];
		n++;
	}
	return bytes ? MPI_UNDEFINED : n;
}
