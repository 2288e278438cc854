/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives of ranks on several hosts, by phases: a node phase up to the leader of each host, a leader phase among the
 * leaders, a node phase down. The ranks of a host have a communicator of their own, hdl_cc.node_comm. A node phase is an ordinary
 * collective on the node_comm, on mailbox or tasks as the host's device and ranks permit. The leader phase is a graph of
 * messages: the two-level graph (algorithms/hierarchical.c) without its node phases. Nonblocking and persistent collectives run
 * the whole two-level graph: between hosts a collective needs its ranks' progress anyway.
 *
 * All ranks make their node_comm together, in the first such collective. A member that is lost or gives up, in either
 * communicator, revokes both (fault.c): a rank that waits in one of them may wait because of a rank of the other.
 */
#include <stdio.h>

#include "collectives/host/host.h"
#include "collectives/internal.h"
#include "collectives/select/select.h"

struct hier_call {
	struct hdl_comm *comm, *node_comm;
	const struct hdl_hier_phases *phases;
	int leader;			/* the leader's rank in `node_comm`: the root's, if the root is on this host, else 0 */
	bool is_leader, alone;
	int error;			/* MPI error class of this rank's last error, or MPI_SUCCESS */
};

bool hdl_hier_has(const struct hdl_plan_key *key)
{
	return key->blocking &&
	       (key->coll == HDL_BARRIER || key->coll == HDL_BCAST || key->coll == HDL_REDUCE || key->coll == HDL_ALLREDUCE);
}

/* Makes the node communicator of this rank's host. Returns an MPI error class. */
static int make_node_comm(struct hdl_cc *cc, int host)
{
	struct hdl_comm *comm = cc->comm, *node_comm;
	int rc = hdl_comm_split(comm, host, comm->rank, &node_comm);

	if (rc)
		return rc;
	node_comm->obj.magic = 0;	/* no handle refers to the communicator */
	snprintf(node_comm->name, sizeof(node_comm->name), "communicator #%u's ranks of one host", comm->context / 2u);
	cc->node_comm = node_comm;
	if (!hdl_coll_state(node_comm)) {
		hdl_coll_no_memory(comm);
		hdl_reason_set("no memory for the communicator of this host's ranks");
		return MPI_ERR_NO_MEM;
	}
	((struct hdl_cc *)node_comm->coll)->node_of = cc;
	return MPI_SUCCESS;
}

bool hdl_hier_ready(struct hdl_cc *cc, const struct hdl_hosts *hosts, int *rc)
{
	if (cc->node_comm || cc->no_node_comm)
		return cc->node_comm;
	*rc = cc->lost ? MPI_SUCCESS : make_node_comm(cc, hdl_hosts_of_place(hosts, hdl_hosts_place(hosts, cc->comm->rank)));
	/* no context id is free: the only failure that all ranks have together */
	if (*rc == MPI_ERR_OTHER) {
		cc->no_node_comm = true;
		*rc = MPI_SUCCESS;
	}
	return !*rc && cc->node_comm;
}

/* ---- the phases --------------------------------------------------------------------------------------------------- */

/* Handles the error of a phase. Returns false if this rank runs no more phases. After an error of a length or of a buffer
 * (hdl_is_of_arguments) this rank, and the ranks that take its data, have that error; this rank runs the remaining phases, so
 * that no rank waits. Any other error on a leader revokes the communicator. */
static bool hier_goes_on(struct hier_call *l, int rc)
{
	struct hdl_cc *cc = l->comm->coll;

	if (likely(!rc))
		return true;
	l->error = rc;
	if (hdl_is_of_arguments(rc))
		return true;
	if (l->is_leader && !cc->lost) {
		hdl_ft_give_up(l->comm, "a phase of it has failed on the rank that leads its host: see its error");
		hdl_ft_progress();
	}
	return false;
}

static bool hier_node_phase(struct hier_call *l, enum hdl_coll coll, const void *send, void *recv, const struct hdl_coll_args *a)
{
	const struct hdl_coll_args args = { .coll = coll, .sendbuf = send, .recvbuf = recv, .sendcount = a->recvcount,
					    .recvcount = a->recvcount, .sendtype = a->recvtype, .recvtype = a->recvtype,
					    .op = coll == HDL_BCAST ? MPI_OP_NULL : a->op, .root = l->leader };

	return l->alone || hier_goes_on(l, l->phases->node(l->node_comm, &args, l->error));
}

