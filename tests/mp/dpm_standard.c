/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chapter 11 of MPI-5.0, sections 11.8 to 11.11, under any MPI: dpm_standard DIRECTORY [CASE...]. Parents and children are this
 * program; the children have "child" and the case as arguments. A wrong value is printed and counted by the parents; children
 * send their count.
 */
#include "io_standard.h"

static MPI_Comm parent = MPI_COMM_NULL;
static char self[1000];

static MPI_Comm spawn(const char *what, int n, MPI_Info info, int root, MPI_Comm comm)
{
	char child[] = "child", name[100], *argv[] = {child, dir, name, NULL};
	MPI_Comm inter = MPI_COMM_NULL;
	int codes[64];

	snprintf(name, sizeof(name), "%s", what);
	for (int i = 0; i < 64; i++)
		codes[i] = -77;
	WORKS(MPI_Comm_spawn(self, argv, n, info, root, comm, &inter, codes));
	for (int i = 0; i < n; i++)
		IS(codes[i], MPI_SUCCESS);
	IS(codes[n], -77);
	if (inter == MPI_COMM_NULL)
		MPI_Abort(MPI_COMM_WORLD, 3);
	return inter;
}

/* Receives the children's count of errors, and disconnects the communicator. */
static void part(MPI_Comm *inter)
{
	int sum = 0, zero = 0;

	if (parent != MPI_COMM_NULL)
		MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, *inter);
	else
		MPI_Allreduce(&zero, &sum, 1, MPI_INT, MPI_SUM, *inter);
	if (parent == MPI_COMM_NULL)
		wrong += sum;
	WORKS(MPI_Comm_disconnect(inter));
	IS(*inter == MPI_COMM_NULL, 1);
}

/* Arguments that may have any value on ranks other than the root (section 11.8.2). */
static void insignificant(void)
{
	char child[] = "child", what[] = "insignificant", *argv[] = {child, dir, what, NULL};

	for (int root = 0; root < np; root++) {
		MPI_Comm inter = MPI_COMM_NULL;
		int codes[2] = {-1, -1};

		if (me == root)
			WORKS(MPI_Comm_spawn(self, argv, 2, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes));
		else
			WORKS(MPI_Comm_spawn(NULL, NULL, -5, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes));
		IS(codes[0], MPI_SUCCESS);
		IS(codes[1], MPI_SUCCESS);
		part(&inter);
	}
}

static void just_part(void)
{
	part(&parent);
}

/* Groups, ranks and names on both sides; the parents in another order than MPI_COMM_WORLD's. */
static void both_sides(void)
{
	MPI_Comm reversed, inter;
	MPI_Group a, b;
	int flag, n, result, key;

	MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &reversed);
	inter = spawn("both_sides", 3, MPI_INFO_NULL, np - 1, reversed);
	MPI_Comm_test_inter(inter, &flag);
	IS(flag, 1);
	MPI_Comm_remote_size(inter, &n);
	IS(n, 3);
	MPI_Comm_size(inter, &n);
	IS(n, np);
	MPI_Comm_group(inter, &a);
	MPI_Comm_group(reversed, &b);
	MPI_Group_compare(a, b, &result);
	IS(result, MPI_IDENT);
	MPI_Group_free(&a);
	MPI_Group_free(&b);
	key = np - 1 - me;
	MPI_Comm_rank(inter, &n);
	IS(n, key);
	/* each parent to each child, and back from any of them */
	for (int i = 0; i < 3; i++)
		MPI_Send(&key, 1, MPI_INT, i, 10 + i, inter);
	for (int i = 0, seen = 0; i < 3; i++) {
		int v[2];
		MPI_Status st;

		MPI_Recv(v, 2, MPI_INT, MPI_ANY_SOURCE, 4, inter, &st);
		IS(v[0], st.MPI_SOURCE);
		IS(v[1], key);
		IS(seen >> v[0] & 1, 0);
		seen |= 1 << v[0];
	}
	MPI_Comm dup;
	MPI_Comm_dup(inter, &dup);
	MPI_Barrier(dup);
	MPI_Comm_disconnect(&dup);
	part(&inter);
	MPI_Comm_free(&reversed);
}

