/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sender that never waits, and so never needs progress, must notice all the same that its peer asks it to hold its
 * messages back. Rank 0 asks for it, and takes all that comes; rank 1 does nothing but send, slowly enough that there is
 * always room, until a send is announced instead of being done. Then rank 0 fetches it and lets go, and sends are done at
 * once again. With "short" the messages are no longer than an announcement, and rank 0 asks for all messages to be held.
 */
#include "transport_test.h"

#define TEXT "a message that is longer than an announcement"
#define SHORT 8u
#define WARM 300
#define MOST 60000	/* several laps of a ring */

static bool is_short;
static unsigned got, announced, fetched, last;
static int ended;
static char in[64];
static struct hdl_fetch fetch[MOST];

static void fetch_done(struct hdl_fetch *f, int err)
{
	fetched += !err && f->len == (is_short ? SHORT : sizeof(TEXT)) && !memcmp(f->buf, TEXT, f->len);
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	got++;
	last |= hdr->tag == 99;
	if (hdr->kind != HDL_RTS)
		return;
	fetch[announced].done = fetch_done;
	if (!hdl_ep_fetch(ep_of(tp, src), payload, in, sizeof(in), &fetch[announced]))
		announced++;
}

static void sent(struct hdl_send *s, int err)
{
	ended++;
}

static struct hdl_send in_flight;

/* 1: done at once. */
static int send_one(int tag)
{
	in_flight.done = sent;
	return hdl_ep_send(ep_of(tp, !hdl_job.rank), tag, 2, false, TEXT, is_short ? SHORT : sizeof(TEXT), &in_flight);
}

static void send_and_wait(int tag)
{
	unsigned idle = 0;
	int before = ended;

	if (!send_one(tag))
		while (ended == before)
			turn(&idle);
}

static void receiver(void)
{
	unsigned idle = 0;

	hdl_ep_eager_off(ep_of(tp, 1), is_short ? HDL_EAGER_NONE : HDL_EAGER_SHORT);
	while (!announced && !last)
		turn(&idle);
	if (!announced)
		fail("nothing was announced");
	while (fetched < announced)
		turn(&idle);
	hdl_ep_eager_off(ep_of(tp, 1), HDL_EAGER_ON);
	while (!last)
		turn(&idle);
	if (fetched != announced)
		fail("an announced message was not fetched, or is wrong");
}

static void sender(void)
{
	unsigned idle = 0;
	int n, r = 1;

	for (n = 0; n < MOST && (r = send_one(1)) == 1; n++)
		if (n % 16 == 0)
			usleep(50);
	if (r)
		fail("was not told to hold");
	while (!ended)
		turn(&idle);
	for (n = 0; n < MOST && (r = send_one(1)) != 1; n++) {
		int before = ended;

		while (r == 0 && ended == before)
			turn(&idle);
	}
	if (r != 1)
		fail("still holds");
	send_and_wait(99);
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived };
	unsigned idle = 0;

	is_short = argc > 1 && !strcmp(argv[1], "short");
	start(&up);
	for (unsigned i = 0; i < WARM; i++) {
		send_and_wait(0);
		while (got < i + 1)
			turn(&idle);
	}
	ended = 0;
	if (hdl_job.rank)
		sender();
	else
		receiver();
	return finish();
}
