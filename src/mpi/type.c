/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes: commit, duplicate and free, queries, names and attributes (MPI-5.0 sections 5.1.5 to 5.1.13, 7.7.4, 7.8). */
#include "mpi/attr.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Returns the type of an argument, which need not be committed. NULL: *rc is the code for the program. */
static struct hdl_type *type_arg(const char *call, const char *arg, MPI_Datatype handle, int *rc)
{
	struct hdl_type *t;

	hdl_check_active(call);
	t = hdl_type_get(handle);
	if (unlikely(!t))
		*rc = hdl_bad_type(NULL, call, arg, handle);
	return t;
}

/* ---- commit, duplicate, free ----------------------------------------------------------------------------------------- */

/* The same for a pointer to a handle. */
static struct hdl_type *type_at(const char *call, MPI_Datatype *handle, int *rc)
{
	if (handle)
		return type_arg(call, "datatype", *handle, rc);
	hdl_check_active(call);
	*rc = hdl_null_arg(NULL, call, "datatype");
	return NULL;
}

static int type_out_of_memory(const char *call)
{
	return hdl_raise(NULL, MPI_ERR_NO_MEM, call, "out of memory");
}

int PMPI_Type_commit(MPI_Datatype *datatype)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_commit";
	struct hdl_type *t;
	int rc;

	t = type_at(call, datatype, &rc);
	if (!t)
		return rc;
	return hdl_type_commit(t) ? type_out_of_memory(call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_commit);

int PMPI_Type_free(MPI_Datatype *datatype)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_free";
	struct hdl_type *t;
	int rc;

	t = type_at(call, datatype, &rc);
	if (!t)
		return rc;
	if (hdl_type_is_predefined(t))
		return hdl_raise(NULL, MPI_ERR_TYPE, call, "invalid datatype: %s is predefined and cannot be freed",
				 hdl_type_label(t));
	hdl_call = call;
	rc = t->handles == 1 ? hdl_attrs_delete(HDL_ATTR_TYPE, *datatype, &t->attrs) : MPI_SUCCESS;
	if (rc)
		return hdl_raise_code(NULL, rc, call);
	hdl_type_close(t);
	*datatype = MPI_DATATYPE_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_free);

/* The new type is committed if the old one is (section 5.1.10). */
int PMPI_Type_dup(MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	HDL_GIVES(newtype);
	static const char call[] = "MPI_Type_dup";
	struct hdl_type *old, *t;
	int rc;

	old = type_arg(call, "oldtype", oldtype, &rc);
	if (!old)
		return rc;
	if (!newtype)
		return hdl_null_arg(NULL, call, "newtype");
	t = hdl_type_new(MPI_COMBINER_DUP, false, 0, 1);
	if (!t)
		return type_out_of_memory(call);
	t->types[0] = old;
	rc = hdl_type_finish(t);
	if (rc)
		return hdl_raise(NULL, rc, call, "the type's size or extent does not fit 63 bits");
	if (old->committed && hdl_type_commit(t)) {
		hdl_type_close(t);
		return type_out_of_memory(call);
	}
	hdl_call = call;
	rc = hdl_attrs_copy(HDL_ATTR_TYPE, oldtype, old->attrs, hdl_type_handle(t), &t->attrs);
	if (rc) {
		hdl_type_close(t);
		return hdl_raise_code(NULL, rc, call);
	}
	*newtype = hdl_type_handle(t);
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_dup);

/* ---- predefined types ------------------------------------------------------------------------------------------------ */

static int f90(const char *call, int combiner, int p, int r, MPI_Datatype *newtype)
{
	struct hdl_type *t;

	hdl_check_active(call);
	if (!newtype)
		return hdl_null_arg(NULL, call, "newtype");
	if (p == MPI_UNDEFINED && r == MPI_UNDEFINED)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid p and r: both are MPI_UNDEFINED");
	t = hdl_type_f90(combiner, p, r);
	if (!t)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid %s: no type has %s%d decimal digits and a range of %d",
				 combiner == MPI_COMBINER_F90_INTEGER ? "r" : "p or r",
				 combiner == MPI_COMBINER_F90_INTEGER ? "so many, " : "", p == MPI_UNDEFINED ? r : p,
				 r == MPI_UNDEFINED ? 0 : r);
	*newtype = hdl_type_handle(t);
	return MPI_SUCCESS;
}

