/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank leaves when its messages have been received, after any time, and by any evidence: rank 1 sends more messages than rank
 * 0, which makes no progress, has receives for, and leaves. The last completion for which rank 1 waits comes long after rank 1
 * has gone to sleep, alone.
 */
#include "transport_test.h"

#define WARM 100
#define MESSAGES 40	/* of 1000 bytes: more than HEDDLE_SRQ_DEPTH=16, less than a send queue takes */
#define LOOKS_AWAY_US 500000

static unsigned got;
static int ended;

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	got++;
}

static void sent(struct hdl_send *s, int err)
{
	ended++;
}

static void send_and_wait(void)
{
	static struct hdl_send send = { .done = sent };
	static char text[1000];
	unsigned idle = 0;
	int before = ended;

	if (!hdl_ep_send(ep_of(tp, !hdl_job.rank), 1, 2, false, text, sizeof(text), &send))
		while (ended == before)
			turn(&idle);
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived };
	unsigned idle = 0;

	start(&up);
	for (unsigned i = 0; i < WARM; i++) {
		send_and_wait();
		while (got < i + 1)
			turn(&idle);
	}
	for (int i = 0; hdl_job.rank && i < MESSAGES; i++)
		send_and_wait();
	if (!hdl_job.rank)
		usleep(LOOKS_AWAY_US);
	return finish();
}
