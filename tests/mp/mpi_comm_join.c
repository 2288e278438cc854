/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs connect: mpi_comm_join PATH SIDE [MODE]. Side 0 listens on sockets in the file system (PATH.RANK), side 1 connects.
 * Both jobs have as many ranks, and rank r of each calls MPI_Comm_join with rank r of the other. Then the leaders'
 * intercommunicator becomes one of all ranks. Modes:
 *
 *     port         no sockets: side 1 connects to a port of side 0's last rank, several times
 *     first        connects to a port once; the jobs may have different sizes, and side 0 sends to all of side 1 at once
 *     strangers    jobs of one rank connect to a port; clients that are no MPI processes, or that send nothing, connect there,
 *                  too
 *     unanswered   one job; the first rank has a port and accepts late, or never. HEDDLE_CONNECT_TIMEOUT has to be short
 *     visits N     connects to a port N times, each time another job: the script checks for remains of ended jobs at side 0
 *     full         rank 1 of side 0 has no process number left for another job: no rank of either job gets an intercommunicator,
 *                  and every call returns
 *     die          all ranks of side 1 are killed when connected, and side 0 goes on without them
 *     leave        side 1 calls MPI_Finalize while side 0 waits for a message of side 1
 *     lose         only the leaders join; side 1's last rank is killed during a collective of both jobs: all other ranks get an
 *                  error, and call MPI_Finalize
 *     apart        most ranks exchange no message, and side 1 calls MPI_Finalize when side 0 has ended
 */
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LARGE 1000000
static int side, me, np, failed;

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "%s:%d: side %d rank %d: not so: %s\n", __FILE__, __LINE__, side, me, #cond); \
			failed = 1; \
		} \
	} while (0)

static void must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "side %d rank %d: %s: %s\n", side, me, what, strerror(errno));
	MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Returns a socket that is connected to this rank's partner. Side 1 tries to connect for half a minute. */
static int meet(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	must(s >= 0, "socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "%s.%d", path, me);
	if (side) {
		for (int i = 0; connect(s, (struct sockaddr *)&a, sizeof(a)); i++) {
			must(i < 3000, "connect");
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		}
		return s;
	}
	must(!bind(s, (struct sockaddr *)&a, sizeof(a)) && !listen(s, 1), "listen");
	fd = accept(s, NULL, NULL);
	must(fd >= 0, "accept");
	close(s);
	return fd;
}

static int value(int from_side, int from, int i)
{
	return from_side * 1000003 + from * 101 + i;
}

/* Exchanges messages of several lengths with rank `peer` of the remote group, which calls this function, too. */
static void talk(MPI_Comm inter, int peer, int my_rank, int tag)
{
	static const int lengths[] = { 0, 1, 30, 3000, 40000, LARGE };
	static int out[LARGE], in[LARGE];

	for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
		int n = lengths[k], count;
		MPI_Request req;
		MPI_Status st;

		for (int i = 0; i < n; i++)
			out[i] = value(side, my_rank, i);
		memset(in, 0, sizeof(in));
		MPI_Irecv(in, LARGE, MPI_INT, k % 2 ? peer : MPI_ANY_SOURCE, tag + (int)k, inter, &req);
		MPI_Send(out, n, MPI_INT, peer, tag + (int)k, inter);
		MPI_Wait(&req, &st);
		MPI_Get_count(&st, MPI_INT, &count);
		CHECK(count == n && st.MPI_SOURCE == peer);
		for (int i = 0; i < n; i++)
			if (in[i] != value(!side, peer, i)) {
				CHECK(in[i] == value(!side, peer, i));
				break;
			}
	}
}

static void collectives(MPI_Comm all)
{
	int n, rank, sum, *table;
	double *big, *result;

	MPI_Comm_size(all, &n);
	MPI_Comm_rank(all, &rank);
	table = malloc((size_t)n * sizeof(*table));
	for (int round = 0; round < 20; round++) {
		MPI_Barrier(all);
		sum = rank + round;
		MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, all);
		CHECK(sum == n * (n - 1) / 2 + n * round);
		MPI_Allgather(&rank, 1, MPI_INT, table, 1, MPI_INT, all);
		for (int r = 0; r < n; r++)
			CHECK(table[r] == r);
		sum = rank == round % n ? round : -1;
		MPI_Bcast(&sum, 1, MPI_INT, round % n, all);
		CHECK(sum == round);
	}
	big = malloc(2 * 100000 * sizeof(*big));
	result = big + 100000;
	for (int i = 0; i < 100000; i++)
		big[i] = rank + i;
	MPI_Allreduce(big, result, 100000, MPI_DOUBLE, MPI_SUM, all);
	for (int i = 0; i < 100000; i += 9999)
		CHECK(result[i] == n * (n - 1) / 2.0 + (double)n * i);
	free(big);
	free(table);
}

