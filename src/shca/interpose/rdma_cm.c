/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of libshca-files.so: the calls on descriptors of /dev/infiniband/rdma_cm, by which librdmacm gives its commands (src/rdmacm),
 * and of /dev/infiniband/umad* (src/umad).
 *
 * read(), write() and close() may be called in signal handlers, and by every program that shcarun starts: until the program opens
 * such a file, each call costs one or two loads more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base.h"
#include "rdmacm/rdmacm.h"
#include "shca/interpose/forward.h"
#include "shca/interpose/interpose.h"
#include "umad/umad.h"

static inline bool any_channel(void)
{
	return unlikely(atomic_load_explicit(&rcm_channels_open, memory_order_relaxed) != 0);
}

static inline bool any_umad(void)
{
	return unlikely(atomic_load_explicit(&um_open_fds, memory_order_relaxed) != 0);
}

EXPORT ssize_t read(int fd, void *buf, size_t n)
{
	ssize_t result;

	if (any_umad() && um_read(fd, buf, n, &result))
		return result;
	return FORWARD(read)(fd, buf, n);
}

/* The call into which _FORTIFY_SOURCE turns a read() into an object of a size that the compiler knows. */
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size);
EXPORT ssize_t __read_chk(int fd, void *buf, size_t n, size_t size)
{
	ssize_t result;

	if (any_umad() && n <= size && um_read(fd, buf, n, &result))
		return result;
	return FORWARD(__read_chk)(fd, buf, n, size);
}

EXPORT ssize_t write(int fd, const void *buf, size_t n)
{
	ssize_t result;

	if (any_channel() && rcm_write(fd, buf, n, &result))
		return result;
	if (any_umad() && um_write(fd, buf, n, &result))
		return result;
	return FORWARD(write)(fd, buf, n);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	int result;

	va_start(ap, request);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	if (any_umad() && um_ioctl(fd, request, arg, &result))
		return result;
	return FORWARD(ioctl)(fd, request, arg);
}

EXPORT int close(int fd)
{
	if (any_channel())
		rcm_closing(fd);
	if (any_umad())
		um_closing(fd);
	return FORWARD(close)(fd);
}

/* Looks up the functions that signal handlers may call: dlsym takes locks. */
__attribute__((constructor)) static void find_functions(void)
{
	char c;

	if (read(-1, &c, 0) < 0 && write(-1, "", 0) < 0)
		close(-1);
}

static int duplicated(int fd, int copy)
{
	if (copy >= 0 && any_channel())
		rcm_duplicated(fd, copy);
	if (copy >= 0 && any_umad())
		um_duplicated(fd, copy);
	return copy;
}

EXPORT int dup(int fd)
{
	return duplicated(fd, FORWARD(dup)(fd));
}

/* The number `to` is about to be overwritten, if fd is open. */
static void overwriting(int fd, int to)
{
	int saved = errno;

	if ((any_channel() || any_umad()) && fd != to && FORWARD(fcntl)(fd, F_GETFD) >= 0) {
		rcm_closing(to);
		um_closing(to);
	}
	errno = saved;
}

EXPORT int dup2(int fd, int to)
{
	overwriting(fd, to);
	return duplicated(fd, FORWARD(dup2)(fd, to));
}

EXPORT int dup3(int fd, int to, int flags)
{
	overwriting(fd, to);
	return duplicated(fd, FORWARD(dup3)(fd, to, flags));
}

#define FCNTL(function)                                                                       \
	EXPORT int function(int fd, int cmd, ...)                                             \
	{                                                                                     \
		va_list ap;                                                                   \
		va_start(ap, cmd);                                                            \
		void *arg = va_arg(ap, void *);                                               \
		va_end(ap);                                                                   \
		int r = FORWARD(function)(fd, cmd, arg);                                      \
		return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? duplicated(fd, r) : r;      \
	}
FCNTL(fcntl)
FCNTL(fcntl64)

/* The device number of rdma_cm. */
static dev_t cm_device(void)
{
	struct shca_file file;

	return shca_device_file("/dev/infiniband/rdma_cm", &file) ? makedev(10, 58) : makedev(10, file.minor);
}

/* librdmacm takes a descriptor only if it is a character device's; an event channel is an epoll descriptor. */
#define FSTAT(function, type, arguments, forwarded)                                           \
	EXPORT int function arguments;                                                        \
	EXPORT int function arguments                                                         \
	{                                                                                     \
		int r = FORWARD(function) forwarded;                                          \
		if (!r && any_channel() && rcm_is_channel(fd)) {                              \
			st->st_mode = S_IFCHR | 0666;                                         \
			st->st_rdev = cm_device();                                            \
		} else if (!r && any_umad() && um_is_file(fd)) {                              \
			st->st_mode = S_IFCHR | 0666;                                         \
			st->st_rdev = makedev(231, 0);                                        \
		}                                                                             \
		return r;                                                                     \
	}
FSTAT(fstat, stat, (int fd, struct stat *st), (fd, st))
FSTAT(fstat64, stat64, (int fd, struct stat64 *st), (fd, st))
FSTAT(__fxstat, stat, (int version, int fd, struct stat *st), (version, fd, st))
FSTAT(__fxstat64, stat64, (int version, int fd, struct stat64 *st), (version, fd, st))
