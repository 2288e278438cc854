/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of an instance; the hooks by which lower files call higher ones (struct hdl_hooks). */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/fd.h"
#include "transport/core/active.h"
#include "transport/core/tp.h"

/* ---- hooks ----------------------------------------------------------------------------------------------------- */

static void chunk_written(struct hdl_tp *tp, void *p, int err)
{
	(void)tp;
	hdl_rndv_chunk_done(p, err);
}

static void chunk_read(struct hdl_tp *tp, void *p, int err)
{
	hdl_rndv_read_done(tp, (uint32_t)(uintptr_t)p, err);
}

static void rma_part_done(struct hdl_tp *tp, void *p, int err)
{
	(void)tp;
	hdl_rma_part_done(p, err);
}

static bool rma_refused(struct hdl_tp *tp, const struct hdl_slot *slot)
{
	(void)tp;
	return ((const struct hdl_rma *)slot->ptr)->err;
}

/* A peer that sends much by other lanes gets a ring; if the peer's ring here is out of use because this process has sent SLEEP,
 * the peer is sent AWAKE. */
static void slow_lane(struct hdl_ep *ep)
{
	if (ep->rx_state == HDL_RX_NONE)
		hdl_ring_consider(ep);
	else if (ep->sleep_sent)
		hdl_idle_awake(ep);
}

static void queue_reset(struct hdl_tp *tp, void *p, int err)
{
	(void)tp;
	(void)err;
	hdl_sq_reset(p);
}

static void ep_end(struct hdl_tp *tp, void *p, int err)
{
	(void)tp;
	(void)err;
	hdl_ep_end(p);
}

static const struct hdl_request_type request_types[HDL_SLOT_TYPES] = {
	[HDL_SLOT_RNDV] = { .done = chunk_written, .refusal = hdl_rndv_refusal, .refused = hdl_rndv_is_refused },
	[HDL_SLOT_READ] = { .done = chunk_read, .refusal = hdl_rndv_refusal, .refused = hdl_rndv_is_refused },
	[HDL_SLOT_RMA] = { .done = rma_part_done, .refusal = hdl_rma_refusal, .refused = rma_refused },
};

static const struct hdl_hooks hooks = {
	.request = request_types,
	.control = hdl_control_arrived,
	.slow_lane = slow_lane,
	.refuse = hdl_ep_refuse,
	.connect = hdl_ep_connect,
	.conn_arrived = hdl_wire_arrived,
	.conn_announce = hdl_wire_announce,
	.queue_broke = hdl_wire_broke,
	.queue_reset = queue_reset,
	.ep_end = ep_end,
	.ep_is_silent = hdl_peer_is_silent,
	.poll_rcq = hdl_tp_poll_rcq,
	.progress_add = hdl_tp_progress_add,
};

/* ---- start and end --------------------------------------------------------------------------------------------- */

static int add_device(struct hdl_tp *tp, const char *name, enum hdl_role role)
{
	struct hdl_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return hdl_no_memory("a device", sizeof(*dev));
	dev->tp = tp;
	tp->dev[tp->ndev++] = dev;	/* hdl_tp_fini closes a half-opened device */
	return hdl_dev_open(dev, name, role, tp->allowed);
}

static int open_devices(struct hdl_tp *tp)
{
	struct hdl_device_names names;
	int err = hdl_device_names(hdl_vars.device, &names);

	if (err)
		return err;
	if (names.n == 1)
		return add_device(tp, names.name[0], HDL_ROLE_ANY);
	err = add_device(tp, names.n ? names.name[0] : NULL, HDL_ROLE_LOCAL);
	if (!err && (names.n || hdl_job.local))
		err = add_device(tp, names.n ? names.name[1] : NULL, HDL_ROLE_REMOTE);
	return err;
}

