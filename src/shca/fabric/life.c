/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two witnesses of a process's life. One is exact and costs a system call, the other is a load and reports the death too
 * early:
 *
 *  - The life lock, a lock on byte (1 + slot) of the fabric file that belongs to an open file description (F_OFD_SETLK).
 *    The process opens a description of its own, maps a page and closes the descriptor: from then on only
 *    that mapping refers to the description. So neither close_range nor a second descriptor of the file loses the lock,
 *    no forked child inherits it (MADV_DONTFORK), and the kernel drops it at the end of the address space, after exec, too,
 *    when no thread of the process can store any more.
 *    Without /proc there is no second description of a memory file. Then the life lock is a record lock of the process on the
 *    descriptor that the process was given; any close of a descriptor of that file drops the lock.
 *  - The life word of the process slot, a robust futex that the helper thread holds. When the process begins to end, the
 *    kernel sets FUTEX_OWNER_DIED there. Other threads of the process may still be storing then: a thread that sees the bit stops
 *    sending and asks its own helper thread to look, and the helper waits for the life lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "shca/fabric/fabric.h"

/* ---- the life lock --------------------------------------------------------------------------------------------- */

int shca_life_open(struct shca_member *m)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd.n);
	int fd = fd_raise(open(path, O_RDWR | O_CLOEXEC));
	if (fd < 0 && errno == ENOENT)
		return m->fd.n;		/* no /proc */
	if (fd < 0) {
		int err = errno;
		shca_error("cannot open %s, the file of the fabric \"%s\": %s%s", path, m->hdr->name, strerror(err),
			   shca_limit_of(err));
		return -err;
	}
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED || madvise(page, 4096, MADV_DONTFORK)) {
		int err = errno;
		shca_error("cannot map a page of the fabric \"%s\": %s%s", m->hdr->name, strerror(err), shca_limit_of(err));
		if (page != MAP_FAILED)
			munmap(page, 4096);
		close(fd);
		return -err;
	}
	m->life_page = page;
	return fd;
}

int shca_life_lock(struct shca_member *m, int fd, uint32_t slot, bool take)
{
	int how = fd == m->fd.n ? F_SETLK : F_OFD_SETLK;
	struct flock l = { .l_type = take ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = 1 + (off_t)slot, .l_len = 1 };
	int r;

	while ((r = fcntl(fd, how, &l)) && errno == EINTR)
		;
	return !r ? 0 : errno == EACCES ? -EAGAIN : -errno;
}

void shca_life_close(struct shca_member *m, int fd)
{
	if (fd >= 0 && fd != m->fd.n)
		close(fd);
}

void shca_life_drop(struct shca_member *m)
{
	if (m->life_page)
		munmap(m->life_page, 4096);
	else if (!m->virtual_process && shca_fd_ours(&m->fd))
		shca_life_lock(m, m->fd.n, m->slot, false);
	m->life_page = NULL;
}

bool shca_life_held(struct shca_member *m, uint32_t slot)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1 + (off_t)slot, .l_len = 1 };

	/* An error of the look-up counts as alive: no process is taken for dead because this one could not look. Checked before
	 * and after, lest another file answered. */
	return !shca_fd_ours(&m->fd) || fcntl(m->fd.n, F_OFD_GETLK, &l) || l.l_type != F_UNLCK || !shca_fd_ours(&m->fd);
}

/* ---- the life word --------------------------------------------------------------------------------------------- */

/* The list that the kernel walks when the thread ends (linux/futex.h): one entry, which lies outside of the shared memory. */
static __thread struct {
	struct robust_list_head head;
	struct robust_list entry;
	struct robust_list_head *libc;	/* the thread library's, in force again afterwards */
} robust;

int shca_life_word_take(struct shca_member *m)
{
	size_t len;

	if (syscall(SYS_get_robust_list, 0, &robust.libc, &len))
		return -errno;
	robust.entry.next = &robust.head.list;
	robust.head.list.next = &robust.entry;
	robust.head.futex_offset = (long)((char *)&m->proc->life - (char *)&robust.entry);
	robust.head.list_op_pending = NULL;
	/* The list first: the kernel leaves alone a word that has not this thread's id, and a word without the list reports no
	 * death. */
	if (syscall(SYS_set_robust_list, &robust.head, sizeof(robust.head)))
		return -errno;
	atomic_store(&m->proc->life, (uint32_t)syscall(SYS_gettid));
	return 0;
}

void shca_life_word_drop(struct shca_member *m)
{
	atomic_store(&m->proc->life, 0);
	syscall(SYS_set_robust_list, robust.libc, sizeof(*robust.libc));
}
