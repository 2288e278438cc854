/* SPDX-License-Identifier: BSD-3-Clause */
/* Constructors of communicators (MPI-5.0 sections 7.4.2, 7.6.2). */
#include "mpi/attr.h"
#include "mpi/comm_info.h"

#include <limits.h>

/* ---- arguments and results ----------------------------------------------------------------------------- */

static int comm_return(struct hdl_comm *c, int rc, const char *call, struct hdl_comm *made, MPI_Comm *newcomm)
{
	if (rc)
		return hdl_raise_class(c, rc, call);
	*newcomm = made ? (MPI_Comm)made : MPI_COMM_NULL;
	return MPI_SUCCESS;
}

static int check_tag(struct hdl_comm *c, const char *call, int tag)
{
	return tag < 0 ? hdl_raise(c, MPI_ERR_TAG, call, "invalid tag %d: tags are 0..%d", tag, INT_MAX) : MPI_SUCCESS;
}

/* Every member of the group must be in the communicator's (local) group. */
static int check_subgroup(struct hdl_comm *c, const char *call, MPI_Group handle)
{
	struct hdl_group *g = hdl_group_get(handle), *all = hdl_comm_local(c)->group;

	if (!g)
		return hdl_bad_group(c, call, "group", handle);
	for (int r = 0; r < g->size; r++)
		if (hdl_group_rank_of(all, hdl_group_proc(g, r)) == MPI_UNDEFINED)
			return hdl_raise(c, MPI_ERR_GROUP, call, "invalid group: its rank %d (%s) is not in the "
					 "communicator's group", r, hdl_proc_text_full(hdl_group_proc(g, r)));
	return MPI_SUCCESS;
}

static int check_leader(struct hdl_comm *c, const char *call, const char *arg, int leader, int size)
{
	return leader < 0 || leader >= size ?
	       hdl_raise(c, MPI_ERR_RANK, call, "invalid %s %d: its group has ranks 0..%d", arg, leader, size - 1) : MPI_SUCCESS;
}

/* ---- duplicates ---------------------------------------------------------------------------------------- */

/* Hints are those of info only: a duplicate does not inherit the original's (section 7.4.2). */
static int comm_dup(const char *call, MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
	struct hdl_comm *c = hdl_comm_get(comm), *made;
	const struct hdl_info *given;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_info_arg(c, call, info, &given);
	if (rc)
		return rc;
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	rc = hdl_comm_dup(c, &made);
	if (rc)
		return hdl_raise_class(c, rc, call);
	hdl_comm_set_hints(made, hdl_comm_hints_of(given, 0));
	rc = hdl_attrs_copy(HDL_ATTR_COMM, comm, c->attrs, (MPI_Comm)made, &made->attrs);
	if (rc) {
		hdl_comm_close(made);
		return hdl_raise_code(c, rc, call);
	}
	*newcomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}

int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	return comm_dup("MPI_Comm_dup", comm, MPI_INFO_NULL, newcomm);
}
HDL_PROFILED(Comm_dup);

int PMPI_Comm_dup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	return comm_dup("MPI_Comm_dup_with_info", comm, info, newcomm);
}
HDL_PROFILED(Comm_dup_with_info);

/* Attributes are copied at the call, not at completion (section 7.4.2). */
static int idup(const char *call, MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
	struct hdl_comm *c = hdl_comm_get(comm), *made;
	const struct hdl_info *given;
	struct hdl_req *req;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = hdl_info_arg(c, call, info, &given);
	if (rc)
		return rc;
	if (!newcomm || !request)
		return hdl_null_arg(c, call, newcomm ? "request" : "newcomm");
	hdl_call = call;
	rc = hdl_comm_idup(c, &made, &req);
	if (rc)
		return hdl_raise_class(c, rc, call);
	if (req->done && req->error) {	/* the communicator was freed, as completing the request will report */
		*request = (MPI_Request)req;
		return MPI_SUCCESS;
	}
	hdl_comm_set_hints(made, hdl_comm_hints_of(given, 0));
	rc = hdl_attrs_copy(HDL_ATTR_COMM, comm, c->attrs, (MPI_Comm)made, &made->attrs);
	if (rc) {		/* the other ranks go on, and this rank's agreement does, too */
		if (!req->done)
			made->unwanted = true;
		else
			hdl_comm_close(made);
		hdl_req_free(req);
		return hdl_raise_code(c, rc, call);
	}
	*newcomm = (MPI_Comm)made;
	*request = (MPI_Request)req;
	return MPI_SUCCESS;
}

