/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies while all ranks access a file collectively: every survivor's access ends with MPI_ERR_PROC_ABORTED, and
 * MPI_File_close returns. Run with heddlerun --on-death=continue.
 *
 *     io_death RANK CASE FILE PATH [after]     FILE: see survivors.h; after: microseconds after which the rank dies; without it,
 *                                              the rank dies in a pause between accesses
 *
 * Cases: write, read (collective), iwrite (nonblocking), ordered, sync, open (and close, of another file)
 */
#include <string.h>

#include "survivors.h"

#define MOST 1000000

static int me, all, dead;
static char buffer[40000];

static int access_file(MPI_File f, const char *what, const char *path)
{
	static char other[4096];
	MPI_Request r;
	int rc;

	if (!strcmp(what, "open")) {
		snprintf(other, sizeof(other), "%s.other", path);
		rc = MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
		return rc ? rc : MPI_File_close(&f);
	}
	if (!strcmp(what, "write"))
		return MPI_File_write_at_all(f, 0, buffer, sizeof(buffer), MPI_BYTE, MPI_STATUS_IGNORE);
	if (!strcmp(what, "read"))
		return MPI_File_read_at_all(f, 0, buffer, sizeof(buffer), MPI_BYTE, MPI_STATUS_IGNORE);
	if (!strcmp(what, "ordered"))
		return MPI_File_write_ordered(f, buffer, 100, MPI_BYTE, MPI_STATUS_IGNORE);
	if (!strcmp(what, "sync"))
		return MPI_File_sync(f);
	rc = MPI_File_iwrite_at_all(f, 0, buffer, sizeof(buffer), MPI_BYTE, &r);
	return rc ? rc : MPI_Wait(&r, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	MPI_Datatype tile;
	MPI_File f;
	MPI_Info info;
	int *seen, rc = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (argc < 5)
		MPI_Abort(MPI_COMM_WORLD, 2);
	dead = atoi(argv[1]);
	seen = survivors_counters(argv[3]);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Info_create(&info);
	MPI_Info_set(info, "cb_buffer_size", "8192");
	MPI_Info_set(info, "heddle_overlap", me & 1 ? "false" : "true");
	rc = MPI_File_open(MPI_COMM_WORLD, argv[4], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f);
	MPI_Info_free(&info);
	MPI_Type_create_resized(MPI_BYTE, 0, all, &tile);
	MPI_Type_commit(&tile);
	rc = rc ? rc : MPI_File_set_view(f, me, MPI_BYTE, tile, "native", MPI_INFO_NULL);
	rc = rc ? rc : MPI_File_write_at_all(f, 0, buffer, sizeof(buffer), MPI_BYTE, MPI_STATUS_IGNORE);
	if (rc)
		survivors_fail(me, "open", rc);
	if (me == dead && argc > 5)
		survivors_die_in(atoi(argv[5]));
	for (int i = 0; i < MOST && !rc; i++) {
		if (me == dead && argc <= 5 && i == 3)
			raise(SIGKILL);
		rc = access_file(f, argv[2], argv[4]);
	}
	if (!survivors_told(rc))
		survivors_fail(me, argv[2], rc);
	printf("survivor %d: told by %s\n", me, argv[2]);
	fflush(stdout);
	survivors_count(&seen[9]);
	survivors_await(&seen[9], all - 1, 60, true);
	MPI_File_close(&f);
	if (f != MPI_FILE_NULL)
		survivors_fail(me, "close", 0);
	MPI_Type_free(&tile);
	MPI_Finalize();
	return 0;
}
