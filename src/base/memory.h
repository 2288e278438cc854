/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that this process may still take. At the limit of a memory cgroup, and where no memory is left, the kernel ends
 * processes instead of refusing: fallocate on a file in memory takes pages until then. So the bytes are compared with this first.
 */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Where a process finds its cgroups, and where the controllers are mounted. */
#define MEMORY_GROUP_SELF	"/proc/self/cgroup"
#define MEMORY_GROUP_V1		"/sys/fs/cgroup/memory"
#define MEMORY_GROUP_V2		"/sys/fs/cgroup"

/* Reads a file that has one number. */
static inline bool memory_number(const char *path, uint64_t *v)
{
	FILE *f = fopen(path, "re");
	unsigned long long x;
	bool ok = f && fscanf(f, "%llu", &x) == 1;
	if (ok)
		*v = x;
	if (f)
		fclose(f);
	return ok;
}

/* Returns a named field of a file of "name value" lines; 0: no such field. */
static inline uint64_t memory_field(const char *path, const char *name)
{
	FILE *f = fopen(path, "re");
	char key[64];
	unsigned long long v, found = 0;
	while (f && fscanf(f, "%63s %llu%*[^\n]", key, &v) == 2)
		if (!strcmp(key, name)) {
			found = v;
			break;
		}
	if (f)
		fclose(f);
	return found;
}

/* Finds the directory of this process's memory cgroup, and the mount above. Returns false if there is none. */
static inline bool memory_group_dir(const char *self, const char *v1, const char *v2_mount, char dir[600], const char **mount,
				    bool *v2)
{
	char line[512];
	FILE *f = fopen(self, "re");

	dir[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':');
		char *where = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!where)
			continue;
		*where++ = 0;
		bool is_v1 = strstr(controllers + 1, "memory") != NULL;
		if (!is_v1 && controllers[1])
			continue;
		*mount = is_v1 ? v1 : v2_mount;
		*v2 = !is_v1;
		snprintf(dir, 600, "%s%s", *mount, where);
		if (is_v1)
			break;
	}
	if (f)
		fclose(f);
	return dir[0];
}

/* Reads the remaining memory of one group. Returns false: no limit, or not readable. */
static inline bool memory_of_group(const char *dir, bool v2, uint64_t *left, uint64_t *limit)
{
	char path[700];
	uint64_t used;

	snprintf(path, sizeof(path), "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
	if (!memory_number(path, limit) || *limit >= (uint64_t)1 << 60)
		return false;	/* "max" */
	snprintf(path, sizeof(path), "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
	if (!memory_number(path, &used))
		return false;
	snprintf(path, sizeof(path), "%s/memory.stat", dir);
	uint64_t cache = memory_field(path, v2 ? "inactive_file" : "total_inactive_file") +
			 memory_field(path, v2 ? "active_file" : "total_active_file");
	used = used > cache ? used - cache : 0;
	*left = *limit > used ? *limit - used : 0;
	return true;
}

/* Reads the least remaining memory of the memory cgroup and the groups above. Returns false: no limit, or none found. */
static inline bool memory_of_groups(const char *self, const char *v1, const char *v2_mount, uint64_t *left, uint64_t *limit)
{
	char dir[600];
	const char *mount = NULL;
	bool v2, any = false;

	if (!memory_group_dir(self, v1, v2_mount, dir, &mount, &v2))
		return false;
	/* Inside a container the path is the host's, while the mount begins at our own group: directories that do not exist are
	 * passed over. */
	for (;;) {
		uint64_t l, of;
		if (memory_of_group(dir, v2, &l, &of) && (!any || l < *left)) {
			*left = l;
			*limit = of;
			any = true;
		}
		char *slash = strrchr(dir, '/');
		if (strlen(dir) <= strlen(mount) || !slash)
			return any;
		*slash = 0;
	}
}

struct memory_available {
	uint64_t bytes;			/* the least of the next two; UINT64_MAX: not known */
	uint64_t machine;		/* 0: not known */
	uint64_t group, limit;		/* of the tightest memory cgroup; valid if grouped */
	bool grouped;
};

/* Reads how many bytes the machine and the memory cgroup have available. Limits of the process (address space) do not count.
 * Costs as much as reading three to ten small files. */
static inline struct memory_available memory_available(const char *self, const char *v1, const char *v2)
{
	struct memory_available l = { .machine = memory_field("/proc/meminfo", "MemAvailable:") << 10 };

	l.grouped = memory_of_groups(self, v1, v2, &l.group, &l.limit);
	l.bytes = l.machine ? l.machine : UINT64_MAX;
	if (l.grouped && l.group < l.bytes)
		l.bytes = l.group;
	return l;
}

#define MEMORY_PIECE ((uint64_t)8 << 20)	/* of a reservation: a signal costs one piece, not all */
#define MEMORY_PIECE_LEAST ((uint64_t)4096)

/* Returns the most bytes that a file of this process may have: RLIMIT_FSIZE (ulimit -f); INT64_MAX: no limit. */
static inline uint64_t memory_file_limit(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_FSIZE, &l) || l.rlim_cur > INT64_MAX ? INT64_MAX : l.rlim_cur;
}

/* Backs bytes of a file in memory with pages. Returns 0 or a negative errno; -EFBIG: beyond memory_file_limit, where fallocate
 * would have the kernel send SIGXFSZ. A signal of the program undoes the piece that fallocate is at; pieces get smaller, since
 * a program may have a timer that fires faster than the kernel clears a piece. */
static inline int memory_reserve(int fd, uint64_t at, uint64_t bytes)
{
	uint64_t piece = MEMORY_PIECE, limit = memory_file_limit();

	if (bytes > limit || at > limit - bytes)
		return -EFBIG;
	for (uint64_t done = 0, len; done < bytes;) {
		len = bytes - done < piece ? bytes - done : piece;
		if (!fallocate(fd, 0, (off_t)(at + done), (off_t)len)) {
			done += len;
			piece = piece < MEMORY_PIECE ? 2 * piece : piece;
		} else if (errno != EINTR) {
			return -errno;
		} else if (piece > MEMORY_PIECE_LEAST) {
			piece /= 2;
		}
	}
	return 0;
}

#endif
