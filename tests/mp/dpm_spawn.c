/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spawned processes, parents and children in one program: dpm_spawn CASE [arguments]. The children are this program with CASE
 * "child" and the name of their part. dpm_spawn.sh has each case's expected output and exit code.
 */
#include "dpm_test.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *self;

static MPI_Info info_of(const char *key, const char *value)
{
	MPI_Info info;

	MPI_Info_create(&info);
	MPI_Info_set(info, key, value);
	return info;
}

/* Spawns n children that do `what`. */
static MPI_Comm children(int n, char *what, MPI_Info info, MPI_Comm comm, int root)
{
	char child[] = "child", *argv[] = { child, what, NULL };
	MPI_Comm inter = MPI_COMM_NULL;
	int codes[64], size;

	memset(codes, -1, sizeof(codes));
	CHECK(MPI_Comm_spawn(self, argv, n, info, root, comm, &inter, codes) == MPI_SUCCESS);
	for (int i = 0; i < n; i++)
		CHECK(codes[i] == MPI_SUCCESS);
	CHECK(codes[n] == -1);
	MPI_Comm_remote_size(inter, &size);
	CHECK(size == n);
	return inter;
}

/* With --on-death=continue: the last rank of `all` is killed between two collectives, and each other rank gets an error from
 * there on, from any of them. */
static void until_death(MPI_Comm all)
{
	enum { BEFORE = 40, LARGE = 40000 };
	static double a[LARGE], b[LARGE];
	int n, r, v, rc = MPI_SUCCESS;

	MPI_Comm_size(all, &n);
	MPI_Comm_rank(all, &r);
	MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
	for (int i = 0; i < BEFORE; i++) {
		for (int k = 0; k < LARGE; k += 1000)
			a[k] = r + i + k;
		CHECK(!MPI_Allreduce(&r, &v, 1, MPI_INT, MPI_SUM, all) && v == n * (n - 1) / 2);
		if (i % 8)
			continue;
		CHECK(!MPI_Allreduce(a, b, LARGE, MPI_DOUBLE, MPI_SUM, all));
		for (int k = 0; k < LARGE; k += 1000)
			CHECK(b[k] == n * (n - 1) / 2.0 + (double)n * (i + k));
	}
	if (r == n - 1)
		raise(SIGKILL);
	while (!rc)
		rc = MPI_Allreduce(&r, &v, 1, MPI_INT, MPI_SUM, all);
	CHECK(class_of(rc) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Allreduce(a, b, LARGE, MPI_DOUBLE, MPI_SUM, all)) == MPI_ERR_PROC_ABORTED);
	CHECK(class_of(MPI_Barrier(all)) == MPI_ERR_PROC_ABORTED);
}

/* ---- children ------------------------------------------------------------------------------------------- */

static void child_get_parent(void)
{
	char name[MPI_MAX_OBJECT_NAME];
	MPI_Comm again, copy;
	int n, inter;

	MPI_Comm_get_name(parent, name, &n);
	CHECK(!strcmp(name, "MPI_COMM_PARENT"));
	MPI_Comm_test_inter(parent, &inter);
	CHECK(inter);
	MPI_Comm_get_parent(&again);
	CHECK(again == parent);
	CHECK(!getenv("HEDDLE_PARENT_PORT"));
	together(&parent, 1);
	MPI_Comm_get_parent(&again);
	CHECK(again == MPI_COMM_NULL);
	MPI_Comm_dup(MPI_COMM_SELF, &copy);	/* at the same address, perhaps */
	MPI_Comm_get_parent(&again);
	CHECK(again == MPI_COMM_NULL);
	MPI_Comm_free(&copy);
}

/* Sends rank 0 of the parents a text, and frees the parents. */
static void child_report(const char *text)
{
	if (!me)
		MPI_Send(text, (int)strlen(text) + 1, MPI_CHAR, 0, 5, parent);
	MPI_Comm_disconnect(&parent);
}

