/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that block in file I/O, for the hang report, and collective accesses while a rank is stopped (io_blocked.sh).
 *
 *     io_blocked hold PATH      no rank: locks bytes 3 to 12 of the file for writing, and waits for a signal
 *     io_blocked lease PATH     no rank: has a lease of the file, so that open(2) of others waits
 *     io_blocked lock PATH      rank 0 writes bytes 5 to 14 in atomic mode
 *     io_blocked ilock PATH     the same by MPI_File_iwrite_at
 *     io_blocked open PATH      MPI_File_open
 *     io_blocked computes PATH  rank 0 writes in atomic mode, and then calls nothing
 *     io_blocked self lock|ilock|computes     one rank: the same with a file and a holder of its own, which asks heddlerun for
 *                               the report (mutants)
 *     io_blocked write|ordered|open_close PATH TIMES      collectives in a loop, whose data are checked at the end
 *
 * Each rank prints "ready" ahead of the call in question.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "io_test.h"

enum { BYTES = 3000 };

static int all;

static int hold(const char *what, const char *path)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 10 };
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	signal(SIGIO, SIG_IGN);	/* that another process wants to open the file */
	if (fd < 0 || (*what == 'h' ? fcntl(fd, F_OFD_SETLK, &l) : fcntl(fd, F_SETLEASE, F_WRLCK))) {
		perror(what);
		return 77;
	}
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static MPI_File file_of(const char *path)
{
	MPI_Info info;
	MPI_File f;

	MPI_Info_create(&info);
	MPI_Info_set(info, "collective_buffering", "true");
	MPI_Info_set(info, "cb_buffer_size", "4096");
	WORKS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &f));
	MPI_Info_free(&info);
	return f;
}

static void computes(const char *path)
{
	MPI_File f = file_of(path);

	WORKS(MPI_File_set_atomicity(f, 1));
	WORKS(MPI_File_write_at(f, 5, "0123456789", 10, MPI_BYTE, MPI_STATUS_IGNORE));
	ready();
	for (;;)
		pause();
}

/* The child locks the file, asks for the report several times, and ends, whereupon the rank goes on. The rank of `computes` is
 * ended by SIGALRM. */
static char *ask_by_self(const char *what)
{
	enum { TIMES = 5, ASK_US = 500000 };
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 10 };
	static char path[] = "/tmp/io-blocked-XXXXXX";
	int fd = mkstemp(path), launcher = getppid();

	if (!strcmp(what, "computes"))
		alarm(TIMES * ASK_US / 1000000 + 1);
	else
		CHECK(!fcntl(fd, F_OFD_SETLK, &l));
	if (fork()) {
		close(fd);	/* the child has the lock */
		return path;
	}
	for (int i = 0; i < TIMES; i++) {
		usleep(ASK_US);
		kill(launcher, SIGUSR1);
	}
	unlink(path);
	_exit(0);
}

static void blocks_in_lock(const char *path, int nonblocking)
{
	MPI_File f = file_of(path);
	MPI_Request r;

	WORKS(MPI_File_set_atomicity(f, 1));
	ready();
	if (!me && !nonblocking)
		WORKS(MPI_File_write_at(f, 5, "0123456789", 10, MPI_BYTE, MPI_STATUS_IGNORE));
	if (!me && nonblocking) {
		WORKS(MPI_File_iwrite_at(f, 5, "0123456789", 10, MPI_BYTE, &r));
		MPI_Wait(&r, MPI_STATUS_IGNORE);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	WORKS(MPI_File_close(&f));
}

/* In the i-th turn rank r writes every all-th byte, or the block behind those of the ranks before. */
static void write_turn(MPI_File f, const char *what, int i)
{
	static char data[BYTES];

	memset(data, 'a' + (i + me) % 26, BYTES);
	if (!strcmp(what, "write")) {
		WORKS(MPI_File_write_at_all(f, 0, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
		return;
	}
	WORKS(MPI_File_seek_shared(f, 0, MPI_SEEK_SET));
	WORKS(MPI_File_write_ordered(f, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void check_turn(MPI_File f, const char *what, int i)
{
	static char data[64 * BYTES];
	MPI_Status status;
	int n;

	WORKS(MPI_File_set_view(f, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
	WORKS(MPI_File_read_at(f, 0, data, all * BYTES, MPI_BYTE, &status));
	MPI_Get_count(&status, MPI_BYTE, &n);
	CHECK_EQ(n, all * BYTES);
	for (int k = 0; k < n; k++)
		CHECK_EQ(data[k], 'a' + (i + (*what == 'w' ? k % all : k / BYTES)) % 26);
}

/* Whether the script has made FILE.end; the same at all ranks. */
static int is_over(const char *path)
{
	char end[512];
	int over;

	snprintf(end, sizeof(end), "%s.end", path);
	over = !access(end, F_OK);
	MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return over;
}

/* Looks behind each `times` turns whether the loop is over, so that nearly all of the time goes to the turns. */
static void in_a_loop(const char *what, const char *path, int times)
{
	MPI_File f = file_of(path);
	MPI_Datatype tile;
	int i = 0;

	MPI_Type_create_resized(MPI_BYTE, 0, all, &tile);
	MPI_Type_commit(&tile);
	if (*what == 'w')
		WORKS(MPI_File_set_view(f, me, MPI_BYTE, tile, "native", MPI_INFO_NULL));
	ready();
	do {
		if (!strcmp(what, "open_close")) {
			WORKS(MPI_File_close(&f));
			f = file_of(path);
		} else {
			write_turn(f, what, i);
		}
	} while (++i % times || !is_over(path));
	if (strcmp(what, "open_close"))
		check_turn(f, what, i - 1);
	MPI_Type_free(&tile);
	WORKS(MPI_File_close(&f));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
	MPI_File f;

	if (argc < 3)
		return 2;
	if (!strcmp(what, "hold") || !strcmp(what, "lease"))
		return hold(what, argv[2]);
	if (!strcmp(what, "self")) {
		what = argv[2];
		path = ask_by_self(what);
	}
	test_init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	if (!strcmp(what, "computes")) {
		computes(path);
	} else if (!strcmp(what, "open")) {
		ready();
		f = file_of(path);
		WORKS(MPI_File_close(&f));
	} else if (argc > 3 && strcmp(argv[1], "self")) {
		in_a_loop(what, path, atoi(argv[3]));
	} else {
		blocks_in_lock(path, !strcmp(what, "ilock"));
	}
	test_done("io_blocked");
	return 0;
}
