/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that are lost, and who is told so that waits for this one: see fault.h. */
#include "p2p/fault/fault.h"
#include "p2p/comm/comm_cid.h"
#include "p2p/match.h"

#include <stdlib.h>

struct hdl_ft_record *hdl_losses;
unsigned hdl_nlosses, hdl_ft_records_told;

static bool asked;		/* leaders may wait who have not been answered */

unsigned hdl_ft_record_at(int proc)
{
	struct hdl_ft_record *more;
	unsigned i = 0;

	while (i < hdl_nlosses && hdl_losses[i].proc != proc)
		i++;
	if (i < hdl_nlosses)
		return i;
	more = realloc(hdl_losses, (hdl_nlosses + 1) * sizeof(*more));
	if (!more)
		hdl_out_of_memory("noting that a rank has failed", (hdl_nlosses + 1) * sizeof(*more));
	hdl_losses = more;
	hdl_losses[hdl_nlosses++] = (struct hdl_ft_record){ .proc = proc };
	return i;
}

/* The list may move: its place is read after that. */
struct hdl_ft_record *hdl_ft_record(int proc)
{
	unsigned at = hdl_ft_record_at(proc);

	return &hdl_losses[at];
}

void hdl_proc_note_lost(int proc)
{
	hdl_ft_record_at(proc);
}

void hdl_proc_note_gave_up(int proc)
{
	hdl_ft_record(proc)->lives = true;
}

bool hdl_proc_gave_up(int proc)
{
	for (unsigned i = 0; i < hdl_nlosses; i++)
		if (hdl_losses[i].proc == proc)
			return hdl_losses[i].lives;
	return false;
}

/* ---- who is told --------------------------------------------------------------------------------------- */

struct waiting {
	struct waiting *next;
	int proc;
	uint16_t context;
};

static void note_waiting(const struct hdl_unexpected *u, void *arg)
{
	struct waiting **list = arg, *w;

	if (!hdl_cid_is_leader_link(u->context, u->tag) || hdl_cid_crosses(u->context, u->src, u->tag))
		return;
	w = malloc(sizeof(*w));
	if (!w)
		hdl_out_of_memory("telling a leader that a rank has failed", sizeof(*w));
	*w = (struct waiting){ *list, u->src, u->context };
	*list = w;
}

static struct {
	int proc;
	struct hdl_comm *comm;
} sought;

static void is_way(struct hdl_comm *comm)
{
	if (hdl_comm_rank_of(comm, sought.proc) != MPI_UNDEFINED)
		sought.comm = comm;
}

/* By any communicator that leads there: the one of its words may have been freed here. */
static void ft_record_answer(const struct waiting *w)
{
	sought.proc = w->proc;
	sought.comm = NULL;
	hdl_comm_each(is_way);
	for (unsigned i = 0; sought.comm && i < hdl_ft_records_told; i++) {
		int proc = hdl_losses[i].proc;

		if (proc != w->proc)
			hdl_send_lost(hdl_comm_rank_of(sought.comm, w->proc), sought.comm, w->context, proc,
				      hdl_ep_process(hdl_mpi_tp, proc) == HDL_PROC_ENDED);
	}
}

static int ft_record_progress(void *arg)
{
	struct waiting *list = NULL, *w;

	(void)arg;
	if (likely(!asked))
		return 0;
	asked = false;
	hdl_match_each_unexpected(hdl_mpi_matching, note_waiting, &list);
	while ((w = list)) {
		list = w->next;
		ft_record_answer(w);
		free(w);
	}
	return 1;
}

void hdl_ft_records_asked(void)
{
	asked = true;
}

void hdl_ft_records_tell_program(void)
{
	if (hdl_ft_records_told == hdl_nlosses)
		return;
	if (!hdl_ft_records_told && hdl_tp_progress_add(hdl_mpi_tp, ft_record_progress, NULL))
		hdl_out_of_memory("noting that a rank has failed", sizeof(void *));
	hdl_ft_records_told = hdl_nlosses;
	asked = true;		/* some may wait already */
}

void hdl_ft_records_reset(void)
{
	free(hdl_losses);
	hdl_losses = NULL;
	hdl_nlosses = hdl_ft_records_told = 0;
	asked = false;
}
