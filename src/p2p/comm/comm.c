/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators (MPI-5.0 chapter 7): the objects. construct.c has the constructors. */
#include "p2p/comm/comm.h"
#include "p2p/comm/ids.h"
#include "p2p/unexpected.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct hdl_comm hdl_world, hdl_self;
void (*hdl_comm_on_free)(struct hdl_comm *comm);

static struct hdl_comm *alive;		/* all but MPI_COMM_WORLD and MPI_COMM_SELF */

/* ---- their error handlers ------------------------------------------------------------------------------ */

struct hdl_pool hdl_errhandlers = HDL_POOL(struct hdl_errhandler, 16);

void hdl_errhandler_retain(MPI_Errhandler h)
{
	if (hdl_handle_is_address(h))
		((struct hdl_errhandler *)h)->obj.refs++;
}

void hdl_errhandler_release(MPI_Errhandler h)
{
	if (hdl_handle_is_address(h) && !--((struct hdl_errhandler *)h)->obj.refs)
		hdl_pool_put(&hdl_errhandlers, h);
}

/* ---- making -------------------------------------------------------------------------------------------- */

static int comm_fill(struct hdl_comm *comm, struct hdl_group *group)
{
	comm->matching = hdl_mpi_matching;
	comm->group = group;
	comm->rank = group->rank;
	comm->size = group->size;
	comm->whole = hdl_group_is_world(group);
	comm->leaf = hdl_group_leaves(group);
	return comm->leaf ? 0 : -ENOMEM;
}

struct hdl_pool hdl_comms = HDL_POOL(struct hdl_comm, 16);
static uint32_t comms_made;

struct hdl_comm *hdl_comm_new(struct hdl_group *group)
{
	struct hdl_comm *comm = group ? hdl_pool_take(&hdl_comms) : NULL;

	if (!comm || comm_fill(comm, group))
		hdl_out_of_memory("a communicator",
				  sizeof(*comm) + (group ? (size_t)group->size : 1) / HDL_LEAF * sizeof(void *));
	comm->obj.refs = 1;
	comm->serial = ++comms_made;
	return comm;
}

static void comm_derive(struct hdl_comm *comm, struct hdl_session *session)
{
	comm->session = session ? hdl_session_retain(session) : NULL;
	hdl_group_derive(comm->group, session);
	if (comm->local)
		hdl_group_derive(comm->local->group, session);
}

/* Returns true if a rank below r is of the job. */
static bool comm_has_job_before(const struct hdl_group *g, int r, const struct hdl_other_job *job)
{
	while (r-- > 0)
		if (hdl_job_of(hdl_group_proc(g, r)) == job)
			return true;
	return false;
}

/* Counts or uncounts the communicator for each other job that has members. */
static void comm_use_jobs(struct hdl_comm *comm, int more)
{
	const struct hdl_group *g = comm->group;
	const struct hdl_other_job *last = NULL;

	comm->uses_jobs = more > 0;
	for (int r = 0; hdl_jobs_are_several() && r < g->size; r++) {
		const struct hdl_other_job *job = hdl_job_of(hdl_group_proc(g, r));

		if (job && job != last && !comm_has_job_before(g, r, job))
			hdl_job_use(hdl_group_proc(g, r), more);
		last = job;
	}
}

void hdl_comm_begin(struct hdl_comm *comm, int id, MPI_Errhandler errhandler, struct hdl_session *session)
{
	comm_derive(comm, session);
	comm->obj.magic = HDL_MAGIC_COMM;
	comm->next = alive;
	comm->link = &alive;
	if (alive)
		alive->link = &comm->next;
	alive = comm;
	comm->context = (uint16_t)(2 * id);
	comm->errhandler = errhandler;
	hdl_errhandler_retain(errhandler);
	hdl_comm_set_hints(comm, comm->hints);
	comm_use_jobs(comm, 1);
	if (comm->local) {
		comm_use_jobs(comm->local, 1);
		comm->local->context = comm->context;
		comm->local->errhandler = MPI_ERRORS_RETURN;	/* no error is raised on it */
	}
}

void hdl_comm_set_hints(struct hdl_comm *comm, unsigned hints)
{
	comm->hints = hints;
	if (comm->obj.magic == HDL_MAGIC_COMM_BEGUN)
		return;		/* a communicator of MPI_Comm_idup has no context until the duplication is complete */
	comm->matching->overtaking[comm->context] = hints & HDL_HINT_OVERTAKING;
}

void hdl_comm_forget(struct hdl_comm *comm)
{
	if (comm->local)
		hdl_comm_forget(comm->local);
	hdl_topo_release(comm->topo);
	hdl_group_release(comm->group);
	hdl_pool_put(&hdl_comms, comm);
}

/* ---- freeing ------------------------------------------------------------------------------------------- */

/* Frees the contexts and drops the error handler. A revoked communicator's id is not given back. Scenario without this rule:
 *     1. A communicator is revoked; rank 1 leaves one of its collectives in the middle.
 *     2. All free the communicator. A new one gets the same id, with some of the same ranks.
 *     3. A late message of the old collective matches a receive of the new communicator. */