static void groups(MPI_Comm all)
{
	MPI_Group world, both, part, rest, again;
	int n, result, rank, world_rank;
	MPI_Comm comm;

	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Comm_group(all, &both);
	MPI_Comm_size(all, &n);
	MPI_Group_intersection(both, world, &part);
	MPI_Group_compare(part, world, &result);
	CHECK(result == MPI_IDENT);
	MPI_Group_difference(both, world, &rest);
	MPI_Group_size(rest, &rank);
	CHECK(rank == n - np);
	MPI_Group_union(world, rest, &again);
	MPI_Group_compare(again, both, &result);
	CHECK(result == MPI_IDENT || result == MPI_SIMILAR);
	for (int r = 0; r < n; r++) {
		MPI_Group_translate_ranks(both, 1, &r, world, &world_rank);
		MPI_Group_translate_ranks(both, 1, &r, rest, &rank);
		CHECK((world_rank == MPI_UNDEFINED) != (rank == MPI_UNDEFINED));
	}
	MPI_Comm_create_from_group(both, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
	collectives(comm);
	MPI_Comm_free(&comm);
	MPI_Group_free(&world);
	MPI_Group_free(&both);
	MPI_Group_free(&part);
	MPI_Group_free(&rest);
	MPI_Group_free(&again);
}

/* Traffic on an intercommunicator of all ranks of both jobs; frees the intercommunicator. */
static void together(MPI_Comm inter)
{
	MPI_Comm all, turned;
	int n, rank, sum;

	MPI_Comm_remote_size(inter, &n);
	sum = 0;
	MPI_Allreduce(&np, &sum, 1, MPI_INT, MPI_SUM, inter);
	CHECK(sum == n * n);
	CHECK(n == np);
	talk(inter, me, me, 0);
	talk(inter, n - 1 - me, me, 10);
	MPI_Intercomm_merge(inter, side, &all);
	MPI_Comm_rank(all, &rank);
	CHECK(rank == (side ? n : 0) + me);
	collectives(all);
	groups(all);
	MPI_Comm_split(all, rank % 2, -rank, &turned);
	collectives(turned);
	MPI_Comm_free(&turned);
	MPI_Comm_free(&all);
	MPI_Comm_disconnect(&inter);
}

/* Returns an intercommunicator of all ranks of both jobs. pair: of the two leaders, significant there only. */
static MPI_Comm leaders_meet(MPI_Comm pair)
{
	MPI_Comm peers = MPI_COMM_NULL, inter;

	if (!me)
		MPI_Intercomm_merge(pair, side, &peers);
	MPI_Intercomm_create(MPI_COMM_WORLD, 0, peers, !side, 7, &inter);
	if (!me)
		MPI_Comm_free(&peers);
	return inter;
}

/* ---- by a port ------------------------------------------------------------------------------------------ */

static void refuses(MPI_Comm comm, const char *name, int accepts)
{
	MPI_Comm none = MPI_COMM_NULL;
	int class, root = np - 1, rc;

	rc = accepts ? MPI_Comm_accept(name, MPI_INFO_NULL, root, comm, &none) :
		       MPI_Comm_connect(name, MPI_INFO_NULL, root, comm, &none);
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_PORT && none == MPI_COMM_NULL);
}

/* Side 0's last rank writes the port's name into a file, under another name until the file is complete. */
static void tell_name(const char *path, const char *name)
{
	char file[256], part[300];
	FILE *f;

	snprintf(file, sizeof(file), "%s.port", path);
	snprintf(part, sizeof(part), "%s.part", file);
	f = fopen(part, "w");
	must(f && fputs(name, f) >= 0 && !fclose(f) && !rename(part, file), "writing the port's name");
}

