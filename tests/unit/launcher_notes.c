/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of notes: order, the descriptor, and a sender without a receiver. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "launcher/launcher.h"

enum { MANY = 20000 };	/* a pipe takes 8,192 pointers */

static int fd;

static void send_one(int code)
{
	struct note *note = calloc(1, sizeof *note);

	cr_assert(note);
	note->code = code;
	notes_send(note);
}

static bool is_readable(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void expect(int code)
{
	struct note *note = notes_take();

	cr_assert(note);
	cr_assert_eq(note->code, code);
	free(note);
}

static void begin(void)
{
	fd = notes_open();
	cr_assert_geq(fd, 0);
}

TestSuite(launcher_notes, .init = begin, .timeout = 120);

Test(launcher_notes, order)
{
	cr_assert_not(is_readable());
	cr_assert_null(notes_take());
	send_one(1);
	send_one(2);
	cr_assert(is_readable());
	expect(1);
	cr_assert(is_readable());
	send_one(3);
	expect(2);
	expect(3);
	cr_assert_null(notes_take());
	cr_assert_not(is_readable());
	send_one(4);
	cr_assert(is_readable());
	expect(4);
	cr_assert_null(notes_take());
}

/* The event loop calls notes_take only when the server's thread has answered. */
Test(launcher_notes, nobody_takes)
{
	for (int i = 0; i < MANY; i++)
		send_one(i);
	for (int i = 0; i < MANY; i++)
		expect(i);
	cr_assert_null(notes_take());
}

static void *sends(void *arg)
{
	for (int i = 0; i < MANY; i++)
		send_one(i);
	return arg;
}

Test(launcher_notes, two_threads)
{
	pthread_t thread;
	int next = 0;

	cr_assert_not(pthread_create(&thread, NULL, sends, NULL));
	while (next < MANY) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		struct note *note;

		cr_assert_eq(poll(&p, 1, 60000), 1, "no note within 60 s, %d are missing", MANY - next);
		while ((note = notes_take())) {
			cr_assert_eq(note->code, next++);
			free(note);
		}
	}
	pthread_join(thread, NULL);
}
