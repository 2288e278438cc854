/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libshca-files.so, which shcarun preloads besides libshca.so: the calls by which programs look at a device's files, answered
 * for those of the software device (verbs/files.c) and handed on for all other files. (rdma_cm.c has those for RDMA CM.) A
 * library of its own, and not a part of libshca.so, because a program that only links libshca must not get its open() from
 * there; and without symbol versions, so that callers built for any version of libc are served.
 *
 * Directories have no descriptors, but opendir() and scandir() list them (directories.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/memory.h"
#include "rdmacm/rdmacm.h"
#include "shca/interpose/forward.h"
#include "shca/interpose/interpose.h"
#include "umad/umad.h"

#define MODE_OF_TEXT (S_IFREG | 0444)


/* Returns whether this library answers for the path. Then *found is true and *file has the file, or *found is false and errno
 * is set. */
static bool ours(const char *path, struct shca_file *file, bool *found)
{
	/* libc's headers declare path as nonnull, and programs pass NULL to the kernel all the same (EFAULT): the compiler must
	 * keep the test */
	__asm__("" : "+r"(path));
	/* first a cheap test that rules out all other files: every file that the program opens comes by here */
	if (!path || *path != '/' || !(strstr(path, "/infiniband") || strstr(path, "/rdma_cm")))
		return false;
	int err = shca_device_file(path, file);
	if (err == -ESRCH || (!err && file->kind == SHCA_FILE_PARENT && !syscall(SYS_faccessat, AT_FDCWD, path, F_OK)))
		return false;
	*found = !err;
	if (err)
		errno = -err;
	return true;
}

/* ---- stat --------------------------------------------------------------------------------------------------- */

/* inode: any number that differs between the files */
#define FILL(st, file)                                                                        \
	do {                                                                                  \
		memset((st), 0, sizeof *(st));                                                \
		(st)->st_ino = (ino_t)(uintptr_t)(file)->path;                                \
		(st)->st_nlink = 1;                                                           \
		(st)->st_blksize = 4096;                                                      \
		if ((file)->kind == SHCA_FILE_CHARACTER) {                                    \
			(st)->st_mode = S_IFCHR | 0666;                                       \
			(st)->st_rdev = makedev(231, 192);	/* as uverbs0 */              \
		} else if ((file)->kind == SHCA_FILE_RDMA_CM) {                               \
			(st)->st_mode = S_IFCHR | 0666;                                       \
			(st)->st_rdev = makedev(10, (file)->minor);                           \
		} else if ((file)->kind == SHCA_FILE_UMAD) {                                  \
			(st)->st_mode = S_IFCHR | 0666;                                       \
			(st)->st_rdev = makedev(231, (file)->port - 1);                       \
		} else if ((file)->kind == SHCA_FILE_DIRECTORY || (file)->kind == SHCA_FILE_PARENT) { \
			(st)->st_mode = S_IFDIR | 0555;                                       \
		} else {                                                                      \
			(st)->st_mode = MODE_OF_TEXT;                                         \
			(st)->st_size = 4096;	/* as sysfs reports for every file */             \
		}                                                                             \
	} while (0)

#define STAT(function, type)                                                                  \
	EXPORT int function(const char *path, struct type *st)                                \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(path, st);                                      \
		if (!found)                                                                   \
			return -1;                                                            \
		FILL(st, &file);                                                              \
		return 0;                                                                     \
	}
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define STAT_AT(function, type)                                                               \
	EXPORT int function(int dir, const char *path, struct type *st, int flags)            \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(dir, path, st, flags);                          \
		if (!found)                                                                   \
			return -1;                                                            \
		FILL(st, &file);                                                              \
		return 0;                                                                     \
	}
STAT_AT(fstatat, stat)
STAT_AT(fstatat64, stat64)

/*
 * The functions of programs built with a C library before 2.33; `version` names the layout of the struct, of which there is
 * one. Other files go to the next library: a libc before 2.33 has these functions, and no stat() that dlsym finds; a later libc
 * has them for old programs only, hidden from dlsym, and has stat(). (__fxstat and its like need no substitute: they take
 * descriptors, and the descriptors that open_text returns are those of real files.)
 */
#define OLD_STAT(old, function, type)                                                         \
	EXPORT int old(int version, const char *path, struct type *st);                       \
	EXPORT int old(int version, const char *path, struct type *st)                        \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(old) ? FORWARD(old)(version, path, st) : FORWARD(function)(path, st); \
		return found ? function(path, st) : -1;                                       \
	}
