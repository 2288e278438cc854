/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels: their descriptors, queues of events, timers, and GET_EVENT.
 *
 * A channel is found by its descriptor in a tree of three levels that covers every descriptor number. The program may close
 * descriptors by system calls that libshca-files.so does not see (closefrom), and use the number for another file; so each
 * command first lets the kernel compare: EPOLL_CTL_MOD of `always` succeeds in a channel's epoll descriptor only. The same
 * call switches the channel between readable and not readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "rdmacm/internal.h"

#define LEVEL 1024u
typedef struct rcm_channel *_Atomic leaf;
typedef leaf *_Atomic branch;

_Atomic unsigned rcm_channels_open;
pthread_mutex_t rcm_registry = PTHREAD_MUTEX_INITIALIZER;

static branch *_Atomic roots[LEVEL];
static struct rcm_channel *channels, *channels_free;
static struct shca_fd always = {.n = -1};	/* always readable; guarded by rcm_registry */

/* Set while this thread is in one of the functions of rdmacm.h, and may hold locks. Then close() and dup() of the library's own
 * descriptors, which libshca-files.so reports here, are not looked at. */
static __thread bool inside __attribute__((tls_model("initial-exec")));

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* Returns the entry of a descriptor number; NULL: none, or with `make` no memory. */
static leaf *leaf_of(int fd, bool make)
{
	branch *_Atomic *root = &roots[(unsigned)fd >> 20 & (LEVEL - 1)];
	branch *b = atomic_load_explicit(root, memory_order_acquire);

	if (fd < 0 || (!b && !make))
		return NULL;
	if (!b) {
		branch *fresh = calloc(LEVEL, sizeof(*fresh));
		if (!fresh)
			return NULL;
		if (atomic_compare_exchange_strong(root, &b, fresh))
			b = fresh;
		else
			free(fresh);
	}
	branch *at = &b[(unsigned)fd >> 10 & (LEVEL - 1)];
	leaf *l = atomic_load_explicit(at, memory_order_acquire);
	if (!l && make) {
		leaf *fresh = calloc(LEVEL, sizeof(*fresh));
		if (!fresh)
			return NULL;
		if (atomic_compare_exchange_strong(at, &l, fresh))
			l = fresh;
		else
			free(fresh);
	}
	return l ? &l[(unsigned)fd & (LEVEL - 1)] : NULL;
}

static struct rcm_channel *channel_at(int fd)
{
	leaf *l = leaf_of(fd, false);

	return l ? atomic_load_explicit(l, memory_order_acquire) : NULL;
}

/* Makes the channel's descriptor readable or not. Returns false: `fd` is not the channel's epoll descriptor. */
static bool channel_signal(struct rcm_channel *ch, int fd, bool readable)
{
	struct epoll_event e = {.events = readable ? EPOLLIN : 0, .data.u64 = RCM_SOURCE_QUEUE};

	if (epoll_ctl(fd, EPOLL_CTL_MOD, always.n, &e))
		return false;
	ch->signaled = readable;
	return true;
}

struct rcm_channel *rcm_channel_lock(int fd)
{
	struct rcm_channel *ch = channel_at(fd);
	int saved = errno;

	if (ch) {
		pthread_mutex_lock(&ch->lock);
		/* the channel may have gone, and fd may be another channel's, since the look-up */
		if (ch->fds && channel_at(fd) == ch && channel_signal(ch, fd, ch->signaled)) {
			errno = saved;
			return ch;
		}
		pthread_mutex_unlock(&ch->lock);
	}
	errno = EBADF;
	return NULL;
}

void rcm_channel_unlock(struct rcm_channel *ch)
{
	pthread_mutex_unlock(&ch->lock);
}

bool rcm_same_channel(int fd, const struct rcm_channel *ch)
{
	return channel_at(fd) == ch;
}

struct rcm_channel *rcm_channels(void)
{
	return channels;
}

