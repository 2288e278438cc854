/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: makes progress for a process that computes outside the library while peers' operations on its windows are
 * messages (struct hdl_win, helped). The thread runs while such a window exists.
 *
 *     helper                                         a thread of the program
 *     sleeps PERIOD
 *     takes the library's lock                       computes; or waits in a call: is on hdl_waiters, or turns
 *     no turn of progress since the last look,
 *       and no thread waits: turns of progress
 *     gives the lock; after a turn that found
 *       something the next sleep is SOON
 *
 * Invariant: the helper does nothing while a thread of the program makes progress, so a program that communicates pays one look
 * at each PERIOD and, in each call, the lock of runtime/threads.h, which hdl_rma_helper_begin puts into use for good.
 */
#include "rma/sync.h"
#include "runtime/thread.h"
#include "runtime/threads.h"

#include <stdlib.h>
#include <time.h>

#define PERIOD	1000000L		/* ns */
#define SOON	50000L
#define BURST	64			/* turns under one hold of the lock */

struct helper {
	pthread_t thread;
	uint64_t turned;		/* hdl_tp_turned at the last look */
	int stop;			/* atomic */
};

/* Written under the lock. */
static struct helper *helper;
static int windows;			/* with the helper, or without it for lack of memory */

static bool helper_turns(struct helper *h)
{
	bool found = false;

	hdl_lock_take();
	if (!hdl_waiters && hdl_tp_turned(hdl_mpi_tp) == h->turned)
		for (int i = 0; i < BURST && hdl_tp_progress(hdl_mpi_tp); i++)
			found = true;
	h->turned = hdl_tp_turned(hdl_mpi_tp);
	hdl_lock_give();
	return found;
}

static void *win_helper_main(void *arg)
{
	struct helper *h = arg;
	struct timespec pause = { .tv_nsec = PERIOD };

	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE)) {
		nanosleep(&pause, NULL);
		if (helper_turns(h))
			pause.tv_nsec = SOON;
		else if ((pause.tv_nsec *= 2) > PERIOD)
			pause.tv_nsec = PERIOD;
	}
	return NULL;
}

void hdl_rma_helper_begin(void)
{
	if (windows++ || !(helper = calloc(1, sizeof(*helper))))
		return;
	hdl_threads = true;
	/* a stack of the default size: progress may call the program's reduction functions */
	if (!hdl_thread_create(&helper->thread, NULL, win_helper_main, helper, "heddle-rma"))
		return;
	hdl_warn("no thread can be made: operations on this rank's windows wait while the rank computes outside the library");
	free(helper);
	helper = NULL;
}

void hdl_rma_helper_end(void)
{
	struct helper *h = helper;
	unsigned depth;

	if (--windows || !h)
		return;
	helper = NULL;
	__atomic_store_n(&h->stop, 1, __ATOMIC_RELEASE);
	/* the thread may be waiting for the lock */
	depth = hdl_lock_open();
	pthread_join(h->thread, NULL);
	hdl_lock_close(depth);
	free(h);
}