static void hear_name(const char *path, char *name)
{
	char file[256];
	FILE *f;

	snprintf(file, sizeof(file), "%s.port", path);
	for (int i = 0; !(f = fopen(file, "r")); i++) {
		must(i < 3000, "the port's name");
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	must(fgets(name, MPI_MAX_PORT_NAME, f) != NULL, "reading the port's name");
	fclose(f);
}

static void by_port(const char *path)
{
	char name[MPI_MAX_PORT_NAME] = "", wrong[MPI_MAX_PORT_NAME];
	MPI_Comm inter, comm;
	int root = np - 1;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	refuses(comm, "nonsense", side == 0);
	if (me == root && side == 0) {
		MPI_Open_port(MPI_INFO_NULL, name);
		tell_name(path, name);
	} else if (me == root) {
		hear_name(path, name);
		/* a wrong secret: the port refuses this connection and goes on */
		snprintf(wrong, sizeof(wrong), "%.*s1", (int)strlen(name) - 1, name);
		wrong[strlen(wrong) - 1] ^= wrong[strlen(wrong) - 1] == name[strlen(name) - 1] ? 3 : 0;
	}
	if (side)
		refuses(comm, wrong, 0);
	for (int i = 0; i < 3; i++) {		/* names are significant at the roots only */
		if (side)
			MPI_Comm_connect(me == root ? name : NULL, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter);
		else
			MPI_Comm_accept(me == root ? name : NULL, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter);
		together(inter);
	}
	if (me == root && side == 0)
		MPI_Close_port(name);
	if (side == 0)
		refuses(comm, name, 1);
	MPI_Comm_free(&comm);
}

/* Side 0 accepts `times` jobs, one after the other. Each exchanges so much with side 0 that both give each other a ring. */
static void visits(const char *path, int times)
{
	char name[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter, all;
	int n, v;

	/* connects the ranks of this job before the first visitor, so that this memory does not count as a visitor's */
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	for (int i = 0; i < 100; i++)
		MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 1, &v, 1, MPI_INT, (me + n - 1) % n, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	if (me == 0 && side == 0) {
		MPI_Open_port(MPI_INFO_NULL, name);
		tell_name(path, name);
	} else if (me == 0) {
		hear_name(path, name);
	}
	for (int i = 0; i < times; i++) {
		if (side)
			MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		else
			MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		MPI_Intercomm_merge(inter, side, &all);
		for (int round = 0; round < 5; round++)
			talk(inter, me, me, 0);
		collectives(all);
		MPI_Comm_free(&all);
		MPI_Comm_disconnect(&inter);
	}
}

/* A rank must know the sender's address before a message comes: kinds that send without a connection would lose the message. */
static void first_messages(const char *path)
{
	char name[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;
	int n, v = 0;

	if (me == 0 && side == 0) {
		MPI_Open_port(MPI_INFO_NULL, name);
		tell_name(path, name);
	} else if (me == 0) {
		hear_name(path, name);
	}
	if (side)
		MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	else
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	MPI_Comm_remote_size(inter, &n);
	/* the ranks that learn last of side 0 come first */
	for (int r = n - 1; !side && r >= 0; r--)
		MPI_Send(&r, 1, MPI_INT, r, 1, inter);
	for (int r = 0; r < n; r++) {
		MPI_Recv(&v, 1, MPI_INT, r, 1, inter, MPI_STATUS_IGNORE);
		CHECK(v == (side ? me : r));
	}
	for (int r = 0; side && r < n; r++)
		MPI_Send(&me, 1, MPI_INT, r, 1, inter);
	MPI_Comm_disconnect(&inter);
	if (me == 0 && side == 0)
		MPI_Close_port(name);
}

/* ---- strangers ------------------------------------------------------------------------------------------ */

static int port_error(int rc)
{
	int class;

	MPI_Error_class(rc, &class);
	return class == MPI_ERR_PORT;
}

static int dial(int number)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons((uint16_t)number),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(s >= 0 && !connect(s, (struct sockaddr *)&a, sizeof(a)), "connecting to the port");
	return s;
}

/* Reads until the peer closes. Returns the number of bytes; closes the socket. */
static int heard_until_end(int s)
{
	char buf[256];
	ssize_t n;
	int sum = 0;

	while ((n = read(s, buf, sizeof(buf))) > 0)
		sum += (int)n;
	close(s);
	return sum;
}

static int read_fully(int s, void *to, size_t n)
{
	return recv(s, to, n, MSG_WAITALL) == (ssize_t)n;
}

struct proxy {
	int listens, number;
};

/* Thread between a client and the port: passes on both hellos and descriptions, but not the client's verdict, as if the client
 * had been stopped there. The port gives up; then the client goes on. */
static void *proxy(void *arg)
{
	struct { uint64_t magic, secret, nonce; uint32_t described, address; } hello;
	const struct proxy *p = arg;
	int visitor = accept(p->listens, NULL, NULL), port = dial(p->number), sum = 0;
	char buf[1 << 16];
	ssize_t n;

	must(visitor >= 0 && read_fully(visitor, &hello, sizeof(hello)), "the visitor's hello");
	CHECK(write(port, &hello, sizeof(hello)) == sizeof(hello));
	must(hello.described + hello.address <= sizeof(buf) && read_fully(visitor, buf, hello.described + hello.address),
	     "its description");
	CHECK(write(port, buf, hello.described + hello.address) == hello.described + hello.address);
	shutdown(port, SHUT_WR);
	while ((n = read(port, buf, sizeof(buf))) > 0) {
		memcpy(&hello, buf, sum ? 0 : sizeof(hello));
		CHECK(hello.secret == 0);
		sum += (int)n;
		CHECK(write(visitor, buf, (size_t)n) == n);
	}
	CHECK(sum > (int)sizeof(hello));
	shutdown(visitor, SHUT_WR);
	heard_until_end(visitor);
	close(port);
	return NULL;
}

/* The port does not get the client's verdict (proxy): neither side may return an intercommunicator. */
static void fall_silent(const char *name, int number)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct proxy p = { .listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .number = number };
	char by_proxy[2 * MPI_MAX_PORT_NAME];
	const char *colon = strchr(strchr(name, ':') + 1, ':');
	MPI_Comm none = MPI_COMM_NULL;
	socklen_t n = sizeof(a);
	pthread_t thread;

	must(!bind(p.listens, (struct sockaddr *)&a, sizeof(a)) && !listen(p.listens, 1) &&
	     !getsockname(p.listens, (struct sockaddr *)&a, &n), "listening");
	snprintf(by_proxy, sizeof(by_proxy), "%.*s:%d%s", (int)(colon - name), name, ntohs(a.sin_port), strchr(colon + 1, ':'));
	must(!pthread_create(&thread, NULL, proxy, &p), "a thread");
	CHECK(port_error(MPI_Comm_connect(by_proxy, MPI_INFO_NULL, 0, MPI_COMM_SELF, &none)) && none == MPI_COMM_NULL);
	pthread_join(thread, NULL);
	close(p.listens);
}

/* MPI_Comm_join with a peer of another protocol returns an error, and sends this end's hello. */
static void join_garbage(void)
{
	char garbage[64] = "SSH-2.0-";
	MPI_Comm none = MPI_COMM_NULL;
	int s[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
	CHECK(write(s[1], garbage, sizeof(garbage)) == sizeof(garbage));
	CHECK(MPI_Comm_join(s[0], &none) && none == MPI_COMM_NULL);
	CHECK(heard_until_end(s[1]) > 0);
	close(s[0]);
}

static void *accepts(void *name)
{
	MPI_Comm none = MPI_COMM_NULL;

	CHECK(port_error(MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &none)) && none == MPI_COMM_NULL);
	return NULL;
}

/* MPI_Close_port wakes a thread that waits in MPI_Comm_accept. */
static void close_under_accept(void)
{
	char name[MPI_MAX_PORT_NAME];
	pthread_t thread;

	MPI_Open_port(MPI_INFO_NULL, name);
	must(!pthread_create(&thread, NULL, accepts, name), "a thread");
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	MPI_Close_port(name);
	pthread_join(thread, NULL);
}

/* Forks a client that connects a second later and waits without a limit: the port must answer the wrong secret. */
static pid_t come_behind(int number)
{
	struct { uint64_t magic, secret, nonce; uint32_t described, address; } hello = { .magic = 0x31746d6c64646568u }, said;
	pid_t child = fork();
	int s;

	if (child)
		return child;
	nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	s = dial(number);
	_exit(write(s, &hello, sizeof(hello)) == sizeof(hello) && read_fully(s, &said, sizeof(said)) ? 0 : 1);
}

static void strangers(const char *path)
{
	char name[MPI_MAX_PORT_NAME] = "", garbage[64] = "GET / HTTP/1.0\r\n\r\n";
	int number = 0, s;
	MPI_Comm inter;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (side == 0) {
		close_under_accept();
		MPI_Open_port(MPI_INFO_NULL, name);
		tell_name(path, name);
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		MPI_Comm_disconnect(&inter);
		/* both clients have connected by now, and the second waits behind the first one's handshake for longer than
		 * a silent client may */
		nanosleep(&(struct timespec){ .tv_sec = 2 }, NULL);
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		MPI_Comm_disconnect(&inter);
		nanosleep(&(struct timespec){ .tv_sec = 5, .tv_nsec = 500000000 }, NULL);
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		MPI_Close_port(name);
	} else {
		pid_t child;
		int status;

		join_garbage();
		hear_name(path, name);
		must(sscanf(name, "heddle:%*[^:]:%d", &number) == 1, "the port's number");
		/* the port sends nothing to a client that has not sent the secret, and closes the connection of a silent one */
		s = dial(number);
		CHECK(write(s, garbage, sizeof(garbage)) == sizeof(garbage));
		CHECK(heard_until_end(s) == 0);
		CHECK(heard_until_end(dial(number)) == 0);
		fall_silent(name, number);
		/* clients that fall silent, half of them within their hello; one time-out after the other would take
		 * longer than this test has */
		for (int i = 0; i < 14; i++) {
			s = dial(number);
			if (i % 2)
				CHECK(write(s, garbage, 12) == 12);
		}
		MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		MPI_Comm_disconnect(&inter);
		child = come_behind(number);
		for (int i = 0; i < 2; i++) {
			MPI_Comm_connect(name, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
			if (!i)
				MPI_Comm_disconnect(&inter);
		}
		CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
	}
	talk(inter, 0, 0, 0);
	MPI_Comm_disconnect(&inter);
}

/* Connects to a made-up job of so many ranks that this process has no process numbers left. There is no such process. */
static void meet_the_largest_job(void)
{
	struct {
		uint64_t magic, secret, nonce;
		uint32_t described, address;
		uint32_t jobs, runs;
		int32_t size;
		uint32_t name_bytes;
		char name[8];
		uint32_t job;
		int32_t first, stride, n;
		uint8_t can;
	} __attribute__((packed)) hello = { .jobs = 1, .runs = 1, .size = INT_MAX - np, .name_bytes = sizeof(hello.name),
					    .name = "largest", .stride = 1, .n = 1 };
	MPI_Comm none = MPI_COMM_NULL;
	int s[2], a[2];

	/* the magic number is taken from this process's own hello */
	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, a) && !shutdown(a[1], SHUT_WR) && !socketpair(AF_UNIX, SOCK_STREAM, 0, s),
	     "socketpair");
	MPI_Comm_join(a[0], &none);
	must(read_fully(a[1], &hello, offsetof(typeof(hello), secret)), "a hello");
	hello.described = offsetof(typeof(hello), can) - offsetof(typeof(hello), jobs);
	CHECK(write(s[1], &hello, sizeof(hello)) == sizeof(hello));
	CHECK(MPI_Comm_join(s[0], &none) == MPI_SUCCESS && none == MPI_COMM_NULL);
	close(s[0]);
	close(s[1]);
	close(a[0]);
	close(a[1]);
}

