/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Disturbances: special files, descriptors that are closed or run out, hints without sense, threads, stopped ranks. io_standard.h
 */
#define _GNU_SOURCE
#include "io_standard_kinds.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* All ranks write and read back through views that interleave, by all collective forms. */
static void exercise(int line, MPI_File f)
{
	enum { N = 300 };
	MPI_Status st;
	MPI_Datatype t;
	int v[N], back[N];

	MPI_Type_create_resized(MPI_INT, 0, 4 * np, &t);
	MPI_Type_commit(&t);
	if (MPI_File_set_view(f, 4 * me, MPI_INT, t, "native", MPI_INFO_NULL))
		is_wrong(line, "MPI_File_set_view fails");
	for (int kind = 0; kind < SHARED; kind++) {
		int rc;

		for (int i = 0; i < N; i++)
			v[i] = kind * 100000 + me * 1000 + i;
		rc = access_file(kind, 1, f, 0, v, N, MPI_INT, &st);
		if (rc || count_of(&st, MPI_INT) != N)
			is_wrong(line, "write_%s: %s", kind_names[kind], error_text(rc));
		memset(back, 0, sizeof(back));
		rc = access_file(kind, 0, f, 0, back, N, MPI_INT, &st);
		if (rc || count_of(&st, MPI_INT) != N || memcmp(v, back, sizeof(v)))
			is_wrong(line, "read_%s: %s", kind_names[kind], rc ? error_text(rc) : "wrong data");
	}
	MPI_Type_free(&t);
}

static void hints(void)
{
	static const char *const keys[] = {"cb_buffer_size",       "cb_nodes",
					   "striping_unit",        "striping_factor",
					   "ind_rd_buffer_size",   "ind_wr_buffer_size",
					   "collective_buffering", "cb_block_size",
					   "access_style",         "chunked",
					   "num_io_nodes",         "io_node_list",
					   "cb_config_list",       "romio_cb_write"};
	static const char *const values[] = {
		"1",     "0",   "-1", "4097", "99999999999999999999", "9223372036854775807", "0x10", "1e3", "true",
		"false", " 7 ", "",   "TRUE"};
	MPI_File f;

	for (int k = 0; k < (int)(sizeof(keys) / sizeof(keys[0])); k++)
		for (int v = 0; v < (int)(sizeof(values) / sizeof(values[0])); v++) {
			MPI_Info info;

			if (!*values[v])
				continue;
			info = info_of(keys[k], values[v]);
			fresh("hints");
			WORKS(MPI_File_open(MPI_COMM_WORLD, path, RW, info, &f));
			if ((k + v) % 3 == 0 || v < 2)
				exercise(__LINE__, f);
			WORKS(MPI_File_set_info(f, info));
			if (v < 5 && k < 7) {
				MPI_Info other;

				exercise(__LINE__, f);
				WORKS(MPI_File_get_info(f, &other));
				WORKS(MPI_File_set_info(f, other));
				MPI_Info_free(&other);
			}
			WORKS(MPI_File_close(&f));
			MPI_Info_free(&info);
		}
}

/* Directories, pipes and devices: an error or access to the special file, and no rank waits for ever. */
static void special_files(void)
{
	static const int access[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR};
	MPI_File f;
	MPI_Status st;
	char pipe[800], b[16] = "0123456789";

	snprintf(pipe, sizeof(pipe), "%s/pipe", dir);
	all_here();
	if (!me)
		IS(mkfifo(pipe, 0600), 0);
	all_here();
	for (int i = 0; i < 3; i++) {
		TRUE_THAT(MPI_File_open(MPI_COMM_WORLD, dir, access[i], MPI_INFO_NULL, &f) != MPI_SUCCESS);
		TRUE_THAT(MPI_File_open(MPI_COMM_WORLD, pipe, access[i], MPI_INFO_NULL, &f) != MPI_SUCCESS);
		TRUE_THAT(MPI_File_open(MPI_COMM_WORLD, "/", access[i], MPI_INFO_NULL, &f) != MPI_SUCCESS);
		if (MPI_File_open(MPI_COMM_WORLD, "/dev/null", access[i], MPI_INFO_NULL, &f) == MPI_SUCCESS) {
			if (i)
				MPI_File_write_all(f, b, 10, MPI_CHAR, &st);
			WORKS(MPI_File_close(&f));
		}
		if (MPI_File_open(MPI_COMM_WORLD, "/dev/full", access[i], MPI_INFO_NULL, &f) == MPI_SUCCESS) {
			if (i) {
				FAILS(MPI_File_write_at(f, 0, b, 10, MPI_CHAR, &st), MPI_ERR_NO_SPACE);
				FAILS(MPI_File_write_at_all(f, 10 * me, b, 10, MPI_CHAR, &st), MPI_ERR_NO_SPACE);
			}
			WORKS(MPI_File_close(&f));
		}
	}
	/* one rank alone sees a file */
	if (np > 1) {
		char mine[900];

		snprintf(mine, sizeof(mine), "%s/%s", dir, me == np - 1 ? "no_such_directory/x" : "one_alone");
		TRUE_THAT(MPI_File_open(MPI_COMM_WORLD, mine, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &f) !=
			  MPI_SUCCESS);
	}
	all_here();
	if (!me)
		unlink(pipe);
}

