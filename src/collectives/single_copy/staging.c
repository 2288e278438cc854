/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging buffers (CICO). A rank that only gives data need not wait for the readers: the rank copies the data into a staging
 * buffer, announces that buffer in HDL_SC_RTS, and the operation ends. The buffer is in use until all readers have sent
 * HDL_SC_FIN; until then the communicator is not freed, and MPI_Finalize waits. Staging buffers lie in memory that peers read
 * without a system call, so that the second copy costs no time if there are several readers.
 *
 * STAGING_BYTES_MAX bounds the staging buffers of a process, of all communicators together: without that bound a root that runs
 * ahead of its readers on hundreds of communicators would take memory without limit.
 */
#include "collectives/single_copy/single_copy.h"
#include "lines/lines.h"

#define STAGING_BYTES_MAX ((size_t)64 << 20)
static size_t staging_bytes;

/* Returns true if staging pays: the readers read without the kernel, and this rank's copy is quick. Where ranks share CPUs,
 * staging pays at any cost, since a rank that does not wait gives its CPU to the readers; except for more than HDL_SC_STAGE_ONCE
 * bytes with one reader each, which the kernel copies once. */
static bool staging_pays(struct hdl_queues *h, size_t once)
{
	const struct hdl_comm *comm = h->cc->comm;

	/* cached queues keep the controller of their first communicator: the ranks are the same */
	if (unlikely(!h->staging_tune))
		h->staging_tune = hdl_autotune_new(HDL_TUNE_STAGING, hdl_sc_quick(), "of %s (#%d, %d ranks)",
						   *comm->name ? comm->name : "a communicator", comm->context / 2, h->size);
	return (hdl_job.oversubscribed && once <= HDL_SC_STAGE_ONCE) || hdl_sc_all() || !hdl_autotune_next(h->staging_tune, 0);
}

char *hdl_sc_stage_until(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t readers, size_t once, const char *done,
			 size_t apart)
{
	struct hdl_sc_staged *l = h->staging;

	if (!staging_pays(h, once))
		return NULL;
	while (l < h->staging + HDL_SC_STAGED_MAX && l->awaiting_fin)
		l++;
	if (l == h->staging + HDL_SC_STAGED_MAX || staging_bytes >= STAGING_BYTES_MAX || hdl_scratch_get(&l->memory, bytes))
		return NULL;
	staging_bytes += l->memory.bytes;
	/* h is enlisted below: progress checks the entry even if the operation ends before the first turn */
	l->awaiting_fin = readers;
	l->opno = run->opno;
	l->done = done;
	l->apart = apart;
	h->nstaging++;
	hdl_queues_enlist(h);
	run->comm->obj.refs++;
	hdl_detached_collectives++;
	return l->memory.p;
}

char *hdl_sc_stage(struct hdl_queues *h, struct hdl_run *run, size_t bytes, uint32_t readers, size_t once)
{
	const char *done =
		h->region[HDL_REGION_SC].mem + hdl_sc_ctrl_at(h, run, HDL_SC_FIN, 0) + offsetof(struct hdl_sc_ctrl, number);

	return hdl_sc_stage_until(h, run, bytes, readers, once, done, sizeof(struct hdl_sc_ctrl));
}

void hdl_sc_stage_copy(struct hdl_queues *h, char *staging, const char *from, size_t bytes)
{
	uint64_t since = monotonic_ns();

	lines_copy_out(staging, from, bytes);
	hdl_autotune_copied(h->staging_tune, bytes, monotonic_ns() - since);
}

/* Returns true if the peer's HDL_SC_FIN has come. A later operation's record, whose number is larger, may have replaced that
 * one. */
static bool has_fin(const struct hdl_sc_staged *l, int peer)
{
	return __atomic_load_n((const uint64_t *)(l->done + (size_t)peer * l->apart), __ATOMIC_ACQUIRE) > l->opno;
}

/* Frees the entry. That may free the communicator and all its parts, but not h: the caller is in h's turn (hdl_queues.turn). */
static void sc_release(struct hdl_queues *h, struct hdl_sc_staged *l)
{
	staging_bytes -= l->memory.bytes;
	hdl_scratch_put(&l->memory);
	h->nstaging--;
	hdl_detached_collectives--;
	hdl_comm_release(h->cc->comm);
}

void hdl_sc_staging_reclaim(struct hdl_queues *h)
{
	for (struct hdl_sc_staged *l = h->staging; h->nstaging && l < h->staging + HDL_SC_STAGED_MAX; l++) {
		if (!l->awaiting_fin)
			continue;
		for (int p = 0; p < h->size; p++)
			if (l->awaiting_fin & 1u << p && has_fin(l, p))
				l->awaiting_fin &= ~(1u << p);
		if (unlikely(hdl_queues_are_broken(h) || h->cc->lost)) {
			hdl_queues_stop(h);	/* R2 (single_copy.c): the memory gets another user, so no peer may read any
						 * more */
			l->awaiting_fin = 0;
		}
		if (!l->awaiting_fin)
			sc_release(h, l);
	}
}
