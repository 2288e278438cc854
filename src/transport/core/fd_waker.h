/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside of src/transport: ends a sleep on a word when descriptors become readable. */
#ifndef HDL_ROUSE_H
#define HDL_ROUSE_H

#include <pthread.h>
#include <stdbool.h>

/*
 * A futex and a descriptor cannot be slept on in one call that every kernel has. So who sleeps on a word has a thread that sleeps on the
 * descriptors, and changes the word when one of them tells of something.
 *
 * (W) No wake-up is lost if the sleeper (1) reads the word, (2) arms what makes the descriptors readable, (3) looks whether there is
 *     something to do, (4) sleeps while the word is what it has read. What was there before (2) is found by (3); what comes later makes a
 *     descriptor readable, and rouse is called behind that: behind (1), so that (4) does not begin, or ends.
 * (E) The descriptors are watched for edges: the thread is told once of each event, also while earlier ones have not been read, and not
 *     again of those. So whoever does not sleep costs it nothing, and may leave events unread until it has slept.
 */
struct hdl_fd_waker {
	pthread_t thread;
	bool runs;
	int epoll, stop;
	void (*rouse)(void *arg);	/* changes the word, and wakes who sleeps on it */
	void *arg;
};

/* Starts the thread, which calls rouse(arg) whenever one of the n descriptors has something new. 0 or a negative errno, which is
 * reported; then there is nothing to close. */
int hdl_fd_waker_open(struct hdl_fd_waker *r, const int *fds, int n, void (*rouse)(void *arg), void *arg);
/* rouse is not called any more. Does nothing to one that was never opened (all zeros). */
void hdl_fd_waker_close(struct hdl_fd_waker *r);

#endif