int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *newcomm, MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	HDL_GIVES(request);
	return idup("MPI_Comm_idup", comm, MPI_INFO_NULL, newcomm, request);
}
HDL_PROFILED(Comm_idup);

int PMPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *newcomm, MPI_Request *request)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	HDL_GIVES(request);
	return idup("MPI_Comm_idup_with_info", comm, info, newcomm, request);
}
HDL_PROFILED(Comm_idup_with_info);

/* ---- split, create ------------------------------------------------------------------------------------- */

int PMPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
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
	return comm_return(c, rc, call, made, newcomm);
}
HDL_PROFILED(Comm_split);

int PMPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	static const char call[] = "MPI_Comm_create";
	struct hdl_comm *c = hdl_comm_get(comm), *made;
	int rc;

	if (!c)
		return hdl_bad_comm(call, comm);
	rc = check_subgroup(c, call, group);
	if (rc)
		return rc;
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	rc = hdl_comm_create(c, hdl_group_get(group), &made);
	return comm_return(c, rc, call, made, newcomm);
}
HDL_PROFILED(Comm_create);

/* A rank outside of the group gets MPI_COMM_NULL and waits for no other rank. */
int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	static const char call[] = "MPI_Comm_create_group";
	struct hdl_comm *c = hdl_intracomm_get(comm), *made = NULL;
	int rc;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	rc = check_subgroup(c, call, group);
	if (!rc)
		rc = check_tag(c, call, tag);
	if (rc)
		return rc;
	if (!newcomm)
		return hdl_null_arg(c, call, "newcomm");
	hdl_call = call;
	if (hdl_group_get(group)->rank != MPI_UNDEFINED)
		rc = hdl_comm_create_group(c, hdl_group_get(group), tag, &made);
	return comm_return(c, rc, call, made, newcomm);
}
HDL_PROFILED(Comm_create_group);

/* ---- intercommunicators -------------------------------------------------------------------------------- */

/* Checks arguments that are significant at the local leader only. Returns MPI_SUCCESS, or the code of their error. */
static int check_peer(struct hdl_comm *c, const char *call, MPI_Comm peer_comm, int remote_leader)
{
	struct hdl_comm *peer = hdl_comm_get(peer_comm);

	if (!peer)
		return hdl_bad_comm(call, peer_comm);
	if (remote_leader < 0 || remote_leader >= peer->size)
		return hdl_bad_rank(peer, MPI_ERR_RANK, call, "remote_leader", remote_leader);
	if (hdl_comm_rank_of(c, hdl_comm_proc(peer, remote_leader)) != MPI_UNDEFINED)
		return hdl_raise(c, MPI_ERR_RANK, call, "invalid remote_leader %d: it is in local_comm, too", remote_leader);
	return MPI_SUCCESS;
}

int PMPI_Intercomm_create(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader, int tag,
			  MPI_Comm *newintercomm)
{
	HDL_LOCKED;
	HDL_GIVES(newintercomm);
	static const char call[] = "MPI_Intercomm_create";
	struct hdl_comm *c = hdl_intracomm_get(local_comm), *made;
	int rc, refused = MPI_SUCCESS;

	if (!c)
		return hdl_bad_intracomm(call, local_comm);
	rc = check_leader(c, call, "local_leader", local_leader, c->size);
	if (!rc)
		rc = check_tag(c, call, tag);
	if (rc)
		return rc;
	if (!newintercomm)
		return hdl_null_arg(c, call, "newintercomm");
	if (c->rank == local_leader)
		refused = check_peer(c, call, peer_comm, remote_leader);
	hdl_call = call;
	rc = hdl_intercomm_create(c, local_leader, refused ? hdl_error_class(refused) : 0, hdl_comm_get(peer_comm),
				  remote_leader, tag, &made);
	return refused ? refused : comm_return(c, rc, call, made, newintercomm);
}
HDL_PROFILED(Intercomm_create);

