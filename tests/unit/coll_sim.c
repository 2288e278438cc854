/* SPDX-License-Identifier: BSD-3-Clause */
#include "coll_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

struct hdl_vars hdl_vars = { .coll_vector = "", .reduce_order = "" };

/* A send completes only when its receive takes the data, as a rendezvous does: the harder case. */
enum state { WAITING, STARTED, DONE };

struct sim {
	struct sim_rank *ranks;
	int n;
	enum sim_mode mode;
	const struct hdl_enc *enc;
	enum state **state;
	uint32_t *cursor;	/* program order: the next node of the rank */
	unsigned rng;
	char error[256];
};

static unsigned draw(struct sim *s, unsigned below)
{
	s->rng = s->rng * 1664525u + 1013904223u;
	return (unsigned)(((uint64_t)(s->rng >> 8) * below) >> 24);
}

static bool preds_done(struct sim *s, int r, uint32_t i)
{
	const struct hdl_graph *g = s->ranks[r].g;
	const struct hdl_node *n = &g->nodes[i];

	for (uint32_t p = 0; p < n->npreds; p++)
		if (s->state[r][g->preds[n->pred0 + p]] != DONE)
			return false;
	return true;
}

static bool is_device(const struct hdl_node *n)
{
	return n->kind == HDL_N_PUT || n->kind == HDL_N_ACCUM;
}

/* A link is a queue: its requests run in order. */
static bool link_head(struct sim *s, int r, uint32_t i)
{
	const struct hdl_graph *g = s->ranks[r].g;

	for (uint32_t j = 0; j < i; j++)
		if (is_device(&g->nodes[j]) && g->nodes[j].link == g->nodes[i].link && g->nodes[j].peer == g->nodes[i].peer &&
		    s->state[r][j] != DONE)
			return false;
	return true;
}

static char *src_of(struct sim *s, int r, const struct hdl_node *n)
{
	return n->src_space < HDL_SPACES ? s->ranks[r].space[n->src_space] + n->src_off : NULL;
}

static char *dst_of(struct sim *s, int r, const struct hdl_node *n)
{
	return n->dst_space < HDL_SPACES ? s->ranks[r].space[n->dst_space] + n->dst_off : NULL;
}

/* The earliest node of rank r that is in this state and is this message. */
static int64_t find_message(struct sim *s, int r, uint8_t kind, enum state state, int peer, uint32_t sub, int link)
{
	const struct hdl_graph *g = s->ranks[r].g;

	for (uint32_t i = 0; i < g->nnodes; i++)
		if (g->nodes[i].kind == kind && s->state[r][i] == state && g->nodes[i].peer == peer &&
		    g->nodes[i].sub == sub && g->nodes[i].link == link)
			return i;
	return -1;
}

static bool match(struct sim *s, int from, int to, uint32_t sub)
{
	int64_t si = find_message(s, from, HDL_N_SEND, STARTED, to, sub, 0);
	int64_t ri = find_message(s, to, HDL_N_RECV, STARTED, from, sub, 0);
	const struct hdl_node *sn, *rn;

	if (si < 0 || ri < 0)
		return true;
	sn = &s->ranks[from].g->nodes[si];
	rn = &s->ranks[to].g->nodes[ri];
	if (sn->len != rn->len) {
		snprintf(s->error, sizeof(s->error), "rank %d sends %zu bytes to %d, which expects %zu (sub %u)", from,
			 sn->len, to, rn->len, sub);
		return false;
	}
	if (sn->len)
		memcpy(dst_of(s, to, rn), src_of(s, from, sn), sn->len);
	s->state[from][si] = s->state[to][ri] = DONE;
	return true;
}

static void accumulate(struct sim *s, int peer, const char *src, size_t dst_off, size_t len)
{
	for (size_t at = 0; at < len; at += 8) {
		uint64_t operand = hdl_enc_word(s->enc, src + at, len - at), acc;
		char *p = s->ranks[peer].space[HDL_SP_ACC] + dst_off + at;

		memcpy(&acc, p, 8);
		if (s->enc->atomic == HDL_ENC_SET) {
			acc = (acc & ~operand) | (operand & operand);
		} else {
			uint64_t carry_in = 0, sum = 0;

			/* Bit by bit: the reference knows nothing of tricks. */
			for (int bit = 0; bit < 64; bit++) {
				uint64_t a = acc >> bit & 1, b = operand >> bit & 1, t = a + b + carry_in;

				sum |= (t & 1) << bit;
				carry_in = s->enc->boundary >> bit & 1 ? 0 : t >> 1;
			}
			acc = sum;
		}
		memcpy(p, &acc, 8);
	}
}

/* A put writes the bytes that the arrival waits for. The star's signals stand for the additions before them. */
static bool fits(const struct hdl_node *put, const struct hdl_node *arrive)
{
	if (arrive->dst_space == HDL_SP_ACC)
		return !put->len;
	return (put->stamped ? put->stride : put->len) == arrive->len &&
	       (!put->len || (put->dst_space == arrive->dst_space && put->dst_off == arrive->dst_off));
}

