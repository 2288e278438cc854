/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files: the shared pointer right behind MPI_File_open, hints that change during an access, offsets and pointers beyond the
 * largest, arguments and locks in atomic mode, representations without bytes, long striping units, filetypes of extent 0,
 * filetypes of 2^36 runs, errors of MPI_File_close, the limit of file sizes, working directories without a path, files that
 * cannot be synchronized, accesses that wait for a lock. Any number of ranks.
 *
 *     io_corners DIRECTORY [CASE]
 */
#include "io_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[512];

static MPI_File open_file(MPI_Comm comm, const char *name)
{
	MPI_File f;

	WORKS(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
	return f;
}

static MPI_Info info_of(const char *key, const char *value)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, key, value);
	return info;
}

static void set_hint(MPI_File f, const char *key, const char *value)
{
	MPI_Info info = info_of(key, value);

	WORKS(MPI_File_set_info(f, info));
	MPI_Info_free(&info);
}

static long long hint_of(MPI_File f, const char *key)
{
	MPI_Info info;
	char value[64];
	int len = sizeof(value), flag;

	WORKS(MPI_File_get_info(f, &info));
	MPI_Info_get_string(info, key, &len, value, &flag);
	CHECK(flag);
	MPI_Info_free(&info);
	return atoll(value);
}

/* Each rank uses the shared pointer as soon as MPI_File_open returns; rank 0 comes last. */
static void test_open_shared(void)
{
	MPI_Offset at;
	int turn = 0;

	for (int i = 0; i < 50; i++) {
		MPI_File f = open_file(MPI_COMM_WORLD, path);

		if (me)
			WORKS(MPI_File_write_shared(f, &turn, 1, MPI_INT, MPI_STATUS_IGNORE));
		meet(sync_comm);
		WORKS(MPI_File_get_position_shared(f, &at));
		CHECK_EQ(at, (np - 1) * (MPI_Offset)sizeof(int));
		WORKS(MPI_File_close(&f));
	}
}

