/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything at once, with checked data. Threads of one process use connections with armed alternate paths, an XRC domain with
 * several SRQs whose limit is 2, memory windows of types 1 and 2B, indirect memory keys (lists, strides, keys of keys), UD
 * multicast and CQs of 2 entries, which are resized in use, on a ConnectX of two Ethernet ports. Meanwhile port 1 goes down and
 * up, a process that the threads read and write is stopped and killed, and peers of RDMA CM are stopped in the middle of
 * rdma_connect, or as listeners. mixed.h lists the files by kind.
 *
 *     tests/verbs/mixed [SECONDS [SEED]]       2 seconds, and a seed that is printed
 */
#include "mixed.h"

struct vt device;
uint64_t seed;
struct counts counts;

static struct worker workers[THREADS];
static _Atomic bool over;

/* In the order in which a thread makes their objects. */
static const struct kind *const kinds[] = {&mixed_armed, &mixed_xrc, &mixed_windows, &mixed_keys, &mixed_groups, &mixed_victim};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&over)) {
		kinds[rnd(&w->r, KINDS)]->act(w);
		mixed_groups_take(w);
		atomic_fetch_add(&counts.operations, 1);
	}
	return NULL;
}

static void workers_make(void)
{
	for (unsigned i = 0; i < THREADS; i++) {
		struct worker *w = &workers[i];
		w->n = i;
		w->r.state = seed * 2654435761u + i;
		mixed_worker_make(w);
		for (int k = 0; k < KINDS; k++)
			kinds[k]->make(w);
	}
}

static void workers_end(void)
{
	for (int i = 0; i < THREADS; i++) {
		for (int k = KINDS; k--;)
			kinds[k]->end(&workers[i]);
		mixed_worker_end(&workers[i]);
	}
}

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 2;

	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)getpid() << 20 ^ vt_ms();
	printf("# seed %lu\n", seed);
	fflush(stdout);
	cm_start();
	alarm(seconds + 120);
	CHECK(!setenv("SHCA_LINK", "ethernet", 1) && !setenv("SHCA_IDENTITY", "connectx", 1) && !setenv("SHCA_PORTS", "2", 1),
	      "setenv");
	mixed_victim_memory();
	mixed_cm_memory();
	mixed_processes_start();
	device = vt_open();
	CHECK(!fcntl(device.ctx->async_fd, F_SETFL, O_NONBLOCK), "fcntl");
	mixed_xrc_open();
	workers_make();
	uint64_t end_ms = vt_ms() + seconds * 1000;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "pthread_create");
	mixed_disturb(&(struct random){seed}, workers, end_ms);
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL), "pthread_join");
	mixed_events_take();
	workers_end();
	mixed_events_take();
	CHECK(!atomic_load(&counts.limits_armed) == !atomic_load(&counts.limits_seen), "seed %lu: %u limits, %u events", seed,
	      counts.limits_armed, counts.limits_seen);
	mixed_xrc_close();
	vt_close(&device);
	mixed_processes_end();
	uint32_t messages = mixed_victim_messages();
	printf("%lu operations, %u of victims, %u limits of %u, %u migrations, %u refusals, %u times the victim was lost\n",
	       counts.operations, messages, counts.limits_seen, counts.limits_armed, counts.migrated,
	       counts.refusals, counts.lost);
	return 0;
}
