/* SPDX-License-Identifier: BSD-3-Clause */
/* A process joins a fabric and leaves it. */
#define _GNU_SOURCE
#include "shca.h"
#include "base/fd.h"
#include "shca/fabric/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHCA_SPAN_MIN ((uint64_t)64 << 20)
#define SHCA_SPAN_MAX ((uint64_t)1 << 44)
#define SHCA_SPAN_VIRTUAL "512m"

struct shca_mapping {
	_Atomic uint32_t refs;
};

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
	return shca_file_create(name, span, false);
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
	err = shca_map_file(m, fd, PROT_READ | PROT_WRITE, 0);
	if (err)
		goto not_mapped;
	err = shca_file_namespaces(m->hdr);
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
	shca_map_end(m);
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
	int err = shca_file_create("anonymous", span < SHCA_SPAN_MIN ? SHCA_SPAN_MIN : span, true);
	if (err < 0)
		goto no_file;
	m->fd = shca_fd_note(err);
	err = shca_map_file(m, m->fd.n, PROT_READ | PROT_WRITE, 0);
	if (err)
		goto no_map;
	atomic_init(&m->mapping->refs, 1);
	err = become_member(m);
	if (err)
		goto no_member;
	return 0;
no_member:
	shca_map_end(m);
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
		shca_map_end(m);
		shca_fd_close(&m->fd);
		free(m->mapping);
	}
	m->base = NULL;
	m->hdr = NULL;
	m->fd.n = m->name_fd.n = -1;
	pthread_mutex_destroy(&m->mutex);
}

/* ---- for shcactl --------------------------------------------------------------------------------------------- */

int shca_fabric_map(struct shca_member *m, const struct shca_fabric_info *info, enum shca_map_flags flags)
{
	bool writable = flags & SHCA_MAP_WRITABLE;
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
	int err = shca_fabric_verify(fd, info->name, flags & SHCA_MAP_QUIET);
	if (!err)
		/* an access beyond the file's present end would be a SIGBUS */
		err = shca_map_file(m, fd, writable ? PROT_READ | PROT_WRITE : PROT_READ, (uint64_t)st.st_size);
	if (err) {
		close(fd);
		return err;
	}
	m->fd = shca_fd_note(fd);
	m->slot = SHCA_MAX_PROCS;
	return 0;
}

int shca_fabric_remap(struct shca_member *m)
{
	struct stat st;
	int flags = fcntl(m->fd.n, F_GETFL);

	if (flags < 0 || fstat(m->fd.n, &st))
		return -errno;
	return shca_map_grown(m, (flags & O_ACCMODE) == O_RDWR ? PROT_READ | PROT_WRITE : PROT_READ, (uint64_t)st.st_size);
}

void shca_fabric_unmap(struct shca_member *m)
{
	shca_map_end(m);
	shca_fd_close(&m->fd);
	pthread_mutex_destroy(&m->mutex);
}