static void full(const char *path)
{
	char name[MPI_MAX_PORT_NAME] = "";
	MPI_Comm comm, none = MPI_COMM_NULL;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (side == 0 && me == 1)
		meet_the_largest_job();
	if (side == 0 && !me) {
		MPI_Open_port(MPI_INFO_NULL, name);
		tell_name(path, name);
	} else if (!me) {
		hear_name(path, name);
	}
	if (side)
		CHECK(MPI_Comm_connect(name, MPI_INFO_NULL, 0, comm, &none) && none == MPI_COMM_NULL);
	else
		CHECK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, comm, &none) && none == MPI_COMM_NULL);
	if (side == 0 && !me)
		MPI_Close_port(name);
	MPI_Comm_free(&comm);
}

/* ---- no rank accepts ---------------------------------------------------------------------------------- */

struct server {
	int listens;
	int closes;			/* closes the connection behind the first byte; false: sends nothing until
					 * the client closes */
};

static void *no_port(void *arg)
{
	const struct server *f = arg;
	int s = accept(f->listens, NULL, NULL);
	char c;

	must(s >= 0 && read_fully(s, &c, 1), "the visitor's hello");
	if (f->closes)
		close(s);
	else
		heard_until_end(s);
	return NULL;
}

static MPI_Info seconds(const char *timeout)
{
	MPI_Info info = MPI_INFO_NULL;

	if (timeout) {
		MPI_Info_create(&info);
		MPI_Info_set(info, "timeout", timeout);
	}
	return info;
}