int PMPI_Type_create_f90_real(int p, int r, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	HDL_GIVES(newtype);
	return f90("MPI_Type_create_f90_real", MPI_COMBINER_F90_REAL, p, r, newtype);
}
HDL_PROFILED(Type_create_f90_real);

int PMPI_Type_create_f90_complex(int p, int r, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	HDL_GIVES(newtype);
	return f90("MPI_Type_create_f90_complex", MPI_COMBINER_F90_COMPLEX, p, r, newtype);
}
HDL_PROFILED(Type_create_f90_complex);

int PMPI_Type_create_f90_integer(int r, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	HDL_GIVES(newtype);
	return f90("MPI_Type_create_f90_integer", MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, r, newtype);
}
HDL_PROFILED(Type_create_f90_integer);

int PMPI_Type_match_size(int typeclass, int size, MPI_Datatype *datatype)
{
	HDL_NO_LOCK;
	HDL_GIVES(datatype);
	static const char call[] = "MPI_Type_match_size";
	MPI_Datatype found;

	hdl_check_active(call);
	if (!datatype)
		return hdl_null_arg(NULL, call, "datatype");
	if (typeclass != MPI_TYPECLASS_REAL && typeclass != MPI_TYPECLASS_INTEGER && typeclass != MPI_TYPECLASS_COMPLEX &&
	    typeclass != MPIX_TYPECLASS_LOGICAL)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid typeclass %d: it is MPI_TYPECLASS_REAL, _INTEGER or _COMPLEX",
				 typeclass);
	found = hdl_type_match_size(typeclass, size);
	if (found == MPI_DATATYPE_NULL)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid size %d: no datatype of that class has it", size);
	*datatype = found;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_match_size);

int PMPI_Type_get_value_index(MPI_Datatype value_type, MPI_Datatype index_type, MPI_Datatype *pair_type)
{
	HDL_NO_LOCK;
	HDL_GIVES(pair_type);
	static const char call[] = "MPI_Type_get_value_index";
	int rc;

	if (!type_arg(call, "value_type", value_type, &rc) || !type_arg(call, "index_type", index_type, &rc))
		return rc;
	if (!pair_type)
		return hdl_null_arg(NULL, call, "pair_type");
	*pair_type = hdl_type_pair(value_type, index_type);
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_get_value_index);

/* ---- sizes and bounds ---------------------------------------------------------------------------------------------- */

static int get_size(const char *call, MPI_Datatype datatype, MPI_Count *size)
{
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!size)
		return hdl_null_arg(NULL, call, "size");
	*size = hdl_type_size(t);
	return MPI_SUCCESS;
}

/* A value that does not fit the form's count is MPI_UNDEFINED. */
#define FORM(_c, Count, most)									\
int PMPI_Type_size##_c(MPI_Datatype datatype, Count *size)					\
{												\
	HDL_NO_LOCK;										\
	MPI_Count n = 0;									\
	int rc = get_size("MPI_Type_size" #_c, datatype, size ? &n : NULL);			\
												\
	if (!rc)										\
		*size = n > most ? MPI_UNDEFINED : (Count)n;					\
	return rc;										\
}												\
HDL_PROFILED(Type_size##_c);

FORM(, int, INT_MAX)
FORM(_c, MPI_Count, INT64_MAX)
FORM(_x, MPI_Count, INT64_MAX)
#undef FORM

static int get_extent(const char *call, MPI_Datatype datatype, bool true_one, MPI_Count *lb, MPI_Count *extent)
{
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!lb || !extent)
		return hdl_null_arg(NULL, call, lb ? "extent" : "lb");
	*lb = true_one ? t->true_lb : t->lb;
	*extent = true_one ? t->true_extent : t->extent;
	return MPI_SUCCESS;
}

_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "an address is a count");

