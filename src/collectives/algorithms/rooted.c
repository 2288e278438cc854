/* SPDX-License-Identifier: BSD-3-Clause */
/* Barrier, Bcast (MPI-5.0 sections 6.3, 6.4). */
#include "collectives/algorithms/algorithms.h"

/* Round k: a signal to the rank 2^k ahead, and one from the rank 2^k behind; log2(P) rounds for any P. */
struct hdl_graph *hdl_build_barrier_dissemination(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("dissemination", NULL, 0);
	uint32_t before = HDL_NODE_NONE, k = 0;

	if (!b)
		return NULL;
	for (int d = 1; d < s->size; d *= 2, k++) {
		uint32_t send, recv;

		send = hdl_gb_send(b, (s->rank + d) % s->size, k, hdl_ref(HDL_SP_NONE, 0), 0);
		recv = hdl_gb_recv(b, (s->rank - d + s->size) % s->size, k, hdl_ref(HDL_SP_NONE, 0), 0);
		/* The signal of a round implies that the signals of all earlier rounds were received. */
		hdl_gb_after(b, send, before);
		hdl_gb_after(b, recv, before);
		before = recv;
	}
	return hdl_gb_finish(b);
}

/* The rank's number counted from the root. */
static int vrank(const struct hdl_shape *s)
{
	return (s->rank - s->root + s->size) % s->size;
}

static int from_vrank(const struct hdl_shape *s, int v)
{
	return (v + s->root) % s->size;
}

struct hdl_graph *hdl_build_bcast_binomial(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("binomial", NULL, 0);
	struct hdl_ref buf = hdl_ref(HDL_SP_RECV, 0);
	int v = vrank(s), bit = 1;

	if (!b)
		return NULL;
	while (bit < s->size && !(v & bit))
		bit *= 2;
	if (v)
		hdl_gb_recv(b, from_vrank(s, v - bit), 0, buf, s->bytes);
	/* The largest subtree has the longest path, and goes first. */
	for (bit /= 2; bit; bit /= 2)
		if (v + bit < s->size)
			hdl_gb_send(b, from_vrank(s, v + bit), 0, buf, s->bytes);
	return hdl_gb_finish(b);
}

/* Returns true if rank v has this part after the scatter: the parts of its subtree, and at the root all parts. */
static bool has_part(int v, int part)
{
	return !v || (part >= v && part < v + (v & -v));
}

/* A binomial tree scatters the parts (the parts of a subtree are contiguous), then a ring gathers them on all ranks. */
struct hdl_graph *hdl_build_bcast_scatter_allgather(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("scatter-allgather", NULL, 0);
	int v = vrank(s), n = s->size, bit = 1, left, right;

	if (!b)
		return NULL;
	while (bit < n && !(v & bit))
		bit *= 2;
	if (v) {
		size_t lo = hdl_part(s->bytes, 1, n, v), hi = hdl_part(s->bytes, 1, n, v + bit < n ? v + bit : n);

		hdl_gb_recv(b, from_vrank(s, v - bit), 0, hdl_ref(HDL_SP_RECV, lo), hi - lo);
	}
	for (bit /= 2; bit; bit /= 2) {
		size_t lo, hi;

		if (v + bit >= n)
			continue;
		lo = hdl_part(s->bytes, 1, n, v + bit);
		hi = hdl_part(s->bytes, 1, n, v + 2 * bit < n ? v + 2 * bit : n);
		hdl_gb_send(b, from_vrank(s, v + bit), 0, hdl_ref(HDL_SP_RECV, lo), hi - lo);
	}

	left = from_vrank(s, (v - 1 + n) % n);
	right = from_vrank(s, (v + 1) % n);
	for (int k = 0; k < n - 1; k++) {
		int out = (v - k + n) % n, in = (v - k - 1 + n) % n;
		size_t lo = hdl_part(s->bytes, 1, n, out), hi = hdl_part(s->bytes, 1, n, out + 1);

		if (!has_part((v + 1) % n, out))
			hdl_gb_send(b, right, hdl_sub(1 + k), hdl_ref(HDL_SP_RECV, lo), hi - lo);
		lo = hdl_part(s->bytes, 1, n, in);
		hi = hdl_part(s->bytes, 1, n, in + 1);
		if (!has_part(v, in))
			hdl_gb_recv(b, left, hdl_sub(1 + k), hdl_ref(HDL_SP_RECV, lo), hi - lo);
	}
	return hdl_gb_finish(b);
}

#define CHAIN_SEGMENT ((size_t)128 << 10)
#define CHAIN_SEGMENTS_MAX 1024		/* each segment has its own sub */

/* A chain of ranks, pipelined by segments. */
struct hdl_graph *hdl_build_bcast_chain(const struct hdl_shape *s)
{
	struct hdl_gb *b = hdl_gb_new("chain", NULL, 0);
	size_t seg = s->bytes / CHAIN_SEGMENTS_MAX + 1;
	int v = vrank(s);
	uint32_t k = 0;

	if (!b)
		return NULL;
	if (seg < CHAIN_SEGMENT)
		seg = CHAIN_SEGMENT;
	for (size_t off = 0; off < s->bytes; off += seg, k++) {
		size_t len = s->bytes - off < seg ? s->bytes - off : seg;

		if (v)
			hdl_gb_recv(b, from_vrank(s, v - 1), k, hdl_ref(HDL_SP_RECV, off), len);
		if (v + 1 < s->size)
			hdl_gb_send(b, from_vrank(s, v + 1), k, hdl_ref(HDL_SP_RECV, off), len);
	}
	return hdl_gb_finish(b);
}
