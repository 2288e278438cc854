/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns of progress and timers. */
#include <stdlib.h>
#include <string.h>

#include "transport/core/tp.h"

#define STREAM 8		/* so many messages from the ring without an answer are a stream */
#define STREAM_BURST 8
#define PEEKS 24		/* polls of the expected peer's ring before a whole turn */
#define TIMER_US 128		/* microseconds between two runs of the timers; unsignaled requests are checked then, too */
#define ACK_US 8		/* microseconds of silence after which a packet of its own acknowledges the packets received */
#define ASYNC_NS 10000000ull	/* between two reads of a device's asynchronous events */
#define BUSY_TURNS 16		/* of the turns that find something one in so many reads the processor's counter */
#define LOOK_NS 20000000ull	/* period over which a ring counts as silent */

void hdl_tp_timers(struct hdl_tp *tp, uint64_t now)
{
	uint64_t at[] = { hdl_ud_timers(tp, now), hdl_wire_timers(tp, now), hdl_xrc_timers(tp, now), hdl_peers_look(tp, now),
			  tp->exec_timers ? tp->exec_timers(now) : 0, tp->p2p_timers ? tp->p2p_timers(now) : 0 };

	for (int i = 0; i < tp->ndev * HDL_POOLS; i++)
		hdl_rxpool_period(&tp->dev[i / HDL_POOLS]->rx[i % HDL_POOLS], now);
	tp->next_timer_ns = 0;
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] && (!tp->next_timer_ns || at[i] < tp->next_timer_ns))
			tp->next_timer_ns = at[i];
	if (now - tp->rings_ns > LOOK_NS) {
		tp->rings_ns = now;
		hdl_rings_look(tp);
	}
	hdl_regcache_tidy(tp);
}

static int run_busy(struct hdl_tp *tp)
{
	struct hdl_ep *ep = tp->busy, *next;
	int n = 0;

	tp->busy = NULL;
	for (; ep; ep = next) {
		next = ep->busy_next;
		ep->busy = false;
		if (hdl_ep_drain(ep, &n))
			hdl_ep_busy(ep);
	}
	return n;
}

/* Runs the timers. Returns how many completions there were. */
static __attribute__((noinline)) int go_by_clock(struct hdl_tp *tp)
{
	uint64_t now = monotonic_ns();

	tp->timers_at = tp->at;
	tp->clock_turns++;
	hdl_tp_timers(tp, now);
	if (now - tp->async_ns >= ASYNC_NS) {
		tp->async_ns = now;
		for (int i = 0; i < tp->ndev; i++)
			hdl_tp_async(tp->dev[i]);
	}
	return hdl_tp_reap(tp);		/* unsignaled requests may have failed */
}

/*
 * The end of a turn. Timers and acknowledgements go by time, not by the number of turns:
 *
 *     a program that polls without pause        timers run every TIMER_US; an acknowledgement waits ACK_US for more packets
 *     one that calls MPI_Test every 10 ms       each turn that finds nothing runs the timers and sends acknowledgements
 *
 * idle_since is the last turn that found nothing before something came.
 */
static inline int look_at_time(struct hdl_tp *tp, int n)
{
	if (n) {
		tp->idle_since = tp->at;
		if (likely(++tp->busy_turns % BUSY_TURNS))
			return n;
	}
	tp->at = ticks();
	if (tp->acks && !n && tp->at - tp->idle_since >= ticks_of_us(ACK_US))
		hdl_ud_acks(tp);
	if (unlikely(tp->at - tp->timers_at >= ticks_of_us(TIMER_US)))
		n += go_by_clock(tp);
	return n;
}

static int progress_turn(struct hdl_tp *tp)
{
	int n = hdl_tp_poll_rings(tp);

	for (int i = 0; i < tp->ndev; i++) {
		struct hdl_dev *dev = tp->dev[i];
		n += hdl_tp_poll_rcq(dev);
		for (struct hdl_scq *s = dev->scqs; s; s = s->next)
			if (s->pending)
				n += hdl_sq_reap(tp, s);
	}
	if (tp->busy)
		n += run_busy(tp);
	if (tp->ndone) {
		n += (int)tp->ndone;
		hdl_done_run(tp);
	}
	for (int i = 0; i < tp->nextra; i++)
		n += tp->extra[i].fn(tp->extra[i].arg);
	return look_at_time(tp, n);
}

int hdl_tp_progress(struct hdl_tp *tp)
{
	if (tp->in_progress)
		return 0;
	tp->in_progress = true;
	int n = progress_turn(tp);
	tp->in_progress = false;
	return n;
}

uint64_t hdl_tp_turned(const struct hdl_tp *tp)
{
	return tp->timers_at;
}

int hdl_tp_progress_peer(struct hdl_ep *ep)
{
	struct hdl_tp *tp = ep->tp;
	int n = 0;

	if (tp->in_progress)
		return 0;
	tp->in_progress = true;
	if (ep->rx_state >= HDL_RX_ACTIVE) {
		/* the caller may wait for one message only; a stream will bring more */
		int max = ep->streak < STREAM ? 1 : STREAM_BURST;
		for (int i = 0; i < PEEKS && !n; i++)
			n = hdl_ring_poll(ep, max);
	} else {
		for (int i = 0; i < PEEKS && !n; i++)
			n = hdl_tp_poll_rcq(ep->dev);
	}
	if (n) {
		if (unlikely(tp->ndone))
			hdl_done_run(tp);
		/* a caller that finds each message at once must run whole turns, too */
		if (unlikely(++tp->busy_turns % BUSY_TURNS == 0) && ticks() - tp->timers_at >= ticks_of_us(TIMER_US))
			n += progress_turn(tp);
	} else {
		n = progress_turn(tp);
	}
	tp->in_progress = false;
	return n;
}

int hdl_tp_progress_add(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	void *p = realloc(tp->extra, (size_t)(tp->nextra + 1) * sizeof(*tp->extra));

	if (!p)
		return hdl_no_memory("the list of progress functions", (size_t)(tp->nextra + 1) * sizeof(*tp->extra));
	tp->extra = p;
	tp->extra[tp->nextra].fn = fn;
	tp->extra[tp->nextra++].arg = arg;
	return 0;
}

void hdl_tp_progress_remove(struct hdl_tp *tp, hdl_progress_fn fn, void *arg)
{
	for (int i = 0; i < tp->nextra; i++)
		if (tp->extra[i].fn == fn && tp->extra[i].arg == arg) {
			memmove(&tp->extra[i], &tp->extra[i + 1],
				(size_t)(--tp->nextra - i) * sizeof(*tp->extra));
			return;
		}
}

void hdl_tp_on_sleep(struct hdl_tp *tp, void (*arm)(void))
{
	tp->on_sleep = arm;
}

void hdl_tp_on_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now))
{
	tp->exec_timers = timers;
}

void hdl_tp_on_p2p_timers(struct hdl_tp *tp, uint64_t (*timers)(uint64_t now))
{
	tp->p2p_timers = timers;
}

void hdl_tp_on_close(struct hdl_tp *tp, bool (*under_way)(bool fenced), void (*end)(void))
{
	tp->under_way = under_way;
	tp->end_executors = end;
}

void hdl_tp_on_shortage(struct hdl_tp *tp, bool (*give)(void))
{
	tp->on_shortage = give;
}
