/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes (MPI-5.0 chapter 5): constructors. type.c has queries, pack.c packing. */
#include "mpi/mpi_internal.h"

#include <limits.h>
#include <string.h>

/* An array argument of either form: of int, or of 64-bit integers (MPI_Count, MPI_Aint). */
struct numbers {
	const char *name;
	const void *of;
	bool wide;
};
#define INTS(array)	((struct numbers){ #array, array, false })
#define WIDE(array)	((struct numbers){ #array, array, true })

_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "an address is a count");

static inline MPI_Count datatype_number(const struct numbers *a, MPI_Count i)
{
	return a->wide ? ((const MPI_Count *)a->of)[i] : ((const int *)a->of)[i];
}

/* Copies n entries to the arguments of a type. Returns the end of the copy. */
static MPI_Count *datatype_put(MPI_Count *to, const struct numbers *a, MPI_Count n)
{
	if (a->wide && n)
		memcpy(to, a->of, (size_t)n * sizeof(*to));
	else
		for (MPI_Count i = 0; i < n; i++)
			to[i] = datatype_number(a, i);
	return to + n;
}

static cold int bad_entry(const char *call, const char *name, MPI_Count i, MPI_Count value, const char *why)
{
	return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid %s[%lld] %lld: %s", name, (long long)i, (long long)value, why);
}

/* Checks that arrays are not NULL, and lengths not negative. */
static int datatype_check_array(const char *call, const struct numbers *a, MPI_Count n)
{
	return n && !a->of ? hdl_null_arg(NULL, call, a->name) : MPI_SUCCESS;
}

static int check_lengths(const char *call, const struct numbers *a, MPI_Count n)
{
	int rc = datatype_check_array(call, a, n);

	for (MPI_Count i = 0; !rc && i < n; i++)
		if (unlikely(datatype_number(a, i) < 0))
			rc = bad_entry(call, a->name, i, datatype_number(a, i), "it must not be negative");
	return rc;
}

static int check_blocklength(const char *call, MPI_Count blocklength)
{
	return blocklength >= 0 ? MPI_SUCCESS :
	       hdl_raise(NULL, MPI_ERR_ARG, call, "invalid blocklength %lld: it must not be negative",
			 (long long)blocklength);
}

/* Checks of all constructors: old types must be valid, but need not be committed. */
static int check_old(const char *call, const MPI_Datatype *old, MPI_Count n, const char *name, const MPI_Datatype *newtype)
{
	char entry[48];

	hdl_check_active(call);
	for (MPI_Count i = 0; old && i < n; i++)
		if (unlikely(!hdl_type_get(old[i]))) {
			snprintf(entry, sizeof(entry), "%s[%lld]", name, (long long)i);
			return hdl_bad_type(NULL, call, name[0] == 'a' ? entry : name, old[i]);
		}
	return newtype ? MPI_SUCCESS : hdl_null_arg(NULL, call, "newtype");
}

/* Makes a type with space for its arguments and its old types. */
static struct hdl_type *datatype_begin(const char *call, int combiner, bool large, MPI_Count nargs, const MPI_Datatype *old,
			      MPI_Count nold, int *rc)
{
	struct hdl_type *t = hdl_type_new(combiner, large, nargs, nold);

	if (!t) {
		*rc = hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
		return NULL;
	}
	for (MPI_Count i = 0; i < nold; i++)
		t->types[i] = hdl_type_get(old[i]);
	return t;
}

static int datatype_finish(const char *call, struct hdl_type *t, MPI_Datatype *newtype)
{
	int rc = hdl_type_finish(t);

	if (rc)
		return hdl_raise(NULL, rc, call, "the new datatype's size or extent does not fit 63 bits");
	*newtype = hdl_type_handle(t);
	return MPI_SUCCESS;
}

/* ---- of single numbers --------------------------------------------------------------------------------------------- */

static int contiguous(const char *call, bool large, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	struct hdl_type *t;
	int rc = check_old(call, &oldtype, 1, "oldtype", newtype);

	if (rc)
		return rc;
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	t = datatype_begin(call, MPI_COMBINER_CONTIGUOUS, large, 1, &oldtype, 1, &rc);
	if (!t)
		return rc;
	t->args[0] = count;
	return datatype_finish(call, t, newtype);
}

