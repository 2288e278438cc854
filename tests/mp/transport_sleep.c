/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting: a token goes round while all other ranks sleep; no wake-up may be lost, on any lane. Then all ranks but the first wait
 * for a message that comes late, and must have used no CPU meanwhile.
 *
 *     transport_sleep [laps]
 */
#include <sys/resource.h>

#include "transport_test.h"

static unsigned tokens;
static uint64_t value;
static int ended;

static void fetched(struct hdl_fetch *f, int err)
{
	if (err)
		fail("a fetch failed");
	free(f);
	tokens++;
}

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
	if (hdl_msg_len(hdr, payload) != sizeof(value))
		fail("not the token");
	if (hdr->kind == HDL_RTS) {
		struct hdl_fetch *f = calloc(1, sizeof(*f));
		f->done = fetched;
		if (hdl_ep_fetch(ep_of(tp, src), payload, &value, sizeof(value), f))
			fail("a fetch was refused");
		return;
	}
	memcpy(&value, payload, sizeof(value));
	tokens++;
}

static void sent(struct hdl_send *s, int err)
{
	ended = 1;
	if (err)
		fail("a send failed");
}

static void wait_token(unsigned want)
{
	unsigned idle = 0;

	while (tokens < want)
		turn(&idle);
}

static void pass(int to, uint64_t v)
{
	struct hdl_send s = { .done = sent };
	unsigned idle = 0;

	ended = 0;
	int r = hdl_ep_send(ep_of(tp, to), 1, 2, v % 3 == 0, &v, sizeof(v), &s);
	if (r < 0)
		fail("a send was refused");
	while (!r && !ended)
		turn(&idle);
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv)
{
	static const struct hdl_upcalls up = { .arrived = arrived, .peer_failed = no_peer_fails };
	unsigned laps = argc > 1 ? (unsigned)atoi(argv[1]) : 100;

	start(&up);
	int n = hdl_job.size, next = (hdl_job.rank + 1) % n;
	unsigned seen = 0;
	srand48(hdl_job.rank + 1);

	for (unsigned lap = 0; lap < laps; lap++) {
		if (hdl_job.rank)
			wait_token(++seen);
		/* sometimes at once, sometimes when the other ranks have gone to sleep for long */
		if (lap % 4)
			usleep((useconds_t)(lrand48() % 2000));
		pass(next, hdl_job.rank ? value + 1 : (uint64_t)lap * (uint64_t)n);
		if (!hdl_job.rank) {
			wait_token(++seen);
			if (value != (uint64_t)lap * (uint64_t)n + (uint64_t)n - 1)
				fail("the token is wrong");
		}
	}

	double before = cpu_seconds(), used;
	if (!hdl_job.rank) {
		sleep(2);
		for (int r = 1; r < n; r++)
			pass(r, 1);
		for (int r = 1; r < n; r++)
			wait_token(++seen);
	} else {
		wait_token(++seen);
		used = cpu_seconds() - before;
		/* Two seconds asleep: the time used is that of going to sleep and of waking up, and time that the host of a
		 * virtual machine took for other guests. Ranks that do not sleep use 0.8 s or more: two CPUs for five of them. */
		if (used > 0.5) {
			fail("a waiting rank does not sleep: it used %.3f s of CPU", used);
		}
		pass(0, 0);
	}
	return finish();
}
