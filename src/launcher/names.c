/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published names (MPI_Publish_name): a store of the user's, which the heddleruns of this host share.
 *
 *     /tmp/heddle-names-UID/         mode 0700; flock(2) on the directory: one change at a time
 *         PID.RANDOM                 the names of one heddlerun, a line each: NAMESPACE RANK NAME VALUE, with %XX for bytes that
 *                                    are no letters; flock(2) is held as long as that heddlerun lives
 *
 * The kernel drops the locks of a heddlerun that is killed: a file whose lock can be had is stale, and is removed by the next
 * reader. The directory is removed with the last file in it.
 *
 * /tmp is everyone's: a directory of that name that another user has made is passed over, for one with .1, .2, ... behind it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

enum {
	DIRECTORIES = 16,	/* that other users may have taken */
	LOCK_MS = 5000,		/* milliseconds for another heddlerun's change; that one may be stopped */
};

struct name {
	struct name *next;
	char *nspace, *name, *value;
	int rank;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all below: libpmix's thread and the event loop */
static struct name *ours;
static int own_fd = -1;
static char dir_path[64], own_file[64];

/* ---- the directory ---------------------------------------------------------------------------------------------------- */

/* Opens a directory if it is this user's. Returns the descriptor or a negative errno: -ENOENT; -EEXIST: another user's. */
static int names_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), err = errno;
	struct stat st;

	if (fd < 0)
		return err == ENOENT ? -ENOENT : -EEXIST;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return fd;
	if (st.st_uid == geteuid())
		complain("%s, the store of published names, is not used: other users may write or read there (mode %o, not 700): "
			 "remove it", path, (unsigned)st.st_mode & 07777);
	close(fd);
	return -EEXIST;
}

/* Opens the store. make: makes it where there is none. Returns the descriptor or a negative errno. */
static int names_find(bool make)
{
	int fd = -ENOENT;

	for (int pass = 0; pass < 1 + make; pass++)
		for (int i = 0; i < DIRECTORIES; i++) {
			snprintf(dir_path, sizeof dir_path, i ? "/tmp/heddle-names-%u.%d" : "/tmp/heddle-names-%u",
				 (unsigned)geteuid(), i);
			fd = names_open(dir_path);
			if (fd == -ENOENT && pass && (!mkdir(dir_path, 0700) || errno == EEXIST))
				fd = names_open(dir_path);
			if (fd >= 0)
				return fd;
		}
	return fd == -ENOENT ? -ENOENT : -EACCES;
}

/* The same, with the directory locked: the directory exists until the descriptor is closed. */
static int names_lock(bool make)
{
	struct stat st;
	int fd;

	for (int ms = 0; ms < LOCK_MS; ms++) {
		fd = names_find(make);
		if (fd < 0)
			return fd;
		if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_nlink)
			return fd;
		close(fd);	/* in use, or removed meanwhile */
		poll(NULL, 0, 1);
	}
	return -EBUSY;
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

static void names_write(FILE *f, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++)
		fprintf(f, isgraph(*p) && *p != '%' ? "%c" : "%%%02X", *p);
	if (!*text)
		fputc('%', f);
	fputc(' ', f);
}

/* In place. */
static void names_decode(char *text)
{
	char *to = text;
	unsigned byte;

	for (; *text; text++)
		if (*text != '%')
			*to++ = *text;
		else if (sscanf(text + 1, "%2X", &byte) == 1 && text[1] && text[2]) {
			*to++ = (char)byte;
			text += 2;
		}
	*to = 0;
}

/* Makes this heddlerun's file if there is none. Must: the directory is locked. Returns 0 or a negative errno. */
static int names_file(int dir)
{
	uint64_t id;
	int err;

	if (own_fd >= 0)
		return 0;
	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return -EIO;
	snprintf(own_file, sizeof own_file, "%d.%016llx", (int)getpid(), (unsigned long long)id);
	own_fd = openat(dir, own_file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (own_fd >= 0 && !flock(own_fd, LOCK_EX | LOCK_NB))
		return 0;
	err = -errno;
	if (own_fd >= 0) {
		unlinkat(dir, own_file, 0);
		close(own_fd);
	}
	own_fd = -1;
	own_file[0] = 0;
	return err;
}

/* Writes the lines of names from `first` on, `n` of them at most, to the file at an offset, and sets the file's end behind the
 * lines. After an error the file has its former length. Must: the file is open. Returns 0 or a negative errno. */
static int names_write_at(off_t at, const struct name *first, int n)
{
	off_t before = lseek(own_fd, 0, SEEK_END), done = 0;
	size_t size = 0;
	char *text = NULL;
	FILE *f = open_memstream(&text, &size);
	int err = 0;

	if (!f)
		return -errno;
	for (; first && n--; first = first->next) {
		names_write(f, first->nspace);
		fprintf(f, "%d ", first->rank);
		names_write(f, first->name);
		names_write(f, first->value);
		fputc('\n', f);
	}
	if (fclose(f))
		err = -ENOMEM;
	while (!err && (size_t)done < size) {
		ssize_t k = pwrite(own_fd, text + done, size - (size_t)done, at + done);

		if (k < 0 && errno != EINTR)
			err = -errno;
		done += k > 0 ? k : 0;
	}
	free(text);
	if (ftruncate(own_fd, err ? before : at + done) && !err)
		err = -errno;
	return err;
}

/* Looks a name up in one file. Returns 0 or -ENOENT. */
static int names_in_file(FILE *f, const char *name, char **value, char *nspace, size_t size)
{
	char *line = NULL, *part[4], *rest;
	size_t room = 0;
	int err = -ENOENT;

	while (err && getline(&line, &room, f) > 0) {
		part[0] = strtok_r(line, " \n", &rest);
		for (int i = 1; i < 4; i++)
			part[i] = part[i - 1] ? strtok_r(NULL, " \n", &rest) : NULL;
		if (!part[3])
			continue;
		names_decode(part[2]);
		if (strcmp(part[2], name))
			continue;
		names_decode(part[0]);
		names_decode(part[3]);
		snprintf(nspace, size, "%s", part[0]);
		*value = must(strdup(part[3]));
		err = 0;
	}
	free(line);
	return err;
}

/* Looks a name up in all files, and removes the stale ones. Must: the directory is locked. */
static int names_search(int dir, const char *name, char **value, char *nspace, size_t size)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), err = -ENOENT;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *e;

	while (err && d && (e = readdir(d))) {
		int fd = *e->d_name == '.' ? -1 : openat(dir, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		FILE *f;

		if (fd < 0)
			continue;
		if (strcmp(e->d_name, own_file) && !flock(fd, LOCK_SH | LOCK_NB)) {
			unlinkat(dir, e->d_name, 0);
			close(fd);
			continue;
		}
		f = fdopen(fd, "r");
		if (f)
			err = names_in_file(f, name, value, nspace, size);
		if (f)
			fclose(f);
		else
			close(fd);
	}
	if (d)
		closedir(d);
	else if (copy >= 0)
		close(copy);
	return err;
}

