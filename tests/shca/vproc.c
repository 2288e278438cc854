/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine as several virtual processes in one address space, where sanitizers see all of it: random traffic, then
 * random WAIT/ENABLE graphs, then graphs that compute.
 *
 * The engine is built with failpoints. Here nobody dies in them: they are the places where a thread now and then gives
 * the CPU away, so that windows of nanoseconds are met with few CPUs too (-j: one time in that many; 0: never).
 *
 *     vproc [-n MEMBERS] [-s SEED] [-t SECONDS] [-j N] [-o traffic|graphs|memory|frames]
 *
 * frames: only with -o, since their device has two ports of Ethernet.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "vproc.h"

static uint32_t jitter = 40;

void shca_failpoint(struct shca_thread *thr, const char *name, const struct shca_qp *qp, int op)
{
	static __thread uint64_t rng;

	if (!jitter)
		return;
	if (!rng)
		rng = (thr ? thr->slot + 1 : 7777777) * 0x9e3779b97f4a7c15ull;
	if (rig_below(&rng, jitter) == 0)
		sched_yield();
	else if (rig_below(&rng, 50 * jitter) == 0)
		usleep(rig_below(&rng, 300));
}

uint64_t vproc_now(void)
{
	return monotonic_ns();
}

int main(int argc, char **argv)
{
	uint32_t n = 4;
	uint64_t seed = 1;
	double seconds = 2;
	const char *only = "";
	int c;

	while ((c = getopt(argc, argv, "n:s:t:o:j:")) != -1) {
		switch (c) {
		case 'n': n = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 's': seed = strtoull(optarg, NULL, 0); break;
		case 't': seconds = strtod(optarg, NULL); break;
		case 'j': jitter = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 'o': only = optarg; break;
		default:
			fprintf(stderr,
				"usage: %s [-n members] [-s seed] [-t seconds] [-j n] [-o traffic|graphs|memory|frames]\n",
				argv[0]);
			return 2;
		}
	}
	if (n < 2 || n > 64 || !seed) {
		fprintf(stderr, "%s: 2 to 64 members, a seed that is not 0\n", argv[0]);
		return 2;
	}
	/* a hang is a failure, whatever waits */
	alarm((unsigned)(seconds * 20) + 120);
	bool frames = !strcmp(only, "frames");
	if (frames)
		CHECK(!setenv("SHCA_LINK", "ethernet", 1) && !setenv("SHCA_PORTS", "2", 1));
	struct rig *rigs = calloc(n, sizeof(*rigs));
	CHECK(rigs);
	for (uint32_t i = 0; i < n; i++)
		rig_virtual(&rigs[i], i ? &rigs[0] : NULL);
	seconds /= *only ? 1 : 3;
	if (!*only || !strcmp(only, "traffic"))
		vproc_traffic(rigs, n, seed, seconds);
	if (frames)
		vproc_frames(rigs, n, seed, seconds);
	if (!*only || !strcmp(only, "graphs"))
		vproc_graphs(rigs, n, seed, seconds);
	if (!*only || !strcmp(only, "memory"))
		vproc_memory(rigs, n, seed, seconds);
	for (uint32_t i = n; i-- > 0;)
		rig_virtual_leave(&rigs[i]);
	free(rigs);
	return 0;
}
