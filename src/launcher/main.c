/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stack.h"
#include "launcher/launcher.h"
#include "runtime/runtime.h"

extern char **environ;

/* Opens /dev/null for each standard descriptor that is closed: else a pipe of ours would get the number, and be taken
 * for it. */
static void open_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd >= 0)
		close(fd);
}

/* Raises the limit of open files: up to three descriptors per rank are needed here, beside the PMIx server's; the ranks
 * start with the original limit. false: the limit is too low, which the PMIx library would report in words that no user
 * understands. */
static bool raise_file_limit(struct job *job)
{
	/* The event loops, pipes and sockets of heddlerun and of the PMIx server, and some to spare for the server's
	 * start. */
	rlim_t need = 23 + (rlim_t)job->opt.nranks * (job->opt.tag_output ? 3 : 1);
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, &job->files))
		return true;
	more = job->files;
	more.rlim_cur = more.rlim_max;
	setrlimit(RLIMIT_NOFILE, &more);
	if (more.rlim_max >= need)
		return true;
	complain("too few open files are allowed: %d ranks%s need %llu descriptors in heddlerun, the limit is %llu (ulimit -Hn; "
		 "/etc/security/limits.conf, LimitNOFILE of systemd, docker --ulimit nofile=)", job->opt.nranks,
		 job->opt.tag_output ? " with --tag-output" : "", (unsigned long long)need, (unsigned long long)more.rlim_max);
	return false;
}

/* Ranks reach the PMIx server by a network interface, the loopback interface at least. */
static bool find_interface(void)
{
	struct ifaddrs *all, *i;

	if (getifaddrs(&all))
		return true;		/* the server will report that */
	for (i = all; i && (!(i->ifa_flags & IFF_UP) || !i->ifa_addr ||
			    (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)); i = i->ifa_next)
		;
	freeifaddrs(all);
	if (i)
		return true;
	complain("no network interface is up, not even the loopback one, by which ranks reach heddlerun's PMIx server (a network "
		 "namespace of its own, as of unshare -n?): ip link set lo up");
	return false;
}

/* The network and user namespaces of heddlerun, with which a rank that cannot reach us compares its own. "" without
 * /proc. */
static void name_spaces(char *text, size_t size)
{
	static const char *const which[] = { "/proc/self/ns/net", "/proc/self/ns/user" };
	size_t len = 0;

	*text = 0;
	for (int i = 0; i < 2; i++) {
		char name[64];
		ssize_t n = readlink(which[i], name, sizeof name);

		if (n > 0)
			len += (size_t)snprintf(text + len, size - len, "%s%.*s", len ? " " : "", (int)n, name);
	}
}

/* Signals that were ignored when heddlerun was started stay ignored (nohup; the commands that a script runs in the
 * background ignore SIGINT): they are not for this job. A blocked signal is delivered to the signalfd even if it is
 * ignored. */
static void block_signals(struct job *job, sigset_t *old)
{
	static const int all[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };
	struct sigaction was;

	sigemptyset(&job->taken);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (all[i] == SIGCHLD || sigaction(all[i], NULL, &was) || was.sa_handler != SIG_IGN)
			sigaddset(&job->taken, all[i]);
	sigprocmask(SIG_BLOCK, &job->taken, old);
	job->ignore_pipe = !sigaction(SIGPIPE, NULL, &was) && was.sa_handler == SIG_IGN;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);	/* if the parent left SIGCHLD ignored, children would vanish unseen */
}

/* Makes the namespace of the command line's ranks. */
static bool name_job(struct job *job)
{
	char name[sizeof job->nspaces->name];
	uint64_t secret;

	if (getrandom(&secret, sizeof secret, 0) != sizeof secret) {
		complain("no random number for the job's name: %s", strerror(errno));
		return false;
	}
	snprintf(name, sizeof name, "heddle-%d-%016llx", (int)getpid(), (unsigned long long)secret);
	if (gethostname(job->host, sizeof job->host - 1))
		snprintf(job->host, sizeof job->host, "localhost");
	job->behind_fd = job->behind_pidfd = -1;
	nspace_new(job, name, job->opt.apps, job->opt.napps)->met = true;
	return !job->opt.behind || behind_take(job);
}

/* Sets each program's environment, and finds its file. Returns 0 or the exit code. */
static int prepare_apps(struct job *job)
{
	char cpus[16], nranks[16], spaces[160], why[512];
	int code = 0;

	name_spaces(spaces, sizeof spaces);
	snprintf(cpus, sizeof cpus, "%d", job->ncpus);
	for (int a = 0; a < job->opt.napps && !code; a++) {
		struct app *app = &job->opt.apps[a];

		app->env = env_copy(environ);
		for (char **e = app->set_env; *e; e++) {
			char *name = must(strndup(*e, strcspn(*e, "=")));

			env_set(&app->env, name, *e + strlen(name) + 1);
			free(name);
		}
		if (hdl_vars_check(app->env))
			return EXIT_USAGE;
		if (job->opt.report_transports)
			env_set(&app->env, "HEDDLE_REPORT_TRANSPORTS", "1");
		if (job->opt.report_memory)
			env_set(&app->env, "HEDDLE_REPORT_MEMORY", "1");
		if (job->opt.report_collectives)
			env_set(&app->env, "HEDDLE_REPORT_COLLECTIVES", "1");
		if (job->opt.report_tuning)
			env_set(&app->env, "HEDDLE_REPORT_TUNING", "1");
		if (job->opt.backtrace)
			env_set(&app->env, "HEDDLE_BACKTRACE", "1");
		env_set(&app->env, "HEDDLERUN_NAMESPACE", job->nspaces->name);
		env_set(&app->env, "HEDDLERUN_CPUS", cpus);
		snprintf(nranks, sizeof nranks, "%d", app->nranks);
		env_set(&app->env, "HEDDLERUN_MAXPROCS", nranks);
		env_set(&app->env, "HEDDLERUN_SPACES", spaces);
		code = job->opt.behind ? 0 : app_find_program(app, why, sizeof why);
		if (code)
			complain("%s", why);
	}
	if (code)
		return code;
	nspace_make_file(job->nspaces);
	return fabric_make(job);
}

