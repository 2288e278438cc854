/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large copies between private memories are divided between two CPUs: the executor's, and a CPU of the other process if that
 * process polls meanwhile and has not done a copy of its own for a while. One process pushes by process_vm_writev the bytes that
 * the other would pull by process_vm_readv, so the two do not contend for one mmap lock. Chunks are long, so that most of a
 * buffer that is used again is copied by the same CPU, whose cache has those bytes.
 *
 * The executor describes the copy in a job (one per thread), stores the thread's number in the other process's slot (`share`),
 * and claims chunks from the front; a poller of the other process claims chunks from the back. A claim is one CAS on the chunk's
 * word (generation, claimer, state). So a dead claimer is known, and the executor copies the chunk again: no reader looks at the
 * data before the executor's last store. A job is reused with a new generation: the CAS of a late poller fails.
 */
#include <sched.h>

#include "shca/engine/copy.h"

#define CHUNK_MIN (256u << 10)
#define PATIENCE 16u		/* polls without a copy of its own before a process helps */

enum { CHUNK_FREE = 0, CHUNK_CLAIMED, CHUNK_DONE, CHUNK_FAILED };

static inline uint64_t word_of(uint64_t gen, uint32_t thread, uint32_t state)
{
	return gen << 32 | (uint64_t)thread << 8 | state;
}

static inline bool by_kernel(uint8_t lane)
{
	return lane == SHCA_LANE_CMA || lane == SHCA_LANE_VOUCHED;
}

/* Returns whether a copy is between private memory of this process and private memory of another: a case for process_vm_*. */
static bool divisible(const struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len)
{
	return len >= SHCA_SHARE_MIN && !thr->m->copies_alone && dst->n == 1 && src->n == 1 && dst->proc != src->proc &&
	       (dst->proc == thr->m->slot || src->proc == thr->m->slot) && by_kernel(dst->seg->lane) &&
	       by_kernel(src->seg->lane) && shca_cma_permitted(thr->m, dst->proc == thr->m->slot ? src->proc : dst->proc) &&
	       dst->skip + len <= dst->seg->len && src->skip + len <= src->seg->len &&
	       !SHCA_IS_NULL(dst->seg->where | src->seg->where);
}

/* A copy of the job's fields, for the executor or a helping poller. */
struct job {
	uint64_t dst, src, len, chunk, gen;
	uint32_t n, dst_proc, src_proc;
};

static int copy_chunk(struct shca_thread *thr, const struct job *job, uint32_t i, bool *src_err)
{
	uint64_t at = i * job->chunk, n = job->len - at < job->chunk ? job->len - at : job->chunk;

	return shca_copy_piece(thr, job->dst_proc, NULL, job->dst + at, job->src_proc, NULL, job->src + at, n, SHCA_ANY_ORDER,
			       src_err);
}

static bool share_claim(_Atomic uint64_t *word, uint64_t gen, uint32_t thread)
{
	uint64_t free = word_of(gen, 0, CHUNK_FREE);

	return atomic_compare_exchange_strong(word, &free, word_of(gen, thread, CHUNK_CLAIMED));
}

static struct shca_share *job_of_mine(struct shca_thread *thr)
{
	shca_off off = atomic_load_explicit(&thr->t->share, memory_order_relaxed);

	if (!off) {
		/* A job of a thread that has ended, if there is one: jobs are never freed, since a late poller may be reading
		 * them. The lock lets one thread at a time take a job, so none comes back during the CAS (ABA). No other lock is
		 * taken under this one: the caller may hold the device's. */
		static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;
		pthread_mutex_lock(&taking);
		off = atomic_load(&thr->m->shares);
		while (off && !atomic_compare_exchange_weak(&thr->m->shares, &off,
							    atomic_load(&((struct shca_share *)shca_at(thr->base, off))->next)))
			;
		pthread_mutex_unlock(&taking);
		if (!off)
			off = shca_mem_alloc(thr->m, sizeof(struct shca_share));
		if (!off)
			return NULL;
		atomic_store_explicit(&thr->t->share, off, memory_order_release);
	}
	return shca_at(thr->base, off);
}

