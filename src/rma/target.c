/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The windows of this process, and their members as this process addresses them: where a member's state block and memory are
 * mapped, and by which lane and key operations reach the memory.
 */
#include "rma/target.h"

#include <errno.h>
#include <stdlib.h>

struct hdl_pool hdl_wins = HDL_POOL(struct hdl_win, 32);
struct hdl_win *hdl_win_list;
static struct hdl_ep_note never_fails;
const struct hdl_ep_note hdl_rma_gone = { .failed = ECONNRESET };

bool hdl_win_is_local(const struct hdl_win *w, int rank)
{
	int proc = hdl_comm_proc(w->comm, rank);

	return hdl_proc_is_ours(proc) && hdl_is_local(proc);
}

bool hdl_win_is_of_host(const struct hdl_win *w)
{
	for (int r = 0; r < w->size; r++)
		if (!hdl_win_is_local(w, r))
			return false;
	return true;
}

bool hdl_win_is_agent_peer(const struct hdl_win *w, int rank)
{
	return rank != w->rank && hdl_win_is_local(w, rank) && w->record[rank].hints & HDL_WIN_AGENT_QUEUES;
}

bool hdl_win_has_ended(const struct hdl_win *w, int rank)
{
	int proc = hdl_comm_proc(w->comm, rank);
	const struct hdl_ep *ep = hdl_ep_find(hdl_mpi_tp, proc);

	return (hdl_rt_ended() && hdl_rt_has_ended(proc)) || (ep && hdl_ep_note((struct hdl_ep *)(uintptr_t)ep)->failed);
}

struct hdl_win_state *hdl_win_state_of(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	struct hdl_win_state *s;

	if (rank == w->rank)
		return w->state;
	if (w->segment)
		return (struct hdl_win_state *)(void *)(w->segment + r->state_at);
	if (!r->state_at || !hdl_proc_is_ours(hdl_comm_proc(w->comm, rank)) || !hdl_is_local(hdl_comm_proc(w->comm, rank)))
		return NULL;
	s = hdl_tp_shared_at(hdl_mpi_tp, r->state_at, sizeof(*s) + (size_t)w->size * sizeof(s->member[0]));
	/* a peer of another fabric: other memory is there */
	return s && __atomic_load_n(&s->nonce, __ATOMIC_ACQUIRE) == r->nonce ? s : NULL;
}

char *hdl_win_memory_of(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	void *p;

	if (rank == w->rank)
		return w->base;
	if (w->segment)
		return w->segment + r->memory_at;
	if (!r->memory_at || !hdl_win_state_of(w, rank))
		return NULL;
	p = hdl_tp_shared_at(hdl_mpi_tp, r->memory_at, r->size);
	/* a shared window's memory is rank 0's allocation, which may be this process's own */
	return p;
}

/* Chooses the lane of a target. Returns false without memory. */
static bool choose_lane(struct hdl_win *w, struct hdl_target *t)
{
	const struct hdl_win_record *r = &w->record[t->rank];
	struct hdl_ep *ep;

	if (t->rank == w->rank || (!w->dynamic && (t->memory || !r->size)))
		t->lane = HDL_LANE_MAPPED;
	else if (w->dynamic)
		t->lane = t->state ? HDL_LANE_DEVICE : HDL_LANE_HANDLER;
	else
		t->lane = r->key_len ? HDL_LANE_DEVICE : HDL_LANE_HANDLER;
	if (!t->atomics && (w->dynamic || t->lane != HDL_LANE_DEVICE))
		return true;
	/* this process's own memory, too: its updates meet those of other ranks in one device */
	ep = t->ep ? t->ep : hdl_ep(hdl_mpi_tp, t->proc);
	return ep && (t->key || !hdl_rkey_unpack(ep, r->key, r->key_len, &t->key));
}

#define GRANULE		10u		/* log2 of the bytes that a hashed lock covers */
#define GRANULE_FAR	15u		/* ... of memory that the device moves, and the most */

/* Returns log2 of the bytes that a hashed lock of a member covers. All origins must have the same result. */
static uint8_t granule_of(const struct hdl_win *w, const struct hdl_win_record *r)
{
	unsigned far = w->native && r->memory_at ? GRANULE : GRANULE_FAR, hint;

	if (w->granularity < HDL_GRANULE_LEAST)
		return (uint8_t)far;
	hint = r->granule - 1u;
	return (uint8_t)(hint < GRANULE_FAR ? hint : GRANULE_FAR);
}

bool hdl_target_settle(struct hdl_win *w, struct hdl_target *t)
{
	const struct hdl_win_record *r = &w->record[t->rank];

	t->state = t->rank == w->rank || w->mapped ? hdl_win_state_of(w, t->rank) : NULL;
	t->memory = w->dynamic ? NULL : hdl_win_memory_of(w, t->rank);
	t->native = w->native && r->memory_at && w->granularity < HDL_GRANULE_LEAST;
	t->atomics = w->atomics && r->size && !(w->native && r->memory_at);
	t->granule = granule_of(w, r);
	return choose_lane(w, t);
}

struct hdl_target *hdl_target_make(struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];
	struct hdl_target *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->rank = rank;
	t->proc = hdl_comm_proc(w->comm, rank);
	t->ep = rank == w->rank ? NULL : hdl_comm_ep(w->comm, rank);
	t->note = t->ep ? hdl_ep_note(t->ep) : &never_fails;
	t->size = w->dynamic ? UINT64_MAX : r->size;
	t->disp_unit = r->disp_unit;
	t->base = w->dynamic ? 0 : r->base;
	t->alone = w->size == 1;
	if (!hdl_target_settle(w, t)) {
		free(t);
		return NULL;
	}
	w->target[rank] = t;
	return t;
}
