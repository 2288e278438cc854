/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event channels: their descriptors, how they come and go, and the sources of events that they watch.
 *
 * A channel is found by its descriptor in a tree of three levels that covers every descriptor number. The program may close
 * descriptors by system calls that libshca-files.so does not see (closefrom), and use the number for another file; so each
 * command first lets the kernel compare: EPOLL_CTL_MOD of `always` succeeds in a channel's epoll descriptor only. The same
 * call switches the channel between readable and not readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
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

bool rcm_channel_signal(struct rcm_channel *ch, int fd, bool readable)
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
		if (ch->fds && channel_at(fd) == ch && rcm_channel_signal(ch, fd, ch->signaled)) {
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

/* Makes the descriptor `always` at the first call. Returns 0 or -errno. Must hold rcm_registry. */
static int always_make(void)
{
	static bool fork_handlers;
	int pair[2];

	if (!fork_handlers) {
		/* the device's first: RDMA CM calls it with these locks held, so fork() must take them before the device's */
		int err = shca_device_fork_handlers();
		if (!err)
			err = pthread_atfork(channel_fork_prepare, channel_fork_done, channel_fork_done);
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
	always = shca_fd_note(fd_raise_over_select(fd_raise(pair[0])));
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
		ch->id_destroy(ch->ids);
	struct epoll_event e = {.events = 0};
	if (shca_timer_ours(ch->epoll, ch->timer_fd, &e))
		close(ch->timer_fd);
	ch->timer_fd = -1;
	shca_fd_close(&ch->kernel);
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
	errno = shca_refuse(-err, "rdma_create_event_channel: no descriptor or no memory is left%s", shca_limit_of(-err));
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
		/* another thread may have closed fd, and opened this channel under its number, since the copy was made */
		pthread_mutex_lock(&ch->lock);
		bool is = rcm_channel_signal(ch, copy, ch->signaled);
		ch->fds += is;
		pthread_mutex_unlock(&ch->lock);
		if (is) {
			atomic_store_explicit(l, ch, memory_order_release);
			atomic_fetch_add(&rcm_channels_open, 1);
		}
	}
	pthread_mutex_unlock(&rcm_registry);
	inside = false;
	errno = saved;
}

/* ---- sources of events: sockets of ids, the bell of the port -------------------------------------------------------- */

int rcm_watch(struct rcm_id *id, const struct shca_fd *fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = id};

	if (!shca_fd_ours(fd))
		return -shca_refuse(EBADF, "RDMA CM: the program has closed descriptor %d of the library", fd->n);
	return epoll_ctl(atomic_load(&id->channel)->epoll, EPOLL_CTL_ADD, fd->n, &e) ? -errno : 0;
}

void rcm_unwatch(struct rcm_id *id, const struct shca_fd *fd)
{
	/* the number may be that of another id's socket, which the channel watches, too */
	if (shca_fd_ours(fd))
		epoll_ctl(atomic_load(&id->channel)->epoll, EPOLL_CTL_DEL, fd->n, NULL);
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
