/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spawned processes (MPI-5.0 section 11.8).
 *
 *     root of comm                           launcher                      rank 0 of the spawned job
 *     opens a port; PMIx_Spawn       ──▶     starts the ranks     ──▶      MPI_Init
 *                                            (HEDDLE_PARENT_PORT)
 *     accepts at the port            ◀────────────────────────────────     connects to the port
 *     hdl_intercomm_with of comm     ◀───────────────────────────────▶     hdl_intercomm_with of MPI_COMM_WORLD
 *
 * Until then the root waits for three things: the launcher's answer, the connection, and the launcher's report that the ranks
 * have ended before they connected (heddlerun alone sends one).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/dynamic.h"
#include "p2p/dpm/handshake.h"

/* ---- parents -------------------------------------------------------------------------------------------- */

static void spawn_wake(void)
{
	hdl_tp_wake(hdl_mpi_tp);
}

static bool spawn_answered(const void *spawn)
{
	return hdl_rt_spawn_answered(spawn);
}

static bool spawn_failed(const void *spawn)
{
	return hdl_rt_spawn_failed(spawn);
}

/* Waits for the launcher's answer and for the connection of the spawned ranks. Returns MPI_SUCCESS, or the code of the
 * error, which was raised. */
static int await_children(struct hdl_comm *c, const char *call, const char *port, struct hdl_spawn *spawn,
			  struct hdl_dpm_peer *peer)
{
	int err;

	hdl_wait_until(spawn_answered, spawn);
	if (!hdl_rt_spawn_failed(spawn)) {
		peer->comm = c;
		peer->ended = spawn_failed;
		peer->ended_arg = spawn;
		peer->deadline = hdl_vars.init_timeout ? monotonic_ns() + hdl_vars.init_timeout * 1000 : 0;
		err = hdl_port_accept(port, peer);
		if (!err)
			return MPI_SUCCESS;
		if (!hdl_rt_spawn_failed(spawn))
			hdl_rt_spawn_give_up(spawn);
		if (!hdl_rt_spawn_failed(spawn) && err == -EOWNERDEAD)
			return hdl_raise(c, MPI_ERR_PROC_ABORTED, call,
					 "while this rank waited for the spawned processes, %s, a member of comm, "
					 "has failed or cannot be reached: look at its output for why",
					 hdl_proc_text_full(hdl_recv_revoked(c, (uint16_t)(c->context + 1)) - 1));
		if (!hdl_rt_spawn_failed(spawn) && err == -ETIMEDOUT)
			return hdl_raise(c, MPI_ERR_SPAWN, call, "the spawned processes have not come to MPI_Init within %g s "
					 "(HEDDLE_INIT_TIMEOUT), or there can be no communication with them (both print why)",
					 (double)hdl_vars.init_timeout / 1e6);
		if (!hdl_rt_spawn_failed(spawn))
			return hdl_raise(c, MPI_ERR_SPAWN, call, "the spawned processes cannot connect: %s", strerror(-err));
	}
	return hdl_raise(c, MPI_ERR_SPAWN, call, "%s", hdl_rt_spawn_why(spawn));
}

/* The root's state of a spawn. */
struct spawn_result {
	struct hdl_dpm_peer peer;
	int total;		/* processes that were asked for */
	int *codes;		/* of each of them; NULL: all were started */
};

/* Fills in the codes: program after program, the processes that were started, then those that were not. */
static void fill_codes(struct spawn_result *r, const struct hdl_spawn *spawn, const struct hdl_spawn_plan *plan, int started)
{
	int at = 0, n;

	if (started == r->total || !(r->codes = malloc((size_t)r->total * sizeof(*r->codes))))
		return;
	for (int a = 0; a < plan->napps; a++) {
		n = plan->napps == 1 ? started : hdl_rt_spawn_ranks(spawn, a);
		for (int i = 0; i < plan->apps[a].maxprocs; i++)
			r->codes[at++] = i < n ? MPI_SUCCESS : MPI_ERR_SPAWN;
	}
}