#define FORM(_c, Count)										\
int PMPI_Type_get_extent##_c(MPI_Datatype datatype, Count *lb, Count *extent)			\
{												\
	HDL_NO_LOCK;										\
	return get_extent("MPI_Type_get_extent" #_c, datatype, false, (MPI_Count *)lb, (MPI_Count *)extent);	\
}												\
HDL_PROFILED(Type_get_extent##_c);								\
												\
int PMPI_Type_get_true_extent##_c(MPI_Datatype datatype, Count *true_lb, Count *true_extent)	\
{												\
	HDL_NO_LOCK;										\
	return get_extent("MPI_Type_get_true_extent" #_c, datatype, true, (MPI_Count *)true_lb,	\
			  (MPI_Count *)true_extent);						\
}												\
HDL_PROFILED(Type_get_true_extent##_c);

FORM(, MPI_Aint)
FORM(_c, MPI_Count)
FORM(_x, MPI_Count)
#undef FORM

/* ---- elements ------------------------------------------------------------------------------------------------------ */

static int get_elements(const char *call, const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!status || !count)
		return hdl_null_arg(NULL, call, status ? "count" : "status");
	*count = hdl_type_elements(t, hdl_status_bytes(status));
	return MPI_SUCCESS;
}

static int set_elements(const char *call, MPI_Status *status, MPI_Datatype datatype, MPI_Count count)
{
	struct hdl_type *t;
	MPI_Count bytes;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!status)
		return hdl_null_arg(NULL, call, "status");
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	bytes = hdl_type_element_bytes(t, count);
	if (bytes < 0)
		return hdl_raise(NULL, MPI_ERR_COUNT, call, "invalid count %lld: %s", (long long)count,
				 t->elements ? "so many elements do not fit 63 bits" : "the datatype has no elements");
	hdl_status_set_bytes(status, bytes, hdl_status_cancelled(status));
	return MPI_SUCCESS;
}

#define FORM(_c, Count, most)									\
int PMPI_Get_elements##_c(const MPI_Status *status, MPI_Datatype datatype, Count *count)	\
{												\
	HDL_NO_LOCK;										\
	MPI_Count n = 0;									\
	int rc = get_elements("MPI_Get_elements" #_c, status, datatype, count ? &n : NULL);	\
												\
	if (!rc)										\
		*count = n > most ? MPI_UNDEFINED : (Count)n;					\
	return rc;										\
}												\
HDL_PROFILED(Get_elements##_c);									\
												\
int PMPI_Status_set_elements##_c(MPI_Status *status, MPI_Datatype datatype, Count count)	\
{												\
	HDL_NO_LOCK;										\
	return set_elements("MPI_Status_set_elements" #_c, status, datatype, count);		\
}												\
HDL_PROFILED(Status_set_elements##_c);

FORM(, int, INT_MAX)
FORM(_c, MPI_Count, INT64_MAX)
FORM(_x, MPI_Count, INT64_MAX)
#undef FORM

/* ---- the constructor of a type (section 5.1.13) ---------------------------------------------------------------------- */

static int made_large(const char *call)
{
	return hdl_raise(NULL, MPI_ERR_TYPE, call, "the datatype was made by a function with large counts, and has some: "
			 "%s_c tells them", call);
}

/* Returns the numbers for the caller to store. most: the largest value that fits there. large_counts: NULL in the int form. */
static int get_envelope(const char *call, MPI_Datatype datatype, bool large, MPI_Count most, const void *integers,
			const void *addresses, const void *large_counts, const void *datatypes, int *combiner,
			struct hdl_contents *c)
{
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!integers || !addresses || (large && !large_counts) || !datatypes || !combiner)
		return hdl_null_arg(NULL, call, !integers ? "num_integers" : !addresses ? "num_addresses" :
				    large && !large_counts ? "num_large_counts" : !datatypes ? "num_datatypes" : "combiner");
	*c = hdl_type_contents(t);
	if ((!large && c->large_counts) || c->integers > most || c->addresses > most || c->types > most)
		return made_large(call);
	*combiner = t->combiner;
	return MPI_SUCCESS;
}

int PMPI_Type_get_envelope(MPI_Datatype datatype, int *num_integers, int *num_addresses, int *num_datatypes,
			   int *combiner)
{
	HDL_NO_LOCK;
	struct hdl_contents c;
	int rc = get_envelope("MPI_Type_get_envelope", datatype, false, INT_MAX, num_integers, num_addresses, NULL,
			      num_datatypes, combiner, &c);

	if (rc)
		return rc;
	*num_integers = (int)c.integers;
	*num_addresses = (int)c.addresses;
	*num_datatypes = (int)c.types;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_get_envelope);

int PMPI_Type_get_envelope_c(MPI_Datatype datatype, MPI_Count *num_integers, MPI_Count *num_addresses,
			     MPI_Count *num_large_counts, MPI_Count *num_datatypes, int *combiner)
{
	HDL_NO_LOCK;
	struct hdl_contents c;
	int rc = get_envelope("MPI_Type_get_envelope_c", datatype, true, INT64_MAX, num_integers, num_addresses,
			      num_large_counts, num_datatypes, combiner, &c);

	if (rc)
		return rc;
	*num_integers = c.integers;
	*num_addresses = c.addresses;
	*num_large_counts = c.large_counts;
	*num_datatypes = c.types;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_get_envelope_c);

/* Checks one array of the caller's: not NULL, and long enough. */
static int type_check_max(const char *call, const char *name, MPI_Count max, MPI_Count need, const char *array,
		      const void *there)
{
	if (max < need)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid %s %lld: the datatype has %lld (MPI_Type_get_envelope)", name,
				 (long long)max, (long long)need);
	return need && !there ? hdl_null_arg(NULL, call, array) : MPI_SUCCESS;
}

static int get_contents(const char *call, MPI_Datatype datatype, const struct hdl_contents *max, bool large,
			int *integers, MPI_Aint *addresses, MPI_Count *large_counts, MPI_Datatype *datatypes)
{
	struct hdl_contents c;
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (hdl_type_is_named(t))
		return hdl_raise(NULL, MPI_ERR_TYPE, call, "invalid datatype: %s is predefined and was made of nothing",
				 hdl_type_constant_name(t));
	c = hdl_type_contents(t);
	if (c.large_counts && !large)
		return made_large(call);
	rc = type_check_max(call, "max_integers", max->integers, c.integers, "array_of_integers", integers);
	if (!rc)
		rc = type_check_max(call, "max_addresses", max->addresses, c.addresses, "array_of_addresses", addresses);
	if (!rc && large)
		rc = type_check_max(call, "max_large_counts", max->large_counts, c.large_counts, "array_of_large_counts",
				large_counts);
	if (!rc)
		rc = type_check_max(call, "max_datatypes", max->types, c.types, "array_of_datatypes", datatypes);
	if (rc)
		return rc;
	hdl_type_decode(t, integers, addresses, large_counts, datatypes);
	return MPI_SUCCESS;
}

int PMPI_Type_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
			   int array_of_integers[], MPI_Aint array_of_addresses[], MPI_Datatype array_of_datatypes[])
{
	HDL_LOCKED;
	const struct hdl_contents max = { max_integers, max_addresses, 0, max_datatypes };

	return get_contents("MPI_Type_get_contents", datatype, &max, false, array_of_integers, array_of_addresses, NULL,
			    array_of_datatypes);
}
HDL_PROFILED(Type_get_contents);

int PMPI_Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
			     MPI_Count max_large_counts, MPI_Count max_datatypes, int array_of_integers[],
			     MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
			     MPI_Datatype array_of_datatypes[])
{
	HDL_LOCKED;
	const struct hdl_contents max = { max_integers, max_addresses, max_large_counts, max_datatypes };

	return get_contents("MPI_Type_get_contents_c", datatype, &max, true, array_of_integers, array_of_addresses,
			    array_of_large_counts, array_of_datatypes);
}
HDL_PROFILED(Type_get_contents_c);

/* ---- addresses (section 5.1.5) ------------------------------------------------------------------------------------- */

int PMPI_Get_address(const void *location, MPI_Aint *address)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_address";

	hdl_check_active(call);
	if (!address)
		return hdl_null_arg(NULL, call, "address");
	*address = (MPI_Aint)location;
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_address);

