/* SPDX-License-Identifier: BSD-3-Clause */
/* The mapping of a fabric's file (file.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shca/fabric/fabric.h"
#include "shca/fabric/memcheck.h"

/* Returns how much of the span to try first. Under a limit on the address space the program itself needs most of the space;
 * thread sanitizer's and valgrind's bookkeeping grows with the mapping. */
static uint64_t reserve_wanted(uint64_t span)
{
	uint64_t want = span;
	struct rlimit lim;
	if (!getrlimit(RLIMIT_AS, &lim) && lim.rlim_cur != RLIM_INFINITY && lim.rlim_cur / 4 < want)
		want = lim.rlim_cur / 4;
#if defined(SHCA_TSAN)
	const bool heavy = true;
#else
	const bool heavy = false;
#endif
	if ((heavy || shca_under_valgrind()) && want > ((uint64_t)4 << 30))
		want = (uint64_t)4 << 30;
	return want & ~(uint64_t)(SHCA_CHUNK - 1);
}

int shca_map_file(struct shca_member *m, int fd, int prot, uint64_t exactly)
{
	struct shca_header h;
	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h))
		return -EIO;
	uint64_t front = (uint64_t)h.first_chunk * SHCA_CHUNK;
	uint64_t least = front + 16 * SHCA_CHUNK < h.bytes ? front + 16 * SHCA_CHUNK : h.bytes;
	uint64_t want = exactly ? exactly : reserve_wanted(h.bytes);
	if (exactly)
		least = exactly;
	void *base = MAP_FAILED;
	for (; want > least; want = (want / 2) & ~(uint64_t)(SHCA_CHUNK - 1)) {
		base = mmap(NULL, want, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
		/* EAGAIN: mlockall(MCL_FUTURE) under RLIMIT_MEMLOCK */
		if (base != MAP_FAILED || (errno != ENOMEM && errno != EAGAIN))
			break;
	}
	if (base == MAP_FAILED) {
		want = least;
		base = mmap(NULL, want, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
	}
	if (base == MAP_FAILED) {
		int err = errno;
		struct rlimit lim = { 0 };
		getrlimit(RLIMIT_AS, &lim);
		shca_error("cannot map the fabric \"%.63s\": %llu bytes of address space are needed at least: %s. The limit "
			   "is %llu (ulimit -v)",
			   h.name, (unsigned long long)least, strerror(err), (unsigned long long)lim.rlim_cur);
		return -err;
	}
	/* A child of fork would otherwise keep the memory in use; and the writer of a core file would touch, and so allocate,
	 * every hole of the file. */
	if (madvise(base, want, MADV_DONTFORK) || madvise(base, want, MADV_DONTDUMP)) {
		int err = errno;
		shca_error("madvise on the fabric: %s", strerror(err));
		munmap(base, want);
		return -err;
	}
	/* a mapping of `exactly` bytes ends within the file: all of it may be accessed */
	shca_memcheck_mapped(base, want, exactly ? want : front);
	m->base = base;
	m->bytes = want;
	m->end = exactly ? want : front;
	m->hdr = base;
	m->fences = m->hdr->fences;
	m->procs = shca_at(base, h.procs);
	m->threads = shca_at(base, h.threads);
	m->qp_segs = shca_at(base, h.qp_segs);
	m->mr_segs = shca_at(base, h.mr_segs);
	return 0;
}

int shca_map_grown(struct shca_member *m, int prot, uint64_t bytes)
{
	struct shca_member old = *m;

	if (bytes <= m->bytes)
		return 0;
	int err = shca_map_file(m, m->fd.n, prot, bytes);
	if (!err)
		shca_map_end(&old);
	return err;
}

void shca_map_end(struct shca_member *m)
{
	shca_memcheck_unmapped(m->base, m->bytes);
	munmap(m->base, m->bytes);
}

void shca_off_refused(const struct shca_member *m, shca_off off)
{
	static _Atomic uint32_t reported;
	if (atomic_exchange(&reported, 1))
		return;
	shca_error("an object of another process lies at %llu MiB of the fabric \"%s\", of which only %llu MiB could be mapped "
		   "here: it is out of reach. Raise the limit on the address space (ulimit -v unlimited) of this process",
		   (unsigned long long)(off >> 20), m->hdr->name, (unsigned long long)(m->bytes >> 20));
}

/* Returns the end of the usable part of the mapping: the file may have grown. shcactl, which is no member, maps the file's
 * length at the time of mapping. */
static uint64_t end_by_now(const struct shca_member *m)
{
	uint64_t end = atomic_load_explicit(&m->hdr->file_end, memory_order_acquire);

	if (m->slot >= SHCA_MAX_PROCS || end > m->bytes)
		end = m->bytes;
	/* a cache; any thread may store it */
	atomic_store_explicit(&((struct shca_member *)(uintptr_t)m)->end, end, memory_order_relaxed);
	return end;
}

bool shca_fits_by_now(const struct shca_member *m, shca_off off, uint64_t size)
{
	uint64_t end = off ? end_by_now(m) : 0;

	if (size <= end && off - 1 < end - size)
		return true;
	/* either another member made the object after our mapping's end, or the offset was overwritten */
	if (off >= m->bytes && off < atomic_load(&m->hdr->file_end))
		shca_off_refused(m, off);
	return false;
}
