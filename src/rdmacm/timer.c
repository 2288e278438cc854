/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of ids: one timerfd per channel, for the first of them. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

static uint64_t timer_length(enum rcm_timer kind)
{
	return kind == RCM_RESPONSE ? (uint64_t)shca_env_ms("SHCA_CM_MS") * 1000000 : RCM_TIMEWAIT_NS;
}

/* Makes the channel's timer, unless the timer exists: the program may have closed the timer's descriptor, and use the number.
 * Returns 0 or -errno. */
static int channel_timer_ready(struct rcm_channel *ch)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_TIMER};

	if (shca_timer_ours(ch->epoll, ch->timer_fd, &e))
		return 0;
	ch->timer_fd = fd_raise_over_select(fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
	if (ch->timer_fd >= 0 && !epoll_ctl(ch->epoll, EPOLL_CTL_ADD, ch->timer_fd, &e))
		return 0;
	int err = -errno;
	if (ch->timer_fd >= 0)
		close(ch->timer_fd);
	ch->timer_fd = -1;
	return err;
}

int rcm_timer_ready(const struct rcm_id *id, const char *call)
{
	int err = channel_timer_ready(atomic_load(&id->channel));

	return err ? -shca_refuse(-err, "%s: no timer for the event channel%s", call, shca_limit_of(-err)) : 0;
}

/* Sets the descriptor for the first timer, or stops it. */
static void timer_arm(struct rcm_channel *ch)
{
	uint64_t first = 0;

	for (int i = 0; i < RCM_TIMERS; i++)
		if (ch->timers[i] && (!first || ch->timers[i]->due < first))
			first = ch->timers[i]->due;
	struct itimerspec t = {.it_value = {(time_t)(first / 1000000000), (long)(first % 1000000000)}};
	int err = channel_timer_ready(ch);
	if (err) {
		shca_error("RDMA CM: no descriptor for a timer is left: %s%s. TIMEWAIT_EXIT and time-outs do not come",
			   strerror(-err), shca_limit_of(-err));
		return;
	}
	timerfd_settime(ch->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void timer_unlink(struct rcm_channel *ch, struct rcm_id *id)
{
	*id->timer_prev = id->timer_next;
	if (id->timer_next)
		id->timer_next->timer_prev = id->timer_prev;
	else
		ch->timers_last[id->timer] = id->timer_prev;
	id->timer = RCM_NO_TIMER;
}

/* Returns whether the id is the first of its kind: the descriptor's time depends on it. */
static bool timer_is_first(const struct rcm_channel *ch, const struct rcm_id *id)
{
	return ch->timers[id->timer] == id;
}

void rcm_timer_clear(struct rcm_id *id)
{
	struct rcm_channel *ch = atomic_load(&id->channel);

	if (id->timer == RCM_NO_TIMER)
		return;
	bool first = timer_is_first(ch, id);
	timer_unlink(ch, id);
	if (first)
		timer_arm(ch);
}

static void timer_link(struct rcm_channel *ch, struct rcm_id *id, enum rcm_timer kind)
{
	id->timer = kind;
	id->timer_next = NULL;
	id->timer_prev = ch->timers_last[kind];
	*ch->timers_last[kind] = id;
	ch->timers_last[kind] = &id->timer_next;
	if (timer_is_first(ch, id))
		timer_arm(ch);
}

void rcm_timer_set(struct rcm_id *id, enum rcm_timer kind)
{
	rcm_timer_clear(id);
	id->due = monotonic_ns() + timer_length(kind);
	timer_link(atomic_load(&id->channel), id, kind);
}

void rcm_timers_run(struct rcm_channel *ch, void (*expired)(struct rcm_id *id, enum rcm_timer kind))
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_TIMER};
	uint64_t ticks, now = monotonic_ns();

	/* another thread has run them */
	if (shca_timer_ours(ch->epoll, ch->timer_fd, &e) && read(ch->timer_fd, &ticks, sizeof(ticks)) < 0)
		return;
	for (int i = 0; i < RCM_TIMERS; i++)
		for (struct rcm_id *id; (id = ch->timers[i]) != NULL && id->due <= now;) {
			timer_unlink(ch, id);
			expired(id, (enum rcm_timer)i);
		}
	timer_arm(ch);
}
