/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's file: making and checking.
 *
 * The file begins with the header and the tables, sparse; chunks follow. The file grows as chunks are claimed (alloc.c) and
 * never shrinks; every process maps the whole span of offsets once, far beyond the present end. A small file under a large
 * mapping, and not a large sparse file, because mlockall(MCL_FUTURE) and the like would otherwise fill the whole span with
 * pages.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/memory.h"
#include "shca/fabric/fabric.h"

#define SHCA_SEALS (F_SEAL_SHRINK | F_SEAL_SEAL)

static uint64_t fabric_lay_out(struct shca_header *h, uint64_t span)
{
	uint64_t at = 4096;
	h->nchunks = (uint32_t)(span / SHCA_CHUNK);
	h->bytes = (uint64_t)h->nchunks * SHCA_CHUNK;
	h->procs = at;
	at = align_up(at + sizeof(struct shca_proc_slot) * SHCA_MAX_PROCS, 4096);
	h->threads = at;
	at = align_up(at + sizeof(struct shca_thread_slot) * SHCA_MAX_THREADS, 4096);
	h->qp_segs = at;
	at = align_up(at + sizeof(uint64_t) * SHCA_QP_SEGS, 4096);
	h->mr_segs = at;
	at = align_up(at + sizeof(uint64_t) * SHCA_MR_SEGS, 4096);
	h->atomic_journals = at;
	at = align_up(at + sizeof(struct shca_atomic_journal) * SHCA_ATOMIC_LOCKS, 4096);
	h->tap = at;
	at = align_up(at + sizeof(struct shca_tap), 4096);
	h->jobs = at;
	at = align_up(at + (uint64_t)SHCA_JOB_NAME * SHCA_MAX_PROCS, 4096);
	h->chunks = at;
	at = align_up(at + sizeof(uint32_t) * h->nchunks, SHCA_CHUNK);
	h->first_chunk = (uint32_t)(at / SHCA_CHUNK);
	return at;
}

_Static_assert(sizeof(struct shca_header) <= 4096, "the tables begin on the second page");

int shca_fault_set(struct shca_header *h, const char *spec)
{
	static const char *const names[] = { "ud_drop", "ud_dup", "ud_reorder" };
	_Atomic uint32_t *const words[] = { &h->ud_drop, &h->ud_dup, &h->ud_reorder };
	for (const char *s = spec; *s;) {
		const char *end = s + strcspn(s, ",");
		const char *eq = memchr(s, '=', (size_t)(end - s));
		size_t i, n = eq ? (size_t)(eq - s) : 0;
		uint32_t v;
		if (eq && n == 4 && !strncmp(s, "seed", 4)) {
			atomic_store(&h->fault_seed, strtoull(eq + 1, NULL, 0));
			s = *end ? end + 1 : end;
			continue;
		}
		for (i = 0; i < 3 && !(n == strlen(names[i]) && !strncmp(s, names[i], n)); i++)
			;
		if (!eq || i == 3 || !shca_probability(eq + 1, end, &v)) {
			shca_error("fault \"%.*s\" is not understood: ud_drop=P, ud_dup=P, ud_reorder=P with P from 0 to "
				   "1, seed=N",
				   (int)(end - s), s);
			return -EINVAL;
		}
		atomic_store(words[i], v);
		s = *end ? end + 1 : end;
	}
	return 0;
}

/* Returns the inode of a namespace of this process; 0: no /proc. */
static uint64_t namespace_of(const char *which)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", which);
	return stat(path, &st) ? 0 : st.st_ino;
}

int shca_file_namespaces(const struct shca_header *h)
{
	uint64_t pidns = namespace_of("pid"), netns = namespace_of("net");
	bool pid = h->pidns && pidns && h->pidns != pidns, net = h->netns && netns && h->netns != netns;
	char own[16] = "";
	if (!pid && pidns) {
		/* a /proc that was mounted for another PID namespace shows other processes under our numbers */
		ssize_t n = readlink("/proc/self", own, sizeof(own) - 1);
		pid = n > 0 && atoi(own) != (int)getpid();
	}
	if (!pid && !net)
		return 0;
	shca_error("the fabric \"%.63s\" belongs to another %s namespace (container) than this process%s. Run all processes in "
		   "one namespace (docker: --%s=host or container:NAME), or name another fabric (SHCA_FABRIC)",
		   h->name, pid ? "PID" : "network", *own && pid ? ", or /proc does" : "", pid ? "pid" : "network");
	return -EXDEV;
}