/* The device's result of several operands, computed by the host's loop on the values that the operands encode. */
static void combine(struct sim *s, const struct hdl_graph *g, const struct hdl_node *n, const char *src, char *dst)
{
	size_t count = s->enc->form == HDL_ENC_PLAIN ? n->len / g->esize : 1, bytes = count * g->esize;
	size_t step = s->enc->form == HDL_ENC_PLAIN ? n->len : HDL_CALC_ELEMENT;
	char sum[64], value[64], *a = bytes > sizeof(sum) ? malloc(bytes) : sum,
				 *b = bytes > sizeof(value) ? malloc(bytes) : value;

	/* 8 bytes of elements in one of CALC */
	if (s->enc->form == HDL_ENC_WORDS) {
		count = 8 / g->esize;
		bytes = 8;
	}
	for (size_t at = 0; at < n->len; at += step) {
		hdl_enc_decode(s->enc, a, src + at, bytes);
		for (unsigned k = 1; k < n->nsrc; k++) {
			hdl_enc_decode(s->enc, b, src + k * n->stride + at, bytes);
			g->fn(b, a, count);
		}
		hdl_enc_encode(s->enc, dst + at, a, bytes);
	}
	for (size_t at = n->stride - HDL_STAMPS; n->stamped && at < n->stride; at++) {
		dst[at] = src[at];
		for (unsigned k = 1; k < n->nsrc; k++)
			dst[at] &= src[k * n->stride + at];
	}
	if (a != sum)
		free(a);
	if (b != value)
		free(b);
}

static bool start(struct sim *s, int r, uint32_t i)
{
	const struct hdl_graph *g = s->ranks[r].g;
	const struct hdl_node *n = &g->nodes[i];

	s->state[r][i] = STARTED;
	switch (n->kind) {
	case HDL_N_SEND:
		return match(s, r, n->peer, n->sub);
	case HDL_N_RECV:
		return match(s, n->peer, r, n->sub);
	case HDL_N_COPY:
		memcpy(dst_of(s, r, n), src_of(s, r, n), n->len);
		break;
	case HDL_N_REDUCE:
		g->fn(src_of(s, r, n), dst_of(s, r, n), n->len / g->esize);
		break;
	case HDL_N_ENCODE:
		hdl_enc_encode(s->enc, dst_of(s, r, n), src_of(s, r, n), n->len);
		break;
	case HDL_N_DECODE:
		hdl_enc_decode(s->enc, dst_of(s, r, n), src_of(s, r, n), n->len);
		break;
	case HDL_N_STAMP:
		memcpy(dst_of(s, r, n), (uint64_t[]){ n->stride + 1, ~(n->stride + 1) }, n->len);
		break;
	case HDL_N_CHECK:
		if (memcmp(src_of(s, r, n), (uint64_t[]){ n->stride + 1, ~(n->stride + 1) }, n->len)) {
			snprintf(s->error, sizeof(s->error), "rank %d: no stamp of %zu bytes at %zu", r, n->stride, n->src_off);
			return false;
		}
		break;
	case HDL_N_ACCUM:
		accumulate(s, n->peer, src_of(s, r, n), n->dst_off, n->len);
		break;
	case HDL_N_PUT: {
		int64_t ai = find_message(s, n->peer, HDL_N_ARRIVE, WAITING, r, 0, n->link);

		if (ai < 0) {
			snprintf(s->error, sizeof(s->error), "rank %d puts to %d, which expects no more", r, n->peer);
			return false;
		}
		if (!fits(n, &s->ranks[n->peer].g->nodes[ai])) {
			snprintf(s->error, sizeof(s->error), "rank %d puts %zu bytes to %d, which expects %zu, or elsewhere", r,
				 n->len, n->peer, s->ranks[n->peer].g->nodes[ai].len);
			return false;
		}
		if (n->len && n->nsrc > 1)
			combine(s, g, n, src_of(s, r, n), s->ranks[n->peer].space[n->dst_space] + n->dst_off);
		else if (n->len)
			memcpy(s->ranks[n->peer].space[n->dst_space] + n->dst_off, src_of(s, r, n), n->len);
		s->state[n->peer][ai] = STARTED;	/* landed; done once its predecessors are */
		break;
	}
	case HDL_N_ARRIVE:
		break;
	default:
		snprintf(s->error, sizeof(s->error), "rank %d: unknown node kind %u", r, n->kind);
		return false;
	}
	s->state[r][i] = DONE;
	return true;
}

static bool runnable(struct sim *s, int r, uint32_t i)
{
	const struct hdl_node *n = &s->ranks[r].g->nodes[i];

	if (s->state[r][i] != (n->kind == HDL_N_ARRIVE ? STARTED : WAITING) || !preds_done(s, r, i))
		return false;
	return !is_device(n) || link_head(s, r, i);
}