static void destroy_all(struct hdl_tp *tp)
{
	tp->closing = true;
	hdl_fd_waker_close(&tp->fd_waker);
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (!ep)
			continue;
		hdl_ring_drop(ep);
		hdl_wire_close(ep);
	}
	for (int i = 0; i < tp->ndev; i++)
		hdl_dev_stop(tp->dev[i]);
	hdl_peers_free(tp);
	hdl_addresses_fini(tp);
	hdl_regcache_close(tp);
	hdl_rma_close(tp);
	hdl_share_close(tp);
	hdl_mem_close(tp);
	for (int i = 0; i < tp->ndev; i++) {
		hdl_dev_close(tp->dev[i]);
		free(tp->dev[i]);
	}
	free(tp->rings);
	free(tp->done);
	free(tp->sqs);
	free(tp->extra);
	free(tp->sends.e);
	free(tp->fetches.e);
	free(tp->handlers);
	free(tp->rmas.e);
	free(tp->mrs.e);
	hdl_tune_fini(&tp->tune);
	hdl_autotune_free(tp->yield_tune);
	if (tp->wake_fd >= 0)
		close(tp->wake_fd);
	hdl_regcache_free(tp);
	free(tp);
}

/* Refuses values with which the transport would not terminate, or would overflow a counter. 0 or -EINVAL, reported. */
static int check_vars(void)
{
	if (hdl_vars.eager_max > (size_t)1 << 30)
		hdl_error("HEDDLE_EAGER_MAX=%zu: at most 1g, for every pooled receive is of this size", hdl_vars.eager_max);
	else if (hdl_srq_room() < HDL_SRQ_LEAST)
		hdl_error("HEDDLE_EAGER_MAX=%zu: each process keeps at least %d receives of this size posted, and those of this "
			  "host's %d processes may take a quarter of its memory: at most %zu here",
			  hdl_vars.eager_max, HDL_SRQ_LEAST, hdl_job.local_size,
			  hdl_srq_memory() / HDL_SRQ_LEAST - HDL_WIRE_MOST);
	else if (!hdl_vars.rndv_chunk)
		hdl_error("HEDDLE_RNDV_CHUNK=0: an RDMA write of a rendezvous carries at least 1 byte");
	else if (hdl_vars.sq_depth > 1 << 20)
		hdl_error("HEDDLE_SQ_DEPTH=%d: at most %d requests", hdl_vars.sq_depth, 1 << 20);
	else
		return 0;
	return -EINVAL;
}

/* Reports values that are used otherwise than given. */
static void report_adjusted(struct hdl_tp *tp)
{
	uint32_t depth = hdl_sq_depth((uint32_t)hdl_vars.sq_depth), lines = hdl_ring_share();
	size_t largest = hdl_ring_max(lines) < tp->ring_most ? hdl_ring_max(lines) : tp->ring_most;

	if (depth != (uint32_t)hdl_vars.sq_depth)
		hdl_vars_adjusted("HEDDLE_SQ_DEPTH", depth, "a send queue has a power of two of requests, at least 16");
	if (hdl_vars.srq_depth < HDL_SRQ_LEAST)
		hdl_vars_adjusted("HEDDLE_SRQ_DEPTH", HDL_SRQ_LEAST,
				  "fewer receives could not hold the messages under way (UD: 64)");
	else if ((uint64_t)hdl_vars.srq_depth > hdl_srq_room())
		hdl_vars_adjusted(
			"HEDDLE_SRQ_DEPTH", hdl_srq_room(),
			"the pools of this host's processes, of receives of HEDDLE_EAGER_MAX, take a quarter of its memory at "
			"most");
	if (hdl_vars.dci_count < 1)
		hdl_vars_adjusted("HEDDLE_DCI_COUNT", 1, "DC needs an initiator; HEDDLE_TRANSPORT forbids a kind");
	if (hdl_vars.ring_size && lines < HDL_RING_LINES_MIN)
		hdl_vars_adjusted("HEDDLE_RING_SIZE", 0, "a ring has at least 512 bytes, so there are none");
	else if ((size_t)lines * HDL_LINE < hdl_vars.ring_size / HDL_LINE * HDL_LINE)
		hdl_vars_adjusted("HEDDLE_RING_SIZE", (uint64_t)lines * HDL_LINE,
				  "so much of HEDDLE_RING_MEMORY there is for each of the peers (HEDDLE_RING_PEERS)");
	if (hdl_vars.ring_size && lines >= HDL_RING_LINES_MIN && largest < hdl_vars.ring_max)
		hdl_vars_adjusted("HEDDLE_RING_MAX", largest,
				  "at most 24 times HEDDLE_EAGER_MAX, and three eighths of a ring (HEDDLE_RING_SIZE)");
}

