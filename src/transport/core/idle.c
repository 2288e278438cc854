/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: spin, yield, sleep.
 *
 * A device that wakes its process on any write (promises.wakes) is asked to do so: the process sleeps on the word of shca_await.
 * Other devices wake a sleeper by the completion channel: arm, poll once more, poll(2). A write into a ring makes no
 * completion, and neither does a credit, so the ring is taken out of use:
 *
 *     sleeper                                   peer that writes into the sleeper's ring
 *     SLEEP(turn)                      ──▶      wake_mode: uses pooled receives
 *                                       ◀──      SLEEP_ACK(turn), behind the last write on the same queue; makes a completion
 *     sleeps without limit
 *     AWAKE, when the peer is hot      ──▶      uses the ring again
 *
 * A peer that computes cannot acknowledge, and may still write into the ring: until all have, the sleep is short.
 *
 * With two devices of which the first one wakes on a write, the process sleeps on that one's word, and a thread changes the
 * word when a descriptor of the other one becomes readable (fd_waker.h). The other one's CQs are armed, and its peers sent
 * SLEEP, as above.
 */
#include <poll.h>
#include <shca.h>
#include <string.h>
#include <unistd.h>

#include "runtime/wait.h"
#include "transport/core/tp.h"

#define SHORT_SLEEP_MS 1
#define SHORT_SLEEP_MAX_MS 16

void hdl_idle_on_sleep(struct hdl_ep *ep, const struct hdl_sleep_rec *m)
{
	ep->wake_mode = true;
	hdl_ep_refresh(ep);
	/* ordered: behind the writes into the ring */
	hdl_ep_ctl(ep, HDL_CTL_SLEEP_ACK, m, sizeof(*m), true);
}

void hdl_idle_on_sleep_ack(struct hdl_ep *ep, const struct hdl_sleep_rec *m)
{
	if (m->turn == ep->sleep_sent)
		ep->sleep_acked = m->turn;
}

void hdl_idle_awake(struct hdl_ep *ep)
{
	hdl_stirred = true;
	ep->sleep_sent = ep->sleep_acked = 0;
	ep->slow_msgs = 0;
	hdl_ep_ctl(ep, HDL_CTL_AWAKE, NULL, 0, true);
}

/* Returns the device on whose word this process sleeps, one that wakes a process on any write; or NULL. */
static struct hdl_dev *waker(struct hdl_tp *tp)
{
	return tp->ndev && tp->dev[0]->promises.wakes ? tp->dev[0] : NULL;
}

/* Sends SLEEP to every peer that shares a ring with this process by a device that does not wake on a write. Returns whether all
 * have acknowledged. */
static bool all_sleep_acked(struct hdl_tp *tp, const struct hdl_dev *word)
{
	bool all = true;

	for (uint32_t i = 0; i < tp->peers.n; i++) {
		struct hdl_ep *ep = tp->peers.of[i];
		if (!ep || ep->dev == word || ep->failed || (!ep->ring && ep->rx_state < HDL_RX_ACTIVE))
			continue;
		if (!ep->sleep_sent) {
			struct hdl_sleep_rec m = { .turn = ++tp->sleep_turn ? tp->sleep_turn
									       : ++tp->sleep_turn };
			ep->sleep_sent = m.turn;
			ep->slow_msgs = 0;
			hdl_ep_ctl(ep, HDL_CTL_SLEEP, &m, sizeof(m), true);
		}
		all &= ep->sleep_acked == ep->sleep_sent;
	}
	return all;
}

static int idle_arm(struct hdl_dev *dev)
{
	int err = ibv_req_notify_cq(dev->rcq, 0);

	for (struct hdl_scq *s = dev->scqs; s && !err; s = s->next)
		err = ibv_req_notify_cq(s->cq, 0);
	if (!err)
		err = hdl_agents_arm(dev);
	if (err)
		hdl_error("%s: ibv_req_notify_cq failed (%s)", dev->name, strerror(err));
	return err;
}

