/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hint file_perm: permissions of a file that MPI_File_open creates, also such that keep its owner out; and a second user's
 * accesses. Any number of ranks. As root, the ranks access files as user 65534, and 65533 is the second user; else there is no
 * second user.
 *
 *     io_perm DIRECTORY
 */
#include "io_test.h"

#include <stdbool.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OWNER = 65534, SECOND = 65533, MASK = 022 };

static char path[512];
static bool users;			/* file system user ids can be set */

/* The calling thread accesses files as this user, without root's capabilities (setfsuid(2), which returns the former id). */
static void become(uid_t uid)
{
	if (!users)
		return;
	setfsgid(uid);
	setfsuid(uid);
	CHECK_EQ(setfsuid((uid_t)-1), (int)uid);
	prctl(PR_SET_DUMPABLE, 1);		/* the change of user has cleared it: peers copy from this process's memory */
}

static mode_t mode_of(void)
{
	struct stat s;

	CHECK(!stat(path, &s));
	return s.st_mode & 07777;
}

static int class_of_open(int amode, MPI_Info info)
{
	MPI_File f;
	int rc = MPI_File_open(MPI_COMM_WORLD, path, amode, info, &f);

	if (!rc)
		WORKS(MPI_File_close(&f));
	return class_of(rc);
}

static void removed(void)
{
	meet(sync_comm);
	if (!me)
		WORKS(MPI_File_delete(path, MPI_INFO_NULL));
	meet(sync_comm);
}

/* All ranks write and read, whatever the permissions; they are the hint's when MPI_File_open returns. Later calls are refused as
 * open(2) refuses them. */
static void created(const char *perm, mode_t mode, int amode)
{
	bool bars = users || geteuid(), reads = mode & 0400, writes = mode & 0200;
	MPI_Info info;
	MPI_File f;
	char c = (char)me, back = -1;

	MPI_Info_create(&info);
	MPI_Info_set(info, "file_perm", perm);
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, amode | MPI_MODE_CREATE, info, &f));
	CHECK_EQ(mode_of(), mode);
	WORKS(MPI_File_write_at_all(f, me, &c, 1, MPI_CHAR, MPI_STATUS_IGNORE));
	if (amode & MPI_MODE_RDWR) {
		WORKS(MPI_File_read_at_all(f, me, &back, 1, MPI_CHAR, MPI_STATUS_IGNORE));
		CHECK_EQ(back, c);
	}
	WORKS(MPI_File_close(&f));
	CHECK_EQ(mode_of(), mode);
	CHECK_EQ(class_of_open(MPI_MODE_RDONLY, MPI_INFO_NULL), bars && !reads ? MPI_ERR_ACCESS : MPI_SUCCESS);
	CHECK_EQ(class_of_open(MPI_MODE_WRONLY, MPI_INFO_NULL), bars && !writes ? MPI_ERR_ACCESS : MPI_SUCCESS);
	/* the file exists: its permissions count, and stay */
	CHECK_EQ(class_of_open(MPI_MODE_RDWR | MPI_MODE_CREATE, info),
		 bars && !(reads && writes) ? MPI_ERR_ACCESS : MPI_SUCCESS);
	CHECK_EQ(class_of_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, info), MPI_ERR_FILE_EXISTS);
	CHECK_EQ(mode_of(), mode);
	meet(sync_comm);
	if (users) {
		become(SECOND);
		CHECK_EQ(class_of_open(MPI_MODE_RDONLY, MPI_INFO_NULL), mode & 04 ? MPI_SUCCESS : MPI_ERR_ACCESS);
		CHECK_EQ(class_of_open(MPI_MODE_WRONLY, MPI_INFO_NULL), mode & 02 ? MPI_SUCCESS : MPI_ERR_ACCESS);
		CHECK_EQ(class_of_open(MPI_MODE_RDWR | MPI_MODE_CREATE, info), (mode & 06) == 06 ? MPI_SUCCESS : MPI_ERR_ACCESS);
		become(OWNER);
	}
	MPI_Info_free(&info);
	removed();
}

/* The second user has no right to the directory: nothing is created, and nothing is deleted. */
static void barred(void)
{
	become(SECOND);
	CHECK_EQ(class_of_open(MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL), MPI_ERR_ACCESS);
	become(OWNER);
	CHECK_EQ(class_of_open(MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL), MPI_SUCCESS);
	meet(sync_comm);
	become(SECOND);
	FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_ACCESS);
	become(OWNER);
	CHECK_EQ(mode_of(), 0666 & ~MASK);
	removed();
}

int main(int argc, char **argv)
{
	char dir[400];
	struct stat s;

	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	snprintf(dir, sizeof(dir), "%s/perm", argv[1]);
	snprintf(path, sizeof(path), "%s/file", dir);
	umask(MASK);
	if (!geteuid()) {
		/* the id may not be mapped, or the directory below one that is root's alone */
		setfsuid(OWNER);
		users = setfsuid((uid_t)-1) == OWNER && !stat(argv[1], &s);
		setfsuid(0);
		prctl(PR_SET_DUMPABLE, 1);
	}
	if (!me) {
		CHECK(!mkdir(dir, 0755));
		CHECK(!users || !chown(dir, OWNER, OWNER));
		if (!users)
			printf("no second user: not root, or its id is not mapped, or it cannot reach %s\n", argv[1]);
	}
	meet(sync_comm);
	become(OWNER);
	created("0", 0, MPI_MODE_RDWR);
	created("0", 0, MPI_MODE_WRONLY);
	created("1", 01, MPI_MODE_RDWR);
	created("0444", 0444, MPI_MODE_RDWR);
	created("0200", 0200, MPI_MODE_WRONLY);
	created("0066", 0044, MPI_MODE_RDWR);
	created("0604", 0604, MPI_MODE_RDWR);
	created("0777", 0755, MPI_MODE_RDWR);
	/* no modes: ignored */
	created("rw-r--r--", 0644, MPI_MODE_RDWR);
	created("0x1ff", 0644, MPI_MODE_RDWR);
	created("10000", 0644, MPI_MODE_RDWR);
	created("-1", 0644, MPI_MODE_RDWR);
	if (users)
		barred();
	become(0);
	if (!me)
		CHECK(!rmdir(dir));
	test_done("io_perm");
	return 0;
}
