/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of communicators (MPI-5.0 section 7.7.2), predefined ones (9.1.2, 11.10), and the names of MPI-1 (16.1). */
#include "mpi/attr.h"

#include <limits.h>

/* ---- keys ---------------------------------------------------------------------------------------------- */

static int create_keyval(const char *call, MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *del,
			 int *keyval, void *extra_state)
{
	int rc;

	hdl_check_active(call);
	if (!keyval)
		return hdl_null_arg(NULL, call, "comm_keyval");
	rc = hdl_keyval_create(HDL_ATTR_COMM, (union hdl_attr_copy){ .comm = copy }, (union hdl_attr_del){ .comm = del },
			       extra_state, keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}

int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *comm_copy_attr_fn,
			    MPI_Comm_delete_attr_function *comm_delete_attr_fn, int *comm_keyval, void *extra_state)
{
	HDL_LOCKED;
	return create_keyval("MPI_Comm_create_keyval", comm_copy_attr_fn, comm_delete_attr_fn, comm_keyval, extra_state);
}
HDL_PROFILED(Comm_create_keyval);

int PMPI_Keyval_create(MPI_Copy_function *copy_fn, MPI_Delete_function *delete_fn, int *keyval, void *extra_state)
{
	HDL_LOCKED;
	return create_keyval("MPI_Keyval_create", copy_fn, delete_fn, keyval, extra_state);
}
HDL_PROFILED(Keyval_create);

static int free_keyval(const char *call, int *keyval)
{
	int rc;

	hdl_check_active(call);
	if (!keyval)
		return hdl_null_arg(NULL, call, "comm_keyval");
	rc = hdl_keyval_free(HDL_ATTR_COMM, keyval);
	return rc ? hdl_raise_code(NULL, rc, call) : MPI_SUCCESS;
}

int PMPI_Comm_free_keyval(int *comm_keyval)
{
	HDL_LOCKED;
	return free_keyval("MPI_Comm_free_keyval", comm_keyval);
}
HDL_PROFILED(Comm_free_keyval);

int PMPI_Keyval_free(int *keyval)
{
	HDL_LOCKED;
	return free_keyval("MPI_Keyval_free", keyval);
}
HDL_PROFILED(Keyval_free);

/* ---- attributes ---------------------------------------------------------------------------------------- */

/* Returns the address of a predefined attribute's value, which stays valid. NULL: this job has none, or the key is not
 * predefined. */
static int *attribute_predefined(int keyval)
{
	static int value[MPI_UNIVERSE_SIZE - MPI_TAG_UB + 1];
	int *v = &value[keyval - MPI_TAG_UB];

	switch (keyval) {
	case MPI_TAG_UB:
		*v = INT_MAX;
		return v;
	case MPI_IO:			/* every rank can */
		*v = MPI_ANY_SOURCE;
		return v;
	case MPI_HOST:
		*v = MPI_PROC_NULL;
		return v;
	case MPI_WTIME_IS_GLOBAL:	/* the ranks of a host read one clock */
		*v = !hdl_job.local;
		return v;
	case MPI_LASTUSEDCODE:
		*v = hdl_last_used_code();
		return v;
	case MPI_APPNUM:
		*v = hdl_job.appnum;
		return hdl_job.appnum >= 0 ? v : NULL;
	case MPI_UNIVERSE_SIZE:
		*v = hdl_job.universe;
		return hdl_job.universe > 0 ? v : NULL;
	default:
		return NULL;
	}
}

static int get_attr(const char *call, MPI_Comm comm, int keyval, void *value, int *flag)
{
	struct hdl_comm *c = hdl_comm_get_local(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!value || !flag)
		return hdl_null_arg(c, call, value ? "flag" : "attribute_val");
	if (keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE) {
		int *v = attribute_predefined(keyval);

		*flag = v != NULL;
		if (v)
			*(int **)value = v;
		return MPI_SUCCESS;
	}
	rc = hdl_attr_get(HDL_ATTR_COMM, c->attrs, keyval, value, flag);
	return rc ? hdl_raise_code(c, rc, call) : MPI_SUCCESS;
}

int PMPI_Comm_get_attr(MPI_Comm comm, int comm_keyval, void *attribute_val, int *flag)
{
	HDL_LOCKED;
	return get_attr("MPI_Comm_get_attr", comm, comm_keyval, attribute_val, flag);
}
HDL_PROFILED(Comm_get_attr);

int PMPI_Attr_get(MPI_Comm comm, int keyval, void *attribute_val, int *flag)
{
	HDL_LOCKED;
	return get_attr("MPI_Attr_get", comm, keyval, attribute_val, flag);
}
HDL_PROFILED(Attr_get);

static int set_attr(const char *call, MPI_Comm comm, int keyval, void *value)
{
	struct hdl_comm *c = hdl_comm_get_local(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	hdl_call = call;
	rc = hdl_attr_set(HDL_ATTR_COMM, comm, &c->attrs, keyval, value);
	return rc ? hdl_raise_code(c, rc, call) : MPI_SUCCESS;
}

int PMPI_Comm_set_attr(MPI_Comm comm, int comm_keyval, void *attribute_val)
{
	HDL_LOCKED;
	return set_attr("MPI_Comm_set_attr", comm, comm_keyval, attribute_val);
}
HDL_PROFILED(Comm_set_attr);

int PMPI_Attr_put(MPI_Comm comm, int keyval, void *attribute_val)
{
	HDL_LOCKED;
	return set_attr("MPI_Attr_put", comm, keyval, attribute_val);
}
HDL_PROFILED(Attr_put);

static int delete_attr(const char *call, MPI_Comm comm, int keyval)
{
	struct hdl_comm *c = hdl_comm_get_local(comm);
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	hdl_call = call;
	rc = hdl_attr_delete(HDL_ATTR_COMM, comm, &c->attrs, keyval);
	return rc ? hdl_raise_code(c, rc, call) : MPI_SUCCESS;
}

int PMPI_Comm_delete_attr(MPI_Comm comm, int comm_keyval)
{
	HDL_LOCKED;
	return delete_attr("MPI_Comm_delete_attr", comm, comm_keyval);
}
HDL_PROFILED(Comm_delete_attr);

int PMPI_Attr_delete(MPI_Comm comm, int keyval)
{
	HDL_LOCKED;
	return delete_attr("MPI_Attr_delete", comm, keyval);
}
HDL_PROFILED(Attr_delete);