OLD_STAT(__xstat, stat, stat)
OLD_STAT(__xstat64, stat64, stat64)
OLD_STAT(__lxstat, lstat, stat)
OLD_STAT(__lxstat64, lstat64, stat64)

#define OLD_STAT_AT(old, function, type)                                                      \
	EXPORT int old(int version, int dir, const char *path, struct type *st, int flags);   \
	EXPORT int old(int version, int dir, const char *path, struct type *st, int flags)    \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(old) ? FORWARD(old)(version, dir, path, st, flags) :           \
					      FORWARD(function)(dir, path, st, flags);                \
		return found ? function(dir, path, st, flags) : -1;                           \
	}
OLD_STAT_AT(__fxstatat, fstatat, stat)
OLD_STAT_AT(__fxstatat64, fstatat64, stat64)

EXPORT int statx(int dir, const char *restrict path, int flags, unsigned int mask, struct statx *restrict st)
{
	struct shca_file file;
	struct stat plain;
	bool found;

	if (!ours(path, &file, &found))
		return FORWARD(statx)(dir, path, flags, mask, st);
	if (!found)
		return -1;
	FILL(&plain, &file);
	*st = (struct statx){
		.stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO | STATX_SIZE,
		.stx_mode = (uint16_t)plain.st_mode,
		.stx_nlink = 1,
		.stx_ino = plain.st_ino,
		.stx_size = (uint64_t)plain.st_size,
		.stx_blksize = (uint32_t)plain.st_blksize,
		.stx_rdev_major = major(plain.st_rdev),
		.stx_rdev_minor = minor(plain.st_rdev),
	};
	return 0;
}

/* ---- access ------------------------------------------------------------------------------------------------- */

static int allowed(const struct shca_file *file, int mode)
{
	int refused;

	switch (file->kind) {
	case SHCA_FILE_CHARACTER:
	case SHCA_FILE_RDMA_CM:
	case SHCA_FILE_UMAD:
		refused = X_OK;
		break;
	case SHCA_FILE_DIRECTORY:
	case SHCA_FILE_PARENT:
		refused = W_OK;
		break;
	default:
		refused = W_OK | X_OK;
	}
	if (!(mode & refused))
		return 0;
	errno = EACCES;
	return -1;
}

#define ACCESS(function)                                                                      \
	EXPORT int function(const char *path, int mode)                                       \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(path, mode);                                 \
		return found ? allowed(&file, mode) : -1;                                     \
	}
ACCESS(access)
ACCESS(euidaccess)

EXPORT int eaccess(const char *path, int mode)
{
	return euidaccess(path, mode);
}

EXPORT int faccessat(int dir, const char *path, int mode, int flags)
{
	struct shca_file file;
	bool found;

	if (!ours(path, &file, &found))
		return FORWARD(faccessat)(dir, path, mode, flags);
	return found ? allowed(&file, mode) : -1;
}

/* ---- open --------------------------------------------------------------------------------------------------- */

/* The text in a pipe, for a process that may write no files (ulimit -f): the kernel would send SIGXFSZ. */
static int open_piped(const struct shca_file *file, int flags)
{
	int p[2];

	if (pipe2(p, flags & O_CLOEXEC))
		return -1;
	bool fits = !fcntl(p[1], F_SETFL, O_NONBLOCK) && write(p[1], file->text, file->length) == (ssize_t)file->length;
	close(p[1]);
	if (fits)
		return p[0];
	close(p[0]);
	errno = EFBIG;
	return -1;
}

