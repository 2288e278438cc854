/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes of files (MPI-5.0 section 14.8). */
#include "io/io.h"

#include <errno.h>
#include <string.h>

static const struct {
	int err, class;
	const char *advice;
} classes[] = {
	{ ENOENT, MPI_ERR_NO_SUCH_FILE, "" },
	{ ENOTDIR, MPI_ERR_BAD_FILE, "" },
	{ ENAMETOOLONG, MPI_ERR_BAD_FILE, "" },
	{ ELOOP, MPI_ERR_BAD_FILE, "" },
	{ EISDIR, MPI_ERR_BAD_FILE, "" },
	{ ENXIO, MPI_ERR_BAD_FILE, "" },
	{ ENODEV, MPI_ERR_BAD_FILE, "" },
	{ ESPIPE, MPI_ERR_BAD_FILE, ": a file needs offsets, and a pipe or a socket has none" },
	{ EEXIST, MPI_ERR_FILE_EXISTS, "" },
	{ EACCES, MPI_ERR_ACCESS, "" },
	{ EPERM, MPI_ERR_ACCESS, "" },
	{ EBADF, MPI_ERR_ACCESS, "" },
	{ EROFS, MPI_ERR_READ_ONLY, "" },
	{ ENOSPC, MPI_ERR_NO_SPACE, "" },
	{ EDQUOT, MPI_ERR_QUOTA, "" },
	{ EBUSY, MPI_ERR_FILE_IN_USE, "" },
	{ ETXTBSY, MPI_ERR_FILE_IN_USE, ": the file is a program that runs" },
	{ ENOMEM, MPI_ERR_NO_MEM, "" },
	{ EFBIG, MPI_ERR_IO, ": the file system or the limit of file sizes (ulimit -f) allows no such size" },
	{ EMFILE, MPI_ERR_OTHER, "; the limit is shown by ulimit -n" },
	{ ENFILE, MPI_ERR_OTHER, "" },
	{ EOPNOTSUPP, MPI_ERR_UNSUPPORTED_OPERATION, "" },
	{ ENOLCK, MPI_ERR_UNSUPPORTED_OPERATION, ": the file system has no locks" },
	{ ENOSYS, MPI_ERR_UNSUPPORTED_OPERATION, "" },
};

/* Advice on errors of open(2) only. */
static const char *advice_on_open(int err)
{
	return err == ENOENT ? "; MPI_MODE_CREATE makes a file that does not exist, but not its directory" :
	       err == EEXIST ? "; the access mode has MPI_MODE_EXCL" : "";
}

int hdl_io_class(int err, const char *what, const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (classes[i].err == err) {
			hdl_reason_set("cannot %s %s: %s%s%s", what, path, strerror(err), classes[i].advice,
				       strcmp(what, "open") ? "" : advice_on_open(err));
			return classes[i].class;
		}
	hdl_reason_set("cannot %s %s: %s", what, path, strerror(err));
	return MPI_ERR_IO;
}
