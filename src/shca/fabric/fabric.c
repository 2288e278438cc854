/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fabric's file: making, checking, mapping, joining and leaving.
 *
 * The file begins with the header and the tables, sparse; chunks follow. The file grows as chunks are claimed (alloc.c) and
 * never shrinks; every process maps the whole span of offsets once, far beyond the present end. A small file under a large
 * mapping, and not a large sparse file, because mlockall(MCL_FUTURE) and the like would otherwise fill the whole span with
 * pages.
 */
#define _GNU_SOURCE
#include "shca.h"
#include "base/fd.h"
#include "shca/fabric/fabric.h"
#include "shca/fabric/memcheck.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHCA_SEALS (F_SEAL_SHRINK | F_SEAL_SEAL)
#define SHCA_SPAN_MIN ((uint64_t)64 << 20)
#define SHCA_SPAN_MAX ((uint64_t)1 << 44)
#define SHCA_SPAN_VIRTUAL "512m"

struct shca_mapping {
	_Atomic uint32_t refs;
};

void shca_error(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = snprintf(line, sizeof(line), "shca: ");
	n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n++] = '\n';
	/* one write, so that lines of several processes do not mix */
	int fd = shca_stderr();
	ssize_t written = fd >= 0 ? write(fd, line, (size_t)n) : -1;
	(void)written;	/* there is no other place to report an error */
	if (fd > STDERR_FILENO)
		close(fd);
}

/* ---- the file ------------------------------------------------------------------------------------------------ */

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
	h->chunks = at;
	at = align_up(at + sizeof(uint32_t) * h->nchunks, SHCA_CHUNK);
	h->first_chunk = (uint32_t)(at / SHCA_CHUNK);
	return at;
}
_Static_assert(sizeof(struct shca_header) <= 4096, "the tables begin on the second page");

/* "0.01" -> units of 2^-32; false: not a probability. */
static bool parse_probability(const char *s, const char *end, uint32_t *out)
{
	char buf[32];
	size_t n = (size_t)(end - s);
	if (!n || n >= sizeof(buf))
		return false;
	memcpy(buf, s, n);
	buf[n] = 0;
	char *e;
	double p = strtod(buf, &e);
	if (*e || !(p >= 0) || p > 1)
		return false;
	*out = p >= 1 ? UINT32_MAX : (uint32_t)(p * 4294967296.0);
	return true;
}

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
		if (!eq || i == 3 || !parse_probability(eq + 1, end, &v)) {
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

/* Members reach each other's memory by pid and wake each other by abstract sockets. */
static int check_namespaces(const struct shca_header *h)
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
	shca_error("the fabric \"%.63s\" belongs to another %s namespace (container) than this process%s. Run all processes in one "
		   "namespace (docker: --%s=host or container:NAME), or name another fabric (SHCA_FABRIC)",
		   h->name, pid ? "PID" : "network", *own && pid ? ", or /proc does" : "", pid ? "pid" : "network");
	return -EXDEV;
}

