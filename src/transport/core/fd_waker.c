/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "runtime/runtime.h"
#include "runtime/thread.h"
#include "transport/core/fd_waker.h"

static void *fd_waker_main(void *arg)
{
	struct hdl_fd_waker *r = arg;
	struct epoll_event e[4];

	for (;;) {
		int n = epoll_wait(r->epoll, e, 4, -1);

		for (int i = 0; i < n; i++)
			if (e[i].data.fd == r->stop)
				return NULL;
		if (n > 0)
			r->wake(r->arg);
		else if (errno != EINTR)
			return NULL;	/* EBADF: the program has closed descriptors of this library */
	}
}

static int fd_waker_watch(struct hdl_fd_waker *r, int fd, uint32_t how)
{
	struct epoll_event e = { .events = EPOLLIN | how, .data.fd = fd };

	return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void fd_waker_close_fds(struct hdl_fd_waker *r)
{
	if (r->stop >= 0)
		close(r->stop);
	if (r->epoll >= 0)
		close(r->epoll);
}

int hdl_fd_waker_open(struct hdl_fd_waker *r, const int *fds, int n, void (*wake)(void *arg), void *arg)
{
	int err = 0;

	*r = (struct hdl_fd_waker){ .wake = wake, .arg = arg };
	r->epoll = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	r->stop = fd_raise(eventfd(0, EFD_CLOEXEC));
	if (r->epoll < 0 || r->stop < 0)
		err = -errno;
	if (!err)
		err = fd_waker_watch(r, r->stop, 0);
	for (int i = 0; i < n && !err; i++)
		err = fd_waker_watch(r, fds[i], EPOLLET);
	if (!err)
		err = hdl_thread_create(&r->thread, NULL, fd_waker_main, r, "heddle-fd-waker");
	if (err) {
		hdl_error("the thread that wakes this process for its second device cannot be had (%s): raise the limits of "
			  "processes and descriptors (ulimit -u, ulimit -n), or name one device (HEDDLE_DEVICE)", strerror(-err));
		fd_waker_close_fds(r);
		return err;
	}
	r->runs = true;
	return 0;
}

void hdl_fd_waker_close(struct hdl_fd_waker *r)
{
	uint64_t one = 1;

	if (!r->runs)
		return;
	while (write(r->stop, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(r->thread, NULL);
	fd_waker_close_fds(r);
	r->runs = false;
}
