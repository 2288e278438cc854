/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows in reports. */
#include "rma/sync.h"

#include <string.h>

static const char *const flavors[] = {"MPI_Win_create", "MPI_Win_allocate", "MPI_Win_create_dynamic",
				      "MPI_Win_allocate_shared"};

/* Returns true if this window has memory that the device updates. */
static bool device_updates(const struct hdl_win *w)
{
	bool found = false;

	for (int r = 0; r < w->size && w->atomics; r++)
		found |= w->record[r].size && !(w->native && w->record[r].memory_at);
	return found;
}

#define DEVICE_TEXT	"device for aligned elements of 8 bytes (mpi_accumulate_granularity: atomic requests; the target takes " \
			"no part), "

/* Returns the reason for the choice of the window's agent. */
static const char *agent_text(const struct hdl_win *w)
{
	if (device_updates(w))
		return w->mapped ? DEVICE_TEXT "else cpu, by locks" : DEVICE_TEXT "else handler";
	if (w->native && w->granularity >= HDL_GRANULE_LEAST)
		return "cpu, by locks (mpi_accumulate_granularity; every rank has mapped the memory of every other)";
	if (w->native)
		return "cpu (every rank has mapped the memory of every other)";
	if (w->mapped)
		return "cpu, by locks (the memory is not in the fabric; the device moves it, the target takes no part)";
	return "handler (ranks are on several hosts or in several fabrics, or the device has no memory that ranks share: the "
	       "target's progress carries accumulates and locks out)";
}

static const char *lane_text(const struct hdl_win *w, int rank)
{
	const struct hdl_win_record *r = &w->record[rank];

	if (rank == w->rank)
		return "mapped (this rank)";
	if (w->dynamic)
		return w->mapped ? "device (regions by the owner's table)" :
				   "handler (regions of a rank whose table is not mapped)";
	if (!r->size)
		return "none (no memory)";
	if (w->target[rank] ? w->target[rank]->lane == HDL_LANE_MAPPED : w->native && r->memory_at)
		return "mapped (loads and stores)";
	return r->key_len ? "device (RDMA, or messages where no queue is direct)" : "handler (the memory is not registered)";
}

/* Prints by which way ranks of this host reach the device that updates the window's memory, if not by their lanes. */
static void report_agent_queues(const struct hdl_win *w, const char *label)
{
	int peers = 0, queues = 0;

	for (int r = 0; r < w->size; r++)
		if (hdl_win_is_agent_peer(w, r)) {
			peers++;
			queues += hdl_agent_stands(hdl_comm_ep(w->comm, r));
		}
	if (peers)
		fprintf(stderr, "heddle: rank %d: %s: this host's ranks accumulate by the device that leads to other hosts, too: "
			"%d of %d others have an agent queue%s\n", hdl_job.rank, label, queues, peers,
			queues < peers ? "; the rest asks the target's progress" : "");
}

void hdl_win_report(const struct hdl_win *w)
{
	char label[MPI_MAX_OBJECT_NAME + 16];
	int first = 0;

	if (!hdl_vars.report_transports)
		return;
	hdl_win_label(w, label);
	fprintf(stderr, "heddle: rank %d: %s of %s, %d ranks, %lld bytes here: accumulates by %s\n", hdl_job.rank, label,
		flavors[w->flavor - MPI_WIN_FLAVOR_CREATE], w->size, (long long)w->bytes, agent_text(w));
	if (w->granularity > 0 && w->granularity <= HDL_GRANULE_ATOMIC && !w->atomics && !w->native && w->size > 1)
		fprintf(stderr, "heddle: rank %d: %s: mpi_accumulate_granularity asks for the agent device, but %s\n",
			hdl_job.rank, label, w->dynamic ? "regions of a dynamic window are not registered for atomic requests" :
			!hdl_mr_has_atomics(hdl_mpi_tp, hdl_win_is_of_host(w))
				? "there is no device with atomic requests and connected queues towards all its ranks" :
			"some rank's memory is not registered for atomic requests (address and size must be multiples of 8)");
	if (w->atomics)
		report_agent_queues(w, label);
	if (w->helped)
		fprintf(stderr, "heddle: rank %d: %s: the helper thread serves it while this rank computes\n", hdl_job.rank,
			label);
	for (int r = 1; r <= w->size; r++) {
		if (r < w->size && !strcmp(lane_text(w, r), lane_text(w, first)))
			continue;
		fprintf(stderr, "heddle: rank %d: %s: put and get to rank%s %d to %d: %s\n", hdl_job.rank, label,
			r - first > 1 ? "s" : "", first, r - 1, lane_text(w, first));
		first = r;
	}
}