static void both_sides_child(void)
{
	char name[MPI_MAX_OBJECT_NAME];
	int n, parents, *flag, is_set;
	MPI_Comm again, dup;
	MPI_Group a, b;

	IS(np, 3);
	MPI_Comm_get_parent(&again);
	IS(again == parent, 1);
	MPI_Comm_get_name(parent, name, &n);
	IS(strcmp(name, "MPI_COMM_PARENT"), 0);
	MPI_Comm_get_name(MPI_COMM_WORLD, name, &n);
	IS(strcmp(name, "MPI_COMM_WORLD"), 0);
	MPI_Comm_remote_size(parent, &parents);
	MPI_Comm_rank(parent, &n);
	IS(n, me);
	MPI_Comm_group(parent, &a);
	MPI_Comm_group(MPI_COMM_WORLD, &b);
	MPI_Group_compare(a, b, &n);
	IS(n, MPI_IDENT);
	MPI_Group_free(&a);
	MPI_Group_free(&b);
	for (int i = 0; i < parents; i++) {
		int v[2] = {me, -1};

		MPI_Recv(v + 1, 1, MPI_INT, i, 10 + me, parent, MPI_STATUS_IGNORE);
		IS(v[1], i);
		MPI_Send(v, 2, MPI_INT, i, 4, parent);
	}
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &flag, &is_set);
	if (is_set)
		IS(*flag, 0);
	MPI_Comm_dup(parent, &dup);
	MPI_Barrier(dup);
	MPI_Comm_disconnect(&dup);
	part(&parent);
	MPI_Comm_get_parent(&again);
	IS(again == MPI_COMM_NULL, 1);
}

/* Arguments of the children's main: none, empty words, words with blanks and quotes. */
static const char *const words[] = {"",          " ",  "a b", "\"quoted'", "*",        "$HOME", "\\",
				    "new\nline", "-n", "--",  "k=v",       "\xc3\xa4", "#",     ""};
enum { N_WORDS = sizeof(words) / sizeof(words[0]) };