int shca_file_create(const char *name, uint64_t span, bool virtual_procs)
{
	char label[96];
	snprintf(label, sizeof(label), "shca:%s", name);
	struct shca_header h = { .version = SHCA_LAYOUT, .uid = geteuid(), .virtual_procs = virtual_procs };
	uint64_t front = fabric_lay_out(&h, span);
	uint64_t limit = memory_file_limit();
	if (limit < front + SHCA_CHUNK) {
		/* the kernel would send SIGXFSZ */
		shca_error("cannot create the fabric \"%s\": the limit on the size of files is %llu bytes, at least %llu are "
			   "needed. Raise it: ulimit -f unlimited",
			   name, (unsigned long long)limit, (unsigned long long)(front + SHCA_CHUNK));
		return -EFBIG;
	}
	int fd = fd_raise(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0) {
		int err = errno;
		shca_error("cannot create the fabric \"%s\": memfd_create: %s%s", name, strerror(err), shca_limit_of(err));
		return -err;
	}
	h.pidns = namespace_of("pid");
	h.netns = namespace_of("net");
	snprintf(h.name, sizeof(h.name), "%s", name);
	atomic_init(&h.next_pd, 1);
	atomic_init(&h.next_xrcd, 1);
	atomic_init(&h.chunk_hint, h.first_chunk);
	atomic_init(&h.chunk_high, h.first_chunk);
	atomic_init(&h.file_end, front);
	shca_port_init(&h.ports);
	h.fences = shca_membarrier_missing() || virtual_procs || shca_env_bool("SHCA_FENCES");
	const char *fault = getenv("SHCA_FAULT");
	int err = fault && *fault ? shca_fault_set(&h, fault) : 0;
	if (!err && ftruncate(fd, (off_t)front))
		err = -errno;
	if (!err) {
		/* magic and `ready` last: a process that reads them finds the rest */
		ssize_t n = pwrite(fd, &h, sizeof(h), 0);
		h.magic = SHCA_MAGIC;
		atomic_init(&h.ready, 1);
		if (n == (ssize_t)sizeof(h))
			n = pwrite(fd, &h, sizeof(h), 0);
		if (n != (ssize_t)sizeof(h))
			err = n < 0 ? -errno : -ENOSPC;
	}
	if (!err && fcntl(fd, F_ADD_SEALS, SHCA_SEALS))
		err = -errno;
	if (err) {
		if (err != -EINVAL)
			shca_error("cannot create the fabric \"%s\": %s%s", name, strerror(-err), shca_limit_of(-err));
		close(fd);
		return err;
	}
	return fd;
}

int shca_fabric_verify(int fd, const char *name, bool quiet)
{
	struct stat st;
	struct shca_header h;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOTTY;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SHCA_SEALS) != SHCA_SEALS)
		return -ENOTTY;
	if (pread(fd, &h, sizeof(h), 0) != (ssize_t)sizeof(h) || h.magic != SHCA_MAGIC || !atomic_load(&h.ready))
		return -ENOTTY;
	if (st.st_uid != geteuid() || h.uid != geteuid()) {
		if (!quiet)
			shca_error("the fabric \"%.63s\" belongs to user %u, this process runs as user %u: a fabric is not "
				   "shared between users. Run all processes as one user, or name another fabric (SHCA_FABRIC)",
				   h.name, h.uid, (unsigned)geteuid());
		return -EACCES;
	}
	if (h.version != SHCA_LAYOUT) {
		if (!quiet)
			shca_error("the fabric \"%.63s\" has layout %x, this library speaks %x: its processes, or the heddlerun "
				   "that made it, are of another version of libshca. Use one version, or name another fabric "
				   "(SHCA_FABRIC; heddlerun -x SHCA_FABRIC=NAME)",
				   h.name, h.version, (unsigned)SHCA_LAYOUT);
		return -EPROTO;
	}
	if (name && strncmp(h.name, name, sizeof(h.name)))
		return -ENOTTY;
	if (h.bytes / SHCA_CHUNK != h.nchunks || (uint64_t)h.first_chunk * SHCA_CHUNK > (uint64_t)st.st_size ||
	    h.first_chunk >= h.nchunks)
		return -ENOTTY;
	return 0;
}