bool rcm_enter(bool in)
{
	bool was = inside;

	inside = in;
	return was;
}

bool rcm_is_channel(int fd)
{
	int saved = errno;
	struct rcm_channel *ch = channel_at(fd) ? rcm_channel_lock(fd) : NULL;

	if (ch)
		rcm_channel_unlock(ch);
	errno = saved;
	return ch;
}

/* ---- coming and going ------------------------------------------------------------------------------------------- */

/* In a forked child the channels are copies: their sockets are the parent's, too. A child that goes on while the parent ends
 * (a daemon) has working channels. */
static void channel_fork_prepare(void)
{
	pthread_mutex_lock(&rcm_registry);
	for (struct rcm_channel *ch = channels; ch; ch = ch->next)
		pthread_mutex_lock(&ch->lock);
}

static void channel_fork_done(void)
{
	for (struct rcm_channel *ch = channels; ch; ch = ch->next)
		pthread_mutex_unlock(&ch->lock);
	pthread_mutex_unlock(&rcm_registry);
}

/* Makes `always`, unless it is there. Returns 0 or -errno. Must hold rcm_registry. */
static int always_make(void)
{
	static bool fork_handlers;
	int pair[2];

	if (!fork_handlers) {
		int err = pthread_atfork(channel_fork_prepare, channel_fork_done, channel_fork_done);
		if (err)
			return -err;
		fork_handlers = true;
	}
	if (always.n >= 0 && shca_fd_ours(&always))
		return 0;
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return -errno;
	ssize_t n = write(pair[1], "", 1);
	close(pair[1]);
	always = shca_fd_note(rcm_fd_high(fd_raise(pair[0])));
	return n == 1 && always.n >= 0 ? 0 : -EIO;
}

/* Returns a channel with this epoll descriptor, on the list. Must hold rcm_registry. */
static struct rcm_channel *channel_new(int epoll)
{
	struct rcm_channel *ch = channels_free;

	if (ch) {
		channels_free = ch->next;
	} else {
		ch = calloc(1, sizeof(*ch));
		if (!ch)
			return NULL;
		pthread_mutex_init(&ch->lock, NULL);
	}
	pthread_mutex_lock(&ch->lock);
	ch->epoll = epoll;
	ch->fds = 1;
	ch->uses++;
	ch->signaled = false;
	ch->timer_fd = -1;
	ch->kernel.n = -1;
	ch->events_last = &ch->events;
	for (int i = 0; i < RCM_TIMERS; i++)
		ch->timers_last[i] = &ch->timers[i];
	ch->next = channels;
	ch->prev = &channels;
	if (channels)
		channels->prev = &ch->next;
	channels = ch;
	pthread_mutex_unlock(&ch->lock);
	return ch;
}

/* Destroys a channel without descriptors. Must hold rcm_registry. */
static void channel_free(struct rcm_channel *ch)
{
	pthread_mutex_lock(&ch->lock);
	while (ch->ids)
		rcm_id_destroy(ch->ids);
	if (ch->timer_fd >= 0 && !epoll_ctl(ch->epoll, EPOLL_CTL_DEL, ch->timer_fd, NULL))
		close(ch->timer_fd);
	ch->timer_fd = -1;
	rcm_kernel_close(ch);
	*ch->prev = ch->next;
	if (ch->next)
		ch->next->prev = ch->prev;
	ch->next = channels_free;
	channels_free = ch;
	pthread_mutex_unlock(&ch->lock);
	if (!channels)
		rcm_device_close();
}

/* Takes a descriptor out of the tree. Must hold rcm_registry. */
static void fd_forget(int fd)
{
	leaf *l = leaf_of(fd, false);
	struct rcm_channel *ch = l ? atomic_exchange(l, NULL) : NULL;

	if (!ch)
		return;
	atomic_fetch_sub(&rcm_channels_open, 1);
	if (!--ch->fds)
		channel_free(ch);
}