static void arguments(void)
{
	char *argv[N_WORDS + 4], child[] = "child", what[] = "arguments";
	MPI_Comm inter;

	argv[0] = child;
	argv[1] = dir;
	argv[2] = what;
	for (int i = 0; i < N_WORDS; i++)
		argv[3 + i] = strdup(words[i]);
	argv[3 + N_WORDS] = NULL;
	WORKS(MPI_Comm_spawn(self, argv, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	part(&inter);
	for (int i = 0; i < N_WORDS; i++)
		free(argv[3 + i]);
	/* one long word */
	argv[3] = malloc(100001);
	memset(argv[3], 'x', 100000);
	argv[3][100000] = 0;
	argv[4] = NULL;
	WORKS(MPI_Comm_spawn(self, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	part(&inter);
	free(argv[3]);
}

static int n_args;
static char **args;
static void arguments_child(void)
{
	if (n_args == 5) {
		IS(strlen(args[4]), 100000);
	} else {
		IS(n_args, 4 + N_WORDS);
		for (int i = 0; i < N_WORDS && i + 4 < n_args; i++)
			if (strcmp(args[4 + i], words[i]))
				is_wrong(__LINE__, "argument %d is <%s>, not <%s>", i, args[4 + i], words[i]);
	}
	part(&parent);
}

/* Section 11.8.3: ranks in the order of the commands, MPI_APPNUM, error codes, arguments and info of each. */
static void multiple(void)
{
	char child[] = "child", what[] = "multiple", one[] = "one", *argv1[] = {child, dir, what, NULL},
	     *argv2[] = {child, dir, what, one, NULL};
	char *commands[3] = {self, self, self}, **argvs[3] = {argv1, argv2, argv1};
	int counts[3] = {1, 2, 1}, codes[5] = {-1, -1, -1, -1, -77};
	MPI_Info infos[3] = {MPI_INFO_NULL, MPI_INFO_NULL, MPI_INFO_NULL};
	MPI_Comm inter;

	infos[1] = info_of("wdir", "/tmp");
	if (me == np - 1)
		WORKS(MPI_Comm_spawn_multiple(3, commands, argvs, counts, infos, np - 1, MPI_COMM_WORLD, &inter, codes));
	else
		WORKS(MPI_Comm_spawn_multiple(3, NULL, MPI_ARGVS_NULL, NULL, NULL, np - 1, MPI_COMM_WORLD, &inter, codes));
	for (int i = 0; i < 4; i++)
		IS(codes[i], MPI_SUCCESS);
	IS(codes[4], -77);
	int n;
	MPI_Comm_remote_size(inter, &n);
	IS(n, 4);
	MPI_Info_free(&infos[1]);
	part(&inter);
}

static void multiple_child(void)
{
	int *num, flag;
	char cwd[1000];

	IS(np, 4);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &num, &flag);
	IS(flag, 1);
	if (flag)
		IS(*num, (me + 1) / 2);
	IS(n_args, me == 1 || me == 2 ? 5 : 4);
	if ((me + 1) / 2 == 1)
		IS(strcmp(getcwd(cwd, sizeof(cwd)), "/tmp"), 0);
	part(&parent);
}

/* Section 11.8.2: commands that cannot be spawned. */
static void refused(void)
{
	MPI_Comm inter = MPI_COMM_WORLD;
	int codes[3] = {0, 0, -77};
	char none[] = "/no/such/program", *commands[2] = {self, none};
	int counts[2] = {1, 1};
	MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	FAILS(MPI_Comm_spawn(none, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
	TRUE_THAT(codes[0] != MPI_SUCCESS && codes[1] != MPI_SUCCESS);
	IS(codes[2], -77);
	IS(inter == MPI_COMM_NULL, 1);
	FAILS_OR(MPI_Comm_spawn("", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN,
		 MPI_ERR_ARG);
	FAILS(MPI_Comm_spawn(dir, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
	FAILS(MPI_Comm_spawn("/etc/passwd", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
	TRUE_THAT(MPI_Comm_spawn(self, MPI_ARGV_NULL, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes) != MPI_SUCCESS);
	TRUE_THAT(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, np, MPI_COMM_WORLD, &inter, codes) != MPI_SUCCESS);
	FAILS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_NULL, &inter, codes), MPI_ERR_COMM);
	TRUE_THAT(MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD, &inter, codes) !=
		  MPI_SUCCESS);
	TRUE_THAT(codes[1] != MPI_SUCCESS);
	MPI_Info info = info_of("wdir", "/no/such/directory");
	TRUE_THAT(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes) != MPI_SUCCESS);
	MPI_Info_free(&info);
	info = info_of("host", "no.such.host.example");
	TRUE_THAT(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, codes) != MPI_SUCCESS);
	MPI_Info_free(&info);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	/* and then one that can be */
	info = info_of("no such key", "of no use");
	inter = spawn("insignificant", 1, info, 0, MPI_COMM_WORLD);
	MPI_Info_free(&info);
	part(&inter);
}

static void info_keys(void)
{
	char file[800], text[1000], bare[1000];
	MPI_Info info;
	MPI_Comm inter;
	char child[] = "child", what[] = "info_keys", *argv[] = {child, dir, what, NULL};
	const char *base = strrchr(self, '/') + 1;

	snprintf(text, sizeof(text), "/no/such/one:%.*s", (int)(base - 1 - self), self);
	snprintf(bare, sizeof(bare), "%s", base);
	/* by the name within a path, in another directory */
	info = info_of("path", text);
	MPI_Info_set(info, "wdir", dir);
	WORKS(MPI_Comm_spawn(bare, argv, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	part(&inter);
	MPI_Info_free(&info);
	/* keys in a file */
	snprintf(file, sizeof(file), "%s/keys", dir);
	all_here();
	if (!me) {
		FILE *f = fopen(file, "w");

		fprintf(f, "# keys\nwdir = %s\n", dir);
		fclose(f);
	}
	all_here();
	info = info_of("soft", "1,2,3:10:2");
	MPI_Info_set(info, "wdir", dir);
	WORKS(MPI_Comm_spawn(self, argv, 3, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
	int n;
	MPI_Comm_remote_size(inter, &n);
	TRUE_THAT(n >= 1 && n <= 3);
	part(&inter);
	MPI_Info_free(&info);
	int *size, flag;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &flag);
	if (flag)
		TRUE_THAT(*size >= 1);
}

static void info_keys_child(void)
{
	char cwd[1000];
	struct stat a, b;

	IS(stat(getcwd(cwd, sizeof(cwd)), &a), 0);
	IS(stat(dir, &b), 0);
	IS(a.st_ino, b.st_ino);
	part(&parent);
}

/* MPI_Intercomm_merge of parents and children: the order of ranks; then a spawn by all of them, a file and a window of all. */
static void merged_work(MPI_Comm all, int n_parents, int rank_due)
{
	int n, r, v, sum;
	MPI_File f;
	MPI_Status st;
	MPI_Win w;
	int *mem;
	char p[800];

	MPI_Comm_size(all, &n);
	MPI_Comm_rank(all, &r);
	if (rank_due >= 0)
		IS(r, rank_due);
	v = 1 << r;
	MPI_Allreduce(&v, &sum, 1, MPI_INT, MPI_SUM, all);
	IS(sum, (1 << n) - 1);
	snprintf(p, sizeof(p), "%s/merged", dir);
	f = opened(all, p, RW);
	WORKS(MPI_File_set_size(f, 0));
	v = 100 + r;
	WORKS(MPI_File_write_ordered(f, &v, 1, MPI_INT, &st));
	WORKS(MPI_File_read_at_all(f, 4 * ((r + 1) % n), &v, 1, MPI_INT, &st));
	IS(v, 100 + (r + 1) % n);
	v = 7;
	WORKS(MPI_File_write_shared(f, &v, 1, MPI_INT, &st));
	MPI_Barrier(all);
	IS(size_of(f), 8 * n);
	WORKS(MPI_File_close(&f));
	MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, all, &mem, &w);
	*mem = 0;
	MPI_Win_fence(0, w);
	for (int i = 0; i < n; i++) {
		v = r + 1;
		MPI_Accumulate(&v, 1, MPI_INT, i, 0, 1, MPI_INT, MPI_SUM, w);

		MPI_Win_fence(0, w);
	}
	IS(*mem, n * (n + 1) / 2);
	MPI_Win_free(&w);
	(void)n_parents;
}

static void merged(void)
{
	static const int highs[4][2] = {{0, 1}, {1, 0}, {0, 0}, {1, 1}};
	MPI_Comm inter = spawn("merged", 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD), all;

	for (int i = 0; i < 4; i++) {
		MPI_Intercomm_merge(inter, highs[i][0], &all);
		merged_work(all, np, i == 0 ? me : i == 1 ? 2 + me : -1);
		MPI_Comm_free(&all);
	}
	/* parents and children spawn together; the new ones know all of them as parents */
	MPI_Intercomm_merge(inter, 0, &all);
	MPI_Comm more = spawn("grandchild", 1, MPI_INFO_NULL, 1, all);
	int n, v = -1;
	MPI_Comm_remote_size(more, &n);
	IS(n, 1);
	MPI_Bcast(&v, 1, MPI_INT, 0, more);
	IS(v, 4242);
	part(&more);
	MPI_Comm_disconnect(&all);
	part(&inter);
}

static void merged_child(void)
{
	static const int highs[4][2] = {{0, 1}, {1, 0}, {0, 0}, {1, 1}};
	MPI_Comm all, mine = parent;
	int parents;

	MPI_Comm_remote_size(parent, &parents);
	for (int i = 0; i < 4; i++) {
		MPI_Intercomm_merge(parent, highs[i][1], &all);
		merged_work(all, parents, i == 0 ? parents + me : i == 1 ? me : -1);
		MPI_Comm_free(&all);
	}
	MPI_Intercomm_merge(parent, 1, &all);
	parent = MPI_COMM_NULL; /* a parent here */
	MPI_Comm more = spawn("grandchild", 1, MPI_INFO_NULL, 1, all);
	int v = -1;
	MPI_Bcast(&v, 1, MPI_INT, 0, more);
	IS(v, 4242);
	part(&more);
	parent = mine;
	MPI_Comm_disconnect(&all);
	part(&parent);
}

static void grandchild(void)
{
	int n, v = 4242;

	MPI_Comm_remote_size(parent, &n);
	TRUE_THAT(n >= 3);
	MPI_Bcast(&v, 1, MPI_INT, MPI_ROOT, parent);
	part(&parent);
}

/* Each rank spawns for itself, two at once each. */
static void alone(void)
{
	MPI_Comm a = spawn("insignificant", 1, MPI_INFO_NULL, 0, MPI_COMM_SELF),
		 b = spawn("insignificant", 2, MPI_INFO_NULL, 0, MPI_COMM_SELF);
	int n;

	MPI_Comm_remote_size(a, &n);
	IS(n, 1);
	part(&b);
	part(&a);
}

/* Section 11.9: ports; a server and clients. */
static void ports(void)
{
	char port[MPI_MAX_PORT_NAME], other[MPI_MAX_PORT_NAME], name[2100];
	MPI_Comm comm, half;
	int v, n;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	WORKS(MPI_Open_port(MPI_INFO_NULL, port));
	WORKS(MPI_Open_port(MPI_INFO_NULL, other));
	TRUE_THAT(strcmp(port, other));
	TRUE_THAT(strlen(port) < MPI_MAX_PORT_NAME);
	WORKS(MPI_Close_port(other));
	TRUE_THAT(MPI_Close_port("no port") != MPI_SUCCESS);
	TRUE_THAT(MPI_Close_port(other) != MPI_SUCCESS);
	TRUE_THAT(MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm) != MPI_SUCCESS);
	TRUE_THAT(MPI_Comm_accept("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm) != MPI_SUCCESS);
	TRUE_THAT(MPI_Comm_connect("", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm) != MPI_SUCCESS);
	/* names: published twice, looked up where there is none, unpublished twice or by another port */
	snprintf(name, sizeof(name), "heddle standard %d/%d \xc3\xa4 ../x", (int)getpid(), me);
	FAILS(MPI_Lookup_name(name, MPI_INFO_NULL, other), MPI_ERR_NAME);
	FAILS(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
	WORKS(MPI_Publish_name(name, MPI_INFO_NULL, port));
	FAILS(MPI_Publish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
	memset(other, 0, sizeof(other));
	WORKS(MPI_Lookup_name(name, MPI_INFO_NULL, other));
	IS(strcmp(port, other), 0);
	WORKS(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
	FAILS(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
	FAILS(MPI_Lookup_name(name, MPI_INFO_NULL, other), MPI_ERR_NAME);
	WORKS(MPI_Publish_name(name, MPI_INFO_NULL, port));
	WORKS(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
	/* a long name, or an error; a name with a newline and an equals sign */
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	if (MPI_Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS) {
		WORKS(MPI_Lookup_name(name, MPI_INFO_NULL, other));
		name[2000] = 0;
		FAILS(MPI_Lookup_name(name, MPI_INFO_NULL, other), MPI_ERR_NAME);
		name[2000] = 'n';
		WORKS(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
	}
	snprintf(name, sizeof(name), "a\nb=%d %d", (int)getpid(), me);
	if (MPI_Publish_name(name, MPI_INFO_NULL, port) == MPI_SUCCESS) {
		WORKS(MPI_Lookup_name(name, MPI_INFO_NULL, other));
		IS(strcmp(port, other), 0);
		FAILS(MPI_Lookup_name("a", MPI_INFO_NULL, other), MPI_ERR_NAME);
		WORKS(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
	}
	/* rank 0 accepts each other rank in turn, then all of them as one communicator with a root other than rank 0; twice */
	MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
	MPI_Comm_split(MPI_COMM_WORLD, !me, me, &half);
	for (int round = 0; round < 2 && np > 1; round++) {
		for (int i = 1; i < np && (!me || me == 1 || 1); i++) {
			if (!me)
				WORKS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm));
			else if (me == i)
				WORKS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm));
			if (me && me != i)
				continue;
			v = me;
			MPI_Sendrecv(&me, 1, MPI_INT, 0, 1, &v, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
			IS(v, me ? 0 : i);
			if (round)
				MPI_Comm_free(&comm);
			else
				MPI_Comm_disconnect(&comm);
		}
		int root = np - 2; /* of the ranks but rank 0 */
		if (!me)
			WORKS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &comm));
		else
			WORKS(MPI_Comm_connect(me == np - 1 ? port : NULL, MPI_INFO_NULL, root, half, &comm));
		MPI_Comm_remote_size(comm, &n);
		IS(n, me ? 1 : np - 1);
		MPI_Allreduce(&me, &v, 1, MPI_INT, MPI_SUM, comm);
		IS(v, me ? 0 : np * (np - 1) / 2);
		MPI_Comm_disconnect(&comm);
	}
	MPI_Comm_free(&half);
	all_here();
	if (!me)
		WORKS(MPI_Close_port(port));
	all_here();
	/* a port that is closed */
	if (me == np - 1)
		TRUE_THAT(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm) != MPI_SUCCESS);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* MPI_Comm_disconnect: messages sent before arrive, long and short; communicators that must not be disconnected. */
static void disconnects(void)
{
	MPI_Comm inter = spawn("disconnects", 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD), null = MPI_COMM_NULL,
		 world = MPI_COMM_WORLD, self_comm = MPI_COMM_SELF;
	static char large[3000000];
	MPI_Request r[4];

	memset(large, 1 + me, sizeof(large));
	for (int i = 0; i < 2; i++) {
		MPI_Isend(large, (int)sizeof(large), MPI_CHAR, i, 1, inter, r + 2 * i);
		MPI_Isend(large, 10, MPI_CHAR, i, 2, inter, r + 2 * i + 1);
	}
	MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
	part(&inter);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	FAILS(MPI_Comm_disconnect(&null), MPI_ERR_COMM);
	FAILS(MPI_Comm_disconnect(&world), MPI_ERR_COMM);
	FAILS(MPI_Comm_disconnect(&self_comm), MPI_ERR_COMM);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	/* a communicator of one job: to disconnect is to free */
	MPI_Comm dup;
	MPI_Comm_dup(MPI_COMM_WORLD, &dup);
	WORKS(MPI_Comm_disconnect(&dup));
	IS(dup == MPI_COMM_NULL, 1);
}

static void disconnects_child(void)
{
	static char large[3000000], b[10];
	int parents;

	MPI_Comm_remote_size(parent, &parents);
	for (int i = parents - 1; i >= 0; i--) {
		MPI_Recv(b, 10, MPI_CHAR, i, 2, parent, MPI_STATUS_IGNORE);
		IS(b[9], 1 + i);
	}
	for (int i = 0; i < parents; i++) {
		MPI_Recv(large, (int)sizeof(large), MPI_CHAR, i, 1, parent, MPI_STATUS_IGNORE);
		IS(large[0], 1 + i);
		IS(large[sizeof(large) - 1], 1 + i);
	}
	part(&parent);
}

/* The parent's communicator is freed, not disconnected; children that never ask for their parents. */
static void without_disconnect(void)
{
	MPI_Comm a = spawn("freed", 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD),
		 b = spawn("silent", 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD);

	MPI_Barrier(a);
	MPI_Comm_free(&a);
	MPI_Comm_free(&b);
}

static void freed_child(void)
{
	MPI_Barrier(parent);
	MPI_Comm_free(&parent);
}

static void silent_child(void)
{
}

static const struct io_case cases[] = {
	{"11.8.2", "insignificant", insignificant},
	{"11.8.2", "both_sides", both_sides},
	{"11.8.2", "arguments", arguments},
	{"11.8.3", "multiple", multiple},
	{"11.8.2", "refused", refused},
	{"11.8.4", "info_keys", info_keys},
	{"11.8.1", "merged", merged},
	{"11.8.2", "alone", alone},
	{"11.9", "ports", ports},
	{"11.10.4", "disconnects", disconnects},
	{"11.10.4", "without_disconnect", without_disconnect},
};

static const struct io_case child_cases[] = {
	{"", "insignificant", just_part}, {"", "both_sides", both_sides_child},   {"", "arguments", arguments_child},
	{"", "multiple", multiple_child}, {"", "info_keys", info_keys_child},     {"", "merged", merged_child},
	{"", "grandchild", grandchild},   {"", "disconnects", disconnects_child}, {"", "freed", freed_child},
	{"", "silent", silent_child},
};

int main(int argc, char **argv)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n < 0 ? 0 : n] = 0;
	n_args = argc;
	args = argv;
	if (argc < 4 || strcmp(argv[1], "child"))
		return io_run("dpm_standard", cases, N_CASES(cases), argc, argv);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	snprintf(dir, sizeof(dir), "%s", argv[2]);
	for (int i = 0; i < N_CASES(child_cases); i++)
		if (!strcmp(argv[3], child_cases[i].name)) {
			case_name = argv[3];
			child_cases[i].run();
		}
	MPI_Finalize();
	return 0;
}