static struct job share_describe(struct shca_share *share, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len)
{
	uint64_t gen = (atomic_load_explicit(&share->gen, memory_order_relaxed) | 1) + 1;
	struct job job = {
		.dst = dst->seg->where + dst->skip, .src = src->seg->where + src->skip, .dst_proc = dst->proc,
		.src_proc = src->proc, .len = len, .chunk = (len / SHCA_SHARE_CHUNKS + 4096) & ~4095ull,
		/* 32 bits: chunk words hold 32 bits of the generation; share->gen has the whole generation */
		.gen = gen & 0xffffffff,
	};

	if (job.chunk < CHUNK_MIN)
		job.chunk = CHUNK_MIN;
	job.n = (uint32_t)((len + job.chunk - 1) / job.chunk);
	atomic_exchange(&share->gen, gen - 1);
	atomic_store_explicit(&share->dst, job.dst, memory_order_relaxed);
	atomic_store_explicit(&share->src, job.src, memory_order_relaxed);
	atomic_store_explicit(&share->dst_proc, job.dst_proc, memory_order_relaxed);
	atomic_store_explicit(&share->src_proc, job.src_proc, memory_order_relaxed);
	atomic_store_explicit(&share->len, job.len, memory_order_relaxed);
	atomic_store_explicit(&share->chunk, job.chunk, memory_order_relaxed);
	atomic_store_explicit(&share->n, job.n, memory_order_relaxed);
	for (uint32_t i = 0; i < job.n; i++)
		atomic_store_explicit(&share->word[i], word_of(job.gen, 0, CHUNK_FREE), memory_order_relaxed);
	atomic_store_explicit(&share->gen, gen, memory_order_release);
	return job;
}

/* A helping poller's copy of a job. Returns false if the job is being written, or has changed meanwhile. */
static bool share_look_at(const struct shca_share *share, struct job *job)
{
	uint64_t gen = atomic_load_explicit(&share->gen, memory_order_acquire);

	/* acquire each: the second load of gen must not come before these (pairs with the exchange in share_describe) */
	job->dst = atomic_load_explicit(&share->dst, memory_order_acquire);
	job->src = atomic_load_explicit(&share->src, memory_order_acquire);
	job->dst_proc = atomic_load_explicit(&share->dst_proc, memory_order_acquire);
	job->src_proc = atomic_load_explicit(&share->src_proc, memory_order_acquire);
	job->len = atomic_load_explicit(&share->len, memory_order_acquire);
	job->chunk = atomic_load_explicit(&share->chunk, memory_order_acquire);
	job->n = atomic_load_explicit(&share->n, memory_order_acquire);
	job->gen = gen & 0xffffffff;
	if ((gen & 1) || atomic_load_explicit(&share->gen, memory_order_relaxed) != gen)
		return false;
	/* I7: the job is another process's. The chunks must make up the copy, and the processes must be slots. */
	return job->n && job->n <= SHCA_SHARE_CHUNKS && job->chunk <= UINT32_MAX && (job->n - 1) * job->chunk < job->len &&
	       job->len <= job->n * job->chunk && job->dst_proc < SHCA_MAX_PROCS && job->src_proc < SHCA_MAX_PROCS;
}

/* Waits for the chunks that pollers claimed, and copies a chunk again if the claimer failed or died. After an error no chunk is
 * copied again, but running claimers are waited for: the caller is about to give the memory back. */