/* Cannot fail: addresses wrap around as pointers do. */
MPI_Aint PMPI_Aint_add(MPI_Aint base, MPI_Aint disp)
{
	HDL_NO_LOCK;
	return (MPI_Aint)((uintptr_t)base + (uintptr_t)disp);
}
HDL_PROFILED(Aint_add);

MPI_Aint PMPI_Aint_diff(MPI_Aint addr1, MPI_Aint addr2)
{
	HDL_NO_LOCK;
	return (MPI_Aint)((uintptr_t)addr1 - (uintptr_t)addr2);
}
HDL_PROFILED(Aint_diff);

/* ---- names --------------------------------------------------------------------------------------------------------- */

int PMPI_Type_set_name(MPI_Datatype datatype, const char *type_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_set_name";
	struct hdl_type *t;
	char *name;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!type_name)
		return hdl_null_arg(NULL, call, "type_name");
	name = strndup(type_name, MPI_MAX_OBJECT_NAME - 1);
	if (!name)
		return type_out_of_memory(call);
	free(t->name);
	t->name = name;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_set_name);

/* The null handle has a name. */
int PMPI_Type_get_name(MPI_Datatype datatype, char *type_name, int *resultlen)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_get_name";
	const char *name = "MPI_DATATYPE_NULL";
	struct hdl_type *t = NULL;
	int rc;

	hdl_check_active(call);
	if (datatype != MPI_DATATYPE_NULL) {
		t = type_arg(call, "datatype", datatype, &rc);
		if (!t)
			return rc;
		name = t->name ? t->name : hdl_type_constant_name(t);
	}
	if (!type_name || !resultlen)
		return hdl_null_arg(NULL, call, type_name ? "resultlen" : "type_name");
	*resultlen = snprintf(type_name, MPI_MAX_OBJECT_NAME, "%s", name ? name : "");
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_get_name);

