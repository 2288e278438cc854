/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of the process (setrlimit): the device is refused with an errno and a line that names the limit, and no signal ends the
 * process. The program is linked with libshca-files, too.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "vt.h"

static char said[8192];

/* Runs f in a child under a limit, with its standard error in `said`. Returns the child's exit status, or 256 + its signal. */
static int limited(int (*f)(void), int resource, rlim_t most)
{
	int p[2], status;
	size_t got = 0;

	CHECK(!pipe(p), "pipe");
	fflush(NULL);
	pid_t pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		struct rlimit limit = {most, most};
		if (dup2(p[1], STDERR_FILENO) < 0 || close(p[0]) || close(p[1]) || setrlimit(resource, &limit))
			_exit(99);
		_exit(f());
	}
	close(p[1]);
	for (ssize_t r; got + 1 < sizeof(said) && (r = read(p[0], said + got, sizeof(said) - got - 1)) > 0;)
		got += (size_t)r;
	said[got] = 0;
	close(p[0]);
	CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int opens(void)
{
	int count;
	struct ibv_device **list = shca_get_device_list(&count);
	struct ibv_context *ctx = list ? ibv_open_device(list[0]) : NULL;

	return ctx ? 0 : errno;
}

static size_t heap_left;	/* bytes; at most twice as many in one piece */

static int opens_with_little_heap(void)
{
	void *volatile p;	/* a compiler leaves out calls of malloc whose memory the program does not use */

	for (size_t piece = 1 << 20; piece >= heap_left; piece /= 2)
		do
			p = malloc(piece);
		while (p);
	return opens();
}

static int makes_channel(void)
{
	struct ibv_context *ctx = vt_context();
	for (int i = 0; i < 100; i++)
		if (!ibv_create_comp_channel(ctx))
			return errno;
	return 0;
}

static int opens_umad(void)
{
	int fd = open("/dev/infiniband/umad0", O_RDWR);

	return fd < 0 ? errno : 0;
}

/* A file of the device is read: one byte of its text in the exit status. */
static int reads_text(void)
{
	char text[32] = "";
	int fd = open("/sys/class/infiniband/shca0/node_type", O_RDONLY);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) == 6 && !read(fd, text, 1) ? text[0] : 0;
}

/* Calls that are refused, under a variable whose value is not understood: reported once, not at each use. */
static int misspelt(void)
{
	CHECK(!setenv("SHCA_DEBUG", "maybe", 1), "setenv");
	struct ibv_context *ctx = vt_context();
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_create_cq(ctx, -1, NULL, NULL, 0), "a CQ of -1 entries");
	return 0;
}

static void descriptors(int (*f)(void))
{
	int got = EMFILE, most;

	for (most = 3; got == EMFILE && most < 64; most++) {
		got = limited(f, RLIMIT_NOFILE, (rlim_t)most);
		CHECK(!got || got == EMFILE, "%d descriptors: %d", most, got);
		CHECK(!got || strstr(said, "ulimit -n"), "%d descriptors: no line names the limit: %s", most, said);
	}
}

int main(void)
{
	vt_fabric();
	CHECK(!setenv("SHCA_DEBUG", "1", 1) && !setenv("SHCA_VISIBLE", "1", 1), "setenv");
	descriptors(opens);		/* creates the fabric */
	CHECK(limited(opens, RLIMIT_FSIZE, 0) == EFBIG && strstr(said, "ulimit -f"), "creates without files: %s", said);
	struct vt t = vt_open();
	descriptors(opens);		/* joins it */
	descriptors(opens_umad);
	int got = limited(makes_channel, RLIMIT_NOFILE, 40);
	CHECK(got == EMFILE && strstr(said, "ulimit -n"), "completion channels: %d, %s", got, said);
	got = limited(opens, RLIMIT_FSIZE, 0);
	CHECK(got == EFBIG && strstr(said, "ulimit -f"), "joins without files: %d, %s", got, said);
	got = limited(reads_text, RLIMIT_FSIZE, 0);
	CHECK(got == '1', "a text of the device under a limit of file sizes: %d, %s", got, said);
	got = limited(opens, RLIMIT_AS, 1);
	CHECK(got == ENOMEM && strstr(said, "ulimit -v"), "without memory: %d, %s", got, said);
	for (heap_left = 128; heap_left <= 1 << 17; heap_left *= 2) {
		got = limited(opens_with_little_heap, RLIMIT_AS, 1);
		CHECK(got == ENOMEM && strstr(said, "ulimit -v"), "%zu bytes of heap: %d, %s", heap_left, got, said);
	}
	got = limited(misspelt, RLIMIT_CORE, 0);
	char *first = strstr(said, "SHCA_DEBUG=maybe is");
	CHECK(!got && first && !strstr(first + 1, "SHCA_DEBUG=maybe is"), "SHCA_DEBUG=maybe: %d, %s", got, said);
	vt_close(&t);
	return 0;
}
