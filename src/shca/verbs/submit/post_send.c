/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry of ibv_post_send: the short cuts of one inline RDMA WRITE and of one datagram. Other lists go to shca_post_list. */
#include "shca/verbs/control.h"
#include "shca/verbs/submit/fast_write.h"
#include "shca/verbs/submit/post.h"

/* The fast write of shca_post_send on a queue that threads share, or of pieces longer than a line, which takes calls. */
static __attribute__((noinline)) int fast_write_locked(struct shca_user_qp *q, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_piece piece[2];
	uint64_t len = shca_inline_pieces(wr, piece);

	shca_lock(&q->lock);
	/* again, under the lock: another thread may have posted a request that has to wait, which this one must not overtake */
	bool done = len - 1 < q->max_inline && shca_runs_fast_writes(q) &&
		    shca_fast_write(shca_tls.thr, q, shca_dest_of(q, wr), piece, 2, len, false);
	shca_unlock(&q->lock);
	return done ? 0 : shca_post_list(q, wr, bad);
}

/*
 * ibv_post_send. The hottest path of the device: one inline RDMA WRITE, of one or two short pieces, to a region in the rkey
 * cache, by a thread outside of the engine. On a queue without lock (ibv_td) this path must stay a leaf function.
 */
int shca_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct shca_user_qp *q = (struct shca_user_qp *)qp;

	/* the flags first: a write from registered memory is told by them */
	if (unlikely(!wr || wr->next || wr->send_flags != IBV_SEND_INLINE || wr->opcode != IBV_WR_RDMA_WRITE ||
		     shca_tls.id != q->m->id || !shca_tls.id || !shca_runs_fast_writes(q)))
		return q->type == IBV_QPT_UD ? shca_post_datagram(q, wr, bad) : shca_post_list(q, wr, bad);
	if (!q->lock.none)
		return fast_write_locked(q, wr, bad);
	struct shca_piece piece[2];
	uint64_t len = shca_inline_pieces(wr, piece);
	if (len - 1 >= q->max_inline)
		return shca_post_list(q, wr, bad);
	if (piece[0].len > SHCA_LINE || piece[1].len > SHCA_LINE)
		return fast_write_locked(q, wr, bad);
	return shca_fast_write(shca_tls.thr, q, shca_dest_of(q, wr), piece, 2, len, false) ? 0 : shca_post_list(q, wr, bad);
}
