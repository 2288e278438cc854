/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of one page that ranks of several hosts write by turns: each rank has the page in its cache, writes every np-th byte, and
 * sees the bytes of all ranks behind MPI_File_sync, a barrier and MPI_File_sync. One rank has set the file's size.
 *
 *     nfs_pages FILE
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, ROUNDS = 6 };

static int me, np, wrong;

static void must(int rc, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int len;

	if (rc == MPI_SUCCESS)
		return;
	MPI_Error_string(rc, text, &len);
	fprintf(stderr, "rank %d: %s: %s\n", me, what, text);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void meet(MPI_File f)
{
	must(MPI_File_sync(f), "sync");
	MPI_Barrier(MPI_COMM_WORLD);
	must(MPI_File_sync(f), "sync");
}

int main(int argc, char **argv)
{
	unsigned char page[PAGE], byte;
	MPI_Offset size;
	MPI_File f;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	if (argc != 2)
		MPI_Abort(MPI_COMM_WORLD, 2);
	must(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
			   &f),
	     "open");
	must(MPI_File_set_size(f, PAGE), "set_size");
	must(MPI_File_get_size(f, &size), "get_size");
	wrong += size != PAGE;
	for (int round = 1; round <= ROUNDS && !wrong; round++) {
		must(MPI_File_read_at(f, 0, page, PAGE, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		MPI_Barrier(MPI_COMM_WORLD);
		byte = (unsigned char)(16 * round + me);
		for (int at = me; at < 64; at += np)
			must(MPI_File_write_at(f, at, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), "write");
		meet(f);
		memset(page, 0, PAGE);
		must(MPI_File_read_at(f, 0, page, PAGE, MPI_BYTE, MPI_STATUS_IGNORE), "read");
		for (int at = 0; at < 64; at++)
			if (page[at] != (unsigned char)(16 * round + at % np)) {
				fprintf(stderr, "rank %d, round %d: byte %d is %d\n", me, round, at, page[at]);
				wrong++;
				break;
			}
		MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	}
	must(MPI_File_close(&f), "close");
	if (!me)
		printf("%s: %d ranks\n", wrong ? "wrong" : "ok", np);
	MPI_Finalize();
	return wrong != 0;
}