/* Hints that change while collective accesses are under way do not change the plan of those. */
static void test_hints_meanwhile(void)
{
	enum { N = 1000, ACCESSES = 4 };
	static int v[ACCESSES][N], w[N];
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Datatype filetype;
	MPI_Request r[ACCESSES];

	MPI_Type_create_resized(MPI_INT, 0, np * (MPI_Aint)sizeof(int), &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, me * (MPI_Offset)sizeof(int), MPI_INT, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	for (int round = 0; round < 64; round++) {
		for (int k = 0; k < ACCESSES; k++) {
			for (int i = 0; i < N; i++)
				v[k][i] = 100000 * k + 10000 * me + i;
			WORKS(MPI_File_iwrite_at_all(f, k * N, v[k], N, MPI_INT, &r[k]));
		}
		/* processes that wait for this one make progress with their accesses */
		if (me == round % np)
			usleep(1000);
		set_hint(f, "collective_buffering", round & 1 ? "false" : "true");
		set_hint(f, "cb_nodes", round & 2 ? "1" : "2");
		set_hint(f, "cb_buffer_size", round & 4 ? "4096" : "8192");
		set_hint(f, "striping_unit", round & 1 ? "512" : "8192");
		WORKS(MPI_Waitall(ACCESSES, r, MPI_STATUSES_IGNORE));
		meet(sync_comm);
		for (int k = 0; k < ACCESSES; k++) {
			WORKS(MPI_File_read_at(f, k * N, w, N, MPI_INT, MPI_STATUS_IGNORE));
			CHECK(!memcmp(v[k], w, sizeof(w)));
		}
		meet(sync_comm);
	}
	WORKS(MPI_File_close(&f));
}

/* No access, pointer or byte offset leads beyond the largest offset, and none is an endless loop, an allocation or a signal. */
static void test_beyond(void)
{
	static const MPI_Offset far[] = {(MPI_Offset)1 << 40, (MPI_Offset)1 << 60, ((MPI_Offset)1 << 62) + 3, INT64_MAX / 4 - 1,
					 INT64_MAX / 4};
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Datatype filetype;
	MPI_Offset at;
	MPI_Request r;
	int v = 7, rc;

	MPI_Type_create_resized(MPI_INT, 0, 1 << 30, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
	MPI_Type_free(&filetype);
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		FAILS(MPI_File_write_at(f, far[i], &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
		FAILS(MPI_File_write_at_all(f, far[i], &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
		FAILS(MPI_File_read_at_all(f, far[i], &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
		FAILS(MPI_File_iread_at(f, far[i], &v, 1, MPI_INT, &r), MPI_ERR_ARG);
		FAILS(MPI_File_get_byte_offset(f, far[i], &at), MPI_ERR_ARG);
	}
	WORKS(MPI_File_write_at(f, far[0], &v, 0, MPI_INT, MPI_STATUS_IGNORE));
	WORKS(MPI_File_seek(f, INT64_MAX / 4, MPI_SEEK_SET));
	FAILS(MPI_File_write(f, &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	/* one process's offset: all processes return */
	FAILS(MPI_File_write_at_all(f, me ? 0 : far[1], &v, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	/* contiguous, with a displacement: the sum has no representation */
	WORKS(MPI_File_set_view(f, 1000, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	FAILS(MPI_File_write_at(f, INT64_MAX - 999, &v, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	FAILS(MPI_File_write_at_all(f, INT64_MAX - 999, &v, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	FAILS(MPI_File_get_byte_offset(f, INT64_MAX - 999, &at), MPI_ERR_ARG);
	WORKS(MPI_File_get_byte_offset(f, INT64_MAX - 1000, &at));
	CHECK_EQ(at, INT64_MAX);
	/* the largest offset may be named; few file systems have it */
	set_hint(f, "collective_buffering", "true");
	set_hint(f, "striping_unit", "1000000007");
	WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	rc = MPI_File_write_at_all(f, INT64_MAX - 4 * np + 4 * me, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE);
	CHECK(rc == MPI_SUCCESS || class_of(rc) == MPI_ERR_IO);
	WORKS(MPI_File_close(&f));
}

static void at_shared(MPI_File f, MPI_Offset wanted)
{
	MPI_Offset at;

	meet(sync_comm);
	WORKS(MPI_File_get_position_shared(f, &at));
	CHECK_EQ(at, wanted);
	meet(sync_comm);
}

/* An access that would move the shared pointer beyond the largest offset is refused, and leaves the pointer where it is. */
static void test_shared_beyond(void)
{
	static const MPI_Offset end = INT64_MAX - 2;
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Request r;
	int v = 7;

	WORKS(MPI_File_seek_shared(f, end, MPI_SEEK_SET));
	FAILS(MPI_File_write_shared(f, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	at_shared(f, end);
	FAILS(MPI_File_iread_shared(f, &v, 4, MPI_BYTE, &r), MPI_ERR_ARG);
	at_shared(f, end);
	FAILS(MPI_File_write_ordered(f, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	at_shared(f, end);
	WORKS(MPI_File_seek_shared(f, -end, MPI_SEEK_CUR));
	/* the sum of all processes' data has no representation: modulo 2^64 it is 8 */
	if (np > 2)
		FAILS(MPI_File_write_ordered_c(f, &v, me < 2 ? INT64_MAX : me == 2 ? 10 : 0, MPI_BYTE, MPI_STATUS_IGNORE),
		      MPI_ERR_ARG);
	at_shared(f, 0);
	WORKS(MPI_File_write_ordered(f, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE));
	at_shared(f, 4 * np);
	WORKS(MPI_File_close(&f));
}

/* In atomic mode, too, a collective with arguments that one process has wrong fails at all processes, and nothing is written. */
static void test_atomic_arguments(void)
{
	MPI_Offset at = me == np - 1 ? -1 : 4 * me, size;
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Request r;
	int v = 7;

	WORKS(MPI_File_set_atomicity(f, 1));
	FAILS(MPI_File_write_at_all(f, at, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	WORKS(MPI_File_iwrite_at_all(f, at, &v, 4, MPI_BYTE, &r));
	FAILS(MPI_Wait(&r, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	WORKS(MPI_File_write_at_all_begin(f, at, &v, 4, MPI_BYTE));
	FAILS(MPI_File_write_at_all_end(f, &v, MPI_STATUS_IGNORE), MPI_ERR_ARG);
	WORKS(MPI_File_get_size(f, &size));
	CHECK_EQ(size, 0);
	meet(sync_comm);
	WORKS(MPI_File_write_at_all(f, 4 * me, &v, 4, MPI_BYTE, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
}

/* In atomic mode collective accesses respect locks of ranges, also with collective_buffering: two phases would not. Rank 0 locks
 * the file by a descriptor of its own. */
static void test_atomic_locked(void)
{
	enum { TURNS = 50 };
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Request r;
	int fd = -1, v = 7, done = 0;
	char byte = 0;

	set_hint(f, "collective_buffering", "true");
	WORKS(MPI_File_set_atomicity(f, 1));
	WORKS(MPI_File_set_size(f, 4 * np));
	if (!me) {
		fd = open(path, O_RDWR);
		CHECK(fd >= 0 && !fcntl(fd, F_OFD_SETLK, &all));
	}
	meet(sync_comm);
	WORKS(MPI_File_iwrite_at_all(f, 4 * me, &v, 4, MPI_BYTE, &r));
	for (int i = 0; i < TURNS && !done; i++, usleep(1000))
		WORKS(MPI_Test(&r, &done, MPI_STATUS_IGNORE));
	CHECK(!done);
	meet(sync_comm);
	if (!me) {
		CHECK(pread(fd, &byte, 1, 0) == 1 && !byte);
		close(fd);
	}
	WORKS(MPI_Wait(&r, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
}

/* ---- representations with unknown extents ------------------------------------------------------------------------- */

static int extent_code, extent_bytes;

static int extent_fn(MPI_Datatype type, MPI_Aint *extent, void *state)
{
	(void)type;
	(void)state;
	*extent = extent_bytes;
	return extent_code;
}

static void test_extents(void)
{
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Aint extent;
	MPI_Offset at;
	int v[2] = { 1, 2 };

	WORKS(MPI_Register_datarep("no bytes", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_fn, NULL));
	FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "no bytes", MPI_INFO_NULL), MPI_ERR_CONVERSION);
	extent_bytes = 4;
	extent_code = MPI_ERR_OTHER;
	FAILS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "no bytes", MPI_INFO_NULL), MPI_ERR_CONVERSION);
	extent_code = MPI_SUCCESS;
	WORKS(MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "no bytes", MPI_INFO_NULL));
	/* the function fails later */
	extent_code = MPI_ERR_OTHER;
	FAILS(MPI_File_write_at(f, 0, v, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION);
	FAILS(MPI_File_get_type_extent(f, MPI_DOUBLE, &extent), MPI_ERR_CONVERSION);
	extent_code = MPI_SUCCESS;
	WORKS(MPI_File_seek(f, 3, MPI_SEEK_SET));
	WORKS(MPI_File_get_byte_offset(f, 1, &at));
	CHECK_EQ(at, 4);
	WORKS(MPI_File_close(&f));
}

/* ---- collective buffering ---------------------------------------------------------------------------------------- */

/* A striping unit that is longer than the data: one round, and one file domain with data. */
static void test_striping(void)
{
	MPI_Info info = info_of("collective_buffering", "true");
	MPI_File f;
	int v[100], w[100];

	MPI_Info_set(info, "striping_unit", "1099511627776");
	MPI_Info_set(info, "cb_buffer_size", "4096");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
	MPI_Info_free(&info);
	CHECK_EQ(hint_of(f, "cb_buffer_size"), 4096);
	for (int i = 0; i < 100; i++)
		v[i] = 1000 * me + i;
	WORKS(MPI_File_write_at_all(f, me * (MPI_Offset)sizeof(v), v, 100, MPI_INT, MPI_STATUS_IGNORE));
	WORKS(MPI_File_read_at_all(f, me * (MPI_Offset)sizeof(v), w, 100, MPI_INT, MPI_STATUS_IGNORE));
	CHECK(!memcmp(v, w, sizeof(v)));
	/* values that no memory has are reduced, as get_info tells */
	set_hint(f, "cb_buffer_size", "1152921504606846976");
	set_hint(f, "striping_unit", "2305843009213693951");
	set_hint(f, "ind_rd_buffer_size", "1152921504606846976");
	CHECK(hint_of(f, "cb_buffer_size") <= 1 << 30);
	CHECK(hint_of(f, "ind_rd_buffer_size") <= 1 << 30);
	WORKS(MPI_File_write_at_all(f, me * (MPI_Offset)sizeof(v), v, 100, MPI_INT, MPI_STATUS_IGNORE));
	WORKS(MPI_File_read_at_all(f, me * (MPI_Offset)sizeof(v), w, 100, MPI_INT, MPI_STATUS_IGNORE));
	CHECK(!memcmp(v, w, sizeof(v)));
	WORKS(MPI_File_close(&f));
}

/* All copies of such a filetype are at one place. */
static void test_no_extent(void)
{
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Datatype filetype;
	MPI_Offset at;

	MPI_Type_create_resized(MPI_INT, 0, 0, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_size(f, 1000));
	FAILS(MPI_File_set_view(f, 0, MPI_INT, filetype, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
	MPI_Type_free(&filetype);
	WORKS(MPI_File_seek(f, 0, MPI_SEEK_END));
	WORKS(MPI_File_get_position(f, &at));
	CHECK_EQ(at, 1000);
	WORKS(MPI_File_close(&f));
}

/* No call takes a step for each run of a filetype: here one element has 2^36 of them. */
static void test_long_tile(void)
{
	enum { RUN = 3, COUNT = 3002 };
	const MPI_Offset far = (MPI_Offset)1 << 30;	/* ints; far + COUNT is a whole number of runs */
	const MPI_Count runs = (MPI_Count)1 << 36;
	MPI_File f = open_file(MPI_COMM_WORLD, path);
	MPI_Datatype filetype;
	MPI_Status status;
	MPI_Offset at;
	static int out[COUNT], in[COUNT];
	int n;

	/* file domains begin within runs, and so do the accesses */
	MPI_Type_vector_c(runs, RUN, RUN * np, MPI_INT, &filetype);
	MPI_Type_commit(&filetype);
	for (int always = 0; always < 2; always++) {
		set_hint(f, "collective_buffering", always ? "true" : "automatic");
		WORKS(MPI_File_set_view(f, me * (MPI_Offset)(RUN * sizeof(int)), MPI_INT, filetype, "native", MPI_INFO_NULL));
		for (int i = 0; i < COUNT; i++)
			out[i] = 100000 * me + i + always;
		WORKS(MPI_File_write_at_all(f, far, out, COUNT, MPI_INT, MPI_STATUS_IGNORE));
		meet_file(f);
		WORKS(MPI_File_seek(f, 0, MPI_SEEK_END));
		WORKS(MPI_File_get_position(f, &at));
		CHECK_EQ(at, far + COUNT);
		WORKS(MPI_File_read_at_all(f, far, in, COUNT, MPI_INT, &status));
		MPI_Get_count(&status, MPI_INT, &n);
		CHECK_EQ(n, COUNT);
		CHECK(!memcmp(in, out, sizeof(in)));
		WORKS(MPI_File_read_at_all(f, far - 25, in, COUNT, MPI_INT, &status));
		CHECK(!in[0] && !memcmp(in + 25, out, (COUNT - 25) * sizeof(int)));
	}
	WORKS(MPI_File_close(&f));
	MPI_Type_free(&filetype);
}

/* ---- what the system refuses ---------------------------------------------------------------------------------------- */

/* The limit of file sizes (ulimit -f) is an error of the call, and no signal to the process. */
static void test_size_limit(void)
{
	enum { LIMIT = 1 << 20 };
	static char data[2 * LIMIT];
	MPI_Datatype filetype;
	struct rlimit was, limit;
	MPI_Request req;
	MPI_Status status;
	char own[600];
	MPI_File f;
	int n;

	CHECK(!getrlimit(RLIMIT_FSIZE, &was));
	limit = was;
	limit.rlim_cur = LIMIT;
	snprintf(own, sizeof(own), "%s.%d", path, me);
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	f = open_file(MPI_COMM_SELF, own);
	WORKS(MPI_File_write_at(f, LIMIT - 10, data, 10, MPI_BYTE, MPI_STATUS_IGNORE));
	FAILS(MPI_File_write_at(f, 0, data, sizeof(data), MPI_BYTE, &status), MPI_ERR_IO);
	MPI_Get_count(&status, MPI_BYTE, &n);
	CHECK_EQ(n, LIMIT);
	FAILS(MPI_File_write_at(f, LIMIT, data, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
	WORKS(MPI_File_iwrite_at(f, LIMIT - 10, data, 20, MPI_BYTE, &req));
	FAILS(MPI_Wait(&req, MPI_STATUS_IGNORE), MPI_ERR_IO);
	FAILS(MPI_File_write_at_all(f, LIMIT - 10, data, 20, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
	FAILS(MPI_File_set_size(f, LIMIT + 1), MPI_ERR_IO);
	FAILS(MPI_File_preallocate(f, LIMIT + 1), MPI_ERR_IO);
	WORKS(MPI_File_set_size(f, LIMIT));
	WORKS(MPI_File_preallocate(f, LIMIT));
	/* short runs, which are written through a mapping */
	MPI_Type_vector(100, 4, 50, MPI_BYTE, &filetype);
	MPI_Type_commit(&filetype);
	WORKS(MPI_File_set_view(f, LIMIT - 1000, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
	FAILS(MPI_File_write_at(f, 0, data, 400, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
	CHECK(!setrlimit(RLIMIT_FSIZE, &was));
	WORKS(MPI_File_write_at(f, 0, data, 400, MPI_BYTE, MPI_STATUS_IGNORE));
	WORKS(MPI_File_close(&f));
	MPI_Type_free(&filetype);
	CHECK(!unlink(own));
}

/* A run that was ended early may have left the directory. */
static void make_and_enter(const char *dir)
{
	CHECK((!mkdir(dir, 0700) || errno == EEXIST) && !chdir(dir));
}

/* The path of the working directory may be unknown, longer than the system allows, or lead through directories that this user
 * may not search; a relative name needs none of it. */
static void test_directories(void)
{
	char dir[600], name[252], up[1024], was[4096];
	MPI_File f;
	int depth;

	CHECK(getcwd(was, sizeof(was)));
	snprintf(dir, sizeof(dir), "%s.%d.dir", path, me);
	make_and_enter(dir);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (depth = 0; depth < 20; depth++)
		make_and_enter(name);
	unlink("file");
	WORKS(MPI_File_open(MPI_COMM_SELF, "file", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
			    &f));
	CHECK(!access("file", F_OK));
	WORKS(MPI_File_close(&f));
	CHECK(access("file", F_OK));
	while (depth--)
		CHECK(!chdir("..") && !rmdir(name));
	CHECK(!rmdir(dir));
	FAILS(MPI_File_open(MPI_COMM_SELF, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_NO_SUCH_FILE);
	CHECK(!chdir(was));
	/* root may search any directory */
	if (!geteuid())
		return;
	snprintf(up, sizeof(up), "%s/in", dir);
	CHECK(!mkdir(dir, 0700) && !mkdir(up, 0700) && !chdir(up) && !chmod(dir, 0));
	WORKS(MPI_File_open(MPI_COMM_SELF, "file", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
	WORKS(MPI_File_close(&f));
	CHECK(!unlink("file") && !chmod(dir, 0700) && !chdir(was) && !rmdir(up) && !rmdir(dir));
}

/* Devices have nothing to write back. */
static void test_sync_device(void)
{
	MPI_File f;

	WORKS(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &f));
	WORKS(MPI_File_write_at_all(f, me, "a", 1, MPI_CHAR, MPI_STATUS_IGNORE));
	WORKS(MPI_File_sync(f));
	WORKS(MPI_File_close(&f));
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

static MPI_File handled_file;
static int handled, handled_class;

static void handler(MPI_File *f, int *code, ...)
{
	MPI_Group group;

	handled_file = *f;
	handled++;
	MPI_Error_class(*code, &handled_class);
	/* the handle is still the file's */
	WORKS(MPI_File_get_group(*f, &group));
	MPI_Group_free(&group);
}

/* Closes the descriptor that the library has of the file. */
static void close_descriptor(void)
{
	char link[64], name[600];
	int closed = 0;

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, name, sizeof(name) - 1);
		if (n < 0)
			continue;
		name[n] = 0;
		if (!strcmp(name, path))
			closed += !close(fd);
	}
	CHECK_EQ(closed, 1);
}

/* close(2) fails at the last rank: all ranks know, by the file's error handler. */
static void test_close(void)
{
	MPI_File f = open_file(MPI_COMM_WORLD, path), was = f;
	MPI_Errhandler mine;

	MPI_File_create_errhandler(handler, &mine);
	WORKS(MPI_File_set_errhandler(f, mine));
	MPI_Errhandler_free(&mine);
	if (me == np - 1)
		close_descriptor();
	FAILS(MPI_File_close(&f), MPI_ERR_ACCESS);
	CHECK(f == MPI_FILE_NULL);
	CHECK(handled == 1 && handled_file == was && handled_class == MPI_ERR_ACCESS);
	/* another process has deleted the file: an error of rank 0 */
	WORKS(MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f));
	meet(sync_comm);
	if (me == np - 1)
		unlink(path);
	meet(sync_comm);
	FAILS(MPI_File_close(&f), MPI_ERR_NO_SUCH_FILE);
	CHECK(f == MPI_FILE_NULL);
	/* the error's text names a remedy */
	if (!me) {
		char text[MPI_MAX_ERROR_STRING];
		int len, code = MPI_File_delete(path, MPI_INFO_NULL);

		FAILS(code, MPI_ERR_NO_SUCH_FILE);
		MPI_Error_string(code, text, &len);
		CHECK(strstr(text, path) && !strstr(text, "MPI_MODE_"));
		code = MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f);
		MPI_Error_string(code, text, &len);
		CHECK(strstr(text, "MPI_MODE_CREATE"));
	}
	meet(sync_comm);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* An access that waits for a lock keeps no other one waiting, not even one that begins at once behind. One CPU, and
 * SCHED_BATCH, by which a thread that is woken does not run ahead of the one that wakes it: both accesses are there when an
 * I/O thread comes to run. */
static void test_blocked(void)
{
	const struct sched_param none = { 0 };
	cpu_set_t all, one;
	char other[600], own[600];
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100 };
	MPI_File f, g;
	MPI_Request locked, plain;
	char c[4] = "abc", d[4];
	int fd;

	snprintf(own, sizeof(own), "%s.%d", path, me);
	snprintf(other, sizeof(other), "%s.%d.other", path, me);
	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	sched_setscheduler(0, SCHED_BATCH, &none);
	f = open_file(MPI_COMM_SELF, own);
	g = open_file(MPI_COMM_SELF, other);
	WORKS(MPI_File_set_atomicity(f, 1));
	fd = open(own, O_RDWR);
	CHECK(fd >= 0);
	for (int i = 0; i < 20; i++) {
		/* an I/O thread is idle behind this */
		WORKS(MPI_File_iwrite_at(g, 0, c, 3, MPI_CHAR, &plain));
		WORKS(MPI_Wait(&plain, MPI_STATUS_IGNORE));
		l.l_type = F_WRLCK;
		CHECK(!fcntl(fd, F_OFD_SETLKW, &l));
		WORKS(MPI_File_iread_at(f, 0, d, 3, MPI_CHAR, &locked));
		WORKS(MPI_File_iwrite_at(g, 0, c, 3, MPI_CHAR, &plain));
		WORKS(MPI_Wait(&plain, MPI_STATUS_IGNORE));
		l.l_type = F_UNLCK;
		CHECK(!fcntl(fd, F_OFD_SETLKW, &l));
		WORKS(MPI_Wait(&locked, MPI_STATUS_IGNORE));
	}
	close(fd);
	WORKS(MPI_File_close(&f));
	WORKS(MPI_File_close(&g));
	unlink(own);
	unlink(other);
	sched_setscheduler(0, SCHED_OTHER, &none);
	CHECK(!sched_setaffinity(0, sizeof(all), &all));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "blocked", test_blocked }, { "open_shared", test_open_shared }, { "hints_meanwhile", test_hints_meanwhile },
	{ "beyond", test_beyond }, { "shared_beyond", test_shared_beyond }, { "atomic_arguments", test_atomic_arguments },
	{ "atomic_locked", test_atomic_locked }, { "extents", test_extents }, { "striping", test_striping },
	{ "no_extent", test_no_extent }, { "long_tile", test_long_tile }, { "size_limit", test_size_limit },
	{ "directories", test_directories }, { "sync_device", test_sync_device }, { "close", test_close },
};

int main(int argc, char **argv)
{
	char *dir;

	test_init(&argc, &argv);
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	/* as the names in /proc are */
	CHECK((dir = realpath(argv[1], NULL)));
	snprintf(path, sizeof(path), "%s/io_corners", dir);
	free(dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (argc < 3 || !strcmp(argv[2], cases[i].name)) {
			cases[i].run();
			meet(sync_comm);
			if (!me)
				unlink(path);
			meet(sync_comm);
		}
	test_done("io_corners");
	return 0;
}
