/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends a sleep on a word when descriptors become readable. */
#ifndef HDL_ROUSE_H
#define HDL_ROUSE_H

#include <pthread.h>
#include <stdbool.h>

/*
 * No call of every kernel sleeps on a futex and on descriptors. So a thread sleeps on the descriptors, and changes the word
 * when one of them becomes readable.
 *
 * (W) No wake-up is lost if the sleeper (1) reads the word, (2) arms the event sources of the descriptors, (3) checks its
 * condition, (4) sleeps while the word has the value of (1). An event before (2) is found by (3). A later event makes a
 * descriptor readable, and `wake` is called behind that, so behind (1): (4) does not begin, or ends.
 *
 * (E) The descriptors are watched for edges: the thread gets each event once, also while earlier ones have not been read. So a
 * process that does not sleep costs the thread nothing, and may leave events unread until it has slept.
 */
struct hdl_fd_waker {
	pthread_t thread;
	bool runs;
	int epoll, stop;
	void (*wake)(void *arg);	/* changes the word, and wakes the sleepers; called by the thread */
	void *arg;
};

/* Starts the thread, which calls wake(arg) whenever one of the n descriptors becomes readable. 0 or a negative errno, reported;
 * then there is nothing to close. */
int hdl_fd_waker_open(struct hdl_fd_waker *r, const int *fds, int n, void (*wake)(void *arg), void *arg);
/* Ends the thread: wake is not called any more. Does nothing to one that was never opened (all zeros). */
void hdl_fd_waker_close(struct hdl_fd_waker *r);

#endif