int rcm_open(int flags)
{
	int err;

	inside = true;
	pthread_mutex_lock(&rcm_registry);
	err = always_make();
	int fd = err ? -1 : epoll_create1(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);
	struct epoll_event queue = {.data.u64 = RCM_SOURCE_QUEUE}, port = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_PORT};
	int bell = rcm_port_bell();
	if (!err && (fd < 0 || (flags & O_NONBLOCK && fcntl(fd, F_SETFL, O_NONBLOCK)) ||
		     epoll_ctl(fd, EPOLL_CTL_ADD, always.n, &queue) ||
		     (bell >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, bell, &port))))
		err = -errno;
	if (!err) {
		fd_forget(fd);		/* closed without rcm_closing */
		leaf *l = leaf_of(fd, true);
		struct rcm_channel *ch = l ? channel_new(fd) : NULL;
		err = ch ? 0 : -ENOMEM;
		if (ch) {
			atomic_store_explicit(l, ch, memory_order_release);
			atomic_fetch_add(&rcm_channels_open, 1);
		}
	}
	pthread_mutex_unlock(&rcm_registry);
	if (err && fd >= 0)
		close(fd);
	inside = false;
	if (!err)
		return fd;
	errno = shca_refuse(-err,
			    "rdma_create_event_channel: no descriptor or no memory is left (limit on descriptors: ulimit -n)");
	return -1;
}

/* Returns another descriptor of the channel; -1: none. */
static int other_fd(const struct rcm_channel *ch, int fd)
{
	for (unsigned i = 0; i < LEVEL; i++) {
		branch *b = atomic_load(&roots[i]);
		for (unsigned k = 0; b && k < LEVEL; k++) {
			leaf *l = atomic_load(&b[k]);
			for (unsigned n = 0; l && n < LEVEL; n++) {
				int at = (int)(i << 20 | k << 10 | n);
				if (at != fd && atomic_load(&l[n]) == ch)
					return at;
			}
		}
	}
	return -1;
}

void rcm_closing(int fd)
{
	int saved = errno;

	if (inside || !channel_at(fd))
		return;
	inside = true;
	pthread_mutex_lock(&rcm_registry);
	struct rcm_channel *ch = channel_at(fd);
	if (ch && ch->epoll == fd && ch->fds > 1) {
		pthread_mutex_lock(&ch->lock);
		ch->epoll = other_fd(ch, fd);
		pthread_mutex_unlock(&ch->lock);
	}
	fd_forget(fd);
	pthread_mutex_unlock(&rcm_registry);
	inside = false;
	errno = saved;
}

void rcm_duplicated(int fd, int copy)
{
	int saved = errno;

	if (inside || (!channel_at(fd) && !channel_at(copy)))
		return;
	inside = true;
	pthread_mutex_lock(&rcm_registry);
	struct rcm_channel *ch = fd == copy ? NULL : channel_at(fd);
	leaf *l = ch ? leaf_of(copy, true) : NULL;
	if (l) {
		fd_forget(copy);
		pthread_mutex_lock(&ch->lock);
		ch->fds++;
		pthread_mutex_unlock(&ch->lock);
		atomic_store_explicit(l, ch, memory_order_release);
		atomic_fetch_add(&rcm_channels_open, 1);
	}
	pthread_mutex_unlock(&rcm_registry);
	inside = false;
	errno = saved;
}

void rcm_watch_port(void)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_PORT};

	pthread_mutex_lock(&rcm_registry);
	/* a channel that was opened meanwhile has the bell: EEXIST */
	for (struct rcm_channel *ch = channels; ch; ch = ch->next)
		epoll_ctl(ch->epoll, EPOLL_CTL_ADD, rcm_port_bell(), &e);
	pthread_mutex_unlock(&rcm_registry);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

struct rcm_event *rcm_event_new(struct rcm_id *id, enum rcm_event_type type, int status)
{
	struct rcm_event *ev = calloc(1, sizeof(*ev));