/* MPI_Comm_connect fails at all ranks of comm with class `want`; name and info are significant at the root, the last rank. word:
 * must stand in the root's error text. */
static void not_connected(MPI_Comm comm, const char *name, const char *timeout, int want, const char *word)
{
	MPI_Comm none = (MPI_Comm)&comm;
	MPI_Info info = MPI_INFO_NULL;
	char text[MPI_MAX_ERROR_STRING];
	int class, rank, n, rc;

	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &n);
	if (rank == n - 1)
		info = seconds(timeout);
	rc = MPI_Comm_connect(rank == n - 1 ? name : NULL, info, n - 1, comm, &none);
	MPI_Error_class(rc, &class);
	MPI_Error_string(rc, text, &n);
	if (class != want)
		fprintf(stderr, "rank %d, timeout %s: %s\n", me, timeout ? timeout : "none", text);
	CHECK(class == want && none == MPI_COMM_NULL);
	CHECK(info == MPI_INFO_NULL || strstr(text, word));
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
}

/* A connect to a name with the port number of a server that is no MPI process. */
static void by_no_port(MPI_Comm comm, int is_root, const char *name, int closes, const char *timeout)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct server f = { .listens = -1, .closes = closes };
	char other[2 * MPI_MAX_PORT_NAME] = "";
	socklen_t n = sizeof(a);
	pthread_t thread;

	if (is_root) {
		const char *colon = strchr(strchr(name, ':') + 1, ':');

		f.listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(!bind(f.listens, (struct sockaddr *)&a, sizeof(a)) && !listen(f.listens, 1) &&
		     !getsockname(f.listens, (struct sockaddr *)&a, &n), "listening");
		snprintf(other, sizeof(other), "%.*s:%d%s", (int)(colon - name), name, ntohs(a.sin_port), strchr(colon + 1, ':'));
		must(!pthread_create(&thread, NULL, no_port, &f), "a thread");
	}
	not_connected(comm, other, timeout, MPI_ERR_PORT, closes ? "closed" : "timeout");
	if (is_root) {
		pthread_join(thread, NULL);
		close(f.listens);
	}
}

