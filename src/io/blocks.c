/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of the system calls in which a thread of src/io may block, for the hang report (runtime/syscalls.h). */
#include "io/io.h"

_Thread_local const char *hdl_io_call;

static const char *io_call(void)
{
	return hdl_io_call ? hdl_io_call : hdl_call;
}

struct hdl_syscall *hdl_io_blocks(const char *name, int fd, MPI_Offset at, MPI_Offset bytes)
{
	return hdl_syscall_begin(io_call(), name, fd, -1, at, bytes);
}

struct hdl_syscall *hdl_io_blocks_lock(int fd, short type, MPI_Offset at, MPI_Offset bytes)
{
	return hdl_syscall_begin(io_call(), "fcntl(F_OFD_SETLKW)", fd, type, at, bytes);
}

struct hdl_syscall *hdl_io_blocks_path(const char *name, const char *path)
{
	return hdl_syscall_begin_path(io_call(), name, path);
}
