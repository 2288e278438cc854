/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two jobs that were started apart become one: mpi_comm_join PATH SIDE [die | lose | leave | apart | port | first | strangers |
 * full | unanswered | visits N]. Side 0 listens on sockets in the file system (PATH.RANK), side 1 connects. Both have as many
 * ranks, and rank r of each joins rank r of the other. Then the leaders' pair brings all ranks together. port: instead, the jobs
 * connect by a port of side 0's last rank, several times. first: the same, once; the jobs may have different sizes, and side 0
 * sends to all of side 1 as soon as it can. strangers: the same, of one rank each, while others come to the port who are no
 * processes of MPI, or fall silent. unanswered: one job alone, whose first rank has a port and accepts late, or never.
 * HEDDLE_CONNECT_TIMEOUT has to be short. visits: the same, N times, each time with another job: the script looks at what side 0
 * still has of those that have ended. full: rank 1 of side 0 cannot name one more job: no rank of either gets an
 * intercommunicator, and none waits for ever. die: of side 1 every rank ends itself then, and side 0 goes on without them.
 * leave: it calls MPI_Finalize, though side 0 waits for it. lose: only the leaders join; side 1's last rank ends itself in the
 * middle of what all ranks do together; all others are told, and call MPI_Finalize. apart: most ranks never send each other
 * anything, and side 1 calls MPI_Finalize when side 0 has ended.
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

/* A connected socket. Who connects tries until the other one listens, for half a minute. */
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

/* Messages of some lengths to a rank of an intercommunicator's other group, and from it. */
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

/* An intercommunicator of all ranks of both jobs. */
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

/* All ranks of both jobs, by the leaders' intercommunicator. */
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

/* Side 0's last rank writes the port's name into a file, under another name until it is complete. */
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
		/* a secret that is none: sent away, and the port goes on */
		snprintf(wrong, sizeof(wrong), "%.*s1", (int)strlen(name) - 1, name);
		wrong[strlen(wrong) - 1] ^= wrong[strlen(wrong) - 1] == name[strlen(name) - 1] ? 3 : 0;
	}
	if (side)
		refuses(comm, wrong, 0);
	for (int i = 0; i < 3; i++) {		/* the names matter at the roots alone */
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

/* Each visitor is sent enough to be given a ring, as it gives one. */
static void visits(const char *path, int times)
{
	char name[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter, all;
	int n, v;

	/* the connection between ranks of this job is there before the first visitor: it is none of what a visitor leaves */
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

/* Nobody may be sent anything before it knows the sender: kinds that send without asking would lose it. */
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
	/* the last ones hear last of the others */
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

/* How many bytes come before the other end closes. */
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

/* Between a visitor and the port: passes on what both say of themselves, but the visitor's verdict is not heard: as if it had
 * been stopped there. Only then the visitor goes on. */
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

/* Who goes between has the last word kept from the port: nobody may take this for a meeting. */
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

/* Neither side of a socket is left waiting where the other one speaks something else. */
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

/* A thread that waits there is woken. */
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

/* A visitor that comes a second behind this rank, and is heard however long that takes: with a wrong secret it is told so. */
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
		/* both are at the door, and one of them waits behind the other's meeting for longer than who says nothing may */
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
		/* nobody is told anything who has not said the secret; and who says nothing does not hold the port for ever */
		s = dial(number);
		CHECK(write(s, garbage, sizeof(garbage)) == sizeof(garbage));
		CHECK(heard_until_end(s) == 0);
		CHECK(heard_until_end(dial(number)) == 0);
		fall_silent(name, number);
		/* so many, one behind the other, would take longer than this test has; some have begun to say who they are */
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

/* Of a job with so many ranks that this process has no numbers left. Its process cannot be reached. */
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

	/* how they begin, this process says itself */
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

/* ---- nobody accepts -------------------------------------------------------------------------------------- */

struct server {
	int listens;
	int closes;			/* as soon as it has heard something; else it says nothing until the visitor leaves */
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

/* All ranks of comm are told so; port and info matter at the root, the last one. word: in what the root is told. */
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

/* A server that is none, on a port of its own, under the name of another one. */
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

/* Between a visitor and the port: the port's last word takes longer than the visitor's timeout. */
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

/* Who has been accepted does not give up any more: the other side has a communicator with it. */
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
	/* those who have given up are none: the next one is served */
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

/* Ranks that never exchange anything look each other up, for a receive that is cancelled. */
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
		CHECK(!read(fd, &c, 1));	/* the other process has the socket open until it ends */
}

/* The other job has ended, or will. */
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

/* One rank of the other job, or of this one, ends; who is told tells the others. */
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
	/* the socket is the program's again, and quiet */
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
	if (dies && side) {	/* when nobody waits for anything any more */
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
