/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Members that have died. Queues tell only those that are connected to the dead one, and only of requests and receives that are
 * outstanding; the others would wait for what it owed for ever. So whoever has operations outstanding looks now and then at the
 * processes of all members, which are on this host, as direct and tasks are.
 *
 * A request that fails says that a queue is gone, and that may be one of a member that lives: it has seen the death first and has
 * freed the communicator. So nobody is named whose process lives. Where none has ended yet, the communicator is under suspicion:
 * nothing more is posted, until a member's end is seen, or SUSPECT_NS have passed.
 */
#include "collectives/offload.h"

#define LOOK_NS 500000000ull
#define SUSPECT_NS 1000000000ull
#define SUSPECT_LOOK_NS 20000000ull

static void lose(struct hdl_off *h, int peer)
{
	h->broken = true;
	h->suspect_ns = 0;
	h->lost = 1 + peer;
	hdl_error("offloaded collectives, communicator of %d ranks: rank %d of it (rank %d of MPI_COMM_WORLD, pid %u) has ended: look at "
		  "its output for why", h->size, peer, hdl_comm_world_rank(h->cc->comm, peer), h->peers[peer].proc.pid);
}

/* Looks at all members, at `first` before the others. Whether one has ended. */
static bool look(struct hdl_off *h, int first)
{
	for (int i = 0; i < h->size; i++) {
		int peer = (first + i) % h->size;

		if (peer == h->rank || hdl_proc_state(&h->peers[peer].proc) != HDL_PROC_ENDED)
			continue;
		lose(h, peer);
		return true;
	}
	return false;
}

void hdl_off_failed(struct hdl_off *h, const char *what, int peer, enum ibv_wc_status status)
{
	bool gone = peer != h->rank &&
		    (status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR || status == IBV_WC_FATAL_ERR);

	if (h->broken || h->suspect_ns)
		return;
	if (gone) {
		if (!look(h, peer))
			h->suspect_ns = monotonic_ns() + SUSPECT_NS;
		return;
	}
	h->broken = true;
	hdl_error("offloaded collectives, communicator of %d ranks: %s rank %d of it (rank %d of MPI_COMM_WORLD): %s", h->size, what,
		  peer, hdl_comm_world_rank(h->cc->comm, peer), ibv_wc_status_str(status));
}

/* Nothing is completed from here: the next turn of progress finds it broken. */
static void look_now(struct hdl_off *h, uint64_t now)
{
	if (look(h, 0) || !h->suspect_ns || now < h->suspect_ns)
		return;
	h->broken = true;
	h->suspect_ns = 0;
	hdl_error("offloaded collectives, communicator of %d ranks: a queue to another rank has failed, and no rank's process has "
		  "ended: one has freed the communicator, or the device has failed", h->size);
}

uint64_t hdl_off_timers(uint64_t now)
{
	static uint64_t next;
	bool suspects = false, turn = false, some = false;

	for (const struct hdl_off *h = hdl_off_active; h; h = h->next) {
		suspects |= h->suspect_ns != 0;
		some |= !h->broken;
	}
	if (!some)
		return 0;
	if (suspects && next > now + SUSPECT_LOOK_NS)
		next = now + SUSPECT_LOOK_NS;
	if (now < next)
		return next;
	next = now + (suspects ? SUSPECT_LOOK_NS : LOOK_NS);
	for (struct hdl_off *h = hdl_off_active; h; h = h->next)
		if (!h->broken && h->state == HDL_OFF_READY) {
			look_now(h, now);
			turn |= h->broken;
		}
	/* before this process sleeps, progress has to end what waits */
	return turn ? now : next;
}
