/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host executor without a graph: a builder carries each node out at once (hdl_gb_new_now). For blocking v-collectives of
 * small blocks, whose graph would be used once and cost more than their messages.
 *
 * The process keeps a list of spare structs, and each call takes one: with MPI_THREAD_MULTIPLE other threads run collectives
 * while a call waits.
 */
#include <stdlib.h>
#include <string.h>

#include "collectives/host/host.h"
#include "collectives/internal.h"

#define SCRATCH	((size_t)32 << 10)	/* bytes of scratch at first */
#define SCRATCH_KEPT ((size_t)1 << 20)	/* scratch grows to the bytes that a call has used, up to this */

static struct hdl_immediate *spare;

struct hdl_kept {
	struct hdl_send send;
	struct hdl_node node;		/* a copy: the builder's node is gone when the send ends */
	struct hdl_run *run;
	struct hdl_kept *next;
	bool done, withdrawn;
};

struct hdl_more {
	struct hdl_more *next;
	void *p;
};

/* ---- scratch ------------------------------------------------------------------------------------------------ */

static void *more_tmp(struct hdl_immediate *s, size_t bytes)
{
	struct hdl_more *m = malloc(sizeof(*m));
	void *p = m ? aligned_alloc(64, bytes) : NULL;

	if (!p) {
		free(m);
		return NULL;
	}
	*m = (struct hdl_more){ s->more, p };
	s->more = m;
	return p;
}

void *hdl_immediate_tmp(struct hdl_immediate *s, size_t bytes)
{
	size_t at = s->used;

	bytes = (bytes + 63) & ~(size_t)63;
	s->used += bytes;
	if (unlikely(s->used > s->size))
		return more_tmp(s, bytes ? bytes : 64);
	return s->scratch + at;
}

static void give_back_more(struct hdl_immediate *s)
{
	while (s->more) {
		struct hdl_more *m = s->more;

		s->more = m->next;
		free(m->p);
		free(m);
	}
	if (s->used > SCRATCH_KEPT)
		return;
	free(s->scratch);
	s->size = s->used;
	s->scratch = aligned_alloc(64, s->size);
	if (!s->scratch)
		s->size = 0;
}

/* ---- nodes -------------------------------------------------------------------------------------------------- */

static void kept_sent(struct hdl_send *send, int err)
{
	struct hdl_kept *k = container_of(send, struct hdl_kept, send);

	if (err)
		hdl_run_send_failed(k->run, &k->node, err);
	k->done = true;
}

static __attribute__((noinline)) void keep_send(struct hdl_immediate *s, const struct hdl_node *n)
{
	struct hdl_kept *k = hdl_immediate_tmp(s, sizeof(*k));
	int rc = -ENOMEM;

	if (k) {
		*k = (struct hdl_kept){ .send.done = kept_sent, .node = *n, .run = &s->run, .next = s->kept };
		rc = hdl_run_send(&s->run, &k->node, &k->send);
	}
	if (!rc)
		s->kept = k;
	else if (rc < 0)
		hdl_run_send_failed(&s->run, n, rc);
}

static bool is_sent(const void *arg)
{
	const struct hdl_kept *k = arg;

	return k->done || (!k->withdrawn && ((const struct hdl_cc *)k->run->comm->coll)->lost);
}

static void immediate_wait_for(struct hdl_kept *k)
{
	int peer = k->node.peer;
	struct hdl_comm *comm = hdl_peer_comm(k->run->comm, &peer);

	hdl_wait_until(is_sent, k);
	if (likely(k->done))
		return;
	k->withdrawn = true;
	hdl_run_error(k->run, MPI_ERR_PROC_ABORTED);
	hdl_send_withdraw(&k->send, peer, comm);
	hdl_wait_until(is_sent, k);
}

/* Waits for the sends that read these bytes, which are about to be written. Waiting for all sends could deadlock: the receiver of
 * another send may wait for a message that this rank sends later. */
static __attribute__((noinline)) void wait_for_sends_of(const struct hdl_immediate *s, size_t off, size_t len)
{
	for (struct hdl_kept *k = s->kept; k; k = k->next)
		if (!k->done && k->node.src_off < off + len && off < k->node.src_off + k->node.len)
			immediate_wait_for(k);
}

static void immediate_carry_out(void *arg, const struct hdl_node *n)
{
	struct hdl_immediate *s = arg;
	struct hdl_run *run = &s->run;

	if (unlikely(!hdl_run_goes_on(run)))
		return;
	if (n->kind == HDL_N_SEND) {
		if (unlikely(!hdl_run_send_now(run, n)))
			keep_send(s, n);
		return;
	}
	if (unlikely(s->kept))
		wait_for_sends_of(s, n->dst_off, n->len);
	if (n->kind == HDL_N_RECV)
		hdl_run_recv(run, n);
	else if (likely(!run->error))
		hdl_run_local(run, n);
}

static void *tmp(void *arg, size_t bytes)
{
	return hdl_immediate_tmp(arg, bytes);
}

static const struct hdl_gb_now now = { immediate_carry_out, tmp };

/* ---- calls -------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) struct hdl_immediate *immediate_make(void)
{
	struct hdl_immediate *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->size = SCRATCH;
	s->scratch = aligned_alloc(64, SCRATCH);
	s->gb = hdl_gb_new_now(&now, s);
	if (!s->scratch || !s->gb) {
		free(s->scratch);
		if (s->gb)
			hdl_graph_free(hdl_gb_finish(s->gb));
		free(s);
		return NULL;
	}
	s->run.g = hdl_gb_graph(s->gb);
	return s;
}

struct hdl_immediate *hdl_immediate_begin(struct hdl_comm *comm)
{
	struct hdl_cc *cc = hdl_coll_state(comm);
	struct hdl_immediate *s = spare;

	if (unlikely(!cc))
		return NULL;
	if (likely(s))
		spare = s->next;
	else
		s = immediate_make();
	if (unlikely(!s))
		return NULL;
	s->used = 0;
	s->run.comm = comm;
	s->run.tag = hdl_coll_tag(cc->seq++);
	cc->pending++;
	hdl_coll_pending++;
	if (unlikely(cc->lost))
		hdl_run_error(&s->run, MPI_ERR_PROC_ABORTED);
	return s;
}

int hdl_immediate_end(struct hdl_immediate *s)
{
	if (unlikely(!hdl_gb_end_now(s->gb))) {
		hdl_reason_set("no memory for the collective's scratch");
		hdl_run_error(&s->run, MPI_ERR_NO_MEM);
	}
	for (struct hdl_kept *k = s->kept; unlikely(k); k = k->next)
		if (!k->done)
			immediate_wait_for(k);
	s->kept = NULL;
	return s->run.error;
}

void hdl_immediate_put(struct hdl_immediate *s)
{
	((struct hdl_cc *)s->run.comm->coll)->pending--;
	hdl_coll_pending--;
	if (unlikely(s->more))
		give_back_more(s);
	if (unlikely(s->run.error)) {
		s->run.error = MPI_SUCCESS;
		s->run.mode = HDL_RUN_NORMAL;
		s->run.why[0] = 0;
	}
	s->next = spare;
	spare = s;
}

void hdl_immediate_fini(void)
{
	while (spare) {
		struct hdl_immediate *s = spare;

		spare = s->next;
		hdl_graph_free(hdl_gb_finish(s->gb));
		free(s->scratch);
		free(s);
	}
}
