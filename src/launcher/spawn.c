/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting ranks. vfork, because heddlerun is no small process once the PMIx library is up, and copying its page
 * tables for each rank would be most of the cost of a launch. Between vfork and exec the child runs on our memory
 * and stack: the child makes system calls only, and reports an error through `failure`.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "runtime/runtime.h"

struct start {
	const char *path;
	char **argv, **env, **shell_argv;	/* shell_argv: for a script without "#!", or NULL */
	const char *wdir;
	int in, out, err;			/* -1: unchanged */
	int fabric, file;			/* descriptors to be inherited, or -1 */
	const cpu_set_t *mask;			/* NULL: not bound */
	size_t mask_size;
	const sigset_t *sigmask;
	struct rlimit files;
	bool ignore_ttou, ignore_pipe;
	pid_t parent;
};

static struct {
	volatile int err;
	const char *volatile what;
} failure;

static _Noreturn void spawn_give_up(const char *what)
{
	failure.err = errno;
	failure.what = what;
	_exit(EXIT_CANNOT_RUN);
}

static void become(const struct start *s)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	struct sigaction ign = { .sa_handler = SIG_IGN };

	/* A process group per rank: a signal to the group ends the rank together with all that the rank starts. */
	if (setpgid(0, 0))
		spawn_give_up("setpgid");
	/* If heddlerun has been killed before this call, no signal will come. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != s->parent)
		spawn_give_up("prctl(PR_SET_PDEATHSIG)");
	if (s->mask && sched_setaffinity(0, s->mask_size, s->mask))
		spawn_give_up("sched_setaffinity");
	setrlimit(RLIMIT_NOFILE, &s->files);
	if ((s->in >= 0 && dup2(s->in, 0) < 0) || (s->out >= 0 && dup2(s->out, 1) < 0) || (s->err >= 0 && dup2(s->err, 2) < 0))
		spawn_give_up("dup2");
	if (s->fabric >= 0 && fcntl(s->fabric, F_SETFD, 0))
		spawn_give_up("fcntl(F_SETFD) of the fabric");
	if (s->file >= 0 && fcntl(s->file, F_SETFD, 0))
		spawn_give_up("fcntl(F_SETFD) of the job's file");
	if (s->wdir && chdir(s->wdir))
		spawn_give_up("chdir");
	if (!s->ignore_pipe)
		sigaction(SIGPIPE, &dfl, NULL);
	if (s->ignore_ttou)
		sigaction(SIGTTOU, &ign, NULL);
	sigprocmask(SIG_SETMASK, s->sigmask, NULL);
	execve(s->path, s->argv, s->env);
	if (errno == ENOEXEC && s->shell_argv)
		execve("/bin/sh", s->shell_argv, s->env);
	spawn_give_up("execve");
}

/* Returns the pid, or -1 with failure set. */
static pid_t start_process(const struct start *s)
{
	pid_t pid;

	failure.err = 0;
	pid = vfork();
	if (pid == 0)
		become(s);
	if (pid < 0) {
		failure.err = errno;
		failure.what = "vfork";
	}
	return failure.err ? -1 : pid;
}

static char **shell_argv(const struct app *app)
{
	char **argv;
	int n = 0;

	while (app->argv[n])
		n++;
	argv = must(calloc((size_t)n + 2, sizeof *argv));
	argv[0] = (char *)"sh";
	argv[1] = app->path;
	for (int i = 1; i < n; i++)
		argv[i + 1] = app->argv[i];
	return argv;
}

/* With --tag-output: a pipe per stream, ours does not block. */
static bool open_stream(const struct rank *rank, const char *name, int to_fd, struct stream **stream, int *rank_end, char *why,
			size_t size)
{
	char number[24], tag[64];
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) || fcntl(fds[0], F_SETFL, O_NONBLOCK)) {
		snprintf(why, size, "no descriptor for the output of %s: %s (look at ulimit -n)", rank_name(rank),
			 strerror(errno));
		return false;
	}
	rank_tag(rank, ':', number, sizeof number);
	snprintf(tag, sizeof tag, "[%s]<%s> ", number, name);
	*stream = output_stream_new(fds[0], to_fd, tag);
	*rank_end = fds[1];
	return true;
}

