/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of descriptors. A process may run with any of descriptors 0 to 2 closed (a daemon). The kernel gives out the lowest
 * free number, and the program's output would then go into a file that the library has opened under that number.
 *
 *  1. Every descriptor that a library keeps, or may write to, goes through fd_raise() as soon as it is made.
 *  2. Code of other libraries that opens descriptors (libpmix, libibverbs) runs between fd_reserve() and fd_release().
 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

/* The lowest number of a descriptor that belongs to a library. */
#define FD_LIBRARY_MIN 3

/* Moves a descriptor to a number from FD_LIBRARY_MIN on, with FD_CLOEXEC. Returns that number, or -1 with errno: then fd is
 * closed. fd below 0: nothing is done, errno stays, so that the call that makes the descriptor can be the argument. */
static inline int fd_raise(int fd)
{
	int high, err;

	if (fd < 0 || fd >= FD_LIBRARY_MIN)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_LIBRARY_MIN);
	err = errno;
	close(fd);
	errno = err;
	return high;
}

/* Moves a descriptor of the library behind those that select(2) can name, where the limit on descriptors leaves room for twice as
 * many. Returns the number; where it cannot be moved: fd. fd below 0: nothing is done, errno stays. */
static inline int fd_raise_over_select(int fd)
{
	struct rlimit limit;
	int high;

	if (fd < 0 || fd >= FD_SETSIZE || getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur <= 2 * FD_SETSIZE)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* Takes the free numbers of 0 to 2, so that the kernel gives them to no other open. A write there fails as on a closed
 * descriptor (O_PATH). Returns a mask of them for fd_release. errno stays. */
static inline unsigned fd_reserve(void)
{
	unsigned mask = 0;
	int err = errno, fd;

	for (int i = 0; i < FD_LIBRARY_MIN; i++) {
		if (fcntl(i, F_GETFD) >= 0)
			continue;
		fd = open("/", O_PATH | O_CLOEXEC);
		if (fd >= FD_LIBRARY_MIN)
			close(fd);	/* another thread has taken i */
		else if (fd >= 0)
			mask |= 1u << fd;
	}
	errno = err;
	return mask;
}

/* Frees the reserved numbers, except those under which the program has opened another file meanwhile. errno stays. */
static inline void fd_release(unsigned mask)
{
	int err = errno;

	for (int i = 0; i < FD_LIBRARY_MIN; i++)
		if (mask & 1u << i && fcntl(i, F_GETFL) & O_PATH)
			close(i);
	errno = err;
}

#endif
