/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators (MPI-5.0 chapter 7). */
#include "mpi/attr.h"

#include <string.h>

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_size";
	struct hdl_comm *c = hdl_comm_get(comm);

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	if (unlikely(!size))
		return hdl_null_arg(c, call, "size");
	*size = c->size;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_size);

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_rank";
	struct hdl_comm *c = hdl_comm_get(comm);

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	if (unlikely(!rank))
		return hdl_null_arg(c, call, "rank");
	*rank = c->rank;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_rank);

/* Whether every rank of a is in b; and in *same, whether under the same number. */
static bool contained(struct hdl_comm *a, struct hdl_comm *b, bool *same)
{
	*same = a->size == b->size;
	for (int r = 0; r < a->size; r++) {
		int other = hdl_comm_rank_of(b, hdl_comm_world_rank(a, r));

		if (other == MPI_UNDEFINED)
			return false;
		if (other != r)
			*same = false;
	}
	return true;
}

int PMPI_Comm_compare(MPI_Comm comm1, MPI_Comm comm2, int *result)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_compare";
	struct hdl_comm *a = hdl_comm_get(comm1), *b = hdl_comm_get(comm2);
	bool same;

	if (!a || !b)
		return hdl_bad_comm(call, a ? comm2 : comm1);
	if (!result)
		return hdl_null_arg(a, call, "result");
	if (a == b)
		*result = MPI_IDENT;
	else if (a->size != b->size || !contained(a, b, &same))
		*result = MPI_UNEQUAL;
	else
		*result = same ? MPI_CONGRUENT : MPI_SIMILAR;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_compare);

int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_dup";
	struct hdl_comm *c = hdl_comm_get(comm), *made;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	rc = hdl_comm_dup(c, &made);
	if (rc)
		return hdl_raise_class(c, rc, call);
	rc = hdl_attrs_copy(HDL_ATTR_COMM, comm, c->attrs, (MPI_Comm)made, &made->attrs);
	if (rc) {
		hdl_comm_release(made);
		return hdl_raise_code(c, rc, call);
	}
	*newcomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_dup);

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_split";
	struct hdl_comm *c = hdl_comm_get(comm), *made;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	if (color < 0 && color != MPI_UNDEFINED)
		return hdl_raise(c, MPI_ERR_ARG, call,
				 "invalid color %d: it is neither MPI_UNDEFINED (%d) nor at least 0", color,
				 MPI_UNDEFINED);
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	rc = hdl_comm_split(c, color, key, &made);
	if (rc)
		return hdl_raise_class(c, rc, call);
	*newcomm = made ? (MPI_Comm)made : MPI_COMM_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_split);

/* Pending operations go on; the object goes with the last of them (section 7.4.3). */
int PMPI_Comm_free(MPI_Comm *comm)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_free";
	struct hdl_comm *c;
	int rc;

	if (!comm) {
		hdl_check_active(call);
		return hdl_null_arg(NULL, call, "comm");
	}
	c = hdl_comm_get(*comm);
	if (!c)
		return hdl_bad_comm(call, *comm);
	if (c == &hdl_world || c == &hdl_self)
		return hdl_raise(c, MPI_ERR_COMM, call, "invalid comm: %s is predefined and cannot be freed",
				 c == &hdl_world ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
	hdl_call = call;
	rc = hdl_attrs_delete(HDL_ATTR_COMM, *comm, &c->attrs);
	if (rc)
		return hdl_raise_code(c, rc, call);
	hdl_comm_release(c);
	*comm = MPI_COMM_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_free);

int PMPI_Comm_set_name(MPI_Comm comm, const char *comm_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_set_name";
	struct hdl_comm *c = hdl_comm_get(comm);

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!comm_name)
		return hdl_null_arg(c, call, "comm_name");
	snprintf(c->name, sizeof(c->name), "%s", comm_name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_set_name);

int PMPI_Comm_get_name(MPI_Comm comm, char *comm_name, int *resultlen)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_get_name";
	struct hdl_comm *c = hdl_comm_get(comm);
	const char *name;

	/* section 7.8: the null handle has a name, too */
	if (!c && comm != MPI_COMM_NULL)
		return hdl_bad_comm(call, comm);
	if (!comm_name || !resultlen)
		return hdl_null_arg(c, call, comm_name ? "resultlen" : "comm_name");
	name = c ? c->name : "MPI_COMM_NULL";
	strcpy(comm_name, name);
	*resultlen = (int)strlen(name);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_get_name);