/* Runs the leader phase. A rank that is no leader only counts the collective, since seq must be the same on all ranks. Returns as
 * hier_goes_on. */
static bool hier_leader_phase(struct hier_call *l, const void *send, void *recv, const struct hdl_coll_args *a)
{
	struct hdl_coll_args args = *a;

	if (!l->is_leader) {
		((struct hdl_cc *)l->comm->coll)->seq++;
		return true;
	}
	args.sendbuf = send;
	args.recvbuf = recv;
	return hier_goes_on(l, l->phases->leaders(l->comm, &args, l->error));
}

static void hier_barrier(struct hier_call *l, const struct hdl_coll_args *a)
{
	char in = 0, out = 0;
	const struct hdl_coll_args word = { .recvcount = 1, .recvtype = hdl_type_get(MPI_BYTE), .op = MPI_BOR };

	if (hier_node_phase(l, HDL_REDUCE, &in, &out, &word) && hier_leader_phase(l, NULL, NULL, a))
		hier_node_phase(l, HDL_BCAST, &in, &in, &word);
}

static void hier_bcast(struct hier_call *l, const struct hdl_coll_args *a)
{
	if (hier_leader_phase(l, a->sendbuf, a->recvbuf, a))
		hier_node_phase(l, HDL_BCAST, a->recvbuf, a->recvbuf, a);
}

static void hier_reduce(struct hier_call *l, const struct hdl_coll_args *a)
{
	bool root = l->comm->rank == a->root;
	void *result = root ? a->recvbuf : NULL;
	struct hdl_scratch sum = { 0 };

	if (l->is_leader && !root && !l->alone &&
	    hdl_scratch_get(&sum, (size_t)a->recvcount * (size_t)hdl_type_extent(a->recvtype))) {
		hdl_coll_no_memory(l->comm);
		hdl_reason_set("reduce: no memory for the sum of this host's ranks");
		l->error = MPI_ERR_NO_MEM;
		return;
	}
	if (hier_node_phase(l, HDL_REDUCE, a->sendbuf, root ? result : sum.p, a))
		hier_leader_phase(l, l->alone ? a->sendbuf : root ? MPI_IN_PLACE : sum.p, result, a);
	hdl_scratch_put(&sum);
}

static void hier_allreduce(struct hier_call *l, const struct hdl_coll_args *a)
{
	const void *input = a->sendbuf == MPI_IN_PLACE && !l->is_leader ? a->recvbuf : a->sendbuf;

	if (hier_node_phase(l, HDL_REDUCE, input, l->is_leader ? a->recvbuf : NULL, a) &&
	    hier_leader_phase(l, l->alone ? a->sendbuf : MPI_IN_PLACE, a->recvbuf, a))
		hier_node_phase(l, HDL_BCAST, a->recvbuf, a->recvbuf, a);
}

int hdl_hier_run(struct hdl_cc *cc, const struct hdl_coll_args *a, const struct hdl_hier_phases *phases)
{
	struct hier_call l = { .comm = cc->comm, .node_comm = cc->node_comm, .phases = phases,
			       .alone = cc->node_comm->size == 1 };

	if (unlikely(cc->lost)) {
		hdl_ft_reason(cc, hdl_coll_name(a->coll));
		return MPI_ERR_PROC_ABORTED;
	}
	if (hdl_coll_has_root(a->coll)) {
		int root = hdl_comm_rank_of(l.node_comm, hdl_comm_proc(l.comm, a->root));

		l.leader = root == MPI_UNDEFINED ? 0 : root;
	}
	l.is_leader = l.node_comm->rank == l.leader;
	switch (a->coll) {
	case HDL_BARRIER: hier_barrier(&l, a); break;
	case HDL_BCAST: hier_bcast(&l, a); break;
	case HDL_REDUCE: hier_reduce(&l, a); break;
	default: hier_allreduce(&l, a);
	}
	return l.error;
}
