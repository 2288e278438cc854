/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Published names: dpm_names CASE NAME. dpm_names.sh has each case's expected output and exit code.
 */
#include "dpm_test.h"

#include <sys/resource.h>

static void case_publish(const char *name)
{
	char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME], odd[] = "a name % with\nodd\tcharacters \xc3\xa4";
	int rc;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (!me) {
		MPI_Open_port(MPI_INFO_NULL, port);
		rc = MPI_Lookup_name(name, MPI_INFO_NULL, found);
		CHECK(class_of(rc) == MPI_ERR_NAME && says(rc, "is not published"));
		CHECK(class_of(MPI_Unpublish_name(name, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
		CHECK(!MPI_Publish_name(name, MPI_INFO_NULL, port));
		rc = MPI_Publish_name(name, MPI_INFO_NULL, "another");
		CHECK(class_of(rc) == MPI_ERR_SERVICE && says(rc, "already"));
		CHECK(!MPI_Publish_name(odd, MPI_INFO_NULL, "x y"));
		CHECK(!MPI_Lookup_name(odd, MPI_INFO_NULL, found) && !strcmp(found, "x y"));
		CHECK(!MPI_Lookup_name(name, MPI_INFO_NULL, found) && !strcmp(found, port));
		CHECK(!MPI_Unpublish_name(odd, MPI_INFO_NULL, "x y"));
		CHECK(class_of(MPI_Publish_name("", MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
	}
	MPI_Bcast(port, sizeof(port), MPI_CHAR, 0, MPI_COMM_WORLD);
	CHECK(!MPI_Lookup_name(name, MPI_INFO_NULL, found) && !strcmp(found, port));
	MPI_Barrier(MPI_COMM_WORLD);
	if (!me) {
		CHECK(!MPI_Unpublish_name(name, MPI_INFO_NULL, port));
		CHECK(class_of(MPI_Unpublish_name(name, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
		CHECK(class_of(MPI_Lookup_name(name, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
		MPI_Close_port(port);
	}
}

/* Two heddleruns in one fabric: one publishes and accepts, the other one looks the name up and connects. */
static void case_serve(const char *name)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;

	if (!me) {
		MPI_Open_port(MPI_INFO_NULL, port);
		MPI_Publish_name(name, MPI_INFO_NULL, port);
	}
	MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	together(&inter, 0);
	if (!me) {
		CHECK(!MPI_Unpublish_name(name, MPI_INFO_NULL, port));
		MPI_Close_port(port);
	}
}

static void case_visit(const char *name)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter;
	int rc = MPI_ERR_NAME;

	if (!me) {
		MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
		for (int i = 0; i < 1000 && rc; i++) {
			rc = MPI_Lookup_name(name, MPI_INFO_NULL, port);
			if (rc)
				usleep(10000);
		}
		CHECK(!rc);
		rc = MPI_Publish_name(name, MPI_INFO_NULL, "mine");
		CHECK(class_of(rc) == MPI_ERR_SERVICE);
		rc = MPI_Unpublish_name(name, MPI_INFO_NULL, port);
		CHECK(class_of(rc) == MPI_ERR_SERVICE && says(rc, "another heddlerun"));
	}
	MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
	together(&inter, 1);
}

/* The launcher's file of names cannot grow for a while, as on a full disk: names that were published stay. The
 * launcher must ignore SIGXFSZ. */
static void case_full(const char *name)
{
	struct rlimit old, full = { 0, RLIM_INFINITY };
	char long_name[200], found[MPI_MAX_PORT_NAME];
	int rc;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	snprintf(long_name, sizeof(long_name), "%s-2", name);
	CHECK(!MPI_Publish_name(name, MPI_INFO_NULL, "first"));
	CHECK(!prlimit(getppid(), RLIMIT_FSIZE, NULL, &old));
	full.rlim_max = old.rlim_max;
	CHECK(!prlimit(getppid(), RLIMIT_FSIZE, &full, NULL));
	rc = MPI_Publish_name(long_name, MPI_INFO_NULL, "second");
	CHECK(!prlimit(getppid(), RLIMIT_FSIZE, &old, NULL));
	CHECK(class_of(rc) == MPI_ERR_SERVICE);
	CHECK(!MPI_Lookup_name(name, MPI_INFO_NULL, found) && !strcmp(found, "first"));
	CHECK(class_of(MPI_Lookup_name(long_name, MPI_INFO_NULL, found)) == MPI_ERR_NAME);
	CHECK(!MPI_Publish_name(long_name, MPI_INFO_NULL, "second"));
	CHECK(!MPI_Lookup_name(long_name, MPI_INFO_NULL, found) && !strcmp(found, "second"));
	CHECK(!MPI_Unpublish_name(name, MPI_INFO_NULL, "first"));
	CHECK(!MPI_Lookup_name(long_name, MPI_INFO_NULL, found) && !strcmp(found, "second"));
	CHECK(!MPI_Unpublish_name(long_name, MPI_INFO_NULL, "second"));
}

/* The same in another fabric: the error comes at once, and names the variable. */
static void case_visit_apart(const char *name)
{
	char port[MPI_MAX_PORT_NAME] = "";
	MPI_Comm inter = MPI_COMM_WORLD;
	int rc = MPI_ERR_NAME;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (int i = 0; !me && i < 1000 && rc; i++) {
		rc = MPI_Lookup_name(name, MPI_INFO_NULL, port);
		if (rc)
			usleep(10000);
	}
	for (int i = 0; i < 2; i++) {
		rc = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
		CHECK(class_of(rc) == MPI_ERR_PORT && (me || says(rc, "SHCA_FABRIC=NAME")));
		CHECK(inter == MPI_COMM_NULL);
	}
}

/* Publishes, says so, and waits to be killed; or looks up once. */
static void case_hold(const char *name)
{
	CHECK(!MPI_Publish_name(name, MPI_INFO_NULL, "held"));
	printf("published\n");
	fflush(stdout);
	for (;;)
		pause();
}

static void case_look(const char *name)
{
	char port[MPI_MAX_PORT_NAME] = "-";
	int rc;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	rc = MPI_Lookup_name(name, MPI_INFO_NULL, port);
	printf("%s\n", !rc ? port : class_of(rc) == MPI_ERR_NAME ? "none" : "error");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *name);
	} cases[] = {
		{ "publish", case_publish }, { "serve", case_serve }, { "visit", case_visit },
		{ "visit_apart", case_visit_apart }, { "full", case_full }, { "hold", case_hold }, { "look", case_look },
	};
	size_t n = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &np);
	MPI_Comm_get_parent(&parent);
	while (n < sizeof(cases) / sizeof(cases[0]) && argc > 1 && strcmp(argv[1], cases[n].name))
		n++;
	CHECK(argc == 3 && n < sizeof(cases) / sizeof(cases[0]));
	if (!failed)
		cases[n].run(argv[2]);
	MPI_Finalize();
	return failed;
}
