/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file system without space: accesses fail with MPI_ERR_NO_SPACE at the ranks whose data have none, earlier data stay in the
 * file, and the file can be written when there is space again. Any number of ranks.
 *
 *     io_full DIRECTORY            of a small file system that no other process uses
 *     io_full DIRECTORY readonly   of one that is mounted read-only, with a file io_full in it
 */
#include "io_test.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { BLOCK = 64 << 10, RUN = 64, RECORD = 1000, RECORDS = 300 };

static char path[512];
static int ballast;			/* rank 0: of a file that takes the space */

/* Leaves so much space. Collective. */
static void leave(size_t bytes)
{
	struct statvfs s;
	size_t space;

	meet(sync_comm);
	if (!me) {
		CHECK(!ftruncate(ballast, 0) && !fstatvfs(ballast, &s));
		space = (size_t)s.f_bavail * s.f_frsize;
		CHECK(space > bytes);
		CHECK(!posix_fallocate(ballast, 0, (off_t)(space - bytes)));
	}
	meet(sync_comm);
}

static int sum(int n)
{
	int all;

	MPI_Allreduce(&n, &all, 1, MPI_INT, MPI_SUM, sync_comm);
	return all;
}

static MPI_File open_file(void)
{
	MPI_Info info;
	MPI_File f;

	leave(BLOCK);
	MPI_Info_create(&info);
	MPI_Info_set(info, "cb_buffer_size", "16384");
	MPI_Info_set(info, "heddle_overlap", (me + np) & 1 ? "true" : "false");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &f));
	MPI_Info_free(&info);
	return f;
}

static void check_block(MPI_File f, MPI_Offset at, uint64_t seed)
{
	static char v[BLOCK];
	MPI_Status status;
	int n;

	WORKS(MPI_File_read_at(f, at, v, BLOCK, MPI_BYTE, &status));
	MPI_Get_count(&status, MPI_BYTE, &n);
	CHECK_EQ(n, BLOCK);
	VERIFY(v, BLOCK, seed);
}

/* ---- independent ------------------------------------------------------------------------------------------------- */

static int write_one(MPI_File f, MPI_Offset at, const void *v, int nonblocking)
{
	MPI_Request r;

	if (!nonblocking)
		return MPI_File_write_at(f, at, v, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
	WORKS(MPI_File_iwrite_at(f, at, v, BLOCK, MPI_BYTE, &r));
	return MPI_Wait(&r, MPI_STATUS_IGNORE);
}

/* One rank's data has no space: no other rank has an error. */
static void test_independent(int nonblocking)
{
	static char v[BLOCK];
	MPI_File f = open_file();
	MPI_Offset mine = (MPI_Offset)me * BLOCK, behind = (MPI_Offset)np * BLOCK;

	leave((size_t)np * BLOCK);
	fill(v, BLOCK, seed_of(me, 0, 0, 0));
	WORKS(write_one(f, mine, v, nonblocking));
	meet(sync_comm);
	if (me == np - 1)
		FAILS(write_one(f, behind, v, nonblocking), MPI_ERR_NO_SPACE);
	else
		WORKS(write_one(f, mine, v, nonblocking));
	check_block(f, mine, seed_of(me, 0, 0, 0));
	leave(BLOCK);
	if (me == np - 1)
		WORKS(write_one(f, behind, v, nonblocking));
	meet(sync_comm);
	check_block(f, behind, seed_of(np - 1, 0, 0, 0));
	check_block(f, mine, seed_of(me, 0, 0, 0));
	WORKS(MPI_File_close(&f));
}

/* ---- collective -------------------------------------------------------------------------------------------------- */

enum form { BLOCKING, NONBLOCKING, SPLIT, FORMS };

static int write_all(MPI_File f, MPI_Offset at, const void *v, int form)
{
	MPI_Request r;

	switch (form) {
	case BLOCKING:
		return MPI_File_write_at_all(f, at, v, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE);
	case NONBLOCKING:
		WORKS(MPI_File_iwrite_at_all(f, at, v, BLOCK, MPI_BYTE, &r));
		return MPI_Wait(&r, MPI_STATUS_IGNORE);
	default:
		WORKS(MPI_File_write_at_all_begin(f, at, v, BLOCK, MPI_BYTE));
		return MPI_File_write_at_all_end(f, v, MPI_STATUS_IGNORE);
	}
}

/* Runs of the ranks in turn. */
static void set_strided(MPI_File f, const char *buffering)
{
	MPI_Datatype run, filetype;
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, "collective_buffering", buffering);
	MPI_Type_contiguous(RUN, MPI_BYTE, &run);
	MPI_Type_create_resized(run, 0, (MPI_Aint)RUN * np, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, (MPI_Offset)RUN * me, MPI_BYTE, filetype, "native", info));
	MPI_Type_free(&filetype);
	MPI_Type_free(&run);
	MPI_Info_free(&info);
}

