/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocking collectives of ranks on several hosts, in stages: what goes up within each host, what the leaders of the hosts do among
 * themselves, what goes down within each host. The ranks of a host have a communicator of their own for it (hdl_cc's within), on which
 * its stages are collectives like any others, on mailbox or tasks as the host's device and ranks allow; the leaders' is a graph of messages,
 * the two-level one (hierarchical.c) without what is within hosts. Nonblocking and persistent ones are that graph as a whole: between hosts it
 * takes its ranks' progress anyway.
 *
 * All ranks make these communicators together, in the first such collective. Whatever fails for one rank of a host, or anywhere else
 * in the whole communicator, ends both (fault.c): a rank that waits in one of them may wait for the sake of the other.
 */
#include <stdio.h>

#include "collectives/internal.h"
#include "collectives/select/tuner.h"

struct levels {
	struct hdl_comm *comm, *within;
	const struct hdl_hier_phases *phases;
	int lead;			/* the leader's rank in within: the root, where it is on this host, else 0 */
	bool leads, alone;
	int error;			/* MPI error class: this rank's, in the last stage that it was in */
};

bool hdl_hier_has(const struct hdl_plan_key *key)
{
	return key->blocking && (key->coll == HDL_BARRIER || key->coll == HDL_BCAST || key->coll == HDL_REDUCE || key->coll == HDL_ALLREDUCE);
}

/* MPI error class. */
static int make_within(struct hdl_cc *cc, int host)
{
	struct hdl_comm *comm = cc->comm, *within;
	int rc = hdl_comm_split(comm, host, comm->rank, &within);

	if (rc)
		return rc;
	within->obj.magic = 0;		/* no handle */
	snprintf(within->name, sizeof(within->name), "communicator #%u's ranks of one host", comm->context / 2u);
	cc->node_comm = within;
	if (!hdl_coll_state(within)) {
		hdl_coll_no_memory(comm);
		hdl_reason_set("no memory for the communicator of this host's ranks");
		return MPI_ERR_NO_MEM;
	}
	((struct hdl_cc *)within->coll)->node_of = cc;
	return MPI_SUCCESS;
}

bool hdl_hier_ready(struct hdl_cc *cc, const struct hdl_hosts *hosts, int *rc)
{
	if (cc->node_comm || cc->no_node_comm)
		return cc->node_comm;
	*rc = cc->lost ? MPI_SUCCESS : make_within(cc, hdl_hosts_of_place(hosts, hdl_hosts_place(hosts, cc->comm->rank)));
	/* the one thing that all ranks lack together: context ids */
	if (*rc == MPI_ERR_OTHER) {
		cc->no_node_comm = true;
		*rc = MPI_SUCCESS;
	}
	return !*rc && cc->node_comm;
}

/* ---- the stages --------------------------------------------------------------------------------------------------- */

/* A message of another length than this rank's arguments promise, or a buffer that cannot be reached, is its error, and of those that would have its data from it: it goes on,
 * lest others wait. Anything else ends the communicator. False: there are no more stages. */
static bool hier_goes_on(struct levels *l, int rc)
{
	struct hdl_cc *cc = l->comm->coll;

	if (likely(!rc))
		return true;
	l->error = rc;
	if (hdl_is_of_arguments(rc))
		return true;
	if (l->leads && !cc->lost) {
		hdl_ft_give_up(l->comm, "a stage of it has failed on the rank that leads its host: see its error");
		hdl_ft_progress();
	}
	return false;
}

static bool hier_within_host(struct levels *l, enum hdl_coll coll, const void *send, void *recv, const struct hdl_coll_args *a)
{
	const struct hdl_coll_args args = { .coll = coll, .sendbuf = send, .recvbuf = recv, .sendcount = a->recvcount,
					    .recvcount = a->recvcount, .sendtype = a->recvtype, .recvtype = a->recvtype,
					    .op = coll == HDL_BCAST ? MPI_OP_NULL : a->op, .root = l->lead };

	return l->alone || hier_goes_on(l, l->phases->node(l->within, &args, l->error));
}

/* The other ranks count it as well. */
static bool hier_between_hosts(struct levels *l, const void *send, void *recv, const struct hdl_coll_args *a)
{
	struct hdl_coll_args args = *a;

	if (!l->leads) {
		((struct hdl_cc *)l->comm->coll)->seq++;
		return true;
	}
	args.sendbuf = send;
	args.recvbuf = recv;
	return hier_goes_on(l, l->phases->leaders(l->comm, &args, l->error));
}

static void hier_barrier(struct levels *l, const struct hdl_coll_args *a)
{
	char in = 0, out = 0;
	const struct hdl_coll_args word = { .recvcount = 1, .recvtype = hdl_type_get(MPI_BYTE), .op = MPI_BOR };

	if (hier_within_host(l, HDL_REDUCE, &in, &out, &word) && hier_between_hosts(l, NULL, NULL, a))
		hier_within_host(l, HDL_BCAST, &in, &in, &word);
}

static void hier_bcast(struct levels *l, const struct hdl_coll_args *a)
{
	if (hier_between_hosts(l, a->sendbuf, a->recvbuf, a))
		hier_within_host(l, HDL_BCAST, a->recvbuf, a->recvbuf, a);
}

static void hier_reduce(struct levels *l, const struct hdl_coll_args *a)
{
	bool root = l->comm->rank == a->root;
	void *result = root ? a->recvbuf : NULL;
	struct hdl_scratch sum = { 0 };

	if (l->leads && !root && !l->alone && hdl_scratch_get(&sum, (size_t)a->recvcount * (size_t)hdl_type_extent(a->recvtype))) {
		hdl_coll_no_memory(l->comm);
		hdl_reason_set("reduce: no memory for the sum of this host's ranks");
		l->error = MPI_ERR_NO_MEM;
		return;
	}
	if (hier_within_host(l, HDL_REDUCE, a->sendbuf, root ? result : sum.p, a))
		hier_between_hosts(l, l->alone ? a->sendbuf : root ? MPI_IN_PLACE : sum.p, result, a);
	hdl_scratch_put(&sum);
}

static void hier_allreduce(struct levels *l, const struct hdl_coll_args *a)
{
	const void *input = a->sendbuf == MPI_IN_PLACE && !l->leads ? a->recvbuf : a->sendbuf;

	if (hier_within_host(l, HDL_REDUCE, input, l->leads ? a->recvbuf : NULL, a) &&
	    hier_between_hosts(l, l->alone ? a->sendbuf : MPI_IN_PLACE, a->recvbuf, a))
		hier_within_host(l, HDL_BCAST, a->recvbuf, a->recvbuf, a);
}

int hdl_hier_run(struct hdl_cc *cc, const struct hdl_coll_args *a, const struct hdl_hier_phases *phases)
{
	struct levels l = { .comm = cc->comm, .within = cc->node_comm, .phases = phases, .alone = cc->node_comm->size == 1 };

	if (unlikely(cc->lost)) {
		hdl_ft_reason(cc, hdl_coll_name(a->coll));
		return MPI_ERR_PROC_ABORTED;
	}
	if (hdl_coll_has_root(a->coll)) {
		int root = hdl_comm_rank_of(l.within, hdl_comm_proc(l.comm, a->root));

		l.lead = root == MPI_UNDEFINED ? 0 : root;
	}
	l.leads = l.within->rank == l.lead;
	switch (a->coll) {
	case HDL_BARRIER: hier_barrier(&l, a); break;
	case HDL_BCAST: hier_bcast(&l, a); break;
	case HDL_REDUCE: hier_reduce(&l, a); break;
	default: hier_allreduce(&l, a);
	}
	return l.error;
}
