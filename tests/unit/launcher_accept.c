/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a connection to the PMIx server: src/launcher/accept.c has shutdown() and close() of this program, too. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static void connection(int pair[2])
{
	cr_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int some_file(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	return fd;
}

/* As libpmix closes a connection. */
static void end(int fd)
{
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

Test(launcher_accept, number_of_a_connection_that_is_closed_twice)
{
	int pair[2], other;
	char byte;

	connection(pair);
	end(pair[0]);
	cr_assert_eq(read(pair[1], &byte, 1), 0, "the other end sees the end of the connection");
	other = some_file();
	cr_assert_neq(other, pair[0]);
	end(pair[0]);
	cr_assert(is_open(other));
	cr_assert(is_open(pair[0]));
}

Test(launcher_accept, connections_that_end_leave_one_descriptor)
{
	int a[2], b[2], c[2];

	connection(a);
	connection(b);
	connection(c);
	end(a[0]);
	end(b[0]);
	cr_assert_not(is_open(a[0]));
	end(b[0]);
	end(c[0]);
	end(c[0]);
	cr_assert_not(is_open(b[0]));
	cr_assert(is_open(c[0]));
	cr_assert_eq(some_file(), a[0]);
	cr_assert_eq(some_file(), b[0]);
}

Test(launcher_accept, descriptors_that_are_no_connection)
{
	int pair[2], fd = some_file();

	end(fd);
	cr_assert_not(is_open(fd), "shutdown fails with ENOTSOCK");
	cr_assert(close(fd) < 0 && errno == EBADF);
	cr_assert(shutdown(fd, SHUT_RDWR) < 0 && errno == EBADF);
	connection(pair);
	cr_assert_eq(pair[0], fd);
	close(pair[0]);
	cr_assert_not(is_open(pair[0]), "not shut down");
	/* what is closed without shutdown is not closed again by the next connection that ends */
	end(pair[1]);
	close(pair[1]);
	cr_assert_not(is_open(pair[1]));
	connection(pair);
	fd = some_file();
	end(pair[0]);
	cr_assert(is_open(fd) && is_open(pair[1]));
}
