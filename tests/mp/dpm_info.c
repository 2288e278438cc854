/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The keys of info that MPI_Comm_spawn has (section 11.8.4), in an info object and in the file of the key file, and arguments of
 * the spawned programs. One rank.
 *
 *     dpm_info DIRECTORY
 */
#define _GNU_SOURCE
#include "io_test.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPORT = 1 << 20 };

static const char *self;
static char dir[400], file[500], report[REPORT];

/* ---- children ------------------------------------------------------------------------------------------------ */

/* Rank 0 of each program sends its report to the parent, which disconnects: its directory, and its arguments in brackets. */
static void child(int argc, char **argv, MPI_Comm parent)
{
	int *app, flag, at;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &flag);
	CHECK(flag && getcwd(report, 4096));
	at = (int)strlen(report);
	for (int i = 1; i < argc; i++)
		at += snprintf(report + at, (size_t)(REPORT - at), "[%s]", argv[i]);
	if (getenv("DPM_INFO"))
		at += snprintf(report + at, (size_t)(REPORT - at), "{%s}", getenv("DPM_INFO"));
	MPI_Send(report, at + 1, MPI_CHAR, 0, *app, parent);
	MPI_Comm_disconnect(&parent);
}

/* ---- parent --------------------------------------------------------------------------------------------------- */

/* Fails unless the first child of program `app` reports this text. */
static void reports_at(int line, MPI_Comm inter, int app, const char *text)
{
	MPI_Recv(report, REPORT, MPI_CHAR, MPI_ANY_SOURCE, app, inter, MPI_STATUS_IGNORE);
	if (strcmp(report, text))
		test_fail(__FILE__, line, "program %d reports \"%.300s\", not \"%.300s\"", app, report, text);
}

static MPI_Info info_of(const char *key, const char *value)
{
	MPI_Info info;

	MPI_Info_create(&info);
	if (key)
		MPI_Info_set(info, key, value);
	return info;
}

#define reports(...)	reports_at(__LINE__, __VA_ARGS__)

/* Spawns one child with the info, which is freed, and compares its report. */
static void works_at(int line, const char *command, char **argv, MPI_Info info, const char *text)
{
	MPI_Comm inter;

	if (MPI_Comm_spawn(command, argv, 1, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE))
		test_fail(__FILE__, line, "the spawn fails");
	reports_at(line, inter, 0, text);
	MPI_Comm_disconnect(&inter);
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
}

#define works(...)	works_at(__LINE__, __VA_ARGS__)

/* The spawn fails with this class, and the text of the error has `has`. */
static void fails_at(int line, MPI_Info info, int class, const char *has)
{
	char text[MPI_MAX_ERROR_STRING];
	MPI_Comm inter;
	int rc, n;

	rc = MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE);
	MPI_Error_string(rc, text, &n);
	if (class_of(rc) != class || inter != MPI_COMM_NULL)
		test_fail(__FILE__, line, "class %d instead of %d: %s", class_of(rc), class, text);
	if (!strstr(text, has))
		test_fail(__FILE__, line, "the error is \"%s\", without \"%s\"", text, has);
	MPI_Info_free(&info);
}

#define fails(...)	fails_at(__LINE__, __VA_ARGS__)

/* Writes the file of the key file, and returns an info that names it. */
static MPI_Info file_of(const char *text)
{
	FILE *f = fopen(file, "w");

	CHECK(f && fputs(text, f) >= 0);
	CHECK(!fclose(f));
	return info_of("file", file);
}

static void hosts(void)
{
	char here[256], both[300], mine[4096];

	CHECK(getcwd(mine, sizeof(mine)) && !gethostname(here, sizeof(here)));
	snprintf(both, sizeof(both), "localhost,%s", here);
	works(self, MPI_ARGV_NULL, info_of("host", "localhost"), mine);
	works(self, MPI_ARGV_NULL, info_of("host", here), mine);
	works(self, MPI_ARGV_NULL, info_of("host", both), mine);
	fails(info_of("host", "localhost,elsewhere"), MPI_ERR_SPAWN, "elsewhere");
	fails(file_of("host = elsewhere\n"), MPI_ERR_SPAWN, "elsewhere");
	works(self, MPI_ARGV_NULL, info_of("no such key", "elsewhere"), mine);
}

