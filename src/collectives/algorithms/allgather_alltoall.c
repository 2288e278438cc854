/* SPDX-License-Identifier: BSD-3-Clause */
/* Allgather, Alltoall (MPI-5.0 sections 6.7, 6.8). */
#include "collectives/algorithms/algorithms.h"

static struct hdl_ref alg_block(const struct hdl_shape *s, enum hdl_space space, int i)
{
	return hdl_ref(space, (size_t)i * s->bytes);
}

/* Recursive doubling, for powers of two: round k exchanges 2^k blocks. */
struct hdl_graph *hdl_build_allgather_doubling(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("recursive-doubling", NULL, 0);
	uint32_t k = 0;

	if (!b)
		return NULL;
	for (int bit = 1; bit < s->size; bit *= 2, k++) {
		int peer = s->rank ^ bit, mine = s->rank & ~(bit - 1), theirs = mine ^ bit;
		struct hdl_ref from = alg_block(s, HDL_SP_RECV, mine);

		/* The first round sends from sendbuf, and so is independent of the copy. */
		if (bit == 1 && !s->in_place)
			from = hdl_ref(HDL_SP_SEND, 0);
		hdl_gb_send(b, peer, k, from, (size_t)bit * s->bytes);
		if (bit == 1 && !s->in_place)
			hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, s->rank), hdl_ref(HDL_SP_SEND, 0), s->bytes);
		hdl_gb_recv(b, peer, k, alg_block(s, HDL_SP_RECV, theirs), (size_t)bit * s->bytes);
	}
	if (s->size == 1 && !s->in_place)
		hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, 0), hdl_ref(HDL_SP_SEND, 0), s->bytes);
	return hdl_gb_finish(b);
}

/* Bruck: log2(P) rounds for any P; blocks are gathered in the order rank, rank + 1, ... and rotated at the end. */
struct hdl_graph *hdl_build_allgather_bruck(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("bruck", NULL, 0);
	int n = s->size, have = 1;
	size_t tmp;
	uint32_t k = 0;

	if (!b)
		return NULL;
	tmp = hdl_gb_tmp(b, (size_t)n, s->bytes);
	hdl_gb_copy(b, hdl_ref(HDL_SP_TMP, tmp), s->in_place ? alg_block(s, HDL_SP_RECV, s->rank) : hdl_ref(HDL_SP_SEND, 0),
		    s->bytes);
	for (; have < n; k++) {
		int more = have < n - have ? have : n - have;

		hdl_gb_send(b, (s->rank - have + n) % n, k, hdl_ref(HDL_SP_TMP, tmp), (size_t)more * s->bytes);
		hdl_gb_recv(b, (s->rank + have) % n, k, hdl_ref(HDL_SP_TMP, tmp + (size_t)have * s->bytes),
			    (size_t)more * s->bytes);
		have += more;
	}
	/* tmp block i belongs to rank + i: two contiguous ranges. */
	hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, s->rank), hdl_ref(HDL_SP_TMP, tmp), (size_t)(n - s->rank) * s->bytes);
	hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, 0), hdl_ref(HDL_SP_TMP, tmp + (size_t)(n - s->rank) * s->bytes),
		    (size_t)s->rank * s->bytes);
	return hdl_gb_finish(b);
}

struct hdl_graph *hdl_build_allgather_ring(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("ring", NULL, 0);
	int n = s->size, right = (s->rank + 1) % n, left = (s->rank - 1 + n) % n;

	if (!b)
		return NULL;
	for (int k = 0; k < n - 1; k++) {
		struct hdl_ref from = alg_block(s, HDL_SP_RECV, (s->rank - k + n) % n);

		if (!k && !s->in_place)
			from = hdl_ref(HDL_SP_SEND, 0);
		hdl_gb_send(b, right, hdl_sub(k), from, s->bytes);
		if (!k && !s->in_place)
			hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, s->rank), from, s->bytes);
		hdl_gb_recv(b, left, hdl_sub(k), alg_block(s, HDL_SP_RECV, (s->rank - k - 1 + n) % n), s->bytes);
	}
	if (n == 1 && !s->in_place)
		hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, 0), hdl_ref(HDL_SP_SEND, 0), s->bytes);
	return hdl_gb_finish(b);
}

/* Messages of one rank in flight at a time: more would only queue at the receivers. */
#define ALLTOALL_WINDOW 32

