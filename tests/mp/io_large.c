/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses of more than 2^31 elements. A buffer of LEN bytes is a small piece of memory, mapped time and again; written is to
 * /dev/null, and read from a file that is a hole with a few bytes. Any number of ranks.
 *
 *     io_large DIRECTORY           in little memory and space
 *     io_large DIRECTORY room      writes LEN bytes of each rank to a file and reads them; skipped (77) without that space
 */
#define _GNU_SOURCE
#include "io_test.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PIECE	((size_t)16 << 20)
#define LEN	(((MPI_Count)1 << 31) + 7)
#define FAR	((MPI_Offset)1 << 40)

static char path[512];
static char *piece;			/* the memory */
static char *buf;			/* LEN bytes: piece after piece the same */

/* Returns false where there is not so much address space. */
static bool map_buffer(void)
{
	size_t size = ((size_t)LEN + PIECE - 1) / PIECE * PIECE;
	int fd = memfd_create("io_large", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)PIECE));
	buf = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buf == MAP_FAILED)
		return false;
	for (size_t at = 0; at < size; at += PIECE)
		CHECK(mmap(buf + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) != MAP_FAILED);
	close(fd);
	piece = buf;
	return true;
}

static void check_count(const MPI_Status *s, MPI_Count want)
{
	MPI_Count n = -1;
	int few = -1;

	MPI_Get_count_c(s, MPI_BYTE, &n);
	CHECK_EQ(n, want);
	MPI_Get_elements_c(s, MPI_BYTE, &n);
	CHECK_EQ(n, want);
	MPI_Get_count(s, MPI_BYTE, &few);
	CHECK_EQ(few, want > INT32_MAX ? MPI_UNDEFINED : (int)want);
}

