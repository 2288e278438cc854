/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hd_io: bandwidth of a file that all ranks write, then read: MB/s of all ranks together.
 *
 *     contiguous   each rank a part of the file, a block at a time, by explicit offset
 *     strided      blocks of the ranks in turn, by a view; one independent call for all blocks
 *     collective   the same by one collective call
 *     shared       a block at a time at the shared file pointer
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTIGUOUS, STRIDED, COLLECTIVE, SHARED };

static const char *const accesses[] = {"contiguous", "strided", "collective", "shared", NULL};
static int how = COLLECTIVE;
static const char *path = "/tmp/hd_io.dat";
static const char *hints = "";
static size_t total = 16 << 20;

static const struct hdb_option options[] = {
	{0, "access", HDB_CHOICE, &how, 0, accesses, "NAME", "contiguous, strided, collective (default) or shared"},
	{0, "file", HDB_TEXT, &path, 0, NULL, "PATH", "the file, which is made and deleted (default /tmp/hd_io.dat)"},
	{0, "hints", HDB_TEXT, &hints, 0, NULL, "KEY=VALUE,...", "hints of the file (default none)"},
	{0, "total", HDB_BYTES, &total, 1, NULL, "BYTES", "bytes of each rank (default 16M)"},
	{0},
};

static void must(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	hdb_die("%s: %s", what, text);
}

/* --hints as an info object. */
static MPI_Info info_of_hints(void)
{
	char text[512], *next = text, *pair, *value;
	MPI_Info info;

	MPI_Info_create(&info);
	snprintf(text, sizeof(text), "%s", hints);
	while ((pair = strsep(&next, ","))) {
		value = strchr(pair, '=');
		if (!value && *pair)
			hdb_die("--hints: KEY=VALUE is wanted, not '%s'", pair);
		if (!value)
			continue;
		*value = '\0';
		must(MPI_Info_set(info, pair, value + 1), pair);
	}
	return info;
}

/* Where this rank's data begin, and how. */
static void set_view(MPI_File f, size_t size)
{
	MPI_Datatype block, tile;

	if (how == CONTIGUOUS || how == SHARED) {
		must(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "MPI_File_set_view");
		return;
	}
	MPI_Type_contiguous((int)size, MPI_BYTE, &block);
	MPI_Type_create_resized(block, 0, (MPI_Aint)size * hdb_ranks, &tile);
	MPI_Type_commit(&tile);
	must(MPI_File_set_view(f, (MPI_Offset)size * hdb_rank, MPI_BYTE, tile, "native", MPI_INFO_NULL), "MPI_File_set_view");
	MPI_Type_free(&tile);
	MPI_Type_free(&block);
}

/* One pass over this rank's data. */
static int transfer(MPI_File f, char *p, size_t bytes, size_t size, bool writes)
{
	MPI_Offset mine = (MPI_Offset)bytes * hdb_rank;
	int rc = MPI_SUCCESS;

	switch (how) {
	case CONTIGUOUS:
		for (size_t at = 0; at < bytes && !rc; at += size)
			rc = writes ? MPI_File_write_at(f, mine + (MPI_Offset)at, p + at, (int)size, MPI_BYTE, MPI_STATUS_IGNORE) :
				      MPI_File_read_at(f, mine + (MPI_Offset)at, p + at, (int)size, MPI_BYTE, MPI_STATUS_IGNORE);
		return rc;
	case STRIDED:
		return writes ? MPI_File_write_at(f, 0, p, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE) :
				MPI_File_read_at(f, 0, p, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
	case COLLECTIVE:
		return writes ? MPI_File_write_at_all(f, 0, p, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE) :
				MPI_File_read_at_all(f, 0, p, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
	default:
		for (size_t at = 0; at < bytes && !rc; at += size)
			rc = writes ? MPI_File_write_shared(f, p + at, (int)size, MPI_BYTE, MPI_STATUS_IGNORE) :
				      MPI_File_read_shared(f, p + at, (int)size, MPI_BYTE, MPI_STATUS_IGNORE);
		return rc;
	}
}

/* MB/s of all ranks, over some passes. */
static double bandwidth(MPI_File f, struct hdb_buffer *b, size_t bytes, size_t size, bool writes, int passes, int skip, size_t *wrong)
{
	double seconds, most;
	int64_t sum = 0, t;

	for (int i = 0; i < passes + skip; i++) {
		if (how == SHARED)
			must(MPI_File_seek_shared(f, 0, MPI_SEEK_SET), "MPI_File_seek_shared");
		if (hdb.validate && writes)
			hdb_fill(b->p, bytes, hdb_seed(0, hdb_rank, 0, 0));
		else if (hdb.validate)
			memset(b->p, 0, bytes);
		MPI_Barrier(MPI_COMM_WORLD);
		t = hdb_now();
		must(transfer(f, (char *)b->p, bytes, size, writes), writes ? "write" : "read");
		MPI_Barrier(MPI_COMM_WORLD);
		if (i >= skip)
			sum += hdb_now() - t;
		/* at the shared pointer the ranks' order is not known */
		if (hdb.validate && !writes && how != SHARED)
			*wrong += hdb_check(b->p, bytes, hdb_seed(0, hdb_rank, 0, 0), accesses[how]);
	}
	seconds = (double)sum / 1e9;
	MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return (double)bytes * hdb_ranks * passes / most / 1e6;
}

int main(int argc, char **argv)
{
	static const struct hdb_program program = {
		.name = "hd_io",
		.title = "MPI File Bandwidth Test",
		.features = HDB_SIZES | HDB_LOOPS | HDB_VALIDATE,
		.defaults = {.sizes = {64, 1 << 20}, .iterations = {3, 3}, .skip = {1, 1}, .large = 65536},
		.least_ranks = 1,
		.extra = options,
	};
	const char *columns[] = {"Size", "Write(MB/s)", "Read(MB/s)", NULL};
	char note[300];
	const char *notes[] = {note, NULL};
	struct hdb_buffer buffer;
	size_t wrong = 0;
	MPI_Info info;
	MPI_File f;

	hdb_start(argc, argv, &program);
	snprintf(note, sizeof(note), "Size: of a block. [ access: %s ] [ ranks: %d ] [ file: %.200s ]", accesses[how], hdb_ranks, path);
	hdb_header(notes, columns);
	info = info_of_hints();
	must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &f), path);
	MPI_Info_free(&info);
	for (size_t size = hdb.sizes.min ? hdb.sizes.min : 1; size <= hdb.sizes.max; size *= 4) {
		size_t most = how == CONTIGUOUS || how == SHARED ? 20000 : 1000000;	/* calls, runs */
		size_t bytes = (total / size < most ? total / size : most) * size;
		double values[2];
		int iterations, skip;

		if (!bytes)
			bytes = size;
		hdb_loops(size, &iterations, &skip);
		hdb_buffer_new(&buffer, bytes);
		must(MPI_File_set_size(f, 0), "MPI_File_set_size");
		set_view(f, size);
		values[0] = bandwidth(f, &buffer, bytes, size, true, iterations, skip, &wrong);
		values[1] = bandwidth(f, &buffer, bytes, size, false, iterations, skip, &wrong);
		hdb_row((long long)size, values, 2);
		wrong += hdb_guard(&buffer);
		hdb_buffer_free(&buffer);
	}
	must(MPI_File_close(&f), "MPI_File_close");
	return hdb_finish(wrong);
}
