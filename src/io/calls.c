/* SPDX-License-Identifier: BSD-3-Clause */
/* pwrite and pread of one run of the file, as often as the whole run needs; the limit of file sizes. */
#include "io/io.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of one system call. The kernel moves at most 2^31 - 4096. */
#define CALL_BYTES	((size_t)1 << 30)

/* RLIMIT_FSIZE (ulimit -f): above this offset the kernel would send SIGXFSZ, whose default action ends the process. Writer: any
 * thread. */
static MPI_Offset size_limit = INT64_MAX;

void hdl_size_limit_read(void)
{
	struct rlimit l;
	MPI_Offset limit = getrlimit(RLIMIT_FSIZE, &l) || l.rlim_cur > INT64_MAX ? INT64_MAX : (MPI_Offset)l.rlim_cur;

	__atomic_store_n(&size_limit, limit, __ATOMIC_RELAXED);
}

static bool is_beyond_limit(MPI_Offset at)
{
	return at >= __atomic_load_n(&size_limit, __ATOMIC_RELAXED);
}

/* Returns EFBIG, or 0 if the program has raised the limit since, or if the file is no regular one. */
static int beyond_limit(int fd, MPI_Offset at)
{
	struct stat s;

	hdl_size_limit_read();
	return is_beyond_limit(at) && !fstat(fd, &s) && S_ISREG(s.st_mode) ? EFBIG : 0;
}

int hdl_size_limit_check(int fd, MPI_Offset size)
{
	struct stat s;

	/* the limit is one of growth */
	return size && is_beyond_limit(size - 1) && !fstat(fd, &s) && size > s.st_size ? beyond_limit(fd, size - 1) : 0;
}

int hdl_write_run(int fd, const char *data, MPI_Count n, MPI_Offset at, MPI_Count *moved)
{
	while (n) {
		struct hdl_syscall *s;
		ssize_t done;

		if (unlikely(is_beyond_limit(at)) && beyond_limit(fd, at))
			return EFBIG;
		s = hdl_io_blocks("pwrite", fd, at, n);
		done = pwrite(fd, data, n < (MPI_Count)CALL_BYTES ? (size_t)n : CALL_BYTES, at);
		hdl_syscall_end(s);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? errno : EIO;
		data += done;
		at += done;
		n -= done;
		*moved += done;
	}
	return 0;
}

int hdl_read_run(int fd, char *data, MPI_Count n, MPI_Offset at, MPI_Count *got)
{
	*got = 0;
	while (*got < n) {
		MPI_Count rest = n - *got;
		struct hdl_syscall *s = hdl_io_blocks("pread", fd, at + *got, rest);
		ssize_t done = pread(fd, data + *got, rest < (MPI_Count)CALL_BYTES ? (size_t)rest : CALL_BYTES, at + *got);

		hdl_syscall_end(s);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		if (!done)
			break;
		*got += done;
	}
	return 0;
}