/* Everything is written nowhere, so that pointers and counts alone are checked. */
static void write_nowhere(void)
{
	MPI_Datatype overlaps, twice;
	MPI_Offset at, shared;
	MPI_Request r;
	MPI_Status s;
	MPI_File f;

	WORKS(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
	WORKS(MPI_File_write_at_c(f, FAR, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	for (int i = 1; i <= 3; i++) {
		WORKS(MPI_File_write_c(f, buf, LEN, MPI_BYTE, &s));
		check_count(&s, LEN);
		WORKS(MPI_File_get_position(f, &at));
		CHECK_EQ(at, i * LEN);
	}
	WORKS(MPI_File_write_all_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	WORKS(MPI_File_iwrite_at_c(f, FAR, buf, LEN, MPI_BYTE, &r));
	MPI_Wait(&r, &s);
	check_count(&s, LEN);
	WORKS(MPI_File_write_shared_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	WORKS(MPI_File_write_ordered_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	meet(sync_comm);
	WORKS(MPI_File_get_position_shared(f, &shared));
	CHECK_EQ(shared, 2 * np * LEN);
	/* 129 pieces that lie at one place of memory, packed one after the other */
	MPI_Type_create_hvector((int)(LEN / (MPI_Count)PIECE) + 1, (int)PIECE, 0, MPI_BYTE, &overlaps);
	MPI_Type_commit(&overlaps);
	WORKS(MPI_File_write_at_c(f, 1, piece, 1, overlaps, &s));
	check_count(&s, (LEN / (MPI_Count)PIECE + 1) * (MPI_Count)PIECE);
	MPI_Type_free(&overlaps);
	/* a view that leaves every second MiB out: offsets beyond 2^31 etypes */
	MPI_Type_vector(1 << 12, 1 << 20, 1 << 21, MPI_BYTE, &twice);
	MPI_Type_commit(&twice);
	WORKS(MPI_File_set_view(f, 5, MPI_BYTE, twice, "native", MPI_INFO_NULL));
	MPI_Type_free(&twice);
	WORKS(MPI_File_write_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	WORKS(MPI_File_get_byte_offset(f, LEN, &at));
	CHECK_EQ(at, 5 + LEN / (1 << 20) * (1 << 21) + LEN % (1 << 20));
	WORKS(MPI_File_close(&f));
}

static void write_byte(MPI_File f, MPI_Offset at, char c)
{
	WORKS(MPI_File_write_at(f, at, &c, 1, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* The buffer keeps the last PIECE of the data. */
static char of_buffer(MPI_Offset at)
{
	return piece[at % (MPI_Offset)PIECE];
}

static void read_hole(void)
{
	MPI_Offset at;
	MPI_Status s;
	MPI_File f;

	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f));
	WORKS(MPI_File_set_size(f, LEN + 9));
	if (!me) {
		write_byte(f, INT32_MAX, 1);
		write_byte(f, (MPI_Offset)INT32_MAX + 1, 2);
		write_byte(f, LEN - 1, 3);
		write_byte(f, LEN, 4);
	}
	meet_file(f);
	memset(piece, 9, PIECE);
	WORKS(MPI_File_read_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	CHECK(of_buffer(INT32_MAX) == 1 && of_buffer((MPI_Offset)INT32_MAX + 1) == 2 && of_buffer(LEN - 1) == 3);
	CHECK(!of_buffer(LEN - 2) && !of_buffer(INT32_MAX - 1));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, LEN);
	/* all that is left is 9 bytes, of as many as wanted */
	WORKS(MPI_File_read_c(f, buf, LEN, MPI_BYTE, &s));
	check_count(&s, 9);
	CHECK(piece[0] == 4 && !piece[1] && !piece[8]);
	WORKS(MPI_File_read_at_c(f, FAR, buf, LEN, MPI_BYTE, &s));
	check_count(&s, 0);
	WORKS(MPI_File_close(&f));
}

/* Returns whether there is room for the data of all ranks. Collective. */
static bool has_room(const char *dir)
{
	struct statvfs v;
	int room = me || (!statvfs(dir, &v) && (MPI_Count)v.f_bavail * (MPI_Count)v.f_frsize > np * LEN + ((MPI_Count)1 << 30));

	MPI_Bcast(&room, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return room;
}

/* Bytes that differ between ranks, and from one piece of the file to the next, since LEN is no multiple of PIECE. */
static void write_and_read(void)
{
	MPI_Offset mine = me * LEN, next = (me + 1) % np * LEN;
	char expected[8];
	MPI_Status s;
	MPI_File f;

	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f));
	fill(piece, PIECE, (uint64_t)me);
	WORKS(MPI_File_write_at_all_c(f, mine, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	meet_file(f);
	memset(piece, 0, PIECE);
	WORKS(MPI_File_read_at_all_c(f, next, buf, LEN, MPI_BYTE, &s));
	check_count(&s, LEN);
	VERIFY(piece, PIECE, (uint64_t)((me + 1) % np));
	/* where 32 bits end, by a short access: 2^31 is a multiple of PIECE */
	WORKS(MPI_File_read_at(f, next + ((MPI_Offset)1 << 31), piece, 7, MPI_BYTE, &s));
	check_count(&s, 7);
	fill(expected, sizeof(expected), (uint64_t)((me + 1) % np));
	CHECK(!memcmp(piece, expected, 7));
	WORKS(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
	bool room = argc > 2 && !strcmp(argv[2], "room");
	int mapped, all;

	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	snprintf(path, sizeof(path), "%s/io_large", argv[1]);
	mapped = map_buffer();
	MPI_Allreduce(&mapped, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (!all || (room && !has_room(argv[1]))) {
		if (!me)
			printf("io_large: skipped: %s\n", all ? "the file system has no room for 2 GiB of each rank" :
			       "2 GiB of addresses cannot be had (ulimit -v)");
		MPI_Finalize();
		return 77;
	}
	if (room) {
		write_and_read();
	} else {
		write_nowhere();
		read_hole();
	}
	test_done("io_large");
	return 0;
}