void hdl_rma_explain(FILE *out, bool several_hosts)
{
	uint64_t where;
	void *p = hdl_tp_share(hdl_mpi_tp, 1, &where);
	const char *shared = several_hosts ? "device (some ranks are on another host), mapped within a host" :
			     p ? "mapped (memory of the fabric: loads and stores of the origin)" :
			     "device (this device has no memory that ranks share)";
	const char *own = "device (the memory is the program's: RDMA, or messages where no queue is direct)";
	const char *handler = several_hosts ? "handler (some ranks are on another host: the target's progress)" :
					      "handler (this device has no memory that ranks share: the target's progress)";
	bool mapped = p && !several_hosts;

	/* without HEDDLE_DEVICE the device that leads to other hosts is not open here */
	bool unknown = several_hosts && !*hdl_vars.device, atomics = hdl_mr_has_atomics(hdl_mpi_tp, !several_hosts);

	hdl_tp_unshare(hdl_mpi_tp, p);
	fprintf(out, "%-24s  put and get: %s\n%-24s  accumulates: %s\n", "MPI_Win_allocate", shared, "",
		mapped ? "cpu (atomic instructions; elements longer than 8 bytes under a hashed lock)" : handler);
	fprintf(out, "%-24s  put and get: %s\n%-24s  accumulates: %s\n", "MPI_Win_allocate_shared",
		several_hosts ? "none: MPI_ERR_RMA_SHARED" : mapped ? shared :
		"mapped (a file in memory, which the ranks of a host map: loads and stores of the origin)", "",
		several_hosts ? "none" : "cpu (atomic instructions; elements longer than 8 bytes under a hashed lock)");
	fprintf(out, "%-24s  put and get: %s\n%-24s  accumulates: %s\n", "MPI_Win_create", own, "",
		mapped ? "cpu (the origin, under a hashed lock of the target's state block; the device moves the memory)" :
			 handler);
	fprintf(out, "%-24s  put and get: %s\n%-24s  accumulates: %s\n", "MPI_Win_create_dynamic",
		mapped ? "device (by the owner's table of regions)" : "handler (the owner knows its regions)", "",
		mapped ? "as MPI_Win_create" : handler);
	fprintf(out, "%-24s  accumulates to memory that is not mapped, aligned elements of 8 bytes: %s\n",
		"with a granularity of 8",
		unknown ? "device (atomic requests of the device that leads to other hosts, if it has them, and RC queues; all "
			  "ranks use that one. Address and size of each rank's memory are multiples of 8. Not dynamic windows)" :
		atomics ?
			"device (atomic requests; address and size of each rank's memory are multiples of 8. Not dynamic "
			"windows)" :
			"as without (no device with atomic requests and connected queues)");
	fprintf(out, "%-24s  locks: %s\n", "all", mapped ? "a word in the target's state block; the target takes no part" :
		"messages, which the target's progress answers");
}

void hdl_rma_dump(FILE *out)
{
	static const char *const has[] = { "", "waits for it", "holds it, shared,", "holds it, exclusive," };
	const struct hdl_win *w = hdl_rma_waits_win;
	const struct hdl_target *t = hdl_rma_waits_target;
	char label[MPI_MAX_OBJECT_NAME + 16];
	const struct hdl_win_state *s;
	double per_tick;

	if (!w)
		return;
	per_tick = (double)(monotonic_ns() - w->made_ns) / 1e9 / (double)(ticks() - w->made_ticks + 1);
	fprintf(out, "waits for the lock of rank %d of %s", t->rank, hdl_win_label(w, label));
	s = t->rank == w->rank ? w->state : t->state;
	for (int r = 0; s && r < w->size; r++) {
		uint64_t holds = __atomic_load_n(&s->member[r].holds, __ATOMIC_RELAXED);

		if (r != w->rank && holds)
			fprintf(out, "; rank %d %s since %.1f s", r, has[holds & 3],
				(double)((ticks() >> HDL_HOLDS_SHIFT) - (holds >> 18)) * (double)(1u << HDL_HOLDS_SHIFT) *
					per_tick);
	}
	fputc('\n', out);
}