static void take_events(struct hdl_dev *dev)
{
	struct ibv_cq *cq;
	void *arg;

	/* the descriptor is non-blocking */
	while (!ibv_get_cq_event(dev->chan, &cq, &arg))
		ibv_ack_cq_events(cq, 1);
}

/* Milliseconds until a timer is due; -1: none. */
static int until_timer(struct hdl_tp *tp)
{
	uint64_t now = monotonic_ns();

	hdl_tp_timers(tp, now);
	if (tp->ndone)
		return 0;	/* a peer has failed: the operations of its endpoint must end first */
	if (!tp->next_timer_ns)
		return -1;
	return tp->next_timer_ns <= now ? 0 : (int)((tp->next_timer_ns - now + 999999) / 1000000);
}

/* All that must be done between the first read of the word, if there is one, and the sleep. *all: every peer has acknowledged
 * SLEEP. Returns false if there is something to do. */
static bool idle_prepare(struct hdl_tp *tp, const struct hdl_dev *word, bool *all)
{
	hdl_ud_acks(tp);
	*all = all_sleep_acked(tp, word);
	for (int i = 0; i < tp->ndev; i++) {
		struct hdl_dev *dev = tp->dev[i];
		if (word)
			hdl_tp_async(dev);	/* poll(2) would report them */
		if (dev != word && idle_arm(dev))
			return false;
	}
	/* without a word: the executor's CQs are the first device's */
	if (tp->on_sleep && !word)
		tp->on_sleep();
	/* the last poll: earlier events are found here, later ones wake this process */
	int n = hdl_tp_reap(tp);
	return !(hdl_tp_progress(tp) + n);
}

