/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes: how bytes get from one process's memory to another's.
 *   the arena, and the engine's own buffers        plain loads and stores
 *   these, and this process's vouched memory       the same
 *   private memory, of this process or another     process_vm_readv, process_vm_writev
 *   between two other processes' private memory    the same, through a bounce buffer
 *
 * Private memory is the program's, and may have been unmapped, protected or cut off by a truncated file since registration. A
 * load or store there would be a signal that ends the process; a copy by the kernel ends in an error, which fails the request.
 * So the kernel also copies this process's own private memory.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "base/memcheck.h"
#include "shca/engine/copy.h"
#include "shca/fabric/memcheck.h"

/* Returns whether the kernel copies between this process and proc's private memory. */
static inline bool kernel_copies(const struct shca_thread *thr, uint32_t proc)
{
	return shca_cma_permitted(thr->m, proc);
}

/* Divides [at, at + n) into the pieces in which the kernel must write. Returns how many. */
static unsigned pieces_of(struct iovec piece[3], uint64_t at, uint64_t n, enum shca_order order)
{
	bool last = order == SHCA_LAST_LINE_LAST;
	uint64_t body = last && n > 64 ? n - 64 : 0, rest = last && n > 8 ? n - 8 : 0;
	unsigned k = 0;

	if (body)
		piece[k++] = (struct iovec){(void *)(uintptr_t)at, body};
	if (rest)
		piece[k++] = (struct iovec){(void *)(uintptr_t)(at + body), rest - body};
	piece[k++] = (struct iovec){(void *)(uintptr_t)(at + rest), n - rest};
	return k;
}

static int by_proxy(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t remote, char *local,
		    uint64_t n, enum shca_order order)
{
	shca_cma_proxied(thr->m, proc);
	return shca_proxy_copy(thr, dir, proc, remote, local, n, order);
}

/*
 * Copies between private memory of proc and local memory that may be loaded and stored. So a failure is one of proc's memory.
 *
 * The last 64 bytes are a piece of their own, and the last 8 of these, so that the kernel copies them after the rest: within one
 * piece the kernel may use string instructions, whose stores have no order among themselves.
 *
 * Danger: the kernel finds the process by the pid, which another process may get when the process has died and its parent has
 * waited for it. The life word is looked at right before the call, when the pid is still valid. One case remains: the process
 * dies, the parent waits for it, and the pid goes to a new process of the same user, all between that load and the look-up in the
 * system call.
 */
static int cma(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t remote, char *local, uint64_t n,
	       enum shca_order order)
{
	bool write = dir == SHCA_COPY_WRITE;
	pid_t pid = thr->m->procs[proc].pid;

	if (shca_proc_dying(thr->m, proc))
		return -ESRCH;
	if (!kernel_copies(thr, proc))
		return by_proxy(thr, dir, proc, remote, local, n, order);
	shca_memcheck_pass(thr->base, thr->m->bytes, local, n);
	while (n) {
		struct iovec liov = {local, n}, riov[3];
		unsigned nr = pieces_of(riov, remote, n, write ? order : SHCA_ANY_ORDER);
		ssize_t got = write ? process_vm_writev(pid, &liov, 1, riov, nr, 0) :
				      process_vm_readv(pid, &liov, 1, riov, nr, 0);
		if (got < 0 && shca_cma_refused(errno)) {
			shca_cma_deny(thr->m, proc, dir, errno);
			return by_proxy(thr, dir, proc, remote, local, n, order);
		}
		if (got <= 0)
			return got < 0 && errno != EINTR ? -errno : -EFAULT;
		if (write && proc == thr->m->slot)
			memcheck_received((void *)(uintptr_t)remote, (size_t)got);
		n -= (uint64_t)got;
		remote += (uint64_t)got;
		local += got;
	}
	return 0;
}

/* Copies between private memory of this process and private memory of proc, in one system call. */
static int copy_exchange(const struct shca_thread *thr, enum shca_copy_dir dir, uint32_t proc, uint64_t remote, uint64_t mine,
			 uint64_t n, enum shca_order order, bool *src_err)
{
	bool write = dir == SHCA_COPY_WRITE;
	pid_t pid = thr->m->procs[proc].pid;

	*src_err = !write;
	if (shca_proc_dying(thr->m, proc))
		return -ESRCH;
	while (n) {
		struct iovec from = {(void *)(uintptr_t)(write ? mine : remote), n}, to[3];
		unsigned k = pieces_of(to, write ? remote : mine, n, order);
		ssize_t got = write ? process_vm_writev(pid, &from, 1, to, k, 0) : process_vm_readv(pid, to, k, &from, 1, 0);
		if (got <= 0 && (got == 0 || errno == EFAULT || errno == EINTR)) {
			/* the copy stopped at a byte that one side lacks; a read of one byte of the source finds out which
			 * side */
			char byte;
			to[0] = (struct iovec){&byte, 1};
			from.iov_len = 1;
			*src_err = process_vm_readv(write ? thr->m->proc->pid : pid, to, 1, &from, 1, 0) != 1;
			return -EFAULT;
		}
		if (got < 0)
			return -errno;
		if (!write || proc == thr->m->slot)
			memcheck_received((void *)(uintptr_t)(write ? remote : mine), (size_t)got);
		n -= (uint64_t)got;
		remote += (uint64_t)got;
		mine += (uint64_t)got;
	}
	return 0;
}