/* Removes this heddlerun's file, and the directory if no other heddlerun has names, unless this one has. Must: the directory is
 * locked. */
static void names_remove_file(int dir)
{
	if (ours)
		return;
	if (own_fd >= 0) {
		unlinkat(dir, own_file, 0);
		close(own_fd);
	}
	own_fd = -1;
	own_file[0] = 0;
	rmdir(dir_path);	/* fails while other processes have names */
}

static void name_free(struct name *n)
{
	free(n->nspace);
	free(n->name);
	free(n->value);
	free(n);
}

/* ---- the store ---------------------------------------------------------------------------------------------------------- */

static int names_report(int err)
{
	if (err && err != -EEXIST && err != -ENOENT && err != -EPERM)
		complain("the store of published names (%s) cannot be used: %s", dir_path, err == -EBUSY ?
			 "another heddlerun has had it locked for 5 s; is that one stopped?" : strerror(-err));
	return err;
}

int names_publish(const char *nspace, int rank, const char *name, const char *value)
{
	struct name *n = must(calloc(1, sizeof *n));
	char *there = NULL, theirs[256];
	int dir, err;

	*n = (struct name){ .nspace = must(strdup(nspace)), .name = must(strdup(name)), .value = must(strdup(value)),
			    .rank = rank };
	pthread_mutex_lock(&lock);
	err = dir = names_lock(true);
	if (dir >= 0) {
		err = names_search(dir, name, &there, theirs, sizeof theirs) ? 0 : -EEXIST;
		if (!err) {
			err = names_file(dir);
			if (!err)
				/* the lines of older names are not changed */
				err = names_write_at(lseek(own_fd, 0, SEEK_END), n, 1);
			if (err)
				names_remove_file(dir);
		}
		if (!err) {
			n->next = ours;
			ours = n;
		}
		close(dir);
	}
	if (err)
		name_free(n);
	pthread_mutex_unlock(&lock);
	free(there);
	return names_report(err == -ENOENT ? -EIO : err);
}

int names_lookup(const char *name, char **value, char *nspace, size_t size)
{
	int dir, err;

	pthread_mutex_lock(&lock);
	err = dir = names_lock(false);
	if (dir >= 0) {
		err = names_search(dir, name, value, nspace, size);
		close(dir);
	}
	pthread_mutex_unlock(&lock);
	return names_report(err);
}

/* Writes the file after a name was removed; the last one takes the file and the directory along. */
static void names_removed(void)
{
	int dir = names_lock(false), err = dir < 0 ? dir : 0;

	if (dir < 0) {
		names_report(err);
		return;
	}
	names_remove_file(dir);
	if (ours)
		err = names_write_at(0, ours, INT_MAX);	/* fewer lines than before: no space is needed */
	close(dir);
	names_report(err);
}

int names_unpublish(const char *name)
{
	struct name **link = &ours, *n;
	char *value = NULL, nspace[256];
	int dir, err = -ENOENT;

	pthread_mutex_lock(&lock);
	while ((n = *link) && strcmp(n->name, name))
		link = &n->next;
	if (n) {
		*link = n->next;
		name_free(n);
		names_removed();
		err = 0;
	} else if ((dir = names_lock(false)) >= 0) {
		err = names_search(dir, name, &value, nspace, sizeof nspace) ? -ENOENT : -EPERM;
		close(dir);
	} else {
		err = dir;
	}
	pthread_mutex_unlock(&lock);
	free(value);
	return names_report(err);
}

void names_drop(const char *nspace, int rank)
{
	struct name **link = &ours, *n;
	bool some = false;

	pthread_mutex_lock(&lock);
	while ((n = *link)) {
		if (nspace && (strcmp(n->nspace, nspace) || (rank >= 0 && n->rank != rank))) {
			link = &n->next;
			continue;
		}
		*link = n->next;
		name_free(n);
		some = true;
	}
	if (some)
		names_removed();
	pthread_mutex_unlock(&lock);
}