static int open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Descriptors that run out on one rank: all ranks get the error, and the failed call leaks no descriptor. */
static void limit_descriptors(void)
{
	enum { MAX = 40 };
	MPI_File f[MAX], g;
	struct rlimit old, low;
	int n = 0, before, rc;

	fresh("limit_descriptors");
	g = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_close(&g));
	before = open_descriptors();
	getrlimit(RLIMIT_NOFILE, &old);
	low = old;
	low.rlim_cur = (rlim_t)before + 10;
	all_here();
	if (me == np - 1)
		setrlimit(RLIMIT_NOFILE, &low);
	while (n < MAX) {
		rc = MPI_File_open(MPI_COMM_WORLD, path, RW, MPI_INFO_NULL, f + n);
		if (rc)
			break;
		n++;
	}
	TRUE_THAT(rc != MPI_SUCCESS);
	TRUE_THAT(n > 2 && n < MAX);
	IS(f[n] == MPI_FILE_NULL, 1);
	TRUE_THAT(MPI_File_open(MPI_COMM_WORLD, path, RW, MPI_INFO_NULL, &g) != MPI_SUCCESS);
	setrlimit(RLIMIT_NOFILE, &old);
	g = opened(MPI_COMM_WORLD, path, RW);
	exercise(__LINE__, g);
	WORKS(MPI_File_close(&g));
	while (n--)
		WORKS(MPI_File_close(f + n));
	IS(open_descriptors(), before);
}

/* RLIMIT_FSIZE on one rank, SIGXFSZ ignored: an error, and the part below the limit can be written. */
static void limit_size(void)
{
	MPI_File f;
	MPI_Status st;
	struct rlimit old, low;
	static char b[8192];
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

	fresh("limit_size");
	getrlimit(RLIMIT_FSIZE, &old);
	low = old;
	low.rlim_cur = 100000;
	f = opened(MPI_COMM_WORLD, path, RW);
	all_here();
	setrlimit(RLIMIT_FSIZE, &low);
	WORKS(MPI_File_write_at(f, 8192 * (me % 12), b, 8192, MPI_CHAR, &st));
	for (int kind = 0; kind < SHARED; kind++) {
		int rc = access_file(kind, 1, f, 200000 + 8192 * me, b, 8192, MPI_CHAR, &st);

		if (rc == MPI_SUCCESS)
			is_wrong(__LINE__, "write_%s beyond the limit succeeds", kind_names[kind]);
		TRUE_THAT(class_of(rc) == MPI_ERR_IO || class_of(rc) == MPI_ERR_NO_SPACE || class_of(rc) == MPI_ERR_QUOTA);
	}
	TRUE_THAT(MPI_File_set_size(f, 300000) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_preallocate(f, 300000) != MPI_SUCCESS);
	/* across the limit */
	TRUE_THAT(MPI_File_write_at(f, 96000, b, 8192, MPI_CHAR, &st) != MPI_SUCCESS);
	setrlimit(RLIMIT_FSIZE, &old);
	all_here();
	exercise(__LINE__, f);
	WORKS(MPI_File_close(&f));
	signal(SIGXFSZ, handler);
}

