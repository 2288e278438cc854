/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that ends a sleep on a word for descriptors: a sleeper and writers to two descriptors, each of whose events must
 * end a sleep. A wake-up that is lost is a sleep that does not end: the alarm ends the test.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "transport/core/fd_waker.h"

enum { ROUNDS = 20000 };

static _Atomic uint32_t word;
static _Atomic unsigned roused;
static char said[1024];

void hdl_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

static void rouse(void *arg)
{
	cr_assert_eq(arg, &word);
	atomic_fetch_add(&roused, 1);
	atomic_fetch_add(&word, 1);
	syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void sleep_on(uint32_t seen)
{
	syscall(SYS_futex, &word, FUTEX_WAIT, seen, NULL, NULL, 0);
}

struct writer {
	pthread_t thread;
	int pipe[2];
	_Atomic unsigned taken;		/* how many of its bytes were read */
};

static void *write_one_after_another(void *arg)
{
	struct writer *w = arg;

	for (unsigned i = 1; i <= ROUNDS; i++) {
		/* sometimes all is read and the sleeper on its way to sleep, or asleep; sometimes there is something to read */
		while (atomic_load(&w->taken) + 1 + i % 3 < i)
			sched_yield();
		cr_assert_eq(write(w->pipe[1], "", 1), 1);
	}
	return NULL;
}

static void open_writer(struct writer *w)
{
	cr_assert_eq(pipe(w->pipe), 0);
	fcntl(w->pipe[0], F_SETFL, O_NONBLOCK);
}

static unsigned take(struct writer *w)
{
	char some[8];
	ssize_t n = read(w->pipe[0], some, sizeof(some));

	return n > 0 ? (unsigned)n : 0;
}

Test(transport_fd_waker, no_event_is_lost, .timeout = 60)
{
	struct writer w[2] = { 0 };
	struct hdl_fd_waker r;
	unsigned got = 0;

	open_writer(&w[0]);
	open_writer(&w[1]);
	cr_assert_eq(hdl_fd_waker_open(&r, (int[]){ w[0].pipe[0], w[1].pipe[0] }, 2, rouse, &word), 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&w[i].thread, NULL, write_one_after_another, &w[i]);
	while (got < 2 * ROUNDS) {
		uint32_t seen = atomic_load(&word);
		unsigned some = 0;

		for (int i = 0; i < 2; i++) {
			unsigned n = take(&w[i]);
			atomic_fetch_add(&w[i].taken, n);
			some += n;
		}
		got += some;
		if (!some)
			sleep_on(seen);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(w[i].thread, NULL);
	hdl_fd_waker_close(&r);
	cr_assert_leq(atomic_load(&roused), 2 * ROUNDS);
}

/* A sleeper reads no descriptor beforehand: unread data hide no later event, and cost no more system calls. */
Test(transport_fd_waker, an_event_counts_once, .timeout = 60)
{
	struct writer w = { 0 };
	struct hdl_fd_waker r;

	open_writer(&w);
	cr_assert_eq(write(w.pipe[1], "", 1), 1);
	cr_assert_eq(hdl_fd_waker_open(&r, &w.pipe[0], 1, rouse, &word), 0);
	for (unsigned i = 1; i < 100; i++) {
		while (atomic_load(&roused) < i)
			sched_yield();
		cr_assert_eq(write(w.pipe[1], "", 1), 1);
	}
	while (atomic_load(&roused) < 100)
		sched_yield();
	hdl_fd_waker_close(&r);
	cr_assert_eq(atomic_load(&roused), 100);
	cr_assert_eq(write(w.pipe[1], "", 1), 1);
	cr_assert_eq(atomic_load(&roused), 100);
	/* again: the descriptor numbers belong to other files by then */
	open_writer(&w);
	hdl_fd_waker_close(&r);
	cr_assert_eq(write(w.pipe[1], "", 1), 1);
	cr_assert_eq(take(&w), 1);
}

Test(transport_fd_waker, each_descriptor_wakes, .timeout = 60)
{
	struct writer w[3] = { 0 };
	struct hdl_fd_waker r;

	for (int i = 0; i < 3; i++)
		open_writer(&w[i]);
	cr_assert_eq(hdl_fd_waker_open(&r, (int[]){ w[0].pipe[0], w[1].pipe[0], w[2].pipe[0] }, 3, rouse, &word), 0);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(write(w[2 - i].pipe[1], "", 1), 1);
		while (atomic_load(&roused) <= i)
			sched_yield();
	}
	hdl_fd_waker_close(&r);
}

static _Atomic pthread_t handled_by;
static _Atomic bool handled;

static void handle(int sig)
{
	(void)sig;
	atomic_store(&handled_by, pthread_self());
	atomic_store(&handled, true);
}

/* A signal for the process is for one of the program's threads, which have the masks that they had. */
Test(transport_fd_waker, signals_are_the_programs, .timeout = 60)
{
	sigset_t one, before, now;
	struct writer w = { 0 };
	struct hdl_fd_waker r;

	open_writer(&w);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR2);
	signal(SIGUSR1, handle);
	signal(SIGUSR2, handle);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	cr_assert_eq(hdl_fd_waker_open(&r, &w.pipe[0], 1, rouse, &word), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	for (int sig = 1; sig < 32; sig++)
		cr_assert_eq(sigismember(&now, sig), sigismember(&before, sig), "signal %d", sig);
	/* the program's only thread does not take this one now */
	pthread_sigmask(SIG_BLOCK, &one, NULL);
	cr_assert_eq(kill(getpid(), SIGUSR2), 0);
	cr_assert_eq(write(w.pipe[1], "", 1), 1);
	while (!atomic_load(&roused))		/* the other thread has been at work since */
		sched_yield();
	cr_assert_not(atomic_load(&handled));
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	cr_assert(atomic_load(&handled) && pthread_equal(atomic_load(&handled_by), pthread_self()));
	atomic_store(&handled, false);
	cr_assert_eq(kill(getpid(), SIGUSR1), 0);
	while (!atomic_load(&handled))
		sched_yield();
	cr_assert(pthread_equal(atomic_load(&handled_by), pthread_self()));
	hdl_fd_waker_close(&r);
}

Test(transport_fd_waker, what_cannot_be_had_is_said)
{
	const struct rlimit none = { 3, 3 };
	struct hdl_fd_waker r;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cr_assert_lt(hdl_fd_waker_open(&r, NULL, 0, rouse, &word), 0);
	cr_assert(strstr(said, "ulimit -n"), "%s", said);
	hdl_fd_waker_close(&r);
}