	if (!ev) {
		errno = shca_no_memory("an event of RDMA CM");
		return NULL;
	}
	ev->id = id;
	ev->resp.uid = id->uid;
	ev->resp.id = id->handle;
	ev->resp.event = type;
	ev->resp.status = (uint32_t)status;
	return ev;
}

void rcm_push(struct rcm_channel *ch, struct rcm_event *ev)
{
	ev->next = NULL;
	*ch->events_last = ev;
	ch->events_last = &ev->next;
	ev->id->events_queued++;
	if (!ch->signaled)
		channel_signal(ch, ch->epoll, true);
}

int rcm_report(struct rcm_id *id, enum rcm_event_type type, int status)
{
	if (!id->uid)
		return 0;
	struct rcm_event *ev = rcm_event_new(id, type, status);
	if (!ev)
		return -ENOMEM;
	rcm_push(atomic_load(&id->channel), ev);
	return 0;
}

/* Takes *at out of the queue. */
static struct rcm_event *event_unlink(struct rcm_channel *ch, struct rcm_event **at)
{
	struct rcm_event *ev = *at;

	*at = ev->next;
	if (!ev->next)
		ch->events_last = at;
	ev->id->events_queued--;
	if (!ch->events && ch->signaled)
		channel_signal(ch, ch->epoll, false);
	return ev;
}

void rcm_events_drop(struct rcm_channel *ch, const struct rcm_id *id, const struct rcm_group *group)
{
	for (struct rcm_event **at = &ch->events; *at && id->events_queued;) {
		if ((*at)->id != id || (group && (*at)->group != group)) {
			at = &(*at)->next;
			continue;
		}
		struct rcm_event *ev = event_unlink(ch, at);
		if (ev->arrived) {
			rcm_id_destroy(ev->arrived);
			at = &ch->events;	/* may have dropped events of its own */
		}
		free(ev);
	}
}

void rcm_events_move(struct rcm_channel *from, struct rcm_channel *to, const struct rcm_id *id)
{
	for (struct rcm_event **at = &from->events; *at && id->events_queued;) {
		if ((*at)->id != id) {
			at = &(*at)->next;
			continue;
		}
		struct rcm_event *ev = event_unlink(from, at);
		if (ev->arrived)
			rcm_id_relink(ev->arrived, to);
		rcm_push(to, ev);
	}
}

