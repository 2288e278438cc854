/* SPDX-License-Identifier: BSD-3-Clause */
/* The software HCA's fabric of the job: the ranks, and nobody else, share it. */
#include "launcher/launcher.h"

void fabric_export(struct job *job, char ***env)
{
	env_set(env, "SHCA_FABRIC", job->nspace);
}