/* Thread between a client and the port: the port's verdict arrives later than the client's timeout. */
static void *slow_word(void *arg)
{
	struct { uint64_t magic, secret, nonce; uint32_t described, address; } hello;
	const struct proxy *p = arg;
	int end[2] = { accept(p->listens, NULL, NULL), dial(p->number) };
	char buf[1 << 16];

	for (int from = 0; from < 2; from++) {
		must(read_fully(end[from], &hello, sizeof(hello)) && hello.described + hello.address <= sizeof(buf) &&
		     read_fully(end[from], buf, hello.described + hello.address), "a hello");
		CHECK(write(end[!from], &hello, sizeof(hello)) == sizeof(hello) &&
		      write(end[!from], buf, hello.described + hello.address) == hello.described + hello.address);
	}
	for (int from = 0; from < 2; from++) {
		must(read_fully(end[from], buf, 1), "a verdict");
		if (from)
			nanosleep(&(struct timespec){ .tv_sec = 2, .tv_nsec = 300000000 }, NULL);
		CHECK(write(end[!from], buf, 1) == 1);
	}
	close(end[0]);
	close(end[1]);
	return NULL;
}

/* A client that has sent its verdict must not time out: the port may have an intercommunicator with that client by then. */
static void accepted_slowly(const char *name, MPI_Comm comm)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const char *colon = strchr(strchr(name, ':') + 1, ':');
	struct proxy p = { .number = atoi(colon + 1) };
	char by_proxy[2 * MPI_MAX_PORT_NAME];
	MPI_Info info = seconds("2");
	socklen_t n = sizeof(a);
	pthread_t thread;
	MPI_Comm inter;

	if (me) {
		p.listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(!bind(p.listens, (struct sockaddr *)&a, sizeof(a)) && !listen(p.listens, 1) &&
		     !getsockname(p.listens, (struct sockaddr *)&a, &n), "listening");
		snprintf(by_proxy, sizeof(by_proxy), "%.*s:%d%s", (int)(colon - name), name, ntohs(a.sin_port),
			 strchr(colon + 1, ':'));
		must(!pthread_create(&thread, NULL, slow_word, &p), "a thread");
		CHECK(MPI_Comm_connect(by_proxy, info, 0, comm, &inter) == MPI_SUCCESS);
		pthread_join(thread, NULL);
		close(p.listens);
	} else {
		CHECK(MPI_Comm_accept(name, MPI_INFO_NULL, 0, comm, &inter) == MPI_SUCCESS);
	}
	if (inter != MPI_COMM_NULL)
		MPI_Comm_disconnect(&inter);
	MPI_Info_free(&info);
}

