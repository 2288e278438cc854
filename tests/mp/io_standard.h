/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The programs io_standard_*.c try what chapter 14 of MPI-5.0 says of files, a theme each, under any MPI:
 *
 *     io_standard_X DIRECTORY [CASE...]
 *
 * A wrong value is printed and counted, and the program goes on: rank 0 prints the sum, and the exit code is 1 if there is one.
 */
#ifndef IO_STANDARD_H
#define IO_STANDARD_H

static inline void is_wrong(int line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define IO_WRONG is_wrong
#include "io_test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[512], path[700];
static int wrong;
static const char *case_name = "";

struct io_case {
	const char *section, *name;
	void (*run)(void);
};

static inline void is_wrong(int line, const char *fmt, ...)
{
	va_list ap;
	char text[600];

	if (++wrong > 20)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s, line %d, rank %d of %d: %s\n", case_name, line, me, np, text);
}

#define IS(a, b)                                                                                                               \
	do {                                                                                                                   \
		long long a_ = (long long)(a), b_ = (long long)(b);                                                            \
		if (a_ != b_)                                                                                                  \
			is_wrong(__LINE__, "%s is %lld, not %s = %lld", #a, a_, #b, b_);                                       \
	} while (0)
#define TRUE_THAT(cond)                                                                                                        \
	do {                                                                                                                   \
		if (!(cond))                                                                                                   \
			is_wrong(__LINE__, "not so: %s", #cond);                                                               \
	} while (0)
static inline void all_here(void)
{
	MPI_Barrier(sync_comm);
}

/* The path of a file of that name, the same on all ranks. The file is removed if it is there. */
static inline const char *fresh(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	all_here();
	if (!me)
		unlink(path);
	all_here();
	return path;
}

static inline int exists(const char *p)
{
	struct stat st;

	return !lstat(p, &st);
}

/* Rank 0 writes a file with POSIX calls. */
static inline void make_file(const char *p, const void *bytes, size_t len)
{
	all_here();
	if (!me) {
		int fd = open(p, O_CREAT | O_TRUNC | O_WRONLY, 0644);

		if (fd < 0 || write(fd, bytes, len) != (ssize_t)len || close(fd))
			is_wrong(__LINE__, "cannot write %s: %s", p, strerror(errno));
	}
	all_here();
}

/* Reads the file with POSIX calls; returns its size, -1 if there is none. */
static inline long long bytes_of(const char *p, void *bytes, size_t len)
{
	int fd = open(p, O_RDONLY);
	struct stat st;

	if (fd < 0)
		return -1;
	memset(bytes, 0, len);
	if (fstat(fd, &st) || pread(fd, bytes, len, 0) < 0)
		st.st_size = -1;
	close(fd);
	return st.st_size;
}

static inline MPI_File opened(MPI_Comm comm, const char *p, int amode)
{
	MPI_File f = MPI_FILE_NULL;

	WORKS(MPI_File_open(comm, p, amode, MPI_INFO_NULL, &f));
	if (f == MPI_FILE_NULL) {
		fprintf(stderr, "%s: cannot open %s\n", case_name, p);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return f;
}
#define RW (MPI_MODE_CREATE | MPI_MODE_RDWR)

static inline int count_of(const MPI_Status *s, MPI_Datatype type)
{
	int n = -1;

	MPI_Get_count(s, type, &n);
	return n;
}

static inline MPI_Offset size_of(MPI_File f)
{
	MPI_Offset size = -1;

	WORKS(MPI_File_get_size(f, &size));
	return size;
}

static inline MPI_Offset position(MPI_File f)
{
	MPI_Offset at = -1;

	WORKS(MPI_File_get_position(f, &at));
	return at;
}

static inline MPI_Offset position_shared(MPI_File f)
{
	MPI_Offset at = -1;

	WORKS(MPI_File_get_position_shared(f, &at));
	return at;
}

static inline MPI_Info info_of(const char *key, const char *value)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, key, value);
	return info;
}

static inline int io_run(const char *name, const struct io_case *cases, int n, int argc, char **argv)
{
	int sum, level;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_dup(MPI_COMM_WORLD, &sync_comm);
	if (argc < 2) {
		fprintf(stderr, "usage: %s DIRECTORY [CASE...]\n", name);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	snprintf(dir, sizeof(dir), "%s", argv[1]);
	for (int i = 0; i < n; i++) {
		int wanted = argc < 3;

		for (int a = 2; a < argc; a++)
			wanted |= !strcmp(argv[a], cases[i].name);
		if (!wanted)
			continue;
		case_name = cases[i].name;
		cases[i].run();
		all_here();
	}
	MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, sync_comm);
	MPI_Comm_free(&sync_comm);
	if (!me)
		printf("%s: %d wrong, %d ranks\n", name, sum, np);
	MPI_Finalize();
	return sum != 0;
}
#define N_CASES(cases) ((int)(sizeof(cases) / sizeof((cases)[0])))

#endif