/* The program closes the file's descriptor: errors, no crash, and MPI_File_close ends the file. */
static void descriptor_closed(void)
{
	MPI_File f;
	MPI_Status st;
	int before[64], fd = -1;
	char b[8] = "abcdefg", link[64], to[800];

	fresh("descriptor_closed");
	all_here();
	for (int i = 0; i < 64; i++)
		before[i] = fcntl(i, F_GETFD) != -1;
	f = opened(MPI_COMM_WORLD, path, RW);
	for (int i = 0; i < 64; i++) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", i);
		ssize_t n = readlink(link, to, sizeof(to) - 1);
		if (!before[i] && n > 0 && (to[n] = 0, !strcmp(to, path)))
			fd = i;
	}
	if (fd < 0) { /* an MPI that opens it later, or elsewhere */
		WORKS(MPI_File_close(&f));
		return;
	}
	all_here();
	close(fd);
	for (int kind = 0; kind < SHARED; kind++)
		TRUE_THAT(access_file(kind, 1, f, 8 * me, b, 8, MPI_CHAR, &st) != MPI_SUCCESS);
	MPI_Offset size;
	TRUE_THAT(MPI_File_get_size(f, &size) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_sync(f) != MPI_SUCCESS);
	TRUE_THAT(MPI_File_close(&f) != MPI_SUCCESS);
	IS(f == MPI_FILE_NULL, 1);
}

static void *opens(void *arg)
{
	long n = (long)(intptr_t)arg;
	char mine[800];
	MPI_File f;
	MPI_Status st;

	snprintf(mine, sizeof(mine), "%s/threads", dir);
	for (int i = 0; i < 20; i++) {
		int v = (int)(me * 1000 + n * 100 + i), back = -1;
		MPI_Offset at = 4 * (me * 4 + n);

		if (MPI_File_open(MPI_COMM_SELF, mine, RW, MPI_INFO_NULL, &f)) {
			is_wrong(__LINE__, "thread %ld cannot open", n);
			return NULL;
		}
		if (MPI_File_write_at(f, at, &v, 1, MPI_INT, &st) || MPI_File_read_at_all(f, at, &back, 1, MPI_INT, &st) ||
		    back != v)
			is_wrong(__LINE__, "thread %ld: %d, not %d", n, back, v);
		if (MPI_File_close(&f))
			is_wrong(__LINE__, "thread %ld cannot close", n);
	}
	return NULL;
}

/* Threads open the same file, each for itself. */
static void threads(void)
{
	pthread_t t[4];
	int level;

	MPI_Query_thread(&level);
	if (level < MPI_THREAD_MULTIPLE)
		return;
	fresh("threads");
	for (long i = 0; i < 4; i++)
		pthread_create(t + i, NULL, opens, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

/* A rank that is stopped in the midst of accesses: the other ranks wait, and nothing is lost. */
static void stopped(void)
{
	MPI_File f;

	fresh("stopped");
	f = opened(MPI_COMM_WORLD, path, RW);
	for (int round = 0; round < 3; round++) {
		pid_t parent = getpid(), child = -1;

		all_here();
		if (me == round % np) {
			child = fork();
			if (!child) {
				for (int i = 0; i < 5; i++) {
					struct timespec ts = {0, 20000000};

					kill(parent, SIGSTOP);
					nanosleep(&ts, NULL);
					kill(parent, SIGCONT);
					ts.tv_nsec = 3000000;
					nanosleep(&ts, NULL);
				}
				_exit(0);
			}
		}
		exercise(__LINE__, f);
		if (child > 0)
			while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
				;
	}
	WORKS(MPI_File_close(&f));
}

/* The file's name is gone, or another file's, while the file is open. */
static void renamed(void)
{
	MPI_File f;
	char other[800];

	fresh("renamed");
	snprintf(other, sizeof(other), "%s/renamed_to", dir);
	f = opened(MPI_COMM_WORLD, path, RW);
	all_here();
	if (!me)
		IS(rename(path, other), 0);
	all_here();
	exercise(__LINE__, f);
	if (!me)
		IS(unlink(other), 0);
	all_here();
	exercise(__LINE__, f);
	TRUE_THAT(size_of(f) > 0);
	WORKS(MPI_File_close(&f));
	/* deleted at close by someone else */
	f = opened(MPI_COMM_WORLD, path, RW | MPI_MODE_DELETE_ON_CLOSE);
	all_here();
	if (!me)
		IS(unlink(path), 0);
	all_here();
	MPI_File_close(&f);
	IS(f == MPI_FILE_NULL, 1);
	IS(exists(path), 0);
}

static void permissions(void)
{
	MPI_File f;
	struct stat st;
	MPI_Info info = info_of("file_perm", "0604");
	mode_t mask;

	all_here();
	mask = umask(027);
	fresh("permissions");
	f = opened(MPI_COMM_WORLD, path, RW);
	WORKS(MPI_File_close(&f));
	IS(stat(path, &st), 0);
	IS(st.st_mode & 0777, 0640);
	fresh("permissions");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, RW, info, &f));
	WORKS(MPI_File_close(&f));
	IS(stat(path, &st), 0);
	TRUE_THAT((st.st_mode & 0777) == 0600 || (st.st_mode & 0777) == 0604 || (st.st_mode & 0777) == 0640);
	MPI_Info_free(&info);
	umask(mask);
	all_here();
	if (!me)
		chmod(path, 0);
	all_here();
	if (geteuid()) {
		FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &f), MPI_ERR_ACCESS);
		FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &f), MPI_ERR_ACCESS);
		FAILS(MPI_File_open(MPI_COMM_WORLD, path, RW, MPI_INFO_NULL, &f), MPI_ERR_ACCESS);
		FAILS(MPI_File_open(MPI_COMM_WORLD, "/heddle_no_such_file", RW, MPI_INFO_NULL, &f), MPI_ERR_ACCESS);
		FAILS(MPI_File_delete("/etc/passwd", MPI_INFO_NULL), MPI_ERR_ACCESS);
	}
}