static bool make_tmpdir(struct job *job)
{
	const char *tmp = getenv("TMPDIR");

	if (asprintf(&job->tmpdir, "%s/heddlerun-%d-XXXXXX", tmp && *tmp ? tmp : "/tmp", (int)getpid()) < 0)
		must(NULL);
	if (mkdtemp(job->tmpdir))
		return true;
	complain("%s: the job's private directory cannot be made: %s (TMPDIR names another place)", job->tmpdir,
		 strerror(errno));
	return false;
}

/* A terminal's input is copied to a pipe, because ranks are in the terminal's background; all other input rank 0 reads
 * itself. Returns rank 0's standard input, or -1 for ours; *tty_fd is the end to copy to, or -1. */
static int prepare_stdin(int *tty_fd)
{
	int fds[2];

	*tty_fd = -1;
	if (!isatty(STDIN_FILENO) || pipe2(fds, O_CLOEXEC))
		return -1;
	*tty_fd = fds[1];
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	return fds[0];
}

/* Starts the ranks of the command line, or takes the program that has started this heddlerun for one. Returns the exit code. */
static int start_job(struct job *job, int *tty_fd)
{
	char why[512];
	int stdin_fd, code;

	*tty_fd = -1;
	if (job->opt.behind)
		return behind_answer(job);
	stdin_fd = prepare_stdin(tty_fd);
	code = spawn_ranks(job, job->nspaces, job->binding, stdin_fd, why, sizeof why);
	if (code)
		complain("%s", why);
	if (stdin_fd >= 0)
		close(stdin_fd);
	return code;
}

static int main_run(struct job *job)
{
	int note_fd, tty_fd, code = EXIT_FAILURE;

	if (!make_tmpdir(job))
		return EXIT_FAILURE;
	job->guard = guard_start(job->opt.nranks, job->tmpdir, job->nspaces->name);
	if (!job->guard)
		goto out;
	note_fd = server_start(job);
	if (note_fd < 0)
		goto out;
	/* The PMIx library has by now put any files there: with our settings, none. Then not even the directory can be
	 * left behind. */
	rmdir(job->tmpdir);
	code = start_job(job, &tty_fd);
	code = supervise(job, note_fd, tty_fd, code);
	names_drop(NULL, 0);
	if (!code && output_error())
		code = output_error() == EPIPE ? EXIT_BY_SIGNAL + SIGPIPE : EXIT_FAILURE;
out:
	remove_tree(job->tmpdir);
	if (job->guard)
		guard_stop(job->guard);
	return code;
}

static void *run_thread(void *job)
{
	_exit(main_run(job));		/* not exit: the PMIx server's thread still runs */
}

/* libpmix has 200 KiB of buffers on the stack in PMIx_server_setup_fork. Where `ulimit -s` leaves less, all goes on in
 * a thread that has enough. That thread stays the ranks' parent (PR_SET_PDEATHSIG) until the end. */
static _Noreturn void run_job(struct job *job)
{
	struct rlimit stack;
	pthread_t thread;
	int err;

	stack_raise();
	if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur >= STACK_MIN)
		run_thread(job);
	err = pthread_create(&thread, NULL, run_thread, job);
	if (!err)
		pthread_join(thread, NULL);
	complain("no thread with a stack of %zu KiB can be had: %s; the limit on the stack is %llu KiB (ulimit -s)",
		 STACK_MIN >> 10, strerror(err), (unsigned long long)stack.rlim_cur >> 10);
	_exit(EXIT_FAILURE);
}

static __attribute__((noinline)) int main_start(int argc, char **argv)
{
	static struct job job;		/* static: objects that refer to it live as long as heddlerun */
	sigset_t old_mask;
	int code;

	hdl_diag_program("heddlerun");
	hdl_output_watch();
	open_standard_descriptors();
	code = options_parse(&job.opt, argc, argv);
	if (code >= 0)
		return code;
	environ = env_copy(environ);
	env_scrub(environ);
	server_tune_library(&environ);
	if (!name_job(&job))
		return EXIT_FAILURE;
	job.binding = binding_make(&job.opt);
	job.ncpus = binding_cpus(job.binding);
	job.universe = job.opt.universe                            ? job.opt.universe :
		       job.opt.nranks > binding_cores(job.binding) ? job.opt.nranks :
								     binding_cores(job.binding);
	code = prepare_apps(&job);
	if (code)
		return code;
	binding_check_threads(job.binding, &job.opt);
	if (job.opt.report_bindings)
		binding_report(job.binding);
	if (!raise_file_limit(&job) || !find_interface())
		return EXIT_FAILURE;
	block_signals(&job, &old_mask);
	job.old_mask = &old_mask;
	if (job.opt.verbose)
		complain("Heddle %s: %d ranks on %s, %d CPUs, job %s", PACKAGE_VERSION, job.opt.nranks, job.host, job.ncpus,
			 job.nspaces->name);
	run_job(&job);
}

/* The frame of main is small, so that a process with very little stack still reaches the error message about that. */
int main(int argc, char **argv)
{
	return stack_is_small("heddlerun") ? EXIT_FAILURE : main_start(argc, argv);
}
