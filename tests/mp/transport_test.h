/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by programs that use the transport alone: one source file each, one instance (`tp`; of several the one whose state is
 * printed), traffic in turns or by two threads. */
#ifndef HDL_TRANSPORT_TEST_H
#define HDL_TRANSPORT_TEST_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "runtime/threads.h"
#include "transport/core/tp.h"

/* weak: one object in a program of several sources */
__attribute__((weak)) struct hdl_tp *tp;

__attribute__((format(printf, 1, 2))) static inline _Noreturn void fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (tp)
		hdl_tp_dump(tp, stderr);
	hdl_rt_abort(3, text);
}

static inline void start(const struct hdl_upcalls *up)
{
	if (hdl_vars_load() || hdl_rt_init(true) || hdl_tp_init(up, &tp))
		exit(1);
}

/* Returns a rank's endpoint; ends the job if there is none. */
static inline struct hdl_ep *ep_of(struct hdl_tp *instance, int rank)
{
	struct hdl_ep *ep = hdl_ep(instance, rank);

	if (!ep)
		fail("no endpoint of rank %d: %s", rank, strerror(errno));
	return ep;
}

/* struct hdl_upcalls, peer_failed, of programs whose peers must not fail. In the fence of hdl_tp_fini peers depart. */
static inline void no_peer_fails(void *context, int peer, int err)
{
	(void)context;
	if (!hdl_ep_has_departed(tp, peer))
		fail("rank %d failed: %s", peer, strerror(-err));
}

/* The program's status. */
static inline int finish(void)
{
	bool says = hdl_job.rank == 0;

	if (hdl_tp_fini(&tp) || hdl_rt_fini(true))
		return 1;
	if (says)
		puts("ok");
	return 0;
}

/* A number that follows from another one, and looks like any. */
static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ull;
	return x ^ x >> 33;
}

/* A turn of progress of an instance, behind something that was done, or not. */
static inline void turn_of(struct hdl_tp *instance, bool did, unsigned *idle)
{
	if (hdl_tp_progress(instance) || did)
		*idle = 0;
	else
		hdl_tp_idle(instance, idle);
}

static inline void turn_after(bool did, unsigned *idle)
{
	turn_of(tp, did, idle);
}

static inline void turn(unsigned *idle)
{
	turn_after(false, idle);
}

struct traffic {
	bool (*some)(void);	/* begins some of the remaining operations; false: none could be begun */
	bool (*over)(void);	/* all expected messages have come, and all operations have ended */
};

static inline void *by_thread(void *arg)
{
	const struct traffic *t = arg;

	for (bool end = false; !end; sched_yield()) {
		hdl_lock_take();
		t->some();
		hdl_tp_progress(tp);
		end = t->over();
		hdl_lock_give();
	}
	return NULL;
}

static inline void run(const struct traffic *t, bool threads)
{
	unsigned idle = 0;
	pthread_t other;

	if (threads) {
		hdl_threads = true;
		if (pthread_create(&other, NULL, by_thread, (void *)t))
			fail("no thread");
		by_thread((void *)t);
		pthread_join(other, NULL);
		hdl_threads = false;
	}
	while (!t->over())
		turn_after(t->some(), &idle);
}

static inline bool is_stopped(pid_t pid)
{
	char name[64], state = 0;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(name, "re");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		fail("%s cannot be read", name);
	fclose(f);
	return state == 'T';
}

/* Rank 1 stops itself in the middle of it, and rank 0 has it go on after a while. */
static inline void run_while_stopped(const struct traffic *t)
{
	uint64_t until = 0;
	pid_t peer = hdl_job.size > 1 && hdl_job.rank == 0 ? (pid_t)hdl_ep(tp, 1)->proc.pid : 0;

	if (hdl_job.rank == 1)
		kill(getpid(), SIGSTOP);
	while (peer && (!until || monotonic_ns() < until)) {
		t->some();
		hdl_tp_progress(tp);
		if (!until && is_stopped(peer))
			until = monotonic_ns() + 300000000;
	}
	if (peer)
		kill(peer, SIGCONT);
	run(t, false);
}

#endif