/* The header of a frame has 32 bits for the length. */
static uint32_t frame_max(size_t by_eager)
{
	size_t most = hdl_vars.ring_max < by_eager ? hdl_vars.ring_max : by_eager;

	return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

static void name_self(struct hdl_tp *tp)
{
	struct hdl_name *self = &tp->self;

	self->rank = (uint32_t)hdl_job.rank;
	self->job = hdl_job_id(hdl_job.nspace);
	if (getrandom(&self->incarnation, sizeof(self->incarnation), 0) != sizeof(self->incarnation))
		self->incarnation = monotonic_ns() ^ (uint64_t)getpid() << 40;
}

static int open_all(struct hdl_tp *tp)
{
	char bad[32];
	unsigned reserved;
	int err;

	if (hdl_queue_parse(hdl_vars.transport, &tp->allowed, bad, sizeof(bad))) {
		static const char *const known[] = { "rc", "ud", "xrc", "dc", NULL };
		const char *near = hdl_nearest(bad, known);
		hdl_error("HEDDLE_TRANSPORT=%s: there is no queue kind \"%s\"%s%s%s; the kinds are rc, ud, xrc, dc",
			  hdl_vars.transport, bad, near ? " (did you mean \"" : "", near ? near : "",
			  near ? "\"?)" : "");
		return -EINVAL;
	}
	tp->ways = hdl_ways_parse(hdl_vars.rendezvous);
	if ((err = check_vars()))
		return err;
	name_self(tp);
	if ((err = hdl_wire_find_alike(tp)))
		return err;
	tp->rng = tp->self.incarnation;
	/* a lower HEDDLE_EAGER_MAX limits the unexpected bytes of every lane, the ring included */
	tp->ring_max = frame_max(2 * hdl_vars.eager_max);
	tp->ring_most = frame_max(24 * hdl_vars.eager_max);
	report_adjusted(tp);
	tp->wake_fd = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (tp->wake_fd < 0) {
		err = errno;
		hdl_error("no descriptor can be had to wake this process with (%s): raise the limit (ulimit -n)",
			  strerror(err));
		return -err;
	}
	reserved = fd_reserve();
	err = open_devices(tp);
	fd_release(reserved);
	if (!err)
		hdl_counters_begin(tp);
	if (!err)
		err = hdl_idle_open(tp);
	if (!err)
		err = hdl_regcache_open(tp);
	if (!err)
		err = hdl_rma_open(tp);
	if (!err)
		err = hdl_rma_open_target(tp);
	if (!err && !tp->up.unpublished)
		err = hdl_wire_publish(tp);
	return err;
}

int hdl_tp_init(const struct hdl_upcalls *up, struct hdl_tp **instance)
{
	struct hdl_tp *tp;
	int err;

	if (posix_memalign((void **)&tp, 64, sizeof(*tp)))
		return hdl_no_memory("the transport", sizeof(*tp));
	memset(tp, 0, sizeof(*tp));
	tp->wake_fd = -1;
	tp->hooks = &hooks;
	tp->up = *up;
	err = open_all(tp);
	if (err)
		destroy_all(tp);
	else
		*instance = tp;
	return err;
}

/* Returns true if nothing is owed to the peer, which has failed or departed. */
static bool is_gone(const struct hdl_ep *ep)
{
	return ep->failed || ep->departed;
}

static bool some_busy(struct hdl_tp *tp)
{
	const struct hdl_ep *ep = tp->busy;

	while (ep && is_gone(ep))
		ep = ep->busy_next;
	return ep;
}

static bool progress_quiet(struct hdl_tp *tp)
{
	bool q = !some_busy(tp) && !tp->sends.used && !tp->fetches.used && !tp->rma_open && !tp->ndone;

	for (struct hdl_ep *ep = tp->timers; ep; ep = ep->timer_next)
		if (ep->rel && !hdl_rel_idle(ep->rel) && !is_gone(ep))
			q = false;
	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (!ep || is_gone(ep))
			continue;
		if (hdl_ep_replaced(ep))
			q = false;
		if (!ep->sq || hdl_sq_is_dead(ep->sq))
			continue;
		if (ep->sq->head != ep->sq->tail) {
			hdl_sq_flush(ep->sq, ep);
			q = false;
		}
	}
	return q;
}

