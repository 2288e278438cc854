/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging buffers (CICO). A rank that only gives data need not wait for the readers: the rank copies the data into a staging
 * buffer, announces that buffer in HDL_SC_RTS, and the operation ends. The buffer is in use until all readers have sent
 * HDL_SC_FIN; until then the communicator is not freed, and MPI_Finalize waits. Staging buffers lie in memory that peers read
 * without a system call, so that the second copy costs no time if there are several readers.
 *
 * LEFT_BYTES bounds the staging buffers of a process, of all communicators together: without that bound a root that runs ahead of
 * its readers on hundreds of communicators would take memory without limit.
 */
#include "collectives/single_copy/single_copy.h"
#include "lines/lines.h"

#define LEFT_BYTES ((size_t)64 << 20)
static size_t left_bytes;

/* Returns true if staging pays: the readers read without the kernel, and this rank's copy is quick. Where ranks share CPUs,
 * staging pays at any cost, since a rank that does not wait gives its CPU to the readers; except for more than HDL_SC_STAGE_ONCE
 * bytes with one reader each, which the kernel copies once. */
static bool leaving_pays(struct hdl_queues *h, size_t once)
{
	return (hdl_job.oversubscribed && once <= HDL_SC_STAGE_ONCE) || hdl_sc_all() || lines_pace_next(&h->pace, hdl_sc_quick());
}

char *hdl_sc_stage_until(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t hears, size_t once, const char *done, size_t apart)
{
	struct hdl_sc_staged *l = h->staged;

	if (!leaving_pays(h, once))
		return NULL;
	while (l < h->staged + HDL_SC_STAGED_MAX && l->hears)
		l++;
	if (l == h->staged + HDL_SC_STAGED_MAX || left_bytes >= LEFT_BYTES || hdl_scratch_get(&l->memory, bytes))
		return NULL;
	left_bytes += l->memory.bytes;
	/* h is enlisted below: progress checks the entry even if the operation ends before the first turn */
	l->hears = hears;
	l->opno = run->opno;
	l->done = done;
	l->apart = apart;
	h->nstaged++;
	hdl_queues_enlist(h);
	run->comm->obj.refs++;
	hdl_detached_collectives++;
	return l->memory.p;
}

char *hdl_sc_stage(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t hears, size_t once)
{
	const char *done = h->region[HDL_REGION_SC].mem + hdl_sc_ctrl_at(h, run, HDL_SC_FIN, 0) + offsetof(struct hdl_sc_ctrl, number);

	return hdl_sc_stage_until(h, run, bytes, hears, once, done, sizeof(struct hdl_sc_ctrl));
}

void hdl_sc_stage_copy(struct hdl_queues *h, char *left, const char *from, size_t bytes)
{
	uint64_t since = monotonic_ns();

	lines_copy_out(left, from, bytes);
	lines_pace_took(&h->pace, bytes, monotonic_ns() - since, hdl_sc_quick());
}

/* Returns true if the peer's HDL_SC_FIN has come. A later operation's record, whose number is larger, may have replaced that
 * one. */
static bool said_since(const struct hdl_sc_staged *l, int peer)
{
	return __atomic_load_n((const uint64_t *)(l->done + (size_t)peer * l->apart), __ATOMIC_ACQUIRE) > l->opno;
}

/* Frees the entry. The communicator and all its parts may be freed by that, but not h, in whose turn this runs
 * (hdl_queues.busy). */
static void sc_release(struct hdl_queues *h, struct hdl_sc_staged *l)
{
	left_bytes -= l->memory.bytes;
	hdl_scratch_put(&l->memory);
	h->nstaged--;
	hdl_detached_collectives--;
	hdl_comm_release(h->cc->comm);
}

void hdl_sc_staging_reclaim(struct hdl_queues *h)
{
	for (struct hdl_sc_staged *l = h->staged; h->nstaged && l < h->staged + HDL_SC_STAGED_MAX; l++) {
		if (!l->hears)
			continue;
		for (int p = 0; p < h->size; p++)
			if (l->hears & 1u << p && said_since(l, p))
				l->hears &= ~(1u << p);
		if (unlikely(h->broken || h->cc->lost)) {
			hdl_queues_stop(h);	/* R2 (single_copy.c): the memory gets another user, so no peer may read any
						 * more */
			l->hears = 0;
		}
		if (!l->hears)
			sc_release(h, l);
	}
}
