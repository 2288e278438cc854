/* SPDX-License-Identifier: BSD-3-Clause */
/* Indirect memory keys (struct shca_mkey): beside copy.h's shca_mkey_copy, the parts that other files of the engine use. */
#ifndef SHCA_ENGINE_MKEY_H
#define SHCA_ENGINE_MKEY_H

#include "shca/engine/engine.h"

/* Returns the key of an entry of kind SHCA_WINDOW_MKEY, whether it is configured or not. */
static inline uint32_t shca_mkey_key(const struct shca_mr *w)
{
	return w->index << 8 | ((atomic_load_explicit(&w->gen, memory_order_relaxed) - 1) & 255);
}
/* Returns whether all segments that are of no region are of indirect memory keys of this process and
 * domain, configured or not. */
bool shca_mkey_segs(const struct shca_member *m, uint32_t proc, uint32_t pd, const struct shca_seg *seg, uint32_t n);
/* Makes *seg the bytes [addr, addr + len) of an indirect memory key. Returns false if mr is none that is
 * configured, or has no such bytes. */
bool shca_mkey_at(const struct shca_member *m, const struct shca_mr *mr, uint64_t addr, uint64_t len, struct shca_seg *seg);
/* Resolves the word of an atomic of `size` bytes: *seg, a segment of an indirect memory key of process proc, becomes
 * the memory of the word, and *ground the region in which it lies. Returns false if a key refuses the access, or the
 * word is not in one run. */
bool shca_mkey_word(struct shca_thread *thr, uint32_t proc, uint32_t size, struct shca_seg *seg, struct shca_ground *ground);
/* The end of shca_resolve_remote (exec.h) where no region and no window has the bytes. mr: the entry that was found, which may
 * be an indirect memory key. Returns as shca_resolve_remote. */
const struct shca_mr *shca_resolve_key(struct shca_thread *thr, const struct shca_mr *mr, uint64_t raddr, uint64_t len,
				       struct shca_seg *seg, struct shca_ground *word) __attribute__((cold));
/* umr.c. Runs a request that configures an indirect memory key. Returns an enum ibv_wc_status, or SHCA_BUSY. Must: the caller is
 * the executor of qp (I1). */
int shca_mkey_configure(struct shca_thread *thr, struct shca_qp *qp, const struct shca_req *req);

#endif