/* Two phases: an aggregator finds no space, and every rank knows. */
static void test_two_phases(int form)
{
	static char v[2][BLOCK];
	MPI_File f = open_file();

	set_strided(f, "true");
	for (int k = 0; k < 2; k++)
		fill(v[k], BLOCK, seed_of(me, k, 0, form));
	leave((size_t)np * BLOCK + BLOCK / 2);
	WORKS(write_all(f, 0, v[0], form));
	if (np > 1)
		FAILS(write_all(f, BLOCK, v[1], form), MPI_ERR_NO_SPACE);
	check_block(f, 0, seed_of(me, 0, 0, form));
	leave((size_t)np * BLOCK);
	WORKS(write_all(f, BLOCK, v[1], form));
	check_block(f, 0, seed_of(me, 0, 0, form));
	check_block(f, BLOCK, seed_of(me, 1, 0, form));
	WORKS(MPI_File_close(&f));
}

/* Many short runs of each rank by itself: no rank gets a signal, and the data of the other ranks between the runs is there. */
static void test_runs(int form)
{
	static char v[2][BLOCK];
	MPI_File f = open_file();
	int rc;

	set_strided(f, "false");
	for (int k = 0; k < 2; k++)
		fill(v[k], BLOCK, seed_of(me, k, 1, form));
	leave((size_t)np * BLOCK + BLOCK / 2);
	WORKS(write_all(f, 0, v[0], form));
	rc = write_all(f, BLOCK, v[1], form);
	CHECK(rc == MPI_SUCCESS || class_of(rc) == MPI_ERR_NO_SPACE);
	CHECK(sum(rc != MPI_SUCCESS) >= 1);
	check_block(f, 0, seed_of(me, 0, 1, form));
	if (!rc)
		check_block(f, BLOCK, seed_of(me, 1, 1, form));
	leave((size_t)np * BLOCK);
	WORKS(write_all(f, BLOCK, v[1], form));
	check_block(f, 0, seed_of(me, 0, 1, form));
	check_block(f, BLOCK, seed_of(me, 1, 1, form));
	WORKS(MPI_File_close(&f));
}

/* Each rank writes one block by an independent access: the ranks without space have the error, and the data of the others is
 * there. */
static void test_own_blocks(int form)
{
	static char v[BLOCK];
	MPI_File f = open_file();
	MPI_Offset mine = (MPI_Offset)me * BLOCK;
	int rc;

	fill(v, BLOCK, seed_of(me, 7, 0, form));
	leave((size_t)np * BLOCK - BLOCK / 2);
	rc = write_all(f, mine, v, form);
	CHECK(rc == MPI_SUCCESS || class_of(rc) == MPI_ERR_NO_SPACE);
	CHECK(sum(rc != MPI_SUCCESS) >= 1);
	if (!rc)
		check_block(f, mine, seed_of(me, 7, 0, form));
	leave((size_t)np * BLOCK);
	WORKS(write_all(f, mine, v, form));
	check_block(f, mine, seed_of(me, 7, 0, form));
	WORKS(MPI_File_close(&f));
}

