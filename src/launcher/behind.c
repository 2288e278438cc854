/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that was started without a launcher and calls MPI_Comm_spawn (or publishes a name) starts a heddlerun behind itself
 * (runtime/behind.c):
 *
 *     program                                            heddlerun --behind FD,PID,NAMESPACE NAME
 *     fork, fork, exec                          ──▶      namespace NAMESPACE with one rank: the program
 *     PMIx_Init with these variables            ◀──      environment of that rank, "VAR=value\0" each, then "\0"
 *     the end of the program, or of MPI         ──▶      end of file on FD
 *
 * The program is no child of this heddlerun, which sends it no signal. The ranks that the program spawns are children.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

/* Becomes a process of its own: no child of the program, with none of the descriptors that the program has open, which would
 * keep their other ends waiting. The ranks that are spawned have the program's output. */
static bool leave_program(struct job *job)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid_t pid = fork();

	if (pid > 0)
		_exit(0);
	if (pid < 0 || null < 0) {
		complain("heddlerun cannot be started behind a program: %s", strerror(errno));
		return false;
	}
	dup2(null, STDIN_FILENO);
	setsid();	/* signals of the program's terminal are for the program */
	if (job->behind_fd != 3)
		dup3(job->behind_fd, 3, 0);
	job->behind_fd = 3;
	if (close_range(4, ~0u, 0))
		for (int i = 4; i < (int)sysconf(_SC_OPEN_MAX); i++)
			close(i);
	return !fcntl(3, F_SETFD, FD_CLOEXEC);
}

bool behind_take(struct job *job)
{
	struct nspace *ns = job->nspaces;
	int pid, end = 0;

	if (sscanf(job->opt.behind, "%d,%d,%255s%n", &job->behind_fd, &pid, ns->name, &end) < 3 ||
	    job->opt.behind[end] || fcntl(job->behind_fd, F_GETFD) < 0) {
		complain("--behind %s: the library passes this option to the heddlerun that it starts for MPI_Comm_spawn",
			 job->opt.behind);
		return false;
	}
	if (!leave_program(job))
		return false;
	job->behind_pidfd = pidfd_open(pid, 0);		/* below 0 (kernels before 5.3): the socket's end must do */
	ns->ranks[0].pid = pid;
	ns->ranks[0].foreign = true;
	ns->running = 1;
	return true;
}

int behind_answer(struct job *job)
{
	char why[256], **env = server_rank_env(&job->nspaces->ranks[0], why, sizeof why);
	int code = 0;

	if (!env) {
		complain("%s", why);
		return EXIT_FAILURE;
	}
	for (char **e = env; *e && !code; e++)
		if (!strncmp(*e, "PMIX_", 5) && send(job->behind_fd, *e, strlen(*e) + 1, MSG_NOSIGNAL) < 0)
			code = EXIT_FAILURE;
	if (!code && send(job->behind_fd, "", 1, MSG_NOSIGNAL) < 0)
		code = EXIT_FAILURE;
	env_free(env);
	return code;
}
