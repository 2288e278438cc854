/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call by which a program may look at the device's files, each once: files none | all (under shcarun). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT "/sys/class/infiniband/shca0/node_type"
#define GONE "/sys/class/infiniband/shca0/gone"
#define DEVICE "/dev/infiniband/shca0"
#define MARK 4711

static bool all;
static int failed;

static void check(const char *what, bool ok)
{
	if (ok)
		return;
	fprintf(stderr, "FAIL: %s, errno %d\n", what, errno);
	failed = 1;
}

/* ok: the call succeeded, and left errno alone; calls succeed exactly under shcarun. */
#define EXPECT(call)                                                      \
	do {                                                              \
		errno = MARK;                                             \
		bool ok_ = (call);                                        \
		check(#call, ok_ == all && (errno == MARK || !ok_));      \
	} while (0)
#define REFUSED(call, err)                                                \
	do {                                                              \
		errno = 0;                                                \
		bool ok_ = (call);                                        \
		check(#call, !ok_ && (errno == (err) || !all));           \
	} while (0)

static bool reads(int fd)
{
	char text[32] = "";
	if (fd < 0)
		return false;
	bool ok = pread(fd, text, sizeof text - 1, 0) == 6 && read(fd, text, sizeof text - 1) == 6 && !strcmp(text, "1: CA\n");
	close(fd);
	return ok;
}

static bool file_reads(FILE *f)
{
	char line[32] = "";
	if (!f)
		return false;
	bool ok = fgets(line, sizeof line, f) && !strcmp(line, "1: CA\n");
	fclose(f);
	return ok;
}

static bool named(char *name)
{
	bool ok = name && !strcmp(name, TEXT);
	free(name);
	return ok;
}

/* Functions that programs built with a C library before 2.33 call. Later C libraries export them for such programs only, by
 * symbol version. */
static void *old_function(const char *name)
{
	static const char *const versions[] = {"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.4", "GLIBC_2.0", "GLIBC_2.27"};
	void *f = dlsym(RTLD_DEFAULT, name);

	for (size_t i = 0; !f && i < sizeof versions / sizeof *versions; i++)
		f = dlvsym(RTLD_DEFAULT, name, versions[i]);
	return f;
}

static void as_old_programs(const char *other)
{
	static const char *const stats[] = {"__xstat", "__xstat64", "__lxstat", "__lxstat64"};
	static const char *const ats[] = {"__fxstatat", "__fxstatat64"};
	/* the layout's number: of x86-64, of 64-bit processors that came later */
	const int version = sizeof(struct stat) == 144 && (size_t)&((struct stat *)0)->st_nlink == 16 ? 1 : 0;
	struct stat st;		/* and struct stat64 are the same where a long has 64 bits */

	if (sizeof(long) < 8)
		return;
	for (int i = 0; i < 4; i++) {
		int (*f)(int, const char *, struct stat *) = (int (*)(int, const char *, struct stat *))old_function(stats[i]);
		if (!f)
			continue;	/* the library is too new for this processor to have old programs */
		EXPECT(!f(version, TEXT, &st) && S_ISREG(st.st_mode) && st.st_size == 4096);
		REFUSED(!f(version, GONE, &st), ENOENT);
		check(stats[i], !f(version, other, &st) && S_ISREG(st.st_mode));
	}
	for (int i = 0; i < 2; i++) {
		int (*f)(int, int, const char *, struct stat *, int) =
			(int (*)(int, int, const char *, struct stat *, int))old_function(ats[i]);
		if (!f)
			continue;
		EXPECT(!f(version, AT_FDCWD, TEXT, &st, 0) && S_ISREG(st.st_mode) && st.st_size == 4096);
		REFUSED(!f(version, AT_FDCWD, GONE, &st, 0), ENOENT);
		check(ats[i], !f(version, AT_FDCWD, other, &st, 0) && S_ISREG(st.st_mode));
	}
}

int main(int argc, char **argv)
{
	struct stat st;
	struct stat64 st64;
	struct statx stx;
	char name[PATH_MAX];

	all = argc > 1 && !strcmp(argv[1], "all");
	EXPECT(!stat(TEXT, &st) && S_ISREG(st.st_mode));
	EXPECT(!stat64(DEVICE, &st64) && S_ISCHR(st64.st_mode));
	EXPECT(!lstat(TEXT, &st) && S_ISREG(st.st_mode));
	EXPECT(!lstat64(TEXT, &st64) && S_ISREG(st64.st_mode));
	EXPECT(!fstatat(AT_FDCWD, TEXT, &st, 0) && S_ISREG(st.st_mode));
	EXPECT(!fstatat64(AT_FDCWD, TEXT, &st64, AT_SYMLINK_NOFOLLOW) && S_ISREG(st64.st_mode));
	EXPECT(!statx(AT_FDCWD, DEVICE, 0, STATX_BASIC_STATS, &stx) && S_ISCHR(stx.stx_mode) && stx.stx_rdev_major == 231);
	REFUSED(!stat(GONE, &st), ENOENT);
	EXPECT(!access(DEVICE, R_OK | W_OK));
	EXPECT(!euidaccess(TEXT, R_OK));
	EXPECT(!eaccess(TEXT, F_OK));
	EXPECT(!faccessat(AT_FDCWD, TEXT, R_OK, AT_EACCESS));
	REFUSED(!access(TEXT, W_OK), EACCES);
	REFUSED(!access(GONE, F_OK), ENOENT);
	EXPECT(reads(open(TEXT, O_RDONLY | O_CLOEXEC)));
	EXPECT(reads(open64(TEXT, O_RDONLY)));
	EXPECT(reads(openat(AT_FDCWD, TEXT, O_RDONLY)));
	EXPECT(reads(openat64(AT_FDCWD, TEXT, O_RDONLY)));
	int fd;
	EXPECT((fd = open(DEVICE, O_RDWR | O_CLOEXEC)) >= 0 && !fstat(fd, &st) && S_ISCHR(st.st_mode) &&
	       fcntl(fd, F_GETFD) == FD_CLOEXEC && !close(fd));
	REFUSED(open(TEXT, O_RDWR) >= 0, EACCES);
	REFUSED(open(TEXT, O_RDONLY | O_DIRECTORY) >= 0, ENOTDIR);
	REFUSED(open("/sys/class/infiniband/shca0", O_RDONLY | O_DIRECTORY) >= 0, EOPNOTSUPP);
	REFUSED(open(GONE, O_RDONLY) >= 0, ENOENT);
	EXPECT(file_reads(fopen(TEXT, "re")));
	EXPECT(file_reads(fopen64(TEXT, "r")));
	REFUSED(fopen(TEXT, "r+") != NULL, EACCES);
	EXPECT(realpath(TEXT, name) && !strcmp(name, TEXT));
	EXPECT(named(realpath("/sys/class//infiniband/shca0/node_type", NULL)));
	REFUSED(readlink(TEXT, name, sizeof name) >= 0, EINVAL);
	/* other paths are handed on, with their modes */
	char other[] = "/tmp/infiniband-XXXXXX";
	check("mkstemp", (fd = mkstemp(other)) >= 0 && !close(fd) && !unlink(other));
	mode_t mask = umask(0);
	check("create",
	      (fd = open(other, O_CREAT | O_EXCL | O_WRONLY, 0640)) >= 0 && !fstat(fd, &st) && (st.st_mode & 07777) == 0640);
	umask(mask);
	close(fd);
	check("stat of another", !stat(other, &st) && !access(other, F_OK) && (fd = open64(other, O_RDONLY)) >= 0 && !close(fd));
	as_old_programs(other);
	unlink(other);
	return failed;
}