/* Returns the name of the file by which parents let children go on with which they have no communicator. */
static const char *alone_file(char name[4096])
{
	snprintf(name, 4096, "%s/dpm-alone.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getppid());
	return name;
}

/* Returns when the launcher has processed all earlier reports of the ranks: by a question, whose answer comes behind them. */
static void reported_to_launcher(void)
{
	char port[MPI_MAX_PORT_NAME];

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	CHECK(MPI_Lookup_name("dpm-no-such-name", MPI_INFO_NULL, port));
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The children and the parents disconnect, and connect by a port: from then on they are two jobs that are connected, and no
 * children of parents. Returns when the launcher knows. */
static MPI_Comm connected_again(MPI_Comm inter, int is_child)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm again;

	if (is_child) {
		if (!me)
			MPI_Recv(port, sizeof(port), MPI_CHAR, 0, 6, inter, MPI_STATUS_IGNORE);
		MPI_Comm_disconnect(&inter);
		CHECK(!MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again));
	} else {
		if (!me) {
			CHECK(!MPI_Open_port(MPI_INFO_NULL, port));
			MPI_Send(port, sizeof(port), MPI_CHAR, 0, 6, inter);
		}
		MPI_Comm_disconnect(&inter);
		CHECK(!MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &again));
	}
	reported_to_launcher();
	MPI_Barrier(again);
	return again;
}