/*
 * Two jobs at once on one file, which the script has made; IO_STANDARD_JOB is the number of this one, 0 or 1. Bytes that
 * alternate between the jobs are all written; a record that both write in atomic mode is that of one writer.
 */
static void jobs(void)
{
	enum { N = 20000, RECORD = 5000 };
	static unsigned char mine[N], back[N], record[RECORD];
	int job = atoi(getenv("IO_STANDARD_JOB")), flag;
	MPI_Datatype t;
	MPI_Status st;
	MPI_File f;

	snprintf(path, sizeof(path), "%s/jobs", dir);
	f = opened(MPI_COMM_WORLD, path, MPI_MODE_RDWR);
	MPI_Type_create_resized(MPI_BYTE, 0, 2 * np, &t);
	MPI_Type_commit(&t);
	for (int round = 0; round < 10; round++) {
		WORKS(MPI_File_set_view(f, RECORD + 2 * me + job, MPI_BYTE, t, "native", MPI_INFO_NULL));
		fill(mine, N, (uint64_t)(round * 100 + job * 10 + me));
		WORKS(access_file((round + job) % SHARED, 1, f, 0, mine, N, MPI_BYTE, &st));
		memset(back, 0, N);
		WORKS(access_file((round + 3) % SHARED, 0, f, 0, back, N, MPI_BYTE, &st));
		IS(memcmp(mine, back, N), 0);
		WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
		if (MPI_File_set_atomicity(f, 1))
			continue;
		for (int i = 0; i < 10; i++) {
			memset(record, job * 100 + me * 10 + i, RECORD);
			WORKS(access_file(i % 2 ? AT : AT_ALL, 1, f, 0, record, RECORD, MPI_BYTE, &st));
			WORKS(MPI_File_read_at(f, 0, record, RECORD, MPI_BYTE, &st));
			flag = 1;
			for (int b = 1; b < RECORD; b++)
				flag &= record[b] == record[0];
			IS(flag, 1);
		}
		WORKS(MPI_File_set_atomicity(f, 0));
	}
	MPI_Type_free(&t);
	WORKS(MPI_File_close(&f));
}

static const struct io_case cases[] = {
	{"14", "special_files", special_files},
	{"14", "limit_descriptors", limit_descriptors},
	{"14", "limit_size", limit_size},
	{"14", "descriptor_closed", descriptor_closed},
	{"14", "threads", threads},
	{"14", "stopped", stopped},
	{"14", "renamed", renamed},
	{"14", "permissions", permissions},
	{"14", "hints", hints},
};

static const struct io_case one_of_jobs[] = {{"14.6", "jobs", jobs}};

int main(int argc, char **argv)
{
	if (getenv("IO_STANDARD_JOB"))
		return io_run("io_standard_beside", one_of_jobs, 1, argc, argv);
	return io_run("io_standard_beside", cases, N_CASES(cases), argc, argv);
}