/* --output-filename: NAME.RANK.out, NAME.RANK.err; of a spawned rank NAME.JOB.RANK.out. */
static int open_file(const struct job *job, const struct rank *rank, const char *what, char *why, size_t size)
{
	char number[24], *path;
	int fd;

	rank_tag(rank, '.', number, sizeof number);
	if (asprintf(&path, "%s.%s.%s", job->opt.output, number, what) < 0)
		must(NULL);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		snprintf(why, size, "%s: %s (--output-filename)", path, strerror(errno));
	free(path);
	return fd;
}

static bool open_outputs(const struct job *job, struct rank *rank, int *out, int *err, char *why, size_t size)
{
	if (job->opt.tag_output)
		return open_stream(rank, "stdout", 1, &rank->out, out, why, size) &&
		       open_stream(rank, "stderr", 2, &rank->err, err, why, size);
	if (job->opt.output)
		return (*out = open_file(job, rank, "out", why, size)) >= 0 &&
		       (*err = open_file(job, rank, "err", why, size)) >= 0;
	return true;
}

static int start_rank(const struct job *job, struct rank *rank, struct start *s, char *why, size_t size)
{
	struct app *app = rank->app;
	int out = -1, err = -1, code = EXIT_FAILURE;
	char number[16];

	s->env = server_rank_env(rank, why, size);
	if (!s->env)
		return EXIT_FAILURE;
	/* For scripts that choose a GPU or a directory before MPI_Init. All ranks are on this host. */
	snprintf(number, sizeof number, "%d", rank->number);
	env_set(&s->env, "HEDDLE_LOCAL_RANK", number);
	snprintf(number, sizeof number, "%d", rank->ns->nranks);
	env_set(&s->env, "HEDDLE_LOCAL_SIZE", number);
	rank->slot = guard_take(job->guard);
	if (rank->slot < 0)
		snprintf(why, size, "more ranks run already than the guard process can look after");
	if (rank->slot < 0 || !open_outputs(job, rank, &out, &err, why, size))
		goto out;
	s->path = app->path;
	s->argv = app->argv;
	s->shell_argv = app->text ? shell_argv(app) : NULL;
	s->wdir = app->wdir;
	s->out = out;
	s->err = err;
	rank->pid = start_process(s);
	free(s->shell_argv);
	if (rank->pid > 0) {
		guard_set(job->guard, rank->slot, rank->pid);
		code = 0;
	} else {
		rank->pid = 0;
		code = failure.err == EAGAIN || failure.err == ENOMEM ? EXIT_FAILURE : EXIT_CANNOT_RUN;
		snprintf(why, size, "%s (%s) cannot be started: %s: %s%s", rank_name(rank), app->path, failure.what,
			 strerror(failure.err),
			 failure.err == EAGAIN ? " (look at ulimit -u)" :
			 failure.err == ENOENT ? " (the interpreter that it names?)" :
						 "");
	}
out:
	if (out >= 0)
		close(out);
	if (err >= 0)
		close(err);
	env_free(s->env);
	return code;
}

int spawn_ranks(struct job *job, struct nspace *ns, const struct binding *binding, int stdin_fd, char *why, size_t size)
{
	struct start s = { .sigmask = job->old_mask, .files = job->files, .parent = getpid(), .fabric = job->fabric_fd,
			   .file = ns->file_fd, .ignore_pipe = job->ignore_pipe };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code = 0;
	struct termios tty;

	/* ahead of the first rank, whose children may lose their parent at once */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1))
		complain("warning: prctl(PR_SET_CHILD_SUBREAPER): %s; children of ranks in separate process groups are left "
			 "over", strerror(errno));
	if (null < 0) {
		snprintf(why, size, "/dev/null: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	/* Ranks are in the background of the terminal: where "stty tostop" is set, writing to the terminal would stop
	 * them. */
	s.ignore_ttou = !tcgetattr(STDERR_FILENO, &tty) && (tty.c_lflag & TOSTOP);
	for (int r = 0; r < ns->nranks && !code; r++) {
		struct rank *rank = &ns->ranks[r];
		char where[256];

		s.in = r == 0 && !ns->number ? stdin_fd : null;
		s.mask = binding_mask(binding, r, &s.mask_size);
		code = start_rank(job, rank, &s, why, size);
		if (!code)
			ns->running++;
		rank->ended = code != 0;
		if (!code && job->opt.verbose) {
			binding_name(binding, r, where, sizeof where);
			complain("%s: %s, pid %d, %s", rank_name(rank), rank->app->path, (int)rank->pid, where);
		}
	}
	for (int r = ns->running; r < ns->nranks; r++)
		ns->ranks[r].ended = true;
	close(null);
	return code;
}