#define FORM(_c, Count, large)											\
int PMPI_Type_contiguous##_c(Count count, MPI_Datatype oldtype, MPI_Datatype *newtype)				\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return contiguous("MPI_Type_contiguous" #_c, large, count, oldtype, newtype);				\
}														\
HDL_PROFILED(Type_contiguous##_c);

FORM(, int, false)
FORM(_c, MPI_Count, true)
#undef FORM

static int vector(const char *call, int combiner, bool large, MPI_Count count, MPI_Count blocklength, MPI_Count stride,
		  MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	struct hdl_type *t;
	int rc = check_old(call, &oldtype, 1, "oldtype", newtype);

	if (rc)
		return rc;
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	rc = check_blocklength(call, blocklength);
	if (rc)
		return rc;
	t = datatype_begin(call, combiner, large, 3, &oldtype, 1, &rc);
	if (!t)
		return rc;
	t->args[0] = count;
	t->args[1] = blocklength;
	t->args[2] = stride;
	return datatype_finish(call, t, newtype);
}

#define FORM(_c, Count, Disp, large)										\
int PMPI_Type_vector##_c(Count count, Count blocklength, Count stride, MPI_Datatype oldtype,			\
			 MPI_Datatype *newtype)									\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return vector("MPI_Type_vector" #_c, MPI_COMBINER_VECTOR, large, count, blocklength, stride, oldtype, newtype);	\
}														\
HDL_PROFILED(Type_vector##_c);											\
														\
int PMPI_Type_create_hvector##_c(Count count, Count blocklength, Disp stride, MPI_Datatype oldtype,		\
				 MPI_Datatype *newtype)								\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return vector("MPI_Type_create_hvector" #_c, MPI_COMBINER_HVECTOR, large, count, blocklength, stride, oldtype, newtype); \
}														\
HDL_PROFILED(Type_create_hvector##_c);

FORM(, int, MPI_Aint, false)
FORM(_c, MPI_Count, MPI_Count, true)
#undef FORM

static int resized(const char *call, bool large, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent,
		   MPI_Datatype *newtype)
{
	struct hdl_type *t;
	int rc = check_old(call, &oldtype, 1, "oldtype", newtype);

	if (rc)
		return rc;
	t = datatype_begin(call, MPI_COMBINER_RESIZED, large, 2, &oldtype, 1, &rc);
	if (!t)
		return rc;
	t->args[0] = lb;
	t->args[1] = extent;
	return datatype_finish(call, t, newtype);
}

#define FORM(_c, Disp, large)											\
int PMPI_Type_create_resized##_c(MPI_Datatype oldtype, Disp lb, Disp extent, MPI_Datatype *newtype)		\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return resized("MPI_Type_create_resized" #_c, large, oldtype, lb, extent, newtype);			\
}														\
HDL_PROFILED(Type_create_resized##_c);

FORM(, MPI_Aint, false)
FORM(_c, MPI_Count, true)
#undef FORM

/* ---- of blocks ----------------------------------------------------------------------------------------------------- */

/* Blocks at displacements, with lengths of their own; or, if lengths is NULL, with a common length. */
struct blocks {
	int combiner;
	bool large;
	MPI_Count count, blocklength;
	const struct numbers *lengths;
	struct numbers displacements;
	const MPI_Datatype *old;
	MPI_Count nold;
	const char *old_name;
};

static int blocks(const char *call, const struct blocks *b, MPI_Datatype *newtype)
{
	struct hdl_type *t;
	MPI_Count *arg;
	int rc;

	if (b->count < 0) {
		hdl_check_active(call);
		return hdl_bad_count(NULL, call, "count", b->count);
	}
	rc = check_old(call, b->old, b->nold, b->old_name, newtype);
	if (!rc)
		rc = datatype_check_array(call, &b->displacements, b->count);
	if (!rc)
		rc = b->lengths ? check_lengths(call, b->lengths, b->count) : check_blocklength(call, b->blocklength);
	if (!rc && b->nold && !b->old)
		rc = hdl_null_arg(NULL, call, b->old_name);
	if (rc)
		return rc;
	t = datatype_begin(call, b->combiner, b->large, 1 + (b->lengths ? b->count : 1) + b->count, b->old, b->nold, &rc);
	if (!t)
		return rc;
	arg = t->args;
	*arg++ = b->count;
	if (b->lengths)
		arg = datatype_put(arg, b->lengths, b->count);
	else
		*arg++ = b->blocklength;
	datatype_put(arg, &b->displacements, b->count);
	return datatype_finish(call, t, newtype);
}

static int indexed(const char *call, int combiner, bool large, MPI_Count count, struct numbers lengths,
		   struct numbers displacements, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	return blocks(call, &(struct blocks){ .combiner = combiner, .large = large, .count = count, .lengths = &lengths,
					      .displacements = displacements, .old = &oldtype, .nold = 1,
					      .old_name = "oldtype" }, newtype);
}

static int indexed_block(const char *call, int combiner, bool large, MPI_Count count, MPI_Count blocklength,
			 struct numbers displacements, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	return blocks(call, &(struct blocks){ .combiner = combiner, .large = large, .count = count,
					      .blocklength = blocklength, .displacements = displacements, .old = &oldtype,
					      .nold = 1, .old_name = "oldtype" }, newtype);
}

#define FORM(_c, Count, Disp, large, NUMBERS)									\
int PMPI_Type_indexed##_c(Count count, const Count array_of_blocklengths[],					\
			  const Count array_of_displacements[], MPI_Datatype oldtype, MPI_Datatype *newtype)	\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return indexed("MPI_Type_indexed" #_c, MPI_COMBINER_INDEXED, large, count, NUMBERS(array_of_blocklengths),	\
		       NUMBERS(array_of_displacements), oldtype, newtype);					\
}														\
HDL_PROFILED(Type_indexed##_c);											\
														\
int PMPI_Type_create_hindexed##_c(Count count, const Count array_of_blocklengths[],				\
				  const Disp array_of_displacements[], MPI_Datatype oldtype,			\
				  MPI_Datatype *newtype)							\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return indexed("MPI_Type_create_hindexed" #_c, MPI_COMBINER_HINDEXED, large, count, NUMBERS(array_of_blocklengths),	\
		       WIDE(array_of_displacements), oldtype, newtype);						\
}														\
HDL_PROFILED(Type_create_hindexed##_c);										\
														\
int PMPI_Type_create_indexed_block##_c(Count count, Count blocklength, const Count array_of_displacements[],	\
				       MPI_Datatype oldtype, MPI_Datatype *newtype)				\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return indexed_block("MPI_Type_create_indexed_block" #_c, MPI_COMBINER_INDEXED_BLOCK, large, count, blocklength,	\
			     NUMBERS(array_of_displacements), oldtype, newtype);				\
}														\
HDL_PROFILED(Type_create_indexed_block##_c);									\
														\
int PMPI_Type_create_hindexed_block##_c(Count count, Count blocklength, const Disp array_of_displacements[],	\
					MPI_Datatype oldtype, MPI_Datatype *newtype)				\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return indexed_block("MPI_Type_create_hindexed_block" #_c, MPI_COMBINER_HINDEXED_BLOCK, large, count, blocklength,	\
			     WIDE(array_of_displacements), oldtype, newtype);					\
}														\
HDL_PROFILED(Type_create_hindexed_block##_c);

FORM(, int, MPI_Aint, false, INTS)
FORM(_c, MPI_Count, MPI_Count, true, WIDE)
#undef FORM

static int structure(const char *call, bool large, MPI_Count count, struct numbers lengths, struct numbers displacements,
		     const MPI_Datatype *types, MPI_Datatype *newtype)
{
	return blocks(call, &(struct blocks){ .combiner = MPI_COMBINER_STRUCT, .large = large, .count = count,
					      .lengths = &lengths, .displacements = displacements, .old = types,
					      .nold = count, .old_name = "array_of_types" }, newtype);
}

#define FORM(_c, Count, Disp, large, NUMBERS)									\
int PMPI_Type_create_struct##_c(Count count, const Count array_of_blocklengths[],				\
				const Disp array_of_displacements[], const MPI_Datatype array_of_types[],	\
				MPI_Datatype *newtype)								\
{														\
	HDL_LOCKED;												\
	int rc = structure("MPI_Type_create_struct" #_c, large, count, NUMBERS(array_of_blocklengths),		\
			   WIDE(array_of_displacements), array_of_types, newtype);				\
														\
	if (rc)		/* after the call, since newtype may point into array_of_types */					\
		HDL_GIVES(newtype);										\
	return rc;												\
}														\
HDL_PROFILED(Type_create_struct##_c);

FORM(, int, MPI_Aint, false, INTS)
FORM(_c, MPI_Count, MPI_Count, true, WIDE)
#undef FORM

/* ---- of arrays ----------------------------------------------------------------------------------------------------- */

static int type_check_order(const char *call, int order)
{
	return order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN ? MPI_SUCCESS :
	       hdl_raise(NULL, MPI_ERR_ARG, call, "invalid order %d: it is MPI_ORDER_C (%d) or MPI_ORDER_FORTRAN (%d)", order,
			 MPI_ORDER_C, MPI_ORDER_FORTRAN);
}

static int check_ndims(const char *call, int ndims)
{
	return ndims > 0 ? MPI_SUCCESS : hdl_raise(NULL, MPI_ERR_DIMS, call, "invalid ndims %d: it must be positive", ndims);
}

static int type_check_sizes(const char *call, const struct numbers *a, int ndims)
{
	int rc = datatype_check_array(call, a, ndims);

	for (int i = 0; !rc && i < ndims; i++)
		if (datatype_number(a, i) < 1)
			rc = bad_entry(call, a->name, i, datatype_number(a, i), "it must be positive");
	return rc;
}

static int check_subarray(const char *call, int ndims, const struct numbers *sizes, const struct numbers *subsizes,
			  const struct numbers *starts, int order)
{
	int rc = check_ndims(call, ndims);

	if (!rc)
		rc = type_check_sizes(call, sizes, ndims);
	if (!rc)
		rc = type_check_sizes(call, subsizes, ndims);
	if (!rc)
		rc = datatype_check_array(call, starts, ndims);
	for (int i = 0; !rc && i < ndims; i++)
		if (datatype_number(subsizes, i) > datatype_number(sizes, i))
			rc = bad_entry(call, subsizes->name, i, datatype_number(subsizes, i),
				       "it is larger than the array's size there");
		else if (datatype_number(starts, i) < 0 ||
			 datatype_number(starts, i) > datatype_number(sizes, i) - datatype_number(subsizes, i))
			rc = bad_entry(call, starts->name, i, datatype_number(starts, i),
				       "the subarray would not lie within the array");
	return rc ? rc : type_check_order(call, order);
}

static int subarray(const char *call, bool large, int ndims, struct numbers sizes, struct numbers subsizes,
		    struct numbers starts, int order, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	struct hdl_type *t;
	MPI_Count *arg;
	int rc = check_old(call, &oldtype, 1, "oldtype", newtype);

	if (!rc)
		rc = check_subarray(call, ndims, &sizes, &subsizes, &starts, order);
	if (rc)
		return rc;
	t = datatype_begin(call, MPI_COMBINER_SUBARRAY, large, 2 + 3 * (MPI_Count)ndims, &oldtype, 1, &rc);
	if (!t)
		return rc;
	arg = t->args;
	*arg++ = ndims;
	arg = datatype_put(arg, &sizes, ndims);
	arg = datatype_put(arg, &subsizes, ndims);
	arg = datatype_put(arg, &starts, ndims);
	*arg = order;
	return datatype_finish(call, t, newtype);
}

#define FORM(_c, Count, large, NUMBERS)										\
int PMPI_Type_create_subarray##_c(int ndims, const Count array_of_sizes[], const Count array_of_subsizes[],	\
				  const Count array_of_starts[], int order, MPI_Datatype oldtype,		\
				  MPI_Datatype *newtype)							\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return subarray("MPI_Type_create_subarray" #_c, large, ndims, NUMBERS(array_of_sizes), NUMBERS(array_of_subsizes),	\
			NUMBERS(array_of_starts), order, oldtype, newtype);					\
}														\
HDL_PROFILED(Type_create_subarray##_c);

FORM(, int, false, INTS)
FORM(_c, MPI_Count, true, WIDE)
#undef FORM

/* Sets up one dimension of a distributed array. */
static int check_distribution(const char *call, int i, MPI_Count gsize, int distrib, int darg, int psize)
{
	MPI_Count reach;

	if (distrib != MPI_DISTRIBUTE_NONE && distrib != MPI_DISTRIBUTE_BLOCK && distrib != MPI_DISTRIBUTE_CYCLIC)
		return bad_entry(call, "array_of_distribs", i, distrib,
				 "it is MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC or MPI_DISTRIBUTE_NONE");
	if (distrib == MPI_DISTRIBUTE_NONE && psize != 1)
		return bad_entry(call, "array_of_psizes", i, psize, "a dimension that is not distributed has one process");
	if (darg == MPI_DISTRIBUTE_DFLT_DARG)
		return MPI_SUCCESS;
	if (distrib != MPI_DISTRIBUTE_NONE && darg < 1)
		return bad_entry(call, "array_of_dargs", i, darg, "it must be positive, or MPI_DISTRIBUTE_DFLT_DARG");
	if (distrib == MPI_DISTRIBUTE_BLOCK && !__builtin_mul_overflow((MPI_Count)darg, psize, &reach) && reach < gsize)
		return bad_entry(call, "array_of_dargs", i, darg, "blocks of this size do not hold the array");
	return MPI_SUCCESS;
}

static int check_darray(const char *call, int size, int rank, int ndims, const struct numbers *gsizes,
			const struct numbers *distribs, const struct numbers *dargs, const struct numbers *psizes, int order)
{
	long long processes = 1;
	int rc = check_ndims(call, ndims);

	if (!rc)
		rc = type_check_sizes(call, gsizes, ndims);
	if (!rc)
		rc = datatype_check_array(call, distribs, ndims);
	if (!rc)
		rc = datatype_check_array(call, dargs, ndims);
	if (!rc)
		rc = type_check_sizes(call, psizes, ndims);
	for (int i = 0; !rc && i < ndims; i++) {
		rc = check_distribution(call, i, datatype_number(gsizes, i), (int)datatype_number(distribs, i),
					(int)datatype_number(dargs, i), (int)datatype_number(psizes, i));
		processes = processes > INT_MAX ? processes : processes * datatype_number(psizes, i);
	}
	if (rc)
		return rc;
	if (size < 1 || processes != size)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid size %d: array_of_psizes makes %s%lld processes", size,
				 processes > INT_MAX ? "at least " : "", processes);
	if (rank < 0 || rank >= size)
		return hdl_raise(NULL, MPI_ERR_RANK, call, "invalid rank %d: there are %d processes (0..%d)", rank, size,
				 size - 1);
	return type_check_order(call, order);
}