/* Step k: a block to the rank k ahead, and one from the rank k behind. */
struct hdl_graph *hdl_build_alltoall_pairwise(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("pairwise", NULL, 0);
	uint32_t recvs[ALLTOALL_WINDOW];
	enum hdl_space from = HDL_SP_SEND;
	size_t base = 0;
	int n = s->size;

	if (!b)
		return NULL;
	if (s->in_place) {
		/* Received blocks overwrite blocks that are still to be sent: send from a copy. */
		from = HDL_SP_TMP;
		base = hdl_gb_tmp(b, (size_t)n, s->bytes);
		hdl_gb_copy(b, hdl_ref(from, base), hdl_ref(HDL_SP_RECV, 0), (size_t)s->rank * s->bytes);
		hdl_gb_copy(b, hdl_ref(from, base + (size_t)(s->rank + 1) * s->bytes), alg_block(s, HDL_SP_RECV, s->rank + 1),
			    (size_t)(n - s->rank - 1) * s->bytes);
	}
	/* The sends of a window precede its receives: a rank that runs the nodes in order must not block in a receive before
	 * its own sends are in flight. */
	for (int first = 1, end; first < n; first = end) {
		end = first + ALLTOALL_WINDOW < n ? first + ALLTOALL_WINDOW : n;
		for (int k = first; k < end; k++) {
			int to = (s->rank + k) % n;
			uint32_t send = hdl_gb_send(b, to, 0, hdl_ref(from, base + (size_t)to * s->bytes), s->bytes);

			if (k > ALLTOALL_WINDOW)
				hdl_gb_after(b, send, recvs[k % ALLTOALL_WINDOW]);
		}
		for (int k = first; k < end; k++) {
			int src = (s->rank - k + n) % n;

			recvs[k % ALLTOALL_WINDOW] = hdl_gb_recv(b, src, 0, alg_block(s, HDL_SP_RECV, src), s->bytes);
		}
	}
	if (!s->in_place)
		hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, s->rank), alg_block(s, HDL_SP_SEND, s->rank), s->bytes);
	return hdl_gb_finish(b);
}

/*
 * Bruck: log2(P) messages of about half of all blocks each; a block travels the binary digits of its distance.
 *
 * tmp block i holds the block for the rank i ahead. Round k packs the blocks whose bit k is set and sends them 2^k ahead; the
 * blocks received from 2^k behind replace them at the same indices. At the end tmp block i came from rank - i.
 */
struct hdl_graph *hdl_build_alltoall_bruck(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("bruck", NULL, 0);
	enum hdl_space from = hdl_input(s);
	size_t tmp, out, in;
	int n = s->size;
	uint32_t k = 0;

	if (!b)
		return NULL;
	tmp = hdl_gb_tmp(b, (size_t)n, s->bytes);
	out = hdl_gb_tmp(b, (size_t)(n + 1) / 2, s->bytes);
	in = hdl_gb_tmp(b, (size_t)(n + 1) / 2, s->bytes);
	hdl_gb_copy(b, hdl_ref(HDL_SP_TMP, tmp), alg_block(s, from, s->rank), (size_t)(n - s->rank) * s->bytes);
	hdl_gb_copy(b, hdl_ref(HDL_SP_TMP, tmp + (size_t)(n - s->rank) * s->bytes), alg_block(s, from, 0),
		    (size_t)s->rank * s->bytes);
	for (int bit = 1; bit < n; bit *= 2, k++) {
		size_t len = 0;

		for (int i = bit; i < n; i++) {
			if (!(i & bit))
				continue;
			hdl_gb_copy(b, hdl_ref(HDL_SP_TMP, out + len), hdl_ref(HDL_SP_TMP, tmp + (size_t)i * s->bytes), s->bytes);
			len += s->bytes;
		}
		hdl_gb_send(b, (s->rank + bit) % n, k, hdl_ref(HDL_SP_TMP, out), len);
		hdl_gb_recv(b, (s->rank - bit + n) % n, k, hdl_ref(HDL_SP_TMP, in), len);
		len = 0;
		for (int i = bit; i < n; i++) {
			if (!(i & bit))
				continue;
			hdl_gb_copy(b, hdl_ref(HDL_SP_TMP, tmp + (size_t)i * s->bytes), hdl_ref(HDL_SP_TMP, in + len), s->bytes);
			len += s->bytes;
		}
	}
	for (int i = 0; i < n; i++)
		hdl_gb_copy(b, alg_block(s, HDL_SP_RECV, (s->rank - i + n) % n), hdl_ref(HDL_SP_TMP, tmp + (size_t)i * s->bytes),
			    s->bytes);
	return hdl_gb_finish(b);
}
