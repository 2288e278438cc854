/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another user of the host (65534; started by root), which tries to hold up jobs. Prints "ready" and goes on until killed.
 *
 *     launcher_other_user port N             connects to port N of the loopback device and sends nothing; prints "closed"
 *                                            when the peer closes the connection
 *     launcher_other_user bind TYPE NAME...  binds abstract names. TYPE: silent (does not listen), listen, full (a full
 *                                            backlog), datagram
 *     launcher_other_user flood NAME         sends datagrams there without end
 *     launcher_other_user make DIRECTORY     makes the directory, writable for all
 *     launcher_other_user store DIRECTORY    must not be able to list the directory or to write there
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(x)											\
	do {												\
		if (!(x)) {										\
			fprintf(stderr, "launcher_other_user: line %d: %s: %s\n", __LINE__, #x, strerror(errno));	\
			exit(1);									\
		}											\
	} while (0)

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static socklen_t abstract(struct sockaddr_un *a, const char *name)
{
	size_t n = strlen(name);

	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	CHECK(n < sizeof(a->sun_path));
	memcpy(a->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static void take_name(const char *type, const char *name)
{
	int fd = socket(AF_UNIX, strcmp(type, "datagram") ? SOCK_STREAM : SOCK_DGRAM, 0);
	struct sockaddr_un a;
	socklen_t n = abstract(&a, name);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&a, n));
	if (!strcmp(type, "listen"))
		CHECK(!listen(fd, 100));
	if (!strcmp(type, "full")) {
		CHECK(!listen(fd, 0));
		for (;;) {
			int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

			CHECK(s >= 0);
			if (connect(s, (struct sockaddr *)&a, n)) {
				CHECK(errno == EAGAIN);
				break;
			}
		}
	}
}

static void say_nothing(int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char c;

	CHECK(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	ready();
	if (recv(fd, &c, 1, 0) <= 0)
		printf("closed\n");
}

static void flood(const char *name)
{
	struct sockaddr_un a;
	socklen_t n = abstract(&a, name);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	CHECK(fd >= 0);
	ready();
	for (;;)
		if (sendto(fd, "x", 1, 0, (struct sockaddr *)&a, n) < 0)
			usleep(1000);
}

int main(int argc, char **argv)
{
	alarm(120);
	CHECK(argc >= 3 && !setgroups(0, NULL) && !setgid(65534) && !setuid(65534));
	if (!strcmp(argv[1], "port")) {
		say_nothing(atoi(argv[2]));
	} else if (!strcmp(argv[1], "flood")) {
		flood(argv[2]);
	} else if (!strcmp(argv[1], "make")) {
		umask(0);
		CHECK(!mkdir(argv[2], 0777));
		ready();
	} else if (!strcmp(argv[1], "store")) {
		char file[4096];

		snprintf(file, sizeof file, "%s/intruder", argv[2]);
		CHECK(open(argv[2], O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
		CHECK(open(file, O_RDWR | O_CREAT, 0600) < 0 && errno == EACCES);
	} else {
		for (int i = 3; i < argc; i++)
			take_name(argv[2], argv[i]);
		ready();
		for (;;)
			pause();
	}
	return 0;
}
