/* SPDX-License-Identifier: BSD-3-Clause */
/* Datatypes (MPI-5.0 chapter 5). */
#include "mpi/mpi_internal.h"

#include <limits.h>

/* The type behind an argument; it need not be committed. NULL: *rc is what the function returns. */
static struct hdl_type *type_arg(const char *call, const char *arg, MPI_Datatype handle, int *rc)
{
	struct hdl_type *t;

	hdl_check_active(call);
	t = hdl_type_get(handle);
	if (unlikely(!t))
		*rc = hdl_bad_type(NULL, call, arg, handle);
	return t;
}

static int type_made(const char *call, int class, struct hdl_type *t, MPI_Datatype *newtype)
{
	if (class == MPI_ERR_VALUE_TOO_LARGE)
		return hdl_raise(NULL, class, call, "the new datatype's size or extent does not fit 63 bits");
	if (class)
		return hdl_raise(NULL, class, call, "out of memory");
	*newtype = (MPI_Datatype)t;
	return MPI_SUCCESS;
}

static int contiguous(const char *call, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	struct hdl_type *t = NULL, *old;
	int rc;

	old = type_arg(call, "oldtype", oldtype, &rc);
	if (!old)
		return rc;
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	if (!newtype)
		return hdl_null_arg(NULL, call, "newtype");
	rc = hdl_type_contiguous(count, old, &t);
	return type_made(call, rc, t, newtype);
}

int PMPI_Type_contiguous(int count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	return contiguous("MPI_Type_contiguous", count, oldtype, newtype);
}
HDL_PROFILED(Type_contiguous);

int PMPI_Type_contiguous_c(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	return contiguous("MPI_Type_contiguous_c", count, oldtype, newtype);
}
HDL_PROFILED(Type_contiguous_c);

static int vector(const char *call, MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
		  MPI_Datatype *newtype)
{
	struct hdl_type *t = NULL, *old;
	int rc;

	old = type_arg(call, "oldtype", oldtype, &rc);
	if (!old)
		return rc;
	if (count < 0)
		return hdl_bad_count(NULL, call, "count", count);
	if (blocklength < 0)
		return hdl_raise(NULL, MPI_ERR_ARG, call, "invalid blocklength %lld: it must not be negative",
				 (long long)blocklength);
	if (!newtype)
		return hdl_null_arg(NULL, call, "newtype");
	rc = hdl_type_vector(count, blocklength, stride, old, &t);
	return type_made(call, rc, t, newtype);
}

int PMPI_Type_vector(int count, int blocklength, int stride, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
	HDL_LOCKED;
	return vector("MPI_Type_vector", count, blocklength, stride, oldtype, newtype);
}
HDL_PROFILED(Type_vector);

int PMPI_Type_vector_c(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
		       MPI_Datatype *newtype)
{
	HDL_LOCKED;
	return vector("MPI_Type_vector_c", count, blocklength, stride, oldtype, newtype);
}
HDL_PROFILED(Type_vector_c);

int PMPI_Type_commit(MPI_Datatype *datatype)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_commit";
	struct hdl_type *t;
	int rc;

	if (!datatype) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "datatype");
	}
	t = type_arg(call, "datatype", *datatype, &rc);
	if (!t)
		return rc;
	if (!hdl_type_is_predefined(t))
		hdl_type_commit(t);
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_commit);

int PMPI_Type_free(MPI_Datatype *datatype)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Type_free";
	struct hdl_type *t;
	int rc;

	if (!datatype) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "datatype");
	}
	t = type_arg(call, "datatype", *datatype, &rc);
	if (!t)
		return rc;
	if (hdl_type_is_predefined(t))
		return hdl_raise(NULL, MPI_ERR_TYPE, call, "invalid datatype: %s is predefined and cannot be freed",
				 t->name);
	hdl_type_release(t);
	*datatype = MPI_DATATYPE_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_free);

int PMPI_Type_size_c(MPI_Datatype datatype, MPI_Count *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Type_size_c";
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
HDL_PROFILED(Type_size_c);

int PMPI_Type_size(MPI_Datatype datatype, int *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Type_size";
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!size)
		return hdl_null_arg(NULL, call, "size");
	*size = hdl_type_size(t) > INT_MAX ? MPI_UNDEFINED : (int)hdl_type_size(t);
	return MPI_SUCCESS;
}
HDL_PROFILED(Type_size);

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

int PMPI_Type_get_extent(MPI_Datatype datatype, MPI_Aint *lb, MPI_Aint *extent)
{
	HDL_NO_LOCK;
	return get_extent("MPI_Type_get_extent", datatype, false, (MPI_Count *)lb, (MPI_Count *)extent);
}
HDL_PROFILED(Type_get_extent);

int PMPI_Type_get_extent_c(MPI_Datatype datatype, MPI_Count *lb, MPI_Count *extent)
{
	HDL_NO_LOCK;
	return get_extent("MPI_Type_get_extent_c", datatype, false, lb, extent);
}
HDL_PROFILED(Type_get_extent_c);

int PMPI_Type_get_true_extent(MPI_Datatype datatype, MPI_Aint *true_lb, MPI_Aint *true_extent)
{
	HDL_NO_LOCK;
	return get_extent("MPI_Type_get_true_extent", datatype, true, (MPI_Count *)true_lb, (MPI_Count *)true_extent);
}
HDL_PROFILED(Type_get_true_extent);

int PMPI_Type_get_true_extent_c(MPI_Datatype datatype, MPI_Count *true_lb, MPI_Count *true_extent)
{
	HDL_NO_LOCK;
	return get_extent("MPI_Type_get_true_extent_c", datatype, true, true_lb, true_extent);
}
HDL_PROFILED(Type_get_true_extent_c);

static int get_elements(const char *call, const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
	struct hdl_type *t;
	int rc;

	t = type_arg(call, "datatype", datatype, &rc);
	if (!t)
		return rc;
	if (!status)
		return hdl_null_arg(NULL, call, "status");
	*count = hdl_type_elements(t, hdl_status_bytes(status));
	return MPI_SUCCESS;
}

int PMPI_Get_elements(const MPI_Status *status, MPI_Datatype datatype, int *count)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_elements";
	MPI_Count n = 0;
	int rc;

	rc = get_elements(call, status, datatype, &n);
	if (rc)
		return rc;
	if (!count)
		return hdl_null_arg(NULL, call, "count");
	*count = n > INT_MAX ? MPI_UNDEFINED : (int)n;
	return MPI_SUCCESS;
}
HDL_PROFILED(Get_elements);

int PMPI_Get_elements_c(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Get_elements_c";

	if (!count) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "count");
	}
	return get_elements(call, status, datatype, count);
}
HDL_PROFILED(Get_elements_c);
