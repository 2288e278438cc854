/* SPDX-License-Identifier: BSD-3-Clause */
/* The environments of the ranks. */
#include <stdlib.h>
#include <string.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

void *must(void *p)
{
	if (!p) {
		complain("out of memory");
		exit(EXIT_FAILURE);
	}
	return p;
}

static size_t environ_count(char *const *env)
{
	size_t n = 0;

	while (env[n])
		n++;
	return n;
}

char **env_copy(char *const *env)
{
	size_t n = environ_count(env);
	char **copy = must(calloc(n + 1, sizeof *copy));

	for (size_t i = 0; i < n; i++)
		copy[i] = must(strdup(env[i]));
	return copy;
}

static char **environ_find(char *const *env, const char *name)
{
	size_t len = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, len) && (*env)[len] == '=')
			return (char **)env;
	return NULL;
}

void env_set(char ***env, const char *name, const char *value)
{
	char **at = environ_find(*env, name), *entry = must(malloc(strlen(name) + strlen(value) + 2));
	size_t n;

	strcat(strcat(strcpy(entry, name), "="), value);
	if (at) {
		free(*at);
		*at = entry;
		return;
	}
	n = environ_count(*env);
	*env = must(realloc(*env, (n + 2) * sizeof **env));
	(*env)[n] = entry;
	(*env)[n + 1] = NULL;
}

const char *env_get(char *const *env, const char *name)
{
	char **at = environ_find(env, name);

	return at ? *at + strlen(name) + 1 : NULL;
}

static void environ_remove_at(char **at)
{
	free(*at);
	do
		at[0] = at[1];
	while (*at++);
}

void env_unset(char **env, const char *name)
{
	char **at = environ_find(env, name);

	if (at)
		environ_remove_at(at);
}

void env_scrub(char **env)
{
	static const char *const prefixes[] = { "PMIX_", "PMI_", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE=", "PRTE_LAUNCHED=",
						"HYDI_", "MPI_LOCAL", "HEDDLERUN_", "SHCA_FABRIC=", "SHCA_FABRIC_FD=" };

	while (*env) {
		bool drop = false;

		for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
			drop |= !strncmp(*env, prefixes[i], strlen(prefixes[i]));
		if (!strncmp(*env, "PMIX_MCA_", 9))	/* the user's own settings of the PMIx library */
			drop = false;
		if (drop)
			environ_remove_at(env);
		else
			env++;
	}
}

void env_free(char **env)
{
	for (char **e = env; e && *e; e++)
		free(*e);
	free(env);
}
