/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shcarun [option...] program [argument...]: runs any verbs program on the software HCA, unmodified. shcarun preloads
 * libshca.so, and libshca-files.so, which answers for the device's files, and makes the device visible to the program.
 */
#include <stdint.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

#define LIBRARY "libshca.so.0"
#define FILES_LIBRARY "libshca-files.so"
#define EX_USAGE 2
#define EX_NO_LIBRARY 125
#define EX_NOT_STARTED 126
#define EX_NOT_FOUND 127

static const char help[] =
	"usage: shcarun [option...] program [argument...]\n"
	"\n"
	"Runs a verbs program on the software HCA (device shca0). Programs that reach each other must be of\n"
	"the same user, on the same host and on the same fabric.\n"
	"\n"
	"  --fabric NAME   the fabric to join (default: $SHCA_FABRIC, else the user's default fabric)\n"
	"  --mlx5dv        answer mlx5dv_is_supported with true, for programs that use DC through mlx5dv\n"
	"  --debug         print the reason of each refused verb on standard error\n"
	"  --help          this text\n"
	"  --version       the version\n"
	"\n"
	"The program must be dynamically linked and not setuid; plugins loaded with RTLD_DEEPBIND escape.\n";

static const char *const options[] = { "--fabric", "--mlx5dv", "--debug", "--help", "--version", NULL };

static int shcarun_unknown_option(const char *option)
{
	const char *near = hdl_nearest(option, options);

	hdl_error("unknown option %s%s%s%s", option, near ? ", did you mean " : "", near ? near : "", near ? "?" : "");
	fprintf(stderr, "(shcarun --help lists the options)\n");
	return EX_USAGE;
}

/* The folder with the libraries: of the build tree that this program stands in, of an installation around it, or the configured
 * one. */
static bool find_libraries(char folder[PATH_MAX])
{
	static const char *const beside[] = { "/.libs", "/../lib" };
	char path[PATH_MAX];
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n > 0) {
		self[n] = 0;
		*strrchr(self, '/') = 0;
		for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
			if (snprintf(path, PATH_MAX, "%s%s/" LIBRARY, self, beside[i]) < PATH_MAX && !access(path, R_OK)) {
				*strrchr(path, '/') = 0;
				strcpy(folder, path);
				return true;
			}
	}
	strcpy(folder, SHCA_LIBDIR);
	return !access(SHCA_LIBDIR "/" LIBRARY, R_OK);
}

static int shcarun_set(const char *name, const char *value)
{
	if (!setenv(name, value, 1))
		return 0;
	fprintf(stderr, "shcarun: cannot set %s: %s\n", name, strerror(errno));
	return EX_NOT_STARTED;
}

/* Also where a launcher passed on the descriptor of another fabric. */
static int shcarun_set_fabric(const char *name)
{
	unsetenv("SHCA_FABRIC_FD");
	return shcarun_set("SHCA_FABRIC", name);
}

static int preload(void)
{
	const char *old = getenv("LD_PRELOAD");
	char folder[PATH_MAX], path[PATH_MAX + sizeof FILES_LIBRARY];

	if (!find_libraries(folder)) {
		fprintf(stderr,
			"shcarun: " LIBRARY " is not in " SHCA_LIBDIR ", nor beside this program; is libshca installed?\n");
		return EX_NO_LIBRARY;
	}
	if (strpbrk(folder, " :")) {
		fprintf(stderr, "shcarun: the path %s has a space or colon in it, which LD_PRELOAD cannot name\n", folder);
		return EX_NO_LIBRARY;
	}
	snprintf(path, sizeof path, "%s/" FILES_LIBRARY, folder);
	if (access(path, R_OK)) {
		fprintf(stderr, "shcarun: %s: %s; it comes with " LIBRARY ", which is there\n", path, strerror(errno));
		return EX_NO_LIBRARY;
	}
	char *value;
	if (asprintf(&value, "%s:%s/" LIBRARY "%s%s", path, folder, old && *old ? ":" : "", old ? old : "") < 0) {
		fprintf(stderr, "shcarun: out of memory\n");
		return EX_NOT_STARTED;
	}
	int rc = shcarun_set("LD_PRELOAD", value);
	free(value);
	return rc;
}

int main(int argc, char **argv)
{
	int i, rc = 0;

	hdl_diag_program("shcarun");
	hdl_output_watch();
	for (i = 1; !rc && i < argc && argv[i][0] == '-'; i++) {
		const char *a = argv[i];
		if (!strcmp(a, "--")) {
			i++;
			break;
		}
		if (!strcmp(a, "--help")) {
			fputs(help, stdout);
			return 0;
		}
		if (!strcmp(a, "--version")) {
			puts("shcarun (" PACKAGE_STRING ")");
			return 0;
		}
		if (!strcmp(a, "--mlx5dv")) {
			rc = shcarun_set("SHCA_MLX5DV", "1");
		} else if (!strcmp(a, "--debug")) {
			rc = shcarun_set("SHCA_DEBUG", "1");
		} else if (!strncmp(a, "--fabric=", 9)) {
			rc = shcarun_set_fabric(a + 9);
		} else if (!strcmp(a, "--fabric")) {
			if (++i == argc) {
				fprintf(stderr, "shcarun: --fabric needs a name\n");
				return EX_USAGE;
			}
			rc = shcarun_set_fabric(argv[i]);
		} else {
			return shcarun_unknown_option(a);
		}
	}
	if (rc)
		return rc;
	if (i >= argc) {
		fprintf(stderr, "shcarun: no program given\n(shcarun --help shows how it is called)\n");
		return EX_USAGE;
	}
	hdl_vars_warn(environ);
	rc = preload();
	if (!rc)
		rc = shcarun_set("SHCA_VISIBLE", "1");
	if (rc)
		return rc;
	execvp(argv[i], argv + i);
	rc = errno;
	fprintf(stderr, "shcarun: cannot run %s: %s\n", argv[i], strerror(rc));
	return rc == ENOENT ? EX_NOT_FOUND : EX_NOT_STARTED;
}