static int create_file(const char *name, uint64_t span, bool virtual_procs)
{
	char label[96];
	snprintf(label, sizeof(label), "shca:%s", name);
	struct shca_header h = { .version = SHCA_LAYOUT, .uid = geteuid(), .virtual_procs = virtual_procs };
	uint64_t front = fabric_lay_out(&h, span);
	struct rlimit lim;
	if (!getrlimit(RLIMIT_FSIZE, &lim) && lim.rlim_cur < front + SHCA_CHUNK) {
		/* the kernel would send SIGXFSZ */
		shca_error("cannot create the fabric \"%s\": the limit on the size of files is %llu bytes, at least %llu are "
			   "needed. Raise it: ulimit -f unlimited",
			   name, (unsigned long long)lim.rlim_cur, (unsigned long long)(front + SHCA_CHUNK));
		return -EFBIG;
	}
	int fd = fd_raise(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0) {
		int err = errno;
		shca_error("cannot create the fabric \"%s\": memfd_create: %s", name, strerror(err));
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
	shca_port_init(&h.port);
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
			shca_error("cannot create the fabric \"%s\": %s", name, strerror(-err));
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
			shca_error("the fabric \"%.63s\" belongs to user %u, this process runs as user %u: a fabric is not shared "
				   "between users. Run all processes as one user, or name another fabric (SHCA_FABRIC)",
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

/* ---- the mapping --------------------------------------------------------------------------------------------- */

bool shca_under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");
	return preload && strstr(preload, "vgpreload");
}

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

/* exactly: bytes to map; 0: as much as reserve_wanted says, at least the front. */
static int map_file(struct shca_member *m, int fd, int prot, uint64_t exactly)
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

static void unmap(struct shca_member *m)
{
	shca_memcheck_unmapped(m->base, m->bytes);
	munmap(m->base, m->bytes);
}

void shca_off_refused(const struct shca_member *m, shca_off off)
{
	static _Atomic uint32_t told;
	if (atomic_exchange(&told, 1))
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

/* ---- joining ------------------------------------------------------------------------------------------------- */

static void blank(struct shca_member *m)
{
	memset(m, 0, sizeof(*m));
	m->fd.n = m->name_fd.n = -1;
	pthread_mutex_init(&m->mutex, NULL);
}

/* Everything after the mapping. A failure leaves nothing behind. */
static int become_member(struct shca_member *m)
{
	int err = shca_heap_init(m);
	if (err)
		return err;
	err = shca_sockets_init(m);
	if (err)
		goto no_sockets;
	err = shca_proc_claim(m);
	if (err)
		goto no_slot;
	err = shca_member_register(m);
	if (err)
		goto no_register;
	return 0;
no_register:
	shca_proc_release(m);
no_slot:
	shca_sockets_free(m);
no_sockets:
	shca_heap_free(m);
	return err;
}

/* Returns the fabric's file for a name, found or made. Must: the caller holds the name's lock. */
static int find_or_create(const char *name, bool explicit_name)
{
	int fd = shca_find(name, explicit_name);
	if (fd != -ENOENT)
		return fd;
	return shca_fabric_create(name);
}

int shca_fabric_create(const char *name)
{
	int err = shca_name_check(name);
	if (err)
		return err;
	uint64_t span = shca_env_bytes("SHCA_RESERVE", NULL);
	if (span < SHCA_SPAN_MIN || span > SHCA_SPAN_MAX) {
		uint64_t to = span < SHCA_SPAN_MIN ? SHCA_SPAN_MIN : SHCA_SPAN_MAX;
		shca_error("SHCA_RESERVE=%s is out of range (64m to 16t): using %llum", getenv("SHCA_RESERVE"),
			   (unsigned long long)(to >> 20));
		span = to;
	}
	return create_file(name, span, false);
}

SHCA_PUBLIC int shca_create_fabric(const char *name, int *name_fd)
{
	int fd = shca_fabric_create(name);
	if (fd < 0)
		return fd;
	*name_fd = shca_name_publish(name, fd);
	if (*name_fd >= 0)
		return fd;
	close(fd);
	return *name_fd;
}

/* Returns the descriptor that SHCA_FABRIC_FD names. -ENOENT: none, or not (any more) a fabric's: the variable may have outlived
 * the descriptor, in a child of a member. */
static int fabric_inherited(void)
{
	const char *s = getenv("SHCA_FABRIC_FD");
	if (!s || !*s)
		return -ENOENT;
	char *end;
	long v = strtol(s, &end, 10);
	if (*end || v < 0 || v > INT_MAX) {
		shca_error("SHCA_FABRIC_FD=%s is not the number of a descriptor", s);
		return -EINVAL;
	}
	int err = shca_fabric_verify((int)v, NULL, false);
	if (err == -ENOTTY)
		return -ENOENT;
	if (err)
		return err;
	if (fcntl((int)v, F_SETFD, FD_CLOEXEC))
		return -errno;
	return (int)v;
}

int shca_fabric_join(struct shca_member *m, const char *name)
{
	int lock_fd = -1;
	bool was_inherited = false, explicit_name = name != NULL;
	char found_name[64];
	blank(m);
	int fd = name ? -ENOENT : fabric_inherited();
	if (fd >= 0) {
		was_inherited = true;
	} else if (fd != -ENOENT) {
		return fd;
	} else {
		if (!name && (name = getenv("SHCA_FABRIC")) && *name)
			explicit_name = true;
		if (!name || !*name)
			name = "default";
		int err = shca_name_check(name);
		if (err)
			return err;
		err = shca_lock_take(name, &lock_fd);
		if (err)
			return err;
		SHCA_FAILPOINT(NULL, "join-locked", NULL, 0);
		fd = find_or_create(name, explicit_name);
		if (fd < 0) {
			close(lock_fd);
			return fd;
		}
	}

	struct stat st;
	int err;
	if (fstat(fd, &st)) {
		err = -errno;
		goto not_mapped;
	}
	m->fd = (struct shca_fd){ .n = fd, .dev = st.st_dev, .ino = st.st_ino };
	if (shca_member_has(st.st_dev, st.st_ino)) {
		shca_error("this process is a member of the fabric already");
		err = -EBUSY;
		goto not_mapped;
	}
	err = map_file(m, fd, PROT_READ | PROT_WRITE, 0);
	if (err)
		goto not_mapped;
	err = check_namespaces(m->hdr);
	if (!err)
		err = become_member(m);
	if (err)
		goto not_member;
	snprintf(found_name, sizeof(found_name), "%s", m->hdr->name);
	SHCA_FAILPOINT(NULL, "join-member", NULL, 0);
	m->name_fd = shca_fd_note(shca_name_publish(found_name, fd));
	if (m->name_fd.n < 0) {
		err = m->name_fd.n;
		goto not_published;
	}
	SHCA_FAILPOINT(NULL, "join-named", NULL, 0);
	if (lock_fd >= 0)
		close(lock_fd);
	lock_fd = -1;
	err = shca_thread_get(m) ? shca_cma_judge(m) : -errno;
	if (err)
		goto not_published;
	return 0;

not_published:
	shca_proxy_stop(m);
	shca_member_unregister(m);
	shca_heap_return(m);
	shca_proc_release(m);
	shca_sockets_free(m);
	shca_heap_free(m);
	shca_cma_free(m);
	shca_fd_close(&m->name_fd);
not_member:
	unmap(m);
not_mapped:
	if (!was_inherited)
		close(fd);
	if (lock_fd >= 0)
		close(lock_fd);
	m->fd.n = -1;
	return err;
}

/* ---- virtual processes --------------------------------------------------------------------------------------- */

int shca_fabric_anonymous(struct shca_member *m)
{
	blank(m);
	m->virtual_process = true;
	uint64_t span = shca_env_bytes("SHCA_RESERVE", SHCA_SPAN_VIRTUAL);
	m->mapping = calloc(1, sizeof(*m->mapping));
	if (!m->mapping)
		return -ENOMEM;
	int err = create_file("anonymous", span < SHCA_SPAN_MIN ? SHCA_SPAN_MIN : span, true);
	if (err < 0)
		goto no_file;
	m->fd = shca_fd_note(err);
	err = map_file(m, m->fd.n, PROT_READ | PROT_WRITE, 0);
	if (err)
		goto no_map;
	atomic_init(&m->mapping->refs, 1);
	err = become_member(m);
	if (err)
		goto no_member;
	return 0;
no_member:
	unmap(m);
no_map:
	shca_fd_close(&m->fd);
no_file:
	free(m->mapping);
	return err;
}

int shca_fabric_attach(struct shca_member *m, const struct shca_member *first)
{
	blank(m);
	m->virtual_process = true;
	m->fd = first->fd;
	m->base = first->base;
	m->bytes = first->bytes;
	m->end = atomic_load(&first->end);
	m->hdr = first->hdr;
	m->fences = first->fences;
	m->procs = first->procs;
	m->threads = first->threads;
	m->qp_segs = first->qp_segs;
	m->mr_segs = first->mr_segs;
	m->mapping = first->mapping;
	int err = become_member(m);
	if (!err)
		atomic_fetch_add(&m->mapping->refs, 1);
	return err;
}

void shca_fabric_kill(struct shca_member *m)
{
	__atomic_store_n(&m->proc->pid, 0, __ATOMIC_SEQ_CST);
}

/* ---- leaving ------------------------------------------------------------------------------------------------- */

static void forget_after_fork(struct shca_member *m)
{
	/* base is not mapped here, and the descriptors were closed (member.c) */
	shca_proxy_stop(m);
	shca_sockets_free(m);
	shca_heap_free(m);
	shca_cma_free(m);
	pthread_mutex_destroy(&m->mutex);
}

void shca_fabric_leave(struct shca_member *m)
{
	if (m->forked) {
		forget_after_fork(m);
		return;
	}
	bool killed = m->virtual_process && !__atomic_load_n(&m->proc->pid, __ATOMIC_RELAXED);
	if (!killed)
		shca_proxy_stop(m);
	/* The name goes first: no process may find a fabric that does not exist. A joiner that found this name in time has its
	 * own descriptor by now, and publishes it before the next joiner looks. */
	shca_fd_close(&m->name_fd);
	if (!killed)
		shca_heap_return(m);
	shca_member_unregister(m);
	if (!killed)
		shca_proc_release(m);
	shca_sockets_free(m);
	shca_heap_free(m);
	shca_cma_free(m);
	if (!m->mapping || atomic_fetch_sub(&m->mapping->refs, 1) == 1) {
		unmap(m);
		shca_fd_close(&m->fd);
		free(m->mapping);
	}
	m->base = NULL;
	m->hdr = NULL;
	m->fd.n = m->name_fd.n = -1;
	pthread_mutex_destroy(&m->mutex);
}

/* ---- for shcactl --------------------------------------------------------------------------------------------- */

int shca_fabric_map(struct shca_member *m, const struct shca_fabric_info *info, bool writable, bool quiet)
{
	char path[64];
	struct stat st;
	blank(m);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", info->pid, info->fd);
	if (stat(path, &st))
		return -errno;
	if (shca_member_has(st.st_dev, st.st_ino))
		return -EBUSY;
	int fd = fd_raise(open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK));
	if (fd < 0)
		return -errno;
	int err = shca_fabric_verify(fd, info->name, quiet);
	if (!err)
		/* an access beyond the file's present end would be a SIGBUS */
		err = map_file(m, fd, writable ? PROT_READ | PROT_WRITE : PROT_READ, (uint64_t)st.st_size);
	if (err) {
		close(fd);
		return err;
	}
	m->fd = shca_fd_note(fd);
	m->slot = SHCA_MAX_PROCS;
	return 0;
}

void shca_fabric_unmap(struct shca_member *m)
{
	unmap(m);
	shca_fd_close(&m->fd);
	pthread_mutex_destroy(&m->mutex);
}
