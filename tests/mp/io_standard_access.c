/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sections 14.4 and 14.6: every data access, shared and ordered pointers, split collectives, atomic mode and sync; large offsets.
 * io_standard.h
 */
#include "io_standard_kinds.h"

/* A write by each kind of access, then a read by each kind: the data, and the positions of the individual and of the shared
 * pointer. */
static void every_kind(void)
{
	MPI_File f;
	MPI_Status st;
	int v[50], back[50];

	fresh("every_kind");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_set_view(f, 3, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	for (int kind = 0; kind < SHARED; kind++)
		for (int then = 0; then < SHARED; then++) {
			MPI_Offset before = position(f);

			for (int i = 0; i < 50; i++)
				v[i] = kind * 1000000 + then * 10000 + me * 100 + i;
			WORKS(access_file(kind, 1, f, 50 * me, v, 50, MPI_INT, &st));
			IS(count_of(&st, MPI_INT), 50);
			IS(position(f), has_pointer(kind) ? 50 * me + 50 : before);
			before = position(f);
			memset(back, 0, sizeof(back));
			WORKS(access_file_c(then, 0, f, 50 * me + 7, back, 43, MPI_INT, &st));
			IS(count_of(&st, MPI_INT), 43);
			IS(memcmp(back, v + 7, 43 * 4), 0);
			IS(position(f), has_pointer(then) ? 50 * me + 50 : before);
			IS(position_shared(f), 0);
		}
	WORKS(MPI_File_close(&f));
}

/* MPI_STATUS_IGNORE, MPI_Test, Waitall over requests of several files and messages, MPI_Request_free's status calls. */
static void requests(void)
{
	enum { N = 40 };
	MPI_File f, g;
	MPI_Request r[2 * N + 2];
	MPI_Status st[2 * N + 2];
	int v[N], back[N], token = me, got = -1, flag = 0, index;

	fresh("requests");
	f = opened(MPI_COMM_WORLD, path, RW);
	snprintf(path, sizeof(path), "%s/requests2", dir);
	g = opened(MPI_COMM_WORLD, path, RW | MPI_MODE_DELETE_ON_CLOSE);
	for (int i = 0; i < N; i++) {
		v[i] = 1000 * me + i;
		WORKS(MPI_File_iwrite_at(f, 4 * (N * me + i), v + i, 1, MPI_INT, r + i));
		WORKS(MPI_File_iwrite(g, v + i, me ? 0 : 1, MPI_INT, r + N + i));
	}
	MPI_Irecv(&got, 1, MPI_INT, (me + np - 1) % np, 9, MPI_COMM_WORLD, r + 2 * N);
	MPI_Isend(&token, 1, MPI_INT, (me + 1) % np, 9, MPI_COMM_WORLD, r + 2 * N + 1);
	WORKS(MPI_Waitall(2 * N + 2, r, st));
	IS(got, (me + np - 1) % np);
	for (int i = 0; i < N; i++) {
		IS(count_of(st + i, MPI_INT), 1);
		IS(count_of(st + N + i, MPI_INT), me ? 0 : 1);
		MPI_Test_cancelled(st + i, &flag);
		IS(flag, 0);
	}
	for (int i = 0; i < N; i++)
		WORKS(MPI_File_iread_at(f, 4 * (N * me + i), back + i, 1, MPI_INT, r + i));
	for (int left = N; left; left--) {
		WORKS(MPI_Waitany(N, r, &index, st));
		TRUE_THAT(index >= 0 && index < N);
		IS(count_of(st, MPI_INT), 1);
	}
	IS(memcmp(v, back, sizeof(v)), 0);
	memset(back, 0, sizeof(back));
	WORKS(MPI_File_iread_at_all(f, 4 * N * me, back, N, MPI_INT, r));
	for (flag = 0; !flag;)
		WORKS(MPI_Test(r, &flag, st));
	IS(r[0] == MPI_REQUEST_NULL, 1);
	IS(memcmp(v, back, sizeof(v)), 0);
	/* nonblocking accesses at the individual pointer, each where the one ahead of it ends */
	WORKS(MPI_File_seek(f, 4 * N * me, MPI_SEEK_SET));
	memset(back, 0, sizeof(back));
	for (int i = 0; i < N; i++) {
		WORKS(MPI_File_iread(f, back + i, 1, MPI_INT, r + i));
		IS(position(f), 4 * (N * me + i + 1));
	}
	WORKS(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
	IS(memcmp(v, back, sizeof(v)), 0);
	all_here();
	if (!me) {
		WORKS(MPI_File_read_at(g, 0, back, N, MPI_INT, MPI_STATUS_IGNORE));
		IS(memcmp(v, back, sizeof(v)), 0);
	}
	WORKS(MPI_File_close(&f));
	WORKS(MPI_File_close(&g));
}

/* Section 14.4.4: data written by the shared pointer is in the file once, at any place; ordered accesses are in the order of
 * ranks. */
static void shared(void)
{
	enum { EACH = 30 };
	MPI_File f;
	MPI_Status st;
	MPI_Request r[EACH];
	static int all[EACH * 3 * 64], rec[EACH][3];
	int records = 0;

	fresh("shared");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_set_view(f, 5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
	for (int i = 0; i < EACH; i++) {
		rec[i][0] = me;
		rec[i][1] = i;
		rec[i][2] = me * 7919 + i;
		if (i % 2)
			WORKS(MPI_File_write_shared(f, rec[i], 3, MPI_INT, &st));
		else
			WORKS(MPI_File_iwrite_shared(f, rec[i], 3, MPI_INT, r + i / 2));
	}
	WORKS(MPI_Waitall(EACH / 2, r, MPI_STATUSES_IGNORE));
	all_here();
	IS(position_shared(f), 3 * EACH * np);
	IS(position(f), 0);
	IS(size_of(f), 5 + 12 * EACH * np);
	WORKS(MPI_File_read_at_all(f, 0, all, 3 * EACH * (np < 64 ? np : 64), MPI_INT, &st));
	for (int i = 0; i < EACH * np; i++) {
		int *t = all + 3 * i;

		records += t[0] == me && t[2] == me * 7919 + t[1];
		if (t[2] != t[0] * 7919 + t[1])
			is_wrong(__LINE__, "record %d is (%d, %d, %d)", i, t[0], t[1], t[2]);
	}
	IS(records, EACH);
	/* reading: each record comes to one rank */
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	int sums[2] = {0, 0}, total[2];
	for (;;) {
		int t[3];

		WORKS(MPI_File_read_shared(f, t, 3, MPI_INT, &st));
		if (count_of(&st, MPI_INT) != 3)
			break;
		sums[0]++;
		sums[1] += t[2];
	}
	MPI_Allreduce(sums, total, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	IS(total[0], EACH * np);
	IS(total[1], 7919 * EACH * np * (np - 1) / 2 + np * EACH * (EACH - 1) / 2);
	all_here();
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	/* ordered, with lengths that differ, some 0 */
	int at = 0, all_of = 0, v[64], back[64];
	for (int i = 0; i < 64; i++)
		v[i] = me * 100 + i;
	for (int rank = 0; rank < np; rank++) {
		at += rank < me ? (rank * 3 + 1) % 5 : 0;
		all_of += (rank * 3 + 1) % 5;
	}
	for (int kind = ORDERED; kind <= ORDERED_BEGIN; kind++) {
		int n = (me * 3 + 1) % 5;

		WORKS(MPI_File_seek_shared(f, 20 * kind, MPI_SEEK_SET));
		WORKS(access_file(kind, 1, f, 0, v, n, MPI_INT, &st));
		IS(count_of(&st, MPI_INT), n);
		IS(position_shared(f), 20 * kind + all_of);
		WORKS(MPI_File_read_at(f, 20 * kind + at, back, n, MPI_INT, &st));
		IS(memcmp(back, v, 4 * (size_t)n), 0);
		all_here();
		WORKS(MPI_File_seek_shared(f, -all_of, MPI_SEEK_CUR));
		memset(back, 0, sizeof(back));
		WORKS(access_file_c(kind, 0, f, 0, back, n, MPI_INT, &st));
		IS(count_of(&st, MPI_INT), n);
		IS(memcmp(back, v, 4 * (size_t)n), 0);
		/* an ordered access and one by the shared pointer in turns */
		all_here();
		WORKS(access_file(kind, 1, f, 0, v, 1, MPI_INT, &st));
		WORKS(access_file(SHARED, 1, f, 0, v, 1, MPI_INT, &st));
		WORKS(access_file(kind, 1, f, 0, v, 1, MPI_INT, &st));
		all_here();
		IS(position_shared(f), 20 * kind + all_of + 3 * np);
		all_here();
	}
	/* ordered reads that meet the end: those of lower ranks have their data */
	WORKS(MPI_File_set_size(f, 5 + 4 * (np * 2 - 1)));
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	WORKS(MPI_File_read_ordered(f, back, 2, MPI_INT, &st));
	IS(count_of(&st, MPI_INT), me == np - 1 ? 1 : 2);
	IS(position_shared(f), 2 * np);
	WORKS(MPI_File_close(&f));
}

/* Section 14.4.5 */
static void split(void)
{
	MPI_File f, g;
	MPI_Status st;
	MPI_Request r;
	char b[8] = "abcdefg", c[8], d[8];

	fresh("split");
	f = opened(MPI_COMM_WORLD, path, RW);
	g = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_write_at_all_begin(f, 8 * me, b, 8, MPI_CHAR));
	/* accesses that are not collective may go on, and one split collective of each file */
	WORKS(MPI_File_write_at(f, 8 * (np + me), b, 8, MPI_CHAR, &st));
	WORKS(MPI_File_iread_at(f, 8 * (np + me), c, 8, MPI_CHAR, &r));
	WORKS(MPI_File_write_all_begin(g, b, 0, MPI_CHAR));
	FAILS_OR(MPI_File_write_all_begin(f, b, 8, MPI_CHAR), MPI_ERR_REQUEST, MPI_ERR_IO);
	FAILS_OR(MPI_File_read_at_all(f, 0, c, 8, MPI_CHAR, &st), MPI_ERR_REQUEST, MPI_ERR_IO);
	FAILS_OR(MPI_File_read_all_end(f, b, &st), MPI_ERR_REQUEST, MPI_ERR_IO);
	WORKS(MPI_Wait(&r, &st));
	IS(memcmp(b, c, 8), 0);
	WORKS(MPI_File_write_all_end(g, b, &st));
	IS(count_of(&st, MPI_CHAR), 0);
	WORKS(MPI_File_write_at_all_end(f, b, &st));
	IS(count_of(&st, MPI_CHAR), 8);
	FAILS_OR(MPI_File_write_at_all_end(f, b, &st), MPI_ERR_REQUEST, MPI_ERR_IO);
	FAILS_OR(MPI_File_read_ordered_end(f, b, &st), MPI_ERR_REQUEST, MPI_ERR_IO);
	meet_file(f);
	WORKS(MPI_File_seek(f, 8 * ((me + 1) % np), MPI_SEEK_SET));
	WORKS(MPI_File_read_all_begin(f, d, 8, MPI_CHAR));
	/* the pointer has moved when the access has begun */
	IS(position(f), 8 * ((me + 1) % np) + 8);
	/* other collectives between, of communicators */
	MPI_Barrier(MPI_COMM_WORLD);
	WORKS(MPI_File_read_all_end(f, d, MPI_STATUS_IGNORE));
	IS(memcmp(b, d, 8), 0);
	WORKS(MPI_File_close(&g));
	WORKS(MPI_File_close(&f));
}

/* Nonblocking collectives of one file, several under way, completed in another order. */
static void nonblocking_collectives(void)
{
	enum { N = 6 };
	MPI_File f;
	MPI_Request r[N];
	MPI_Status st;
	static int v[N][500], back[N][500];
	MPI_Datatype t;

	fresh("nonblocking_collectives");
	f = opened(MPI_COMM_WORLD, path, RW);
	MPI_Type_create_resized(MPI_INT, 0, 4 * np, &t);
	MPI_Type_commit(&t);
	WORKS(MPI_File_set_view(f, 4 * me, MPI_INT, t, "native", MPI_INFO_NULL));
	for (int i = 0; i < N; i++) {
		for (int j = 0; j < 500; j++)
			v[i][j] = me * 100000 + i * 1000 + j;
		if (i % 2)
			WORKS(MPI_File_iwrite_all(f, v[i], 500, MPI_INT, r + i));
		else
			WORKS(MPI_File_iwrite_at_all(f, 500 * i, v[i], 500, MPI_INT, r + i));
		if (!(i % 2))
			WORKS(MPI_File_seek(f, 500 * i + 500, MPI_SEEK_SET));
	}
	for (int i = N - 1; i >= 0; i--) {
		WORKS(MPI_Wait(r + i, &st));
		IS(count_of(&st, MPI_INT), 500);
	}
	for (int i = 0; i < N; i++)
		WORKS(MPI_File_iread_at_all(f, 500 * i, back[i], 500, MPI_INT, r + i));
	WORKS(MPI_Waitall(N, r, MPI_STATUSES_IGNORE));
	IS(memcmp(v, back, sizeof(v)), 0);
	MPI_Type_free(&t);
	all_here();
	IS(size_of(f), 4LL * np * 500 * N);
	WORKS(MPI_File_close(&f));
}

/*
 * Section 14.6.1: atomic mode. All ranks write the same bytes of the file, in runs with gaps: the result is that of one of
 * them, as a whole; a reader has that of one.
 */
static void atomic(void)
{
	enum { RUNS = 150, LEN = 40 };
	static unsigned char b[RUNS * LEN], back[RUNS * LEN];
	MPI_File f;
	MPI_Status st;
	MPI_Datatype run, t;
	int flag = -1;

	fresh("atomic");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_get_atomicity(f, &flag));
	IS(flag, 0);
	int rc = MPI_File_set_atomicity(f, 1);
	if (rc != MPI_SUCCESS) {
		IS(class_of(rc), MPI_ERR_UNSUPPORTED_OPERATION);
		WORKS(MPI_File_close(&f));
		return;
	}
	WORKS(MPI_File_get_atomicity(f, &flag));
	IS(flag, 1);
	MPI_Type_vector(1, LEN, LEN, MPI_BYTE, &run);
	MPI_Type_create_resized(run, 0, LEN + 24, &t);
	MPI_Type_free(&run);
	MPI_Type_commit(&t);
	WORKS(MPI_File_set_view(f, 11, MPI_BYTE, t, "native", MPI_INFO_NULL));
	WORKS(MPI_File_get_atomicity(f, &flag));
	IS(flag, 1);
	for (int kind = 0; kind < SHARED; kind++)
		for (int round = 0; round < 4; round++) {
			memset(b, 1 + me + kind * 16 % 200, sizeof(b));
			WORKS(access_file(kind, 1, f, 0, b, sizeof(b), MPI_BYTE, &st));
			/* a reader between writers */
			int read_kind = is_collective(kind) ? AT : (kind + round) % 2 ? AT : POINTER;
			WORKS(access_file(read_kind, 0, f, 0, back, sizeof(b), MPI_BYTE, &st));
			for (size_t i = 1; i < sizeof(back); i++)
				if (back[i] != back[0]) {
					is_wrong(__LINE__, "write_%s: byte %zu is of rank %d, byte 0 of rank %d",
						 kind_names[kind], i, back[i] - 1, back[0] - 1);
					break;
				}
			all_here();
			memset(back, 0, sizeof(back));
			WORKS(access_file(kind, 0, f, 0, back, sizeof(b), MPI_BYTE, &st));
			for (size_t i = 1; i < sizeof(back); i++)
				if (back[i] != back[0]) {
					is_wrong(__LINE__, "read_%s: byte %zu is of rank %d, byte 0 of rank %d",
						 kind_names[kind], i, back[i] - 1, back[0] - 1);
					break;
				}
			all_here();
		}
	/* sequential consistency of two ranks: written data can be read after a message from the writer */
	if (np > 1) {
		int token = 0;

		for (int i = 0; i < 20; i++) {
			if (!me) {
				memset(b, i + 1, 64);
				WORKS(MPI_File_write_at(f, 5, b, 64, MPI_BYTE, &st));
				MPI_Send(&token, 1, MPI_INT, 1, i, MPI_COMM_WORLD);
				MPI_Recv(&token, 1, MPI_INT, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			} else if (me == 1) {
				MPI_Recv(&token, 1, MPI_INT, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
				WORKS(MPI_File_read_at(f, 5, back, 64, MPI_BYTE, &st));
				IS(back[0], i + 1);
				IS(back[63], i + 1);
				MPI_Send(&token, 1, MPI_INT, 0, i, MPI_COMM_WORLD);
			}
		}
	}
	/* shared and ordered accesses in atomic mode */
	all_here();
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	memset(b, me + 1, sizeof(b));
	for (int i = 0; i < 10; i++)
		WORKS(MPI_File_write_shared(f, b, 50, MPI_BYTE, &st));
	WORKS(MPI_File_write_ordered(f, b, 50, MPI_BYTE, &st));
	all_here();
	for (int i = 0; i < 11 * np; i++) {
		WORKS(MPI_File_read_at(f, 50 * i, back, 50, MPI_BYTE, &st));
		for (int j = 1; j < 50; j++)
			IS(back[j], back[0]);
		if (i >= 10 * np)
			IS(back[0], i - 10 * np + 1);
	}
	if (np > 1)
		TRUE_THAT(MPI_File_set_atomicity(f, me % 2) != MPI_SUCCESS);
	WORKS(MPI_File_set_atomicity(f, 0));
	WORKS(MPI_File_get_atomicity(f, &flag));
	IS(flag, 0);
	MPI_Type_free(&t);
	WORKS(MPI_File_close(&f));
}

/* Section 14.6.4: sync, barrier, sync; closing and opening again */
static void sync_barrier_sync(void)
{
	MPI_File f;
	MPI_Status st;
	int v, back;

	fresh("sync");
	for (int i = 0; i < 10; i++) {
		f = opened(MPI_COMM_WORLD, path, RW);
		v = 100 * i + me;
		WORKS(MPI_File_write_at(f, 4 * me, &v, 1, MPI_INT, &st));
		meet_file(f);
		WORKS(MPI_File_read_at(f, 4 * ((me + 1) % np), &back, 1, MPI_INT, &st));
		IS(back, 100 * i + (me + 1) % np);
		all_here();
		v += 50;
		WORKS(MPI_File_write_at(f, 4 * me, &v, 1, MPI_INT, &st));
		WORKS(MPI_File_close(&f));
		all_here();
		f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDONLY);
		WORKS(MPI_File_read_at_all(f, 4 * ((me + 1) % np), &back, 1, MPI_INT, &st));
		IS(back, 100 * i + 50 + (me + 1) % np);
		WORKS(MPI_File_close(&f));
		all_here();
	}
}

/* Offsets of more than 2^31 and 2^32 bytes in a sparse file; a filetype with such an extent. */
static void far(void)
{
	MPI_File f;
	MPI_Status st;
	MPI_Datatype t;
	MPI_Offset byte;
	MPI_Aint extent;
	long long v[3], back[3];

	fresh("far");
	f = opened(MPI_COMM_WORLD, path, RW);
	for (int kind = 0; kind < N_KINDS; kind++) {
		MPI_Offset at = (5LL << 32) + 24 * me + 1000 * kind;

		if (is_shared(kind)) {
			WORKS(MPI_File_seek_shared(f, at - 24 * me, MPI_SEEK_SET));
			IS(position_shared(f), at - 24 * me);
			all_here();
		}
		v[0] = v[1] = v[2] = at;
		WORKS(access_file(kind, 1, f, at, v, 3, MPI_LONG_LONG, &st));
		IS(count_of(&st, MPI_LONG_LONG), 3);
		all_here();
		if (is_shared(kind))
			WORKS(MPI_File_seek_shared(f, at - 24 * me, MPI_SEEK_SET));
		WORKS(access_file(kind, 0, f, at, back, 3, MPI_LONG_LONG, &st));
		if (!is_shared(kind) || kind >= ORDERED)
			IS(back[1], at);
		all_here();
	}
	IS(size_of(f), (5LL << 32) + 24 * np + 1000 * ORDERED_BEGIN);
	WORKS(MPI_File_set_size(f, 7LL << 40));
	IS(size_of(f), 7LL << 40);
	WORKS(MPI_File_seek(f, -1, MPI_SEEK_END));
	IS(position(f), (7LL << 40) - 1);
	WORKS(MPI_File_set_size(f, 0));
	/* 16 Ki elements of 2^30 bytes of extent */
	MPI_Type_create_resized(MPI_LONG_LONG, 0, 1LL << 33, &t);
	MPI_Type_commit(&t);
	WORKS(MPI_File_set_view(f, 8 * me + (3LL << 31), MPI_LONG_LONG, t, "native", MPI_INFO_NULL));
	for (int kind = 0; kind < SHARED; kind++) {
		v[0] = kind;
		v[1] = me;
		v[2] = 77;
		WORKS(access_file(kind, 1, f, 1, v, 3, MPI_LONG_LONG, &st));
		memset(back, 0, sizeof(back));
		WORKS(access_file(kind, 0, f, 1, back, 3, MPI_LONG_LONG, &st));
		IS(memcmp(v, back, sizeof(v)), 0);
	}
	WORKS(MPI_File_get_byte_offset(f, 1000, &byte));
	IS(byte, 8 * me + (3LL << 31) + (1000LL << 33));
	WORKS(MPI_File_get_type_extent(f, t, &extent));
	IS(extent, 1LL << 33);
	all_here();
	IS(size_of(f), (3LL << 31) + (3LL << 33) + 8 * np);
	MPI_Type_free(&t);
	WORKS(MPI_File_set_size(f, 0));
	WORKS(MPI_File_close(&f));
}

static const struct io_case cases[] = {
	{"14.4", "every_kind", every_kind},
	{"14.4", "requests", requests},
	{"14.4.4", "shared", shared},
	{"14.4.5", "split", split},
	{"14.4.2", "nonblocking_collectives", nonblocking_collectives},
	{"14.6.1", "atomic", atomic},
	{"14.6.4", "sync_barrier_sync", sync_barrier_sync},
	{"14.2.4", "far", far},
};

int main(int argc, char **argv)
{
	return io_run("io_standard_access", cases, N_CASES(cases), argc, argv);
}