static int open_text(const struct shca_file *file, int flags)
{
	int saved = errno;
	if (memory_file_limit() < file->length)
		return open_piped(file, flags);
	int fd = memfd_create(strrchr(file->path, '/') + 1,
			      flags & O_CLOEXEC ? MFD_CLOEXEC | MFD_ALLOW_SEALING : MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	ssize_t n = write(fd, file->text, file->length);
	if (n != (ssize_t)file->length || lseek(fd, 0, SEEK_SET) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) {
		int err = n >= 0 && n != (ssize_t)file->length ? ENOSPC : errno;
		close(fd);
		errno = err;
		return -1;
	}
	errno = saved;
	return fd;
}

static int open_ours(const struct shca_file *file, int flags)
{
	if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
		errno = EEXIST;
		return -1;
	}
	switch (file->kind) {
	case SHCA_FILE_CHARACTER:
		/* stands for no file, as ibv_context.cmd_fd: the verbs go other ways. At least a character device */
		return FORWARD(open)("/dev/null", flags & ~(O_CREAT | O_TRUNC));
	case SHCA_FILE_RDMA_CM:
		return rcm_open(flags);
	case SHCA_FILE_UMAD:
		return um_open(file->port, flags);
	case SHCA_FILE_DIRECTORY:
	case SHCA_FILE_PARENT:
		errno = (flags & O_ACCMODE) == O_RDONLY ? EOPNOTSUPP : EISDIR;
		return -1;
	default:
		if (flags & O_DIRECTORY) {
			errno = ENOTDIR;
			return -1;
		}
		if ((flags & O_ACCMODE) != O_RDONLY) {
			errno = EACCES;
			return -1;
		}
		return open_text(file, flags);
	}
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define OPEN(function)                                                                        \
	EXPORT int function(const char *path, int flags, ...)                                 \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		va_list ap;                                                                   \
		va_start(ap, flags);                                                          \
		mode_t mode = mode_of(flags, ap);                                             \
		va_end(ap);                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(path, flags, mode);                             \
		return found ? open_ours(&file, flags) : -1;                                  \
	}
OPEN(open)
OPEN(open64)

#define OPEN_AT(function)                                                                     \
	EXPORT int function(int dir, const char *path, int flags, ...)                        \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		va_list ap;                                                                   \
		va_start(ap, flags);                                                          \
		mode_t mode = mode_of(flags, ap);                                             \
		va_end(ap);                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(dir, path, flags, mode);                        \
		return found ? open_ours(&file, flags) : -1;                                  \
	}
OPEN_AT(openat)
OPEN_AT(openat64)

/* The calls into which _FORTIFY_SOURCE turns an open() without a mode. */
#define OPEN_2(fortified, function)                                                           \
	EXPORT int fortified(const char *path, int flags);                                    \
	EXPORT int fortified(const char *path, int flags)                                     \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(fortified)(path, flags);                                  \
		return found ? open_ours(&file, flags) : -1;                                  \
	}
OPEN_2(__open_2, open)
OPEN_2(__open64_2, open64)

#define OPEN_AT_2(fortified)                                                                  \
	EXPORT int fortified(int dir, const char *path, int flags);                           \
	EXPORT int fortified(int dir, const char *path, int flags)                            \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(fortified)(dir, path, flags);                             \
		return found ? open_ours(&file, flags) : -1;                                  \
	}
OPEN_AT_2(__openat_2)
OPEN_AT_2(__openat64_2)

static FILE *fopen_ours(const struct shca_file *file, const char *mode)
{
	int flags = mode[0] == 'r' ? strchr(mode, '+') ? O_RDWR : O_RDONLY : O_WRONLY;
	int fd = open_ours(file, flags | (strchr(mode, 'e') ? O_CLOEXEC : 0));
	FILE *f = fd < 0 ? NULL : fdopen(fd, mode);

	if (fd >= 0 && !f) {
		int err = errno;
		close(fd);
		errno = err;
	}
	return f;
}

#define FOPEN(function)                                                                       \
	EXPORT FILE *function(const char *restrict path, const char *restrict mode)           \
	{                                                                                     \
		struct shca_file file;                                                        \
		bool found;                                                                   \
		if (!ours(path, &file, &found))                                               \
			return FORWARD(function)(path, mode);                                    \
		return found ? fopen_ours(&file, mode) : NULL;                                \
	}
FOPEN(fopen)
FOPEN(fopen64)

/* ---- names -------------------------------------------------------------------------------------------------- */

static char *name_ours(const struct shca_file *file, char *resolved)
{
	return resolved ? strcpy(resolved, file->path) : strdup(file->path);
}

EXPORT char *realpath(const char *restrict path, char *restrict resolved)
{
	struct shca_file file;
	bool found;

	if (!ours(path, &file, &found))
		return FORWARD(realpath)(path, resolved);
	return found ? name_ours(&file, resolved) : NULL;
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size);
EXPORT char *__realpath_chk(const char *path, char *resolved, size_t size)
{
	struct shca_file file;
	bool found;

	/* a shorter buffer is the caller's error, for which libc's function ends the program */
	if (size < PATH_MAX || !ours(path, &file, &found))
		return FORWARD(__realpath_chk)(path, resolved, size);
	return found ? name_ours(&file, resolved) : NULL;
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict buf, size_t size)
{
	struct shca_file file;
	bool found;

	if (!ours(path, &file, &found))
		return FORWARD(readlink)(path, buf, size);
	if (found)
		errno = EINVAL;	/* no file of the device is a link */
	return -1;
}
