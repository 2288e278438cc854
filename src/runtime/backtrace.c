/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HEDDLE_BACKTRACE, heddlerun --backtrace: where a rank was when a signal ended it. By libbacktrace, which GCC brings, with
 * functions and lines; else by the C library, with the names of dynamic symbols.
 *
 * The handler runs in a process whose heap may be broken: the handler allocates nothing, and writes by write(2). Then
 * the signal takes its usual effect, so that exit code and core dump are the same.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(HAVE_BACKTRACE_H) && defined(HAVE_LIBBACKTRACE)
#include <backtrace.h>
#else
#include <execinfo.h>
#endif

#include "runtime/runtime.h"

enum { FRAMES = 64, STACK = 256 * 1024 };

static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS };
enum { NFATAL = sizeof fatal / sizeof fatal[0] };
static bool installed;
static char head[320];		/* "heddle: rank 3 (host): " of this process */

/* snprintf of the C library allocates nothing for these conversions. */
static __attribute__((format(printf, 1, 2))) void backtrace_say(const char *fmt, ...)
{
	char line[1024];
	size_t len = strlen(head);
	va_list ap;
	int n;

	memcpy(line, head, len);
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof line - len - 1, fmt, ap);
	va_end(ap);
	len += n < 0 ? 0 : (size_t)n < sizeof line - len - 1 ? (size_t)n : sizeof line - len - 2;
	line[len++] = '\n';
	if (write(STDERR_FILENO, line, len) < 0)
		errno = 0;	/* standard error itself has failed */
}

#if defined(HAVE_BACKTRACE_H) && defined(HAVE_LIBBACKTRACE)
static struct backtrace_state *state;

static void backtrace_failed(void *arg, const char *text, int err)
{
	if (err >= 0)		/* -1: no debug information, as the output shows */
		backtrace_say("  (no more can be told: %s)", text);
}

static void take_symbol(void *arg, uintptr_t pc, const char *name, uintptr_t value, uintptr_t size)
{
	*(const char **)arg = name;
}

static int take_frame(void *arg, uintptr_t pc, const char *file, int line, const char *function)
{
	int *n = arg;

	if (pc == UINTPTR_MAX)
		return 0;
	if (!function)
		backtrace_syminfo(state, pc, take_symbol, backtrace_failed, &function);
	if (file)
		backtrace_say("  #%d %s at %s:%d", *n, function ? function : "?", file, line);
	else
		backtrace_say("  #%d %s [%#lx]", *n, function ? function : "?", (unsigned long)pc);
	return ++*n >= FRAMES;
}

static bool backtrace_prepare(void)
{
	state = backtrace_create_state(NULL, 1, backtrace_failed, NULL);
	return state != NULL;
}

/* skip: frames of the handler itself. */
static void print_frames(void)
{
	int n = 0;

	backtrace_full(state, 2, take_frame, backtrace_failed, &n);
}
#else
static bool backtrace_prepare(void)
{
	void *first;

	return backtrace(&first, 1) > 0;	/* loads libgcc, which the handler must not do */
}

static void print_frames(void)
{
	void *pc[FRAMES];

	backtrace_symbols_fd(pc, backtrace(pc, FRAMES), STDERR_FILENO);
}
#endif

static void on_fatal(int sig, siginfo_t *info, void *context)
{
	static atomic_flag printing = ATOMIC_FLAG_INIT;
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	while (atomic_flag_test_and_set(&printing))	/* another thread prints, and ends the process */
		pause();
	if (info->si_code > 0 && sig != SIGABRT)
		backtrace_say("signal %d (%s) at address %p:", sig, sigdescr_np(sig), info->si_addr);
	else
		backtrace_say("signal %d (%s):", sig, sigdescr_np(sig));
	print_frames();
	sigaction(sig, &dfl, NULL);
	/* A faulting instruction faults again on return; a signal that was sent is raised again. */
	if (info->si_code <= 0)
		raise(sig);
	else
		atomic_flag_clear(&printing);
}

/* A handler cannot run on a stack that has overflowed. Main thread only; other threads' stacks have their own
 * limits. */
static void own_stack(void)
{
	stack_t old, own = { .ss_size = STACK };

	if (sigaltstack(NULL, &old) || !(old.ss_flags & SS_DISABLE))
		return;		/* the program has one */
	own.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (own.ss_sp == MAP_FAILED || sigaltstack(&own, NULL))
		hdl_debug("no stack of its own for the handler of fatal signals: %s", strerror(errno));
}

void hdl_backtrace_init(void)
{
	struct sigaction sa = { .sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

	if (!hdl_vars.backtrace || installed)
		return;
	if (hdl_job.singleton)
		snprintf(head, sizeof head, "heddle: ");
	else
		snprintf(head, sizeof head, "heddle: rank %d (%.255s): ", hdl_job.rank, hdl_job.hostname);
	if (!backtrace_prepare()) {
		hdl_warn("HEDDLE_BACKTRACE: the stack cannot be read here");
		return;
	}
	own_stack();
	installed = true;
	for (int i = 0; i < NFATAL; i++) {
		struct sigaction before;

		/* The program's own handler stays. */
		if (!sigaction(fatal[i], NULL, &before) && before.sa_handler == SIG_DFL)
			sigaction(fatal[i], &sa, NULL);
	}
}