static void nobody_comes(const char *name)
{
	MPI_Comm none = (MPI_Comm)&failed;
	MPI_Info info = seconds("0.1");

	CHECK(port_error(MPI_Comm_accept(name, info, 0, MPI_COMM_SELF, &none)) && none == MPI_COMM_NULL);
	MPI_Info_free(&info);
}

static void unanswered(void)
{
	char name[MPI_MAX_PORT_NAME], closed[MPI_MAX_PORT_NAME];
	int is_root = me == np - 1, pid = getpid();
	MPI_Comm comm, inter;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_split(MPI_COMM_WORLD, me != 0, me, &comm);
	MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	if (!me) {
		MPI_Open_port(MPI_INFO_NULL, closed);
		MPI_Close_port(closed);
		MPI_Open_port(MPI_INFO_NULL, name);
		nobody_comes(name);
	}
	MPI_Bcast(name, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	MPI_Bcast(closed, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
	if (me) {
		not_connected(comm, closed, "60", MPI_ERR_PORT, "nobody listens");
		not_connected(comm, name, "0.1", MPI_ERR_PORT, "MPI_Comm_accept within 0.1 s (info's key timeout)");
		not_connected(comm, name, "1e-12", MPI_ERR_PORT, "info's key timeout");
		not_connected(comm, name, NULL, MPI_ERR_PORT, "");
		not_connected(comm, name, "soon", MPI_ERR_INFO_VALUE, "\"soon\"");
		not_connected(comm, name, "-1", MPI_ERR_INFO_VALUE, "\"-1\"");
		not_connected(comm, name, "1s", MPI_ERR_INFO_VALUE, "\"1s\"");
		by_no_port(comm, is_root, name, 0, "0.1");
		by_no_port(comm, is_root, name, 1, "60");
		if (is_root)
			must(!kill(pid, SIGSTOP), "stopping the server");
		not_connected(comm, name, "0.1", MPI_ERR_PORT, "MPI_Comm_accept");
		if (is_root)
			must(!kill(pid, SIGCONT), "continuing the server");
	}
	/* clients that have given up do not count: the port serves the next one */
	MPI_Barrier(MPI_COMM_WORLD);
	if (np == 2)
		accepted_slowly(name, comm);
	if (me) {
		MPI_Info info = seconds("60");

		MPI_Comm_connect(name, info, np - 2, comm, &inter);
		MPI_Info_free(&info);
	} else {
		MPI_Comm_accept(name, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
		MPI_Close_port(name);
	}
	MPI_Barrier(inter);
	MPI_Comm_disconnect(&inter);
	MPI_Comm_free(&comm);
}

/* Ranks that exchange no message look each other up, for a receive that is cancelled. */
static void apart(MPI_Comm pair, int fd)
{
	MPI_Comm inter = leaders_meet(pair);
	MPI_Request req;
	char c;

	for (int r = 0; r < np; r++) {
		MPI_Irecv(&c, 1, MPI_CHAR, r, 0, inter, &req);
		MPI_Cancel(&req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
	MPI_Comm_disconnect(&inter);
	MPI_Comm_disconnect(&pair);
	if (side)
		CHECK(!read(fd, &c, 1));	/* the other process keeps the socket open until the end of the process */
}

/* The other job has ended or is about to: operations with that job fail, and operations within this job go on. */
static void survive(MPI_Comm pair)
{
	int v = 1, sum, rc, class, n;
	char text[MPI_MAX_ERROR_STRING];

	MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
	MPI_Send(&v, 1, MPI_INT, 0, 98, pair);
	rc = MPI_Recv(&v, 1, MPI_INT, 0, 99, pair, MPI_STATUS_IGNORE);
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_PROC_ABORTED);
	MPI_Error_string(rc, text, &n);
	for (int i = 0; i < 1000 && !(rc = MPI_Send(&v, 1, MPI_INT, 0, 99, pair)); i++)
		;
	CHECK(rc);
	for (int i = 0; i < 100; i++) {
		MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		CHECK(sum == np * (np - 1) / 2);
	}
	MPI_Comm_free(&pair);
}

/* The last rank of side 1 is killed. The ranks that detect the death make the other ranks' collectives fail, too. */
static void lose(MPI_Comm inter)
{
	int rank, sum, rc = 0, class = 0, one = 1;
	MPI_Comm all, none;
	MPI_Group group;

	MPI_Intercomm_merge(inter, side, &all);
	MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
	MPI_Comm_rank(all, &rank);
	for (int i = 0; i < 100000 && !rc; i++) {
		if (rank == 2 * np - 1 && i == 50)
			raise(SIGKILL);
		rc = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
	}
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_PROC_ABORTED);
	MPI_Comm_group(all, &group);
	rc = MPI_Comm_create_from_group(group, "lost", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none);
	MPI_Error_class(rc, &class);
	CHECK(class == MPI_ERR_PROC_ABORTED);
	MPI_Group_free(&group);
}

int main(int argc, char **argv)
{
	MPI_Comm pair;
	int fd, n, dies = argc > 3 && !strcmp(argv[3], "die"), leaves = argc > 3 && !strcmp(argv[3], "leave");
	int loses = argc > 3 && !strcmp(argv[3], "lose");

	MPI_Init_thread(NULL, NULL, argc > 3 && !strcmp(argv[3], "strangers") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &n);
	if (argc < 3)
		return 2;
	side = atoi(argv[2]);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	if (argc > 3 && !strcmp(argv[3], "port")) {
		by_port(argv[1]);
		goto end;
	}
	if (argc > 3 && !strcmp(argv[3], "first")) {
		first_messages(argv[1]);
		goto end;
	}
	if (argc > 3 && !strcmp(argv[3], "strangers")) {
		strangers(argv[1]);
		goto end;
	}
	if (argc > 3 && !strcmp(argv[3], "unanswered")) {
		unanswered();
		goto end;
	}
	if (argc > 3 && !strcmp(argv[3], "full")) {
		full(argv[1]);
		goto end;
	}
	if (argc > 4 && !strcmp(argv[3], "visits")) {
		visits(argv[1], atoi(argv[4]));
		goto end;
	}
	if (loses && me) {
		lose(leaders_meet(MPI_COMM_NULL));
		goto lost;
	}
	fd = meet(argv[1]);
	MPI_Comm_join(fd, &pair);
	/* the socket is the program's again, and has no bytes left */
	CHECK(write(fd, "x", 1) == 1 && read(fd, &(char){ 0 }, 1) == 1);
	if (argc > 3 && !strcmp(argv[3], "apart")) {
		apart(pair, fd);
		goto end;
	}
	close(fd);
	if (pair == MPI_COMM_NULL) {
		puts("no communication");
		MPI_Finalize();
		return 3;
	}
	MPI_Comm_remote_size(pair, &n);
	CHECK(n == 1);
	talk(pair, 0, 0, 0);
	if (loses) {
		lose(leaders_meet(pair));
		goto lost;
	}
	if (leaves && side) {
		MPI_Recv(&n, 1, MPI_INT, 0, 98, pair, MPI_STATUS_IGNORE);
		goto end;
	}
	if (dies && side) {	/* when no rank waits for another any more */
		MPI_Recv(&n, 1, MPI_INT, 0, 98, pair, MPI_STATUS_IGNORE);
		MPI_Barrier(MPI_COMM_WORLD);
		raise(SIGKILL);
	}
	if (dies || leaves) {
		survive(pair);
	} else {
		together(leaders_meet(pair));
		MPI_Comm_disconnect(&pair);
	}
end:
	MPI_Barrier(MPI_COMM_WORLD);
lost:
	if (!me && !failed)
		printf("side %d: ok\n", side);
	MPI_Finalize();
	return failed;
}
