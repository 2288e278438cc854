/* SPDX-License-Identifier: BSD-3-Clause */
/* Random graphs of requests with a determined outcome (graph.h), posted by all members at once, while their helper threads and
 * pollers run. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "vproc.h"

struct member {
	struct graph_member m;
	pthread_t thread;
	pthread_barrier_t *start;
	bool polls;
};

static void *poster(void *arg)
{
	struct member *w = arg;
	struct ibv_wc wc;

	pthread_barrier_wait(w->start);
	for (uint32_t list = 0; list < w->m.g->lists; list++) {
		graph_member_post(&w->m, list);
		/* pollers steal queues that other threads have locked */
		for (uint32_t i = 0; w->polls && i < 2 * w->m.g->queues; i++)
			while (w->m.cq[i] && shca_poll_cq(w->m.cq[i], 1, &wc) > 0)
				if (wc.status != IBV_WC_SUCCESS)
					FAIL("seed %lu: completion %s", (unsigned long)w->m.g->seed,
					     ibv_wc_status_str(wc.status));
	}
	return NULL;
}

static uint32_t run(struct rig *rigs, uint32_t n, uint64_t seed)
{
	struct member w[GRAPH_MEMBERS] = {0};
	struct graph_board board;
	struct graph *g = graph_make(seed, n, seed % 3 == 0);
	pthread_barrier_t start;
	uint32_t steps = g->steps;

	if (seed % 16 == 1)
		graph_check(g, seed);
	CHECK(!pthread_barrier_init(&start, NULL, n));
	for (uint32_t i = 0; i < n; i++) {
		w[i] = (struct member){.m = {.r = &rigs[i], .g = g, .board = &board, .id = i},
				       .start = &start,
				       .polls = seed & 1};
		graph_member_make(&w[i].m);
	}
	for (uint32_t i = 0; i < n; i++)
		CHECK(graph_member_connect(&w[i].m));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_create(&w[i].thread, NULL, poster, &w[i]));
	for (uint32_t i = 0; i < n; i++)
		CHECK(!pthread_join(w[i].thread, NULL));
	for (uint32_t i = 0; i < n; i++) {
		graph_await_all(&w[i].m, 30);
		graph_compare(&w[i].m, &g->image);
	}
	for (uint32_t i = n; i-- > 0;)
		graph_member_unmake(&w[i].m);
	pthread_barrier_destroy(&start);
	graph_free(g);
	return steps;
}

void vproc_memory(struct rig *rigs, uint32_t n, uint64_t seed, double seconds)
{
	uint64_t until = vproc_now() + (uint64_t)(seconds * 1e9), graphs = 0, steps = 0;

	if (n > GRAPH_MEMBERS)
		n = GRAPH_MEMBERS;
	do {
		steps += run(rigs, n, seed++);
		graphs++;
	} while (vproc_now() < until);
	printf("memory: %lu graphs, %lu requests\n", (unsigned long)graphs, (unsigned long)steps);
}