static void child(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[2] : "";
	char text[4096] = "";
	int *number, flag;
	MPI_Errhandler handler;
	MPI_Comm inter;

	if (!strcmp(what, "meet") || !strcmp(what, "meet_threads")) {
		child_get_parent();
	} else if (!strcmp(what, "argv")) {
		for (int i = 0; i < argc; i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "[%s]", i ? argv[i] : "");
		child_report(text);
	} else if (!strcmp(what, "wdir")) {
		child_report(getcwd(text, sizeof(text)));
	} else if (!strcmp(what, "env")) {
		child_report(getenv("DPM_TEST") ? getenv("DPM_TEST") : "none");
	} else if (!strcmp(what, "appnum")) {
		MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
		CHECK(flag && *number == atoi(argv[3]));
		MPI_Comm_size(MPI_COMM_WORLD, &flag);
		CHECK(flag == 5);
		together(&parent, 1);
	} else if (!strcmp(what, "errhandler")) {
		MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
		CHECK(handler == MPI_ERRORS_RETURN);
		MPI_Comm_get_errhandler(parent, &handler);
		CHECK(handler == MPI_ERRORS_RETURN);
		MPI_Comm_disconnect(&parent);
	} else if (!strcmp(what, "merged")) {
		MPI_Intercomm_merge(parent, 1, &inter);
		until_death(inter);
	} else if (!strcmp(what, "grandchild")) {
		inter = children(2, (char[]){ "meet" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		together(&inter, 0);
		together(&parent, 1);
	} else if (!strcmp(what, "wait")) {
		MPI_Recv(&flag, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
	} else if (!strcmp(what, "die")) {
		if (me == 1)
			raise(SIGKILL);
		MPI_Recv(&flag, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
	} else if (!strcmp(what, "again")) {
		inter = connected_again(parent, 1);
		if (me == 1)
			raise(SIGKILL);
		MPI_Recv(&flag, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
	} else if (!strcmp(what, "alone")) {
		MPI_Comm_disconnect(&parent);
		reported_to_launcher();
		while (!me && access(alone_file(text), F_OK))
			usleep(20000);
		if (!me)
			exit(7);
		pause();
	} else if (!strcmp(what, "abort")) {
		MPI_Abort(MPI_COMM_WORLD, 9);
	} else if (!strcmp(what, "late")) {	/* outlives the parents */
		MPI_Comm_disconnect(&parent);
		usleep(500000);
		printf("late child %d\n", me);
	} else {
		MPI_Comm_disconnect(&parent);
	}
}

/* ---- cases ---------------------------------------------------------------------------------------------- */

static void case_meet(void)
{
	MPI_Comm inter;

	MPI_Comm_get_parent(&inter);
	CHECK(inter == MPI_COMM_NULL);
	for (int n = 1; n <= 3; n++) {
		inter = children(n, (char[]){ "meet" }, MPI_INFO_NULL, MPI_COMM_WORLD, n % np);
		together(&inter, 0);
	}
}

/* Fails unless rank 0 of the children reports this text. */
static void reported(MPI_Comm inter, const char *text)
{
	char got[4096] = "";

	if (!me) {
		MPI_Recv(got, sizeof(got), MPI_CHAR, 0, 5, inter, MPI_STATUS_IGNORE);
		CHECK(!strcmp(got, text));
		if (strcmp(got, text))
			fprintf(stderr, "got %s\n", got);
	}
	MPI_Comm_disconnect(&inter);
}

static void case_arguments(void)
{
	char c[] = "child", a[] = "argv", b[] = "", d[] = "with space", e[] = "-n", *argv[] = { c, a, b, d, e, NULL };
	char here[4096], there[] = "/";
	MPI_Comm inter;
	MPI_Info info;
	FILE *f;

	CHECK(!MPI_Comm_spawn(self, me ? NULL : argv, me ? -1 : 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter,
			      MPI_ERRCODES_IGNORE));
	reported(inter, "[][child][argv][][with space][-n]");
	reported(children(1, (char[]){ "wdir" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0), getcwd(here, sizeof(here)));
	info = info_of("wdir", there);
	reported(children(2, (char[]){ "wdir" }, info, MPI_COMM_WORLD, 0), there);
	MPI_Info_free(&info);
	info = info_of("env", "DPM_TEST=a b\nOTHER=c");
	reported(children(1, (char[]){ "env" }, info, MPI_COMM_WORLD, 0), "a b");
	MPI_Info_free(&info);
	/* the keys of a file; info's own come first */
	snprintf(here, sizeof(here), "%s/dpm.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
	if ((f = fopen(here, "w"))) {
		fprintf(f, "# where\nwdir = /usr\n\nhost=localhost\nenv = DPM_TEST=f\n");
		fclose(f);
		info = info_of("file", here);
		reported(children(1, (char[]){ "wdir" }, info, MPI_COMM_WORLD, 0), "/usr");
		reported(children(1, (char[]){ "env" }, info, MPI_COMM_WORLD, 0), "f");
		MPI_Info_set(info, "wdir", there);
		reported(children(1, (char[]){ "wdir" }, info, MPI_COMM_WORLD, 0), there);
		MPI_Info_free(&info);
		remove(here);
	}
	info = info_of("mpi_initial_errhandler", "mpi_errors_return");
	inter = children(1, (char[]){ "errhandler" }, info, MPI_COMM_WORLD, 0);
	MPI_Comm_disconnect(&inter);
	MPI_Info_free(&info);
}

/* The program by its name alone, in the directories of `path`. */
static void case_path(void)
{
	char dir[4096], *argv[] = { (char[]){ "child" }, (char[]){ "meet" }, NULL };
	const char *slash = strrchr(self, '/');
	MPI_Comm inter;
	MPI_Info info;

	snprintf(dir, sizeof(dir), "/nowhere:%.*s", (int)(slash - self), self);
	info = info_of("path", dir);
	CHECK(!MPI_Comm_spawn(slash + 1, argv, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	together(&inter, 0);
	MPI_Info_free(&info);
}

/* Waits until earlier children have ended: beside the parents there is the guard. */
static void alone(void)
{
	for (int i = 0; i < 1000 && of_launcher() > np + 1; i++)
		usleep(10000);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* universe: what --universe says, np included. */
static void case_soft(int universe)
{
	static const struct { const char *soft; int most, want, of_2; } sets[] = {	/* of_2: where there is room for 2 */
		{ "1:8", 3, 3, 2 }, { "2,1", 3, 2, 2 }, { "5,1:6:2", 4, 3, 1 }, { "4:1:-2", 3, 2, 2 }, { " 1 , 2 ", 2, 2, 2 },
	};
	char *argv[] = { (char[]){ "child" }, (char[]){ "end" }, NULL };
	MPI_Comm inter;
	MPI_Info info;
	int n, codes[8], want, rc, root = np - 1;

	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		info = info_of("soft", sets[i].soft);
		want = universe ? sets[i].of_2 : sets[i].want;
		alone();
		CHECK(!MPI_Comm_spawn(self, argv, sets[i].most, info, root, MPI_COMM_WORLD, &inter, codes));
		MPI_Comm_remote_size(inter, &n);
		CHECK(n == want);
		for (int k = 0; k < sets[i].most; k++)
			CHECK(codes[k] == (k < want ? MPI_SUCCESS : MPI_ERR_SPAWN));
		MPI_Comm_disconnect(&inter);
		MPI_Info_free(&info);
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	info = info_of("soft", "1:");
	CHECK(class_of(MPI_Comm_spawn(self, argv, 2, info, root, MPI_COMM_WORLD, &inter, codes)) == MPI_ERR_INFO_VALUE);
	MPI_Info_set(info, "soft", "7:9");
	CHECK(class_of(MPI_Comm_spawn(self, argv, 2, info, root, MPI_COMM_WORLD, &inter, codes)) == MPI_ERR_SPAWN);
	MPI_Info_free(&info);
	if (universe) {
		alone();
		rc = MPI_Comm_spawn(self, argv, universe, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes);
		CHECK(class_of(rc) == MPI_ERR_SPAWN && (me != root || says(rc, "--universe")));
		CHECK(codes[0] == MPI_ERR_SPAWN);
	}
}

static void case_multiple(void)
{
	char c[] = "child", a[] = "appnum", zero[] = "0", one[] = "1";
	char *first[] = { c, a, zero, NULL }, *second[] = { c, a, one, NULL }, **argvs[] = { first, second };
	char *commands[] = { (char *)self, (char *)self };
	int counts[] = { 2, 3 }, codes[6] = { 9, 9, 9, 9, 9, 9 }, n;
	MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL };
	MPI_Comm inter;

	CHECK(!MPI_Comm_spawn_multiple(2, commands, argvs, counts, infos, 0, MPI_COMM_WORLD, &inter, codes));
	MPI_Comm_remote_size(inter, &n);
	CHECK(n == 5);
	for (int i = 0; i < 5; i++)
		CHECK(codes[i] == MPI_SUCCESS);
	CHECK(codes[5] == 9);
	together(&inter, 0);
	/* two programs, of which the second has a number of its own choice */
	infos[1] = info_of("soft", "1,2");
	for (int i = 0; i < 2; i++)
		argvs[i] = (char *[]){ c, NULL };
	first[1] = second[1] = NULL;
	CHECK(!MPI_Comm_spawn_multiple(2, commands, (char **[]){first, second}, counts, infos, 0, MPI_COMM_WORLD, &inter,
				       codes));
	MPI_Comm_remote_size(inter, &n);
	CHECK(n == 4);
	for (int i = 0; i < 5; i++)
		CHECK(codes[i] == (i < 4 ? MPI_SUCCESS : MPI_ERR_SPAWN));
	MPI_Comm_disconnect(&inter);
	MPI_Info_free(&infos[1]);
}

static void refuse(const char *command, MPI_Info info, int n, int class, const char *text)
{
	char *argv[] = { (char[]){ "child" }, (char[]){ "end" }, NULL };
	int codes[4] = { 0 }, rc;
	MPI_Comm inter = MPI_COMM_WORLD;

	rc = MPI_Comm_spawn(command, argv, n, info, 0, MPI_COMM_WORLD, &inter, codes);
	CHECK(class_of(rc) == class && (me || says(rc, text)));
	CHECK(inter == MPI_COMM_NULL);
	for (int i = 0; i < n && class == MPI_ERR_SPAWN; i++)
		CHECK(codes[i] == MPI_ERR_SPAWN);
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
}

/* More processes in all than an int counts; in some entries a program that does not exist. */
static void refuse_many(void)
{
	char *commands[] = { (char *)self, (char *)self, (char[]){ "/no/such/program" } };
	int many[] = { 2, INT_MAX - 1 }, some[] = { 1, 1, 2 }, codes[4] = { 9, 9, 9, 9 }, rc;
	MPI_Info infos[] = { MPI_INFO_NULL, MPI_INFO_NULL, MPI_INFO_NULL };
	MPI_Comm inter = MPI_COMM_WORLD;

	rc = MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, many, infos, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
	CHECK(class_of(rc) == MPI_ERR_SPAWN && (me || says(rc, "array_of_maxprocs")));
	CHECK(inter == MPI_COMM_NULL);
	rc = MPI_Comm_spawn_multiple(3, commands, MPI_ARGVS_NULL, some, infos, 0, MPI_COMM_WORLD, &inter, codes);
	CHECK(class_of(rc) == MPI_ERR_SPAWN && (me || says(rc, "/no/such/program")));
	CHECK(inter == MPI_COMM_NULL);
	for (int i = 0; i < 4; i++)
		CHECK(codes[i] == MPI_ERR_SPAWN);
	/* as many as an int counts: the launcher refuses them, and no rank has to make an array of that length */
	rc = MPI_Comm_spawn(self, MPI_ARGV_NULL, INT_MAX, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
	CHECK(class_of(rc) == MPI_ERR_SPAWN);
}

/* Writes HEDDLE_INIT_TIMEOUT, in microseconds. */
static void set_init_timeout(unsigned long long us)
{
	MPI_T_cvar_handle handle;
	int provided, index, count;

	CHECK(!MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) && !MPI_T_cvar_get_index("HEDDLE_INIT_TIMEOUT", &index));
	CHECK(!MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) && !MPI_T_cvar_write(handle, &us));
	MPI_T_cvar_handle_free(&handle);
	MPI_T_finalize();
}

/* A program that goes on and never calls MPI_Init: the spawn fails after HEDDLE_INIT_TIMEOUT, and heddlerun ends the program. */
static void refuse_never(void)
{
	char file[300], command[400], *argv[] = { (char[]){ "-c" }, command, NULL };
	MPI_Comm inter = MPI_COMM_WORLD;
	int rc, pid = 0;
	FILE *f;

	snprintf(file, sizeof(file), "%.200s/dpm-never.%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
	snprintf(command, sizeof(command), "echo $$ >%s; exec sleep 100000", file);
	set_init_timeout(1000000);
	rc = MPI_Comm_spawn("sh", argv, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
	CHECK(class_of(rc) == MPI_ERR_SPAWN && (me || says(rc, "HEDDLE_INIT_TIMEOUT")) && inter == MPI_COMM_NULL);
	set_init_timeout(60000000);
	/* rank 0's, which has spawned; no file: it was ended before it wrote */
	f = fopen(file, "r");
	if (f) {
		CHECK(fscanf(f, "%d", &pid) == 1 || feof(f));
		fclose(f);
		remove(file);
	}
	for (int i = 0; i < 6000 && pid && !kill(pid, 0); i++)
		usleep(10000);
	CHECK(!pid || kill(pid, 0));
}

static void case_refused(void)
{
	MPI_Comm inter;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	refuse("/no/such/program", MPI_INFO_NULL, 2, MPI_ERR_SPAWN, "no such program");
	refuse("no-such-program", MPI_INFO_NULL, 1, MPI_ERR_SPAWN, "no such program");
	refuse("/etc/passwd", MPI_INFO_NULL, 1, MPI_ERR_SPAWN, "cannot be executed");
	refuse("/etc", MPI_INFO_NULL, 1, MPI_ERR_SPAWN, "directory");
	refuse("", MPI_INFO_NULL, 1, MPI_ERR_ARG, "empty");
	refuse(self, MPI_INFO_NULL, 0, MPI_ERR_ARG, "maxprocs");
	refuse(self, info_of("wdir", "/no/such"), 1, MPI_ERR_SPAWN, "/no/such");
	refuse(self, info_of("host", "elsewhere"), 1, MPI_ERR_SPAWN, "elsewhere");
	refuse(self, info_of("arch", "pdp11"), 1, MPI_ERR_SPAWN, "pdp11");
	refuse(self, info_of("file", "/no/such"), 1, MPI_ERR_INFO_VALUE, "/no/such");
	refuse(self, info_of("bind_to", "moon"), 1, MPI_ERR_SPAWN, "moon");
	refuse(self, info_of("mpi_initial_errhandler", "mpi_errors"), 1, MPI_ERR_INFO_VALUE, "mpi_errors");
	refuse("/bin/true", MPI_INFO_NULL, 2, MPI_ERR_SPAWN, "without MPI_Init");
	refuse("/bin/false", MPI_INFO_NULL, 1, MPI_ERR_SPAWN, "exit code 1");
	CHECK(class_of(MPI_Comm_spawn(self, NULL, 1, MPI_INFO_NULL, np, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE)) ==
	      MPI_ERR_ROOT);
	CHECK(class_of(MPI_Comm_spawn_multiple(0, NULL, NULL, NULL, NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE)) ==
	      MPI_ERR_ARG);
	refuse_many();
	refuse_never();
	/* and it goes on */
	inter = children(2, (char[]){ "meet" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
	together(&inter, 0);
}

static void case_by_spawned(void)
{
	MPI_Comm inter = children(2, (char[]){ "grandchild" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);

	together(&inter, 0);
}

static void *spawns_alone(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;

	for (int i = 0; i < 4; i++) {
		MPI_Comm inter = children(1, i % 2 ? (char[]){ "meet" } : (char[]){ "meet_threads" }, MPI_INFO_NULL, comm, 0);
		together(&inter, 0);
	}
	return NULL;
}

static void *spawns_once(void *arg)
{
	MPI_Comm inter = children(1, (char[]){ "meet_threads" }, MPI_INFO_NULL, *(MPI_Comm *)arg, 0);

	together(&inter, 0);
	return NULL;
}

/* Two threads of each rank, each with a communicator of its own; then two halves of the world; then many threads of each rank.
 * Some of the children have MPI_THREAD_MULTIPLE, too. */
static void case_concurrent(void)
{
	enum { AT_ONCE = 8 };
	pthread_t thread, threads[AT_ONCE];
	MPI_Comm each[AT_ONCE];
	MPI_Comm a, b;

	MPI_Comm_dup(MPI_COMM_WORLD, &a);
	MPI_Comm_dup(MPI_COMM_WORLD, &b);
	pthread_create(&thread, NULL, spawns_alone, &a);
	spawns_alone(&b);
	pthread_join(thread, NULL);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, 0, &a);
	spawns_alone(&a);
	MPI_Comm_free(&a);
	for (int i = 0; i < AT_ONCE; i++) {
		MPI_Comm_dup(MPI_COMM_SELF, &each[i]);
		pthread_create(&threads[i], NULL, spawns_once, &each[i]);
	}
	for (int i = 0; i < AT_ONCE; i++) {
		pthread_join(threads[i], NULL);
		MPI_Comm_free(&each[i]);
	}
}

static int descriptors(int pid)
{
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* KiB of a process's own memory. */
static long memory(int pid)
{
	char line[256];
	long kib = 0;
	FILE *f;

	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	f = fopen(line, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* Each spawn must leave no descriptor, and less than MOST_KIB of memory. */
static void case_loop(int times)
{
	enum { WARM = 10, MOST_KIB = 16, BACKLOG_KIB = 2048 };	/* BACKLOG_KIB: of children that have just ended */
	int fds = 0, fds_launcher = 0;
	long kib = 0, kib_launcher = 0;
	MPI_Comm inter;

	for (int i = 0; i < times + WARM; i++) {
		if (i == WARM) {
			fds = descriptors(getpid());
			fds_launcher = descriptors(getppid());
			kib = memory(getpid());
			kib_launcher = memory(getppid());
		}
		inter = children(2, i % 2 ? (char[]){ "meet" } : (char[]){ "end" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		if (i % 2)
			together(&inter, 0);
		else
			MPI_Comm_disconnect(&inter);
	}
	inter = children(1, (char[]){ "meet" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);	/* the last but one has ended by now */
	together(&inter, 0);
	CHECK(descriptors(getpid()) <= fds + 1);
	CHECK(memory(getpid()) - kib < (long)times * MOST_KIB + BACKLOG_KIB);
	if (!me) {
		for (int i = 0; i < 200 && descriptors(getppid()) > fds_launcher; i++)
			usleep(10000);
		CHECK(descriptors(getppid()) <= fds_launcher);
		CHECK(memory(getppid()) - kib_launcher < (long)times * MOST_KIB + BACKLOG_KIB);
		fprintf(stderr, "%d spawns: a parent has %ld KiB more, the launcher %ld KiB\n", times, memory(getpid()) - kib,
		       memory(getppid()) - kib_launcher);
	}
}

/* The children or the parents end in the middle; the exit code shows which end counted. */
static void case_ends(const char *how)
{
	char file[4096];
	MPI_Comm inter;
	int v, rc;

	if (!strcmp(how, "parent") || !strcmp(how, "hang")) {
		inter = children(2, (char[]){ "wait" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		if (!me && *how == 'p')
			raise(SIGKILL);
	} else if (!strcmp(how, "child")) {
		inter = children(2, (char[]){ "die" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
	} else if (!strcmp(how, "again")) {
		inter = connected_again(children(2, (char[]){ "again" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0), 0);
	} else if (!strcmp(how, "aborted")) {
		inter = children(2, (char[]){ "abort" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
	} else if (!strcmp(how, "alone")) {		/* a job of its own: its failure ends no other process */
		inter = children(2, (char[]){ "alone" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		MPI_Comm_disconnect(&inter);
		reported_to_launcher();
		if (!me)
			fclose(fopen(alone_file(file), "w"));
		alone();
		printf("the parents go on\n");
		if (!me)
			remove(alone_file(file));
		return;
	} else if (!strcmp(how, "merged")) {		/* --on-death=continue */
		inter = children(2, (char[]){ "merged" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		MPI_Intercomm_merge(inter, 0, &inter);
		until_death(inter);
		MPI_Barrier(MPI_COMM_WORLD);
		printf("rank %d goes on\n", me);
		return;
	} else if (!strcmp(how, "survives")) {		/* --on-death=continue */
		inter = children(2, (char[]){ "die" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
		rc = MPI_Recv(&v, 1, MPI_INT, 1, 0, inter, MPI_STATUS_IGNORE);
		CHECK(class_of(rc) == MPI_ERR_PROC_ABORTED);
		v = 0;
		if (!me)
			MPI_Send(&v, 1, MPI_INT, 0, 0, inter);
		return;
	} else {
		inter = children(2, (char[]){ "late" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);
		MPI_Comm_disconnect(&inter);
		return;
	}
	MPI_Recv(&v, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
}

/* The parents call nothing of MPI meanwhile: children that have disconnected end all the same. */
static void case_lingers(void)
{
	MPI_Comm inter = children(2, (char[]){ "end" }, MPI_INFO_NULL, MPI_COMM_WORLD, 0);

	MPI_Comm_disconnect(&inter);
	for (int i = 0; i < 1000 && of_launcher() > np + 1; i++)
		usleep(10000);
	CHECK(of_launcher() <= np + 1);
}

/* ---- without a launcher --------------------------------------------------------------------------------- */

static void case_singleton(void)
{
	int status = 0, pid;
	MPI_Comm inter;

	CHECK(np == 1);
	case_meet();
	inter = children(2, (char[]){ "grandchild" }, MPI_INFO_NULL, MPI_COMM_SELF, 0);
	together(&inter, 0);
	/* heddlerun is no child of the program, and a program that is started from here is alone */
	CHECK(waitpid(-1, &status, WNOHANG) < 0);
	CHECK(!getenv("PMIX_NAMESPACE"));
	pid = fork();
	if (!pid)
		execl(self, self, "alone", NULL);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int level;

	MPI_Init_thread(&argc, &argv, strcmp(what, "concurrent") && (argc < 3 || strcmp(argv[2], "meet_threads")) ?
			MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	self = argc > 1 && getenv("DPM_SELF") ? getenv("DPM_SELF") : argv[0];
	if (!strcmp(what, "child"))
		child(argc, argv);
	else if (!strcmp(what, "meet"))
		case_meet();
	else if (!strcmp(what, "arguments"))
		case_arguments();
	else if (!strcmp(what, "path"))
		case_path();
	else if (!strcmp(what, "soft"))
		case_soft(argc > 2 ? atoi(argv[2]) : 0);
	else if (!strcmp(what, "multiple"))
		case_multiple();
	else if (!strcmp(what, "refused"))
		case_refused();
	else if (!strcmp(what, "by_spawned"))
		case_by_spawned();
	else if (!strcmp(what, "concurrent"))
		case_concurrent();
	else if (!strcmp(what, "loop"))
		case_loop(atoi(argv[2]));
	else if (!strcmp(what, "ends"))
		case_ends(argv[2]);
	else if (!strcmp(what, "lingers"))
		case_lingers();
	else if (!strcmp(what, "singleton"))
		case_singleton();
	MPI_Finalize();
	return failed;
}
