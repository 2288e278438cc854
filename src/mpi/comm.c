/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators (MPI-5.0 chapter 7): accessors, freeing, names. */
#include "mpi/attr.h"

#include <string.h>

int PMPI_Comm_size(MPI_Comm comm, int *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_size";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	if (unlikely(!size))
		return hdl_null_arg(c, call, "size");
	*size = hdl_comm_local(c)->size;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_size);

int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_rank";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (unlikely(!c))
		return hdl_bad_comm(call, comm);
	if (unlikely(!rank))
		return hdl_null_arg(c, call, "rank");
	*rank = hdl_comm_local(c)->rank;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_rank);

static int comm_compare(struct hdl_comm *a, struct hdl_comm *b)
{
	int groups, locals;

	if (a == b)
		return MPI_IDENT;
	if (hdl_comm_is_inter(a) != hdl_comm_is_inter(b))
		return MPI_UNEQUAL;
	groups = hdl_group_compare(a->group, b->group);
	locals = hdl_comm_is_inter(a) ? hdl_group_compare(a->local->group, b->local->group) : groups;
	if (groups == MPI_UNEQUAL || locals == MPI_UNEQUAL)
		return MPI_UNEQUAL;
	return groups == MPI_IDENT && locals == MPI_IDENT ? MPI_CONGRUENT : MPI_SIMILAR;
}

int PMPI_Comm_compare(MPI_Comm comm1, MPI_Comm comm2, int *result)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_compare";
	struct hdl_comm *a = hdl_comm_get_local(comm1), *b = hdl_comm_get_local(comm2);

	if (!a || !b)
		return hdl_bad_comm(call, a ? comm2 : comm1);
	if (!result)
		return hdl_null_arg(a, call, "result");
	*result = comm_compare(a, b);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_compare);

int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
	HDL_LOCKED;
	HDL_GIVES(group);
	static const char call[] = "MPI_Comm_group";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!group)
		return hdl_null_arg(c, call, "group");
	return hdl_group_return(call, hdl_group_retain(hdl_comm_local(c)->group), group);
}
HDL_PROFILED(Comm_group);

/* ---- intercommunicators -------------------------------------------------------------------------------- */

int PMPI_Comm_test_inter(MPI_Comm comm, int *flag)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_test_inter";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c)
		return hdl_bad_comm(call, comm);
	if (!flag)
		return hdl_null_arg(c, call, "flag");
	*flag = hdl_comm_is_inter(c);
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_test_inter);

static cold int not_inter(const char *call, MPI_Comm comm, struct hdl_comm *c)
{
	return c ? hdl_raise(c, MPI_ERR_COMM, call, "invalid comm: it is an intracommunicator, and has no remote group") :
	       hdl_bad_comm(call, comm);
}

int PMPI_Comm_remote_size(MPI_Comm comm, int *size)
{
	HDL_NO_LOCK;
	static const char call[] = "MPI_Comm_remote_size";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c || !hdl_comm_is_inter(c))
		return not_inter(call, comm, c);
	if (!size)
		return hdl_null_arg(c, call, "size");
	*size = c->size;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_remote_size);

int PMPI_Comm_remote_group(MPI_Comm comm, MPI_Group *group)
{
	HDL_LOCKED;
	HDL_GIVES(group);
	static const char call[] = "MPI_Comm_remote_group";
	struct hdl_comm *c = hdl_comm_get_local(comm);

	if (!c || !hdl_comm_is_inter(c))
		return not_inter(call, comm, c);
	if (!group)
		return hdl_null_arg(c, call, "group");
	return hdl_group_return(call, hdl_group_retain(c->group), group);
}
HDL_PROFILED(Comm_remote_group);

/* ---- freeing ------------------------------------------------------------------------------------------- */

/* References other than the handle's and those of inactive persistent requests, which other threads may free, are pending
 * operations. */
static bool comm_nothing_pending(const void *comm)
{
	const struct hdl_comm *c = comm;

	return c->obj.refs == 1 + hdl_persistent_idle(c);
}

static int comm_end(const char *call, MPI_Comm *comm, bool wait)
{
	struct hdl_comm *c;
	bool others;
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
	if (c->lent)
		return hdl_raise(NULL, MPI_ERR_COMM, call, "invalid comm: it was freed, and is here for its error handler only");
	hdl_call = call;
	rc = hdl_attrs_delete(HDL_ATTR_COMM, *comm, &c->attrs);
	if (rc)
		return hdl_raise_code(c, rc, call);
	if (wait)
		hdl_wait_until(comm_nothing_pending, c);
	if (c == hdl_parent)
		hdl_parent = NULL;
	others = wait && c->uses_jobs;
	hdl_comm_close(c);
	*comm = MPI_COMM_NULL;
	/* A process of another job may wait in MPI_Finalize for acknowledgements, and this one may not
	 * call MPI again for long. */
	if (others)
		hdl_tp_rest(hdl_mpi_tp);
	return MPI_SUCCESS;
}

/* Pending operations go on; the last one frees the object (section 7.4.3). */
int PMPI_Comm_free(MPI_Comm *comm)
{
	HDL_LOCKED;
	return comm_end("MPI_Comm_free", comm, false);
}
HDL_PROFILED(Comm_free);

/* Waits for pending operations, such as buffered messages. The program has completed its requests, but inactive persistent
 * ones may exist (section 11.10.4). */
int PMPI_Comm_disconnect(MPI_Comm *comm)
{
	HDL_LOCKED;
	return comm_end("MPI_Comm_disconnect", comm, true);
}
HDL_PROFILED(Comm_disconnect);

/* ---- names --------------------------------------------------------------------------------------------- */

int PMPI_Comm_set_name(MPI_Comm comm, const char *comm_name)
{
	HDL_LOCKED;
	static const char call[] = "MPI_Comm_set_name";
	struct hdl_comm *c = hdl_comm_get_local(comm);

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
	struct hdl_comm *c = hdl_comm_get_local(comm);
	const char *name;

	/* section 7.8: the null handle has a name */
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