/* ---- the shared pointer ------------------------------------------------------------------------------------------ */

/* Records at the shared pointer until there is no space: each one that was written is there once. */
static void test_shared(void)
{
	unsigned char record[RECORD], *seen = calloc((size_t)np * RECORDS, 1);
	int *written = calloc((size_t)np, sizeof(*written)), n, rc = MPI_SUCCESS;
	MPI_File f = open_file();
	MPI_Status status;

	leave(5 * 4096 * (size_t)np);
	for (n = 0; n < RECORDS && !rc; n += !rc) {
		fill(record, RECORD, seed_of(me, n, 1, 1));
		memcpy(record, (int[]){ me, n }, 8);
		rc = MPI_File_write_shared(f, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE);
	}
	FAILS(rc, MPI_ERR_NO_SPACE);
	MPI_Allgather(&n, 1, MPI_INT, written, 1, MPI_INT, sync_comm);
	for (MPI_Offset at = 0;; at += RECORD) {
		int r, i, got;

		WORKS(MPI_File_read_at(f, at, record, RECORD, MPI_BYTE, &status));
		MPI_Get_count(&status, MPI_BYTE, &got);
		if (got < RECORD)
			break;
		memcpy(&r, record, 4);
		memcpy(&i, record + 4, 4);
		if (r < 0 || r >= np || i < 0 || i >= written[r])
			continue;	/* of a record that had no space: a part */
		unsigned char whole[RECORD];

		fill(whole, RECORD, seed_of(r, i, 1, 1));
		memcpy(whole, (int[]){ r, i }, 8);
		if (!memcmp(whole, record, RECORD))
			seen[r * RECORDS + i]++;
	}
	for (int r = 0; r < np; r++)
		for (int i = 0; i < written[r]; i++)
			CHECK_EQ(seen[r * RECORDS + i], 1);
	leave((size_t)np * (RECORD + 4096) + 4096);
	WORKS(MPI_File_write_shared(f, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE));
	WORKS(MPI_File_write_ordered(f, record, RECORD, MPI_BYTE, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
	free(seen);
	free(written);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static void test_preallocate(void)
{
	MPI_File f = open_file();
	MPI_Offset size;

	leave(BLOCK);
	FAILS(MPI_File_preallocate(f, 4 * BLOCK), MPI_ERR_NO_SPACE);
	meet(sync_comm);
	WORKS(MPI_File_set_size(f, 4 * BLOCK));		/* a hole needs none */
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 4 * BLOCK);
	leave(4 * BLOCK);
	WORKS(MPI_File_preallocate(f, 4 * BLOCK));
	leave(0);
	WORKS(MPI_File_write_at(f, (MPI_Offset)me * 8, "01234567", 8, MPI_CHAR, MPI_STATUS_IGNORE));
	WORKS(MPI_File_sync(f));
	WORKS(MPI_File_close(&f));
}

static void test_readonly(void)
{
	char other[600], c[4];
	MPI_File f;
	MPI_Status status;
	int n;

	snprintf(other, sizeof(other), "%s.new", path);
	FAILS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_READ_ONLY);
	FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_READ_ONLY);
	FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_READ_ONLY);
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f));
	WORKS(MPI_File_read_at_all(f, 0, c, 3, MPI_CHAR, &status));
	MPI_Get_count(&status, MPI_CHAR, &n);
	CHECK(n == 3 && !memcmp(c, "abc", 3));
	WORKS(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
	char other[600];

	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	snprintf(path, sizeof(path), "%s/io_full", argv[1]);
	if (argc > 2) {
		test_readonly();
	} else {
		snprintf(other, sizeof(other), "%s/ballast", argv[1]);
		ballast = me ? -1 : open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		CHECK(me || ballast >= 0);
		test_independent(0);
		test_independent(1);
		for (int form = 0; form < FORMS; form++) {
			test_two_phases(form);
			test_runs(form);
			test_own_blocks(form);
		}
		test_shared();
		test_preallocate();
		unlink(other);
	}
	test_done("io_full");
	return 0;
}
