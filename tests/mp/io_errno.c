/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error classes by errno, and calls of the system that move a part or are interrupted: this program's pwrite, pread and others
 * stand before the system's. Any number of ranks.
 *
 *     io_errno DIRECTORY
 */
#include "io_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char path[512], dir[400];
static int failing;			/* errno of the calls below; 0: they work */
static int interrupted;			/* every second call is interrupted; the remaining ones move at most 7 bytes */

#define INTERPOSED		__attribute__((visibility("default")))

static off_t late_from = -1;		/* calls at this offset or behind fail with ENOSPC, after a while; -1: none do */

/* Returns whether the call fails, with errno set; else reduces *n. */
static int hinder(size_t *n, off_t at)
{
	static __thread int turn;

	if (late_from >= 0 && at >= late_from) {
		usleep(20000);
		errno = ENOSPC;
		return 1;
	}
	if (failing) {
		errno = failing;
		return 1;
	}
	if (interrupted && turn++ & 1) {
		errno = EINTR;
		return 1;
	}
	if (interrupted && *n > 7)
		*n = 7;
	return 0;
}

INTERPOSED ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
	return hinder(&n, at) ? -1 : syscall(SYS_pwrite64, fd, buf, n, at);
}

INTERPOSED ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	return hinder(&n, at) ? -1 : syscall(SYS_pread64, fd, buf, n, at);
}

static int interruptions;		/* calls that were interrupted since is_interrupted began to count */

/* Whether this call, of those that open or resize the test's file, is interrupted: every second one. Each call of MPI makes an
 * even number of these then, half of them again. */
static int is_interrupted(void)
{
	static __thread int turn;

	if (!interrupted || turn++ & 1)
		return 0;
	interruptions++;
	return 1;
}

INTERPOSED int fsync(int fd)
{
	if (failing || is_interrupted()) {
		errno = failing ? failing : EINTR;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

INTERPOSED int open(const char *name, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	va_start(args, flags);
	if (flags & O_CREAT)
		mode = va_arg(args, mode_t);
	va_end(args);
	if (!strcmp(name, path) && is_interrupted()) {
		errno = EINTR;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}

INTERPOSED int ftruncate(int fd, off_t size)
{
	if (is_interrupted()) {
		errno = EINTR;
		return -1;
	}
	return (int)syscall(SYS_ftruncate, fd, size);
}

INTERPOSED int posix_fallocate(int fd, off_t at, off_t size)
{
	if (is_interrupted())
		return EINTR;
	return syscall(SYS_fallocate, fd, 0, at, size) ? errno : 0;
}

static const struct { int err, class; } classes[] = {
	{ EDQUOT, MPI_ERR_QUOTA }, { ENOSPC, MPI_ERR_NO_SPACE }, { EROFS, MPI_ERR_READ_ONLY }, { EACCES, MPI_ERR_ACCESS },
	{ EPERM, MPI_ERR_ACCESS }, { EBADF, MPI_ERR_ACCESS }, { EIO, MPI_ERR_IO }, { EFBIG, MPI_ERR_IO }, { EINVAL, MPI_ERR_IO },
	{ ESTALE, MPI_ERR_IO }, { ENOMEM, MPI_ERR_NO_MEM }, { ESPIPE, MPI_ERR_BAD_FILE }, { ETXTBSY, MPI_ERR_FILE_IN_USE },
	{ ENOLCK, MPI_ERR_UNSUPPORTED_OPERATION },
};

/* At one rank, independent, by a request; at all ranks, where rank 0 aggregates; by fsync. */
static void test_classes(void)
{
	MPI_File f;
	MPI_Info info;
	MPI_Request r;
	char c[32] = "";

	MPI_Info_create(&info);
	MPI_Info_set(info, "collective_buffering", "true");
	MPI_Info_set(info, "cb_nodes", "1");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
	MPI_Info_free(&info);
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		failing = classes[i].err;
		FAILS(MPI_File_write_at(f, me * 32, c, 32, MPI_CHAR, MPI_STATUS_IGNORE), classes[i].class);
		FAILS(MPI_File_read_at(f, me * 32, c, 32, MPI_CHAR, MPI_STATUS_IGNORE), classes[i].class);
		WORKS(MPI_File_iwrite_at(f, me * 32, c, 32, MPI_CHAR, &r));
		FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), classes[i].class);
		failing = me ? 0 : classes[i].err;
		FAILS(MPI_File_write_at_all(f, me * 32, c, 32, MPI_CHAR, MPI_STATUS_IGNORE), classes[i].class);
		FAILS(MPI_File_read_at_all(f, me * 32, c, 32, MPI_CHAR, MPI_STATUS_IGNORE), classes[i].class);
		WORKS(MPI_File_iread_at_all(f, me * 32, c, 32, MPI_CHAR, &r));
		FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), classes[i].class);
		failing = me == np - 1 ? classes[i].err : 0;
		FAILS(MPI_File_sync(f), classes[i].class);
		failing = 0;
		WORKS(MPI_File_sync(f));
	}
	WORKS(MPI_File_write_at_all(f, me * 32, c, 32, MPI_CHAR, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
}

/* Calls that are interrupted, or move less than asked for: all data is moved. */
static void test_parts(void)
{
	enum { N = 4000 };
	static char v[N], w[N];
	MPI_File f;
	MPI_Status status;
	int n;

	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
	WORKS(MPI_File_set_size(f, 0));
	interrupted = 1;
	for (int all = 0; all < 2; all++) {
		fill(v, N, seed_of(me, all, 0, 0));
		WORKS(all ? MPI_File_write_at_all(f, (MPI_Offset)me * N, v, N, MPI_CHAR, &status) :
			    MPI_File_write_at(f, (MPI_Offset)me * N, v, N, MPI_CHAR, &status));
		MPI_Get_count(&status, MPI_CHAR, &n);
		CHECK_EQ(n, N);
		memset(w, 0, N);
		WORKS(all ? MPI_File_read_at_all(f, (MPI_Offset)me * N, w, N, MPI_CHAR, &status) :
			    MPI_File_read_at(f, (MPI_Offset)me * N, w, N, MPI_CHAR, &status));
		MPI_Get_count(&status, MPI_CHAR, &n);
		CHECK_EQ(n, N);
		CHECK(!memcmp(v, w, N));
	}
	interrupted = 0;
	WORKS(MPI_File_close(&f));
}

/* A signal ends open(2), ftruncate(2), posix_fallocate(3) and fsync(2) on some file systems (FUSE, NFS, tmpfs): they are called
 * again. file_perm 0: the file is created with other permissions (io_perm). */
static void test_interrupted(void)
{
	MPI_Info info[2] = { MPI_INFO_NULL };
	MPI_File f;

	MPI_Info_create(&info[1]);
	MPI_Info_set(info[1], "file_perm", "0");
	for (int i = 0; i < 2; i++) {
		if (!me)
			unlink(path);
		meet(sync_comm);
		interrupted = 1;
		interruptions = 0;
		WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info[i], &f));
		CHECK(interruptions == 1);
		WORKS(MPI_File_set_size(f, 5000));
		WORKS(MPI_File_preallocate(f, 9000));
		CHECK(interruptions == (me ? 1 : 3));
		WORKS(MPI_File_sync(f));
		CHECK(interruptions == (me ? 2 : 4));
		interrupted = 0;
		WORKS(MPI_File_close(&f));
	}
	MPI_Info_free(&info[1]);
	if (!me)
		unlink(path);
	meet(sync_comm);
}