static void directories(void)
{
	const char *slash = strrchr(self, '/');
	char path[4096], sub[500];
	MPI_Info info;

	CHECK(!chdir(dir) && !mkdir("sub dir", 0700) && !symlink(self, "sub dir/dpm_info_there"));
	snprintf(sub, sizeof(sub), "%s/sub dir", dir);
	works(self, MPI_ARGV_NULL, info_of("wdir", sub), sub);
	works(self, MPI_ARGV_NULL, info_of("wdir", "sub dir"), sub);
	works(self, MPI_ARGV_NULL, file_of("wdir=sub dir\n"), sub);
	fails(info_of("wdir", "none"), MPI_ERR_SPAWN, "none");
	fails(info_of("wdir", file), MPI_ERR_SPAWN, file);
	/* path: directories that do not exist are passed over */
	snprintf(path, sizeof(path), "/nowhere:%.*s", (int)(slash - self), self);
	works(slash + 1, MPI_ARGV_NULL, info_of("path", path), dir);
	works("dpm_info_there", MPI_ARGV_NULL, info_of("path", sub), dir);
	works("dpm_info_there", MPI_ARGV_NULL, info_of("wdir", sub), sub);
	info = file_of("# both\nwdir = /\npath=/nowhere\n");
	MPI_Info_set(info, "path", sub);
	works("dpm_info_there", MPI_ARGV_NULL, info, "/");
}

static void formats(void)
{
	char expected[500];
	MPI_Info info;

	snprintf(expected, sizeof(expected), "%s{a = #b \"c\"}", dir);
	works(self, MPI_ARGV_NULL, file_of("\n  # wdir = /\n\t\n env \t=\t DPM_INFO=a = #b \"c\" \t\r\nno such key = 1"),
	      expected);
	works(self, MPI_ARGV_NULL, file_of(""), dir);
	works(self, MPI_ARGV_NULL, file_of("wdir = /none\nwdir = /\n"), "/");
	works(self, MPI_ARGV_NULL, file_of("wdir = /"), "/");
	info = file_of("wdir = /none\n");
	MPI_Info_set(info, "wdir", "/");
	works(self, MPI_ARGV_NULL, info, "/");
	/* a file that the file names is not read */
	works(self, MPI_ARGV_NULL, file_of("file = /none\n"), dir);
}

static void errors(void)
{
	char line[MPI_MAX_INFO_VAL + 100];

	fails(info_of("file", "/none/file"), MPI_ERR_INFO_VALUE, "No such file");
	fails(info_of("file", dir), MPI_ERR_INFO_VALUE, "Is a directory");
	fails(file_of("wdir = /\n\n# c\nwdir /\n"), MPI_ERR_INFO_VALUE, "line 4");
	fails(file_of("= /\n"), MPI_ERR_INFO_VALUE, "line 1");
	fails(file_of("wdir = /\n \t = x\n"), MPI_ERR_INFO_VALUE, "line 2");
	memset(line, 'k', sizeof(line));
	strcpy(line + MPI_MAX_INFO_KEY + 1, " = v\n");
	fails(file_of(line), MPI_ERR_INFO_VALUE, "line 1");
	memcpy(line, "env=", 4);
	memset(line + 4, 'v', sizeof(line) - 4);
	strcpy(line + sizeof(line) - 2, "\n");
	fails(file_of(line), MPI_ERR_INFO_VALUE, "line 1");
	fails(file_of("soft = 1:\n"), MPI_ERR_INFO_VALUE, "soft");
	fails(file_of("soft = 5\n"), MPI_ERR_SPAWN, "soft");
	fails(file_of("arch = pdp11\n"), MPI_ERR_SPAWN, "pdp11");
	fails(file_of("wdir = /none\n"), MPI_ERR_SPAWN, "/none");
	fails(file_of("mpi_initial_errhandler = forgiving\n"), MPI_ERR_INFO_VALUE, "forgiving");
	fails(file_of("cpus_per_rank = many\n"), MPI_ERR_INFO_VALUE, "many");
	CHECK(!chmod(file, 0));
	if (geteuid())
		fails(info_of("file", file), MPI_ERR_INFO_VALUE, "Permission denied");
	CHECK(!unlink(file));
}