int PMPI_Intercomm_merge(MPI_Comm intercomm, int high, MPI_Comm *newintracomm)
{
	HDL_LOCKED;
	HDL_GIVES(newintracomm);
	static const char call[] = "MPI_Intercomm_merge";
	struct hdl_comm *c = hdl_comm_get(intercomm), *made;
	int rc;

	if (!c)
		return hdl_bad_comm(call, intercomm);
	if (!hdl_comm_is_inter(c))
		return hdl_raise(c, MPI_ERR_COMM, call, "invalid intercomm: it is an intracommunicator");
	if (!newintracomm)
		return hdl_null_arg(c, call, "newintracomm");
	hdl_call = call;
	rc = hdl_intercomm_merge(c, high != 0, &made);
	return comm_return(c, rc, call, made, newintracomm);
}
HDL_PROFILED(Intercomm_merge);

/* ---- without a communicator ------------------------------------------------------------------------------ */

/* Raises an error by the handler that is the call's argument (section 7.4.2), or by that of MPI_COMM_SELF where the argument is
 * no handler. Checks below return a class with hdl_reason_set and leave the raising to this function: a session has no
 * MPI_COMM_SELF whose handler the program could set. */
static int parentless_raise(MPI_Errhandler errhandler, int class, const char *call)
{
	return hdl_is_errhandler(errhandler) ? hdl_raise_class_by(errhandler, class, call) : hdl_raise_class(NULL, class, call);
}

static int parentless_return(MPI_Errhandler errhandler, int rc, const char *call, struct hdl_comm *made, MPI_Comm *newcomm)
{
	return rc ? parentless_raise(errhandler, rc, call) : comm_return(NULL, rc, call, made, newcomm);
}

/* Finds a group. NULL: there is none, with hdl_reason_set. */
static struct hdl_group *parentless_group(const char *arg, MPI_Group handle)
{
	struct hdl_group *g = hdl_group_get(handle);

	if (!g && handle == MPI_GROUP_NULL)
		hdl_reason_set("invalid %s: MPI_GROUP_NULL", arg);
	else if (!g)
		hdl_reason_set("invalid %s: handle %p is no group, or was freed", arg, (void *)handle);
	return g;
}

static int parentless_leader(const char *arg, int leader, int size)
{
	if (leader >= 0 && leader < size)
		return MPI_SUCCESS;
	hdl_reason_set("invalid %s %d: its group has ranks 0..%d", arg, leader, size - 1);
	return MPI_ERR_RANK;
}

static int parentless_not_in(const char *arg)
{
	hdl_reason_set("invalid %s: the calling process is not in it", arg);
	return MPI_ERR_GROUP;
}

/* Checks the arguments that constructors without a communicator have in its place. Returns an error class. */
static int check_parentless(const char *stringtag, MPI_Info info, const struct hdl_info **given, MPI_Errhandler errhandler,
			    const MPI_Comm *out, const char *out_arg)
{
	if (!hdl_info_find(info, given)) {
		hdl_reason_set("invalid info: handle %p is none, or was freed", (void *)info);
		return MPI_ERR_INFO;
	}
	if (!hdl_is_errhandler(errhandler)) {
		hdl_reason_set("invalid errhandler: handle %p is none for communicators, or was freed", (void *)errhandler);
		return MPI_ERR_ERRHANDLER;
	}
	if (stringtag && out)
		return MPI_SUCCESS;
	hdl_reason_set("invalid %s: it is a null pointer", stringtag ? out_arg : "stringtag");
	return MPI_ERR_ARG;
}

static bool has_rank(const void *group, int rank)
{
	return hdl_group_rank_of((struct hdl_group *)group, rank) != MPI_UNDEFINED;
}

