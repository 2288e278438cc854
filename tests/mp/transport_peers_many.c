/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small job to which many other jobs connect: the pooled receives grow with the number of peers, not with the job's size. The
 * peers are made up: addresses like this process's, of a job that does not exist.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/jobs.h"
#include "runtime/runtime.h"
#include "transport/core/tp.h"

static struct hdl_tp *tp;

#define PEERS 40

static void arrived(void *context, int src, const struct hdl_hdr *hdr, const void *payload)
{
	(void)context;
}

static int meet(int proc)
{
	char address[HDL_ADDRESS_MAX];
	size_t n = hdl_tp_address(tp, address);
	struct hdl_addr_head h;
	struct hdl_ep *ep;

	memcpy(&h, address, sizeof(h));
	h.name.job = hdl_proc_job(proc);
	h.name.rank = (uint32_t)hdl_proc_rank(proc);
	memcpy(address, &h, sizeof(h));
	if (hdl_peer_add(tp, proc, address, n) || !(ep = hdl_ep(tp, proc)))
		return 1;
	ep->failed = -ECONNRESET;	/* it is told nothing */
	return 0;
}

int main(void)
{
	static const struct hdl_upcalls up = { .arrived = arrived };
	const struct hdl_rxpool *p;
	uint32_t base;
	int first;

	if (hdl_vars_load() || hdl_rt_init(true) || hdl_tp_init(&up, &tp))
		return 1;
	first = hdl_job_name("another", PEERS);
	for (int r = 0; r < PEERS; r++)
		if (first < 0 || meet(first + r))
			return 1;
	for (int i = 0; i < HDL_POOLS; i++) {
		p = &tp->dev[0]->rx[i];
		if (!p->srq || !p->total)
			continue;
		hdl_rel_shares(p->total, PEERS, 1, &base);
		if (base * PEERS > p->total - p->total / 4) {
			fprintf(stderr, "%u peers may send %u messages each into a %s pool of %u\n", PEERS, base,
				hdl_queue_name(p->queue), p->total);
			return 1;
		}
		printf("%s: %u receives\n", hdl_queue_name(p->queue), p->total);
	}
	if (hdl_tp_fini(&tp) || hdl_rt_fini(false))
		return 1;
	puts("ok");
	return 0;
}