/* A window that is under way when the exchanges are over fails: all ranks wait for it, and know. So does one in the middle. */
static void test_windows(void)
{
	enum { WINDOW = 4096, WINDOWS = 4, N = WINDOW * WINDOWS };
	static char v[N];
	int n = N / np;
	MPI_Datatype byte, tile;
	MPI_Request r;
	MPI_Info info;
	MPI_File f;

	MPI_Info_create(&info);
	MPI_Info_set(info, "collective_buffering", "true");
	MPI_Info_set(info, "cb_nodes", "1");
	MPI_Info_set(info, "cb_buffer_size", "4096");
	MPI_Info_set(info, "heddle_overlap", "true");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
	MPI_Info_free(&info);
	MPI_Type_contiguous(1, MPI_BYTE, &byte);
	MPI_Type_create_resized(byte, 0, np, &tile);
	MPI_Type_commit(&tile);
	WORKS(MPI_File_set_view(f, me, MPI_BYTE, tile, "native", MPI_INFO_NULL));
	WORKS(MPI_File_write_at_all(f, 0, v, n, MPI_BYTE, MPI_STATUS_IGNORE));
	for (int k = 1; k < WINDOWS; k++) {
		late_from = k * WINDOW;
		FAILS(MPI_File_write_at_all(f, 0, v, n, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
		FAILS(MPI_File_read_at_all(f, 0, v, n, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
		WORKS(MPI_File_iwrite_at_all(f, 0, v, n, MPI_BYTE, &r));
		FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
		WORKS(MPI_File_iread_at_all(f, 0, v, n, MPI_BYTE, &r));
		FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
		late_from = -1;
		WORKS(MPI_File_write_at_all(f, 0, v, n, MPI_BYTE, MPI_STATUS_IGNORE));
	}
	MPI_Type_free(&tile);
	MPI_Type_free(&byte);
	WORKS(MPI_File_close(&f));
}

static void opens_not(const char *name, int class)
{
	char other[600];
	MPI_File f;

	snprintf(other, sizeof(other), "%s/%s", dir, name);
	FAILS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &f), class);
	CHECK(f == MPI_FILE_NULL);
	FAILS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &f), class);
}

/* Names that are no files. Opening a pipe waits for no other process. */
static void test_names(void)
{
	char name[300], other[600], loop[600];

	snprintf(other, sizeof(other), "%s/io_pipe", dir);
	snprintf(loop, sizeof(loop), "%s/io_loop", dir);
	if (!me)
		CHECK(!mkfifo(other, 0600) && !symlink(loop, loop));
	meet(sync_comm);
	opens_not("io_pipe", MPI_ERR_BAD_FILE);
	opens_not("io_loop", MPI_ERR_BAD_FILE);
	opens_not("io_errno/file", MPI_ERR_BAD_FILE);
	opens_not(".", MPI_ERR_BAD_FILE);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	opens_not(name, MPI_ERR_BAD_FILE);
	meet(sync_comm);
	if (!me) {
		FAILS(MPI_File_delete(dir, MPI_INFO_NULL), MPI_ERR_BAD_FILE);
		unlink(other);
		unlink(loop);
	}
	meet(sync_comm);
}

int main(int argc, char **argv)
{
	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	snprintf(dir, sizeof(dir), "%s", argv[1]);
	snprintf(path, sizeof(path), "%s/io_errno", dir);
	test_classes();
	test_parts();
	test_interrupted();
	test_windows();
	test_names();
	meet(sync_comm);
	if (!me)
		unlink(path);
	test_done("io_errno");
	return 0;
}
