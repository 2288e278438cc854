/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The software HCA's fabric of the job: shared by the ranks, and by no other process. heddlerun makes the fabric and
 * the ranks inherit the descriptor, so that no rank has to look for the fabric. A process that lost the descriptor on
 * the way (a wrapper that closes descriptors that the wrapper did not open) finds the fabric by name as long as
 * heddlerun runs.
 *
 * The name is a random number and has nothing of the PMIx namespace in it: every user of the host can read the names of
 * sockets, and a process that knows the namespace may join the job.
 */
#include <errno.h>
#include <shca.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

/* The fabric that a program's environment names: set by -x, because env_scrub has removed heddlerun's own. */
static const char *fabric_named(const struct app *app)
{
	const char *name = env_get(app->env, "SHCA_FABRIC");

	return name && *name ? name : NULL;
}

/* heddlerun, which makes the fabric, reads these variables: values that -x sets for the ranks must hold here. */
static void take_settings(const struct job *job)
{
	static const char *const names[] = { "SHCA_RESERVE", "SHCA_FENCES", "SHCA_FAULT" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		for (int a = 0; a < job->opt.napps; a++) {
			const char *value = env_get(job->opt.apps[a].env, names[i]);

			if (!value)
				continue;
			setenv(names[i], value, 1);
			break;
		}
	}
}

int fabric_make(struct job *job)
{
	const char *first = fabric_named(&job->opt.apps[0]);
	char name[40], fd_text[16];
	uint64_t id[2];
	int name_fd;	/* open as long as heddlerun runs */

	job->fabric_fd = -1;
	if (job->opt.behind)
		return 0;	/* the program is in a fabric already, which the spawned ranks are told of by the program */
	for (int a = 1; a < job->opt.napps; a++) {
		const char *other = fabric_named(&job->opt.apps[a]);

		if (!first == !other && (!first || !strcmp(first, other)))
			continue;
		complain("the programs of the job are told to use different fabrics (SHCA_FABRIC=%s for %s, %s for %s) and "
			 "could not reach each other: give all of them the same -x SHCA_FABRIC=NAME, or none",
			 first ? first : "(the job's)", job->opt.apps[0].argv[0], other ? other : "(the job's)",
			 job->opt.apps[a].argv[0]);
		return EXIT_USAGE;
	}
	if (first)
		return 0;
	if (getrandom(id, sizeof id, 0) != sizeof id) {
		complain("no random number for the fabric's name: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	snprintf(name, sizeof name, "job-%016llx%016llx", (unsigned long long)id[0], (unsigned long long)id[1]);
	take_settings(job);
	job->fabric_fd = shca_create_fabric(name, &name_fd);
	if (job->fabric_fd < 0)	/* programs that use no fabric must run all the same */
		complain("warning: the job's fabric cannot be made (see above); ranks that use it have to make it");
	snprintf(fd_text, sizeof fd_text, "%d", job->fabric_fd);
	for (int a = 0; a < job->opt.napps; a++) {
		env_set(&job->opt.apps[a].env, "SHCA_FABRIC", name);
		if (job->fabric_fd >= 0)
			env_set(&job->opt.apps[a].env, "SHCA_FABRIC_FD", fd_text);
	}
	return 0;
}
