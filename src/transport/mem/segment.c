/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that processes of one host load and store in place, without a device: a file in memory, which one process creates and
 * all processes map.
 *
 *     HDL_SEGMENT_ANONYMOUS   a file without a name (memfd_create): peers open /proc/PID/fd/N of the maker. Must: same PID
 *                             namespace, and the right to look at the maker's descriptors
 *     HDL_SEGMENT_NAMED       a file in /dev/shm, whose name goes when all have opened it: containers that share /dev/shm only
 *
 * The maker of a named file holds its lock (flock(2)) until then, and the kernel drops the lock of a maker that dies. Each maker
 * of a named file first unlinks the named files of this user whose lock no process holds.
 *
 * Pages are reserved when the segment is made (fallocate): no access raises SIGBUS, and a segment larger than the memory that is
 * left is refused. The memory lives until the last process has unmapped it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "transport/transport.h"

#define SHM "/dev/shm"
#define PREFIX "heddle-segment-"

/* A name that no other file has: peers recognise the file by it. */
static void segment_name(const struct hdl_segment *s, char name[static 32])
{
	snprintf(name, 32, PREFIX "%016llx", (unsigned long long)s->nonce);
}

static void segment_path(const struct hdl_segment *s, char path[static 64])
{
	char name[32];

	segment_name(s, name);
	if (s->how == HDL_SEGMENT_NAMED)
		snprintf(path, 64, SHM "/%s", name);
	else
		snprintf(path, 64, "/proc/%d/fd/%d", (int)s->pid, (int)s->fd);
}

/* Unlinks the names of makers that have died. */
static void segments_sweep(void)
{
	DIR *dir = opendir(SHM);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		struct stat st;
		int fd;

		if (strncmp(e->d_name, PREFIX, sizeof(PREFIX) - 1))
			continue;
		fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(dirfd(dir), e->d_name, 0);
		close(fd);
	}
	if (dir)
		closedir(dir);
}

/* Makes a file with a name, and locks it. Until it is locked another maker may take its name for a dead maker's. */
static int segment_named_file(struct hdl_segment *s)
{
	enum { TRIES = 16 };

	segments_sweep();
	for (int i = 0; i < TRIES; i++) {
		char path[64];
		struct stat st;
		int fd;

		segment_path(s, path);
		fd = fd_raise(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
		if (fd < 0)
			return -1;
		if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink)
			return fd;
		unlink(path);
		close(fd);
		s->nonce++;
	}
	errno = EAGAIN;
	return -1;
}

static int segment_file(struct hdl_segment *s)
{
	char name[32];

	if (s->how == HDL_SEGMENT_NAMED)
		return segment_named_file(s);
	segment_name(s, name);
	return fd_raise(memfd_create(name, MFD_CLOEXEC));
}

/* Returns true if the file at the path is the segment: in another PID namespace, or on another host, it may be any. */
static bool segment_is_at(const struct hdl_segment *s, const char *path)
{
	char name[32], link[128];
	ssize_t n;

	if (s->how == HDL_SEGMENT_NAMED)
		return true;
	segment_name(s, name);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return false;
	link[n] = 0;
	return strstr(link, name);
}

static void *segment_map(int fd, size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Reserves the pages of a file. Returns 0 or a negative errno. */
static int segment_reserve(int fd, uint64_t bytes)
{
	if (bytes > memory_available(MEMORY_GROUP_SELF, MEMORY_GROUP_V1, MEMORY_GROUP_V2).bytes)
		return -ENOMEM;
	return memory_reserve(fd, 0, bytes);
}

void *hdl_segment_make(enum hdl_segment_how how, size_t bytes, struct hdl_segment *s)
{
	void *p = NULL;
	int err = 0;

	*s = (struct hdl_segment){ .how = how, .bytes = bytes, .pid = getpid(), .fd = -1 };
	if (getrandom(&s->nonce, sizeof(s->nonce), 0) != sizeof(s->nonce) || (s->fd = segment_file(s)) < 0)
		return NULL;
	err = -segment_reserve(s->fd, bytes);
	if (!err && !(p = segment_map(s->fd, bytes)))
		err = errno;
	if (!p) {
		hdl_segment_opened(s);
		errno = err == ENOSPC ? ENOMEM : err;
		return NULL;
	}
	hdl_ledger_add("windows", p, bytes);
	return p;
}

void hdl_segment_opened(struct hdl_segment *s)
{
	char path[64];

	if (s->fd < 0)
		return;
	if (s->how == HDL_SEGMENT_NAMED) {
		segment_path(s, path);
		unlink(path);
	}
	close(s->fd);
	s->fd = -1;
}

void *hdl_segment_open(const struct hdl_segment *s)
{
	char path[64];
	struct stat st;
	void *p = NULL;
	int fd, err;

	segment_path(s, path);
	if (!segment_is_at(s, path)) {
		errno = ESTALE;
		return NULL;
	}
	fd = fd_raise(open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW * (s->how == HDL_SEGMENT_NAMED)));
	if (fd < 0)
		return NULL;
	err = ESTALE;
	if (!fstat(fd, &st) && (uint64_t)st.st_size == s->bytes && !(p = segment_map(fd, s->bytes)))
		err = errno;
	close(fd);
	errno = err;
	return p;
}

void hdl_segment_unmap(void *p, size_t bytes)
{
	hdl_ledger_drop(p);
	munmap(p, bytes);
}
