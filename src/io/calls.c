/* SPDX-License-Identifier: BSD-3-Clause */
/* pwrite and pread of one run of the file, as often as the whole run needs. */
#include "io/io.h"

#include <errno.h>
#include <unistd.h>

/* Bytes of one system call. The kernel moves at most 2^31 - 4096. */
#define CALL_BYTES	((size_t)1 << 30)

int hdl_write_run(int fd, const char *data, MPI_Count n, MPI_Offset at, MPI_Count *moved)
{
	while (n) {
		ssize_t done = pwrite(fd, data, n < (MPI_Count)CALL_BYTES ? (size_t)n : CALL_BYTES, at);

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
		ssize_t done = pread(fd, data + *got, rest < (MPI_Count)CALL_BYTES ? (size_t)rest : CALL_BYTES, at + *got);

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
