/* SPDX-License-Identifier: BSD-3-Clause */
/* The properties by which choose.c decides: the hosts of a communicator's ranks, and the capabilities of the device that connects
 * them. */
#include "collectives/queues/queues.h"
#include "collectives/select/select.h"

#include <errno.h>
#include <limits.h>

/* The answer is kept per port, also that the device has no capabilities. A query that failed for another reason is not an answer,
 * and the next call asks again. Else:
 *
 *     1. rank 1's query fails because rank 1 has no free descriptor at that moment
 *     2. rank 1 keeps "no capabilities", and chooses host from there on
 *     3. the other ranks choose tasks, and wait for rank 1's requests for ever */
int hdl_reduce_caps_of(const struct hdl_port *port, const struct hdl_reduce_caps **out)
{
	static const struct hdl_port *asked;
	static struct hdl_reduce_caps caps;
	static bool cross;
	const uint64_t all = SHCA_EXP_EXTENSION_CALC_OPS | SHCA_EXP_EXTENSION_CALC_SIZES | SHCA_EXP_EXTENSION_CALC_HOST_ORDER |
			     SHCA_EXP_EXTENSION_CALC_VECTOR;
	struct ibv_exp_device_attr attr = {
		.comp_mask = IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS |
			     IBV_EXP_DEVICE_ATTR_CALC_CAP | SHCA_EXP_DEVICE_ATTR_EXTENSIONS,
	};
	int err;

	*out = NULL;
	if (asked != port) {
		err = ibv_exp_query_device(port->ctx, &attr);
		if (is_passing_error(err))
			return -err;
		asked = port;
		caps = (struct hdl_reduce_caps){ 0 };
		cross = !err && attr.exp_device_cap_flags & IBV_EXP_DEVICE_CROSS_CHANNEL;
		if (cross && attr.comp_mask & IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS)
			caps.atomics = attr.exp_device_cap_flags & IBV_EXP_DEVICE_EXT_ATOMICS &&
				       attr.ext_atom.atomic_arg_sizes & 8;
		if (cross && attr.comp_mask & IBV_EXP_DEVICE_ATTR_CALC_CAP)
			caps.calc = attr.calc_cap;
		caps.vector = cross && hdl_vars.coll_extensions && attr.comp_mask & SHCA_EXP_DEVICE_ATTR_EXTENSIONS &&
			       (attr.shca_extensions & all) == all && attr.shca_calc_vector_max >= HDL_TASKS_MAX;
	}
	*out = cross ? &caps : NULL;
	return 0;
}

/* A communicator of several jobs: hosts and CPUs. hdl_job has those of this job only, and all members must choose alike, so the
 * members use the fields of the address records (struct hdl_addr_head), which the two groups exchange when an intercommunicator
 * is created. */
struct several_jobs {
	bool one_host, oversubscribed;
	int cores;
};

/* Returns 0, or a negative errno of this rank alone. */
static int several_jobs(const struct hdl_comm *comm, struct several_jobs *out)
{
	int least = INT_MAX, most = 0, err = 0;
	struct hdl_place p = { 0 };

	*out = (struct several_jobs){ .one_host = comm->size <= HDL_MAILBOX_RANKS, .oversubscribed = true, .cores = 1 };
	if (!out->one_host)
		return 0;
	out->oversubscribed = false;
	for (int r = 0; r < comm->size && !err; r++) {
		err = hdl_tp_place(hdl_mpi_tp, hdl_comm_proc(comm, r), &p);
		out->one_host &= p.here;
		out->oversubscribed |= p.oversubscribed;
		least = p.cores < least ? p.cores : least;
		most = p.cores > most ? p.cores : most;
	}
	/* The jobs may share CPUs, or have different ones. */
	out->oversubscribed |= !out->one_host || comm->size > most;
	out->cores = least > 0 ? least : 1;
	return err;
}

/* Returns true if all members are of this job and on this host. */
static bool are_here(const struct hdl_comm *comm)
{
	for (int r = 0; hdl_job.local && r < comm->size; r++)
		if (!hdl_is_local(hdl_comm_proc(comm, r)))
			return false;
	return true;
}

/* Returns the promises of all members, and keeps them. `jobs`: of a communicator of several jobs; NULL:
 * all members are of one. */
static int find_promises(const struct hdl_comm *comm, const struct several_jobs *jobs)
{
	int all = HDL_PROMISES_WAKES | HDL_PROMISES_AT_ONCE | HDL_PROMISES_EXPOSES, promises;
	struct hdl_cc *cc = comm->coll;

	if (comm->size > HDL_MAILBOX_RANKS || (jobs ? !jobs->one_host : !are_here(comm)))
		all = 0;
	for (int r = 0; r < comm->size && all; r++) {
		promises = hdl_tp_promises(hdl_mpi_tp, hdl_comm_proc(comm, r));
		if (promises < 0)
			return promises;
		all &= promises;
	}
	if (jobs && jobs->oversubscribed)
		all |= HDL_COMM_OVERSUBSCRIBED;
	if (cc) {
		cc->promises = (unsigned)all;
		cc->promises_known = true;
	}
	return all;
}

int hdl_comm_promises(const struct hdl_comm *comm)
{
	const struct hdl_cc *cc = comm->coll;
	struct several_jobs jobs;
	int err;

	if (likely(cc && cc->promises_known))
		return (int)cc->promises;
	if (!hdl_group_spans_jobs(comm->group, comm->group))
		return find_promises(comm, NULL);
	err = several_jobs(comm, &jobs);
	return err ? err : find_promises(comm, &jobs);
}

int hdl_comm_props_of(const struct hdl_comm *comm, struct hdl_comm_props *props)
{
	const struct hdl_port *port = hdl_tp_local_port(hdl_mpi_tp);
	const struct hdl_reduce_caps *caps = NULL;
	const struct hdl_cc *cc = comm->coll;
	bool several = hdl_group_spans_jobs(comm->group, comm->group);
	struct several_jobs jobs = { .one_host = true, .oversubscribed = hdl_job.oversubscribed, .cores = hdl_job.ncores };
	int err = several ? several_jobs(comm, &jobs) : 0, promises = 0;

	if (!err) {
		promises = cc && cc->promises_known ? (int)cc->promises : find_promises(comm, several ? &jobs : NULL);
		err = promises < 0 ? promises : port ? hdl_reduce_caps_of(port, &caps) : 0;
	}
	if (err) {
		*props = (struct hdl_comm_props){ 0 };
		return err;
	}
	*props = (struct hdl_comm_props){
		.size = comm->size, .one_host = jobs.one_host, .oversubscribed = jobs.oversubscribed,
		.cpus = hdl_comm_cpus(jobs.oversubscribed, jobs.cores),
		.rc = hdl_tp_allows_rc(hdl_mpi_tp), .device = port ? ibv_get_device_name(port->ctx->device) : NULL,
		.wakes = promises & HDL_PROMISES_WAKES, .at_once = promises & HDL_PROMISES_AT_ONCE,
		.exposes = promises & HDL_PROMISES_EXPOSES, .reduce_caps = caps,
	};
	/* more than HEDDLE_COLL_OFFLOAD_RANKS ranks: nothing is offloaded, so the hosts do not matter */
	if (comm->size <= hdl_vars.coll_offload_ranks && !several)
		props->one_host = are_here(comm);
	return 0;
}