/* In a job without MPI_COMM_WORLD ranks compare their settings when a communicator is made. Returns an error class. */
static int compare_ranks(struct hdl_group *g)
{
	if (!hdl_rt_compare(has_rank, g))
		return MPI_SUCCESS;
	hdl_reason_set("the settings of this rank and of others differ, or could not be compared: the lines above say why");
	return MPI_ERR_OTHER;
}

/* With an empty group it is a local call (section 7.4.2). */
int PMPI_Comm_create_from_group(MPI_Group group, const char *stringtag, MPI_Info info, MPI_Errhandler errhandler,
				MPI_Comm *newcomm)
{
	HDL_LOCKED;
	HDL_GIVES(newcomm);
	static const char call[] = "MPI_Comm_create_from_group";
	struct hdl_group *g;
	const struct hdl_info *given;
	struct hdl_comm *made = NULL;
	int rc;

	hdl_check_active(call);
	if (!(g = parentless_group("group", group)))
		return parentless_raise(errhandler, MPI_ERR_GROUP, call);
	rc = g->size && g->rank == MPI_UNDEFINED ? parentless_not_in("group") :
						   check_parentless(stringtag, info, &given, errhandler, newcomm, "newcomm");
	if (rc)
		return parentless_raise(errhandler, rc, call);
	hdl_call = call;
	if (g->size)
		rc = compare_ranks(g);
	if (g->size && !rc)
		rc = hdl_comm_create_from_group(g, stringtag, errhandler, &made);
	if (made)
		hdl_comm_set_hints(made, hdl_comm_hints_of(given, 0));
	return parentless_return(errhandler, rc, call, made, newcomm);
}
HDL_PROFILED(Comm_create_from_group);

/* Checks arguments that are significant at the local leader only. Returns an error class. */
static int check_remote_group(struct hdl_group *local, MPI_Group remote_group, int remote_leader)
{
	struct hdl_group *remote = parentless_group("remote_group", remote_group);
	int rc;

	if (!remote)
		return MPI_ERR_GROUP;
	rc = parentless_leader("remote_leader", remote_leader, remote->size);
	for (int r = 0; !rc && r < remote->size; r++)
		if (hdl_group_rank_of(local, hdl_group_proc(remote, r)) != MPI_UNDEFINED) {
			hdl_reason_set("invalid remote_group: its rank %d is in local_group, too", r);
			rc = MPI_ERR_GROUP;
		}
	return rc;
}

int PMPI_Intercomm_create_from_groups(MPI_Group local_group, int local_leader, MPI_Group remote_group, int remote_leader,
				      const char *stringtag, MPI_Info info, MPI_Errhandler errhandler,
				      MPI_Comm *newintercomm)
{
	HDL_LOCKED;
	HDL_GIVES(newintercomm);
	static const char call[] = "MPI_Intercomm_create_from_groups";
	const struct hdl_info *given;
	int rc, refused = MPI_SUCCESS, code = MPI_SUCCESS;
	struct hdl_group *g;
	struct hdl_comm *made;

	hdl_check_active(call);
	if (!(g = parentless_group("local_group", local_group)))
		return parentless_raise(errhandler, MPI_ERR_GROUP, call);
	rc = g->rank == MPI_UNDEFINED ? parentless_not_in("local_group") :
					parentless_leader("local_leader", local_leader, g->size);
	if (!rc)
		rc = check_parentless(stringtag, info, &given, errhandler, newintercomm, "newintercomm");
	if (rc)
		return parentless_raise(errhandler, rc, call);
	if (g->rank == local_leader)
		refused = check_remote_group(g, remote_group, remote_leader);
	if (refused)
		code = parentless_raise(errhandler, refused, call);
	hdl_call = call;
	rc = compare_ranks(g);
	if (rc)
		return parentless_return(errhandler, rc, call, NULL, newintercomm);
	rc = hdl_intercomm_create_from_groups(g, local_leader, refused, hdl_group_get(remote_group), remote_leader, stringtag,
					      errhandler, &made);
	if (refused)
		return code;
	if (!rc)
		hdl_comm_set_hints(made, hdl_comm_hints_of(given, 0));
	return parentless_return(errhandler, rc, call, made, newintercomm);
}
HDL_PROFILED(Intercomm_create_from_groups);
