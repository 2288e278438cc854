/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls that may block for long (syscalls.h). */
#define _GNU_SOURCE
#include "runtime/syscalls.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base.h"

enum { SLOTS = 32 };

static struct hdl_syscall slots[SLOTS];

/* The time of a shorter transfer from the page cache would be, by more than a hundredth, that of the clock. */
enum { DATED_BYTES = 16384 };

/* Returns a slot whose turn is odd, and whose date is 0. */
static struct hdl_syscall *syscall_claim(void)
{
	for (struct hdl_syscall *s = slots; s < slots + SLOTS; s++) {
		uint32_t turn = __atomic_load_n(&s->turn, __ATOMIC_RELAXED);

		if (!(turn & 1) &&
		    __atomic_compare_exchange_n(&s->turn, &turn, turn + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return s;
	}
	return NULL;
}

struct hdl_syscall *hdl_syscall_begin(const char *call, const char *name, int fd, short lock, int64_t offset, int64_t bytes)
{
	struct hdl_syscall *s = syscall_claim();
	bool dated = lock >= 0 || !bytes || bytes >= DATED_BYTES;

	if (unlikely(!s))
		return NULL;
	s->call = call;
	s->name = name;
	s->fd = fd;
	s->lock = lock;
	s->offset = offset;
	s->bytes = bytes;
	__atomic_store_n(&s->since, dated ? monotonic_ns() : HDL_SYSCALL_UNSEEN, __ATOMIC_RELEASE);
	return s;
}

struct hdl_syscall *hdl_syscall_begin_path(const char *call, const char *name, const char *path)
{
	struct hdl_syscall *s = syscall_claim();

	if (!s)
		return NULL;
	s->call = call;
	s->name = name;
	s->fd = s->lock = -1;
	s->offset = s->bytes = 0;
	snprintf(s->path, sizeof(s->path), "%s", path);
	__atomic_store_n(&s->since, monotonic_ns(), __ATOMIC_RELEASE);
	return s;
}

/* The dates differ, as hdl_syscall_oldest needs them. If a call ends meanwhile and another one begins in the slot, this dates
 * that one. */
void hdl_syscalls_date(void)
{
	uint64_t now = monotonic_ns();

	for (int i = 0; i < SLOTS; i++) {
		uint64_t unseen = HDL_SYSCALL_UNSEEN;

		if (__atomic_load_n(&slots[i].since, __ATOMIC_RELAXED) == unseen)
			__atomic_compare_exchange_n(&slots[i].since, &unseen, now - (uint64_t)i, false, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
	}
}

/* Returns false if the slot has no call, or was changed meanwhile. */
static bool syscall_copy(const struct hdl_syscall *s, struct hdl_syscall *copy)
{
	uint32_t turn = __atomic_load_n(&s->turn, __ATOMIC_ACQUIRE);

	/* pairs with the store of the date where the call begins, the last one; a reader's CAS continues that release */
	if (!(turn & 1) || __atomic_load_n(&s->since, __ATOMIC_ACQUIRE) <= HDL_SYSCALL_UNSEEN)
		return false;
	*copy = *s;
	copy->path[HDL_SYSCALL_PATH - 1] = 0;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&s->turn, __ATOMIC_RELAXED) == turn;
}

bool hdl_syscall_oldest(uint64_t after, struct hdl_syscall *copy)
{
	struct hdl_syscall one;
	bool any = false;

	hdl_syscalls_date();
	for (int i = 0; i < SLOTS; i++) {
		if (!syscall_copy(&slots[i], &one) || one.since <= after || (any && one.since >= copy->since))
			continue;
		*copy = one;
		any = true;
	}
	return any;
}

/* The name of the call's file. */
static void syscall_file(const struct hdl_syscall *s, char *path, size_t size)
{
	char link[40];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", s->fd);
	n = s->fd < 0 ? -1 : readlink(link, path, size - 1);
	if (n < 0)
		snprintf(path, size, "%s", s->fd < 0 ? s->path : "a file");
	else
		path[n] = 0;
}

void hdl_syscall_print(const struct hdl_syscall *s, FILE *out)
{
	char path[512];

	syscall_file(s, path, sizeof(path));
	if (s->lock >= 0)
		fprintf(out, "%s, which waits for a lock of bytes %lld to %lld of %s", s->name, (long long)s->offset,
			(long long)(s->offset + s->bytes - 1), path);
	else if (s->bytes)
		fprintf(out, "%s of %lld bytes at offset %lld of %s", s->name, (long long)s->bytes, (long long)s->offset, path);
	else
		fprintf(out, "%s of %s", s->name, path);
}

/* ---- holders of locks ----------------------------------------------------------------------------------------------- */

/* Returns true if a line of /proc/PID/fdinfo/FD is a lock that conflicts. *first, *end: its range. */
static bool conflicts(const char *line, const struct hdl_syscall *s, const struct stat *file, long long *first, long long *end)
{
	unsigned major, minor;
	unsigned long long inode;
	char how[16], last[32];

	if (sscanf(line, "lock: %*d: %*s %*s %15s %*d %x:%x:%llu %lld %31s", how, &major, &minor, &inode, first, last) != 6)
		return false;
	*end = strcmp(last, "EOF") ? strtoll(last, NULL, 10) : INT64_MAX;
	return inode == file->st_ino && major == major(file->st_dev) && minor == minor(file->st_dev) &&
	       (s->lock == F_WRLCK || !strcmp(how, "WRITE")) && *first < s->offset + s->bytes && *end >= s->offset;
}

static void print_holder(const char *pid, long long first, long long end, FILE *out)
{
	char path[64], name[64] = "", text[32] = "the end";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "re");
	if (f && fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	if (end != INT64_MAX)
		snprintf(text, sizeof(text), "%lld", end);
	fprintf(out, "process %s (%s) holds a lock of bytes %lld to %s of that file\n", pid, name, first, text);
}

/* Prints the process if a descriptor of its has such a lock. */
static bool print_if_holds(const char *pid, const struct hdl_syscall *s, const struct stat *file, FILE *out)
{
	char path[300], line[256];
	long long first = 0, end = 0;
	bool holds = false;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%.20s/fdinfo", pid);
	d = opendir(path);
	while (d && !holds && (e = readdir(d))) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.40s", pid, e->d_name);
		f = isdigit((unsigned char)e->d_name[0]) ? fopen(path, "re") : NULL;
		while (f && !holds && fgets(line, sizeof(line), f))
			holds = conflicts(line, s, file, &first, &end);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	if (holds)
		print_holder(pid, first, end, out);
	return holds;
}

/* An open file description's lock has no process: F_OFD_GETLK and /proc/locks say -1. A process that has the description shows
 * the lock in its fdinfo. */
void hdl_syscall_print_holders(const struct hdl_syscall *s, FILE *out)
{
	enum { HOLDERS = 3 };
	struct dirent *e;
	struct stat file;
	int found = 0;
	DIR *d;

	if (s->lock < 0 || fstat(s->fd, &file))
		return;
	d = opendir("/proc");
	while (d && found < HOLDERS && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != getpid())
			found += print_if_holds(e->d_name, s, &file, out);
	if (d)
		closedir(d);
}