int rcm_watch(struct rcm_id *id, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = id};

	return epoll_ctl(atomic_load(&id->channel)->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

void rcm_unwatch(struct rcm_id *id, int fd)
{
	epoll_ctl(atomic_load(&id->channel)->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- timers ----------------------------------------------------------------------------------------------------- */

static uint64_t timer_length(enum rcm_timer kind)
{
	return kind == RCM_RESPONSE ? (uint64_t)shca_env_ms("SHCA_CM_MS") * 1000000 : RCM_TIMEWAIT_NS;
}

/* Sets the descriptor for the first timer, or stops it. */
static void timer_arm(struct rcm_channel *ch)
{
	uint64_t first = 0;

	for (int i = 0; i < RCM_TIMERS; i++)
		if (ch->timers[i] && (!first || ch->timers[i]->due < first))
			first = ch->timers[i]->due;
	struct itimerspec t = {.it_value = {(time_t)(first / 1000000000), (long)(first % 1000000000)}};
	if (ch->timer_fd < 0) {
		struct epoll_event e = {.events = EPOLLIN, .data.u64 = RCM_SOURCE_TIMER};
		ch->timer_fd = rcm_fd_high(fd_raise(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)));
		if (ch->timer_fd < 0 || epoll_ctl(ch->epoll, EPOLL_CTL_ADD, ch->timer_fd, &e)) {
			shca_error("RDMA CM: no descriptor for a timer is left: %s. TIMEWAIT_EXIT and time-outs do not come",
				   strerror(errno));
			return;
		}
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

static void timers_run(struct rcm_channel *ch)
{
	uint64_t ticks, now = monotonic_ns();

	if (read(ch->timer_fd, &ticks, sizeof(ticks)) < 0)
		return;
	for (int i = 0; i < RCM_TIMERS; i++)
		for (struct rcm_id *id; (id = ch->timers[i]) != NULL && id->due <= now;) {
			timer_unlink(ch, id);
			rcm_expired(id, (enum rcm_timer)i);
		}
	timer_arm(ch);
}

/* ---- GET_EVENT -------------------------------------------------------------------------------------------------- */

/* Copies the first event out. Must: there is one. */
static void event_take(struct rcm_channel *ch, void *to, size_t size)
{
	struct rcm_event *ev = event_unlink(ch, &ch->events);

	if (ev->arrived)
		ev->resp.uid = ev->id->uid;
	ev->id->events_reported++;
	if (ev->group)
		ev->group->events_reported++;
	memcpy(to, &ev->resp, size < sizeof(ev->resp) ? size : sizeof(ev->resp));
	free(ev);
}

/* Turns a readable descriptor into events. Returns false: a connection waits, and no descriptor is left for it. */
static bool source_ready(int fd, uint64_t uses, const struct epoll_event *e)
{
	if (e->data.u64 == RCM_SOURCE_PORT) {
		rcm_port_events();
		return true;
	}
	struct rcm_channel *ch = rcm_channel_lock(fd);
	if (!ch)
		return true;
	bool starved = false;
	/* RCM_SOURCE_KERNEL: rcm_get_event asks the kernel in any case */
	if (ch->uses == uses && e->data.u64 == RCM_SOURCE_TIMER)
		timers_run(ch);
	/* another thread may have destroyed the id, or moved it to another channel, since the descriptor was found ready */
	else if (ch->uses == uses && e->data.u64 >= RCM_SOURCES && atomic_load(&((struct rcm_id *)e->data.ptr)->channel) == ch)
		starved = !rcm_readable(e->data.ptr);
	rcm_channel_unlock(ch);
	return !starved;
}

/* Takes one of the channel's readable sources; of a blocking descriptor, waits for one. The wait is poll(2)'s, because epoll_wait
 * fails with EINTR when a process that was stopped goes on, though no signal handler has run (signal(7)). Returns 1; 0: another
 * thread has taken the source; -EAGAIN: there is none; or -errno. */
static int source_take(int fd, int flags, struct epoll_event *e)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	if (!(flags & O_NONBLOCK) && poll(&wait, 1, -1) < 0)
		return -errno;
	int n = epoll_wait(fd, e, 1, 0);
	if (n < 0)
		return -errno;
	return !n && flags & O_NONBLOCK ? -EAGAIN : n;
}

int rcm_get_event(int fd, const struct rdma_ucm_get_event *cmd, size_t out)
{
	if (out < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	for (;;) {
		struct epoll_event e;
		struct rcm_channel *ch = rcm_channel_lock(fd);
		if (!ch)
			return -EBADF;
		uint64_t uses = ch->uses;
		bool any = ch->events;
		int err = -EAGAIN;
		if (any)
			event_take(ch, (void *)(uintptr_t)cmd->response, out);
		else if (ch->kernel.n >= 0)
			err = rcm_kernel_event(ch, (void *)(uintptr_t)cmd->response, out);
		rcm_channel_unlock(ch);
		if (any)
			return 0;
		if (err != -EAGAIN)
			return err;
		int flags = fcntl(fd, F_GETFL), n = source_take(fd, flags, &e);
		if (n < 0)
			return n;
		if (!n || source_ready(fd, uses, &e))
			continue;
		if (flags & O_NONBLOCK)
			return -EAGAIN;
		/* the listener stays readable until the program closes a descriptor: no busy loop */
		poll(NULL, 0, 10);
	}
}