/* soft of the file, with the codes of all processes that were asked for. */
static void soft(void)
{
	MPI_Info info = file_of("soft = 1:6:3, 3\n");
	int codes[6], n;
	MPI_Comm inter;

	WORKS(MPI_Comm_spawn(self, MPI_ARGV_NULL, 3, info, 0, MPI_COMM_SELF, &inter, codes));
	MPI_Comm_remote_size(inter, &n);
	CHECK(n == 3 && !codes[0] && !codes[1] && !codes[2]);
	for (int i = 0; i < n; i++)
		reports(inter, 0, dir);
	MPI_Comm_disconnect(&inter);
	MPI_Info_free(&info);
}

/* Each program has its own info and arguments. */
static void programs(void)
{
	char *commands[] = { (char *)self, (char *)self, (char *)self };
	char *one[] = { (char[]){ "a" }, NULL }, *two[] = { NULL }, *three[] = { (char[]){ "" }, (char[]){ "b c" }, NULL };
	char **argvs[] = { one, two, three }, text[500];
	MPI_Info infos[] = { info_of("wdir", "/"), MPI_INFO_NULL, file_of("wdir = /usr\nenv = DPM_INFO=3\n") };
	int counts[] = { 1, 1, 1 };
	MPI_Comm inter;

	WORKS(MPI_Comm_spawn_multiple(3, commands, argvs, counts, infos, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
	reports(inter, 0, "/[a]");
	snprintf(text, sizeof(text), "%s", dir);
	reports(inter, 1, text);
	reports(inter, 2, "/usr[][b c]{3}");
	MPI_Comm_disconnect(&inter);
	MPI_Info_free(&infos[0]);
	MPI_Info_free(&infos[2]);
}

static void arguments(void)
{
	enum { MANY = 1000, LONG = 100000 };
	static char *many[MANY + 1], expected[REPORT], longest[LONG + 1];
	char *odd[] = { (char[]){ "" }, (char[]){ "a\nb" }, (char[]){ "\xc3\xa4 \"'$x`*\\" }, (char[]){ "--" }, (char[]){ "-n" },
			NULL };
	char *huge[] = { longest, NULL };
	int at = snprintf(expected, REPORT, "%s", dir);

	works(self, NULL, MPI_INFO_NULL, dir);
	for (int i = 0; odd[i]; i++)
		at += snprintf(expected + at, (size_t)(REPORT - at), "[%s]", odd[i]);
	works(self, odd, MPI_INFO_NULL, expected);
	at = snprintf(expected, REPORT, "%s", dir);
	for (int i = 0; i < MANY; i++) {
		CHECK(asprintf(&many[i], "argument %d", i) > 0);
		at += snprintf(expected + at, (size_t)(REPORT - at), "[%s]", many[i]);
	}
	works(self, many, MPI_INFO_NULL, expected);
	memset(longest, 'x', LONG);
	snprintf(expected, REPORT, "%s[%s]", dir, longest);
	works(self, huge, MPI_INFO_NULL, expected);
	for (int i = 0; i < MANY; i++)
		free(many[i]);
}

int main(int argc, char **argv)
{
	MPI_Comm parent;

	test_init(&argc, &argv);
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		child(argc, argv, parent);
		MPI_Finalize();
		return 0;
	}
	if (argc < 2)
		test_fail(__FILE__, __LINE__, "no directory");
	self = argv[0];
	snprintf(dir, sizeof(dir), "%s", argv[1]);
	snprintf(file, sizeof(file), "%s/keys", dir);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	hosts();
	directories();
	formats();
	soft();
	programs();
	arguments();
	errors();
	test_done("dpm_info");
	return 0;
}