static void clear_contexts(struct hdl_comm *comm)
{
	unsigned lost = hdl_unexpected_purge(comm->matching, comm->context) +
			hdl_unexpected_purge(comm->matching, comm->context + 1);

	if (lost)
		hdl_debug("communicator #%u was freed with %u messages that were not received", comm->context / 2, lost);
	hdl_errhandler_release(comm->errhandler);
	hdl_comm_set_hints(comm, 0);
	if (!hdl_recv_revoked(comm, comm->context + 1))
		hdl_id_give(comm->context / 2);
}

static void comm_clear(struct hdl_comm *comm)
{
	if (comm->uses_jobs)
		comm_use_jobs(comm, -1);
	if (hdl_comm_on_free)
		hdl_comm_on_free(comm);
	if (comm->local)
		hdl_comm_release(comm->local);
	if (!comm->part)
		clear_contexts(comm);
	hdl_topo_release(comm->topo);
	hdl_group_release(comm->group);
	free(comm->bsend);
	comm->bsend = NULL;
	if (comm->session)
		hdl_session_release(comm->session);
	comm->session = NULL;
	for (struct hdl_part_count *c; (c = comm->parts);) {
		comm->parts = c->next;
		free(c);
	}
	comm->leaf = NULL;
	comm->obj.magic = 0;
}

static void comm_free(struct hdl_comm *comm)
{
	if (comm->link)
		*comm->link = comm->next;
	if (comm->next)
		comm->next->link = comm->link;
	hdl_pool_put(&hdl_comms, comm);
}

void hdl_comm_release(struct hdl_comm *comm)
{
	if (--comm->obj.refs)
		return;
	comm_clear(comm);
	comm_free(comm);
}

void hdl_comm_close(struct hdl_comm *comm)
{
	comm->obj.magic = 0;
	hdl_comm_release(comm);
}

void hdl_comm_each(void (*fn)(struct hdl_comm *comm))
{
	fn(&hdl_world);
	fn(&hdl_self);
	for (struct hdl_comm *c = alive; c; c = c->next) {
		fn(c);
		if (c->local)
			fn(c->local);
	}
}

static _Noreturn void no_endpoint(int proc)
{
	char text[256];

	snprintf(text, sizeof(text), "%s cannot be reached: %s", hdl_proc_text(proc), strerror(errno));
	hdl_rt_abort(MPI_ERR_OTHER, text);
}

struct hdl_ep *hdl_comm_ep_make(struct hdl_comm *comm, int rank)
{
	struct hdl_ep *ep;

	if (rank == comm->rank)
		return NULL;
	ep = hdl_ep(comm->matching->tp, hdl_comm_proc(comm, rank));
	if (!ep)
		no_endpoint(hdl_comm_proc(comm, rank));
	if (hdl_group_meet(comm->group, rank, ep))
		hdl_out_of_memory("the endpoints of a communicator", HDL_LEAF * sizeof(ep));
	return ep;
}

const char *hdl_comm_label(const struct hdl_comm *comm, char buf[static MPI_MAX_OBJECT_NAME])
{
	if (comm->name[0])
		return memcpy(buf, comm->name, sizeof(comm->name));
	snprintf(buf, MPI_MAX_OBJECT_NAME, "communicator #%u", comm->context / 2u);
	return buf;
}

/* Section 9.3 of MPI-5.0, by the names that section 11.5 has for mpiexec; vars.def accepts no other. */
static MPI_Errhandler initial_errhandler(void)
{
	if (!strcmp(hdl_vars.initial_errhandler, "mpi_errors_return"))
		return MPI_ERRORS_RETURN;
	return !strcmp(hdl_vars.initial_errhandler, "mpi_errors_abort") ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL;
}

static int comm_predefined(struct hdl_comm *comm, struct hdl_group *group, const char *name)
{
	*comm = (struct hdl_comm){ .obj = { HDL_MAGIC_COMM, 1 }, .errhandler = initial_errhandler() };
	memcpy(comm->name, name, strlen(name) + 1);
	return group ? comm_fill(comm, group) : -ENOMEM;
}

int hdl_comm_init(void)
{
	int rc = comm_predefined(&hdl_world, hdl_group_range(0, 1, hdl_job.size), "MPI_COMM_WORLD");

	if (!rc)
		rc = comm_predefined(&hdl_self, hdl_group_range(hdl_job.rank, 1, 1), "MPI_COMM_SELF");
	if (rc)
		return rc;
	hdl_self.context = 2;
	hdl_ids_reset();
	hdl_id_take(0);
	hdl_id_take(1);
	hdl_id_take(HDL_ID_GROUPS);
	return 0;
}

void hdl_world_open(bool open)
{
	hdl_world.obj.magic = hdl_self.obj.magic = open ? HDL_MAGIC_COMM : 0;
}

void hdl_comm_fini(void)
{
	struct hdl_comm *c;

	/* the program need not free communicators before MPI_Finalize */
	while ((c = alive)) {
		comm_clear(c);
		comm_free(c);
	}
	comm_clear(&hdl_self);
	comm_clear(&hdl_world);
	hdl_pool_fini(&hdl_comms);
	hdl_group_fini();
}
