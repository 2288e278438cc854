/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors, and error texts, which go to one.
 *
 * Danger: the application may close any descriptor, and the number is soon another file's. The helper and proxy threads have a
 * descriptor table of their own; all other threads check which file a number stands for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "shca/fabric/fabric.h"

static __thread bool own_table;	/* this thread has a descriptor table alone */

bool shca_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");
	return preload && strstr(preload, "vgpreload");
}

struct shca_fd shca_fd_note(int n)
{
	struct stat st = { .st_ino = 0 };

	/* a descriptor without fstat is never ours */
	if (n < 0 || fstat(n, &st))
		return (struct shca_fd){ .n = n };
	return (struct shca_fd){ .n = n, .dev = st.st_dev, .ino = st.st_ino };
}

bool shca_fd_ours(const struct shca_fd *fd)
{
	struct stat st;

	return fd->n >= 0 && !fstat(fd->n, &st) && st.st_dev == fd->dev && st.st_ino == fd->ino;
}

void shca_fd_close(struct shca_fd *fd)
{
	if (shca_fd_ours(fd))
		close(fd->n);
	fd->n = -1;
}

bool shca_timer_ours(int epoll, int timer, struct epoll_event *e)
{
	struct itimerspec is;

	/* Timers have no inode of their own. The first call fails for a socket that has the number and is watched, too; the
	 * second one for a timer of the program. */
	return timer >= 0 && !timerfd_gettime(timer, &is) && !epoll_ctl(epoll, EPOLL_CTL_MOD, timer, e);
}

int shca_file_get(struct shca_member *m)
{
	char path[64];

	if (shca_fd_ours(&m->fd))
		return m->fd.n;
	/* the helper thread's table still has the file */
	uint32_t helper = atomic_load(&m->proc->life) & FUTEX_TID_MASK;
	snprintf(path, sizeof(path), "/proc/self/task/%u/fd/%d", helper, m->fd.n);
	struct shca_fd fd = shca_fd_note(helper ? fd_raise(open(path, O_RDWR | O_CLOEXEC)) : -1);
	if (fd.n >= 0 && (fd.dev != m->fd.dev || fd.ino != m->fd.ino))
		shca_fd_close(&fd);
	return fd.n;
}

void shca_file_put(struct shca_member *m, int fd)
{
	if (fd >= 0 && fd != m->fd.n)
		close(fd);
}

int shca_own_descriptors(const int *keep, int n)
{
	unsigned from = 0;

	/* valgrind's own descriptors are in the table, too */
	if (shca_under_valgrind())
		return -ENOSYS;
	/* the last range first: its descriptors must not be copied into the new table */
	if (syscall(SYS_close_range, (unsigned)keep[n - 1] + 1, ~0u, CLOSE_RANGE_UNSHARE))
		return -errno;
	own_table = true;
	for (int i = 0; i < n; i++) {
		if ((unsigned)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned)keep[i] - 1, 0);
		from = (unsigned)keep[i] + 1;
	}
	return 0;
}

int shca_stderr(void)
{
	char path[32];

	if (!own_table)
		return STDERR_FILENO;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), STDERR_FILENO);
	return fd_raise(open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC));
}

const char *shca_limit_of(int err)
{
	struct rlimit lim;

	switch (err) {
	case EMFILE:
		return " (limit on the descriptors of this process: ulimit -n)";
	case ENFILE:
		return " (limit on the open files of the machine: sysctl fs.file-max)";
	case EFBIG:
		return " (limit on the size of files: ulimit -f)";
	case ENOMEM:
		return !getrlimit(RLIMIT_AS, &lim) && lim.rlim_cur != RLIM_INFINITY ?
		       " (limit on the address space of this process: ulimit -v)" : "";
	default:
		return "";
	}
}

void shca_error(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = snprintf(line, sizeof(line), "shca: ");
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* one write, so that lines of several processes do not mix */
	int fd = shca_stderr();
	ssize_t written = fd >= 0 ? write(fd, line, (size_t)n) : -1;
	(void)written;	/* there is no other place to report an error */
	if (fd > STDERR_FILENO)
		close(fd);
}
