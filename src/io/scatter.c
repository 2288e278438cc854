/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes of short near runs: through a mapping of the file, many runs by one system call, in place of one pwrite for each.
 *
 *     memory   |run 0|run 1|run 2|…
 *                 │     └───────┐             process_vm_readv of this process: the kernel copies into the mapping
 *     file     |··run 0··|··run 1··|…         mmap(MAP_SHARED), whose pages are had at once
 *
 * The bytes of the runs are stored, and no other: this is no read-modify-write, and what other processes write between them
 * stays. The kernel copies, and not memcpy: where a page of the file cannot be had (no space, the file was cut), process_vm_readv
 * returns with fewer bytes, and a store would be SIGBUS. pwrite then writes the rest, and tells the reason.
 */
#include "io/io.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Fewer runs do not pay for a mapping. */
#define RUNS_LEAST	32
/* Bytes of the file from run to run, on average, up to which a page that is mapped has enough of them. */
#define STRIDE_MOST	2560

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23	/* Linux 5.14 */
#endif

/* The kernel refuses process_vm_readv (a sandbox). Any thread sets it. */
static bool refused;

bool hdl_scatter_pays(const struct hdl_access *a, const struct hdl_batch *b)
{
	return a->file->maps && b->n >= RUNS_LEAST && (b->end - b->at[0]) / b->n <= STRIDE_MOST && b->ascends &&
	       !__atomic_load_n(&refused, __ATOMIC_RELAXED);
}

/* Makes the file as long as the batch needs, by writing its last run: this never shortens a file that another process
 * lengthens. */
static bool lengthen(struct hdl_access *a, const struct hdl_batch *b, const char *data)
{
	MPI_Count n = b->len[b->n - 1], done = 0;
	struct stat s;

	if (b->end <= a->file_end)
		return true;
	if (fstat(a->file->fd, &s))
		return false;
	a->file_end = s.st_size;
	if (b->end <= a->file_end)
		return true;
	if (hdl_write_run(a->file->fd, data + b->bytes - n, n, b->end - n, &done))
		return false;
	a->file_end = b->end;
	return true;
}

/* Copies data into the mapping of the file that begins at `first`. Returns how many bytes of the batch. */
static MPI_Count scatter_copy_runs(struct hdl_batch *b, char *map, MPI_Offset first, const char *data)
{
	pid_t self = getpid();
	MPI_Count moved = 0, n;
	ssize_t got;
	int i = 0, k;

	while (i < b->n) {
		for (k = 0, n = 0; k < HDL_BATCH_VECTOR && i < b->n; k++, i++) {
			b->vector[k] = (struct iovec){ map + (b->at[i] - first), (size_t)b->len[i] };
			n += b->len[i];
		}
		got = process_vm_readv(self, b->vector, (unsigned long)k, &(struct iovec){(char *)data + moved, (size_t)n}, 1,
				       0);
		if (got < 0 && (errno == ENOSYS || errno == EPERM))
			__atomic_store_n(&refused, true, __ATOMIC_RELAXED);
		moved += got > 0 ? got : 0;
		if (got != n)
			break;
	}
	return moved;
}

MPI_Count hdl_scatter(struct hdl_access *a, struct hdl_batch *b, const char *data)
{
	MPI_Offset first = b->at[0] & -(MPI_Offset)sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)(b->end - first);
	struct hdl_syscall *s;
	MPI_Count moved;
	char *map;

	if (!lengthen(a, b, data))
		return 0;
	/* MAP_POPULATE maps pages for reading, which on tmpfs are then written without a fault. A file system with blocks is
	 * told of the first write to each page: a fault for each in the copy, or all by one call. Where that call fails, the
	 * copy does without or ends early. */
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (a->file->in_memory ? MAP_POPULATE : 0), a->file->fd, first);
	if (map == MAP_FAILED)
		return 0;
	if (!a->file->in_memory)
		madvise(map, bytes, MADV_POPULATE_WRITE);
	s = hdl_io_blocks("process_vm_readv into a mapping", a->file->fd, first, (MPI_Offset)bytes);
	moved = scatter_copy_runs(b, map, first, data);
	hdl_syscall_end(s);
	munmap(map, bytes);
	return moved;
}