/* Reads so that the last line appears after the rest: the line goes through a buffer, in the same system call. */
static int read_ordered(const struct shca_thread *thr, uint32_t proc, uint64_t remote, char *local, uint64_t n)
{
	char line[64];
	uint64_t end = n < sizeof(line) ? n : sizeof(line), body = n - end;
	int rc;

	if (kernel_copies(thr, proc) && !shca_proc_dying(thr->m, proc)) {
		shca_memcheck_pass(thr->base, thr->m->bytes, local, body);
		struct iovec liov[2] = {{local, body}, {line, end}}, riov = {(void *)(uintptr_t)remote, n};
		if (process_vm_readv(thr->m->procs[proc].pid, liov, 2, &riov, 1, 0) == (ssize_t)n) {
			shca_store_ordered(local + body, line, end);
			return 0;
		}
	}
	/* forbidden, or less than all was read: by pieces, which give the reason */
	rc = cma(thr, SHCA_COPY_READ, proc, remote, local, body, SHCA_ANY_ORDER);
	if (!rc)
		rc = cma(thr, SHCA_COPY_READ, proc, remote + body, line, end, SHCA_ANY_ORDER);
	if (!rc)
		shca_store_ordered(local + body, line, end);
	return rc;
}

char *shca_bounce_of(struct shca_thread *thr)
{
	if (!thr->bounce)
		thr->bounce = malloc(SHCA_BOUNCE);
	return thr->bounce;
}

/* shca_copy_piece from a null region, or of an indirect memory key. */
static __attribute__((noinline, cold)) int copy_zeros(struct shca_thread *thr, uint32_t dproc, char *dst, uint64_t dwhere,
						      uint64_t swhere, uint64_t n, enum shca_order order)
{
	static const char zeros[4096];

	if (SHCA_IS_MKEY(swhere))
		return SHCA_COPY_MKEY;
	for (uint64_t k; n; n -= k, dwhere += k) {
		k = n < sizeof(zeros) ? n : sizeof(zeros);
		/* by a line or more at the end, so that the last line is the last */
		if (n > sizeof(zeros) && n < sizeof(zeros) + SHCA_LINE)
			k = n - SHCA_LINE;
		enum shca_order now = k == n ? order : SHCA_ANY_ORDER;
		int rc = dst ? copy_store(dst, zeros, k, now) : cma(thr, SHCA_COPY_WRITE, dproc, dwhere, (char *)zeros, k, now);
		if (rc)
			return rc;
		if (dst)
			dst += k;
	}
	return 0;
}

/* shca_copy_piece where one side or both are private. */
static __attribute__((noinline)) int copy_private(struct shca_thread *thr, uint32_t dproc, char *dst, uint64_t dwhere,
						  uint32_t sproc, const char *src, uint64_t swhere, uint64_t n,
						  enum shca_order order, bool *src_err)
{
	int rc;

	if (unlikely(!dst && SHCA_IS_NULL(dwhere)))
		return SHCA_IS_MKEY(dwhere) ? SHCA_COPY_MKEY : 0;
	if (unlikely(!src && SHCA_IS_NULL(swhere)))
		return copy_zeros(thr, dproc, dst, dwhere, swhere, n, order);
	if (src)
		return cma(thr, SHCA_COPY_WRITE, dproc, dwhere, (char *)src, n, order);
	if (dst) {
		*src_err = true;
		return order == SHCA_LAST_LINE_LAST ? read_ordered(thr, sproc, swhere, dst, n) :
						      cma(thr, SHCA_COPY_READ, sproc, swhere, dst, n, SHCA_ANY_ORDER);
	}
	bool mine = sproc == thr->m->slot;
	enum shca_copy_dir dir = mine ? SHCA_COPY_WRITE : SHCA_COPY_READ;
	if ((mine || dproc == thr->m->slot) && kernel_copies(thr, mine ? dproc : sproc)) {
		rc = copy_exchange(thr, dir, mine ? dproc : sproc, mine ? dwhere : swhere, mine ? swhere : dwhere, n, order,
				   src_err);
		if (!shca_cma_refused(-rc))
			return rc;
		shca_cma_deny(thr->m, mine ? dproc : sproc, dir, -rc);
		*src_err = false;
	}
	if (!shca_bounce_of(thr))
		return -ENOMEM;
	while (n) {
		uint64_t k = n < SHCA_BOUNCE ? n : SHCA_BOUNCE;
		rc = cma(thr, SHCA_COPY_READ, sproc, swhere, thr->bounce, k, SHCA_ANY_ORDER);
		if (rc) {
			*src_err = true;
			return rc;
		}
		rc = cma(thr, SHCA_COPY_WRITE, dproc, dwhere, thr->bounce, k, k == n ? order : SHCA_ANY_ORDER);
		if (rc)
			return rc;
		n -= k;
		swhere += k;
		dwhere += k;
	}
	return 0;
}

int shca_copy_piece(struct shca_thread *thr, uint32_t dproc, char *dst, uint64_t dwhere, uint32_t sproc, const char *src,
		    uint64_t swhere, uint64_t n, enum shca_order order, bool *src_err)
{
	*src_err = false;
	if (dst && src)
		return copy_store(dst, src, n, order);
	return copy_private(thr, dproc, dst, dwhere, sproc, src, swhere, n, order, src_err);
}