/* At the root. Returns MPI_SUCCESS, or the code of the error, which was raised. */
static int spawn_start(struct hdl_comm *c, const char *call, const struct hdl_spawn_args *args, struct spawn_result *r)
{
	struct hdl_spawn_plan plan = { 0 };
	struct hdl_spawn *spawn = NULL;
	char port[MPI_MAX_PORT_NAME], why[512];
	int err = hdl_port_open(port), rc;

	if (err)
		return hdl_raise(c, MPI_ERR_SPAWN, call, "no socket can listen for the spawned processes: %s", strerror(-err));
	rc = hdl_spawn_plan(c, call, args, port, &plan);
	r->total = plan.total;
	if (!rc && hdl_rt_attach(why, sizeof(why)))
		rc = hdl_raise(c, MPI_ERR_SPAWN, call, "%s", why);
	if (!rc && hdl_rt_spawn(plan.apps, plan.napps, &plan.how, spawn_wake, &spawn, why, sizeof(why)))
		rc = hdl_raise(c, MPI_ERR_SPAWN, call, "%s", why);
	if (!rc) {
		hdl_cid_outside(c, 1);
		rc = await_children(c, call, port, spawn, &r->peer);
		hdl_cid_outside(c, -1);
	}
	if (!rc)
		fill_codes(r, spawn, &plan, hdl_job_of(hdl_group_proc(r->peer.other, 0))->size);
	if (spawn)
		hdl_rt_spawn_end(spawn);
	hdl_spawn_plan_free(&plan);
	hdl_port_close(port);
	return rc;
}

/* Fills errcodes (NULL: not wanted) on all ranks: with r->codes of the root, or, where the root has none, with the result
 * `error` of the spawn, which all ranks know. Collective over c. Returns MPI_SUCCESS or an error class. */
static int share_codes(struct hdl_comm *c, int root, const struct spawn_result *r, int error, int *errcodes)
{
	struct { int total, partial; } *table = calloc((size_t)c->size, sizeof(*table)), at_root;
	size_t n;
	int *all, rc;

	if (!table)
		hdl_out_of_memory("the codes of spawned processes", (size_t)c->size * sizeof(*table));
	table[c->rank].total = r->total;
	table[c->rank].partial = r->codes != NULL;
	rc = hdl_comm_exchange(c, table, sizeof(*table));
	at_root = table[root];
	free(table);
	if (rc)
		return rc;
	n = (size_t)at_root.total;
	for (size_t i = 0; errcodes && i < n; i++)
		errcodes[i] = error;
	if (!at_root.partial)
		return MPI_SUCCESS;
	all = calloc(n * (size_t)c->size, sizeof(*all));
	if (!all)
		hdl_out_of_memory("the codes of spawned processes", n * (size_t)c->size * sizeof(*all));
	if (r->codes)
		memcpy(all + n * (size_t)c->rank, r->codes, n * sizeof(*all));
	rc = hdl_comm_exchange(c, all, n * sizeof(*all));
	if (!rc && errcodes)
		memcpy(errcodes, all + n * (size_t)root, n * sizeof(*all));
	free(all);
	return rc;
}

static int spawn(const char *call, const struct hdl_spawn_args *args, int root, MPI_Comm comm, MPI_Comm *intercomm, int *errcodes)
{
	struct hdl_comm *c = hdl_intracomm_get(comm), *made = NULL;
	struct spawn_result r = { 0 };
	int rc, leader_error = MPI_SUCCESS, shared = MPI_SUCCESS;
	bool lost;

	if (!c)
		return hdl_bad_intracomm(call, comm);
	if (root < 0 || root >= c->size)
		return hdl_bad_rank(c, MPI_ERR_ROOT, call, "root", root);
	if (!intercomm)
		return hdl_null_arg(c, call, "intercomm");
	hdl_call = call;
	if (c->rank == root)
		leader_error = spawn_start(c, call, args, &r);
	rc = hdl_intercomm_with(c, root, leader_error ? hdl_error_class(leader_error) : 0, r.peer.other, r.peer.tag, &made);
	if (r.peer.other)
		hdl_group_release(r.peer.other);
	/* After a failed member of comm the ranks need not be here together. Where a spawned process has failed, or a member
	 * cannot reach the spawned processes, each rank has one of two classes: that is an error of the spawn, and comm can be
	 * used. */
	lost = rc && hdl_recv_revoked(c, (uint16_t)(c->context + 1));
	if (!lost && (rc == MPI_ERR_PROC_ABORTED || rc == MPI_ERR_OTHER))
		rc = MPI_ERR_SPAWN;
	if (!lost)
		shared = share_codes(c, root, &r, rc, errcodes == MPI_ERRCODES_IGNORE ? NULL : errcodes);
	free(r.codes);
	if (leader_error)
		return leader_error;
	if (rc || shared)
		return hdl_raise_class(c, rc ? rc : shared, call);
	*intercomm = (MPI_Comm)made;
	return MPI_SUCCESS;
}

