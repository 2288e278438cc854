/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of notes from the PMIx server's thread to the event loop. A list, and no pipe, since a pipe may be full:
 *
 *     1. Two jobs of 100 ranks each call PMIx_Connect, and the server's thread writes a note for each rank.
 *     2. The event loop is in server_register, where it waits for the server's thread.
 *     3. A pipe takes 8,192 pointers. Behind these the server's thread waits for the event loop: both wait for ever.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "launcher/launcher.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all below */
static struct note *oldest, **end = &oldest;
static int event_fd = -1;	/* its count is not 0 while there are notes */

int notes_open(void)
{
	event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return event_fd < 0 ? -errno : event_fd;
}

void notes_send(struct note *note)
{
	note->next = NULL;
	pthread_mutex_lock(&lock);
	*end = note;
	end = &note->next;
	eventfd_write(event_fd, 1);	/* cannot overflow: 2^64 - 2 */
	pthread_mutex_unlock(&lock);
}

struct note *notes_take(void)
{
	struct note *note;
	eventfd_t count;

	pthread_mutex_lock(&lock);
	note = oldest;
	if (note) {
		oldest = note->next;
		if (!oldest)
			end = &oldest;
	} else {
		eventfd_read(event_fd, &count);
	}
	pthread_mutex_unlock(&lock);
	return note;
}