/* A turn of progress in MPI_Finalize, which yields if nothing was done. Returns whether something was. */
static bool settle_turn(struct hdl_tp *tp)
{
	hdl_ud_acks(tp);
	if (hdl_tp_progress(tp))
		return true;
	sched_yield();
	return false;
}

/* Waits until no operation that this process has begun is under way. */
static void progress_settle(struct hdl_tp *tp)
{
	unsigned idle = 0;

	while (!progress_quiet(tp)) {
		hdl_ud_acks(tp);
		if (hdl_tp_progress(tp))
			idle = 0;
		else
			hdl_tp_idle(tp, &idle);
	}
}

/* The same for a short while: the remaining operations belong to a peer that does not answer, or to another thread. */
static void progress_settle_briefly(struct hdl_tp *tp)
{
	enum { SHORT_NS = 200000000 };
	uint64_t deadline = monotonic_ns() + SHORT_NS;

	while (!progress_quiet(tp) && monotonic_ns() < deadline)
		settle_turn(tp);
}

/* Before the fence. An executor's operation may be announced to a rank that never begins the same: its sends are waited for
 * behind the fence (end_executors). */
static void settle_before_fence(struct hdl_tp *tp)
{
	if (tp->under_way)
		progress_settle_briefly(tp);
	else
		progress_settle(tp);
}

/* All ranks are in MPI_Finalize, or this process leaves alone. Lets the executors' operations go on as long as they make
 * progress: a rank whose operation is complete owes nothing to the other ranks. An operation that some rank has not begun never
 * makes progress. all_there false: a rank ended before the fence, so the executors go on detecting and reporting failures. */
static void end_executors(struct hdl_tp *tp, bool all_there)
{
	enum { STILL_NS = 1000000000 };
	uint64_t deadline = monotonic_ns() + STILL_NS;

	if (!tp->under_way)
		return;
	if (all_there)
		tp->exec_timers = NULL;
	while (tp->under_way(all_there) && monotonic_ns() < deadline)
		if (settle_turn(tp))
			deadline = monotonic_ns() + STILL_NS;
	tp->under_way = NULL;
	tp->end_executors();
	progress_settle_briefly(tp);
}

/* Peers to which LEAVE or STAY goes. A peer without a message has no connection, and one made for this might find the peer gone:
 * that peer would never answer. */
static bool leave_others(const struct hdl_ep *ep)
{
	return !hdl_proc_is_ours(ep->rank) && !ep->failed && !hdl_ep_is_unused(ep);
}

/* Of these, the peers with which this process has no communicator any more. Both sides have called MPI_Comm_disconnect, so a peer
 * may go on without a turn of progress for as long as it likes: its acknowledgement of LEAVE is not waited for. */