static int darray(const char *call, bool large, int size, int rank, int ndims, struct numbers gsizes,
		  struct numbers distribs, struct numbers dargs, struct numbers psizes, int order, MPI_Datatype oldtype,
		  MPI_Datatype *newtype)
{
	struct hdl_type *t;
	MPI_Count *arg;
	int rc = check_old(call, &oldtype, 1, "oldtype", newtype);

	if (!rc)
		rc = check_darray(call, size, rank, ndims, &gsizes, &distribs, &dargs, &psizes, order);
	if (rc)
		return rc;
	t = datatype_begin(call, MPI_COMBINER_DARRAY, large, 4 + 4 * (MPI_Count)ndims, &oldtype, 1, &rc);
	if (!t)
		return rc;
	arg = t->args;
	*arg++ = size;
	*arg++ = rank;
	*arg++ = ndims;
	arg = datatype_put(arg, &gsizes, ndims);
	arg = datatype_put(arg, &distribs, ndims);
	arg = datatype_put(arg, &dargs, ndims);
	arg = datatype_put(arg, &psizes, ndims);
	*arg = order;
	return datatype_finish(call, t, newtype);
}

#define FORM(_c, Count, large, NUMBERS)										\
int PMPI_Type_create_darray##_c(int size, int rank, int ndims, const Count array_of_gsizes[],			\
				const int array_of_distribs[], const int array_of_dargs[],			\
				const int array_of_psizes[], int order, MPI_Datatype oldtype,			\
				MPI_Datatype *newtype)								\
{														\
	HDL_LOCKED;												\
	HDL_GIVES(newtype);											\
	return darray("MPI_Type_create_darray" #_c, large, size, rank, ndims, NUMBERS(array_of_gsizes), INTS(array_of_distribs), \
		      INTS(array_of_dargs), INTS(array_of_psizes), order, oldtype, newtype);			\
}														\
HDL_PROFILED(Type_create_darray##_c);

FORM(, int, false, INTS)
FORM(_c, MPI_Count, true, WIDE)
#undef FORM