void hdl_tp_wake(struct hdl_tp *tp)
{
	uint64_t one = 1;

	if (!tp)
		return;
	__atomic_store_n(&tp->woken, true, __ATOMIC_SEQ_CST);
	if (!waker(tp) || shca_await_wake(waker(tp)->port.ctx))
		while (write(tp->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
}

/*
 * Takes the mark that hdl_tp_wake was called. Without the mark a wake-up would be lost:
 *
 *     1. the caller checks its condition: false
 *     2. another thread makes the condition true, and hdl_tp_wake changes the word
 *     3. the word is read: the change is not seen, and the sleep would begin
 *
 * hdl_tp_wake stores the mark before changing the word, and this runs behind the read of the word: either the mark is seen
 * here, or the word changes after step 3 and the sleep does not begin, or ends.
 */
static bool was_woken(struct hdl_tp *tp)
{
	return __atomic_exchange_n(&tp->woken, false, __ATOMIC_SEQ_CST);
}

static void idle_wake(void *word)
{
	shca_await_wake(((struct hdl_dev *)word)->port.ctx);
}

int hdl_idle_open(struct hdl_tp *tp)
{
	const struct hdl_dev *other = tp->ndev > 1 ? tp->dev[1] : NULL;

	if (!waker(tp) || !other)
		return 0;
	return hdl_fd_waker_open(&tp->fd_waker, (int[]){ other->chan->fd, other->port.ctx->async_fd }, 2, idle_wake, waker(tp));
}

static void take_wake(struct hdl_tp *tp)
{
	uint64_t count;

	/* the descriptor is non-blocking */
	if (read(tp->wake_fd, &count, sizeof(count)) < 0 && errno != EAGAIN && errno != EINTR)
		hdl_error("the descriptor that wakes this process cannot be read (%s)", strerror(errno));
}

bool hdl_tp_wakes_on_write(struct hdl_tp *tp)
{
	return waker(tp);
}

bool hdl_tp_writes_at_once(struct hdl_tp *tp)
{
	return tp->ndev && tp->dev[0]->promises.at_once && tp->dev[0]->promises.sequence;
}

static int sleep_on_word(struct hdl_dev *word, uint32_t seen, int ms)
{
	int err = shca_await(word->port.ctx, seen, ms < 0 ? UINT64_MAX : (uint64_t)ms * 1000000);

	return err == ETIMEDOUT ? 0 : err;
}

static int sleep_on_descriptors(struct hdl_tp *tp, int ms)
{
	struct pollfd fd[2 * HDL_DEVICES + 1];
	int n = 0;

	for (int i = 0; i < tp->ndev; i++) {
		fd[n++] = (struct pollfd){ .fd = tp->dev[i]->chan->fd, .events = POLLIN };
		fd[n++] = (struct pollfd){ .fd = tp->dev[i]->port.ctx->async_fd, .events = POLLIN };
	}
	fd[n++] = (struct pollfd){ .fd = tp->wake_fd, .events = POLLIN };
	return poll(fd, (nfds_t)n, ms) < 0 ? errno : 0;
}

static void sleep_here(struct hdl_tp *tp, unsigned n)
{
	struct hdl_dev *word = waker(tp);
	uint32_t seen = 0;
	bool all = true;
	int ms, err;

	if (word && shca_await_prepare(word->port.ctx, &seen))
		word = NULL;
	if (!word && !hdl_device_is_free())
		return;
	ms = !was_woken(tp) && idle_prepare(tp, word, &all) ? until_timer(tp) : 0;
	if (!ms) {
		if (word)
			shca_await_cancel(word->port.ctx);
		return;
	}
	if (!all) {
		int limit = n < 4 ? SHORT_SLEEP_MS << n : SHORT_SLEEP_MAX_MS;
		if (ms < 0 || ms > limit)
			ms = limit;
	}
	tp->sleeps++;
	struct hdl_device_sleep sleep = hdl_device_sleep_begin(!word);
	err = word ? sleep_on_word(word, seen, ms) : sleep_on_descriptors(tp, ms);
	hdl_device_sleep_end(sleep);
	was_woken(tp);		/* the caller checks its condition when this returns */
	if (err && err != EINTR)
		hdl_error("%s failed (%s)", word ? "sleeping until the next write" : "poll(2) on the completion channels",
			  strerror(err));
	if (!word)
		take_wake(tp);
	for (int i = 0; i < tp->ndev; i++) {
		if (tp->dev[i] != word)
			take_events(tp->dev[i]);
		hdl_tp_async(tp->dev[i]);
	}
}

/* Yields. Returns false, and does not yield, if that would take long: then a sleep is quicker (HDL_TUNE_YIELD). Not asked where
 * processes share CPUs, since the awaited one may be queued on this CPU, nor without a wake-up by a write. */
static bool yield(struct hdl_tp *tp)
{
	uint64_t begun, end;

	if (!hdl_waiters_may_spin() || !hdl_tp_wakes_on_write(tp)) {
		hdl_wait_yield();
		return true;
	}
	if (unlikely(!tp->yield_tune))
		tp->yield_tune = hdl_autotune_new(HDL_TUNE_YIELD, 0, "where ranks have a core each");
	begun = monotonic_ns();
	if (hdl_autotune_next(tp->yield_tune, begun))
		return false;
	hdl_wait_yield();
	end = monotonic_ns();
	hdl_autotune_took(tp->yield_tune, end - begun, end);
	return true;
}

/* n: looks in vain since the last spin. Apart from hdl_tp_idle, which keeps no registers so. */
static __attribute__((noinline)) void yield_or_sleep(struct hdl_tp *tp, unsigned n, enum hdl_wait_next next)
{
	if (n == 0)
		hdl_ud_acks(tp);
	if (next == HDL_WAIT_YIELD && yield(tp))
		return;
	sleep_here(tp, next == HDL_WAIT_YIELD ? 0 : n - (unsigned)hdl_vars.yield);
}

void hdl_tp_idle(struct hdl_tp *tp, unsigned *idle)
{
	unsigned n = (*idle)++, spins = hdl_wait_spins();
	enum hdl_wait_next next = hdl_wait_nth(n, spins, (unsigned)hdl_vars.yield);

	if (next != HDL_WAIT_SPIN && !tp->in_progress) {
		yield_or_sleep(tp, n - spins, next);
		return;
	}
	cpu_relax();
	if (unlikely(hdl_threads) && !tp->in_progress)
		hdl_lock_pass();
}