int PMPI_Comm_spawn(const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *intercomm,
		    int array_of_errcodes[])
{
	HDL_LOCKED;
	HDL_GIVES(intercomm);
	const struct hdl_spawn_args args = { .count = 1, .commands = &command, .argvs = argv == MPI_ARGV_NULL ? NULL :
					     (char *const *const[]){ argv }, .maxprocs = &maxprocs, .infos = &info };

	return spawn("MPI_Comm_spawn", &args, root, comm, intercomm, array_of_errcodes);
}
HDL_PROFILED(Comm_spawn);

int PMPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[], const int array_of_maxprocs[],
			     const MPI_Info array_of_info[], int root, MPI_Comm comm, MPI_Comm *intercomm,
			     int array_of_errcodes[])
{
	HDL_LOCKED;
	HDL_GIVES(intercomm);
	const struct hdl_spawn_args args = { .count = count, .commands = (const char *const *)array_of_commands,
					     .argvs = array_of_argv == MPI_ARGVS_NULL ? NULL :
					     (char *const *const *)array_of_argv, .maxprocs = array_of_maxprocs,
						     .infos = array_of_info };

	return spawn("MPI_Comm_spawn_multiple", &args, root, comm, intercomm, array_of_errcodes);
}
HDL_PROFILED(Comm_spawn_multiple);

/* ---- children ------------------------------------------------------------------------------------------- */

int PMPI_Comm_get_parent(MPI_Comm *parent)
{
	HDL_LOCKED;
	HDL_GIVES(parent);
	static const char call[] = "MPI_Comm_get_parent";

	hdl_check_active(call);
	if (!parent)
		return hdl_null_arg(NULL, call, "parent");
	*parent = hdl_parent ? (MPI_Comm)hdl_parent : MPI_COMM_NULL;
	return MPI_SUCCESS;
}
HDL_PROFILED(Comm_get_parent);

/* On rank 0. Returns 0 or a negative errno, reported. */
static int meet_parents(const char *port, struct hdl_dpm_peer *peer)
{
	int err;

	peer->comm = &hdl_world;
	peer->deadline = hdl_vars.init_timeout ? monotonic_ns() + hdl_vars.init_timeout * 1000 : 0;
	hdl_cid_outside(&hdl_world, 1);
	err = hdl_port_connect(port, peer);
	hdl_cid_outside(&hdl_world, -1);
	if (!err && !peer->other)
		err = -EHOSTUNREACH;		/* reported */
	else if (err)
		hdl_error("this job was spawned, but the process that has spawned it cannot be reached at its port %s: %s", port,
			  err == -EOWNERDEAD ? "a rank of this job has failed" : err == -ECONNREFUSED || err == -ECONNRESET ?
			  "it has given up, or has ended" : strerror(-err));
	return err;
}

int hdl_spawn_join(void)
{
	static const char name[] = "MPI_COMM_PARENT";	/* section 7.8 */
	const char *port = getenv("HEDDLE_PARENT_PORT");
	struct hdl_dpm_peer peer = { 0 };
	int err = 0, rc;

	if (!port || !*port)
		return 0;
	if (!hdl_job.rank)
		err = meet_parents(port, &peer);
	unsetenv("HEDDLE_PARENT_PORT");		/* programs that this one starts have no parents */
	rc = hdl_intercomm_with(&hdl_world, 0, err ? MPI_ERR_SPAWN : 0, peer.other, peer.tag, &hdl_parent);
	if (peer.other)
		hdl_group_release(peer.other);
	if (rc && !err)
		hdl_error("there is no communicator with the processes that have spawned this job: %s", hdl_reason_take());
	if (rc || err)
		return -ECONNRESET;
	memcpy(hdl_parent->name, name, sizeof(name));
	return 0;
}
