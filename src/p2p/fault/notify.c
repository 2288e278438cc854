/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends failure notices to leaders of an intercommunicator that wait for this rank (scenario: fault.h). */
#include "p2p/comm/comm_cid.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"

#include <stdlib.h>

/* unexpected bitmaps of leaders may lie here that have not been answered since hdl_ft_reported changed */
static bool pending;

struct waiting_leader {
	struct waiting_leader *next;
	int proc;
	uint16_t context;		/* of the leader link */
};

static void notify_collect(const struct hdl_unexpected *u, void *arg)
{
	struct waiting_leader **list = arg, *w;

	if (!hdl_cid_is_leader_link(u->context, u->tag) || hdl_cid_has_link(u->context, u->src, u->tag))
		return;
	w = malloc(sizeof(*w));
	if (!w)
		hdl_out_of_memory("telling a leader that a rank has failed", sizeof(*w));
	*w = (struct waiting_leader){ *list, u->src, u->context };
	*list = w;
}

static struct {			/* of hdl_comm_each, which takes no argument */
	int proc;
	struct hdl_comm *comm;
} search;

static void notify_match_comm(struct hdl_comm *comm)
{
	if (hdl_comm_rank_of(comm, search.proc) != MPI_UNDEFINED)
		search.comm = comm;
}

/* Sends on any communicator that has the leader: the link's communicator may have been freed here. */
static void notify_leader(const struct waiting_leader *w)
{
	search.proc = w->proc;
	search.comm = NULL;
	hdl_comm_each(notify_match_comm);
	for (unsigned i = 0; search.comm && i < hdl_ft_reported; i++) {
		int proc = hdl_ft_list[i].proc;

		if (proc != w->proc)
			hdl_ft_send_notice(hdl_comm_rank_of(search.comm, w->proc), search.comm, w->context, proc,
				      hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED);
	}
}

static int notify_progress(void *arg)
{
	struct waiting_leader *list = NULL, *w;

	(void)arg;
	if (likely(!pending))
		return 0;
	pending = false;
	hdl_match_each_unexpected(hdl_mpi_matching, notify_collect, &list);
	while ((w = list)) {
		list = w->next;
		notify_leader(w);
		free(w);
	}
	return 1;
}

void hdl_ft_leader_waits(void)
{
	pending = true;
}

void hdl_ft_records_tell_program(void)
{
	if (hdl_ft_reported == hdl_ft_count)
		return;
	if (!hdl_ft_reported && hdl_tp_progress_add(hdl_mpi_tp, notify_progress, NULL))
		hdl_out_of_memory("noting that a rank has failed", sizeof(void *));
	hdl_ft_reported = hdl_ft_count;
	pending = true;		/* bitmaps that arrived before this error are answered, too */
}

void hdl_ft_notify_reset(void)
{
	pending = false;
}
