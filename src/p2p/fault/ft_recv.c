/* SPDX-License-Identifier: BSD-3-Clause */
/* Failure notices (fault.h): receiving. */
#include "p2p/comm/comm_cid.h"
#include "p2p/fault/fault.h"
#include "p2p/match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void hdl_ft_on_message(bool (*fn)(uint16_t context, int proc, bool by_message))
{
	hdl_mpi_matching->on_failed = fn;
}

/* Returns the process that the message names; -1: that process is not known here. */
static int ft_named_proc(int src, int tag, size_t len, const void *data)
{
	uint64_t job = hdl_proc_job(src);

	if (len == sizeof(job))
		memcpy(&job, data, sizeof(job));
	return hdl_proc_of(job, (uint32_t)(tag & HDL_FT_RANK));
}

/* The failed process is recorded even if the communicator of the context does not exist here yet, or was freed. */
bool hdl_ft_message(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, size_t len, const void *payload)
{
	int proc = ft_named_proc(src, hdr->tag, len, payload);

	if (proc >= 0 && hdr->tag & HDL_FT_ENDED)
		hdl_rt_note_ended(proc);
	if (proc >= 0)
		hdl_ft_record_failed(proc);
	if (proc >= 0 && hdr->tag & HDL_FT_ALIVE)
		hdl_proc_note_gave_up(proc);
	if (hdr->context == HDL_CONTEXT_GROUPS && proc >= 0)
		hdl_cid_note_failed(proc);
	else if (proc >= 0)
		hdl_cid_peer_knows(hdr->context, src, proc);
	return hdr->context == HDL_CONTEXT_GROUPS || (m->on_failed && m->on_failed(hdr->context, proc, true));
}

struct ft_fetch {
	struct hdl_fetch fetch;
	void (*arrived)(void *context, int src, const struct hdl_hdr *hdr, const void *payload);
	struct hdl_matching *m;
	struct hdl_hdr hdr;
	int src;
	uint64_t job;
};

static void ft_fetched(struct hdl_fetch *fetch, int err)
{
	struct ft_fetch *l = container_of(fetch, struct ft_fetch, fetch);

	if (!err)
		l->arrived(l->m, l->src, &l->hdr, &l->job);
	else if (err == -ENOBUFS)		/* a side had no memory for the rendezvous */
		hdl_out_of_memory("a message about a rank that has failed", sizeof(l->job));
	free(l);
}

/* The message is announced if HEDDLE_EAGER_MAX is less than its 8 bytes, or if this process has sent HDL_CTL_HOLD to its sender,
 * which waits for the fetch. Without memory for the fetch the job ends: a failure notice is sent once, and a rank without the
 * notice may wait for the failed process for ever. */
void hdl_ft_fetch(struct hdl_matching *m, int src, const struct hdl_hdr *hdr, const void *rts,
		  void (*arrived)(void *context, int src, const struct hdl_hdr *hdr, const void *payload))
{
	struct ft_fetch *l = calloc(1, sizeof(*l));
	uint64_t len = hdl_msg_len(hdr, rts);
	int err;

	if (!l)
		hdl_out_of_memory("a message about a rank that has failed", sizeof(*l));
	l->fetch.done = ft_fetched;
	l->arrived = arrived;
	l->m = m;
	l->src = src;
	l->hdr = *hdr;
	l->hdr.kind = HDL_EAGER;
	l->hdr.len = len < sizeof(l->job) ? (uint32_t)len : (uint32_t)sizeof(l->job);
	err = hdl_ep_fetch(hdl_ep(m->tp, src), rts, &l->job, l->hdr.len, &l->fetch);
	if (!err)
		return;
	free(l);
	if (is_passing_error(-err) && !hdl_ep_note(hdl_ep(m->tp, src))->failed)
		hdl_out_of_memory("a message about a rank that has failed", sizeof(*l));
}

int hdl_ft_waiting_notice(struct hdl_comm *comm)
{
	uint16_t context = (uint16_t)(comm->context + 1);

	for (const struct hdl_unexpected *u = comm->matching->contexts[context].first; u; u = u->after) {
		int proc = hdl_ft_is_message(context, u->tag) ? ft_named_proc(u->src, u->tag, u->len, u->data) : -1;

		if (proc >= 0 && hdl_comm_has(comm, proc))
			return proc;
	}
	return -1;
}