static bool leave_disconnected(const struct hdl_ep *ep)
{
	return leave_others(ep) && hdl_job_of(ep->rank)->left;
}

static bool leave_connected(const struct hdl_ep *ep)
{
	return leave_others(ep) && !hdl_job_of(ep->rank)->left;
}

static bool leave_all(const struct hdl_ep *ep)
{
	return !is_gone(ep) && ep->rank != hdl_job.rank && !hdl_ep_is_unused(ep);
}

static bool leave_staying(const struct hdl_ep *ep)
{
	return ep->stays && !is_gone(ep);
}

/* Sends LEAVE or STAY to the peers that `to` names. Returns whether any was sent. */
static bool send_parting(struct hdl_tp *tp, enum hdl_ctl_kind kind, bool (*to)(const struct hdl_ep *ep))
{
	bool some = false;

	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];

		if (!ep || !to(ep))
			continue;
		hdl_ep_ctl(ep, kind, NULL, 0, false);	/* unordered: everything sent before LEAVE has been acknowledged */
		some = true;
	}
	return some;
}

static void init_report_and_destroy(struct hdl_tp **instance)
{
	struct hdl_tp *tp = *instance;

	if (hdl_vars.report_transports)
		hdl_report_transports(tp, stderr);
	*instance = NULL;	/* a signal handler may read *instance at any time */
	destroy_all(tp);
}

int hdl_tp_fini(struct hdl_tp **instance)
{
	struct hdl_tp *tp = *instance;
	uint64_t pause_us = 50;
	int fenced;

	if (!tp)
		return 0;
	settle_before_fence(tp);
	/* the fence does not include other jobs: their processes go on, and this process's end is no error there */
	if (send_parting(tp, HDL_CTL_LEAVE, leave_connected))
		settle_before_fence(tp);
	if (send_parting(tp, HDL_CTL_LEAVE, leave_disconnected))
		progress_settle_briefly(tp);
	/* Peers may still need acknowledgements from here (a lost one is asked for again): progress goes on until all have
	 * entered the fence. */
	hdl_ud_acks(tp);
	tp->leaving = true;
	fenced = hdl_rt_fence_begin();
	while (!fenced) {
		/* many ranks may wait here for one that computes: progress gets rarer while nothing comes */
		if (hdl_tp_progress(tp))
			pause_us = 50;
		else if (pause_us < 2000)
			pause_us *= 2;
		fenced = hdl_rt_fence_wait(pause_us);
	}
	/* HDL_CTL_STAY was sent ahead of its sender's entry into the fence, so the message has arrived, but may not have been
	 * handled yet */
	for (int turns = 0; turns < 64 && hdl_tp_progress(tp); turns++)
		;
	end_executors(tp, fenced > 0);
	if (send_parting(tp, HDL_CTL_LEAVE, leave_staying))
		progress_settle_briefly(tp);
	init_report_and_destroy(instance);
	return 0;
}

void hdl_tp_leave(struct hdl_tp **instance)
{
	struct hdl_tp *tp = *instance;

	if (!tp)
		return;
	end_executors(tp, true);
	progress_settle(tp);
	tp->parting = true;
	/* a peer may compute for as long as it likes before it acknowledges LEAVE */
	if (send_parting(tp, HDL_CTL_LEAVE, leave_all))
		progress_settle_briefly(tp);
	hdl_ud_acks(tp);
	tp->leaving = true;
	init_report_and_destroy(instance);
}

void hdl_tp_stay(struct hdl_tp *tp)
{
	tp->stays = true;
	send_parting(tp, HDL_CTL_STAY, leave_all);
	progress_settle_briefly(tp);
}

void hdl_tp_rest(struct hdl_tp *tp)
{
	/* bounded: peers may go on sending */
	for (int turns = 0; turns < 1024 && hdl_tp_progress(tp); turns++)
		;
	hdl_ud_acks(tp);
}