/* The next step of a rank in program order: its cursor's node, unless that waits for something. */
static int64_t program_next(struct sim *s, int r)
{
	const struct hdl_graph *g = s->ranks[r].g;

	while (s->cursor[r] < g->nnodes) {
		uint32_t i = s->cursor[r];

		if (s->state[r][i] == DONE || (s->state[r][i] == STARTED && g->nodes[i].kind == HDL_N_SEND)) {
			s->cursor[r]++;
			continue;
		}
		return runnable(s, r, i) ? (int64_t)i : -1;
	}
	return -1;
}

/* A random runnable node of a random rank; false if there is none. */
static bool choose(struct sim *s, int *rank, uint32_t *node)
{
	int first = (int)draw(s, (unsigned)s->n);

	for (int k = 0; k < s->n; k++) {
		int r = (first + k) % s->n;
		const struct hdl_graph *g = s->ranks[r].g;
		uint32_t from;

		if (s->mode == SIM_PROGRAM_ORDER) {
			int64_t i = program_next(s, r);

			if (i >= 0) {
				*rank = r;
				*node = (uint32_t)i;
				return true;
			}
			continue;
		}
		from = g->nnodes ? draw(s, g->nnodes) : 0;
		for (uint32_t j = 0; j < g->nnodes; j++) {
			uint32_t i = (from + j) % g->nnodes;

			if (runnable(s, r, i)) {
				*rank = r;
				*node = i;
				return true;
			}
		}
	}
	return false;
}

/* Checks each rank's graph: nodes depend on earlier nodes only; nodes in front of (behind) the device's part do not wait for
 * the part (are not waited for by it); a link is used once in each direction; all slots have one size, and the named offsets
 * are inside. Mismatches between ranks, and endless waits, show when the graphs run. */
static bool validate(struct sim *s, int r)
{
	const struct hdl_graph *g = s->ranks[r].g;

	if (g->data_bytes != s->ranks[0].g->data_bytes && g->nodes && s->ranks[0].g->data_bytes) {
		snprintf(s->error, sizeof(s->error), "rank %d's slot has %zu bytes, rank 0's %zu", r, g->data_bytes,
			 s->ranks[0].g->data_bytes);
		return false;
	}
	for (uint32_t i = 0; i < g->nnodes; i++) {
		const struct hdl_node *n = &g->nodes[i];
		bool device = is_device(n) || n->kind == HDL_N_ARRIVE;

		for (uint32_t p = 0; p < n->npreds; p++) {
			uint32_t on = g->preds[n->pred0 + p];

			if (on >= i) {
				snprintf(s->error, sizeof(s->error), "rank %d: node %u waits for %u", r, i, on);
				return false;
			}
		}
		for (uint32_t j = 0; device && j < i && n->kind != HDL_N_ACCUM && n->link != HDL_LINK_MAILBOX; j++)
			if (g->nodes[j].kind == n->kind && g->nodes[j].link == n->link && g->nodes[j].peer == n->peer) {
				snprintf(s->error, sizeof(s->error), "rank %d: nodes %u and %u use the same link", r, j, i);
				return false;
			}
		if ((n->src_space == HDL_SP_DATA && n->src_off + hdl_node_src_len(n) > g->data_bytes) ||
		    (n->dst_space == HDL_SP_DATA && n->dst_off + hdl_node_dst_len(n) > g->data_bytes)) {
			snprintf(s->error, sizeof(s->error), "rank %d: node %u is outside of the slot", r, i);
			return false;
		}
	}
	return true;
}

const char *sim_run(struct sim_rank *ranks, int n, enum sim_mode mode, const struct hdl_enc *enc, unsigned seed)
{
	static char error[256];
	struct sim s = { .ranks = ranks, .n = n, .mode = mode, .enc = enc, .rng = seed * 2654435761u + 1 };
	uint32_t i;
	int r;

	s.state = calloc((size_t)n, sizeof(*s.state));
	s.cursor = calloc((size_t)n, sizeof(*s.cursor));
	for (r = 0; r < n; r++)
		s.state[r] = calloc(ranks[r].g->nnodes + 1, sizeof(**s.state));
	for (r = 0; r < n && enc && validate(&s, r); r++)
		;
	while (!*s.error && choose(&s, &r, &i))
		start(&s, r, i);
	for (r = 0; r < n && !*s.error; r++)
		for (i = 0; i < ranks[r].g->nnodes; i++)
			if (s.state[r][i] != DONE && !*s.error)
				snprintf(s.error, sizeof(s.error), "deadlock: rank %d, node %u (kind %u, peer %d) is not done",
					 r, i, ranks[r].g->nodes[i].kind, ranks[r].g->nodes[i].peer);
	for (r = 0; r < n; r++)
		free(s.state[r]);
	free(s.state);
	free(s.cursor);
	snprintf(error, sizeof(error), "%s", s.error);
	return *error ? error : NULL;
}
