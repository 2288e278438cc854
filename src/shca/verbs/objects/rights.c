/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether memory may be registered: all pages mapped, with the protection that the access flags need. ibv_reg_mr on an adapter
 * finds that out by pinning the pages (ib_umem_get: write access where ib_access_writable, else read access). Here no page is
 * pinned or touched, except the last page of a file, which may lie behind the file's end.
 *
 * Means, in this order: PROCMAP_QUERY (Linux 6.11), a microsecond for each mapping; without it or without /proc, for a short
 * range, madvise(MADV_POPULATE_*) (5.14), which reads or writes the page tables as pinning would; for a long range the text of
 * /proc/self/maps, 25 us for 230 mappings. If all fail, msync tells whether the range is mapped. Protection is then an error of
 * the requests, as is protection that changes after the registration (engine/copy.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shca/fabric/memcheck.h"
#include "shca/verbs/control.h"

/* <linux/fs.h>, since 6.11 */
struct procmap_query_v1 {
	uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY_V1 _IOWR('f', 17, struct procmap_query_v1)
#define VMA_READABLE 1u
#define VMA_WRITABLE 2u
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define POPULATE_MAX (1u << 20)

struct range {
	uintptr_t from, to, page;	/* whole pages */
	bool writable;
};

struct mapping {
	uint64_t from, to;
	bool readable, writable, file;
};

/* Returns true if the range's part of a mapping may be registered. */
static bool suits(const struct range *r, const struct mapping *v)
{
	uintptr_t to = v->to < r->to ? v->to : r->to;

	if (!(r->writable ? v->writable : v->readable))
		return false;
	return !v->file || !v->readable || !madvise((void *)(to - r->page), r->page, MADV_POPULATE_READ) || errno != EFAULT;
}

/* These return 0, EFAULT, or ENOTSUP: the kernel cannot be asked so. */
static int by_query(int maps, const struct range *r)
{
	for (uintptr_t at = r->from; at < r->to;) {
		struct procmap_query_v1 q = {.size = sizeof(q), .query_addr = at};
		if (ioctl(maps, PROCMAP_QUERY_V1, &q))
			return errno == ENOENT ? EFAULT : ENOTSUP;	/* said: shca_memory_check */
		struct mapping v = {q.vma_start, q.vma_end, q.vma_flags & VMA_READABLE, q.vma_flags & VMA_WRITABLE, q.inode != 0};
		if (!suits(r, &v))
			return EFAULT;	/* said: there */
		at = v.to;
	}
	return 0;
}

static int rights_by_text(int maps, const struct range *r)
{
	int fd = dup(maps), err = EFAULT;	/* said: shca_memory_check */
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	uintptr_t at = r->from;
	char line[4352];

	if (!f) {
		if (fd >= 0)
			close(fd);
		return ENOTSUP;	/* said: there */
	}
	while (at < r->to && fgets(line, sizeof(line), f)) {
		struct mapping v;
		uint64_t inode;
		char rights[5];
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %" SCNu64, &v.from, &v.to, rights, &inode) != 4) {
			err = ENOTSUP;	/* said: there */
			break;
		}
		if (v.to <= at)
			continue;
		v.readable = rights[0] == 'r';
		v.writable = rights[1] == 'w';
		v.file = inode != 0;
		if (v.from > at || !suits(r, &v))
			break;
		at = v.to;
	}
	fclose(f);
	return at >= r->to ? 0 : err;
}

static int by_population(const struct range *r)
{
	int advice = r->writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	if (!madvise((void *)r->from, r->to - r->from, advice))
		return 0;
	/* EINVAL: protection, or a kernel without this advice, which also refuses an empty range */
	bool refused = errno == EFAULT || errno == ENOMEM || (errno == EINVAL && !madvise((void *)r->from, 0, advice));
	return refused ? EFAULT : ENOTSUP;	/* said: shca_memory_check */
}

static int by_any(const struct range *r)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int err = maps < 0 ? ENOTSUP : by_query(maps, r);	/* said: shca_memory_check */

	if (err == ENOTSUP)
		err = maps < 0 || r->to - r->from <= POPULATE_MAX ? by_population(r) : rights_by_text(maps, r);
	if (maps >= 0)
		close(maps);
	if (err == ENOTSUP)
		err = msync((void *)r->from, r->to - r->from, MS_ASYNC) && errno == ENOMEM ? EFAULT : 0;	/* said: there */
	return err;
}

int shca_memory_check(const void *addr, size_t length, unsigned int access)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (uintptr_t)addr + length;

	if (end < (uintptr_t)addr || end > UINTPTR_MAX - page)
		return shca_refuse(EINVAL,
				   "reg_mr: %p + %zu goes round the address space (an implicit region begins at NULL, and is "
				   "IBV_ACCESS_ON_DEMAND)",
				   addr, length);
	if (!length)
		return 0;
	struct range r = {(uintptr_t)addr & ~(page - 1), align_up(end, page), page,
			  access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)};
	int saved = errno;
	/* the memory's contents are not read, but memcheck would check them */
	shca_memcheck_quiet(true);
	int err = by_any(&r);
	shca_memcheck_quiet(false);
	errno = saved;
	if (err)
		return shca_refuse(err, "reg_mr: %p + %zu is not wholly mapped and %s, as access %#x needs: check mmap and "
				   "mprotect of the range, and the length of a mapped file", addr, length,
				   r.writable ? "writable" : "readable", access);
	return 0;
}