/* ---- attributes ---------------------------------------------------------------------------------------------------- */

int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *type_copy_attr_fn,
			    MPI_Type_delete_attr_function *type_delete_attr_fn, int *type_keyval, void *extra_state)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_create_keyval";
	int rc;

	hdl_check_active(call);
	if (!type_keyval)
		return hdl_null_arg(NULL, call, "type_keyval");
	rc = hdl_keyval_create(HDL_ATTR_TYPE, (union hdl_attr_copy){ .type = type_copy_attr_fn },
			       (union hdl_attr_del){ .type = type_delete_attr_fn }, extra_state, type_keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_create_keyval);

int PMPI_Type_free_keyval(int *type_keyval)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_free_keyval";
	int rc;

	hdl_check_active(call);
	if (!type_keyval)
		return hdl_null_arg(NULL, call, "type_keyval");
	rc = hdl_keyval_free(HDL_ATTR_TYPE, type_keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_free_keyval);

int PMPI_Type_set_attr(MPI_Datatype datatype, int type_keyval, void *attribute_val)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_set_attr";
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	hdl_call = call;
	rc = hdl_attr_set(HDL_ATTR_TYPE, datatype, &t->attrs, type_keyval, attribute_val);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_set_attr);

int PMPI_Type_get_attr(MPI_Datatype datatype, int type_keyval, void *attribute_val, int *flag)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_get_attr";
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!attribute_val || !flag)
		return hdl_null_arg(NULL, call, attribute_val ? "flag" : "attribute_val");
	rc = hdl_attr_get(HDL_ATTR_TYPE, t->attrs, type_keyval, attribute_val, flag);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_get_attr);

int PMPI_Type_delete_attr(MPI_Datatype datatype, int type_keyval)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_delete_attr";
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	hdl_call = call;
	rc = hdl_attr_delete(HDL_ATTR_TYPE, datatype, &t->attrs, type_keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}
HDL_PROFILED(Type_delete_attr);
