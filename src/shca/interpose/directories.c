/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Of libshca-files.so: opendir, readdir, closedir and scandir of the device's directories (verbs/files.c). The directories that
 * the kernel may have, too, are listed with both's names.
 *
 * A DIR of this library is a struct listing, which the functions tell from libc's by a list of those that are open. Until the
 * program opens one, each call costs one load more.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "shca/interpose/forward.h"
#include "shca/interpose/interpose.h"

/* on the machines of this library both have one layout */
_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "struct dirent");

struct listing {
	struct listing *next;
	struct dirent *names;
	size_t n, room, at;
	bool failed;			/* no memory */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct listing *open_listings;
static _Atomic unsigned listings_open;

static void name_add(const char *name, void *listing)
{
	struct listing *l = listing;

	/* a file that the kernel has as well */
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->names[i].d_name, name))
			return;
	if (l->n == l->room) {
		size_t room = l->room ? 2 * l->room : 32;
		struct dirent *more = realloc(l->names, room * sizeof(*more));
		if (!more) {
			l->failed = true;
			return;
		}
		l->names = more;
		l->room = room;
	}
	struct dirent *d = &l->names[l->n++];
	memset(d, 0, sizeof(*d));
	d->d_ino = l->n;
	d->d_off = (off_t)l->n;
	d->d_reclen = sizeof(*d);
	d->d_type = DT_UNKNOWN;
	strncpy(d->d_name, name, sizeof(d->d_name) - 1);
}

/* Adds the names that the kernel has in the directory, if there is one. */
static void add_real(struct listing *l, const char *path)
{
	DIR *real = FORWARD(opendir)(path);

	for (struct dirent *d; real && (d = FORWARD(readdir)(real)) != NULL;)
		name_add(d->d_name, l);
	if (real)
		FORWARD(closedir)(real);
}

/* Returns a listing if the path is a directory of the device; *ours: it is a path of the device. */
static struct listing *listing_new(const char *path, bool *ours)
{
	struct shca_file file;

	__asm__("" : "+r"(path));	/* as in files.c: NULL may come */
	*ours = path && *path == '/' && (strstr(path, "/infiniband") || strstr(path, "/rdma_cm"));
	int err = *ours ? shca_device_file(path, &file) : 0;
	*ours = *ours && err != -ESRCH;
	if (!*ours)
		return NULL;
	if (err || (file.kind != SHCA_FILE_DIRECTORY && file.kind != SHCA_FILE_PARENT)) {
		errno = err ? -err : ENOTDIR;
		return NULL;
	}
	struct listing *l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	name_add(".", l);
	name_add("..", l);
	if (file.kind == SHCA_FILE_PARENT)
		add_real(l, path);
	shca_device_names(file.path, name_add, l);
	if (!l->failed)
		return l;
	free(l->names);
	free(l);
	errno = ENOMEM;
	return NULL;
}

static void listing_free(struct listing *l)
{
	free(l->names);
	free(l);
}

/* Returns the listing that a DIR is; NULL: libc's. take: it is closed. */
static struct listing *listing_of(DIR *dir, bool take)
{
	struct listing *l = NULL;

	if (likely(!atomic_load_explicit(&listings_open, memory_order_relaxed)))
		return NULL;
	pthread_mutex_lock(&open_lock);
	for (struct listing **at = &open_listings; *at; at = &(*at)->next) {
		if ((DIR *)(void *)*at != dir)
			continue;
		l = *at;
		if (take) {
			*at = l->next;
			atomic_fetch_sub(&listings_open, 1);
		}
		break;
	}
	pthread_mutex_unlock(&open_lock);
	return l;
}

EXPORT DIR *opendir(const char *path)
{
	bool ours;
	struct listing *l = listing_new(path, &ours);

	if (!ours)
		return FORWARD(opendir)(path);
	if (!l)
		return NULL;
	pthread_mutex_lock(&open_lock);
	l->next = open_listings;
	open_listings = l;
	atomic_fetch_add(&listings_open, 1);
	pthread_mutex_unlock(&open_lock);
	return (DIR *)(void *)l;
}

#define READDIR(function, type)                                                               \
	EXPORT struct type *function(DIR *dir)                                                \
	{                                                                                     \
		struct listing *l = listing_of(dir, false);                                   \
		if (!l)                                                                       \
			return FORWARD(function)(dir);                                        \
		return l->at < l->n ? (struct type *)(void *)&l->names[l->at++] : NULL;       \
	}
READDIR(readdir, dirent)
READDIR(readdir64, dirent64)

EXPORT int closedir(DIR *dir)
{
	struct listing *l = listing_of(dir, true);

	if (!l)
		return FORWARD(closedir)(dir);
	listing_free(l);
	return 0;
}

EXPORT void rewinddir(DIR *dir)
{
	struct listing *l = listing_of(dir, false);

	if (l)
		l->at = 0;
	else
		FORWARD(rewinddir)(dir);
}

EXPORT long telldir(DIR *dir)
{
	struct listing *l = listing_of(dir, false);

	return l ? (long)l->at : FORWARD(telldir)(dir);
}

EXPORT void seekdir(DIR *dir, long at)
{
	struct listing *l = listing_of(dir, false);

	if (l)
		l->at = at < 0 ? 0 : (size_t)at;
	else
		FORWARD(seekdir)(dir, at);
}

EXPORT int dirfd(DIR *dir)
{
	if (!listing_of(dir, false))
		return FORWARD(dirfd)(dir);
	errno = ENOTSUP;	/* as POSIX has it for a DIR without a descriptor */
	return -1;
}

typedef int order(const struct dirent **a, const struct dirent **b);

/* scandir() of a listing, which is freed. */
static int dir_scan(struct listing *l, struct dirent ***list, int (*wanted)(const struct dirent *), order *compare)
{
	struct dirent **all = calloc(l->n, sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; all && i < l->n; i++) {
		if (wanted && !wanted(&l->names[i]))
			continue;
		all[n] = malloc(sizeof(*all[n]));
		if (!all[n])
			break;
		*all[n++] = l->names[i];
	}
	listing_free(l);
	if (!all) {
		errno = ENOMEM;
		return -1;
	}
	if (compare)
		qsort(all, n, sizeof(*all), (int (*)(const void *, const void *))(void *)compare);
	*list = all;
	return (int)n;
}

#define SCANDIR(function, type)                                                               \
	EXPORT int function(const char *restrict path, struct type ***restrict list,          \
			    int (*wanted)(const struct type *),                               \
			    int (*compare)(const struct type **, const struct type **))       \
	{                                                                                     \
		bool ours;                                                                    \
		struct listing *l = listing_new(path, &ours);                                 \
		if (!ours)                                                                    \
			return FORWARD(function)(path, list, wanted, compare);                \
		return l ? dir_scan(l, (struct dirent ***)(void *)list,                       \
				    (int (*)(const struct dirent *))(void *)wanted,           \
				    (order *)(void *)compare) : -1;                           \
	}
SCANDIR(scandir, dirent)
SCANDIR(scandir64, dirent64)