static int share_finish(struct shca_thread *thr, struct shca_share *share, const struct job *job, int error, bool *src_err)
{
	for (uint32_t i = 0; i < job->n; i++) {
		/* after an error some chunks are still free: no poller may begin those any more */
		if (error)
			share_claim(&share->word[i], job->gen, thr->slot);
		for (uint64_t spins = 1;; spins++) {
			uint64_t w = atomic_load_explicit(&share->word[i], memory_order_acquire);
			uint32_t thread = (uint32_t)(w >> 8) & 0xffffff;
			if ((w & 0xff) == CHUNK_DONE || (error && ((w & 0xff) == CHUNK_FAILED || thread == thr->slot)))
				break;
			bool redo = (w & 0xff) == CHUNK_FAILED;
			if (!redo && !(spins & 0xfff)) {
				/* the claimer may need this CPU */
				sched_yield();
				shca_proxy_serve(thr->m);
				uint32_t owner = shca_thread_owner(thr->m, thread);
				redo = !owner || shca_proc_gone(thr->m, owner - 1);
				if (!redo && shca_proc_dying(thr->m, owner - 1))
					shca_look(thr->m);
			}
			if (redo) {
				if (!error)
					error = copy_chunk(thr, job, i, src_err);
				break;
			}
			cpu_relax();
		}
	}
	return error;
}

uint64_t shca_share_copy(struct shca_thread *thr, const struct shca_iov *dst, const struct shca_iov *src, uint64_t len,
			 enum shca_order order, int *rc, bool *src_err)
{
	struct shca_share *share;

	*rc = 0;
	if (!divisible(thr, dst, src, len) || thr->sharing || !(share = job_of_mine(thr)))
		return 0;
	/* the caller copies the last line, after everything else */
	uint64_t part = order == SHCA_ANY_ORDER ? len : len - 64;
	_Atomic uint32_t *bell = &thr->m->procs[dst->proc == thr->m->slot ? src->proc : dst->proc].share;
	struct job job = share_describe(share, dst, src, part);
	uint32_t none = 0, me = thr->slot + 1;
	bool rung = atomic_compare_exchange_strong(bell, &none, me);

	thr->sharing = true;
	atomic_store_explicit(&thr->m->looks, 0, memory_order_relaxed);
	SHCA_FAILPOINT(thr, "share-offered", NULL, 0);
	for (uint32_t i = 0; i < job.n && !*rc; i++) {
		if (!share_claim(&share->word[i], job.gen, thr->slot))
			continue;
		*rc = copy_chunk(thr, &job, i, src_err);
		atomic_store_explicit(&share->word[i], word_of(job.gen, thr->slot, *rc ? CHUNK_FAILED : CHUNK_DONE),
				      memory_order_release);
	}
	if (rung)
		atomic_compare_exchange_strong(bell, &me, 0);
	SHCA_FAILPOINT(thr, "share-waits", NULL, 0);
	*rc = share_finish(thr, share, &job, *rc, src_err);
	thr->sharing = false;
	return part;
}

int shca_share_help(struct shca_thread *thr)
{
	uint32_t thread = atomic_load_explicit(&thr->m->proc->share, memory_order_acquire);
	int helped = 0;

	if (!thread || thread > SHCA_MAX_THREADS)
		return 0;
	/* a process that will do a copy of its own soon would only move data to the other cache */
	if (atomic_fetch_add_explicit(&thr->m->looks, 1, memory_order_relaxed) < PATIENCE)
		return 0;
	/* the job is another process's */
	shca_epoch_widen(thr);
	struct shca_share *share = shca_at_checked(thr->m, atomic_load(&thr->m->threads[thread - 1].share), sizeof(*share));
	struct job job;
	if (!share || !share_look_at(share, &job))
		return 0;
	bool src_err;
	thr->sharing = true;
	for (uint32_t i = job.n; i-- > 0;) {
		if (!share_claim(&share->word[i], job.gen, thr->slot)) {
			/* the executor has come as far as this chunk */
			if ((atomic_load(&share->word[i]) & 0xff) != CHUNK_FREE)
				continue;
			break;
		}
		SHCA_FAILPOINT(thr, "share", NULL, 0);
		int rc = copy_chunk(thr, &job, i, &src_err);
		SHCA_FAILPOINT(thr, "share-done", NULL, 0);
		atomic_store_explicit(&share->word[i], word_of(job.gen, thr->slot, rc ? CHUNK_FAILED : CHUNK_DONE),
				      memory_order_release);
		helped++;
	}
	thr->sharing = false;
	return helped;
}
